//! What `atop -P CPU,CPL,MEM,SWP,PAG,PSI` prints, and atop's own files ([`raw`]); files of an
//! unknown layout are read with the atop installed here.
//!
//! Fields are those of atop 2.8's manual, PARSEABLE OUTPUT; later versions append to them. Times are
//! UTC. Samples behind RESET are since the boot: only their momentary values are kept.

mod layout;
mod raw;
mod screen;

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use hugewise_host::sandbox::Sandbox;
use hugewise_model::{Bytes, PageSize};

use super::archive_format::{ArchiveFormat, Promise};
use super::external_tool::ExternalTool;
use super::lines::{self, LONGEST_LINE};
use crate::series::{Moment, Offset};
use crate::{Clock, FileRefused, Metric, Series};
use hugewise_model::calendar::{midnight_seconds, time_of_day};

const LABELS: [&str; 6] = ["CPU", "CPL", "MEM", "SWP", "PAG", "PSI"];
const ATOP: ExternalTool =
    ExternalTool { name: "atop", debian: "atop", redhat: "atop (from EPEL)" };

/// Files that atop wrote.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "atop_file",
    called: "an atop file",
    tools: &["atop"],
    is_text: false,
    recognize: |head| Promise::sure_if(head.starts_with(&[0xef, 0xbe, 0xed, 0xfe])),
    read: |file| file.read_single(read_atop_file),
};

/// What `atop -P` prints, and atop's screens.
pub static TEXT_FORMAT: ArchiveFormat = ArchiveFormat {
    name: "atop",
    called: "an atop file",
    tools: &[],
    is_text: true,
    recognize: |text| {
        let text = String::from_utf8_lossy(text);
        Promise::sure_if(is_atop_text(&text) || screen::is_atop_screen(&text))
    },
    read: |file| {
        let is_printed = is_atop_text(&String::from_utf8_lossy(file.head.trim_ascii_start()));
        file.read_single(if is_printed { read } else { screen::read })
    },
};

fn is_atop_text(text: &str) -> bool {
    let mut lines =
        text.lines().map(str::trim_end).skip_while(|line| matches!(*line, "RESET" | "SEP"));
    lines
        .next()
        .is_some_and(|line| AtopLineHead::parse(line).is_some_and(|(_, rest)| !rest.is_empty()))
}

/// Reads a file that atop wrote.
///
/// # Errors
/// It makes no sense, or its layout is unknown and the atop here cannot read it.
pub fn read_atop_file(stream: &mut dyn Read, source: &str) -> Result<Series, FileRefused> {
    let (header, bytes) = raw::AtopHeader::read(stream)?;
    match header.known_layout() {
        Some(layout) => header.read_samples(layout, stream, source),
        None => read_with_atop(&header.version(), &mut bytes.as_slice().chain(stream), source),
    }
}

fn read_with_atop(
    version: &str,
    whole: &mut dyn Read,
    source: &str,
) -> Result<Series, FileRefused> {
    let arguments = ["-r", "-", "-P", &LABELS.join(",")].map(str::to_owned);
    let outcome = ATOP.run(Sandbox::new(), Path::new("/"), &arguments, Some(whole), |printed| {
        parse(printed, source, false)
    })?;
    let mut series = outcome.into_series().map_err(|FileRefused(why)| {
        FileRefused(format!(
            "was written by atop {version}, and is not read by the atop here: {why}"
        ))
    })?;
    series.version = Some(version.to_owned());
    Ok(series)
}

/// Reads what `atop -P` printed.
///
/// # Errors
/// It holds no sample.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, FileRefused> {
    parse(stream, source, true)
}

/// `zoned` says whether dates are in the host's own zone.
fn parse(stream: &mut dyn Read, source: &str, zoned: bool) -> Result<Series, FileRefused> {
    let mut reader = AtopReader::new(source, zoned);
    let end = lines::for_each_line(stream, LONGEST_LINE, |line| reader.push_line(line));
    if reader.series.samples().is_empty() {
        return Err(FileRefused(
            end.describe_problem().unwrap_or_else(|| "holds no atop sample".into()),
        ));
    }
    end.note_problem(&mut reader.series);
    if reader.others > 0 {
        let lines = reader.others;
        reader.series.add_problem(format!("{lines} lines are from another host and are left out"));
    }
    if reader.torn > 0 {
        let lines = reader.torn;
        reader.series.add_problem(format!("{lines} lines are incomplete and are left out"));
    }
    Ok(reader.series.finish())
}

