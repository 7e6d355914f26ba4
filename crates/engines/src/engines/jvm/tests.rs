use hugewise_host::source::map::MapSource;
use hugewise_model::{DemandSource, PageCount, Reason, Trait};

use super::*;
use crate::testing;

fn mapping(start: u64, mib: u64, name: &str, page: PageSize) -> Mapping {
    Mapping {
        start,
        end: start + (mib << 20),
        shared: false,
        accessible: true,
        offset: 0,
        device: 0,
        inode: 0,
        name: name.into(),
        page_size: Observed::Known(page),
    }
}

fn java(pid: u32, command: &str, mappings: Vec<Mapping>) -> Process {
    Process {
        pid,
        uid: 1000,
        name: "java".into(),
        command: Observed::Known(command.split(' ').map(str::to_owned).collect()),
        executable: Observed::Known("/usr/lib/jvm/java-17-openjdk-amd64/bin/java".into()),
        mappings: Observed::Known(mappings),
        ..Process::default()
    }
}

fn found(processes: Vec<Process>, source: &MapSource) -> FoundInstances {
    let host = Host {
        base_page: Observed::Known(PageSize::KIB_4),
        default_huge_page: Observed::Known(PageSize::MIB_2),
        processes: testing::known(processes),
        ..Host::default()
    };
    let mut found = FoundInstances::default();
    find_jvm_instances(&EngineContext::new(&host, source), &mut found);
    found
}

fn only(process: Process, source: &MapSource) -> Instance {
    let mut instances = found(vec![process], source).instances;
    assert_eq!(instances.len(), 1);
    instances.remove(0)
}

const HUGE: &str = "/anon_hugepage (deleted)";

/// Mappings as OpenJDK 17 makes them with G1, a heap of 512 MiB and enough huge pages.
fn on_huge_pages() -> Vec<Mapping> {
    let reserved =
        Mapping { accessible: false, ..mapping(0x7fde_0000_0000, 1024, "", PageSize::KIB_4) };
    vec![
        mapping(0xe000_0000, 512, HUGE, PageSize::MIB_2),
        reserved,
        mapping(0x7fdf_3a00_0000, 32, "", PageSize::KIB_4),
        mapping(0x7fdf_4920_0000, 240, HUGE, PageSize::MIB_2),
        mapping(0x7fdf_64a0_0000, 8, HUGE, PageSize::MIB_2),
        mapping(0x7fdf_6540_0000, 8, HUGE, PageSize::MIB_2),
    ]
}

/// HotSpot 7 reserves heap and permanent generation as one: with -Xms = -Xmx they are one mapping.
#[test]
fn the_heap_of_java_7_goes_on_in_its_permanent_generation() {
    let size_of = |java: &str, version: &str| {
        let command = "java -server -Xmx1g -Xms1g -XX:PermSize=128m -cp . com.example.Main";
        let mappings = vec![
            mapping(0xb000_0000, 1152, "", PageSize::KIB_4),
            mapping(0x7fdf_3a00_0000, 24, "", PageSize::KIB_4),
        ];
        let mut process = self::java(7, command, mappings);
        process.executable = Observed::Known(format!("{java}/bin/java"));
        let release = format!("JAVA_VERSION=\"{version}\"\n");
        let source = MapSource::new().with_file(&format!("{java}/release"), release);
        only(process, &source).segment_bytes()
    };
    assert_eq!(size_of("/usr/java/jdk1.7.0_80", "1.7.0"), Bytes::from_mib(1152));
    assert_eq!(size_of("/opt/jdk-17", "17.0.9"), Bytes::from_mib(24));
}

#[test]
fn a_heap_on_huge_pages_is_all() {
    let command =
        "java -XX:+UseG1GC -XX:+UseLargePages -Xms512m -Xmx512m -cp . shop.Main --key=s3cret";
    let instance = only(java(7, command, on_huge_pages()), &MapSource::new());
    assert_eq!(
        (instance.name.as_str(), instance.asked, instance.huge_pages),
        ("shop.Main", HugePageMode::Try, HugePageUse::All)
    );
    assert_eq!(instance.segments[0].size, Bytes::from_mib(512));
    // The machine itself takes 384 pages from the pool.
    let demand = instance.demand.unwrap();
    assert_eq!((demand.pages, demand.source), (PageCount(384), DemandSource::Measured));
    assert_eq!(instance.session_model, SessionModel::Threads);
}

