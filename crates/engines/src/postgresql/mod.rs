//! PostgreSQL and what is built from it, since version 9.4, which brought `huge_pages`.

mod ask;
mod asleep;
pub mod conf;
pub mod control;
mod ctl;
mod demand;
mod described;
mod kept;
mod known;
mod log;
mod log_records;
mod program;
mod remedy;
mod settable;
mod settings;
mod start_conf;
mod titles;
mod values;
mod work;

use hugewise_host::capture::shape::Shape;
use hugewise_host::{Door, ParseError, Source};
use hugewise_model::instance::{Mechanism, NextStart, Segment, SegmentKind, SessionModel, Setting};
use hugewise_model::{Asked, Bytes, Engine, Host, HugePageUse, Instance, Level, Observed, PageSize, Process};

use self::control::Started;
use crate::description::{DescribeError, Described, Description};
use crate::kind::{ThpAdvice, beneath};
use crate::next::{self, Files, Size};
use crate::settings::Settings;
use crate::{By, Found, Kind, Scene, SettingsBy, Start, faults, options, segments, touched};

/// The smallest stretch that is the server's main memory and not its one-page interlock.
const SMALLEST: Bytes = Bytes::from_mib(1);

/// PostgreSQL.
pub static KIND: Kind = Kind {
    engine: Engine::PostgreSql,
    names: &[(Engine::PostgreSql, "PostgreSQL")],
    programs: &titles::PROGRAMS,
    find,
    asleep: asleep::asleep,
    starting: Some(&ctl::STARTING),
    services: &["postgresql", "edb-as"],
    companions: &["pg_ctl", "pg_ctlcluster"],
    describe: Some((By::Files, describe_files)),
    texts: &[
        ("-D", Shape::Path),
        ("-c", Shape::Setting),
        ("-k", Shape::Paths),
        ("data_directory", Shape::Path),
        ("unix_socket_directories", Shape::Paths),
        ("config_file", Shape::Path),
        ("include", Shape::Path),
        ("include_if_exists", Shape::Path),
        ("include_dir", Shape::Path),
        ("cluster_name", Shape::Names),
        ("wal_level", Shape::Words(&["minimal", "logical", "replica"])),
        ("archive_mode", Shape::Words(&["always"])),
        ("shared_preload_libraries", Shape::Names),
    ],
    mappings: &["/dev/shm/PostgreSQL."],
    log_format: Some(&log::FORMAT),
    start: Start { refuses: remedy::refuses, any_page_size: true, ..Start::PLAIN },
    only_by_settings: true,
    counts_sessions: true,
    fewer_sessions: "fewer connections in each client's own pool, or a pooler such as PgBouncer between them",
    // After its first query, a few of these tables in its shared memory (measured with PostgreSQL 15).
    process_tables: Bytes::from_kib(170),
    asks_by: "huge_pages=try",
    tells_demand: "postgres -C shared_memory_size_in_huge_pages tells (15 and later, once it is down)",
    can_by: Some("shared_memory_type=mmap"),
    insists_by: Some("huge_pages=on"),
    settings_by: SettingsBy::Plan(&settable::SETTABLE),
    restarter: Some(settable::RESTARTER),
    connect: Some((ask::question, ask::answer)),
    own_line: Some(kept::line),
    forms: kept::FORMS,
    thp_in_words: Some("`always` is worth a note (TuneD's profile `postgresql`)"),
    thp: |_, _| Ok(Some(ThpAdvice::Against(Level::Info))),
    ask: remedy::ask,
    work_memory: work::memory,
    page_size_by: Some("huge_page_size"),
    names_page_size: remedy::names_page_size,
    takes_page_size: remedy::takes_page_size,
    logs,
    reads_folder: |_| true,
    accounts: &["postgres", "pgsql", "_postgresql", "enterprisedb", "gitlab-psql"],
    options: &["-D", "-B", "-N", "-p", "-k", "-c", "--single", "--boot", "--check", "--describe-config"],
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
    ..Kind::PLAIN
};

/// A server by its files.
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
    described::describe(host, source, data_dir, config, server_binary, ask)
}

