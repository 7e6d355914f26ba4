//! Oracle Database, ASM and the management database.
//!
//! An instance's process monitor is `<prefix>_pmon_<SID>`: `ora_`, since 23ai `db_`, for ASM
//! `asm_`, for the management database `mdb_`, for the ASM proxy `apx_`. Dedicated servers are
//! `oracle<SID>`.

mod demand;
mod described;
mod homes;
pub(crate) mod last_start;
mod log;
mod log_block;
mod log_lines;
mod log_paste;
mod log_table;
mod meanings;
mod messages;
mod open_files;
pub mod parameters;
mod processes;
mod redaction;
mod releases;
mod remedy;
mod starter;
mod stopped;
mod work_memory;

use std::collections::BTreeMap;

use hugewise_host::capture::shape::ValueShape;
use hugewise_host::{FactReader, ParseError, Source};
use hugewise_model::configuration::FileLocation;
use hugewise_model::instance::{
    Mechanism, NextStart, Segment, SegmentKind, ServerSetting, Startup, Trait,
};
use hugewise_model::{
    Bytes, Demand, Engine, Host, HugePageMode, HugePageUse, Instance, Mapping, Observed, PageCount,
    PageSize, Process, Reason, Unread,
};

use crate::shared::kind::{
    CaptureRules, LogSources, MemoryBehavior, PageSizeChoice, Recognition, RestartBehavior,
    SessionBehavior, SettingAdvice, ThpBehavior,
};
use crate::shared::next_start::{self, NextStartFiles, NextStartSize};
use crate::shared::settings::{new_setting, redacted_setting};
use crate::shared::{options, residency, segments};
use crate::{DescribedBy, EngineContext, EngineKind, FoundInstances, StartBehavior, each_known};
use homes::Home;
use last_start::LastStart;
use parameters::ParameterAssignment;
use processes::{OracleProcessTitle, OracleProcesses, is_amm, is_sga, runs_alone, shared_by};
use releases::Release;

