//! What `hugewise plan` says: every change as a unified diff, in order, with what it asks for and what it ends.

use std::io;

use hugewise_advice::words::one_line;
use hugewise_change::diff;
use hugewise_change::plan::{Change, CommandChange, Expected, Instruction, Plan, Risk, Step, When};
use hugewise_model::Bytes;
use hugewise_model::escape::diff as escape;

use super::labels::{LABELS, TEXT, labelled};
use super::{closing, counted};
use crate::formats::{shown_words, whose};
use crate::palette::Role;
use crate::screen::{Screen, Spans, columns};
use crate::{Layout, Planned};

pub(crate) fn write(planned: &Planned<'_>, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let screen = &mut Screen::new(out, layout);
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
    let said = planned.host.confined.as_deref().map(one_line);
    let more = plan.warnings.iter().filter(|warning| said.as_deref().is_none_or(|said| !warning.starts_with(said)));
    for warning in more {
        screen.flow(LABELS, &Spans::new().add(Role::Warn, "note").add(Role::Text, &format!("  {warning}")))?;
    }
    memory(screen, plan)?;
    if let Some(refusal) = &plan.refusal {
        for reason in &refusal.reasons {
            screen.flow(LABELS, &Spans::new().add(Role::Error, "refused").add(Role::Text, &format!("  {reason}")))?;
        }
    }
    let last = last(planned);
    if last.is_empty() && planned.unread.is_empty() {
        return Ok(());
    }
    screen.blank()?;
    closing::end(screen, Spans::from(last.as_str()), planned.host, planned.unread, false)
}

/// A plan that is not for where it was made says so before all else.
fn not_here(screen: &mut Screen<'_>, planned: &Planned<'_>) -> io::Result<()> {
    let Some(why) = planned.host.confined.as_deref().map(one_line) else { return Ok(()) };
    let who =
        if planned.host.live { "hugewise runs in a container or chroot" } else { "captured in a container or chroot" };
    let text = format!(
        "  {who}: {why}. hugewise apply refuses to run here; apply this plan on the host itself (--format shell, ansible or \
         cloud-init writes it)"
    );
    screen.flow(2, &Spans::new().add(Role::Error, "not here").add(Role::Text, &text))
}

fn heading(screen: &mut Screen<'_>, plan: &Plan) -> io::Result<()> {
    let name = if plan.host.name.is_empty() { "a host without a name" } else { &plan.host.name };
    let steps = &plan.steps;
    let mut text = match (steps.is_empty(), &plan.refusal) {
        (true, Some(_)) => "  nothing to change, because the pools are refused".to_owned(),
        (true, None) => "  nothing to change".to_owned(),
        (false, _) => format!("  {}", steps_of(steps)),
    };
    if !plan.instructions.is_empty() {
        text += &format!("; {}", counted(plan.instructions.len(), "manual step", "manual steps"));
    }
    screen.flow(2, &Spans::new().add(Role::Strong, name).add(Role::Text, &text))
}

fn steps_of(steps: &[Step]) -> String {
    let of = |risk: Risk| steps.iter().filter(|step| step.risk == risk).count();
    let risks = [Risk::Safe, Risk::Restart, Risk::Reboot, Risk::Destructive].map(|risk| (of(risk), risk.as_str()));
    let risks = risks.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}"));
    format!("{}: {}", counted(steps.len(), "step", "steps"), risks.collect::<Vec<_>>().join(", "))
}

/// How a risk is coloured.
pub(super) const fn role(risk: Risk) -> Role {
    match risk {
        Risk::Safe => Role::Good,
        Risk::Restart => Role::Warn,
        Risk::Reboot | Risk::Destructive => Role::Error,
    }
}

fn write_step(screen: &mut Screen<'_>, number: usize, step: &Step) -> io::Result<()> {
    let heading = Spans::new()
        .add(Role::Text, &format!("{number}  "))
        .add(Role::Strong, &step.id)
        .add(Role::Text, "  ")
        .add(role(step.risk), step.risk.as_str())
        .add(Role::Text, &format!("  {}", step.title));
    screen.flow(LABELS, &heading)?;
    if !step.why.is_empty() {
        screen.flow(TEXT, &labelled("why").add(Role::Text, &step.why))?;
    }
    for (at, expected) in step.expects.iter().enumerate() {
        let label = labelled(if at == 0 { "ends" } else { "" });
        screen.flow(TEXT, &label.add(Role::Text, &format!("{} {}", finding(expected), when(expected))))?;
    }
    step.changes.iter().try_for_each(|change| write_change(screen, change))
}

/// `HW201 no-pool of oracle PROD`.
pub(super) fn finding(expected: &Expected) -> String {
    let of = expected.instance.as_deref().map(|instance| format!(" of {instance}")).unwrap_or_default();
    format!("{} {}{of}", expected.code, expected.name)
}

fn when(expected: &Expected) -> &'static str {
    match (expected.when, expected.instance.is_some()) {
        (When::Now, _) => "at once",
        (When::Restart, true) => "when it is restarted",
        (When::Restart, false) => "when the servers are restarted",
        (When::Reboot, _) => "when the host is rebooted",
    }
}

