//! What the last minute was like, from the end of a ring: peaks between two looks of who comes every fifteen seconds.

use std::fs::File;

use crate::ring::{Entry, Position, Refused, read_newest};
use crate::{Field, Sample};

/// How far back it goes, in milliseconds.
const SPAN: i64 = 60_000;
/// A recorder whose last sample is older than so many of its intervals has stopped.
const PATIENCE: u64 = 10;

/// The last minute of a ring. What the kernel does not tell is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latest {
    /// Whether samples still come.
    pub is_alive: bool,
    /// When the last sample was taken, in milliseconds since 1970.
    pub newest: Option<i64>,
    /// Samples of the minute.
    pub samples: u64,
    /// The longest time from one to the next, in milliseconds.
    pub gap: Option<u64>,
    /// The most time that all processors together spent in the kernel from one sample to the next: 1 is all of it.
    pub kernel: Option<f64>,
    /// The most time that every task waited for memory (PSI, full): 1 is all of it.
    pub memory_stall: Option<f64>,
    /// The most base pages a second that processes themselves scanned to take memory back.
    pub direct_scan: Option<f64>,
    /// The least free memory, in KiB.
    pub free: Option<u64>,
    /// The largest page tables, in KiB.
    pub page_tables: Option<u64>,
}

/// Reads the end of a ring, also while it is written; `now` is in milliseconds since 1970.
///
/// # Errors
/// It is no ring, or is of another version of the format.
pub fn latest(file: &File, now: i64) -> Result<Latest, Refused> {
    let mut minute = Minute::default();
    let summary = read_newest(file, SPAN, &mut |position: Position, entry: Entry<'_>| {
        if let Entry::Sample(sample) = entry {
            minute.sample(position.run, sample);
        }
    })?;
    let patience = summary.header.about.interval_ms.saturating_mul(PATIENCE);
    let is_alive = minute.found.newest.is_some_and(|newest| now.abs_diff(newest) <= patience);
    Ok(Latest { is_alive, ..minute.found })
}

#[derive(Default)]
struct Minute {
    found: Latest,
    before: Option<(u64, Box<Sample>)>,
}

impl Minute {
    fn sample(&mut self, run: u64, sample: &Sample) {
        let found = &mut self.found;
        found.newest = Some(sample.wall);
        found.samples += 1;
        found.free = least(found.free, sample.get(Field::MemFree));
        found.page_tables = found.page_tables.max(sample.get(Field::PageTables));
        if let Some((_, before)) = self.before.as_ref().filter(|(of, _)| *of == run)
            && let Some(passed) = sample.uptime.checked_sub(before.uptime).filter(|passed| *passed > 0)
        {
            let grown = |field| sample.get(field)?.checked_sub(before.get(field)?);
            found.gap = found.gap.max(Some(passed));
            found.kernel = most(found.kernel, kernel(&grown));
            let stalled = grown(Field::PressureMemoryFull).map(|stalled| (part(stalled, passed) / 1000.0).min(1.0));
            found.memory_stall = most(found.memory_stall, stalled);
            let scanned = grown(Field::ScanDirect).map(|scanned| part(scanned, passed) * 1000.0);
            found.direct_scan = most(found.direct_scan, scanned);
        }
        match &mut self.before {
            Some((of, before)) => {
                *of = run;
                before.as_mut().clone_from(sample);
            }
            None => self.before = Some((run, Box::new(sample.clone()))),
        }
    }
}

/// Guests' time is in that of users.
fn kernel(grown: &dyn Fn(Field) -> Option<u64>) -> Option<f64> {
    let sum = |fields: &[Field]| fields.iter().filter_map(|field| grown(*field)).fold(0, u64::saturating_add);
    let system = grown(Field::CpuSystem)?.saturating_add(sum(&[Field::CpuIrq, Field::CpuSoftirq]));
    let others = [Field::CpuUser, Field::CpuNice, Field::CpuIdle, Field::CpuIowait, Field::CpuSteal];
    let all = system.saturating_add(sum(&others));
    (all > 0).then(|| part(system, all))
}

#[allow(clippy::cast_precision_loss, reason = "a peak, of two whole numbers that are not near 2^52")]
fn part(of: u64, all: u64) -> f64 {
    of as f64 / all as f64
}

fn most(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    }
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::ring::{About, Folder, Kind};
    use crate::testing::Blocks;

    const NOON: i64 = 1_795_306_507_000;

    /// Two minutes; 30 s before the end the kernel has all of a processor of four for a second, and a sample is missing.
    #[test]
    fn the_last_minute_tells_its_peaks() {
        let folder = tempfile::tempdir().unwrap();
        let about = About { interval_ms: 1000, ..About::default() };
        let opened = Folder::open(folder.path()).unwrap().ring(Kind::Seconds, 64, &about).unwrap();
        let mut blocks = Blocks::of(&opened.ring, 0);
        let mut sample = Sample::default();
        for second in 0..=120_u64 {
            let peak = second == 90;
            for (field, by) in [
                (Field::CpuSystem, if peak { 100 } else { 4 }),
                (Field::CpuUser, 40),
                (Field::CpuIdle, if peak { 260 } else { 356 }),
                (Field::ScanDirect, if peak { 5000 } else { 0 }),
                (Field::PressureMemoryFull, if peak { 250_000 } else { 0 }),
            ] {
                sample.add(field, by);
            }
            // What was before the last minute counts for nothing.
            sample.set(Field::MemFree, if second == 10 { 1 } else { 5000 + second });
            sample.set(Field::PageTables, 1000 + second);
            (sample.uptime, sample.wall) = (second * 1000, NOON + i64::try_from(second).unwrap() * 1000);
            if second != 100 {
                blocks.push(&opened.ring, &sample);
            }
        }
        let file = crate::status::open(&folder.path().join(Kind::Seconds.file())).unwrap();
        let end = NOON + 120_000;
        let found = latest(&file, end + 2000).unwrap();
        assert_eq!((found.is_alive, found.newest, found.gap), (true, Some(end), Some(2000)));
        assert_eq!((found.kernel, found.memory_stall, found.direct_scan), (Some(0.25), Some(0.25), Some(5000.0)));
        assert_eq!((found.free, found.page_tables), (Some(5060), Some(1120)));
        assert_eq!(found.samples, 60);
        assert!(!latest(&file, end + 11_000).unwrap().is_alive);
    }
}
