//! PostgreSQL and what is built from it. Version 9.4 brought `huge_pages`; older ones have none.

pub mod conf;
pub mod control;
mod demand;
mod described;
mod identity;
mod known_settings;
mod live_settings;
mod log;
mod log_records;
mod meanings;
mod messages;
mod patroni;
mod pg_ctl;
mod program;
mod redaction;
mod remedy;
mod settable;
mod settings;
mod start_conf;
mod stopped;
mod titles;
mod values;
mod work_memory;

use std::sync::Arc;

use hugewise_host::capture::shape::ValueShape;
use hugewise_host::{FactReader, Source};
use hugewise_model::instance::{Mechanism, NextStart, Segment, SegmentKind, SessionModel};
use hugewise_model::{
    Bytes, Engine, Host, HugePageMode, Instance, Level, Observed, PageSize, Process,
};

use self::control::StartedSettings;
use self::identity::{
    PostmasterLock, READY, choose_instance_name, config_file, config_file_option, data_directory,
    is_cluster_folder, is_version, list_endpoints, option_directory, parse_lock, parse_version,
    predates_huge_pages, read_version_and_lock, socket_of, version_in_path,
};
use crate::shared::description::{DescribeError, Described, Description};
use crate::shared::kind::{
    CaptureRules, LogSources, MemoryBehavior, PageSizeChoice, Recognition, RestartBehavior,
    SessionBehavior, SettingAdvice, ThpAdvice, ThpBehavior, resolve_log_path,
};
use crate::shared::next_start::{self, NextStartFiles, NextStartSize};
use crate::shared::settings::ServerSettings;
use crate::shared::{faults, options, residency, segments};
use crate::{
    DescribedBy, EngineContext, EngineKind, FoundInstances, SettingsBy, StartBehavior, each_known,
};

/// The smallest stretch that is the server's main memory and not its one-page interlock.
const SMALLEST: Bytes = Bytes::from_mib(1);

