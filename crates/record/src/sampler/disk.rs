//! The thread that writes: it alone waits for the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Shared, used};
use crate::ring::{BLOCK, RingFile};

/// From one sync to the next: what was written before the last one survives a power cut.
const SYNC: Duration = Duration::from_secs(3);
/// Until a disk that said no is asked again.
const PAUSE: Duration = Duration::from_secs(1);
/// From when on a disk is told of that took so long.
const SLOW: Duration = Duration::from_secs(10);
/// How long the end waits for the disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// Both rings and what waits for them.
pub(crate) struct Disk {
    shared: Arc<Shared>,
    rings: [RingFile; 2],
    buffer: Box<[u8; BLOCK]>,
    /// Since when something was written that was not synced.
    unsynced: [Option<Instant>; 2],
    complained: bool,
}

impl Disk {
    pub(crate) fn new(shared: Arc<Shared>, rings: [RingFile; 2]) -> Self {
        Self { shared, rings, buffer: Box::new([0; BLOCK]), unsynced: [None; 2], complained: false }
    }

    /// Writes until the recorder ends and everything is on the disk, or the disk takes too long.
    pub(crate) fn run(mut self) {
        let mut end = None;
        loop {
            let over = self.shared.is_finished.load(Ordering::Acquire);
            let wrote = self.write();
            self.sync(over);
            self.shared.used[0].store(used(), Ordering::Relaxed);
            if over {
                let until = *end.get_or_insert_with(|| Instant::now() + PATIENCE);
                let done = self.shared.backlogs().iter().all(super::Backlog::is_done);
                if (done && self.unsynced == [None; 2]) || Instant::now() > until {
                    return;
                }
            }
            let backlogs = self.shared.backlogs();
            if wrote && backlogs.iter().all(super::Backlog::is_done) {
                drop(self.shared.more.wait_timeout(backlogs, PAUSE));
            } else if !wrote {
                drop(backlogs);
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Writes what there is; whether the disk took all of it.
    fn write(&mut self) -> bool {
        for (place, ring) in self.rings.iter().enumerate() {
            loop {
                let next = self.shared.backlogs().get_mut(place).and_then(|backlog| backlog.next(&mut self.buffer));
                let Some(sequence) = next else { break };
                let begun = Instant::now();
                if let Err(error) = ring.write(sequence, &self.buffer) {
                    if let Some(backlog) = self.shared.backlogs().get_mut(place) {
                        backlog.back(sequence);
                    }
                    if !self.complained {
                        self.complained = true;
                        let why = std::io::Error::from(error);
                        self.shared.say(&format!("cannot write the recording to disk: {why}"));
                    }
                    return false;
                }
                self.complained = false;
                if let Some(unsynced) = self.unsynced.get_mut(place) {
                    unsynced.get_or_insert(begun);
                }
                if begun.elapsed() > SLOW {
                    self.slow(begun);
                }
            }
        }
        true
    }

    fn slow(&self, begun: Instant) {
        self.shared.say(&format!("the disk took {} s to write 4 KiB", begun.elapsed().as_secs()));
    }

    fn sync(&mut self, at_once: bool) {
        for (ring, unsynced) in self.rings.iter().zip(&mut self.unsynced) {
            if unsynced.is_some_and(|since| at_once || since.elapsed() >= SYNC) {
                let begun = Instant::now();
                if let Err(error) = ring.sync() {
                    let why = std::io::Error::from(error);
                    self.shared.say(&format!("cannot sync the recording to disk: {why}"));
                } else if begun.elapsed() > SLOW {
                    self.shared.say(&format!("the disk took {} s to sync", begun.elapsed().as_secs()));
                }
                *unsynced = None;
            }
        }
    }
}
