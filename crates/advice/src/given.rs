//! What decides on a server's right to System V huge pages, as it runs, at its next restart and at the next boot: its memlock
//! limit and CAP_IPC_LOCK go by who starts it, and not by what the process has that runs now.

use hugewise_engines::{Kind, Starter};
use hugewise_host::config::systemd::service_of;
use hugewise_model::configuration::{Loaded, Unit};
use hugewise_model::instance::Mechanism;
use hugewise_model::{Host, Instance, Limit, Observed, Process};

use crate::locked::{Locked, Needed};
use crate::login::{self, Allowance};
use crate::permission::process_of;
use crate::words::apart;

/// What a process has when it asks for huge pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Its memlock limit.
    pub memlock: Allowance,
    /// Whether it has CAP_IPC_LOCK.
    pub ipc_lock: Observed<bool>,
    /// Who starts it with the groups that he has himself, and these; none where its owner's are taken from the accounts.
    pub groups: Option<Groups>,
}

/// The groups of a process that starts servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// `oraagent.bin (pid 20)`
    pub whose: String,
    /// All of them.
    pub ids: Vec<u32>,
}

impl Given {
    /// What the running process has.
    pub fn now(host: &Host, instance: &Instance) -> Self {
        let process = process_of(host, instance);
        if instance.is_asleep() {
            let place = "the memlock limit that it is started with".to_owned();
            let ipc_lock = process.map_or(Observed::Absent, |process| process.ipc_lock.clone());
            return Self { memlock: Allowance { limit: Observed::Absent, place }, ipc_lock, groups: None };
        }
        let limit = process.map_or(Observed::Absent, |process| process.memlock.as_ref().map(|limits| limits.soft));
        let read = if process.is_some() { "" } else { ", not read" };
        Self {
            memlock: Allowance { limit, place: format!("/proc/{}/limits{read}", instance.pid) },
            ipc_lock: process.map_or(Observed::Absent, |process| process.ipc_lock.clone()),
            groups: None,
        }
    }

    /// The limit against what memlock has to allow, and whether that is enough: `memlock 64 KiB for 16.0 GiB (FILE)`.
    pub fn memlock_for(&self, needs: Needed) -> (String, Option<bool>) {
        let Allowance { limit, place } = &self.memlock;
        let Some(limit) = limit.get() else {
            return (format!("{place}: {}", limit.reason().unwrap_or_default()), None);
        };
        let (has, for_it) = match limit {
            Limit::At(has) => {
                let (has, all) = apart(has, needs.all());
                (has, needs.beside(all))
            }
            Limit::Unlimited => (limit.to_string(), needs.to_string()),
        };
        (format!("memlock {has} for {for_it} ({place})"), Some(limit.allows(needs.all())))
    }
}

/// What a start may be given. Where there is more than one and it makes a difference, what comes of the start is the first's or
/// open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ways {
    /// The most likely one.
    pub first: Given,
    /// Others.
    pub others: Vec<Given>,
    /// What is said where they make a difference.
    pub difference: Difference,
}

/// What it means that a start may be given one thing or another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The first is what it gets, and this is to be added.
    Noted(String),
    /// It is open, for this reason.
    Open(String),
}

impl Ways {
    const fn sure(first: Given) -> Self {
        Self { first, others: Vec::new(), difference: Difference::Open(String::new()) }
    }

    fn open(first: Given, others: Vec<Given>, why: impl Into<String>) -> Self {
        Self { first, others, difference: Difference::Open(why.into()) }
    }

    /// All that the start may be given.
    pub fn all(&self) -> impl Iterator<Item = &Given> {
        // A note is not of this start.
        let others = matches!(self.difference, Difference::Open(_)).then_some(&self.others);
        std::iter::once(&self.first).chain(others.into_iter().flatten())
    }

    /// The memlock limit against what it has to allow; whether that is enough is not known where it depends on the way.
    pub fn memlock_for(&self, needs: Needed) -> (String, Option<bool>) {
        let (text, enough) = self.first.memlock_for(needs);
        (text, enough.filter(|_| self.all().all(|given| given.memlock_for(needs).1 == enough)))
    }
}

/// What a server is given when it is restarted, and nothing else is done.
pub fn at_restart(host: &Host, instance: &Instance) -> Ways {
    let now = Given::now(host, instance);
    if goes_on_as_it_is(instance) {
        return Ways::sure(now);
    }
    let Some(process) = process_of(host, instance) else { return Ways::sure(now) };
    if is_limited_by_others(host, instance) {
        return Ways::sure(by_agent(host, instance, now));
    }
    // A person does it, in his own session, whatever unit it lies in.
    if Kind::of(instance.engine).starter.is_some() {
        return Ways::sure(by_log_in(host, instance, process));
    }
    if instance.is_asleep() {
        return of_asleep(host, instance, process);
    }
    let Some(unit) = unit_of(host, instance) else { return without_unit(host, instance, process) };
    let files = by_unit(host, unit, process);
    match (&unit.loaded, files.as_slice()) {
        (Observed::Known(Loaded::NotYet(path)), _) => Ways {
            first: now,
            others: files,
            difference: Difference::Noted(format!("systemd has not loaded {path} yet (daemon-reload)")),
        },
        (Observed::Known(Loaded::Between(path)), _) => {
            let why = format!("systemd has not loaded {path} yet (daemon-reload), and no file says what it has loaded");
            Ways::open(now, files, why)
        }
        (_, [only]) if is_certain(host, unit, process) => Ways::sure(only.clone()),
        (Observed::Known(Loaded::Unchanged), _) => Ways::sure(now),
        (Observed::Known(Loaded::Anew), [only]) => Ways::sure(only.clone()),
        _ => {
            let what = if unit.files.is_empty() { "as no file of it was seen" } else { "by its files" };
            let why = format!(
                "{0} gives it other rights than it runs with, {what}, and which a restart gives it is in no file: systemctl \
                 show {0} tells",
                unit.name
            );
            Ways::open(now, files, why)
        }
    }
}

