//! How much of what others wrote is read in one run. A few bytes of an archive can be any number of
//! files, and of bytes; what is left out is counted, and said.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{self, Read};

use hugewise_host::compressed;

/// Files with samples or problems, and what takes as much memory: a thousand hosts with sixty files
/// each are below.
pub(crate) const MOST_FILES: usize = 80_000;
/// Hosts; what is told of each takes more than its files.
pub(crate) const MOST_HOSTS: usize = 8192;
/// Files below all paths, of any kind.
pub(crate) const MOST_FOUND: usize = 400_000;
/// PCP archives, each of which a program of its own reads.
pub(crate) const MOST_PCP: usize = 4096;
/// Bytes of a name that count as another file: it is kept several times.
const LONG_NAME: usize = 256;
/// Files that a captured host is worth.
pub(super) const HOST_WORTH: usize = 10;
/// Entries of any tar that are read, and one more for each so many bytes of it.
const LEAST_ENTRIES: u64 = 10_000;
const BYTES_OF_ENTRY: u64 = 64;
/// Entries that a program to read one, or a host to look at, is worth.
pub(super) const PROGRAM_WORTH: u64 = 64;
/// Bytes that come out of each byte of a compressed file: sar and logs have below fifty, and each
/// million of them takes up to a twentieth of a second.
const UNPACKED_OF_BYTE: u64 = 60;
/// Bytes that come out of any.
const LEAST_UNPACKED: u64 = 64 << 20;
/// Lines that come out of each byte, and out of any file: each costs time, however short it is, and
/// those of /proc/meminfo have 28 bytes.
const LINES_OF_BYTE: u64 = 8;
const LEAST_LINES: u64 = 1 << 20;

/// What counts against [`MOST_FILES`].
pub(super) const fn worth_of_file(label: &str, series: usize) -> usize {
    series.saturating_add(1).saturating_add(label.len() / LONG_NAME)
}

/// Folders and tars that are told apart where files in them are only counted.
const MOST_PLACES: usize = 2000;

/// Files that are only counted, by the folder or tar that they are in.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut {
    places: BTreeMap<String, usize>,
    /// Files in places beyond those that are told apart.
    elsewhere: usize,
}

impl LeftOut {
    pub(super) fn add(&mut self, within: String, files: usize) {
        let is_told_apart = self.places.len() < MOST_PLACES || self.places.contains_key(&within);
        let count = if is_told_apart {
            self.places.entry(within).or_default()
        } else {
            &mut self.elsewhere
        };
        *count = count.saturating_add(files);
    }

    /// How many there are.
    pub(super) fn count_files(&self) -> usize {
        self.places.values().fold(self.elsewhere, |all, count| all.saturating_add(*count))
    }

    /// How many there are in places that are not told apart.
    pub(super) const fn count_elsewhere(&self) -> usize {
        self.elsewhere
    }

    /// Places with the number of their files.
    pub(super) fn places(&self) -> impl Iterator<Item = (&str, usize)> {
        self.places.iter().map(|(place, count)| (place.as_str(), *count))
    }

    /// The place with the most of them, and what is to be said of others.
    pub(super) fn find_fullest_place(&self) -> Option<(&str, String)> {
        let (place, _) = self.places.iter().max_by_key(|(_, count)| **count)?;
        let others = match self.places.len() - 1 {
            _ if self.elsewhere > 0 => format!(" and more than {MOST_PLACES} other places"),
            0 => String::new(),
            1 => " and another place".to_owned(),
            more => format!(" and {more} other places"),
        };
        Some((place, others))
    }

    /// The place with the most of them, and what is said of all.
    pub(super) fn describe_files(&self, why: &str) -> Option<(String, String)> {
        let (place, others) = self.find_fullest_place()?;
        let all = self.count_files();
        let files = if all == 1 { "1 file is" } else { "files are" };
        let files = if all == 1 { files.to_owned() } else { format!("{all} {files}") };
        let others =
            if others.is_empty() { others } else { others.replacen(" and", " here and in", 1) };
        Some((place.to_owned(), format!("{files} left out{others}: {why}")))
    }
}

/// What one file that was given or found may cost, with all that is packed in it.
#[derive(Debug, Default)]
pub(crate) struct FileBudget {
    /// Bytes that came from the file itself.
    came: Cell<u64>,
    unpacked: Cell<u64>,
    lines: Cell<u64>,
    entries: Cell<u64>,
    left_out: Cell<usize>,
    excess: RefCell<Option<String>>,
}

