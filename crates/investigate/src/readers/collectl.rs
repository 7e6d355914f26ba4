//! collectl's own files: raw ones, which repeat the kernel's files behind a moment each, and plots
//! (`-P`), a row a sample. Both begin with a heading that has host, kernel and zone; `-P` to a
//! terminal has none.
//!
//! Names, units and layout: collectl 4.3.1 and its Plotfiles.html. Its tables for the terminal round
//! to K and M, and are refused by name.

use std::io::Read;
use std::time::Duration;

use hugewise_model::PageSize;

use super::archive_format::{ArchiveFormat, Promise};
use super::line_timestamp::LineTimestamp;
use super::lines::{self, LineStreamEnd, TableColumn, set_column_value};
use super::proc_log;
use crate::series::{Moment, Offset};
use crate::{Clock, FileRefused, Metric, Series, SourceFormat};
use hugewise_model::calendar::{midnight_seconds, parse_utc_offset, thousandths, time_of_day};

/// A row of all processors and disks is longer than most lines.
const LONGEST_LINE: u64 = 1 << 20;
/// Columns of a plot; a host with a thousand processors and disks has fewer.
const MOST_COLUMNS: usize = 65_536;

const COLUMNS: &[TableColumn] = &[
    ("[CPU]User%", Metric::CpuUser, 1.0, true),
    ("[CPU]Nice%", Metric::CpuNice, 1.0, true),
    ("[CPU]Wait%", Metric::CpuIowait, 1.0, true),
    ("[CPU]Irq%", Metric::CpuIrq, 1.0, true),
    ("[CPU]Soft%", Metric::CpuSoftirq, 1.0, true),
    ("[CPU]Steal%", Metric::CpuSteal, 1.0, true),
    ("[CPU]Idle%", Metric::CpuIdle, 1.0, true),
    ("[CPU]Guest%", Metric::CpuGuest, 1.0, true),
    ("[CPU]Intrpt/sec", Metric::Interrupts, 1.0, true),
    ("[CPU]Ctx/sec", Metric::ContextSwitches, 1.0, true),
    ("[CPU]Proc/sec", Metric::Forks, 1.0, true),
    // ProcQue counts all tasks, sleeping ones included.
    ("[CPU]ProcQue", Metric::Tasks, 1.0, false),
    ("[CPU]RunTot", Metric::RunQueue, 1.0, false),
    ("[CPU]BlkTot", Metric::Blocked, 1.0, false),
    ("[CPU]L-Avg1", Metric::Load1, 1.0, false),
    ("[CPU]L-Avg5", Metric::Load5, 1.0, false),
    ("[CPU]L-Avg15", Metric::Load15, 1.0, false),
    ("[MEM]Tot", Metric::MemTotal, 1024.0, false),
    ("[MEM]Free", Metric::MemFree, 1024.0, false),
    ("[MEM]Buf", Metric::Buffers, 1024.0, false),
    ("[MEM]Cached", Metric::Cached, 1024.0, false),
    ("[MEM]Slab", Metric::Slab, 1024.0, false),
    ("[MEM]Map", Metric::Mapped, 1024.0, false),
    ("[MEM]AnonH", Metric::AnonHuge, 1024.0, false),
    ("[MEM]Anon", Metric::Anon, 1024.0, false),
    ("[MEM]Commit", Metric::Committed, 1024.0, false),
    ("[MEM]Dirty", Metric::Dirty, 1024.0, false),
    // [MEM]Inactive is Inactive(file) on today's kernels.
    ("[MEM]SwapTot", Metric::SwapTotal, 1024.0, false),
    ("[MEM]SwapUsed", Metric::SwapUsed, 1024.0, false),
    ("[MEM]SwapFree", Metric::SwapFree, 1024.0, false),
    // Bytes, whatever its documents say: pages of the kernel's counter times their size.
    ("[MEM]SwapIn", Metric::SwapIn, 1.0 / 4096.0, true),
    ("[MEM]SwapOut", Metric::SwapOut, 1.0 / 4096.0, true),
    ("[MEM]PageIn", Metric::PagedIn, 1024.0, true),
    ("[MEM]PageOut", Metric::PagedOut, 1024.0, true),
    ("[MEM]PageFaults", Metric::Faults, 1.0, true),
    ("[MEM]PageMajFaults", Metric::MajorFaults, 1.0, true),
];
/// Columns whose sum is the kernel's time.
const SYSTEM: [&str; 3] = ["[CPU]Sys%", "[CPU]Irq%", "[CPU]Soft%"];

