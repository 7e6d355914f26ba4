//! Plan, apply and undo on real servers: from no pool to verified, and back to every byte and
//! value.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::{Skip, require};
use serde_json::Value;

use crate::real::harness::{self, MIB, kernel, text};
use crate::real::mariadb::Installed;
use crate::real::namespace::{self, State, assert_same};
use crate::real::postgresql::Cluster;

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// A PostgreSQL cluster as Debian's own tools make and run it; stopped when dropped.
pub(crate) struct DebianCluster {
    name: &'static str,
}

impl DebianCluster {
    const VERSION: &'static str = "15";

    /// Makes it; it does not run yet. The namespace that the test runs in forgets it.
    pub(crate) fn new(name: &'static str, settings: &str) -> Result<Self, Skip> {
        let tool = harness::program(&["/usr/bin/pg_createcluster"])?;
        harness::program(&["/usr/lib/postgresql/15/bin/postgres"])?;
        // initdb takes huge pages where there are any: those of a test that runs beside this one.
        let _alone = PoolGuard::take_for_test()?;
        let mut command = Command::new(tool);
        command.args(["--start-conf=manual", "--encoding=UTF8", "--locale=C", Self::VERSION, name]);
        harness::must(command.args(["--", "--no-sync"]));
        let own =
            format!("listen_addresses = ''\nfsync = off\nshared_buffers = 400MB\n{settings}\n");
        fs::write(format!("/etc/postgresql/{}/{name}/conf.d/test.conf", Self::VERSION), own)
            .unwrap();
        Ok(Self { name })
    }

    pub(crate) fn control(&self, action: &str) {
        let mut command = Command::new("pg_ctlcluster");
        command.args([Self::VERSION, self.name, action, "-m", "fast"]).stdin(Stdio::null());
        if action == "start" {
            command = Command::new("pg_ctlcluster");
            command.args([Self::VERSION, self.name, action]).stdin(Stdio::null());
        }
        harness::must(&mut command);
    }

    pub(crate) fn data(&self) -> PathBuf {
        format!("/var/lib/postgresql/{}/{}", Self::VERSION, self.name).into()
    }

    pub(crate) fn pid(&self) -> u32 {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        text.lines().next().unwrap().trim().parse().unwrap()
    }

    /// What hugewise calls it.
    pub(crate) fn title(&self) -> String {
        format!("postgresql {}/{}", Self::VERSION, self.name)
    }
}

impl Drop for DebianCluster {
    fn drop(&mut self) {
        let mut command = Command::new("pg_ctlcluster");
        let _ = command.args([Self::VERSION, self.name, "stop", "-m", "immediate"]).output();
    }
}

