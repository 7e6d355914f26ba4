//! Oracle Database, ASM and the management database.
//!
//! An instance is known by its process monitor, `<prefix>_pmon_<SID>`: `ora_`, since 23ai `db_`, for ASM `asm_`, for the
//! management database `mdb_`, for the ASM proxy `apx_`. Its dedicated servers are called `oracle<SID>`.

mod asleep;
mod demand;
mod described;
mod homes;
mod kept;
pub(crate) mod last_start;
mod log;
mod log_block;
mod log_lines;
mod log_table;
mod messages;
mod open_files;
pub mod parameters;
mod releases;
mod remedy;
mod starter;
mod work;

use hugewise_host::capture::shape::Shape;
use hugewise_host::{Door, Source};
use hugewise_model::configuration::Place;
use hugewise_model::instance::{Mechanism, NextStart, Segment, SegmentKind, SessionModel, Setting, Startup, Trait};
use hugewise_model::{
    Asked, Bytes, Engine, Host, HugePageUse, Instance, Mapping, Observed, PageCount, PageSize, Process, Reason,
};

use crate::next::{self, Files, Size};
use crate::settings::shown;
use crate::{By, Found, Kind, Scene, Start, options, segments, touched};
use homes::Home;
use last_start::LastStart;
use parameters::Assignment;
use releases::Release;

/// Oracle.
pub static KIND: Kind = Kind {
    engine: Engine::Oracle,
    names: &[(Engine::Oracle, "Oracle")],
    tried: false,
    programs: &["oracle"],
    find,
    asleep: asleep::asleep,
    services: &["dbora", "oracle"],
    // Those of Clusterware tell a database that is started by it, and with which limits.
    companions: &[asleep::LAUNCHER, "ohasd.bin", "crsd.bin", "oraagent.bin"],
    forms: kept::FORMS,
    accounts: &["oracle", "grid"],
    folder_of_account: homes::of_sap_account,
    settings: SETTINGS,
    describe: Some((By::Sizes(&described::SIZES), described::describe)),
    program_of_main: Some("oracle"),
    texts: &[
        ("spfile", Shape::Path),
        ("ifile", Shape::Path),
        ("oracle_home", Shape::Path),
        ("diagnostic_dest", Shape::Path),
    ],
    mappings: &["/dev/shm/ora_"],
    log_format: Some(&log::FORMAT),
    messages: messages::MESSAGES,
    start: Start {
        takes: |instance| Release::of(instance).takes(),
        refuses: releases::refuses,
        // A pool drained to the last page has made a clean shutdown fail.
        spare: PageCount(2),
        minds_memlock: true,
        only_shm: true,
        // AUTO starts with what there is where the pool could not be raised; AUTO_ONLY does not start then.
        raises_or_fails: |setting| setting.value.eq_ignore_ascii_case("AUTO_ONLY"),
        not_with_default: Some(PageSize::GIB_1),
        ..Start::PLAIN
    },
    // A login to 11g and its sqlplus added 530 kB, on huge pages (Ronny Egner, "MEMORY_TARGET (SGA_TARGET) or HugePages": from
    // 27,112 kB to 80,096 kB for 100 of them). How it falls to the two is not known: all counts, so that no host is promised more
    // than it has.
    process_tables: Bytes::from_kib(530),
    touches_all: releases::touches_all,
    locks_all: releases::locks_all,
    private_piece: work::piece,
    against_gib_pages: Some("Oracle recommends 2 MiB pages for the SGA"),
    only_by_settings: true,
    counts_sessions: true,
    fewer_sessions: "fewer connections in each client's own pool; or shared servers (SHARED_SERVERS), or database resident \
                     connection pooling (DBMS_CONNECTION_POOL, from 11.1 on)",
    asks_by: "use_large_pages=TRUE",
    insists_by: Some("use_large_pages=ONLY"),
    // An ASM that refuses to start keeps every database of its node down; the management database is Clusterware's own.
    can_insist: |instance| {
        let of_clusterware = [Trait::Asm, Trait::Gimr].iter().any(|it| instance.traits.contains(it));
        Release::of(instance).has_parameter() && !of_clusterware
    },
    starter: Some(starter::STARTER),
    thp_in_words: Some(
        "never up to 18c and on UEK before UEK7; from 19c on, madvise on UEK7 and newer (Oracle Database installation guides for \
         Linux, 12.2 to 23ai)",
    ),
    thp: |host, instance| Ok(Some(releases::thp(host, instance))),
    can_by: Some("sga_target instead of memory_target"),
    can_how: Some(remedy::off_amm),
    proposal: remedy::proposal,
    ask: remedy::ask,
    work_memory: work::memory,
    logs,
    ..Kind::PLAIN
};

