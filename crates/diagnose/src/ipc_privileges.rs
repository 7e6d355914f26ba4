//! What decides on a server's right to System V huge pages, now, at a restart and at the next boot:
//! its memlock limit and CAP_IPC_LOCK go by who starts it, not by what its process has now.

use hugewise_engines::{EngineKind, ExternalStarter};
use hugewise_host::config::systemd::service_of;
use hugewise_model::configuration::{Loaded, ServiceUnit};
use hugewise_model::instance::Mechanism;
use hugewise_model::{Host, HugePageUse, Instance, Limit, Observed, Process};

use crate::demand;
use crate::login::{self, Allowance};
use crate::memlock_charges::{MemlockCharges, MemlockNeeded};
use crate::permission::{self, MemlockEffect, process_of};
use crate::prediction::{HostPrediction, Obstacle};
use crate::wording::distinguish_sizes;

/// What a process has when it asks for huge pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpcPrivileges {
    /// Its memlock limit.
    pub memlock: Allowance,
    /// Whether it has CAP_IPC_LOCK.
    pub ipc_lock: Observed<bool>,
    /// The groups of whoever starts it; none where its owner's are taken from the accounts.
    pub groups: Option<StarterGroups>,
}

/// The groups of a process that starts servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StarterGroups {
    /// `oraagent.bin (pid 20)`
    pub whose: String,
    /// All of them.
    pub ids: Vec<u32>,
}

impl IpcPrivileges {
    pub(crate) fn from_running_process(host: &Host, instance: &Instance) -> Self {
        let process = process_of(host, instance);
        let memlock = if instance.is_stopped() {
            let place = "the memlock limit that it is started with".to_owned();
            Allowance { limit: Observed::Absent, place }
        } else {
            let soft = |process: &Process| process.memlock.as_ref().map(|limits| limits.soft);
            let read = if process.is_some() { "" } else { ", not read" };
            let place = format!("/proc/{}/limits{read}", instance.pid);
            Allowance { limit: process.map_or(Observed::Absent, soft), place }
        };
        let ipc_lock = process.map_or(Observed::Absent, |process| process.ipc_lock.clone());
        Self { memlock, ipc_lock, groups: None }
    }

    /// The limit against what it has to allow, and whether that is enough: `memlock 64 KiB for 16.0
    /// GiB (FILE)`.
    pub fn memlock_for(&self, needs: MemlockNeeded) -> (String, Option<bool>) {
        let Allowance { limit, place } = &self.memlock;
        let Some(limit) = limit.get() else {
            return (format!("{place}: {}", limit.reason_text().unwrap_or_default()), None);
        };
        let (has, for_it) = match limit {
            Limit::At(has) => {
                let (has, all) = distinguish_sizes(has, needs.total());
                (has, needs.append_others(all))
            }
            Limit::Unlimited => (limit.to_string(), needs.to_string()),
        };
        (format!("memlock {has} for {for_it} ({place})"), Some(limit.allows(needs.total())))
    }
}

/// What a start may be given: more than one thing only matters where it makes a difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivilegeAlternatives {
    /// The most likely one.
    pub first: IpcPrivileges,
    /// Others.
    pub others: Vec<IpcPrivileges>,
    /// What is said where they make a difference.
    pub difference: PrivilegeDifference,
}

/// What it means that a start may be given one thing or another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrivilegeDifference {
    /// The first is what it gets, and this is to be added.
    Noted(String),
    /// It is open, for this reason.
    Open(String),
}

impl PrivilegeAlternatives {
    const fn from_certain(first: IpcPrivileges) -> Self {
        Self { first, others: Vec::new(), difference: PrivilegeDifference::Open(String::new()) }
    }

    fn from_open(first: IpcPrivileges, others: Vec<IpcPrivileges>, why: impl Into<String>) -> Self {
        Self { first, others, difference: PrivilegeDifference::Open(why.into()) }
    }

    pub(crate) fn all_alternatives(&self) -> impl Iterator<Item = &IpcPrivileges> {
        // A note is not of this start.
        let others =
            matches!(self.difference, PrivilegeDifference::Open(_)).then_some(&self.others);
        std::iter::once(&self.first).chain(others.into_iter().flatten())
    }

    /// [`IpcPrivileges::memlock_for`] the first; open where the alternatives differ.
    pub fn memlock_for(&self, needs: MemlockNeeded) -> (String, Option<bool>) {
        let (text, enough) = self.first.memlock_for(needs);
        let mut all = self.all_alternatives();
        let is_settled = all.all(|given| given.memlock_for(needs).1 == enough);
        (text, enough.filter(|_| is_settled))
    }
}

