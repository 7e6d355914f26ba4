//! The host in a line, and its numbers over time.

use hugewise_report::palette::Role;
use hugewise_report::screen::{Spans, columns};
use hugewise_report::spark;

use crate::watch::frame::{Frame, Gauge};
use crate::watch::view::View;

/// Columns of a gauge's name, and of its value.
const LABEL: usize = 13;
const VALUE: usize = 22;

/// Who, when, and which frame of how many; then a line a gauge.
pub(super) fn lines(view: &View, frame: &Frame, width: usize) -> Vec<Spans> {
    let mut first = Spans::new().add(Role::Strong, &frame.host).add(Role::Quiet, &format!("  {}", frame.about));
    let place = place(view);
    let gap = width.saturating_sub(first.width() + place.width()).max(2);
    first.push(Role::Text, &" ".repeat(gap));
    first.append(&place);
    let mut lines = vec![first, Spans::new().add(Role::Quiet, &frame.at)];
    let told = Gauge::ALL.into_iter().filter(|gauge| view.timeline.tells(*gauge));
    lines.extend(told.map(|gauge| line(view, frame, gauge, width)));
    lines.push(Spans::new());
    lines
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

fn line(view: &View, frame: &Frame, gauge: Gauge, width: usize) -> Spans {
    let room = width.saturating_sub(LABEL + VALUE + 2).max(4);
    let values: Vec<Option<f64>> = view.timeline.last(gauge, room).collect();
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
    let pad = " ".repeat(room.saturating_sub(columns(&drawn)));
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
