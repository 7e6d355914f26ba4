//! MongoDB: private memory under TCMalloc, never hugetlb; transparent huge pages at most.

pub mod yaml;

use hugewise_host::Door;
use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::Shape;
use hugewise_model::configuration::Place;
use hugewise_model::instance::Setting;
use hugewise_model::{Engine, Host, Instance, Level, Process};

use crate::kind::{ThpAdvice, VersionUnknown};
use crate::settings::shown;
use crate::{Found, Kind, Scene, SettingsBy, options, private, versions};

/// MongoDB.
pub static KIND: Kind = Kind {
    engine: Engine::MongoDb,
    names: &[(Engine::MongoDb, "MongoDB")],
    tried: false,
    programs: &["mongod"],
    find,
    accounts: &["mongodb", "mongod"],
    options: OPTIONS,
    settings: SETTINGS,
    texts: &[
        ("-f", Shape::Path),
        ("--config", Shape::Path),
        ("--dbpath", Shape::Path),
        ("storage.dbpath", Shape::Path),
        ("dbpath", Shape::Path),
    ],
    companions: &["mongos"],
    settings_by: SettingsBy::Nobody,
    forms: Forms {
        rewrite: Some(|path, bytes| {
            let ours = options::file_name(path).starts_with("mongo") && path.ends_with(".conf");
            ours.then(|| without_secrets(bytes)).flatten()
        }),
        ..Forms::NONE
    },
    thp,
    thp_in_words: Some(
        "off up to 7; from 8 on `always` on x86-64 and arm64, anything else is a note (its manual, \"TCMalloc performance\")",
    ),
    reads_folder: |process| config_file(process).is_some_and(|path| !path.starts_with('/')),
    ..Kind::PLAIN
};

/// The settings that are read of a mongod.conf, each on its line, in a file of the same format: line by line it could not be
/// told what belongs to a secret.
fn without_secrets(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut kept = String::from("{");
    let mut line = 1;
    for entry in yaml::parse(bytes).ok()? {
        let Some((path, _)) = PATHS.iter().find(|(path, _)| *path == entry.path) else { continue };
        while line < entry.line {
            kept.push('\n');
            line += 1;
        }
        kept.push_str(&format!("{path}: \"{}\", ", shown(path, &entry.value)));
    }
    kept.push_str("}\n");
    Some(kept.into_bytes())
}

/// From this major version on it wants THP: its allocator manages it (MongoDB's manual, "TCMalloc performance").
const WANTS_THP: u32 = 8;

/// Up to 7 off; from 8 on `always`, on the processors that its new allocator is for.
fn thp(host: &Host, instance: &Instance) -> Result<Option<ThpAdvice>, VersionUnknown> {
    let digits = |version: &String| {
        version.trim_start_matches('v').split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
    };
    let Some(major) = instance.version.known().and_then(digits) else {
        return Err(VersionUnknown { why: instance.version.reason().unwrap_or_else(|| "not understood".into()) });
    };
    let modern = host.architecture.known().is_none_or(|it| it == "x86_64" || it == "aarch64");
    let wants = major >= WANTS_THP && modern;
    Ok(Some(if wants { ThpAdvice::For } else { ThpAdvice::Against(Level::Warn) }))
}

/// The configuration file that its command line names: it reads no other.
fn config_file(process: &Process) -> Option<&str> {
    let arguments = process.command.known()?;
    options::value(arguments, "config").or_else(|| options::short_value(arguments, 'f'))
}

const OPTIONS: &[&str] =
    &["--config", "-f", "--dbpath", "--port", "--wiredTigerCacheSizeGB", "--maxConns", "--shardsvr", "--configsvr"];

/// The last parts of [`PATHS`] and the blocks that lead to them: without these a line means nothing.
const SETTINGS: &[&str] = &[
    "storage",
    "wiredTiger",
    "engineConfig",
    "net",
    "unixDomainSocket",
    "sharding",
    "dbPath",
    "cacheSizeGB",
    "port",
    "maxIncomingConnections",
    "clusterRole",
    "storage.dbPath",
    "storage.wiredTiger.engineConfig.cacheSizeGB",
    "net.port",
    "net.maxIncomingConnections",
    "sharding.clusterRole",
];

/// What is read of mongod.conf, and the command line's option that beats it.
const PATHS: &[(&str, &str)] = &[
    ("storage.dbPath", "dbpath"),
    ("storage.wiredTiger.engineConfig.cacheSizeGB", "wiredTigerCacheSizeGB"),
    ("net.port", "port"),
    ("net.maxIncomingConnections", "maxConns"),
    ("sharding.clusterRole", ""),
];

fn find(scene: &Scene<'_>, found: &mut Found) {
    for process in scene.host.processes.known().into_iter().flatten() {
        if KIND.runs(options::program(process)) && !private::is_copy(scene, process) {
            instance(scene, found, process);
        }
    }
}

