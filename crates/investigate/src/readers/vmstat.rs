//! What `vmstat -t` prints, of one run or of several.
//!
//! Memory is taken for KiB: `-S` leaves no mark. The first line of a run has rates since the boot,
//! which are left out. `cache` holds reclaimable slab beside the page cache and is no column of a
//! series.

use std::io::Read;

use super::archive_format::{ArchiveFormat, Promise};
use super::lines::{LONGEST_LINE, TableColumn, for_each_line_or_rest, set_column_value};
use hugewise_model::PageSize;
use hugewise_model::calendar;

use crate::series::{Moment, Offset};
use crate::{Clock, FileRefused, Metric, Series};

/// Lines of a shell or a script before the first heading.
const MOST_LINES_BEFORE: u32 = 20;

const COLUMNS: &[TableColumn] = &[
    ("r", Metric::RunQueue, 1.0, false),
    ("b", Metric::Blocked, 1.0, false),
    ("swpd", Metric::SwapUsed, 1024.0, false),
    ("free", Metric::MemFree, 1024.0, false),
    ("buff", Metric::Buffers, 1024.0, false),
    ("inact", Metric::Inactive, 1024.0, false),
    ("active", Metric::Active, 1024.0, false),
    // KiB, converted to pages of 4 KiB, whatever the host has.
    ("si", Metric::SwapIn, 0.25, true),
    ("so", Metric::SwapOut, 0.25, true),
    ("bi", Metric::PagedIn, 1024.0, true),
    ("bo", Metric::PagedOut, 1024.0, true),
    ("in", Metric::Interrupts, 1.0, true),
    ("cs", Metric::ContextSwitches, 1.0, true),
    ("us", Metric::CpuUser, 1.0, true),
    ("sy", Metric::CpuSystem, 1.0, true),
    ("id", Metric::CpuIdle, 1.0, true),
    ("wa", Metric::CpuIowait, 1.0, true),
    ("st", Metric::CpuSteal, 1.0, true),
    ("gu", Metric::CpuGuest, 1.0, true),
];

/// What `vmstat -t` prints.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "vmstat",
    called: "vmstat's output",
    tools: &["vmstat"],
    is_text: true,
    recognize: |text| Promise::sure_if(is_vmstat_text(text)),
    read: |file| file.read_single(read),
};

/// Whether a text begins as vmstat does, or with timed headings after a script's lines.
fn is_vmstat_text(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    match words.next() {
        Some(b"procs" | b"--procs--") => words.next().is_some_and(|word| word.starts_with(b"---")),
        Some(b"r") => words.next() == Some(b"b") && words.next() == Some(b"swpd"),
        _ => {
            let lines = text
                .split(|byte| *byte == b'\n')
                .take(usize::try_from(MOST_LINES_BEFORE).unwrap_or(0));
            lines.map(String::from_utf8_lossy).any(|line| is_timed(&line))
        }
    }
}

pub(super) fn is_column(word: &str) -> bool {
    word == "cache" || COLUMNS.iter().any(|(name, ..)| *name == word)
}

/// Whether a line is Linux vmstat's headings, all or some of them, perhaps with a time zone behind.
pub(super) fn is_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let known = words.iter().take_while(|word| is_column(word)).count();
    let zone = |word: &&str| !word.bytes().all(|letter| letter.is_ascii_lowercase());
    known >= 4
        && words.first() == Some(&"r")
        && words.len() <= known + 1
        && words.get(known).is_none_or(zone)
}

/// Whether a line is the headings of `vmstat -t`, which end in the time zone.
pub(super) fn is_timed(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let zone = |word: &&&str| !word.bytes().all(|letter| letter.is_ascii_lowercase());
    matches!(words.as_slice(), ["r", "b", "swpd", ..])
        && words.last().is_some_and(|last| zone(&last))
}

