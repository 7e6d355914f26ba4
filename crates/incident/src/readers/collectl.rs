//! collectl's own files: raw ones, which repeat the kernel's files behind a moment each, and those for plotting (`-P`), a row a
//! sample. Both begin with a heading that says host, kernel and zone; what `-P` prints to a terminal has none.
//!
//! Names, units and layout: collectl 4.3.1, its Plotfiles.html, and what it writes beside the kernel's own figures. Its tables for
//! the terminal round to K and M, and are refused by name.

use std::io::Read;
use std::time::Duration;

use hugewise_model::PageSize;

use super::calendar::{midnight, time_of_day};
use super::lines::{self, End};
use super::proc_log;
use super::stamp::Stamp;
use crate::series::{Moment, Offset};
use crate::{Clock, Format, Metric, Refused, Series};

/// A row of all processors and disks is longer than most lines.
const LONGEST_LINE: u64 = 1 << 20;
/// Columns of a plot; a host of a thousand processors and disks has fewer.
const MOST_COLUMNS: usize = 65_536;

/// A plot's column, the metric, how often its unit goes into the metric's, and whether it is of an interval.
const COLUMNS: &[(&str, Metric, f64, bool)] = &[
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
    // ProcQue counts tasks, those that sleep among them.
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
    // [MEM]Inactive is Inactive(file) on today's kernels, whose name begins alike.
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
/// What the kernel's time is the sum of.
const SYSTEM: [&str; 3] = ["[CPU]Sys%", "[CPU]Irq%", "[CPU]Soft%"];

/// Whether a text is one of its files, or what `-P` prints.
pub(super) fn begins(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).lines().take(40).any(|line| line.starts_with("# Collectl:") || is_plot(line))
}

fn is_plot(line: &str) -> bool {
    (line.starts_with("#Date") || line.starts_with("#UTC")) && (line.contains("[CPU]") || line.contains("[MEM]"))
}

/// The moment of a raw file: `>>> 1795626371.009 <<<`.
fn moment(line: &str) -> Option<Stamp> {
    let seconds = line.strip_prefix(">>> ")?.strip_suffix(" <<<")?;
    Stamp::parse(seconds)
}

/// Reads one of its files.
///
/// # Errors
/// It holds no sample of the host, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, Refused> {
    let mut reader = Reader {
        head: Head::default(),
        raw: proc_log::Reader::new(Series::new(source, Format::Collectl), moment),
        stamps: false,
        pending: None,
        ticks: None,
        plot: Plot { series: Series::new(source, Format::Collectl), ..Plot::default() },
    };
    let end = lines::each(stream, LONGEST_LINE, |line| reader.line(line));
    let Reader { head, raw, plot, .. } = reader;
    let raw = raw.finished(&End::Whole);
    let mut series = match raw {
        Some(raw) => raw,
        None if !plot.series.samples().is_empty() => plot.finished(&head),
        None => match end {
            End::Failed(why) => return Err(Refused(why)),
            _ => {
                return Err(Refused(
                    "is from collectl and holds no samples of processors or memory: hugewise reads collectl's files, raw \
                     (-f FILE) and for plots (-P), but not its tables for the terminal"
                        .into(),
                ));
            }
        },
    };
    if let Some(problem) = end.problem() {
        series.problem(problem);
    }
    head.tell(&mut series);
    Ok(series.finished())
}

/// What the heading says.
#[derive(Default)]
struct Head {
    host: Option<String>,
    version: Option<String>,
    kernel: Option<String>,
    architecture: Option<String>,
    page: Option<PageSize>,
    /// Seconds east of Greenwich.
    offset: Option<i32>,
    /// Seconds from one sample to the next.
    interval: Option<f64>,
    /// Whether rates were left as counts (-on).
    counts: bool,
}

