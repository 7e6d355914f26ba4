//! A plan, what became of it, and what was taken back: what the renderers show.

use hugewise_advice::standing::Standing;
use hugewise_change::journal::{Summary, Unreadable};
use hugewise_change::plan::{Expected, Plan};
use hugewise_change::{Applied, Undone, Unkept};
use hugewise_model::{Host, Unread};

/// A plan.
pub struct Planned<'a> {
    /// The host that it is for.
    pub host: &'a Host,
    /// The plan.
    pub plan: &'a Plan,
    /// The file that keeps it, where one does.
    pub kept: Option<&'a str>,
    /// The options that it was made with, as words of a command, each behind a space: `apply` needs them to make the same one.
    pub options: &'a str,
    /// It is shown to somebody who is asked whether to carry it out: no word on how to.
    pub asking: bool,
    /// Everything that is there and could not be read, sorted.
    pub unread: &'a [Unread],
}

/// What became of a finding that a step was to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proof {
    /// It is gone.
    Gone,
    /// It is there, and goes when the server has been restarted.
    WaitsForRestart,
    /// It is there, and goes when the host has been rebooted.
    WaitsForReboot,
    /// It is there, and should not be.
    Remains,
    /// The facts that it rests on could not be read.
    Unknown,
}

impl Proof {
    /// Name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::WaitsForRestart => "waits-for-restart",
            Self::WaitsForReboot => "waits-for-reboot",
            Self::Remains => "remains",
            Self::Unknown => "unknown",
        }
    }
}

/// A finding that a step was to end, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The finding.
    pub expected: Expected,
    /// What happened to it.
    pub proof: Proof,
    /// What the finding says now; empty if it is gone.
    pub says: String,
}

/// A server that the plan has restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restarted {
    /// Its title.
    pub instance: String,
    /// Where its memory is now; `None` where it does not run.
    pub standing: Option<Standing>,
}

/// A plan that was carried out, or not.
pub struct AppliedReport<'a> {
    /// The host as it is now.
    pub host: &'a Host,
    /// The plan.
    pub plan: &'a Plan,
    /// How it ended.
    pub applied: &'a Applied,
    /// What it was to end, looked at again.
    pub expectations: &'a [Expectation],
    /// The servers that it has restarted.
    pub restarted: &'a [Restarted],
    /// Changes that the next boot, login or start of a server will not find in place.
    pub unkept: &'a [Unkept],
    /// Everything that is there and could not be read now, sorted.
    pub unread: &'a [Unread],
}

/// A plan that was taken back, or not.
pub struct UndoneReport<'a>(pub &'a Undone);

/// What was applied on a host so far.
pub struct Kept<'a> {
    /// The applies, the oldest first.
    pub journals: &'a [Summary],
    /// What lies among their journals and cannot be read as one.
    pub unreadable: &'a [Unreadable],
}
