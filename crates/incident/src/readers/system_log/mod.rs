//! System logs: what dmesg and journalctl print, /var/log/messages, /var/log/kern.log and /var/log/syslog.
//!
//! Of all that they say, what tells of memory is kept as events: the kernel out of memory, tasks that hang, stretches of memory
//! that were not to be had, pools that were not filled. A log has no samples; what it covers is told.

mod kernel;
mod oom;
mod prefix;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;

use std::io::Read;

use self::oom::Report;
use self::prefix::{Line, When};
use super::calendar::midnight;
use super::lines;
use super::object;
use super::server_log;
use crate::event::{Event, EventKind};
use crate::series::{Mark, MarkKind};
use crate::{Clock, Format, Moment, Refused, Series};

/// No line that is kept is longer.
const LONGEST_LINE: u64 = 8 << 10;
/// Events of one file that are kept, those that came first.
const MOST_EVENTS: usize = 20_000;
/// Lines of one report of the kernel, behind which it is given up: a process each, and what stands before them.
const LONGEST_REPORT: usize = 400_000;
/// A line that is this much before the one before it, in milliseconds, begins another year.
const BACK: i64 = 180 * 86_400_000;
/// The year that stands for one that is not told: it has a 29th of February.
const SOME_YEAR: i64 = 2000;

/// How the reason begins why a log without a calendar is refused.
pub(super) const SINCE_BOOT: &str = "its times are seconds since the kernel started";

/// Whether the first lines are those of such a log.
pub(super) fn begins(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !is_separator(line)).take(20).peekable();
    let (mut all, mut known) = (0_u32, 0_u32);
    while let Some(line) = lines.next() {
        // The last one may be cut off.
        if lines.peek().is_none() && all > 0 {
            break;
        }
        all += 1;
        known += u32::from(Line::parse(line).is_some() || exported(line).is_some());
    }
    known > 0 && known * 2 >= all
}

/// What journalctl puts between two starts, and at its head.
fn is_separator(line: &str) -> bool {
    line.starts_with("-- ")
}

/// Reads such a log.
///
/// # Errors
/// Its times are seconds since the kernel started, which nothing in it puts on a calendar; or it cannot be read.
pub fn read(stream: &mut dyn Read, source: &str) -> Result<Series, Refused> {
    read_from(stream, source, None)
}

/// The same, with the kernel's start for lines that tell seconds since then.
///
/// # Errors
/// As [`read`].
pub(super) fn read_from(stream: &mut dyn Read, source: &str, start: Option<Moment>) -> Result<Series, Refused> {
    let mut reader = Reader { start, ..Reader::new(source) };
    let end = lines::each(stream, LONGEST_LINE, |line| reader.line(line));
    let mut series = reader.finished()?;
    if let Some(problem) = end.problem() {
        series.problem(problem);
    }
    Ok(series)
}

/// What one message of the kernel tells, without the report that may stand before it.
pub(super) fn event(message: &str) -> Option<Event> {
    Report::default().line(message).or_else(|| kernel::event(message))
}

/// A line of `journalctl -o json`, as `-o short-unix` has it.
fn exported(line: &str) -> Option<String> {
    let members = object::members(line)?;
    let get = |name: &str| object::get(&members, name);
    let at: u64 = get("__REALTIME_TIMESTAMP")?.parse().ok()?;
    let tag = get("SYSLOG_IDENTIFIER").or_else(|| get("_COMM")).unwrap_or("-");
    let number = get("_PID").filter(|_| tag != "kernel").map_or_else(String::new, |pid| format!("[{pid}]"));
    let host = get("_HOSTNAME").filter(|host| !host.is_empty() && !host.contains(' ')).unwrap_or("-");
    let message = get("MESSAGE")?.replace('\n', " ");
    Some(format!("{}.{:06} {host} {tag}{number}: {message}", at / 1_000_000, at % 1_000_000))
}

struct Reader {
    series: Series,
    report: Option<(Report, usize)>,
    /// Years that the log has gone on since [`SOME_YEAR`].
    year: i64,
    last: Option<Moment>,
    /// When the kernel started, where somebody says it.
    start: Option<Moment>,
    since_boot: bool,
    left_out: usize,
}

impl Reader {
    fn new(source: &str) -> Self {
        Self {
            series: Series::new(source, Format::SystemLog),
            report: None,
            year: SOME_YEAR,
            last: None,
            start: None,
            since_boot: false,
            left_out: 0,
        }
    }

