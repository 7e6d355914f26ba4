//! A running program's memory by page size: /proc/PID/smaps of it and its children.

#![allow(
    unsafe_code,
    reason = "the text of another process is asked onto huge pages by a system call"
)]
#![allow(clippy::disallowed_methods, reason = "the processes that were started here are looked at")]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;

/// More processes are no program, but a host.
const MOST_PROCESSES: usize = 4096;

/// The private memory of a program and its children, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramMemory {
    /// Processes.
    pub processes: u32,
    /// Anonymous memory outside the pools, on pages of any size.
    pub anonymous: u64,
    /// The part of it on PMD-sized transparent huge pages (2 MiB on x86-64); the kernel does not
    /// count smaller ones.
    pub transparent: u64,
    /// Pool pages that only one process maps.
    pub pooled: u64,
    /// The anonymous memory for which the program asked for transparent huge pages (`hg` of
    /// `VmFlags`).
    pub asked: u64,
}

/// With less, a program may have asked for nothing because its memory grew in small steps.
const TELLING: u64 = 16 << 20;

impl ProgramMemory {
    /// Anonymous and pooled memory.
    pub const fn total(&self) -> u64 {
        self.anonymous.saturating_add(self.pooled)
    }

    /// The part of it on huge pages.
    pub const fn huge_bytes(&self) -> u64 {
        self.transparent.saturating_add(self.pooled)
    }

    /// Whether the program asked for transparent huge pages for much of its memory; `None` where it
    /// has too little to tell.
    pub(crate) const fn asks_for_thp(&self) -> Option<bool> {
        if self.anonymous < TELLING { None } else { Some(self.asked >= self.anonymous / 4) }
    }

    const fn add_process(self, other: Self) -> Self {
        Self {
            processes: self.processes.saturating_add(other.processes),
            anonymous: self.anonymous.saturating_add(other.anonymous),
            transparent: self.transparent.saturating_add(other.transparent),
            pooled: self.pooled.saturating_add(other.pooled),
            asked: self.asked.saturating_add(other.asked),
        }
    }
}

/// The sums of one smaps; `None` where a field is invalid, or one is missing that exists since
/// Linux 3.8.
pub fn parse(text: &str) -> Option<ProgramMemory> {
    let mut sum = ProgramMemory { processes: 1, ..ProgramMemory::default() };
    let mut mapping = None;
    // A mapping's first line begins with its address, in small letters.
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let bytes =
            || value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024);
        match name {
            "Anonymous" => mapping = Some(bytes()?),
            "AnonHugePages" => sum.transparent = sum.transparent.saturating_add(bytes()?),
            // A kernel without hugetlb has no such field.
            "Private_Hugetlb" => sum.pooled = sum.pooled.saturating_add(bytes()?),
            "VmFlags" => {
                let anonymous = mapping.take()?;
                sum.anonymous = sum.anonymous.saturating_add(anonymous);
                if value.split_ascii_whitespace().any(|flag| flag == "hg") {
                    sum.asked = sum.asked.saturating_add(anonymous);
                }
            }
            _ => {}
        }
    }
    mapping.is_none().then_some(sum)
}

/// The memory of a process and all its descendants; `None` where it has ended.
pub(crate) fn of_tree(pid: u32) -> Option<ProgramMemory> {
    let mut sum: Option<ProgramMemory> = None;
    let mut left = vec![pid];
    let mut seen = 0;
    while let Some(pid) = left.pop() {
        seen += 1;
        if seen > MOST_PROCESSES {
            break;
        }
        // Children come and go; the others still count.
        if let Some(own) =
            fs::read_to_string(format!("/proc/{pid}/smaps")).ok().as_deref().and_then(parse)
        {
            sum = Some(sum.unwrap_or_default().add_process(own));
        }
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            left.extend(
                children.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()),
            );
        }
    }
    sum
}

/// What happened to a program's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPlacement {
    /// Bytes of its own and its libraries' text that could be on huge pages: whole 2 MiB ranges.
    pub eligible: u64,
    /// Bytes of files that are on huge pages afterwards.
    pub huge: u64,
    /// The kernel's error, if it refused.
    pub refused: Option<String>,
}

const HUGE: u64 = 2 << 20;
/// `MADV_COLLAPSE` of Linux 6.1.
const COLLAPSE: libc::c_int = 25;

