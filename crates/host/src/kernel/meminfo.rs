//! /proc/meminfo (Documentation/filesystems/proc.rst).

use hugewise_model::host::Memory;
use hugewise_model::{Bytes, Observed, PageCount, PageSize};

use super::text::{digits, lines};
use crate::{Door, ParseError};

/// Where it stands.
pub const PATH: &str = "/proc/meminfo";

/// What /proc/meminfo tells. Each fact stands for itself: one that makes no sense spoils no other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meminfo {
    /// The fields of [`Memory`] that come from here; the others stay absent.
    pub memory: Memory,
    /// `Hugepagesize`.
    pub default_huge_page: Observed<PageSize>,
    /// `HugePages_Total` of the default size, surplus pages included.
    pub huge_total: Observed<PageCount>,
    /// `HugePages_Free`.
    pub huge_free: Observed<PageCount>,
    /// `HugePages_Rsvd`.
    pub huge_reserved: Observed<PageCount>,
    /// `HugePages_Surp`.
    pub huge_surplus: Observed<PageCount>,
}

/// Reads the fields; lines of no interest are skipped.
///
/// # Errors
/// Where no line is one of meminfo's.
pub fn parse(bytes: &[u8]) -> Result<Meminfo, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut all = Meminfo::default();
    let mut known = false;
    for (line, content) in lines(&text) {
        let Some((name, value)) = content.split_once(':') else { continue };
        let memory = &mut all.memory;
        let amount = match name {
            "MemTotal" => &mut memory.total,
            "MemFree" => &mut memory.free,
            "MemAvailable" => &mut memory.available,
            "PageTables" => &mut memory.page_tables,
            "AnonPages" => &mut memory.anonymous,
            "Shmem" => &mut memory.shmem,
            "AnonHugePages" => &mut memory.anonymous_huge,
            "ShmemHugePages" => &mut memory.shmem_huge,
            "ShmemPmdMapped" => &mut memory.shmem_huge_mapped,
            "Buffers" => &mut memory.buffers,
            "Cached" => &mut memory.cached,
            "Mapped" => &mut memory.mapped,
            "Active(file)" => &mut memory.active_file,
            "Inactive(file)" => &mut memory.inactive_file,
            "SReclaimable" => &mut memory.slab_reclaimable,
            "SUnreclaim" => &mut memory.slab_unreclaimable,
            "KernelStack" => &mut memory.kernel_stack,
            "SwapTotal" => &mut memory.swap_total,
            "SwapFree" => &mut memory.swap_free,
            "CommitLimit" => &mut memory.commit_limit,
            "Committed_AS" => &mut memory.committed,
            "Hugetlb" => &mut memory.hugetlb,
            _ => {
                known |= huge_page_field(&mut all, line, name, value);
                continue;
            }
        };
        known = true;
        *amount = kib(line, value).map(Bytes::from_kib);
    }
    if known { Ok(all) } else { Err(ParseError::whole("it has no field of meminfo")) }
}

/// The fields of the default pool; whether it was one.
fn huge_page_field(all: &mut Meminfo, line: u64, name: &str, value: &str) -> bool {
    let count = match name {
        "HugePages_Total" => &mut all.huge_total,
        "HugePages_Free" => &mut all.huge_free,
        "HugePages_Rsvd" => &mut all.huge_reserved,
        "HugePages_Surp" => &mut all.huge_surplus,
        "Hugepagesize" => {
            all.default_huge_page = kib(line, value)
                .and_then(|kib| PageSize::from_kib(kib).map_or_else(|| malformed(line), Observed::Known));
            return true;
        }
        _ => return false,
    };
    *count = digits(value.trim()).map_or_else(|| malformed(line), |pages| Observed::Known(PageCount(pages)));
    true
}

/// `123 kB` as a number of KiB.
fn kib(line: u64, value: &str) -> Observed<u64> {
    let number = value.trim().strip_suffix(" kB").and_then(|number| digits(number.trim()));
    number.map_or_else(|| malformed(line), Observed::Known)
}

fn malformed<T>(line: u64) -> Observed<T> {
    Observed::Malformed(ParseError::at(line, "no amount").to_string())
}

