//! `hugewise pod`: its exit codes, and that the real tools take its corrections.

use std::io::Write;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::{Said, fixtures, hugewise};

/// A manifest of the fixtures in a folder where it may be changed.
fn copied_manifest(name: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::copy(fixtures("pods").join(name), folder.path().join(name)).unwrap();
    folder
}

fn hugewise_in(folder: &TempDir, words: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugewise"));
    Said::by(command.arg("pod").args(words).current_dir(folder.path()).env_remove("COLUMNS"))
}

fn feed(folder: &TempDir, program: &str, words: &[&str], text: &str) -> bool {
    let mut command = Command::new(program);
    command.args(words).current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{program}: {text}");
    true
}

#[test]
fn the_correction_is_taken_by_patch_and_by_git_and_leaves_nothing() {
    for name in ["postgres.yaml", "short-limit.yaml"] {
        let folder = copied_manifest(name);
        let said = hugewise_in(&folder, &[name]);
        assert_eq!(said.code, 1, "{}{}", said.out, said.err);
        feed(&folder, "git", &["apply", "-p0", "--check", "-"], &said.out);
        if !feed(&folder, "patch", &["-p0"], &said.out) {
            continue;
        }
        let after = hugewise_in(&folder, &[name]);
        assert_eq!(after.code, 0, "{}", after.out);
        assert!(after.out.contains("runs on huge pages"), "{}", after.out);
        assert!(!after.out.contains("+++"), "{}", after.out);
    }
}

#[test]
fn the_exit_code_tells_wrong_from_unknown() {
    let pod = |fields: &str| format!("kind: Pod\nspec: {{containers: [{{name: a, {fields}}}]}}\n");
    let outcome = |text: &str| {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("a.yaml"), text).unwrap();
        hugewise_in(&folder, &["a.yaml"]).code
    };
    assert_eq!(outcome(&pod("image: 'nginx:1.27'")), 0);
    assert_eq!(outcome(&pod("image: 'postgres:17'")), 1);
    assert_eq!(outcome("a: [\n"), 2);
    assert_eq!(outcome(&pod("image: 'postgres:17', args: ['{{ .Values.a }}']")), 3);
    assert_eq!(outcome("kind: Service\n"), 3);
    assert_eq!(hugewise(&["pod", "/nonexistent.yaml"]).code, 2);
}

#[test]
fn standard_input_and_json_say_the_same() {
    let path = fixtures("pods").join("short-limit.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hugewise"));
    let mut child = command
        .args(["pod", "-", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let piped: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let named = hugewise(&["pod", path.to_str().unwrap(), "--format", "json"]).json();
    assert_eq!(piped["schema"], "hugewise.pod/1");
    assert_eq!(piped["workloads"], named["workloads"]);
    let container = &piped["workloads"][0]["containers"][0];
    assert_eq!(container["fate"], "falls_back");
    assert_eq!(container["fate_without_reservations"], "dies");
    assert_eq!(container["server"]["demands"][0]["least_pages"], 541);
    assert_eq!(container["limits"][0]["pages"], 512);
}

#[test]
fn a_captured_node_is_looked_at() {
    let manifest = fixtures("pods").join("short-limit.yaml");
    let node = fixtures("hosts").join("healthy-postgresql");
    let words = ["pod", manifest.to_str().unwrap(), "--node", node.to_str().unwrap()];
    let said = hugewise(&words);
    assert_eq!(said.code, 1);
    assert!(said.out.contains(" on "), "{}", said.out);
    let none = hugewise(&["pod", manifest.to_str().unwrap(), "--node", "/nonexistent"]);
    assert_eq!(none.code, 2);
}
