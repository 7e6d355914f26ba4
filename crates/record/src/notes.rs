//! What a ring holds beside samples: processes, instances, what the kernel said, and the recorder's own words.

use crate::varint::{Put, Take};

/// Processes of one look that are kept.
pub const MOST_PROCESSES: usize = 24;
/// Instances of one look that are kept.
pub const MOST_INSTANCES: usize = 32;
/// Bytes of a message of the kernel that are kept.
pub const LONGEST_MESSAGE: usize = 320;
/// Bytes of a name that are kept.
const LONGEST_NAME: usize = 48;

/// A text of fixed room, as somebody on the host chose it: whoever shows it escapes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name {
    bytes: [u8; LONGEST_NAME],
    length: u8,
}

impl Default for Name {
    fn default() -> Self {
        Self { bytes: [0; LONGEST_NAME], length: 0 }
    }
}

impl Name {
    /// As much of it as there is room for.
    pub fn new(text: &[u8]) -> Self {
        let mut name = Self::default();
        let length = text.len().min(LONGEST_NAME);
        if let (Some(place), Some(text)) = (name.bytes.get_mut(..length), text.get(..length)) {
            place.copy_from_slice(text);
            name.length = u8::try_from(length).unwrap_or(0);
        }
        name
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// As text; what is none is replaced. Control characters are left in.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

/// One process of those that changed most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// As the scheduler shows it: R, S, D, Z.
    pub state: u8,
    /// Its command, as it may name itself.
    pub command: Name,
    /// Milliseconds of a processor in the kernel since the look before.
    pub system_ms: u64,
    /// Milliseconds of a processor in its own code since the look before.
    pub user_ms: u64,
    /// VmPTE; `None` for threads of the kernel.
    pub page_tables_kib: Option<u64>,
    /// By how much that grew since the look before.
    pub page_tables_grown_kib: i64,
    /// VmRSS.
    pub resident_kib: Option<u64>,
    /// By how much that grew.
    pub resident_grown_kib: i64,
    /// Where in the kernel it waits, of one in state D.
    pub wait: Name,
    /// The top of its stack in the kernel, of one in state D and where root looks: up to three functions with `<` between.
    pub stack: Name,
}

/// All processes at one moment, and those that changed most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processes {
    /// Milliseconds since 1970.
    pub wall: i64,
    /// Since the look before, in milliseconds; 0 for the first.
    pub interval_ms: u64,
    /// Processes, threads of the kernel among them.
    pub processes: u64,
    /// Those in state D.
    pub blocked: u64,
    /// Processes whose figures are older than this look, as it had no time for them.
    pub left_out: u64,
    /// VmPTE of all of them together.
    pub page_tables_kib: u64,
    pub(crate) listed: [Process; MOST_PROCESSES],
    pub(crate) count: usize,
}

impl Default for Processes {
    fn default() -> Self {
        Self {
            wall: 0,
            interval_ms: 0,
            processes: 0,
            blocked: 0,
            left_out: 0,
            page_tables_kib: 0,
            listed: [Process::default(); MOST_PROCESSES],
            count: 0,
        }
    }
}

impl Processes {
    /// Those that changed most.
    pub fn listed(&self) -> &[Process] {
        self.listed.get(..self.count).unwrap_or_default()
    }

    /// Adds one; whether there was room.
    pub fn push(&mut self, process: Process) -> bool {
        let Some(place) = self.listed.get_mut(self.count) else { return false };
        *place = process;
        self.count += 1;
        true
    }

