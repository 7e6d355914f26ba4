//! The last minute, from the end of a ring: peaks for whoever looks every fifteen seconds.

use std::fs::File;

use crate::ring::{Position, RingEntry, UnreadableRing, read_newest};
use crate::{Field, HostSample};

/// In milliseconds.
const SPAN: i64 = 60_000;
/// Intervals without a sample after which a recorder has stopped.
const PATIENCE: u64 = 10;

/// The last minute of a ring; what the kernel does not tell is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latest {
    /// Whether samples still come.
    pub is_alive: bool,
    /// When the last sample was taken, in milliseconds since 1970.
    pub newest: Option<i64>,
    /// Samples of the minute.
    pub samples: u64,
    /// The longest time between two samples, in milliseconds.
    pub gap: Option<u64>,
    /// The highest share of all processors' time in the kernel between two samples, up to 1.
    pub kernel: Option<f64>,
    /// The highest share of time in which every task waited for memory (PSI, full), up to 1.
    pub memory_stall: Option<f64>,
    /// The most base pages a second that processes scanned themselves to reclaim memory.
    pub direct_scan: Option<f64>,
    /// The least free memory, in KiB.
    pub free: Option<u64>,
    /// The largest page tables, in KiB.
    pub page_tables: Option<u64>,
}

/// Reads the end of a ring, even while it is written; `now` is in milliseconds since 1970.
/// Errors: it is no ring, or has another version of the format.
pub fn read_latest(file: &File, now: i64) -> Result<Latest, UnreadableRing> {
    let mut minute = Minute::default();
    let summary = read_newest(file, SPAN, &mut |position: Position, entry: RingEntry<'_>| {
        if let RingEntry::Sample(sample) = entry {
            minute.add_sample(position.run, sample);
        }
    })?;
    let patience = summary.header.about.interval_ms.saturating_mul(PATIENCE);
    let is_alive = minute.found.newest.is_some_and(|newest| now.abs_diff(newest) <= patience);
    Ok(Latest { is_alive, ..minute.found })
}

#[derive(Default)]
struct Minute {
    found: Latest,
    before: Option<(u64, Box<HostSample>)>,
}

impl Minute {
    fn add_sample(&mut self, run: u64, sample: &HostSample) {
        let found = &mut self.found;
        found.newest = Some(sample.wall);
        found.samples += 1;
        found.free = found.free.into_iter().chain(sample.get(Field::MemFree)).min();
        found.page_tables = found.page_tables.max(sample.get(Field::PageTables));
        if let Some((_, before)) = self.before.as_ref().filter(|(count, _)| *count == run)
            && let Some(passed) =
                sample.uptime.checked_sub(before.uptime).filter(|passed| *passed > 0)
        {
            let grown = |field| sample.get(field)?.checked_sub(before.get(field)?);
            found.gap = found.gap.max(Some(passed));
            found.kernel = max_known(found.kernel, kernel_cpu_share(&grown));
            let stalled = grown(Field::PressureMemoryFull)
                .map(|stalled| (divide_counts(stalled, passed) / 1000.0).min(1.0));
            found.memory_stall = max_known(found.memory_stall, stalled);
            let scanned =
                grown(Field::ScanDirect).map(|scanned| divide_counts(scanned, passed) * 1000.0);
            found.direct_scan = max_known(found.direct_scan, scanned);
        }
        match &mut self.before {
            Some((count, before)) => {
                *count = run;
                before.as_mut().clone_from(sample);
            }
            None => self.before = Some((run, Box::new(sample.clone()))),
        }
    }
}

/// Users' time includes guests'.
fn kernel_cpu_share(grown: &dyn Fn(Field) -> Option<u64>) -> Option<f64> {
    let sum = |fields: &[Field]| {
        fields.iter().filter_map(|field| grown(*field)).fold(0, u64::saturating_add)
    };
    let system = grown(Field::CpuSystem)?.saturating_add(sum(&[Field::CpuIrq, Field::CpuSoftirq]));
    let others =
        [Field::CpuUser, Field::CpuNice, Field::CpuIdle, Field::CpuIowait, Field::CpuSteal];
    let all = system.saturating_add(sum(&others));
    (all > 0).then(|| divide_counts(system, all))
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a peak, of two whole numbers that are not near 2^52"
)]
fn divide_counts(count: u64, all: u64) -> f64 {
    count as f64 / all as f64
}

fn max_known(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::{About, RingFolder, RingKind};
    use crate::testing::Blocks;

    const NOON: i64 = 1_795_306_507_000;

    /// Two minutes; 30 s before the end the kernel has all of a processor of four for a second, and
    /// a sample is missing.
    #[test]
    fn the_last_minute_tells_its_peaks() {
        let folder = tempfile::tempdir().unwrap();
        let about = About { interval_ms: 1000, ..About::default() };
        let opened = RingFolder::open(folder.path())
            .unwrap()
            .open_ring(RingKind::Seconds, 64, &about)
            .unwrap();
        let mut blocks = Blocks::of(&opened.ring, 0);
        let mut sample = HostSample::default();
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
            (sample.uptime, sample.wall) =
                (second * 1000, NOON + i64::try_from(second).unwrap() * 1000);
            if second != 100 {
                blocks.push(&opened.ring, &sample);
            }
        }
        let file =
            crate::status::open_ring(&folder.path().join(RingKind::Seconds.file_name())).unwrap();
        let end = NOON + 120_000;
        let found = read_latest(&file, end + 2000).unwrap();
        assert_eq!((found.is_alive, found.newest, found.gap), (true, Some(end), Some(2000)));
        assert_eq!(
            (found.kernel, found.memory_stall, found.direct_scan),
            (Some(0.25), Some(0.25), Some(5000.0))
        );
        assert_eq!((found.free, found.page_tables), (Some(5060), Some(1120)));
        assert_eq!(found.samples, 60);
        assert!(!read_latest(&file, end + 11_000).unwrap().is_alive);
    }
}
