//! SAP HANA: private memory under its own allocator, never hugetlb; transparent huge pages at most.
//!
//! From SAP's documents: the SAP HANA Administration Guide for the processes, the folders and
//! `global_allocation_limit`, SAP Notes 2131662 and 2031375 for THP. The services of one system are
//! one instance, as they share its memory.

use std::collections::BTreeMap;

use hugewise_host::Source;
use hugewise_host::capture::Forms;
use hugewise_model::{Engine, Host, Instance, Level, Observed, Process};

use crate::shared::kind::{CaptureRules, Recognition, SettingAdvice, ThpAdvice, ThpBehavior};
use crate::shared::versions::is_short_number;
use crate::shared::{ini, options, private_memory};
use crate::{EngineContext, EngineKind, FoundInstances, SettingsBy, each_known};

pub(crate) const HANA: Engine = Engine::from_name("hana");

pub(crate) static KIND: EngineKind = EngineKind {
    engine: HANA,
    names: &[(HANA, "SAP HANA")],
    tried: false,
    recognition: Recognition {
        programs: SERVICES,
        find_running: find_hana_instances,
        // Of SAP HANA, express edition, and of the system in SAP's guides.
        accounts: &["hxeadm", "hdbadm"],
        companions: &["hdbdaemon", "hdb.sapHDB*", "sapstartsrv"],
        wrappers: &["sapstartsrv", "hdbdaemon"],
        ..Recognition::PLAIN
    },
    capture: CaptureRules {
        options: &["-port"],
        settings: SETTINGS,
        forms: Forms { rewrite: Some(keep_full_version), ..Forms::NONE },
        reads_working_directory: |process| KIND.is_server_program(options::program_name(process)),
        ..CaptureRules::PLAIN
    },
    thp: ThpBehavior {
        advise: |host, instance| Ok(Some(advise_thp(host, instance))),
        summary: Some(
            "never; madvise or never on SLES 15 SP5, RHEL 9.2 and newer, on POWER, and from 2.0 \
             SPS 08 on; madvise for 2.0 SPS 08 on SLES 15 SP5, RHEL 9.2 and newer, where never is \
             a note (SAP Notes 2131662, 2031375 and 3108302)",
        ),
    },
    settings: SettingAdvice { changed_by: SettingsBy::Nobody, ..SettingAdvice::PLAIN },
    ..EngineKind::PLAIN
};

const MANIFEST: &str = "manifest";

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

/// None of these is a secret.
const SETTINGS: &[&str] = &["global_allocation_limit"];
/// The revision of 2.0 SPS 08: the first two digits of three are the service pack.
const SUPPORTS_THP: (u32, u32, u32) = (2, 0, 80);

fn is_wanted_setting(section: &str, name: &str) -> bool {
    (section, name) == ("memorymanager", "global_allocation_limit")
}

fn advise_thp(host: &Host, instance: &Instance) -> ThpAdvice {
    let revision = instance.version.as_known().and_then(|version| {
        let mut parts = version.split('.').map(str::parse::<u32>);
        Some((parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?))
    });
    let power = host.architecture.as_known().is_some_and(|text| text.starts_with("ppc64"));
    let older = revision.is_some_and(|revision| revision < SUPPORTS_THP);
    let newer = revision.is_some_and(|revision| revision >= SUPPORTS_THP);
    let supports = host.os.as_known().is_some_and(|os| is_sles_15_sp5(os) || is_rhel_9_2(os))
        || host.kernel.as_known().is_some_and(|kernel| is_kernel_of_these(&kernel.text));
    match () {
        () if newer && supports => ThpAdvice::Madvise(Level::Warn),
        () if older && !power && !supports => ThpAdvice::Never(Level::Warn),
        () => ThpAdvice::Against(Level::Warn),
    }
}

