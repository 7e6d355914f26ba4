//! Database servers' logs: when they started and on which pages, when they ran out of memory,
//! processes or connections, and when clients gave up.
//!
//! Texts are those of Oracle's alert log (11.2 to 23ai, as text and as `log.xml`), of PostgreSQL's
//! log (text, csvlog and jsonlog), of the error logs of MariaDB and MySQL, of Redis's and Valkey's
//! log, of MongoDB's, of QEMU's below libvirt, and of the JVM's unified log and its reports of fatal
//! errors.

mod jvm;
mod mongodb;
mod oracle;
mod oracle_start;
mod postgresql;
mod qemu;
mod redis;

use std::io::Read;

use hugewise_engines::EngineKind;
use hugewise_engines::log_files::read_log;
use hugewise_engines::logs::{LogText, LogVerdict, parse_json_message};
use hugewise_model::Engine;

use super::archive_format::{ArchiveFormat, Promise};
use super::line_timestamp::LineTimestamp;
use super::lines;
use crate::event::{LogEvent, LogEventKind};
use crate::series::{Mark, MarkKind, UnplacedTimes};
use crate::{FileRefused, Moment, Series, SourceFormat};

const LONGEST_LINE: u64 = 8 << 10;
/// The same for PostgreSQL, whose rows of csvlog end behind a whole statement.
const LONGEST_ROW: u64 = 1 << 20;
const MOST_EVENTS: usize = 20_000;
const LOOKED_AT: usize = 200;
const SOME_YEAR_MILLISECONDS: i64 = 366 * 86_400_000;
const HALF_A_YEAR: i64 = 180 * 86_400_000;

/// Logs of database servers.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "server_log",
    called: "a database server's log",
    tools: &[],
    is_text: true,
    recognize: |text| Promise::likely_if(detect_engine(text).is_some()),
    read: |file| match detect_engine(file.head.trim_ascii_start()) {
        Some(engine) => read(file.stream, file.source, engine).map(|series| vec![series]),
        None => Err(super::unknown_format()),
    },
};