const SETTINGS: &[&str] = &[
    "use_large_pages",
    "sga_target",
    "sga_max_size",
    "memory_target",
    "memory_max_target",
    "pga_aggregate_target",
    "pga_aggregate_limit",
    "processes",
    "sessions",
    "pre_page_sga",
    "lock_sga",
    "db_cache_size",
    "shared_pool_size",
    "_enable_numa_support",
    "_realfree_heap_pagesize",
    "_realfree_heap_pagesize_hint",
    "diagnostic_dest",
    "spfile",
    "ifile",
];

/// Smaller segments hold no part of the SGA worth a huge page.
const SMALLEST: Bytes = Bytes::from_mib(1);

/// An SGA in System V segments has one of a granule at least (MOS 947152.1).
const SMALLEST_GRANULE: Bytes = Bytes::from_mib(4);

/// Parameter files that include each other further than this are in a loop.
const DEEPEST_INCLUDE: usize = 8;

fn find(scene: &Scene<'_>, found: &mut Found) {
    for process in scene.host.processes.known().into_iter().flatten() {
        // A copy that the process monitor made of itself belongs to it already.
        let monitor = Title::of(process).filter(|title| title.task == "pmon" && !found.has_process(process.pid));
        if let Some(title) = monitor {
            instance(scene, found, process, &title);
        }
    }
}

/// `ora_pmon_PROD` in its parts. A SID may hold underscores, a task's name does not.
#[derive(Debug, PartialEq, Eq)]
struct Title<'a> {
    prefix: &'a str,
    task: &'a str,
    sid: &'a str,
}

impl<'a> Title<'a> {
    fn of(process: &'a Process) -> Option<Self> {
        Self::parse(title(process))
    }

    fn parse(title: &'a str) -> Option<Self> {
        let (prefix, rest) = title.split_once('_')?;
        let (task, sid) = rest.split_once('_')?;
        let word = |text: &str, longest| {
            (2..=longest).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '#');
        let bare = sid.strip_prefix(['+', '-']).unwrap_or(sid);
        let fits = word(prefix, 4) && word(task, 5) && !bare.is_empty() && bare.chars().all(plain);
        fits.then_some(Self { prefix, task, sid })
    }
}

/// What a process calls itself: its first argument, or where that is gone the kernel's 15 bytes of it.
fn title(process: &Process) -> &str {
    let first = process.command.known().and_then(|command| command.first());
    first.map(|first| first.trim_end()).filter(|first| !first.is_empty()).unwrap_or(&process.name)
}

