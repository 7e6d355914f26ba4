//! PostgreSQL's log.
//!
//! With `huge_pages=on` a start without its pages ends with a message of the bytes it asked for.
//! With `try` it falls back and says so only at `log_min_messages=debug1`; success is never logged.
//! Messages follow lc_messages, so what does not decides here: the version's text, names of
//! settings, MAP_HUGETLB and numbers.

use hugewise_model::{Bytes, Engine};

use super::log_records::{PostgresqlLogForm, PostgresqlLogRecord, detect_form, parse_records};
use crate::shared::logs::{Excerpt, LogReport, LogVerdict, ServerLogFormat, number_after};

pub(super) static FORMAT: ServerLogFormat = ServerLogFormat {
    marks: &[
        ", compiled by ",
        "could not map anonymous shared memory",
        "shmget(key=",
        "huge pages not supported",
        "shared_memory_type",
        "with MAP_HUGETLB failed",
        "shared_buffers",
        "database system is ready to accept",
        "terminated by signal 7",
        "Signal 7 ",
    ],
    hints: &[
        "LOG:  ",
        "FATAL:  ",
        "STATEMENT:  ",
        "\"error_severity\":",
        "checkpoint complete: wrote",
        ",LOG,00000,",
    ],
    read,
    read_paste: read_initdb_output,
};

enum StartupLogEvent {
    Started,
    Ready,
    FellBack(Option<u64>),
    Failed(Option<u64>),
    /// A process touched a page that was not to be had.
    Bus,
}

const BUS_ERROR: &str = "a huge page that PostgreSQL had mapped could not be had when a process \
     first touched it (SIGBUS): as a rule the container's hugetlb limit is below what it maps; \
     hugewise rules SIGBUS explains it";

