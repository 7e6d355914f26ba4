//! Page tables as the kernel makes them: what a mapping costs each process that touches it.

use hugewise_engines::EngineKind;
use hugewise_model::{Bytes, Engine, PageSize};

/// Bytes of one page table entry on every 64-bit architecture that Linux runs on.
const ENTRY_BYTES: u64 = 8;

/// Tables that cover this much or more are the root or stand in every process anyway.
const ROOT_SPAN: u64 = 1 << 47;

/// Page tables that one process adds when it touches all of `[start, start + size)` in pages of
/// `page` on a kernel whose base page is `base`.
///
/// A table is one base page of 8-byte entries. On x86-64 with 4 KiB pages that is one table for
/// each 2 MiB, one for each 1 GiB and one for each 512 GiB that the mapping reaches into; the last
/// is not counted once, as the process has it already. A huge page needs no table below its own
/// level. Where the kernel shares tables of hugetlb mappings between processes the true cost of
/// huge pages is lower still.
pub fn page_tables(start: u64, size: Bytes, page: PageSize, base: PageSize) -> Bytes {
    let Some(last) = size.get().checked_sub(1).map(|rest| start.saturating_add(rest)) else {
        return Bytes::ZERO;
    };
    let entries = base.bytes().get() / ENTRY_BYTES;
    let mut tables = 0_u64;
    let mut covers = base.bytes().get().saturating_mul(entries);
    while covers < ROOT_SPAN {
        let above = covers.saturating_mul(entries);
        if covers > page.bytes().get() {
            let reached = (last / covers).saturating_sub(start / covers).saturating_add(1);
            let there_already = u64::from(above >= ROOT_SPAN);
            tables = tables.saturating_add(reached.saturating_sub(there_already));
        }
        covers = above;
    }
    base.bytes().saturating_mul(tables)
}

/// Where the processes of a server map its shared memory.
///
/// The kernel lets two processes share a table of hugetlb pages only where both map the same part
/// of the memory at the same offset within what the table covers (`page_table_shareable` in
/// mm/hugetlb.c: equal `pmd_index`, equal flags, the whole span inside both mappings).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// All at one address: they are forked from the one that mapped it, or ask for that address.
    Same,
    /// Each wherever the kernel puts it (kernel.randomize_va_space).
    Own,
}

impl Addresses {
    /// Those of a server's processes. PostgreSQL's are forked with the memory mapped
    /// (src/backend/port/sysv_shmem.c). Oracle's attach at the address that the program is linked
    /// for (`sgabeg` in ksms.s, Red Hat's tuning guide for Oracle 9i and 10g, 15.5). Of others it
    /// is not known, and the dearer kind is taken.
    pub fn for_engine(engine: Engine) -> Self {
        if EngineKind::for_engine(engine).memory.one_address { Self::Same } else { Self::Own }
    }
}

/// What a stretch of memory costs in page tables where its address is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PageTableCost {
    /// In each process that touches all of it.
    pub each: Bytes,
    /// In tables that stand once for all processes which have the memory at the same offset.
    pub shared: Bytes,
    /// Offsets that the kernel chooses from for each process; 1 where all have the same.
    pub offsets: u64,
}

/// One, in the fractions of [`PageTableCost::shared_among`].
const ONE: u128 = 1 << 40;

