//! Joins what several windows of one host have seen.

use std::collections::{BTreeMap, BTreeSet};

use crate::gather::hosts::GatheredHost;
use crate::signatures::MOST_EVIDENCE;
use crate::{Moment, Problem, Series, Signature, SourceFormat, rotation};

pub(super) fn merge_windows(host: &GatheredHost, mut all: Vec<Series>) -> Vec<Series> {
    let mut problems: Vec<(SourceFormat, Problem)> = Vec::new();
    let mut known: BTreeSet<(SourceFormat, Option<Moment>, String)> = BTreeSet::new();
    for part in &mut all {
        for problem in std::mem::take(&mut part.problems) {
            if known.insert((part.format, problem.at, problem.what.clone())) {
                problems.push((part.format, problem));
            }
        }
    }
    let mut all = join_collectors(all.into_iter().map(Box::new));
    rename_after_files(host, &mut all);
    let mut of_format: BTreeMap<SourceFormat, Vec<Problem>> = BTreeMap::new();
    for (format, problem) in problems {
        of_format.entry(format).or_default().push(problem);
    }
    // The first series of a collector tells them.
    for series in &mut all {
        series.problems = of_format.remove(&series.format).unwrap_or_default();
    }
    all
}

/// Names series after the first and the last file of their collector, which are looked for once.
pub(super) fn rename_after_files(host: &GatheredHost, all: &mut [Series]) {
    let ends = find_first_and_last(host);
    for series in all {
        series.source = name_after_files(series, ends.get(&series.format).copied());
    }
}

/// A file's first moment, and its name.
type FileBegin<'a> = (Moment, &'a str);

fn find_first_and_last(
    host: &GatheredHost,
) -> BTreeMap<SourceFormat, (FileBegin<'_>, FileBegin<'_>)> {
    let mut ends = BTreeMap::new();
    for placed in host.pieces.iter().filter(|placed| placed.copy_of.is_none()) {
        let Some((from, _)) = placed.span else { continue };
        let file = (from, placed.piece.hull.source.as_str());
        let (first, last) = ends.entry(placed.piece.hull.format).or_insert((file, file));
        (*first, *last) = ((*first).min(file), (*last).max(file));
    }
    ends
}

fn name_after_files(series: &Series, ends: Option<(FileBegin<'_>, FileBegin<'_>)>) -> String {
    match ends {
        Some(((_, first), (_, last))) if first != last => format!("{first} to {last}"),
        _ => series.source.clone(),
    }
}

/// One series a collector, also for those without a host's name: here all are of one host.
pub(super) fn join_collectors(parts: impl Iterator<Item = Box<Series>>) -> Vec<Series> {
    let mut name = None;
    let mut kept = Vec::new();
    for mut part in parts.filter(|part| part.span().is_some() || !part.marks.is_empty()) {
        name = name.or_else(|| part.host.clone());
        part.host.get_or_insert_default();
        kept.push(part);
    }
    let mut series = rotation::join_rotated_files(kept);
    series.iter_mut().for_each(|series| series.host.clone_from(&name));
    series
}

pub(super) fn merge_signatures(
    mut before: Vec<Signature>,
    after: Vec<Signature>,
) -> Vec<Signature> {
    let seen = before.len();
    for mut next in after {
        let earlier = before.iter_mut().take(seen);
        let same = earlier
            .rev()
            .find(|one| one.kind == next.kind && one.from <= next.to && next.from <= one.to);
        let Some(one) = same else {
            before.push(next);
            continue;
        };
        one.widen(&mut next);
        for row in next.evidence {
            if one.evidence.len() < MOST_EVIDENCE && !one.evidence.contains(&row) {
                one.evidence.push(row);
            }
        }
        one.evidence.sort_by_key(|row| row.at);
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EvidenceBasis, SignatureEvidence, SignatureKind, SignatureStrength};

    #[test]
    fn what_two_windows_see_is_one() {
        let signature = |from: i64, to: i64, kind| Signature {
            kind,
            from: Moment(from),
            to: Moment(to),
            strength: SignatureStrength::Clear,
            evidence: vec![SignatureEvidence {
                source: "sa".into(),
                at: Moment(from),
                what: "x".into(),
                basis: EvidenceBasis::Figures,
            }],
            caveats: vec!["c".into()],
        };
        let before =
            vec![signature(0, 10, SignatureKind::Swap), signature(20, 40, SignatureKind::Reclaim)];
        let after = vec![
            signature(30, 50, SignatureKind::Reclaim),
            signature(60, 70, SignatureKind::Reclaim),
            signature(35, 36, SignatureKind::Swap),
        ];
        let all = merge_signatures(before, after);
        let spans: Vec<_> =
            all.iter().map(|one| (one.kind, one.from.0, one.to.0, one.evidence.len())).collect();
        assert_eq!(
            spans,
            [
                (SignatureKind::Swap, 0, 10, 1),
                (SignatureKind::Reclaim, 20, 50, 2),
                (SignatureKind::Reclaim, 60, 70, 1),
                (SignatureKind::Swap, 35, 36, 1)
            ]
        );
        assert_eq!(all[1].caveats.len(), 1);
    }
}
