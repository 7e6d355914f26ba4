//! Java virtual machines: HotSpot, and OpenJ9 as far as its flags go.

mod code_cache;
mod container;
mod demand;
mod described;
mod ergonomics;
pub mod flags;
mod heap;
pub mod hsperf;
mod log;
mod messages;
mod redaction;
mod start;
mod stopped;
mod vendors;
mod words;
mod work_memory;

use std::collections::BTreeSet;

use hugewise_host::FactReader;
use hugewise_host::capture::shape::{NO_VALUE, ValueShape, is_version};
use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::{Mechanism, NextStart, ServerSetting, SessionModel};
use hugewise_model::{
    Bytes, Demand, Engine, Host, HugePageMode, HugePageUse, Instance, Mapping, Observed, PageSize,
    Process, Trait,
};

use crate::shared::faults::{self, Fault};
use crate::shared::kind::{
    CaptureRules, LogSources, MemoryBehavior, PageSizeChoice, Recognition, RestartBehavior,
    SettingAdvice, ThpBehavior,
};
use crate::shared::next_start::{self as next_start, NextStartSize};
use crate::shared::settings::{new_setting, redacted_setting};
use crate::shared::{options, segments, versions};
use crate::{
    DescribedBy, EngineContext, EngineKind, FoundInstances, StartBehavior, Takes, each_known,
};
use ergonomics::{GarbageCollector, JvmParameters};
use flags::Flags;
use hsperf::HeapCounters;

pub use start::with_variables;
use words::{JvmWords, command_words};

const ACCOUNTS: &[&str] = &[
    "tomcat",
    "tomcat9",
    "tomcat10",
    "jetty",
    "jboss",
    "wildfly",
    "keycloak",
    "elasticsearch",
    "opensearch",
    "logstash",
    "cassandra",
    "kafka",
    "cp-kafka",
    "zookeeper",
    "solr",
    "neo4j",
    "activemq",
    "artemis",
    "hdfs",
    "yarn",
    "hbase",
    "hive",
    "spark",
    "trino",
];

pub(crate) static KIND: EngineKind = EngineKind {
    engine: Engine::Jvm,
    names: &[(Engine::Jvm, "JVM")],
    recognition: Recognition {
        programs: &["java"],
        find_running: find_jvm_instances,
        find_stopped: stopped::find_stopped_servers,
        accounts: ACCOUNTS,
        ..Recognition::PLAIN
    },
    capture: CaptureRules {
        value_shapes: &[("xlp", ValueShape::Words(&[flags::STRICT]))],
        forms: redaction::FORMS,
        mappings: &["/memfd:java_heap", "/dev/zing_mm"],
        mapped_files: &["/hsperfdata_"],
        reads_working_directory: |process| {
            let names_relative_file = |word: &String| {
                let files = ["@", "-XX:VMOptionsFile=", "-XX:Flags="];
                let mut files = files.into_iter().filter_map(|start| word.strip_prefix(start));
                files.any(|file| !file.starts_with('/'))
            };
            process.command.as_known().is_some_and(|words| words.iter().any(names_relative_file))
        },
        ..CaptureRules::PLAIN
    },
    logs: LogSources {
        format: Some(&log::FORMAT),
        messages: messages::MESSAGES,
        ..LogSources::PLAIN
    },
    describe: Some((DescribedBy::Command("java -Xmx8g ..."), described::describe_jvm)),
    start: StartBehavior {
        takes: |_| Takes::Segments,
        grows: heap::uses_zgc,
        begins_with: heap::begins_with,
        stretches: heap::stretches,
        asks_again: heap::asks_again,
        goes_without_any: |instance| instance.setting_value("xlp") != Some(flags::STRICT),
        // `hugetlbfs_sanity_check` of os_linux.cpp.
        tries_default_page: |instance| instance.setting_value("largepagesizeinbytes").is_none(),
        ..StartBehavior::PLAIN
    },
    restart: RestartBehavior { command_line: Some(&start::STARTING), ..RestartBehavior::PLAIN },
    page_size: PageSizeChoice {
        setting: Some("-XX:LargePageSizeInBytes"),
        is_named: |instance| {
            instance.setting_value("largepagesizeinbytes").is_some_and(|value| value != "0")
        },
        can_be_named: |_| true,
        ..PageSizeChoice::PLAIN
    },
    thp: ThpBehavior {
        advise: |_, instance| Ok(vendors::advise_thp(instance)),
        summary: Some(
            "never for Hazelcast (its manual, \"Performance Tuning\"), and for Zing with its System \
             Tools (Azul, \"Transparent HugePages Settings\")",
        ),
    },
    memory: MemoryBehavior {
        often_small: true,
        work_memory: work_memory::estimate_work_memory,
        vendor: vendors::find_vendor,
        heap: vendors::find_heap_limit,
        touches_heap: vendors::touches_heap,
        ..MemoryBehavior::PLAIN
    },
    settings: SettingAdvice {
        asks_by: "-XX:+UseLargePages",
        commands: |_, _, _| vec!["# add to its command line: -XX:+UseLargePages".into()],
        ..SettingAdvice::PLAIN
    },
    ..EngineKind::PLAIN
};

