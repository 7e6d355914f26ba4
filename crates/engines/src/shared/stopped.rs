//! Servers that belong to a host and do not run: its units, cluster folders, oratab or libvirt know
//! them. Each kind says where. A file that a user without rights can write lists nobody; a listed
//! server's own files are read with its owner's rights.

use std::collections::BTreeSet;

use hugewise_host::FactReader;
use hugewise_host::config::services::{ServiceDefinition, read_services};
use hugewise_host::config::systemd::{read_named, with_services};
use hugewise_host::source::MinuteCache;
use hugewise_model::configuration::{FileLocation, ServiceUnit};
use hugewise_model::instance::{Mechanism, NextStart, ServerSetting};
use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{Demand, Engine, Host, HugePageMode, Instance, Observed, Process, Unread};

use crate::shared::discovery::{Discovery, NOBODY, StoppedServer};
use crate::shared::{instance_names, options, trusted_by, unit_start};
use crate::{EngineContext, EngineFileCache, EngineKind, FoundInstances, all_kinds, each_known};

/// Adds the stopped servers. Where processes may be hidden nobody knows who runs. What was made of
/// the units within a minute is taken from `files`.
pub(crate) fn add_stopped_servers(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    files: Option<&EngineFileCache>,
) {
    let host = scene.host;
    if !host.processes.is_known() || host.unseen_reason().is_some() {
        return;
    }
    let mut facts = FactReader::new(scene.source);
    let is_likely = |name: &str| all_kinds().iter().any(|kind| kind.is_service(name));
    let is_ours = |words: &[String]| words.first().is_some_and(|first| is_program(first));
    let processes = each_known(&host.processes).map(AsRef::as_ref);
    let busy: BTreeSet<&str> =
        with_services(processes).filter_map(|(_, service)| service).collect();
    let read = |facts: &mut FactReader<'_>| {
        read_services(facts, &is_likely, &is_ours, &|name| busy.contains(name))
    };
    let services = match files {
        Some(files) => files.host.cached_services(
            &mut facts,
            busy.iter().map(|name| (*name).to_owned()).collect(),
            read,
        ),
        None => read(&mut facts),
    };
    let look = || {
        let mut list =
            discover_stopped_servers(scene, &found.instances, services.clone(), busy, facts.unread);
        // Repeated while the list comes from the cache.
        list.unread.extend(scene.budgets.unread_notes());
        list
    };
    let StoppedServerList { servers, boot_services, unread } = match files {
        Some(files) => files
            .asleep
            .get_or_make(DiscoveryInputs::from_host_state(&found.instances, &services), look),
        None => look(),
    };
    found.unread.extend(unread);
    fill_boot_units(scene, found, &boot_services);
    let units = read_starter_units(&mut FactReader::new(scene.source), host, &servers);
    for server in servers {
        let unit = units.iter().find(|unit| Some(&unit.name) == server.starter.as_ref()).cloned();
        add_stopped_server(scene, found, server, unit);
    }
}

/// The services that start running servers at the boot, and what these ask for then.
fn fill_boot_units(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    boot_services: &[(u32, String)],
) {
    let names: BTreeSet<String> = boot_services.iter().map(|(_, name)| name.clone()).collect();
    let units = read_named(&mut FactReader::new(scene.source), &names);
    for instance in &mut found.instances {
        let mut all = boot_services.iter().filter(|(pid, _)| *pid == instance.pid);
        // Of two that would start it nobody knows which comes first.
        let (Some((_, name)), None) = (all.next(), all.next()) else { continue };
        let Some(unit) = units.iter().find(|unit| unit.name == *name) else { continue };
        instance.boot_unit = Some(Box::new(unit.clone()));
        unit_start::fill_in_boot(scene, instance);
    }
}

