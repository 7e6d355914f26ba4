//! Redis and Valkey: private memory under their own allocator, never hugetlb; transparent huge
//! pages at most.

mod meanings;
mod messages;

use hugewise_host::capture::shape::ValueShape;
use hugewise_host::{FactReader, ParseError};
use hugewise_model::configuration::FileLocation;
use hugewise_model::{Engine, Instance, Level, Observed, Process};

use crate::shared::kind::{
    CaptureRules, LogSources, Recognition, SettingAdvice, ThpAdvice, ThpBehavior,
};
use crate::shared::settings::redacted_setting;
use crate::shared::{ini, options, private_memory};
use crate::{EngineContext, EngineKind, FoundInstances, SettingsBy, each_known};

pub(crate) static KIND: EngineKind = EngineKind {
    engine: Engine::Redis,
    names: &[(Engine::Redis, "Redis"), (Engine::Valkey, "Valkey")],
    recognition: Recognition {
        programs: &["redis-server", "valkey-server"],
        find_running: find_redis_instances,
        accounts: &["redis", "valkey", "_redis"],
        companions: &["redis-sentinel", "valkey-sentinel", "keydb-server"],
        ..Recognition::PLAIN
    },
    capture: CaptureRules {
        options: &["--port"],
        settings: SETTINGS,
        value_shapes: &[("unixsocket", ValueShape::Path)],
        reads_working_directory: |process| {
            let file = process.command.as_known().and_then(|arguments| arguments.get(1));
            file.is_some_and(|word| word.ends_with(".conf") && !word.starts_with('/'))
        },
        ..CaptureRules::PLAIN
    },
    thp: ThpBehavior {
        summary: Some("madvise or never (Redis 7.0's warning at startup)"),
        advise: |_, _| Ok(Some(ThpAdvice::Against(Level::Warn))),
    },
    settings: SettingAdvice { changed_by: SettingsBy::Nobody, ..SettingAdvice::PLAIN },
    logs: LogSources {
        messages: messages::MESSAGES,
        meanings: meanings::MEANINGS,
        ..LogSources::PLAIN
    },
    ..EngineKind::PLAIN
};

/// None of these is a secret.
const SETTINGS: &[&str] = &["port", "maxmemory", "disable-thp", "maxclients", "unixsocket"];
/// Defaults of `port` and `maxclients` (redis.conf of 2.6 and later, valkey.conf).
const DEFAULT_PORT: &str = "6379";
const DEFAULT_CLIENTS: u64 = 10_000;

fn find_redis_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    for process in each_known(&scene.host.processes) {
        let Some((engine, files)) = identify_engine(process) else { continue };
        let title = RedisTitle::from_process(process);
        if !private_memory::is_copy(scene, process) && !title.sentinel {
            let instance = build_instance(scene, found, process, engine, &title, &files);
            found.add(instance);
        }
    }
}

