//! What `hugewise check` comes to in one word, which its exit code stands for.

use hugewise_model::{Level, UnknownVerdict};

use crate::Checked;

/// What a check comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing is wrong: exit code 0.
    Fine,
    /// Something is wrong: 1.
    Found,
    /// A verdict is missing, as facts could not be read, or are not known: 3.
    Incomplete,
}

impl Checked<'_> {
    /// What the check comes to, where findings of this level or worse fail it; none where they never do.
    ///
    /// Findings win over what is missing. A fact that a running kernel does not have is not missing; one that a capture does
    /// not have may well have been lost, where other facts of it were.
    pub fn answer(&self, fail_on: Option<Level>) -> Answer {
        let Checked { host, assessment, unread, .. } = self;
        let fails = |level: Level| assessment.findings.iter().any(|finding| finding.level >= level);
        let lossy = !host.live && !unread.is_empty();
        // Every kernel tells of its processes and what they map; a sosreport may not.
        let lost = |verdict: &UnknownVerdict| !host.live && (verdict.instance.is_some() || !host.processes.is_known());
        if fail_on.is_some_and(fails) {
            Answer::Found
        } else if host.unseen().is_some()
            || !self.open_moments().is_empty()
            || assessment.unknown.iter().any(|verdict| lossy || lost(verdict) || !verdict.why.is_absent())
        {
            Answer::Incomplete
        } else {
            Answer::Fine
        }
    }
}