#[test]
fn a_code_cache_larger_than_the_heap_is_not_the_heap() {
    let mut mappings = on_huge_pages();
    mappings[0] = mapping(0xf000_0000, 128, "", PageSize::KIB_4);
    let instance =
        only(java(7, "java -XX:+UseLargePages -Xmx128m Main", mappings), &MapSource::new());
    assert_eq!(
        (instance.segments[1].size, instance.segments[1].huge.clone()),
        (Bytes::from_mib(256), Observed::Known(true))
    );
    assert_eq!(
        (instance.segments[0].name.as_str(), instance.segments[0].size),
        ("heap", Bytes::from_mib(128))
    );
    assert_eq!(instance.huge_pages, HugePageUse::Partly);
}

#[test]
fn memory_beside_the_code_cache_does_not_make_a_heap_of_it() {
    let mut mappings = on_huge_pages();
    mappings[0] = mapping(0xf000_0000, 256, HUGE, PageSize::MIB_2);
    mappings.insert(4, mapping(0x7fdf_5820_0000, 16, "", PageSize::KIB_4));
    let instance =
        only(java(7, "java -XX:+UseLargePages -Xmx256m Main", mappings), &MapSource::new());
    assert_eq!(
        (instance.segments[0].name.as_str(), instance.segments[0].size),
        ("heap", Bytes::from_mib(256))
    );
    assert_eq!(instance.huge_pages, HugePageUse::All);
}

#[test]
fn zgc_maps_its_heap_thrice_and_has_it_once() {
    let view = |start| Mapping {
        shared: true,
        device: 17,
        inode: 27342,
        ..mapping(start, 512, "/memfd:java_heap.hugetlb (deleted)", PageSize::MIB_2)
    };
    let mut mappings = vec![view(4 << 40), view(8 << 40), view(16 << 40)];
    mappings.push(mapping(0x7fdf_4920_0000, 240, HUGE, PageSize::MIB_2));
    let instance = only(
        java(7, "java -XX:+UseZGC -XX:+UseLargePages -Xmx512m Main", mappings),
        &MapSource::new(),
    );
    assert_eq!((instance.asked, instance.huge_pages), (HugePageMode::Must, HugePageUse::All));
    assert_eq!(instance.demand.map(|demand| demand.pages), Some(PageCount(256 + 120)));
}

#[test]
fn a_heap_that_is_still_to_grow_needs_what_it_may_become() {
    let view = |start| Mapping {
        shared: true,
        device: 17,
        inode: 27342,
        ..mapping(start, 200, "/memfd:java_heap.hugetlb (deleted)", PageSize::MIB_2)
    };
    let mut mappings = vec![view(4 << 40), view(8 << 40), view(16 << 40)];
    mappings.push(mapping(0x7fdf_4920_0000, 240, HUGE, PageSize::MIB_2));
    let command = "java -XX:+UseZGC -XX:+UseLargePages -Xms200m -Xmx1g Main";
    let instance = only(java(7, command, mappings), &MapSource::new());
    assert_eq!(
        (instance.segments[0].size, instance.huge_pages),
        (Bytes::from_mib(200), HugePageUse::All)
    );
    assert_eq!(instance.demand.map(|demand| demand.pages), Some(PageCount(512 + 120)));
}

