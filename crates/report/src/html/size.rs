//! What servers need as a page.

use hugewise_advice::sizing::{Budget, Sizing};
use hugewise_model::{Bytes, PageCount};
use maud::{Markup, html};

use super::parts::{STYLE, clean, host, name, spans, table, unread};
use super::{Extra, figure, page_with};
use crate::SizeReport;
use crate::chart::line::{Axis, LineChart, Point, Series};
use crate::chart::stack::{Stack, StackChart};
use crate::chart::{Caption, Spacing, Svg, Unit};
use crate::table::Column;
use crate::view::apart;
use crate::view::budget::{self, PARTS, Part};
use crate::view::size;

pub(crate) fn page(report: &SizeReport<'_>) -> String {
    let sizing = report.sizing;
    let title = format!("hugewise size: {}", name(report.host));
    let body = html! {
        header {
            p.faint { "hugewise size" }
            h1 { (headline(report)) }
        }
        @match report.request.memory {
            Some(memory) => { p { "Planned for " (size::planned_host(memory)) "." } }
            None => { (host(report.host)) }
        }
        section { @if sizing.refusal.is_none() { h2 { "Pools" } } (pools(report)) }
        section { h2 { "Instances" } (instances(report)) }
        @if let Some(changes) = changes(report) { section { h2 { "One outage" } (changes) } }
        section { h2 { "Memory" } (memory(report)) }
        @if let Some(choices) = choices(report) { section { h2 { "Page sizes compared" } (choices) } }
        @if let Some(forecast) = forecast(report) { section { h2 { "Forecast" } (forecast) } }
        section { h2 { "Limits" } (limits(report)) }
        (unread(report.host, report.unread, false))
    };
    page_with(&title, &body, &Extra { style: STYLE, script: None })
}

/// The pools as they should be, or why they cannot.
pub(super) fn pools(report: &SizeReport<'_>) -> Markup {
    let sizing = report.sizing;
    html! {
        @if let Some(refusal) = &sizing.refusal {
            article.finding.error {
                p.head { span.error { "does not fit" } }
                h3 { (size::shortage(refusal)) }
                ul {
                    @for reason in &refusal.reasons { li { (clean(reason)) } }
                    @for line in size::wanted_lines(refusal) { li { (line) } }
                }
            }
        } @else {
            (table("pools", &size::POOLS, &size::pool_rows(&sizing.pools)))
            @for note in size::kept_notes(report) { p.faint { (note) } }
        }
    }
}

/// What each server needs.
pub(super) fn instances(report: &SizeReport<'_>) -> Markup {
    let sizing = report.sizing;
    html! {
        (table("pages by instance", &size::INSTANCES, &size::instance_rows(sizing)))
        @for sized in &sizing.instances {
            @if let Some(why) = &sized.asks_unread {
                p { "Not read: " span.strong { (clean(&sized.title())) } ", " (clean(why)) "; unknown whether it asks for huge pages" }
            }
        }
        @for (title, text) in size::next_start_notes(report) { p { "Next start: " span.strong { (clean(&title)) } ": " (text) } }
        @for (title, text) in apart::notes(report.host, report.instances) { p { span.strong { (clean(&title)) } ": " (clean(&text)) } }
        @for left in &sizing.left_out { p { "Left out: " span.strong { (clean(&left.instance.to_string())) } ", " (clean(&left.why.to_string())) } }
    }
}

/// Changes that are sized with, each an outage; none where nothing has to be changed.
pub(super) fn changes(report: &SizeReport<'_>) -> Option<Markup> {
    let all = size::changes(report);
    (!all.is_empty()).then(|| {
        html! {
            @for change in &all {
                p { span.strong { (clean(&change.title)) } (change.what) }
                ol { @for step in &change.steps { li { @for line in step { (clean(line)) br; } } } }
                ul { @for (setting, because) in &change.because { li { code { (clean(setting)) } ": " (clean(because)) } } }
            }
        }
    })
}

/// The host's memory, dealt out: a picture and its numbers.
pub(super) fn memory(report: &SizeReport<'_>) -> Markup {
    let sizing = report.sizing;
    html! {
        (figure(&dealt_out(report)))
        (dealt_out_table(sizing))
        @for (title, text) in budget::work_notes(sizing) { p { span.strong { (clean(&title)) } ": " (clean(&text)) } }
        @if let Some(note) = budget::most_note(sizing) { p { span.warn { (note) } } }
        @if !sizing.budget.unknown.is_empty() {
            p.faint { "Not counted: " (clean(&sizing.budget.unknown.join(", "))) }
        }
    }
}

/// Without the letters, which are those of the terminal's picture.
fn dealt_out_table(sizing: &Sizing) -> Markup {
    let columns: Vec<Column> =
        budget::columns(sizing).iter().filter(|column| !column.heading.is_empty()).copied().collect();
    let letters = budget::columns(sizing).iter().position(|column| column.heading.is_empty());
    let mut rows = budget::rows(sizing);
    if let Some(letters) = letters {
        rows.iter_mut().filter(|row| letters < row.len()).for_each(|row| drop(row.remove(letters)));
    }
    table("memory", &columns, &rows)
}

