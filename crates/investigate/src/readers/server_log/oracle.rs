//! Oracle's alert log, as text and as `log.xml`.

use hugewise_engines::logs::parse_json_message;
use hugewise_model::Engine;

use super::oracle_start::{OracleStart, START, begins_start};
use super::oracle_trace::is_trace_line;
use super::{MOST_EVENTS, ServerLogReader, interpret_message};
use crate::event::{LogEvent, LogEventKind};
use crate::readers::line_timestamp::LineTimestamp;
use crate::series::{Mark, MarkKind};

/// Milliseconds of a write of the redo log that are told.
const LONG_WRITE: u64 = 1000;

/// How a message begins in `log.xml`, before its time.
pub(super) const MESSAGE: &str = "<msg time='";

/// Words of an alert log, beside a line with a date.
const MARKS: &[&str] = &[
    "System cannot support SGA size of ",
    "is not a supported setting for database on Exadata",
    "Starting ORACLE instance",
    "advanced to log sequence",
    "Completed: ALTER DATABASE",
    "Large Pages Information",
    "WARNING: Heavy swapping ",
    "Warning: log write elapsed time ",
];

/// Whether a line is such a log's, if another has a date.
pub(super) fn is_alert_log_line(line: &str) -> bool {
    let is_error = line.strip_prefix("ORA-").is_some_and(|rest| {
        rest.split_once(':').is_some_and(|(number, _)| {
            number.len() == 5 && number.bytes().all(|digit| digit.is_ascii_digit())
        })
    });
    is_error
        || MARKS.iter().any(|mark| line.contains(mark))
        || is_trace_line(line)
        || line.contains("): terminating the instance")
        || line.starts_with("Instance terminated by ")
        || (line.starts_with("Errors in file ") && line.contains(".trc"))
}

impl ServerLogReader {
    /// In XML a message's time is an attribute, and its text an element.
    pub(super) fn push_alert_log_line(&mut self, line: &str) {
        if line.starts_with('{')
            && let Some((time, message)) = parse_json_message(line)
        {
            if let Some(stamp) = time.and_then(|time| LineTimestamp::parse(&time)) {
                self.record_stamp(&stamp);
            }
            return message.lines().for_each(|line| self.push_alert_log_text(line));
        }
        if let Some((time, _)) = line.strip_prefix(MESSAGE).and_then(|rest| rest.split_once('\'')) {
            self.in_text = Some(false);
            if let Some(stamp) = LineTimestamp::parse(time) {
                self.record_stamp(&stamp);
            }
            return;
        }
        let line = match self.in_text {
            None => return self.push_alert_log_text(line),
            Some(true) => line,
            Some(false) => match line.trim_start().strip_prefix("<txt>") {
                Some(line) => line,
                None => return,
            },
        };
        let end = line.split_once("</txt>");
        self.in_text = Some(end.is_none());
        let text = end.map_or(line, |(text, _)| text);
        let names =
            [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
        let plain =
            names.iter().fold(text.to_owned(), |text, (name, letter)| text.replace(name, letter));
        self.push_alert_log_text(&plain);
    }

    /// A stamp has a line of its own, and holds for the lines after it.
    fn push_alert_log_text(&mut self, line: &str) {
        if let Some(stamp) = LineTimestamp::parse(line) {
            return self.record_stamp(&stamp);
        }
        let text = line.trim();
        self.follow_start(text);
        // `PMON (ospid: 4711): terminating the instance due to error 471`
        let ends = text.split_once(" (ospid: ").filter(|(_, rest)| {
            rest.contains("): terminating the instance")
                && !text.starts_with(|first: char| first.is_ascii_lowercase())
        });
        if let Some((process, rest)) = ends {
            // SHUTDOWN ABORT is somebody's order.
            let ordered = process == "USER" && !rest.contains(" due to ");
            let (kind, what) = if ordered {
                (LogEventKind::ServerWork, "Oracle's instance was shut down (abort)")
            } else {
                (LogEventKind::ServerFailed, "Oracle ended the instance")
            };
            self.push_event(LogEvent::new(kind, what));
        }
        if text.starts_with("Instance terminated by USER,")
            || self.add_swapped_part(text)
            || self.push_trace_line(text)
        {
            return;
        }
        // A fast write is nobody's trouble.
        let wait = text.strip_prefix("Warning: log write elapsed time ");
        if wait.and_then(parse_milliseconds).is_some_and(|wait| wait < LONG_WRITE) {
            return;
        }
        self.record_event(interpret_message(Engine::Oracle, text));
    }

    /// `pct of memory swapped in [2.70%] pct of memory swapped out [0.00%].` belongs to the warning
    /// before it.
    fn add_swapped_part(&mut self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix("pct of memory swapped in [") else { return false };
        let part = |rest: &str| rest.split_once('%')?.0.parse::<f64>().ok();
        let parts =
            part(rest).zip(rest.split_once("swapped out [").and_then(|(_, rest)| part(rest)));
        if let (Some((within, out)), Some(MarkKind::Event(event))) =
            (parts, self.series.marks.last_mut().map(|mark| &mut mark.kind))
            && event.kind == LogEventKind::HostSwapped
        {
            event.what += &format!(" ({within} % of memory in, {out} % out, in five minutes)");
        }
        true
    }

    /// Collects a start's lines, and judges them when it is over.
    fn follow_start(&mut self, text: &str) {
        let Some(at) = self.at else { return };
        if text.starts_with(START) {
            self.finish_start();
        }
        if self.start.is_none() && begins_start(text) {
            self.start = Some(OracleStart::new(at, self.series.marks.len()));
        }
        let is_over = self.start.as_mut().is_some_and(|start| start.push_line(at, text));
        if is_over {
            self.finish_start();
        }
    }

    pub(super) fn finish_start(&mut self) {
        let Some(start) = self.start.take() else { return };
        let place = start.marks.min(self.series.marks.len());
        for (nth, (at, event)) in start.into_events().into_iter().enumerate() {
            if self.series.marks.len() < MOST_EVENTS {
                self.series.marks.insert(place + nth, Mark { at, kind: MarkKind::Event(event) });
            } else {
                self.left_out += 1;
            }
        }
    }
}

/// `12345ms, size 4KB`
fn parse_milliseconds(text: &str) -> Option<u64> {
    text.split_once("ms")?.0.trim().parse().ok()
}
