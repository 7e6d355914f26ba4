//! The report that programs read: schema `hugewise.check/1`.
//!
//! Bytes are in `*_bytes`, pages in `*_pages`, times in RFC 3339. A fact that is not known is
//! null, and `reasons` beside it says why. Within version 1 fields are added, never changed.

use std::collections::BTreeMap;
use std::io;

use hugewise_model::{Level, Observed, Unread, escape};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Checked;
use crate::view::cases as view;

pub mod api;
pub mod applied;
mod finding;
pub mod full;
pub mod history;
mod host;
mod instance;
pub mod investigate;
pub mod lab;
pub mod run;
pub mod size;
pub mod verify;

/// The JSON Schema (2020-12) of `hugewise plan --format json`, which is the plan itself.
pub use hugewise_change::plan::plan_schema;

pub use finding::{ChainLink, Finding, UnknownVerdict};
pub use host::{Host, Node, Pool, Thp, TlbBuffer};
pub use instance::{Demand, Instance, Moments, Outlook, PageTablesAtMax, Segment};

/// Name and version of the format.
pub(crate) const CHECK_SCHEMA: &str = "hugewise.check/1";

/// What `hugewise check --format json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.check/1")]
pub struct Check {
    /// Name and version of this format.
    #[schemars(extend("const" = CHECK_SCHEMA))]
    pub schema: &'static str,
    /// The host.
    pub host: Host,
    /// Its running database servers, by engine and name.
    pub instances: Vec<Instance>,
    /// What is wrong, worst first.
    pub findings: Vec<Finding>,
    /// The findings by their causes, worst first.
    pub cases: Vec<Case>,
    /// What to do, each thing once, in order.
    pub to_do: Vec<String>,
    /// The next command; null if nothing is wrong.
    pub next: Option<String>,
    /// Rules that could not decide.
    pub unknown: Vec<UnknownVerdict>,
    /// Everything that exists but could not be read.
    pub unread: Vec<UnreadFact>,
    /// Findings by level.
    pub summary: Summary,
}

/// One cause, and what follows from it.
#[derive(Serialize, JsonSchema)]
pub struct Case {
    /// Which of `findings` is the cause, from 0.
    pub cause: usize,
    /// Which of them follow from it.
    pub symptoms: Vec<usize>,
    /// What it costs.
    pub cost: String,
    /// The next command.
    pub next: String,
}

/// A fact that exists but could not be read.
#[derive(Serialize, JsonSchema)]
pub struct UnreadFact {
    /// File, interface or question.
    pub what: String,
    /// Why: `denied`, `malformed: ...`, `skipped: ...`.
    pub why: String,
}

/// Findings by level.
#[derive(Serialize, JsonSchema)]
pub struct Summary {
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
    /// The fact's value; where it has none, the reason is kept under the field's name.
    fn take<T: Clone>(&mut self, field: &'static str, fact: &Observed<T>) -> Option<T> {
        if let Some(reason) = fact.reason() {
            self.0.insert(field, reason);
        }
        fact.known().cloned()
    }

    /// A value worked out of facts: null with this reason where one of them is missing.
    fn derive<T>(&mut self, field: &'static str, value: Option<T>, reason: &str) -> Option<T> {
        if value.is_none() {
            self.0.insert(field, reason.to_owned());
        }
        value
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&Unread> for UnreadFact {
    fn from(unread: &Unread) -> Self {
        Self { what: unread.what.clone(), why: unread.why.to_string() }
    }
}

impl From<&Checked<'_>> for Check {
    fn from(checked: &Checked<'_>) -> Self {
        let assessment = checked.assessment;
        let of = |level: Level| assessment.findings.iter().filter(|finding| finding.level == level).count();
        let cases = view::of(checked);
        let place = |of: &hugewise_model::Finding| assessment.findings.iter().position(|it| std::ptr::eq(it, of));
        let case = |case: &hugewise_advice::case::Case<'_>| {
            let symptoms = case.symptoms.iter().filter_map(|symptom| place(symptom)).collect();
            Some(Case {
                cause: place(case.cause)?,
                symptoms,
                cost: case.cost.clone(),
                next: view::next_of(checked, case),
            })
        };
        Self {
            schema: CHECK_SCHEMA,
            host: Host::from(checked.host),
            instances: checked.instances.iter().map(|instance| Instance::new(instance, checked)).collect(),
            findings: assessment.findings.iter().map(Finding::from).collect(),
            cases: cases.iter().filter_map(case).collect(),
            to_do: view::to_do(checked, true),
            next: (!cases.is_empty()).then(|| view::next(checked, &cases)),
            unknown: assessment.unknown.iter().map(UnknownVerdict::from).collect(),
            unread: checked.unread.iter().map(UnreadFact::from).collect(),
            summary: Summary { error: of(Level::Error), warn: of(Level::Warn), info: of(Level::Info) },
        }
    }
}

/// The JSON Schema (2020-12) of `hugewise check --format json`, as docs/schema/check.json keeps it.
pub fn check_schema() -> String {
    schema_of::<Check>()
}

pub(crate) fn schema_of<T: JsonSchema>() -> String {
    let schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>();
    let mut text = format!("{:#}", schema.as_value());
    text.push('\n');
    text
}

pub(crate) fn write(checked: &Checked<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    document(&Check::from(checked), out)
}

/// A document over many lines, for programs and for who looks at it in a terminal.
pub(crate) fn document(value: &impl Serialize, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(escape::json::Writer::new(&mut *out), value)?;
    writeln!(out)
}

/// The same on one line.
pub(crate) fn line(value: &impl Serialize, out: &mut dyn io::Write) -> io::Result<()> {
    serde_json::to_writer(escape::json::Writer::new(&mut *out), value)?;
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
        assert_eq!(pools.iter().map(|pool| &pool["node"]).collect::<Vec<_>>(), [&Value::Null, &json!(0), &json!(1)]);
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
        let of = |case: &Value| -> Vec<u64> {
            let symptoms = case["symptoms"].as_array().unwrap().iter();
            std::iter::once(&case["cause"]).chain(symptoms).map(|place| place.as_u64().unwrap()).collect()
        };
        let mut places: Vec<u64> = cases.iter().flat_map(of).collect();
        places.sort_unstable();
        assert_eq!(places, [0, 1, 2]);
        // As the text has them: HW401 follows from HW201, HW501 stands by itself.
        let code = |place: &Value| &check["findings"][usize::try_from(place.as_u64().unwrap()).unwrap()]["code"];
        assert_eq!((code(&cases[0]["cause"]), code(&cases[0]["symptoms"][0])), (&json!("HW201"), &json!("HW401")));
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
        let schema: Value = serde_json::from_str(&check_schema()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for sample in [samples::prod(), samples::empty(), samples::unprivileged(), samples::hostile()] {
            let report = sample.json();
            let errors: Vec<String> = validator.iter_errors(&report).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
        assert!(!validator.is_valid(&json!({"schema": "hugewise.check/2"})));
    }

    #[test]
    fn the_committed_schema_is_up_to_date() {
        let committed = include_str!("../../../../docs/schema/check.json");
        assert_eq!(committed, check_schema(), "docs/schema/check.json is stale: run `cargo xtask docs`");
    }
}
