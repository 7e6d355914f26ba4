//! Where root writes and what it restarts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hugewise_change::plan::{CommandChange, FileChange};
use hugewise_change::{Risk, Step};
use hugewise_lab::guard::PoolGuard;
use hugewise_testkit::{Skip, require};

use super::{Attacker, Fake, Looks};
use crate::real::harness::{self, HUGEWISE};
use crate::real::namespace::{self, State, assert_same};

fn run(arguments: &[&str]) -> Output {
    Command::new(HUGEWISE).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Folders in which a file too many is a lost host.
const FOLDERS: [&str; 5] = [
    "/etc/ssh/sshd_config.d",
    "/etc/apt/apt.conf.d",
    "/etc/sudoers.d",
    "/etc/ld.so.conf.d",
    "/etc/systemd/system.conf.d",
];

#[test]
fn no_file_is_written_where_a_stranger_says() {
    if !require!(namespace::inside("attacks::plans::no_file_is_written_where_a_stranger_says")) {
        return;
    }
    let _guard = require!(PoolGuard::take_for_test());
    let attacker = require!(Attacker::new());
    for folder in FOLDERS {
        fs::create_dir_all(folder).unwrap();
        let settings =
            format!("shared_buffers = 1200MB\nhuge_pages = off\ninclude_dir = '{folder}'\n");
        let data = attacker.postgresql("data", &settings);
        let fake = require!(Fake::postgres(&attacker, &data, 1300, 64));
        let handle = format!("postgresql data pid {}", fake.pid);
        let name = harness::text(&harness::check().instance("postgresql", fake.pid)["name"]);
        let handle = if handle.contains(&name) {
            handle
        } else {
            format!("postgresql {name} pid {}", fake.pid)
        };
        for more in [&[][..], &["--instance", &handle]] {
            let before = State::etc();
            let options = ["apply", "--yes", "--only", "boot"];
            let output = run(&[&options, more].concat());
            // By name its pool may be kept for the boot; nothing goes where it says.
            let after = State::etc();
            let there = |path: &Path| FOLDERS.iter().any(|folder| path.starts_with(folder));
            let elsewhere = |state: State| state.without(|path| !there(path));
            assert_same(&elsewhere(before), &elsewhere(after));
            let planned = text(&run(&[&["plan", "--only", "boot"], more].concat()));
            assert!(!planned.contains(&format!("{folder}/zz-")), "{planned}\n{}", text(&output));
        }
    }
}

/// Commands that `systemctl` was run with, by a stand-in for it.
struct Systemctl(PathBuf);

impl Systemctl {
    fn install() -> Result<Self, Skip> {
        harness::program(&["/usr/bin/systemctl"])?;
        let log = PathBuf::from("/etc/systemctl.log");
        let script = format!("#!/bin/sh\necho \"$@\" >>{}\n", log.display());
        let made = Path::new("/etc/systemctl-stand-in");
        fs::write(made, script).unwrap();
        fs::set_permissions(made, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        for place in ["/usr/bin/systemctl", "/usr/bin/pg_ctlcluster"]
            .map(Path::new)
            .into_iter()
            .filter(|path| path.exists())
        {
            harness::must(Command::new("mount").arg("--bind").arg(made).arg(place));
        }
        Ok(Self(log))
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.0).unwrap_or_default()
    }
}

/// A cgroup of the unified hierarchy, removed when dropped; the processes in it have to be gone by
/// then.
pub(super) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes one below the slice of tests, named as the attacker would have it.
    pub(super) fn new(path: &str) -> Result<Self, Skip> {
        let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let root = root.into_iter().find(|root| root.join("cgroup.procs").exists());
        let root = root.ok_or_else(|| Skip("no unified cgroup hierarchy".into()))?;
        let path = root.join(path);
        fs::create_dir_all(&path).map_err(|error| Skip(format!("{}: {error}", path.display())))?;
        Ok(Self { path })
    }

    pub(super) fn move_process(&self, pid: u32) -> Result<(), Skip> {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
            .map_err(|error| Skip(format!("cgroup.procs: {error}")))
    }
}

