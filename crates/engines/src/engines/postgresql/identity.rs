//! What a server is and where: its version, its folders, its name, and what it listens on.

use hugewise_host::capture::shape::ValueShape;
use hugewise_host::{FactReader, ParseError, Source};
use hugewise_model::{Host, Instance, Observed, Process};

use super::settings;
use crate::EngineContext;
use crate::shared::settings::ServerSettings;
use crate::shared::{next_start, options};

pub(super) fn read_version_and_lock(
    host: &Host,
    facts: &mut FactReader<'_>,
    main: &Process,
    instance: &mut Instance,
) -> Option<PostmasterLock> {
    let mut lock = None;
    if let Some(data) = instance.data_directory.as_known() {
        let inside = |name: &str| options::as_reader_opens(host, main, &format!("{data}/{name}"));
        instance.version = facts.parse(&inside("PG_VERSION"), parse_version);
        lock = PostmasterLock::read(facts, main, inside("postmaster.pid"));
    } else {
        facts.note_unknown(&format!("/proc/{}/cwd", main.pid), &instance.data_directory);
    }
    if let (false, Some(version)) = (instance.version.is_known(), version_of_program(main)) {
        instance.version = Observed::Known(version);
    }
    lock
}

/// The data directory as the server names it: the postmaster's working directory, or `-D` where
/// that has no PG_VERSION, as with the hidden root of a chroot.
pub(super) fn data_directory(
    scene: &EngineContext<'_>,
    files: &dyn Source,
    main: &Process,
) -> Observed<String> {
    let option = option_directory(main).filter(|path| path.starts_with('/'));
    let directory = options::working_directory(main);
    let mut candidates = directory.as_known().cloned().into_iter().chain(option);
    let first = candidates.next();
    let there = |path: &String| {
        let version = options::as_reader_opens(scene.host, main, &format!("{path}/PG_VERSION"));
        !files.read(&version).is_absent()
    };
    let best = first.iter().cloned().chain(candidates).find(there).or(first);
    best.map_or(directory, Observed::Known)
}

pub(super) fn option_directory(main: &Process) -> Option<String> {
    let path = options::short_value(main.command.as_known()?, 'D')?;
    Some(path.trim_end_matches('/').to_owned())
}

pub(super) fn config_file_option(main: &Process) -> Option<String> {
    let settings = settings::command_line(main.command.as_known()?);
    settings.into_iter().rev().find(|(name, _)| name == "config_file").map(|(_, path)| path)
}

/// Whether a folder is `/etc/postgresql/VERSION/CLUSTER`.
pub(super) fn is_cluster_folder(folder: &str) -> bool {
    folder.strip_prefix("/etc/postgresql/").is_some_and(|name| {
        name.split('/').count() == 2 && name.split('/').all(|part| !part.is_empty() && part != "..")
    })
}

/// The configuration file as the server names it; `-D` may name a folder with only that file.
pub(super) fn config_file(main: &Process, data: &Observed<String>) -> Observed<String> {
    match config_file_option(main) {
        Some(path) if path.starts_with('/') => Observed::Known(path),
        Some(path) => data.as_ref().map(|data| format!("{data}/{path}")),
        None => {
            let folder = option_directory(main).filter(|path| path.starts_with('/'));
            let folder = folder.map_or_else(|| data.clone(), Observed::Known);
            folder.map(|folder| format!("{folder}/postgresql.conf"))
        }
    }
}

pub(super) struct PostmasterLock {
    pub(super) pid: u32,
    pub(super) port: String,
    pub(super) socket_folder: String,
    pub(super) listens: bool,
    /// A primary says so once recovery is over and pg_control is written.
    pub(super) is_ready: bool,
    /// It wrote this file after its start. Where the file looks older, the clock was set forward
    /// since, and edits may look older, too.
    pub(super) clock_was_set: bool,
}

impl PostmasterLock {
    /// Another server may have left its own.
    pub(super) fn read(facts: &mut FactReader<'_>, main: &Process, path: String) -> Option<Self> {
        let mut lock = facts.parse(&path, parse_lock).into_known()?;
        lock.clock_was_set =
            lock.is_ready && next_start::are_unchanged(facts.source, main, &[path]);
        Some(lock).filter(|lock| lock.pid == main.pid || main.namespace_pids.contains(&lock.pid))
    }
}

/// The state in postmaster.pid of a primary that has started (`PM_STATUS_READY`).
pub(super) const READY: &str = "ready";

/// Lines of postmaster.pid: pid, data directory, start time, port, socket folder, address, shared
/// memory key and id, state (PostgreSQL 9.1 to 18). A server that has just started has only the
/// first ones.
pub(super) fn parse_lock(bytes: &[u8]) -> Result<PostmasterLock, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    // A standalone backend has its pid negated.
    let pid =
        first.trim_start_matches('-').parse().map_err(|_| ParseError::at_line(1, "no pid"))?;
    let mut rest = lines.skip(2);
    let mut next = || rest.next().unwrap_or_default().to_owned();
    let (port, socket_folder) = (next(), next());
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(ParseError::at_line(4, "no port"));
    }
    let socket_folder =
        if ValueShape::Path.matches_value(&socket_folder) { socket_folder } else { String::new() };
    let listens = !next().is_empty();
    let is_ready = (next(), next()).1 == READY;
    Ok(PostmasterLock { pid, port, socket_folder, listens, is_ready, clock_was_set: false })
}

pub(super) fn parse_version(bytes: &[u8]) -> Result<String, ParseError> {
    let text = String::from_utf8_lossy(bytes);
    let version = text.lines().next().unwrap_or_default().trim();
    if is_version(version) {
        Ok(version.to_owned())
    } else {
        Err(ParseError::at_line(1, "no version"))
    }
}

pub(super) fn is_version(text: &str) -> bool {
    let digits = |part: &str| part.len() <= 4 && options::is_number(part);
    text.split('.').count() <= 3 && text.split('.').all(digits)
}

pub(super) fn version_of_program(main: &Process) -> Option<String> {
    let first = main.command.as_known().and_then(|arguments| arguments.first());
    main.executable.as_known().into_iter().chain(first).find_map(|path| version_in_path(path))
}

/// `15` of `/usr/lib/postgresql/15/bin/postgres` or `/usr/pgsql-15/bin/postgres`.
pub(super) fn version_in_path(path: &str) -> Option<String> {
    let part = |part: &str| part.strip_prefix("pgsql-").unwrap_or(part).to_owned();
    path.split('/').map(part).find(|part| is_version(part))
}

pub(super) fn list_endpoints(
    lock: Option<&PostmasterLock>,
    settings: &ServerSettings,
    port: Option<&str>,
) -> Vec<String> {
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

pub(super) fn socket_of(instance: &Instance) -> Option<(&str, &str)> {
    instance.endpoints.iter().find_map(|endpoint| endpoint.rsplit_once("/.s.PGSQL."))
}

/// Debian's `15/main`, or whatever sets this server apart.
pub(super) fn choose_instance_name(
    data: Option<&str>,
    cluster: Option<&str>,
    port: Option<&str>,
    main: &Process,
) -> String {
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

/// Whether a release is older than 9.4, which brought huge pages and their setting.
pub(super) fn predates_huge_pages(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(..=8)), _) | (Some(Ok(9)), Some(Ok(..=3))))
}
