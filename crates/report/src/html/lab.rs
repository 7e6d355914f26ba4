use hugewise_lab::results::MetricRun;
use hugewise_lab::variant::Variant;
use hugewise_model::{Bytes, PageSize};
use maud::html;

use super::{render_chart_figure, render_page, render_text_table};
use crate::LabReport;
use crate::chart::dots::{DotChart, Dots};
use crate::chart::line::{ChartPoint, ChartSeries, LineChart, ValueAxis};
use crate::chart::{Caption, ChartUnit, Spacing, Svg};
use crate::lab::{
    forecast_cells, format_ratio, format_run_value, group_runs, metric_title, ratio_of,
    to_shown_unit,
};
use crate::table::TableColumn;
use crate::view::capitalize;

impl LabReport<'_> {
    /// The plots, each a chart.
    pub fn charts(&self) -> Vec<Svg> {
        draw_lab_charts(self)
    }
}

pub(crate) fn render_lab_page(report: &LabReport<'_>) -> String {
    let outcome = report.outcome;
    let plan = &outcome.plan;
    let title = format!("hugewise lab {} on {}", plan.experiment, plan.engine);
    let mut host = Vec::new();
    host.extend(report.host.name.as_known().cloned());
    host.extend(report.host.processors.model.as_known().cloned());
    host.extend(report.host.kernel.as_known().map(|kernel| format!("Linux {}", kernel.text)));
    host.extend(report.host.memory.total.get().map(|total| format!("{total} memory")));
    let left_out = plan
        .variants
        .iter()
        .filter_map(|one| Some((one.pages.to_string(), one.left_out.as_ref()?)));
    let body = html! {
        h1 { (title) }
        p.faint { (host.join(", ")) }
        p {
            (plan.rounds) " rounds after " (plan.warm_ups) " that did not count, pages in random \
                 order (seed "
            (plan.seed) "), " (ChartUnit::Seconds.format_value(outcome.seconds)) " in all. A mark \
                 is the median, its line the range "
            "from the smallest to the largest value."
        }
        @if let Some(stopped) = &outcome.stopped { p.bad { "It ended early: " (stopped) } }
        @for (pages, why) in left_out { p { (pages) " is left out: " (why) } }
        @for chart in draw_lab_charts(report) { (render_chart_figure(&chart)) }
        h2 { "Numbers" }
        (render_results_table(report))
        @if !report.forecasts.is_empty() {
            h2 { "Forecast" }
            (render_forecast_table(report))
        }
        @if !outcome.notes.is_empty() {
            h2 { "Notes" }
            ul { @for note in &outcome.notes { li { (crate::plain::escape_line(note)) } } }
        }
    };
    render_page(&title, &body)
}

/// The same in every chart.
fn page_variant_look(pages: Variant) -> usize {
    match pages {
        Variant::Base => 0,
        Variant::Thp => 1,
        Variant::Huge(PageSize::MIB_2) => 2,
        Variant::Huge(PageSize::GIB_1) => 3,
        Variant::Huge(_) => 5,
        Variant::Mthp(_) => 4,
    }
}

/// One plot for each metric; cases of a metric share one where they are single values.
fn draw_lab_charts(report: &LabReport<'_>) -> Vec<Svg> {
    let mut charts = Vec::new();
    let mut single: Vec<Vec<&MetricRun>> = Vec::new();
    for group in group_runs(report.outcome) {
        if count_distinct(&group, |run| run.sessions.map(u64::from)) > 1 {
            charts.push(draw_run_lines(
                report,
                &group,
                "sessions",
                ChartUnit::Count,
                Spacing::Linear,
                |run| run.sessions.map(f64::from),
            ));
        } else if count_distinct(&group, |run| run.segment_bytes) > 1 {
            charts.push(draw_run_lines(
                report,
                &group,
                "size",
                ChartUnit::Bytes,
                Spacing::Logarithmic,
                |run| run.segment_bytes.map(|size| Bytes(size).as_f64()),
            ));
        } else {
            let same = |other: &&mut Vec<&MetricRun>| {
                other
                    .first()
                    .zip(group.first())
                    .is_some_and(|(other, this)| other.metric == this.metric)
            };
            match single.iter_mut().find(same) {
                Some(other) => other.extend(group),
                None => single.push(group),
            }
        }
    }
    charts.extend(single.iter().map(|group| draw_run_dots(report, group)));
    charts
}

