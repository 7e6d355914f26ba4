//! What database servers wrote: when they started and on which pages, when they ran out of memory, processes or connections,
//! and when clients gave up.
//!
//! Texts are those of Oracle's alert log (11.2 to 23ai), of PostgreSQL's log in its default form, of the error logs of
//! MariaDB and MySQL, of Redis's and Valkey's log, and of the JVM's unified log and its reports of fatal errors. What else they
//! say is left out.

mod jvm;
mod redis;

use std::io::Read;

use hugewise_model::Engine;

use super::lines;
use super::stamp::Stamp;
use crate::event::{Event, EventKind};
use crate::series::{Mark, MarkKind};
use crate::{Format, Moment, Refused, Series};

/// No line that is kept is longer.
const LONGEST_LINE: u64 = 8 << 10;
/// Events of one file that are kept, those that came first.
const MOST_EVENTS: usize = 20_000;
/// Lines of a file that are looked at to tell whose it is.
const LOOKED_AT: usize = 200;

/// Whose log it is, by its first lines.
pub(super) fn engine(text: &[u8]) -> Option<Engine> {
    let text = String::from_utf8_lossy(text);
    let mut oracles_stamps = 0;
    for line in text.lines().take(LOOKED_AT) {
        if let Some((_, message)) = postgresql(line)
            && LEVELS.iter().any(|level| message.starts_with(level))
        {
            return Some(Engine::PostgreSql);
        }
        if mysql(line).is_some() {
            let mariadb = text.contains("MariaDB") || text.contains("mariadbd");
            return Some(if mariadb { Engine::MariaDb } else { Engine::MySql });
        }
        if redis::line(line).is_some() {
            return Some(if text.contains("Valkey") { Engine::Valkey } else { Engine::Redis });
        }
        if jvm::begins(line) {
            return Some(Engine::Jvm);
        }
        oracles_stamps += u32::from(Stamp::parse(line).is_some());
        let marks = [
            "Starting ORACLE instance",
            "advanced to log sequence",
            "Completed: ALTER DATABASE",
            "Large Pages Information",
        ];
        if marks.iter().any(|mark| line.contains(mark))
            && (oracles_stamps > 0 || text.lines().any(|line| Stamp::parse(line).is_some()))
        {
            return Some(Engine::Oracle);
        }
    }
    None
}

/// Reads such a log.
///
/// # Errors
/// No line of it has a time, or it cannot be read.
pub fn read(stream: &mut dyn Read, source: &str, engine: Engine) -> Result<Series, Refused> {
    let mut reader =
        Reader { series: Series::new(source, Format::ServerLog(engine)), at: None, left_out: 0, in_table: false };
    let mut machine = jvm::Machine::default();
    let end = lines::each(stream, LONGEST_LINE, |line| match engine {
        Engine::Oracle => reader.oracle(line),
        Engine::PostgreSql => reader.of(postgresql(line), POSTGRESQL),
        Engine::Redis | Engine::Valkey => reader.redis(line),
        Engine::Jvm => reader.jvm(&mut machine, line),
        _ => reader.of(mysql(line), MYSQL),
    });
    let Reader { mut series, left_out, .. } = reader;
    if series.span().is_none() {
        let dated = "; -Xlog:gc*:file=gc.log:time,uptime,level,tags writes it";
        return Err(Refused(format!("none of its lines has a time{}", if engine == Engine::Jvm { dated } else { "" })));
    }
    if let Some(problem) = end.problem() {
        series.problem(problem);
    }
    if left_out > 0 {
        series.problem(format!("has more than {MOST_EVENTS} events; {left_out} that came later are left out"));
    }
    Ok(series.finished())
}

/// What a server's line tells that its service sent to the system's log, `mariadbd[4711]` being the tag.
pub(super) fn of_service(tag: &str, message: &str) -> Option<Event> {
    let meant = |line: Option<(Stamp, &str)>, meanings| meaning(line?.1, meanings);
    match tag.split('[').next().unwrap_or_default() {
        "mariadbd" | "mysqld" => meant(mysql(message), MYSQL),
        "postgres" | "postgresql" => meant(postgresql(message), POSTGRESQL),
        "redis-server" | "valkey-server" => redis::event(redis::line(message)?.1),
        "java" => jvm::printed(message),
        _ => None,
    }
}

/// The event that a message is.
fn meaning(message: &str, meanings: &[Meaning]) -> Option<Event> {
    let is = |(begin, more, ..): &&Meaning| message.starts_with(begin) && message.contains(more);
    meanings.iter().find(is).map(|(_, _, kind, what)| Event::new(*kind, *what))
}

