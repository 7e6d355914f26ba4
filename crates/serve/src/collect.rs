//! One reading of the host for everybody who wants one.
//!
//! However many ask at once, the host is read by one of them, and at most once in a [`LEAST_AGE`]: the others
//! wait for it and share what it found. A reading costs what `hugewise check` costs, and no `smaps`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hugewise_advice::sizing::{self, Request, SizeError, Sizing};
use hugewise_advice::target::Wish;
use hugewise_advice::{Assessment, target};
use hugewise_host::config::Files;
use hugewise_host::kernel::stat::{self, Stat};
use hugewise_host::process::Earlier;
use hugewise_host::source::Live;
use hugewise_host::{Door, Source};
use hugewise_model::{Host, Instance, Observed, Unread};
use hugewise_report::json::history::Point;
use hugewise_report::openmetrics::{CollectorRun, CpuSeconds, Metered};
use hugewise_report::{Checked, SizeReport};

use crate::history::{History, Span};

/// No two readings are nearer than this.
pub const LEAST_AGE: Duration = Duration::from_secs(1);

/// From an older reading nothing is taken: as every process has its turn in one of [`Earlier::TURNS`] readings, no sum of
/// memory gets older than some six minutes, no limit or cgroup older than some twenty, and nothing that a process changes
/// itself older than a reading.
const RECENT: Duration = Duration::from_secs(20);

/// A host at one moment, with everything that is said of it.
#[derive(Debug)]
pub struct Reading {
    /// From 1.
    pub number: u64,
    /// When it was whole.
    pub taken: Instant,
    /// The host.
    pub host: Host,
    /// Its instances, sorted by engine and name.
    pub instances: Vec<Instance>,
    /// What is said of them.
    pub assessment: Assessment,
    /// How many pages they need, by each server's own settings; why there is no answer, where there is none.
    pub sizing: Result<Sizing, SizeError>,
    /// What the processors have done since the boot.
    pub stat: Observed<Stat>,
    /// Everything that is there and could not be read, sorted.
    pub unread: Vec<Unread>,
    /// What each part of the reading took.
    pub collectors: Vec<CollectorRun>,
}

impl Reading {
    /// Reads the host behind a source, now.
    pub fn of(source: &dyn Source, number: u64) -> Self {
        Self::after(None, &Files::default(), source, number)
    }

    /// The same, and takes from the reading before what cannot have changed, unless that is old.
    fn after(before: Option<&Self>, files: &Files, source: &dyn Source, number: u64) -> Self {
        let mut clock = Clock::default();
        let before = before.filter(|before| before.taken.elapsed() <= RECENT);
        let earlier = Earlier { files: Some(files), ..Earlier::of(before.map(|before| &before.host), number) };
        let host = clock.time("host", || hugewise_host::read_after(source, Some(earlier)), |host| host.unread.len());
        let mut found = clock.time(
            "engines",
            || hugewise_engines::find_after(&host, source, Some(files)),
            |found| found.unread.len(),
        );
        let assessment =
            clock.time("rules", || hugewise_advice::assess(&host, &found.instances), |it| it.unknown.len());
        let sizing = clock.time(
            "sizing",
            || sizing::size(&host, &planned_for(&host, &found.instances, &assessment), &Request::default()),
            |sizing| usize::from(sizing.as_ref().is_err_and(|error| *error != SizeError::NothingToSize)),
        );
        let mut door = Door::new(source);
        let stat = clock.time("cpu", || door.parse(stat::PATH, stat::parse), |stat| usize::from(unreadable(stat)));
        let mut unread = host.unread.clone();
        unread.append(&mut found.unread);
        unread.append(&mut door.unread);
        unread.sort();
        unread.dedup();
        let (taken, collectors) = (Instant::now(), clock.0);
        Self { number, taken, host, instances: found.instances, assessment, sizing, stat, unread, collectors }
    }

    /// As the reports of `check` take it.
    pub fn checked(&self) -> Checked<'_> {
        let Self { host, instances, assessment, unread, .. } = self;
        Checked { host, instances, assessment, unread, root: None }
    }

    /// As the exporter takes it.
    pub fn metered(&self) -> Metered<'_> {
        let cpu = self.stat.get().and_then(|stat| cpu_seconds(&stat, rustix::param::clock_ticks_per_second()));
        let version = env!("CARGO_PKG_VERSION");
        Metered { checked: self.checked(), collectors: &self.collectors, readings: self.number, cpu, version }
    }

    /// What if: sizes the instances of this reading by another request, and shows the answer.
    ///
    /// # Errors
    /// Where the question has no answer.
    pub fn size<T>(&self, request: &Request, show: impl FnOnce(&SizeReport<'_>) -> T) -> Result<T, SizeError> {
        let Self { host, instances, assessment, unread, .. } = self;
        let sizing = sizing::size(host, &planned_for(host, instances, assessment), request)?;
        let (planned, shrunk) = match request.memory {
            None => {
                let shrink = Wish { shrink: true, ..Wish::default() };
                let shrunk = target::target(host, instances, assessment, shrink, request)?;
                (target::goals(host, instances, assessment, &sizing), shrunk.pools)
            }
            Some(_) => (Vec::new(), Vec::new()),
        };
        let budget = if planned.is_empty() { sizing.budget.clone() } else { sizing.budget.with_goals(&planned) };
        let sizing = Sizing { budget, ..sizing };
        let (sizing, planned, shrunk) = (&sizing, planned.as_slice(), shrunk.as_slice());
        Ok(show(&SizeReport { host, instances, request, sizing, planned, shrunk, unread }))
    }
}

