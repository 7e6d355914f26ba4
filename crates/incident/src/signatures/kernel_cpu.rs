//! Time in the kernel far above what the archive has otherwise.

use super::observations::Observations;
use super::rows::{MINUTE, OUTSTANDING, Rows, Spike, USUAL, apart};
use super::{hides, weaker};
use crate::baseline::Baseline;
use crate::page::bytes;
use crate::{Kind, Metric, Signature, Strength};

/// %system below this is no trouble, whatever is usual. Of five quiet series, 453 intervals, none had this and stood out
/// by six spreads; system above user alone was there 129 times, on idle hosts.
const LEAST: f64 = 10.0;
/// A host's %system wanders by a point without anybody's doing.
const FLOOR: f64 = 1.0;
/// Percent times seconds above the usual: three seconds of all processors. A cron job's second is less, 300 disconnects
/// at once were 90 % for 5 to 10 s.
const EXCESS: f64 = 300.0;
/// Half of all processors in the kernel: no backup or batch was seen to do that, reclaim storms reach 70 to 90 %.
const STRONG: f64 = 50.0;
/// Percent times seconds of a strong one: half a minute at the least height.
const STRONG_EXCESS: f64 = 1500.0;
/// The part of its height that a spike has on average where it is one. A job of ten seconds in each minute has a fifth in samples of
/// ten seconds; a storm of page tables that came in lots had 0.24.
const DENSE: f64 = 0.22;
/// Longer than this, in milliseconds, it is rather the day's work; the storms that were told of lasted minutes.
const LONG: i64 = 4 * HOUR;
const HOUR: i64 = 60 * MINUTE;
/// %iowait, bytes a second and percent stolen from which something else explains some of it.
const IOWAIT: f64 = 10.0;
const THROUGHPUT: f64 = 20.0 * 1_048_576.0;
const STEAL: f64 = 10.0;
/// Pages a second: what moves to and from swap is the trouble itself and explains nothing.
const SWAPS: f64 = 500.0;

/// The usual %system that a signature tells: of all rows, those among them that were thinned away since.
pub(crate) fn usual(signature: &Signature) -> Option<f64> {
    let words = signature.evidence.iter().filter_map(|evidence| evidence.what.split_once(USUAL));
    words.filter_map(|(_, usual)| usual.parse().ok()).next()
}

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let Some(system) = rows.column(Metric::CpuSystem) else { return Vec::new() };
    let value = |row| system.get(row);
    let spikes = rows.spikes(value, LEAST, FLOOR, STRONG).into_iter();
    // What comes and goes, low in between, is as long as each time it comes.
    let mut spikes: Vec<Spike> = spikes
        .flat_map(|spike| if spike.fills(value) < DENSE { rows.runs(&spike, value) } else { vec![spike] })
        .collect();
    spikes.retain(|spike| spike.excess >= EXCESS);
    if spikes.is_empty() {
        return Vec::new();
    }
    let disks = Disks::of(rows);
    spikes.iter().map(|spike| signature(rows, spike, &disks)).collect()
}

fn signature(rows: &Rows<'_>, spike: &Spike, disks: &Disks) -> Signature {
    // A build has seconds in which the kernel has more than its programs.
    let mean = |metric| spike.mean(|row| rows.value(metric, row));
    let leads = mean(Metric::CpuSystem).zip(mean(Metric::CpuUser)).is_none_or(|(system, user)| system > user);
    let alone = spike.peak >= STRONG && spike.excess >= STRONG_EXCESS && leads;
    let mut strength = if alone { Strength::Strong } else { Strength::Clear };
    let mut caveats: Vec<String> = hides(rows.usual).into_iter().chain(spike.without_usual()).collect();
    let otherwise = [disks.explain(rows, spike.peak_row), stolen(rows, spike), lasting(rows, spike)];
    for caveat in otherwise.into_iter().flatten() {
        strength = weaker(strength);
        caveats.push(caveat);
    }
    if !spike.settled(rows) {
        strength = Strength::Weak;
        caveats.push("the host or the collector had just started".to_owned());
    }
    let evidence = spike.rows().into_iter().filter_map(|row| {
        let system = rows.value(Metric::CpuSystem, row)?;
        let user = rows.value(Metric::CpuUser, row).map(|user| format!(", %user {user:.1}")).unwrap_or_default();
        Some(rows.evidence(row, format!("%system {system:.1}{user}{}", spike.usual(1))))
    });
    Signature {
        kind: Kind::KernelCpu,
        from: rows.from(spike.first),
        to: rows.at(spike.last),
        strength,
        evidence: evidence.collect(),
        caveats,
    }
}

/// What disks usually do here: reads and writes that rise with time in the kernel are a backup, a copy, a load.
struct Disks {
    moved: Option<Baseline>,
    waited: Option<Baseline>,
}

impl Disks {
    fn of(rows: &Rows<'_>) -> Self {
        let all = || 0..rows.samples().len();
        Self {
            moved: rows.baseline(|row| moved(rows, row), all(), THROUGHPUT / OUTSTANDING),
            waited: rows.baseline(|row| rows.value(Metric::CpuIowait, row), all(), IOWAIT / OUTSTANDING),
        }
    }

    fn explain(&self, rows: &Rows<'_>, row: usize) -> Option<String> {
        let swaps = |metric| rows.value(metric, row).unwrap_or(0.0);
        if swaps(Metric::SwapIn) + swaps(Metric::SwapOut) >= SWAPS {
            return None;
        }
        let rose = |usual: Option<Baseline>, now: f64| usual.is_none_or(|usual| usual.z(now) > OUTSTANDING);
        let moved = moved(rows, row).filter(|now| *now >= THROUGHPUT && rose(self.moved, *now));
        if let Some(now) = moved {
            let now = bytes(now);
            return Some(format!(
                "disks moved {now} a second meanwhile: a backup, copy or load takes kernel time too"
            ));
        }
        let waited = rows.value(Metric::CpuIowait, row).filter(|now| *now >= IOWAIT && rose(self.waited, *now))?;
        Some(format!("%iowait rose to {waited:.1} meanwhile: reading and writing take kernel time too"))
    }
}

/// Bytes a second to and from disks.
fn moved(rows: &Rows<'_>, row: usize) -> Option<f64> {
    Some(rows.value(Metric::PagedIn, row)? + rows.value(Metric::PagedOut, row).unwrap_or(0.0))
}

/// Time that the hypervisor took: what a processor stands in then is counted for the kernel.
fn stolen(rows: &Rows<'_>, spike: &Spike) -> Option<String> {
    let steal = rows.value(Metric::CpuSteal, spike.peak_row).filter(|steal| *steal >= STEAL)?;
    Some(format!("the hypervisor took {steal:.1} % of the processors: look at its host"))
}

/// A day's work is no spike.
fn lasting(rows: &Rows<'_>, spike: &Spike) -> Option<String> {
    let long = apart(rows.from(spike.first), rows.at(spike.last));
    (long > LONG).then(|| format!("it lasted {} hours: it may be the day's normal work", long / HOUR))
}
