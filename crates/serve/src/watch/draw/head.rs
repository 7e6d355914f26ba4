//! The host in a line, and its numbers over time.

use std::ops::Range;

use hugewise_report::palette::Role;
use hugewise_report::screen::{Spans, columns as wide};
use hugewise_report::spark;

use super::cut;
use crate::watch::frame::{Frame, Gauge};
use crate::watch::view::View;

/// Columns of a gauge's name, and of its value.
const LABEL: usize = 13;
const VALUE: usize = 22;

/// Who, when, and which frame of how many; then a line a gauge, what was found, and the time.
pub(super) fn lines(view: &View, frame: &Frame, width: usize) -> Vec<Spans> {
    let place = place(view);
    let room = width.saturating_sub(place.width() + 2);
    let mut first =
        cut(&Spans::new().add(Role::Strong, &frame.host).add(Role::Quiet, &format!("  {}", frame.about)), room);
    let gap = width.saturating_sub(first.width() + place.width());
    first.push(Role::Text, &" ".repeat(gap));
    first.append(&place);
    let mut lines = vec![first, Spans::new().add(Role::Quiet, &frame.at)];
    let room = width.saturating_sub(LABEL + VALUE + 2).max(4);
    let (columns, looked_at) = view.timeline.columns(room);
    let told = Gauge::ALL.into_iter().filter(|gauge| view.timeline.tells(*gauge));
    lines.extend(told.map(|gauge| line(view, frame, gauge, &columns, room)));
    lines.extend(found(view, &columns, room));
    lines.extend(axis(view, &columns, looked_at, room));
    lines.push(Spans::new());
    lines
}

/// Where something is found in a recording: where it begins, and how long it lasts.
fn found(view: &View, columns: &[Range<usize>], room: usize) -> Option<Spans> {
    let timeline = &view.timeline;
    let worst = |column: &Range<usize>| timeline.of(column).flat_map(|frame| &frame.findings).map(|it| it.level).max();
    if timeline.is_live() || columns.iter().all(|column| worst(column).is_none()) {
        return None;
    }
    let of_rules =
        timeline.of(&(0..timeline.place().1)).flat_map(|frame| &frame.findings).any(|it| !it.code.as_str().is_empty());
    let label = if of_rules { "findings" } else { "incidents" };
    let mut line = Spans::new().add(Role::Quiet, &format!("{label:LABEL$}"));
    line.push(Role::Text, &" ".repeat(room.saturating_sub(columns.len())));
    for column in columns {
        let sign = match worst(column) {
            Some(_) if column.clone().any(|at| timeline.begins(at)) => "\u{25b2}",
            Some(_) => "\u{2501}",
            None => " ",
        };
        line.push(worst(column).map_or(Role::Text, Role::from), sign);
    }
    let begins = (0..timeline.place().1).filter(|at| timeline.begins(*at)).count();
    Some(line.add(Role::Quiet, &format!("  {begins}: n next, N back")))
}

/// When the first and the last column were, and which is looked at.
fn axis(view: &View, columns: &[Range<usize>], looked_at: usize, room: usize) -> Option<Spans> {
    let first = view.timeline.of(columns.first()?).next()?;
    let last = view.timeline.of(columns.last()?).next_back()?;
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
    let mut signs: Vec<char> = (0..room).map(|at| if at < pad { ' ' } else { '\u{2500}' }).collect();
    // Days beside the times leave no room behind the line: they stand in it.
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

/// Before the first frame.
pub(super) fn waiting(view: &View) -> Spans {
    Spans::from(if view.timeline.is_live() { "reading the host ..." } else { "the recording is empty" })
}

fn place(view: &View) -> Spans {
    let (at, of) = view.timeline.place();
    let (live, playing) = (view.timeline.is_live(), view.timeline.is_playing());
    match (live, playing) {
        (true, true) => Spans::new().add(Role::Good, "live"),
        (true, false) => Spans::new().add(Role::Warn, "paused").add(Role::Quiet, &format!(" {at} of {of}")),
        (false, true) => {
            Spans::new().add(Role::Info, "playing").add(Role::Quiet, &format!(" {at} of {of}, {} a second", view.speed))
        }
        (false, false) => Spans::new().add(Role::Info, "recorded").add(Role::Quiet, &format!(" {at} of {of}")),
    }
}

fn line(view: &View, frame: &Frame, gauge: Gauge, columns: &[Range<usize>], room: usize) -> Spans {
    let values: Vec<Option<f64>> = columns.iter().map(|column| view.timeline.value(gauge, column)).collect();
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let top = match gauge {
        Gauge::KernelCpu => 1.0,
        Gauge::Available | Gauge::Free => frame.gauges.memory.unwrap_or(most),
        Gauge::PageTables | Gauge::Swap | Gauge::Sessions => most,
    };
    let drawn: String = values.iter().map(|value| value.map_or(' ', |value| spark::level(value, top))).collect();
    let value = frame.gauges.get(gauge);
    let now = value.map_or_else(|| "-".to_owned(), |value| gauge.shown(value));
    let part = match (gauge, value, frame.gauges.memory) {
        (Gauge::PageTables, Some(value), Some(memory)) if memory > 0.0 => {
            format!(", {:.1} %", 100.0 * value / memory)
        }
        _ => String::new(),
    };
    let pad = " ".repeat(room.saturating_sub(wide(&drawn)));
    let told = format!("  {now}{part}");
    Spans::new()
        .add(Role::Quiet, &format!("{:LABEL$}", gauge.label()))
        .add(Role::Text, &format!("{pad}{drawn}"))
        .add(role(gauge, value, frame), &told)
}

/// Page tables of a tenth of memory, and half of the processors in the kernel, are what incidents begin with.
fn role(gauge: Gauge, value: Option<f64>, frame: &Frame) -> Role {
    let memory = frame.gauges.memory.unwrap_or(f64::INFINITY);
    match (gauge, value) {
        (Gauge::KernelCpu, Some(value)) if value >= 0.5 => Role::Error,
        (Gauge::PageTables, Some(value)) if value >= memory / 10.0 => Role::Error,
        (Gauge::Available, Some(value)) if value < memory / 50.0 => Role::Error,
        _ => Role::Text,
    }
}