/// Which of the two it is, and distributions' files of it. Debian's redis-server is a link to
/// redis-check-rdb: the process's name tells what was started, its executable only the family.
fn identify_engine(process: &Process) -> Option<(Engine, [&'static str; 2])> {
    let family = |prefix: &str| {
        !process.executable.is_known() || options::program_name(process).starts_with(prefix)
    };
    match process.name.as_str() {
        "redis-server" if family("redis") => {
            Some((Engine::Redis, ["/etc/redis/redis.conf", "/etc/redis.conf"]))
        }
        "valkey-server" if family("valkey") => {
            Some((Engine::Valkey, ["/etc/valkey/valkey.conf", "/etc/valkey.conf"]))
        }
        _ => None,
    }
}

/// What the server writes over its arguments: `redis-server 127.0.0.1:6379 [cluster]`, or them.
#[derive(Debug, Default, PartialEq, Eq)]
struct RedisTitle {
    port: Option<String>,
    socket: Option<String>,
    file: Option<String>,
    sentinel: bool,
}

impl RedisTitle {
    fn from_process(process: &Process) -> Self {
        let Some(arguments) = process.command.as_known() else { return Self::default() };
        let words: Vec<&str> = match arguments.as_slice() {
            [one, rest @ ..] if rest.iter().all(String::is_empty) => {
                one.split_whitespace().collect()
            }
            all => all.iter().map(String::as_str).collect(),
        };
        let mut title = Self {
            sentinel: words.iter().any(|word| word.contains("sentinel")),
            ..Self::default()
        };
        title.port = options::option_value(arguments, "port").map(str::to_owned);
        match words.get(1).copied() {
            Some(word) if word.ends_with(".conf") => title.file = Some(word.to_owned()),
            Some(word) if word.starts_with('/') => title.socket = Some(word.to_owned()),
            Some(word) if word.starts_with("unixsocket:") => {
                title.socket = word.strip_prefix("unixsocket:").map(str::to_owned);
            }
            Some(word) if !word.starts_with('-') => {
                let port = word.rsplit_once(':').map(|(_, port)| port);
                title.port =
                    port.filter(|port| options::is_number(port)).map(str::to_owned).or(title.port);
            }
            _ => {}
        }
        title
    }
}

fn build_instance(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    process: &Process,
    engine: Engine,
    title: &RedisTitle,
    files: &[&str],
) -> Instance {
    let mut settings = Vec::new();
    let own = scene.files_of(process);
    let mut facts = FactReader::new(&own);
    let named = title.file.as_ref().map(|file| match options::working_directory(process) {
        Observed::Known(folder) if !file.starts_with('/') => format!("{folder}/{file}"),
        _ => file.clone(),
    });
    let files = named
        .map_or_else(|| files.iter().map(|file| (*file).to_owned()).collect(), |file| vec![file]);
    for file in files {
        let path = options::as_reader_opens(scene.host, process, &file);
        let Some(read) = facts.parse(&path, parse).into_known() else { continue };
        let port = read.iter().rev().find(|(name, ..)| name == "port");
        let port = port.map_or(DEFAULT_PORT, |(_, value, _)| value);
        let theirs = title.port.as_deref().is_none_or(|ours| ours == port);
        // The title hides the file that it was started with: one with another port is another
        // instance's.
        if theirs || title.file.is_some() {
            settings.extend(read.into_iter().map(|(name, value, line)| {
                let place = Some(FileLocation { file: path.clone(), line });
                (name.clone(), redacted_setting(&name, &value, place))
            }));
            break;
        }
    }
    found.add_unread(process, facts.unread);
    let settings: std::collections::BTreeMap<_, _> = settings.into_iter().collect();
    let set = |name: &str| settings.get(name).map(|setting| setting.value.clone());

    let port =
        title.port.clone().or_else(|| if title.socket.is_none() { set("port") } else { None });
    let socket = title.socket.clone().or_else(|| set("unixsocket"));
    let name = port.clone().filter(|port| port != "0").or_else(|| socket.clone());
    let name = name.unwrap_or_else(|| process.pid.to_string());
    let mut instance = scene.new_instance(engine, name, process, Vec::new());
    instance.endpoints = port.filter(|port| port != "0").into_iter().chain(socket).collect();
    instance.max_sessions = Observed::Known(
        set("maxclients").and_then(|text| text.parse().ok()).unwrap_or(DEFAULT_CLIENTS),
    );
    instance.settings = settings;
    private_memory::describe_private_memory(scene, process, &mut instance);
    instance
}

/// The known settings of `name value` lines, with their lines.
/// # Errors
/// The file has zero bytes in it.
pub fn parse(bytes: &[u8]) -> Result<Vec<(String, String, u64)>, ParseError> {
    let text = ini::config_text(bytes)?;
    let setting = |(number, line): (u64, &str)| {
        let (name, value) = line.trim().split_once([' ', '\t'])?;
        let name = name.to_ascii_lowercase();
        let value = value.trim().trim_matches(['"', '\'']);
        SETTINGS.contains(&name.as_str()).then(|| (name, value.to_owned(), number))
    };
    Ok((1..).zip(text.lines()).filter_map(setting).collect())
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::instance::Mechanism;
    use hugewise_model::{Bytes, Host, HugePageMode, HugePageUse, Mapping, PageSize};

    use super::*;
    use crate::testing;

    fn server(pid: u32, program: &str, command: &[&str]) -> Process {
        Process {
            pid,
            name: program.into(),
            command: Observed::Known(command.iter().map(|word| (*word).to_owned()).collect()),
            executable: Observed::Known(format!(
                "/usr/bin/{}",
                program.replace("redis-server", "redis-check-rdb")
            )),
            thp_enabled: Observed::Known(false),
            mappings: Observed::Known(vec![Mapping {
                start: 0x7f00_0000_0000,
                end: 0x7f00_0400_0000,
                shared: false,
                accessible: true,
                offset: 0,
                device: 0,
                inode: 0,
                name: String::new(),
                page_size: Observed::Known(PageSize::KIB_4),
            }]),
            ..Process::default()
        }
    }

    fn found(processes: Vec<Process>, source: &MapSource) -> FoundInstances {
        let host = Host {
            base_page: Observed::Known(PageSize::KIB_4),
            processes: testing::known(processes),
            ..Host::default()
        };
        let mut found = FoundInstances::default();
        find_redis_instances(&EngineContext::new(&host, source), &mut found);
        found
    }

    #[test]
    fn a_title_tells_port_or_socket() {
        let title = |command: &[&str]| {
            let title = RedisTitle::from_process(&server(1, "redis-server", command));
            (title.port, title.socket, title.file, title.sentinel)
        };
        let port = |port: &str| (Some(port.to_owned()), None, None, false);
        assert_eq!(title(&["redis-server 127.0.0.1:6379"]), port("6379"));
        assert_eq!(title(&["/usr/bin/redis-server *:7000 [cluster]", "", ""]), port("7000"));
        assert_eq!(title(&["redis-server [::1]:6380"]), port("6380"));
        assert_eq!(title(&["redis-server", "--port", "6381"]), port("6381"));
        assert!(title(&["redis-server *:26379 [sentinel]"]).3);
        assert_eq!(title(&["redis-server /run/redis.sock"]).1.as_deref(), Some("/run/redis.sock"));
        // Redis 7.0 with `port 0`.
        assert_eq!(
            title(&["redis-server unixsocket:/run/redis.sock"]).1.as_deref(),
            Some("/run/redis.sock")
        );
        assert_eq!(title(&["redis-server", "/etc/r.conf"]).2.as_deref(), Some("/etc/r.conf"));
    }

    #[test]
    fn each_instance_has_its_own_file() {
        let source = MapSource::new()
            .with_file(
                "/etc/redis/redis.conf",
                "# c\nport 6379\nrequirepass hunter2\nmaxmemory 2gb\nmaxclients 500\nunixsocket \
                     /run/r.sock\n",
            )
            .with_file("/etc/valkey/valkey.conf", "disable-thp yes\n");
        let processes = vec![
            server(1, "redis-server", &["redis-server 127.0.0.1:6379"]),
            server(2, "redis-server", &["redis-server *:7000 [cluster]"]),
            Process {
                parent: 1,
                ..server(3, "redis-server", &["redis-rdb-bgsave 127.0.0.1:6379"])
            },
            server(4, "redis-server", &["redis-server *:26379 [sentinel]"]),
            server(5, "valkey-server", &["valkey-server *:6379"]),
        ];
        let found = found(processes, &source);
        let seen: Vec<_> = found
            .instances
            .iter()
            .map(|instance| (instance.engine, instance.name.as_str(), instance.max_sessions.get()))
            .collect();
        assert_eq!(
            seen,
            [
                (Engine::Redis, "6379", Some(500)),
                (Engine::Redis, "7000", Some(10_000)),
                (Engine::Valkey, "6379", Some(10_000)),
            ]
        );
        let first = &found.instances[0];
        assert_eq!(first.endpoints, ["6379", "/run/r.sock"]);
        assert_eq!(
            first.settings["maxmemory"].to_string(),
            "maxmemory=2gb (/etc/redis/redis.conf:4)"
        );
        assert_eq!(first.setting_value("thp_enabled"), Some("0"));
        assert!(!first.settings.contains_key("requirepass"));
        assert_eq!(
            (first.asked, first.mechanism, first.huge_pages),
            (HugePageMode::Cannot, Mechanism::None, HugePageUse::None)
        );
        assert_eq!(first.segments[0].size, Bytes::from_mib(64));
        assert_eq!(found.instances[2].setting_value("disable-thp"), Some("yes"));
    }

    #[test]
    fn a_file_that_may_not_be_read_is_said() {
        let source = MapSource::new().with_denied("/etc/redis/redis.conf");
        let found = found(vec![server(1, "redis-server", &["redis-server *:6379"])], &source);
        assert_eq!(found.unread[0].what, "/etc/redis/redis.conf");
        assert_eq!(found.instances[0].name, "6379");
    }
}
