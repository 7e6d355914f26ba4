//! Many processes or connections began or ended within an interval.

use super::observations::Observations;
use super::rows::{MINUTE, Rows, SECOND, Spike, apart};
use super::{hides, stronger};
use crate::baseline::Baseline;
use crate::page::bytes;
use crate::series::Column;
use crate::{Kind, Metric, Signature, Strength};

/// Counts are compared with those of so long ago, in milliseconds: a farm of clients starts within minutes, and a finer
/// source shows the same storm as sysstat's default does.
const WITHIN: i64 = 10 * MINUTE;
/// A step is as many sessions or tasks, and this part of those there were.
const STEP: f64 = 50.0;
const STEP_PART: f64 = 0.2;
/// And is more than people who begin their day when it is this part.
const STEP_CLEAR: f64 = 0.5;
/// Part of a step with which it is called done.
const ARRIVED: f64 = 0.95;
/// Rows as many times their pace apart have a hole between them.
const HOLE: i64 = 3;
/// Steps wander by this much without anybody's doing.
const FLOOR: f64 = 8.0;
/// Processes and threads begun a second, and altogether above the usual.
const FORKS: f64 = 50.0;
const FORKED: f64 = 300.0;
/// Connections accepted a second, and altogether above the usual.
const ACCEPTED: f64 = 2.0;
const ACCEPTED_ALL: f64 = 100.0;
/// Tasks that want a processor, for each one there is, that are no longer a busy hour.
const QUEUE: f64 = 4.0;
/// Page tables that came with a step: what 26 sessions of a 5 GB segment take, and this part of what there was.
const TABLES: f64 = 256.0 * 1_048_576.0;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let mut found = Vec::new();
    let counts = [(Metric::Sessions, "sessions"), (Metric::Processes, "processes"), (Metric::Tasks, "tasks")];
    for (metric, name) in counts {
        let Some(column) = rows.column(metric) else { continue };
        // Most hosts have as many all the time.
        let range =
            column.iter().fold((f64::MAX, 0.0_f64), |(least, most), (_, value)| (least.min(value), most.max(value)));
        if range.1 - range.0 < STEP {
            continue;
        }
        let pairs = Pairs::of(rows, column);
        for direction in [1.0, -1.0] {
            found.extend(steps(rows, &pairs, direction).iter().map(|step| stepped(rows, step, metric, name)));
        }
    }
    found.extend(rates(rows, Metric::Forks, FORKS, FORKED, Strength::Weak, "processes and threads began"));
    found.extend(rates(rows, Metric::TcpPassive, ACCEPTED, ACCEPTED_ALL, Strength::Clear, "connections were accepted"));
    found
}

/// A count that rose or fell within minutes.
struct Step {
    first: usize,
    last: usize,
    from: f64,
    to: f64,
}

/// A count's rows, and each with the last that is at least so old as counts are compared with, or the one before in
/// coarser sources.
struct Pairs {
    present: Vec<(usize, f64)>,
    lagged: Vec<(usize, usize)>,
}

impl Pairs {
    fn of(rows: &Rows<'_>, column: &Column) -> Self {
        let present: Vec<(usize, f64)> = column.iter().collect();
        let mut behind = 0;
        let lagged = (1..present.len()).filter_map(|place| {
            let now = rows.at(present.get(place)?.0);
            while behind + 1 < place
                && present.get(behind + 1).is_some_and(|next| apart(rows.at(next.0), now) >= WITHIN)
            {
                behind += 1;
            }
            Some((behind, place))
        });
        let lagged = lagged.collect();
        Self { present, lagged }
    }
}

fn steps(rows: &Rows<'_>, pairs: &Pairs, direction: f64) -> Vec<Step> {
    let Pairs { present, lagged } = pairs;
    let change = |(old, new): (usize, usize)| {
        let ((_, old), (row, new)) = present.get(old).zip(present.get(new))?;
        rows.settled(*row).then_some((new - old) * direction)
    };
    let mut changes: Vec<f64> = lagged.iter().copied().filter_map(change).collect();
    let usual = Baseline::of(&mut changes, FLOOR);
    let mut found: Vec<Step> = Vec::new();
    for pair in lagged {
        let Some(((old_row, old), (new_row, new))) = present.get(pair.0).copied().zip(present.get(pair.1).copied())
        else {
            continue;
        };
        let grown = (new - old) * direction;
        let large = grown >= STEP && grown >= STEP_PART * old.min(new);
        // Counts are compared over at least so long, and by up to an interval more.
        let torn = apart(rows.at(old_row), rows.at(new_row)) > WITHIN.max(rows.usual) + 2 * rows.usual;
        if !large || torn || usual.is_some_and(|usual| usual.z(grown) <= 6.0) || !rows.settled(new_row) {
            continue;
        }
        // The same step stays in sight for as long as it is compared over.
        match found.last_mut() {
            Some(step) if old_row <= step.last => {
                if (new - step.to) * direction > 0.0 {
                    (step.last, step.to) = (new_row, new);
                }
            }
            _ => {
                // It began where most of it was still to come.
                let slice = present.get(pair.0..pair.1).unwrap_or_default();
                let began = slice.iter().rev().find(|(_, value)| (value - old) * direction <= 0.1 * grown);
                let (first, from) = began.copied().unwrap_or((old_row, old));
                found.push(Step { first, last: new_row, from, to: new });
            }
        }
    }
    for step in &mut found {
        // What moves about behind the step is no longer of it.
        let arrived = |value: f64| (value - step.from) / (step.to - step.from) >= ARRIVED;
        let begin = present.partition_point(|(row, _)| *row <= step.first);
        let reached = present.iter().skip(begin).find(|(_, value)| arrived(*value));
        if let Some((row, value)) = reached.filter(|(row, _)| *row <= step.last) {
            (step.last, step.to) = (*row, *value);
        }
    }
    found.retain(|step| !behind_a_hole(rows, present, step));
    found
}

