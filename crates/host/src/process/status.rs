//! /proc/PID/status (Documentation/filesystems/proc.rst, table 1-2).

use std::borrow::Cow;

use hugewise_model::{Bytes, Observed};

use crate::ParseError;

/// CAP_IPC_LOCK of include/uapi/linux/capability.h.
const CAP_IPC_LOCK: u32 = 14;

/// CAP_SYS_PTRACE.
const CAP_SYS_PTRACE: u32 = 19;

/// Whether a line of that name is looked at.
const fn is_key(name: &[u8]) -> bool {
    matches!(
        name,
        b"Name"
            | b"PPid"
            | b"Uid"
            | b"Gid"
            | b"Groups"
            | b"NSpid"
            | b"Threads"
            | b"VmSize"
            | b"VmData"
            | b"VmStk"
            | b"VmExe"
            | b"VmLib"
            | b"VmPTE"
            | b"HugetlbPages"
            | b"RssShmem"
            | b"RssAnon"
            | b"VmSwap"
            | b"VmLck"
            | b"CapEff"
            | b"THP_enabled"
            | b"Mems_allowed_list"
    )
}
const LONGEST_KEY: usize = b"Mems_allowed_list".len();

/// What of it concerns huge pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// `Name`.
    pub name: String,
    /// `PPid`.
    pub parent: u32,
    /// First number of `Uid`: the real one.
    pub real_uid: u32,
    /// Second number of `Uid`: the effective one.
    pub uid: u32,
    /// First number of `Gid`: the real one.
    pub real_gid: u32,
    /// Second number of `Gid`.
    pub gid: u32,
    /// `Groups`.
    pub groups: Vec<u32>,
    /// `NSpid`.
    pub namespace_pids: Vec<u32>,
    /// `Threads`.
    pub threads: Observed<u64>,
    /// `VmSize`: kernel threads and zombies have none.
    pub size: Observed<Bytes>,
    /// `VmData`: private and writable, but for stacks.
    pub data: Observed<Bytes>,
    /// `VmStk`.
    pub stack: Observed<Bytes>,
    /// `VmExe` and `VmLib`: whatever may be run.
    pub code: Observed<Bytes>,
    /// `VmPTE`.
    pub page_tables: Observed<Bytes>,
    /// `HugetlbPages`.
    pub hugetlb: Observed<Bytes>,
    /// `RssShmem`.
    pub rss_shmem: Observed<Bytes>,
    /// `RssAnon`.
    pub rss_anon: Observed<Bytes>,
    /// Files and shared memory that were touched: no line of this file, but of statm, where this one has no `RssShmem`.
    pub rss_shared: Observed<Bytes>,
    /// `VmSwap`.
    pub swap: Observed<Bytes>,
    /// `VmLck`.
    pub locked: Observed<Bytes>,
    /// Bit 14 of `CapEff`.
    pub ipc_lock: Observed<bool>,
    /// Bit 19 of `CapEff`.
    pub ptrace: Observed<bool>,
    /// `THP_enabled`.
    pub thp_enabled: Observed<bool>,
    /// `Mems_allowed_list`: first and last node of each range.
    pub nodes_allowed: Observed<Vec<(u32, u32)>>,
    /// Whether the file ends before it is whole: what is missing is not absent, and nobody knows what it would say.
    pub is_cut_off: bool,
}

/// Which mappings can matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matters {
    /// From this size on.
    pub least: Bytes,
    /// Those of code too: memory on huge pages may be executable, and the kernel counts it among libraries then. What has been
    /// touched of it shows in `HugetlbPages`, so that this counts only where some pool has pages that are promised and not
    /// touched yet. A shell has more than 2 MiB of code, a sleeper 1.5.
    pub code: bool,
}

impl Status {
    /// What it maps in all, and of that as data, as stack and as code, where the kernel says all of it.
    pub fn mapped(&self) -> Option<[Bytes; 4]> {
        Some([self.size.get()?, self.data.get()?, self.stack.get()?, self.code.get()?])
    }

    /// Whether it may have a mapping that matters: the kernel counts every mapping once, as data, stack, code, or else in
    /// `VmSize` alone (mm/mmap.c: vm_stat_account).
    pub fn could_map(&self, matters: Matters) -> bool {
        let least = matters.least;
        let known =
            || Some((self.size.get()?, self.data.get()?, self.stack.get()?, self.code.get()?, self.hugetlb.get()?));
        let Some((size, data, stack, code, hugetlb)) = known() else { return true };
        let rest = size.saturating_sub(data).saturating_sub(stack).saturating_sub(code);
        let among_code = matters.code && code >= least;
        hugetlb > Bytes::ZERO || data >= least || stack >= least || rest >= least || among_code
    }
}

