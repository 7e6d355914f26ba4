//! `hugewise apply` and `undo` with `--format json`: `hugewise.applied/1`, `hugewise.undone/1` and
//! `hugewise.journals/1`.

use hugewise_change::journal::{JournalSummary, Unreadable};
use hugewise_change::outcome::{RestoreResult, RestoredItem, StepResult};
use hugewise_change::plan::Instruction;
use hugewise_change::{ApplyEnd, Undone, UnpersistedChange};
use hugewise_diagnose::coverage::Coverage;
use hugewise_model::PageCount;

use super::UnreadFact;
use super::json_view::json_view;
use crate::{AppliedReport, FindingOutcome, JournalListing, RestartedServer, date};

pub(crate) const APPLIED_SCHEMA: &str = "hugewise.applied/1";
pub(crate) const UNDONE_SCHEMA: &str = "hugewise.undone/1";
pub(crate) const JOURNALS_SCHEMA: &str = "hugewise.journals/1";

json_view! {
    /// What `hugewise apply --format json` prints.
    #[schemars(title = "hugewise.applied/1")]
    pub struct AppliedDocument from(report: &AppliedReport<'_>) {
        let applied = report.applied;
    } => {
        /// Name and version of this format.
        #[schemars(extend("const" = APPLIED_SCHEMA))]
        schema: &'static str = APPLIED_SCHEMA,
        /// Checksum of the plan.
        plan: String = report.plan.checksum.clone(),
        /// The ID for `hugewise undo`; null if there was nothing to do.
        journal: Option<String> = applied.journal.clone(),
        /// How it ended.
        #[schemars(extend("enum" = ["nothing-to-do", "done", "partly", "taken-back", "stuck"]))]
        end: &'static str = match applied.end {
            ApplyEnd::NothingToDo => "nothing-to-do",
            ApplyEnd::Done => "done",
            ApplyEnd::Partly => "partly",
            ApplyEnd::TakenBack => "taken-back",
            ApplyEnd::Stuck => "stuck",
        },
        /// Each step of the plan.
        steps: Vec<StepOutcomeJson> = applied.steps.iter().map(StepOutcomeJson::from).collect(),
        /// The findings that it was to end, looked at again.
        findings: Vec<FindingOutcomeJson> =
            report.expectations.iter().map(FindingOutcomeJson::from).collect(),
        /// The servers that it has restarted, and where their memory is now.
        restarted: Vec<RestartedServerJson> =
            report.restarted.iter().map(RestartedServerJson::from).collect(),
        /// Changes that the next boot, login or start of a server will not find in place.
        unkept: Vec<UnkeptChangeJson> =
            report.unkept.iter().map(UnkeptChangeJson::from).collect(),
        /// The manual steps.
        instructions: Vec<Instruction> = report.plan.instructions.clone(),
        /// What copies these settings or works against them.
        warnings: Vec<String> = report.plan.warnings.clone(),
        /// What else readers should know.
        notes: Vec<String> = applied.notes.clone(),
        /// Everything that exists but could not be read.
        unread: Vec<UnreadFact> = report.unread.iter().map(UnreadFact::from).collect(),
    }
}

json_view! {
    /// How a step ended.
    pub struct StepOutcomeJson from(step: &hugewise_change::outcome::AppliedStep) {
        let (result, why, pages) = match &step.result {
            StepResult::Done => ("done", None, None),
            StepResult::AlreadySo => ("already-so", None, None),
            StepResult::Partial { wanted, obtained } => {
                ("partial", None, Some((*wanted, *obtained)))
            }
            StepResult::Failed { why } => ("failed", Some(why.clone()), None),
            StepResult::TakenBack => ("taken-back", None, None),
            StepResult::NotTried => ("not-tried", None, None),
        };
    } => {
        /// Its ID.
        id: String = step.id.clone(),
        /// Its title.
        title: String = step.title.clone(),
        /// What it still needs to take effect.
        #[schemars(extend("enum" = ["safe", "restart", "reboot"]))]
        risk: &'static str = step.risk.as_str(),
        /// How it ended.
        #[schemars(extend("enum" = ["done", "already-so", "partial", "failed", "taken-back", "not-tried"]))]
        result: &'static str = result,
        /// Why it failed; null if it did not.
        why: Option<String> = why,
        /// Pages that were requested, if the kernel gave fewer.
        wanted_pages: Option<u64> = pages.map(|(wanted, _): (PageCount, PageCount)| wanted.get()),
        /// Pages that the kernel gave, if fewer.
        obtained_pages: Option<u64> = pages.map(|(_, obtained)| obtained.get()),
    }
}