/// By the kernel's own name, where the release's is another: `5.14.21-150500.55.136-default` of
/// SP5, `5.14.0-284.11.1.el9_2.x86_64` of 9.2.
fn is_kernel_of_these(release: &str) -> bool {
    let build = release.split_once('-').and_then(|(_, behind)| behind.split('.').next());
    let of_sles = build.and_then(|build| build.parse::<u32>().ok());
    let of_rhel = |part: &str| match part.strip_prefix("el9_") {
        Some(minor) => minor.parse::<u32>().is_ok_and(|minor| minor >= 2),
        None => part == "el10" || part.starts_with("el10_"),
    };
    of_sles.is_some_and(|build| (150_500..160_000).contains(&build))
        || release.split('.').any(of_rhel)
}

fn is_rhel_9_2(os: &str) -> bool {
    let Some(behind) = os.strip_prefix("Red Hat Enterprise Linux") else { return false };
    let Some(release) = behind.split_whitespace().next() else { return false };
    let mut numbers = release.split('.').map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or_default();
    (next(), next()) >= (9, 2)
}

fn is_sles_15_sp5(os: &str) -> bool {
    let Some(behind) = os.strip_prefix("SUSE Linux Enterprise Server") else { return false };
    let behind = behind.strip_prefix(" for SAP Applications").unwrap_or(behind);
    let mut words = behind.split_whitespace();
    let number =
        |word: Option<&str>| word.and_then(|word| word.split('.').next()?.parse::<u32>().ok());
    let major = number(words.next()).unwrap_or_default();
    let pack = number(words.next().and_then(|word| word.strip_prefix("SP"))).unwrap_or_default();
    major > 15 || (major == 15 && pack >= 5)
}

fn find_hana_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    let mut systems = BTreeMap::<(String, u32, Option<u64>), Vec<&Process>>::new();
    for process in each_known(&scene.host.processes) {
        if KIND.is_server_program(options::program_name(process)) {
            let container = process.namespaces.pid.get();
            systems
                .entry((find_sid(scene.host, process), process.uid, container))
                .or_default()
                .push(process);
        }
    }
    for ((sid, ..), mut services) in systems {
        let rank = |process: &Process| {
            SERVICES.iter().position(|name| *name == options::program_name(process))
        };
        services.sort_by_key(|process| (rank(process), process.pid));
        if let Some(main) = services.first() {
            let pids = services.iter().map(|process| process.pid).collect();
            add_instance(scene, found, main, &sid, pids);
        }
    }
}

/// `HDB` of `/usr/sap/HDB/HDB00/exe/hdbindexserver` and of `/hana/shared/HDB/exe/linuxx86_64/...`:
/// three capitals or digits, a capital first. Otherwise by the owner, `hdbadm`.
fn find_sid(host: &Host, process: &Process) -> String {
    let is_sid = |part: &&str| {
        let mut signs = part.bytes();
        let first = signs.next().is_some_and(|sign| sign.is_ascii_uppercase());
        part.len() == 3
            && first
            && signs.all(|sign| sign.is_ascii_uppercase() || sign.is_ascii_digit())
    };
    let paths = [&process.directory, &process.executable];
    let named = paths.into_iter().find_map(|path| path.as_known()?.split('/').find(is_sid));
    let owner = || {
        let owner = host.accounts.user_name(process.uid);
        owner.strip_suffix("adm").unwrap_or(&owner).to_ascii_uppercase()
    };
    named.map_or_else(owner, str::to_owned)
}

/// `2.00.059.11` of `/hana/shared/HDB/exe/linuxx86_64/HDB_2.00.059.11.1698747580/hdbindexserver`.
fn version_in_path(process: &Process) -> Option<String> {
    let folder =
        process.executable.as_known()?.split('/').find_map(|part| part.strip_prefix("HDB_"))?;
    let parts: Vec<&str> = folder.split('.').take(4).collect();
    (parts.len() >= 3 && parts.iter().all(|part| is_short_number(part))).then(|| parts.join("."))
}

