//! An investigation as a page: what happened in words, beside charts of one axis of time.
//!
//! It reads without its script, which only zooms: the page allows itself that one script by its hash, so that nothing
//! that a name smuggled in could run.

use std::io;

use hugewise_incident::{Format, History, Investigation, MOST_STORIES, Moment, Source};
use maud::{Markup, html};

use super::{Extra, page_with};
use crate::chart::timeline;
use crate::view::hosts;

mod charts;
mod prose;
#[cfg(test)]
mod tests;

use prose::clean;

const STYLE: &str = include_str!("investigate/page.css");
pub(super) const SCRIPT: &str = include_str!("investigate/zoom.js");

/// Columns that the charts of a page have together: a picture is hardly ever wider than half of that.
const COLUMNS: u32 = 3000;

/// Files in the table of sources.
const MOST_SOURCES: usize = 400;

/// Writes the report as a page with charts.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write(investigation: &Investigation, out: &mut dyn io::Write) -> io::Result<()> {
    out.write_all(page(investigation).as_bytes())
}

fn page(investigation: &Investigation) -> String {
    let told = told(investigation);
    let columns = columns(told.len());
    let body = html! {
        header {
            p.faint { "hugewise investigate" }
            h1 { (headline(investigation)) }
            (contents(investigation))
        }
        @for (number, history) in told { (host(number, history, columns, &heading(investigation, history, "What happened"))) }
        @if !investigation.unknown.is_empty() {
            section {
                h2 { "What could not be determined" }
                ul { @for what in &investigation.unknown { li { (clean(what)) } } }
            }
        }
        section {
            h2 { "Sources" }
            (sources(investigation))
        }
    };
    page_with(&headline(investigation), &body, &Extra { style: &style(), script: Some(SCRIPT) })
}

/// What happened, as a part of a page that has [`style`] and [`SCRIPT`], below a heading of its own.
pub(super) fn part(investigation: &Investigation) -> Markup {
    let told = told(investigation);
    let columns = columns(told.len());
    html! {
        p.strong { (headline(investigation)) }
        (contents(investigation))
        @for (number, history) in told { (host(number, history, columns, &heading(investigation, history, ""))) }
        @if !investigation.unknown.is_empty() {
            h3 { "What could not be determined" }
            ul { @for what in &investigation.unknown { li { (clean(what)) } } }
        }
        h3 { "Sources" }
        (sources(investigation))
    }
}

/// What its classes look like.
pub(super) fn style() -> String {
    [timeline::STYLE, STYLE].concat()
}

/// Columns that the charts of each of so many hosts have.
fn columns(hosts: usize) -> u32 {
    let hosts = u32::try_from(hosts).unwrap_or(u32::MAX).max(1);
    (COLUMNS / hosts).clamp(150, 1500)
}

/// The hosts whose stories are on the page, each with its number among all: where there are very many, the worst.
fn told(investigation: &Investigation) -> Vec<(usize, &History)> {
    let all = (1..).zip(&investigation.hosts);
    if investigation.hosts.len() <= MOST_STORIES {
        return all.collect();
    }
    let worst = hosts::ranked(investigation);
    let worst: Vec<&History> = worst.iter().take(MOST_STORIES).map(|line| line.history).collect();
    all.filter(|(_, history)| worst.iter().any(|one| std::ptr::eq(*one, *history))).collect()
}

fn headline(investigation: &Investigation) -> String {
    let incidents: usize = investigation.hosts.iter().map(|history| history.incidents.len()).sum();
    let on = match investigation.hosts.as_slice() {
        [] => return "Nothing could be read".into(),
        [one] => format!("on {}", name(one)),
        several => format!("on {} hosts", several.len()),
    };
    match incidents {
        0 => format!("Nothing found {on}"),
        1 => format!("1 incident {on}"),
        several => format!("{several} incidents {on}"),
    }
}

fn name(history: &History) -> String {
    history.host.as_deref().map_or_else(|| "a host without a name".into(), clean)
}

