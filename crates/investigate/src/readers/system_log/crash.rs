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
    "segment-related general protection fault: ",
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

/// What says of the registers behind it that they are no oops's.
const HEADS: &[&str] = &[
    " lockup",
    "INFO: ",
    "WARNING: ",
    "NMI",
    "page allocation failure",
    " invoked oom-killer",
    "UBSAN: ",
    "scheduling while atomic",
];

/// Lines of a trace between the words that make one sign.
const NEAR: usize = 10;

/// Collects the lines of one oops, of which the first says what it was.
#[derive(Debug, Default)]
pub(super) struct CrashLines {
    oops: Option<usize>,
    /// Whether an oops or a panic was told, in words or by a trace.
    told: bool,
    /// Lines since one that is tainted by a death, and since a frame of panic().
    tainted: Option<usize>,
    panicking: Option<usize>,
    /// Lines since one that says what a trace behind it is of.
    headed: Option<usize>,
}

impl CrashLines {
    pub(super) fn parse_line(&mut self, message: &str) -> Option<LogEvent> {
        if let Some(reason) = message
            .strip_prefix("Kernel panic - not syncing: ")
            .or_else(|| message.strip_prefix("Kernel panic: "))
        {
            (self.oops, self.told) = (None, true);
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
        let Some(reason) = parse_oops(message) else { return self.parse_headless_trace(message) };
        (self.oops, self.told) = (Some(0), true);
        let what = format!("the kernel found itself in error (oops): {}", shorten_reason(reason));
        Some(LogEvent::new(LogEventKind::Oops, what))
    }
}

impl CrashLines {
    /// Traces whose first lines are missing: registers of a kernel in which a task has died of an error
    /// before (taint D), and panic() called by out_of_memory().
    fn parse_headless_trace(&mut self, message: &str) -> Option<LogEvent> {
        for lines in [&mut self.tainted, &mut self.panicking, &mut self.headed] {
            *lines = lines.map(|lines| lines + 1).filter(|lines| *lines <= NEAR);
        }
        if HEADS.iter().any(|head| message.contains(head)) {
            self.headed = Some(0);
        }
        if self.told || self.headed.is_some() {
            return None;
        }
        if message.starts_with("CPU: ") && is_tainted_by_death(message) {
            self.tainted = Some(0);
        }
        if self.tainted.is_some() && message.starts_with("RIP: ") {
            self.told = true;
            let what = "the kernel had found itself in error (oops), by its taint D";
            return Some(LogEvent::new(LogEventKind::Oops, what));
        }
        let (frame, _) = message.split_once("+0x")?;
        let name = frame.rsplit([' ', ']']).next().unwrap_or(frame);
        match name.split('.').next().unwrap_or(name) {
            "panic" | "vpanic" => self.panicking = Some(0),
            "out_of_memory" if self.panicking.is_some() => {
                self.told = true;
                let what = "panicked, because the host was out of memory (panic() under \
                            out_of_memory() in the trace)";
                return Some(LogEvent::new(LogEventKind::OutOfMemory, what));
            }
            _ => {}
        }
        None
    }
}

/// `CPU: 16 PID: 3334 Comm: postgres Tainted: P      D    OE   4.2.2_1 #1`; since 6.12 `Tainted: [D]=DIE,
/// [O]=OOT_MODULE`. A process's name comes before.
fn is_tainted_by_death(message: &str) -> bool {
    let Some((_, rest)) = message.rsplit_once(" Tainted: ") else { return false };
    let flags = rest.split_ascii_whitespace().take_while(|word| !word.contains('.'));
    flags.into_iter().any(|word| {
        let letters = word.split_once(']').map_or(word, |(letter, _)| letter);
        let letters = letters.trim_start_matches('[');
        letters.contains('D') && letters.bytes().all(|letter| letter.is_ascii_uppercase())
    })
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
