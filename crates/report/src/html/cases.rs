//! What is wrong and how the instances stand, as parts of a page; and the rules that it links to.

use std::collections::BTreeSet;

use hugewise_advice::case::Case;
use hugewise_advice::docs;
use hugewise_model::Finding;
use maud::{Markup, html};

use super::markdown;
use super::parts::{chain, class, clean, command, table};
use crate::Checked;
use crate::palette::Role;
use crate::view::{cases, closing, instances, moments, nothing};

/// What is wrong, what it costs, what to do next; or that all is well.
pub(super) fn first(checked: &Checked<'_>, all: &[Case<'_>]) -> Markup {
    html! {
        @match cases::worst(all) {
            Some(case) => {
                dl.first {
                    dt class=(class(Role::from(case.level()))) { (case.level().as_str()) }
                    dd.strong { (clean(&case.cause.summary)) }
                    dt { "cost" } dd { (clean(&case.cost)) }
                    dt { "next" } dd { (command(&cases::next(checked, all))) }
                }
            }
            None => { p.strong { (closing::counts(checked)) } }
        }
    }
}

/// All cases, and what is to be done about them.
pub(super) fn all(checked: &Checked<'_>, all: &[Case<'_>]) -> Markup {
    let to_do = cases::to_do(checked, true);
    html! {
        p.faint { (closing::counts(checked)) }
        @if !to_do.is_empty() {
            h3 { "What to do" }
            ol { @for what in &to_do { li { (clean(what)) } } }
        }
        @for one in all { (case(checked, one, &to_do)) }
    }
}

/// One cause with the chain of its instance, and what follows from it.
fn case(checked: &Checked<'_>, case: &Case<'_>, to_do: &[String]) -> Markup {
    let chains = &checked.assessment.chains;
    let broken = chains.iter().find(|chain| Some(&chain.instance) == case.cause.instance.as_ref());
    html! {
        div.case {
            (finding(case.cause, to_do, html! { @if let Some(links) = broken { (chain(links)) } }, Some(&case.cost)))
            @for symptom in &case.symptoms { (finding(symptom, to_do, html! {}, None)) }
        }
    }
}

fn finding(finding: &Finding, to_do: &[String], chain: Markup, cost: Option<&str>) -> Markup {
    // What stands in the list above is not said again.
    let besides: Vec<&String> = finding.fix.iter().filter(|line| !to_do.contains(line)).collect();
    html! {
        article class={ "finding " (finding.level.as_str()) } {
            p.head {
                span class=(class(Role::from(finding.level))) { (finding.level.as_str()) }
                a href={ "#" (finding.code.as_str()) } { (finding.code.as_str()) " " (finding.name) }
                @if let Some(instance) = &finding.instance { span.faint { (clean(&instance.to_string())) } }
            }
            h3 { (clean(&finding.summary)) }
            (chain)
            dl {
                @if !finding.evidence.is_empty() {
                    dt { "seen" }
                    dd { @for fact in &finding.evidence { p { (clean(fact)) } } }
                }
                @if let Some(cost) = cost { dt { "cost" } dd { (clean(cost)) } }
                @if !besides.is_empty() {
                    dt { "do" }
                    dd { @for line in &besides { p { (clean(line)) } } }
                }
            }
        }
    }
}

/// The instances, each at its moments.
pub(super) fn instances(checked: &Checked<'_>) -> Markup {
    html! {
        @if checked.instances.is_empty() { p { (clean(&nothing::why(checked.host))) } }
        (table("instances", &instances::COLUMNS, &instances::rows(checked)))
        @for (title, note) in instances::notes(checked) { p { span.strong { (clean(&title)) } ": " (clean(&note)) } }
        @for one in instances::unmentioned(checked) {
            h3 { (clean(&one.instance.to_string())) }
            (chain(one))
        }
        (reasons(checked))
    }
}

/// Why they stand so.
fn reasons(checked: &Checked<'_>) -> Markup {
    let (rows, more) = moments::rows(checked);
    html! {
        @if !rows.is_empty() {
            h3 { "Now, after a restart, after a reboot" }
            div.scroll tabindex="0" role="region" aria-label="table: moments" {
                table.moments {
                    thead { tr {
                        th scope="col" { "instance" }
                        @for heading in moments::HEADINGS { th scope="col" { (heading) } }
                    } }
                    tbody {
                        @for (title, all) in &rows {
                            tr {
                                th scope="row" { (title) }
                                @for at in all {
                                    td {
                                        span class=(class(at.role)) { (at.standing) }
                                        @if !at.why.is_empty() { span.why { (at.why) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if more > 0 { p.faint { (more) " more instances: --format json has them all." } }
    }
}

/// What could not be decided; none where everything was.
pub(super) fn undecided(checked: &Checked<'_>) -> Option<Markup> {
    let undecided = closing::undecided(checked);
    (!undecided.is_empty()).then(|| html! { ul { @for what in &undecided { li { (clean(what)) } } } })
}

/// The pages of the rules that speak, or could not; none where none does.
pub(super) fn rules(checked: &Checked<'_>) -> Option<Markup> {
    let assessment = checked.assessment;
    let codes = assessment.findings.iter().map(|finding| finding.code);
    let codes: BTreeSet<&str> =
        codes.chain(assessment.unknown.iter().map(|verdict| verdict.code)).map(|code| code.as_str()).collect();
    let rules: Vec<_> = codes.into_iter().filter_map(docs::find).collect();
    (!rules.is_empty()).then(|| {
        html! {
            @for rule in rules {
                article.rule id=(rule.code.as_str()) {
                    h3 { (rule.code.as_str()) " " (rule.name) }
                    h4 { "What it looks for" } (markdown::markup(docs::what(rule).trim()))
                    h4 { "Why it hurts" } (markdown::markup(rule.docs.why.trim()))
                    h4 { "How to fix it" } (markdown::markup(rule.docs.fix.trim()))
                    h4 { "Sources" } ul { @for source in rule.docs.sources { li { (markdown::inline(source)) } } }
                }
            }
        }
    })
}