/// The host's page sizes beside each other; none where there are none.
pub(super) fn choices(report: &SizeReport<'_>) -> Option<Markup> {
    let sizing = report.sizing;
    (!sizing.choices.is_empty()).then(|| {
        html! {
            (table("page sizes", &size::CHOICES, &size::choice_rows(sizing)))
            @for row in sizing.choices.iter().filter(|row| !row.note.is_empty()) {
                p.faint { (row.page_size) ": " (clean(&row.note)) }
            }
        }
    })
}

/// Page tables and memory left by sessions; none where nothing is foretold.
pub(super) fn forecast(report: &SizeReport<'_>) -> Option<Markup> {
    let sizing = report.sizing;
    (!sizing.forecast.is_empty()).then(|| {
        html! {
            @if let Some(chart) = growth(report) { (figure(&chart)) }
            (table("forecast", &size::forecast_columns(sizing), &size::forecast_rows(sizing)))
            @for note in [size::touching_note(sizing), size::few_note(sizing), size::forecast_note(sizing)].iter().flatten() {
                p.faint { (clean(note)) }
            }
        }
    })
}

/// Limits that the demand depends on.
pub(super) fn limits(report: &SizeReport<'_>) -> Markup {
    html! { ul { @for line in size::limit_lines(report.sizing) { li { (spans(&line)) } } } }
}

fn headline(report: &SizeReport<'_>) -> String {
    let sizing = report.sizing;
    if sizing.refusal.is_some() {
        return "What is wanted does not fit".into();
    }
    let pools: Vec<String> = sizing
        .pools
        .iter()
        .map(|pool| {
            let node = pool.node.map(|node| format!(" on node {node}")).unwrap_or_default();
            format!("{}{node}", pool.pages.in_pages_of(pool.page_size))
        })
        .collect();
    if pools.is_empty() { "No huge pages are needed".into() } else { pools.join(", ") }
}

/// Page tables over sessions, a line a page size; nothing where there are not two points to join.
fn growth(report: &SizeReport<'_>) -> Option<Svg> {
    let mut series: Vec<Series> = Vec::new();
    for row in &report.sizing.forecast {
        let name = row.page_size.to_string();
        let sessions = f64::from(u32::try_from(row.sessions).ok()?);
        let point = Point { x: sessions, y: row.page_tables.as_f64(), range: None };
        match series.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => series.push(Series { name, look: series.len(), forecast: false, points: vec![point] }),
        }
    }
    for line in &mut series {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        line.points.dedup_by(|a, b| a.x == b.x);
    }
    if series.iter().all(|line| line.points.len() < 2) {
        return None;
    }
    let ends = series.iter().filter_map(|line| {
        let last = line.points.last()?;
        Some(format!("{} on pages of {}", Unit::Bytes.show(last.y), line.name))
    });
    let most = report.sizing.forecast.iter().map(|row| row.sessions).max().unwrap_or(0);
    let description = format!("At {} sessions: {}.", PageCount(most), ends.collect::<Vec<_>>().join(", "));
    let axis = |label: &str, unit| Axis { label: label.into(), unit, spacing: Spacing::Linear };
    let caption = Caption { title: "Page tables by sessions".into(), description };
    Some(LineChart { caption, x: axis("sessions", Unit::Count), y: axis("page tables", Unit::Bytes), series }.draw())
}

/// The memory in its parts, as planned and at most.
fn dealt_out(report: &SizeReport<'_>) -> Svg {
    let sizing = report.sizing;
    let names = ["planned for", "at most"];
    let stack = |(label, dealt): (&str, &Budget)| {
        let amount = |part: &Part| part.of(dealt).unwrap_or_default().as_f64();
        Stack {
            label: label.into(),
            parts: PARTS.iter().enumerate().map(|(look, part)| (look, amount(part))).collect(),
        }
    };
    let told = |(label, dealt): (&str, &Budget)| {
        let parts = PARTS.iter().filter_map(|part| Some(format!("{} {}", part.name, part.of(dealt)?)));
        format!("{label}: {}", parts.collect::<Vec<_>>().join(", "))
    };
    let each = || names.into_iter().zip(budget::budgets(sizing));
    let caption = Caption {
        title: "Memory budget".into(),
        description: format!("{}.", each().map(told).collect::<Vec<_>>().join("; ")),
    };
    let names = PARTS.iter().map(|part| part.name.to_owned()).collect();
    let bound = sizing.budget.total.map(Bytes::as_f64);
    StackChart { caption, unit: Unit::Bytes, names, stacks: each().map(stack).collect(), bound }.draw()
}

#[cfg(test)]
mod tests {
    use hugewise_model::Bytes;

    use crate::samples::{self, Sample};

    fn page(sample: &Sample, memory: Option<Bytes>) -> String {
        let mut out = Vec::new();
        sample.sized(memory, |report| report.write_html(&mut out).unwrap());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn pools_are_the_headline_and_the_forecast_is_drawn() {
        let page = page(&samples::prod(), None);
        for words in ["pages of 2 MiB", "Page tables by sessions", "<polyline", "memlock", "oracle PROD"] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("<script") && !page.contains("NaN"));
    }

    #[test]
    fn a_host_that_is_too_small_is_told_so() {
        let page = page(&samples::prod(), Some(Bytes::from_gib(24)));
        assert!(page.contains("What is wanted does not fit") && page.contains("too little"), "{page}");
        assert!(page.contains("Planned for a host with 24.0 GiB of memory"));
    }

    #[test]
    fn hostile_words_stay_words() {
        let page = page(&samples::hostile(), None);
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    }
}