/// Of 512 pages for 1 GiB and 120 beside them it begins with 100 for 200 MiB and those 120.
#[test]
fn zgc_begins_with_its_first_heap_and_all_else() {
    let begins = |command: &str| {
        let instance = only(java(7, command, vec![]), &MapSource::new());
        (super::KIND.start.begins_with)(&instance, PageSize::MIB_2, PageCount(632))
    };
    assert_eq!(
        begins("java -XX:+UseZGC -XX:+UseLargePages -Xms200m -Xmx1g Main"),
        Some(PageCount(220))
    );
    assert_eq!(begins("java -XX:+UseZGC -XX:+UseLargePages -Xmx1g Main"), None);
    // The others take all at once.
    assert_eq!(
        begins("java -XX:+UseG1GC -XX:+UseLargePages -Xms200m -Xmx1g Main"),
        Some(PageCount(632))
    );
}

/// OpenJDK 17 in pools of these sizes: 120 pages for its code, then 100 for the heap of 200 MiB,
/// without which it exits. G1 goes without any of its pieces.
#[test]
fn a_start_asks_for_its_code_its_heap_and_its_tables_in_turn() {
    let stretches = |command: &str| {
        let instance = only(java(7, command, vec![]), &MapSource::new());
        let stretches = (super::KIND.start.stretches)(&instance, PageSize::MIB_2)?;
        let seen = stretches.iter().map(|stretch| (stretch.most.get(), stretch.is_essential));
        Some(seen.collect::<Vec<_>>())
    };
    let executable = "java -XX:+UseLargePages";
    assert_eq!(
        stretches(&format!("{executable} -XX:+UseZGC -Xms200m -Xmx1g Main")),
        Some(vec![(120, false), (100, true)])
    );
    assert_eq!(
        stretches(&format!("{executable} -XX:+UseG1GC -Xmx600m Main")),
        Some(vec![(120, false), (300, false), (5, false), (5, false)])
    );
    assert_eq!(
        stretches(&format!("{executable} -XX:+UseSHM -XX:+UseParallelGC -Xmx600m Main")),
        Some(vec![(300, false)])
    );
    assert_eq!(stretches("java -Xlp -Xmx600m Main"), None);
    assert_eq!(stretches("java -Xmx600m Main"), None);
}

/// `os::large_page_init` of OpenJDK 17 and 21 turns large pages on by each of these; 25 has no
/// flag for their kind. OpenJ9 takes them by shmget.
#[test]
fn large_pages_are_asked_for_by_other_flags_too() {
    let asked = |jdk: &str, flags: &str| {
        let process = Process {
            executable: Observed::Known(format!("/opt/jdk-{jdk}/bin/java")),
            ..java(7, &format!("java -Xmx1g {flags} Main"), vec![])
        };
        let instance = only(process, &MapSource::new());
        (instance.asked, instance.mechanism)
    };
    use HugePageMode::{No, Try};
    for (jdk, flags, mode, mechanism) in [
        ("17.0.15", "-XX:+UseHugeTLBFS", Try, Mechanism::Mmap),
        ("17.0.15", "-XX:+UseSHM", Try, Mechanism::SysvShm),
        ("17.0.15", "-XX:+UseSHM -XX:+UseHugeTLBFS", Try, Mechanism::Mmap),
        ("17.0.15", "-XX:+UseSHM -XX:-UseLargePages", No, Mechanism::SysvShm),
        ("17.0.15", "-XX:+AggressiveHeap", Try, Mechanism::Mmap),
        ("21.0.2", "-XX:+UseHugeTLBFS", Try, Mechanism::Mmap),
        ("25.0.3", "-XX:+UseHugeTLBFS", No, Mechanism::Mmap),
        ("25.0.3", "-XX:+UseLargePages -XX:+UseSHM", Try, Mechanism::Mmap),
        ("17.0.15", "-Xlp", Try, Mechanism::SysvShm),
    ] {
        assert_eq!(asked(jdk, flags), (mode, mechanism), "{jdk} {flags}");
    }
}

