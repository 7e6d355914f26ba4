//! What a ring holds besides samples: processes, instances, and messages of the kernel and of the
//! recorder.

use crate::bounded_list::BoundedList;
use crate::varint::{VarintReader, VarintWriter};

/// Most processes of one look.
pub const MOST_PROCESSES: usize = 24;
/// Most instances of one look.
pub const MOST_INSTANCES: usize = 32;
/// Most bytes of a kernel message.
pub const LONGEST_MESSAGE: usize = 320;
const LONGEST_NAME: usize = 48;

/// A text of fixed room, as somebody on the host chose it: whoever shows it escapes it.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct BoundedName(BoundedList<u8, LONGEST_NAME>);

impl BoundedName {
    /// As much of it as there is room for.
    pub fn new(text: &[u8]) -> Self {
        Self(text.into())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As text, with control characters; invalid bytes are replaced.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }
}

impl std::fmt::Debug for BoundedName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.to_text())
    }
}

/// One process of those that changed most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedProcess {
    /// Its id.
    pub pid: u32,
    /// The scheduler's letter: R, S, D, Z.
    pub state: u8,
    /// Its command, as it may name itself.
    pub command: BoundedName,
    /// Milliseconds of processor time in the kernel since the look before.
    pub system_ms: u64,
    /// Milliseconds of processor time in its own code since the look before.
    pub user_ms: u64,
    /// VmPTE; `None` for kernel threads.
    pub page_tables_kib: Option<u64>,
    /// Growth since the look before.
    pub page_tables_grown_kib: i64,
    /// VmRSS.
    pub resident_kib: Option<u64>,
    /// Growth since the look before.
    pub resident_grown_kib: i64,
    /// Where in the kernel it waits, in state D.
    pub wait: BoundedName,
    /// The top of its kernel stack, in state D and if root looks: up to three functions with `<`
    /// between.
    pub stack: BoundedName,
}

/// All processes at one moment, and those that changed most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedProcesses {
    /// Milliseconds since 1970.
    pub wall: i64,
    /// Since the look before, in milliseconds; 0 for the first.
    pub interval_ms: u64,
    /// Processes, kernel threads included.
    pub processes: u64,
    /// Those in state D.
    pub blocked: u64,
    /// Processes for which this look had no time: their figures are older.
    pub left_out: u64,
    /// VmPTE of all of them.
    pub page_tables_kib: u64,
    pub(crate) listed: BoundedList<RecordedProcess, MOST_PROCESSES>,
}

impl RecordedProcesses {
    /// Those that changed most.
    pub fn listed_processes(&self) -> &[RecordedProcess] {
        &self.listed
    }

    /// Adds one; false where there is no room.
    pub fn push(&mut self, process: RecordedProcess) -> bool {
        self.listed.push(process)
    }

    pub(crate) fn encode(&self, put: &mut VarintWriter<'_>) {
        put.write_signed(self.wall);
        for number in
            [self.interval_ms, self.processes, self.blocked, self.left_out, self.page_tables_kib]
        {
            put.write_number(number);
        }
        put.write_number(u64::try_from(self.listed.len()).unwrap_or(0));
        for process in self.listed_processes() {
            put.write_number(u64::from(process.pid));
            put.write_byte(process.state);
            put.write_text(process.command.as_bytes(), 16);
            put.write_number(process.system_ms);
            put.write_number(process.user_ms);
            for (now, grown) in [
                (process.page_tables_kib, process.page_tables_grown_kib),
                (process.resident_kib, process.resident_grown_kib),
            ] {
                put.write_number(now.map_or(0, |now| now.saturating_add(1)));
                put.write_signed(grown);
            }
            put.write_text(process.wait.as_bytes(), LONGEST_NAME);
            put.write_text(process.stack.as_bytes(), LONGEST_NAME);
        }
    }

    pub(crate) fn decode(take: &mut VarintReader<'_>) -> Option<Self> {
        let mut all = Self {
            wall: take.read_signed()?,
            interval_ms: take.read_number()?,
            processes: take.read_number()?,
            blocked: take.read_number()?,
            left_out: take.read_number()?,
            page_tables_kib: take.read_number()?,
            ..Self::default()
        };
        let count: usize = take.read_small()?;
        for _ in 0..count {
            let mut process = RecordedProcess {
                pid: take.read_small()?,
                state: take.read_byte()?,
                command: BoundedName::new(take.read_text()?),
                system_ms: take.read_number()?,
                user_ms: take.read_number()?,
                ..RecordedProcess::default()
            };
            process.page_tables_kib = take.read_number()?.checked_sub(1);
            process.page_tables_grown_kib = take.read_signed()?;
            process.resident_kib = take.read_number()?.checked_sub(1);
            process.resident_grown_kib = take.read_signed()?;
            process.wait = BoundedName::new(take.read_text()?);
            process.stack = BoundedName::new(take.read_text()?);
            if !all.push(process) {
                return None;
            }
        }
        Some(all)
    }
}

