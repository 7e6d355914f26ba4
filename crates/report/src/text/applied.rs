//! `hugewise apply` and `hugewise undo` for a terminal.

#[cfg(test)]
pub(crate) mod tests;

use std::io;

use hugewise_change::journal::JournalSummary;
use hugewise_change::outcome::{RestoreResult, StepResult};
use hugewise_change::plan::Instruction;
use hugewise_change::{ApplyEnd, Risk, Undone, UnpersistedChange};
use hugewise_diagnose::coverage::Coverage;

use super::{closing, counted_noun};
use crate::formats::unnamed_instance;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table::{self, TableCell, TableColumn};
use crate::view::plan::{describe_expected_finding, risk_role as role_of};
use crate::{AppliedReport, FindingOutcome, JournalListing, Proof, RestartedServer, date};

/// Columns of the words in front.
const WORD: usize = 11;

fn write_entry(screen: &mut Screen<'_>, role: Role, word: &str, text: &Spans) -> io::Result<()> {
    let mut line = Spans::new().add(role, &format!("{word:WORD$}"));
    line.append(text);
    screen.write_paragraph(WORD, &line)
}

pub(crate) fn write(screen: &mut Screen<'_>, report: &AppliedReport<'_>) -> io::Result<()> {
    for step in &report.applied.steps {
        let (role, word, more) = describe_step_result(&step.result);
        let mut text =
            Spans::new().add(Role::Strong, &step.id).add(Role::Text, &format!("  {}", step.title));
        text.push(Role::Text, &more);
        if step.risk != Risk::Safe
            && matches!(step.result, StepResult::Done | StepResult::Partial { .. })
        {
            text.push(Role::Text, "  ");
            text.push(role_of(step.risk), step.risk.as_str());
        }
        write_entry(screen, role, word, &text)?;
    }
    for expectation in report.expectations {
        write_proof(screen, expectation)?;
    }
    for restarted in report.restarted {
        write_restarted(screen, restarted)?;
    }
    for UnpersistedChange { what, why, lost } in report.unkept {
        let (role, word) = if *lost { (Role::Error, "not kept") } else { (Role::Quiet, "unknown") };
        let text = Spans::new().add(Role::Strong, what).add(Role::Text, &format!("  {why}"));
        write_entry(screen, role, word, &text)?;
    }
    for note in &report.applied.notes {
        write_entry(screen, Role::Warn, "note", &Spans::from(note.as_str()))?;
    }
    for instruction in &report.plan.instructions {
        write_instruction(screen, instruction)?;
    }
    for warning in &report.plan.warnings {
        write_entry(screen, Role::Warn, "note", &Spans::from(warning.as_str()))?;
    }
    let mut last = Spans::new().add(end_role(report), &describe_end(report));
    if let Some(id) = &report.applied.journal
        && !matches!(report.applied.end, ApplyEnd::TakenBack | ApplyEnd::NothingToDo)
        && report.plan.can_be_undone()
    {
        last.push(Role::Text, &format!(" hugewise undo {id} reverses it."));
    }
    let nothing = report.applied.steps.is_empty() && report.applied.notes.is_empty();
    if !nothing || !report.plan.instructions.is_empty() || !report.plan.warnings.is_empty() {
        screen.write_blank()?;
    }
    closing::write_closing(screen, last, report.host, report.unread, false)
}

fn write_restarted(screen: &mut Screen<'_>, restarted: &RestartedServer) -> io::Result<()> {
    let (role, word, text) = match restarted.standing {
        Some(Coverage::All) => (Role::Good, "verified", "is wholly on huge pages"),
        Some(Coverage::Partly) => (Role::Error, "problem", "is only partly on huge pages"),
        Some(Coverage::None) => (Role::Error, "problem", "is not on huge pages"),
        Some(Coverage::DoesNotStart) => (Role::Error, "problem", "did not start"),
        Some(Coverage::Unknown) => {
            (Role::Quiet, "unknown", "is running, but its memory could not be read")
        }
        Some(Coverage::NotCounted(why)) => (Role::Quiet, "unknown", why),
        Some(Coverage::NotRunning) | None => (Role::Error, "problem", "is not running"),
    };
    let instance = Spans::new().add(Role::Strong, &restarted.instance);
    write_entry(screen, role, word, &instance.add(Role::Text, &format!("  {text}")))
}