impl Head {
    fn line(&mut self, line: &str) {
        let word_after = |name: &str| {
            let (_, rest) = line.split_once(name)?;
            rest.split_ascii_whitespace().next().map(str::to_owned)
        };
        if line.starts_with("# Collectl:") {
            self.version = word_after("Collectl:").map(|version| version.trim_start_matches('V').to_owned());
        } else if line.starts_with("# Host:") {
            // Without a name the next word is that of the next field.
            self.host = word_after("Host:").filter(|host| !host.ends_with(':'));
        } else if line.starts_with("# Date:") {
            self.offset = word_after("TZ:").and_then(|zone| offset(&zone));
        } else if line.starts_with("# SubSys:") {
            self.interval = word_after("Interval:").and_then(|text| text.split(':').next()?.parse().ok());
            let options = line.split_once("Options:").and_then(|(_, rest)| Some(rest.split_once("Interval:")?.0));
            self.counts = options.is_some_and(|options| options.contains('n'));
        } else if line.starts_with("# HZ:") {
            self.architecture = word_after("Arch:").map(|arch| arch.split('-').next().unwrap_or_default().to_owned());
            self.page = word_after("PageSize:").and_then(|bytes| PageSize::new(bytes.parse().ok()?));
        } else if line.starts_with("# Kernel:") {
            self.kernel = word_after("Kernel:");
        }
    }

    fn tell(self, series: &mut Series) {
        series.host = self.host;
        series.version = self.version;
        series.kernel = self.kernel;
        series.architecture = self.architecture;
        series.base_page = self.page;
        let first = series.samples().first().map(|first| first.at);
        if let (Some(seconds), Clock::Utc { offsets }, Some(from)) = (self.offset, &mut series.clock, first) {
            *offsets = vec![Offset { from, seconds }];
        }
    }
}

/// `+0530`.
fn offset(zone: &str) -> Option<i32> {
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let number =
        digits.parse::<i32>().ok().filter(|_| digits.len() == 4 && digits.bytes().all(|one| one.is_ascii_digit()))?;
    let seconds = number / 100 * 3600 + number % 100 * 60;
    (seconds <= 15 * 3600).then_some(sign * seconds)
}

struct Reader {
    head: Head,
    raw: proc_log::Reader<fn(&str) -> Option<Stamp>>,
    /// Whether a raw file's moment came.
    stamps: bool,
    /// The last one, as long as nothing stands behind it: one more ends the file.
    pending: Option<String>,
    /// The processors' ticks of the look before.
    ticks: Option<[u64; 10]>,
    plot: Plot,
}

impl Reader {
    fn line(&mut self, line: &str) {
        if is_plot(line) {
            self.plot.heading(line);
        } else if line.starts_with('#') {
            self.head.line(line);
        } else if line.starts_with(">>> ") {
            self.stamps = true;
            self.pending = Some(line.to_owned());
        } else if self.stamps {
            self.kernels(line);
        } else {
            self.plot.row(line, &self.head);
        }
    }

    /// A line of the kernel's files.
    fn kernels(&mut self, line: &str) {
        if let Some(moment) = self.pending.take() {
            self.raw.line(&moment);
        }
        let Some((name, rest)) = line.split_once(' ') else { return };
        let mut words = rest.split_ascii_whitespace();
        let number = words.next().and_then(|word| word.parse::<u64>().ok());
        #[allow(clippy::cast_precision_loss, reason = "tasks, far below 2^52")]
        match (name, number) {
            ("cpu", _) => self.processors(rest),
            ("procs_running", Some(number)) => self.raw.gauge(Metric::RunQueue, number as f64),
            ("procs_blocked", Some(number)) => self.raw.gauge(Metric::Blocked, number as f64),
            ("processes", Some(number)) => self.raw.count(Metric::Forks, 1.0, number),
            ("ctxt", Some(number)) => self.raw.count(Metric::ContextSwitches, 1.0, number),
            ("intr", Some(number)) => self.raw.count(Metric::Interrupts, 1.0, number),
            ("load", _) => {
                let loads = rest.split_ascii_whitespace().map_while(|word| word.parse::<f64>().ok());
                for (metric, load) in [Metric::Load1, Metric::Load5, Metric::Load15].into_iter().zip(loads) {
                    self.raw.gauge(metric, load);
                }
            }
            _ => self.raw.line(line),
        }
    }