    pub(crate) fn encode(&self, put: &mut Put<'_>) {
        put.signed(self.wall);
        for number in [self.interval_ms, self.processes, self.blocked, self.left_out, self.page_tables_kib] {
            put.number(number);
        }
        put.number(u64::try_from(self.count).unwrap_or(0));
        for process in self.listed() {
            put.number(u64::from(process.pid));
            put.byte(process.state);
            put.text(process.command.bytes(), 16);
            put.number(process.system_ms);
            put.number(process.user_ms);
            for (now, grown) in [
                (process.page_tables_kib, process.page_tables_grown_kib),
                (process.resident_kib, process.resident_grown_kib),
            ] {
                put.number(now.map_or(0, |now| now.saturating_add(1)));
                put.signed(grown);
            }
            put.text(process.wait.bytes(), LONGEST_NAME);
            put.text(process.stack.bytes(), LONGEST_NAME);
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Option<Self> {
        let mut all = Self {
            wall: take.signed()?,
            interval_ms: take.number()?,
            processes: take.number()?,
            blocked: take.number()?,
            left_out: take.number()?,
            page_tables_kib: take.number()?,
            ..Self::default()
        };
        let count: usize = take.small()?;
        for _ in 0..count {
            let mut process = Process {
                pid: take.small()?,
                state: take.byte()?,
                command: Name::new(take.text()?),
                system_ms: take.number()?,
                user_ms: take.number()?,
                ..Process::default()
            };
            process.page_tables_kib = take.number()?.checked_sub(1);
            process.page_tables_grown_kib = take.signed()?;
            process.resident_kib = take.number()?.checked_sub(1);
            process.resident_grown_kib = take.signed()?;
            process.wait = Name::new(take.text()?);
            process.stack = Name::new(take.text()?);
            if !all.push(process) {
                return None;
            }
        }
        Some(all)
    }
}

/// One database server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// As `check` calls it: `postgresql 15/main`.
    pub name: Name,
    /// Its processes that were there.
    pub processes: u64,
    /// Sessions, where the engine's processes tell.
    pub sessions: Option<u64>,
    /// VmPTE of its processes together.
    pub page_tables_kib: u64,
}

/// The database servers at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instances {
    /// Milliseconds since 1970.
    pub wall: i64,
    /// How many milliseconds ago it was found out which processes are whose.
    pub age_ms: u64,
    pub(crate) listed: [Instance; MOST_INSTANCES],
    pub(crate) count: usize,
}

impl Default for Instances {
    fn default() -> Self {
        Self { wall: 0, age_ms: 0, listed: [Instance::default(); MOST_INSTANCES], count: 0 }
    }
}

impl Instances {
    /// The servers.
    pub fn listed(&self) -> &[Instance] {
        self.listed.get(..self.count).unwrap_or_default()
    }

    /// The same, to be changed.
    pub(crate) fn listed_mut(&mut self) -> &mut [Instance] {
        self.listed.get_mut(..self.count).unwrap_or_default()
    }

    /// Adds one; whether there was room.
    pub fn push(&mut self, instance: Instance) -> bool {
        let Some(place) = self.listed.get_mut(self.count) else { return false };
        *place = instance;
        self.count += 1;
        true
    }

    pub(crate) fn encode(&self, put: &mut Put<'_>) {
        put.signed(self.wall);
        put.number(self.age_ms);
        put.number(u64::try_from(self.count).unwrap_or(0));
        for instance in self.listed() {
            put.text(instance.name.bytes(), LONGEST_NAME);
            put.number(instance.processes);
            put.number(instance.sessions.map_or(0, |sessions| sessions.saturating_add(1)));
            put.number(instance.page_tables_kib);
        }
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Option<Self> {
        let mut all = Self { wall: take.signed()?, age_ms: take.number()?, ..Self::default() };
        let count: usize = take.small()?;
        for _ in 0..count {
            let instance = Instance {
                name: Name::new(take.text()?),
                processes: take.number()?,
                sessions: take.number()?.checked_sub(1),
                page_tables_kib: take.number()?,
            };
            if !all.push(instance) {
                return None;
            }
        }
        Some(all)
    }
}

/// What somebody said at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
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

/// How many kinds there are.
pub(crate) const KINDS: usize = EventKind::ALL.len();

impl EventKind {
    /// By its number in the format.
    pub(crate) const ALL: [Self; 6] =
        [Self::OutOfMemory, Self::HungTask, Self::AllocationFailure, Self::Lockup, Self::Damage, Self::Recorder];

    /// Its number in the format.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// As other programs know it.
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

/// What was said at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Milliseconds since 1970.
    pub wall: i64,
    /// What it is about.
    pub kind: EventKind,
    text: [u8; LONGEST_MESSAGE],
    length: u16,
}

impl Event {
    /// As much of the text as there is room for.
    pub fn new(wall: i64, kind: EventKind, text: &[u8]) -> Self {
        let mut event = Self { wall, kind, text: [0; LONGEST_MESSAGE], length: 0 };
        let length = text.len().min(LONGEST_MESSAGE);
        if let (Some(place), Some(text)) = (event.text.get_mut(..length), text.get(..length)) {
            place.copy_from_slice(text);
            event.length = u16::try_from(length).unwrap_or(0);
        }
        event
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.text.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// As text; names in it are those that users gave their processes, control characters and all.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    pub(crate) fn encode(&self, put: &mut Put<'_>) {
        put.signed(self.wall);
        put.byte(u8::try_from(self.kind.index()).unwrap_or(0));
        put.text(self.bytes(), LONGEST_MESSAGE);
    }

