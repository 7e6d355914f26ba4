//! One block, while it is filled and when it is read.

use super::{BLOCK, BLOCK_HEAD, PAYLOAD, put_at, u16_at, u32_at, u64_at};
use crate::CRC32C;
use crate::notes::{Instances, RecordedEvent, RecordedProcesses};
use crate::ring::About;
use crate::sample::HostSample;
use crate::varint::{VarintReader, VarintWriter};

const BLOCK_MAGIC: [u8; 4] = *b"HWRB";

pub(crate) enum RingRecord<'a> {
    Sample(&'a HostSample),
    About(&'a About),
    Processes(&'a RecordedProcesses),
    Instances(&'a Instances),
    Event(&'a RecordedEvent),
}

impl RingRecord<'_> {
    const fn kind_number(&self) -> u8 {
        match self {
            Self::Sample(_) => 1,
            Self::About(_) => 2,
            Self::Processes(_) => 3,
            Self::Instances(_) => 4,
            Self::Event(_) => 5,
        }
    }
}

pub(crate) struct BlockWriter {
    bytes: Box<[u8; BLOCK]>,
    ring: u64,
    run: u64,
    sequence: u64,
    used: usize,
    records: u16,
    before: Box<HostSample>,
    has_before: bool,
    since: Option<u64>,
}

impl BlockWriter {
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

    pub(crate) fn age_at_uptime(&self, uptime: u64) -> u64 {
        self.since.map_or(0, |since| uptime.saturating_sub(since))
    }

    /// False where there is no room, which leaves the block unchanged.
    pub(crate) fn push(&mut self, wall: i64, record: &RingRecord<'_>) -> bool {
        let begin = BLOCK_HEAD + self.used;
        // Kind, and two bytes of length.
        let used = self.bytes.get_mut(begin + 3..).and_then(|room| {
            let mut put = VarintWriter::new(room);
            match record {
                RingRecord::Sample(sample) => {
                    sample.encode(self.has_before.then_some(&*self.before), &mut put)
                }
                RingRecord::About(about) => about.encode(&mut put),
                RingRecord::Processes(processes) => processes.encode(&mut put),
                RingRecord::Instances(instances) => instances.encode(&mut put),
                RingRecord::Event(event) => event.encode(&mut put),
            }
            put.bytes_written()
        });
        let Some(used) = used else { return false };
        put_at(&mut *self.bytes, begin, &[record.kind_number()]);
        put_at(&mut *self.bytes, begin + 1, &u16::try_from(used).unwrap_or(0).to_le_bytes());
        if let RingRecord::Sample(sample) = record {
            // In place, without an allocation.
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

    pub(crate) fn seal_block(&mut self, closed: bool) -> &[u8; BLOCK] {
        let bytes = &mut *self.bytes;
        // Remains of a record that did not fit.
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
        let sum = CRC32C.checksum(bytes.get(8..).unwrap_or_default());
        put_at(bytes, 4, &sum.to_le_bytes());
        bytes
    }

    pub(crate) fn next(&mut self) {
        self.sequence += 1;
        self.used = 0;
        self.records = 0;
        self.has_before = false;
        self.since = None;
    }
}

pub(crate) struct RingBlock<'a> {
    pub(crate) sequence: u64,
    pub(crate) run: u64,
    pub(crate) wall: i64,
    payload: &'a [u8],
}

pub(crate) enum StoredBlock<'a> {
    Empty,
    Whole(RingBlock<'a>),
    Foreign,
    Torn,
}

impl<'a> StoredBlock<'a> {
    pub(crate) fn read(bytes: &'a [u8], ring: u64) -> Self {
        if bytes.len() == BLOCK && bytes.iter().all(|byte| *byte == 0) {
            return Self::Empty;
        }
        Self::parse_block(bytes, ring).unwrap_or(Self::Torn)
    }

    fn parse_block(bytes: &'a [u8], ring: u64) -> Option<Self> {
        let whole = bytes.get(8..BLOCK)?;
        if !bytes.starts_with(&BLOCK_MAGIC) || CRC32C.checksum(whole) != u32_at(bytes, 4)? {
            return None;
        }
        if u64_at(bytes, 16)? != ring {
            return Some(Self::Foreign);
        }
        let used = usize::from(u16_at(bytes, 40)?);
        Some(Self::Whole(RingBlock {
            sequence: u64_at(bytes, 8)?,
            run: u64_at(bytes, 24)?,
            wall: u64_at(bytes, 32)?.cast_signed(),
            payload: bytes.get(BLOCK_HEAD..BLOCK_HEAD + used.min(PAYLOAD))?,
        }))
    }
}

impl<'a> RingBlock<'a> {
    /// Its records, by kind; ends at what is cut off.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u8, &'a [u8])> + use<'a> {
        let mut take = VarintReader::new(self.payload);
        std::iter::from_fn(move || {
            let kind = take.read_byte()?;
            let length = u16::from_le_bytes([take.read_byte()?, take.read_byte()?]);
            Some((kind, take.read_bytes(usize::from(length))?))
        })
    }
}

#[cfg(test)]
pub(crate) fn events_in_block(bytes: &[u8; BLOCK], ring: u64) -> Vec<RecordedEvent> {
    let StoredBlock::Whole(block) = StoredBlock::read(bytes, ring) else { return Vec::new() };
    let of_it = block.records().filter(|(kind, _)| *kind == 5);
    of_it.filter_map(|(_, record)| RecordedEvent::decode(&mut VarintReader::new(record))).collect()
}