pub(crate) fn hugewise(arguments: &[&str]) -> Output {
    Command::new(harness::HUGEWISE).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs it and expects this exit code; standard output.
#[track_caller]
pub(crate) fn run(arguments: &[&str], code: i32) -> String {
    let output = hugewise(arguments);
    let (out, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Of servers of the tests beside this one not all can be read, and the plan says so.
    let beside = code == 0 && out.contains("nothing to change, as far as hugewise could read");
    let code = if beside { 3 } else { code };
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{out}\n{errors}");
    out.into_owned()
}

#[track_caller]
fn json(arguments: &[&str], code: i32) -> Value {
    let out = run(&[arguments, &["--format", "json"]].concat(), code);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// `code proof` of each finding that an apply was to end.
fn proofs(applied: &Value) -> Vec<(String, String)> {
    let findings = applied["findings"].as_array().expect("findings");
    findings.iter().map(|finding| (text(&finding["code"]), text(&finding["proof"]))).collect()
}

/// The surplus pages that a running server holds of a pool that was taken back go when it ends.
fn pool() -> u64 {
    fs::read_to_string(POOL).unwrap().trim().parse().unwrap()
}

#[test]
fn postgresql_from_no_pool_to_verified_and_back() {
    if !require!(namespace::inside("change::postgresql_from_no_pool_to_verified_and_back")) {
        return;
    }
    let cluster = require!(DebianCluster::new("hugewise", ""));
    let folder = harness::folder();
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    cluster.control("start");
    let title = cluster.title();
    let mut server = cluster.pid();
    assert_eq!(kernel::hugetlb_bytes(server), 0);
    let before = State::etc();

    let file = folder.path().join("plan.json");
    let file = file.to_str().unwrap();
    let shown = run(&["plan", "--restart", &title, "--out", file], 0);
    assert!(shown.contains(&format!("+++ b{POOL}")) && shown.contains("HW201 no-pool"), "{shown}");
    assert_same(&before, &State::etc());

    let applied = json(&["apply", file, "--yes"], 0);
    assert_eq!(applied["end"], "done", "{applied:#}");
    let proofs = proofs(&applied);
    assert!(proofs.contains(&("HW201".into(), "gone".into())), "{applied:#}");
    assert!(proofs.iter().all(|(_, proof)| proof == "gone"), "{applied:#}");
    assert_ne!(cluster.pid(), server, "it was to be restarted");
    server = cluster.pid();
    // The kernel's word, not ours.
    let (huge, base) = kernel::large_mappings(server, 64 * MIB);
    assert!(huge >= 400 * MIB && base == 0, "{huge} huge, {base} base");
    run(&["verify", &title], 0);

    // Once more changes nothing.
    let after = State::etc();
    assert_eq!(json(&["apply", file, "--yes"], 0)["end"], "nothing-to-do");
    assert_eq!(cluster.pid(), server);
    assert_same(&after, &State::etc());
    let again = run(&["plan", "--restart", &title], 0);
    assert!(again.contains("nothing to change"), "{again}");
    assert_eq!(json(&["apply", "--yes"], 0)["end"], "nothing-to-do");

    let undone = json(&["undo"], 0);
    assert_eq!(undone["complete"], true, "{undone:#}");
    cluster.control("restart");
    assert_eq!(kernel::hugetlb_bytes(cluster.pid()), 0);
    cluster.control("stop");
    assert_same(&before, &State::etc());
    let journals = json(&["undo", "--list"], 0);
    assert_eq!(journals["journals"][0]["state"], "undone", "{journals:#}");
}

#[test]
fn postgresql_whose_settings_are_altered_by_itself() {
    if !require!(namespace::inside("change::postgresql_whose_settings_are_altered_by_itself")) {
        return;
    }
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    let settings = "shared_buffers = 400MB";
    let server = cluster.start(settings);
    let own = cluster.data();
    let paths =
        [Path::new("/etc"), &own.join("postgresql.auto.conf"), &own.join("postgresql.conf")];
    let before = State::of(&paths);
    let name = text(&harness::check().instance("postgresql", server.pid)["name"]);

    let applied = json(&["apply", "--yes", "--instance", &name], 0);
    assert_eq!(applied["end"], "done", "{applied:#}");
    let said = fs::read_to_string(own.join("postgresql.auto.conf")).unwrap();
    assert!(said.contains("huge_pages = 'on'"), "{said}");
    let waits: Vec<_> =
        proofs(&applied).into_iter().filter(|(_, proof)| proof == "waits-for-restart").collect();
    // The server still runs as it was started.
    assert_eq!(kernel::hugetlb_bytes(server.pid), 0);
    drop(server);
    let server = cluster.start(settings);
    assert!(kernel::large_mappings(server.pid, 64 * MIB).0 >= 400 * MIB, "{waits:?}");
    run(&["verify", &format!("postgresql {name}")], 0);
    let undone = json(&["undo"], 0);
    assert_eq!(undone["complete"], true, "{undone:#}");
    drop(server);
    assert_same(&before, &State::of(&paths));
    drop(cluster.start(settings));
    assert_eq!(pool(), 0);
}

#[test]
fn mariadb_from_no_pool_to_verified_and_back() {
    if !require!(namespace::inside("change::mariadb_from_no_pool_to_verified_and_back")) {
        return;
    }
    let installed = require!(Installed::new());
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    fs::create_dir_all("/etc/mysql/conf.d").unwrap();
    let settings = "!includedir /etc/mysql/conf.d";
    let server = installed.start(settings);
    let name = text(&harness::check().instance("mariadb", server.pid)["name"]);
    let title = format!("mariadb {name}");
    let before = State::etc();

    let applied = json(&["apply", "--yes", "--instance", &title], 0);
    assert_eq!(applied["end"], "done", "{applied:#}");
    assert!(
        fs::read_to_string("/etc/mysql/conf.d/zz-hugewise.cnf").unwrap().contains("large_pages")
    );
    assert!(proofs(&applied).iter().all(|(_, proof)| proof != "remains"), "{applied:#}");
    assert_eq!(kernel::hugetlb_bytes(server.pid), 0);
    drop(server);
    let server = installed.start(settings);
    let (huge, base) = kernel::large_mappings(server.pid, 200 * MIB);
    assert!(huge >= 256 * MIB && base == 0, "{huge} huge, {base} base\n{}", server.log());
    run(&["verify", &title], 0);

    let undone = json(&["undo"], 0);
    assert_eq!(undone["complete"], true, "{undone:#}");
    drop(server);
    assert_same(&before, &State::etc());
    let server = installed.start(settings);
    assert_eq!(kernel::hugetlb_bytes(server.pid), 0);
}

/// Runs it on a terminal of its own where somebody answers; what the terminal shows, and the exit
/// code.
fn on_a_terminal(arguments: &str, answer: &str) -> (String, Option<i32>) {
    let line = format!("{} {arguments}", harness::HUGEWISE);
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

#[test]
fn it_asks_on_a_terminal() {
    if !require!(namespace::inside("change::it_asks_on_a_terminal")) {
        return;
    }
    require!(harness::program(&["/usr/bin/script"]));
    let cluster = require!(DebianCluster::new("hugewise", ""));
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    cluster.control("start");
    let before = State::etc();
    for answer in ["n\n", "\n", "yesterday\n"] {
        let (shown, code) = on_a_terminal("apply --color never", answer);
        assert!(
            shown.contains(&format!("+++ b{POOL}")) && shown.contains("Apply this plan? [y/N]"),
            "{shown}"
        );
        assert!(shown.contains("nothing was changed"), "{shown}");
        assert_eq!(code, Some(2), "{shown}");
        assert_same(&before, &State::etc());
    }
    let (shown, code) = on_a_terminal("apply --color never", "y\n");
    assert!(shown.contains("All steps are done.") && shown.contains("hugewise undo 1"), "{shown}");
    assert_eq!(code, Some(0), "{shown}");
    assert_ne!(pool(), 0);
    run(&["undo"], 0);
    assert_same(&before, &State::etc());
}

#[test]
fn a_file_that_sorts_after_ours_and_overrides_it_is_found_and_said() {
    if !require!(namespace::inside(
        "change::a_file_that_sorts_after_ours_and_overrides_it_is_found_and_said"
    )) {
        return;
    }
    let cluster = require!(DebianCluster::new("hugewise", ""));
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    cluster.control("start");
    let theirs = "/etc/sysctl.d/zzzz-site.conf";
    fs::write(theirs, "vm.nr_hugepages = 0\n").unwrap();
    let shown = run(&["plan"], 0);
    assert!(shown.contains(theirs), "{shown}");
    // Their file is theirs, and no pool is promised that the next boot takes away.
    assert!(!shown.contains(&format!("+++ b{theirs}")), "{shown}");
}