struct Reader {
    series: Series,
    /// The last stamp, which what follows is of.
    at: Option<Moment>,
    left_out: usize,
    /// Whether Oracle's table of page sizes has begun.
    in_table: bool,
}

/// How a message begins behind its level, what else stands in it, what it means, and how that is said. A message may quote what
/// a client calls itself or asks for: nothing is told by words that stand anywhere.
type Meaning = (&'static str, &'static str, EventKind, &'static str);

/// Levels that PostgreSQL writes before a message.
const LEVELS: [&str; 8] =
    ["DEBUG:  ", "LOG:  ", "FATAL:  ", "PANIC:  ", "ERROR:  ", "WARNING:  ", "HINT:  ", "STATEMENT:  "];

const POSTGRESQL: &[Meaning] = &[
    ("LOG:  database system is ready to accept connections", "", EventKind::ServerStarted, "PostgreSQL started"),
    (
        "FATAL:  could not map anonymous shared memory",
        "",
        EventKind::ServerFailed,
        "PostgreSQL could not get its shared memory, and did not start",
    ),
    (
        "FATAL:  huge pages not supported",
        "",
        EventKind::ServerFailed,
        "PostgreSQL was told to use huge pages and could not",
    ),
    // Told at log_min_messages = debug1 and below alone (PostgreSQL 9.4 and later).
    (
        "DEBUG:  mmap(",
        ") with MAP_HUGETLB failed, huge pages disabled",
        EventKind::WithoutHugePages,
        "PostgreSQL got no huge pages and started without them (huge_pages = try)",
    ),
    (
        "LOG:  server process (PID ",
        " was terminated by signal 9",
        EventKind::ServerFailed,
        "a process of PostgreSQL was killed, and all sessions with it",
    ),
    (
        "LOG:  database system was interrupted",
        "",
        EventKind::ServerFailed,
        "PostgreSQL had not been shut down before this start",
    ),
    (
        "LOG:  could not fork new process",
        "",
        EventKind::ServerTrouble,
        "PostgreSQL could not start a process for a session",
    ),
    (
        "FATAL:  sorry, too many clients already",
        "",
        EventKind::ServerTrouble,
        "PostgreSQL refused a session: max_connections was reached",
    ),
    (
        "FATAL:  remaining connection slots are reserved",
        "",
        EventKind::ServerTrouble,
        "PostgreSQL refused a session: max_connections was reached",
    ),
    (
        "FATAL:  canceling authentication due to timeout",
        "",
        EventKind::ServerTrouble,
        "a login took longer than authentication_timeout",
    ),
    ("ERROR:  out of memory", "", EventKind::ServerTrouble, "a session of PostgreSQL was refused memory"),
    ("FATAL:  out of memory", "", EventKind::ServerTrouble, "a session of PostgreSQL was refused memory"),
    (
        "LOG:  checkpoints are occurring too frequently",
        "",
        EventKind::ServerTrouble,
        "PostgreSQL's checkpoints came too often",
    ),
];

const MYSQL: &[Meaning] = &[
    ("/", ": ready for connections", EventKind::ServerStarted, "the server started"),
    ("mysqld: ready for connections", "", EventKind::ServerStarted, "the server started"),
    ("mariadbd: ready for connections", "", EventKind::ServerStarted, "the server started"),
    (
        "Cannot allocate memory for the buffer pool",
        "",
        EventKind::ServerFailed,
        "InnoDB could not get memory for its buffer pool",
    ),
    // MariaDB 10.6 and later; MySQL and older ones of MariaDB.
    (
        "mariadbd: Couldn't allocate ",
        "(Large/HugeTLB memory page size ",
        EventKind::WithoutHugePages,
        "MariaDB got no huge pages for a part of its memory and went on without them",
    ),
    (
        "mysqld: Couldn't allocate ",
        "(Large/HugeTLB memory page size ",
        EventKind::WithoutHugePages,
        "MariaDB got no huge pages for a part of its memory and went on without them",
    ),
    (
        "HugeTLB: Warning: Failed to allocate ",
        "",
        EventKind::WithoutHugePages,
        "InnoDB got no huge pages for a part of its memory",
    ),
    ("Warning: Using conventional memory pool", "", EventKind::WithoutHugePages, "InnoDB went on without huge pages"),
    ("Failed to allocate", "", EventKind::ServerTrouble, "InnoDB was refused memory, or huge pages for it"),
    ("Too many connections", "", EventKind::ServerTrouble, "a session was refused: max_connections was reached"),
    ("Can't create thread", "", EventKind::ServerTrouble, "the server could not start a thread for a session"),
    ("Out of memory", "", EventKind::ServerTrouble, "the server was refused memory"),
    ("mysqld got signal ", "", EventKind::ServerFailed, "the server crashed"),
    ("mariadbd got signal ", "", EventKind::ServerFailed, "the server crashed"),
    ("Starting crash recovery", "", EventKind::ServerFailed, "the server had not been shut down before this start"),
];

const ORACLE: &[Meaning] = &[
    ("Instance terminated by", "", EventKind::ServerFailed, "the instance ended"),
    ("ORA-27102", "", EventKind::ServerFailed, "ORA-27102: the kernel refused Oracle memory"),
    (
        "ORA-27106",
        "",
        EventKind::ServerFailed,
        "ORA-27106: huge pages were missing, and the instance did not start without them",
    ),
    ("ORA-27125", "", EventKind::ServerFailed, "ORA-27125: Oracle was refused a shared memory segment"),
    (
        "ORA-27137",
        "",
        EventKind::ServerFailed,
        "ORA-27137: huge pages were missing, and the instance did not start without them",
    ),
    ("ORA-00845", "", EventKind::ServerFailed, "ORA-00845: /dev/shm was too small for MEMORY_TARGET"),
    ("ORA-04030", "", EventKind::ServerTrouble, "ORA-04030: a process was refused private memory"),
    ("ORA-04031", "", EventKind::ServerTrouble, "ORA-04031: a pool of the SGA was exhausted"),
    ("ORA-04036", "", EventKind::ServerTrouble, "ORA-04036: the PGA reached its limit"),
    ("ORA-00020", "", EventKind::ServerTrouble, "ORA-00020: PROCESSES was reached"),
    ("ORA-00018", "", EventKind::ServerTrouble, "ORA-00018: SESSIONS was reached"),
    ("ORA-00445", "", EventKind::ServerTrouble, "ORA-00445: a background process did not start within two minutes"),
    (
        "WARNING: inbound connection timed out",
        "",
        EventKind::ServerTrouble,
        "ORA-03136: a login took longer than SQLNET.INBOUND_CONNECT_TIMEOUT",
    ),
    ("WARNING: Heavy swapping detected", "", EventKind::ServerTrouble, "Oracle saw the host swap heavily"),
    (
        "Time drift detected",
        "",
        EventKind::ServerTrouble,
        "Oracle's clock stood still for seconds: its process did not get to run",
    ),
    (
        "Checkpoint not complete",
        "",
        EventKind::ServerTrouble,
        "Oracle waited for a checkpoint before it could switch logs",
    ),
];

impl Reader {
    fn stamp(&mut self, stamp: &Stamp) {
        let at = stamp.by(&mut self.series);
        self.series.covers(at);
        self.at = Some(at);
    }

    fn of(&mut self, line: Option<(Stamp, &str)>, meanings: &[Meaning]) {
        let Some((stamp, message)) = line else { return };
        self.stamp(&stamp);
        self.meant(message, meanings);
    }

    fn meant(&mut self, message: &str, meanings: &[Meaning]) {
        if let Some(event) = meaning(message, meanings) {
            self.event(event.kind, event.what);
        }
    }

    fn event(&mut self, kind: EventKind, what: String) {
        let Some(at) = self.at else { return };
        let event = Event { kind, what };
        // A message of several lines says one thing.
        let again =
            self.series.marks.last().is_some_and(|last| last.at == at && last.kind == MarkKind::Event(event.clone()));
        if again {
            return;
        }
        if self.series.marks.len() < MOST_EVENTS {
            self.series.marks.push(Mark { at, kind: MarkKind::Event(event) });
        } else {
            self.left_out += 1;
        }
    }

    /// A line of Redis or Valkey.
    fn redis(&mut self, line: &str) {
        let Some((stamp, message)) = redis::line(line) else { return };
        self.stamp(&stamp);
        if let Some(event) = redis::event(message) {
            self.event(event.kind, event.what);
        }
    }

    /// A line of a JVM's log, or of its report of a fatal error.
    fn jvm(&mut self, machine: &mut jvm::Machine, line: &str) {
        let (stamp, event) = machine.line(line);
        if let Some(stamp) = stamp {
            self.stamp(&stamp);
        }
        if let Some(event) = event {
            self.event(event.kind, event.what);
        }
    }

    /// The alert log as text: a stamp has a line of its own, and what follows is of it.
    fn oracle(&mut self, line: &str) {
        if let Some(stamp) = Stamp::parse(line) {
            return self.stamp(&stamp);
        }
        let text = line.trim();
        if text.starts_with("Starting ORACLE instance") {
            self.in_table = false;
            return self.event(EventKind::ServerStarted, "Oracle started an instance".to_owned());
        }
        if text.starts_with("PAGESIZE") && text.contains("ALLOCATED_PAGES") {
            self.in_table = true;
        } else if self.in_table {
            match Row::of(text) {
                Some(row) => {
                    if let Some(what) = row.words() {
                        self.event(EventKind::ServerStarted, what);
                    }
                }
                None => self.in_table = text.is_empty(),
            }
        } else if let Some(rest) = text.strip_prefix("Total Shared Global Region in Large Pages = ") {
            self.event(EventKind::ServerStarted, format!("{} of Oracle's SGA went to huge pages", short(rest)));
        }
        // `PMON (ospid: 4711): terminating the instance due to error 471`
        let ends = text.split_once(" (ospid: ").is_some_and(|(_, rest)| rest.contains("): terminating the instance"));
        if ends && !text.starts_with(|first: char| first.is_ascii_lowercase()) {
            self.event(EventKind::ServerFailed, "Oracle ended the instance".to_owned());
        }
        self.meant(text, ORACLE);
    }
}

/// `40 GB (100%)` without what else a line may hold.
fn short(text: &str) -> String {
    let end = text.find(')').map_or(text.len(), |end| end + 1);
    text.get(..end).unwrap_or(text).chars().filter(|letter| !letter.is_control()).take(40).collect()
}

/// A row of Oracle's table: `2048K 0 2049 0 NONE`.
struct Row {
    kib: u64,
    expected: u64,
    allocated: u64,
}

impl Row {
    fn of(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let kib = words.next()?.strip_suffix('K')?.parse().ok()?;
        let (_, expected, allocated) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { kib, expected, allocated })
    }

    /// Of a huge page; base pages are what is left.
    fn words(&self) -> Option<String> {
        let page = hugewise_model::PageSize::from_kib(self.kib).filter(|_| self.kib > 64)?;
        Some(format!("Oracle got {} of {} huge pages of {page}", self.allocated, self.expected))
    }
}

