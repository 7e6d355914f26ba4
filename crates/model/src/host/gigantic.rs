//! Which pages are gigantic: larger than any block of the kernel's page allocator.

use super::{Host, ZoneFreeBlocks};
use crate::{Bytes, PageCount, PageSize};

impl Host {
    /// Whether a page is larger than any block of the kernel's page allocator (`hstate_is_gigantic`
    /// of mm/hugetlb.c). The kernel then looks for contiguous memory itself (`alloc_contig_pages`):
    /// early in a boot it finds some, later by luck.
    ///
    /// 1 GiB on x86-64; on arm64 32 MiB and 1 GiB with base pages of 4 KiB, 1 GiB with 16 KiB, 16
    /// GiB with 64 KiB.
    pub fn is_gigantic(&self, page: PageSize) -> bool {
        page.bytes() > self.largest_block()
    }

    /// How many pages of a size fit into free memory, on one node or on all, without the kernel
    /// moving anything. `None` for gigantic pages, and where the free blocks are not known.
    pub fn free_page_capacity(&self, page: PageSize, node: Option<u32>) -> Option<PageCount> {
        let base = self.base_page.get()?.bytes().get();
        let zones = self.memory.free_blocks.as_known()?;
        if self.is_gigantic(page) {
            return None;
        }
        let order = page.bytes().get().checked_div(base)?.checked_ilog2()?;
        let of_zone = |zone: &ZoneFreeBlocks| {
            let blocks = (0_u32..).zip(&zone.blocks).filter(|(number, _)| *number >= order);
            blocks.fold(0_u64, |sum, (number, count)| {
                sum.saturating_add(
                    1_u64
                        .checked_shl(number - order)
                        .map_or(u64::MAX, |pages| count.saturating_mul(pages)),
                )
            })
        };
        let zones = zones.iter().filter(|zone| node.is_none_or(|node| zone.node == node));
        Some(PageCount(zones.fold(0, |sum, zone| of_zone(zone).saturating_add(sum))))
    }

    /// /proc/buddyinfo has a column for each order.
    fn largest_block(&self) -> Bytes {
        let base = self.base_page.get().unwrap_or(PageSize::KIB_4);
        let zones = self.memory.free_blocks.as_known().into_iter().flatten();
        let counted =
            zones.filter_map(|zone| u32::try_from(zone.blocks.len()).ok()?.checked_sub(1)).max();
        let order = counted.unwrap_or_else(|| self.usual_order(base));
        let bytes =
            1_u64.checked_shl(order).and_then(|pages| pages.checked_mul(base.bytes().get()));
        Bytes(bytes.unwrap_or(u64::MAX))
    }

    /// Kernels' defaults (`ARCH_FORCE_MAX_ORDER` of arch/*/Kconfig; until 6.3 that was one more and
    /// meant the same).
    fn usual_order(&self, base: PageSize) -> u32 {
        let architecture = self.architecture.as_known().map_or("", String::as_str);
        let (kib_64, kib_16) =
            (base.bytes() == Bytes::from_kib(64), base.bytes() == Bytes::from_kib(16));
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
    use super::*;
    use crate::Observed::{self, Known};

    fn host(architecture: &str, base_kib: u64, columns: Option<usize>) -> Host {
        let zone =
            |columns| ZoneFreeBlocks { node: 0, zone: "Normal".into(), blocks: vec![0; columns] };
        let mut host = Host {
            architecture: Known(architecture.into()),
            base_page: PageSize::from_kib(base_kib).into(),
            ..Host::default()
        };
        host.memory.free_blocks =
            columns.map_or(Observed::Absent, |columns| Known(vec![zone(columns)]));
        host
    }

    /// 3 blocks of 2 MiB and 2 of 4 MiB; what is smaller is no help.
    #[test]
    fn room_is_what_lies_free_in_pieces_that_are_large_enough() {
        let mut host = host("x86_64", 4, None);
        let zone = |node, blocks| ZoneFreeBlocks { node, zone: "Normal".into(), blocks };
        let (small, large) = (vec![900; 9], vec![3, 2]);
        let blocks = [small.clone(), large].concat();
        host.memory.free_blocks =
            Known(vec![zone(0, blocks), zone(1, [small, vec![0, 0]].concat())]);
        let count_of = |kib, node| {
            host.free_page_capacity(PageSize::from_kib(kib).unwrap(), node).map(PageCount::get)
        };
        assert_eq!(
            (count_of(2048, None), count_of(2048, Some(0)), count_of(2048, Some(1))),
            (Some(7), Some(7), Some(0))
        );
        assert_eq!(count_of(1 << 20, None), None, "1 GiB is in no block");
        host.memory.free_blocks = Observed::Absent;
        assert_eq!(host.free_page_capacity(PageSize::from_kib(2048).unwrap(), None), None);
    }

    /// What a kernel of each kind has pools of, in KiB, and those of them that it calls gigantic:
    /// arch/arm64/mm/hugetlbpage.c, arch/x86/mm/hugetlbpage.c, arch/powerpc/mm/hugetlbpage.c,
    /// arch/s390/mm/hugetlbpage.c, and the Kconfig of each.
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
                let matches = |kib: &u64| host.is_gigantic(PageSize::from_kib(*kib).unwrap());
                let at = format!("{architecture} {base} {columns:?}");
                assert!(!ordinary.iter().any(matches) && gigantic.iter().all(matches), "{at}");
            }
        }
    }

    /// Kernels for large arm64 machines are built with ARCH_FORCE_MAX_ORDER=13 on base pages of 4
    /// KiB too.
    #[test]
    fn the_kernel_at_hand_has_the_last_word() {
        let mib_32 = PageSize::from_kib(32 << 10).unwrap();
        assert!(!host("aarch64", 4, Some(14)).is_gigantic(mib_32));
        assert!(host("aarch64", 4, Some(14)).is_gigantic(PageSize::GIB_1));
        assert!(
            !host("x86_64", 4, Some(1000)).is_gigantic(PageSize::MIB_2),
            "whatever a capture says"
        );
    }
}
