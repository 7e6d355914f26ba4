//! What all experiments share: a plan, variants in random order within each round, warm-up, raw
//! samples, progress, an end at any moment, and a host that is left as it was.

mod outline;
mod runner;
mod variant_order;

use std::io;
use std::time::Duration;

use hugewise_model::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::outline::{Outline, PlannedVariant, plan_experiment};
use self::runner::Runner;
pub use self::variant_order::Random;
pub(crate) use self::variant_order::shuffle_variants;
use crate::budget::{MemoryWatch, NotTold, ResourceGauge};
use crate::cancel::{Cancel, Stopped};
use crate::cpu_load::Unseen;
use crate::guard::{PoolGuard, PoolRefusal};
use crate::results::{MetricReading, MetricRun, Ratio};
use crate::thp_switches;
use crate::variant::Variant;

/// Peak needs of one variant of an experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// Memory besides the pool: segments on base pages, page tables, private memory.
    pub memory: Bytes,
    /// Memory on pages of the variant's pool, which is grown by what it lacks.
    pub huge: Bytes,
    /// Concurrent processes.
    pub processes: u32,
    /// For transparent huge pages: the switches that apply to the memory.
    pub obeys: thp_switches::ThpMemoryKind,
    /// Estimated time of one measurement.
    pub time: Duration,
}

/// Why a measurement gave no readings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExperimentFailure {
    /// The whole experiment ends; earlier measurements stand.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// This variant is not available here now; the others go on.
    #[error("{0}")]
    Unavailable(String),
    /// Something that should work did not.
    #[error("{0}")]
    Failed(String),
}

impl From<PoolRefusal> for ExperimentFailure {
    fn from(PoolRefusal(reason): PoolRefusal) -> Self {
        Self::Unavailable(reason)
    }
}

impl From<io::Error> for ExperimentFailure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<NotTold> for ExperimentFailure {
    fn from(fact: NotTold) -> Self {
        Self::Failed(fact.to_string())
    }
}

impl From<Unseen> for ExperimentFailure {
    fn from(unseen: Unseen) -> Self {
        Self::Failed(unseen.to_string())
    }
}

impl From<hugewise_system::SystemFailure> for ExperimentFailure {
    fn from(failure: hugewise_system::SystemFailure) -> Self {
        Self::Failed(failure.to_string())
    }
}

/// What a measurement may use.
#[derive(Debug)]
pub struct Context<'a> {
    /// Has to be asked at every step that takes longer than a blink.
    pub cancel: &'a Cancel,
    /// Memory and counters of the host.
    pub gauge: &'a ResourceGauge,
    /// The pools, for experiments that set them; `None` without the right to.
    pub guard: Option<&'a PoolGuard>,
    /// What must stay free.
    pub floor: Bytes,
}

impl Context<'_> {
    pub(crate) fn room_for(&self, bytes: Bytes) -> Result<(), ExperimentFailure> {
        let room = self.gauge.read()?;
        if bytes > room.available.saturating_sub(self.floor) {
            let reason = format!(
                "{bytes} needed, but only {} available, and {} of that must stay free",
                room.available, self.floor
            );
            return Err(ExperimentFailure::Unavailable(reason));
        }
        Ok(())
    }
}

/// One experiment with its settings.
pub trait Experiment {
    /// Its name on the command line: `page-tables`.
    fn name(&self) -> &'static str;

    /// What runs it: `standin`, `postgresql`, `memory`.
    fn engine(&self) -> &'static str;

    /// The variants; the others are compared with the first.
    fn variants(&self) -> Vec<Variant>;

    /// What a variant takes of the host.
    fn resource_needs(&self, variant: Variant) -> Needs;

    /// Why it is impossible here besides its needs: a missing program.
    fn refusal_reason(&self) -> Option<String> {
        None
    }

    /// What it changes on the host by itself, for the plan.
    fn host_changes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Runs once, before the first variant. Errors: the experiment cannot begin.
    fn prepare_host(&mut self, _context: &Context<'_>) -> Result<(), ExperimentFailure> {
        Ok(())
    }

