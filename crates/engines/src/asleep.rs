//! What belongs to a host and does not run: servers that its units, its cluster folders, oratab or libvirt know.
//!
//! Each [`Kind`] says where its own are listed. A file that a user without rights can write lists nobody; what the listed
//! server's own files say is read with its owner's rights, by the same code that reads those of one that runs.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use hugewise_host::Door;
use hugewise_host::config::services::{Service, read_services};
use hugewise_host::config::systemd::{read_named, with_services};
use hugewise_host::source::Turns;
use hugewise_model::configuration::{Place, Unit};
use hugewise_model::instance::{Mechanism, NextStart, Setting};
use hugewise_model::{Asked, Demand, Engine, Host, Instance, Observed, Process, Unread};

use crate::estate::{Estate, NOBODY, Sleeper};
use crate::{Files, Found, Kind, Scene, kinds, options, vouch};

/// Adds those that do not run to those that do. Where processes may be hidden, or none could be read, nobody knows who runs.
/// What an earlier reading made of the units is taken from `files`.
pub(crate) fn add(scene: &Scene<'_>, found: &mut Found, files: Option<&Files>) {
    let host = scene.host;
    if !host.processes.is_known() || host.unseen().is_some() {
        return;
    }
    let mut door = Door::new(scene.source);
    let is_likely = |name: &str| kinds().iter().any(|kind| kind.services.iter().any(|start| name.starts_with(start)));
    let is_ours = |words: &[String]| words.first().is_some_and(|first| is_program(first));
    let processes = host.processes.known().into_iter().flatten().map(AsRef::as_ref);
    let busy: BTreeSet<&str> = with_services(processes).filter_map(|(_, service)| service).collect();
    let read = |door: &mut Door<'_>| read_services(door, &is_likely, &is_ours, &|name| busy.contains(name));
    let services = match files {
        Some(files) => files.host.services(&mut door, busy.iter().map(|name| (*name).to_owned()).collect(), read),
        None => read(&mut door),
    };
    let look = || {
        let (sleepers, mut unread) = listed(scene, &found.instances, services.clone(), busy, door.unread);
        // What was left out of their files is said as long as they are taken from here.
        unread.extend(scene.budgets.unread());
        (sleepers, unread)
    };
    let (sleepers, unread) = match files {
        Some(files) => files.asleep.after(Around::of(&found.instances, &services), look),
        None => look(),
    };
    found.unread.extend(unread);
    let units = units(&mut Door::new(scene.source), host, &sleepers);
    for sleeper in sleepers {
        let Sleeper { process, mut instance, mut asleep, voucher, starter, unread } = sleeper;
        asleep.unit = units.iter().find(|unit| Some(&unit.name) == starter.as_ref()).cloned().map(Box::new);
        asleep.process = would_be(host, &instance, &process, asleep.unit.as_deref()).map(Box::new);
        found.add_unread(&process, unread);
        instance.vouchers = if may_be_spoken_for(scene, &instance, &process) { vec![voucher] } else { Vec::new() };
        place_settings(&mut instance, &asleep.known_by);
        instance.next = next(&instance);
        // Nobody has seen it come out so yet.
        let estimated = instance.next.known().into_iter().flat_map(|next| &next.demands);
        let estimated = estimated.filter(|demand| demand.error_percent().is_some());
        instance.perhaps = estimated.map(Demand::at_most).collect();
        instance.asleep = Some(asleep);
        make_unique(&found.instances, &mut instance);
        found.instances.push(instance);
    }
}

/// What an earlier reading found. What a server that does not run will ask for is read at one of some readings, and whenever
/// another server runs or another service is there.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<Option<Kept>>);

#[derive(Debug)]
struct Kept {
    around: Around,
    listed: Listed,
    turns: Turns,
}

/// The servers that are listed, and lists that could not be read.
type Listed = (Vec<Sleeper>, Vec<Unread>);

/// What decides on who is looked for.
#[derive(Debug, PartialEq, Eq)]
struct Around {
    running: Vec<(Engine, u32)>,
    services: Vec<Service>,
}

impl Around {
    fn of(running: &[Instance], services: &[Service]) -> Self {
        let running = running.iter().map(|it| (it.engine, it.pid)).collect();
        Self { running, services: services.to_vec() }
    }
}

impl Known {
    /// What was found last time, unless it is to be looked for now.
    fn after(&self, around: Around, look: impl FnOnce() -> Listed) -> Listed {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = slot.as_mut()
            && kept.around == around
            && kept.turns.turn().is_some_and(|turn| turn != 0)
        {
            return kept.listed.clone();
        }
        let listed = look();
        *slot = Some(Kept { around, listed: listed.clone(), turns: Turns::begin() });
        listed
    }
}

