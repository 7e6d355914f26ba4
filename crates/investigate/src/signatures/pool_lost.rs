//! A pool that a restart took away: it was set by hand, or memory was fragmented too early.

use super::rows::SeriesRows;
use crate::page::bytes_from_f64;
use crate::{Metric, Signature, SignatureKind, SignatureStrength};

const LEFT: f64 = 0.5;
/// Bytes whose loss is felt: the least shared memory that a plan is made for.
const GONE: f64 = 256.0 * 1_048_576.0;

pub(super) fn detect_lost_pools(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let Some(pool) = rows.column(Metric::HugeTotal) else { return Vec::new() };
    let readings: Vec<(usize, f64)> = pool.iter().collect();
    let pairs = readings.iter().zip(readings.iter().skip(1)).enumerate();
    pairs
        .filter_map(|(at, (before, after))| {
            lost_pool_signature(rows, *before, *after, readings.get(at + 1..)?)
        })
        .collect()
}

fn lost_pool_signature(
    rows: &SeriesRows<'_>,
    before: (usize, f64),
    after: (usize, f64),
    later: &[(usize, f64)],
) -> Option<Signature> {
    let ((last, had), (first, has)) = (before, after);
    // Whoever shrinks a pool on a running host knows it.
    let booted = rows
        .boot_moments()
        .iter()
        .any(|boot| (rows.moment_at(last)..=rows.moment_at(first)).contains(boot));
    let gone = has <= LEFT * had && had - has >= GONE;
    if !booted || !gone {
        return None;
    }
    // After a boot a service may fill the pool, which takes its time.
    let next_boot = rows.boot_moments().iter().find(|boot| **boot > rows.moment_at(first));
    let until =
        later.iter().filter(|(row, _)| next_boot.is_none_or(|boot| rows.moment_at(*row) < *boot));
    let most = until.map(|(_, value)| *value).fold(has, f64::max);
    if most > LEFT * had {
        return None;
    }
    let now = if most > 0.0 {
        format!("{} were left of it", bytes_from_f64(most))
    } else {
        "nothing was left of it".to_owned()
    };
    let what = format!(
        "the pool of huge pages was {} before the restart; {now} afterwards",
        bytes_from_f64(had)
    );
    Some(Signature {
        kind: SignatureKind::HugePagesLost,
        from: rows.moment_at(first),
        to: rows.moment_at(first),
        strength: SignatureStrength::Strong,
        evidence: vec![rows.evidence_at(first, what)],
        caveats: Vec::new(),
    })
}
