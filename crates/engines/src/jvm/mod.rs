//! Java virtual machines: HotSpot, and OpenJ9 as far as its flags go.

mod asleep;
mod container;
mod demand;
mod described;
pub mod flags;
pub mod hsperf;
mod kept;
mod log;
mod start;
mod vendors;
mod work;

use std::collections::{BTreeMap, BTreeSet};

use hugewise_host::Door;
use hugewise_host::capture::shape::{NO_VALUE, is_version};
use hugewise_model::configuration::Place;
use hugewise_model::instance::{Mechanism, NextStart, Segment, SegmentKind, SessionModel, Setting};
use hugewise_model::{
    Asked, Bytes, Demand, Engine, Host, HugePageUse, Instance, Mapping, Observed, PageCount, PageSize, Process, Trait,
};

use crate::faults::{self, Fault};
use crate::next::{self as next_start, Size};
use crate::settings::shown;
use crate::{By, Found, Kind, Scene, Start, Takes, options, segments, versions};
use flags::Flags;

pub use start::with_variables;

/// Accounts of servers written in Java, as their packages and manuals have them.
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

/// Java.
pub static KIND: Kind = Kind {
    engine: Engine::Jvm,
    names: &[(Engine::Jvm, "JVM")],
    programs: &["java"],
    find,
    asleep: asleep::asleep,
    starting: Some(&start::STARTING),
    accounts: ACCOUNTS,
    forms: kept::FORMS,
    describe: Some((By::Command("java -Xmx8g ..."), described::describe)),
    mappings: &["/memfd:java_heap"],
    mapped_files: &["/hsperfdata_"],
    log_format: Some(&log::FORMAT),
    start: Start { takes: |_| Takes::Segments, grows: true, begins_with, goes_without_any: true, ..Start::PLAIN },
    often_small: true,
    asks_by: "-XX:+UseLargePages",
    page_size_by: Some("-XX:LargePageSizeInBytes"),
    work_memory: work::memory,
    vendor: vendors::vendor,
    heap: vendors::heap,
    touches_heap: vendors::touches_heap,
    ask: |_, _, _| vec!["# add to its command line: -XX:+UseLargePages".into()],
    names_page_size: |instance| instance.setting_value("largepagesizeinbytes").is_some_and(|value| value != "0"),
    takes_page_size: |_| true,
    reads_folder: |process| {
        let arguments = process.command.known().into_iter().flatten();
        let file =
            |word: &'static str| move |given: &str| given.strip_prefix(word).is_some_and(|it| !it.starts_with('/'));
        let mut arguments = arguments.map(String::as_str);
        arguments.any(|word| ["@", "-XX:VMOptionsFile=", "-XX:Flags="].into_iter().any(|start| file(start)(word)))
    },
    ..Kind::PLAIN
};

/// The name of the heap among the segments.
const HEAP: &str = "heap";

/// The name of all else that huge pages can back.
const REST: &str = "code cache and tables";

/// Smaller machines are too many and too small to matter, unless they ask for large pages.
const SMALLEST_HEAP: Bytes = Bytes::from_mib(256);

/// Private mappings below this are not the heap.
const SMALLEST_PART: Bytes = Bytes::from_mib(16);

/// Compressed references reach no further, so a heap that may be smaller lies below (HotSpot's `OopEncodingHeapMax`).
const COMPRESSED_END: u64 = 32 << 30;

/// HotSpot cuts longer strings off (`PerfMaxStringConstLength`, 1024).
const LONGEST_TOLD: usize = 1000;

fn find(scene: &Scene<'_>, found: &mut Found) {
    for process in scene.host.processes.known().into_iter().flatten() {
        let data = hsperf_path(process);
        if KIND.runs(options::program(process)) || data.is_some() {
            let files = scene.files_of(process);
            let mut door = Door::new(&files);
            let instance = instance(scene, &mut door, process, data);
            if matters(&instance) {
                found.add(instance);
                found.add_unread(process, door.unread);
            }
        }
    }
}

