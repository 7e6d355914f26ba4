//! Documents for programs.
//!
//! Bytes are in `*_bytes`, pages in `*_pages`, times in RFC 3339. A fact that is not known is null,
//! and `reasons` beside it says why. Within version 1 fields are added, never changed.

use std::collections::BTreeMap;
use std::io;

use hugewise_model::{Bytes, Level, Observed, Unread, escape};
use schemars::JsonSchema;
use serde::Serialize;

use crate::CheckReport;
use crate::view::cases as view;

use json_view::json_view;

pub mod api;
pub mod applied;
mod finding;
pub mod history;
mod host;
pub mod host_report;
mod instance;
pub mod investigate;
mod json_view;
pub mod lab;
pub mod pod;
pub mod run;
pub mod size;
pub mod verify;

/// The JSON Schema (2020-12) of `hugewise plan --format json`, which is the plan itself.
pub use hugewise_change::plan::plan_schema;

pub use finding::{ChainLink, FindingJson, UnknownVerdictJson};
pub use host::{HostJson, NumaNodeJson, PoolJson, ThpJson, TlbBuffer};
pub use instance::{
    DemandJson, InstanceJson, InstanceStagesJson, PageTablesAtMax, SegmentJson, StageForecastJson,
};

pub(crate) const CHECK_SCHEMA: &str = "hugewise.check/1";

json_view! {
    /// What `hugewise check --format json` prints.
    #[schemars(title = "hugewise.check/1")]
    pub struct Check from(checked: &CheckReport<'_>) {
        let assessment = checked.assessment;
        let count_of = |level: Level| {
            assessment.findings.iter().filter(|finding| finding.level == level).count()
        };
        let cases = view::cases_of_report(checked);
        let place = |finding: &hugewise_model::Finding| {
            assessment
                .findings
                .iter()
                .position(|other_finding| std::ptr::eq(other_finding, finding))
        };
        let case = |case: &hugewise_diagnose::case::DiagnosedCase<'_>| {
            let symptoms = case.symptoms.iter().filter_map(|symptom| place(symptom)).collect();
            Some(CaseJson {
                cause: place(case.cause)?,
                symptoms,
                cost: case.cost.clone(),
                next: view::next_of(checked, case),
            })
        };
    } => {
        /// Name and version of this format.
        #[schemars(extend("const" = CHECK_SCHEMA))]
        schema: &'static str = CHECK_SCHEMA,
        /// The host.
        host: HostJson = HostJson::from(checked.host),
        /// Its running database servers, by engine and name.
        instances: Vec<InstanceJson> = checked
            .instances
            .iter()
            .map(|instance| InstanceJson::new(instance, checked))
            .collect(),
        /// What is wrong, worst first.
        findings: Vec<FindingJson> = assessment.findings.iter().map(FindingJson::from).collect(),
        /// The findings by their causes, worst first.
        cases: Vec<CaseJson> = cases.iter().filter_map(case).collect(),
        /// What to do, each thing once, in order.
        to_do: Vec<String> = view::to_do(checked, true),
        /// The next command; null if nothing is wrong.
        next: Option<String> = (!cases.is_empty()).then(|| view::next(checked, &cases)),
        /// Rules that could not decide.
        unknown: Vec<UnknownVerdictJson> =
            assessment.unknown.iter().map(UnknownVerdictJson::from).collect(),
        /// Everything that exists but could not be read.
        unread: Vec<UnreadFact> = checked.unread.iter().map(UnreadFact::from).collect(),
        /// Findings by level.
        summary: FindingCountsJson = FindingCountsJson {
            error: count_of(Level::Error),
            warn: count_of(Level::Warn),
            info: count_of(Level::Info),
        },
    }
}

/// One cause, and what follows from it.
#[derive(Serialize, JsonSchema)]
pub struct CaseJson {
    /// Which of `findings` is the cause, from 0.
    pub cause: usize,
    /// Which of them follow from it.
    pub symptoms: Vec<usize>,
    /// What it costs.
    pub cost: String,
    /// The next command.
    pub next: String,
}

json_view! {
    /// A fact that exists but could not be read.
    pub struct UnreadFact from(unread: &Unread) => {
        /// File, interface or question.
        what: String = unread.what.clone(),
        /// Why: `denied`, `malformed: ...`, `skipped: ...`.
        why: String = unread.why.to_string(),
    }
}

/// Findings by level.
#[derive(Serialize, JsonSchema)]
pub struct FindingCountsJson {
    /// Findings that hurt now, or will at the next start.
    pub error: usize,
    /// Findings that will hurt under load.
    pub warn: usize,
    /// Findings worth knowing.
    pub info: usize,
}

/// Why fields beside this are null: field name to reason.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Reasons(BTreeMap<&'static str, String>);

impl Reasons {
    /// Keeps the reason under the field's name where the fact has no value.
    fn value_or_reason<T: Clone>(&mut self, field: &'static str, fact: &Observed<T>) -> Option<T> {
        if let Some(reason) = fact.reason_text() {
            self.0.insert(field, reason);
        }
        fact.as_known().cloned()
    }