/// Smaller machines are too many, and matter only where they ask for large pages.
const SMALLEST_HEAP: Bytes = Bytes::from_mib(256);
/// HotSpot cuts longer strings off (`PerfMaxStringConstLength`, 1024).
const LONGEST_COUNTER: usize = 1000;

fn find_jvm_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    for process in each_known(&scene.host.processes) {
        let data = hsperf_path(process);
        if KIND.is_server_program(options::program_name(process)) || data.is_some() {
            let files = scene.files_of(process);
            let mut facts = FactReader::new(&files);
            let instance = build_instance(scene, &mut facts, process, data);
            if is_significant(&instance) {
                found.add(instance);
                found.add_unread(process, facts.unread);
            }
        }
    }
}

fn is_significant(instance: &Instance) -> bool {
    let most = find_told_heap(instance).unwrap_or_default();
    heap::heap_size(instance).max(most) >= SMALLEST_HEAP
        || matches!(instance.asked, HugePageMode::Try | HugePageMode::Must)
        // Its environment may have asked.
        || matches!(instance.huge_pages, HugePageUse::All | HugePageUse::Partly)
}

/// The largest heap, where somebody set it.
fn find_told_heap(instance: &Instance) -> Option<Bytes> {
    let setting = instance.settings.get("maxheapsize").filter(|setting| setting.place.is_some());
    flags::parse_size(&setting?.value)
}

/// HotSpot maps its hsperfdata file: the mapping has its path, even in a container.
fn hsperf_path(process: &Process) -> Option<&str> {
    let mappings = process.mappings.as_known()?;
    let data =
        mappings.iter().find(|mapping| mapping.shared && mapping.name.contains("/hsperfdata_"))?;
    Some(data.name.as_str())
}

fn build_instance(
    scene: &EngineContext<'_>,
    facts: &mut FactReader<'_>,
    process: &Process,
    data: Option<&str>,
) -> Instance {
    let host = scene.host;
    // Of a removed one the path is free for anybody, also with what the kernel puts behind it.
    let path = data.filter(|path| !path.ends_with(" (deleted)")).map(|path| {
        options::as_reader_opens(host, process, options::as_process_names(process, path))
    });
    let counters = path
        .as_deref()
        .and_then(|path| facts.parse(path, hsperf::parse).into_known())
        .unwrap_or_default();
    let JvmWords { flags, file, all_words } =
        JvmWords::read(scene, facts, process, &counters, path);
    let arguments = counters.get("java.rt.vmArgs");
    let silent = data.is_none() && is_true_to_command_line(host, process);
    let flags_known = all_words && (silent || arguments.is_some());

    let by_counter = counters.get("java.property.java.version");
    let (version, running) = find_versions(host, facts, process, by_counter);
    let memory = container::detect_visible_memory(scene, process, &flags, running.as_deref());
    let uses_zgc = flags.is_on("UseZGC") || heap::maps_zgc_heap(process);
    let told = HeapCounters::from_values(&counters, uses_zgc);
    let release = running.as_deref().and_then(demand::parse_major_release);
    let machine = JvmParameters {
        processors: container::detect_processors(scene, process, &flags, running.as_deref()),
        ..JvmParameters::new(host, &flags, running.as_deref(), memory.as_ref(), told)
    };
    let page = asked_page_size(host, &flags, running.as_deref());
    let heap = heap::find_heap_mappings(process, &flags, release, page.get());
    let by_mappings = heap::reserved_heap(process, &heap, &machine);
    let reserved = told.largest_heap.or(by_mappings);
    let heap: BTreeSet<u64> = heap.iter().map(|mapping| mapping.start).collect();

    let named =
        process.command.as_known().and_then(|arguments| flags::find_program_name(arguments));
    let name = named.unwrap_or_else(|| options::program_name(process)).to_owned();
    let mut instance = scene.new_instance(Engine::Jvm, name, process, Vec::new());
    instance.version = version.clone().into();
    let place = Some(FileLocation { file, line: 0 });
    fill_in_flags(&mut instance, &flags, release, place.as_ref(), flags_known);
    fill_in_choices(&mut instance, &machine, reserved);
    let uses_system_v = flags.uses_system_v(release);
    instance.mechanism = if uses_system_v { Mechanism::SysvShm } else { Mechanism::Mmap };
    instance.session_model = SessionModel::Threads;
    instance.asked_page_size = page;
    heap::fill_in_segments(host, &mut instance, process, &heap, &machine);
    (instance.demand, instance.other_demands) = compute_demand(&instance, &machine, reserved);
    let is_sure =
        told.largest_heap.is_some() || shares_classes(process, running.as_deref(), arguments);
    let reserved = reserved.filter(|_| is_sure);
    let limit = memory.as_ref().and_then(|memory| memory.limit.as_ref());
    instance.next = predict_next_start(&instance, &machine, reserved, limit);
    if let Some(setting) = find_unclear_setting(host, &flags, all_words, &place) {
        let nowhere = FileLocation { file: String::new(), line: 0 };
        faults::take_in(&mut instance, &[Fault::unclear_setting(setting, nowhere)], false);
    }
    instance.possible_demands = possible_demands(&instance, &machine, reserved);
    if heap::is_in_memory_of_zing(process) {
        heap::leave_to_zing(&mut instance);
    }
    instance
}