fn find(scene: &Scene<'_>, found: &mut Found) {
    let processes = scene.host.processes.known().map_or(&[][..], Vec::as_slice);
    for main in processes.iter().filter(|process| titles::is_server(process) && titles::is_postmaster(process)) {
        if found.has_process(main.pid) || is_child(scene, main) {
            continue;
        }
        let children = processes
            .iter()
            .map(AsRef::as_ref)
            .filter(|process: &&Process| process.parent == main.pid && titles::is_server(process));
        let files = scene.files_of(main);
        let mut door = Door::new(&files);
        let instance = describe(scene, &mut door, main, &children.collect::<Vec<_>>());
        found.add_unread(main, door.unread);
        found.add(instance);
    }
}

/// Whether the parent is the server itself: a child before it sets its title. A server that some
/// backend started has a data directory of its own.
fn is_child(scene: &Scene<'_>, process: &Process) -> bool {
    scene.host.process(process.parent).is_some_and(|parent| {
        let elsewhere = matches!((parent.directory.known(), process.directory.known()), (Some(a), Some(b)) if a != b);
        titles::is_server(parent) && !elsewhere
    })
}

fn describe(scene: &Scene<'_>, door: &mut Door<'_>, main: &Process, children: &[&Process]) -> Instance {
    let pids: Vec<u32> = children.iter().map(|child| child.pid).collect();
    let mut instance = scene.instance(Engine::PostgreSql, String::new(), main, pids);
    instance.session_model = SessionModel::Processes;
    instance.mechanism = Mechanism::Mmap;

    let inside = |path: &str| options::as_reader_opens(scene.host, main, path);
    let data = data_directory(scene, door.source, main);
    let before = door.seen.len();
    let said = settings::read(scene.host, door, main, &config_file(main, &data), &data);
    let files = door.seen.split_off(before);
    scene.note_files(&KIND, &files);
    instance.startup = start_conf::read(scene.host, door, main);
    let control = data.known().map(|data| inside(&format!("{data}/global/pg_control")));
    let mut lock = None;
    let mut clock_was_set = false;
    if let Some(data) = data.known() {
        instance.version = door.parse(&inside(&format!("{data}/PG_VERSION")), parse_version);
        let path = inside(&format!("{data}/postmaster.pid"));
        let found = door.parse(&path, parse_lock).into_known();
        lock = found.filter(|lock| lock.pid == main.pid || main.namespace_pids.contains(&lock.pid));
        // It wrote this itself once it had started. What looks older than the start tells that the clock was set forward since,
        // and so may an edit look.
        clock_was_set =
            lock.as_ref().is_some_and(|lock| lock.is_ready) && next::are_unchanged(door.source, main, &[path]);
    } else {
        door.note(&format!("/proc/{}/cwd", main.pid), &data);
    }
    if !instance.version.is_known() {
        let first = main.command.known().and_then(|arguments| arguments.first());
        let paths = main.executable.known().into_iter().chain(first);
        if let Some(version) = paths.into_iter().find_map(|path| version_in_path(path)) {
            instance.version = Observed::Known(version);
        }
    }

    let major = instance.version.known().and_then(|version| demand::major(version));
    let faults = said.judged(major, is_plain(main));
    let mut settings = said.settings;
    for (name, default) in DEFAULTS {
        settings.fill_in(name, default);
    }
    let port = lock.as_ref().map(|lock| lock.port.clone()).filter(|port| !port.is_empty());
    let port = port.or_else(|| settings.value_or("port", "5432").into_known());
    instance.endpoints = endpoints(lock.as_ref(), &settings, port.as_deref());
    let cluster = settings.value_or("cluster_name", "").into_known();
    instance.name = name(data.known().map(String::as_str), cluster.as_deref(), port.as_deref(), main);
    instance.data_directory = data;

    instance.sessions = Observed::Known(count(children, |child| titles::is_session(child, cluster.as_deref())));
    instance.max_sessions = settings.value_or("max_connections", "100").parse(|value| whole(&value));
    instance.asked = asked(&settings);
    instance.setting = setting(&settings, instance.asked);
    instance.asked_page_size = asked_page_size(scene.host, &settings);

    instance.segments = segments::of(scene.host, &instance.pids, |_, mapping| {
        let main_memory = [SegmentKind::AnonymousShared, SegmentKind::SystemV];
        mapping.shared && mapping.size() >= SMALLEST && main_memory.contains(&segments::kind(scene.host, mapping))
    });
    instance.huge_pages = match &main.mappings {
        Observed::Known(_) => segments::huge_page_use(&instance.segments),
        _ => HugePageUse::Unknown,
    };
    let unchanged = !clock_was_set && next::are_unchanged(door.source, main, &files);
    // A build of others may take a little more or less: only files that are known to be others tell a small change.
    let as_it_was = !is_plain(main) || !next::are_changed(door.source, main, &files);
    let control = control.filter(|_| !unchanged && is_plain(main));
    let is_ready = lock.as_ref().is_some_and(|lock| lock.is_ready);
    let started = control.and_then(|path| Started::read(door, main, &path, is_ready, &settings));
    instance.next = next(&instance, &settings, as_it_was, started.as_ref());
    let version = instance.version.known().map(String::as_str);
    let needs_no_more = started.zip(ask::now(&instance, None));
    let needs_no_more = needs_no_more.is_some_and(|(started, now)| started.needs_no_more(&settings, version, now));
    if let Some(page) = instance.asked_page_size.get().filter(|_| !needs_no_more) {
        let estimated = demand::perhaps(&settings, version, page, instance.segment_bytes());
        instance.perhaps = next::perhaps(&instance, estimated.into_iter().collect(), unchanged);
    }
    if let Some(page) = instance.asked_page_size.get() {
        (instance.demand, instance.beside) = segments::demands(&instance.segments, page);
        instance.demand = instance.demand.take().or_else(|| demand::estimated(&settings, version, page));
    }
    instance.on_smaller = on_smaller(scene.host, &instance, demand::size(&settings, version));
    if main.mappings.is_absent() {
        instance.segments = main_memory_without_maps(scene.host, &instance);
        instance.huge_pages = segments::huge_page_use(&instance.segments);
    }
    let files: Vec<String> = files.into_iter().chain(faults.iter().map(|fault| inside(&fault.place.file))).collect();
    let unchanged = !clock_was_set && !files.is_empty() && next::are_unchanged(door.source, main, &files);
    faults::take_in(&mut instance, &faults, unchanged);
    instance.settings = settings.values;
    instance
}

