//! /proc/PID/status (Documentation/filesystems/proc.rst, table 1-2).

use std::borrow::Cow;

use hugewise_model::{Bytes, Observed, Process};

use hugewise_source::ParseError;

/// CAP_IPC_LOCK of include/uapi/linux/capability.h.
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_PTRACE: u32 = 19;

/// Whether a line of that name is read, and stays in a capture.
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
            | b"Cpus_allowed_list"
    )
}
const LONGEST_KEY: usize = b"Mems_allowed_list".len();

/// The fields that concern huge pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessStatus {
    /// Those that describe the process.
    pub process: Process,
    /// First number of `Uid`: the real one.
    pub real_uid: u32,
    /// First number of `Gid`: the real one.
    pub real_gid: u32,
    /// `VmSize`: kernel threads and zombies have none.
    pub size: Observed<Bytes>,
    /// `VmData`: private and writable, but for stacks.
    pub data: Observed<Bytes>,
    /// `VmStk`.
    pub stack: Observed<Bytes>,
    /// `VmExe` and `VmLib`: whatever may be executed.
    pub code: Observed<Bytes>,
    /// Bit 19 of `CapEff`.
    pub ptrace: Observed<bool>,
    /// Whether the file is cut off: what is missing is unknown, not absent.
    pub is_cut_off: bool,
}

/// Which mappings can matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matters {
    /// From this size on.
    pub least: Bytes,
    /// Whether code matters too: the kernel counts executable memory on huge pages among libraries,
    /// and until it is touched `HugetlbPages` does not show it. A shell has more than 2 MiB of
    /// code, a sleeper 1.5.
    pub code: bool,
}

impl ProcessStatus {
    /// Size in all, and of that data, stack and code, where the kernel says all of it.
    pub fn mapped_bytes(&self) -> Option<[Bytes; 4]> {
        Some([self.size.get()?, self.data.get()?, self.stack.get()?, self.code.get()?])
    }

    /// Whether it may have a mapping that matters: the kernel counts each once, as data, stack,
    /// code, or in `VmSize` alone (mm/mmap.c: vm_stat_account).
    pub fn could_map(&self, matters: Matters) -> bool {
        let least = matters.least;
        let known = self.mapped_bytes().zip(self.process.hugetlb.get());
        let Some(([size, data, stack, code], hugetlb)) = known else { return true };
        let rest = size.saturating_sub(data).saturating_sub(stack).saturating_sub(code);
        let among_code = matters.code && code >= least;
        hugetlb > Bytes::ZERO || data >= least || stack >= least || rest >= least || among_code
    }
}

/// Whether a line is read.
pub fn is_read(key: &str) -> bool {
    is_key(key.as_bytes())
}

/// Parses a status file. Fails on a used field that is not as the kernel documents it, and without
/// `Name` or `Uid`.
pub fn parse(bytes: &[u8]) -> Result<ProcessStatus, ParseError> {
    let (bytes, is_torn) = cut_torn_line(bytes);
    let mut fields = StatusFields::default();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let Some(colon) = line.iter().take(LONGEST_KEY + 1).position(|byte| *byte == b':') else {
            continue;
        };
        let (key, rest) = line.split_at(colon);
        // Most lines are of something else, and hundreds of processes have sixty of them each.
        if key == b"State" {
            fields.status.process.state =
                rest.iter().skip(1).find(|byte| !byte.is_ascii_whitespace()).copied();
        } else if is_key(key) {
            let value = rest.get(1..).unwrap_or_default();
            // Only names can be other than plain.
            let value = std::str::from_utf8(value)
                .map_or_else(|_| String::from_utf8_lossy(value), Cow::Borrowed);
            fields
                .parse_field(key, value.trim())
                .ok_or_else(|| ParseError::at_line(number, "a field without its value"))?;
        }
    }
    fields.into_status(is_torn)
}

/// The file without a line that was cut, which says something else; and whether there was a cut.
fn cut_torn_line(bytes: &[u8]) -> (&[u8], bool) {
    let is_complete = bytes.ends_with(b"\n")
        || bytes.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"CapEff:"));
    if is_complete {
        return (bytes, false);
    }
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    (bytes.get(..end).unwrap_or_default(), true)
}

#[derive(Default)]
struct StatusFields {
    status: ProcessStatus,
    exe: Observed<Bytes>,
    lib: Observed<Bytes>,
    seen_name: bool,
    seen_uid: bool,
    /// Every kernel writes both, the second one last of all that is read.
    seen_groups: bool,
    seen_rights: bool,
}

