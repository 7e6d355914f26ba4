//! SAP HANA: private memory under an allocator of its own, never hugetlb; transparent huge pages at most.
//!
//! From SAP's documents: the SAP HANA Administration Guide for the processes, the folders and `global_allocation_limit`, SAP
//! Notes 2131662 and 2031375 for THP. The services of one system are one instance: they share the memory that it may have.

use std::collections::BTreeMap;

use hugewise_host::Door;
use hugewise_model::{Engine, Host, Instance, Level, Process};

use crate::kind::ThpAdvice;
use crate::{Found, Kind, Scene, SettingsBy, ini, options, private};

/// The engine.
pub const HANA: Engine = Engine::called("hana");

/// SAP HANA.
pub static KIND: Kind = Kind {
    engine: HANA,
    names: &[(HANA, "SAP HANA")],
    tried: false,
    programs: SERVICES,
    find,
    // Of SAP HANA, express edition, and of the system that SAP's guides install.
    accounts: &["hxeadm", "hdbadm"],
    options: &["-port"],
    settings: SETTINGS,
    companions: &["hdbdaemon", "hdb.sapHDB*", "sapstartsrv"],
    settings_by: SettingsBy::Nobody,
    reads_folder: |process| KIND.runs(options::program(process)),
    thp: |host, instance| Ok(Some(thp(host, instance))),
    thp_in_words: Some(
        "madvise from 2.0 SPS 08 on, on SLES 15 SP5 and newer, and on POWER; never otherwise (SAP Notes 2131662 and 2031375)",
    ),
    ..Kind::PLAIN
};

/// The services that hold memory of their own, the one with most of it first.
const SERVICES: &[&str] = &[
    "hdbindexserver",
    "hdbnameserver",
    "hdbxsengine",
    "hdbscriptserver",
    "hdbdocstore",
    "hdbdpserver",
    "hdbcompileserver",
    "hdbpreprocessor",
    "hdbwebdispatcher",
    "hdbdiserver",
];

/// Of these none is a secret.
const SETTINGS: &[&str] = &["global_allocation_limit"];

/// The revision of 2.0 SPS 08: the first two digits of three are the service pack.
const SUPPORTS_THP: (u32, u32, u32) = (2, 0, 80);

fn wanted(section: &str, name: &str) -> bool {
    (section, name) == ("memorymanager", "global_allocation_limit")
}

fn thp(host: &Host, instance: &Instance) -> ThpAdvice {
    let revision = instance.version.known().and_then(|version| {
        let mut parts = version.split('.').map(str::parse::<u32>);
        Some((parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?))
    });
    let power = host.architecture.known().is_some_and(|it| it.starts_with("ppc64"));
    let older = revision.is_some_and(|revision| revision < SUPPORTS_THP);
    match older && !power && !host.os.known().is_some_and(|os| is_sles_15_sp5(os)) {
        true => ThpAdvice::Never(Level::Warn),
        false => ThpAdvice::Against(Level::Warn),
    }
}

/// `SUSE Linux Enterprise Server 15 SP5`, or newer.
fn is_sles_15_sp5(os: &str) -> bool {
    let Some(behind) = os.strip_prefix("SUSE Linux Enterprise Server") else { return false };
    let behind = behind.strip_prefix(" for SAP Applications").unwrap_or(behind);
    let mut words = behind.split_whitespace();
    let number = |word: Option<&str>| word.and_then(|word| word.split('.').next()?.parse::<u32>().ok());
    let major = number(words.next()).unwrap_or_default();
    let pack = number(words.next().and_then(|word| word.strip_prefix("SP"))).unwrap_or_default();
    major > 15 || (major == 15 && pack >= 5)
}

/// A system's services are told from another's by its identifier, their owner, and the container that they are in.
fn find(scene: &Scene<'_>, found: &mut Found) {
    let mut systems = BTreeMap::<(String, u32, Option<u64>), Vec<&Process>>::new();
    for process in scene.host.processes.known().into_iter().flatten() {
        if KIND.runs(options::program(process)) {
            let container = process.namespaces.pid.get();
            systems.entry((sid(scene.host, process), process.uid, container)).or_default().push(process);
        }
    }
    for ((sid, ..), mut services) in systems {
        let rank = |process: &Process| SERVICES.iter().position(|name| *name == options::program(process));
        services.sort_by_key(|process| (rank(process), process.pid));
        if let Some(main) = services.first() {
            let pids = services.iter().map(|process| process.pid).collect();
            instance(scene, found, main, &sid, pids);
        }
    }
}

/// `HDB` of `/usr/sap/HDB/HDB00/exe/hdbindexserver` and of `/hana/shared/HDB/exe/linuxx86_64/...`: three capitals or digits, the
/// first of them a capital. Where no folder tells it, its owner does: `hdbadm`.
fn sid(host: &Host, process: &Process) -> String {
    let is_sid = |part: &&str| {
        let mut signs = part.bytes();
        let first = signs.next().is_some_and(|sign| sign.is_ascii_uppercase());
        part.len() == 3 && first && signs.all(|sign| sign.is_ascii_uppercase() || sign.is_ascii_digit())
    };
    let paths = [&process.directory, &process.executable];
    let named = paths.into_iter().filter_map(|path| path.known()?.split('/').find(is_sid)).next();
    let owner = || {
        let owner = host.accounts.user_name(process.uid);
        owner.strip_suffix("adm").unwrap_or(&owner).to_ascii_uppercase()
    };
    named.map_or_else(owner, str::to_owned)
}

