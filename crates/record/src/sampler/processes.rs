//! The thread that looks at processes. It opens files, which a host without memory may make it wait for: a thread of its own.
//!
//! A process that has not run since the look before is not read: its clock (clock_getcpuclockid(3)) tells, without a file.

use std::fmt::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hugewise_host::sys::cpu_time;
use rustix::fs::{CWD, Mode, OFlags, RawDir, SeekFrom, openat, seek};

use super::stat::{page_tables, stack_top, stat};
use super::table::{Known, NOBODY, choose};
use super::{KernelThreads, Look, Shared, used, wall};
use crate::Field;
use crate::kernel::number;
use crate::notes::{Instances, Name, Processes};

/// From one look to the next.
const INTERVAL: Duration = Duration::from_secs(5);
/// Nanoseconds of a processor that a look may take: 0.3 % of one.
const BUDGET: u64 = 15_000_000;
/// The first look reads every process there is.
const FIRST_BUDGET: u64 = 20 * BUDGET;
/// Processes that are known at a time.
const MOST: usize = 8192;
const PAGE: usize = 4096;

/// The watch.
pub(crate) struct ProcessWatch {
    shared: Arc<Shared>,
    proc: OwnedFd,
    known: Vec<Known>,
    next: Vec<Known>,
    names: Box<[MaybeUninit<u8>; 32 << 10]>,
    buffer: Box<[u8; PAGE]>,
    /// Where the next look begins to read: where the last one ran out of time.
    from: u32,
    looks: u64,
    last: Option<Instant>,
    ticks: u64,
    page_kib: u64,
    report: Box<Processes>,
    look: Look,
    looked: Option<Instant>,
    instances: Box<Instances>,
    beyond: u64,
}