/// OpenJDK 17 with a page of 1 GiB for its heap, and no pages of 2 MiB for the 272 MiB beside it.
#[test]
fn what_was_refused_beside_the_heap_makes_it_partly() {
    let command =
        "java -XX:+UseParallelGC -XX:+UseLargePages -XX:LargePageSizeInBytes=1g -Xmx1g Main";
    let heap = mapping(0xc000_0000, 1024, HUGE, PageSize::GIB_1);
    let process = Process {
        executable: Observed::Known("/opt/jdk-17.0.21/bin/java".into()),
        ..java(7, command, vec![heap.clone()])
    };
    let pages = |instance: &Instance| {
        let all = instance.demand.iter().chain(&instance.other_demands);
        all.map(|demand| (demand.page_size, demand.pages.get())).collect::<Vec<_>>()
    };
    let instance = only(process.clone(), &MapSource::new());
    assert_eq!(instance.huge_pages, HugePageUse::Partly);
    assert_eq!(pages(&instance), [(PageSize::GIB_1, 1), (PageSize::MIB_2, 136)]);
    let refused: Vec<_> =
        instance.segments.iter().filter(|segment| segment.huge == Observed::Known(false)).collect();
    assert_eq!(
        refused.iter().map(|segment| segment.size).collect::<Vec<_>>(),
        [Bytes::from_mib(272)]
    );

    let rest = [
        mapping(0x7fdf_4920_0000, 240, HUGE, PageSize::MIB_2),
        mapping(0x7fdf_6920_0000, 32, HUGE, PageSize::MIB_2),
    ];
    let whole =
        Process { mappings: Observed::Known([vec![heap], rest.to_vec()].concat()), ..process };
    let instance = only(whole, &MapSource::new());
    assert_eq!((instance.huge_pages, instance.segments.len()), (HugePageUse::All, 2));
    assert_eq!(pages(&instance), [(PageSize::GIB_1, 1), (PageSize::MIB_2, 136)]);
}

/// A start asks for these in turn: one that was refused a table of 4 MiB had no room for the bitmaps
/// of 22 MiB that it asked for afterwards.
#[test]
fn less_than_a_start_can_be_refused_is_the_error_of_the_estimate() {
    let command = "java -XX:+UseG1GC -XX:+UseLargePages -Xms1303m -Xmx1303m Main";
    let use_beside = |sizes: &[u64]| {
        let place = |(at, size): (u64, &u64)| {
            mapping(0x7fdf_0000_0000 + (at << 32), *size, HUGE, PageSize::MIB_2)
        };
        let beside = (0..).zip(sizes).map(place);
        let heap = mapping(0xae80_0000, 1304, HUGE, PageSize::MIB_2);
        let process = java(7, command, std::iter::once(heap).chain(beside).collect());
        only(process, &MapSource::new()).huge_pages
    };
    assert_eq!(use_beside(&[240, 4, 4, 4, 22, 22]), HugePageUse::All);
    assert_eq!(use_beside(&[240, 4, 4, 22, 22]), HugePageUse::All);
    assert_eq!(use_beside(&[240, 4, 4, 4, 22]), HugePageUse::Partly);
    assert_eq!(use_beside(&[240]), HugePageUse::Partly);
}

/// HotSpot 6 knows shmget alone, for its heap and permanent generation in one; neither it nor OpenJ9
/// has the collector's tables on large pages.
#[test]
fn java_6_and_openj9_have_their_heap_in_a_segment_and_no_tables() {
    let segment = |id: u64, mib| Mapping {
        shared: true,
        inode: id,
        ..mapping(id << 40, mib, "/SYSV00000000 (deleted)", PageSize::MIB_2)
    };
    let found = |version: &str, command: &str, mappings| {
        let release = format!("JAVA_VERSION=\"{version}\"\n");
        let source = MapSource::new().with_file("/opt/java/release", release);
        let mut process = java(7, command, mappings);
        process.executable = Observed::Known("/opt/java/bin/java".into());
        only(process, &source)
    };
    let command = "java -Xms2800m -Xmx2800m -XX:+UseParallelGC -XX:+UseLargePages -jar a.jar";
    let six = found("1.6.0_45", command, vec![segment(3, 2884), segment(4, 48)]);
    assert_eq!((six.mechanism, six.huge_pages), (Mechanism::SysvShm, HugePageUse::All));
    assert_eq!(six.demand.map(|demand| demand.pages), Some(PageCount(1466)));
    let openj9 = found("17.0.9", "java -Xmx2048m -Xlp Main", vec![segment(3, 2048)]);
    assert_eq!(openj9.huge_pages, HugePageUse::All);
    assert_eq!(openj9.demand.map(|demand| demand.pages), Some(PageCount(1024)));
}