/// What initdb and a container's entry point print.
fn read_initdb_output(text: &str) -> Option<LogReport> {
    let of_initdb =
        ["initdb: ", "running bootstrap script", "post-bootstrap", "selecting default "];
    let is_initdb = of_initdb.iter().any(|words| text.contains(words));
    let is_bus = |line: &&str| {
        line.contains("Bus error")
            || line.starts_with("child process exited with exit code 135")
            || line.starts_with("child process was terminated by signal 7")
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(is_bus).collect();
    if !is_initdb || lines.is_empty() {
        return None;
    }
    let mut report = LogReport::new(Engine::PostgreSql, "initdb output");
    lines.iter().for_each(|line| report.add_error(line));
    report.set_verdict(LogVerdict::Failed);
    report.reason = format!(
        "{BUS_ERROR}; initdb asks for huge pages too: initdb -c huge_pages=off (16 and later), or \
         huge_pages = off in postgresql.conf.sample"
    );
    Some(report)
}

fn read(excerpt: &Excerpt) -> Option<LogReport> {
    let form = detect_form(&excerpt.text);
    let records = parse_records(form, excerpt.complete_lines());
    let events: Vec<(StartupLogEvent, &PostgresqlLogRecord)> =
        records.iter().filter_map(|record| Some((classify_record(record)?, record))).collect();
    let last = events.iter().rposition(|(event, _)| {
        matches!(
            event,
            StartupLogEvent::Started
                | StartupLogEvent::Failed(_)
                | StartupLogEvent::FellBack(_)
                | StartupLogEvent::Bus
        )
    });
    let Some(last) = last else {
        // Ready without the lines before: they went elsewhere, or are cut off.
        let (_, ready) = events.last()?;
        let mut report = new_report(form, ready);
        report.set_unknown("this log has only the end of the last start");
        return Some(report);
    };
    let (event, record) = events.get(last)?;
    let mut report = new_report(form, record);
    match event {
        StartupLogEvent::Failed(bytes) => {
            report.add_error(&format!("{}: {}", record.severity, record.message));
            report.needed_bytes = bytes.map(Bytes);
            report.set_verdict(LogVerdict::Failed);
            if bytes.is_none() {
                report.reason = reason_without_bytes(record);
            }
        }
        StartupLogEvent::Bus => {
            report.add_error(&format!("{}: {}", record.severity, record.message));
            report.set_verdict(LogVerdict::Died);
            report.reason = BUS_ERROR.into();
        }
        StartupLogEvent::FellBack(bytes) => fall_back(&mut report, *bytes, record),
        StartupLogEvent::Started | StartupLogEvent::Ready => {
            report.set_unknown(
                "PostgreSQL logs nothing about a start that got huge pages; huge_pages_status (17 \
                 and later) and its mappings show it",
            );
            // It falls back just before it says its version.
            let before = last.checked_sub(1).and_then(|at| events.get(at));
            if let Some((StartupLogEvent::FellBack(bytes), record)) = before {
                fall_back(&mut report, *bytes, record);
            }
        }
    }
    Some(report)
}

fn new_report(form: PostgresqlLogForm, record: &PostgresqlLogRecord) -> LogReport {
    let format = match form {
        PostgresqlLogForm::Stderr => "postgresql stderr",
        PostgresqlLogForm::Csv => "postgresql csvlog",
        PostgresqlLogForm::Json => "postgresql jsonlog",
    };
    let mut report = LogReport::new(Engine::PostgreSql, format);
    report.started_at = Some(record.stamp.clone()).filter(|stamp| !stamp.is_empty());
    for line in record.line.lines() {
        report.add_evidence(line);
    }
    report
}

fn fall_back(report: &mut LogReport, bytes: Option<u64>, record: &PostgresqlLogRecord) {
    report.add_error(&format!("{}: {}", record.severity, record.message));
    report.needed_bytes = bytes.map(Bytes);
    report.set_verdict(LogVerdict::None);
}

fn reason_without_bytes(record: &PostgresqlLogRecord) -> String {
    if let Some(size) = number_after(&record.call, ", size=") {
        return explain_refused_segment(&record.message, Bytes(size));
    }
    if record.message.contains("shared_memory_type") {
        return "huge pages need shared_memory_type=mmap".into();
    }
    if record.message.ends_with("Invalid argument") {
        return "the kernel has no pages of that huge_page_size".into();
    }
    String::new()
}

/// By the errors of shmget(2): EINVAL, ENOSPC, ENOMEM.
fn explain_refused_segment(message: &str, size: Bytes) -> String {
    let limit = if message.ends_with("Invalid argument") {
        "kernel.shmmax is below that"
    } else if message.ends_with("No space left on device") {
        "all segments together go beyond kernel.shmall, or there are kernel.shmmni of them"
    } else if message.ends_with("Cannot allocate memory") {
        "kernel.shmall or memory does not have that much left"
    } else {
        "kernel.shmmax, kernel.shmall or kernel.shmmni"
    };
    format!("the kernel refused it a System V segment of {size}: {limit}")
}

fn classify_record(record: &PostgresqlLogRecord) -> Option<StartupLogEvent> {
    let message = record.message.as_str();
    // These quote clients' statements.
    if ["statement: ", "execute ", "duration: ", "parameter "]
        .iter()
        .any(|words| message.starts_with(words))
    {
        return None;
    }
    if message.contains("PostgreSQL") && message.contains(", compiled by ") {
        return Some(StartupLogEvent::Started);
    }
    if message.starts_with("database system is ready to accept") {
        return Some(StartupLogEvent::Ready);
    }
    if message.starts_with("mmap(") && message.contains("MAP_HUGETLB") {
        return Some(StartupLogEvent::FellBack(number_after(message, "mmap(")));
    }
    // `server process (PID 229) was terminated by signal 7: Bus error`, in several languages.
    if record.severity == "LOG"
        && message.contains("(PID ")
        && ["signal 7", "Signal 7"].iter().any(|words| {
            let number_ends =
                |(_, rest): (&str, &str)| !rest.starts_with(|next: char| next.is_ascii_digit());
            message.split_once(words).is_some_and(number_ends)
        })
    {
        return Some(StartupLogEvent::Bus);
    }
    const HARMLESS: [&str; 10] = [
        "LOG",
        "ERROR",
        "WARNING",
        "NOTICE",
        "INFO",
        "STATEMENT",
        "CONTEXT",
        "DETAIL",
        "HINT",
        "QUERY",
    ];
    let severity = record.severity.as_str();
    if HARMLESS.contains(&severity) || severity.starts_with("DEBUG") {
        return None;
    }
    let hinted = [&record.hint, &record.message].into_iter().find_map(|hint| asked_bytes(hint));
    let own = message.starts_with("could not map anonymous shared memory")
        || !record.call.is_empty()
        || message.starts_with("huge pages not supported");
    // In quotes it is only the setting's value.
    let setting = message.split_once("shared_memory_type").is_some_and(|(before, _)| {
        before.ends_with(|last: char| last.is_alphanumeric() || last == ' ')
    });
    (own || setting || hinted.is_some()).then_some(StartupLogEvent::Failed(hinted))
}

/// The bytes that a failed start asked for: the one large number in the hint on shared_buffers and
/// max_connections, `(currently 150994944 bytes)`, in every language.
fn asked_bytes(hint: &str) -> Option<u64> {
    if !hint.contains("shared_buffers") || !hint.contains("max_connections") {
        return None;
    }
    let numbers = hint
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|digits| digits.parse::<u64>().ok());
    let mut large = numbers.filter(|number| *number >= 1 << 16);
    let first = large.next()?;
    large.next().is_none().then_some(first)
}
