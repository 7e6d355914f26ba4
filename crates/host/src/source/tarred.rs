//! Tars that somebody else made: nothing in them leads out, and what they make of little is bounded.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

use crate::compressed::MAX_UNPACKED;

/// Entries beyond this are no host; nor are more files and folders, where one entry's name makes many folders.
pub(super) const MAX_ENTRIES: u64 = 200_000;
/// Memory that the files may take in all.
pub(super) const MAX_KEPT: u64 = 256 << 20;
/// Longest path, as in the kernel (`PATH_MAX`).
const LONGEST_PATH: usize = 4096;
/// Folders in folders: the deepest of /sys are at about 20.
const DEEPEST: usize = 128;
/// How much of what nobody reads is passed over at a time.
const PASSED_AT_ONCE: usize = 32 << 10;
/// What may stand between the contents of two entries: headers, and long names in GNU's and pax's way.
pub(super) const LONGEST_HEADERS: u64 = 1 << 20;

/// Whether a file begins as a tar does: with a header whose sum is right.
pub fn begins(head: &[u8]) -> bool {
    let Some(block) = head.get(..512) else { return false };
    if block.first() == Some(&0) {
        return false;
    }
    let (Some(before), Some(sum), Some(after)) = (block.get(..148), block.get(148..156), block.get(156..)) else {
        return false;
    };
    let text = String::from_utf8_lossy(sum);
    let said = u32::from_str_radix(text.trim_matches(['\0', ' ']), 8);
    let counted: u32 = before.iter().chain(after).map(|byte| u32::from(*byte)).sum::<u32>() + 8 * u32::from(b' ');
    said == Ok(counted)
}

/// A tar that was gone through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tarred {
    /// Entries of all kinds.
    pub entries: u64,
    /// Where it ends too early, how.
    pub torn: Option<String>,
}

/// What is said of an archive that ends before its end.
pub(super) fn ends_after(count: u64, error: &io::Error) -> String {
    format!("truncated after {count} entries: {}", in_words(error))
}

/// What is said of an error of the tar's reader: its own words about a header hold what stands in its place, and that
/// can be anybody's secret.
pub(super) fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::Other => "what follows is not a tar header".into(),
        _ => error.to_string(),
    }
}

/// The same of an archive's very first bytes.
pub(super) fn at_its_start(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::Other => "it does not begin with a tar header".into(),
        _ => error.to_string(),
    }
}

/// Why a tar is not read on: nothing in it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// It is none, or its stream fails; in words.
    #[error("{0}")]
    Unreadable(String),
    /// What it begins with is no entry.
    #[error("not a tar archive: {0}")]
    NoTar(String),
    /// More entries than a host has.
    #[error("more than {MAX_ENTRIES} entries")]
    Entries,
    /// More files and folders than that, as one entry's name makes many folders.
    #[error("more than {MAX_ENTRIES} files and folders")]
    Files,
    /// More in them than fits in memory.
    #[error("holds more than {} MiB of files", MAX_KEPT >> 20)]
    Bytes,
    /// More in them than is read through, which a header tells before any of it.
    #[error("more than {} GiB unpacked", MAX_UNPACKED >> 30)]
    Unpacked,
    /// A path that is longer than the kernel's.
    #[error("a path of more than {LONGEST_PATH} bytes")]
    LongPath,
    /// Or deeper than any.
    #[error("a path of more than {DEEPEST} folders")]
    DeepPath,
    /// A path that leads out of it.
    #[error("{0}: leads out of the archive")]
    LeadsOut(String),
}

/// Hands on each regular file of a plain tar: its path in it, its size, its content. Links, devices and files with holes
/// are left out. What a tar in here asks for is never written or opened under its name.
///
/// # Errors
/// No tar; a path that leads out of it; more than a host has. What came before was handed on all the same.
pub fn each(stream: impl Read, visit: &mut dyn FnMut(&str, u64, &mut dyn Read)) -> Result<Tarred, NotTaken> {
    walk(stream, &entry_path, visit)
}

/// The same of a tar whose entries are only read, each by itself: what they are called leads nowhere, so that one with a bad
/// name keeps nobody from those behind it.
///
/// # Errors
/// No tar, or more than is read through. What came before was handed on all the same.
pub fn members(stream: impl Read, visit: &mut dyn FnMut(&str, u64, &mut dyn Read)) -> Result<Tarred, NotTaken> {
    walk(stream, &|bytes| Ok(label(bytes)), visit)
}

