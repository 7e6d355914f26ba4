//! `hugewise report --format json`: `hugewise.report/1`.

use hugewise_change::plan;
use hugewise_diagnose::target;
use hugewise_model::Bytes;

use super::Check;
use super::investigate::Investigate;
use super::json_view::json_view;
use super::size::{ForecastRowJson, MemoryBudgetJson, PoolTargetJson, SizeDocument};
use crate::formats::shown_words;
use crate::host_report::{Stop, VERSION};
use crate::view::plan as words;
use crate::view::target::relevant_goals;
use crate::{HostReport, date};

pub(crate) const REPORT_SCHEMA: &str = "hugewise.report/1";

json_view! {
    /// What `hugewise report --format json` prints: one reading of a host, checked, sized and
    /// planned for.
    #[schemars(title = "hugewise.report/1")]
    pub struct HostReportDocument from(report: &HostReport<'_>) {
        let why = |why: &&str| (*why).to_owned();
    } => {
        /// Name and version of this format.
        #[schemars(extend("const" = REPORT_SCHEMA))]
        schema: &'static str = REPORT_SCHEMA,
        /// Version of hugewise that made it.
        hugewise: &'static str = VERSION,
        /// When it was made, RFC 3339; null if the clock was out of range.
        made_at: Option<String> = date::format_rfc3339(report.made_at),
        /// What `hugewise check` says.
        check: Check = Check::from(&report.checked),
        /// The pools as they should be.
        target: Vec<PoolGoalJson> = relevant_goals(&report.checked)
            .map(|goal| PoolGoalJson::new(goal, report))
            .collect(),
        /// What `hugewise size` says; null where there is nothing to size.
        size: Option<SizeDocument> = report.sized.as_ref().ok().map(SizeDocument::from),
        /// Why it is null.
        size_reason: Option<String> = report.sized.as_ref().err().map(why),
        /// What `hugewise size --sessions` says for other numbers of sessions.
        what_if: Vec<WhatIf> = report.stops.iter().map(WhatIf::from).collect(),
        /// What `hugewise plan` would do; null where there is no plan.
        plan: Option<PlanSteps> =
            report.planned.as_ref().ok().map(|planned| PlanSteps::from(planned.plan)),
        /// Why it is null.
        plan_reason: Option<String> = report.planned.as_ref().err().map(why),
        /// What `hugewise investigate` says of the archives that were given; null where none were.
        investigation: Option<Investigate> = report.investigation.map(Investigate::from),
    }
}

json_view! {
    /// A pool as it should be.
    pub struct PoolGoalJson new(goal: &target::PoolGoal, report: &HostReport<'_>) {
        let at_boot = goal.pages_from_next_boot(report.checked.host, report.checked.instances);
    } => {
        /// Page size.
        page_bytes: u64 = goal.page_size.into(),
        /// Pages in it now, without surplus ones.
        now_pages: u64 = goal.now.get(),
        /// Pages that servers hold or are promised, or that are planned for them.
        needed_pages: u64 = goal.needed.get(),
        /// Pages that it should have.
        goal_pages: u64 = goal.goal.get(),
        /// Pages that each boot should bring.
        at_boot_pages: u64 = at_boot.get(),
        /// Memory that it takes then.
        memory_bytes: u64 = Bytes::get(goal.memory()),
        /// Why the running kernel is not asked for them; null if it is, or has them.
        not_now: Option<String> = goal.not_now.clone(),
    }
}

json_view! {
    /// The host at this number of sessions.
    pub struct WhatIf from(stop: &Stop) {
        let Stop { sessions, sizing } = stop;
        let of_it = sizing.forecast.iter().filter(|row| row.sessions == *sessions);
    } => {
        /// Sessions on the host.
        sessions: u64 = *sessions,
        /// Whether the host has room for the pools.
        fits: bool = sizing.refusal.is_none(),
        /// Pools as they should be; empty if they don't fit.
        pools: Vec<PoolTargetJson> =
            sizing.pools.iter().map(|pool| PoolTargetJson::new(pool, &[])).collect(),
        /// How the host's memory is divided.
        budget: MemoryBudgetJson = MemoryBudgetJson::from(&sizing.budget),
        /// Page tables and memory left if all servers were on pages of one size: the forecast's
        /// lines for this number of sessions.
        forecast: Vec<ForecastRowJson> = of_it.map(ForecastRowJson::from).collect(),
    }
}

