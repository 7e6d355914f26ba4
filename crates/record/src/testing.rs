//! For tests and fuzz targets of other crates: blocks as the recorder writes them.

use crate::ring::{
    About, BLOCK, BlockWriter, HEADERS, RingFile, RingHeader, RingKind, RingRecord, put_at,
};
use crate::{
    Field, HostSample, Instances, RecordedEvent, RecordedEventKind, RecordedInstance, RecordedPool,
    RecordedProcess, RecordedProcesses,
};

/// A block that is being filled and written at each step.
pub struct Blocks(BlockWriter);

impl Blocks {
    /// Of a ring, from that block on.
    pub fn of(ring: &RingFile, next: u64) -> Self {
        Self(BlockWriter::new(ring.header().ring, ring.header().about.run, next))
    }

    /// Adds a sample; four seconds make a block.
    pub fn push(&mut self, ring: &RingFile, sample: &HostSample) {
        if self.0.age_at_uptime(sample.uptime) >= 4000 {
            self.0.next();
        }
        self.add(ring, sample.wall, &RingRecord::Sample(sample));
    }

    /// Adds an event.
    pub fn push_event(&mut self, ring: &RingFile, event: &RecordedEvent) {
        self.add(ring, event.wall, &RingRecord::Event(event));
    }

    /// Adds a look at processes.
    pub fn push_processes(&mut self, ring: &RingFile, processes: &RecordedProcesses) {
        self.add(ring, processes.wall, &RingRecord::Processes(processes));
    }

    fn add(&mut self, ring: &RingFile, wall: i64, record: &RingRecord<'_>) {
        if !self.0.push(wall, record) {
            self.0.next();
            self.0.push(wall, record);
        }
        let sequence = self.0.sequence();
        // What a test wants to see is then not there.
        let _ = ring.write(sequence, self.0.seal_block(false));
    }
}

/// A ring that decodes whole and whose numbers are as large, as small and as far from one another
/// as they can be; each byte chooses one.
pub fn with_extremes(choices: &[u8]) -> Vec<u8> {
    const EXTREMES: [u64; 8] =
        [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, u64::MAX / 100 + 1, 3_000_000];
    let mut choices = choices.iter();
    let mut next = move || {
        let choice = choices.next().copied().unwrap_or(0);
        (choice < 200).then(|| EXTREMES.get(usize::from(choice % 8)).copied().unwrap_or(0))
    };
    let mut writer = BlockWriter::new(7, 1, 0);
    let header =
        RingHeader { kind: RingKind::Seconds, blocks: 16, ring: 7, about: About::default() };
    let mut ring = [header.encode(), header.encode()].concat();
    for _ in 0..8 {
        let number = |value: Option<u64>| value.unwrap_or(0);
        let mut sample = HostSample::default();
        (sample.wall, sample.uptime) = (number(next()).cast_signed(), number(next()));
        for field in Field::ALL {
            if let Some(value) = next() {
                sample.set(*field, value);
            }
        }
        let pool = RecordedPool {
            page_kib: number(next()),
            total: next(),
            free: next(),
            reserved: next(),
            ..RecordedPool::default()
        };
        sample.push_pool(pool);
        let (processes, instances) = extreme_processes(sample.wall, &mut next);
        let event = RecordedEvent::new(sample.wall, RecordedEventKind::Recorder, b"words");
        for record in [
            RingRecord::Sample(&sample),
            RingRecord::Processes(&processes),
            RingRecord::Instances(&instances),
            RingRecord::Event(&event),
        ] {
            if !writer.push(sample.wall, &record) {
                ring.extend_from_slice(writer.seal_block(true));
                writer.next();
                writer.push(sample.wall, &record);
            }
        }
    }
    ring.extend_from_slice(writer.seal_block(true));
    ring.resize((HEADERS + 16) * BLOCK, 0);
    ring
}

fn extreme_processes(
    wall: i64,
    next: &mut impl FnMut() -> Option<u64>,
) -> (RecordedProcesses, Instances) {
    let mut number = || next().unwrap_or(0);
    let mut processes =
        RecordedProcesses { wall, processes: number(), ..RecordedProcesses::default() };
    let mut instances = Instances { wall, age_ms: number(), ..Instances::default() };
    for pid in 0..2 {
        processes.push(RecordedProcess {
            pid,
            state: b'D',
            resident_kib: next(),
            user_ms: next().unwrap_or(0),
            ..RecordedProcess::default()
        });
        instances.push(RecordedInstance {
            processes: next().unwrap_or(0),
            sessions: next(),
            ..RecordedInstance::default()
        });
    }
    (processes, instances)
}

/// A ring of eight blocks whose blocks hold these bytes as their records, with whole headers and
/// checksums: what gets past them.
pub fn with_checksums(payload: &[u8]) -> Vec<u8> {
    let header =
        RingHeader { kind: RingKind::Seconds, blocks: 8, ring: 7, about: About::default() };
    let mut ring = [header.encode(), header.encode()].concat();
    for (sequence, part) in (0_u64..8).zip(payload.chunks(crate::ring::PAYLOAD)) {
        let mut block = [0; BLOCK];
        put_at(&mut block, 0, b"HWRB");
        put_at(&mut block, 8, &sequence.to_le_bytes());
        put_at(&mut block, 16, &header.ring.to_le_bytes());
        put_at(&mut block, 40, &u16::try_from(part.len()).unwrap_or(0).to_le_bytes());
        put_at(&mut block, 48, part);
        let sum = crate::CRC32C.checksum(block.get(8..).unwrap_or_default());
        put_at(&mut block, 4, &sum.to_le_bytes());
        ring.extend_from_slice(&block);
    }
    ring.resize((HEADERS + 8) * BLOCK, 0);
    ring
}
