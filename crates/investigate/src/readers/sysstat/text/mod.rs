//! What sar prints: `sar -A`, a file of a day or live, of one day or of several.
//!
//! Times are of the host's wall clock, in 12 or 24 hours; the date is only in the first line, and a
//! time that falls by more than half a day is the next day's. Both are in the language of whoever
//! ran sar ([`time`], [`date`]); headings are the same in all languages.

mod date;
mod days;
mod time;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

pub(crate) use self::date::Day;
use self::days::SarDay;
use self::time::LocalizedTime;
use super::columns::{self, SarReadings};
use super::{MOST_HOSTS, note_hosts_left_out};
use crate::readers::archive_format::{ArchiveFormat, Promise};
use crate::readers::lines::for_each_line_or_rest;
use crate::series::{Mark, MarkKind, Moment};
use crate::{Clock, FileRefused, Series};
use hugewise_model::calendar::DAY;

/// Bytes of a line: a table of interrupts has a column a processor.
const LONGEST_LINE: u64 = 1 << 20;
const HALF_DAY: i64 = DAY / 2;
/// Tables that are told apart; `sar -A` has some forty.
const MOST_TABLES: usize = 256;
/// Seconds that a table may go back by within a day.
const BACK: i64 = 3900;
/// The host's name in a first line that replaces a missing one.
pub(crate) const HEADLESS: &str = "-";
/// What to do about a language whose dates or times are not read.
const READABLE: &str =
    "`LC_ALL=C sar -A -f FILE` prints one that is, and the binary file is read as well";
/// Characters of a comment; sysstat stores 64 bytes.
const LONGEST_COMMENT: usize = 256;
/// Days of all hosts: a host's year, or a month of several.
const MOST_DAYS: usize = 4096;
/// Restarts and comments of one day.
const MOST_MARKS: usize = 65_536;
/// Characters of an unreadable date or time that are shown.
const SHOWN: usize = 40;

/// What sar prints.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "sar",
    called: "a sar file",
    tools: &[],
    is_text: true,
    recognize: |text| {
        let is_kernel_log = text.starts_with(b"Linux version ");
        Promise::likely_if(text.starts_with(b"Linux ") && !is_kernel_log)
    },
    read: |file| read(file.stream, file.source),
};

/// Reads what sar printed; one series for each host in it.
///
/// # Errors
/// It does not begin as sar does, or cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Vec<Series>, FileRefused> {
    let mut reader = SarReader::new(source);
    let error = for_each_line_or_rest(stream, LONGEST_LINE, |line| {
        reader.parse_line(line);
        reader.left_out == 0 && (!reader.days.is_empty() || reader.lines <= 20)
    });
    if let Some(error) = error {
        let Some(day) = reader.days.last_mut() else { return Err(FileRefused(error)) };
        day.series.add_problem(format!("cannot be read to its end: {error}"));
    }
    if reader.days.is_empty() {
        return Err(FileRefused(match reader.undated {
            Some(date) => {
                format!("its date, `{date}`, is in a format that is not read; {READABLE}")
            }
            None => "does not begin like sar's output".into(),
        }));
    }
    let samples = reader
        .days
        .iter()
        .any(|day| !day.series.samples().is_empty() || !day.series.marks.is_empty());
    match reader.other {
        Some(other) if !samples => {
            Err(FileRefused(format!("is what {other} prints, which is not read")))
        }
        None if !samples && reader.untimed.is_some() => {
            let time = reader.untimed.unwrap_or_default();
            Err(FileRefused(format!(
                "its times of day, `{time}`, are in a format that is not read; {READABLE}"
            )))
        }
        _ => {
            let mut all = days::join_days(reader.days, source);
            if let Some(last) = all.last_mut().filter(|_| reader.since_boot > 0) {
                last.add_problem("has averages since the boot, which are left out");
            }
            note_hosts_left_out(&mut all, reader.left_out);
            Ok(all)
        }
    }
}