/// The instances that `hugewise size` sizes.
fn planned_for(host: &Host, instances: &[Instance], assessment: &Assessment) -> Vec<Instance> {
    let mut planned = instances.to_vec();
    target::planned_for(host, &mut planned, assessment);
    planned
}

fn unreadable<T>(fact: &Observed<T>) -> bool {
    !fact.is_known() && !fact.is_absent()
}

#[allow(clippy::cast_precision_loss, reason = "2^52 ticks are a million years of one processor")]
fn cpu_seconds(stat: &Stat, ticks_a_second: u64) -> Option<CpuSeconds> {
    let seconds = |ticks: u64| (ticks_a_second > 0).then(|| ticks as f64 / ticks_a_second as f64);
    let user = stat.all.saturating_sub(stat.system).saturating_sub(stat.idle);
    Some(CpuSeconds { kernel: seconds(stat.system)?, idle: seconds(stat.idle)?, user: seconds(user)? })
}

/// What each part took.
#[derive(Default)]
struct Clock(Vec<CollectorRun>);

impl Clock {
    fn time<T>(&mut self, name: &'static str, work: impl FnOnce() -> T, errors: impl FnOnce(&T) -> usize) -> T {
        let begun = Instant::now();
        let made = work();
        let took = begun.elapsed();
        let errors = u64::try_from(errors(&made)).unwrap_or(u64::MAX);
        self.0.push(CollectorRun { name, took, errors });
        made
    }
}

/// Where facts come from: opened anew for each reading.
type Open = Box<dyn Fn() -> Box<dyn Source> + Send + Sync>;

/// Who is told of each reading, and of the point in the history that it became, if it did.
type Listener = Box<dyn Fn(&Arc<Reading>, Option<&Arc<Point>>) + Send + Sync>;

/// Reads a host for everybody.
pub struct Collector {
    open: Open,
    listeners: Vec<Listener>,
    /// Held while the host is read.
    turn: Mutex<Turn>,
    kept: Mutex<Kept>,
}

/// What each reading takes from those before it.
#[derive(Default)]
struct Turn {
    /// How many there have been.
    count: u64,
    files: Files,
}

struct Kept {
    latest: Option<Arc<Reading>>,
    history: History,
}

impl Collector {
    /// Of the running machine.
    pub fn live(span: Span) -> Self {
        Self::new(|| Box::new(Live::new()), span)
    }

    /// Of whatever a source shows; it is opened anew for each reading.
    pub fn new(open: impl Fn() -> Box<dyn Source> + Send + Sync + 'static, span: Span) -> Self {
        let kept = Mutex::new(Kept { latest: None, history: History::new(span) });
        Self { open: Box::new(open), listeners: Vec::new(), turn: Mutex::default(), kept }
    }

    /// Tells somebody of each reading, in the thread that has made it.
    #[must_use]
    pub fn telling(mut self, listener: impl Fn(&Arc<Reading>, Option<&Arc<Point>>) + Send + Sync + 'static) -> Self {
        self.listeners.push(Box::new(listener));
        self
    }

    /// The last reading, however old; none before the first.
    pub fn latest(&self) -> Option<Arc<Reading>> {
        self.kept().latest.clone()
    }

    /// A reading no older than that, or than [`LEAST_AGE`] where that is more, at the moment of the call. Reads
    /// the host where there is none, which takes as long as `hugewise check`; of several callers one reads, and
    /// the others wait.
    pub fn no_older_than(&self, age: Duration) -> Arc<Reading> {
        self.since(Instant::now(), age)
    }

    /// The same for somebody who asked at that moment and has waited since: what was read meanwhile is for
    /// them too, however long they waited.
    pub fn since(&self, asked: Instant, age: Duration) -> Arc<Reading> {
        if let Some(reading) = self.fresh(asked, age) {
            return reading;
        }
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have read it while this one waited for its turn.
        if let Some(reading) = self.fresh(asked, age) {
            return reading;
        }
        let number = turn.count.saturating_add(1);
        let before = self.latest();
        let reading = Arc::new(Reading::after(before.as_deref(), &turn.files, (self.open)().as_ref(), number));
        drop(before);
        turn.count = number;
        let point = {
            let mut kept = self.kept();
            kept.latest = Some(Arc::clone(&reading));
            kept.history.add(&reading)
        };
        for listener in &self.listeners {
            listener(&reading, point.as_ref());
        }
        reading
    }

