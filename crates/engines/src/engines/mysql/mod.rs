//! MySQL, Percona Server and MariaDB.

pub mod cnf;
mod demand;
mod described;
mod files;
mod known_options;
mod live_settings;
mod log;
mod meanings;
mod messages;
pub mod persisted;
mod redaction;
mod settable;
mod start;
mod stopped;
mod values;
mod work_memory;

use hugewise_host::capture::shape::{ValueShape, is_version};
use hugewise_host::{FactReader, ParseError, Source};
use hugewise_model::instance::{Mechanism, NextStart, Segment, SegmentKind, SessionModel};
use hugewise_model::{
    Bytes, Engine, Host, HugePageMode, HugePageUse, Instance, Mapping, Observed, Process,
};

use crate::shared::kind::{
    CaptureRules, LogSources, MemoryBehavior, PageSizeChoice, Recognition, RestartBehavior,
    SessionBehavior, SettingAdvice, resolve_log_path,
};
use crate::shared::next_start::{self, NextStartFiles, NextStartSize};
use crate::shared::settings::ServerSettings;
use crate::shared::{faults, options, segments};
use crate::{
    DescribedBy, EngineContext, EngineKind, FoundInstances, SettingsBy, StartBehavior, Takes,
    each_known,
};
use demand::{AllocationSizes, compute_demand};
use files::OptionGroups;

pub(crate) static KIND: EngineKind = EngineKind {
    engine: Engine::MySql,
    names: &[(Engine::MySql, "MySQL"), (Engine::MariaDb, "MariaDB")],
    recognition: Recognition {
        programs: &["mysqld", "mysqld-debug", "mariadbd"],
        find_running: find_mysql_instances,
        find_stopped: stopped::find_stopped_servers,
        services: &["mysql", "mariadb", "mysqld"],
        companions: &["mysqld_safe", "mariadbd-safe"],
        wrappers: &["mysqld_safe", "mariadbd-safe", "mysqld_multi", "galera_new_cluster"],
        accounts: &["mysql", "_mysql", "mariadb", "percona"],
        ..Recognition::PLAIN
    },
    capture: CaptureRules {
        value_shapes: &[
            ("--defaults-file", ValueShape::Path),
            ("--defaults-extra-file", ValueShape::Path),
            ("--defaults-group-suffix", ValueShape::Names),
            ("includedir", ValueShape::Path),
            ("user", ValueShape::Names),
            ("datadir", ValueShape::Path),
            ("socket", ValueShape::Path),
            ("log_error", ValueShape::Path),
        ],
        forms: redaction::FORMS,
        reads_working_directory: |_| true,
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
        ..CaptureRules::PLAIN
    },
    logs: LogSources {
        paths: log_paths,
        format: Some(&log::FORMAT),
        messages: messages::MESSAGES,
        meanings: meanings::MEANINGS,
    },
    describe: Some((DescribedBy::Config, described::describe_mysql)),
    connect: Some((live_settings::build_query, live_settings::apply_reply)),
    start: StartBehavior {
        takes: |instance| Takes::Pieces(demand::piece_size(instance)),
        stretches: demand::in_stretches,
        // MariaDB from 10.11.12, by where the kernel puts its buffer pool. Estimates include it.
        by_chance: demand::by_chance,
        ..StartBehavior::PLAIN
    },
    restart: RestartBehavior { command_line: Some(&start::STARTING), ..RestartBehavior::PLAIN },
    page_size: PageSizeChoice {
        against_gib_pages: Some("its buffer pool comes in chunks below 1 GiB"),
        ..PageSizeChoice::PLAIN
    },
    memory: MemoryBehavior {
        work_memory: work_memory::estimate_work_memory,
        ..MemoryBehavior::PLAIN
    },
    sessions: SessionBehavior {
        fewer: "fewer connections in each client's own pool, or a thread pool (MariaDB: \
                thread_handling=pool-of-threads; MySQL: a plugin of its Enterprise edition)",
        thread_pool,
        ..SessionBehavior::PLAIN
    },
    settings: SettingAdvice {
        asks_by: "large-pages=ON",
        changed_by: SettingsBy::Plan(&settable::SETTABLE),
        commands: |_, instance, _| settable::huge_page_commands(instance),
        ..SettingAdvice::PLAIN
    },
    ..EngineKind::PLAIN
};

