//! Where root writes and what it restarts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hugewise_change::plan::{CommandChange, FileChange};
use hugewise_change::{Risk, Step};
use hugewise_lab::guard::{PoolGuard, Skip};
use hugewise_lab::require;

use super::{Attacker, Fake};
use crate::harness::{self, HUGEWISE};
use crate::namespace::{self, State, assert_same};

fn run(arguments: &[&str]) -> Output {
    Command::new(HUGEWISE).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
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
    let _guard = require!(PoolGuard::take());
    let attacker = require!(Attacker::new());
    for folder in FOLDERS {
        fs::create_dir_all(folder).unwrap();
        let settings = format!("shared_buffers = 1200MB\nhuge_pages = off\ninclude_dir = '{folder}'\n");
        let data = attacker.postgresql("data", &settings);
        let fake = require!(Fake::postgres(&attacker, &data, 1300, 64));
        let handle = format!("postgresql data pid {}", fake.pid);
        let name = harness::text(&harness::check().instance("postgresql", fake.pid)["name"]);
        let handle = if handle.contains(&name) { handle } else { format!("postgresql {name} pid {}", fake.pid) };
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
        for place in
            ["/usr/bin/systemctl", "/usr/bin/pg_ctlcluster"].map(Path::new).into_iter().filter(|it| it.exists())
        {
            harness::must(Command::new("mount").arg("--bind").arg(made).arg(place));
        }
        Ok(Self(log))
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.0).unwrap_or_default()
    }
}

/// A cgroup of the unified hierarchy, removed when dropped; the processes in it have to be gone by then.
struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes one below the slice of tests, named as the attacker would have it.
    fn new(path: &str) -> Result<Self, Skip> {
        let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let root = root.into_iter().find(|root| root.join("cgroup.procs").exists());
        let root = root.ok_or_else(|| Skip("no unified cgroup hierarchy".into()))?;
        let path = root.join(path);
        fs::create_dir_all(&path).map_err(|error| Skip(format!("{}: {error}", path.display())))?;
        Ok(Self { path })
    }

    fn take(&self, pid: u32) -> Result<(), Skip> {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
            .map_err(|error| Skip(format!("cgroup.procs: {error}")))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let mut path = self.path.as_path();
        while path.file_name().is_some_and(|name| name.to_string_lossy().contains('.')) && fs::remove_dir(path).is_ok()
        {
            let Some(parent) = path.parent() else { break };
            path = parent;
        }
    }
}

#[test]
fn no_unit_is_restarted_that_a_stranger_has_chosen() {
    if !require!(namespace::inside("attacks::plans::no_unit_is_restarted_that_a_stranger_has_chosen")) {
        return;
    }
    let guard = require!(PoolGuard::take());
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
        require!(place.take(fake.pid));
        let checked = harness::check();
        let name = harness::text(&checked.instance("postgresql", fake.pid)["name"]);
        let handle = format!("postgresql {} pid {}", name.replace(&format!(" pid {}", fake.pid), ""), fake.pid);
        let shown = text(&run(&["check", "-v"]));
        assert!(!shown.contains("systemctl") && !shown.contains("pg_ctlcluster"), "{cgroup}:\n{shown}");
        let before = State::etc();
        for options in
            [vec!["--restart", &name], vec!["--restart", &handle], vec!["--restart", &handle, "--instance", &handle]]
        {
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

/// Whoever writes a plan file can have it say anything: root restarts by what it knows itself.
#[test]
fn a_plan_from_elsewhere_restarts_no_other_unit() {
    if !require!(namespace::inside("attacks::plans::a_plan_from_elsewhere_restarts_no_other_unit")) {
        return;
    }
    let _guard = require!(PoolGuard::take());
    let systemctl = require!(Systemctl::install());
    let folder = harness::folder();
    let path = folder.path().join("plan.json");
    let before = State::etc();
    let step = |id: &str| Step::new(id, "title", Risk::Restart, "why");
    let steps = [
        step("restart").change(CommandChange::new(["/usr/bin/systemctl", "restart", "ssh.service"], "why")),
        step("restart").change(CommandChange::new(["/usr/bin/systemctl", "restart", "systemd-logind.service"], "why")),
        step("restart").change(CommandChange::new(["/usr/bin/pg_ctlcluster", "15", "main", "restart"], "why")),
        step("conf").change(FileChange::write("/etc/ssh/sshd_config.d/zz-hugewise.conf", "huge_pages = on\n")),
        step("conf").change(FileChange::write("/etc/apt/apt.conf.d/hugewise.conf", "huge_pages = on\n")),
        step("conf").change(FileChange::write("/home/mallory/conf.d/zz-hugewise.conf", "huge_pages = on\n")),
    ];
    for step in steps {
        fs::write(&path, crate::plans::plan(vec![step.clone()]).to_json()).unwrap();
        let output = run(&["apply", path.to_str().unwrap(), "--yes"]);
        assert_eq!(output.status.code(), Some(2), "{step:?}\n{}", text(&output));
        assert!(text(&output).contains("nothing was changed"), "{}", text(&output));
        assert_same(&before, &State::etc());
    }
    assert_eq!(systemctl.said(), "");
}
