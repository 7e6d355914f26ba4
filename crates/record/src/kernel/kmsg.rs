//! /dev/kmsg: the kernel's messages on memory, hangs and damage
//! (Documentation/ABI/testing/dev-kmsg).
//!
//! The kernel also prints what users chose: names of processes, programs and cgroups, command lines
//! of the audit. So a message counts only where it begins like the kernel's own; a process's name
//! in front is recognised by its length.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, SeekFrom, openat, seek};
use rustix::io::{Errno, read};

use crate::notes::{RecordedEvent, RecordedEventKind};

/// Messages at one time; a flood waits for the next second.
const AT_ONCE: usize = 256;
/// TASK_COMM_LEN without its zero.
const LONGEST_COMMAND: usize = 15;

/// How messages begin: mm/oom_kill.c, mm/memory.c, mm/page_alloc.c, kernel/fork.c, kernel/panic.c,
/// kernel/watchdog.c, include/linux/printk.h (HW_ERR). All are too long for a process's name.
const BEGINNINGS: &[(&str, RecordedEventKind)] = &[
    ("oom-kill:constraint=", RecordedEventKind::OutOfMemory),
    ("Out of memory: Killed process ", RecordedEventKind::OutOfMemory),
    ("Out of memory: Kill process ", RecordedEventKind::OutOfMemory),
    ("Out of memory (oom_kill_allocating_task): Kill", RecordedEventKind::OutOfMemory),
    ("Out of memory and no killable processes", RecordedEventKind::OutOfMemory),
    ("Memory cgroup out of memory: Kill", RecordedEventKind::OutOfMemory),
    ("watchdog: BUG: soft lockup - CPU#", RecordedEventKind::Lockup),
    ("NMI watchdog: BUG: soft lockup - CPU#", RecordedEventKind::Lockup),
    ("BUG: soft lockup - CPU#", RecordedEventKind::Lockup),
    ("BUG: Bad page state in process ", RecordedEventKind::Damage),
    ("BUG: Bad page map in process ", RecordedEventKind::Damage),
    ("BUG: Bad page cache in process ", RecordedEventKind::Damage),
    ("BUG: Bad rss-counter state mm:", RecordedEventKind::Damage),
    ("Kernel panic - not syncing", RecordedEventKind::Damage),
    ("[Hardware Error]: ", RecordedEventKind::Damage),
    ("mce: [Hardware Error]: ", RecordedEventKind::Damage),
];

/// What follows a process's name at the beginning (mm/oom_kill.c, mm/page_alloc.c).
const BEHIND_A_NAME: &[(&str, RecordedEventKind)] = &[
    (" invoked oom-killer: gfp_mask=", RecordedEventKind::OutOfMemory),
    (": page allocation failure: order:", RecordedEventKind::AllocationFailure),
    (": page allocation stalls for ", RecordedEventKind::AllocationFailure),
];

fn classify_message(text: &[u8]) -> Option<RecordedEventKind> {
    let begins = BEGINNINGS
        .iter()
        .find(|(begin, _)| text.starts_with(begin.as_bytes()))
        .map(|(_, kind)| *kind);
    let behind_a_name = || {
        BEHIND_A_NAME
            .iter()
            .find(|(part, _)| after_name(text, |rest| rest.starts_with(part.as_bytes())))
            .map(|(_, kind)| *kind)
    };
    begins.or_else(behind_a_name).or_else(|| {
        [
            (is_killed(text), RecordedEventKind::OutOfMemory),
            (is_hung(text), RecordedEventKind::HungTask),
            (is_hard_lockup(text) || is_stall(text), RecordedEventKind::Lockup),
            (is_bug(text) || is_hardware(text), RecordedEventKind::Damage),
        ]
        .into_iter()
        .find_map(|(is, kind)| is.then_some(kind))
    })
}

/// Whether `is` holds behind at most a process's name. The device writes an unprintable byte as
/// `\xNN`.
fn after_name(text: &[u8], is: impl Fn(&[u8]) -> bool) -> bool {
    let mut rest = text;
    for _ in 0..=LONGEST_COMMAND {
        if is(rest) {
            return true;
        }
        let byte = if rest.starts_with(b"\\x") { 4 } else { 1 };
        let Some(behind) = rest.get(byte..) else { return false };
        rest = behind;
    }
    false
}

fn split_digits(text: &[u8]) -> Option<&[u8]> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    if end == 0 { None } else { text.get(end..) }
}

/// `Killed process 9 (java) total-vm:...` (before Linux 5.3): no digit can follow a process's name.
fn is_killed(text: &[u8]) -> bool {
    let behind = text.strip_prefix(b"Killed process ").and_then(split_digits);
    behind.is_some_and(|behind| behind.starts_with(b" (") || behind.starts_with(b", UID "))
}

