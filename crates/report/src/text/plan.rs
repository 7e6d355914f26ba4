//! `hugewise plan`: every change as a unified diff, in order, with its risk and what it ends.

use std::io;

use hugewise_change::plan::{Change, CommandChange, Instruction, Plan, Step};

use super::closing;
use super::labels::{LABELS, TEXT, indented_label};
use crate::PlanReport;
use crate::formats::{shown_words, unnamed_instance};
use crate::palette::Role;
use crate::screen::{Screen, Spans, text_width};
use crate::view::plan as view;

pub(crate) fn write(screen: &mut Screen<'_>, planned: &PlanReport<'_>) -> io::Result<()> {
    write_plan_body(screen, planned)?;
    let last = describe_next_command(planned);
    if last.is_empty() && planned.unread.is_empty() {
        return Ok(());
    }
    screen.write_blank()?;
    if let Some(command) = next(planned) {
        screen.write_line(&Spans::from(command.as_str()))?;
    }
    closing::write_closing(screen, Spans::from(last.as_str()), planned.host, planned.unread, false)
}

pub(super) fn write_plan_body(screen: &mut Screen<'_>, planned: &PlanReport<'_>) -> io::Result<()> {
    let plan = planned.plan;
    not_here(screen, planned)?;
    write_heading(screen, plan)?;
    for (at, step) in plan.steps.iter().enumerate() {
        screen.write_blank()?;
        write_step(screen, at + 1, step)?;
    }
    for instruction in &plan.instructions {
        screen.write_blank()?;
        by_hand(screen, instruction)?;
    }
    if !(plan.warnings.is_empty() && plan.budget.pools_bytes == 0 && plan.refusal.is_none()) {
        screen.write_blank()?;
    }
    for warning in view::plan_warnings(planned) {
        screen.write_labeled(LABELS, Role::Warn, "note", &format!("  {warning}"))?;
    }
    write_memory(screen, plan)?;
    if let Some(refusal) = &plan.refusal {
        for reason in &refusal.reasons {
            screen.write_labeled(LABELS, Role::Error, "refused", &format!("  {reason}"))?;
        }
    }
    Ok(())
}

fn not_here(screen: &mut Screen<'_>, planned: &PlanReport<'_>) -> io::Result<()> {
    let Some(why) = view::not_here(planned.host) else { return Ok(()) };
    screen.write_labeled(2, Role::Error, "not here", &format!("  {why}"))
}

fn write_heading(screen: &mut Screen<'_>, plan: &Plan) -> io::Result<()> {
    let name = if plan.host.name.is_empty() { "a host without a name" } else { &plan.host.name };
    let text = format!("  {}", view::describe_extent(plan));
    screen.write_labeled(2, Role::Strong, name, &text)
}

fn write_step(screen: &mut Screen<'_>, number: usize, step: &Step) -> io::Result<()> {
    let heading = Spans::new()
        .add(Role::Text, &format!("{number}  "))
        .add(Role::Strong, &step.id)
        .add(Role::Text, "  ")
        .add(view::risk_role(step.risk), step.risk.as_str())
        .add(Role::Text, &format!("  {}", step.title));
    screen.write_paragraph(LABELS, &heading)?;
    if !step.why.is_empty() {
        screen.write_paragraph(TEXT, &indented_label("why").add(Role::Text, &step.why))?;
    }
    for (at, expected) in step.expects.iter().enumerate() {
        let label = indented_label(if at == 0 { "ends" } else { "" });
        screen.write_paragraph(
            TEXT,
            &label.add(Role::Text, &view::describe_expected_end(expected)),
        )?;
    }
    step.changes.iter().try_for_each(|change| write_change(screen, change))
}

