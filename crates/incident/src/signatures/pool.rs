//! A pool that is unused, too small, or missing while page tables are large.

use super::observations::Observations;
use super::page_tables::{CLEAR, NOTICE};
use super::rows::{MINUTE, Rows, apart};
use crate::baseline::percentile;
use crate::page::bytes;
use crate::{History, Kind, Metric, Signature, Strength};

/// Part of a pool that is spoken for by nobody from which it is called unused.
const UNUSED: f64 = 0.5;
/// Part of memory, and an amount, that is a pity in a pool that nobody uses.
const WASTE: f64 = 0.05;
const WASTE_BYTES: f64 = 1_073_741_824.0;
/// Part of a pool that is left in one that is used up.
const USED_UP: f64 = 0.02;
/// A pool is judged by this many readings over this time: a server may just be starting.
const READINGS: usize = 3;
const LONG: i64 = 30 * MINUTE;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    let total = observations.memory;
    let tables = largest(observations.history, Metric::PageTables).zip(total).map(|(tables, total)| tables / total);
    observations.rows.iter().filter_map(|rows| of(rows, total, tables)).collect()
}

fn largest(history: &History, metric: Metric) -> Option<f64> {
    let values = history.series.iter().filter_map(|series| series.column(metric));
    values.flat_map(|column| column.iter().map(|(_, value)| value)).max_by(f64::total_cmp)
}

fn of(rows: &Rows<'_>, total: Option<f64>, tables: Option<f64>) -> Option<Signature> {
    let (pool, free) = (rows.column(Metric::HugeTotal)?, rows.column(Metric::HugeFree)?);
    let reserved = rows.column(Metric::HugeReserved);
    // What is free and not reserved is free for anybody.
    let available = |row| Some(free.get(row)? - reserved.and_then(|reserved| reserved.get(row)).unwrap_or(0.0));
    let mut parts: Vec<f64> = Vec::new();
    let (mut first, mut last, mut readings) = (None, 0, 0usize);
    let mut most = 0.0_f64;
    for (row, pool) in pool.iter() {
        let Some(available) = available(row) else { continue };
        first = first.or(Some(row));
        (last, readings) = (row, readings + 1);
        most = most.max(pool);
        parts.push(if pool > 0.0 { available / pool } else { 0.0 });
    }
    let first = first?;
    let long = readings >= READINGS && apart(rows.at(first), rows.at(last)) >= LONG;
    // In nearly all readings: a restart of the server empties the pool for a while.
    let (little, much) = (percentile(&mut parts, 0.05)?, percentile(&mut parts, 0.95)?);
    let large = tables.is_some_and(|tables| tables >= NOTICE);
    let clear = tables.is_some_and(|tables| tables >= CLEAR);
    let with_tables = tables.map(|tables| format!(" while page tables reached {:.1} % of memory", tables * 100.0));
    let with_tables = with_tables.filter(|_| large).unwrap_or_default();
    let (what, strength) = if most <= 0.0 {
        if !large {
            return None;
        }
        let strength = if clear { Strength::Clear } else { Strength::Weak };
        (format!("no huge pages were configured{with_tables}"), strength)
    } else if little > UNUSED {
        let unused = little * most;
        let pity = unused >= WASTE_BYTES || total.is_some_and(|total| unused >= WASTE * total);
        let strength = match (long && pity, clear) {
            (true, true) => Strength::Strong,
            (true, false) => Strength::Clear,
            _ => Strength::Weak,
        };
        let part = little * 100.0;
        (format!("{} of the pool of {} ({part:.0} %) went unused{with_tables}", bytes(unused), bytes(most)), strength)
    } else if much < USED_UP && large {
        (format!("the pool of {} was used up{with_tables}", bytes(most)), Strength::Weak)
    } else {
        return None;
    };
    let mut caveats = vec!["pools of other page sizes are not recorded here".to_owned()];
    if reserved.is_none() && most > 0.0 {
        caveats.push("reserved pages are not recorded, and count as unused".to_owned());
    }
    if !long && most > 0.0 {
        caveats.push("few readings: the server that uses the pool may not have been up".to_owned());
    }
    Some(Signature {
        kind: Kind::Pool,
        from: rows.at(first),
        to: rows.at(last),
        strength,
        evidence: vec![rows.evidence(last, what)],
        caveats,
    })
}
