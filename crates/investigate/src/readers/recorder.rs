//! The ring of hugewise's own flight recorder, also while it is written.
//!
//! Its blocks are in the order of the file, not of time: the oldest follows the newest. Rates are
//! between samples of the same run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::time::Duration;

use hugewise_model::{Bytes, PageSize};
use hugewise_record::ring::{self, Position, RingEntry};
use hugewise_record::{
    Field, FieldUnit, HostSample, RecordedEventKind, RecordedProcess, RecordedProcesses,
};

use super::archive_format::{ArchiveFormat, Promise};
use crate::series::{Offset, Use};
use crate::{Clock, FileRefused, Mark, MarkKind, Metric, Moment, Series};

/// Runs of consecutive blocks: a ring has two; each lost block could begin another.
const MOST_STRETCHES: usize = 64;
const MOST_MARKS: usize = 500;
/// KiB of a process that is large enough to be followed.
const LARGE_KIB: u64 = 256 << 10;
/// KiB of page tables taken by a process between two samples that are reported: they map 64 MiB.
const TABLES_KIB: u64 = 128;
/// Large processes, and programs with growing page tables, that are followed, the first ones.
const MOST_FOLLOWED: usize = 32;

const GAUGES: &[(Field, Metric)] = &[
    (Field::Processors, Metric::Processors),
    (Field::MemTotal, Metric::MemTotal),
    (Field::MemFree, Metric::MemFree),
    (Field::MemAvailable, Metric::MemAvailable),
    (Field::Buffers, Metric::Buffers),
    (Field::Cached, Metric::Cached),
    (Field::SwapCached, Metric::SwapCached),
    (Field::Active, Metric::Active),
    (Field::Inactive, Metric::Inactive),
    (Field::Dirty, Metric::Dirty),
    (Field::Writeback, Metric::Writeback),
    (Field::AnonPages, Metric::Anon),
    (Field::AnonHuge, Metric::AnonHuge),
    (Field::Mapped, Metric::Mapped),
    (Field::Shmem, Metric::Shmem),
    (Field::Slab, Metric::Slab),
    (Field::SlabReclaimable, Metric::SlabReclaimable),
    (Field::KernelStack, Metric::KernelStack),
    (Field::PageTables, Metric::PageTables),
    (Field::VmallocUsed, Metric::VmallocUsed),
    (Field::Committed, Metric::Committed),
    (Field::Hugetlb, Metric::HugetlbAll),
    (Field::SwapTotal, Metric::SwapTotal),
    (Field::SwapFree, Metric::SwapFree),
    (Field::Running, Metric::RunQueue),
    (Field::Blocked, Metric::Blocked),
    (Field::Tasks, Metric::Tasks),
    (Field::Load1, Metric::Load1),
    (Field::Load5, Metric::Load5),
    (Field::Load15, Metric::Load15),
];

/// In pages of the default huge page size.
const POOL: &[(Field, Metric)] = &[
    (Field::HugeTotal, Metric::HugeTotal),
    (Field::HugeFree, Metric::HugeFree),
    (Field::HugeReserved, Metric::HugeReserved),
    (Field::HugeSurplus, Metric::HugeSurplus),
];

