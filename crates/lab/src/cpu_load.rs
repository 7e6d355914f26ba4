//! The processors' load meanwhile: the run queue and the kernel's share of time (/proc/stat,
//! Documentation/filesystems/proc.rst).

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hugewise_host::ParseError;
use hugewise_host::kernel::stat::{self, ProcStat};

use crate::periodic_task::PeriodicTask;

const INTERVAL: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuLoad {
    pub(crate) longest_queue: u64,
    /// Share of all processors' time in the kernel, from 0 to 1.
    pub(crate) system: f64,
    /// Share of all processors' time in use, from 0 to 1.
    pub(crate) busy: f64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Unseen {
    #[error("/proc/stat: {0}")]
    Unreadable(#[source] io::Error),
    #[error("/proc/stat: {0}")]
    Malformed(#[source] ParseError),
    #[error("a thread that looks: {0}")]
    NoThread(#[source] io::Error),
}

#[derive(Debug)]
pub(crate) struct LoadWatcher {
    before: ProcStat,
    longest: Arc<Mutex<u64>>,
    _looking: PeriodicTask,
}

#[allow(
    clippy::disallowed_methods,
    reason = "what this very machine does now; a captured one does nothing"
)]
fn read_proc_stat() -> Result<ProcStat, Unseen> {
    let bytes = std::fs::read("/proc/stat").map_err(Unseen::Unreadable)?;
    stat::parse(&bytes).map_err(Unseen::Malformed)
}

impl LoadWatcher {
    pub(crate) fn start_watching() -> Result<Self, Unseen> {
        let before = read_proc_stat()?;
        let longest = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&longest);
        let looking = PeriodicTask::start("load watch", INTERVAL, move || {
            if let (Ok(stat), Ok(mut longest)) = (read_proc_stat(), seen.lock()) {
                // The watcher itself runs while it looks.
                *longest = stat.running.saturating_sub(1).max(*longest);
            }
        });
        Ok(Self { before, longest, _looking: looking.map_err(Unseen::NoThread)? })
    }

    #[allow(clippy::cast_precision_loss, reason = "ticks of a run are far below 2^52")]
    pub(crate) fn finish(self) -> Result<CpuLoad, Unseen> {
        let after = read_proc_stat()?;
        let part = |now: u64, then: u64| {
            let all = after.all.saturating_sub(self.before.all);
            if all == 0 { 0.0 } else { now.saturating_sub(then) as f64 / all as f64 }
        };
        let longest_queue = self.longest.lock().map_or(0, |longest| *longest);
        let (before, idle) = (self.before, part(after.idle, self.before.idle));
        let measured = after.all > before.all;
        let busy = if measured { 1.0 - idle } else { 0.0 };
        Ok(CpuLoad { longest_queue, system: part(after.system, before.system), busy })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_loop_is_seen() {
        let watcher = LoadWatcher::start_watching().unwrap();
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(300) {
            std::hint::spin_loop();
        }
        let load = watcher.finish().unwrap();
        assert!(load.busy > 0.0 && load.busy <= 1.0, "{load:?}");
        assert!(load.longest_queue >= 1, "{load:?}");
        assert!((0.0..=1.0).contains(&load.system), "{load:?}");
    }
}