    /// user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice; older kernels have fewer.
    fn processors(&mut self, rest: &str) {
        let mut now = [0_u64; 10];
        for (place, word) in now.iter_mut().zip(rest.split_ascii_whitespace()) {
            let Ok(ticks) = word.parse() else { return };
            *place = ticks;
        }
        let Some(before) = self.ticks.replace(now) else { return };
        let mut grown = [0_u64; 10];
        for ((grown, now), before) in grown.iter_mut().zip(now).zip(before) {
            // What falls was begun anew; waits for disks may fall a little by themselves.
            *grown = now.saturating_sub(before);
        }
        let [user, nice, system, idle, iowait, irq, softirq, steal, guest, _] = grown;
        let all = [user, nice, system, idle, iowait, irq, softirq, steal].into_iter().fold(0, u64::saturating_add);
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
            self.raw.gauge(metric, ticks as f64 * 100.0 / all as f64);
        }
    }
}

/// A file for plotting.
#[derive(Default)]
struct Plot {
    series: Series,
    separator: Option<char>,
    /// Whether a row begins with seconds since 1970, and not with a day and a time.
    epoch: bool,
    columns: Vec<String>,
    misread: u64,
}

impl Plot {
    fn heading(&mut self, line: &str) {
        self.epoch = line.starts_with("#UTC");
        let name = if self.epoch { "#UTC" } else { "#Date" };
        self.separator = line.get(name.len()..).and_then(|rest| rest.chars().next());
        let Some(separator) = self.separator else { return };
        self.columns = line.split(separator).take(MOST_COLUMNS).map(str::to_owned).collect();
    }

    fn row(&mut self, line: &str, head: &Head) {
        let Some(separator) = self.separator.filter(|_| !line.trim().is_empty()) else { return };
        let words: Vec<&str> = line.split(separator).take(MOST_COLUMNS).collect();
        let at = if words.len() == self.columns.len() { self.moment(&words, head) } else { None };
        // A line that ends too early cannot be told apart.
        let Some(at) = at else {
            self.misread += 1;
            return;
        };
        self.series.counted_in = Some(PageSize::KIB_4);
        let earlier =
            self.series.samples().last().and_then(|last| at.since(last.at)).filter(|passed| !passed.is_zero());
        let asked = head.interval.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        self.series.push(at, earlier.or(asked.filter(|passed| !passed.is_zero())));
        let mut system = None;
        for (name, word) in self.columns.iter().zip(words) {
            let Some(value) = word.parse::<f64>().ok().filter(|value| value.is_finite()) else { continue };
            if SYSTEM.contains(&name.as_str()) {
                system = Some(system.unwrap_or(0.0) + value);
            }
            let known = COLUMNS.iter().find(|(of, ..)| of == name);
            if let Some((_, metric, factor, rate)) = known
                && !(*rate && head.counts && !name.ends_with('%'))
            {
                self.series.set(*metric, value * factor);
            }
        }
        if let Some(system) = system {
            self.series.set(Metric::CpuSystem, system);
        }
    }

    /// `20261125 17:06:12.007`, or seconds since 1970.
    fn moment(&mut self, words: &[&str], head: &Head) -> Option<Moment> {
        if self.epoch {
            let stamp = Stamp::parse(words.first()?)?;
            return Some(stamp.by(&mut self.series));
        }
        let (day, time) = (*words.first()?, *words.get(1)?);
        let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
        if day.len() != 8 || !digits(day) {
            return None;
        }
        let day: i64 = day.parse().ok()?;
        let midnight = midnight(day / 10_000, day / 100 % 100, day % 100)?;
        let (clock, part) = time.split_once('.').unwrap_or((time, ""));
        let thousandths: String = part.chars().take_while(char::is_ascii_digit).chain("000".chars()).take(3).collect();
        let seconds = midnight + time_of_day(clock)? - i64::from(head.offset.unwrap_or(0));
        if self.series.samples().is_empty() {
            self.series.clock = match head.offset {
                Some(_) => Clock::Utc { offsets: Vec::new() },
                None => Clock::Wall { zone: None },
            };
        }
        Some(Moment(Moment::from_seconds(seconds).0.saturating_add(thousandths.parse().unwrap_or(0))))
    }

    fn finished(mut self, head: &Head) -> Series {
        if self.misread > 0 {
            let lines = self.misread;
            self.series.problem(format!("{lines} lines do not fit the headings and are left out"));
        }
        if head.counts {
            self.series.problem("was written with -on: its counts of an interval are left out");
        }
        self.series
    }
}
