//! What a HotSpot machine takes from a pool of huge pages: heap, code cache, and the collector's tables that are large enough.
//!
//! With `UseLargePages` on Linux a heap is taken whole at the start, whatever `-Xms` says; ZGC alone takes `-Xms` first and the
//! rest as it grows. Metaspace, the class space and thread stacks are never on huge pages. Every number here is what the
//! kernel had committed for OpenJDK 17.0.15, 17.0.21 and 25.0.3, with heaps of 70 MiB to 4.5 GiB under each collector.

use hugewise_model::{Bytes, Demand, DemandSource, PageCount, PageSize};

use super::flags::{self, Flags};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// From here on a heap is larger than any that was measured, and Parallel's further tables are large enough to count.
const LARGEST_PROVEN: u64 = 10 * GIB;

/// The part of a code cache that holds no methods, 5 MiB and the compilers' buffers.
const FIRST_PART: u64 = 8 * MIB;

/// Largest error in percent against a release that was measured, with a heap beyond those that were.
const LARGE_HEAP_ERROR: u8 = 1;

/// Largest error in percent against another release, by the difference between the two that were measured (up to 4 %).
const OTHER_RELEASE_ERROR: u8 = 5;

/// A heap that the machine chooses itself by the host's memory, or a collector by its processors.
pub(super) const GUESSED_ERROR: u8 = 10;

/// Which collector there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collector {
    Epsilon,
    G1,
    Parallel,
    Serial,
    Shenandoah,
    Z,
}

impl Collector {
    fn chosen(flags: &Flags) -> Option<Self> {
        [
            ("UseG1GC", Self::G1),
            ("UseParallelGC", Self::Parallel),
            ("UseSerialGC", Self::Serial),
            ("UseShenandoahGC", Self::Shenandoah),
            ("UseZGC", Self::Z),
            ("UseEpsilonGC", Self::Epsilon),
        ]
        .into_iter()
        .find_map(|(name, collector)| flags.on(name).then_some(collector))
    }
}

/// What is known of the machine that is to start.
pub(super) struct Machine<'a> {
    pub(super) flags: &'a Flags,
    /// `17.0.15`.
    pub(super) version: Option<&'a str>,
    /// Memory that it sees, of which a quarter is the heap that nothing else is said of.
    pub(super) memory: Option<Bytes>,
    /// Its processors: a machine of one, or of less than 1792 MiB, takes the Serial collector.
    pub(super) processors: Option<u64>,
}

/// What a machine takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    /// Pages of the largest size that it may use: of the heap, and where that is the only size of all else.
    pub(super) pages: PageCount,
    /// Pages of 2 MiB for what is too small for the other: code cache and tables.
    pub(super) smaller: PageCount,
    /// Bytes of all but the heap.
    pub(super) rest: Bytes,
    /// The error of that in percent.
    pub(super) error_percent: u8,
}

/// From this release on a machine uses every page size up to the one that it may use (JDK-8256155).
pub(super) const USES_SMALLER_PAGES: u32 = 16;

/// Pages that a machine takes that may use pages of `page`, and those of 2 MiB for what does not fill one of these. `heap`
/// is what its heap is known to be.
pub(super) fn estimate(machine: &Machine<'_>, page: PageSize, heap: Option<Bytes>) -> Option<Estimate> {
    let flags = machine.flags;
    let release = machine.version.and_then(release);
    let (asked, said) = match (heap.or_else(|| flags.size("MaxHeapSize")), machine.memory) {
        (Some(heap), _) => (heap, true),
        (None, Some(memory)) => (by_memory(memory, flags), false),
        (None, None) => return None,
    };
    let server = machine.processors.is_none_or(|count| count >= 2)
        && machine.memory.is_none_or(|memory| memory >= Bytes::from_mib(1792));
    let by_default = if server { Collector::G1 } else { Collector::Serial };
    let collector = Collector::chosen(flags).unwrap_or(by_default);
    let sure = Collector::chosen(flags).is_some() || (machine.processors.is_some() && machine.memory.is_some());
    let one_size = release.is_some_and(|release| release < USES_SMALLER_PAGES);
    let smaller = if one_size { page } else { page.min(PageSize::MIB_2) };
    if collector == Collector::Z && smaller < page {
        // It takes pages of 2 MiB or does not start.
        return None;
    }

    let new = release.is_some_and(|release| release >= 25);
    let large = Layout { page: page.bytes().get(), new };
    let small = Layout { page: smaller.bytes().get(), new };
    let heap = large.heap(asked.get(), collector, flags);
    // Shenandoah takes its bitmaps on the pages of the heap.
    let tables = if collector == Collector::Shenandoah { &large } else { &small };
    let (code, tables_in) = (small.code(flags), tables.tables(heap, collector, flags));
    let mut pages = large.whole(heap);
    let mut others = code;
    if tables.page == large.page {
        pages += tables_in
    } else {
        others += tables_in
    }
    if smaller == page {
        pages = pages.saturating_add(std::mem::take(&mut others));
    }
    let rest = code.saturating_mul(small.page).saturating_add(tables_in.saturating_mul(tables.page));
    let measured = matches!(release, Some(17 | 25)) && smaller == PageSize::MIB_2 && is_plain(flags, new);
    let error_percent = match (measured, said && sure) {
        (_, false) => GUESSED_ERROR,
        (false, true) => OTHER_RELEASE_ERROR,
        (true, true) if heap >= LARGEST_PROVEN || small.splits_unmeasured(flags) => LARGE_HEAP_ERROR,
        (true, true) => 0,
    };
    Some(Estimate { pages: PageCount(pages), smaller: PageCount(others), rest: Bytes(rest), error_percent })
}

