//! What dstat and its successor dool write with `--output`: a heading in quotes, then a row a sample.
//! A run that is appended to a file repeats the heading. Memory is in bytes, whatever the screen
//! shows.
//!
//! Names, units and sums: dstat 0.7.2 to 0.8.0, dool 1.3.8. PCP's dstat counts in other units.

use std::io::Read;
use std::time::Duration;

use hugewise_model::PageSize;
use hugewise_model::calendar::month_number;

use super::archive_format::{ArchiveFormat, Promise};
use super::line_timestamp::LineTimestamp;
use super::lines::{self, TableColumn, set_column_value, split_csv_line};
use crate::series::Moment;
use crate::{FileRefused, Metric, Series, SourceFormat};

/// A row of all processors and disks is longer than most lines.
const LONGEST_LINE: u64 = 1 << 20;
/// Columns of a row; a host with a thousand processors and disks has fewer.
const MOST_COLUMNS: usize = 65_536;
/// Bytes of a group's title and a column's name.
const LONGEST_NAME: usize = 64;
/// A time of day without a year that lies so far back, in milliseconds, is of the next year.
const HALF_A_YEAR: i64 = 183 * 86_400 * 1000;
/// Tasks that run and wait are added up over the seconds of a longer interval.
const ONE_SECOND: Duration = Duration::from_millis(1500);

const COLUMNS: &[TableColumn] = &[
    ("total cpu usage:usr", Metric::CpuUser, 1.0, true),
    ("total cpu usage:idl", Metric::CpuIdle, 1.0, true),
    ("total cpu usage:wai", Metric::CpuIowait, 1.0, true),
    ("total cpu usage:hiq", Metric::CpuIrq, 1.0, true),
    ("total cpu usage:siq", Metric::CpuSoftirq, 1.0, true),
    ("total cpu usage:stl", Metric::CpuSteal, 1.0, true),
    ("memory usage:free", Metric::MemFree, 1.0, false),
    ("memory usage:buff", Metric::Buffers, 1.0, false),
    ("memory usage:cach", Metric::Cached, 1.0, false),
    ("memory usage:avai", Metric::MemAvailable, 1.0, false),
    ("advanced memory usage:total", Metric::MemTotal, 1.0, false),
    ("advanced memory usage:dirty", Metric::Dirty, 1.0, false),
    ("advanced memory usage:shmem", Metric::Shmem, 1.0, false),
    ("advanced memory usage:recl", Metric::SlabReclaimable, 1.0, false),
    ("swap:used", Metric::SwapUsed, 1.0, false),
    ("swap:free", Metric::SwapFree, 1.0, false),
    // Bytes: pages of the kernel's counter times their size.
    ("paging:in", Metric::SwapIn, 1.0 / 4096.0, true),
    ("paging:out", Metric::SwapOut, 1.0 / 4096.0, true),
    ("dsk/total:read", Metric::PagedIn, 1.0, true),
    ("dsk/total:writ", Metric::PagedOut, 1.0, true),
    ("system:int", Metric::Interrupts, 1.0, true),
    ("system:csw", Metric::ContextSwitches, 1.0, true),
    ("procs:new", Metric::Forks, 1.0, true),
    ("load avg:1m", Metric::Load1, 1.0, false),
    ("load avg:5m", Metric::Load5, 1.0, false),
    ("load avg:15m", Metric::Load15, 1.0, false),
    ("virtual memory:majpf", Metric::MajorFaults, 1.0, true),
    // pgfault, which has the major ones in it.
    ("virtual memory:minpf", Metric::Faults, 1.0, true),
    ("virtual memory:free", Metric::Freed, 1.0, true),
    // Scans and stalls (--vm-adv) are left out: since Linux 4.8 their counters have other names
    // than dstat looks for, and it writes 0.
];
/// Versions whose four columns of memory add up to all of it.
const PARTS_OF_ALL: [&str; 3] = ["0.7.0", "0.7.1", "0.7.2"];
const TASKS: &[TableColumn] =
    &[("procs:run", Metric::RunQueue, 1.0, true), ("procs:blk", Metric::Blocked, 1.0, true)];
/// Columns whose sum is the kernel's time; without hiq and siq, usr has the time in interrupts.
const SYSTEM: [&str; 3] = ["total cpu usage:sys", "total cpu usage:hiq", "total cpu usage:siq"];

