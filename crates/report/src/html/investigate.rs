//! An investigation as a page: what happened in words, beside charts on one time axis.
//!
//! It reads without its script, which only zooms. The page allows that one script by its hash, so
//! that nothing that a name smuggles in can run.

use hugewise_investigate::{
    IncidentHistory, InvestigatedSource, Investigation, MOST_STORIES, Moment, SourceFormat,
};
use maud::{Markup, html};

use super::page_with;
use crate::chart::timeline;
use crate::view::hosts;

mod charts;
mod prose;
#[cfg(test)]
mod tests;

use super::parts::clean_text;

const STYLE: &str = include_str!("investigate/page.css");
pub(super) const SCRIPT: &str = include_str!("investigate/zoom.js");
/// Of all charts of a page together: a picture is hardly ever wider than half of that.
const COLUMNS: u32 = 3000;
/// Files in the table of sources.
const MOST_SOURCES: usize = 400;

pub(crate) fn render_investigation_page(investigation: &Investigation) -> String {
    let told = hosts_on_page(investigation);
    let columns = columns_per_host(told.len());
    let body = html! {
        header {
            p.faint { "hugewise investigate" }
            h1 { (describe_incident_count(investigation)) }
            (render_contents(investigation))
        }
        @for (number, history) in told { (render_host(number, history, columns, &host_heading(investigation, history, "What happened"))) }
        @if !investigation.unknown.is_empty() {
            section { h2 { "What could not be determined" } (render_unknown(investigation)) }
        }
        section { h2 { "Sources" } (render_sources(investigation)) }
    };
    page_with(&describe_incident_count(investigation), &body, &investigation_style(), Some(SCRIPT))
}

/// A part of a page that has [`investigation_style`] and [`SCRIPT`].
pub(super) fn render_investigation(investigation: &Investigation) -> Markup {
    let told = hosts_on_page(investigation);
    let columns = columns_per_host(told.len());
    html! {
        p.strong { (describe_incident_count(investigation)) }
        (render_contents(investigation))
        @for (number, history) in told { (render_host(number, history, columns, &host_heading(investigation, history, ""))) }
        @if !investigation.unknown.is_empty() {
            h3 { "What could not be determined" } (render_unknown(investigation))
        }
        h3 { "Sources" } (render_sources(investigation))
    }
}

pub(super) fn investigation_style() -> String {
    [timeline::STYLE, STYLE].concat()
}

fn columns_per_host(hosts: usize) -> u32 {
    let hosts = u32::try_from(hosts).unwrap_or(u32::MAX).max(1);
    (COLUMNS / hosts).clamp(150, 1500)
}

/// Hosts whose stories are on the page, with their numbers among all; of very many, the worst.
fn hosts_on_page(investigation: &Investigation) -> Vec<(usize, &IncidentHistory)> {
    let all = (1..).zip(&investigation.hosts);
    if investigation.hosts.len() <= MOST_STORIES {
        return all.collect();
    }
    let worst = hosts::rank_hosts(investigation);
    let worst: Vec<&IncidentHistory> =
        worst.iter().take(MOST_STORIES).map(|line| line.history).collect();
    all.filter(|(_, history)| worst.iter().any(|one| std::ptr::eq(*one, *history))).collect()
}

fn describe_incident_count(investigation: &Investigation) -> String {
    let incidents: usize = investigation.hosts.iter().map(|history| history.incidents.len()).sum();
    let on = match investigation.hosts.as_slice() {
        [] => return "Nothing could be read".into(),
        [one] => format!("on {}", host_title(one)),
        several => format!("on {} hosts", several.len()),
    };
    match incidents {
        0 => format!("Nothing found {on}"),
        1 => format!("1 incident {on}"),
        several => format!("{several} incidents {on}"),
    }
}

fn host_title(history: &IncidentHistory) -> String {
    history.host.as_deref().map_or_else(|| "a host without a name".into(), clean_text)
}

