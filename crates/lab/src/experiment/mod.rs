//! What all experiments have in common: a plan that is stated before anything happens, variants in random order
//! within each round, warm-up, raw samples, progress, an end at any moment, and a host that is left as it was.

mod order;
mod plan;

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use hugewise_model::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::order::{Random, shuffled};
pub use self::plan::{Plan, Planned, plan};
use self::plan::{growth, switches};
use crate::budget::{Gauge, Watch};
use crate::cancel::{Cancel, Stopped};
use crate::guard::{PoolGuard, Skip};
use crate::results::{Collector, Ratio, Reading, Run};
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The whole experiment ends here; what was measured stands.
    Stopped(Stopped),
    /// This variant cannot be had on this host now. The others go on without it.
    Unavailable(String),
    /// Something that should work did not.
    Failed(String),
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        Self::Stopped(stopped)
    }
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

impl From<String> for Failure {
    fn from(what: String) -> Self {
        Self::Failed(what)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped(stopped) => stopped.fmt(f),
            Self::Unavailable(what) | Self::Failed(what) => f.pad(what),
        }
    }
}

impl std::error::Error for Failure {}

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
    pub fn room_for(&self, bytes: Bytes) -> Result<(), Failure> {
        let room = self.gauge.read()?;
        if bytes > room.available.saturating_sub(self.floor) {
            let reason = format!("{bytes} wanted, {} available, of which {} stay free", room.available, self.floor);
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
    /// What it set out to do.
    pub plan: Plan,
    /// One for each variant and metric.
    pub runs: Vec<Run>,
    /// Every variant against the first.
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
    plan: Plan,
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

    let mut course = Course::new(experiment, options, &plan, &context);
    let ended = course.go(progress);
    let Course { collector, mut notes, begun, .. } = course;
    if ended.is_err() && collector.is_empty() && !matches!(ended, Err(Failure::Stopped(_))) {
        ended.clone()?;
    }
    notes.extend(experiment.notes());
    if gauge.counter("pswpout") > swapped {
        notes.push("the host wrote pages to swap while this ran".to_owned());
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

/// An experiment on its way.
struct Course<'a> {
    experiment: &'a mut dyn Experiment,
    options: &'a Options,
    context: &'a Context<'a>,
    /// Variants that are still in it.
    variants: Vec<Variant>,
    collector: Collector,
    notes: Vec<String>,
    begun: Instant,
}

impl<'a> Course<'a> {
    fn new(experiment: &'a mut dyn Experiment, options: &'a Options, plan: &Plan, context: &'a Context<'a>) -> Self {
        let (mut variants, mut notes) = (Vec::new(), Vec::new());
        for planned in &plan.variants {
            match &planned.left_out {
                None => variants.push(planned.pages),
                Some(reason) => notes.push(format!("{} is left out: {reason}", planned.pages)),
            }
        }
        Self { experiment, options, context, variants, collector: Collector::default(), notes, begun: Instant::now() }
    }

    fn go(&mut self, progress: &mut dyn FnMut(&Progress)) -> Result<(), Failure> {
        self.experiment.prepare(self.context)?;
        let rounds = self.options.warm_ups.saturating_add(self.options.rounds);
        let mut done = 0;
        for round in 0..rounds {
            let warm_up = round < self.options.warm_ups;
            let order = shuffled(&self.variants, self.options.seed, round);
            for (at, pages) in order.iter().enumerate() {
                self.context.cancel.check()?;
                let in_round = u32::try_from(order.len()).unwrap_or(u32::MAX);
                let of = done + (in_round - u32::try_from(at).unwrap_or(0)) + (rounds - round - 1) * in_round;
                let elapsed = self.begun.elapsed();
                progress(&Progress {
                    pages: *pages,
                    round: if warm_up { round + 1 } else { round + 1 - self.options.warm_ups },
                    rounds: if warm_up { self.options.warm_ups } else { self.options.rounds },
                    warm_up,
                    done,
                    of,
                    elapsed,
                    left: elapsed.checked_div(done).unwrap_or_default() * (of - done),
                });
                self.once(*pages, warm_up)?;
                done += 1;
            }
            if self.variants.is_empty() {
                return Err(Failure::Unavailable(self.notes.join("; ")));
            }
        }
        Ok(())
    }

    fn once(&mut self, pages: Variant, warm_up: bool) -> Result<(), Failure> {
        match self.measured(pages) {
            Ok(readings) if warm_up => drop(readings),
            Ok(readings) => self.collector.add(self.experiment.name(), self.experiment.engine(), pages, readings),
            Err(Failure::Unavailable(reason)) => {
                self.notes.push(format!("{pages} is left out: {reason}"));
                self.variants.retain(|variant| *variant != pages);
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Has the pages ready, measures, and gives them back.
    fn measured(&mut self, pages: Variant) -> Result<Vec<Reading>, Failure> {
        let needs = self.experiment.needs(pages);
        self.context.room_for(needs.memory + growth(pages, &needs))?;
        if let Some(guard) = self.context.guard {
            if let Some(page) = pages.pool() {
                guard.provide(page, page.pages_for(needs.huge))?;
            }
            for (path, value) in switches(pages, needs.obeys) {
                guard.set_switch(&path, value)?;
            }
        }
        let readings = self.experiment.measure(pages, self.context);
        if let Some(guard) = self.context.guard {
            guard.give_back()?;
        }
        // What ended it is the cause of whatever else went wrong thereby.
        match readings {
            Err(Failure::Failed(what)) => {
                Err(self.context.cancel.check().err().map_or(Failure::Failed(what), Into::into))
            }
            readings => readings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts its measurements, and does on each what it is told.
    struct Counting {
        measured: Vec<Variant>,
        needs: Needs,
        does: fn(usize, &Context<'_>) -> Result<Vec<Reading>, Failure>,
    }

    impl Counting {
        fn new(does: fn(usize, &Context<'_>) -> Result<Vec<Reading>, Failure>) -> Self {
            Self { measured: Vec::new(), needs: Needs { time: Duration::from_secs(2), ..Needs::default() }, does }
        }
    }

    impl Experiment for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn engine(&self) -> &'static str {
            "memory"
        }

        fn variants(&self) -> Vec<Variant> {
            vec![Variant::Base, Variant::Huge(hugewise_model::PageSize::new(1 << 40).unwrap())]
        }

        fn needs(&self, _: Variant) -> Needs {
            self.needs
        }

        fn measure(&mut self, variant: Variant, context: &Context<'_>) -> Result<Vec<Reading>, Failure> {
            self.measured.push(variant);
            (self.does)(self.measured.len(), context)
        }
    }

    fn planned(experiment: &dyn Experiment, options: &Options) -> Plan {
        plan(experiment, options, &Gauge::new()).unwrap()
    }

    /// The experiment has the lock of the pools: other tests wait with theirs.
    fn done(experiment: &mut Counting, options: &Options, cancel: &Cancel) -> Result<(Outcome, u32), Failure> {
        let _alone = crate::guard::alone().unwrap();
        let plan = planned(experiment, options);
        let mut reports = 0;
        run(experiment, options, plan, cancel, &mut |_| reports += 1).map(|outcome| (outcome, reports))
    }

    #[test]
    fn warm_up_does_not_count_and_what_cannot_be_had_is_left_out() {
        let mut counting =
            Counting::new(|at, _| Ok(vec![Reading::lower("time", "s", f64::from(u32::try_from(at).unwrap()))]));
        let options = Options { rounds: 3, warm_ups: 2, ..Options::default() };
        let (outcome, reports) = done(&mut counting, &options, &Cancel::never()).unwrap();
        assert_eq!((reports, counting.measured.len()), (5, 5));
        assert_eq!(outcome.runs.len(), 1);
        assert_eq!(outcome.runs[0].samples, [3.0, 4.0, 5.0]);
        assert_eq!(outcome.plan.seconds, 10.0);
        assert_eq!(outcome.stopped, None);
        assert!(outcome.notes[0].contains("left out: this kernel offers no pages of 1024 GiB"), "{:?}", outcome.notes);
    }

    #[test]
    fn an_end_keeps_what_was_measured() {
        let mut counting = Counting::new(|at, context| {
            if at == 2 {
                context.cancel.stop("enough");
            }
            Ok(vec![Reading::lower("time", "s", 1.0)])
        });
        let options = Options { rounds: 9, warm_ups: 0, ..Options::default() };
        let (outcome, _) = done(&mut counting, &options, &Cancel::never()).unwrap();
        assert_eq!((outcome.runs[0].samples.len(), outcome.stopped.as_deref()), (2, Some("enough")));
    }

    #[test]
    fn what_the_host_has_no_room_for_is_refused() {
        let mut counting = Counting::new(|_, _| panic!("measured"));
        counting.needs.memory = Bytes(1 << 62);
        let plan = planned(&counting, &Options::default());
        assert!(plan.refusal.as_ref().is_some_and(|why| why.contains("are available, of which")), "{plan:?}");
        assert!(matches!(done(&mut counting, &Options::default(), &Cancel::never()), Err(Failure::Unavailable(_))));
        // A floor above all memory leaves no room for anything.
        counting.needs.memory = Bytes(1);
        let options = Options { floor: Bytes(u64::MAX), ..Options::default() };
        assert!(planned(&counting, &options).refusal.is_some());
    }

    #[test]
    fn a_failure_is_told_and_what_caused_it_comes_first() {
        let mut failing = Counting::new(|_, _| Err(Failure::Failed("broken".to_owned())));
        let failed = done(&mut failing, &Options::default(), &Cancel::never());
        assert_eq!(failed.unwrap_err(), Failure::Failed("broken".to_owned()));
        let mut failing = Counting::new(|_, context| {
            context.cancel.stop("interrupted");
            Err(Failure::Failed("a session ended".to_owned()))
        });
        let (outcome, _) = done(&mut failing, &Options::default(), &Cancel::never()).unwrap();
        assert_eq!(outcome.stopped.as_deref(), Some("interrupted"));
    }
}
