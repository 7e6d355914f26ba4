//! Pages going out to swap and coming back.

use hugewise_model::Bytes;

use super::disk::bytes_moved;
use super::interval_caveat;
use super::rows::{MINUTE, SeriesRows, Spike, milliseconds_between};
use crate::page::bytes_from_f64;
use crate::{Metric, Signature, SignatureKind, SignatureStrength};

/// Clear amount a second in one direction: kswapd moves less of idle programs.
const CLEAR: Bytes = Bytes::from_mib(4);
/// The other direction's part in a storm: what goes out was needed.
const BACK: f64 = 0.1;
/// Strong amount a second both ways: most of what one disk does at random.
const STRONG: Bytes = Bytes::from_mib(40);
/// Seconds of the clear amount.
const SECONDS: f64 = 16.0;
/// Amount a second that is clear where it is most of what disks move, and percent of the time in
/// which processors are idle over requests to them then: a slow disk does no more.
const CHOKED: Bytes = Bytes::from_mib(1);
const CHOKED_PART: f64 = 0.5;
const CHOKED_WAIT: f64 = 50.0;
/// Part of memory by which used swap grows within [`SOON`], where rates are unknown.
const GROWN: f64 = 0.05;
const SOON: i64 = 10 * MINUTE;

/// One reading of a host whose swap and memory are used up: part of swap, of memory that is swap, and of
/// memory that is left; and the load of those who wait.
const USED_UP: f64 = 0.95;
const LARGE: f64 = 0.1;
const LEFT: f64 = 0.05;
const LOAD: f64 = 4.0;

pub(super) fn detect_swapping(rows: &SeriesRows<'_>) -> Vec<Signature> {
    if rows.is_snapshot() {
        return detect_used_up(rows).into_iter().collect();
    }
    let (Some(to), Some(back)) = (rows.column(Metric::SwapOut), rows.column(Metric::SwapIn)) else {
        return detect_swap_growth(rows);
    };
    let both = |row: usize| Some(to.get(row)? + back.get(row)?);
    let (clear, choked) = (rows.page.page_count(CLEAR), rows.page.page_count(CHOKED));
    let counted = |row| both(row).filter(|pages| *pages >= clear || is_choked(rows, row));
    let spikes = rows.find_above(counted, choked);
    let enough = |spike: &&Spike| {
        let least = if is_mostly_choked(rows, spike) { choked } else { clear };
        spike.excess >= rows.least_excess(spike, least, SECONDS * clear / least)
    };
    spikes.iter().filter(enough).map(|spike| swap_signature(rows, spike)).collect()
}

/// Memory and swap used up in a single reading, while many wait or run.
fn detect_used_up(rows: &SeriesRows<'_>) -> Option<Signature> {
    let value = |metric| rows.value(metric, 0);
    let total = value(Metric::MemTotal).filter(|total| *total > 0.0)?;
    let (swap, free) = (value(Metric::SwapTotal)?, value(Metric::SwapFree));
    let used = value(Metric::SwapUsed).or_else(|| Some(swap - free?))?;
    let caches = || Some(value(Metric::Cached)? + value(Metric::Buffers).unwrap_or(0.0));
    let left = value(Metric::MemAvailable).or_else(|| Some(value(Metric::MemFree)? + caches()?))?;
    let is_used_up = used >= USED_UP * swap && swap >= LARGE * total && left < LEFT * total;
    if !is_used_up || value(Metric::Load1).is_none_or(|load| load < LOAD) {
        return None;
    }
    let spike = rows.find_above(|_| Some(used), 0.0).into_iter().next()?;
    let words = |_| {
        let [used, swap, left, total] = [used, swap, left, total].map(bytes_from_f64);
        Some(format!("{used} of {swap} of swap were used, and {left} of {total} of memory left"))
    };
    let caveats = rows.snapshot_caveat();
    let (kind, strength) = (SignatureKind::Swap, SignatureStrength::Clear);
    Some(rows.spike_signature(kind, &spike, strength, words, caveats))
}