/// "-Xlp:objectheap" of OpenJ9's documents: the last of `strict` and `warn` counts.
#[test]
fn openj9_insists_where_it_is_strict() {
    for (option, asked, goes_without) in [
        ("-Xlp:objectheap:pagesize=2M,strict", HugePageMode::Must, false),
        ("-Xlp:objectheap:strict,pagesize=2M", HugePageMode::Must, false),
        ("-Xlp:objectheap:strict,pagesize=2M,warn", HugePageMode::Try, true),
        ("-Xlp:objectheap:pagesize=2M", HugePageMode::Try, true),
    ] {
        let instance =
            only(java(7, &format!("java -Xmx1g {option} Main"), vec![]), &MapSource::new());
        let goes = (super::KIND.start.goes_without_any)(&instance);
        assert_eq!((instance.asked, goes), (asked, goes_without), "{option}");
    }
}

/// Zing System Tools' module lends memory for heaps, in large pages of its own.
#[test]
fn a_heap_in_the_memory_of_zing_is_on_no_pool() {
    let heap = Mapping {
        shared: true,
        ..mapping(0x10_0000_0000, 16384, "/dev/zing_mm0", PageSize::KIB_4)
    };
    let rest = mapping(0x7fdf_3a00_0000, 400, "", PageSize::KIB_4);
    let instance = only(java(7, "java -Xmx16g -jar app.jar", vec![heap, rest]), &MapSource::new());
    assert_eq!((instance.asked, instance.mechanism), (HugePageMode::Cannot, Mechanism::None));
    assert_eq!((instance.segments.len(), instance.demand), (0, None));
}

/// On base pages what a heap has not taken yet is reserved behind what it has.
#[test]
fn a_heap_that_nobody_told_its_size_has_it_reserved() {
    let reserved = Mapping { accessible: false, ..mapping(0xc800_0000, 896, "", PageSize::KIB_4) };
    let process = Process {
        executable: Observed::Known("/opt/jdk-17.0.21/bin/java".into()),
        ..java(7, "java -XX:+UseG1GC -XX:MaxRAMPercentage=4 Main", vec![])
    };
    let heap = mapping(0xc000_0000, 128, "", PageSize::KIB_4);
    let process = Process { mappings: Observed::Known(vec![heap, reserved]), ..process };
    let mut host = Host {
        base_page: Observed::Known(PageSize::KIB_4),
        default_huge_page: Observed::Known(PageSize::MIB_2),
        processes: testing::known([process.clone()]),
        ..Host::default()
    };
    host.memory.total = Observed::Known(Bytes::from_gib(100));
    let source = MapSource::new();
    let scene = EngineContext::new(&host, &source);
    let mut facts = FactReader::new(&source);
    let instance = build_instance(&scene, &mut facts, &process, None);
    assert_eq!(instance.demand.map(|demand| demand.pages), Some(PageCount(651)));
}

