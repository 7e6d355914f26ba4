//! One start of an Oracle instance in its alert log, judged as `hugewise verify` judges it.

use hugewise_engines::log_files::read_log;
use hugewise_engines::logs::{LogReport, LogText, LogVerdict};
use hugewise_model::Engine;

use crate::Moment;
use crate::event::{LogEvent, LogEventKind};

/// Bytes of what a start writes before its processes do.
const LONGEST: usize = 64 << 10;
pub(super) const START: &str = "Starting ORACLE instance";
/// How a start's account of its pages begins, where its first line is missing.
const ACCOUNT: &[&str] = &[
    "Dump of system resources acquired for SHARED GLOBAL AREA",
    " Large Pages Information ",
    " Huge Pages Information ",
    "AVAILABLE_PAGES  EXPECTED_PAGES",
    "is not a supported setting for database on Exadata",
    "System cannot support SGA size of ",
];
/// What an instance writes once it has its memory.
const UP: &[&str] =
    &["PMON started", "ALTER DATABASE", "alter database", "Completed: ", "Database mounted"];

pub(super) struct OracleStart {
    begun: Moment,
    /// When it gave its account.
    accounted: Option<Moment>,
    text: String,
    /// The place of its events among the log's.
    pub(super) marks: usize,
}

/// Whether a line begins a start, or an account without one.
pub(super) fn begins_start(text: &str) -> bool {
    text.starts_with(START) || ACCOUNT.iter().any(|words| text.contains(words))
}

impl OracleStart {
    pub(super) const fn new(begun: Moment, marks: usize) -> Self {
        Self { begun, accounted: None, text: String::new(), marks }
    }

    /// Returns whether the start is over with this line.
    pub(super) fn push_line(&mut self, at: Moment, text: &str) -> bool {
        if ACCOUNT.iter().any(|words| text.contains(words)) {
            self.accounted = Some(at);
        }
        self.text.push_str(text);
        self.text.push('\n');
        self.text.len() > LONGEST || UP.iter().any(|words| text.starts_with(words))
    }

    pub(super) fn into_events(self) -> Vec<(Moment, LogEvent)> {
        let log = LogText { path: "alert log", bytes: self.text.as_bytes() };
        let report = read_log(&log, Some(Engine::Oracle)).unwrap_or_default();
        let at = self.accounted.unwrap_or(self.begun);
        if report.verdict == LogVerdict::Failed {
            return vec![(
                at,
                LogEvent::new(LogEventKind::ServerRefused, describe_refusal(&report)),
            )];
        }
        let started = self.text.starts_with(START).then(|| {
            (self.begun, LogEvent::new(LogEventKind::ServerStarted, "Oracle started an instance"))
        });
        let pages = describe_pages(&report).or_else(|| self.describe_region());
        started.into_iter().chain(pages.map(|event| (at, event))).collect()
    }

    /// What a block that is cut off says of the SGA: `Total Shared Global Region in Large Pages =
    /// 1024 MB (85%)`.
    fn describe_region(&self) -> Option<LogEvent> {
        let rest = self
            .text
            .lines()
            .find_map(|line| line.strip_prefix("Total Shared Global Region in Large Pages = "))?;
        let whole = rest.contains("(100%)");
        let kind = if whole { LogEventKind::ServerStarted } else { LogEventKind::WithoutHugePages };
        Some(LogEvent::new(kind, format!("{} of Oracle's SGA went to huge pages", shorten(rest))))
    }
}

fn describe_pages(report: &LogReport) -> Option<LogEvent> {
    let (expected, allocated) = (report.expected?.get(), report.allocated?.get());
    let page = report.page_size.map_or_else(String::new, |page| format!(" of {page}"));
    let what = format!("Oracle got {allocated} of {expected} huge pages{page}");
    let kind = match report.verdict {
        LogVerdict::Partly | LogVerdict::None => LogEventKind::WithoutHugePages,
        _ => LogEventKind::ServerStarted,
    };
    Some(LogEvent::new(kind, what))
}

fn describe_refusal(report: &LogReport) -> String {
    let first = report.errors.first().map_or("", String::as_str);
    match report.reason.as_str() {
        "" => format!("Oracle did not start: {}", shorten_line(first)),
        reason => format!("Oracle did not start: {reason}"),
    }
}

fn shorten_line(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(200).collect()
}

fn shorten(text: &str) -> String {
    let end = text.find(')').map_or(text.len(), |end| end + 1);
    text.get(..end).unwrap_or(text).chars().filter(|letter| !letter.is_control()).take(40).collect()
}
