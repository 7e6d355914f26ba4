//! Database servers' logs: when they started and on which pages, when they ran out of memory,
//! processes or connections, and when clients gave up.
//!
//! Texts are those of Oracle's alert log (11.2 to 23ai, as text and as `log.xml`), of PostgreSQL's
//! log (text, csvlog and jsonlog), of the error logs of MariaDB and MySQL, of Redis's and Valkey's
//! log, of MongoDB's, of QEMU's below libvirt, of the JVM's unified log and its reports of fatal
//! errors, and of servers on a JVM. What a message means is in the table of the engine's own folder.

mod java_servers;
mod jvm;
mod mongodb;
mod mysql;
mod oracle;
mod oracle_start;
mod oracle_trace;
mod postgresql;
mod qemu;
mod redis;
mod run;
mod untimed;

use std::io::Read;

use hugewise_engines::logs::{ServerMessageKind, find_message_meaning, parse_json_message};
use hugewise_model::Engine;

use super::archive_format::{ArchiveFormat, Promise};
use super::line_timestamp::LineTimestamp;
use super::lines;
use crate::event::{LogEvent, LogEventKind};
use crate::series::{Mark, MarkKind, UnplacedTimes};
use crate::{FileRefused, Moment, Series, SourceFormat};
pub(super) use untimed::{is_undated, read_untimed};

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
        Some(engine) => {
            let reader = ServerLogReader::new(file.source, engine);
            let reader = ServerLogReader { began: file.began, ..reader };
            let (head, source) = (file.head, file.source);
            let mut series = read_lines(file.stream, reader)?;
            if series.unplaced.is_some() {
                add_untold_pages(&mut series, head, source);
            }
            Ok(vec![series])
        }
        None => Err(super::unknown_format()),
    },
};

pub(super) fn detect_engine(text: &[u8]) -> Option<Engine> {
    let text = String::from_utf8_lossy(text);
    let mut dated = false;
    for line in text.lines().take(LOOKED_AT) {
        if let Some(engine) = detect_line_engine(line) {
            let has = |word: &str| text.contains(word);
            return Some(match engine {
                Engine::MySql if has("MariaDB") || has("mariadbd") => Engine::MariaDb,
                Engine::Redis if has("Valkey") => Engine::Valkey,
                engine => engine,
            });
        }
        let in_json = line.starts_with('{').then(|| parse_json_message(line)).flatten();
        let line = match &in_json {
            Some((time, message)) => {
                dated |= time.is_some();
                message.trim()
            }
            None => line,
        };
        dated |= LineTimestamp::parse(line).is_some();
        if oracle::is_alert_log_line(line)
            && (dated || text.lines().any(|line| LineTimestamp::parse(line).is_some()))
        {
            return Some(Engine::Oracle);
        }
    }
    None
}

/// Whose log a line is of, if it tells that by itself.
pub(super) fn detect_line_engine(line: &str) -> Option<Engine> {
    if postgresql::parse_line(line).is_some() {
        Some(Engine::PostgreSql)
    } else if line.starts_with(oracle::MESSAGE) {
        Some(Engine::Oracle)
    } else if mongodb::parse_mongodb_line(line).is_some() {
        Some(Engine::MongoDb)
    } else if qemu::parse_qemu_line(line).is_some() {
        Some(Engine::Qemu)
    } else if mysql::parse_mysql_line(line).is_some() {
        Some(Engine::MySql)
    } else if redis::parse_redis_line(line).is_some() {
        Some(Engine::Redis)
    } else if java_servers::parse_java_line(line).is_some() || jvm::is_jvm_log_line(line) {
        Some(Engine::Jvm)
    } else {
        None
    }
}

/// Reads such a log.
///
/// # Errors
/// No line of it has a time, or it cannot be read.
pub fn read(stream: &mut dyn Read, source: &str, engine: Engine) -> Result<Series, FileRefused> {
    read_lines(stream, ServerLogReader::new(source, engine))
}

/// Adds what the beginning of a log by uptime says of huge pages in several lines together.
fn add_untold_pages(series: &mut Series, head: &[u8], source: &str) {
    let is_told = |series: &Series| {
        series.events().any(|(_, event)| event.kind == LogEventKind::WithoutHugePages)
    };
    let text = String::from_utf8_lossy(head);
    let told = read_untimed(&text, source, None).filter(is_told);
    if let Some(told) = told.filter(|_| !is_told(series)) {
        series.marks.splice(0..0, told.marks);
    }
}