fn instance(scene: &Scene<'_>, found: &mut Found, pmon: &Process, of: &Title<'_>) {
    let host = scene.host;
    let mapped = shared_by(host, pmon);
    let mut pids = Vec::new();
    let (mut sessions, mut shared) = (0_u64, 0_u64);
    for process in host.processes.known().into_iter().flatten().filter(|process| same_place(pmon, process)) {
        let title = title(process);
        let server = is_server_of(title, of.sid);
        // Of hundreds of sessions each is told by its title.
        let belongs = || {
            let told = Title::parse(title);
            let background = told.as_ref().is_some_and(|told| told.sid == of.sid && told.prefix == of.prefix);
            let other_instance = told.is_some_and(|told| told.task == "pmon" && told.sid != of.sid);
            background
                || (!other_instance && shared_by(host, process).iter().any(|it| mapped.binary_search(it).is_ok()))
        };
        if server || belongs() {
            pids.push(process.pid);
            sessions = sessions.saturating_add(u64::from(server));
            shared = shared.saturating_add(u64::from(is_shared_server(title, of)));
        }
    }

    let mut instance = scene.instance(Engine::Oracle, of.sid.to_owned(), pmon, pids);
    let mut parameters = Parameters::default();
    let mut seen = None;
    let executable = pmon.executable.known().map(|path| options::as_process_names(pmon, path));
    let executable = executable.map(|path| path.trim_end_matches(" (deleted)"));
    if let Some(home) = executable.and_then(|path| path.strip_suffix("/bin/oracle")) {
        instance.version = homes::version(home).into();
        let place = Some(Place { file: format!("/proc/{}/exe", pmon.pid), line: 0 });
        let setting = Setting { name: "oracle_home".into(), value: home.to_owned(), place };
        instance.settings.insert("oracle_home".into(), setting);
        let inside = options::as_reader_opens(scene.host, pmon, home);
        let root = inside.strip_suffix(home).unwrap_or_default().to_owned();
        let files = scene.files_of(pmon);
        let software = Home::read(&files, &root, home);
        parameters = Parameters::read(scene, found, pmon, &software.dbs(), of.sid);
        if !parameters.complete {
            let kind = if of.sid.starts_with('+') { "asm" } else { "rdbms" };
            let told = parameters.destination(of.sid).is_some();
            seen = if told { None } else { open_files::of(host, scene.source, &instance, kind) };
            let look = || {
                let set = seen.as_ref().map(|seen| seen.value.as_str());
                let logs = software.alert_logs(&files, &root, kind, of.sid, parameters.destination(of.sid).or(set));
                last_start::read(&scene.logs_of(pmon), &root, &logs)
            };
            let start = match scene.files {
                Some(files) => files.last_starts.of(pmon.identity, look),
                None => look(),
            };
            start.into_iter().for_each(|start| parameters.take_last_start(start));
        }
    }
    for name in SETTINGS {
        if let Some((file, one)) = parameters.effective(of.sid, name) {
            let place = Some(Place { file: file.to_owned(), line: one.line });
            let setting = Setting { name: (*name).to_owned(), value: shown(name, &one.value).to_owned(), place };
            instance.settings.insert((*name).to_owned(), setting);
        }
    }
    // Where its files do not say it, what it writes to does.
    seen.into_iter().for_each(|seen| _ = instance.settings.entry(seen.name.clone()).or_insert(seen));

    instance.segments = if pmon.mappings.is_absent() {
        touched::sysv_segments(host, &instance.pids, pmon.uid, runs_alone(host, pmon))
    } else {
        sga(host, &instance.pids, &mapped)
    };
    instance.huge_pages = huge_page_use(&instance.segments);
    instance.traits = traits(&instance, of);
    (instance.asked, instance.setting) = asked(&instance, parameters.complete || parameters.last_start.is_some());
    if let (Some(source), Some(setting)) = (&parameters.last_start, &mut instance.setting) {
        setting.place.get_or_insert_with(|| Place { file: source.clone(), line: 0 });
    }
    instance.startup = refused_by_exadata(scene, &instance);
    instance.asked_page_size = host.default_huge_page.clone();
    if let Some(page) = host.default_huge_page.get().filter(|_| !instance.traits.contains(&Trait::Amm)) {
        (instance.demand, instance.beside) = segments::demands(&instance.segments, page);
    }
    instance.next = next(scene, &instance, parameters.complete);
    if parameters.complete {
        let then = Instance { segments: Vec::new(), beside: Vec::new(), demand: None, ..instance.clone() };
        let estimated = described::estimated(scene.host, &then).ok().flatten();
        // Its spare pages are nothing that it asks for.
        let least = |demand: hugewise_model::Demand| hugewise_model::Demand {
            pages: demand.pages.saturating_sub(demand::SPARE_PAGES),
            ..demand
        };
        let least = estimated.map(|(demand, _)| least(demand));
        // It writes its own parameter file at each start: that this was changed says nothing.
        instance.perhaps = next::perhaps(&instance, least.into_iter().collect(), false);
    }
    instance.mechanism = Mechanism::SysvShm;
    instance.session_model = SessionModel::Processes;
    // One alone is there by itself. More of them cost what sessions cost, however many clients they serve.
    let shared = if shared > 1 { shared } else { 0 };
    instance.sessions = Observed::Known(sessions.saturating_add(shared));
    instance.max_sessions = instance.setting_value("processes").and_then(|value| value.parse().ok()).into();
    found.add(instance);
}

/// What an Exadata database server would not start with; none anywhere else.
fn refused_by_exadata(scene: &Scene<'_>, instance: &Instance) -> Option<Startup> {
    if !releases::refused_on_exadata(instance) || scene.source.read(releases::CELLS).is_absent() {
        return None;
    }
    let setting = instance.settings.get("use_large_pages")?;
    Some(Startup::Refuses(format!("{setting}: on Exadata this release accepts only ONLY and AUTO_ONLY")))
}

/// Whether no other instance runs as the same user.
fn runs_alone(host: &Host, pmon: &Process) -> bool {
    let processes = host.processes.known().into_iter().flatten().filter(|process| process.uid == pmon.uid);
    processes.filter(|process| Title::of(process).is_some_and(|title| title.task == "pmon")).count() == 1
}

