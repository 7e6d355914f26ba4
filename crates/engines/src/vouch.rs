//! Who speaks for an instance. Anybody can start a program, name it `postgres` and map as much as he likes; root changes
//! the host only for what a user without rights cannot arrange.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_host::Source;
use hugewise_host::config::systemd::with_services;
use hugewise_host::source::owner::Owner;
use hugewise_model::instance::{SegmentKind, Startup};
use hugewise_model::vouch::Voucher;
use hugewise_model::{Bytes, Engine, Host, Instance, Observed, Process, Reason, Unread};

use crate::{Found, Kind, options, transparent};

/// Fills in who speaks for each instance, and how much of its memory anybody has touched.
pub(crate) fn vouch(host: &Host, source: &dyn Source, instances: &mut [Instance]) {
    let services = Services::of(host);
    for instance in instances {
        instance.touched = touched(host, instance);
        instance.transparent = transparent::least(host, instance);
        let main = host.process(instance.pid);
        let alone = |unit: &str| main.is_some_and(|main| services.runs_alone(host, unit, instance, main));
        instance.unit_is_its_own = instance.unit.as_deref().is_some_and(alone);
        instance.startup = instance.startup.take().or_else(|| startup(host, instance));
        instance.vouchers = main.map_or_else(Vec::new, |main| {
            let is: [(Voucher, bool); 4] = [
                (
                    Voucher::Unit,
                    instance.unit_is_its_own
                        && is_user_of_unit(host, instance, main)
                        && runs_roots_program(source, main),
                ),
                (Voucher::Account, main.caller.is_none() && is_server_account(host, source, instance.engine, main)),
                (Voucher::Root, is_roots(instance.engine, main)),
                (Voucher::Container, instance.containered && is_in_a_hosts_container(main)),
            ];
            is.into_iter().filter(|(_, speaks)| *speaks).map(|(voucher, _)| voucher).collect()
        });
    }
}

/// How many instances of one user are looked at that nothing vouches for. Whoever tries servers out has a few; what is
/// worked out for an instance takes all others into account, and anybody can start thousands.
const MOST_STRANGERS: usize = 32;

/// Leaves out what one user has of strangers beyond that, those with the least memory first, and says so.
pub(crate) fn bound_strangers(host: &Host, found: &mut Found) {
    let mut by_owner = BTreeMap::<u32, Vec<(Bytes, u32)>>::new();
    for stranger in found.instances.iter().filter(|instance| !instance.is_vouched()) {
        let uid = host.process(stranger.pid).map_or(NOBODY, |main| Owner::behind(Owner::of(main).uid));
        by_owner.entry(uid).or_default().push((stranger.segment_bytes(), stranger.pid));
    }
    let mut left_out = BTreeSet::new();
    for (owner, mut strangers) in by_owner.into_iter().filter(|(_, strangers)| strangers.len() > MOST_STRANGERS) {
        strangers.sort_unstable_by_key(|(size, pid)| (std::cmp::Reverse(*size), *pid));
        let more = strangers.split_off(MOST_STRANGERS);
        let (what, count) = (format!("servers of user {}", host.accounts.user_name(owner)), more.len());
        let why = format!(
            "only {MOST_STRANGERS} that nothing vouches for are looked at; the {count} with the least memory are left \
             out"
        );
        found.unread.push(Unread { what, why: Reason::untold(why) });
        left_out.extend(more.into_iter().map(|(_, pid)| pid));
    }
    found.instances.retain(|instance| instance.is_vouched() || !left_out.contains(&instance.pid));
}

/// The processes of each service of the host, by its name.
struct Services<'a>(BTreeMap<&'a str, Vec<&'a Process>>);

impl<'a> Services<'a> {
    fn of(host: &'a Host) -> Self {
        let mut services = BTreeMap::<&str, Vec<&Process>>::new();
        let processes = host.processes.known().into_iter().flatten().map(AsRef::as_ref);
        for (process, service) in with_services(processes) {
            if let Some(name) = service {
                services.entry(name).or_default().push(process);
            }
        }
        Self(services)
    }