/// What dstat and dool write.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "dstat",
    called: "a dstat file",
    tools: &["dstat"],
    is_text: true,
    recognize: |text| Promise::sure_if(is_dstat_file(text)),
    read: |file| file.read_single(read),
};

/// A file that was there before dstat began has no line with its version.
fn is_dstat_file(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let Some(first) = lines.next() else { return false };
    is_version_line(first)
        || first.starts_with("\"Host:\",")
            && lines.next().is_some_and(|line| {
                line.starts_with("\"Cmdline:\",\"dstat ")
                    || line.starts_with("\"Cmdline:\",\"dool ")
            })
}

fn is_version_line(line: &str) -> bool {
    let is_tool = line.starts_with("\"Dstat ") || line.starts_with("\"dool ");
    is_tool && line.ends_with(" CSV output\"")
}

/// Reads such a file.
///
/// # Errors
/// Its rows have no times, it has none, or it cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, FileRefused> {
    let mut reader = DstatReader {
        series: Series::new(source, SourceFormat::Collector("dstat")),
        ..DstatReader::default()
    };
    let end = lines::for_each_line(stream, LONGEST_LINE, |line| reader.push_line(line));
    if reader.series.samples().is_empty() {
        return Err(FileRefused(end.describe_problem().unwrap_or_else(|| {
            "is of dstat, without rows that have a time: dstat -t --output FILE writes it".into()
        })));
    }
    if reader.misread > 0 {
        let lines = reader.misread;
        let problem = format!("{lines} lines do not fit the headings and are left out");
        reader.series.add_problem(problem);
    }
    end.note_problem(&mut reader.series);
    Ok(reader.series.finish())
}

#[derive(Default)]
struct DstatReader {
    series: Series,
    /// The titles of groups, each on its first column, until the line of names follows.
    titles: Option<Vec<String>>,
    /// `memory usage:free`, by place in a row.
    columns: Vec<String>,
    /// The year and the zone of the heading's date.
    year: Option<i64>,
    zone: String,
    /// Whether the next row is the first of a run: what it counts is since the boot.
    is_first: bool,
    misread: u64,
}

impl DstatReader {
    fn push_line(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        if !line.starts_with('"') {
            return self.push_row(line);
        }
        let fields = split_csv_line(line, MOST_COLUMNS);
        match fields.first().map(String::as_str) {
            Some("Author:") => {}
            Some("Host:") => {
                self.columns.clear();
                self.titles = None;
                self.series.host = fields.get(1).filter(|host| !host.is_empty()).cloned();
            }
            Some("Cmdline:") => self.read_date(&fields),
            Some(first) if is_version_line(line) => {
                self.series.version = first.split_ascii_whitespace().nth(1).map(str::to_owned);
            }
            _ => self.push_headings(fields),
        }
    }

    /// `28 Nov 2026 01:12:11 UTC`, when the run began, in the language of whoever started it.
    fn read_date(&mut self, fields: &[String]) {
        let place = fields.iter().position(|field| field == "Date:");
        let Some(date) = place.and_then(|place| fields.get(place + 1)) else { return };
        let words: Vec<&str> = date.split_ascii_whitespace().collect();
        let is_year = |word: &&&str| word.len() == 4 && word.parse::<i64>().is_ok();
        self.year = words.iter().find(is_year).and_then(|word| word.parse().ok());
        self.zone = words.get(4).map(|zone| (*zone).to_owned()).unwrap_or_default();
    }

    fn push_headings(&mut self, fields: Vec<String>) {
        let Some(titles) = self.titles.take() else {
            self.titles = Some(fields);
            self.columns.clear();
            return;
        };
        let mut title = "";
        for (place, name) in fields.iter().enumerate() {
            title = titles
                .get(place)
                .map(String::as_str)
                .filter(|own| !own.is_empty())
                .unwrap_or(title);
            // None that is read has a longer name, and a title may be one for many columns.
            let is_known = title.len() + name.len() < LONGEST_NAME;
            self.columns.push(if is_known { format!("{title}:{name}") } else { String::new() });
        }
        self.is_first = true;
    }

