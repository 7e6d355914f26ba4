//! Takes entries of a journal back, the last one first. Each of them can be taken back again and
//! again: what is as before already is left alone, so that a crash in the middle does no harm.

mod current_state;
mod restore_changes;

use std::collections::BTreeMap;

use hugewise_model::escape::plain;
use restore_changes::Rewritten;

use crate::diff::{FileView, StateDifference};
use crate::journal::{self, Before, JournalEntry, JournalLog};
use crate::outcome::{ProgressListener, RestoreResult, RestoredItem};
use crate::plan::{Change, FileState};
use crate::{System, SystemFailure};

/// What becomes of what somebody else has changed since the apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForeignChanges {
    /// Nothing is taken back at all, and everything that was changed is named.
    Refuse,
    /// It is left as it is and named, and all else is taken back.
    Leave,
    /// It is replaced, and what cannot be replaced is left.
    Replace,
}

pub(crate) struct Restorer<'a> {
    system: &'a dyn System,
    log: &'a JournalLog,
    foreign: ForeignChanges,
    /// Steps that are not taken back now, each with the apply that they wait for.
    waits: BTreeMap<usize, u64>,
    /// Files as younger applies have made or found them, by checksum.
    made_since: Vec<(String, Option<String>)>,
    /// The apply or an undo was killed: what lies between before and after is ours too.
    killed: bool,
    /// The host was booted since: a pool may have got fewer pages than it had.
    rebooted: bool,
}

#[derive(Default)]
pub(crate) struct TakenBack {
    pub(crate) restored: Vec<RestoredItem>,
    pub(crate) notes: Vec<String>,
    /// Places of the entries in the journal that are left, or wait.
    pub(crate) remain: Vec<usize>,
    /// Those of them that do not wait.
    pub(crate) tried: Vec<usize>,
    /// Files that a command regenerated and that were not put back, by checksum: ours at the next
    /// try.
    pub(crate) made: Vec<(String, Option<String>)>,
}

impl TakenBack {
    pub(crate) fn is_complete(&self) -> bool {
        !self.has_failed() && !self.has_leftovers()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.restored.iter().any(|one| matches!(one.result, RestoreResult::Failed { .. }))
    }

    pub(crate) fn has_leftovers(&self) -> bool {
        self.restored.iter().any(|one| matches!(one.result, RestoreResult::Left { .. }))
    }

    fn add(&mut self, what: impl Into<String>, result: RestoreResult) {
        self.restored.push(RestoredItem { what: what.into(), result });
    }
}

enum FoundState {
    AsBefore,
    Ours,
    Foreign(StateDifference),
    Unreadable(SystemFailure),
}

/// What would be there with the entries after this one taken back.
#[derive(Default)]
struct UndoOverlay<'a> {
    values: BTreeMap<&'a str, String>,
    files: BTreeMap<&'a str, Option<&'a FileState>>,
}

impl<'a> Restorer<'a> {
    pub(crate) fn new(
        system: &'a dyn System,
        log: &'a JournalLog,
        foreign: ForeignChanges,
    ) -> Self {
        let killed = log.state.is_unfinished();
        let rebooted = boot_id(system) != log.begin.boot_id;
        let (waits, made_since) = (BTreeMap::new(), Vec::new());
        Self { system, log, foreign, waits, made_since, killed, rebooted }
    }

    pub(crate) fn with_files_made_since(mut self, made: Vec<(String, Option<String>)>) -> Self {
        self.made_since = made;
        self
    }

    pub(crate) fn without_steps(mut self, waits: BTreeMap<usize, u64>) -> Self {
        self.waits = waits;
        self
    }