fn add_stopped_server(
    scene: &EngineContext<'_>,
    found: &mut FoundInstances,
    server: StoppedServer,
    unit: Option<ServiceUnit>,
) {
    let StoppedServer { process, mut instance, mut asleep, voucher, unread, .. } = server;
    asleep.process = would_be(scene.host, &instance, &process, unit.as_ref()).map(Box::new);
    found.add_unread(&process, unread);
    instance.trusted_by =
        if may_be_spoken_for(scene, &instance, &process) { vec![voucher] } else { Vec::new() };
    place_settings(&mut instance, &asleep.known_by);
    let main = asleep.process.as_deref().unwrap_or(&process);
    let mut of_account = list_deciding_files(&instance, &asleep.known_by);
    let mut of_root = BTreeSet::new();
    if voucher == TrustReason::Unit {
        of_root.insert(asleep.known_by.clone());
    }
    if let Some(unit) = &unit {
        of_root.extend(unit.files.iter().cloned());
        of_account.extend(unit.start.variable_places.iter().cloned());
    }
    let engine = instance.engine;
    let others = trusted_by::find_others_who_write(scene, engine, main, &of_root, &of_account);
    if let Some(why) = others.filter(|_| scene.host.live && instance.is_trusted()) {
        instance.trusted_by.clear();
        instance.trust.failed.push((voucher, why));
    }
    asleep.unit = unit.map(Box::new);
    instance.next = predict_next_start(&instance);
    let estimated = instance.next.as_known().into_iter().flat_map(|next| &next.demands);
    let estimated = estimated.filter(|demand| demand.error_percent().is_some());
    instance.possible_demands = estimated.map(Demand::at_most).collect();
    instance.stopped = Some(asleep);
    make_unique(&found.instances, &mut instance);
    found.instances.push(instance);
}

/// What was found within the last minute with the same servers and services.
pub(crate) type StoppedServerCache = MinuteCache<DiscoveryInputs, StoppedServerList>;

