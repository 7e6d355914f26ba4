//! What logs say: the kernel out of memory, hung tasks, servers that end or refuse.
//!
//! One log is one witness, and any user may write into some of them; kills for memory and stuck
//! processors are beyond doubt all the same.

use std::collections::{BTreeMap, BTreeSet};

use super::observations::Observations;
use super::rows::{MINUTE, milliseconds_between};
use crate::event::{LogEvent, LogEventKind};
use crate::{
    EvidenceBasis, LogWitness, Moment, Series, Signature, SignatureEvidence, SignatureKind,
    SignatureStrength,
};

/// Milliseconds between events of one trouble: a hung task is reported every two minutes.
const NEAR: i64 = 3 * MINUTE;
/// Events at once that are no chance, and tasks hung that are beyond doubt.
const FEW: usize = 3;
const MANY: usize = 8;
pub(crate) const RELAYED: &str =
    "any local user can write to such a log, even in the kernel's name (logger -t kernel)";
/// Refusals within one trouble that are no chance.
const REFUSALS: usize = 10;

pub(super) fn find_log_events(observations: &Observations<'_>) -> Vec<Signature> {
    observations.history.series.iter().flat_map(detect_log_events).collect()
}

fn detect_log_events(series: &Series) -> Vec<Signature> {
    let mut found = Vec::new();
    for kind in [
        SignatureKind::Oom,
        SignatureKind::CgroupOom,
        SignatureKind::KernelLog,
        SignatureKind::ServerLog,
        SignatureKind::HugePagesLost,
    ] {
        let mut group: Vec<(Moment, &LogEvent)> = Vec::new();
        // journalctl -r prints the newest first, and joined files are in any order.
        let mut events: Vec<(Moment, &LogEvent)> =
            series.events().filter(|(_, event)| kind_of_event(event.kind) == kind).collect();
        events.sort_by_key(|(at, _)| *at);
        for (at, event) in events {
            if group.last().is_some_and(|(last, _)| milliseconds_between(*last, at) > NEAR) {
                found.push(log_signature(series, kind, &group));
                group.clear();
            }
            group.push((at, event));
        }
        if !group.is_empty() {
            found.push(log_signature(series, kind, &group));
        }
    }
    found
}

const fn kind_of_event(kind: LogEventKind) -> SignatureKind {
    match kind {
        LogEventKind::OutOfMemory
        | LogEventKind::OomCutOff
        | LogEventKind::UserspaceKill
        | LogEventKind::UnitKilled => SignatureKind::Oom,
        LogEventKind::CgroupOutOfMemory => SignatureKind::CgroupOom,
        LogEventKind::AllocationFailure
        | LogEventKind::ReserveEmpty
        | LogEventKind::MemoryExhausted
        | LogEventKind::ManualKill
        | LogEventKind::Panic
        | LogEventKind::Oops
        | LogEventKind::HungTask
        | LogEventKind::Lockup
        | LogEventKind::BadPage
        | LogEventKind::StorageTimeout
        | LogEventKind::StorageLost
        | LogEventKind::StorageError
        | LogEventKind::PoolShort
        | LogEventKind::HugePagePermission
        | LogEventKind::Boot
        | LogEventKind::Shutdown => SignatureKind::KernelLog,
        LogEventKind::WithoutHugePages => SignatureKind::HugePagesLost,
        LogEventKind::ServerStarted
        | LogEventKind::ServerWork
        | LogEventKind::ServerRefused
        | LogEventKind::ServerRecovered
        | LogEventKind::ServerFailed
        | LogEventKind::ServerKilled
        | LogEventKind::MemoryRefused
        | LogEventKind::DiskWait
        | LogEventKind::HostSwapped
        | LogEventKind::ServerTrouble => SignatureKind::ServerLog,
    }
}