/// What a server is given when it is restarted, and nothing else is done.
pub fn at_restart(host: &Host, instance: &Instance) -> PrivilegeAlternatives {
    let now = IpcPrivileges::from_running_process(host, instance);
    let process = process_of(host, instance).filter(|_| !goes_on_as_it_is(instance));
    let Some(process) = process else { return PrivilegeAlternatives::from_certain(now) };
    if is_limited_by_others(host, instance) {
        return PrivilegeAlternatives::from_certain(by_agent(host, instance, now));
    }
    // A person does it, in his own session, unless a service is known to start it.
    let has_starter = EngineKind::for_engine(instance.engine).restart.starter.is_some();
    if has_starter && !instance.is_run_by_its_service() {
        return PrivilegeAlternatives::from_certain(by_log_in(host, instance, process));
    }
    if instance.is_stopped() {
        return of_asleep(host, instance, process);
    }
    let Some(unit) = unit_of(host, instance) else { return without_unit(host, instance, process) };
    let files = by_unit(host, unit, process);
    match (&unit.loaded, files.as_slice()) {
        (Observed::Known(Loaded::NotYet(path)), _) => PrivilegeAlternatives {
            first: now,
            others: files,
            difference: PrivilegeDifference::Noted(format!(
                "systemd has not loaded {path} yet (daemon-reload)"
            )),
        },
        (Observed::Known(Loaded::Between(path)), _) => {
            let why = format!(
                "systemd has not loaded {path} yet (daemon-reload), and no file says what it has \
                 loaded"
            );
            PrivilegeAlternatives::from_open(now, files, why)
        }
        (_, [only]) if is_certain(host, unit, process) => {
            PrivilegeAlternatives::from_certain(only.clone())
        }
        (Observed::Known(Loaded::Unchanged), _) => PrivilegeAlternatives::from_certain(now),
        (Observed::Known(Loaded::Anew), [only]) => {
            PrivilegeAlternatives::from_certain(only.clone())
        }
        _ => {
            let what =
                if unit.files.is_empty() { "as no file of it was seen" } else { "by its files" };
            let why = format!(
                "{0} gives it other rights than it runs with, {what}, and which a restart gives it \
                 is in no file: systemctl show {0} tells",
                unit.name
            );
            PrivilegeAlternatives::from_open(now, files, why)
        }
    }
}

/// What a server is given at the next boot.
pub fn at_boot(host: &Host, instance: &Instance) -> PrivilegeAlternatives {
    let now = IpcPrivileges::from_running_process(host, instance);
    let process = process_of(host, instance).filter(|_| !goes_on_as_it_is(instance));
    let Some(process) = process else { return PrivilegeAlternatives::from_certain(now) };
    if is_limited_by_others(host, instance) {
        return by_clusterware(host, instance, now);
    }
    if instance.is_stopped() {
        return of_asleep(host, instance, process);
    }
    if let Some(unit) = &instance.boot_unit {
        let by_files = of_files(instance, unit, by_unit(host, unit, process));
        return by_files.unwrap_or_else(|| PrivilegeAlternatives::from_certain(now));
    }
    let Some(unit) = unit_of(host, instance) else { return without_unit(host, instance, process) };
    let files = by_unit(host, unit, process);
    if unit.loaded == Observed::Known(Loaded::Unchanged) && !is_certain(host, unit, process) {
        // It may come by its limit in another way, such as su's or a script's, and has it again.
        return PrivilegeAlternatives::from_certain(now);
    }
    of_files(instance, unit, files).unwrap_or_else(|| PrivilegeAlternatives::from_certain(now))
}

fn of_files(
    instance: &Instance,
    unit: &ServiceUnit,
    mut files: Vec<IpcPrivileges>,
) -> Option<PrivilegeAlternatives> {
    if files.len() < 2 {
        return files.pop().map(PrivilegeAlternatives::from_certain);
    }
    let first = files.remove(0);
    let why = format!(
        "{} starts it as another user, and its limit depends on how it becomes {}",
        unit.name, instance.owner
    );
    Some(PrivilegeAlternatives::from_open(first, files, why))
}

/// By the unit that starts one which does not run, or by a login where none is known to.
fn of_asleep(host: &Host, instance: &Instance, process: &Process) -> PrivilegeAlternatives {
    let unit = unit_of(host, instance).filter(|unit| !unit.files.is_empty());
    let by_its_unit = unit.and_then(|unit| of_files(instance, unit, by_unit(host, unit, process)));
    by_its_unit
        .unwrap_or_else(|| PrivilegeAlternatives::from_certain(by_log_in(host, instance, process)))
}

