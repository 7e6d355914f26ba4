//! A PostgreSQL server by its data directory and configuration file.

use hugewise_host::capture::shape::NO_VALUE;
use hugewise_host::{Door, Source};
use hugewise_model::configuration::Place;
use hugewise_model::instance::{Mechanism, Segment, SegmentKind};
use hugewise_model::{Bytes, Engine, Host, Instance, Observed, PageSize, Process, Reason, Unread};

use super::program::Silence;
use super::{
    DEFAULTS, asked, asked_page_size, conf, demand, endpoints, name, program, setting, settings, values, whole,
};
use crate::description::{DescribeError, Described};
use crate::faults::Fault;
use crate::settings::{Settings, shown};
use crate::{Scene, options};

/// Settings that are an amount of memory, with the unit of a bare number.
const SIZES: [(&str, u64); 5] = [
    ("shared_buffers", 8 << 10),
    ("huge_page_size", 1 << 10),
    ("min_dynamic_shared_memory", 1 << 20),
    ("wal_buffers", 8 << 10),
    ("track_activity_query_size", 1),
];

/// Settings that are a count.
const COUNTS: [&str; 9] = [
    "max_connections",
    "max_worker_processes",
    "max_wal_senders",
    "max_prepared_transactions",
    "max_locks_per_transaction",
    "max_pred_locks_per_transaction",
    "autovacuum_max_workers",
    "autovacuum_worker_slots",
    "io_max_concurrency",
];

/// Settings whose value may be -1, for what the server finds good.
const AUTOMATIC: [&str; 2] = ["wal_buffers", "io_max_concurrency"];

/// Where the server's files are.
struct Files {
    data: Option<String>,
    config: String,
    version: Option<String>,
}

/// Describes the server of these files. One that runs on that data directory is the running one,
/// unless a configuration file is named: that is what its next start takes.
pub(crate) fn describe(
    host: &Host,
    source: &dyn Source,
    data_dir: Option<&str>,
    config: Option<&str>,
    server_binary: Option<&str>,
    ask: bool,
) -> Result<Described, DescribeError> {
    if config.is_none()
        && let Some(running) = data_dir.and_then(|data| running(host, source, data))
    {
        return Ok(running.into());
    }
    let mut files = locate(source, data_dir, config)?;
    let mut door = Door::new(source);
    let mut settings = read(host, &mut door, &files)?;
    if files.data.is_none() {
        files.data = named_data_directory(source, &settings)?;
        if let Some(data) = &files.data {
            files.version = Some(version(source, data)?);
            // postgresql.auto.conf is in there.
            settings = read(host, &mut door, &files)?;
        }
    }
    for (name, default) in DEFAULTS {
        settings.fill_in(name, default);
    }
    let mut instance = instance(host, source, &files, &settings);
    let mut unread = door.unread;
    let version = files.version.as_deref();
    let reckoned = demand::size(&settings, version)
        .ok_or_else(|| DescribeError::of(&files.config, "its settings say no size", "look at shared_buffers in it"))?;
    let mut size = reckoned.about;
    if let Some(page) = instance.asked_page_size.get() {
        let answer = match ask {
            true => {
                question(host, &files, server_binary, page, reckoned.about).and_then(|question| program::ask(&question))
            }
            false => Err(Silence::NotAsked),
        };
        match answer {
            Ok(answer) => {
                size = answer.size;
                instance.demand = demand::said(Some(answer.size), answer.pages, page);
            }
            Err(why) => {
                let libraries = settings.value_or("shared_preload_libraries", "").into_known().unwrap_or_default();
                let why = match libraries.trim() {
                    "" => why.to_string(),
                    libraries => {
                        format!("{why}; the estimate does not include what {libraries} (shared_preload_libraries) need")
                    }
                };
                instance.demand = Some(reckoned.in_pages(page));
                if ask || !libraries.trim().is_empty() {
                    unread.push(Unread::new(instance.title(), Reason::untold(why)));
                }
            }
        }
    }
    instance.segments = vec![Segment {
        kind: SegmentKind::AnonymousShared,
        name: "main memory".into(),
        size,
        page_size: Observed::Absent,
        huge: Observed::Absent,
        mappers: 0,
        identity: crate::description::NO_IDENTITY,
    }];
    instance.settings = settings.values;
    Ok(Described { instance, unread })
}

/// The running server of a data directory.
fn running(host: &Host, source: &dyn Source, data: &str) -> Option<Instance> {
    let data = trimmed(data);
    let ours = |instance: &Instance| {
        let theirs = instance.data_directory.known().map(|path| trimmed(path));
        let runs = !instance.is_asleep() && !instance.containered;
        instance.engine == Engine::PostgreSql && theirs == Some(data) && runs
    };
    crate::find(host, source).instances.into_iter().find(ours)
}