/// What an entry is called, for people.
fn label(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..LONGEST_PATH).unwrap_or(bytes)).into_owned()
}

/// Asks `told` of the regular files near the beginning of a tar, by their names and how they begin, until one tells; `None` where
/// none does.
pub fn first_told(stream: impl Read, told: &mut dyn FnMut(&str, &[u8]) -> Option<bool>) -> Option<bool> {
    let mut archive = tar::Archive::new(stream.take(LONGEST_HEADERS));
    for entry in archive.entries().ok()? {
        let entry = entry.ok()?;
        let kind = entry.header().entry_type();
        if kind.is_file() || kind.is_contiguous() {
            let name = label(&entry.path_bytes());
            let mut head = Vec::new();
            entry.take(512).read_to_end(&mut head).ok()?;
            if let Some(told) = told(&name, &head) {
                return Some(told);
            }
        }
    }
    None
}

fn walk(
    stream: impl Read,
    called: &dyn Fn(&[u8]) -> Result<String, NotTaken>,
    visit: &mut dyn FnMut(&str, u64, &mut dyn Read),
) -> Result<Tarred, NotTaken> {
    let (bounded, headers) = Bounded::new(stream);
    let mut archive = tar::Archive::new(bounded);
    let mut tarred = Tarred::default();
    let (mut left, mut all) = (0_u64, 0_u64);
    let torn = |count: u64, error: &io::Error| Some(ends_after(count, error));
    let mut entries = archive.entries_with_seek().map_err(|error| NotTaken::Unreadable(error.to_string()))?;
    loop {
        headers.set(LONGEST_HEADERS.saturating_add(left));
        left = 0;
        let Some(entry) = entries.next() else { break };
        headers.set(u64::MAX);
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(error) if is_refusal(&error) => return Err(NotTaken::Unreadable(error.to_string())),
            Err(error) if tarred.entries == 0 => return Err(NotTaken::NoTar(at_its_start(&error))),
            Err(error) => {
                tarred.torn = torn(tarred.entries, &error);
                break;
            }
        };
        tarred.entries += 1;
        if tarred.entries > MAX_ENTRIES {
            return Err(NotTaken::Entries);
        }
        let path = called(&entry.path_bytes())?;
        let kind = entry.header().entry_type();
        let packed = entry.header().entry_size().unwrap_or(0);
        all = add_content(all, packed.max(if kind.is_gnu_sparse() { 0 } else { entry.size() }))?;
        let plain = kind.is_file() || kind.is_contiguous();
        if !plain {
            left = packed;
            continue;
        }
        let size = entry.size();
        let mut content = Counted { stream: &mut entry, read: 0 };
        visit(path.trim_start_matches('/'), size, &mut content);
        let rest = io::copy(&mut content, &mut io::sink());
        let error = match rest {
            Ok(_) if content.read == size => continue,
            Ok(_) => io::ErrorKind::UnexpectedEof.into(),
            Err(error) if is_refusal(&error) => return Err(NotTaken::Unreadable(error.to_string())),
            Err(error) => error,
        };
        tarred.torn = torn(tarred.entries - 1, &error);
        break;
    }
    if tarred.torn.is_none() && archive.into_inner().is_torn() {
        tarred.torn = torn(tarred.entries, &io::ErrorKind::UnexpectedEof.into());
    }
    Ok(tarred)
}

/// Adds the content of one more entry to that of those before it.
pub(super) fn add_content(before: u64, size: u64) -> Result<u64, NotTaken> {
    let all = before.saturating_add(size);
    if all > MAX_UNPACKED { Err(NotTaken::Unpacked) } else { Ok(all) }
}

/// Counts what comes.
struct Counted<R> {
    stream: R,
    read: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.read = self.read.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        Ok(read)
    }
}

/// The path of an entry below the root, without `.` and a leading slash.
pub(super) fn entry_path(bytes: &[u8]) -> Result<String, NotTaken> {
    if bytes.len() > LONGEST_PATH {
        return Err(NotTaken::LongPath);
    }
    let text = String::from_utf8_lossy(bytes);
    if text.bytes().filter(|byte| *byte == b'/').count() > DEEPEST {
        return Err(NotTaken::DeepPath);
    }
    let mut path = String::with_capacity(text.len() + 1);
    for name in super::names(&text).filter(|name| *name != ".") {
        if name == ".." {
            return Err(NotTaken::LeadsOut(text.to_string()));
        }
        path.push('/');
        path.push_str(name);
    }
    Ok(path)
}

