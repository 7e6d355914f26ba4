//! Frames of a recording: one for each capture, or for each moment with a sample.

use std::path::PathBuf;
use std::sync::Arc;

use hugewise_investigate::{
    Clock, Confidence, Error, HostSetupFacts, Incident, IncidentHistory, InstanceFacts,
    Investigation, Metric, Moment, Options, Series,
};
use hugewise_model::instance::SessionModel;
use hugewise_model::{Bytes, Finding, HugePageUse, Level, PageCount, PageSize};
use hugewise_serve::HostReading;
use hugewise_serve::watch::{Frame, Gauges, InstanceRow, PoolRow, Recorder};

use crate::outcome::{self, CommandFailure};
use crate::terminal;

pub(super) fn read_frames(
    paths: &[PathBuf],
    host: Option<&str>,
    options: &Options,
) -> Result<Vec<Frame>, CommandFailure> {
    let investigation = hugewise_investigate::investigate(paths, options, &terminal::show_reading);
    terminal::clear_progress();
    match investigation {
        Ok(investigation) if investigation.hosts.iter().any(has_samples) => {
            of_archives(&investigation, host)
        }
        // No samples: captures, then, or an error that says what is wrong.
        Ok(_) => frames_from_captures(paths, host),
        Err(error @ Error::NotFound(..)) => Err(CommandFailure::new(error)),
        Err(error) => frames_from_captures(paths, host).map_err(|failure| {
            CommandFailure::new(format!("{error}; and as a capture: {}", failure.message()))
        }),
    }
}

fn has_samples(history: &IncidentHistory) -> bool {
    history.series.iter().any(|series| !series.samples().is_empty())
}

fn frames_from_captures(
    paths: &[PathBuf],
    host: Option<&str>,
) -> Result<Vec<Frame>, CommandFailure> {
    let mut readings = Vec::new();
    for (number, path) in (1..).zip(paths) {
        readings.push(HostReading::from_source(outcome::open_source(Some(path))?.as_ref(), number));
    }
    let name = |reading: &HostReading| reading.host.name.as_known().cloned();
    let names: Vec<Option<String>> = readings.iter().map(name).collect();
    let meant = the_one(&names, host)?;
    readings.retain(|reading| name(reading) == meant);
    readings.sort_by_key(|reading| reading.host.read_at.get());
    let mut recorder = Recorder::default();
    Ok(readings.iter().map(|reading| recorder.next_frame(reading)).collect())
}

fn of_archives(
    investigation: &Investigation,
    host: Option<&str>,
) -> Result<Vec<Frame>, CommandFailure> {
    let told: Vec<&IncidentHistory> =
        investigation.hosts.iter().filter(|history| has_samples(history)).collect();
    let names: Vec<Option<String>> = told.iter().map(|history| history.host.clone()).collect();
    // A name may omit its domain.
    let meant =
        host.and_then(|host| told.iter().find(|history| history.is_named(host))?.host.as_deref());
    let meant = the_one(&names, meant.or(host))?;
    // Samples of one host by two irreconcilable clocks are two histories: the longer one counts.
    let samples = |history: &&&IncidentHistory| {
        history.series.iter().map(|series| series.samples().len()).sum::<usize>()
    };
    let history = told.iter().filter(|history| history.host == meant).max_by_key(samples);
    Ok(history.map(|history| ReplayedArchive::new(history).into_frames()).unwrap_or_default())
}

fn the_one(
    names: &[Option<String>],
    wanted: Option<&str>,
) -> Result<Option<String>, CommandFailure> {
    let mut names: Vec<&Option<String>> = names.iter().collect();
    names.sort();
    names.dedup();
    let shown = || {
        let all: Vec<&str> =
            names.iter().map(|name| name.as_deref().unwrap_or("one without a name")).collect();
        all.join(", ")
    };
    match (wanted, names.as_slice()) {
        (None, [only]) => Ok((*only).clone()),
        (None, _) => Err(CommandFailure::new(format!(
            "the recording has several hosts ({}): choose one with --host",
            shown()
        ))),
        (Some(wanted), all) => match all.iter().find(|name| name.as_deref() == Some(wanted)) {
            Some(name) => Ok((*name).clone()),
            None => {
                Err(CommandFailure::new(format!("no host is named {wanted}; found {}", shown())))
            }
        },
    }
}

/// A sample holds until its collector's next one, for so many of its intervals at most.
const HOLDS: i64 = 2;
/// The same in milliseconds for samples without an interval.
const HOLDS_WITHOUT: i64 = 600_000;

struct ReplayedArchive<'a> {
    history: &'a IncidentHistory,
    host: String,
    about: String,
    instances: Option<Vec<InstanceRow>>,
    /// With their beginnings and ends.
    findings: Vec<(Moment, Moment, Finding)>,
    page: PageSize,
    /// The row of each series that holds.
    rows: Vec<Option<usize>>,
}