fn matters(instance: &Instance) -> bool {
    let heap =
        instance.segments.iter().filter(|segment| segment.name == HEAP).map(|segment| segment.size).sum::<Bytes>();
    let most = instance.setting_value("maxheapsize").and_then(flags::size).unwrap_or_default();
    heap.max(most) >= SMALLEST_HEAP || matches!(instance.asked, Asked::Try | Asked::Must)
}

/// HotSpot maps the file in which it tells of itself: the mapping names it, wherever its container keeps it.
fn hsperf_path(process: &Process) -> Option<&str> {
    let mappings = process.mappings.known()?;
    let data = mappings.iter().find(|mapping| mapping.shared && mapping.name.contains("/hsperfdata_"))?;
    Some(data.name.as_str())
}

fn instance(scene: &Scene<'_>, door: &mut Door<'_>, process: &Process, data: Option<&str>) -> Instance {
    let host = scene.host;
    let path = data.map(|path| options::as_reader_opens(host, process, options::as_process_names(process, path)));
    let told = path.as_deref().and_then(|path| door.parse(path, hsperf::parse).into_known()).unwrap_or_default();
    let mut all_words = true;
    // Its own word holds what the environment added, too.
    let (flags, place) = match (told.get("java.rt.vmArgs"), path) {
        (Some(arguments), Some(path)) if arguments.len() < LONGEST_TOLD => {
            let by_file = told.get("java.rt.vmFlags").map_or("", String::as_str);
            let by_file: Vec<String> = by_file.split_whitespace().map(|word| format!("-XX:{word}")).collect();
            (Flags::read(by_file.iter().map(String::as_str).chain(arguments.split_whitespace())), path)
        }
        // Cut off, perhaps within a word: the command line goes on from there, and what it repeats counts.
        (Some(arguments), Some(path)) => {
            let whole = arguments.rsplit_once(char::is_whitespace).map_or("", |(whole, _)| whole);
            let (command, all) = command_words(scene, door, process);
            all_words = all;
            (Flags::read(whole.split_whitespace().chain(command.iter().map(String::as_str))), path)
        }
        _ => {
            let (command, all) = command_words(scene, door, process);
            all_words = all;
            (Flags::read(command.iter().map(String::as_str)), Place::command_line(process.pid).file)
        }
    };
    // The environment is never read, and may ask for what the command line does not: without the machine's own word, only one
    // that has none to give may be taken at its command line, and not where huge pages show that it was told more.
    let on_huge = |mapping: &Mapping| segments::mapping_is_huge(host, mapping).get() == Some(true);
    let silent = data.is_none()
        && process.command.is_known()
        && process.mappings.known().is_some_and(|mappings| !mappings.iter().any(on_huge));
    let flags_known = all_words && (silent || told.contains_key("java.rt.vmArgs"));

    let in_path = || process.executable.known().and_then(|path| versions::in_path(path));
    let version = told.get("java.property.java.version").filter(|text| is_version(text)).cloned().or_else(in_path);
    // What is no version for people may still begin with the release.
    let in_folder = || process.executable.known().and_then(|path| of_folder(path));
    let running = told.get("java.property.java.version").cloned().or_else(|| version.clone()).or_else(in_folder);
    let memory = container::memory(scene, process, &flags, running.as_deref());
    let page = asked_page_size(host, &flags, running.as_deref());
    let heap = heap(process, &flags, page.get());
    let reserved = reserved(process, &heap, &flags, memory.as_ref());
    let heap: BTreeSet<u64> = heap.iter().map(|mapping| mapping.start).collect();
    let heap_segments = segments::of(host, &[process.pid], |_, mapping| heap.contains(&mapping.start));
    let large_pages = flags.on("UseLargePages") && !flags.on("UseTransparentHugePages");

    let named = process.command.known().and_then(|arguments| flags::program(arguments));
    let name = named.unwrap_or_else(|| options::program(process)).to_owned();
    let mut instance = scene.instance(Engine::Jvm, name, process, Vec::new());
    instance.version = version.into();
    let place = Some(Place { file: place, line: 0 });
    for (name, value) in &flags.0 {
        let setting = Setting { name: (*name).to_owned(), value: shown(name, value).to_owned(), place: place.clone() };
        instance.settings.insert(name.to_ascii_lowercase(), setting);
    }
    let setting = instance.settings.get("uselargepages").cloned();
    let by_default = || Setting { name: "UseLargePages".into(), value: "false".into(), place: None };
    instance.setting = setting.or_else(|| flags_known.then(by_default));
    if flags.on("UseTransparentHugePages") {
        instance.traits.push(Trait::TransparentPages);
        instance.setting = instance.settings.get("usetransparenthugepages").cloned();
    }
    let explicit = flags.get("UseLargePages").is_some() || flags.on("UseTransparentHugePages");
    instance.asked = match (large_pages, flags_known || explicit) {
        // ZGC takes its heap from a hugetlb memfd or not at all; the others go on with small pages and a warning.
        (true, _) if flags.on("UseZGC") => Asked::Must,
        (true, _) => Asked::Try,
        (false, true) => Asked::No,
        (false, false) => Asked::Unknown,
    };
    instance.mechanism = if flags.on("UseSHM") { Mechanism::SysvShm } else { Mechanism::Mmap };
    instance.session_model = SessionModel::Threads;
    instance.asked_page_size = page;
    instance.segments = heap_segments.into_iter().map(|part| Segment { name: HEAP.into(), ..part }).collect();
    let heap_use = segments::huge_page_use(&instance.segments);
    instance.segments.extend(huge_rest(host, process, &heap));
    if heap_use == HugePageUse::All && large_pages {
        instance.segments.extend(refused(host, &instance, &flags, memory.as_ref()));
    }
    instance.huge_pages = segments::huge_page_use(&instance.segments);
    (instance.demand, instance.beside) = demand(host, &instance, &flags, reserved, memory.as_ref());
    // Where its classes are not shared, their space may follow the heap without a gap.
    let off = |word: &str| matches!(word, "-Xshare:off" | "-XX:-UseSharedSpaces");
    // The environment and argument files say it as well as the command line.
    let told_off = told.get("java.rt.vmArgs").is_some_and(|words| words.split_whitespace().any(off));
    let shares = |words: &Vec<String>| !words.iter().any(|word| off(word));
    let shares = running.as_deref().and_then(demand::release).is_some_and(|it| it >= SHARES)
        && process.command.known().is_some_and(shares)
        && !told_off;
    let reserved = reserved.filter(|_| shares);
    instance.next = next(host, &instance, &flags, reserved, memory.as_ref());
    if let Some(setting) = unclear(&flags, all_words, &place) {
        faults::take_in(&mut instance, &[Fault::unclear(setting, Place { file: String::new(), line: 0 })], false);
    }
    instance.perhaps = perhaps(host, &instance, &flags, reserved, memory.as_ref());
    instance
}