/// Its container decides, or it needs no rights, as it asks for no System V memory.
fn goes_on_as_it_is(instance: &Instance) -> bool {
    let is_described = instance.pid == 0 && !instance.is_stopped();
    instance.mechanism != Mechanism::SysvShm || is_described || instance.containered
}

/// By the process that starts a server apart from systemd and logins; as it is, where none is seen.
fn by_agent(host: &Host, instance: &Instance, now: IpcPrivileges) -> IpcPrivileges {
    let starter = EngineKind::for_engine(instance.engine).restart.starter.as_ref();
    let Some(agent) = starter.and_then(|starter| (starter.agent)(host, instance)) else {
        return now;
    };
    let place = format!("/proc/{}/limits of {}", agent.pid, agent.name);
    let memlock = Allowance { limit: agent.memlock.as_ref().map(|limits| limits.soft), place };
    let ids: Vec<u32> = agent.groups.iter().copied().chain([agent.gid]).collect();
    // What ps alone tells has no groups; root's process begins with the groups of the accounts.
    let is_read = !agent.groups.is_empty() || agent.memlock.is_known();
    let is_his = host.accounts.user_name(agent.uid) == instance.owner;
    let groups = (is_read && is_his)
        .then(|| StarterGroups { whose: format!("{} (pid {})", agent.name, agent.pid), ids });
    IpcPrivileges { memlock, groups, ..now }
}

/// By Clusterware's files at the next boot. Where they say nothing, a person may have started the
/// server, whose limits it has now, and the boot gives it others.
fn by_clusterware(host: &Host, instance: &Instance, now: IpcPrivileges) -> PrivilegeAlternatives {
    // The boot starts the stack anew, with the groups that the accounts have then.
    let now = IpcPrivileges { groups: None, ..by_agent(host, instance, now) };
    let Some(files) = &host.configuration.clusterware else {
        return PrivilegeAlternatives::from_certain(now);
    };
    match (&files.memlock, &files.file) {
        (Observed::Absent, None) => PrivilegeAlternatives::from_certain(now),
        (Observed::Absent, Some(file)) => {
            let mut processes = host.processes.as_known().into_iter().flatten();
            let stack = processes.find(|process| process.name == "ohasd.bin");
            let name = stack.and_then(|stack| service_of(stack));
            let mut units = host.configuration.units.iter();
            let unit = units.find(|unit| Some(unit.name.as_str()) == name);
            let memlock = login::of_service(host, unit.unwrap_or(&ServiceUnit::default()));
            let why = format!(
                "no file of Clusterware sets memlock ({file}), and after a boot it may have \
                 another limit than now"
            );
            let other = IpcPrivileges { memlock, ..now.clone() };
            PrivilegeAlternatives::from_open(now, vec![other], why)
        }
        (limit, _) => {
            let place = limit
                .as_known()
                .map_or_else(|| "the limits of Clusterware".to_owned(), |(_, at)| at.to_string());
            let limit = limit.as_ref().map(|(limit, _)| *limit);
            PrivilegeAlternatives::from_certain(IpcPrivileges {
                memlock: Allowance { limit, place },
                ..now
            })
        }
    }
}

/// Whether something apart from systemd and logins, such as Clusterware, limits a server.
pub(crate) fn is_limited_by_others(host: &Host, instance: &Instance) -> bool {
    starter_of(host, instance).is_some()
}

pub(crate) fn starter_of(host: &Host, instance: &Instance) -> Option<&'static ExternalStarter> {
    let starter = EngineKind::for_engine(instance.engine).restart.starter.as_ref();
    starter.filter(|starter| (starter.limits)(host, instance).is_some())
}

/// Whether a server is given enough at a restart and at the next boot by whatever starts it then.
pub fn privileges_suffice(host: &Host, instance: &Instance, locked: &MemlockCharges) -> bool {
    let is_enough = |ways: PrivilegeAlternatives, needs| ways.memlock_for(needs).1 == Some(true);
    is_enough(at_restart(host, instance), locked.at_restart(host, instance))
        && is_enough(at_boot(host, instance), locked.at_boot(host, instance))
}

/// Whether a server that has huge pages has no right to them any more at its next restart.
pub fn loses_shm_right(situation: &HostPrediction, instance: &Instance) -> bool {
    let forecasts = situation.forecasts_for(instance);
    forecasts.is_some_and(|forecasts| forecasts.restart.obstacle == Some(Obstacle::Right))
}