    /// Whether a service runs this server and nothing else. cron, sshd and whatever runs what users give it have processes
    /// of users in their services too.
    fn runs_alone(&self, host: &Host, unit: &str, instance: &Instance, main: &Process) -> bool {
        let own = |process: &&Process| {
            instance.pids.contains(&process.pid) || is_below(host, process, main.pid) || is_wrapper(host, process, main)
        };
        self.0.get(unit).is_some_and(|all| all.iter().all(own))
    }
}

/// Whether the server runs as the user that its unit's files name; without one that is root.
fn is_user_of_unit(host: &Host, instance: &Instance, main: &Process) -> bool {
    let mut units = host.configuration.units.iter();
    let unit = units.find(|unit| Some(&unit.name) == instance.unit.as_ref()).filter(|unit| !unit.files.is_empty());
    let as_its_user = unit.is_some_and(|unit| match &unit.user {
        Observed::Known(user) => uid_of(host, &without_specifiers(&unit.name, user)) == Some(main.uid),
        Observed::Absent => main.uid == 0,
        Observed::Denied | Observed::Malformed(_) => false,
    });
    as_its_user && main.caller.is_none()
}

/// What a service says of its own start. A mask below /run is taken off by the boot and put on by whoever is at work there
/// now: nothing is said of it.
fn startup(host: &Host, instance: &Instance) -> Option<Startup> {
    let name = instance.unit.as_deref().filter(|_| instance.unit_is_its_own)?;
    let unit = host.configuration.units.iter().find(|unit| unit.name == name)?;
    match &unit.masked {
        Some(link) if !link.starts_with("/run/") => Some(Startup::Never(format!("{name} is masked ({link})"))),
        Some(_) => None,
        None => unit.disabled.then(|| Startup::NotAtBoot(format!("{name} is disabled"))),
    }
}

/// Whether the program is root's: whoever gets a service to run what he likes brings a program of his own. Who owns it is not
/// in a capture.
fn runs_roots_program(source: &dyn Source, main: &Process) -> bool {
    source.owner_of_executable(main.pid).get().is_none_or(|uid| uid == 0)
}

/// A unit's value with what stands for its own name filled in: `%i` and `%I` are the instance of a template, `%p` and `%P` its
/// name (systemd.unit(5)).
fn without_specifiers(unit: &str, value: &str) -> String {
    let name = unit.strip_suffix(".service").unwrap_or(unit);
    let (prefix, instance) = name.split_once('@').unwrap_or((name, ""));
    [("%i", instance), ("%I", instance), ("%p", prefix), ("%P", prefix)]
        .iter()
        .fold(value.to_owned(), |value, (specifier, text)| value.replace(specifier, text))
}

fn uid_of(host: &Host, user: &str) -> Option<u32> {
    let by_name = || host.accounts.users.iter().find(|(_, account)| account.name == user).map(|(uid, _)| *uid);
    user.parse().ok().or_else(by_name)
}

/// More generations than any server has; parents of a captured host may go in a circle.
const GENERATIONS: usize = 64;

/// The process's parent, its parent, and so on.
fn ancestors<'a>(host: &'a Host, process: &Process) -> impl Iterator<Item = &'a Process> {
    std::iter::successors(host.process(process.parent), |parent| host.process(parent.parent)).take(GENERATIONS)
}

fn is_below(host: &Host, process: &Process, pid: u32) -> bool {
    ancestors(host, process).any(|ancestor| ancestor.pid == pid)
}

/// Whether a process is the script that has started the server and waits for it: `mysqld_safe`, `catalina.sh`.
fn is_wrapper(host: &Host, process: &Process, main: &Process) -> bool {
    const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ksh", "ksh93", "busybox"];
    let shell = process.executable.known().is_some_and(|path| SHELLS.contains(&options::file_name(path)));
    shell && [0, main.uid].contains(&process.uid) && ancestors(host, main).any(|ancestor| ancestor.pid == process.pid)
}