/// What a server is given at the next boot.
pub fn at_boot(host: &Host, instance: &Instance) -> Ways {
    let now = Given::now(host, instance);
    if goes_on_as_it_is(instance) {
        return Ways::sure(now);
    }
    let Some(process) = process_of(host, instance) else { return Ways::sure(now) };
    if is_limited_by_others(host, instance) {
        return by_clusterware(host, instance, now);
    }
    if instance.is_asleep() {
        return of_asleep(host, instance, process);
    }
    let Some(unit) = unit_of(host, instance) else { return without_unit(host, instance, process) };
    let files = by_unit(host, unit, process);
    if unit.loaded == Observed::Known(Loaded::Unchanged) && !is_certain(host, unit, process) {
        // It may come by its limit in another way, such as su's or a script's, and has it again.
        return Ways::sure(now);
    }
    of_files(instance, unit, files).unwrap_or_else(|| Ways::sure(now))
}

/// What the files of a unit give a server, where they give it anything.
fn of_files(instance: &Instance, unit: &Unit, mut files: Vec<Given>) -> Option<Ways> {
    if files.len() < 2 {
        return files.pop().map(Ways::sure);
    }
    let first = files.remove(0);
    let why =
        format!("{} starts it as another user, and its limit depends on how it becomes {}", unit.name, instance.owner);
    Some(Ways::open(first, files, why))
}

/// What one that does not run is given by the unit that starts it, or by a login where none is known to.
fn of_asleep(host: &Host, instance: &Instance, process: &Process) -> Ways {
    let unit = unit_of(host, instance).filter(|unit| !unit.files.is_empty());
    let by_its_unit = unit.and_then(|unit| of_files(instance, unit, by_unit(host, unit, process)));
    by_its_unit.unwrap_or_else(|| Ways::sure(by_log_in(host, instance, process)))
}

/// Whether nobody here decides on a server's limits: those of its container, or of none, as it asks for no System V memory.
fn goes_on_as_it_is(instance: &Instance) -> bool {
    let is_described = instance.pid == 0 && !instance.is_asleep();
    instance.mechanism != Mechanism::SysvShm || is_described || instance.containered
}

/// What a server is given by the process that starts it apart from systemd and logins; as it is, where none is seen.
fn by_agent(host: &Host, instance: &Instance, now: Given) -> Given {
    let starter = Kind::of(instance.engine).starter.as_ref();
    let Some(agent) = starter.and_then(|starter| (starter.agent)(host, instance)) else { return now };
    let place = format!("/proc/{}/limits of {}", agent.pid, agent.name);
    let memlock = Allowance { limit: agent.memlock.as_ref().map(|limits| limits.soft), place };
    let ids: Vec<u32> = agent.groups.iter().copied().chain([agent.gid]).collect();
    // Of one of which ps alone tells, they are not known; and root's process has another begin, with the groups of the accounts.
    let is_read = !agent.groups.is_empty() || agent.memlock.is_known();
    let is_his = host.accounts.user_name(agent.uid) == instance.owner;
    let groups = (is_read && is_his).then(|| Groups { whose: format!("{} (pid {})", agent.name, agent.pid), ids });
    Given { memlock, groups, ..now }
}

/// What a server is given at the next boot by Clusterware: what its files say. Where they say nothing it may have been started
/// by a person, whose limits it has now, and the boot gives it others.
fn by_clusterware(host: &Host, instance: &Instance, now: Given) -> Ways {
    // The boot starts the stack anew, with the groups that the accounts have then.
    let now = Given { groups: None, ..by_agent(host, instance, now) };
    let Some(files) = &host.configuration.clusterware else { return Ways::sure(now) };
    match (&files.memlock, &files.file) {
        (Observed::Absent, None) => Ways::sure(now),
        (Observed::Absent, Some(file)) => {
            let stack = host.processes.known().into_iter().flatten().find(|process| process.name == "ohasd.bin");
            let unit = stack.and_then(|stack| service_of(stack));
            let unit = host.configuration.units.iter().find(|it| Some(it.name.as_str()) == unit);
            let memlock = login::of_service(host, unit.unwrap_or(&Unit::default()));
            let why = format!(
                "no file of Clusterware sets memlock ({file}), and after a boot it may have another limit than now"
            );
            Ways::open(now.clone(), vec![Given { memlock, ..now }], why)
        }
        (limit, _) => {
            let place = limit.known().map_or_else(|| "the limits of Clusterware".to_owned(), |(_, at)| at.to_string());
            let limit = limit.as_ref().map(|(limit, _)| *limit);
            Ways::sure(Given { memlock: Allowance { limit, place }, ..now })
        }
    }
}

