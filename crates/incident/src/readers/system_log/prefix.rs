//! What stands before a message in a system log: its time, its host, and who says it.

use crate::readers::calendar::{midnight, time_of_day};
use crate::readers::stamp::{Stamp, month_named};

/// When a line was written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum When {
    /// At a moment.
    At(Stamp),
    /// At a time of a year that it does not say: month, day, and milliseconds of the day.
    OfSomeYear(i64, i64, i64),
    /// So many milliseconds after the kernel started.
    SinceBoot(i64),
}

/// One line, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line<'a> {
    pub(super) when: When,
    /// The host, where the line says it.
    pub(super) host: Option<&'a str>,
    /// Who says it: `kernel`, `systemd[1]`.
    pub(super) tag: &'a str,
    pub(super) message: &'a str,
}

impl<'a> Line<'a> {
    /// Takes a line apart; `None` for one of another form.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let line = without_priority(line);
        bracketed(line)
            .or_else(|| rfc5424(line))
            .or_else(|| iso(line))
            .or_else(|| named_day(line))
            .or_else(|| classic(line))
            .or_else(|| unix(line))
            .or_else(|| spaced(line))
            .or_else(|| device(line))
    }
}

/// What syslog's protocol and `dmesg -r` put before a line: `<3>`.
fn without_priority(line: &str) -> &str {
    let inner = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let number = |text: &str| (1..=3).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit());
    inner.filter(|(priority, _)| number(priority)).map_or(line, |(_, rest)| rest)
}

/// `[Sat Nov 21 22:47:35 2026] text` and `[12345.678901] text`, as dmesg prints them, with `kern  :info  : ` before, and with
/// what passed since the line before (`dmesg -d`).
fn bracketed(line: &str) -> Option<Line<'_>> {
    let mut facility = line.splitn(3, ':');
    let line = match (facility.next(), facility.next(), facility.next()) {
        (Some(facility), Some(level), Some(rest)) if is_word(facility) && is_word(level) => rest.trim_start(),
        _ => line,
    };
    let (inside, message) = line.strip_prefix('[')?.split_once(']')?;
    let inside = inside.split_once('<').map_or(inside, |(inside, _)| inside).trim();
    // dmesg puts no ISO time in brackets; a JVM and PostgreSQL do.
    if inside.get(4..5) == Some("-") {
        return None;
    }
    let message = without_caller(message.trim_start());
    if is_uptime(inside) {
        // `journalctl -o short-monotonic` has the host and who says it.
        let when = When::SinceBoot(milliseconds(inside)?);
        let told = message.split_once(' ').is_some_and(|(_, rest)| rest.starts_with("kernel: "));
        return match told.then(|| tagged(when.clone(), message)).flatten() {
            Some(line) => Some(line),
            None => Some(Line { when, host: None, tag: "kernel", message }),
        };
    }
    Some(Line { when: When::At(Stamp::parse(inside)?), host: None, tag: "kernel", message })
}

/// `1 2026-11-21T22:47:35.123456+01:00 host kernel - - - text`.
fn rfc5424(line: &str) -> Option<Line<'_>> {
    let mut words = line.strip_prefix("1 ")?.splitn(7, ' ');
    let when = When::At(Stamp::parse(words.next()?)?);
    let (host, tag) = (words.next()?, words.next()?);
    let (_process, _kind, _data) = (words.next()?, words.next()?, words.next().filter(|data| *data == "-")?);
    let message = words.next()?.trim_start_matches('\u{feff}');
    Some(Line { when, host: Some(host), tag, message: without_uptime(tag, message) })
}

/// `1795301255.123456 host kernel: text` of `journalctl -o short-unix`.
fn unix(line: &str) -> Option<Line<'_>> {
    let (first, rest) = line.split_once(' ')?;
    let seconds = first.len() >= 12 && is_uptime(first);
    tagged(When::At(Stamp::parse(first).filter(|_| seconds)?), rest)
}

