//! `hugewise lab` on this machine, small: what it says before, while and after it measures, and how
//! it ends.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hugewise_lab::guard::{self, PoolGuard};
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;
use serde_json::Value;

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugewise"));
    command.arg("lab").args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    lab(arguments).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn pool() -> String {
    fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").unwrap()
}

/// Small enough for a test.
const SMALL: [&str; 9] =
    ["sort", "--rows", "20000", "--extents", "64K", "--runs", "1", "--warm-ups", "0"];

#[test]
fn what_changes_the_host_needs_a_yes_and_is_put_back() {
    let guard = require!(PoolGuard::take_for_test());
    // Idle pages of this host would be enough.
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    let before = pool();
    let two = [&SMALL[..], &["--pages", "4k,2m", "--format", "json"]].concat();
    let refused = run(&two);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        errors(&refused).contains("--yes") && errors(&refused).contains("grows the pool by"),
        "{}",
        errors(&refused)
    );
    assert_eq!(pool(), before);
    let done = run(&[&two[..], &["--yes"]].concat());
    assert_eq!(done.status.code(), Some(0), "{}", errors(&done));
    assert_eq!(pool(), before);
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["schema"], "hugewise.lab/1");
    let faults = |pages: &str| {
        let runs = report["runs"].as_array().unwrap();
        let run = runs.iter().find(|run| run["pages"] == pages && run["metric"] == "faults");
        run.and_then(|run| run["median"].as_f64())
    };
    // 4.86 MB of rows, 269 to an extent of 64 KiB, and the pointers to them: some 1240 base pages.
    assert!(faults("4k").is_some_and(|faults| (1200.0..1600.0).contains(&faults)), "{report:#}");
    if let Some(faults) = faults("2m") {
        assert!(faults < 20.0, "{report:#}");
    }
}

#[test]
fn a_plan_alone_does_nothing() {
    let before = pool();
    let output = run(&["sort", "--plan", "--pages", "4k,2m"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text.starts_with("lab sort  on memory\nmeasures  pages 4k")
            && text.contains("takes     about"),
        "{text}"
    );
    assert!(output.stderr.is_empty());
    assert_eq!(pool(), before);
}

/// What the tables of one process may differ from another's with where the kernel puts its program,
/// libraries and stack.
const OWN: f64 = 64.0 * 1024.0;

#[test]
fn the_segment_lies_where_its_policy_says() {
    let _alone = require!(guard::lock_host_for_test());
    let before = pool();
    let there = guard::available_pages(PageSize::MIB_2).map_or(0, |pages| pages.get());
    // 64 huge pages more than the pool has.
    let size = format!("{}M", (there + 64) * 2);
    let arguments = |policy| {
        ["page-tables", "--segment", &size, "--sessions", "1", "--policy", policy]
            .map(str::to_owned)
    };
    let measure = |policy, more: &[&str]| {
        let once = ["--runs", "1", "--warm-ups", "0", "--yes", "--format", "json"];
        lab(&[]).args(arguments(policy)).args(once).args(more).output().unwrap()
    };
    let tables = |output: &Output| {
        assert_eq!(output.status.code(), Some(0), "{}", errors(output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let runs = report["runs"].as_array().unwrap();
        runs.iter().find(|run| run["metric"] == "session_page_tables").unwrap()["median"]
            .as_f64()
            .unwrap()
    };
    let short = measure("only", &["--pages", "2m"]);
    assert_eq!(short.status.code(), Some(2));
    assert!(errors(&short).contains("64 pages of 2 MiB are missing"), "{}", errors(&short));
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let partly = measure("true", &["--pages", "2m", "--keep", kept.join(".").to_str().unwrap()]);
    let said = String::from_utf8_lossy(&partly.stdout).into_owned();
    assert!(said.contains("% of the segment was on huge pages"), "{said}");
    let partly = tables(&partly);
    let base = tables(&measure("false", &["--pre-touch", "session"]));
    if PoolGuard::may_change() {
        let all = tables(&measure("auto", &["--pages", "2m", "--pre-touch", "none"]));
        // A table of 4 KiB for each 2 MiB that are on base pages.
        assert!(partly - all >= 64.0 * 4096.0 - OWN, "{partly} of a part, {all} of none");
    }
    assert!(base >= partly - OWN, "{base} of all, {partly} of a part");
    assert_eq!(pool(), before);
    let refused = measure("false", &["--pages", "2m"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors(&refused).contains("on base pages, not on 2m"), "{}", errors(&refused));

    let read = |name: &str| fs::read_to_string(kept.join(name)).unwrap();
    assert!(
        read("page-tables.html").starts_with("<!DOCTYPE html>")
            && read("page-tables-1.svg").starts_with("<svg ")
    );
    assert_eq!(
        serde_json::from_str::<Value>(&read("page-tables.json")).unwrap()["schema"],
        "hugewise.lab/1"
    );
}

#[test]
fn a_host_without_the_room_is_left_alone() {
    let output =
        run(&["sort", "--rows", "4000000000", "--row-bytes", "60000", "--pages", "4k", "--yes"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("of that must stay free"), "{}", errors(&output));
    let planned =
        run(&["sort", "--rows", "4000000000", "--row-bytes", "60000", "--pages", "4k", "--plan"]);
    assert_eq!(planned.status.code(), Some(2), "a plan that is refused is no success");
    let nonsense = run(&["sort", "--extents", "5000B"]);
    assert_eq!(nonsense.status.code(), Some(2));
    assert_eq!(run(&["pool", "--pages", "4k"]).status.code(), Some(2));
    assert_eq!(run(&["sort", "--pages", "3m"]).status.code(), Some(2));
}

#[test]
fn an_interrupted_experiment_prints_what_it_has_and_says_so() {
    let _alone = require!(guard::lock_host_for_test());
    let before = pool();
    let arguments = [
        "sort",
        "--rows",
        "60000",
        "--extents",
        "64K",
        "--pages",
        "4k",
        "--runs",
        "1000",
        "--format",
        "json",
        "--yes",
    ];
    let child = lab(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["stopped"], "interrupted");
    assert_eq!(pool(), before);
}

#[test]
fn a_page_with_plots_is_one_file() {
    let _alone = require!(guard::lock_host_for_test());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page-tables.html");
    let arguments = [
        "page-tables",
        "--sessions",
        "4",
        "--segment",
        "16M",
        "--runs",
        "1",
        "--warm-ups",
        "0",
        "--yes",
        "--pages",
    ];
    let output =
        run(&[&arguments[..], &["4k", "--format", "html", "--out", file.to_str().unwrap()]]
            .concat());
    assert_eq!(output.status.code(), Some(0), "{}", errors(&output));
    let page = fs::read_to_string(file).unwrap();
    assert!(
        page.starts_with("<!DOCTYPE html>")
            && page.contains("<svg")
            && page.contains("4k forecast")
    );
    assert!(!page.contains("<script") && output.stdout.is_empty());
}
