//! What `atop -P CPU,CPL,MEM,SWP,PAG,PSI` prints, and atop's own files ([`raw`]); those of a layout that is not known through
//! atop, which reads those of its own version.
//!
//! Fields are those of atop 2.8's manual, PARSEABLE OUTPUT; later versions add behind them, and what an earlier one lacks
//! is absent. Times are UTC. Samples behind RESET are since the boot: what they hold of moments is kept.

mod layout;
mod raw;

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use hugewise_host::caged::Cage;
use hugewise_model::{Bytes, PageSize};

use super::calendar::{midnight, time_of_day};
use super::lines;
use super::tool::Tool;
use crate::series::{Moment, Offset};
use crate::{Clock, Metric, Refused, Series};

const LONGEST_LINE: u64 = 64 << 10;
const LABELS: [&str; 6] = ["CPU", "CPL", "MEM", "SWP", "PAG", "PSI"];
const ATOP: Tool = Tool { name: "atop", debian: "atop", redhat: "atop (from EPEL)" };

/// Whether these are the first bytes of a file that atop wrote.
pub(super) const fn is_file(head: &[u8]) -> bool {
    matches!(head, [0xef, 0xbe, 0xed, 0xfe, ..])
}

/// Whether a text begins as `atop -P` does.
pub(super) fn begins(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().map(str::trim_end).skip_while(|line| matches!(*line, "RESET" | "SEP"));
    lines.next().is_some_and(|line| Head::parse(line).is_some_and(|(_, rest)| !rest.is_empty()))
}

/// Reads a file that atop wrote.
///
/// # Errors
/// It makes no sense, or its layout is not known and atop is not installed, or is not of the version that wrote it.
pub fn file(stream: &mut dyn Read, source: &str) -> Result<Series, Refused> {
    let (header, bytes) = raw::Header::read(stream)?;
    match header.layout() {
        Some(layout) => header.samples(layout, stream, source),
        None => through_atop(&header.version(), &mut bytes.as_slice().chain(stream), source),
    }
}

fn through_atop(version: &str, whole: &mut dyn Read, source: &str) -> Result<Series, Refused> {
    let arguments = ["-r", "-", "-P", &LABELS.join(",")].map(str::to_owned);
    let outcome =
        ATOP.run(Cage::new(), Path::new("/"), &arguments, Some(whole), |printed| parse(printed, source, false))?;
    let why =
        |words: &str| Refused(format!("was written by atop {version}, and is not read by the atop here: {words}"));
    match (outcome.parsed, outcome.complaint) {
        (Ok(mut series), complaint) => {
            series.version = Some(version.to_owned());
            if let Some(complaint) = complaint {
                series.problem(complaint);
            }
            Ok(series)
        }
        (Err(_), Some(complaint)) => Err(why(&complaint)),
        (Err(refused), None) => Err(why(&refused.0)),
    }
}

/// Reads what `atop -P` printed.
///
/// # Errors
/// It holds no sample.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, Refused> {
    parse(stream, source, true)
}

/// `zoned` says whether the dates are in the host's own zone.
fn parse(stream: &mut dyn Read, source: &str, zoned: bool) -> Result<Series, Refused> {
    let mut reader =
        Reader { series: Series::new(source, crate::Format::Atop), reset: false, at: None, zoned, others: 0, torn: 0 };
    reader.series.clock = Clock::Utc { offsets: Vec::new() };
    let end = lines::each(stream, LONGEST_LINE, |line| reader.line(line));
    if reader.series.samples().is_empty() {
        return Err(Refused(end.problem().unwrap_or_else(|| "holds no atop sample".into())));
    }
    if let Some(problem) = end.problem() {
        reader.series.problem(problem);
    }
    if reader.others > 0 {
        let lines = reader.others;
        reader.series.problem(format!("{lines} lines are from another host and are left out"));
    }
    if reader.torn > 0 {
        let lines = reader.torn;
        reader.series.problem(format!("{lines} lines are incomplete and are left out"));
    }
    Ok(reader.series.finished())
}

/// The fields that every line begins with.
struct Head<'a> {
    label: &'static str,
    host: &'a str,
    epoch: i64,
    /// The same moment by the wall clock.
    wall: i64,
    seconds: u64,
}