#[test]
fn its_own_word_beats_the_command_line() {
    let data =
        Mapping { shared: true, ..mapping(0x1000, 0, "/tmp/hsperfdata_app/7", PageSize::KIB_4) };
    let told = hsperf::tests::build_hsperf_file(
        &[
            ("java.property.java.version", "21.0.2"),
            ("java.rt.vmArgs", "-XX:+UseLargePages -Xmx1g"),
        ],
        true,
    );
    let planted = told.clone();
    let process = java(
        7,
        "java -jar /srv/app.jar",
        vec![data, mapping(0xc000_0000, 1024, "", PageSize::KIB_4)],
    );
    let instance =
        only(process.clone(), &MapSource::new().with_file("/tmp/hsperfdata_app/7", told));
    assert_eq!(
        (instance.name.as_str(), instance.version),
        ("app.jar", Observed::Known("21.0.2".into()))
    );
    assert_eq!((instance.asked, instance.huge_pages), (HugePageMode::Try, HugePageUse::None));
    assert_eq!(instance.setting.unwrap().to_string(), "UseLargePages=true (/tmp/hsperfdata_app/7)");
    // 1024 + 240 + 16 + 4 MiB
    assert_eq!(instance.demand.map(|demand| demand.pages), Some(PageCount(642)));

    let broken =
        found(vec![process.clone()], &MapSource::new().with_file("/tmp/hsperfdata_app/7", "junk"));
    assert_eq!((broken.instances[0].asked, broken.unread.len()), (HugePageMode::Unknown, 1));
    let mut removed = process.clone();
    let gone = "/tmp/hsperfdata_app/7 (deleted)";
    removed.mappings = Observed::Known(vec![
        Mapping { shared: true, ..mapping(0x1000, 0, gone, PageSize::KIB_4) },
        mapping(0xc000_0000, 1024, "", PageSize::KIB_4),
    ]);
    let planted = MapSource::new().with_file(gone, &planted).with_file(&gone[..21], planted);
    assert_ne!(only(removed, &planted).asked, HugePageMode::Try, "anybody may put a file there");
    let denied = found(vec![process], &MapSource::new().with_denied("/tmp/hsperfdata_app/7"));
    assert_eq!(
        (denied.instances[0].asked, &denied.unread[0].why),
        (HugePageMode::Unknown, &Reason::Denied)
    );
}

#[test]
fn what_it_says_of_a_long_command_line_is_cut_off() {
    let data =
        Mapping { shared: true, ..mapping(0x1000, 0, "/tmp/hsperfdata_app/7", PageSize::KIB_4) };
    let long = format!("-XX:+UseLargePages -Da={} -Xmx1", "x".repeat(990));
    let told = hsperf::tests::build_hsperf_file(&[("java.rt.vmArgs", &long)], true);
    let process = java(7, "java -Da=x -Xmx16g -XX:+UseZGC Main", vec![data]);
    let instance = only(process, &MapSource::new().with_file("/tmp/hsperfdata_app/7", told));
    assert_eq!(
        (instance.setting_value("maxheapsize"), instance.asked),
        (Some("16g"), HugePageMode::Must)
    );
}

#[test]
fn who_may_not_see_what_the_environment_added_does_not_say_no() {
    let hidden = |command| Process { mappings: Observed::Denied, ..java(7, command, vec![]) };
    assert_eq!(only(hidden("java -Xmx1g Main"), &MapSource::new()).asked, HugePageMode::Unknown);
    assert_eq!(
        only(hidden("java -Xmx1g -XX:+UseLargePages Main"), &MapSource::new()).asked,
        HugePageMode::Try
    );
    assert_eq!(
        only(hidden("java -Xmx1g -XX:-UseLargePages Main"), &MapSource::new()).asked,
        HugePageMode::No
    );
}

#[test]
fn huge_pages_that_its_command_line_does_not_ask_for_do_not_say_no() {
    let asked = |command, page| {
        let maps = vec![mapping(0xc000_0000, 1024, "/anon_hugepage (deleted)", page)];
        only(java(7, command, maps), &MapSource::new()).asked
    };
    assert_eq!(asked("java -Xmx1g Main", PageSize::MIB_2), HugePageMode::Unknown);
    assert_eq!(asked("java -Xmx1g -XX:+UseLargePages Main", PageSize::MIB_2), HugePageMode::Try);
    assert_eq!(asked("java -Xmx1g Main", PageSize::KIB_4), HugePageMode::No);
}

