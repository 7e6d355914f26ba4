//! Logs that repeat a date and `/proc/meminfo`, `/proc/vmstat` or both, whole or what `grep` left of them; OSWatcher's
//! `oswmeminfo` is one of them.
//!
//! The date stands before what it is of, or behind it in logs that begin with a field and go on with the same field behind
//! their first date. A date with nothing to it is a sample without values: the collector could write its date and no more.

use std::io::Read;
use std::time::Duration;

use hugewise_model::Bytes;

use super::lines::{self, End};
use super::stamp::Stamp;
use crate::series::Moment;
use crate::{Metric, Refused, Series};

/// No line of these files is longer.
const LONGEST_LINE: u64 = 64 << 10;

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

/// Counters of /proc/vmstat, the metric, and how often their unit goes into its.
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

/// Counters that older kernels have by zone, which are added.
const BY_ZONE: &[(&str, Metric)] = &[
    ("pgscan_kswapd", Metric::ScanKswapd),
    ("pgscan_direct", Metric::ScanDirect),
    ("pgsteal_kswapd", Metric::Steal),
    ("pgsteal_direct", Metric::Steal),
    ("allocstall", Metric::AllocStall),
];
const ZONES: [&str; 6] = ["", "_dma", "_dma32", "_normal", "_high", "_movable"];

/// What a line of either file is.
enum Field {
    Memory(Metric),
    Pool(Metric),
    PoolPage,
    Counter(Metric, f64),
}

fn field(name: &str) -> Option<Field> {
    let of = |table: &[(&str, Metric)]| table.iter().find(|(of, _)| *of == name).map(|(_, metric)| *metric);
    if name == "Hugepagesize:" {
        return Some(Field::PoolPage);
    }
    if let Some(metric) = of(MEMORY) {
        return Some(Field::Memory(metric));
    }
    if let Some(metric) = of(POOL) {
        return Some(Field::Pool(metric));
    }
    if let Some((_, metric, factor)) = COUNTERS.iter().find(|(of, ..)| *of == name) {
        return Some(Field::Counter(*metric, *factor));
    }
    let zone = |(of, _): &&(&str, Metric)| name.strip_prefix(of).is_some_and(|zone| ZONES.contains(&zone));
    BY_ZONE.iter().find(zone).map(|(_, metric)| Field::Counter(*metric, 1.0))
}

/// Whether a line is a field of these files: its name, a number, and perhaps its unit.
pub(super) fn is_field(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let numeric = |word: &&str| word.bytes().all(|digit| digit.is_ascii_digit());
    match words.as_slice() {
        [name, value] | [name, value, "kB", ..] => numeric(value) && field(name).is_some(),
        _ => false,
    }
}

/// Whether a text has a date and a field of these files among its first lines.
pub(super) fn begins(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let name = |line: &str| line.split_ascii_whitespace().next().is_some_and(|name| field(name).is_some());
    let known = |line: &str| name(line) || line.starts_with("nr_free_pages ");
    text.lines().any(|line| Stamp::parse(line).is_some()) && text.lines().any(known)
}

/// Reads such a log.
///
/// # Errors
/// It has no date, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, Refused> {
    read_stamped(stream, Series::new(source, crate::Format::Loop(crate::Tool::Meminfo)), Stamp::parse)
}

/// Reads such a log into a series, with dates as `stamp` tells them.
pub(super) fn read_stamped(
    stream: &mut dyn Read,
    series: Series,
    stamp: impl Fn(&str) -> Option<Stamp>,
) -> Result<Series, Refused> {
    let mut reader = Reader::new(series, stamp);
    let end = lines::each(stream, LONGEST_LINE, |line| reader.line(line));
    let torn = if let End::Failed(error) = &end { error.clone() } else { "has no dates".into() };
    reader.finished(&end).ok_or(Refused(torn))
}

/// What stands behind one date.
#[derive(Clone, Debug, Default)]
struct Block {
    at: Option<Moment>,
    bytes: Vec<(Metric, u64)>,
    pages: Vec<(Metric, u64)>,
    page: Option<u64>,
    counters: Vec<(Metric, f64, u64)>,
    gauges: Vec<(Metric, f64)>,
}

