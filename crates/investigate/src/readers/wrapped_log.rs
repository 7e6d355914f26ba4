//! Servers' logs as something around them wrote them down: container runtimes and their tools,
//! supervisors, collectors of logs, builds. What stands before each line is taken off; where it names
//! a sender, senders are told apart.

mod wrapping;

use std::collections::BTreeMap;

use self::wrapping::{Peeled, WrapperShape};
use super::archive_format::{ArchiveFile, ArchiveFormat, Promise};
use super::line_timestamp::LineTimestamp;
use super::lines;
use super::server_log::{ServerLogReader, detect_engine};
use crate::{FileRefused, Series};

/// Bytes of a line: PostgreSQL's rows end behind a whole statement.
const LONGEST_LINE: u64 = 64 << 10;
/// Lines that tell what stands before each, and whose log a sender's is.
const LOOKED_AT: usize = 200;
/// Bytes of a sender's lines until it is known whose they are.
const MOST_BUFFERED: usize = 64 << 10;
const MOST_SENDERS: usize = 64;

/// Logs of database servers with something before each line.
pub(super) static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "wrapped_log",
    called: "a server's log that something else wrote down",
    tools: &[],
    is_text: true,
    recognize: |text| Promise::likely_if(learn_shape(text).is_some()),
    read,
};

/// The time and the text of a line that a container runtime or a collector of logs wrote as JSON.
pub(super) fn unwrap_json_line(line: &str) -> Option<(Option<LineTimestamp>, String)> {
    let peeled = wrapping::peel_json(line)?;
    Some((peeled.stamp, peeled.message.into_owned()))
}

fn learn_shape(head: &[u8]) -> Option<WrapperShape> {
    let text = String::from_utf8_lossy(head);
    let mut counts: BTreeMap<WrapperShape, usize> = BTreeMap::new();
    for line in text.lines().take(LOOKED_AT) {
        if let Some(shape) = wrapping::find_shape(line) {
            *counts.entry(shape).or_default() += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|(_, times)| *times);
    most.map(|(shape, _)| shape).filter(|shape| !shape.is_empty())
}

fn read(file: ArchiveFile<'_>) -> Result<Vec<Series>, FileRefused> {
    let shape = learn_shape(file.head.trim_ascii_start()).ok_or_else(super::unknown_format)?;
    let mut senders: BTreeMap<String, SenderLog> = BTreeMap::new();
    let end = lines::for_each_line(file.stream, LONGEST_LINE, |line| {
        let Some(Peeled { sender, stamp, message }) = wrapping::peel_by_shape(line, &shape) else {
            return;
        };
        if senders.len() < MOST_SENDERS || senders.contains_key(&sender) {
            senders.entry(sender).or_default().push_line(file.source, stamp, &message);
        }
    });
    let mut refused = None;
    let mut all = Vec::new();
    for (sender, log) in senders {
        match log.into_series(file.source) {
            Some(Ok(mut series)) => {
                if !sender.is_empty() {
                    series.source = format!("{} ({sender})", file.source);
                }
                end.note_problem(&mut series);
                all.push(series);
            }
            Some(Err(why)) => refused = Some(why),
            None => {}
        }
    }
    if all.is_empty() { Err(refused.unwrap_or_else(super::unknown_format)) } else { Ok(all) }
}

/// One sender's lines: kept until it is known whose log they are.
#[derive(Default)]
struct SenderLog {
    kept: Vec<(Option<LineTimestamp>, String)>,
    bytes: usize,
    reader: Option<ServerLogReader>,
    /// Whether its lines turned out to be no known server's.
    unknown: bool,
}

impl SenderLog {
    fn push_line(&mut self, source: &str, stamp: Option<LineTimestamp>, line: &str) {
        if let Some(reader) = &mut self.reader {
            return reader.push_passed_line(stamp, line);
        }
        if self.unknown {
            return;
        }
        self.bytes += line.len();
        self.kept.push((stamp, line.to_owned()));
        if self.kept.len() >= LOOKED_AT || self.bytes >= MOST_BUFFERED {
            self.decide_engine(source);
        }
    }

    fn decide_engine(&mut self, source: &str) {
        let kept = std::mem::take(&mut self.kept);
        let text: String = kept.iter().fold(String::new(), |text, (_, line)| text + line + "\n");
        let Some(engine) = detect_engine(text.as_bytes()) else {
            self.unknown = true;
            return;
        };
        let mut reader = ServerLogReader::new(source, engine);
        kept.into_iter().for_each(|(stamp, line)| reader.push_passed_line(stamp, &line));
        self.reader = Some(reader);
    }

    fn into_series(mut self, source: &str) -> Option<Result<Series, FileRefused>> {
        if self.reader.is_none() && !self.unknown {
            self.decide_engine(source);
        }
        self.reader.map(ServerLogReader::into_series)
    }
}

#[cfg(test)]
mod tests;