/// MariaDB's: `thread_handling` is `one-thread-per-connection` by default on Linux, and
/// `thread_pool_size` the number of processors (MariaDB Knowledge Base, "Thread Pool System Status
/// Variables").
fn thread_pool(instance: &Instance) -> Option<String> {
    let handling = instance.settings.get("thread_handling")?;
    if instance.engine != Engine::MariaDb || !is_pool(&handling.value) {
        return None;
    }
    let size = instance.settings.get("thread_pool_size");
    let size = size.map_or_else(
        || "thread_pool_size: the number of processors".to_owned(),
        ToString::to_string,
    );
    Some(format!("{handling}, {size}"))
}

/// A value may be cut short, or given as its number.
fn is_pool(handling: &str) -> bool {
    let handling = handling.to_ascii_lowercase();
    handling == "2" || (!handling.is_empty() && "pool-of-threads".starts_with(&handling))
}

fn find_mysql_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    for main in each_known(&scene.host.processes) {
        let program = options::program_name(main);
        if !KIND.is_server_program(program)
            || found.has_process(main.pid)
            || is_transient_start(main)
        {
            continue;
        }
        let files = scene.files_of(main);
        let shared = scene.host_files_for(main);
        let mut facts = FactReader::new(&files);
        let instance = build_instance(scene, &mut facts, &shared, main);
        found.add_unread(main, facts.unread);
        found.add(instance);
    }
}

fn is_transient_start(main: &Process) -> bool {
    let is = |argument: &String| {
        ["--bootstrap", "--help", "-?", "--version", "-V"].contains(&argument.as_str())
    };
    main.command.as_known().is_some_and(|arguments| arguments.iter().any(is))
}

fn fill_in_demands(
    instance: &mut Instance,
    settings: &ServerSettings,
    sizes: Option<&AllocationSizes>,
    unchanged: bool,
) {
    let page = instance.asked_page_size.get();
    if let Some(page) = page {
        (instance.demand, instance.other_demands) =
            compute_demand(instance.huge_pages, &instance.segments, sizes, page);
    }
    instance.next = predict_next_start(instance, settings, sizes);
    let Some(page) = page else { return };
    if let (Some(sizes), HugePageUse::All) = (sizes, instance.huge_pages) {
        let held = instance.segments.iter().map(|segment| page.pages_for(segment.size)).sum();
        let least = sizes.least_demand_of_holder(page, held).into_iter().collect();
        instance.possible_demands = next_start::possible_demands(instance, least, unchanged);
    }
    if has_grown(instance) {
        (instance.demand, instance.other_demands) =
            segments::segment_demands(&instance.segments, page);
    }
}

fn build_instance<'d>(
    scene: &EngineContext<'_>,
    facts: &mut FactReader<'d>,
    shared: &'d dyn Source,
    main: &Process,
) -> Instance {
    let inside = |path: &str| options::as_reader_opens(scene.host, main, path);
    let data = data_directory(main);
    let folder = data.as_known().map(|data| inside(data));
    let version =
        folder.as_ref().map_or(Observed::Absent, |folder| read_data_version(facts, folder));
    let mariadb = is_mariadb(scene, facts.source, main, folder.as_deref(), version.as_known());
    let groups = OptionGroups::new(main, mariadb, version.as_known().cloned());
    let before = facts.seen.len();
    let mut settings = files::read(scene.host, facts, shared, main, &groups);
    if let (false, Some(data)) = (mariadb, data.as_known()) {
        persisted::read(facts, data, &inside(data), &mut settings);
    }
    let files = facts.seen.split_off(before);
    let numbers = version.as_known().and_then(|version| parse_version_numbers(version));
    let sizes = AllocationSizes::from_settings(&settings, mariadb, numbers);
    for (name, default) in
        [("large_pages", "OFF"), ("innodb_buffer_pool_size", "128M"), ("max_connections", "151")]
    {
        settings.fill_in(name, default);
    }

    let engine = if mariadb { Engine::MariaDb } else { Engine::MySql };
    let mut instance = describe_by_settings(scene, main, engine, &settings, data);
    instance.segments = find_buffer_segments(scene, main, sizes.as_ref());
    if main.mappings.is_known() {
        instance.huge_pages = segments::huge_page_use(&instance.segments);
    }
    instance.mechanism = shared_memory_mechanism(
        mariadb,
        version.as_known().map(String::as_str),
        &instance.segments,
    );
    instance.version = version;
    let unchanged = next_start::are_unchanged(facts.source, main, &files);
    fill_in_demands(&mut instance, &settings, sizes.as_ref(), unchanged);
    let faults = &settings.faults;
    let unchanged = faults::predate_start(scene.host, facts.source, main, files, faults);
    faults::take_in(&mut instance, faults, unchanged);
    instance.settings = settings.values;
    instance
}

