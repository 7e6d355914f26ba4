use proptest::prelude::*;

use super::super::hsperf::HeapCounters;
use super::*;

fn pages(command: &str, version: &str) -> (u64, u8) {
    let flags = Flags::read(command.split(' '));
    let machine = JvmParameters {
        flags: &flags,
        version: Some(version),
        memory: None,
        processors: None,
        counters: HeapCounters::default(),
    };
    let estimate = estimate_pages(&machine, PageSize::MIB_2, None).unwrap();
    (estimate.pages.get(), estimate.error_percent)
}

/// Pages of 2 MiB that the kernel had committed, of a pool with more: what Debian 12's OpenJDK
/// takes.
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

/// The same of Debian 12's OpenJDK 17.0.21, which takes what 17.0.15 takes.
#[test]
fn what_the_compilers_are_told_decides_on_the_code_cache() {
    for (command, committed) in [
        ("-XX:+UseG1GC -Xmx1g -Xint", 555),
        ("-XX:+UseG1GC -Xmx1g -XX:TieredStopAtLevel=0", 555),
        ("-XX:+UseG1GC -Xmx1g -XX:TieredStopAtLevel=1", 555),
        ("-XX:+UseG1GC -Xmx1g -XX:TieredStopAtLevel=3", 555),
        ("-XX:+UseG1GC -Xmx1g -XX:TieredStopAtLevel=4", 651),
        ("-XX:+UseG1GC -Xmx1g -XX:CompilationMode=quick-only", 555),
        ("-XX:+UseG1GC -Xmx1g -XX:CompilationMode=high-only", 555),
        ("-XX:+UseG1GC -Xmx1g -XX:CompilationMode=high-only-quick-internal", 651),
        ("-XX:+UseG1GC -Xmx1g -XX:CompilationMode=default", 651),
        ("-XX:+UseG1GC -Xmx1g -XX:-SegmentedCodeCache", 651),
        ("-XX:+UseG1GC -Xmx1g -XX:+SegmentedCodeCache -XX:ReservedCodeCacheSize=100m", 581),
        ("-XX:+UseG1GC -Xmx1g -XX:-TieredCompilation -XX:ReservedCodeCacheSize=300m", 682),
        ("-XX:+UseG1GC -Xmx1g -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=300m", 682),
        ("-XX:+UseG1GC -Xmx1g -Xint -XX:ReservedCodeCacheSize=300m", 682),
        ("-XX:+UseG1GC -Xmx1g -XX:ReservedCodeCacheSize=333m", 698),
        ("-XX:+UseSerialGC -Xmx256m -XX:ReservedCodeCacheSize=512m", 384),
        ("-XX:+UseSerialGC -Xmx256m -XX:ReservedCodeCacheSize=512m -XX:-SegmentedCodeCache", 386),
        ("-XX:+UseSerialGC -Xmx256m -XX:ReservedCodeCacheSize=600m -XX:-SegmentedCodeCache", 430),
        ("-XX:+UseSerialGC -Xmx256m -XX:ReservedCodeCacheSize=1g -Xint", 644),
        ("-XX:+UseSerialGC -Xmx256m -XX:ReservedCodeCacheSize=255m -Xint", 257),
        ("-XX:+UseSerialGC -Xmx256m -XX:ReservedCodeCacheSize=256m -Xint", 257),
        ("-XX:+UseSerialGC -Xmx256m -XX:ReservedCodeCacheSize=15m -Xint", 128),
        ("-XX:+UseSerialGC -Xmx256m -XX:ReservedCodeCacheSize=300m", 278),
        ("-XX:+UseSerialGC -Xmx256m -XX:+SegmentedCodeCache -Xint", 152),
        ("-XX:+UseSerialGC -Xmx256m -XX:ReservedCodeCacheSize=241m", 249),
        ("-XX:+UseG1GC -Xmx1g -XX:+UseSHM", 531),
        ("-XX:+UseSerialGC -Xmx2g -XX:+UseSHM", 1024),
        ("-XX:+UseSerialGC -Xmx1534m -XX:+UseSHM", 768),
        ("-XX:+UseParallelGC -Xmx3100m -XX:+UseSHM", 1550),
        ("-XX:+UseSerialGC -Xmx301m -XX:+UseSHM -XX:LargePageSizeInBytes=1g", 512),
        ("-XX:+UseZGC -Xms1g -Xmx1g -Xint", 536),
        ("-XX:+UseShenandoahGC -Xmx1g -XX:TieredStopAtLevel=1", 569),
        ("-XX:+UseParallelGC -Xmx1g -Xint", 552),
        ("-XX:+UseEpsilonGC -Xmx1g -Xint", 536),
    ] {
        assert_eq!(pages(command, "17.0.21.1"), (committed, 0), "{command}");
    }
    for (command, committed) in [
        ("-XX:+UseSerialGC -Xmx256m -XX:ReservedCodeCacheSize=600m", 430),
        ("-XX:+UseSerialGC -Xmx256m -XX:ReservedCodeCacheSize=1g", 642),
        ("-XX:+UseSerialGC -Xmx256m -XX:ReservedCodeCacheSize=2g", 1158),
    ] {
        assert_eq!(pages(command, "17.0.21.1"), (committed, 0), "{command}");
    }
}