pub(crate) static KIND: EngineKind = EngineKind {
    engine: Engine::PostgreSql,
    names: &[(Engine::PostgreSql, "PostgreSQL")],
    recognition: Recognition {
        programs: &titles::PROGRAMS,
        find_running: find_postgresql_instances,
        find_stopped: stopped::find_stopped_servers,
        services: &["postgresql", "edb-as"],
        companions: &["pg_ctl", "pg_ctlcluster"],
        wrappers: &["pg_ctl", "pg_ctlcluster", "patroni", "pg_autoctl", "stolon-keeper"],
        accounts: &["postgres", "pgsql", "_postgresql", "enterprisedb", "gitlab-psql"],
        ..Recognition::PLAIN
    },
    capture: CaptureRules {
        value_shapes: &[
            ("-D", ValueShape::Path),
            ("-c", ValueShape::Setting),
            ("-k", ValueShape::Paths),
            ("data_directory", ValueShape::Path),
            ("unix_socket_directories", ValueShape::Paths),
            ("config_file", ValueShape::Path),
            ("include", ValueShape::Path),
            ("include_if_exists", ValueShape::Path),
            ("include_dir", ValueShape::Path),
            ("cluster_name", ValueShape::Names),
            ("io_method", ValueShape::Words(&["sync", "worker", "io_uring"])),
            ("wal_level", ValueShape::Words(&["minimal", "logical", "replica"])),
            ("archive_mode", ValueShape::Words(&["always"])),
            ("shared_preload_libraries", ValueShape::Names),
        ],
        mappings: &["/dev/shm/PostgreSQL."],
        redact_line: Some(redaction::redact_conf_line),
        forms: redaction::FORMS,
        reads_working_directory: |_| true,
        options: &[
            "-D",
            "-B",
            "-N",
            "-p",
            "-k",
            "-c",
            "--single",
            "--boot",
            "--check",
            "--describe-config",
        ],
        settings: &[
            "huge_pages",
            "huge_page_size",
            "shared_memory_type",
            "shared_buffers",
            "max_connections",
            "min_dynamic_shared_memory",
            "shared_preload_libraries",
            "max_worker_processes",
            "max_wal_senders",
            "max_prepared_transactions",
            "max_locks_per_transaction",
            "max_pred_locks_per_transaction",
            "autovacuum_max_workers",
            "autovacuum_worker_slots",
            "wal_buffers",
            "track_activity_query_size",
            "io_max_concurrency",
            "io_method",
            "data_directory",
            "port",
            "unix_socket_directories",
            "cluster_name",
            "config_file",
            "wal_level",
            "archive_mode",
            "superuser_reserved_connections",
            "reserved_connections",
            "work_mem",
            "temp_buffers",
            "maintenance_work_mem",
            "autovacuum_work_mem",
            "include",
            "include_if_exists",
            "include_dir",
        ],
        ..CaptureRules::PLAIN
    },
    logs: LogSources {
        paths: log_paths,
        format: Some(&log::FORMAT),
        messages: messages::MESSAGES,
        meanings: meanings::MEANINGS,
    },
    describe: Some((DescribedBy::Files, describe_files)),
    connect: Some((live_settings::build_query, live_settings::apply_reply)),
    start: StartBehavior {
        refuses: remedy::refuses_start,
        any_page_size: true,
        touches: demand::touched_at_start,
        ..StartBehavior::PLAIN
    },
    restart: RestartBehavior {
        command_line: Some(&pg_ctl::STARTING),
        restarter: Some(settable::RESTARTER),
        ..RestartBehavior::PLAIN
    },
    thp: ThpBehavior {
        summary: Some("`always` is worth a note (TuneD's profile `postgresql`)"),
        advise: |host, instance| {
            let main = host.find_process(instance.pid);
            // YugabyteDB's makers want `always` for theirs.
            let is_theirs = main.is_some_and(|main| is_built_by(main, &["yugabyte"]));
            Ok((!is_theirs).then_some(ThpAdvice::Against(Level::Info)))
        },
    },
    page_size: PageSizeChoice {
        setting: Some("huge_page_size"),
        is_named: remedy::names_page_size,
        can_be_named: remedy::takes_page_size,
        assignment: |page| Some(remedy::page_size_assignment(page)),
        ..PageSizeChoice::PLAIN
    },
    memory: MemoryBehavior {
        // After its first query, with few tables in shared memory (measured with PostgreSQL 15).
        process_tables: Bytes::from_kib(170),
        work_memory: work_memory::estimate_work_memory,
        ..MemoryBehavior::PLAIN
    },
    sessions: SessionBehavior {
        are_counted: true,
        fewer: "fewer connections in each client's own pool, or a pooler such as PgBouncer between \
                them",
        ..SessionBehavior::PLAIN
    },
    settings: SettingAdvice {
        only_by_settings: true,
        asks_by: "huge_pages=try",
        tells_demand: "postgres -C shared_memory_size_in_huge_pages tells (15 and later, once it \
                       is down)",
        can_by: Some("shared_memory_type=mmap"),
        insists_by: Some("huge_pages=on"),
        changed_by: SettingsBy::Plan(&settable::SETTABLE),
        commands: remedy::huge_page_commands,
        ..SettingAdvice::PLAIN
    },
    ..EngineKind::PLAIN
};

fn describe_files(
    host: &Host,
    source: &dyn Source,
    description: &Description,
    ask: bool,
) -> Result<Described, DescribeError> {
    let (data_dir, config, server_binary) = match description {
        Description::Files { data_dir, config, server_binary, .. } => {
            (data_dir.as_deref(), config.as_deref(), server_binary.as_deref())
        }
        Description::Config { path, .. } => (None, Some(path.as_str()), None),
        _ => (None, None, None),
    };
    described::describe_postgresql(host, source, data_dir, config, server_binary, ask)
}

fn find_postgresql_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    let processes = scene.host.processes.as_known().map_or(&[][..], Vec::as_slice);
    let is_main =
        |process: &&Arc<Process>| titles::is_server(process) && titles::is_postmaster(process);
    for main in processes.iter().filter(is_main) {
        if found.has_process(main.pid) || is_child(scene, main) {
            continue;
        }
        let children = processes
            .iter()
            .map(AsRef::as_ref)
            .filter(|process: &&Process| process.parent == main.pid && titles::is_server(process));
        let files = scene.files_of(main);
        let mut facts = FactReader::new(&files);
        let instance = build_instance(scene, &mut facts, main, &children.collect::<Vec<_>>());
        found.add_unread(main, facts.unread);
        found.add(instance);
    }
}