impl ProcessWatch {
    pub(crate) fn new(shared: Arc<Shared>, ticks: u64, page_kib: u64) -> std::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            shared,
            proc: openat(CWD, "/proc", flags, Mode::empty())?,
            known: touched(),
            next: touched(),
            names: Box::new([MaybeUninit::uninit(); 32 << 10]),
            buffer: Box::new([0; PAGE]),
            from: 0,
            looks: 0,
            last: None,
            ticks,
            page_kib,
            report: Box::default(),
            look: Look::default(),
            looked: None,
            instances: Box::default(),
            beyond: 0,
        })
    }

    /// Looks until the recorder ends.
    pub(crate) fn run(mut self) {
        let mut due = Instant::now();
        while !self.shared.is_over() {
            self.look();
            self.shared.used[1].store(used(), Ordering::Relaxed);
            due = (due + INTERVAL).max(Instant::now());
            while !self.shared.is_over() {
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                std::thread::sleep(left.min(Duration::from_millis(500)));
            }
        }
    }

    /// One look: who is there, who ran, what they hold, and who changed most.
    pub(crate) fn look(&mut self) {
        let begun = used();
        if self.list().is_err() {
            return;
        }
        let left_out = self.read(begun);
        let now = Instant::now();
        *self.report = Processes {
            wall: wall(),
            interval_ms: self.last.map_or(0, |last| milliseconds(now.duration_since(last))),
            processes: u64::try_from(self.known.len()).unwrap_or(0) + self.beyond,
            blocked: u64::try_from(self.known.iter().filter(|one| one.state == b'D').count()).unwrap_or(0),
            left_out: left_out + self.beyond,
            page_tables_kib: self.known.iter().map(|one| one.now.page_tables_kib).sum(),
            ..Processes::default()
        };
        let (proc, buffer) = (&self.proc, &mut *self.buffer);
        choose(&mut self.known, self.ticks, &mut self.report, &mut |one| waits(proc, one.pid, buffer));
        self.shared.processes.leave(&self.report);
        self.kernel_threads();
        self.own(now);
        self.last = Some(now);
        self.looks += 1;
    }

    /// The kernel lists processes by their numbers.
    fn list(&mut self) -> rustix::io::Result<()> {
        seek(&self.proc, SeekFrom::Start(0))?;
        self.next.clear();
        self.beyond = 0;
        let mut before = self.known.iter().peekable();
        let mut entries = RawDir::new(&self.proc, &mut *self.names);
        while let Some(entry) = entries.next() {
            let Some(pid) = number(entry?.file_name().to_bytes()).and_then(|pid| u32::try_from(pid).ok()) else {
                continue;
            };
            while before.next_if(|one| one.pid < pid).is_some() {}
            let known = before.next_if(|one| one.pid == pid);
            if self.next.len() == MOST {
                self.beyond += 1;
                continue;
            }
            let mut one = known.copied().unwrap_or_else(|| Known::new(pid));
            let clock = cpu_time(pid).map_or(0, |clock| u64::try_from(clock.as_nanos()).unwrap_or(0));
            one.tick(clock);
            self.next.push(one);
        }
        std::mem::swap(&mut self.known, &mut self.next);
        Ok(())
    }

    /// Reads those that ran, as long as there is time; how many are left.
    fn read(&mut self, begun: u64) -> u64 {
        let budget = if self.looks == 0 { FIRST_BUDGET } else { BUDGET };
        let first = self.known.partition_point(|one| one.pid < self.from);
        let (behind, before) = (first..self.known.len(), 0..first);
        let mut left_out = 0;
        self.from = 0;
        for place in behind.chain(before) {
            let Some(one) = self.known.get_mut(place).filter(|one| one.wanted) else { continue };
            if used().saturating_sub(begun) > budget {
                if left_out == 0 {
                    self.from = one.pid;
                }
                left_out += 1;
                continue;
            }
            let text = pid_file(&self.proc, one.pid, "stat", &mut self.buffer);
            let Some(stat) = text.and_then(stat) else {
                // It is gone.
                one.wanted = false;
                continue;
            };
            let tables = if stat.virtual_bytes > 0 {
                pid_file(&self.proc, one.pid, "status", &mut self.buffer).and_then(page_tables)
            } else {
                None
            };
            // Of one that is there at the first look nobody knows since when it holds what it holds.
            one.update(&stat, tables, self.page_kib, self.looks == 0);
        }
        left_out
    }

    fn kernel_threads(&self) {
        let mut found = KernelThreads::default();
        for one in self.known.iter().filter(|one| !one.has_memory) {
            let command = one.command();
            let field = if command.starts_with(b"kswapd") {
                Field::KswapdCpu
            } else if command.starts_with(b"kcompactd") {
                Field::KcompactdCpu
            } else if command == b"khugepaged" {
                Field::KhugepagedCpu
            } else {
                continue;
            };
            // A user may call his process so; the kernel's own are children of kthreadd.
            if let Some(place) = found.threads.get_mut(found.count).filter(|_| one.parent == 2) {
                *place = (field, one.pid);
                found.count += 1;
            }
        }
        self.shared.kernel_threads.leave(&found);
    }

    /// Adds processes up by the instances that they are of.
    fn own(&mut self, now: Instant) {
        if self.shared.look.fetch(&mut self.look) {
            self.looked = Some(now);
            for one in &mut self.known {
                one.owner = self.look.owner(one.pid);
            }
        }
        let Some(looked) = self.looked else { return };
        *self.instances =
            Instances { wall: wall(), age_ms: milliseconds(now.duration_since(looked)), ..Instances::default() };
        for instance in self.look.instances() {
            self.instances.push(*instance);
        }
        for instance in self.instances.listed_mut() {
            (instance.processes, instance.page_tables_kib) = (0, 0);
        }
        for place in 0..self.known.len() {
            let Some(one) = self.known.get(place).copied() else { break };
            let mut owner = one.owner;
            if owner == NOBODY && one.has_memory {
                // A session that logged in since: its server started it.
                let parent = self.known.binary_search_by_key(&one.parent, |other| other.pid);
                owner = parent.ok().and_then(|parent| self.known.get(parent)).map_or(NOBODY, |parent| parent.owner);
                if let Some(one) = self.known.get_mut(place) {
                    one.owner = owner;
                }
            }
            if let Some(instance) = self.instances.listed_mut().get_mut(usize::from(owner)) {
                instance.processes += 1;
                instance.page_tables_kib += one.now.page_tables_kib;
            }
        }
        self.look.count_sessions(self.instances.listed_mut());
        self.shared.instances.leave(&self.instances);
    }
}

/// Room for all that may be known, which is there from now on.
fn touched() -> Vec<Known> {
    let mut room = vec![Known::new(u32::MAX); MOST];
    room.clear();
    room
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Where a process waits in the kernel.
fn waits(proc: &OwnedFd, pid: u32, buffer: &mut [u8; PAGE]) -> (Name, Name) {
    let wait = pid_file(proc, pid, "wchan", buffer).filter(|text| *text != b"0").map_or(Name::default(), Name::new);
    let mut top = [0; 48];
    let used = pid_file(proc, pid, "stack", buffer).map_or(0, |text| stack_top(text, &mut top));
    (wait, Name::new(top.get(..used).unwrap_or_default()))
}

/// A path without an allocation.
struct Path {
    bytes: [u8; 32],
    used: usize,
}

impl std::fmt::Write for Path {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.used + text.len();
        self.bytes.get_mut(self.used..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.used = end;
        Ok(())
    }
}

/// The beginning of a file of a process; `None` where it is gone or closed to this program.
fn pid_file<'b>(proc: &OwnedFd, pid: u32, name: &str, buffer: &'b mut [u8; PAGE]) -> Option<&'b [u8]> {
    let mut path = Path { bytes: [0; 32], used: 0 };
    write!(path, "{pid}/{name}").ok()?;
    let path = path.bytes.get(..path.used)?;
    let file = openat(proc, path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let length = rustix::io::read(&file, buffer.as_mut_slice()).ok()?;
    buffer.get(..length).filter(|text| !text.is_empty())
}
