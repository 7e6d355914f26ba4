//! Cases, worst first: what is wrong, what it costs, what to do; the worst above everything else.

use std::io;

use hugewise_diagnose::case::DiagnosedCase;
use hugewise_model::instance::Mechanism;
use hugewise_model::{Finding, InstanceId, Level};

use super::chain;
use super::labels::{LABELS, TEXT, at_the_edge, indented_label};
use crate::CheckReport;
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::view::cases::{
    describe_symptom as in_words, find_worst_case, fit_headline, next, to_do,
};

/// Writes what is wrong, what it costs and what to do next.
pub(super) fn write_worst_case(
    screen: &mut Screen<'_>,
    checked: &CheckReport<'_>,
    cases: &[DiagnosedCase<'_>],
) -> io::Result<()> {
    let Some(case) = find_worst_case(cases) else { return Ok(()) };
    let what = fit_headline(case.cause, screen.width().saturating_sub(LABELS));
    screen.write_paragraph(LABELS, &level_label(case.level()).add(Role::Strong, &what))?;
    screen.write_paragraph(LABELS, &at_the_edge("cost").add(Role::Text, &case.cost))?;
    // A command is to be pasted: it stays whole.
    screen.write_line(&at_the_edge("next").add(Role::Strong, &next(checked, cases)))?;
    screen.write_blank()
}

/// Of the case on top, only what was not said there.
pub(super) fn write(
    screen: &mut Screen<'_>,
    checked: &CheckReport<'_>,
    cases: &[DiagnosedCase<'_>],
) -> io::Result<()> {
    let mut costs: Vec<&str> = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        // What several cases cost in the same words is said once.
        let is_told = costs.contains(&case.cost.as_str());
        costs.push(&case.cost);
        if screen.is_verbose() {
            in_full(screen, checked, case)?;
        } else {
            let on_top = at == 0 && find_worst_case(cases).is_some();
            in_short(screen, case, CasePlacement { on_top, alone: cases.len() == 1, is_told })?;
        }
    }
    let mut start = "do";
    for what in to_do(checked, screen.is_verbose()) {
        screen.write_paragraph(LABELS, &at_the_edge(start).add(Role::Text, &what))?;
        start = "";
    }
    Ok(())
}

fn in_full(
    screen: &mut Screen<'_>,
    checked: &CheckReport<'_>,
    case: &DiagnosedCase<'_>,
) -> io::Result<()> {
    write_finding(screen, case.cause, true)?;
    // A server that cannot use a pool has no chain to one.
    let has_way = |id: &InstanceId| {
        let itself = checked.instances.iter().find(|instance| instance.id() == *id);
        itself.is_none_or(|instance| instance.mechanism != Mechanism::None)
    };
    let title = case.cause.instance.as_ref().filter(|id| has_way(id));
    if let Some(chain) =
        checked.assessment.chains.iter().find(|chain| Some(&chain.instance) == title)
    {
        chain::write(screen, chain)?;
    }
    write_evidence(screen, case.cause)?;
    write_cost(screen, &case.cost)?;
    for symptom in &case.symptoms {
        write_finding(screen, symptom, true)?;
        write_evidence(screen, symptom)?;
    }
    Ok(())
}

struct CasePlacement {
    /// It is the one on top.
    on_top: bool,
    /// There is no other.
    alone: bool,
    /// Its cost was told with another case.
    is_told: bool,
}

/// The cause, and a line for each symptom that warns.
fn in_short(
    screen: &mut Screen<'_>,
    case: &DiagnosedCase<'_>,
    place: CasePlacement,
) -> io::Result<()> {
    let CasePlacement { on_top, alone, is_told } = place;
    let least = if alone && case.level() == Level::Info { Level::Info } else { Level::Warn };
    let symptoms: Vec<&Finding> =
        case.unreported_symptoms().filter(|symptom| symptom.level >= least).collect();
    let in_whole =
        fit_headline(case.cause, screen.width().saturating_sub(LABELS)) == case.cause.summary;
    // Below others, its symptoms would be taken for theirs.
    let is_said = on_top && in_whole && (alone || symptoms.is_empty());
    if !is_said {
        write_finding(screen, case.cause, false)?;
    }
    if !on_top && case.level() >= Level::Warn && !is_told {
        write_cost(screen, &case.cost)?;
    }
    let (mut label, hang) =
        if is_said { (at_the_edge("also"), LABELS) } else { (indented_label("also"), TEXT) };
    for symptom in symptoms {
        let code = Spans::new().add(symptom.level.into(), symptom.code.as_str());
        label.append(&code);
        screen.write_paragraph(
            hang + 6,
            &label.add(Role::Text, &format!(" {}", in_words(case.cause, symptom))),
        )?;
        label = Spans::new().add(Role::Text, &" ".repeat(hang));
    }
    Ok(())
}

fn level_label(level: Level) -> Spans {
    Spans::new().add(level.into(), &format!("{:LABELS$}", level.as_str()))
}

fn write_finding(screen: &mut Screen<'_>, finding: &Finding, named: bool) -> io::Result<()> {
    let mut spans = level_label(finding.level).add(Role::Quiet, finding.code.as_str());
    if named {
        spans.push(Role::Strong, &format!(" {} ", finding.name));
    }
    screen.write_paragraph(LABELS, &spans.add(Role::Text, &format!(" {}", finding.summary)))
}

fn write_evidence(screen: &mut Screen<'_>, finding: &Finding) -> io::Result<()> {
    if finding.evidence.is_empty() {
        return Ok(());
    }
    screen.write_paragraph(
        TEXT,
        &indented_label("seen").add(Role::Text, &finding.evidence.join("; ")),
    )
}

fn write_cost(screen: &mut Screen<'_>, cost: &str) -> io::Result<()> {
    screen.write_paragraph(TEXT, &indented_label("cost").add(Role::Text, cost))
}