/// Whether the process runs as an account that is made for servers of its kind. These are of the host: what a container
/// calls its accounts does not count.
pub(crate) fn is_server_account(host: &Host, source: &dyn Source, engine: Engine, main: &Process) -> bool {
    let Some(account) = host.accounts.users.get(&main.uid).filter(|_| main.uid != 0) else { return false };
    let kind = Kind::of(engine);
    let by_program = || {
        let folder = (kind.folder_of_account)(main.executable.known()?, &account.name)?;
        // A path is what a mount namespace makes it: the folder has to be the host's own. Nobody can be asked for it in a capture.
        Some(!host.live || source.owner_of(folder).is_known())
    };
    kind.accounts.contains(&account.name.as_str()) || by_program().unwrap_or_default()
}

/// Whether root runs it of its own will: a set-user-ID program that was started under a server's name is another program
/// than its name says.
fn is_roots(engine: Engine, main: &Process) -> bool {
    let named_so = |path: &String| {
        let name = options::file_name(path.trim_end_matches(" (deleted)"));
        // What a process calls itself is its caller's choice.
        Kind::of(engine).program_of_main.map_or_else(|| name.starts_with(main.name.as_str()), |program| name == program)
    };
    main.uid == 0 && main.caller.is_none() && main.executable.known().is_none_or(named_so)
}

/// Whether a process lies in a cgroup that a container runtime of the host makes, and not below a user's slice or manager,
/// where users make cgroups of any name.
fn is_in_a_hosts_container(main: &Process) -> bool {
    let memberships = main.cgroups.known().map(AsRef::as_ref).unwrap_or_default();
    let made_by_a_runtime = |part: &str| {
        const SCOPES: [&str; 5] = ["docker-", "libpod-", "cri-containerd-", "crio-", "machine-"];
        let scope = part.strip_suffix(".scope").is_some_and(|name| SCOPES.iter().any(|start| name.starts_with(start)));
        let id = part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        scope || id
    };
    let users = |part: &str| part == "user.slice" || part.starts_with("user-") || part.starts_with("user@");
    let mut any = false;
    for membership in memberships {
        if membership.path.split('/').any(users) {
            return false;
        }
        any |= membership.path.split('/').any(made_by_a_runtime);
    }
    any && main.uid != NOBODY
}

/// Who has no account: the kernel's overflow user.
const NOBODY: u32 = 65534;

/// How much of an instance's segments has been touched, at the most: a System V segment says so itself, and of all
/// other shared memory no process has touched more than its `RssShmem` and `VmSwap`. Huge pages are not in these.
fn touched(host: &Host, instance: &Instance) -> Observed<Bytes> {
    let (mut sum, mut others) = (Bytes::ZERO, Bytes::ZERO);
    for segment in &instance.segments {
        let listed = || host.sysv_segments.known()?.iter().find(|listed| listed.id == segment.identity.1);
        match (segment.kind, segment.huge.get()) {
            (_, Some(true) | None) | (SegmentKind::Private, _) => sum += segment.size,
            (SegmentKind::SystemV, _) => match listed().and_then(|it| Some(it.rss.get()? + it.swap.get()?)) {
                Some(touched) => sum += touched.min(segment.size),
                None => sum += segment.size,
            },
            _ => others += segment.size,
        }
    }
    if others == Bytes::ZERO {
        return Observed::Known(sum);
    }
    let of = |pid: &u32| {
        let process = host.process(*pid)?;
        Some(process.rss_shmem.get()? + process.swap.get().unwrap_or_default())
    };
    let most: Option<Vec<Bytes>> = instance.pids.iter().map(of).collect();
    // Several processes may each have touched another part.
    let most: Option<Bytes> = most.map(|each| each.into_iter().sum());
    most.map(|most| sum + most.min(others)).into()
}

