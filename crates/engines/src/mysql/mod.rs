//! MySQL, Percona Server and MariaDB.

mod ask;
mod asleep;
pub mod cnf;
mod demand;
mod described;
mod files;
mod kept;
mod known;
mod log;
pub mod persisted;
mod settable;
mod start;
mod values;
mod work;

use hugewise_host::capture::shape::{Shape, is_version};
use hugewise_host::{Door, ParseError, Source};
use hugewise_model::instance::{Mechanism, NextStart, Segment, SegmentKind, SessionModel};
use hugewise_model::{Asked, Bytes, Engine, Host, HugePageUse, Instance, Mapping, Observed, Process};

use crate::kind::beneath;
use crate::next::{self, Files, Size};
use crate::settings::Settings;
use crate::{By, Found, Kind, Scene, SettingsBy, Start, Takes, faults, options, segments};
use demand::{Sizes, demand};
use files::Groups;

/// MySQL and its descendants; which one it is shows in the instance.
pub static KIND: Kind = Kind {
    engine: Engine::MySql,
    names: &[(Engine::MySql, "MySQL"), (Engine::MariaDb, "MariaDB")],
    programs: &["mysqld", "mysqld-debug", "mariadbd"],
    fewer_sessions: "fewer connections in each client's own pool, or a thread pool (MariaDB: thread_handling=pool-of-threads; \
                     MySQL: a plugin of its Enterprise edition)",
    thread_pool,
    find,
    asleep: asleep::asleep,
    starting: Some(&start::STARTING),
    services: &["mysql", "mariadb", "mysqld"],
    describe: Some((By::Config, described::describe)),
    texts: &[
        ("--defaults-file", Shape::Path),
        ("--defaults-extra-file", Shape::Path),
        ("--defaults-group-suffix", Shape::Names),
        ("includedir", Shape::Path),
        ("user", Shape::Names),
        ("datadir", Shape::Path),
        ("socket", Shape::Path),
        ("log_error", Shape::Path),
    ],
    companions: &["mysqld_safe", "mariadbd-safe"],
    forms: kept::FORMS,
    log_format: Some(&log::FORMAT),
    start: Start {
        // The buffer pool comes in chunks, of 128 MiB by default.
        takes: |_| Takes::Pieces(Bytes::from_mib(128)),
        stretches: demand::in_stretches,
        // MariaDB 10.11.12 and later, by where the kernel puts its buffer pool. An estimate has them within.
        by_chance: demand::by_chance,
        ..Start::PLAIN
    },
    against_gib_pages: Some("its buffer pool comes in chunks below 1 GiB"),
    asks_by: "large-pages=ON",
    settings_by: SettingsBy::Plan(&settable::SETTABLE),
    connect: Some((ask::question, ask::answer)),
    ask: |_, instance, _| settable::ask(instance),
    work_memory: work::memory,
    logs,
    reads_folder: |_| true,
    accounts: &["mysql", "_mysql", "mariadb", "percona"],
    options: &[
        "--no-defaults",
        "--defaults-file",
        "--defaults-extra-file",
        "--defaults-group-suffix",
        "--innodb-buffer-pool-size",
        "--innodb-buffer-pool-chunk-size",
        "--innodb-buffer-pool-instances",
        "--innodb-log-buffer-size",
        "--key-buffer-size",
        "--key-cache-block-size",
        "--key-cache-segments",
        "--key-cache-file-hash-size",
        "--aria-pagecache-buffer-size",
        "--aria-pagecache-file-hash-size",
        "--aria-block-size",
        "--max-connections",
        "--thread-handling",
        "--thread-pool-size",
        "--port",
        "-P",
        "--socket",
        "--datadir",
        "--bootstrap",
        "--help",
        "--version",
    ],
    settings: &[
        "large_pages",
        "innodb_buffer_pool_size",
        "innodb_buffer_pool_chunk_size",
        "innodb_buffer_pool_instances",
        "innodb_log_buffer_size",
        "key_buffer_size",
        "key_cache_block_size",
        "key_cache_segments",
        "key_cache_file_hash_size",
        "aria_pagecache_buffer_size",
        "aria_pagecache_file_hash_size",
        "aria_block_size",
        "user",
        "max_connections",
        "thread_handling",
        "thread_pool_size",
        "port",
        "socket",
        "datadir",
        "skip_networking",
        "log_error",
        "sort_buffer_size",
        "join_buffer_size",
        "read_buffer_size",
        "read_rnd_buffer_size",
        "include",
        "includedir",
    ],
    ..Kind::PLAIN
};

