//! What belongs to a host and does not run: servers that its units, its cluster folders, oratab or libvirt know.
//!
//! Each [`Kind`] says where its own are listed. A file that a user without rights can write lists nobody; what the listed
//! server's own files say is read with its owner's rights, by the same code that reads those of one that runs.

use std::collections::BTreeSet;

use hugewise_host::Door;
use hugewise_host::Source;
use hugewise_host::config::Files;
use hugewise_host::config::services::{Service, read_services};
use hugewise_host::config::systemd::{read_named, service_of};
use hugewise_model::configuration::{Place, Unit};
use hugewise_model::instance::{Mechanism, NextStart, Setting};
use hugewise_model::vouch::Voucher;
use hugewise_model::{
    Asked, Asleep, AtBoot, Demand, DemandSource, Engine, Host, Instance, Observed, Process, Reason, Unread,
};

use crate::{Found, Kind, Scene, described, kinds, options};

/// Servers of a kind that are looked at. Nobody keeps so many that do not run, and each costs some files.
const MOST: usize = 256;

/// Where kinds look for those of theirs that do not run.
pub(crate) struct Estate<'a> {
    /// The host, and where files come from.
    pub(crate) scene: &'a Scene<'a>,
    /// The services that may start one.
    pub(crate) services: Vec<Service>,
    /// What runs.
    pub(crate) running: &'a [Instance],
    /// Services that something runs in.
    busy: BTreeSet<&'a str>,
    found: Vec<Sleeper>,
    unread: Vec<Unread>,
}

/// A server that does not run, as its files describe it.
pub(crate) struct Sleeper {
    /// The process that it would be: whose files these are.
    pub(crate) process: Process,
    /// The server.
    pub(crate) instance: Instance,
    /// What says that it belongs here.
    pub(crate) asleep: Asleep,
    /// Who speaks for it, where its owner is one who may be spoken for.
    pub(crate) voucher: Voucher,
    /// The service that starts it, where one is known to.
    pub(crate) starter: Option<String>,
    /// Files of its that could not be read.
    pub(crate) unread: Vec<Unread>,
}

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
    let busy: BTreeSet<&str> =
        host.processes.known().into_iter().flatten().filter_map(|process| service_of(process)).collect();
    let read = |door: &mut Door<'_>| read_services(door, &is_likely, &is_ours, &|name| busy.contains(name));
    let services = match files {
        Some(files) => files.services(&mut door, busy.iter().map(|name| (*name).to_owned()).collect(), read),
        None => read(&mut door),
    };
    let (running, unread) = (found.instances.as_slice(), door.unread);
    let mut estate = Estate { scene, services, running, busy, found: Vec::new(), unread };
    for kind in kinds() {
        (kind.asleep)(&mut estate);
    }
    let Estate { found: sleepers, unread, .. } = estate;
    found.unread.extend(unread);
    let units = units(&mut Door::new(scene.source), host, &sleepers);
    for sleeper in sleepers {
        let Sleeper { process, mut instance, mut asleep, voucher, starter, unread } = sleeper;
        asleep.unit = units.iter().find(|unit| Some(&unit.name) == starter.as_ref()).cloned().map(Box::new);
        asleep.process = would_be(host, &instance, &process, asleep.unit.as_deref()).map(Box::new);
        found.add_unread(&process, unread);
        instance.vouchers = if may_be_spoken_for(host, &instance, &process) { vec![voucher] } else { Vec::new() };
        place_settings(&mut instance, &asleep.known_by);
        instance.next = next(&instance);
        // Nobody has seen it come out so yet.
        let estimated = instance.next.known().into_iter().flat_map(|next| &next.demands);
        let estimated = estimated.filter(|demand| matches!(demand.source, DemandSource::Estimated { .. }));
        instance.perhaps = estimated.map(Demand::at_most).collect();
        instance.asleep = Some(asleep);
        make_unique(&found.instances, &mut instance);
        found.instances.push(instance);
    }
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
            accounts.iter().find_map(|name| of_name(name)).map(|(uid, _)| *uid)?
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
    kinds().iter().any(|kind| kind.runs(name) || kind.companions.contains(&name))
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
fn may_be_spoken_for(host: &Host, instance: &Instance, process: &Process) -> bool {
    let name = host.accounts.users.get(&process.uid).map(|user| user.name.as_str());
    process.uid == 0
        || instance.unit.is_some()
        || name.is_some_and(|name| Kind::of(instance.engine).accounts.contains(&name))
}