/// Whether the parent is the server itself, as of a child that has no title yet. A server that some
/// backend started has a data directory of its own.
fn is_child(scene: &EngineContext<'_>, process: &Process) -> bool {
    scene.host.find_process(process.parent).is_some_and(|parent| {
        let elsewhere =
            matches!((parent.directory.as_known(), process.directory.as_known()), (Some(a), Some(b)) if a != b);
        titles::is_server(parent) && !elsewhere
    })
}

fn build_instance(
    scene: &EngineContext<'_>,
    facts: &mut FactReader<'_>,
    main: &Process,
    children: &[&Process],
) -> Instance {
    let host = scene.host;
    let pids: Vec<u32> = children.iter().map(|child| child.pid).collect();
    let mut instance = scene.new_instance(Engine::PostgreSql, String::new(), main, pids);
    instance.session_model = SessionModel::Processes;
    instance.mechanism = Mechanism::Mmap;
    instance.data_directory = data_directory(scene, facts.source, main);

    let data = &instance.data_directory;
    let before = facts.seen.len();
    let configuration = settings::read(host, facts, main, &config_file(main, data), data);
    let files = facts.seen.split_off(before);
    scene.note_files(&KIND, &files);
    instance.startup = start_conf::read(host, facts, main);
    let lock = read_version_and_lock(host, facts, main, &mut instance);
    let major = instance.version.as_known().and_then(|version| demand::parse_major(version));
    let faults = configuration.judge_settings(major, is_plain(main));
    let mut settings = configuration.settings;
    for (name, default) in DEFAULTS {
        settings.fill_in(name, default);
    }
    let cluster = settings.value_or("cluster_name", "").into_known();
    fill_in_name(&mut instance, &settings, cluster.as_deref(), lock.as_ref(), main);
    let sessions = children.iter().filter(|child| titles::is_session(child, cluster.as_deref()));
    instance.sessions = Observed::Known(u64::try_from(sessions.count()).unwrap_or(u64::MAX));
    fill_in_requests(host, &mut instance, &settings);

    instance.segments = main_memory(host, &instance.pids);
    if main.mappings.is_known() {
        instance.huge_pages = segments::huge_page_use(&instance.segments);
    }
    let clock_was_set = lock.as_ref().is_some_and(|lock| lock.clock_was_set);
    let unchanged = !clock_was_set && next_start::are_unchanged(facts.source, main, &files);
    // Other builds may differ a little: only files that are known to be changed tell of it.
    let as_it_was = !is_plain(main) || !next_start::are_changed(facts.source, main, &files);
    let data = instance.data_directory.as_known().filter(|_| !unchanged && is_plain(main));
    let started = data.and_then(|data| {
        let control = options::as_reader_opens(host, main, &format!("{data}/global/pg_control"));
        let is_ready = lock.as_ref().is_some_and(|lock| lock.is_ready);
        StartedSettings::read(facts, main, &control, is_ready, &settings)
    });
    instance.next = predict_next_start(&instance, &settings, as_it_was, started.as_ref());
    let version = instance.version.as_known().map(String::as_str);
    let base = host.base_page.get();
    instance.ring_bytes = base.and_then(|base| demand::ring_bytes(&settings, version, base));
    fill_in_demands(host, &mut instance, &settings, started, unchanged);
    if main.mappings.is_absent() {
        instance.segments = main_memory_without_maps(host, &instance);
        instance.huge_pages = segments::huge_page_use(&instance.segments);
    }
    let unchanged =
        !clock_was_set && faults::predate_start(host, facts.source, main, files, &faults);
    faults::take_in(&mut instance, &faults, unchanged);
    instance.settings = settings.values;
    instance
}

fn fill_in_name(
    instance: &mut Instance,
    settings: &ServerSettings,
    cluster: Option<&str>,
    lock: Option<&PostmasterLock>,
    main: &Process,
) {
    let port = lock.map(|lock| lock.port.clone()).filter(|port| !port.is_empty());
    let port = port.or_else(|| settings.value_or("port", "5432").into_known());
    instance.endpoints = list_endpoints(lock, settings, port.as_deref());
    let data = instance.data_directory.as_known().map(String::as_str);
    instance.name = choose_instance_name(data, cluster, port.as_deref(), main);
}