/// `2026-11-21 22:47:35.123 UTC [4711] FATAL:  text`, with whatever stands between the time and the level.
fn postgresql(line: &str) -> Option<(Stamp, &str)> {
    let mut words = line.splitn(4, ' ');
    let (date, time, zone) = (words.next()?, words.next()?, words.next()?);
    let stamp = Stamp::parse(&format!("{date} {time} {zone}"))?;
    // A user's name, which comes before it and from whoever connects, may hold another: a line of two levels tells nothing.
    let colon = line.find(":  ")?;
    let level = line.get(..colon)?.rsplit(' ').next()?;
    let message = line.get(colon - level.len()..)?;
    let known = LEVELS.iter().find(|level| message.starts_with(**level))?;
    let rest = message.get(known.len()..)?;
    let quoted = LEVELS.iter().any(|level| rest.contains(level));
    (!quoted).then_some((stamp, message))
}

/// `2026-11-21 22:47:35 0 [Note] text` and `2026-11-21T22:47:35.123456Z 0 [System] [MY-010931] [Server] text`.
fn mysql(line: &str) -> Option<(Stamp, &str)> {
    let (first, rest) = line.split_once(' ')?;
    let (stamp, rest) = if first.contains('T') {
        (Stamp::parse(first)?, rest)
    } else {
        let (time, rest) = rest.trim_start().split_once(' ')?;
        (Stamp::parse(&format!("{first} {time}"))?, rest)
    };
    let (thread, message) = rest.trim_start().split_once(' ')?;
    let is_number = !thread.is_empty() && thread.bytes().all(|digit| digit.is_ascii_digit());
    // The level, MySQL's number and subsystem, and MariaDB's words for one of them.
    let mut message = message.trim_start();
    let level = message.split(']').next().unwrap_or_default();
    if !matches!(level, "[Note" | "[Warning" | "[ERROR" | "[System" | "[Error") {
        return None;
    }
    while let Some((_, rest)) = message.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        message = rest.trim_start();
    }
    let message = message.strip_prefix("InnoDB: ").unwrap_or(message);
    is_number.then_some((stamp, message))
}

#[cfg(test)]
mod tests;
