//! Microsoft SQL Server on Linux: private memory below its own layer of the operating system, never hugetlb; transparent
//! huge pages at most.
//!
//! From Microsoft's documents: "Configure SQL Server settings with mssql-conf" for the file and its settings, "Performance best
//! practices and configuration guidelines for SQL Server on Linux" for THP.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_host::Door;
use hugewise_model::{Engine, Process};

use crate::kind::ThpAdvice;
use crate::{Found, Kind, Scene, SettingsBy, ini, options, private};

/// The engine.
pub const SQL_SERVER: Engine = Engine::called("sqlserver");

/// SQL Server.
pub static KIND: Kind = Kind {
    engine: SQL_SERVER,
    names: &[(SQL_SERVER, "SQL Server")],
    tried: false,
    programs: &[PROGRAM],
    find,
    accounts: &["mssql"],
    settings: SETTINGS,
    settings_by: SettingsBy::Nobody,
    thp: |_, _| Ok(Some(ThpAdvice::For)),
    thp_in_words: Some(
        "`always`; test madvise if it shares the host with others that need much memory (Microsoft, \"Performance \
         best practices for SQL Server on Linux\")",
    ),
    ..Kind::PLAIN
};

const PROGRAM: &str = "sqlservr";

/// Of these none is a secret.
const SETTINGS: &[&str] = &["memorylimitmb", "tcpport"];

/// Where mssql-conf keeps its settings.
const FILE: &str = "/var/opt/mssql/mssql.conf";

/// `network.tcpport` where nothing is set.
const DEFAULT_PORT: &str = "1433";

fn wanted(section: &str, name: &str) -> bool {
    matches!((section, name), ("memory", "memorylimitmb") | ("network", "tcpport"))
}

fn is_server(process: &Process) -> bool {
    options::program(process) == PROGRAM
}

/// The first process starts another of the same program, which is the server.
fn find(scene: &Scene<'_>, found: &mut Found) {
    let all = scene.host.processes.known().into_iter().flatten();
    let servers: Vec<_> = all.filter(|process| is_server(process)).collect();
    let parents: BTreeSet<u32> = servers.iter().filter(|it| it.parent != it.pid).map(|it| it.parent).collect();
    for process in servers.iter().filter(|process| !parents.contains(&process.pid)) {
        let parent = scene.host.process(process.parent).filter(|parent| is_server(parent));
        instance(scene, found, process, parent.map(|parent| parent.pid).into_iter().collect());
    }
}

fn instance(scene: &Scene<'_>, found: &mut Found, process: &Process, pids: Vec<u32>) {
    let mut settings = BTreeMap::new();
    let own = scene.files_of(process);
    let mut door = Door::new(&own);
    ini::add(&mut settings, &mut door, &options::as_reader_opens(scene.host, process, FILE), wanted);
    found.add_unread(process, door.unread);
    let set = |name: &str| settings.get(name).map(|setting| setting.value.as_str());
    let port = set("tcpport").unwrap_or(DEFAULT_PORT).to_owned();
    let mut instance = scene.instance(SQL_SERVER, port.clone(), process, pids);
    instance.endpoints = vec![port];
    instance.settings = settings;
    private::describe(scene, process, &mut instance);
    found.add(instance);
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::instance::Mechanism;
    use hugewise_model::{Asked, Host, HugePageUse, Observed};

    use super::*;
    use crate::testing;

    fn server(pid: u32, parent: u32) -> Process {
        Process {
            pid,
            parent,
            name: "sqlservr".into(),
            command: Observed::Known(vec!["/opt/mssql/bin/sqlservr".into()]),
            executable: Observed::Known("/opt/mssql/bin/sqlservr".into()),
            ..Process::default()
        }
    }

    fn found(processes: Vec<Process>, source: &MapSource) -> Found {
        let host = Host { processes: testing::known(processes), ..Host::default() };
        let mut found = Found::default();
        find(&Scene::new(&host, source), &mut found);
        found
    }

    /// The example of "Configure SQL Server settings with mssql-conf": a limit of 3,328 MB.
    #[test]
    fn the_process_below_the_first_is_the_server() {
        let source = MapSource::new().file(
            FILE,
            "[memory]\nmemorylimitmb = 3328\n\n[network]\nkerberoskeytabfile = /S3\ntcpport = 1444\n[sqlagent]\nenabled = true\n",
        );
        let found = found(vec![server(10, 1), server(11, 10)], &source);
        assert_eq!(found.instances.len(), 1);
        let one = &found.instances[0];
        assert_eq!((one.name.as_str(), one.pid, one.pids.as_slice()), ("1444", 11, &[10, 11][..]));
        let place = "memorylimitmb=3328 (/var/opt/mssql/mssql.conf:2)";
        assert_eq!(one.settings["memorylimitmb"].to_string(), place);
        assert_eq!(one.settings.len(), 2);
        assert_eq!((one.asked, one.mechanism, one.huge_pages), (Asked::Cannot, Mechanism::None, HugePageUse::None));
    }

    #[test]
    fn without_a_file_the_defaults_hold() {
        let all = found(vec![server(11, 11)], &MapSource::new());
        assert_eq!((all.instances[0].name.as_str(), all.instances[0].settings.len()), ("1433", 0));
        let denied = found(vec![server(11, 1)], &MapSource::new().denied(FILE));
        assert_eq!(denied.unread[0].what, FILE);
        assert_eq!(denied.instances[0].name, "1433");
    }
}