fn fill_in_requests(host: &Host, instance: &mut Instance, settings: &ServerSettings) {
    instance.max_sessions =
        settings.value_or("max_connections", "100").parse(|value| parse_count(&value));
    instance.asked = parse_huge_page_request(settings);
    let cannot = instance.asked == HugePageMode::Cannot;
    let decides = if cannot { "shared_memory_type" } else { "huge_pages" };
    instance.setting = settings.get(decides).into_known().cloned();
    instance.asked_page_size = asked_page_size(host, settings);
    if instance.version.as_known().is_some_and(|version| predates_huge_pages(version)) {
        instance.asked = HugePageMode::Cannot;
        instance.mechanism = Mechanism::None;
        instance.setting = None;
        instance.asked_page_size = Observed::Absent;
    }
}

fn fill_in_demands(
    host: &Host,
    instance: &mut Instance,
    settings: &ServerSettings,
    started: Option<StartedSettings>,
    unchanged: bool,
) {
    let version = instance.version.as_known().map(String::as_str);
    let needs_no_more = started.zip(live_settings::current_memory_range(instance, None));
    let needs_no_more =
        needs_no_more.is_some_and(|(started, now)| started.needs_no_more(settings, version, now));
    if let Some(page) = instance.asked_page_size.get() {
        if !needs_no_more {
            let possible =
                demand::possible_demand(settings, version, page, instance.segment_bytes());
            instance.possible_demands =
                next_start::possible_demands(instance, possible.into_iter().collect(), unchanged);
        }
        let (measured, beside) = segments::segment_demands(&instance.segments, page);
        instance.demand = measured.or_else(|| demand::estimate_demand(settings, version, page));
        instance.other_demands = beside;
    }
    instance.on_smaller = on_smaller(host, instance, demand::estimate_size(settings, version));
}

fn main_memory(host: &Host, pids: &[u32]) -> Vec<Segment> {
    segments::collect_segments(host, pids, |_, mapping| {
        let kinds = [SegmentKind::AnonymousShared, SegmentKind::SystemV];
        mapping.shared
            && mapping.size() >= SMALLEST
            && kinds.contains(&segments::segment_kind(host, mapping))
    })
}

/// Its demand on pages smaller than those that its memory was rounded up to.
fn on_smaller(
    host: &Host,
    instance: &Instance,
    size: Option<demand::SharedMemorySize>,
) -> Vec<hugewise_model::Demand> {
    let held = instance.segments.iter().filter_map(|segment| segment.page_size.get()).max();
    let pools = each_known(&host.pools).map(|pool| pool.page_size);
    let smaller = pools.filter(|page| held.is_some_and(|held| *page < held));
    size.map(|size| smaller.map(|page| size.in_pages(page)).collect()).unwrap_or_default()
}

/// Whether it is PostgreSQL itself, and not built of it with settings of its own.
fn is_plain(main: &Process) -> bool {
    !is_built_by(main, &["edb", "enterprisedb", "greenplum", "gpdb", "pgpro", "yugabyte"])
}

/// Whether its program is in a folder of one of these.
fn is_built_by(main: &Process, makers: &[&str]) -> bool {
    let first = main.command.as_known().and_then(|arguments| arguments.first());
    let mut paths = main.executable.as_known().into_iter().chain(first);
    paths.any(|path| {
        path.split(['/', '-', '_']).any(|part| makers.iter().any(|maker| part.starts_with(maker)))
    })
}

fn parse_count(value: &str) -> Result<u64, &'static str> {
    values::parse_integer(value).and_then(|number| u64::try_from(number).ok()).ok_or("no count")
}

fn predict_next_start(
    instance: &Instance,
    settings: &ServerSettings,
    as_it_was: bool,
    started: Option<&StartedSettings>,
) -> Observed<NextStart> {
    if let Some(why) = settings.missing_reason().filter(|_| instance.asked == HugePageMode::Unknown)
    {
        return why.as_ref().and_then(|()| Observed::Absent);
    }
    let named = |name: &str| settings.values.get(name).cloned();
    let page = instance.asked_page_size.get();
    let version = instance.version.as_known().map(String::as_str);
    let changed = started.and_then(|started| started.changed.as_ref());
    let grown = started
        .zip(live_settings::current_memory_range(instance, None))
        .and_then(|(started, now)| started.predict_grown_size(settings, version, now));
    let size =
        demand::estimate_range(settings, version, as_it_was).zip(page).map(|(range, page)| {
            NextStartSize {
                least: range.least,
                most: range.most,
                demands: grown
                    .or_else(|| demand::estimate_size(settings, version))
                    .map(|size| size.in_pages(page))
                    .into_iter()
                    .collect(),
                setting: if grown.is_some() { changed.cloned() } else { named("shared_buffers") },
                is_other: changed.is_some(),
            }
        });
    let files = NextStartFiles {
        asked: instance.asked,
        setting: instance.setting.clone(),
        page: page.map(|page| (page, named("huge_page_size"))),
        size,
    };
    next_start::predict_from_files(instance, files)
}

