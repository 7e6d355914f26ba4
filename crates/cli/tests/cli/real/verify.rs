//! `hugewise verify` on real servers and on what they write.

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;
use serde_json::Value;

use crate::real::harness::{self, MIB, User, kernel, text};
use crate::real::postgresql::Cluster;
use crate::real::{jvm, mariadb};

fn verify(arguments: &[&str]) -> Output {
    Command::new(harness::HUGEWISE).arg("verify").args(arguments).output().unwrap()
}

#[track_caller]
fn assert_code(arguments: &[&str], code: i32) -> String {
    let output = verify(arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{text}\n{errors}");
    text
}

/// What verify calls the server with that main process.
fn name(pid: u32) -> String {
    format!("postgresql {}", harness::text(&harness::check().instance("postgresql", pid)["name"]))
}

#[test]
fn postgresql_on_huge_pages_and_one_page_short() {
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    cluster.configure("shared_buffers = 128MB");
    let pages = cluster.pages();
    require!(guard.set_pool(PageSize::MIB_2, PageCount(pages)));
    let server = cluster.start("shared_buffers = 128MB");
    let text = name(server.pid);
    assert_code(&[&text], 0);
    let line = assert_code(&[&text, "--format", "nagios"], 0);
    assert_eq!(line.lines().count(), 1, "{line}");
    drop(server);

    require!(guard.set_pool(PageSize::MIB_2, PageCount(pages - 1)));
    let server = cluster.start("shared_buffers = 128MB");
    let text = name(server.pid);
    let chain = assert_code(&[&text], 1);
    assert!(chain.contains("room"), "{chain}");
    assert_code(&[&text, "--format", "nagios"], 2);
}

#[test]
fn the_log_of_a_failed_start_says_the_pages_that_suffice() {
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(10)));
    cluster.configure("shared_buffers = 256MB\nhuge_pages = on");
    let refused = cluster.command("postgres").arg("-D").arg(cluster.data()).output().unwrap();
    assert!(!refused.status.success());
    let log = cluster.folder.path().join("failed.log");
    std::fs::write(&log, &refused.stderr).unwrap();
    let said = verify(&["--log", log.to_str().unwrap(), "--format", "json"]);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    let log = &said["logs"][0];
    assert_eq!(log["verdict"], "failed", "{said:#}");
    // PostgreSQL names no page size, and the bytes of whole pages.
    let needed = log["needed_pages"].as_u64().unwrap_or_else(|| panic!("no needed_pages: {log:#}"));
    assert_eq!(
        (&log["needed_page_bytes"], &log["page_bytes"]),
        (&Value::from(2 * MIB), &Value::Null)
    );
    assert_eq!(log["needed_bytes"], needed * 2 * MIB, "{log:#}");
    let seconds = |text: &str| {
        harness::must(Command::new("date").args(["+%s", "-d", text])).trim().parse::<i64>().unwrap()
    };
    let ago = seconds("now") - seconds(&text(&log["started_at"]));
    assert!((0..600).contains(&ago), "{ago} seconds ago: {log:#}");

    require!(guard.set_pool(PageSize::MIB_2, PageCount(needed)));
    let server = cluster.start("shared_buffers = 256MB\nhuge_pages = on");
    assert!(kernel::large_mappings(server.pid, 128 * MIB).0 >= 256 * MIB);
}

#[test]
fn a_virtual_machine_and_its_own_log() {
    let folder = harness::folder();
    let log = folder.path().join("pages.log");
    let to_log = format!("-Xlog:pagesize:file={}", log.display());
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(400)));
    let _server = require!(jvm::start(&folder, &["-XX:+UseLargePages", &to_log]));
    let said = verify(&["--log", log.to_str().unwrap(), "--format", "json"]);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["logs"][0]["engine"], "jvm", "{said:#}");
    assert_eq!(said["logs"][0]["verdict"], "all", "{said:#}");
}

/// Waits for a server that is not there yet; ended when dropped.
struct Waiting(Child);

impl Waiting {
    fn verify(name: &str) -> Self {
        let mut command = Command::new(harness::HUGEWISE);
        Self(
            command.args(["verify", name, "--wait", "120"]).stdout(Stdio::piped()).spawn().unwrap(),
        )
    }