/// `INFO: task NAME:PID blocked for more than` (kernel/hung_task.c); names may contain colons.
fn is_hung(text: &[u8]) -> bool {
    let blocked = |rest: &[u8]| {
        let pid = rest.strip_prefix(b":").and_then(split_digits);
        pid.is_some_and(|behind| behind.starts_with(b" blocked for more than "))
    };
    text.strip_prefix(b"INFO: task ").is_some_and(|rest| after_name(rest, blocked))
}

/// `Watchdog detected hard LOCKUP on cpu 3` behind the watchdog's name (kernel/watchdog.c), and
/// powerpc's.
fn is_hard_lockup(text: &[u8]) -> bool {
    let named = [&b"NMI watchdog: "[..], b"watchdog: "]
        .into_iter()
        .find_map(|name| text.strip_prefix(name));
    let rest = named.unwrap_or(text);
    let of_processor =
        rest.strip_prefix(b"CPU").and_then(split_digits).and_then(|rest| rest.strip_prefix(b": "));
    if of_processor.unwrap_or(rest).starts_with(b"Watchdog detected hard LOCKUP on cpu ") {
        return true;
    }
    let powerpc = named.and_then(|rest| rest.strip_prefix(b"CPU ")).and_then(split_digits);
    powerpc.is_some_and(|rest| {
        rest.starts_with(b" self-detected hard LOCKUP")
            || rest.starts_with(b" detected hard LOCKUP on other CPUs")
    })
}

/// `rcu: INFO: rcu_sched self-detected stall on CPU` (kernel/rcu/tree_stall.h), without `rcu: `
/// before Linux 4.19.
fn is_stall(text: &[u8]) -> bool {
    let rest = text.strip_prefix(b"rcu: ").unwrap_or(text);
    let Some(rest) = rest.strip_prefix(b"INFO: rcu_") else { return false };
    let end = rest
        .iter()
        .position(|byte| !byte.is_ascii_lowercase() && *byte != b'_')
        .unwrap_or(rest.len());
    let rest = rest.get(end..).unwrap_or_default();
    [
        &b" self-detected stall on CPU"[..],
        b" detected stalls on ",
        b" detected expedited stalls on ",
    ]
    .into_iter()
    .any(|words| rest.starts_with(words))
}

/// `kernel BUG at mm/hugetlb.c:1234!` (lib/bug.c).
fn is_bug(text: &[u8]) -> bool {
    let Some(place) = text.strip_prefix(b"kernel BUG at ") else { return false };
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-".contains(byte);
    let end = place.iter().position(|byte| !fits(byte)).unwrap_or(place.len());
    let line = place.get(end..).and_then(|rest| rest.strip_prefix(b":")).and_then(split_digits);
    end > 0 && line == Some(b"!")
}

/// `{1}[Hardware Error]: ...`: the firmware's reports (drivers/acpi/apei/ghes.c).
fn is_hardware(text: &[u8]) -> bool {
    let behind = text.strip_prefix(b"{").and_then(split_digits);
    behind.is_some_and(|rest| rest.starts_with(b"}[Hardware Error]: "))
}

/// A record of /dev/kmsg, `6,1234,5678901,-;text`, where it is the kernel's own and worth keeping.
pub fn parse_kernel_message(record: &[u8], wall: i64) -> Option<RecordedEvent> {
    let at = record.iter().position(|byte| *byte == b';')?;
    let (head, rest) = record.split_at_checked(at)?;
    let text = rest.get(1..)?.split(|byte| *byte == b'\n').next()?;
    let priority = super::parse_number(head.split(|byte| *byte == b',').next()?)?;
    // Facility 0 is the kernel; programs that may write to it get another one.
    if priority >> 3 != 0 {
        return None;
    }
    Some(RecordedEvent::new(wall, classify_message(text)?, text))
}

#[derive(Debug)]
pub(crate) struct KernelMessages(Option<OwnedFd>);

impl KernelMessages {
    pub(crate) fn open(missing: &mut Vec<String>) -> Self {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = openat(CWD, "/dev/kmsg", flags, Mode::empty()).and_then(|file| {
            seek(&file, SeekFrom::End(0))?;
            Ok(file)
        });
        match opened {
            Ok(file) => Self(Some(file)),
            Err(error) => {
                let why = std::io::Error::from(error);
                missing.push(format!("kernel messages (/dev/kmsg): {why}"));
                Self(None)
            }
        }
    }