impl FileBudget {
    /// The file's own bytes, which the others are measured by.
    pub(crate) const fn count_input<R: Read>(&self, stream: R) -> CountedInput<'_, R> {
        CountedInput { stream, budget: self }
    }

    /// The plain bytes of a stream, which count if it was compressed.
    pub(crate) fn open_decompressed<'a>(
        &'a self,
        mut stream: impl Read + 'a,
    ) -> io::Result<Box<dyn Read + 'a>> {
        let mut head = Vec::new();
        stream.by_ref().take(8).read_to_end(&mut head)?;
        let is_packed = compressed::is_compressed(&head);
        let plain = compressed::open_decompressed(io::Cursor::new(head).chain(stream))?;
        if !is_packed {
            return Ok(plain);
        }
        Ok(Box::new(BoundedOutput { stream: plain, budget: self }))
    }

    /// Whether there is room for entries of a tar; otherwise they count as left out.
    pub(super) fn claim_entries(&self, worth: u64) -> bool {
        let most = LEAST_ENTRIES.saturating_add(self.came.get() / BYTES_OF_ENTRY);
        let entries = self.entries.get().saturating_add(worth);
        if entries > most {
            self.left_out.set(self.left_out.get().saturating_add(1));
            return false;
        }
        self.entries.set(entries);
        true
    }

    /// Entries that were left out.
    pub(super) const fn entries_left_out(&self) -> usize {
        self.left_out.get()
    }

    /// Why what was unpacked is not all.
    pub(crate) fn describe_excess(&self) -> Option<String> {
        self.excess.borrow().clone()
    }

    /// Says what is left out of it; the first counts.
    pub(crate) fn note_excess(&self, what: String) {
        self.excess.borrow_mut().get_or_insert(what);
    }

    /// What is wrong with so much that came out of a compressed file, if there is too much.
    fn check_unpacked(&self) -> io::Result<()> {
        let most = |of_byte: u64, least: u64| {
            of_byte.saturating_mul(self.came.get()).saturating_add(least)
        };
        let why = if self.unpacked.get() > most(UNPACKED_OF_BYTE, LEAST_UNPACKED) {
            let least = LEAST_UNPACKED >> 20;
            format!("unpacks to more than {UNPACKED_OF_BYTE} times its size and {least} MiB")
        } else if self.lines.get() > most(LINES_OF_BYTE, LEAST_LINES) {
            format!("unpacks to more than {LEAST_LINES} lines, which are too short for its size")
        } else {
            return Ok(());
        };
        let why = format!("{why}; the rest is left out");
        self.note_excess(why.clone());
        Err(io::Error::other(why))
    }
}

#[derive(Debug)]
pub(crate) struct CountedInput<'a, R> {
    stream: R,
    budget: &'a FileBudget,
}

impl<R: Read> Read for CountedInput<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        let came = self.budget.came.get().saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        self.budget.came.set(came);
        Ok(read)
    }
}

struct BoundedOutput<'a, R> {
    stream: R,
    budget: &'a FileBudget,
}

impl<R: Read> Read for BoundedOutput<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.budget.check_unpacked()?;
        let read = self.stream.read(buffer)?;
        let came = buffer.get(..read).unwrap_or_default();
        let lines = came.iter().filter(|byte| **byte == b'\n').count();
        let more = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        self.budget.unpacked.set(self.budget.unpacked.get().saturating_add(more(read)));
        self.budget.lines.set(self.budget.lines.get().saturating_add(more(lines)));
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    /// Bytes that come out, and whether it was too much.
    fn unpacked(file: &[u8], levels: usize) -> (u64, bool) {
        let budget = FileBudget::default();
        let mut stream: Box<dyn Read> = Box::new(budget.count_input(file));
        for _ in 0..levels {
            stream = budget.open_decompressed(stream).unwrap();
        }
        let mut bytes = 0;
        let mut buffer = [0; 8192];
        while let Ok(read) = stream.read(&mut buffer) {
            if read == 0 {
                break;
            }
            bytes += u64::try_from(read).unwrap();
        }
        (bytes, budget.describe_excess().is_some())
    }

    #[test]
    fn what_is_unpacked_is_bounded_by_what_came() {
        let zeros = vec![0; 96 << 20];
        let bomb = packed(&zeros);
        let most = LEAST_UNPACKED + UNPACKED_OF_BYTE * u64::try_from(bomb.len()).unwrap();
        let (bytes, exceeded) = unpacked(&bomb, 1);
        assert!(exceeded && bytes <= most + (64 << 10) && bytes > 60 << 20, "{bytes} of {most}");
        // In one another they count together: each level would allow sixty times the other.
        let (bytes, exceeded) = unpacked(&packed(&bomb), 2);
        assert!(exceeded && bytes < 66 << 20, "{bytes}");
        // What real archives are like passes, however it is packed.
        let text: Vec<u8> =
            (0..400_000_u32).flat_map(|at| format!("{at}\n").into_bytes()).collect();
        assert_eq!(unpacked(&packed(&text), 1), (u64::try_from(text.len()).unwrap(), false));
        assert_eq!(unpacked(&text, 1), (u64::try_from(text.len()).unwrap(), false));
    }

    /// Each line costs a reader time, and a megabyte can be millions of empty ones.
    #[test]
    fn lines_that_are_unpacked_are_bounded_by_what_came() {
        for line in ["\n", "a\n"] {
            let bomb = packed(line.repeat(24 << 20).as_bytes());
            let came = u64::try_from(bomb.len()).unwrap();
            let (bytes, exceeded) = unpacked(&bomb, 1);
            let lines = bytes / u64::try_from(line.len()).unwrap();
            assert!(exceeded && lines <= LEAST_LINES + LINES_OF_BYTE * came + 8192, "{lines}");
        }
        // As short as lines of any collector are.
        let meminfo = "Hugepagesize:       2048 kB\n".repeat(2 << 20);
        assert!(!unpacked(&packed(meminfo.as_bytes()), 1).1);
    }

    #[test]
    fn places_beyond_the_most_are_counted_together() {
        let mut left_out = LeftOut::default();
        for place in 0..MOST_PLACES {
            left_out.add(format!("{place}"), 1);
        }
        left_out.add("7".into(), 5);
        let (place, said) = left_out.describe_files("why").unwrap();
        let expected = "2005 files are left out here and in 1999 other places: why";
        assert_eq!((place.as_str(), said.as_str()), ("7", expected));
        left_out.add("x".into(), 5);
        let (_, said) = left_out.describe_files("why").unwrap();
        assert_eq!(said, "2010 files are left out here and in more than 2000 other places: why");
    }

    #[test]
    fn entries_are_bounded_by_what_came_and_counted() {
        let budget = FileBudget::default();
        io::copy(&mut budget.count_input(&vec![0; 6400][..]), &mut io::sink()).unwrap();
        let read = (0..20_000).filter(|_| budget.claim_entries(1)).count();
        assert_eq!((read, budget.entries_left_out()), (10_100, 9900));
    }
}