/// MariaDB's, by the command line and the files: `thread_handling` is `one-thread-per-connection` by default on Linux, and
/// `thread_pool_size` the number of processors (MariaDB Knowledge Base, "Thread Pool System Status Variables").
fn thread_pool(instance: &Instance) -> Option<String> {
    let handling = instance.settings.get("thread_handling")?;
    if instance.engine != Engine::MariaDb || !is_pool(&handling.value) {
        return None;
    }
    let size = instance.settings.get("thread_pool_size");
    let size = size.map_or_else(|| "thread_pool_size: the number of processors".to_owned(), ToString::to_string);
    Some(format!("{handling}, {size}"))
}

/// A value may be written as its beginning, or as its number.
fn is_pool(handling: &str) -> bool {
    let handling = handling.to_ascii_lowercase();
    handling == "2" || (!handling.is_empty() && "pool-of-threads".starts_with(&handling))
}

fn find(scene: &Scene<'_>, found: &mut Found) {
    for main in scene.host.processes.known().into_iter().flatten() {
        let program = options::program(main);
        if !KIND.runs(program) || found.has_process(main.pid) || passing(main) {
            continue;
        }
        let files = scene.files_of(main);
        let shared = scene.host_files_for(main);
        let mut door = Door::new(&files);
        let instance = instance(scene, &mut door, &shared, main);
        found.add_unread(main, door.unread);
        found.add(instance);
    }
}

/// A start that serves nobody.
fn passing(main: &Process) -> bool {
    let is = |argument: &String| ["--bootstrap", "--help", "-?", "--version", "-V"].contains(&argument.as_str());
    main.command.known().is_some_and(|arguments| arguments.iter().any(is))
}

fn instance<'d>(scene: &Scene<'_>, door: &mut Door<'d>, shared: &'d dyn Source, main: &Process) -> Instance {
    let inside = |path: &str| options::as_reader_opens(scene.host, main, path);
    let data = data_directory(main);
    let version = match data.known() {
        Some(data) => version(door, &inside(data)),
        None => Observed::Absent,
    };
    let mariadb =
        is_mariadb(scene, door.source, main, data.known().map(|data| inside(data)).as_deref(), version.known());
    let suffix = main.command.known().and_then(|words| options::value(words, "defaults-group-suffix"));
    let groups = Groups { mariadb, version: version.known().cloned(), suffix: suffix.unwrap_or_default().to_owned() };
    let before = door.seen.len();
    let mut settings = files::read(scene.host, door, shared, main, &groups);
    if let (false, Some(data)) = (mariadb, data.known()) {
        persisted::read(door, data, &inside(data), &mut settings);
    }
    let files = door.seen.split_off(before);
    let sizes = Sizes::of(&settings, mariadb, version.known().and_then(|version| numbers(version)));
    for (name, default) in [("large_pages", "OFF"), ("innodb_buffer_pool_size", "128M"), ("max_connections", "151")] {
        settings.fill_in(name, default);
    }

    let port = settings.value_or("port", "3306").into_known();
    let engine = if mariadb { Engine::MariaDb } else { Engine::MySql };
    let name = port.clone().unwrap_or_else(|| main.pid.to_string());
    let mut instance = scene.instance(engine, name, main, Vec::new());
    instance.endpoints = endpoints(&settings, port);
    instance.data_directory =
        settings.get("datadir").known().map(|setting| setting.value.clone()).map_or(data, Observed::Known);
    instance.session_model = SessionModel::Threads;
    instance.max_sessions = settings.value_or("max_connections", "151").parse(|value| value.parse::<u64>());
    instance.asked = asked(&settings);
    instance.setting = settings.get("large_pages").known().map(|setting| (*setting).clone());
    instance.asked_page_size = scene.host.default_huge_page.clone();

    instance.segments = memory(scene, main, sizes.as_ref());
    if main.mappings.is_known() {
        instance.huge_pages = segments::huge_page_use(&instance.segments);
    }
    instance.mechanism = mechanism(mariadb, version.known().map(String::as_str), &instance.segments);
    instance.version = version;
    let page = instance.asked_page_size.get();
    if let Some(page) = page {
        (instance.demand, instance.beside) = demand(instance.huge_pages, &instance.segments, sizes.as_ref(), page);
    }
    instance.next = next(&instance, &settings, sizes.as_ref());
    let unchanged = next::are_unchanged(door.source, main, &files);
    if let (Some(page), Some(sizes), HugePageUse::All) = (page, sizes.as_ref(), instance.huge_pages) {
        instance.perhaps = next::perhaps(&instance, sizes.least_demand(page).into_iter().collect(), unchanged);
    }
    if let (Some(page), true) = (page, grew(&instance)) {
        // What its files come to is not what runs.
        (instance.demand, instance.beside) = segments::demands(&instance.segments, page);
    }
    let faults = &settings.faults;
    let files: Vec<String> = files.into_iter().chain(faults.iter().map(|fault| inside(&fault.place.file))).collect();
    faults::take_in(&mut instance, faults, !files.is_empty() && next::are_unchanged(door.source, main, &files));
    instance.settings = settings.values;
    instance
}

