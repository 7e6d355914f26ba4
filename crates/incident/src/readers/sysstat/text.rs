//! What sar prints: `sar -A`, a file of a day or live, of one day or of several.
//!
//! Times are of the host's wall clock, in 12 or 24 hours; the date stands once at the beginning, and a time that falls
//! by more than half a day is the next day's. Dates are read as `LANG=C` writes them, month first, unless there is no
//! such month.

use std::io::{BufRead, BufReader, Read};

use hugewise_model::KernelRelease;

use super::super::calendar::{self, DAY, time_of_day};
use super::columns::{self, Said};
use crate::series::{Mark, MarkKind, Moment};
use crate::{Clock, Metric, Refused, Series};

/// No line of sar is longer: a table of interrupts has a column a processor.
const LONGEST_LINE: u64 = 1 << 20;
const HALF_DAY: i64 = DAY / 2;

/// Reads what sar printed; a series for each host in it.
///
/// # Errors
/// It does not begin as sar does, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Vec<Series>, Refused> {
    let mut reader = Reader::new(source);
    let mut lines = BufReader::with_capacity(64 << 10, stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => reader.line(&String::from_utf8_lossy(&line)),
            Err(error) => match reader.hosts.last_mut() {
                Some(host) => {
                    host.series.problem(format!("cannot be read to its end: {error}"));
                    break;
                }
                None => return Err(Refused(error.to_string())),
            },
        }
        if reader.hosts.is_empty() && reader.lines > 20 {
            break;
        }
    }
    if reader.hosts.is_empty() {
        return Err(Refused("does not begin as what sar prints".into()));
    }
    let samples = reader.hosts.iter().any(|host| !host.series.samples().is_empty() || !host.series.marks.is_empty());
    match reader.other {
        Some(other) if !samples => Err(Refused(format!("is what {other} prints, which is not read"))),
        _ => Ok(reader.hosts.into_iter().map(Host::finished).collect()),
    }
}

/// Who else prints the same first line, by headings that sar does not have.
fn other(headings: &[&str]) -> Option<&'static str> {
    let of_processes = headings.iter().any(|word| matches!(*word, "PID" | "TGID" | "TID" | "Command"));
    let of_disks = matches!(headings.first(), Some(&("avg-cpu:" | "Device" | "Device:")));
    if of_processes {
        Some("pidstat")
    } else if of_disks {
        Some("iostat")
    } else {
        None
    }
}

/// Whether a line is the headings of a table of sar's: a time of day, and columns that are known.
pub(crate) fn is_heading(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace().peekable();
    if words.next().and_then(time_of_day).is_none() {
        return false;
    }
    let _ = words.next_if(|word| matches!(*word, "AM" | "PM"));
    let columns: Vec<&str> = words.collect();
    let known = columns.iter().filter(|word| columns::heading(word).is_some()).count();
    known >= 2 && columns.iter().all(|word| number(word).is_none())
}

/// One host's series as it grows.
struct Host {
    series: Series,
    kernel: Option<KernelRelease>,
    processors: Option<u32>,
    /// Rows that came too late to have a place.
    misplaced: u64,
}

impl Host {
    fn finished(mut self) -> Series {
        columns::distrust(&mut self.series, self.kernel.as_ref());
        if self.misplaced > 0 {
            let misplaced = self.misplaced;
            self.series.problem(format!("{misplaced} lines are of times that other tables lack, and left out"));
        }
        self.series.finished()
    }

    /// The row of a moment; a new one where it is later than all.
    fn row(&mut self, at: i64, before: i64) -> Option<usize> {
        let moment = Moment::from_seconds(at);
        let samples = self.series.samples();
        if samples.last().is_none_or(|last| last.at < moment) {
            let interval = moment.since(Moment::from_seconds(before)).filter(|interval| !interval.is_zero());
            self.series.push(moment, interval);
            let row = self.series.samples().len() - 1;
            if let Some(processors) = self.processors {
                self.series.set_at(row, Metric::Processors, f64::from(processors));
            }
            return Some(row);
        }
        let row = samples.binary_search_by_key(&moment, |sample| sample.at).ok();
        self.misplaced += u64::from(row.is_none());
        row
    }
}

