//! /proc/PID/stat and /proc/PID/status (proc_pid_stat(5)).

use crate::kernel::{parse_number, split_words};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) command: [u8; 16],
    pub(crate) state: u8,
    pub(crate) parent: u32,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    /// Ticks from the boot to its start.
    pub(crate) start: u64,
    pub(crate) virtual_bytes: u64,
    /// In base pages.
    pub(crate) resident: u64,
}

/// `None` where the text is not the kernel's. The command in parentheses may contain some.
pub(crate) fn parse_process_stat(text: &[u8]) -> Option<ProcessStat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let mut command = [0; 16];
    for (place, byte) in command.iter_mut().zip(text.get(open + 1..close)?) {
        *place = *byte;
    }
    let mut words = split_words(text.get(close + 1..)?);
    let state = *words.next()?.first()?;
    let parent = parse_number(words.next()?).and_then(|parent| u32::try_from(parent).ok())?;
    // Behind the parent come pgrp, session, tty, tpgid, flags and four counts of faults.
    let user_ticks = parse_number(words.nth(9)?)?;
    let system_ticks = parse_number(words.next()?)?;
    let start = parse_number(words.nth(6)?)?;
    let virtual_bytes = parse_number(words.next()?)?;
    let resident = parse_number(words.next()?)?;
    Some(ProcessStat {
        command,
        state,
        parent,
        user_ticks,
        system_ticks,
        start,
        virtual_bytes,
        resident,
    })
}

pub(crate) fn page_tables(status: &[u8]) -> Option<u64> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"VmPTE:"))?;
    split_words(line).next().and_then(parse_number)
}

/// The top functions of a kernel stack, as many as fit: `[<0>] io_schedule+0x12/0x40`, one a line.
pub(crate) fn stack_top(text: &[u8], room: &mut [u8]) -> usize {
    let mut used = 0;
    for line in text.split(|byte| *byte == b'\n').take(3) {
        let Some(function) =
            split_words(line).nth(1).and_then(|word| word.split(|byte| *byte == b'+').next())
        else {
            continue;
        };
        let separator: &[u8] = if used == 0 { b"" } else { b" < " };
        let end = used + separator.len() + function.len();
        let Some(place) = room.get_mut(used..end) else { break };
        let (before, behind) = place.split_at_mut(separator.len());
        before.copy_from_slice(separator);
        behind.copy_from_slice(function);
        used = end;
    }
    used
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line of a Linux 6.1, its command changed to what a user may choose.
    #[test]
    fn a_command_may_hold_parentheses() {
        let line = b"4021 (ora) R 1 (x) D 17 4021 4021 0 -1 4194560 1200 0 3 0 71 5500 0 0 20 0 1 \
             0 98765 4294967296 812 18446744073709551615 1 1 0";
        let said = parse_process_stat(line).unwrap();
        assert_eq!(said.command.strip_suffix(&[0; 5]).unwrap(), b"ora) R 1 (x");
        assert_eq!(
            (said.state, said.parent, said.user_ticks, said.system_ticks),
            (b'D', 17, 71, 5500)
        );
        assert_eq!((said.start, said.virtual_bytes, said.resident), (98_765, 4 << 30, 812));
    }

    #[test]
    fn this_process_is_itself() {
        let held = crate::kernel::OpenKernelFile::open("/proc/self/stat");
        let mut buffer = [0; 4096];
        let said = parse_process_stat(held.read(&mut buffer).unwrap()).unwrap();
        assert_eq!(
            said.parent,
            rustix::process::getppid().unwrap().as_raw_nonzero().get().cast_unsigned()
        );
        assert!(
            b"RS".contains(&said.state)
                && said.virtual_bytes > 1 << 20
                && said.resident > 100
                && said.start > 0
        );
        let status = crate::kernel::OpenKernelFile::open("/proc/self/status");
        assert!(page_tables(status.read(&mut buffer).unwrap()).unwrap() >= 4);
    }

    #[test]
    fn the_top_of_a_stack_is_three_functions_at_most() {
        let text = b"[<0>] io_schedule+0x46/0x70\n[<0>] folio_wait_bit_common+0x13d/0x350\n[<0>] \
             filemap_fault+0x1/0x2\n[<0>] four+0x1/0x2\n";
        let mut room = [0; 64];
        let used = stack_top(text, &mut room);
        assert_eq!(&room[..used], b"io_schedule < folio_wait_bit_common < filemap_fault");
        let used = stack_top(text, &mut room[..20]);
        assert_eq!(&room[..used], b"io_schedule");
        assert_eq!(stack_top(b"", &mut room), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(bytes: Vec<u8>) {
            let _ = parse_process_stat(&bytes);
            let _ = page_tables(&bytes);
            let _ = stack_top(&bytes, &mut [0; 48]);
        }
    }
}
