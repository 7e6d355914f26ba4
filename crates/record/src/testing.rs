//! For tests and fuzz targets of other crates: blocks as the recorder writes them.

use crate::ring::{About, BLOCK, HEADERS, Header, Kind, Record, RingFile, Writer, put_at};
use crate::{Event, EventKind, Field, Instance, Instances, Pool, Process, Processes, Sample};

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

    /// Adds a look at processes.
    pub fn push_processes(&mut self, ring: &RingFile, processes: &Processes) {
        self.add(ring, processes.wall, &Record::Processes(processes));
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

/// A ring that decodes whole and whose numbers are as large, as small and as far from one another as they can be; each byte
/// chooses one.
pub fn with_extremes(choices: &[u8]) -> Vec<u8> {
    const EXTREMES: [u64; 8] = [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, u64::MAX / 100 + 1, 3_000_000];
    let mut choices = choices.iter();
    let mut next = move || {
        let choice = choices.next().copied().unwrap_or(0);
        (choice < 200).then(|| EXTREMES.get(usize::from(choice % 8)).copied().unwrap_or(0))
    };
    let mut writer = Writer::new(7, 1, 0);
    let header = Header { kind: Kind::Seconds, blocks: 16, ring: 7, about: About::default() };
    let mut ring = [header.encode(), header.encode()].concat();
    for _ in 0..8 {
        let number = |value: Option<u64>| value.unwrap_or(0);
        let mut sample = Sample::default();
        (sample.wall, sample.uptime) = (number(next()).cast_signed(), number(next()));
        for field in Field::ALL {
            if let Some(value) = next() {
                sample.set(*field, value);
            }
        }
        let pool = Pool { page_kib: number(next()), total: next(), free: next(), reserved: next(), ..Pool::default() };
        sample.push_pool(pool);
        let mut processes = Processes { wall: sample.wall, processes: number(next()), ..Processes::default() };
        let mut instances = Instances { wall: sample.wall, age_ms: number(next()), ..Instances::default() };
        for pid in 0..2 {
            processes.push(Process {
                pid,
                state: b'D',
                resident_kib: next(),
                user_ms: number(next()),
                ..Process::default()
            });
            instances.push(Instance { processes: number(next()), sessions: next(), ..Instance::default() });
        }
        let event = Event::new(sample.wall, EventKind::Recorder, b"words");
        for record in [
            Record::Sample(&sample),
            Record::Processes(&processes),
            Record::Instances(&instances),
            Record::Event(&event),
        ] {
            if !writer.push(sample.wall, &record) {
                ring.extend_from_slice(writer.sealed(true));
                writer.next();
                writer.push(sample.wall, &record);
            }
        }
    }
    ring.extend_from_slice(writer.sealed(true));
    ring.resize((HEADERS + 16) * BLOCK, 0);
    ring
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
