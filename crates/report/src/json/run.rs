//! `hugewise run --report` and `--compare` with `--format json`: `hugewise.run/1`.

use hugewise_lab::run::compare::SpeedGain;
use hugewise_lab::run::launch::Watched;
use hugewise_lab::run::program_memory::TextPlacement;
use schemars::JsonSchema;
use serde::Serialize;

use super::json_view::json_view;
use crate::RunReport;

pub(crate) const RUN_SCHEMA: &str = "hugewise.run/1";

/// What `hugewise run` reports with `--format json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.run/1")]
pub struct RunDocument<'a> {
    /// Name and version of this format.
    #[schemars(extend("const" = RUN_SCHEMA))]
    pub schema: &'static str,
    /// The command line.
    pub command: &'a [String],
    /// The pages that were asked for.
    pub pages: &'a str,
    /// What was done for the program.
    pub done: &'a [String],
    /// What was not, and what to know, before and after.
    pub caveats: Vec<&'a str>,
    /// Its runs with the settings, in order.
    pub with: Vec<OneRun>,
    /// Its runs without; empty unless compared.
    pub without: Vec<OneRun>,
    /// Runs that ignored the settings: they were repeated, and are in no figure.
    pub set_aside: Vec<OneRun>,
    /// What was gained; null unless compared.
    pub gain: Option<SpeedGain>,
}

json_view! {
    /// One run.
    pub struct OneRun from(run: &Watched) => {
        /// From start to end.
        wall_seconds: f64 = run.wall.as_secs_f64(),
        /// Processor time in its own code.
        user_seconds: f64 = run.user.as_secs_f64(),
        /// Processor time in the kernel.
        system_seconds: f64 = run.system.as_secs_f64(),
        /// Private memory at its peak, of the program and its children; null if it was not sampled
        /// in time.
        peak_bytes: Option<u64> = run.peak.map(|peak| peak.total()),
        /// Of that, on transparent huge pages.
        transparent_bytes: Option<u64> = run.peak.map(|peak| peak.transparent),
        /// Of that, asked for as transparent huge pages by the program itself.
        asked_bytes: Option<u64> = run.peak.map(|peak| peak.asked),
        /// Of that, on pages of a pool.
        pool_bytes: Option<u64> = run.peak.map(|peak| peak.pooled),
        /// Faults that the kernel answered from memory.
        minor_faults: u64 = run.minor_faults,
        /// Faults that waited for a disk.
        major_faults: u64 = run.major_faults,
        /// How often its memory was sampled.
        looks: u32 = run.looks,
        /// What happened to its text; null if that was not asked for.
        text: Option<ProgramTextJson> = run.text.as_ref().map(ProgramTextJson::from),
        /// Exit code; null where a signal ended it.
        exit_code: Option<i32> = run.status.code(),
    }
}

json_view! {
    /// What happened to a program's text.
    pub struct ProgramTextJson from(text: &TextPlacement) => {
        /// Text that could be on huge pages.
        eligible_bytes: u64 = text.eligible,
        /// Files' pages that are on huge pages.
        huge_bytes: u64 = text.huge,
        /// What the kernel answered, if it refused.
        refused: Option<String> = text.refused.clone(),
    }
}

impl<'a> From<&RunReport<'a>> for RunDocument<'a> {
    fn from(report: &RunReport<'a>) -> Self {
        Self {
            schema: RUN_SCHEMA,
            command: report.command,
            pages: report.pages,
            done: report.done,
            caveats: report.caveats.iter().chain(report.noticed).map(String::as_str).collect(),
            with: report.with.iter().map(OneRun::from).collect(),
            without: report.without.iter().map(OneRun::from).collect(),
            set_aside: report.set_aside.iter().map(OneRun::from).collect(),
            gain: report.gain(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::Report;

    #[test]
    fn every_report_obeys_the_schema() {
        let run = |ms| Watched {
            status: Command::new("true").status().unwrap(),
            wall: Duration::from_millis(ms),
            user: Duration::ZERO,
            system: Duration::ZERO,
            minor_faults: 1,
            major_faults: 0,
            largest_resident: 0,
            peak: None,
            looks: 0,
            text: Some(hugewise_lab::run::program_memory::TextPlacement::default()),
        };
        let command = ["true".to_owned()];
        let schema: Value =
            serde_json::from_str(&crate::json::schema_of::<RunDocument<'_>>()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for without in [vec![], vec![run(200)]] {
            let with = [run(100)];
            let noticed = ["it was ignored".to_owned()];
            let report = RunReport {
                command: &command,
                pages: "thp",
                done: &[],
                caveats: &[],
                noticed: &noticed,
                set_aside: &with,
                with: &with,
                without: &without,
            };
            let mut out = Vec::new();
            report.write_json(&mut out).unwrap();
            let value: Value = serde_json::from_slice(&out).unwrap();
            let errors: Vec<String> =
                validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}");
            assert_eq!(value["gain"]["median"].as_f64(), (!without.is_empty()).then_some(2.0));
            assert_eq!(value["with"][0]["peak_bytes"], Value::Null);
            assert_eq!(
                (&value["caveats"][0], value["set_aside"].as_array().unwrap().len()),
                (&"it was ignored".into(), 1)
            );
        }
    }
}
