use std::path::Path;
use std::time::Instant;

use hugewise_diagnose::diagnosis::{DiagnosisStage, EarlierReading};
use hugewise_diagnose::sizing::{self, Request, SizeError, Sizing};
use hugewise_diagnose::target::TargetRequest;
use hugewise_diagnose::{Assessment, Diagnosis, DiagnosisOptions, target};
use hugewise_engines::EngineFileCache;
use hugewise_host::kernel::stat::{self, ProcStat};
use hugewise_host::source::LONGEST_REUSE;
use hugewise_host::{FactReader, Source};
use hugewise_model::{Host, Instance, Observed, Unread};
use hugewise_record::Latest;
use hugewise_report::openmetrics::{CollectorRun, CpuSeconds, Metered};
use hugewise_report::{CheckReport, SizeReport};

use crate::recorder;

/// A host at one moment, with everything that is said of it.
#[derive(Debug)]
pub struct HostReading {
    /// From 1.
    pub(crate) number: u64,
    /// When it was complete.
    pub(crate) taken: Instant,
    /// When every process was last read, not only those that had run.
    pub(crate) all_processes_read: Instant,
    /// The host.
    pub host: Host,
    pub(crate) instances: Vec<Instance>,
    pub(crate) assessment: Assessment,
    /// What its servers need by their own settings, or why that cannot be said.
    pub sizing: Result<Sizing, SizeError>,
    pub(crate) stat: Observed<ProcStat>,
    pub(crate) unread: Vec<Unread>,
    /// The flight recorder's last minute, if there is one.
    pub(crate) recorder: Option<Latest>,
    /// What each part of the reading took.
    pub(crate) collectors: Vec<CollectorRun>,
}

impl HostReading {
    /// Reads the host behind a source, now.
    pub fn from_source(source: &dyn Source, number: u64) -> Self {
        Self::from_source_after(None, &EngineFileCache::default(), source, number)
    }

    /// Reuses processes that have not run since the reading before, for [`LONGEST_REUSE`] at most.
    pub(crate) fn from_source_after(
        before: Option<&Self>,
        files: &EngineFileCache,
        source: &dyn Source,
        number: u64,
    ) -> Self {
        let begun = Instant::now();
        let before = before.filter(|before| before.taken.elapsed() < LONGEST_REUSE);
        let all_processes_read = before
            .map(|before| before.all_processes_read)
            .filter(|all_read| all_read.elapsed() < LONGEST_REUSE);
        let last = before.map(|before| (&before.host, before.instances.as_slice()));
        let reuses_processes = all_processes_read.is_some();
        let earlier = EarlierReading { files, last, reuses_processes };
        let options = DiagnosisOptions { earlier: Some(earlier), ..DiagnosisOptions::default() };
        let Diagnosis { host, instances, assessment, mut unread, stages } =
            Diagnosis::run(source, &options);
        let mut clock = CollectorClock(stages.map(collector_run).to_vec());
        let sizing = clock.time_collector(
            "sizing",
            || {
                let servers = planned_for(&host, &instances, &assessment);
                sizing::size_servers(&host, &servers, &Request::default())
            },
            |sizing| usize::from(!matches!(sizing, Ok(_) | Err(SizeError::NothingToSize))),
        );
        let mut door = FactReader::new(source);
        let stat = clock.time_collector(
            "cpu",
            || door.parse(stat::PATH, stat::parse),
            |stat| usize::from(!stat.is_known() && !stat.is_absent()),
        );
        unread.append(&mut door.unread);
        unread.sort();
        unread.dedup();
        Self {
            number,
            taken: Instant::now(),
            all_processes_read: all_processes_read.unwrap_or(begun),
            host,
            instances,
            assessment,
            sizing,
            stat,
            unread,
            recorder: None,
            collectors: clock.0,
        }
    }

    #[must_use]
    pub(crate) fn with_recorder(self, recorder: &Path) -> Self {
        let mut clock = CollectorClock(self.collectors);
        let found = clock.time_collector(
            "recorder",
            || recorder::read(recorder),
            |found| usize::from(found.is_err()),
        );
        if matches!(found, Ok(None)) {
            // No recorder runs here.
            clock.0.pop();
        }
        Self { recorder: found.ok().flatten(), collectors: clock.0, ..self }
    }