#[test]
fn tables_follow_the_alignment_of_objects_and_the_generations() {
    for (command, committed) in [
        ("-XX:+UseEpsilonGC -Xmx1g", 632),
        ("-XX:+UseEpsilonGC -Xms100m -Xmx333m", 287),
        ("-XX:+UseEpsilonGC -Xmx1025m", 633),
        ("-XX:+UseG1GC -Xmx1g -XX:ObjectAlignmentInBytes=16", 643),
        ("-XX:+UseG1GC -Xmx1g -XX:ObjectAlignmentInBytes=32", 639),
        ("-XX:+UseParallelGC -Xmx1g -XX:ObjectAlignmentInBytes=16", 632),
        ("-XX:+UseParallelGC -Xmx3g -XX:ObjectAlignmentInBytes=16", 1682),
        ("-XX:+UseParallelGC -Xmx4g -XX:ObjectAlignmentInBytes=32", 2186),
        ("-XX:+UseSerialGC -Xmx1g -XX:ObjectAlignmentInBytes=16", 632),
        ("-XX:+UseShenandoahGC -Xmx1g -XX:ObjectAlignmentInBytes=16", 649),
        ("-XX:+UseShenandoahGC -Xmx1g -XX:ObjectAlignmentInBytes=32", 641),
        ("-XX:+UseZGC -Xms1g -Xmx1g -XX:ObjectAlignmentInBytes=16", 632),
        ("-XX:+UseZGC -Xms200m -Xmx1g", 632),
        ("-XX:+UseParallelGC -Xmx1g -Xmn200m", 648),
        ("-XX:+UseParallelGC -Xmx3g -Xmn200m", 1706),
        ("-XX:+UseSerialGC -Xmx3g -Xmn200m", 1658),
        ("-XX:+UseSerialGC -Xmx3g -XX:NewRatio=5", 1658),
        ("-XX:+UseSerialGC -Xmx3g -XX:NewSize=100m", 1658),
        ("-XX:+UseSerialGC -Xmx3g -XX:NewSize=2g", 1657),
        ("-XX:+UseG1GC -Xmx1g -Xmn300m", 651),
    ] {
        assert_eq!(pages(command, "17.0.21.1"), (committed, 0), "{command}");
    }
}

