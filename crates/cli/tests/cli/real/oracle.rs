//! The stand-in with Oracle's process names around System V segments or files of /dev/shm.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;
use serde_json::{Value, json};

use crate::real::harness::{self, MIB, User, kernel};

const SHM_GROUP: &str = "/proc/sys/vm/hugetlb_shm_group";

/// The stand-in's program, beside the program under test.
pub(crate) fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(harness::HUGEWISE).parent().unwrap();
        let beside = folder.join("standin");
        // `cargo xtask test` has built both.
        if option_env!("HUGEWISE_BINARY").is_some() && beside.exists() {
            return beside;
        }
        let target = folder.parent().unwrap();
        let mut build = Command::new(env!("CARGO"));
        build
            .args([
                "build",
                "--quiet",
                "--package",
                "hugewise-testkit",
                "--bin",
                "standin",
                "--target-dir",
            ])
            .arg(target);
        if folder.ends_with("release") {
            build.arg("--release");
        }
        harness::must(&mut build);
        beside
    })
}

/// A running stand-in in an Oracle home of its own.
pub(crate) struct Oracle {
    child: Child,
    /// PMON's.
    pub(crate) pid: u32,
    /// What it said of refusals.
    pub(crate) refused: Vec<String>,
    home: tempfile::TempDir,
}

impl Oracle {
    /// Starts it; `settings` is the text of its init.ora.
    pub(crate) fn start(sid: &str, settings: &str, arguments: &[&str]) -> Self {
        Self::start_within(None, sid, settings, arguments)
    }

    /// Starts it in that cgroup.
    pub(crate) fn start_within(
        cgroup: Option<&Path>,
        sid: &str,
        settings: &str,
        arguments: &[&str],
    ) -> Self {
        let join = cgroup.map_or(String::new(), |folder| {
            format!("echo $$ > {}/cgroup.procs; ", folder.display())
        });
        Self::start_by(sid, settings, arguments, |oracle, arguments| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("{join}exec \"$@\""), "sh"]).arg(oracle).args(arguments);
            command
        })
    }

    /// Starts it by the command that is made of its program and arguments.
    pub(crate) fn start_by(
        sid: &str,
        settings: &str,
        arguments: &[&str],
        by: impl FnOnce(&Path, &[String]) -> Command,
    ) -> Self {
        let home = harness::folder();
        for folder in ["bin", "dbs"] {
            fs::create_dir(home.path().join(folder)).unwrap();
        }
        fs::write(home.path().join(format!("dbs/init{sid}.ora")), format!("{settings}\n")).unwrap();
        let oracle = home.path().join("bin/oracle");
        fs::copy(program(), &oracle).unwrap();
        fs::set_permissions(&oracle, fs::Permissions::from_mode(0o755)).unwrap();
        let mut words = vec!["--as".to_owned(), format!("oracle:{sid}")];
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        let mut command = by(&oracle, &words);
        command
            .env("ORACLE_HOME", home.path())
            .env("ORACLE_SID", sid)
            .current_dir(home.path().join("dbs"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut refused = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            match line.unwrap().strip_prefix("fell back: ") {
                Some(why) => refused.push(why.to_owned()),
                None => break,
            }
        }
        let title = format!("ora_pmon_{sid}\0");
        let pid = kernel::processes(|command| command == title).pop();
        let pid = pid.unwrap_or_else(|| panic!("the stand-in did not start: {arguments:?}"));
        Self { child, pid, refused, home }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        assert!(self.home.path().exists());
    }
}

fn sizes(instance: &Value) -> Vec<u64> {
    let segments = instance["segments"].as_array().expect("segments");
    segments.iter().map(|segment| segment["size_bytes"].as_u64().unwrap()).collect()
}

#[test]
fn on_base_pages_without_a_pool() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    let oracle = Oracle::start("BASE", "", &["--segments", "18M,300M", "--sessions", "5"]);
    let pids =
        kernel::processes(|command| command.starts_with("ora_") && command.ends_with("_BASE\0"));
    let sessions = kernel::processes(|command| command.starts_with("oracleBASE"));
    let page_tables = || -> u64 {
        pids.iter().chain(&sessions).map(|pid| kernel::status(*pid, "VmPTE:").unwrap() << 10).sum()
    };
    // A process may still grow a table on its way to sleep: the kernel's sum counts once it stands
    // still around check.
    let (checked, page_tables) = harness::steady(page_tables, harness::check);
    checked.assert_verdict("oracle", oracle.pid, "none", Some("pool"));
    let instance = checked.instance("oracle", oracle.pid);
    assert_eq!(instance["name"], "BASE");
    assert_eq!(instance["sessions"], 5, "{instance:#}");
    assert_eq!(sizes(instance), [300 * MIB, 18 * MIB], "{instance:#}");
    for segment in instance["segments"].as_array().unwrap() {
        assert_eq!(
            json!([segment["kind"], segment["page_bytes"], segment["huge"], segment["mappers"]]),
            // Four background processes and five sessions.
            json!(["sysv", 4096, false, 9])
        );
    }
    assert_eq!((pids.len(), sessions.len()), (4, 5));
    assert_eq!(
        instance["page_tables_bytes"], page_tables,
        "sum of VmPTE over {pids:?} and {sessions:?}"
    );
    assert!(
        checked.findings_of(instance).contains(&("HW201".into(), "no-pool".into())),
        "{:#}",
        checked.json["findings"]
    );
    assert_eq!(checked.code, 1);
}

