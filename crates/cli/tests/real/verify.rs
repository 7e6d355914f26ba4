//! `hugewise verify` on real servers and on what they write.

use std::process::{Command, Output};

use hugewise_lab::guard::PoolGuard;
use hugewise_lab::require;
use hugewise_model::{PageCount, PageSize};
use serde_json::Value;

use crate::harness::{self, MIB, kernel};
use crate::jvm;
use crate::postgresql::Cluster;

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
    let guard = require!(PoolGuard::take());
    cluster.configure("shared_buffers = 128MB");
    let pages = cluster.pages();
    require!(guard.set_pool(PageSize::MIB_2, PageCount(pages)));
    let server = cluster.start("shared_buffers = 128MB");
    let of = name(server.pid);
    assert_code(&[&of], 0);
    let line = assert_code(&[&of, "--format", "nagios"], 0);
    assert_eq!(line.lines().count(), 1, "{line}");
    drop(server);

    require!(guard.set_pool(PageSize::MIB_2, PageCount(pages - 1)));
    let server = cluster.start("shared_buffers = 128MB");
    let of = name(server.pid);
    let chain = assert_code(&[&of], 1);
    assert!(chain.contains("room"), "{chain}");
    assert_code(&[&of, "--format", "nagios"], 2);
}

#[test]
fn the_log_of_a_failed_start_says_the_pages_that_suffice() {
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take());
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
    let needed = log["needed_bytes"].as_u64().unwrap_or_else(|| panic!("no needed_bytes: {log:#}")) / (2 * MIB);

    require!(guard.set_pool(PageSize::MIB_2, PageCount(needed)));
    let server = cluster.start("shared_buffers = 256MB\nhuge_pages = on");
    assert!(kernel::large_mappings(server.pid, 128 * MIB).0 >= 256 * MIB);
}

#[test]
fn a_virtual_machine_and_its_own_log() {
    let folder = harness::folder();
    let log = folder.path().join("pages.log");
    let to_log = format!("-Xlog:pagesize:file={}", log.display());
    let guard = require!(PoolGuard::take());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(400)));
    let _server = require!(jvm::start(&folder, &["-XX:+UseLargePages", &to_log]));
    let said = verify(&["--log", log.to_str().unwrap(), "--format", "json"]);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["logs"][0]["engine"], "jvm", "{said:#}");
    assert_eq!(said["logs"][0]["verdict"], "all", "{said:#}");
}

#[test]
fn it_waits_for_a_server_that_is_about_to_start() {
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take());
    cluster.configure("shared_buffers = 128MB");
    require!(guard.set_pool(PageSize::MIB_2, PageCount(cluster.pages())));
    let server = cluster.start("shared_buffers = 128MB");
    let of = name(server.pid);
    drop(server);
    let waiting = Command::new(harness::HUGEWISE).args(["verify", &of, "--wait", "60"]).spawn();
    let mut waiting = waiting.unwrap();
    let _server = cluster.start("shared_buffers = 128MB");
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
}
