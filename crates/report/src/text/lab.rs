//! An experiment's plan and its findings, for a terminal.

use std::io;

use hugewise_lab::experiment::Outline;
use hugewise_lab::results::Run;
use hugewise_model::Bytes;

use crate::chart::Unit;
use crate::lab::{groups, name, ratio_of, times, value};
use crate::palette::Role;
use crate::screen::{Screen, Spans};
use crate::table::{self, Cell, Column};
use crate::{LabReport, Layout};

const HANG: usize = 10;

fn labelled(label: &str) -> Spans {
    Spans::new().add(Role::Quiet, &format!("{label:<HANG$}"))
}

/// Writes what an experiment is going to do and to take, in a few lines.
///
/// # Errors
/// Where `out` cannot be written.
pub fn write_plan(plan: &Outline, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let screen = &mut Screen::new(out, layout);
    let mut title = Spans::new().add(Role::Strong, &format!("lab {}", plan.experiment));
    title.push(Role::Text, &format!("  on {}", plan.engine));
    screen.flow(HANG, &title)?;
    let there: Vec<String> =
        plan.variants.iter().filter(|one| one.left_out.is_none()).map(|one| one.pages.to_string()).collect();
    let rounds = if plan.rounds == 1 { "1 round".to_owned() } else { format!("{} rounds", plan.rounds) };
    let warm = match plan.warm_ups {
        0 => String::new(),
        1 => " after a warm-up round".into(),
        count => format!(" after {count} warm-up rounds"),
    };
    let what = format!("pages {}, in turn; {rounds}{warm}; order by seed {}", there.join(", "), plan.seed);
    screen.flow(HANG, &labelled("measures").add(Role::Text, &what))?;
    let time = format!("about {}", Unit::Seconds.show(plan.seconds));
    screen.flow(
        HANG,
        &labelled("takes").add(Role::Strong, &time).add(
            Role::Text,
            &format!(
                " and at most {} of memory; {} are available, {} stay free",
                Bytes(plan.peak_bytes),
                Bytes(plan.available_bytes),
                Bytes(plan.floor_bytes)
            ),
        ),
    )?;
    for (at, change) in plan.changes.iter().enumerate() {
        screen.flow(HANG, &labelled(if at == 0 { "changes" } else { "" }).add(Role::Text, change))?;
    }
    if !plan.changes.is_empty() {
        screen.flow(HANG, &labelled("").add(Role::Quiet, "and restores it, however it ends"))?;
    }
    for one in &plan.variants {
        if let Some(why) = &one.left_out {
            screen.flow(
                HANG,
                &labelled("without").add(Role::Warn, &one.pages.to_string()).add(Role::Text, &format!(": {why}")),
            )?;
        }
    }
    if let Some(refusal) = &plan.refusal {
        screen.flow(HANG, &labelled("refused").add(Role::Error, refusal))?;
    }
    Ok(())
}

impl LabReport<'_> {
    /// Writes the report that people read.
    ///
    /// # Errors
    /// Where `out` cannot be written.
    pub fn write_text(&self, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
        write(self, out, layout)
    }
}

fn write(report: &LabReport<'_>, out: &mut dyn io::Write, layout: Layout) -> io::Result<()> {
    let screen = &mut Screen::new(out, layout);
    let outcome = report.outcome;
    let mut title = Spans::new().add(Role::Strong, &format!("lab {}", outcome.plan.experiment));
    title.push(Role::Text, &format!("  on {}", outcome.plan.engine));
    if let Some(model) = report.host.processors.model.known() {
        title.push(Role::Quiet, &format!("  {model}"));
    }
    if let Some(kernel) = report.host.kernel.known() {
        title.push(Role::Quiet, &format!("  Linux {}", kernel.text));
    }
    screen.flow(2, &title)?;
    screen.blank()?;
    results(screen, report)?;
    if !report.forecasts.is_empty() {
        screen.blank()?;
        forecasts(screen, report)?;
    }
    if !outcome.notes.is_empty() || outcome.stopped.is_some() {
        screen.blank()?;
    }
    for note in &outcome.notes {
        screen.flow(6, &Spans::new().add(Role::Quiet, "note  ").add(Role::Text, note))?;
    }
    if let Some(stopped) = &outcome.stopped {
        screen.flow(9, &Spans::new().add(Role::Warn, "stopped  ").add(Role::Text, stopped))?;
    }
    let took = Unit::Seconds.show(outcome.seconds);
    let mut last = match outcome.stopped {
        Some(_) => format!("stopped after {took} of {} rounds", outcome.plan.rounds),
        None => format!("{} rounds in {took}", outcome.plan.rounds),
    };
    if let Some(lowest) = outcome.lowest_available_bytes {
        last.push_str(&format!("; available memory never fell below {}", Bytes(lowest)));
    }
    screen.flow(0, &Spans::new().add(Role::Quiet, &last))
}

