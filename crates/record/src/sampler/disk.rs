//! The thread that writes, which alone waits for the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Shared, thread_cpu_ns};
use crate::ring::{BLOCK, RingFile};

/// Between two syncs: what was written before the last one survives a power cut.
const SYNC: Duration = Duration::from_secs(3);
/// Between attempts after a write error.
const PAUSE: Duration = Duration::from_secs(1);
/// A disk that takes this long is worth a message.
const SLOW: Duration = Duration::from_secs(10);
/// How long the end waits for the disk.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct DiskWriter {
    shared: Arc<Shared>,
    rings: [RingFile; 2],
    buffer: Box<[u8; BLOCK]>,
    /// Since when unsynced data was written.
    unsynced: [Option<Instant>; 2],
    complained: bool,
}

impl DiskWriter {
    pub(crate) fn new(shared: Arc<Shared>, rings: [RingFile; 2]) -> Self {
        Self { shared, rings, buffer: Box::new([0; BLOCK]), unsynced: [None; 2], complained: false }
    }

    pub(crate) fn run(mut self) {
        let mut end = None;
        loop {
            let over = self.shared.is_finished.load(Ordering::Acquire);
            let wrote = self.write();
            self.sync_rings(over);
            self.shared.used[0].store(thread_cpu_ns(), Ordering::Relaxed);
            if over {
                let until = *end.get_or_insert_with(|| Instant::now() + PATIENCE);
                let done = self.shared.lock_backlogs().iter().all(super::Backlog::is_done);
                if (done && self.unsynced == [None; 2]) || Instant::now() > until {
                    return;
                }
            }
            let backlogs = self.shared.lock_backlogs();
            if wrote && backlogs.iter().all(super::Backlog::is_done) {
                drop(self.shared.more.wait_timeout(backlogs, PAUSE));
            } else if !wrote {
                drop(backlogs);
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Whether the disk took everything.
    fn write(&mut self) -> bool {
        for (place, ring) in self.rings.iter().enumerate() {
            loop {
                let next = self
                    .shared
                    .lock_backlogs()
                    .get_mut(place)
                    .and_then(|backlog| backlog.next(&mut self.buffer));
                let Some(sequence) = next else { break };
                let begun = Instant::now();
                if let Err(error) = ring.write(sequence, &self.buffer) {
                    if let Some(backlog) = self.shared.lock_backlogs().get_mut(place) {
                        backlog.retry_block(sequence);
                    }
                    if !self.complained {
                        self.complained = true;
                        let why = std::io::Error::from(error);
                        self.shared
                            .leave_message(&format!("cannot write the recording to disk: {why}"));
                    }
                    return false;
                }
                self.complained = false;
                if let Some(unsynced) = self.unsynced.get_mut(place) {
                    unsynced.get_or_insert(begun);
                }
                report_slow_disk(&self.shared, begun, "write 4 KiB");
            }
        }
        true
    }

    fn sync_rings(&mut self, at_once: bool) {
        for (ring, unsynced) in self.rings.iter().zip(&mut self.unsynced) {
            if unsynced.is_some_and(|since| at_once || since.elapsed() >= SYNC) {
                let begun = Instant::now();
                if let Err(error) = ring.sync_data() {
                    let why = std::io::Error::from(error);
                    self.shared.leave_message(&format!("cannot sync the recording to disk: {why}"));
                } else {
                    report_slow_disk(&self.shared, begun, "sync");
                }
                *unsynced = None;
            }
        }
    }
}

fn report_slow_disk(shared: &Shared, begun: Instant, what: &str) {
    if begun.elapsed() > SLOW {
        let seconds = begun.elapsed().as_secs();
        shared.leave_message(&format!("the disk took {seconds} s to {what}"));
    }
}