struct AtopLineHead<'a> {
    label: &'static str,
    host: &'a str,
    epoch: i64,
    /// The same moment by the wall clock.
    wall: i64,
    seconds: u64,
}

impl<'a> AtopLineHead<'a> {
    /// `CPL db1 1795306508 2026/11/22 00:15:08 1 ...`
    fn parse(line: &'a str) -> Option<(Self, Vec<&'a str>)> {
        let mut words = line.split_ascii_whitespace();
        let label = words.next()?;
        let label = LABELS.into_iter().find(|text| *text == label)?;
        let host = words.next()?;
        let epoch: i64 = words.next()?.parse().ok().filter(|epoch| (0..1 << 40).contains(epoch))?;
        let mut date = words.next()?.split('/').map(|part| part.parse::<i64>().ok());
        let midnight = midnight_seconds(date.next()??, date.next()??, date.next()??)?;
        let wall = midnight + time_of_day(words.next()?)?;
        let seconds = words.next()?.parse().ok()?;
        Some((Self { label, host, epoch, wall, seconds }, words.collect()))
    }
}

struct AtopReader {
    series: Series,
    /// Whether the current sample is since the boot.
    reset: bool,
    at: Option<i64>,
    zoned: bool,
    others: u64,
    torn: u64,
}

impl AtopReader {
    fn new(source: &str, zoned: bool) -> Self {
        let mut series = Series::new(source, crate::SourceFormat::Collector("atop"));
        series.clock = Clock::Utc { offsets: Vec::new() };
        Self { series, reset: false, at: None, zoned, others: 0, torn: 0 }
    }

    fn push_line(&mut self, line: &str) {
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
        let Some((head, words)) = AtopLineHead::parse(line) else {
            let known =
                line.split_ascii_whitespace().next().is_some_and(|word| LABELS.contains(&word));
            self.torn += u64::from(known);
            return;
        };
        let host = self.series.host.get_or_insert_with(|| head.host.to_owned());
        if host.as_str() != head.host {
            self.others += 1;
            return;
        }
        if self.at != Some(head.epoch) {
            self.begin_sample(head.epoch, head.seconds, Some(head.wall));
        }
        if head.label == "PSI" && words.first() != Some(&"y") {
            return;
        }
        let values = words.iter().map(|word| word.parse().ok()).collect();
        self.record_fields(head.label, values, head.seconds);
    }

    fn record_fields(&mut self, label: &str, values: Vec<Option<f64>>, seconds: u64) {
        let fields = AtopFields {
            values,
            seconds: (!self.reset && seconds > 0).then(|| Bytes(seconds).as_f64()),
        };
        match label {
            "CPU" => fields.set_processors(&mut self.series),
            "CPL" => fields.set_load(&mut self.series),
            "MEM" => fields.set_memory(&mut self.series),
            "SWP" => fields.set_swap(&mut self.series),
            "PAG" => fields.set_paging(&mut self.series),
            _ => fields.set_pressure(&mut self.series),
        }
    }

