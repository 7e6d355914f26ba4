//! Oracle's alert log, as text and as `log.xml`.

use hugewise_engines::logs::parse_json_message;

use super::oracle_start::{OracleStart, START, begins_start};
use super::{MOST_EVENTS, Meanings, ServerLogReader, find_meaning};
use crate::event::{LogEvent, LogEventKind};
use crate::readers::line_timestamp::LineTimestamp;
use crate::series::{Mark, MarkKind};

/// How a message begins in `log.xml`, before its time.
pub(super) const MESSAGE: &str = "<msg time='";

const ORACLE: Meanings = &[
    (
        LogEventKind::ServerFailed,
        &[
            ("Instance terminated by", "the instance ended"),
            ("ORA-27102", "ORA-27102: the kernel refused Oracle memory"),
            (
                "ORA-27106",
                "ORA-27106: huge pages were missing, and the instance did not start without them",
            ),
            ("ORA-27104", "ORA-27104: the SGA goes beyond what the host allows"),
            ("ORA-27125", "ORA-27125: Oracle was refused a shared memory segment"),
            ("ORA-27138", "ORA-27138: use_large_pages contradicts another parameter"),
            (
                "ORA-27137",
                "ORA-27137: huge pages were missing, and the instance did not start without them",
            ),
            ("ORA-00845", "ORA-00845: /dev/shm was too small for MEMORY_TARGET"),
        ],
    ),
    (
        LogEventKind::HostSwapped,
        &[
            ("WARNING: Heavy swapping detected", "Oracle saw the host swap heavily"),
            ("WARNING: Heavy swapping observed", "Oracle saw the host swap heavily"),
        ],
    ),
    (
        LogEventKind::MemoryRefused,
        &[(
            "ORA-27300: OS system dependent operation:*failed with status: 12",
            "ORA-27300: the kernel refused Oracle memory (error 12)",
        )],
    ),
    (
        LogEventKind::ServerTrouble,
        &[
            (
                "ORA-27300: OS system dependent operation:fork failed with status: 11",
                "ORA-27300: Oracle could not start a process (error 11: a limit of processes)",
            ),
            ("ORA-04030", "ORA-04030: a process was refused private memory"),
            ("ORA-04031", "ORA-04031: a pool of the SGA was exhausted"),
            ("ORA-04036", "ORA-04036: the PGA reached its limit"),
            ("ORA-00020", "ORA-00020: PROCESSES was reached"),
            ("ORA-00018", "ORA-00018: SESSIONS was reached"),
            ("ORA-00445", "ORA-00445: a background process did not start within two minutes"),
            (
                "WARNING: inbound connection timed out",
                "ORA-03136: a login took longer than SQLNET.INBOUND_CONNECT_TIMEOUT",
            ),
            (
                "Time drift detected",
                "Oracle's clock stood still for seconds: its process did not get to run",
            ),
            (
                "Checkpoint not complete",
                "Oracle waited for a checkpoint before it could switch logs",
            ),
        ],
    ),
];

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
        if text.starts_with("Instance terminated by USER,") {
            return;
        }
        self.record_event(find_meaning(text, ORACLE));
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
