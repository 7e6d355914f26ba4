//! An experiment as a page: plots first, then every number.

use std::io;

use hugewise_lab::results::Run;
use hugewise_lab::variant::Variant;
use hugewise_model::{Bytes, PageSize};
use maud::html;

use super::{Column, figure, page as whole, table};
use crate::LabReport;
use crate::chart::dots::{DotChart, Dots};
use crate::chart::line::{Axis, LineChart, Point, Series};
use crate::chart::{Caption, Spacing, Svg, Unit};
use crate::lab::{groups, name, ratio_of, shown, times, value};

impl LabReport<'_> {
    /// Writes the report as a page with plots.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_html(&self, out: &mut dyn io::Write) -> io::Result<()> {
        out.write_all(page(self).as_bytes())
    }

    /// Its plots.
    pub fn charts(&self) -> Vec<Svg> {
        charts(self)
    }
}

/// The whole page.
fn page(report: &LabReport<'_>) -> String {
    let outcome = report.outcome;
    let plan = &outcome.plan;
    let title = format!("hugewise lab {} on {}", plan.experiment, plan.engine);
    let mut host = Vec::new();
    host.extend(report.host.name.known().cloned());
    host.extend(report.host.processors.model.known().cloned());
    host.extend(report.host.kernel.known().map(|kernel| format!("Linux {}", kernel.text)));
    host.extend(report.host.memory.total.get().map(|total| format!("{total} memory")));
    let left_out = plan.variants.iter().filter_map(|one| Some((one.pages.to_string(), one.left_out.as_ref()?)));
    let body = html! {
        h1 { (title) }
        p.faint { (host.join(", ")) }
        p {
            (plan.rounds) " rounds after " (plan.warm_ups) " that did not count, pages in random order (seed "
            (plan.seed) "), " (Unit::Seconds.show(outcome.seconds)) " in all. A mark is the median, its line the range "
            "from the smallest to the largest value."
        }
        @if let Some(stopped) = &outcome.stopped { p.bad { "It ended early: " (stopped) } }
        @for (pages, why) in left_out { p { (pages) " is left out: " (why) } }
        @for chart in charts(report) { (figure(&chart)) }
        h2 { "Numbers" }
        (numbers(report))
        @if !report.forecasts.is_empty() {
            h2 { "Forecast" }
            (forecasts(report))
        }
        @if !outcome.notes.is_empty() {
            h2 { "Notes" }
            ul { @for note in &outcome.notes { li { (crate::plain::clean(note)) } } }
        }
    };
    whole(&title, &body)
}

/// The look of pages, the same in every chart.
fn look(pages: Variant) -> usize {
    match pages {
        Variant::Base => 0,
        Variant::Thp => 1,
        Variant::Huge(PageSize::MIB_2) => 2,
        Variant::Huge(PageSize::GIB_1) => 3,
        Variant::Huge(_) => 5,
        Variant::Mthp(_) => 4,
    }
}

/// One plot for each metric, the cases of a metric in one where they are single values.
fn charts(report: &LabReport<'_>) -> Vec<Svg> {
    let mut charts = Vec::new();
    let mut single: Vec<Vec<&Run>> = Vec::new();
    for group in groups(report.outcome) {
        if distinct(&group, |run| run.sessions.map(u64::from)) > 1 {
            charts.push(lines(report, &group, "sessions", Unit::Count, Spacing::Linear, |run| {
                run.sessions.map(f64::from)
            }));
        } else if distinct(&group, |run| run.segment_bytes) > 1 {
            charts.push(lines(report, &group, "size", Unit::Bytes, Spacing::Logarithmic, |run| {
                run.segment_bytes.map(|size| Bytes(size).as_f64())
            }));
        } else {
            let same = |other: &&mut Vec<&Run>| {
                other.first().zip(group.first()).is_some_and(|(other, this)| other.metric == this.metric)
            };
            match single.iter_mut().find(same) {
                Some(other) => other.extend(group),
                None => single.push(group),
            }
        }
    }
    charts.extend(single.iter().map(|group| dots(report, group)));
    charts
}

