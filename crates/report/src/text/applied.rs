//! What `hugewise apply` and `hugewise undo` say in the end.

use std::io;

use hugewise_advice::standing::Standing;
use hugewise_change::journal::Summary;
use hugewise_change::outcome::{RestoreResult, StepResult};
use hugewise_change::{End, Risk, Undone, Unkept};

use super::{closing, counted};
use crate::formats::whose;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table::{self, Cell, Column};
use crate::view::plan::{finding, role as role_of};
use crate::{AppliedReport, Expectation, Kept, Layout, Proof, Restarted, date};

/// Columns of the words in front.
const WORD: usize = 11;

/// `done       text`.
fn entry(screen: &mut Screen<'_>, role: Role, word: &str, text: &Spans) -> io::Result<()> {
    let mut line = Spans::new().add(role, &format!("{word:WORD$}"));
    line.append(text);
    screen.flow(WORD, &line)
}

pub(crate) fn write(report: &AppliedReport<'_>, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let screen = &mut Screen::new(out, layout);
    for step in &report.applied.steps {
        let (role, word, more) = result(&step.result);
        let mut text = Spans::new().add(Role::Strong, &step.id).add(Role::Text, &format!("  {}", step.title));
        text.push(Role::Text, &more);
        if step.risk != Risk::Safe && matches!(step.result, StepResult::Done | StepResult::Partial { .. }) {
            text.push(Role::Text, "  ");
            text.push(role_of(step.risk), step.risk.as_str());
        }
        entry(screen, role, word, &text)?;
    }
    for expectation in report.expectations {
        proof(screen, expectation)?;
    }
    for Restarted { instance, standing } in report.restarted {
        let (role, word, text) = match standing {
            Some(Standing::All) => (Role::Good, "verified", "is wholly on huge pages"),
            Some(Standing::Partly) => (Role::Error, "problem", "is only partly on huge pages"),
            Some(Standing::None) => (Role::Error, "problem", "is not on huge pages"),
            Some(Standing::DoesNotStart) => (Role::Error, "problem", "did not start"),
            Some(Standing::Unknown) => (Role::Quiet, "unknown", "is running, but its memory could not be read"),
            Some(Standing::NotCounted(why)) => (Role::Quiet, "unknown", *why),
            Some(Standing::NotRunning) | None => (Role::Error, "problem", "is not running"),
        };
        let text = Spans::new().add(Role::Strong, instance).add(Role::Text, &format!("  {text}"));
        entry(screen, role, word, &text)?;
    }
    for Unkept { what, why, lost } in report.unkept {
        let (role, word) = if *lost { (Role::Error, "not kept") } else { (Role::Quiet, "unknown") };
        let text = Spans::new().add(Role::Strong, what).add(Role::Text, &format!("  {why}"));
        entry(screen, role, word, &text)?;
    }
    for note in &report.applied.notes {
        entry(screen, Role::Warn, "note", &Spans::from(note.as_str()))?;
    }
    for instruction in &report.plan.instructions {
        let of = whose(instruction).map(|instance| format!(" ({instance})")).unwrap_or_default();
        entry(screen, Role::Strong, "by hand", &Spans::from(format!("{}{of}", instruction.title).as_str()))?;
        for line in instruction.text.lines() {
            let role = if line.trim_start().starts_with('#') { Role::Quiet } else { Role::Text };
            screen.line(&Spans::from(" ".repeat(WORD).as_str()).add(role, line))?;
        }
    }
    for warning in &report.plan.warnings {
        entry(screen, Role::Warn, "note", &Spans::from(warning.as_str()))?;
    }
    let mut last = Spans::new().add(end_role(report), &end(report));
    if let Some(id) = &report.applied.journal
        && !matches!(report.applied.end, End::TakenBack | End::NothingToDo)
        && report.plan.can_be_undone()
    {
        last.push(Role::Text, &format!(" hugewise undo {id} reverses it."));
    }
    let nothing = report.applied.steps.is_empty() && report.applied.notes.is_empty();
    if !nothing || !report.plan.instructions.is_empty() || !report.plan.warnings.is_empty() {
        screen.blank()?;
    }
    closing::end(screen, last, report.host, report.unread, false)
}