struct Reader {
    source: String,
    hosts: Vec<Host>,
    lines: u64,
    /// Midnight of the day that the last heading told.
    midnight: i64,
    /// The first and the latest moment since the last heading or restart, and whether there is any.
    first: Option<i64>,
    latest: Option<i64>,
    table: Table,
    /// Whose table was seen that is not sar's.
    other: Option<&'static str>,
}

/// The table that lines are of.
#[derive(Default)]
struct Table {
    /// The word of each column behind the time.
    columns: Vec<Option<&'static str>>,
    /// What a line must begin with to be of all processors or interrupts.
    item: Option<&'static str>,
    /// The moment of the line before.
    before: i64,
}

impl Reader {
    fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            hosts: Vec::new(),
            lines: 0,
            midnight: 0,
            first: None,
            latest: None,
            table: Table::default(),
            other: None,
        }
    }

    fn line(&mut self, line: &str) {
        self.lines += 1;
        if line.starts_with("Linux ") {
            self.heading(line);
            return;
        }
        if self.hosts.is_empty() {
            return;
        }
        let mut words = line.split_ascii_whitespace().peekable();
        let Some(mut time) = words.peek().copied().and_then(time_of_day) else {
            // pidstat -h and iostat put no time before their headings.
            let headings: Vec<&str> = words.map(|word| word.trim_start_matches('#')).take(40).collect();
            self.other = self.other.or_else(|| other(&headings));
            return;
        };
        words.next();
        if let Some(half) = words.next_if(|word| matches!(*word, "AM" | "PM")) {
            let hour = time / 3600 % 12;
            time = time % 3600 + 3600 * (hour + if half == "PM" { 12 } else { 0 });
        }
        let rest: Vec<&str> = words.collect();
        match rest.as_slice() {
            [] => {}
            ["LINUX", "RESTART", more @ ..] => self.restart(time, more),
            ["COM", ..] => {
                let comment = line.split_once("COM").map_or("", |(_, comment)| comment).trim();
                let at = self.after_latest(time);
                self.mark(at, MarkKind::Comment(comment.to_owned()));
            }
            columns if columns.iter().all(|word| number(word).is_none()) => self.columns(time, columns),
            values => self.values(time, values),
        }
    }

    /// `Linux 5.14.0-503.el9.x86_64 (db1) 11/21/26 _x86_64_ (2 CPU)`
    fn heading(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (Some(kernel), Some(name)) = (words.next(), words.next()) else { return };
        let Some(name) = name.strip_prefix('(').and_then(|name| name.strip_suffix(')')) else { return };
        let Some(midnight) = words.next().and_then(date) else { return };
        let architecture = words.next().map(|word| word.trim_matches('_')).filter(|word| !word.starts_with('('));
        self.midnight = midnight;
        (self.first, self.latest) = (None, None);
        self.table = Table::default();
        let place = self.hosts.iter().position(|host| host.series.host.as_deref() == Some(name));
        let place = place.unwrap_or_else(|| {
            let mut series = Series::new(&self.source, crate::Format::Sar);
            series.clock = Clock::Wall { zone: None };
            series.host = Some(name.to_owned());
            series.kernel = Some(kernel.to_owned());
            series.architecture = architecture.map(str::to_owned);
            let kernel = hugewise_host::kernel::release::parse(kernel.as_bytes()).ok();
            self.hosts.push(Host { series, kernel, processors: None, misplaced: 0 });
            self.hosts.len() - 1
        });
        let last = self.hosts.len() - 1;
        // The host at hand is the last.
        self.hosts.swap(place, last);
        if let Some(host) = self.hosts.last_mut() {
            host.processors = line.rsplit_once('(').and_then(|(_, count)| processors(count));
        }
    }

    /// A time that comes behind all so far.
    fn after_latest(&self, time: i64) -> i64 {
        after(self.latest.unwrap_or(self.midnight), time)
    }

    fn mark(&mut self, at: i64, kind: MarkKind) {
        let mark = Mark { at: Moment::from_seconds(at), kind };
        // A comment stands in every table.
        if let Some(host) = self.hosts.last_mut()
            && !host.series.marks.contains(&mark)
        {
            host.series.marks.push(mark);
        }
    }

    fn restart(&mut self, time: i64, more: &[&str]) {
        let at = self.after_latest(time);
        self.mark(at, MarkKind::Restart);
        (self.first, self.latest) = (None, Some(at));
        self.table = Table::default();
        let count = more.first().and_then(|word| word.strip_prefix('(')).and_then(processors);
        if let Some(host) = self.hosts.last_mut()
            && count.is_some()
        {
            host.processors = count;
        }
    }

    /// The headings of a table, with the time that its first line's interval begins at.
    fn columns(&mut self, time: i64, columns: &[&str]) {
        if let Some(other) = other(columns) {
            // A process's share is not the host's.
            self.other = Some(other);
            self.table = Table { before: self.table.before, ..Table::default() };
            return;
        }
        let latest = self.latest.unwrap_or(self.midnight);
        // A table goes back to where others began, or on from where they are.
        let mut at = if self.first.is_none() {
            after(latest, time)
        } else {
            let day = (latest - time).div_euclid(DAY);
            time + day * DAY
        };
        if let Some(first) = self.first.filter(|first| at - first == DAY) {
            at = first;
        }
        self.first = self.first.or(Some(at));
        self.latest = self.latest.max(Some(at));
        let (item, sum) = match columns.first() {
            Some(&"CPU") => (Some("all"), None),
            Some(&"INTR") => (Some("sum"), Some("intr/s")),
            _ => (None, None),
        };
        let words = columns.iter().map(|heading| match sum {
            Some(sum) if matches!(*heading, "all" | "intr/s") => Some(sum),
            Some(_) => None,
            None => columns::heading(heading),
        });
        self.table = Table { columns: words.collect(), item, before: at };
    }

    fn values(&mut self, time: i64, values: &[&str]) {
        let at = after(self.table.before, time);
        let before = self.table.before;
        let of_all = self.table.item.is_none_or(|item| values.first() == Some(&item));
        let pairs = self.table.columns.iter().zip(values);
        let said: Said = pairs.filter_map(|(word, value)| Some(((*word)?, number(value)?))).collect();
        if !of_all || said.is_empty() {
            return;
        }
        self.table.before = at;
        self.latest = self.latest.max(Some(at));
        if let Some(host) = self.hosts.last_mut()
            && let Some(row) = host.row(at, before)
        {
            columns::set(&mut host.series, row, &said, host.kernel.as_ref());
        }
    }
}