    fn line(&mut self, line: &str) {
        let exported = line.starts_with('{').then(|| exported(line)).flatten();
        let Some(line) = Line::parse(exported.as_deref().unwrap_or(line)) else { return };
        let at = match &line.when {
            When::At(stamp) => stamp.by(&mut self.series),
            When::OfSomeYear(month, day, of_day) => match self.of_some_year(*month, *day, *of_day) {
                Some(at) => at,
                None => return,
            },
            When::SinceBoot(milliseconds) => {
                self.since_boot = true;
                let Some(start) = self.start else { return };
                Moment(start.0.saturating_add(*milliseconds))
            }
        };
        self.last = Some(at);
        self.series.covers(at);
        if let Some(host) = line.host.filter(|_| self.series.host.is_none()) {
            self.series.relayed = true;
            // A dash stands for a name that nobody said.
            self.series.host = Some(host.to_owned()).filter(|host| host != "-");
        }
        let event = if line.tag == "kernel" {
            self.kernel(line.message)
        } else {
            shutdown(line.tag, line.message).or_else(|| server_log::of_service(line.tag, line.message))
        };
        if let Some(event) = event {
            self.event(at, event);
        }
    }

    fn of_some_year(&mut self, month: i64, day: i64, of_day: i64) -> Option<Moment> {
        let of = |year| Some(Moment(Moment::from_seconds(midnight(year, month, day)?).0.saturating_add(of_day)));
        let at = of(self.year).or_else(|| of(SOME_YEAR))?;
        let back = self.last.is_some_and(|last| last.0.saturating_sub(at.0) > BACK);
        self.series.without_year = true;
        if !back {
            return Some(at);
        }
        self.year += 1;
        of(self.year)
    }

    fn kernel(&mut self, message: &str) -> Option<Event> {
        if let Some(report) = Report::begins(message) {
            self.report = Some((report, 0));
            return None;
        }
        if let Some((report, lines)) = &mut self.report {
            *lines += 1;
            let (event, over) = (report.line(message), *lines > LONGEST_REPORT);
            if event.is_some() || over {
                self.report = None;
            }
            if event.is_some() {
                return event;
            }
        }
        event(message)
    }

    fn event(&mut self, at: Moment, event: Event) {
        if event.kind == EventKind::Boot {
            self.series.marks.push(Mark { at, kind: MarkKind::Restart });
        }
        // A task that hangs is told again every two minutes, in the same words.
        if self.series.marks.len() < MOST_EVENTS {
            self.series.marks.push(Mark { at, kind: MarkKind::Event(event) });
        } else {
            self.left_out += 1;
        }
    }

    fn finished(mut self) -> Result<Series, Refused> {
        if self.series.span().is_none() {
            return Err(Refused(if self.since_boot {
                format!("{SINCE_BOOT}, without a date: use dmesg -T, or journalctl -k -o short-iso")
            } else {
                "none of its lines has a time".into()
            }));
        }
        if self.since_boot && self.start.is_some() {
            self.series.problem(
                "its times are seconds since the kernel started, which is shown as 1970-01-01: dmesg -T has the times",
            );
        } else if self.since_boot {
            self.series.problem("lines whose times are seconds since the kernel started are left out");
        }
        if self.left_out > 0 {
            self.series
                .problem(format!("has more than {MOST_EVENTS} events; {} that came later are left out", self.left_out));
        }
        // Of a log that tells nothing it does not matter.
        let tells = self.series.events().next().is_some();
        if tells && self.series.clock == Clock::default() && self.series.without_year {
            self.series.problem("its lines give no year: assumed to be the latest that fits");
        }
        Ok(self.series.finished())
    }
}

/// A host that is shut down in order says so.
fn shutdown(tag: &str, message: &str) -> Option<Event> {
    let by = |name: &str| tag == name || tag.strip_prefix(name).is_some_and(|rest| rest.starts_with('['));
    // A user's manager, which has another number, ends with the user's last session in the same words.
    let is = (matches!(tag, "systemd" | "systemd[1]") && (message == "Shutting down." || is_last_target(message)))
        || (by("systemd-logind")
            && (message.starts_with("System is rebooting") || message.starts_with("System is powering down")))
        || (by("shutdown") && message.starts_with("shutting down for system"));
    is.then(|| Event::new(EventKind::Shutdown, "the host was shut down in an orderly way"))
}

/// `Reached target reboot.target - System Reboot.` and `Reached target Reboot.`
fn is_last_target(message: &str) -> bool {
    message.strip_prefix("Reached target ").is_some_and(|target| {
        let name = target.split([' ', '.']).next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        matches!(name.as_str(), "reboot" | "poweroff" | "halt" | "shutdown" | "power-off")
            || target.starts_with("System Reboot")
            || target.starts_with("System Power Off")
    })
}
