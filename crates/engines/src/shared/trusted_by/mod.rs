//! Who vouches for an instance. Anybody can start a program named `postgres` and map as much as he
//! likes; root changes the host only for what a user without rights cannot arrange.

mod control_groups;
mod start_script;
mod touched;
mod unit;
mod writers;

use std::collections::{BTreeMap, BTreeSet};

use hugewise_host::Source;
use hugewise_host::config::systemd::with_services;
use hugewise_host::source::TrustedWriters;
use hugewise_host::source::owner::Owner;
use hugewise_model::configuration::ServiceUnit;
use hugewise_model::instance::Startup;
use hugewise_model::trusted_by::{TrustProofs, TrustReason};
use hugewise_model::{Bytes, Engine, Host, Instance, Observed, Process, Reason, Unread};

use crate::shared::discovery::NOBODY;
use crate::shared::{options, transparent};
use crate::{EngineKind, FoundInstances, each_known};

pub(crate) use writers::{find_others_who_write, withdraw_where_others_write};

/// What was found, or what is missing.
type Proof = Result<String, String>;

/// Fills in who speaks for each instance, and how much of its memory anybody has touched.
pub(crate) fn fill_trusted_by(host: &Host, source: &dyn Source, instances: &mut [Instance]) {
    let services = Services::new(host);
    for instance in instances {
        instance.touched_bytes = touched::most_touched_bytes(host, instance);
        instance.transparent = transparent::least_transparent_bytes(host, instance);
        let main = host.find_process(instance.pid);
        let alone =
            |unit: &str| main.is_some_and(|main| services.runs_alone(host, unit, instance, main));
        instance.unit_is_its_own = instance.unit.as_deref().is_some_and(alone);
        instance.startup = instance.startup.take().or_else(|| unit_startup(host, instance));
        instance.trusted_by.clear();
        instance.trust = TrustProofs::default();
        let Some(main) = main else { continue };
        let tried = [
            (TrustReason::Unit, unit::prove(host, source, instance, main)),
            (TrustReason::Account, prove_account(host, source, instance.engine, main)),
            (TrustReason::Root, prove_root(host, instance.engine, main)),
            (TrustReason::Container, prove_container(host, source, instance, main)),
        ];
        for (reason, proofs) in tried {
            match proofs {
                Ok(proofs) => {
                    instance.trusted_by.push(reason);
                    instance.trust.held.extend(proofs);
                }
                Err(failed) => instance.trust.failed.push((reason, failed)),
            }
        }
    }
}

/// The most instances of one user that nothing vouches for: each one's analysis takes all others
/// into account, and anybody can start thousands.
const MOST_STRANGERS: usize = 32;

/// Leaves out each user's strangers beyond the limit, the smallest first, and says so.
pub(crate) fn limit_untrusted(host: &Host, found: &mut FoundInstances) {
    let mut by_owner = BTreeMap::<u32, Vec<(Bytes, u32)>>::new();
    for stranger in found.instances.iter().filter(|instance| !instance.is_trusted()) {
        let uid = host
            .find_process(stranger.pid)
            .map_or(NOBODY, |main| Owner::user_behind(Owner::from_process(main).uid));
        by_owner.entry(uid).or_default().push((stranger.segment_bytes(), stranger.pid));
    }
    let mut left_out = BTreeSet::new();
    for (owner, mut strangers) in
        by_owner.into_iter().filter(|(_, strangers)| strangers.len() > MOST_STRANGERS)
    {
        strangers.sort_unstable_by_key(|(size, pid)| (std::cmp::Reverse(*size), *pid));
        let more = strangers.split_off(MOST_STRANGERS);
        let what = format!("servers of user {}", host.accounts.user_name(owner));
        let why = format!(
            "only {MOST_STRANGERS} that nothing vouches for are looked at; the {} with the least \
             memory are left out",
            more.len()
        );
        found.unread.push(Unread::new(what, Reason::from_text(why)));
        left_out.extend(more.into_iter().map(|(_, pid)| pid));
    }
    found.instances.retain(|instance| instance.is_trusted() || !left_out.contains(&instance.pid));
    limit_all(found);
}

/// The most instances of a host: far above any real one, and each takes memory and time.
const MOST_INSTANCES: usize = 4096;