/// Asks the kernel to put a process's text on huge pages (process_madvise with MADV_COLLAPSE: Linux
/// 6.1, for files on disks with CONFIG_READ_ONLY_THP_FOR_FS).
pub(crate) fn text_onto_huge_pages(pid: u32) -> TextPlacement {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut text = TextPlacement::default();
    let descriptor = match i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        Some(pid) => rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()),
        None => return text,
    };
    for (from, to) in maps.lines().filter_map(parse_text_range) {
        text.eligible += to - from;
        let (Ok(at), Ok(length)) = (usize::try_from(from), usize::try_from(to - from)) else {
            continue;
        };
        let part = libc::iovec { iov_base: std::ptr::without_provenance_mut(at), iov_len: length };
        let answer = match &descriptor {
            // SAFETY: `part` is one whole iovec; its address is the other process's and never
            // followed here, and collapsing does not change what is mapped.
            Ok(process) => match unsafe {
                libc::syscall(
                    libc::SYS_process_madvise,
                    process.as_raw_fd(),
                    &raw const part,
                    1_usize,
                    COLLAPSE,
                    0_u32,
                )
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
    let mapped = rollup
        .lines()
        .find_map(|line| line.strip_prefix("FilePmdMapped:")?.trim().strip_suffix("kB"));
    text.huge =
        mapped.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0).saturating_mul(1024);
    text
}

fn parse_text_range(line: &str) -> Option<(u64, u64)> {
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
    fn sums_of_all_mappings_and_of_those_that_asked() {
        let mapping = |name: &str, anonymous: u64, huge: u64, pooled: u64, flags: &str| {
            format!(
                "5581c0a00000-5581c0e00000 rw-p 00000000 00:00 0   {name}\nRss:  3000 \
                     kB\nAnonymous:   {anonymous} kB\n\
                 AnonHugePages:      {huge} kB\nPrivate_Hugetlb:    {pooled} \
                     kB\nTHPeligible:           1\n\
                 VmFlags: rd wr mr mw me ac {flags}\n"
            )
        };
        let heap = mapping("[heap]", 30_720, 28_672, 0, "sd hg");
        let text =
            [heap, mapping("", 10_240, 0, 0, "sd"), mapping("", 0, 0, 4096, "de ht")].concat();
        let memory = parse(&text).unwrap();
        assert_eq!((memory.total(), memory.huge_bytes()), (45_056 << 10, 32_768 << 10));
        assert_eq!((memory.asked, memory.asks_for_thp()), (30_720 << 10, Some(true)));
        let unasked = mapping("[heap]", 30_720, 0, 0, "sd");
        assert_eq!(parse(&unasked).unwrap().asks_for_thp(), Some(false));
        assert_eq!(parse(&mapping("[heap]", 1000, 0, 0, "sd")).unwrap().asks_for_thp(), None);
        assert_eq!(parse("Anonymous: x kB\nVmFlags: rd\n"), None);
        assert_eq!(parse("Anonymous: 1 kB\n"), None);
        assert_eq!(parse("VmFlags: rd\n"), None);
    }

    #[test]
    fn only_whole_huge_pages_of_files_text_count() {
        let count_of = |line: &str| parse_text_range(line);
        assert_eq!(
            count_of("00400000-00a00000 r-xp 00000000 fe:00 12 /bin/x"),
            Some((0x0040_0000, 0x00a0_0000))
        );
        assert_eq!(
            count_of("00401000-00a01000 r-xp 00000000 fe:00 12 /bin/x"),
            Some((0x0060_0000, 0x00a0_0000))
        );
        for none in [
            "00401000-00500000 r-xp 00000000 fe:00 12 /bin/x",
            "00400000-00a00000 rw-p 00000000 fe:00 12 /bin/x",
            "00400000-00a00000 r-xp 00000000 00:00 0 ",
            "ffffffffffffffff-ffffffffffffffff r-xp 0 0 1 x",
            "",
            "x",
        ] {
            assert_eq!(count_of(none), None, "{none}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_stretch_is_whole_huge_pages_within_the_mapping(start in 0..1_u64 << 35, length in 0..1_u64 << 24) {
            let (start, end) = (start << 12, (start << 12) + (length & !0xfff));
            match parse_text_range(&format!("{start:x}-{end:x} r-xp 00000000 fe:00 12 /bin/x")) {
                Some((first, last)) => {
                    proptest::prop_assert!(start <= first && first < last && last <= end);
                    proptest::prop_assert!(first % (2 << 20) == 0 && last % (2 << 20) == 0);
                    proptest::prop_assert!(first - start < 2 << 20 && end - last < 2 << 20);
                }
                None => proptest::prop_assert!(end - start < 4 << 20),
            }
        }
    }
}
