//! Who vouches for an instance: root acts for no other.

crate::named_enum! {
    /// What vouches for an instance; an unprivileged user can arrange none of these.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum TrustReason as_str {
        /// A systemd unit of the host runs it alone, as the unit's user.
        Unit = "unit",
        /// It runs as an account that is made for servers of its kind: `postgres`, `mysql`,
        /// `oracle`.
        Account = "account",
        /// It runs as root, and root has started it.
        Root = "root",
        /// A container runtime of the host has started it.
        Container = "container",
        /// It does not run, and a file that only root or a server's account can write lists it.
        Listed = "listed",
        /// Whoever runs hugewise has named it.
        Named = "named",
        /// Whoever runs hugewise has described it.
        Described = "described",
    }
}

/// What was looked for in an instance that runs, to trust it or not. For people: nothing is decided
/// by these words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustProofs {
    /// What was found of the reasons that hold.
    pub held: Vec<String>,
    /// What each other reason lacks.
    pub failed: Vec<(TrustReason, String)>,
}
