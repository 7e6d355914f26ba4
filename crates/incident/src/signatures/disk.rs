//! Tasks that wait for disks which move little: a disk, a controller or a path to storage in trouble. Who moves much waits
//! too, and is a backup, a copy or a load.

use super::hides;
use super::observations::Observations;
use super::rows::{OUTSTANDING, Rows, Spike};
use crate::baseline::median;
use crate::page::bytes;
use crate::{Kind, Metric, Signature, Strength};

/// Tasks that wait for a disk: a few always do where one is busy, and a database's writers are some more.
const BLOCKED: f64 = 8.0;
/// So many that a disk is in trouble whatever is usual: a database's writers and a dozen of sessions are fewer.
const ALONE: f64 = 16.0;
/// A minute of them.
const BLOCKED_EXCESS: f64 = BLOCKED * 60.0;
/// Percent of time in which all tasks wait for a disk, or processors are idle over it, and a minute of it.
const WAITED: f64 = 50.0;
const WAITED_EXCESS: f64 = WAITED * 60.0;
/// Bytes a second with which disks are at work.
const MOVED: f64 = 20.0 * 1_048_576.0;
/// Bytes a second for each task that waits, above which it is a page here and a page there that is read, and not a disk that
/// gives nothing.
const EACH: f64 = 0.5 * 1_048_576.0;
/// Percent of the time in which somebody waits for a disk where it is more than a moment of tasks that end together.
const SHOWS: f64 = 20.0;
/// %idle and %iowait with which the load is of tasks that wait.
const IDLE: f64 = 50.0;
/// Load of a minute that processors which are idle are not the cause of, beyond the tasks that run.
const LOAD: f64 = 8.0;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let waiting = |row: usize| waiting(rows, row);
    let mut found: Vec<Signature> = Vec::new();
    for spike in rows.spikes(waiting, BLOCKED, BLOCKED / OUTSTANDING, ALONE) {
        if spike.excess >= BLOCKED_EXCESS {
            found.push(signature(rows, &spike, Strength::Strong, |row| {
                let who = match (rows.column(Metric::Blocked).is_some(), is_queue(rows)) {
                    (true, _) => "tasks waited for a disk",
                    (false, true) => "requests waited at a disk",
                    (false, false) => "tasks waited while processors were idle, by the one-minute load",
                };
                Some(format!("{:.0} {who}{}", waiting(row)?, spike.usual(0)))
            }));
        }
    }
    let part = [
        (Metric::PressureIoFull, "all tasks waited for a disk in"),
        (Metric::CpuIowait, "processors were idle over requests to disks in"),
    ];
    for (metric, words) in part {
        for spike in rows.spikes(|row| rows.value(metric, row), WAITED, WAITED / OUTSTANDING, f64::INFINITY) {
            if spike.excess >= WAITED_EXCESS {
                found.push(signature(rows, &spike, Strength::Clear, |row| {
                    Some(format!("{words} {:.0} % of the time{}", rows.value(metric, row)?, spike.usual(0)))
                }));
            }
        }
    }
    found
}

/// Whether requests are counted at disks, and tasks are not.
fn is_queue(rows: &Rows<'_>) -> bool {
    rows.column(Metric::Blocked).is_none() && rows.column(Metric::DiskQueue).is_some()
}

/// Tasks that wait for a disk, as counted; requests that wait there; as the load tells where processors have nothing to do.
fn waiting(rows: &Rows<'_>, row: usize) -> Option<f64> {
    if rows.column(Metric::Blocked).is_some() {
        return rows.value(Metric::Blocked, row);
    }
    if is_queue(rows) {
        return rows.value(Metric::DiskQueue, row);
    }
    let load = rows.value(Metric::Load1, row)?;
    let idle = rows.value(Metric::CpuIdle, row)? + rows.value(Metric::CpuIowait, row).unwrap_or(0.0);
    // The load is an average of a minute, and rises and falls behind what it is of.
    Some(if idle >= IDLE && load >= LOAD { load - rows.value(Metric::RunQueue, row).unwrap_or(0.0) } else { 0.0 })
}

fn signature(rows: &Rows<'_>, spike: &Spike, strength: Strength, words: impl Fn(usize) -> Option<String>) -> Signature {
    let mut moved: Vec<f64> = (spike.first..=spike.last).filter_map(|row| moved(rows, row)).collect();
    let moved = median(&mut moved);
    let counted = |row| rows.value(Metric::Blocked, row).or_else(|| rows.value(Metric::DiskQueue, row));
    let mut blocked: Vec<f64> = (spike.first..=spike.last).filter_map(counted).collect();
    let blocked = median(&mut blocked).unwrap_or(BLOCKED);
    let mut strength = strength;
    let mut caveats: Vec<String> = hides(rows.usual).into_iter().chain(spike.without_usual()).collect();
    match moved {
        Some(moved) if moved >= MOVED => {
            strength = Strength::Weak;
            caveats.push(format!("disks moved {} a second meanwhile: they were working", bytes(moved)));
        }
        Some(moved) if moved >= EACH * blocked => {
            strength = strength.min(Strength::Clear);
            caveats.push("sessions with random reads move as little".to_owned());
        }
        Some(_) => {}
        None => {
            strength = strength.min(Strength::Clear);
            caveats.push("no source says how much the disks moved".to_owned());
        }
    }
    if let Some(waited) = time_waited(rows, spike).filter(|waited| *waited < SHOWS) {
        strength = Strength::Weak;
        caveats
            .push(format!("tasks are counted at one instant; some task waited for a disk in {waited:.0} % of the time"));
    }
    if !spike.settled(rows) {
        strength = Strength::Weak;
        caveats.push("the host or the collector had just started".to_owned());
    }
    let evidence = spike.rows().into_iter().filter_map(|row| {
        let moved = self::moved(rows, row).map(|moved| format!(", {} a second moved", bytes(moved)));
        Some(rows.evidence(row, format!("{}{}", words(row)?, moved.unwrap_or_default())))
    });
    Signature {
        kind: Kind::Disk,
        from: rows.from(spike.first),
        to: rows.at(spike.last),
        strength,
        evidence: evidence.collect(),
        caveats,
    }
}

/// Percent of the time in which somebody waited for a disk, where that was measured: %iowait tells it only of processors that
/// had nothing else to do.
fn time_waited(rows: &Rows<'_>, spike: &Spike) -> Option<f64> {
    let waited = |row: usize| {
        let iowait = || {
            let iowait = rows.value(Metric::CpuIowait, row)?;
            let idle = rows.value(Metric::CpuIdle, row)?;
            Some(iowait).filter(|_| idle + iowait >= SHOWS)
        };
        rows.value(Metric::PressureIoSome, row).or_else(iowait)
    };
    median(&mut (spike.first..=spike.last).filter_map(waited).collect::<Vec<_>>())
}

/// Bytes a second to and from disks, swap among them.
fn moved(rows: &Rows<'_>, row: usize) -> Option<f64> {
    Some(rows.value(Metric::PagedIn, row)? + rows.value(Metric::PagedOut, row).unwrap_or(0.0))
}
