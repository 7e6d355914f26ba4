//! What a HotSpot machine takes from a pool of huge pages: heap, code cache, and the collector's
//! large tables.
//!
//! With `UseLargePages` on Linux a heap is taken whole at the start, whatever `-Xms` says; only ZGC
//! takes `-Xms` first and the rest as it grows. Metaspace, the class space and thread stacks are
//! never on huge pages. The numbers are what the kernel had committed for OpenJDK 17.0.15, 17.0.21
//! and 25.0.3, with heaps of 70 MiB to 4.5 GiB under each collector.

use hugewise_model::{Bytes, Demand, DemandSource, PageCount, PageSize};

use super::ergonomics::{GarbageCollector, JvmParameters};
use super::flags::{self, Flags};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Larger than any measured heap; from here on Parallel's further tables are large enough to count.
const LARGEST_PROVEN: u64 = 10 * GIB;
/// The part of a code cache that holds no methods: 5 MiB and the compilers' buffers.
const FIRST_PART: u64 = 8 * MIB;
/// The largest error in percent for a measured release with a larger heap than measured.
const LARGE_HEAP_ERROR: u8 = 1;
/// The largest error in percent for another release: the measured two differ by up to 4 %.
const OTHER_RELEASE_ERROR: u8 = 5;
/// The error where nobody told how large the heap is, or whether a quota leaves one processor.
pub(super) const GUESSED_ERROR: u8 = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    /// Pages of the largest size that it may use: for the heap, or for all if it is the only one.
    pub(super) pages: PageCount,
    pub(super) smaller: PageCount,
    pub(super) rest: Bytes,
    pub(super) error_percent: u8,
}

/// From this release on a machine uses every page size up to the one allowed (JDK-8256155).
pub(super) const USES_SMALLER_PAGES: u32 = 16;

/// Pages of a machine that may use `page`; `heap` is the size of its heap, if known.
pub(super) fn estimate_pages(
    machine: &JvmParameters<'_>,
    page: PageSize,
    heap: Option<Bytes>,
) -> Option<Estimate> {
    let flags = machine.flags;
    let release = machine.release();
    let (asked, said) = heap.map(|heap| (heap, true)).or_else(|| machine.find_largest_heap())?;
    let (collector, sure) = machine.choose_collector();
    let one_size = release.is_some_and(|release| release < USES_SMALLER_PAGES);
    let smaller = if one_size { page } else { page.min(PageSize::MIB_2) };
    if collector == GarbageCollector::Z && smaller < page {
        return None;
    }

    let large = JvmPageLayout { page: page.bytes().get(), release };
    let small = JvmPageLayout { page: smaller.bytes().get(), release };
    let heap = large.aligned_heap_size(asked.get(), collector, machine);
    // Shenandoah takes its bitmaps on the pages of the heap.
    let tables = if collector == GarbageCollector::Shenandoah { &large } else { &small };
    let code: u64 = small.code_cache_stretches(flags).into_iter().sum();
    let tables_in: u64 = tables.collector_table_stretches(heap, collector, flags).into_iter().sum();
    let mut pages = large.pages_rounded_up(heap);
    let mut others = code;
    if tables.page == large.page {
        pages += tables_in
    } else {
        others += tables_in
    }
    if smaller == page {
        pages = pages.saturating_add(std::mem::take(&mut others));
    }
    let rest =
        code.saturating_mul(small.page).saturating_add(tables_in.saturating_mul(tables.page));
    let measured = matches!(release, Some(17 | 25))
        && smaller == PageSize::MIB_2
        && is_plain(flags, small.is_new());
    let error_percent = match (measured, said && sure) {
        (_, false) => GUESSED_ERROR,
        (false, true) => OTHER_RELEASE_ERROR,
        (true, true) if heap >= LARGEST_PROVEN || small.splits_unmeasured(flags) => {
            LARGE_HEAP_ERROR
        }
        (true, true) => 0,
    };
    Some(Estimate {
        pages: PageCount(pages),
        smaller: PageCount(others),
        rest: Bytes(rest),
        error_percent,
    })
}

/// A stretch that a start asks the kernel for, whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartStretch {
    pub(super) pages: u64,
    /// Without it the machine does not start: the heap that ZGC begins with.
    pub(super) is_essential: bool,
}

/// What a start asks for in turn, where all is on pages of one size: the code cache, the heap, the
/// collector's tables. ZGC takes of its heap what it begins with.
pub(super) fn start_stretches(
    machine: &JvmParameters<'_>,
    page: PageSize,
) -> Option<Vec<StartStretch>> {
    let release = machine.release();
    let one_size = release.is_some_and(|release| release < USES_SMALLER_PAGES);
    if !one_size && page > PageSize::MIB_2 {
        return None;
    }
    let (collector, _) = machine.choose_collector();
    let layout = JvmPageLayout { page: page.bytes().get(), release };
    let (largest, _) = machine.find_largest_heap()?;
    let whole = layout.aligned_heap_size(largest.get(), collector, machine);
    let is_essential = collector == GarbageCollector::Z;
    let first = if is_essential {
        layout.aligned_heap_size(machine.initial_heap(largest)?.get(), collector, machine)
    } else {
        whole
    };
    let aside = |pages| StartStretch { pages, is_essential: false };
    let heap = StartStretch { pages: layout.pages_rounded_up(first), is_essential };
    let code = layout.code_cache_stretches(machine.flags).into_iter().map(aside);
    let tables = layout.collector_table_stretches(whole, collector, machine.flags);
    let all = code.chain([heap]).chain(tables.into_iter().map(aside));
    Some(all.filter(|stretch| stretch.pages > 0).collect())
}

