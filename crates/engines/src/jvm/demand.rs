//! What a HotSpot machine takes from a pool of huge pages: heap, code cache, and the collector's tables that are large enough.
//!
//! With `UseLargePages` on Linux a heap is taken whole at the start, whatever `-Xms` says; ZGC alone takes `-Xms` first and the
//! rest as it grows. Metaspace, the class space and thread stacks are never on huge pages. Every number here is what the
//! kernel had committed for OpenJDK 17.0.15 and 25.0.3, with heaps of 70 MiB to 4.5 GiB under each collector.

use hugewise_model::{Bytes, PageCount, PageSize};

use super::flags::Flags;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// From here on a heap is larger than any that was measured, and Parallel's further tables are large enough to count.
const LARGEST_PROVEN: u64 = 10 * GIB;

/// Largest error in percent against a release that was measured, with a heap beyond those that were.
const LARGE_HEAP_ERROR: u8 = 1;

/// Largest error in percent against another release, by the difference between the two that were measured (up to 4 %).
const OTHER_RELEASE_ERROR: u8 = 5;

/// A heap that the machine chooses itself by the host's memory, or a collector by its processors.
const GUESSED_ERROR: u8 = 10;

/// Which collector there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collector {
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
    /// Memory of the host, of which a quarter is the heap that nothing else is said of.
    pub(super) memory: Option<Bytes>,
    /// Its processors: a machine of one, or of less than 1792 MiB, takes the Serial collector.
    pub(super) processors: Option<u64>,
}

/// Pages that a machine takes, and the error of that in percent.
pub(super) fn estimate(machine: &Machine<'_>, page: PageSize) -> Option<(PageCount, u8)> {
    let flags = machine.flags;
    let release = machine.version.and_then(release);
    let (asked, said) = match (flags.size("MaxHeapSize"), machine.memory) {
        (Some(heap), _) => (heap, true),
        (None, Some(memory)) => (Bytes(memory.get() / 4), false),
        (None, None) => return None,
    };
    let server = machine.processors.is_none_or(|count| count >= 2)
        && machine.memory.is_none_or(|memory| memory >= Bytes::from_mib(1792));
    let by_default = if server { Collector::G1 } else { Collector::Serial };
    let collector = Collector::chosen(flags).unwrap_or(by_default);
    let sure = Collector::chosen(flags).is_some() || (machine.processors.is_some() && machine.memory.is_some());

    let layout = Layout { page: page.bytes().get(), new: release.is_some_and(|release| release >= 25) };
    let heap = layout.heap(asked.get(), collector, flags);
    let pages =
        layout.whole(heap).saturating_add(layout.code(flags)).saturating_add(layout.tables(heap, collector, flags));
    let measured = matches!(release, Some(17 | 25)) && page == PageSize::MIB_2;
    let error = match (measured && is_plain(flags), said && sure) {
        (_, false) => GUESSED_ERROR,
        (false, true) => OTHER_RELEASE_ERROR,
        (true, true) if heap >= LARGEST_PROVEN => LARGE_HEAP_ERROR,
        (true, true) => 0,
    };
    Some((PageCount(pages), error))
}

/// Whether nothing is said that the machines which were measured were not told.
fn is_plain(flags: &Flags) -> bool {
    const UNTOLD: [&str; 6] =
        ["SegmentedCodeCache", "ShenandoahRegionSize", "NewSize", "MaxNewSize", "NewRatio", "UseSHM"];
    UNTOLD.iter().all(|name| flags.get(name).is_none())
}

