//! Time that the hypervisor kept from the host's processors: its own host has more guests at work than processors, or a
//! limit is reached.

use super::hides;
use super::observations::Observations;
use super::rows::{OUTSTANDING, Rows, Spike};
use crate::{Kind, Metric, Signature, Strength};

/// Percent of the processors that is felt, and two minutes of it.
const STOLEN: f64 = 20.0;
const EXCESS: f64 = STOLEN * 120.0;
/// Percent that halves what there is for those who want it.
const STRONG: f64 = 30.0;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    observations.rows.iter().flat_map(of).collect()
}

fn of(rows: &Rows<'_>) -> Vec<Signature> {
    let Some(column) = rows.column(Metric::CpuSteal) else { return Vec::new() };
    let spikes = rows.spikes(|row| column.get(row), STOLEN, STOLEN / OUTSTANDING, STRONG);
    let signature = |spike: &Spike| Signature {
        kind: Kind::Steal,
        from: rows.from(spike.first),
        to: rows.at(spike.last),
        strength: if spike.peak >= STRONG { Strength::Strong } else { Strength::Clear },
        evidence: spike
            .rows()
            .into_iter()
            .filter_map(|row| {
                let stolen = column.get(row)?;
                let words = format!("the hypervisor took {stolen:.0} % of the processors{}", spike.usual(0));
                Some(rows.evidence(row, words))
            })
            .collect(),
        caveats: hides(rows.usual).into_iter().chain(spike.without_usual()).collect(),
    };
    spikes.iter().filter(|spike| spike.excess >= EXCESS).map(signature).collect()
}
