//! Redis's and Valkey's log: `26684:M 25 Nov 2026 12:40:07.481 * Background saving started by pid
//! 26986`.
//!
//! Texts are those of Redis 2.8 to 7.2 (server.c, rdb.c, aof.c, syscheck.c), which Valkey has kept.
//! Up to 4.0 its times have no year, and up to 2.8 there is no role: `[1249] 05 May 14:40:16.963 #`.

use hugewise_model::Engine;

use super::{LogStamp, SOME_YEAR, interpret_message};
use crate::event::{LogEvent, LogEventKind};
use crate::readers::line_timestamp::LineTimestamp;

/// Megabytes copied by a save that are reported.
const COPIED: u64 = 1;

pub(super) fn parse_redis_line(line: &str) -> Option<(LogStamp, &str)> {
    parse_numbered_line(line).or_else(|| parse_oldest_line(line))
}

/// `30 May 10:03:19 - Server started, Redis version 1.2.6`, of 2.2 and before: no process, and words
/// that tell whose log it is.
fn parse_oldest_line(line: &str) -> Option<(LogStamp, &str)> {
    const WORDS: &[&str] = &[
        "Server started, Redis version ",
        "The server is now ready to accept connections",
        "WARNING overcommit_memory is set to 0!",
        "DB loaded from ",
        "DB saved on disk",
        "Background ",
        "Can't save in background",
        "User requested shutdown",
    ];
    let (day, rest) = line.split_once(' ')?;
    let (month, rest) = rest.split_once(' ')?;
    let (time, rest) = rest.split_once(' ')?;
    let (level, message) = rest.split_once(' ')?;
    let known = matches!(level, "." | "-" | "*" | "#")
        && WORDS.iter().any(|words| message.starts_with(words));
    let at = LineTimestamp::from_day_and_time(day, month, SOME_YEAR, time).filter(|_| known)?;
    Some((LogStamp { at, has_year: false }, message))
}

fn parse_numbered_line(line: &str) -> Option<(LogStamp, &str)> {
    // pid:role day month year time level message; roles: X sentinel, C child, S replica, M master.
    let (who, rest) = line.split_once(' ')?;
    let is_number = |pid: &str| {
        !pid.is_empty() && pid.len() <= 10 && pid.bytes().all(|digit| digit.is_ascii_digit())
    };
    let known = match who.strip_prefix('[').and_then(|who| who.strip_suffix(']')) {
        Some(pid) => is_number(pid),
        None => {
            let (pid, role) = who.split_once(':')?;
            is_number(pid) && matches!(role, "X" | "C" | "S" | "M")
        }
    };
    if !known {
        return None;
    }
    let (day, rest) = rest.split_once(' ')?;
    let (month, rest) = rest.split_once(' ')?;
    let (next, rest) = rest.split_once(' ')?;
    let has_year = !next.contains(':');
    let (year, time, rest) = if has_year {
        let (time, rest) = rest.split_once(' ')?;
        (next, time, rest)
    } else {
        (SOME_YEAR, next, rest)
    };
    let (level, message) = rest.split_once(' ')?;
    let at = LineTimestamp::from_day_and_time(day, month, year, time)?;
    let stamp = LogStamp { at, has_year };
    matches!(level, "." | "-" | "*" | "#").then_some((stamp, message))
}

pub(super) fn parse_redis_event(message: &str) -> Option<LogEvent> {
    if let Some(megabytes) = parse_copied_memory(message) {
        let what = format!("Redis copied {megabytes} MB of pages that were written while it saved");
        return (megabytes >= COPIED).then(|| LogEvent::new(LogEventKind::ServerWork, what));
    }
    if let Some(rest) = message.strip_prefix("Background saving terminated by signal ") {
        return describe_signal(rest, "the save");
    }
    if let Some(rest) = message.strip_prefix("Background AOF rewrite terminated by signal ") {
        return describe_signal(rest, "the rewrite of the append-only file");
    }
    interpret_message(Engine::Redis, message)
}

fn describe_signal(rest: &str, what: &str) -> Option<LogEvent> {
    let signal: u8 = rest.trim_end().parse().ok()?;
    let by = if signal == 9 {
        ": signal 9, as the kernel does when memory is out".to_owned()
    } else {
        format!(": signal {signal}")
    };
    Some(LogEvent::new(LogEventKind::ServerTrouble, format!("{what} of Redis was killed{by}")))
}

/// `Fork CoW for RDB: current 0 MB, peak 412 MB, average 210 MB` since 7.0, where the peak counts;
/// `RDB: 412 MB of memory used by copy-on-write` before.
fn parse_copied_memory(message: &str) -> Option<u64> {
    let megabytes = match message.strip_prefix("Fork CoW for ") {
        Some(rest) => rest.split_once(", peak ")?.1.split_once(" MB")?.0,
        None => {
            let (what, rest) = message.split_once(": ")?;
            let rest = rest.strip_suffix(" MB of memory used by copy-on-write")?;
            if !matches!(what, "RDB" | "AOF rewrite") {
                return None;
            }
            rest
        }
    };
    megabytes.parse().ok()
}