    fn bytes_or_reason(&mut self, field: &'static str, fact: &Observed<Bytes>) -> Option<u64> {
        self.value_or_reason(field, fact).map(Bytes::get)
    }

    /// Keeps `reason` where a fact that the value is worked out of is missing.
    fn derived_or_reason<T>(
        &mut self,
        field: &'static str,
        value: Option<T>,
        reason: &str,
    ) -> Option<T> {
        if value.is_none() {
            self.0.insert(field, reason.to_owned());
        }
        value
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The JSON Schema (2020-12) of a document, as docs/schema keeps it.
pub fn schema_of<T: JsonSchema>() -> String {
    let schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>();
    let mut text = format!("{:#}", schema.as_value());
    text.push('\n');
    text
}

/// Over many lines.
pub(crate) fn write_json_document(
    value: &impl Serialize,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    serde_json::to_writer_pretty(escape::json::EscapingJsonWriter::new(&mut *out), value)?;
    writeln!(out)
}

pub(crate) fn write_json_line(value: &impl Serialize, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer(escape::json::EscapingJsonWriter::new(&mut *out), value)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::samples;

    #[test]
    fn pages_and_bytes_are_counted_as_the_kernel_counts_them() {
        let check = samples::prod().json();
        assert_eq!(check["schema"], "hugewise.check/1");
        assert_eq!(check["host"]["memory_bytes"], 137_438_953_472_u64);
        assert_eq!(check["host"]["read_at"], "2023-11-14T22:13:20Z");
        let pools = check["host"]["pools"].as_array().unwrap();
        assert_eq!(
            pools.iter().map(|pool| &pool["node"]).collect::<Vec<_>>(),
            [&Value::Null, &json!(0), &json!(1)]
        );
        // 3200 pages, 12 free of which 3 are reserved: 3191 spoken for, 9 to be had.
        assert_eq!(pools[0]["committed_pages"], 3191);
        assert_eq!(pools[0]["available_pages"], 9);
        assert_eq!(pools[0]["page_bytes"], 2_097_152);
        assert_eq!(check["instances"][0]["demand"]["needed_pages"], 17_411);
        assert_eq!(
            check["instances"][0]["chain"][2],
            json!({
                "link": "room", "state": "broken", "evidence": "17,411 pages needed, 9 available",
            })
        );
        assert_eq!(check["instances"][1]["chain"], json!([]));
        assert_eq!(check["summary"], json!({"error": 1, "warn": 2, "info": 0}));
    }

    #[test]
    fn every_finding_is_the_cause_or_a_symptom_of_one_case() {
        let check = samples::prod().json();
        let cases = check["cases"].as_array().unwrap();
        let counts_of = |case: &Value| -> Vec<u64> {
            let symptoms = case["symptoms"].as_array().unwrap().iter();
            std::iter::once(&case["cause"])
                .chain(symptoms)
                .map(|place| place.as_u64().unwrap())
                .collect()
        };
        let mut places: Vec<u64> = cases.iter().flat_map(counts_of).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2]);
        // As the text has them: HW401 follows from HW201, HW501 stands by itself.
        let code = |place: &Value| {
            &check["findings"][usize::try_from(place.as_u64().unwrap()).unwrap()]["code"]
        };
        assert_eq!(
            (code(&cases[0]["cause"]), code(&cases[0]["symptoms"][0])),
            (&json!("HW201"), &json!("HW401"))
        );
        assert_eq!((&check["next"], cases.len()), (&json!("sudo hugewise plan"), 2));
        assert!(check["to_do"][0].as_str().unwrap().starts_with("set the pool of 2 MiB pages to "));
        assert_eq!(samples::empty().json()["next"], Value::Null);
    }

    #[test]
    fn a_fact_that_is_not_known_is_null_with_its_reason_beside_it() {
        let check = samples::unprivileged().json();
        let instance = &check["instances"][0];
        assert_eq!(instance["page_tables_bytes"], Value::Null);
        assert_eq!(instance["reasons"]["page_tables_bytes"], "denied");
        assert_eq!(instance["reasons"]["version"], "absent");
        assert_eq!(instance["reasons"]["sessions"], Value::Null);
        assert_eq!(check["unread"].as_array().unwrap().len(), 403);
        assert_eq!(check["unknown"][0]["missing"], "/proc/4711/maps: denied");
    }

    #[test]
    fn every_report_obeys_the_schema() {
        let schema: Value = serde_json::from_str(&schema_of::<Check>()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for sample in
            [samples::prod(), samples::empty(), samples::unprivileged(), samples::hostile()]
        {
            let report = sample.json();
            let errors: Vec<String> =
                validator.iter_errors(&report).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
        assert!(!validator.is_valid(&json!({"schema": "hugewise.check/2"})));
    }

    #[test]
    fn the_committed_schema_is_up_to_date() {
        let committed = include_str!("../../../../docs/schema/check.json");
        assert_eq!(
            committed,
            schema_of::<Check>(),
            "docs/schema/check.json is stale: run `cargo xtask docs`"
        );
    }
}
