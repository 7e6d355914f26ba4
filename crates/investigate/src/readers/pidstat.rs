//! What `pidstat` prints, interval by interval: the processor time of each program, and of the
//! kernel's threads that reclaim and compact. Tasks that took none are not listed; nor are those
//! that the command line did not ask for (`-p`, `-C`, `-U`).

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use hugewise_model::calendar::DAY;

use super::archive_format::{ArchiveFormat, Promise};
use super::iostat::IostatBanner;
use super::lines::{self, LONGEST_LINE};
use super::sysstat::text::{Day, parse_time_of_day};
use super::top;
use crate::series::{Moment, Use};
use crate::{Clock, FileRefused, Series, SourceFormat};

/// Lines in which the headings of its first table stand.
const HEADINGS: usize = 8;
/// Hosts of one file that are told apart.
const MOST_HOSTS: usize = 256;
/// Programs of one interval that are kept, those that took most.
const MOST_PROGRAMS: usize = 8;

/// pidstat's tables.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "pidstat",
    called: "a pidstat file",
    tools: &["pidstat"],
    is_text: true,
    recognize: |text| Promise::likely_if(is_pidstat(text)),
    read: |file| read(file.stream, file.source),
};

/// Whether the first table behind sysstat's first line is one of processes: sar may print such
/// tables behind its own.
fn is_pidstat(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let banner = lines.next().is_some_and(|line| IostatBanner::parse(line).is_some());
    let first = lines.take(HEADINGS).find(|line| line.contains('%') || line.contains("/s"));
    banner && first.is_some_and(|line| ProcessColumns::from_heading(line).is_some())
}

/// Whether a line is the headings of a table of pidstat's, whose first line may be missing.
pub(super) fn is_heading(line: &str) -> bool {
    let first = line.split_whitespace().next();
    first.is_some_and(|first| first.starts_with(|one: char| one.is_ascii_digit() || one == '#'))
        && ProcessColumns::from_heading(line).is_some()
}

/// Reads what pidstat printed; one series for each host whose output follows another's.
///
/// # Errors
/// It does not begin as pidstat does, has no table of processor time, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Vec<Series>, FileRefused> {
    let begin = || PidstatReader {
        series: Series::new(source, SourceFormat::Collector("pidstat")),
        ..PidstatReader::default()
    };
    let mut reader = begin();
    let mut all = Vec::new();
    let end = lines::for_each_line(stream, LONGEST_LINE, |line| {
        let banner = IostatBanner::parse(line);
        if all.len() < MOST_HOSTS
            && let (Some(banner), Some(host)) = (&banner, &reader.series.host)
            && banner.host != *host
        {
            all.push(std::mem::replace(&mut reader, begin()).into_series());
        }
        match banner {
            Some(banner) => reader.begin_run(banner),
            None => reader.push_line(line),
        }
    });
    let mut last = reader.into_series();
    end.note_problem(&mut last);
    all.push(last);
    all.retain(|series| !series.samples().is_empty());
    if all.is_empty() {
        return Err(FileRefused(end.describe_problem().unwrap_or_else(|| {
            "is of pidstat, without processor time of an interval: pidstat -u 5 has it".to_owned()
        })));
    }
    Ok(all)
}

/// Places of words behind a line's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessColumns {
    /// Words of the time, with its half of the day.
    time: usize,
    count: usize,
    share: usize,
    owner: Option<usize>,
    /// Where its time in programs' own code stands.
    own: Option<usize>,
}

impl ProcessColumns {
    /// `22:13:27  UID  PID  %usr %system  %guest  %wait  %CPU  CPU  Command`; -h prints `# Time`.
    fn from_heading(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_first = |word: &&str| matches!(*word, "UID" | "USER" | "PID" | "TGID");
        let begin = words.iter().position(is_first).filter(|begin| (1..=3).contains(begin))?;
        // A mark stands before the word for the time.
        let time = begin - usize::from(line.starts_with('#'));
        let words = words.get(begin..)?;
        let share = words.iter().position(|word| *word == "%CPU");
        // Tables of memory and of disks are of processes too.
        (words.last() == Some(&"Command")).then(|| Self {
            time,
            count: words.len(),
            share: share.unwrap_or(usize::MAX),
            owner: words.iter().position(|word| matches!(*word, "UID" | "USER")),
            own: words.iter().position(|word| *word == "%usr"),
        })
    }

