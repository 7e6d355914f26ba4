//! All that is said of a host in one document.

use hugewise_advice::sizing::Sizing;
use hugewise_incident::Investigation;

use crate::{Checked, Planned, SizeReport};

/// Version of hugewise that makes a document.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A host sized for so many sessions: what `hugewise size --sessions` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Stop {
    /// Sessions on the host.
    pub sessions: u64,
    /// The answer.
    pub sizing: Sizing,
}

/// A host checked, sized and planned for, from one reading, with what its archives tell: what the renderers show.
pub struct HostReport<'a> {
    /// When it was made, in seconds since the epoch.
    pub made_at: i64,
    /// What is wrong.
    pub checked: Checked<'a>,
    /// What its servers need, or why that cannot be said.
    pub sized: Result<SizeReport<'a>, &'a str>,
    /// The same for other numbers of sessions, in their order.
    pub stops: &'a [Stop],
    /// What would put it right, or why there is no plan.
    pub planned: Result<Planned<'a>, &'a str>,
    /// What happened on it, by the archives that were given.
    pub investigation: Option<&'a Investigation>,
}
