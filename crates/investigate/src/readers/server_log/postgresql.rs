//! PostgreSQL's log: text with any `log_line_prefix` that has a time, csvlog and jsonlog.

use crate::event::{LogEvent, LogEventKind};
use crate::readers::line_timestamp::LineTimestamp;
use crate::readers::lines::split_csv_line;
use hugewise_model::calendar::time_of_day;

pub(super) const LEVELS: [&str; 8] = [
    "DEBUG:  ",
    "LOG:  ",
    "FATAL:  ",
    "PANIC:  ",
    "ERROR:  ",
    "WARNING:  ",
    "HINT:  ",
    "STATEMENT:  ",
];
/// What follows the crash of a process.
pub(super) const ENDS_SESSIONS: &str = "LOG:  terminating any other active server processes";
/// Levels in csvlog and jsonlog.
const SEVERITIES: [&str; 8] =
    ["DEBUG", "LOG", "INFO", "NOTICE", "WARNING", "ERROR", "FATAL", "PANIC"];
/// Seconds of an fsync that are a wait for a disk.
const LONG_FSYNC: f64 = 5.0;
/// Bytes of a reason that is told.
const LONGEST_REASON: usize = 160;
/// The place of the message in a row of csvlog, two after its severity.
const MESSAGE: usize = 13;

pub(super) fn parse_line(line: &str) -> Option<(LineTimestamp, String)> {
    if line.starts_with('{') {
        return parse_json_line(line);
    }
    parse_csv_row(line).or_else(|| {
        if let Some((prefix, message)) = split_at_level(line) {
            return Some((parse_prefix_time(prefix)?, message.to_owned()));
        }
        // A web page shows one blank for two; other programs than PostgreSQL have no such level.
        let (prefix, message) = line.split_once("LOG: ").filter(|_| !has_level(line))?;
        let ends = prefix.is_empty() || prefix.ends_with([' ', ':', ']']);
        Some((parse_prefix_time(prefix).filter(|_| ends)?, format!("LOG:  {message}")))
    })
}

fn has_level(line: &str) -> bool {
    LEVELS.iter().any(|level| line.contains(level))
}

pub(super) fn is_row(line: &str) -> bool {
    parse_csv_row(line).is_some()
}

/// Whether a row of csvlog continues in the next line: a statement of several lines is one field.
pub(super) fn goes_on(line: &str) -> bool {
    line.bytes().filter(|byte| *byte == b'"').count() % 2 == 1
}

pub(super) fn split_at_level(line: &str) -> Option<(&str, &str)> {
    // Empty fields of a prefix leave their colons; the first one behind a word ends a level.
    let ends_word = |at: &usize| {
        let before = line.get(..*at).and_then(|before| before.chars().next_back());
        before.is_some_and(|last| last.is_alphanumeric() || matches!(last, '"' | '\''))
    };
    let colon = line.match_indices(":  ").map(|(at, _)| at).find(ends_word)?;
    let begin =
        line.get(..colon)?.trim_end_matches(|letter: char| letter.is_ascii_uppercase()).len();
    let (prefix, message) = line.split_at_checked(begin)?;
    let known = LEVELS.iter().find(|level| message.starts_with(**level))?;
    // A user's name may hold a level and is chosen by whoever connects: two are not trusted.
    let quoted = has_level(message.get(known.len()..)?);
    // Some viewers write a clock of their own and no blank.
    let at = prefix.len().saturating_sub(8);
    let is_clock = || prefix.get(at..).and_then(time_of_day).is_some();
    let is_apart = !prefix.ends_with(char::is_alphanumeric) || is_clock();
    (!quoted && is_apart).then_some((prefix, message))
}

/// `LOG:  server process (PID 229) was terminated by signal 7: Bus error`, of the processes that
/// take all sessions with them.
pub(super) fn parse_crash(message: &str) -> Option<LogEvent> {
    let (process, rest) = message.strip_prefix("LOG:  ")?.split_once(" (PID ")?;
    let attached = [
        "server process",
        "startup process",
        "checkpointer process",
        "background writer process",
        "writer process",
        "WAL writer process",
        "WAL receiver process",
        "autovacuum launcher process",
    ];
    let (pid, rest) = rest.split_once(") was terminated by signal ")?;
    if !attached.contains(&process) || !pid.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let signal: u8 = rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()?;
    let what = match signal {
        9 => "a process of PostgreSQL was killed, and all sessions with it (signal 9: somebody, \
              or the kernel for memory)"
            .to_owned(),
        7 => "a process of PostgreSQL died, and all sessions with it, because a huge page could \
              not be had when it was touched (signal 7; hugewise rules SIGBUS explains it)"
            .to_owned(),
        other => {
            format!("a process of PostgreSQL crashed (signal {other}), and all sessions with it")
        }
    };
    Some(LogEvent::new(LogEventKind::ServerFailed, what))
}

