//! nmon's files for Linux: comma-separated lines, each of a snapshot `Tnnnn`, whose time its line `ZZZZ` says.
//!
//! They may be sorted, as nmon advises, so that times come last. Times are of the host's wall clock. What the first
//! snapshot counts is since nmon's start and has no rates. `CPU_ALL` does not tell niced time from other.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use hugewise_model::{Bytes, KernelRelease};

use super::calendar::{midnight, time_of_day};
use super::lines::{self, End};
use crate::page;
use crate::series::Moment;
use crate::{Clock, Metric, Refused, Series};

const LONGEST_LINE: u64 = 1 << 20;
/// Snapshots of a file: eight days of seconds.
const MOST_SNAPSHOTS: usize = 8 * 86_400;
const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const MIB: f64 = 1_048_576.0;

/// How a column's number becomes the metric's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// It is in mebibytes.
    Mebibytes,
    /// As it is.
    Same,
    /// In pages of base size.
    Pages,
    /// Counted in the interval, in KiB.
    Kibibytes,
    /// Counted in the interval.
    Counted,
    /// Already a rate, which the first snapshot has not.
    Rate,
}

/// Section, column, metric, unit; several columns of one metric are added.
const COLUMNS: &[(&str, &str, Metric, Of)] = &[
    ("CPU_ALL", "User%", Metric::CpuUser, Of::Rate),
    ("CPU_ALL", "Sys%", Metric::CpuSystem, Of::Rate),
    ("CPU_ALL", "Wait%", Metric::CpuIowait, Of::Rate),
    ("CPU_ALL", "Idle%", Metric::CpuIdle, Of::Rate),
    ("CPU_ALL", "Steal%", Metric::CpuSteal, Of::Rate),
    ("CPU_ALL", "CPUs", Metric::Processors, Of::Same),
    ("MEM", "memtotal", Metric::MemTotal, Of::Mebibytes),
    ("MEM", "memfree", Metric::MemFree, Of::Mebibytes),
    ("MEM", "swaptotal", Metric::SwapTotal, Of::Mebibytes),
    ("MEM", "swapfree", Metric::SwapFree, Of::Mebibytes),
    ("MEM", "cached", Metric::Cached, Of::Mebibytes),
    ("MEM", "active", Metric::Active, Of::Mebibytes),
    ("MEM", "inactive", Metric::Inactive, Of::Mebibytes),
    ("MEM", "buffers", Metric::Buffers, Of::Mebibytes),
    ("MEM", "swapcached", Metric::SwapCached, Of::Mebibytes),
    ("VM", "nr_dirty", Metric::Dirty, Of::Pages),
    ("VM", "nr_writeback", Metric::Writeback, Of::Pages),
    ("VM", "nr_page_table_pages", Metric::PageTables, Of::Pages),
    ("VM", "nr_mapped", Metric::Mapped, Of::Pages),
    ("VM", "nr_slab_reclaimable", Metric::SlabReclaimable, Of::Pages),
    ("VM", "pgpgin", Metric::PagedIn, Of::Kibibytes),
    ("VM", "pgpgout", Metric::PagedOut, Of::Kibibytes),
    ("VM", "pswpin", Metric::SwapIn, Of::Counted),
    ("VM", "pswpout", Metric::SwapOut, Of::Counted),
    ("VM", "pgfree", Metric::Freed, Of::Counted),
    ("VM", "pgfault", Metric::Faults, Of::Counted),
    ("VM", "pgmajfault", Metric::MajorFaults, Of::Counted),
    ("VM", "allocstall", Metric::AllocStall, Of::Counted),
    ("VM", "pgscan_kswapd_high", Metric::ScanKswapd, Of::Counted),
    ("VM", "pgscan_kswapd_normal", Metric::ScanKswapd, Of::Counted),
    ("VM", "pgscan_kswapd_dma", Metric::ScanKswapd, Of::Counted),
    ("VM", "pgscan_direct_high", Metric::ScanDirect, Of::Counted),
    ("VM", "pgscan_direct_normal", Metric::ScanDirect, Of::Counted),
    ("VM", "pgscan_direct_dma", Metric::ScanDirect, Of::Counted),
    ("VM", "pgsteal_high", Metric::Steal, Of::Counted),
    ("VM", "pgsteal_normal", Metric::Steal, Of::Counted),
    ("VM", "pgsteal_dma", Metric::Steal, Of::Counted),
    ("PROC", "Runnable", Metric::RunQueue, Of::Same),
    ("PROC", "Blocked", Metric::Blocked, Of::Same),
    ("PROC", "pswitch", Metric::ContextSwitches, Of::Rate),
    ("PROC", "fork", Metric::Forks, Of::Rate),
];

