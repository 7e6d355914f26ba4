//! What `hugewise plan` says: every change as a unified diff, in order, with what it asks for and what it ends.

use std::io;

use hugewise_change::plan::{Change, CommandChange, Instruction, Plan, Step};

use super::closing;
use super::labels::{LABELS, TEXT, labelled};
use crate::formats::{shown_words, whose};
use crate::palette::Role;
use crate::screen::{Screen, Spans, columns};
use crate::view::plan as view;
use crate::{Layout, Planned};

pub(crate) fn write(planned: &Planned<'_>, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let screen = &mut Screen::new(out, layout);
    plan(screen, planned)?;
    let last = last(planned);
    if last.is_empty() && planned.unread.is_empty() {
        return Ok(());
    }
    screen.blank()?;
    if let Some(command) = next(planned) {
        screen.line(&Spans::from(command.as_str()))?;
    }
    closing::end(screen, Spans::from(last.as_str()), planned.host, planned.unread, false)
}

/// All of it but the last lines.
pub(super) fn plan(screen: &mut Screen<'_>, planned: &Planned<'_>) -> io::Result<()> {
    let plan = planned.plan;
    not_here(screen, planned)?;
    heading(screen, plan)?;
    for (at, step) in plan.steps.iter().enumerate() {
        screen.blank()?;
        write_step(screen, at + 1, step)?;
    }
    for instruction in &plan.instructions {
        screen.blank()?;
        by_hand(screen, instruction)?;
    }
    if !(plan.warnings.is_empty() && plan.budget.pools_bytes == 0 && plan.refusal.is_none()) {
        screen.blank()?;
    }
    for warning in view::warnings(planned) {
        screen.flow(LABELS, &Spans::new().add(Role::Warn, "note").add(Role::Text, &format!("  {warning}")))?;
    }
    memory(screen, plan)?;
    if let Some(refusal) = &plan.refusal {
        for reason in &refusal.reasons {
            screen.flow(LABELS, &Spans::new().add(Role::Error, "refused").add(Role::Text, &format!("  {reason}")))?;
        }
    }
    Ok(())
}

/// A plan that is not for where it was made says so before all else.
fn not_here(screen: &mut Screen<'_>, planned: &Planned<'_>) -> io::Result<()> {
    let Some(why) = view::not_here(planned.host) else { return Ok(()) };
    screen.flow(2, &Spans::new().add(Role::Error, "not here").add(Role::Text, &format!("  {why}")))
}

fn heading(screen: &mut Screen<'_>, plan: &Plan) -> io::Result<()> {
    let name = if plan.host.name.is_empty() { "a host without a name" } else { &plan.host.name };
    let text = format!("  {}", view::extent(plan));
    screen.flow(2, &Spans::new().add(Role::Strong, name).add(Role::Text, &text))
}

fn write_step(screen: &mut Screen<'_>, number: usize, step: &Step) -> io::Result<()> {
    let heading = Spans::new()
        .add(Role::Text, &format!("{number}  "))
        .add(Role::Strong, &step.id)
        .add(Role::Text, "  ")
        .add(view::role(step.risk), step.risk.as_str())
        .add(Role::Text, &format!("  {}", step.title));
    screen.flow(LABELS, &heading)?;
    if !step.why.is_empty() {
        screen.flow(TEXT, &labelled("why").add(Role::Text, &step.why))?;
    }
    for (at, expected) in step.expects.iter().enumerate() {
        let label = labelled(if at == 0 { "ends" } else { "" });
        screen.flow(TEXT, &label.add(Role::Text, &view::ends(expected)))?;
    }
    step.changes.iter().try_for_each(|change| write_change(screen, change))
}

fn write_change(screen: &mut Screen<'_>, change: &Change) -> io::Result<()> {
    if let Some(diff) = view::difference(change) {
        lines(screen, &diff)?;
    }
    match change {
        Change::Value(_) => Ok(()),
        Change::File(change) => match view::rights(change) {
            Some(rights) => screen.line(&Spans::new().add(Role::Quiet, &rights)),
            None => Ok(()),
        },
        Change::Command(change) => command(screen, change),
    }
}

/// A diff stays as it is, however narrow the terminal: it can be copied.
fn lines(screen: &mut Screen<'_>, diff: &str) -> io::Result<()> {
    diff.lines().try_for_each(|line| screen.line(&Spans::new().add(view::role_of_line(line), line)))
}

fn command(screen: &mut Screen<'_>, change: &CommandChange) -> io::Result<()> {
    let line = Spans::new().add(Role::Strong, "$ ").add(Role::Text, &shown_words(change));
    screen.line(&line)?;
    screen.flow(2, &Spans::new().add(Role::Quiet, "# ").add(Role::Quiet, &view::reason(change)))
}

fn by_hand(screen: &mut Screen<'_>, instruction: &Instruction) -> io::Result<()> {
    let of = whose(instruction).map(|instance| format!("  ({instance})")).unwrap_or_default();
    let heading = Spans::new()
        .add(Role::Strong, "by hand")
        .add(Role::Text, "  ")
        .add(view::role(instruction.risk), instruction.risk.as_str())
        .add(Role::Text, &format!("  {}{of}", instruction.title));
    screen.flow(LABELS, &heading)?;
    instruction.text.lines().try_for_each(|line| match line.strip_prefix("# ") {
        Some(words) => comment(screen, words),
        None => {
            let role = if line.starts_with('#') { Role::Quiet } else { Role::Text };
            screen.line(&Spans::from(" ".repeat(LABELS).as_str()).add(role, line))
        }
    })
}

