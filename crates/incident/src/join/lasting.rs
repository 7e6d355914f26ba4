//! What stands all the time, without a moment: findings over the whole window.

use super::facts::Facts;
use super::summary;
use crate::page::bytes;
use crate::signatures::observations::Observations;
use crate::signatures::page_tables;
use crate::signatures::rows::apart;
use crate::{Confidence, History, Incident, Kind, Metric, Signature, Strength, Verdict};

/// Page tables that were large for less than this, in milliseconds, in an archive that is longer do not stand.
const STANDS: i64 = 30 * 60_000;

/// Findings, and the signatures that make none and are told by no incident.
pub(super) fn findings(
    observations: &Observations<'_>,
    lasting: &[Signature],
    found: &[Incident],
) -> (Vec<Incident>, Vec<Signature>) {
    let told = |kind| found.iter().flat_map(|incident| &incident.signatures).any(|signature| signature.kind == kind);
    let mut incidents = Vec::new();
    let mut used = Vec::new();
    let tables = lasting.iter().filter(|one| one.kind == Kind::PageTables && one.strength >= Strength::Clear);
    let pools = || lasting.iter().filter(|one| one.kind == Kind::Pool && one.strength >= Strength::Clear);
    if !told(Kind::PageTables) {
        for signature in tables.filter(|signature| stands(observations.history, signature)) {
            let mut signatures = vec![signature.clone()];
            signatures.extend(pools().cloned());
            used.extend(signatures.iter().map(|one| (one.kind, one.from)));
            incidents.push(large(observations, signatures));
        }
    }
    if incidents.is_empty() && !told(Kind::Pool) {
        for signature in pools() {
            let facts = Facts::of(observations, signature.from, signature.to, std::slice::from_ref(signature));
            if facts.pool.is_some_and(|pool| pool.total > 0.0) {
                used.push((signature.kind, signature.from));
                incidents.push(unused(observations, signature));
            }
        }
    }
    let rest = lasting.iter().filter(|one| !told(one.kind) && !used.contains(&(one.kind, one.from))).cloned();
    (incidents, rest.collect())
}

/// Whether page tables were large for long, or in all there is.
fn stands(history: &History, signature: &Signature) -> bool {
    let stood = apart(signature.from, signature.to);
    let spans = history.series.iter().filter(|series| series.column(Metric::PageTables).is_some());
    let longest = spans.filter_map(|series| {
        let (first, last) = (series.samples().first()?, series.samples().last()?);
        Some(apart(first.at, last.at))
    });
    stood >= STANDS || longest.max().unwrap_or(0) <= 2 * stood
}

fn large(observations: &Observations<'_>, signatures: Vec<Signature>) -> Incident {
    let from = signatures.iter().map(|one| one.from).min().unwrap_or_default();
    let to = signatures.iter().map(|one| one.to).max().unwrap_or_default();
    let facts = Facts::of(observations, from, to, &signatures);
    // Without the memory they are of, there is the amount.
    let amount =
        || signatures.iter().flat_map(|one| &one.evidence).next().map_or_else(String::new, |row| row.what.clone());
    let mut summary = facts.tables.map_or_else(amount, summary::share);
    if let Some(pool) = facts.pool {
        summary = format!("{summary}; {}", summary::pool(pool));
    }
    let slope = observations.rows.iter().find_map(|rows| page_tables::growth(rows, rows.column(Metric::PageTables)?));
    if let Some((by, slope)) = slope {
        summary = format!("{summary}; {}", page_tables::slope_words(observations, by, slope));
    }
    let readings = observations.history.series.iter().filter_map(|series| series.column(Metric::PageTables));
    let readings = readings.map(|column| column.iter().count()).sum::<usize>();
    let used = facts.pool.filter(|pool| pool.total > 0.0 && pool.available < 0.1 * pool.total);
    let against: Vec<String> = used
        .map(|pool| format!("the pool of {} is used: what page tables map is not in it", bytes(pool.total)))
        .into_iter()
        .collect();
    let mut raised_by = Vec::new();
    if readings <= 1 {
        raised_by.push("more than one reading: sar -r ALL, or a log of /proc/meminfo over a day".to_owned());
    }
    if slope.is_none() {
        raised_by.push("the number of sessions beside it: which share each of them has".to_owned());
    }
    Incident {
        from,
        to,
        verdict: Verdict::PageTablesStanding,
        summary,
        confidence: if readings > 1 { Confidence::High } else { Confidence::Medium },
        raised_by,
        against,
        next: summary::next(Verdict::PageTablesStanding, &facts),
        signatures,
    }
}

fn unused(observations: &Observations<'_>, signature: &Signature) -> Incident {
    let signatures = vec![signature.clone()];
    let facts = Facts::of(observations, signature.from, signature.to, &signatures);
    let reserved = observations.history.series.iter().any(|series| series.column(Metric::HugeReserved).is_some());
    let raised = "how many pages are reserved: sysstat 12.1.1 and later, or a log of /proc/meminfo";
    Incident {
        from: signature.from,
        to: signature.to,
        verdict: Verdict::PoolUnused,
        summary: facts.pool.map_or_else(String::new, summary::pool),
        confidence: if reserved { Confidence::High } else { Confidence::Medium },
        raised_by: if reserved { Vec::new() } else { vec![raised.to_owned()] },
        against: Vec::new(),
        next: summary::next(Verdict::PoolUnused, &facts),
        signatures,
    }
}
