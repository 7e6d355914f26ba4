//! The JVM's logs: unified logging from JDK 9 on with the decoration `time` (`-Xlog:gc*:file=gc.log:time,uptime,level,tags`),
//! JDK 8's with `-XX:+PrintGCDateStamps`, and reports of fatal errors (`hs_err_pid4711.log`).
//!
//! Texts are those of OpenJDK 8 to 21 (gc/shared, runtime/safepoint.cpp, utilities/vmError.cpp).

use crate::event::{Event, EventKind};
use crate::readers::stamp::Stamp;

/// Milliseconds without any thread of the application from which on a pause is told.
const LONG: f64 = 1000.0;
/// A heap is told again once it has grown by so much.
const GROWN: u64 = 2;
/// Mebibytes below which nobody asks for a heap.
const LEAST: u64 = 64;

/// Whether a line can be of such a log: by its decorations, or as a report of a fatal error begins.
pub(super) fn begins(line: &str) -> bool {
    let tags = ["gc", "pagesize", "safepoint"];
    let unified = decorated(line).is_some_and(|(decorations, _)| {
        decorations.iter().any(|part| part.split(',').any(|tag| tags.contains(&tag.trim())))
    });
    unified
        || dated(line).is_some_and(|(_, rest)| old_pause(rest).is_some())
        || FATAL.iter().any(|text| line.starts_with(text))
}

/// How a report of a fatal error begins, behind a line of `#` alone.
const FATAL: [&str; 2] = [
    "# A fatal error has been detected by the Java Runtime Environment",
    "# There is insufficient memory for the Java Runtime Environment to continue",
];

/// What a JVM prints of itself.
pub(super) fn printed(message: &str) -> Option<Event> {
    let uncaught = message.starts_with("Exception in thread ") && message.contains("java.lang.OutOfMemoryError");
    let said = |kind, what: &str| Some(Event::new(kind, what));
    if uncaught
        || message.starts_with("java.lang.OutOfMemoryError")
        || message.starts_with("Terminating due to java.lang.OutOfMemoryError")
    {
        return said(EventKind::ServerTrouble, "a JVM's heap was full (OutOfMemoryError)");
    }
    if message.contains("Server VM warning: ") && message.contains("errno") && message.contains("Failed to reserve") {
        return said(EventKind::WithoutHugePages, "a JVM got no huge pages for a part of its memory");
    }
    FATAL
        .iter()
        .any(|text| message.starts_with(text))
        .then(|| Event::new(EventKind::ServerFailed, "a JVM ended with a fatal error"))
}

/// What is carried from line to line.
#[derive(Default)]
pub(super) struct Machine {
    /// Mebibytes of the heap when it was told last.
    told: u64,
    /// Of a report of a fatal error, which says its time at its end.
    fatal: Option<String>,
}

impl Machine {
    /// The time that a line says, and what it tells.
    pub(super) fn line(&mut self, line: &str) -> (Option<Stamp>, Option<Event>) {
        if let Some((decorations, message)) = decorated(line) {
            let stamp = decorations.iter().find_map(|part| Stamp::parse(part).filter(|_| part.contains('T')));
            return (stamp, self.unified(message));
        }
        if let Some((stamp, rest)) = dated(line) {
            return (Some(stamp), old_pause(rest).and_then(|(what, seconds)| pause(what, seconds * 1000.0)));
        }
        self.report(line)
    }

