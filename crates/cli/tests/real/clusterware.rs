//! An instance that Clusterware's agent starts, and the same that a log-in starts: processes, users, groups and limits are real, and
//! the kernel decides who may have huge pages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use hugewise_lab::guard::PoolGuard;
use hugewise_lab::require;
use hugewise_lab::standin::{Stage, Started};
use hugewise_model::{PageCount, PageSize};

use crate::harness::{self, Check, User, kernel};
use crate::namespace;
use crate::oracle::{self, Oracle};

const SHM_GROUP: &str = "/proc/sys/vm/hugetlb_shm_group";
/// A group of nobody else's.
const GROUP: u32 = 54_399;

/// A Grid home with the stack's programs; `init.ohasd` lowers memlock before it starts `ohasd.bin`.
struct Grid(tempfile::TempDir);

impl Grid {
    fn new() -> Self {
        let home = harness::folder();
        let bin = home.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let first = bin.join("ohasd.bin");
        fs::copy(oracle::program(), &first).unwrap();
        fs::set_permissions(&first, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["crsd.bin", "ocssd.bin", "oraagent.bin"] {
            fs::hard_link(&first, bin.join(name)).unwrap();
        }
        let script = home.path().join("init.ohasd");
        fs::write(&script, format!("#!/bin/sh\nulimit -l 64\n{} reboot\n", first.display())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        Self(home)
    }

    /// The stack, whose agent of this user starts what is given.
    fn start(&self, user: &User, starts: Vec<Started>) -> Command {
        let program = |name: &str| self.0.path().join("bin").join(name);
        let alone = |name: &str, stage| Started { program: program(name), arguments: Vec::new(), stage: Some(stage) };
        let agent = Stage { user: Some((user.uid, user.gid)), starts };
        let all = ["crsd.bin", "ocssd.bin"].map(|name| alone(name, Stage::default()));
        let stage = Stage { user: None, starts: all.into_iter().chain([alone("oraagent.bin", agent)]).collect() };
        let mut command = Command::new(self.0.path().join("init.ohasd"));
        command.arg("run");
        stage.order(&mut command).unwrap();
        command
    }
}

fn agents() -> Vec<u32> {
    kernel::processes(|command| command.ends_with("/bin/oraagent.bin\0"))
}

/// The instance's finding of who starts it.
fn told(checked: &Check, oracle: &Oracle) -> String {
    let all = checked.json["findings"].as_array().unwrap();
    let of = checked.instance("oracle", oracle.pid)["name"].as_str().unwrap().to_owned();
    let found = all.iter().find(|it| it["code"] == "HW305" && it["instance"].to_string().contains(&of));
    found.unwrap_or_else(|| panic!("no HW305: {all:#?}"))["summary"].as_str().unwrap().to_owned()
}

/// The agent was started before its user came to the group: the kernel refuses its instance what it gives a log-in's.
#[test]
fn an_agent_without_the_group_starts_on_base_pages_and_a_log_in_on_huge_ones() {
    if !require!(namespace::inside(
        "clusterware::an_agent_without_the_group_starts_on_base_pages_and_a_log_in_on_huge_ones"
    )) {
        return;
    }
    let user = require!(User::named("nobody"));
    let guard = require!(PoolGuard::take());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(300)));
    require!(guard.set_switch(SHM_GROUP, &GROUP.to_string()));
    let groups = fs::read_to_string("/etc/group").unwrap();
    fs::write("/etc/group", format!("{groups}hugepages:x:{GROUP}:nobody\n")).unwrap();
    let grid = Grid::new();
    let arguments = ["--segments", "300M", "--pages", "2M", "--fall-back"];

    let by_agent = |oracle: &Path, words: &[String]| {
        let arguments = words.to_vec();
        grid.start(&user, vec![Started { program: oracle.to_owned(), arguments, stage: None }])
    };
    let oracle = Oracle::start_by("SRV", "", &arguments, by_agent);
    assert_eq!(oracle.refused, ["Operation not permitted (os error 1)"]);
    let [agent] = agents()[..] else { panic!("{:?}", agents()) };
    // What the script has lowered is what agent and instance have.
    for pid in [agent, oracle.pid] {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max locked memory")).unwrap();
        assert_eq!(line.split_whitespace().nth(3), Some("65536"), "{limits}");
    }
    let checked = harness::check();
    checked.assert_verdict("oracle", oracle.pid, "none", Some("permission"));
    let said = told(&checked, &oracle);
    assert!(said.contains("started with sqlplus it gets huge pages, with srvctl it does not"), "{said}");
    drop(oracle);

    // The stack runs on, and a log-in with the group starts the instance.
    let mut stack = grid.start(&user, Vec::new()).stdin(std::process::Stdio::piped()).spawn().unwrap();
    harness::wait_for("the agent runs", || (agents().len() == 1).then_some(()));
    let by_log_in = |oracle: &Path, words: &[String]| {
        let mut command = Command::new("setpriv");
        let ids = [format!("--reuid={}", user.uid), format!("--regid={}", user.gid), format!("--groups={GROUP}")];
        command.args(ids).arg(oracle).args(words);
        command
    };
    let oracle = Oracle::start_by("LOGIN", "", &arguments, by_log_in);
    assert!(oracle.refused.is_empty(), "{:?}", oracle.refused);
    let checked = harness::check();
    checked.assert_verdict("oracle", oracle.pid, "all", None);
    assert_eq!(told(&checked, &oracle).replace("LOGIN", "SRV"), said);
    drop(oracle);
    drop(stack.stdin.take());
    stack.wait().unwrap();
}
