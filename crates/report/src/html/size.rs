use hugewise_diagnose::sizing::{MemoryBudget, Sizing};
use hugewise_model::{Bytes, group_thousands};
use maud::{Markup, html};

use super::parts::{
    STYLE, clean_text, host_title, render_host_lines, render_notes, render_spans, render_table,
    render_unread,
};
use super::{page_with, render_chart_figure};
use crate::SizeReport;
use crate::chart::line::{ChartPoint, ChartSeries, LineChart, ValueAxis};
use crate::chart::stack::{Stack, StackChart};
use crate::chart::{Caption, ChartUnit, Spacing, Svg};
use crate::view::budget::{self, BudgetPart, PARTS};
use crate::view::namesakes;
use crate::view::size;

pub(crate) fn render_size_page(report: &SizeReport<'_>) -> String {
    let sizing = report.sizing;
    let title = format!("hugewise size: {}", host_title(report.host));
    let body = html! {
        header {
            p.faint { "hugewise size" }
            h1 { (sizing_headline(report)) }
        }
        @match report.request.memory {
            Some(memory) => { p { "Planned for " (size::planned_host(memory)) "." } }
            None => { (render_host_lines(report.host)) }
        }
        section { @if sizing.refusal.is_none() { h2 { "Pools" } } (render_pools(report)) }
        section { h2 { "Instances" } (render_sized_instances(report)) }
        @if let Some(changes) = render_setting_changes(report) { section { h2 { "One outage" } (changes) } }
        section { h2 { "Memory" } (render_memory_budget(report)) }
        @if let Some(choices) = render_page_size_choices(report) { section { h2 { "Page sizes \
             compared" } (choices) } }
        @if let Some(forecast) = render_forecast(report) { section { h2 { "Forecast" } (forecast) } }
        section { h2 { "Limits" } (render_limits(report)) }
        (render_unread(report.host, report.unread, false))
    };
    page_with(&title, &body, STYLE, None)
}

pub(super) fn render_pools(report: &SizeReport<'_>) -> Markup {
    let sizing = report.sizing;
    html! {
        @if let Some(refusal) = &sizing.refusal {
            article.finding.error {
                p.head { span.error { "does not fit" } }
                h3 { (size::describe_shortage(refusal)) }
                ul {
                    @for reason in &refusal.reasons { li { (clean_text(reason)) } }
                    @for line in size::wanted_lines(refusal) { li { (line) } }
                }
            }
        } @else {
            (render_table("pools", &size::POOLS, &size::pool_rows(&sizing.pools)))
            @for note in size::kept_notes(report) { p.faint { (note) } }
        }
    }
}

pub(super) fn render_sized_instances(report: &SizeReport<'_>) -> Markup {
    let sizing = report.sizing;
    html! {
        (render_table("pages by instance", &size::INSTANCES, &size::instance_rows(sizing)))
        @for sized in &sizing.instances {
            @if let Some(why) = &sized.asks_unread {
                p { "Not read: " span.strong { (clean_text(&sized.title())) } ", " (clean_text(why)) "; unknown whether it asks for huge pages" }
            }
        }
        @for (title, why) in size::unplanned_notes(sizing) { p { "No plan: " span.strong { (clean_text(&title)) } ", " (clean_text(&why)) } }
        @for (title, text) in size::next_start_notes(report) { p { "Next start: " span.strong { (clean_text(&title)) } ": " (text) } }
        (render_notes(&namesakes::namesake_notes(report.host, report.instances)))
        @for left in &sizing.left_out { p { "Left out: " span.strong { (clean_text(&left.instance.to_string())) } ", " (clean_text(&left.why.to_string())) } }
    }
}

pub(super) fn render_setting_changes(report: &SizeReport<'_>) -> Option<Markup> {
    let all = size::setting_changes(report);
    (!all.is_empty()).then(|| {
        html! {
            @for change in &all {
                p { span.strong { (clean_text(&change.title)) } (change.what) }
                ol { @for step in &change.steps { li { @for line in step { (clean_text(line)) br; } } } }
                ul { @for (setting, because) in &change.because { li { code { (clean_text(setting)) } ": " (clean_text(because)) } } }
            }
        }
    })
}

pub(super) fn render_memory_budget(report: &SizeReport<'_>) -> Markup {
    let sizing = report.sizing;
    html! {
        (render_chart_figure(&dealt_out(report)))
        (dealt_out_table(sizing))
        (render_notes(&budget::work_notes(sizing)))
        @if let Some(note) = budget::most_note(sizing) { p { span.warn { (note) } } }
        @if !sizing.budget.unknown.is_empty() {
            p.faint { "Not counted: " (clean_text(&sizing.budget.unknown.join(", "))) }
        }
    }
}