fn detect_engine(text: &[u8]) -> Option<Engine> {
    let text = String::from_utf8_lossy(text);
    let mut oracles_stamps = 0;
    for line in text.lines().take(LOOKED_AT) {
        if postgresql::parse_line(line).is_some() {
            return Some(Engine::PostgreSql);
        }
        if line.starts_with(oracle::MESSAGE) {
            return Some(Engine::Oracle);
        }
        if mongodb::parse_mongodb_line(line).is_some() {
            return Some(Engine::MongoDb);
        }
        if qemu::parse_qemu_line(line).is_some() {
            return Some(Engine::Qemu);
        }
        let in_json = line.starts_with('{').then(|| parse_json_message(line)).flatten();
        let line = match &in_json {
            Some((time, message)) => {
                oracles_stamps += u32::from(time.is_some());
                message.trim()
            }
            None => line,
        };
        if parse_mysql_line(line).is_some() {
            let mariadb = text.contains("MariaDB") || text.contains("mariadbd");
            return Some(if mariadb { Engine::MariaDb } else { Engine::MySql });
        }
        if redis::parse_redis_line(line).is_some() {
            return Some(if text.contains("Valkey") { Engine::Valkey } else { Engine::Redis });
        }
        if jvm::is_jvm_log_line(line) {
            return Some(Engine::Jvm);
        }
        oracles_stamps += u32::from(LineTimestamp::parse(line).is_some());
        let marks = [
            "System cannot support SGA size of ",
            "is not a supported setting for database on Exadata",
            "Starting ORACLE instance",
            "advanced to log sequence",
            "Completed: ALTER DATABASE",
            "Large Pages Information",
            "WARNING: Heavy swapping ",
        ];
        if marks.iter().any(|mark| line.contains(mark))
            && (oracles_stamps > 0 || text.lines().any(|line| LineTimestamp::parse(line).is_some()))
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
pub fn read(stream: &mut dyn Read, source: &str, engine: Engine) -> Result<Series, FileRefused> {
    let mut reader = ServerLogReader {
        series: Series::new(source, SourceFormat::ServerLog(engine)),
        ..ServerLogReader::default()
    };
    let mut machine = jvm::JvmLogState::default();
    let longest = if engine == Engine::PostgreSql { LONGEST_ROW } else { LONGEST_LINE };
    let end = lines::for_each_line(stream, longest, |line| match engine {
        Engine::Oracle => reader.push_alert_log_line(line),
        Engine::PostgreSql => reader.push_postgresql_line(line),
        Engine::Redis | Engine::Valkey => reader.push_redis_line(line),
        Engine::Jvm => reader.push_jvm_line(&mut machine, line),
        Engine::MongoDb => reader.push_mongodb_line(line),
        Engine::Qemu => reader.push_qemu_line(line),
        _ => reader.push_mysql_line(line),
    });
    reader.finish_start();
    let ServerLogReader { mut series, left_out, .. } = reader;
    if series.span().is_none() {
        let dated = "; -Xlog:gc*:file=gc.log:time,uptime,level,tags writes it";
        return Err(FileRefused(format!(
            "none of its lines has a time{}",
            if engine == Engine::Jvm { dated } else { "" }
        )));
    }
    end.note_problem(&mut series);
    if left_out > 0 {
        series.add_problem(format!(
            "has more than {MOST_EVENTS} events; {left_out} that came later are left out"
        ));
    }
    Ok(series.finish())
}

/// What text without times says of a server's last start, as `hugewise verify --log` reads it; `None`
/// where it says nothing bad.
pub(super) fn read_untimed(text: &str, source: &str, began: Option<Moment>) -> Option<Series> {
    let crash = text
        .lines()
        .filter_map(postgresql::split_at_level)
        .find_map(|(_, message)| postgresql::parse_crash(message));
    if let Some(event) = crash {
        return Some(untimed_series(source, Engine::PostgreSql, event, began));
    }
    if let Some(event) = text.lines().find_map(jvm::parse_fatal_line) {
        return Some(untimed_series(source, Engine::Jvm, event, began));
    }
    if let Some(event) = text.lines().find_map(qemu::parse_daemon_event) {
        return Some(untimed_series(source, Engine::Qemu, event, began));
    }
    let log = LogText { path: source, bytes: text.as_bytes() };
    let report = read_log(&log, None).ok()?;
    let names = EngineKind::for_engine(report.engine).names;
    let name = names.iter().find(|(engine, _)| *engine == report.engine);
    let name = name.map_or("the server", |(_, name)| *name);
    let (kind, words) = match report.verdict {
        LogVerdict::Failed => (LogEventKind::ServerRefused, format!("{name} did not start")),
        LogVerdict::Died => (LogEventKind::ServerFailed, format!("{name} died")),
        LogVerdict::None | LogVerdict::Partly => {
            (LogEventKind::WithoutHugePages, format!("{name} did not get its huge pages"))
        }
        LogVerdict::All | LogVerdict::Unknown => return None,
    };
    let why = Some(report.reason.as_str()).filter(|reason| !reason.is_empty());
    let why = why.or_else(|| report.errors.first().map(String::as_str)).unwrap_or_default();
    let event = LogEvent::new(kind, format!("{words}: {why}"));
    Some(untimed_series(source, report.engine, event, began))
}

fn untimed_series(source: &str, engine: Engine, event: LogEvent, began: Option<Moment>) -> Series {
    let mut series = Series::new(source, SourceFormat::ServerLog(engine));
    let at = began.unwrap_or_default();
    series.extend_coverage(at);
    series.unplaced = began.is_none().then_some(UnplacedTimes::Untimed);
    series.marks.push(Mark { at, kind: MarkKind::Event(event) });
    series.finish()
}

pub(super) fn is_undated(line: &str) -> bool {
    postgresql::split_at_level(line).is_some_and(|(prefix, _)| prefix.len() < 64)
        && postgresql::parse_line(line).is_none()
}

/// The event in a server's line in the system log, of the service with this tag (`mariadbd[4711]`).
pub(super) fn parse_service_line(tag: &str, message: &str) -> Option<LogEvent> {
    match tag.split('[').next().unwrap_or_default() {
        "mariadbd" | "mysqld" => {
            return find_meaning(parse_mysql_line(message)?.1, MYSQL);
        }
        "postgres" | "postgresql" => {
            return parse_postgresql_message(postgresql::split_at_level(message)?.1);
        }
        "java" => return jvm::recognize_message(message),
        "libvirtd" | "virtqemud" => return qemu::parse_daemon_event(message),
        program if qemu::is_program(program) => return find_meaning(message, qemu::QEMU),
        _ => {}
    }
    // Patroni, containers and supervisors pass on what the server in them writes, time and all.
    if let Some((_, message)) = redis::parse_redis_line(message) {
        return redis::parse_redis_event(message);
    }
    if let Some((_, message)) = postgresql::parse_line(message) {
        return parse_postgresql_message(&message);
    }
    find_meaning(parse_mysql_line(message)?.1, MYSQL)
}

/// What a message of PostgreSQL means, which begins with its level.
fn parse_postgresql_message(message: &str) -> Option<LogEvent> {
    postgresql::parse_crash(message).or_else(|| find_meaning(message, POSTGRESQL))
}

fn find_meaning(message: &str, meanings: Meanings) -> Option<LogEvent> {
    let is_met = |pattern: &str| {
        let (begin, more) = pattern.split_once('*').unwrap_or((pattern, ""));
        message.starts_with(begin) && message.contains(more)
    };
    meanings.iter().find_map(|(kind, patterns)| {
        let (_, what) = patterns.iter().find(|(pattern, _)| is_met(pattern))?;
        Some(LogEvent::new(*kind, *what))
    })
}

#[derive(Default)]
struct ServerLogReader {
    series: Series,
    /// The last stamp, which holds for the lines behind it.
    at: Option<Moment>,
    left_out: usize,
    /// The start of an Oracle instance that goes on.
    start: Option<oracle_start::OracleStart>,
    /// Years since that of a log without years.
    years: i64,
    /// Whether lines are a message's text in Oracle's log.xml; `None` in its text log.
    in_text: Option<bool>,
    /// Whether the next line continues a row of PostgreSQL's csvlog.
    goes_on: bool,
}

/// What messages mean: how one begins with its level, `*` for anything, and how its meaning is said.
/// A client may put its own words into a message: its beginning has to tell.
type Meanings = &'static [(LogEventKind, &'static [(&'static str, &'static str)])];

