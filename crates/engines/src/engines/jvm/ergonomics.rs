//! What HotSpot chooses where its flags leave it open: its collector and the sizes of its heap
//! (OpenJDK 17 and 25: `GCConfig::select_gc_ergonomically`, `Arguments::set_heap_size`,
//! `Arguments::set_aggressive_heap_flags`).

use hugewise_model::{Bytes, Host};

use super::container::JvmVisibleMemory;
use super::demand::{parse_major_release, parse_release_and_update};
use super::flags::{self, Flags};
use super::hsperf::HeapCounters;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GarbageCollector {
    Epsilon,
    G1,
    Parallel,
    Serial,
    Shenandoah,
    Z,
}

impl GarbageCollector {
    pub(super) fn from_flags(flags: &Flags) -> Option<Self> {
        [
            ("UseG1GC", Self::G1),
            ("UseParallelGC", Self::Parallel),
            ("UseSerialGC", Self::Serial),
            ("UseShenandoahGC", Self::Shenandoah),
            ("UseZGC", Self::Z),
            ("UseEpsilonGC", Self::Epsilon),
            ("AggressiveHeap", Self::Parallel),
        ]
        .into_iter()
        .find_map(|(name, collector)| flags.is_on(name).then_some(collector))
    }

    /// The flag that names it.
    pub(super) const fn flag_name(self) -> &'static str {
        match self {
            Self::Epsilon => "UseEpsilonGC",
            Self::G1 => "UseG1GC",
            Self::Parallel => "UseParallelGC",
            Self::Serial => "UseSerialGC",
            Self::Shenandoah => "UseShenandoahGC",
            Self::Z => "UseZGC",
        }
    }
}

/// A machine: what it was told, what it sees, and what it says of itself while it runs.
pub(super) struct JvmParameters<'a> {
    pub(super) flags: &'a Flags,
    pub(super) version: Option<&'a str>,
    pub(super) memory: Option<Bytes>,
    pub(super) processors: Option<u64>,
    pub(super) counters: HeapCounters,
}

impl<'a> JvmParameters<'a> {
    pub(super) fn new(
        host: &Host,
        flags: &'a Flags,
        version: Option<&'a str>,
        memory: Option<&JvmVisibleMemory>,
        counters: HeapCounters,
    ) -> Self {
        let memory = memory.map(|memory| memory.size);
        Self { flags, version, memory, processors: host.processors.online.get(), counters }
    }

    pub(super) fn release(&self) -> Option<u32> {
        self.version.and_then(parse_major_release)
    }

    pub(super) fn version_numbers(&self) -> Option<(u32, u32)> {
        self.version.and_then(parse_release_and_update)
    }

    /// `os::active_processor_count`, or what it was told to count.
    pub(super) fn active_processors(&self) -> Option<u64> {
        let told = self.flags.size_value("ActiveProcessorCount").map(Bytes::get);
        told.or(self.processors)
    }

    pub(super) fn uses_zgc(&self) -> bool {
        self.choose_collector().0 == GarbageCollector::Z
    }

    /// The collector, and whether that is known rather than reckoned.
    pub(super) fn choose_collector(&self) -> (GarbageCollector, bool) {
        if let Some(collector) =
            GarbageCollector::from_flags(self.flags).or(self.counters.collector)
        {
            return (collector, true);
        }
        let processors = self.active_processors();
        // A little below 2 GiB still is a server's memory.
        let is_large = processors.is_none_or(|count| count >= 2)
            && self.memory.is_none_or(|memory| memory >= Bytes::from_mib(1792));
        let is_server = (is_large || self.flags.is_on("AlwaysActAsServerClassMachine"))
            && !self.flags.is_on("NeverActAsServerClassMachine");
        // The server's collector was Parallel before JEP 248.
        let collector = match self.release() {
            _ if !is_server => GarbageCollector::Serial,
            Some(..9) => GarbageCollector::Parallel,
            _ => GarbageCollector::G1,
        };
        (collector, processors.is_some() && self.memory.is_some())
    }