/// The virtual machine's own words of the command line, argument files in their place, and whether these are all of them.
fn command_words(scene: &Scene<'_>, door: &mut Door<'_>, process: &Process) -> (Vec<String>, bool) {
    let Some(arguments) = process.command.known() else { return (Vec::new(), false) };
    let (mut words, mut whole) = (Vec::new(), true);
    for word in flags::own_words(arguments).iter().skip(1) {
        let mut read = |file: &str| {
            let folder = options::directory(process).into_known().unwrap_or_default();
            let file = if file.starts_with('/') { file.to_owned() } else { format!("{folder}/{file}") };
            let read = door.read(&options::as_reader_opens(scene.host, process, &file)).into_known();
            whole &= read.is_some();
            flags::argument_file(&read.unwrap_or_default())
        };
        if let Some(file) = word.strip_prefix('@') {
            words.extend(read(file));
        } else if let Some(file) = word.strip_prefix("-XX:VMOptionsFile=") {
            words.extend(read(file));
        } else if let Some(file) = word.strip_prefix("-XX:Flags=") {
            // Read before all others, wherever it stands.
            let first: Vec<String> = read(file).into_iter().map(|word| format!("-XX:{word}")).collect();
            words.splice(..0, first);
        } else {
            words.push(word.clone());
        }
    }
    (words, whole)
}

