//! Reads a ring from a stream, block by block: whatever it is, in bounded memory and without a panic.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use super::block::Place;
use super::{About, BLOCK, HEADERS, Header};
use crate::notes::{Event, Instances, Processes};
use crate::sample::Sample;
use crate::varint::Take;

/// Why a file is not read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Where a record stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The sequence number of its block. Blocks come as they stand in the file: behind the newest comes the oldest.
    pub sequence: u64,
    /// The run that wrote it.
    pub run: u64,
}

/// What a ring holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// What is known of the run that wrote what follows.
    About(&'a About),
    /// One look at the host.
    Sample(&'a Sample),
    /// Processes.
    Processes(&'a Processes),
    /// Database servers.
    Instances(&'a Instances),
    /// What the kernel or the recorder said.
    Event(&'a Event),
}

/// What was in a ring beside its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its header.
    pub header: Header,
    /// Blocks that were read.
    pub blocks: u64,
    /// Blocks that were never written.
    pub empty: u64,
    /// Blocks whose checksum is wrong, or that are cut off.
    pub torn: u64,
    /// The place of the first torn block, counted from 0.
    pub first_torn: Option<u64>,
    /// Records of kinds that this version does not know, or that make no sense.
    pub odd: u64,
    /// The sequence number of the newest block and when it was begun, in milliseconds since 1970.
    pub newest: Option<(u64, i64)>,
    /// The same of the oldest.
    pub oldest: Option<(u64, i64)>,
    /// Where reading ended before the end of the file, and why.
    pub cut: Option<String>,
}

/// Reads a ring, and hands on what is in it.
///
/// # Errors
/// It is none, or is of another version of the format.
pub fn read(stream: &mut dyn Read, each: &mut dyn FnMut(Position, Entry<'_>)) -> Result<Summary, Refused> {
    let mut head = vec![0; BLOCK * HEADERS];
    let (length, failed) = fill(stream, &mut head);
    if let (0, Some(why)) = (length, &failed) {
        return Err(Refused(format!("cannot be read: {why}")));
    }
    head.truncate(length);
    let header = Header::of_copies(&head).map_err(Refused)?;
    let mut summary = Summary::of(header, failed);
    let mut bytes = vec![0; BLOCK];
    let mut samples = Box::<[Sample; 2]>::default();
    for place in 0..summary.header.blocks {
        let (length, failed) = fill(stream, &mut bytes);
        if length < BLOCK {
            let missing = summary.header.blocks - place;
            let why = failed.unwrap_or_else(|| "the file ends".to_owned());
            summary.cut = Some(format!("{missing} of {} blocks are missing: {why}", summary.header.blocks));
            break;
        }
        summary.block(place, &bytes, &mut samples, each);
    }
    Ok(summary)
}

/// Reads a ring that is a file from its oldest block to its newest, also while it is written.
///
/// # Errors
/// As [`read`].
pub fn read_in_order(file: &File, each: &mut dyn FnMut(Position, Entry<'_>)) -> Result<Summary, Refused> {
    let first = read(&mut FileAt { file, at: 0 }, &mut |_, _| {})?;
    from_oldest(file, first, each)
}

/// What a first look found, read again in order.
fn from_oldest(file: &File, first: Summary, each: &mut dyn FnMut(Position, Entry<'_>)) -> Result<Summary, Refused> {
    let Some((newest, _)) = first.newest else { return Ok(first) };
    let blocks = first.header.blocks;
    let mut summary = Summary::of(first.header, first.cut);
    let mut bytes = vec![0; BLOCK];
    let mut samples = Box::<[Sample; 2]>::default();
    for step in 1..=blocks {
        let place = (newest % blocks + step) % blocks;
        block_at(file, &summary.header, place, &mut bytes);
        // Written since this began: it would stand before what is older.
        if matches!(Place::read(&bytes, summary.header.ring), Place::Whole(block) if block.sequence > newest) {
            continue;
        }
        summary.block(place, &bytes, &mut samples, each);
    }
    Ok(summary)
}

/// The block at a place of a file. One that is being written is whole when it is looked at again.
pub(super) fn block_at(file: &File, header: &Header, place: u64, bytes: &mut [u8]) {
    for _ in 0..3 {
        if fill(&mut FileAt::new(file, (place + HEADERS as u64) * BLOCK as u64), bytes).0 < BLOCK {
            bytes.fill(0);
        }
        if !matches!(Place::read(bytes, header.ring), Place::Torn) {
            return;
        }
    }
}

/// A file from a place on, whatever others do with its position.
pub(super) struct FileAt<'a> {
    file: &'a File,
    at: u64,
}

impl<'a> FileAt<'a> {
    pub(super) const fn new(file: &'a File, at: u64) -> Self {
        Self { file, at }
    }
}

impl Read for FileAt<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let length = self.file.read_at(room, self.at)?;
        self.at += u64::try_from(length).unwrap_or(0);
        Ok(length)
    }
}

impl Summary {
    /// Of a ring whose blocks are still to be read.
    pub(super) const fn of(header: Header, cut: Option<String>) -> Self {
        Self { header, blocks: 0, empty: 0, torn: 0, first_torn: None, odd: 0, newest: None, oldest: None, cut }
    }

    /// Takes a block by itself.
    pub(super) fn one(&mut self, place: u64, bytes: &[u8], each: &mut dyn FnMut(Position, Entry<'_>)) {
        self.block(place, bytes, &mut Box::default(), each);
    }

    fn block(
        &mut self,
        place: u64,
        bytes: &[u8],
        [now, before]: &mut [Sample; 2],
        each: &mut dyn FnMut(Position, Entry<'_>),
    ) {
        let block = match Place::read(bytes, self.header.ring) {
            // One that stands where its number does not belong is none of the ring's order.
            Place::Whole(block) if block.sequence % self.header.blocks == place => block,
            Place::Empty => {
                self.empty += 1;
                return;
            }
            // Left from a ring whose place this one took.
            Place::Foreign => return,
            Place::Whole(_) | Place::Torn => {
                self.torn += 1;
                self.first_torn.get_or_insert(place);
                return;
            }
        };
        self.blocks += 1;
        let here = (block.sequence, block.wall);
        self.newest = Some(self.newest.filter(|newest| newest.0 > here.0).unwrap_or(here));
        self.oldest = Some(self.oldest.filter(|oldest| oldest.0 < here.0).unwrap_or(here));
        let position = Position { sequence: block.sequence, run: block.run };
        let mut has_before = false;
        for (kind, record) in block.records() {
            let mut take = Take::new(record);
            let mut hand = |entry: Entry<'_>| each(position, entry);
            let known = match kind {
                1 => now.decode(has_before.then_some(&*before), &mut take).map(|()| {
                    hand(Entry::Sample(now));
                    std::mem::swap(now, before);
                    has_before = true;
                }),
                2 => About::decode(&mut take).map(|about| hand(Entry::About(&about))),
                3 => Processes::decode(&mut take).map(|processes| hand(Entry::Processes(&processes))),
                4 => Instances::decode(&mut take).map(|instances| hand(Entry::Instances(&instances))),
                5 => Event::decode(&mut take).map(|event| hand(Entry::Event(&event))),
                _ => None,
            };
            if known.is_none() {
                self.odd += 1;
                // Samples behind it say how they differ from this one.
                if kind == 1 {
                    break;
                }
            }
        }
    }
}

/// As much as the stream gives, and what kept it from giving all.
pub(super) fn fill(stream: &mut dyn Read, room: &mut [u8]) -> (usize, Option<String>) {
    let mut length = 0;
    while let Some(rest) = room.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => return (length, None),
            Ok(read) => length += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return (length, Some(error.to_string())),
        }
    }
    (length, None)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)]
mod tests {
    use super::*;
    use crate::ring::{Folder, Kind};
    use crate::testing::Blocks;

    /// Between the first look and the second one the recorder goes on.
    #[test]
    fn what_is_written_meanwhile_does_not_come_before_what_is_older() {
        let folder = tempfile::tempdir().unwrap();
        let about = About::default();
        let opened = Folder::open(folder.path()).unwrap().ring(Kind::Seconds, 8, &about).unwrap();
        let mut blocks = Blocks::of(&opened.ring, 0);
        let mut write = |seconds: std::ops::Range<u64>| {
            for second in seconds {
                let mut sample = Sample::default();
                sample.uptime = second * 1000;
                blocks.push(&opened.ring, &sample);
            }
        };
        let file = File::open(folder.path().join(Kind::Seconds.file())).unwrap();
        for (before, meanwhile) in [(0..10, 10..14), (14..60, 60..66)] {
            write(before);
            let first = read(&mut FileAt { file: &file, at: 0 }, &mut |_, _| {}).unwrap();
            write(meanwhile);
            let mut seconds = Vec::new();
            let mut keep = |_: Position, entry: Entry<'_>| {
                if let Entry::Sample(sample) = entry {
                    seconds.push(sample.uptime / 1000);
                }
            };
            from_oldest(&file, first, &mut keep).unwrap();
            assert!(seconds.len() > 8 && seconds.is_sorted(), "{seconds:?}");
        }
    }
}