fn trimmed(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => path,
        path => path,
    }
}

/// Finds the files by what is given of them.
fn locate(source: &dyn Source, data_dir: Option<&str>, config: Option<&str>) -> Result<Files, DescribeError> {
    for path in [data_dir, config].into_iter().flatten() {
        if !path.starts_with('/') {
            return Err(DescribeError::of(path, "not an absolute path", "start it with /"));
        }
    }
    let Some(data) = data_dir.map(trimmed) else {
        let Some(config) = config else {
            return Err(DescribeError::new(
                "nothing says which PostgreSQL server is meant",
                "name its --data-dir or its --config",
            ));
        };
        let beside = config.rsplit_once('/').map_or("/", |(folder, _)| folder).to_owned();
        let with_data = matches!(source.read(&format!("{beside}/PG_VERSION")), Observed::Known(_));
        let version = with_data.then(|| version(source, &beside)).transpose()?;
        let data = with_data.then_some(beside);
        let version = version.or_else(|| super::version_in_path(config));
        return Ok(Files { data, config: config.to_owned(), version });
    };
    let beside = format!("{data}/postgresql.conf");
    let has_config = !source.read(&beside).is_absent();
    if source.read(&format!("{data}/PG_VERSION")).is_absent() && has_config && config.is_none() {
        // `-D` may lead to a folder that holds the configuration alone.
        return Ok(Files { data: None, config: beside, version: super::version_in_path(data) });
    }
    let version = version(source, data)?;
    let config = match config {
        Some(config) => config.to_owned(),
        None if has_config => beside,
        None => debian_config(source, data).ok_or_else(|| {
            DescribeError::of(data, "there is no postgresql.conf in this data directory", "name it with --config")
        })?,
    };
    Ok(Files { data: Some(data.to_owned()), config, version: Some(version) })
}

/// Debian keeps the configuration of /var/lib/postgresql/15/main in /etc/postgresql/15/main.
fn debian_config(source: &dyn Source, data: &str) -> Option<String> {
    let mut parts = data.rsplit('/');
    let (cluster, version) = (parts.next()?, parts.next()?);
    let path = format!("/etc/postgresql/{version}/{cluster}/postgresql.conf");
    (super::is_version(version) && !source.read(&path).is_absent()).then_some(path)
}

/// The version of a data directory, which proves that it is one.
fn version(source: &dyn Source, data: &str) -> Result<String, DescribeError> {
    let file = format!("{data}/PG_VERSION");
    match source.read(&file) {
        Observed::Known(bytes) => super::parse_version(&bytes)
            .map_err(|error| DescribeError::of(file, error.message(), "no data directory, it seems").at(error.line)),
        Observed::Absent => Err(match source.list(data) {
            Observed::Known(_) => DescribeError::of(
                data,
                "not a PostgreSQL data directory: there is no PG_VERSION in it",
                "name the folder that initdb made",
            ),
            Observed::Absent => DescribeError::of(data, "no such folder", "name the folder that initdb made"),
            other => denied(data, &other),
        }),
        other => Err(denied(&file, &other)),
    }
}

fn denied<T>(path: &str, why: &Observed<T>) -> DescribeError {
    DescribeError::of(path, why.reason().unwrap_or_default(), "run as root or as the server's owner")
}

fn read(host: &Host, door: &mut Door<'_>, files: &Files) -> Result<Settings, DescribeError> {
    let nobody = Process::default();
    let known = |path: &String| Observed::Known(path.clone());
    // Without a data directory there is no postgresql.auto.conf either.
    let data = files.data.as_ref().map_or_else(|| Observed::Known("/nonexistent".into()), known);
    let said = settings::read(host, door, &nobody, &known(&files.config), &data);
    if let Some(fault) = said.faults.first().cloned() {
        let todo = match fault.what.as_str() {
            "denied" => "run as root or as the server's owner",
            _ if fault.place.line == 0 && fault.place.file == files.config => "name another with --config",
            _ => "the server would not start with it",
        };
        let what = fault.what.trim_start_matches("malformed: ");
        let what = what.strip_prefix(&format!("line {}: ", fault.place.line)).unwrap_or(what).to_owned();
        return Err(DescribeError::of(fault.place.file, what, todo).at(fault.place.line));
    }
    check(&said.settings)?;
    let major = files.version.as_deref().and_then(demand::major);
    if let Some(fault) = said.judged(major, true).into_iter().find(Fault::is_refused) {
        let Fault { place, what, .. } = fault;
        return Err(DescribeError::of(place.file, what, "the server would not start with it").at(place.line));
    }
    Ok(said.settings)
}