/// `2026-11-21 22:47:35 host kernel: text`. Other programs write lines like that: who says it has to be told as syslog tells it.
fn spaced(line: &str) -> Option<Line<'_>> {
    let mut words = line.splitn(3, ' ');
    let (date, time, rest) = (words.next()?, words.next()?, words.next()?);
    let when = When::At(Stamp::parse(&format!("{date} {time}")).filter(|_| date.contains('-'))?);
    tagged(when, rest).filter(|line| line.tag == "kernel" || line.tag.ends_with(']'))
}

/// `3,1234,4000100000,-;text`, as /dev/kmsg has it: microseconds since the kernel started.
fn device(line: &str) -> Option<Line<'_>> {
    let (before, message) = line.split_once(';')?;
    let mut parts = before.split(',').map(|part| part.parse::<i64>().ok());
    let (_level, _number, at) = (parts.next()??, parts.next()??, parts.next()??);
    Some(Line { when: When::SinceBoot(at / 1000), host: None, tag: "kernel", message: without_caller(message) })
}

/// `2026-11-21T22:47:35,123456+00:00 text` of `dmesg --time-format iso`, and `2026-11-21T22:47:35.123456+00:00 host tag: text`.
fn iso(line: &str) -> Option<Line<'_>> {
    let (first, rest) = line.split_once(' ')?;
    if !first.contains('T') {
        return None;
    }
    let when = When::At(Stamp::parse(first)?);
    match first.contains(',') {
        true => Some(Line { when, host: None, tag: "kernel", message: rest.trim_start() }),
        false => tagged(when, rest),
    }
}

/// `Sat 2026-11-21 22:47:35 UTC host tag: text` of `journalctl -o short-full`.
fn named_day(line: &str) -> Option<Line<'_>> {
    let (day, rest) = line.split_once(' ')?;
    if day.len() != 3 {
        return None;
    }
    let mut words = rest.splitn(4, ' ');
    let (date, time, zone, rest) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let when = When::At(Stamp::parse(&format!("{date} {time} {zone}"))?);
    tagged(when, rest)
}

/// `Nov 21 22:47:35 host tag: text`, with a part of a second or without.
fn classic(line: &str) -> Option<Line<'_>> {
    let (month, rest) = line.split_once(' ')?;
    // journalctl writes the month in the language of whoever ran it.
    let month = month_named(month)?;
    let (day, rest) = rest.trim_start().split_once(' ')?;
    let day: i64 = day.parse().ok()?;
    let (time, rest) = rest.split_once(' ')?;
    let (clock, part) = time.split_once('.').unwrap_or((time, ""));
    let thousandths: String = part.chars().chain("000".chars()).take(3).collect();
    let of_day = time_of_day(clock)? * 1000 + thousandths.parse::<i64>().ok()?;
    // A leap year has every day.
    midnight(2000, month, day)?;
    tagged(When::OfSomeYear(month, day, of_day), rest)
}

fn tagged(when: When, rest: &str) -> Option<Line<'_>> {
    let (host, rest) = rest.trim_start().split_once(' ')?;
    let (tag, message) = rest.split_once(": ").or_else(|| rest.strip_suffix(':').map(|tag| (tag, "")))?;
    // What stands in brackets is a server's process in a log of its own.
    if tag.is_empty() || tag.contains(' ') || tag.len() > 64 || tag.starts_with('[') || host.starts_with('[') {
        return None;
    }
    Some(Line { when, host: Some(host), tag, message: without_uptime(tag, message) })
}

/// A message without the ring buffer's own time, which rsyslog keeps.
fn without_uptime<'a>(tag: &str, message: &'a str) -> &'a str {
    let uptime = message.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match uptime {
        Some((inside, rest)) if tag == "kernel" && is_uptime(inside.trim()) => without_caller(rest.trim_start()),
        _ => message,
    }
}