/// Counters, and the factor from their unit to the metric's. Several of one metric are added.
const COUNTERS: &[(&[Field], Metric, f64)] = &[
    (&[Field::PagedIn], Metric::PagedIn, 1024.0),
    (&[Field::PagedOut], Metric::PagedOut, 1024.0),
    (&[Field::SwapIn], Metric::SwapIn, 1.0),
    (&[Field::SwapOut], Metric::SwapOut, 1.0),
    (&[Field::Faults], Metric::Faults, 1.0),
    (&[Field::MajorFaults], Metric::MajorFaults, 1.0),
    (&[Field::Freed], Metric::Freed, 1.0),
    (&[Field::ScanKswapd], Metric::ScanKswapd, 1.0),
    (&[Field::ScanDirect], Metric::ScanDirect, 1.0),
    (&[Field::StealKswapd, Field::StealDirect], Metric::Steal, 1.0),
    (&[Field::AllocStall], Metric::AllocStall, 1.0),
    (&[Field::CompactStall], Metric::CompactStall, 1.0),
    (&[Field::CompactFail], Metric::CompactFail, 1.0),
    (&[Field::CompactSuccess], Metric::CompactSuccess, 1.0),
    (&[Field::ThpFaultAlloc], Metric::ThpFaultAlloc, 1.0),
    (&[Field::ThpFaultFallback], Metric::ThpFaultFallback, 1.0),
    (&[Field::ThpCollapse], Metric::ThpCollapse, 1.0),
    (&[Field::ThpSplitPage], Metric::ThpSplit, 1.0),
    (&[Field::OomKill], Metric::OomKill, 1.0),
    (&[Field::Forks], Metric::Forks, 1.0),
    (&[Field::ContextSwitches], Metric::ContextSwitches, 1.0),
    (&[Field::Interrupts], Metric::Interrupts, 1.0),
    (&[Field::TcpPassiveOpens], Metric::TcpPassive, 1.0),
    // Nanoseconds and microseconds of a second, in percent.
    (&[Field::KswapdCpu], Metric::KswapdCpu, 1e-7),
    (&[Field::KcompactdCpu], Metric::KcompactdCpu, 1e-7),
    (&[Field::KhugepagedCpu], Metric::KhugepagedCpu, 1e-7),
    (&[Field::PressureCpuSome], Metric::PressureCpuSome, 1e-4),
    (&[Field::PressureIoSome], Metric::PressureIoSome, 1e-4),
    (&[Field::PressureIoFull], Metric::PressureIoFull, 1e-4),
    (&[Field::PressureMemorySome], Metric::PressureMemorySome, 1e-4),
    (&[Field::PressureMemoryFull], Metric::PressureMemoryFull, 1e-4),
];

/// The parts of the processors' time that add up to all of it; guests' time is in that of users.
const CPU: &[(&[Field], Metric)] = &[
    (&[Field::CpuUser], Metric::CpuUser),
    (&[Field::CpuNice], Metric::CpuNice),
    (&[Field::CpuSystem, Field::CpuIrq, Field::CpuSoftirq], Metric::CpuSystem),
    (&[Field::CpuIdle], Metric::CpuIdle),
    (&[Field::CpuIowait], Metric::CpuIowait),
    (&[Field::CpuSteal], Metric::CpuSteal),
];
/// Parts of those parts.
const CPU_PARTS: &[(&[Field], Metric)] = &[
    (&[Field::CpuIrq], Metric::CpuIrq),
    (&[Field::CpuSoftirq], Metric::CpuSoftirq),
    (&[Field::CpuGuest, Field::CpuGuestNice], Metric::CpuGuest),
];

/// The rings of hugewise's own flight recorder.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "recorder",
    called: "a recording of hugewise record",
    tools: &[],
    is_text: false,
    recognize: |head| Promise::sure_if(ring::is_ring_head(head)),
    read: |file| file.read_single(read),
};

/// Reads a ring.
///
/// # Errors
/// It is of another version, or holds no sample.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, FileRefused> {
    let mut stretches = Stretches {
        source,
        all: BTreeMap::new(),
        last: None,
        runs: Vec::new(),
        lost: 0,
        followed: Followed::default(),
    };
    let read = ring::read(stream, &mut |position, entry| stretches.push_entry(position, entry));
    let summary = read.map_err(|refused| FileRefused(refused.0))?;
    let (lost, runs) = (stretches.lost, std::mem::take(&mut stretches.runs));
    let mut whole = Series::new(source, crate::SourceFormat::Collector("recorder"));
    let mut offsets = runs;
    offsets.sort_by_key(|offset| offset.from);
    offsets.dedup_by_key(|offset| offset.seconds);
    let about = &summary.header.about;
    if offsets.is_empty() {
        let seconds = i32::try_from(about.offset).unwrap_or(0);
        offsets.push(Offset { from: Moment(about.began), seconds });
    }
    whole.clock = Clock::Utc { offsets };
    // In the order of their blocks, which is that of the run's clock.
    for stretch in std::mem::take(&mut stretches.all).into_values() {
        whole.append(stretch.series);
    }
    if whole.samples().is_empty() {
        return Err(FileRefused(summary.cut.unwrap_or_else(|| "has no samples yet".into())));
    }
    whole.host = Some(about.host.clone()).filter(|host| !host.is_empty());
    whole.kernel = Some(about.kernel.clone());
    whole.architecture = Some(about.architecture.clone());
    whole.version = Some(about.version.clone());
    whole.base_page = PageSize::new(about.base_page);
    if summary.torn > 1 {
        // One torn block is the last, which was being written.
        whole
            .add_problem(format!("{} blocks are torn, and what was in them is lost", summary.torn));
    }
    if let Some(cut) = summary.cut {
        whole.add_problem(format!("is cut off: {cut}"));
    }
    if lost > 0 {
        whole.add_problem(format!("{lost} samples are out of order and are left out"));
    }
    for lack in about.list_pace_risks() {
        whole.add_problem(format!("was recorded without {lack}: it may have come late"));
    }
    Ok(whole.finish())
}

