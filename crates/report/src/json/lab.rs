//! What `hugewise lab --format json` prints: schema `hugewise.lab/1`.

use std::io;

use hugewise_lab::experiment::{Outcome, Outline};
use hugewise_lab::results::{Ratio, Run};
use hugewise_lab::variant::Variant;
use schemars::JsonSchema;
use serde::Serialize;

use crate::LabReport;

/// Name and version of the format.
pub(crate) const LAB_SCHEMA: &str = "hugewise.lab/1";

/// What `hugewise lab --format json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.lab/1")]
pub struct Lab<'a> {
    /// Name and version of this format.
    #[schemars(extend("const" = LAB_SCHEMA))]
    pub schema: &'static str,
    /// The host that it was measured on.
    pub host: super::Host,
    /// What it planned to do.
    pub plan: &'a Outline,
    /// One for each variant and metric, every sample kept.
    pub runs: &'a [Run],
    /// Every variant compared with the first.
    pub ratios: &'a [Ratio],
    /// What `hugewise size` would have said for the same.
    pub forecasts: Vec<Forecast>,
    /// What readers should know.
    pub notes: &'a [String],
    /// Why it ended early; null if it did not.
    pub stopped: Option<&'a str>,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// The least memory available during the run; null if it was not sampled in time.
    pub lowest_available_bytes: Option<u64>,
}

/// A forecast next to what was measured.
#[derive(Serialize, JsonSchema)]
pub struct Forecast {
    /// The pages.
    pub pages: Variant,
    /// The number of sessions.
    pub sessions: u32,
    /// On a segment of this size.
    pub segment_bytes: u64,
    /// Page tables of all of them, by the model.
    pub page_tables_bytes: u64,
    /// As they were measured: the median.
    pub measured_bytes: u64,
    /// How far the measured amount is from the forecast.
    pub off_percent: Option<f64>,
}

impl From<&crate::lab::Forecast> for Forecast {
    fn from(forecast: &crate::lab::Forecast) -> Self {
        Self {
            pages: forecast.pages,
            sessions: forecast.sessions,
            segment_bytes: forecast.segment.get(),
            page_tables_bytes: forecast.page_tables.get(),
            measured_bytes: forecast.measured.get(),
            off_percent: forecast.off_percent(),
        }
    }
}

/// The JSON Schema (2020-12) of `hugewise lab --format json`, as docs/schema/lab.json keeps it.
pub fn lab_schema() -> String {
    super::schema_of::<Lab<'static>>()
}

impl LabReport<'_> {
    /// Writes the report that programs read, schema `hugewise.lab/1`.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        write(self, out)
    }
}

fn write(report: &LabReport<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    let Outcome { plan, runs, ratios, notes, stopped, seconds, lowest_available_bytes } = report.outcome;
    let lab = Lab {
        schema: LAB_SCHEMA,
        host: super::Host::from(report.host),
        plan,
        runs,
        ratios,
        forecasts: report.forecasts.iter().map(Forecast::from).collect(),
        notes,
        stopped: stopped.as_deref(),
        seconds: *seconds,
        lowest_available_bytes: *lowest_available_bytes,
    };
    super::document(&lab, out)
}

/// Writes what an experiment is going to do: the `plan` of a report by itself.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write_plan(plan: &Outline, out: &mut dyn io::Write) -> io::Result<()> {
    super::document(plan, out)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::lab::tests::{forecasts, outcome};
    use crate::samples;

    #[test]
    fn every_report_obeys_the_schema() {
        let schema: Value = serde_json::from_str(&lab_schema()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let host = samples::prod().host;
        for outcome in [outcome(false), outcome(true)] {
            let forecasts = forecasts(&outcome);
            let mut out = Vec::new();
            LabReport { host: &host, outcome: &outcome, forecasts: &forecasts }.write_json(&mut out).unwrap();
            let value: Value = serde_json::from_slice(&out).unwrap();
            let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}");
            assert_eq!(value["runs"][0]["pages"], "4k");
            assert_eq!(value["runs"][2]["samples"].as_array().unwrap().len(), 3);
            assert_eq!(value["forecasts"][1]["page_tables_bytes"], 100 * (513 * 4 + 54) * 1024);
        }
    }
}
