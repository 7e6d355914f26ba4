//! Programs that want far more time than the processors have: builds and batches want less.

use super::observations::Observations;
use super::rows::{OUTSTANDING, SeriesRows, Spike};
use super::{ASSUMED_PROCESSORS, interval_caveat, processor_count_caveat};
use crate::{Metric, Signature, SignatureKind, SignatureStrength};

/// Tasks that want a processor, for each processor: more than any build.
const QUEUE: f64 = 8.0;
/// Two minutes of them.
const EXCESS: f64 = QUEUE * 120.0;
/// Percent of the processors that programs have.
const USER: f64 = 60.0;
/// Percent that is left.
const IDLE: f64 = 5.0;

pub(super) fn find_user_cpu(observations: &Observations<'_>) -> Vec<Signature> {
    let processors = observations.processor_count();
    observations.rows.iter().flat_map(|rows| detect_user_cpu(rows, processors)).collect()
}

fn detect_user_cpu(rows: &SeriesRows<'_>, processors: Option<f64>) -> Vec<Signature> {
    let each = processors.unwrap_or(ASSUMED_PROCESSORS);
    let queue = |row: usize| {
        // Collectors and jobs of the minute wake together, which the queue shows, and the load not.
        let queues =
            rows.value(Metric::RunQueue, row).into_iter().chain(rows.value(Metric::Load1, row));
        let queue = queues.min_by(f64::total_cmp)?;
        // Who is nice takes nothing from others.
        let user = rows.value(Metric::CpuUser, row)?;
        let idle =
            rows.value(Metric::CpuIdle, row)? + rows.value(Metric::CpuIowait, row).unwrap_or(0.0);
        Some(if user >= USER && idle < IDLE { queue / each } else { 0.0 })
    };
    let signature = |spike: &Spike| {
        let caveats = interval_caveat(rows.usual)
            .into_iter()
            .chain(spike.without_usual())
            .chain(processor_count_caveat(processors));
        // A queue that is long for a few processors is none for many.
        let strength = if spike.is_settled(rows) && processors.is_some() {
            SignatureStrength::Strong
        } else {
            SignatureStrength::Weak
        };
        let words = |row| {
            let user = rows.value(Metric::CpuUser, row)?;
            let waited = rows.value(Metric::PressureCpuSome, row);
            let waited =
                waited.map(|waited| format!(", some waited for one in {waited:.0} % of the time"));
            Some(format!(
                "{:.0} tasks wanted each processor, %user {user:.0}{}",
                queue(row)?,
                waited.unwrap_or_default()
            ))
        };
        rows.spike_signature(SignatureKind::UserCpu, spike, strength, words, caveats)
    };
    let spikes = rows.find_spikes(queue, QUEUE, QUEUE / OUTSTANDING, QUEUE);
    spikes.iter().filter(|spike| spike.excess >= EXCESS).map(signature).collect()
}
