//! Cases, worst first: what is wrong, what it costs, what to do; the first of them above everything else.

use std::io;

use hugewise_advice::case::Case;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Finding, InstanceId, Level};

use super::chain;
use super::labels::{LABELS, TEXT, at_the_edge, labelled};
use crate::Checked;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::view::cases::{headline, next, symptom as in_words, to_do, worst};

/// The first three lines: what is wrong, what it costs, what to do next. Nothing where all is well.
pub(super) fn first(screen: &mut Screen<'_>, checked: &Checked<'_>, cases: &[Case<'_>]) -> io::Result<()> {
    let Some(case) = worst(cases) else { return Ok(()) };
    let what = headline(case.cause, screen.width().saturating_sub(LABELS));
    screen.flow(LABELS, &level(case.level()).add(Role::Strong, &what))?;
    screen.flow(LABELS, &at_the_edge("cost").add(Role::Text, &case.cost))?;
    // A command is to be pasted: it stays whole.
    screen.line(&at_the_edge("next").add(Role::Strong, &next(checked, cases)))?;
    screen.blank()
}

/// All cases, and what is to be done about them. Of the first one, which stands on top, what was not said there.
pub(super) fn write(screen: &mut Screen<'_>, checked: &Checked<'_>, cases: &[Case<'_>]) -> io::Result<()> {
    let mut costs: Vec<&str> = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        // What several cases cost in the same words is said once.
        let is_told = costs.contains(&case.cost.as_str());
        costs.push(&case.cost);
        if screen.verbose() {
            in_full(screen, checked, case)?;
        } else {
            let on_top = at == 0 && worst(cases).is_some();
            in_short(screen, case, Place { on_top, alone: cases.len() == 1, is_told })?;
        }
    }
    let mut start = "do";
    for what in to_do(checked, screen.verbose()) {
        screen.flow(LABELS, &at_the_edge(start).add(Role::Text, &what))?;
        start = "";
    }
    Ok(())
}

/// Every finding of a case with all that it rests on.
fn in_full(screen: &mut Screen<'_>, checked: &Checked<'_>, case: &Case<'_>) -> io::Result<()> {
    finding(screen, case.cause, true)?;
    // Of a server that has no way to a pool there is no chain to one.
    let has_way = |id: &InstanceId| {
        let itself = checked.instances.iter().find(|instance| instance.id() == *id);
        itself.is_none_or(|instance| instance.mechanism != Mechanism::None)
    };
    let title = case.cause.instance.as_ref().filter(|id| has_way(id));
    if let Some(chain) = checked.assessment.chains.iter().find(|chain| Some(&chain.instance) == title) {
        chain::write(screen, chain)?;
    }
    evidence(screen, case.cause)?;
    cost(screen, &case.cost)?;
    for symptom in &case.symptoms {
        finding(screen, symptom, true)?;
        evidence(screen, symptom)?;
    }
    Ok(())
}

/// Where a case stands among the others.
struct Place {
    /// The first three lines are of this one.
    on_top: bool,
    /// There is no other.
    alone: bool,
    /// Its cost was told above, of another.
    is_told: bool,
}

/// The cause, and a line for each symptom that warns.
fn in_short(screen: &mut Screen<'_>, case: &Case<'_>, place: Place) -> io::Result<()> {
    let Place { on_top, alone, is_told } = place;
    let least = if alone && case.level() == Level::Info { Level::Info } else { Level::Warn };
    let symptoms: Vec<&Finding> = case.unsaid().filter(|symptom| symptom.level >= least).collect();
    let in_whole = headline(case.cause, screen.width().saturating_sub(LABELS)) == case.cause.summary;
    // Below others its symptoms would be taken for theirs.
    let is_said = on_top && in_whole && (alone || symptoms.is_empty());
    if !is_said {
        finding(screen, case.cause, false)?;
    }
    if !on_top && case.level() >= Level::Warn && !is_told {
        cost(screen, &case.cost)?;
    }
    let (mut label, hang) = if is_said { (at_the_edge("also"), LABELS) } else { (labelled("also"), TEXT) };
    for symptom in symptoms {
        let code = Spans::new().add(symptom.level.into(), symptom.code.as_str());
        label.append(&code);
        screen.flow(hang + 6, &label.add(Role::Text, &format!(" {}", in_words(case.cause, symptom))))?;
        label = Spans::new().add(Role::Text, &" ".repeat(hang));
    }
    Ok(())
}

/// `error `
fn level(level: Level) -> Spans {
    Spans::new().add(level.into(), &format!("{:LABELS$}", level.as_str()))
}

fn finding(screen: &mut Screen<'_>, finding: &Finding, named: bool) -> io::Result<()> {
    let mut spans = level(finding.level).add(Role::Quiet, finding.code.as_str());
    if named {
        spans.push(Role::Strong, &format!(" {} ", finding.name));
    }
    screen.flow(LABELS, &spans.add(Role::Text, &format!(" {}", finding.summary)))
}

fn evidence(screen: &mut Screen<'_>, finding: &Finding) -> io::Result<()> {
    if finding.evidence.is_empty() {
        return Ok(());
    }
    screen.flow(TEXT, &labelled("seen").add(Role::Text, &finding.evidence.join("; ")))
}

fn cost(screen: &mut Screen<'_>, cost: &str) -> io::Result<()> {
    screen.flow(TEXT, &labelled("cost").add(Role::Text, cost))
}