impl<'a> Head<'a> {
    /// `CPL db1 1795306508 2026/11/22 00:15:08 1 ...`
    fn parse(line: &'a str) -> Option<(Self, Vec<&'a str>)> {
        let mut words = line.split_ascii_whitespace();
        let label = words.next()?;
        let label = LABELS.into_iter().find(|of| *of == label)?;
        let host = words.next()?;
        let epoch: i64 = words.next()?.parse().ok().filter(|epoch| (0..1 << 40).contains(epoch))?;
        let mut date = words.next()?.split('/').map(|part| part.parse::<i64>().ok());
        let midnight = midnight(date.next()??, date.next()??, date.next()??)?;
        let wall = midnight + time_of_day(words.next()?)?;
        let seconds = words.next()?.parse().ok()?;
        Some((Self { label, host, epoch, wall, seconds }, words.collect()))
    }
}

struct Reader {
    series: Series,
    /// Whether the sample at hand is since the boot.
    reset: bool,
    at: Option<i64>,
    zoned: bool,
    others: u64,
    torn: u64,
}

impl Reader {
    fn line(&mut self, line: &str) {
        match line.trim_end() {
            "RESET" => {
                (self.reset, self.at) = (true, None);
                return;
            }
            "SEP" => {
                (self.reset, self.at) = (false, None);
                return;
            }
            _ => {}
        }
        let Some((head, words)) = Head::parse(line) else {
            // Lines of other labels are none of ours.
            let known = line.split_ascii_whitespace().next().is_some_and(|word| LABELS.contains(&word));
            self.torn += u64::from(known);
            return;
        };
        let host = self.series.host.get_or_insert_with(|| head.host.to_owned());
        if host.as_str() != head.host {
            self.others += 1;
            return;
        }
        if self.at != Some(head.epoch) {
            self.begin(head.epoch, head.seconds, Some(head.wall));
        }
        if head.label == "PSI" && words.first() != Some(&"y") {
            return;
        }
        let values = words.iter().map(|word| word.parse().ok()).collect();
        self.fields(head.label, values, head.seconds);
    }

    /// Takes the fields of one label of the sample at hand.
    fn fields(&mut self, label: &str, values: Vec<Option<f64>>, seconds: u64) {
        let fields = Fields { values, seconds: (!self.reset && seconds > 0).then(|| Bytes(seconds).as_f64()) };
        match label {
            "CPU" => fields.processors(&mut self.series),
            "CPL" => fields.load(&mut self.series),
            "MEM" => fields.memory(&mut self.series),
            "SWP" => fields.swap(&mut self.series),
            "PAG" => fields.paging(&mut self.series),
            _ => fields.pressure(&mut self.series),
        }
    }

    /// Begins a sample, which is of so many seconds.
    fn begin(&mut self, epoch: i64, seconds: u64, wall: Option<i64>) {
        self.at = Some(epoch);
        let at = Moment::from_seconds(epoch);
        let interval = (!self.reset && seconds > 0).then(|| Duration::from_secs(seconds));
        if let Some(last) = self.series.samples().last().filter(|_| self.reset) {
            // What comes first is since the boot.
            let up = i64::try_from(seconds).unwrap_or(i64::MAX);
            let booted = Moment::from_seconds(epoch.saturating_sub(up));
            let kind = if booted < last.at { crate::MarkKind::Resumed } else { crate::MarkKind::Restart };
            self.series.marks.push(crate::Mark { at, kind });
        }
        self.series.push(at, interval);
        let offset = wall.and_then(|wall| i32::try_from(wall - epoch).ok());
        let offset = offset.filter(|offset| self.zoned && offset.abs() <= 54_000);
        if let (Clock::Utc { offsets }, Some(seconds)) = (&mut self.series.clock, offset)
            && offsets.last().is_none_or(|last| last.seconds != seconds)
        {
            offsets.push(Offset { from: at, seconds });
        }
    }
}

/// What stands behind the head; what is no number is absent.
struct Fields {
    values: Vec<Option<f64>>,
    /// The interval that counters are of; none where they are since the boot.
    seconds: Option<f64>,
}

impl Fields {
    fn get(&self, place: usize) -> Option<f64> {
        self.values.get(place).copied().flatten()
    }

    /// A counter's growth a second; atop writes -1 for a counter that the kernel lacks.
    fn rate(&self, place: usize) -> Option<f64> {
        self.get(place).filter(|value| *value >= 0.0).zip(self.seconds).map(|(value, seconds)| value / seconds)
    }

