//! What was there before: written, and on the disk, before anything is changed.
//!
//! A journal is one file under [`JOURNALS`], one record a line, each with a checksum. A line that a
//! crash has torn is the last one, and the change that it announces was not begun. Records are
//! never changed, and journals are kept.

mod journal_store;
mod log;

use std::cell::Cell;

use hugewise_model::named_enum;
use hugewise_system::{Busy, LOCK, OURS, SystemLock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plan::{FileState, Plan, PoolRef};
use crate::{Error, JOURNALS, System, SystemFailure};

pub use crate::error::Unreadable;
pub use journal_store::list_journals;
pub(crate) use journal_store::{JournalShelf, read};
pub(crate) use log::{JournalEntry, JournalLog};

const SCHEMA: &str = "hugewise.journal/1";
const SUFFIX: &str = ".journal";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub(crate) enum JournalRecord {
    Begin(Box<Begin>),
    /// A change is about to be made.
    Intent(Box<Intent>),
    Did(RecordedAfter),
    StepTakenBack {
        step: usize,
    },
    TakingBack,
    /// What a taking-back has left, by place. `force` is for what waits; `tried` does not wait: it
    /// could not be put back, or has to be done again after what waits. `made` are files that a
    /// command has regenerated and that could not be put back after that, with their checksums.
    Left {
        entries: Vec<usize>,
        force: bool,
        #[serde(default)]
        tried: Vec<usize>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        made: Vec<(String, Option<String>)>,
    },
    End {
        state: JournalState,
        at: i64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) schema: String,
    pub(crate) hugewise: String,
    pub(crate) at: i64,
    pub(crate) boot_id: Option<String>,
    pub(crate) plan: Plan,
}

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
    Value {
        value: String,
        parts: Vec<(PoolRef, u64)>,
    },
    /// Of a file: itself, and the folders that have to be made for it, the outermost first.
    File {
        file: Option<FileState>,
        folders: Vec<String>,
    },
    Command {
        files: Vec<(String, Option<FileState>)>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RecordedAfter {
    /// Of a pool: the pages obtained. Of everything else: what the plan says.
    Value(Option<String>),
    File,
    /// Of a command: the checksums of the files that it rewrites.
    Command(Vec<Option<String>>),
}

named_enum! {
    /// Where an apply stands.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum JournalState as_str {
        /// It runs, or was killed.
        Running = "running",
        /// It is done.
        Done = "done",
        /// A step failed, and everything was taken back.
        TakenBack = "taken-back",
        /// It is being undone, or the undo was killed.
        Undoing = "undoing",
        /// It could not be taken back whole.
        Stuck = "stuck",
        /// Undone but for what younger applies have changed since: that is undone together with
        /// them.
        Waiting = "waiting",
        /// It was undone but for what somebody else has in hand: that is left as it is.
        UndoneExcept = "undone-except",
        /// It was undone.
        Undone = "undone",
    }
}

impl JournalState {
    /// Whether nothing of it is left to undo.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::TakenBack | Self::Undone)
    }

    pub(crate) const fn is_closed(self) -> bool {
        self.is_over() || matches!(self, Self::UndoneExcept)
    }

    pub(crate) const fn is_unfinished(self) -> bool {
        matches!(self, Self::Running | Self::Undoing | Self::Stuck)
    }
}

/// One journal, as `hugewise undo --list` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalSummary {
    /// `7`.
    pub id: String,
    /// When the apply began, in seconds since 1970.
    pub at: i64,
    /// Version of hugewise that applied it.
    pub hugewise: String,
    /// Where it stands.
    pub state: JournalState,
    /// Titles of the plan's steps.
    pub steps: Vec<String>,
}

pub(crate) struct JournalWriter<'a> {
    system: &'a dyn System,
    path: String,
    id: u64,
    /// A line could not be written whole: what is there of it has to go before the next one.
    broken: Cell<bool>,
}

impl<'a> JournalWriter<'a> {
    pub(crate) fn begin(
        system: &'a dyn System,
        plan: &Plan,
        boot_id: Option<String>,
    ) -> Result<Self, Error> {
        let id = JournalShelf::read(system)?.next()?;
        let journal = Self { system, path: journal_path(id), id, broken: Cell::new(false) };
        let begin = Begin {
            schema: SCHEMA.into(),
            hugewise: env!("CARGO_PKG_VERSION").into(),
            at: system.unix_time(),
            boot_id,
            plan: plan.clone(),
        };
        journal.add(&JournalRecord::Begin(Box::new(begin)))?;
        Ok(journal)
    }

    /// Cuts off what a crash has torn.
    pub(crate) fn resume(system: &'a dyn System, log: &JournalLog) -> Result<Self, SystemFailure> {
        let journal =
            Self { system, path: journal_path(log.id), id: log.id, broken: Cell::new(false) };
        if log.torn {
            system.truncate_file(&journal.path, u64::try_from(log.sound).unwrap_or(u64::MAX))?;
        }
        Ok(journal)
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn add(&self, record: &JournalRecord) -> Result<(), SystemFailure> {
        let json = serde_json::to_string(record)
            .map_err(|error| SystemFailure::new(&self.path, error.to_string()))?;
        if self.broken.get() {
            self.truncate_torn_line()?;
        }
        let written = self.system.append_to_file(
            &self.path,
            format!("{} {json}\n", short_checksum(json.as_bytes())).as_bytes(),
        );
        self.broken.set(written.is_err());
        written
    }

    fn truncate_torn_line(&self) -> Result<(), SystemFailure> {
        let text = self.system.read_text(&self.path)?.unwrap_or_default();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            self.system.truncate_file(&self.path, u64::try_from(whole).unwrap_or(u64::MAX))?;
        }
        Ok(())
    }

    pub(crate) fn write_end(&self, state: JournalState) -> Result<(), SystemFailure> {
        self.add(&JournalRecord::End { state, at: self.system.unix_time() })
    }
}

pub(crate) fn lock_journals(system: &dyn System) -> Result<Box<dyn SystemLock>, Error> {
    for folder in [OURS, JOURNALS] {
        system.make_folder(folder, true)?;
    }
    let busy = || Error::Busy(Busy { lock: LOCK.into(), holders: system.lock_holders(LOCK) });
    system.take_lock(LOCK)?.ok_or_else(busy)
}

pub(crate) fn journal_path(id: u64) -> String {
    format!("{JOURNALS}/{id:04}{SUFFIX}")
}

/// The first 8 bytes of SHA-256, in hexadecimal.
pub(crate) fn short_checksum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl From<JournalLog> for JournalSummary {
    fn from(log: JournalLog) -> Self {
        Self {
            id: log.id.to_string(),
            at: log.begin.at,
            hugewise: log.begin.hugewise,
            state: log.state,
            steps: log.begin.plan.steps.into_iter().map(|step| step.title).collect(),
        }
    }
}
