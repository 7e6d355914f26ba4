//! Time that the hypervisor took from the host's processors.

use super::interval_caveat;
use super::rows::{OUTSTANDING, SeriesRows, Spike};
use crate::{Metric, Signature, SignatureKind, SignatureStrength};

/// Percent of the processors that is felt, and seconds of it.
const STOLEN: f64 = 20.0;
const SECONDS: f64 = 120.0;
/// Percent that doubles the time of whoever wants a processor.
const STRONG: f64 = 30.0;

pub(super) fn detect_cpu_steal(rows: &SeriesRows<'_>) -> Vec<Signature> {
    let Some(column) = rows.column(Metric::CpuSteal) else { return Vec::new() };
    // One reading has no length: a third of all processors is trouble whatever it was.
    let snapshot = rows.is_snapshot();
    let spikes = rows.find_spikes(|row| column.get(row), STOLEN, STOLEN / OUTSTANDING, STRONG);
    let signature = |spike: &Spike| {
        let is_strong = spike.peak >= STRONG;
        let strength = if is_strong { SignatureStrength::Strong } else { SignatureStrength::Clear };
        let usual = spike.usual_suffix(0);
        let words = |row| {
            let stolen = column.get(row)?;
            Some(format!("the hypervisor took {stolen:.0} % of the processors{usual}"))
        };
        let caveats = interval_caveat(rows.usual)
            .into_iter()
            .chain(rows.snapshot_caveat())
            .chain(spike.without_usual());
        rows.spike_signature(SignatureKind::Steal, spike, strength, words, caveats)
    };
    let is_enough =
        |spike: &&Spike| snapshot || spike.excess >= rows.least_excess(spike, STOLEN, SECONDS);
    spikes.iter().filter(is_enough).map(signature).collect()
}