/// `17` of `17.0.15`, `8` of `1.8.0_402`.
fn release(version: &str) -> Option<u32> {
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

    /// `ReservedCodeCacheSize`: 240 MiB where compilation is tiered. In three parts, the smallest of which is rounded up to
    /// its pages; below 8 pages (16 MiB) it is on base pages.
    fn code(&self, flags: &Flags) -> u64 {
        let tiered = flags.get("TieredCompilation") != Some("false");
        let size = flags.size("ReservedCodeCacheSize").map(Bytes::get);
        let size = size.unwrap_or(if tiered { 240 * MIB } else { 48 * MIB });
        if size < self.page.saturating_mul(8) {
            return 0;
        }
        let in_parts = tiered && size >= 240 * MIB;
        // Rounding three parts instead of one takes a page more in 25, and in 17 where the whole has an odd rest.
        self.whole(size) + u64::from(in_parts && self.new)
    }

    fn tables(&self, heap: u64, collector: Collector, flags: &Flags) -> u64 {
        // A byte, or a card, for each 512 bytes of heap; a bit for each 8.
        let (cards, bits) = (heap / 512, heap / 64);
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
            (Collector::Z, _) => 0,
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pages(command: &str, version: &str) -> (u64, u8) {
        let flags = Flags::read(command.split(' '));
        let machine = Machine { flags: &flags, version: Some(version), memory: None, processors: None };
        let (pages, error) = estimate(&machine, PageSize::MIB_2).unwrap();
        (pages.get(), error)
    }

    /// Pages of 2 MiB that the kernel had committed, of a pool with more: what Debian 12's OpenJDK takes.
    #[test]
    fn openjdk_17_0_15_takes_these() {
        for (command, committed) in [
            ("-XX:+UseG1GC -Xmx1g", 651),
            ("-XX:+UseG1GC -Xms1g -Xmx1g", 651),
            ("-XX:+UseG1GC -Xmx333m", 293),
            ("-XX:+UseG1GC -Xmx512m", 384),
            ("-XX:+UseG1GC -Xmx1023m", 651),
            ("-XX:+UseG1GC -Xmx1025m", 657),
            ("-XX:+UseG1GC -Xmx4g", 2244),
            ("-XX:+UseG1GC -Xmx4500m", 2457),
            ("-XX:+UseG1GC -Xmx500m -XX:G1HeapRegionSize=32m", 384),
            ("-XX:+UseG1GC -Xmx256m -XX:ReservedCodeCacheSize=100m", 182),
            ("-XX:+UseG1GC -Xmx256m -XX:ReservedCodeCacheSize=17m", 141),
            ("-XX:+UseG1GC -Xmx256m -XX:ReservedCodeCacheSize=15m", 132),
            ("-XX:+UseG1GC -Xmx256m -XX:-TieredCompilation", 156),
            ("-XX:+UseParallelGC -Xmx512m", 376),
            ("-XX:+UseParallelGC -Xmx640m", 450),
            ("-XX:+UseParallelGC -Xmx641m", 441),
            ("-XX:+UseParallelGC -Xmx700m", 470),
            ("-XX:+UseParallelGC -Xmx1g", 648),
            ("-XX:+UseParallelGC -Xmx1088m", 681),
            ("-XX:+UseParallelGC -Xmx1111m", 676),
            ("-XX:+UseParallelGC -Xmx2g", 1177),
            ("-XX:+UseParallelGC -Xmx3g", 1706),
            ("-XX:+UseParallelGC -Xmx4g", 2234),
            ("-XX:+UseSerialGC -Xmx333m", 287),
            ("-XX:+UseSerialGC -Xmx1g", 632),
            ("-XX:+UseSerialGC -Xmx1534m", 888),
            ("-XX:+UseSerialGC -Xmx4001m", 2123),
            ("-XX:+UseShenandoahGC -Xmx70m", 160),
            ("-XX:+UseShenandoahGC -Xmx333m", 300),
            ("-XX:+UseShenandoahGC -Xmx1g", 665),
            ("-XX:+UseShenandoahGC -Xmx2g", 1209),
            ("-XX:+UseShenandoahGC -Xmx4500m", 2513),
            ("-XX:+UseZGC -Xms333m -Xmx333m", 287),
            ("-XX:+UseZGC -Xms1g -Xmx1g", 632),
            ("-XX:+UseZGC -Xmx2g", 1144),
        ] {
            assert_eq!(pages(command, "17.0.15"), (committed, 0), "{command}");
        }
        // Three parts of 333 MiB, each rounded by itself.
        assert_eq!(pages("-Xmx256m -XX:+UseG1GC -XX:ReservedCodeCacheSize=333m", "17.0.15").0, 299);
    }

    /// The same of Temurin's 25.0.3.
    #[test]
    fn openjdk_25_0_3_takes_these() {
        for (command, committed) in [
            ("-XX:+UseG1GC -Xmx512m", 381),
            ("-XX:+UseG1GC -Xmx1g", 643),
            ("-XX:+UseG1GC -Xmx1025m", 647),
            ("-XX:+UseG1GC -Xmx4500m", 2417),
            ("-XX:+UseParallelGC -Xmx641m", 442),
            ("-XX:+UseParallelGC -Xmx1g", 633),
            ("-XX:+UseParallelGC -Xmx1300m", 771),
            ("-XX:+UseParallelGC -Xmx4g", 2203),
            ("-XX:+UseSerialGC -Xmx512m", 377),
            ("-XX:+UseSerialGC -Xmx1534m", 889),
            ("-XX:+UseParallelGC -Xmx1534m", 889),
            ("-XX:+UseSerialGC -Xmx4001m", 2124),
            ("-XX:+UseShenandoahGC -Xmx1g", 666),
            ("-XX:+UseShenandoahGC -Xmx4500m", 2514),
            ("-XX:+UseZGC -Xms1g -Xmx1g", 633),
        ] {
            assert_eq!(pages(command, "25.0.3"), (committed, 0), "{command}");
        }
    }

    #[test]
    fn what_was_not_measured_has_an_error() {
        assert_eq!(pages("-XX:+UseG1GC -Xmx1g", "21.0.2").1, OTHER_RELEASE_ERROR);
        assert_eq!(pages("-XX:+UseG1GC -Xmx64g", "17.0.15").1, LARGE_HEAP_ERROR);
        assert_eq!(pages("-Xmx1g", "17.0.15").1, GUESSED_ERROR);
        let flags = Flags::default();
        let machine = Machine { flags: &flags, version: None, memory: None, processors: None };
        assert_eq!(estimate(&machine, PageSize::MIB_2), None);
        let machine = Machine { memory: Some(Bytes::from_gib(4)), processors: Some(2), ..machine };
        assert_eq!(estimate(&machine, PageSize::MIB_2), Some((PageCount(651), GUESSED_ERROR)));
        assert_eq!((release("1.8.0_402"), release("17"), release("x")), (Some(8), Some(17), None));
    }

    proptest! {
        #[test]
        fn more_heap_never_needs_fewer_pages(
            collector in prop::sample::select(vec!["G1", "Serial", "Shenandoah", "Z"]),
            mib in 8_u64..1 << 18,
            more in 0_u64..1 << 12,
            version in prop::sample::select(vec!["17.0.15", "25.0.3"]),
        ) {
            let pages = |mib| pages(&format!("-XX:+Use{collector}GC -Xmx{mib}m"), version).0;
            prop_assert!(pages(mib) <= pages(mib + more));
        }

        #[test]
        fn no_number_brings_it_down(heap: u64, region: u64, code: u64, young: u64, page in 12_u32..40, collector in 0_usize..5) {
            let collector = ["G1", "Serial", "Shenandoah", "Z", "Parallel"][collector];
            let command = format!(
                "-Xmx{heap} -XX:+Use{collector}GC -XX:G1HeapRegionSize={region} -XX:ShenandoahRegionSize={region} \
                 -XX:ReservedCodeCacheSize={code} -Xmn{young}"
            );
            let flags = Flags::read(command.split(' '));
            let machine = Machine { flags: &flags, version: None, memory: Some(Bytes(heap)), processors: None };
            let _ = estimate(&machine, PageSize::new(1 << page).unwrap());
        }
    }
}