impl Estimate {
    /// As demands: first of the size that the heap is on.
    pub(super) fn demands(&self, page: PageSize) -> Vec<Demand> {
        let source = DemandSource::Estimated { error_percent: self.error_percent };
        let both = [(page, self.pages), (PageSize::MIB_2, self.smaller)];
        let needed = both.into_iter().filter(|(_, pages)| *pages > PageCount::ZERO);
        needed.map(|(page_size, pages)| Demand { page_size, pages, source }).collect()
    }
}

/// The largest heap of a machine that is told none: a part of the memory that it sees, which in a container is less than the
/// host's (OpenJDK 17, `Arguments::set_heap_size`).
pub(super) fn by_memory(memory: Bytes, flags: &Flags) -> Bytes {
    /// `MaxRAM`, beyond which memory counts only where that is said.
    const MOST: Bytes = Bytes::from_gib(128);
    /// `MaxHeapSize` before anything is known of the machine: 96 MiB, and three tenths for larger words.
    const LEAST: u64 = (96 * MIB / 10 * 13) & !7;
    let memory = flags.size("MaxRAM").unwrap_or(memory.min(MOST));
    let part = |percentage: &str, fraction: &str, default: u64| {
        let given = flags.get(percentage).and_then(flags::percentage);
        let divisor = flags.size(fraction).map(Bytes::get).filter(|_| given.is_none());
        let millionths = u128::from(given.unwrap_or(default * 1_000_000));
        let part = match divisor {
            Some(divisor) => u128::from(memory.get() / divisor.max(1)),
            None => u128::from(memory.get()) * millionths / 100_000_000,
        };
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    let (most, little) =
        (part("MaxRAMPercentage", "MaxRAMFraction", 25), part("MinRAMPercentage", "MinRAMFraction", 50));
    let heap = if little < LEAST { little } else { most.max(LEAST) };
    Bytes(heap).max(flags.size("InitialHeapSize").unwrap_or_default())
}

/// Whether nothing is said that the machines which were measured were not told; 25 was told less than 17.
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

/// `17` of `17.0.15`, `8` of `1.8.0_402`.
pub(super) fn release(version: &str) -> Option<u32> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().ok());
    match numbers.next()?? {
        1 => numbers.next()?,
        first => Some(first),
    }
}

struct Layout {
    /// Bytes of a page.
    page: u64,
    /// From 25 on: one mark bitmap for G1, half of one for Parallel, two tables for G1, and a larger code cache. When between
    /// 17 and 25 each came is not known here: these count as 17, which takes more.
    new: bool,
}