fn describe_by_settings(
    scene: &EngineContext<'_>,
    main: &Process,
    engine: Engine,
    settings: &ServerSettings,
    data: Observed<String>,
) -> Instance {
    let port = settings.value_or("port", "3306").into_known();
    let name = port.clone().unwrap_or_else(|| main.pid.to_string());
    let mut instance = scene.new_instance(engine, name, main, Vec::new());
    instance.endpoints = list_endpoints(settings, port);
    instance.data_directory = settings
        .get("datadir")
        .as_known()
        .map(|setting| setting.value.clone())
        .map_or(data, Observed::Known);
    instance.session_model = SessionModel::Threads;
    instance.max_sessions =
        settings.value_or("max_connections", "151").parse(|value| value.parse::<u64>());
    instance.asked = parse_huge_page_request(settings);
    instance.setting = settings.get("large_pages").as_known().map(|setting| (*setting).clone());
    instance.asked_page_size = scene.host.default_huge_page.clone();
    instance
}

/// What its files and command line make of its next start. On base pages the buffer pool is one
/// private stretch among others: only a pool that is too large for what is mapped tells of a
/// change.
fn predict_next_start(
    instance: &Instance,
    settings: &ServerSettings,
    sizes: Option<&AllocationSizes>,
) -> Observed<NextStart> {
    if let Some(why) = settings.missing_reason().filter(|_| instance.asked == HugePageMode::Unknown)
    {
        return why.as_ref().and_then(|()| Observed::Absent);
    }
    let page = instance.asked_page_size.get();
    let size = sizes.zip(page).map(|(sizes, page)| {
        let (least, most) = sizes.memory_range(page, instance.huge_pages == HugePageUse::All);
        let demands = sizes.to_demand(page).into_iter().collect();
        let setting = settings.values.get("innodb_buffer_pool_size").cloned();
        NextStartSize { least, most, demands, setting, is_other: false }
    });
    let (asked, setting) = (instance.asked, instance.setting.clone());
    next_start::predict_from_files(instance, NextStartFiles { asked, setting, page: None, size })
}

fn has_grown(instance: &Instance) -> bool {
    let setting = instance.next.as_known().and_then(|next| next.setting.as_ref());
    setting.is_some_and(|setting| setting.name == "innodb_buffer_pool_size")
}

fn data_directory(main: &Process) -> Observed<String> {
    let option = || {
        options::option_value(main.command.as_known()?, "datadir")
            .filter(|path| path.starts_with('/'))
    };
    match option() {
        Some(path) => Observed::Known(path.trim_end_matches('/').to_owned()),
        None => options::working_directory(main),
    }
}