/// Of the large segments, where there are any: the few KiB of a key to the SGA are on base pages on purpose.
fn huge_page_use(segments: &[Segment]) -> HugePageUse {
    let large: Vec<Segment> = segments.iter().filter(|segment| segment.size >= SMALLEST).cloned().collect();
    segments::huge_page_use(if large.is_empty() { segments } else { &large })
}

/// Same user and same container: SIDs are unique within these.
fn same_place(pmon: &Process, process: &Process) -> bool {
    let same = |one: &Observed<u64>, other: &Observed<u64>| match (one.get(), other.get()) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    };
    let (ours, theirs) = (&pmon.namespaces, &process.namespaces);
    pmon.uid == process.uid && same(&ours.ipc, &theirs.ipc) && same(&ours.pid, &theirs.pid)
}

/// Dedicated servers: `oraclePROD (LOCAL=NO)`; servers of ASM's clients also name those: `oracle+ASM_asmb_prod`.
fn is_server_of(title: &str, sid: &str) -> bool {
    let Some(rest) = title.strip_prefix("oracle").and_then(|rest| rest.strip_prefix(sid)) else { return false };
    rest.is_empty() || rest.starts_with([' ', '(']) || (sid.starts_with('+') && rest.starts_with('_'))
}

/// Shared servers: `ora_s000_PROD`.
fn is_shared_server(title: &str, of: &Title<'_>) -> bool {
    let told = Title::parse(title).filter(|told| told.sid == of.sid && told.prefix == of.prefix);
    let number = told.and_then(|told| told.task.strip_prefix('s'));
    number.is_some_and(|number| number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_sga(mapping: &Mapping) -> bool {
    mapping.shared && (mapping.name.starts_with("/SYSV") || is_amm(&mapping.name))
}

/// The files that automatic memory management keeps its granules in, and from 12.2 on the managed global area, which is private
/// memory that processes share.
fn is_amm(name: &str) -> bool {
    name.starts_with("/dev/shm/ora_")
}

/// Identities of a process's pieces of an SGA.
fn shared_by(host: &Host, process: &Process) -> Vec<(u64, u64)> {
    let mappings = process.mappings.known().into_iter().flatten().filter(|mapping| is_sga(mapping));
    let mut identities: Vec<_> = mappings.map(|mapping| segments::identity(host, process, mapping)).collect();
    identities.sort_unstable();
    identities.dedup();
    identities
}

/// The segments that the process monitor maps; the many files of automatic memory management as one.
fn sga(host: &Host, pids: &[u32], mapped: &[(u64, u64)]) -> Vec<Segment> {
    let ours = |process: &Process, mapping: &Mapping| {
        is_sga(mapping) && mapped.binary_search(&segments::identity(host, process, mapping)).is_ok()
    };
    let all = segments::of(host, pids, ours);
    let (files, mut rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|segment| is_amm(&segment.name));
    // Beside an SGA in System V segments they are the managed global area, which is no part of it.
    let in_files = rest.iter().all(|segment| segment.size < SMALLEST_GRANULE);
    if let Some(largest) = files.first().filter(|_| in_files) {
        rest.push(Segment {
            kind: SegmentKind::Posix,
            name: "/dev/shm/ora_*".into(),
            size: files.iter().map(|file| file.size).sum(),
            mappers: files.iter().map(|file| file.mappers).max().unwrap_or_default(),
            page_size: host.base_page.clone(),
            // tmpfs has no hugetlb pages.
            huge: Observed::Known(false),
            identity: largest.identity,
        });
        rest.sort_by_key(|segment| std::cmp::Reverse(segment.size));
    }
    rest
}

fn traits(instance: &Instance, of: &Title<'_>) -> Vec<Trait> {
    let files = instance.segments.iter().any(|segment| segment.kind == SegmentKind::Posix);
    let measured = !instance.segments.is_empty();
    [
        // What is mapped says more than the file of the next start.
        (Trait::Amm, files || (!measured && asks_for_amm(instance))),
        (Trait::Asm, of.sid.starts_with("+A")),
        (Trait::Gimr, of.sid.eq_ignore_ascii_case("-MGMTDB")),
    ]
    .into_iter()
    .filter_map(|(name, has)| has.then_some(name))
    .collect()
}

/// Whether the parameters ask for automatic memory management.
fn asks_for_amm(instance: &Instance) -> bool {
    AMM.iter().any(|name| is_positive(instance, name))
}

/// The parameters that put an instance under automatic memory management, each by itself.
const AMM: [&str; 2] = ["memory_target", "memory_max_target"];

/// Whether a parameter is set to more than nothing.
fn is_positive(instance: &Instance, name: &str) -> bool {
    instance.setting_value(name).is_some_and(|value| value.starts_with(|c| ('1'..='9').contains(&c)))
}

/// `USE_LARGE_PAGES`, Oracle Database Reference 11.2 to 21c. TRUE by default; older servers have no such parameter and
/// try huge pages each time.
fn asked(instance: &Instance, complete: bool) -> (Asked, Option<Setting>) {
    if instance.traits.contains(&Trait::Amm) {
        let cause = ["memory_target", "memory_max_target"].iter().find_map(|name| instance.settings.get(*name));
        return (Asked::Cannot, cause.cloned());
    }
    if !Release::of(instance).has_parameter() {
        return (Asked::Try, None);
    }
    let Some(setting) = instance.settings.get("use_large_pages") else {
        let by_default = Setting { name: "use_large_pages".into(), value: "TRUE".into(), place: None };
        return if complete { (Asked::Try, Some(by_default)) } else { (Asked::Unknown, None) };
    };
    let asked = match setting.value.to_ascii_uppercase().as_str() {
        "FALSE" => Asked::No,
        "TRUE" => Asked::Try,
        "ONLY" => Asked::Must,
        "AUTO" | "AUTO_ONLY" => Asked::Raises,
        _ => Asked::Unknown,
    };
    (asked, Some(setting.clone()))
}

/// What its parameter files make of its next start. One that could not be read leaves it unknown.
fn next(scene: &Scene<'_>, instance: &Instance, complete: bool) -> Observed<NextStart> {
    if !complete {
        let why = || Observed::Malformed("not all of its parameter files can be read".into());
        return if instance.asked == Asked::Unknown { why() } else { Observed::Absent };
    }
    // As if nothing were mapped: what the files alone say.
    let mut then = Instance { segments: Vec::new(), beside: Vec::new(), demand: None, ..instance.clone() };
    then.traits.retain(|one| *one != Trait::Amm);
    then.traits.extend(asks_for_amm(&then).then_some(Trait::Amm));
    (then.asked, then.setting) = asked(&then, complete);
    match (instance.traits.contains(&Trait::Amm), then.asked == Asked::Cannot) {
        (true, true) => return Observed::Absent,
        (false, true) if instance.segments.is_empty() => return Observed::Absent,
        (false, true) => {
            return Observed::Known(NextStart { asked: then.asked, setting: then.setting, demands: Vec::new() });
        }
        (true, false) => {
            let estimated = described::estimated(scene.host, &then).ok().flatten().filter(|_| then.asked != Asked::No);
            let demands = estimated.map(|(demand, _)| demand).into_iter().collect();
            return Observed::Known(NextStart { asked: then.asked, setting: then.setting, demands });
        }
        (false, false) => {}
    }
    let size = described::estimated(scene.host, &then).ok().flatten().map(|(demand, name)| {
        let error = demand.error_percent().unwrap_or_default().max(demand::HELD_ERROR);
        let setting = then.settings.get(name).cloned();
        Size::about(demand.pages.of(demand.page_size), error, vec![demand], setting)
    });
    // The kernel decides on the size of its pages.
    next::start(instance, Files { asked: then.asked, setting: then.setting, page: None, size })
}

/// The alert logs of an instance, by the home of the software that runs.
fn logs(host: &Host, source: &dyn Source, root: &str, instance: &Instance) -> Vec<String> {
    let process = host.process(instance.pid);
    let executable = process.and_then(|process| Some(options::as_process_names(process, process.executable.known()?)));
    let home = executable.and_then(|path| path.trim_end_matches(" (deleted)").strip_suffix("/bin/oracle"));
    let Some(home) = home else { return Vec::new() };
    let kind = if instance.traits.contains(&Trait::Asm) { "asm" } else { "rdbms" };
    let set = instance.setting_value("diagnostic_dest");
    Home::read(source, root, home).alert_logs(source, root, kind, &instance.name, set)
}

/// The parameter files of an instance, in the order in which they count.
#[derive(Default)]
struct Parameters {
    read: Vec<(String, Assignment)>,
    /// Whether all of them were read, so that a parameter not in them has its default.
    complete: bool,
    /// What tells the others as they were at the last start, where not all files were read.
    last_start: Option<String>,
}

impl Parameters {
    /// Oracle takes the first of these that is there (Database Administrator's Guide, "About initialization parameter
    /// files and startup"). A database under Grid Infrastructure keeps the place of its spfile in the cluster registry.
    fn read(scene: &Scene<'_>, found: &mut Found, pmon: &Process, folder: &str, sid: &str) -> Self {
        let mut parameters = Self { read: Vec::new(), complete: true, last_start: None };
        let files = [format!("spfile{sid}.ora"), "spfile.ora".into(), format!("init{sid}.ora")];
        let own = scene.files_of(pmon);
        let mut door = Door::new(&own);
        let any = files.iter().any(|file| parameters.add(scene, &mut door, pmon, &format!("{folder}/{file}"), 0));
        if !any {
            parameters.complete = false;
            let config = match sid {
                _ if sid.starts_with("+A") => "srvctl config asm",
                _ if sid.starts_with('-') => "srvctl config mgmtdb",
                _ => "srvctl config database",
            };
            let why = format!(
                "no {} in {folder}; {config} names a spfile in ASM, CREATE PFILE FROM SPFILE writes it there",
                files.join(", ")
            );
            door.tell(format!("parameters of oracle {sid}"), Reason::untold(why));
        }
        found.add_unread(pmon, door.unread);
        parameters
    }

    /// Adds a file and what it includes; whether it is there.
    fn add(&mut self, scene: &Scene<'_>, door: &mut Door<'_>, pmon: &Process, file: &str, depth: usize) -> bool {
        if file.starts_with('+') {
            self.complete = false;
            let why = "it is in ASM; CREATE PFILE FROM SPFILE writes it to a file that can be read";
            door.tell(file.to_owned(), Reason::untold(why));
            return true;
        }
        let path = options::as_reader_opens(scene.host, pmon, file);
        let read = door.parse(&path, |bytes| {
            parameters::parse_spfile(bytes).or_else(|error| parameters::parse_text(bytes).map_err(|_| error))
        });
        if read.is_absent() && depth == 0 {
            return false;
        }
        let Observed::Known(assignments) = read else {
            if read.is_absent() {
                door.tell(path, Reason::untold("a parameter file names it, but it does not exist"));
            }
            self.complete = false;
            return true;
        };
        // A capture keeps the lines of a spfile as text: they have no numbers then either.
        let numbered = !options::file_name(file).starts_with("spfile");
        for mut one in assignments {
            one.line = if numbered { one.line } else { 0 };
            if matches!(one.name.as_str(), "spfile" | "ifile") && one.sid.as_deref().is_none_or(|it| it == sid_of(pmon))
            {
                let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
                let included = one.value.replace('?', folder.strip_suffix("/dbs").unwrap_or(folder));
                let included = if included.starts_with(['/', '+']) { included } else { format!("{folder}/{included}") };
                let line = one.line;
                self.read.push((path.clone(), one));
                if depth < DEEPEST_INCLUDE {
                    self.add(scene, door, pmon, &included, depth + 1);
                    continue;
                }
                self.complete = false;
                let at = if line > 0 { format!("line {line}: ") } else { String::new() };
                let why = format!("{at}parameter files include each other in a loop");
                door.tell(path.clone(), Reason::untold(why));
            } else if SETTINGS.contains(&one.name.as_str()) {
                self.read.push((path.clone(), one));
            }
        }
        true
    }

    /// Takes what the last start has noted for what no file that was read says.
    fn take_last_start(&mut self, start: LastStart) {
        let LastStart { source, parameters } = start;
        self.read.splice(0..0, parameters.into_iter().map(|one| (source.clone(), one)));
        self.last_start = Some(source);
    }

    /// DIAGNOSTIC_DEST, as far as what was read sets it.
    fn destination(&self, sid: &str) -> Option<&str> {
        self.effective(sid, "diagnostic_dest").map(|(_, one)| one.value.as_str())
    }

    fn effective(&self, sid: &str, name: &str) -> Option<(&str, &Assignment)> {
        let at = parameters::effective(self.read.iter().map(|(_, one)| one), sid, name)?;
        self.read.get(at).map(|(file, one)| (file.as_str(), one))
    }
}

fn sid_of(pmon: &Process) -> &str {
    Title::of(pmon).map_or("", |title| title.sid)
}

#[cfg(test)]
mod tests;