json_view! {
    /// A plan for reading: `hugewise plan --out` saves one that can be applied.
    pub struct PlanSteps from(plan: &plan::Plan) => {
        /// When it was made, RFC 3339.
        made_at: String = plan.made_at.clone(),
        /// What is done, in this order.
        steps: Vec<PlanStep> = plan.steps.iter().map(PlanStep::from).collect(),
        /// What somebody has to do by hand.
        manual_steps: Vec<ManualStep> = plan.instructions.iter().map(ManualStep::from).collect(),
        /// What copies these settings or works against them.
        warnings: Vec<String> = plan.warnings.clone(),
        /// Why it should not be applied; null if nothing speaks against it.
        refusal: Option<Vec<String>> = plan.refusal.as_ref().map(|refusal| refusal.reasons.clone()),
    }
}

json_view! {
    /// Changes that belong together.
    pub struct PlanStep from(step: &plan::Step) => {
        /// Unique in a plan.
        id: String = step.id.clone(),
        /// What is done.
        title: String = step.title.clone(),
        /// What has to happen before it takes effect.
        #[schemars(extend("enum" = ["safe", "restart", "reboot", "destructive"]))]
        risk: &'static str = step.risk.as_str(),
        /// Why.
        why: String = step.why.clone(),
        /// The instance that it is for; null for the host.
        instance: Option<String> = step.instance.clone(),
        /// Findings that it ends, and when.
        ends: Vec<String> = step.expects.iter().map(words::describe_expected_end).collect(),
        /// What is changed: the lines removed and added, without context, and the commands that are
        /// run.
        changes: Vec<String> = step.changes.iter().map(describe_change).collect(),
    }
}

json_view! {
    /// A step that a person has to take.
    pub struct ManualStep from(step: &plan::Instruction) => {
        /// What.
        title: String = step.title.clone(),
        /// Commands or statements, and `#` lines between them.
        text: String = step.text.clone(),
        /// What has to happen before it takes effect.
        #[schemars(extend("enum" = ["safe", "restart", "reboot", "destructive"]))]
        risk: &'static str = step.risk.as_str(),
        /// The instance that it is for; null for the host.
        instance: Option<String> = step.instance.clone(),
    }
}

fn describe_change(change: &plan::Change) -> String {
    match change {
        plan::Change::Command(command) => format!("$ {}\n", shown_words(command)),
        other => words::changed_lines(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Report;
    use crate::samples;
    use crate::testing::sample_investigations;

    fn render_sample(sample: &samples::Sample) -> Value {
        let mut out = Vec::new();
        sample.with_whole_report(Some(&sample_investigations::hostile_investigation()), |report| {
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
            let report = render_sample(&sample);
            let errors: Vec<String> =
                validator.iter_errors(&report).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
        assert!(!validator.is_valid(&json!({"schema": "hugewise.report/2"})));
    }

    #[test]
    fn what_is_left_out_has_its_reason() {
        let report = render_sample(&samples::empty());
        assert_eq!((&report["size"], &report["plan"]), (&Value::Null, &Value::Null));
        assert!(report["size_reason"].as_str().unwrap().starts_with("nothing to size"), "{report}");
        assert_eq!(report["plan_reason"], "the host is half changed");
        assert_eq!(report["made_at"], "2023-11-14T22:13:20Z");
        let report = render_sample(&samples::prod());
        assert_eq!((&report["size_reason"], &report["plan_reason"]), (&Value::Null, &Value::Null));
        // 20,000 pages are there, of which nobody needs all.
        assert_eq!(report["target"][0]["page_bytes"], 2_097_152);
    }

    #[test]
    fn a_plan_shows_the_lines_that_change_and_none_around_them() {
        let report = render_sample(&samples::prod());
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
