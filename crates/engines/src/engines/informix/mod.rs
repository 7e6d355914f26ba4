//! IBM and HCL Informix: virtual processors, all called `oninit`, around System V segments.
//!
//! From the vendors' documents of 12.10 and 14.10: "IFX_LARGE_PAGES environment variable" and
//! "RESIDENT configuration parameter". On Linux it tries large pages for the segments that it
//! locks, unless that variable is 0, and goes without where there are too few; the environment is
//! not read. The vendors give no advice on THP.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_host::capture::shape::ValueShape;
use hugewise_host::{FactReader, ParseError};
use hugewise_model::configuration::FileLocation;
use hugewise_model::host::SysvSegment;
use hugewise_model::instance::{NextStart, Segment, ServerSetting, SessionModel};
use hugewise_model::{Engine, Host, HugePageMode, Instance, Observed, Process, Reason};

use crate::shared::kind::{CaptureRules, Recognition, RestartBehavior, SettingAdvice};
use crate::shared::next_start::{self, NextStartFiles};
use crate::shared::settings::{new_setting, redacted_setting};
use crate::shared::sysv::Mappers;
use crate::shared::{ini, options, sysv, versions};
use crate::{EngineContext, EngineKind, FoundInstances, StartBehavior, each_known};

/// Informix.
pub const INFORMIX: Engine = Engine::from_name("informix");

pub(crate) static KIND: EngineKind = EngineKind {
    engine: INFORMIX,
    names: &[(INFORMIX, "Informix")],
    tried: false,
    recognition: Recognition {
        programs: &[PROGRAM],
        find_running: find_informix_instances,
        accounts: &["informix"],
        ..Recognition::PLAIN
    },
    capture: CaptureRules {
        settings: SETTINGS,
        value_shapes: &[("dbservername", ValueShape::Names)],
        ..CaptureRules::PLAIN
    },
    start: StartBehavior::SYSTEM_V,
    restart: RestartBehavior::by_own_tools(
        "Informix's own commands have to do it",
        |_, instance| {
            vec![format!(
                "# as informix, in the environment of {}: onmode -ky, then oninit",
                instance.name
            )]
        },
    ),
    settings: SettingAdvice {
        only_by_settings: true,
        asks_by: "RESIDENT=-1",
        commands: |_, instance, _| {
            let place = instance.setting.as_ref().and_then(|setting| setting.place.as_ref());
            let file = place.map_or_else(|| "its onconfig file".to_owned(), ToString::to_string);
            vec![
                format!("# in {file}: RESIDENT -1"),
                "# in the environment of oninit: no IFX_LARGE_PAGES, or IFX_LARGE_PAGES=1"
                    .to_owned(),
            ]
        },
        ..SettingAdvice::PLAIN
    },
    ..EngineKind::PLAIN
};

const PROGRAM: &str = "oninit";
/// None of these is a secret.
const SETTINGS: &[&str] = &["resident", "dbservername", "servernum", "shmvirtsize", "shmtotal"];
const DEFAULT_RESIDENT: &str = "0";

fn is_server(process: &Process) -> bool {
    options::program_name(process) == PROGRAM
}

/// The first virtual processor starts the others.
fn find_informix_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    let host = scene.host;
    let servers: Vec<_> =
        each_known(&host.processes).filter(|process| is_server(process)).collect();
    if servers.is_empty() {
        return;
    }
    let is_first = |process: &Process| !scene.parent_of(process).is_some_and(is_server);
    let mut children = BTreeMap::<u32, Vec<u32>>::new();
    let mut of_folder = BTreeMap::<Option<&str>, usize>::new();
    for process in &servers {
        children.entry(process.parent).or_default().push(process.pid);
        *of_folder.entry(install_folder(process)).or_default() += usize::from(is_first(process));
    }
    let mappers = Mappers::new(host);
    for main in servers.iter().filter(|process| is_first(process)) {
        if found.has_process(main.pid) {
            continue;
        }
        let mut pids = mappers.sharing_pids(host, main, |other| is_server(other));
        pids.extend(children.get(&main.pid).into_iter().flatten());
        add_instance(scene, found, main, pids, of_folder.get(&install_folder(main)) == Some(&1));
    }
}

/// `INFORMIXDIR`: `/opt/informix` of `/opt/informix/bin/oninit`.
fn install_folder(process: &Process) -> Option<&str> {
    let path = options::as_process_names(process, process.executable.as_known()?);
    path.trim_end_matches(" (deleted)").strip_suffix("/bin/oninit")
}

