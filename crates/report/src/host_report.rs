use hugewise_diagnose::sizing::Sizing;
use hugewise_investigate::Investigation;

use crate::{CheckReport, PlanReport, SizeReport};

/// Version of hugewise that makes a document.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A host sized for so many sessions, as `hugewise size --sessions` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Stop {
    /// Sessions on the host.
    pub sessions: u64,
    /// The answer.
    pub sizing: Sizing,
}

/// A host checked, sized and planned for, from one reading, with its archives investigated.
pub struct HostReport<'a> {
    /// Seconds since the epoch.
    pub made_at: i64,
    /// What is wrong.
    pub checked: CheckReport<'a>,
    /// What its servers need, or why that cannot be said.
    pub sized: Result<SizeReport<'a>, &'a str>,
    /// The same for other numbers of sessions, in order.
    pub stops: &'a [Stop],
    /// What would put it right, or why there is no plan.
    pub planned: Result<PlanReport<'a>, &'a str>,
    /// What happened on it, by the archives that were given.
    pub investigation: Option<&'a Investigation>,
}