/// Ends with an error where more comes than any host has.
pub(super) struct Bounded<R> {
    stream: R,
    left: u64,
    /// Bytes that may come before the next entry is told; the reader of entries keeps long names in memory.
    headers: Rc<Cell<u64>>,
    /// Zero bytes at the end of what has come so far: a whole tar ends with two blocks of them.
    zeros: usize,
    /// Whether the stream has ended.
    ended: bool,
    /// Bytes that have come so far.
    position: u64,
    /// Where what is passed over goes.
    passed: Vec<u8>,
}

impl<R> Bounded<R> {
    /// Around a plain tar; the number is how much may come before the next entry.
    pub(super) fn new(stream: R) -> (Self, Rc<Cell<u64>>) {
        let headers = Rc::new(Cell::new(u64::MAX));
        let bounded = Self {
            stream,
            left: MAX_UNPACKED,
            headers: Rc::clone(&headers),
            zeros: 0,
            ended: false,
            position: 0,
            passed: Vec::new(),
        };
        (bounded, headers)
    }

    /// Whether the stream ended without the two blocks of zeros behind the last entry.
    pub(super) const fn is_torn(&self) -> bool {
        self.ended && self.zeros < 512
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.ended |= read == 0 && !buffer.is_empty();
        let came = buffer.get(..read).unwrap_or_default();
        let zeros = zeros_at_end(came);
        self.zeros = if zeros == came.len() { self.zeros.saturating_add(zeros) } else { zeros };
        let came = u64::try_from(read).unwrap_or(u64::MAX);
        self.position = self.position.saturating_add(came);
        match self.headers.get().checked_sub(came) {
            Some(left) => self.headers.set(left),
            None => return Err(refusal(format!("names of more than {} MiB", LONGEST_HEADERS >> 20))),
        }
        match self.left.checked_sub(came) {
            Some(left) => self.left = left,
            None => return Err(refusal(format!("more than {} GiB unpacked", MAX_UNPACKED >> 30))),
        }
        Ok(read)
    }
}

/// How many zero bytes stand at the end. A piece at a time: most of a tar of small files is zeros.
fn zeros_at_end(bytes: &[u8]) -> usize {
    let mut count = 0;
    for piece in bytes.rchunks(64) {
        if piece.iter().fold(0, |all, byte| all | byte) != 0 {
            return count + piece.iter().rev().take_while(|byte| **byte == 0).count();
        }
        count += piece.len();
    }
    count
}

/// Forward alone, by reading. The tar reader asks for it once per entry, and where it cannot, it clears a buffer of 32 KiB
/// each time to pass over the few bytes between two entries.
impl<R: Read> Seek for Bounded<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let forward = if let SeekFrom::Current(by) = to { u64::try_from(by).ok() } else { None };
        let mut left = forward.ok_or(io::ErrorKind::Unsupported)?;
        let mut passed = std::mem::take(&mut self.passed);
        if left > 0 {
            passed.resize(PASSED_AT_ONCE, 0);
        }
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(passed.len());
            let read = self.read(passed.get_mut(..most).unwrap_or_default())?;
            if read == 0 {
                return Err(io::Error::other("unexpected EOF during skip"));
            }
            left = left.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
        }
        self.passed = passed;
        Ok(self.position)
    }
}

/// An archive that is not torn but made to fill memory.
#[derive(Debug)]
struct Refusal(String);

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

fn refusal(what: String) -> io::Error {
    io::Error::other(Refusal(what))
}

