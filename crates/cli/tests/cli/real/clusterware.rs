//! An instance that Clusterware's agent starts, and the same that a login starts: processes,
//! accounts, groups, limits, segments and connections are real, and the kernel decides who may have
//! huge pages.
//!
//! From Linux 5.16 on a group decides, and no memlock limit; what limits do on older kernels is for
//! `cargo xtask vm kernels`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;

use crate::real::harness::{self, Check, User, kernel};
use crate::real::namespace;
use crate::real::oracle::{self, Oracle};

const SHM_GROUP: &str = "/proc/sys/vm/hugetlb_shm_group";
/// The group for huge pages, which nobody else here has.
const GROUP: u32 = 54_399;
/// The account that owns the database.
const ORACLE: User = User { uid: 54_321, gid: 54_322 };

/// A segment of 300 MB, and 100 sessions of 25 clients.
const SERVER: [&str; 9] = [
    "--segments",
    "300M",
    "--pages",
    "2M",
    "--fall-back",
    "--sparse",
    "--sessions=100",
    "--clients",
    "25",
];

/// A Grid home with the stack's programs; `init.ohasd` lowers memlock before it starts `ohasd.bin`.
struct Grid(tempfile::TempDir);

impl Grid {
    fn new() -> Self {
        let home = harness::folder();
        let bin = home.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in ["ohasd.bin", "crsd.bin", "ocssd.bin", "oraagent.bin"] {
            fs::copy(oracle::program(), bin.join(name)).unwrap();
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let script = home.path().join("init.ohasd");
        fs::write(
            &script,
            format!("#!/bin/sh\nulimit -l 64\nexec {} reboot\n", bin.join("ohasd.bin").display()),
        )
        .unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        Self(home)
    }

    /// The stack, whose agent starts these, each a program and its words.
    fn start(&self, starts: &[Vec<String>]) -> Command {
        let lines: String = starts.iter().map(|words| words.join("\t") + "\n").collect();
        fs::write(self.0.path().join("orders"), format!("{}:{}\n{lines}", ORACLE.uid, ORACLE.gid))
            .unwrap();
        let mut command = Command::new(self.0.path().join("init.ohasd"));
        command.arg("run");
        command
    }
}

/// A stack that starts nothing more.
struct Stack(Child);

impl Drop for Stack {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn agents() -> Vec<u32> {
    kernel::processes(|command| command.ends_with("/bin/oraagent.bin\0"))
}

fn words_of(checked: &Check, code: &str) -> String {
    let all = checked.json["findings"].as_array().unwrap();
    let found = all
        .iter()
        .find(|json| json["code"] == code)
        .unwrap_or_else(|| panic!("no {code}: {all:#?}"));
    format!("{} {}", found["summary"], found["evidence"])
}

fn soft_memlock(pid: u32) -> String {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max locked memory")).unwrap();
    line.split_whitespace().nth(3).unwrap().to_owned()
}

/// The agent was started without the group that its user has: the kernel refuses its instance what
/// it gives a login's.
#[test]
fn an_agent_without_the_group_starts_on_base_pages_and_a_log_in_on_huge_ones() {
    if !require!(namespace::inside(
        "clusterware::an_agent_without_the_group_starts_on_base_pages_and_a_log_in_on_huge_ones"
    )) {
        return;
    }
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(200)));
    require!(guard.set_switch(SHM_GROUP, &GROUP.to_string()));
    let add = |file: &str, line: &str| {
        let text = fs::read_to_string(file).unwrap();
        fs::write(file, format!("{text}{line}\n")).unwrap();
    };
    add("/etc/passwd", &format!("oracle:x:{}:{}::/nonexistent:/bin/sh", ORACLE.uid, ORACLE.gid));
    add("/etc/group", &format!("oinstall:x:{}:", ORACLE.gid));
    add("/etc/group", &format!("hugepages:x:{GROUP}:oracle"));
    let grid = Grid::new();

    let by_agent = |oracle: &Path, words: &[String]| {
        let program = oracle.to_string_lossy().into_owned();
        grid.start(&[std::iter::once(program).chain(words.iter().cloned()).collect()])
    };
    let oracle = Oracle::start_by("SRV", "processes=150", &SERVER, by_agent);
    assert_eq!(oracle.refused, ["Operation not permitted (os error 1)"]);
    let [agent] = agents()[..] else { panic!("{:?}", agents()) };
    // What the script has lowered is what agent and instance have.
    assert_eq!([soft_memlock(agent), soft_memlock(oracle.pid)], ["65536", "65536"]);
    let sessions = kernel::processes(|command| command.starts_with("oracleSRV"));
    let background =
        kernel::processes(|command| command.starts_with("ora_") && command.ends_with("_SRV\0"));
    let tables = || -> u64 {
        sessions
            .iter()
            .chain(&background)
            .map(|pid| kernel::status(*pid, "VmPTE:").unwrap() << 10)
            .sum()
    };
    let (checked, tables) = harness::steady(tables, harness::check);
    checked.assert_verdict("oracle", oracle.pid, "none", Some("mapped"));
    let instance = checked.instance("oracle", oracle.pid);
    assert_eq!((instance["sessions"].as_u64(), sessions.len()), (Some(100), 100));
    assert_eq!(instance["page_tables_bytes"], tables);
    assert_eq!(harness::segment_bytes(instance, false), 300 * harness::MIB);
    // A start by the agent ends as it did, as it has the agent's groups and limits.
    assert_eq!(instance["moments"]["restart"]["state"], "none", "{:#}", instance["moments"]);
    let said = words_of(&checked, "HW305");
    assert!(
        said.contains("started with sqlplus it gets huge pages, with srvctl it does not"),
        "{said}"
    );
    assert!(
        said.contains(&format!("oraagent.bin (pid {agent})")) && said.contains(&GROUP.to_string()),
        "{said}"
    );
    let said = words_of(&checked, "HW301");
    assert!(said.contains("has one of 64 KiB"), "{said}");
    // The clients by the sockets of the server's processes; with more processors 100 sessions are
    // no crowd.
    if std::thread::available_parallelism().unwrap().get() <= 2 {
        let said = words_of(&checked, "HW103");
        assert!(said.contains("25 clients have 4 sessions each"), "{said}");
    }
    drop(oracle);
    harness::wait_for("the stack has ended", || agents().is_empty().then_some(()));

    // The stack runs on, and a login with the group starts the instance.
    let stack = grid.start(&[]).stdin(Stdio::piped()).spawn().map(Stack).unwrap();
    harness::wait_for("the agent runs", || (agents().len() == 1).then_some(()));
    let by_log_in = |oracle: &Path, words: &[String]| {
        let mut command = Command::new("setpriv");
        let ids = [
            format!("--reuid={}", ORACLE.uid),
            format!("--regid={}", ORACLE.gid),
            format!("--groups={GROUP}"),
        ];
        command.args(ids).args(["--inh-caps=-all", "--"]).arg(oracle).args(words);
        command
    };
    let oracle = Oracle::start_by("LOGIN", "processes=150", &SERVER, by_log_in);
    assert!(oracle.refused.is_empty(), "{:?}", oracle.refused);
    let checked = harness::check();
    checked.assert_verdict("oracle", oracle.pid, "all", None);
    let said = words_of(&checked, "HW305");
    assert!(
        said.contains("started with sqlplus it gets huge pages, with srvctl it does not"),
        "{said}"
    );
    let instance = checked.instance("oracle", oracle.pid);
    assert_eq!(instance["moments"]["restart"]["state"], "none", "{:#}", instance["moments"]);
    drop(oracle);
    drop(stack);
}