/// Whether most of a step lies in a time of which there are no rows: what came and went there, and when, is not told.
fn behind_a_hole(rows: &Rows<'_>, present: &[(usize, f64)], step: &Step) -> bool {
    let begin = present.partition_point(|(row, _)| *row <= step.first);
    let pairs = present.iter().zip(present.iter().skip(1)).skip(begin.saturating_sub(1));
    let within = pairs.take_while(|(_, (row, _))| *row <= step.last);
    let hole = |one: usize, next: usize| {
        let torn = (one + 1..=next).any(|row| rows.since_before(row).is_none());
        torn || apart(rows.at(one), rows.at(next)) > HOLE * rows.usual.max(SECOND)
    };
    let lost: f64 =
        within.filter(|((one, _), (next, _))| hole(*one, *next)).map(|((_, old), (_, new))| new - old).sum();
    lost.abs() >= 0.5 * (step.to - step.from).abs()
}

fn stepped(rows: &Rows<'_>, step: &Step, metric: Metric, name: &str) -> Signature {
    let verb = if step.to > step.from { "rose" } else { "fell" };
    let mut evidence = vec![
        rows.evidence(step.first, format!("{name} {:.0}", step.from)),
        rows.evidence(step.last, format!("{name} {verb} from {:.0} to {:.0}", step.from, step.to)),
    ];
    let part = (step.to - step.from).abs() / step.from.min(step.to).max(1.0);
    let mut strength = if part >= STEP_CLEAR { Strength::Clear } else { Strength::Weak };
    let tables = |row| rows.value(Metric::PageTables, row);
    let grown =
        tables(step.first).zip(tables(step.last)).map(|(before, after)| (before, after, (after - before).abs()));
    let grown = grown.filter(|(before, _, change)| *change >= TABLES && *change >= STEP_PART * before);
    if let Some((before, after, _)) = grown {
        let words = format!("page tables went from {} to {} at the same time", bytes(before), bytes(after));
        evidence.push(rows.evidence(step.last, words));
        strength = strength.max(Strength::Clear);
    }
    // Their mean: the longest of many short moments is longer than that of a few.
    let queue: Vec<f64> = (step.first..=step.last).filter_map(|row| queue(rows, row)).collect();
    let each = queue.iter().sum::<f64>() / queue.len().max(1) as f64;
    if each >= QUEUE {
        evidence.push(rows.evidence(step.last, format!("{each:.0} tasks wanted each processor")));
        if grown.is_some() || metric == Metric::Sessions {
            strength = stronger(strength);
        }
    }
    let mut caveats: Vec<String> = hides(rows.usual).into_iter().collect();
    if metric != Metric::Sessions {
        caveats.push(format!("{name} are not only sessions"));
    }
    Signature { kind: Kind::Logins, from: rows.at(step.first), to: rows.at(step.last), strength, evidence, caveats }
}

/// Tasks that want a processor, for each one there is.
fn queue(rows: &Rows<'_>, row: usize) -> Option<f64> {
    let processors = rows.value(Metric::Processors, row).filter(|processors| *processors >= 1.0)?;
    let most = rows.value(Metric::RunQueue, row).into_iter().chain(rows.value(Metric::Load1, row));
    Some(most.max_by(f64::total_cmp)? / processors)
}

fn rates(rows: &Rows<'_>, metric: Metric, least: f64, sum: f64, strength: Strength, words: &str) -> Vec<Signature> {
    let Some(column) = rows.column(metric) else { return Vec::new() };
    let spikes = rows.spikes(|row| column.get(row), least, least / 6.0, f64::INFINITY);
    let signature = |spike: &Spike| Signature {
        kind: Kind::Logins,
        from: rows.from(spike.first),
        to: rows.at(spike.last),
        strength: if spike.settled(rows) { strength } else { Strength::Weak },
        evidence: spike
            .rows()
            .into_iter()
            .filter_map(|row| {
                let rate = column.get(row)?;
                Some(rows.evidence(row, format!("{rate:.1} {words} a second{}", spike.usual(1))))
            })
            .collect(),
        caveats: hides(rows.usual).into_iter().collect(),
    };
    spikes.iter().filter(|spike| spike.excess >= sum).map(signature).collect()
}
