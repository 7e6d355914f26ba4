use hugewise_host::source::MapSource;
use hugewise_model::configuration::{FileLocation, ServiceStart, ServiceUnit, StartCommand};
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
            [CgroupMembership { hierarchy: 0, controllers: Vec::new(), path: cgroup.into() }]
                .into(),
        ),
        mappings: Observed::Known(Vec::new()),
        ..Process::default()
    }
}

fn host(processes: Vec<Process>, units: &[(&str, Option<&str>)]) -> Host {
    let mut host = Host { processes: testing::known(processes), ..Host::default() };
    for (uid, name) in
        [(0, "root"), (33, "www-data"), (101, "postgres"), (1205, "pgprod"), (4242, "mallory")]
    {
        host.accounts.users.insert(uid, User { name: name.into(), gid: uid, home: None });
    }
    host.configuration.units = units
        .iter()
        .map(|(name, user)| ServiceUnit {
            name: (*name).into(),
            user: user.map(str::to_owned).into(),
            files: vec![format!("/usr/lib/systemd/system/{name}")],
            start: starts(&[POSTGRES]),
            ..ServiceUnit::default()
        })
        .collect();
    host
}

fn starts(words: &[&str]) -> ServiceStart {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let place = FileLocation { file: "/etc/systemd/system/db.service".into(), line: 4 };
    let command = StartCommand { bare_words: words.clone(), words, place };
    ServiceStart { commands: vec![command], ..ServiceStart::default() }
}

fn of(host: &Host, pid: u32) -> Vec<TrustReason> {
    let found = crate::find_instances(host, &hugewise_host::source::MapSource::new());
    let instance =
        found.instances.into_iter().find(|instance| instance.pid == pid).expect("an instance");
    instance.trusted_by
}

const POSTGRES: &str = "/usr/lib/postgresql/15/bin/postgres";

#[test]
fn a_unit_speaks_for_what_it_runs_alone_as_its_user() {
    let units = [("pgprod.service", Some("pgprod")), ("cron.service", None), ("ssh.service", None)];
    let at = |unit: &str| format!("/system.slice/{unit}");
    let one = |uid, cgroup: &str| of(&host(vec![process(7, 1, uid, cgroup, POSTGRES)], &units), 7);
    assert_eq!(one(1205, &at("pgprod.service")), [TrustReason::Unit]);
    assert_eq!(one(1205, "/database.slice/pgprod.service"), [TrustReason::Unit]);
    let template = [("db@pgprod.service", Some("%i"))];
    let started =
        host(vec![process(7, 1, 1205, "/system.slice/db@pgprod.service", POSTGRES)], &template);
    assert_eq!(of(&started, 7), [TrustReason::Unit]);
    // Somebody else in it; services that run what users give them; managers of users; units
    // without files.
    assert_eq!(one(4242, &at("pgprod.service")), []);
    assert_eq!(one(4242, &at("cron.service")), []);
    assert_eq!(one(4242, &at("ssh.service")), []);
    assert_eq!(
        one(1205, "/user.slice/user-4242.slice/user@4242.service/app.slice/pgprod.service"),
        []
    );
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
    assert_eq!(of(&host(vec![script, below, helper], &units), 7), [TrustReason::Unit]);
}

#[test]
fn an_account_speaks_for_servers_of_its_kind() {
    let one = |uid, executable| of(&host(vec![process(7, 1, uid, "/", executable)], &[]), 7);
    assert_eq!(one(101, POSTGRES), [TrustReason::Account]);
    assert_eq!(one(101, "/usr/sbin/mariadbd"), []);
    assert_eq!(one(33, POSTGRES), []);
    assert_eq!(one(4242, POSTGRES), []);
    assert_eq!(one(65534, POSTGRES), []);
}

