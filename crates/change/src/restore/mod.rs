//! Takes entries of a journal back, the last one first. Each of them can be taken back again and again: what is as
//! before already is left alone, so that a crash in the middle does no harm.

mod look;
mod put;

use std::collections::BTreeMap;

use put::Rewritten;

use crate::diff::{Difference, FileView};
use crate::journal::{self, Before, Entry, Log};
use crate::outcome::{Progress, RestoreResult, Restored};
use crate::plan::{Change, FileState};
use crate::{Failure, System};

/// What lies in a journal's way.
pub(crate) struct Restorer<'a> {
    system: &'a dyn System,
    log: &'a Log,
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
}

impl TakenBack {
    pub(crate) fn complete(&self) -> bool {
        !self.restored.iter().any(|one| matches!(one.result, RestoreResult::Failed { .. }))
    }

    fn add(&mut self, what: impl Into<String>, result: Result<RestoreResult, Failure>) {
        let result = result.unwrap_or_else(|failure| RestoreResult::Failed { why: failure.to_string() });
        self.restored.push(Restored { what: what.into(), result });
    }
}

/// What is there now.
enum Found {
    AsBefore,
    Ours,
    Foreign(Difference),
}

/// What would be there with the entries after this one taken back.
#[derive(Default)]
struct Overlay<'a> {
    values: BTreeMap<&'a str, String>,
    files: BTreeMap<&'a str, Option<&'a FileState>>,
}

impl<'a> Restorer<'a> {
    pub(crate) fn new(system: &'a dyn System, log: &'a Log) -> Self {
        let killed = log.state.is_unfinished();
        let rebooted = boot_id(system) != log.begin.boot_id;
        Self { system, log, killed, rebooted }
    }

    /// Entries in the order in which they are taken back: the last step first, and in it the last change, but for
    /// commands that make their files out of what the others restore.
    fn order(&self, of: Option<usize>) -> Vec<&'a Entry> {
        let wanted = |entry: &&Entry| !entry.taken_back && of.is_none_or(|step| entry.intent.step == step);
        let mut entries: Vec<&Entry> = self.log.entries.iter().filter(wanted).collect();
        let last = |entry: &Entry| match self.log.change(entry) {
            Some(Change::Command(command)) => command.undo_last,
            _ => false,
        };
        entries.sort_by_key(|entry| {
            let Entry { intent, .. } = entry;
            let within = if last(entry) { intent.change } else { usize::MAX - intent.change };
            (std::cmp::Reverse(intent.step), last(entry), within)
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

    /// Takes entries back, those of one step or all. What somebody has changed since is left alone and counts as
    /// failed, or with `force` is replaced.
    pub(crate) fn take_back(&self, step: Option<usize>, force: bool, progress: &mut Progress<'_>) -> TakenBack {
        let mut done = TakenBack::default();
        let order = self.order(step);
        let made = self.log.entries.iter().filter(|entry| order.iter().any(|other| std::ptr::eq(*other, *entry)));
        let rewritten = Rewritten::of(made);
        for entry in order.iter().copied() {
            let found = self.look(entry, &Overlay::default());
            let found = match found {
                Found::Foreign(_) if force => Found::Ours,
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
        }
        done
    }
}

/// An error where a command did not end well.
pub(crate) fn succeeded(line: &str, ran: crate::system::Ran) -> Result<(), Failure> {
    if ran.success {
        return Ok(());
    }
    let said = [&ran.complaint, &ran.output].into_iter().flat_map(|text| text.lines().rev());
    let said = said.map(str::trim).find(|text| !text.is_empty()).unwrap_or("it failed without a word");
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