impl<'a> ReplayedArchive<'a> {
    fn new(history: &'a IncidentHistory) -> Self {
        let facts = history.facts.as_ref();
        let last =
            |text_of: fn(&Series) -> Option<&str>| history.series.iter().rev().find_map(text_of);
        let kernel = last(|series| series.kernel.as_deref()).or_else(|| facts?.kernel.as_deref());
        let mut about: Vec<String> =
            kernel.map(|kernel| format!("Linux {kernel}")).into_iter().collect();
        about.extend(last(|series| series.architecture.as_deref()).map(str::to_owned));
        let mut formats: Vec<&str> =
            history.series.iter().map(|series| series.format.as_str()).collect();
        formats.sort_unstable();
        formats.dedup();
        about.push(format!("({})", formats.join(", ")));
        let page = history.series.iter().find_map(|series| PageSize::new(series.huge_page?.get()));
        Self {
            history,
            host: history.host.clone().unwrap_or_else(|| "a host without a name".into()),
            about: about.join(" "),
            instances: facts.and_then(|facts| instance_rows(facts, &history.clock)),
            findings: history
                .incidents
                .iter()
                .map(|incident| of_incident(incident, &history.clock))
                .collect(),
            page: page.or_else(|| facts?.huge_page).unwrap_or(PageSize::MIB_2),
            rows: vec![None; history.series.len()],
        }
    }

    fn into_frames(mut self) -> Vec<Frame> {
        let mut moments: Vec<(Moment, usize, usize)> = Vec::new();
        for (number, series) in self.history.series.iter().enumerate() {
            moments.extend(
                series.samples().iter().enumerate().map(|(row, sample)| (sample.at, number, row)),
            );
        }
        moments.sort_unstable();
        let mut frames = Vec::new();
        for same in moments.chunk_by(|one, other| one.0 == other.0) {
            for (_, number, row) in same {
                if let Some(place) = self.rows.get_mut(*number) {
                    *place = Some(*row);
                }
            }
            if let Some((at, ..)) = same.first() {
                frames.push(self.frame_at(*at));
            }
        }
        frames
    }

    fn frame_at(&self, at: Moment) -> Frame {
        let of_then = |(from, to, _): &&(Moment, Moment, Finding)| (*from..=*to).contains(&at);
        Frame {
            host: self.host.clone(),
            about: self.about.clone(),
            at: self.history.clock.format(at),
            gauges: self.gauges_at(at),
            pools: self.pool_at(at).map(|pool| vec![pool]),
            instances: self.instances.clone(),
            findings: self
                .findings
                .iter()
                .filter(of_then)
                .map(|(_, _, finding)| finding.clone())
                .collect(),
            unknown: self.history.unknown.first().cloned().unwrap_or_default(),
        }
    }

    fn gauges_at(&self, at: Moment) -> Gauges {
        let value = |metric| self.value_at(metric, at);
        let available = value(Metric::MemAvailable);
        Gauges {
            kernel_cpu: value(Metric::CpuSystem).map(|percent| percent / 100.0),
            page_tables: value(Metric::PageTables),
            available,
            free: value(Metric::MemFree).filter(|_| available.is_none()),
            swap: value(Metric::SwapUsed),
            sessions: value(Metric::Sessions),
            memory: value(Metric::MemTotal),
        }
    }

    /// The pool of the default size, the only one that collectors record.
    fn pool_at(&self, at: Moment) -> Option<PoolRow> {
        let total = self.value_at(Metric::HugeTotal, at)?;
        let free = self.value_at(Metric::HugeFree, at);
        // Older collectors lack HugePages_Rsvd and count only pages in use.
        let reserved = self.value_at(Metric::HugeReserved, at).unwrap_or(0.0);
        let pages = |bytes: f64| pages_from_bytes(bytes, self.page);
        Some(PoolRow {
            page: self.page,
            total: Some(pages(total)),
            committed: free.map(|free| pages(total - free + reserved)),
            available: free.map(|free| pages(free - reserved)),
        })
    }

    /// From the first series that has it.
    fn value_at(&self, metric: Metric, at: Moment) -> Option<f64> {
        let of_series = |(series, row): (&Series, &Option<usize>)| {
            let row = (*row)?;
            let sample = series.samples().get(row)?;
            let interval =
                sample.interval.and_then(|interval| i64::try_from(interval.as_millis()).ok());
            let holds = interval.map_or(HOLDS_WITHOUT, |interval| interval.saturating_mul(HOLDS));
            (at.0.saturating_sub(sample.at.0) <= holds).then(|| series.value(metric, row)).flatten()
        };
        self.history.series.iter().zip(&self.rows).find_map(of_series)
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "memory in pages"
)]
fn pages_from_bytes(bytes: f64, page: PageSize) -> PageCount {
    PageCount((bytes.max(0.0) / u64::from(page) as f64).round() as u64)
}

