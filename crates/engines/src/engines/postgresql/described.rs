//! A PostgreSQL server by its data directory and configuration file.

use hugewise_host::capture::shape::NO_VALUE;
use hugewise_host::{FactReader, Source};
use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::{Mechanism, Segment, SegmentKind};
use hugewise_model::{Bytes, Engine, Host, Instance, Observed, PageSize, Process, Reason, Unread};

use super::program::{ProgramQuestion, Silence};
use super::{
    DEFAULTS, choose_instance_name, conf, demand, fill_in_requests, list_endpoints, program,
    settings, values,
};
use crate::EngineContext;
use crate::shared::description::{DescribeError, Described};
use crate::shared::faults::Fault;
use crate::shared::options;
use crate::shared::settings::{ServerSettings, redact_value};

pub(super) const SIZES: [(&str, u64); 5] = [
    ("shared_buffers", 8 << 10),
    ("huge_page_size", 1 << 10),
    ("min_dynamic_shared_memory", 1 << 20),
    ("wal_buffers", 8 << 10),
    ("track_activity_query_size", 1),
];

pub(super) const COUNTS: [&str; 9] = [
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

/// Settings whose value -1 leaves the choice to the server.
const AUTOMATIC: [&str; 2] = ["wal_buffers", "io_max_concurrency"];

struct DescribedServerFiles {
    data: Option<String>,
    config: String,
    version: Option<String>,
}

/// Describes the server of these files. One that runs on that data directory is meant, unless a
/// configuration file is named: the next start takes that.
pub(crate) fn describe_postgresql(
    host: &Host,
    source: &dyn Source,
    data_dir: Option<&str>,
    config: Option<&str>,
    server_binary: Option<&str>,
    ask: bool,
) -> Result<Described, DescribeError> {
    if config.is_none()
        && let Some(running) = data_dir.and_then(|data| find_running_instance(host, source, data))
    {
        return Ok(running.into());
    }
    let mut files = locate_files(source, data_dir, config)?;
    let mut facts = FactReader::new(source);
    let settings = read_settings(host, &mut facts, &mut files)?;
    let mut instance = build_instance(host, source, &files, &settings);
    let mut unread = std::mem::take(&mut facts.unread);
    let version = files.version.as_deref();
    let reckoned = demand::estimate_size(&settings, version).ok_or_else(|| {
        DescribeError::for_file(
            &files.config,
            "its settings say no size",
            "look at shared_buffers in it",
        )
    })?;
    let mut size = reckoned.about;
    if let Some(page) = instance.asked_page_size.get() {
        let answer = match ask {
            true => build_question(host, &files, server_binary, page, reckoned.about).and_then(
                |question| {
                    let question = ProgramQuestion { settings_files: &facts.seen, ..question };
                    program::query_program(host, source, &question)
                },
            ),
            false => Err(Silence::NotAsked),
        };
        match answer {
            Ok(answer) => {
                size = answer.size;
                instance.demand = demand::reported_demand(Some(answer.size), answer.pages, page);
            }
            Err(why) => {
                instance.demand = Some(reckoned.in_pages(page));
                unread.extend(unknown_size(&instance, &settings, &why, ask));
            }
        }
    }
    instance.segments = vec![describe_main_memory(size)];
    instance.settings = settings.values;
    Ok(Described { instance, unread })
}

fn read_settings(
    host: &Host,
    facts: &mut FactReader<'_>,
    files: &mut DescribedServerFiles,
) -> Result<ServerSettings, DescribeError> {
    let mut settings = read(host, facts, files)?;
    if files.data.is_none() {
        files.data = named_data_directory(facts.source, &settings)?;
        if let Some(data) = &files.data {
            files.version = Some(read_version(facts.source, data)?);
            settings = read(host, facts, files)?;
        }
    }
    for (name, default) in DEFAULTS {
        settings.fill_in(name, default);
    }
    Ok(settings)
}

fn describe_main_memory(size: Bytes) -> Segment {
    Segment {
        kind: SegmentKind::AnonymousShared,
        name: "main memory".into(),
        size,
        page_size: Observed::Absent,
        huge: Observed::Absent,
        mappers: 0,
        identity: crate::shared::description::NO_IDENTITY,
    }
}

fn unknown_size(
    instance: &Instance,
    settings: &ServerSettings,
    why: &Silence,
    ask: bool,
) -> Option<Unread> {
    let libraries = settings.value_or("shared_preload_libraries", "").into_known();
    let why = match libraries.as_deref().unwrap_or_default().trim() {
        "" if !ask => return None,
        "" => why.to_string(),
        libraries => format!(
            "{why}; the estimate does not include what {libraries} (shared_preload_libraries) need"
        ),
    };
    Some(Unread::new(instance.title(), Reason::from_text(why)))
}

fn find_running_instance(host: &Host, source: &dyn Source, data: &str) -> Option<Instance> {
    let data = trim_path(data);
    let ours = |instance: &Instance| {
        let theirs = instance.data_directory.as_known().map(|path| trim_path(path));
        let runs = !instance.is_stopped() && !instance.containered;
        instance.engine == Engine::PostgreSql && theirs == Some(data) && runs
    };
    crate::find_instances(host, source).instances.into_iter().find(ours)
}

fn trim_path(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => path,
        path => path,
    }
}

