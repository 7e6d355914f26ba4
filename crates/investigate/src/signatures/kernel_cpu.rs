//! Time in the kernel far above what the archive has otherwise.

use super::disk::bytes_moved;
use super::rows::{MINUTE, OUTSTANDING, SeriesRows, Spike, milliseconds_between};
use super::{interval_caveat, weaken_strength};
use crate::baseline::Baseline;
use crate::page::bytes_from_f64;
use crate::{
    EvidenceBasis, Metric, Signature, SignatureEvidence, SignatureKind, SignatureStrength,
};

/// %system that is no trouble, whatever is usual. Of five quiet series, 453 intervals, none had this
/// and stood out by six spreads; system above user alone was there 129 times, on idle hosts.
const LEAST: f64 = 10.0;
/// %system wanders by a point by itself.
const FLOOR: f64 = 1.0;
/// Percent times seconds above the usual: three seconds of all processors. A cron job's second is
/// less, 300 disconnects at once were 90 % for 5 to 10 s.
const EXCESS: f64 = 300.0;
/// Half of all processors: no backup or batch did that, reclaim storms reach 70 to 90 %.
const STRONG: f64 = 50.0;
/// Percent in a single reading that makes one look.
const SNAPSHOT: f64 = 40.0;
/// Percent that leaves nothing for programs: no host has that in peace, however busy it always is.
const ALWAYS: f64 = 90.0;
/// Percent times seconds of a strong one: half a minute at the least height.
const STRONG_EXCESS: f64 = 1500.0;
/// The part of its height that a spike has on average. A job of ten seconds in each minute has a
/// fifth in samples of ten seconds; a storm of page tables that came in lots had 0.24.
const DENSE: f64 = 0.22;
/// Milliseconds of a day's work; known storms lasted minutes.
const LONG: i64 = 4 * HOUR;
const HOUR: i64 = 60 * MINUTE;
/// %iowait, bytes a second and %steal that explain some of it.
const IOWAIT: f64 = 10.0;
const THROUGHPUT: f64 = 20.0 * 1_048_576.0;
const STEAL: f64 = 10.0;
/// Pages a second: what moves to and from swap is the trouble itself.
const SWAPS: f64 = 500.0;

/// The usual %system in signatures: of all rows, also those thinned away since.
pub(crate) fn usual_system_percent(signatures: &[Signature]) -> Option<f64> {
    let kernel = signatures.iter().filter(|one| one.kind == SignatureKind::KernelCpu);
    kernel.flat_map(|one| &one.evidence).find_map(|evidence| match evidence.basis {
        EvidenceBasis::Usual(usual) => Some(usual),
        _ => None,
    })
}

pub(super) fn detect_kernel_cpu(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let Some(system) = rows.column(Metric::CpuSystem) else { return Vec::new() };
    let value = |row| system.get(row);
    if rows.is_snapshot() {
        return detect_in_snapshot(rows);
    }
    let spikes = rows.find_spikes_or_levels(value, LEAST, FLOOR, STRONG, ALWAYS);
    let mut spikes: Vec<Spike> = spikes
        .into_iter()
        .flat_map(|spike| {
            if spike.fill_ratio(value) < DENSE {
                rows.split_runs(&spike, value)
            } else {
                vec![spike]
            }
        })
        .collect();
    spikes.retain(|spike| spike.excess >= EXCESS);
    if spikes.is_empty() {
        return Vec::new();
    }
    let disks = Disks::from_rows(rows);
    spikes.iter().map(|spike| kernel_cpu_signature(rows, spike, &disks)).collect()
}

/// One reading: much of all processors, and more than the programs had.
fn detect_in_snapshot(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let user = rows.value(Metric::CpuUser, 0).unwrap_or(0.0);
    let least = SNAPSHOT.max(user);
    let spikes = rows.find_above(|row| rows.value(Metric::CpuSystem, row), least);
    let words = |row| Some(format!("%system {:.1}", rows.value(Metric::CpuSystem, row)?));
    let signature = |spike: &Spike| {
        let (kind, strength) = (SignatureKind::KernelCpu, SignatureStrength::Strong);
        rows.spike_signature(kind, spike, strength, words, rows.snapshot_caveat())
    };
    spikes.iter().map(signature).collect()
}

