//! Takes entries of a journal back, the last one first. Each of them can be taken back again and again: what is as
//! before already is left alone, so that a crash in the middle does no harm.

mod look;
mod put;

use std::collections::BTreeMap;

use hugewise_model::escape::plain;
use put::Rewritten;

use crate::diff::{Difference, FileView};
use crate::journal::{self, Before, Entry, Log};
use crate::outcome::{Progress, RestoreResult, Restored};
use crate::plan::{Change, FileState};
use crate::{Failure, System};

/// What becomes of what somebody else has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// Nothing is taken back at all, and everything that was changed is named.
    Refuse,
    /// It is left as it is and named, and all else is taken back.
    Leave,
    /// It is replaced, and what cannot be replaced is left.
    Replace,
}

/// What lies in a journal's way.
pub(crate) struct Restorer<'a> {
    system: &'a dyn System,
    log: &'a Log,
    foreign: Foreign,
    /// Steps that are not taken back now, each with the apply that they wait for.
    waits: BTreeMap<usize, u64>,
    /// The apply or an undo was killed: what lies between before and after is ours too.
    killed: bool,
    /// The host was booted since: a pool may have got fewer pages than it had.
    rebooted: bool,
}

/// What was taken back.
#[derive(Default)]
pub(crate) struct TakenBack {
    pub(crate) restored: Vec<Restored>,
    pub(crate) notes: Vec<String>,
    /// Places of the entries in the journal that are left, or wait.
    pub(crate) remain: Vec<usize>,
    /// Those of them that do not wait.
    pub(crate) tried: Vec<usize>,
}

impl TakenBack {
    pub(crate) fn complete(&self) -> bool {
        !self.failed() && !self.left()
    }

    pub(crate) fn failed(&self) -> bool {
        self.restored.iter().any(|one| matches!(one.result, RestoreResult::Failed { .. }))
    }

    pub(crate) fn left(&self) -> bool {
        self.restored.iter().any(|one| matches!(one.result, RestoreResult::Left { .. }))
    }

    fn add(&mut self, what: impl Into<String>, result: RestoreResult) {
        self.restored.push(Restored { what: what.into(), result });
    }
}

/// What is there now.
enum Found {
    AsBefore,
    Ours,
    Foreign(Difference),
    Unreadable(Failure),
}

/// What would be there with the entries after this one taken back.
#[derive(Default)]
struct Overlay<'a> {
    values: BTreeMap<&'a str, String>,
    files: BTreeMap<&'a str, Option<&'a FileState>>,
}

impl<'a> Restorer<'a> {
    pub(crate) fn new(system: &'a dyn System, log: &'a Log, foreign: Foreign) -> Self {
        let killed = log.state.is_unfinished();
        let rebooted = boot_id(system) != log.begin.boot_id;
        Self { system, log, foreign, waits: BTreeMap::new(), killed, rebooted }
    }

    /// The same, but for steps that wait.
    pub(crate) fn without(mut self, waits: BTreeMap<usize, u64>) -> Self {
        self.waits = waits;
        self
    }

