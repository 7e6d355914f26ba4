//! /proc/PID/numa_maps (numa(7)): says which mappings are hugetlb, also on old kernels.

use hugewise_model::PageSize;

use hugewise_source::ParseError;

/// Page size of one mapping by numa_maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumaMapsPageSize {
    /// `kernelpagesize_kB=`.
    Size(PageSize),
    /// `huge` without a size: none of it is touched, or the kernel is older than 3.9.
    SomeHuge,
    /// No `huge`: the base page.
    Base,
}

/// Looks up the mapping that starts at `start`. Fails on an invalid page size.
pub fn page_size_at(bytes: &[u8], start: u64) -> Result<Option<NumaMapsPageSize>, ParseError> {
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_ascii_whitespace();
        if words.next().and_then(|word| u64::from_str_radix(word, 16).ok()) != Some(start) {
            continue;
        }
        let mut told = NumaMapsPageSize::Base;
        for word in words {
            if let Some(size) = word.strip_prefix("kernelpagesize_kB=") {
                let size = size.parse().ok().and_then(PageSize::from_kib);
                told = NumaMapsPageSize::Size(
                    size.ok_or(ParseError::at_line(number, "no page size"))?,
                );
            } else if word == "huge" && told == NumaMapsPageSize::Base {
                told = NumaMapsPageSize::SomeHuge;
            }
        }
        return Ok(Some(told));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REAL: &str = "\
7f1000000000 default file=/SYSV00000000\\040(deleted) huge dirty=2 N0=2 kernelpagesize_kB=2048
7f2000000000 default file=/anon_hugepage\\040(deleted) huge
7f3000000000 default file=/dev/zero\\040(deleted)
7f4000000000 default anon=3 dirty=3 N0=3 kernelpagesize_kB=4
";

    #[test]
    fn tells_huge_from_base() {
        let at = |start| page_size_at(REAL.as_bytes(), start).unwrap();
        assert_eq!(at(0x7f10_0000_0000), Some(NumaMapsPageSize::Size(PageSize::MIB_2)));
        assert_eq!(at(0x7f20_0000_0000), Some(NumaMapsPageSize::SomeHuge));
        assert_eq!(at(0x7f30_0000_0000), Some(NumaMapsPageSize::Base));
        assert_eq!(at(0x7f40_0000_0000), Some(NumaMapsPageSize::Size(PageSize::KIB_4)));
        assert_eq!(at(1), None);
    }

    proptest! {
        #[test]
        fn each_mapping_has_its_own_size(starts in proptest::collection::btree_set(0..1_u64 << 47, 1..12), shifts in proptest::collection::vec(12..31_u32, 12), other in 0..1_u64 << 47) {
            let mappings: Vec<_> = starts.iter().copied().zip(shifts).collect();
            let text: String = mappings
                .iter()
                .map(|(start, shift)| format!("{start:08x} default file=/a\\040b huge N0=1 \
                     kernelpagesize_kB={}\n", 1_u64 << shift >> 10))
                .collect();
            for (start, shift) in &mappings {
                prop_assert_eq!(page_size_at(text.as_bytes(), *start), Ok(Some(NumaMapsPageSize::Size(PageSize::new(1 << shift).unwrap()))));
            }
            prop_assume!(!starts.contains(&other));
            prop_assert_eq!(page_size_at(text.as_bytes(), other), Ok(None));
        }

        #[test]
        fn a_mapping_beyond_the_tear_is_not_there(at in 0..REAL.find("7f40").unwrap()) {
            prop_assert_eq!(page_size_at(&REAL.as_bytes()[..at], 0x7f40_0000_0000), Ok(None));
        }
    }
}
