//! IBM Db2: one process of threads a member, `db2sysc`, with its memory in System V segments.
//!
//! From IBM's documents of Db2 9.7 to 11.5: "Performance variables" for `DB2_LARGE_PAGE_MEM`, without which it asks for no huge
//! pages; "Enabling large page support" for what STMM makes of them; "Profile registry locations and authorization
//! requirements" for the files that keep it. That it does without where there are no huge pages is assumed, and no advice of
//! IBM's on THP was found. What `db2set -g` sets for all instances is in a file of Db2's own format and is not read.

use std::collections::BTreeMap;

use hugewise_host::Door;
use hugewise_host::capture::Forms;
use hugewise_host::capture::shape::Shape;
use hugewise_model::instance::{NextStart, Segment, SessionModel, Setting};
use hugewise_model::{Asked, Engine, Host, Instance, Observed, Process};

use crate::next::{self, Files};
use crate::start::Takes;
use crate::sysv::Mappers;
use crate::{Found, Kind, Scene, Start, Starter, ini, options, sysv};

/// The engine.
pub const DB2: Engine = Engine::called("db2");

/// IBM Db2.
pub static KIND: Kind = Kind {
    engine: DB2,
    names: &[(DB2, "IBM Db2")],
    tried: false,
    programs: &[PROGRAM],
    find,
    // The instance owner that IBM's guides and its installation name.
    accounts: &["db2inst1"],
    settings: &[LARGE_PAGES],
    texts: &[(LARGE_PAGES, Shape::Words(REGIONS))],
    companions: &["db2wdog", "db2fmcd", "db2start"],
    forms: Forms { title: Some(kept_title), ..Forms::NONE },
    reads_home: true,
    start: Start { takes: |_| Takes::Segments, only_shm: true, ..Start::PLAIN },
    only_by_settings: true,
    asks_by: "DB2_LARGE_PAGE_MEM=DB",
    ask: |_, instance, _| {
        let owner = &instance.owner;
        vec![
            format!("# as {owner}: db2set DB2_LARGE_PAGE_MEM=DB"),
            format!("# as {owner}: set a fixed size for DATABASE_MEMORY, which STMM does not tune on large pages"),
        ]
    },
    starter: Some(Starter {
        whose: "Db2's own commands have to do it",
        by: "its own tools",
        how: |_, instance| vec![format!("# as {}: db2stop, then db2start", instance.owner)],
        limits: |_, _| None,
        agent: |_, _| None,
    }),
    ..Kind::PLAIN
};

const PROGRAM: &str = "db2sysc";

const LARGE_PAGES: &str = "db2_large_page_mem";

/// The regions of memory that `DB2_LARGE_PAGE_MEM` may name, between commas; `*` is all of them.
const REGIONS: &[&str] = &["*", "db", "dbms", "fcm", "appl", "private"];

fn wanted(_: &str, name: &str) -> bool {
    name == LARGE_PAGES
}

