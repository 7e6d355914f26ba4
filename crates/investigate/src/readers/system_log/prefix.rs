//! What stands before a message in a system log: its time, host and sender.

use crate::readers::line_timestamp::{LineTimestamp, month_named};
use hugewise_model::calendar::{midnight_seconds, thousandths, time_of_day};

/// Words of a time in a prefix.
const TIME_WORDS: usize = 5;
/// Bytes that may stand before the kernel's own time.
const LONGEST_PREFIX: usize = 96;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum LogLineTime {
    /// A moment.
    At(LineTimestamp),
    /// Month, day, and milliseconds of the day, without a year.
    OfSomeYear(i64, i64, i64),
    /// The same for a minute: the lines behind it say how much later they are.
    OfSomeMinute(i64, i64, i64),
    /// Milliseconds of some day.
    OfSomeDay(i64),
    /// Milliseconds since boot.
    SinceBoot(i64),
    /// A time of the calendar, and milliseconds since boot.
    Dated(Box<LogLineTime>, i64),
    /// Milliseconds since the line before.
    SinceLine(i64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct SystemLogLine<'a> {
    pub(super) when: LogLineTime,
    pub(super) host: Option<&'a str>,
    /// The sender: `kernel`, `systemd[1]`.
    pub(super) tag: &'a str,
    pub(super) message: &'a str,
}

impl<'a> SystemLogLine<'a> {
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        // The first line of a quotation may be the only one that is marked.
        let line = strip_priority(line.strip_prefix("> ").unwrap_or(line));
        parse_bracketed(line)
            .or_else(|| parse_rfc5424(line))
            .or_else(|| parse_iso(line))
            .or_else(|| parse_named_day(line))
            .or_else(|| parse_classic(line))
            .or_else(|| parse_unix_time(line))
            .or_else(|| parse_spaced(line))
            .or_else(|| parse_kmsg(line))
            .or_else(|| parse_time_of_day(line))
            .or_else(|| parse_behind_prefix(line))
            .or_else(|| parse_behind_file(line))
            .or_else(|| parse_earlyoom(line))
    }

    /// With the time of whatever else wrote the line down, where it has only seconds since boot.
    pub(super) fn dated_by(self, stamp: Option<LineTimestamp>) -> Self {
        let when = match (self.when, stamp) {
            (LogLineTime::SinceBoot(since), Some(stamp)) => {
                LogLineTime::Dated(Box::new(LogLineTime::At(stamp)), since)
            }
            (when, _) => when,
        };
        // Whoever writes to a container's log writes the rest, too.
        Self { when, host: self.host.or(Some("-")), ..self }
    }

    /// The first line of a warning on every terminal, `Message from syslogd@db1 at Nov 21 22:47:35
    /// ...`; the message comes next.
    pub(super) fn parse_announcement(line: &'a str) -> Option<Self> {
        let (host, time) = line.strip_prefix("Message from syslogd@")?.split_once(" at ")?;
        let time = time.trim_end_matches(['.', ' ']);
        let (month, rest) = time.split_once(' ')?;
        let (day, time) = rest.trim_start().split_once(' ')?;
        let when = parse_day_of_year(month, day, time)?;
        Some(Self { when, host: Some(host), tag: "kernel", message: "" })
    }

    /// The message behind [`Self::parse_announcement`]: ` kernel:BUG: soft lockup - CPU#3 ...`.
    pub(super) fn parse_announced(
        announced: &Self,
        line: &'a str,
    ) -> Option<(LogLineTime, &'a str)> {
        let message = line.trim_start().strip_prefix("kernel:")?;
        Some((announced.when.clone(), strip_uptime("kernel", message.trim_start())))
    }
}

/// The time in a prefix that is not known: with its day, perhaps without a year.
pub(super) fn find_prefix_time(prefix: &str) -> Option<LogLineTime> {
    let marks = |letter: char| matches!(letter, '[' | ']' | '"' | ',' | '@' | '|');
    let words: Vec<&str> = prefix
        .split_whitespace()
        .map(|word| word.trim_matches(marks).trim_end_matches("]:").trim_end_matches(':'))
        .filter(|word| !word.is_empty())
        .collect();
    for length in (1..=TIME_WORDS).rev() {
        let mut parts = words.windows(length).map(|part| LineTimestamp::parse(&part.join(" ")));
        if let Some(stamp) = parts.find_map(|stamp| stamp) {
            return Some(LogLineTime::At(stamp));
        }
    }
    words.windows(3).find_map(|part| match part {
        [month, day, time] => parse_day_of_year(month, day, time),
        _ => None,
    })
}

