//! A host's time from left to right, a line a metric.

use std::io;

use hugewise_investigate::{IncidentHistory, Metric, Moment, Series};
use hugewise_model::Bytes;

use crate::palette::Role;
use crate::screen::{Screen, Spans, text_width};
use crate::spark::spark_character;

/// Column at which the time begins.
const BEGINS: usize = 13;
/// Columns for the value behind it.
const VALUE: usize = 18;

struct TimelineRow {
    label: &'static str,
    value: fn(&Series, usize) -> Option<f64>,
    /// A column shows the least of its samples, not the most.
    least: bool,
    /// The top of the line where it is not the highest value.
    top: Option<f64>,
    shown: fn(f64) -> String,
}

fn format_bytes(value: f64) -> String {
    // Sizes of memory are far below what a float holds exactly.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Bytes(value.max(0.0) as u64).to_string()
}

fn format_rate(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}/s") } else { format!("{value:.0}/s") }
}

fn pool_used(series: &Series, row: usize) -> Option<f64> {
    let total = series.value(Metric::HugeTotal, row).filter(|total| *total > 0.0)?;
    Some((total - series.value(Metric::HugeFree, row)?).max(0.0))
}

const fn timeline_row(
    label: &'static str,
    value: fn(&Series, usize) -> Option<f64>,
    shown: fn(f64) -> String,
) -> TimelineRow {
    TimelineRow { label, value, least: false, top: None, shown }
}

const LINES: [TimelineRow; 8] = [
    TimelineRow {
        top: Some(100.0),
        ..timeline_row(
            "system",
            |series, row| series.value(Metric::CpuSystem, row),
            |value| format!("{value:.1} %"),
        )
    },
    TimelineRow {
        least: true,
        ..timeline_row(
            "free memory",
            |series, row| series.value(Metric::MemFree, row),
            format_bytes,
        )
    },
    timeline_row("page tables", |series, row| series.value(Metric::PageTables, row), format_bytes),
    timeline_row("pool in use", pool_used, format_bytes),
    timeline_row(
        "swap in use",
        |series, row| series.value(Metric::SwapUsed, row).filter(|used| *used > 0.0),
        format_bytes,
    ),
    timeline_row(
        "sessions",
        |series, row| series.value(Metric::Sessions, row),
        |value| format!("{value:.0}"),
    ),
    timeline_row(
        "tasks",
        |series, row| series.value(Metric::Tasks, row),
        |value| format!("{value:.0}"),
    ),
    timeline_row("forks", |series, row| series.value(Metric::Forks, row), format_rate),
];

pub(super) fn write(screen: &mut Screen<'_>, history: &IncidentHistory) -> io::Result<()> {
    let Some((from, to)) = history_span(history) else { return Ok(()) };
    let width = screen.width().saturating_sub(BEGINS + VALUE).max(10);
    let place = |at: Moment| column_at(from, to, at, width);
    let mut has_sessions = false;
    write_axis(screen, history, (from, to), width)?;
    for line in &LINES {
        // Sessions are among the tasks: one of the two.
        if line.label == "tasks" && has_sessions {
            continue;
        }
        let mut cells: Vec<Option<f64>> = vec![None; width];
        for series in &history.series {
            for (row, sample) in series.samples().iter().enumerate() {
                let last = place(sample.at);
                // Where columns are narrower than intervals, a sample fills all of its interval.
                let interval =
                    sample.interval.and_then(|interval| i64::try_from(interval.as_millis()).ok());
                let first = interval.map_or(last, |interval| {
                    place(Moment(sample.at.0.saturating_sub(interval))) + 1
                });
                let (Some(value), Some(cells)) =
                    ((line.value)(series, row), cells.get_mut(first.min(last)..=last))
                else {
                    continue;
                };
                for cell in cells {
                    *cell = Some(cell.map_or(value, |old| {
                        if line.least { old.min(value) } else { old.max(value) }
                    }));
                }
            }
        }
        let known = || cells.iter().flatten().copied();
        let most = known().fold(f64::NEG_INFINITY, f64::max);
        if !most.is_finite() {
            continue;
        }
        has_sessions |= line.label == "sessions";
        let least = known().fold(f64::INFINITY, f64::min);
        let told = if line.least {
            format!("  least {}", (line.shown)(least))
        } else {
            format!("  most {}", (line.shown)(most))
        };
        let top = line.top.unwrap_or(most);
        let drawn: String = cells
            .iter()
            .map(|cell| cell.map_or(' ', |value| spark_character(value, top)))
            .collect();
        screen.write_line(
            &timeline_label(line.label).add(Role::Text, &drawn).add(Role::Quiet, &told),
        )?;
    }
    write_incident_marks(screen, history, width, &place)
}