/// The tar reader may wrap the error of its stream.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = error.get_ref().map(|error| error as _);
    while let Some(error) = next {
        if error.is::<Refusal>() {
            return true;
        }
        next = match error.downcast_ref::<io::Error>() {
            Some(inner) => inner.get_ref().map(|error| error as _),
            None => error.source(),
        };
    }
    false
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            // As a hostile tar has it: the library itself would refuse such a name.
            let name = header.as_old_mut();
            name.name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(u64::try_from(content.len()).unwrap());
            header.set_mode(0o600);
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn seen(bytes: &[u8], read: bool) -> (Vec<(String, String)>, Result<Tarred, NotTaken>) {
        let mut seen = Vec::new();
        let end = each(bytes, &mut |path, _, content| {
            let mut text = String::new();
            if read {
                let _ = content.read_to_string(&mut text);
            }
            seen.push((path.to_owned(), text));
        });
        (seen, end)
    }

    #[test]
    fn files_are_handed_on_whether_they_are_read_or_not() {
        let large = vec![b'x'; 3 << 20];
        let bytes = tar(&[("/etc/abs", b"one"), ("./large", &large), ("last", b"three")]);
        assert!(begins(&bytes) && !begins(&bytes[1..]) && !begins(&[0; 512]) && !begins(b"short"));
        for read in [true, false] {
            let (seen, end) = seen(&bytes, read);
            assert_eq!(seen.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["etc/abs", "large", "last"]);
            assert_eq!(end, Ok(Tarred { entries: 3, torn: None }));
            assert!(!read || seen[2].1 == "three");
        }
    }

    #[test]
    fn a_path_that_leads_out_is_refused() {
        let (seen, end) = seen(&tar(&[("good", b"1"), ("a/../../etc/passwd", b"2"), ("more", b"3")]), true);
        assert_eq!(seen.len(), 1);
        assert_eq!(end.unwrap_err().to_string(), "a/../../etc/passwd: leads out of the archive");
    }

    #[test]
    fn a_torn_tar_gives_what_was_whole_and_says_so() {
        let bytes = tar(&[("one", &[b'1'; 600]), ("two", &[b'2'; 600])]);
        let (files, end) = seen(&bytes[..1024 + 512 + 600], true);
        assert_eq!(files.iter().map(|(_, text)| text.len()).collect::<Vec<_>>(), [600, 88]);
        assert!(end.unwrap().torn.unwrap().starts_with("truncated after 1 entries"));
        assert!(seen(&bytes[..1536], true).1.unwrap().torn.is_some());
        assert!(seen(b"no tar at all", true).1.is_err());
    }

    #[test]
    fn zeros_at_the_end_are_counted_whatever_the_length() {
        for length in [0, 1, 63, 64, 65, 127, 128, 129, 512, 1000] {
            for zeros in [0, 1, 63, 64, 65, 200, 511] {
                let bytes: Vec<u8> = std::iter::repeat_n(7, length).chain(std::iter::repeat_n(0, zeros)).collect();
                assert_eq!(zeros_at_end(&bytes), zeros, "{length} {zeros}");
            }
        }
    }

    /// What the tar reader passes over is read in pieces, and counts like what somebody reads.
    #[test]
    fn what_is_passed_over_is_counted() {
        let bytes = vec![7; 100_000];
        let (mut bounded, headers) = Bounded::new(bytes.as_slice());
        assert_eq!(bounded.seek(SeekFrom::Current(70_000)).unwrap(), 70_000);
        assert_eq!(bounded.stream_position().unwrap(), 70_000);
        assert!(bounded.seek(SeekFrom::Start(0)).is_err() && bounded.seek(SeekFrom::Current(-1)).is_err());
        headers.set(10);
        assert!(is_refusal(&bounded.seek(SeekFrom::Current(11)).unwrap_err()));
        let (mut bounded, _) = Bounded::new(bytes.as_slice());
        let end = bounded.seek(SeekFrom::Current(100_001)).unwrap_err();
        assert!(!is_refusal(&end) && bounded.is_torn());
    }

    /// A header of a member of 4 TB: a few bytes on a disk, as all of it can be a hole.
    #[test]
    fn what_is_larger_than_is_read_is_refused_by_its_header() {
        let mut bytes = tar(&[("proc/meminfo", b"x")]);
        bytes.truncate(1024);
        let mut header = tar::Header::new_gnu();
        header.set_path("etc/giant").unwrap();
        header.set_size(4 << 40);
        header.set_cksum();
        bytes.extend(header.as_bytes());
        // Whoever reads on is seen to.
        struct Ends(io::Cursor<Vec<u8>>, u64);
        impl Read for Ends {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let read = self.0.read(buffer)?;
                self.1 += u64::from(read == 0);
                assert!(self.1 == 0 || buffer.is_empty(), "the content is read");
                Ok(read)
            }
        }
        let stream = || Ends(io::Cursor::new(bytes.clone()), 0);
        assert_eq!(each(stream(), &mut |_, _, _| ()), Err(NotTaken::Unpacked));
        let why = super::super::archive::unpack(stream(), "a", std::path::Path::new("a")).unwrap_err();
        assert!(why.to_string().contains("more than 8 GiB unpacked"), "{why}");
    }
}
