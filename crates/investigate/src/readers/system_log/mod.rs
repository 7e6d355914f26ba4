//! System logs: dmesg, journalctl, /var/log/messages, /var/log/kern.log and /var/log/syslog, and what
//! people copy out of them.
//!
//! Kept as events: the kernel out of memory or in error, hung tasks, failed allocations, pools that
//! were not filled. A log has no samples, but the time that it covers.

mod boot_clock;
mod collected;
mod crash;
mod kernel;
mod memory_info;
mod messages;
mod oom;
mod oom_limit;
mod prefix;
mod storage;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests;
mod timeline;
mod trace;
mod unknown_prefix;
mod userspace_oom;

use std::io::Read;

use self::collected::CollectedLog;
use self::messages::KernelMessages;
use self::oom::OomReport;
use self::prefix::{LogLineTime, SystemLogLine};
use self::timeline::LogTimeline;
pub(super) use self::unknown_prefix::replace_unknown_prefix;
use super::archive_format::{ArchiveFile, ArchiveFormat, Promise};
use super::{lines, server_log};
use crate::event::{LogEvent, LogEventKind};
use crate::gather::clock::{SOME_YEAR, in_year, year_of_moment};
use crate::series::{Mark, MarkKind};
use crate::{Clock, FileRefused, Moment, Series, SourceFormat};

const LONGEST_LINE: u64 = 8 << 10;
const MOST_EVENTS: usize = 20_000;
/// Bytes of a log that begins with its newest line, which has to be turned around.
const MOST_TURNED: u64 = 16 << 20;
/// Lines that tell which way a log runs, and whether it is a kernel's without times.
const LOOKED_AT: usize = 200;
/// Lines of which one has to be known where none has a time.
const FOREMOST: usize = 5;

/// What dmesg and journalctl print, and what rsyslog writes.
pub static FORMAT: ArchiveFormat = ArchiveFormat {
    name: "system_log",
    called: "a system log",
    tools: &[],
    is_text: true,
    recognize: |text| Promise::likely_if(is_system_log(text) || is_bare_kernel_log(text)),
    read: read_in_order,
};

fn is_system_log(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !is_separator(line))
        .take(20)
        .peekable();
    let (mut all, mut known, mut of_some_day) = (0_u32, 0_u32, 0_u32);
    while let Some(line) = lines.next() {
        if lines.peek().is_none() && all > 0 {
            break;
        }
        all += 1;
        let announced = SystemLogLine::parse_announcement(line).is_some();
        match SystemLogLine::parse(line) {
            Some(SystemLogLine { when: LogLineTime::OfSomeDay(_), .. }) => of_some_day += 1,
            Some(_) => known += 1,
            None => known += u32::from(announced || parse_journal_export(line).is_some()),
        }
    }
    // Other tools' lines begin with a time of day too.
    let is_desktops = || {
        text.lines()
            .take(LOOKED_AT)
            .filter_map(SystemLogLine::parse)
            .any(|line| line.tag == "kernel" || line.tag.split('[').next() == Some("systemd"))
    };
    if of_some_day > 0 && is_desktops() {
        known += of_some_day;
    }
    known > 0 && known * 2 >= all
}

/// Whether lines are the kernel's without times, as `dmesg -t` prints them, and a kernel with
/// printk.time=0 and many a serial console.
fn is_bare_kernel_log(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let lines = || text.lines().take(LOOKED_AT);
    let first = lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    // /proc/version is such a line alone.
    let begins = first.starts_with("Linux version ") && lines().nth(1).is_some();
    let says = |line: &str| {
        is_kernel_headline(strip_sender(line.trim_end()))
            || userspace_oom::parse_available_share("earlyoom", line).is_some()
            || userspace_oom::parse_service_kill("earlyoom", line).is_some()
    };
    // What a text quotes further down is no log of its own.
    let foremost = || lines().filter(|line| !line.trim().is_empty()).take(FOREMOST);
    (begins || foremost().any(says)) && lines().all(|line| SystemLogLine::parse(line).is_none())
}

/// Whether a line without a time is what the kernel says first of its trouble.
fn is_kernel_headline(line: &str) -> bool {
    OomReport::is_first_line(line)
        || (KernelMessages::default().parse_event(line).is_some()
            && !line.starts_with("Linux version "))
}

/// A line without a time, without the sender.
fn strip_sender(line: &str) -> &str {
    line.strip_prefix("kernel: ").unwrap_or(line)
}