pub(super) fn history_span(history: &IncidentHistory) -> Option<(Moment, Moment)> {
    let spans = || history.series.iter().filter_map(Series::span);
    Some((spans().map(|span| span.0).min()?, spans().map(|span| span.1).max()?))
}

fn timeline_label(label: &str) -> Spans {
    Spans::new().add(Role::Quiet, &format!("{label:BEGINS$}"))
}

fn column_at(from: Moment, to: Moment, at: Moment, width: usize) -> usize {
    let (whole, part) =
        (i128::from(to.0) - i128::from(from.0), i128::from(at.0) - i128::from(from.0));
    let columns = i128::try_from(width).unwrap_or(1);
    let column = part * columns / whole.max(1);
    usize::try_from(column.clamp(0, columns - 1)).unwrap_or(0)
}

fn write_axis(
    screen: &mut Screen<'_>,
    history: &IncidentHistory,
    (from, to): (Moment, Moment),
    width: usize,
) -> io::Result<()> {
    let days = super::format_day(from, &history.clock) != super::format_day(to, &history.clock);
    let text = |at: Moment| {
        if days {
            super::day_and_time(at, &history.clock)
        } else {
            super::format_time_of_day(at, &history.clock)
        }
    };
    let (first, last) = (text(from), text(to));
    let half = Moment(from.0 + (to.0 - from.0) / 2);
    let middle = text(half);
    let room = width.saturating_sub(text_width(&first) + text_width(&last));
    let mut line = first;
    if room >= text_width(&middle) + 6 {
        let before =
            (width / 2).saturating_sub(text_width(&middle) / 2).saturating_sub(text_width(&line));
        line.push_str(&" ".repeat(before));
        line.push_str(&middle);
    }
    line.push_str(&" ".repeat(width.saturating_sub(text_width(&line) + text_width(&last)).max(1)));
    line.push_str(&last);
    screen.write_line(&timeline_label("").add(Role::Quiet, &line))
}

fn write_incident_marks(
    screen: &mut Screen<'_>,
    history: &IncidentHistory,
    width: usize,
    place: &dyn Fn(Moment) -> usize,
) -> io::Result<()> {
    if history.incidents.is_empty() {
        return Ok(());
    }
    let mut cells = vec![' '; width];
    for (at, incident) in history.incidents.iter().enumerate().rev() {
        let number = u32::try_from(at + 1)
            .ok()
            .and_then(|number| char::from_digit(number, 10))
            .unwrap_or('+');
        let (first, last) = (place(incident.from), place(incident.to));
        if let Some(cells) = cells.get_mut(first..=last.max(first)) {
            cells.fill(number);
        }
    }
    let drawn: String = cells.into_iter().collect();
    screen.write_line(&timeline_label("incidents").add(Role::Error, drawn.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_fall_into_columns() {
        let at = |at: i64| column_at(Moment(0), Moment(1000), Moment(at), 10);
        assert_eq!([0, 99, 100, 999, 1000, -5, 5000].map(at), [0, 0, 1, 9, 9, 0, 9]);
        assert_eq!(column_at(Moment(5), Moment(5), Moment(5), 10), 0);
        assert_eq!(column_at(Moment(i64::MIN), Moment(i64::MAX), Moment(i64::MAX), 10), 9);
    }
}