fn result(result: &StepResult) -> (Role, &'static str, String) {
    match result {
        StepResult::Done => (Role::Good, "done", String::new()),
        StepResult::AlreadySo => (Role::Quiet, "unchanged", String::new()),
        StepResult::Partial { wanted, obtained } => {
            (Role::Warn, "partly", format!("; the kernel gave {obtained} of {}, which are kept", wanted.in_pages()))
        }
        StepResult::Failed { why } => (Role::Error, "failed", format!("; {why}")),
        StepResult::TakenBack => (Role::Warn, "rolled back", String::new()),
        StepResult::NotTried => (Role::Quiet, "skipped", String::new()),
    }
}

fn proof(screen: &mut Screen<'_>, expectation: &Expectation) -> io::Result<()> {
    let (role, word, more) = match expectation.proof {
        Proof::Gone => (Role::Good, "gone", ""),
        Proof::WaitsForRestart if expectation.expected.instance.is_some() => {
            (Role::Warn, "waits", ", until it is restarted")
        }
        Proof::WaitsForRestart => (Role::Warn, "waits", ", until the servers are restarted"),
        Proof::WaitsForReboot => (Role::Warn, "waits", ", until the host is rebooted"),
        Proof::Remains => (Role::Error, "remains", ""),
        Proof::Unknown => (Role::Quiet, "unknown", ""),
    };
    let mut text = Spans::from(finding(&expectation.expected).as_str()).add(Role::Text, more);
    if matches!(expectation.proof, Proof::Remains | Proof::Unknown) && !expectation.says.is_empty() {
        text.push(Role::Text, &format!(": {}", expectation.says));
    }
    entry(screen, role, word, &text)
}

fn end_role(report: &AppliedReport<'_>) -> Role {
    match report.applied.end {
        End::Done | End::NothingToDo if report.unkept.is_empty() => Role::Good,
        End::Done | End::NothingToDo | End::Partly => Role::Warn,
        End::TakenBack | End::Stuck => Role::Error,
    }
}

fn end(report: &AppliedReport<'_>) -> String {
    let of = |proof: Proof| report.expectations.iter().filter(|it| it.proof == proof).count();
    let lost = report.unkept.iter().filter(|one| one.lost).count();
    let mut text = match report.applied.end {
        End::Done | End::NothingToDo if lost > 0 => {
            let counted = counted(lost, "thing will not last", "things will not last");
            format!("All changes are written, but {counted}: see the lines \"not kept\".")
        }
        End::Done if !report.unkept.is_empty() => {
            "All changes are written, but whether they last could not be determined.".into()
        }
        End::NothingToDo => "Nothing to do: the host was already as planned.".to_owned(),
        End::Done => "All steps are done.".into(),
        End::Partly => "Only some steps are done.".into(),
        End::TakenBack => "A step failed, and everything was rolled back.".into(),
        End::Stuck => "A step failed, and not everything could be rolled back.".into(),
    };
    let waiting = of(Proof::WaitsForRestart) + of(Proof::WaitsForReboot);
    if waiting > 0 {
        text += &format!(" {} a restart or reboot.", counted(waiting, "finding waits for", "findings wait for"));
    }
    if of(Proof::Remains) > 0 {
        text += &format!(" {}.", counted(of(Proof::Remains), "finding remains", "findings remain"));
    }
    text
}