    /// The last step first, and in it the last change, but for commands that regenerate their files
    /// out of what the others restore.
    pub(crate) fn undo_order(&self, index: Option<usize>) -> Vec<&'a JournalEntry> {
        let wanted = |entry: &&JournalEntry| {
            let step = entry.intent.step;
            !entry.taken_back
                && !self.waits.contains_key(&step)
                && index.is_none_or(|only| step == only)
        };
        let mut entries: Vec<&JournalEntry> = self.log.entries.iter().filter(wanted).collect();
        entries.sort_by_key(|entry| {
            let JournalEntry { intent, .. } = entry;
            let last = self.comes_last(entry);
            let within = if last { intent.change } else { usize::MAX - intent.change };
            (std::cmp::Reverse(intent.step), last, within)
        });
        entries
    }

    pub(crate) fn find_differences(&self) -> Vec<StateDifference> {
        let mut overlay = UndoOverlay::default();
        let mut differences = Vec::new();
        for entry in self.undo_order(None) {
            match self.inspect_entry(entry, &overlay) {
                FoundState::AsBefore => continue,
                FoundState::Ours => {}
                FoundState::Foreign(difference) => differences.push(difference),
                FoundState::Unreadable(failure) => {
                    let diff = format!("{}\n", plain::escape_line(&failure.to_string()));
                    differences.push(StateDifference { path: failure.what, diff });
                }
            }
            self.lay_over(entry, &mut overlay);
        }
        differences
    }

    fn lay_over(&self, entry: &'a JournalEntry, overlay: &mut UndoOverlay<'a>) {
        match (self.log.find_change(entry), &entry.intent.before) {
            (Some(Change::Value(change)), Before::Value { value, .. }) => {
                overlay.values.insert(&change.path, value.clone());
            }
            (Some(Change::File(change)), Before::File { file, .. }) => {
                overlay.files.insert(&change.path, file.as_ref());
            }
            (_, Before::Command { files }) => {
                let files = files.iter().map(|(path, file)| (path.as_str(), file.as_ref()));
                overlay.files.extend(files);
            }
            _ => {}
        }
    }

    pub(crate) fn take_back(
        &self,
        step: Option<usize>,
        progress: &mut ProgressListener<'_>,
    ) -> TakenBack {
        let mut done = TakenBack::default();
        let order = self.undo_order(step);
        // What an earlier try has taken back tells what was there first of all.
        let ours = |entry: &&JournalEntry| {
            entry.taken_back || order.iter().any(|other| std::ptr::eq(*other, *entry))
        };
        let made = self.log.entries.iter().filter(ours);
        let rewritten = Rewritten::from_entries(made, self.log.made.iter().chain(&self.made_since));
        for entry in order.iter().copied() {
            let so_far = done.restored.len();
            self.take_entry_back(entry, &rewritten, &mut done, progress);
            let remains = |one: &RestoredItem| {
                matches!(one.result, RestoreResult::Left { .. } | RestoreResult::Failed { .. })
            };
            if done.restored.iter().skip(so_far).any(remains) {
                done.tried.extend(self.log.place_of(entry));
            }
        }
        done.remain.clone_from(&done.tried);
        self.name_what_waits(&mut done);
        self.keep_what_comes_last(&order, &mut done);
        done
    }

    /// A command that regenerates files has read ours while one is left or waits: it runs again.
    fn keep_what_comes_last(&self, order: &[&JournalEntry], done: &mut TakenBack) {
        let is_file =
            |entry: &JournalEntry| matches!(self.log.find_change(entry), Some(Change::File(_)));
        let mut entries = self.log.entries.iter().enumerate();
        if !entries.any(|(place, entry)| done.remain.contains(&place) && is_file(entry)) {
            return;
        }
        let last = order.iter().filter(|entry| self.comes_last(entry));
        let mut again: Vec<usize> = last.filter_map(|entry| self.log.place_of(entry)).collect();
        again.retain(|place| !done.remain.contains(place));
        again.sort_unstable();
        done.remain.extend(&again);
        done.tried.extend(again);
    }

    fn take_entry_back(
        &self,
        entry: &JournalEntry,
        rewritten: &Rewritten<'_>,
        done: &mut TakenBack,
        progress: &mut ProgressListener<'_>,
    ) {
        let found = match self.inspect_entry(entry, &UndoOverlay::default()) {
            FoundState::Foreign(_) | FoundState::Unreadable(_)
                if self.foreign == ForeignChanges::Replace =>
            {
                FoundState::Ours
            }
            found => found,
        };
        match (self.log.find_change(entry), &entry.intent.before) {
            (Some(Change::Value(change)), Before::Value { value, parts }) => {
                self.take_back_value(change, value, parts, &found, done, progress);
            }
            (Some(Change::File(change)), Before::File { file, folders }) => {
                self.take_back_file(change, file.as_ref(), folders, &found, done, progress);
            }
            (Some(Change::Command(command)), _) => {
                self.take_back_command((command, entry), rewritten, &found, done, progress);
            }
            _ => {}
        }
    }

    fn comes_last(&self, entry: &JournalEntry) -> bool {
        matches!(self.log.find_change(entry), Some(Change::Command(command)) if command.undo_last)
    }

    fn name_what_waits(&self, done: &mut TakenBack) {
        for (place, entry) in self.log.standing_entries() {
            let Some(apply) = self.waits.get(&entry.intent.step) else { continue };
            done.remain.push(place);
            let what = match self.log.find_change(entry) {
                Some(Change::Command(command)) => {
                    command.undo.as_ref().unwrap_or(&command.command).join(" ")
                }
                Some(change) => change.path().unwrap_or_default().to_owned(),
                None => continue,
            };
            done.add(what, RestoreResult::Waits { for_apply: apply.to_string() });
        }
    }

    /// Where it is not in root's hands alone, trying again helps nobody.
    fn give_up(&self, path: &str, failure: SystemFailure) -> RestoreResult {
        let why = failure.to_string();
        if self.foreign == ForeignChanges::Replace || self.system.is_in_other_hands(path) {
            RestoreResult::Left { why }
        } else {
            RestoreResult::Failed { why }
        }
    }
}

pub(crate) fn check_success(line: &str, ran: hugewise_system::Ran) -> Result<(), SystemFailure> {
    if ran.success {
        return Ok(());
    }
    let said = [&ran.complaint, &ran.output].into_iter().flat_map(|text| text.lines().rev());
    let said =
        said.map(str::trim).find(|text| !text.is_empty()).unwrap_or("it failed without a message");
    Err(SystemFailure::new(line, said))
}

/// Labels are the business of the host's security module.
pub(crate) fn is_same_file(one: Option<&FileState>, other: Option<&FileState>) -> bool {
    one.map(FileView::from) == other.map(FileView::from)
}

pub(crate) fn checksum_file(file: Option<&FileState>) -> Option<String> {
    file.map(|file| journal::short_checksum(file.content.bytes()))
}

/// The same for every try, so that what a crash has left is found.
pub(crate) fn temporary_name(path: &str) -> String {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    format!(".{name}.hugewise-new")
}

pub(crate) fn boot_id(system: &dyn System) -> Option<String> {
    let text = system.read_text("/proc/sys/kernel/random/boot_id").ok()??;
    Some(text.trim().to_owned())
}
