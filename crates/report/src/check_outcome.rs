use hugewise_model::{Level, UnknownVerdict};

use crate::CheckReport;
use crate::view::closing::find_open_moment;

/// What `hugewise check` comes to, as its exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// Nothing is wrong: exit code 0.
    Fine,
    /// Something is wrong: 1.
    Found,
    /// A fact that a verdict needs could not be read: 3.
    Incomplete,
}

/// Whose servers have to be known for an answer to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedServers {
    /// Those that something vouches for: anybody can start a program of which nothing can be read,
    /// and must not keep a check of the host incomplete by that.
    VouchedFor,
    /// All that are told of, as somebody asked for them.
    Named,
}

impl CheckReport<'_> {
    /// The outcome if findings of this level or worse fail the check (`None`: no finding does).
    /// Findings win over missing facts, and a fact that a running kernel does not have is not
    /// missing.
    pub fn decide_outcome(&self, fail_on: Option<Level>, counted: CountedServers) -> CheckOutcome {
        let CheckReport { host, instances, assessment, unread, .. } = self;
        let fails = |level: Level| assessment.findings.iter().any(|finding| finding.level >= level);
        let lossy = !host.live && !unread.is_empty();
        // Every kernel tells of its processes and what they map; a sosreport may not.
        let lost = |verdict: &UnknownVerdict| {
            !host.live && (verdict.instance.is_some() || !host.processes.is_known())
        };
        let mut counting = instances
            .iter()
            .filter(|instance| counted == CountedServers::Named || instance.is_trusted());
        let is_passed_over = |verdict: &UnknownVerdict| {
            let is_of = |id| instances.iter().find(|instance| instance.has_id(id));
            counted == CountedServers::VouchedFor
                && verdict.instance.as_ref().and_then(is_of).is_some_and(|one| !one.is_trusted())
        };
        let is_open =
            |verdict: &&UnknownVerdict| lossy || lost(verdict) || !verdict.why.is_absent();
        if fail_on.is_some_and(fails) {
            CheckOutcome::Found
        } else if host.unseen_reason().is_some()
            || counting.any(|instance| find_open_moment(self, instance).is_some())
            || assessment.unknown.iter().filter(is_open).any(|verdict| !is_passed_over(verdict))
        {
            CheckOutcome::Incomplete
        } else {
            CheckOutcome::Fine
        }
    }
}