/// The fields of [`Memory`] that come from here.
pub(super) fn amounts(memory: &mut Memory) -> [&mut Observed<Bytes>; 22] {
    [
        &mut memory.total,
        &mut memory.free,
        &mut memory.available,
        &mut memory.page_tables,
        &mut memory.anonymous,
        &mut memory.shmem,
        &mut memory.anonymous_huge,
        &mut memory.shmem_huge,
        &mut memory.shmem_huge_mapped,
        &mut memory.buffers,
        &mut memory.cached,
        &mut memory.mapped,
        &mut memory.active_file,
        &mut memory.inactive_file,
        &mut memory.slab_reclaimable,
        &mut memory.slab_unreclaimable,
        &mut memory.kernel_stack,
        &mut memory.swap_total,
        &mut memory.swap_free,
        &mut memory.commit_limit,
        &mut memory.committed,
        &mut memory.hugetlb,
    ]
}

/// Reads the file and notes each field that makes no sense.
pub fn read(door: &mut Door<'_>) -> Observed<Meminfo> {
    door.parse(PATH, parse).map(|mut all| {
        for fact in amounts(&mut all.memory) {
            door.note(PATH, fact);
        }
        door.note(PATH, &all.default_huge_page);
        for fact in [&all.huge_total, &all.huge_free, &all.huge_reserved, &all.huge_surplus] {
            door.note(PATH, fact);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RHEL7: &str = "MemTotal:       65807152 kB\nMemFree:         1203340 kB\nMemAvailable:   30118392 kB\n\
        Buffers:            2108 kB\nShmem:          17005056 kB\nAnonPages:       9120044 kB\n\
        PageTables:     14782144 kB\nSUnreclaim:       912384 kB\n\
        KernelStack:       41232 kB\nSwapTotal:       8388604 kB\nSwapFree:        8388604 kB\n\
        CommitLimit:    41292180 kB\nCommitted_AS:   38117740 kB\nHardwareCorrupted:     0 kB\n\
        AnonHugePages:    210944 kB\nHugePages_Total:    8704\nHugePages_Free:     8700\n\
        HugePages_Rsvd:       12\nHugePages_Surp:        0\nHugepagesize:       2048 kB\n\
        DirectMap4k:      321344 kB\n";

    #[test]
    fn an_old_kernel_lacks_fields_and_absent_is_not_zero() {
        let all = parse(RHEL7.as_bytes()).unwrap();
        assert_eq!(all.memory.total, Observed::Known(Bytes(65_807_152 * 1024)));
        assert_eq!(all.memory.page_tables, Observed::Known(Bytes(15_136_915_456)));
        assert_eq!(all.memory.slab_unreclaimable, Observed::Known(Bytes::from_mib(891)));
        assert_eq!(all.memory.kernel_stack, Observed::Known(Bytes(41_232 * 1024)));
        assert_eq!(all.memory.hugetlb, Observed::Absent);
        assert_eq!(all.memory.shmem_huge, Observed::Absent);
        assert_eq!(all.huge_total, Observed::Known(PageCount(8704)));
        assert_eq!(all.huge_reserved, Observed::Known(PageCount(12)));
        assert_eq!(all.huge_surplus, Observed::Known(PageCount(0)));
        assert_eq!(all.default_huge_page, Observed::Known(PageSize::MIB_2));
    }

    #[test]
    fn the_default_huge_page_of_an_arm64_host_with_64_kib_pages_is_512_mib() {
        let all =
            parse(b"MemTotal:       267821056 kB\nHugePages_Total:      64\nHugepagesize:     524288 kB\n").unwrap();
        assert_eq!(all.default_huge_page, Observed::Known(PageSize::new(512 << 20).unwrap()));
    }

    #[test]
    fn garbage_spoils_its_own_field_alone() {
        let all = parse(b"MemTotal: x kB\nMemFree: 5 kB\nShmem: 7\nHugepagesize: 3 kB\nHugePages_Free: -1\n").unwrap();
        assert_eq!(all.memory.total, Observed::Malformed("line 1: no amount".into()));
        assert_eq!(all.memory.free, Observed::Known(Bytes(5120)));
        assert!(matches!(all.memory.shmem, Observed::Malformed(_)), "without its unit it is cut off");
        assert!(matches!(all.default_huge_page, Observed::Malformed(_)));
        assert!(matches!(all.huge_free, Observed::Malformed(_)));
        assert!(parse(b"").is_err());
        assert!(parse(b"\xff\xfe\x00").is_err());
    }

    proptest! {
        #[test]
        fn the_order_of_lines_is_nothing(turn in 0..21usize) {
            let mut lines: Vec<_> = RHEL7.lines().collect();
            lines.rotate_left(turn);
            prop_assert_eq!(parse(lines.join("\n").as_bytes()), parse(RHEL7.as_bytes()));
        }
    }
}