/// OpenJDK 17.0.21 on a host of 24,684,092 kB.
#[test]
fn a_heap_that_is_a_part_of_the_memory_is_that_part() {
    for (command, committed) in [
        ("-XX:+UseG1GC -XX:MaxRAMPercentage=4", 619),
        ("-XX:MaxRAMPercentage=4", 619),
        ("-XX:+UseParallelGC -XX:MaxRAMPercentage=2.5", 422),
        ("-XX:+UseG1GC -XX:MaxRAM=2g", 384),
        ("-XX:+UseG1GC -XX:MaxRAM=2g -XX:MaxRAMPercentage=50", 651),
        ("-XX:+UseG1GC -XX:MaxRAM=200m", 170),
        ("-XX:+UseG1GC -XX:MaxRAMFraction=20", 749),
        ("-XX:+UseG1GC -XX:MaxRAM=2g -XX:MaxRAMPercentage=2", 183),
        ("-XX:+UseG1GC -XX:MaxRAM=2g -XX:MaxRAMPercentage=2 -XX:MinRAMPercentage=10", 183),
        ("-XX:+UseG1GC -XX:MaxRAM=300m -XX:MinRAMPercentage=80", 183),
        ("-XX:+UseG1GC -Xmx1g -XX:MaxRAMPercentage=4", 651),
        ("-XX:+UseG1GC -XX:MaxRAM=2g -Xms700m", 482),
        ("-XX:+UseG1GC -XX:MaxRAM=2g -Xms200m", 384),
    ] {
        let flags = Flags::read(command.split(' '));
        let memory = Some(Bytes::from_kib(24_684_092));
        let machine = JvmParameters {
            flags: &flags,
            version: Some("17.0.21"),
            memory,
            processors: Some(2),
            counters: HeapCounters::default(),
        };
        let estimate = estimate_pages(&machine, PageSize::MIB_2, None).unwrap();
        assert_eq!(estimate.pages.get(), committed, "{command}");
        let error = if command.contains("-Xmx") { 0 } else { GUESSED_ERROR };
        assert_eq!(estimate.error_percent, error, "{command}");
    }
}

