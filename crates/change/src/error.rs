//! What can go wrong, in words that name the file and what to do.

use std::fmt;

use hugewise_system::{Busy, Failure, Unfit};

use crate::diff::Difference;

/// Why nothing was changed, or what could not be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Only root changes a host.
    NotRoot,
    /// `/proc` or `/sys` is not the kernel's own: whatever is written there would change nothing.
    NotReal {
        /// Which of them.
        path: String,
        /// What it is instead.
        is: String,
    },
    /// This is a container or a chroot: what is written here is not the host's, and of the host not all is seen.
    Confined {
        /// How that is known.
        why: String,
        /// What to do instead.
        instead: String,
    },
    /// Another process changes this host: an apply or undo, a command that a killed one has started, or the lab.
    Busy(Busy),
    /// The plan is for another host.
    OtherHost {
        /// Host of the plan.
        plan: String,
        /// This one.
        here: String,
    },
    /// The plan holds a change that hugewise does not make.
    NotAllowed {
        /// The step.
        step: String,
        /// The change.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// The plan was refused for the memory that it leaves, or another reason that `--force` overrules.
    Refused {
        /// With numbers, one line each.
        reasons: Vec<String>,
    },
    /// The host is not as it was when the plan was made.
    Drifted(Vec<Difference>),
    /// What was applied was changed since, by somebody else.
    ChangedSince {
        /// The journal that was to be undone.
        journal: String,
        /// What is there against what we left.
        differences: Vec<Difference>,
    },
    /// Nothing was applied that is not undone.
    NothingToUndo,
    /// There is no such journal.
    NoSuchJournal(String),
    /// That journal was undone already, or its apply took everything back.
    AlreadyUndone(String),
    /// A journal makes no sense, or a newer version wrote it.
    Unreadable(Unreadable),
    /// Something could not be read or done.
    Failed(Failure),
}

const ON_THE_HOST: &str = "run hugewise apply on the host itself. hugewise plan --format shell (or ansible, cloud-init) \
                           writes the same changes for it";

impl From<Unfit> for Error {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::NotRoot => Self::NotRoot,
            Unfit::NotReal { path, is } => Self::NotReal { path, is },
            Unfit::Confined { why } => Self::Confined { why, instead: ON_THE_HOST.into() },
            Unfit::Failed(failure) => Self::Failed(failure),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRoot => f.write_str("only root can change a host: run it with sudo"),
            Self::NotReal { path, is } => write!(
                f,
                "{path} does not come from the kernel ({is}), so writing there changes nothing: run hugewise on the \
                 host itself"
            ),
            Self::Confined { why, instead } => {
                write!(f, "cannot change the host from here: {why}. Nothing was changed; {instead}")
            }
            Self::Busy(busy) => busy.fmt(f),
            Self::OtherHost { plan, here } => {
                write!(f, "the plan was made for {plan}, and this is {here}: make one here with 'hugewise plan'")
            }
            Self::NotAllowed { step, what, why } => {
                write!(f, "step {step}: {what}: {why}; nothing was changed")
            }
            Self::Refused { reasons } => {
                write!(f, "{}; --force applies the plan anyway", reasons.join("; "))
            }
            Self::Drifted(differences) => {
                f.write_str("the host has changed since the plan was made: make a new one with 'hugewise plan'")?;
                differences.iter().try_for_each(|difference| write!(f, "\n{difference}"))
            }
            Self::ChangedSince { journal, differences } => {
                write!(
                    f,
                    "somebody has changed what apply {journal} wrote: put it back, or overwrite it with --force"
                )?;
                differences.iter().try_for_each(|difference| write!(f, "\n{difference}"))
            }
            Self::NothingToUndo => f.write_str("nothing to undo. 'hugewise undo --list' shows past changes"),
            Self::NoSuchJournal(id) => {
                write!(f, "there is no apply {id} in {}; 'hugewise undo --list' shows the numbers", crate::JOURNALS)
            }
            Self::AlreadyUndone(id) => write!(f, "apply {id} has been undone already"),
            Self::Unreadable(journal) => journal.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// What lies among the journals and cannot be read as one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} cannot be read: {why}; {}", self.advice())]
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
    /// What to do about it.
    pub fn advice(&self) -> String {
        let aside = format!("'mv {} /root/' makes hugewise forget it", self.path);
        match (self.newer, self.id) {
            (true, Some(id)) => {
                format!("undo it with the version that wrote it (hugewise undo {id}), or {aside}")
            }
            (_, Some(_)) => {
                format!("hugewise cannot tell whether that apply ended or what it changed: look at the file; {aside}")
            }
            (_, None) => format!("hugewise ignores it; {aside}"),
        }
    }
}