/// `db2sysc 1`: the number of a member.
fn member(process: &Process) -> u32 {
    let words = process.command.known().map(|words| words.join(" ")).unwrap_or_default();
    words.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// A member's title, and nothing else that may stand there.
fn kept_title(word: &str) -> Option<String> {
    let (program, number) = word.split_once(' ')?;
    let number: u32 = number.trim().parse().ok()?;
    (program == PROGRAM).then(|| format!("{PROGRAM} {number}"))
}

/// Where its program cannot be read, its title begins with the name.
fn is_member(process: &Process) -> bool {
    options::program(process).split(' ').next() == Some(PROGRAM)
}

fn find(scene: &Scene<'_>, found: &mut Found) {
    let all = scene.host.processes.known().into_iter().flatten();
    let members: Vec<_> = all.filter(|process| is_member(process)).collect();
    if members.is_empty() {
        return;
    }
    let mappers = Mappers::of(scene.host);
    let mut of_user = BTreeMap::<u32, usize>::new();
    for process in &members {
        *of_user.entry(process.uid).or_default() += 1;
    }
    for process in members {
        let alone = of_user.get(&process.uid) == Some(&1);
        instance(scene, found, process, &mappers, alone);
    }
}

/// An instance is named after its owner; further members have their number.
fn instance(scene: &Scene<'_>, found: &mut Found, main: &Process, mappers: &Mappers<'_>, alone: bool) {
    let host = scene.host;
    let owner = host.accounts.user_name(main.uid);
    let name = match member(main) {
        0 => owner,
        number => format!("{owner} member {number}"),
    };
    let beside = mappers.beside(host, main);
    let belongs = |other: &&Process| sysv::same_place(main, other) && !is_member(other);
    let pids = beside.into_values().filter(belongs).map(|other| other.pid).collect();

    let mut instance = scene.instance(DB2, name, main, pids);
    let (settings, complete) = registry(scene, found, main);
    instance.settings = settings;
    instance.version = version(main).into();
    instance.session_model = SessionModel::Threads;
    let setting = instance.settings.get(LARGE_PAGES).cloned();
    let measured = sysv::measured(host, main, &instance.pids, alone);
    sysv::describe(scene, &mut instance, of_regions(measured, setting.as_ref()));
    instance.asked = match &setting {
        Some(setting) => asked(&setting.value),
        // What its files do not say was said for all instances, or before they were changed.
        None if sysv::is_on_huge_pages(&instance) => Asked::Try,
        None if complete => Asked::No,
        None => Asked::Unknown,
    };
    instance.setting = setting.clone();
    instance.next = next(&instance, setting, complete);
    found.add(instance);
}

fn next(instance: &Instance, setting: Option<Setting>, complete: bool) -> Observed<NextStart> {
    if !complete && instance.asked == Asked::Unknown {
        return Observed::Malformed("not all of its profile registry can be read".into());
    }
    next::start(instance, Files { asked: instance.asked, setting, page: None, size: None })
}

/// `DB`, `DB,DBMS`, `*`: it does without where there are no large pages. An empty value sets nothing.
fn asked(value: &str) -> Asked {
    let known = |region: &str| REGIONS.iter().any(|known| region.trim().eq_ignore_ascii_case(known));
    match value.trim() {
        "" => Asked::No,
        regions if regions.split(',').all(known) => Asked::Try,
        _ => Asked::Unknown,
    }
}

/// The segments that are to be on huge pages. Where not all regions are, those of the others stay on base pages: what is smaller
/// than all that is on huge pages is taken for theirs.
fn of_regions(measured: Vec<Segment>, setting: Option<&Setting>) -> Vec<Segment> {
    let all = setting.is_some_and(|setting| setting.value.contains('*'));
    let huge = measured.iter().filter(|segment| segment.huge.get() == Some(true));
    match huge.map(|segment| segment.size).min().filter(|_| !all) {
        Some(least) => measured.into_iter().filter(|segment| segment.size >= least).collect(),
        None => measured,
    }
}

/// The instance's registry, and over it that of the member; whether all of it could be read.
fn registry(scene: &Scene<'_>, found: &mut Found, main: &Process) -> (BTreeMap<String, Setting>, bool) {
    let mut settings = BTreeMap::new();
    // The accounts of the host say nothing of a home inside a container.
    if options::sees_other_files(scene.host, main) {
        return (settings, false);
    }
    let Some(sqllib) = sqllib(scene.host, main) else { return (settings, false) };
    let own = scene.files_of(main);
    let mut door = Door::new(&own);
    let files = [format!("{sqllib}/profile.env"), format!("{sqllib}/nodes/{}.env", member(main))];
    for file in &files {
        ini::add(&mut settings, &mut door, file, wanted);
    }
    let complete = door.unread.is_empty();
    found.add_unread(main, door.unread);
    (settings, complete)
}

/// `sqllib` in the home folder of the instance's owner.
fn sqllib(host: &Host, main: &Process) -> Option<String> {
    let home = host.accounts.users.get(&main.uid)?.home.as_deref().filter(|home| home.starts_with('/'))?;
    Some(format!("{}/sqllib", home.trim_end_matches('/')))
}

/// `11.5` of `/opt/ibm/db2/V11.5/adm/db2sysc`.
fn version(main: &Process) -> Option<String> {
    let path = main.executable.known()?;
    path.split('/').rev().find_map(|part| {
        let version = part.strip_prefix('V')?;
        let number = |text: &str| !text.is_empty() && text.len() <= 5 && text.bytes().all(|sign| sign.is_ascii_digit());
        (version.contains('.') && version.split('.').all(number)).then(|| version.to_owned())
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

    fn found(processes: Vec<Process>, source: &MapSource) -> Found {
        let mut host = Host {
            base_page: Observed::Known(PageSize::KIB_4),
            default_huge_page: Observed::Known(PageSize::MIB_2),
            processes: testing::known(processes),
            ..Host::default()
        };
        let user = User { name: "db2inst1".into(), gid: 999, home: Some("/home/db2inst1".into()) };
        host.accounts.users.insert(1001, user);
        let mut found = Found::default();
        find(&Scene::new(&host, source), &mut found);
        found
    }

    fn memory(page: PageSize) -> Vec<Mapping> {
        vec![segment(1, 8192, page), segment(2, 80, PageSize::KIB_4), segment(3, 200, PageSize::KIB_4)]
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
        let seen: Vec<_> = found.instances.iter().map(|it| (it.name.as_str(), it.pids.clone())).collect();
        assert_eq!(seen, [("db2inst1", vec![10, 11, 12]), ("db2inst1 member 1", vec![13])]);
        let one = &found.instances[0];
        assert_eq!((one.asked, one.huge_pages), (Asked::No, HugePageUse::None));
        assert_eq!(one.version, Observed::Known("11.5".into()));
        // 4,096, 40 and 100 pages.
        assert_eq!(one.demand.as_ref().map(|demand| demand.pages), Some(PageCount(4236)));
    }

    #[test]
    fn its_registry_says_whether_it_asks() {
        let asked = |source: &MapSource| {
            let found = found(vec![process(11, "db2sysc", "db2sysc 0", memory(PageSize::KIB_4))], source);
            found.instances[0].asked
        };
        let profile = |line: &str| MapSource::new().file(PROFILE, format!("DB2COMM='TCPIP'\n{line}\n"));
        assert_eq!(asked(&profile("DB2_LARGE_PAGE_MEM='DB'")), Asked::Try);
        assert_eq!(asked(&profile("DB2_LARGE_PAGE_MEM='DB,DBMS'")), Asked::Try);
        assert_eq!(asked(&profile("DB2_LARGE_PAGE_MEM=*")), Asked::Try);
        assert_eq!(asked(&profile("DB2_LARGE_PAGE_MEM='S3cret'")), Asked::Unknown);
        assert_eq!(asked(&profile("DB2_LARGE_PAGE_MEM=''")), Asked::No);
        assert_eq!(asked(&profile("")), Asked::No);
        let member = profile("").file("/home/db2inst1/sqllib/nodes/0.env", "DB2_LARGE_PAGE_MEM='DB'\n");
        assert_eq!(asked(&member), Asked::Try);
        assert_eq!(asked(&MapSource::new().denied(PROFILE)), Asked::Unknown);
    }

    #[test]
    fn what_the_other_regions_have_stays_on_base_pages() {
        let of = |value: &str| {
            let source = MapSource::new().file(PROFILE, format!("DB2_LARGE_PAGE_MEM='{value}'\n"));
            let found = found(vec![process(11, "db2sysc", "db2sysc 0", memory(PageSize::MIB_2))], &source);
            let one = &found.instances[0];
            (one.huge_pages, one.segments.iter().map(|segment| segment.size).collect::<Vec<_>>())
        };
        assert_eq!(of("DB"), (HugePageUse::All, vec![Bytes::from_gib(8)]));
        assert_eq!(of("*").0, HugePageUse::Partly);
    }

    #[test]
    fn what_runs_on_huge_pages_has_asked_for_them() {
        let found = found(vec![process(11, "db2sysc", "db2sysc 0", memory(PageSize::MIB_2))], &MapSource::new());
        assert_eq!((found.instances[0].asked, found.instances[0].next.is_absent()), (Asked::Try, true));
    }

    #[test]
    fn of_a_title_the_member_is_kept() {
        for title in ["db2sysc 0", "db2sysc 12"] {
            let kept = kept_title(title).unwrap();
            assert_eq!(kept, title);
            assert_eq!(
                member(&process(1, PROGRAM, &kept, Vec::new())),
                member(&process(1, PROGRAM, title, Vec::new()))
            );
        }
        for other in ["db2sysc S3", "db2sysc", "db2fmp 0", "db2sysc 0 S3"] {
            assert_eq!(kept_title(other), None, "{other}");
        }
    }
}
