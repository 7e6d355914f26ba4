//! Pages going out to swap and coming back.

use hugewise_model::Bytes;

use super::hides;
use super::observations::Observations;
use super::rows::{MINUTE, Rows, Spike, apart};
use crate::page::bytes;
use crate::{Kind, Metric, Signature, Strength};

/// A second, in one direction, that is clear: what kswapd moves of idle programs at leisure is less.
const CLEAR: Bytes = Bytes::from_mib(4);
/// The other direction's part that makes it a storm: what goes out was needed.
const BACK: f64 = 0.1;
/// A second, both ways together, that is strong: it is most of what one disk does at random.
const STRONG: Bytes = Bytes::from_mib(40);
/// Altogether.
const MOVED: Bytes = Bytes::from_mib(64);
/// Part of memory by which swap in use grows within [`SOON`] where rates are not told.
const GROWN: f64 = 0.05;
const SOON: i64 = 10 * MINUTE;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let (Some(to), Some(back)) = (rows.column(Metric::SwapOut), rows.column(Metric::SwapIn)) else {
        return grown(rows);
    };
    let both = |row: usize| Some(to.get(row)? + back.get(row)?);
    let moved = rows.page.pages(MOVED);
    let spikes = rows.above(both, rows.page.pages(CLEAR));
    spikes.iter().filter(|spike| spike.excess >= moved).map(|spike| signature(rows, spike)).collect()
}

fn signature(rows: &Rows<'_>, spike: &Spike) -> Signature {
    let of = |metric, row| rows.value(metric, row).unwrap_or(0.0);
    let (to, back) = (spike.first..=spike.last)
        .map(|row| (of(Metric::SwapOut, row), of(Metric::SwapIn, row)))
        .fold((0.0_f64, 0.0_f64), |most, now| (most.0.max(now.0), most.1.max(now.1)));
    let both_ways = to.min(back) >= BACK * to.max(back);
    let mut caveats: Vec<String> = hides(rows.usual).into_iter().chain(rows.page.caveat()).collect();
    let strength = match (both_ways, spike.peak >= rows.page.pages(STRONG)) {
        (true, true) => Strength::Strong,
        (true, false) => Strength::Clear,
        (false, true) if to > back => Strength::Clear,
        (false, _) => Strength::Weak,
    };
    if !both_ways {
        caveats.push("pages went out and did not come back: they were not needed".to_owned());
    }
    let evidence = spike.rows().into_iter().map(|row| {
        let rate = |metric| rows.page.words(of(metric, row));
        rows.evidence(row, format!("swap: {}/s out, {}/s back", rate(Metric::SwapOut), rate(Metric::SwapIn)))
    });
    Signature {
        kind: Kind::Swap,
        from: rows.from(spike.first),
        to: rows.at(spike.last),
        strength,
        evidence: evidence.collect(),
        caveats,
    }
}

/// Swap in use that grows fast, where nobody counted what goes in and out.
fn grown(rows: &Rows<'_>) -> Vec<Signature> {
    let (Some(used), Some(total)) = (rows.column(Metric::SwapUsed), rows.column(Metric::MemTotal)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut from: Option<(usize, f64)> = None;
    for (row, now) in used.iter() {
        let (before, least) = from.unwrap_or((row, now));
        let late = apart(rows.at(before), rows.at(row)) > SOON.max(rows.usual + rows.usual / 2);
        let enough = total.get(row).is_some_and(|total| now - least >= GROWN * total);
        if enough && !late {
            let what = |value: f64| format!("swap in use {}", bytes(value));
            found.push(Signature {
                kind: Kind::Swap,
                from: rows.at(before),
                to: rows.at(row),
                strength: Strength::Clear,
                evidence: vec![rows.evidence(before, what(least)), rows.evidence(row, what(now))],
                caveats: vec!["no source says how much came back".to_owned()],
            });
        }
        if enough || late || now <= least {
            from = Some((row, now));
        } else {
            from = Some((before, least));
        }
    }
    found
}
