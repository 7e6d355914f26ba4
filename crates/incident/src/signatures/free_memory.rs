//! Free memory low, then leaping: the kernel took back far more than was asked for, or something large ended.

use super::observations::Observations;
use super::rows::{MINUTE, Rows, SECOND, apart};
use super::{MOST_EVIDENCE, weaker};
use crate::baseline::percentile;
use crate::page::bytes;
use crate::{Kind, Metric, Signature, Strength};

/// Parts of memory below which free memory is low, whatever is usual. kswapd's watermarks are some tenths of a percent;
/// hosts in trouble had 0.1 to 0.6 % (78 MB of 20 GB, 75 MB of 64 GB, 3.4 of 528 GB).
const LOW: f64 = 0.015;
/// Or below so many times vm.min_free_kbytes, where it is known: kswapd wakes at 1.25 times and rests at 1.5.
const RESERVES: f64 = 2.0;
/// Or among the lowest of the archive, and below this part: a host with room to spare is never low.
const LOWEST: f64 = 0.05;
const LOWEST_PART: f64 = 0.05;
/// A leap is this part of memory and this many times what was free: 86 MB to 1.1 GB and 78 MB to 4.7 GB of 20 GB.
const LEAP: f64 = 0.02;
const TIMES: f64 = 2.0;
/// How long after the low a leap still belongs to it, in milliseconds: the next sample of sysstat's default.
const SOON: i64 = 12 * MINUTE;
/// Leaps one after another for longer than this, in milliseconds, are no event.
const LONG: i64 = 60 * MINUTE;
/// Part of memory that is available, caches among it, on a host that is not short of any.
const AVAILABLE: f64 = 0.25;
/// Where caches gave up this part of the leap, a file was deleted or a cache dropped: no pressure is needed for that.
const FROM_CACHE: f64 = 0.7;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    let reserve =
        observations.history.facts.as_ref().and_then(|facts| facts.min_free).map_or(0.0, |reserve| reserve.as_f64());
    observations.rows.iter().flat_map(|rows| of(rows, reserve)).collect()
}

fn of(rows: &Rows<'_>, reserve: f64) -> Vec<Signature> {
    let (Some(free), Some(total)) = (rows.column(Metric::MemFree), rows.column(Metric::MemTotal)) else {
        return Vec::new();
    };
    let mut values: Vec<f64> = free.iter().map(|(_, value)| value).collect();
    let Some(lowest) = percentile(&mut values, LOWEST_PART) else { return Vec::new() };
    let soon = SOON.max(2 * rows.usual);
    let mut found: Vec<Signature> = Vec::new();
    let mut low: Option<(usize, f64)> = None;
    for (row, now) in free.iter() {
        let Some(total) = total.get(row).filter(|total| *total > 0.0) else { continue };
        // A host that starts anew has all its memory free.
        low = low.filter(|(before, _)| !rows.restarted(*before, row));
        if let Some((before, least)) = low {
            let leapt = now - least >= LEAP * total && now >= TIMES * least;
            if leapt && apart(rows.at(before), rows.at(row)) <= soon {
                let next = signature(rows, (before, least), (row, now), total);
                match found.last_mut() {
                    Some(last) if apart(last.to, next.from) <= soon => follow(last, next),
                    _ => found.push(next),
                }
                low = None;
            }
        }
        let is_low = now <= (LOW * total).max(RESERVES * reserve) || (now <= lowest && now <= LOWEST * total);
        // Of a long low the last row counts, for time, and the least.
        if is_low {
            let near = low.filter(|(before, _)| apart(rows.at(*before), rows.at(row)) <= soon);
            low = Some((row, near.map_or(now, |(_, least)| least.min(now))));
        }
    }
    for signature in &mut found {
        let long = apart(signature.from, signature.to);
        if long > LONG {
            signature.strength = Strength::Weak;
            signature.caveats.push(format!("it went on for {} hours: it may be normal here", long / LONG));
        }
    }
    found
}

/// What could be had at once: as the kernel reckons it, or free and in caches that are no shared memory.
pub(crate) fn available(rows: &Rows<'_>, row: usize) -> Option<f64> {
    let of = |metric| rows.value(metric, row);
    let caches = || Some((of(Metric::Cached)? - of(Metric::Shmem)?).max(0.0) + of(Metric::Buffers).unwrap_or(0.0));
    of(Metric::MemAvailable).or_else(|| Some(of(Metric::MemFree)? + caches()?))
}

/// One leap soon after another is one story; its first rows and its last are kept.
fn follow(last: &mut Signature, next: Signature) {
    last.to = next.to;
    last.strength = last.strength.max(next.strength);
    if last.evidence.len() >= MOST_EVIDENCE {
        last.evidence.truncate(MOST_EVIDENCE - next.evidence.len());
    }
    last.evidence.extend(next.evidence);
}

fn signature(rows: &Rows<'_>, low: (usize, f64), high: (usize, f64), total: f64) -> Signature {
    let leap = high.1 - low.1;
    let mut strength = Strength::Clear;
    let mut caveats = Vec::new();
    if rows.usual >= MINUTE {
        let seconds = rows.usual / SECOND;
        caveats.push(format!("readings {seconds} s apart: the low point between them is not recorded"));
    }
    let caches = |row| Some(rows.value(Metric::Cached, row)? + rows.value(Metric::Buffers, row).unwrap_or(0.0));
    if let Some(given) = caches(low.0).zip(caches(high.0)).map(|(before, after)| before - after)
        && given >= FROM_CACHE * leap
    {
        strength = weaker(strength);
        caveats
            .push(format!("caches shrank by {} at the same time: deleting a file does that too", bytes(given)));
    }
    // A host that works has its caches full, and little free: they are given up as soon as somebody asks.
    if let Some(available) = available(rows, low.0).filter(|available| *available >= AVAILABLE * total) {
        strength = Strength::Weak;
        caveats.push(format!("{} was available in caches: the host was not short of memory", bytes(available)));
    }
    let what = |value: f64| format!("free memory {}, {:.2} % of {}", bytes(value), value / total * 100.0, bytes(total));
    caveats.push("a large process that exits frees memory too".to_owned());
    Signature {
        kind: Kind::FreeMemory,
        from: rows.at(low.0),
        to: rows.at(high.0),
        strength,
        evidence: vec![rows.evidence(low.0, what(low.1)), rows.evidence(high.0, what(high.1))],
        caveats,
    }
}