/// What its option files and its command line make of its next start. The buffer pool is one stretch, or several, among
/// others of private memory: on base pages only that it is too large for what is mapped tells of a change.
fn next(instance: &Instance, settings: &Settings, sizes: Option<&Sizes>) -> Observed<NextStart> {
    if let Some(why) = settings.missing().filter(|_| instance.asked == Asked::Unknown) {
        return why.as_ref().and_then(|()| Observed::Absent);
    }
    let page = instance.asked_page_size.get();
    let size = sizes.zip(page).map(|(sizes, page)| {
        let (least, most) = sizes.range(page, instance.huge_pages == HugePageUse::All);
        let demands = sizes.demand(page).into_iter().collect();
        let setting = settings.values.get("innodb_buffer_pool_size").cloned();
        Size { least, most, demands, setting, is_other: false }
    });
    next::start(instance, Files { asked: instance.asked, setting: instance.setting.clone(), page: None, size })
}

/// Whether its files come to other memory than is mapped.
fn grew(instance: &Instance) -> bool {
    let setting = instance.next.known().and_then(|next| next.setting.as_ref());
    setting.is_some_and(|setting| setting.name == "innodb_buffer_pool_size")
}

/// Where the server works is its data directory; `--datadir` where that may not be seen.
fn data_directory(main: &Process) -> Observed<String> {
    let option = || options::value(main.command.known()?, "datadir").filter(|path| path.starts_with('/'));
    match option() {
        Some(path) => Observed::Known(path.trim_end_matches('/').to_owned()),
        None => options::directory(main),
    }
}

/// The version that last opened the data, as its files tell (`data` as the reader opens it):
/// `10.11.19-MariaDB`, `8.0.36`.
fn version(door: &mut Door<'_>, data: &str) -> Observed<String> {
    let source = door.source;
    let mut read = |name: &str| door.parse(&format!("{data}/{name}"), parse_version);
    let flag = || {
        let names = source.list(data);
        let flag = |name: &String| {
            let version = name.strip_prefix("debian-")?.strip_suffix(".flag")?;
            is_version(version).then(|| version.to_owned())
        };
        names.and_then(|names| names.iter().find_map(flag).into())
    };
    read("mariadb_upgrade_info").or_else_absent(|| read("mysql_upgrade_info")).or_else_absent(flag)
}

fn parse_version(bytes: &[u8]) -> Result<String, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let version = text.lines().next().unwrap_or_default().trim_matches(|c: char| c.is_whitespace() || c == '\0');
    if is_version(version) { Ok(version.to_owned()) } else { Err(ParseError::at(1, "no version")) }
}

/// MariaDB was called mysqld up to 10.4, and is a link of that name still; only it has Aria.
fn is_mariadb(
    scene: &Scene<'_>,
    files: &dyn Source,
    main: &Process,
    data: Option<&str>,
    version: Option<&String>,
) -> bool {
    let first = main.command.known().and_then(|words| words.first());
    let link = || files.link(&options::as_reader_opens(scene.host, main, first?)).into_known();
    let names = || files.list(data?).into_known();
    let aria = || names().is_some_and(|names| names.iter().any(|name| name == "aria_log_control"));
    options::program(main) == "mariadbd"
        || version.is_some_and(|version| version.contains("MariaDB"))
        || aria()
        || link().is_some_and(|target| options::file_name(&target) == "mariadbd")
}

