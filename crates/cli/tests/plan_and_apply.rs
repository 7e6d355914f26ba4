//! `hugewise plan`, `apply` and `undo` as their users run them, where nothing is changed: captured hosts, odd arguments.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test stops where its files are not as expected, and reads them past the code under test"
)]

mod support;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use hugewise_change::Plan;
use support::{Said, fixtures, hugewise};

fn hosts() -> PathBuf {
    fixtures("hosts")
}

fn plan(host: &str, more: &[&str]) -> Said {
    support::on("plan", &hosts().join(host), more)
}

#[test]
fn a_captured_host_has_its_plan() {
    let said = plan("no-pool-postgresql", &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.err, "");
    insta::assert_snapshot!(said.out);
}

#[test]
fn a_plan_that_is_kept_is_the_plan_that_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.json");
    let said = plan("no-pool-postgresql", &["--format", "json", "--out", file.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), said.out);
    let plan_of_it = Plan::from_json(said.out.as_bytes()).unwrap();
    assert!(!plan_of_it.steps.is_empty());
    // It holds what is in files of the host.
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // The same host gives the same plan.
    assert_eq!(plan("no-pool-postgresql", &["--format", "json"]).out, said.out);

    let again = plan("no-pool-postgresql", &["--out", file.to_str().unwrap()]);
    assert_eq!(again.code, 2);
    assert!(again.err.contains("plan.json") && again.err.contains("--out names a new file"), "{}", again.err);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), said.out);
    let nowhere = plan("no-pool-postgresql", &["--out", "/nowhere/plan.json"]);
    assert_eq!(nowhere.code, 2);
    assert!(nowhere.err.contains("/nowhere/plan.json"), "{}", nowhere.err);
}

/// The shell's own opinion.
fn is_shell(text: &str) -> bool {
    let mut shell = Command::new("sh").arg("-n").stdin(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    shell.wait().unwrap().success()
}

#[test]
fn every_captured_host_has_a_plan_in_every_format() {
    let names = std::fs::read_dir(hosts()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut with_steps = 0;
    for host in names.filter(|name| !name.ends_with(".txt")) {
        for format in ["text", "json", "shell", "ansible", "cloud-init"] {
            let said = plan(&host, &["--format", format, "--force"]);
            // What is known of a torn capture may not be enough for a plan.
            assert!([0, 1, 3].contains(&said.code) || host.starts_with("truncated"), "{host}: {}", said.err);
            assert!(!said.out.contains(|c: char| c.is_control() && c != '\n'), "{host} {format}");
            let empty = said.out.is_empty();
            match format {
                _ if empty => assert_eq!(said.code, 2, "{host} {format}"),
                "json" => {
                    let plan = Plan::from_json(said.out.as_bytes()).unwrap();
                    with_steps += usize::from(!plan.steps.is_empty());
                }
                "shell" => assert!(said.out.starts_with("#!/bin/sh\n") && is_shell(&said.out), "{host}"),
                "cloud-init" => assert!(said.out.starts_with("#cloud-config\n"), "{host}"),
                _ => {}
            }
        }
    }
    assert!(with_steps >= 5, "{with_steps}");
}

#[test]
fn a_plan_that_does_not_fit_is_shown_and_written_by_force_alone() {
    let many = ["--sessions", "20000"];
    let said = plan("no-pool-postgresql", &many);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    assert!(said.out.contains("refused") && said.out.contains("plan --force"), "{}", said.out);
    let script = |more: &[&str]| plan("no-pool-postgresql", &[&many, &["--format", "shell"], more].concat());
    let refused = script(&[]);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    assert!(refused.err.contains("should not be applied"), "{}", refused.err);
    let forced = script(&["--force"]);
    assert!(forced.code == 1 && forced.out.starts_with("#!/bin/sh"), "{}", forced.err);
}

#[test]
fn what_makes_no_sense_is_said() {
    for (words, said_of) in [
        (&["plan", "--instance", "PROD", "--root", "no-pool-postgresql"][..], "PROD"),
        (&["plan", "--restart", "PROD", "--root", "no-pool-postgresql"], "PROD"),
        (&["plan", "--page-size", "3M", "--root", "no-pool-postgresql"], "3M"),
        (&["plan", "--headroom", "101", "--root", "no-pool-postgresql"], "101"),
        (&["plan", "--overcommit", "2M", "--root", "no-pool-postgresql"], "SIZE=PAGES"),
        (&["plan", "--root", "no-such-host"], "no-such-host"),
        (&["plan", "--root", "no-pool-postgresql", "--connect"], "--connect"),
        (&["apply", "plan.json", "--early"], "--early"),
        (&["apply", "plan.json", "--instance", "PROD"], "--instance"),
        (&["undo", "7", "--list"], "--list"),
    ] {
        let root = words.iter().position(|word| *word == "--root").map(|at| hosts().join(words[at + 1]));
        let root = root.as_ref().map(|root| root.to_str().unwrap());
        let words: Vec<&str> = words
            .iter()
            .enumerate()
            .map(|(at, word)| if at > 0 && words[at - 1] == "--root" { root.unwrap() } else { *word })
            .collect();
        let said = hugewise(&words);
        assert_eq!(said.code, 2, "{words:?}: {}", said.out);
        assert!(said.err.starts_with("hugewise: ") && said.err.contains(said_of), "{words:?}: {}", said.err);
        assert_eq!(said.out, "", "{words:?}");
    }
}

#[test]
fn help_says_what_each_exit_code_means() {
    for command in ["plan", "apply", "undo"] {
        let said = hugewise(&[command, "--help"]);
        assert_eq!(said.code, 0);
        assert!(said.out.contains("Exit codes: 0 "), "{}", said.out);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hugewise"))
        .args(["plan", "--format", "shell", "--root"])
        .arg(hosts().join("no-pool-postgresql"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
