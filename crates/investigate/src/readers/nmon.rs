//! nmon's files for Linux: comma-separated lines, each of a snapshot `Tnnnn`, whose time is in its
//! line `ZZZZ`.
//!
//! They may be sorted, as nmon advises, so that times come last. Times are of the host's wall clock.
//! The first snapshot counts since nmon's start and has no rates; `CPU_ALL` adds niced time to
//! user's.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use hugewise_model::{Bytes, KernelRelease};

use super::archive_format::{ArchiveFormat, Promise};
use super::lines::{self, LineStreamEnd};
use crate::page;
use crate::series::Moment;
use crate::{Clock, FileRefused, Metric, Series};
use hugewise_model::calendar::{midnight_seconds, month_number, time_of_day};

const LONGEST_LINE: u64 = 1 << 20;
/// Snapshots of a file: eight days of seconds.
const MOST_SNAPSHOTS: usize = 8 * 86_400;
const MIB: f64 = 1_048_576.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NmonConversion {
    Mebibytes,
    Same,
    /// Pages of base size.
    Pages,
    /// KiB counted in the interval.
    Kibibytes,
    /// Counted in the interval.
    Counted,
    /// Already a rate, which the first snapshot lacks.
    Rate,
}

/// Section, column, metric, unit; `Counted` columns of one metric are added.
const COLUMNS: &[(&str, &str, Metric, NmonConversion)] = &[
    ("CPU_ALL", "User%", Metric::CpuUser, NmonConversion::Rate),
    ("CPU_ALL", "Sys%", Metric::CpuSystem, NmonConversion::Rate),
    ("CPU_ALL", "Wait%", Metric::CpuIowait, NmonConversion::Rate),
    ("CPU_ALL", "Idle%", Metric::CpuIdle, NmonConversion::Rate),
    ("CPU_ALL", "Steal%", Metric::CpuSteal, NmonConversion::Rate),
    ("CPU_ALL", "CPUs", Metric::Processors, NmonConversion::Same),
    ("MEM", "memtotal", Metric::MemTotal, NmonConversion::Mebibytes),
    ("MEM", "memfree", Metric::MemFree, NmonConversion::Mebibytes),
    ("MEM", "swaptotal", Metric::SwapTotal, NmonConversion::Mebibytes),
    ("MEM", "swapfree", Metric::SwapFree, NmonConversion::Mebibytes),
    ("MEM", "cached", Metric::Cached, NmonConversion::Mebibytes),
    ("MEM", "active", Metric::Active, NmonConversion::Mebibytes),
    ("MEM", "inactive", Metric::Inactive, NmonConversion::Mebibytes),
    ("MEM", "buffers", Metric::Buffers, NmonConversion::Mebibytes),
    ("MEM", "swapcached", Metric::SwapCached, NmonConversion::Mebibytes),
    ("VM", "nr_dirty", Metric::Dirty, NmonConversion::Pages),
    ("VM", "nr_writeback", Metric::Writeback, NmonConversion::Pages),
    ("VM", "nr_page_table_pages", Metric::PageTables, NmonConversion::Pages),
    ("VM", "nr_mapped", Metric::Mapped, NmonConversion::Pages),
    ("VM", "nr_slab_reclaimable", Metric::SlabReclaimable, NmonConversion::Pages),
    ("VM", "pgpgin", Metric::PagedIn, NmonConversion::Kibibytes),
    ("VM", "pgpgout", Metric::PagedOut, NmonConversion::Kibibytes),
    ("VM", "pswpin", Metric::SwapIn, NmonConversion::Counted),
    ("VM", "pswpout", Metric::SwapOut, NmonConversion::Counted),
    ("VM", "pgfree", Metric::Freed, NmonConversion::Counted),
    ("VM", "pgfault", Metric::Faults, NmonConversion::Counted),
    ("VM", "pgmajfault", Metric::MajorFaults, NmonConversion::Counted),
    ("VM", "allocstall", Metric::AllocStall, NmonConversion::Counted),
    ("VM", "pgscan_kswapd_high", Metric::ScanKswapd, NmonConversion::Counted),
    ("VM", "pgscan_kswapd_normal", Metric::ScanKswapd, NmonConversion::Counted),
    ("VM", "pgscan_kswapd_dma", Metric::ScanKswapd, NmonConversion::Counted),
    ("VM", "pgscan_direct_high", Metric::ScanDirect, NmonConversion::Counted),
    ("VM", "pgscan_direct_normal", Metric::ScanDirect, NmonConversion::Counted),
    ("VM", "pgscan_direct_dma", Metric::ScanDirect, NmonConversion::Counted),
    ("VM", "pgsteal_high", Metric::Steal, NmonConversion::Counted),
    ("VM", "pgsteal_normal", Metric::Steal, NmonConversion::Counted),
    ("VM", "pgsteal_dma", Metric::Steal, NmonConversion::Counted),
    ("PROC", "Runnable", Metric::RunQueue, NmonConversion::Same),
    ("PROC", "Blocked", Metric::Blocked, NmonConversion::Same),
    ("PROC", "pswitch", Metric::ContextSwitches, NmonConversion::Rate),
    ("PROC", "fork", Metric::Forks, NmonConversion::Rate),
];

