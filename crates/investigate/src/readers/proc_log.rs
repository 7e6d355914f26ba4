//! Logs that repeat a date and `/proc/meminfo`, `/proc/vmstat` or both, whole or what `grep` left
//! of them; OSWatcher's `oswmeminfo` is one of them.
//!
//! The date stands before its fields, or after them in logs that begin with a field and repeat that
//! field after their first date. A date without fields is a sample without values.

use std::io::Read;
use std::time::Duration;

use hugewise_model::Bytes;

use super::archive_format::{ArchiveFormat, Promise};
use super::line_timestamp::LineTimestamp;
use super::lines::{self, LONGEST_LINE, LineStreamEnd};
use crate::series::Moment;
use crate::{FileRefused, Metric, Series};

/// Fields of one date; none of the kernel's files has as many that are read.
const MOST_FIELDS: usize = 256;

/// Fields of /proc/meminfo in kB.
const MEMORY: &[(&str, Metric)] = &[
    ("MemTotal:", Metric::MemTotal),
    ("MemFree:", Metric::MemFree),
    ("MemAvailable:", Metric::MemAvailable),
    ("Buffers:", Metric::Buffers),
    ("Cached:", Metric::Cached),
    ("SwapCached:", Metric::SwapCached),
    ("Active:", Metric::Active),
    ("Inactive:", Metric::Inactive),
    ("SwapTotal:", Metric::SwapTotal),
    ("SwapFree:", Metric::SwapFree),
    ("Dirty:", Metric::Dirty),
    ("Writeback:", Metric::Writeback),
    ("AnonPages:", Metric::Anon),
    ("Mapped:", Metric::Mapped),
    ("Shmem:", Metric::Shmem),
    ("Slab:", Metric::Slab),
    ("SReclaimable:", Metric::SlabReclaimable),
    ("KernelStack:", Metric::KernelStack),
    ("PageTables:", Metric::PageTables),
    ("Committed_AS:", Metric::Committed),
    ("VmallocUsed:", Metric::VmallocUsed),
    ("AnonHugePages:", Metric::AnonHuge),
    ("Hugetlb:", Metric::HugetlbAll),
];

/// Fields of /proc/meminfo in pages of the default huge page size.
const POOL: &[(&str, Metric)] = &[
    ("HugePages_Total:", Metric::HugeTotal),
    ("HugePages_Free:", Metric::HugeFree),
    ("HugePages_Rsvd:", Metric::HugeReserved),
    ("HugePages_Surp:", Metric::HugeSurplus),
];

/// Counters of /proc/vmstat, the metric, and the factor from their unit to its.
const COUNTERS: &[(&str, Metric, f64)] = &[
    ("pgpgin", Metric::PagedIn, 1024.0),
    ("pgpgout", Metric::PagedOut, 1024.0),
    ("pswpin", Metric::SwapIn, 1.0),
    ("pswpout", Metric::SwapOut, 1.0),
    ("pgfault", Metric::Faults, 1.0),
    ("pgmajfault", Metric::MajorFaults, 1.0),
    ("pgfree", Metric::Freed, 1.0),
    ("compact_stall", Metric::CompactStall, 1.0),
    ("compact_fail", Metric::CompactFail, 1.0),
    ("compact_success", Metric::CompactSuccess, 1.0),
    ("thp_fault_alloc", Metric::ThpFaultAlloc, 1.0),
    ("thp_fault_fallback", Metric::ThpFaultFallback, 1.0),
    ("thp_collapse_alloc", Metric::ThpCollapse, 1.0),
    ("thp_split", Metric::ThpSplit, 1.0),
    ("thp_split_page", Metric::ThpSplit, 1.0),
    ("oom_kill", Metric::OomKill, 1.0),
];

/// Counters that older kernels have by zone, which are added up.
const BY_ZONE: &[(&str, Metric)] = &[
    ("pgscan_kswapd", Metric::ScanKswapd),
    ("pgscan_direct", Metric::ScanDirect),
    ("pgsteal_kswapd", Metric::Steal),
    ("pgsteal_direct", Metric::Steal),
    ("allocstall", Metric::AllocStall),
];
const ZONES: [&str; 6] = ["", "_dma", "_dma32", "_normal", "_high", "_movable"];