/// Whether the command line tells all flags of a machine without counters, as far as can be seen:
/// the environment is not read and may ask for more, which huge pages would show.
fn is_true_to_command_line(host: &Host, process: &Process) -> bool {
    let on_huge = |mapping: &Mapping| segments::mapping_is_huge(host, mapping).get() == Some(true);
    process.command.is_known()
        && process.mappings.as_known().is_some_and(|mappings| !mappings.iter().any(on_huge))
}

/// The version, and what is known of it where that is only the release.
fn find_versions(
    host: &Host,
    facts: &FactReader<'_>,
    process: &Process,
    by_counter: Option<&String>,
) -> (Option<String>, Option<String>) {
    let executable = process.executable.as_known();
    let by_release_file = || {
        let path = options::as_reader_opens(host, process, executable?);
        // One that is not there, or is another maker's, is no lack of a machine that runs.
        described::read_java_version(&mut FactReader::new(facts.source), &path).into_known()
    };
    let version = by_counter
        .filter(|text| is_version(text))
        .cloned()
        .or_else(|| executable.and_then(|path| versions::in_path(path)))
        .or_else(|| by_release_file().filter(|text| is_version(text)));
    let running = by_counter
        .cloned()
        .or_else(|| version.clone())
        .or_else(|| executable.and_then(|path| of_folder(path)));
    (version, running)
}

fn fill_in_flags(
    instance: &mut Instance,
    flags: &Flags,
    release: Option<u32>,
    place: Option<&FileLocation>,
    flags_known: bool,
) {
    for (name, value) in &flags.0 {
        let setting = redacted_setting(name, value, place.cloned());
        instance.settings.insert(name.to_ascii_lowercase(), setting);
    }
    let is_transparent = flags.is_on("UseTransparentHugePages");
    if flags.get(flags::HEAP_FOLDER).is_some() && !flags.is_on("UseZGC") {
        instance.traits.push(Trait::AsksInPart);
    }
    if is_transparent {
        instance.traits.push(Trait::TransparentPages);
        instance.setting = instance.settings.get("usetransparenthugepages").cloned();
    } else {
        let asking = flags.asking_flag(release).unwrap_or("UseLargePages");
        let setting = instance.settings.get(&asking.to_ascii_lowercase()).cloned();
        instance.setting = setting.or_else(|| flags_known.then(large_pages_off));
    }
    let asks = flags.asks_for_large_pages(release);
    let explicit = asks || flags.get("UseLargePages").is_some() || is_transparent;
    instance.asked = match (asks, flags_known || explicit) {
        // ZGC takes its heap from a hugetlb memfd or does not start, but where there is no huge
        // page at all; the others warn and go on.
        (true, _) if flags.is_on("UseZGC") => HugePageMode::Must,
        (true, _) if flags.get(flags::OPENJ9_LARGE_PAGES) == Some(flags::STRICT) => {
            HugePageMode::Must
        }
        (true, _) => HugePageMode::Try,
        (false, true) => HugePageMode::No,
        (false, false) => HugePageMode::Unknown,
    };
}

