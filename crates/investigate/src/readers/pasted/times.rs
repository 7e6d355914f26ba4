//! Times in the line of what they are of, or alone and without a date.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::line_timestamp::{LineTimestamp, month_named};
use super::super::sysstat::text::parse_time_of_day;
use super::super::{proc_log, vmstat};
use super::format_moment;
use crate::Moment;
use hugewise_model::calendar::{self, DAY};

/// Bytes of top's headings, which are written anew for each pass.
const LONGEST_HEADING: usize = 256;
/// How far apart passes of top are unless told otherwise.
pub(super) const TOP_DELAY: Duration = Duration::from_secs(3);
/// Words of the longest stamp: `Fri Nov 20 08:00:00 PM CET 2026`.
const MOST_WORDS: usize = 7;

pub(super) struct Timed {
    pub(super) lines: Vec<String>,
    at: Vec<Option<Moment>>,
    pub(super) dated: bool,
}

enum LineTime {
    /// With its date.
    Whole(Moment),
    /// Month, day and seconds since midnight, as `ts` writes them.
    OfYear(i64, i64, i64),
    /// Seconds since midnight.
    OfDay(i64),
}

/// Takes the times out of lines of vmstat and fields of the kernel's files; `None` without any.
/// Times of day are of the day that `began`, and of the next one where they fall.
pub(super) fn extract_times(lines: &[String], began: Moment) -> Option<Timed> {
    let mut timed = Timed { lines: Vec::new(), at: Vec::new(), dated: true };
    let mut day = began.0.div_euclid(1000).div_euclid(DAY);
    let mut last: Option<i64> = None;
    let mut moment = |time: LineTime, dated: &mut bool| match time {
        LineTime::Whole(at) => at,
        LineTime::OfYear(month, day, second) => {
            *dated = false;
            let year =
                calendar::civil_date(began.0.div_euclid(1000)).map_or(1970, |(year, ..)| year);
            Moment::from_seconds(calendar::midnight_seconds(year, month, day).unwrap_or(0) + second)
        }
        LineTime::OfDay(second) => {
            *dated = false;
            // After midnight; a line that came late does not begin the next day.
            if last.is_some_and(|last| last - second > DAY / 2) {
                day += 1;
            }
            last = Some(second);
            Moment::from_seconds(day * DAY + second)
        }
    };
    let (mut rows, mut with) = (0_usize, 0_usize);
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().take(64).collect();
        let of_tool = is_of_tool(&words);
        let found = if of_tool {
            split_trailing_time(&words)
        } else {
            parse_time_alone(&words)
                .map(|time| (time, Vec::new()))
                .or_else(|| split_leading_time(&words))
        };
        match found {
            Some((time, rest)) => {
                let at = moment(time, &mut timed.dated);
                rows += usize::from(!rest.is_empty());
                with += 1;
                timed.lines.push(rest.join(" "));
                timed.at.push(Some(at));
            }
            None => {
                rows += usize::from(of_tool);
                timed.lines.push(line.clone());
                timed.at.push(None);
            }
        }
    }
    // One time somewhere in a thousand lines is not theirs.
    (with > 0 && with * 64 >= rows).then_some(timed)
}

/// Whether words begin like a line of vmstat or of the kernel's files.
fn is_of_tool(words: &[&str]) -> bool {
    let line = |count: usize| words.get(..count).map(|words| words.join(" "));
    vmstat::is_heading(&words.join(" "))
        || [2, 3].into_iter().filter_map(line).any(|line| proc_log::is_field(&line))
        || is_row(words)
}

fn is_row(words: &[&str]) -> bool {
    let number = |word: &&str| word.bytes().all(|digit| digit.is_ascii_digit());
    words.len() >= 5
        && words.iter().take(5).all(number)
        && words.first().is_some_and(|first| LineTimestamp::parse(first).is_none())
}

/// A line that is only a time: `08:00:00`, or the heading of `watch`.
fn parse_time_alone(words: &[&str]) -> Option<LineTime> {
    if words.first() == Some(&"Every") {
        let line_timestamp_of = |count: usize| {
            words
                .get(words.len().checked_sub(count)?..)
                .and_then(|words| LineTimestamp::parse(&words.join(" ")))
        };
        return (1..=MOST_WORDS)
            .rev()
            .find_map(line_timestamp_of)
            .map(|stamp| LineTime::Whole(stamp.at));
    }
    let clock = words.iter().take(2).any(|word| word.contains([':', '時', '时', '시']));
    let of_year = || {
        let &[month, day, time] = words else { return None };
        Some(LineTime::OfYear(month_named(month)?, day.parse().ok()?, calendar::time_of_day(time)?))
    };
    let whole = || LineTimestamp::parse(&words.join(" ")).map(|stamp| LineTime::Whole(stamp.at));
    parse_time_of_day(words).filter(|_| clock).map(LineTime::OfDay).or_else(of_year).or_else(whole)
}

