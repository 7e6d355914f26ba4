//! Tars from others: nothing in them leads out, and what they inflate is limited.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};
use std::rc::Rc;

use crate::compressed::MAX_UNPACKED;

/// No host has more entries, nor more files and folders: one entry's name makes many folders.
pub(super) const MAX_ENTRIES: u64 = 200_000;
pub(super) const MAX_KEPT: u64 = 256 << 20;
const LONGEST_PATH: usize = 4096;
/// Nested folders: the deepest of /sys have about 20.
const DEEPEST: usize = 128;
const PASSED_AT_ONCE: usize = 32 << 10;
/// Between the contents of two entries: headers, and long names in GNU's and pax's way.
const LONGEST_HEADERS: u64 = 1 << 20;

/// Whether a file begins with a tar header of the right checksum.
pub fn is_tar(head: &[u8]) -> bool {
    let Some(block) = head.get(..512) else { return false };
    if block.first() == Some(&0) {
        return false;
    }
    let (Some(before), Some(sum), Some(after)) =
        (block.get(..148), block.get(148..156), block.get(156..))
    else {
        return false;
    };
    let text = String::from_utf8_lossy(sum);
    let said = u32::from_str_radix(text.trim_matches(['\0', ' ']), 8);
    let counted: u32 =
        before.iter().chain(after).map(|byte| u32::from(*byte)).sum::<u32>() + 8 * u32::from(b' ');
    said == Ok(counted)
}

/// A tar that was read through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tarred {
    /// Entries of all kinds.
    pub entries: u64,
    /// How it is cut off.
    pub torn: Option<String>,
}

fn ends_after(count: u64, error: &io::Error) -> String {
    format!(
        "truncated after {count} entries: {}",
        in_words(error, "what follows is not a tar header")
    )
}

/// The tar reader's own words about a header (`Other`) quote it, and that can be anybody's secret.
fn in_words(error: &io::Error, no_header: &str) -> String {
    match error.kind() {
        io::ErrorKind::Other => no_header.into(),
        _ => error.to_string(),
    }
}

/// Why a tar is rejected as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TarError {
    /// It is none, or its stream fails.
    #[error("{0}")]
    Unreadable(String),
    /// It does not begin with an entry.
    #[error("not a tar archive: {0}")]
    NoTar(String),
    /// More entries than a host has.
    #[error("more than {MAX_ENTRIES} entries")]
    Entries,
    /// More files and folders than that, as one entry's name makes many folders.
    #[error("more than {MAX_ENTRIES} files and folders")]
    Files,
    /// More than fits in memory.
    #[error("holds more than {} MiB of files", MAX_KEPT >> 20)]
    Bytes,
    /// More than is read, by the headers.
    #[error("more than {} GiB unpacked", MAX_UNPACKED >> 30)]
    Unpacked,
    /// A path that is longer than the kernel's.
    #[error("a path of more than {LONGEST_PATH} bytes")]
    LongPath,
    /// A path that is deeper than any.
    #[error("a path of more than {DEEPEST} folders")]
    DeepPath,
    /// A path that leads out of it.
    #[error("{0}: leads out of the archive")]
    LeadsOut(String),
}

/// Passes each regular file of a plain tar to `visit`: path, size, content. Links, devices and
/// files with holes are left out. Nothing is written or opened under a tar's names.
/// Errors: no tar; a path that leads out of it; more than a host has. Earlier files were passed on.
pub fn for_each_file(
    stream: impl Read,
    visit: &mut dyn FnMut(&str, u64, &mut dyn Read),
) -> Result<Tarred, TarError> {
    walk_files(stream, &entry_path, visit)
}

/// The same for a tar whose entries are only read: a bad name does not matter.
/// Errors: no tar, or more than is read. Earlier files were passed on.
pub fn for_each_member(
    stream: impl Read,
    visit: &mut dyn FnMut(&str, u64, &mut dyn Read),
) -> Result<Tarred, TarError> {
    walk_files(stream, &|bytes| Ok(member_label(bytes)), visit)
}

