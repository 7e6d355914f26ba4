//! An experiment's plan and its findings, for a terminal.

use std::io;

use hugewise_lab::experiment::Outline;
use hugewise_lab::results::MetricRun;
use hugewise_model::Bytes;

use crate::chart::ChartUnit;
use crate::lab::{
    forecast_cells, format_ratio, format_run_value, group_runs, metric_title, ratio_of,
};
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table::{self, TableCell, TableColumn};
use crate::{LabReport, TextLayout};

const HANG: usize = 10;

fn hanging_label(label: &str) -> Spans {
    Spans::new().add(Role::Quiet, &format!("{label:<HANG$}"))
}

/// Writes what an experiment is going to do.
pub fn write_plan(plan: &Outline, out: &mut dyn io::Write, layout: TextLayout) -> io::Result<()> {
    let screen = &mut Screen::new(out, layout);
    let mut title = Spans::new().add(Role::Strong, &format!("lab {}", plan.experiment));
    title.push(Role::Text, &format!("  on {}", plan.engine));
    screen.write_paragraph(HANG, &title)?;
    let there: Vec<String> = plan
        .variants
        .iter()
        .filter(|one| one.left_out.is_none())
        .map(|one| one.pages.to_string())
        .collect();
    let rounds =
        if plan.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", plan.rounds) };
    let warm = match plan.warm_ups {
        0 => String::new(),
        1 => " after a warm-up round".into(),
        count => format!(" after {count} warm-up rounds"),
    };
    let what =
        format!("pages {}, in turn; {rounds}{warm}; order by seed {}", there.join(", "), plan.seed);
    screen.write_paragraph(HANG, &hanging_label("measures").add(Role::Text, &what))?;
    let time = format!("about {}", ChartUnit::Seconds.format_value(plan.seconds));
    screen.write_paragraph(
        HANG,
        &hanging_label("takes").add(Role::Strong, &time).add(
            Role::Text,
            &format!(
                " and at most {} of memory; {} are available, {} stay free",
                Bytes(plan.peak_bytes),
                Bytes(plan.available_bytes),
                Bytes(plan.floor_bytes)
            ),
        ),
    )?;
    let mut entry = |label: &str, text: Spans| {
        let mut line = hanging_label(label);
        line.append(&text);
        screen.write_paragraph(HANG, &line)
    };
    for (at, change) in plan.changes.iter().enumerate() {
        entry(if at == 0 { "changes" } else { "" }, Spans::from(change.as_str()))?;
    }
    if !plan.changes.is_empty() {
        entry("", Spans::new().add(Role::Quiet, "and restores it, however it ends"))?;
    }
    for variant in &plan.variants {
        if let Some(why) = &variant.left_out {
            let pages = Spans::new().add(Role::Warn, &variant.pages.to_string());
            entry("without", pages.add(Role::Text, &format!(": {why}")))?;
        }
    }
    if let Some(refusal) = &plan.refusal {
        entry("refused", Spans::new().add(Role::Error, refusal))?;
    }
    Ok(())
}

pub(crate) fn write(screen: &mut Screen<'_>, report: &LabReport<'_>) -> io::Result<()> {
    let outcome = report.outcome;
    let mut title = Spans::new().add(Role::Strong, &format!("lab {}", outcome.plan.experiment));
    title.push(Role::Text, &format!("  on {}", outcome.plan.engine));
    if let Some(model) = report.host.processors.model.as_known() {
        title.push(Role::Quiet, &format!("  {model}"));
    }
    if let Some(kernel) = report.host.kernel.as_known() {
        title.push(Role::Quiet, &format!("  Linux {}", kernel.text));
    }
    screen.write_paragraph(2, &title)?;
    screen.write_blank()?;
    write_results(screen, report)?;
    if !report.forecasts.is_empty() {
        screen.write_blank()?;
        write_forecasts(screen, report)?;
    }
    if !outcome.notes.is_empty() || outcome.stopped.is_some() {
        screen.write_blank()?;
    }
    for note in &outcome.notes {
        screen.write_labeled(6, Role::Quiet, "note  ", note)?;
    }
    if let Some(stopped) = &outcome.stopped {
        screen.write_labeled(9, Role::Warn, "stopped  ", stopped)?;
    }
    let took = ChartUnit::Seconds.format_value(outcome.seconds);
    let mut last = match outcome.stopped {
        Some(_) => format!("stopped after {took} of {} rounds", outcome.plan.rounds),
        None => format!("{} rounds in {took}", outcome.plan.rounds),
    };
    if let Some(lowest) = outcome.lowest_available_bytes {
        last.push_str(&format!("; available memory never fell below {}", Bytes(lowest)));
    }
    screen.write_paragraph(0, &Spans::new().add(Role::Quiet, &last))
}