pub(super) fn estimate_demands(
    machine: &JvmParameters<'_>,
    page: PageSize,
    heap: Option<Bytes>,
) -> Vec<Demand> {
    let estimate = estimate_pages(machine, page, heap);
    estimate.map(|estimate| estimate.to_demands(page)).unwrap_or_default()
}

impl Estimate {
    pub(super) fn to_demands(&self, page: PageSize) -> Vec<Demand> {
        let source = DemandSource::Estimated { error_percent: self.error_percent };
        let both = [(page, self.pages), (PageSize::MIB_2, self.smaller)];
        let needed = both.into_iter().filter(|(_, pages)| *pages > PageCount::ZERO);
        needed.map(|(page_size, pages)| Demand { page_size, pages, source }).collect()
    }
}

/// Whether no flag is set that the measured machines did not have; 25 had fewer than 17.
fn is_plain(flags: &Flags, new: bool) -> bool {
    const UNTOLD: [&str; 1] = ["ShenandoahRegionSize"];
    const UNTOLD_OF_NEW: [&str; 10] = [
        "SegmentedCodeCache",
        "NewSize",
        "MaxNewSize",
        "NewRatio",
        "UseSHM",
        "UseEpsilonGC",
        "ObjectAlignmentInBytes",
        "TieredStopAtLevel",
        flags::MODE.0,
        flags::INTERPRETED,
    ];
    let more: &[&str] = if new { &UNTOLD_OF_NEW } else { &[] };
    UNTOLD.iter().chain(more).all(|name| flags.get(name).is_none())
}

pub(super) fn parse_major_release(version: &str) -> Option<u32> {
    let mut numbers = version
        .split(|character: char| !character.is_ascii_digit())
        .map(|part| part.parse::<u32>().ok());
    match numbers.next()?? {
        1 => numbers.next()?,
        first => Some(first),
    }
}

struct JvmPageLayout {
    page: u64,
    release: Option<u32>,
}

/// From this release on a region of G1 is rounded up to a power of two, and chosen by the largest
/// heap; before, down and by the mean of the first and the largest (OpenJDK 17, heapRegion.cpp).
const ROUNDS_REGIONS_UP: u32 = 16;

impl JvmPageLayout {
    /// 25 and later have one mark bitmap for G1, half of one for Parallel, two tables for G1, and a
    /// larger code cache. Releases between count as 17, which takes more.
    fn is_new(&self) -> bool {
        self.release.is_some_and(|release| release >= 25)
    }

