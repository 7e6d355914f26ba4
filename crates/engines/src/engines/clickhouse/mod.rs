//! ClickHouse: private memory under its own allocator, never hugetlb; transparent huge pages at
//! most.
//!
//! From ClickHouse's documents: "Usage Recommendations", by which it needs no pool of huge pages,
//! and its server's warning at startup where THP is `always`.

use hugewise_host::capture::shape::ValueShape;
use hugewise_model::configuration::FileLocation;
use hugewise_model::{Engine, Level, Process};

use crate::shared::kind::{CaptureRules, Recognition, SettingAdvice, ThpAdvice, ThpBehavior};
use crate::shared::settings::{new_setting, redact_value};
use crate::shared::{options, private_memory, versions};
use crate::{EngineContext, EngineKind, FoundInstances, SettingsBy, each_known};

pub(crate) const CLICKHOUSE: Engine = Engine::from_name("clickhouse");

pub(crate) static KIND: EngineKind = EngineKind {
    engine: CLICKHOUSE,
    names: &[(CLICKHOUSE, "ClickHouse")],
    tried: false,
    recognition: Recognition {
        programs: &[SERVER, "clickhouse"],
        find_running: find_clickhouse_instances,
        accounts: &["clickhouse"],
        ..Recognition::PLAIN
    },
    capture: CaptureRules {
        options: &["--config", "--config-file", "-C"],
        value_shapes: &[
            ("--config", ValueShape::Path),
            ("--config-file", ValueShape::Path),
            ("-C", ValueShape::Path),
        ],
        ..CaptureRules::PLAIN
    },
    thp: ThpBehavior {
        advise: |_, _| Ok(Some(ThpAdvice::Against(Level::Warn))),
        summary: Some("madvise or never (its server's warning at startup)"),
    },
    settings: SettingAdvice { changed_by: SettingsBy::Nobody, ..SettingAdvice::PLAIN },
    ..EngineKind::PLAIN
};

const SERVER: &str = "clickhouse-server";

/// One program is the server and all its tools, by its name or first argument.
fn is_server(process: &Process) -> bool {
    let words = process.command.as_known().map(Vec::as_slice).unwrap_or_default();
    let family =
        !process.executable.is_known() || options::program_name(process).starts_with("clickhouse");
    let named = words.first().map(|word| options::file_name(word));
    family
        && (named == Some(SERVER)
            || (named == Some("clickhouse") && words.get(1).is_some_and(|word| word == "server")))
}

fn config_file(process: &Process) -> Option<&str> {
    let words = process.command.as_known()?;
    let long = options::option_value(words, "config-file")
        .or_else(|| options::option_value(words, "config"));
    long.or_else(|| options::short_value(words, 'C')).filter(|path| !path.is_empty())
}

fn find_clickhouse_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    for process in each_known(&scene.host.processes).filter(|process| is_server(process)) {
        // The watchdog starts the server; a copy that the server made of itself is none.
        if scene.parent_of(process).is_some_and(is_server) {
            continue;
        }
        // `/etc/clickhouse-server/config.xml`; several servers have a folder each.
        let file = config_file(process);
        let folder = file
            .and_then(|file| file.rsplit_once('/'))
            .map(|(folder, _)| options::file_name(folder));
        let name = folder
            .filter(|name| ValueShape::Names.matches_value(name) && !name.is_empty())
            .unwrap_or(SERVER);
        let mut instance = scene.new_instance(CLICKHOUSE, name.to_owned(), process, Vec::new());
        instance.version = versions::of_program(process).into();
        if let Some(file) = file {
            let place = Some(FileLocation::command_line(process.pid));
            let setting = new_setting("config", redact_value("--config", file), place);
            instance.settings.insert("config".into(), setting);
        }
        private_memory::describe_private_memory(scene, process, &mut instance);
        found.add(instance);
    }
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::instance::Mechanism;
    use hugewise_model::{Host, HugePageMode, Observed};

    use super::*;
    use crate::testing;

    fn process(pid: u32, parent: u32, command: &str) -> Process {
        Process {
            pid,
            parent,
            name: "clickhouse-serv".into(),
            command: Observed::Known(command.split(' ').map(str::to_owned).collect()),
            executable: Observed::Known("/usr/bin/clickhouse".into()),
            ..Process::default()
        }
    }

    #[test]
    fn the_server_is_told_from_its_watchdog_and_its_tools() {
        let host = Host {
            processes: testing::known([
                process(
                    1,
                    0,
                    "clickhouse-watchdog --config=/etc/clickhouse-server/config.xml --daemon",
                ),
                process(
                    2,
                    1,
                    "/usr/bin/clickhouse-server --config=/etc/clickhouse-server/config.xml --daemon",
                ),
                process(
                    3,
                    2,
                    "/usr/bin/clickhouse-server --config=/etc/clickhouse-server/config.xml --daemon",
                ),
                process(4, 1, "clickhouse-client --password S3"),
                process(5, 1, "/usr/bin/clickhouse server -C /srv/two/config.xml"),
                process(6, 1, "/usr/bin/clickhouse local"),
                Process {
                    executable: Observed::Known("/bin/sh".into()),
                    ..process(7, 1, "clickhouse-server")
                },
            ]),
            ..Host::default()
        };
        let mut found = FoundInstances::default();
        find_clickhouse_instances(&EngineContext::new(&host, &MapSource::new()), &mut found);
        let seen: Vec<_> =
            found.instances.iter().map(|instance| (instance.pid, instance.name.as_str())).collect();
        assert_eq!(seen, [(2, "clickhouse-server"), (5, "two")]);
        let all = found.instances.iter();
        assert!(all.clone().all(|instance| instance.asked == HugePageMode::Cannot
            && instance.mechanism == Mechanism::None));
        assert_eq!(found.instances[1].setting_value("config"), Some("/srv/two/config.xml"));
    }
}