/// A time before a line: `08:00:00 PageTables: 1 kB`.
fn split_leading_time<'a>(words: &[&'a str]) -> Option<(LineTime, Vec<&'a str>)> {
    (1..=MOST_WORDS.min(words.len().saturating_sub(1))).rev().find_map(|count| {
        let (time, rest) = words.split_at_checked(count).filter(|(_, rest)| is_of_tool(rest))?;
        let time = parse_time_alone(time)?;
        Some((time, rest.to_vec()))
    })
}

/// A time behind a field: `PageTables: 1 kB  Fri Nov 20 08:00:00 CET 2026`.
fn split_trailing_time<'a>(words: &[&'a str]) -> Option<(LineTime, Vec<&'a str>)> {
    let place = (2..=3).rev().find(|count| {
        words.len() > *count
            && words.get(..*count).is_some_and(|words| proc_log::is_field(&words.join(" ")))
    })?;
    let (field, time) = words.split_at_checked(place)?;
    Some((parse_time_alone(time)?, field.to_vec()))
}

/// As `vmstat -t` prints it. A time alone is of the lines behind it.
pub(super) fn render_vmstat(timed: &Timed) -> String {
    let mut text = String::new();
    let mut last = None;
    for (line, at) in timed.lines.iter().zip(&timed.at) {
        last = at.or(last);
        if vmstat::is_heading(line) {
            text += &format!("{line}                 UTC\n");
        } else if is_row(&line.split_ascii_whitespace().collect::<Vec<_>>())
            && let Some(at) = last
        {
            text += &format!("{line} {}\n", render_second(at));
        }
    }
    text
}

/// As a loop with `date` prints it, in the same order.
pub(super) fn render_fields(timed: &Timed) -> String {
    let mut text = String::new();
    let mut last = None;
    for (line, at) in timed.lines.iter().zip(&timed.at) {
        // Each field of a snapshot may have the time.
        if let Some(at) = at.filter(|at| Some(*at) != last) {
            text += &format!("{}\n", render_second(at));
            last = Some(at);
        }
        let words: Vec<&str> = line.split_ascii_whitespace().take(3).collect();
        let field = words.join(" ");
        if proc_log::is_field(&field) {
            text += &field;
            text.push('\n');
        }
    }
    text
}

/// Rows of top without the lines above its table, as grep leaves them: a pass begins at headings, and
/// where a process comes again. Unless somebody says otherwise, top writes one every three seconds.
pub(super) fn render_top_rows(
    lines: &[String],
    began: Moment,
    interval: Option<Duration>,
) -> Option<String> {
    let is_heading = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        words.first() == Some(&"PID") && words.contains(&"%CPU") && words.contains(&"TIME+")
    };
    let from = lines.iter().position(|line| is_heading(line))?;
    let heading = lines.get(from).filter(|heading| heading.len() <= LONGEST_HEADING)?;
    let columns = heading.split_ascii_whitespace().count();
    let interval = interval.filter(|interval| !interval.is_zero()).unwrap_or(TOP_DELAY);
    let step = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
    let (mut text, mut at, mut seen) = (String::new(), began, BTreeSet::new());
    let mut rows = 0_usize;
    for line in lines.iter().skip(from) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let pid = words.first().and_then(|word| word.parse::<u64>().ok());
        // Prompts and what other commands print is no row; arguments make a row longer.
        let row =
            pid.filter(|_| words.len() >= columns && words.iter().any(|word| word.contains(':')));
        let again = row.is_some_and(|pid| !seen.insert(pid));
        if is_heading(line) || again {
            seen.clear();
            seen.extend(row);
            if !text.is_empty() && !text.ends_with(&format!("{heading}\n")) {
                at = Moment(at.0.saturating_add(step));
            }
            let second = render_second(at);
            let time = second.split(' ').nth(1).unwrap_or_default();
            text += &format!("{second}\ntop - {time}\n{heading}\n");
        }
        if row.is_some() {
            rows += 1;
            text += line;
            text.push('\n');
        }
    }
    (rows > 0).then_some(text)
}

fn render_second(at: Moment) -> String {
    format_moment(Moment(at.0 - at.0.rem_euclid(1000))).replace('T', " ")
}