    fn push_row(&mut self, line: &str) {
        let words = split_csv_line(line, MOST_COLUMNS);
        // A row that is cut short cannot be assigned to columns.
        let at = if words.len() == self.columns.len() { self.parse_moment(&words) } else { None };
        let Some(at) = at else {
            self.misread += 1;
            return;
        };
        let before = self.series.samples().last().and_then(|last| at.duration_since(last.at));
        let interval = before.filter(|passed| !passed.is_zero() && !self.is_first);
        self.is_first = false;
        self.series.counted_in = Some(PageSize::KIB_4);
        self.series.push(at, interval);
        let (mut system, mut memory) = (None, 0.0);
        for (name, word) in self.columns.iter().zip(&words) {
            let Some(value) = word.parse::<f64>().ok().filter(|value| value.is_finite()) else {
                continue;
            };
            if SYSTEM.contains(&name.as_str()) {
                system = Some(system.unwrap_or(0.0) + value);
            }
            set_column_value(&mut self.series, COLUMNS, name, value, interval.is_some());
            if name.starts_with("memory usage:") {
                memory += value;
            }
            let is_second = interval.is_some_and(|interval| interval < ONE_SECOND);
            set_column_value(&mut self.series, TASKS, name, value, is_second);
        }
        if let Some(system) = system.filter(|_| interval.is_some()) {
            self.series.set_value(Metric::CpuSystem, system);
        }
        // Later ones count what is used without slabs that can be freed, and shared memory twice.
        let version = self.series.version.as_deref();
        if memory > 0.0 && version.is_some_and(|version| PARTS_OF_ALL.contains(&version)) {
            self.series.set_value(Metric::MemTotal, memory);
        }
    }

    /// Seconds since 1970 (`-T`) or, without them, a time of the host's clock (`-t`).
    fn parse_moment(&mut self, words: &[String]) -> Option<Moment> {
        let value_of = |column: &str| {
            let place = self.columns.iter().position(|name| name == column)?;
            words.get(place)
        };
        if let Some(seconds) = value_of("epoch:epoch") {
            return Some(LineTimestamp::parse(seconds)?.moment_on_clock(&mut self.series));
        }
        let time = value_of("system:time")?;
        // Any other form is of DSTAT_TIMEFMT.
        let Some((month, day, clock)) = split_day_without_year(time) else {
            return Some(LineTimestamp::parse(time)?.moment_on_clock(&mut self.series));
        };
        let last = self.series.samples().last().map(|last| last.at.0);
        let mut stamp_in = |year: i64| {
            let text = format!("{year}-{month:02}-{day:02} {clock} {}", self.zone);
            Some(LineTimestamp::parse_plain(&text)?.moment_on_clock(&mut self.series))
        };
        let year = self.year?;
        let at = stamp_in(year)?;
        if last.is_none_or(|last| at.0 > last.saturating_sub(HALF_A_YEAR)) {
            return Some(at);
        }
        let next_year = stamp_in(year + 1)?;
        self.year = Some(year + 1);
        Some(next_year)
    }
}