/// Refuses what the server would refuse, by file and line.
fn check(settings: &Settings) -> Result<(), DescribeError> {
    let wrong = |name: &str, value: &str, todo: &str| {
        let what = match shown(name, value) {
            NO_VALUE => format!("{name} has an invalid value"),
            value => format!("{name} is {value:?}"),
        };
        let place = settings.values.get(name).and_then(|setting| setting.place.clone());
        let Place { file, line } = place.unwrap_or(Place { file: "default".into(), line: 0 });
        DescribeError::of(file, what, todo).at(line)
    };
    let automatic = |name: &str, value: &str| AUTOMATIC.contains(&name) && value.trim() == "-1";
    let given = |name: &'static str| {
        let value = settings.values.get(name)?.value.as_str();
        (!automatic(name, value)).then_some((name, value))
    };
    for (name, unit) in SIZES {
        let Some((name, value)) = given(name) else { continue };
        match conf::memory(value, unit) {
            Some(0) if name == "shared_buffers" => return Err(wrong(name, value, "it is at least 128kB")),
            Some(bytes) if bytes < 1 << 63 => {}
            Some(_) => return Err(wrong(name, value, "that is more than any machine has")),
            None => return Err(wrong(name, value, "write a size such as 512MB or 6GB")),
        }
    }
    for (name, value) in COUNTS.into_iter().filter_map(given) {
        let count = values::integer(value);
        let least = i128::from(name == "max_connections");
        if !count.is_some_and(|count| (least..=i128::from(i32::MAX)).contains(&count)) {
            return Err(wrong(name, value, "write a number from 1 to 2147483647"));
        }
    }
    Ok(())
}

/// The data directory that the configuration itself names.
fn named_data_directory(source: &dyn Source, settings: &Settings) -> Result<Option<String>, DescribeError> {
    let Observed::Known(setting) = settings.get("data_directory") else { return Ok(None) };
    let data = trimmed(&setting.value);
    let there = data.starts_with('/') && !source.list(data).is_absent();
    match (&setting.place, there) {
        (_, true) => Ok(Some(data.to_owned())),
        (Some(place), false) => {
            let what = format!("data_directory {data:?} is not there");
            Err(DescribeError::of(&place.file, what, "name it with --data-dir").at(place.line))
        }
        (None, false) => Ok(None),
    }
}

fn instance(host: &Host, source: &dyn Source, files: &Files, settings: &Settings) -> Instance {
    let mut instance = crate::described::instance(&Scene::new(host, source), Engine::PostgreSql, String::new());
    instance.mechanism = Mechanism::Mmap;
    let port = settings.value_or("port", "5432").into_known();
    let cluster = settings.value_or("cluster_name", "").into_known();
    instance.endpoints = endpoints(None, settings, port.as_deref());
    let folder = files.data.as_deref().or_else(|| files.config.rsplit_once('/').map(|(folder, _)| folder));
    // A cluster that is only described may have no port of its own yet.
    instance.name = match name(folder, cluster.as_deref(), None, &Process::default()) {
        empty if empty.is_empty() => options::file_name(&files.config).to_owned(),
        name => name,
    };
    instance.owner = owner(host, files);
    instance.version = files.version.clone().into();
    instance.data_directory = files.data.clone().into();
    instance.max_sessions = settings.value_or("max_connections", "100").parse(|value| whole(&value));
    instance.asked = asked(settings);
    instance.setting = setting(settings, instance.asked);
    let usual = || Observed::Known(crate::described::page_size(host));
    instance.asked_page_size = asked_page_size(host, settings).or_else_absent(usual);
    instance
}

/// Who owns the data directory, where this is its machine.
fn owner(host: &Host, files: &Files) -> String {
    let stat = files.data.as_ref().filter(|_| host.live).and_then(|data| rustix::fs::stat(data).ok());
    stat.map_or_else(|| "postgres".to_owned(), |stat| host.accounts.user_name(stat.st_uid))
}

fn question<'a>(
    host: &Host,
    files: &'a Files,
    server_binary: Option<&'a str>,
    page_size: PageSize,
    about: Bytes,
) -> Result<program::Question<'a>, Silence> {
    if !host.live {
        return Err(Silence::Captured);
    }
    let data = files.data.as_deref().ok_or(Silence::NoData)?;
    let version = files.version.as_deref().unwrap_or_default();
    let major = demand::major(version).filter(|major| *major >= 10);
    let major = major.ok_or_else(|| Silence::TooOld(version.to_owned()))?;
    Ok(program::Question { data, config: &files.config, major, program: server_binary, page_size, about })
}

#[cfg(test)]
mod tests;
