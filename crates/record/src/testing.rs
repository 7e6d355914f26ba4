//! For tests and fuzz targets of other crates: blocks as the recorder writes them.

use crate::ring::{About, BLOCK, HEADERS, Header, Kind, Record, RingFile, Writer, put_at};
use crate::{Event, Sample};

/// A block that is being filled and written at each step.
pub struct Blocks(Writer);

impl Blocks {
    /// Of a ring, from that block on.
    pub fn of(ring: &RingFile, next: u64) -> Self {
        Self(Writer::new(ring.header().ring, ring.header().about.run, next))
    }

    /// Adds a sample; four seconds make a block.
    pub fn push(&mut self, ring: &RingFile, sample: &Sample) {
        if self.0.age(sample.uptime) >= 4000 {
            self.0.next();
        }
        self.add(ring, sample.wall, &Record::Sample(sample));
    }

    /// Adds an event.
    pub fn push_event(&mut self, ring: &RingFile, event: &Event) {
        self.add(ring, event.wall, &Record::Event(event));
    }

    fn add(&mut self, ring: &RingFile, wall: i64, record: &Record<'_>) {
        if !self.0.push(wall, record) {
            self.0.next();
            self.0.push(wall, record);
        }
        let sequence = self.0.sequence();
        // What a test wants to see is then not there.
        let _ = ring.write(sequence, self.0.sealed(false));
    }
}

/// A ring of eight blocks whose blocks hold these bytes as their records, with whole headers and checksums: what gets past them.
pub fn with_checksums(payload: &[u8]) -> Vec<u8> {
    let header = Header { kind: Kind::Seconds, blocks: 8, ring: 7, about: About::default() };
    let mut ring = [header.encode(), header.encode()].concat();
    for (sequence, part) in (0_u64..8).zip(payload.chunks(crate::ring::PAYLOAD)) {
        let mut block = [0; BLOCK];
        put_at(&mut block, 0, b"HWRB");
        put_at(&mut block, 8, &sequence.to_le_bytes());
        put_at(&mut block, 16, &header.ring.to_le_bytes());
        put_at(&mut block, 40, &u16::try_from(part.len()).unwrap_or(0).to_le_bytes());
        put_at(&mut block, 48, part);
        let sum = crate::crc::crc32c(block.get(8..).unwrap_or_default());
        put_at(&mut block, 4, &sum.to_le_bytes());
        ring.extend_from_slice(&block);
    }
    ring.resize((HEADERS + 8) * BLOCK, 0);
    ring
}
