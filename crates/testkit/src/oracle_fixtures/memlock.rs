//! Limits on locked memory.

use std::fmt;

/// A limit on locked memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixtureMemlock {
    /// None.
    Unlimited,
    /// This many KiB.
    Kib(u64),
}

impl fmt::Display for FixtureMemlock {
    /// As limits.conf and `ulimit -l` have it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => write!(f, "unlimited"),
            Self::Kib(kib) => write!(f, "{kib}"),
        }
    }
}
