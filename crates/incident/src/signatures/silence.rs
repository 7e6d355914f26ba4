//! Nothing for long, and then the host or the collector began anew: a host that hung until somebody reset it.
//!
//! A reboot takes minutes, of large hosts a quarter of an hour. A host that was shut down by order looks the same but for
//! what was ended before: servers, and their tasks and page tables with them. A collector that was off on a host that was up
//! all the time is told by the host's uptime, where the source has it ([`MarkKind::Resumed`](crate::MarkKind::Resumed)).

use super::observations::Observations;
use super::rows::{MINUTE, Rows, SECOND, SILENT, apart};
use crate::baseline::{FEWEST, median};
use crate::page::bytes;
use crate::{Kind, Metric, Moment, Signature, Strength};

/// As long as this is rather a host that nobody wanted to run: over a night.
const OFF: i64 = 6 * 60 * MINUTE;
/// So many of them are a habit.
const HABIT: usize = 3;
/// How far before the last sample it is looked for what ended, in milliseconds.
const BEFORE: i64 = 5 * MINUTE;
/// Parts of what was usual to which tasks and page tables fall when servers are stopped. Sessions that leave in the evening
/// take longer than five minutes.
const TASKS_LEFT: f64 = 0.75;
const TABLES_LEFT: f64 = 0.6;
/// Page tables of a server, in bytes; those of a system that has none wander by less.
const TABLES: f64 = 16.0 * 1_048_576.0;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let silences: Vec<(usize, Moment)> = rows.boots().iter().filter_map(|boot| silence(rows, *boot)).collect();
    let habit = silences.len() >= HABIT;
    silences.into_iter().map(|(last, boot)| signature(rows, last, boot, habit)).collect()
}

/// The last row before a start that came long after it, where rows had come at their pace.
fn silence(rows: &Rows<'_>, boot: Moment) -> Option<(usize, Moment)> {
    let behind = rows.samples().partition_point(|sample| sample.at < boot);
    let last = behind.checked_sub(1)?;
    let long = apart(rows.at(last), boot).saturating_sub(rows.usual) >= SILENT;
    let first = behind.checked_sub(FEWEST / 2)?;
    let paced = apart(rows.at(first), rows.at(last)) <= rows.usual.saturating_mul(2 * 6);
    (long && paced).then_some((last, boot))
}

fn signature(rows: &Rows<'_>, last: usize, boot: Moment, habit: bool) -> Signature {
    let long = apart(rows.at(last), boot);
    let mut caveats = Vec::new();
    if long > OFF {
        caveats.push("a silence this long is more likely a host that was switched off".to_owned());
    }
    if habit {
        caveats.push("this host is often off: it may be switched off when it is not needed".to_owned());
    }
    if let Some(ended) = ended(rows, last) {
        caveats.push(format!("{ended}: apparently the host was shut down in an orderly way"));
    }
    let strength = if caveats.is_empty() { Strength::Strong } else { Strength::Weak };
    caveats.push("a host that was switched off while nothing ran on it looks the same".to_owned());
    let minutes = long / MINUTE;
    let what = format!("the last sample, usually {} s apart; then nothing for {minutes} minutes", rows.usual / SECOND);
    let anew = rows.samples().partition_point(|sample| sample.at < boot);
    let mut evidence = vec![rows.evidence(last, what), rows.evidence(anew, "the first sample after the start")];
    if let Some(first) = evidence.last_mut().filter(|_| anew >= rows.samples().len()) {
        (first.at, first.what) = (boot, "the collector restarted".to_owned());
    }
    Signature { kind: Kind::Silence, from: rows.at(last), to: boot, strength, evidence, caveats }
}

/// What had ended in the minutes before a row, as servers that are stopped do.
fn ended(rows: &Rows<'_>, last: usize) -> Option<String> {
    let fell = |metric, left: f64| {
        let column = rows.column(metric)?;
        let now = column.get(last)?;
        let lag = BEFORE.max(2 * rows.usual);
        let earlier = column.iter().take_while(|(row, _)| *row <= last);
        let mut earlier: Vec<f64> =
            earlier.filter(|(row, _)| apart(rows.at(*row), rows.at(last)) > lag).map(|(_, value)| value).collect();
        let recent = earlier.len().saturating_sub(FEWEST * 5);
        let usual = median(earlier.get_mut(recent..)?)?;
        (now <= left * usual).then_some((usual, now))
    };
    let counts = [(Metric::Sessions, "sessions"), (Metric::Processes, "processes"), (Metric::Tasks, "tasks")];
    for (metric, name) in counts {
        if let Some((usual, now)) = fell(metric, TASKS_LEFT).filter(|(usual, now)| usual - now >= 10.0) {
            return Some(format!("{name} had fallen from {usual:.0} to {now:.0}"));
        }
    }
    let (usual, now) = fell(Metric::PageTables, TABLES_LEFT).filter(|(usual, now)| usual - now >= TABLES)?;
    Some(format!("page tables had shrunk from {} to {}", bytes(usual), bytes(now)))
}
