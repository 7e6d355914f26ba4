//! Who speaks for an instance: root acts for no other.

/// What speaks for an instance. None of these can be arranged by a user without rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Voucher {
    /// A systemd unit of the host runs it, and it alone, as the user that the unit names.
    Unit,
    /// It runs as an account that is made for servers of its kind: `postgres`, `mysql`, `oracle`.
    Account,
    /// It runs as root, and root has started it.
    Root,
    /// A container runtime of the host has started it.
    Container,
    /// It does not run, and a file that only root, or an account made for such servers, can write lists it as one of this host.
    Listed,
    /// Whoever runs hugewise has named it.
    Named,
    /// Whoever runs hugewise has described it.
    Described,
}

impl Voucher {
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