pub(crate) static KIND: EngineKind = EngineKind {
    engine: Engine::Oracle,
    names: &[(Engine::Oracle, "Oracle")],
    tried: false,
    recognition: Recognition {
        programs: &["oracle"],
        find_running: find_oracle_instances,
        find_stopped: stopped::find_stopped_servers,
        services: &["dbora", "oracle"],
        // Clusterware's programs tell a database that it starts, and with which limits.
        companions: &[stopped::LAUNCHER, "ohasd.bin", "crsd.bin", "oraagent.bin"],
        wrappers: &[stopped::LAUNCHER, "dbstart"],
        accounts: &["oracle", "grid"],
        folder_of_account: homes::of_sap_account,
        main_program: Some("oracle"),
    },
    capture: CaptureRules {
        forms: redaction::FORMS,
        settings: SETTINGS,
        value_shapes: &[
            ("spfile", ValueShape::Path),
            ("ifile", ValueShape::Path),
            ("oracle_home", ValueShape::Path),
            ("diagnostic_dest", ValueShape::Path),
        ],
        mappings: &["/dev/shm/ora_"],
        ..CaptureRules::PLAIN
    },
    logs: LogSources {
        paths: log_paths,
        format: Some(&log::FORMAT),
        messages: messages::MESSAGES,
        meanings: meanings::MEANINGS,
    },
    describe: Some((DescribedBy::Sizes(&described::SIZES), described::describe_oracle)),
    start: StartBehavior {
        takes: |instance| Release::from_instance(instance).partial_allocation(),
        refuses: releases::refuses_start,
        // A clean shutdown has failed with a pool drained to the last page.
        spare: PageCount(2),
        minds_memlock: true,
        only_shm: true,
        // Where the pool could not be raised AUTO starts with what there is, AUTO_ONLY does not.
        raises_or_fails: |setting| setting.value.eq_ignore_ascii_case("AUTO_ONLY"),
        not_with_default: Some(PageSize::GIB_1),
        ..StartBehavior::PLAIN
    },
    restart: RestartBehavior { starter: Some(starter::STARTER), ..RestartBehavior::PLAIN },
    thp: ThpBehavior {
        summary: Some(
            "never up to 18c and on UEK before UEK7; from 19c on, madvise on UEK7 and newer \
             (Oracle Database installation guides for Linux, 12.2 to 23ai)",
        ),
        advise: |host, instance| Ok(Some(releases::advise_thp(host, instance))),
    },
    page_size: PageSizeChoice {
        against_gib_pages: Some("Oracle recommends 2 MiB pages for the SGA"),
        ..PageSizeChoice::PLAIN
    },
    memory: MemoryBehavior {
        // A login to 11g and its sqlplus added 530 kB, on huge pages (Ronny Egner, "MEMORY_TARGET
        // (SGA_TARGET) or HugePages": from 27,112 kB to 80,096 kB for 100 of them). All of it
        // counts, as the share of each is not known.
        process_tables: Bytes::from_kib(530),
        touches_all: releases::touches_all,
        locks_all: releases::locks_all,
        private_piece: work_memory::find_private_piece,
        work_memory: work_memory::estimate_work_memory,
        ..MemoryBehavior::PLAIN
    },
    sessions: SessionBehavior {
        are_counted: true,
        fewer: "fewer connections in each client's own pool; or shared servers (SHARED_SERVERS), \
                or database resident connection pooling (DBMS_CONNECTION_POOL, from 11.1 on)",
        ..SessionBehavior::PLAIN
    },
    settings: SettingAdvice {
        only_by_settings: true,
        asks_by: "use_large_pages=TRUE",
        insists_by: Some("use_large_pages=ONLY"),
        // An ASM that refuses to start keeps every database of its node down.
        can_insist: |instance| {
            let of_clusterware = |own: &Trait| matches!(own, Trait::Asm | Trait::Gimr);
            Release::from_instance(instance).has_parameter()
                && !instance.traits.iter().any(of_clusterware)
        },
        can_by: Some("sga_target instead of memory_target"),
        can_how: Some(remedy::off_amm),
        proposal: remedy::propose_asmm,
        commands: remedy::huge_page_commands,
        ..SettingAdvice::PLAIN
    },
    ..EngineKind::PLAIN
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

const SMALLEST: Bytes = Bytes::from_mib(1);
/// An SGA in System V segments has one of at least a granule (MOS 947152.1).
const SMALLEST_GRANULE: Bytes = Bytes::from_mib(4);
/// Parameter files that include each other deeper than this are in a loop.
const DEEPEST_INCLUDE: usize = 8;

/// Instances of one user. A title costs nothing, and each is compared with all of its user's
/// processes.
const MOST_INSTANCES: usize = 256;

fn find_oracle_instances(scene: &EngineContext<'_>, found: &mut FoundInstances) {
    let mut by_user = BTreeMap::<u32, Vec<&Process>>::new();
    for process in each_known(&scene.host.processes) {
        by_user.entry(process.uid).or_default().push(process);
    }
    let mut monitors = BTreeMap::<u32, usize>::new();
    for process in each_known(&scene.host.processes) {
        let Some(title) = OracleProcessTitle::from_process(process)
            .filter(|title| title.task == "pmon" && !found.has_process(process.pid))
        else {
            continue;
        };
        let count = monitors.entry(process.uid).or_default();
        *count += 1;
        if *count <= MOST_INSTANCES {
            let of_user = by_user.get(&process.uid).map_or(&[][..], Vec::as_slice);
            add_instance(scene, found, (process, of_user), &title);
        }
    }
    for (uid, count) in monitors.into_iter().filter(|(_, count)| *count > MOST_INSTANCES) {
        let what = format!("Oracle instances of user {}", scene.host.accounts.user_name(uid));
        let why = format!("{} beyond {MOST_INSTANCES} are left out", count - MOST_INSTANCES);
        found.unread.push(Unread::new(what, Reason::from_text(why)));
    }
}

fn add_instance(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    (pmon, of_user): (&Process, &[&Process]),
    title: &OracleProcessTitle<'_>,
) {
    let host = scene.host;
    let mapped = shared_by(host, pmon);
    let processes = OracleProcesses::find(host, (pmon, of_user), title, &mapped);
    let mut instance =
        scene.new_instance(Engine::Oracle, title.sid.to_owned(), pmon, processes.pids);
    instance.sessions = Observed::Known(processes.sessions);
    instance.mechanism = Mechanism::SysvShm;
    let parameters = read_parameters(scene, found, pmon, title.sid, &mut instance);

    instance.segments = if pmon.mappings.is_absent() {
        residency::sysv_segments(host, &instance.pids, pmon.uid, runs_alone(host, pmon))
    } else {
        find_sga_segments(host, &instance.pids, &mapped)
    };
    instance.huge_pages = huge_page_use(&instance.segments);
    instance.traits = detect_traits(&instance, title);
    parameters.fill_request(&mut instance);
    instance.startup = refused_by_exadata(scene, &instance);
    instance.asked_page_size = host.default_huge_page.clone();
    if let Some(page) =
        host.default_huge_page.get().filter(|_| !instance.traits.contains(&Trait::Amm))
    {
        (instance.demand, instance.other_demands) =
            segments::segment_demands(&instance.segments, page);
    }
    instance.next = predict_next_start(scene, &instance, parameters.complete);
    if parameters.complete {
        instance.possible_demands = possible_demands(host, &instance);
    }
    fill_max_sessions(&mut instance);
    found.add(instance);
}

/// The parameters of an instance by its files, its last start or its open files; its settings and
/// version are filled in.
fn read_parameters(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    pmon: &Process,
    sid: &str,
    instance: &mut Instance,
) -> Parameters {
    let mut parameters = Parameters::default();
    let mut open_file = None;
    if let Some(home) = home_of(pmon) {
        instance.version = homes::version_in_home_path(home).into();
        let place = Some(FileLocation { file: format!("/proc/{}/exe", pmon.pid), line: 0 });
        let setting = new_setting("oracle_home", home, place);
        instance.settings.insert("oracle_home".into(), setting);
        let inside = options::as_reader_opens(scene.host, pmon, home);
        let root = inside.strip_suffix(home).unwrap_or_default().to_owned();
        let files = scene.files_of(pmon);
        let software = Home::read(&files, &root, home);
        parameters = Parameters::read(scene, found, pmon, &software.parameter_folder(), sid);
        if !parameters.complete {
            let kind = homes::kind_of(sid);
            if parameters.diag_destination(sid).is_none() {
                open_file =
                    open_files::find_diag_destination(scene.host, scene.source, instance, kind);
            }
            let search = || {
                let open = open_file.as_ref().map(|setting| setting.value.as_str());
                let destination = parameters.diag_destination(sid).or(open);
                let logs = software.alert_logs(&files, &root, kind, sid, destination);
                last_start::read(&scene.logs_of(pmon), &root, &logs)
            };
            let start = match scene.files {
                Some(files) => files.last_starts.get_or_search(pmon.identity, search),
                None => search(),
            };
            start.into_iter().for_each(|start| parameters.take_last_start(start));
        }
    }
    parameters.fill_settings(sid, instance);
    if let Some(setting) = open_file {
        instance.settings.entry(setting.name.clone()).or_insert(setting);
    }
    parameters
}

/// What the parameters come to, without spare pages, which it does not ask for.
fn possible_demands(host: &Host, instance: &Instance) -> Vec<Demand> {
    let least = described::possible_demand(host, &without_memory(instance))
        .map(|demand| Demand { pages: demand.pages.saturating_sub(demand::SPARE), ..demand });
    // It writes its parameter file itself at each start: a change of that says nothing.
    next_start::possible_demands(instance, least.into_iter().collect(), false)
}

fn without_memory(instance: &Instance) -> Instance {
    Instance { segments: Vec::new(), other_demands: Vec::new(), demand: None, ..instance.clone() }
}

fn refused_by_exadata(scene: &EngineContext<'_>, instance: &Instance) -> Option<Startup> {
    if !releases::refused_on_exadata(instance) || scene.source.read(releases::CELLS).is_absent() {
        return None;
    }
    let setting = instance.settings.get("use_large_pages")?;
    Some(Startup::Refuses(format!(
        "{setting}: on Exadata this release accepts only ONLY and AUTO_ONLY"
    )))
}

/// Of the large segments, if any: the few KiB of a key to the SGA are on base pages on purpose.
fn huge_page_use(segments: &[Segment]) -> HugePageUse {
    let large: Vec<Segment> =
        segments.iter().filter(|segment| segment.size >= SMALLEST).cloned().collect();
    segments::huge_page_use(if large.is_empty() { segments } else { &large })
}

/// The segments that the process monitor maps; the many files of AMM count as one.
fn find_sga_segments(host: &Host, pids: &[u32], mapped: &[(u64, u64)]) -> Vec<Segment> {
    let ours = |process: &Process, mapping: &Mapping| {
        is_sga(mapping)
            && mapped.binary_search(&segments::mapping_identity(host, process, mapping)).is_ok()
    };
    let all = segments::collect_segments(host, pids, ours);
    let (files, mut rest): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|segment| is_amm(&segment.name));
    // Beside an SGA in System V segments the files are the managed global area, no part of it.
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

fn detect_traits(instance: &Instance, title: &OracleProcessTitle<'_>) -> Vec<Trait> {
    let files = instance.segments.iter().any(|segment| segment.kind == SegmentKind::Posix);
    let measured = !instance.segments.is_empty();
    [
        // What is mapped says more than the file of the next start.
        (Trait::Amm, files || (!measured && asks_for_amm(instance))),
        (Trait::Asm, title.sid.starts_with("+A")),
        (Trait::Gimr, title.sid.eq_ignore_ascii_case("-MGMTDB")),
    ]
    .into_iter()
    .filter_map(|(name, has)| has.then_some(name))
    .collect()
}

fn asks_for_amm(instance: &Instance) -> bool {
    AMM.iter().any(|name| is_positive(instance, name))
}

/// The parameters of automatic memory management: either one is enough.
const AMM: [&str; 2] = ["memory_target", "memory_max_target"];

fn is_positive(instance: &Instance, name: &str) -> bool {
    instance
        .setting_value(name)
        .is_some_and(|value| value.starts_with(|character| ('1'..='9').contains(&character)))
}

/// `USE_LARGE_PAGES`, Oracle Database Reference 11.2 to 21c: TRUE by default. Older servers lack
/// the parameter and always try huge pages.
fn parse_huge_page_request(
    instance: &Instance,
    complete: bool,
) -> (HugePageMode, Option<ServerSetting>) {
    if instance.traits.contains(&Trait::Amm) {
        let cause = AMM.iter().find_map(|name| instance.settings.get(*name));
        return (HugePageMode::Cannot, cause.cloned());
    }
    if !Release::from_instance(instance).has_parameter() {
        return (HugePageMode::Try, None);
    }
    let Some(setting) = instance.settings.get("use_large_pages") else {
        let by_default = || new_setting("use_large_pages", "TRUE", None);
        return match complete {
            true => (HugePageMode::Try, Some(by_default())),
            false => (HugePageMode::Unknown, None),
        };
    };
    let asked = match setting.value.to_ascii_uppercase().as_str() {
        "FALSE" => HugePageMode::No,
        "TRUE" => HugePageMode::Try,
        "ONLY" => HugePageMode::Must,
        "AUTO" | "AUTO_ONLY" => HugePageMode::Raises,
        _ => HugePageMode::Unknown,
    };
    (asked, Some(setting.clone()))
}

/// What its parameter files make of its next start; unknown where one could not be read.
fn predict_next_start(
    scene: &EngineContext<'_>,
    instance: &Instance,
    complete: bool,
) -> Observed<NextStart> {
    if !complete {
        let why = || Observed::Malformed("not all of its parameter files can be read".into());
        return if instance.asked == HugePageMode::Unknown { why() } else { Observed::Absent };
    }
    let mut then = without_memory(instance);
    then.traits.retain(|one| *one != Trait::Amm);
    then.traits.extend(asks_for_amm(&then).then_some(Trait::Amm));
    (then.asked, then.setting) = parse_huge_page_request(&then, complete);
    let (was, will_be) =
        (instance.traits.contains(&Trait::Amm), then.asked == HugePageMode::Cannot);
    let estimated = || described::estimate_demand(scene.host, &then).ok().flatten();
    if will_be && (was || instance.segments.is_empty()) {
        return Observed::Absent;
    }
    if was || will_be {
        let asks = !will_be && then.asked != HugePageMode::No;
        let demands = estimated().filter(|_| asks).map(|(demand, _)| demand).into_iter().collect();
        return Observed::Known(NextStart { asked: then.asked, setting: then.setting, demands });
    }
    let size = estimated().map(|(demand, name)| {
        NextStartSize::with_error_percent(
            demand.pages.to_bytes(demand.page_size),
            demand.error_percent().unwrap_or_default().max(demand::HELD_ERROR),
            vec![demand],
            then.settings.get(name).cloned(),
        )
    });
    // The kernel decides on the size of its pages.
    next_start::predict_from_files(
        instance,
        NextStartFiles { asked: then.asked, setting: then.setting, page: None, size },
    )
}

fn log_paths(host: &Host, source: &dyn Source, root: &str, instance: &Instance) -> Vec<String> {
    let Some(home) = host.find_process(instance.pid).and_then(home_of) else { return Vec::new() };
    let kind = if instance.traits.contains(&Trait::Asm) { "asm" } else { "rdbms" };
    let set = instance.setting_value("diagnostic_dest");
    Home::read(source, root, home).alert_logs(source, root, kind, &instance.name, set)
}

/// A path in a parameter file, relative to its folder; `?` is the home.
fn included_path(file: &str, value: &str) -> String {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let included = value.replace('?', folder.strip_suffix("/dbs").unwrap_or(folder));
    if included.starts_with(['/', '+']) { included } else { format!("{folder}/{included}") }
}

#[derive(Default)]
struct Parameters {
    read: Vec<(String, ParameterAssignment)>,
    complete: bool,
    last_start: Option<String>,
}

impl Parameters {
    /// Oracle takes the first file that exists (Database Administrator's Guide, "About
    /// initialization parameter files and startup"). Under Grid Infrastructure the cluster registry
    /// has the spfile's place.
    fn read(
        scene: &EngineContext<'_>,
        found: &mut FoundInstances,
        pmon: &Process,
        folder: &str,
        sid: &str,
    ) -> Self {
        let mut parameters = Self { read: Vec::new(), complete: true, last_start: None };
        let files = [format!("spfile{sid}.ora"), "spfile.ora".into(), format!("init{sid}.ora")];
        let own = scene.files_of(pmon);
        let mut facts = FactReader::new(&own);
        let any = files
            .iter()
            .any(|file| parameters.add(scene, &mut facts, pmon, &format!("{folder}/{file}"), 0));
        if !any {
            parameters.complete = false;
            let config = match sid {
                _ if sid.starts_with("+A") => "srvctl config asm",
                _ if sid.starts_with('-') => "srvctl config mgmtdb",
                _ => "srvctl config database",
            };
            let why = format!(
                "no {} in {folder}; {config} names a spfile in ASM, CREATE PFILE FROM SPFILE \
                 writes it there",
                files.join(", ")
            );
            facts.report_unread(format!("parameters of oracle {sid}"), Reason::from_text(why));
        }
        found.add_unread(pmon, facts.unread);
        parameters
    }

    fn add(
        &mut self,
        scene: &EngineContext<'_>,
        facts: &mut FactReader<'_>,
        pmon: &Process,
        file: &str,
        depth: usize,
    ) -> bool {
        if file.starts_with('+') {
            self.complete = false;
            let why = "it is in ASM; CREATE PFILE FROM SPFILE writes it to a file that can be read";
            facts.report_unread(file.to_owned(), Reason::from_text(why));
            return true;
        }
        let path = options::as_reader_opens(scene.host, pmon, file);
        let read = facts.parse(&path, |bytes| {
            parameters::parse_spfile(bytes)
                .or_else(|error| parameters::parse_text(bytes).map_err(|_| error))
        });
        if read.is_absent() && depth == 0 {
            return false;
        }
        if read.is_absent() {
            let why = Reason::from_text("a parameter file names it, but it does not exist");
            facts.report_unread(path.clone(), why);
        }
        self.complete &= read.is_known();
        // A capture keeps the lines of a spfile as text: they have no numbers then either.
        let numbered = !options::file_name(file).starts_with("spfile");
        for mut one in read.into_known().into_iter().flatten() {
            one.line = if numbered { one.line } else { 0 };
            let is_for_instance = one.sid.as_deref().is_none_or(|text| text == sid_of(pmon));
            let line = one.line;
            if matches!(one.name.as_str(), "spfile" | "ifile") && is_for_instance {
                let included = included_path(file, &one.value);
                self.read.push((path.clone(), one));
                if depth < DEEPEST_INCLUDE {
                    self.add(scene, facts, pmon, &included, depth + 1);
                    continue;
                }
                self.complete = false;
                let error =
                    ParseError::at_line(line, "parameter files include each other in a loop");
                facts.errors.insert(facts.unread.len(), error);
                facts.report_unread(path.clone(), Reason::from_text(error.to_string()));
            } else if SETTINGS.contains(&one.name.as_str()) {
                self.read.push((path.clone(), one));
            }
        }
        true
    }

    /// Adds the last start's parameters where no file that was read sets them.
    fn take_last_start(&mut self, start: LastStart) {
        let LastStart { source, parameters } = start;
        self.read.splice(0..0, parameters.into_iter().map(|one| (source.clone(), one)));
        self.last_start = Some(source);
    }

    fn diag_destination(&self, sid: &str) -> Option<&str> {
        self.find_effective_assignment(sid, "diagnostic_dest").map(|(_, one)| one.value.as_str())
    }

    fn find_effective_assignment(
        &self,
        sid: &str,
        name: &str,
    ) -> Option<(&str, &ParameterAssignment)> {
        let at = parameters::find_effective_index(self.read.iter().map(|(_, one)| one), sid, name)?;
        self.read.get(at).map(|(file, one)| (file.as_str(), one))
    }

    fn fill_settings(&self, sid: &str, instance: &mut Instance) {
        for name in SETTINGS {
            if let Some((file, one)) = self.find_effective_assignment(sid, name) {
                let place = Some(FileLocation { file: file.to_owned(), line: one.line });
                let setting = redacted_setting(name, &one.value, place);
                instance.settings.insert((*name).to_owned(), setting);
            }
        }
    }

    /// Fills in what the instance asks for; a default has the last start as its place.
    fn fill_request(&self, instance: &mut Instance) {
        (instance.asked, instance.setting) =
            parse_huge_page_request(instance, self.complete || self.last_start.is_some());
        if let (Some(source), Some(setting)) = (&self.last_start, &mut instance.setting) {
            setting.place.get_or_insert_with(|| FileLocation { file: source.clone(), line: 0 });
        }
    }
}

fn sid_of(pmon: &Process) -> &str {
    OracleProcessTitle::from_process(pmon).map_or("", |title| title.sid)
}

fn home_of(process: &Process) -> Option<&str> {
    let executable = options::as_process_names(process, process.executable.as_known()?);
    executable.trim_end_matches(" (deleted)").strip_suffix("/bin/oracle")
}

fn fill_max_sessions(instance: &mut Instance) {
    instance.max_sessions =
        instance.setting_value("processes").and_then(|value| value.parse().ok()).into();
}

#[cfg(test)]
mod tests;
