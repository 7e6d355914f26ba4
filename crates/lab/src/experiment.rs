//! What all experiments have in common: a plan that is stated before anything happens, variants in random order
//! within each round, warm-up, raw samples, progress, an end at any moment, and a host that is left as it was.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use hugewise_model::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::budget::{Gauge, Room, Watch};
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

/// One variant in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    /// The pages.
    pub pages: Variant,
    /// Memory beside the pool.
    pub memory_bytes: u64,
    /// Memory on pages of the pool.
    pub pool_bytes: u64,
    /// Processes at once.
    pub processes: u32,
    /// Why this variant is left out.
    pub left_out: Option<String>,
}

/// What an experiment is going to do and to take, stated before it begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The experiment.
    pub experiment: String,
    /// What runs it.
    pub engine: String,
    /// Its variants; the others are compared with the first.
    pub variants: Vec<Planned>,
    /// Rounds that count.
    pub rounds: u32,
    /// Rounds before them that do not.
    pub warm_ups: u32,
    /// The order of the variants follows from it.
    pub seed: u64,
    /// Estimated time in seconds.
    pub seconds: f64,
    /// The most memory that any variant takes, pool included.
    pub peak_bytes: u64,
    /// Memory that was available when the plan was made.
    pub available_bytes: u64,
    /// Memory that stays free.
    pub floor_bytes: u64,
    /// What of the host changes while it runs, and is put back.
    pub changes: Vec<String>,
    /// Why it will not be done.
    pub refusal: Option<String>,
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

/// States what `experiment` will do, and refuses where the host has no room for it.
///
/// # Errors
/// Where the kernel does not say how much room there is.
pub fn plan(experiment: &dyn Experiment, options: &Options, gauge: &Gauge) -> Result<Plan, Failure> {
    let room = gauge.read()?;
    let floor = room.floor().max(options.floor);
    let may_change = PoolGuard::may_change();
    let mut variants = Vec::new();
    let (mut peak, mut time, mut refusal) = (Bytes::ZERO, Duration::ZERO, experiment.refusal());
    let mut changes = experiment.changes();
    for pages in experiment.variants() {
        let needs = experiment.needs(pages);
        let left_out = unavailable(pages, &needs, may_change);
        if left_out.is_none() {
            let (growth, switches) = (growth(pages, &needs), switches(pages, needs.obeys));
            let takes = needs.memory + growth;
            peak = peak.max(takes);
            time += needs.time;
            refusal = refusal.or_else(|| too_large(pages, takes, needs.processes, &room, floor));
            if growth > Bytes::ZERO {
                changes.push(format!("{pages}: grows the pool by {growth}"));
            }
            changes.extend(switches.into_iter().map(|(path, value)| format!("{pages}: {path} = {value}")));
        }
        variants.push(Planned {
            pages,
            memory_bytes: needs.memory.get(),
            pool_bytes: needs.huge.get(),
            processes: needs.processes,
            left_out,
        });
    }
    let free = gauge.free().unwrap_or_default().saturating_sub(floor);
    if peak > free {
        changes.insert(0, format!("page cache of up to {} makes room", peak.saturating_sub(free)));
    }
    if refusal.is_none() && variants.iter().all(|variant| variant.left_out.is_some()) {
        refusal = Some("none of the variants can be had here".to_owned());
    }
    Ok(Plan {
        experiment: experiment.name().to_owned(),
        engine: experiment.engine().to_owned(),
        variants,
        rounds: options.rounds,
        warm_ups: options.warm_ups,
        seed: options.seed,
        seconds: time.as_secs_f64() * f64::from(options.rounds.saturating_add(options.warm_ups)),
        peak_bytes: peak.get(),
        available_bytes: room.available.get(),
        floor_bytes: floor.get(),
        changes,
        refusal,
    })
}

/// Why a variant cannot be had, as far as can be told without asking the kernel for the pages.
fn unavailable(pages: Variant, needs: &Needs, may_change: bool) -> Option<String> {
    if let Some(page) = pages.pool() {
        let Some(available) = crate::guard::available(page) else {
            return Some(format!("this kernel offers no pages of {page}"));
        };
        let wanted = page.pages_for(needs.huge);
        if available < wanted && !may_change {
            return Some(format!("{wanted} pages of {page} are wanted, {available} available: run as root"));
        }
        return None;
    }
    if !pages.is_transparent() {
        return None;
    }
    match switches(pages, needs.obeys) {
        changes if changes.is_empty() => None,
        _ if !thp::offers(pages, needs.obeys) => Some("this kernel offers no such transparent pages".to_owned()),
        _ if !may_change => Some("this host's settings of transparent huge pages keep it away: run as root".to_owned()),
        _ => None,
    }
}

/// What the pool lacks of the pages that a variant wants.
fn growth(pages: Variant, needs: &Needs) -> Bytes {
    pages.pool().map_or(Bytes::ZERO, |page| {
        let wanted = page.pages_for(needs.huge);
        wanted.saturating_sub(crate::guard::available(page).unwrap_or_default()).of(page)
    })
}

/// The switches that a variant needs turned, with the values they need.
fn switches(pages: Variant, obeys: thp::Memory) -> Vec<(String, &'static str)> {
    if pages.is_transparent() { thp::wanted(pages, obeys) } else { Vec::new() }
}

fn too_large(pages: Variant, takes: Bytes, processes: u32, room: &Room, floor: Bytes) -> Option<String> {
    if takes > room.available.saturating_sub(floor) {
        let available = room.available;
        return Some(format!("{pages} takes {takes}: {available} are available, of which {floor} stay free"));
    }
    let allowed = room.processes?;
    let processes = u64::from(processes);
    (processes > allowed).then(|| format!("{pages} takes {processes} processes: this cgroup allows {allowed} more"))
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

/// The variants in an order that follows from the seed and the round alone (Fisher and Yates).
pub fn shuffled(variants: &[Variant], seed: u64, round: u32) -> Vec<Variant> {
    let mut order = variants.to_vec();
    let mut random = Random::new(seed ^ u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at + 1));
    }
    order
}

/// A small generator of random numbers for orders of things, the same on every machine (SplitMix64). No secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is above zero. The bias is far below anything that matters here.
    pub fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.next()) * u128::try_from(end).unwrap_or(1);
        usize::try_from(wide >> 64).unwrap_or(0)
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

    #[test]
    fn the_order_follows_from_the_seed_and_every_order_comes() {
        let variants = [Variant::Base, Variant::Thp, Variant::MIB_2];
        assert_eq!(shuffled(&variants, 7, 3), shuffled(&variants, 7, 3));
        let mut orders: Vec<_> = (0..200).map(|round| shuffled(&variants, 7, round)).collect();
        orders.sort();
        orders.dedup();
        assert_eq!(orders.len(), 6);
    }
}