/// One database server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedInstance {
    /// Its name in `check`: `postgresql 15/main`.
    pub name: BoundedName,
    /// Its running processes.
    pub processes: u64,
    /// Sessions, where the engine's processes show them.
    pub sessions: Option<u64>,
    /// VmPTE of its processes.
    pub page_tables_kib: u64,
}

/// The database servers at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instances {
    /// Milliseconds since 1970.
    pub wall: i64,
    /// Milliseconds since the servers' processes were looked up.
    pub age_ms: u64,
    pub(crate) listed: BoundedList<RecordedInstance, MOST_INSTANCES>,
}

impl Instances {
    /// The servers.
    pub fn listed_instances(&self) -> &[RecordedInstance] {
        &self.listed
    }

    /// Adds one; false where there is no room.
    pub fn push(&mut self, instance: RecordedInstance) -> bool {
        self.listed.push(instance)
    }

    pub(crate) fn encode(&self, put: &mut VarintWriter<'_>) {
        put.write_signed(self.wall);
        put.write_number(self.age_ms);
        put.write_number(u64::try_from(self.listed.len()).unwrap_or(0));
        for instance in self.listed_instances() {
            put.write_text(instance.name.as_bytes(), LONGEST_NAME);
            put.write_number(instance.processes);
            put.write_number(instance.sessions.map_or(0, |sessions| sessions.saturating_add(1)));
            put.write_number(instance.page_tables_kib);
        }
    }

    pub(crate) fn decode(take: &mut VarintReader<'_>) -> Option<Self> {
        let mut all =
            Self { wall: take.read_signed()?, age_ms: take.read_number()?, ..Self::default() };
        let count: usize = take.read_small()?;
        for _ in 0..count {
            let instance = RecordedInstance {
                name: BoundedName::new(take.read_text()?),
                processes: take.read_number()?,
                sessions: take.read_number()?.checked_sub(1),
                page_tables_kib: take.read_number()?,
            };
            if !all.push(instance) {
                return None;
            }
        }
        Some(all)
    }
}

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedEventKind {
    /// The kernel ran out of memory, or killed a process for it.
    OutOfMemory,
    /// A task was blocked for longer than khungtaskd allows.
    HungTask,
    /// An allocation failed; its order is in the text.
    AllocationFailure,
    /// A processor did nothing else for longer than the watchdog allows.
    Lockup,
    /// The kernel found memory or itself damaged.
    Damage,
    /// The recorder's own words: what it left out, lost, or did.
    Recorder,
}

pub(crate) const KINDS: usize = RecordedEventKind::ALL.len();

impl RecordedEventKind {
    pub(crate) const ALL: [Self; 6] = [
        Self::OutOfMemory,
        Self::HungTask,
        Self::AllocationFailure,
        Self::Lockup,
        Self::Damage,
        Self::Recorder,
    ];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Its name in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OutOfMemory => "out-of-memory",
            Self::HungTask => "hung-task",
            Self::AllocationFailure => "allocation-failure",
            Self::Lockup => "lockup",
            Self::Damage => "damage",
            Self::Recorder => "recorder",
        }
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// Milliseconds since 1970.
    pub wall: i64,
    /// Its kind.
    pub kind: RecordedEventKind,
    text: BoundedList<u8, LONGEST_MESSAGE>,
}

