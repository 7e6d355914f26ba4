//! ClickHouse: private memory under an allocator of its own, never hugetlb; transparent huge pages at most.
//!
//! From ClickHouse's documents: "Usage Recommendations", by which huge pages of a pool need not be there, and the warning that
//! its server gives at a start where THP is `always`.

use hugewise_host::capture::shape::Shape;
use hugewise_model::configuration::Place;
use hugewise_model::instance::Setting;
use hugewise_model::{Engine, Level, Process};

use crate::kind::ThpAdvice;
use crate::settings::shown;
use crate::{Found, Kind, Scene, SettingsBy, options, private, versions};

/// The engine.
pub const CLICKHOUSE: Engine = Engine::called("clickhouse");

/// ClickHouse.
pub static KIND: Kind = Kind {
    engine: CLICKHOUSE,
    names: &[(CLICKHOUSE, "ClickHouse")],
    tried: false,
    programs: &[SERVER, "clickhouse"],
    find,
    accounts: &["clickhouse"],
    options: &["--config", "--config-file", "-C"],
    texts: &[("--config", Shape::Path), ("--config-file", Shape::Path), ("-C", Shape::Path)],
    settings_by: SettingsBy::Nobody,
    thp: |_, _| Ok(Some(ThpAdvice::Against(Level::Warn))),
    thp_in_words: Some("madvise or never (its server's warning at startup)"),
    ..Kind::PLAIN
};

const SERVER: &str = "clickhouse-server";

/// One program is the server and all its tools: the name that it was started by, or its first argument, tells which. The
/// watchdog that starts the server calls itself by another name.
fn is_server(process: &Process) -> bool {
    let words = process.command.known().map(Vec::as_slice).unwrap_or_default();
    let family = !process.executable.is_known() || options::program(process).starts_with("clickhouse");
    let named = words.first().map(|word| options::file_name(word));
    family
        && (named == Some(SERVER) || (named == Some("clickhouse") && words.get(1).is_some_and(|word| word == "server")))
}

fn config_file(process: &Process) -> Option<&str> {
    let words = process.command.known()?;
    let long = options::value(words, "config-file").or_else(|| options::value(words, "config"));
    long.or_else(|| options::short_value(words, 'C')).filter(|path| !path.is_empty())
}

fn find(scene: &Scene<'_>, found: &mut Found) {
    for process in scene.host.processes.known().into_iter().flatten().filter(|process| is_server(process)) {
        // The server is what the watchdog, a copy of it, has started; a copy of the server is none.
        if scene.host.process(process.parent).is_some_and(|parent| parent.pid != process.pid && is_server(parent)) {
            continue;
        }
        // `/etc/clickhouse-server/config.xml`, and of several servers each in a folder of its own.
        let file = config_file(process);
        let folder = file.and_then(|file| file.rsplit_once('/')).map(|(folder, _)| options::file_name(folder));
        let name = folder.filter(|name| Shape::Names.fits(name) && !name.is_empty()).unwrap_or(SERVER);
        let mut instance = scene.instance(CLICKHOUSE, name.to_owned(), process, Vec::new());
        instance.version = process.executable.known().and_then(|path| versions::in_path(path)).into();
        if let Some(file) = file {
            let place = Some(Place::command_line(process.pid));
            let setting = Setting { name: "config".into(), value: shown("--config", file).to_owned(), place };
            instance.settings.insert("config".into(), setting);
        }
        private::describe(scene, process, &mut instance);
        found.add(instance);
    }
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::instance::Mechanism;
    use hugewise_model::{Asked, Host, Observed};

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
                process(1, 0, "clickhouse-watchdog --config=/etc/clickhouse-server/config.xml --daemon"),
                process(2, 1, "/usr/bin/clickhouse-server --config=/etc/clickhouse-server/config.xml --daemon"),
                process(3, 2, "/usr/bin/clickhouse-server --config=/etc/clickhouse-server/config.xml --daemon"),
                process(4, 1, "clickhouse-client --password S3"),
                process(5, 1, "/usr/bin/clickhouse server -C /srv/two/config.xml"),
                process(6, 1, "/usr/bin/clickhouse local"),
                Process { executable: Observed::Known("/bin/sh".into()), ..process(7, 1, "clickhouse-server") },
            ]),
            ..Host::default()
        };
        let mut found = Found::default();
        find(&Scene::new(&host, &MapSource::new()), &mut found);
        let seen: Vec<_> = found.instances.iter().map(|it| (it.pid, it.name.as_str())).collect();
        assert_eq!(seen, [(2, "clickhouse-server"), (5, "two")]);
        let all = found.instances.iter();
        assert!(all.clone().all(|it| it.asked == Asked::Cannot && it.mechanism == Mechanism::None));
        assert_eq!(found.instances[1].setting_value("config"), Some("/srv/two/config.xml"));
    }
}