    /// For poll(2).
    pub(crate) fn poll_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Whether all were read.
    pub(crate) fn read_messages(
        &mut self,
        buffer: &mut [u8],
        wall: i64,
        hand: &mut dyn FnMut(RecordedEvent),
    ) -> bool {
        let Some(file) = &self.0 else { return true };
        for _ in 0..AT_ONCE {
            match read(file, &mut *buffer) {
                Ok(0) => return true,
                Ok(length) => {
                    if let Some(event) =
                        buffer.get(..length).and_then(|record| parse_kernel_message(record, wall))
                    {
                        hand(event);
                    }
                }
                // Overwritten before they were read.
                Err(Errno::PIPE | Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => {
                    self.0 = None;
                    return true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_words_are_kept_and_those_of_others_are_not() {
        let line = "4,1234,98765,-;oracle_99 invoked oom-killer: \
             gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0\n SUBSYSTEM=mem\n";
        let said = parse_kernel_message(line.as_bytes(), 5).unwrap();
        assert_eq!((said.kind, said.wall), (RecordedEventKind::OutOfMemory, 5));
        assert_eq!(
            said.to_text(),
            "oracle_99 invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0"
        );
        for (text, kind) in [
            (
                "3,1,2,-;INFO: task jbd2/dm-0-8:512 blocked for more than 122 seconds.",
                RecordedEventKind::HungTask,
            ),
            (
                "4,1,2,-;kworker/u8:1: page allocation failure: order:5, \
                     mode:0x40dc0(GFP_KERNEL|__GFP_COMP), nodemask=(null)",
                RecordedEventKind::AllocationFailure,
            ),
            (
                "0,1,2,-;watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [oracle_1:99]",
                RecordedEventKind::Lockup,
            ),
            (
                "1,1,2,-;BUG: Bad page state in process ora_dbw0_db1  pfn:10a2b",
                RecordedEventKind::Damage,
            ),
        ] {
            assert_eq!(parse_kernel_message(text.as_bytes(), 0).unwrap().kind, kind, "{text}");
        }
        // Of the facility daemon, of nothing that counts, and what is no record.
        for other in
            ["30,1,2,-;Out of memory", "6,1,2,-;eth0: link up", "", ";", "x;Out of memory", "6,1,2"]
        {
            assert_eq!(parse_kernel_message(other.as_bytes(), 0), None, "{other}");
        }
    }

    /// As the sources of Linux 3.10, 4.18, 5.14 and 6.12 print them.
    #[test]
    fn each_form_of_the_kernels_is_kept() {
        use RecordedEventKind::{AllocationFailure, Damage, HungTask, Lockup, OutOfMemory};
        for (text, kind) in [
            (
                "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom",
                OutOfMemory,
            ),
            (
                "Out of memory: Killed process 4711 (java) total-vm:9kB, anon-rss:2048kB, \
                     file-rss:0kB",
                OutOfMemory,
            ),
            ("Out of memory: Kill process 4711 (java) score 901 or sacrifice child", OutOfMemory),
            ("Memory cgroup out of memory: Killed process 4711 (java) total-vm:9kB", OutOfMemory),
            (
                "Memory cgroup out of memory: Kill process 4711 (java) score 901 or sacrifice \
                     child",
                OutOfMemory,
            ),
            ("Killed process 4711 (java) total-vm:9kB, anon-rss:2048kB, file-rss:0kB", OutOfMemory),
            ("Killed process 4711, UID 54321, (oracle) total-vm:9kB, anon-rss:2048kB", OutOfMemory),
            (
                "\\xc3\\xa4\\xc3\\xa4\\xc3\\xa4\\xc3\\xa4 invoked oom-killer: \
                     gfp_mask=0xcc0(GFP_KERNEL), order=0",
                OutOfMemory,
            ),
            (
                "mysqld: page allocation stalls for 10004ms, order:0, mode:0x14201ca",
                AllocationFailure,
            ),
            ("INFO: task a: b:c:4711 blocked for more than 120 seconds.", HungTask),
            ("NMI watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [oracle:99]", Lockup),
            ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 3", Lockup),
            ("Watchdog detected hard LOCKUP on cpu 3", Lockup),
            ("watchdog: CPU2: Watchdog detected hard LOCKUP on cpu 3", Lockup),
            ("watchdog: CPU 3 self-detected hard LOCKUP @ plpar_hcall_norets+0x1c/0x28", Lockup),
            ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", Lockup),
            ("rcu: INFO: rcu_sched self-detected stall on CPU", Lockup),
            (
                "INFO: rcu_sched self-detected stall on CPU { 1}  (t=60000 jiffies g=1 c=0 q=9)",
                Lockup,
            ),
            ("BUG: Bad page map in process oracle  pte:8000000123456067 pmd:1234567", Damage),
            ("BUG: Bad rss-counter state mm:00000000deadbeef type:MM_ANONPAGES val:1", Damage),
            ("kernel BUG at mm/hugetlb.c:1234!", Damage),
            ("Kernel panic - not syncing: Fatal exception", Damage),
            ("mce: [Hardware Error]: Machine check events logged", Damage),
            ("[Hardware Error]: Corrected error, no action required.", Damage),
            (
                "{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0",
                Damage,
            ),
        ] {
            let said = parse_kernel_message(format!("3,1,2,-;{text}").as_bytes(), 0);
            assert_eq!(said.map(|event| event.kind), Some(kind), "{text}");
        }
    }

    /// A user names his process, his program and his cgroup as he likes, and the kernel prints
    /// that.
    #[test]
    fn what_a_user_has_the_kernel_print_is_not_its_own() {
        let wanted = [
            "hard LOCKUP",
            "soft lockup",
            "Killed process ",
            "Killed process 9 (a) total-vm:",
            "Out of memory: ",
            "Out of memory",
            "Out of memory: Killed process 9",
            "Memory cgroup out of memory: Killed process 9",
            "Kernel panic",
            "Kernel panic - not syncing",
            "oom-kill:",
            "oom-kill:constraint=",
            "invoked oom-killer",
            "x invoked oom-killer: gfp_mask=0x0",
            ": page allocation failure: order:0",
            "page allocation failure",
            "INFO: task a:1 blocked for more than 122 seconds",
            "INFO: task a:1",
            "INFO: task :1 ",
            "blocked for more than",
            "kernel BUG at a:1!",
            "kernel BUG at m",
            "kernel BUG at ",
            "BUG: Bad page state in process",
            "BUG: Bad rss-counter",
            "[Hardware Error]: ",
            "[Hardware Error",
            "mce: [Hardware Error]: ",
            "{1}[Hardware Error]: ",
            "rcu: INFO: rcu_sched self-detected stall on CPU",
            "INFO: rcu_sched",
            "self-detected stall",
            "rcu_sched detected",
            "watchdog: BUG: soft lockup - CPU#1",
            "watchdog: CPU 1 self-detected hard LOCKUP",
            "Watchdog detected hard LOCKUP on cpu 1",
        ];
        for text in wanted {
            let name = text.get(..text.len().min(LONGEST_COMMAND)).unwrap();
            for record in [
                format!(
                    "6,1,2,-;{name}[29347]: segfault at 0 ip 0000000000000000 sp 00007ffc0 error \
                         14 in {text}[55d0+1000]"
                ),
                format!(
                    "6,1,2,-;traps: {name}[1] trap divide error ip:0 sp:0 error:0 in \
                         {text}[400000+1000]"
                ),
                format!(
                    "6,1,2,-;traps: {name}[1] general protection fault ip:0 sp:0 error:0 in \
                         {text}[400000+1000]"
                ),
                format!("4,1,2,-;{name}: attempt to access beyond end of device"),
                format!("4,1,2,-;{name} (9): Uses obsolete {text}"),
                format!("4,1,2,-;{name}:9 map pfn expected mapping type {text}"),
                format!(
                    "4,1,2,-;warning: `{name}' uses 32-bit capabilities (legacy support in use)"
                ),
                format!("4,1,2,-;Memory cgroup stats for /user.slice/{text}: cache:0KB"),
                format!(
                    "4,1,2,-;Task in /user.slice/{text} killed as a result of limit of \
                         /user.slice/{text}"
                ),
                format!(
                    "5,1,2,-;audit: type=1309 audit(1732500000.123:9): argc=3 a0=\"mysql\" \
                         a1=\"-psecret\" a2=\"{text}\""
                ),
                format!(
                    "5,1,2,-;audit: type=1701 audit(1732500000.123:9): auid=1000 uid=1000 \
                         comm=\"{name}\" exe=\"/tmp/{text}\" sig=11"
                ),
            ] {
                assert_eq!(parse_kernel_message(record.as_bytes(), 0), None, "{record}");
            }
        }
    }

    #[test]
    fn no_beginning_is_as_short_as_a_name() {
        assert!(
            BEGINNINGS.iter().chain(BEHIND_A_NAME).all(|(text, _)| text.len() > LONGEST_COMMAND)
        );
    }

    proptest::proptest! {
        #[test]
        fn any_record_is_an_event_or_none(record: Vec<u8>, text in "[ -~]{0,90}") {
            let _ = parse_kernel_message(&record, 0);
            let _ = parse_kernel_message(format!("3,1,2,-;{text}").as_bytes(), 0);
        }
    }
}
