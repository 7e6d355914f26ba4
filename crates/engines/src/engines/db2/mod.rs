//! IBM Db2: `db2sysc`, a process of threads for each member, with its memory in System V segments.
//!
//! From IBM's documents of Db2 9.7 to 11.5: "Performance variables" for `DB2_LARGE_PAGE_MEM`,
//! without which it asks for no huge pages; "Enabling large page support" for STMM; "Profile
//! registry locations and authorization requirements" for the files. That it goes without where
//! there are none is assumed; IBM gives no advice on THP. What `db2set -g` sets is in a file of
//! Db2's own format and is not read.

use std::collections::BTreeMap;

use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::ValueShape;
use hugewise_model::instance::{NextStart, Segment, ServerSetting, SessionModel};
use hugewise_model::{Engine, Host, HugePageMode, Instance, Observed, Process};

use crate::shared::kind::{CaptureRules, Recognition, RestartBehavior, SettingAdvice};
use crate::shared::next_start::{self, NextStartFiles};
use crate::shared::sysv::Mappers;
use crate::shared::versions::is_short_number;
use crate::shared::{ini, options, sysv};
use crate::{EngineContext, EngineKind, FoundInstances, StartBehavior, each_known};

pub(crate) const DB2: Engine = Engine::from_name("db2");

pub(crate) static KIND: EngineKind = EngineKind {
    engine: DB2,
    names: &[(DB2, "IBM Db2")],
    tried: false,
    recognition: Recognition {
        programs: &[PROGRAM],
        find_running: find_db2_instances,
        // The instance owner in IBM's guides and installation.
        accounts: &["db2inst1"],
        companions: &["db2wdog", "db2fmcd", "db2start"],
        wrappers: &["db2start", "db2fmcd", "db2wdog"],
        ..Recognition::PLAIN
    },
    capture: CaptureRules {
        settings: &[LARGE_PAGES],
        value_shapes: &[(LARGE_PAGES, ValueShape::Words(REGIONS))],
        forms: Forms { title: Some(kept_title), ..Forms::NONE },
        reads_home: true,
        reads_working_directory: is_member,
        ..CaptureRules::PLAIN
    },
    // "Enforced minimum settings" of its kernel parameters, at each start of an instance.
    start: StartBehavior { raises_shm_limits: true, ..StartBehavior::SYSTEM_V },
    restart: RestartBehavior::by_own_tools("Db2's own commands have to do it", |_, instance| {
        vec![format!("# as {}: db2stop, then db2start", instance.owner)]
    }),
    settings: SettingAdvice {
        only_by_settings: true,
        asks_by: "DB2_LARGE_PAGE_MEM=DB",
        commands: |_, instance, _| {
            let owner = &instance.owner;
            vec![
                format!("# as {owner}: db2set DB2_LARGE_PAGE_MEM=DB"),
                format!(
                    "# as {owner}: set a fixed size for DATABASE_MEMORY, which STMM does not tune \
                     on large pages"
                ),
            ]
        },
        ..SettingAdvice::PLAIN
    },
    ..EngineKind::PLAIN
};

const PROGRAM: &str = "db2sysc";
const LARGE_PAGES: &str = "db2_large_page_mem";
/// Regions of memory in `DB2_LARGE_PAGE_MEM`, between commas; `*` is all of them.
const REGIONS: &[&str] = &["*", "db", "dbms", "fcm", "appl", "private"];

fn is_wanted_setting(_: &str, name: &str) -> bool {
    name == LARGE_PAGES
}

fn member_number(process: &Process) -> u32 {
    let words = process.command.as_known().map(|words| words.join(" ")).unwrap_or_default();
    words.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or_default()
}

fn kept_title(word: &str) -> Option<String> {
    let (program, number) = word.split_once(' ')?;
    let number: u32 = number.trim().parse().ok()?;
    (program == PROGRAM).then(|| format!("{PROGRAM} {number}"))
}