/// collectl's files, and what `-P` prints.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "collectl",
    called: "a collectl file",
    tools: &["collectl"],
    is_text: true,
    recognize: |text| Promise::sure_if(is_collectl_output(text)),
    read: |file| file.read_single(read),
};

fn is_collectl_output(text: &[u8]) -> bool {
    String::from_utf8_lossy(text)
        .lines()
        .take(40)
        .any(|line| line.starts_with("# Collectl:") || is_plot(line))
}

fn is_plot(line: &str) -> bool {
    (line.starts_with("#Date") || line.starts_with("#UTC"))
        && (line.contains("[CPU]") || line.contains("[MEM]"))
}

/// `>>> 1795626371.009 <<<` of a raw file.
fn parse_raw_moment(line: &str) -> Option<LineTimestamp> {
    let seconds = line.strip_prefix(">>> ")?.strip_suffix(" <<<")?;
    LineTimestamp::parse(seconds)
}

/// Reads one of its files.
///
/// # Errors
/// It holds no sample of the host, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, FileRefused> {
    let series = Series::new(source, SourceFormat::Collector("collectl"));
    let mut reader = CollectlReader {
        head: CollectlHeading::default(),
        raw: proc_log::ProcLogReader::new(series.clone(), parse_raw_moment),
        stamps: false,
        pending: None,
        ticks: None,
        plot: Plot { series, ..Plot::default() },
    };
    let end = lines::for_each_line(stream, LONGEST_LINE, |line| reader.push_line(line));
    let CollectlReader { head, raw, plot, .. } = reader;
    let raw = raw.into_series(&LineStreamEnd::Whole);
    let mut series = match raw {
        Some(raw) => raw,
        None if !plot.series.samples().is_empty() => plot.into_series(&head),
        None => match end {
            LineStreamEnd::Failed(why) => return Err(FileRefused(why)),
            _ => {
                return Err(FileRefused(
                    "is from collectl and holds no samples of processors or memory: hugewise \
                         reads collectl's files, raw \
                     (-f FILE) and for plots (-P), but not its tables for the terminal"
                        .into(),
                ));
            }
        },
    };
    end.note_problem(&mut series);
    head.apply_to_series(&mut series);
    Ok(series.finish())
}

#[derive(Default)]
struct CollectlHeading {
    host: Option<String>,
    version: Option<String>,
    kernel: Option<String>,
    architecture: Option<String>,
    page: Option<PageSize>,
    /// Seconds east of Greenwich.
    offset: Option<i32>,
    /// Seconds between samples.
    interval: Option<f64>,
    /// Whether rates were left as counts (-on).
    counts: bool,
}

impl CollectlHeading {
    fn push_line(&mut self, line: &str) {
        let word_after = |name: &str| {
            let (_, rest) = line.split_once(name)?;
            rest.split_ascii_whitespace().next().map(str::to_owned)
        };
        if line.starts_with("# Collectl:") {
            self.version =
                word_after("Collectl:").map(|version| version.trim_start_matches('V').to_owned());
        } else if line.starts_with("# Host:") {
            // Without a name the next word is the next field's.
            self.host = word_after("Host:").filter(|host| !host.ends_with(':'));
        } else if line.starts_with("# Date:") {
            self.offset = word_after("TZ:").and_then(|zone| parse_utc_offset(&zone));
        } else if line.starts_with("# SubSys:") {
            self.interval =
                word_after("Interval:").and_then(|text| text.split(':').next()?.parse().ok());
            let options = line
                .split_once("Options:")
                .and_then(|(_, rest)| Some(rest.split_once("Interval:")?.0));
            self.counts = options.is_some_and(|options| options.contains('n'));
        } else if line.starts_with("# HZ:") {
            self.architecture = word_after("Arch:")
                .map(|arch| arch.split('-').next().unwrap_or_default().to_owned());
            self.page =
                word_after("PageSize:").and_then(|bytes| PageSize::new(bytes.parse().ok()?));
        } else if line.starts_with("# Kernel:") {
            self.kernel = word_after("Kernel:");
        }
    }

