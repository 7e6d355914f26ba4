//! What was there before: written, and on the disk, before anything is changed.
//!
//! A journal is one file under [`FOLDER`], one record a line, each with a checksum. A line that a crash has torn is the
//! last one, and the change that it announces was not begun. Records are never changed, and journals are kept.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::plan::{Change, FileState, Plan, PoolRef, Step};
use crate::system::Lock;
use crate::{Error, Failure, System};

/// Where journals are.
pub const FOLDER: &str = "/var/lib/hugewise/journal";
const OURS: &str = "/var/lib/hugewise";
/// What apply and undo hold while they work.
pub(crate) const LOCK: &str = "/var/lib/hugewise/lock";

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
            Self::Undone => "undone",
        }
    }

    /// Whether nothing of it is left to undo.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::TakenBack | Self::Undone)
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

/// A journal as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) id: u64,
    pub(crate) begin: Begin,
    pub(crate) entries: Vec<Entry>,
    pub(crate) state: State,
    /// Length of the file up to a line that a crash has torn.
    sound: usize,
    torn: bool,
}

/// A change that was made, or perhaps was.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) intent: Intent,
    /// `None` where a crash came between.
    pub(crate) after: Option<After>,
    pub(crate) taken_back: bool,
}

impl Log {
    pub(crate) fn step(&self, entry: &Entry) -> Option<&Step> {
        self.begin.plan.steps.get(entry.intent.step)
    }

    pub(crate) fn change(&self, entry: &Entry) -> Option<&Change> {
        self.step(entry)?.changes.get(entry.intent.change)
    }
}

/// Writes records.
pub(crate) struct Journal<'a> {
    system: &'a dyn System,
    path: String,
    id: u64,
}

impl<'a> Journal<'a> {
    /// A new journal, with the plan in it.
    pub(crate) fn begin(system: &'a dyn System, plan: &Plan, boot_id: Option<String>) -> Result<Self, Error> {
        let id = ids(system)?.last().map_or(1, |last| last.saturating_add(1));
        let journal = Self { system, path: path(id), id };
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
        let journal = Self { system, path: path(log.id), id: log.id };
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
        self.system.append(&self.path, format!("{} {json}\n", sum(json.as_bytes())).as_bytes())
    }

    pub(crate) fn end(&self, state: State) -> Result<(), Failure> {
        self.add(&Record::End { state, at: self.system.now() })
    }
}

/// Takes the lock, making the folders that it and the journals lie in.
pub(crate) fn lock(system: &dyn System) -> Result<Box<dyn Lock>, Error> {
    for folder in [OURS, FOLDER] {
        system.make_folder(folder, true)?;
    }
    system.lock(LOCK)?.ok_or_else(|| Error::Busy { lock: LOCK.into() })
}

fn path(id: u64) -> String {
    format!("{FOLDER}/{id:04}{SUFFIX}")
}

/// Numbers of all journals, the oldest first.
pub(crate) fn ids(system: &dyn System) -> Result<Vec<u64>, Failure> {
    let names = system.list(FOLDER)?.unwrap_or_default();
    let mut ids: Vec<u64> = names.iter().filter_map(|name| name.strip_suffix(SUFFIX)?.parse().ok()).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// Every journal, the oldest first.
///
/// # Errors
/// One cannot be read, or makes no sense.
pub fn list(system: &dyn System) -> Result<Vec<Summary>, Error> {
    let logs = ids(system)?.into_iter().filter_map(|id| read(system, id).transpose());
    logs.map(|log| log.map(Summary::from)).collect()
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

/// One journal; `None` where nothing of it reached the disk, so that nothing was changed.
pub(crate) fn read(system: &dyn System, id: u64) -> Result<Option<Log>, Error> {
    let path = path(id);
    let Some(text) = system.text(&path)? else { return Ok(None) };
    parse(id, &text).map_err(|why| Error::Damaged { path, why })
}

pub(crate) fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn record(line: &str) -> Option<Record> {
    let (checksum, json) = line.strip_suffix('\n')?.split_once(' ')?;
    if checksum != sum(json.as_bytes()) {
        return None;
    }
    serde_json::from_str(json).ok()
}

/// Reads a journal's records. Nothing that follows a torn line is taken for one.
fn parse(id: u64, text: &str) -> Result<Option<Log>, String> {
    let mut log: Option<Log> = None;
    let (mut sound, mut torn) = (0, false);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let at = || format!("line {}", number + 1);
        match record(line) {
            // Power that fails in the middle of the first record leaves no end of a line.
            None if log.is_none() && line.ends_with('\n') => return Err(format!("{}: no record of hugewise", at())),
            None => torn = true,
            Some(_) if torn => return Err(format!("{}: it is damaged before this line", at())),
            Some(record) => {
                sound += line.len();
                match (&mut log, record) {
                    (None, Record::Begin(begin)) if begin.schema == SCHEMA => {
                        let (entries, state) = (Vec::new(), State::Running);
                        log = Some(Log { id, begin: *begin, entries, state, sound, torn });
                    }
                    (None, Record::Begin(begin)) => {
                        return Err(format!("it is {:?}, and this version knows {SCHEMA}", begin.schema));
                    }
                    (Some(log), record) => add(log, record).map_err(|why| format!("{}: {why}", at()))?,
                    (None, _) => return Err(format!("{}: it begins in the middle", at())),
                }
            }
        }
    }
    if let Some(log) = &mut log {
        (log.sound, log.torn) = (sound, torn);
    }
    Ok(log)
}

fn add(log: &mut Log, record: Record) -> Result<(), &'static str> {
    match record {
        Record::Begin(_) => return Err("it begins twice"),
        Record::Intent(intent) => {
            let entry = Entry { intent: *intent, after: None, taken_back: false };
            log.change(&entry).ok_or("a change that is not in its plan")?;
            log.entries.push(entry);
        }
        Record::Did(after) => log.entries.last_mut().ok_or("a change without its before-state")?.after = Some(after),
        Record::StepTakenBack { step } => {
            log.entries.iter_mut().filter(|entry| entry.intent.step == step).for_each(|entry| entry.taken_back = true);
        }
        Record::TakingBack => log.state = State::Undoing,
        Record::End { state, .. } => log.state = state,
    }
    Ok(())
}
