//! What the host's processors did meanwhile: the run queue and the kernel's part of the time
//! (/proc/stat, Documentation/filesystems/proc.rst).

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hugewise_host::ParseError;
use hugewise_host::kernel::stat::{self, Stat};

use crate::looking::Looking;

/// How often the run queue is looked at.
const INTERVAL: Duration = Duration::from_millis(20);

/// What the processors did between start and end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// The longest run queue that was seen, this process's own watcher not counted.
    pub longest_queue: u64,
    /// Part of all processors' time spent in the kernel, from 0 to 1.
    pub system: f64,
    /// Part of it spent at all, from 0 to 1.
    pub busy: f64,
}

/// What the processors do cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum Unseen {
    /// /proc/stat cannot be read.
    #[error("/proc/stat: {0}")]
    Unreadable(#[source] io::Error),
    /// /proc/stat makes no sense.
    #[error("/proc/stat: {0}")]
    Malformed(#[source] ParseError),
    /// No thread can be had that looks.
    #[error("a thread that looks: {0}")]
    NoThread(#[source] io::Error),
}

/// Watches until it is asked.
#[derive(Debug)]
pub struct Watcher {
    before: Stat,
    longest: Arc<Mutex<u64>>,
    _looking: Looking,
}

#[allow(clippy::disallowed_methods, reason = "what this very machine does now; a captured one does nothing")]
fn stat() -> Result<Stat, Unseen> {
    let bytes = std::fs::read("/proc/stat").map_err(Unseen::Unreadable)?;
    stat::parse(&bytes).map_err(Unseen::Malformed)
}

impl Watcher {
    /// Begins to look.
    ///
    /// # Errors
    /// Where /proc/stat cannot be read, and where no thread can be had.
    pub fn start() -> Result<Self, Unseen> {
        let before = stat()?;
        let longest = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&longest);
        let looking = Looking::start("load watch", INTERVAL, move || {
            if let (Ok(stat), Ok(mut longest)) = (stat(), seen.lock()) {
                // The watcher itself runs while it looks.
                *longest = stat.running.saturating_sub(1).max(*longest);
            }
        });
        Ok(Self { before, longest, _looking: looking.map_err(Unseen::NoThread)? })
    }

    /// What the processors did since the start.
    ///
    /// # Errors
    /// Where /proc/stat cannot be read.
    #[allow(clippy::cast_precision_loss, reason = "ticks of a run are far below 2^52")]
    pub fn end(self) -> Result<Load, Unseen> {
        let after = stat()?;
        let part = |now: u64, then: u64| {
            let all = after.all.saturating_sub(self.before.all);
            if all == 0 { 0.0 } else { now.saturating_sub(then) as f64 / all as f64 }
        };
        let longest_queue = self.longest.lock().map_or(0, |longest| *longest);
        let (before, idle) = (self.before, part(after.idle, self.before.idle));
        let measured = after.all > before.all;
        let busy = if measured { 1.0 - idle } else { 0.0 };
        Ok(Load { longest_queue, system: part(after.system, before.system), busy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_loop_is_seen() {
        let watcher = Watcher::start().unwrap();
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            std::hint::spin_loop();
        }
        let load = watcher.end().unwrap();
        assert!(load.busy > 0.0 && load.busy <= 1.0, "{load:?}");
        assert!(load.longest_queue >= 1, "{load:?}");
        assert!((0.0..=1.0).contains(&load.system), "{load:?}");
    }
}