fn kernel_cpu_signature(rows: &SeriesRows<'_>, spike: &Spike, disks: &Disks) -> Signature {
    // Even a build has seconds in which the kernel has more than its programs.
    let mean = |metric| spike.mean_value(|row| rows.value(metric, row));
    let leads = mean(Metric::CpuSystem)
        .zip(mean(Metric::CpuUser))
        .is_none_or(|(system, user)| system > user);
    let alone = spike.peak >= STRONG && spike.excess >= STRONG_EXCESS && leads;
    let mut strength = if alone { SignatureStrength::Strong } else { SignatureStrength::Clear };
    let mut caveats: Vec<String> =
        interval_caveat(rows.usual).into_iter().chain(spike.without_usual()).collect();
    let otherwise = [
        disks.explain_by_disks(rows, spike.peak_row),
        steal_caveat(rows, spike),
        duration_caveat(rows, spike),
    ];
    for caveat in otherwise.into_iter().flatten() {
        strength = weaken_strength(strength);
        caveats.push(caveat);
    }
    if !spike.is_settled(rows) {
        strength = SignatureStrength::Weak;
        caveats.push("the host or the collector had just started".to_owned());
    }
    let evidence = spike.telling_rows().into_iter().filter_map(|row| {
        let system = rows.value(Metric::CpuSystem, row)?;
        let user = rows
            .value(Metric::CpuUser, row)
            .map(|user| format!(", %user {user:.1}"))
            .unwrap_or_default();
        let what = format!("%system {system:.1}{user}{}", spike.usual_suffix(1));
        // As precise as it is shown.
        let usual = spike.usual.map(|usual| (usual * 10.0).round() / 10.0);
        Some(SignatureEvidence {
            basis: usual.map_or(EvidenceBasis::Figures, EvidenceBasis::Usual),
            ..rows.evidence_at(row, what)
        })
    });
    Signature {
        kind: SignatureKind::KernelCpu,
        from: rows.interval_start(spike.first),
        to: rows.moment_at(spike.last),
        strength,
        evidence: evidence.collect(),
        caveats,
    }
}

/// What disks usually do here: they do more in a backup, a copy or a load.
struct Disks {
    moved: Option<Baseline>,
    waited: Option<Baseline>,
}

impl Disks {
    fn from_rows(rows: &SeriesRows<'_>) -> Self {
        let all = || 0..rows.samples().len();
        Self {
            moved: rows.learn_baseline(
                |row| bytes_moved(rows, row),
                all(),
                THROUGHPUT / OUTSTANDING,
            ),
            waited: rows.learn_baseline(
                |row| rows.value(Metric::CpuIowait, row),
                all(),
                IOWAIT / OUTSTANDING,
            ),
        }
    }

    fn explain_by_disks(&self, rows: &SeriesRows<'_>, row: usize) -> Option<String> {
        let swaps = |metric| rows.value(metric, row).unwrap_or(0.0);
        if swaps(Metric::SwapIn) + swaps(Metric::SwapOut) >= SWAPS {
            return None;
        }
        let rose = |usual: Option<Baseline>, now: f64| {
            usual.is_none_or(|usual| usual.z_score(now) > OUTSTANDING)
        };
        let moved =
            bytes_moved(rows, row).filter(|now| *now >= THROUGHPUT && rose(self.moved, *now));
        if let Some(now) = moved {
            let now = bytes_from_f64(now);
            return Some(format!(
                "disks moved {now} a second meanwhile: a backup, copy or load takes kernel time too"
            ));
        }
        let waited = rows
            .value(Metric::CpuIowait, row)
            .filter(|now| *now >= IOWAIT && rose(self.waited, *now))?;
        Some(format!(
            "%iowait rose to {waited:.1} meanwhile: reading and writing take kernel time too"
        ))
    }
}

/// What a stolen processor was doing counts as the kernel's time.
fn steal_caveat(rows: &SeriesRows<'_>, spike: &Spike) -> Option<String> {
    let steal = rows.value(Metric::CpuSteal, spike.peak_row).filter(|steal| *steal >= STEAL)?;
    Some(format!("the hypervisor took {steal:.1} % of the processors: look at its host"))
}

fn duration_caveat(rows: &SeriesRows<'_>, spike: &Spike) -> Option<String> {
    let long = milliseconds_between(rows.interval_start(spike.first), rows.moment_at(spike.last));
    let mean = spike.mean_value(|row| rows.value(Metric::CpuSystem, row));
    (long > LONG && mean.is_none_or(|mean| mean < ALWAYS))
        .then(|| format!("it lasted {} hours: it may be the day's normal work", long / HOUR))
}
