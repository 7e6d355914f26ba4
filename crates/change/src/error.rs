//! What can go wrong, in words that name the file and what to do.

use hugewise_system::{Busy, SystemFailure, Unfit};

use crate::diff::StateDifference;
use crate::journal::journal_path;

/// Why nothing was changed, or what could not be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not as root, or `/proc` or `/sys` is not the kernel's own.
    #[error(transparent)]
    Unfit(Unfit),
    /// A container or a chroot: what is written here is not the host's, and not all of it is seen.
    #[error("cannot change the host from here: {why}. Nothing was changed; {instead}")]
    Confined {
        /// How that is known.
        why: String,
        /// What to do instead.
        instead: String,
    },
    /// An apply or undo, a command that a killed one started, or the lab is changing this host.
    #[error(transparent)]
    Busy(Busy),
    /// The plan is for another host.
    #[error("the plan was made for {plan}, and this is {here}: make one here with 'hugewise plan'")]
    OtherHost {
        /// Host of the plan.
        plan: String,
        /// This one.
        here: String,
    },
    /// The plan holds a change that hugewise does not make.
    #[error("step {step}: {what}: {why}; nothing was changed")]
    NotAllowed {
        /// The step.
        step: String,
        /// The change.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The plan leaves too little memory, or has another flaw that `--force` overrules.
    #[error("{}; --force applies the plan anyway", .reasons.join("; "))]
    Refused {
        /// With numbers, one line each.
        reasons: Vec<String>,
    },
    /// The host is not as it was when the plan was made.
    #[error(
        "the host has changed since the plan was made: make a new one with 'hugewise plan'{}",
        on_lines(.0)
    )]
    Drifted(Vec<StateDifference>),
    /// What was applied was changed since, by somebody else.
    #[error(
        "somebody has changed what apply {journal} wrote: put it back, or overwrite it with \
         --force{}",
        on_lines(.differences)
    )]
    ChangedSince {
        /// The journal that was to be undone.
        journal: String,
        /// What is there against what we left.
        differences: Vec<StateDifference>,
    },
    /// Nothing was applied that is not undone.
    #[error("nothing to undo. 'hugewise undo --list' shows past changes")]
    NothingToUndo,
    /// There is no such journal.
    #[error(
        "there is no apply {0} in {journals}; 'hugewise undo --list' shows the numbers",
        journals = crate::JOURNALS
    )]
    NoSuchJournal(String),
    /// That journal was undone already, or its apply took everything back.
    #[error("apply {0} has been undone already")]
    AlreadyUndone(String),
    /// A journal makes no sense, or a newer version wrote it.
    #[error(transparent)]
    Unreadable(Unreadable),
    /// Something could not be read or done.
    #[error(transparent)]
    Failed(#[from] SystemFailure),
}

fn on_lines(differences: &[StateDifference]) -> String {
    differences.iter().map(|difference| format!("\n{difference}")).collect()
}

const ON_THE_HOST: &str = "run hugewise apply on the host itself. hugewise plan --format shell (or \
                           ansible, cloud-init) writes the same changes for it";

impl From<Unfit> for Error {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Confined { why } => Self::Confined { why, instead: ON_THE_HOST.into() },
            Unfit::Failed(failure) => Self::Failed(failure),
            unfit => Self::Unfit(unfit),
        }
    }
}

/// What lies among the journals and cannot be read as one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} cannot be read: {why}; {}", self.recovery_advice())]
pub struct Unreadable {
    /// Its number, where its name has one.
    pub id: Option<u64>,
    /// Its file.
    pub path: String,
    /// What is wrong with it.
    pub why: String,
    /// A newer version of hugewise wrote it.
    pub newer: bool,
}

impl Unreadable {
    pub(crate) fn of_journal(id: u64, why: String, newer: bool) -> Self {
        Self { id: Some(id), path: journal_path(id), why, newer }
    }

    /// What to do about it.
    pub fn recovery_advice(&self) -> String {
        let aside = format!("'mv {} /root/' makes hugewise forget it", self.path);
        match (self.newer, self.id) {
            (true, Some(id)) => {
                format!("undo it with the version that wrote it (hugewise undo {id}), or {aside}")
            }
            (_, Some(_)) => format!(
                "hugewise cannot tell whether that apply ended or what it changed: look at the \
                 file; {aside}"
            ),
            (_, None) => format!("hugewise ignores it; {aside}"),
        }
    }
}