/// Without the letters, which belong to the terminal's picture.
fn dealt_out_table(sizing: &Sizing) -> Markup {
    let mut columns = budget::budget_columns(sizing).to_vec();
    let mut rows = budget::budget_rows(sizing);
    if let Some(letters) = columns.iter().position(|column| column.heading.is_empty()) {
        columns.remove(letters);
        rows.iter_mut().filter(|row| letters < row.len()).for_each(|row| drop(row.remove(letters)));
    }
    render_table("memory", &columns, &rows)
}

pub(super) fn render_page_size_choices(report: &SizeReport<'_>) -> Option<Markup> {
    let sizing = report.sizing;
    (!sizing.choices.is_empty()).then(|| {
        html! {
            (render_table("page sizes", &size::CHOICES, &size::choice_rows(sizing)))
            @for row in sizing.choices.iter().filter(|row| !row.note.is_empty()) {
                p.faint { (row.page_size) ": " (clean_text(&row.note)) }
            }
        }
    })
}

pub(super) fn render_forecast(report: &SizeReport<'_>) -> Option<Markup> {
    let sizing = report.sizing;
    (!sizing.forecast.is_empty()).then(|| {
        html! {
            @if let Some(chart) = draw_page_table_growth(report) { (render_chart_figure(&chart)) }
            (render_table("forecast", &size::forecast_columns(sizing), &size::forecast_rows(sizing)))
            @for note in [size::touching_note(sizing), size::few_note(sizing), size::forecast_note(sizing)].iter().flatten() {
                p.faint { (clean_text(note)) }
            }
        }
    })
}

pub(super) fn render_limits(report: &SizeReport<'_>) -> Markup {
    html! { ul { @for line in size::limit_lines(report.sizing) { li { (render_spans(&line)) } } } }
}

fn sizing_headline(report: &SizeReport<'_>) -> String {
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

fn draw_page_table_growth(report: &SizeReport<'_>) -> Option<Svg> {
    let mut series: Vec<ChartSeries> = Vec::new();
    for row in &report.sizing.forecast {
        let name = row.page_size.to_string();
        let sessions = f64::from(u32::try_from(row.sessions).ok()?);
        let point = ChartPoint { x: sessions, y: row.page_tables.as_f64(), range: None };
        match series.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => series.push(ChartSeries {
                name,
                look: series.len(),
                forecast: false,
                points: vec![point],
            }),
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
        Some(format!("{} on pages of {}", ChartUnit::Bytes.format_value(last.y), line.name))
    });
    let most = report.sizing.forecast.iter().map(|row| row.sessions).max().unwrap_or(0);
    let description =
        format!("At {} sessions: {}.", group_thousands(most), ends.collect::<Vec<_>>().join(", "));
    let axis =
        |label: &str, unit| ValueAxis { label: label.into(), unit, spacing: Spacing::Linear };
    let caption = Caption { title: "Page tables by sessions".into(), description };
    Some(
        LineChart {
            caption,
            x: axis("sessions", ChartUnit::Count),
            y: axis("page tables", ChartUnit::Bytes),
            series,
        }
        .draw(),
    )
}

fn dealt_out(report: &SizeReport<'_>) -> Svg {
    let sizing = report.sizing;
    let names = ["planned for", "at most"];
    let stack = |(label, dealt): (&str, &MemoryBudget)| {
        let amount = |part: &BudgetPart| part.part_bytes(dealt).unwrap_or_default().as_f64();
        Stack {
            label: label.into(),
            parts: PARTS.iter().enumerate().map(|(look, part)| (look, amount(part))).collect(),
        }
    };
    let told = |(label, dealt): (&str, &MemoryBudget)| {
        let parts = PARTS
            .iter()
            .filter_map(|part| Some(format!("{} {}", part.name, part.part_bytes(dealt)?)));
        format!("{label}: {}", parts.collect::<Vec<_>>().join(", "))
    };
    let each = || names.into_iter().zip(budget::list_budgets(sizing));
    let caption = Caption {
        title: "Memory budget".into(),
        description: format!("{}.", each().map(told).collect::<Vec<_>>().join("; ")),
    };
    let names = PARTS.iter().map(|part| part.name.to_owned()).collect();
    let bound = sizing.budget.total.map(Bytes::as_f64);
    StackChart {
        caption,
        unit: ChartUnit::Bytes,
        names,
        stacks: each().map(stack).collect(),
        bound,
    }
    .draw()
}

#[cfg(test)]
mod tests {
    use crate::PageReport;
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
        for words in
            ["pages of 2 MiB", "Page tables by sessions", "<polyline", "memlock", "oracle PROD"]
        {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("<script") && !page.contains("NaN"));
    }

    #[test]
    fn a_host_that_is_too_small_is_told_so() {
        let page = page(&samples::prod(), Some(Bytes::from_gib(24)));
        assert!(
            page.contains("What is wanted does not fit") && page.contains("too little"),
            "{page}"
        );
        assert!(page.contains("Planned for a host with 24.0 GiB of memory"));
    }

    #[test]
    fn hostile_words_stay_words() {
        let page = page(&samples::hostile(), None);
        assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
        assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'));
    }
}
