//! Puts back what was there.

use std::collections::{BTreeMap, BTreeSet};

use super::{Foreign, Found, Restorer, TakenBack, same, succeeded, sum_of, temporary};
use crate::diff::Difference;
use crate::journal::{After, Before, Entry, State};
use crate::outcome::{Event, Progress, RestoreResult};
use crate::plan::{CommandChange, FileChange, FileState, PoolRef, ValueChange};
use crate::{Failure, values};
use hugewise_model::PageCount;

impl Restorer<'_> {
    pub(super) fn value(
        &self,
        change: &ValueChange,
        before: &str,
        parts: &[(PoolRef, u64)],
        found: &Found,
        done: &mut TakenBack,
        progress: &mut Progress<'_>,
    ) {
        let result = match found {
            Found::AsBefore => RestoreResult::AlreadySo,
            Found::Foreign(difference) => changed_since(difference),
            Found::Unreadable(failure) => self.given_up(&change.path, failure.clone()),
            Found::Ours => {
                progress(&Event::TakingBack { what: &change.path });
                let restored = self.restore_value(change, before, parts, progress);
                restored.map_or_else(|failure| self.given_up(&change.path, failure), |()| RestoreResult::Restored)
            }
        };
        if let (RestoreResult::Restored, Some(pool)) = (&result, change.pool) {
            done.notes.extend(self.held(&change.path, pool, before));
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
        let whole = [(change.path.clone(), pool, before.parse().unwrap_or_default())];
        let parts: Vec<_> = parts.iter().map(|(pool, pages)| (values::pool_path(*pool), *pool, *pages)).collect();
        let pools = if parts.is_empty() { whole.as_slice() } else { parts.as_slice() };
        for (path, pool, pages) in pools {
            let got = values::set_pool(self.system, path, *pool, *pages, progress)?;
            if got != *pages {
                let why = format!("{} there before, but the kernel gives only {got} back", values::were(*pages));
                return Err(Failure::new(path, why).advising("memory is fragmented: reboot"));
            }
        }
        Ok(())
    }

    /// Pages that servers still hold: the kernel frees them when those end.
    fn held(&self, path: &str, pool: PoolRef, before: &str) -> Option<String> {
        let now = values::read(self.system, path, None).ok()??;
        let held = now.parse::<u64>().ok()?.checked_sub(before.parse().ok()?).filter(|held| *held > 0)?;
        Some(format!(
            "{} {} held by servers that run: the kernel frees them when those end",
            PageCount(held).in_pages_of(pool.page_size),
            PageCount(held).are()
        ))
    }

    pub(super) fn file(
        &self,
        change: &FileChange,
        before: Option<&FileState>,
        folders: &[String],
        found: &Found,
        done: &mut TakenBack,
        progress: &mut Progress<'_>,
    ) {
        if self.killed {
            self.remove_temporary(&change.path, done);
        }
        let result = match found {
            Found::AsBefore => RestoreResult::AlreadySo,
            Found::Foreign(difference) => changed_since(difference),
            Found::Unreadable(failure) => self.given_up(&change.path, failure.clone()),
            Found::Ours => {
                progress(&Event::TakingBack { what: &change.path });
                let put = self.put(&change.path, before);
                put.map_or_else(|failure| self.given_up(&change.path, failure), |()| RestoreResult::Restored)
            }
        };
        let gone = before.is_none() && matches!(result, RestoreResult::AlreadySo | RestoreResult::Restored);
        done.add(&change.path, result);
        for folder in folders.iter().rev().filter(|_| gone) {
            match self.system.remove_folder(folder) {
                Ok(true) => {}
                Ok(false) => {
                    if matches!(self.system.list(folder), Ok(Some(_))) {
                        done.notes.push(format!("hugewise made {folder}, but it stays because it holds other files"));
                        break;
                    }
                }
                Err(failure) => done.add(folder, self.given_up(&format!("{folder}/"), failure)),
            }
        }
    }

    fn put(&self, path: &str, file: Option<&FileState>) -> Result<(), Failure> {
        match file {
            Some(file) => self.system.write_file(path, &temporary(path), file),
            None => self.system.remove_file(path),
        }
    }

    /// What a death in the middle of writing has left. Where it stays, so does its folder.
    fn remove_temporary(&self, path: &str, done: &mut TakenBack) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let left = format!("{folder}/{}", temporary(path));
        let Err(failure) = self.system.remove_file(&left) else { return };
        match self.given_up(&left, failure) {
            RestoreResult::Left { why } => done.notes.push(why),
            result => done.add(left, result),
        }
    }

    pub(super) fn command(
        &self,
        (command, entry): (&CommandChange, &Entry),
        rewritten: &Rewritten<'_>,
        found: &Found,
        done: &mut TakenBack,
        progress: &mut Progress<'_>,
    ) {
        let Before::Command { files } = &entry.intent.before else { return };
        let line = command.undo.as_ref().unwrap_or(&command.command).join(" ");
        match found {
            Found::Foreign(difference) => return done.add(line, changed_since(difference)),
            Found::Unreadable(failure) => return done.add(line, self.given_up(&failure.what, failure.clone())),
            Found::Ours | Found::AsBefore => {}
        }
        let now: Vec<_> = files.iter().map(|(path, _)| self.system.file(path)).collect();
        let as_before = files.iter().zip(&now).all(|((_, before), now)| {
            let now = now.as_ref().map(Option::as_ref);
            now.is_ok_and(|now| same(now, before.as_ref()))
        });
        // It was killed before it had changed anything.
        let untouched = entry.after.is_none() && !files.is_empty() && as_before;
        let mut undo_failed = None;
        if let Some(undo) = command.undo.as_ref().filter(|_| !untouched) {
            progress(&Event::TakingBack { what: &line });
            let ran = self.system.run(undo, command.user.as_deref());
            undo_failed = ran.and_then(|ran| succeeded(&line, ran)).err();
        }
        for ((path, _), now) in files.iter().zip(&now) {
            if self.killed {
                self.remove_temporary(path, done);
            }
            // Of a command whose end is known the file's sum is, whatever was killed later; but for an undo in the middle.
            let unsure = self.killed && (entry.after.is_none() || self.log.state != State::Running);
            let ours = unsure
                || command.undo.is_none()
                || now.as_ref().is_ok_and(|now| rewritten.left_by_us(path, now.as_ref()));
            let result = self.put_rewritten(path, rewritten.before(path), ours, &line, done, progress);
            let result = result.and_then(|result| self.system.sync(path).map(|()| result));
            done.add(path, result.unwrap_or_else(|failure| self.given_up(path, failure)));
        }
        match undo_failed {
            // What it would have changed is restored from the journal.
            Some(failure) if !files.is_empty() && !command.undo_last => done.notes.push(failure.to_string()),
            // Whoever the server belongs to decides what it answers.
            Some(failure) if command.user.is_some() || self.foreign == Foreign::Replace => {
                done.add(line, RestoreResult::Left { why: failure.to_string() });
            }
            Some(failure) => done.add(line, RestoreResult::Failed { why: failure.to_string() }),
            None if untouched => done.add(line, RestoreResult::AlreadySo),
            None if command.undo.is_some() => done.add(line, RestoreResult::Ran),
            None => {}
        }
    }

    /// A file that a command rewrites: as before to the byte, unless somebody else has made it anew since out of what
    /// is there now, perhaps with a kernel that was not there before.
    fn put_rewritten(
        &self,
        path: &str,
        before: Option<&FileState>,
        ours: bool,
        line: &str,
        done: &mut TakenBack,
        progress: &mut Progress<'_>,
    ) -> Result<RestoreResult, Failure> {
        if same(self.system.file(path)?.as_ref(), before) {
            return Ok(RestoreResult::AlreadySo);
        }
        if !ours {
            done.notes.push(format!(
                "somebody has regenerated {path} since: {line} has made it from the current configuration \
                 now, and its old bytes were not put back"
            ));
            return Ok(RestoreResult::Ran);
        }
        progress(&Event::TakingBack { what: path });
        self.put(path, before).map(|()| RestoreResult::Restored)
    }
}

