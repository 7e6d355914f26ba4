//! `hugewise apply` and `undo` with `--format json`: `hugewise.applied/1`, `hugewise.undone/1` and
//! `hugewise.journals/1`.

use hugewise_change::outcome::{RestoreResult, StepResult};
use hugewise_change::plan::Instruction;
use hugewise_change::{ApplyEnd, Undone};
use hugewise_diagnose::coverage::Coverage;
use hugewise_model::PageCount;
use schemars::JsonSchema;
use serde::Serialize;

use super::UnreadFact;
use crate::{AppliedReport, JournalListing, date};

pub(crate) const APPLIED_SCHEMA: &str = "hugewise.applied/1";
pub(crate) const UNDONE_SCHEMA: &str = "hugewise.undone/1";
pub(crate) const JOURNALS_SCHEMA: &str = "hugewise.journals/1";

/// What `hugewise apply --format json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.applied/1")]
pub struct AppliedDocument {
    /// Name and version of this format.
    #[schemars(extend("const" = APPLIED_SCHEMA))]
    pub schema: &'static str,
    /// Checksum of the plan.
    pub plan: String,
    /// The ID for `hugewise undo`; null if there was nothing to do.
    pub journal: Option<String>,
    /// How it ended.
    #[schemars(extend("enum" = ["nothing-to-do", "done", "partly", "taken-back", "stuck"]))]
    pub end: &'static str,
    /// Each step of the plan.
    pub steps: Vec<StepOutcomeJson>,
    /// The findings that it was to end, looked at again.
    pub findings: Vec<FindingOutcomeJson>,
    /// The servers that it has restarted, and where their memory is now.
    pub restarted: Vec<RestartedServerJson>,
    /// Changes that the next boot, login or start of a server will not find in place.
    pub unkept: Vec<UnkeptChangeJson>,
    /// The manual steps.
    pub instructions: Vec<Instruction>,
    /// What copies these settings or works against them.
    pub warnings: Vec<String>,
    /// What else readers should know.
    pub notes: Vec<String>,
    /// Everything that exists but could not be read.
    pub unread: Vec<UnreadFact>,
}

/// How a step ended.
#[derive(Serialize, JsonSchema)]
pub struct StepOutcomeJson {
    /// Its ID.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What it still needs to take effect.
    #[schemars(extend("enum" = ["safe", "restart", "reboot"]))]
    pub risk: &'static str,
    /// How it ended.
    #[schemars(extend("enum" = ["done", "already-so", "partial", "failed", "taken-back", "not-tried"]))]
    pub result: &'static str,
    /// Why it failed; null if it did not.
    pub why: Option<String>,
    /// Pages that were requested, if the kernel gave fewer.
    pub wanted_pages: Option<u64>,
    /// Pages that the kernel gave, if fewer.
    pub obtained_pages: Option<u64>,
}

/// A finding that a step should end.
#[derive(Serialize, JsonSchema)]
pub struct FindingOutcomeJson {
    /// `HW201`.
    pub code: String,
    /// `no-pool`.
    pub name: String,
    /// Title of the instance; null for the host.
    pub instance: Option<String>,
    /// What happened to it.
    #[schemars(extend("enum" = ["gone", "waits-for-restart", "waits-for-reboot", "remains", "unknown"]))]
    pub proof: &'static str,
    /// What the finding says now; empty if it is gone.
    pub says: String,
}

/// A change that will not last.
#[derive(Serialize, JsonSchema)]
pub struct UnkeptChangeJson {
    /// What it should be.
    pub what: String,
    /// Which file and line wins instead, or what could not be read.
    pub why: String,
    /// Whether it is lost; false means that this could not be determined.
    pub lost: bool,
}

/// A server that was restarted.
#[derive(Serialize, JsonSchema)]
pub struct RestartedServerJson {
    /// Its title.
    pub instance: String,
    /// How much of its memory is on huge pages; null if it is not running.
    #[schemars(extend("enum" = ["all", "partly", "none", "unknown", "not_counted", null]))]
    pub huge_pages: Option<&'static str>,
}

/// What `hugewise undo --format json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.undone/1")]
pub struct UndoneDocument {
    /// Name and version of this format.
    #[schemars(extend("const" = UNDONE_SCHEMA))]
    pub schema: &'static str,
    /// The apply that was undone.
    pub journal: String,
    /// Whether everything is as before.
    pub complete: bool,
    /// What has to happen before that takes effect.
    #[schemars(extend("enum" = ["safe", "restart", "reboot"]))]
    pub risk: &'static str,
    /// What was done, in this order.
    pub restored: Vec<RestoredJson>,
    /// What else readers should know.
    pub notes: Vec<String>,
}

/// One thing that undo looked at.
#[derive(Serialize, JsonSchema)]
pub struct RestoredJson {
    /// Path or command line.
    pub what: String,
    /// What happened to it.
    #[schemars(extend("enum" = ["restored", "already-so", "ran", "waits", "left", "failed"]))]
    pub result: &'static str,
    /// Why it failed, was left or waits; null if none of these.
    pub why: Option<String>,
}