/// The other program that prints the same first line, by its headings.
fn recognize_foreign_program(headings: &[&str]) -> Option<&'static str> {
    let of_processes =
        headings.iter().any(|word| matches!(*word, "PID" | "TGID" | "TID" | "Command"));
    let of_disks = matches!(headings.first(), Some(&("avg-cpu:" | "Device" | "Device:")));
    if of_processes {
        Some("pidstat")
    } else if of_disks {
        Some("iostat")
    } else {
        None
    }
}

/// Whether a line is the headings of a table of sar's: a time of day, and known columns.
pub(crate) fn is_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().take(64).collect();
    let Some((_, count)) = time::parse_leading(&words) else { return false };
    let columns = words.get(count..).unwrap_or_default();
    count_known_headings(columns) >= 2 && columns.iter().all(|word| parse_number(word).is_none())
}

pub(crate) fn is_word(word: &str) -> bool {
    columns::find_heading(word).is_some()
        || (word.starts_with('%') && word.len() > 1)
        || word.ends_with("/s")
}

pub(crate) fn is_number(word: &str) -> bool {
    parse_number(word).is_some()
}

/// How many words a line's time takes; three numbers alone are no time.
pub(crate) fn count_time_words(line: &str) -> Option<usize> {
    let words: Vec<&str> = line.split_whitespace().take(8).collect();
    if !words.iter().take(2).any(|word| word.contains([':', '時', '时', '시'])) {
        return None;
    }
    time::parse_leading(&words).map(|(_, count)| count)
}

/// The day that stands behind the host's name in the first line of sysstat's tools.
pub(crate) fn parse_banner_day(behind_name: &str) -> Option<Day> {
    date::parse(split_banner_date(behind_name).0)
}

/// The date, and what follows it.
fn split_banner_date(behind_name: &str) -> (&str, &str) {
    let rest = behind_name.trim();
    // Tabs separate the rest, unless copying lost them.
    rest.split_once('\t').or_else(|| rest.split_once(" _")).unwrap_or((rest, ""))
}

/// Seconds since midnight of words that are nothing but a time of day.
pub(crate) fn parse_time_of_day(words: &[&str]) -> Option<i64> {
    time::parse(words).map(|time| time.second)
}

fn mark_key(mark: &Mark) -> (i64, Option<String>) {
    let words = match &mark.kind {
        MarkKind::Comment(words) => Some(words.clone()),
        MarkKind::Restart | MarkKind::Resumed | MarkKind::Event(_) => None,
    };
    (mark.at.0, words)
}

fn count_known_headings(words: &[&str]) -> usize {
    words.iter().filter(|word| columns::find_heading(word).is_some()).count()
}

#[derive(Default)]
struct SarReader {
    source: String,
    /// Days of hosts, and their places by host and first line's date.
    days: Vec<SarDay>,
    places: BTreeMap<(String, i64), usize>,
    hosts: BTreeSet<String>,
    /// Whose lines follow.
    current: usize,
    lines: u64,
    midnight: i64,
    /// That day, while it is ambiguous, and how many marks the host had before it.
    open: Option<(Day, usize)>,
    /// The first and the latest moment since the last heading or restart.
    first: Option<i64>,
    latest: Option<i64>,
    table: SarTable,
    seen: Vec<SarTableProgress>,
    /// A restart without headings after it yet.
    restarted: Option<i64>,
    /// Whether a replaced first line is all that says the day.
    headless: bool,
    other: Option<&'static str>,
    /// The first date and the first time of day that could not be read.
    undated: Option<String>,
    untimed: Option<String>,
    /// Rows of averages since the boot.
    since_boot: usize,
    /// Whether there are hosts or days behind the last one that is read.
    left_out: usize,
}

#[derive(Default)]
struct SarTable {
    columns: Vec<Option<&'static str>>,
    /// How a line of all processors or interrupts begins.
    item: Option<&'static str>,
    /// How many words its time takes.
    time: usize,
    /// The moment of its headings, and of the line before.
    begins: i64,
    before: i64,
    place: usize,
}

struct SarTableProgress {
    headings: Vec<String>,
    start: i64,
    latest: i64,
}

