//! The JVM's logs: unified logging from JDK 9 on with the decoration `time`
//! (`-Xlog:gc*:file=gc.log:time,uptime,level,tags`), JDK 8's with `-XX:+PrintGCDateStamps`, and
//! reports of fatal errors (`hs_err_pid4711.log`).
//!
//! Texts are those of OpenJDK 8 to 21 (gc/shared, runtime/safepoint.cpp, utilities/vmError.cpp).

use hugewise_model::Bytes;

use crate::event::{LogEvent, LogEventKind};
use crate::readers::line_timestamp::LineTimestamp;

/// Milliseconds of a pause that is reported.
const LONG: f64 = 1000.0;
/// A heap is reported again once it is so many times as large.
const GROWN: u64 = 2;
/// Mebibytes of the smallest heap that matters.
const LEAST: u64 = 64;

/// Whether a line is of such a log, by its decorations or a fatal error's first words.
pub(super) fn is_jvm_log_line(line: &str) -> bool {
    let tags = ["gc", "pagesize", "safepoint"];
    let unified = split_decorations(line).is_some_and(|(decorations, _)| {
        decorations.iter().any(|part| part.split(',').any(|tag| tags.contains(&tag.trim())))
    });
    unified
        || split_old_line(line).is_some_and(|(_, rest)| find_old_pause(rest).is_some())
        || FATAL.iter().any(|text| uncomment(line).starts_with(text))
        || parse_refused_commit(line).is_some()
}

/// How a report of a fatal error begins, after a line of `#`.
const FATAL: [&str; 2] =
    ["A fatal error has been detected by the Java Runtime Environment", NO_MEMORY];
const NO_MEMORY: &str = "There is insufficient memory for the Java Runtime Environment to continue";
/// Seconds after which a JVM is no longer starting.
const STARTED_BY: f64 = 10.0;

/// A line of such a report without its `#`, which web pages take for headings.
fn uncomment(line: &str) -> &str {
    line.trim_start_matches(['#', ' '])
}

/// Bytes of `INFO: os::commit_memory(0x0000000745a00000, 3126853632, 0) failed; error='Not enough
/// space' (errno=12)`.
fn parse_refused_commit(line: &str) -> Option<Bytes> {
    let (_, rest) = line.split_once("os::commit_memory(0x")?;
    let (arguments, error) = rest.split_once(") failed; ")?;
    let bytes = arguments.split(", ").nth(1)?.parse().ok()?;
    error.contains("(errno=12)").then_some(Bytes(bytes))
}

pub(super) fn recognize_message(message: &str) -> Option<LogEvent> {
    let uncaught = message.starts_with("Exception in thread ")
        && message.contains("java.lang.OutOfMemoryError");
    let said = |kind, what: &str| Some(LogEvent::new(kind, what));
    if uncaught
        || message.starts_with("java.lang.OutOfMemoryError")
        || message.starts_with("Terminating due to java.lang.OutOfMemoryError")
    {
        return said(LogEventKind::ServerTrouble, "a JVM's heap was full (OutOfMemoryError)");
    }
    if message.contains("Server VM warning: ")
        && message.contains("errno")
        && message.contains("Failed to reserve")
    {
        return said(
            LogEventKind::WithoutHugePages,
            "a JVM got no huge pages for a part of its memory",
        );
    }
    if let Some(bytes) = parse_refused_commit(message) {
        let what = format!("a JVM was refused {bytes} of memory");
        return Some(LogEvent::new(LogEventKind::MemoryRefused, what));
    }
    FATAL
        .iter()
        .any(|text| uncomment(message).starts_with(text))
        .then(|| LogEvent::new(LogEventKind::ServerFailed, "a JVM ended with a fatal error"))
}

#[derive(Default)]
pub(super) struct JvmLogState {
    /// Mebibytes of the heap when it was last reported.
    told: u64,
    /// A collection of Java 8 or before, whose details go on in lines of their own.
    open: Option<&'static str>,
    fatal: Option<FatalReport>,
}

/// A report of a fatal error, whose time comes near its end, if at all.
#[derive(Default)]
struct FatalReport {
    /// Whether memory was refused.
    of_memory: bool,
    bytes: Option<Bytes>,
    /// Seconds since the JVM's start.
    elapsed: Option<f64>,
}