const POSTGRESQL: Meanings = &[
    (
        LogEventKind::ServerStarted,
        &[("LOG:  database system is ready to accept connections", "PostgreSQL started")],
    ),
    // Only at log_min_messages = debug1 and below (PostgreSQL 9.4 and later).
    (
        LogEventKind::WithoutHugePages,
        &[(
            "DEBUG:  mmap(*) with MAP_HUGETLB failed, huge pages disabled",
            "PostgreSQL got no huge pages and started without them (huge_pages = try)",
        )],
    ),
    (
        LogEventKind::ServerRecovered,
        &[(
            "LOG:  database system was interrupted",
            "PostgreSQL had not been shut down before this start",
        )],
    ),
    (
        LogEventKind::ServerRefused,
        &[
            (
                "FATAL:  could not create shared memory segment",
                "PostgreSQL could not get its shared memory, and did not start",
            ),
            (
                "FATAL:  could not map anonymous shared memory",
                "PostgreSQL could not get its shared memory, and did not start",
            ),
            (
                "FATAL:  huge pages not supported",
                "PostgreSQL was told to use huge pages and could not",
            ),
        ],
    ),
    (
        LogEventKind::MemoryRefused,
        &[
            ("LOG:  could not fork new process*Cannot allocate memory", NO_FORK),
            // PostgreSQL 18.
            ("LOG:  could not fork \"*Cannot allocate memory", NO_FORK),
        ],
    ),
    (
        LogEventKind::ServerTrouble,
        &[
            (
                "LOG:  could not fork new process",
                "PostgreSQL could not start a process for a session",
            ),
            ("FATAL:  sorry, too many clients already", REFUSED_SESSION),
            ("FATAL:  remaining connection slots are reserved", REFUSED_SESSION),
            (
                "FATAL:  canceling authentication due to timeout",
                "a login took longer than authentication_timeout",
            ),
            (
                "ERROR:  could not resize shared memory segment",
                "a session of PostgreSQL was refused memory in /dev/shm",
            ),
            ("ERROR:  out of memory", "a session of PostgreSQL was refused memory"),
            ("FATAL:  out of memory", "a session of PostgreSQL was refused memory"),
            (
                "LOG:  checkpoints are occurring too frequently",
                "PostgreSQL's checkpoints came too often",
            ),
        ],
    ),
];