impl RecordedEvent {
    /// As much of the text as there is room for.
    pub fn new(wall: i64, kind: RecordedEventKind, text: &[u8]) -> Self {
        Self { wall, kind, text: text.into() }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// As text; users chose the names in it, with control characters.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }

    pub(crate) fn encode(&self, put: &mut VarintWriter<'_>) {
        put.write_signed(self.wall);
        put.write_byte(u8::try_from(self.kind.index()).unwrap_or(0));
        put.write_text(self.as_bytes(), LONGEST_MESSAGE);
    }

    pub(crate) fn decode(take: &mut VarintReader<'_>) -> Option<Self> {
        let wall = take.read_signed()?;
        let kind = RecordedEventKind::ALL.get(usize::from(take.read_byte()?))?;
        Some(Self::new(wall, *kind, take.read_text()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T>(
        encode: impl Fn(&mut VarintWriter<'_>),
        decode: impl Fn(&mut VarintReader<'_>) -> Option<T>,
    ) -> T {
        let mut room = [0; 4000];
        let mut put = VarintWriter::new(&mut room);
        encode(&mut put);
        let used = put.bytes_written().unwrap();
        for cut in 0..used {
            assert!(
                decode(&mut VarintReader::new(&room[..cut])).is_none(),
                "cut at {cut} of {used}"
            );
        }
        decode(&mut VarintReader::new(&room[..used])).unwrap()
    }

    #[test]
    fn what_was_put_is_taken_and_a_part_of_it_is_nothing() {
        let mut processes = RecordedProcesses {
            wall: 1_795_306_507_123,
            interval_ms: 5001,
            processes: 412,
            blocked: 1,
            ..RecordedProcesses::default()
        };
        let hung = RecordedProcess {
            pid: 4_194_303,
            state: b'D',
            command: BoundedName::new(b"oracle\x1b[31m_1"),
            system_ms: 4_999,
            user_ms: 0,
            page_tables_kib: Some(0),
            page_tables_grown_kib: -12,
            resident_kib: Some(5),
            resident_grown_kib: i64::MIN,
            wait: BoundedName::new(b"io_schedule"),
            stack: BoundedName::new(&[b'x'; 90]),
        };
        let thread = RecordedProcess {
            pid: 2,
            state: b'R',
            command: BoundedName::new(b"kswapd0"),
            ..RecordedProcess::default()
        };
        assert!(processes.push(hung) && processes.push(thread));
        let read = round_trip(|put| processes.encode(put), RecordedProcesses::decode);
        assert_eq!(read, processes);
        assert_eq!(read.listed_processes()[0].stack.as_bytes().len(), LONGEST_NAME);
        assert_eq!(
            (
                read.listed_processes()[0].page_tables_kib,
                read.listed_processes()[1].page_tables_kib
            ),
            (Some(0), None)
        );

        let mut instances = Instances { wall: -5, age_ms: 61_000, ..Instances::default() };
        for sessions in [None, Some(0), Some(300)] {
            instances.push(RecordedInstance {
                name: BoundedName::new("oracle DB1".as_bytes()),
                processes: 320,
                sessions,
                page_tables_kib: 7,
            });
        }
        assert_eq!(round_trip(|put| instances.encode(put), Instances::decode), instances);

        for kind in RecordedEventKind::ALL {
            let event = RecordedEvent::new(9, kind, &[b'k'; 1000]);
            assert_eq!(round_trip(|put| event.encode(put), RecordedEvent::decode), event);
            assert_eq!(event.as_bytes().len(), LONGEST_MESSAGE);
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_all_of_them_fit_in_a_block() {
        let mut processes = RecordedProcesses::default();
        let long = RecordedProcess {
            pid: u32::MAX,
            command: BoundedName::new(&[b'c'; 48]),
            system_ms: 5_000_000,
            user_ms: 5_000_000,
            page_tables_kib: Some(1 << 40),
            resident_kib: Some(1 << 40),
            resident_grown_kib: 1 << 40,
            page_tables_grown_kib: 1 << 40,
            wait: BoundedName::new(&[b'w'; 48]),
            stack: BoundedName::new(&[b's'; 48]),
            ..RecordedProcess::default()
        };
        assert_eq!((0..100).filter(|_| processes.push(long)).count(), MOST_PROCESSES);
        let mut room = [0; crate::ring::PAYLOAD - 8];
        let mut put = VarintWriter::new(&mut room);
        processes.encode(&mut put);
        assert!(put.bytes_written().is_some());
        let mut instances = Instances::default();
        let one = RecordedInstance {
            name: BoundedName::new(&[b'n'; 48]),
            processes: 1 << 40,
            sessions: Some(1 << 40),
            page_tables_kib: 1 << 40,
        };
        assert_eq!((0..100).filter(|_| instances.push(one)).count(), MOST_INSTANCES);
        let mut put = VarintWriter::new(&mut room);
        instances.encode(&mut put);
        assert!(put.bytes_written().is_some());
    }
}