/// Whether a line is looked at.
pub(crate) fn is_read(key: &str) -> bool {
    is_key(key.as_bytes())
}

/// Parses a status file.
///
/// # Errors
/// A field that is used here and does not hold what the kernel documents; a file without `Name` or `Uid`.
pub fn parse(bytes: &[u8]) -> Result<Status, ParseError> {
    // The line that a cut went through says something else than it would.
    let whole = bytes.ends_with(b"\n") || bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"CapEff:"));
    let end = if whole { bytes.len() } else { bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1) };
    let (bytes, lost) = (bytes.get(..end).unwrap_or_default(), !whole);
    let mut status = Status::default();
    let mut seen_name = false;
    let mut seen_uid = false;
    let (mut exe, mut lib) = (Observed::Absent, Observed::Absent);
    // Every kernel writes both, the second one last of all that is looked at here.
    let (mut seen_groups, mut seen_rights) = (false, false);
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let Some(colon) = line.iter().take(LONGEST_KEY + 1).position(|byte| *byte == b':') else { continue };
        let (key, rest) = line.split_at(colon);
        // Most lines are of something else, and hundreds of processes have sixty of them each.
        if !is_key(key) {
            continue;
        }
        let value = rest.get(1..).unwrap_or_default();
        // All but a name that somebody chose is plain.
        let value = std::str::from_utf8(value).map_or_else(|_| String::from_utf8_lossy(value), Cow::Borrowed);
        let value = value.trim();
        let wrong = || ParseError::at(number, "a field without its value");
        let amount = || kib(value).map(Observed::Known).ok_or_else(wrong);
        match key {
            b"Name" => {
                status.name = value.to_owned();
                seen_name = true;
            }
            b"PPid" => status.parent = value.parse().map_err(|_| wrong())?,
            b"Uid" => {
                (status.real_uid, status.uid) = real_and_effective(value).ok_or_else(wrong)?;
                seen_uid = true;
            }
            b"Gid" => (status.real_gid, status.gid) = real_and_effective(value).ok_or_else(wrong)?,
            b"Groups" => {
                status.groups = numbers(value).ok_or_else(wrong)?;
                seen_groups = true;
            }
            b"NSpid" => status.namespace_pids = numbers(value).ok_or_else(wrong)?,
            b"Threads" => status.threads = Observed::Known(value.parse().map_err(|_| wrong())?),
            b"VmSize" => status.size = amount()?,
            b"VmData" => status.data = amount()?,
            b"VmStk" => status.stack = amount()?,
            b"VmExe" => exe = amount()?,
            b"VmLib" => lib = amount()?,
            b"VmPTE" => status.page_tables = amount()?,
            b"HugetlbPages" => status.hugetlb = amount()?,
            b"RssShmem" => status.rss_shmem = amount()?,
            b"RssAnon" => status.rss_anon = amount()?,
            b"VmSwap" => status.swap = amount()?,
            b"VmLck" => status.locked = amount()?,
            b"CapEff" => {
                seen_rights = true;
                let set = u64::from_str_radix(value, 16).map_err(|_| wrong())?;
                status.ipc_lock = Observed::Known(set >> CAP_IPC_LOCK & 1 == 1);
                status.ptrace = Observed::Known(set >> CAP_SYS_PTRACE & 1 == 1);
            }
            b"THP_enabled" => match value {
                "0" => status.thp_enabled = Observed::Known(false),
                "1" => status.thp_enabled = Observed::Known(true),
                _ => return Err(wrong()),
            },
            b"Mems_allowed_list" => status.nodes_allowed = Observed::Known(ranges(value).ok_or_else(wrong)?),
            _ => {}
        }
    }
    status.is_cut_off = !seen_rights && (seen_groups || lost);
    status.code = exe.and_then(|exe: Bytes| lib.map(|lib: Bytes| Bytes(exe.get().saturating_add(lib.get()))));
    if seen_name && seen_uid { Ok(status) } else { Err(ParseError::whole("no Name or no Uid")) }
}

fn kib(value: &str) -> Option<Bytes> {
    let number = value.strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(Bytes::from_kib(number))
}

/// The first two of real, effective, saved and file system id.
fn real_and_effective(value: &str) -> Option<(u32, u32)> {
    let mut ids = value.split_ascii_whitespace().map(str::parse);
    Some((ids.next()?.ok()?, ids.next()?.ok()?))
}

fn numbers(value: &str) -> Option<Vec<u32>> {
    value.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
}