/// A kernel message's meaning, if known; otherwise, and for the recorder's own, its words.
fn to_mark_kind(kind: RecordedEventKind, text: String) -> MarkKind {
    let event = if kind == RecordedEventKind::Recorder {
        None
    } else {
        super::system_log::parse_kernel_message(&text)
    };
    event.map_or(MarkKind::Comment(text), MarkKind::Event)
}

struct Stretches<'a> {
    source: &'a str,
    /// By the number of their first block.
    all: BTreeMap<u64, RecordedStretch>,
    /// The first and the last block of the current one.
    last: Option<(u64, u64)>,
    /// How far the clocks of runs were ahead of UTC.
    runs: Vec<Offset>,
    lost: u64,
    followed: Followed,
}

struct RecordedStretch {
    series: Series,
    before: Option<(u64, Box<HostSample>)>,
    /// Wall clock and uptime of the last sample of any run, in milliseconds.
    last: Option<(i64, u64)>,
}

/// A session's program: Oracle's are `oraclePROD (LOCAL=NO)`, cut to 15 bytes by the kernel.
fn program_of_command(command: &str) -> String {
    command.split(" (").next().unwrap_or(command).to_owned()
}

#[derive(Default)]
struct Followed {
    large: BTreeSet<String>,
    mapping: BTreeSet<String>,
}

fn reserve_column(followed: &mut BTreeSet<String>, name: &str) -> bool {
    if followed.contains(name) {
        return true;
    }
    followed.len() < MOST_FOLLOWED && followed.insert(name.to_owned())
}

/// Milliseconds by which the clock may be set between two runs of the same boot.
const CLOCK_PUT: i64 = 120_000;

/// Whether a sample's uptime continues that of another run: only the recorder was restarted.
fn continues_uptime(last: (i64, u64), now: &HostSample) -> bool {
    let by_uptime = now.uptime.checked_sub(last.1).and_then(|passed| i64::try_from(passed).ok());
    let by_wall = now.wall.saturating_sub(last.0);
    by_uptime.is_some_and(|passed| passed.saturating_sub(by_wall).saturating_abs() <= CLOCK_PUT)
}

impl Stretches<'_> {
    fn push_entry(&mut self, position: Position, entry: RingEntry<'_>) {
        let first = match self.last {
            Some((first, last)) if position.sequence >= last => first,
            _ => position.sequence,
        };
        self.last = Some((first, position.sequence));
        if !self.all.contains_key(&first) && self.all.len() >= MOST_STRETCHES {
            self.lost += u64::from(matches!(entry, RingEntry::Sample(_)));
            return;
        }
        let stretch = self.all.entry(first).or_insert_with(|| RecordedStretch {
            series: Series::new(self.source, crate::SourceFormat::Collector("recorder")),
            before: None,
            last: None,
        });
        match entry {
            RingEntry::About(about) => {
                let seconds = i32::try_from(about.offset).ok();
                if let Some(seconds) = seconds.filter(|_| self.runs.len() < MOST_MARKS) {
                    self.runs.push(Offset { from: Moment(about.began), seconds });
                }
            }
            RingEntry::Sample(sample) => stretch.push_sample(position.run, sample),
            RingEntry::Processes(processes) => {
                stretch.record_processes(processes, &mut self.followed)
            }
            RingEntry::Instances(instances) => {
                // Servers that do not tell have an unknown number of sessions, not zero.
                let told: Option<u64> = instances
                    .listed_instances()
                    .iter()
                    .filter_map(|one| one.sessions)
                    .reduce(u64::saturating_add);
                if let Some(sessions) = told {
                    stretch.series.set_value(Metric::Sessions, as_f64(sessions));
                }
            }
            RingEntry::Event(event) => {
                stretch.push_mark(event.wall, to_mark_kind(event.kind, event.to_text()))
            }
        }
    }
}