fn add_instance(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    main: &Process,
    pids: Vec<u32>,
    only: bool,
) {
    let host: &Host = scene.host;
    let (settings, complete) = read_configuration(scene, found, main, only);
    let name =
        settings.get("dbservername").map_or(PROGRAM, |setting| setting.value.as_str()).to_owned();
    let maker = made_by_root(host, main, &pids).unwrap_or(main);
    let mut instance = scene.new_instance(INFORMIX, name, maker, pids);
    instance.version = install_folder(main).and_then(versions::in_path).into();
    instance.settings = settings;
    instance.session_model = SessionModel::Threads;
    let setting = instance.settings.get("resident").cloned();
    let by_default = || new_setting("RESIDENT", DEFAULT_RESIDENT, None);
    let setting = setting.or_else(|| complete.then(by_default));
    let segments = sysv::measure_segments(host, main, &instance.pids, only);
    sysv::describe_segments(scene, &mut instance, locked_segments(segments, setting.as_ref()));
    instance.asked = match &setting {
        Some(setting) => parse_resident_request(&setting.value),
        None if sysv::is_on_huge_pages(&instance) => HugePageMode::Try,
        None => HugePageMode::Unknown,
    };
    instance.setting = setting.clone();
    instance.next = predict_next_start(&instance, setting);
    found.add(instance);
}

/// Its first virtual processor of root, where all its segments are root's: it made them.
fn made_by_root<'a>(host: &'a Host, main: &Process, pids: &[u32]) -> Option<&'a Process> {
    let own = sysv::segment_identities(host, main);
    let listed = host.sysv_segments.as_known()?.iter();
    let is_own = |listed: &&SysvSegment| own.iter().any(|segment| segment.1 == listed.id);
    let owners: BTreeSet<u32> = listed.filter(is_own).map(|segment| segment.uid).collect();
    let processes =
        pids.iter().filter_map(|pid| host.find_process(*pid)).filter(|process| process.uid == 0);
    processes.min_by_key(|process| process.pid).filter(|_| owners.len() == 1 && owners.contains(&0))
}

fn predict_next_start(instance: &Instance, setting: Option<ServerSetting>) -> Observed<NextStart> {
    if instance.asked == HugePageMode::Unknown {
        return Observed::Malformed("its onconfig file is not known, or cannot be read".into());
    }
    next_start::predict_from_files(
        instance,
        NextStartFiles { asked: instance.asked, setting, page: None, size: None },
    )
}

/// `0` locks no segment, `-1` all, `1` to `99` so many; locked ones are tried on large pages.
fn parse_resident_request(resident: &str) -> HugePageMode {
    match resident.parse::<i64>() {
        Ok(0) => HugePageMode::No,
        Ok(-1..=99) => HugePageMode::Try,
        _ => HugePageMode::Unknown,
    }
}

fn locked_segments(segments: Vec<Segment>, setting: Option<&ServerSetting>) -> Vec<Segment> {
    let all = setting.is_some_and(|setting| setting.value == "-1");
    let huge = |segment: &Segment| segment.huge.get() == Some(true);
    if all || !segments.iter().any(huge) {
        return segments;
    }
    segments.into_iter().filter(huge).collect()
}

/// What its onconfig file says, and whether that is known. `ONCONFIG` in the environment names the
/// file: with several files or several servers of one folder nobody else knows it.
fn read_configuration(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    main: &Process,
    only: bool,
) -> (BTreeMap<String, ServerSetting>, bool) {
    let mut settings = BTreeMap::new();
    let Some(folder) = install_folder(main).filter(|_| only) else { return (settings, false) };
    let own = scene.files_of(main);
    let mut facts = FactReader::new(&own);
    let folder = options::as_reader_opens(scene.host, main, &format!("{folder}/etc"));
    let mut path = format!("{folder}/onconfig");
    let mut read = facts.parse(&path, parse);
    if read.is_absent() {
        let names = facts.list_folder(&folder).into_known().unwrap_or_default();
        let named = |name: &&String| name.starts_with("onconfig.") && *name != "onconfig.std";
        let named: BTreeSet<&String> = names.iter().filter(named).collect();
        if let (Some(name), 1) = (named.first(), named.len()) {
            path = format!("{folder}/{name}");
            read = facts.parse(&path, parse);
        }
    }
    if read.is_absent() {
        let why = format!(
            "no onconfig in {folder}, and not exactly one onconfig.NAME; ONCONFIG in its \
             environment names it"
        );
        facts.report_unread("parameters of informix".to_owned(), Reason::from_text(why));
    }
    found.add_unread(main, facts.unread);
    let known = read.is_known();
    for (name, value, line) in read.into_known().unwrap_or_default() {
        let place = Some(FileLocation { file: path.clone(), line });
        let setting = redacted_setting(&name, &value, place);
        let written = name.to_ascii_uppercase();
        settings.insert(name, ServerSetting { name: written, ..setting });
    }
    (settings, known)
}

/// The known settings of `NAME value` lines with comments, by name in lower case, with their lines.
/// # Errors
/// The file has zero bytes in it.
pub fn parse(bytes: &[u8]) -> Result<Vec<(String, String, u64)>, ParseError> {
    let text = ini::config_text(bytes)?;
    let setting = |(number, line): (u64, &str)| {
        let mut words = line.split('#').next()?.split_whitespace();
        let name = words.next()?.to_ascii_lowercase();
        SETTINGS
            .contains(&name.as_str())
            .then(|| (name, words.next().unwrap_or_default().to_owned(), number))
    };
    Ok((1..).zip(text.lines()).filter_map(setting).collect())
}