    /// Whether a row may be of a thread of the kernel, which is root's and runs no program's code:
    /// anybody may call a program like one.
    fn may_be_kernel_thread(&self, values: &[&str]) -> bool {
        let value = |place: Option<usize>| values.get(place?).copied();
        let is_zero = |word: &str| word.replace(',', ".").parse::<f64>().is_ok_and(|one| one < 1.0);
        value(self.owner).is_none_or(|owner| matches!(owner, "0" | "root"))
            && value(self.own).is_none_or(is_zero)
    }

    /// Words of a row's time: `-h` prints its half of the day behind it, not in the headings.
    fn time_of_row(&self, words: &[&str]) -> usize {
        let has_half = self.time == 1 && matches!(words.get(1), Some(&("AM" | "PM")));
        self.time + usize::from(has_half)
    }
}

#[derive(Default)]
struct PidstatReader {
    series: Series,
    columns: Option<ProcessColumns>,
    /// The day in the first line, until it is known whether its month comes first.
    day: Option<Day>,
    /// The beginning of the day and the time of day last seen, in seconds.
    midnight: i64,
    last: i64,
    /// The time in the headings, at which the interval began.
    began: Option<i64>,
    /// Whether a table had averages since the boot, or no processor time.
    since_boot: bool,
    without_share: bool,
    /// The interval that is being read: its end, and the processor time of each program.
    at: Option<Moment>,
    programs: BTreeMap<String, f64>,
    /// Rows in which each of the kernel's threads is not listed, and whether it is in any.
    unlisted: [Vec<usize>; top::THREADS.len()],
    listed: [bool; top::THREADS.len()],
}

impl PidstatReader {
    fn begin_run(&mut self, banner: IostatBanner) {
        self.end_interval();
        self.midnight = banner.day.map_or(0, |day| day.midnight);
        self.day = banner.day;
        self.last = 0;
        self.series.clock = Clock::Wall { zone: None };
        self.series.kernel.get_or_insert(banner.kernel);
        self.series.host.get_or_insert(banner.host);
    }

    fn into_series(mut self) -> Series {
        self.end_interval();
        self.set_idle_threads();
        if self.since_boot {
            let why = "a table without an interval has averages since the boot, and is left out";
            self.series.add_problem(why);
        }
        if self.without_share {
            self.series.add_problem(
                "has tables without processor time, which are left out: pidstat -u 5 has it",
            );
        }
        self.series.finish()
    }

    fn push_line(&mut self, line: &str) {
        if line.starts_with('#') || line.trim_end().ends_with("Command") {
            if let Some(columns) = ProcessColumns::from_heading(line) {
                self.end_interval_before(columns);
                self.columns = Some(columns);
                let words: Vec<&str> = line.split_ascii_whitespace().collect();
                let time = words.get(..columns.time).filter(|_| !line.starts_with('#'));
                self.began = time.and_then(|time| self.parse_row_time(time));
            }
            return;
        }
        let Some(columns) = self.columns else { return };
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let time = columns.time_of_row(&words);
        let Some((time, values)) = words.split_at_checked(time) else { return };
        let Some(time) = self.parse_row_time(time) else { return };
        if columns.share == usize::MAX {
            // A table of memory or of disks says when it was.
            self.without_share = true;
            return self.begin_interval(time);
        }
        let share =
            values.get(columns.share).and_then(|word| word.replace(',', ".").parse::<f64>().ok());
        let command = values.get(columns.count.saturating_sub(1));
        let (Some(share), Some(command)) = (share, command) else { return };
        if let Some(word) = values.get(columns.share)
            && let Some(mut day) = self.day.take()
        {
            let before = day.midnight;
            day.decide_by_comma(word.contains(','));
            self.midnight += day.midnight - before;
        }
        self.begin_interval(time);
        // Threads are listed below their process, which has their time.
        if !command.starts_with("|__") {
            let is_thread = top::THREADS.iter().any(|(name, _)| command.starts_with(name));
            let name = if is_thread && !columns.may_be_kernel_thread(values) {
                format!("a program called {command}")
            } else {
                (*command).to_owned()
            };
            *self.programs.entry(name).or_default() += share;
        }
    }