/// `28-11 01:12:11` of dstat and `Nov-28 01:12:42` of dool: month, day and time.
fn split_day_without_year(text: &str) -> Option<(i64, i64, &str)> {
    let (date, clock) = text.split_once(' ')?;
    let (first, second) = date.split_once('-')?;
    let second_number: i64 = second.parse().ok()?;
    match first.parse::<i64>() {
        Ok(day) => Some((second_number, day, clock)),
        Err(_) => Some((month_number(first)?, second_number, clock)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    fn read_text(text: &str) -> Series {
        assert!(is_dstat_file(text.as_bytes()));
        read(&mut text.as_bytes(), "dstat.csv").unwrap()
    }

    /// dstat 0.7.2 writes an empty line behind the date, and memory in four parts.
    const OF_0_7_2: &str = "\"Dstat 0.7.2 CSV output\"\n\
        \"Author:\",\"Dag Wieers <dag@wieers.com>\",,,,\"URL:\",\"http://dag.wieers.com/\"\n\
        \"Host:\",\"db7\",,,,\"User:\",\"root\"\n\
        \"Cmdline:\",\"dstat -tcmgp -o x,y.csv 1\",,,,\"Date:\",\"31 Dec 2026 23:59:58 CET\"\n\n\
        \"system\",\"total cpu usage\",,,,,,\"memory usage\",,,,\"paging\",,\"procs\",,\n\
        \"time\",\"usr\",\"sys\",\"idl\",\"wai\",\"hiq\",\"siq\",\"used\",\"buff\",\"cach\",\
        \"free\",\"in\",\"out\",\"run\",\"blk\",\"new\"\n\
        31-12 23:59:58,9.0,9.0,82.0,0.0,0.0,0.0,1000.0,20.0,300.0,4.0,7.0,7.0,9,9,9\n\
        31-12 23:59:59,1.5,2.0,90.0,4.0,0.5,2.0,1000.0,20.0,300.0,5.0,40960.0,0.0,3,1,2\n\
        01-01 00:00:04,1.0,50.0,49.0,0.0,0.0,0.0,1000.0,20.0,300.0,6.0,0.0,8192.0,30,1,2\n";

    #[test]
    fn each_value_has_its_unit() {
        let series = read_text(OF_0_7_2);
        assert_eq!((series.host.as_deref(), series.samples().len()), (Some("db7"), 3));
        assert_eq!(series.problems, []);
        // Interrupts are the kernel's time.
        assert_eq!(series.value(Metric::CpuSystem, 1), Some(4.5));
        assert_eq!(series.value(Metric::MemTotal, 1), Some(1325.0));
        assert_eq!(series.value(Metric::MemFree, 0), Some(4.0));
        // 40,960 bytes are ten pages of 4 KiB.
        assert_eq!(series.value(Metric::SwapIn, 1), Some(10.0));
        assert_eq!(series.value(Metric::SwapOut, 2), Some(2.0));
        // The first row counts since the boot; over 5 seconds tasks may be added up.
        for metric in [Metric::CpuSystem, Metric::SwapIn, Metric::RunQueue, Metric::Forks] {
            assert_eq!(series.value(metric, 0), None, "{metric:?}");
        }
        assert_eq!(series.value(Metric::RunQueue, 1), Some(3.0));
        assert_eq!(series.value(Metric::RunQueue, 2), None);
    }

    #[test]
    fn a_year_ends_between_two_rows() {
        let series = read_text(OF_0_7_2);
        let times: Vec<String> =
            series.samples().iter().map(|sample| series.clock.format(sample.at)).collect();
        // CET is a zone of several countries: the host's wall clock is all that is known.
        assert_eq!(series.clock, Clock::Wall { zone: Some("CET".into()) });
        assert_eq!(times[1], "2026-12-31T23:59:59");
        assert_eq!(times[2], "2027-01-01T00:00:04");
    }

    /// A file that is there is appended to: without the first two lines, behind two empty ones.
    #[test]
    fn a_run_that_is_appended_begins_anew() {
        let (_, run) = OF_0_7_2.split_once("URL:\",\"http://dag.wieers.com/\"\n").unwrap();
        assert!(is_dstat_file(run.as_bytes()));
        let next = run.replace("31 Dec 2026", "02 Jan 2027").replace("31-12", "02-01");
        let series = read_text(&format!("{OF_0_7_2}\n\n{}", next.replace("01-01", "03-01")));
        assert_eq!(series.samples().len(), 6);
        assert_eq!(series.samples()[3].interval, None);
        assert_eq!(series.value(Metric::CpuSystem, 3), None);
        assert_eq!(series.value(Metric::CpuSystem, 4), Some(4.5));
        assert_eq!(series.clock.format(series.samples()[5].at), "2027-01-03T00:00:04");
    }

    #[test]
    fn rows_that_are_cut_or_have_no_time_are_told() {
        let cut = OF_0_7_2.replace(",9,9,9\n", "\n");
        let series = read_text(&cut);
        assert_eq!(series.samples().len(), 2);
        assert!(series.problems[0].what.starts_with("1 lines do not fit"));
        let untimed = OF_0_7_2.replace("\"time\"", "\"int\"");
        let refused = read(&mut untimed.as_bytes(), "x").unwrap_err().0;
        assert!(refused.contains("dstat -t"), "{refused}");
        assert!(!is_dstat_file(b"\"Dstat of a friend\",\"x\"\n"));
        let wall = OF_0_7_2.replace(" CET", "");
        assert_eq!(read_text(&wall).clock, Clock::Wall { zone: None });
    }
}