fn read_lines(stream: &mut dyn Read, mut reader: ServerLogReader) -> Result<Series, FileRefused> {
    let is_long = reader.engine == Engine::PostgreSql;
    let longest = if is_long { LONGEST_ROW } else { LONGEST_LINE };
    let end = lines::for_each_line(stream, longest, |line| reader.push_line(line));
    let mut series = reader.into_series()?;
    end.note_problem(&mut series);
    Ok(series)
}

/// The event in a server's line in the system log, of the service with this tag (`mariadbd[4711]`).
pub(super) fn parse_service_line(tag: &str, message: &str) -> Option<LogEvent> {
    match tag.split('[').next().unwrap_or_default() {
        "mariadbd" | "mysqld" => {
            return interpret_message(Engine::MySql, mysql::parse_mysql_line(message)?.1);
        }
        "mysqld_safe" => {
            return interpret_message(Engine::MySql, &format!("mysqld_safe {message}"));
        }
        "postgres" | "postgresql" => {
            return parse_postgresql_message(postgresql::split_at_level(message)?.1);
        }
        "java" => return jvm::recognize_message(message),
        "libvirtd" | "virtqemud" => return qemu::parse_daemon_event(message),
        program if qemu::is_program(program) => return interpret_message(Engine::Qemu, message),
        _ => {}
    }
    // Patroni, containers and supervisors pass on what the server in them writes, time and all.
    if let Some((_, message)) = redis::parse_redis_line(message) {
        return redis::parse_redis_event(message);
    }
    if let Some((_, message)) = postgresql::parse_line(message) {
        return parse_postgresql_message(&message);
    }
    if let Some((_, message)) = mongodb::parse_mongodb_line(message) {
        return mongodb::parse_mongodb_event(&message);
    }
    interpret_message(Engine::MySql, mysql::parse_mysql_line(message)?.1)
}

/// The time, with its year, that a server wrote into a line which something else passes on.
pub(super) fn parse_own_stamp(message: &str) -> Option<LineTimestamp> {
    if let Some((stamp, _)) = redis::parse_redis_line(message) {
        return stamp.has_year.then_some(stamp.at);
    }
    if let Some((stamp, _)) = mongodb::parse_mongodb_line(message) {
        return stamp.has_year.then_some(stamp.at);
    }
    postgresql::parse_line(message)
        .map(|(stamp, _)| stamp)
        .or_else(|| mysql::parse_mysql_line(message).map(|(stamp, _)| stamp))
}

/// What a message of PostgreSQL means, which begins with its level.
fn parse_postgresql_message(message: &str) -> Option<LogEvent> {
    postgresql::parse_crash(message)
        .or_else(|| postgresql::parse_panic(message))
        .or_else(|| postgresql::parse_checkpoint(message))
        .or_else(|| interpret_message(Engine::PostgreSql, message))
}

/// The event of a message, by the table that the engine's own folder has.
fn interpret_message(engine: Engine, message: &str) -> Option<LogEvent> {
    let (kind, what) = find_message_meaning(engine, message)?;
    Some(LogEvent::new(event_kind(kind)?, what))
}

/// `None` for what is no event by itself.
const fn event_kind(kind: ServerMessageKind) -> Option<LogEventKind> {
    Some(match kind {
        ServerMessageKind::Starting | ServerMessageKind::Ended => return None,
        ServerMessageKind::Started => LogEventKind::ServerStarted,
        ServerMessageKind::Work => LogEventKind::ServerWork,
        ServerMessageKind::WithoutHugePages => LogEventKind::WithoutHugePages,
        ServerMessageKind::Refused => LogEventKind::ServerRefused,
        ServerMessageKind::Recovered => LogEventKind::ServerRecovered,
        ServerMessageKind::Failed => LogEventKind::ServerFailed,
        ServerMessageKind::MemoryRefused => LogEventKind::MemoryRefused,
        ServerMessageKind::DiskWait => LogEventKind::DiskWait,
        ServerMessageKind::HostSwaps => LogEventKind::HostSwapped,
        ServerMessageKind::Trouble => LogEventKind::ServerTrouble,
    })
}

/// When a line was written; without a year it is of 2000, which has every day.
struct LogStamp {
    at: LineTimestamp,
    has_year: bool,
}