/// What nobody knows of the flags that the next start takes: a value, or a file that they stand in.
fn unclear(flags: &Flags, all_words: bool, place: &Option<Place>) -> Option<Setting> {
    let setting = |name: &str, value: &str| Setting {
        name: name.to_owned(),
        value: shown(name, value).to_owned(),
        place: place.clone(),
    };
    let unread = || (!all_words).then(|| setting("a file of options", NO_VALUE));
    flags.unclear().map(|(name, value)| setting(name, value)).or_else(unread)
}

/// The heap's mappings. ZGC's is a memfd that says so, that of UseSHM a System V segment. Any other is the largest
/// unbroken stretch of private memory that is no larger than the heap may be, below the end of compressed references
/// if there is one: with large pages the code cache of 240 MiB can be larger than a small heap, and the kernel may
/// place more memory right beside it.
fn heap<'a>(process: &'a Process, flags: &Flags, page: Option<PageSize>) -> Vec<&'a Mapping> {
    let mappings: Vec<_> =
        process.mappings.known().into_iter().flatten().filter(|mapping| mapping.accessible).collect();
    let shared = |start: &str| -> Vec<&'a Mapping> {
        mappings.iter().copied().filter(|mapping| mapping.shared && mapping.name.starts_with(start)).collect()
    };
    let named = shared("/memfd:java_heap");
    if !named.is_empty() {
        return named;
    }
    let segment = if flags.on("UseSHM") { shared("/SYSV") } else { Vec::new() };
    if !segment.is_empty() {
        return segment;
    }
    let mut stretches: Vec<Vec<&Mapping>> = Vec::new();
    for mapping in mappings.into_iter().filter(|mapping| is_private_memory(mapping)) {
        let goes_on = |stretch: &Vec<&Mapping>| stretch.last().is_some_and(|last| last.end == mapping.start);
        match stretches.last_mut().filter(|stretch| goes_on(stretch)) {
            Some(stretch) => stretch.push(mapping),
            None => stretches.push(vec![mapping]),
        }
    }
    let size = |stretch: &Vec<&Mapping>| stretch.iter().map(|mapping| mapping.size()).sum::<Bytes>();
    // It is rounded up to its pages.
    let rounding = page.map_or(SMALLEST_PART, |page| page.bytes().max(SMALLEST_PART));
    let limit = flags.size("MaxHeapSize").map_or(Bytes(u64::MAX), |most| most + rounding);
    let fits = |stretch: &&Vec<&Mapping>| (SMALLEST_PART..=limit).contains(&size(stretch));
    let compressed = |stretch: &Vec<&Mapping>| stretch.first().is_some_and(|first| first.start < COMPRESSED_END);
    let largest = stretches.iter().filter(fits).max_by_key(|stretch| (compressed(stretch), size(stretch)));
    largest.cloned().unwrap_or_default()
}

fn is_private_memory(mapping: &Mapping) -> bool {
    !mapping.shared && (mapping.name.is_empty() || mapping.name.starts_with("/anon_hugepage"))
}

/// What else the machine holds in huge pages, as one of each page size: code cache, the collector's bitmaps and card tables.
fn huge_rest(host: &Host, process: &Process, heap: &BTreeSet<u64>) -> Vec<Segment> {
    let huge = |mapping: &Mapping| segments::mapping_is_huge(host, mapping).get() == Some(true);
    let rest = segments::of(host, &[process.pid], |_, mapping| {
        mapping.accessible && is_private_memory(mapping) && huge(mapping) && !heap.contains(&mapping.start)
    });
    let mut by_page = BTreeMap::<Option<PageSize>, Segment>::new();
    for segment in rest {
        let name = REST.to_owned();
        let size = segment.size;
        let page = segment.page_size.get();
        let whole = by_page.entry(page).or_insert(Segment { name, size: Bytes::ZERO, ..segment });
        whole.size += size;
    }
    by_page.into_values().collect()
}

