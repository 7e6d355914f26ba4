//! What a ring holds and whether somebody writes to it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;

use crate::ring::{Entry, Kind, Position, Refused, Summary, read_in_order};
use crate::{EventKind, Field, Processes, Sample};

/// A ring, looked through.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its header and its blocks.
    pub summary: Summary,
    /// Whether a recorder has it open.
    pub is_written: bool,
    /// Samples in it.
    pub samples: u64,
    /// The earliest and the latest time of a sample, in milliseconds since 1970, as the host's clock stood when it was taken.
    pub span: Option<(i64, i64)>,
    /// When the sample was taken that was written last. A clock that was set back leaves later ones before it.
    pub newest: Option<i64>,
    /// The longest time from one sample of a run to the next, in milliseconds, and when it ended.
    pub gap: Option<(u64, i64)>,
    /// What the recorder took of one processor, in percent, over the run that wrote last.
    pub cost: Option<f64>,
    /// Messages of the kernel in it.
    pub messages: u64,
    /// The newest look at processes.
    pub processes: Option<Box<Processes>>,
    /// What the recorder itself said last, and when.
    pub last_words: Option<(i64, String)>,
}

impl Status {
    /// How far the sample that was written last is from a moment, in milliseconds. One that seems to be taken later was taken
    /// before the clock was set back.
    pub fn age(&self, now: i64) -> Option<u64> {
        self.newest.map(|newest| now.abs_diff(newest))
    }

    /// Whether samples come, at a moment in milliseconds since 1970: a recorder that hangs has its ring open all the same.
    pub fn is_alive(&self, now: i64) -> bool {
        let patience = self.summary.header.about.interval_ms.saturating_mul(10);
        self.is_written && self.age(now).is_none_or(|age| age <= patience)
    }
}

/// Opens a ring to read it. What is a link is not followed.
///
/// # Errors
/// What the kernel says.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path, flags, Mode::empty())?))
}

/// Looks a ring through.
///
/// # Errors
/// It is none.
pub fn status(file: &File) -> Result<Status, Refused> {
    let is_written = match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = flock(file, FlockOperation::Unlock);
            false
        }
        Err(Errno::WOULDBLOCK) => true,
        Err(_) => false,
    };
    let mut found = Found::default();
    let summary = read_in_order(file, &mut |position, entry| found.entry(position, entry))?;
    let cost = found.cost(summary.header.about.run);
    Ok(Status {
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

/// Uptime and processor time of the first and the last sample of a run.
#[derive(Debug)]
struct Cost {
    run: u64,
    first: (u64, u64),
    last: (u64, u64),
}

#[derive(Debug, Default)]
struct Found {
    samples: u64,
    span: Option<(i64, i64)>,
    /// The block of the sample that was written last, and when that was taken.
    newest: Option<(u64, i64)>,
    gap: Option<(u64, i64)>,
    /// Run and uptime of the sample before.
    before: Option<(u64, u64)>,
    messages: u64,
    processes: Option<Box<Processes>>,
    words: Option<(i64, String)>,
    cost: Option<Cost>,
}

impl Found {
    fn entry(&mut self, position: Position, entry: Entry<'_>) {
        match entry {
            Entry::Sample(sample) => {
                if self.newest.is_none_or(|(sequence, _)| position.sequence >= sequence) {
                    self.newest = Some((position.sequence, sample.wall));
                }
                self.sample(position.run, sample);
            }
            Entry::Processes(processes) => self.processes = Some(Box::new(*processes)),
            Entry::Event(event) if event.kind == EventKind::Recorder => self.words = Some((event.wall, event.text())),
            Entry::Event(_) => self.messages += 1,
            Entry::About(_) | Entry::Instances(_) => {}
        }
    }

    fn sample(&mut self, run: u64, sample: &Sample) {
        self.samples += 1;
        let wall = sample.wall;
        let (first, last) = self.span.unwrap_or((wall, wall));
        self.span = Some((first.min(wall), last.max(wall)));
        if let Some((_, uptime)) = self.before.replace((run, sample.uptime)).filter(|(of, _)| *of == run) {
            let gap = sample.uptime.saturating_sub(uptime);
            if self.gap.is_none_or(|(most, _)| gap > most) {
                self.gap = Some((gap, wall));
            }
        }
        if let Some(used) = sample.get(Field::RecorderCpu) {
            let now = (sample.uptime, used);
            match &mut self.cost {
                Some(cost) if cost.run == run => cost.last = now,
                cost => *cost = Some(Cost { run, first: now, last: now }),
            }
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "a part in percent")]
    fn cost(&self, run: u64) -> Option<f64> {
        let Cost { first, last, .. } = self.cost.as_ref().filter(|cost| cost.run == run)?;
        let passed = Duration::from_millis(last.0.checked_sub(first.0)?).as_nanos();
        if passed == 0 { None } else { Some(last.1.checked_sub(first.1)? as f64 * 100.0 / passed as f64) }
    }
}

/// Milliseconds since 1970.
pub fn now() -> i64 {
    crate::sampler::wall()
}

/// Where both rings of a folder are.
pub fn rings(folder: &Path) -> [(Kind, std::path::PathBuf); 2] {
    [Kind::Seconds, Kind::Minutes].map(|kind| (kind, folder.join(kind.file())))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::ring::{About, Folder};
    use crate::testing::Blocks;

    const NOON: i64 = 1_795_306_507_000;
    const HOUR: i64 = 3_600_000;

    /// A clock that was an hour ahead is set right, and three minutes later the recorder hangs.
    #[test]
    fn samples_of_a_clock_that_was_ahead_do_not_pass_for_new_ones() {
        let folder = tempfile::tempdir().unwrap();
        let about = About { interval_ms: 1000, ..About::default() };
        let opened = Folder::open(folder.path()).unwrap().ring(Kind::Seconds, 64, &about).unwrap();
        let mut blocks = Blocks::of(&opened.ring, 0);
        for second in 0..10 {
            let mut sample = Sample::default();
            sample.uptime = second * 1000;
            let ahead = if second < 5 { HOUR } else { 0 };
            sample.wall = NOON + ahead + i64::try_from(second).unwrap() * 1000;
            blocks.push(&opened.ring, &sample);
        }
        let found = status(&open(&folder.path().join(Kind::Seconds.file())).unwrap()).unwrap();
        assert!(found.is_written);
        assert_eq!((found.newest, found.age(NOON + 189_000)), (Some(NOON + 9_000), Some(180_000)));
        assert!(found.is_alive(NOON + 10_000) && !found.is_alive(NOON + 189_000));
        // Nor do those of a clock that was set back since.
        assert!(!found.is_alive(NOON - HOUR));
    }
}