/// Whether a server gets its limits from what starts it apart from systemd and logins, such as Clusterware.
pub(crate) fn is_limited_by_others(host: &Host, instance: &Instance) -> bool {
    starter_of(host, instance).is_some()
}

/// What starts a server apart from systemd and logins, with limits of its own.
pub(crate) fn starter_of(host: &Host, instance: &Instance) -> Option<&'static Starter> {
    Kind::of(instance.engine).starter.as_ref().filter(|starter| (starter.limits)(host, instance).is_some())
}

/// Whether a server is given enough at a restart and at the next boot by whatever starts it then.
pub fn suffices(host: &Host, instance: &Instance, locked: &Locked) -> bool {
    let is_enough = |ways: Ways, needs| ways.memlock_for(needs).1 == Some(true);
    is_enough(at_restart(host, instance), locked.at_restart(host, instance))
        && is_enough(at_boot(host, instance), locked.at_boot(host, instance))
}

/// The unit that a server runs in, or that starts one which does not run, where its files are known.
pub fn unit_of<'a>(host: &'a Host, instance: &'a Instance) -> Option<&'a Unit> {
    if let Some(asleep) = &instance.asleep {
        return asleep.unit.as_deref();
    }
    let name = instance.unit.as_deref().filter(|unit| unit.ends_with(".service"))?;
    host.configuration.units.iter().find(|unit| unit.name == name)
}

/// Of what a login starts, another one does again. Of what lies in no service and no session nobody knows who started it.
fn without_unit(host: &Host, instance: &Instance, process: &Process) -> Ways {
    let (now, log_in) = (Given::now(host, instance), by_log_in(host, instance, process));
    if is_in_session(process) {
        return Ways::sure(log_in);
    }
    let why = format!(
        "what starts it is not known, and a login of {} has other rights than it runs with: memlock {}",
        instance.owner_in_words(),
        log_in.memlock.in_words()
    );
    Ways::open(now, vec![log_in], why)
}

/// Whether a process lies in a session of logind's.
fn is_in_session(process: &Process) -> bool {
    let paths = process.cgroups.known().into_iter().flat_map(|all| all.iter()).map(|membership| &membership.path);
    let mut parts = paths.flat_map(|path| path.split('/'));
    service_of(process).is_none() && parts.any(|part| part.starts_with("session-") && part.ends_with(".scope"))
}

fn by_log_in(host: &Host, instance: &Instance, process: &Process) -> Given {
    // What its unit alone gives it, no login has.
    let by_unit = unit_of(host, instance).is_some_and(|unit| unit.ambient_ipc_lock) && process.uid != 0;
    let ipc_lock = if by_unit { Observed::Known(false) } else { process.ipc_lock.clone() };
    Given { memlock: login::of_log_in(host, process.uid), ipc_lock, groups: None }
}

/// Whether systemd itself gives a server's process its limits: it starts it as its own user, with no PAM in between.
fn sets_it_itself(host: &Host, unit: &Unit, process: &Process) -> bool {
    let is_his = |user: &String| *user == host.accounts.user_name(process.uid) || *user == process.uid.to_string();
    process.uid == 0 || (!unit.pam && unit.user.known().is_some_and(is_his))
}

/// Whether the files tell what a unit gives a server, and nothing that it runs by itself comes in between.
fn is_certain(host: &Host, unit: &Unit, process: &Process) -> bool {
    !unit.files.is_empty() && (unit.pam || sets_it_itself(host, unit, process))
}

/// What the files of a unit give a server: one thing, or where the unit starts it as root and it becomes its user by itself,
/// the unit's limits or those that su makes of them.
fn by_unit(host: &Host, unit: &Unit, process: &Process) -> Vec<Given> {
    let memlocks = memlocks_by_unit(host, unit, process);
    let ipc_lock = if unit.ambient_ipc_lock { Observed::Known(true) } else { process.ipc_lock.clone() };
    memlocks.into_iter().map(|memlock| Given { memlock, ipc_lock: ipc_lock.clone(), groups: None }).collect()
}

/// The memlock limits that the files of a unit may give a process of its: one, or two where that hangs on what it runs.
pub fn memlocks_by_unit(host: &Host, unit: &Unit, process: &Process) -> Vec<Allowance> {
    let plain = login::of_service(host, unit);
    // Of a unit without files nothing says that it starts anything as root.
    if unit.files.is_empty() || sets_it_itself(host, unit, process) {
        return vec![plain];
    }
    let by_pam = login::of_service_by_pam(host, unit, process.uid);
    match () {
        () if unit.pam => vec![by_pam],
        () if by_pam.limit == plain.limit => vec![plain],
        () => vec![plain, by_pam],
    }
}

#[cfg(test)]
mod tests;
