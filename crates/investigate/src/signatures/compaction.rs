//! Compaction stalls, and transparent huge pages asked for in vain, which sar does not have.

use super::interval_caveat;
use super::rows::SeriesRows;
use crate::metric::MetricUnit;
use crate::page::format_processor_share;
use crate::{Metric, Signature, SignatureKind, SignatureStrength};

/// Allocations a second that waited for compaction: ten are some percent of a processor.
const STALLS: f64 = 10.0;
/// The same where a processor or more is lost to it.
const STALLS_STRONG: f64 = 200.0;
/// Stalls in all.
const STALLED: f64 = 600.0;
/// Huge pages a second that a fault asked for in vain, and in all. Base pages instead hurt little.
const FALLBACKS: f64 = 100.0;
const FELL_BACK: f64 = 6000.0;
/// Percent of a processor that kcompactd or khugepaged take in trouble.
const THREADS: f64 = 20.0;
/// Half a minute of that.
const THREADS_EXCESS: f64 = 600.0;
/// Percent of a processor that a thread takes which has no end of work: it looks for pages ten
/// seconds apart in peace, and counts whatever is usual here.
const THREADS_ALWAYS: f64 = 90.0;
/// Percent times seconds of that, five minutes.
const THREADS_ALWAYS_EXCESS: f64 = THREADS_ALWAYS * 300.0;
/// A metric, its least peak, excess, strength, peak from which it is strong, and words.
type CompactionRule = (Metric, f64, f64, SignatureStrength, f64, fn(f64) -> String);

const RULES: [CompactionRule; 4] = [
    (Metric::CompactStall, STALLS, STALLED, SignatureStrength::Clear, STALLS_STRONG, |rate| {
        format!("{rate:.0} allocations a second waited for compaction")
    }),
    (
        Metric::ThpFaultFallback,
        FALLBACKS,
        FELL_BACK,
        SignatureStrength::Weak,
        f64::INFINITY,
        |rate| {
            format!("{rate:.0} transparent huge pages a second were asked for and not available")
        },
    ),
    (
        Metric::KcompactdCpu,
        THREADS,
        THREADS_EXCESS,
        SignatureStrength::Clear,
        THREADS_ALWAYS,
        |percent| format!("kcompactd took {}", format_processor_share(percent)),
    ),
    (
        Metric::KhugepagedCpu,
        THREADS,
        THREADS_EXCESS,
        SignatureStrength::Clear,
        THREADS_ALWAYS,
        |percent| format!("khugepaged took {}", format_processor_share(percent)),
    ),
];

pub(super) fn detect_compaction_stalls(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let mut found = Vec::new();
    for (metric, least, sum, strength, strong, words) in RULES {
        let Some(column) = rows.column(metric) else { continue };
        let is_thread = metric.unit() == MetricUnit::Percent;
        let always = if is_thread { THREADS_ALWAYS } else { f64::INFINITY };
        let value = |row| column.get(row);
        let spikes =
            rows.find_spikes_or_levels(value, least, least / 6.0, strong.max(least), always);
        let snapshot = rows.is_snapshot();
        for spike in spikes.iter().filter(|spike| spike.excess >= sum || snapshot) {
            let lasts = !is_thread || spike.level_excess(rows, value) >= THREADS_ALWAYS_EXCESS;
            let is_strong = spike.peak >= strong && (lasts || snapshot);
            let strength = if is_strong { SignatureStrength::Strong } else { strength };
            let words = |row| column.get(row).map(words);
            let caveats = interval_caveat(rows.usual).into_iter().chain(rows.snapshot_caveat());
            found.push(rows.spike_signature(
                SignatureKind::Compaction,
                spike,
                strength,
                words,
                caveats,
            ));
        }
    }
    found
}
