//! What capture saves gives the verdicts that the host gave, and holds no secret.

use std::process::Command;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;
use serde_json::{Value, json};

use crate::real::harness::{self, HUGEWISE};
use crate::real::oracle::Oracle;
use crate::real::postgresql::Cluster;

const SECRET: &str = "hunter2xyzzy";

/// Code, level and instance of every finding, and what is said of every instance: nothing of it may
/// differ between the host and its capture. Amounts of free memory do.
fn verdicts(check: &Value) -> Value {
    let pick = |list: &str, fields: &[&str]| -> Vec<Value> {
        let items = check[list].as_array().unwrap_or_else(|| panic!("{list} in {check:#}"));
        items.iter().map(|item| fields.iter().map(|field| item[field].clone()).collect()).collect()
    };
    let chains = pick("instances", &["chain"]).into_iter().map(|mut chain| {
        for link in chain[0].as_array_mut().into_iter().flatten() {
            link["evidence"].take();
        }
        chain
    });
    json!({
        "chains": chains.collect::<Vec<_>>(),
        "findings": pick("findings", &["code", "name", "level", "instance"]),
        "instances": pick("instances", &["engine", "name", "pid", "version", "sessions", "huge_pages", "segments"]),
    })
}

#[test]
fn a_capture_says_what_the_host_said() {
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_pool(PageSize::MIB_2, PageCount(30)));
    let settings =
        format!("shared_buffers = 128MB\nprimary_conninfo = 'host=db1 user=r password={SECRET}'");
    let server = cluster.start(&settings);
    let oracle = Oracle::start(
        "SAVED",
        "",
        &["--segments", "40M,300M", "--pages", "mixed", "--touch", "10"],
    );
    let mut planted = Command::new("sh");
    planted
        .args(["-c", "read _; exit", "mysqld", &format!("--password={SECRET}")])
        .env("PGPASSWORD", SECRET);
    let mut planted = planted.stdin(std::process::Stdio::piped()).spawn().unwrap();

    let live = harness::check();
    live.instance("postgresql", server.pid);
    live.instance("oracle", oracle.pid);
    let folder = harness::folder();
    let archive = folder.path().join("host.tar.gz");
    let plain = folder.path().join("plain");
    harness::must(Command::new(HUGEWISE).args(["capture", "-o"]).arg(&archive));
    planted.kill().unwrap();
    planted.wait().unwrap();

    let from_archive = harness::check_with(&["--root", archive.to_str().unwrap()]);
    let (now, live) = (verdicts(&from_archive.json), verdicts(&live.json));
    assert_eq!(now, live, "\n{now:#}\nlive:\n{live:#}");

    std::fs::create_dir(&plain).unwrap();
    harness::must(Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(&plain));
    let held = Command::new("grep").arg("-rlaF").arg(SECRET).arg(&plain).output().unwrap();
    assert!(held.stdout.is_empty(), "the secret is in {}", String::from_utf8_lossy(&held.stdout));

    // The same files in a folder say the same, to the last byte.
    let top =
        std::fs::read_dir(&plain).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    let root = match &top[..] {
        [only] if !only.ends_with("proc") => only.clone(),
        _ => plain,
    };
    let from_folder = harness::check_with(&["--root", root.to_str().unwrap()]);
    assert_eq!(from_folder.json["findings"], from_archive.json["findings"]);
    assert_eq!(from_folder.json["instances"], from_archive.json["instances"]);
}