fn instance(scene: &Scene<'_>, found: &mut Found, process: &Process) {
    let arguments = process.command.known().map(Vec::as_slice).unwrap_or_default();
    let mut settings = std::collections::BTreeMap::new();
    let mut add = |path: &str, value: &str, place: Place| {
        let setting = Setting { name: path.to_owned(), value: shown(path, value).to_owned(), place: Some(place) };
        settings.insert(path.to_ascii_lowercase(), setting);
    };
    let files = scene.files_of(process);
    let mut door = Door::new(&files);
    if let Some(file) = config_file(process) {
        let folder = options::directory(process).into_known().unwrap_or_default();
        let file = if file.starts_with('/') { file.to_owned() } else { format!("{folder}/{file}") };
        let file = options::as_reader_opens(scene.host, process, &file);
        for entry in door.parse(&file, yaml::parse).into_known().unwrap_or_default() {
            if let Some((path, _)) = PATHS.iter().find(|(path, _)| *path == entry.path) {
                add(path, &entry.value, Place { file: file.clone(), line: entry.line });
            }
        }
    }
    found.add_unread(process, door.unread);
    for (path, option) in PATHS.iter().filter(|(_, option)| !option.is_empty()) {
        if let Some(value) = options::value(arguments, option) {
            add(path, value, Place::command_line(process.pid));
        }
    }
    let has = |option| options::value(arguments, option).is_some();
    let set = |path: &str| settings.get(path).map(|setting| setting.value.as_str());
    // Defaults as in MongoDB's manual, "Default MongoDB port".
    let default_port = match set("sharding.clusterrole") {
        Some("shardsvr") => "27018",
        Some("configsvr") => "27019",
        _ if has("shardsvr") => "27018",
        _ if has("configsvr") => "27019",
        _ => "27017",
    };
    let port = set("net.port").unwrap_or(default_port).to_owned();
    let mut instance = scene.instance(Engine::MongoDb, port.clone(), process, Vec::new());
    instance.version = process.executable.known().and_then(|path| versions::in_path(path)).into();
    instance.data_directory = set("storage.dbpath").map(str::to_owned).into();
    instance.max_sessions = set("net.maxincomingconnections").and_then(|value| value.parse().ok()).into();
    instance.endpoints = vec![port];
    instance.settings = settings;
    private::describe(scene, process, &mut instance);
    found.add(instance);
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::instance::Mechanism;
    use hugewise_model::{Asked, HugePageUse, Observed};

    use super::*;
    use crate::testing;

    fn mongod(pid: u32, command: &str) -> Process {
        Process {
            pid,
            name: "mongod".into(),
            command: Observed::Known(command.split(' ').map(str::to_owned).collect()),
            executable: Observed::Known("/opt/mongodb-linux-x86_64-debian12-8.0.4/bin/mongod (deleted)".into()),
            directory: Observed::Known("/srv".into()),
            ..Process::default()
        }
    }

    fn found(processes: Vec<Process>, source: &MapSource) -> Found {
        let host = Host { processes: testing::known(processes), ..Host::default() };
        let mut found = Found::default();
        find(&Scene::new(&host, source), &mut found);
        found
    }

    #[test]
    fn the_file_says_and_the_command_line_beats_it() {
        let source = MapSource::new()
            .file("/etc/mongod.conf", "storage:\n  dbPath: /data/a\n  wiredTiger:\n    engineConfig:\n      cacheSizeGB: 8\nnet:\n  port: 27100\n  maxIncomingConnections: 900\nsecurity:\n  keyFile: /k\n")
            .file("/srv/b.conf", "sharding: {clusterRole: shardsvr}\n");
        let processes = vec![
            mongod(1, "mongod --config /etc/mongod.conf"),
            mongod(2, "mongod -f b.conf --dbpath /data/b"),
            mongod(3, "mongod --config=/etc/mongod.conf --port 27200"),
            mongod(4, "mongod"),
            Process { executable: Observed::Known("/usr/bin/mongos".into()), ..mongod(5, "mongos --port 27017") },
        ];
        let found = found(processes, &source);
        let seen: Vec<_> = found
            .instances
            .iter()
            .map(|it| (it.name.as_str(), it.data_directory.known().map(String::as_str)))
            .collect();
        assert_eq!(
            seen,
            [("27100", Some("/data/a")), ("27018", Some("/data/b")), ("27200", Some("/data/a")), ("27017", None)]
        );
        let first = &found.instances[0];
        assert_eq!(first.version, Observed::Known("8.0.4".into()));
        assert_eq!(first.max_sessions, Observed::Known(900));
        assert_eq!(first.settings["storage.wiredtiger.engineconfig.cachesizegb"].value, "8");
        assert_eq!(first.settings.len(), 4);
        assert_eq!(
            (first.asked, first.mechanism, first.huge_pages),
            (Asked::Cannot, Mechanism::None, HugePageUse::None)
        );
    }

    #[test]
    fn a_capture_keeps_what_is_read_and_where_and_no_more() {
        let file = b"storage: {dbPath: /data, wiredTiger: {engineConfig: {cacheSizeGB: 4}}}\nsecurity:\n  keyFile: S3\nnet:\n  \
                     tls: {certificateKeyFilePassword: S3}\n  port: 27100\n  maxIncomingConnections: S3 x\n";
        let rewrite = KIND.forms.rewrite.unwrap();
        let kept = rewrite("/etc/mongod.conf", file).unwrap();
        assert!(!String::from_utf8_lossy(&kept).contains("S3"));
        let read = |bytes: &[u8]| -> Vec<_> {
            let entries = yaml::parse(bytes).unwrap().into_iter();
            let ours = entries.filter(|entry| PATHS.iter().any(|(path, _)| *path == entry.path));
            ours.map(|entry| (entry.line, shown(&entry.path, &entry.value).to_owned(), entry.path)).collect()
        };
        assert_eq!(read(&kept), read(file));
        assert_eq!(read(&kept).len(), 4);
        assert!(rewrite("/etc/redis.conf", file).is_none());
    }

    #[test]
    fn a_broken_file_is_said() {
        let source = MapSource::new().file("/etc/mongod.conf", "net:\n\tport: 1\n");
        let found = found(vec![mongod(1, "mongod -f /etc/mongod.conf")], &source);
        assert!(found.unread[0].why.to_string().contains("line 2"));
        assert_eq!(found.instances[0].name, "27017");
    }
}
