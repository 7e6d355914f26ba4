//! What is there now: as before, as it was left, or changed by somebody else.

use super::{Found, Overlay, Restorer, same, sum_of};
use crate::diff::{self, Difference, FileView};
use crate::journal::{After, Before, Entry};
use crate::plan::{Change, CommandChange, FileChange, FileState, PoolRef, ValueChange};
use crate::{Failure, values};

impl<'a> Restorer<'a> {
    pub(super) fn look(&self, entry: &Entry, overlay: &Overlay<'_>) -> Found {
        match (self.log.change(entry), &entry.intent.before) {
            (Some(Change::Value(change)), Before::Value { value, parts }) => {
                self.look_at_value(entry, change, (value, parts), overlay).unwrap_or_else(Found::Unreadable)
            }
            (Some(Change::File(change)), Before::File { .. }) => {
                self.look_at_file(entry, change, overlay).unwrap_or_else(Found::Unreadable)
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
        let befores: Vec<&String> = befores.collect();
        let spread = || parts.iter().all(|(part, pages)| self.part(*part).is_none_or(|now| now == *pages));
        if befores.contains(&&now) {
            return Ok(if now != before || spread() { Found::AsBefore } else { Found::Ours });
        }
        let expected = |entry: &Entry| match (&entry.after, self.log.change(entry)) {
            (Some(After::Value(Some(obtained))), _) => obtained.clone(),
            (_, Some(Change::Value(change))) => values::normal(&change.after),
            _ => String::new(),
        };
        let left: Vec<String> = later.iter().map(|entry| expected(entry)).collect();
        // A pool that was killed while it grew or shrank has some number between.
        let unsure = change.pool.is_some() && (self.killed || self.rebooted || entry.after.is_none());
        if left.contains(&now) || (unsure && left.iter().any(|after| between(&now, before, after))) {
            return Ok(Found::Ours);
        }
        if unsure && befores.iter().any(|earlier| between(&now, earlier, before)) {
            return Ok(Found::AsBefore);
        }
        // Another boot has set it from what it found in the files: nothing of ours is left of the one before.
        if self.rebooted && change.pool.is_none() {
            return Ok(Found::AsBefore);
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
                Err(failure) => return Found::Unreadable(failure),
            }
        }
        Found::Ours
    }
}

fn between(now: &str, one: &str, other: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let (Some(now), Some(one), Some(other)) = (number(now), number(one), number(other)) else { return false };
    (one.min(other)..=one.max(other)).contains(&now)
}