/// Reads what vmstat printed.
///
/// # Errors
/// It does not begin as vmstat does, its lines have no times, or it cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, FileRefused> {
    let mut reader = VmstatReader {
        series: Series::new(source, crate::SourceFormat::Loop(crate::CollectedTool::Vmstat)),
        ..VmstatReader::default()
    };
    let mut before = 0;
    let error = for_each_line_or_rest(stream, LONGEST_LINE, |line| {
        reader.parse_line(line);
        before += u32::from(reader.columns.is_empty());
        before <= MOST_LINES_BEFORE
    });
    if let Some(error) = error {
        if reader.series.samples().is_empty() {
            return Err(FileRefused(error));
        }
        reader.series.add_problem(format!("cannot be read to its end: {error}"));
    }
    if reader.columns.is_empty() {
        return Err(FileRefused("does not begin like vmstat's output".into()));
    }
    if reader.series.samples().is_empty() && reader.without_time > 0 {
        return Err(FileRefused(
            "has no times: run vmstat with -t, or give --interval 3s and --from".into(),
        ));
    }
    if reader.without_time > 0 {
        let lines = reader.without_time;
        reader
            .series
            .add_problem(format!("{lines} lines have no time or are cut short, and are left out"));
    }
    if !reader.moves && reader.behind.1 >= STANDS_STILL {
        for metric in
            [Metric::SwapUsed, Metric::MemFree, Metric::Buffers, Metric::Inactive, Metric::Active]
        {
            reader.series.distrust_metric(
                metric,
                "this vmstat repeats its first reading, as the one in procps 4.0.2 does",
            );
        }
    }
    Ok(reader.series.finish())
}

/// Lines of a run with the same memory to the KiB, which no host has: procps 4.0.2, as in Debian 12,
/// reads /proc/meminfo once and prints that until it ends (seen: free unchanged while MemFree moved
/// by 800 MiB).
const STANDS_STILL: u64 = 10;

/// Sets the row begun last, with its rates if they are of an interval.
pub(super) fn set_sample_values(
    series: &mut Series,
    columns: &[String],
    values: &[f64],
    rates: bool,
) {
    series.counted_in = Some(PageSize::KIB_4);
    let guests = columns
        .iter()
        .zip(values)
        .find(|(column, _)| *column == "gu")
        .map_or(0.0, |(_, value)| *value);
    for (column, value) in columns.iter().zip(values) {
        // procps 4 has a column for guests' time, which a series counts as the user's.
        let guests = if column == "us" { guests } else { 0.0 };
        set_column_value(series, COLUMNS, column, value + guests, rates);
    }
}

#[derive(Default)]
struct VmstatReader {
    series: Series,
    /// The headings, without those of the time.
    columns: Vec<String>,
    first: bool,
    /// Interrupts and context switches a second of the last line since the boot.
    since_boot: Option<(f64, f64)>,
    /// Milliseconds between the last two lines.
    usual: Option<i64>,
    without_time: u64,
    memory: Vec<f64>,
    /// Lines behind the first one, of this run and of the longest.
    behind: (u64, u64),
    /// Whether memory has changed within a run.
    moves: bool,
}

