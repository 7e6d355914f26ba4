//! What is there now: as before, as it was left, or changed by somebody else.

use super::{FoundState, Restorer, UndoOverlay, checksum_file, is_same_file};
use crate::diff::{self, FileView, StateDifference};
use crate::journal::{Before, JournalEntry, RecordedAfter};
use crate::plan::{
    Change, CommandChange, FileChange, FileContent, FileHolds, FileState, PoolRef, ValueChange,
};
use crate::{SystemFailure, values};

impl<'a> Restorer<'a> {
    pub(super) fn inspect_entry(
        &self,
        entry: &JournalEntry,
        overlay: &UndoOverlay<'_>,
    ) -> FoundState {
        match (self.log.find_change(entry), &entry.intent.before) {
            (Some(Change::Value(change)), Before::Value { value, parts }) => self
                .look_at_value(entry, change, (value, parts), overlay)
                .unwrap_or_else(FoundState::Unreadable),
            (Some(Change::File(change)), Before::File { .. }) => {
                self.look_at_file(entry, change, overlay).unwrap_or_else(FoundState::Unreadable)
            }
            (Some(Change::Command(command)), Before::Command { files }) => {
                self.look_at_command(command, files, entry.after.as_ref(), overlay)
            }
            _ => FoundState::AsBefore,
        }
    }

    /// Entries that changed the same path: those up to this one, and those from it on.
    fn neighboring_entries(
        &self,
        entry: &JournalEntry,
        path: &str,
    ) -> (Vec<&'a JournalEntry>, Vec<&'a JournalEntry>) {
        let place = self.log.place_of(entry).unwrap_or_default();
        let same = |other: &&JournalEntry| {
            self.log.find_change(other).and_then(Change::path) == Some(path)
        };
        let (earlier, later) = self.log.entries.split_at(place);
        let earlier = earlier.iter().filter(same).chain(later.first()).collect();
        (earlier, later.iter().filter(same).collect())
    }

    fn look_at_value(
        &self,
        entry: &JournalEntry,
        change: &ValueChange,
        (before, parts): (&str, &[(PoolRef, u64)]),
        overlay: &UndoOverlay<'_>,
    ) -> Result<FoundState, SystemFailure> {
        let now = match overlay.values.get(change.path.as_str()) {
            Some(value) => Some(value.clone()),
            None => values::read(self.system, &change.path, change.pool)?,
        };
        // Another kernel was booted, or a node is gone: there is nothing to take back.
        let Some(now) = now else { return Ok(FoundState::AsBefore) };
        let (earlier, later) = self.neighboring_entries(entry, &change.path);
        let befores = earlier.iter().filter_map(|entry| match &entry.intent.before {
            Before::Value { value, .. } => Some(value),
            _ => None,
        });
        let befores: Vec<&String> = befores.collect();
        let is_spread = |(part, pages): &(PoolRef, u64)| {
            self.read_node_pages(*part).is_none_or(|now| now == *pages)
        };
        if befores.contains(&&now) {
            let is_as_before = now != before || parts.iter().all(is_spread);
            return Ok(if is_as_before { FoundState::AsBefore } else { FoundState::Ours });
        }
        let expected = |entry: &JournalEntry| match (&entry.after, self.log.find_change(entry)) {
            (Some(RecordedAfter::Value(Some(obtained))), _) => obtained.clone(),
            (_, Some(Change::Value(change))) => values::normalize_value(&change.after),
            _ => String::new(),
        };
        let left: Vec<String> = later.iter().map(|entry| expected(entry)).collect();
        // A pool that was killed while it grew or shrank has some number between.
        let unsure =
            change.pool.is_some() && (self.killed || self.rebooted || entry.after.is_none());
        if left.contains(&now)
            || (unsure && left.iter().any(|after| is_between(&now, before, after)))
        {
            return Ok(FoundState::Ours);
        }
        if unsure && befores.iter().any(|earlier| is_between(&now, earlier, before)) {
            return Ok(FoundState::AsBefore);
        }
        // Another boot has set it from its files: nothing of ours is left.
        if self.rebooted && change.pool.is_none() {
            return Ok(FoundState::AsBefore);
        }
        let diff = diff::of_values(&change.path, left.last().map(String::as_str), Some(&now));
        Ok(FoundState::Foreign(StateDifference { path: change.path.clone(), diff }))
    }

    fn read_node_pages(&self, part: PoolRef) -> Option<u64> {
        values::read(self.system, &values::pool_path(part), Some(part)).ok()??.parse().ok()
    }

