//! A hugetlb cgroup that gives less than the server needs.

use std::fs;
use std::path::{Path, PathBuf};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};

use crate::real::harness::{self, MIB, kernel};
use crate::real::oracle::Oracle;
use crate::real::postgresql::Cluster;

/// A cgroup of the unified hierarchy with the hugetlb controller; removed when dropped.
pub(crate) struct Cgroup {
    folder: PathBuf,
    root: PathBuf,
    switched_on: bool,
}

impl Cgroup {
    pub(crate) fn new(name: &str) -> Result<Self, Skip> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let unified = mounts
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .find(|mount| mount[2] == "cgroup2");
        let root = PathBuf::from(unified.ok_or_else(|| Skip("no cgroup2 is mounted".into()))?[1]);
        let holds = |file: &str| {
            fs::read_to_string(root.join(file)).unwrap_or_default().contains("hugetlb")
        };
        if !holds("cgroup.controllers") {
            return Err(Skip(format!("{}: no hugetlb controller", root.display())));
        }
        // Of several at a time the last one to go switches it off.
        let off = !holds("cgroup.subtree_control");
        let switched_on = off || others(&root) > 0;
        if off {
            fs::write(root.join("cgroup.subtree_control"), "+hugetlb")
                .map_err(|error| Skip(error.to_string()))?;
        }
        let folder = root.join(format!("hugewise-real-{name}-{}", std::process::id()));
        let made = Self { folder, root, switched_on };
        fs::create_dir(&made.folder)
            .map_err(|error| Skip(format!("{}: {error}", made.folder.display())))?;
        Ok(made)
    }

    pub(crate) fn limit(&self, file: &str, bytes: u64) {
        fs::write(self.folder.join(file), bytes.to_string()).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }
}

/// Cgroups of such tests that are there.
fn others(root: &Path) -> usize {
    let names = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with("hugewise-real-")).count()
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A cgroup can go when its last process is reaped.
        for _ in 0..200 {
            if fs::remove_dir(&self.folder).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        if self.switched_on && others(&self.root) == 0 {
            let _ = fs::write(self.root.join("cgroup.subtree_control"), "-hugetlb");
        }
    }
}

/// A reservation limit refuses at once, so a server that may fall back does.
#[test]
fn a_reservation_limit_below_the_demand_breaks_the_chain() {
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(300)));
    let cgroup = require!(Cgroup::new("rsvd"));
    cgroup.limit("hugetlb.2MB.rsvd.max", 32 * MIB);

    let arguments = ["--segments", "300M", "--pages", "2M", "--fall-back"];
    let oracle = Oracle::start_within(Some(cgroup.path()), "CAGED", "", &arguments);
    harness::check().assert_verdict("oracle", oracle.pid, "none", Some("cgroup"));
    drop(oracle);

    cluster.configure("shared_buffers = 128MB");
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "echo $$ > \"$1\"/cgroup.procs; shift; exec \"$@\"", "sh"])
        .arg(cgroup.path());
    let postgres = cluster.command("postgres");
    command
        .arg(postgres.get_program())
        .args(postgres.get_args())
        .arg("-D")
        .arg(cluster.data())
        .current_dir("/");
    let server = cluster.start_as(&mut command);
    assert_eq!(kernel::hugetlb_bytes(server.pid), 0);
    harness::check().assert_verdict("postgresql", server.pid, "none", Some("cgroup"));
}

/// A fault limit lets the server start, and kills it with SIGBUS when it touches one page too many.
#[test]
fn a_fault_limit_below_the_demand_is_a_finding_while_all_looks_well() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(300)));
    let cgroup = require!(Cgroup::new("fault"));
    cgroup.limit("hugetlb.2MB.max", 64 * MIB);
    let arguments = ["--segments", "300M", "--pages", "2M", "--touch", "5"];
    let oracle = Oracle::start_within(Some(cgroup.path()), "EDGE", "", &arguments);
    let checked = harness::check();
    let instance = checked.instance("oracle", oracle.pid);
    assert_eq!(instance["huge_pages"], "all", "{instance:#}");
    let found = checked.findings_of(instance);
    assert!(
        found.iter().any(|(code, name)| code.starts_with("HW7") && name.contains("cgroup")),
        "{found:?}"
    );
}

/// `hugetlb.2MB.max` counts what is touched: PostgreSQL starts below it wholly on huge pages, and
/// its buffers are what the kernel refuses it later. `rsvd.max` counts what is mapped, and comes
/// first.
#[test]
fn postgresql_starts_below_a_fault_limit_and_a_reservation_limit_comes_before_it() {
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(200)));
    let cgroup = require!(Cgroup::new("touched"));
    cluster.configure("shared_buffers = 256MB\nhuge_pages = try");
    let start = || {
        let postgres = cluster.command("postgres");
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", "echo $$ > \"$1\"/cgroup.procs; shift; exec \"$@\"", "sh"])
            .arg(cgroup.path())
            .arg(postgres.get_program())
            .args(postgres.get_args())
            .arg("-D")
            .arg(cluster.data())
            .current_dir("/");
        cluster.start_as(&mut command)
    };
    let foretell = |pid| {
        let checked = harness::check();
        let instance = checked.instance("postgresql", pid);
        let restart = harness::text(&instance["moments"]["restart"]["state"]);
        let findings = checked.json["findings"].as_array().unwrap();
        let levels = findings.iter().filter(|finding| finding["code"] == "HW702");
        (restart, levels.map(|finding| harness::text(&finding["level"])).next())
    };
    let error = Some("error".to_owned());

    cgroup.limit("hugetlb.2MB.max", 128 * MIB);
    let server = start();
    assert!(kernel::large_mappings(server.pid, 256 * MIB).0 > 0);
    assert_eq!(foretell(server.pid), ("all".to_owned(), error.clone()));
    drop(server);
    let server = start();
    assert!(kernel::large_mappings(server.pid, 256 * MIB).0 > 0, "as foretold");

    // Neither limit can be set below what is used by then.
    drop(server);
    cgroup.limit("hugetlb.2MB.rsvd.max", 0);
    let server = start();
    assert_eq!(kernel::hugetlb_bytes(server.pid), 0, "as foretold");
    assert_eq!(foretell(server.pid), ("none".to_owned(), Some("warn".to_owned())));
}
