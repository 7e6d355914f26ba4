//! The kernel killed processes for their memory: its own counter, which every kill adds to, of the host and of a cgroup.

use super::observations::Observations;
use super::rows::{Rows, Spike};
use crate::{Kind, Metric, Signature, Strength};

/// Kills a second that are any: one in a day of seconds is more.
const ANY: f64 = 1e-6;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let Some(column) = rows.column(Metric::OomKill) else { return Vec::new() };
    let spikes = rows.above(|row| column.get(row), ANY);
    let signature = |spike: &Spike| Signature {
        kind: Kind::Oom,
        from: rows.from(spike.first),
        to: rows.at(spike.last),
        strength: Strength::Strong,
        evidence: spike
            .rows()
            .into_iter()
            .filter_map(|row| {
                let kills = column.get(row)? * rows.seconds(row);
                let processes = if kills < 1.5 { "a process".to_owned() } else { format!("{kills:.0} processes") };
                Some(rows.evidence(row, format!("the kernel killed {processes} for memory")))
            })
            .collect(),
        caveats: Vec::new(),
    };
    spikes.iter().map(signature).collect()
}
