//! For tests and fuzz targets of other crates: blocks as the recorder writes them.

use crate::ring::{Record, RingFile, Writer};
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
