//! Servers of which nothing but their makers' advice on THP matters here: their memory is private,
//! under an allocator of their own, and never hugetlb.
//!
//! CockroachDB: "Recommended Production Settings" (madvise). TiDB: "TiDB Environment and System
//! Configuration Check" (THP off on all its nodes). NuoDB: "Note About Using Transparent Huge
//! Pages" (it refuses to start under `always`). Couchbase: "Disabling Transparent Huge Pages".
//! ArangoDB: its server's warning at startup. Aerospike: "Best practices for Aerospike and Linux",
//! which it checks at startup; madvise and never pass. Splunk: "Transparent huge memory pages and
//! Splunk performance".

use hugewise_model::{Engine, Level, Process};

use crate::shared::kind::{Recognition, SettingAdvice, ThpAdvice, ThpBehavior};
use crate::shared::{options, private_memory, versions};
use crate::{EngineContext, EngineKind, FoundInstances, SettingsBy, each_known};

const COCKROACH: Engine = Engine::from_name("cockroachdb");
const TIDB: Engine = Engine::from_name("tidb");
const NUODB: Engine = Engine::from_name("nuodb");
const COUCHBASE: Engine = Engine::from_name("couchbase");
const ARANGODB: Engine = Engine::from_name("arangodb");
const AEROSPIKE: Engine = Engine::from_name("aerospike");
const SPLUNK: Engine = Engine::from_name("splunk");

pub(crate) static COCKROACH_KIND: EngineKind = EngineKind {
    engine: COCKROACH,
    names: &[(COCKROACH, "CockroachDB")],
    recognition: Recognition {
        programs: &["cockroach"],
        find_running: |scene, found| find_servers(scene, found, COCKROACH, starts_cockroach),
        accounts: &["cockroach"],
        ..Recognition::PLAIN
    },
    thp: ThpBehavior {
        advise: |_, _| Ok(Some(ThpAdvice::Against(Level::Warn))),
        summary: Some("madvise; never does as well (its production settings)"),
    },
    ..PRIVATE
};

pub(crate) static TIDB_KIND: EngineKind = EngineKind {
    engine: TIDB,
    names: &[(TIDB, "TiDB")],
    recognition: Recognition {
        programs: &["tikv-server", "tidb-server", "pd-server", "tiflash"],
        find_running: |scene, found| find_servers(scene, found, TIDB, is_of_tidb),
        accounts: &["tidb"],
        ..Recognition::PLAIN
    },
    thp: ThpBehavior {
        advise: |_, _| Ok(Some(ThpAdvice::Never(Level::Warn))),
        summary: Some("never (its check of the environment before an installation)"),
    },
    ..PRIVATE
};

pub(crate) static NUODB_KIND: EngineKind = EngineKind {
    engine: NUODB,
    names: &[(NUODB, "NuoDB")],
    recognition: Recognition {
        programs: &["nuodb"],
        find_running: |scene, found| find_servers(scene, found, NUODB, |_| true),
        accounts: &["nuodb"],
        ..Recognition::PLAIN
    },
    thp: ThpBehavior {
        advise: |_, _| Ok(Some(ThpAdvice::Against(Level::Warn))),
        summary: Some("madvise or never, as it does not start under always (its note on THP)"),
    },
    ..PRIVATE
};

pub(crate) static COUCHBASE_KIND: EngineKind = EngineKind {
    engine: COUCHBASE,
    names: &[(COUCHBASE, "Couchbase")],
    recognition: Recognition {
        programs: &["memcached"],
        find_running: |scene, found| find_servers(scene, found, COUCHBASE, is_of_couchbase),
        accounts: &["couchbase"],
        ..Recognition::PLAIN
    },
    thp: ThpBehavior {
        advise: |_, _| Ok(Some(ThpAdvice::Never(Level::Warn))),
        summary: Some("never (its documentation: Disabling Transparent Huge Pages)"),
    },
    ..PRIVATE
};

pub(crate) static ARANGODB_KIND: EngineKind = EngineKind {
    engine: ARANGODB,
    names: &[(ARANGODB, "ArangoDB")],
    recognition: Recognition {
        programs: &["arangod"],
        find_running: |scene, found| find_servers(scene, found, ARANGODB, |_| true),
        accounts: &["arangodb"],
        ..Recognition::PLAIN
    },
    thp: ThpBehavior {
        advise: |_, _| Ok(Some(ThpAdvice::Against(Level::Warn))),
        summary: Some("madvise or never (its server's warning at startup)"),
    },
    ..PRIVATE
};