/// A message without the task or processor that wrote it, which kernels with CONFIG_PRINTK_CALLER put before: `[ T4711]`.
fn without_caller(message: &str) -> &str {
    let caller = message.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let is_caller = |inside: &str| {
        let number = inside.trim_start().strip_prefix(['T', 'C']);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
    };
    caller.filter(|(inside, _)| is_caller(inside)).map_or(message, |(_, rest)| rest.trim_start())
}

fn is_word(text: &str) -> bool {
    let text = text.trim_end();
    !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_lowercase())
}

/// Milliseconds of `12345.678901`.
fn milliseconds(text: &str) -> Option<i64> {
    let (seconds, part) = text.split_once('.')?;
    let thousandths: String = part.chars().chain("000".chars()).take(3).collect();
    seconds.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(thousandths.parse().ok()?)
}

/// `12345.678901`.
fn is_uptime(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    text.split_once('.').is_some_and(|(seconds, part)| digits(seconds) && digits(part))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Moment;

    /// `date -u -d '2026-11-21 22:47:35' +%s`
    const THEN: i64 = 1_795_301_255;

    #[test]
    fn lines_of_every_tool_are_taken_apart() {
        let text = "INFO: task oracle:4711 blocked for more than 120 seconds.";
        for (line, at, host) in [
            ("[Sat Nov 21 22:47:35 2026] ", Some((THEN * 1000, None)), None),
            ("kern  :err   : [Sat Nov 21 22:47:35 2026] ", Some((THEN * 1000, None)), None),
            ("2026-11-21T23:47:35,250000+01:00 ", Some((THEN * 1000 + 250, Some(3600))), None),
            (
                "2026-11-21T23:47:35.250000+01:00 db7 kernel: [ 4321.000001] ",
                Some((THEN * 1000 + 250, Some(3600))),
                Some("db7"),
            ),
            ("2026-11-21T22:47:35+0000 db7 kernel: ", Some((THEN * 1000, Some(0))), Some("db7")),
            ("Sat 2026-11-21 22:47:35 UTC db7 kernel: ", Some((THEN * 1000, Some(0))), Some("db7")),
        ] {
            let whole = format!("{line}{text}");
            let parsed = Line::parse(&whole).unwrap_or_else(|| panic!("{whole}"));
            let When::At(stamp) = &parsed.when else { panic!("{whole}: {parsed:?}") };
            assert_eq!(Some((stamp.at.0, stamp.offset)), at, "{whole}");
            assert_eq!((parsed.host, parsed.tag, parsed.message), (host, "kernel", text), "{whole}");
        }
        let classic = format!("Nov  1 02:00:05.5 db7 kernel: [ 4321.000001] {text}");
        let classic = Line::parse(&classic).unwrap();
        assert_eq!(classic.when, When::OfSomeYear(11, 1, 7_205_500));
        assert_eq!((classic.host, classic.message), (Some("db7"), text));
        let raw = format!("<3>[ 4321.000001] {text}");
        let raw = Line::parse(&raw).unwrap();
        assert_eq!((raw.when, raw.message), (When::SinceBoot(4_321_000), text));
        let other = Line::parse("Feb 29 00:00:00 db7 systemd[1]: Shutting down.").unwrap();
        assert_eq!((other.tag, other.message), ("systemd[1]", "Shutting down."));
        assert_eq!(Stamp::parse("2026-11-21T22:47:35Z").unwrap().at, Moment::from_seconds(THEN));
    }

    #[test]
    fn other_lines_are_none() {
        for line in [
            "",
            "MemTotal: 16 kB",
            "Nov 31 22:47:35 db7 kernel: x",
            "Nov 21 22:47:35 db7",
            "[hello] x",
            "[12:30] x",
            // A JVM's.
            "[2026-11-21T22:47:35.713+0000][info][gc] GC(1) Pause Young (Normal) (G1 Evacuation Pause)",
        ] {
            assert_eq!(Line::parse(line), None, "{line}");
        }
    }
}