impl FatalReport {
    fn into_event(self) -> LogEvent {
        let bytes = self.bytes.map_or_else(String::new, |bytes| format!("{bytes} of "));
        let (kind, what) = match self.elapsed {
            _ if !self.of_memory => (LogEventKind::ServerFailed, "a JVM crashed".to_owned()),
            Some(elapsed) if elapsed < STARTED_BY => (
                LogEventKind::ServerRefused,
                format!("a JVM was refused {bytes}memory, and did not start"),
            ),
            _ => {
                (LogEventKind::ServerFailed, format!("a JVM was refused {bytes}memory, and ended"))
            }
        };
        LogEvent::new(kind, what)
    }
}

impl JvmLogState {
    pub(super) fn push_line(&mut self, line: &str) -> (Option<LineTimestamp>, Option<LogEvent>) {
        if let Some((decorations, message)) = split_decorations(line) {
            let stamp = decorations
                .iter()
                .find_map(|part| LineTimestamp::parse(part).filter(|_| part.contains('T')));
            return (stamp, self.parse_unified_message(message));
        }
        if let Some((stamp, rest)) = split_old_line(line) {
            let pause = parse_old_pause(rest);
            self.open = if pause.is_none() { find_old_pause(rest) } else { None };
            return (
                stamp,
                pause.and_then(|(what, seconds)| long_pause_event(what, seconds * 1000.0)),
            );
        }
        if let Some(what) = self.open
            && let Some(seconds) = parse_times(line)
        {
            self.open = None;
            return (None, long_pause_event(what, seconds * 1000.0));
        }
        self.parse_fatal_report(line)
    }

    fn parse_unified_message(&mut self, message: &str) -> Option<LogEvent> {
        if let Some(collector) = message.strip_prefix("Using ") {
            let known = [
                "G1",
                "Parallel",
                "Serial",
                "Shenandoah",
                "Epsilon",
                "The Z Garbage Collector",
                "Concurrent Mark Sweep",
            ];
            let known = known.iter().find(|name| collector.starts_with(**name))?;
            self.told = 0;
            let name = if known.contains('Z') { "ZGC" } else { known };
            return Some(LogEvent::new(
                LogEventKind::ServerStarted,
                format!("a JVM started ({name})"),
            ));
        }
        if message.starts_with("Failed to allocate initial Java heap")
            || message.starts_with("Failed to reserve address space for Java heap")
        {
            let what = "a JVM could not get its heap, and did not start";
            return Some(LogEvent::new(LogEventKind::ServerRefused, what));
        }
        if message.starts_with("Failed to reserve and commit memory")
            && message.contains("page size")
        {
            let what = "a JVM got no huge pages for a part of its memory and went on without them";
            return Some(LogEvent::new(LogEventKind::WithoutHugePages, what));
        }
        if let Some(rest) = message.strip_prefix("Safepoint \"") {
            return parse_safepoint(rest);
        }
        if let Some(rest) =
            message.strip_prefix("Total time for which application threads were stopped: ")
        {
            let seconds: f64 = rest.split(' ').next()?.replace(',', ".").parse().ok()?;
            return long_pause_event("a safepoint", seconds * 1000.0);
        }
        let (_, rest) = message.strip_prefix("GC(")?.split_once(") ")?;
        if rest.starts_with("To-space exhausted") || rest.contains("(Evacuation Failure)") {
            return Some(LogEvent::new(
                LogEventKind::ServerTrouble,
                "a JVM had no room in its heap to move objects to",
            ));
        }
        let (what, time) = rest.rsplit_once(' ').filter(|_| rest.starts_with("Pause "))?;
        let milliseconds: f64 = time.strip_suffix("ms")?.replace(',', ".").parse().ok()?;
        let grown = self.track_heap_growth(what);
        // The heap before and after comes last.
        let what = what
            .rsplit_once(' ')
            .filter(|(_, heap)| heap.contains("->"))
            .map_or(what, |(what, _)| what);
        long_pause_event(what, milliseconds).or(grown)
    }

