//! The host in a line, and its numbers over time.

use std::ops::Range;

use hugewise_report::palette::Role;
use hugewise_report::screen::{Spans, text_width as wide};
use hugewise_report::spark;

use super::cut_spans;
use crate::watch::frame::{Frame, FrameGauge};
use crate::watch::view::View;

/// Columns of a gauge's name, and of its value.
const LABEL: usize = 13;
const VALUE: usize = 22;

pub(super) fn render_head_lines(view: &View, frame: &Frame, width: usize) -> Vec<Spans> {
    let place = render_position(view);
    let room = width.saturating_sub(place.width() + 2);
    let mut first = cut_spans(
        &Spans::new()
            .add(Role::Strong, &frame.host)
            .add(Role::Quiet, &format!("  {}", frame.about)),
        room,
    );
    let gap = width.saturating_sub(first.width() + place.width());
    first.push(Role::Text, &" ".repeat(gap));
    first.append(&place);
    let mut lines = vec![first, Spans::new().add(Role::Quiet, &frame.at)];
    let room = width.saturating_sub(LABEL + VALUE + 2).max(4);
    let (columns, looked_at) = view.timeline.split_columns(room);
    let told = FrameGauge::ALL.into_iter().filter(|gauge| view.timeline.has_gauge(*gauge));
    lines.extend(told.map(|gauge| render_gauge_line(view, frame, gauge, &columns, room)));
    lines.extend(render_findings_line(view, &columns, room));
    lines.extend(render_time_axis(view, &columns, looked_at, room));
    lines.push(Spans::new());
    lines
}

fn render_findings_line(view: &View, columns: &[Range<usize>], room: usize) -> Option<Spans> {
    let timeline = &view.timeline;
    let worst = |column: &Range<usize>| {
        timeline
            .frames_in_column(column)
            .flat_map(|frame| &frame.findings)
            .map(|finding| finding.level)
            .max()
    };
    if timeline.is_live() || columns.iter().all(|column| worst(column).is_none()) {
        return None;
    }
    let of_rules = timeline
        .frames_in_column(&(0..timeline.frame_position().1))
        .flat_map(|frame| &frame.findings)
        .any(|finding| !finding.code.as_str().is_empty());
    let label = if of_rules { "findings" } else { "incidents" };
    let mut line = Spans::new().add(Role::Quiet, &format!("{label:LABEL$}"));
    line.push(Role::Text, &" ".repeat(room.saturating_sub(columns.len())));
    for column in columns {
        let sign = match worst(column) {
            Some(_) if column.clone().any(|at| timeline.has_new_finding(at)) => "\u{25b2}",
            Some(_) => "\u{2501}",
            None => " ",
        };
        line.push(worst(column).map_or(Role::Text, Role::from), sign);
    }
    let begins =
        (0..timeline.frame_position().1).filter(|at| timeline.has_new_finding(*at)).count();
    Some(line.add(Role::Quiet, &format!("  {begins}: n next, N back")))
}

fn render_time_axis(
    view: &View,
    columns: &[Range<usize>],
    looked_at: usize,
    room: usize,
) -> Option<Spans> {
    let first = view.timeline.frames_in_column(columns.first()?).next()?;
    let last = view.timeline.frames_in_column(columns.last()?).next_back()?;
    // 2026-11-21T08:30:05+01:00
    let same = |part: Range<usize>| first.at.get(part.clone()) == last.at.get(part);
    let part = match (same(0..10), same(0..16)) {
        (true, true) => 11..19,
        (true, false) => 11..16,
        (false, _) => 5..16,
    };
    let time = |frame: &Frame| frame.at.get(part.clone()).unwrap_or_default().replace('T', " ");
    let (from, to) = (time(first), time(last));
    let pad = room.saturating_sub(columns.len());
    let mut signs: Vec<char> =
        (0..room).map(|at| if at < pad { ' ' } else { '\u{2500}' }).collect();
    // Days beside the times leave no room behind the line: they are part of it.
    let within = !same(0..10) && columns.len() > 2 * (from.len() + to.len());
    if within {
        let ends = from.chars().zip(pad..).chain(to.chars().zip(room.saturating_sub(to.len())..));
        for (sign, at) in ends {
            signs.get_mut(at).into_iter().for_each(|place| *place = sign);
        }
    }
    let live = view.timeline.is_live();
    if let Some(place) = signs.get_mut(pad + looked_at).filter(|_| !live) {
        *place = '\u{2503}';
    }
    let line: String = signs.into_iter().collect();
    let ends = match (within, live && view.timeline.is_playing()) {
        (true, _) => String::new(),
        (false, _) if columns.len() == 1 => format!("  {to}"),
        (false, true) => format!("  {from} to now"),
        (false, false) => format!("  {from} to {to}"),
    };
    Some(Spans::new().add(Role::Quiet, &format!("{:LABEL$}{line}{ends}", "time")))
}

