//! Redis's and Valkey's log: `26684:M 25 Nov 2026 12:40:07.481 * Background saving started by pid
//! 26986`.
//!
//! Texts are those of Redis 2.8 to 7.2 (server.c, rdb.c, aof.c, syscheck.c), which Valkey has kept.
//! Up to 4.0 its times have no year, and up to 2.8 there is no role: `[1249] 05 May 14:40:16.963 #`.

use super::{Meanings, find_meaning};
use crate::event::{LogEvent, LogEventKind};
use crate::readers::line_timestamp::LineTimestamp;

/// Megabytes copied by a save that are reported.
const COPIED: u64 = 1;

/// When a line was written; without a year it is of 2000, which has every day.
pub(super) struct RedisStamp {
    pub(super) at: LineTimestamp,
    pub(super) has_year: bool,
}

const SOME_YEAR: &str = "2000";

pub(super) fn parse_redis_line(line: &str) -> Option<(RedisStamp, &str)> {
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
    let stamp = RedisStamp { at, has_year };
    matches!(level, "." | "-" | "*" | "#").then_some((stamp, message))
}

const REDIS: Meanings = &[
    (
        LogEventKind::ServerStarted,
        &[
            ("Ready to accept connections", "Redis started"),
            ("The server is now ready to accept", "Redis started"),
        ],
    ),
    (
        LogEventKind::ServerWork,
        &[
            ("Background saving started by pid ", "Redis forked to save its data (BGSAVE)"),
            (
                "Background append only file rewriting started by pid ",
                "Redis forked to rewrite its append-only file",
            ),
        ],
    ),
    (
        LogEventKind::ServerFailed,
        &[
            ("Out Of Memory allocating ", "Redis was refused memory and ended"),
            ("=== REDIS BUG REPORT START", "Redis crashed"),
            ("=== VALKEY BUG REPORT START", "Redis crashed"),
        ],
    ),
    (
        LogEventKind::MemoryRefused,
        &[
            ("Can't save in background: fork: Cannot allocate memory", NO_FORK),
            ("Can't rewrite append only file in background: fork: Cannot allocate memory", NO_FORK),
        ],
    ),
    (
        LogEventKind::ServerTrouble,
        &[
            // `you have` up to 6.2, `You have` since.
            ("WARNING you have Transparent Huge Pages (THP) support enabled", ON_THP),
            ("WARNING You have Transparent Huge Pages (THP) support enabled", ON_THP),
            ("Background saving error", "Redis could not save its data"),
            ("Background AOF rewrite terminated with error", "Redis could not save its data"),
            ("Can't save in background: fork: ", NO_PROCESS),
            ("Can't rewrite append only file in background: fork: ", NO_PROCESS),
            (
                "Asynchronous AOF fsync is taking too long",
                "Redis waited for its disk (fsync of the append-only file)",
            ),
            ("Error registering fd event for the new client", NO_CLIENT),
            ("max number of clients reached", NO_CLIENT),
        ],
    ),
];

const ON_THP: &str = "Redis warned that it runs on transparent huge pages (on kernels before 5.8 \
     a write during a save copies 2 MiB)";
const NO_FORK: &str = "Redis was refused the memory to fork for a save";
const NO_PROCESS: &str = "Redis could not fork for a save";
const NO_CLIENT: &str = "Redis refused a client: maxclients was reached";

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
    find_meaning(message, REDIS)
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
