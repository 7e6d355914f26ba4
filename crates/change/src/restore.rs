//! Takes entries of a journal back, the last one first. Each of them can be taken back again and again: what is as
//! before already is left alone, so that a crash in the middle does no harm.

use std::collections::BTreeMap;

use crate::diff::{self, Difference, FileView};
use crate::journal::{self, After, Before, Entry, Log, State};
use crate::outcome::{Event, Progress, RestoreResult, Restored};
use crate::plan::{Change, CommandChange, FileChange, FileState, PoolRef, ValueChange};
use crate::{Failure, System, values};

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
        let killed = matches!(log.state, State::Running | State::Undoing | State::Stuck);
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

    fn look(&self, entry: &Entry, overlay: &Overlay<'_>) -> Found {
        let unreadable = |path: &str, failure: Failure| {
            Found::Foreign(Difference { path: path.to_owned(), diff: format!("{failure}\n") })
        };
        match (self.log.change(entry), &entry.intent.before) {
            (Some(Change::Value(change)), Before::Value { value, parts }) => {
                let found = self.look_at_value(entry, change, (value, parts), overlay);
                found.unwrap_or_else(|failure| unreadable(&change.path, failure))
            }
            (Some(Change::File(change)), Before::File { .. }) => {
                let found = self.look_at_file(entry, change, overlay);
                found.unwrap_or_else(|failure| unreadable(&change.path, failure))
            }
            (Some(Change::Command(command)), Before::Command { files }) => {
                self.look_at_command(command, files, entry.after.as_ref(), overlay)
            }
            _ => Found::AsBefore,
        }
    }

    /// Entries that changed the same path: those up to this one, and those from it on.
    fn neighbours(&self, entry: &Entry, path: &str) -> (Vec<&'a Entry>, Vec<&'a Entry>) {
        let place = self.log.entries.iter().position(|other| std::ptr::eq(other, entry)).unwrap_or_default();
        let same = |other: &&Entry| match self.log.change(other) {
            Some(Change::Value(change)) => change.path == path,
            Some(Change::File(change)) => change.path == path,
            _ => false,
        };
        let (earlier, later) = self.log.entries.split_at(place);
        let earlier = earlier.iter().filter(same).chain(later.first()).collect();
        (earlier, later.iter().filter(same).collect())
    }

    fn look_at_value(
        &self,
        entry: &Entry,
        change: &ValueChange,
        (before, parts): (&str, &[(PoolRef, u64)]),
        overlay: &Overlay<'_>,
    ) -> Result<Found, Failure> {
        let now = match overlay.values.get(change.path.as_str()) {
            Some(value) => Some(value.clone()),
            None => values::read(self.system, &change.path, change.pool)?,
        };
        // Another kernel was booted, or a node is gone: there is nothing to take back.
        let Some(now) = now else { return Ok(Found::AsBefore) };
        let (earlier, later) = self.neighbours(entry, &change.path);
        let befores = earlier.iter().filter_map(|entry| match &entry.intent.before {
            Before::Value { value, .. } => Some(value),
            _ => None,
        });
        let spread = || parts.iter().all(|(part, pages)| self.part(*part).is_none_or(|now| now == *pages));
        if befores.into_iter().any(|before| now == *before) {
            return Ok(if now != before || spread() { Found::AsBefore } else { Found::Ours });
        }
        let expected = |entry: &Entry| match (&entry.after, self.log.change(entry)) {
            (Some(After::Value(Some(obtained))), _) => obtained.clone(),
            (_, Some(Change::Value(change))) => values::normal(&change.after),
            _ => String::new(),
        };
        let left: Vec<String> = later.iter().map(|entry| expected(entry)).collect();
        let unsure = self.killed || self.rebooted || entry.after.is_none();
        let halfway = |after: &String| change.pool.is_some() && between(&now, before, after);
        if left.contains(&now) || (unsure && left.iter().any(halfway)) {
            return Ok(Found::Ours);
        }
        let diff = diff::of_values(&change.path, left.last().map(String::as_str), Some(&now));
        Ok(Found::Foreign(Difference { path: change.path.clone(), diff }))
    }

    fn part(&self, part: PoolRef) -> Option<u64> {
        values::read(self.system, &values::pool_path(part), Some(part)).ok()??.parse().ok()
    }

    fn look_at_file(&self, entry: &Entry, change: &FileChange, overlay: &Overlay<'_>) -> Result<Found, Failure> {
        let read;
        let now = match overlay.files.get(change.path.as_str()) {
            Some(file) => *file,
            None => {
                read = self.system.file(&change.path)?;
                read.as_ref()
            }
        };
        let now = now.map(FileView::from);
        let (earlier, later) = self.neighbours(entry, &change.path);
        let mut befores = earlier.iter().filter_map(|entry| match &entry.intent.before {
            Before::File { file, .. } => Some(file.as_ref().map(FileView::from)),
            _ => None,
        });
        if befores.any(|before| now == before) {
            return Ok(Found::AsBefore);
        }
        let afters = later.iter().filter_map(|entry| match self.log.change(entry) {
            Some(Change::File(change)) => Some(change.after.as_ref().map(FileView::from)),
            _ => None,
        });
        let afters: Vec<_> = afters.collect();
        if afters.contains(&now) {
            return Ok(Found::Ours);
        }
        let diff = diff::of_files(&change.path, afters.last().copied().flatten(), now);
        Ok(Found::Foreign(Difference { path: change.path.clone(), diff }))
    }

    /// A file that a command has made out of the configuration may be made anew by anybody. One that is only
    /// restored from the journal must be as the command left it.
    fn look_at_command(
        &self,
        command: &CommandChange,
        files: &[(String, Option<FileState>)],
        after: Option<&After>,
        overlay: &Overlay<'_>,
    ) -> Found {
        let sums = match after {
            Some(After::Command(sums)) if command.undo.is_none() => sums,
            _ => return Found::Ours,
        };
        for ((path, before), sum) in files.iter().zip(sums) {
            if overlay.files.contains_key(path.as_str()) {
                continue;
            }
            match self.system.file(path) {
                Ok(now) if same(now.as_ref(), before.as_ref()) || sum_of(now.as_ref()) == *sum => {}
                Ok(now) => {
                    let (old, new) = (before.as_ref().map(FileView::from), now.as_ref().map(FileView::from));
                    let diff = diff::of_files(path, old, new);
                    return Found::Foreign(Difference { path: path.clone(), diff });
                }
                Err(failure) => {
                    return Found::Foreign(Difference { path: path.clone(), diff: format!("{failure}\n") });
                }
            }
        }
        Found::Ours
    }

    /// Takes entries back, those of one step or all. What somebody has changed since is left alone and counts as
    /// failed, or with `force` is replaced.
    pub(crate) fn take_back(&self, step: Option<usize>, force: bool, progress: &mut Progress<'_>) -> TakenBack {
        let mut done = TakenBack::default();
        for entry in self.order(step) {
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
                (Some(Change::Command(command)), Before::Command { files }) => {
                    self.command(command, files, entry.after.as_ref(), &found, &mut done, progress);
                }
                _ => {}
            }
        }
        done
    }

    fn value(
        &self,
        change: &ValueChange,
        before: &str,
        parts: &[(PoolRef, u64)],
        found: &Found,
        done: &mut TakenBack,
        progress: &mut Progress<'_>,
    ) {
        let result = match found {
            Found::AsBefore => Ok(RestoreResult::AlreadySo),
            Found::Foreign(difference) => Err(changed_since(difference)),
            Found::Ours => {
                progress(&Event::TakingBack { what: &change.path });
                self.restore_value(change, before, parts, progress).map(|()| RestoreResult::Restored)
            }
        };
        if let (Ok(RestoreResult::Restored), Some(pool)) = (&result, change.pool) {
            done.notes.extend(self.held(pool, before));
        }
        done.add(&change.path, result);
    }

    fn restore_value(
        &self,
        change: &ValueChange,
        before: &str,
        parts: &[(PoolRef, u64)],
        progress: &mut Progress<'_>,
    ) -> Result<(), Failure> {
        let Some(pool) = change.pool else { return values::set(self.system, &change.path, before) };
        let whole = [(pool, before.parse().unwrap_or_default())];
        let pools = if parts.is_empty() { &whole } else { parts };
        for (pool, pages) in pools {
            let got = values::set_pool(self.system, *pool, *pages, progress)?;
            if got != *pages {
                let why = format!("{pages} pages were there before, and the kernel gives {got} back");
                return Err(Failure::new(values::pool_path(*pool), why).advising("memory is fragmented: reboot"));
            }
        }
        Ok(())
    }

    /// Pages that servers still hold: the kernel frees them when those end.
    fn held(&self, pool: PoolRef, before: &str) -> Option<String> {
        let now = values::read(self.system, &values::pool_path(pool), None).ok()??;
        let held = now.parse::<u64>().ok()?.checked_sub(before.parse().ok()?).filter(|held| *held > 0)?;
        Some(format!(
            "{held} pages of {} are held by servers that run: the kernel frees them when those end",
            pool.page_size
        ))
    }

    fn file(
        &self,
        change: &FileChange,
        before: Option<&FileState>,
        folders: &[String],
        found: &Found,
        done: &mut TakenBack,
        progress: &mut Progress<'_>,
    ) {
        if self.killed
            && let Err(failure) = self.remove_temporary(&change.path)
        {
            done.notes.push(failure.to_string());
        }
        let result = match found {
            Found::AsBefore => Ok(RestoreResult::AlreadySo),
            Found::Foreign(difference) => Err(changed_since(difference)),
            Found::Ours => {
                progress(&Event::TakingBack { what: &change.path });
                self.put(&change.path, before).map(|()| RestoreResult::Restored)
            }
        };
        let gone = before.is_none() && result.is_ok();
        done.add(&change.path, result);
        for folder in folders.iter().rev().filter(|_| gone) {
            match self.system.remove_folder(folder) {
                Ok(true) => {}
                Ok(false) => {
                    if matches!(self.system.list(folder), Ok(Some(_))) {
                        done.notes
                            .push(format!("{folder} was made by hugewise and stays: there are other files in it"));
                        break;
                    }
                }
                Err(failure) => done.add(folder, Err(failure)),
            }
        }
    }

    fn put(&self, path: &str, file: Option<&FileState>) -> Result<(), Failure> {
        match file {
            Some(file) => self.system.write_file(path, &temporary(path), file),
            None => self.system.remove_file(path),
        }
    }

    fn remove_temporary(&self, path: &str) -> Result<(), Failure> {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        self.system.remove_file(&format!("{folder}/{}", temporary(path)))
    }

    fn command(
        &self,
        command: &CommandChange,
        files: &[(String, Option<FileState>)],
        after: Option<&After>,
        found: &Found,
        done: &mut TakenBack,
        progress: &mut Progress<'_>,
    ) {
        let line = command.undo.as_ref().unwrap_or(&command.command).join(" ");
        if let Found::Foreign(difference) = found {
            return done.add(line, Err(changed_since(difference)));
        }
        let now: Vec<_> = files.iter().map(|(path, _)| self.system.file(path)).collect();
        let all_as_before = files
            .iter()
            .zip(&now)
            .all(|((_, before), now)| now.as_ref().is_ok_and(|now| same(now.as_ref(), before.as_ref())));
        // It was killed before it had changed anything.
        let untouched = after.is_none() && !files.is_empty() && all_as_before;
        let mut undo_failed = None;
        if let Some(undo) = command.undo.as_ref().filter(|_| !untouched) {
            progress(&Event::TakingBack { what: &line });
            let ran = self.system.run(undo, command.user.as_deref());
            undo_failed = ran.and_then(|ran| succeeded(&line, ran)).err();
        }
        for (place, ((path, before), now)) in files.iter().zip(&now).enumerate() {
            if self.killed
                && let Err(failure) = self.remove_temporary(path)
            {
                done.notes.push(failure.to_string());
            }
            let left_by_it = match (after, now) {
                (Some(After::Command(sums)), Ok(now)) => sums.get(place) == Some(&sum_of(now.as_ref())),
                (None, Ok(_)) => true,
                _ => false,
            };
            let result = match self.system.file(path) {
                Ok(now) if same(now.as_ref(), before.as_ref()) => Ok(RestoreResult::AlreadySo),
                Ok(_) if left_by_it || command.undo.is_none() => {
                    progress(&Event::TakingBack { what: path });
                    self.put(path, before.as_ref()).map(|()| RestoreResult::Restored)
                }
                Ok(_) => {
                    done.notes.push(format!(
                        "{path} was made anew since by somebody else: {line} has made it out of the configuration as \
                         it is now, and its old bytes were not put back"
                    ));
                    Ok(RestoreResult::Ran)
                }
                Err(failure) => Err(failure),
            };
            done.add(path, result);
        }
        match undo_failed {
            // What it would have changed is restored from the journal.
            Some(failure) if !files.is_empty() && !command.undo_last => done.notes.push(failure.to_string()),
            Some(failure) => done.add(line, Err(failure)),
            None if untouched => done.add(line, Ok(RestoreResult::AlreadySo)),
            None if command.undo.is_some() => done.add(line, Ok(RestoreResult::Ran)),
            None => {}
        }
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

fn changed_since(difference: &Difference) -> Failure {
    Failure::new(&difference.path, "was changed by somebody else meanwhile, and is left alone")
}

fn between(now: &str, one: &str, other: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let (Some(now), Some(one), Some(other)) = (number(now), number(one), number(other)) else { return false };
    (one.min(other)..=one.max(other)).contains(&now)
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