/// Removes `<3>` of syslog's protocol and `dmesg -r`.
fn strip_priority(line: &str) -> &str {
    let inner = line.strip_prefix('<').and_then(|rest| rest.split_once('>'));
    let number = |text: &str| {
        (1..=3).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit())
    };
    inner.filter(|(priority, _)| number(priority)).map_or(line, |(_, rest)| rest)
}

/// `[Sat Nov 21 22:47:35 2026] text` and `[12345.678901] text` of dmesg, perhaps with `kern  :info
/// : ` before, and with the time since the line before (`dmesg -d`).
fn parse_bracketed(line: &str) -> Option<SystemLogLine<'_>> {
    let mut facility = line.splitn(3, ':');
    let line = match (facility.next(), facility.next(), facility.next()) {
        (Some(facility), Some(level), Some(rest)) if is_word(facility) && is_word(level) => {
            rest.trim_start()
        }
        _ => line,
    };
    let (inside, message) = line.strip_prefix('[')?.split_once(']')?;
    let inside = inside.split_once('<').map_or(inside, |(inside, _)| inside).trim();
    // dmesg puts no ISO time in brackets; JVMs and PostgreSQL do.
    if inside.get(4..5) == Some("-") {
        return None;
    }
    let message = strip_caller(message.trim_start());
    if is_uptime(inside) {
        let when = LogLineTime::SinceBoot(parse_milliseconds(inside)?);
        return Some(parse_monotonic(when, message));
    }
    let of_kernel = |when| SystemLogLine { when, host: None, tag: "kernel", message };
    if let Some(since) = inside.strip_prefix('+').filter(|since| is_uptime(since)) {
        return Some(of_kernel(LogLineTime::SinceLine(parse_milliseconds(since)?)));
    }
    if let Some(when) = parse_minute(inside) {
        return Some(of_kernel(when));
    }
    let when = LogLineTime::At(LineTimestamp::parse(inside)?);
    // A console that puts its own time before the kernel's.
    Some(SystemLogLine { message: strip_uptime("kernel", message), ..of_kernel(when) })
}

/// `Oct28 16:58` of `dmesg -H`.
fn parse_minute(inside: &str) -> Option<LogLineTime> {
    let (day, time) = inside.split_once(' ')?;
    let digits = day.find(|letter: char| letter.is_ascii_digit()).filter(|at| *at > 0)?;
    let (month, day) = day.split_at_checked(digits)?;
    let when = parse_day_of_year(month, day, &format!("{time}:00")).filter(|_| time.len() == 5)?;
    match when {
        LogLineTime::OfSomeYear(month, day, of_day) => {
            Some(LogLineTime::OfSomeMinute(month, day, of_day))
        }
        _ => None,
    }
}

/// A message behind seconds since boot: the kernel's own, or with sender and host as `journalctl -o
/// short-monotonic` has them, the host only if there is one.
fn parse_monotonic(when: LogLineTime, message: &str) -> SystemLogLine<'_> {
    if let Some((host, rest)) = message.split_once(' ')
        && rest.starts_with("kernel: ")
        && let Some(line) = parse_tagged(when.clone(), message)
        && line.host == Some(host)
    {
        return line;
    }
    // The kernel's log holds what systemd writes before there is a journal.
    for sender in ["kernel", "systemd", "systemd-oomd", "earlyoom"] {
        if let Some((tag, rest)) = message.split_once(": ")
            && tag.split('[').next() == Some(sender)
            && (tag == sender || tag.ends_with(']'))
        {
            return SystemLogLine { when, host: None, tag, message: rest };
        }
    }
    SystemLogLine { when, host: None, tag: "kernel", message }
}

/// `19:50:59 kernel: text` as desktops copy it, without a day.
fn parse_time_of_day(line: &str) -> Option<SystemLogLine<'_>> {
    let (time, rest) = line.split_once(' ')?;
    let clock = time_of_day(time).filter(|_| time.len() == 8)?;
    let (tag, message) = rest.trim_start().split_once(": ")?;
    let when = LogLineTime::OfSomeDay(clock * 1000);
    let is_tag = !tag.is_empty() && tag.len() <= 64 && !tag.contains([' ', '"']);
    is_tag.then(|| SystemLogLine { when, host: None, tag, message: strip_uptime(tag, message) })
}

