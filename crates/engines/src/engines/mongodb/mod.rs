//! MongoDB: private memory under TCMalloc, never hugetlb; transparent huge pages at most.

mod build_info;
mod meanings;
mod messages;
pub mod yaml;

use std::collections::BTreeMap;

use hugewise_host::FactReader;
use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::ValueShape;
use hugewise_model::configuration::FileLocation;
use hugewise_model::{Engine, Host, Instance, Level, Process};

use crate::shared::kind::{
    CaptureRules, LogSources, Recognition, SettingAdvice, ThpAdvice, ThpBehavior, VersionUnknown,
};
use crate::shared::settings::{redact_value, redacted_setting};
use crate::shared::{options, packages, private_memory, versions};
use crate::{EngineContext, EngineKind, FoundInstances, SettingsBy, each_known};

pub(crate) static KIND: EngineKind = EngineKind {
    engine: Engine::MongoDb,
    names: &[(Engine::MongoDb, "MongoDB")],
    tried: false,
    logs: LogSources {
        messages: messages::MESSAGES,
        meanings: meanings::MEANINGS,
        ..LogSources::PLAIN
    },
    recognition: Recognition {
        programs: &["mongod"],
        find_running: find_mongodb_instances,
        accounts: &["mongodb", "mongod"],
        companions: &["mongos"],
        ..Recognition::PLAIN
    },
    capture: CaptureRules {
        options: OPTIONS,
        settings: SETTINGS,
        value_shapes: &[
            ("-f", ValueShape::Path),
            ("--config", ValueShape::Path),
            ("--dbpath", ValueShape::Path),
            ("storage.dbpath", ValueShape::Path),
            ("dbpath", ValueShape::Path),
            ("--logpath", ValueShape::Path),
            ("systemlog.path", ValueShape::Path),
        ],
        forms: Forms {
            rewrite: Some(|path, bytes| {
                let ours = options::file_name(path).starts_with("mongo");
                match path {
                    _ if ours && path.ends_with(".conf") => without_secrets(bytes),
                    _ if ours && path.contains(".log") => Some(build_info::keep_version(bytes)),
                    _ => packages::keep_package_versions(path, bytes, PACKAGES),
                }
            }),
            ..Forms::NONE
        },
        reads_working_directory: |process| {
            config_file(process).is_some_and(|path| !path.starts_with('/'))
        },
        ..CaptureRules::PLAIN
    },
    thp: ThpBehavior {
        advise: advise_thp,
        summary: Some(
            "off up to 7; from 8 on `always` on x86-64 and arm64, anything else is a note (its \
             manual, \"TCMalloc performance\")",
        ),
    },
    settings: SettingAdvice { changed_by: SettingsBy::Nobody, ..SettingAdvice::PLAIN },
    ..EngineKind::PLAIN
};

/// The settings that are read of a mongod.conf, each on its line in a file of the same format: line
/// by line nobody could tell what belongs to a secret.
fn without_secrets(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut kept = String::from("{");
    let mut line = 1;
    for entry in yaml::parse(bytes).ok()? {
        let Some((path, _)) = PATHS.iter().find(|(path, _)| *path == entry.path) else { continue };
        while line < entry.line {
            kept.push('\n');
            line += 1;
        }
        kept.push_str(&format!("{path}: \"{}\", ", redact_value(path, &entry.value)));
    }
    kept.push_str("}\n");
    Some(kept.into_bytes())
}

/// Of MongoDB's own repository, and of Debian's and Ubuntu's.
const PACKAGES: &[&str] = &[
    "mongodb-org-server",
    "mongodb-enterprise-server",
    "percona-server-mongodb-server",
    "mongodb-server-core",
    "mongodb-server",
];

/// From this major version on its allocator manages THP (MongoDB's manual, "TCMalloc performance").
const WANTS_THP: u32 = 8;

/// Up to 7 off; from 8 on `always`, on the processors that its new allocator is for.
fn advise_thp(host: &Host, instance: &Instance) -> Result<Option<ThpAdvice>, VersionUnknown> {
    let digits = |version: &String| {
        let numbers = version.trim_start_matches('v');
        let major = numbers.split(|character: char| !character.is_ascii_digit()).next()?;
        major.parse::<u32>().ok()
    };
    let Some(major) = instance.version.as_known().and_then(digits) else {
        return Err(VersionUnknown {
            why: instance.version.reason_text().unwrap_or_else(|| "not understood".into()),
        });
    };
    let modern =
        host.architecture.as_known().is_none_or(|text| text == "x86_64" || text == "aarch64");
    let wants = major >= WANTS_THP && modern;
    Ok(Some(if wants { ThpAdvice::For } else { ThpAdvice::Never(Level::Warn) }))
}