/// The moment of a time of day that comes after another moment: the next day's where it falls by more than half a day.
fn after(before: i64, time: i64) -> i64 {
    let at = before - before.rem_euclid(DAY) + time;
    if before - at > HALF_DAY { at + DAY } else { at }
}

/// Midnight of a date: `11/21/26`, `11/21/2026`, `2026-11-21`, `21.11.2026`.
fn date(word: &str) -> Option<i64> {
    let parts: Vec<i64> = word.split(['/', '-', '.']).map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let &[one, two, three] = parts.as_slice() else { return None };
    let (year, month, day) = if one > 31 {
        (one, two, three)
    } else {
        let year = if three < 100 { 2000 + three } else { three };
        if word.contains('.') || one > 12 { (year, two, one) } else { (year, one, two) }
    };
    calendar::midnight(year, month, day)
}

/// `2 CPU)`
fn processors(count: &str) -> Option<u32> {
    count.trim_end().trim_end_matches(')').trim_end_matches("CPU").trim().parse().ok()
}

/// A number, with a comma where the language has one.
fn number(word: &str) -> Option<f64> {
    let first = word.trim_start_matches('-').bytes().next()?;
    if !first.is_ascii_digit() {
        return None;
    }
    word.parse().ok().or_else(|| word.replacen(',', ".", 1).parse().ok())
}