const fn left(heading: &'static str) -> Column {
    Column { heading, short: heading, right: false, least: Some(6) }
}

const fn right(heading: &'static str) -> Column {
    Column { heading, short: heading, right: true, least: None }
}

fn results(screen: &mut Screen<'_>, report: &LabReport<'_>) -> io::Result<()> {
    let groups = groups(report.outcome);
    let (sessions, segments) =
        (varies(report, |run| run.sessions.map(u64::from)), varies(report, |run| run.segment_bytes));
    let mut columns = vec![left("measured"), left("pages")];
    if sessions {
        columns.push(right("sessions"));
    }
    if segments {
        columns.push(right("size"));
    }
    let spread = report.outcome.runs.iter().any(|run| run.samples.len() > 1);
    columns.extend([right("median"), right("least"), right("most"), right("times better")]);
    if !spread {
        columns.retain(|column| !matches!(column.heading, "least" | "most"));
    }
    let mut rows = Vec::new();
    for group in &groups {
        for (at, run) in group.iter().enumerate() {
            rows.push(row(report, run, at == 0, [sessions, segments, spread]));
        }
    }
    table::write(screen, &columns, &rows)
}

/// Whether runs differ in something that has a column then.
fn varies(report: &LabReport<'_>, of: impl Fn(&Run) -> Option<u64>) -> bool {
    let mut seen = report.outcome.runs.iter().filter_map(of);
    seen.next().is_some_and(|first| seen.any(|other| other != first))
}

fn row(report: &LabReport<'_>, run: &Run, first: bool, [sessions, segments, spread]: [bool; 3]) -> Vec<Cell> {
    let metric = match (&run.case, first) {
        (_, false) => String::new(),
        (Some(case), true) => format!("{}, {case}", name(&run.metric)),
        (None, true) => name(&run.metric),
    };
    let mut cells = vec![Cell::new(Role::Strong, metric), Cell::new(Role::Text, run.pages.to_string())];
    if sessions {
        cells.push(Cell::new(Role::Text, run.sessions.map_or_else(String::new, |count| count.to_string())));
    }
    if segments {
        cells.push(Cell::new(Role::Text, run.segment_bytes.map_or_else(String::new, |size| Bytes(size).to_string())));
    }
    let ratio = ratio_of(report.outcome, run);
    let role = match ratio {
        // Every round says so.
        Some(ratio) if ratio.min > 1.0 => Role::Good,
        Some(ratio) if ratio.max < 1.0 => Role::Warn,
        _ => Role::Text,
    };
    let better = ratio.map(|ratio| match spread {
        true => format!("{} ({} to {})", times(ratio.median), times(ratio.min), times(ratio.max)),
        false => times(ratio.median),
    });
    cells.push(Cell::new(Role::Strong, value(run, run.median)));
    if spread {
        cells.extend([run.min, run.max].map(|end| Cell::new(Role::Text, value(run, end))));
    }
    cells.push(Cell::new(role, better.unwrap_or_default()));
    cells
}

fn forecasts(screen: &mut Screen<'_>, report: &LabReport<'_>) -> io::Result<()> {
    let columns = [
        left("forecast"),
        right("sessions"),
        right("segment"),
        right("page tables"),
        right("measured"),
        right("off by"),
    ];
    let rows: Vec<Vec<Cell>> = report
        .forecasts
        .iter()
        .map(|one| {
            let off = one.off_percent().map_or_else(|| "-".into(), |off| format!("{off:+.1} %"));
            let texts = [
                one.pages.to_string(),
                one.sessions.to_string(),
                one.segment.to_string(),
                one.page_tables.to_string(),
                one.measured.to_string(),
                off,
            ];
            texts.into_iter().map(|text| Cell::new(Role::Text, text)).collect()
        })
        .collect();
    table::write(screen, &columns, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::tests::{forecasts, outcome};
    use crate::samples;

    fn shown(hostile: bool) -> String {
        let (host, outcome) = (samples::prod().host, outcome(hostile));
        let forecasts = forecasts(&outcome);
        let mut out = Vec::new();
        super::write_plan(&outcome.plan, &mut out, Layout::plain(80)).unwrap();
        let report = LabReport { host: &host, outcome: &outcome, forecasts: &forecasts };
        report.write_text(&mut out, Layout::plain(100)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_plan_and_what_was_found() {
        insta::assert_snapshot!(shown(false));
    }

    #[test]
    fn hostile_words_reach_no_terminal() {
        let text = shown(true);
        assert!(!text.chars().any(|c| c != '\n' && c.is_control()) && !text.contains('\u{202e}'), "{text:?}");
        assert!(text.contains("stopped  interrupted"));
    }

    #[test]
    fn ratios_have_three_digits() {
        assert_eq!([0.5, 1.234, 18.44, 196.3].map(times), ["0.50", "1.23", "18.4", "196"]);
    }
}