/// Leaves out what is beyond the limit, strangers first, then the smallest.
fn limit_all(found: &mut FoundInstances) {
    if found.instances.len() <= MOST_INSTANCES {
        return;
    }
    let rank = |instance: &Instance| {
        let size = std::cmp::Reverse(instance.segment_bytes());
        (!instance.is_trusted(), size, instance.pid)
    };
    found.instances.sort_by_cached_key(rank);
    let more = found.instances.split_off(MOST_INSTANCES).len();
    found.instances.sort_by_key(|instance| instance.pid);
    let why = format!(
        "only {MOST_INSTANCES} are looked at; the {more} with the least memory are left out"
    );
    found.unread.push(Unread::new("servers".to_owned(), Reason::from_text(why)));
}

struct Services<'a>(BTreeMap<&'a str, Vec<&'a Process>>);

impl<'a> Services<'a> {
    fn new(host: &'a Host) -> Self {
        let mut services = BTreeMap::<&str, Vec<&Process>>::new();
        let processes = each_known(&host.processes).map(AsRef::as_ref);
        for (process, service) in with_services(processes) {
            if let Some(name) = service {
                services.entry(name).or_default().push(process);
            }
        }
        Self(services)
    }

    /// Whether a service runs this server and nothing else: cron, sshd and their like also have
    /// users' processes in their services.
    fn runs_alone(&self, host: &Host, unit: &str, instance: &Instance, main: &Process) -> bool {
        let own = |process: &&Process| {
            instance.pids.contains(&process.pid)
                || is_below(host, process, main.pid)
                || is_wrapper(host, process, instance.engine, main)
        };
        self.0.get(unit).is_some_and(|all| all.iter().all(own))
    }
}

pub(crate) fn unit_of<'a>(host: &'a Host, instance: &Instance) -> Option<&'a ServiceUnit> {
    host.configuration.units.iter().find(|unit| Some(&unit.name) == instance.unit.as_ref())
}

/// What a service says of its own start. A mask below /run says nothing: a boot removes it, and
/// whoever is at work there set it.
fn unit_startup(host: &Host, instance: &Instance) -> Option<Startup> {
    let unit = unit_of(host, instance).filter(|_| instance.unit_is_its_own)?;
    let name = &unit.name;
    match &unit.masked {
        Some(link) if !link.starts_with("/run/") => {
            Some(Startup::Never(format!("{name} is masked ({link})")))
        }
        Some(_) => None,
        None => unit.disabled.then(|| Startup::NotAtBoot(format!("{name} is disabled"))),
    }
}

/// The program is root's, and only root can write it: whoever gets a service to run what he likes
/// brings a program of his own. Who owns it is not in a capture.
fn is_program_of_root(host: &Host, source: &dyn Source, main: &Process) -> Proof {
    match source.processes().check_writers_of_executable(main.pid, &TrustedWriters::ROOT_ALONE) {
        Observed::Known(()) => Ok("only root can write its program".to_owned()),
        Observed::Absent if !host.live => {
            Ok("a capture does not say who owns its program".to_owned())
        }
        Observed::Malformed(why) => Err(format!("its program is not root's alone: {why}")),
        other => Err(format!(
            "whose its program is cannot be determined: {}",
            other.reason_text().unwrap_or_default()
        )),
    }
}

/// More than any server has; parents of a captured host may form a circle.
const GENERATIONS: usize = 64;

fn process_ancestors<'a>(host: &'a Host, process: &Process) -> impl Iterator<Item = &'a Process> {
    std::iter::successors(host.find_process(process.parent), |parent| {
        host.find_process(parent.parent)
    })
    .take(GENERATIONS)
}

fn is_below(host: &Host, process: &Process, pid: u32) -> bool {
    process_ancestors(host, process).any(|ancestor| ancestor.pid == pid)
}

const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ksh", "ksh93", "busybox"];

fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program)
}

/// Whether a process has started the server and waits for it: a script (`mysqld_safe`,
/// `catalina.sh`), or a program that is known to keep servers of its kind up (Patroni).
fn is_wrapper(host: &Host, process: &Process, engine: Engine, main: &Process) -> bool {
    let Some(program) = process.executable.as_known().map(|path| options::file_name(path)) else {
        return false;
    };
    let kind = EngineKind::for_engine(engine);
    let keeps_up = || {
        let words = process.command.as_known().map(Vec::as_slice).unwrap_or_default();
        let script = unit::is_interpreter(program).then(|| unit::script_of(words)).flatten();
        kind.is_wrapper(program)
            || script.is_some_and(|script| kind.is_wrapper(options::file_name(script)))
    };
    (is_shell(program) || keeps_up())
        && [0, main.uid].contains(&process.uid)
        && process_ancestors(host, main).any(|ancestor| ancestor.pid == process.pid)
}

