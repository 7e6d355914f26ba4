//! /proc/meminfo (Documentation/filesystems/proc.rst).

use hugewise_model::host::HostMemory;
use hugewise_model::{Bytes, Observed, PageCount, PageSize};

use super::text::{parse_digits, text_lines};
use hugewise_source::{FactReader, ParseError};

/// Where it stands.
pub const PATH: &str = "/proc/meminfo";

/// What /proc/meminfo tells; a malformed field spoils no other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meminfo {
    /// The fields that come from here; the others stay absent.
    pub memory: HostMemory,
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

/// Reads the fields and skips other lines. Fails where no line is one of meminfo's.
pub fn parse(bytes: &[u8]) -> Result<Meminfo, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut all = Meminfo::default();
    let mut known = false;
    for (line, content) in text_lines(&text) {
        let Some((name, value)) = content.split_once(':') else { continue };
        if let Some((_, field)) = AMOUNTS.iter().find(|(known, _)| *known == name) {
            known = true;
            *field(&mut all.memory) = parse_kib(line, value).map(Bytes::from_kib);
        } else {
            known |= huge_page_field(&mut all, line, name, value);
        }
    }
    if known { Ok(all) } else { Err(ParseError::whole_file("it has no field of meminfo")) }
}

fn huge_page_field(all: &mut Meminfo, line: u64, name: &str, value: &str) -> bool {
    let count = match name {
        "HugePages_Total" => &mut all.huge_total,
        "HugePages_Free" => &mut all.huge_free,
        "HugePages_Rsvd" => &mut all.huge_reserved,
        "HugePages_Surp" => &mut all.huge_surplus,
        "Hugepagesize" => {
            all.default_huge_page = parse_kib(line, value).and_then(|kib| {
                PageSize::from_kib(kib).map_or_else(|| malformed_line(line), Observed::Known)
            });
            return true;
        }
        _ => return false,
    };
    *count = parse_digits(value.trim())
        .map_or_else(|| malformed_line(line), |pages| Observed::Known(PageCount(pages)));
    true
}

fn parse_kib(line: u64, value: &str) -> Observed<u64> {
    let number = value.trim().strip_suffix(" kB").and_then(|number| parse_digits(number.trim()));
    number.map_or_else(|| malformed_line(line), Observed::Known)
}

fn malformed_line<T>(line: u64) -> Observed<T> {
    Observed::Malformed(ParseError::at_line(line, "no amount").to_string())
}

type Amount = (&'static str, fn(&mut HostMemory) -> &mut Observed<Bytes>);

const AMOUNTS: [Amount; 22] = [
    ("MemTotal", |memory| &mut memory.total),
    ("MemFree", |memory| &mut memory.free),
    ("MemAvailable", |memory| &mut memory.available),
    ("PageTables", |memory| &mut memory.page_tables),
    ("AnonPages", |memory| &mut memory.anonymous),
    ("Shmem", |memory| &mut memory.shmem),
    ("AnonHugePages", |memory| &mut memory.anonymous_huge),
    ("ShmemHugePages", |memory| &mut memory.shmem_huge),
    ("ShmemPmdMapped", |memory| &mut memory.shmem_huge_mapped),
    ("Buffers", |memory| &mut memory.buffers),
    ("Cached", |memory| &mut memory.cached),
    ("Mapped", |memory| &mut memory.mapped),
    ("Active(file)", |memory| &mut memory.active_file),
    ("Inactive(file)", |memory| &mut memory.inactive_file),
    ("SReclaimable", |memory| &mut memory.slab_reclaimable),
    ("SUnreclaim", |memory| &mut memory.slab_unreclaimable),
    ("KernelStack", |memory| &mut memory.kernel_stack),
    ("SwapTotal", |memory| &mut memory.swap_total),
    ("SwapFree", |memory| &mut memory.swap_free),
    ("CommitLimit", |memory| &mut memory.commit_limit),
    ("Committed_AS", |memory| &mut memory.committed),
    ("Hugetlb", |memory| &mut memory.hugetlb),
];

/// Gives each amount the reason why the file is not known.
pub(super) fn set_unknown(memory: &mut HostMemory, file: &Observed<Meminfo>) {
    for (_, field) in AMOUNTS {
        *field(memory) = file.as_ref().and_then(|_| Observed::Absent);
    }
}

/// Reads the file and notes each malformed field.
pub fn read(door: &mut FactReader<'_>) -> Observed<Meminfo> {
    door.parse(PATH, parse).map(|mut all| {
        for (_, field) in AMOUNTS {
            door.note_unknown(PATH, field(&mut all.memory));
        }
        door.note_unknown(PATH, &all.default_huge_page);
        for fact in [&all.huge_total, &all.huge_free, &all.huge_reserved, &all.huge_surplus] {
            door.note_unknown(PATH, fact);
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RHEL7: &str = "MemTotal:       65807152 kB\nMemFree:         1203340 \
         kB\nMemAvailable:   30118392 kB\n\
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
        let all = parse(
            b"MemTotal:       267821056 \
                 kB\nHugePages_Total:      64\nHugepagesize:     524288 kB\n",
        )
        .unwrap();
        assert_eq!(all.default_huge_page, Observed::Known(PageSize::new(512 << 20).unwrap()));
    }

    #[test]
    fn garbage_spoils_its_own_field_alone() {
        let all = parse(
            b"MemTotal: x kB\nMemFree: 5 kB\nShmem: 7\nHugepagesize: 3 kB\nHugePages_Free: -1\n",
        )
        .unwrap();
        assert_eq!(all.memory.total, Observed::Malformed("line 1: no amount".into()));
        assert_eq!(all.memory.free, Observed::Known(Bytes(5120)));
        assert!(
            matches!(all.memory.shmem, Observed::Malformed(_)),
            "without its unit it is cut off"
        );
        assert!(matches!(all.default_huge_page, Observed::Malformed(_)));
        assert!(matches!(all.huge_free, Observed::Malformed(_)));
        assert!(parse(b"").is_err());
        assert!(parse(b"\xff\xfe\x00").is_err());
    }

    /// What of a memory comes from other files is absent still.
    #[test]
    fn no_amount_stays_absent_where_the_file_is_denied() {
        let mut memory = HostMemory::default();
        set_unknown(&mut memory, &Observed::Denied);
        let HostMemory { vmstat, free_blocks, watermarks, swaps, .. } = &memory;
        assert!(vmstat.is_absent() && free_blocks.is_absent());
        assert!(watermarks.is_absent() && swaps.is_absent());
        // Every field is printed, those of other files as well: these four are absent alone.
        let absent = format!("{memory:?}").matches("Absent").count();
        assert_eq!(absent, 4, "{memory:?}");
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
