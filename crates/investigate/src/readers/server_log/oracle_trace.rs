//! The host's own figures in traces of Oracle's background processes (LMHB, DIA0, DIAG), and in the
//! dumps that an alert log quotes: load, memory and swap, each behind a time.

use super::ServerLogReader;
use crate::Metric;
use crate::event::{LogEvent, LogEventKind};

/// How lines of such a trace begin.
const FIGURES: [&str; 3] = ["loadavg : ", "Memory (Avail / Total) = ", "Swap (Avail / Total) = "];

/// Whether a line is a trace's, if another has a date.
pub(super) fn is_trace_line(line: &str) -> bool {
    FIGURES.iter().any(|begin| line.starts_with(begin)) || parse_process_event(line).is_some()
}

impl ServerLogReader {
    /// Keeps the host's figures of a line; whether it had some.
    pub(super) fn push_trace_line(&mut self, text: &str) -> bool {
        if let Some(event) = parse_process_event(text) {
            self.push_event(event);
            return true;
        }
        let values = parse_figures(text);
        let Some(at) = self.at.filter(|_| !values.is_empty()) else { return false };
        let last = self.series.samples().last().map(|sample| sample.at);
        if last.is_none_or(|last| last < at) {
            self.series.push(at, None);
        }
        if last <= Some(at) {
            values.iter().for_each(|(metric, value)| self.series.set_value(*metric, *value));
        }
        true
    }
}

/// `LMD0 (ospid: 27060) has not moved for 333 sec (1395479026.1395478693)`, `LMON (ospid: 6) has no
/// heartbeats for 119 sec. (threshold 70 sec)`, `LGWR (ospid: 6) waits for event 'log file parallel
/// write' for 95 secs.`
fn parse_process_event(line: &str) -> Option<LogEvent> {
    let (process, rest) = line.split_once(" (ospid: ")?;
    let (_, rest) = rest.split_once(") ")?;
    let is_name = !process.is_empty()
        && process.len() <= 8
        && process.bytes().all(|letter| letter.is_ascii_alphanumeric());
    let seconds_of =
        |rest: &str| rest.split_once(" sec")?.0.parse::<u32>().ok().filter(|_| is_name);
    if let Some(rest) = rest.strip_prefix("waits for event '") {
        let (event, rest) = rest.split_once("' for ")?;
        let seconds = seconds_of(rest)?;
        let of_disk = ["log file ", "db file ", "control file ", "direct path "]
            .iter()
            .any(|begin| event.starts_with(begin));
        let (kind, what) = if of_disk {
            (LogEventKind::DiskWait, "its disk")
        } else {
            (LogEventKind::ServerTrouble, "an event")
        };
        let what = format!("Oracle's {process} waited {seconds} s for {what} ({event})");
        return Some(LogEvent::new(kind, what));
    }
    let (words, rest) =
        [("had not moved", "has not moved for "), ("had no heartbeat", "has no heartbeats for ")]
            .into_iter()
            .find_map(|(words, begin)| Some((words, rest.strip_prefix(begin)?)))?;
    let what = format!("Oracle's {process} {words} for {} s", seconds_of(rest)?);
    Some(LogEvent::new(LogEventKind::ServerTrouble, what))
}

fn parse_figures(text: &str) -> Vec<(Metric, f64)> {
    let behind = |at: usize| FIGURES.get(at).and_then(|begin| text.strip_prefix(begin));
    if let Some(rest) = behind(0) {
        let loads = rest.split_ascii_whitespace().map(|load| load.parse::<f64>().ok());
        let metrics = [Metric::Load1, Metric::Load5, Metric::Load15];
        return metrics
            .into_iter()
            .zip(loads)
            .filter_map(|(metric, load)| Some((metric, load?)))
            .collect();
    }
    // The part that is free of all use: the page cache is not in it.
    if let Some((free, total)) = behind(1).and_then(parse_parts) {
        return vec![(Metric::MemFree, free), (Metric::MemTotal, total)];
    }
    let Some((free, total)) = behind(2).and_then(parse_parts) else { return Vec::new() };
    vec![
        (Metric::SwapFree, free),
        (Metric::SwapTotal, total),
        (Metric::SwapUsed, (total - free).max(0.0)),
    ]
}

/// Bytes of `85.77M / 4252.24M`.
fn parse_parts(text: &str) -> Option<(f64, f64)> {
    let bytes = |part: &str| {
        let mebibytes: f64 = part.trim().strip_suffix('M')?.parse().ok()?;
        (mebibytes >= 0.0 && mebibytes.is_finite()).then_some(mebibytes * 1_048_576.0)
    };
    let (free, total) = text.split_once('/')?;
    bytes(free).zip(bytes(total))
}
