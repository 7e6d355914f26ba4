//! What a ring holds, and whether somebody writes to it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use crate::ring::{Position, RingEntry, RingKind, RingSummary, UnreadableRing, read_in_order};
use crate::{Field, HostSample, RecordedEventKind, RecordedProcesses};

/// A ring, read through.
#[derive(Clone, Debug)]
pub struct RingStatus {
    /// Its header and its blocks.
    pub summary: RingSummary,
    /// Whether a recorder has it open.
    pub is_written: bool,
    /// Samples in it.
    pub samples: u64,
    /// The earliest and the latest time of a sample, in milliseconds since 1970 by the host's
    /// clock.
    pub span: Option<(i64, i64)>,
    /// The time of the sample that was written last, which may be earlier than others after the
    /// clock was set back.
    pub newest: Option<i64>,
    /// The longest time between two samples of a run, in milliseconds, and its end.
    pub gap: Option<(u64, i64)>,
    /// Processor time of the recorder in the last run, in percent of one processor.
    pub cost: Option<f64>,
    /// Messages of the kernel in it.
    pub messages: u64,
    /// The newest look at processes.
    pub processes: Option<Box<RecordedProcesses>>,
    /// The recorder's last message, and its time.
    pub last_words: Option<(i64, String)>,
}

impl RingStatus {
    /// Milliseconds between a moment and the sample that was written last, which a clock that was
    /// set back may have dated later.
    pub fn newest_sample_age(&self, now: i64) -> Option<u64> {
        self.newest.map(|newest| now.abs_diff(newest))
    }

    /// Whether samples come, at a moment in milliseconds since 1970: a recorder that hangs keeps
    /// its ring open.
    pub fn is_alive(&self, now: i64) -> bool {
        let patience = self.summary.header.about.interval_ms.saturating_mul(10);
        self.is_written && self.newest_sample_age(now).is_none_or(|age| age <= patience)
    }
}

/// Opens a ring for reading, without following a link. Errors: as open(2).
pub fn open_ring(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path, flags, Mode::empty())?))
}

/// Reads a ring through. Errors: it is no ring.
pub fn read_status(file: &File) -> Result<RingStatus, UnreadableRing> {
    let is_written = match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = flock(file, FlockOperation::Unlock);
            false
        }
        Err(Errno::WOULDBLOCK) => true,
        Err(_) => false,
    };
    let mut found = RingScan::default();
    let summary = read_in_order(file, &mut |position, entry| found.add_entry(position, entry))?;
    let cost = found.cpu_percent(summary.header.about.run);
    Ok(RingStatus {
        is_written,
        samples: found.samples,
        span: found.span,
        newest: found.newest.map(|(_, wall)| wall),
        gap: found.gap,
        cost,
        messages: found.messages,
        processes: found.processes,
        last_words: found.words,
        summary,
    })
}

#[derive(Debug)]
struct RecorderCpuSpan {
    run: u64,
    first: (u64, u64),
    last: (u64, u64),
}

#[derive(Debug, Default)]
struct RingScan {
    samples: u64,
    span: Option<(i64, i64)>,
    newest: Option<(u64, i64)>,
    gap: Option<(u64, i64)>,
    before: Option<(u64, u64)>,
    messages: u64,
    processes: Option<Box<RecordedProcesses>>,
    words: Option<(i64, String)>,
    cost: Option<RecorderCpuSpan>,
}

impl RingScan {
    fn add_entry(&mut self, position: Position, entry: RingEntry<'_>) {
        match entry {
            RingEntry::Sample(sample) => {
                if self.newest.is_none_or(|(sequence, _)| position.sequence >= sequence) {
                    self.newest = Some((position.sequence, sample.wall));
                }
                self.add_sample(position.run, sample);
            }
            RingEntry::Processes(processes) => self.processes = Some(Box::new(*processes)),
            RingEntry::Event(event) if event.kind == RecordedEventKind::Recorder => {
                self.words = Some((event.wall, event.to_text()))
            }
            RingEntry::Event(_) => self.messages += 1,
            RingEntry::About(_) | RingEntry::Instances(_) => {}
        }
    }

    fn add_sample(&mut self, run: u64, sample: &HostSample) {
        self.samples += 1;
        let wall = sample.wall;
        let (first, last) = self.span.unwrap_or((wall, wall));
        self.span = Some((first.min(wall), last.max(wall)));
        if let Some((_, uptime)) =
            self.before.replace((run, sample.uptime)).filter(|(count, _)| *count == run)
        {
            let gap = sample.uptime.saturating_sub(uptime);
            if self.gap.is_none_or(|(most, _)| gap > most) {
                self.gap = Some((gap, wall));
            }
        }
        if let Some(used) = sample.get(Field::RecorderCpu) {
            let now = (sample.uptime, used);
            match &mut self.cost {
                Some(cost) if cost.run == run => cost.last = now,
                cost => *cost = Some(RecorderCpuSpan { run, first: now, last: now }),
            }
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a part in percent")]
    fn cpu_percent(&self, run: u64) -> Option<f64> {
        let RecorderCpuSpan { first, last, .. } =
            self.cost.as_ref().filter(|cost| cost.run == run)?;
        let passed = Duration::from_millis(last.0.checked_sub(first.0)?).as_nanos();
        if passed == 0 {
            None
        } else {
            Some(last.1.checked_sub(first.1)? as f64 * 100.0 / passed as f64)
        }
    }
}

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    crate::sampler::wall_clock_ms()
}

/// The paths of both rings of a folder.
pub fn ring_paths(folder: &Path) -> [(RingKind, std::path::PathBuf); 2] {
    [RingKind::Seconds, RingKind::Minutes].map(|kind| (kind, folder.join(kind.file_name())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{About, RingFolder};
    use crate::testing::Blocks;

    const NOON: i64 = 1_795_306_507_000;
    const HOUR: i64 = 3_600_000;

    /// A clock that was an hour ahead is set right, and three minutes later the recorder hangs.
    #[test]
    fn samples_of_a_clock_that_was_ahead_do_not_pass_for_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let about = About { interval_ms: 1000, ..About::default() };
        let opened = RingFolder::open(folder.path())
            .unwrap()
            .open_ring(RingKind::Seconds, 64, &about)
            .unwrap();
        let mut blocks = Blocks::of(&opened.ring, 0);
        for second in 0..10 {
            let mut sample = HostSample::default();
            sample.uptime = second * 1000;
            let ahead = if second < 5 { HOUR } else { 0 };
            sample.wall = NOON + ahead + i64::try_from(second).unwrap() * 1000;
            blocks.push(&opened.ring, &sample);
        }
        let found =
            read_status(&open_ring(&folder.path().join(RingKind::Seconds.file_name())).unwrap())
                .unwrap();
        assert!(found.is_written);
        assert_eq!(
            (found.newest, found.newest_sample_age(NOON + 189_000)),
            (Some(NOON + 9_000), Some(180_000))
        );
        assert!(found.is_alive(NOON + 10_000) && !found.is_alive(NOON + 189_000));
        // Nor do those of a clock that was set back since.
        assert!(!found.is_alive(NOON - HOUR));
    }
}