fn write_results(screen: &mut Screen<'_>, report: &LabReport<'_>) -> io::Result<()> {
    let groups = group_runs(report.outcome);
    let (sessions, segments) = (
        has_distinct_values(report, |run| run.sessions.map(u64::from)),
        has_distinct_values(report, |run| run.segment_bytes),
    );
    let mut columns =
        vec![TableColumn::left("measured").cut_to(6), TableColumn::left("pages").cut_to(6)];
    if sessions {
        columns.push(TableColumn::right("sessions"));
    }
    if segments {
        columns.push(TableColumn::right("size"));
    }
    let spread = report.outcome.runs.iter().any(|run| run.samples.len() > 1);
    columns.extend([
        TableColumn::right("median"),
        TableColumn::right("least"),
        TableColumn::right("most"),
        TableColumn::right("times better"),
    ]);
    if !spread {
        columns.retain(|column| !matches!(column.heading, "least" | "most"));
    }
    let mut rows = Vec::new();
    for group in &groups {
        for (at, run) in group.iter().enumerate() {
            rows.push(build_result_row(report, run, at == 0, [sessions, segments, spread]));
        }
    }
    table::write(screen, &columns, &rows)
}

fn has_distinct_values(
    report: &LabReport<'_>,
    count_of: impl Fn(&MetricRun) -> Option<u64>,
) -> bool {
    let mut seen = report.outcome.runs.iter().filter_map(count_of);
    seen.next().is_some_and(|first| seen.any(|other| other != first))
}

fn build_result_row(
    report: &LabReport<'_>,
    run: &MetricRun,
    first: bool,
    [sessions, segments, spread]: [bool; 3],
) -> Vec<TableCell> {
    let metric = match (&run.case, first) {
        (_, false) => String::new(),
        (Some(case), true) => format!("{}, {case}", metric_title(&run.metric)),
        (None, true) => metric_title(&run.metric),
    };
    let mut cells = vec![
        TableCell::new(Role::Strong, metric),
        TableCell::new(Role::Text, run.pages.to_string()),
    ];
    if sessions {
        cells.push(TableCell::new(
            Role::Text,
            run.sessions.map_or_else(String::new, |count| count.to_string()),
        ));
    }
    if segments {
        cells.push(TableCell::new(
            Role::Text,
            run.segment_bytes.map_or_else(String::new, |size| Bytes(size).to_string()),
        ));
    }
    let ratio = ratio_of(report.outcome, run);
    let role = match ratio {
        // In every round.
        Some(ratio) if ratio.min > 1.0 => Role::Good,
        Some(ratio) if ratio.max < 1.0 => Role::Warn,
        _ => Role::Text,
    };
    let better = ratio.map(|ratio| match spread {
        true => format!(
            "{} ({} to {})",
            format_ratio(ratio.median),
            format_ratio(ratio.min),
            format_ratio(ratio.max)
        ),
        false => format_ratio(ratio.median),
    });
    cells.push(TableCell::new(Role::Strong, format_run_value(run, run.median)));
    if spread {
        cells.extend(
            [run.min, run.max].map(|end| TableCell::new(Role::Text, format_run_value(run, end))),
        );
    }
    cells.push(TableCell::new(role, better.unwrap_or_default()));
    cells
}

fn write_forecasts(screen: &mut Screen<'_>, report: &LabReport<'_>) -> io::Result<()> {
    let columns = [
        TableColumn::left("forecast").cut_to(6),
        TableColumn::right("sessions"),
        TableColumn::right("segment"),
        TableColumn::right("page tables"),
        TableColumn::right("measured"),
        TableColumn::right("off by"),
    ];
    let row = |forecast| forecast_cells(forecast, "-").map(TableCell::text).into();
    let rows: Vec<Vec<TableCell>> = report.forecasts.iter().map(row).collect();
    table::write(screen, &columns, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Report;
    use crate::lab::tests::{forecast_sample_runs, sample_outcome};
    use crate::samples;

    fn shown(hostile: bool) -> String {
        let (host, outcome) = (samples::prod().host, sample_outcome(hostile));
        let forecasts = forecast_sample_runs(&outcome);
        let mut out = Vec::new();
        super::write_plan(&outcome.plan, &mut out, TextLayout::plain_text(80)).unwrap();
        let report = LabReport { host: &host, outcome: &outcome, forecasts: &forecasts };
        report.write_text(&mut out, TextLayout::plain_text(100)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_plan_and_what_was_found() {
        insta::assert_snapshot!(shown(false));
    }

    #[test]
    fn hostile_words_reach_no_terminal() {
        let text = shown(true);
        assert!(
            !text.chars().any(|character| character != '\n' && character.is_control())
                && !text.contains('\u{202e}'),
            "{text:?}"
        );
        assert!(text.contains("stopped  interrupted"));
    }

    #[test]
    fn ratios_have_three_digits() {
        assert_eq!([0.5, 1.234, 18.44, 196.3].map(format_ratio), ["0.50", "1.23", "18.4", "196"]);
    }
}