/// The kernel's seconds since boot behind whatever a serial console, a test machine or a shipper of
/// logs writes before them: `db1 login: [ 4321.000001] text`, `2026-11-21T22:47:35Z [ 4321.000001]
/// text`.
fn parse_behind_prefix(line: &str) -> Option<SystemLogLine<'_>> {
    let most = line.floor_char_boundary(LONGEST_PREFIX);
    let begins = line.get(..most)?.match_indices('[').map(|(at, _)| at);
    for at in begins {
        let (before, rest) = line.split_at_checked(at)?;
        let (inside, message) = rest.strip_prefix('[')?.split_once(']')?;
        let seconds = inside.trim();
        let is_fine = seconds.split_once('.').is_some_and(|(_, part)| part.len() >= 3);
        if !is_fine || !is_uptime(seconds) || !before.ends_with([' ', '\t', '|', ':']) {
            continue;
        }
        let message = strip_caller(message.trim_start());
        let since = parse_milliseconds(seconds)?;
        let when = match find_prefix_time(before) {
            Some(date) => LogLineTime::Dated(Box::new(date), since),
            None => LogLineTime::SinceBoot(since),
        };
        // A time alone is a console's or a shipper's. Behind other words, anybody may have written
        // the rest: what a client sent, for instance.
        let is_time = LineTimestamp::parse(before.trim()).is_some();
        let line = parse_monotonic(when, message);
        return Some(SystemLogLine { host: line.host.or((!is_time).then_some("-")), ..line });
    }
    None
}

/// `Jun 12 06:39:16: sending SIGTERM to process 696 uid 1001 "ipfs": ...` of earlyoom on a terminal.
fn parse_earlyoom(line: &str) -> Option<SystemLogLine<'_>> {
    let begins = [
        "mem avail: ",
        "low memory! at or below SIG",
        "sending SIGTERM to process ",
        "sending SIGKILL to process ",
    ];
    let at = begins.iter().find_map(|begin| line.find(begin))?;
    let (time, message) = line.split_at_checked(at)?;
    let time = time.trim_end_matches([':', ' ']);
    let words: Vec<&str> = time.split_ascii_whitespace().collect();
    let when = match words.as_slice() {
        [month, day, time] => parse_day_of_year(month, day, time)?,
        _ => LogLineTime::At(LineTimestamp::parse(time)?),
    };
    Some(SystemLogLine { when, host: None, tag: "earlyoom", message })
}

/// A line behind the name of its file, and its number, as grep writes them:
/// `/var/log/messages-20261122:4711:Nov 21 22:47:35 db1 kernel: text`.
fn parse_behind_file(line: &str) -> Option<SystemLogLine<'_>> {
    let (name, rest) = line.split_once(':')?;
    let is_name =
        !name.is_empty() && name.len() <= LONGEST_PREFIX && !name.contains([' ', '[', '{']);
    let rest = match rest.split_once(':') {
        Some((number, rest))
            if !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()) =>
        {
            rest
        }
        _ => rest,
    };
    let parsed = parse_classic(rest).or_else(|| parse_iso(rest)).or_else(|| parse_spaced(rest));
    parsed.filter(|_| is_name)
}

/// `1 2026-11-21T22:47:35.123456+01:00 host kernel - - - text`
fn parse_rfc5424(line: &str) -> Option<SystemLogLine<'_>> {
    let mut words = line.strip_prefix("1 ")?.splitn(7, ' ');
    let when = LogLineTime::At(LineTimestamp::parse(words.next()?)?);
    let (host, tag) = (words.next()?, words.next()?);
    let (_process, _kind, _data) =
        (words.next()?, words.next()?, words.next().filter(|data| *data == "-")?);
    let message = words.next()?.trim_start_matches('\u{feff}');
    Some(SystemLogLine { when, host: Some(host), tag, message: strip_uptime(tag, message) })
}

/// `1795301255.123456 host kernel: text` of `journalctl -o short-unix`.
fn parse_unix_time(line: &str) -> Option<SystemLogLine<'_>> {
    let (first, rest) = line.split_once(' ')?;
    let seconds = first.len() >= 12 && is_uptime(first);
    parse_tagged(LogLineTime::At(LineTimestamp::parse(first).filter(|_| seconds)?), rest)
}

