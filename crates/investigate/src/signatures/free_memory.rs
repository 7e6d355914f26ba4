//! Free memory low, then leaping: reclaim freed far too much, or something large ended.

use super::observations::Observations;
use super::rows::{MINUTE, SECOND, SeriesRows, milliseconds_between};
use super::{MOST_EVIDENCE, weaken_strength};
use crate::baseline::value_at_percentile;
use crate::page::bytes_from_f64;
use crate::{Metric, Signature, SignatureKind, SignatureStrength};

/// Part of memory below which free memory is low, whatever is usual: kswapd's watermarks are some
/// tenths of a percent; hosts in trouble had 0.1 to 0.6 % (78 MB of 20 GB, 75 MB of 64 GB, 3.4 of
/// 528 GB).
const LOW: f64 = 0.015;
/// Or below so many times vm.min_free_kbytes: kswapd wakes at 1.25 times and rests at 1.5.
const RESERVES: f64 = 2.0;
/// Or among the lowest of the archive, and below this part of memory.
const LOWEST: f64 = 0.05;
const LOWEST_PART: f64 = 0.05;
/// A leap is this part of memory and this many times what was free: 86 MB to 1.1 GB and 78 MB to
/// 4.7 GB of 20 GB.
const LEAP: f64 = 0.02;
const TIMES: f64 = 2.0;
/// Milliseconds from a low to its leap: the next sample of sysstat's default.
const SOON: i64 = 12 * MINUTE;
/// Milliseconds of repeated leaps that are no event.
const LONG: i64 = 60 * MINUTE;
/// Available part of memory, caches included, of a host that is not short of any.
const AVAILABLE: f64 = 0.25;
/// Where caches gave up this part of the leap, a file was deleted or a cache dropped.
const FROM_CACHE: f64 = 0.7;

pub(super) fn find_free_memory_leaps(observations: &Observations<'_>) -> Vec<Signature> {
    let reserve = observations
        .history
        .facts
        .as_ref()
        .and_then(|facts| facts.min_free)
        .map_or(0.0, |reserve| reserve.as_f64());
    observations.rows.iter().flat_map(|rows| detect_free_memory_leaps(rows, reserve)).collect()
}

fn detect_free_memory_leaps(rows: &SeriesRows<'_>, reserve: f64) -> Vec<Signature> {
    let (Some(free), Some(total)) = (rows.column(Metric::MemFree), rows.column(Metric::MemTotal))
    else {
        return Vec::new();
    };
    let mut values: Vec<f64> = free.iter().map(|(_, value)| value).collect();
    let Some(lowest) = value_at_percentile(&mut values, LOWEST_PART) else { return Vec::new() };
    let soon = SOON.max(2 * rows.usual);
    let mut found: Vec<Signature> = Vec::new();
    let mut low: Option<(usize, f64)> = None;
    for (row, now) in free.iter() {
        let Some(total) = total.get(row).filter(|total| *total > 0.0) else { continue };
        // A host that boots has all its memory free.
        low = low.filter(|(before, _)| !rows.restarted_between(*before, row));
        if let Some((before, least)) = low {
            let leapt = now - least >= LEAP * total && now >= TIMES * least;
            if leapt && milliseconds_between(rows.moment_at(before), rows.moment_at(row)) <= soon {
                let next = leap_signature(rows, (before, least), (row, now), total);
                match found.last_mut() {
                    Some(last) if milliseconds_between(last.to, next.from) <= soon => {
                        extend_signature(last, next)
                    }
                    _ => found.push(next),
                }
                low = None;
            }
        }
        let is_low = now <= (LOW * total).max(RESERVES * reserve)
            || (now <= lowest && now <= LOWEST * total);
        // Of a long low, the last row and the least value count.
        if is_low {
            let near = low.filter(|(before, _)| {
                milliseconds_between(rows.moment_at(*before), rows.moment_at(row)) <= soon
            });
            low = Some((row, near.map_or(now, |(_, least)| least.min(now))));
        }
    }
    for signature in &mut found {
        let long = milliseconds_between(signature.from, signature.to);
        if long > LONG {
            signature.strength = SignatureStrength::Weak;
            signature
                .caveats
                .push(format!("it went on for {} hours: it may be normal here", long / LONG));
        }
    }
    found
}

/// As the kernel estimates it, or free memory with caches that are no shared memory.
pub(crate) fn available_memory(rows: &SeriesRows<'_>, row: usize) -> Option<f64> {
    let value_of = |metric| rows.value(metric, row);
    let caches = || {
        Some(
            (value_of(Metric::Cached)? - value_of(Metric::Shmem)?).max(0.0)
                + value_of(Metric::Buffers).unwrap_or(0.0),
        )
    };
    value_of(Metric::MemAvailable).or_else(|| Some(value_of(Metric::MemFree)? + caches()?))
}

fn extend_signature(last: &mut Signature, next: Signature) {
    last.to = next.to;
    last.strength = last.strength.max(next.strength);
    if last.evidence.len() >= MOST_EVIDENCE {
        last.evidence.truncate(MOST_EVIDENCE - next.evidence.len());
    }
    last.evidence.extend(next.evidence);
}

fn leap_signature(
    rows: &SeriesRows<'_>,
    low: (usize, f64),
    high: (usize, f64),
    total: f64,
) -> Signature {
    let leap = high.1 - low.1;
    let mut strength = SignatureStrength::Clear;
    let mut caveats = Vec::new();
    if rows.usual >= MINUTE {
        let seconds = rows.usual / SECOND;
        caveats.push(format!(
            "readings {seconds} s apart: the low point between them is not recorded"
        ));
    }
    let caches = |row| {
        Some(rows.value(Metric::Cached, row)? + rows.value(Metric::Buffers, row).unwrap_or(0.0))
    };
    if let Some(given) = caches(low.0).zip(caches(high.0)).map(|(before, after)| before - after)
        && given >= FROM_CACHE * leap
    {
        strength = weaken_strength(strength);
        caveats.push(format!(
            "caches shrank by {} at the same time: deleting a file does that too",
            bytes_from_f64(given)
        ));
    }
    // A working host has full caches and little free memory: caches are given up on demand.
    if let Some(available) =
        available_memory(rows, low.0).filter(|available| *available >= AVAILABLE * total)
    {
        strength = SignatureStrength::Weak;
        caveats.push(format!(
            "{} was available in caches: the host was not short of memory",
            bytes_from_f64(available)
        ));
    }
    let what = |value: f64| {
        format!(
            "free memory {}, {:.2} % of {}",
            bytes_from_f64(value),
            value / total * 100.0,
            bytes_from_f64(total)
        )
    };
    caveats.push("a large process that exits frees memory too".to_owned());
    Signature {
        kind: SignatureKind::FreeMemory,
        from: rows.moment_at(low.0),
        to: rows.moment_at(high.0),
        strength,
        evidence: vec![
            rows.evidence_at(low.0, what(low.1)),
            rows.evidence_at(high.0, what(high.1)),
        ],
        caveats,
    }
}
