//! What the host's processors did meanwhile: the run queue and the kernel's part of the time
//! (/proc/stat, Documentation/filesystems/proc.rst).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hugewise_host::ParseError;

use crate::looking::Looking;

/// How often the run queue is looked at.
const INTERVAL: Duration = Duration::from_millis(20);

/// What /proc/stat tells of all processors together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Time of all kinds, in ticks. Guests' time is within the user's.
    pub all: u64,
    /// Time in the kernel: system, interrupts and soft interrupts.
    pub system: u64,
    /// Time spent idle or waiting for a disk.
    pub idle: u64,
    /// Tasks that run or want to.
    pub running: u64,
}

/// Reads the sum of all processors and the run queue.
///
/// # Errors
/// Where a number is missing or none.
pub fn parse(bytes: &[u8]) -> Result<Stat, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut stat = None;
    let mut running = None;
    for (line, content) in (1..).zip(text.lines()) {
        let number = |word: &str| word.parse::<u64>().map_err(|error| ParseError::at(line, error.to_string()));
        if let Some(numbers) = content.strip_prefix("cpu ") {
            let ticks: Vec<u64> = numbers.split_ascii_whitespace().map(number).collect::<Result<_, _>>()?;
            let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
            if ticks.len() < 4 {
                return Err(ParseError::at(line, "too few numbers"));
            }
            stat = Some(Stat {
                // user, nice, system, idle, iowait, irq, softirq, steal; the guests' two are within user and nice.
                all: ticks.iter().take(8).fold(0, |sum, ticks| sum.saturating_add(*ticks)),
                system: at(2).saturating_add(at(5)).saturating_add(at(6)),
                idle: at(3).saturating_add(at(4)),
                running: 0,
            });
        } else if let Some(count) = content.strip_prefix("procs_running ") {
            running = Some(number(count.trim())?);
        }
    }
    match (stat, running) {
        (Some(stat), Some(running)) => Ok(Stat { running, ..stat }),
        _ => Err(ParseError::whole("no sum of all processors, or no run queue")),
    }
}

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

/// Watches until it is asked.
#[derive(Debug)]
pub struct Watcher {
    before: Stat,
    longest: Arc<Mutex<u64>>,
    _looking: Looking,
}

#[allow(clippy::disallowed_methods, reason = "what this very machine does now; a captured one does nothing")]
fn stat() -> Result<Stat, String> {
    let bytes = std::fs::read("/proc/stat").map_err(|error| format!("/proc/stat: {error}"))?;
    parse(&bytes).map_err(|error| format!("/proc/stat: {error}"))
}

impl Watcher {
    /// Begins to look.
    ///
    /// # Errors
    /// Where /proc/stat cannot be read, and where no thread can be had.
    pub fn start() -> Result<Self, String> {
        let before = stat()?;
        let longest = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&longest);
        let looking = Looking::start("load watch", INTERVAL, move || {
            if let (Ok(stat), Ok(mut longest)) = (stat(), seen.lock()) {
                // The watcher itself runs while it looks.
                *longest = stat.running.saturating_sub(1).max(*longest);
            }
        });
        Ok(Self { before, longest, _looking: looking.map_err(|error| error.to_string())? })
    }

    /// What the processors did since the start.
    ///
    /// # Errors
    /// Where /proc/stat cannot be read.
    #[allow(clippy::cast_precision_loss, reason = "ticks of a run are far below 2^52")]
    pub fn end(self) -> Result<Load, String> {
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
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "cpu  100 1 20 800 9 3 2 5 50 0\ncpu0 50 0 10 400 4 1 1 2 25 0\nintr 5 0\nctxt 9\nbtime 1\n\
        processes 7\nprocs_running 3\nprocs_blocked 0\n";

    #[test]
    fn the_sum_of_all_processors() {
        let stat = parse(TEXT.as_bytes()).unwrap();
        assert_eq!(stat, Stat { all: 940, system: 25, idle: 809, running: 3 });
        assert!(parse(b"cpu  1 2 3\nprocs_running 1\n").is_err());
        assert!(parse(b"cpu  1 2 3 x\nprocs_running 1\n").is_err());
        assert!(parse(b"procs_running 1\n").is_err());
    }

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

    proptest! {
        #[test]
        fn never_panics(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }

        #[test]
        fn truncated_real_input_never_panics(length in 0..TEXT.len()) {
            let _ = parse(&TEXT.as_bytes()[..length]);
        }
    }
}
