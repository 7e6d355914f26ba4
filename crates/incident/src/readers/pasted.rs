//! What people paste: a part of what a tool printed, out of a ticket, a mail or a terminal, with what came along on the way.
//!
//! Marks of quotations, prompts and a terminal's colours are taken off, and what stands before the first line that is known is
//! left out. Tables of sar without their first line and lines without any time are read where the person says what they
//! lack: when they began, and how far apart they are.

use std::time::Duration;

use super::sysstat::text::is_heading;
use super::{Format, UNKNOWN, read_known};
use crate::{Moment, Refused, Series};

/// Text that is looked through; nobody pastes more.
pub(super) const MOST: usize = 16 << 20;
/// Lines at which a format may begin.
const MOST_BEFORE: usize = 400;
/// Bytes that tell a format, and how often one may turn out to be none.
const HEAD: usize = 64 << 10;
const MOST_TRIED: usize = 8;
/// When something began of which nobody says it: no host's own time.
const NO_TIME: Moment = Moment(0);

/// What a person says of text that does not say it itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pasted {
    /// How far apart lines without times are.
    pub interval: Option<Duration>,
    /// When they began, by the host's clock.
    pub began: Option<Moment>,
}

/// Reads pasted text.
///
/// # Errors
/// Nothing in it is known, or it lacks times and nobody says them.
pub(super) fn read(bytes: &[u8], source: &str, pasted: Pasted) -> Result<Vec<Series>, Refused> {
    let unknown = || Refused(UNKNOWN.into());
    if bytes.contains(&0) {
        return Err(unknown());
    }
    let lines = cleaned(&String::from_utf8_lossy(bytes));
    let plain = |from: usize| {
        let mut text = lines.get(from..).unwrap_or_default().join("\n");
        text.push('\n');
        text
    };
    let mut tried = 0_usize;
    // What is known by itself, once it is clean.
    for from in (0..lines.len()).take(MOST_BEFORE) {
        let line = lines.get(from).map_or("", String::as_str);
        if line.trim().is_empty() || !may_begin(line) {
            continue;
        }
        let Some(format) = Format::of(head(lines.get(from..).unwrap_or_default()).as_bytes()) else { continue };
        // Text that looks like something at every line is read as often as this, and no more.
        tried += 1;
        if tried > MOST_TRIED {
            break;
        }
        let text = plain(from);
        let Ok(mut all) = read_known(format, &mut text.as_bytes(), source, false) else { continue };
        if from > 0 {
            let before = if from == 1 { "a line".to_owned() } else { format!("{from} lines") };
            all.iter_mut().for_each(|series| {
                series.problem(format!("{before} before it are from no known tool and are left out"))
            });
        }
        return Ok(all);
    }
    if let Some(from) = lines.iter().position(|line| is_heading(line)) {
        return sar(&plain(from), source, pasted);
    }
    undated(&lines, source, pasted)?.ok_or_else(unknown)
}

/// As much of some lines as tells a format.
fn head(lines: &[String]) -> String {
    let mut head = String::new();
    for line in lines.iter().take_while(|line| may_begin(line)) {
        if head.len() + line.len() > HEAD {
            break;
        }
        head.push_str(line);
        head.push('\n');
    }
    head
}

/// Whether it is worth to look whether a format begins here: it does so at a line of some words.
fn may_begin(line: &str) -> bool {
    line.len() <= 4096
}

/// Lines without marks of quotations, a terminal's sequences and blanks that are none.
fn cleaned(text: &str) -> Vec<String> {
    let text = text.trim_start_matches('\u{feff}');
    let quoted = |line: &str| line.trim_start().starts_with(['>', '|']) || line.trim().is_empty();
    let all = text.lines().filter(|line| !line.trim().is_empty()).count();
    let marked = text.lines().filter(|line| !line.trim().is_empty() && quoted(line)).count();
    // Most of it is one quotation, or none of it is.
    let is_quoted = all > 0 && marked * 2 > all;
    let clean = |line: &str| {
        let line: String = without_sequences(line).replace('\u{a0}', " ");
        let line = line.trim_end();
        if !is_quoted {
            return line.to_owned();
        }
        let mut rest = line.trim_start();
        while let Some(inner) = rest.strip_prefix(['>', '|']) {
            rest = inner.strip_prefix(' ').unwrap_or(inner);
        }
        rest.trim_end_matches(['|', ' ']).to_owned()
    };
    text.lines().map(clean).collect()
}

