//! Puts back what was there.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ForeignChanges, FoundState, Restorer, TakenBack, check_success, checksum_file, is_same_file,
    temporary_name,
};
use crate::diff::StateDifference;
use crate::journal::{Before, JournalEntry, JournalState, RecordedAfter};
use crate::outcome::{ApplyEvent, ProgressListener, RestoreResult};
use crate::plan::{CommandChange, FileChange, FileState, PoolRef, ValueChange};
use crate::{SystemFailure, values};
use hugewise_model::PageCount;

impl Restorer<'_> {
    pub(super) fn take_back_value(
        &self,
        change: &ValueChange,
        before: &str,
        parts: &[(PoolRef, u64)],
        found: &FoundState,
        done: &mut TakenBack,
        progress: &mut ProgressListener<'_>,
    ) {
        let result = self.restore_found(&change.path, found, progress, |progress| {
            self.restore_value(change, before, parts, progress)
        });
        if let (RestoreResult::Restored, Some(pool)) = (&result, change.pool) {
            done.notes.extend(self.describe_held_pages(&change.path, pool, before));
        }
        done.add(&change.path, result);
    }

    fn restore_found(
        &self,
        path: &str,
        found: &FoundState,
        progress: &mut ProgressListener<'_>,
        restore: impl FnOnce(&mut ProgressListener<'_>) -> Result<(), SystemFailure>,
    ) -> RestoreResult {
        match found {
            FoundState::AsBefore => RestoreResult::AlreadySo,
            FoundState::Foreign(difference) => changed_since(difference),
            FoundState::Unreadable(failure) => self.give_up(path, failure.clone()),
            FoundState::Ours => {
                progress(&ApplyEvent::TakingBack { what: path });
                match restore(progress) {
                    Ok(()) => RestoreResult::Restored,
                    Err(failure) => self.give_up(path, failure),
                }
            }
        }
    }

    fn restore_value(
        &self,
        change: &ValueChange,
        before: &str,
        parts: &[(PoolRef, u64)],
        progress: &mut ProgressListener<'_>,
    ) -> Result<(), SystemFailure> {
        let Some(pool) = change.pool else {
            return values::set_value(self.system, &change.path, before);
        };
        let whole = [(change.path.clone(), pool, before.parse().unwrap_or_default())];
        let parts: Vec<_> =
            parts.iter().map(|(pool, pages)| (values::pool_path(*pool), *pool, *pages)).collect();
        let pools = if parts.is_empty() { whole.as_slice() } else { parts.as_slice() };
        for (path, pool, pages) in pools {
            let got = values::set_pool(self.system, path, *pool, *pages, progress)?;
            if got != *pages {
                let were = values::pages_were(*pages);
                let why = format!("{were} there before, but the kernel gives only {got} back");
                let failure = SystemFailure::new(path, why);
                return Err(failure.with_advice("memory is fragmented: reboot"));
            }
        }
        Ok(())
    }

    /// Pages that servers still hold: the kernel frees them when those end.
    fn describe_held_pages(&self, path: &str, pool: PoolRef, before: &str) -> Option<String> {
        let now = values::read(self.system, path, None).ok()??;
        let held =
            now.parse::<u64>().ok()?.checked_sub(before.parse().ok()?).filter(|held| *held > 0)?;
        Some(format!(
            "{} {} held by servers that run: the kernel frees them when those end",
            PageCount(held).in_pages_of(pool.page_size),
            PageCount(held).linking_verb()
        ))
    }

    pub(super) fn take_back_file(
        &self,
        change: &FileChange,
        before: Option<&FileState>,
        folders: &[String],
        found: &FoundState,
        done: &mut TakenBack,
        progress: &mut ProgressListener<'_>,
    ) {
        if self.killed {
            self.remove_temporary(&change.path, done);
        }
        let result = self.restore_found(&change.path, found, progress, |_| {
            self.put_file_back(&change.path, before)
        });
        let gone = before.is_none()
            && matches!(result, RestoreResult::AlreadySo | RestoreResult::Restored);
        done.add(&change.path, result);
        for folder in folders.iter().rev().filter(|_| gone) {
            match self.system.remove_folder(folder) {
                Ok(true) => {}
                Ok(false) => {
                    if matches!(self.system.list_folder(folder), Ok(Some(_))) {
                        done.notes.push(format!(
                            "hugewise made {folder}, but it stays because it holds other files"
                        ));
                        break;
                    }
                }
                Err(failure) => done.add(folder, self.give_up(&format!("{folder}/"), failure)),
            }
        }
    }

    fn put_file_back(&self, path: &str, file: Option<&FileState>) -> Result<(), SystemFailure> {
        match file {
            Some(file) => self.system.write_file(path, &temporary_name(path), file),
            None => self.system.remove_file(path),
        }
    }

    /// What a death in the middle of writing has left. Where it stays, so does its folder.
    fn remove_temporary(&self, path: &str, done: &mut TakenBack) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let left = format!("{folder}/{}", temporary_name(path));
        let Err(failure) = self.system.remove_file(&left) else { return };
        match self.give_up(&left, failure) {
            RestoreResult::Left { why } => done.notes.push(why),
            result => done.add(left, result),
        }
    }

    pub(super) fn take_back_command(
        &self,
        (command, entry): (&CommandChange, &JournalEntry),
        rewritten: &Rewritten<'_>,
        found: &FoundState,
        done: &mut TakenBack,
        progress: &mut ProgressListener<'_>,
    ) {
        let Before::Command { files } = &entry.intent.before else { return };
        let line = command.undo.as_ref().unwrap_or(&command.command).join(" ");
        match found {
            FoundState::Foreign(difference) => return done.add(line, changed_since(difference)),
            FoundState::Unreadable(failure) => {
                return done.add(line, self.give_up(&failure.what, failure.clone()));
            }
            FoundState::Ours | FoundState::AsBefore => {}
        }
        let now: Vec<_> = files.iter().map(|(path, _)| self.system.read_file(path)).collect();
        let as_before = files.iter().zip(&now).all(|((_, before), now)| {
            let now = now.as_ref().map(Option::as_ref);
            now.is_ok_and(|now| is_same_file(now, before.as_ref()))
        });
        // It was killed before it had changed anything.
        let untouched = entry.after.is_none() && !files.is_empty() && as_before;
        let undo = command.undo.as_ref().filter(|_| !untouched);
        let undo_failed = undo.and_then(|undo| {
            progress(&ApplyEvent::TakingBack { what: &line });
            let ran = self.system.run(undo, command.user.as_deref());
            ran.and_then(|ran| check_success(&line, ran)).err()
        });
        for ((path, _), now) in files.iter().zip(&now) {
            if self.killed {
                self.remove_temporary(path, done);
            }
            // A command whose end is known has its files' sums, whatever was killed later but an
            // undo.
            let unsure =
                self.killed && (entry.after.is_none() || self.log.state != JournalState::Running);
            let ours = unsure
                || command.undo.is_none()
                || now.as_ref().is_ok_and(|now| rewritten.left_by_us(path, now.as_ref()));
            let before = rewritten.file_before(path);
            self.take_back_rewritten(path, before, ours, &line, done, progress);
        }
        match undo_failed {
            // What it would have changed is restored from the journal.
            Some(failure) if !files.is_empty() && !command.undo_last => {
                done.notes.push(failure.to_string())
            }
            failure => {
                if let Some(result) = self.undo_result(command, failure, untouched) {
                    done.add(line, result);
                }
            }
        }
    }

    /// `None` where it has no undo.
    fn undo_result(
        &self,
        command: &CommandChange,
        failure: Option<SystemFailure>,
        untouched: bool,
    ) -> Option<RestoreResult> {
        match failure.map(|failure| failure.to_string()) {
            // Whoever the server belongs to decides what it answers.
            Some(why) if command.user.is_some() || self.foreign == ForeignChanges::Replace => {
                Some(RestoreResult::Left { why })
            }
            Some(why) => Some(RestoreResult::Failed { why }),
            None if untouched => Some(RestoreResult::AlreadySo),
            None => command.undo.is_some().then_some(RestoreResult::Ran),
        }
    }

    fn take_back_rewritten(
        &self,
        path: &str,
        before: Option<&FileState>,
        ours: bool,
        line: &str,
        done: &mut TakenBack,
        progress: &mut ProgressListener<'_>,
    ) {
        let result = self.put_rewritten(path, before, ours, line, done, progress);
        let result = result.and_then(|result| self.system.sync_file(path).map(|()| result));
        if result.is_err()
            && ours
            && let Ok(left) = self.system.read_file(path)
        {
            done.made.push((path.to_owned(), checksum_file(left.as_ref())));
        }
        done.add(path, result.unwrap_or_else(|failure| self.give_up(path, failure)));
    }

    /// As before to the byte, unless somebody else has regenerated it since, with a new kernel say.
    fn put_rewritten(
        &self,
        path: &str,
        before: Option<&FileState>,
        ours: bool,
        line: &str,
        done: &mut TakenBack,
        progress: &mut ProgressListener<'_>,
    ) -> Result<RestoreResult, SystemFailure> {
        if is_same_file(self.system.read_file(path)?.as_ref(), before) {
            return Ok(RestoreResult::AlreadySo);
        }
        if !ours {
            done.notes.push(format!(
                "somebody has regenerated {path} since: {line} has made it from the current \
                 configuration now, and its old bytes were not put back"
            ));
            return Ok(RestoreResult::Ran);
        }
        progress(&ApplyEvent::TakingBack { what: path });
        self.put_file_back(path, before).map(|()| RestoreResult::Restored)
    }
}