    const fn pages_rounded_up(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.page)
    }

    /// A table that is on huge pages if it is as large as one.
    const fn table_pages(&self, bytes: u64) -> u64 {
        if bytes >= self.page { self.pages_rounded_up(bytes) } else { 0 }
    }

    /// A table that is on huge pages if it is at least ten whole ones.
    const fn table_that_fits(&self, bytes: u64) -> u64 {
        if bytes.is_multiple_of(self.page) && bytes / self.page >= 10 {
            bytes / self.page
        } else {
            0
        }
    }

    /// The heap is a whole number of pages and of regions; no card table maps less than 2 MiB.
    fn aligned_heap_size(
        &self,
        asked: u64,
        collector: GarbageCollector,
        machine: &JvmParameters<'_>,
    ) -> u64 {
        let given = |name| machine.flags.size_value(name).map(Bytes::get);
        let region = match collector {
            GarbageCollector::G1 => self.g1_region_size(asked, machine),
            // About 2048 regions, each a power of two.
            GarbageCollector::Shenandoah => {
                let wished = given("ShenandoahRegionSize").unwrap_or((asked / 2048).min(32 * MIB));
                1 << wished.clamp(self.page.min(512 * MIB), 512 * MIB).ilog2()
            }
            _ => 1,
        };
        let step = region.max(self.page).max(2 * MIB);
        asked.checked_next_multiple_of(step).unwrap_or(u64::MAX - u64::MAX % step)
    }

    fn g1_region_size(&self, largest: u64, machine: &JvmParameters<'_>) -> u64 {
        let given = machine.flags.size_value("G1HeapRegionSize").map(Bytes::get);
        let rounds_up = self.release.is_none_or(|release| release >= ROUNDS_REGIONS_UP);
        let decides = if rounds_up {
            largest
        } else {
            let first = machine.initial_heap(Bytes(largest)).unwrap_or(Bytes(largest));
            largest / 2 + first.get() / 2
        };
        let wished = given.unwrap_or((decides / 2048).min(32 * MIB)).clamp(MIB, 512 * MIB);
        if rounds_up { wished.next_power_of_two() } else { 1 << wished.ilog2() }
    }

    /// Whether code is compiled in two tiers; with one of them its cache is smaller.
    fn is_tiered(flags: &Flags) -> bool {
        let one_mode = matches!(flags.get(flags::MODE.0), Some("quick-only" | "high-only"));
        let stops = flags
            .get("TieredStopAtLevel")
            .and_then(flags::parse_size)
            .is_some_and(|level| level.get() < 4);
        !one_mode
            && !stops
            && !flags.is_on("NeverActAsServerClassMachine")
            && flags.get("TieredCompilation") != Some("false")
            && !flags.is_on(flags::INTERPRETED)
    }

    /// `ReservedCodeCacheSize`: 240 MiB with tiered compilation, in three parts, the smallest
    /// rounded up to its pages; below 8 pages (16 MiB) it is on base pages. Each part has a table
    /// of a byte for each 128 bytes, whose whole pages are on huge ones.
    fn code_cache_stretches(&self, flags: &Flags) -> Vec<u64> {
        let size = Self::code_size(flags);
        if flags.uses_system_v(self.release) || size < self.page.saturating_mul(8) {
            return Vec::new();
        }
        let in_parts = Self::in_parts(flags, size);
        // Rounding three parts instead of one takes a page more in 25, and in 17 where the whole
        // has an odd rest.
        let pages = self.pages_rounded_up(size) + u64::from(in_parts && self.is_new());
        let table = |part: u64| part / 128 / self.page;
        if in_parts {
            let of_part = table(size.saturating_sub(FIRST_PART) / 2);
            vec![pages, of_part, of_part]
        } else {
            vec![pages, table(pages.saturating_mul(self.page))]
        }
    }

    fn code_size(flags: &Flags) -> u64 {
        let default = match () {
            // What the client's machine had.
            () if flags.is_on("NeverActAsServerClassMachine") => 32 * MIB,
            () if Self::is_tiered(flags) => 240 * MIB,
            () => 48 * MIB,
        };
        flags.size_value("ReservedCodeCacheSize").map_or(default, Bytes::get)
    }

    fn in_parts(flags: &Flags, size: u64) -> bool {
        Self::is_tiered(flags)
            && size >= 240 * MIB
            && flags.get("SegmentedCodeCache") != Some("false")
    }

    /// Whether the code cache is so large that the exact size of its parts, which depends on the
    /// processors, matters.
    fn splits_unmeasured(&self, flags: &Flags) -> bool {
        let size = Self::code_size(flags);
        Self::in_parts(flags, size) && size > 512 * MIB
    }

    fn collector_table_stretches(
        &self,
        heap: u64,
        collector: GarbageCollector,
        flags: &Flags,
    ) -> Vec<u64> {
        // A byte (a card) for 512 bytes of heap; a bit for each place where an object may begin.
        let alignment =
            flags.size_value("ObjectAlignmentInBytes").map_or(8, Bytes::get).clamp(8, 256);
        let (cards, bits) = (heap / 512, heap / 8 / alignment);
        let is_new = self.is_new();
        match collector {
            GarbageCollector::G1 => {
                let (cards, bits) = (self.table_pages(cards), self.table_pages(bits));
                if is_new {
                    vec![cards, cards, bits]
                } else {
                    vec![cards, cards, cards, bits, bits]
                }
            }
            GarbageCollector::Parallel => {
                let bitmap = if is_new { bits } else { 2 * bits };
                vec![
                    self.object_start_pages(heap, flags),
                    self.table_that_fits(bitmap),
                    self.table_that_fits(heap / (512 << 10) * 40),
                    self.table_that_fits(cards),
                ]
            }
            GarbageCollector::Serial => vec![self.object_start_pages(heap, flags)],
            // Two bitmaps of two bits, and the regions themselves.
            GarbageCollector::Shenandoah => {
                let bitmap = self.pages_rounded_up(2 * bits);
                vec![bitmap, bitmap, 1]
            }
            GarbageCollector::Z | GarbageCollector::Epsilon => Vec::new(),
        }
    }

    /// Where objects start in the old generation, by default two thirds of the heap: whole pages,
    /// with the rest on base pages.
    fn object_start_pages(&self, heap: u64, flags: &Flags) -> u64 {
        let given = |name| flags.size_value(name).map(Bytes::get);
        let share = if flags.is_on("AggressiveHeap") {
            heap / 8 * 3
        } else {
            heap / given("NewRatio").unwrap_or(2).saturating_add(1)
        };
        let young = given("MaxNewSize")
            .unwrap_or_else(|| share.max(given("NewSize").unwrap_or(0)))
            .min(heap);
        (heap - young + young % self.page) / 512 / self.page
    }
}

#[cfg(test)]
mod tests;