/// `2.00.059.11` of `/hana/shared/HDB/exe/linuxx86_64/HDB_2.00.059.11.1698747580/hdbindexserver`.
fn version(process: &Process) -> Option<String> {
    let folder = process.executable.known()?.split('/').find_map(|part| part.strip_prefix("HDB_"))?;
    let parts: Vec<&str> = folder.split('.').take(4).collect();
    let number = |part: &&str| !part.is_empty() && part.len() <= 5 && part.bytes().all(|sign| sign.is_ascii_digit());
    (parts.len() >= 3 && parts.iter().all(number)).then(|| parts.join("."))
}

fn instance(scene: &Scene<'_>, found: &mut Found, main: &Process, sid: &str, pids: Vec<u32>) {
    let mut settings = BTreeMap::new();
    let own = scene.files_of(main);
    let mut door = Door::new(&own);
    // What is set for this host of a system counts before what is set for the system.
    let of_system = format!("/usr/sap/{sid}/SYS/global/hdb/custom/config/global.ini");
    let of_host =
        options::directory(main).into_known().map(|folder| format!("{}/global.ini", folder.trim_end_matches('/')));
    for file in [Some(of_system), of_host].into_iter().flatten() {
        ini::add(&mut settings, &mut door, &options::as_reader_opens(scene.host, main, &file), wanted);
    }
    found.add_unread(main, door.unread);
    let mut instance = scene.instance(HANA, sid.to_owned(), main, pids);
    instance.version = version(main).into();
    instance.settings = settings;
    private::describe(scene, main, &mut instance);
    found.add(instance);
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::instance::Mechanism;
    use hugewise_model::{Asked, HugePageUse, Observed};

    use super::*;
    use crate::testing;

    const EXE: &str = "/hana/shared/HDB/exe/linuxx86_64/HDB_2.00.059.11.1698747580_6a2bcb4e7d/";

    fn service(pid: u32, name: &str, uid: u32) -> Process {
        Process {
            pid,
            parent: 1,
            uid,
            name: name.chars().take(15).collect(),
            command: Observed::Known(vec![name.into(), "-port".into(), "30003".into()]),
            executable: Observed::Known(format!("{EXE}{name}")),
            directory: Observed::Known("/usr/sap/HDB/HDB00/db7".into()),
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
    fn the_services_of_a_system_are_one_instance() {
        let source = MapSource::new()
            .file(
                "/usr/sap/HDB/SYS/global/hdb/custom/config/global.ini",
                "[communication]\nssl = S3\n[memorymanager]\nglobal_allocation_limit = 393216\n",
            )
            .file("/usr/sap/HDB/HDB00/db7/global.ini", "[memorymanager]\nglobal_allocation_limit = 262144\n");
        let found = found(
            vec![
                service(20, "hdbnameserver", 1001),
                service(21, "hdbindexserver", 1001),
                service(22, "hdbcompileserver", 1001),
                service(30, "hdbindexserver", 1002),
                service(40, "hdbrsutil", 1001),
            ],
            &source,
        );
        let seen: Vec<_> = found.instances.iter().map(|it| (it.name.as_str(), it.pid, it.pids.len())).collect();
        assert_eq!(seen, [("HDB", 21, 3), ("HDB", 30, 1)]);
        let one = &found.instances[0];
        assert_eq!(one.version, Observed::Known("2.00.059.11".into()));
        assert_eq!(one.setting_value("global_allocation_limit"), Some("262144"));
        assert_eq!(one.settings.len(), 1);
        assert_eq!((one.asked, one.mechanism, one.huge_pages), (Asked::Cannot, Mechanism::None, HugePageUse::None));
    }

    #[test]
    fn a_system_is_named_by_its_folder_or_its_owner() {
        let named = |directory: Observed<String>, executable: &str| {
            let executable = Observed::Known(executable.to_owned());
            sid(&Host::default(), &Process { uid: 7, directory, executable, ..Process::default() })
        };
        assert_eq!(named(Observed::Denied, "/usr/sap/H4D/HDB02/exe/hdbnameserver"), "H4D");
        assert_eq!(named(Observed::Known("/usr/sap/PRD/HDB00/a".into()), EXE), "PRD");
        assert_eq!(named(Observed::Absent, "/opt/hdbnameserver"), "7");
    }

    /// SAP Note 2131662: madvise from SPS 08 on, and for all on SLES 15 SP5 and newer and on POWER.
    #[test]
    fn thp_hangs_on_the_release_and_the_host() {
        let advice = |version: Option<&str>, os: &str, architecture: &str| {
            let host = Host {
                os: Observed::Known(os.into()),
                architecture: Observed::Known(architecture.into()),
                ..Host::default()
            };
            let source = MapSource::new();
            let scene = Scene::new(&host, &source);
            let mut instance = scene.instance(HANA, "HDB".into(), &Process::default(), Vec::new());
            instance.version = version.map(str::to_owned).into();
            thp(&host, &instance)
        };
        let (never, madvise) = (ThpAdvice::Never(Level::Warn), ThpAdvice::Against(Level::Warn));
        let rhel = "Red Hat Enterprise Linux 8.8 (Ootpa)";
        for (version, os, architecture, expected) in [
            (Some("2.00.059.11"), rhel, "x86_64", never),
            (Some("1.00.122.30"), rhel, "x86_64", never),
            (Some("2.00.080.00"), rhel, "x86_64", madvise),
            (Some("2.00.059.11"), "SUSE Linux Enterprise Server 15 SP5", "x86_64", madvise),
            (Some("2.00.059.11"), "SUSE Linux Enterprise Server 15 SP4", "x86_64", never),
            (Some("2.00.059.11"), "SUSE Linux Enterprise Server 12 SP5", "x86_64", never),
            (Some("2.00.059.11"), rhel, "ppc64le", madvise),
            (None, rhel, "x86_64", madvise),
        ] {
            assert_eq!(advice(version, os, architecture), expected, "{version:?} {os} {architecture}");
        }
    }
}