    /// The points of the last hours, oldest first.
    pub fn history(&self) -> Vec<Arc<Point>> {
        self.kept().history.points()
    }

    /// How far back the history goes.
    pub fn span(&self) -> Span {
        self.kept().history.span()
    }

    /// The last reading, where it was no older than that, or than [`LEAST_AGE`], at that moment.
    pub fn fresh(&self, asked: Instant, age: Duration) -> Option<Arc<Reading>> {
        let age = age.max(LEAST_AGE);
        self.latest().filter(|reading| asked.saturating_duration_since(reading.taken) < age)
    }

    /// A reader that panicked has left what was kept before it.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hugewise_host::source::MapSource;

    use super::*;
    use crate::testing;

    #[test]
    fn a_hundred_callers_at_once_share_one_reading() {
        let opened = Arc::new(AtomicUsize::new(0));
        let told = Arc::new(AtomicUsize::new(0));
        let (counter, ear) = (Arc::clone(&opened), Arc::clone(&told));
        let collector = Collector::new(
            move || {
                counter.fetch_add(1, Ordering::SeqCst);
                Box::new(testing::source())
            },
            Span::default(),
        )
        .telling(move |_, _| {
            ear.fetch_add(1, Ordering::SeqCst);
        });
        assert!(collector.latest().is_none());
        // An hour: no machine is so slow that the first reading gets old meanwhile.
        let age = Duration::from_secs(3600);
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| assert_eq!(collector.no_older_than(age).number, 1));
            }
        });
        assert_eq!((opened.load(Ordering::SeqCst), told.load(Ordering::SeqCst)), (1, 1));
        assert_eq!(collector.history().len(), 1);
    }

    #[test]
    fn an_old_reading_is_made_anew() {
        let collector = Collector::new(|| Box::new(testing::source()), Span::default());
        let first = collector.no_older_than(Duration::ZERO);
        while first.taken.elapsed() < LEAST_AGE {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(collector.no_older_than(Duration::ZERO).number, 2);
        assert_eq!(collector.history().len(), 1, "the second is too near for a point of its own");
    }

    #[test]
    fn what_was_read_while_somebody_waited_is_for_them_too() {
        let collector = Collector::new(|| Box::new(testing::source()), Span::default());
        let asked = Instant::now();
        assert_eq!(collector.since(asked, Duration::ZERO).number, 1);
        // As old as a queue of slow callers makes it.
        while asked.elapsed() < LEAST_AGE + Duration::from_millis(100) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(collector.since(asked, Duration::ZERO).number, 1);
        assert!(collector.fresh(asked + LEAST_AGE * 1000, Duration::ZERO).is_none());
    }

    #[test]
    fn a_reader_that_panics_takes_nobody_with_it() {
        let calls = AtomicUsize::new(0);
        let collector = Collector::new(
            move || {
                assert!(calls.fetch_add(1, Ordering::SeqCst) > 0, "the first reading goes wrong");
                Box::new(testing::source())
            },
            Span::default(),
        );
        let age = Duration::from_secs(3600);
        std::thread::scope(|scope| assert!(scope.spawn(|| collector.no_older_than(age)).join().is_err()));
        assert_eq!(collector.no_older_than(age).number, 1);
    }

    #[test]
    fn a_reading_tells_what_each_part_took_and_could_not_read() {
        let source = MapSource::new().file("/proc/meminfo", "MemTotal: many kB\n").file("/proc/stat", "cpu x\n");
        let reading = Reading::of(&source, 1);
        let names: Vec<&str> = reading.collectors.iter().map(|run| run.name).collect();
        assert_eq!(names, ["host", "engines", "rules", "sizing", "cpu"]);
        assert!(reading.collectors[0].errors > 0);
        assert_eq!((reading.collectors[3].errors, &reading.sizing), (0, &Err(SizeError::NothingToSize)));
        assert_eq!(reading.collectors[4].errors, 1);
        assert!(reading.unread.iter().any(|fact| fact.what == "/proc/stat"), "{:?}", reading.unread);
    }

    #[test]
    fn ticks_become_seconds() {
        let stat = Stat { all: 1000, system: 100, idle: 700, running: 1 };
        let seconds = cpu_seconds(&stat, 100).unwrap();
        assert_eq!((seconds.kernel, seconds.idle, seconds.user), (1.0, 7.0, 2.0));
        assert_eq!(cpu_seconds(&stat, 0), None);
    }
}