    /// Entries in the order in which they are taken back: the last step first, and in it the last change, but for
    /// commands that make their files out of what the others restore.
    fn order(&self, of: Option<usize>) -> Vec<&'a Entry> {
        let wanted = |entry: &&Entry| {
            let step = entry.intent.step;
            !entry.taken_back && !self.waits.contains_key(&step) && of.is_none_or(|only| step == only)
        };
        let mut entries: Vec<&Entry> = self.log.entries.iter().filter(wanted).collect();
        entries.sort_by_key(|entry| {
            let Entry { intent, .. } = entry;
            let last = self.comes_last(entry);
            let within = if last { intent.change } else { usize::MAX - intent.change };
            (std::cmp::Reverse(intent.step), last, within)
        });
        entries
    }

    /// Everything that somebody has changed since.
    pub(crate) fn differences(&self) -> Vec<Difference> {
        let mut overlay = Overlay::default();
        let mut differences = Vec::new();
        for entry in self.order(None) {
            match self.look(entry, &overlay) {
                Found::AsBefore => continue,
                Found::Ours => {}
                Found::Foreign(difference) => differences.push(difference),
                Found::Unreadable(failure) => {
                    let diff = format!("{}\n", plain::clean(&failure.to_string()));
                    differences.push(Difference { path: failure.what, diff });
                }
            }
            self.lay_over(entry, &mut overlay);
        }
        differences
    }

    fn lay_over(&self, entry: &'a Entry, overlay: &mut Overlay<'a>) {
        match (self.log.change(entry), &entry.intent.before) {
            (Some(Change::Value(change)), Before::Value { value, .. }) => {
                overlay.values.insert(&change.path, value.clone());
            }
            (Some(Change::File(change)), Before::File { file, .. }) => {
                overlay.files.insert(&change.path, file.as_ref());
            }
            (_, Before::Command { files }) => {
                overlay.files.extend(files.iter().map(|(path, file)| (path.as_str(), file.as_ref())));
            }
            _ => {}
        }
    }

    /// Takes entries back, those of one step or all.
    pub(crate) fn take_back(&self, step: Option<usize>, progress: &mut Progress<'_>) -> TakenBack {
        let mut done = TakenBack::default();
        let order = self.order(step);
        let place = |entry: &Entry| self.log.entries.iter().position(|other| std::ptr::eq(other, entry));
        // What an earlier try has taken back tells what was there first of all.
        let ours = |entry: &&Entry| entry.taken_back || order.iter().any(|other| std::ptr::eq(*other, *entry));
        let made = self.log.entries.iter().filter(ours);
        let rewritten = Rewritten::of(made);
        for entry in order.iter().copied() {
            let so_far = done.restored.len();
            let found = match self.look(entry, &Overlay::default()) {
                Found::Foreign(_) | Found::Unreadable(_) if self.foreign == Foreign::Replace => Found::Ours,
                found => found,
            };
            match (self.log.change(entry), &entry.intent.before) {
                (Some(Change::Value(change)), Before::Value { value, parts }) => {
                    self.value(change, value, parts, &found, &mut done, progress);
                }
                (Some(Change::File(change)), Before::File { file, folders }) => {
                    self.file(change, file.as_ref(), folders, &found, &mut done, progress);
                }
                (Some(Change::Command(command)), _) => {
                    self.command((command, entry), &rewritten, &found, &mut done, progress);
                }
                _ => {}
            }
            let remains =
                |one: &Restored| matches!(one.result, RestoreResult::Left { .. } | RestoreResult::Failed { .. });
            if done.restored.iter().skip(so_far).any(remains) {
                done.tried.extend(place(entry));
            }
        }
        done.remain.clone_from(&done.tried);
        self.name_what_waits(&mut done);
        self.keep_what_comes_last(&order, &mut done);
        done
    }

    /// A command that makes its files out of the configuration has made them out of files of ours as long as one of them
    /// is left or waits: it runs once more when that one is taken back.
    fn keep_what_comes_last(&self, order: &[&Entry], done: &mut TakenBack) {
        let entries = || self.log.entries.iter().enumerate();
        let is_file = |entry: &Entry| matches!(self.log.change(entry), Some(Change::File(_)));
        if !entries().any(|(place, entry)| done.remain.contains(&place) && is_file(entry)) {
            return;
        }
        let again = entries().filter(|(_, entry)| order.iter().any(|other| std::ptr::eq(*other, *entry)));
        let again = again.filter(|(_, entry)| self.comes_last(entry)).map(|(place, _)| place);
        let again: Vec<usize> = again.filter(|place| !done.remain.contains(place)).collect();
        done.remain.extend(&again);
        done.tried.extend(again);
    }

    fn comes_last(&self, entry: &Entry) -> bool {
        matches!(self.log.change(entry), Some(Change::Command(command)) if command.undo_last)
    }

    fn name_what_waits(&self, done: &mut TakenBack) {
        for (place, entry) in self.log.entries.iter().enumerate().filter(|(_, entry)| !entry.taken_back) {
            let Some(apply) = self.waits.get(&entry.intent.step) else { continue };
            done.remain.push(place);
            let what = match self.log.change(entry) {
                Some(Change::Value(change)) => change.path.clone(),
                Some(Change::File(change)) => change.path.clone(),
                Some(Change::Command(command)) => command.undo.as_ref().unwrap_or(&command.command).join(" "),
                None => continue,
            };
            let result = RestoreResult::Waits { for_apply: apply.to_string() };
            done.restored.push(Restored { what, result });
        }
    }

    /// What becomes of a thing that cannot be put back: where it is not in root's hands alone, trying again helps nobody.
    fn given_up(&self, path: &str, failure: Failure) -> RestoreResult {
        let why = failure.to_string();
        if self.foreign == Foreign::Replace || self.system.is_in_other_hands(path) {
            RestoreResult::Left { why }
        } else {
            RestoreResult::Failed { why }
        }
    }
}

/// An error where a command did not end well.
pub(crate) fn succeeded(line: &str, ran: hugewise_system::Ran) -> Result<(), Failure> {
    if ran.success {
        return Ok(());
    }
    let said = [&ran.complaint, &ran.output].into_iter().flat_map(|text| text.lines().rev());
    let said = said.map(str::trim).find(|text| !text.is_empty()).unwrap_or("it failed without a message");
    Err(Failure::new(line, said))
}

/// The same bytes, owner and permissions. Labels are the business of the host's security module.
pub(crate) fn same(one: Option<&FileState>, other: Option<&FileState>) -> bool {
    one.map(FileView::from) == other.map(FileView::from)
}

pub(crate) fn sum_of(file: Option<&FileState>) -> Option<String> {
    file.map(|file| journal::sum(file.content.bytes()))
}

/// The name that a file has until it is whole: the same one for every try, so that what a crash has left is found.
pub(crate) fn temporary(path: &str) -> String {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    format!(".{name}.hugewise-new")
}

pub(crate) fn boot_id(system: &dyn System) -> Option<String> {
    let text = system.text("/proc/sys/kernel/random/boot_id").ok()??;
    Some(text.trim().to_owned())
}