/// What is no command may be broken into lines, each a comment of its own; a line that can be copied stays whole.
fn comment(screen: &mut Screen<'_>, words: &str) -> io::Result<()> {
    let start = format!("{}# ", " ".repeat(LABELS));
    let room = screen.width().saturating_sub(columns(&start)).max(1);
    let lines = Spans::new().add(Role::Quiet, words).wrapped(room, 0);
    lines.into_iter().try_for_each(|line| {
        let mut whole = Spans::new().add(Role::Quiet, &start);
        whole.append(&line);
        screen.line(&whole)
    })
}

fn memory(screen: &mut Screen<'_>, plan: &Plan) -> io::Result<()> {
    let Some(text) = view::memory(plan) else { return Ok(()) };
    screen.flow(LABELS, &Spans::new().add(Role::Quiet, "memory").add(Role::Text, &format!("  {text}")))
}

/// A command with options is a line of its own, however long: one that is pasted in two parts is another command.
fn next(planned: &Planned<'_>) -> Option<String> {
    let Planned { plan, kept, host, options, asking, .. } = planned;
    let is_next = !plan.steps.is_empty() && plan.refusal.is_none() && host.live && host.confined.is_none();
    (is_next && kept.is_none() && !asking && !options.is_empty()).then(|| format!("Next: sudo hugewise apply{options}"))
}

fn last(planned: &Planned<'_>) -> String {
    let Planned { plan, kept, host, .. } = planned;
    match (plan.steps.is_empty(), kept, &plan.refusal) {
        (true, None, Some(_)) => "hugewise plan --force plans the pools anyway.".into(),
        (true, None, None) => String::new(),
        (true, Some(path), _) => format!("Saved as {path}."),
        _ if planned.asking => String::new(),
        (_, Some(path), _) if host.confined.is_some() => format!("Saved as {path}, for the host itself."),
        (_, None, _) if host.confined.is_some() => String::new(),
        (_, _, Some(_)) => {
            "This plan leaves out the pools, and hugewise apply refuses it; --force overrides that.".into()
        }
        (_, Some(path), _) => {
            format!("Saved as {path}. Next: sudo hugewise apply {path}. hugewise undo reverses it.")
        }
        (_, None, _) if !host.live => {
            "--out FILE saves the plan; --format shell|ansible|cloud-init writes it for other tools.".into()
        }
        (_, None, _) if planned.options.is_empty() => {
            "Next: sudo hugewise apply. hugewise undo reverses it; --out FILE saves the plan.".into()
        }
        (_, None, _) => "hugewise undo reverses it; --out FILE saves the plan.".into(),
    }
}

#[cfg(test)]
mod tests {
    use hugewise_change::plan::Refusal;
    use proptest::prelude::*;

    use crate::formats::testing;
    use crate::{Layout, Planned, samples};

    fn text(planned: &Planned<'_>, width: usize) -> String {
        let mut out = Vec::new();
        planned.write_text(&mut out, Layout::plain(width)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_change_is_a_diff() {
        let (plan, host) = (testing::plan(), samples::prod().host);
        insta::assert_snapshot!(text(
            &Planned { host: &host, plan: &plan, kept: None, options: "", asking: false, unread: &[] },
            80
        ));
    }

    #[test]
    fn a_plan_that_does_not_fit() {
        let (mut plan, host) = (testing::plan(), samples::prod().host);
        (plan.budget.left_bytes, plan.budget.short_bytes) = (Some(0), 3 << 30);
        let reasons = vec!["3.0 GiB more than there is".to_owned()];
        plan.refusal = Some(Refusal { reasons, short_bytes: 3 << 30, largest_pools_bytes: 1 << 30 });
        let text = text(
            &Planned { host: &host, plan: &plan, kept: Some("plan.json"), options: "", asking: false, unread: &[] },
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
        let text = text(&Planned { host: &host, plan: &plan, kept: None, options, asking: false, unread: &[] }, 40);
        let command = "\nNext: sudo hugewise apply --instance 3306 --restart 3306\n";
        assert!(text.contains(command) && text.ends_with("plan.\n"), "{text}");
    }

    #[test]
    fn nothing_to_change() {
        let (mut plan, host) = (testing::plan(), samples::prod().host);
        (plan.steps, plan.instructions, plan.warnings) = Default::default();
        plan.budget = Default::default();
        assert_eq!(
            text(&Planned { host: &host, plan: &plan, kept: None, options: "", asking: false, unread: &[] }, 80),
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
            let text = text(&Planned { host: &host, plan: &plan, kept: Some(&odd), options: "", asking: false, unread: &[] }, width);
            let active = |c: char| c != '\n' && c != '\t' && (c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c));
            prop_assert!(!text.contains(active), "{text:?}");
        }
    }
}