#[cfg(test)]
mod tests {
    use hugewise_model::configuration::Unit;
    use hugewise_model::host::User;
    use hugewise_model::process::CgroupMembership;

    use super::*;
    use crate::testing;

    fn process(pid: u32, parent: u32, uid: u32, cgroup: &str, executable: &str) -> Process {
        Process {
            pid,
            parent,
            uid,
            name: options::file_name(executable).into(),
            executable: Observed::Known(executable.into()),
            command: Observed::Known(vec![executable.into(), "-D".into(), "/data".into()]),
            directory: Observed::Known("/data".into()),
            cgroups: Observed::Known(
                [CgroupMembership { hierarchy: 0, controllers: Vec::new(), path: cgroup.into() }].into(),
            ),
            mappings: Observed::Known(Vec::new()),
            ..Process::default()
        }
    }

    fn host(processes: Vec<Process>, units: &[(&str, Option<&str>)]) -> Host {
        let mut host = Host { processes: testing::known(processes), ..Host::default() };
        for (uid, name) in [(0, "root"), (33, "www-data"), (101, "postgres"), (1205, "pgprod"), (4242, "mallory")] {
            host.accounts.users.insert(uid, User { name: name.into(), gid: uid, home: None });
        }
        host.configuration.units = units
            .iter()
            .map(|(name, user)| Unit {
                name: (*name).into(),
                user: user.map(str::to_owned).into(),
                files: vec![format!("/usr/lib/systemd/system/{name}")],
                ..Unit::default()
            })
            .collect();
        host
    }

    fn of(host: &Host, pid: u32) -> Vec<Voucher> {
        let found = crate::find(host, &hugewise_host::source::MapSource::new());
        let instance = found.instances.into_iter().find(|instance| instance.pid == pid).expect("an instance");
        instance.vouchers
    }

    const POSTGRES: &str = "/usr/lib/postgresql/15/bin/postgres";

    #[test]
    fn a_unit_speaks_for_what_it_runs_alone_as_its_user() {
        let units = [("pgprod.service", Some("pgprod")), ("cron.service", None), ("ssh.service", None)];
        let at = |unit: &str| format!("/system.slice/{unit}");
        let one = |uid, cgroup: &str| of(&host(vec![process(7, 1, uid, cgroup, POSTGRES)], &units), 7);
        assert_eq!(one(1205, &at("pgprod.service")), [Voucher::Unit]);
        assert_eq!(one(1205, "/database.slice/pgprod.service"), [Voucher::Unit]);
        let template = [("db@pgprod.service", Some("%i"))];
        let started = host(vec![process(7, 1, 1205, "/system.slice/db@pgprod.service", POSTGRES)], &template);
        assert_eq!(of(&started, 7), [Voucher::Unit]);
        // Somebody else in it; services that run what users give them; managers of users; units without files.
        assert_eq!(one(4242, &at("pgprod.service")), []);
        assert_eq!(one(4242, &at("cron.service")), []);
        assert_eq!(one(4242, &at("ssh.service")), []);
        assert_eq!(one(1205, "/user.slice/user-4242.slice/user@4242.service/app.slice/pgprod.service"), []);
        assert_eq!(one(1205, "/user@4242.service/app.slice/pgprod.service"), []);
        assert_eq!(one(1205, &at("unknown.service")), []);
    }