pub(crate) static AEROSPIKE_KIND: EngineKind = EngineKind {
    engine: AEROSPIKE,
    names: &[(AEROSPIKE, "Aerospike")],
    recognition: Recognition {
        programs: &["asd"],
        find_running: |scene, found| find_servers(scene, found, AEROSPIKE, |_| true),
        accounts: &["aerospike"],
        ..Recognition::PLAIN
    },
    thp: ThpBehavior {
        advise: |_, _| Ok(Some(ThpAdvice::Against(Level::Warn))),
        summary: Some("madvise or never (its best practices for Linux)"),
    },
    ..PRIVATE
};

pub(crate) static SPLUNK_KIND: EngineKind = EngineKind {
    engine: SPLUNK,
    names: &[(SPLUNK, "Splunk")],
    recognition: Recognition {
        programs: &["splunkd"],
        find_running: |scene, found| find_servers(scene, found, SPLUNK, |_| true),
        accounts: &["splunk"],
        ..Recognition::PLAIN
    },
    thp: ThpBehavior {
        advise: |_, _| Ok(Some(ThpAdvice::Never(Level::Warn))),
        summary: Some("never (its release notes: Transparent huge memory pages)"),
    },
    ..PRIVATE
};

const PRIVATE: EngineKind = EngineKind {
    tried: false,
    settings: SettingAdvice { changed_by: SettingsBy::Nobody, ..SettingAdvice::PLAIN },
    ..EngineKind::PLAIN
};

/// One program is the server and its tools, by its first argument.
fn starts_cockroach(process: &Process) -> bool {
    let words = process.command.as_known().map(Vec::as_slice).unwrap_or_default();
    words.get(1).is_some_and(|word| word.starts_with("start"))
}

/// TiKV alone has much memory; TiFlash the most where it is.
fn is_of_tidb(process: &Process) -> bool {
    ["tikv-server", "tidb-server", "tiflash"].contains(&options::program_name(process))
}

/// Its data service is a memcached of its own.
fn is_of_couchbase(process: &Process) -> bool {
    let program = process.executable.as_known().map(String::as_str).unwrap_or_default();
    program.ends_with("/couchbase/bin/memcached")
}

fn find_servers(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    engine: Engine,
    is_server: fn(&Process) -> bool,
) {
    let programs = EngineKind::for_engine(engine).recognition.programs;
    let is_program = |process: &Process| programs.contains(&options::program_name(process));
    for process in each_known(&scene.host.processes) {
        if !is_program(process) || !is_server(process) || private_memory::is_copy(scene, process) {
            continue;
        }
        let name = options::program_name(process).to_owned();
        let mut instance = scene.new_instance(engine, name, process, Vec::new());
        instance.version = versions::of_program(process).into();
        private_memory::describe_private_memory(scene, process, &mut instance);
        found.add(instance);
    }
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::{Host, Observed, Process};

    use crate::{EngineKind, ThpAdvice, find_instances, testing};

    fn advice(program: &str, arguments: &str) -> Vec<(String, Option<ThpAdvice>)> {
        let command = format!("{program} {arguments}");
        let process = Process {
            pid: 900,
            name: program.rsplit('/').next().unwrap_or_default().chars().take(15).collect(),
            command: Observed::Known(command.split_whitespace().map(str::to_owned).collect()),
            executable: Observed::Known(program.to_owned()),
            ..Process::default()
        };
        let host = Host { processes: testing::known([process]), ..Host::default() };
        let found = find_instances(&host, &MapSource::new()).instances;
        let advice = found.iter().map(|instance| {
            let kind = EngineKind::for_engine(instance.engine);
            (instance.engine.to_string(), (kind.thp.advise)(&host, instance).unwrap())
        });
        advice.collect()
    }

    #[test]
    fn servers_are_told_from_their_tools_and_their_makers_from_each_other() {
        for (program, arguments, engine) in [
            ("/usr/local/bin/cockroach", "start --join=a", Some("cockroachdb")),
            ("/usr/local/bin/cockroach", "sql --insecure", None),
            ("/tidb-deploy/tikv-20160/bin/tikv-server", "--addr 0.0.0.0:20160", Some("tidb")),
            ("/tidb-deploy/pd-2379/bin/pd-server", "--name=pd", None),
            ("/opt/nuodb/bin/nuodb", "--connect-key 1", Some("nuodb")),
            ("/opt/couchbase/bin/memcached", "-C /x", Some("couchbase")),
            ("/usr/bin/memcached", "-m 64", None),
            ("/usr/sbin/arangod", "--uid arangodb", Some("arangodb")),
            ("/usr/bin/asd", "--config-file /etc/aerospike/aerospike.conf", Some("aerospike")),
            ("/opt/splunk/bin/splunkd", "-p 8089 start", Some("splunk")),
        ] {
            let found = advice(program, arguments);
            let named = found.first().map(|(engine, _)| engine.as_str());
            assert_eq!(named, engine, "{program} {arguments}");
            assert!(found.iter().all(|(_, advice)| advice.is_some()), "{program}");
        }
    }
}