    fn apply_to_series(self, series: &mut Series) {
        series.host = self.host;
        series.version = self.version;
        series.kernel = self.kernel;
        series.architecture = self.architecture;
        series.base_page = self.page;
        let first = series.samples().first().map(|first| first.at);
        if let (Some(seconds), Clock::Utc { offsets }, Some(from)) =
            (self.offset, &mut series.clock, first)
        {
            *offsets = vec![Offset { from, seconds }];
        }
    }
}

struct CollectlReader {
    head: CollectlHeading,
    raw: proc_log::ProcLogReader<fn(&str) -> Option<LineTimestamp>>,
    /// Whether a raw file's moment was seen.
    stamps: bool,
    /// The last moment, while nothing is behind it: one more ends the file.
    pending: Option<String>,
    ticks: Option<[u64; 10]>,
    plot: Plot,
}

impl CollectlReader {
    fn push_line(&mut self, line: &str) {
        if is_plot(line) {
            self.plot.parse_heading(line);
        } else if line.starts_with('#') {
            self.head.push_line(line);
        } else if line.starts_with(">>> ") {
            self.stamps = true;
            self.pending = Some(line.to_owned());
        } else if self.stamps {
            self.push_kernel_line(line);
        } else {
            self.plot.parse_row(line, &self.head);
        }
    }

    fn push_kernel_line(&mut self, line: &str) {
        if let Some(moment) = self.pending.take() {
            self.raw.push_line(&moment);
        }
        let Some((name, rest)) = line.split_once(' ') else { return };
        let mut words = rest.split_ascii_whitespace();
        let number = words.next().and_then(|word| word.parse::<u64>().ok());
        #[allow(clippy::cast_precision_loss, reason = "tasks, far below 2^52")]
        match (name, number) {
            ("cpu", _) => self.record_processor_ticks(rest),
            ("procs_running", Some(number)) => {
                self.raw.record_gauge(Metric::RunQueue, number as f64)
            }
            ("procs_blocked", Some(number)) => {
                self.raw.record_gauge(Metric::Blocked, number as f64)
            }
            ("processes", Some(number)) => self.raw.record_counter(Metric::Forks, 1.0, number),
            ("ctxt", Some(number)) => self.raw.record_counter(Metric::ContextSwitches, 1.0, number),
            ("intr", Some(number)) => self.raw.record_counter(Metric::Interrupts, 1.0, number),
            ("load", _) => {
                let loads =
                    rest.split_ascii_whitespace().map_while(|word| word.parse::<f64>().ok());
                for (metric, load) in
                    [Metric::Load1, Metric::Load5, Metric::Load15].into_iter().zip(loads)
                {
                    self.raw.record_gauge(metric, load);
                }
            }
            _ => self.raw.push_line(line),
        }
    }

    /// user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice; older kernels have
    /// fewer.
    fn record_processor_ticks(&mut self, rest: &str) {
        let mut now = [0_u64; 10];
        for (place, word) in now.iter_mut().zip(rest.split_ascii_whitespace()) {
            let Ok(ticks) = word.parse() else { return };
            *place = ticks;
        }
        let Some(before) = self.ticks.replace(now) else { return };
        let mut grown = [0_u64; 10];
        for ((grown, now), before) in grown.iter_mut().zip(now).zip(before) {
            // A counter that falls began anew; iowait may fall a little by itself.
            *grown = now.saturating_sub(before);
        }
        let [user, nice, system, idle, iowait, irq, softirq, steal, guest, _] = grown;
        let all = [user, nice, system, idle, iowait, irq, softirq, steal]
            .into_iter()
            .fold(0, u64::saturating_add);
        if all == 0 || now.get(3) < before.get(3) {
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "ticks of an interval are far below 2^52")]
        for (metric, ticks) in [
            (Metric::CpuUser, user),
            (Metric::CpuNice, nice),
            (Metric::CpuSystem, system.saturating_add(irq).saturating_add(softirq)),
            (Metric::CpuIdle, idle),
            (Metric::CpuIowait, iowait),
            (Metric::CpuIrq, irq),
            (Metric::CpuSoftirq, softirq),
            (Metric::CpuSteal, steal),
            (Metric::CpuGuest, guest),
        ] {
            self.raw.record_gauge(metric, ticks as f64 * 100.0 / all as f64);
        }
    }
}

