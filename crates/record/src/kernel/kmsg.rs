//! /dev/kmsg: what the kernel says of memory, hangs and damage, as it says it (Documentation/ABI/testing/dev-kmsg).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, SeekFrom, openat, seek};
use rustix::io::{Errno, read};

use crate::notes::{Event, EventKind};

/// Messages read at one time; what comes beyond waits for the next second, so that a flood of them keeps nothing up.
const AT_ONCE: usize = 256;

/// What the kernel's own texts are told by: mm/oom_kill.c, mm/page_alloc.c, kernel/hung_task.c, kernel/watchdog.c,
/// kernel/rcu/tree_stall.h, mm/memcontrol.c, lib/bug.c.
const TEXTS: &[(&str, EventKind)] = &[
    ("invoked oom-killer", EventKind::OutOfMemory),
    ("oom-kill:", EventKind::OutOfMemory),
    ("Out of memory", EventKind::OutOfMemory),
    ("Memory cgroup out of memory", EventKind::OutOfMemory),
    ("Killed process", EventKind::OutOfMemory),
    ("blocked for more than", EventKind::HungTask),
    ("page allocation failure", EventKind::AllocationFailure),
    ("page allocation stalls", EventKind::AllocationFailure),
    ("soft lockup", EventKind::Lockup),
    ("hard LOCKUP", EventKind::Lockup),
    ("rcu_sched detected", EventKind::Lockup),
    ("rcu_preempt detected", EventKind::Lockup),
    ("self-detected stall", EventKind::Lockup),
    ("BUG: Bad page", EventKind::Damage),
    ("BUG: Bad rss-counter", EventKind::Damage),
    ("kernel BUG at", EventKind::Damage),
    ("Kernel panic", EventKind::Damage),
    ("Hardware Error", EventKind::Damage),
];

/// What a record of /dev/kmsg says, where that is the kernel's own and worth to be kept: `6,1234,5678901,-;text`.
pub fn event(record: &[u8], wall: i64) -> Option<Event> {
    let at = record.iter().position(|byte| *byte == b';')?;
    let (head, rest) = record.split_at_checked(at)?;
    let text = rest.get(1..)?.split(|byte| *byte == b'\n').next()?;
    let priority = super::number(head.split(|byte| *byte == b',').next()?)?;
    // Facility 0 is the kernel; programs that may write to it get another one.
    if priority >> 3 != 0 {
        return None;
    }
    let has = |part: &str| text.windows(part.len()).any(|window| window == part.as_bytes());
    let (_, kind) = TEXTS.iter().find(|(part, _)| has(part))?;
    Some(Event::new(wall, *kind, text))
}

/// The device, from the messages on that come after it was opened.
#[derive(Debug)]
pub(crate) struct Messages(Option<OwnedFd>);

impl Messages {
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
                missing.push(format!("messages of the kernel (/dev/kmsg): {why}"));
                Self(None)
            }
        }
    }

    /// For poll(2).
    pub(crate) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Reads what there is and hands on what is worth it; whether all was read.
    pub(crate) fn each(&mut self, buffer: &mut [u8], wall: i64, hand: &mut dyn FnMut(Event)) -> bool {
        let Some(file) = &self.0 else { return true };
        for _ in 0..AT_ONCE {
            match read(file, &mut *buffer) {
                Ok(0) => return true,
                Ok(length) => {
                    if let Some(event) = buffer.get(..length).and_then(|record| event(record, wall)) {
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_words_are_kept_and_those_of_others_are_not() {
        let line = "4,1234,98765,-;oracle_99 invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0\n SUBSYSTEM=mem\n";
        let said = event(line.as_bytes(), 5).unwrap();
        assert_eq!((said.kind, said.wall), (EventKind::OutOfMemory, 5));
        assert_eq!(said.text(), "oracle_99 invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0");
        for (text, kind) in [
            ("3,1,2,-;INFO: task jbd2/dm-0-8:512 blocked for more than 122 seconds.", EventKind::HungTask),
            (
                "4,1,2,-;warn_alloc: kworker: page allocation failure: order:5, mode:0x40dc0",
                EventKind::AllocationFailure,
            ),
            ("0,1,2,-;watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [oracle_1:99]", EventKind::Lockup),
            ("1,1,2,-;BUG: Bad page state in process ora_dbw0", EventKind::Damage),
        ] {
            assert_eq!(event(text.as_bytes(), 0).unwrap().kind, kind, "{text}");
        }
        // Of the facility daemon, of nothing that counts, and what is no record.
        for other in ["30,1,2,-;Out of memory", "6,1,2,-;eth0: link up", "", ";", "x;Out of memory", "6,1,2"] {
            assert_eq!(event(other.as_bytes(), 0), None, "{other}");
        }
    }
}