impl RecordedStretch {
    fn push_mark(&mut self, wall: i64, kind: MarkKind) {
        if self.series.marks.len() < MOST_MARKS {
            self.series.marks.push(Mark { at: Moment(wall), kind });
        }
    }

    fn record_processes(&mut self, processes: &RecordedProcesses, followed: &mut Followed) {
        self.series.set_value(Metric::Processes, as_f64(processes.processes));
        // Only those that changed most are listed: a value is of one process, not of a program.
        let count_of = |process: &RecordedProcess| {
            Some((process.resident_kib.filter(|kib| *kib >= LARGE_KIB)?, *process))
        };
        let mut large: Vec<(u64, RecordedProcess)> =
            processes.listed_processes().iter().filter_map(count_of).collect();
        // Where there is no room for all, the largest are followed.
        large.sort_by_key(|(kib, process)| (Reverse(*kib), process.pid));
        for (kib, process) in large {
            let name = format!("{} (pid {})", process.command.to_text(), process.pid);
            if reserve_column(&mut followed.large, &name) {
                self.series.set_use(&name, Use::Resident, Bytes::from_kib(kib).as_f64());
            }
        }
        // Sessions come and go: page tables are reported of the program.
        let mut tables: BTreeMap<String, u64> = BTreeMap::new();
        for process in processes.listed_processes() {
            let grown = u64::try_from(process.page_tables_grown_kib).unwrap_or(0);
            if grown >= TABLES_KIB {
                let all = tables.entry(program_of_command(&process.command.to_text())).or_default();
                *all = all.saturating_add(grown);
            }
        }
        for (name, kib) in tables {
            if reserve_column(&mut followed.mapping, &name) {
                self.series.set_use(&name, Use::PageTablesGrown, Bytes::from_kib(kib).as_f64());
            }
        }
        let mut stuck: BTreeMap<String, f64> = BTreeMap::new();
        for process in processes.listed_processes().iter().filter(|process| process.state == b'D') {
            *stuck.entry(program_of_command(&process.command.to_text())).or_default() += 1.0;
        }
        for (name, count) in stuck {
            self.series.set_use(&name, Use::Stuck, count);
        }
    }

    fn push_sample(&mut self, run: u64, sample: &HostSample) {
        let before =
            self.before.take().filter(|(count, _)| *count == run).map(|(_, before)| before);
        let passed = before.as_ref().and_then(|before| sample.uptime.checked_sub(before.uptime));
        let passed = passed.filter(|passed| *passed > 0).map(Duration::from_millis);
        if before.is_none()
            && let Some(last) = self.last
        {
            let resumed = continues_uptime(last, sample);
            let kind = if resumed { MarkKind::Resumed } else { MarkKind::Restart };
            self.push_mark(sample.wall, kind);
        }
        self.last = Some((sample.wall, sample.uptime));
        self.series.push(Moment(sample.wall), passed);
        self.set_gauges(sample);
        if let Some((before, passed)) = before.as_deref().zip(passed) {
            self.set_rates(before, sample, passed);
        }
        self.before = Some((run, Box::new(sample.clone())));
    }

    fn set_gauges(&mut self, sample: &HostSample) {
        for (field, metric) in GAUGES {
            let Some(value) = sample.get(*field) else { continue };
            let value = match field.unit() {
                FieldUnit::Kibibytes => Bytes::from_kib(value).as_f64(),
                FieldUnit::Hundredths => as_f64(value) / 100.0,
                _ => as_f64(value),
            };
            self.series.set_value(*metric, value);
        }
        if let Some((total, free)) = sample.get(Field::SwapTotal).zip(sample.get(Field::SwapFree)) {
            self.series
                .set_value(Metric::SwapUsed, Bytes::from_kib(total.saturating_sub(free)).as_f64());
        }
        if let Some(page) = sample.get(Field::HugePageSize).map(Bytes::from_kib) {
            self.series.huge_page = Some(page);
            for (field, metric) in POOL {
                if let Some(pages) = sample.get(*field) {
                    self.series.set_value(*metric, page.saturating_mul(pages).as_f64());
                }
            }
        }
    }