fn write_change(screen: &mut Screen<'_>, change: &Change) -> io::Result<()> {
    if let Some(diff) = view::render_change_diff(change) {
        // Lines are never wrapped: a diff can be copied.
        for line in diff.lines() {
            screen.write_line(&Spans::new().add(view::role_of_line(line), line))?;
        }
    }
    match change {
        Change::Value(_) => Ok(()),
        Change::File(change) => match view::describe_file_rights(change) {
            Some(rights) => screen.write_line(&Spans::new().add(Role::Quiet, &rights)),
            None => Ok(()),
        },
        Change::Command(change) => write_command(screen, change),
    }
}

fn write_command(screen: &mut Screen<'_>, change: &CommandChange) -> io::Result<()> {
    let line = Spans::new().add(Role::Strong, "$ ").add(Role::Text, &shown_words(change));
    screen.write_line(&line)?;
    screen.write_paragraph(
        2,
        &Spans::new()
            .add(Role::Quiet, "# ")
            .add(Role::Quiet, &view::describe_command_reason(change)),
    )
}

fn by_hand(screen: &mut Screen<'_>, instruction: &Instruction) -> io::Result<()> {
    let whose =
        unnamed_instance(instruction).map(|instance| format!("  ({instance})")).unwrap_or_default();
    let heading = Spans::new()
        .add(Role::Strong, "by hand")
        .add(Role::Text, "  ")
        .add(view::risk_role(instruction.risk), instruction.risk.as_str())
        .add(Role::Text, &format!("  {}{whose}", instruction.title));
    screen.write_paragraph(LABELS, &heading)?;
    instruction.text.lines().try_for_each(|line| match line.strip_prefix("# ") {
        Some(words) => write_comment(screen, words),
        None => {
            let role = if line.starts_with('#') { Role::Quiet } else { Role::Text };
            screen.write_line(&Spans::from(" ".repeat(LABELS)).add(role, line))
        }
    })
}

/// Wraps words, each line a comment of its own; lines that can be copied stay whole.
fn write_comment(screen: &mut Screen<'_>, words: &str) -> io::Result<()> {
    let start = format!("{}# ", " ".repeat(LABELS));
    let room = screen.width().saturating_sub(text_width(&start)).max(1);
    let lines = Spans::new().add(Role::Quiet, words).wrap_lines(room, 0);
    lines.into_iter().try_for_each(|line| {
        let mut whole = Spans::new().add(Role::Quiet, &start);
        whole.append(&line);
        screen.write_line(&whole)
    })
}

fn write_memory(screen: &mut Screen<'_>, plan: &Plan) -> io::Result<()> {
    let Some(text) = view::describe_plan_memory(plan) else { return Ok(()) };
    screen.write_labeled(LABELS, Role::Quiet, "memory", &format!("  {text}"))
}

/// A command with options is a line of its own, however long, so that it is pasted whole.
fn next(planned: &PlanReport<'_>) -> Option<String> {
    let PlanReport { plan, kept, host, options, asking, .. } = planned;
    let is_next =
        !plan.steps.is_empty() && plan.refusal.is_none() && host.live && host.confined.is_none();
    (is_next && kept.is_none() && !asking && !options.is_empty())
        .then(|| format!("Next: sudo hugewise apply{options}"))
}

fn describe_next_command(planned: &PlanReport<'_>) -> String {
    let PlanReport { plan, kept, host, .. } = planned;
    match (plan.steps.is_empty(), kept, &plan.refusal) {
        (true, None, Some(_)) => "hugewise plan --force plans the pools anyway.".into(),
        (true, None, None) => String::new(),
        (true, Some(path), _) => format!("Saved as {path}."),
        _ if planned.asking => String::new(),
        (_, Some(path), _) if host.confined.is_some() => format!(
            "Saved as {path}, for the host \
             itself."
        ),
        (_, None, _) if host.confined.is_some() => String::new(),
        (_, _, Some(_)) => {
            "This plan leaves out the pools, and hugewise apply refuses it; --force overrides \
                 that."
                .into()
        }
        (_, Some(path), _) => {
            format!("Saved as {path}. Next: sudo hugewise apply {path}. hugewise undo reverses it.")
        }
        (_, None, _) if !host.live => {
            "--out FILE saves the plan; --format shell|ansible|cloud-init writes it for other \
                 tools."
                .into()
        }
        (_, None, _) if planned.options.is_empty() => {
            "Next: sudo hugewise apply. hugewise undo reverses it; --out FILE saves the plan."
                .into()
        }
        (_, None, _) => "hugewise undo reverses it; --out FILE saves the plan.".into(),
    }
}