impl PageTableCost {
    /// The shared tables of so many processes, a set for each offset that they are expected to
    /// have: of `k` offsets, `n` draws leave each one out with probability `(1 - 1/k)^n`, so that
    /// `k (1 - (1 - 1/k)^n)` are expected to be drawn.
    pub(crate) fn shared_among(self, processes: u64) -> Bytes {
        if self.offsets <= 1 {
            return if processes == 0 { Bytes::ZERO } else { self.shared };
        }
        let offsets = u128::from(self.offsets);
        let (mut left_out, mut factor, mut exponent) = (ONE, ONE - ONE / offsets, processes);
        while exponent > 0 {
            if exponent % 2 == 1 {
                left_out = left_out * factor / ONE;
            }
            factor = factor * factor / ONE;
            exponent /= 2;
        }
        let sets = offsets.saturating_mul(ONE - left_out);
        let bytes = u128::from(self.shared.get()).saturating_mul(sets) / ONE;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// As they are where all processes have the memory at one offset.
    #[must_use]
    pub(crate) const fn at_one_address(self) -> Self {
        Self { offsets: 1, ..self }
    }

    pub(crate) fn for_processes(self, processes: u64) -> Bytes {
        self.each.saturating_mul(processes) + self.shared_among(processes)
    }
}

impl std::ops::Add for PageTableCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            each: self.each + other.each,
            shared: self.shared + other.shared,
            offsets: self.offsets.max(other.offsets),
        }
    }
}

/// Page tables for `size` bytes of shared memory in pages of `page`, all touched, on the average of
/// the addresses that the kernel may choose.
///
/// Base pages cost what [`page_tables`] says. Of huge pages, a mapping lies next to the process's
/// libraries and stack, whose upper tables reach into it: a process adds one table for each
/// boundary that the mapping crosses, which on average is `size` over what a table covers. Tables
/// of 2 MiB entries that lie wholly inside a shared mapping can be shared (the kernel's sharing of
/// hugetlb page tables, on x86-64, arm64 and riscv64), all but the lowest, which reaches out of the
/// mapping, by the processes that have it at the same offset in 1 GiB. A process that chooses no
/// address gets one of 512 offsets, the multiples of 2 MiB.
///
/// Measured on Linux 6.18: 5 GiB of 2 MiB pages add 20 kB to the `VmPTE` of each process wherever
/// it lies; to `PageTables` 4 kB each and 16 kB once with forked sessions, and 4 kB each and 16 kB
/// for each offset that is in use with sessions that attach by themselves.
pub(crate) fn shared_tables(
    size: Bytes,
    page: PageSize,
    base: PageSize,
    addresses: Addresses,
) -> PageTableCost {
    if page <= base {
        return PageTableCost {
            each: page_tables(0, size, page, base),
            ..PageTableCost::default()
        };
    }
    let entries = base.bytes().get() / ENTRY_BYTES;
    let average = |covers: u64| {
        let bytes = u128::from(base.bytes().get()).saturating_mul(u128::from(size.get()));
        Bytes(
            bytes
                .checked_div(u128::from(covers))
                .and_then(|bytes| u64::try_from(bytes).ok())
                .unwrap_or(u64::MAX),
        )
    };
    let mut tables = PageTableCost::default();
    let mut covers = base.bytes().get().saturating_mul(entries);
    while covers < ROOT_SPAN {
        if covers > page.bytes().get() {
            let all = average(covers);
            // Only tables whose every entry is such a page.
            let shares =
                page < PageSize::GIB_1 && covers == page.bytes().get().saturating_mul(entries);
            let each = if shares { all.min(base.bytes()) } else { all };
            tables.each += each;
            tables.shared += all.saturating_sub(each);
            if shares && addresses == Addresses::Own {
                tables.offsets = entries;
            }
        }
        covers = covers.saturating_mul(entries);
    }
    tables
}

/// Page tables of a process that touches nothing of the segments: its program, libraries, stack and
/// root.
///
/// Measured on Linux 6.18 (x86-64, 4 KiB pages): 43 to 57 kB for small programs, as the addresses
/// fall, and 53 to 55 kB as the mean of a hundred processes of two builds of this project's
/// stand-in server (`cargo xtask forecast`); 188 to 192 kB for PostgreSQL 15 after its first query,
/// a few of these tables in its shared memory. For larger base pages six tables are reckoned, not
/// measured: their trees are lower.
pub fn process_tables(engine: Engine, base: PageSize) -> Bytes {
    if base > PageSize::KIB_4 {
        base.bytes().saturating_mul(6)
    } else {
        EngineKind::for_engine(engine).memory.process_tables
    }
}