/// `-- Boot 3b5c... --` since systemd 240, `-- Reboot --` before: what follows is of another boot.
fn is_boot_separator(line: &str) -> bool {
    let inside = line.trim_end().strip_prefix("-- ").and_then(|rest| rest.strip_suffix(" --"));
    inside.is_some_and(|inside| {
        let id = inside.strip_prefix("Boot ").unwrap_or_default();
        inside == "Reboot"
            || (id.len() == 32 && id.bytes().all(|letter| letter.is_ascii_hexdigit()))
    })
}

/// journalctl's line between two boots, and at its head.
fn is_separator(line: &str) -> bool {
    line.starts_with("-- ")
}

fn read_in_order(file: ArchiveFile<'_>) -> Result<Vec<Series>, FileRefused> {
    let bare = !is_system_log(file.head.trim_ascii_start());
    let settings = LogSettings { bare, began: file.began };
    if is_newest_first(file.head) {
        read_turned(file.stream, file.source, settings)
    } else {
        read_lines(file.stream, file.source, settings)
    }
}

/// Reads a log whose newest line comes first, as journalctl -r prints it and desktops copy it.
fn read_turned(
    stream: &mut dyn Read,
    source: &str,
    settings: LogSettings,
) -> Result<Vec<Series>, FileRefused> {
    let mut bytes = Vec::new();
    let read = stream.take(MOST_TURNED).read_to_end(&mut bytes);
    read.map_err(|error| FileRefused(format!("cannot be read: {error}")))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut turned: String = text.lines().rev().fold(String::new(), |all, line| all + line + "\n");
    if !text.ends_with('\n') && u64::try_from(bytes.len()).is_ok_and(|read| read >= MOST_TURNED) {
        turned = turned.split_once('\n').map_or_else(String::new, |(_, rest)| rest.to_owned());
    }
    let mut all = read_lines(&mut turned.as_bytes(), source, settings)?;
    if u64::try_from(bytes.len()).is_ok_and(|read| read >= MOST_TURNED)
        && let Some(series) = all.first_mut()
    {
        series.add_problem(format!(
            "begins with its newest line: what is older than its first {} MiB is left out",
            MOST_TURNED >> 20
        ));
    }
    Ok(all)
}

/// Whether times go down from line to line.
fn is_newest_first(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let milliseconds = |line: &str| comparable_time(&SystemLogLine::parse(line)?.when);
    let times: Vec<i64> = text.lines().take(LOOKED_AT).filter_map(milliseconds).collect();
    let steps = || times.windows(2).filter_map(|pair| Some((pair.first()?, pair.get(1)?)));
    let (up, down) =
        (steps().filter(|(a, b)| a < b).count(), steps().filter(|(a, b)| a > b).count());
    // A log that is joined, or whose clock was set, goes down once.
    down > 1 && up == 0
}

/// Milliseconds that lines of one log can be compared by.
fn comparable_time(when: &LogLineTime) -> Option<i64> {
    match when {
        LogLineTime::At(stamp) => Some(stamp.at.0),
        LogLineTime::OfSomeYear(month, day, of_day) => {
            Some((month * 31 + day).saturating_mul(86_400_000).saturating_add(*of_day))
        }
        LogLineTime::OfSomeMinute(..) | LogLineTime::SinceLine(_) => None,
        LogLineTime::OfSomeDay(of_day) => Some(*of_day),
        LogLineTime::SinceBoot(since) => Some(*since),
        LogLineTime::Dated(date, _) => comparable_time(date),
    }
}

#[derive(Clone, Copy, Default)]
struct LogSettings {
    /// Whether lines are the kernel's and have no times.
    bare: bool,
    /// The day of lines that have none.
    began: Option<Moment>,
}

/// Reads such a log, the oldest line first; one series for each host in it.
fn read_lines(
    stream: &mut dyn Read,
    source: &str,
    settings: LogSettings,
) -> Result<Vec<Series>, FileRefused> {
    let mut log = CollectedLog::new(source, settings);
    let end = lines::for_each_line(stream, LONGEST_LINE, |line| log.parse_line(line));
    let mut all = log.into_series()?;
    if let Some(series) = all.first_mut() {
        end.note_problem(series);
    }
    Ok(all)
}

/// Whether a line begins as one of a system log does.
pub(super) fn is_log_line(line: &str) -> bool {
    SystemLogLine::parse(line).is_some()
        || SystemLogLine::parse_announcement(line).is_some()
        || line.starts_with(" kernel:")
        || is_separator(line)
}

/// The event of one kernel message, without a report before it.
pub(super) fn parse_kernel_message(message: &str) -> Option<LogEvent> {
    KernelMessages::default().parse_event(message)
}

/// The kill of one kernel message, or of the line before it that names whom the kernel chose.
pub(super) fn parse_kernel_kill(message: &str) -> Option<LogEvent> {
    parse_kernel_message(message).or_else(|| OomReport::from_choice(message)?.into_cut_event())
}

