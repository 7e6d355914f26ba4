//! What the lab measured.

#[cfg(test)]
pub(crate) mod tests;

use hugewise_lab::experiment::ExperimentOutcome;
use hugewise_lab::results::{MetricRun, Ratio};
use hugewise_lab::variant::Variant;
use hugewise_model::{Bytes, Host};

use crate::chart::ChartUnit;

/// What an experiment found on a host, beside what was forecast.
pub struct LabReport<'a> {
    /// The host.
    pub host: &'a Host,
    /// What was found.
    pub outcome: &'a ExperimentOutcome,
    /// What `hugewise size` would have said; empty for experiments without a forecast.
    pub forecasts: &'a [LabForecast],
}

/// A forecast next to what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabForecast {
    /// The pages.
    pub pages: Variant,
    /// The number of sessions.
    pub sessions: u32,
    /// On a segment of this size.
    pub segment: Bytes,
    /// Page tables of all of them.
    pub page_tables: Bytes,
    /// The median that was measured.
    pub measured: Bytes,
}

impl LabForecast {
    /// How far the measured amount is from the forecast, in per cent of it.
    pub fn off_percent(&self) -> Option<f64> {
        Some((self.measured.part_of(self.page_tables)? - 1.0) * 100.0)
    }
}

pub(crate) fn ratio_of<'a>(outcome: &'a ExperimentOutcome, run: &MetricRun) -> Option<&'a Ratio> {
    outcome.ratios.iter().find(|ratio| {
        ratio.pages == run.pages
            && ratio.metric == run.metric
            && ratio.case == run.case
            && ratio.sessions == run.sessions
            && ratio.segment_bytes == run.segment_bytes
    })
}

/// The cells of a forecast's row; `unknown` stands for what it is off by.
pub(crate) fn forecast_cells(forecast: &LabForecast, unknown: &str) -> [String; 6] {
    [
        forecast.pages.to_string(),
        forecast.sessions.to_string(),
        forecast.segment.to_string(),
        forecast.page_tables.to_string(),
        forecast.measured.to_string(),
        forecast.off_percent().map_or_else(|| unknown.into(), |off| format!("{off:+.1} %")),
    ]
}

/// A run's value in the unit in which it is shown.
pub(crate) fn to_shown_unit(run: &MetricRun, value: f64) -> (f64, ChartUnit) {
    match run.unit.as_str() {
        "s" => (value, ChartUnit::Seconds),
        "ns" => (value / 1e9, ChartUnit::Seconds),
        "B" => (value, ChartUnit::Bytes),
        "B/s" => (value, ChartUnit::BytesPerSecond),
        "1/s" => (value, ChartUnit::PerSecond),
        "%" => (value, ChartUnit::Percent),
        _ => (value, ChartUnit::Count),
    }
}

pub(crate) fn format_run_value(run: &MetricRun, value: f64) -> String {
    let (value, unit) = to_shown_unit(run, value);
    unit.format_value(value)
}

/// `1.23`, `18.4`, `196`.
pub(crate) fn format_ratio(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 99.95 => format!("{ratio:.0}"),
        ratio if ratio >= 9.995 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.2}"),
    }
}

pub(crate) fn metric_title(metric: &str) -> String {
    metric.replace('_', " ")
}

/// Runs of the same metric and case, in the order in which they were found.
pub(crate) fn group_runs(outcome: &ExperimentOutcome) -> Vec<Vec<&MetricRun>> {
    let mut groups: Vec<Vec<&MetricRun>> = Vec::new();
    for run in &outcome.runs {
        let same = |group: &&mut Vec<&MetricRun>| {
            group.first().is_some_and(|first| first.metric == run.metric && first.case == run.case)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    for group in &mut groups {
        // A stable sort: pages stay in the order of the variants.
        group.sort_by_key(|run| (run.segment_bytes, run.sessions));
    }
    groups
}