/// Whether the disks do little else than swap, and everybody waits for them.
fn is_choked(rows: &SeriesRows<'_>, row: usize) -> bool {
    let value = |metric| rows.value(metric, row);
    let both = || Some((value(Metric::SwapOut)?, value(Metric::SwapIn)?));
    let moved = bytes_moved(rows, row).map(|bytes| rows.page.page_count(bytes_from_f64(bytes)));
    both().zip(moved).is_some_and(|((to, back), moved)| {
        to.min(back) >= BACK * to.max(back) && to + back >= CHOKED_PART * moved
    }) && value(Metric::CpuIowait).is_some_and(|waited| waited >= CHOKED_WAIT)
}

fn is_mostly_choked(rows: &SeriesRows<'_>, spike: &Spike) -> bool {
    let all = spike.first..=spike.last;
    let choked = all.clone().filter(|row| is_choked(rows, *row)).count();
    choked * 2 > all.count()
}

/// Pages a second that went out at least: swap in use grows by nothing else.
fn least_swapped_out(rows: &SeriesRows<'_>, spike: &Spike) -> f64 {
    let used = |row| rows.value(Metric::SwapUsed, row);
    let seconds =
        milliseconds_between(rows.moment_at(spike.first), rows.moment_at(spike.last)) as f64 / 1e3;
    let grown = used(spike.last).zip(used(spike.first)).map(|(last, first)| last - first);
    let grown = grown.filter(|grown| *grown > 0.0 && seconds > 0.0);
    grown.map_or(0.0, |grown| rows.page.page_count(bytes_from_f64(grown)) / seconds)
}

fn swap_signature(rows: &SeriesRows<'_>, spike: &Spike) -> Signature {
    let value_of = |metric, row| rows.value(metric, row).unwrap_or(0.0);
    let (to, back) = (spike.first..=spike.last)
        .map(|row| (value_of(Metric::SwapOut, row), value_of(Metric::SwapIn, row)))
        .fold((0.0_f64, 0.0_f64), |most, now| (most.0.max(now.0), most.1.max(now.1)));
    let to = to.max(least_swapped_out(rows, spike));
    let both_ways = to.min(back) >= BACK * to.max(back);
    let mut caveats: Vec<String> =
        interval_caveat(rows.usual).into_iter().chain(rows.page.unknown_size_caveat()).collect();
    let is_strong = spike.peak >= rows.page.page_count(STRONG) || is_mostly_choked(rows, spike);
    let strength = match (both_ways, is_strong) {
        (true, true) => SignatureStrength::Strong,
        (true, false) => SignatureStrength::Clear,
        (false, true) if to > back => SignatureStrength::Clear,
        (false, _) => SignatureStrength::Weak,
    };
    if !both_ways {
        caveats.push("pages went out and did not come back: they were not needed".to_owned());
    }
    let words = |row| {
        let rate = |metric| rows.page.format_pages(value_of(metric, row));
        Some(format!("swap: {}/s out, {}/s back", rate(Metric::SwapOut), rate(Metric::SwapIn)))
    };
    rows.spike_signature(SignatureKind::Swap, spike, strength, words, caveats)
}

fn detect_swap_growth(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let (Some(used), Some(total)) = (rows.column(Metric::SwapUsed), rows.column(Metric::MemTotal))
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut from: Option<(usize, f64)> = None;
    for (row, now) in used.iter() {
        let (before, least) = from.unwrap_or((row, now));
        let late = milliseconds_between(rows.moment_at(before), rows.moment_at(row))
            > SOON.max(rows.usual + rows.usual / 2);
        let enough = total.get(row).is_some_and(|total| now - least >= GROWN * total);
        if enough && !late {
            let what = |value: f64| format!("swap in use {}", bytes_from_f64(value));
            found.push(Signature {
                kind: SignatureKind::Swap,
                from: rows.moment_at(before),
                to: rows.moment_at(row),
                strength: SignatureStrength::Clear,
                evidence: vec![
                    rows.evidence_at(before, what(least)),
                    rows.evidence_at(row, what(now)),
                ],
                caveats: vec!["no source says how much came back".to_owned()],
            });
        }
        let restarts = enough || late || now <= least;
        from = Some(if restarts { (row, now) } else { (before, least) });
    }
    found
}
