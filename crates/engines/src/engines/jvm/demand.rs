//! What a HotSpot machine takes from a pool of huge pages: heap, code cache, and the collector's
//! large tables.
//!
//! With `UseLargePages` on Linux a heap is taken whole at the start, whatever `-Xms` says; only ZGC
//! takes `-Xms` first and the rest as it grows. Metaspace, the class space and thread stacks are
//! never on huge pages. The numbers are what the kernel had committed for OpenJDK 17.0.9 to 17.0.21,
//! 21.0.8, 25.0.2 and 25.0.3, with heaps of 64 MiB to 4.5 GiB under each collector.

use hugewise_model::{Bytes, Demand, DemandSource, PageCount, PageSize};

use super::code_cache;
use super::ergonomics::{GarbageCollector, JvmParameters};
use super::flags::{self, Flags};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Larger than any measured heap; from here on Parallel's further tables are large enough to count.
const LARGEST_PROVEN: u64 = 10 * GIB;
/// The largest error in percent for a measured release with a larger heap than measured.
const LARGE_HEAP_ERROR: u8 = 1;
/// The largest error in percent for another release: the measured ones differ by up to 4 %.
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
    let code: u64 = code_cache::stretches(machine, smaller).into_iter().sum();
    let tables_in: u64 = tables.collector_table_stretches(heap, collector, flags).into_iter().sum();
    let in_file = flags.get(flags::HEAP_FOLDER).is_some() && collector != GarbageCollector::Z;
    let mut pages = if in_file { 0 } else { large.pages_rounded_up(heap) };
    let mut others = code;
    if tables.page == large.page {
        pages = pages.saturating_add(tables_in);
    } else {
        others = others.saturating_add(tables_in);
    }
    if smaller == page {
        pages = pages.saturating_add(std::mem::take(&mut others));
    }
    let rest =
        code.saturating_mul(small.page).saturating_add(tables_in.saturating_mul(tables.page));
    let measured =
        matches!(release, Some(17 | 21 | 25)) && smaller == PageSize::MIB_2 && is_plain(flags);
    let error_percent = match (measured, said && sure) {
        (_, false) => GUESSED_ERROR,
        (false, true) => OTHER_RELEASE_ERROR,
        (true, true) if heap >= LARGEST_PROVEN => LARGE_HEAP_ERROR,
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

/// What a start that may use pages of `largest` asks of those of `page` in turn: the code cache, the
/// heap, the collector's tables. ZGC takes of its heap what it begins with.
pub(super) fn start_stretches(
    machine: &JvmParameters<'_>,
    largest: PageSize,
    page: PageSize,
) -> Option<Vec<StartStretch>> {
    let release = machine.release();
    let one_size = release.is_some_and(|release| release < USES_SMALLER_PAGES);
    let smaller = if one_size { largest } else { largest.min(PageSize::MIB_2) };
    let (collector, _) = machine.choose_collector();
    let layout = JvmPageLayout { page: largest.bytes().get(), release };
    let (most, _) = machine.find_largest_heap()?;
    let whole = layout.aligned_heap_size(most.get(), collector, machine);
    let is_essential = collector == GarbageCollector::Z;
    let first = if is_essential {
        layout.aligned_heap_size(machine.initial_heap(most)?.get(), collector, machine)
    } else {
        whole
    };
    let aside = |pages| StartStretch { pages, is_essential: false };
    let in_file = machine.flags.get(flags::HEAP_FOLDER).is_some() && !is_essential;
    let first = if in_file { 0 } else { first };
    let heap = StartStretch { pages: layout.pages_rounded_up(first), is_essential };
    let code = code_cache::stretches(machine, smaller).into_iter().map(aside);
    let tables_page = if collector == GarbageCollector::Shenandoah { largest } else { smaller };
    let tables = JvmPageLayout { page: tables_page.bytes().get(), release }
        .collector_table_stretches(whole, collector, machine.flags);
    let of_page = |own: PageSize| own == page;
    let all = (code.filter(|_| of_page(smaller)))
        .chain(Some(heap).filter(|_| of_page(largest)))
        .chain(tables.into_iter().map(aside).filter(|_| of_page(tables_page)));
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

/// Whether no flag is set that the measured machines did not have.
fn is_plain(flags: &Flags) -> bool {
    const UNTOLD: [&str; 3] =
        ["NonNMethodCodeHeapSize", "ProfiledCodeHeapSize", "NonProfiledCodeHeapSize"];
    UNTOLD.iter().all(|name| flags.get(name).is_none())
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

/// Release and update: 17 and 9 of `17.0.9.2`, 8 and 402 of `1.8.0_402`.
pub(super) fn parse_release_and_update(version: &str) -> Option<(u32, u32)> {
    let release = parse_major_release(version)?;
    let words = version.split(|sign: char| !sign.is_ascii_digit());
    let update = if release <= 8 { words.clone().nth(3) } else { words.clone().nth(2) };
    Some((release, update.and_then(|word| word.parse().ok()).unwrap_or_default()))
}

struct JvmPageLayout {
    page: u64,
    release: Option<u32>,
}

/// From these releases on G1 has one mark bitmap (JDK-8210708) and no table of card counts
/// (JDK-8225409), and Parallel one mark bitmap; releases between count as earlier, which take more.
const ONE_G1_BITMAP: u32 = 20;
const NO_CARD_COUNTS: u32 = 21;
const ONE_PARALLEL_BITMAP: u32 = 25;
/// From this release on a region of G1 is rounded up to a power of two, and chosen by the largest
/// heap; before, down and by the mean of the first and the largest (OpenJDK 17, heapRegion.cpp).
const ROUNDS_REGIONS_UP: u32 = 16;

impl JvmPageLayout {
    fn is_at_least(&self, release: u32) -> bool {
        self.release.is_some_and(|own| own >= release)
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

    /// The heap is a whole number of pages, of regions, and of what a page of cards covers.
    fn aligned_heap_size(
        &self,
        asked: u64,
        collector: GarbageCollector,
        machine: &JvmParameters<'_>,
    ) -> u64 {
        let region = match collector {
            GarbageCollector::G1 => self.g1_region_size(asked, machine),
            GarbageCollector::Shenandoah => self.shenandoah_region_size(asked, machine.flags),
            _ => 1,
        };
        let cards = card_bytes(machine.flags).saturating_mul(4096).max(2 * MIB);
        // In a System V segment too, whose pages it does not decide.
        let named = machine.flags.size_value("LargePageSizeInBytes").map_or(0, Bytes::get);
        let is_named = machine.flags.uses_system_v(self.release) && named.is_power_of_two();
        let named = if is_named { named.min(GIB) } else { 0 };
        let step = region.max(self.page).max(cards).max(named);
        asked.checked_next_multiple_of(step).unwrap_or(u64::MAX - u64::MAX % step)
    }

    /// About 2048 regions, each a power of two.
    fn shenandoah_region_size(&self, largest: u64, flags: &Flags) -> u64 {
        let given = |name| flags.size_value(name).map(Bytes::get);
        let count = given("ShenandoahTargetNumRegions").unwrap_or(2048);
        let wished = given("ShenandoahRegionSize").unwrap_or((largest / count).min(32 * MIB));
        1 << wished.clamp(self.page.min(512 * MIB), 512 * MIB).ilog2()
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

    fn collector_table_stretches(
        &self,
        heap: u64,
        collector: GarbageCollector,
        flags: &Flags,
    ) -> Vec<u64> {
        if !flags.takes_tables(self.release) {
            return Vec::new();
        }
        // A byte for each card of the heap; a bit for each place where an object may begin.
        let alignment =
            flags.size_value("ObjectAlignmentInBytes").map_or(8, Bytes::get).clamp(8, 256);
        let (cards, bits) = (heap / card_bytes(flags), heap / 8 / alignment);
        match collector {
            GarbageCollector::G1 => {
                let (cards, bits) = (self.table_pages(cards), self.table_pages(bits));
                let counts = if self.is_at_least(NO_CARD_COUNTS) { 0 } else { cards };
                let second = if self.is_at_least(ONE_G1_BITMAP) { 0 } else { bits };
                vec![cards, cards, counts, bits, second]
            }
            GarbageCollector::Parallel => {
                let bitmap = if self.is_at_least(ONE_PARALLEL_BITMAP) { bits } else { 2 * bits };
                vec![
                    self.object_start_pages(heap, flags),
                    self.table_that_fits(bitmap),
                    self.table_that_fits(heap / (512 << 10) * 40),
                    self.table_that_fits(heap / 512),
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
        let bytes = (heap - young + young % self.page) / card_bytes(flags);
        // A System V segment is huge as a whole or not at all.
        if flags.uses_system_v(self.release) && !bytes.is_multiple_of(self.page) {
            return 0;
        }
        bytes / self.page
    }
}

/// Bytes of heap that a card stands for; a flag since release 18.
fn card_bytes(flags: &Flags) -> u64 {
    flags.size_value("GCCardSizeInBytes").map_or(512, Bytes::get).clamp(128, 1024)
}

#[cfg(test)]
mod tests;