    /// A time of day; seconds since 1970 with `-H`, and with `-h` before sysstat 11.7.
    fn parse_row_time(&mut self, words: &[&str]) -> Option<i64> {
        let seconds = match words {
            [only] if (9..=11).contains(&only.len()) => only.parse::<i64>().ok(),
            _ => None,
        };
        let Some(seconds) = seconds else {
            let time = parse_time_of_day(words)?;
            if let Some(day) = &mut self.day {
                let before = day.midnight;
                day.decide_by_words(words);
                self.midnight += day.midnight - before;
            }
            return Some(time);
        };
        (self.midnight, self.day) = (0, None);
        self.series.clock = Clock::Utc { offsets: Vec::new() };
        Some(seconds)
    }

    /// Tables of one interval follow each other; another of processor time is of the next.
    fn end_interval_before(&mut self, columns: ProcessColumns) {
        if columns.share < usize::MAX {
            self.end_interval();
        }
    }

    fn begin_interval(&mut self, time: i64) {
        if time + DAY / 2 < self.last {
            self.midnight = self.midnight.saturating_add(DAY);
        }
        let at = Moment::from_seconds(self.midnight.saturating_add(time));
        if self.at != Some(at) {
            self.end_interval();
            self.at = Some(at);
        }
        self.last = time;
    }

    fn end_interval(&mut self) {
        let Some(at) = self.at.take() else { return };
        let programs = std::mem::take(&mut self.programs);
        let before = self.series.samples().last().map(|last| last.at);
        // A terminal gets headings once a page, and what follows them is of one interval.
        let told = self.began.take().map(|began| (self.last - began).rem_euclid(DAY));
        if told == Some(0) {
            self.since_boot = true;
            self.series.push(at, None);
            return;
        }
        let told = told.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
        let interval = told.or_else(|| at.duration_since(before?));
        self.series.push(at, interval.filter(|interval: &Duration| !interval.is_zero()));
        let row = self.series.samples().len().saturating_sub(1);
        let notes = self.unlisted.iter_mut().zip(&mut self.listed);
        for ((name, metric), (unlisted, listed)) in top::THREADS.iter().zip(notes) {
            let took = programs.iter().filter(|(program, _)| program.starts_with(name));
            match took.map(|(_, share)| *share).reduce(|sum, share| sum + share) {
                Some(share) => {
                    *listed = true;
                    self.series.set_value(*metric, share);
                }
                None => unlisted.push(row),
            }
        }
        let mut most: Vec<(String, f64)> = programs.into_iter().collect();
        most.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        for (program, share) in most.into_iter().take(MOST_PROGRAMS) {
            self.series.set_use(&program, Use::Processor, share);
        }
    }
}