fn config_file(process: &Process) -> Option<&str> {
    let arguments = process.command.as_known()?;
    options::option_value(arguments, "config").or_else(|| options::short_value(arguments, 'f'))
}

const OPTIONS: &[&str] = &[
    "--config",
    "-f",
    "--dbpath",
    "--logpath",
    "--port",
    "--wiredTigerCacheSizeGB",
    "--maxConns",
    "--shardsvr",
    "--configsvr",
];

/// The last parts of [`PATHS`] and the blocks that lead to them, which give a line its meaning.
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
    "systemLog.path",
];

/// Settings of mongod.conf, and the command line's option that beats each.
const PATHS: &[(&str, &str)] = &[
    ("storage.dbPath", "dbpath"),
    ("storage.wiredTiger.engineConfig.cacheSizeGB", "wiredTigerCacheSizeGB"),
    ("net.port", "port"),
    ("net.maxIncomingConnections", "maxConns"),
    ("sharding.clusterRole", ""),
    ("systemLog.path", "logpath"),
];

fn find_mongodb_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    for process in each_known(&scene.host.processes) {
        if KIND.is_server_program(options::program_name(process))
            && !private_memory::is_copy(scene, process)
        {
            add_instance(scene, found, process);
        }
    }
}

fn add_instance(scene: &EngineContext<'_>, found: &mut FoundInstances, process: &Process) {
    let arguments = process.command.as_known().map(Vec::as_slice).unwrap_or_default();
    let mut settings = BTreeMap::new();
    let mut add = |path: &str, value: &str, place: FileLocation| {
        settings.insert(path.to_ascii_lowercase(), redacted_setting(path, value, Some(place)));
    };
    let files = scene.files_of(process);
    let mut facts = FactReader::new(&files);
    if let Some(file) = config_file(process) {
        let file = options::from_working_directory(process, file);
        let file = options::as_reader_opens(scene.host, process, &file);
        for entry in facts.parse(&file, yaml::parse).into_known().unwrap_or_default() {
            if let Some((path, _)) = PATHS.iter().find(|(path, _)| *path == entry.path) {
                add(path, &entry.value, FileLocation { file: file.clone(), line: entry.line });
            }
        }
    }
    found.add_unread(process, facts.unread);
    for (path, option) in PATHS.iter().filter(|(_, option)| !option.is_empty()) {
        if let Some(value) = options::option_value(arguments, option) {
            add(path, value, FileLocation::command_line(process.pid));
        }
    }
    let has = |option| options::option_value(arguments, option).is_some();
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
    let mut instance = scene.new_instance(Engine::MongoDb, port.clone(), process, Vec::new());
    instance.version = versions::of_program(process)
        .or_else(|| packages::find_package_version(scene, process, PACKAGES))
        .or_else(|| build_info::find_logged_version(scene, process, settings.get("systemlog.path")))
        .into();
    instance.data_directory = set("storage.dbpath").map(str::to_owned).into();
    instance.max_sessions =
        set("net.maxincomingconnections").and_then(|value| value.parse().ok()).into();
    instance.endpoints = vec![port];
    instance.settings = settings;
    private_memory::describe_private_memory(scene, process, &mut instance);
    found.add(instance);
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::instance::Mechanism;
    use hugewise_model::{HugePageMode, HugePageUse, Observed};

    use super::*;
    use crate::testing;

    /// The program's path has no version: its package has, or what it wrote as it started.
    #[test]
    fn a_packaged_servers_version_is_its_packages_or_its_logs() {
        let version = |file: (&str, &str)| {
            let source = MapSource::new()
                .with_file("/etc/mongod.conf", "systemLog:\n  path: /data/log/mongod.log\n")
                .with_file(file.0, file.1);
            let process = Process {
                executable: Observed::Known("/usr/bin/mongod".into()),
                ..mongod(1, "mongod --config /etc/mongod.conf")
            };
            found(vec![process], &source).instances[0].version.clone()
        };
        let status = "Package: mongodb-org-server\nStatus: install ok installed\nVersion: 3.0.2\n";
        assert_eq!(version(("/var/lib/dpkg/status", status)), Observed::Known("3.0.2".into()));
        let log = "2015-05-01T10:00:00.000+0000 I CONTROL  [initandlisten] db version v2.6.9\n\
            2016-05-01T10:00:00.000+0000 I CONTROL  [initandlisten] db version v3.2.1\n";
        assert_eq!(version(("/data/log/mongod.log", log)), Observed::Known("3.2.1".into()));
        assert_eq!(version(("/data/log/other.log", log)), Observed::Absent);
    }

    fn mongod(pid: u32, command: &str) -> Process {
        Process {
            pid,
            name: "mongod".into(),
            command: Observed::Known(command.split(' ').map(str::to_owned).collect()),
            executable: Observed::Known(
                "/opt/mongodb-linux-x86_64-debian12-8.0.4/bin/mongod (deleted)".into(),
            ),
            directory: Observed::Known("/srv".into()),
            ..Process::default()
        }
    }

    fn found(processes: Vec<Process>, source: &MapSource) -> FoundInstances {
        let host = Host { processes: testing::known(processes), ..Host::default() };
        let mut found = FoundInstances::default();
        find_mongodb_instances(&EngineContext::new(&host, source), &mut found);
        found
    }

    #[test]
    fn the_file_says_and_the_command_line_beats_it() {
        let source = MapSource::new()
            .with_file(
                "/etc/mongod.conf",
                "storage:\n  dbPath: \
                 /data/a\n  wiredTiger:\n    engineConfig:\n      cacheSizeGB: 8\nnet:\n  port: \
                 27100\n  maxIncomingConnections: 900\nsecurity:\n  keyFile: /k\n",
            )
            .with_file("/srv/b.conf", "sharding: {clusterRole: shardsvr}\n");
        let processes = vec![
            mongod(1, "mongod --config /etc/mongod.conf"),
            mongod(2, "mongod -f b.conf --dbpath /data/b"),
            mongod(3, "mongod --config=/etc/mongod.conf --port 27200"),
            mongod(4, "mongod"),
            Process {
                executable: Observed::Known("/usr/bin/mongos".into()),
                ..mongod(5, "mongos --port 27017")
            },
        ];
        let found = found(processes, &source);
        let seen: Vec<_> = found
            .instances
            .iter()
            .map(|instance| {
                (instance.name.as_str(), instance.data_directory.as_known().map(String::as_str))
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("27100", Some("/data/a")),
                ("27018", Some("/data/b")),
                ("27200", Some("/data/a")),
                ("27017", None)
            ]
        );
        let first = &found.instances[0];
        assert_eq!(first.version, Observed::Known("8.0.4".into()));
        assert_eq!(first.max_sessions, Observed::Known(900));
        assert_eq!(first.settings["storage.wiredtiger.engineconfig.cachesizegb"].value, "8");
        assert_eq!(first.settings.len(), 4);
        assert_eq!(
            (first.asked, first.mechanism, first.huge_pages),
            (HugePageMode::Cannot, Mechanism::None, HugePageUse::None)
        );
    }

    #[test]
    fn a_capture_keeps_what_is_read_and_where_and_no_more() {
        let file = b"storage: \
             {dbPath: /data, wiredTiger: {engineConfig: {cacheSizeGB: 4}}}\nsecurity:\n  keyFile: S3\nnet:\n  \
                     tls: {certificateKeyFilePassword: S3}\n  port: 27100\n  maxIncomingConnections: S3 x\n";
        let rewrite = KIND.capture.forms.rewrite.unwrap();
        let kept = rewrite("/etc/mongod.conf", file).unwrap();
        assert!(!String::from_utf8_lossy(&kept).contains("S3"));
        let read = |bytes: &[u8]| -> Vec<_> {
            let entries = yaml::parse(bytes).unwrap().into_iter();
            let ours = entries.filter(|entry| PATHS.iter().any(|(path, _)| *path == entry.path));
            ours.map(|entry| {
                (entry.line, redact_value(&entry.path, &entry.value).to_owned(), entry.path)
            })
            .collect()
        };
        assert_eq!(read(&kept), read(file));
        assert_eq!(read(&kept).len(), 4);
        assert!(rewrite("/etc/redis.conf", file).is_none());
    }

    #[test]
    fn a_broken_file_is_said() {
        let source = MapSource::new().with_file("/etc/mongod.conf", "net:\n\tport: 1\n");
        let found = found(vec![mongod(1, "mongod -f /etc/mongod.conf")], &source);
        assert!(found.unread[0].why.to_string().contains("line 2"));
        assert_eq!(found.instances[0].name, "27017");
    }
}
