//! A host at one moment, with everything that is said of it.

use std::path::Path;
use std::time::{Duration, Instant};

use hugewise_advice::sizing::{self, Request, SizeError, Sizing};
use hugewise_advice::target::Wish;
use hugewise_advice::{Assessment, target};
use hugewise_engines::Files;
use hugewise_host::kernel::stat::{self, Stat};
use hugewise_host::process::Earlier;
use hugewise_host::source::Once;
use hugewise_host::{Door, Source};
use hugewise_model::{Host, Instance, Observed, Unread};
use hugewise_record::Latest;
use hugewise_report::openmetrics::{CollectorRun, CpuSeconds, Metered};
use hugewise_report::{Checked, SizeReport};

use crate::recorder;

/// From an older reading nothing is taken: as every process has its turn in one of [`Earlier::TURNS`] readings, no sum of
/// memory gets older than some ten minutes, no limit or cgroup older than some twenty, and what a process
/// changes of its title, memory, mappings, folder, program and user no older than a reading.
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
    /// The flight recorder's last minute, where one was looked for and is there.
    pub recorder: Option<Latest>,
    /// What each part of the reading took.
    pub collectors: Vec<CollectorRun>,
}

impl Reading {
    /// Reads the host behind a source, now.
    pub fn of(source: &dyn Source, number: u64) -> Self {
        Self::after(None, &Files::default(), source, number)
    }

    /// The same, and takes from the reading before what cannot have changed, unless that is old.
    pub(crate) fn after(before: Option<&Self>, files: &Files, source: &dyn Source, number: u64) -> Self {
        let mut clock = Clock::default();
        let before = before.filter(|before| before.taken.elapsed() <= RECENT);
        let earlier = Earlier { files: Some(&files.host), ..Earlier::of(before.map(|before| &before.host), number) };
        let source = &Once::new(source);
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
        let (instances, recorder) = (found.instances, None);
        Self { number, taken, host, instances, assessment, sizing, stat, unread, recorder, collectors }
    }

    /// The same with what the flight recorder in a folder has seen.
    #[must_use]
    pub(crate) fn beside(self, recorder: &Path) -> Self {
        let mut clock = Clock(self.collectors);
        let found = clock.time("recorder", || recorder::read(recorder), |found| usize::from(found.is_err()));
        if matches!(found, Ok(None)) {
            // No recorder runs here.
            clock.0.pop();
        }
        Self { recorder: found.ok().flatten(), collectors: clock.0, ..self }
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
        let (collectors, recorder) = (&self.collectors, self.recorder.as_ref());
        Metered { checked: self.checked(), collectors, readings: self.number, cpu, recorder, version }
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
        let sizing = if planned.is_empty() { sizing } else { sizing.with_pools(target::memory(&planned)) };
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

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;

    use super::*;

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