fn instance_rows(facts: &HostSetupFacts, clock: &Clock) -> Option<Vec<InstanceRow>> {
    let then = facts.at.map(|at| clock.format(at));
    let row = |instance: &InstanceFacts| InstanceRow {
        id: None,
        title: instance.title(),
        facts: then.iter().map(|then| ("captured", then.clone())).collect(),
        sessions: instance.sessions,
        session_model: if instance.processes {
            SessionModel::Processes
        } else {
            SessionModel::Threads
        },
        segments: instance.segments,
        huge: instance.huge,
        huge_pages: match (instance.huge, instance.segments) {
            (_, Bytes::ZERO) => HugePageUse::Unknown,
            (Bytes::ZERO, _) => HugePageUse::None,
            (huge, segments) if huge < segments => HugePageUse::Partly,
            _ => HugePageUse::All,
        },
        page_tables: instance.page_tables,
        chain: None::<Arc<_>>,
    };
    facts.instances.as_ref().map(|instances| instances.iter().map(row).collect())
}

fn of_incident(incident: &Incident, clock: &Clock) -> (Moment, Moment, Finding) {
    let rows = incident.signatures.iter().flat_map(|signature| &signature.evidence);
    let finding = Finding {
        code: hugewise_model::RuleId::new(""),
        name: incident.verdict.name(),
        level: if incident.confidence == Confidence::High { Level::Error } else { Level::Warn },
        instance: None,
        summary: incident.summary.clone(),
        short: incident.summary.clone(),
        evidence: rows
            .map(|row| format!("{}  {}  ({})", clock.format(row.at), row.what, row.source))
            .collect(),
        cost: None,
        remedies: Vec::new(),
        fix: incident.next.clone(),
    };
    (incident.from, incident.to, finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> PathBuf {
        [env!("CARGO_MANIFEST_DIR"), "../../fixtures", name].iter().collect()
    }

    fn of(names: &[&str], host: Option<&str>) -> Result<Vec<Frame>, CommandFailure> {
        let paths: Vec<PathBuf> = names.iter().map(|name| fixture(name)).collect();
        read_frames(&paths, host, &Options::default())
    }

    #[test]
    fn an_archive_becomes_a_frame_a_sample_with_its_incidents_at_their_time() {
        let frames = of(&["collectors/two-freezes.sar"], None).unwrap();
        // The figures of the file: 23 samples, freezes that end at 09:02 and at 10:41.
        assert_eq!(frames.len(), 23);
        let first = &frames[0];
        assert_eq!((first.host.as_str(), first.at.as_str()), ("db7", "2026-11-21T07:40:01"));
        assert!(first.findings.is_empty() && first.instances.is_none());
        let wrong: Vec<&str> = frames
            .iter()
            .filter(|frame| !frame.findings.is_empty())
            .map(|frame| frame.at.as_str())
            .collect();
        assert!(wrong.iter().any(|at| at.starts_with("2026-11-21T08:3")), "{wrong:?}");
        assert!(wrong.iter().any(|at| at.starts_with("2026-11-21T10:4")), "{wrong:?}");
        assert!(wrong.len() < 12, "{wrong:?}");
        let most = frames.iter().filter_map(|frame| frame.gauges.kernel_cpu).fold(0.0, f64::max);
        assert!((most - 0.692).abs() < 0.001, "{most}");
    }

    #[test]
    fn nothing_that_can_be_read_is_told_with_its_reasons() {
        let failure = of(&["../Cargo.toml"], None).unwrap_err();
        assert!(failure.message().contains("Cargo.toml"), "{}", failure.message());
        let failure = of(&["collectors/two-freezes.sar"], Some("db8")).unwrap_err();
        assert_eq!(failure.message(), "no host is named db8; found db7");
    }

    #[test]
    fn one_host_is_meant() {
        let names =
            |names: &[&str]| names.iter().map(|name| Some((*name).to_owned())).collect::<Vec<_>>();
        assert_eq!(the_one(&names(&["a", "a"]), None).unwrap(), Some("a".into()));
        assert_eq!(the_one(&[None], None).unwrap(), None);
        assert_eq!(the_one(&names(&["a", "b"]), Some("b")).unwrap(), Some("b".into()));
        assert!(the_one(&names(&["a", "b"]), None).unwrap_err().message().contains("a, b"));
    }

    #[test]
    fn a_pool_is_reckoned_in_pages() {
        assert_eq!(pages_from_bytes(6.0 * 1_073_741_824.0, PageSize::MIB_2), PageCount(3072));
        assert_eq!(pages_from_bytes(-5.0, PageSize::MIB_2), PageCount(0));
    }
}
