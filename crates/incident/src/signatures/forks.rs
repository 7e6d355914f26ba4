//! Processes that begin one after another: a script that runs away, a loop of commands, a service that dies at its start.

use super::hides;
use super::observations::Observations;
use super::rows::{Rows, Spike};
use crate::{Kind, Metric, Signature, Strength};

/// Processes and threads begun a second for each processor: to begin one, load a program and end takes a millisecond of a
/// processor and more. Compilers of a large build begin some dozens, and have the time for themselves.
const FORKS: f64 = 75.0;
/// Nothing but beginning and ending: 700 were seen of loops around `/bin/true`.
const STRONG: f64 = 400.0;
/// Altogether above the usual, for each processor: half a minute of the least.
const FORKED: f64 = FORKS * 30.0;
/// Processors where nobody tells how many there are.
const PROCESSORS: f64 = 4.0;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    let processors = observations.processors();
    observations.rows.iter().flat_map(|rows| of(rows, processors)).collect()
}

fn of(rows: &Rows<'_>, told: Option<f64>) -> Vec<Signature> {
    let processors = told.unwrap_or(PROCESSORS);
    let Some(column) = rows.column(Metric::Forks) else { return Vec::new() };
    let spikes = rows.spikes(|row| column.get(row), FORKS * processors, FORKS * processors / 6.0, STRONG * processors);
    let strength = |spike: &Spike| match (spike.settled(rows), spike.peak >= STRONG * processors) {
        (false, _) => Strength::Weak,
        (true, false) => Strength::Clear,
        // What is many for a few processors is little for many.
        (true, true) => {
            if told.is_some() {
                Strength::Strong
            } else {
                Strength::Clear
            }
        }
    };
    let judged =
        || format!("no source says how many processors there are: {processors:.0} were assumed");
    let caveats: Vec<String> = hides(rows.usual).into_iter().chain(told.is_none().then(judged)).collect();
    let signature = |spike: &Spike| Signature {
        kind: Kind::Forks,
        from: rows.from(spike.first),
        to: rows.at(spike.last),
        strength: strength(spike),
        evidence: spike
            .rows()
            .into_iter()
            .filter_map(|row| {
                let rate = column.get(row)?;
                let words = format!("{rate:.0} processes and threads began a second{}", spike.usual(1));
                Some(rows.evidence(row, words))
            })
            .collect(),
        caveats: caveats.iter().cloned().chain(spike.without_usual()).collect(),
    };
    spikes.iter().filter(|spike| spike.excess >= FORKED * processors).map(signature).collect()
}
