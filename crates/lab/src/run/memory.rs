//! What memory a running program has, and on which pages: /proc/PID/smaps_rollup (Linux 4.14) of it and its children.

#![allow(unsafe_code, reason = "the text of another process is asked onto huge pages by a system call")]
#![allow(clippy::disallowed_methods, reason = "the processes that were started here are looked at")]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

/// More processes than these are no program, but a host.
const MOST_PROCESSES: usize = 4096;

/// The private memory of a program and its children, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Processes.
    pub processes: u32,
    /// Anonymous memory outside the pools, on pages of any size.
    pub anonymous: u64,
    /// Of that, on transparent huge pages as large as a page-table entry above the lowest (2 MiB on x86-64); smaller
    /// ones are not counted by the kernel.
    pub transparent: u64,
    /// On pages of a pool, mapped by one process alone.
    pub pooled: u64,
}

impl Memory {
    /// All of it.
    pub const fn total(&self) -> u64 {
        self.anonymous.saturating_add(self.pooled)
    }

    /// Of that, on huge pages.
    pub const fn huge(&self) -> u64 {
        self.transparent.saturating_add(self.pooled)
    }

    const fn and(self, other: Self) -> Self {
        Self {
            processes: self.processes.saturating_add(other.processes),
            anonymous: self.anonymous.saturating_add(other.anonymous),
            transparent: self.transparent.saturating_add(other.transparent),
            pooled: self.pooled.saturating_add(other.pooled),
        }
    }
}

/// The sums of one smaps_rollup. `None` where a field is missing or no number.
pub fn parse(text: &str) -> Option<Memory> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Memory {
        processes: 1,
        anonymous: field("Anonymous")?,
        transparent: field("AnonHugePages")?,
        // A kernel without hugetlb has no such field.
        pooled: field("Private_Hugetlb").unwrap_or(0),
    })
}

/// The memory of a process and of all that it has started; `None` where it is gone.
pub fn of_tree(pid: u32) -> Option<Memory> {
    let mut sum: Option<Memory> = None;
    let mut left = vec![pid];
    let mut seen = 0;
    while let Some(pid) = left.pop() {
        seen += 1;
        if seen > MOST_PROCESSES {
            break;
        }
        // Children come and go; the others still count.
        if let Some(own) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok().as_deref().and_then(parse) {
            sum = Some(sum.unwrap_or_default().and(own));
        }
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            left.extend(children.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    sum
}

/// What became of a program's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Bytes of its own and its libraries' text that could lie on huge pages: whole 2 MiB stretches.
    pub eligible: u64,
    /// Bytes of files that are on huge pages afterwards.
    pub huge: u64,
    /// What the kernel answered where it refused.
    pub refused: Option<String>,
}

const HUGE: u64 = 2 << 20;
/// `MADV_COLLAPSE` of Linux 6.1.
const COLLAPSE: libc::c_int = 25;

/// Asks the kernel to put the text that a process has mapped onto huge pages (process_madvise with MADV_COLLAPSE: Linux
/// 6.1, and for the files of disks a kernel with CONFIG_READ_ONLY_THP_FOR_FS).
pub fn text_onto_huge_pages(pid: u32) -> Text {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut text = Text::default();
    let descriptor = match i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        Some(pid) => rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()),
        None => return text,
    };
    for (from, to) in maps.lines().filter_map(stretch) {
        text.eligible += to - from;
        let (Ok(at), Ok(length)) = (usize::try_from(from), usize::try_from(to - from)) else { continue };
        let part = libc::iovec { iov_base: std::ptr::without_provenance_mut(at), iov_len: length };
        let answer = match &descriptor {
            // SAFETY: `part` is one whole iovec; the address is the other process's and is never followed here, and
            // collapsing leaves what is mapped as it is.
            Ok(process) => match unsafe {
                libc::syscall(libc::SYS_process_madvise, process.as_raw_fd(), &raw const part, 1_usize, COLLAPSE, 0_u32)
            } {
                answer if answer < 0 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            },
            Err(error) => Err((*error).into()),
        };
        if let Err(error) = answer {
            text.refused = Some(error.to_string());
        }
    }
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let mapped = rollup.lines().find_map(|line| line.strip_prefix("FilePmdMapped:")?.trim().strip_suffix("kB"));
    text.huge = mapped.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0).saturating_mul(1024);
    text
}

/// The whole huge pages in an executable mapping of a file.
fn stretch(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let executable = words.next()?.contains('x');
    let of_file = words.nth(2).is_some_and(|inode| inode != "0");
    let from = u64::from_str_radix(from, 16).ok()?.checked_next_multiple_of(HUGE)?;
    let to = u64::from_str_radix(to, 16).ok()? / HUGE * HUGE;
    (executable && of_file && from < to).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_a_rollup() {
        let text = "5581-7ffe ---p 00000000 00:00 0   [rollup]\nRss:  3000 kB\nAnonymous:   2048 kB\n\
                    AnonHugePages:      1024 kB\nPrivate_Hugetlb:    4096 kB\n";
        let memory = parse(text).unwrap();
        assert_eq!((memory.total(), memory.huge()), (6144 << 10, 5120 << 10));
        assert_eq!(parse("Anonymous: x kB\nAnonHugePages: 0 kB\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn only_whole_huge_pages_of_files_text_count() {
        let of = |line: &str| stretch(line);
        assert_eq!(of("00400000-00a00000 r-xp 00000000 fe:00 12 /bin/x"), Some((0x0040_0000, 0x00a0_0000)));
        assert_eq!(of("00401000-00a01000 r-xp 00000000 fe:00 12 /bin/x"), Some((0x0060_0000, 0x00a0_0000)));
        for none in [
            "00401000-00500000 r-xp 00000000 fe:00 12 /bin/x",
            "00400000-00a00000 rw-p 00000000 fe:00 12 /bin/x",
            "00400000-00a00000 r-xp 00000000 00:00 0 ",
            "ffffffffffffffff-ffffffffffffffff r-xp 0 0 1 x",
            "",
            "x",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(text: String) {
            let _ = (parse(&text), stretch(&text));
        }
    }
}
