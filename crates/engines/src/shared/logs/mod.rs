//! What servers' own logs say of their huge pages; each engine's folder has its format.
//!
//! A log of any size is read from its end, as the last start in it decides. The verdict is only
//! what the log says in full: where the start is cut off it is unknown, with the reason.

mod excerpt;
mod meanings;
#[cfg(test)]
mod tests;

use std::fmt;

use hugewise_host::Source;
use hugewise_host::source::FilePart;
use hugewise_model::{Bytes, Engine, Limit, Observed, PageCount, PageSize};

use super::options::unit_shift;
pub(crate) use excerpt::{Excerpt, Search, Unsearched};
pub(crate) use meanings::tells_refused_start;
pub use meanings::{MessageMeanings, ServerMessageKind, find_message_meaning};

/// A log as it can be read: backwards from its end.
pub trait LogBytes {
    /// Its path, or what else people call it.
    fn path(&self) -> &str;

    /// The last `max` bytes before the offset `before`, or before the end.
    fn read_tail(&self, before: Option<u64>, max: u64) -> Observed<FilePart>;
}

/// A log that is a file of a host.
pub struct LogFile<'a> {
    source: &'a dyn Source,
    path: &'a str,
}

impl<'a> LogFile<'a> {
    /// A log to be read later.
    pub const fn new(source: &'a dyn Source, path: &'a str) -> Self {
        Self { source, path }
    }
}

impl LogBytes for LogFile<'_> {
    fn path(&self) -> &str {
        self.path
    }

    fn read_tail(&self, before: Option<u64>, max: u64) -> Observed<FilePart> {
        self.source.read_part(self.path, before, max)
    }
}

/// A log in memory.
pub struct LogText<'a> {
    /// What people call it.
    pub path: &'a str,
    /// All of it.
    pub bytes: &'a [u8],
}

impl LogBytes for LogText<'_> {
    fn path(&self) -> &str {
        self.path
    }

    fn read_tail(&self, before: Option<u64>, max: u64) -> Observed<FilePart> {
        Observed::Known(FilePart::from_whole(self.bytes, before, max))
    }
}

/// What a log says about the last start in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// The log.
    pub path: String,
    /// Whose log it is.
    pub engine: Engine,
    /// The format that was recognised: `oracle page size table`, `postgresql csvlog`.
    pub format: &'static str,
    /// When the start was, as the log writes it.
    pub started_at: Option<String>,
    /// The huge page size that the log names.
    pub page_size: Option<PageSize>,
    /// The huge page size that its server asks for: a log may tell only bytes.
    pub asked_page_size: Option<PageSize>,
    /// Huge pages that the server wanted.
    pub expected: Option<PageCount>,
    /// Huge pages that it got.
    pub allocated: Option<PageCount>,
    /// How the start went.
    pub verdict: LogVerdict,
    /// Why the verdict is unknown, what a failure's errors mean. May be empty.
    pub reason: String,
    /// How many huge pages the start needed to be wholly on them.
    pub needed: Option<PageCount>,
    /// The same in bytes, where the log tells bytes and perhaps no page size.
    pub needed_bytes: Option<Bytes>,
    /// The soft memlock limit that the server saw.
    pub memlock: Observed<Limit>,
    /// Whether nothing in it says that huge pages were asked for, though it would.
    pub is_unasked: bool,
    /// Errors and warnings, as written.
    pub errors: Vec<String>,
    /// The log lines that this is based on.
    pub lines: Vec<String>,
}

impl LogReport {
    /// Pages of `page` for a start wholly on them: the log's number, or what its bytes come to.
    pub fn needed_of(&self, page: PageSize) -> Option<PageCount> {
        let own = self.needed.filter(|_| self.page_size == Some(page));
        own.or_else(|| self.needed_bytes.map(|bytes| page.pages_for(bytes)))
    }

    pub(crate) fn new(engine: Engine, format: &'static str) -> Self {
        Self { engine, format, ..Self::default() }
    }

    pub(crate) fn set_verdict(&mut self, verdict: LogVerdict) {
        self.verdict = verdict;
        self.reason.clear();
    }