/// `2026-11-21 22:47:35 host kernel: text`, if the sender looks like syslog's.
fn parse_spaced(line: &str) -> Option<SystemLogLine<'_>> {
    let mut words = line.splitn(3, ' ');
    let (date, time, rest) = (words.next()?, words.next()?, words.next()?);
    let when = LogLineTime::At(
        LineTimestamp::parse(&format!("{date} {time}")).filter(|_| date.contains('-'))?,
    );
    parse_tagged(when, rest).filter(|line| line.tag == "kernel" || line.tag.ends_with(']'))
}

/// `3,1234,4000100000,-;text` of /dev/kmsg, with microseconds since boot.
fn parse_kmsg(line: &str) -> Option<SystemLogLine<'_>> {
    let (before, message) = line.split_once(';')?;
    let mut parts = before.split(',').map(|part| part.parse::<i64>().ok());
    let (_level, _number, at) = (parts.next()??, parts.next()??, parts.next()??);
    Some(SystemLogLine {
        when: LogLineTime::SinceBoot(at / 1000),
        host: None,
        tag: "kernel",
        message: strip_caller(message),
    })
}

/// `2026-11-21T22:47:35,123456+00:00 text` of `dmesg --time-format iso`, and
/// `2026-11-21T22:47:35.123456+00:00 host tag: text`.
fn parse_iso(line: &str) -> Option<SystemLogLine<'_>> {
    let (first, rest) = line.split_once(' ')?;
    // A JVM of Java 8 and before writes a colon behind its time.
    if !first.contains('T') || first.ends_with(':') {
        return None;
    }
    let when = LogLineTime::At(LineTimestamp::parse(first)?);
    match first.contains(',') {
        true => Some(SystemLogLine { when, host: None, tag: "kernel", message: rest.trim_start() }),
        false => parse_tagged(when, rest),
    }
}

/// `Sat 2026-11-21 22:47:35 UTC host tag: text` of `journalctl -o short-full`.
fn parse_named_day(line: &str) -> Option<SystemLogLine<'_>> {
    let (day, rest) = line.split_once(' ')?;
    if day.len() != 3 {
        return None;
    }
    let mut words = rest.splitn(4, ' ');
    let (date, time, zone, rest) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let when = LogLineTime::At(LineTimestamp::parse(&format!("{date} {time} {zone}"))?);
    parse_tagged(when, rest)
}

/// `Nov 21 22:47:35 host tag: text`, perhaps with a fraction of a second.
fn parse_classic(line: &str) -> Option<SystemLogLine<'_>> {
    let (month, rest) = line.split_once(' ')?;
    let (day, rest) = rest.trim_start().split_once(' ')?;
    let (time, rest) = rest.split_once(' ')?;
    parse_tagged(parse_day_of_year(month, day, time)?, rest)
}

/// A time without a year, perhaps with a fraction of a second.
pub(super) fn parse_day_of_year(month: &str, day: &str, time: &str) -> Option<LogLineTime> {
    // journalctl writes the month in the language of whoever ran it.
    let month = month_named(month)?;
    let day: i64 = day.parse().ok()?;
    let (clock, part) = time.split_once('.').unwrap_or((time, ""));
    let of_day = time_of_day(clock)? * 1000 + thousandths(part)?;
    // A leap year has every day.
    midnight_seconds(2000, month, day)?;
    Some(LogLineTime::OfSomeYear(month, day, of_day))
}

fn parse_tagged(when: LogLineTime, rest: &str) -> Option<SystemLogLine<'_>> {
    let rest = rest.trim_start();
    let (host, behind) = rest.split_once(' ')?;
    // `journalctl --no-hostname` has none.
    let (host, rest) = if host.ends_with(':') { (None, rest) } else { (Some(host), behind) };
    // Some write no blank before the kernel's own time.
    let close = rest.strip_prefix("kernel:").filter(|rest| rest.starts_with(['[', '<']));
    let (tag, message) = close
        .map(|rest| ("kernel", rest))
        .or_else(|| rest.split_once(": "))
        .or_else(|| rest.strip_suffix(':').map(|tag| (tag, "")))?;
    let tag = strip_level(tag);
    // Brackets are a server's process in a log of its own.
    if tag.is_empty()
        || tag.contains(' ')
        || tag.len() > 64
        || tag.starts_with('[')
        || host.is_some_and(|host| host.starts_with('['))
    {
        return None;
    }
    Some(SystemLogLine { when, host, tag, message: strip_uptime(tag, message) })
}

