//! What sar prints: `sar -A`, a file of a day or live, of one day or of several.
//!
//! Times are of the host's wall clock, in 12 or 24 hours; the date stands once at the beginning, and a time that falls
//! by more than half a day is the next day's. Both are in the language of whoever ran sar ([`time`], [`date`]); headings are the
//! same in all of them.

mod date;
mod time;

use std::io::{BufRead, BufReader, Read};

use hugewise_model::KernelRelease;

use self::date::Day;
use self::time::Time;
use super::super::calendar::DAY;
use super::columns::{self, Said};
use crate::series::{Mark, MarkKind, Moment};
use crate::{Clock, Metric, Refused, Series};

/// No line of sar is longer: a table of interrupts has a column a processor.
const LONGEST_LINE: u64 = 1 << 20;
const HALF_DAY: i64 = DAY / 2;
/// Tables that are told apart; `sar -A` has some forty.
const MOST_TABLES: usize = 256;
/// Seconds that a table may go back by without being another day's.
const BACK: i64 = 3900;
/// The host's name in a first line that stands in for one that is missing.
pub(crate) const HEADLESS: &str = "-";
/// What to do about a language whose dates or times are not read.
const READABLE: &str = "`LC_ALL=C sar -A -f FILE` prints one that is, and the binary file is read as well";
/// What is shown of them.
const SHOWN: usize = 40;

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
        return Err(Refused(match reader.undated {
            Some(date) => format!("its date, `{date}`, is in a format that is not read; {READABLE}"),
            None => "does not begin like sar's output".into(),
        }));
    }
    let samples = reader.hosts.iter().any(|host| !host.series.samples().is_empty() || !host.series.marks.is_empty());
    match reader.other {
        Some(other) if !samples => Err(Refused(format!("is what {other} prints, which is not read"))),
        None if !samples && reader.untimed.is_some() => {
            let time = reader.untimed.unwrap_or_default();
            Err(Refused(format!("its times of day, `{time}`, are in a format that is not read; {READABLE}")))
        }
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
    let words: Vec<&str> = line.split_whitespace().take(64).collect();
    let Some((_, count)) = time::leading(&words) else { return false };
    let columns = words.get(count..).unwrap_or_default();
    known(columns) >= 2 && columns.iter().all(|word| number(word).is_none())
}

/// Whether a word is a heading of sar's, or like one.
pub(crate) fn is_word(word: &str) -> bool {
    columns::heading(word).is_some() || (word.starts_with('%') && word.len() > 1) || word.ends_with("/s")
}

/// Whether a word is a number as sar prints them.
pub(crate) fn is_number(word: &str) -> bool {
    number(word).is_some()
}

/// How many words the time takes that a line begins with; three numbers alone are none.
pub(crate) fn leading_time(line: &str) -> Option<usize> {
    let words: Vec<&str> = line.split_whitespace().take(8).collect();
    if !words.iter().take(2).any(|word| word.contains([':', '時', '时', '시'])) {
        return None;
    }
    time::leading(&words).map(|(_, count)| count)
}

/// Seconds since midnight of words that are a time of day, all of them.
pub(crate) fn time_alone(words: &[&str]) -> Option<i64> {
    time::parse(words).map(|time| time.second)
}

/// How many words are headings that are read.
fn known(words: &[&str]) -> usize {
    words.iter().filter(|word| columns::heading(word).is_some()).count()
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
            self.series.problem(format!("{misplaced} lines have times that other tables lack and are left out"));
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
    /// That day, until its language is known, and how many marks the host had before it.
    open: Option<(Day, usize)>,
    /// The first and the latest moment since the last heading or restart, and whether there is any.
    first: Option<i64>,
    latest: Option<i64>,
    table: Table,
    seen: Vec<Seen>,
    /// A restart that no headings have followed yet.
    restarted: Option<i64>,
    /// Whether nothing but a stand-in for a first line says the day.
    headless: bool,
    /// Whose table was seen that is not sar's.
    other: Option<&'static str>,
    /// The first date and the first time of day that could not be read.
    undated: Option<String>,
    untimed: Option<String>,
}

