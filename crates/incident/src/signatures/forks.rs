//! Processes that begin one after another: a script that runs away, a loop of commands, a service that dies at its start.

use super::hides;
use super::observations::Observations;
use super::rows::{Rows, Spike};
use crate::{Kind, Metric, Signature, Strength};

/// Processes and threads begun a second. Compilers of a large build begin some hundred, and have the time for themselves:
/// what the kernel takes beside it decides.
const FORKS: f64 = 300.0;
const STRONG: f64 = 1000.0;
/// Altogether above the usual: half a minute of the least.
const FORKED: f64 = 9000.0;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let Some(column) = rows.column(Metric::Forks) else { return Vec::new() };
    let spikes = rows.spikes(|row| column.get(row), FORKS, FORKS / 6.0);
    let strength = |spike: &Spike| match (spike.settled(rows), spike.peak >= STRONG) {
        (false, _) => Strength::Weak,
        (true, false) => Strength::Clear,
        (true, true) => Strength::Strong,
    };
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
                let words = format!("{rate:.0} processes and threads began a second; usual here {:.1}", spike.usual);
                Some(rows.evidence(row, words))
            })
            .collect(),
        caveats: hides(rows.usual).into_iter().collect(),
    };
    spikes.iter().filter(|spike| spike.excess >= FORKED).map(signature).collect()
}