impl StatusFields {
    /// `None` where the value is not what the kernel documents.
    fn parse_field(&mut self, key: &[u8], value: &str) -> Option<()> {
        let status = &mut self.status;
        let process = &mut status.process;
        let amount = || parse_kib(value).map(Observed::Known);
        match key {
            b"Name" => {
                process.name = value.to_owned();
                self.seen_name = true;
            }
            b"PPid" => process.parent = value.parse().ok()?,
            b"Uid" => {
                (status.real_uid, process.uid) = real_and_effective(value)?;
                self.seen_uid = true;
            }
            b"Gid" => (status.real_gid, process.gid) = real_and_effective(value)?,
            b"Groups" => {
                process.groups = parse_numbers(value)?;
                self.seen_groups = true;
            }
            b"NSpid" => process.namespace_pids = parse_numbers(value)?,
            b"Threads" => process.threads = Observed::Known(value.parse().ok()?),
            b"VmSize" => status.size = amount()?,
            b"VmData" => status.data = amount()?,
            b"VmStk" => status.stack = amount()?,
            b"VmExe" => self.exe = amount()?,
            b"VmLib" => self.lib = amount()?,
            b"VmPTE" => process.page_tables = amount()?,
            b"HugetlbPages" => process.hugetlb = amount()?,
            b"RssShmem" => process.rss_shmem = amount()?,
            b"RssAnon" => process.rss_anon = amount()?,
            b"VmSwap" => process.swap = amount()?,
            b"VmLck" => process.locked = amount()?,
            b"CapEff" => {
                self.seen_rights = true;
                let set = u64::from_str_radix(value, 16).ok()?;
                process.ipc_lock = Observed::Known(set >> CAP_IPC_LOCK & 1 == 1);
                status.ptrace = Observed::Known(set >> CAP_SYS_PTRACE & 1 == 1);
            }
            b"THP_enabled" => match value {
                "0" => process.thp_enabled = Observed::Known(false),
                "1" => process.thp_enabled = Observed::Known(true),
                _ => return None,
            },
            b"Cpus_allowed_list" => {
                process.processors_allowed = Observed::Known(parse_ranges(value)?)
            }
            b"Mems_allowed_list" => process.nodes_allowed = Observed::Known(parse_ranges(value)?),
            _ => {}
        }
        Some(())
    }

    fn into_status(self, is_torn: bool) -> Result<ProcessStatus, ParseError> {
        let Self { mut status, exe, lib, .. } = self;
        status.is_cut_off = !self.seen_rights && (self.seen_groups || is_torn);
        status.code = exe.and_then(|exe| lib.map(|lib| Bytes(exe.get().saturating_add(lib.get()))));
        if self.seen_name && self.seen_uid {
            Ok(status)
        } else {
            Err(ParseError::whole_file("no Name or no Uid"))
        }
    }
}

fn parse_kib(value: &str) -> Option<Bytes> {
    let number = value.strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(Bytes::from_kib(number))
}

/// The first two of real, effective, saved and file system id.
fn real_and_effective(value: &str) -> Option<(u32, u32)> {
    let mut ids = value.split_ascii_whitespace().map(str::parse);
    Some((ids.next()?.ok()?, ids.next()?.ok()?))
}

fn parse_numbers(value: &str) -> Option<Vec<u32>> {
    value.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
}

