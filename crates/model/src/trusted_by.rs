//! Who vouches for an instance: root acts for no other.

/// What vouches for an instance; an unprivileged user can arrange none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrustReason {
    /// A systemd unit of the host runs it alone, as the unit's user.
    Unit,
    /// It runs as an account that is made for servers of its kind: `postgres`, `mysql`, `oracle`.
    Account,
    /// It runs as root, and root has started it.
    Root,
    /// A container runtime of the host has started it.
    Container,
    /// It does not run, and a file that only root or a server's account can write lists it.
    Listed,
    /// Whoever runs hugewise has named it.
    Named,
    /// Whoever runs hugewise has described it.
    Described,
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

impl TrustReason {
    /// Name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Account => "account",
            Self::Root => "root",
            Self::Container => "container",
            Self::Listed => "listed",
            Self::Named => "named",
            Self::Described => "described",
        }
    }
}