impl PidstatReader {
    /// A thread that is listed in one interval was asked for in all: it took nothing where it is
    /// not. Of one that never is, nothing is known.
    fn set_idle_threads(&mut self) {
        let notes = self.unlisted.iter().zip(self.listed);
        for ((_, metric), (rows, _)) in
            top::THREADS.iter().zip(notes).filter(|(_, (_, listed))| *listed)
        {
            for row in rows {
                self.series.set_at(*row, *metric, 0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use hugewise_testkit::{Skip, require};

    use super::*;
    use crate::Metric;

    const BANNER: &str = "Linux 6.1.0-18-amd64 (db1) \t11/26/26 \t_x86_64_\t(2 CPU)\n\n";

    fn parse(text: &str) -> Series {
        read(&mut text.as_bytes(), "pidstat.log").unwrap().remove(0)
    }

    #[test]
    fn threads_of_the_kernel_and_programs_are_added_up() {
        let text = format!(
            "{BANNER}23:59:57      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  \
             Command\n\
             23:59:58        0        79    0.00   98.00    0.00    0.00   98.00     1  kswapd0\n\
             23:59:58        0        80    0.00    2.00    0.00    0.00    2.00     0  kswapd1\n\
             23:59:58       26      4711   40.00   10.00    0.00    0.00   50.00     0  postgres\n\
             23:59:58       26      4712   30.00    5.00    0.00    0.00   35.00     1  postgres\n\
             \n\
             23:59:58      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n\
             00:00:01       26      4711    1.00    0.00    0.00    0.00    1.00     0  postgres\n\
             \nAverage:      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n\
             Average:       26      4711    9.00    0.00    0.00    0.00    9.00     -  postgres\n"
        );
        assert!(is_pidstat(text.as_bytes()));
        let series = parse(&text);
        assert_eq!(series.host.as_deref(), Some("db1"));
        // `date -u -d '2026-11-26 23:59:58' +%s`; the next is of the day after.
        let moments: Vec<i64> = series.samples().iter().map(|sample| sample.at.0 / 1000).collect();
        assert_eq!(moments, [1_795_737_598, 1_795_737_601]);
        let kswapd = [0, 1].map(|row| series.value(Metric::KswapdCpu, row));
        assert_eq!(kswapd, [Some(100.0), Some(0.0)]);
        let programs: Vec<_> = series
            .command_columns(Use::Processor)
            .filter(|(name, _)| *name == "postgres")
            .map(|(_, column)| [column.get(0), column.get(1)])
            .collect();
        assert_eq!(programs, [[Some(85.0), Some(1.0)]]);
    }

    #[test]
    fn output_of_each_host_is_of_that_host() {
        let heading = "      UID       PID    %usr %system  %guest    %CPU   CPU  Command\n";
        let of = |host: &str| {
            format!(
                "{}10:00:00{heading}10:00:01       26      4711   40.00   10.00    0.00   50.00     \
                 0  postgres\n",
                BANNER.replace("db1", host)
            )
        };
        let all = read(&mut (of("db1") + &of("db2")).as_bytes(), "pidstat.log").unwrap();
        let hosts: Vec<_> = all.iter().map(|series| series.host.as_deref()).collect();
        assert_eq!(hosts, [Some("db1"), Some("db2")]);
    }

    /// As sar reads the same first line: with 24 hours and four digits, the day comes first.
    #[test]
    fn the_day_is_the_one_that_sar_has() {
        let heading = "      UID       PID    %usr %system  %guest    %CPU   CPU  Command\n";
        // `date -u -d '2024-10-03 10:00:01' +%s`, and 2024-03-10, 2019-11-11.
        for (date, half, comma, at) in [
            ("03/10/2024", "", ".", 1_727_949_601),
            ("03/10/2024", " AM", ".", 1_710_064_801),
            ("03/10/24", "", ",", 1_727_949_601),
            ("2019年11月11日", "", ".", 1_573_466_401),
        ] {
            let banner = BANNER.replace("11/26/26", date);
            let text = format!(
                "{banner}10:00:00{half}{heading}10:00:01{half}       26      4711   40.00   10.00    \
                 0.00   50{comma}00     0  postgres\n"
            );
            assert_eq!(parse(&text).samples()[0].at, Moment::from_seconds(at), "{date}{half}");
        }
    }

    #[test]
    fn programs_called_like_threads_of_the_kernel_are_none() {
        for row in ["1000       79  390.00    8.00", "   0       79  390.00    8.00"] {
            let text = format!(
                "{BANNER}10:00:00      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  \
                 Command\n10:00:01 {row}    0.00    0.00  398.00     1  kswapd0\n"
            );
            assert_eq!(parse(&text).value(Metric::KswapdCpu, 0), None, "{row}");
        }
    }

    #[test]
    fn tables_without_processor_time_are_left_out_and_told() {
        let memory = format!(
            "{BANNER}17:35:03      UID       PID  minflt/s  majflt/s     VSZ     RSS   %MEM  \
             Command\n17:35:04        0         1      0.85      0.00   53656   22320   0.09  init\n"
        );
        assert!(is_pidstat(memory.as_bytes()));
        let series = parse(&memory);
        assert!(series.problems.iter().any(|one| one.to_string().contains("pidstat -u 5")));
        assert_eq!(series.value(Metric::KswapdCpu, 0), None);
        let sar = format!("{BANNER}08:00:01 CPU %user %nice %system %iowait %steal %idle\n");
        assert!(!is_pidstat(sar.as_bytes()));
    }

    #[test]
    fn of_threads_that_are_never_listed_nothing_is_known() {
        // pidstat -C postgres 1: whether kswapd0 worked is not in it.
        let heading = "      UID       PID    %usr %system  %guest    %CPU   CPU  Command\n";
        let text = format!(
            "{BANNER}10:00:00{heading}10:00:01       26      4711   40.00   10.00    0.00   50.00     \
             0  postgres\n10:00:02       26      4711   41.00   10.00    0.00   51.00     0  postgres\n"
        );
        let series = parse(&text);
        assert_eq!(series.value(Metric::KswapdCpu, 0), None);
        assert_eq!(series.value(Metric::KhugepagedCpu, 1), None);
        // A terminal gets the headings once: each interval is a second.
        let intervals: Vec<_> = series.samples().iter().map(|sample| sample.interval).collect();
        assert_eq!(intervals, [Some(Duration::from_secs(1)); 2]);
    }

    #[test]
    fn seconds_since_1970_are_read() {
        let text = format!(
            "{BANNER}#      Time       PID    %usr %system  %guest    %CPU   CPU  Command\n \
             1432825800        79    0.00   98.00    0.00   98.00     1  kswapd0\n\n\
             #      Time       PID    %usr %system  %guest    %CPU   CPU  Command\n \
             1432825805      4711    1.00    0.00    0.00    1.00     0  postgres\n"
        );
        let series = parse(&text);
        assert!(matches!(series.clock, Clock::Utc { .. }));
        // `date -u -d @1432825800`: 2015-05-28 15:10:00.
        assert_eq!(series.clock.format(series.samples()[0].at), "2015-05-28T15:10:00Z");
        let kswapd = [0, 1].map(|row| series.value(Metric::KswapdCpu, row));
        assert_eq!(kswapd, [Some(98.0), Some(0.0)]);
    }

    #[test]
    fn what_sysstat_of_this_machine_prints_is_read() {
        for arguments in [&["1", "2"][..], &["-h", "1", "2"], &["-u", "-r", "-d", "-t", "1", "2"]] {
            let mut pidstat = Command::new("pidstat");
            pidstat.args(arguments).env("LC_ALL", "C");
            let tool = pidstat.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
            let tool = require!(tool.map_err(|error| Skip(format!("pidstat: {error}"))));
            // It lists only who works: on a quiet machine nobody, unless this program does.
            let quiet = Instant::now() + Duration::from_millis(2500);
            while Instant::now() < quiet {
                std::hint::spin_loop();
            }
            let text = String::from_utf8(tool.wait_with_output().unwrap().stdout).unwrap();
            assert!(is_pidstat(text.as_bytes()), "{text}");
            let series = parse(&text);
            assert_eq!(series.samples().len(), 2, "{text}");
            let mut programs = series.command_columns(Use::Processor);
            assert!(programs.any(|(_, column)| column.get(1) > Some(0.0)), "{text}");
        }
    }
}