/// Whether the process runs as an account made for servers of its kind, on the host itself: what a
/// container calls its accounts does not count.
pub(crate) fn is_server_account(
    host: &Host,
    source: &dyn Source,
    engine: Engine,
    main: &Process,
) -> bool {
    let Some(account) = host.accounts.users.get(&main.uid).filter(|_| main.uid != 0) else {
        return false;
    };
    let kind = EngineKind::for_engine(engine);
    let by_program = || {
        let folder =
            (kind.recognition.folder_of_account)(main.executable.as_known()?, &account.name)?;
        // Mount namespaces can fake a path: it has to be the host's. A capture cannot tell.
        Some(!host.live || source.owner_of(folder).is_known())
    };
    kind.recognition.accounts.contains(&account.name.as_str()) || by_program().unwrap_or_default()
}

/// In a container a tenant is root, or takes the number of any account of the host's.
fn prove_on_host(host: &Host, main: &Process) -> Result<(), String> {
    let group = || {
        control_groups::is_in_container(main).then_some("its control group is that of a container")
    };
    match group().or_else(|| options::foreign_surroundings(host, main)) {
        Some(why) => Err(format!("it does not run on the host itself: {why}")),
        None => Ok(()),
    }
}

fn prove_account(
    host: &Host,
    source: &dyn Source,
    engine: Engine,
    main: &Process,
) -> Result<Vec<String>, String> {
    if main.caller.is_some() {
        return Err("it is a set-user-ID program".to_owned());
    }
    prove_on_host(host, main)?;
    let name = host.accounts.user_name(main.uid);
    if !is_server_account(host, source, engine, main) {
        return Err(format!("{name} is no account for servers of its kind"));
    }
    Ok(vec![format!("{name} is an account for servers of its kind")])
}

/// Whether root runs it of its own will: a set-user-ID program that was started under a server's
/// name is another program than its name says.
fn prove_root(host: &Host, engine: Engine, main: &Process) -> Result<Vec<String>, String> {
    let named_so = |path: &String| {
        let name = options::file_name(path.trim_end_matches(" (deleted)"));
        // What a process calls itself is its caller's choice.
        EngineKind::for_engine(engine)
            .recognition
            .main_program
            .map_or_else(|| name.starts_with(main.name.as_str()), |program| name == program)
    };
    if main.uid != 0 || main.caller.is_some() {
        return Err("root does not run it".to_owned());
    }
    prove_on_host(host, main)?;
    if !main.executable.as_known().is_none_or(named_so) {
        return Err("it is another program than its name says".to_owned());
    }
    Ok(vec!["root runs it".to_owned()])
}

fn prove_container(
    host: &Host,
    source: &dyn Source,
    instance: &Instance,
    main: &Process,
) -> Result<Vec<String>, String> {
    if !instance.containered {
        return Err("it is in no container".to_owned());
    }
    if main.uid == NOBODY {
        return Err("it runs as nobody".to_owned());
    }
    Ok(vec![
        control_groups::prove_container(host, source, main)?,
        root_of_namespace(host, source, main)?,
    ])
}

/// The first of the subordinate ids (subuid(5)).
const SUBORDINATE: u32 = 1 << 16;

/// Whoever has an account of the host is not root in the user namespace: an ordinary user enters
/// one that he has made himself so (user_namespaces(7)).
fn root_of_namespace(host: &Host, source: &dyn Source, main: &Process) -> Proof {
    let path = format!("/proc/{}/uid_map", main.pid);
    let map = match source.read(&path) {
        Observed::Known(map) => map,
        Observed::Absent if !host.live => {
            return Ok("a capture does not say who is root in it".to_owned());
        }
        other => {
            let why = other.reason_text().unwrap_or_else(|| "it has ended".to_owned());
            return Err(format!("{path} cannot be read: {why}"));
        }
    };
    let outside = |line: &str| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (inside, outside) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        (inside == 0).then_some(outside)
    };
    match String::from_utf8_lossy(&map).lines().find_map(outside) {
        Some(0) => Ok("its user namespace is the host's".to_owned()),
        Some(uid) if host.accounts.users.contains_key(&uid) => Err(format!(
            "{} is root in its user namespace, and may have made it",
            host.accounts.user_name(uid)
        )),
        // A directory's user may be in no file of the host; what a runtime maps to is subordinate.
        Some(uid) if uid < SUBORDINATE => {
            Err(format!("user {uid} is root in its user namespace, and may have made it"))
        }
        Some(uid) => Ok(format!("root in its user namespace is {uid}, who has no account")),
        None => Err("nobody is root in its user namespace".to_owned()),
    }
}

#[cfg(test)]
mod tests;
