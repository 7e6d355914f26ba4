//! Applies build on each other: what a younger one found is what an older one left.
//!
//! A step of an older apply is taken back only when no younger one that stands has changed the
//! same: until then it waits, and goes with the last of these. So whatever the order of undoing,
//! what was there before all of them comes back, and the journals on the disk always say what is
//! left to do.

use std::collections::{BTreeMap, BTreeSet};

use crate::journal::{Before, JournalEntry, JournalLog, JournalShelf, JournalState, RecordedAfter};
use crate::plan::Change;
use crate::restore::checksum_file;

const DEFAULT_POOL: &str = "/proc/sys/vm/nr_hugepages";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TouchedResource<'a> {
    Path(&'a str),
    /// Any pool: its parts by node belong to it, and that of the default size has a second name.
    Pools,
}

fn touched_resources<'a>(log: &'a JournalLog, entry: &'a JournalEntry) -> Vec<TouchedResource<'a>> {
    match (log.find_change(entry), &entry.intent.before) {
        (Some(Change::Value(change)), _)
            if change.pool.is_some() || change.path == DEFAULT_POOL =>
        {
            vec![TouchedResource::Pools]
        }
        (Some(Change::Command(_)), Before::Command { files }) => {
            files.iter().map(|(path, _)| TouchedResource::Path(path.as_str())).collect()
        }
        (change, _) => {
            change.and_then(Change::path).map(TouchedResource::Path).into_iter().collect()
        }
    }
}

fn applied_resources<'a>(log: &'a JournalLog) -> BTreeSet<TouchedResource<'a>> {
    log.standing_entries().flat_map(|(_, entry)| touched_resources(log, entry)).collect()
}

/// Steps of an apply that wait, each with the youngest apply that it waits for.
pub(crate) fn waiting_steps(shelf: &JournalShelf, log: &JournalLog) -> BTreeMap<usize, u64> {
    let stands = |other: &&JournalLog| other.id > log.id && !other.state.is_closed();
    let mut waits = BTreeMap::new();
    // Where a step waits, others of the same apply wait that have changed the same, or rewrite it.
    let mut held: BTreeMap<TouchedResource<'_>, u64> = BTreeMap::new();
    for other in shelf.logs.iter().filter(stands) {
        held.extend(applied_resources(other).into_iter().map(|touched| (touched, other.id)));
    }
    loop {
        let known = (waits.len(), held.len());
        for (_, entry) in log.standing_entries() {
            let of_entry = touched_resources(log, entry);
            let last = of_entry.iter().filter_map(|one| held.get(one)).max().copied();
            let Some(last) = last.or_else(|| waits.get(&entry.intent.step).copied()) else {
                continue;
            };
            let until = waits.entry(entry.intent.step).or_insert(last);
            *until = (*until).max(last);
            for one in of_entry {
                held.entry(one).or_insert(last);
            }
        }
        if (waits.len(), held.len()) == known {
            return waits;
        }
    }
}

/// Files that commands of younger applies, or of their undo, have made or found, by their checksums:
/// what an older one finds of these is nobody else's, whatever became of the younger ones.
pub(crate) fn files_made_since(
    shelf: &JournalShelf,
    log: &JournalLog,
) -> Vec<(String, Option<String>)> {
    let mut made = Vec::new();
    for other in shelf.logs.iter().filter(|other| other.id > log.id) {
        made.extend(other.made.iter().cloned());
        for entry in &other.entries {
            let Before::Command { files } = &entry.intent.before else { continue };
            made.extend(
                files.iter().map(|(path, file)| (path.clone(), checksum_file(file.as_ref()))),
            );
            if let Some(RecordedAfter::Command(sums)) = &entry.after {
                let paths = files.iter().map(|(path, _)| path.clone());
                made.extend(paths.zip(sums.iter().cloned()));
            }
        }
    }
    made
}

/// Younger applies that were undone but for what an older one now takes back in their stead, with
/// the places of what is left to them then.
pub(crate) fn superseded_entries<'a>(
    shelf: &'a JournalShelf,
    log: &JournalLog,
    waits: &BTreeMap<usize, u64>,
) -> Vec<(&'a JournalLog, Vec<usize>)> {
    let ready = log.standing_entries().filter(|(_, entry)| !waits.contains_key(&entry.intent.step));
    let taken: BTreeSet<TouchedResource<'_>> =
        ready.flat_map(|(_, entry)| touched_resources(log, entry)).collect();
    let younger = shelf
        .logs
        .iter()
        .filter(|other| other.id > log.id && other.state == JournalState::UndoneExcept);
    let left = younger.filter_map(|other| {
        let stays = |entry: &JournalEntry| {
            !touched_resources(other, entry).iter().any(|touched| taken.contains(touched))
        };
        let left = other.standing_entries().filter(|(_, entry)| stays(entry));
        let left: Vec<usize> = left.map(|(place, _)| place).collect();
        (left.len() < other.standing_entries().count()).then_some((other, left))
    });
    left.collect()
}

/// The youngest that was killed, or whose reason to wait is gone.
pub(crate) fn find_unfinished_log(shelf: &JournalShelf) -> Option<&JournalLog> {
    shelf.logs.iter().rev().find(|log| match log.state {
        JournalState::Waiting => {
            waiting_steps(shelf, log).is_empty() || has_ready_entries(shelf, log)
        }
        state => state.is_unfinished(),
    })
}

/// What an undo could not put back is no reason to try for ever.
fn has_ready_entries(shelf: &JournalShelf, log: &JournalLog) -> bool {
    let waits = waiting_steps(shelf, log);
    let mut untried = log.standing_entries().filter(|(_, entry)| !entry.tried);
    untried.any(|(_, entry)| !waits.contains_key(&entry.intent.step))
}
