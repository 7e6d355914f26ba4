//! A command line that makes no sense is answered with the one that does, and no answer is wider than its terminal.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and lays out its files itself"
)]

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

fn fixture(path: &str) -> String {
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../fixtures", path].iter().collect();
    root.to_str().unwrap().to_owned()
}

/// Exit code and both streams.
fn said(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hugewise")).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn an_option_of_another_command_is_answered_with_that_command() {
    for (line, tip) in [
        ("--sga 34", "--sga is an option of size: 'hugewise size --engine oracle --sga 34G'"),
        ("check --sga=34", "'hugewise size --engine oracle --sga 34G'"),
        ("check --sga 34G", "'hugewise size --engine oracle --sga 34G'"),
        ("size --fail-on warn", "--fail-on is an option of check and report: 'hugewise check --fail-on warn'"),
        ("check --restart 15/main", "--restart is an option of plan and apply: 'hugewise plan --restart 15/main'"),
        ("investigate --root sa21", "investigate takes the path alone: 'hugewise investigate sa21'"),
        ("check --json", "write '--format json'"),
        ("size --sga 34", "34 has no unit; write 34G"),
        ("size --sga 34G", "--sga describes a server: put --engine oracle before it"),
        ("lab", "a command is missing\n\nMeasure what"),
        ("check PROD", "to name an instance, write 'hugewise check --instance PROD'"),
    ] {
        let (code, text) = said(&line.split(' ').collect::<Vec<_>>());
        assert!(code == Some(2) && text.contains(tip), "{line}: {text}");
        assert!(text.matches("tip: ").count() <= 1, "{line}: {text}");
    }
}

#[test]
fn a_path_of_another_kind_is_answered_with_the_command_that_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let host = fixture("hosts/no-pool-postgresql");
    let sar = fixture("collectors/two-freezes.sar");
    let packed = fixture("incident/base/sa.xz");
    let plan = file(&folder, "plan.json", "{\n  \"schema\": \"hugewise.plan/1\"\n}\n");
    for name in ["db1", "db2"] {
        file(&folder, &format!("fleet/{name}/proc/meminfo"), "MemTotal: 1 kB\n");
    }
    file(&folder, "settings/pcp/proc/hot.conf", "\n");
    let settings = folder.path().join("settings").to_str().unwrap().to_owned();
    let fleet = folder.path().join("fleet").to_str().unwrap().to_owned();
    let missing = folder.path().join("no.json").to_str().unwrap().to_owned();
    for (line, tip) in [
        (&["check", "--root", &sar][..], format!("it is a sar file; run hugewise investigate {sar}")),
        (&["check", &sar], format!("it is a sar file; run hugewise investigate {sar}")),
        (&[&packed], format!("it is a sar file; run hugewise investigate {packed}")),
        (&["plan", "--root", &packed], format!("hugewise investigate {packed}")),
        (&["check", "--root", &plan], format!("it is a plan; run hugewise apply {plan}")),
        (&["check", "--root", &fleet], format!("hugewise check --root {fleet}/db1")),
        (&["size", &host], format!("hugewise size --root {host}")),
        (&["check", &settings], format!("if collectors write there, run hugewise investigate {settings}")),
    ] {
        let (code, text) = said(line);
        assert!(code == Some(2) && text.contains(&tip), "{line:?}: {text}");
    }
    // Of an apply, where nothing may be changed, only what it says before.
    for (given, tip) in [
        (&missing, format!("no such file; to make a plan there, run 'sudo hugewise plan --out {missing}'")),
        (&sar, format!("it is a sar file; run hugewise investigate {sar}")),
        (&host, format!("it is a captured host; run hugewise check --root {host}")),
    ] {
        let (code, text) = said(&["apply", given]);
        assert_eq!(code, Some(2), "{given}: {text}");
        if rustix::process::geteuid().is_root() {
            assert!(text.contains(&tip), "{given}: {text}");
        }
    }
}

/// A line may be wider where it is one word, part of a diff, or a command that is to be pasted as it stands.
fn may_be_wide(line: &str) -> bool {
    let line = line.trim().trim_start_matches("Usage: ");
    let is_command = ["hugewise ", "sudo ", "next  ", "echo ", "cat "].iter().any(|start| line.starts_with(start));
    is_command || line.starts_with(['+', '-']) || !line.contains(' ')
}

#[test]
fn no_answer_is_wider_than_its_terminal() {
    let host = fixture("hosts/oracle-many-sessions");
    let sar = fixture("collectors/two-freezes.sar");
    let (host, sar): (&str, &str) = (&host, &sar);
    let mut lines: Vec<Vec<&str>> = vec![
        vec!["check", "--root", host],
        vec!["check", "-v", "--root", host],
        vec!["size", "--root", host],
        vec!["verify", "--root", host],
        vec!["plan", "--root", host],
        vec!["investigate", sar],
        vec!["rules"],
        vec!["rules", "HW201"],
        vec!["rules", "ORA-27125"],
        vec!["--help"],
    ];
    let of = "check capture size plan apply undo verify investigate record lab run serve watch rules completions";
    lines.extend(of.split(' ').map(|command| vec![command, "--help"]));
    lines.extend(["status", "export"].map(|command| vec!["record", command, "--help"]));
    lines.extend(["page-tables", "logins", "sort", "access", "pool", "workload"].map(|it| vec!["lab", it, "--help"]));
    let mut wide = Vec::new();
    for line in lines {
        for width in [40, 60, 80, 100, 133, 200] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_hugewise"));
            let output = command.args(&line).env("COLUMNS", width.to_string()).output().unwrap();
            assert!(output.status.code() != Some(2), "{line:?}: {}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout).unwrap();
            let too_wide = text.lines().filter(|it| it.chars().count() > width && !may_be_wide(it));
            wide.extend(too_wide.map(|it| format!("{width} {}: {it}", line.join(" "))));
        }
    }
    assert!(wide.is_empty(), "{} lines:\n{}", wide.len(), wide.join("\n"));
}