/// Files that commands rewrite, one after the other perhaps: what they were before the first of them.
#[derive(Default)]
pub(super) struct Rewritten<'a> {
    before: BTreeMap<&'a str, Option<&'a FileState>>,
    known: BTreeSet<(&'a str, Option<String>)>,
}

impl<'a> Rewritten<'a> {
    /// Of entries in the order in which they were made.
    pub(super) fn of(entries: impl Iterator<Item = &'a Entry>) -> Self {
        let mut rewritten = Self::default();
        for entry in entries {
            let Before::Command { files } = &entry.intent.before else { continue };
            let sums = match &entry.after {
                Some(After::Command(sums)) => sums.as_slice(),
                _ => &[],
            };
            for (place, (path, before)) in files.iter().enumerate() {
                rewritten.before.entry(path).or_insert(before.as_ref());
                rewritten.known.insert((path, sum_of(before.as_ref())));
                rewritten.known.extend(sums.get(place).map(|sum| (path.as_str(), sum.clone())));
            }
        }
        rewritten
    }

    fn before(&self, path: &str) -> Option<&'a FileState> {
        self.before.get(path).copied().flatten()
    }

    fn left_by_us(&self, path: &str, now: Option<&FileState>) -> bool {
        self.known.contains(&(path, sum_of(now)))
    }
}

fn changed_since(difference: &Difference) -> RestoreResult {
    let why = format!("somebody has changed {} meanwhile, so it stays as it is", difference.path);
    RestoreResult::Left { why }
}
