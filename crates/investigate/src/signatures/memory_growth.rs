//! What programs hold, growing for long and far beyond memory: the trouble begins where that does,
//! not with the storm in which it ends.

use super::observations::Observations;
use super::rows::{MINUTE, SeriesRows, milliseconds_between};
use crate::page::bytes_from_f64;
use crate::series::MetricColumn;
use crate::{Metric, Signature, SignatureKind, SignatureStrength};

/// Part of memory by which swap in use grows. Idle programs on a healthy host leave less there.
const SWAPPED: f64 = 0.5;
/// Milliseconds of a growth that is one: what grows for longer is the host's habit, or a leak that
/// nobody feels yet.
const LONGEST: i64 = 12 * 60 * MINUTE;
/// Milliseconds of a growth that is worth a word of its own: what is shorter is the storm itself.
const SHORTEST: i64 = 5 * MINUTE;
/// The part of a growth that may be given back for a while.
const GIVEN_BACK: f64 = 0.1;
/// The part of a growth that is there where it begins.
const BEGUN: f64 = 0.02;
/// Part of a growth that comes in one step, from which its course is not known.
const STEP: f64 = 0.5;

pub(super) fn find_memory_growth(observations: &Observations<'_>) -> Vec<Signature> {
    let Some(memory) = observations.memory else { return Vec::new() };
    observations.rows.iter().flat_map(|rows| detect_swap_growth(rows, memory)).collect()
}

fn detect_swap_growth(rows: &SeriesRows<'_>, memory: f64) -> Vec<Signature> {
    let Some(used) = rows.column(Metric::SwapUsed) else { return Vec::new() };
    let grows = find_growth(rows, used, SWAPPED * memory);
    grows.iter().map(|growth| growth_signature(rows, growth, memory)).collect()
}

/// The rows and values between which a column grows.
struct Growth {
    from: (usize, f64),
    to: (usize, f64),
}

impl Growth {
    const fn beginning_at(row: usize, value: f64) -> Self {
        Self { from: (row, value), to: (row, value) }
    }

    fn size(&self) -> f64 {
        self.to.1 - self.from.1
    }
}

/// Where a column grows by at least `least` without giving much of it back.
fn find_growth(rows: &SeriesRows<'_>, column: &MetricColumn, least: f64) -> Vec<Growth> {
    let mut found = Vec::new();
    let mut current: Option<Growth> = None;
    for (row, value) in column.iter() {
        let Some(growth) = &mut current else {
            current = Some(Growth::beginning_at(row, value));
            continue;
        };
        let anew = rows.restarted_between(growth.to.0, row);
        let falls = value <= growth.from.1 || growth.to.1 - value > GIVEN_BACK * growth.size();
        let long = milliseconds_between(rows.moment_at(growth.from.0), rows.moment_at(row));
        if anew || (value < growth.to.1 && falls) || (long > LONGEST && growth.size() < least) {
            found.extend(current.take());
            current = Some(Growth::beginning_at(row, value));
        } else if value > growth.to.1 {
            growth.to = (row, value);
        } else if growth.size() <= 0.0 {
            // What stood until then did not grow.
            growth.from = (row, value);
            growth.to = (row, value);
        }
    }
    found.extend(current);
    found.retain(|growth| growth.size() >= least);
    for growth in &mut found {
        trim_beginning(column, growth);
    }
    found.retain(|growth| {
        let lasts =
            milliseconds_between(rows.moment_at(growth.from.0), rows.moment_at(growth.to.0));
        (SHORTEST..=LONGEST).contains(&lasts) && !is_one_step(column, growth)
    });
    found
}

/// Moves the beginning to the last row that had hardly any of the growth.
fn trim_beginning(column: &MetricColumn, growth: &mut Growth) {
    let little = growth.from.1 + BEGUN * growth.size();
    let (first, last) = (growth.from.0, growth.to.0);
    let within = column.iter().skip_while(|(row, _)| *row < first);
    let small = within.take_while(|(row, value)| *row < last && *value <= little);
    if let Some(begun) = small.last() {
        growth.from = begun;
    }
}

fn is_one_step(column: &MetricColumn, growth: &Growth) -> bool {
    let within = column.iter().skip_while(|(row, _)| *row < growth.from.0);
    let within = within.take_while(|(row, _)| *row <= growth.to.0);
    let values: Vec<f64> = within.map(|(_, value)| value).collect();
    let steps = values.iter().zip(values.iter().skip(1)).map(|(one, next)| next - one);
    steps.max_by(f64::total_cmp).is_none_or(|most| most >= STEP * growth.size())
}

fn growth_signature(rows: &SeriesRows<'_>, growth: &Growth, memory: f64) -> Signature {
    let words = |row: usize, used: f64| {
        let committed = rows.value(Metric::Committed, row);
        let committed = committed
            .map(|bytes| format!(", {} committed", bytes_from_f64(bytes)))
            .unwrap_or_default();
        let memory = bytes_from_f64(memory);
        format!("swap in use {}{committed}, of {memory} of memory", bytes_from_f64(used))
    };
    let ends = [growth.from, growth.to];
    Signature {
        kind: SignatureKind::MemoryGrowth,
        from: rows.moment_at(growth.from.0),
        to: rows.moment_at(growth.to.0),
        strength: SignatureStrength::Strong,
        evidence: ends
            .into_iter()
            .map(|(row, used)| rows.evidence_at(row, words(row, used)))
            .collect(),
        caveats: Vec::new(),
    }
}