pub(crate) fn write_undone(undone: &Undone, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let screen = &mut Screen::new(out, layout);
    for restored in &undone.restored {
        let (role, word, more) = match &restored.result {
            RestoreResult::Restored => (Role::Good, "restored", String::new()),
            RestoreResult::AlreadySo => (Role::Quiet, "unchanged", String::new()),
            RestoreResult::Ran => (Role::Good, "ran", String::new()),
            RestoreResult::Waits { for_apply } => (
                Role::Warn,
                "waits",
                format!("; apply {for_apply} has changed it since: hugewise undo {for_apply} restores both"),
            ),
            RestoreResult::Left { why } => (Role::Error, "left", format!("; {why}")),
            RestoreResult::Failed { why } => (Role::Error, "failed", format!("; {why}")),
        };
        entry(screen, role, word, &Spans::from(restored.what.as_str()).add(Role::Text, &more))?;
    }
    for note in &undone.notes {
        entry(screen, Role::Warn, "note", &Spans::from(note.as_str()))?;
    }
    screen.blank()?;
    let id = &undone.journal;
    let then = match undone.risk {
        Risk::Safe | Risk::Destructive => "",
        Risk::Restart => " Servers return to their old settings when they are restarted.",
        Risk::Reboot => " Boot settings return to the old values when the host is rebooted.",
    };
    let last = match undone.complete {
        true => {
            let waits = undone.restored.iter().any(|one| matches!(one.result, RestoreResult::Waits { .. }));
            let text = if waits {
                format!("Apply {id} is undone, except for what waits.")
            } else {
                format!("Apply {id} is undone: every file and value is as it was before.")
            };
            Spans::new().add(if waits { Role::Warn } else { Role::Good }, &text).add(Role::Text, then)
        }
        false => {
            let failed = undone.restored.iter().any(|one| matches!(one.result, RestoreResult::Failed { .. }));
            let what = if failed { "is only partly undone" } else { "is undone, except for what was left" };
            let text = format!("Apply {id} {what}: run hugewise undo {id} to try again.");
            Spans::new().add(Role::Error, &text)
        }
    };
    screen.flow(0, &last)
}

const COLUMNS: [Column; 4] = [
    Column { heading: "apply", short: "apply", right: true, least: None },
    Column { heading: "begun", short: "begun", right: false, least: None },
    Column { heading: "state", short: "state", right: false, least: None },
    Column { heading: "steps", short: "steps", right: false, least: Some(12) },
];