/// Its environment asked; ZGC's file says what grows.
#[test]
fn a_growing_heap_is_known_by_its_file() {
    let heap = Mapping {
        shared: true,
        ..mapping(0x4000_0000_0000, 100, "/memfd:java_heap.hugetlb (deleted)", PageSize::MIB_2)
    };
    let mut host = Host {
        base_page: Observed::Known(PageSize::KIB_4),
        default_huge_page: Observed::Known(PageSize::MIB_2),
        processes: testing::known([java(7, "java Main", vec![heap])]),
        ..Host::default()
    };
    host.memory.total = Observed::Known(Bytes::from_gib(8));
    let mut found = FoundInstances::default();
    let source = MapSource::new();
    find_jvm_instances(&EngineContext::new(&host, &source), &mut found);
    let instance = &found.instances[0];
    assert_eq!(instance.asked, HugePageMode::Unknown);
    assert!((super::KIND.start.grows)(instance));
    // A quarter of the memory, which it may grow to.
    assert!(instance.demand.as_ref().is_some_and(|demand| demand.pages >= PageCount(1024)));
}

/// `java @FILE 0 -Xmx9g`, where the file names the class.
#[test]
fn a_class_in_an_argument_file_ends_the_flags() {
    let source = MapSource::new().with_file("/a", "-Xmx4g -XX:+UseLargePages\n-cp /x app.Main\n");
    let instance = only(java(7, "java @/a 0 -Xmx9g -XX:-UseLargePages", vec![]), &source);
    assert_eq!(
        (instance.asked, instance.setting_value("maxheapsize")),
        (HugePageMode::Try, Some("4g"))
    );
}

#[test]
fn flags_may_stand_in_an_argument_file() {
    let process = Process {
        directory: Observed::Known("/srv".into()),
        ..java(7, "java @jvm.options Main", vec![])
    };
    let source = MapSource::new().with_file("/srv/jvm.options", "-Xmx4g\n-XX:+UseLargePages\n");
    assert_eq!(only(process.clone(), &source).asked, HugePageMode::Try);
    let hidden = MapSource::new().with_denied("/srv/jvm.options");
    let process = Process {
        mappings: Observed::Known(vec![mapping(0xc000_0000, 1024, "", PageSize::KIB_4)]),
        ..process
    };
    let found = found(vec![process], &hidden);
    assert_eq!((found.instances[0].asked, found.unread.len()), (HugePageMode::Unknown, 1));
}

#[test]
fn small_machines_matter_only_if_they_ask() {
    let small = || vec![mapping(0xf000_0000, 64, "", PageSize::KIB_4)];
    let processes = vec![
        java(1, "java -Xmx64m Small", small()),
        java(2, "java -Xmx64m -XX:+UseLargePages Asks", small()),
        java(
            3,
            "java -Xmx64m -XX:+UseLargePages -XX:+UseTransparentHugePages Transparent",
            small(),
        ),
        java(4, "java -Xmx2g Grows", small()),
        Process {
            name: "bash".into(),
            executable: Observed::Known("/bin/bash".into()),
            ..java(5, "java -Xmx9g X", small())
        },
    ];
    let found = found(processes, &MapSource::new());
    let seen: Vec<_> =
        found.instances.iter().map(|instance| (instance.name.as_str(), instance.asked)).collect();
    assert_eq!(seen, [("Asks", HugePageMode::Try), ("Grows", HugePageMode::No)]);
}

#[test]
fn transparent_huge_pages_are_no_hugetlb() {
    let command = "java -Xmx1g -XX:+UseLargePages -XX:+UseTransparentHugePages Main";
    let instance = only(java(7, command, vec![]), &MapSource::new());
    assert_eq!(
        (instance.asked, instance.traits),
        (HugePageMode::No, vec![Trait::TransparentPages])
    );
    assert_eq!(instance.huge_pages, HugePageUse::Unknown);
}

#[test]
fn without_a_command_line_the_question_stays_open() {
    let process = Process {
        command: Observed::Denied,
        executable: Observed::Known("/opt/jdk-11.0.2/bin/java (deleted)".into()),
        ..java(7, "", vec![mapping(0xc000_0000, 1024, "", PageSize::KIB_4)])
    };
    let instance = only(process, &MapSource::new());
    assert_eq!(
        (instance.name.as_str(), instance.asked, instance.setting),
        ("java", HugePageMode::Unknown, None)
    );
    assert_eq!(instance.version, Observed::Known("11.0.2".into()));
}

