//! Applies build on each other: what a younger one found is what an older one left.
//!
//! A step of an older apply is taken back only when no younger one that stands has changed the same: until then it waits,
//! and goes together with the last of these. So whatever the order in which they are undone, what was there before all of
//! them comes back, and at every moment the journals on the disk say what is left to do.

use std::collections::{BTreeMap, BTreeSet};

use crate::journal::{Before, Entry, Log, Shelf, State};
use crate::plan::Change;

const DEFAULT_POOL: &str = "/proc/sys/vm/nr_hugepages";

/// What a change touches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Touched<'a> {
    Path(&'a str),
    /// Any pool: its pages by node are a part of those of the host, and that of the default size has a second name.
    Pools,
}

fn touched<'a>(log: &'a Log, entry: &'a Entry) -> Vec<Touched<'a>> {
    match (log.change(entry), &entry.intent.before) {
        (Some(Change::Value(change)), _) if change.pool.is_some() || change.path == DEFAULT_POOL => {
            vec![Touched::Pools]
        }
        (Some(Change::Value(change)), _) => vec![Touched::Path(&change.path)],
        (Some(Change::File(change)), _) => vec![Touched::Path(&change.path)],
        (Some(Change::Command(_)), Before::Command { files }) => {
            files.iter().map(|(path, _)| Touched::Path(path.as_str())).collect()
        }
        _ => Vec::new(),
    }
}

/// What stands of an apply.
fn standing<'a>(log: &'a Log) -> BTreeSet<Touched<'a>> {
    let entries = log.entries.iter().filter(|entry| !entry.taken_back);
    entries.flat_map(|entry| touched(log, entry)).collect()
}

/// Steps of an apply that wait, each with the youngest apply that it waits for.
pub(crate) fn waits(shelf: &Shelf, log: &Log) -> BTreeMap<usize, u64> {
    let stands = |other: &&Log| other.id > log.id && !other.state.is_closed();
    let younger: Vec<(u64, BTreeSet<Touched<'_>>)> =
        shelf.logs.iter().filter(stands).map(|other| (other.id, standing(other))).collect();
    let mut waits = BTreeMap::new();
    // Where a step waits, others of the same apply wait that have changed the same, or rewrite it.
    let mut held: BTreeMap<Touched<'_>, u64> = BTreeMap::new();
    for (id, touched) in &younger {
        held.extend(touched.iter().map(|one| (one.clone(), *id)));
    }
    loop {
        let known = (waits.len(), held.len());
        for entry in log.entries.iter().filter(|entry| !entry.taken_back) {
            let of_entry = touched(log, entry);
            let last = of_entry.iter().filter_map(|one| held.get(one)).max().copied();
            let Some(last) = last.or_else(|| waits.get(&entry.intent.step).copied()) else { continue };
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

/// Younger applies that were undone but for what an older one now takes back in their stead, each with the places of what
/// is left to them then: what they would put back is what the older one has set.
pub(crate) fn superseded<'a>(shelf: &'a Shelf, log: &Log, waits: &BTreeMap<usize, u64>) -> Vec<(&'a Log, Vec<usize>)> {
    let due = log.entries.iter().filter(|entry| !entry.taken_back && !waits.contains_key(&entry.intent.step));
    let due: BTreeSet<Touched<'_>> = due.flat_map(|entry| touched(log, entry)).collect();
    let younger = shelf.logs.iter().filter(|other| other.id > log.id && other.state == State::UndoneExcept);
    let left = younger.filter_map(|other| {
        let entries = || other.entries.iter().enumerate().filter(|(_, entry)| !entry.taken_back);
        let stays = |entry: &Entry| !touched(other, entry).iter().any(|one| due.contains(one));
        let left: Vec<usize> = entries().filter(|(_, entry)| stays(entry)).map(|(place, _)| place).collect();
        (left.len() < entries().count()).then_some((other, left))
    });
    left.collect()
}

/// The youngest apply that has to be brought to its end: it was killed, or what it waited for is undone.
pub(crate) fn unfinished(shelf: &Shelf) -> Option<&Log> {
    shelf.logs.iter().rev().find(|log| match log.state {
        State::Waiting => waits(shelf, log).is_empty() || is_due(shelf, log),
        state => state.is_unfinished(),
    })
}

/// Whether some of what waits need not wait any longer. What an undo could not put back is no reason to try for ever.
fn is_due(shelf: &Shelf, log: &Log) -> bool {
    let waits = waits(shelf, log);
    log.entries.iter().any(|entry| !entry.taken_back && !entry.tried && !waits.contains_key(&entry.intent.step))
}