/// `PANIC:  could not fsync file "pg_wal/1": Input/output error`: the server ends itself.
pub(super) fn parse_panic(message: &str) -> Option<LogEvent> {
    let why = message.strip_prefix("PANIC:  ")?;
    let why = why.get(..why.floor_char_boundary(LONGEST_REASON)).unwrap_or(why);
    let what = format!("PostgreSQL ended itself, and all sessions with it (PANIC): {why}");
    Some(LogEvent::new(LogEventKind::ServerFailed, what))
}

/// `LOG:  checkpoint complete: wrote 8192 buffers (50.0%); ...; write=269.9 s, sync=120.1 s,
/// total=390.2 s; sync files=99, longest=60.5 s, average=1.2 s`: one file's fsync took a minute.
pub(super) fn parse_checkpoint(message: &str) -> Option<LogEvent> {
    let rest = ["LOG:  checkpoint complete: ", "LOG:  restartpoint complete: "]
        .iter()
        .find_map(|begin| message.strip_prefix(begin))?;
    let (longest, _) = rest.split_once(" longest=")?.1.split_once(" s")?;
    let seconds: f64 = longest.trim().parse().ok()?;
    let what = "PostgreSQL waited for its disk (fsync of a checkpoint)";
    (seconds >= LONG_FSYNC).then(|| LogEvent::new(LogEventKind::DiskWait, what))
}

/// The time in a prefix: `%t` and `%m` anywhere, or `%n`.
fn parse_prefix_time(prefix: &str) -> Option<LineTimestamp> {
    let dates: Vec<usize> = (0..prefix.len()).filter(|at| is_date(prefix, *at)).take(3).collect();
    let at = match dates.as_slice() {
        // After a time at the beginning comes what a client chose.
        [at] | [at @ 0, ..] => *at,
        [] => {
            let mut words = prefix.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
            return words
                .find(|word| word.len() == 14 && word.as_bytes().get(10) == Some(&b'.'))
                .and_then(LineTimestamp::parse)
                .or_else(|| LineTimestamp::parse(prefix.trim()));
        }
        _ => return None,
    };
    let rest = prefix.get(at..)?;
    let (clock, rest) = rest.split_at_checked(19)?;
    let digits = rest
        .strip_prefix('.')
        .map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count() + 1);
    let (part, rest) = rest.split_at_checked(digits)?;
    let rest = rest.strip_prefix(' ').unwrap_or_default();
    let is_zone =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '/' | '_');
    let zone = rest.get(..rest.find(|letter| !is_zone(letter)).unwrap_or(rest.len()))?;
    parse_zoned_time(&format!("{clock}{part}"), zone)
}

/// Whether `2026-11-21 22:47:35` begins there.
fn is_date(text: &str, at: usize) -> bool {
    let Some(bytes) = text.as_bytes().get(at..at.saturating_add(19)) else { return false };
    bytes.iter().zip(b"dddd-dd-dd dd:dd:dd").all(|(byte, form)| match form {
        b'd' => byte.is_ascii_digit(),
        other => byte == other,
    })
}

fn parse_zoned_time(clock: &str, zone: &str) -> Option<LineTimestamp> {
    // log_timezone may be a place whose zone has no abbreviation.
    LineTimestamp::parse(&format!("{clock} {zone}")).or_else(|| {
        let stamp = LineTimestamp::parse(clock)?;
        Some(LineTimestamp { zone: (!zone.is_empty()).then(|| zone.to_owned()), ..stamp })
    })
}

fn parse_json_line(line: &str) -> Option<(LineTimestamp, String)> {
    let members: serde_json::Map<String, serde_json::Value> =
        line.starts_with('{').then(|| serde_json::from_str(line).ok())??;
    // CloudNativePG wraps the row of csvlog as an object.
    let record = members.get("record").and_then(serde_json::Value::as_object).unwrap_or(&members);
    let get = |name: &str| record.get(name)?.as_str();
    let level = get("error_severity").filter(|level| SEVERITIES.contains(level))?;
    let time = get("timestamp").or_else(|| get("log_time"))?;
    let (clock, zone) = time.rsplit_once(' ')?;
    Some((parse_zoned_time(clock, zone)?, format!("{level}:  {}", get("message")?)))
}

fn parse_csv_row(line: &str) -> Option<(LineTimestamp, String)> {
    if !is_date(line, 0) {
        return None;
    }
    let fields = split_csv_line(line, MESSAGE + 1);
    let (clock, zone) = fields.first()?.rsplit_once(' ')?;
    let level = fields.get(MESSAGE - 2).filter(|level| SEVERITIES.contains(&level.as_str()))?;
    Some((parse_zoned_time(clock, zone)?, format!("{level}:  {}", fields.get(MESSAGE)?)))
}
