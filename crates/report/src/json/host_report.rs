//! `hugewise report --format json`: `hugewise.report/1`.

use hugewise_change::plan;
use hugewise_diagnose::target;
use hugewise_model::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use super::Check;
use super::investigate::Investigate;
use super::size::{ForecastRowJson, MemoryBudgetJson, PoolTargetJson, SizeDocument};
use crate::formats::shown_words;
use crate::host_report::{Stop, VERSION};
use crate::view::plan as words;
use crate::view::target::relevant_goals;
use crate::{HostReport, date};

pub(crate) const REPORT_SCHEMA: &str = "hugewise.report/1";

/// What `hugewise report --format json` prints: one reading of a host, checked, sized and planned
/// for.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.report/1")]
pub struct HostReportDocument {
    /// Name and version of this format.
    #[schemars(extend("const" = REPORT_SCHEMA))]
    pub schema: &'static str,
    /// Version of hugewise that made it.
    pub hugewise: &'static str,
    /// When it was made, RFC 3339; null if the clock was out of range.
    pub made_at: Option<String>,
    /// What `hugewise check` says.
    pub check: Check,
    /// The pools as they should be.
    pub target: Vec<PoolGoalJson>,
    /// What `hugewise size` says; null where there is nothing to size.
    pub size: Option<SizeDocument>,
    /// Why it is null.
    pub size_reason: Option<String>,
    /// What `hugewise size --sessions` says for other numbers of sessions.
    pub what_if: Vec<WhatIf>,
    /// What `hugewise plan` would do; null where there is no plan.
    pub plan: Option<PlanSteps>,
    /// Why it is null.
    pub plan_reason: Option<String>,
    /// What `hugewise investigate` says of the archives that were given; null where none were.
    pub investigation: Option<Investigate>,
}

/// A pool as it should be.
#[derive(Serialize, JsonSchema)]
pub struct PoolGoalJson {
    /// Page size.
    pub page_bytes: u64,
    /// Pages in it now, without surplus ones.
    pub now_pages: u64,
    /// Pages that servers hold or are promised, or that are planned for them.
    pub needed_pages: u64,
    /// Pages that it should have.
    pub goal_pages: u64,
    /// Pages that each boot should bring.
    pub at_boot_pages: u64,
    /// Memory that it takes then.
    pub memory_bytes: u64,
    /// Why the running kernel is not asked for them; null if it is, or has them.
    pub not_now: Option<String>,
}

/// The host at this number of sessions.
#[derive(Serialize, JsonSchema)]
pub struct WhatIf {
    /// Sessions on the host.
    pub sessions: u64,
    /// Whether the host has room for the pools.
    pub fits: bool,
    /// Pools as they should be; empty if they don't fit.
    pub pools: Vec<PoolTargetJson>,
    /// How the host's memory is divided.
    pub budget: MemoryBudgetJson,
    /// Page tables and memory left if all servers were on pages of one size: the forecast's lines
    /// for this number of sessions.
    pub forecast: Vec<ForecastRowJson>,
}

/// A plan for reading: `hugewise plan --out` saves one that can be applied.
#[derive(Serialize, JsonSchema)]
pub struct PlanSteps {
    /// When it was made, RFC 3339.
    pub made_at: String,
    /// What is done, in this order.
    pub steps: Vec<PlanStep>,
    /// What somebody has to do by hand.
    pub manual_steps: Vec<ManualStep>,
    /// What copies these settings or works against them.
    pub warnings: Vec<String>,
    /// Why it should not be applied; null if nothing speaks against it.
    pub refusal: Option<Vec<String>>,
}

/// Changes that belong together.
#[derive(Serialize, JsonSchema)]
pub struct PlanStep {
    /// Unique in a plan.
    pub id: String,
    /// What is done.
    pub title: String,
    /// What has to happen before it takes effect.
    #[schemars(extend("enum" = ["safe", "restart", "reboot", "destructive"]))]
    pub risk: &'static str,
    /// Why.
    pub why: String,
    /// The instance that it is for; null for the host.
    pub instance: Option<String>,
    /// Findings that it ends, and when.
    pub ends: Vec<String>,
    /// What is changed: the lines removed and added, without context, and the commands that are
    /// run.
    pub changes: Vec<String>,
}

/// A step that a person has to take.
#[derive(Serialize, JsonSchema)]
pub struct ManualStep {
    /// What.
    pub title: String,
    /// Commands or statements, and `#` lines between them.
    pub text: String,
    /// What has to happen before it takes effect.
    #[schemars(extend("enum" = ["safe", "restart", "reboot", "destructive"]))]
    pub risk: &'static str,
    /// The instance that it is for; null for the host.
    pub instance: Option<String>,
}

impl PoolGoalJson {
    fn new(goal: &target::PoolGoal, report: &HostReport<'_>) -> Self {
        let at_boot = goal.pages_from_next_boot(report.checked.host, report.checked.instances);
        Self {
            page_bytes: goal.page_size.into(),
            now_pages: goal.now.get(),
            needed_pages: goal.needed.get(),
            goal_pages: goal.goal.get(),
            at_boot_pages: at_boot.get(),
            memory_bytes: Bytes::get(goal.memory()),
            not_now: goal.not_now.clone(),
        }
    }
}