/// With pages of 1 GiB code cache and tables are on those of 2 MiB: what OpenJDK 17.0.21 took of
/// these.
#[test]
fn what_does_not_fill_a_large_page_is_on_smaller_ones() {
    for (command, gib, mib_2) in [
        ("-XX:+UseG1GC -Xmx1g", 1, 139),
        ("-XX:+UseG1GC -Xmx1500m", 2, 158),
        ("-XX:+UseG1GC -Xmx800m", 1, 139),
        ("-XX:+UseG1GC -Xmx3g", 3, 177),
        ("-XX:+UseParallelGC -Xmx1g", 1, 136),
        ("-XX:+UseParallelGC -Xmx1500m", 2, 153),
        ("-XX:+UseSerialGC -Xmx800m", 1, 120),
        ("-XX:+UseSerialGC -Xmx1500m", 2, 121),
        ("-XX:+UseSerialGC -Xmx3g", 3, 122),
        ("-XX:+UseEpsilonGC -Xmx1500m", 2, 120),
    ] {
        let flags = Flags::read(command.split(' '));
        let machine = JvmParameters {
            flags: &flags,
            version: Some("17.0.21"),
            memory: None,
            processors: None,
            counters: HeapCounters::default(),
        };
        let estimate = estimate_pages(&machine, PageSize::GIB_1, None).unwrap();
        assert_eq!((estimate.pages.get(), estimate.smaller.get()), (gib, mib_2), "{command}");
    }
    let flags = Flags::read("-XX:+UseZGC -Xmx1g".split(' '));
    let machine = JvmParameters {
        flags: &flags,
        version: None,
        memory: None,
        processors: None,
        counters: HeapCounters::default(),
    };
    assert_eq!(estimate_pages(&machine, PageSize::GIB_1, None), None);
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

/// What Temurin's 17.0.9, 21.0.8, 25.0.2 and 25.0.3 asked for, counted at their calls of mmap and shmget.
#[test]
fn updates_and_releases_differ() {
    const VERSIONS: [&str; 4] = ["17.0.9", "21.0.8", "25.0.2", "25.0.3"];
    for (command, committed) in [
        ("-XX:+UseG1GC -Xmx64m", [152, 152, 152, 153]),
        ("-XX:+UseG1GC -Xmx300m", [276, 273, 273, 274]),
        ("-XX:+UseG1GC -Xmx1025m", [657, 646, 646, 647]),
        ("-XX:+UseG1GC -Xmx4500m", [2457, 2416, 2416, 2417]),
        ("-XX:+UseParallelGC -Xmx2g", [1177, 1177, 1161, 1162]),
        ("-XX:+UseShenandoahGC -Xmx333m", [300, 300, 300, 301]),
        ("-XX:+UseG1GC -Xmx256m -XX:ReservedCodeCacheSize=100m", [182, 180, 180, 180]),
        ("-XX:+UseG1GC -Xmx256m -XX:ReservedCodeCacheSize=333m", [132, 297, 297, 297]),
        ("-XX:+UseG1GC -Xmx256m -XX:ReservedCodeCacheSize=241m", [132, 251, 251, 251]),
        ("-XX:+UseG1GC -Xmx256m -XX:ReservedCodeCacheSize=512m", [388, 386, 387, 386]),
        ("-XX:+UseG1GC -Xmx256m -XX:ReservedCodeCacheSize=1g", [646, 644, 645, 644]),
        ("-XX:+UseG1GC -Xmx256m -XX:CICompilerCount=8", [252, 250, 250, 252]),
        ("-XX:+UseG1GC -Xmx256m -XX:ActiveProcessorCount=32", [252, 250, 250, 252]),
        ("-XX:+UseG1GC -Xmx256m -XX:ActiveProcessorCount=64", [252, 250, 250, 251]),
        ("-XX:+UseG1GC -Xmx256m -Xint", [156, 154, 154, 154]),
        ("-XX:+UseShenandoahGC -Xmx1025m -XX:ShenandoahTargetNumRegions=100", [671, 671, 671, 672]),
        ("-XX:+UseShenandoahGC -Xmx1025m -XX:ShenandoahRegionSize=32m", [683, 683, 683, 684]),
    ] {
        let seen = VERSIONS.map(|version| pages(command, version));
        assert_eq!(seen, committed.map(|pages| (pages, 0)), "{command}");
    }
    for (command, committed) in [
        ("-XX:+UseG1GC -Xmx256m -XX:GCCardSizeInBytes=128", 252),
        ("-XX:+UseParallelGC -Xmx1534m -XX:GCCardSizeInBytes=1024", 912),
        ("-XX:+UseSerialGC -Xmx1534m -XX:GCCardSizeInBytes=1024", 888),
    ] {
        assert_eq!(pages(command, "21.0.8"), (committed, 0), "{command}");
    }
    let small = "-XX:+UseG1GC -Xmx256m -XX:ReservedCodeCacheSize=15m";
    for (first, committed) in [("", [130, 130]), (" -XX:InitialCodeCacheSize=15m", [130, 138])] {
        let command = format!("{small}{first}");
        let seen = ["21.0.8", "25.0.2"].map(|version| pages(&command, version).0);
        assert_eq!(seen, committed, "{command}");
    }
}

/// Where the heap is in a file, huge pages are for code and tables: of OpenJDK 17.0.15.
#[test]
fn a_heap_in_a_file_takes_none() {
    let command = "-XX:+UseG1GC -Xmx300m -XX:AllocateHeapAt=/tmp";
    assert_eq!(pages(command, "17.0.15"), (126, 0));
}

#[test]
fn what_was_not_measured_has_an_error() {
    assert_eq!(pages("-XX:+UseG1GC -Xmx1g", "19.0.2").1, OTHER_RELEASE_ERROR);
    assert_eq!(pages("-XX:+UseG1GC -Xmx64g", "17.0.15").1, LARGE_HEAP_ERROR);
    assert_eq!(pages("-Xmx1g", "17.0.15").1, GUESSED_ERROR);
    let flags = Flags::default();
    let machine = JvmParameters {
        flags: &flags,
        version: None,
        memory: None,
        processors: None,
        counters: HeapCounters::default(),
    };
    let count_of = |machine: &JvmParameters<'_>| {
        let estimate = estimate_pages(machine, PageSize::MIB_2, None)?;
        Some((estimate.pages.get(), estimate.error_percent))
    };
    assert_eq!(count_of(&machine), None);
    let machine =
        JvmParameters { memory: Some(Bytes::from_gib(4)), processors: Some(2), ..machine };
    assert_eq!(count_of(&machine), Some((651, GUESSED_ERROR)));
    assert_eq!(
        (parse_major_release("1.8.0_402"), parse_major_release("17"), parse_major_release("x")),
        (Some(8), Some(17), None)
    );
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
            "-Xmx{heap} -XX:+Use{collector}GC -XX:G1HeapRegionSize={region} \
             -XX:ShenandoahRegionSize={region} -XX:ReservedCodeCacheSize={code} -Xmn{young}"
        );
        let flags = Flags::read(command.split(' '));
        let machine = JvmParameters { flags: &flags, version: None, memory: Some(Bytes(heap)), processors: None, counters: HeapCounters::default() };
        let _ = estimate_pages(&machine, PageSize::new(1 << page).unwrap(), None);
    }
}
