//! Microsoft SQL Server on Linux: private memory below its own layer of the operating system, never
//! hugetlb; transparent huge pages at most.
//!
//! From Microsoft's documents: "Configure SQL Server settings with mssql-conf" for the file,
//! "Performance best practices and configuration guidelines for SQL Server on Linux" for THP.

use std::collections::BTreeSet;

use hugewise_model::{Engine, Process};

use crate::shared::kind::{CaptureRules, Recognition, SettingAdvice, ThpAdvice, ThpBehavior};
use crate::shared::{ini, options, private_memory};
use crate::{EngineContext, EngineKind, FoundInstances, SettingsBy, each_known};

pub(crate) const SQL_SERVER: Engine = Engine::from_name("sqlserver");

pub(crate) static KIND: EngineKind = EngineKind {
    engine: SQL_SERVER,
    names: &[(SQL_SERVER, "SQL Server")],
    tried: false,
    recognition: Recognition {
        programs: &[PROGRAM],
        find_running: find_sqlserver_instances,
        accounts: &["mssql"],
        ..Recognition::PLAIN
    },
    capture: CaptureRules { settings: SETTINGS, ..CaptureRules::PLAIN },
    thp: ThpBehavior {
        advise: |_, _| Ok(Some(ThpAdvice::For)),
        summary: Some(
            "`always`; test madvise if it shares the host with others that need much memory \
             (Microsoft, \"Performance best practices for SQL Server on Linux\")",
        ),
    },
    settings: SettingAdvice { changed_by: SettingsBy::Nobody, ..SettingAdvice::PLAIN },
    ..EngineKind::PLAIN
};

const PROGRAM: &str = "sqlservr";
/// None of these is a secret.
const SETTINGS: &[&str] = &["memorylimitmb", "tcpport"];
const FILE: &str = "/var/opt/mssql/mssql.conf";
const DEFAULT_PORT: &str = "1433";

fn is_wanted_setting(section: &str, name: &str) -> bool {
    matches!((section, name), ("memory", "memorylimitmb") | ("network", "tcpport"))
}

fn is_server(process: &Process) -> bool {
    options::program_name(process) == PROGRAM
}

/// The first process starts another of the same program, which is the server.
fn find_sqlserver_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    let servers: Vec<_> =
        each_known(&scene.host.processes).filter(|process| is_server(process)).collect();
    let parents: BTreeSet<u32> =
        servers.iter().filter_map(|process| Some(scene.parent_of(process)?.pid)).collect();
    for process in servers.iter().filter(|process| !parents.contains(&process.pid)) {
        let parent = scene.host.find_process(process.parent).filter(|parent| is_server(parent));
        add_instance(scene, found, process, parent.map(|parent| parent.pid).into_iter().collect());
    }
}

fn add_instance(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    process: &Process,
    pids: Vec<u32>,
) {
    let files = [FILE.to_owned()];
    let (settings, _) = ini::read_files(scene, found, process, &files, is_wanted_setting);
    let set = |name: &str| settings.get(name).map(|setting| setting.value.as_str());
    let port = set("tcpport").unwrap_or(DEFAULT_PORT).to_owned();
    let mut instance = scene.new_instance(SQL_SERVER, port.clone(), process, pids);
    instance.endpoints = vec![port];
    instance.settings = settings;
    private_memory::describe_private_memory(scene, process, &mut instance);
    found.add(instance);
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::instance::Mechanism;
    use hugewise_model::{Host, HugePageMode, HugePageUse, Observed};

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

    fn found(processes: Vec<Process>, source: &MapSource) -> FoundInstances {
        let host = Host { processes: testing::known(processes), ..Host::default() };
        let mut found = FoundInstances::default();
        find_sqlserver_instances(&EngineContext::new(&host, source), &mut found);
        found
    }

    /// The example of "Configure SQL Server settings with mssql-conf": a limit of 3,328 MB.
    #[test]
    fn the_process_below_the_first_is_the_server() {
        let source = MapSource::new().with_file(
            FILE,
            "[memory]\nmemorylimitmb = 3328\n\n[network]\nkerberoskeytabfile = /S3\ntcpport = \
                 1444\n[sqlagent]\nenabled = true\n",
        );
        let found = found(vec![server(10, 1), server(11, 10)], &source);
        assert_eq!(found.instances.len(), 1);
        let one = &found.instances[0];
        assert_eq!((one.name.as_str(), one.pid, one.pids.as_slice()), ("1444", 11, &[10, 11][..]));
        let place = "memorylimitmb=3328 (/var/opt/mssql/mssql.conf:2)";
        assert_eq!(one.settings["memorylimitmb"].to_string(), place);
        assert_eq!(one.settings.len(), 2);
        assert_eq!(
            (one.asked, one.mechanism, one.huge_pages),
            (HugePageMode::Cannot, Mechanism::None, HugePageUse::None)
        );
    }

    #[test]
    fn without_a_file_the_defaults_hold() {
        let all = found(vec![server(11, 11)], &MapSource::new());
        assert_eq!((all.instances[0].name.as_str(), all.instances[0].settings.len()), ("1433", 0));
        let denied = found(vec![server(11, 1)], &MapSource::new().with_denied(FILE));
        assert_eq!(denied.unread[0].what, FILE);
        assert_eq!(denied.instances[0].name, "1433");
    }
}