/// What he starts in the control group of a service.
pub(super) fn start_in_service(
    attacker: &Attacker,
    looks: &Looks<'_>,
) -> Result<(Fake, Cgroup), Skip> {
    let fake = Fake::start(attacker, looks)?;
    let place = Cgroup::new("system.slice/hw-web.service")?;
    place.move_process(fake.pid)?;
    Ok((fake, place))
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let mut path = self.path.as_path();
        while path.file_name().is_some_and(|name| name.to_string_lossy().contains('.'))
            && fs::remove_dir(path).is_ok()
        {
            let Some(parent) = path.parent() else { break };
            path = parent;
        }
    }
}

#[test]
fn no_unit_is_restarted_that_a_stranger_has_chosen() {
    if !require!(namespace::inside(
        "attacks::plans::no_unit_is_restarted_that_a_stranger_has_chosen"
    )) {
        return;
    }
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(hugewise_model::PageSize::MIB_2, hugewise_model::PageCount(600)));
    let attacker = require!(Attacker::new());
    let systemctl = require!(Systemctl::install());
    let data = attacker.postgresql("15/main", "shared_buffers = 600MB\nhuge_pages = try\n");
    for cgroup in [
        // A manager of his own, in which he names units as he likes.
        "user.slice/user-4242.slice/user@4242.service/app.slice/ssh.service",
        "user@4242.service/app.slice/ssh.service",
        // What cron and sshd start for him stays in their services.
        "system.slice/cron.service",
        "system.slice/ssh.service",
    ] {
        let fake = require!(Fake::postgres(&attacker, &data, 620, 620));
        let place = require!(Cgroup::new(cgroup));
        require!(place.move_process(fake.pid));
        let checked = harness::check();
        let name = harness::text(&checked.instance("postgresql", fake.pid)["name"]);
        let handle = format!(
            "postgresql {} pid {}",
            name.replace(&format!(" pid {}", fake.pid), ""),
            fake.pid
        );
        let shown = text(&run(&["check", "-v"]));
        assert!(
            !shown.contains("systemctl") && !shown.contains("pg_ctlcluster"),
            "{cgroup}:\n{shown}"
        );
        let before = State::etc();
        for options in [
            vec!["--restart", &name],
            vec!["--restart", &handle],
            vec!["--restart", &handle, "--instance", &handle],
        ] {
            let planned = text(&run(&[&["plan"], options.as_slice()].concat()));
            assert!(
                !planned.contains("systemctl restart") && !planned.contains("pg_ctlcluster"),
                "{cgroup}:\n{planned}"
            );
            run(&[&["apply", "--yes", "--only", "now"], options.as_slice()].concat());
        }
        assert!(!systemctl.said().contains("restart"), "{cgroup}: {}", systemctl.said());
        drop((fake, before));
    }
}

/// Whoever breaks into a service can start root's own programs in it, with arguments of his choice.
#[test]
fn no_unit_vouches_for_a_program_that_it_never_names() {
    if !require!(namespace::inside(
        "attacks::plans::no_unit_vouches_for_a_program_that_it_never_names"
    )) {
        return;
    }
    let _guard = require!(PoolGuard::take_for_test());
    let attacker = require!(Attacker::new());
    let data = attacker.postgresql("data", "shared_buffers = 600MB\nhuge_pages = try\n");
    let data_text = data.to_str().unwrap();
    let looks = Looks {
        program: "/usr/sbin/postgres",
        arguments: &["-D", data_text],
        directory: &data,
        memory: "anon",
        mapped: 620,
        touched: 620,
    };
    for (starts, is_vouched) in [
        ("/usr/bin/node /srv/app/server.js".to_owned(), false),
        ("/usr/bin/python3 /srv/postgres.py".to_owned(), false),
        ("/bin/sh -c true".to_owned(), false),
        (format!("/usr/sbin/postgres -D {data_text}"), true),
    ] {
        let unit = format!("[Service]\nUser=4242\nExecStart={starts}\n");
        fs::write("/etc/systemd/system/hw-web.service", unit).unwrap();
        let (fake, _place) = require!(start_in_service(&attacker, &looks));
        let checked = harness::check();
        let instance = checked.instance("postgresql", fake.pid);
        let vouched = instance["vouched_by"].as_array().unwrap();
        assert_eq!(!vouched.is_empty(), is_vouched, "{starts}: {:#}", instance["trust"]);
        if !is_vouched {
            let shown = text(&run(&["check", "-v"]));
            assert!(shown.contains("hw-web.service starts"), "{starts}: {shown}");
            let before = State::etc();
            run(&["apply", "--yes", "--only", "boot"]);
            assert_same(&before, &State::etc());
        }
        drop(fake);
    }
}