fn log_signature(
    series: &Series,
    kind: SignatureKind,
    events: &[(Moment, &LogEvent)],
) -> Signature {
    // The same words are kept once, with how often they came.
    let mut times: BTreeMap<&str, (Moment, &LogEvent, usize)> = BTreeMap::new();
    for (at, event) in events {
        times.entry(&event.what).or_insert((*at, event, 0)).2 += 1;
    }
    let witness = if series.relayed { LogWitness::AnyUser } else { LogWitness::Own };
    let row = |(what, (at, event, again)): (&&str, &(Moment, &LogEvent, usize))| {
        let times = if *again > 1 { format!(", {again} times") } else { String::new() };
        let work = event.work.map_or_else(String::new, |work| format!(", {}", work.describe()));
        SignatureEvidence {
            source: series.source.clone(),
            at: *at,
            what: format!("{what}{work}{times}"),
            basis: EvidenceBasis::Log(event.kind, witness),
        }
    };
    let mut evidence: Vec<SignatureEvidence> = times.iter().map(row).collect();
    evidence.sort_by_key(|row| row.at);
    let said: BTreeSet<&str> = times.into_keys().collect();
    let first = events.iter().map(|(at, _)| *at).min().unwrap_or_default();
    let last = events.iter().map(|(at, _)| *at).max().unwrap_or_default();
    let strength = match kind {
        // systemd does not say which limit a unit's process met.
        SignatureKind::Oom if count_events(events, LogEventKind::UnitKilled) == events.len() => {
            SignatureStrength::Clear
        }
        SignatureKind::Oom | SignatureKind::CgroupOom => SignatureStrength::Strong,
        SignatureKind::HugePagesLost => SignatureStrength::Clear,
        SignatureKind::KernelLog => rate_kernel_events(events, &said),
        _ => rate_server_events(events),
    };
    let caveats = series.relayed.then(|| RELAYED.to_owned()).into_iter().collect();
    Signature { kind, from: first, to: last, strength, evidence, caveats }
}

fn count_events(events: &[(Moment, &LogEvent)], kind: LogEventKind) -> usize {
    events.iter().filter(|(_, event)| event.kind == kind).count()
}

fn rate_kernel_events(events: &[(Moment, &LogEvent)], said: &BTreeSet<&str>) -> SignatureStrength {
    let hung = events.iter().filter(|(_, event)| event.kind == LogEventKind::HungTask);
    let hung =
        hung.filter(|(_, event)| said.contains(event.what.as_str())).map(|(_, event)| &event.what);
    let hung = hung.collect::<BTreeSet<_>>().len();
    let count = |kind| count_events(events, kind);
    let lockups = count(LogEventKind::Lockup);
    if lockups >= FEW || hung >= MANY || count(LogEventKind::Panic) > 0 {
        SignatureStrength::Strong
    } else if lockups > 0
        || hung > 0
        || count(LogEventKind::AllocationFailure) >= FEW
        || count(LogEventKind::MemoryExhausted) > 0
        || count(LogEventKind::Oops) > 0
        || count(LogEventKind::BadPage) > 0
        || count(LogEventKind::StorageTimeout) > 0
        || count(LogEventKind::StorageLost) > 0
        || count(LogEventKind::StorageError) >= FEW
    {
        SignatureStrength::Clear
    } else {
        SignatureStrength::Weak
    }
}

fn rate_server_events(events: &[(Moment, &LogEvent)]) -> SignatureStrength {
    let clear = count_events(events, LogEventKind::ServerFailed) > 0
        || count_events(events, LogEventKind::ServerRefused) > 0
        || count_events(events, LogEventKind::ServerKilled) > 0
        || count_events(events, LogEventKind::HostSwapped) > 0
        || count_events(events, LogEventKind::MemoryRefused) > 0
        || count_events(events, LogEventKind::DiskWait) >= FEW
        || count_events(events, LogEventKind::ServerTrouble) >= REFUSALS;
    if clear { SignatureStrength::Clear } else { SignatureStrength::Weak }
}