/// nmon's files, sorted or not.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "nmon",
    called: "an nmon file",
    tools: &["nmon"],
    is_text: true,
    recognize: |text| Promise::sure_if(text.starts_with(b"AAA,")),
    read: |file| file.read_single(read),
};

/// Reads one such file.
///
/// # Errors
/// It has no snapshot with a time, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, FileRefused> {
    let mut reader = NmonReader {
        series: Series::new(source, crate::SourceFormat::Collector("nmon")),
        ..NmonReader::default()
    };
    let end = lines::for_each_line(stream, LONGEST_LINE, |line| reader.push_line(line));
    if let Some(system) = reader.system {
        return Err(FileRefused(format!(
            "was written by nmon on {system}, which is not read: it does not count what Linux \
                 counts"
        )));
    }
    if reader.times.is_empty() {
        let why = if let LineStreamEnd::Failed(error) = end {
            error
        } else {
            "has no nmon snapshot with a time".into()
        };
        return Err(FileRefused(why));
    }
    let mut series = reader.into_series();
    end.note_problem(&mut series);
    Ok(series.finish())
}

#[derive(Default)]
struct NmonReader {
    series: Series,
    /// The base page, if architecture and kernel imply it.
    page: Option<f64>,
    /// Each section's columns, by their place in a line and in [`COLUMNS`].
    sections: HashMap<&'static str, Vec<(usize, usize)>>,
    times: BTreeMap<u32, Moment>,
    values: BTreeMap<u32, Vec<(Metric, NmonConversion, f64)>>,
    threads: BTreeMap<u32, f64>,
    too_many: bool,
    system: Option<&'static str>,
}

impl NmonReader {
    fn push_line(&mut self, line: &str) {
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        match words.as_slice() {
            ["AAA", name, rest @ ..] => self.parse_about(name, rest),
            ["ZZZZ", snapshot, time, date, ..] => {
                if let Some((snapshot, at)) =
                    parse_snapshot_number(snapshot).zip(parse_moment(time, date))
                {
                    if self.times.len() < MOST_SNAPSHOTS {
                        self.times.insert(snapshot, at);
                    } else {
                        self.too_many = true;
                    }
                }
            }
            ["HUGEPAGES", snapshot, total, free, size, ..] => {
                self.record_pool(snapshot, [total, free, size]);
            }
            // TOP,pid,Tnnnn,%CPU,...,command
            ["TOP", _, snapshot, share, .., command] if command.starts_with("kswapd") => {
                let share = share.parse::<f64>().ok().filter(|share| share.is_finite());
                if let Some((snapshot, share)) = parse_snapshot_number(snapshot).zip(share)
                    && (self.threads.len() < MOST_SNAPSHOTS || self.threads.contains_key(&snapshot))
                {
                    *self.threads.entry(snapshot).or_default() += share;
                }
            }
            [section, second, rest @ ..] => {
                let Some((section, ..)) = COLUMNS.iter().find(|(text, ..)| text == section) else {
                    return;
                };
                match parse_snapshot_number(second) {
                    Some(snapshot) => self.record_snapshot(section, snapshot, rest),
                    None => self.parse_heading(section, rest),
                }
            }
            _ => {}
        }
    }

    fn record_pool(&mut self, snapshot: &str, words: [&str; 3]) {
        let Some(snapshot) = parse_snapshot_number(snapshot) else { return };
        let [Ok(total), Ok(free), Ok(size)] = words.map(str::parse::<f64>) else { return };
        for (metric, pages) in [(Metric::HugeTotal, total), (Metric::HugeFree, free)] {
            self.record_value(snapshot, metric, NmonConversion::Mebibytes, pages * size);
        }
        let page = format!("{:.0}", size * MIB).parse().ok().filter(|bytes| *bytes > 0);
        self.series.huge_page = page.map(Bytes);
    }

    fn parse_heading(&mut self, section: &'static str, names: &[&str]) {
        let known = |(place, name): (usize, &&str)| {
            let column =
                COLUMNS.iter().position(|(text, column, ..)| *text == section && column == name)?;
            Some((place, column))
        };
        let columns = names.iter().enumerate().filter_map(known).collect();
        self.sections.insert(section, columns);
    }

    fn parse_about(&mut self, name: &str, rest: &[&str]) {
        let first = rest.first().map(|word| (*word).to_owned()).filter(|word| !word.is_empty());
        match name {
            "host" => self.series.host = first,
            // AAA,AIX,7.2.4.2 and AAA,VIOS,3.1, both AIX.
            "AIX" | "VIOS" => self.system = Some("AIX"),
            "OS" if first.as_deref().is_some_and(|system| system.starts_with("SunOS")) => {
                self.system = Some("Solaris")
            }
            "version" => self.series.version = first,
            // AAA,OS,Linux,6.1.0-13-amd64,#1 SMP ...,x86_64
            "OS" => {
                self.series.kernel = rest.get(1).map(|word| (*word).to_owned());
                let architecture = rest.last().filter(|word| rest.len() > 2 && !word.contains(' '));
                self.series.architecture = architecture.map(|word| (*word).to_owned());
                let page = page::infer_from_kernel(
                    self.series.architecture.as_deref(),
                    self.series.kernel.as_deref(),
                    None,
                );
                self.page = page.map(|page| page.bytes().as_f64());
            }
            _ => {}
        }
    }

