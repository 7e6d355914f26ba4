//! A plan, what became of it, and what was undone.

use hugewise_change::journal::{JournalSummary, Unreadable};
use hugewise_change::plan::{ExpectedResolution, Plan};
use hugewise_change::{ApplyResult, UnpersistedChange};
use hugewise_diagnose::coverage::Coverage;
use hugewise_model::{Host, Unread, named_enum};

/// A plan.
pub struct PlanReport<'a> {
    /// The host that it is for.
    pub host: &'a Host,
    /// The plan.
    pub plan: &'a Plan,
    /// The file that it was saved to.
    pub kept: Option<&'a str>,
    /// The options that it was made with, as words of a command, each behind a space: `apply` needs
    /// them to make the same plan.
    pub options: &'a str,
    /// Shown just before a question whether to apply it: without a word on how to.
    pub asking: bool,
    /// Everything that could not be read, sorted.
    pub unread: &'a [Unread],
}

named_enum! {
    /// What became of a finding that a step was to end.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Proof as_str {
        /// It is gone.
        Gone = "gone",
        /// It goes when the server has been restarted.
        WaitsForRestart = "waits-for-restart",
        /// It goes when the host has been rebooted.
        WaitsForReboot = "waits-for-reboot",
        /// It is there, and should not be.
        Remains = "remains",
        /// The facts that it rests on could not be read.
        Unknown = "unknown",
    }
}

/// A finding that a step was to end, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingOutcome {
    /// The finding.
    pub expected: ExpectedResolution,
    /// What happened to it.
    pub proof: Proof,
    /// What the finding says now; empty if it is gone.
    pub says: String,
}

/// A server that the plan has restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartedServer {
    /// Its title.
    pub instance: String,
    /// Where its memory is now; `None` if it does not run.
    pub standing: Option<Coverage>,
}

/// What `hugewise apply` did.
pub struct AppliedReport<'a> {
    /// The host as it is now.
    pub host: &'a Host,
    /// The plan.
    pub plan: &'a Plan,
    /// How it ended.
    pub applied: &'a ApplyResult,
    /// The findings that it was to end, looked at again.
    pub expectations: &'a [FindingOutcome],
    /// The servers that it has restarted.
    pub restarted: &'a [RestartedServer],
    /// Changes that will not last until the next boot, login or start of a server.
    pub unkept: &'a [UnpersistedChange],
    /// Everything that could not be read now, sorted.
    pub unread: &'a [Unread],
}

/// What was applied on a host so far.
pub struct JournalListing<'a> {
    /// The applies, oldest first.
    pub journals: &'a [JournalSummary],
    /// Files among the journals that cannot be read as one.
    pub unreadable: &'a [Unreadable],
}