/// Whether a text begins as nmon's files do, sorted or not.
pub(super) fn begins(text: &[u8]) -> bool {
    text.starts_with(b"AAA,")
}

/// Reads one such file.
///
/// # Errors
/// It has no snapshot with a time, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, Refused> {
    let mut reader = Reader { series: Series::new(source, crate::Format::Nmon), ..Reader::default() };
    let end = lines::each(stream, LONGEST_LINE, |line| reader.line(line));
    if let Some(system) = reader.system {
        return Err(Refused(format!(
            "was written by nmon on {system}, which is not read: it does not count what Linux counts"
        )));
    }
    if reader.times.is_empty() {
        let why = if let End::Failed(error) = end { error } else { "has no nmon snapshot with a time".into() };
        return Err(Refused(why));
    }
    let mut series = reader.finished();
    if let Some(problem) = end.problem() {
        series.problem(problem);
    }
    Ok(series.finished())
}

#[derive(Default)]
struct Reader {
    series: Series,
    /// The base page, where architecture and kernel tell it.
    page: Option<f64>,
    /// Of each section the column's place and its place in [`COLUMNS`].
    sections: HashMap<&'static str, Vec<(usize, usize)>>,
    times: BTreeMap<u32, Moment>,
    values: BTreeMap<u32, Vec<(Metric, Of, f64)>>,
    threads: BTreeMap<u32, f64>,
    too_many: bool,
    /// Another system than Linux.
    system: Option<&'static str>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        match words.as_slice() {
            ["AAA", name, rest @ ..] => self.about(name, rest),
            ["ZZZZ", snapshot, time, date, ..] => {
                if let Some((snapshot, at)) = number(snapshot).zip(moment(time, date)) {
                    if self.times.len() < MOST_SNAPSHOTS {
                        self.times.insert(snapshot, at);
                    } else {
                        self.too_many = true;
                    }
                }
            }
            ["HUGEPAGES", snapshot, total, free, size, ..] => {
                let Some(snapshot) = number(snapshot) else { return };
                let values: Vec<f64> = [total, free, size].iter().filter_map(|word| word.parse().ok()).collect();
                if let &[total, free, size] = values.as_slice() {
                    self.keep(snapshot, Metric::HugeTotal, Of::Mebibytes, total * size);
                    self.keep(snapshot, Metric::HugeFree, Of::Mebibytes, free * size);
                    self.series.huge_page =
                        format!("{:.0}", size * MIB).parse().ok().map(Bytes).filter(|size| size.get() > 0);
                }
            }
            // TOP,pid,Tnnnn,%CPU,...,command
            ["TOP", _, snapshot, share, .., command] if command.starts_with("kswapd") => {
                let share = share.parse::<f64>().ok().filter(|share| share.is_finite());
                if let Some((snapshot, share)) = number(snapshot).zip(share)
                    && (self.threads.len() < MOST_SNAPSHOTS || self.threads.contains_key(&snapshot))
                {
                    *self.threads.entry(snapshot).or_default() += share;
                }
            }
            [section, second, rest @ ..] => {
                let Some((section, ..)) = COLUMNS.iter().find(|(of, ..)| of == section) else { return };
                match number(second) {
                    Some(snapshot) => self.snapshot(section, snapshot, rest),
                    None => {
                        let known = |(place, name): (usize, &&str)| {
                            let column = COLUMNS.iter().position(|(of, column, ..)| of == section && column == name)?;
                            Some((place, column))
                        };
                        let columns = rest.iter().enumerate().filter_map(known).collect();
                        self.sections.insert(section, columns);
                    }
                }
            }
            _ => {}
        }
    }

    fn about(&mut self, name: &str, rest: &[&str]) {
        let first = rest.first().map(|word| (*word).to_owned()).filter(|word| !word.is_empty());
        match name {
            "host" => self.series.host = first,
            // AAA,AIX,7.2.4.2 and AAA,VIOS,3.1: of AIX.
            "AIX" | "VIOS" => self.system = Some("AIX"),
            "OS" if first.as_deref().is_some_and(|system| system.starts_with("SunOS")) => self.system = Some("Solaris"),
            "version" => self.series.version = first,
            // AAA,OS,Linux,6.1.0-13-amd64,#1 SMP ...,x86_64
            "OS" => {
                self.series.kernel = rest.get(1).map(|word| (*word).to_owned());
                let architecture = rest.last().filter(|word| rest.len() > 2 && !word.contains(' '));
                self.series.architecture = architecture.map(|word| (*word).to_owned());
                let page = page::of_kernel(self.series.architecture.as_deref(), self.series.kernel.as_deref(), None);
                self.page = page.map(|page| page.bytes().as_f64());
            }
            _ => {}
        }
    }

    fn snapshot(&mut self, section: &str, snapshot: u32, words: &[&str]) {
        let Some(columns) = self.sections.get(section) else { return };
        let values: Vec<_> = columns
            .iter()
            .filter_map(|(place, column)| {
                let (.., metric, of) = COLUMNS.get(*column)?;
                Some((*metric, *of, words.get(*place)?.parse::<f64>().ok()?))
            })
            // nmon writes -1 where the kernel does not tell.
            .filter(|(.., value)| *value >= 0.0)
            .collect();
        for (metric, of, value) in values {
            self.keep(snapshot, metric, of, value);
        }
    }

    fn keep(&mut self, snapshot: u32, metric: Metric, of: Of, value: f64) {
        if self.values.len() >= MOST_SNAPSHOTS && !self.values.contains_key(&snapshot) {
            self.too_many = true;
            return;
        }
        let values = self.values.entry(snapshot).or_default();
        match values.iter_mut().find(|(known, ..)| *known == metric) {
            Some((.., sum)) if of == Of::Counted => *sum += value,
            // A snapshot that comes again, as in files put together, is not added to itself.
            Some(_) => {}
            None => values.push((metric, of, value)),
        }
    }

    fn finished(self) -> Series {
        let mut series = self.series;
        series.clock = Clock::Wall { zone: None };
        let mut before: Option<Moment> = None;
        for (snapshot, at) in &self.times {
            let interval = before.and_then(|before| at.since(before)).filter(|interval| !interval.is_zero());
            before = Some(*at);
            series.push(*at, interval);
            let seconds = interval.map(|interval| interval.as_secs_f64());
            for (metric, of, value) in self.values.get(snapshot).into_iter().flatten() {
                let value = match of {
                    Of::Mebibytes => Some(value * MIB),
                    Of::Same => Some(*value),
                    Of::Pages => self.page.map(|page| value * page),
                    Of::Kibibytes => seconds.map(|seconds| value * 1024.0 / seconds),
                    Of::Counted => seconds.map(|seconds| value / seconds),
                    Of::Rate => seconds.map(|_| *value),
                };
                if let Some(value) = value {
                    series.set(*metric, value);
                }
            }
            let row = series.samples().len() - 1;
            if let Some((total, free)) = series.value(Metric::SwapTotal, row).zip(series.value(Metric::SwapFree, row)) {
                series.set(Metric::SwapUsed, (total - free).max(0.0));
            }
            if let Some(share) = self.threads.get(snapshot).filter(|_| interval.is_some()) {
                series.set(Metric::KswapdCpu, *share);
            }
        }
        if self.too_many {
            series.problem(format!("holds more than {MOST_SNAPSHOTS} snapshots; what comes later is left out"));
        }
        distrust(&mut series);
        series
    }
}