enum ProcLogField {
    Memory(Metric),
    Pool(Metric),
    PoolPage,
    Counter(Metric, f64),
}

fn recognize_field(name: &str) -> Option<ProcLogField> {
    let metric_of = |table: &[(&str, Metric)]| {
        table.iter().find(|(text, _)| *text == name).map(|(_, metric)| *metric)
    };
    if name == "Hugepagesize:" {
        return Some(ProcLogField::PoolPage);
    }
    if let Some(metric) = metric_of(MEMORY) {
        return Some(ProcLogField::Memory(metric));
    }
    if let Some(metric) = metric_of(POOL) {
        return Some(ProcLogField::Pool(metric));
    }
    if let Some((_, metric, factor)) = COUNTERS.iter().find(|(text, ..)| *text == name) {
        return Some(ProcLogField::Counter(*metric, *factor));
    }
    let zone = |(text, _): &&(&str, Metric)| {
        name.strip_prefix(text).is_some_and(|zone| ZONES.contains(&zone))
    };
    BY_ZONE.iter().find(zone).map(|(_, metric)| ProcLogField::Counter(*metric, 1.0))
}

/// Whether a line is a field of these files: a name, a number, perhaps a unit.
pub(super) fn is_field(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let numeric = |word: &&str| word.bytes().all(|digit| digit.is_ascii_digit());
    match words.as_slice() {
        [name, value] | [name, value, "kB", ..] => {
            numeric(value) && recognize_field(name).is_some()
        }
        _ => false,
    }
}

/// Dates with /proc/meminfo or /proc/vmstat behind each.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "proc_log",
    called: "a log of /proc/meminfo or /proc/vmstat",
    tools: &[],
    is_text: true,
    recognize: |text| Promise::likely_if(is_proc_log(text)),
    read: |file| file.read_single(read),
};

/// Whether a text has a date and a field of these files.
pub(super) fn is_proc_log(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let name = |line: &str| {
        line.split_ascii_whitespace().next().is_some_and(|name| recognize_field(name).is_some())
    };
    let known = |line: &str| name(line) || line.starts_with("nr_free_pages ");
    text.lines().any(|line| LineTimestamp::parse(line).is_some()) && text.lines().any(known)
}

/// Reads such a log.
///
/// # Errors
/// It has no date, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, FileRefused> {
    read_stamped(
        stream,
        Series::new(source, crate::SourceFormat::Loop(crate::CollectedTool::Meminfo)),
        LineTimestamp::parse,
    )
}

/// Reads such a log into a series; `stamp` parses its dates.
pub(super) fn read_stamped(
    stream: &mut dyn Read,
    series: Series,
    stamp: impl Fn(&str) -> Option<LineTimestamp>,
) -> Result<Series, FileRefused> {
    let mut reader = ProcLogReader::new(series, stamp);
    let end = lines::for_each_line(stream, LONGEST_LINE, |line| reader.push_line(line));
    let torn =
        if let LineStreamEnd::Failed(error) = &end { error.clone() } else { "has no dates".into() };
    reader.into_series(&end).ok_or(FileRefused(torn))
}

#[derive(Clone, Debug, Default)]
struct ProcLogBlock {
    at: Option<Moment>,
    bytes: Vec<(Metric, u64)>,
    pages: Vec<(Metric, u64)>,
    page: Option<u64>,
    counters: Vec<(Metric, f64, u64)>,
    gauges: Vec<(Metric, f64)>,
}

impl ProcLogBlock {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
            && self.pages.is_empty()
            && self.counters.is_empty()
            && self.gauges.is_empty()
    }
}

pub(super) struct ProcLogReader<S> {
    series: Series,
    stamp: S,
    block: ProcLogBlock,
    before: Option<ProcLogBlock>,
    order: DateOrder,
    first: Option<String>,
    /// Whether /proc/meminfo is what lxcfs shows in a container: no kernel is without slab.
    container: bool,
}

enum DateOrder {
    Unknown,
    /// Fields came before the first date: the next field tells whether they belong to it.
    Either(LineTimestamp),
    Before,
    Behind,
}

impl<S: Fn(&str) -> Option<LineTimestamp>> ProcLogReader<S> {
    pub(super) fn new(series: Series, stamp: S) -> Self {
        Self {
            series,
            stamp,
            block: ProcLogBlock::default(),
            before: None,
            order: DateOrder::Unknown,
            first: None,
            container: false,
        }
    }

