//! /proc/PID/smaps: read of one process a segment at most, as the kernel walks all page tables.

use hugewise_model::PageSize;

use hugewise_source::ParseError;

/// `KernelPageSize` of the mapping that starts at `start`. Fails on an invalid page size.
pub fn page_size_at(bytes: &[u8], start: u64) -> Result<Option<PageSize>, ParseError> {
    let mut inside = false;
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        if let Some(first) = first_address(line) {
            inside = first == start;
        } else if inside && line.starts_with(b"KernelPageSize:") {
            return page_size(line, number).map(Some);
        }
    }
    Ok(None)
}

/// The first address of `7f1000000000-7f1000200000 rw-s ...`.
fn first_address(line: &[u8]) -> Option<u64> {
    let end = line.iter().position(|byte| *byte == b'-').filter(|end| *end <= 16)?;
    u64::from_str_radix(std::str::from_utf8(line.get(..end)?).ok()?, 16).ok()
}

fn page_size(line: &[u8], number: u64) -> Result<PageSize, ParseError> {
    let text = String::from_utf8_lossy(line);
    let kib = text.strip_prefix("KernelPageSize:").and_then(|rest| rest.trim().strip_suffix("kB"));
    kib.and_then(|kib| kib.trim().parse().ok())
        .and_then(PageSize::from_kib)
        .ok_or(ParseError::at_line(number, "no page size"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REAL: &str = "\
55d0c8a00000-55d0c8acd000 r--p 00000000 fe:01 1835113                    /usr/bin/x
Size:                820 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
VmFlags: rd mr mw me sd
7f1000000000-7f1000200000 rw-s 00000000 00:0f 32769                      /SYSV00000000 (deleted)
Size:               2048 kB
KernelPageSize:     2048 kB
MMUPageSize:        2048 kB
VmFlags: rd wr sh mr mw me ms de ht sd
";

    #[test]
    fn each_mapping_has_its_own() {
        assert_eq!(page_size_at(REAL.as_bytes(), 0x7f10_0000_0000), Ok(Some(PageSize::MIB_2)));
        assert_eq!(page_size_at(REAL.as_bytes(), 0x55d0_c8a0_0000), Ok(Some(PageSize::KIB_4)));
        assert_eq!(page_size_at(REAL.as_bytes(), 7), Ok(None));
    }

    proptest! {
        #[test]
        fn each_mapping_has_its_own_size(starts in proptest::collection::btree_set(0..1_u64 << 47, 1..12), shifts in proptest::collection::vec(12..31_u32, 12)) {
            let mappings: Vec<_> = starts.iter().copied().zip(shifts).collect();
            let text: String = mappings
                .iter()
                .map(|(start, shift)| {
                    let page = 1_u64 << shift >> 10;
                    format!("{start:08x}-{:08x} rw-s 00000000 00:0f 3 /a-b\nRss: 4 \
                         kB\nKernelPageSize: {page:>8} kB\n", start + 1)
                })
                .collect();
            let page = |shift: u32| PageSize::new(1 << shift);
            for (start, shift) in &mappings {
                prop_assert_eq!(page_size_at(text.as_bytes(), *start), Ok(page(*shift)));
            }
        }

        #[test]
        fn a_mapping_beyond_the_tear_is_not_there(at in 0..REAL.find("KernelPageSize:     2048").unwrap()) {
            prop_assert_eq!(page_size_at(&REAL.as_bytes()[..at], 0x7f10_0000_0000), Ok(None));
        }
    }
}
