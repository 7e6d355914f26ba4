//! The thread that looks at processes: it opens files, which may wait on a host without memory.
//!
//! A process that has not run since the look before is not read: its clock (clock_getcpuclockid(3))
//! tells, without a file.

use std::fmt::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hugewise_host::sys::cpu_time;
use rustix::fs::{CWD, Mode, OFlags, RawDir, SeekFrom, openat, seek};

use super::process_stat::{page_tables, parse_process_stat, stack_top};
use super::process_table::{NOBODY, TrackedProcess, choose_most_changed};
use super::{InstanceDiscovery, KernelThreads, Shared, thread_cpu_ns, wall_clock_ms};
use crate::Field;
use crate::kernel::parse_number;
use crate::notes::{BoundedName, Instances, RecordedProcesses};

const INTERVAL: Duration = Duration::from_secs(5);
/// Nanoseconds of processor time for a look: 0.3 % of a processor.
const BUDGET: u64 = 15_000_000;
const FIRST_BUDGET: u64 = 20 * BUDGET;
const MOST: usize = 8192;
const PAGE: usize = 4096;

pub(crate) struct ProcessWatch {
    shared: Arc<Shared>,
    proc: OwnedFd,
    known: Vec<TrackedProcess>,
    next: Vec<TrackedProcess>,
    names: Box<[MaybeUninit<u8>; 32 << 10]>,
    buffer: Box<[u8; PAGE]>,
    /// The pid at which the last look ran out of time.
    from: u32,
    looks: u64,
    last: Option<Instant>,
    ticks: u64,
    page_kib: u64,
    report: Box<RecordedProcesses>,
    look: InstanceDiscovery,
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
            known: preallocate_table(),
            next: preallocate_table(),
            names: Box::new([MaybeUninit::uninit(); 32 << 10]),
            buffer: Box::new([0; PAGE]),
            from: 0,
            looks: 0,
            last: None,
            ticks,
            page_kib,
            report: Box::default(),
            look: InstanceDiscovery::default(),
            looked: None,
            instances: Box::default(),
            beyond: 0,
        })
    }

    pub(crate) fn run(mut self) {
        let mut due = Instant::now();
        while !self.shared.is_over() {
            self.watch_once();
            self.shared.used[1].store(thread_cpu_ns(), Ordering::Relaxed);
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

    pub(crate) fn watch_once(&mut self) {
        let begun = thread_cpu_ns();
        if self.list_processes().is_err() {
            return;
        }
        let left_out = self.read(begun);
        let now = Instant::now();
        *self.report = RecordedProcesses {
            wall: wall_clock_ms(),
            interval_ms: self.last.map_or(0, |last| duration_to_ms(now.duration_since(last))),
            processes: u64::try_from(self.known.len()).unwrap_or(0) + self.beyond,
            blocked: u64::try_from(self.known.iter().filter(|one| one.state == b'D').count())
                .unwrap_or(0),
            left_out: left_out + self.beyond,
            page_tables_kib: self.known.iter().map(|one| one.now.page_tables_kib).sum(),
            ..RecordedProcesses::default()
        };
        let (proc, buffer) = (&self.proc, &mut *self.buffer);
        choose_most_changed(&mut self.known, self.ticks, &mut self.report, &mut |one| {
            read_wait_place(proc, one.pid, buffer)
        });
        self.shared.processes.leave_value(&self.report);
        self.kernel_threads();
        self.sum_by_instance(now);
        self.last = Some(now);
        self.looks += 1;
    }

    fn list_processes(&mut self) -> rustix::io::Result<()> {
        seek(&self.proc, SeekFrom::Start(0))?;
        self.next.clear();
        self.beyond = 0;
        let mut before = self.known.iter().peekable();
        let mut entries = RawDir::new(&self.proc, &mut *self.names);
        while let Some(entry) = entries.next() {
            let Some(pid) =
                parse_number(entry?.file_name().to_bytes()).and_then(|pid| u32::try_from(pid).ok())
            else {
                continue;
            };
            while before.next_if(|one| one.pid < pid).is_some() {}
            let known = before.next_if(|one| one.pid == pid);
            if self.next.len() == MOST {
                self.beyond += 1;
                continue;
            }
            let mut one = known.copied().unwrap_or_else(|| TrackedProcess::new(pid));
            let clock =
                cpu_time(pid).map_or(0, |clock| u64::try_from(clock.as_nanos()).unwrap_or(0));
            one.note_cpu_clock(clock);
            self.next.push(one);
        }
        std::mem::swap(&mut self.known, &mut self.next);
        Ok(())
    }

    /// As long as there is time; how many are left.
    fn read(&mut self, begun: u64) -> u64 {
        let budget = if self.looks == 0 { FIRST_BUDGET } else { BUDGET };
        let first = self.known.partition_point(|one| one.pid < self.from);
        let (behind, before) = (first..self.known.len(), 0..first);
        let mut left_out = 0;
        self.from = 0;
        for place in behind.chain(before) {
            let Some(one) = self.known.get_mut(place).filter(|one| one.wanted) else { continue };
            if thread_cpu_ns().saturating_sub(begun) > budget {
                if left_out == 0 {
                    self.from = one.pid;
                }
                left_out += 1;
                continue;
            }
            let text = pid_file(&self.proc, one.pid, "stat", &mut self.buffer);
            let Some(stat) = text.and_then(parse_process_stat) else {
                // It has ended.
                one.wanted = false;
                continue;
            };
            let tables = if stat.virtual_bytes > 0 {
                pid_file(&self.proc, one.pid, "status", &mut self.buffer).and_then(page_tables)
            } else {
                None
            };
            // What a process holds at the first look has grown since an unknown time.
            one.update_from_stat(&stat, tables, self.page_kib, self.looks == 0);
        }
        left_out
    }

    fn kernel_threads(&self) {
        let mut found = KernelThreads::default();
        for one in self.known.iter().filter(|one| !one.has_memory) {
            let command = one.command_name();
            let field = if command.starts_with(b"kswapd") {
                Field::KswapdCpu
            } else if command.starts_with(b"kcompactd") {
                Field::KcompactdCpu
            } else if command == b"khugepaged" {
                Field::KhugepagedCpu
            } else {
                continue;
            };
            // Users can use these names; the kernel's own are children of kthreadd.
            if let Some(place) = found.threads.get_mut(found.count).filter(|_| one.parent == 2) {
                *place = (field, one.pid);
                found.count += 1;
            }
        }
        self.shared.kernel_threads.leave_value(&found);
    }

    fn sum_by_instance(&mut self, now: Instant) {
        if self.shared.look.fetch_value(&mut self.look) {
            self.looked = Some(now);
            for one in &mut self.known {
                one.owner = self.look.owner_index(one.pid);
            }
        }
        let Some(looked) = self.looked else { return };
        *self.instances = Instances {
            wall: wall_clock_ms(),
            age_ms: duration_to_ms(now.duration_since(looked)),
            ..Instances::default()
        };
        for instance in self.look.instances() {
            self.instances.push(*instance);
        }
        for instance in self.instances.listed.iter_mut() {
            (instance.processes, instance.page_tables_kib) = (0, 0);
        }
        for place in 0..self.known.len() {
            let Some(one) = self.known.get(place).copied() else { break };
            let mut owner = one.owner;
            if owner == NOBODY && one.has_memory {
                // A session that logged in since: its server is the parent.
                let parent = self.known.binary_search_by_key(&one.parent, |other| other.pid);
                owner = parent
                    .ok()
                    .and_then(|parent| self.known.get(parent))
                    .map_or(NOBODY, |parent| parent.owner);
                if let Some(one) = self.known.get_mut(place) {
                    one.owner = owner;
                }
            }
            if let Some(instance) = self.instances.listed.get_mut(usize::from(owner)) {
                instance.processes += 1;
                instance.page_tables_kib += one.now.page_tables_kib;
            }
        }
        self.look.count_sessions(&mut self.instances.listed);
        self.shared.instances.leave_value(&self.instances);
    }
}

/// Touches all memory of the table now.
fn preallocate_table() -> Vec<TrackedProcess> {
    let mut room = vec![TrackedProcess::new(u32::MAX); MOST];
    room.clear();
    room
}

fn duration_to_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn read_wait_place(
    proc: &OwnedFd,
    pid: u32,
    buffer: &mut [u8; PAGE],
) -> (BoundedName, BoundedName) {
    let wait = pid_file(proc, pid, "wchan", buffer)
        .filter(|text| *text != b"0")
        .map_or(BoundedName::default(), BoundedName::new);
    let mut top = [0; 48];
    let used = pid_file(proc, pid, "stack", buffer).map_or(0, |text| stack_top(text, &mut top));
    (wait, BoundedName::new(top.get(..used).unwrap_or_default()))
}

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

/// `None` where it is gone or denied.
fn pid_file<'b>(
    proc: &OwnedFd,
    pid: u32,
    name: &str,
    buffer: &'b mut [u8; PAGE],
) -> Option<&'b [u8]> {
    let mut path = Path { bytes: [0; 32], used: 0 };
    write!(path, "{pid}/{name}").ok()?;
    let path = path.bytes.get(..path.used)?;
    let file =
        openat(proc, path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .ok()?;
    let length = rustix::io::read(&file, buffer.as_mut_slice()).ok()?;
    buffer.get(..length).filter(|text| !text.is_empty())
}
