//! The kernel killed processes for their memory, by its counter: of the host and of cgroups.

use super::rows::SeriesRows;
use crate::{Metric, Signature, SignatureKind, SignatureStrength};

/// Kills a second that are any: one in a day of seconds is more.
const ANY: f64 = 1e-6;

pub(super) fn detect_oom_kills(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let Some(column) = rows.column(Metric::OomKill) else { return Vec::new() };
    let spikes = rows.find_above(|row| column.get(row), ANY);
    let words = |row| {
        let kills = column.get(row)? * rows.interval_seconds(row);
        let processes =
            if kills < 1.5 { "a process".to_owned() } else { format!("{kills:.0} processes") };
        Some(format!("the kernel killed {processes} for memory"))
    };
    let strength = SignatureStrength::Strong;
    spikes
        .iter()
        .map(|spike| rows.spike_signature(SignatureKind::Oom, spike, strength, words, None))
        .collect()
}
