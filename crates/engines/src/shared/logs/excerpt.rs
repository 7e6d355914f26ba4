//! Finding the last start in a log of any size, in bounded memory.

use hugewise_host::source::FilePart;
use hugewise_model::{Bytes, Observed};
use memchr::memmem;

use super::{LogBytes, ServerLogFormat};

const CHUNK: u64 = 1 << 20;
/// How far back a start is looked for: a server may have written much since.
const MAX_BACK: u64 = 256 << 20;
/// What is read before a mark: the stamp and the first lines of a start.
const BEFORE: u64 = 64 << 10;
/// What is read from a mark on: all that a start writes.
const AFTER: u64 = 1 << 20;
/// Chunks overlap by more than the longest mark.
const OVERLAP: u64 = 256;
/// A log in UTF-16 is read whole, up to this length.
const MAX_WIDE: u64 = 16 << 20;
/// Marks that turned out to be other words, after which the search ends.
const MAX_TRIES: u32 = 256;

pub(crate) struct Excerpt {
    pub(crate) text: String,
    pub(crate) cut_after: bool,
}

impl Excerpt {
    /// Complete lines: the last one of a log may be half written.
    pub(crate) fn complete_lines(&self) -> impl Iterator<Item = &str> {
        let whole = if self.cut_after {
            self.text.rsplit_once('\n').map_or("", |(whole, _)| whole)
        } else {
            &self.text
        };
        whole.lines()
    }

    pub(crate) fn unterminated_line(&self) -> Option<&str> {
        let last = self.text.rsplit('\n').next();
        last.filter(|last| !last.is_empty() && !self.cut_after)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unsearched {
    #[error("no such file")]
    Absent,
    #[error("permission denied")]
    Denied,
    #[error("{0}")]
    Malformed(String),
    #[error("is empty")]
    Empty,
    #[error("is in UTF-16 and larger than {}: convert it to UTF-8 first", Bytes(MAX_WIDE))]
    Wide,
    #[error("is binary, not a log; a compressed log has to be uncompressed first")]
    Binary,
    #[error("was rotated while it was read: try again")]
    Rotated,
}

pub(crate) struct Search<'a> {
    log: &'a dyn LogBytes,
    total: u64,
    identity: Option<(u64, u64)>,
    before: u64,
    tries: u32,
    /// All of a UTF-16 log, in UTF-8.
    narrowed: Option<Vec<u8>>,
}

impl<'a> Search<'a> {
    pub(crate) fn open(log: &'a dyn LogBytes) -> Result<Self, Unsearched> {
        let tail = require_part(log.read_tail(None, 4096))?;
        if tail.total == 0 {
            return Err(Unsearched::Empty);
        }
        let mut search = Self {
            log,
            total: tail.total,
            identity: tail.identity,
            before: tail.total,
            tries: 0,
            narrowed: None,
        };
        let head = require_part(log.read_tail(Some(4096), 4096))?.bytes;
        if let Some(little) = detect_utf16(&head) {
            if tail.total > MAX_WIDE {
                return Err(Unsearched::Wide);
            }
            let whole = require_part(log.read_tail(None, MAX_WIDE))?.bytes;
            let text = convert_utf16(&whole, little);
            search.total = u64::try_from(text.len()).unwrap_or(u64::MAX);
            search.before = search.total;
            search.narrowed = Some(text);
        } else if is_binary(&head) || is_binary(&tail.bytes) {
            return Err(Unsearched::Binary);
        }
        Ok(search)
    }

    fn read_part(&self, before: u64, max: u64) -> Result<FilePart, Unsearched> {
        if let Some(text) = &self.narrowed {
            return Ok(FilePart::from_whole(text, Some(before), max));
        }
        let part = require_part(self.log.read_tail(Some(before), max))?;
        if part.identity != self.identity || part.total < self.total {
            return Err(Unsearched::Rotated);
        }
        Ok(part)
    }