pub(super) fn render_waiting_line(view: &View) -> Spans {
    Spans::from(if view.timeline.is_live() {
        "reading the host ..."
    } else {
        "the recording is empty"
    })
}

fn render_position(view: &View) -> Spans {
    let (position, count) = view.timeline.frame_position();
    let (live, playing) = (view.timeline.is_live(), view.timeline.is_playing());
    match (live, playing) {
        (true, true) => Spans::new().add(Role::Good, "live"),
        (true, false) => Spans::new()
            .add(Role::Warn, "paused")
            .add(Role::Quiet, &format!(" {position} of {count}")),
        (false, true) => Spans::new()
            .add(Role::Info, "playing")
            .add(Role::Quiet, &format!(" {position} of {count}, {} a second", view.speed)),
        (false, false) => Spans::new()
            .add(Role::Info, "recorded")
            .add(Role::Quiet, &format!(" {position} of {count}")),
    }
}

fn render_gauge_line(
    view: &View,
    frame: &Frame,
    gauge: FrameGauge,
    columns: &[Range<usize>],
    room: usize,
) -> Spans {
    let values: Vec<Option<f64>> =
        columns.iter().map(|column| view.timeline.worst_value(gauge, column)).collect();
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let top = match gauge {
        FrameGauge::KernelCpu => 1.0,
        FrameGauge::Available | FrameGauge::Free => frame.gauges.memory.unwrap_or(most),
        FrameGauge::PageTables | FrameGauge::Swap | FrameGauge::Sessions => most,
    };
    let drawn: String = values
        .iter()
        .map(|value| value.map_or(' ', |value| spark::spark_character(value, top)))
        .collect();
    let value = frame.gauges.get(gauge);
    let now = value.map_or_else(|| "-".to_owned(), |value| gauge.render_value(value));
    let part = match (gauge, value, frame.gauges.memory) {
        (FrameGauge::PageTables, Some(value), Some(memory)) if memory > 0.0 => {
            format!(", {:.1} %", 100.0 * value / memory)
        }
        _ => String::new(),
    };
    let pad = " ".repeat(room.saturating_sub(wide(&drawn)));
    let told = format!("  {now}{part}");
    Spans::new()
        .add(Role::Quiet, &format!("{:LABEL$}", gauge.label()))
        .add(Role::Text, &format!("{pad}{drawn}"))
        .add(gauge_role(gauge, value, frame), &told)
}

/// Incidents begin with page tables of a tenth of memory, and half of the processors in the kernel.
fn gauge_role(gauge: FrameGauge, value: Option<f64>, frame: &Frame) -> Role {
    let memory = frame.gauges.memory.unwrap_or(f64::INFINITY);
    match (gauge, value) {
        (FrameGauge::KernelCpu, Some(value)) if value >= 0.5 => Role::Error,
        (FrameGauge::PageTables, Some(value)) if value >= memory / 10.0 => Role::Error,
        (FrameGauge::Available, Some(value)) if value < memory / 50.0 => Role::Error,
        _ => Role::Text,
    }
}