/// What it comes to on pages that are smaller than those that its memory was rounded up to.
fn on_smaller(host: &Host, instance: &Instance, size: Option<demand::Size>) -> Vec<hugewise_model::Demand> {
    let held = instance.segments.iter().filter_map(|segment| segment.page_size.get()).max();
    let pools = host.pools.known().into_iter().flatten().map(|pool| pool.page_size);
    let smaller = pools.filter(|page| held.is_some_and(|held| *page < held));
    size.map(|size| smaller.map(|page| size.in_pages(page)).collect()).unwrap_or_default()
}

/// Whether it is PostgreSQL itself, and not what others have built of it, with settings of their own.
fn is_plain(main: &Process) -> bool {
    const OTHERS: [&str; 6] = ["edb", "enterprisedb", "greenplum", "gpdb", "pgpro", "yugabyte"];
    let first = main.command.known().and_then(|arguments| arguments.first());
    let mut paths = main.executable.known().into_iter().chain(first);
    !paths.any(|path| path.split(['/', '-', '_']).any(|part| OTHERS.iter().any(|other| part.starts_with(other))))
}

/// A count as the server reads it.
fn whole(value: &str) -> Result<u64, &'static str> {
    values::integer(value).and_then(|number| u64::try_from(number).ok()).ok_or("no count")
}

/// What its files and its command line make of its next start.
fn next(instance: &Instance, settings: &Settings, as_it_was: bool, started: Option<&Started>) -> Observed<NextStart> {
    if let Some(why) = settings.missing().filter(|_| instance.asked == Asked::Unknown) {
        return why.as_ref().and_then(|()| Observed::Absent);
    }
    let named = |name: &str| settings.values.get(name).cloned();
    let page = instance.asked_page_size.get();
    let version = instance.version.known().map(String::as_str);
    let changed = started.and_then(Started::changed);
    let grown = started.zip(ask::now(instance, None)).and_then(|(started, now)| started.grown(settings, version, now));
    let size = demand::range(settings, version, as_it_was).zip(page).map(|(range, page)| Size {
        least: range.least,
        most: range.most,
        demands: grown
            .or_else(|| demand::size(settings, version))
            .map(|size| size.in_pages(page))
            .into_iter()
            .collect(),
        setting: if grown.is_some() { changed.cloned() } else { named("shared_buffers") },
        is_other: changed.is_some(),
    });
    let files = Files {
        asked: instance.asked,
        setting: instance.setting.clone(),
        page: page.map(|page| (page, named("huge_page_size"))),
        size,
    };
    next::start(instance, files)
}

