//! What Prometheus scrapes: OpenMetrics 1.0 and the Prometheus text format 0.0.4.
//!
//! Names and units follow the Prometheus conventions. A fact that is not known has no sample:
//! absent is never zero. The number of series is bounded, whatever runs on the host, and nothing
//! here needs `smaps`.

mod families;
mod host;
mod instances;
mod recorder;

#[cfg(test)]
mod tests;

use std::time::Duration;

use hugewise_model::Level;
use hugewise_record::Latest;

use crate::CheckReport;
use families::{Families, Labels, MetricKind};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// The Prometheus text format 0.0.4, which node_exporter's textfile collector reads too.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl ExpositionFormat {
    /// Its `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// One part of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectorRun {
    /// `host`, `engines`, `rules`, `sizing`, `cpu`, `recorder`.
    pub name: &'static str,
    /// How long it took.
    pub took: Duration,
    /// Facts that could not be read, and verdicts that are missing for it.
    pub errors: u64,
}

/// Time of all processors together since boot, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuSeconds {
    /// System, interrupts and soft interrupts.
    pub kernel: f64,
    /// Idle, or waiting for a disk.
    pub idle: f64,
    /// Everything else.
    pub user: f64,
}

/// What is exported.
pub struct Metered<'a> {
    /// The host, its instances and what is said of them.
    pub checked: CheckReport<'a>,
    /// The parts of the reading.
    pub collectors: &'a [CollectorRun],
    /// Readings since the start, with this one.
    pub readings: u64,
    /// The processors' time, where it is known.
    pub cpu: Option<CpuSeconds>,
    /// The flight recorder's last minute, where one runs here.
    pub recorder: Option<&'a Latest>,
    /// Version of hugewise.
    pub version: &'a str,
}

/// Renders every metric.
pub fn write(metered: &Metered<'_>, format: ExpositionFormat) -> String {
    let mut out = Families::new(format);
    out.begin_family("hugewise_build_info", MetricKind::Info, "Version of hugewise.");
    out.add_sample(&Labels::from_pairs([("version", metered.version)]), 1_u64);
    host::write(&mut out, &metered.checked, metered.cpu);
    instances::write(&mut out, &metered.checked);
    write_verdicts(&mut out, &metered.checked);
    if let Some(latest) = metered.recorder {
        recorder::write(&mut out, latest);
    }
    write_readings(&mut out, metered);
    out.finish()
}

/// A silent rule has a zero at its own level, so that an alert sees it fall silent.
fn write_verdicts(out: &mut Families, checked: &CheckReport<'_>) {
    let assessment = checked.assessment;
    out.begin_family("hugewise_findings", MetricKind::Gauge, "Findings by rule and level.");
    for rule in hugewise_diagnose::all_rules() {
        for level in [Level::Error, Level::Warn, Level::Info] {
            let findings = assessment.findings.iter();
            let count = findings
                .filter(|finding| finding.code == rule.code && finding.level == level)
                .count();
            if count > 0 || level == rule.level {
                let labels =
                    [("code", rule.code.as_str()), ("level", level.as_str()), ("name", rule.name)];
                out.add_sample(&Labels::from_pairs(labels), count_to_u64(count));
            }
        }
    }
    out.add_gauge(
        "hugewise_unknown_verdicts",
        "Verdicts that are missing because facts are.",
        Some(count_to_u64(assessment.unknown.len())),
    );
    out.add_gauge(
        "hugewise_servers_may_be_hidden",
        "1 if some of the host's processes are hidden: the figures then cover only the servers \
             that could be seen.",
        Some(checked.host.unseen_reason().is_some()),
    );
    out.add_gauge(
        "hugewise_unread_facts",
        "Facts that exist but could not be read.",
        Some(count_to_u64(checked.unread.len())),
    );
}

fn write_readings(out: &mut Families, metered: &Metered<'_>) {
    out.begin_family(
        "hugewise_readings_total",
        MetricKind::Counter,
        "Readings of the host since the start.",
    );
    out.add_sample(&Labels::none(), metered.readings);
    out.add_gauge(
        "hugewise_reading_timestamp_seconds",
        "When the host was read, since the epoch.",
        metered.checked.host.read_at.get().and_then(|at| u64::try_from(at).ok()),
    );
    out.begin_family(
        "hugewise_collector_duration_seconds",
        MetricKind::Gauge,
        "How long a part of the last reading took.",
    );
    for run in metered.collectors {
        out.add_sample(&Labels::from_pairs([("collector", run.name)]), run.took.as_secs_f64());
    }
    out.begin_family(
        "hugewise_collector_errors",
        MetricKind::Gauge,
        "Facts that a part of the last reading could not read or decide.",
    );
    for run in metered.collectors {
        out.add_sample(&Labels::from_pairs([("collector", run.name)]), run.errors);
    }
}

fn count_to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