    fn record_snapshot(&mut self, section: &str, snapshot: u32, words: &[&str]) {
        let Some(columns) = self.sections.get(section) else { return };
        let values: Vec<_> = columns
            .iter()
            .filter_map(|(place, column)| {
                let (.., metric, conversion) = COLUMNS.get(*column)?;
                Some((*metric, *conversion, words.get(*place)?.parse::<f64>().ok()?))
            })
            // nmon writes -1 for what the kernel lacks.
            .filter(|(.., value)| *value >= 0.0)
            .collect();
        for (metric, conversion, value) in values {
            self.record_value(snapshot, metric, conversion, value);
        }
    }

    fn record_value(
        &mut self,
        snapshot: u32,
        metric: Metric,
        conversion: NmonConversion,
        value: f64,
    ) {
        if self.values.len() >= MOST_SNAPSHOTS && !self.values.contains_key(&snapshot) {
            self.too_many = true;
            return;
        }
        let values = self.values.entry(snapshot).or_default();
        match values.iter_mut().find(|(known, ..)| *known == metric) {
            Some((.., sum)) if conversion == NmonConversion::Counted => *sum += value,
            // A snapshot that comes again, as in joined files, is not added to itself.
            Some(_) => {}
            None => values.push((metric, conversion, value)),
        }
    }

    fn into_series(self) -> Series {
        let mut series = self.series;
        series.clock = Clock::Wall { zone: None };
        let mut before: Option<Moment> = None;
        for (snapshot, at) in &self.times {
            let interval = before
                .and_then(|before| at.duration_since(before))
                .filter(|interval| !interval.is_zero());
            before = Some(*at);
            series.push(*at, interval);
            let seconds = interval.map(|interval| interval.as_secs_f64());
            for (metric, conversion, value) in self.values.get(snapshot).into_iter().flatten() {
                let value = match conversion {
                    NmonConversion::Mebibytes => Some(value * MIB),
                    NmonConversion::Same => Some(*value),
                    NmonConversion::Pages => self.page.map(|page| value * page),
                    NmonConversion::Kibibytes => seconds.map(|seconds| value * 1024.0 / seconds),
                    NmonConversion::Counted => seconds.map(|seconds| value / seconds),
                    NmonConversion::Rate => seconds.map(|_| *value),
                };
                if let Some(value) = value {
                    series.set_value(*metric, value);
                }
            }
            let row = series.samples().len() - 1;
            if let Some((total, free)) =
                series.value(Metric::SwapTotal, row).zip(series.value(Metric::SwapFree, row))
            {
                series.set_value(Metric::SwapUsed, (total - free).max(0.0));
            }
            if let Some(share) = self.threads.get(snapshot).filter(|_| interval.is_some()) {
                series.set_value(Metric::KswapdCpu, *share);
            }
        }
        if self.too_many {
            series.add_problem(format!(
                "holds more than {MOST_SNAPSHOTS} snapshots; what comes later is left out"
            ));
        }
        distrust_reclaim_counters(&mut series);
        series
    }
}

/// Linux 4.8 moved the counters of reclaim from zones to nodes and 4.10 split allocstall by zone:
/// nmon looks for the old names and writes 0. On older kernels it leaves out the zone DMA32.
fn distrust_reclaim_counters(series: &mut Series) {
    let kernel = series
        .kernel
        .as_deref()
        .and_then(|text| hugewise_host::kernel::release::parse(text.as_bytes()).ok());
    let since = |major, minor| {
        kernel.as_ref().is_none_or(|kernel: &KernelRelease| kernel.at_least(major, minor))
    };
    let by_node = since(4, 8);
    for metric in [Metric::ScanKswapd, Metric::ScanDirect, Metric::Steal] {
        if series.column(metric).is_some() {
            let why = if by_node {
                "nmon writes 0 on Linux 4.8 and later"
            } else {
                "nmon leaves out the zone DMA32"
            };
            series.distrust_metric(metric, why);
        }
    }
    if since(4, 10) && series.column(Metric::AllocStall).is_some() {
        series.distrust_metric(Metric::AllocStall, "nmon writes 0 on Linux 4.10 and later");
    }
}

/// `T0001`
fn parse_snapshot_number(word: &str) -> Option<u32> {
    word.strip_prefix('T')
        .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?
        .parse()
        .ok()
}

/// `23:58:50`, `21-NOV-2026`
fn parse_moment(time: &str, date: &str) -> Option<Moment> {
    let mut parts = date.split('-');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let (first, rest) = month.split_at_checked(1)?;
    let month = month_number(&(first.to_ascii_uppercase() + &rest.to_ascii_lowercase()))?;
    let midnight = midnight_seconds(year.parse().ok()?, month, day.parse().ok()?)?;
    Some(Moment::from_seconds(midnight + time_of_day(time)?))
}
