//! The error logs of MySQL and MariaDB.

use hugewise_engines::logs::{ServerMessageKind, find_message_meaning};

use super::run::ServerRun;
use super::{ServerLogReader, event_kind};
use crate::event::{LogEvent, LogEventKind};
use crate::readers::line_timestamp::LineTimestamp;
use crate::series::MarkKind;

/// Bytes of a time before the words of a crash.
const LONGEST_TIME: usize = 24;

/// Seconds after which InnoDB ends the server, if it still can.
const STANDS: u64 = 600;

/// How far a start is: what is refused while it goes on keeps the server from starting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StartPhase {
    /// The log begins later, or the server ended.
    #[default]
    Unknown,
    Starting,
    Up,
}

#[derive(Default)]
pub(super) struct MysqlStart {
    phase: StartPhase,
    /// The place of the first refusal among the log's events.
    refused_from: Option<usize>,
}

impl ServerLogReader {
    /// Up to 5.6 InnoDB writes lines without a time: of that of the line before.
    pub(super) fn push_mysql_line(&mut self, line: &str) {
        if let Some((stamp, message)) = parse_mysql_line(line) {
            self.record_stamp(&stamp);
            return self.push_mysql_message(message);
        }
        let own = line.strip_prefix("InnoDB: ").or_else(|| line.strip_prefix("InnoDB "));
        let waits = || Some(line).filter(|line| line.starts_with("--Thread "));
        if let Some(message) = own.or_else(|| find_crash(line)).or_else(waits) {
            return self.push_mysql_message(message);
        }
        let warns = |kind| kind == ServerMessageKind::WithoutHugePages;
        if find_message_meaning(self.engine, line).is_some_and(|(kind, _)| warns(kind)) {
            self.push_mysql_message(line);
        }
    }

    fn push_mysql_message(&mut self, message: &str) {
        if let Some(seconds) = parse_semaphore_wait(message).filter(|wait| *wait >= STANDS) {
            let what = format!("threads of InnoDB waited for each other for {seconds} s");
            return self.record_event(Some(LogEvent::new(LogEventKind::ServerFailed, what)));
        }
        let Some((kind, what)) = find_message_meaning(self.engine, message) else { return };
        // mysqld_safe starts a server again that was told to restart, too.
        let is_restart = self.run == ServerRun::Ended && message.starts_with("mysqld_safe ");
        self.follow_run(message);
        if is_restart && kind == ServerMessageKind::Failed {
            return;
        }
        let place = self.pending.len() + self.series.marks.len();
        match kind {
            ServerMessageKind::Starting => {
                if self.mysql.phase == StartPhase::Up {
                    self.mysql.refused_from = None;
                }
                self.mysql.phase = StartPhase::Starting;
            }
            ServerMessageKind::Started => {
                self.mysql = MysqlStart { phase: StartPhase::Up, refused_from: None };
            }
            ServerMessageKind::Ended => self.finish_mysql_start(),
            ServerMessageKind::MemoryRefused if self.mysql.refused_from.is_none() => {
                self.mysql.refused_from = Some(place);
            }
            _ => {}
        }
        self.record_event(event_kind(kind).map(|kind| LogEvent::new(kind, what)));
    }

    /// A start that ends before the server is up was kept from it by what was refused.
    pub(super) fn finish_mysql_start(&mut self) {
        let MysqlStart { phase, refused_from } = std::mem::take(&mut self.mysql);
        let Some(from) = refused_from.filter(|_| phase == StartPhase::Starting) else { return };
        let placed = self.series.marks.iter_mut().filter_map(|mark| match &mut mark.kind {
            MarkKind::Event(event) => Some(event),
            _ => None,
        });
        let pending = self.pending.iter_mut().map(|(_, event)| event);
        for event in placed.chain(pending).skip(from) {
            if event.kind == LogEventKind::MemoryRefused {
                event.kind = LogEventKind::ServerRefused;
                event.what += ", and the server did not start";
            }
        }
    }
}

/// Seconds of `A long semaphore wait: --Thread 139 has waited at log0meb.cc line 1783 for 7988 seconds the
/// semaphore:`.
fn parse_semaphore_wait(message: &str) -> Option<u64> {
    let (_, rest) = message.split_once(" has waited at ")?;
    let (_, rest) = rest.split_once(" for ")?;
    let (seconds, rest) = rest.split_once(" seconds")?;
    let whole = seconds.split('.').next()?;
    whole.parse().ok().filter(|_| rest.trim_start().starts_with("the semaphore"))
}

/// `mysqld got signal 6 ;` with the time that crashes have: `17:18:40 UTC - `, `261121 22:47:35 - `.
fn find_crash(line: &str) -> Option<&str> {
    let is_crash = |text: &str| {
        text.starts_with("mysqld got signal ") || text.starts_with("mariadbd got signal ")
    };
    let (time, message) = line.split_once(" - ").unwrap_or(("", line));
    let is_time = time.len() <= LONGEST_TIME
        && time.bytes().all(|byte| byte.is_ascii_digit() || b" :.-TUCZ".contains(&byte));
    Some(message).filter(|message| is_time && is_crash(message))
}

/// `2026-11-21 22:47:35 0 [Note] text` and `2026-11-21T22:47:35.123456Z 0 [System] [MY-010931]
/// [Server] text`, with a blank before an hour of one digit; before MySQL 5.6 and MariaDB 10.1, and
/// where MariaDB crashes, `261121 22:47:35 [Note] text`.
pub(super) fn parse_mysql_line(line: &str) -> Option<(LineTimestamp, &str)> {
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
    // MySQL 5.6 and MariaDB 10.0 write InnoDB's threads in hexadecimal, and no level.
    let mut without_level = old;
    let by_safe = message.starts_with("mysqld_safe ");
    if !old && !by_safe {
        let (thread, rest) = message.split_once(' ')?;
        if thread.is_empty() || !thread.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        without_level = thread.len() >= 8;
        message = rest.trim_start();
    }
    // The level, MySQL's number and subsystem, and MariaDB's words for one of them.
    let level = message.split(']').next().unwrap_or_default();
    let leveled = matches!(level, "[Note" | "[Warning" | "[ERROR" | "[System" | "[Error");
    let told = leveled || (without_level && message.starts_with("InnoDB: ")) || by_safe;
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
