//! Servers that belong to a host and do not run.

use crate::Process;
use crate::configuration::ServiceUnit;

/// What says that a stopped server belongs to the host, and whether the boot starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppedInstance {
    /// The file that says so: a unit, `/etc/oratab:3`, `/etc/postgresql/15/main/postgresql.conf`.
    pub known_by: String,
    /// Whether the boot starts it.
    pub at_boot: AtBoot,
    /// The process that it would be: its owner's user, groups, CAP_IPC_LOCK; `None` where unknown.
    pub process: Option<Box<Process>>,
    /// The service that starts it, where its files decide on anything.
    pub unit: Option<Box<ServiceUnit>>,
}

impl StoppedInstance {
    /// One of which no more is known.
    pub fn new(known_by: impl Into<String>, at_boot: AtBoot) -> Self {
        Self { known_by: known_by.into(), at_boot, process: None, unit: None }
    }
}

/// Whether a boot starts a server, with the evidence: `start.conf=auto
/// (/etc/postgresql/15/main/start.conf:3)`.
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
    pub fn boot_evidence(&self) -> &str {
        match self {
            Self::Yes(why) | Self::No(why) | Self::Unknown(why) => why,
        }
    }
}