    /// `Pause Young (Normal) (G1 Evacuation Pause) 100M->90M(512M)`
    fn track_heap_growth(&mut self, text: &str) -> Option<LogEvent> {
        let (_, rest) = text.split_once("M->")?;
        let capacity: u64 = rest.split_once('(')?.1.split_once("M)")?.0.parse().ok()?;
        if capacity < LEAST || capacity < self.told.saturating_mul(GROWN) {
            return None;
        }
        let words = match std::mem::replace(&mut self.told, capacity) {
            0 => format!("a JVM's heap was {capacity} MB"),
            before => format!("a JVM's heap grew from {before} MB to {capacity} MB"),
        };
        Some(LogEvent::new(LogEventKind::ServerWork, words))
    }

    /// A line of a fatal error's report: its reason comes first, its time near the end.
    fn parse_fatal_report(&mut self, line: &str) -> (Option<LineTimestamp>, Option<LogEvent>) {
        let text = uncomment(line);
        if FATAL.iter().any(|begin| text.starts_with(begin)) {
            let of_memory = text.starts_with(NO_MEMORY);
            let before = self.fatal.replace(FatalReport { of_memory, ..FatalReport::default() });
            return (None, before.map(FatalReport::into_event));
        }
        let Some(report) = &mut self.fatal else {
            let refused = parse_refused_commit(line).and_then(|_| recognize_message(line));
            return (None, refused);
        };
        if let Some(rest) = text.strip_prefix("Native memory allocation (")
            && let Some((_, rest)) =
                rest.split_once(" bytes").and_then(|(rest, _)| rest.rsplit_once(' '))
        {
            report.bytes = rest.parse().ok().map(Bytes);
        }
        let elapsed = text
            .split_once("elapsed time: ")
            .and_then(|(_, rest)| rest.split(' ').next()?.parse::<f64>().ok());
        report.elapsed = elapsed.or(report.elapsed);
        let stamp = parse_report_time(line);
        let event = elapsed.and_then(|_| self.fatal.take()).map(FatalReport::into_event);
        (stamp, event)
    }

    /// What a report says that ends before its time.
    pub(super) fn take_fatal_report(&mut self) -> Option<LogEvent> {
        self.fatal.take().map(FatalReport::into_event)
    }
}

/// `Time: Wed Nov 25 12:40:05 2026 UTC elapsed time: 0.018 seconds`; up to JDK 10 `time: Wed Nov 25
/// 12:40:05 2026`, and the other in the next lines.
fn parse_report_time(line: &str) -> Option<LineTimestamp> {
    let rest = line.strip_prefix("Time: ").or_else(|| line.strip_prefix("time: "))?;
    let time = rest.split_once(" elapsed time").map_or(rest, |(time, _)| time);
    let words: Vec<&str> = time.split_ascii_whitespace().collect();
    let ordered = match words.as_slice() {
        [day, month, date, time, year, zone] => {
            format!("{day} {month} {date} {time} {zone} {year}")
        }
        _ => time.to_owned(),
    };
    LineTimestamp::parse(&ordered)
}

/// `G1CollectForAllocation", Time since last: 40690 ns, Reaching safepoint: 452 ns, ..., Total:
/// 4356592 ns`
fn parse_safepoint(rest: &str) -> Option<LogEvent> {
    let nanoseconds = |name: &str| -> Option<f64> {
        rest.split_once(name)?.1.trim_start().split_once(" ns")?.0.parse().ok()
    };
    let reached = nanoseconds("Reaching safepoint:")? / 1e6;
    if reached >= LONG {
        let what = format!(
            "a JVM waited {:.1} s for its threads to stop: one did not get to run, or was stuck \
                 in the kernel",
            reached / 1000.0
        );
        return Some(LogEvent::new(LogEventKind::ServerTrouble, what));
    }
    // The collector's own pauses have their own lines.
    let name = rest.split_once('"')?.0;
    let of_collector = ["G1", "Parallel", "GenCollect", "Z", "X", "Shenandoah", "CGC", "Collect"]
        .iter()
        .any(|begin| name.starts_with(begin));
    if of_collector { None } else { long_pause_event("a safepoint", nanoseconds("Total:")? / 1e6) }
}