fn distinct(group: &[&Run], of: impl Fn(&Run) -> Option<u64>) -> usize {
    let mut seen: Vec<u64> = group.iter().filter_map(|run| of(run)).collect();
    seen.sort_unstable();
    seen.dedup();
    seen.len()
}

fn caption(report: &LabReport<'_>, group: &[&Run]) -> Caption {
    let Some(first) = group.first() else { return Caption { title: String::new(), description: String::new() } };
    let mut title = name(&first.metric);
    if let Some(capital) = title.get_mut(..1) {
        capital.make_ascii_uppercase();
    }
    let mut same_case = group.iter().map(|run| &run.case);
    if let Some(case) = first.case.as_ref().filter(|_| same_case.all(|case| *case == first.case)) {
        title.push_str(", ");
        title.push_str(case);
    }
    let largest = group.last().map(|run| (run.sessions, run.segment_bytes));
    let ends = group.iter().filter(|run| Some((run.sessions, run.segment_bytes)) == largest);
    let medians: Vec<String> = ends
        .map(|run| {
            let ratio = ratio_of(report.outcome, run).map(|ratio| format!(" ({} times better)", times(ratio.median)));
            format!("{} {}{}", run.pages, value(run, run.median), ratio.unwrap_or_default())
        })
        .collect();
    Caption { title, description: format!("Medians at the largest size: {}.", medians.join(", ")) }
}

/// Values far apart are seen only where equal factors are equal steps.
fn spacing(values: impl Iterator<Item = f64>) -> Spacing {
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for value in values {
        least = least.min(value);
        most = most.max(value);
    }
    if least > 0.0 && most / least > 20.0 { Spacing::Logarithmic } else { Spacing::Linear }
}

fn lines(
    report: &LabReport<'_>,
    group: &[&Run],
    label: &str,
    unit: Unit,
    across: Spacing,
    x: impl Fn(&Run) -> Option<f64>,
) -> Svg {
    let mut series: Vec<Series> = Vec::new();
    for run in group {
        let Some(x) = x(run) else { continue };
        let scaled = |value| shown(run, value).0;
        let point = Point { x, y: scaled(run.median), range: Some((scaled(run.min), scaled(run.max))) };
        let named = run.pages.to_string();
        match series.iter_mut().find(|series| series.name == named) {
            Some(series) => series.points.push(point),
            None => {
                series.push(Series { name: named, look: look(run.pages), forecast: false, points: vec![point] });
            }
        }
    }
    let measured = group.first().map_or("", |run| run.metric.as_str());
    if measured == "page_tables" && label == "sessions" {
        for forecast in report.forecasts {
            let point = Point { x: f64::from(forecast.sessions), y: forecast.page_tables.as_f64(), range: None };
            let named = format!("{} forecast", forecast.pages);
            match series.iter_mut().find(|series| series.name == named) {
                Some(series) => series.points.push(point),
                None => {
                    series.push(Series {
                        name: named,
                        look: look(forecast.pages),
                        forecast: true,
                        points: vec![point],
                    });
                }
            }
        }
    }
    let y_unit = group.first().map_or(Unit::Count, |run| shown(run, 0.0).1);
    let values = group.iter().map(|run| run.median);
    LineChart {
        caption: caption(report, group),
        x: Axis { label: label.into(), unit, spacing: across },
        y: Axis { label: name(measured), unit: y_unit, spacing: spacing(values) },
        series,
    }
    .draw()
}

fn dots(report: &LabReport<'_>, group: &[&Run]) -> Svg {
    let cases = group.iter().any(|run| run.case != group.first().and_then(|first| first.case.clone()));
    let rows = group
        .iter()
        .map(|run| {
            let scaled = |value| shown(run, value).0;
            let label = match &run.case {
                Some(case) if cases => format!("{}, {case}", run.pages),
                _ => run.pages.to_string(),
            };
            Dots {
                label,
                look: look(run.pages),
                median: scaled(run.median),
                range: (scaled(run.min), scaled(run.max)),
                samples: run.samples.iter().map(|sample| scaled(*sample)).collect(),
            }
        })
        .collect();
    let unit = group.first().map_or(Unit::Count, |run| shown(run, 0.0).1);
    let values = group.iter().flat_map(|run| [run.min, run.max]);
    DotChart { caption: caption(report, group), unit, spacing: spacing(values), rows }.draw()
}