/// Linux 4.8 moved the counters of reclaim from zones to nodes and 4.10 split allocstall by zone: nmon looks for the
/// old names and writes 0. Before, it leaves out the zone DMA32.
fn distrust(series: &mut Series) {
    let kernel = series.kernel.as_deref().and_then(|text| hugewise_host::kernel::release::parse(text.as_bytes()).ok());
    let since = |major, minor| kernel.as_ref().is_none_or(|kernel: &KernelRelease| kernel.at_least(major, minor));
    let by_node = since(4, 8);
    for metric in [Metric::ScanKswapd, Metric::ScanDirect, Metric::Steal] {
        if series.column(metric).is_some() {
            let why = if by_node { "nmon writes 0 on Linux 4.8 and later" } else { "nmon leaves out the zone DMA32" };
            series.distrust(metric, why);
        }
    }
    if since(4, 10) && series.column(Metric::AllocStall).is_some() {
        series.distrust(Metric::AllocStall, "nmon writes 0 on Linux 4.10 and later");
    }
}

/// `T0001`
fn number(word: &str) -> Option<u32> {
    word.strip_prefix('T').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?.parse().ok()
}

/// `23:58:50`, `21-NOV-2026`
fn moment(time: &str, date: &str) -> Option<Moment> {
    let mut parts = date.split('-');
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let month = MONTHS.iter().zip(1..).find(|(name, _)| name.eq_ignore_ascii_case(month)).map(|(_, number)| number)?;
    let midnight = midnight(year.parse().ok()?, month, day.parse().ok()?)?;
    Some(Moment::from_seconds(midnight + time_of_day(time)?))
}