#[cfg(test)]
mod tests {
    use hugewise_host::source::map::MapSource;
    use hugewise_model::host::SysvSegment;
    use hugewise_model::{Bytes, HugePageUse, Mapping, PageCount, PageSize};
    use proptest::prelude::*;

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
            name: "/SYSV52564801 (deleted)".into(),
            page_size: Observed::Known(page),
        }
    }

    fn oninit(pid: u32, parent: u32, page: PageSize) -> Process {
        Process {
            pid,
            parent,
            uid: if parent == 1 { 200 } else { 0 },
            name: "oninit".into(),
            executable: Observed::Known("/opt/informix/14.10/bin/oninit".into()),
            mappings: Observed::Known(vec![
                segment(1, 100, page),
                segment(2, 1024, PageSize::KIB_4),
            ]),
            ..Process::default()
        }
    }

    fn found(processes: Vec<Process>, source: &MapSource) -> FoundInstances {
        let host = Host {
            base_page: Observed::Known(PageSize::KIB_4),
            default_huge_page: Observed::Known(PageSize::MIB_2),
            processes: testing::known(processes),
            ..Host::default()
        };
        let mut found = FoundInstances::default();
        find_informix_instances(&EngineContext::new(&host, source), &mut found);
        found
    }

    fn one(page: PageSize, source: &MapSource) -> Instance {
        let mut all =
            found(vec![oninit(10, 1, page), oninit(11, 10, page), oninit(12, 10, page)], source);
        assert_eq!(all.instances.len(), 1);
        all.instances.remove(0)
    }

    const ONCONFIG: &str = "/opt/informix/14.10/etc/onconfig";

    /// "RESIDENT configuration parameter": 0 is off, 1 the resident segment, -1 all segments.
    #[test]
    fn the_segments_that_are_locked_are_tried_on_huge_pages() {
        let with = |resident: &str, page| {
            let text =
                format!("# S3\nDBSERVERNAME ol_db7 # main\nRESIDENT {resident}\nROOTPATH /S3\n");
            one(page, &MapSource::new().with_file(ONCONFIG, text))
        };
        let off = with("0", PageSize::KIB_4);
        assert_eq!(
            (off.name.as_str(), off.asked, off.pids.as_slice()),
            ("ol_db7", HugePageMode::No, &[10, 11, 12][..])
        );
        assert_eq!(off.setting.unwrap().to_string(), format!("RESIDENT=0 ({ONCONFIG}:3)"));
        assert_eq!(off.demand.map(|demand| demand.pages), Some(PageCount(562)));
        assert_eq!(off.version, Observed::Known("14.10".into()));
        let resident = with("1", PageSize::MIB_2);
        assert_eq!((resident.asked, resident.huge_pages), (HugePageMode::Try, HugePageUse::All));
        assert_eq!(resident.demand.map(|demand| demand.pages), Some(PageCount(50)));
        assert_eq!(with("-1", PageSize::MIB_2).huge_pages, HugePageUse::Partly);
        assert_eq!(with("x", PageSize::KIB_4).asked, HugePageMode::Unknown);
    }

    #[test]
    fn the_file_is_told_where_it_is_the_only_one() {
        let named = |names: &[&str]| {
            let text = "RESIDENT -1\n";
            let file = |source: MapSource, name: &&str| {
                source.with_file(&format!("/opt/informix/14.10/etc/{name}"), text)
            };
            one(PageSize::KIB_4, &names.iter().fold(MapSource::new(), file)).asked
        };
        assert_eq!(named(&["onconfig.std", "onconfig.prod"]), HugePageMode::Try);
        assert_eq!(named(&["onconfig.test", "onconfig.prod"]), HugePageMode::Unknown);
        assert_eq!(named(&["onconfig"]), HugePageMode::Try);
        let found = found(vec![oninit(10, 1, PageSize::KIB_4)], &MapSource::new());
        assert_eq!(found.unread[0].what, "parameters of informix");
    }

    #[test]
    fn segments_of_roots_were_made_with_its_rights() {
        let listed = |uid| {
            let segment = |id| SysvSegment {
                id,
                key: 0,
                mode: 0o660,
                size: Bytes::from_mib(100),
                creator: 10,
                attached: 3,
                uid,
                gid: 200,
                rss: Observed::Absent,
                swap: Observed::Absent,
            };
            let host = Host {
                processes: testing::known([
                    oninit(10, 1, PageSize::KIB_4),
                    oninit(11, 10, PageSize::KIB_4),
                ]),
                sysv_segments: Observed::Known(vec![segment(1), segment(2)]),
                ..Host::default()
            };
            let mut found = FoundInstances::default();
            find_informix_instances(&EngineContext::new(&host, &MapSource::new()), &mut found);
            (found.instances[0].pid, found.instances[0].pids.clone())
        };
        assert_eq!(listed(0), (11, vec![10, 11]));
        assert_eq!(listed(200), (10, vec![10, 11]));
    }

    #[test]
    fn what_is_absent_from_the_file_is_off() {
        let one = one(PageSize::KIB_4, &MapSource::new().with_file(ONCONFIG, "SERVERNUM 1\n"));
        assert_eq!((one.asked, one.name.as_str()), (HugePageMode::No, "oninit"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