fn member_label(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..LONGEST_PATH).unwrap_or(bytes)).into_owned()
}

/// Asks `told` about the regular files near a tar's beginning, by name and first bytes, until it
/// answers.
pub fn first_told(
    stream: impl Read,
    told: &mut dyn FnMut(&str, &[u8]) -> Option<bool>,
) -> Option<bool> {
    let mut archive = tar::Archive::new(stream.take(LONGEST_HEADERS));
    for entry in archive.entries().ok()? {
        let entry = entry.ok()?;
        let kind = entry.header().entry_type();
        if kind.is_file() || kind.is_contiguous() {
            let name = member_label(&entry.path_bytes());
            let mut head = Vec::new();
            entry.take(512).read_to_end(&mut head).ok()?;
            if let Some(told) = told(&name, &head) {
                return Some(told);
            }
        }
    }
    None
}

/// Passes each regular file to `visit`; what `visit` does not read is read through.
fn walk_files(
    stream: impl Read,
    called: &dyn Fn(&[u8]) -> Result<String, TarError>,
    visit: &mut dyn FnMut(&str, u64, &mut dyn Read),
) -> Result<Tarred, TarError> {
    walk_entries(stream, called, |path, entry| {
        let header = entry.header();
        let kind = header.entry_type();
        if !(kind.is_file() || kind.is_contiguous()) {
            return Ok(Ok(header.entry_size().unwrap_or(0)));
        }
        let size = entry.size();
        let mut content = Counted { stream: entry, read: 0 };
        visit(path.trim_start_matches('/'), size, &mut content);
        match io::copy(&mut content, &mut io::sink()) {
            Ok(_) if content.read == size => Ok(Ok(0)),
            Ok(_) => Ok(Err(io::ErrorKind::UnexpectedEof.into())),
            Err(error) if is_refusal(&error) => Err(TarError::Unreadable(error.to_string())),
            Err(error) => Ok(Err(error)),
        }
    })
}

