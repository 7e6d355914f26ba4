//! Times that stand in the line of what they are of, or alone and without a date.

use super::super::calendar::{self, DAY};
use super::super::stamp::{Stamp, month_named};
use super::super::sysstat::text::time_alone;
use super::super::{proc_log, vmstat};
use super::shown;
use crate::Moment;

/// Words that the longest stamp has: `2026年 11月 20日 金曜日 08:00:00 JST`, `Fri Nov 20 08:00:00 PM CET 2026`.
const MOST_WORDS: usize = 7;

/// Lines without their times.
pub(super) struct Timed {
    pub(super) lines: Vec<String>,
    /// The time of each line that has one, and of each that stands behind or before a time alone.
    at: Vec<Option<Moment>>,
    /// Whether its times have dates.
    pub(super) dated: bool,
}

/// A time as a line has it.
enum Time {
    /// With its date.
    Whole(Moment),
    /// Month, day and seconds since midnight, as `ts` writes them.
    OfYear(i64, i64, i64),
    /// Seconds since midnight.
    OfDay(i64),
}

/// Takes the times out of lines of vmstat and fields of the kernel's files; `None` where they have none. Times of day alone are of
/// the day that `began`, and of the next where they fall.
pub(super) fn of(lines: &[String], began: Moment) -> Option<Timed> {
    let mut timed = Timed { lines: Vec::new(), at: Vec::new(), dated: true };
    let mut day = began.0.div_euclid(1000).div_euclid(DAY);
    let mut last: Option<i64> = None;
    let mut moment = |time: Time, dated: &mut bool| match time {
        Time::Whole(at) => at,
        Time::OfYear(month, day, second) => {
            *dated = false;
            let year = calendar::date(began.0.div_euclid(1000)).map_or(1970, |(year, ..)| year);
            Moment::from_seconds(calendar::midnight(year, month, day).unwrap_or(0) + second)
        }
        Time::OfDay(second) => {
            *dated = false;
            // Behind midnight; a line that came late is none of the next day's.
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
            behind(&words)
        } else {
            alone(&words).map(|time| (time, Vec::new())).or_else(|| before(&words))
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
    // One time somewhere in a text of a thousand lines is none of theirs.
    (with > 0 && with * 64 >= rows).then_some(timed)
}

/// Whether words are what vmstat or the kernel's files have in a line, and perhaps more behind.
fn is_of_tool(words: &[&str]) -> bool {
    let line = |count: usize| words.get(..count).map(|words| words.join(" "));
    vmstat::is_heading(&words.join(" "))
        || [2, 3].into_iter().filter_map(line).any(|line| proc_log::is_field(&line))
        || is_row(words)
}

/// A row of vmstat.
fn is_row(words: &[&str]) -> bool {
    let number = |word: &&str| word.bytes().all(|digit| digit.is_ascii_digit());
    words.len() >= 5
        && words.iter().take(5).all(number)
        && words.first().is_some_and(|first| Stamp::parse(first).is_none())
}

/// A line that is nothing but a time: `08:00:00`, and what `watch` puts above.
fn alone(words: &[&str]) -> Option<Time> {
    if words.first() == Some(&"Every") {
        let of = |count: usize| {
            words.get(words.len().checked_sub(count)?..).and_then(|words| Stamp::parse(&words.join(" ")))
        };
        return (1..=MOST_WORDS).rev().find_map(of).map(|stamp| Time::Whole(stamp.at));
    }
    let clock = words.iter().take(2).any(|word| word.contains([':', '時', '时', '시']));
    let of_year = || {
        let &[month, day, time] = words else { return None };
        Some(Time::OfYear(month_named(month)?, day.parse().ok()?, calendar::time_of_day(time)?))
    };
    let whole = || Stamp::parse(&words.join(" ")).map(|stamp| Time::Whole(stamp.at));
    time_alone(words).filter(|_| clock).map(Time::OfDay).or_else(of_year).or_else(whole)
}

/// A time with what is of it behind: `08:00:00 PageTables: 1 kB`.
fn before<'a>(words: &[&'a str]) -> Option<(Time, Vec<&'a str>)> {
    (1..=MOST_WORDS.min(words.len().saturating_sub(1))).rev().find_map(|count| {
        let (time, rest) = words.split_at_checked(count).filter(|(_, rest)| is_of_tool(rest))?;
        let time = alone(time)?;
        Some((time, rest.to_vec()))
    })
}

/// A field with its time behind: `PageTables: 1 kB  Fri Nov 20 08:00:00 CET 2026`.
fn behind<'a>(words: &[&'a str]) -> Option<(Time, Vec<&'a str>)> {
    let place = (2..=3).rev().find(|count| {
        words.len() > *count && words.get(..*count).is_some_and(|words| proc_log::is_field(&words.join(" ")))
    })?;
    let (field, time) = words.split_at_checked(place)?;
    Some((alone(time)?, field.to_vec()))
}

/// As `vmstat -t` prints it. A time alone is of the lines behind it.
pub(super) fn vmstat(timed: &Timed) -> String {
    let mut text = String::new();
    let mut last = None;
    for (line, at) in timed.lines.iter().zip(&timed.at) {
        last = at.or(last);
        if vmstat::is_heading(line) {
            text += &format!("{line}                 UTC\n");
        } else if is_row(&line.split_ascii_whitespace().collect::<Vec<_>>())
            && let Some(at) = last
        {
            text += &format!("{line} {}\n", second(at));
        }
    }
    text
}

/// As a loop with `date` prints it, which stands where it stood.
pub(super) fn fields(timed: &Timed) -> String {
    let mut text = String::new();
    let mut last = None;
    for (line, at) in timed.lines.iter().zip(&timed.at) {
        // Each field of a look may have it.
        if let Some(at) = at.filter(|at| Some(*at) != last) {
            text += &format!("{}\n", second(at));
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

/// `2026-11-20 08:00:00`.
fn second(at: Moment) -> String {
    shown(Moment(at.0 - at.0.rem_euclid(1000))).replace('T', " ")
}
