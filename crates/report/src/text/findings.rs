//! Cases, worst first: what is wrong, what it costs, what to do; the first of them above everything else.

use std::io;

use hugewise_advice::case::{Case, cases};
use hugewise_advice::{docs, remedy};
use hugewise_model::{Finding, Level, Remedy};

use super::chain;
use crate::Checked;
use crate::palette::Role;
use crate::plain::clean;
use crate::screen::{Screen, Spans, columns};
use crate::table;

/// Column of the labels under a finding.
pub(super) const LABELS: usize = 6;
/// Column of the text beside them.
pub(super) const TEXT: usize = 13;

/// The cases of a report.
pub(super) fn of<'a>(checked: &'a Checked<'_>) -> Vec<Case<'a>> {
    cases(checked.host, checked.instances, checked.assessment)
}

/// The first three lines: what is wrong, what it costs, what to do next. Nothing where all is well.
pub(super) fn first(screen: &mut Screen<'_>, checked: &Checked<'_>, cases: &[Case<'_>]) -> io::Result<()> {
    let Some(case) = cases.first().filter(|case| case.level() >= Level::Warn) else { return Ok(()) };
    let room = screen.width().saturating_sub(LABELS);
    let spans = Spans::new()
        .add(case.level().into(), &format!("{:LABELS$}", case.level().as_str()))
        .add(Role::Strong, &fitted(&case.cause.summary, room));
    screen.line(&spans)?;
    let cost = match case.cost() {
        Some(cost) => cost.to_owned(),
        None => why_it_hurts(case.cause),
    };
    screen.line(&label("cost").add(Role::Text, &fitted(&cost, room)))?;
    screen.line(&label("next").add(Role::Strong, &fitted(&next(checked, cases), room)))
}

fn why_it_hurts(finding: &Finding) -> String {
    let why = docs::find(finding.code.as_str()).map(|rule| rule.docs.why).unwrap_or_default();
    let first = why.split_inclusive(". ").next().unwrap_or_default();
    first.trim_end().trim_end_matches('.').to_owned()
}

/// The command that goes on from here.
fn next(checked: &Checked<'_>, cases: &[Case<'_>]) -> String {
    let planned = |finding: &&Finding| finding.remedies.iter().any(|it| !matches!(it, Remedy::Consider(_)));
    let live = if checked.host.live { "sudo hugewise plan" } else { "hugewise plan --root PATH" };
    match cases.first() {
        _ if checked.assessment.findings.iter().filter(|it| it.level >= Level::Warn).any(|it| planned(&it)) => {
            live.into()
        }
        Some(case) => format!("hugewise rules {}", case.cause.code),
        None => live.into(),
    }
}

/// All cases, and what is to be done about them. Of the first one, which stands on top, what follows from it.
pub(super) fn write(screen: &mut Screen<'_>, checked: &Checked<'_>, cases: &[Case<'_>]) -> io::Result<()> {
    for (at, case) in cases.iter().enumerate() {
        let on_top = at == 0 && case.level() >= Level::Warn;
        if !on_top || screen.verbose() || is_cut(screen, case) {
            finding(screen, case.cause)?;
        }
        if screen.verbose()
            && let Some(id) = &case.cause.instance
            && let Some(chain) = checked.assessment.chains.iter().find(|chain| chain.instance == *id)
        {
            chain::write(screen, chain)?;
        }
        evidence(screen, case.cause)?;
        if let Some(cost) = case.cost().filter(|_| !on_top || screen.verbose()) {
            screen.flow(TEXT, &labelled("cost").add(Role::Text, cost))?;
        }
        for symptom in &case.symptoms {
            if screen.verbose() {
                finding(screen, symptom)?;
                evidence(screen, symptom)?;
            } else if symptom.level >= Level::Warn || cases.len() == 1 && case.level() == Level::Info {
                also(screen, symptom)?;
            }
        }
    }
    to_do(screen, checked)
}

/// Whether its first line on top is not all of it.
fn is_cut(screen: &Screen<'_>, case: &Case<'_>) -> bool {
    columns(&clean(&case.cause.summary)) + LABELS > screen.width()
}

/// As it is shown, cut to so many columns.
fn fitted(text: &str, room: usize) -> String {
    table::cut(&clean(text), room)
}

/// `      cost   `.
pub(super) fn labelled(label: &str) -> Spans {
    let (before, width) = (" ".repeat(LABELS), TEXT - LABELS);
    Spans::new().add(Role::Text, &before).add(Role::Quiet, &format!("{label:width$}"))
}

/// `cost  `.
fn label(label: &str) -> Spans {
    Spans::new().add(Role::Quiet, &format!("{label:LABELS$}"))
}

fn finding(screen: &mut Screen<'_>, finding: &Finding) -> io::Result<()> {
    let spans = Spans::new()
        .add(finding.level.into(), &format!("{:LABELS$}", finding.level.as_str()))
        .add(Role::Text, &format!("{} ", finding.code))
        .add(Role::Strong, finding.name)
        .add(Role::Text, &format!("  {}", finding.summary));
    screen.flow(LABELS, &spans)
}

/// A symptom on one line.
fn also(screen: &mut Screen<'_>, finding: &Finding) -> io::Result<()> {
    let start = format!("{} {}  ", finding.code, finding.name);
    let room = screen.width().saturating_sub(TEXT + start.len());
    let spans = labelled("also").add(Role::Quiet, &start).add(Role::Text, &fitted(&finding.summary, room));
    screen.line(&spans)
}

fn evidence(screen: &mut Screen<'_>, finding: &Finding) -> io::Result<()> {
    if !screen.verbose() || finding.evidence.is_empty() {
        return Ok(());
    }
    screen.flow(TEXT, &labelled("seen").add(Role::Text, &finding.evidence.join("; ")))
}

/// What is to be done, each thing once, in its order: for what warns, or where nothing does for what is worth a note.
fn to_do(screen: &mut Screen<'_>, checked: &Checked<'_>) -> io::Result<()> {
    let worst = checked.assessment.findings.iter().map(|finding| finding.level).max();
    let least = worst.unwrap_or(Level::Info).min(Level::Warn);
    let all = remedy::to_do(checked.host, checked.instances, checked.assessment, least);
    let only_considered = all.iter().all(|(remedy, _)| matches!(remedy, Remedy::Consider(_)));
    let mut start = "do";
    for (remedy, what) in &all {
        if matches!(remedy, Remedy::Consider(_)) && !screen.verbose() && !only_considered {
            continue;
        }
        screen.flow(LABELS, &label(start).add(Role::Text, what))?;
        start = "";
    }
    Ok(())
}