#[test]
fn wholly_on_huge_pages() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(9 + 150)));
    let oracle =
        Oracle::start("HUGE", "use_large_pages=only", &["--segments", "18M,300M", "--pages", "2M"]);
    let checked = harness::check();
    checked.assert_verdict("oracle", oracle.pid, "all", None);
    let instance = checked.instance("oracle", oracle.pid);
    // All of it is touched, so the kernel's counter says the same.
    assert_eq!(
        harness::segment_bytes(instance, true),
        kernel::hugetlb_bytes(oracle.pid),
        "{instance:#}"
    );
    assert_eq!(sizes(instance), [300 * MIB, 18 * MIB]);
}

#[test]
fn untouched_huge_pages_count_too() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(150)));
    let oracle =
        Oracle::start("FRESH", "", &["--segments", "300M", "--pages", "2M", "--touch", "0"]);
    assert!(kernel::hugetlb_bytes(oracle.pid) <= 2 * MIB);
    harness::check().assert_verdict("oracle", oracle.pid, "all", None);
}

#[test]
fn partly_on_huge_pages() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(100)));
    let oracle = Oracle::start("MIXED", "", &["--segments", "200M,300M", "--pages", "mixed"]);
    let checked = harness::check();
    checked.assert_verdict("oracle", oracle.pid, "partly", Some("room"));
    let instance = checked.instance("oracle", oracle.pid);
    assert_eq!(kernel::hugetlb_bytes(oracle.pid), 200 * MIB);
    assert_eq!(harness::segment_bytes(instance, true), 200 * MIB, "{instance:#}");
    assert_eq!(harness::segment_bytes(instance, false), 500 * MIB, "{instance:#}");
}

#[test]
fn a_pool_one_page_short() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(149)));
    let oracle =
        Oracle::start("SHORT", "", &["--segments", "300M", "--pages", "2M", "--fall-back"]);
    assert_eq!(oracle.refused, ["Cannot allocate memory (os error 12)"]);
    harness::check().assert_verdict("oracle", oracle.pid, "none", Some("room"));
}

#[test]
fn a_user_without_the_right_to_huge_pages_and_with_it() {
    let user = require!(User::named("nobody"));
    let as_user = format!("{}:{}", user.uid, user.gid);
    let arguments = ["--segments", "300M", "--pages", "2M", "--fall-back", "--user", &as_user];
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(200)));
    require!(guard.set_switch(SHM_GROUP, "0"));
    let oracle = Oracle::start("DENIED", "", &arguments);
    assert_eq!(oracle.refused, ["Operation not permitted (os error 1)"]);
    harness::check().assert_verdict("oracle", oracle.pid, "none", Some("permission"));
    drop(oracle);

    require!(guard.set_switch(SHM_GROUP, &user.gid.to_string()));
    let oracle = Oracle::start("GRANTED", "", &arguments);
    assert!(oracle.refused.is_empty());
    harness::check().assert_verdict("oracle", oracle.pid, "all", None);
}

#[test]
fn switched_off_in_its_parameters() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(200)));
    let oracle = Oracle::start("OFF", "*.use_large_pages='FALSE'", &["--segments", "300M"]);
    harness::check().assert_verdict("oracle", oracle.pid, "none", Some("asked"));
}

#[test]
fn automatic_memory_management_rules_huge_pages_out() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(200)));
    let oracle = Oracle::start("AMM", "memory_target=300M", &["--segments", "300M", "--posix-shm"]);
    let checked = harness::check();
    checked.assert_verdict("oracle", oracle.pid, "none", Some("asked"));
    let instance = checked.instance("oracle", oracle.pid);
    assert_eq!(harness::segment_bytes(instance, false), 300 * MIB, "{instance:#}");
    let found = checked.findings_of(instance);
    assert!(
        found.iter().any(|(_, name)| name.contains("amm") || name.contains("automatic-memory")),
        "{found:?}"
    );
}

/// From 12.2 on: files of /dev/shm beside System V segments, which are neither automatic memory
/// management nor a part of the SGA.
#[test]
fn a_managed_global_area_beside_the_sga() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(150)));
    let arguments = ["--segments", "300M", "--pages", "2M", "--managed", "40M"];
    let oracle = Oracle::start("MGA", "pga_aggregate_target=100M", &arguments);
    let checked = harness::check();
    checked.assert_verdict("oracle", oracle.pid, "all", None);
    let instance = checked.instance("oracle", oracle.pid);
    assert_eq!(sizes(instance), [300 * MIB], "{instance:#}");
    let found = checked.findings_of(instance);
    assert!(!found.iter().any(|(_, name)| name == "amm"), "{found:?}");
    let output =
        Command::new(harness::HUGEWISE).args(["size", "--format", "json"]).output().unwrap();
    let sized: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(sized["budget"]["managed_bytes"], 40 * MIB, "{:#}", sized["budget"]);
    assert_eq!(sized["private_memory"][0]["managed_bytes"], 40 * MIB);
}