fn count_distinct(group: &[&MetricRun], count_of: impl Fn(&MetricRun) -> Option<u64>) -> usize {
    let mut seen: Vec<u64> = group.iter().filter_map(|run| count_of(run)).collect();
    seen.sort_unstable();
    seen.dedup();
    seen.len()
}

fn build_caption(report: &LabReport<'_>, group: &[&MetricRun]) -> Caption {
    let Some(first) = group.first() else {
        return Caption { title: String::new(), description: String::new() };
    };
    let mut title = capitalize(&metric_title(&first.metric));
    let mut same_case = group.iter().map(|run| &run.case);
    if let Some(case) = first.case.as_ref().filter(|_| same_case.all(|case| *case == first.case)) {
        title.push_str(", ");
        title.push_str(case);
    }
    let largest = group.last().map(|run| (run.sessions, run.segment_bytes));
    let ends = group.iter().filter(|run| Some((run.sessions, run.segment_bytes)) == largest);
    let medians: Vec<String> = ends
        .map(|run| {
            let ratio = ratio_of(report.outcome, run)
                .map(|ratio| format!(" ({} times better)", format_ratio(ratio.median)));
            format!(
                "{} {}{}",
                run.pages,
                format_run_value(run, run.median),
                ratio.unwrap_or_default()
            )
        })
        .collect();
    Caption { title, description: format!("Medians at the largest size: {}.", medians.join(", ")) }
}

/// Values far apart can be told apart only on a logarithmic axis.
fn choose_spacing(values: impl Iterator<Item = f64>) -> Spacing {
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for value in values {
        least = least.min(value);
        most = most.max(value);
    }
    if least > 0.0 && most / least > 20.0 { Spacing::Logarithmic } else { Spacing::Linear }
}

fn draw_run_lines(
    report: &LabReport<'_>,
    group: &[&MetricRun],
    label: &str,
    unit: ChartUnit,
    across: Spacing,
    x: impl Fn(&MetricRun) -> Option<f64>,
) -> Svg {
    let mut series: Vec<ChartSeries> = Vec::new();
    for run in group {
        let Some(x) = x(run) else { continue };
        let scaled = |value| to_shown_unit(run, value).0;
        let point = ChartPoint {
            x,
            y: scaled(run.median),
            range: Some((scaled(run.min), scaled(run.max))),
        };
        add_point(&mut series, run.pages, false, point);
    }
    let measured = group.first().map_or("", |run| run.metric.as_str());
    if measured == "page_tables" && label == "sessions" {
        for forecast in report.forecasts {
            let point = ChartPoint {
                x: f64::from(forecast.sessions),
                y: forecast.page_tables.as_f64(),
                range: None,
            };
            add_point(&mut series, forecast.pages, true, point);
        }
    }
    let y_unit = group.first().map_or(ChartUnit::Count, |run| to_shown_unit(run, 0.0).1);
    let values = group.iter().map(|run| run.median);
    LineChart {
        caption: build_caption(report, group),
        x: ValueAxis { label: label.into(), unit, spacing: across },
        y: ValueAxis {
            label: metric_title(measured),
            unit: y_unit,
            spacing: choose_spacing(values),
        },
        series,
    }
    .draw()
}

fn add_point(series: &mut Vec<ChartSeries>, pages: Variant, forecast: bool, point: ChartPoint) {
    let name = if forecast { format!("{pages} forecast") } else { pages.to_string() };
    match series.iter_mut().find(|series| series.name == name) {
        Some(series) => series.points.push(point),
        None => {
            let look = page_variant_look(pages);
            series.push(ChartSeries { name, look, forecast, points: vec![point] });
        }
    }
}

fn draw_run_dots(report: &LabReport<'_>, group: &[&MetricRun]) -> Svg {
    let cases =
        group.iter().any(|run| run.case != group.first().and_then(|first| first.case.clone()));
    let rows = group
        .iter()
        .map(|run| {
            let scaled = |value| to_shown_unit(run, value).0;
            let label = match &run.case {
                Some(case) if cases => format!("{}, {case}", run.pages),
                _ => run.pages.to_string(),
            };
            Dots {
                label,
                look: page_variant_look(run.pages),
                median: scaled(run.median),
                range: (scaled(run.min), scaled(run.max)),
                samples: run.samples.iter().map(|sample| scaled(*sample)).collect(),
            }
        })
        .collect();
    let unit = group.first().map_or(ChartUnit::Count, |run| to_shown_unit(run, 0.0).1);
    let values = group.iter().flat_map(|run| [run.min, run.max]);
    DotChart { caption: build_caption(report, group), unit, spacing: choose_spacing(values), rows }
        .draw()
}

