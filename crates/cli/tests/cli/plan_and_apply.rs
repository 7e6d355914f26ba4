//! `hugewise plan`, `apply` and `undo` as their users run them, where nothing is changed: captured
//! hosts, odd arguments.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use hugewise_change::Plan;
use hugewise_change::plan::Change;
use saphyr::{LoadableYamlNode, Yaml};

use crate::support;
use crate::support::{Said, fixtures, hugewise};

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
    assert!(
        again.err.contains("plan.json") && again.err.contains("--out names a new file"),
        "{}",
        again.err
    );
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

/// The changes of a plan as its playbook names them.
fn plan_changes(plan: &Plan) -> Vec<String> {
    let changes = plan.steps.iter().flat_map(|step| &step.changes);
    let named = changes.map(|change| match change {
        Change::Value(value) => format!("set {} to {}", value.path, value.after),
        Change::File(file) if file.after.is_some() => format!("write {}", file.path),
        Change::File(file) => format!("remove {}", file.path),
        Change::Command(command) => format!("run: {}", command.why),
    });
    named.collect()
}

/// What the tasks of the one play of a playbook are called, but for those that only prepare.
fn playbook_changes(text: &str) -> Vec<String> {
    let documents = Yaml::load_from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let [Yaml::Sequence(plays)] = documents.as_slice() else { panic!("{text}") };
    let [play] = plays.as_slice() else { panic!("{text}") };
    let tasks = play.as_mapping_get("tasks").and_then(Yaml::as_sequence).unwrap();
    let names = tasks.iter().map(|task| task.as_mapping_get("name").unwrap().as_str().unwrap());
    let prepares = |name: &&str| {
        name.starts_with("check that this is the plan's host")
            || name.starts_with("a folder is there: ")
    };
    names.filter(|name| !prepares(name)).map(str::to_owned).collect()
}

#[test]
fn every_captured_host_has_a_plan_in_every_format() {
    let names = std::fs::read_dir(hosts())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut with_steps = 0;
    for host in names.filter(|name| !name.ends_with(".txt")) {
        for format in ["text", "json", "shell", "ansible", "cloud-init"] {
            let said = plan(&host, &["--format", format, "--force"]);
            // What is known of a torn capture is not enough for a plan.
            let expected = if host.starts_with("truncated") { 3 } else { 0 };
            assert_eq!(said.code, expected, "{host} {format}: {}", said.err);
            assert!(
                !said.out.contains(|character: char| character.is_control() && character != '\n'),
                "{host} {format}"
            );
            let json = plan(&host, &["--format", "json", "--force"]);
            let kept = Plan::from_json(json.out.as_bytes()).unwrap();
            match format {
                "json" => with_steps += usize::from(!kept.steps.is_empty()),
                "shell" => {
                    assert!(said.out.starts_with("#!/bin/sh\n") && is_shell(&said.out), "{host}")
                }
                "ansible" => assert_eq!(playbook_changes(&said.out), plan_changes(&kept), "{host}"),
                "cloud-init" => {
                    assert!(said.out.starts_with("#cloud-config\n"), "{host}");
                    assert!(Yaml::load_from_str(&said.out).is_ok(), "{host}: {}", said.out);
                }
                _ => assert!(!said.out.is_empty(), "{host}"),
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
    let script =
        |more: &[&str]| plan("no-pool-postgresql", &[&many, &["--format", "shell"], more].concat());
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
        (&["undo", "7", "--list"], "--list"),
    ] {
        let root =
            words.iter().position(|word| *word == "--root").map(|at| hosts().join(words[at + 1]));
        let root = root.as_ref().map(|root| root.to_str().unwrap());
        let words: Vec<&str> = words
            .iter()
            .enumerate()
            .map(
                |(at, word)| {
                    if at > 0 && words[at - 1] == "--root" { root.unwrap() } else { *word }
                },
            )
            .collect();
        let said = hugewise(&words);
        assert_eq!(said.code, 2, "{words:?}: {}", said.out);
        assert!(
            said.err.starts_with("hugewise: ") && said.err.contains(said_of),
            "{words:?}: {}",
            said.err
        );
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
