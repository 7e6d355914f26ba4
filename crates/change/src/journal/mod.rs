//! What was there before: written, and on the disk, before anything is changed.
//!
//! A journal is one file under [`JOURNALS`], one record a line, each with a checksum. A line that a crash has torn is the
//! last one, and the change that it announces was not begun. Records are never changed, and journals are kept.

mod log;
mod shelf;

use std::cell::Cell;

use hugewise_system::{Busy, LOCK, Lock, OURS};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plan::{FileState, Plan, PoolRef};
use crate::{Error, Failure, JOURNALS, System};

pub use crate::error::Unreadable;
pub(crate) use log::{Entry, Log};
pub use shelf::list;
pub(crate) use shelf::{Shelf, read};

const SCHEMA: &str = "hugewise.journal/1";
const SUFFIX: &str = ".journal";

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub(crate) enum Record {
    /// An apply begins.
    Begin(Box<Begin>),
    /// A change is about to be made.
    Intent(Box<Intent>),
    /// The last change announced is made.
    Did(After),
    /// A step was taken back while the others went on.
    StepTakenBack { step: usize },
    /// All of it is being taken back.
    TakingBack,
    /// What a taking-back has left, by place: everything else is as before. `force` is for what waits; `tried` are those
    /// of them that do not wait: they could not be put back, or have to be done once more after what waits.
    Left {
        entries: Vec<usize>,
        force: bool,
        #[serde(default)]
        tried: Vec<usize>,
    },
    /// Apply or undo has ended.
    End { state: State, at: i64 },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) schema: String,
    pub(crate) hugewise: String,
    pub(crate) at: i64,
    pub(crate) boot_id: Option<String>,
    pub(crate) plan: Plan,
}

/// A change of the plan, and what is there before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Intent {
    pub(crate) step: usize,
    pub(crate) change: usize,
    pub(crate) before: Before,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Before {
    /// Of a value: itself, and of a pool its parts by node.
    Value { value: String, parts: Vec<(PoolRef, u64)> },
    /// Of a file: itself, and the folders that have to be made for it, the outermost first.
    File { file: Option<FileState>, folders: Vec<String> },
    /// Of a command: the files that it rewrites.
    Command { files: Vec<(String, Option<FileState>)> },
}

/// What a change left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum After {
    /// Of a pool: the pages obtained. Of everything else: what the plan says.
    Value(Option<String>),
    /// What the plan says.
    File,
    /// Of a command: the checksums of the files that it rewrites.
    Command(Vec<Option<String>>),
}

/// Where an apply stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It runs, or was killed.
    Running,
    /// It is done.
    Done,
    /// A step failed, and everything was taken back.
    TakenBack,
    /// It is being undone, or the undo was killed.
    Undoing,
    /// It could not be taken back whole.
    Stuck,
    /// It was undone but for what younger applies have changed since: that is taken back together with them.
    Waiting,
    /// It was undone but for what somebody else has in hand: that is left as it is.
    UndoneExcept,
    /// It was undone.
    Undone,
}

impl State {
    /// Name in text and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::TakenBack => "taken-back",
            Self::Undoing => "undoing",
            Self::Stuck => "stuck",
            Self::Waiting => "waiting",
            Self::UndoneExcept => "undone-except",
            Self::Undone => "undone",
        }
    }

    /// Whether nothing of it is left to undo.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::TakenBack | Self::Undone)
    }

    /// Whether there is nothing that has to be undone.
    pub const fn is_closed(self) -> bool {
        self.is_over() || matches!(self, Self::UndoneExcept)
    }

    /// Whether a part of it may be done and another not.
    pub const fn is_unfinished(self) -> bool {
        matches!(self, Self::Running | Self::Undoing | Self::Stuck)
    }
}

/// One journal, as `hugewise undo --list` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// `7`.
    pub id: String,
    /// When the apply began, in seconds since 1970.
    pub at: i64,
    /// Version of hugewise that applied it.
    pub hugewise: String,
    /// Where it stands.
    pub state: State,
    /// Titles of the plan's steps.
    pub steps: Vec<String>,
}

/// Writes records.
pub(crate) struct Journal<'a> {
    system: &'a dyn System,
    path: String,
    id: u64,
    /// A line could not be written whole: what is there of it has to go before the next one.
    broken: Cell<bool>,
}

impl<'a> Journal<'a> {
    /// A new journal, with the plan in it.
    pub(crate) fn begin(system: &'a dyn System, plan: &Plan, boot_id: Option<String>) -> Result<Self, Error> {
        let id = Shelf::read(system)?.next()?;
        let journal = Self { system, path: path(id), id, broken: Cell::new(false) };
        let begin = Begin {
            schema: SCHEMA.into(),
            hugewise: env!("CARGO_PKG_VERSION").into(),
            at: system.now(),
            boot_id,
            plan: plan.clone(),
        };
        journal.add(&Record::Begin(Box::new(begin)))?;
        Ok(journal)
    }

    /// Goes on with one that was read; what a crash has torn is cut off.
    pub(crate) fn resume(system: &'a dyn System, log: &Log) -> Result<Self, Failure> {
        let journal = Self { system, path: path(log.id), id: log.id, broken: Cell::new(false) };
        if log.torn {
            system.cut(&journal.path, u64::try_from(log.sound).unwrap_or(u64::MAX))?;
        }
        Ok(journal)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn add(&self, record: &Record) -> Result<(), Failure> {
        let json = serde_json::to_string(record).map_err(|error| Failure::new(&self.path, error.to_string()))?;
        if self.broken.get() {
            self.mend()?;
        }
        let written = self.system.append(&self.path, format!("{} {json}\n", sum(json.as_bytes())).as_bytes());
        self.broken.set(written.is_err());
        written
    }

    /// Cuts off what a full disk has left of a line.
    fn mend(&self) -> Result<(), Failure> {
        let text = self.system.text(&self.path)?.unwrap_or_default();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            self.system.cut(&self.path, u64::try_from(whole).unwrap_or(u64::MAX))?;
        }
        Ok(())
    }

    pub(crate) fn end(&self, state: State) -> Result<(), Failure> {
        self.add(&Record::End { state, at: self.system.now() })
    }
}

/// Takes the lock, making the folders that it and the journals lie in.
pub(crate) fn lock(system: &dyn System) -> Result<Box<dyn Lock>, Error> {
    for folder in [OURS, JOURNALS] {
        system.make_folder(folder, true)?;
    }
    let busy = || Error::Busy(Busy { lock: LOCK.into(), holders: system.holders(LOCK) });
    system.lock(LOCK)?.ok_or_else(busy)
}

pub(crate) fn path(id: u64) -> String {
    format!("{JOURNALS}/{id:04}{SUFFIX}")
}

pub(crate) fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl From<Log> for Summary {
    fn from(log: Log) -> Self {
        Self {
            id: log.id.to_string(),
            at: log.begin.at,
            hugewise: log.begin.hugewise,
            state: log.state,
            steps: log.begin.plan.steps.into_iter().map(|step| step.title).collect(),
        }
    }
}