/// Where its program cannot be read, its title begins with the name.
fn is_member(process: &Process) -> bool {
    options::program_name(process).split(' ').next() == Some(PROGRAM)
}

fn find_db2_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    let members: Vec<_> =
        each_known(&scene.host.processes).filter(|process| is_member(process)).collect();
    if members.is_empty() {
        return;
    }
    let mappers = Mappers::new(scene.host);
    let mut of_user = BTreeMap::<u32, usize>::new();
    for process in &members {
        *of_user.entry(process.uid).or_default() += 1;
    }
    for process in members {
        let alone = of_user.get(&process.uid) == Some(&1);
        add_instance(scene, found, process, &mappers, alone);
    }
}

/// An instance is named after its owner; further members have their number.
fn add_instance(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    main: &Process,
    mappers: &Mappers<'_>,
    alone: bool,
) {
    let host = scene.host;
    let owner = host.accounts.user_name(main.uid);
    let name = match member_number(main) {
        0 => owner,
        number => format!("{owner} member {number}"),
    };
    let belongs = |other: &&Process| sysv::same_place(main, other) && !is_member(other);
    let pids = mappers.sharing_pids(host, main, belongs);

    let mut instance = scene.new_instance(DB2, name, main, pids);
    let (settings, complete) = read_registry(scene, found, main);
    instance.settings = settings;
    instance.version = version_in_path(main).into();
    instance.session_model = SessionModel::Threads;
    let setting = instance.settings.get(LARGE_PAGES).cloned();
    let measured = sysv::measure_segments(host, main, &instance.pids, alone);
    sysv::describe_segments(scene, &mut instance, of_regions(measured, setting.as_ref()));
    instance.asked = match &setting {
        Some(setting) => parse_large_page_request(&setting.value),
        // It was set for all instances, or before the files were changed.
        None if sysv::is_on_huge_pages(&instance) => HugePageMode::Try,
        None if complete => HugePageMode::No,
        None => HugePageMode::Unknown,
    };
    instance.setting = setting.clone();
    instance.next = predict_next_start(&instance, setting, complete);
    found.add(instance);
}

fn predict_next_start(
    instance: &Instance,
    setting: Option<ServerSetting>,
    complete: bool,
) -> Observed<NextStart> {
    if !complete && instance.asked == HugePageMode::Unknown {
        return Observed::Malformed("not all of its profile registry can be read".into());
    }
    next_start::predict_from_files(
        instance,
        NextStartFiles { asked: instance.asked, setting, page: None, size: None },
    )
}

/// `DB`, `DB,DBMS`, `*`: it goes without where there are no large pages. Empty sets nothing.
fn parse_large_page_request(value: &str) -> HugePageMode {
    let known =
        |region: &str| REGIONS.iter().any(|known| region.trim().eq_ignore_ascii_case(known));
    match value.trim() {
        "" => HugePageMode::No,
        regions if regions.split(',').all(known) => HugePageMode::Try,
        _ => HugePageMode::Unknown,
    }
}

/// The segments that are to be on huge pages. Where only some regions are, segments smaller than
/// all that are on huge pages count as the others'.
fn of_regions(measured: Vec<Segment>, setting: Option<&ServerSetting>) -> Vec<Segment> {
    let all = setting.is_some_and(|setting| setting.value.contains('*'));
    let huge = measured.iter().filter(|segment| segment.huge.get() == Some(true));
    match huge.map(|segment| segment.size).min().filter(|_| !all) {
        Some(least) => measured.into_iter().filter(|segment| segment.size >= least).collect(),
        None => measured,
    }
}

/// The instance's registry, overridden by the member's; and whether all of it could be read.
fn read_registry(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    main: &Process,
) -> (BTreeMap<String, ServerSetting>, bool) {
    // The accounts of the host say nothing of a home inside a container.
    let is_foreign = options::sees_other_files(scene.host, main);
    let Some(sqllib) = sqllib_folder(scene.host, main).filter(|_| !is_foreign) else {
        return (BTreeMap::new(), false);
    };
    let member = format!("{sqllib}/nodes/{}.env", member_number(main));
    let files = [format!("{sqllib}/profile.env"), member];
    ini::read_files(scene, found, main, &files, is_wanted_setting)
}

