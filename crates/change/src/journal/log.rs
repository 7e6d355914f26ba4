//! A journal as it was read.

use super::{
    Begin, Intent, JournalRecord, JournalState, RecordedAfter, SCHEMA, Unreadable, short_checksum,
};
use crate::plan::{Change, Step};

#[derive(Clone, Debug)]
pub(crate) struct JournalLog {
    pub(crate) id: u64,
    pub(crate) begin: Begin,
    pub(crate) entries: Vec<JournalEntry>,
    pub(crate) state: JournalState,
    /// When it no longer waits, what others have changed is replaced too.
    pub(crate) force: bool,
    /// Files as taking it back has left them that could not put them back, by their checksums.
    pub(crate) made: Vec<(String, Option<String>)>,
    /// Length of the file up to a line that a crash has torn.
    pub(super) sound: usize,
    pub(super) torn: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct JournalEntry {
    pub(crate) intent: Intent,
    /// `None` where a crash came between.
    pub(crate) after: Option<RecordedAfter>,
    pub(crate) taken_back: bool,
    /// The last undo tried it and left it.
    pub(crate) tried: bool,
}

impl JournalLog {
    /// Changes that are not taken back, with their places.
    pub(crate) fn standing_entries(&self) -> impl Iterator<Item = (usize, &JournalEntry)> {
        self.entries.iter().enumerate().filter(|(_, entry)| !entry.taken_back)
    }

    pub(crate) fn place_of(&self, entry: &JournalEntry) -> Option<usize> {
        self.entries.iter().position(|other| std::ptr::eq(other, entry))
    }

    pub(crate) fn find_step(&self, entry: &JournalEntry) -> Option<&Step> {
        self.begin.plan.steps.get(entry.intent.step)
    }

    pub(crate) fn find_change(&self, entry: &JournalEntry) -> Option<&Change> {
        self.find_step(entry)?.changes.get(entry.intent.change)
    }

    fn add(&mut self, record: JournalRecord) -> Result<(), &'static str> {
        match record {
            JournalRecord::Begin(_) => return Err("it begins twice"),
            JournalRecord::Intent(intent) => {
                let entry =
                    JournalEntry { intent: *intent, after: None, taken_back: false, tried: false };
                self.find_change(&entry).ok_or("a change that is not in its plan")?;
                self.entries.push(entry);
            }
            JournalRecord::Did(after) => {
                self.entries.last_mut().ok_or("a change without its before-state")?.after =
                    Some(after);
            }
            JournalRecord::StepTakenBack { step } => {
                let of_step = self.entries.iter_mut().filter(|entry| entry.intent.step == step);
                of_step.for_each(|entry| entry.taken_back = true);
            }
            JournalRecord::TakingBack => self.state = JournalState::Undoing,
            JournalRecord::Left { entries, force, tried, made } => {
                self.force = force;
                self.made.extend(made);
                for (place, entry) in self.entries.iter_mut().enumerate() {
                    entry.taken_back |= !entries.contains(&place);
                    entry.tried = tried.contains(&place);
                }
            }
            JournalRecord::End { state, .. } => self.state = state,
        }
        Ok(())
    }
}

/// `None` where not even the first record is whole. Nothing after a torn line is a record.
pub(super) fn parse(id: u64, text: &str) -> Result<Option<JournalLog>, Unreadable> {
    let senseless = |why: String| Unreadable::of_journal(id, why, false);
    let mut log: Option<JournalLog> = None;
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
        let newer = |_| Unreadable::of_journal(id, explain_unknown_record(&at(), json), true);
        let record = serde_json::from_str(json).map_err(newer)?;
        sound += line.len();
        match (&mut log, record) {
            (None, JournalRecord::Begin(begin)) if begin.schema == SCHEMA => {
                let (entries, state) = (Vec::new(), JournalState::Running);
                log = Some(JournalLog {
                    id,
                    begin: *begin,
                    entries,
                    state,
                    force: false,
                    made: Vec::new(),
                    sound,
                    torn,
                });
            }
            (None, JournalRecord::Begin(begin)) => {
                let why = explain_other_schema(&begin.schema, &begin.hugewise);
                return Err(Unreadable::of_journal(id, why, true));
            }
            (Some(log), record) => {
                log.add(record).map_err(|why| senseless(format!("{}: {why}", at())))?
            }
            (None, _) => return Err(senseless(format!("{}: it begins in the middle", at()))),
        }
    }
    if let Some(log) = &mut log {
        (log.sound, log.torn) = (sound, torn);
    }
    Ok(log)
}

/// A crash leaves a line without an end, or zeros for blocks that never reached the disk.
fn is_torn(line: &str) -> bool {
    !line.ends_with('\n') || line.contains('\0')
}

fn sound_json(line: &str) -> Option<&str> {
    let (checksum, json) = line.strip_suffix('\n')?.split_once(' ')?;
    (checksum == short_checksum(json.as_bytes())).then_some(json)
}

fn explain_unknown_record(at: &str, json: &str) -> String {
    let record: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let word = |name: &str| record.get(name).and_then(serde_json::Value::as_str);
    match word("schema").filter(|schema| *schema != SCHEMA) {
        Some(schema) => {
            explain_other_schema(schema, word("hugewise").unwrap_or("of another version"))
        }
        None => format!("{at}: this version does not know this record"),
    }
}

fn explain_other_schema(schema: &str, hugewise: &str) -> String {
    format!("hugewise {hugewise} wrote it as {schema:?}; this version reads {SCHEMA}")
}