/// What the machine chose by itself, as settings without a place: how it starts hangs on them.
fn fill_in_choices(instance: &mut Instance, machine: &JvmParameters<'_>, reserved: Option<Bytes>) {
    // Its flags may be out of sight, and its heap grows all the same.
    if machine.uses_zgc() {
        let setting = || new_setting("UseZGC", "true", None);
        instance.settings.entry("usezgc".into()).or_insert_with(setting);
    }
    if !machine.flags.asks_for_large_pages(machine.release()) {
        return;
    }
    let mut choose = |name: &str, value: String| {
        let setting = || new_setting(name, value, None);
        instance.settings.entry(name.to_ascii_lowercase()).or_insert_with(setting);
    };
    choose(machine.choose_collector().0.flag_name(), "true".into());
    choose("CICompilerCount", code_cache::compiler_threads(machine).to_string());
    let largest = machine.flags.size_value("MaxHeapSize").or(reserved);
    let largest = largest.or_else(|| machine.largest_heap_by_memory());
    if let Some(largest) = largest {
        choose("MaxHeapSize", largest.get().to_string());
        if let Some(initial) = machine.initial_heap(largest) {
            choose("InitialHeapSize", initial.get().to_string());
        }
    }
}

/// Whether classes come from an archive below the heap. Otherwise their space may follow the heap
/// without a gap.
fn shares_classes(process: &Process, running: Option<&str>, own_words: Option<&String>) -> bool {
    let is_off = |word: &str| matches!(word, "-Xshare:off" | "-XX:-UseSharedSpaces");
    // The environment and argument files say it as well as the command line.
    let own_off = own_words.is_some_and(|words| words.split_whitespace().any(is_off));
    let shares = |words: &Vec<String>| !words.iter().any(|word| is_off(word));
    let release = running.and_then(demand::parse_major_release);
    release.is_some_and(|number| number >= SHARES)
        && process.command.as_known().is_some_and(shares)
        && !own_off
}

fn is_on_hugetlbfs(host: &Host, folder: &str) -> bool {
    let mut mounts = each_known(&host.hugetlbfs_mounts);
    mounts.any(|mount| std::path::Path::new(folder).starts_with(&mount.path))
}

fn find_unclear_setting(
    host: &Host,
    flags: &Flags,
    all_words: bool,
    place: &Option<FileLocation>,
) -> Option<ServerSetting> {
    let setting = |name: &str, value: &str| redacted_setting(name, value, place.clone());
    let unread = || (!all_words).then(|| setting("a file of options", NO_VALUE));
    // Whether a hugetlbfs has room for a heap was never tried.
    let in_pool = flags.get(flags::HEAP_FOLDER).filter(|folder| is_on_hugetlbfs(host, folder));
    let in_pool = in_pool.map(|folder| setting(flags::HEAP_FOLDER, folder));
    let unclear = flags.find_unclear_flag().map(|(name, value)| setting(name, value));
    unclear.or(in_pool).or_else(unread)
}

/// `LargePageSizeInBytes` is the largest allowed size since JDK 16, and had no effect before. 0, no
/// value and a size without a pool mean the default (`os::large_page_init`). `shmget` is always
/// asked for the default. ZGC takes pages of 2 MiB alone, its granule (`ZGranuleSize`).
fn asked_page_size(host: &Host, flags: &Flags, version: Option<&str>) -> Observed<PageSize> {
    let release = version.and_then(demand::parse_major_release);
    let counts = release.is_none_or(|release| release >= demand::USES_SMALLER_PAGES)
        && !flags.uses_system_v(release);
    let given = flags.size_value("LargePageSizeInBytes").and_then(|size| PageSize::new(size.get()));
    let is_there = |page: &PageSize| match &host.pools {
        Observed::Known(pools) => pools.iter().any(|pool| pool.page_size == *page),
        _ => true,
    };
    let is_zgc = GarbageCollector::from_flags(flags) == Some(GarbageCollector::Z);
    let of_zgc = Some(PageSize::MIB_2).filter(|page| is_zgc && is_there(page));
    of_zgc
        .or_else(|| given.filter(|page| counts && is_there(page)))
        .map_or_else(|| host.default_huge_page.clone(), Observed::Known)
}