    fn is_over(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    #[track_caller]
    fn assert_code(&mut self, code: i32) {
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(code), "{said}");
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_waits_for_a_server_that_is_about_to_start() {
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    cluster.configure("shared_buffers = 128MB");
    require!(guard.set_pool(PageSize::MIB_2, PageCount(cluster.pages())));
    let server = cluster.start("shared_buffers = 128MB");
    let text = name(server.pid);
    drop(server);
    let mut waiting = Waiting::verify(&text);
    let _server = cluster.start("shared_buffers = 128MB");
    waiting.assert_code(0);
}

/// It is not there for some looks, and then touches the whole of its buffer pool before it serves.
#[test]
fn it_waits_for_a_server_that_starts_late_and_slowly() {
    let installed = require!(mariadb::Installed::new());
    let guard = require!(PoolGuard::take_for_test());
    let settings = "large-pages\ninnodb_buffer_pool_size=1G\nport=33061";
    for (pages, code) in [(648, 0), (600, 1)] {
        require!(guard.set_pool(PageSize::MIB_2, PageCount(pages)));
        let mut waiting = Waiting::verify("mariadb 33061");
        std::thread::sleep(Duration::from_secs(2));
        assert!(!waiting.is_over(), "there is no server yet");
        let _server = installed.start(settings);
        waiting.assert_code(code);
    }
}

#[test]
fn a_monitoring_system_is_warned_of_a_server_that_is_partly_on_huge_pages() {
    let installed = require!(mariadb::Installed::new());
    let guard = require!(PoolGuard::take_for_test());
    // Enough for the caches of MyISAM and Aria, and not for the buffer pool.
    require!(guard.set_pool(PageSize::MIB_2, PageCount(150)));
    let _server = installed.start("large-pages\nport=33061");
    let line = assert_code(&["mariadb 33061", "--format", "nagios"], 1);
    assert!(line.starts_with("HUGEPAGES WARNING - ") && line.lines().count() == 1, "{line}");
    assert!(line.contains("mariadb 33061: partly") && line.contains("|instances=1;"), "{line}");
}

#[test]
fn a_monitoring_system_is_told_what_may_not_be_seen() {
    let cluster = require!(Cluster::debian("postgres"));
    let server = cluster.start("shared_buffers = 128MB\nhuge_pages = off");
    let text = name(server.pid);
    let stranger = require!(User::named("nobody"));
    // Ordinary users may run it, and may not look into others' processes.
    let program = cluster.folder.path().join("hugewise");
    std::fs::copy(harness::HUGEWISE, &program).unwrap();
    let output =
        stranger.command(&program).args(["verify", &text, "--format", "nagios"]).output().unwrap();
    let line = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{line}");
    assert!(line.starts_with("HUGEPAGES UNKNOWN - ") && line.lines().count() == 1, "{line}");
}

/// Of its caches MariaDB says that they were refused; of its buffer pool it says nothing.
#[test]
fn mariadb_s_own_warning_stands_beside_what_is_mapped() {
    let installed = require!(mariadb::Installed::new());
    let guard = require!(PoolGuard::take_for_test());
    // Enough for MyISAM's key cache, not for the 62 pages of Aria's page cache.
    require!(guard.set_pool(PageSize::MIB_2, PageCount(60)));
    let log = installed.error_log();
    let _server = installed.start(&format!("large-pages\nport=33061\nlog_error={}", log.display()));
    let written = std::fs::read_to_string(&log).unwrap();
    assert!(written.contains("Couldn't allocate 130023424 bytes"), "{written}");
    // Its own setting leads to the log.
    let output = verify(&["mariadb 33061", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let logs = said["logs"].as_array().unwrap();
    assert_eq!(logs.len(), 1, "{said:#}");
    assert_eq!(logs[0]["path"], log.to_str().unwrap());
    assert_eq!(
        (&logs[0]["engine"], &logs[0]["verdict"]),
        (&"mariadb".into(), &"partly".into()),
        "{said:#}"
    );
    assert!(text(&logs[0]["errors"][0]).contains("Couldn't allocate 130023424 bytes"), "{said:#}");
    assert_eq!(said["instances"][0]["huge_pages"], "partly", "{said:#}");
    assert_eq!(said["disagreements"], Value::Array(Vec::new()), "{said:#}");
    // It writes the time without a zone.
    assert_eq!(
        (&logs[0]["started_at"], logs[0]["started_at_text"].is_string()),
        (&Value::Null, true),
        "{said:#}"
    );
    assert!(text(&logs[0]["reasons"]["started_at"]).contains("time zone"), "{said:#}");
}