#[derive(Default)]
struct Plot {
    series: Series,
    separator: Option<char>,
    /// Whether a row begins with seconds since 1970, not with a day and a time.
    epoch: bool,
    columns: Vec<String>,
    misread: u64,
}

impl Plot {
    fn parse_heading(&mut self, line: &str) {
        self.epoch = line.starts_with("#UTC");
        let name = if self.epoch { "#UTC" } else { "#Date" };
        self.separator = line.get(name.len()..).and_then(|rest| rest.chars().next());
        let Some(separator) = self.separator else { return };
        self.columns = line.split(separator).take(MOST_COLUMNS).map(str::to_owned).collect();
    }

    fn parse_row(&mut self, line: &str, head: &CollectlHeading) {
        let Some(separator) = self.separator.filter(|_| !line.trim().is_empty()) else { return };
        let words: Vec<&str> = line.split(separator).take(MOST_COLUMNS).collect();
        let at = if words.len() == self.columns.len() {
            self.parse_row_moment(&words, head)
        } else {
            None
        };
        // A line that is cut short cannot be assigned to columns.
        let Some(at) = at else {
            self.misread += 1;
            return;
        };
        self.series.counted_in = Some(PageSize::KIB_4);
        let earlier = self
            .series
            .samples()
            .last()
            .and_then(|last| at.duration_since(last.at))
            .filter(|passed| !passed.is_zero());
        let asked = head.interval.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        self.series.push(at, earlier.or(asked.filter(|passed| !passed.is_zero())));
        let mut system = None;
        for (name, word) in self.columns.iter().zip(words) {
            let Some(value) = word.parse::<f64>().ok().filter(|value| value.is_finite()) else {
                continue;
            };
            if SYSTEM.contains(&name.as_str()) {
                system = Some(system.unwrap_or(0.0) + value);
            }
            let rates = !head.counts || name.ends_with('%');
            set_column_value(&mut self.series, COLUMNS, name, value, rates);
        }
        if let Some(system) = system {
            self.series.set_value(Metric::CpuSystem, system);
        }
    }

    /// `20261125 17:06:12.007`, or seconds since 1970.
    fn parse_row_moment(&mut self, words: &[&str], head: &CollectlHeading) -> Option<Moment> {
        if self.epoch {
            let stamp = LineTimestamp::parse(words.first()?)?;
            return Some(stamp.moment_on_clock(&mut self.series));
        }
        let (day, time) = (*words.first()?, *words.get(1)?);
        let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
        if day.len() != 8 || !digits(day) {
            return None;
        }
        let day: i64 = day.parse().ok()?;
        let midnight = midnight_seconds(day / 10_000, day / 100 % 100, day % 100)?;
        let (clock, part) = time.split_once('.').unwrap_or((time, ""));
        let digits = part.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
        let thousandths = thousandths(digits).unwrap_or(0);
        let seconds = midnight + time_of_day(clock)? - i64::from(head.offset.unwrap_or(0));
        if self.series.samples().is_empty() {
            self.series.clock = match head.offset {
                Some(_) => Clock::Utc { offsets: Vec::new() },
                None => Clock::Wall { zone: None },
            };
        }
        Some(Moment(Moment::from_seconds(seconds).0.saturating_add(thousandths)))
    }

    fn into_series(mut self, head: &CollectlHeading) -> Series {
        if self.misread > 0 {
            let lines = self.misread;
            self.series
                .add_problem(format!("{lines} lines do not fit the headings and are left out"));
        }
        if head.counts {
            self.series.add_problem("was written with -on: its counts of an interval are left out");
        }
        self.series
    }
}
