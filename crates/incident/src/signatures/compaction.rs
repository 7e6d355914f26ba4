//! Compaction stalls, and transparent huge pages that were asked for and not had. sar has none of it; atop, PCP, logs of
//! /proc/vmstat, top and ps have.

use super::hides;
use super::observations::Observations;
use super::rows::{Rows, Spike};
use crate::{Kind, Metric, Signature, Strength};

/// Allocations a second that waited for compaction and stand out; each takes milliseconds, so ten are some percent of a
/// processor.
const STALLS: f64 = 10.0;
/// And that are strong: a processor or more is lost to it.
const STALLS_STRONG: f64 = 200.0;
/// Altogether.
const STALLED: f64 = 600.0;
/// Huge pages a second that were asked for on a fault and not had. They become base pages, which hurts little by itself.
const FALLBACKS: f64 = 100.0;
const FELL_BACK: f64 = 6000.0;
/// Percent of a processor that kcompactd or khugepaged take in trouble.
const THREADS: f64 = 20.0;
/// And for how long, times that: half a minute.
const THREADS_EXCESS: f64 = 600.0;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let mut found = Vec::new();
    let mut all = |metric, least, sum: f64, strength, strong: f64, words: fn(f64) -> String| {
        let Some(column) = rows.column(metric) else { return };
        let spikes = rows.spikes(|row| column.get(row), least, least / 6.0, strong.max(least));
        for spike in spikes.iter().filter(|spike| spike.excess >= sum) {
            let strength = if spike.peak >= strong { Strength::Strong } else { strength };
            found.push(signature(rows, spike, strength, |row| column.get(row).map(words)));
        }
    };
    all(Metric::CompactStall, STALLS, STALLED, Strength::Clear, STALLS_STRONG, |rate| {
        format!("{rate:.0} allocations a second waited for compaction")
    });
    all(Metric::ThpFaultFallback, FALLBACKS, FELL_BACK, Strength::Weak, f64::INFINITY, |rate| {
        format!("{rate:.0} transparent huge pages a second were asked for and not available")
    });
    all(Metric::KcompactdCpu, THREADS, THREADS_EXCESS, Strength::Clear, f64::INFINITY, |percent| {
        format!("kcompactd took {percent:.0} % of a processor")
    });
    all(Metric::KhugepagedCpu, THREADS, THREADS_EXCESS, Strength::Clear, f64::INFINITY, |percent| {
        format!("khugepaged took {percent:.0} % of a processor")
    });
    found
}

fn signature(rows: &Rows<'_>, spike: &Spike, strength: Strength, words: impl Fn(usize) -> Option<String>) -> Signature {
    Signature {
        kind: Kind::Compaction,
        from: rows.from(spike.first),
        to: rows.at(spike.last),
        strength,
        evidence: spike.rows().into_iter().filter_map(|row| Some(rows.evidence(row, words(row)?))).collect(),
        caveats: hides(rows.usual).into_iter().collect(),
    }
}