#[test]
fn root_speaks_for_what_it_runs_and_not_for_what_was_made_to_run_as_root() {
    assert_eq!(
        of(&host(vec![process(7, 1, 0, "/", "/usr/bin/redis-server")], &[]), 7),
        [TrustReason::Root]
    );
    let called = Process { caller: Some(4242), ..process(7, 1, 0, "/", "/usr/bin/redis-server") };
    assert_eq!(of(&host(vec![called], &[]), 7), []);
    let renamed = Process { name: "ora_pmon_X".into(), ..process(7, 1, 0, "/", "/usr/bin/sudo") };
    let titled = Process { command: Observed::Known(vec!["ora_pmon_X".into()]), ..renamed };
    assert_eq!(of(&host(vec![titled.clone()], &[]), 7), []);
    assert_eq!(of(&host(vec![Process { name: "sudo".into(), ..titled }], &[]), 7), []);
}

#[test]
fn of_strangers_without_end_a_few_are_looked_at() {
    let mut processes: Vec<Process> =
        (1000..3000).map(|pid| process(pid, 1, 4242, "/", POSTGRES)).collect();
    processes.push(process(3000, 1, 101, "/", POSTGRES));
    processes.push(process(3001, 1, 33, "/", POSTGRES));
    let found =
        crate::find_instances(&host(processes, &[]), &hugewise_host::source::MapSource::new());
    let pids: Vec<u32> = found.instances.iter().map(|instance| instance.pid).collect();
    assert_eq!(pids.len(), MOST_STRANGERS + 2);
    assert!(pids.contains(&3000) && pids.contains(&3001));
    let said = found.unread.iter().find(|unread| unread.what == "servers of user mallory").unwrap();
    assert!(
        said.why
            .to_string()
            .starts_with("only 32 that nothing vouches for are looked at; the 1968 "),
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
    assert_eq!(one(&format!("/system.slice/docker-{id}.scope"), 999), [TrustReason::Container]);
    assert_eq!(
        one(&format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{id}.scope"), 999),
        [TrustReason::Container]
    );
    assert_eq!(one(&format!("/docker/{id}"), 999), [TrustReason::Container]);
    assert_eq!(
        one(
            &format!("/user.slice/user-4242.slice/user@4242.service/user.slice/libpod-{id}.scope"),
            999
        ),
        []
    );
    assert_eq!(one(&format!("/user@4242.service/docker-{id}.scope"), 999), []);
    assert_eq!(one("/system.slice/cron.service", 999), []);
}

fn trust_of(host: &Host, source: &MapSource, pid: u32) -> (Vec<TrustReason>, Vec<String>) {
    let found = crate::find_instances(host, source);
    let instance =
        found.instances.into_iter().find(|instance| instance.pid == pid).expect("an instance");
    let failed = instance.trust.failed.into_iter().map(|(_, why)| why).collect();
    (instance.trusted_by, failed)
}

/// A service that runs PostgreSQL as pgprod, started by `words`, on a live host of root's.
fn live(words: &[&str], more: Vec<Process>) -> (Host, MapSource) {
    let main = process(7, 1, 1205, "/system.slice/db.service", POSTGRES);
    let mut host = host([vec![main], more].concat(), &[("db.service", Some("pgprod"))]);
    host.live = true;
    host.configuration.units[0].start = starts(words);
    let owned = [
        "/usr/lib/systemd/system/db.service",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/system.slice",
        "/sys/fs/cgroup/system.slice/db.service",
    ];
    let programs = words.iter().copied().filter(|word| word.starts_with('/'));
    let owned = owned.into_iter().chain(programs);
    let source = owned.fold(MapSource::new(), |source, path| source.with_owner(path, 0));
    (host, source.with_executable_owner(7, 0))
}

#[test]
fn a_unit_speaks_for_what_its_files_start() {
    let by = |words: &[&str], source: fn(MapSource) -> MapSource| {
        let (host, map) = live(words, Vec::new());
        trust_of(&host, &source(map), 7)
    };
    let script = |owner: u32, text: &str| {
        let (host, map) = live(&["/opt/db/start"], Vec::new());
        trust_of(&host, &map.with_file("/opt/db/start", text).with_owner("/opt/db/start", owner), 7)
    };
    let unit = (vec![TrustReason::Unit], 3);
    let short = |(by, failed): (Vec<TrustReason>, Vec<String>)| (by, failed.len());
    assert_eq!(short(by(&[POSTGRES, "-D", "/d"], |map| map)), unit);
    assert_eq!(short(by(&["/usr/bin/pg_ctlcluster", "15", "main", "start"], |map| map)), unit);
    assert_eq!(short(by(&["/usr/bin/python3", "/usr/bin/patroni", "/etc/p.yml"], |map| map)), unit);
    assert_eq!(
        short(script(0, "#!/bin/sh\nexec /usr/lib/postgresql/15/bin/postgres -D /d\n")),
        unit
    );
    for (found, why) in [
        (by(&["/usr/bin/node", "/srv/app.js"], |map| map), "starts /usr/bin/node, not postgres"),
        (by(&["/usr/bin/python3", "/srv/postgres.py"], |map| map), "starts /srv/postgres.py, not"),
        (by(&[], |map| map), "starts nothing, not postgres"),
        (
            script(0, "#!/bin/sh\nexec node postgres_client.js my-postgres postgresql\n"),
            "not postgres",
        ),
        (script(0, "postgres"), "not postgres"),
        (script(1205, "#!/bin/sh\nexec postgres\n"), "/opt/db/start belongs to user 1205"),
        (
            by(&[POSTGRES], |map| map.with_owner("/usr/lib/systemd/system/db.service", 1205)),
            "db.service belongs to user 1205",
        ),
        (by(&[POSTGRES], |map| map.with_executable_owner(7, 1205)), "belongs to user 1205"),
    ] {
        assert_eq!(found.0, [], "{why}");
        assert!(found.1.iter().any(|failed| failed.contains(why)), "{why}: {:?}", found.1);
    }
}

/// Whoever owns a folder on the way puts another file of root's there, or a link into a namespace.
#[test]
fn a_unit_speaks_for_nothing_that_another_can_replace() {
    let script = "#!/bin/sh\nexec /usr/lib/postgresql/15/bin/postgres -D /d\n";
    let by = |words: &[&str], source: fn(MapSource) -> MapSource| {
        let (host, map) = live(words, Vec::new());
        trust_of(&host, &source(map.with_file("/opt/db/start", script)), 7)
    };
    assert_eq!(by(&["/opt/db/start"], |map| map).0, [TrustReason::Unit]);
    let patroni = ["/usr/bin/python3", "/opt/db/patroni", "/etc/p.yml"];
    assert_eq!(by(&patroni, |map| map).0, [TrustReason::Unit]);
    for (words, source, why) in [
        (
            &["/opt/db/start"][..],
            (|map| map.with_owner("/opt/db", 1205)) as fn(MapSource) -> MapSource,
            "/opt/db/start is not root's alone: /opt/db belongs to user 1205",
        ),
        (&patroni, |map| map.with_owner("/opt", 1205), "/opt belongs to user 1205"),
        (&patroni, |map| map.with_owner("/usr/bin/python3", 1205), "belongs to user 1205"),
        (&["/opt/db/mysqld_safe"], |map| map, "not postgres"),
        (
            &["/opt/db/pg_ctl"],
            |map| map.with_owner("/opt/db/pg_ctl", 1205),
            "/opt/db/pg_ctl belongs",
        ),
        (&[POSTGRES], |map| map.with_owner("/usr/lib/postgresql/15", 1205), "belongs to user 1205"),
        (&["/bin/sh", "postgres"], |map| map, "starts postgres, not"),
        (&["patroni"], |map| map, "patroni is not in /usr/local/sbin"),
        (
            &[POSTGRES],
            |map| map.with_owner("/usr/lib/systemd/system", 1205),
            "/usr/lib/systemd/system belongs to user 1205",
        ),
    ] {
        let (by, failed) = by(words, source);
        assert_eq!(by, [], "{words:?}");
        assert!(failed.iter().any(|failed| failed.contains(why)), "{why}: {failed:?}");
    }
    let found = by(&["pg_ctlcluster"], |map| map.with_owner("/usr/bin/pg_ctlcluster", 0));
    assert_eq!(found.0, [TrustReason::Unit], "systemd looks for it where only root writes");
}

/// A process writes its name itself (PR_SET_NAME), and by that alone Oracle's are known.
#[test]
fn a_unit_that_starts_another_program_speaks_for_no_server_by_name() {
    let (mut host, map) = live(&["/usr/bin/perl", "/srv/app.pl"], Vec::new());
    let named = |executable: &str| {
        let main = process(7, 1, 1205, "/system.slice/db.service", executable);
        Process {
            name: "ora_pmon_X".into(),
            command: Observed::Known(vec!["ora_pmon_X".into()]),
            ..main
        }
    };
    host.processes = testing::known(vec![named("/usr/bin/perl")]);
    let found = crate::find_instances(&host, &map);
    assert_eq!(found.instances[0].engine, Engine::Oracle);
    assert_eq!(trust_of(&host, &map, 7).0, []);
    host.processes = testing::known(vec![named("/opt/ora/bin/oracle")]);
    host.configuration.units[0].start = starts(&["/opt/ora/bin/dbstart", "/opt/ora"]);
    let map = map.with_owner("/opt/ora/bin/dbstart", 0);
    assert_eq!(trust_of(&host, &map, 7).0, [TrustReason::Unit]);
}

#[test]
fn variables_that_another_can_write_are_no_words_of_roots() {
    let by = |bare: &[&str], owners: &[(&str, u32)]| {
        let (mut host, mut map) = live(&["/usr/bin/perl", "/x/pg_ctl", "/srv/app.pl"], Vec::new());
        let start = &mut host.configuration.units[0].start;
        start.variable_places = vec!["/etc/default/db".into(), "/srv/db/env".into()];
        start.commands[0].bare_words = bare.iter().map(|word| (*word).to_owned()).collect();
        for (path, uid) in owners {
            map = map.with_owner(path, *uid);
        }
        trust_of(&host, &map, 7)
    };
    let perl = ["/usr/bin/perl", "/srv/app.pl"];
    assert_eq!(by(&perl, &[]).0, [TrustReason::Unit], "only root can put the files there");
    for taken in ["/srv/db/env", "/srv/db"] {
        let (reasons, failed) = by(&perl, &[(taken, 1205)]);
        assert_eq!(reasons, [], "{taken}");
        assert!(failed.iter().any(|why| why.contains("/srv/app.pl")), "{failed:?}");
        // What the unit itself names counts all the same.
        assert_eq!(by(&[POSTGRES], &[(taken, 1205), (POSTGRES, 0)]).0, [TrustReason::Unit]);
    }
}

/// Whoever can write one of these decides what the server is, or what it asks for.
#[test]
fn nobody_else_can_write_what_decides_on_a_server() {
    let words = ["/usr/bin/python3", "/usr/bin/patroni", "/etc/patroni/p.yml"];
    let command = Observed::Known(words.iter().map(|word| (*word).to_owned()).collect());
    let by = |uid: u32, taken: &str, owner: u32| {
        let (mut host, map) = live(&[POSTGRES], Vec::new());
        let patroni = process(5, 1, uid, "/system.slice/db.service", "/usr/bin/python3.11");
        let patroni = Process { command: command.clone(), ..patroni };
        let main = process(7, 5, uid, "/system.slice/db.service", POSTGRES);
        host.processes = testing::known(vec![patroni, main]);
        let start = &mut host.configuration.units[0].start;
        start.variable_places = vec!["/srv/db/env".into()];
        start.environment.insert("LD_PRELOAD".into(), "/srv/lib/a.so:/srv/lib/b.so".into());
        start.environment.insert("LD_LIBRARY_PATH".into(), "/srv/more".into());
        let map = map
            .with_file("/data/PG_VERSION", "15\n")
            .with_file("/data/postgresql.conf", "include_dir = 'conf.d'\n")
            .with_file("/data/conf.d/a.conf", "shared_buffers = 1GB\n")
            .with_file(
                "/proc/7/maps",
                "7f00-7f10 r-xp 00000000 fe:00 12 /srv/ld.so\n\
                 7f20-7f30 rw-s 00000000 00:01 13 /dev/zero (deleted)\n\
                 7f30-7f40 r--p 00000000 fe:00 14 /srv/messages.mo\n",
            );
        trust_of(&host, &map.with_owner(taken, owner), 7)
    };
    for taken in [
        "/usr/lib/postgresql",
        "/srv/ld.so",
        "/data",
        "/data/postgresql.conf",
        "/data/postgresql.auto.conf",
        "/data/conf.d",
        "/data/conf.d/a.conf",
        "/srv/db",
        "/srv/lib/b.so",
        "/srv/more",
        "/etc/patroni/p.yml",
    ] {
        for (uid, reason) in [(1205, TrustReason::Unit), (101, TrustReason::Account)] {
            let (reasons, failed) = by(uid, taken, 4242);
            assert_eq!(reasons, [], "{uid} {taken}");
            let why = format!("{taken} belongs to user 4242");
            assert!(failed.iter().any(|failed| failed.contains(&why)), "{why}: {failed:?}");
            // Folders of its programs have to be root's for a unit's word.
            if !taken.starts_with("/usr") {
                assert_eq!(by(uid, taken, uid).0, [reason], "{uid} {taken} is its own");
            }
            assert_eq!(by(uid, taken, 0).0, [reason], "{uid} {taken} is root's");
        }
    }
    for not_code in ["/srv/messages.mo", "/dev/zero"] {
        assert_eq!(by(1205, not_code, 4242).0, [TrustReason::Unit], "{not_code}");
    }
}

#[test]
fn an_account_made_for_servers_of_its_kind_may_write_for_another() {
    let by = |owner: u32| {
        let main = process(7, 1, 1300, "/", "/u01/app/oracle/bin/oracle");
        let main = Process {
            name: "ora_pmon_X".into(),
            command: Observed::Known(vec!["ora_pmon_X".into()]),
            ..main
        };
        let mut host = host(vec![main], &[]);
        for (uid, name) in [(1300, "oracle"), (1301, "grid")] {
            host.accounts.users.insert(uid, User { name: name.into(), gid: 1400, home: None });
        }
        host.live = true;
        trust_of(&host, &MapSource::new().with_owner("/u01/app", owner), 7).0
    };
    assert_eq!(by(1300), [TrustReason::Account]);
    assert_eq!(by(1301), [TrustReason::Account], "Grid Infrastructure's owns /u01/app");
    assert_eq!(by(4242), []);
}

#[test]
fn neither_root_nor_an_account_of_a_container_is_the_hosts() {
    let id = "0123456789abcdef".repeat(4);
    let docker = format!("/system.slice/docker-{id}.scope");
    let machine = "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt/emulator";
    let login = "/user.slice/user-101.slice/session-4.scope";
    let of_namespaces = |uid, cgroup: &str, [mount, pid, user]: [u64; 3]| {
        let mut main = process(7, 1, uid, cgroup, POSTGRES);
        (main.namespaces.mount, main.namespaces.pid, main.namespaces.user) =
            (Observed::Known(mount), Observed::Known(pid), Observed::Known(user));
        let mut host = host(vec![main], &[]);
        (host.namespaces.mount, host.namespaces.pid, host.namespaces.user) =
            (Observed::Known(1), Observed::Known(1), Observed::Known(1));
        let reasons = of(&host, 7);
        reasons.into_iter().filter(|reason| *reason != TrustReason::Container).collect::<Vec<_>>()
    };
    for (uid, reason) in [(0, TrustReason::Root), (101, TrustReason::Account)] {
        assert_eq!(of_namespaces(uid, "/", [1, 1, 1]), [reason]);
        // ProtectHome=, PrivateUsers=; a machine's /dev, a login's /tmp.
        assert_eq!(of_namespaces(uid, "/system.slice/db.service", [2, 1, 2]), [reason]);
        assert_eq!(of_namespaces(uid, machine, [2, 1, 1]), [reason]);
        assert_eq!(of_namespaces(uid, login, [2, 1, 1]), [reason]);
        for (cgroup, namespaces) in [
            (docker.as_str(), [2, 2, 1]),
            (docker.as_str(), [2, 1, 1]),
            (docker.as_str(), [1, 1, 1]),
            ("/", [2, 1, 1]),
            ("/", [1, 2, 1]),
            ("/", [1, 1, 2]),
            ("/system.slice/db.service", [2, 2, 1]),
            (login, [2, 2, 1]),
        ] {
            assert_eq!(of_namespaces(uid, cgroup, namespaces), [], "{uid} {cgroup} {namespaces:?}");
        }
    }
}

#[test]
fn a_unit_speaks_for_nothing_in_a_group_that_a_user_may_fill() {
    let (host, map) = live(&[POSTGRES], Vec::new());
    let its_own = map.clone().with_owner("/sys/fs/cgroup/system.slice/db.service", 1205);
    assert_eq!(trust_of(&host, &its_own, 7).0, [TrustReason::Unit], "delegated to its user");
    let taken = map.clone().with_owner("/sys/fs/cgroup/system.slice", 4242);
    let (by, failed) = trust_of(&host, &taken, 7);
    assert_eq!(by, []);
    assert!(failed.iter().any(|why| why.contains("belongs to user 4242")), "{failed:?}");
    let procs = "/sys/fs/cgroup/system.slice/cgroup.procs";
    assert_eq!(trust_of(&host, &map.with_owner(procs, 4242), 7).0, [], "by its file alone");
    let (host, _) = live(&[POSTGRES], Vec::new());
    assert_eq!(trust_of(&host, &MapSource::new(), 7).0, [], "nobody knows whose anything is");
}

#[test]
fn what_keeps_a_server_up_is_no_stranger_beside_it() {
    let patroni = |command: &[&str]| {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let process = process(5, 1, 1205, "/system.slice/db.service", "/usr/bin/python3.11");
        Process { command: Observed::Known(command), ..process }
    };
    let of_parent = |parent: Process| {
        let (host, map) = live(&["/usr/bin/patroni", "/etc/p.yml"], Vec::new());
        let main = process(7, 5, 1205, "/system.slice/db.service", POSTGRES);
        let host = Host { processes: testing::known(vec![parent, main]), ..host };
        trust_of(&host, &map, 7).0
    };
    assert_eq!(of_parent(patroni(&["/usr/bin/python3", "/usr/bin/patroni"])), [TrustReason::Unit]);
    assert_eq!(of_parent(patroni(&["/usr/bin/python3", "/srv/web.py"])), []);
}

#[test]
fn a_container_is_not_known_by_its_name_alone() {
    let id = "0123456789abcdef".repeat(4);
    let of_map = |uid_map: &str, owner: u32| {
        let group = format!("/delegated/{id}");
        let mut main = process(7, 1, 4242, &group, POSTGRES);
        main.namespaces.mount = Observed::Known(2);
        let mut host = host(vec![main], &[]);
        (host.namespaces.mount, host.live) = (Observed::Known(1), true);
        let source = MapSource::new()
            .with_owner("/sys/fs/cgroup", 0)
            .with_owner("/sys/fs/cgroup/delegated", owner)
            .with_owner(&format!("/sys/fs/cgroup{group}"), owner)
            .with_file("/proc/7/uid_map", uid_map);
        trust_of(&host, &source, 7).0
    };
    let hosts = "         0          0 4294967295\n";
    assert_eq!(of_map(hosts, 0), [TrustReason::Container]);
    assert_eq!(of_map("0 1000000 65536\n", 0), [TrustReason::Container], "a map of its own");
    assert_eq!(of_map(hosts, 4242), [], "whoever owns a group makes others of any name");
    assert_eq!(of_map("0 4242 1\n", 0), [], "an account of the host is root there");
    assert_eq!(of_map("1 4242 1\n", 0), [], "nobody is root there");
}

/// A capture of 2 MB had 20,000 servers of one account, and took 462 MiB.
#[test]
fn servers_without_end_are_left_out_and_named() {
    let servers = (10..5010).map(|pid| process(pid, 1, 101, "/", POSTGRES)).collect();
    let map = hugewise_host::source::MapSource::new();
    let found = crate::find_instances(&host(servers, &[]), &map);
    assert_eq!(found.instances.len(), 4096);
    let said: Vec<String> = found.unread.iter().map(|one| one.why.to_string()).collect();
    assert!(said.iter().any(|why| why.contains("only 4096 are looked at")), "{said:?}");
}