/// Page tables of forked processes that each touch `touched` bytes of one memory, and of their own.
pub fn of_forked(
    engine: Engine,
    processes: u64,
    touched: Bytes,
    page: PageSize,
    base: PageSize,
) -> Bytes {
    let tables = shared_tables(touched, page, base, Addresses::Same);
    tables.for_processes(processes) + process_tables(engine, base).saturating_mul(processes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::gib;

    const KIB_64: PageSize = match PageSize::new(64 << 10) {
        Some(size) => size,
        None => panic!("64 KiB"),
    };
    const MIB_512: PageSize = match PageSize::new(512 << 20) {
        Some(size) => size,
        None => panic!("512 MiB"),
    };

    #[test]
    fn one_process_costs_what_was_measured() {
        let at = |size, page| page_tables(0, size, page, PageSize::KIB_4);
        assert_eq!(at(gib(1), PageSize::KIB_4), Bytes::from_kib(2052));
        assert_eq!(at(gib(2), PageSize::MIB_2), Bytes::from_kib(8));
        assert_eq!(at(gib(2), PageSize::GIB_1), Bytes::ZERO);
        assert_eq!(at(Bytes::ZERO, PageSize::KIB_4), Bytes::ZERO);
        assert_eq!(at(Bytes(1), PageSize::KIB_4), Bytes::from_kib(8));
    }

    #[test]
    fn a_mapping_across_a_boundary_needs_a_table_on_each_side() {
        let across = page_tables((1 << 30) - 4096, Bytes(8192), PageSize::KIB_4, PageSize::KIB_4);
        assert_eq!(across, Bytes::from_kib(16));
    }

    #[test]
    fn arm64_with_64_kib_pages() {
        // One 64 KiB table of 8192 entries for each 512 MiB; the one above covers 4 TiB and is
        // there already.
        assert_eq!(page_tables(0, gib(4), KIB_64, KIB_64), Bytes::from_kib(8 * 64));
        assert_eq!(page_tables(0, gib(4), PageSize::MIB_2, KIB_64), Bytes::from_kib(8 * 64));
        assert_eq!(page_tables(0, gib(4), MIB_512, KIB_64), Bytes::ZERO);
    }

    #[test]
    fn processes_share_tables_by_chance_where_each_chooses_its_address() {
        let tables = shared_tables(gib(5), PageSize::MIB_2, PageSize::KIB_4, Addresses::Own);
        assert_eq!((tables.offsets, tables.shared), (512, Bytes::from_kib(16)));
        // The first has its own set; of two, the second has the first one's in one case of 512.
        assert_eq!(tables.shared_among(0), Bytes::ZERO);
        let near = |processes: u64, sets: f64| {
            let off = tables.shared_among(processes).as_f64() / (16.0 * 1024.0) - sets;
            assert!(off.abs() < 1e-3, "{processes} processes: {off} sets off");
        };
        near(1, 1.0);
        near(2, 1.0 + 511.0 / 512.0);
        // 512 (1 - (511/512)^n).
        near(100, 90.9207);
        near(300, 227.1923);
        near(1_000_000, 512.0);
        assert_eq!(tables.at_one_address().shared_among(300), Bytes::from_kib(16));
        // `PageTables` grew by 7,223 kB for a hundred such sessions, with the 54 kB that each has
        // besides (Linux 6.18).
        let hundred = tables.for_processes(100)
            + process_tables(Engine::Other, PageSize::KIB_4).saturating_mul(100);
        let error = hundred.as_f64() / Bytes::from_kib(7223).as_f64() - 1.0;
        assert!(error.abs() < 0.05, "{error}");
        assert_eq!(
            shared_tables(gib(5), PageSize::GIB_1, PageSize::KIB_4, Addresses::Own).shared,
            Bytes::ZERO
        );
    }
}
