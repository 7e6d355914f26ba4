//! All that is said of a host as one page. It reads without its script, which copies commands and
//! moves the slider.

use hugewise_diagnose::case::DiagnosedCase;
use hugewise_model::Reason;
use maud::{Markup, html};

use super::parts::{
    PageSection, STYLE as PARTS, clean_text, host_title, read_at, render_document,
    render_host_lines, render_table, render_unread,
};
use super::{cases, investigate, page_with, size};
use crate::host_report::VERSION;
use crate::view::{cases as view, target};
use crate::{HostReport, SizeReport, date};

mod plan;
mod what_if;

#[cfg(test)]
mod tests;

pub(super) const STYLE: &str = include_str!("page.css");
pub(super) const SCRIPT: &str = include_str!("page.js");

pub(crate) fn render_host_report_page(report: &HostReport<'_>) -> String {
    let checked = &report.checked;
    let all = view::cases_of_report(checked);
    let made = date::format_rfc3339(report.made_at).unwrap_or_else(|| "?".into());
    let head = html! {
        p.faint { "hugewise " (VERSION) " report, made " time datetime=(made) { (made) } "; host " (read_at(checked.host)) }
        h1 { (host_title(checked.host)) }
        (cases::render_worst_case(checked, &all))
        (render_host_lines(checked.host))
    };
    let denied = checked.assessment.unknown.iter().any(|verdict| verdict.why == Reason::Denied);
    let mut not_read = checked.unread.to_vec();
    not_read.extend_from_slice(
        report.planned.as_ref().map(|planned| planned.unread).unwrap_or_default(),
    );
    not_read.sort();
    not_read.dedup();
    let sections = page_sections(report, &all);
    let body = render_document(&head, &sections, &render_unread(checked.host, &not_read, denied));
    let (mut style, mut script) = (String::new(), String::new());
    if report.investigation.is_some() {
        style = investigate::investigation_style();
        script = investigate::SCRIPT.to_owned();
    }
    style += PARTS;
    style += STYLE;
    script += SCRIPT;
    let title = format!("hugewise report: {}", host_title(checked.host));
    page_with(&title, &body, &style, Some(&script))
}

fn page_sections(report: &HostReport<'_>, all: &[DiagnosedCase<'_>]) -> Vec<PageSection> {
    let checked = &report.checked;
    let section = |id, title, body| PageSection { id, title, body };
    let mut sections = Vec::new();
    if !all.is_empty() {
        sections.push(section("cases", "What is wrong", cases::render_all_cases(checked, all)));
    }
    sections.push(section("moments", "Moments", cases::render_instances(checked)));
    sections.push(section("target", "Target", target_of(report)));
    let plan = match &report.planned {
        Ok(planned) => plan::render_plan(planned, checked.root),
        Err(why) => html! { p { span.warn { "There is no plan" } ": " (clean_text(why)) "." } },
    };
    sections.push(section("plan", "Plan", plan));
    match &report.sized {
        Ok(sized) => {
            sections.push(section("sizing", "Sizing", render_sizing(sized)));
            if !report.stops.is_empty() {
                sections.push(section("what-if", "What if", what_if::what_if(report, sized)));
            }
            sections.push(section("memory", "Memory budget", size::render_memory_budget(sized)));
        }
        Err(why) => {
            let body = html! { p { span.warn { "Nothing is sized" } ": " (clean_text(why)) "." } };
            sections.push(section("sizing", "Sizing", body));
        }
    }
    if let Some(investigation) = report.investigation {
        sections.push(section(
            "incidents",
            "Incidents",
            investigate::render_investigation(investigation),
        ));
    }
    sections.extend(
        cases::render_undecided(checked).map(|body| section("undecided", "Undecided", body)),
    );
    sections.extend(cases::render_rule_pages(checked).map(|body| section("rules", "Rules", body)));
    sections
}

fn target_of(report: &HostReport<'_>) -> Markup {
    let rows = target::target_rows(&report.checked);
    html! {
        @if rows.is_empty() { p { "No pool is needed, and there is none." } }
        (render_table("target", &target::COLUMNS, &rows))
        @for note in target::target_notes(&report.checked) { p { (clean_text(&note)) } }
    }
}

fn render_sizing(sized: &SizeReport<'_>) -> Markup {
    html! {
        @if sized.sizing.refusal.is_none() { h3 { "Pools" } }
        (size::render_pools(sized))
        h3 { "Pages by instance" } (size::render_sized_instances(sized))
        @if let Some(changes) = size::render_setting_changes(sized) { h3 { "One outage" } (changes) }
        @if let Some(forecast) = size::render_forecast(sized) { h3 { "Forecast" } (forecast) }
        @if let Some(choices) = size::render_page_size_choices(sized) { h3 { "Page sizes compared" } (choices) }
        h3 { "Limits" } (size::render_limits(sized))
    }
}