/// To whom a control group is delegated he names groups in it as he likes, and enters namespaces of
/// his own in it.
#[test]
fn no_container_is_known_by_the_name_of_its_group() {
    if !require!(namespace::inside(
        "attacks::plans::no_container_is_known_by_the_name_of_its_group"
    )) {
        return;
    }
    let attacker = require!(Attacker::new());
    let data = attacker.postgresql("data", "shared_buffers = 600MB\nhuge_pages = try\n");
    let looks = Looks {
        program: "postgres",
        arguments: &["-D", data.to_str().unwrap()],
        directory: &data,
        memory: "anon",
        mapped: 620,
        touched: 620,
    };
    for owner in [4242, 0] {
        let scope = format!("hw-delegated.d/docker-{}.scope", "0123456789abcdef".repeat(4));
        let place = require!(Cgroup::new(&scope));
        std::os::unix::fs::chown(place.path.parent().unwrap(), Some(owner), None).unwrap();
        let in_namespaces = |_: &Path| {
            let mut command = attacker.command("unshare");
            command.args(["--user", "--map-root-user", "--mount", "bash"]);
            command
        };
        let fake = require!(Fake::start_by(&attacker, &looks, in_namespaces));
        require!(place.move_process(fake.pid));
        let checked = harness::check();
        let instance = checked.instance("postgresql", fake.pid);
        // Where the group is root's, it is the namespace that is not.
        assert_eq!(instance["vouched_by"].as_array().map(Vec::len), Some(0), "{instance:#}");
        drop(fake);
    }
}

/// What a plan file asks for is done where the host's own plan has it too, and nothing else is.
#[test]
fn a_plan_from_elsewhere_does_nothing_that_this_host_would_not() {
    if !require!(namespace::inside(
        "attacks::plans::a_plan_from_elsewhere_does_nothing_that_this_host_would_not"
    )) {
        return;
    }
    let _guard = require!(PoolGuard::take_for_test());
    let attacker = require!(Attacker::new());
    let folder = harness::folder();
    let path = folder.path().join("plan.json");
    let before = State::etc();
    let step = |id: &str| Step::new(id, "609 pages of 2 MiB at each boot", Risk::Safe, "why");
    let socket = attacker.home().to_str().unwrap();
    let forged = [
        step("memlock").with_change(FileChange::write(
            "/etc/systemd/system/ssh.service.d/hugewise.conf",
            "[Service]\nLimitMEMLOCK=0\n",
        )),
        step("shm-group").with_change(FileChange::write(
            "/etc/sysctl.d/zz-hugewise-shm-group.conf",
            "vm.hugetlb_shm_group = 4242\n",
        )),
        step("overcommit").with_change(FileChange::write(
            "/etc/sysctl.d/zz-hugewise-oc.conf",
            "vm.nr_overcommit_hugepages = 1000000000\n",
        )),
        step("pool-2M-boot").with_change(FileChange::write(
            "/etc/sysctl.d/zz-hugewise-pool.conf",
            "vm.nr_hugepages = 609\n",
        )),
        step("settings").with_change(
            CommandChange::new(
                [
                    "/usr/bin/psql",
                    "-X",
                    "-h",
                    socket,
                    "-p",
                    "5999",
                    "-d",
                    "postgres",
                    "-c",
                    "ALTER SYSTEM SET huge_pages = 'on'",
                ],
                "why",
            )
            .as_user("www-data")
            .with_rewritten_file(format!("{socket}/postgresql.auto.conf")),
        ),
    ];
    for step in forged {
        fs::write(&path, crate::real::plans::plan(vec![step.clone()]).to_json()).unwrap();
        let output = run(&["apply", path.to_str().unwrap(), "--yes"]);
        assert_eq!(output.status.code(), Some(2), "{step:?}\n{}", text(&output));
        let said = text(&output);
        assert!(said.contains("nothing was changed"), "{said}");
        assert!(!said.contains("609 pages"), "the file's own words: {said}");
        assert_same(&before, &State::etc());
    }
}