/// It runs in `~/sqllib/db2dump`, whether an account of this host has that home or none of its
/// files tells it (LDAP).
fn sqllib_folder(host: &Host, main: &Process) -> Option<String> {
    let by_account = || host.accounts.users.get(&main.uid)?.home.as_deref();
    let in_home = main.directory.as_known().and_then(|folder| folder.split_once("/sqllib/"));
    let home = in_home.map(|(home, _)| home).or_else(by_account);
    let home = home.filter(|home| home.starts_with('/'))?;
    Some(format!("{}/sqllib", home.trim_end_matches('/')))
}

/// `11.5` of `/opt/ibm/db2/V11.5/adm/db2sysc`.
fn version_in_path(main: &Process) -> Option<String> {
    let path = main.executable.as_known()?;
    path.split('/').rev().find_map(|part| {
        let version = part.strip_prefix('V')?;
        let is_version = version.contains('.') && version.split('.').all(is_short_number);
        is_version.then(|| version.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::host::User;
    use hugewise_model::{Bytes, HugePageUse, Mapping, PageCount, PageSize};

    use super::*;
    use crate::testing;

    fn segment(id: u64, mib: u64, page: PageSize) -> Mapping {
        Mapping {
            start: id << 40,
            end: (id << 40) + (mib << 20),
            shared: true,
            accessible: true,
            offset: 0,
            device: 1,
            inode: id,
            name: "/SYSV00000000 (deleted)".into(),
            page_size: Observed::Known(page),
        }
    }

    fn process(pid: u32, name: &str, title: &str, mappings: Vec<Mapping>) -> Process {
        Process {
            pid,
            parent: 1,
            uid: 1001,
            name: name.into(),
            command: Observed::Known(vec![title.into()]),
            executable: Observed::Known(format!("/opt/ibm/db2/V11.5/adm/{name}")),
            mappings: Observed::Known(mappings),
            ..Process::default()
        }
    }

    fn found(processes: Vec<Process>, source: &MapSource) -> FoundInstances {
        let mut host = Host {
            base_page: Observed::Known(PageSize::KIB_4),
            default_huge_page: Observed::Known(PageSize::MIB_2),
            processes: testing::known(processes),
            ..Host::default()
        };
        let user = User { name: "db2inst1".into(), gid: 999, home: Some("/home/db2inst1".into()) };
        host.accounts.users.insert(1001, user);
        let mut found = FoundInstances::default();
        find_db2_instances(&EngineContext::new(&host, source), &mut found);
        found
    }

    fn memory(page: PageSize) -> Vec<Mapping> {
        vec![
            segment(1, 8192, page),
            segment(2, 80, PageSize::KIB_4),
            segment(3, 200, PageSize::KIB_4),
        ]
    }

    const PROFILE: &str = "/home/db2inst1/sqllib/profile.env";

    #[test]
    fn a_member_has_the_segments_and_the_processes_that_map_them() {
        let processes = vec![
            process(10, "db2wdog", "db2wdog 0", vec![segment(2, 80, PageSize::KIB_4)]),
            process(11, "db2sysc", "db2sysc 0", memory(PageSize::KIB_4)),
            process(12, "db2acd", "db2acd 0", vec![segment(3, 200, PageSize::KIB_4)]),
            process(13, "db2sysc", "db2sysc 1", vec![segment(4, 512, PageSize::KIB_4)]),
        ];
        let found = found(processes, &MapSource::new());
        let seen: Vec<_> = found
            .instances
            .iter()
            .map(|instance| (instance.name.as_str(), instance.pids.clone()))
            .collect();
        assert_eq!(seen, [("db2inst1", vec![10, 11, 12]), ("db2inst1 member 1", vec![13])]);
        let one = &found.instances[0];
        assert_eq!((one.asked, one.huge_pages), (HugePageMode::No, HugePageUse::None));
        assert_eq!(one.version, Observed::Known("11.5".into()));
        // 4,096, 40 and 100 pages.
        assert_eq!(one.demand.as_ref().map(|demand| demand.pages), Some(PageCount(4236)));
    }

    #[test]
    fn its_registry_says_whether_it_asks() {
        let asked = |source: &MapSource| {
            let found =
                found(vec![process(11, "db2sysc", "db2sysc 0", memory(PageSize::KIB_4))], source);
            found.instances[0].asked
        };
        let profile =
            |line: &str| MapSource::new().with_file(PROFILE, format!("DB2COMM='TCPIP'\n{line}\n"));
        assert_eq!(asked(&profile("DB2_LARGE_PAGE_MEM='DB'")), HugePageMode::Try);
        assert_eq!(asked(&profile("DB2_LARGE_PAGE_MEM='DB,DBMS'")), HugePageMode::Try);
        assert_eq!(asked(&profile("DB2_LARGE_PAGE_MEM=*")), HugePageMode::Try);
        assert_eq!(asked(&profile("DB2_LARGE_PAGE_MEM='S3cret'")), HugePageMode::Unknown);
        assert_eq!(asked(&profile("DB2_LARGE_PAGE_MEM=''")), HugePageMode::No);
        assert_eq!(asked(&profile("")), HugePageMode::No);
        let member =
            profile("").with_file("/home/db2inst1/sqllib/nodes/0.env", "DB2_LARGE_PAGE_MEM='DB'\n");
        assert_eq!(asked(&member), HugePageMode::Try);
        assert_eq!(asked(&MapSource::new().with_denied(PROFILE)), HugePageMode::Unknown);
    }

    #[test]
    fn its_registry_is_in_the_home_that_it_runs_in() {
        let source = MapSource::new()
            .with_file("/data/home/db2inst1/sqllib/profile.env", "DB2_LARGE_PAGE_MEM='DB'\n");
        let mut main = process(11, "db2sysc", "db2sysc 0", memory(PageSize::KIB_4));
        main.directory = Observed::Known("/data/home/db2inst1/sqllib/db2dump".into());
        assert_eq!(found(vec![main], &source).instances[0].asked, HugePageMode::Try);
    }

    #[test]
    fn what_the_other_regions_have_stays_on_base_pages() {
        let huge_page_use_of = |value: &str| {
            let source =
                MapSource::new().with_file(PROFILE, format!("DB2_LARGE_PAGE_MEM='{value}'\n"));
            let found =
                found(vec![process(11, "db2sysc", "db2sysc 0", memory(PageSize::MIB_2))], &source);
            let one = &found.instances[0];
            (one.huge_pages, one.segments.iter().map(|segment| segment.size).collect::<Vec<_>>())
        };
        assert_eq!(huge_page_use_of("DB"), (HugePageUse::All, vec![Bytes::from_gib(8)]));
        assert_eq!(huge_page_use_of("*").0, HugePageUse::Partly);
    }

    #[test]
    fn what_runs_on_huge_pages_has_asked_for_them() {
        let found = found(
            vec![process(11, "db2sysc", "db2sysc 0", memory(PageSize::MIB_2))],
            &MapSource::new(),
        );
        assert_eq!(
            (found.instances[0].asked, found.instances[0].next.is_absent()),
            (HugePageMode::Try, true)
        );
    }

    #[test]
    fn of_a_title_the_member_is_kept() {
        for title in ["db2sysc 0", "db2sysc 12"] {
            let kept = kept_title(title).unwrap();
            assert_eq!(kept, title);
            assert_eq!(
                member_number(&process(1, PROGRAM, &kept, Vec::new())),
                member_number(&process(1, PROGRAM, title, Vec::new()))
            );
        }
        for other in ["db2sysc S3", "db2sysc", "db2fmp 0", "db2sysc 0 S3"] {
            assert_eq!(kept_title(other), None, "{other}");
        }
    }
}