/// `0-3,7`; an empty list where no node is allowed.
fn parse_ranges(value: &str) -> Option<Vec<(u32, u32)>> {
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

    const REAL: &str = "Name:\tpostgres\nUmask:\t0077\nState:\tS \
         (sleeping)\nTgid:\t812\nNgid:\t0\nPid:\t812\n\
        PPid:\t1\nTracerPid:\t0\nUid:\t0\t105\t105\t105\nGid:\t0\t113\t113\t113\nFDSize:\t64\nGroups:\t113 120 \n\
        NStgid:\t812\t7\nNSpid:\t812\t7\nVmPeak:\t  219428 kB\nVmSize:\t  219428 \
         kB\nVmLck:\t       8 kB\n\
        RssAnon:\t    4096 kB\nRssFile:\t   20000 kB\nRssShmem:\t    5904 kB\nVmPTE:\t     148 \
         kB\nVmSwap:\t       0 kB\n\
        HugetlbPages:\t    4096 kB\nTHP_enabled:\t1\nThreads:\t1\nCapEff:\t0000000000004000\n";

    /// A line that is cut off in its middle may still be one; before the rights come all that
    /// matters is not there yet.
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
        assert_eq!((status.process.name.as_str(), status.process.state), ("postgres", Some(b'S')));
        assert_eq!(
            (status.process.parent, status.real_uid, status.process.uid, status.process.gid),
            (1, 0, 105, 113)
        );
        assert_eq!(status.process.groups, [113, 120]);
        assert_eq!(status.process.namespace_pids, [812, 7]);
        assert_eq!(status.process.page_tables, Observed::Known(Bytes(148 * 1024)));
        assert_eq!(status.process.hugetlb, Observed::Known(Bytes(4 << 20)));
        assert_eq!(status.process.rss_shmem, Observed::Known(Bytes(5904 * 1024)));
        assert_eq!(status.process.locked, Observed::Known(Bytes(8192)));
        assert_eq!(status.process.ipc_lock, Observed::Known(true));
        assert_eq!(status.process.thp_enabled, Observed::Known(true));
    }

    #[test]
    fn an_old_kernel_has_fewer_fields_and_they_are_absent() {
        let status =
            parse(b"Name:\tkthreadd\nPPid:\t0\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n").unwrap();
        assert_eq!(status.size, Observed::Absent);
        assert_eq!(status.process.hugetlb, Observed::Absent);
        assert_eq!(status.process.thp_enabled, Observed::Absent);
    }

    /// cpuset(7), "List format".
    #[test]
    fn nodes_that_a_process_may_use_are_ranges() {
        let observed_of = |list: &str| {
            let text = format!("Name:\tx\nUid:\t0\t0\t0\t0\nMems_allowed_list:\t{list}\n");
            parse(text.as_bytes()).map(|status| status.process.nodes_allowed)
        };
        assert_eq!(observed_of("1"), Ok(Observed::Known(vec![(1, 1)])));
        assert_eq!(observed_of("0-3,7"), Ok(Observed::Known(vec![(0, 3), (7, 7)])));
        assert_eq!(observed_of(""), Ok(Observed::Known(Vec::new())));
        assert!(observed_of("0-x").is_err());
        assert_eq!(
            parse(b"Name:\tx\nUid:\t0\t0\t0\t0\n").unwrap().process.nodes_allowed,
            Observed::Absent
        );
    }

    #[test]
    fn garbage_in_a_known_field_is_said_with_its_line() {
        let error = parse(b"Name:\tx\nVmPTE:\tmany kB\n").unwrap_err();
        assert_eq!(error.line, 2);
        assert!(parse(b"").is_err());
    }

    /// What Linux 6.18 says of sleep(1), in KiB, with what is mapped beside it.
    fn sleeper(data: u64, other: u64, hugetlb: u64) -> ProcessStatus {
        let text = format!(
            "Name:\tsleep\nUid:\t0\t0\t0\t0\nVmSize:\t{} kB\nVmData:\t{} kB\nVmStk:\t132 \
                 kB\nVmExe:\t20 kB\n\
             VmLib:\t1528 kB\nHugetlbPages:\t{hugetlb} kB\n",
            2920 + data + other,
            224 + data
        );
        parse(text.as_bytes()).unwrap()
    }

    /// QEMU's translated code, or a Java machine's of before its own separate mappings: executable
    /// memory of a pool, which nobody has touched yet, counts as a library.
    #[test]
    fn executable_huge_pages_count_where_some_are_promised() {
        let text =
            b"Name:\tserver\nUid:\t0\t0\t0\t0\nVmSize:\t4968 kB\nVmData:\t224 kB\nVmStk:\t132 \
                 kB\nVmExe:\t20 kB\n\
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
        assert!(
            sleeper(0, 2048, 0).could_map(least),
            "a shared segment of one page, not touched yet"
        );
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
            let Some(before) =
                status().filter(|status| status.size.is_known() && !status.could_map(matters))
            else {
                continue;
            };
            let Ok(maps) = read(&pid, "maps") else { continue };
            // A program that starts just now maps as it is read.
            if status().is_none_or(|after| after.size != before.size) {
                continue;
            }
            without += 1;
            let mappings =
                super::super::maps::parse_kept(&maps, |line| line.size() >= least.get()).unwrap();
            let code = |start: u64| {
                let text = String::from_utf8_lossy(&maps);
                text.lines()
                    .any(|line| line.starts_with(&format!("{start:x}-")) && line.contains("-xp "))
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
                names.iter().zip(&amounts).map(|(name, kib)| format!("{name}:\t{kib:>8} \
                     kB\nX{name}:\t1 kB\n")).collect();
            let status = parse(format!("Name:\t{name}\n{lines}Uid:\t7\t{uid}\t8\t9\n").as_bytes()).unwrap();
            prop_assert_eq!((status.real_uid, status.process.uid, &*status.process.name), (7, uid, name.trim()));
            let found =
                [status.size, status.process.page_tables, status.process.hugetlb, status.process.rss_shmem, status.process.rss_anon, status.process.swap, status.process.locked];
            prop_assert_eq!(found.to_vec(), amounts.iter().map(|kib| Observed::Known(Bytes(kib * 1024))).collect::<Vec<_>>());
        }

        #[test]
        fn what_is_torn_off_is_absent(at in 0..REAL.find("VmPTE").unwrap()) {
            if let Ok(status) = parse(&REAL.as_bytes()[..at]) {
                prop_assert!(at > REAL.find("Uid:").unwrap());
                prop_assert_eq!((status.process.page_tables, status.process.hugetlb), (Observed::Absent, Observed::Absent));
            }
        }
    }
}
