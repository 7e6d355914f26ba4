use hugewise_change::ApplyResult;
use hugewise_change::journal::{JournalState, Unreadable};
use hugewise_change::outcome::{AppliedStep, RestoredItem};
use hugewise_model::PageCount;

use super::*;
use crate::formats::testing;
use crate::{Report, TextLayout, samples};

pub(crate) fn sample_applied(end: ApplyEnd) -> ApplyResult {
    let results = [
        StepResult::Partial { wanted: PageCount(600), obtained: PageCount(512) },
        StepResult::Done,
        StepResult::Failed { why: "/srv/pg: Permission denied".into() },
    ];
    let steps = testing::plan().steps.into_iter().zip(results);
    let steps = steps.map(|(step, result)| AppliedStep {
        id: step.id,
        title: step.title,
        risk: step.risk,
        result,
    });
    let notes = vec!["/etc/default/grub.d stays".into()];
    ApplyResult { journal: Some("7".into()), end, steps: steps.collect(), notes }
}

pub(crate) fn sample_finding_outcomes() -> Vec<FindingOutcome> {
    let expected = testing::plan().steps.remove(0).expects.remove(0);
    let finding_outcome_of = |proof| FindingOutcome {
        expected: expected.clone(),
        proof,
        says: "1.0 GiB on 4 KiB pages".into(),
    };
    vec![
        finding_outcome_of(Proof::Gone),
        finding_outcome_of(Proof::WaitsForRestart),
        finding_outcome_of(Proof::WaitsForReboot),
        finding_outcome_of(Proof::Remains),
        finding_outcome_of(Proof::Unknown),
    ]
}

pub(crate) fn sample_restarted_servers() -> Vec<RestartedServer> {
    let restarted_server_of =
        |standing| RestartedServer { instance: "postgresql 15/main".into(), standing };
    let standings = [Coverage::All, Coverage::Partly, Coverage::None, Coverage::Unknown];
    standings
        .into_iter()
        .map(|standing| restarted_server_of(Some(standing)))
        .chain([restarted_server_of(None)])
        .collect()
}

fn render_text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn each_step_and_each_finding_has_its_end() {
    let (host, plan) = (samples::prod().host, testing::plan());
    let (applied, expectations) = (sample_applied(ApplyEnd::Partly), sample_finding_outcomes());
    let restarted = sample_restarted_servers();
    let report = AppliedReport {
        host: &host,
        plan: &plan,
        applied: &applied,
        expectations: &expectations,
        restarted: &restarted,
        unkept: &sample_unkept_changes(),
        unread: &[],
    };
    insta::assert_snapshot!(render_text(|out| report
        .write_text(out, TextLayout::plain_text(80))
        .unwrap()));
}

#[test]
fn what_was_taken_back_needs_no_undo() {
    let (host, plan, applied) =
        (samples::prod().host, testing::plan(), sample_applied(ApplyEnd::TakenBack));
    let report = AppliedReport {
        host: &host,
        plan: &plan,
        applied: &applied,
        expectations: &[],
        restarted: &[],
        unkept: &[],
        unread: &[],
    };
    assert!(
        !render_text(|out| report.write_text(out, TextLayout::plain_text(80)).unwrap())
            .contains("hugewise undo")
    );
}

pub(crate) fn sample_undone() -> Undone {
    let restored = |what: &str, result| RestoredItem { what: what.into(), result };
    Undone {
        journal: "7".into(),
        complete: false,
        risk: Risk::Reboot,
        restored: vec![
            restored("/etc/sysctl.d/zz.conf", RestoreResult::Restored),
            restored("/usr/sbin/update-grub", RestoreResult::Ran),
            restored("/etc/old", RestoreResult::Failed { why: "Read-only file system".into() }),
        ],
        notes: Vec::new(),
    }
}

#[test]
fn undo_says_what_became_of_each_thing() {
    insta::assert_snapshot!(render_text(|out| sample_undone()
        .write_text(out, TextLayout::plain_text(80))
        .unwrap()));
}

pub(crate) fn sample_unkept_changes() -> [UnpersistedChange; 2] {
    let unkept = |what: &str, why: &str, lost| UnpersistedChange {
        what: what.into(),
        why: why.into(),
        lost,
    };
    [
        unkept(
            "vm.nr_hugepages = 600 at the next boot",
            "/etc/sysctl.d/zzz.conf:1 is read later and sets 0",
            true,
        ),
        unkept("a memlock limit of unlimited for logins of oracle", "permission denied", false),
    ]
}

pub(crate) fn sample_unreadable_journal() -> Unreadable {
    let path = "/var/lib/hugewise/journal/0008.journal".into();
    Unreadable { id: Some(8), path, why: "line 1: not a hugewise journal".into(), newer: false }
}

#[test]
fn what_does_not_last_is_not_called_done() {
    let (host, plan, applied, unkept) = (
        samples::prod().host,
        testing::plan(),
        sample_applied(ApplyEnd::Done),
        sample_unkept_changes(),
    );
    let report = |unkept| {
        let (expectations, restarted): (&[FindingOutcome], &[RestartedServer]) = (&[], &[]);
        let report = AppliedReport {
            host: &host,
            plan: &plan,
            applied: &applied,
            expectations,
            restarted,
            unkept,
            unread: &[],
        };
        render_text(|out| report.write_text(out, TextLayout::plain_text(200)).unwrap())
    };
    assert!(report(&[]).contains("All steps are done."));
    let lost = report(&unkept);
    assert!(
        !lost.contains("is done.")
            && lost.contains("1 thing will not last")
            && lost.contains("zzz.conf:1"),
        "{lost}"
    );
    assert!(!report(&unkept[1..]).contains("is done."));
}

pub(crate) fn sample_journals() -> [JournalSummary; 2] {
    let summary = |id: &str, state| JournalSummary {
        id: id.into(),
        at: 1_700_000_000,
        hugewise: "1.2.3".into(),
        state,
        steps: vec!["600 pages of 2 MiB".into(), "pages at boot".into()],
    };
    [summary("7", JournalState::Done), summary("6", JournalState::Undone)]
}

#[test]
fn what_was_applied_so_far() {
    insta::assert_snapshot!(render_text(|out| JournalListing {
        journals: &sample_journals(),
        unreadable: &[sample_unreadable_journal()]
    }
    .write_text(out, TextLayout::plain_text(80))
    .unwrap()));
    assert_eq!(
        render_text(|out| JournalListing { journals: &[], unreadable: &[] }
            .write_text(out, TextLayout::plain_text(80))
            .unwrap()),
        "Nothing has been applied on this host.\n"
    );
}
