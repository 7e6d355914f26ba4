//! Programs that want far more time than the processors have. Builds and batches take all there is, too, and are at most as
//! many as fit and a few times more.

use super::hides;
use super::observations::Observations;
use super::rows::{OUTSTANDING, Rows, Spike};
use crate::{Kind, Metric, Signature, Strength};

/// Tasks that want a processor, for each one there is. A build of this many jobs a processor was not seen.
const QUEUE: f64 = 8.0;
/// Two minutes of them.
const EXCESS: f64 = QUEUE * 120.0;
/// Percent of the processors that programs have.
const USER: f64 = 60.0;
/// Percent that is left.
const IDLE: f64 = 5.0;
/// Processors where nobody tells how many there are.
const PROCESSORS: f64 = 4.0;

pub(super) fn find(observations: &Observations<'_>) -> Vec<Signature> {
    let processors = observations.processors();
    observations.rows.iter().flat_map(|rows| of(rows, processors)).collect()
}

fn of(rows: &Rows<'_>, processors: Option<f64>) -> Vec<Signature> {
    let each = processors.unwrap_or(PROCESSORS);
    let queue = |row: usize| {
        // The queue is of one moment, at which collectors and jobs of the minute wake together; the load is of the minute.
        let queues = rows.value(Metric::RunQueue, row).into_iter().chain(rows.value(Metric::Load1, row));
        let queue = queues.min_by(f64::total_cmp)?;
        let user = rows.value(Metric::CpuUser, row)? + rows.value(Metric::CpuNice, row).unwrap_or(0.0);
        let idle = rows.value(Metric::CpuIdle, row)? + rows.value(Metric::CpuIowait, row).unwrap_or(0.0);
        Some(if user >= USER && idle < IDLE { queue / each } else { 0.0 })
    };
    let signature = |spike: &Spike| {
        let mut caveats: Vec<String> = hides(rows.usual).into_iter().chain(spike.without_usual()).collect();
        if processors.is_none() {
            caveats
                .push(format!("no source says how many processors there are: {each:.0} were assumed"));
        }
        // A queue that is long for a few processors is none for many.
        let strength = if spike.settled(rows) && processors.is_some() { Strength::Strong } else { Strength::Weak };
        let evidence = spike.rows().into_iter().filter_map(|row| {
            let user = rows.value(Metric::CpuUser, row)? + rows.value(Metric::CpuNice, row).unwrap_or(0.0);
            let waited = rows.value(Metric::PressureCpuSome, row);
            let waited = waited.map(|waited| format!(", some waited for one in {waited:.0} % of the time"));
            let words = format!(
                "{:.0} tasks wanted each processor, %user {user:.0}{}",
                queue(row)?,
                waited.unwrap_or_default()
            );
            Some(rows.evidence(row, words))
        });
        Signature {
            kind: Kind::UserCpu,
            from: rows.from(spike.first),
            to: rows.at(spike.last),
            strength,
            evidence: evidence.collect(),
            caveats,
        }
    };
    let spikes = rows.spikes(queue, QUEUE, QUEUE / OUTSTANDING, QUEUE);
    spikes.iter().filter(|spike| spike.excess >= EXCESS).map(signature).collect()
}