/// `LargePageSizeInBytes` is the largest size that may be used since JDK 16, and before that has no effect. 0, no word and a
/// size that the kernel has no pages of mean the default (`os::large_page_init`).
fn asked_page_size(host: &Host, flags: &Flags, version: Option<&str>) -> Observed<PageSize> {
    let counts = version.and_then(demand::release).is_none_or(|release| release >= demand::USES_SMALLER_PAGES);
    let given = flags.size("LargePageSizeInBytes").and_then(|size| PageSize::new(size.get()));
    let is_there = |page: &PageSize| match &host.pools {
        Observed::Known(pools) => pools.iter().any(|pool| pool.page_size == *page),
        _ => true,
    };
    given.filter(|page| counts && is_there(page)).map_or_else(|| host.default_huge_page.clone(), Observed::Known)
}

/// What the machine asked for beside its heap and did not get on huge pages, as one: none of it has a mapping of its own on
/// base pages, where all is reserved and taken as it is needed.
fn refused(host: &Host, instance: &Instance, flags: &Flags, memory: Option<&container::Memory>) -> Option<Segment> {
    let page = instance.asked_page_size.get()?;
    let (heap, rest): (Vec<_>, Vec<_>) = instance.segments.iter().partition(|segment| segment.name == HEAP);
    let heap: Bytes = heap.iter().map(|segment| segment.size).sum();
    let held: Bytes = rest.iter().map(|segment| segment.size).sum();
    let estimate = demand::estimate(&machine(host, instance, flags, memory), page, Some(heap))?;
    let least = estimate.rest.get() / 100 * u64::from(100_u8.saturating_sub(estimate.error_percent));
    let missing = estimate.rest.saturating_sub(held);
    (held.get() < least).then(|| Segment {
        kind: SegmentKind::Private,
        name: REST.into(),
        size: missing,
        page_size: host.base_page.clone(),
        huge: Observed::Known(false),
        mappers: 1,
        identity: (u64::from(instance.pid), 0),
    })
}

fn machine<'a>(
    host: &Host,
    instance: &'a Instance,
    flags: &'a Flags,
    memory: Option<&container::Memory>,
) -> demand::Machine<'a> {
    demand::Machine {
        flags,
        version: instance.version.known().map(String::as_str),
        memory: memory.map(|memory| memory.size),
        processors: host.processors.online.get(),
    }
}

/// Wholly on huge pages, and no heap that is still to grow, the mappings are the demand; otherwise what the flags make of it.
/// `reserved` is the heap of a running machine that was told none.
fn demand(
    host: &Host,
    instance: &Instance,
    flags: &Flags,
    reserved: Option<Bytes>,
    memory: Option<&container::Memory>,
) -> (Option<Demand>, Vec<Demand>) {
    let Some(page_size) = instance.asked_page_size.get() else { return (None, Vec::new()) };
    if instance.huge_pages == HugePageUse::All && !grows(instance, flags) {
        return segments::demands(&instance.segments, page_size);
    }
    let told = flags.size("MaxHeapSize").is_some();
    if instance.pid != 0 && !told && reserved.is_none() {
        return (None, Vec::new());
    }
    let heap = reserved.filter(|_| instance.pid != 0 && !told);
    let estimate = demand::estimate(&machine(host, instance, flags, memory), page_size, heap);
    let mut demands = estimate.map(|estimate| estimate.demands(page_size)).unwrap_or_default().into_iter();
    (demands.next(), demands.collect())
}

