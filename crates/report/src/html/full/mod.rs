//! All that is said of a host as one page.
//!
//! It reads without its script, which copies commands and moves the slider: what the slider shows stands in a table.

use hugewise_model::Reason;
use maud::{Markup, html};

use super::parts::{STYLE as PARTS, Section, clean, document, host, name, read_at, table, unread};
use super::{Extra, cases, investigate, page_with, size};
use crate::full::VERSION;
use crate::view::{cases as view, target};
use crate::{HostReport, SizeReport, date};

mod plan;
mod what_if;

#[cfg(test)]
mod tests;

pub(super) const STYLE: &str = include_str!("page.css");
pub(super) const SCRIPT: &str = include_str!("page.js");

pub(crate) fn page(report: &HostReport<'_>) -> String {
    let checked = &report.checked;
    let all = view::of(checked);
    let made = date::rfc3339(report.made_at).unwrap_or_else(|| "?".into());
    let head = html! {
        p.faint { "hugewise " (VERSION) " report, made " time datetime=(made) { (made) } "; host " (read_at(checked.host)) }
        h1 { (name(checked.host)) }
        (cases::first(checked, &all))
        (host(checked.host))
    };
    let section = |id, title, body| Section { id, title, body };
    let mut sections = Vec::new();
    if !all.is_empty() {
        sections.push(section("cases", "What is wrong", cases::all(checked, &all)));
    }
    sections.push(section("moments", "Moments", cases::instances(checked)));
    sections.push(section("target", "Target", target_of(report)));
    let plan = match &report.planned {
        Ok(planned) => plan::plan(planned, checked.root),
        Err(why) => html! { p { span.warn { "There is no plan" } ": " (clean(why)) "." } },
    };
    sections.push(section("plan", "Plan", plan));
    match &report.sized {
        Ok(sized) => {
            sections.push(section("sizing", "Sizing", sizing(sized)));
            if !report.stops.is_empty() {
                sections.push(section("what-if", "What if", what_if::what_if(report, sized)));
            }
            sections.push(section("memory", "Memory budget", size::memory(sized)));
        }
        Err(why) => {
            let body = html! { p { span.warn { "Nothing is sized" } ": " (clean(why)) "." } };
            sections.push(section("sizing", "Sizing", body));
        }
    }
    if let Some(investigation) = report.investigation {
        sections.push(section("incidents", "Incidents", investigate::part(investigation)));
    }
    sections.extend(cases::undecided(checked).map(|body| section("undecided", "Undecided", body)));
    sections.extend(cases::rules(checked).map(|body| section("rules", "Rules", body)));
    let denied = checked.assessment.unknown.iter().any(|verdict| verdict.why == Reason::Denied);
    let mut not_read = checked.unread.to_vec();
    not_read.extend_from_slice(report.planned.as_ref().map(|planned| planned.unread).unwrap_or_default());
    not_read.sort();
    not_read.dedup();
    let body = document(&head, &sections, &unread(checked.host, &not_read, denied));
    let (mut style, mut script) = (String::new(), String::new());
    if report.investigation.is_some() {
        style = investigate::style();
        script = investigate::SCRIPT.to_owned();
    }
    style += PARTS;
    style += STYLE;
    script += SCRIPT;
    let title = format!("hugewise report: {}", name(checked.host));
    page_with(&title, &body, &Extra { style: &style, script: Some(&script) })
}

fn target_of(report: &HostReport<'_>) -> Markup {
    let rows = target::rows(&report.checked);
    html! {
        @if rows.is_empty() { p { "No pool is needed, and there is none." } }
        (table("target", &target::COLUMNS, &rows))
        @for note in target::notes(&report.checked) { p { (clean(&note)) } }
    }
}

fn sizing(sized: &SizeReport<'_>) -> Markup {
    html! {
        @if sized.sizing.refusal.is_none() { h3 { "Pools" } }
        (size::pools(sized))
        h3 { "Pages by instance" } (size::instances(sized))
        @if let Some(changes) = size::changes(sized) { h3 { "One outage" } (changes) }
        @if let Some(forecast) = size::forecast(sized) { h3 { "Forecast" } (forecast) }
        @if let Some(choices) = size::choices(sized) { h3 { "Page sizes compared" } (choices) }
        h3 { "Limits" } (size::limits(sized))
    }
}
