//! Many processes or connections began or ended within an interval.

use super::rows::{MINUTE, SECOND, SeriesRows, Spike, milliseconds_between};
use super::{SESSION_COUNTS, interval_caveat, raise_strength};
use crate::baseline::Baseline;
use crate::page::bytes_from_f64;
use crate::series::MetricColumn;
use crate::{Metric, Signature, SignatureKind, SignatureStrength};

/// Milliseconds over which counts are compared: a farm of clients starts within minutes.
const WITHIN: i64 = 10 * MINUTE;
/// A step is as many sessions or tasks, and this part of those there were.
const STEP: f64 = 50.0;
const STEP_PART: f64 = 0.2;
/// Part that is more than people who begin their day.
const STEP_CLEAR: f64 = 0.5;
/// A step that no host takes in peace, and how many times as many as before it has to make.
const FLOOD: f64 = 10_000.0;
const FLOOD_PART: f64 = 10.0;
/// Part of a step at which it is done.
const ARRIVED: f64 = 0.95;
/// Rows as many times their pace apart have a hole between them.
const HOLE: i64 = 3;
/// Counts wander by this much by themselves.
const FLOOR: f64 = 8.0;
/// Processes and threads begun a second, and in all above the usual.
const FORKS: f64 = 50.0;
const FORKED: f64 = 300.0;
/// Connections accepted a second, and in all above the usual.
const ACCEPTED: f64 = 2.0;
const ACCEPTED_ALL: f64 = 100.0;
/// Tasks that want a processor, for each processor, beyond a busy hour.
const QUEUE: f64 = 4.0;
/// Page tables that came with a step: what 26 sessions of a 5 GB segment take.
const TABLES: f64 = 256.0 * 1_048_576.0;

pub(super) fn detect_login_storms(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let mut found = Vec::new();
    for (metric, name) in SESSION_COUNTS {
        let Some(column) = rows.column(metric) else { continue };
        let range = column.iter().fold((f64::MAX, 0.0_f64), |(least, most), (_, value)| {
            (least.min(value), most.max(value))
        });
        if range.1 - range.0 < STEP {
            continue;
        }
        let pairs = Pairs::from_column(rows, column);
        for direction in [1.0, -1.0] {
            found.extend(
                find_steps(rows, &pairs, direction)
                    .iter()
                    .map(|step| step_signature(rows, step, metric, name)),
            );
        }
    }
    found.extend(find_rate_spikes(
        rows,
        Metric::Forks,
        FORKS,
        FORKED,
        SignatureStrength::Weak,
        "processes and threads began",
    ));
    found.extend(find_rate_spikes(
        rows,
        Metric::TcpPassive,
        ACCEPTED,
        ACCEPTED_ALL,
        SignatureStrength::Clear,
        "connections were accepted",
    ));
    found
}

struct CountStep {
    first: usize,
    last: usize,
    from: f64,
    to: f64,
}

/// A count's rows, each with the last one that is [`WITHIN`] older, or the row before.
struct Pairs {
    present: Vec<(usize, f64)>,
    lagged: Vec<(usize, usize)>,
}

impl Pairs {
    fn from_column(rows: &SeriesRows<'_>, column: &MetricColumn) -> Self {
        let present: Vec<(usize, f64)> = column.iter().collect();
        let mut behind = 0;
        let lagged = (1..present.len()).filter_map(|place| {
            let now = rows.moment_at(present.get(place)?.0);
            while behind + 1 < place
                && present
                    .get(behind + 1)
                    .is_some_and(|next| milliseconds_between(rows.moment_at(next.0), now) >= WITHIN)
            {
                behind += 1;
            }
            Some((behind, place))
        });
        let lagged = lagged.collect();
        Self { present, lagged }
    }
}

fn find_steps(rows: &SeriesRows<'_>, pairs: &Pairs, direction: f64) -> Vec<CountStep> {
    let Pairs { present, lagged } = pairs;
    let change = |(old, new): (usize, usize)| {
        let ((_, old), (row, new)) = present.get(old).zip(present.get(new))?;
        rows.is_settled(*row).then_some((new - old) * direction)
    };
    let mut changes: Vec<f64> = lagged.iter().copied().filter_map(change).collect();
    let usual = Baseline::from_values(&mut changes, FLOOR);
    let mut found: Vec<CountStep> = Vec::new();
    for pair in lagged {
        let Some(((old_row, old), (new_row, new))) =
            present.get(pair.0).copied().zip(present.get(pair.1).copied())
        else {
            continue;
        };
        let grown = (new - old) * direction;
        let large = grown >= STEP && grown >= STEP_PART * old.min(new);
        // Counts are compared over at least WITHIN, and up to an interval more.
        let torn = milliseconds_between(rows.moment_at(old_row), rows.moment_at(new_row))
            > WITHIN.max(rows.usual) + 2 * rows.usual;
        if !large
            || torn
            || usual.is_some_and(|usual| usual.z_score(grown) <= 6.0)
            || !rows.is_settled(new_row)
        {
            continue;
        }
        // The same step stays in sight for as long as counts are compared over.
        match found.last_mut() {
            Some(step) if old_row <= step.last => {
                if (new - step.to) * direction > 0.0 {
                    (step.last, step.to) = (new_row, new);
                }
            }
            _ => {
                let slice = present.get(pair.0..pair.1).unwrap_or_default();
                let began =
                    slice.iter().rev().find(|(_, value)| (value - old) * direction <= 0.1 * grown);
                let (first, from) = began.copied().unwrap_or((old_row, old));
                found.push(CountStep { first, last: new_row, from, to: new });
            }
        }
    }
    for step in &mut found {
        let arrived = |value: f64| (value - step.from) / (step.to - step.from) >= ARRIVED;
        let begin = present.partition_point(|(row, _)| *row <= step.first);
        let reached = present.iter().skip(begin).find(|(_, value)| arrived(*value));
        if let Some((row, value)) = reached.filter(|(row, _)| *row <= step.last) {
            (step.last, step.to) = (*row, *value);
        }
    }
    found.retain(|step| !lies_in_hole(rows, present, step));
    found
}