/// Whether the limit may be too small at a server's next start, and the kernel or the server minds.
pub fn lacks_memlock(host: &Host, situation: &HostPrediction, instance: &Instance) -> bool {
    let looks = EngineKind::for_engine(instance.engine).start.minds_memlock
        || !matches!(permission::memlock_effect(host), MemlockEffect::Useless(_));
    let off = instance.huge_pages != HugePageUse::All || loses_shm_right(situation, instance);
    let locked = situation.locked();
    let is_short = || {
        at_restart(host, instance).memlock_for(locked.at_restart(host, instance)).1 == Some(false)
            || at_boot(host, instance).memlock_for(locked.at_boot(host, instance)).1 == Some(false)
    };
    looks && off && instance.segment_bytes() >= demand::BIG_SEGMENT && is_short()
}

/// The unit that a server runs in, or that starts one which does not run.
pub fn unit_of<'a>(host: &'a Host, instance: &'a Instance) -> Option<&'a ServiceUnit> {
    if let Some(asleep) = &instance.stopped {
        return asleep.unit.as_deref();
    }
    let name = instance.unit.as_deref().filter(|unit| unit.ends_with(".service"))?;
    host.configuration.units.iter().find(|unit| unit.name == name)
}

/// The unit that starts a server at the next boot: another one than it runs in, where it was
/// started by hand.
pub fn boot_unit_of<'a>(host: &'a Host, instance: &'a Instance) -> Option<&'a ServiceUnit> {
    instance.boot_unit.as_deref().or_else(|| unit_of(host, instance))
}

/// A login starts it anew; of what lies in no service and no session nobody knows who did.
fn without_unit(host: &Host, instance: &Instance, process: &Process) -> PrivilegeAlternatives {
    let (now, log_in) =
        (IpcPrivileges::from_running_process(host, instance), by_log_in(host, instance, process));
    if is_in_session(process) {
        return PrivilegeAlternatives::from_certain(log_in);
    }
    let why = format!(
        "what starts it is not known, and a login of {} has other rights than it runs with: \
         memlock {}",
        instance.owner_in_words(),
        log_in.memlock.in_words()
    );
    PrivilegeAlternatives::from_open(now, vec![log_in], why)
}

fn is_in_session(process: &Process) -> bool {
    let memberships = process.cgroups.as_known().into_iter().flat_map(|all| all.iter());
    let mut parts = memberships.flat_map(|membership| membership.path.split('/'));
    service_of(process).is_none()
        && parts.any(|part| part.starts_with("session-") && part.ends_with(".scope"))
}

fn by_log_in(host: &Host, instance: &Instance, process: &Process) -> IpcPrivileges {
    // What its unit alone gives it, no login has.
    let by_unit =
        unit_of(host, instance).is_some_and(|unit| unit.ambient_ipc_lock) && process.uid != 0;
    let ipc_lock = if by_unit { Observed::Known(false) } else { process.ipc_lock.clone() };
    IpcPrivileges { memlock: login::of_log_in(host, process.uid), ipc_lock, groups: None }
}

/// Whether systemd itself gives a server's process its limits: as its own user, without PAM.
fn sets_it_itself(host: &Host, unit: &ServiceUnit, process: &Process) -> bool {
    let is_his = |user: &String| {
        *user == host.accounts.user_name(process.uid) || *user == process.uid.to_string()
    };
    process.uid == 0 || (!unit.pam && unit.user.as_known().is_some_and(is_his))
}

/// Whether the files tell what a unit gives a server, and nothing that it runs comes in between.
fn is_certain(host: &Host, unit: &ServiceUnit, process: &Process) -> bool {
    !unit.files.is_empty() && (unit.pam || sets_it_itself(host, unit, process))
}

/// Where a unit starts it as root, the unit's limits or those that su makes of them.
fn by_unit(host: &Host, unit: &ServiceUnit, process: &Process) -> Vec<IpcPrivileges> {
    let memlocks = memlocks_by_unit(host, unit, process);
    let ipc_lock =
        if unit.ambient_ipc_lock { Observed::Known(true) } else { process.ipc_lock.clone() };
    memlocks
        .into_iter()
        .map(|memlock| IpcPrivileges { memlock, ipc_lock: ipc_lock.clone(), groups: None })
        .collect()
}

/// The memlock limits that a unit's files may give a process: two where it depends on what it runs.
pub fn memlocks_by_unit(host: &Host, unit: &ServiceUnit, process: &Process) -> Vec<Allowance> {
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