json_view! {
    /// A finding that a step should end.
    pub struct FindingOutcomeJson from(outcome: &FindingOutcome) => {
        /// `HW201`.
        code: String = outcome.expected.code.clone(),
        /// `no-pool`.
        name: String = outcome.expected.name.clone(),
        /// Title of the instance; null for the host.
        instance: Option<String> = outcome.expected.instance.clone(),
        /// What happened to it.
        #[schemars(extend("enum" = ["gone", "waits-for-restart", "waits-for-reboot", "remains", "unknown"]))]
        proof: &'static str = outcome.proof.as_str(),
        /// What the finding says now; empty if it is gone.
        says: String = outcome.says.clone(),
    }
}

json_view! {
    /// A change that will not last.
    pub struct UnkeptChangeJson from(change: &UnpersistedChange) => {
        /// What it should be.
        what: String = change.what.clone(),
        /// Which file and line wins instead, or what could not be read.
        why: String = change.why.clone(),
        /// Whether it is lost; false means that this could not be determined.
        lost: bool = change.lost,
    }
}

json_view! {
    /// A server that was restarted.
    pub struct RestartedServerJson from(server: &RestartedServer) => {
        /// Its title.
        instance: String = server.instance.clone(),
        /// How much of its memory is on huge pages; null if it is not running.
        #[schemars(extend("enum" = ["all", "partly", "none", "unknown", "not_counted", null]))]
        huge_pages: Option<&'static str> = server.standing.as_ref().map(Coverage::as_str),
    }
}

json_view! {
    /// What `hugewise undo --format json` prints.
    #[schemars(title = "hugewise.undone/1")]
    pub struct UndoneDocument from(undone: &Undone) {
        let waits = undone
            .restored
            .iter()
            .any(|restored| matches!(restored.result, RestoreResult::Waits { .. }));
    } => {
        /// Name and version of this format.
        #[schemars(extend("const" = UNDONE_SCHEMA))]
        schema: &'static str = UNDONE_SCHEMA,
        /// The apply that was undone.
        journal: String = undone.journal.clone(),
        /// Whether everything is as before.
        complete: bool = undone.complete && !waits,
        /// What has to happen before that takes effect.
        #[schemars(extend("enum" = ["safe", "restart", "reboot"]))]
        risk: &'static str = undone.risk.as_str(),
        /// What was done, in this order.
        restored: Vec<RestoredJson> = undone.restored.iter().map(RestoredJson::from).collect(),
        /// What else readers should know.
        notes: Vec<String> = undone.notes.clone(),
    }
}

json_view! {
    /// One thing that undo looked at.
    pub struct RestoredJson from(restored: &RestoredItem) {
        let (result, why) = match &restored.result {
            RestoreResult::Restored => ("restored", None),
            RestoreResult::AlreadySo => ("already-so", None),
            RestoreResult::Ran => ("ran", None),
            RestoreResult::Waits { for_apply } => {
                ("waits", Some(format!("for the undo of apply {for_apply}")))
            }
            RestoreResult::Left { why } => ("left", Some(why.clone())),
            RestoreResult::Failed { why } => ("failed", Some(why.clone())),
        };
    } => {
        /// Path or command line.
        what: String = restored.what.clone(),
        /// What happened to it.
        #[schemars(extend("enum" = ["restored", "already-so", "ran", "waits", "left", "failed"]))]
        result: &'static str = result,
        /// Why it failed, was left or waits; null if none of these.
        why: Option<String> = why,
    }
}