impl From<&Stop> for WhatIf {
    fn from(stop: &Stop) -> Self {
        let Stop { sessions, sizing } = stop;
        let of_it = sizing.forecast.iter().filter(|row| row.sessions == *sessions);
        Self {
            sessions: *sessions,
            fits: sizing.refusal.is_none(),
            pools: sizing.pools.iter().map(|pool| PoolTargetJson::new(pool, &[])).collect(),
            budget: MemoryBudgetJson::from(&sizing.budget),
            forecast: of_it.map(ForecastRowJson::from).collect(),
        }
    }
}

impl From<&plan::Plan> for PlanSteps {
    fn from(plan: &plan::Plan) -> Self {
        let change = |change: &plan::Change| match change {
            plan::Change::Command(command) => format!("$ {}\n", shown_words(command)),
            other => words::changed_lines(other),
        };
        let step = |step: &plan::Step| PlanStep {
            id: step.id.clone(),
            title: step.title.clone(),
            risk: step.risk.as_str(),
            why: step.why.clone(),
            instance: step.instance.clone(),
            ends: step.expects.iter().map(words::describe_expected_end).collect(),
            changes: step.changes.iter().map(change).collect(),
        };
        let manual = |step: &plan::Instruction| ManualStep {
            title: step.title.clone(),
            text: step.text.clone(),
            risk: step.risk.as_str(),
            instance: step.instance.clone(),
        };
        Self {
            made_at: plan.made_at.clone(),
            steps: plan.steps.iter().map(step).collect(),
            manual_steps: plan.instructions.iter().map(manual).collect(),
            warnings: plan.warnings.clone(),
            refusal: plan.refusal.as_ref().map(|refusal| refusal.reasons.clone()),
        }
    }
}

impl From<&HostReport<'_>> for HostReportDocument {
    fn from(report: &HostReport<'_>) -> Self {
        let why = |why: &&str| (*why).to_owned();
        Self {
            schema: REPORT_SCHEMA,
            hugewise: VERSION,
            made_at: date::format_rfc3339(report.made_at),
            check: Check::from(&report.checked),
            target: relevant_goals(&report.checked)
                .map(|goal| PoolGoalJson::new(goal, report))
                .collect(),
            size: report.sized.as_ref().ok().map(SizeDocument::from),
            size_reason: report.sized.as_ref().err().map(why),
            what_if: report.stops.iter().map(WhatIf::from).collect(),
            plan: report.planned.as_ref().ok().map(|planned| PlanSteps::from(planned.plan)),
            plan_reason: report.planned.as_ref().err().map(why),
            investigation: report.investigation.map(Investigate::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Report;
    use crate::samples;
    use crate::testing::sample_investigations;

    fn told(sample: &samples::Sample) -> Value {
        let mut out = Vec::new();
        sample.whole(Some(&sample_investigations::hostile_investigation()), |report| {
            report.write_json(&mut out).unwrap()
        });
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn every_report_obeys_the_schema() {
        let schema: Value =
            serde_json::from_str(&crate::json::schema_of::<HostReportDocument>()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for sample in
            [samples::prod(), samples::hostile(), samples::empty(), samples::unprivileged()]
        {
            let report = told(&sample);
            let errors: Vec<String> =
                validator.iter_errors(&report).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
        assert!(!validator.is_valid(&json!({"schema": "hugewise.report/2"})));
    }

    #[test]
    fn what_is_left_out_has_its_reason() {
        let report = told(&samples::empty());
        assert_eq!((&report["size"], &report["plan"]), (&Value::Null, &Value::Null));
        assert!(report["size_reason"].as_str().unwrap().starts_with("nothing to size"), "{report}");
        assert_eq!(report["plan_reason"], "the host is half changed");
        assert_eq!(report["made_at"], "2023-11-14T22:13:20Z");
        let report = told(&samples::prod());
        assert_eq!((&report["size_reason"], &report["plan_reason"]), (&Value::Null, &Value::Null));
        // 20,000 pages are there, of which nobody needs all.
        assert_eq!(report["target"][0]["page_bytes"], 2_097_152);
    }

    #[test]
    fn a_plan_shows_the_lines_that_change_and_none_around_them() {
        let report = told(&samples::prod());
        let changes = report["plan"]["steps"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|step| step["changes"].as_array().unwrap());
        let lines: Vec<&str> =
            changes.flat_map(|change| change.as_str().unwrap().lines()).collect();
        assert!(lines.iter().any(|line| line.starts_with('+')), "{lines:?}");
        assert!(lines.iter().all(|line| line.starts_with(['+', '-', '$', '/'])), "{lines:?}");
    }

    #[test]
    fn the_committed_schema_is_up_to_date() {
        let committed = include_str!("../../../../docs/schema/report.json");
        assert_eq!(
            committed,
            crate::json::schema_of::<HostReportDocument>(),
            "docs/schema/report.json is stale: run `cargo xtask docs`"
        );
    }
}