/// The mappings where all is on huge pages and the heap will not grow, otherwise the flags.
/// `reserved` is the heap of a running machine without `-Xmx`.
fn compute_demand(
    instance: &Instance,
    machine: &JvmParameters<'_>,
    reserved: Option<Bytes>,
) -> (Option<Demand>, Vec<Demand>) {
    let Some(page_size) = instance.asked_page_size.get() else { return (None, Vec::new()) };
    if instance.huge_pages == HugePageUse::All && !may_heap_grow(instance, machine) {
        return segments::segment_demands(&instance.segments, page_size);
    }
    let is_chosen = instance.pid != 0 && machine.flags.size_value("MaxHeapSize").is_none();
    let heap = reserved.filter(|_| is_chosen);
    if is_chosen && heap.is_none() && !machine.uses_zgc() {
        return (None, Vec::new());
    }
    let mut demands = demand::estimate_demands(machine, page_size, heap).into_iter();
    (demands.next(), demands.collect())
}

/// `17-openjdk-amd64` of `/usr/lib/jvm/java-17-openjdk-amd64/bin/java`: it begins with the release.
fn of_folder(path: &str) -> Option<String> {
    let named = |part: &str| {
        part.strip_prefix("java-").or_else(|| part.strip_prefix("jdk-")).map(str::to_owned)
    };
    path.split('/')
        .filter_map(named)
        .find(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// From this release on classes come from the JDK's archive below the heap (JEP 341).
const SHARES: u32 = 12;

/// The next start of a machine without `-Xmx`, where the limit of its cgroup has changed by more
/// than the estimate's error, so that it would choose another heap.
fn predict_next_start(
    instance: &Instance,
    machine: &JvmParameters<'_>,
    reserved: Option<Bytes>,
    limit: Option<&ServerSetting>,
) -> Observed<NextStart> {
    let asks = matches!(instance.asked, HugePageMode::Try | HugePageMode::Must);
    let Some((now, page)) = chosen_heap(instance, machine, reserved).filter(|_| asks) else {
        return Observed::Absent;
    };
    let Some(then) = machine.largest_heap_by_memory() else { return Observed::Absent };
    let size = NextStartSize::with_error_percent(then, demand::GUESSED_ERROR, Vec::new(), None);
    if now >= size.least && now <= size.most {
        return Observed::Absent;
    }
    let demands = demand::estimate_demands(machine, page, Some(then));
    let setting = limit.or(instance.setting.as_ref()).cloned();
    Observed::Known(NextStart { asked: instance.asked, setting, demands })
}

/// Demands of a next start whose heap would be larger, but not by so much that
/// [`predict_next_start`] takes it for changed.
fn possible_demands(
    instance: &Instance,
    machine: &JvmParameters<'_>,
    reserved: Option<Bytes>,
) -> Vec<Demand> {
    let is_held = instance.huge_pages == HugePageUse::All;
    let Some((now, page)) = chosen_heap(instance, machine, reserved).filter(|_| is_held) else {
        return Vec::new();
    };
    let demands_of = |heap| demand::estimate_demands(machine, page, Some(heap));
    let then = machine.largest_heap_by_memory().map(demands_of).unwrap_or_default();
    let now = demands_of(now);
    let is_there = |demand: &Demand| {
        let same_size = |other: &&Demand| other.page_size == demand.page_size;
        now.iter().find(same_size).is_some_and(|other| other.pages >= demand.pages)
    };
    let more = then.into_iter().filter(|demand| !is_there(demand)).collect();
    next_start::possible_demands(instance, more, false)
}

/// The heap that a machine without `-Xmx` has chosen, and its page size.
fn chosen_heap(
    instance: &Instance,
    machine: &JvmParameters<'_>,
    reserved: Option<Bytes>,
) -> Option<(Bytes, PageSize)> {
    let is_chosen = instance.pid != 0 && machine.flags.size_value("MaxHeapSize").is_none();
    let heap = reserved.filter(|_| is_chosen)?;
    machine.memory?;
    Some((heap, instance.asked_page_size.get()?))
}

fn may_heap_grow(instance: &Instance, machine: &JvmParameters<'_>) -> bool {
    machine.uses_zgc()
        && machine.find_largest_heap().is_none_or(|(most, _)| heap::heap_size(instance) < most)
}

fn large_pages_off() -> ServerSetting {
    new_setting("UseLargePages", "false", None)
}

#[cfg(test)]
mod tests;