    /// The largest heap, and whether that is told rather than reckoned.
    pub(super) fn find_largest_heap(&self) -> Option<(Bytes, bool)> {
        let told = self.flags.size_value("MaxHeapSize").or(self.counters.largest_heap);
        match told {
            Some(heap) => Some((heap, true)),
            None => Some((self.largest_heap_by_memory()?, false)),
        }
    }

    /// The heap that it chooses by the memory that it sees, in a container less than the host's.
    pub(super) fn largest_heap_by_memory(&self) -> Option<Bytes> {
        /// The initial `MaxHeapSize`: 96 MiB, and three tenths more for larger words.
        const LEAST: u64 = (96 * MIB / 10 * 13) & !7;
        if self.flags.is_on("AggressiveHeap") {
            let memory = self.memory?;
            return Some(
                (memory.saturating_sub(Bytes::from_mib(160))).min(Bytes(memory.get() / 2)),
            );
        }
        let most = self.part_of_memory("MaxRAMPercentage", "MaxRAMFraction", 25_000_000)?;
        let little = self.part_of_memory("MinRAMPercentage", "MinRAMFraction", 50_000_000)?;
        let mut heap = if little < LEAST { little } else { most.max(LEAST) };
        if let Some(limit) = self.flags.size_value("ErgoHeapSizeLimit") {
            heap = heap.min(limit.get());
        }
        let least = ["InitialHeapSize", "MinHeapSize"]
            .into_iter()
            .find_map(|name| self.flags.size_value(name));
        heap = heap.max(least.unwrap_or_default().get());
        Some(Bytes(heap.min(self.end_of_compressed_heap())))
    }

    /// The heap that it begins with; the rest is taken as it grows, where it is not all taken at
    /// once.
    pub(super) fn initial_heap(&self, largest: Bytes) -> Option<Bytes> {
        /// What an old and a young generation begin with at least.
        const LEAST: Bytes = Bytes::from_mib(8);
        if let Some(told) = self.flags.size_value("InitialHeapSize") {
            return Some(told.min(largest));
        }
        if self.flags.is_on("AggressiveHeap") && self.flags.size_value("MaxHeapSize").is_none() {
            return Some(largest);
        }
        let part = self.part_of_memory("InitialRAMPercentage", "InitialRAMFraction", 1_562_500)?;
        let least = self.flags.size_value("MinHeapSize").unwrap_or_default().max(LEAST);
        Some(Bytes(part).max(least).min(largest))
    }

    /// Whether memory counts as it is: a wish for a part of it lifts the bounds that keep
    /// references compressed.
    fn wishes_for_part(&self) -> bool {
        let names = ["MaxRAM", "MaxRAMFraction", "MinRAMFraction", "InitialRAMFraction"];
        names.iter().chain(flags::PERCENTAGES).any(|name| self.flags.get(name).is_some())
    }

