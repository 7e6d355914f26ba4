//! Tasks waited for memory, as pressure stall information has it. The kernel counts there what waits for reclaim, for
//! compaction and at the limit of a cgroup alike: which of them it was, other counters tell.

use super::hides;
use super::observations::Observations;
use super::rows::{Rows, Spike};
use crate::{Kind, Metric, Signature, Strength};

/// Percent of time in which all tasks waited for memory, and the percent times seconds of it.
const FULL: f64 = 10.0;
const FULL_STRONG: f64 = 30.0;
const FULL_EXCESS: f64 = 300.0;
/// Percent of time in which some task did while others worked, as at the limit of one cgroup among several: half a minute at
/// the least height.
const SOME: f64 = 50.0;
const SOME_EXCESS: f64 = 1500.0;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let all = stalls(rows, Metric::PressureMemoryFull, FULL, FULL_EXCESS, FULL_STRONG, "all tasks");
    let some = stalls(rows, Metric::PressureMemorySome, SOME, SOME_EXCESS, f64::INFINITY, "some task");
    all.into_iter().chain(some).collect()
}

fn stalls(rows: &Rows<'_>, metric: Metric, least: f64, sum: f64, strong: f64, who: &str) -> Vec<Signature> {
    let Some(column) = rows.column(metric) else { return Vec::new() };
    let spikes = rows.above(|row| column.get(row), least);
    let signature = |spike: &Spike| {
        let strength = if spike.peak >= strong { Strength::Strong } else { Strength::Clear };
        let by_kswapd = metric == Metric::PressureMemorySome && only_kswapd(rows, spike);
        let caveat = "processes reclaimed nothing themselves: kswapd is counted among those that wait".to_owned();
        Signature {
            kind: Kind::MemoryStall,
            from: rows.from(spike.first),
            to: rows.at(spike.last),
            strength: if by_kswapd { Strength::Weak } else { strength },
            evidence: spike
                .rows()
                .into_iter()
                .filter_map(|row| {
                    let percent = column.get(row)?;
                    Some(rows.evidence(row, format!("{who} waited for memory in {percent:.0} % of the time")))
                })
                .collect(),
            caveats: hides(rows.usual).into_iter().chain(by_kswapd.then_some(caveat)).collect(),
        }
    };
    spikes.iter().filter(|spike| spike.excess >= sum).map(signature).collect()
}

/// Whether kswapd alone reclaimed in a spike. The kernel counts kswapd as waiting for memory from its wake-up until it is done
/// (balance_pgdat in mm/vmscan.c), and that takes long where it waits for a processor: nobody else waits with it. What was taken
/// back beyond its scans was taken back at the limit of a cgroup, which is not scanned for the host.
fn only_kswapd(rows: &Rows<'_>, spike: &Spike) -> bool {
    let sum = |metric| {
        let column = rows.column(metric)?;
        Some((spike.first..=spike.last).filter_map(|row| Some(column.get(row)? * rows.seconds(row))).sum::<f64>())
    };
    let (Some(direct), Some(kswapd)) = (sum(Metric::ScanDirect), sum(Metric::ScanKswapd)) else { return false };
    // sar sums every pgsteal_ counter of /proc/vmstat: since Linux 5.8 each page twice, by whom and of what.
    let elsewhere = sum(Metric::Steal).is_some_and(|taken| taken > 2.0 * kswapd);
    direct < 1.0 && kswapd >= 1.0 && !elsewhere
}