    fn unified(&mut self, message: &str) -> Option<Event> {
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
            return Some(Event::new(EventKind::ServerStarted, format!("a JVM started ({name})")));
        }
        if message.starts_with("Failed to reserve and commit memory") && message.contains("page size") {
            let what = "a JVM got no huge pages for a part of its memory and went on without them";
            return Some(Event::new(EventKind::WithoutHugePages, what));
        }
        if let Some(rest) = message.strip_prefix("Safepoint \"") {
            return stopped(rest);
        }
        if let Some(rest) = message.strip_prefix("Total time for which application threads were stopped: ") {
            let seconds: f64 = rest.split(' ').next()?.replace(',', ".").parse().ok()?;
            return pause("a safepoint", seconds * 1000.0);
        }
        let (_, rest) = message.strip_prefix("GC(")?.split_once(") ")?;
        if rest.starts_with("To-space exhausted") || rest.contains("(Evacuation Failure)") {
            return Some(Event::new(EventKind::ServerTrouble, "a JVM had no room in its heap to move objects to"));
        }
        let (what, time) = rest.rsplit_once(' ').filter(|_| rest.starts_with("Pause "))?;
        let milliseconds: f64 = time.strip_suffix("ms")?.replace(',', ".").parse().ok()?;
        let grown = self.grown(what);
        // What the heap was before and behind it stands at the end.
        let what = what.rsplit_once(' ').filter(|(_, heap)| heap.contains("->")).map_or(what, |(what, _)| what);
        pause(what, milliseconds).or(grown)
    }

    /// `Pause Young (Normal) (G1 Evacuation Pause) 100M->90M(512M)`
    fn grown(&mut self, text: &str) -> Option<Event> {
        let (_, rest) = text.split_once("M->")?;
        let capacity: u64 = rest.split_once('(')?.1.split_once("M)")?.0.parse().ok()?;
        if capacity < LEAST || capacity < self.told.saturating_mul(GROWN) {
            return None;
        }
        let words = match std::mem::replace(&mut self.told, capacity) {
            0 => format!("a JVM's heap was {capacity} MB"),
            before => format!("a JVM's heap grew from {before} MB to {capacity} MB"),
        };
        Some(Event::new(EventKind::ServerWork, words))
    }

    /// A line of a report: its reason comes first, the time near its end.
    fn report(&mut self, line: &str) -> (Option<Stamp>, Option<Event>) {
        if FATAL.iter().any(|text| line.starts_with(text)) {
            let memory = line.starts_with("# There is insufficient memory");
            self.fatal = Some(if memory { "a JVM was refused memory and ended" } else { "a JVM crashed" }.to_owned());
            return (None, None);
        }
        // `Time: Wed Nov 25 12:40:05 2026 UTC elapsed time: 0.018 seconds`; up to JDK 10 `time: Wed Nov 25 12:40:05 2026`.
        let Some(rest) = line.strip_prefix("Time: ").or_else(|| line.strip_prefix("time: ")) else {
            return (None, None);
        };
        let time = rest.split_once(" elapsed time").map_or(rest, |(time, _)| time);
        let words: Vec<&str> = time.split_ascii_whitespace().collect();
        let ordered = match words.as_slice() {
            [day, month, date, time, year, zone] => format!("{day} {month} {date} {time} {zone} {year}"),
            _ => time.to_owned(),
        };
        let Some(stamp) = Stamp::parse(&ordered) else { return (None, None) };
        (Some(stamp), self.fatal.take().map(|what| Event::new(EventKind::ServerFailed, what)))
    }
}

/// `G1CollectForAllocation", Time since last: 40690 ns, Reaching safepoint: 452 ns, ..., Total: 4356592 ns`
fn stopped(rest: &str) -> Option<Event> {
    let nanoseconds =
        |name: &str| -> Option<f64> { rest.split_once(name)?.1.trim_start().split_once(" ns")?.0.parse().ok() };
    let reached = nanoseconds("Reaching safepoint:")? / 1e6;
    if reached >= LONG {
        let what = format!(
            "a JVM waited {:.1} s for its threads to stop: one did not get to run, or was stuck in the kernel",
            reached / 1000.0
        );
        return Some(Event::new(EventKind::ServerTrouble, what));
    }
    // The collector says its own pauses.
    let name = rest.split_once('"')?.0;
    let of_collector = ["G1", "Parallel", "GenCollect", "Z", "X", "Shenandoah", "CGC", "Collect"]
        .iter()
        .any(|begin| name.starts_with(begin));
    if of_collector { None } else { pause("a safepoint", nanoseconds("Total:")? / 1e6) }
}

fn pause(what: &str, milliseconds: f64) -> Option<Event> {
    let long = milliseconds.is_finite() && milliseconds >= LONG;
    long.then(|| {
        Event::new(EventKind::ServerTrouble, format!("a JVM stood still for {:.1} s: {what}", milliseconds / 1000.0))
    })
}

/// The decorations of a line, `[2026-11-25T12:40:05.107+0000][0.001s][info][gc,init]`, and its message.
fn decorated(line: &str) -> Option<(Vec<&str>, &str)> {
    let mut decorations = Vec::new();
    let mut rest = line;
    while let Some((inside, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        decorations.push(inside.trim());
        rest = behind;
        if decorations.len() > 12 {
            return None;
        }
    }
    (!decorations.is_empty()).then(|| (decorations, rest.trim_start()))
}

/// `2026-11-25T12:40:05.107+0000: 0.123: [GC (Allocation Failure) ...`
fn dated(line: &str) -> Option<(Stamp, &str)> {
    let (time, rest) = line.split_once(": ")?;
    let stamp = Stamp::parse(time).filter(|_| time.contains('T') && !time.contains(' '))?;
    let (uptime, rest) = rest.split_once(": ")?;
    uptime.parse::<f64>().ok()?;
    Some((stamp, rest))
}

/// What a pause of JDK 8 was for, and its seconds: `[Full GC (Ergonomics) ... , 1.2345678 secs]`.
fn old_pause(rest: &str) -> Option<(&str, f64)> {
    if let Some(seconds) = rest.strip_prefix("Total time for which application threads were stopped: ") {
        return Some(("a safepoint", seconds.split(' ').next()?.parse().ok()?));
    }
    let what = ["Full GC", "GC pause", "GC remark", "GC"]
        .into_iter()
        .find(|what| rest.strip_prefix('[').is_some_and(|rest| rest.starts_with(what)))?;
    let (before, _) = rest.split_once(" secs]")?;
    let seconds = before.rsplit([' ', ',']).next()?.parse().ok()?;
    Some((what, seconds))
}