/// Gives a server another name where somebody of its engine has that one already.
fn make_unique(others: &[Instance], instance: &mut Instance) {
    let taken = |name: &str| others.iter().any(|it| it.engine == instance.engine && it.name == name);
    let numbered = (2_u64..).map(|number| format!("{} {number}", instance.name));
    let name = std::iter::once(instance.name.clone()).chain(numbered).find(|name| !taken(name));
    instance.name = name.unwrap_or_default();
}

impl Estate<'_> {
    /// Takes a server in that asks for huge pages, or of which nobody knows whether it does: the others have no part in them.
    pub(crate) fn add(&mut self, mut sleeper: Sleeper) {
        if matches!(sleeper.instance.asked, Asked::No | Asked::Cannot) {
            return;
        }
        let engine = sleeper.instance.engine;
        let count = self.found.iter().filter(|other| other.instance.engine == engine).count();
        if count < MOST {
            let (owner, unit, startup) = {
                let it = &mut sleeper.instance;
                (std::mem::take(&mut it.owner), it.unit.take(), it.startup.take())
            };
            sleeper.instance = Instance { owner, unit, startup, ..described::without_process(sleeper.instance) };
            self.found.push(sleeper);
        } else if count == MOST {
            let why = format!("more than {MOST} are listed: the others are left out");
            let note = Unread { what: format!("{engine} servers that do not run"), why: Reason::untold(why) };
            if !self.unread.contains(&note) {
                self.unread.push(note);
            }
        }
    }

    /// Notes lists of servers that are there and cannot be read. Who is listed there may ask for any pages: in its place stands
    /// one server of which nothing is known.
    pub(crate) fn tell(&mut self, engine: Engine, unread: Vec<Unread>) {
        for note in &unread {
            let known_by = note.what.clone();
            let untold = AtBoot::Unknown(format!("{known_by} could not be read ({})", note.why));
            let nothing = described::instance(self.scene, engine, format!("of {known_by}"));
            let instance = Instance { asked: Asked::Unknown, setting: None, demand: None, ..nothing };
            let (asleep, process) = (Asleep::new(known_by, untold), self.process(0, Vec::new()));
            let voucher = Voucher::Listed;
            self.add(Sleeper { process, instance, asleep, voucher, starter: None, unread: Vec::new() });
        }
        self.unread.extend(unread);
    }

    /// Notes what could not be read, and says nothing of who is there.
    pub(crate) fn note(&mut self, unread: Vec<Unread>) {
        self.unread.extend(unread);
    }

    /// The services that would start a program of a kind and that nothing runs in, each with the process that it would be.
    pub(crate) fn services_of(&self, kind: &Kind) -> Vec<(Service, Process)> {
        let ours = |service: &&Service| {
            let program = service.command.first().map(|first| options::file_name(first));
            service.masked.is_none()
                && program.is_some_and(|program| kind.runs(program) || kind.companions.contains(&program))
                && !self.busy.contains(service.name.as_str())
        };
        let process = |service: &Service| {
            let uid = match &service.user {
                Some(user) => self.uid_of(user).unwrap_or(NOBODY),
                None => 0,
            };
            let main = self.process(uid, service.command.clone());
            Process { directory: service.directory.clone().into(), ..main }
        };
        self.services.iter().filter(ours).map(|service| (service.clone(), process(service))).collect()
    }

    /// The process of a user that these words would start.
    pub(crate) fn process(&self, uid: u32, command: Vec<String>) -> Process {
        let accounts = &self.scene.host.accounts;
        let gid = accounts.users.get(&uid).map_or(if uid == 0 { 0 } else { NOBODY }, |user| user.gid);
        let groups = accounts.groups_of(uid).into_iter().collect();
        Process { uid, gid, groups, ..described::process(command) }
    }

    /// The owner of what lies at these paths, from the top down: the last that is not root, as he decides what is found there.
    /// Root, where nobody can be asked.
    pub(crate) fn owner_of(&self, paths: &[&str]) -> u32 {
        let mut owners = paths.iter().rev().filter_map(|path| self.scene.source.owner_of(path).get());
        owners.find(|uid| *uid != 0).unwrap_or_default()
    }

    /// Who a listed server runs as, in words: its folder's owner, and in a capture the account for such servers.
    pub(crate) fn owner_in_words(&self, uid: u32, usual: &str) -> String {
        match uid {
            0 => usual.to_owned(),
            uid => self.scene.host.accounts.user_name(uid),
        }
    }

    fn uid_of(&self, user: &str) -> Option<u32> {
        let mut users = self.scene.host.accounts.users.iter();
        user.parse().ok().or_else(|| users.find(|(_, account)| account.name == user).map(|(uid, _)| *uid))
    }

    /// Servers of an engine that run and have the host's own files.
    pub(crate) fn running(&self, engines: &[Engine]) -> impl Iterator<Item = &Instance> {
        self.running.iter().filter(move |it| engines.contains(&it.engine) && !it.containered)
    }

    /// Whether one of these runs on a data directory, or on one that cannot be seen.
    pub(crate) fn runs_on(&self, engines: &[Engine], data: &str) -> bool {
        let tidy = |path: &str| path.trim_end_matches('/').to_owned();
        self.running(engines).any(|it| match it.data_directory.known() {
            Some(theirs) => tidy(theirs) == tidy(data) || self.is_option_of(it, data),
            None => true,
        })
    }

    /// Whether a running server names a path on its command line: its working directory is where links on the way lead to.
    fn is_option_of(&self, running: &Instance, path: &str) -> bool {
        let command = self.scene.host.process(running.pid).and_then(|main| main.command.known());
        let path = path.trim_end_matches('/');
        let names = |word: &String| {
            let value = word.split_once('=').map_or(word.as_str(), |(_, value)| value);
            let value = value.strip_prefix("-D").unwrap_or(value);
            value.trim_end_matches('/') == path
        };
        command.is_some_and(|words| words.iter().any(names))
    }

    /// Whether a server of that data directory is among those that do not run already.
    pub(crate) fn is_listed(&self, data: &str) -> bool {
        let tidy = |path: &str| path.trim_end_matches('/').to_owned();
        let listed = |it: &Sleeper| it.instance.data_directory.known().is_some_and(|path| tidy(path) == tidy(data));
        self.found.iter().any(listed)
    }

    /// What a service says of the boot, by its name.
    pub(crate) fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|service| service.name == name)
    }

    /// A server's files, as its owner may read them.
    pub(crate) fn source(&self) -> &dyn Source {
        self.scene.source
    }
}

impl Sleeper {
    /// A server of a service.
    pub(crate) fn of_service(service: &Service, process: Process, mut instance: Instance, unread: Vec<Unread>) -> Self {
        instance.owner = service.user.clone().unwrap_or_else(|| "root".to_owned());
        instance.unit = Some(service.name.clone());
        let asleep = Asleep::new(service.file.clone(), service.at_boot.clone());
        let starter = Some(service.name.clone());
        Self { process, instance, asleep, voucher: Voucher::Unit, starter, unread }
    }
}

/// The boot of a list of its own: what it says, unless the service that reads the list is known not to be started.
pub(crate) fn by_service(service: Option<&Service>, said: AtBoot) -> AtBoot {
    match (said, service.map(|service| &service.at_boot)) {
        (AtBoot::Yes(_), Some(AtBoot::No(why))) => AtBoot::No(why.clone()),
        (said, _) => said,
    }
}

/// Who has no account: the kernel's overflow user.
const NOBODY: u32 = 65534;

#[cfg(test)]
mod tests;
