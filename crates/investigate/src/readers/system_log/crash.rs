//! A kernel that panicked or found itself in error, as its log or a dump's (vmcore-dmesg) has it.
//!
//! Texts are those of Linux 2.6.9 to 6.18: kernel/panic.c, arch/*/mm/fault.c, arch/*/kernel/traps.c.
//! A process chooses 15 bytes of its name, which come first where it faults: no such name begins any
//! of these, with what follows it.

use crate::event::{LogEvent, LogEventKind};

/// Lines behind the first one of an oops that still belong to it.
const LONGEST: usize = 200;

const OOPS: &[&str] = &[
    "BUG: unable to handle kernel ",
    "BUG: unable to handle page fault for address",
    "BUG: kernel NULL pointer dereference",
    "BUG: Kernel NULL pointer dereference",
    "BUG: Unable to handle kernel ",
    "Unable to handle kernel ",
    "general protection fault, ",
    "general protection fault: ",
    "Oops: general protection fault",
    "Oops: Kernel access of bad area",
    "Kernel access of bad area",
    "Internal error: Oops",
    "stack segment: 0000 [#",
    "invalid opcode: 0000 [#",
    "divide error: 0000 [#",
    "double fault: 0000 [#",
];

/// Collects the lines of one oops, of which the first says what it was.
#[derive(Debug, Default)]
pub(super) struct CrashLines {
    oops: Option<usize>,
}

impl CrashLines {
    pub(super) fn parse_line(&mut self, message: &str) -> Option<LogEvent> {
        if let Some(reason) = message
            .strip_prefix("Kernel panic - not syncing: ")
            .or_else(|| message.strip_prefix("Kernel panic: "))
        {
            self.oops = None;
            let reason = shorten_reason(reason);
            let what = format!("the kernel panicked: {reason}");
            return Some(LogEvent::new(LogEventKind::Panic, what));
        }
        if let Some(lines) = &mut self.oops {
            *lines += 1;
            if *lines > LONGEST || message.starts_with("---[ end trace ") {
                self.oops = None;
            }
            return None;
        }
        let reason = parse_oops(message)?;
        self.oops = Some(0);
        let what = format!("the kernel found itself in error (oops): {}", shorten_reason(reason));
        Some(LogEvent::new(LogEventKind::Oops, what))
    }
}

fn parse_oops(message: &str) -> Option<&str> {
    // `kernel BUG at mm/slub.c:3972!`
    let is_bug = message
        .strip_prefix("kernel BUG at ")
        .is_some_and(|place| place.ends_with('!') && place.contains(':'));
    // `Oops: 0000 [#1] SMP`
    let is_plain = message.strip_prefix("Oops: ").is_some_and(|rest| {
        rest.split_once(" [#").is_some_and(|(code, behind)| {
            code.bytes().all(|digit| digit.is_ascii_hexdigit())
                && behind
                    .split_once(']')
                    .is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with([' ', '\t']))
        })
    });
    let known = is_bug || is_plain || OOPS.iter().any(|begin| message.starts_with(begin));
    known.then_some(message)
}

fn shorten_reason(reason: &str) -> &str {
    let end = reason.floor_char_boundary(160);
    reason.get(..end).unwrap_or(reason).trim_end()
}
