//! What Prometheus scrapes: OpenMetrics 1.0 and the Prometheus text format 0.0.4.
//!
//! Names and units follow the Prometheus conventions. A fact that is not known has no sample: absent is never
//! zero. The number of series is bounded, whatever runs on the host, and nothing here needs `smaps`.

mod families;
mod host;
mod instances;
mod recorder;

#[cfg(test)]
mod tests;

use std::time::Duration;

use hugewise_model::Level;
use hugewise_record::Latest;

use crate::Checked;
use families::{Families, Kind, Labels};

/// Which of the two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The Prometheus text format 0.0.4, which node_exporter's textfile collector reads too.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// What `Content-Type` says of it.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// One part of a reading: how long it took, and what it could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectorRun {
    /// `host`, `engines`, `rules`, `sizing`, `cpu`, `recorder`.
    pub name: &'static str,
    /// How long it took.
    pub took: Duration,
    /// Facts that are there and could not be read, or verdicts that could not be had.
    pub errors: u64,
}

/// Time of all processors together since the host was booted, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuSeconds {
    /// In the kernel: system, interrupts and soft interrupts.
    pub kernel: f64,
    /// Idle, or waiting for a disk.
    pub idle: f64,
    /// Everything else.
    pub user: f64,
}

/// What is exported.
pub struct Metered<'a> {
    /// The host, its instances and what is said of them.
    pub checked: Checked<'a>,
    /// What the reading was made of.
    pub collectors: &'a [CollectorRun],
    /// Readings since the start, this one among them.
    pub readings: u64,
    /// The processors' time, where it is known.
    pub cpu: Option<CpuSeconds>,
    /// The flight recorder's last minute, where one runs here.
    pub recorder: Option<&'a Latest>,
    /// Version of hugewise.
    pub version: &'a str,
}

/// Every metric in that format.
pub fn write(metered: &Metered<'_>, format: Format) -> String {
    let mut out = Families::new(format);
    out.family("hugewise_build_info", Kind::Info, "Version of hugewise.");
    out.sample(&Labels::of([("version", metered.version)]), 1_u64);
    host::write(&mut out, &metered.checked, metered.cpu);
    instances::write(&mut out, &metered.checked);
    verdicts(&mut out, &metered.checked);
    if let Some(latest) = metered.recorder {
        recorder::write(&mut out, latest);
    }
    readings(&mut out, metered);
    out.end()
}

/// Every rule is there, at its own level with zero where it is silent: an alert can see it fall silent.
fn verdicts(out: &mut Families, checked: &Checked<'_>) {
    let assessment = checked.assessment;
    out.family("hugewise_findings", Kind::Gauge, "Findings by rule and level.");
    for rule in hugewise_advice::rules() {
        for level in [Level::Error, Level::Warn, Level::Info] {
            let findings = assessment.findings.iter();
            let count = findings.filter(|finding| finding.code == rule.code && finding.level == level).count();
            if count > 0 || level == rule.level {
                let labels = [("code", rule.code.as_str()), ("level", level.as_str()), ("name", rule.name)];
                out.sample(&Labels::of(labels), number(count));
            }
        }
    }
    out.family("hugewise_unknown_verdicts", Kind::Gauge, "Verdicts that are missing because facts are.");
    out.sample(&Labels::none(), number(assessment.unknown.len()));
    out.family(
        "hugewise_servers_may_be_hidden",
        Kind::Gauge,
        "1 if some of the host's processes are hidden: the figures then cover only the servers that could be seen.",
    );
    out.sample(&Labels::none(), checked.host.unseen().is_some());
    out.family("hugewise_unread_facts", Kind::Gauge, "Facts that exist but could not be read.");
    out.sample(&Labels::none(), number(checked.unread.len()));
}

fn readings(out: &mut Families, metered: &Metered<'_>) {
    out.family("hugewise_readings_total", Kind::Counter, "Readings of the host since the start.");
    out.sample(&Labels::none(), metered.readings);
    out.family("hugewise_reading_timestamp_seconds", Kind::Gauge, "When the host was read, since the epoch.");
    if let Some(at) = metered.checked.host.read_at.get().and_then(|at| u64::try_from(at).ok()) {
        out.sample(&Labels::none(), at);
    }
    out.family("hugewise_collector_duration_seconds", Kind::Gauge, "How long a part of the last reading took.");
    for run in metered.collectors {
        out.sample(&Labels::of([("collector", run.name)]), run.took.as_secs_f64());
    }
    out.family(
        "hugewise_collector_errors",
        Kind::Gauge,
        "Facts that a part of the last reading could not read or decide.",
    );
    for run in metered.collectors {
        out.sample(&Labels::of([("collector", run.name)]), run.errors);
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