pub(crate) fn write_kept(kept: &Kept<'_>, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let screen = &mut Screen::new(out, layout);
    if kept.journals.is_empty() && kept.unreadable.is_empty() {
        return screen.flow(0, &Spans::from("Nothing has been applied on this host."));
    }
    let row = |summary: &Summary| {
        let at = date::rfc3339(summary.at).unwrap_or_else(|| summary.at.to_string());
        let role = if summary.state.is_over() { Role::Quiet } else { Role::Strong };
        vec![
            Cell::new(Role::Strong, &summary.id),
            Cell::new(Role::Text, at),
            Cell::new(role, summary.state.as_str()),
            Cell::new(Role::Text, summary.steps.join("; ")),
        ]
    };
    if !kept.journals.is_empty() {
        table::write(screen, &COLUMNS, &kept.journals.iter().map(row).collect::<Vec<_>>())?;
    }
    for unreadable in kept.unreadable {
        let text = Spans::new()
            .add(Role::Strong, &unreadable.path)
            .add(Role::Text, &format!("  {}; {}", unreadable.why, unreadable.advice()));
        entry(screen, Role::Error, "unreadable", &text)?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use hugewise_change::Applied;
    use hugewise_change::journal::{State, Unreadable};
    use hugewise_change::outcome::{Restored, StepOutcome};
    use hugewise_model::PageCount;

    use super::*;
    use crate::formats::testing;
    use crate::{UndoneReport, samples};

    pub(crate) fn applied(end: End) -> Applied {
        let results = [
            StepResult::Partial { wanted: PageCount(600), obtained: PageCount(512) },
            StepResult::Done,
            StepResult::Failed { why: "/srv/pg: Permission denied".into() },
        ];
        let steps = testing::plan().steps.into_iter().zip(results);
        let steps = steps.map(|(step, result)| StepOutcome { id: step.id, title: step.title, risk: step.risk, result });
        let notes = vec!["/etc/default/grub.d stays".into()];
        Applied { journal: Some("7".into()), end, steps: steps.collect(), notes }
    }

    pub(crate) fn expectations() -> Vec<Expectation> {
        let expected = testing::plan().steps.remove(0).expects.remove(0);
        let of = |proof| Expectation { expected: expected.clone(), proof, says: "1.0 GiB on 4 KiB pages".into() };
        vec![
            of(Proof::Gone),
            of(Proof::WaitsForRestart),
            of(Proof::WaitsForReboot),
            of(Proof::Remains),
            of(Proof::Unknown),
        ]
    }

    pub(crate) fn restarted() -> Vec<Restarted> {
        let of = |standing| Restarted { instance: "postgresql 15/main".into(), standing };
        let standings = [Standing::All, Standing::Partly, Standing::None, Standing::Unknown];
        standings.into_iter().map(|standing| of(Some(standing))).chain([of(None)]).collect()
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_step_and_each_finding_has_its_end() {
        let (host, plan) = (samples::prod().host, testing::plan());
        let (applied, expectations) = (applied(End::Partly), expectations());
        let restarted = restarted();
        let report = AppliedReport {
            host: &host,
            plan: &plan,
            applied: &applied,
            expectations: &expectations,
            restarted: &restarted,
            unkept: &unkept(),
            unread: &[],
        };
        insta::assert_snapshot!(text(|out| report.write_text(out, Layout::plain(80)).unwrap()));
    }

    #[test]
    fn what_was_taken_back_needs_no_undo() {
        let (host, plan, applied) = (samples::prod().host, testing::plan(), applied(End::TakenBack));
        let report = AppliedReport {
            host: &host,
            plan: &plan,
            applied: &applied,
            expectations: &[],
            restarted: &[],
            unkept: &[],
            unread: &[],
        };
        assert!(!text(|out| report.write_text(out, Layout::plain(80)).unwrap()).contains("hugewise undo"));
    }

    pub(crate) fn undone() -> Undone {
        let restored = |what: &str, result| Restored { what: what.into(), result };
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
        insta::assert_snapshot!(text(|out| UndoneReport(&undone()).write_text(out, Layout::plain(80)).unwrap()));
    }

    pub(crate) fn unkept() -> [Unkept; 2] {
        let unkept = |what: &str, why: &str, lost| Unkept { what: what.into(), why: why.into(), lost };
        [
            unkept("vm.nr_hugepages = 600 at the next boot", "/etc/sysctl.d/zzz.conf:1 is read later and sets 0", true),
            unkept("a memlock limit of unlimited for logins of oracle", "permission denied", false),
        ]
    }

    pub(crate) fn unreadable() -> Unreadable {
        let path = "/var/lib/hugewise/journal/0008.journal".into();
        Unreadable { id: Some(8), path, why: "line 1: not a hugewise journal".into(), newer: false }
    }

    #[test]
    fn what_does_not_last_is_not_called_done() {
        let (host, plan, applied, unkept) = (samples::prod().host, testing::plan(), applied(End::Done), unkept());
        let report = |unkept| {
            let (expectations, restarted): (&[Expectation], &[Restarted]) = (&[], &[]);
            let report = AppliedReport {
                host: &host,
                plan: &plan,
                applied: &applied,
                expectations,
                restarted,
                unkept,
                unread: &[],
            };
            text(|out| report.write_text(out, Layout::plain(200)).unwrap())
        };
        assert!(report(&[]).contains("All steps are done."));
        let lost = report(&unkept);
        assert!(
            !lost.contains("is done.") && lost.contains("1 thing will not last") && lost.contains("zzz.conf:1"),
            "{lost}"
        );
        assert!(!report(&unkept[1..]).contains("is done."));
    }

    pub(crate) fn kept() -> [Summary; 2] {
        let summary = |id: &str, state| Summary {
            id: id.into(),
            at: 1_700_000_000,
            hugewise: "1.2.3".into(),
            state,
            steps: vec!["600 pages of 2 MiB".into(), "pages at boot".into()],
        };
        [summary("7", State::Done), summary("6", State::Undone)]
    }

    #[test]
    fn what_was_applied_so_far() {
        insta::assert_snapshot!(text(|out| Kept { journals: &kept(), unreadable: &[unreadable()] }
            .write_text(out, Layout::plain(80))
            .unwrap()));
        assert_eq!(
            text(|out| Kept { journals: &[], unreadable: &[] }.write_text(out, Layout::plain(80)).unwrap()),
            "Nothing has been applied on this host.\n"
        );
    }
}