/// What `hugewise undo --list --format json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hugewise.journals/1")]
pub struct Journals {
    /// Name and version of this format.
    #[schemars(extend("const" = JOURNALS_SCHEMA))]
    pub schema: &'static str,
    /// What was applied here.
    pub journals: Vec<JournalJson>,
    /// What is among the journals but cannot be read as one: it blocks nothing else.
    pub unreadable: Vec<UnreadableJournal>,
}

/// What cannot be read as a journal.
#[derive(Serialize, JsonSchema)]
pub struct UnreadableJournal {
    /// Its file.
    pub path: String,
    /// What is wrong with it.
    pub why: String,
    /// What to do about it.
    pub advice: String,
}

/// One apply.
#[derive(Serialize, JsonSchema)]
pub struct JournalJson {
    /// The ID for `hugewise undo`.
    pub id: String,
    /// When it began; null if the clock was out of range.
    pub begun_at: Option<String>,
    /// Version of hugewise.
    pub hugewise: String,
    /// Its state.
    #[schemars(extend("enum" = ["running", "done", "taken-back", "undoing", "stuck", "waiting", "undone-except", "undone"]))]
    pub state: &'static str,
    /// Titles of its steps.
    pub steps: Vec<String>,
}

impl From<&AppliedReport<'_>> for AppliedDocument {
    fn from(report: &AppliedReport<'_>) -> Self {
        let applied = report.applied;
        let end = match applied.end {
            ApplyEnd::NothingToDo => "nothing-to-do",
            ApplyEnd::Done => "done",
            ApplyEnd::Partly => "partly",
            ApplyEnd::TakenBack => "taken-back",
            ApplyEnd::Stuck => "stuck",
        };
        let expectations = report.expectations.iter().map(|finding_outcome| FindingOutcomeJson {
            code: finding_outcome.expected.code.clone(),
            name: finding_outcome.expected.name.clone(),
            instance: finding_outcome.expected.instance.clone(),
            proof: finding_outcome.proof.as_str(),
            says: finding_outcome.says.clone(),
        });
        let restarted = report.restarted.iter().map(|restarted_server| RestartedServerJson {
            instance: restarted_server.instance.clone(),
            huge_pages: restarted_server.standing.as_ref().map(Coverage::as_str),
        });
        Self {
            schema: APPLIED_SCHEMA,
            plan: report.plan.checksum.clone(),
            journal: applied.journal.clone(),
            end,
            steps: applied.steps.iter().map(StepOutcomeJson::from).collect(),
            findings: expectations.collect(),
            restarted: restarted.collect(),
            unkept: report
                .unkept
                .iter()
                .map(|unpersisted_change| UnkeptChangeJson {
                    what: unpersisted_change.what.clone(),
                    why: unpersisted_change.why.clone(),
                    lost: unpersisted_change.lost,
                })
                .collect(),
            instructions: report.plan.instructions.clone(),
            warnings: report.plan.warnings.clone(),
            notes: applied.notes.clone(),
            unread: report.unread.iter().map(UnreadFact::from).collect(),
        }
    }
}

impl From<&hugewise_change::outcome::AppliedStep> for StepOutcomeJson {
    fn from(step: &hugewise_change::outcome::AppliedStep) -> Self {
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
        Self {
            id: step.id.clone(),
            title: step.title.clone(),
            risk: step.risk.as_str(),
            result,
            why,
            wanted_pages: pages.map(|(wanted, _): (PageCount, PageCount)| wanted.get()),
            obtained_pages: pages.map(|(_, obtained)| obtained.get()),
        }
    }
}

impl From<&Undone> for UndoneDocument {
    fn from(undone: &Undone) -> Self {
        let restored = undone.restored.iter().map(|restored| {
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
            RestoredJson { what: restored.what.clone(), result, why }
        });
        let waits = undone
            .restored
            .iter()
            .any(|restored| matches!(restored.result, RestoreResult::Waits { .. }));
        Self {
            schema: UNDONE_SCHEMA,
            journal: undone.journal.clone(),
            complete: undone.complete && !waits,
            risk: undone.risk.as_str(),
            restored: restored.collect(),
            notes: undone.notes.clone(),
        }
    }
}

impl From<&JournalListing<'_>> for Journals {
    fn from(kept: &JournalListing<'_>) -> Self {
        let journals = kept.journals.iter().map(|summary| JournalJson {
            id: summary.id.clone(),
            begun_at: date::format_rfc3339(summary.at),
            hugewise: summary.hugewise.clone(),
            state: summary.state.as_str(),
            steps: summary.steps.clone(),
        });
        let unreadable = kept.unreadable.iter().map(|unreadable| UnreadableJournal {
            path: unreadable.path.clone(),
            why: unreadable.why.clone(),
            advice: unreadable.recovery_advice(),
        });
        Self {
            schema: JOURNALS_SCHEMA,
            journals: journals.collect(),
            unreadable: unreadable.collect(),
        }
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
