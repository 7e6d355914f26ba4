//! What servers' own logs say of their huge pages. How an engine writes stands in its folder; here is what all have in common.
//!
//! A log of any size is read from its end: the last start in it decides. A verdict is only what the
//! log says in full. Where its start, or the account of it, is cut off, the verdict is unknown with the reason.

mod excerpt;
#[cfg(test)]
mod tests;

use std::fmt;

use hugewise_host::Source;
use hugewise_host::source::Part;
use hugewise_model::{Bytes, Engine, Limit, Observed, PageCount, PageSize};

pub(crate) use excerpt::{Excerpt, Search, Unsearched};

/// A log as it can be read: backwards from its end.
pub trait LogBytes {
    /// Its path, or what else people call it.
    fn path(&self) -> &str;

    /// The last `max` bytes before the offset `before`, or before the end.
    fn part(&self, before: Option<u64>, max: u64) -> Observed<Part>;
}

/// A log that is a file of a host.
pub struct LogFile<'a> {
    source: &'a dyn Source,
    path: &'a str,
}

impl<'a> LogFile<'a> {
    /// Opens nothing yet.
    pub const fn new(source: &'a dyn Source, path: &'a str) -> Self {
        Self { source, path }
    }
}

impl LogBytes for LogFile<'_> {
    fn path(&self) -> &str {
        self.path
    }

    fn part(&self, before: Option<u64>, max: u64) -> Observed<Part> {
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

    fn part(&self, before: Option<u64>, max: u64) -> Observed<Part> {
        Observed::Known(Part::of(self.bytes, before, max))
    }
}

/// What a log says about the last start in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogReport {
    /// The log.
    pub path: String,
    /// Whose log it is.
    pub engine: Engine,
    /// The format that was recognised: `oracle page size table`, `postgresql csvlog`.
    pub format: &'static str,
    /// When that start was, as the log writes it.
    pub started_at: Option<String>,
    /// The huge page size that the log names.
    pub page_size: Option<PageSize>,
    /// The huge page size that its server asks for, which whoever knows the server fills in: a log may tell bytes only.
    pub asked_page_size: Option<PageSize>,
    /// Huge pages that the server wanted.
    pub expected: Option<PageCount>,
    /// Huge pages that it got.
    pub allocated: Option<PageCount>,
    /// How the start went.
    pub verdict: LogVerdict,
    /// What the verdict alone does not tell: why it is unknown, what a failure's errors mean. May be empty.
    pub reason: String,
    /// How many huge pages the start needed to be wholly on them.
    pub needed: Option<PageCount>,
    /// The same in bytes, where the log tells bytes and perhaps no page size.
    pub needed_bytes: Option<Bytes>,
    /// The soft memlock limit that the server saw.
    pub memlock: Observed<Limit>,
    /// Errors and warnings, as written.
    pub errors: Vec<String>,
    /// The log lines that this is based on.
    pub lines: Vec<String>,
}

impl LogReport {
    /// Pages of `page` with which the start would have been wholly on them: the log's own number
    /// where it speaks of that size, otherwise what its bytes come to.
    pub fn needed_of(&self, page: PageSize) -> Option<PageCount> {
        let own = self.needed.filter(|_| self.page_size == Some(page));
        own.or_else(|| self.needed_bytes.map(|bytes| page.pages_for(bytes)))
    }

    pub(crate) fn new(engine: Engine, format: &'static str) -> Self {
        Self {
            path: String::new(),
            engine,
            format,
            started_at: None,
            page_size: None,
            asked_page_size: None,
            expected: None,
            allocated: None,
            verdict: LogVerdict::Unknown,
            reason: String::new(),
            needed: None,
            needed_bytes: None,
            memlock: Observed::Absent,
            errors: Vec::new(),
            lines: Vec::new(),
        }
    }

    pub(crate) fn decide(&mut self, verdict: LogVerdict) {
        self.verdict = verdict;
        self.reason.clear();
    }

    pub(crate) fn unknown(&mut self, reason: impl Into<String>) {
        self.verdict = LogVerdict::Unknown;
        self.reason = reason.into();
    }

    /// Remembers a line as evidence; a log that repeats itself is not repeated.
    pub(crate) fn evidence(&mut self, line: &str) {
        keep(&mut self.lines, line);
    }

    pub(crate) fn error(&mut self, line: &str) {
        keep(&mut self.errors, line);
        keep(&mut self.lines, line);
    }
}

/// Lines that are kept of one start at most, and characters of a line.
const MAX_LINES: usize = 64;
const MAX_LINE: usize = 400;

fn keep(lines: &mut Vec<String>, line: &str) {
    let shown = |letter: char| if letter.is_control() && letter != '\t' { '\u{fffd}' } else { letter };
    let line: String = line.trim().chars().take(MAX_LINE).map(shown).collect();
    if lines.len() < MAX_LINES && !lines.contains(&line) {
        lines.push(line);
    }
}

/// How a start went, by the server's own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogVerdict {
    /// Everything that the server wanted on huge pages is on them.
    All,
    /// Something is not on huge pages; where a server logs failures only, the rest may or may not be.
    Partly,
    /// Nothing is on huge pages.
    None,
    /// The server did not start.
    Failed,
    /// The log does not say, or not in full.
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

/// How an engine writes its log; its reader may tell a sibling of the engine by itself.
pub(crate) struct Format {
    /// Words that stand where a start is, never as the line's other half only.
    pub(crate) marks: &'static [&'static str],
    /// Words that tell this engine's log where no start is in it.
    pub(crate) hints: &'static [&'static str],
    /// Reads the last start of an excerpt; nothing where the marks turn out to stand in other words.
    pub(crate) read: fn(&Excerpt) -> Option<LogReport>,
}

/// The whole number that follows some words; none where the text ends in it, as it may go on.
pub(crate) fn number_after(text: &str, words: &str) -> Option<u64> {
    let rest = text.get(text.find(words)? + words.len()..)?.trim_start();
    let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
    rest.get(..end)?.parse().ok()
}

/// An amount with its unit: `602 MB`, `128G`, `64K`, `2.5 GB`; a bare number is bytes.
pub(crate) fn amount(text: &str) -> Option<Bytes> {
    let text = text.trim_start();
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (whole, rest) = text.split_at_checked(end)?;
    let whole: u64 = whole.parse().ok()?;
    let (tenths, rest) = match rest.strip_prefix('.') {
        Some(decimals) => {
            let end = decimals.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(decimals.len());
            (decimals.get(..end.min(1))?.parse().unwrap_or(0), decimals.get(end..)?)
        }
        None => (0_u64, rest),
    };
    let shift = match rest.trim_start().chars().next().map(|unit| unit.to_ascii_uppercase()) {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        _ => 0,
    };
    let unit = 1_u64 << shift;
    Some(Bytes(whole.saturating_mul(unit).saturating_add(tenths.saturating_mul(unit) / 10)))
}