fn endpoints(settings: &Settings, port: Option<String>) -> Vec<String> {
    let listens = settings.get("skip_networking").known().is_none_or(|setting| !values::is_on(&setting.value));
    let port = port.filter(|port| listens && port != "0");
    let socket = settings.get("socket").known().map(|setting| setting.value.clone());
    port.into_iter().chain(socket).collect()
}

/// `large_pages` never refuses: what cannot be had on huge pages is had without.
fn asked(settings: &Settings) -> Asked {
    match settings.value_or("large_pages", "OFF").known() {
        Some(value) if values::is_on(value) => Asked::Try,
        Some(_) => Asked::No,
        None => Asked::Unknown,
    }
}

/// `--log-error`, or the host's name in the data directory.
fn logs(host: &Host, _: &dyn Source, _: &str, instance: &Instance) -> Vec<String> {
    let command = host.process(instance.pid).and_then(|process| process.command.known());
    let given = command.and_then(|command| options::value(command, "log-error"));
    let given = given.or_else(|| instance.setting_value("log_error")).filter(|path| !path.is_empty());
    let folder = instance.data_directory.known().map(String::as_str);
    let own = folder.zip(host.name.known()).map(|(folder, name)| beneath(folder, &format!("{name}.err")));
    given.map(|path| beneath(folder.unwrap_or("/"), path)).into_iter().chain(own).collect()
}

/// Up to 8.0.25 MySQL asks for System V memory; from then on it maps, as MariaDB has since 10.5.
fn mechanism(mariadb: bool, version: Option<&str>, segments: &[Segment]) -> Mechanism {
    let mapped_since = if mariadb { (10, 5, 0) } else { (8, 0, 26) };
    let old = version.and_then(numbers).is_some_and(|version| version < mapped_since);
    if old || segments.iter().any(|segment| segment.kind == SegmentKind::SystemV) {
        Mechanism::SysvShm
    } else {
        Mechanism::Mmap
    }
}

/// `10.11.19-MariaDB` in numbers.
fn numbers(version: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
    Some((numbers.next()?, numbers.next()?, numbers.next().unwrap_or_default()))
}

/// The stretches that the buffer pool and the caches are in.
///
/// On huge pages the kernel names them. On base pages they are private stretches like any other, and
/// only their size tells: an arena of the C library never exceeds 64 MiB. Once stretches on huge pages
/// hold the whole pool, others cannot be it, but where all of it is less than the settings come to, a
/// stretch that was refused is among the others of at least its size.
fn memory(scene: &Scene<'_>, main: &Process, sizes: Option<&Sizes>) -> Vec<Segment> {
    const ARENA: u64 = 64 << 20;
    let huge = |mapping: &Mapping| segments::mapping_is_huge(scene.host, mapping) == Observed::Known(true);
    let on_huge_pages = segments::of(scene.host, &[main.pid], |_, mapping| mapping.accessible && huge(mapping));
    let chunks = |chunk: u64| on_huge_pages.iter().map(|segment| segment.size).filter(move |size| size.get() >= chunk);
    let mut smallest = sizes.map_or(ARENA, |sizes| sizes.pool.clamp(4 << 20, ARENA));
    if let Some(sizes) = sizes.filter(|sizes| chunks(sizes.chunk).sum::<Bytes>().get() >= sizes.pool) {
        let held: Bytes = on_huge_pages.iter().map(|segment| segment.size).sum();
        match scene.host.default_huge_page.get().and_then(|page| sizes.refused(held, page)) {
            Some(refused) => smallest = refused.get(),
            None => return on_huge_pages,
        }
    }
    segments::of(scene.host, &[main.pid], |_, mapping| {
        let anonymous = !mapping.shared && mapping.inode == 0 && mapping.name.is_empty();
        let system_v = mapping.shared && segments::kind(scene.host, mapping) == SegmentKind::SystemV;
        mapping.accessible && (huge(mapping) || ((anonymous || system_v) && mapping.size().get() >= smallest))
    })
}

#[cfg(test)]
mod tests;