/// OpenJDK 17 warns and takes the default size; up to 15 the flag has no effect.
#[test]
fn a_page_size_that_the_kernel_lacks_is_the_default() {
    let pool = |page_size| hugewise_model::Pool {
        page_size,
        total: Observed::Absent,
        free: Observed::Absent,
        reserved: Observed::Absent,
        surplus: Observed::Absent,
        overcommit: Observed::Absent,
        nodes: Vec::new(),
    };
    let host = Host {
        default_huge_page: Observed::Known(PageSize::MIB_2),
        pools: Observed::Known(vec![pool(PageSize::MIB_2), pool(PageSize::GIB_1)]),
        ..Host::default()
    };
    let asked = |size: &str, version| {
        let flag = format!("-XX:LargePageSizeInBytes={size}");
        asked_page_size(&host, &Flags::read([flag.as_str()].into_iter()), version).get()
    };
    for (size, version, page) in [
        ("4m", Some("17.0.15"), PageSize::MIB_2),
        ("1g", Some("17.0.15"), PageSize::GIB_1),
        ("0x40000000", Some("21"), PageSize::GIB_1),
        ("1g", Some("11.0.2"), PageSize::MIB_2),
        ("0", None, PageSize::MIB_2),
    ] {
        assert_eq!(asked(size, version), Some(page), "{size} {version:?}");
    }
    // JDK-8273872: MFD_HUGE_2MB, whatever the default is.
    let host = Host { default_huge_page: Observed::Known(PageSize::GIB_1), ..host };
    let flags = Flags::read(["-XX:+UseZGC", "-XX:LargePageSizeInBytes=1g"].into_iter());
    assert_eq!(asked_page_size(&host, &flags, Some("21.0.2")).get(), Some(PageSize::MIB_2));
}

#[test]
fn flags_may_stand_in_files_of_flags_and_of_options() {
    let source = MapSource::new()
        .with_file("/o", "-Xmx3g\n")
        .with_file("/f", "# c\n+UseLargePages MaxHeapSize=1g\n");
    let with = |words: &str| only(java(7, &format!("java {words} Main"), on_huge_pages()), &source);
    let instance = with("-XX:+UseLargePages -Xmx1g -XX:VMOptionsFile=/o");
    assert_eq!(instance.setting_value("maxheapsize"), Some("3g"));
    let instance = with("-XX:Flags=/f");
    assert_eq!(
        (instance.asked, instance.setting_value("maxheapsize")),
        (HugePageMode::Try, Some("1g"))
    );
    assert_eq!(with("-Xmx2g -XX:Flags=/f").setting_value("maxheapsize"), Some("2g"));
    // A file that is not there may say anything.
    let next = with("-XX:+UseLargePages -XX:VMOptionsFile=/none")
        .next
        .into_known()
        .expect("another start");
    assert_eq!((next.asked, next.demands.len()), (HugePageMode::Unknown, 0));
}

/// 8 TiB that a native library keeps to itself begin where the heap ends.
#[test]
fn what_others_reserve_beside_the_heap_is_none_of_it() {
    let mut mappings = on_huge_pages();
    mappings[0] = mapping(0xe000_0000, 512, "", PageSize::KIB_4);
    mappings.insert(
        1,
        Mapping { accessible: false, ..mapping(0x1_0000_0000, 8 << 20, "", PageSize::KIB_4) },
    );
    let process = java(7, "java -XX:+UseLargePages -XX:+UseG1GC -XX:MaxRAM=2g Main", mappings);
    let mut host = Host {
        base_page: Observed::Known(PageSize::KIB_4),
        default_huge_page: Observed::Known(PageSize::MIB_2),
        processes: testing::known([process]),
        ..Host::default()
    };
    host.memory.total = Observed::Known(Bytes::from_gib(24));
    let mut found = FoundInstances::default();
    let source = MapSource::new();
    find_jvm_instances(&EngineContext::new(&host, &source), &mut found);
    // A quarter of 2 GiB, as 384 pages of which the machine itself takes.
    let demand = found.instances[0].demand.clone().unwrap();
    assert!((380..400).contains(&demand.pages.get()), "{demand:?}");
}