fn locate_files(
    source: &dyn Source,
    data_dir: Option<&str>,
    config: Option<&str>,
) -> Result<DescribedServerFiles, DescribeError> {
    for path in [data_dir, config].into_iter().flatten() {
        if !path.starts_with('/') {
            return Err(DescribeError::for_file(path, "not an absolute path", "start it with /"));
        }
    }
    let Some(data) = data_dir.map(trim_path) else {
        let Some(config) = config else {
            return Err(DescribeError::new(
                "nothing says which PostgreSQL server is meant",
                "name its --data-dir or its --config",
            ));
        };
        let beside = config.rsplit_once('/').map_or("/", |(folder, _)| folder).to_owned();
        let with_data = matches!(source.read(&format!("{beside}/PG_VERSION")), Observed::Known(_));
        let version = with_data.then(|| read_version(source, &beside)).transpose()?;
        let data = with_data.then_some(beside);
        let version = version.or_else(|| super::version_in_path(config));
        return Ok(DescribedServerFiles { data, config: config.to_owned(), version });
    };
    let beside = format!("{data}/postgresql.conf");
    let has_config = !source.read(&beside).is_absent();
    if source.read(&format!("{data}/PG_VERSION")).is_absent() && has_config && config.is_none() {
        // `-D` may name a folder that holds only the configuration.
        return Ok(DescribedServerFiles {
            data: None,
            config: beside,
            version: super::version_in_path(data),
        });
    }
    let version = read_version(source, data)?;
    let config = match config {
        Some(config) => config.to_owned(),
        None if has_config => beside,
        None => debian_config(source, data).ok_or_else(|| {
            DescribeError::for_file(
                data,
                "there is no postgresql.conf in this data directory",
                "name it with --config",
            )
        })?,
    };
    Ok(DescribedServerFiles { data: Some(data.to_owned()), config, version: Some(version) })
}

/// Debian keeps the configuration of /var/lib/postgresql/15/main in /etc/postgresql/15/main.
fn debian_config(source: &dyn Source, data: &str) -> Option<String> {
    let mut parts = data.rsplit('/');
    let (cluster, version) = (parts.next()?, parts.next()?);
    let path = format!("/etc/postgresql/{version}/{cluster}/postgresql.conf");
    (super::is_version(version) && !source.read(&path).is_absent()).then_some(path)
}

fn read_version(source: &dyn Source, data: &str) -> Result<String, DescribeError> {
    let file = format!("{data}/PG_VERSION");
    match source.read(&file) {
        Observed::Known(bytes) => super::parse_version(&bytes).map_err(|error| {
            DescribeError::for_file(file, error.message(), "no data directory, it seems")
                .at_line(error.line)
        }),
        Observed::Absent => Err(match source.list_folder(data) {
            Observed::Known(_) => DescribeError::for_file(
                data,
                "not a PostgreSQL data directory: there is no PG_VERSION in it",
                "name the folder that initdb made",
            ),
            Observed::Absent => {
                DescribeError::for_file(data, "no such folder", "name the folder that initdb made")
            }
            other => unreadable_error(data, &other),
        }),
        other => Err(unreadable_error(&file, &other)),
    }
}

fn unreadable_error<T>(path: &str, why: &Observed<T>) -> DescribeError {
    DescribeError::for_file(
        path,
        why.reason_text().unwrap_or_default(),
        "run as root or as the server's owner",
    )
}

fn read(
    host: &Host,
    facts: &mut FactReader<'_>,
    files: &DescribedServerFiles,
) -> Result<ServerSettings, DescribeError> {
    let nobody = Process::default();
    let known = |path: &String| Observed::Known(path.clone());
    let data = files.data.as_ref().map_or_else(|| Observed::Known("/nonexistent".into()), known);
    let said = settings::read(host, facts, &nobody, &known(&files.config), &data);
    if let Some(fault) = said.faults.first().cloned() {
        let todo = match fault.what.as_str() {
            "denied" => "run as root or as the server's owner",
            _ if fault.place.line == 0 && fault.place.file == files.config => {
                "name another with --config"
            }
            _ => "the server would not start with it",
        };
        let Fault { place, what, .. } = fault;
        return Err(DescribeError::for_file(place.file, what, todo).at_line(place.line));
    }
    check_settings(&said.settings)?;
    let major = files.version.as_deref().and_then(demand::parse_major);
    if let Some(fault) = said.judge_settings(major, true).into_iter().find(Fault::is_refused) {
        let Fault { place, what, .. } = fault;
        return Err(DescribeError::for_file(
            place.file,
            what,
            "the server would not start with it",
        )
        .at_line(place.line));
    }
    Ok(said.settings)
}