    /// `None` if there was no date.
    pub(super) fn into_series(mut self, end: &LineStreamEnd) -> Option<Series> {
        self.end_last_block();
        if self.series.samples().is_empty() {
            return None;
        }
        end.note_problem(&mut self.series);
        Some(self.series.finish())
    }

    pub(super) fn record_gauge(&mut self, metric: Metric, value: f64) {
        if self.block.gauges.len() < MOST_FIELDS {
            self.block.gauges.push((metric, value));
        }
    }

    /// Records a counter, with the factor from its unit to the metric's.
    pub(super) fn record_counter(&mut self, metric: Metric, factor: f64, value: u64) {
        match self.block.counters.iter_mut().find(|(other, ..)| *other == metric) {
            Some((.., sum)) => *sum = sum.saturating_add(value),
            None => self.block.counters.push((metric, factor, value)),
        }
    }

    pub(super) fn push_line(&mut self, line: &str) {
        if let Some(stamp) = (self.stamp)(line) {
            self.record_date(stamp);
            return;
        }
        let mut words = line.split_ascii_whitespace();
        let Some(name) = words.next() else { return };
        let Some((field, value)) =
            recognize_field(name).zip(words.next().and_then(|word| word.parse::<u64>().ok()))
        else {
            return;
        };
        if let DateOrder::Either(stamp) = &self.order {
            let stamp = stamp.clone();
            if self.first.as_deref() == Some(name) {
                self.end_dated_block(&stamp);
            } else {
                self.drop_undated_block(&stamp);
            }
        }
        self.first.get_or_insert_with(|| name.to_owned());
        match field {
            ProcLogField::Memory(metric) if self.block.bytes.len() < MOST_FIELDS => {
                self.block.bytes.push((metric, Bytes::from_kib(value).get()))
            }
            ProcLogField::Pool(metric) if self.block.pages.len() < MOST_FIELDS => {
                self.block.pages.push((metric, value))
            }
            ProcLogField::Memory(_) | ProcLogField::Pool(_) => {}
            ProcLogField::PoolPage => self.block.page = Some(Bytes::from_kib(value).get()),
            ProcLogField::Counter(metric, factor) => self.record_counter(metric, factor, value),
        }
    }

    fn record_date(&mut self, stamp: LineTimestamp) {
        match &self.order {
            DateOrder::Unknown if self.first.is_some() => self.order = DateOrder::Either(stamp),
            DateOrder::Unknown | DateOrder::Before => self.begin_dated_block(&stamp),
            DateOrder::Behind => self.end_dated_block(&stamp),
            // Two dates without fields between them: this log puts dates first.
            DateOrder::Either(first) => {
                let first = first.clone();
                self.drop_undated_block(&first);
                self.begin_dated_block(&stamp);
            }
        }
    }

    fn begin_dated_block(&mut self, stamp: &LineTimestamp) {
        self.flush_block();
        self.order = DateOrder::Before;
        self.block.at = Some(stamp.moment_on_clock(&mut self.series));
    }

    fn end_dated_block(&mut self, stamp: &LineTimestamp) {
        self.order = DateOrder::Behind;
        self.block.at = Some(stamp.moment_on_clock(&mut self.series));
        self.flush_block();
    }

    fn drop_undated_block(&mut self, stamp: &LineTimestamp) {
        self.block = ProcLogBlock::default();
        self.series.add_problem("everything before the first date is left out");
        self.begin_dated_block(stamp);
    }

    fn end_last_block(&mut self) {
        match std::mem::replace(&mut self.order, DateOrder::Unknown) {
            DateOrder::Either(stamp) => self.end_dated_block(&stamp),
            DateOrder::Behind if !self.block.is_empty() => {
                self.series.add_problem("everything after the last date is left out");
            }
            _ => self.flush_block(),
        }
    }

