//! What several windows of one host have seen is one.

use crate::gather::hosts::Machine;
use crate::{Format, Moment, Problem, Series, Signature, rotation};

/// Rows of evidence of a signature that was joined.
const MOST_EVIDENCE: usize = 12;

/// Series of all windows, one behind the other.
pub(super) fn whole(host: &Machine, mut all: Vec<Series>) -> Vec<Series> {
    let mut problems: Vec<(Format, Problem)> = Vec::new();
    for part in &mut all {
        for problem in std::mem::take(&mut part.problems) {
            if !problems.iter().any(|(format, known)| *format == part.format && *known == problem) {
                problems.push((part.format, problem));
            }
        }
    }
    let mut all = join(all);
    for series in &mut all {
        series.source = sources(host, series);
        let (own, others): (Vec<_>, Vec<_>) = problems.into_iter().partition(|(format, _)| *format == series.format);
        series.problems = own.into_iter().map(|(_, problem)| problem).collect();
        problems = others;
    }
    all
}

/// The files of a series, the first and the last.
pub(super) fn sources(host: &Machine, series: &Series) -> String {
    let mut files: Vec<(Moment, &str)> = host
        .pieces
        .iter()
        .filter(|placed| placed.piece.hull.format == series.format && placed.copy_of.is_none())
        .filter_map(|placed| Some((placed.span?.0, placed.piece.hull.source.as_str())))
        .collect();
    files.sort_unstable();
    match (files.first(), files.last()) {
        (Some((_, first)), Some((_, last))) if first != last => format!("{first} to {last}"),
        _ => series.source.clone(),
    }
}

/// One series a collector, those without a host's name too: here all are of one host.
pub(super) fn join(mut parts: Vec<Series>) -> Vec<Series> {
    parts.retain(|part| part.span().is_some() || !part.marks.is_empty());
    let name = parts.iter().find_map(|part| part.host.clone());
    for part in &mut parts {
        part.host.get_or_insert_default();
    }
    let mut series = rotation::join(parts);
    series.iter_mut().for_each(|series| series.host.clone_from(&name));
    series
}

/// The signatures of two neighbours: those of one kind that overlap are one.
pub(super) fn joined(mut before: Vec<Signature>, after: Vec<Signature>) -> Vec<Signature> {
    let seen = before.len();
    for next in after {
        let earlier = before.iter_mut().take(seen);
        let same = earlier.rev().find(|one| one.kind == next.kind && one.from <= next.to && next.from <= one.to);
        let Some(one) = same else {
            before.push(next);
            continue;
        };
        one.from = one.from.min(next.from);
        one.to = one.to.max(next.to);
        one.strength = one.strength.max(next.strength);
        for row in next.evidence {
            if one.evidence.len() < MOST_EVIDENCE && !one.evidence.contains(&row) {
                one.evidence.push(row);
            }
        }
        one.evidence.sort_by_key(|row| row.at);
        for caveat in next.caveats {
            if !one.caveats.contains(&caveat) {
                one.caveats.push(caveat);
            }
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evidence, Kind, Strength};

    #[test]
    fn what_two_windows_see_is_one() {
        let signature = |from: i64, to: i64, kind| Signature {
            kind,
            from: Moment(from),
            to: Moment(to),
            strength: Strength::Clear,
            evidence: vec![Evidence { source: "sa".into(), at: Moment(from), what: "x".into() }],
            caveats: vec!["c".into()],
        };
        let before = vec![signature(0, 10, Kind::Swap), signature(20, 40, Kind::Reclaim)];
        let after =
            vec![signature(30, 50, Kind::Reclaim), signature(60, 70, Kind::Reclaim), signature(35, 36, Kind::Swap)];
        let all = joined(before, after);
        let spans: Vec<_> = all.iter().map(|one| (one.kind, one.from.0, one.to.0, one.evidence.len())).collect();
        assert_eq!(
            spans,
            [(Kind::Swap, 0, 10, 1), (Kind::Reclaim, 20, 50, 2), (Kind::Reclaim, 60, 70, 1), (Kind::Swap, 35, 36, 1)]
        );
        assert_eq!(all[1].caveats.len(), 1);
    }
}