/// A line of `journalctl -o json`, as `-o short-unix` has it.
fn parse_journal_export(line: &str) -> Option<String> {
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    let get = |name: &str| members.get(name)?.as_str();
    let at: u64 = get("__REALTIME_TIMESTAMP")?.parse().ok()?;
    let tag = get("SYSLOG_IDENTIFIER").or_else(|| get("_COMM")).unwrap_or("-");
    let number =
        get("_PID").filter(|_| tag != "kernel").map_or_else(String::new, |pid| format!("[{pid}]"));
    let host =
        get("_HOSTNAME").filter(|host| !host.is_empty() && !host.contains(' ')).unwrap_or("-");
    let message = get("MESSAGE")?.replace(['\n', '\r'], " ");
    Some(format!("{}.{:06} {host} {tag}{number}: {message}", at / 1_000_000, at % 1_000_000))
}

/// Percent of memory that is available where it is not short.
const AMPLE: f64 = 30.0;
const ONE_DAY: u64 = 86_400_000;
/// Milliseconds within which an OOM of the host explains a slab that a cgroup did not get.
const BESIDE_OOM: i64 = 60_000;

struct SystemLogReader {
    series: Series,
    kernel: KernelMessages,
    timeline: LogTimeline,
    /// Events that there is still room for.
    room: usize,
    /// Percent of memory that earlyoom found available before it kills.
    available: Option<String>,
    /// The first year of a log without years, once a line tells it.
    first_year: Option<i16>,
    /// Whether lines of one boot were seen, and whether those of the next begin here.
    placed: bool,
    boot_ahead: bool,
    /// Which marks are slabs that a cgroup did not get.
    slabs: Vec<usize>,
    left_out: usize,
}

impl SystemLogReader {
    fn new(source: &str, settings: LogSettings) -> Self {
        Self {
            series: Series::new(source, SourceFormat::SystemLog),
            kernel: KernelMessages::default(),
            timeline: LogTimeline::new(settings.began),
            room: MOST_EVENTS,
            available: None,
            first_year: None,
            placed: false,
            boot_ahead: false,
            slabs: Vec::new(),
            left_out: 0,
        }
    }

    fn push_untimed_line(&mut self, line: &str) {
        let at = self.timeline.place_untimed(&mut self.series);
        let message = strip_sender(line.trim_end());
        self.series.relayed |= unknown_prefix::is_quoted_message(message);
        // earlyoom writes no time on a terminal.
        if let Some(share) = userspace_oom::parse_available_share("earlyoom", message) {
            self.available = Some(share.to_owned());
        } else if let Some(event) = userspace_oom::parse_service_kill("earlyoom", message) {
            self.series.relayed = true;
            self.push_service_event(at, event, true);
        }
        self.push_kernel_message(at, message);
    }

    /// `headline`: what the kernel said in a line before it that lost its time.
    fn push_line(&mut self, line: SystemLogLine<'_>, headline: Option<String>) {
        let message = if line.tag == "kernel" { line.message } else { "" };
        let Some(at) = self.timeline.place_line(&mut self.series, &line.when, message) else {
            return;
        };
        self.placed = true;
        // The kernel's own lines may be filtered away (journalctl -u).
        if std::mem::take(&mut self.boot_ahead) && !message.starts_with("Linux version ") {
            let what = "the journal of another boot begins";
            self.push_event(at, LogEvent::new(LogEventKind::Boot, what));
        }
        if let Some(host) = line.host.filter(|_| self.series.host.is_none()) {
            self.series.relayed = true;
            // A dash stands for an unknown name.
            self.series.host = Some(host.to_owned()).filter(|host| host != "-");
        }
        if let Some(headline) = headline {
            self.series.relayed = true;
            self.push_kernel_message(at, &headline);
        }
        if line.tag == "kernel" {
            return self.push_kernel_message(at, line.message);
        }
        if let Some(share) = userspace_oom::parse_available_share(line.tag, line.message) {
            self.available = Some(share.to_owned());
            return;
        }
        let event = parse_shutdown(line.tag, line.message)
            .or_else(|| userspace_oom::parse_service_kill(line.tag, line.message))
            .or_else(|| server_log::parse_service_line(line.tag, line.message));
        if let Some(event) = event {
            self.note_year(at, line.message);
            self.push_service_event(at, event, line.tag.starts_with("earlyoom"));
        }
    }

    fn push_service_event(&mut self, at: Moment, mut event: LogEvent, is_earlyoom: bool) {
        if let Some(share) = self.available.take_if(|_| is_earlyoom) {
            // Somebody set it to act where much is left.
            if share.parse::<f64>().is_ok_and(|share| share >= AMPLE) {
                return;
            }
            event.what += &format!(" ({share} % available)");
        }
        self.push_event(at, event);
    }