#[cfg(test)]
mod tests {
    use hugewise_change::plan::PlanRefusal;
    use proptest::prelude::*;

    use crate::formats::testing;
    use crate::{PlanReport, TextLayout, samples};

    fn text(planned: &PlanReport<'_>, width: usize) -> String {
        let mut out = Vec::new();
        planned.write_text(&mut out, TextLayout::plain_text(width)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_change_is_a_diff() {
        let (plan, host) = (testing::plan(), samples::prod().host);
        insta::assert_snapshot!(text(
            &PlanReport {
                host: &host,
                plan: &plan,
                kept: None,
                options: "",
                asking: false,
                unread: &[]
            },
            80
        ));
    }

    #[test]
    fn a_plan_that_does_not_fit() {
        let (mut plan, host) = (testing::plan(), samples::prod().host);
        (plan.budget.left_bytes, plan.budget.short_bytes) = (Some(0), 3 << 30);
        let reasons = vec!["3.0 GiB more than there is".to_owned()];
        plan.refusal =
            Some(PlanRefusal { reasons, short_bytes: 3 << 30, largest_pools_bytes: 1 << 30 });
        let text = text(
            &PlanReport {
                host: &host,
                plan: &plan,
                kept: Some("plan.json"),
                options: "",
                asking: false,
                unread: &[],
            },
            100,
        );
        let end: Vec<&str> = text.lines().rev().take(3).collect();
        insta::assert_snapshot!(end.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }

    /// Typed without them, another plan would be applied.
    #[test]
    fn the_next_command_has_the_plans_options() {
        let (plan, mut host) = (testing::plan(), samples::prod().host);
        host.live = true;
        let options = " --instance 3306 --restart 3306";
        // Whole on a narrow terminal too.
        let text = text(
            &PlanReport {
                host: &host,
                plan: &plan,
                kept: None,
                options,
                asking: false,
                unread: &[],
            },
            40,
        );
        let command = "\nNext: sudo hugewise apply --instance 3306 --restart 3306\n";
        assert!(text.contains(command) && text.ends_with("plan.\n"), "{text}");
    }

    #[test]
    fn nothing_to_change() {
        let (mut plan, host) = (testing::plan(), samples::prod().host);
        (plan.steps, plan.instructions, plan.warnings) = Default::default();
        plan.budget = Default::default();
        assert_eq!(
            text(
                &PlanReport {
                    host: &host,
                    plan: &plan,
                    kept: None,
                    options: "",
                    asking: false,
                    unread: &[]
                },
                80
            ),
            "db7  nothing to change\n"
        );
    }

    proptest! {
        #[test]
        fn nothing_of_a_plan_acts_on_a_terminal(odd in any::<String>(), width in 40_usize..100) {
            let (mut plan, host) = (testing::plan(), samples::prod().host);
            plan.host.name.clone_from(&odd);
            plan.warnings.push(odd.clone());
            for step in &mut plan.steps {
                (step.title, step.why) = (odd.clone(), odd.clone());
                for change in &mut step.changes {
                    testing::taint(change, &odd);
                }
            }
            for instruction in &mut plan.instructions {
                (instruction.title, instruction.text) = (odd.clone(), odd.clone());
            }
            let text = text(&PlanReport { host: &host, plan: &plan, kept: Some(&odd), options: "", asking: false, unread: &[] }, width);
            let active = |character: char| character != '\n' && character != '\t' && (character.is_control() || ('\u{202a}'..='\u{202e}').contains(&character));
            prop_assert!(!text.contains(active), "{text:?}");
        }
    }
}
