//! The recorder's threads, and what they exchange. The one that takes samples waits for nobody:
//! what the others have is ready or left for the next second, and the disk has a backlog of fixed
//! size.

mod backlog;
mod budget;
mod disk;
mod instance_discovery;
mod message_text;
mod pace;
mod process_stat;
mod process_table;
mod process_watch;
mod ring_writer;
mod sampling;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::time::{ClockId, clock_gettime};

pub(crate) use backlog::Backlog;
pub(crate) use disk::DiskWriter;
pub(crate) use instance_discovery::{InstanceDiscovery, Looker};
pub(crate) use process_watch::ProcessWatch;
pub(crate) use ring_writer::{CLOSE_MS, RingWriter};
pub(crate) use sampling::Sampler;

use crate::notes::{Instances, RecordedEvent, RecordedEventKind, RecordedProcesses};

/// kswapd and kcompactd, one a node, and khugepaged.
pub(crate) const MOST_KERNEL_THREADS: usize = 96;

#[derive(Debug, Default)]
pub(crate) struct Mail<T> {
    held: Mutex<(bool, T)>,
}

impl<T: Clone> Mail<T> {
    pub(crate) fn leave_value(&self, value: &T) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.1.clone_from(value);
        held.0 = true;
    }

    /// Fetches a new value, unless another thread holds the lock.
    pub(crate) fn fetch_value(&self, into: &mut T) -> bool {
        match self.held.try_lock() {
            Ok(mut held) if held.0 => {
                into.clone_from(&held.1);
                held.0 = false;
                true
            }
            _ => false,
        }
    }
}

/// Kernel threads whose processor time is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelThreads {
    pub(crate) threads: [(crate::Field, u32); MOST_KERNEL_THREADS],
    pub(crate) count: usize,
}

impl Default for KernelThreads {
    fn default() -> Self {
        Self { threads: [(crate::Field::KswapdCpu, 0); MOST_KERNEL_THREADS], count: 0 }
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backlogs: Mutex<[Backlog; 2]>,
    pub(crate) more: Condvar,
    pub(crate) processes: Mail<RecordedProcesses>,
    pub(crate) instances: Mail<Instances>,
    pub(crate) kernel_threads: Mail<KernelThreads>,
    pub(crate) look: Mail<InstanceDiscovery>,
    words: Mail<Option<RecordedEvent>>,
    /// Memory is short: nothing that can wait is begun.
    pub(crate) is_tight: AtomicBool,
    pub(crate) ends: Arc<AtomicBool>,
    /// The last block is in the backlog.
    pub(crate) is_finished: AtomicBool,
    pub(crate) used: [AtomicU64; 3],
}

impl Shared {
    pub(crate) fn new(backlogs: [Backlog; 2], ends: Arc<AtomicBool>) -> Self {
        Self {
            backlogs: Mutex::new(backlogs),
            more: Condvar::new(),
            processes: Mail::default(),
            instances: Mail::default(),
            kernel_threads: Mail::default(),
            look: Mail::default(),
            words: Mail::default(),
            is_tight: AtomicBool::new(false),
            ends,
            is_finished: AtomicBool::new(false),
            used: Default::default(),
        }
    }

    pub(crate) fn lock_backlogs(&self) -> MutexGuard<'_, [Backlog; 2]> {
        self.backlogs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_lost(&self) -> [u64; 2] {
        self.backlogs
            .try_lock()
            .map_or([0; 2], |mut backlogs| backlogs.each_mut().map(Backlog::take_lost))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    pub(crate) fn take_message(&self) -> Option<RecordedEvent> {
        let mut words = None;
        if self.words.fetch_value(&mut words) { words } else { None }
    }

    pub(crate) fn leave_message(&self, words: &str) {
        self.words.leave_value(&Some(RecordedEvent::new(
            wall_clock_ms(),
            RecordedEventKind::Recorder,
            words.as_bytes(),
        )));
    }
}

pub(crate) fn wall_clock_ms() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000)
}

pub(crate) fn uptime_ms() -> u64 {
    u64::try_from(read_clock_ns(ClockId::Boottime) / 1_000_000).unwrap_or(0)
}

pub(crate) fn thread_cpu_ns() -> u64 {
    u64::try_from(read_clock_ns(ClockId::ThreadCPUTime)).unwrap_or(0)
}

fn read_clock_ns(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}