/// A sender without facility and level before it: `kern.warn kernel` of BusyBox; `!WARNING | kernel`
/// and the like of templates for rsyslog.
fn strip_level(tag: &str) -> &str {
    let is_level = |text: &str| {
        let text = text.trim_start_matches('!');
        let named = text.split_once('.').is_some_and(|(one, other)| is_word(one) && is_word(other));
        let (word, bar) = text.split_once(' ').unwrap_or((text, ""));
        named || (bar == "|" && is_word(&word.to_ascii_lowercase()))
    };
    match tag.trim_start().rsplit_once(' ') {
        Some((level, sender)) if is_level(level) => sender,
        _ => tag,
    }
}

/// Removes the ring buffer's own time, which rsyslog keeps.
fn strip_uptime<'a>(tag: &str, message: &'a str) -> &'a str {
    let message = if tag == "kernel" {
        // Old kernels' level, and a second colon.
        strip_priority(message.trim_start().strip_prefix(": ").unwrap_or(message).trim_start())
    } else {
        message
    };
    let uptime = message.trim_start().strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match uptime {
        Some((inside, rest)) if tag == "kernel" && is_uptime(inside.trim()) => {
            strip_caller(rest.trim_start())
        }
        _ => message,
    }
}

/// Removes the task or processor that kernels with CONFIG_PRINTK_CALLER put before: `[ T4711]`, and
/// what phones have, `[3:  Binder:9343_3:22875]`.
fn strip_caller(message: &str) -> &str {
    let caller = message.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let is_number =
        |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let is_caller = |inside: &str| {
        let of_phone = inside.split_once(':').zip(inside.rsplit_once(':'));
        inside.trim().strip_prefix(['T', 'C']).is_some_and(is_number)
            || of_phone.is_some_and(|((processor, rest), (_, pid))| {
                rest.contains(':') && is_number(processor.trim()) && is_number(pid)
            })
    };
    caller.filter(|(inside, _)| is_caller(inside)).map_or(message, |(_, rest)| rest.trim_start())
}

fn is_word(text: &str) -> bool {
    let text = text.trim_end();
    !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_lowercase())
}

/// Milliseconds of `12345.678901`.
fn parse_milliseconds(text: &str) -> Option<i64> {
    let (seconds, part) = text.split_once('.')?;
    seconds.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(thousandths(part)?)
}

/// `12345.678901`
fn is_uptime(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    text.split_once('.').is_some_and(|(seconds, part)| digits(seconds) && digits(part))
}

#[cfg(test)]
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
            let parsed = SystemLogLine::parse(&whole).unwrap_or_else(|| panic!("{whole}"));
            let LogLineTime::At(stamp) = &parsed.when else { panic!("{whole}: {parsed:?}") };
            assert_eq!(Some((stamp.at.0, stamp.offset)), at, "{whole}");
            assert_eq!(
                (parsed.host, parsed.tag, parsed.message),
                (host, "kernel", text),
                "{whole}"
            );
        }
        let classic = format!("Nov  1 02:00:05.5 db7 kernel: [ 4321.000001] {text}");
        let classic = SystemLogLine::parse(&classic).unwrap();
        assert_eq!(classic.when, LogLineTime::OfSomeYear(11, 1, 7_205_500));
        assert_eq!((classic.host, classic.message), (Some("db7"), text));
        let raw = format!("<3>[ 4321.000001] {text}");
        let raw = SystemLogLine::parse(&raw).unwrap();
        assert_eq!((raw.when, raw.message), (LogLineTime::SinceBoot(4_321_000), text));
        let other = SystemLogLine::parse("Feb 29 00:00:00 db7 systemd[1]: Shutting down.").unwrap();
        assert_eq!((other.tag, other.message), ("systemd[1]", "Shutting down."));
        assert_eq!(
            LineTimestamp::parse("2026-11-21T22:47:35Z").unwrap().at,
            Moment::from_seconds(THEN)
        );
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
            "[2026-11-21T22:47:35.713+0000][info][gc] GC(1) Pause Young (Normal) (G1 Evacuation \
                 Pause)",
        ] {
            assert_eq!(SystemLogLine::parse(line), None, "{line}");
        }
    }
}