    pub(crate) fn next_mark<'f>(
        &mut self,
        marks: &[(&[u8], &'f ServerLogFormat)],
    ) -> Result<Option<(Excerpt, &'f ServerLogFormat)>, Unsearched> {
        let finders: Vec<_> =
            marks.iter().map(|(mark, format)| (memmem::Finder::new(mark), *format)).collect();
        self.tries += 1;
        while self.before > 0 && self.total - self.before < MAX_BACK && self.tries <= MAX_TRIES {
            let chunk = self.read_part(self.before, CHUNK)?;
            let last = |finder: &memmem::Finder<'_>| finder.find_iter(&chunk.bytes).last();
            let found =
                finders.iter().filter_map(|(finder, format)| Some((last(finder)?, *format)));
            if let Some((at, format)) = found.max_by_key(|(at, _)| *at) {
                let at = chunk.offset.saturating_add(u64::try_from(at).unwrap_or(0));
                self.before = at;
                return Ok(Some((self.excerpt_around(at)?, format)));
            }
            self.before =
                if chunk.offset == 0 { 0 } else { (chunk.offset + OVERLAP).min(self.before - 1) };
        }
        Ok(None)
    }

    fn excerpt_around(&self, at: u64) -> Result<Excerpt, Unsearched> {
        let part = self.read_part(at.saturating_add(AFTER), AFTER.saturating_add(BEFORE))?;
        let end = part.offset.saturating_add(u64::try_from(part.bytes.len()).unwrap_or(0));
        let mut bytes = part.bytes.as_slice();
        if part.offset > 0 {
            let first = memchr::memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
            bytes = bytes.get(first..).unwrap_or_default();
        }
        let cut_after = end < part.total.min(self.total.max(end));
        Ok(Excerpt { text: text_of(bytes), cut_after })
    }

    pub(crate) fn head_and_tail(&self) -> Result<String, Unsearched> {
        let head = self.read_part(BEFORE.min(self.total), BEFORE)?.bytes;
        let tail = self.read_part(self.total, BEFORE)?.bytes;
        Ok(format!("{}\n{}", text_of(&head), text_of(&tail)))
    }

    pub(crate) fn why_not_found(&self) -> String {
        if self.before == 0 {
            return "no server start is in this log: it was rotated since, or it is cut off".into();
        }
        format!(
            "no server start is in the last {} of this log",
            Bytes((self.total - self.before).min(MAX_BACK))
        )
    }
}

fn require_part(part: Observed<FilePart>) -> Result<FilePart, Unsearched> {
    match part {
        Observed::Known(part) => Ok(part),
        Observed::Absent => Err(Unsearched::Absent),
        Observed::Denied => Err(Unsearched::Denied),
        Observed::Malformed(why) => Err(Unsearched::Malformed(why)),
    }
}

/// Text with lines that end in `\n`; bytes that are not UTF-8 are taken as Latin-1, line by line,
/// since servers quote clients whose encodings differ.
fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(line) => text.push_str(line),
            Err(_) => text.extend(line.iter().map(|byte| char::from(*byte))),
        }
    }
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text }
}

/// Whether a UTF-16 log is little-endian; none where it is no UTF-16.
fn detect_utf16(head: &[u8]) -> Option<bool> {
    match head {
        [0xff, 0xfe, ..] => return Some(true),
        [0xfe, 0xff, ..] => return Some(false),
        _ => {}
    }
    let zeros =
        |first: usize| head.iter().skip(first).step_by(2).filter(|byte| **byte == 0).count();
    let half = head.len() / 2;
    let (even, odd) = (zeros(0), zeros(1));
    let mostly =
        |count: usize, other: usize| half >= 8 && count * 10 >= half * 8 && other * 10 <= half;
    if mostly(odd, even) {
        Some(true)
    } else if mostly(even, odd) {
        Some(false)
    } else {
        None
    }
}

fn convert_utf16(bytes: &[u8], little: bool) -> Vec<u8> {
    let (pairs, _) = bytes.as_chunks::<2>();
    let units = pairs
        .iter()
        .map(|pair| if little { u16::from_le_bytes(*pair) } else { u16::from_be_bytes(*pair) });
    let text: String =
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    text.strip_prefix('\u{feff}').unwrap_or(&text).as_bytes().to_vec()
}

/// Whether bytes are no text in any encoding. A log that lost power may hold stretches of zeros.
fn is_binary(bytes: &[u8]) -> bool {
    let odd = |byte: &u8| matches!(*byte, 1..=8 | 14..=26 | 28..=31 | 127);
    let count = bytes.iter().filter(|byte| odd(byte)).count();
    count * 20 > bytes.len() || (!bytes.is_empty() && bytes.iter().all(|byte| *byte == 0))
}