    /// Ticks: a second, processors, then system, user, nice, idle, wait, irq, softirq, steal, guest.
    fn processors(&self, series: &mut Series) {
        set(series, Metric::Processors, self.get(1));
        if self.seconds.is_none() {
            return;
        }
        let ticks = |place: usize| self.get(place).unwrap_or(0.0);
        // Guests' ticks are among the user's.
        let all: f64 = (2..10).map(ticks).sum();
        if all <= 0.0 || self.values.len() < 10 {
            return;
        }
        for (metric, of) in [
            (Metric::CpuSystem, ticks(2) + ticks(7) + ticks(8)),
            (Metric::CpuUser, ticks(3)),
            (Metric::CpuNice, ticks(4)),
            (Metric::CpuIdle, ticks(5)),
            (Metric::CpuIowait, ticks(6)),
            (Metric::CpuIrq, ticks(7)),
            (Metric::CpuSoftirq, ticks(8)),
            (Metric::CpuSteal, ticks(9)),
        ] {
            series.set(metric, of / all * 100.0);
        }
        set(series, Metric::CpuGuest, self.get(10).map(|guest| guest / all * 100.0));
    }

    fn load(&self, series: &mut Series) {
        set(series, Metric::Load1, self.get(1));
        set(series, Metric::Load5, self.get(2));
        set(series, Metric::Load15, self.get(3));
        set(series, Metric::ContextSwitches, self.rate(4));
        set(series, Metric::Interrupts, self.rate(5));
    }

    fn memory(&self, series: &mut Series) {
        let Some(page) = self.get(0) else { return };
        series.base_page = whole(page).and_then(PageSize::new);
        for (metric, place) in [
            (Metric::MemTotal, 1),
            (Metric::MemFree, 2),
            (Metric::Cached, 3),
            (Metric::Buffers, 4),
            (Metric::Slab, 5),
            (Metric::Dirty, 6),
            (Metric::SlabReclaimable, 7),
            (Metric::Shmem, 9),
            (Metric::MemAvailable, 24),
            (Metric::AnonHuge, 25),
        ] {
            set(series, metric, self.get(place).map(|pages| pages * page));
        }
        // Zero is that of a version or a kernel that does not tell: whoever has processes has page tables.
        set(series, Metric::PageTables, self.get(20).filter(|pages| *pages > 0.0).map(|pages| pages * page));
        if let Some(huge) = self.get(12).filter(|huge| *huge > 0.0) {
            set(series, Metric::HugeTotal, self.get(13).map(|pages| pages * huge));
            set(series, Metric::HugeFree, self.get(14).map(|pages| pages * huge));
            series.huge_page = whole(huge).map(Bytes);
        }
    }

    fn swap(&self, series: &mut Series) {
        let Some(page) = self.get(0) else { return };
        let (total, free) = (self.get(1).map(|pages| pages * page), self.get(2).map(|pages| pages * page));
        set(series, Metric::SwapTotal, total);
        set(series, Metric::SwapFree, free);
        set(series, Metric::SwapUsed, total.zip(free).map(|(total, free)| (total - free).max(0.0)));
        set(series, Metric::Committed, self.get(4).map(|pages| pages * page));
    }

    fn paging(&self, series: &mut Series) {
        let (scans, stalls) = (self.rate(1), self.rate(2));
        set(series, Metric::AllocStall, stalls);
        // atop adds kswapd's scans to those of processes. Where no process had to reclaim, all are kswapd's.
        set(series, Metric::Scan, scans);
        if let (Some(scans), Some(0.0)) = (scans, stalls) {
            series.set(Metric::ScanKswapd, scans);
            series.set(Metric::ScanDirect, 0.0);
        }
        set(series, Metric::SwapIn, self.rate(4));
        set(series, Metric::SwapOut, self.rate(5));
        set(series, Metric::OomKill, self.rate(6));
        set(series, Metric::CompactStall, self.rate(7));
        let Some(page) = self.get(0) else { return };
        set(series, Metric::PagedIn, self.rate(10).map(|pages| pages * page));
        set(series, Metric::PagedOut, self.rate(11).map(|pages| pages * page));
    }

    /// `y`, then for each kind three averages and the microseconds of the interval.
    fn pressure(&self, series: &mut Series) {
        for (metric, place) in [
            (Metric::PressureCpuSome, 4),
            (Metric::PressureMemorySome, 8),
            (Metric::PressureMemoryFull, 12),
            (Metric::PressureIoSome, 16),
            (Metric::PressureIoFull, 20),
        ] {
            // The kernel's clock and atop's are not one.
            set(series, metric, self.rate(place).map(|micros| (micros / 10_000.0).min(100.0)));
        }
    }
}

fn set(series: &mut Series, metric: Metric, value: Option<f64>) {
    if let Some(value) = value {
        series.set(metric, value);
    }
}

/// A size that was read as a number.
fn whole(value: f64) -> Option<u64> {
    format!("{value:.0}").parse().ok()
}
