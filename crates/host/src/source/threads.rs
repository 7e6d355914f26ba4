//! Threads that read ahead, and wait for more to read in between.
//!
//! Who reads one machine again and again would start one each time: its stack and its heap cost more than what it reads.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many wait at most; one that a process kept for long ends when it is let go.
const MOST_IDLE: usize = 2;

/// What is kept of a thread's buffer.
const BUFFER: usize = 64 << 10;

/// What a thread is to do, with a buffer that it has at hand.
pub(super) type Job = Box<dyn FnOnce(&mut Vec<u8>) + Send>;

/// A thread that waits, by the way to it.
#[derive(Clone, Debug)]
struct Idle(Sender<(Job, Idle)>);

/// Threads that wait. They end with the last one who could give them something.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads(Arc<Mutex<Vec<Idle>>>);

impl Threads {
    /// Has a thread do it; `None` where none can be had.
    pub(super) fn give(&self, job: Job) -> Option<()> {
        let waiting = waiting(&self.0).pop();
        let thread = match waiting {
            Some(thread) => thread,
            None => self.start()?,
        };
        // It takes the way to itself along: as long as it is at work, nobody else has it.
        thread.0.send((job, thread.clone())).ok()
    }

    fn start(&self) -> Option<Idle> {
        let (way, jobs) = channel::<(Job, Idle)>();
        let all = Arc::downgrade(&self.0);
        let run = move || {
            let mut buffer = Vec::with_capacity(16 << 10);
            for (job, own) in jobs {
                job(&mut buffer);
                buffer.clear();
                buffer.shrink_to(BUFFER);
                let Some(all) = all.upgrade() else { return };
                let mut all = waiting(&all);
                if all.len() < MOST_IDLE {
                    all.push(own);
                }
            }
        };
        std::thread::Builder::new().name("proc".into()).stack_size(256 << 10).spawn(run).ok()?;
        Some(Idle(way))
    }
}

/// Whoever panicked has left them waiting.
fn waiting(all: &Mutex<Vec<Idle>>) -> MutexGuard<'_, Vec<Idle>> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::thread::ThreadId;
    use std::time::{Duration, Instant};

    use super::*;

    /// Has a thread say who it is, and waits until it does.
    fn who(threads: &Threads) -> ThreadId {
        let (say, said) = channel();
        threads.give(Box::new(move |_| say.send(std::thread::current().id()).unwrap())).unwrap();
        said.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    #[test]
    fn one_thread_reads_for_all_who_come_after_each_other() {
        let threads = Threads::default();
        let first = who(&threads);
        for _ in 0..5 {
            let begun = Instant::now();
            while waiting(&threads.0).is_empty() {
                assert!(begun.elapsed() < Duration::from_secs(60));
                std::thread::yield_now();
            }
            let idle = waiting(&threads.0).len();
            assert_eq!((idle, who(&threads)), (1, first));
        }
    }
}
