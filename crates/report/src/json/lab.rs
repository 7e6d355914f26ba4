//! `hugewise lab --format json`: `hugewise.lab/1`.

use std::io;

use hugewise_lab::experiment::{ExperimentOutcome, Outline};
use hugewise_lab::results::{MetricRun, Ratio};
use hugewise_lab::variant::Variant;
use schemars::JsonSchema;
use serde::Serialize;

use super::json_view::json_view;
use crate::LabReport;

pub(crate) const LAB_SCHEMA: &str = "hugewise.lab/1";

/// What `hugewise lab --format json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.lab/1")]
pub struct Lab<'a> {
    /// Name and version of this format.
    #[schemars(extend("const" = LAB_SCHEMA))]
    pub schema: &'static str,
    /// The host that it was measured on.
    pub host: super::HostJson,
    /// What it planned to do.
    pub plan: &'a Outline,
    /// One for each variant and metric, every sample kept.
    pub runs: &'a [MetricRun],
    /// Every variant compared with the first.
    pub ratios: &'a [Ratio],
    /// What `hugewise size` would have said for the same.
    pub forecasts: Vec<LabForecastJson>,
    /// What readers should know.
    pub notes: &'a [String],
    /// Why it ended early; null if it did not.
    pub stopped: Option<&'a str>,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The least memory available during the run; null if it was not sampled in time.
    pub lowest_available_bytes: Option<u64>,
}

json_view! {
    /// A forecast next to what was measured.
    pub struct LabForecastJson from(forecast: &crate::lab::LabForecast) => {
        /// The pages.
        pages: Variant = forecast.pages,
        /// The number of sessions.
        sessions: u32 = forecast.sessions,
        /// On a segment of this size.
        segment_bytes: u64 = forecast.segment.get(),
        /// Page tables of all of them, by the model.
        page_tables_bytes: u64 = forecast.page_tables.get(),
        /// As they were measured: the median.
        measured_bytes: u64 = forecast.measured.get(),
        /// How far the measured amount is from the forecast.
        off_percent: Option<f64> = forecast.off_percent(),
    }
}

impl<'a> From<&LabReport<'a>> for Lab<'a> {
    fn from(report: &LabReport<'a>) -> Self {
        let ExperimentOutcome {
            plan,
            runs,
            ratios,
            notes,
            stopped,
            seconds,
            lowest_available_bytes,
        } = report.outcome;
        Self {
            schema: LAB_SCHEMA,
            host: super::HostJson::from(report.host),
            plan,
            runs,
            ratios,
            forecasts: report.forecasts.iter().map(LabForecastJson::from).collect(),
            notes,
            stopped: stopped.as_deref(),
            seconds: *seconds,
            lowest_available_bytes: *lowest_available_bytes,
        }
    }
}

/// Writes what an experiment is going to do: the `plan` of a report.
pub fn write_plan(plan: &Outline, out: &mut dyn io::Write) -> io::Result<()> {
    super::write_json_document(plan, out)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::Report;
    use crate::lab::tests::{forecast_sample_runs, sample_outcome};
    use crate::samples;

    #[test]
    fn every_report_obeys_the_schema() {
        let schema: Value = serde_json::from_str(&crate::json::schema_of::<Lab<'_>>()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let host = samples::prod().host;
        for outcome in [sample_outcome(false), sample_outcome(true)] {
            let forecasts = forecast_sample_runs(&outcome);
            let mut out = Vec::new();
            LabReport { host: &host, outcome: &outcome, forecasts: &forecasts }
                .write_json(&mut out)
                .unwrap();
            let value: Value = serde_json::from_slice(&out).unwrap();
            let errors: Vec<String> =
                validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}");
            assert_eq!(value["runs"][0]["pages"], "4k");
            assert_eq!(value["runs"][2]["samples"].as_array().unwrap().len(), 3);
            assert_eq!(value["forecasts"][1]["page_tables_bytes"], 100 * (513 * 4 + 54) * 1024);
        }
    }
}