/// The table that lines are of.
#[derive(Default)]
struct Table {
    /// The word of each column behind the time.
    columns: Vec<Option<&'static str>>,
    /// What a line must begin with to be of all processors or interrupts.
    item: Option<&'static str>,
    /// How many words its time takes.
    time: usize,
    /// The moment of the line before.
    before: i64,
    /// Which of the tables that were seen.
    place: usize,
}

/// A table since the last first line.
struct Seen {
    headings: Vec<String>,
    /// Where it began, and how far it has come.
    start: i64,
    latest: i64,
}

impl Reader {
    fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            hosts: Vec::new(),
            lines: 0,
            midnight: 0,
            open: None,
            first: None,
            latest: None,
            table: Table::default(),
            seen: Vec::new(),
            restarted: None,
            headless: false,
            other: None,
            undated: None,
            untimed: None,
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
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((time, count)) = self.time(&words) else {
            if known(&words) >= 2 && words.first().is_some_and(|first| columns::heading(first).is_none()) {
                let first = words.iter().take_while(|word| columns::heading(word).is_none());
                self.untimed.get_or_insert_with(|| shown(&first.copied().collect::<Vec<_>>().join(" ")));
            }
            // pidstat -h and iostat put no time before their headings.
            let headings: Vec<&str> = words.iter().map(|word| word.trim_start_matches('#')).take(40).collect();
            self.other = self.other.or_else(|| other(&headings));
            return;
        };
        let rest = words.get(count..).unwrap_or_default();
        self.decide(&time, rest);
        let time = time.second;
        match rest {
            [] => {}
            ["LINUX", "RESTART", more @ ..] => self.restart(time, more),
            ["COM", ..] => {
                let comment = line.split_once("COM").map_or("", |(_, comment)| comment).trim();
                let at = self.after_latest(time);
                self.mark(at, MarkKind::Comment(comment.to_owned()));
            }
            columns if columns.iter().all(|word| number(word).is_none()) => self.columns(time, count, columns),
            values => self.values(time, values),
        }
    }

    /// The time that a line begins with, and how many words it takes: in a line of values as many as in the headings.
    fn time(&self, words: &[&str]) -> Option<(Time, usize)> {
        let of_table = words.split_at_checked(self.table.time).filter(|(time, _)| !time.is_empty());
        if let Some((time, values)) = of_table
            && values.iter().any(|word| number(word).is_some())
            && let Some(time) = time::parse(time)
        {
            return Some((time, self.table.time));
        }
        time::leading(words)
    }

    /// What a line's time and numbers tell of whether the heading's date has its day or its month first.
    fn decide(&mut self, time: &Time, rest: &[&str]) {
        let Some((mut day, marks)) = self.open.take() else { return };
        let before = day.midnight;
        day.decide_by(time);
        if let Some(part) = rest.iter().find(|word| number(word).is_some() && word.contains(['.', ','])) {
            day.decide_by_comma(part.contains(','));
        }
        let moved = day.midnight - before;
        self.midnight += moved;
        self.first = self.first.map(|first| first + moved);
        self.latest = self.latest.map(|latest| latest + moved);
        self.table.before += moved;
        self.restarted = self.restarted.map(|restarted| restarted + moved);
        for seen in &mut self.seen {
            (seen.start, seen.latest) = (seen.start + moved, seen.latest + moved);
        }
        if moved != 0
            && let Some(host) = self.hosts.last_mut()
        {
            for mark in host.series.marks.iter_mut().skip(marks) {
                mark.at = Moment(mark.at.0.saturating_add(Moment::from_seconds(moved).0));
            }
        }
        self.open = day.is_open().then_some((day, marks));
    }

    /// `Linux 5.14.0-503.el9.x86_64 (db1) 11/21/26 _x86_64_ (2 CPU)`
    fn heading(&mut self, line: &str) {
        let Some((kernel, rest)) = line.strip_prefix("Linux ").and_then(|rest| rest.trim_start().split_once(' '))
        else {
            return;
        };
        let named = rest.trim_start().strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let Some((name, rest)) = named.filter(|(name, _)| !name.contains(char::is_whitespace)) else { return };
        // Tabs part it; a text that was copied may have lost them.
        let rest = rest.trim();
        let (told, rest) = rest.split_once('\t').or_else(|| rest.split_once(" _")).unwrap_or((rest, ""));
        let Some(day) = date::parse(told) else {
            self.undated.get_or_insert_with(|| shown(told));
            return;
        };
        let architecture = rest.split_whitespace().next().map(|word| word.trim_matches('_'));
        let architecture = architecture.filter(|word| !word.is_empty() && !word.starts_with('('));
        self.midnight = day.midnight;
        (self.first, self.latest, self.restarted) = (None, None, None);
        self.headless = name == HEADLESS;
        self.seen.clear();
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
            self.open = day.is_open().then_some((day, host.series.marks.len()));
        }
    }

    /// A time that comes behind the line before in its table, or behind all so far.
    fn after_latest(&self, time: i64) -> i64 {
        let before = Some(self.table.before).filter(|_| !self.table.columns.is_empty());
        after(before.or(self.latest).unwrap_or(self.midnight), time)
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
        (self.latest, self.restarted) = (self.latest.max(Some(at)), Some(at));
        self.table = Table::default();
        let count = more.first().and_then(|word| word.strip_prefix('(')).and_then(processors);
        if let Some(host) = self.hosts.last_mut()
            && count.is_some()
        {
            host.processors = count;
        }
    }

    /// The headings of a table, with the time that its first line's interval begins at.
    fn columns(&mut self, time: i64, words: usize, columns: &[&str]) {
        if let Some(other) = other(columns) {
            // A process's share is not the host's.
            self.other = Some(other);
            self.table = Table { before: self.table.before, place: usize::MAX, ..Table::default() };
            return;
        }
        let headings: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
        let at = self.begins(time, &headings);
        let place = self.seen.iter().position(|seen| seen.headings == headings);
        if place.is_none() && self.seen.len() < MOST_TABLES {
            self.seen.push(Seen { headings, start: at, latest: at });
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
            None => columns::heading(heading),
        });
        let place = place.unwrap_or(self.seen.len().saturating_sub(1));
        self.table = Table { columns: headings.collect(), item, time: words, before: at, place };
    }

    /// The moment of a table's headings. Each table of a file goes through all of it, and through its pages by their headings.
    fn begins(&mut self, time: i64, headings: &[String]) -> i64 {
        if let Some(restarted) = self.restarted.take() {
            return after(restarted, time);
        }
        let Some(seen) = self.seen.iter().find(|seen| seen.headings == headings) else {
            // Another table begins where the first one did, however many days that went on for.
            if let Some(first) = self.first.filter(|first| (first - time).rem_euclid(DAY) == 0) {
                return first;
            }
            let latest = self.latest.unwrap_or(self.midnight);
            // Or goes back to somewhere else, or on from where others are.
            return if self.first.is_none() {
                after(latest, time)
            } else {
                time + (latest - time).div_euclid(DAY) * DAY
            };
        };
        let at = after(seen.latest, time);
        // The same table over again where no first line says the day: the next day's. A clock that was put back for winter goes
        // back by an hour.
        let again = self.headless && (at < seen.latest && (at <= seen.start || seen.latest - at > BACK));
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
        if let Some(seen) = self.seen.get_mut(self.table.place) {
            seen.latest = seen.latest.max(at);
        }
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

/// A part of a line for a message: what a terminal would take for its own is left out.
fn shown(text: &str) -> String {
    text.trim().chars().filter(|letter| !letter.is_control()).take(SHOWN).collect()
}

/// `2 CPU)`
fn processors(count: &str) -> Option<u32> {
    count.trim_end().trim_end_matches(')').trim_end_matches("CPU").trim().parse().ok()
}

/// A number, with a comma where the language has one; with a unit of `sar --human`, in the KiB that sar counts in without.
fn number(word: &str) -> Option<f64> {
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What `sar -u` of sysstat 12.6.1 printed of one file by `LC_ALL`: the date, the times of the headings and of the first
    /// line, and a decimal point.
    const LANGUAGES: &[(&str, &str, &str, &str, &str)] = &[
        ("C", "11/05/26", "12:21:55", "12:21:56", "."),
        ("en_US", "11/05/2026", "12:21:55 PM", "12:21:56 PM", "."),
        ("fr_FR", "05/11/2026", "12:21:55", "12:21:56", ","),
        ("es_ES", "05/11/26", "12:21:55", "12:21:56", ","),
        ("de_DE", "05.11.2026", "12:21:55", "12:21:56", ","),
        ("da_DK", "05-11-2026", "12:21:55", "12:21:56", ","),
        ("fi_FI", "05.11.2026", "12.21.55", "12.21.56", ","),
        ("ja_JP", "2026年11月05日", "12時21分55秒", "12時21分56秒", "."),
        ("zh_CN", "2026年11月05日", "12时21分55秒", "12时21分56秒", "."),
        ("ko_KR", "2026년 11월 05일", "12시 21분 55초", "12시 21분 56초", "."),
        ("hi_IN", "5/11/26", "12:21:55 अपराह्न UTC", "12:21:56 अपराह्न UTC", "."),
        ("ar_EG", "05 نوف, 2026", "UTC 12:21:55 م", "UTC 12:21:56 م", "."),
        ("fa_IR", "۲۶/۱۱/۰۵", "۱۲:۲۱:۵۵", "۱۲:۲۱:۵۶", "."),
        ("th_TH", "05/11/2569", "12:21:55", "12:21:56", "."),
        ("mt_MT", "il-Ħamis, 05 ta Nov, 2026", "12:21:55 UTC", "12:21:56 UTC", "."),
    ];

    fn printed(date: &str, headings: &str, values: &str, point: &str) -> String {
        let average = format!("Average:        all     57{point}29     32{point}66     10{point}05");
        format!(
            "Linux 6.18.44 (db1) \t{date} \t_x86_64_\t(2 CPU)\n\n{headings}     CPU     %user     %nice   %system\n\
             {values}     all     57{point}29     32{point}66     10{point}05\n{average}\n"
        )
    }

    #[test]
    fn every_language_tells_the_same() {
        for (language, date, headings, values, point) in LANGUAGES {
            let text = printed(date, headings, values, point);
            for text in [text.clone(), text.replace('\t', " ")] {
                let series =
                    read(&mut text.as_bytes(), "sar.txt").unwrap_or_else(|refused| panic!("{language}: {refused}"));
                let [series] = series.as_slice() else { panic!("{language}") };
                // date -u -d '2026-11-05 12:21:56' +%s
                let at = Moment::from_seconds(1_793_881_316);
                let rows: Vec<_> =
                    series.samples().iter().map(|sample| (sample.at, sample.interval.unwrap().as_secs())).collect();
                assert_eq!(rows, [(at, 1)], "{language}");
                let value = |metric| series.value(metric, 0).unwrap();
                assert!(
                    (value(Metric::CpuSystem) - 10.05).abs() < 1e-9 && (value(Metric::CpuUser) - 57.29).abs() < 1e-9
                );
                assert_eq!(series.value(Metric::Processors, 0), Some(2.0));
                assert_eq!(series.architecture.as_deref(), Some("x86_64"), "{language}");
            }
        }
    }

    #[test]
    fn a_language_that_is_not_read_is_refused_by_what_it_prints() {
        let refused = |text: &str| read(&mut text.as_bytes(), "sar.txt").unwrap_err().0;
        // nb_NO prints no seconds; eu_ES declines the month.
        let norwegian = refused(&printed("5. nov. 2026", "kl. 12.21 +0000", "kl. 12.21 +0000", ","));
        assert!(norwegian.contains("`kl. 12.21 +0000 CPU`") && norwegian.contains("LC_ALL=C sar"), "{norwegian}");
        let basque = refused(&printed("og., 2026.eko azaren 5a", "12:21:55", "12:21:56", ","));
        assert!(basque.contains("`og., 2026.eko azaren 5a`") && basque.contains("LC_ALL=C sar"), "{basque}");
    }

    #[test]
    fn a_restart_before_the_first_number_is_of_the_same_day() {
        let text = "Linux 6.1.0 (db1) \t05/11/26 \t_x86_64_\t(2 CPU)\n\n00:10:00  LINUX RESTART\t(2 CPU)\n\n\
                    00:20:00     CPU     %user     %nice   %system\n00:30:00     all     57,29     32,66     10,05\n";
        let series = read(&mut text.as_bytes(), "sar.txt").unwrap().remove(0);
        let marks: Vec<_> = series.marks.iter().map(|mark| (mark.at, mark.kind.clone())).collect();
        assert_eq!(marks, [(Moment::from_seconds(1_793_836_800 + 600), MarkKind::Restart)]);
        assert_eq!(series.samples()[0].at, Moment::from_seconds(1_793_836_800 + 1800));
    }

    fn table(columns: &str, times: &[&str], values: &str) -> String {
        let rows = times.iter().skip(1).map(|time| format!("{time}     {values}\n"));
        format!("\n{}     {columns}\n{}", times[0], rows.collect::<String>())
    }

    fn hours(series: &Series) -> Vec<i64> {
        series.samples().iter().map(|sample| (sample.at.0 / 1000 - 1_793_836_800) / 3600).collect()
    }

    const CPU: (&str, &str) = ("CPU     %user     %nice   %system", "all     57.29     32.66     10.05");
    const FORKS: (&str, &str) = ("proc/s   cswch/s", "1.00   2.00");

    #[test]
    fn tables_of_a_file_of_many_days_lie_on_each_other() {
        let times = ["00:00:00", "08:00:00", "16:00:00", "00:00:00", "08:00:00", "16:00:00", "00:00:00"];
        let text = format!(
            "Linux 6.1.0 (db1) \t11/05/26 \t_x86_64_\t(2 CPU)\n{}{}",
            table(CPU.0, &times, CPU.1),
            table(FORKS.0, &times, FORKS.1)
        );
        let series = read(&mut text.as_bytes(), "sar.txt").unwrap().remove(0);
        assert_eq!(hours(&series), [8, 16, 24, 32, 40, 48]);
        assert!((0..6).all(|row| series.value(Metric::Forks, row) == Some(1.0)));
        // A page that begins with its headings is of the same table.
        let pages = [table(CPU.0, &times[..4], CPU.1), table(CPU.0, &times[3..], CPU.1)].concat();
        let text =
            format!("Linux 6.1.0 (db1) \t11/05/26 \t_x86_64_\t(2 CPU)\n{pages}{}", table(FORKS.0, &times, FORKS.1));
        assert_eq!(hours(&read(&mut text.as_bytes(), "sar.txt").unwrap()[0]), [8, 16, 24, 32, 40, 48]);
    }

    #[test]
    fn the_same_tables_again_without_a_first_line_are_another_days() {
        let times = ["08:00:00", "09:00:00", "10:00:00"];
        let day = [table(CPU.0, &times, CPU.1), table(FORKS.0, &times, FORKS.1)].concat();
        let text = format!("Linux - ({HEADLESS}) 2026-11-05\n{day}{day}");
        let series = read(&mut text.as_bytes(), "sar.txt").unwrap().remove(0);
        assert_eq!(hours(&series), [9, 10, 33, 34]);
        assert_eq!(series.value(Metric::Forks, 3), Some(1.0));
    }

    #[test]
    fn a_restart_is_told_in_each_table_and_is_one() {
        let table = |(columns, values): (&str, &str)| {
            let before = table(columns, &["00:00:00", "00:30:00"], values);
            let behind = table(columns, &["02:00:00", "12:00:00", "23:00:00"], values);
            format!("{before}\n01:00:00  LINUX RESTART\t(2 CPU)\n{behind}")
        };
        let text = format!("Linux 6.1.0 (db1) \t11/05/26 \t_x86_64_\t(2 CPU)\n{}{}", table(CPU), table(FORKS));
        let series = read(&mut text.as_bytes(), "sar.txt").unwrap().remove(0);
        let marks: Vec<_> = series.marks.iter().map(|mark| mark.at).collect();
        assert_eq!(marks, [Moment::from_seconds(1_793_836_800 + 3600)]);
        assert_eq!(hours(&series), [0, 12, 23]);
        assert!((0..3).all(|row| series.value(Metric::Forks, row) == Some(1.0)));
    }

    #[test]
    fn units_of_sar_human_are_of_kib() {
        for (word, value) in [
            ("2.2G", 2.2 * 1_048_576.0),
            ("86.3M", 86.3 * 1024.0),
            ("12.0k", 12.0),
            ("24.0%", 24.0),
            ("0.0B", 0.0),
            ("2,5T", 2.5 * 1_073_741_824.0),
        ] {
            assert!((number(word).unwrap() - value).abs() < 1e-6, "{word}");
        }
        for word in ["24/s", "2.2X", "G", "k", "-", "1.2.3M"] {
            assert_eq!(number(word), None, "{word}");
        }
    }
}