/// The year of a stamp without one.
const SOME_YEAR: &str = "2000";
/// Events before the first stamp.
const MOST_PENDING: usize = 1000;

/// Reads one server's lines, with their own times or those that something around them wrote.
#[derive(Default)]
pub(super) struct ServerLogReader {
    engine: Engine,
    series: Series,
    /// The last stamp, which holds for the lines behind it.
    at: Option<Moment>,
    /// The time of the line, by whoever passed it on: it counts where the server writes none.
    passed_on: Option<LineTimestamp>,
    first_passed_on: Option<LineTimestamp>,
    /// What came before the first stamp, with the time of whoever passed it on.
    pending: Vec<(Option<LineTimestamp>, LogEvent)>,
    left_out: usize,
    /// The start of an Oracle instance that goes on.
    start: Option<oracle_start::OracleStart>,
    mysql: mysql::MysqlStart,
    run: run::ServerRun,
    /// When a log began that has a JVM's uptime alone, as a person says.
    began: Option<Moment>,
    by_uptime: bool,
    machine: jvm::JvmLogState,
    /// Years since that of a log without years.
    years: i64,
    /// Whether lines are a message's text in Oracle's log.xml; `None` in its text log.
    in_text: Option<bool>,
    /// Whether the next line continues a row of PostgreSQL's csvlog.
    goes_on: bool,
}

impl ServerLogReader {
    pub(super) fn new(source: &str, engine: Engine) -> Self {
        let series = Series::new(source, SourceFormat::ServerLog(engine));
        Self { engine, series, ..Self::default() }
    }

    /// A line behind something else's own time.
    pub(super) fn push_passed_line(&mut self, stamp: Option<LineTimestamp>, line: &str) {
        if self.first_passed_on.is_none() {
            self.first_passed_on.clone_from(&stamp);
        }
        self.passed_on = stamp.or(self.passed_on.take());
        self.push_line(line);
    }

    pub(super) fn push_line(&mut self, line: &str) {
        match self.engine {
            Engine::Oracle => self.push_alert_log_line(line),
            Engine::PostgreSql => self.push_postgresql_line(line),
            Engine::Redis | Engine::Valkey => self.push_redis_line(line),
            Engine::Jvm => self.push_jvm_line(line),
            Engine::MongoDb => self.push_mongodb_line(line),
            Engine::Qemu => self.push_qemu_line(line),
            _ => self.push_mysql_line(line),
        }
    }

    pub(super) fn into_series(mut self) -> Result<Series, FileRefused> {
        self.finish_start();
        self.finish_mysql_start();
        if self.engine == Engine::Jvm
            && let Some(event) = self.machine.take_fatal_report()
        {
            self.push_event(event);
        }
        if self.at.is_none() {
            self.place_by_passed_times();
        }
        let Self { mut series, left_out, .. } = self;
        if self.by_uptime && self.began.is_none() {
            series.unplaced = Some(UnplacedTimes::Untimed);
            series.add_problem(
                "has times since its JVM's start alone: --from says when that was, and \
                 -Xlog:gc*:file=gc.log:time,uptime,level,tags writes both",
            );
        }
        if series.span().is_none() {
            let dated = "; -Xlog:gc*:file=gc.log:time,uptime,level,tags writes it";
            return Err(FileRefused(format!(
                "none of its lines has a time{}",
                if self.engine == Engine::Jvm { dated } else { "" }
            )));
        }
        if left_out > 0 {
            series.add_problem(format!(
                "has more than {MOST_EVENTS} events; {left_out} that came later are left out"
            ));
        }
        Ok(series.finish())
    }

    /// Where the server wrote no time at all.
    fn place_by_passed_times(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let (first, last) = (self.first_passed_on.take(), self.passed_on.take());
        if let Some(first) = first {
            self.record_stamp(&first);
        }
        for (stamp, event) in pending {
            if let Some(stamp) = stamp {
                self.record_stamp(&stamp);
                self.push_event(event);
            }
        }
        if let Some(last) = last {
            self.record_stamp(&last);
        }
    }

    fn record_stamp(&mut self, stamp: &LineTimestamp) {
        let at = stamp.moment_on_clock(&mut self.series);
        self.series.extend_coverage(at);
        if self.at.replace(at).is_none() {
            for (_, event) in std::mem::take(&mut self.pending) {
                self.push_event(event);
            }
        }
    }

