//! SAP ASE (Sybase): engines called `dataserver`, one process of threads or several processes,
//! around System V segments.
//!
//! From SAP's documents of 16.0: "Adjusting the Operating System Shared Memory Parameters" for the
//! segments, the Utility Guide for the options of `dataserver`. No document says what makes it ask
//! for huge pages, or advises on THP: a server without huge pages counts as one that does not ask.

use std::collections::BTreeSet;

use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::ValueShape;
use hugewise_model::instance::SessionModel;
use hugewise_model::{Engine, HugePageMode, Instance, Process};

use crate::shared::kind::{CaptureRules, Recognition, RestartBehavior, SettingAdvice};
use crate::shared::sysv::Mappers;
use crate::shared::{options, sysv, versions};
use crate::{EngineContext, EngineKind, FoundInstances, SettingsBy, StartBehavior, each_known};

pub(crate) const ASE: Engine = Engine::from_name("ase");

pub(crate) static KIND: EngineKind = EngineKind {
    engine: ASE,
    names: &[(ASE, "SAP ASE")],
    tried: false,
    recognition: Recognition {
        programs: &[PROGRAM],
        find_running: find_ase_instances,
        // The account in SAP's installation guides.
        accounts: &["sybase"],
        ..Recognition::PLAIN
    },
    capture: CaptureRules {
        options: &["-s"],
        value_shapes: &[("-s", ValueShape::Names)],
        forms: Forms { attached: &[PROGRAM], ..Forms::NONE },
        ..CaptureRules::PLAIN
    },
    start: StartBehavior::SYSTEM_V,
    restart: RestartBehavior::by_own_tools(
        "SAP ASE's own commands have to do it",
        |_, instance| {
            let Instance { owner, name, .. } = instance;
            vec![format!("# as {owner}: shutdown of {name} in isql, then its RUN file")]
        },
    ),
    settings: SettingAdvice { changed_by: SettingsBy::Nobody, ..SettingAdvice::PLAIN },
    ..EngineKind::PLAIN
};

const PROGRAM: &str = "dataserver";

fn is_server(process: &Process) -> bool {
    options::program_name(process) == PROGRAM
}

/// The first engine starts the others, which have no name of their own.
fn find_ase_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    let host = scene.host;
    let all = each_known(&host.processes).map(AsRef::as_ref);
    let servers: Vec<&Process> = all.filter(|process: &&Process| is_server(process)).collect();
    if servers.is_empty() {
        return;
    }
    let mappers = Mappers::new(host);
    let is_first = |process: &&&Process| !scene.parent_of(process).is_some_and(is_server);
    for main in servers.iter().filter(is_first) {
        if found.has_process(main.pid) {
            continue;
        }
        let children =
            servers.iter().filter(|other| other.parent == main.pid).map(|other| other.pid);
        let beside = mappers.sharing_pids(host, main, |other| is_server(other));
        let pids: BTreeSet<u32> = children.chain(beside).chain([main.pid]).collect();
        let alone = servers.iter().all(|other| other.uid != main.uid || pids.contains(&other.pid));
        found.add(build_instance(scene, main, pids.into_iter().collect(), alone));
    }
}

fn build_instance(
    scene: &EngineContext<'_>,
    main: &Process,
    pids: Vec<u32>,
    alone: bool,
) -> Instance {
    let named = main.command.as_known().and_then(|words| options::short_value(words, 's'));
    let owner = || scene.host.accounts.user_name(main.uid);
    let mut instance = scene.new_instance(ASE, named.map_or_else(owner, str::to_owned), main, pids);
    // `/opt/sap/ASE-16_0/bin/dataserver`
    instance.version = main.executable.as_known().and_then(|path| version_in_path(path)).into();
    instance.session_model = SessionModel::Threads;
    let segments = sysv::measure_segments(scene.host, main, &instance.pids, alone);
    sysv::describe_segments(scene, &mut instance, segments);
    // Pages set aside for a server that may never take them would be lost.
    instance.asked =
        if sysv::is_on_huge_pages(&instance) { HugePageMode::Try } else { HugePageMode::No };
    instance
}

fn version_in_path(path: &str) -> Option<String> {
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
        let mut found = FoundInstances::default();
        find_ase_instances(&EngineContext::new(&host, &MapSource::new()), &mut found);
        found.instances
    }

    #[test]
    fn engines_that_share_a_segment_are_one_server() {
        let small = PageSize::KIB_4;
        let all = found(vec![
            engine(
                10,
                1,
                &["/opt/sap/ASE-16_0/bin/dataserver", "-sPROD", "-d/sap/master.dat"],
                1,
                small,
            ),
            engine(11, 10, &["dataserver", "-ONLINE:1,0,0x5f"], 1, small),
            engine(20, 1, &["dataserver", "-s", "TEST"], 2, PageSize::MIB_2),
        ]);
        let seen: Vec<_> = all
            .iter()
            .map(|instance| {
                (
                    instance.name.as_str(),
                    instance.pids.as_slice(),
                    instance.asked,
                    instance.huge_pages,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("PROD", &[10, 11][..], HugePageMode::No, HugePageUse::None),
                ("TEST", &[20][..], HugePageMode::Try, HugePageUse::All)
            ]
        );
        assert_eq!(all[0].version, Observed::Known("16.0".into()));
        assert_eq!(all[0].demand.as_ref().map(|demand| demand.pages), Some(PageCount(512)));
    }
}
