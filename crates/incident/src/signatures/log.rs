//! What logs say happened: the kernel out of memory, tasks that hang, servers that end or refuse.
//!
//! One log is one witness, and every user may write into some of them; a kill for memory and processors that do not come back
//! are told by the kernel alone all the same, and nobody writes them in passing.

use std::collections::{BTreeMap, BTreeSet};

use super::observations::Observations;
use super::rows::{MINUTE, apart};
use crate::event::{Event, EventKind};
use crate::{Evidence, Kind, Moment, Series, Signature, Strength};

/// Events that are nearer to each other than this, in milliseconds, are of one trouble: a task that hangs is told every two
/// minutes.
const NEAR: i64 = 3 * MINUTE;
/// Tasks that hang at once which are no chance, and which are beyond doubt.
const FEW: usize = 3;
const MANY: usize = 8;
/// How the words begin that say whom the kernel killed.
pub(crate) const KILLED: &str = "killed ";
/// What is to be said of a log that is not the kernel's own.
pub(crate) const RELAYED: &str = "any local user can write to such a log, even in the kernel's name (logger -t kernel)";
/// Refusals within one trouble that are no chance.
const REFUSALS: usize = 10;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.history.series.iter().flat_map(of).collect()
}

fn of(series: &Series) -> Vec<Signature> {
    let mut found = Vec::new();
    for kind in [Kind::Oom, Kind::CgroupOom, Kind::KernelLog, Kind::ServerLog, Kind::HugePagesLost] {
        let mut group: Vec<(Moment, &Event)> = Vec::new();
        // journalctl -r prints the newest first, and files that were put together are in any order.
        let mut events: Vec<(Moment, &Event)> =
            series.events().filter(|(_, event)| tells(event.kind) == kind).collect();
        events.sort_by_key(|(at, _)| *at);
        for (at, event) in events {
            if group.last().is_some_and(|(last, _)| apart(*last, at) > NEAR) {
                found.push(signature(series, kind, &group));
                group.clear();
            }
            group.push((at, event));
        }
        if !group.is_empty() {
            found.push(signature(series, kind, &group));
        }
    }
    found
}

/// Of which kind of trouble an event tells.
const fn tells(kind: EventKind) -> Kind {
    match kind {
        EventKind::OutOfMemory => Kind::Oom,
        EventKind::CgroupOutOfMemory => Kind::CgroupOom,
        EventKind::AllocationFailure
        | EventKind::HungTask
        | EventKind::Lockup
        | EventKind::BadPage
        | EventKind::PoolShort
        | EventKind::HugePagePermission
        | EventKind::Boot
        | EventKind::Shutdown => Kind::KernelLog,
        EventKind::WithoutHugePages => Kind::HugePagesLost,
        EventKind::ServerStarted | EventKind::ServerWork | EventKind::ServerFailed | EventKind::ServerTrouble => {
            Kind::ServerLog
        }
    }
}

fn signature(series: &Series, kind: Kind, events: &[(Moment, &Event)]) -> Signature {
    // The same words again say nothing new; how often they came is told.
    let mut times: BTreeMap<&str, (Moment, usize)> = BTreeMap::new();
    for (at, event) in events {
        times.entry(&event.what).or_insert((*at, 0)).1 += 1;
    }
    let row = |(what, (at, again)): (&&str, &(Moment, usize))| {
        let times = if *again > 1 { format!(", {again} times") } else { String::new() };
        Evidence { source: series.source.clone(), at: *at, what: format!("{what}{times}") }
    };
    let mut evidence: Vec<Evidence> = times.iter().map(row).collect();
    evidence.sort_by_key(|row| row.at);
    let said: BTreeSet<&str> = times.into_keys().collect();
    let first = events.iter().map(|(at, _)| *at).min().unwrap_or_default();
    let last = events.iter().map(|(at, _)| *at).max().unwrap_or_default();
    let strength = match kind {
        Kind::Oom | Kind::CgroupOom => Strength::Strong,
        Kind::HugePagesLost => Strength::Clear,
        Kind::KernelLog => of_kernel(events, &said),
        _ => of_server(events),
    };
    let caveats = series.relayed.then(|| RELAYED.to_owned()).into_iter().collect();
    Signature { kind, from: first, to: last, strength, evidence, caveats }
}

fn count(events: &[(Moment, &Event)], kind: EventKind) -> usize {
    events.iter().filter(|(_, event)| event.kind == kind).count()
}

fn of_kernel(events: &[(Moment, &Event)], said: &BTreeSet<&str>) -> Strength {
    let hung = events.iter().filter(|(_, event)| event.kind == EventKind::HungTask);
    let hung = hung.filter(|(_, event)| said.contains(event.what.as_str())).map(|(_, event)| &event.what);
    let hung = hung.collect::<BTreeSet<_>>().len();
    let lockups = count(events, EventKind::Lockup);
    let failures = count(events, EventKind::AllocationFailure);
    if lockups >= FEW || hung >= MANY {
        Strength::Strong
    } else if lockups > 0 || hung >= FEW || failures >= FEW || count(events, EventKind::BadPage) > 0 {
        Strength::Clear
    } else {
        Strength::Weak
    }
}

fn of_server(events: &[(Moment, &Event)]) -> Strength {
    let clear = count(events, EventKind::ServerFailed) > 0 || count(events, EventKind::ServerTrouble) >= REFUSALS;
    if clear { Strength::Clear } else { Strength::Weak }
}