    pub(crate) fn set_unknown(&mut self, reason: impl Into<String>) {
        self.verdict = LogVerdict::Unknown;
        self.reason = reason.into();
    }

    pub(crate) fn add_evidence(&mut self, line: &str) {
        push_unique_line(&mut self.lines, line);
    }

    pub(crate) fn add_error(&mut self, line: &str) {
        push_unique_line(&mut self.errors, line);
        push_unique_line(&mut self.lines, line);
    }
}

/// Lines that are kept of one start at most, and characters of a line.
const MAX_LINES: usize = 64;
const MAX_LINE: usize = 400;

fn push_unique_line(lines: &mut Vec<String>, line: &str) {
    let shown =
        |letter: char| if letter.is_control() && letter != '\t' { '\u{fffd}' } else { letter };
    let line: String = line.trim().chars().take(MAX_LINE).map(shown).collect();
    if lines.len() < MAX_LINES && !lines.contains(&line) {
        lines.push(line);
    }
}

/// How a start went, by the server's own word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogVerdict {
    /// Everything that the server wanted on huge pages is on them.
    All,
    /// Something is not on huge pages. Where a server logs only failures, the rest may not be.
    Partly,
    /// Nothing is on huge pages.
    None,
    /// The server did not start.
    Failed,
    /// The server started, and died of its huge pages.
    Died,
    /// The log does not say, or not in full.
    #[default]
    Unknown,
}

impl LogVerdict {
    /// Name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Partly => "partly",
            Self::None => "none",
            Self::Failed => "failed",
            Self::Died => "died",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for LogVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a log has no report at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct LogError {
    /// The log.
    pub path: String,
    /// What is wrong, and what to do.
    pub what: String,
}

/// How an engine writes its log; the reader may recognise a sibling of the engine.
pub(crate) struct ServerLogFormat {
    pub(crate) marks: &'static [&'static str],
    pub(crate) hints: &'static [&'static str],
    /// Reads the last start of an excerpt; nothing where the marks stand in other words.
    pub(crate) read: fn(&Excerpt) -> Option<LogReport>,
    /// Reads text without any start: what the server's own tools print, as people paste it.
    pub(crate) read_paste: fn(&str) -> Option<LogReport>,
}

/// A time and a message of a log of one JSON object a line, by the names that Oracle's view of the
/// alert log, its exporter and the common shippers of logs give them.
pub fn parse_json_message(line: &str) -> Option<(Option<String>, String)> {
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    let first = |names: &[&str]| {
        names.iter().find_map(|name| members.get(*name)?.as_str().map(str::to_owned))
    };
    let message = first(&["message", "MESSAGE_TEXT", "message_text", "MESSAGE", "msg", "log"])?;
    Some((first(&["timestamp", "ORIGINATING_TIMESTAMP", "originating_timestamp", "time"]), message))
}

/// The whole number that follows some words; none where the text ends in it, as it may go on.
pub(crate) fn number_after(text: &str, words: &str) -> Option<u64> {
    let rest = text.get(text.find(words)? + words.len()..)?.trim_start();
    let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
    rest.get(..end)?.parse().ok()
}

/// An amount with its unit: `602 MB`, `128G`, `64K`, `2.5 GB`; a bare number is bytes.
pub(crate) fn parse_amount(text: &str) -> Option<Bytes> {
    let text = text.trim_start();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at_checked(end)?;
    let whole: u64 = whole.parse().ok()?;
    let (tenths, rest) = match rest.strip_prefix('.') {
        Some(decimals) => {
            let end =
                decimals.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(decimals.len());
            (decimals.get(..end.min(1))?.parse().unwrap_or(0), decimals.get(end..)?)
        }
        None => (0_u64, rest),
    };
    let shift = rest.trim_start().chars().next().and_then(unit_shift).unwrap_or(0);
    let unit = 1_u64 << shift;
    Some(Bytes(whole.saturating_mul(unit).saturating_add(tenths.saturating_mul(unit) / 10)))
}
