//! Tasks that wait for disks which move little. Backups, copies and loads wait too, but move much.

use super::interval_caveat;
use super::rows::{OUTSTANDING, SeriesRows, Spike};
use crate::baseline::median_of;
use crate::page::bytes_from_f64;
use crate::{Metric, Series, Signature, SignatureKind, SignatureStrength};

/// Tasks that wait for a disk: a few always do on a busy one, and a database's writers are some more.
const BLOCKED: f64 = 8.0;
/// Whatever is usual: a database's writers and a dozen sessions are fewer.
const ALONE: f64 = 16.0;
/// Seconds of them.
const BLOCKED_SECONDS: f64 = 60.0;
/// Percent of time in which all tasks wait for a disk, or %iowait, and a minute of it.
const WAITED: f64 = 50.0;
const WAITED_EXCESS: f64 = WAITED * 60.0;
/// Percent of time in which all tasks wait for a disk that no host has in peace, and five minutes of
/// it, if as many tasks wait: one that reads alone on an idle host waits all the time.
const PRESSED: f64 = 40.0;
const PRESSED_EXCESS: f64 = PRESSED * 300.0;
const PRESSED_TASKS: f64 = 3.0;
/// Rows that somebody took for their own sake, percent of waits in them, and tasks that share it.
const PASTED_ROWS: usize = 60;
const PASTED_WAIT: f64 = 35.0;
const PASTED_TASKS: f64 = 1.0;
const STANDSTILL: f64 = 75.0;
/// Bytes a second of disks that are working.
const MOVED: f64 = 20.0 * 1_048_576.0;
/// Bytes a second for each waiting task: with more, sessions read random pages, and no disk stalls.
const EACH: f64 = 0.5 * 1_048_576.0;
/// Bytes a second for each request in a queue: half a mebibyte takes a sixteenth of a second.
const SLOW: f64 = 8.0 * 1_048_576.0;
/// Percent of the time in which some task waits for a disk that is more than a moment.
const SHOWS: f64 = 20.0;
/// %idle and %iowait with which the load is of waiting tasks.
const IDLE: f64 = 50.0;
/// One-minute load that idle processors do not explain, beyond the tasks that run.
const LOAD: f64 = 8.0;

pub(super) fn detect_disk_stalls(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let waiting = |row: usize| waiting_tasks(rows, row);
    let mut found: Vec<Signature> = Vec::new();
    for spike in rows.find_spikes(waiting, BLOCKED, BLOCKED / OUTSTANDING, ALONE) {
        if spike.excess >= rows.least_excess(&spike, BLOCKED, BLOCKED_SECONDS) {
            found.push(disk_stall_signature(rows, &spike, SignatureStrength::Strong, |row| {
                let who = match (rows.column(Metric::Blocked).is_some(), is_queue(rows)) {
                    (true, _) => "tasks waited for a disk",
                    (false, true) => "requests waited at a disk",
                    (false, false) => {
                        "tasks waited while processors were idle, by the one-minute load"
                    }
                };
                Some(format!("{:.0} {who}{}", waiting(row)?, spike.usual_suffix(0)))
            }));
        }
    }
    let part = [
        (Metric::PressureIoFull, PRESSED, "all tasks waited for a disk in"),
        (Metric::CpuIowait, f64::INFINITY, "processors were idle over requests to disks in"),
    ];
    for (metric, always, words) in part {
        let value = |row| rows.value(metric, row);
        let least = WAITED.min(always);
        let floor = WAITED / OUTSTANDING;
        for spike in rows.find_spikes_or_levels(value, least, floor, always, always) {
            let level = spike.level_excess(rows, value);
            let stands = always.is_finite() && level >= PRESSED_EXCESS && many_wait(rows, &spike);
            if spike.excess >= WAITED_EXCESS || stands {
                let strength =
                    if stands { SignatureStrength::Strong } else { SignatureStrength::Clear };
                found.push(disk_stall_signature(rows, &spike, strength, |row| {
                    Some(format!(
                        "{words} {:.0} % of the time{}",
                        rows.value(metric, row)?,
                        spike.usual_suffix(0)
                    ))
                }));
            }
        }
    }
    if found.iter().all(|one| one.strength < SignatureStrength::Clear) {
        found.extend(detect_waits_throughout(rows));
    }
    found
}

