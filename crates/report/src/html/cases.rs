use std::collections::BTreeSet;

use hugewise_diagnose::case::DiagnosedCase;
use hugewise_diagnose::docs;
use hugewise_model::Finding;
use maud::{Markup, html};

use super::markdown;
use super::parts::{
    clean_text, render_chain, render_command, render_notes, render_table, role_class,
};
use crate::CheckReport;
use crate::palette::Role;
use crate::view::{cases, closing, instances, no_instances, stages};

pub(super) fn render_worst_case(checked: &CheckReport<'_>, all: &[DiagnosedCase<'_>]) -> Markup {
    html! {
        @match cases::find_worst_case(all) {
            Some(case) => {
                dl.first {
                    dt class=(role_class(Role::from(case.level()))) { (case.level().as_str()) }
                    dd.strong { (clean_text(&case.cause.summary)) }
                    dt { "cost" } dd { (clean_text(&case.cost)) }
                    dt { "next" } dd { (render_command(&cases::next(checked, all))) }
                }
            }
            None => { p.strong { (closing::summarize_findings(checked)) } }
        }
    }
}

pub(super) fn render_all_cases(checked: &CheckReport<'_>, all: &[DiagnosedCase<'_>]) -> Markup {
    let to_do = cases::to_do(checked, true);
    html! {
        p.faint { (closing::summarize_findings(checked)) }
        @if !to_do.is_empty() {
            h3 { "What to do" }
            ol { @for what in &to_do { li { (clean_text(what)) } } }
        }
        @for one in all { (render_case(checked, one, &to_do)) }
    }
}

fn render_case(checked: &CheckReport<'_>, case: &DiagnosedCase<'_>, to_do: &[String]) -> Markup {
    let chains = &checked.assessment.chains;
    let broken = chains.iter().find(|chain| Some(&chain.instance) == case.cause.instance.as_ref());
    html! {
        div.case {
            (render_finding(case.cause, to_do, html! { @if let Some(links) = broken { (render_chain(links)) } }, Some(&case.cost)))
            @for symptom in &case.symptoms { (render_finding(symptom, to_do, html! {}, None)) }
        }
    }
}

fn render_finding(
    finding: &Finding,
    to_do: &[String],
    chain: Markup,
    cost: Option<&str>,
) -> Markup {
    // What stands in the list above is not said again.
    let besides: Vec<&String> = finding.fix.iter().filter(|line| !to_do.contains(line)).collect();
    html! {
        article class={ "finding " (finding.level.as_str()) } {
            p.head {
                span class=(role_class(Role::from(finding.level))) { (finding.level.as_str()) }
                a href={ "#" (finding.code.as_str()) } { (finding.code.as_str()) " " (finding.name) }
                @if let Some(instance) = &finding.instance { span.faint { (clean_text(&instance.to_string())) } }
            }
            h3 { (clean_text(&finding.summary)) }
            (chain)
            dl {
                @if !finding.evidence.is_empty() {
                    dt { "seen" }
                    dd { @for fact in &finding.evidence { p { (clean_text(fact)) } } }
                }
                @if let Some(cost) = cost { dt { "cost" } dd { (clean_text(cost)) } }
                @if !besides.is_empty() {
                    dt { "do" }
                    dd { @for line in &besides { p { (clean_text(line)) } } }
                }
            }
        }
    }
}

pub(super) fn render_instances(checked: &CheckReport<'_>) -> Markup {
    html! {
        @if checked.instances.is_empty() { p { (clean_text(&no_instances::why_no_instance(checked.host))) } }
        (render_table("instances", &instances::COLUMNS, &instances::checked_instance_rows(checked)))
        (render_notes(&instances::instance_notes(checked)))
        @for one in instances::unmentioned_chains(checked) {
            h3 { (clean_text(&one.instance.to_string())) }
            (render_chain(one))
        }
        (render_stage_reasons(checked))
    }
}

fn render_stage_reasons(checked: &CheckReport<'_>) -> Markup {
    let (rows, more) = stages::stage_rows(checked);
    html! {
        @if !rows.is_empty() {
            h3 { "Now, after a restart, after a reboot" }
            div.scroll tabindex="0" role="region" aria-label="table: moments" {
                table.moments {
                    thead { tr {
                        th scope="col" { "instance" }
                        @for heading in stages::HEADINGS { th scope="col" { (heading) } }
                    } }
                    tbody {
                        @for (title, all) in &rows {
                            tr {
                                th scope="row" { (title) }
                                @for at in all {
                                    td {
                                        span class=(role_class(at.role)) { (at.standing) }
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

pub(super) fn render_undecided(checked: &CheckReport<'_>) -> Option<Markup> {
    let undecided = closing::list_undecided(checked);
    (!undecided.is_empty())
        .then(|| html! { ul { @for what in &undecided { li { (clean_text(what)) } } } })
}

pub(super) fn render_rule_pages(checked: &CheckReport<'_>) -> Option<Markup> {
    let assessment = checked.assessment;
    let codes = assessment.findings.iter().map(|finding| finding.code);
    let codes: BTreeSet<&str> = codes
        .chain(assessment.unknown.iter().map(|verdict| verdict.code))
        .map(|code| code.as_str())
        .collect();
    let rules: Vec<_> = codes.into_iter().filter_map(docs::find_rule).collect();
    (!rules.is_empty()).then(|| {
        html! {
            @for rule in rules {
                article.rule id=(rule.code.as_str()) {
                    h3 { (rule.code.as_str()) " " (rule.name) }
                    h4 { "What it looks for" } (markdown::render_markdown(docs::describe_rule(rule).trim()))
                    h4 { "Why it hurts" } (markdown::render_markdown(docs::why_it_hurts(rule).trim()))
                    h4 { "How to fix it" } (markdown::render_markdown(docs::how_to_fix(rule).trim()))
                    h4 { "Sources" } ul { @for source in rule.docs.sources { li { (markdown::render_inline_code(source)) } } }
                }
            }
        }
    })
}