/// Options in a plan file are its author's: for a stranger whoever applies it has to speak too.
#[test]
fn a_plan_file_vouches_for_nobody() {
    if !require!(namespace::inside("attacks::plans::a_plan_file_vouches_for_nobody")) {
        return;
    }
    let _guard = require!(PoolGuard::take_for_test());
    let attacker = require!(Attacker::new());
    let data = attacker.postgresql("data", "shared_buffers = 600MB\nhuge_pages = try\n");
    let fake = require!(Fake::postgres(&attacker, &data, 620, 620));
    let name = harness::text(&harness::check().instance("postgresql", fake.pid)["name"]);
    let pid = format!(" pid {}", fake.pid);
    let handle = format!("postgresql {}{pid}", name.replace(&pid, ""));
    let folder = harness::folder();
    let path = folder.path().join("plan.json");
    let path = path.to_str().unwrap();
    let made = run(&["plan", "--only", "boot", "--instance", &handle, "--out", path]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made));
    let before = State::etc();
    let refused = run(&["apply", path, "--yes"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("--instance"), "{}", text(&refused));
    assert_same(&before, &State::etc());
    let done = run(&["apply", path, "--yes", "--instance", &handle]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done));
    assert!(Path::new("/etc/sysctl.d/zz-hugewise-pool.conf").exists());
}

/// Whoever writes a plan file can have it say anything: root restarts by what it knows itself.
#[test]
fn a_plan_from_elsewhere_restarts_no_other_unit() {
    if !require!(namespace::inside("attacks::plans::a_plan_from_elsewhere_restarts_no_other_unit"))
    {
        return;
    }
    let _guard = require!(PoolGuard::take_for_test());
    let systemctl = require!(Systemctl::install());
    let folder = harness::folder();
    let path = folder.path().join("plan.json");
    let before = State::etc();
    let step = |id: &str| Step::new(id, "title", Risk::Restart, "why");
    let steps = [
        step("restart").with_change(CommandChange::new(
            ["/usr/bin/systemctl", "restart", "ssh.service"],
            "why",
        )),
        step("restart").with_change(CommandChange::new(
            ["/usr/bin/systemctl", "restart", "systemd-logind.service"],
            "why",
        )),
        step("restart").with_change(CommandChange::new(
            ["/usr/bin/pg_ctlcluster", "15", "main", "restart"],
            "why",
        )),
        step("conf").with_change(FileChange::write(
            "/etc/ssh/sshd_config.d/zz-hugewise.conf",
            "huge_pages = on\n",
        )),
        step("conf").with_change(FileChange::write(
            "/etc/apt/apt.conf.d/hugewise.conf",
            "huge_pages = on\n",
        )),
        step("conf").with_change(FileChange::write(
            "/home/mallory/conf.d/zz-hugewise.conf",
            "huge_pages = on\n",
        )),
    ];
    for step in steps {
        fs::write(&path, crate::real::plans::plan(vec![step.clone()]).to_json()).unwrap();
        let output = run(&["apply", path.to_str().unwrap(), "--yes"]);
        assert_eq!(output.status.code(), Some(2), "{step:?}\n{}", text(&output));
        assert!(text(&output).contains("nothing was changed"), "{}", text(&output));
        assert_same(&before, &State::etc());
    }
    assert_eq!(systemctl.said(), "");
}

/// A file's word would have clients run, also in the folders of strangers, before anybody is asked.
#[test]
fn a_plan_file_has_no_server_asked_by_itself() {
    if !require!(namespace::inside("attacks::plans::a_plan_file_has_no_server_asked_by_itself")) {
        return;
    }
    let made = run(&["plan", "--format", "json"]);
    let mut plan = hugewise_change::Plan::from_json(&made.stdout).unwrap();
    plan.options = vec!["--connect".into()];
    plan.seal();
    let file = harness::folder();
    let path = file.path().join("plan.json");
    fs::write(&path, serde_json::to_vec(&plan).unwrap()).unwrap();
    let path = path.to_str().unwrap();
    let refused = run(&["apply", "--yes", path]);
    let said = text(&refused);
    assert!(refused.status.code() == Some(2) && said.contains("add --connect"), "{said}");
}