/// Whether processors waited for disks in much of the time in the few rows that are there: of a
/// sample that somebody took nobody knows what is usual, and no host has that in peace. A task that
/// reads alone on an idle host waits as long.
pub(crate) fn waits_throughout(series: &Series) -> bool {
    let mean = |metric: Metric| {
        let values = series.column(metric)?.iter().map(|(_, value)| value);
        let (sum, count) =
            values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        (count > 0.0).then(|| sum / count)
    };
    let rows = series.samples().len();
    // Where requests are counted at the disks, they are who waits.
    let is_short = rows <= PASTED_ROWS
        && mean(Metric::DiskQueue).is_none_or(|requests| requests >= PRESSED_TASKS);
    let Some(waited) = mean(Metric::CpuIowait).filter(|_| is_short) else { return false };
    let is_shared = mean(Metric::Blocked).is_some_and(|tasks| tasks >= PASTED_TASKS)
        || mean(Metric::Load1).is_some_and(|load| load >= PRESSED_TASKS);
    waited >= WAITED || (waited >= PASTED_WAIT && is_shared)
}

/// What is like that from its first row to its last has no usual value.
fn detect_waits_throughout(rows: &SeriesRows<'_>) -> Option<Signature> {
    if !waits_throughout(rows.series) {
        return None;
    }
    let least = PASTED_WAIT;
    let waits = rows.find_above(|row| rows.value(Metric::CpuIowait, row), least);
    let spike = waits.into_iter().max_by(|one, other| one.excess.total_cmp(&other.excess))?;
    let mut signature = disk_stall_signature(rows, &spike, SignatureStrength::Clear, |row| {
        let waited = rows.value(Metric::CpuIowait, row)?;
        Some(format!("processors were idle over requests to disks in {waited:.0} % of the time"))
    });
    signature.caveats.extend(rows.snapshot_caveat());
    // Where all stand still, it does not matter how much the disks do: a copy waits for one request
    // at a time and for those that it reads ahead, not for a queue.
    let mean = |metric| spike.mean_value(|row| rows.value(metric, row));
    let queue = mean(Metric::Blocked).or_else(|| mean(Metric::DiskQueue));
    let moved = spike.mean_value(|row| bytes_moved(rows, row));
    let is_slow = queue.is_some_and(|queue| moved.is_none_or(|moved| moved <= SLOW * queue));
    if mean(Metric::CpuIowait) >= Some(STANDSTILL) && queue >= Some(BLOCKED) && is_slow {
        signature.strength = SignatureStrength::Clear;
    }
    Some(signature)
}

/// Whether several tasks waited, as far as anybody counted them.
fn many_wait(rows: &SeriesRows<'_>, spike: &Spike) -> bool {
    let counted = |row| {
        let queue =
            || rows.value(Metric::DiskQueue, row).or_else(|| rows.value(Metric::Load1, row));
        rows.value(Metric::Blocked, row).or_else(queue)
    };
    let mut tasks: Vec<f64> = (spike.first..=spike.last).filter_map(counted).collect();
    median_of(&mut tasks).is_none_or(|tasks| tasks >= PRESSED_TASKS)
}

/// Whether requests are counted at disks, and tasks are not.
fn is_queue(rows: &SeriesRows<'_>) -> bool {
    rows.column(Metric::Blocked).is_none() && rows.column(Metric::DiskQueue).is_some()
}