json_view! {
    /// What `hugewise undo --list --format json` prints.
    #[schemars(title = "hugewise.journals/1")]
    pub struct Journals from(kept: &JournalListing<'_>) => {
        /// Name and version of this format.
        #[schemars(extend("const" = JOURNALS_SCHEMA))]
        schema: &'static str = JOURNALS_SCHEMA,
        /// What was applied here.
        journals: Vec<JournalJson> = kept.journals.iter().map(JournalJson::from).collect(),
        /// What is among the journals but cannot be read as one: it blocks nothing else.
        unreadable: Vec<UnreadableJournal> =
            kept.unreadable.iter().map(UnreadableJournal::from).collect(),
    }
}

json_view! {
    /// What cannot be read as a journal.
    pub struct UnreadableJournal from(unreadable: &Unreadable) => {
        /// Its file.
        path: String = unreadable.path.clone(),
        /// What is wrong with it.
        why: String = unreadable.why.clone(),
        /// What to do about it.
        advice: String = unreadable.recovery_advice(),
    }
}

json_view! {
    /// One apply.
    pub struct JournalJson from(summary: &JournalSummary) => {
        /// The ID for `hugewise undo`.
        id: String = summary.id.clone(),
        /// When it began; null if the clock was out of range.
        begun_at: Option<String> = date::format_rfc3339(summary.at),
        /// Version of hugewise.
        hugewise: String = summary.hugewise.clone(),
        /// Its state.
        #[schemars(extend("enum" = ["running", "done", "taken-back", "undoing", "stuck", "waiting", "undone-except", "undone"]))]
        state: &'static str = summary.state.as_str(),
        /// Titles of its steps.
        steps: Vec<String> = summary.steps.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::Report;
    use crate::formats::testing;
    use crate::samples;
    use crate::text::applied::tests::{
        sample_applied, sample_finding_outcomes, sample_journals, sample_restarted_servers,
        sample_undone, sample_unkept_changes, sample_unreadable_journal,
    };

    #[track_caller]
    fn assert_obeys(schema: &str, document: &Value) {
        let schema: Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
    }

    fn json(write: impl FnOnce(&mut Vec<u8>)) -> Value {
        let mut out = Vec::new();
        write(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn every_document_obeys_its_schema() {
        let (host, plan, expectations) =
            (samples::prod().host, testing::plan(), sample_finding_outcomes());
        for end in [
            ApplyEnd::NothingToDo,
            ApplyEnd::Done,
            ApplyEnd::Partly,
            ApplyEnd::TakenBack,
            ApplyEnd::Stuck,
        ] {
            let applied = sample_applied(end);
            let report = AppliedReport {
                host: &host,
                plan: &plan,
                applied: &applied,
                expectations: &expectations,
                restarted: &sample_restarted_servers(),
                unkept: &sample_unkept_changes(),
                unread: &[],
            };
            let document = json(|out| report.write_json(out).unwrap());
            assert_obeys(&crate::json::schema_of::<AppliedDocument>(), &document);
            assert_eq!(document["steps"][0]["obtained_pages"], 512);
            assert_eq!(document["findings"][1]["proof"], "waits-for-restart");
        }
        assert_obeys(
            &crate::json::schema_of::<UndoneDocument>(),
            &json(|out| sample_undone().write_json(out).unwrap()),
        );
        let journals = json(|out| {
            let (journals, unreadable) = (&sample_journals(), &[sample_unreadable_journal()]);
            JournalListing { journals, unreadable }.write_json(out).unwrap()
        });
        assert_obeys(&crate::json::schema_of::<Journals>(), &journals);
        assert_eq!(journals["journals"][0]["begun_at"], "2023-11-14T22:13:20Z");
    }

    #[test]
    fn a_plan_obeys_its_schema() {
        let plan: Value = serde_json::from_str(&testing::plan().to_json()).unwrap();
        assert_obeys(&hugewise_change::plan::plan_schema(), &plan);
    }
}