/// What files were before the first command that rewrites them.
#[derive(Default)]
pub(super) struct Rewritten<'a> {
    before: BTreeMap<&'a str, Option<&'a FileState>>,
    known: BTreeSet<(&'a str, Option<String>)>,
}

impl<'a> Rewritten<'a> {
    /// Entries as they were made, and files as earlier tries have left them.
    pub(super) fn from_entries(
        entries: impl Iterator<Item = &'a JournalEntry>,
        left: impl Iterator<Item = &'a (String, Option<String>)>,
    ) -> Self {
        let mut rewritten = Self::default();
        rewritten.known.extend(left.map(|(path, sum)| (path.as_str(), sum.clone())));
        for entry in entries {
            let Before::Command { files } = &entry.intent.before else { continue };
            let sums = match &entry.after {
                Some(RecordedAfter::Command(sums)) => sums.as_slice(),
                _ => &[],
            };
            for (place, (path, before)) in files.iter().enumerate() {
                rewritten.before.entry(path).or_insert(before.as_ref());
                rewritten.known.insert((path, checksum_file(before.as_ref())));
                rewritten.known.extend(sums.get(place).map(|sum| (path.as_str(), sum.clone())));
            }
        }
        rewritten
    }

    fn file_before(&self, path: &str) -> Option<&'a FileState> {
        self.before.get(path).copied().flatten()
    }

    fn left_by_us(&self, path: &str, now: Option<&FileState>) -> bool {
        self.known.contains(&(path, checksum_file(now)))
    }
}

fn changed_since(difference: &StateDifference) -> RestoreResult {
    let why = format!("somebody has changed {} meanwhile, so it stays as it is", difference.path);
    RestoreResult::Left { why }
}