    fn begin_sample(&mut self, epoch: i64, seconds: u64, wall: Option<i64>) {
        self.at = Some(epoch);
        let at = Moment::from_seconds(epoch);
        let interval = (!self.reset && seconds > 0).then(|| Duration::from_secs(seconds));
        if let Some(last) = self.series.samples().last().filter(|_| self.reset) {
            // What comes first is since the boot.
            let up = i64::try_from(seconds).unwrap_or(i64::MAX);
            let booted = Moment::from_seconds(epoch.saturating_sub(up));
            let kind =
                if booted < last.at { crate::MarkKind::Resumed } else { crate::MarkKind::Restart };
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

/// The fields behind the head; what is no number is absent.
struct AtopFields {
    values: Vec<Option<f64>>,
    /// The interval of counters; none where they are since the boot.
    seconds: Option<f64>,
}

impl AtopFields {
    fn get(&self, place: usize) -> Option<f64> {
        self.values.get(place).copied().flatten()
    }

    /// A counter's growth a second; atop writes -1 for counters that the kernel lacks.
    fn rate_at(&self, place: usize) -> Option<f64> {
        self.get(place)
            .filter(|value| *value >= 0.0)
            .zip(self.seconds)
            .map(|(value, seconds)| value / seconds)
    }

    /// Ticks a second, processors, then ticks: system, user, nice, idle, wait, irq, softirq, steal,
    /// guest.
    fn set_processors(&self, series: &mut Series) {
        set_if_present(series, Metric::Processors, self.get(1));
        if self.seconds.is_none() {
            return;
        }
        let ticks = |place: usize| self.get(place).unwrap_or(0.0);
        // Guests' ticks are part of the user's.
        let all: f64 = (2..10).map(ticks).sum();
        if all <= 0.0 || self.values.len() < 10 {
            return;
        }
        for (metric, value) in [
            (Metric::CpuSystem, ticks(2) + ticks(7) + ticks(8)),
            (Metric::CpuUser, ticks(3)),
            (Metric::CpuNice, ticks(4)),
            (Metric::CpuIdle, ticks(5)),
            (Metric::CpuIowait, ticks(6)),
            (Metric::CpuIrq, ticks(7)),
            (Metric::CpuSoftirq, ticks(8)),
            (Metric::CpuSteal, ticks(9)),
        ] {
            series.set_value(metric, value / all * 100.0);
        }
        set_if_present(series, Metric::CpuGuest, self.get(10).map(|guest| guest / all * 100.0));
    }

    fn set_load(&self, series: &mut Series) {
        set_if_present(series, Metric::Load1, self.get(1));
        set_if_present(series, Metric::Load5, self.get(2));
        set_if_present(series, Metric::Load15, self.get(3));
        set_if_present(series, Metric::ContextSwitches, self.rate_at(4));
        set_if_present(series, Metric::Interrupts, self.rate_at(5));
    }

    fn set_memory(&self, series: &mut Series) {
        let Some(page) = self.get(0) else { return };
        series.base_page = u64_from_f64(page).and_then(PageSize::new);
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
            set_if_present(series, metric, self.get(place).map(|pages| pages * page));
        }
        // Zero is written by versions and kernels without it: every host has page tables.
        set_if_present(
            series,
            Metric::PageTables,
            self.get(20).filter(|pages| *pages > 0.0).map(|pages| pages * page),
        );
        if let Some(huge) = self.get(12).filter(|huge| *huge > 0.0) {
            set_if_present(series, Metric::HugeTotal, self.get(13).map(|pages| pages * huge));
            set_if_present(series, Metric::HugeFree, self.get(14).map(|pages| pages * huge));
            series.huge_page = u64_from_f64(huge).map(Bytes);
        }
    }

    fn set_swap(&self, series: &mut Series) {
        let Some(page) = self.get(0) else { return };
        let (total, free) =
            (self.get(1).map(|pages| pages * page), self.get(2).map(|pages| pages * page));
        set_if_present(series, Metric::SwapTotal, total);
        set_if_present(series, Metric::SwapFree, free);
        set_if_present(
            series,
            Metric::SwapUsed,
            total.zip(free).map(|(total, free)| (total - free).max(0.0)),
        );
        set_if_present(series, Metric::Committed, self.get(4).map(|pages| pages * page));
    }

    fn set_paging(&self, series: &mut Series) {
        let (scans, stalls) = (self.rate_at(1), self.rate_at(2));
        set_if_present(series, Metric::AllocStall, stalls);
        // atop counts kswapd's scans with those of processes; without stalls, all are kswapd's.
        set_if_present(series, Metric::Scan, scans);
        if let (Some(scans), Some(0.0)) = (scans, stalls) {
            series.set_value(Metric::ScanKswapd, scans);
            series.set_value(Metric::ScanDirect, 0.0);
        }
        set_if_present(series, Metric::SwapIn, self.rate_at(4));
        set_if_present(series, Metric::SwapOut, self.rate_at(5));
        set_if_present(series, Metric::OomKill, self.rate_at(6));
        set_if_present(series, Metric::CompactStall, self.rate_at(7));
        let Some(page) = self.get(0) else { return };
        set_if_present(series, Metric::PagedIn, self.rate_at(10).map(|pages| pages * page));
        set_if_present(series, Metric::PagedOut, self.rate_at(11).map(|pages| pages * page));
    }

    /// `y`, then for each kind three averages and the microseconds of the interval.
    fn set_pressure(&self, series: &mut Series) {
        for (metric, place) in [
            (Metric::PressureCpuSome, 4),
            (Metric::PressureMemorySome, 8),
            (Metric::PressureMemoryFull, 12),
            (Metric::PressureIoSome, 16),
            (Metric::PressureIoFull, 20),
        ] {
            // The kernel's clock and atop's differ a little.
            set_if_present(
                series,
                metric,
                self.rate_at(place).map(|micros| (micros / 10_000.0).min(100.0)),
            );
        }
    }
}

fn set_if_present(series: &mut Series, metric: Metric, value: Option<f64>) {
    if let Some(value) = value {
        series.set_value(metric, value);
    }
}

fn u64_from_f64(value: f64) -> Option<u64> {
    format!("{value:.0}").parse().ok()
}