/// Passes each entry to `handle`, which says how much of its content it left unread, or how that was
/// cut off.
pub(super) fn walk_entries<S: Read>(
    stream: S,
    called: &dyn Fn(&[u8]) -> Result<String, TarError>,
    mut handle: impl FnMut(
        String,
        &mut tar::Entry<'_, BoundedTarStream<S>>,
    ) -> Result<io::Result<u64>, TarError>,
) -> Result<Tarred, TarError> {
    let (bounded, headers) = BoundedTarStream::new(stream);
    let mut archive = tar::Archive::new(bounded);
    let mut tarred = Tarred::default();
    let (mut unread, mut content) = (0_u64, 0_u64);
    let mut entries =
        archive.entries_with_seek().map_err(|error| TarError::Unreadable(error.to_string()))?;
    while tarred.torn.is_none() {
        headers.set(LONGEST_HEADERS.saturating_add(unread));
        let Some(entry) = entries.next() else { break };
        headers.set(u64::MAX);
        let mut entry = match entry {
            Ok(entry) => entry,
            Err(error) if is_refusal(&error) => {
                return Err(TarError::Unreadable(error.to_string()));
            }
            Err(error) if tarred.entries == 0 => {
                let why = in_words(&error, "it does not begin with a tar header");
                return Err(TarError::NoTar(why));
            }
            Err(error) => {
                tarred.torn = Some(ends_after(tarred.entries, &error));
                break;
            }
        };
        tarred.entries += 1;
        if tarred.entries > MAX_ENTRIES {
            return Err(TarError::Entries);
        }
        let path = called(&entry.path_bytes())?;
        let packed = entry.header().entry_size().unwrap_or(0);
        let is_sparse = entry.header().entry_type().is_gnu_sparse();
        content = content.saturating_add(if is_sparse { packed } else { packed.max(entry.size()) });
        if content > MAX_UNPACKED {
            return Err(TarError::Unpacked);
        }
        match handle(path, &mut entry)? {
            Ok(left) => unread = left,
            Err(error) => tarred.torn = Some(ends_after(tarred.entries - 1, &error)),
        }
    }
    if tarred.torn.is_none() && archive.into_inner().is_torn() {
        tarred.torn = Some(ends_after(tarred.entries, &io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(tarred)
}

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
pub(super) fn entry_path(bytes: &[u8]) -> Result<String, TarError> {
    if bytes.len() > LONGEST_PATH {
        return Err(TarError::LongPath);
    }
    let text = String::from_utf8_lossy(bytes);
    if text.bytes().filter(|byte| *byte == b'/').count() > DEEPEST {
        return Err(TarError::DeepPath);
    }
    let mut path = String::with_capacity(text.len() + 1);
    for name in super::path_components(&text).filter(|name| *name != ".") {
        if name == ".." {
            return Err(TarError::LeadsOut(text.to_string()));
        }
        path.push('/');
        path.push_str(name);
    }
    Ok(path)
}

pub(super) struct BoundedTarStream<R> {
    stream: R,
    left: u64,
    /// Bytes left before the next entry; the tar reader keeps long names in memory.
    headers: Rc<Cell<u64>>,
    /// Zero bytes at the end so far: a whole tar ends with two blocks of them.
    zeros: usize,
    ended: bool,
    position: u64,
    passed: Vec<u8>,
}

impl<R> BoundedTarStream<R> {
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

    /// Whether the stream ended without the final two blocks of zeros.
    pub(super) const fn is_torn(&self) -> bool {
        self.ended && self.zeros < 512
    }
}

impl<R: Read> Read for BoundedTarStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.ended |= read == 0 && !buffer.is_empty();
        let came = buffer.get(..read).unwrap_or_default();
        let zeros = zeros_at_end(came);
        self.zeros = if zeros == came.len() { self.zeros.saturating_add(zeros) } else { zeros };
        let came = u64::try_from(read).unwrap_or(u64::MAX);
        self.position = self.position.saturating_add(came);
        let Some(headers) = self.headers.get().checked_sub(came) else {
            let most = LONGEST_HEADERS >> 20;
            return Err(refusal_error(format!("names of more than {most} MiB")));
        };
        self.headers.set(headers);
        let Some(left) = self.left.checked_sub(came) else {
            let most = MAX_UNPACKED >> 30;
            return Err(refusal_error(format!("more than {most} GiB unpacked")));
        };
        self.left = left;
        Ok(read)
    }
}

/// Zero bytes at the end; 64 at a time, as most of a tar of small files is zeros.
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

/// Forward only, by reading. The tar reader seeks once per entry; otherwise it would clear 32 KiB
/// each time to skip the few bytes between two entries.
impl<R: Read> Seek for BoundedTarStream<R> {
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

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct TarRefusal(String);

fn refusal_error(what: String) -> io::Error {
    io::Error::other(TarRefusal(what))
}

/// The tar reader may wrap its stream's error.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> =
        error.get_ref().map(|error| error as _);
    while let Some(error) = next {
        if error.is::<TarRefusal>() {
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
mod tests {
    use super::*;

    fn build_tar(files: &[(&str, &[u8])]) -> Vec<u8> {
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

    fn collect_files(
        bytes: &[u8],
        read: bool,
    ) -> (Vec<(String, String)>, Result<Tarred, TarError>) {
        let mut seen = Vec::new();
        let end = for_each_file(bytes, &mut |path, _, content| {
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
        let bytes = build_tar(&[("/etc/abs", b"one"), ("./large", &large), ("last", b"three")]);
        assert!(is_tar(&bytes) && !is_tar(&bytes[1..]) && !is_tar(&[0; 512]) && !is_tar(b"short"));
        for read in [true, false] {
            let (seen, end) = collect_files(&bytes, read);
            assert_eq!(
                seen.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
                ["etc/abs", "large", "last"]
            );
            assert_eq!(end, Ok(Tarred { entries: 3, torn: None }));
            assert!(!read || seen[2].1 == "three");
        }
    }

    #[test]
    fn a_path_that_leads_out_is_refused() {
        let (seen, end) = collect_files(
            &build_tar(&[("good", b"1"), ("a/../../etc/passwd", b"2"), ("more", b"3")]),
            true,
        );
        assert_eq!(seen.len(), 1);
        assert_eq!(end.unwrap_err().to_string(), "a/../../etc/passwd: leads out of the archive");
    }

    #[test]
    fn a_torn_tar_gives_what_was_whole_and_says_so() {
        let bytes = build_tar(&[("one", &[b'1'; 600]), ("two", &[b'2'; 600])]);
        let (files, end) = collect_files(&bytes[..1024 + 512 + 600], true);
        assert_eq!(files.iter().map(|(_, text)| text.len()).collect::<Vec<_>>(), [600, 88]);
        assert!(end.unwrap().torn.unwrap().starts_with("truncated after 1 entries"));
        assert!(collect_files(&bytes[..1536], true).1.unwrap().torn.is_some());
        assert!(collect_files(b"no tar at all", true).1.is_err());
    }

    #[test]
    fn zeros_at_the_end_are_counted_whatever_the_length() {
        for length in [0, 1, 63, 64, 65, 127, 128, 129, 512, 1000] {
            for zeros in [0, 1, 63, 64, 65, 200, 511] {
                let bytes: Vec<u8> =
                    std::iter::repeat_n(7, length).chain(std::iter::repeat_n(0, zeros)).collect();
                assert_eq!(zeros_at_end(&bytes), zeros, "{length} {zeros}");
            }
        }
    }

    /// What the tar reader passes over is read in pieces, and counts like what somebody reads.
    #[test]
    fn what_is_passed_over_is_counted() {
        let bytes = vec![7; 100_000];
        let (mut bounded, headers) = BoundedTarStream::new(bytes.as_slice());
        assert_eq!(bounded.seek(SeekFrom::Current(70_000)).unwrap(), 70_000);
        assert_eq!(bounded.stream_position().unwrap(), 70_000);
        assert!(
            bounded.seek(SeekFrom::Start(0)).is_err()
                && bounded.seek(SeekFrom::Current(-1)).is_err()
        );
        headers.set(10);
        assert!(is_refusal(&bounded.seek(SeekFrom::Current(11)).unwrap_err()));
        let (mut bounded, _) = BoundedTarStream::new(bytes.as_slice());
        let end = bounded.seek(SeekFrom::Current(100_001)).unwrap_err();
        assert!(!is_refusal(&end) && bounded.is_torn());
    }

    /// A header of a member of 4 TB: a few bytes on a disk, as all of it can be a hole.
    #[test]
    fn what_is_larger_than_is_read_is_refused_by_its_header() {
        let mut bytes = build_tar(&[("proc/meminfo", b"x")]);
        bytes.truncate(1024);
        let mut header = tar::Header::new_gnu();
        header.set_path("etc/giant").unwrap();
        header.set_size(4 << 40);
        header.set_cksum();
        bytes.extend(header.as_bytes());
        // Whoever reads on is seen to.
        struct EndCheckedStream(io::Cursor<Vec<u8>>, u64);
        impl Read for EndCheckedStream {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let read = self.0.read(buffer)?;
                self.1 += u64::from(read == 0);
                assert!(self.1 == 0 || buffer.is_empty(), "the content is read");
                Ok(read)
            }
        }
        let stream = || EndCheckedStream(io::Cursor::new(bytes.clone()), 0);
        assert_eq!(for_each_file(stream(), &mut |_, _, _| ()), Err(TarError::Unpacked));
        let why = crate::archive::unpack_tar(stream(), "a", std::path::Path::new("a")).unwrap_err();
        assert!(why.to_string().contains("more than 8 GiB unpacked"), "{why}");
    }
}
