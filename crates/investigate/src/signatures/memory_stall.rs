//! Tasks waited for memory, as pressure stall information (PSI) has it. PSI counts waits for
//! reclaim, for compaction and at the limit of a cgroup alike; other counters tell them apart.

use super::interval_caveat;
use super::rows::{SeriesRows, Spike};
use crate::{Metric, Signature, SignatureKind, SignatureStrength};

/// Percent of time in which all tasks waited for memory, and percent times seconds.
const FULL: f64 = 10.0;
const FULL_STRONG: f64 = 30.0;
const FULL_EXCESS: f64 = 300.0;
/// Percent of time in which some task waited, as at a cgroup's limit, and half a minute of it.
const SOME: f64 = 50.0;
const SOME_EXCESS: f64 = 1500.0;

pub(super) fn detect_memory_stalls(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let all = find_pressure_spikes(
        rows,
        Metric::PressureMemoryFull,
        FULL,
        FULL_EXCESS,
        FULL_STRONG,
        "all tasks",
    );
    let some = find_pressure_spikes(
        rows,
        Metric::PressureMemorySome,
        SOME,
        SOME_EXCESS,
        f64::INFINITY,
        "some task",
    );
    all.into_iter().chain(some).collect()
}

fn find_pressure_spikes(
    rows: &SeriesRows<'_>,
    metric: Metric,
    least: f64,
    sum: f64,
    strong: f64,
    who: &str,
) -> Vec<Signature> {
    let Some(column) = rows.column(metric) else { return Vec::new() };
    let spikes = rows.find_above(|row| column.get(row), least);
    let signature = |spike: &Spike| {
        let strength =
            if spike.peak >= strong { SignatureStrength::Strong } else { SignatureStrength::Clear };
        let by_kswapd = metric == Metric::PressureMemorySome && only_kswapd(rows, spike);
        let caveat =
            "processes reclaimed nothing themselves: kswapd is counted among those that wait"
                .to_owned();
        let strength = if by_kswapd { SignatureStrength::Weak } else { strength };
        let words = |row| {
            let percent = column.get(row)?;
            Some(format!("{who} waited for memory in {percent:.0} % of the time"))
        };
        let caveats = interval_caveat(rows.usual).into_iter().chain(by_kswapd.then_some(caveat));
        rows.spike_signature(SignatureKind::MemoryStall, spike, strength, words, caveats)
    };
    spikes.iter().filter(|spike| spike.excess >= sum).map(signature).collect()
}

/// Whether kswapd alone reclaimed in a spike. PSI counts kswapd as waiting from its wake-up until it
/// is done (balance_pgdat in mm/vmscan.c), which takes long where it waits for a processor, and
/// nobody waits with it. Pages taken beyond its scans were taken at the limit of a cgroup.
fn only_kswapd(rows: &SeriesRows<'_>, spike: &Spike) -> bool {
    let sum = |metric| {
        let column = rows.column(metric)?;
        Some(
            (spike.first..=spike.last)
                .filter_map(|row| Some(column.get(row)? * rows.interval_seconds(row)))
                .sum::<f64>(),
        )
    };
    let (Some(direct), Some(kswapd)) = (sum(Metric::ScanDirect), sum(Metric::ScanKswapd)) else {
        return false;
    };
    // sar sums every pgsteal_ counter of /proc/vmstat: since Linux 5.8 each page is in two of them.
    let elsewhere = sum(Metric::Steal).is_some_and(|taken| taken > 2.0 * kswapd);
    direct < 1.0 && kswapd >= 1.0 && !elsewhere
}
