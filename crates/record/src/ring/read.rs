//! Reads a ring from a stream, block by block: in bounded memory and without a panic, whatever it
//! is.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

use super::block::StoredBlock;
use super::{About, BLOCK, HEADERS, RingHeader};
use crate::notes::{Instances, RecordedEvent, RecordedProcesses};
use crate::sample::HostSample;
use crate::varint::VarintReader;

/// Why a file is not read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnreadableRing(pub String);

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its block's sequence number. Blocks come in file order: behind the newest, the oldest.
    pub sequence: u64,
    /// The run that wrote it.
    pub run: u64,
}

/// What a ring holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingEntry<'a> {
    /// The run that wrote what follows.
    About(&'a About),
    /// One look at the host.
    Sample(&'a HostSample),
    /// Processes.
    Processes(&'a RecordedProcesses),
    /// Database servers.
    Instances(&'a Instances),
    /// What the kernel or the recorder said.
    Event(&'a RecordedEvent),
}

/// A ring without its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingSummary {
    /// Its header.
    pub header: RingHeader,
    /// Blocks that were read.
    pub blocks: u64,
    /// Blocks that were never written.
    pub empty: u64,
    /// Blocks that are cut off or have a wrong checksum.
    pub torn: u64,
    /// The place of the first torn block, from 0.
    pub first_torn: Option<u64>,
    /// Records of unknown kinds, or invalid ones.
    pub odd: u64,
    /// The newest block's sequence number, and its begin in milliseconds since 1970.
    pub newest: Option<(u64, i64)>,
    /// The same of the oldest block.
    pub oldest: Option<(u64, i64)>,
    /// Where the file was cut off, and why.
    pub cut: Option<String>,
}

/// Reads a ring and passes on its entries.
/// Errors: it is no ring, or has another version of the format.
pub fn read(
    stream: &mut dyn Read,
    each: &mut dyn FnMut(Position, RingEntry<'_>),
) -> Result<RingSummary, UnreadableRing> {
    let mut summary = read_header(stream)?;
    let mut bytes = vec![0; BLOCK];
    let mut samples = Box::<[HostSample; 2]>::default();
    for place in 0..summary.header.blocks {
        let (length, failed) = fill_buffer(stream, &mut bytes);
        if length < BLOCK {
            let missing = summary.header.blocks - place;
            let why = failed.unwrap_or_else(|| "the file ends".to_owned());
            summary.cut =
                Some(format!("{missing} of {} blocks are missing: {why}", summary.header.blocks));
            break;
        }
        summary.add_block(place, &bytes, &mut samples, each);
    }
    Ok(summary)
}

pub(super) fn read_header(stream: &mut dyn Read) -> Result<RingSummary, UnreadableRing> {
    let mut head = vec![0; BLOCK * HEADERS];
    let (length, failed) = fill_buffer(stream, &mut head);
    if let (0, Some(why)) = (length, &failed) {
        return Err(UnreadableRing(format!("cannot be read: {why}")));
    }
    head.truncate(length);
    Ok(RingSummary::for_header(RingHeader::of_copies(&head).map_err(UnreadableRing)?, failed))
}

/// Reads a ring's file from its oldest block to its newest, even while it is written.
/// Errors: as [`read`].
pub fn read_in_order(
    file: &File,
    each: &mut dyn FnMut(Position, RingEntry<'_>),
) -> Result<RingSummary, UnreadableRing> {
    let first = read(&mut FileAt { file, at: 0 }, &mut |_, _| {})?;
    from_oldest(file, first, each)
}

fn from_oldest(
    file: &File,
    first: RingSummary,
    each: &mut dyn FnMut(Position, RingEntry<'_>),
) -> Result<RingSummary, UnreadableRing> {
    let Some((newest, _)) = first.newest else { return Ok(first) };
    let blocks = first.header.blocks;
    let mut summary = RingSummary::for_header(first.header, first.cut);
    let mut bytes = vec![0; BLOCK];
    let mut samples = Box::<[HostSample; 2]>::default();
    for step in 1..=blocks {
        let place = (newest % blocks + step) % blocks;
        block_at(file, &summary.header, place, &mut bytes);
        // Written since this began: it would precede older blocks.
        if matches!(StoredBlock::read(&bytes, summary.header.ring), StoredBlock::Whole(block) if block.sequence > newest)
        {
            continue;
        }
        summary.add_block(place, &bytes, &mut samples, each);
    }
    Ok(summary)
}

/// Reads the block at a place; a torn one may be in writing and is read again.
pub(super) fn block_at(file: &File, header: &RingHeader, place: u64, bytes: &mut [u8]) {
    for _ in 0..3 {
        let at = (place + HEADERS as u64) * BLOCK as u64;
        if fill_buffer(&mut FileAt { file, at }, bytes).0 < BLOCK {
            bytes.fill(0);
        }
        if !matches!(StoredBlock::read(bytes, header.ring), StoredBlock::Torn) {
            return;
        }
    }
}

/// A file from a place on, independent of its shared position.
pub(super) struct FileAt<'a> {
    pub(super) file: &'a File,
    pub(super) at: u64,
}

impl Read for FileAt<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let length = self.file.read_at(room, self.at)?;
        self.at += u64::try_from(length).unwrap_or(0);
        Ok(length)
    }
}

impl RingSummary {
    const fn for_header(header: RingHeader, cut: Option<String>) -> Self {
        Self {
            header,
            blocks: 0,
            empty: 0,
            torn: 0,
            first_torn: None,
            odd: 0,
            newest: None,
            oldest: None,
            cut,
        }
    }

    pub(super) fn add_block(
        &mut self,
        place: u64,
        bytes: &[u8],
        [now, before]: &mut [HostSample; 2],
        each: &mut dyn FnMut(Position, RingEntry<'_>),
    ) {
        let block = match StoredBlock::read(bytes, self.header.ring) {
            // A block at a place where its number does not belong is torn.
            StoredBlock::Whole(block) if block.sequence % self.header.blocks == place => block,
            StoredBlock::Empty => {
                self.empty += 1;
                return;
            }
            // Left over from an older ring in this place.
            StoredBlock::Foreign => return,
            StoredBlock::Whole(_) | StoredBlock::Torn => {
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
            let mut take = VarintReader::new(record);
            let mut hand = |entry: RingEntry<'_>| each(position, entry);
            let known = match kind {
                1 => now.decode(has_before.then_some(&*before), &mut take).map(|()| {
                    hand(RingEntry::Sample(now));
                    std::mem::swap(now, before);
                    has_before = true;
                }),
                2 => About::decode(&mut take).map(|about| hand(RingEntry::About(&about))),
                3 => RecordedProcesses::decode(&mut take)
                    .map(|processes| hand(RingEntry::Processes(&processes))),
                4 => Instances::decode(&mut take)
                    .map(|instances| hand(RingEntry::Instances(&instances))),
                5 => RecordedEvent::decode(&mut take).map(|event| hand(RingEntry::Event(&event))),
                _ => None,
            };
            if known.is_none() {
                self.odd += 1;
                // Later samples are differences to this one.
                if kind == 1 {
                    break;
                }
            }
        }
    }
}

fn fill_buffer(stream: &mut dyn Read, room: &mut [u8]) -> (usize, Option<String>) {
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
mod tests {
    #![allow(clippy::disallowed_methods)]

    use super::*;
    use crate::ring::{RingFolder, RingKind};
    use crate::testing::Blocks;

    /// Between the first look and the second one the recorder goes on.
    #[test]
    fn what_is_written_meanwhile_does_not_come_before_what_is_older() {
        let folder = tempfile::tempdir().unwrap();
        let about = About::default();
        let opened = RingFolder::open(folder.path())
            .unwrap()
            .open_ring(RingKind::Seconds, 8, &about)
            .unwrap();
        let mut blocks = Blocks::of(&opened.ring, 0);
        let mut write = |seconds: std::ops::Range<u64>| {
            for second in seconds {
                let mut sample = HostSample::default();
                sample.uptime = second * 1000;
                blocks.push(&opened.ring, &sample);
            }
        };
        let file = File::open(folder.path().join(RingKind::Seconds.file_name())).unwrap();
        for (before, meanwhile) in [(0..10, 10..14), (14..60, 60..66)] {
            write(before);
            let first = read(&mut FileAt { file: &file, at: 0 }, &mut |_, _| {}).unwrap();
            write(meanwhile);
            let mut seconds = Vec::new();
            let mut keep = |_: Position, entry: RingEntry<'_>| {
                if let RingEntry::Sample(sample) = entry {
                    seconds.push(sample.uptime / 1000);
                }
            };
            from_oldest(&file, first, &mut keep).unwrap();
            assert!(seconds.len() > 8 && seconds.is_sorted(), "{seconds:?}");
        }
    }
}