/// The collector names its file in `current_logfiles` (10 and later); Debian's clusters have theirs
/// under /var/log.
pub(crate) fn logs(_: &Host, source: &dyn Source, root: &str, instance: &Instance) -> Vec<String> {
    let mut paths = Vec::new();
    if let Some(folder) = instance.data_directory.known() {
        let list = source.read(&format!("{root}{folder}/current_logfiles"));
        let text = list.known().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
        let entries = text.lines().filter_map(|line| line.split_once(' ')).map(|(_, path)| path.trim());
        paths.extend(entries.filter(|path| !path.is_empty()).map(|path| beneath(folder, path)));
    }
    if let Some((version, cluster)) = instance.name.split_once('/') {
        paths.push(format!("/var/log/postgresql/postgresql-{version}-{cluster}.log"));
    }
    paths
}

/// The one stretch of shared memory, as large as its settings make it: without maps it is in no file how large it is.
fn main_memory_without_maps(host: &Host, instance: &Instance) -> Vec<Segment> {
    let estimate = instance.demand.as_ref().map(|demand| demand.pages.of(demand.page_size));
    let describe = |size: Bytes| {
        let huge = touched::on_huge_pages(host, &instance.pids, &[size]).pop().unwrap_or_default();
        let page_size =
            huge.clone().and_then(|huge| if huge { instance.asked_page_size.clone() } else { host.base_page.clone() });
        let name = "main memory, size by its settings".to_owned();
        let identity = (u64::from(instance.pid), 0);
        Segment {
            kind: SegmentKind::AnonymousShared,
            name,
            size,
            page_size,
            huge,
            mappers: len(&instance.pids),
            identity,
        }
    };
    estimate.map(describe).into_iter().collect()
}

fn len(pids: &[u32]) -> u64 {
    u64::try_from(pids.len()).unwrap_or(u64::MAX)
}

/// Defaults that a rule may name as evidence.
const DEFAULTS: [(&str, &str); 5] = [
    ("huge_pages", "try"),
    ("huge_page_size", "0"),
    ("shared_memory_type", "mmap"),
    ("shared_buffers", "128MB"),
    ("max_connections", "100"),
];

/// The data directory as the server names it: it is where the postmaster works. Where that has no version in it, as where
/// the root folder of a chroot may not be seen, `-D` is right.
fn data_directory(scene: &Scene<'_>, files: &dyn Source, main: &Process) -> Observed<String> {
    let option = option_directory(main).filter(|path| path.starts_with('/'));
    let directory = options::directory(main);
    let mut candidates = directory.known().cloned().into_iter().chain(option);
    let first = candidates.next();
    let there = |path: &String| {
        let version = options::as_reader_opens(scene.host, main, &format!("{path}/PG_VERSION"));
        !files.read(&version).is_absent()
    };
    let best = first.iter().cloned().chain(candidates).find(there).or(first);
    best.map_or(directory, Observed::Known)
}

fn option_directory(main: &Process) -> Option<String> {
    let path = options::short_value(main.command.known()?, 'D')?;
    Some(path.trim_end_matches('/').to_owned())
}

/// The configuration file as the server names it. `-D` may lead to a folder that holds only that file.
fn config_file(main: &Process, data: &Observed<String>) -> Observed<String> {
    let arguments = main.command.known().map_or(&[][..], Vec::as_slice);
    let given = settings::command_line(arguments).into_iter().rev().find(|(name, _)| name == "config_file");
    match given {
        Some((_, path)) if path.starts_with('/') => Observed::Known(path),
        Some((_, path)) => data.as_ref().map(|data| format!("{data}/{path}")),
        None => {
            let folder = option_directory(main).filter(|path| path.starts_with('/'));
            let folder = folder.map_or_else(|| data.clone(), Observed::Known);
            folder.map(|folder| format!("{folder}/postgresql.conf"))
        }
    }
}

/// What postmaster.pid says of a running server.
struct Lock {
    pid: u32,
    port: String,
    socket_folder: String,
    listens: bool,
    /// Whether it has started as a primary: it says so once recovery is over and pg_control is written.
    is_ready: bool,
}

/// The state in postmaster.pid of a primary that has started (`PM_STATUS_READY`).
const READY: &str = "ready";