/// Incidents in a line each, with links, if there are several hosts.
fn render_contents(investigation: &Investigation) -> Markup {
    let hosts = &investigation.hosts;
    if hosts.len() > hosts::MANY {
        return render_host_ranking(investigation);
    }
    html! {
        @if hosts.len() > 1 {
            ul.contents {
                @for (number, history) in (1..).zip(hosts) {
                    li {
                        a href={ "#host-" (number) } { (host_title(history)) }
                        @match history.incidents.as_slice() {
                            [] => { span.faint { " nothing found" } }
                            [first, rest @ ..] => {
                                " " (prose::format_window(first.from, first.to, &history.clock)) ": " (prose::to_sentence(&first.summary))
                                @if !rest.is_empty() { span.faint { " and " (rest.len()) " more" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn render_host_ranking(investigation: &Investigation) -> Markup {
    let told: Vec<(usize, &IncidentHistory)> = hosts_on_page(investigation);
    let number = |history: &IncidentHistory| {
        told.iter().find(|(_, one)| std::ptr::eq(*one, history)).map(|(number, _)| *number)
    };
    let ranked = hosts::rank_hosts(investigation);
    let quiet = ranked.iter().filter(|line| line.worst.is_none()).count();
    let absent =
        ranked.iter().filter(|line| line.worst.is_some() && number(line.history).is_none()).count();
    html! {
        div.scroll tabindex="0" role="region" aria-label="hosts" {
            table {
                thead {
                    tr {
                        th scope="col" { "host" }
                        th.number scope="col" { "incidents" }
                        @for heading in ["the worst", "confidence", "what it was"] { th scope="col" { (heading) } }
                    }
                }
                tbody {
                    @for line in &ranked {
                        @if let Some(worst) = line.worst {
                            tr {
                                td {
                                    @match number(line.history) {
                                        Some(number) => a href={ "#host-" (number) } { (clean_text(line.name())) },
                                        None => (clean_text(line.name())),
                                    }
                                }
                                td.number { (line.history.incidents.len()) }
                                td { (prose::format_window(worst.from, worst.to, &line.history.clock)) }
                                td { (worst.confidence.to_string()) }
                                td.wide { (prose::to_sentence(line.cause())) ": " (clean_text(line.figures())) }
                            }
                        }
                    }
                }
            }
        }
        @if quiet > 0 { p.faint { "Nothing was found on " (quiet) " of the " (ranked.len()) " hosts." } }
        @if absent > 0 {
            p.faint { "The stories of the worst " (MOST_STORIES) " hosts are below; --host NAME \
                 tells that of another." }
        }
    }
}

/// The host's name where there are several, otherwise `alone`.
fn host_heading(investigation: &Investigation, history: &IncidentHistory, alone: &str) -> String {
    if investigation.hosts.len() > 1 { host_title(history) } else { alone.to_owned() }
}

fn render_host(number: usize, history: &IncidentHistory, columns: u32, heading: &str) -> Markup {
    let heading = html! { @if !heading.is_empty() { h2 { (heading) } } };
    let Some(span) = charts::history_span(history) else {
        return html! { section.host id={ "host-" (number) } { (heading) (prose::render_prose(history)) } };
    };
    let axis = charts::build_time_axis(history, span);
    let charts = charts::draw_charts(history, &axis, columns);
    html! {
        section.host id={ "host-" (number) } {
            (heading)
            p.faint { (describe_history_span(history, span)) }
            div.beside {
                div.words { (prose::render_prose(history)) }
                div.charts data-from=(span.0.0) data-to=(span.1.0) data-offset=(axis.offset) role="group"
                    aria-label={ "charts of " (host_title(history)) } {
                    div.tools hidden {
                        button type="button" data-do="in" aria-label="zoom in" { "+" }
                        button type="button" data-do="out" aria-label="zoom out" { "\u{2212}" }
                        button type="button" data-do="left" aria-label="earlier" { "\u{2190}" }
                        button type="button" data-do="right" aria-label="later" { "\u{2192}" }
                        button type="button" data-do="all" { "Whole time" }
                        output aria-live="polite" {}
                    }
                    p.faint.help hidden {
                        "Drag across a period to zoom in. Arrow keys move, + and \u{2212} zoom, 0 \
                             shows all; the wheel \
                         zooms after a click, and so do two fingers."
                    }
                    @for chart in &charts.drawn { (chart) }
                    @if !charts.zero.is_empty() {
                        p.faint { "Zero in every sample: " (charts.zero.join(", ").to_lowercase()) "." }
                    }
                    @if !charts.absent.is_empty() {
                        p.faint { "In no source: " (charts.absent.join(", ").to_lowercase()) "." }
                    }
                }
            }
        }
    }
}

fn describe_history_span(history: &IncidentHistory, span: (Moment, Moment)) -> String {
    let samples: usize = history.series.iter().map(|series| series.samples().len()).sum();
    let from = match history.series.as_slice() {
        [one] => clean_text(&one.source),
        several => format!("{} sources", several.len()),
    };
    let changes = match &history.clock {
        hugewise_investigate::Clock::Utc { offsets } => offsets.iter().any(|offset| {
            offset.from > span.0
                && offset.from < span.1
                && Some(offset.seconds) != history.clock.offset_at(span.0)
        }),
        hugewise_investigate::Clock::Wall { .. } => false,
    };
    let zone = prose::clock_words(&history.clock, span.0);
    let change = if changes {
        "; the host's clock was set forward or back meanwhile; the charts do not follow it"
    } else {
        ""
    };
    format!(
        "{}; {zone}{change}; {samples} samples of {from}",
        prose::format_window(span.0, span.1, &history.clock)
    )
}

fn render_unknown(investigation: &Investigation) -> Markup {
    html! { ul { @for what in &investigation.unknown { li { (clean_text(what)) } } } }
}

fn render_sources(investigation: &Investigation) -> Markup {
    // Of very many files, those with problems.
    let few = investigation.sources.len() <= MOST_SOURCES;
    let wanted = |source: &&InvestigatedSource| {
        few || source.format.is_none() || !source.problems.is_empty()
    };
    let shown: Vec<&InvestigatedSource> =
        investigation.sources.iter().filter(wanted).take(MOST_SOURCES).collect();
    let row = |source: &InvestigatedSource| {
        let when = match (source.from, source.to) {
            (Some(from), Some(to)) => prose::format_window(from, to, &source.clock),
            _ => String::new(),
        };
        html! {
            tr {
                td.path { (clean_text(&source.path)) }
                td { (source.format.map_or("not read", SourceFormat::as_str)) " " (source.version.as_deref().map(clean_text).unwrap_or_default()) }
                td { (source.host.as_deref().map(clean_text).unwrap_or_default()) }
                td { (when) }
                td.number { (source.samples) }
                td.wide { @for problem in &source.problems { p { (clean_text(problem)) } } }
            }
        }
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label="sources" {
            table {
                thead {
                    tr {
                        @for heading in ["source", "format", "host", "from, to"] { th scope="col" { (heading) } }
                        th.number scope="col" { "samples" }
                        th scope="col" { "what is wrong with it" }
                    }
                }
                tbody { @for source in &shown { (row(source)) } }
            }
        }
        @if shown.len() < investigation.sources.len() {
            p.faint { (investigation.sources.len() - shown.len()) " more files were read without \
                 a problem." }
        }
        @for passed in &investigation.passed_over { p.faint { "Passed over: " (clean_text(passed)) } }
    }
}
