//! A journal as it was read.

use super::{After, Begin, Intent, Record, SCHEMA, State, sum};
use crate::plan::{Change, Step};

/// A journal as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) id: u64,
    pub(crate) begin: Begin,
    pub(crate) entries: Vec<Entry>,
    pub(crate) state: State,
    /// What is left of it when it waits is to be replaced even where somebody has changed it.
    pub(crate) force: bool,
    /// Length of the file up to a line that a crash has torn.
    pub(super) sound: usize,
    pub(super) torn: bool,
}

/// A change that was made, or perhaps was.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) intent: Intent,
    /// `None` where a crash came between.
    pub(crate) after: Option<After>,
    pub(crate) taken_back: bool,
    /// The last undo has tried it, and left it.
    pub(crate) tried: bool,
}

/// Why the text of a journal makes no sense.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Senseless {
    pub(super) why: String,
    /// A version of hugewise wrote it that is newer than this one.
    pub(super) newer: bool,
}

impl Log {
    pub(crate) fn step(&self, entry: &Entry) -> Option<&Step> {
        self.begin.plan.steps.get(entry.intent.step)
    }

    pub(crate) fn change(&self, entry: &Entry) -> Option<&Change> {
        self.step(entry)?.changes.get(entry.intent.change)
    }

    fn add(&mut self, record: Record) -> Result<(), &'static str> {
        match record {
            Record::Begin(_) => return Err("it begins twice"),
            Record::Intent(intent) => {
                let entry = Entry { intent: *intent, after: None, taken_back: false, tried: false };
                self.change(&entry).ok_or("a change that is not in its plan")?;
                self.entries.push(entry);
            }
            Record::Did(after) => {
                self.entries.last_mut().ok_or("a change without its before-state")?.after = Some(after);
            }
            Record::StepTakenBack { step } => {
                let of_step = self.entries.iter_mut().filter(|entry| entry.intent.step == step);
                of_step.for_each(|entry| entry.taken_back = true);
            }
            Record::TakingBack => self.state = State::Undoing,
            Record::Left { entries, force, tried } => {
                self.force = force;
                for (place, entry) in self.entries.iter_mut().enumerate() {
                    entry.taken_back |= !entries.contains(&place);
                    entry.tried = tried.contains(&place);
                }
            }
            Record::End { state, .. } => self.state = state,
        }
        Ok(())
    }
}

/// Reads a journal's records; `None` where not even the first one is whole. Nothing that follows a torn line is taken
/// for one.
pub(super) fn parse(id: u64, text: &str) -> Result<Option<Log>, Senseless> {
    let senseless = |why: String| Senseless { why, newer: false };
    let mut log: Option<Log> = None;
    let (mut sound, mut torn) = (0, false);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let at = || format!("line {}", number + 1);
        if torn {
            return Err(senseless(format!("{}: it is damaged before this line", at())));
        }
        let Some(json) = sound_json(line) else {
            let no_record = if log.is_none() { "not a hugewise journal" } else { "it is damaged" };
            if !is_torn(line) {
                return Err(senseless(format!("{}: {no_record}", at())));
            }
            torn = true;
            continue;
        };
        let record = serde_json::from_str(json).map_err(|_| other_version(&at(), json))?;
        sound += line.len();
        match (&mut log, record) {
            (None, Record::Begin(begin)) if begin.schema == SCHEMA => {
                let (entries, state) = (Vec::new(), State::Running);
                log = Some(Log { id, begin: *begin, entries, state, force: false, sound, torn });
            }
            (None, Record::Begin(begin)) => return Err(newer(&begin.schema, &begin.hugewise)),
            (Some(log), record) => log.add(record).map_err(|why| senseless(format!("{}: {why}", at())))?,
            (None, _) => return Err(senseless(format!("{}: it begins in the middle", at()))),
        }
    }
    if let Some(log) = &mut log {
        (log.sound, log.torn) = (sound, torn);
    }
    Ok(log)
}

/// Whether this is what a crash leaves of a line: it has no end, or blocks that the disk never got are zero.
fn is_torn(line: &str) -> bool {
    !line.ends_with('\n') || line.contains('\0')
}

fn sound_json(line: &str) -> Option<&str> {
    let (checksum, json) = line.strip_suffix('\n')?.split_once(' ')?;
    (checksum == sum(json.as_bytes())).then_some(json)
}

/// A whole line that another version has written and that this one does not understand.
fn other_version(at: &str, json: &str) -> Senseless {
    let record: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let word = |name: &str| record.get(name).and_then(serde_json::Value::as_str);
    match word("schema").filter(|schema| *schema != SCHEMA) {
        Some(schema) => newer(schema, word("hugewise").unwrap_or("of another version")),
        None => Senseless { why: format!("{at}: this version does not know this record"), newer: true },
    }
}

fn newer(schema: &str, hugewise: &str) -> Senseless {
    Senseless { why: format!("hugewise {hugewise} wrote it as {schema:?}; this version reads {SCHEMA}"), newer: true }
}
