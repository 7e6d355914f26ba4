//! Redis's and Valkey's log: `26684:M 25 Nov 2026 12:40:07.481 * Background saving started by pid 26986`.
//!
//! Texts are those of Redis 3.0 to 7.2 (server.c, rdb.c, aof.c, syscheck.c), which Valkey has kept.

use crate::event::{Event, EventKind};
use crate::readers::stamp::Stamp;

/// Megabytes that a save copies from which on they are told.
const COPIED: u64 = 1;

/// The time of a line and its message.
pub(super) fn line(line: &str) -> Option<(Stamp, &str)> {
    // pid:role day month year time level message; the role is one of X (sentinel), C (child), S (replica), M (master).
    let (who, rest) = line.split_once(' ')?;
    let (pid, role) = who.split_once(':')?;
    let number = !pid.is_empty() && pid.len() <= 10 && pid.bytes().all(|digit| digit.is_ascii_digit());
    if !number || !matches!(role, "X" | "C" | "S" | "M") {
        return None;
    }
    let mut words = rest.splitn(6, ' ');
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let level = words.next()?;
    let message = words.next()?;
    let stamp = Stamp::of_day(day, month, year, time)?;
    matches!(level, "." | "-" | "*" | "#").then_some((stamp, message))
}

/// What a message tells.
pub(super) fn event(message: &str) -> Option<Event> {
    let said = |kind, what: &str| Some(Event::new(kind, what));
    if message.starts_with("Ready to accept connections") || message.starts_with("The server is now ready to accept") {
        return said(EventKind::ServerStarted, "Redis started");
    }
    let warning = message.strip_prefix("WARNING ").unwrap_or_default();
    // `you have` up to 6.2, `You have` since.
    if warning.get(1..).is_some_and(|rest| rest.starts_with("ou have Transparent Huge Pages (THP) support enabled")) {
        return said(
            EventKind::ServerTrouble,
            "Redis warned that it runs on transparent huge pages (on kernels before 5.8 a write during a save copies 2 MiB)",
        );
    }
    if message.starts_with("Background saving started by pid ") {
        return said(EventKind::ServerWork, "Redis forked to save its data (BGSAVE)");
    }
    if message.starts_with("Background append only file rewriting started by pid ") {
        return said(EventKind::ServerWork, "Redis forked to rewrite its append-only file");
    }
    if let Some(megabytes) = copied(message) {
        let what = format!("Redis copied {megabytes} MB of pages that were written while it saved");
        return (megabytes >= COPIED).then(|| Event::new(EventKind::ServerWork, what));
    }
    if let Some(rest) = message.strip_prefix("Background saving terminated by signal ") {
        return of_signal(rest, "the save");
    }
    if let Some(rest) = message.strip_prefix("Background AOF rewrite terminated by signal ") {
        return of_signal(rest, "the rewrite of the append-only file");
    }
    if message == "Background saving error" || message == "Background AOF rewrite terminated with error" {
        return said(EventKind::ServerTrouble, "Redis could not save its data");
    }
    if message.starts_with("Can't save in background: fork: ")
        || message.starts_with("Can't rewrite append only file in background: fork: ")
    {
        return said(EventKind::ServerTrouble, "Redis was refused the memory to fork for a save");
    }
    if message.starts_with("Asynchronous AOF fsync is taking too long") {
        return said(EventKind::ServerTrouble, "Redis waited for its disk (fsync of the append-only file)");
    }
    if message.starts_with("Out Of Memory allocating ") {
        return said(EventKind::ServerFailed, "Redis was refused memory and ended");
    }
    if message.starts_with("=== REDIS BUG REPORT START") || message.starts_with("=== VALKEY BUG REPORT START") {
        return said(EventKind::ServerFailed, "Redis crashed");
    }
    if message.starts_with("Error registering fd event for the new client")
        || message.starts_with("max number of clients reached")
    {
        return said(EventKind::ServerTrouble, "Redis refused a client: maxclients was reached");
    }
    None
}

fn of_signal(rest: &str, what: &str) -> Option<Event> {
    let signal: u8 = rest.trim_end().parse().ok()?;
    let by = if signal == 9 {
        ": signal 9, as the kernel does when memory is out".to_owned()
    } else {
        format!(": signal {signal}")
    };
    Some(Event::new(EventKind::ServerTrouble, format!("{what} of Redis was killed{by}")))
}

/// `Fork CoW for RDB: current 0 MB, peak 412 MB, average 210 MB` since 7.0; `RDB: 412 MB of memory used by copy-on-write` before.
/// Where it tells both, the peak counts.
fn copied(message: &str) -> Option<u64> {
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
