//! The collector itself came late, left holes, or wrote empty blocks.

use super::late_rows::{Late, find_late_rows};
use super::observations::Observations;
use super::rows::{SeriesRows, whole_milliseconds};
use super::{raise_strength, weaken_strength};
use crate::baseline::FEWEST;
use crate::{Metric, Moment, Signature, SignatureKind, SignatureStrength, SourceFormat};

/// %steal with which the hypervisor explains it.
const STEAL: f64 = 20.0;
/// Part of the rows, and number of them, up to which gaps are no habit.
const OFTEN: f64 = 0.05;
const FEW: usize = 5;

pub(super) fn find_starved_collectors(observations: &Observations<'_>) -> Vec<Signature> {
    let all: Vec<(SourceFormat, Vec<Signature>)> = observations
        .rows
        .iter()
        .map(|rows| (rows.series.format.collector_format(), detect_starved_collector(rows)))
        .collect();
    let mut found = Vec::new();
    // What sar and sadf print of a file is the same collector as the file.
    for (collector, own) in &all {
        let others =
            || all.iter().filter(|(other, _)| other != collector).flat_map(|(_, theirs)| theirs);
        for signature in own {
            let mut signature = signature.clone();
            if others().any(|other| other.from < signature.to && signature.from < other.to) {
                signature.strength = raise_strength(signature.strength);
            }
            found.push(signature);
        }
    }
    found
}

fn detect_starved_collector(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let late = find_late_rows(rows);
    let empty = find_empty_rows(rows, &late);
    let often = late.len() + empty.len() > FEW.max(whole_part(rows.samples().len(), OFTEN));
    let all = late.into_iter().chain(empty);
    all.map(|late| {
        let mut strength = late.strength;
        let mut caveats: Vec<String> = late.caveat.map(str::to_owned).into_iter().collect();
        if rows.file_may_lack(late.row) {
            strength = SignatureStrength::Weak;
            caveats.push("as long as one of this collector's files: one may be missing".to_owned());
        }
        if often {
            strength = SignatureStrength::Weak;
            caveats.push("this collector is often late".to_owned());
        }
        if let Some(steal) = rows.value(Metric::CpuSteal, late.row).filter(|steal| *steal >= STEAL)
        {
            strength = weaken_strength(strength);
            caveats.push(format!("the hypervisor took {steal:.0} % of the processors"));
        }
        caveats.push("a virtual machine that was paused looks the same".to_owned());
        Signature {
            kind: SignatureKind::Starved,
            from: late
                .row
                .checked_sub(1)
                .map_or(Moment::default(), |before| rows.moment_at(before)),
            to: rows.moment_at(late.row),
            strength,
            evidence: vec![rows.evidence_at(late.row, late.what)],
            caveats,
        }
    })
    .collect()
}

/// Dates without values: the command could not be started.
fn find_empty_rows(rows: &SeriesRows<'_>, late: &[Late]) -> Vec<Late> {
    let metrics = rows.series.metrics().filter(|metric| *metric != Metric::Processors);
    let columns: Vec<_> = metrics.filter_map(|metric| rows.column(metric)).collect();
    let count = rows.samples().len();
    let is_empty = |row: usize| columns.iter().all(|column| column.get(row).is_none());
    let none: Vec<usize> = (0..count).filter(|row| is_empty(*row)).collect();
    // A source with many of them has rows of something that is not read.
    if count < FEWEST || columns.is_empty() || none.len() > FEW.max(whole_part(count, OFTEN)) {
        return Vec::new();
    }
    let near = |row: usize| late.iter().any(|late| late.row.abs_diff(row) <= 1);
    none.iter()
        .filter(|row| **row > 0)
        .map(|row| Late {
            row: *row,
            by: 0,
            strength: if near(*row) || none.contains(&(row + 1)) {
                SignatureStrength::Clear
            } else {
                SignatureStrength::Weak
            },
            what: "a date with nothing after it: the command could not be started".to_owned(),
            caveat: None,
        })
        .collect()
}

fn whole_part(rows: usize, part: f64) -> usize {
    usize::try_from(whole_milliseconds(rows as f64 * part)).unwrap_or(0)
}