    #[test]
    fn a_unit_that_runs_more_than_the_server_does_not_speak_for_it() {
        let cgroup = "/system.slice/jobs.service";
        let units = [("jobs.service", Some("pgprod"))];
        let runner = process(5, 1, 1205, cgroup, "/usr/bin/runner");
        let below = process(7, 5, 1205, cgroup, POSTGRES);
        let beside = process(7, 1, 1205, cgroup, POSTGRES);
        assert_eq!(of(&host(vec![runner.clone(), below.clone()], &units), 7), []);
        assert_eq!(of(&host(vec![runner, beside], &units), 7), []);
        let script = process(5, 1, 1205, cgroup, "/usr/bin/bash");
        let helper = process(9, 7, 1205, cgroup, "/usr/bin/archiver");
        assert_eq!(of(&host(vec![script, below, helper], &units), 7), [Voucher::Unit]);
    }

    #[test]
    fn an_account_speaks_for_servers_of_its_kind() {
        let one = |uid, executable| of(&host(vec![process(7, 1, uid, "/", executable)], &[]), 7);
        assert_eq!(one(101, POSTGRES), [Voucher::Account]);
        assert_eq!(one(101, "/usr/sbin/mariadbd"), []);
        assert_eq!(one(33, POSTGRES), []);
        assert_eq!(one(4242, POSTGRES), []);
        assert_eq!(one(65534, POSTGRES), []);
    }

    #[test]
    fn root_speaks_for_what_it_runs_and_not_for_what_was_made_to_run_as_root() {
        assert_eq!(of(&host(vec![process(7, 1, 0, "/", "/usr/bin/redis-server")], &[]), 7), [Voucher::Root]);
        let called = Process { caller: Some(4242), ..process(7, 1, 0, "/", "/usr/bin/redis-server") };
        assert_eq!(of(&host(vec![called], &[]), 7), []);
        let renamed = Process { name: "ora_pmon_X".into(), ..process(7, 1, 0, "/", "/usr/bin/sudo") };
        let titled = Process { command: Observed::Known(vec!["ora_pmon_X".into()]), ..renamed };
        assert_eq!(of(&host(vec![titled.clone()], &[]), 7), []);
        assert_eq!(of(&host(vec![Process { name: "sudo".into(), ..titled }], &[]), 7), []);
    }

    #[test]
    fn of_strangers_without_end_a_few_are_looked_at() {
        let mut processes: Vec<Process> = (1000..3000).map(|pid| process(pid, 1, 4242, "/", POSTGRES)).collect();
        processes.push(process(3000, 1, 101, "/", POSTGRES));
        processes.push(process(3001, 1, 33, "/", POSTGRES));
        let found = crate::find(&host(processes, &[]), &hugewise_host::source::MapSource::new());
        let pids: Vec<u32> = found.instances.iter().map(|instance| instance.pid).collect();
        assert_eq!(pids.len(), MOST_STRANGERS + 2);
        assert!(pids.contains(&3000) && pids.contains(&3001));
        let said = found.unread.iter().find(|unread| unread.what == "servers of user mallory").unwrap();
        assert!(
            said.why.to_string().starts_with("only 32 that nothing vouches for are looked at; the 1968 "),
            "{}",
            said.why
        );
    }

    #[test]
    fn a_runtime_of_the_host_speaks_for_its_containers() {
        let one = |cgroup: &str, uid| {
            let mut process = process(7, 1, uid, cgroup, POSTGRES);
            process.namespaces.mount = Observed::Known(2);
            let mut host = host(vec![process], &[]);
            host.namespaces.mount = Observed::Known(1);
            of(&host, 7)
        };
        let id = "0123456789abcdef".repeat(4);
        assert_eq!(one(&format!("/system.slice/docker-{id}.scope"), 999), [Voucher::Container]);
        assert_eq!(
            one(&format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"), 999),
            [Voucher::Container]
        );
        assert_eq!(one(&format!("/docker/{id}"), 999), [Voucher::Container]);
        assert_eq!(
            one(&format!("/user.slice/user-4242.slice/user@4242.service/user.slice/libpod-{id}.scope"), 999),
            []
        );
        assert_eq!(one(&format!("/user@4242.service/docker-{id}.scope"), 999), []);
        assert_eq!(one("/system.slice/cron.service", 999), []);
    }
}
