//! Which pages are gigantic: larger than any block of the kernel's page allocator.

use super::Host;
use crate::{Bytes, PageSize};

impl Host {
    /// Whether the kernel's page allocator has no block as large as such a page (`hstate_is_gigantic` of mm/hugetlb.c: its
    /// order is beyond `MAX_PAGE_ORDER`). The kernel then looks for memory in one piece itself (`alloc_contig_pages`, where
    /// it is built with `CONTIG_ALLOC`): early in a boot it finds some, later by luck.
    ///
    /// 1 GiB on x86-64; on arm64 32 MiB and 1 GiB with base pages of 4 KiB, 1 GiB with 16 KiB, 16 GiB with 64 KiB.
    pub fn is_gigantic(&self, page: PageSize) -> bool {
        page.bytes() > self.largest_block()
    }

    /// The largest block of the page allocator: /proc/buddyinfo has a column for each order that there is.
    fn largest_block(&self) -> Bytes {
        let base = self.base_page.get().unwrap_or(PageSize::KIB_4);
        let zones = self.memory.free_blocks.known().into_iter().flatten();
        let counted = zones.filter_map(|zone| u32::try_from(zone.blocks.len()).ok()?.checked_sub(1)).max();
        let order = counted.unwrap_or_else(|| self.usual_order(base));
        let bytes = 1_u64.checked_shl(order).and_then(|pages| pages.checked_mul(base.bytes().get()));
        Bytes(bytes.unwrap_or(u64::MAX))
    }

    /// What kernels are built with where nobody says otherwise (`ARCH_FORCE_MAX_ORDER` of arch/*/Kconfig). Until 6.3 that
    /// number was one more and meant the same.
    fn usual_order(&self, base: PageSize) -> u32 {
        let architecture = self.architecture.known().map_or("", String::as_str);
        let (kib_64, kib_16) = (base.bytes() == Bytes::from_kib(64), base.bytes() == Bytes::from_kib(16));
        match architecture {
            "ppc64" | "ppc64le" if kib_64 => 8,
            "ppc64" | "ppc64le" | "sparc64" => 12,
            _ if kib_64 => 13,
            _ if kib_16 => 11,
            _ => 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Observed::{self, Known};
    use crate::host::ZoneFreeBlocks;

    use super::*;

    fn host(architecture: &str, base_kib: u64, columns: Option<usize>) -> Host {
        let zone = |columns| ZoneFreeBlocks { node: 0, zone: "Normal".into(), blocks: vec![0; columns] };
        let mut host = Host {
            architecture: Known(architecture.into()),
            base_page: PageSize::from_kib(base_kib).into(),
            ..Host::default()
        };
        host.memory.free_blocks = columns.map_or(Observed::Absent, |columns| Known(vec![zone(columns)]));
        host
    }

    /// What a kernel of each kind has pools of, in KiB, and those of them that it calls gigantic: arch/arm64/mm/hugetlbpage.c,
    /// arch/x86/mm/hugetlbpage.c, arch/powerpc/mm/hugetlbpage.c, arch/s390/mm/hugetlbpage.c, and the Kconfig of each.
    #[test]
    fn every_kernel_has_its_own_gigantic_pages() {
        for (architecture, base, columns, ordinary, gigantic) in [
            ("x86_64", 4, 11, &[2048_u64][..], &[1 << 20][..]),
            ("aarch64", 4, 11, &[64, 2048], &[32 << 10, 1 << 20]),
            ("aarch64", 16, 12, &[2048, 32 << 10], &[1 << 20]),
            ("aarch64", 64, 14, &[2048, 512 << 10], &[16 << 20]),
            ("ppc64le", 64, 9, &[2048, 16 << 10], &[1 << 20, 16 << 20]),
            ("s390x", 4, 11, &[1024], &[2 << 20]),
        ] {
            for columns in [Some(columns), None] {
                let host = host(architecture, base, columns);
                let of = |kib: &u64| host.is_gigantic(PageSize::from_kib(*kib).unwrap());
                let at = format!("{architecture} {base} {columns:?}");
                assert!(!ordinary.iter().any(of) && gigantic.iter().all(of), "{at}");
            }
        }
    }

    /// Kernels for large arm64 machines are built with ARCH_FORCE_MAX_ORDER=13 on base pages of 4 KiB too.
    #[test]
    fn the_kernel_at_hand_has_the_last_word() {
        let mib_32 = PageSize::from_kib(32 << 10).unwrap();
        assert!(!host("aarch64", 4, Some(14)).is_gigantic(mib_32));
        assert!(host("aarch64", 4, Some(14)).is_gigantic(PageSize::GIB_1));
        assert!(!host("x86_64", 4, Some(1000)).is_gigantic(PageSize::MIB_2), "whatever a capture says");
    }
}