impl Block {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.pages.is_empty() && self.counters.is_empty() && self.gauges.is_empty()
    }
}

/// Such a log as its lines come.
pub(super) struct Reader<S> {
    series: Series,
    stamp: S,
    block: Block,
    before: Option<Block>,
    order: Order,
    /// The name of the first field of all.
    first: Option<String>,
}

/// Where dates stand.
enum Order {
    /// No date came yet.
    Unknown,
    /// Fields came before the first date: the next field tells whether they are its.
    Either(Stamp),
    /// Before what they are of.
    Before,
    /// Behind what they are of.
    Behind,
}

impl<S: Fn(&str) -> Option<Stamp>> Reader<S> {
    pub(super) fn new(series: Series, stamp: S) -> Self {
        Self { series, stamp, block: Block::default(), before: None, order: Order::Unknown, first: None }
    }

    /// What came of its lines; `None` where there was no date.
    pub(super) fn finished(mut self, end: &End) -> Option<Series> {
        self.end();
        if self.series.samples().is_empty() {
            return None;
        }
        if let Some(problem) = end.problem() {
            self.series.problem(problem);
        }
        Some(self.series.finished())
    }

    /// Takes what another file of the kernel says behind the same date.
    pub(super) fn gauge(&mut self, metric: Metric, value: f64) {
        if self.block.gauges.len() < MOST_FIELDS {
            self.block.gauges.push((metric, value));
        }
    }

