//! A pool that was there before a restart of the host, and is not behind it: it was set by hand, or memory was in pieces before the
//! pool was filled.

use super::observations::Observations;
use super::rows::Rows;
use crate::page::bytes;
use crate::{Kind, Metric, Signature, Strength};

/// Part of a pool that is left of one that is called lost.
const LEFT: f64 = 0.5;
/// What has to be gone for anybody to feel it: the least shared memory that a plan is made for.
const GONE: f64 = 256.0 * 1_048_576.0;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let Some(pool) = rows.column(Metric::HugeTotal) else { return Vec::new() };
    let readings: Vec<(usize, f64)> = pool.iter().collect();
    let pairs = readings.iter().zip(readings.iter().skip(1)).enumerate();
    pairs.filter_map(|(at, (before, after))| lost(rows, *before, *after, readings.get(at + 1..)?)).collect()
}

fn lost(rows: &Rows<'_>, before: (usize, f64), after: (usize, f64), later: &[(usize, f64)]) -> Option<Signature> {
    let ((last, had), (first, has)) = (before, after);
    // Whoever makes a pool smaller while the host runs knows it.
    let booted = rows.boots().iter().any(|boot| (rows.at(last)..=rows.at(first)).contains(boot));
    let gone = has <= LEFT * had && had - has >= GONE;
    if !booted || !gone {
        return None;
    }
    // Behind a boot a service may fill it, which takes its time.
    let next_boot = rows.boots().iter().find(|boot| **boot > rows.at(first));
    let until = later.iter().filter(|(row, _)| next_boot.is_none_or(|boot| rows.at(*row) < *boot));
    let most = until.map(|(_, value)| *value).fold(has, f64::max);
    if most > LEFT * had {
        return None;
    }
    let now = if most > 0.0 { format!("{} were left of it", bytes(most)) } else { "nothing was left of it".to_owned() };
    let what = format!("the pool of huge pages was {} before the restart; {now} afterwards", bytes(had));
    Some(Signature {
        kind: Kind::HugePagesLost,
        from: rows.at(first),
        to: rows.at(first),
        strength: Strength::Strong,
        evidence: vec![rows.evidence(first, what)],
        caveats: Vec::new(),
    })
}