const NO_FORK: &str = "PostgreSQL was refused the memory for a session's process";
const REFUSED_SESSION: &str = "PostgreSQL refused a session: max_connections was reached";
const MARIADB_FELL_BACK: &str =
    "MariaDB got no huge pages for a part of its memory and went on without them";

const NO_BUFFER_POOL: &str = "InnoDB could not get memory for its buffer pool, and did not start";
const NO_HUGE_PAGES: &str = "InnoDB got no huge pages for a part of its memory";
const WITHOUT_HUGE_PAGES: &str = "InnoDB went on without huge pages";

const MYSQL: Meanings = &[
    (
        LogEventKind::ServerStarted,
        &[
            ("/*: ready for connections", "the server started"),
            ("mysqld: ready for connections", "the server started"),
            ("mariadbd: ready for connections", "the server started"),
        ],
    ),
    (
        LogEventKind::WithoutHugePages,
        &[
            // MariaDB 10.6 and later; then MySQL and older versions of MariaDB.
            ("mariadbd: Couldn't allocate *(Large/HugeTLB memory page size ", MARIADB_FELL_BACK),
            ("mysqld: Couldn't allocate *(Large/HugeTLB memory page size ", MARIADB_FELL_BACK),
            // MySQL 5.5 to 5.7, whose first two write no time; 8.0.
            ("HugeTLB: Warning: Failed to ", NO_HUGE_PAGES),
            ("HugeTLB: Warning: Using conventional memory pool", WITHOUT_HUGE_PAGES),
            ("Failed to allocate * bytes. errno ", NO_HUGE_PAGES),
            ("large_page_aligned_alloc mmap(* failed", NO_HUGE_PAGES),
            ("Warning: Failed to allocate * bytes from HugeTLB memory", NO_HUGE_PAGES),
            ("Warning: Using conventional memory pool", WITHOUT_HUGE_PAGES),
            ("Using conventional memory pool", WITHOUT_HUGE_PAGES),
        ],
    ),
    (
        LogEventKind::ServerRefused,
        &[
            ("Cannot allocate memory for the buffer pool", NO_BUFFER_POOL),
            ("Fatal error: cannot allocate *buffer pool", NO_BUFFER_POOL),
            ("mmap(* bytes) failed; errno 12", NO_BUFFER_POOL),
        ],
    ),
    (
        LogEventKind::ServerRecovered,
        &[("Starting crash recovery", "the server had not been shut down before this start")],
    ),
    (
        LogEventKind::ServerFailed,
        &[
            ("mysqld got signal ", "the server crashed"),
            ("mariadbd got signal ", "the server crashed"),
        ],
    ),
    (
        LogEventKind::ServerTrouble,
        &[
            ("Failed to allocate", "InnoDB was refused memory, or huge pages for it"),
            ("Too many connections", "a session was refused: max_connections was reached"),
            ("Can't create thread", "the server could not start a thread for a session"),
            ("Out of memory", "the server was refused memory"),
        ],
    ),
];

impl ServerLogReader {
    fn record_stamp(&mut self, stamp: &LineTimestamp) {
        let at = stamp.moment_on_clock(&mut self.series);
        self.series.extend_coverage(at);
        self.at = Some(at);
    }

    /// A statement's text is skipped: a client may have written anything into it.
    fn push_postgresql_line(&mut self, line: &str) {
        if self.goes_on {
            self.goes_on = !postgresql::goes_on(line);
            return;
        }
        let Some((stamp, message)) = postgresql::parse_line(line) else { return };
        self.goes_on = postgresql::is_row(line) && postgresql::goes_on(line);
        self.record_stamp(&stamp);
        self.record_event(parse_postgresql_message(&message));
    }

