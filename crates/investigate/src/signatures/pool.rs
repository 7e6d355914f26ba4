//! A pool that is unused, too small, or missing while page tables are large.

use super::observations::Observations;
use super::page_tables::{CLEAR, NOTICE};
use super::rows::{MINUTE, SeriesRows, milliseconds_between};
use crate::baseline::value_at_percentile;
use crate::page::bytes_from_f64;
use crate::{IncidentHistory, Metric, Signature, SignatureKind, SignatureStrength};

/// Free and unreserved part of a pool from which it is unused.
const UNUSED: f64 = 0.5;
/// Part of memory, and bytes, whose waste in a pool matters.
const WASTE: f64 = 0.05;
const WASTE_BYTES: f64 = 1_073_741_824.0;
/// Part that is left of a pool that is used up.
const USED_UP: f64 = 0.02;
/// A pool is judged by as many readings over this time: a server may just be starting.
const READINGS: usize = 3;
const LONG: i64 = 30 * MINUTE;

pub(super) fn find_pool_problems(observations: &Observations<'_>) -> Vec<Signature> {
    let total = observations.memory;
    let tables = largest_value(observations.history, Metric::PageTables)
        .zip(total)
        .map(|(tables, total)| tables / total)
        .filter(|part| *part <= 1.0);
    observations.rows.iter().filter_map(|rows| detect_pool_problem(rows, total, tables)).collect()
}

fn largest_value(history: &IncidentHistory, metric: Metric) -> Option<f64> {
    let values = history.series.iter().filter_map(|series| series.column(metric));
    values.flat_map(|column| column.iter().map(|(_, value)| value)).max_by(f64::total_cmp)
}

fn detect_pool_problem(
    rows: &SeriesRows<'_>,
    total: Option<f64>,
    tables: Option<f64>,
) -> Option<Signature> {
    let readings = PoolReadings::new(rows)?;
    let PoolReadings { first, last, most, .. } = readings;
    let reserved = rows.column(Metric::HugeReserved);
    let large = tables.is_some_and(|tables| tables >= NOTICE);
    let clear = tables.is_some_and(|tables| tables >= CLEAR);
    let with_tables = tables
        .filter(|_| large)
        .map(|tables| format!(" while page tables reached {:.1} % of memory", tables * 100.0))
        .unwrap_or_default();
    let (what, strength) = if most <= 0.0 {
        if !large {
            return None;
        }
        let strength = if clear { SignatureStrength::Clear } else { SignatureStrength::Weak };
        (format!("no huge pages were configured{with_tables}"), strength)
    } else if readings.little > UNUSED {
        let unused = readings.little * most;
        let pity = unused >= WASTE_BYTES || total.is_some_and(|total| unused >= WASTE * total);
        let strength = match (readings.long && pity, clear) {
            (true, true) => SignatureStrength::Strong,
            (true, false) => SignatureStrength::Clear,
            _ => SignatureStrength::Weak,
        };
        let what = format!(
            "{} of the pool of {} ({:.0} %) went unused{with_tables}",
            bytes_from_f64(unused),
            bytes_from_f64(most),
            readings.little * 100.0
        );
        (what, strength)
    } else if readings.much < USED_UP && large {
        let what = format!("the pool of {} was used up{with_tables}", bytes_from_f64(most));
        (what, SignatureStrength::Weak)
    } else {
        return None;
    };
    let mut caveats = vec!["pools of other page sizes are not recorded here".to_owned()];
    if reserved.is_none() && most > 0.0 {
        caveats.push("reserved pages are not recorded, and count as unused".to_owned());
    }
    if !readings.long && most > 0.0 {
        caveats.push("few readings: the server that uses the pool may not have been up".to_owned());
    }
    Some(Signature {
        kind: SignatureKind::Pool,
        from: rows.moment_at(first),
        to: rows.moment_at(last),
        strength,
        evidence: vec![rows.evidence_at(last, what)],
        caveats,
    })
}

struct PoolReadings {
    first: usize,
    last: usize,
    /// Whether there are many readings, over long.
    long: bool,
    most: f64,
    /// The available part of it, at least and at most, in nearly all readings: a restart of the
    /// server empties the pool for a while.
    little: f64,
    much: f64,
}

impl PoolReadings {
    fn new(rows: &SeriesRows<'_>) -> Option<Self> {
        let (pool, free) = (rows.column(Metric::HugeTotal)?, rows.column(Metric::HugeFree)?);
        let reserved = rows.column(Metric::HugeReserved);
        // Free pages are available unless they are reserved.
        let readings: Vec<(usize, f64, f64)> = pool
            .iter()
            .filter_map(|(row, pool)| {
                let taken = reserved.and_then(|reserved| reserved.get(row)).unwrap_or(0.0);
                Some((row, pool, free.get(row)? - taken))
            })
            .collect();
        let (first, last) = (readings.first()?.0, readings.last()?.0);
        let mut parts: Vec<f64> = readings
            .iter()
            .map(|(_, pool, available)| if *pool > 0.0 { available / pool } else { 0.0 })
            .collect();
        Some(Self {
            first,
            last,
            long: readings.len() >= READINGS
                && milliseconds_between(rows.moment_at(first), rows.moment_at(last)) >= LONG,
            most: readings.iter().map(|(_, pool, _)| *pool).fold(0.0, f64::max),
            little: value_at_percentile(&mut parts, 0.05)?,
            much: value_at_percentile(&mut parts, 0.95)?,
        })
    }
}
