//! SAP ASE (Sybase): engines called `dataserver`, one process of threads or several processes, around System V segments.
//!
//! From SAP's documents of 16.0: "Adjusting the Operating System Shared Memory Parameters" for the segments, the Utility Guide for
//! the options of `dataserver`. What makes it ask for huge pages was found in no document, and no advice of SAP's on THP for it:
//! one that has none is taken for one that does not ask.

use std::collections::BTreeSet;

use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::Shape;
use hugewise_model::instance::SessionModel;
use hugewise_model::{Asked, Engine, Instance, Process};

use crate::start::Takes;
use crate::sysv::Mappers;
use crate::{Found, Kind, Scene, SettingsBy, Start, Starter, options, sysv, versions};

/// The engine.
pub const ASE: Engine = Engine::called("ase");

/// SAP ASE.
pub static KIND: Kind = Kind {
    engine: ASE,
    names: &[(ASE, "SAP ASE")],
    tried: false,
    programs: &[PROGRAM],
    find,
    // What SAP's installation guides call the account.
    accounts: &["sybase"],
    options: &["-s"],
    texts: &[("-s", Shape::Names)],
    forms: Forms { attached: &[PROGRAM], ..Forms::NONE },
    start: Start { takes: |_| Takes::Segments, only_shm: true, ..Start::PLAIN },
    settings_by: SettingsBy::Nobody,
    starter: Some(Starter {
        whose: "SAP ASE's own commands have to do it",
        by: "its own tools",
        how: |_, instance| {
            vec![format!("# as {}: shutdown of {} in isql, then its RUN file", instance.owner, instance.name)]
        },
        limits: |_, _| None,
        agent: |_, _| None,
    }),
    ..Kind::PLAIN
};

const PROGRAM: &str = "dataserver";

fn is_server(process: &Process) -> bool {
    options::program(process) == PROGRAM
}

/// The first engine starts the others, which have no name of their own.
fn find(scene: &Scene<'_>, found: &mut Found) {
    let host = scene.host;
    let servers: Vec<&Process> =
        host.processes.known().into_iter().flatten().map(AsRef::as_ref).filter(|process| is_server(process)).collect();
    if servers.is_empty() {
        return;
    }
    let mappers = Mappers::of(host);
    let is_first = |process: &&&Process| {
        !host.process(process.parent).is_some_and(|parent| parent.pid != process.pid && is_server(parent))
    };
    for main in servers.iter().filter(is_first) {
        if found.has_process(main.pid) {
            continue;
        }
        let children = servers.iter().filter(|other| other.parent == main.pid).map(|other| other.pid);
        let beside = mappers.beside(host, main).into_values().filter(|other| is_server(other)).map(|other| other.pid);
        let pids: BTreeSet<u32> = children.chain(beside).chain([main.pid]).collect();
        let alone = servers.iter().all(|other| other.uid != main.uid || pids.contains(&other.pid));
        found.add(instance(scene, main, pids.into_iter().collect(), alone));
    }
}

fn instance(scene: &Scene<'_>, main: &Process, pids: Vec<u32>, alone: bool) -> Instance {
    let named = main.command.known().and_then(|words| options::short_value(words, 's'));
    let owner = || scene.host.accounts.user_name(main.uid);
    let mut instance = scene.instance(ASE, named.map_or_else(owner, str::to_owned), main, pids);
    // `/opt/sap/ASE-16_0/bin/dataserver`
    instance.version = main.executable.known().and_then(|path| version(path)).into();
    instance.session_model = SessionModel::Threads;
    let segments = sysv::measured(scene.host, main, &instance.pids, alone);
    sysv::describe(scene, &mut instance, segments);
    // Pages that are set aside for one that may never take them would be lost to it.
    instance.asked = if sysv::is_on_huge_pages(&instance) { Asked::Try } else { Asked::No };
    instance
}

fn version(path: &str) -> Option<String> {
    let folder = path.split('/').find_map(|part| part.strip_prefix("ASE-"))?;
    versions::in_path(&format!("/{}/", folder.replace('_', ".")))
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::{Host, HugePageUse, Mapping, Observed, PageCount, PageSize};

    use super::*;
    use crate::testing;

    fn engine(pid: u32, parent: u32, words: &[&str], segment: u64, page: PageSize) -> Process {
        Process {
            pid,
            parent,
            uid: 300,
            name: "dataserver".into(),
            command: Observed::Known(words.iter().map(|word| (*word).to_owned()).collect()),
            executable: Observed::Known("/opt/sap/ASE-16_0/bin/dataserver".into()),
            mappings: Observed::Known(vec![Mapping {
                start: segment << 40,
                end: (segment << 40) + (1024 << 20),
                shared: true,
                accessible: true,
                offset: 0,
                device: 1,
                inode: segment,
                name: "/SYSV0d000001 (deleted)".into(),
                page_size: Observed::Known(page),
            }]),
            ..Process::default()
        }
    }

    fn found(processes: Vec<Process>) -> Vec<Instance> {
        let host = Host {
            base_page: Observed::Known(PageSize::KIB_4),
            default_huge_page: Observed::Known(PageSize::MIB_2),
            processes: testing::known(processes),
            ..Host::default()
        };
        let mut found = Found::default();
        find(&Scene::new(&host, &MapSource::new()), &mut found);
        found.instances
    }

    #[test]
    fn engines_that_share_a_segment_are_one_server() {
        let small = PageSize::KIB_4;
        let all = found(vec![
            engine(10, 1, &["/opt/sap/ASE-16_0/bin/dataserver", "-sPROD", "-d/sap/master.dat"], 1, small),
            engine(11, 10, &["dataserver", "-ONLINE:1,0,0x5f"], 1, small),
            engine(20, 1, &["dataserver", "-s", "TEST"], 2, PageSize::MIB_2),
        ]);
        let seen: Vec<_> =
            all.iter().map(|it| (it.name.as_str(), it.pids.as_slice(), it.asked, it.huge_pages)).collect();
        assert_eq!(
            seen,
            [("PROD", &[10, 11][..], Asked::No, HugePageUse::None), ("TEST", &[20][..], Asked::Try, HugePageUse::All)]
        );
        assert_eq!(all[0].version, Observed::Known("16.0".into()));
        assert_eq!(all[0].demand.as_ref().map(|demand| demand.pages), Some(PageCount(512)));
    }
}