impl SarReader {
    fn new(source: &str) -> Self {
        Self { source: source.to_owned(), ..Self::default() }
    }

    fn parse_line(&mut self, line: &str) {
        self.lines += 1;
        if line.starts_with("Linux ") {
            self.read_heading(line);
            return;
        }
        if self.days.is_empty() {
            return;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((time, count)) = self.parse_line_time(&words) else {
            if count_known_headings(&words) >= 2
                && words.first().is_some_and(|first| columns::find_heading(first).is_none())
            {
                let first = words.iter().take_while(|word| columns::find_heading(word).is_none());
                self.untimed.get_or_insert_with(|| {
                    printable_excerpt(&first.copied().collect::<Vec<_>>().join(" "))
                });
            }
            // pidstat -h and iostat put no time before their headings.
            let headings: Vec<&str> =
                words.iter().map(|word| word.trim_start_matches('#')).take(40).collect();
            self.other = self.other.or_else(|| recognize_foreign_program(&headings));
            return;
        };
        let rest = words.get(count..).unwrap_or_default();
        self.decide_date_order(&time, rest);
        let time = time.second;
        match rest {
            [] => {}
            ["LINUX", "RESTART", more @ ..] => self.note_restart(time, more),
            ["COM", ..] => {
                let comment = line.split_once("COM").map_or("", |(_, comment)| comment).trim();
                let comment = comment.chars().take(LONGEST_COMMENT).collect();
                let at = self.after_latest(time);
                self.add_mark(at, MarkKind::Comment(comment));
            }
            columns if columns.iter().all(|word| parse_number(word).is_none()) => {
                self.begin_table(time, count, columns)
            }
            values => self.push_values(time, values),
        }
    }

    /// The time at a line's beginning, and how many words it takes: as many as in the headings.
    fn parse_line_time(&self, words: &[&str]) -> Option<(LocalizedTime, usize)> {
        let of_table = words.split_at_checked(self.table.time).filter(|(time, _)| !time.is_empty());
        if let Some((time, values)) = of_table
            && values.iter().any(|word| parse_number(word).is_some())
            && let Some(time) = time::parse(time)
        {
            return Some((time, self.table.time));
        }
        time::parse_leading(words)
    }

    /// Decides by a line's time and numbers whether the heading's date has its day first.
    fn decide_date_order(&mut self, time: &LocalizedTime, rest: &[&str]) {
        let Some((mut day, marks)) = self.open.take() else { return };
        let before = day.midnight;
        day.decide_by(time);
        if let Some(part) =
            rest.iter().find(|word| parse_number(word).is_some() && word.contains(['.', ',']))
        {
            day.decide_by_comma(part.contains(','));
        }
        let moved = day.midnight - before;
        self.midnight += moved;
        if let Some(current) = self.days.get_mut(self.current) {
            current.day = day;
        }
        self.first = self.first.map(|first| first + moved);
        self.latest = self.latest.map(|latest| latest + moved);
        self.table.before += moved;
        self.table.begins += moved;
        self.restarted = self.restarted.map(|restarted| restarted + moved);
        for seen in &mut self.seen {
            (seen.start, seen.latest) = (seen.start + moved, seen.latest + moved);
        }
        if moved != 0
            && let Some(current) = self.days.get_mut(self.current)
        {
            for mark in current.series.marks.iter().skip(marks) {
                current.seen.remove(&mark_key(mark));
            }
            for mark in current.series.marks.iter_mut().skip(marks) {
                mark.at = Moment(mark.at.0.saturating_add(Moment::from_seconds(moved).0));
                current.seen.insert(mark_key(mark));
            }
        }
        self.open = day.is_open().then_some((day, marks));
    }

    /// `Linux 5.14.0-503.el9.x86_64 (db1) 11/21/26 _x86_64_ (2 CPU)`
    fn read_heading(&mut self, line: &str) {
        let Some((kernel, rest)) =
            line.strip_prefix("Linux ").and_then(|rest| rest.trim_start().split_once(' '))
        else {
            return;
        };
        let named = rest.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let Some((name, rest)) = named.filter(|(name, _)| !name.contains(char::is_whitespace))
        else {
            return;
        };
        let (told, rest) = split_banner_date(rest);
        let Some(day) = date::parse(told) else {
            self.undated.get_or_insert_with(|| printable_excerpt(told));
            return;
        };
        let architecture = rest.split_whitespace().next().map(|word| word.trim_matches('_'));
        let architecture = architecture.filter(|word| !word.is_empty() && !word.starts_with('('));
        self.midnight = day.midnight;
        (self.first, self.latest, self.restarted) = (None, None, None);
        self.headless = name == HEADLESS;
        self.seen.clear();
        self.table = SarTable::default();
        let key = (name.to_owned(), day.midnight);
        let is_known = self.hosts.contains(name);
        if let Some(place) = self.places.get(&key) {
            self.current = *place;
        } else if self.days.len() >= MOST_DAYS || (!is_known && self.hosts.len() >= MOST_HOSTS) {
            self.left_out = 1;
            return;
        } else {
            let mut series = Series::new(&self.source, crate::SourceFormat::SAR);
            series.clock = Clock::Wall { zone: None };
            series.host = Some(name.to_owned());
            series.kernel = Some(kernel.to_owned());
            series.architecture = architecture.map(str::to_owned);
            self.current = self.days.len();
            self.days.push(SarDay::new(series, day));
            self.places.insert(key, self.current);
            self.hosts.insert(name.to_owned());
        }
        if let Some(current) = self.days.get_mut(self.current) {
            current.processors =
                line.rsplit_once('(').and_then(|(_, count)| parse_processor_count(count));
            self.open = day.is_open().then_some((day, current.series.marks.len()));
        }
    }

    /// A time behind the line before in its table, or behind all so far.
    fn after_latest(&self, time: i64) -> i64 {
        let before = Some(self.table.before).filter(|_| !self.table.columns.is_empty());
        moment_after(before.or(self.latest).unwrap_or(self.midnight), time)
    }

    fn add_mark(&mut self, at: i64, kind: MarkKind) {
        let mark = Mark { at: Moment::from_seconds(at), kind };
        // A comment is in every table.
        if let Some(day) = self.days.get_mut(self.current)
            && day.series.marks.len() < MOST_MARKS
            && day.seen.insert(mark_key(&mark))
        {
            day.series.marks.push(mark);
        }
    }

    fn note_restart(&mut self, time: i64, more: &[&str]) {
        let at = self.after_latest(time);
        self.add_mark(at, MarkKind::Restart);
        (self.latest, self.restarted) = (self.latest.max(Some(at)), Some(at));
        self.table = SarTable::default();
        let count =
            more.first().and_then(|word| word.strip_prefix('(')).and_then(parse_processor_count);
        if let Some(day) = self.days.get_mut(self.current)
            && count.is_some()
        {
            day.processors = count;
        }
    }

    fn begin_table(&mut self, time: i64, words: usize, columns: &[&str]) {
        if let Some(other) = recognize_foreign_program(columns) {
            // A process's share is not the host's.
            self.other = Some(other);
            self.table =
                SarTable { before: self.table.before, place: usize::MAX, ..SarTable::default() };
            return;
        }
        let headings: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        let at = self.find_table_start(time, &headings);
        let place = self.seen.iter().position(|seen| seen.headings == headings);
        if place.is_none() && self.seen.len() < MOST_TABLES {
            self.seen.push(SarTableProgress { headings, start: at, latest: at });
        }
        self.first = self.first.or(Some(at));
        self.latest = self.latest.max(Some(at));
        let (item, sum) = match columns.first() {
            Some(&"CPU") => (Some("all"), None),
            Some(&"INTR") => (Some("sum"), Some("intr/s")),
            _ => (None, None),
        };
        let headings = columns.iter().map(|heading| match sum {
            Some(sum) if matches!(*heading, "all" | "intr/s") => Some(sum),
            Some(_) => None,
            None => columns::find_heading(heading),
        });
        let place = place.unwrap_or(self.seen.len().saturating_sub(1));
        let columns = headings.collect();
        self.table = SarTable { columns, item, time: words, begins: at, before: at, place };
    }

    /// The moment of a table's headings. Each table goes through the whole file, and its pages repeat
    /// its headings.
    fn find_table_start(&mut self, time: i64, headings: &[String]) -> i64 {
        if let Some(restarted) = self.restarted.take() {
            return moment_after(restarted, time);
        }
        let Some(seen) = self.seen.iter().find(|seen| seen.headings == headings) else {
            // Another table begins where the first one did, however many days that one took.
            if let Some(first) = self.first.filter(|first| (first - time).rem_euclid(DAY) == 0) {
                return first;
            }
            let latest = self.latest.unwrap_or(self.midnight);
            // Or it goes back to somewhere else, or on from where others are.
            return if self.first.is_none() {
                moment_after(latest, time)
            } else {
                time + (latest - time).div_euclid(DAY) * DAY
            };
        };
        let at = moment_after(seen.latest, time);
        // Without a first line, a table that begins again is the next day's. At the end of summer
        // time the clock goes back by an hour.
        let again =
            self.headless && (at < seen.latest && (at <= seen.start || seen.latest - at > BACK));
        if !again {
            return at;
        }
        let mut at = seen.start - seen.start.rem_euclid(DAY) + time;
        while at <= seen.latest {
            at += DAY;
        }
        self.first = Some(at);
        self.seen.clear();
        at
    }

    fn push_values(&mut self, time: i64, values: &[&str]) {
        let at = moment_after(self.table.before, time);
        let before = self.table.before;
        let of_all = self.table.item.is_none_or(|item| values.first() == Some(&item));
        let pairs = self.table.columns.iter().zip(values);
        let said: SarReadings =
            pairs.filter_map(|(word, value)| Some(((*word)?, parse_number(value)?))).collect();
        if !of_all || said.is_empty() {
            return;
        }
        // Without an interval, what is printed at the headings' time is an average since the boot.
        if at == self.table.begins {
            self.since_boot += 1;
            if let Some(day) = self.days.get_mut(self.current) {
                day.row_at(at, at);
            }
            return;
        }
        self.table.before = at;
        self.latest = self.latest.max(Some(at));
        if let Some(seen) = self.seen.get_mut(self.table.place) {
            seen.latest = seen.latest.max(at);
        }
        if let Some(day) = self.days.get_mut(self.current)
            && let Some(row) = day.row_at(at, before)
        {
            columns::set_sample_values(&mut day.series, row, &said, day.kernel.as_ref());
        }
    }
}

/// A time of day after another moment: the next day's if it falls by more than half a day.
fn moment_after(before: i64, time: i64) -> i64 {
    let at = before - before.rem_euclid(DAY) + time;
    if before - at > HALF_DAY { at + DAY } else { at }
}

fn printable_excerpt(text: &str) -> String {
    text.trim().chars().filter(|letter| !letter.is_control()).take(SHOWN).collect()
}

/// `2 CPU)`
fn parse_processor_count(count: &str) -> Option<u32> {
    count.trim_end().trim_end_matches(')').trim_end_matches("CPU").trim().parse().ok()
}

/// A number, perhaps with a decimal comma; one with a unit of `sar --human` in KiB, as without.
fn parse_number(word: &str) -> Option<f64> {
    let first = word.trim_start_matches('-').bytes().next()?;
    if !first.is_ascii_digit() {
        return None;
    }
    let plain = |word: &str| word.parse().ok().or_else(|| word.replacen(',', ".", 1).parse().ok());
    let factor = match word.bytes().last()? {
        b'%' => 1.0,
        b'B' => 1.0 / 1024.0,
        b'k' => 1.0,
        b'M' => 1024.0,
        b'G' => 1_048_576.0,
        b'T' => 1_073_741_824.0,
        _ => return plain(word),
    };
    plain(word.get(..word.len() - 1)?).map(|value: f64| value * factor)
}

#[cfg(test)]
mod tests;