fn write_change(screen: &mut Screen<'_>, change: &Change) -> io::Result<()> {
    match change {
        Change::Value(change) => {
            lines(screen, &diff::of_values(&change.path, change.before.as_deref(), Some(&change.after)))
        }
        Change::File(change) => {
            let (before, after) = (change.before.as_ref().map(Into::into), change.after.as_ref().map(Into::into));
            lines(screen, &diff::of_files(&change.path, before, after))?;
            match &change.after {
                Some(after) if change.before.is_none() && (after.mode.0, after.uid, after.gid) != (0o644, 0, 0) => {
                    let path = escape::path(&change.path);
                    let line = format!("{path}: mode {} owner {}:{}", after.mode, after.uid, after.gid);
                    screen.line(&Spans::new().add(Role::Quiet, &line))
                }
                _ => Ok(()),
            }
        }
        Change::Command(change) => command(screen, change),
    }
}

/// A diff stays as it is, however narrow the terminal: it can be copied.
fn lines(screen: &mut Screen<'_>, diff: &str) -> io::Result<()> {
    diff.lines().try_for_each(|line| {
        let role = match line.as_bytes() {
            [b'-', b'-', b'-', ..] | [b'+', b'+', b'+', ..] => Role::Strong,
            [b'+', ..] => Role::Good,
            [b'-', ..] => Role::Error,
            [b'@' | b'\\', ..] => Role::Quiet,
            _ => Role::Text,
        };
        screen.line(&Spans::new().add(role, line))
    })
}

fn command(screen: &mut Screen<'_>, change: &CommandChange) -> io::Result<()> {
    let line = Spans::new().add(Role::Strong, "$ ").add(Role::Text, &shown_words(change));
    screen.line(&line)?;
    let mut why = change.why.clone();
    if !change.files.is_empty() {
        why += &format!("; it rewrites {}", change.files.join(", "));
    }
    if let Some(holds) = &change.unless {
        why += &format!("; not needed where {} has {}", holds.path, holds.line);
    }
    screen.flow(2, &Spans::new().add(Role::Quiet, "# ").add(Role::Quiet, &why))
}

fn by_hand(screen: &mut Screen<'_>, instruction: &Instruction) -> io::Result<()> {
    let of = whose(instruction).map(|instance| format!("  ({instance})")).unwrap_or_default();
    let heading = Spans::new()
        .add(Role::Strong, "by hand")
        .add(Role::Text, "  ")
        .add(role(instruction.risk), instruction.risk.as_str())
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
    let budget = &plan.budget;
    let Some(total) = budget.total_bytes.filter(|_| budget.pools_bytes > 0) else { return Ok(()) };
    let left = match (budget.left_bytes, budget.short_bytes) {
        (Some(left), 0) => {
            format!("leaves {} beyond the {} that have to stay free", Bytes(left), Bytes(budget.floor_bytes))
        }
        (_, short) => {
            format!("{} too little, with the {} that have to stay free", Bytes(short), Bytes(budget.floor_bytes))
        }
    };
    let mut text = format!(
        "  of {}: pools {}, measured needs {}; {left}",
        Bytes(total),
        Bytes(budget.pools_bytes),
        Bytes(budget.needs_bytes)
    );
    if !budget.unknown.is_empty() {
        text += &format!("; not known and not counted: {}", budget.unknown.join(", "));
    }
    screen.flow(LABELS, &Spans::new().add(Role::Quiet, "memory").add(Role::Text, &text))
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
            format!("Saved as {path}. Next: hugewise apply {path}. hugewise undo reverses it.")
        }
        (_, None, _) if !host.live => {
            "--out FILE saves the plan; --format shell|ansible|cloud-init writes it for other tools.".into()
        }
        (_, None, _) => "Next: hugewise apply. hugewise undo reverses it; --out FILE saves the plan.".into(),
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
            &Planned { host: &host, plan: &plan, kept: None, asking: false, unread: &[] },
            80
        ));
    }

    #[test]
    fn a_plan_that_does_not_fit() {
        let (mut plan, host) = (testing::plan(), samples::prod().host);
        (plan.budget.left_bytes, plan.budget.short_bytes) = (Some(0), 3 << 30);
        let reasons = vec!["3.0 GiB more than there is".to_owned()];
        plan.refusal = Some(Refusal { reasons, short_bytes: 3 << 30, largest_pools_bytes: 1 << 30 });
        let text =
            text(&Planned { host: &host, plan: &plan, kept: Some("plan.json"), asking: false, unread: &[] }, 100);
        let end: Vec<&str> = text.lines().rev().take(3).collect();
        insta::assert_snapshot!(end.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn nothing_to_change() {
        let (mut plan, host) = (testing::plan(), samples::prod().host);
        (plan.steps, plan.instructions, plan.warnings) = Default::default();
        plan.budget = Default::default();
        assert_eq!(
            text(&Planned { host: &host, plan: &plan, kept: None, asking: false, unread: &[] }, 80),
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
            let text = text(&Planned { host: &host, plan: &plan, kept: Some(&odd), asking: false, unread: &[] }, width);
            let active = |c: char| c != '\n' && c != '\t' && (c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c));
            prop_assert!(!text.contains(active), "{text:?}");
        }
    }
}
