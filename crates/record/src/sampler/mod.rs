//! The recorder's threads, and what they hand one another. The one that takes samples waits for nobody: what the others have
//! for it lies ready or is left for the next second, and what it has for the disk is put into a backlog of fixed size.

mod backlog;
mod budget;
mod disk;
mod look;
mod pace;
mod processes;
mod samples;
mod stat;
mod table;
mod words;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::time::{ClockId, clock_gettime};

pub(crate) use backlog::Backlog;
pub(crate) use disk::Disk;
pub(crate) use look::{Look, Looker};
pub(crate) use processes::ProcessWatch;
pub(crate) use samples::Sampler;
pub(crate) use writer::{CLOSE_MS, RingWriter};

use crate::notes::{Event, EventKind, Instances, Processes};

/// Threads of the kernel whose processor time is recorded: kswapd and kcompactd, one a node, and khugepaged.
pub(crate) const MOST_KERNEL_THREADS: usize = 96;

/// A place where one thread leaves something for another.
#[derive(Debug, Default)]
pub(crate) struct Mail<T> {
    held: Mutex<(bool, T)>,
}

impl<T: Clone> Mail<T> {
    /// Leaves it, in the place of what was not fetched.
    pub(crate) fn leave(&self, value: &T) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.1.clone_from(value);
        held.0 = true;
    }

    /// Fetches it, where there is something new and nobody is at it right now.
    pub(crate) fn fetch(&self, into: &mut T) -> bool {
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

/// Ids of threads of the kernel, by what they do.
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

/// What all threads see.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Blocks of either ring on their way to the disk.
    pub(crate) backlogs: Mutex<[Backlog; 2]>,
    pub(crate) more: Condvar,
    pub(crate) processes: Mail<Processes>,
    pub(crate) instances: Mail<Instances>,
    pub(crate) kernel_threads: Mail<KernelThreads>,
    pub(crate) look: Mail<Look>,
    /// What other threads want to have said in the ring.
    words: Mail<Option<Event>>,
    /// Memory is short: nothing that can wait is begun.
    pub(crate) is_tight: AtomicBool,
    /// Whoever runs it wants an end.
    pub(crate) ends: Arc<AtomicBool>,
    /// The last block lies in the backlog.
    pub(crate) is_finished: AtomicBool,
    /// What the other threads used of processors, in nanoseconds.
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

    pub(crate) fn backlogs(&self) -> MutexGuard<'_, [Backlog; 2]> {
        self.backlogs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks that either backlog has lost, where nobody is at it right now.
    pub(crate) fn lost(&self) -> [u64; 2] {
        self.backlogs.try_lock().map_or([0; 2], |mut backlogs| backlogs.each_mut().map(Backlog::lost))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    /// What another thread wants to have said.
    pub(crate) fn said(&self) -> Option<Event> {
        let mut words = None;
        if self.words.fetch(&mut words) { words } else { None }
    }

    /// Has something said in the ring.
    pub(crate) fn say(&self, words: &str) {
        self.words.leave(&Some(Event::new(wall(), EventKind::Recorder, words.as_bytes())));
    }
}

/// Milliseconds since 1970 by the host's clock.
pub(crate) fn wall() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000)
}

/// Milliseconds since the boot.
pub(crate) fn uptime() -> u64 {
    u64::try_from(nanoseconds(ClockId::Boottime) / 1_000_000).unwrap_or(0)
}

/// What the calling thread has used of processors, in nanoseconds.
pub(crate) fn used() -> u64 {
    u64::try_from(nanoseconds(ClockId::ThreadCPUTime)).unwrap_or(0)
}

fn nanoseconds(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}