    /// The next year, where the months of a log without years begin anew.
    fn record_log_stamp(&mut self, mut stamp: LogStamp) {
        if !stamp.has_year {
            self.series.without_year = true;
            let year = SOME_YEAR_MILLISECONDS.saturating_mul(self.years);
            stamp.at.at = Moment(stamp.at.at.0.saturating_add(year));
            if self.at.is_some_and(|last| last.0.saturating_sub(stamp.at.at.0) > HALF_A_YEAR) {
                self.years += 1;
                stamp.at.at = Moment(stamp.at.at.0.saturating_add(SOME_YEAR_MILLISECONDS));
            }
        }
        self.record_stamp(&stamp.at);
    }

    /// A statement's text is skipped: a client may have written anything into it.
    fn push_postgresql_line(&mut self, line: &str) {
        if self.goes_on {
            self.goes_on = !postgresql::goes_on(line);
            return;
        }
        // What a tab begins is of the line before, as the server writes a statement of several.
        if line.starts_with('\t') && self.at.is_some() {
            return;
        }
        if let Some((stamp, message)) = postgresql::parse_line(line) {
            self.goes_on = postgresql::is_row(line) && postgresql::goes_on(line);
            self.record_stamp(&stamp);
            self.follow_run(&message);
            // Why, the line before says, unless it is missing.
            let is_consequence = message.starts_with(postgresql::ENDS_SESSIONS)
                && self.series.marks.last().is_some_and(|mark| {
                    matches!(&mark.kind, MarkKind::Event(event)
                        if event.kind == LogEventKind::ServerFailed && Some(mark.at) == self.at)
                });
            return self
                .record_event(parse_postgresql_message(&message).filter(|_| !is_consequence));
        }
        // Without a prefix, behind the time of whoever passed it on.
        if self.passed_on.is_some()
            && let Some(("", message)) = postgresql::split_at_level(line)
        {
            self.record_event(parse_postgresql_message(message));
        }
    }

    fn push_redis_line(&mut self, line: &str) {
        let Some((stamp, message)) = redis::parse_redis_line(line) else { return };
        let is_new = stamp.has_year;
        self.record_log_stamp(stamp);
        // 3.2 and before write no year, and the oldest no word of an end.
        if is_new {
            self.follow_run(message);
        }
        self.record_event(redis::parse_redis_event(message));
    }

    fn push_mongodb_line(&mut self, line: &str) {
        let Some((stamp, message)) = mongodb::parse_mongodb_line(line) else { return };
        self.record_log_stamp(stamp);
        self.follow_run(message.split_once(' ').map_or("", |(_, text)| text));
        self.record_event(mongodb::parse_mongodb_event(&message));
    }

    fn push_qemu_line(&mut self, line: &str) {
        let Some((stamp, message)) = qemu::parse_qemu_line(line) else {
            // QEMU may write no time (`-msg timestamp=off`).
            return self.record_event(qemu::parse_untimed_line(line));
        };
        self.record_stamp(&stamp);
        self.record_event(interpret_message(Engine::Qemu, message));
    }

    fn push_jvm_line(&mut self, line: &str) {
        let (stamp, event) = match java_servers::parse_java_line(line) {
            Some((stamp, event)) => (Some(stamp), event),
            None => self.machine.push_line(line),
        };
        if let Some(stamp) = stamp {
            self.record_stamp(&stamp);
        } else if (self.at.is_none() || self.by_uptime)
            && self.passed_on.is_none()
            && let Some(uptime) = jvm::parse_uptime(line)
        {
            self.by_uptime = true;
            let began = self.began.unwrap_or_default();
            let at = Moment(began.0.saturating_add(uptime));
            self.record_stamp(&LineTimestamp::at_wall_clock(at));
        }
        self.record_event(event);
    }

    fn record_event(&mut self, event: Option<LogEvent>) {
        if let Some(event) = event {
            if event.kind == LogEventKind::ServerFailed {
                self.run = run::ServerRun::Unknown;
            }
            self.push_event(event);
        }
    }

    fn push_event(&mut self, event: LogEvent) {
        let Some(at) = self.at else {
            if self.pending.len() < MOST_PENDING {
                self.pending.push((self.passed_on.clone(), event));
            }
            return;
        };
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

#[cfg(test)]
mod tests;
