//! What database servers wrote: when they started and on which pages, when they ran out of memory, processes or connections,
//! and when clients gave up.
//!
//! Texts are those of Oracle's alert log (11.2 to 23ai, as text and as `log.xml`), of PostgreSQL's log (text, csvlog and
//! jsonlog), of the error logs of MariaDB and MySQL, of Redis's and Valkey's log, and of the JVM's unified log and its reports of fatal errors. What else they
//! say is left out.

mod jvm;
mod oracle;
mod postgresql;
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
/// Of PostgreSQL's, whose rows of csvlog have to be read to their end: a statement is one field.
const LONGEST_ROW: u64 = 1 << 20;
/// Events of one file that are kept, those that came first.
const MOST_EVENTS: usize = 20_000;
/// Lines of a file that are looked at to tell whose it is.
const LOOKED_AT: usize = 200;

/// Whose log it is, by its first lines.
pub(super) fn engine(text: &[u8]) -> Option<Engine> {
    let text = String::from_utf8_lossy(text);
    let mut oracles_stamps = 0;
    for line in text.lines().take(LOOKED_AT) {
        if postgresql::line(line).is_some() {
            return Some(Engine::PostgreSql);
        }
        if line.starts_with(oracle::MESSAGE) {
            return Some(Engine::Oracle);
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
    let mut reader = Reader {
        series: Series::new(source, Format::ServerLog(engine)),
        at: None,
        left_out: 0,
        in_table: false,
        in_text: None,
        goes_on: false,
    };
    let mut machine = jvm::Machine::default();
    let longest = if engine == Engine::PostgreSql { LONGEST_ROW } else { LONGEST_LINE };
    let end = lines::each(stream, longest, |line| match engine {
        Engine::Oracle => reader.oracle(line),
        Engine::PostgreSql => reader.postgresql(line),
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

/// Whether a line is of PostgreSQL's log, without its time.
pub(super) fn is_undated(line: &str) -> bool {
    postgresql::leveled(line).is_some_and(|(prefix, _)| prefix.len() < 64) && postgresql::line(line).is_none()
}

/// What a server's line tells that its service sent to the system's log, `mariadbd[4711]` being the tag.
pub(super) fn of_service(tag: &str, message: &str) -> Option<Event> {
    let meant = |line: Option<(Stamp, &str)>, meanings| meaning(line?.1, meanings);
    match tag.split('[').next().unwrap_or_default() {
        "mariadbd" | "mysqld" => meant(mysql(message), MYSQL),
        "postgres" | "postgresql" => meaning(postgresql::leveled(message)?.1, POSTGRESQL),
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
    /// Whether lines are of the text of a message, in Oracle's log.xml; `None` in its text.
    in_text: Option<bool>,
    /// Whether the next line is of a row of PostgreSQL's csvlog that has begun.
    goes_on: bool,
}

/// How a message begins behind its level, what else stands in it, what it means, and how that is said. A message may quote what
/// a client calls itself or asks for: nothing is told by words that stand anywhere.
type Meaning = (&'static str, &'static str, EventKind, &'static str);

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

    /// A line of PostgreSQL. What a statement holds is nobody's but the client's.
    fn postgresql(&mut self, line: &str) {
        if self.goes_on {
            self.goes_on = !postgresql::goes_on(line);
            return;
        }
        let Some((stamp, message)) = postgresql::line(line) else { return };
        self.goes_on = postgresql::is_row(line) && postgresql::goes_on(line);
        self.stamp(&stamp);
        self.meant(&message, POSTGRESQL);
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
}

/// `2026-11-21 22:47:35 0 [Note] text` and `2026-11-21T22:47:35.123456Z 0 [System] [MY-010931] [Server] text`, with a blank
/// before an hour of one digit; before MySQL 5.6 and MariaDB 10.1, and still where MariaDB crashes, `261121 22:47:35 [Note] text`.
fn mysql(line: &str) -> Option<(Stamp, &str)> {
    let (first, rest) = line.split_once(' ')?;
    let (stamp, rest, old) = if first.contains('T') {
        (Stamp::parse(first)?, rest, false)
    } else {
        let (time, rest) = rest.trim_start().split_once(' ')?;
        let time = if time.len() == 7 { format!("0{time}") } else { time.to_owned() };
        match day(first) {
            Some(date) => (Stamp::parse(&format!("{date} {time}"))?, rest, true),
            None => (Stamp::parse(&format!("{first} {time}"))?, rest, false),
        }
    };
    let mut message = rest.trim_start();
    if !old {
        let (thread, rest) = message.split_once(' ')?;
        if thread.is_empty() || !thread.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        message = rest.trim_start();
    }
    // The level, MySQL's number and subsystem, and MariaDB's words for one of them.
    let level = message.split(']').next().unwrap_or_default();
    let leveled = matches!(level, "[Note" | "[Warning" | "[ERROR" | "[System" | "[Error");
    let told = leveled || (old && message.starts_with("InnoDB: "));
    if !told {
        return None;
    }
    while let Some((_, rest)) = message.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        message = rest.trim_start();
    }
    let message = message.strip_prefix("InnoDB: ").unwrap_or(message);
    Some((stamp, message))
}

/// `2026-11-21` of `261121`.
fn day(word: &str) -> Option<String> {
    let digits = word.len() == 6 && word.bytes().all(|digit| digit.is_ascii_digit());
    let (year, rest) = word.split_at_checked(2).filter(|_| digits)?;
    let (month, day) = rest.split_at_checked(2)?;
    Some(format!("20{year}-{month}-{day}"))
}

#[cfg(test)]
mod tests;