/// The servers that the kinds find listed.
fn listed(
    scene: &Scene<'_>,
    running: &[Instance],
    services: Vec<Service>,
    busy: BTreeSet<&str>,
    mut unread: Vec<Unread>,
) -> Listed {
    let (untold, services): (Vec<_>, Vec<_>) = services.into_iter().partition(|service| service.untold.is_some());
    unread.retain(|note| untold.iter().all(|service| service.untold.as_ref() != Some(note)));
    let mut estate = Estate::new(scene, running, services, busy, unread);
    for kind in kinds() {
        (kind.asleep)(&mut estate);
    }
    // Of a server that is started by more words than are read nobody knows what it asks for.
    for service in untold {
        let program = service.command.first().map(|first| options::file_name(first));
        let is_its = |kind: &&&Kind| {
            program.is_some_and(|program| kind.starts(program))
                || kind.services.iter().any(|start| service.name.starts_with(start))
        };
        match kinds().iter().find(is_its) {
            Some(kind) => {
                let note = service.untold.map(|note| Unread { what: service.file.clone(), ..note });
                estate.tell(kind.engine, note.into_iter().collect());
            }
            None => estate.note(service.untold.into_iter().collect()),
        }
    }
    estate.into_found()
}

/// The services that start these, where their files decide on anything: on the right to System V huge pages, or on the
/// hugetlb limits of cgroups.
fn units(door: &mut Door<'_>, host: &Host, sleepers: &[Sleeper]) -> Vec<Unit> {
    let decides = |it: &&Sleeper| it.instance.mechanism == Mechanism::SysvShm || !host.hugetlb_cgroups.is_empty();
    let names = sleepers.iter().filter(decides).filter_map(|sleeper| sleeper.starter.clone()).collect();
    read_named(door, &names)
}

/// The process that a server would be: of its unit's user or its files' owner, and where nobody can be asked for that one, of
/// the account for servers of its kind. None where that is not known.
fn would_be(host: &Host, instance: &Instance, process: &Process, unit: Option<&Unit>) -> Option<Process> {
    let accounts = Kind::of(instance.engine).accounts;
    let uid = match process.uid {
        NOBODY => return None,
        // A server with an account of its own is none of root's, and becomes that user itself.
        0 if !accounts.is_empty() => {
            let of_name = |name: &&str| host.accounts.users.iter().find(|(_, user)| user.name == *name);
            accounts.iter().find_map(of_name).map(|(uid, _)| *uid)?
        }
        uid => uid,
    };
    let ipc_lock = Observed::Known(uid == 0 || unit.is_some_and(|unit| unit.ambient_ipc_lock));
    let known = |gid, groups: Vec<u32>| Process { uid, gid, groups, ipc_lock, ..Process::default() };
    match host.accounts.users.get(&uid) {
        Some(user) => Some(known(user.gid, host.accounts.groups_of(uid).into_iter().collect())),
        None if uid == 0 => Some(known(0, Vec::new())),
        // A directory keeps his account: what of his runs has his groups.
        None => {
            let his = host.processes.known().into_iter().flatten().find(|process| process.uid == uid)?;
            Some(known(his.gid, his.groups.clone()))
        }
    }
}

fn is_program(first: &str) -> bool {
    let name = options::file_name(first);
    kinds().iter().any(|kind| kind.starts(name))
}

/// A start is all that there is of it.
fn next(instance: &Instance) -> Observed<NextStart> {
    if instance.asked == Asked::Unknown {
        return Observed::Absent;
    }
    let (asked, setting) = (instance.asked, instance.setting.clone());
    // It may name what it will ask for already, where that is not all of its memory.
    let demands = match instance.next.known() {
        Some(next) => next.demands.clone(),
        None => instance.demands().cloned().collect(),
    };
    Observed::Known(NextStart { asked, setting, demands })
}

/// What would stand on its command line stands in the file that has it.
fn place_settings(instance: &mut Instance, known_by: &str) {
    let nowhere = Place::command_line(0);
    let place = |setting: &mut Setting| {
        if setting.place.as_ref() == Some(&nowhere) {
            setting.place = Some(Place { file: known_by.to_owned(), line: 0 });
        }
    };
    instance.settings.values_mut().chain(instance.setting.as_mut()).for_each(place);
}

/// Whether a listed server is root's, its unit's, or one of an account for servers of its kind: whoever has root make a
/// server for him decides on what it asks for all the same.
fn may_be_spoken_for(scene: &Scene<'_>, instance: &Instance, process: &Process) -> bool {
    process.uid == 0
        || instance.unit.is_some()
        || vouch::is_server_account(scene.host, scene.source, instance.engine, process)
}

/// Gives a server another name where somebody of its engine has that one already.
fn make_unique(others: &[Instance], instance: &mut Instance) {
    let taken = |name: &str| others.iter().any(|it| it.engine == instance.engine && it.name == name);
    let numbered = (2_u64..).map(|number| format!("{} {number}", instance.name));
    let name = std::iter::once(instance.name.clone()).chain(numbered).find(|name| !taken(name));
    instance.name = name.unwrap_or_default();
}

#[cfg(test)]
mod tests;
