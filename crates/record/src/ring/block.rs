//! One block: as it is filled, record by record, and as it is read.

use super::{BLOCK, BLOCK_HEAD, PAYLOAD, put_at, u16_at, u32_at, u64_at};
use crate::crc::crc32c;
use crate::notes::{Event, Instances, Processes};
use crate::ring::About;
use crate::sample::Sample;
use crate::varint::{Put, Take};

const BLOCK_MAGIC: [u8; 4] = *b"HWRB";

/// What is put into a block.
pub(crate) enum Record<'a> {
    Sample(&'a Sample),
    About(&'a About),
    Processes(&'a Processes),
    Instances(&'a Instances),
    Event(&'a Event),
}

impl Record<'_> {
    const fn number(&self) -> u8 {
        match self {
            Self::Sample(_) => 1,
            Self::About(_) => 2,
            Self::Processes(_) => 3,
            Self::Instances(_) => 4,
            Self::Event(_) => 5,
        }
    }
}

/// The block that is being filled.
pub(crate) struct Writer {
    bytes: Box<[u8; BLOCK]>,
    ring: u64,
    run: u64,
    sequence: u64,
    used: usize,
    records: u16,
    /// The sample before, where it is in this block.
    before: Box<Sample>,
    has_before: bool,
    /// Uptime of the first sample.
    since: Option<u64>,
}

impl Writer {
    pub(crate) fn new(ring: u64, run: u64, sequence: u64) -> Self {
        Self {
            bytes: Box::new([0; BLOCK]),
            ring,
            run,
            sequence,
            used: 0,
            records: 0,
            before: Box::default(),
            has_before: false,
            since: None,
        }
    }

    pub(crate) const fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Milliseconds from its first sample to the one with that uptime.
    pub(crate) fn age(&self, uptime: u64) -> u64 {
        self.since.map_or(0, |since| uptime.saturating_sub(since))
    }

    /// Adds a record; whether there was room. Where there was none, the block is as before.
    pub(crate) fn push(&mut self, wall: i64, record: &Record<'_>) -> bool {
        let begin = BLOCK_HEAD + self.used;
        // Kind and length, which takes two bytes whatever it is.
        let used = self.bytes.get_mut(begin + 3..).and_then(|room| {
            let mut put = Put::new(room);
            match record {
                Record::Sample(sample) => sample.encode(self.has_before.then_some(&*self.before), &mut put),
                Record::About(about) => about.encode(&mut put),
                Record::Processes(processes) => processes.encode(&mut put),
                Record::Instances(instances) => instances.encode(&mut put),
                Record::Event(event) => event.encode(&mut put),
            }
            put.used()
        });
        let Some(used) = used else { return false };
        put_at(&mut *self.bytes, begin, &[record.number()]);
        put_at(&mut *self.bytes, begin + 1, &u16::try_from(used).unwrap_or(0).to_le_bytes());
        if let Record::Sample(sample) = record {
            // In place: nothing is allocated.
            (*self.before).clone_from(sample);
            self.has_before = true;
            self.since.get_or_insert(sample.uptime);
        }
        if self.records == 0 {
            put_at(&mut *self.bytes, 32, &wall.to_le_bytes());
        }
        self.used += used + 3;
        self.records = self.records.saturating_add(1);
        true
    }

    /// The block as it is now.
    pub(crate) fn sealed(&mut self, closed: bool) -> &[u8; BLOCK] {
        let bytes = &mut *self.bytes;
        // What a record that did not fit has left.
        if let Some(rest) = bytes.get_mut(BLOCK_HEAD + self.used..) {
            rest.fill(0);
        }
        put_at(bytes, 0, &BLOCK_MAGIC);
        put_at(bytes, 8, &self.sequence.to_le_bytes());
        put_at(bytes, 16, &self.ring.to_le_bytes());
        put_at(bytes, 24, &self.run.to_le_bytes());
        put_at(bytes, 40, &u16::try_from(self.used).unwrap_or(0).to_le_bytes());
        put_at(bytes, 42, &self.records.to_le_bytes());
        put_at(bytes, 44, &[u8::from(closed), 0, 0, 0]);
        let sum = crc32c(bytes.get(8..).unwrap_or_default());
        put_at(bytes, 4, &sum.to_le_bytes());
        bytes
    }

    /// Begins the next one.
    pub(crate) fn next(&mut self) {
        self.sequence += 1;
        self.used = 0;
        self.records = 0;
        self.has_before = false;
        self.since = None;
    }
}

/// A block that was read.
pub(crate) struct Block<'a> {
    pub(crate) sequence: u64,
    pub(crate) run: u64,
    pub(crate) wall: i64,
    payload: &'a [u8],
}

/// What stands at a block's place.
pub(crate) enum Place<'a> {
    /// Nothing was written there yet.
    Empty,
    /// A block of this ring.
    Whole(Block<'a>),
    /// A whole block of another ring.
    Foreign,
    /// One whose checksum is wrong.
    Torn,
}

impl<'a> Place<'a> {
    pub(crate) fn read(bytes: &'a [u8], ring: u64) -> Self {
        if bytes.len() == BLOCK && bytes.iter().all(|byte| *byte == 0) {
            return Self::Empty;
        }
        Self::parts(bytes, ring).unwrap_or(Self::Torn)
    }

    fn parts(bytes: &'a [u8], ring: u64) -> Option<Self> {
        let whole = bytes.get(8..BLOCK)?;
        if !bytes.starts_with(&BLOCK_MAGIC) || crc32c(whole) != u32_at(bytes, 4)? {
            return None;
        }
        if u64_at(bytes, 16)? != ring {
            return Some(Self::Foreign);
        }
        let used = usize::from(u16_at(bytes, 40)?);
        Some(Self::Whole(Block {
            sequence: u64_at(bytes, 8)?,
            run: u64_at(bytes, 24)?,
            wall: u64_at(bytes, 32)?.cast_signed(),
            payload: bytes.get(BLOCK_HEAD..BLOCK_HEAD + used.min(PAYLOAD))?,
        }))
    }
}

impl<'a> Block<'a> {
    /// Its records: a number for the kind, and the bytes. What is cut off ends it.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut take = Take::new(self.payload);
        std::iter::from_fn(move || {
            let kind = take.byte()?;
            let length = u16::from_le_bytes([take.byte()?, take.byte()?]);
            Some((kind, take.bytes(usize::from(length))?))
        })
    }
}

/// The messages of a block.
#[cfg(test)]
pub(crate) fn events(bytes: &[u8; BLOCK], ring: u64) -> Vec<Event> {
    let Place::Whole(block) = Place::read(bytes, ring) else { return Vec::new() };
    let of_it = block.records().filter(|(kind, _)| *kind == 5);
    of_it.filter_map(|(_, record)| Event::decode(&mut Take::new(record))).collect()
}