/// `0-3,7`; a process that may use no node's memory has an empty list.
fn ranges(value: &str) -> Option<Vec<(u32, u32)>> {
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some((first.parse().ok()?, last.parse().ok()?)),
        None => part.parse().ok().map(|node| (node, node)),
    };
    value.split(',').filter(|part| !part.is_empty()).map(range).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REAL: &str = "Name:\tpostgres\nUmask:\t0077\nState:\tS (sleeping)\nTgid:\t812\nNgid:\t0\nPid:\t812\n\
        PPid:\t1\nTracerPid:\t0\nUid:\t0\t105\t105\t105\nGid:\t0\t113\t113\t113\nFDSize:\t64\nGroups:\t113 120 \n\
        NStgid:\t812\t7\nNSpid:\t812\t7\nVmPeak:\t  219428 kB\nVmSize:\t  219428 kB\nVmLck:\t       8 kB\n\
        RssAnon:\t    4096 kB\nRssFile:\t   20000 kB\nRssShmem:\t    5904 kB\nVmPTE:\t     148 kB\nVmSwap:\t       0 kB\n\
        HugetlbPages:\t    4096 kB\nTHP_enabled:\t1\nThreads:\t1\nCapEff:\t0000000000004000\n";

    /// A line that is cut off in its middle may still be one; before the rights come all that matters is not there yet.
    #[test]
    fn a_file_that_is_cut_off_says_so() {
        assert!(!parse(REAL.as_bytes()).unwrap().is_cut_off);
        for end in ["NStgid:\t812", "NSpid:\t812\t7\n", "VmPeak:\t  2194", "THP_enabled:\t1\n"] {
            let cut = &REAL[..REAL.find(end).unwrap() + end.len()];
            assert!(parse(cut.as_bytes()).unwrap().is_cut_off, "{end}");
        }
    }

    #[test]
    fn takes_what_the_kernel_prints() {
        let status = parse(REAL.as_bytes()).unwrap();
        assert_eq!(status.name, "postgres");
        assert_eq!((status.parent, status.real_uid, status.uid, status.gid), (1, 0, 105, 113));
        assert_eq!(status.groups, [113, 120]);
        assert_eq!(status.namespace_pids, [812, 7]);
        assert_eq!(status.page_tables, Observed::Known(Bytes(148 * 1024)));
        assert_eq!(status.hugetlb, Observed::Known(Bytes(4 << 20)));
        assert_eq!(status.rss_shmem, Observed::Known(Bytes(5904 * 1024)));
        assert_eq!(status.locked, Observed::Known(Bytes(8192)));
        assert_eq!(status.ipc_lock, Observed::Known(true));
        assert_eq!(status.thp_enabled, Observed::Known(true));
    }

    #[test]
    fn an_old_kernel_has_fewer_fields_and_they_are_absent() {
        let status = parse(b"Name:\tkthreadd\nPPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n").unwrap();
        assert_eq!(status.size, Observed::Absent);
        assert_eq!(status.hugetlb, Observed::Absent);
        assert_eq!(status.thp_enabled, Observed::Absent);
    }

    /// cpuset(7), "List format".
    #[test]
    fn nodes_that_a_process_may_use_are_ranges() {
        let of = |list: &str| {
            let text = format!("Name:\tx\nUid:\t0\t0\t0\t0\nMems_allowed_list:\t{list}\n");
            parse(text.as_bytes()).map(|status| status.nodes_allowed)
        };
        assert_eq!(of("1"), Ok(Observed::Known(vec![(1, 1)])));
        assert_eq!(of("0-3,7"), Ok(Observed::Known(vec![(0, 3), (7, 7)])));
        assert_eq!(of(""), Ok(Observed::Known(Vec::new())));
        assert!(of("0-x").is_err());
        assert_eq!(parse(b"Name:\tx\nUid:\t0\t0\t0\t0\n").unwrap().nodes_allowed, Observed::Absent);
    }

    #[test]
    fn garbage_in_a_known_field_is_said_with_its_line() {
        let error = parse(b"Name:\tx\nVmPTE:\tmany kB\n").unwrap_err();
        assert_eq!(error.line, 2);
        assert!(parse(b"").is_err());
    }

    /// What Linux 6.18 says of sleep(1), in KiB, with what is mapped beside it.
    fn sleeper(data: u64, other: u64, hugetlb: u64) -> Status {
        let text = format!(
            "Name:\tsleep\nUid:\t0\t0\t0\t0\nVmSize:\t{} kB\nVmData:\t{} kB\nVmStk:\t132 kB\nVmExe:\t20 kB\n\
             VmLib:\t1528 kB\nHugetlbPages:\t{hugetlb} kB\n",
            2920 + data + other,
            224 + data
        );
        parse(text.as_bytes()).unwrap()
    }

    /// QEMU's translated code, or a Java machine's of before its own separate mappings: executable memory of a pool, which nobody
    /// has touched yet, counts as a library.
    #[test]
    fn executable_huge_pages_count_where_some_are_promised() {
        let text =
            b"Name:\tserver\nUid:\t0\t0\t0\t0\nVmSize:\t4968 kB\nVmData:\t224 kB\nVmStk:\t132 kB\nVmExe:\t20 kB\n\
                     VmLib:\t3576 kB\nHugetlbPages:\t0 kB\n";
        let status = parse(text).unwrap();
        assert!(status.could_map(Matters { least: Bytes::from_mib(2), code: true }));
        assert!(!status.could_map(Matters { least: Bytes::from_mib(2), code: false }));
        assert!(
            !sleeper(0, 0, 0).could_map(Matters { least: Bytes::from_mib(2), code: true }),
            "a sleeper stays cheap"
        );
    }

    #[test]
    fn who_can_map_no_huge_page_is_told_by_the_sums() {
        let least = Matters { least: Bytes::from_mib(2), code: false };
        assert!(!sleeper(0, 0, 0).could_map(least));
        assert!(sleeper(0, 2048, 0).could_map(least), "a shared segment of one page, not touched yet");
        assert!(sleeper(2048, 0, 0).could_map(least), "private memory of one page");
        assert!(sleeper(0, 0, 2048).could_map(least), "huge pages that it has");
        assert!(
            sleeper(0, 0, 0).could_map(Matters { least: Bytes::from_kib(64), code: false }),
            "pages of 64 KiB fit between its libraries"
        );
        let old = parse(b"Name:\tsleep\nUid:\t0\t0\t0\t0\nVmSize:\t2920 kB\n").unwrap();
        assert!(old.could_map(least), "a kernel that does not say");
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "beside the kernel's own words")]
    fn the_kernel_counts_every_mapping_of_every_process_here() {
        let mut asleep = std::process::Command::new("sleep").arg("60").env_clear().spawn().unwrap();
        // Until it waits it is a copy of this program, or still maps its libraries.
        let waits = |stat: String| stat.contains("(sleep) S ");
        while !waits(std::fs::read_to_string(format!("/proc/{}/stat", asleep.id())).unwrap()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let least = Bytes::from_mib(2);
        let matters = Matters { least, code: false };
        let read = |pid: &str, name: &str| std::fs::read(format!("/proc/{pid}/{name}"));
        let mut without = 0;
        for entry in std::fs::read_dir("/proc").unwrap() {
            let pid = entry.unwrap().file_name().into_string().unwrap();
            let status = || read(&pid, "status").ok().and_then(|text| parse(&text).ok());
            let Some(before) = status().filter(|status| status.size.is_known() && !status.could_map(matters)) else {
                continue;
            };
            let Ok(maps) = read(&pid, "maps") else { continue };
            // A program that starts just now maps as it is read.
            if status().is_none_or(|after| after.size != before.size) {
                continue;
            }
            without += 1;
            let mappings = super::super::maps::parse_kept(&maps, |line| line.size() >= least.get()).unwrap();
            let code = |start: u64| {
                let text = String::from_utf8_lossy(&maps);
                text.lines().any(|line| line.starts_with(&format!("{start:x}-")) && line.contains("-xp "))
            };
            assert!(mappings.iter().all(|mapping| code(mapping.start)), "{pid}: {mappings:?}");
        }
        asleep.kill().unwrap();
        asleep.wait().unwrap();
        assert!(without > 0);
    }

    proptest! {
        #[test]
        fn amounts_are_told_apart(amounts in proptest::collection::vec(0..1_u64 << 50, 7), uid: u32, name in "[a-zA-Z0-9:() -]{1,15}") {
            let names = ["VmSize", "VmPTE", "HugetlbPages", "RssShmem", "RssAnon", "VmSwap", "VmLck"];
            let lines: String =
                names.iter().zip(&amounts).map(|(name, kib)| format!("{name}:\t{kib:>8} kB\nX{name}:\t1 kB\n")).collect();
            let status = parse(format!("Name:\t{name}\n{lines}Uid:\t7\t{uid}\t8\t9\n").as_bytes()).unwrap();
            prop_assert_eq!((status.real_uid, status.uid, &*status.name), (7, uid, name.trim()));
            let found =
                [status.size, status.page_tables, status.hugetlb, status.rss_shmem, status.rss_anon, status.swap, status.locked];
            prop_assert_eq!(found.to_vec(), amounts.iter().map(|kib| Observed::Known(Bytes(kib * 1024))).collect::<Vec<_>>());
        }

        #[test]
        fn what_is_torn_off_is_absent(at in 0..REAL.find("VmPTE").unwrap()) {
            if let Ok(status) = parse(&REAL.as_bytes()[..at]) {
                prop_assert!(at > REAL.find("Uid:").unwrap());
                prop_assert_eq!((status.page_tables, status.hugetlb), (Observed::Absent, Observed::Absent));
            }
        }
    }
}