#[derive(Clone, Debug)]
pub(crate) struct StoppedServerList {
    servers: Vec<StoppedServer>,
    boot_services: Vec<(u32, String)>,
    unread: Vec<Unread>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DiscoveryInputs {
    running: Vec<(Engine, u32)>,
    services: Vec<ServiceDefinition>,
}

impl DiscoveryInputs {
    fn from_host_state(running: &[Instance], services: &[ServiceDefinition]) -> Self {
        let running = running.iter().map(|instance| (instance.engine, instance.pid)).collect();
        Self { running, services: services.to_vec() }
    }
}

fn discover_stopped_servers(
    scene: &EngineContext<'_>,
    running: &[Instance],
    services: Vec<ServiceDefinition>,
    busy: BTreeSet<&str>,
    mut unread: Vec<Unread>,
) -> StoppedServerList {
    let (untold, services): (Vec<_>, Vec<_>) =
        services.into_iter().partition(|service| service.untold.is_some());
    unread.retain(|note| untold.iter().all(|service| service.untold.as_ref() != Some(note)));
    let mut discovery = Discovery::new(scene, running, services, busy, unread);
    for kind in all_kinds() {
        (kind.recognition.find_stopped)(&mut discovery);
    }
    // Nobody knows what a server asks for that is started by more words than are read.
    for service in untold {
        let program = service.command.first().map(|first| options::file_name(first));
        let is_its = |kind: &&&EngineKind| {
            program.is_some_and(|program| kind.may_be_started_by(program))
                || kind.recognition.services.iter().any(|start| service.name.starts_with(start))
        };
        match all_kinds().iter().find(is_its) {
            Some(kind) => {
                let note = service.untold.map(|note| Unread { what: service.file.clone(), ..note });
                discovery.add_unreadable_list(kind.engine, note.into_iter().collect());
            }
            None => discovery.add_unread(service.untold.into_iter().collect()),
        }
    }
    let Discovery { found: servers, boot_services, unread, .. } = discovery;
    StoppedServerList { servers, boot_services, unread }
}

/// The services that start these, where they decide on the right to System V huge pages or on
/// hugetlb limits of cgroups.
fn read_starter_units(
    facts: &mut FactReader<'_>,
    host: &Host,
    servers: &[StoppedServer],
) -> Vec<ServiceUnit> {
    let decides = |server: &&StoppedServer| {
        server.instance.mechanism == Mechanism::SysvShm || !host.hugetlb_cgroups.is_empty()
    };
    let names =
        servers.iter().filter(decides).filter_map(|server| server.starter.clone()).collect();
    read_named(facts, &names)
}

/// The process that a server would be: of its unit's user, its files' owner, or the account for
/// servers of its kind. None where that is not known.
fn would_be(
    host: &Host,
    instance: &Instance,
    process: &Process,
    unit: Option<&ServiceUnit>,
) -> Option<Process> {
    let accounts = EngineKind::for_engine(instance.engine).recognition.accounts;
    let uid = match process.uid {
        NOBODY => return None,
        // A server with an account of its own is none of root's, and becomes that user itself.
        0 if !accounts.is_empty() => {
            let of_name =
                |name: &&str| host.accounts.users.iter().find(|(_, user)| user.name == *name);
            accounts.iter().find_map(of_name).map(|(uid, _)| *uid)?
        }
        uid => uid,
    };
    let ipc_lock = Observed::Known(uid == 0 || unit.is_some_and(|unit| unit.ambient_ipc_lock));
    let known =
        |gid, groups: Vec<u32>| Process { uid, gid, groups, ipc_lock, ..Process::default() };
    match host.accounts.users.get(&uid) {
        Some(user) => Some(known(user.gid, host.accounts.groups_of(uid))),
        None if uid == 0 => Some(known(0, Vec::new())),
        // A directory service has his account: his processes have his groups.
        None => {
            let his = each_known(&host.processes).find(|process| process.uid == uid)?;
            Some(known(his.gid, his.groups.clone()))
        }
    }
}

fn is_program(first: &str) -> bool {
    let name = options::file_name(first);
    all_kinds().iter().any(|kind| kind.may_be_started_by(name))
}

fn predict_next_start(instance: &Instance) -> Observed<NextStart> {
    if instance.asked == HugePageMode::Unknown {
        return Observed::Absent;
    }
    let (asked, setting) = (instance.asked, instance.setting.clone());
    // It may already say what it asks for, where that is not all its memory.
    let demands = match instance.next.as_known() {
        Some(next) => next.demands.clone(),
        None => instance.demands().cloned().collect(),
    };
    Observed::Known(NextStart { asked, setting, demands })
}

/// What lists it, its data directory, and where its settings stand.
fn list_deciding_files(instance: &Instance, known_by: &str) -> BTreeSet<String> {
    let is_line = |line: &str| line.bytes().all(|byte| byte.is_ascii_digit());
    let listed = known_by.rsplit_once(':').filter(|(_, line)| is_line(line));
    let listed = listed.map_or(known_by, |(file, _)| file).to_owned();
    let settings = instance.settings.values().chain(&instance.setting);
    let places = settings.filter_map(|setting| Some(setting.place.as_ref()?.file.clone()));
    let files = places.chain([listed]).chain(instance.data_directory.as_known().cloned());
    files.filter(|path| path.starts_with('/')).collect()
}

/// Settings of its command line stand in the file that has it.
fn place_settings(instance: &mut Instance, known_by: &str) {
    let nowhere = FileLocation::command_line(0);
    let place = |setting: &mut ServerSetting| {
        if setting.place.as_ref() == Some(&nowhere) {
            setting.place = Some(FileLocation { file: known_by.to_owned(), line: 0 });
        }
    };
    instance.settings.values_mut().chain(instance.setting.as_mut()).for_each(place);
}

/// Whether a listed server is root's, its unit's, or of an account for servers of its kind: whoever
/// has root make a server for him still decides on what it asks for.
fn may_be_spoken_for(scene: &EngineContext<'_>, instance: &Instance, process: &Process) -> bool {
    process.uid == 0
        || instance.unit.is_some()
        || trusted_by::is_server_account(scene.host, scene.source, instance.engine, process)
}

fn make_unique(others: &[Instance], instance: &mut Instance) {
    let same_engine = others.iter().filter(|other| other.engine == instance.engine);
    let taken: Vec<&str> = same_engine.map(|other| other.name.as_str()).collect();
    instance.name = instance_names::unused_name(&instance.name, &taken);
}

#[cfg(test)]
mod tests;