fn render_results_table(report: &LabReport<'_>) -> maud::Markup {
    let columns = [
        TableColumn::left("measured"),
        TableColumn::left("case"),
        TableColumn::left("pages"),
        TableColumn::right("sessions"),
        TableColumn::right("size"),
        TableColumn::right("median"),
        TableColumn::right("least"),
        TableColumn::right("most"),
        TableColumn::right("times better"),
    ];
    let mut rows = Vec::new();
    for run in group_runs(report.outcome).into_iter().flatten() {
        let ratio = ratio_of(report.outcome, run);
        rows.push(vec![
            metric_title(&run.metric),
            run.case.clone().unwrap_or_default(),
            run.pages.to_string(),
            run.sessions.map_or_else(String::new, |count| count.to_string()),
            run.segment_bytes.map_or_else(String::new, |size| Bytes(size).to_string()),
            format_run_value(run, run.median),
            format_run_value(run, run.min),
            format_run_value(run, run.max),
            ratio.map_or_else(String::new, |ratio| {
                format!(
                    "{} ({} to {})",
                    format_ratio(ratio.median),
                    format_ratio(ratio.min),
                    format_ratio(ratio.max)
                )
            }),
        ]);
    }
    let used: Vec<usize> = (0..columns.len())
        .filter(|at| rows.iter().any(|row| !cell_text(row, *at).is_empty()))
        .collect();
    let columns: Vec<TableColumn> =
        used.iter().filter_map(|at| columns.get(*at).copied()).collect();
    let row = |row: &Vec<String>| used.iter().map(|at| cell_text(row, *at).to_owned()).collect();
    render_text_table(&columns, &rows.iter().map(row).collect::<Vec<_>>())
}

fn cell_text(row: &[String], at: usize) -> &str {
    row.get(at).map_or("", String::as_str)
}

fn render_forecast_table(report: &LabReport<'_>) -> maud::Markup {
    let columns = [
        TableColumn::left("pages"),
        TableColumn::right("sessions"),
        TableColumn::right("segment"),
        TableColumn::right("page tables"),
        TableColumn::right("measured"),
        TableColumn::right("off by"),
    ];
    let row = |forecast| forecast_cells(forecast, "").into();
    render_text_table(&columns, &report.forecasts.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::chart::tests::is_sound;
    use crate::lab::tests::{forecast_sample_runs, sample_outcome};
    use crate::samples;

    fn with<T>(hostile: bool, see: impl FnOnce(&LabReport<'_>) -> T) -> T {
        let (host, outcome) = (samples::prod().host, sample_outcome(hostile));
        let forecasts = forecast_sample_runs(&outcome);
        see(&LabReport { host: &host, outcome: &outcome, forecasts: &forecasts })
    }

    #[test]
    fn growth_is_a_line_with_its_forecast_and_single_values_are_dots() {
        let charts = with(false, draw_lab_charts);
        assert_eq!(charts.len(), 2);
        let (growth, single) = (
            charts[0].to_inline_markup().into_string(),
            charts[1].to_inline_markup().into_string(),
        );
        is_sound(&growth);
        is_sound(&single);
        assert_eq!(growth.matches("<polyline").count(), 4, "{growth}");
        assert!(growth.contains(">2m forecast<") && growth.contains(">sessions<"), "{growth}");
        assert!(single.contains(">2.5 µs<") && single.contains(">150 ns<"), "{single}");
    }

    #[test]
    fn a_column_without_values_is_left_out() {
        let page = with(false, render_lab_page);
        assert!(page.contains(">sessions</th>") && !page.contains(">case</th>"), "{page}");
    }

    #[test]
    fn hostile_words_stay_words() {
        let page = with(true, render_lab_page);
        assert!(
            !page.contains("<script") && !page.contains('\u{1b}') && !page.contains('\u{202e}'),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;") && page.contains("It ended early: interrupted"));
    }

    #[test]
    fn a_page_of_nothing_is_a_page() {
        let host = hugewise_model::Host::default();
        let mut empty = sample_outcome(false);
        empty.runs.clear();
        empty.ratios.clear();
        let page = render_lab_page(&LabReport { host: &host, outcome: &empty, forecasts: &[] });
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    }
}