    fn flush_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        let Some(at) = block.at else { return };
        if block.bytes.contains(&(Metric::Slab, 0)) && !self.container {
            self.container = true;
            let why = "the file is a container's (no slab at all), and these are the host's";
            self.series.distrust_metric(Metric::PageTables, why);
        }
        let passed = self
            .before
            .as_ref()
            .and_then(|before| at.duration_since(before.at?))
            .filter(|passed| !passed.is_zero());
        self.series.push(at, passed);
        for (metric, bytes) in &block.bytes {
            if !(self.container && *metric == Metric::PageTables) {
                self.series.set_value(*metric, Bytes(*bytes).as_f64());
            }
        }
        for (metric, value) in &block.gauges {
            self.series.set_value(*metric, *value);
        }
        let count_of = |metric| {
            block.bytes.iter().find(|(other, _)| *other == metric).map(|(_, bytes)| *bytes)
        };
        if let Some((total, free)) = count_of(Metric::SwapTotal).zip(count_of(Metric::SwapFree)) {
            self.series.set_value(Metric::SwapUsed, Bytes(total.saturating_sub(free)).as_f64());
        }
        if let Some(page) = block.page {
            self.series.huge_page = Some(Bytes(page));
            for (metric, pages) in &block.pages {
                self.series.set_value(*metric, Bytes(page).saturating_mul(*pages).as_f64());
            }
        }
        // A pool of no pages is empty, whatever the page size.
        for (metric, _) in
            block.pages.iter().filter(|(_, pages)| block.page.is_none() && *pages == 0)
        {
            self.series.set_value(*metric, 0.0);
        }
        self.set_rates(&block, passed);
        // A block without counters leaves the interval to the next one that has some.
        if !block.counters.is_empty() || self.before.is_none() {
            self.before = Some(block);
        } else if let Some(before) = &mut self.before
            && before.counters.is_empty()
        {
            *before = block;
        }
    }

    fn set_rates(&mut self, block: &ProcLogBlock, passed: Option<Duration>) {
        let Some((before, passed)) = self.before.as_ref().zip(passed) else { return };
        for (metric, factor, now) in &block.counters {
            let earlier = before.counters.iter().find(|(other, ..)| other == metric);
            // A counter that falls began anew.
            let Some(grown) = earlier.and_then(|(.., earlier)| now.checked_sub(*earlier)) else {
                continue;
            };
            self.series.set_value(*metric, Bytes(grown).as_f64() * factor / passed.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::Clock;

    fn read_text(text: &str) -> Result<Series, FileRefused> {
        read(&mut text.as_bytes(), "meminfo.log")
    }

    fn field_value(text: &str, name: &str) -> f64 {
        let line =
            text.lines().find(|line| line.split_ascii_whitespace().next() == Some(name)).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn a_loop_of_date_and_the_kernels_files_is_read() {
        let script = "for i in 1 2; do date; cat /proc/meminfo /proc/vmstat; sleep 1; done";
        let output = Command::new("sh")
            .args(["-c", script])
            .env("LC_ALL", "C")
            .env("TZ", "EST5")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(is_proc_log(text.get(..4096).unwrap().as_bytes()));
        let series = read_text(&text).unwrap();
        assert_eq!((series.samples().len(), &series.problems[..]), (2, &[][..]));
        assert_eq!(series.clock, Clock::Wall { zone: Some("EST".into()) });
        let (one, two) = text.split_at(text.rfind("MemTotal:").unwrap());
        for (name, metric) in MEMORY.iter().filter(|(name, _)| text.contains(&format!("\n{name}")))
        {
            assert_eq!(series.value(*metric, 0), Some(field_value(one, name) * 1024.0), "{name}");
            assert_eq!(series.value(*metric, 1), Some(field_value(two, name) * 1024.0), "{name}");
        }
        let page = field_value(two, "Hugepagesize:") * 1024.0;
        assert_eq!(
            series.value(Metric::HugeTotal, 1),
            Some(field_value(two, "HugePages_Total:") * page)
        );
        let seconds = series.samples()[1].interval.unwrap().as_secs_f64();
        for (metric, names) in [
            (Metric::Faults, &["pgfault"][..]),
            (Metric::ScanDirect, &["pgscan_direct"]),
            (Metric::Steal, &["pgsteal_kswapd", "pgsteal_direct"]),
            (Metric::CompactStall, &["compact_stall"]),
            (Metric::ThpFaultFallback, &["thp_fault_fallback"]),
        ] {
            let sum = |text: &str| names.iter().map(|name| field_value(text, name)).sum::<f64>();
            assert_eq!(series.value(metric, 0), None);
            let rate = series.value(metric, 1).unwrap();
            assert!((rate - (sum(two) - sum(one)) / seconds).abs() < 1e-6, "{metric:?} {rate}");
        }
    }

    const WATCHER: &str = "zzz ***Thu Sep 4 14:00:00 CST 2025\nMemTotal: 16777216 kB\nPageTables: \
         1677721 kB\n\
                           HugePages_Total: 10\nHugePages_Free: 4\nHugepagesize: 2048 kB\n\
                           zzz ***Thu Sep 4 14:00:30 CST 2025\n\
                           zzz ***Warning. Something else\n\
                           zzz ***Thu Sep 4 14:03:10 CST 2025\nMemTotal: 16777216 kB\nPageTables: \
         3355443 kB\n";

    #[test]
    fn a_date_with_nothing_behind_it_is_a_sample_without_values() {
        assert!(is_proc_log(WATCHER.as_bytes()));
        let series = read_text(WATCHER).unwrap();
        let values_of = |metric| [0, 1, 2].map(|row| series.value(metric, row));
        assert_eq!(
            values_of(Metric::PageTables),
            [Some(1_717_986_304.0), None, Some(3_435_973_632.0)]
        );
        assert_eq!(values_of(Metric::HugeFree), [Some(8_388_608.0), None, None]);
        assert_eq!(series.huge_page, Some(Bytes::from_mib(2)));
        let seconds: Vec<_> = series
            .samples()
            .iter()
            .map(|sample| sample.interval.map(|interval| interval.as_secs()))
            .collect();
        assert_eq!(seconds, [None, Some(30), Some(160)]);
    }

    #[test]
    fn zones_are_added_and_what_falls_has_no_rate() {
        let block = |second: u32, dma: u64, normal: u64, faults: u64| {
            format!(
                "2026-11-21 10:00:{second:02}\nallocstall_dma {dma}\nallocstall_normal \
                     {normal}\npgfault {faults}\npgscan_direct_throttle 9\n"
            )
        };
        let series =
            read_text(&[block(0, 1, 100, 5000), block(10, 11, 200, 100)].concat()).unwrap();
        assert_eq!(series.value(Metric::AllocStall, 1), Some(11.0));
        assert_eq!(series.value(Metric::Faults, 1), None);
        assert_eq!(series.column(Metric::ScanDirect), None);
    }

    #[test]
    fn dates_may_stand_behind_what_they_are_of() {
        let block = |minute: u32| {
            format!("MemFree: {minute} kB\nPageTables: 7 kB\n2026-11-21 10:{minute:02}:00\n")
        };
        let log: String = (1..4).map(block).collect();
        let vec_of = |text: &str| {
            let series = read_text(text).unwrap();
            let rows = series.samples().iter().enumerate();
            let rows: Vec<_> = rows
                .map(|(row, sample)| {
                    (sample.at.0 / 60_000 % 60, series.value(Metric::MemFree, row))
                })
                .collect();
            (rows, series.problems.len())
        };
        let minutes = |from: i64, to: i64| {
            (from..to).map(|at| (at, u32::try_from(at).ok().map(|at| f64::from(at) * 1024.0)))
        };
        assert_eq!(vec_of(&log), (minutes(1, 4).collect(), 0));
        assert_eq!(vec_of(&block(1)), (minutes(1, 2).collect(), 0));
        assert_eq!(vec_of(&format!("{log}MemFree: 9 kB\n")), (minutes(1, 4).collect(), 1));
        // With dates before and the beginning lost.
        let (rows, _) = vec_of(
            "PageTables: 7 kB\n2026-11-21 10:01:00\nMemFree: 1 kB\nPageTables: 7 kB\n2026-11-21 \
                 10:02:00\nMemFree: 2 kB\n",
        );
        assert_eq!(rows, minutes(1, 3).collect::<Vec<_>>());
    }

    #[test]
    fn a_log_without_dates_is_refused_and_a_torn_line_is_told() {
        assert!(read_text("MemTotal: 16777216 kB\n").unwrap_err().0.contains("no dates"));
        let torn = read_text(WATCHER.get(..WATCHER.len() - 6).unwrap()).unwrap();
        assert_eq!(torn.value(Metric::PageTables, 2), None);
        assert!(torn.problems[0].what.contains("cut short"));
    }
}