pub(super) fn long_pause_event(what: &str, milliseconds: f64) -> Option<LogEvent> {
    let long = milliseconds.is_finite() && milliseconds >= LONG;
    long.then(|| {
        LogEvent::new(
            LogEventKind::ServerTrouble,
            format!("a JVM stood still for {:.1} s: {what}", milliseconds / 1000.0),
        )
    })
}

/// `[2026-11-25T12:40:05.107+0000][0.001s][info][gc,init] message`
fn split_decorations(line: &str) -> Option<(Vec<&str>, &str)> {
    let mut decorations = Vec::new();
    let mut rest = line;
    while let Some((inside, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
    {
        decorations.push(inside.trim());
        rest = behind;
        if decorations.len() > 12 {
            return None;
        }
    }
    (!decorations.is_empty()).then(|| (decorations, rest.trim_start()))
}

/// `2026-11-25T12:40:05.107+0000: 0.123: [GC (Allocation Failure) ...`, of which the date or the
/// uptime may be missing.
fn split_old_line(line: &str) -> Option<(Option<LineTimestamp>, &str)> {
    let (time, rest) = line.split_once(": ")?;
    if is_uptime(time) {
        return Some((None, rest));
    }
    let stamp = LineTimestamp::parse(time).filter(|_| time.contains('T') && !time.contains(' '))?;
    let behind = rest.split_once(": ").filter(|(uptime, _)| is_uptime(uptime));
    let rest = behind.map(|(_, rest)| rest).or_else(|| rest.starts_with('[').then_some(rest))?;
    Some((Some(stamp), rest))
}

/// Seconds with a part of them, of less than three years.
fn is_uptime(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    text.split_once(['.', ',']).is_some_and(|(seconds, part)| {
        (1..=8).contains(&seconds.len()) && part.len() == 3 && digits(seconds) && digits(part)
    })
}

/// Milliseconds of the uptime that a line without a date begins with: `[0.004s]`, `[4ms]`, `0.004: `.
pub(super) fn parse_uptime(line: &str) -> Option<i64> {
    let milliseconds = |text: &str| text.replace(['.', ','], "").parse::<i64>().ok();
    if let Some((decorations, _)) = split_decorations(line) {
        return decorations.iter().find_map(|part| {
            let whole =
                part.strip_suffix("ms").filter(|text| text.len() <= 12).and_then(milliseconds);
            whole.or_else(|| milliseconds(part.strip_suffix('s').filter(|text| is_uptime(text))?))
        });
    }
    let (time, _) = line.split_once(": ")?;
    milliseconds(time).filter(|_| is_uptime(time))
}

/// Seconds of ` [Times: user=0.50 sys=45.10, real=45.20 secs]`.
fn parse_times(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once("[Times: user=")?;
    rest.split_once(" real=")?.1.split_once(" secs]")?.0.replace(',', ".").parse().ok()
}

/// What a line of Java 8 or before says that the JVM does, perhaps not yet for how long.
fn find_old_pause(rest: &str) -> Option<&'static str> {
    if rest.starts_with(STOPPED) {
        return Some("a safepoint");
    }
    let inside = rest.strip_prefix('[')?;
    ["Full GC", "GC pause", "GC remark", "GC"].into_iter().find(|what| {
        // Concurrent phases stop nobody.
        inside
            .strip_prefix(*what)
            .is_some_and(|behind| !behind.starts_with(" concurrent") && !behind.starts_with('-'))
    })
}

const STOPPED: &str = "Total time for which application threads were stopped: ";

/// The cause of a JDK 8 pause, and its seconds: `[Full GC (Ergonomics) ... , 1.2345678 secs]`.
fn parse_old_pause(rest: &str) -> Option<(&'static str, f64)> {
    let what = find_old_pause(rest)?;
    if let Some(seconds) = rest.strip_prefix(STOPPED) {
        return Some((what, seconds.split(' ').next()?.parse().ok()?));
    }
    // What it took in parts comes before.
    let rest = rest.split_once(" [Times: ").map_or(rest, |(rest, _)| rest);
    let (before, _) = rest.rsplit_once(" secs]")?;
    let seconds = before.rsplit([' ', ',']).next()?.parse().ok()?;
    Some((what, seconds))
}