/// Whether most of a step lies in a time without rows, so that its course is not known.
fn lies_in_hole(rows: &SeriesRows<'_>, present: &[(usize, f64)], step: &CountStep) -> bool {
    let begin = present.partition_point(|(row, _)| *row <= step.first);
    let pairs = present.iter().zip(present.iter().skip(1)).skip(begin.saturating_sub(1));
    let within = pairs.take_while(|(_, (row, _))| *row <= step.last);
    let hole = |one: usize, next: usize| {
        let torn = (one + 1..=next).any(|row| rows.since_before(row).is_none());
        torn || milliseconds_between(rows.moment_at(one), rows.moment_at(next))
            > HOLE * rows.usual.max(SECOND)
    };
    let lost: f64 = within
        .filter(|((one, _), (next, _))| hole(*one, *next))
        .map(|((_, old), (_, new))| new - old)
        .sum();
    lost.abs() >= 0.5 * (step.to - step.from).abs()
}

fn step_signature(
    rows: &SeriesRows<'_>,
    step: &CountStep,
    metric: Metric,
    name: &str,
) -> Signature {
    let verb = if step.to > step.from { "rose" } else { "fell" };
    let mut evidence = vec![
        rows.evidence_at(step.first, format!("{name} {:.0}", step.from)),
        rows.evidence_at(
            step.last,
            format!("{name} {verb} from {:.0} to {:.0}", step.from, step.to),
        ),
    ];
    let part = (step.to - step.from).abs() / step.from.min(step.to).max(1.0);
    let mut strength =
        if part >= STEP_CLEAR { SignatureStrength::Clear } else { SignatureStrength::Weak };
    if (step.to - step.from).abs() >= FLOOD && part >= FLOOD_PART {
        strength = SignatureStrength::Strong;
    }
    let tables = |row| rows.value(Metric::PageTables, row);
    let grown = tables(step.first)
        .zip(tables(step.last))
        .map(|(before, after)| (before, after, (after - before).abs()));
    let grown =
        grown.filter(|(before, _, change)| *change >= TABLES && *change >= STEP_PART * before);
    if let Some((before, after, _)) = grown {
        let words = format!(
            "page tables went from {} to {} at the same time",
            bytes_from_f64(before),
            bytes_from_f64(after)
        );
        evidence.push(rows.evidence_at(step.last, words));
        strength = strength.max(SignatureStrength::Clear);
    }
    // The mean: the peak of many short moments is higher than that of a few.
    let queue: Vec<f64> =
        (step.first..=step.last).filter_map(|row| runnable_per_processor(rows, row)).collect();
    let each = queue.iter().sum::<f64>() / queue.len().max(1) as f64;
    if each >= QUEUE {
        evidence
            .push(rows.evidence_at(step.last, format!("{each:.0} tasks wanted each processor")));
        if grown.is_some() || metric == Metric::Sessions {
            strength = raise_strength(strength);
        }
    }
    let mut caveats: Vec<String> = interval_caveat(rows.usual).into_iter().collect();
    if metric != Metric::Sessions {
        caveats.push(format!("{name} are not only sessions"));
    }
    Signature {
        kind: SignatureKind::Logins,
        from: rows.moment_at(step.first),
        to: rows.moment_at(step.last),
        strength,
        evidence,
        caveats,
    }
}

fn runnable_per_processor(rows: &SeriesRows<'_>, row: usize) -> Option<f64> {
    let processors = rows.value(Metric::Processors, row).filter(|processors| *processors >= 1.0)?;
    let most = rows.value(Metric::RunQueue, row).into_iter().chain(rows.value(Metric::Load1, row));
    Some(most.max_by(f64::total_cmp)? / processors)
}

fn find_rate_spikes(
    rows: &SeriesRows<'_>,
    metric: Metric,
    least: f64,
    sum: f64,
    strength: SignatureStrength,
    words: &str,
) -> Vec<Signature> {
    let Some(column) = rows.column(metric) else { return Vec::new() };
    let spikes = rows.find_spikes(|row| column.get(row), least, least / 6.0, f64::INFINITY);
    let signature = |spike: &Spike| {
        let strength = if spike.is_settled(rows) { strength } else { SignatureStrength::Weak };
        let usual = spike.usual_suffix(1);
        let words = |row| Some(format!("{:.1} {words} a second{usual}", column.get(row)?));
        let caveats = interval_caveat(rows.usual);
        rows.spike_signature(SignatureKind::Logins, spike, strength, words, caveats)
    };
    spikes.iter().filter(|spike| spike.excess >= sum).map(signature).collect()
}