fn write_instruction(screen: &mut Screen<'_>, instruction: &Instruction) -> io::Result<()> {
    let whose =
        unnamed_instance(instruction).map(|instance| format!(" ({instance})")).unwrap_or_default();
    let title = format!("{}{whose}", instruction.title);
    write_entry(screen, Role::Strong, "by hand", &Spans::from(title.as_str()))?;
    for line in instruction.text.lines() {
        let role = if line.trim_start().starts_with('#') { Role::Quiet } else { Role::Text };
        screen.write_line(&Spans::from(" ".repeat(WORD)).add(role, line))?;
    }
    Ok(())
}

fn describe_step_result(result: &StepResult) -> (Role, &'static str, String) {
    match result {
        StepResult::Done => (Role::Good, "done", String::new()),
        StepResult::AlreadySo => (Role::Quiet, "unchanged", String::new()),
        StepResult::Partial { wanted, obtained } => (
            Role::Warn,
            "partly",
            format!("; the kernel gave {obtained} of {}, which are kept", wanted.in_pages()),
        ),
        StepResult::Failed { why } => (Role::Error, "failed", format!("; {why}")),
        StepResult::TakenBack => (Role::Warn, "rolled back", String::new()),
        StepResult::NotTried => (Role::Quiet, "skipped", String::new()),
    }
}

fn write_proof(screen: &mut Screen<'_>, expectation: &FindingOutcome) -> io::Result<()> {
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
    let mut text = Spans::from(describe_expected_finding(&expectation.expected).as_str())
        .add(Role::Text, more);
    if matches!(expectation.proof, Proof::Remains | Proof::Unknown) && !expectation.says.is_empty()
    {
        text.push(Role::Text, &format!(": {}", expectation.says));
    }
    write_entry(screen, role, word, &text)
}

fn end_role(report: &AppliedReport<'_>) -> Role {
    match report.applied.end {
        ApplyEnd::Done | ApplyEnd::NothingToDo if report.unkept.is_empty() => Role::Good,
        ApplyEnd::Done | ApplyEnd::NothingToDo | ApplyEnd::Partly => Role::Warn,
        ApplyEnd::TakenBack | ApplyEnd::Stuck => Role::Error,
    }
}

fn describe_end(report: &AppliedReport<'_>) -> String {
    let count_of = |proof: Proof| {
        report.expectations.iter().filter(|finding_outcome| finding_outcome.proof == proof).count()
    };
    let lost = report.unkept.iter().filter(|one| one.lost).count();
    let mut text = match report.applied.end {
        ApplyEnd::Done | ApplyEnd::NothingToDo if lost > 0 => {
            let counted = counted_noun(lost, "thing will not last", "things will not last");
            format!("All changes are written, but {counted}: see the lines \"not kept\".")
        }
        ApplyEnd::Done if !report.unkept.is_empty() => {
            "All changes are written, but whether they last could not be determined.".into()
        }
        ApplyEnd::NothingToDo => "Nothing to do: the host was already as planned.".to_owned(),
        ApplyEnd::Done => "All steps are done.".into(),
        ApplyEnd::Partly => "Only some steps are done.".into(),
        ApplyEnd::TakenBack => "A step failed, and everything was rolled back.".into(),
        ApplyEnd::Stuck => "A step failed, and not everything could be rolled back.".into(),
    };
    let waiting = count_of(Proof::WaitsForRestart) + count_of(Proof::WaitsForReboot);
    if waiting > 0 {
        text += &format!(
            " {} a restart or reboot.",
            counted_noun(waiting, "finding waits for", "findings wait for")
        );
    }
    if count_of(Proof::Remains) > 0 {
        text += &format!(
            " {}.",
            counted_noun(count_of(Proof::Remains), "finding remains", "findings remain")
        );
    }
    text
}