    fn set_rates(&mut self, before: &HostSample, now: &HostSample, passed: Duration) {
        // A counter that falls began anew.
        let grown = |field: Field| now.get(field)?.checked_sub(before.get(field)?);
        let all = |fields: &[Field]| {
            fields.iter().try_fold(0_u64, |all, field| Some(all.saturating_add(grown(*field)?)))
        };
        for (fields, metric, factor) in COUNTERS {
            if let Some(grown) = all(fields) {
                self.series.set_value(*metric, as_f64(grown) * factor / passed.as_secs_f64());
            }
        }
        // The kernel's idle time can go back by a little.
        let ticks = |fields: &[Field]| {
            fields.iter().fold(0_u64, |all, field| all.saturating_add(grown(*field).unwrap_or(0)))
        };
        let whole = CPU.iter().fold(0_u64, |all, (fields, _)| all.saturating_add(ticks(fields)));
        if whole == 0 {
            return;
        }
        for (fields, metric) in CPU.iter().chain(CPU_PARTS) {
            if fields.iter().any(|field| now.get(*field).is_some()) {
                self.series.set_value(*metric, as_f64(ticks(fields)) * 100.0 / as_f64(whole));
            }
        }
    }
}

fn as_f64(value: u64) -> f64 {
    Bytes(value).as_f64()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods)]

    use std::fs;
    use std::path::Path;

    use hugewise_record::RecordedEvent;
    use hugewise_record::ring::{About, OpenedRing, RingFolder, RingKind};
    use hugewise_record::testing::{Blocks, with_extremes};

    use super::*;

    const BEGIN: i64 = 1_795_306_507_000;

    fn open_ring(folder: &Path, blocks: u64) -> OpenedRing {
        let about = About {
            host: "db1".into(),
            kernel: "5.14.0".into(),
            began: BEGIN,
            base_page: 4096,
            ticks: 100,
            offset: 3600,
            interval_ms: 1000,
            ..About::default()
        };
        RingFolder::open(folder).unwrap().open_ring(RingKind::Seconds, blocks, &about).unwrap()
    }

    /// Two processors, one of which is in the kernel; 300 faults and 20 scanned pages a second;
    /// memory waited for half of it.
    fn sample_at(second: u64) -> HostSample {
        let mut sample = HostSample::default();
        (sample.wall, sample.uptime) =
            (BEGIN + i64::try_from(second).unwrap() * 1000, 50_000 + second * 1000);
        for (field, value) in [
            (Field::CpuUser, 40 * second),
            (Field::CpuSystem, 90 * second),
            (Field::CpuSoftirq, 10 * second),
            (Field::CpuIdle, 60 * second),
            (Field::Faults, 300 * second),
            (Field::ScanDirect, 20 * second),
            (Field::PressureMemorySome, 500_000 * second),
            (Field::KswapdCpu, 250_000_000 * second),
            (Field::MemFree, 1000),
            (Field::HugeTotal, 10),
            (Field::HugePageSize, 2048),
            (Field::Load1, 1205),
            (Field::SwapTotal, 500),
            (Field::SwapFree, 100),
        ] {
            sample.set(field, value);
        }
        sample
    }

    fn read_file(folder: &Path) -> Result<Series, FileRefused> {
        read(&mut &fs::read(folder.join("seconds.ring")).unwrap()[..], "seconds.ring")
    }

    fn write(folder: &Path, blocks: u64, seconds: std::ops::Range<u64>) {
        let opened = open_ring(folder, blocks);
        let mut writer = Blocks::of(&opened.ring, opened.next);
        for second in seconds {
            writer.push(&opened.ring, &sample_at(second));
        }
    }

    #[test]
    fn rates_and_levels_are_those_of_the_counters() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 64, 1..9);
        let series = read_file(folder.path()).unwrap();
        assert_eq!((series.host.as_deref(), series.samples().len()), (Some("db1"), 8));
        assert_eq!(series.clock.offset_at(Moment(BEGIN)), Some(3600));
        assert_eq!(series.samples().first().unwrap().interval, None);
        let value_of = |metric, row| series.value(metric, row);
        for (metric, value) in [
            (Metric::CpuUser, 20.0),
            (Metric::CpuSystem, 50.0),
            (Metric::CpuSoftirq, 5.0),
            (Metric::CpuIdle, 30.0),
            (Metric::Faults, 300.0),
            (Metric::ScanDirect, 20.0),
            (Metric::PressureMemorySome, 50.0),
            (Metric::KswapdCpu, 25.0),
        ] {
            assert_eq!(value_of(metric, 0), None, "{metric:?}");
            for row in 1..8 {
                let read = value_of(metric, row).unwrap();
                assert!((read - value).abs() < 1e-6, "{metric:?} {row} {read}");
            }
        }
        assert_eq!(value_of(Metric::MemFree, 0), Some(1_024_000.0));
        assert_eq!(value_of(Metric::HugeTotal, 0), Some(20_971_520.0));
        assert_eq!(value_of(Metric::Load1, 0), Some(12.05));
        assert_eq!(value_of(Metric::SwapUsed, 0), Some(409_600.0));
        // What was not there is not zero.
        assert_eq!(
            [Metric::CpuSteal, Metric::OomKill, Metric::PageTables]
                .map(|metric| value_of(metric, 3)),
            [None; 3]
        );
    }

    #[test]
    fn a_ring_that_went_round_is_in_the_order_of_time_and_another_run_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 8, 1..50);
        write(folder.path(), 8, 100..105);
        let series = read_file(folder.path()).unwrap();
        let seconds: Vec<i64> =
            series.samples().iter().map(|sample| (sample.at.0 - BEGIN) / 1000).collect();
        assert!(seconds.is_sorted(), "{seconds:?}");
        assert_eq!(seconds.iter().filter(|second| **second >= 100).count(), 5);
        let first = seconds.iter().position(|second| *second == 100).unwrap();
        assert_eq!(series.samples().get(first).unwrap().interval, None);
        assert_eq!(series.value(Metric::Faults, first), None);
        assert!(series.value(Metric::Faults, first + 1).is_some());
        assert_eq!(series.problems, []);
    }

    /// A recorder that was stopped for an hour on a host that stayed up, and one of a host that
    /// started anew.
    #[test]
    fn a_recorder_that_was_off_is_no_host_that_was() {
        let run = |uptime: u64| {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), 64, 1..9);
            let opened = open_ring(folder.path(), 64);
            let mut writer = Blocks::of(&opened.ring, opened.next);
            for second in 3600..3604 {
                let mut later = sample_at(second);
                later.uptime = uptime + (second - 3600) * 1000;
                writer.push(&opened.ring, &later);
            }
            let series = read_file(folder.path()).unwrap();
            series.marks.iter().map(|mark| mark.kind.clone()).collect::<Vec<_>>()
        };
        assert_eq!(run(50_000 + 3_600_000), [MarkKind::Resumed]);
        assert_eq!(run(90_000), [MarkKind::Restart]);
    }

    #[test]
    fn what_the_kernel_said_is_an_event() {
        let folder = tempfile::tempdir().unwrap();
        let opened = open_ring(folder.path(), 64);
        let mut writer = Blocks::of(&opened.ring, opened.next);
        writer.push(&opened.ring, &sample_at(1));
        writer.push_event(
            &opened.ring,
            &RecordedEvent::new(
                BEGIN + 1500,
                RecordedEventKind::OutOfMemory,
                b"Out of memory: Killed process 9 (java) total-vm:9kB, anon-rss:2048kB, \
                     file-rss:0kB",
            ),
        );
        writer.push_event(
            &opened.ring,
            &RecordedEvent::new(
                BEGIN + 1600,
                RecordedEventKind::Recorder,
                b"Out of memory: Killed process 9",
            ),
        );
        let series = read_file(folder.path()).unwrap();
        let said: Vec<_> = series
            .events()
            .map(|(at, event)| (at, event.kind.name(), event.what.as_str()))
            .collect();
        let killed = "killed java (pid 9, 2.0 MiB private): the host was out of memory";
        assert_eq!(said, [(Moment(BEGIN + 1500), "oom-kill", killed)]);
        assert_eq!(
            series.marks.last().unwrap().kind,
            MarkKind::Comment("Out of memory: Killed process 9".into())
        );
    }

    #[test]
    fn one_that_is_empty_torn_or_of_another_version_is_told() {
        let folder = tempfile::tempdir().unwrap();
        drop(open_ring(folder.path(), 8));
        assert!(read_file(folder.path()).unwrap_err().0.contains("no samples yet"));
        write(folder.path(), 8, 1..33);
        let path = folder.path().join("seconds.ring");
        let whole = fs::read(&path).unwrap();
        let mut torn = whole.clone();
        for block in [3, 5] {
            *torn.get_mut((2 + block) * 4096 + 100).unwrap() ^= 1;
        }
        let series = read(&mut &torn[..], "x").unwrap();
        assert_eq!((series.samples().len(), series.problems.len()), (24, 1));
        assert!(series.problems.first().unwrap().what.contains("2 blocks are torn"));
        let series = read(&mut whole.get(..6 * 4096).unwrap(), "x").unwrap();
        assert!(series.problems.first().unwrap().what.contains("cut off"));
        assert!(read(&mut &b"\x89HWR\r\n\x1a\n"[..], "x").unwrap_err().0.contains("cut off"));
    }

    proptest::proptest! {
        #[test]
        fn numbers_of_any_size_are_a_series(choices in proptest::collection::vec(proptest::num::u8::ANY, 0..1500)) {
            let _ = read(&mut &with_extremes(&choices)[..], "x");
        }
    }

    #[test]
    fn sums_of_the_largest_numbers_are_no_overflow() {
        // Each byte chooses: 0 at first, the largest number from the second sample on.
        let choices: Vec<u8> = (0..1500).map(|at| if at < 250 { 0 } else { 2 }).collect();
        read(&mut &with_extremes(&choices)[..], "x").unwrap();
    }

    /// By hand: 23 sessions took 860 KiB each; what 60 KiB map is nobody's storm.
    #[test]
    fn page_tables_are_told_of_the_program_that_took_them() {
        let folder = tempfile::tempdir().unwrap();
        let opened = open_ring(folder.path(), 64);
        let mut writer = Blocks::of(&opened.ring, opened.next);
        let mut processes = RecordedProcesses::default();
        for pid in 0..23_u32 {
            let command = hugewise_record::notes::BoundedName::new(b"oraclePROD (LOC");
            processes.push(RecordedProcess {
                pid,
                command,
                page_tables_grown_kib: 860,
                ..RecordedProcess::default()
            });
        }
        let command = hugewise_record::notes::BoundedName::new(b"cron");
        processes.push(RecordedProcess {
            pid: 99,
            command,
            page_tables_grown_kib: 60,
            ..RecordedProcess::default()
        });
        writer.push(&opened.ring, &sample_at(1));
        writer.push_processes(&opened.ring, &processes);
        let series = read_file(folder.path()).unwrap();
        let told: Vec<_> = series
            .command_columns(Use::PageTablesGrown)
            .map(|(name, column)| (name.to_owned(), column.get(0)))
            .collect();
        assert_eq!(told, [("oraclePROD".to_owned(), Some(23.0 * 860.0 * 1024.0))]);
    }

    #[test]
    fn sessions_of_one_server_are_one_program() {
        let programs =
            ["oraclePROD (LOC", "oraclePROD", "postgres", "(sd-pam)"].map(program_of_command);
        assert_eq!(programs, ["oraclePROD", "oraclePROD", "postgres", "(sd-pam)"]);
    }

    /// By hand: 24 are listed at once, of which the 8 largest of the second look still have room;
    /// 40 columns of a day of 86,400 rows and 8 bytes would be 28 MB, and 512 of them 354 MB.
    #[test]
    fn so_many_processes_are_followed_and_the_largest_of_those_that_come() {
        let folder = tempfile::tempdir().unwrap();
        let opened = open_ring(folder.path(), 64);
        let mut writer = Blocks::of(&opened.ring, opened.next);
        for (second, pids) in [(1, 0..24_u32), (2, 100..124)] {
            let mut processes = RecordedProcesses::default();
            for pid in pids {
                let command = hugewise_record::notes::BoundedName::new(b"java");
                let resident_kib = Some((300 << 10) + u64::from(pid));
                processes.push(RecordedProcess {
                    pid,
                    command,
                    resident_kib,
                    ..RecordedProcess::default()
                });
            }
            writer.push(&opened.ring, &sample_at(second));
            writer.push_processes(&opened.ring, &processes);
        }
        let series = read_file(folder.path()).unwrap();
        let mut followed: Vec<_> =
            series.command_columns(Use::Resident).map(|(name, _)| name.to_owned()).collect();
        let mut expected: Vec<_> =
            (0..24).chain(116..124).map(|pid| format!("java (pid {pid})")).collect();
        followed.sort();
        expected.sort();
        assert_eq!(followed, expected);
    }
}
