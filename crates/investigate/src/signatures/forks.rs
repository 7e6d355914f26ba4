//! Processes that begin one after another: a runaway script, or a service that dies at its start.

use super::observations::Observations;
use super::rows::{SeriesRows, Spike};
use super::{ASSUMED_PROCESSORS, interval_caveat, processor_count_caveat};
use crate::{Metric, Signature, SignatureKind, SignatureStrength};

/// Processes and threads begun a second for each processor: to start a program and end it takes a
/// millisecond of one and more. Compilers of a large build begin some dozens.
const FORKS: f64 = 75.0;
/// Nothing but starts and ends: loops around `/bin/true` had 700.
const STRONG: f64 = 400.0;
/// In all above the usual, for each processor: half a minute of the least.
const FORKED: f64 = FORKS * 30.0;

pub(super) fn find_fork_storms(observations: &Observations<'_>) -> Vec<Signature> {
    let processors = observations.processor_count();
    observations.rows.iter().flat_map(|rows| detect_fork_storms(rows, processors)).collect()
}

fn detect_fork_storms(rows: &SeriesRows<'_>, told: Option<f64>) -> Vec<Signature> {
    let processors = told.unwrap_or(ASSUMED_PROCESSORS);
    let Some(column) = rows.column(Metric::Forks) else { return Vec::new() };
    let spikes = rows.find_spikes(
        |row| column.get(row),
        FORKS * processors,
        FORKS * processors / 6.0,
        STRONG * processors,
    );
    let strength = |spike: &Spike| match (spike.is_settled(rows), spike.peak >= STRONG * processors)
    {
        (false, _) => SignatureStrength::Weak,
        (true, false) => SignatureStrength::Clear,
        // What is many for a few processors is little for many.
        (true, true) if told.is_none() => SignatureStrength::Clear,
        (true, true) => SignatureStrength::Strong,
    };
    let caveats: Vec<String> =
        interval_caveat(rows.usual).into_iter().chain(processor_count_caveat(told)).collect();
    let signature = |spike: &Spike| {
        let usual = spike.usual_suffix(1);
        let words = |row| {
            Some(format!("{:.0} processes and threads began a second{usual}", column.get(row)?))
        };
        let caveats = caveats.iter().cloned().chain(spike.without_usual());
        rows.spike_signature(SignatureKind::Forks, spike, strength(spike), words, caveats)
    };
    spikes.iter().filter(|spike| spike.excess >= FORKED * processors).map(signature).collect()
}
