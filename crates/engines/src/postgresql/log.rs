//! PostgreSQL's log.
//!
//! With `huge_pages=on` a start that does not get its pages ends with a message of the bytes it asked for.
//! With `try` it falls back and says so only at `log_min_messages=debug1`; of success it says nothing at all.
//! Messages follow lc_messages. What does not follow it decides here: the version's text, names of
//! settings, MAP_HUGETLB and numbers.

use hugewise_model::{Bytes, Engine};

use super::log_records::{Form, Record, form, records};
use crate::logs::{Excerpt, Format, LogReport, LogVerdict, number_after};

pub(super) static FORMAT: Format = Format {
    marks: &[
        ", compiled by ",
        "could not map anonymous shared memory",
        "huge pages not supported",
        "shared_memory_type",
        "with MAP_HUGETLB failed",
        "shared_buffers",
        "database system is ready to accept",
    ],
    hints: &["LOG:  ", "FATAL:  ", "STATEMENT:  ", "\"error_severity\":", "checkpoint complete: wrote", ",LOG,00000,"],
    read,
};

/// What a record is to a start.
enum Event {
    /// The line with the version.
    Started,
    /// Connections are accepted.
    Ready,
    /// It fell back to base pages.
    FellBack(Option<u64>),
    /// It ended for want of memory.
    Failed(Option<u64>),
}

fn read(excerpt: &Excerpt) -> Option<LogReport> {
    let form = form(&excerpt.text);
    let records = records(form, excerpt.lines());
    let events: Vec<(Event, &Record)> = records.iter().filter_map(|record| Some((event(record)?, record))).collect();
    let last =
        events.iter().rposition(|(event, _)| matches!(event, Event::Started | Event::Failed(_) | Event::FellBack(_)));
    let Some(last) = last else {
        // Ready without the lines before: they went elsewhere, or are cut off.
        let (_, ready) = events.last()?;
        let mut report = report(form, ready);
        report.unknown("this log has only the end of the last start");
        return Some(report);
    };
    let (event, record) = events.get(last)?;
    let mut report = report(form, record);
    match event {
        Event::Failed(bytes) => {
            report.error(&format!("{}: {}", record.severity, record.message));
            report.needed_bytes = bytes.map(Bytes);
            report.decide(LogVerdict::Failed);
            if bytes.is_none() {
                report.reason = reason_without_bytes(record);
            }
        }
        Event::FellBack(bytes) => fall_back(&mut report, *bytes, record),
        Event::Started | Event::Ready => {
            report.unknown(
                "PostgreSQL logs nothing about a start that got huge pages; huge_pages_status (17 and later) and its \
                 mappings show it",
            );
            // It falls back just before it says its version, and has said nothing else between.
            let before = last.checked_sub(1).and_then(|at| events.get(at));
            if let Some((Event::FellBack(bytes), record)) = before {
                fall_back(&mut report, *bytes, record);
            }
        }
    }
    Some(report)
}

fn report(form: Form, record: &Record) -> LogReport {
    let format = match form {
        Form::Stderr => "postgresql stderr",
        Form::Csv => "postgresql csvlog",
        Form::Json => "postgresql jsonlog",
    };
    let mut report = LogReport::new(Engine::PostgreSql, format);
    report.started_at = Some(record.stamp.clone()).filter(|stamp| !stamp.is_empty());
    for line in record.line.lines() {
        report.evidence(line);
    }
    report
}

fn fall_back(report: &mut LogReport, bytes: Option<u64>, record: &Record) {
    report.error(&format!("{}: {}", record.severity, record.message));
    report.needed_bytes = bytes.map(Bytes);
    report.decide(LogVerdict::None);
}

fn reason_without_bytes(record: &Record) -> String {
    if record.message.contains("shared_memory_type") {
        return "huge pages need shared_memory_type=mmap".into();
    }
    if record.message.ends_with("Invalid argument") {
        return "the kernel has no pages of that huge_page_size".into();
    }
    String::new()
}

fn event(record: &Record) -> Option<Event> {
    let message = record.message.as_str();
    // Statements of clients are quoted after these; what they contain is theirs.
    if ["statement: ", "execute ", "duration: ", "parameter "].iter().any(|words| message.starts_with(words)) {
        return None;
    }
    if message.contains("PostgreSQL") && message.contains(", compiled by ") {
        return Some(Event::Started);
    }
    if message.starts_with("database system is ready to accept") {
        return Some(Event::Ready);
    }
    if message.starts_with("mmap(") && message.contains("MAP_HUGETLB") {
        return Some(Event::FellBack(number_after(message, "mmap(")));
    }
    let fatal = !matches!(
        record.severity.as_str(),
        "LOG"
            | "ERROR"
            | "WARNING"
            | "NOTICE"
            | "INFO"
            | "DEBUG"
            | "STATEMENT"
            | "CONTEXT"
            | "DETAIL"
            | "HINT"
            | "QUERY"
    ) && !record.severity.starts_with("DEBUG");
    if !fatal {
        return None;
    }
    let hinted = [&record.hint, &record.message].into_iter().find_map(|hint| asked_bytes(hint));
    let own =
        message.starts_with("could not map anonymous shared memory") || message.starts_with("huge pages not supported");
    // Where it is in quotes, the message is about the setting's value.
    let setting = message
        .split_once("shared_memory_type")
        .is_some_and(|(before, _)| before.ends_with(|last: char| last.is_alphanumeric() || last == ' '));
    (own || setting || hinted.is_some()).then_some(Event::Failed(hinted))
}

/// The bytes that a failed start asked for: the one number in the hint on shared_buffers and
/// max_connections, `(currently 150994944 bytes)`, in every language.
fn asked_bytes(hint: &str) -> Option<u64> {
    if !hint.contains("shared_buffers") || !hint.contains("max_connections") {
        return None;
    }
    let numbers = hint.split(|letter: char| !letter.is_ascii_digit()).filter_map(|digits| digits.parse::<u64>().ok());
    let mut large = numbers.filter(|number| *number >= 1 << 16);
    let first = large.next()?;
    large.next().is_none().then_some(first)
}