    /// Notes the year of a log without years, where a server wrote its own time into the line.
    fn note_year(&mut self, at: Moment, message: &str) {
        if !self.series.without_year || self.first_year.is_some() {
            return;
        }
        let Some(own) = server_log::parse_own_stamp(message) else { return };
        let offset = i64::from(own.offset.unwrap_or(0)) * 1000;
        let wall = Moment(own.at.0.saturating_add(offset));
        let later = year_of_moment(at).saturating_sub(SOME_YEAR);
        let year = year_of_moment(wall).saturating_sub(later);
        // Around New Year, and where zones differ, the two are of different days.
        if in_year(at, year).0.abs_diff(wall.0) <= ONE_DAY {
            self.first_year = Some(year);
        }
    }

    fn push_kernel_message(&mut self, at: Moment, message: &str) {
        // What a report says comes behind the event that it is of.
        self.kernel.amend_event(message, self.series.marks.last_mut());
        let before = self.series.marks.len();
        for (at, event) in self.kernel.parse_events(at, message) {
            self.push_event(at, event);
        }
        if kernel::parse_slab_of_group(message).is_some() {
            self.slabs.extend(before..self.series.marks.len());
        }
    }

    /// A cgroup gets no slab where the host has no memory, either.
    fn drop_slabs_beside_oom(&mut self) {
        let slabs = std::mem::take(&mut self.slabs);
        let is_oom = |kind| matches!(kind, LogEventKind::OutOfMemory | LogEventKind::OomCutOff);
        let ooms = self.series.events().filter(|(_, event)| is_oom(event.kind));
        let mut ooms: Vec<i64> = ooms.map(|(at, _)| at.0).collect();
        ooms.sort_unstable();
        let is_near = |at: i64| {
            let next = ooms.partition_point(|oom| *oom < at.saturating_sub(BESIDE_OOM));
            ooms.get(next).is_some_and(|oom| *oom <= at.saturating_add(BESIDE_OOM))
        };
        let mut index = 0..;
        self.series.marks.retain(|mark| {
            let is_slab = index.next().is_some_and(|index| slabs.binary_search(&index).is_ok());
            !(is_slab && is_near(mark.at.0))
        });
    }

    fn push_event(&mut self, at: Moment, event: LogEvent) {
        if event.kind == LogEventKind::Boot {
            self.series.marks.push(Mark { at, kind: MarkKind::Restart });
        }
        if self.room > 0 {
            self.room -= 1;
            self.series.marks.push(Mark { at, kind: MarkKind::Event(event) });
        } else {
            self.left_out += 1;
        }
    }

    fn into_series(mut self, first_year: Option<i16>) -> Result<Series, FileRefused> {
        if let Some((at, event)) = self.kernel.take_cut_report() {
            self.push_event(at, event);
        }
        self.drop_slabs_beside_oom();
        let Self { mut series, timeline, left_out, .. } = self;
        timeline.finish(&mut series);
        if let Some(year) = first_year {
            place_in_year(&mut series, year);
        }
        if series.span().is_none() {
            return Err(FileRefused("none of its lines has a time".into()));
        }
        if left_out > 0 {
            series.add_problem(format!(
                "has more than {MOST_EVENTS} events; {left_out} that came later are left out"
            ));
        }
        // It does not matter for a log without events.
        let tells = series.events().next().is_some();
        if tells && series.clock == Clock::default() && series.without_year {
            series.add_problem("its lines give no year: assumed to be the latest that fits");
        }
        Ok(series.finish())
    }
}

fn place_in_year(series: &mut Series, year: i16) {
    series.marks.iter_mut().for_each(|mark| mark.at = in_year(mark.at, year));
    series.covered = series.covered.map(|(from, to)| (in_year(from, year), in_year(to, year)));
    series.without_year = false;
}

fn parse_shutdown(tag: &str, message: &str) -> Option<LogEvent> {
    let by = |name: &str| {
        tag == name || tag.strip_prefix(name).is_some_and(|rest| rest.starts_with('['))
    };
    // A user's manager, with another pid, ends with the same words after the user's last session.
    let is = (matches!(tag, "systemd" | "systemd[1]")
        && (message == "Shutting down." || is_last_target(message)))
        || (by("systemd-logind")
            && (message.starts_with("System is rebooting")
                || message.starts_with("System is powering down")))
        || (by("shutdown") && message.starts_with("shutting down for system"));
    is.then(|| LogEvent::new(LogEventKind::Shutdown, "the host was shut down in an orderly way"))
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