    /// The same of a counter, and how often its unit goes into the metric's.
    pub(super) fn count(&mut self, metric: Metric, factor: f64, value: u64) {
        match self.block.counters.iter_mut().find(|(of, ..)| *of == metric) {
            Some((.., sum)) => *sum = sum.saturating_add(value),
            None => self.block.counters.push((metric, factor, value)),
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        if let Some(stamp) = (self.stamp)(line) {
            self.date(stamp);
            return;
        }
        let mut words = line.split_ascii_whitespace();
        let Some(name) = words.next() else { return };
        let Some((field, value)) = field(name).zip(words.next().and_then(|word| word.parse::<u64>().ok())) else {
            return;
        };
        if let Order::Either(stamp) = &self.order {
            let stamp = stamp.clone();
            if self.first.as_deref() == Some(name) {
                self.behind(&stamp);
            } else {
                self.headless(&stamp);
            }
        }
        self.first.get_or_insert_with(|| name.to_owned());
        match field {
            Field::Memory(metric) if self.block.bytes.len() < MOST_FIELDS => {
                self.block.bytes.push((metric, Bytes::from_kib(value).get()))
            }
            Field::Pool(metric) if self.block.pages.len() < MOST_FIELDS => self.block.pages.push((metric, value)),
            Field::Memory(_) | Field::Pool(_) => {}
            Field::PoolPage => self.block.page = Some(Bytes::from_kib(value).get()),
            Field::Counter(metric, factor) => self.count(metric, factor, value),
        }
    }

    fn date(&mut self, stamp: Stamp) {
        match &self.order {
            Order::Unknown if self.first.is_some() => self.order = Order::Either(stamp),
            Order::Unknown | Order::Before => self.before(&stamp),
            Order::Behind => self.behind(&stamp),
            // Two dates with nothing between them: a log that puts them behind would have fields there.
            Order::Either(first) => {
                let first = first.clone();
                self.headless(&first);
                self.before(&stamp);
            }
        }
    }

    /// The date of what comes.
    fn before(&mut self, stamp: &Stamp) {
        self.flush();
        self.order = Order::Before;
        self.block.at = Some(stamp.by(&mut self.series));
    }

    /// The date of what came.
    fn behind(&mut self, stamp: &Stamp) {
        self.order = Order::Behind;
        self.block.at = Some(stamp.by(&mut self.series));
        self.flush();
    }

    /// The first date of a log whose beginning is lost.
    fn headless(&mut self, stamp: &Stamp) {
        self.block = Block::default();
        self.series.problem("everything before the first date is left out");
        self.before(stamp);
    }

    fn end(&mut self) {
        match std::mem::replace(&mut self.order, Order::Unknown) {
            Order::Either(stamp) => self.behind(&stamp),
            Order::Behind if !self.block.is_empty() => {
                self.series.problem("everything after the last date is left out");
            }
            _ => self.flush(),
        }
    }

    /// Makes a sample of the block at hand.
    fn flush(&mut self) {
        let block = std::mem::take(&mut self.block);
        let Some(at) = block.at else { return };
        let passed = self.before.as_ref().and_then(|before| at.since(before.at?)).filter(|passed| !passed.is_zero());
        self.series.push(at, passed);
        for (metric, bytes) in &block.bytes {
            self.series.set(*metric, Bytes(*bytes).as_f64());
        }
        for (metric, value) in &block.gauges {
            self.series.set(*metric, *value);
        }
        let of = |metric| block.bytes.iter().find(|(of, _)| *of == metric).map(|(_, bytes)| *bytes);
        if let Some((total, free)) = of(Metric::SwapTotal).zip(of(Metric::SwapFree)) {
            self.series.set(Metric::SwapUsed, Bytes(total.saturating_sub(free)).as_f64());
        }
        if let Some(page) = block.page {
            self.series.huge_page = Some(Bytes(page));
            for (metric, pages) in &block.pages {
                self.series.set(*metric, Bytes(page).times(*pages).as_f64());
            }
        }
        // None are none, whatever their size.
        for (metric, _) in block.pages.iter().filter(|(_, pages)| block.page.is_none() && *pages == 0) {
            self.series.set(*metric, 0.0);
        }
        self.rates(&block, passed);
        // One without counters leaves the interval to the next that has some.
        if !block.counters.is_empty() || self.before.is_none() {
            self.before = Some(block);
        } else if let Some(before) = &mut self.before
            && before.counters.is_empty()
        {
            *before = block;
        }
    }

    fn rates(&mut self, block: &Block, passed: Option<Duration>) {
        let Some((before, passed)) = self.before.as_ref().zip(passed) else { return };
        for (metric, factor, now) in &block.counters {
            let earlier = before.counters.iter().find(|(of, ..)| of == metric);
            // What falls was begun anew.
            let Some(grown) = earlier.and_then(|(.., earlier)| now.checked_sub(*earlier)) else { continue };
            self.series.set(*metric, Bytes(grown).as_f64() * factor / passed.as_secs_f64());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::Clock;

    fn series(text: &str) -> Result<Series, Refused> {
        read(&mut text.as_bytes(), "meminfo.log")
    }

    fn number(text: &str, name: &str) -> f64 {
        let line = text.lines().find(|line| line.split_ascii_whitespace().next() == Some(name)).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn a_loop_of_date_and_the_kernels_files_is_read() {
        let script = "for i in 1 2; do date; cat /proc/meminfo /proc/vmstat; sleep 1; done";
        let output = Command::new("sh").args(["-c", script]).env("LC_ALL", "C").env("TZ", "EST5").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(begins(text.get(..4096).unwrap().as_bytes()));
        let series = series(&text).unwrap();
        assert_eq!((series.samples().len(), &series.problems[..]), (2, &[][..]));
        assert_eq!(series.clock, Clock::Wall { zone: Some("EST".into()) });
        let (one, two) = text.split_at(text.rfind("MemTotal:").unwrap());
        for (name, metric) in MEMORY.iter().filter(|(name, _)| text.contains(&format!("\n{name}"))) {
            assert_eq!(series.value(*metric, 0), Some(number(one, name) * 1024.0), "{name}");
            assert_eq!(series.value(*metric, 1), Some(number(two, name) * 1024.0), "{name}");
        }
        let page = number(two, "Hugepagesize:") * 1024.0;
        assert_eq!(series.value(Metric::HugeTotal, 1), Some(number(two, "HugePages_Total:") * page));
        let seconds = series.samples()[1].interval.unwrap().as_secs_f64();
        for (metric, names) in [
            (Metric::Faults, &["pgfault"][..]),
            (Metric::ScanDirect, &["pgscan_direct"]),
            (Metric::Steal, &["pgsteal_kswapd", "pgsteal_direct"]),
            (Metric::CompactStall, &["compact_stall"]),
            (Metric::ThpFaultFallback, &["thp_fault_fallback"]),
        ] {
            let sum = |text: &str| names.iter().map(|name| number(text, name)).sum::<f64>();
            assert_eq!(series.value(metric, 0), None);
            let rate = series.value(metric, 1).unwrap();
            assert!((rate - (sum(two) - sum(one)) / seconds).abs() < 1e-6, "{metric:?} {rate}");
        }
    }

    const WATCHER: &str = "zzz ***Thu Sep 4 14:00:00 CST 2025\nMemTotal: 16777216 kB\nPageTables: 1677721 kB\n\
                           HugePages_Total: 10\nHugePages_Free: 4\nHugepagesize: 2048 kB\n\
                           zzz ***Thu Sep 4 14:00:30 CST 2025\n\
                           zzz ***Warning. Something else\n\
                           zzz ***Thu Sep 4 14:03:10 CST 2025\nMemTotal: 16777216 kB\nPageTables: 3355443 kB\n";

    #[test]
    fn a_date_with_nothing_behind_it_is_a_sample_without_values() {
        assert!(begins(WATCHER.as_bytes()));
        let series = series(WATCHER).unwrap();
        let of = |metric| [0, 1, 2].map(|row| series.value(metric, row));
        assert_eq!(of(Metric::PageTables), [Some(1_717_986_304.0), None, Some(3_435_973_632.0)]);
        assert_eq!(of(Metric::HugeFree), [Some(8_388_608.0), None, None]);
        assert_eq!(series.huge_page, Some(Bytes::from_mib(2)));
        let seconds: Vec<_> =
            series.samples().iter().map(|sample| sample.interval.map(|interval| interval.as_secs())).collect();
        assert_eq!(seconds, [None, Some(30), Some(160)]);
    }

    #[test]
    fn zones_are_added_and_what_falls_has_no_rate() {
        let block = |second: u32, dma: u64, normal: u64, faults: u64| {
            format!(
                "2026-11-21 10:00:{second:02}\nallocstall_dma {dma}\nallocstall_normal {normal}\npgfault {faults}\npgscan_direct_throttle 9\n"
            )
        };
        let series = series(&[block(0, 1, 100, 5000), block(10, 11, 200, 100)].concat()).unwrap();
        assert_eq!(series.value(Metric::AllocStall, 1), Some(11.0));
        assert_eq!(series.value(Metric::Faults, 1), None);
        assert_eq!(series.column(Metric::ScanDirect), None);
    }

    #[test]
    fn dates_may_stand_behind_what_they_are_of() {
        let block = |minute: u32| format!("MemFree: {minute} kB\nPageTables: 7 kB\n2026-11-21 10:{minute:02}:00\n");
        let log: String = (1..4).map(block).collect();
        let of = |text: &str| {
            let series = series(text).unwrap();
            let rows = series.samples().iter().enumerate();
            let rows: Vec<_> =
                rows.map(|(row, sample)| (sample.at.0 / 60_000 % 60, series.value(Metric::MemFree, row))).collect();
            (rows, series.problems.len())
        };
        let minutes =
            |from: i64, to: i64| (from..to).map(|at| (at, u32::try_from(at).ok().map(|at| f64::from(at) * 1024.0)));
        assert_eq!(of(&log), (minutes(1, 4).collect(), 0));
        assert_eq!(of(&block(1)), (minutes(1, 2).collect(), 0));
        assert_eq!(of(&format!("{log}MemFree: 9 kB\n")), (minutes(1, 4).collect(), 1));
        // With dates before and the beginning lost.
        let (rows, _) = of(
            "PageTables: 7 kB\n2026-11-21 10:01:00\nMemFree: 1 kB\nPageTables: 7 kB\n2026-11-21 10:02:00\nMemFree: 2 kB\n",
        );
        assert_eq!(rows, minutes(1, 3).collect::<Vec<_>>());
    }

    #[test]
    fn a_log_without_dates_is_refused_and_a_torn_line_is_told() {
        assert!(series("MemTotal: 16777216 kB\n").unwrap_err().0.contains("no dates"));
        let torn = series(WATCHER.get(..WATCHER.len() - 6).unwrap()).unwrap();
        assert_eq!(torn.value(Metric::PageTables, 2), None);
        assert!(torn.problems[0].what.contains("cut short"));
    }
}