    /// Up to 5.6 InnoDB writes of huge pages and of refused memory without a time, and a server that
    /// crashes: of that of the line before.
    fn push_mysql_line(&mut self, line: &str) {
        if let Some((stamp, message)) = parse_mysql_line(line) {
            self.record_stamp(&stamp);
            return self.record_event(find_meaning(message, MYSQL));
        }
        let message = line.strip_prefix("InnoDB: ").or_else(|| line.strip_prefix("InnoDB "));
        let message = message.or_else(|| Some(line.split_once(" UTC - ")?.1));
        let event = find_meaning(message.unwrap_or(line), MYSQL);
        let known = [
            LogEventKind::WithoutHugePages,
            LogEventKind::ServerRefused,
            LogEventKind::ServerFailed,
        ];
        self.record_event(event.filter(|event| known.contains(&event.kind)));
    }

    fn push_redis_line(&mut self, line: &str) {
        let Some((mut stamp, message)) = redis::parse_redis_line(line) else { return };
        if !stamp.has_year {
            self.series.without_year = true;
            // The next year, where the months begin anew.
            let year = SOME_YEAR_MILLISECONDS.saturating_mul(self.years);
            stamp.at.at = Moment(stamp.at.at.0.saturating_add(year));
            if self.at.is_some_and(|last| last.0.saturating_sub(stamp.at.at.0) > HALF_A_YEAR) {
                self.years += 1;
                stamp.at.at = Moment(stamp.at.at.0.saturating_add(SOME_YEAR_MILLISECONDS));
            }
        }
        self.record_stamp(&stamp.at);
        self.record_event(redis::parse_redis_event(message));
    }

    fn push_mongodb_line(&mut self, line: &str) {
        let Some((stamp, message)) = mongodb::parse_mongodb_line(line) else { return };
        self.record_stamp(&stamp);
        self.record_event(mongodb::parse_mongodb_event(&message));
    }

    fn push_qemu_line(&mut self, line: &str) {
        let Some((stamp, message)) = qemu::parse_qemu_line(line) else { return };
        self.record_stamp(&stamp);
        self.record_event(find_meaning(message, qemu::QEMU));
    }

    fn push_jvm_line(&mut self, machine: &mut jvm::JvmLogState, line: &str) {
        let (stamp, event) = machine.push_line(line);
        if let Some(stamp) = stamp {
            self.record_stamp(&stamp);
        }
        self.record_event(event);
    }

    fn record_event(&mut self, event: Option<LogEvent>) {
        if let Some(event) = event {
            self.push_event(event);
        }
    }

    fn push_event(&mut self, event: LogEvent) {
        let Some(at) = self.at else { return };
        let mark = Mark { at, kind: MarkKind::Event(event) };
        // A message of several lines is one event.
        if self.series.marks.last() == Some(&mark) {
            return;
        }
        if self.series.marks.len() < MOST_EVENTS {
            self.series.marks.push(mark);
        } else {
            self.left_out += 1;
        }
    }
}

/// `2026-11-21 22:47:35 0 [Note] text` and `2026-11-21T22:47:35.123456Z 0 [System] [MY-010931]
/// [Server] text`, with a blank before an hour of one digit; before MySQL 5.6 and MariaDB 10.1, and
/// where MariaDB crashes, `261121 22:47:35 [Note] text`.
fn parse_mysql_line(line: &str) -> Option<(LineTimestamp, &str)> {
    let (first, rest) = line.split_once(' ')?;
    let (stamp, rest, old) = if first.contains('T') {
        (LineTimestamp::parse(first)?, rest, false)
    } else {
        let (time, rest) = rest.trim_start().split_once(' ')?;
        let time = if time.len() == 7 { format!("0{time}") } else { time.to_owned() };
        match expand_short_date(first) {
            Some(date) => (LineTimestamp::parse(&format!("{date} {time}"))?, rest, true),
            None => (LineTimestamp::parse(&format!("{first} {time}"))?, rest, false),
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
    let told = leveled
        || (old && (message.starts_with("InnoDB: ") || message.starts_with("mysqld_safe ")));
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
fn expand_short_date(word: &str) -> Option<String> {
    let digits = word.len() == 6 && word.bytes().all(|digit| digit.is_ascii_digit());
    let (year, rest) = word.split_at_checked(2).filter(|_| digits)?;
    let (month, day) = rest.split_at_checked(2)?;
    Some(format!("20{year}-{month}-{day}"))
}

#[cfg(test)]
mod tests;