pub(crate) fn write_undone(screen: &mut Screen<'_>, undone: &Undone) -> io::Result<()> {
    for restored in &undone.restored {
        let (role, word, more) = match &restored.result {
            RestoreResult::Restored => (Role::Good, "restored", String::new()),
            RestoreResult::AlreadySo => (Role::Quiet, "unchanged", String::new()),
            RestoreResult::Ran => (Role::Good, "ran", String::new()),
            RestoreResult::Waits { for_apply } => (
                Role::Warn,
                "waits",
                format!(
                    "; apply {for_apply} has changed it since: hugewise undo {for_apply} restores \
                         both"
                ),
            ),
            RestoreResult::Left { why } => (Role::Error, "left", format!("; {why}")),
            RestoreResult::Failed { why } => (Role::Error, "failed", format!("; {why}")),
        };
        write_entry(
            screen,
            role,
            word,
            &Spans::from(restored.what.as_str()).add(Role::Text, &more),
        )?;
    }
    for note in &undone.notes {
        write_entry(screen, Role::Warn, "note", &Spans::from(note.as_str()))?;
    }
    screen.write_blank()?;
    screen.write_paragraph(0, &describe_undone(undone))
}

fn describe_undone(undone: &Undone) -> Spans {
    let id = &undone.journal;
    let has = |wanted: fn(&RestoreResult) -> bool| {
        undone.restored.iter().any(|restored| wanted(&restored.result))
    };
    if !undone.complete {
        let what = if has(|result| matches!(result, RestoreResult::Failed { .. })) {
            "is only partly undone"
        } else {
            "is undone, except for what was left"
        };
        let text = format!("Apply {id} {what}: run hugewise undo {id} to try again.");
        return Spans::new().add(Role::Error, &text);
    }
    let (role, text) = if has(|result| matches!(result, RestoreResult::Waits { .. })) {
        (Role::Warn, format!("Apply {id} is undone, except for what waits."))
    } else {
        (Role::Good, format!("Apply {id} is undone: every file and value is as it was before."))
    };
    let then = match undone.risk {
        Risk::Safe | Risk::Destructive => "",
        Risk::Restart => " Servers return to their old settings when they are restarted.",
        Risk::Reboot => " Boot settings return to the old values when the host is rebooted.",
    };
    Spans::new().add(role, &text).add(Role::Text, then)
}

const COLUMNS: [TableColumn; 4] = [
    TableColumn::right("apply"),
    TableColumn::left("begun"),
    TableColumn::left("state"),
    TableColumn::left("steps").cut_to(12),
];

pub(crate) fn write_kept(screen: &mut Screen<'_>, kept: &JournalListing<'_>) -> io::Result<()> {
    if kept.journals.is_empty() && kept.unreadable.is_empty() {
        return screen.write_paragraph(0, &Spans::from("Nothing has been applied on this host."));
    }
    let row = |summary: &JournalSummary| {
        let at = date::format_rfc3339(summary.at).unwrap_or_else(|| summary.at.to_string());
        let role = if summary.state.is_over() { Role::Quiet } else { Role::Strong };
        vec![
            TableCell::new(Role::Strong, &summary.id),
            TableCell::new(Role::Text, at),
            TableCell::new(role, summary.state.as_str()),
            TableCell::new(Role::Text, summary.steps.join("; ")),
        ]
    };
    if !kept.journals.is_empty() {
        table::write(screen, &COLUMNS, &kept.journals.iter().map(row).collect::<Vec<_>>())?;
    }
    for unreadable in kept.unreadable {
        let text = Spans::new()
            .add(Role::Strong, &unreadable.path)
            .add(Role::Text, &format!("  {}; {}", unreadable.why, unreadable.recovery_advice()));
        write_entry(screen, Role::Error, "unreadable", &text)?;
    }
    Ok(())
}
