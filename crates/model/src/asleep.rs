//! Servers that belong to a host and do not run.

use crate::Process;
use crate::configuration::Unit;

/// What says that a server which does not run belongs to the host, and whether the boot starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asleep {
    /// The file that says so: a unit, `/etc/oratab:3`, `/etc/postgresql/15/main/postgresql.conf`.
    pub known_by: String,
    /// Whether the boot starts it.
    pub at_boot: AtBoot,
    /// The process that it would be, as far as its owner tells: user, groups, CAP_IPC_LOCK; none where its owner is not known.
    pub process: Option<Box<Process>>,
    /// The service that starts it, where one is known to and what its files say decides on anything.
    pub unit: Option<Box<Unit>>,
}

impl Asleep {
    /// One of which no more is known.
    pub fn new(known_by: impl Into<String>, at_boot: AtBoot) -> Self {
        Self { known_by: known_by.into(), at_boot, process: None, unit: None }
    }
}

/// Whether a boot starts a server, each with what says so: `start.conf=auto (/etc/postgresql/15/main/start.conf:3)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtBoot {
    /// It does.
    Yes(String),
    /// Somebody has to.
    No(String),
    /// It cannot be told.
    Unknown(String),
}

impl AtBoot {
    /// Name in JSON.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Yes(_) => "yes",
            Self::No(_) => "no",
            Self::Unknown(_) => "unknown",
        }
    }

    /// The evidence for that.
    pub fn why(&self) -> &str {
        match self {
            Self::Yes(why) | Self::No(why) | Self::Unknown(why) => why,
        }
    }
}
