use hugewise_model::{Level, UnknownVerdict};

use crate::CheckReport;

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

impl CheckReport<'_> {
    /// The outcome if findings of this level or worse fail the check (`None`: no finding does).
    /// Findings win over missing facts, and a fact that a running kernel does not have is not
    /// missing.
    pub fn decide_outcome(&self, fail_on: Option<Level>) -> CheckOutcome {
        let CheckReport { host, assessment, unread, .. } = self;
        let fails = |level: Level| assessment.findings.iter().any(|finding| finding.level >= level);
        let lossy = !host.live && !unread.is_empty();
        // Every kernel tells of its processes and what they map; a sosreport may not.
        let lost = |verdict: &UnknownVerdict| {
            !host.live && (verdict.instance.is_some() || !host.processes.is_known())
        };
        if fail_on.is_some_and(fails) {
            CheckOutcome::Found
        } else if host.unseen_reason().is_some()
            || !self.open_moments().is_empty()
            || assessment
                .unknown
                .iter()
                .any(|verdict| lossy || lost(verdict) || !verdict.why.is_absent())
        {
            CheckOutcome::Incomplete
        } else {
            CheckOutcome::Fine
        }
    }
}