/// The incidents of all hosts in a line each, with links, where there is more than a page to read.
fn contents(investigation: &Investigation) -> Markup {
    let hosts = &investigation.hosts;
    if hosts.len() > hosts::MANY {
        return ranking(investigation);
    }
    html! {
        @if hosts.len() > 1 {
            ul.contents {
                @for (number, history) in (1..).zip(hosts) {
                    li {
                        a href={ "#host-" (number) } { (name(history)) }
                        @match history.incidents.as_slice() {
                            [] => { span.faint { " nothing found" } }
                            [first, rest @ ..] => {
                                " " (prose::window(first.from, first.to, &history.clock)) ": " (prose::sentence(&first.summary))
                                @if !rest.is_empty() { span.faint { " and " (rest.len()) " more" } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Many hosts in a table, the worst first; those without an incident are counted.
fn ranking(investigation: &Investigation) -> Markup {
    let told: Vec<(usize, &History)> = told(investigation);
    let number =
        |history: &History| told.iter().find(|(_, one)| std::ptr::eq(*one, history)).map(|(number, _)| *number);
    let ranked = hosts::ranked(investigation);
    let quiet = ranked.iter().filter(|line| line.worst.is_none()).count();
    let absent = ranked.iter().filter(|line| line.worst.is_some() && number(line.history).is_none()).count();
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
                                        Some(number) => a href={ "#host-" (number) } { (clean(line.name())) },
                                        None => (clean(line.name())),
                                    }
                                }
                                td.number { (line.history.incidents.len()) }
                                td { (prose::window(worst.from, worst.to, &line.history.clock)) }
                                td { (worst.confidence.to_string()) }
                                td.wide { (prose::sentence(line.cause())) ": " (clean(line.figures())) }
                            }
                        }
                    }
                }
            }
        }
        @if quiet > 0 { p.faint { "Nothing was found on " (quiet) " of the " (ranked.len()) " hosts." } }
        @if absent > 0 {
            p.faint { "The stories of the worst " (MOST_STORIES) " hosts are below; --host NAME tells that of another." }
        }
    }
}

/// What stands above a host's story: its name where there are several, and otherwise `alone`.
fn heading(investigation: &Investigation, history: &History, alone: &str) -> String {
    if investigation.hosts.len() > 1 { name(history) } else { alone.to_owned() }
}

/// A host, below its heading where it has one.
fn host(number: usize, history: &History, columns: u32, heading: &str) -> Markup {
    let heading = html! { @if !heading.is_empty() { h2 { (heading) } } };
    let Some(span) = charts::span(history) else {
        return html! { section.host id={ "host-" (number) } { (heading) (prose::all(history)) } };
    };
    let axis = charts::axis(history, span);
    let charts = charts::charts(history, &axis, columns);
    html! {
        section.host id={ "host-" (number) } {
            (heading)
            p.faint { (about(history, span)) }
            div.beside {
                div.words { (prose::all(history)) }
                div.charts data-from=(span.0.0) data-to=(span.1.0) data-offset=(axis.offset) role="group"
                    aria-label={ "charts of " (name(history)) } {
                    div.tools hidden {
                        button type="button" data-do="in" aria-label="zoom in" { "+" }
                        button type="button" data-do="out" aria-label="zoom out" { "\u{2212}" }
                        button type="button" data-do="left" aria-label="earlier" { "\u{2190}" }
                        button type="button" data-do="right" aria-label="later" { "\u{2192}" }
                        button type="button" data-do="all" { "Whole time" }
                        output aria-live="polite" {}
                    }
                    p.faint.help hidden {
                        "Drag across a period to zoom in. Arrow keys move, + and \u{2212} zoom, 0 shows all; the wheel \
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

/// When and from how much.
fn about(history: &History, span: (Moment, Moment)) -> String {
    let samples: usize = history.series.iter().map(|series| series.samples().len()).sum();
    let from = match history.series.as_slice() {
        [one] => clean(&one.source),
        several => format!("{} sources", several.len()),
    };
    let changes = match &history.clock {
        hugewise_incident::Clock::Utc { offsets } => offsets.iter().any(|offset| {
            offset.from > span.0 && offset.from < span.1 && Some(offset.seconds) != history.clock.offset_at(span.0)
        }),
        hugewise_incident::Clock::Wall { .. } => false,
    };
    let zone = prose::clock_words(&history.clock, span.0);
    let change =
        if changes { "; the host's clock was set forward or back meanwhile; the charts do not follow it" } else { "" };
    format!("{}; {zone}{change}; {samples} samples of {from}", prose::window(span.0, span.1, &history.clock))
}

fn sources(investigation: &Investigation) -> Markup {
    // Of very many files those that have problems.
    let few = investigation.sources.len() <= MOST_SOURCES;
    let wanted = |source: &&Source| few || source.format.is_none() || !source.problems.is_empty();
    let shown: Vec<&Source> = investigation.sources.iter().filter(wanted).take(MOST_SOURCES).collect();
    let row = |source: &Source| {
        let when = match (source.from, source.to) {
            (Some(from), Some(to)) => prose::window(from, to, &source.clock),
            _ => String::new(),
        };
        html! {
            tr {
                td.path { (clean(&source.path)) }
                td { (source.format.map_or("not read", Format::as_str)) " " (source.version.as_deref().map(clean).unwrap_or_default()) }
                td { (source.host.as_deref().map(clean).unwrap_or_default()) }
                td { (when) }
                td.number { (source.samples) }
                td.wide { @for problem in &source.problems { p { (clean(problem)) } } }
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
            p.faint { (investigation.sources.len() - shown.len()) " more files were read without a problem." }
        }
        @for passed in &investigation.passed_over { p.faint { "Passed over: " (clean(passed)) } }
    }
}