    /// Measures one variant once; the pool has the pages for [`Needs::huge`].
    /// Errors: why there are no readings.
    fn measure_variant(
        &mut self,
        variant: Variant,
        context: &Context<'_>,
    ) -> Result<Vec<MetricReading>, ExperimentFailure>;

    /// Notes for readers of the results; asked at the end.
    fn result_notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How often, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Rounds that count; each measures every variant once.
    pub rounds: u32,
    /// Rounds before them that do not count.
    pub warm_ups: u32,
    /// Determines the order of the variants in each round.
    pub seed: u64,
    /// Memory that must stay free, unless the host's own floor is higher.
    pub floor: Bytes,
}

impl Default for Options {
    fn default() -> Self {
        Self { rounds: 3, warm_ups: 1, seed: 1, floor: Bytes::ZERO }
    }
}

/// The progress of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentProgress {
    /// The variant that is being measured.
    pub pages: Variant,
    /// The round, from 1; warm-up rounds are counted separately.
    pub round: u32,
    /// Number of rounds.
    pub rounds: u32,
    /// Whether this round does not count.
    pub warm_up: bool,
    /// Measurements so far.
    pub done: u32,
    /// Number of measurements.
    pub of: u32,
    /// Time since the start.
    pub elapsed: Duration,
    /// Estimated time left, by the measurements so far.
    pub left: Duration,
}

/// What an experiment found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentOutcome {
    /// What it planned to do.
    pub plan: Outline,
    /// One for each variant and metric.
    pub runs: Vec<MetricRun>,
    /// Every variant compared with the first.
    pub ratios: Vec<Ratio>,
    /// What a reader has to know: variants left out, things that this host does not have.
    pub notes: Vec<String>,
    /// Why it ended before its time; what stands here was measured before.
    pub stopped: Option<String>,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The least memory that was available meanwhile.
    pub lowest_available_bytes: Option<u64>,
}

/// Does what `plan` says. Errors: the plan's refusal, no guard, or an experiment that cannot begin;
/// later failures are in the outcome.
pub fn run(
    experiment: &mut dyn Experiment,
    options: &Options,
    plan: Outline,
    cancel: &Cancel,
    progress: &mut dyn FnMut(&ExperimentProgress),
) -> Result<ExperimentOutcome, ExperimentFailure> {
    if let Some(refusal) = &plan.refusal {
        return Err(ExperimentFailure::Unavailable(refusal.clone()));
    }
    let guard = if PoolGuard::may_change() { Some(PoolGuard::beside_others()?) } else { None };
    let gauge = ResourceGauge::new();
    let floor = Bytes(plan.floor_bytes);
    let watch = MemoryWatch::start(floor, cancel)?;
    let swapped = gauge.read_vmstat_counter("pswpout");
    let context = Context { cancel, gauge: &gauge, guard: guard.as_ref(), floor };

    let mut runner = Runner::new(experiment, options, &plan, &context);
    let ended = runner.run_rounds(progress);
    let Runner { collector, mut notes, begun, .. } = runner;
    if ended.is_err()
        && collector.is_empty()
        && !matches!(ended, Err(ExperimentFailure::Stopped(_)))
    {
        ended.clone()?;
    }
    notes.extend(experiment.result_notes());
    if gauge.read_vmstat_counter("pswpout") > swapped {
        notes.push("the host swapped out memory while this ran".to_owned());
    }
    if let Some(guard) = &guard {
        notes.extend(guard.give_back().err().map(|error| error.to_string()));
    }
    let variants: Vec<_> = plan.variants.iter().map(|variant| variant.pages).collect();
    let (runs, ratios) = collector.finish(&variants);
    Ok(ExperimentOutcome {
        plan,
        runs,
        ratios,
        notes,
        stopped: ended.err().map(|failure| failure.to_string()),
        seconds: begun.elapsed().as_secs_f64(),
        lowest_available_bytes: watch.lowest_available().map(Bytes::get),
    })
}

#[cfg(test)]
mod tests;