fn check_settings(settings: &ServerSettings) -> Result<(), DescribeError> {
    let wrong = |name: &str, value: &str, todo: &str| {
        let what = match redact_value(name, value) {
            NO_VALUE => format!("{name} has an invalid value"),
            value => format!("{name} is {value:?}"),
        };
        let place = settings.values.get(name).and_then(|setting| setting.place.clone());
        let FileLocation { file, line } =
            place.unwrap_or(FileLocation { file: "default".into(), line: 0 });
        DescribeError::for_file(file, what, todo).at_line(line)
    };
    let automatic = |name: &str, value: &str| AUTOMATIC.contains(&name) && value.trim() == "-1";
    let given = |name: &'static str| {
        let value = settings.values.get(name)?.value.as_str();
        (!automatic(name, value)).then_some((name, value))
    };
    for (name, unit) in SIZES {
        let Some((name, value)) = given(name) else { continue };
        match conf::parse_memory(value, unit) {
            Some(0) if name == "shared_buffers" => {
                return Err(wrong(name, value, "it is at least 128kB"));
            }
            Some(bytes) if bytes < 1 << 63 => {}
            Some(_) => return Err(wrong(name, value, "that is more than any machine has")),
            None => return Err(wrong(name, value, "write a size such as 512MB or 6GB")),
        }
    }
    for (name, value) in COUNTS.into_iter().filter_map(given) {
        let count = values::parse_integer(value);
        let least = i128::from(name == "max_connections");
        if !count.is_some_and(|count| (least..=i128::from(i32::MAX)).contains(&count)) {
            return Err(wrong(name, value, "write a number from 1 to 2147483647"));
        }
    }
    Ok(())
}

fn named_data_directory(
    source: &dyn Source,
    settings: &ServerSettings,
) -> Result<Option<String>, DescribeError> {
    let Observed::Known(setting) = settings.get("data_directory") else { return Ok(None) };
    let data = trim_path(&setting.value);
    let there = data.starts_with('/') && !source.list_folder(data).is_absent();
    match (&setting.place, there) {
        (_, true) => Ok(Some(data.to_owned())),
        (Some(place), false) => {
            let what = format!("data_directory {data:?} is not there");
            Err(DescribeError::for_file(&place.file, what, "name it with --data-dir")
                .at_line(place.line))
        }
        (None, false) => Ok(None),
    }
}

fn build_instance(
    host: &Host,
    source: &dyn Source,
    files: &DescribedServerFiles,
    settings: &ServerSettings,
) -> Instance {
    let mut instance = crate::shared::described::new_described_instance(
        &EngineContext::new(host, source),
        Engine::PostgreSql,
        String::new(),
    );
    instance.mechanism = Mechanism::Mmap;
    let port = settings.value_or("port", "5432").into_known();
    let cluster = settings.value_or("cluster_name", "").into_known();
    instance.endpoints = list_endpoints(None, settings, port.as_deref());
    let folder =
        files.data.as_deref().or_else(|| files.config.rsplit_once('/').map(|(folder, _)| folder));
    // A described cluster may have no port of its own yet.
    instance.name =
        match choose_instance_name(folder, cluster.as_deref(), None, &Process::default()) {
            empty if empty.is_empty() => options::file_name(&files.config).to_owned(),
            name => name,
        };
    instance.owner = data_directory_owner(host, files);
    instance.version = files.version.clone().into();
    instance.data_directory = files.data.clone().into();
    fill_in_requests(host, &mut instance, settings);
    let usual = || Observed::Known(crate::shared::described::page_size(host));
    instance.asked_page_size = instance.asked_page_size.or_else_absent(usual);
    instance
}

/// Who owns the data directory, if this is its machine.
fn data_directory_owner(host: &Host, files: &DescribedServerFiles) -> String {
    let stat =
        files.data.as_ref().filter(|_| host.live).and_then(|data| rustix::fs::stat(data).ok());
    stat.map_or_else(|| "postgres".to_owned(), |stat| host.accounts.user_name(stat.st_uid))
}

fn build_question<'a>(
    host: &Host,
    files: &'a DescribedServerFiles,
    server_binary: Option<&'a str>,
    page_size: PageSize,
    about: Bytes,
) -> Result<ProgramQuestion<'a>, Silence> {
    if !host.live {
        return Err(Silence::Captured);
    }
    let data = files.data.as_deref().ok_or(Silence::NoData)?;
    let version = files.version.as_deref().unwrap_or_default();
    let major = demand::parse_major(version).filter(|major| *major >= 10);
    let major = major.ok_or_else(|| Silence::TooOld(version.to_owned()))?;
    Ok(ProgramQuestion {
        data,
        config: &files.config,
        settings_files: &[],
        major,
        program: server_binary,
        page_size,
        about,
    })
}

#[cfg(test)]
mod tests;