const fn text(heading: &'static str) -> Column {
    Column { heading, number: false }
}

const fn number(heading: &'static str) -> Column {
    Column { heading, number: true }
}

fn numbers(report: &LabReport<'_>) -> maud::Markup {
    let columns = [
        text("measured"),
        text("case"),
        text("pages"),
        number("sessions"),
        number("size"),
        number("median"),
        number("least"),
        number("most"),
        number("times better"),
    ];
    let mut rows = Vec::new();
    for run in groups(report.outcome).into_iter().flatten() {
        let ratio = ratio_of(report.outcome, run);
        rows.push(vec![
            name(&run.metric),
            run.case.clone().unwrap_or_default(),
            run.pages.to_string(),
            run.sessions.map_or_else(String::new, |count| count.to_string()),
            run.segment_bytes.map_or_else(String::new, |size| Bytes(size).to_string()),
            value(run, run.median),
            value(run, run.min),
            value(run, run.max),
            ratio.map_or_else(String::new, |ratio| {
                format!("{} ({} to {})", times(ratio.median), times(ratio.min), times(ratio.max))
            }),
        ]);
    }
    // What no experiment of this kind has is no column.
    let used: Vec<usize> = (0..columns.len()).filter(|at| rows.iter().any(|row| !cell(row, *at).is_empty())).collect();
    let columns: Vec<Column> = used.iter().filter_map(|at| columns.get(*at).copied()).collect();
    let row = |row: &Vec<String>| used.iter().map(|at| cell(row, *at).to_owned()).collect();
    table(&columns, &rows.iter().map(row).collect::<Vec<_>>())
}

fn cell(row: &[String], at: usize) -> &str {
    row.get(at).map_or("", String::as_str)
}

fn forecasts(report: &LabReport<'_>) -> maud::Markup {
    let columns = [
        text("pages"),
        number("sessions"),
        number("segment"),
        number("page tables"),
        number("measured"),
        number("off by"),
    ];
    let row = |one: &crate::lab::Forecast| {
        vec![
            one.pages.to_string(),
            one.sessions.to_string(),
            one.segment.to_string(),
            one.page_tables.to_string(),
            one.measured.to_string(),
            one.off_percent().map_or_else(String::new, |off| format!("{off:+.1} %")),
        ]
    };
    table(&columns, &report.forecasts.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::chart::tests::is_sound;
    use crate::lab::tests::{forecasts, outcome};
    use crate::samples;

    fn with<T>(hostile: bool, see: impl FnOnce(&LabReport<'_>) -> T) -> T {
        let (host, outcome) = (samples::prod().host, outcome(hostile));
        let forecasts = forecasts(&outcome);
        see(&LabReport { host: &host, outcome: &outcome, forecasts: &forecasts })
    }

    #[test]
    fn growth_is_a_line_with_its_forecast_and_single_values_are_dots() {
        let charts = with(false, charts);
        assert_eq!(charts.len(), 2);
        let (growth, single) = (charts[0].inline().into_string(), charts[1].inline().into_string());
        is_sound(&growth);
        is_sound(&single);
        assert_eq!(growth.matches("<polyline").count(), 4, "{growth}");
        assert!(growth.contains(">2m forecast<") && growth.contains(">sessions<"), "{growth}");
        assert!(single.contains(">2.5 µs<") && single.contains(">150 ns<"), "{single}");
    }

    #[test]
    fn a_column_without_values_is_left_out() {
        let page = with(false, page);
        assert!(page.contains(">sessions</th>") && !page.contains(">case</th>"), "{page}");
    }

    #[test]
    fn hostile_words_stay_words() {
        let page = with(true, page);
        assert!(!page.contains("<script") && !page.contains('\u{1b}') && !page.contains('\u{202e}'), "{page}");
        assert!(page.contains("&lt;script&gt;") && page.contains("It ended early: interrupted"));
    }

    #[test]
    fn a_page_of_nothing_is_a_page() {
        let host = hugewise_model::Host::default();
        let mut empty = outcome(false);
        empty.runs.clear();
        empty.ratios.clear();
        let page = page(&LabReport { host: &host, outcome: &empty, forecasts: &[] });
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    }
}
