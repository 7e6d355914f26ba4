//! What all experiments have in common: a plan that is stated before anything happens, variants in random order
//! within each round, warm-up, raw samples, progress, an end at any moment, and a host that is left as it was.

mod order;
mod outline;
mod runner;

use std::io;
use std::time::Duration;

use hugewise_model::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::order::Random;
pub(crate) use self::order::shuffled;
pub use self::outline::{Outline, Planned, outline};
use self::runner::Runner;
use crate::budget::{Gauge, NotTold, Watch};
use crate::cancel::{Cancel, Stopped};
use crate::guard::{PoolGuard, Skip};
use crate::load::Unseen;
use crate::results::{Ratio, Reading, Run};
use crate::thp;
use crate::variant::Variant;

/// What one variant of an experiment takes of the host at its peak.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    /// Memory beside the pool: segments on base pages, page tables, private memory.
    pub memory: Bytes,
    /// Memory on pages of the variant's pool. The pool is grown by what it lacks of that.
    pub huge: Bytes,
    /// Processes that are there at once.
    pub processes: u32,
    /// For transparent huge pages: which switches the memory obeys.
    pub obeys: thp::Memory,
    /// How long one measurement takes, estimated.
    pub time: Duration,
}

/// Why a measurement gave no readings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The whole experiment ends here; what was measured stands.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// This variant cannot be had on this host now. The others go on without it.
    #[error("{0}")]
    Unavailable(String),
    /// Something that should work did not.
    #[error("{0}")]
    Failed(String),
}

impl From<Skip> for Failure {
    fn from(Skip(reason): Skip) -> Self {
        Self::Unavailable(reason)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<NotTold> for Failure {
    fn from(fact: NotTold) -> Self {
        Self::Failed(fact.to_string())
    }
}

impl From<Unseen> for Failure {
    fn from(unseen: Unseen) -> Self {
        Self::Failed(unseen.to_string())
    }
}

impl From<hugewise_system::Failure> for Failure {
    fn from(failure: hugewise_system::Failure) -> Self {
        Self::Failed(failure.to_string())
    }
}

/// What a measurement may use while it runs.
#[derive(Debug)]
pub struct Context<'a> {
    /// To be asked at every step that takes longer than a blink.
    pub cancel: &'a Cancel,
    /// Memory and counters of the host.
    pub gauge: &'a Gauge,
    /// The pools, for experiments that set them by themselves. `None` for a user who may not change them.
    pub guard: Option<&'a PoolGuard>,
    /// What must stay free.
    pub floor: Bytes,
}

impl Context<'_> {
    /// Goes on when `bytes` more can be had without going below the floor.
    ///
    /// # Errors
    /// Where they cannot.
    pub(crate) fn room_for(&self, bytes: Bytes) -> Result<(), Failure> {
        let room = self.gauge.read()?;
        if bytes > room.available.saturating_sub(self.floor) {
            let reason = format!(
                "{bytes} needed, but only {} available, and {} of that must stay free",
                room.available, self.floor
            );
            return Err(Failure::Unavailable(reason));
        }
        Ok(())
    }
}

/// One experiment with its settings.
pub trait Experiment {
    /// As on the command line: `page-tables`.
    fn name(&self) -> &'static str;

    /// What runs it: `standin`, `postgresql`, `memory`.
    fn engine(&self) -> &'static str;

    /// The variants; the others are compared with the first.
    fn variants(&self) -> Vec<Variant>;

    /// What a variant takes of the host.
    fn needs(&self, variant: Variant) -> Needs;

    /// Why it cannot be done here at all, beside what the needs say: a program that is missing.
    fn refusal(&self) -> Option<String> {
        None
    }

    /// What it changes on the host by itself, for the plan.
    fn changes(&self) -> Vec<String> {
        Vec::new()
    }

    /// What is done once, before the first variant.
    ///
    /// # Errors
    /// Where the experiment cannot begin.
    fn prepare(&mut self, _context: &Context<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Measures one variant once. The pool holds what [`Needs::huge`] asked for.
    ///
    /// # Errors
    /// Why there are no readings.
    fn measure(&mut self, variant: Variant, context: &Context<'_>) -> Result<Vec<Reading>, Failure>;

    /// What a reader of the results has to know; asked at the end.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How often, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Rounds that count. Each measures every variant once.
    pub rounds: u32,
    /// Rounds before them that do not count.
    pub warm_ups: u32,
    /// The order of the variants within each round follows from it.
    pub seed: u64,
    /// Memory that must stay free; the host's own floor where it is higher.
    pub floor: Bytes,
}

impl Default for Options {
    fn default() -> Self {
        Self { rounds: 3, warm_ups: 1, seed: 1, floor: Bytes::ZERO }
    }
}

/// Where an experiment stands.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The variant that is measured now.
    pub pages: Variant,
    /// The round, from 1; warm-up rounds are counted apart.
    pub round: u32,
    /// Of so many.
    pub rounds: u32,
    /// Whether this round does not count.
    pub warm_up: bool,
    /// Measurements done so far,
    pub done: u32,
    /// of so many.
    pub of: u32,
    /// Time since the start.
    pub elapsed: Duration,
    /// Time that is left, guessed from what the measurements took so far.
    pub left: Duration,
}

/// What an experiment found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// What it planned to do.
    pub plan: Outline,
    /// One for each variant and metric.
    pub runs: Vec<Run>,
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

/// Does what `plan` says.
///
/// # Errors
/// The plan's refusal; a guard that cannot be had; an experiment that cannot begin. What goes wrong later is in the
/// outcome, beside what was measured before.
pub fn run(
    experiment: &mut dyn Experiment,
    options: &Options,
    plan: Outline,
    cancel: &Cancel,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Outcome, Failure> {
    if let Some(refusal) = &plan.refusal {
        return Err(Failure::Unavailable(refusal.clone()));
    }
    let guard = if PoolGuard::may_change() { Some(PoolGuard::beside_others()?) } else { None };
    let gauge = Gauge::new();
    let floor = Bytes(plan.floor_bytes);
    let watch = Watch::start(floor, cancel)?;
    let swapped = gauge.counter("pswpout");
    let context = Context { cancel, gauge: &gauge, guard: guard.as_ref(), floor };

    let mut runner = Runner::new(experiment, options, &plan, &context);
    let ended = runner.go(progress);
    let Runner { collector, mut notes, begun, .. } = runner;
    if ended.is_err() && collector.is_empty() && !matches!(ended, Err(Failure::Stopped(_))) {
        ended.clone()?;
    }
    notes.extend(experiment.notes());
    if gauge.counter("pswpout") > swapped {
        notes.push("the host swapped out memory while this ran".to_owned());
    }
    if let Some(guard) = &guard {
        notes.extend(guard.give_back().err().map(|error| error.to_string()));
    }
    let variants: Vec<_> = plan.variants.iter().map(|variant| variant.pages).collect();
    let (runs, ratios) = collector.finish(&variants);
    Ok(Outcome {
        plan,
        runs,
        ratios,
        notes,
        stopped: ended.err().map(|failure| failure.to_string()),
        seconds: begun.elapsed().as_secs_f64(),
        lowest_available_bytes: watch.lowest().map(Bytes::get),
    })
}

#[cfg(test)]
mod tests;