    /// `percentage` is in millionths of a percent where neither flag is set.
    fn part_of_memory(&self, percentage: &str, fraction: &str, default: u64) -> Option<u64> {
        /// `MaxRAM`.
        const MOST: Bytes = Bytes::from_gib(128);
        let memory = match self.flags.size_value("MaxRAM") {
            Some(told) => told,
            None if self.wishes_for_part() => self.memory?,
            None => self.memory?.min(MOST),
        };
        let told = self.flags.get(percentage).and_then(flags::parse_percentage);
        let divisor = self.flags.size_value(fraction).map(Bytes::get).filter(|_| told.is_none());
        let part = match divisor {
            Some(divisor) => u128::from(memory.get() / divisor.max(1)),
            None => u128::from(memory.get()) * u128::from(told.unwrap_or(default)) / 100_000_000,
        };
        Some(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// Where a heap that nobody asked for ends, so that its references can be compressed and need
    /// no base: it begins at 2 GiB (`HeapBaseMinAddress`), and its largest alignment is left free.
    fn end_of_compressed_heap(&self) -> u64 {
        let (collector, _) = self.choose_collector();
        let compresses = collector != GarbageCollector::Z
            && self.flags.get("UseCompressedOops") != Some("false");
        if !compresses || self.wishes_for_part() {
            return u64::MAX;
        }
        let alignment = self.flags.size_value("ObjectAlignmentInBytes").map_or(8, Bytes::get);
        let region = match collector {
            GarbageCollector::G1 | GarbageCollector::Shenandoah => 32 * MIB,
            _ => 2 * MIB,
        };
        (4 * GIB).saturating_mul(alignment).saturating_sub(region + 2 * GIB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(command: &str, version: &str, gib: u64, processors: u64) -> (String, u64, u64) {
        let flags = Flags::read(command.split_whitespace());
        let machine = JvmParameters {
            flags: &flags,
            version: Some(version),
            memory: Some(Bytes::from_gib(gib)),
            processors: Some(processors),
            counters: HeapCounters::default(),
        };
        let collector = machine.choose_collector().0.flag_name();
        let (largest, _) = machine.find_largest_heap().unwrap();
        let initial = machine.initial_heap(largest).unwrap();
        (collector.to_owned(), largest.get() >> 20, initial.get() >> 20)
    }

    /// `java FLAGS -XX:+PrintFlagsFinal -version` says UseG1GC and so on, MaxHeapSize and
    /// InitialHeapSize, before their alignment to 2 MiB; OpenJDK 17.0.15 and 25.0.3, and by the
    /// sources where a machine is larger than any at hand.
    #[test]
    fn the_machine_chooses_as_hotspot_does() {
        for (command, gib, processors, collector, largest, initial) in [
            ("", 8, 2, "UseG1GC", 2048, 128),
            ("", 8, 1, "UseSerialGC", 2048, 128),
            ("", 1, 4, "UseSerialGC", 256, 16),
            ("-XX:ActiveProcessorCount=1", 8, 4, "UseSerialGC", 2048, 128),
            ("-XX:ActiveProcessorCount=2", 8, 1, "UseG1GC", 2048, 128),
            ("-XX:+AlwaysActAsServerClassMachine", 8, 1, "UseG1GC", 2048, 128),
            ("-XX:+NeverActAsServerClassMachine", 8, 2, "UseSerialGC", 2048, 128),
            ("-XX:+UseZGC", 8, 1, "UseZGC", 2048, 128),
            ("-XX:+AggressiveHeap", 8, 2, "UseParallelGC", 4096, 4096),
            ("-XX:+AggressiveHeap -Xmx600m", 8, 2, "UseParallelGC", 600, 128),
            ("-XX:MaxRAMPercentage=75", 8, 2, "UseG1GC", 6144, 128),
            ("-XX:MaxRAM=4g", 8, 2, "UseG1GC", 1024, 64),
            ("-XX:MinHeapSize=1g -XX:MaxRAM=2g", 8, 2, "UseG1GC", 1024, 1024),
            ("-Xms3g", 8, 2, "UseG1GC", 3072, 3072),
            ("-XX:InitialRAMPercentage=20 -XX:+UseZGC", 8, 2, "UseZGC", 2048, 1638),
            // A quarter of 128 GiB at most, and below the end of compressed references.
            ("", 500, 8, "UseG1GC", 30688, 2048),
            ("-XX:+UseZGC", 500, 8, "UseZGC", 32768, 2048),
            ("-XX:MaxRAMPercentage=25", 500, 8, "UseG1GC", 128_000, 8000),
        ] {
            let seen = chosen(command, "17.0.15", gib, processors);
            let right = (collector.to_owned(), largest, initial);
            assert_eq!(seen, right, "{command} {gib} {processors}");
        }
        assert_eq!(chosen("", "1.8.0_402", 8, 2).0, "UseParallelGC");
    }

    #[test]
    fn what_a_running_machine_says_of_itself_counts_more() {
        let flags = Flags::default();
        let counters = HeapCounters {
            collector: Some(GarbageCollector::Serial),
            largest_heap: Some(Bytes::from_mib(700)),
        };
        let machine = JvmParameters {
            flags: &flags,
            version: Some("17.0.15"),
            memory: Some(Bytes::from_gib(8)),
            processors: Some(8),
            counters,
        };
        assert_eq!(machine.choose_collector(), (GarbageCollector::Serial, true));
        assert_eq!(machine.find_largest_heap(), Some((Bytes::from_mib(700), true)));
    }
}
