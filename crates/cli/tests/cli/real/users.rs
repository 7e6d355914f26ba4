//! Check as an ordinary user.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;

use crate::real::harness::{self, Check, User};
use crate::real::postgresql::Cluster;

#[test]
fn an_ordinary_user_learns_what_can_be_seen_and_what_not() {
    let user = require!(User::named("nobody"));
    let cluster = require!(Cluster::debian("postgres"));
    let guard = require!(PoolGuard::take_for_test());
    cluster.configure("shared_buffers = 128MB");
    require!(guard.set_pool(PageSize::MIB_2, PageCount(cluster.pages())));
    let server = cluster.start("shared_buffers = 128MB");

    let folder = harness::folder();
    let program = folder.path().join("hugewise");
    fs::copy(harness::HUGEWISE, &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = user
        .command(&program)
        .args(["check", "--format", "json", "--fail-on", "error"])
        .output()
        .unwrap();
    let checked = Check::read(&output);
    let instance = checked.instance("postgresql", server.pid);
    let verdict = harness::text(&instance["huge_pages"]);
    // What it cannot know it does not claim.
    assert!(["all", "unknown"].contains(&verdict.as_str()), "{instance:#}");
    if verdict == "unknown" {
        assert_eq!(checked.code, 3, "a verdict is missing, and nothing worse is found");
    }
    let unread = checked.json["unread"].as_array().unwrap();
    assert!(!unread.is_empty());
    assert!(checked.json["host"]["memory_bytes"].as_u64().unwrap() > 0);

    let output = user.command(&program).arg("check").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    assert!(last.contains("root"), "the last line says as whom to run:\n{said}");

    // Root sees it all.
    harness::check().assert_verdict("postgresql", server.pid, "all", None);
}