    fn look_at_file(
        &self,
        entry: &JournalEntry,
        change: &FileChange,
        overlay: &UndoOverlay<'_>,
    ) -> Result<FoundState, SystemFailure> {
        let read;
        let now = match overlay.files.get(change.path.as_str()) {
            Some(file) => *file,
            None => {
                read = self.system.read_file(&change.path)?;
                read.as_ref()
            }
        };
        let now = now.map(FileView::from);
        let (earlier, later) = self.neighboring_entries(entry, &change.path);
        let mut befores = earlier.iter().filter_map(|entry| match &entry.intent.before {
            Before::File { file, .. } => Some(file.as_ref().map(FileView::from)),
            _ => None,
        });
        if befores.any(|before| now == before) {
            return Ok(FoundState::AsBefore);
        }
        let afters = later.iter().filter_map(|entry| match self.log.find_change(entry) {
            Some(Change::File(change)) => Some(change.after.as_ref().map(FileView::from)),
            _ => None,
        });
        let afters: Vec<_> = afters.collect();
        if afters.contains(&now) {
            return Ok(FoundState::Ours);
        }
        let diff = diff::of_files(&change.path, afters.last().copied().flatten(), now);
        Ok(FoundState::Foreign(StateDifference { path: change.path.clone(), diff }))
    }

    /// Anybody may regenerate a file out of the configuration. One that is only restored from the
    /// journal must be as the command left it, and a line by which the command can be told to have
    /// run must still be there: without it somebody has set something else since.
    fn look_at_command(
        &self,
        command: &CommandChange,
        files: &[(String, Option<FileState>)],
        after: Option<&RecordedAfter>,
        overlay: &UndoOverlay<'_>,
    ) -> FoundState {
        let Some(RecordedAfter::Command(sums)) = after else { return FoundState::Ours };
        if command.undo.is_some() {
            let Some(line) = command.unless.as_ref().filter(|_| !self.killed) else {
                return FoundState::Ours;
            };
            let file = files.iter().zip(sums).find(|((path, _), _)| *path == line.path);
            let before = file.map(|((_, before), _)| before.as_ref());
            return self.look_at_line(line, before, file.and_then(|(_, sum)| sum.as_ref()));
        }
        for ((path, before), sum) in files.iter().zip(sums) {
            if overlay.files.contains_key(path.as_str()) {
                continue;
            }
            match self.system.read_file(path) {
                Ok(now)
                    if is_same_file(now.as_ref(), before.as_ref())
                        || checksum_file(now.as_ref()) == *sum => {}
                Ok(now) => {
                    let (old, new) =
                        (before.as_ref().map(FileView::from), now.as_ref().map(FileView::from));
                    let diff = diff::of_files(path, old, new);
                    return FoundState::Foreign(StateDifference { path: path.clone(), diff });
                }
                Err(failure) => return FoundState::Unreadable(failure),
            }
        }
        FoundState::Ours
    }

    /// `before` is the whole file, where the command names it as one that it rewrites.
    fn look_at_line(
        &self,
        line: &FileHolds,
        before: Option<Option<&FileState>>,
        sum: Option<&String>,
    ) -> FoundState {
        let now = match self.system.read_file(&line.path) {
            Ok(now) => now,
            Err(failure) => return FoundState::Unreadable(failure),
        };
        let sum_now = checksum_file(now.as_ref());
        let made = self.log.made.iter().chain(&self.made_since);
        let is_ours =
            |(path, made): &(String, Option<String>)| *path == line.path && *made == sum_now;
        let holding = lines_like(now.as_ref(), &line.line);
        let holds = holding.iter().any(|there| *there == line.line);
        if holds || (sum.is_some() && sum == sum_now.as_ref()) || made.into_iter().any(is_ours) {
            return FoundState::Ours;
        }
        // Whatever else has changed in the file, this is as it was.
        if before.is_some_and(|before| lines_like(before, &line.line) == holding) {
            return FoundState::AsBefore;
        }
        let shown =
            |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let there = now.as_ref().map(|_| shown(&holding));
        let diff = diff::unified_diff(&line.path, Some(&shown(&[&line.line])), there.as_deref());
        FoundState::Foreign(StateDifference { path: line.path.clone(), diff })
    }
}

/// The lines of a file that set what this line sets; all of them where it sets nothing by name.
fn lines_like<'a>(file: Option<&'a FileState>, line: &str) -> Vec<&'a str> {
    let Some(FileContent::Text(text)) = file.map(|file| &file.content) else { return Vec::new() };
    let name = |line: &str| line.split_once('=').map(|(name, _)| name.trim().to_ascii_lowercase());
    let wanted = name(line);
    let lines = text.lines().map(str::trim);
    lines.filter(|there| wanted.is_none() || name(there) == wanted).collect()
}

fn is_between(now: &str, one: &str, other: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let (Some(now), Some(one), Some(other)) = (number(now), number(one), number(other)) else {
        return false;
    };
    (one.min(other)..=one.max(other)).contains(&now)
}