/// Lines of postmaster.pid: pid, data directory, start time, port, socket folder, address, shared
/// memory key and id, state (PostgreSQL 9.1 to 18). A server that has just started has the first ones only.
fn parse_lock(bytes: &[u8]) -> Result<Lock, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    // A standalone backend has its pid negated.
    let pid = first.trim_start_matches('-').parse().map_err(|_| ParseError::at(1, "no pid"))?;
    let mut rest = lines.skip(2);
    let mut next = || rest.next().unwrap_or_default().to_owned();
    let (port, socket_folder) = (next(), next());
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseError::at(4, "no port"));
    }
    let socket_folder = if Shape::Path.fits(&socket_folder) { socket_folder } else { String::new() };
    let listens = !next().is_empty();
    let is_ready = (next(), next()).1 == READY;
    Ok(Lock { pid, port, socket_folder, listens, is_ready })
}

/// PG_VERSION: `15`, or `9.6`.
fn parse_version(bytes: &[u8]) -> Result<String, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let version = text.lines().next().unwrap_or_default().trim();
    if is_version(version) { Ok(version.to_owned()) } else { Err(ParseError::at(1, "no version")) }
}

fn is_version(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split('.').count() <= 3 && text.split('.').all(digits)
}

/// `15` of `/usr/lib/postgresql/15/bin/postgres` or `/usr/pgsql-15/bin/postgres`.
fn version_in_path(path: &str) -> Option<String> {
    let part = |part: &str| part.strip_prefix("pgsql-").unwrap_or(part).to_owned();
    path.split('/').map(part).find(|part| is_version(part))
}

fn endpoints(lock: Option<&Lock>, settings: &Settings, port: Option<&str>) -> Vec<String> {
    let Some(port) = port else { return Vec::new() };
    let mut endpoints = Vec::new();
    if lock.is_none_or(|lock| lock.listens) {
        endpoints.push(port.to_owned());
    }
    let folders = match lock {
        Some(lock) => lock.socket_folder.clone(),
        None => settings.value_or("unix_socket_directories", "").into_known().unwrap_or_default(),
    };
    let folders = folders.split(',').map(str::trim).filter(|folder| folder.starts_with('/'));
    endpoints.extend(folders.map(|folder| format!("{folder}/.s.PGSQL.{port}")));
    endpoints
}

/// Debian's `15/main`, or whatever sets this server apart.
fn name(data: Option<&str>, cluster: Option<&str>, port: Option<&str>, main: &Process) -> String {
    let debian = data.and_then(|data| {
        let mut parts = data.trim_end_matches('/').rsplit('/');
        let (cluster, version) = (parts.next()?, parts.next()?);
        (is_version(version) && !cluster.is_empty()).then(|| format!("{version}/{cluster}"))
    });
    debian
        .or_else(|| cluster.filter(|cluster| !cluster.is_empty()).map(str::to_owned))
        .or_else(|| port.map(str::to_owned))
        .or_else(|| data.map(|data| options::file_name(data).to_owned()))
        .unwrap_or_else(|| main.pid.to_string())
}

fn count(children: &[&Process], of_kind: impl Fn(&Process) -> bool) -> u64 {
    u64::try_from(children.iter().filter(|child| of_kind(child)).count()).unwrap_or(u64::MAX)
}

/// What `huge_pages` and `shared_memory_type` come to: System V memory never is on huge pages.
fn asked(settings: &Settings) -> Asked {
    if settings.value_or("shared_memory_type", "mmap").known().is_some_and(|kind| kind.eq_ignore_ascii_case("sysv")) {
        return Asked::Cannot;
    }
    match settings.value_or("huge_pages", "try").known().map(|value| value.to_ascii_lowercase()).as_deref() {
        Some("off" | "false" | "no" | "0") => Asked::No,
        Some("try") => Asked::Try,
        Some("on" | "true" | "yes" | "1") => Asked::Must,
        _ => Asked::Unknown,
    }
}

/// The setting that decided.
fn setting(settings: &Settings, asked: Asked) -> Option<Setting> {
    let name = if asked == Asked::Cannot { "shared_memory_type" } else { "huge_pages" };
    settings.get(name).known().map(|setting| (*setting).clone())
}

/// `huge_page_size` (14 and later), in kB; 0 is the host's default. The kernel is asked for the power of two that it fits into.
fn asked_page_size(host: &Host, settings: &Settings) -> Observed<PageSize> {
    let bytes = settings
        .value_or("huge_page_size", "0")
        .parse(|value| conf::memory(&value, 1 << 10).ok_or("huge_page_size is not a size"));
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