/// The version that last opened the data, as the reader opens it: `10.11.19-MariaDB`, `8.0.36`.
fn read_data_version(facts: &mut FactReader<'_>, data: &str) -> Observed<String> {
    let source = facts.source;
    let mut read = |name: &str| facts.parse(&format!("{data}/{name}"), parse_version);
    let flag = || {
        let names = source.list_folder(data);
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
    let version = text
        .lines()
        .next()
        .unwrap_or_default()
        .trim_matches(|character: char| character.is_whitespace() || character == '\0');
    if is_version(version) {
        Ok(version.to_owned())
    } else {
        Err(ParseError::at_line(1, "no version"))
    }
}

/// MariaDB was called mysqld up to 10.4 and still has a link of that name; only it has Aria.
fn is_mariadb(
    scene: &EngineContext<'_>,
    files: &dyn Source,
    main: &Process,
    data: Option<&str>,
    version: Option<&String>,
) -> bool {
    let first = main.command.as_known().and_then(|words| words.first());
    let link = || files.read_link(&options::as_reader_opens(scene.host, main, first?)).into_known();
    let names = || files.list_folder(data?).into_known();
    let aria = || names().is_some_and(|names| names.iter().any(|name| name == "aria_log_control"));
    options::program_name(main) == "mariadbd"
        || version.is_some_and(|version| version.contains("MariaDB"))
        || aria()
        || link().is_some_and(|target| options::file_name(&target) == "mariadbd")
}

fn list_endpoints(settings: &ServerSettings, port: Option<String>) -> Vec<String> {
    let listens = settings
        .get("skip_networking")
        .as_known()
        .is_none_or(|setting| !values::is_on(&setting.value));
    let port = port.filter(|port| listens && port != "0");
    let socket = settings.get("socket").as_known().map(|setting| setting.value.clone());
    port.into_iter().chain(socket).collect()
}

/// `large_pages` never refuses: a server goes without what it does not get.
fn parse_huge_page_request(settings: &ServerSettings) -> HugePageMode {
    match settings.value_or("large_pages", "OFF").as_known() {
        Some(value) if values::is_on(value) => HugePageMode::Try,
        Some(_) => HugePageMode::No,
        None => HugePageMode::Unknown,
    }
}

/// `--log-error`, or the host's name in the data directory.
fn log_paths(host: &Host, _: &dyn Source, _: &str, instance: &Instance) -> Vec<String> {
    let command = host.find_process(instance.pid).and_then(|process| process.command.as_known());
    let given = command.and_then(|command| options::option_value(command, "log-error"));
    let given =
        given.or_else(|| instance.setting_value("log_error")).filter(|path| !path.is_empty());
    let folder = instance.data_directory.as_known().map(String::as_str);
    let own = folder
        .zip(host.name.as_known())
        .map(|(folder, name)| resolve_log_path(folder, &format!("{name}.err")));
    given.map(|path| resolve_log_path(folder.unwrap_or("/"), path)).into_iter().chain(own).collect()
}

/// Up to 8.0.25 MySQL asks for System V memory; later it maps, as MariaDB does since 10.5.
fn shared_memory_mechanism(
    mariadb: bool,
    version: Option<&str>,
    segments: &[Segment],
) -> Mechanism {
    let mapped_since = if mariadb { (10, 5, 0) } else { (8, 0, 26) };
    let old = version.and_then(parse_version_numbers).is_some_and(|version| version < mapped_since);
    if old || segments.iter().any(|segment| segment.kind == SegmentKind::SystemV) {
        Mechanism::SysvShm
    } else {
        Mechanism::Mmap
    }
}

fn parse_version_numbers(version: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = version
        .split(|character: char| !character.is_ascii_digit())
        .map_while(|part| part.parse::<u32>().ok());
    Some((numbers.next()?, numbers.next()?, numbers.next().unwrap_or_default()))
}

/// The stretches of the buffer pool and the caches.
///
/// On huge pages the kernel names them. On base pages only their size tells them from other private
/// stretches: an arena of the C library never exceeds 64 MiB. Once stretches on huge pages hold the
/// whole pool, others cannot be it; but where less than the settings come to is there, a refused
/// stretch is among the others of at least its size.
fn find_buffer_segments(
    scene: &EngineContext<'_>,
    main: &Process,
    sizes: Option<&AllocationSizes>,
) -> Vec<Segment> {
    const ARENA: u64 = 64 << 20;
    let huge =
        |mapping: &Mapping| segments::mapping_is_huge(scene.host, mapping) == Observed::Known(true);
    let on_huge_pages = segments::collect_segments(scene.host, &[main.pid], |_, mapping| {
        mapping.accessible && huge(mapping)
    });
    let chunks = |chunk: u64| {
        on_huge_pages.iter().map(|segment| segment.size).filter(move |size| size.get() >= chunk)
    };
    let mut smallest = sizes.map_or(ARENA, |sizes| sizes.pool.clamp(4 << 20, ARENA));
    let pool_is_held =
        |sizes: &&AllocationSizes| chunks(sizes.chunk).sum::<Bytes>().get() >= sizes.pool;
    if let Some(sizes) = sizes.filter(pool_is_held) {
        let held: Bytes = on_huge_pages.iter().map(|segment| segment.size).sum();
        let page = scene.host.default_huge_page.get();
        match page.and_then(|page| sizes.find_refused_stretch(held, page)) {
            Some(refused) => smallest = refused.get(),
            None => return on_huge_pages,
        }
    }
    segments::collect_segments(scene.host, &[main.pid], |_, mapping| {
        let anonymous = !mapping.shared && mapping.inode == 0 && mapping.name.is_empty();
        let system_v =
            mapping.shared && segments::segment_kind(scene.host, mapping) == SegmentKind::SystemV;
        mapping.accessible
            && (huge(mapping) || ((anonymous || system_v) && mapping.size().get() >= smallest))
    })
}

#[cfg(test)]
mod tests;