/// Tasks that wait for a disk, or requests that wait there, or the load while processors are idle.
fn waiting_tasks(rows: &SeriesRows<'_>, row: usize) -> Option<f64> {
    if rows.column(Metric::Blocked).is_some() {
        return rows.value(Metric::Blocked, row);
    }
    if is_queue(rows) {
        return rows.value(Metric::DiskQueue, row);
    }
    let load = rows.value(Metric::Load1, row)?;
    let idle =
        rows.value(Metric::CpuIdle, row)? + rows.value(Metric::CpuIowait, row).unwrap_or(0.0);
    // The load is an average of a minute, and lags.
    Some(if idle >= IDLE && load >= LOAD {
        load - rows.value(Metric::RunQueue, row).unwrap_or(0.0)
    } else {
        0.0
    })
}

fn disk_stall_signature(
    rows: &SeriesRows<'_>,
    spike: &Spike,
    strength: SignatureStrength,
    words: impl Fn(usize) -> Option<String>,
) -> Signature {
    let mut moved: Vec<f64> =
        (spike.first..=spike.last).filter_map(|row| bytes_moved(rows, row)).collect();
    let moved = median_of(&mut moved);
    let counted =
        |row| rows.value(Metric::Blocked, row).or_else(|| rows.value(Metric::DiskQueue, row));
    let mut blocked: Vec<f64> = (spike.first..=spike.last).filter_map(counted).collect();
    let blocked = median_of(&mut blocked).unwrap_or(BLOCKED);
    let mut strength = strength;
    // Pressure says by itself that nothing else was done meanwhile.
    let most = if rows.value(Metric::PressureIoFull, spike.peak_row) >= Some(PRESSED) {
        strength
    } else {
        SignatureStrength::Clear
    };
    let mut caveats: Vec<String> =
        interval_caveat(rows.usual).into_iter().chain(spike.without_usual()).collect();
    match moved {
        Some(moved) if moved >= MOVED => {
            strength = SignatureStrength::Weak;
            caveats.push(format!(
                "disks moved {} a second meanwhile: they were working",
                bytes_from_f64(moved)
            ));
        }
        Some(moved) if moved >= EACH * blocked => {
            strength = strength.min(most);
            caveats.push("sessions with random reads move as little".to_owned());
        }
        Some(_) => {}
        None => {
            strength = strength.min(most);
            caveats.push("no source says how much the disks moved".to_owned());
        }
    }
    if let Some(waited) = time_waited(rows, spike).filter(|waited| *waited < SHOWS) {
        strength = SignatureStrength::Weak;
        caveats.push(format!(
            "tasks are counted at one instant; some task waited for a disk in {waited:.0} % of \
                 the time"
        ));
    }
    if !spike.is_settled(rows) {
        strength = SignatureStrength::Weak;
        caveats.push("the host or the collector had just started".to_owned());
    }
    let words = |row| {
        let moved = bytes_moved(rows, row)
            .map(|moved| format!(", {} a second moved", bytes_from_f64(moved)));
        Some(format!("{}{}", words(row)?, moved.unwrap_or_default()))
    };
    rows.spike_signature(SignatureKind::Disk, spike, strength, words, caveats)
}

/// Percent of the time in which some task waited; %iowait tells it only of idle processors.
fn time_waited(rows: &SeriesRows<'_>, spike: &Spike) -> Option<f64> {
    let waited = |row: usize| {
        let iowait = || {
            let iowait = rows.value(Metric::CpuIowait, row)?;
            let idle = rows.value(Metric::CpuIdle, row)?;
            Some(iowait).filter(|_| idle + iowait >= SHOWS)
        };
        rows.value(Metric::PressureIoSome, row).or_else(iowait)
    };
    median_of(&mut (spike.first..=spike.last).filter_map(waited).collect::<Vec<_>>())
}

/// Bytes a second to and from disks, swap included.
pub(super) fn bytes_moved(rows: &SeriesRows<'_>, row: usize) -> Option<f64> {
    Some(rows.value(Metric::PagedIn, row)? + rows.value(Metric::PagedOut, row).unwrap_or(0.0))
}