    pub(crate) fn decode(take: &mut Take<'_>) -> Option<Self> {
        let wall = take.signed()?;
        let kind = EventKind::ALL.get(usize::from(take.byte()?))?;
        Some(Self::new(wall, *kind, take.text()?))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn round<T>(encode: impl Fn(&mut Put<'_>), decode: impl Fn(&mut Take<'_>) -> Option<T>) -> T {
        let mut room = [0; 4000];
        let mut put = Put::new(&mut room);
        encode(&mut put);
        let used = put.used().unwrap();
        for cut in 0..used {
            assert!(decode(&mut Take::new(&room[..cut])).is_none(), "cut at {cut} of {used}");
        }
        decode(&mut Take::new(&room[..used])).unwrap()
    }

    #[test]
    fn what_was_put_is_taken_and_a_part_of_it_is_nothing() {
        let mut processes = Processes {
            wall: 1_795_306_507_123,
            interval_ms: 5001,
            processes: 412,
            blocked: 1,
            ..Processes::default()
        };
        let hung = Process {
            pid: 4_194_303,
            state: b'D',
            command: Name::new(b"oracle\x1b[31m_1"),
            system_ms: 4_999,
            user_ms: 0,
            page_tables_kib: Some(0),
            page_tables_grown_kib: -12,
            resident_kib: Some(5),
            resident_grown_kib: i64::MIN,
            wait: Name::new(b"io_schedule"),
            stack: Name::new(&[b'x'; 90]),
        };
        let thread = Process { pid: 2, state: b'R', command: Name::new(b"kswapd0"), ..Process::default() };
        assert!(processes.push(hung) && processes.push(thread));
        let read = round(|put| processes.encode(put), Processes::decode);
        assert_eq!(read, processes);
        assert_eq!(read.listed()[0].stack.bytes().len(), LONGEST_NAME);
        assert_eq!((read.listed()[0].page_tables_kib, read.listed()[1].page_tables_kib), (Some(0), None));

        let mut instances = Instances { wall: -5, age_ms: 61_000, ..Instances::default() };
        for sessions in [None, Some(0), Some(300)] {
            instances.push(Instance {
                name: Name::new("oracle DB1".as_bytes()),
                processes: 320,
                sessions,
                page_tables_kib: 7,
            });
        }
        assert_eq!(round(|put| instances.encode(put), Instances::decode), instances);

        for kind in EventKind::ALL {
            let event = Event::new(9, kind, &[b'k'; 1000]);
            assert_eq!(round(|put| event.encode(put), Event::decode), event);
            assert_eq!(event.bytes().len(), LONGEST_MESSAGE);
        }
    }

    #[test]
    fn there_is_room_for_so_many_and_all_of_them_fit_in_a_block() {
        let mut processes = Processes::default();
        let long = Process {
            pid: u32::MAX,
            command: Name::new(&[b'c'; 48]),
            system_ms: 5_000_000,
            user_ms: 5_000_000,
            page_tables_kib: Some(1 << 40),
            resident_kib: Some(1 << 40),
            resident_grown_kib: 1 << 40,
            page_tables_grown_kib: 1 << 40,
            wait: Name::new(&[b'w'; 48]),
            stack: Name::new(&[b's'; 48]),
            ..Process::default()
        };
        assert_eq!((0..100).filter(|_| processes.push(long)).count(), MOST_PROCESSES);
        let mut room = [0; crate::ring::PAYLOAD - 8];
        let mut put = Put::new(&mut room);
        processes.encode(&mut put);
        assert!(put.used().is_some());
        let mut instances = Instances::default();
        let one = Instance {
            name: Name::new(&[b'n'; 48]),
            processes: 1 << 40,
            sessions: Some(1 << 40),
            page_tables_kib: 1 << 40,
        };
        assert_eq!((0..100).filter(|_| instances.push(one)).count(), MOST_INSTANCES);
        let mut put = Put::new(&mut room);
        instances.encode(&mut put);
        assert!(put.used().is_some());
    }
}