    pub(crate) fn as_checked(&self) -> CheckReport<'_> {
        let Self { host, instances, assessment, unread, .. } = self;
        CheckReport { host, instances, assessment, unread, root: None }
    }

    pub(crate) fn as_metered(&self) -> Metered<'_> {
        let cpu = self
            .stat
            .get()
            .and_then(|stat| cpu_seconds(&stat, rustix::param::clock_ticks_per_second()));
        let version = env!("CARGO_PKG_VERSION");
        let (collectors, recorder) = (&self.collectors, self.recorder.as_ref());
        Metered {
            checked: self.as_checked(),
            collectors,
            readings: self.number,
            cpu,
            recorder,
            version,
        }
    }

    /// Sizes the instances of this reading by another request.
    pub(crate) fn size_instances<T>(
        &self,
        request: &Request,
        show: impl FnOnce(&SizeReport<'_>) -> T,
    ) -> Result<T, SizeError> {
        let Self { host, instances, assessment, unread, .. } = self;
        let sizing =
            sizing::size_found_servers(host, &planned_for(host, instances, assessment), request)?;
        let (planned, shrunk) = match request.memory {
            None if sizing.is_planned() => {
                let shrink = TargetRequest { shrink: true, ..TargetRequest::default() };
                let shrunk = target::find_target(host, instances, assessment, shrink, request)?;
                (target::goals_for_sizing(host, instances, assessment, &sizing), shrunk.pools)
            }
            _ => (Vec::new(), Vec::new()),
        };
        let sizing = if planned.is_empty() {
            sizing
        } else {
            sizing.with_pools(target::sum_goal_memory(&planned))
        };
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

#[allow(clippy::cast_precision_loss, reason = "2^52 ticks are a million years of one processor")]
fn cpu_seconds(stat: &ProcStat, ticks_a_second: u64) -> Option<CpuSeconds> {
    let seconds = |ticks: u64| (ticks_a_second > 0).then(|| ticks as f64 / ticks_a_second as f64);
    let user = stat.all.saturating_sub(stat.system).saturating_sub(stat.idle);
    Some(CpuSeconds {
        kernel: seconds(stat.system)?,
        idle: seconds(stat.idle)?,
        user: seconds(user)?,
    })
}

struct CollectorClock(Vec<CollectorRun>);

impl CollectorClock {
    fn time_collector<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce() -> T,
        errors: impl FnOnce(&T) -> usize,
    ) -> T {
        let begun = Instant::now();
        let made = work();
        let took = begun.elapsed();
        self.0.push(collector_run(DiagnosisStage { name, took, errors: errors(&made) }));
        made
    }
}

fn collector_run(DiagnosisStage { name, took, errors }: DiagnosisStage) -> CollectorRun {
    CollectorRun { name, took, errors: u64::try_from(errors).unwrap_or(u64::MAX) }
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::MapSource;

    use super::*;

    #[test]
    fn a_reading_tells_what_each_part_took_and_could_not_read() {
        let source = MapSource::new()
            .with_file("/proc/meminfo", "MemTotal: many kB\n")
            .with_file("/proc/stat", "cpu x\n");
        let reading = HostReading::from_source(&source, 1);
        let names: Vec<&str> = reading.collectors.iter().map(|run| run.name).collect();
        assert_eq!(names, ["host", "engines", "rules", "sizing", "cpu"]);
        assert!(reading.collectors[0].errors > 0);
        assert_eq!(
            (reading.collectors[3].errors, &reading.sizing),
            (0, &Err(SizeError::NothingToSize))
        );
        assert_eq!(reading.collectors[4].errors, 1);
        assert!(
            reading.unread.iter().any(|fact| fact.what == "/proc/stat"),
            "{:?}",
            reading.unread
        );
    }

    #[test]
    fn ticks_become_seconds() {
        let stat = ProcStat { all: 1000, system: 100, idle: 700, running: 1 };
        let seconds = cpu_seconds(&stat, 100).unwrap();
        assert_eq!((seconds.kernel, seconds.idle, seconds.user), (1.0, 7.0, 2.0));
        assert_eq!(cpu_seconds(&stat, 0), None);
    }
}
