//! Nothing for long, and then a boot: a host that hung until somebody reset it.
//!
//! A reboot takes minutes, on large hosts a quarter of an hour. A host that was shut down in order
//! looks the same, but servers, their tasks and page tables ended before. A restart of the collector
//! alone is told by the host's uptime ([`MarkKind::Resumed`](crate::MarkKind::Resumed)).

use super::SESSION_COUNTS;
use super::rows::{MINUTE, SECOND, SILENT, SeriesRows, milliseconds_between};
use crate::baseline::{FEWEST, median_of};
use crate::page::bytes_from_f64;
use crate::{Metric, Moment, Signature, SignatureKind, SignatureStrength};

/// Milliseconds from which the host was rather switched off: over a night.
const OFF: i64 = 6 * 60 * MINUTE;
const HABIT: usize = 3;
/// Milliseconds before the last sample in which servers may have ended.
const BEFORE: i64 = 5 * MINUTE;
/// Parts to which tasks and page tables fall when servers are stopped; evenings are slower.
const TASKS_LEFT: f64 = 0.75;
const TABLES_LEFT: f64 = 0.6;
/// Bytes of a server's page tables; those of a system without servers vary by less.
const TABLES: f64 = 16.0 * 1_048_576.0;

pub(super) fn detect_silences(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let silences: Vec<(usize, Moment)> =
        rows.boot_moments().iter().filter_map(|boot| silence_before_boot(rows, *boot)).collect();
    let habit = silences.len() >= HABIT;
    silences.into_iter().map(|(last, boot)| silence_signature(rows, last, boot, habit)).collect()
}

/// The last row before a boot that came long after it, if rows had kept their pace.
fn silence_before_boot(rows: &SeriesRows<'_>, boot: Moment) -> Option<(usize, Moment)> {
    let behind = rows.samples().partition_point(|sample| sample.at < boot);
    let last = behind.checked_sub(1)?;
    let long =
        milliseconds_between(rows.moment_at(last), boot).saturating_sub(rows.usual) >= SILENT;
    let first = behind.checked_sub(FEWEST / 2)?;
    let paced = milliseconds_between(rows.moment_at(first), rows.moment_at(last))
        <= rows.usual.saturating_mul(2 * 6);
    (long && paced).then_some((last, boot))
}

fn silence_signature(rows: &SeriesRows<'_>, last: usize, boot: Moment, habit: bool) -> Signature {
    let long = milliseconds_between(rows.moment_at(last), boot);
    let mut caveats = Vec::new();
    if long > OFF {
        caveats.push("a silence this long is more likely a host that was switched off".to_owned());
    }
    if habit {
        caveats.push(
            "this host is often off: it may be switched off when it is not needed".to_owned(),
        );
    }
    if let Some(ended) = describe_ended_work(rows, last) {
        caveats.push(format!("{ended}: apparently the host was shut down in an orderly way"));
    }
    let strength =
        if caveats.is_empty() { SignatureStrength::Strong } else { SignatureStrength::Weak };
    caveats.push("a host that was switched off while nothing ran on it looks the same".to_owned());
    let minutes = long / MINUTE;
    let what = format!(
        "the last sample, usually {} s apart; then nothing for {minutes} minutes",
        rows.usual / SECOND
    );
    let anew = rows.samples().partition_point(|sample| sample.at < boot);
    let mut evidence = vec![
        rows.evidence_at(last, what),
        rows.evidence_at(anew, "the first sample after the start"),
    ];
    if let Some(first) = evidence.last_mut().filter(|_| anew >= rows.samples().len()) {
        (first.at, first.what) = (boot, "the collector restarted".to_owned());
    }
    Signature {
        kind: SignatureKind::Silence,
        from: rows.moment_at(last),
        to: boot,
        strength,
        evidence,
        caveats,
    }
}

fn describe_ended_work(rows: &SeriesRows<'_>, last: usize) -> Option<String> {
    let fell = |metric, left: f64| {
        let column = rows.column(metric)?;
        let now = column.get(last)?;
        let lag = BEFORE.max(2 * rows.usual);
        let earlier = column.iter().take_while(|(row, _)| *row <= last);
        let mut earlier: Vec<f64> = earlier
            .filter(|(row, _)| {
                milliseconds_between(rows.moment_at(*row), rows.moment_at(last)) > lag
            })
            .map(|(_, value)| value)
            .collect();
        let recent = earlier.len().saturating_sub(FEWEST * 5);
        let usual = median_of(earlier.get_mut(recent..)?)?;
        (now <= left * usual).then_some((usual, now))
    };
    for (metric, name) in SESSION_COUNTS {
        if let Some((usual, now)) =
            fell(metric, TASKS_LEFT).filter(|(usual, now)| usual - now >= 10.0)
        {
            return Some(format!("{name} had fallen from {usual:.0} to {now:.0}"));
        }
    }
    let (usual, now) =
        fell(Metric::PageTables, TABLES_LEFT).filter(|(usual, now)| usual - now >= TABLES)?;
    Some(format!(
        "page tables had shrunk from {} to {}",
        bytes_from_f64(usual),
        bytes_from_f64(now)
    ))
}