/// `17-openjdk-amd64` of `/usr/lib/jvm/java-17-openjdk-amd64/bin/java`: it begins with the release.
fn of_folder(path: &str) -> Option<String> {
    let named = |part: &str| part.strip_prefix("java-").or_else(|| part.strip_prefix("jdk-")).map(str::to_owned);
    path.split('/').filter_map(named).find(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// From this release on classes come from an archive of the JDK's own, below the heap (JEP 341).
const SHARES: u32 = 12;

/// What its next start asks for, where a heap that it chooses by the memory it finds comes out otherwise than this one: the
/// limit of its cgroup was changed since. What differs by less than the estimate's error says nothing.
fn next(
    host: &Host,
    instance: &Instance,
    flags: &Flags,
    reserved: Option<Bytes>,
    memory: Option<&container::Memory>,
) -> Observed<NextStart> {
    let asks = matches!(instance.asked, Asked::Try | Asked::Must);
    let (Some(now), Some(memory), Some(page)) = (reserved, memory, instance.asked_page_size.get()) else {
        return Observed::Absent;
    };
    if !asks || instance.pid == 0 || flags.size("MaxHeapSize").is_some() {
        return Observed::Absent;
    }
    let then = demand::by_memory(memory.size, flags);
    let size = Size::about(then, demand::GUESSED_ERROR, Vec::new(), None);
    if now >= size.least && now <= size.most {
        return Observed::Absent;
    }
    let estimate = demand::estimate(&machine(host, instance, flags, Some(memory)), page, None);
    let demands = estimate.map(|estimate| estimate.demands(page)).unwrap_or_default();
    let setting = memory.limit.clone().or_else(|| instance.setting.clone());
    Observed::Known(NextStart { asked: instance.asked, setting, demands })
}

/// What its next start may ask for, where the heap that it would choose now is larger than this one by less than what [`next`]
/// goes by.
fn perhaps(
    host: &Host,
    instance: &Instance,
    flags: &Flags,
    reserved: Option<Bytes>,
    memory: Option<&container::Memory>,
) -> Vec<Demand> {
    let (Some(now), Some(memory), Some(page)) = (reserved, memory, instance.asked_page_size.get()) else {
        return Vec::new();
    };
    let told = flags.size("MaxHeapSize").is_some();
    if instance.pid == 0 || told || instance.huge_pages != HugePageUse::All {
        return Vec::new();
    }
    let machine = machine(host, instance, flags, Some(memory));
    let of = |heap| demand::estimate(&machine, page, heap).map(|estimate| estimate.demands(page)).unwrap_or_default();
    let (then, now) = (of(None), of(Some(now)));
    let is_there = |demand: &Demand| now.iter().any(|it| it.page_size == demand.page_size && it.pages >= demand.pages);
    let more = then.into_iter().filter(|demand| !is_there(demand)).collect();
    next_start::perhaps(instance, more, false)
}

/// How large the heap may become by the address space that is reserved for it: what follows it without a gap. More than a
/// machine of this memory takes is not its heap's alone: others reserve what they like beside it, and nobody will touch it.
fn reserved(process: &Process, heap: &[&Mapping], flags: &Flags, memory: Option<&container::Memory>) -> Option<Bytes> {
    // ZGC reserves many times what it may take.
    let first = heap.first().filter(|first| is_private_memory(first))?;
    let (start, mut end) = (first.start, first.end);
    for mapping in process.mappings.known()?.iter().filter(|mapping| is_private_memory(mapping)) {
        if mapping.start <= end && mapping.end > end && mapping.start >= start {
            end = mapping.end;
        }
    }
    let reserved = Bytes(end.saturating_sub(start));
    let by_memory = memory.map(|memory| (memory.size, demand::by_memory(memory.size, flags)));
    let beyond = by_memory.filter(|(all, most)| reserved > (*all).max(*most));
    Some(beyond.map_or(reserved, |(_, most)| most))
}

/// ZGC begins with `-Xms` and all else of what it needs; what it needs was reckoned with `-Xmx`.
fn begins_with(instance: &Instance, page: PageSize, needs: PageCount) -> Option<PageCount> {
    let size = |name: &str| instance.setting_value(name).and_then(flags::size);
    let (first, most) = (size("initialheapsize")?, size("maxheapsize")?);
    let later = page.pages_for(most).saturating_sub(page.pages_for(first));
    (instance.setting_value("usezgc") == Some("true") && instance.next.is_absent()).then(|| needs.saturating_sub(later))
}

/// Whether a heap of ZGC's is not yet what it may become.
fn grows(instance: &Instance, flags: &Flags) -> bool {
    let heap =
        instance.segments.iter().filter(|segment| segment.name == HEAP).map(|segment| segment.size).sum::<Bytes>();
    flags.on("UseZGC") && flags.size("MaxHeapSize").is_some_and(|most| heap < most)
}

#[cfg(test)]
mod tests;