/// `current_logfiles` names the file (10 and later); Debian's clusters log under /var/log.
pub(crate) fn log_paths(
    _: &Host,
    source: &dyn Source,
    root: &str,
    instance: &Instance,
) -> Vec<String> {
    let mut paths = Vec::new();
    if let Some(folder) = instance.data_directory.as_known() {
        let list = source.read(&format!("{root}{folder}/current_logfiles"));
        let text = list
            .as_known()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .unwrap_or_default();
        let entries =
            text.lines().filter_map(|line| line.split_once(' ')).map(|(_, path)| path.trim());
        paths.extend(
            entries.filter(|path| !path.is_empty()).map(|path| resolve_log_path(folder, path)),
        );
    }
    if let Some((version, cluster)) = instance.name.split_once('/') {
        paths.push(format!("/var/log/postgresql/postgresql-{version}-{cluster}.log"));
    }
    paths
}

/// The shared memory by its settings: without maps no file tells its size.
fn main_memory_without_maps(host: &Host, instance: &Instance) -> Vec<Segment> {
    let estimate = instance.demand.as_ref().map(|demand| demand.pages.to_bytes(demand.page_size));
    let describe = |size: Bytes| {
        let huge =
            residency::on_huge_pages(host, &instance.pids, &[size]).pop().unwrap_or_default();
        let page_size = huge.clone().and_then(|huge| {
            if huge { instance.asked_page_size.clone() } else { host.base_page.clone() }
        });
        let name = "main memory, size by its settings".to_owned();
        let identity = (u64::from(instance.pid), 0);
        Segment {
            kind: SegmentKind::AnonymousShared,
            name,
            size,
            page_size,
            huge,
            mappers: u64::try_from(instance.pids.len()).unwrap_or(u64::MAX),
            identity,
        }
    };
    estimate.map(describe).into_iter().collect()
}

/// Defaults that a rule may name as evidence.
const DEFAULTS: [(&str, &str); 5] = [
    ("huge_pages", "try"),
    ("huge_page_size", "0"),
    ("shared_memory_type", "mmap"),
    ("shared_buffers", "128MB"),
    ("max_connections", "100"),
];

/// System V memory never is on huge pages.
fn parse_huge_page_request(settings: &ServerSettings) -> HugePageMode {
    let value_of = |name: &str, default: &str| {
        settings.value_or(name, default).into_known().map(|value| value.to_ascii_lowercase())
    };
    if value_of("shared_memory_type", "mmap").as_deref() == Some("sysv") {
        return HugePageMode::Cannot;
    }
    match value_of("huge_pages", "try").as_deref() {
        Some("off" | "false" | "no" | "0") => HugePageMode::No,
        Some("try") => HugePageMode::Try,
        Some("on" | "true" | "yes" | "1") => HugePageMode::Must,
        _ => HugePageMode::Unknown,
    }
}

/// `huge_page_size` (14 and later) in kB, up to a power of two; 0 is the host's default.
fn asked_page_size(host: &Host, settings: &ServerSettings) -> Observed<PageSize> {
    let bytes = settings
        .value_or("huge_page_size", "0")
        .parse(|value| conf::parse_memory(&value, 1 << 10).ok_or("huge_page_size is not a size"));
    bytes.and_then(|bytes| match bytes {
        0 => host.default_huge_page.clone(),
        _ => {
            let power = bytes.checked_next_power_of_two().unwrap_or(bytes);
            PageSize::try_from(power).map_or_else(Observed::Malformed, Observed::Known)
        }
    })
}

#[cfg(test)]
mod tests;