/// Of the `manifest` beside its programs.
fn version_in_manifest(scene: &EngineContext<'_>, main: &Process) -> Observed<String> {
    let Some((folder, _)) = main.executable.as_known().and_then(|path| path.rsplit_once('/'))
    else {
        return Observed::Absent;
    };
    let path = format!("{}/{MANIFEST}", options::as_process_names(main, folder));
    let path = options::as_reader_opens(scene.host, main, &path);
    let text = scene.files_of(main).read(&path);
    text.and_then(|bytes| find_full_version(&String::from_utf8_lossy(&bytes)).into())
}

/// `fullversion: 2.00.059.11 Build 1698747580-1530`.
fn find_full_version(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.trim().strip_prefix("fullversion:"))?;
    let version = value.split_whitespace().next()?;
    let parts: Vec<&str> = version.split('.').collect();
    (parts.len() >= 3 && parts.iter().all(|part| is_short_number(part))).then(|| version.to_owned())
}

fn keep_full_version(path: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    if options::file_name(path) != MANIFEST || !path.contains("/exe/") {
        return None;
    }
    let version = find_full_version(&String::from_utf8_lossy(bytes));
    Some(version.map_or_else(Vec::new, |text| format!("fullversion: {text}\n").into_bytes()))
}

fn add_instance(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    main: &Process,
    sid: &str,
    pids: Vec<u32>,
) {
    let of_system = format!("/usr/sap/{sid}/SYS/global/hdb/custom/config/global.ini");
    let of_host = options::working_directory(main)
        .into_known()
        .map(|folder| format!("{}/global.ini", folder.trim_end_matches('/')));
    let files: Vec<String> = [of_system].into_iter().chain(of_host).collect();
    let (settings, _) = ini::read_files(scene, found, main, &files, is_wanted_setting);
    let mut instance = scene.new_instance(HANA, sid.to_owned(), main, pids);
    instance.version = match version_in_path(main) {
        Some(version) => Observed::Known(version),
        None => version_in_manifest(scene, main),
    };
    instance.settings = settings;
    private_memory::describe_private_memory(scene, main, &mut instance);
    found.add(instance);
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::instance::Mechanism;
    use hugewise_model::{HugePageMode, HugePageUse};

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

    fn found(processes: Vec<Process>, source: &MapSource) -> FoundInstances {
        let host = Host { processes: testing::known(processes), ..Host::default() };
        let mut found = FoundInstances::default();
        find_hana_instances(&EngineContext::new(&host, source), &mut found);
        found
    }

    #[test]
    fn the_services_of_a_system_are_one_instance() {
        let source = MapSource::new()
            .with_file(
                "/usr/sap/HDB/SYS/global/hdb/custom/config/global.ini",
                "[communication]\nssl = S3\n[memorymanager]\nglobal_allocation_limit = 393216\n",
            )
            .with_file(
                "/usr/sap/HDB/HDB00/db7/global.ini",
                "[memorymanager]\nglobal_allocation_limit = 262144\n",
            );
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
        let seen: Vec<_> = found
            .instances
            .iter()
            .map(|instance| (instance.name.as_str(), instance.pid, instance.pids.len()))
            .collect();
        assert_eq!(seen, [("HDB", 21, 3), ("HDB", 30, 1)]);
        let one = &found.instances[0];
        assert_eq!(one.version, Observed::Known("2.00.059.11".into()));
        assert_eq!(one.setting_value("global_allocation_limit"), Some("262144"));
        assert_eq!(one.settings.len(), 1);
        assert_eq!(
            (one.asked, one.mechanism, one.huge_pages),
            (HugePageMode::Cannot, Mechanism::None, HugePageUse::None)
        );
    }

    /// A system whose programs lie in a folder without a version.
    #[test]
    fn the_manifest_has_the_version_that_no_folder_has() {
        let manifest = "compversion: 2.00.079\nfullversion: 2.00.079.05 Build 17.3\nx: S3\n";
        let source = MapSource::new().with_file("/usr/sap/HDB/exe/manifest", manifest);
        let mut process = service(21, "hdbindexserver", 1001);
        process.executable = Observed::Known("/usr/sap/HDB/exe/hdbindexserver".into());
        let found = found(vec![process], &source);
        assert_eq!(found.instances[0].version, Observed::Known("2.00.079.05".into()));
        let kept = keep_full_version("/usr/sap/HDB/exe/manifest", manifest.as_bytes()).unwrap();
        assert_eq!(kept, b"fullversion: 2.00.079.05\n");
        assert_eq!(keep_full_version("/usr/sap/HDB/exe/manifest", &kept), Some(kept));
        assert_eq!(keep_full_version("/srv/manifest", b"fullversion: 2.00.079.05"), None);
    }

    #[test]
    fn kernels_tell_what_they_are_of() {
        for (kernel, expected) in [
            ("5.14.21-150500.55.136-default", true),
            ("6.4.0-150600.23.7-default", true),
            ("5.14.21-150400.24.100-default", false),
            ("5.14.0-284.11.1.el9_2.x86_64", true),
            ("5.14.0-162.6.1.el9_1.x86_64", false),
            ("5.14.0-503.el9.x86_64", false),
            ("6.12.0-55.9.1.el10_0.x86_64", true),
            ("5.15.0-119-generic", false),
            ("", false),
        ] {
            assert_eq!(is_kernel_of_these(kernel), expected, "{kernel}");
        }
    }

    #[test]
    fn a_system_is_named_by_its_folder_or_its_owner() {
        let named = |directory: Observed<String>, executable: &str| {
            let executable = Observed::Known(executable.to_owned());
            find_sid(
                &Host::default(),
                &Process { uid: 7, directory, executable, ..Process::default() },
            )
        };
        assert_eq!(named(Observed::Denied, "/usr/sap/H4D/HDB02/exe/hdbnameserver"), "H4D");
        assert_eq!(named(Observed::Known("/usr/sap/PRD/HDB00/a".into()), EXE), "PRD");
        assert_eq!(named(Observed::Absent, "/opt/hdbnameserver"), "7");
    }

    /// SAP Note 2131662: madvise from SPS 08 on, and for all on SLES 15 SP5, RHEL 9.2 (3108302) and
    /// newer and on POWER; nothing else is advised for SPS 08 on these.
    #[test]
    fn thp_hangs_on_the_release_and_the_host() {
        let advice = |version: Option<&str>, os: &str, architecture: &str| {
            let host = Host {
                os: Observed::Known(os.into()),
                architecture: Observed::Known(architecture.into()),
                ..Host::default()
            };
            let source = MapSource::new();
            let scene = EngineContext::new(&host, &source);
            let mut instance =
                scene.new_instance(HANA, "HDB".into(), &Process::default(), Vec::new());
            instance.version = version.map(str::to_owned).into();
            advise_thp(&host, &instance)
        };
        let (never, madvise) = (ThpAdvice::Never(Level::Warn), ThpAdvice::Against(Level::Warn));
        let alone = ThpAdvice::Madvise(Level::Warn);
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
            (Some("2.00.080.00"), "SUSE Linux Enterprise Server 15 SP5", "x86_64", alone),
            (Some("2.00.080.00"), "SUSE Linux Enterprise Server 15 SP4", "x86_64", madvise),
            (Some("2.00.080.00"), "Red Hat Enterprise Linux 9.2 (Plow)", "x86_64", alone),
            (Some("2.00.080.00"), "Red Hat Enterprise Linux 9.0 (Plow)", "x86_64", madvise),
            (Some("2.00.059.11"), "Red Hat Enterprise Linux 9.4 (Plow)", "x86_64", madvise),
            (Some("2.00.080.00"), "Red Hat Enterprise Linux 10.0 (Coughlan)", "x86_64", alone),
        ] {
            assert_eq!(
                advice(version, os, architecture),
                expected,
                "{version:?} {os} {architecture}"
            );
        }
    }
}