/// A line without what colours it: ESC [ ... letter.
fn without_sequences(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            plain.push(letter);
        } else if letters.next() == Some('[') {
            let _ = letters.find(char::is_ascii_alphabetic);
        }
    }
    plain
}

/// `2026-11-21T08:00:00`, by the clock that the moment is of.
fn shown(at: Moment) -> String {
    let time = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    jiff::tz::Offset::UTC.to_datetime(time).to_string()
}

/// Tables of sar without their first line, of a day that is said or of none.
fn sar(text: &str, source: &str, pasted: Pasted) -> Result<Vec<Series>, Refused> {
    let day = shown(pasted.began.unwrap_or(NO_TIME));
    let day = day.split('T').next().unwrap_or("1970-01-01");
    let whole = format!("Linux - (-) {day}\n{text}");
    let mut all = read_known(Format::Sar, &mut whole.as_bytes(), source, false)?;
    for series in &mut all {
        (series.host, series.kernel) = (None, None);
        series.problem(match pasted.began {
            Some(_) => "begins without sar's first line: its day is taken from --from".to_owned(),
            None => "begins without sar's first line, which has the day: shown as 1970-01-01; give the day with --from"
                .to_owned(),
        });
    }
    Ok(all)
}

/// Lines of vmstat, and fields of /proc/meminfo or /proc/vmstat again and again, without any time; `None` for anything else.
fn undated(lines: &[String], source: &str, pasted: Pasted) -> Result<Option<Vec<Series>>, Refused> {
    let is_vmstat = |line: &String| line.split_ascii_whitespace().take(3).eq(["r", "b", "swpd"]);
    let heading = lines.iter().position(is_vmstat);
    let first = lines.iter().position(|line| super::proc_log::is_field(line));
    let (from, of_vmstat) = match (heading, first) {
        (Some(heading), _) => (heading, true),
        (None, Some(first)) => (first, false),
        (None, None) => return Ok(None),
    };
    let Some(interval) = pasted.interval.filter(|interval| !interval.is_zero()) else {
        return Err(Refused(
            "has no times: say with --interval 3s how far apart its lines are, and with --from when they began".into(),
        ));
    };
    let lines = lines.get(from..).unwrap_or_default();
    let mut clock = Ticks { at: pasted.began.unwrap_or(NO_TIME), interval };
    let text = if of_vmstat { vmstat(lines, &mut clock) } else { fields(lines, &mut clock) };
    let format = if of_vmstat { Format::Vmstat } else { Format::ProcLog };
    let mut all = read_known(format, &mut text.as_bytes(), source, false)?;
    for series in &mut all {
        series.problem(match pasted.began {
            Some(_) => "has no times: counted from --from by --interval".to_owned(),
            None => "has no times: counted by --interval from 1970-01-01; say with --from when it began".to_owned(),
        });
    }
    Ok(Some(all))
}

/// Moments one after another, as text.
struct Ticks {
    at: Moment,
    interval: Duration,
}

impl Ticks {
    fn next(&mut self) -> String {
        let shown = shown(self.at);
        let step = i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX);
        self.at = Moment(self.at.0.saturating_add(step));
        shown
    }
}

/// As `vmstat -t` prints it.
fn vmstat(lines: &[String], clock: &mut Ticks) -> String {
    let mut text = String::new();
    for line in lines {
        let first = line.split_ascii_whitespace().next();
        if first == Some("r") {
            text += &format!("{line}                 UTC\n");
        } else if first.is_some_and(|word| word.bytes().all(|digit| digit.is_ascii_digit())) {
            text += &format!("{line} {}\n", clock.next().replace('T', " "));
        }
    }
    text
}

/// As a loop with `date` before each look prints it: a look begins where the first of its fields comes again.
fn fields(lines: &[String], clock: &mut Ticks) -> String {
    let name = |line: &str| line.split_ascii_whitespace().next().map(str::to_owned);
    let known = || lines.iter().filter(|line| super::proc_log::is_field(line));
    let first = known().next().and_then(|line| name(line));
    let mut text = String::new();
    for line in known() {
        if name(line) == first {
            text += &format!("{}\n", clock.next());
        }
        // What somebody wrote beside it is none of its.
        text += &line.split_ascii_whitespace().take(3).collect::<Vec<_>>().join(" ");
        text.push('\n');
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn text_that_looks_like_something_at_every_line_is_refused() {
        let text = "{ \"not\": \"sadf\"\n".repeat(20_000);
        assert!(read(text.as_bytes(), "x", Pasted::default()).is_err());
    }
}