impl VmstatReader {
    fn parse_line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words.as_slice() {
            ["r", ..] if is_heading(line) => self.read_headings(&words),
            [first, ..]
                if first.bytes().all(|digit| digit.is_ascii_digit())
                    && !self.columns.is_empty()
                    && self.push_sample(&words).is_none() =>
            {
                self.without_time += 1;
            }
            _ => {}
        }
    }

    fn read_headings(&mut self, words: &[&str]) {
        let (mut columns, mut zone) = (Vec::new(), None);
        for word in words {
            if word.bytes().all(|letter| letter.is_ascii_lowercase()) {
                columns.push((*word).to_owned());
            } else {
                zone = Some(*word);
            }
        }
        self.columns = columns;
        self.first = true;
        if let Some(zone) = zone {
            self.set_zone(zone);
        }
    }

    fn set_zone(&mut self, zone: &str) {
        self.series.clock = if matches!(zone, "UTC" | "GMT") {
            Clock::Utc { offsets: vec![Offset { from: Moment(0), seconds: 0 }] }
        } else {
            Clock::Wall { zone: Some(zone.to_owned()) }
        };
    }

    fn push_sample(&mut self, words: &[&str]) -> Option<()> {
        let (values, time) = words.split_at_checked(self.columns.len())?;
        let (date, time_of_day) = (time.first()?, time.get(1)?);
        let at = calendar::iso_date(date)?.checked_add(calendar::time_of_day(time_of_day)?)?;
        let values: Vec<f64> =
            values.iter().map(|value| value.parse().ok()).collect::<Option<_>>()?;
        // Older versions print the zone in every line.
        if let Some(zone) = time.get(2) {
            self.set_zone(zone);
        }
        let at = Moment::from_seconds(at);
        let last = self.series.samples().last().map(|last| last.at);
        let passed = last.map(|last| at.0 - last.0);
        let get = |name: &str| {
            self.columns
                .iter()
                .zip(&values)
                .find(|(column, _)| *column == name)
                .map(|(_, value)| *value)
        };
        let rates = get("in").zip(get("cs")).unwrap_or_default();
        let since_boot = self.first && self.starts_run(passed, rates);
        self.first = false;
        if since_boot {
            self.since_boot = Some(rates);
        } else {
            self.usual = passed;
        }
        let interval = last
            .and_then(|last| at.duration_since(last))
            .filter(|interval| !since_boot && !interval.is_zero());
        let memory: Vec<f64> = ["free", "buff", "cache"].into_iter().filter_map(get).collect();
        if since_boot {
            self.behind.0 = 0;
        } else {
            self.behind.0 += 1;
            self.behind.1 = self.behind.1.max(self.behind.0);
            self.moves |= memory != self.memory;
        }
        self.memory = memory;
        self.series.push(at, interval);
        set_sample_values(&mut self.series, &self.columns, &values, !since_boot);
        Some(())
    }

    /// Whether the first line behind headings begins a run. Headings are repeated every screen of
    /// lines: that line comes in time, and is unlike the line since the boot.
    fn starts_run(&self, passed: Option<i64>, (interrupts, switches): (f64, f64)) -> bool {
        let (Some(passed), Some((before, switched))) = (passed, self.since_boot) else {
            return true;
        };
        let near = |one: f64, other: f64| (one - other).abs() <= 0.05 * other.max(20.0);
        let in_time = self.usual.is_none_or(|usual| (passed - usual).abs() <= 1000.max(usual / 5));
        !in_time || (near(interrupts, before) && near(switches, switched))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn parse_series(text: &str) -> Result<Series, FileRefused> {
        read(&mut text.as_bytes(), "vmstat.log")
    }

    const HEAD: &str = "procs -----------memory---------- ---swap-- -----io---- -system-- \
         ------cpu----- -----timestamp-----\n \
                        r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id \
         wa st                 CST\n";

    #[test]
    fn memory_that_stands_still_is_not_believed() {
        let lines = |free: &dyn Fn(u32) -> u32, count: u32| {
            let line = |at| {
                format!(
                    "1 0 0 {} 90980 6546024 0 0 0 0 431 1071 51 15 33 1 0 2026-11-22 \
                         00:00:{at:02}\n",
                    free(at)
                )
            };
            parse_series(&(HEAD.to_owned() + &(0..count).map(line).collect::<String>())).unwrap()
        };
        let still = lines(&|_| 129_824, 12);
        assert_eq!((0..12).find_map(|row| still.value(Metric::MemFree, row)), None);
        assert_eq!(still.value(Metric::CpuSystem, 5), Some(15.0), "the rest is measured anew");
        // One that has moved once is read anew each time; of a short run nobody can tell.
        let moved = lines(&|at| if at < 11 { 129_824 } else { 129_820 }, 12);
        assert_eq!(moved.value(Metric::MemFree, 3), Some(129_824.0 * 1024.0));
        assert!(lines(&|_| 129_824, 10).value(Metric::MemFree, 3).is_some());
    }

    #[test]
    fn a_line_is_a_sample_and_the_first_has_no_rates() {
        let text = format!(
            "{HEAD}11  0  100 4458100  90980 6546024   0  95 1886 6492  431 1071 51 15 33  1  0 \
                 2026-11-21 23:59:59\n \
             3  2  200   78000  90980 6546024   8  95 1886 6492 1431 2071 11 69 19  1  0 \
                 2026-11-22 00:00:09\n"
        );
        let series = parse_series(&text).unwrap();
        assert_eq!(series.clock, Clock::Wall { zone: Some("CST".into()) });
        // `date -u -d '2026-11-21 23:59:59' +%s`
        assert_eq!(series.samples()[0].at, Moment::from_seconds(1_795_305_599));
        assert_eq!(series.samples()[1].interval.unwrap().as_secs(), 10);
        let values_of = |metric| [0, 1].map(|row| series.value(metric, row));
        assert_eq!(
            values_of(Metric::MemFree),
            [Some(4_458_100.0 * 1024.0), Some(78_000.0 * 1024.0)]
        );
        assert_eq!(values_of(Metric::SwapUsed), [Some(102_400.0), Some(204_800.0)]);
        assert_eq!(values_of(Metric::CpuSystem), [None, Some(69.0)]);
        assert_eq!(values_of(Metric::SwapIn), [None, Some(2.0)]);
        assert_eq!(values_of(Metric::PagedOut), [None, Some(6_647_808.0)]);
        assert_eq!(values_of(Metric::RunQueue), [Some(11.0), Some(3.0)]);
        assert_eq!(values_of(Metric::Cached), [None, None]);
        assert_eq!(series.problems, []);
    }

    /// Lines of `vmstat -t 1` with headings before each of these numbers of lines.
    fn run(starts: &[u32], lines: u32) -> String {
        let mut text = String::new();
        for second in 0..lines {
            if starts.contains(&second) {
                text.push_str(HEAD);
            }
            let (interrupts, us) = if second == 0 || second == 40 { (431, 51) } else { (1431, 7) };
            let (minute, second) = (second / 60, second % 60);
            let rest = "0  0  0 1000 10 10 0 0 0 0";
            text.push_str(&format!(
                "{rest} {interrupts} 1071 {us} 1 1 1 0 2026-11-21 10:{minute:02}:{second:02}\n"
            ));
        }
        text
    }

    #[test]
    fn what_a_script_wrote_before_does_not_hide_it() {
        let log = format!("Sat Nov 21 10:00:00 UTC 2026\nvmstat of db1\n{}", run(&[0], 3));
        assert!(is_vmstat_text(log.as_bytes()));
        assert_eq!(parse_series(&log).unwrap().samples().len(), 3);
        assert!(!is_vmstat_text(b"Sat Nov 21 10:00:00 UTC 2026\n r  b   swpd   free\n"));
    }

    #[test]
    fn headings_that_come_again_are_not_another_run() {
        let series = parse_series(&run(&[0, 22, 40], 80)).unwrap();
        let without: Vec<usize> =
            (0..80).filter(|row| series.value(Metric::CpuUser, *row).is_none()).collect();
        // The line at 40 is of a second run: it looks as the first did.
        assert_eq!(without, [0, 40]);
    }

    #[test]
    fn what_procps_of_this_machine_prints_is_read() {
        for arguments in
            [&["-t", "1", "2"][..], &["-t", "-w", "1", "2"], &["-t", "-a", "-n", "1", "2"]]
        {
            let output = Command::new("vmstat").args(arguments).env("TZ", "UTC").output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(is_vmstat_text(text.as_bytes()));
            let series = parse_series(&text).unwrap();
            assert_eq!((series.samples().len(), series.problems.len()), (2, 0), "{text}");
            assert!(matches!(series.clock, Clock::Utc { .. }));
            let free = text.lines().last().unwrap().split_ascii_whitespace().nth(3).unwrap();
            assert_eq!(
                series.value(Metric::MemFree, 1),
                Some(free.parse::<f64>().unwrap() * 1024.0)
            );
            let cpu = [
                Metric::CpuUser,
                Metric::CpuSystem,
                Metric::CpuIdle,
                Metric::CpuIowait,
                Metric::CpuSteal,
            ];
            let sum: f64 = cpu.iter().map(|metric| series.value(*metric, 1).unwrap()).sum();
            assert!((sum - 100.0).abs() <= 2.0, "{text}");
        }
    }

    #[test]
    fn lines_without_a_time_are_refused_or_told() {
        let plain = "procs --\n r  b   swpd   free\n 1  0  0  10\n";
        assert!(parse_series(plain).unwrap_err().0.contains("-t"));
        let torn = format!("{}1  0  0 10", run(&[0], 3));
        let series_of_torn = parse_series(&torn).unwrap();
        assert_eq!(series_of_torn.samples().len(), 3);
        assert!(series_of_torn.problems[0].what.contains("1 lines"));
        assert!(parse_series("hello\n").is_err());
    }
}