impl Layout {
    const fn whole(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.page)
    }

    /// A table that is on huge pages from the size of one on.
    const fn table(&self, bytes: u64) -> u64 {
        if bytes >= self.page { self.whole(bytes) } else { 0 }
    }

    /// A table that is on huge pages if these are at least ten and fit it.
    const fn table_that_fits(&self, bytes: u64) -> u64 {
        if bytes.is_multiple_of(self.page) && bytes / self.page >= 10 { bytes / self.page } else { 0 }
    }

    /// The heap is a whole number of pages and of the collector's regions; no card table maps less than 2 MiB.
    fn heap(&self, asked: u64, collector: Collector, flags: &Flags) -> u64 {
        let given = |name| flags.size(name).map(Bytes::get);
        // Of 2048 regions each is a power of two.
        let region = |least: u64, given: Option<u64>| {
            let wished = given.unwrap_or((asked / 2048).min(32 * MIB)).clamp(least, 512 * MIB);
            1_u64 << wished.ilog2()
        };
        let region = match collector {
            Collector::G1 => region(MIB, given("G1HeapRegionSize")),
            Collector::Shenandoah => region(self.page.min(512 * MIB), given("ShenandoahRegionSize")),
            _ => 1,
        };
        let step = region.max(self.page).max(2 * MIB);
        asked.checked_next_multiple_of(step).unwrap_or(u64::MAX - u64::MAX % step)
    }

    /// Whether code is compiled in two tiers. With the first alone, or the last alone, it has a cache for one.
    fn tiered(flags: &Flags) -> bool {
        let one_mode = matches!(flags.get(flags::MODE.0), Some("quick-only" | "high-only"));
        let stops = flags.get("TieredStopAtLevel").and_then(flags::size).is_some_and(|level| level.get() < 4);
        !one_mode && !stops && flags.get("TieredCompilation") != Some("false") && !flags.on(flags::INTERPRETED)
    }

    /// `ReservedCodeCacheSize`: 240 MiB where compilation is tiered. In three parts, the smallest of which is rounded up to
    /// its pages; below 8 pages (16 MiB) it is on base pages. Each part has a table of a byte for each 128 bytes, of which
    /// the whole pages are on huge ones.
    fn code(&self, flags: &Flags) -> u64 {
        if flags.on("UseSHM") {
            return 0;
        }
        let size = Self::code_size(flags);
        if size < self.page.saturating_mul(8) {
            return 0;
        }
        let in_parts = Self::in_parts(flags, size);
        // Rounding three parts instead of one takes a page more in 25, and in 17 where the whole has an odd rest.
        let pages = self.whole(size) + u64::from(in_parts && self.new);
        let table = |part: u64| part / 128 / self.page;
        pages + if in_parts { 2 * table(size.saturating_sub(FIRST_PART) / 2) } else { table(pages * self.page) }
    }

    fn code_size(flags: &Flags) -> u64 {
        let size = flags.size("ReservedCodeCacheSize").map(Bytes::get);
        size.unwrap_or(if Self::tiered(flags) { 240 * MIB } else { 48 * MIB })
    }

    fn in_parts(flags: &Flags, size: u64) -> bool {
        Self::tiered(flags) && size >= 240 * MIB && flags.get("SegmentedCodeCache") != Some("false")
    }

    /// Whether the code cache is so large that the exact size of its parts, which depends on the processors, counts.
    fn splits_unmeasured(&self, flags: &Flags) -> bool {
        let size = Self::code_size(flags);
        Self::in_parts(flags, size) && size > 512 * MIB
    }

    fn tables(&self, heap: u64, collector: Collector, flags: &Flags) -> u64 {
        // A byte, or a card, for each 512 bytes of heap; a bit for each place where an object may begin.
        let alignment = flags.size("ObjectAlignmentInBytes").map_or(8, Bytes::get).clamp(8, 256);
        let (cards, bits) = (heap / 512, heap / 8 / alignment);
        match (collector, self.new) {
            (Collector::G1, false) => 2 * self.table(bits) + 3 * self.table(cards),
            (Collector::G1, true) => self.table(bits) + 2 * self.table(cards),
            (Collector::Parallel, new) => {
                let bitmap = if new { bits } else { 2 * bits };
                let blocks = self.table_that_fits(cards);
                let regions = self.table_that_fits(heap / (512 << 10) * 40);
                self.table_that_fits(bitmap) + blocks + regions + self.starts(heap, flags)
            }
            (Collector::Serial, _) => self.starts(heap, flags),
            // Two bitmaps of two bits, and the regions themselves.
            (Collector::Shenandoah, _) => 2 * self.whole(2 * bits) + 1,
            (Collector::Z | Collector::Epsilon, _) => 0,
        }
    }

    /// Where objects start in the old generation, which is two thirds of the heap if nothing else is said: as many whole pages
    /// as fit, the rest on base pages.
    fn starts(&self, heap: u64, flags: &Flags) -> u64 {
        let given = |name| flags.size(name).map(Bytes::get);
        let share = heap / given("NewRatio").unwrap_or(2).saturating_add(1);
        let young = given("MaxNewSize").unwrap_or_else(|| share.max(given("NewSize").unwrap_or(0))).min(heap);
        (heap - young + young % self.page) / 512 / self.page
    }
}

#[cfg(test)]
mod tests;
