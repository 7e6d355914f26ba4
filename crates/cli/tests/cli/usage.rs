//! A command line that makes no sense is answered with the one that does, and no answer is wider
//! than its terminal.

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
        (
            "size --fail-on warn",
            "--fail-on is an option of check and report: 'hugewise check --fail-on warn'",
        ),
        (
            "check --restart 15/main",
            "--restart is an option of plan and apply: 'hugewise plan --restart 15/main'",
        ),
        (
            "investigate --root sa21",
            "investigate takes the path alone: 'hugewise investigate sa21'",
        ),
        ("check --json", "write '--format json'"),
        ("size --sga 34", "34 has no unit; write 34G"),
        ("size --sga 34G", "--sga describes a server: put --engine oracle before it"),
        ("lab", "a command is missing\n\nMeasure what"),
        ("check PROD", "to name an instance, write 'hugewise check --instance PROD'"),
        ("check help", "'hugewise help check' explains check"),
        ("size --sga 34 TB", "write the size as one word: 34TB"),
        ("size --engine oracle --sga 34 GB", "write the size as one word: 34GB"),
        (
            "apply plan.json --dry-run",
            "'hugewise plan' shows what apply would do, and changes nothing",
        ),
        ("size --sessions -1", "--sessions takes no negative number"),
        ("helpp", "'hugewise help' lists the commands"),
        ("lab nothing", "lab takes page-tables, logins, "),
        ("record nothing", "tip: record takes status, export\n"),
        (
            "capture /nothere/db7.tar.gz",
            "to write the capture there, write 'hugewise capture -o /nothere/db7.tar.gz'",
        ),
        ("size --memmory 4G", "a similar argument exists: '--memory'"),
        ("chek", "a similar subcommand exists: 'check'"),
        ("size --sessions many", "for '--sessions <N>': write a whole number"),
        ("serve --listen 19752", "write an address and a port: 127.0.0.1:19752"),
        ("serve --listen db7", "write an address and a port: 127.0.0.1:9752"),
        ("report -o /nothere/x.html", "cannot write /nothere/x.html: No such file or directory"),
        ("rules NAME", "there is no rule or message NAME; 'hugewise rules' lists the rules"),
    ] {
        let (code, text) = said(&line.split(' ').collect::<Vec<_>>());
        assert!(code == Some(2) && text.contains(tip), "{line}: {text}");
        assert!(text.matches("tip: ").count() <= 1, "{line}: {text}");
        assert!(!text.contains("(os error"), "{line}: {text}");
    }
}

/// What is said of a wrong line leads to the help of its own command, and never shows how the whole
/// program is used.
#[test]
fn a_wrong_line_leads_to_the_help_of_its_command() {
    for line in [
        "size --engine postgresql",
        "size --sga 34",
        "check --json",
        "serve --port 80",
        "undo --dry-run",
    ] {
        let (code, text) = said(&line.split(' ').collect::<Vec<_>>());
        let command = line.split(' ').next().unwrap();
        assert_eq!(code, Some(2), "{line}: {text}");
        assert!(text.contains(&format!("try 'hugewise {command} --help'")), "{line}: {text}");
        assert!(
            !text.contains("Usage: hugewise [OPTIONS]") && !text.contains("as a value, use '--"),
            "{line}: {text}"
        );
    }
    // Further words of a help are read as far as they name commands.
    for (line, start) in
        [("help size extra", "Calculate how many"), ("help lab logins", "A login storm")]
    {
        let (code, text) = said(&line.split(' ').collect::<Vec<_>>());
        assert!(code == Some(0) && text.starts_with(start), "{line}: {text}");
    }
}

/// Somebody without rights may not read what a server has mapped: a plan of nothing was once
/// "nothing to change" there.
#[test]
fn a_plan_that_is_empty_for_want_of_facts_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let host = fixture("hosts/sosreport-oracle.tar.xz");
    let unpacked =
        Command::new("tar").arg("-xJf").arg(&host).arg("-C").arg(folder.path()).status().unwrap();
    assert!(unpacked.success());
    let root = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let (code, text) = said(&["plan", "--instance", "FIN", "--root", root.to_str().unwrap()]);
    assert!(text.contains("cannot be decided"), "{text}");
    assert!(
        text.contains("nothing to change, as far as hugewise could read") && code == Some(3),
        "{text}"
    );
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
        (
            &["check", "--root", &sar][..],
            format!("it is a sar file; run hugewise investigate {sar}"),
        ),
        (&["check", &sar], format!("it is a sar file; run hugewise investigate {sar}")),
        (&[&packed], format!("it is a sar file; run hugewise investigate {packed}")),
        (&["plan", "--root", &packed], format!("hugewise investigate {packed}")),
        (&["check", "--root", &plan], format!("it is a plan; run hugewise apply {plan}")),
        (&["check", "--root", &fleet], format!("hugewise check --root {fleet}/db1")),
        (&["size", &host], format!("hugewise size --root {host}")),
        (
            &["check", &settings],
            format!("if collectors write there, run hugewise investigate {settings}"),
        ),
    ] {
        let (code, text) = said(line);
        assert!(code == Some(2) && text.contains(&tip), "{line:?}: {text}");
    }
    // Of an apply, where nothing may be changed, only what it says before.
    for (given, tip) in [
        (
            &missing,
            format!("no such file; to make a plan there, run 'sudo hugewise plan --out {missing}'"),
        ),
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

/// A line may be wider where it is one word, part of a diff, or a command that is to be pasted as
/// it stands.
fn may_be_wide(line: &str) -> bool {
    let line = line.trim().trim_start_matches("Usage: ");
    let is_command = ["hugewise ", "sudo ", "next  ", "echo ", "cat "]
        .iter()
        .any(|start| line.starts_with(start));
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
    let other_text = "check capture size plan apply undo verify investigate record lab run serve watch \
         rules completions";
    lines.extend(other_text.split(' ').map(|command| vec![command, "--help"]));
    lines.extend(["status", "export"].map(|command| vec!["record", command, "--help"]));
    lines.extend(
        ["page-tables", "logins", "sort", "access", "pool", "workload"]
            .map(|text| vec!["lab", text, "--help"]),
    );
    let mut wide = Vec::new();
    for line in lines {
        for width in [40, 60, 80, 100, 133, 200] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_hugewise"));
            let output = command.args(&line).env("COLUMNS", width.to_string()).output().unwrap();
            assert!(
                output.status.code() != Some(2),
                "{line:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            let text = String::from_utf8(output.stdout).unwrap();
            let too_wide = text.lines().filter(|other_text| {
                other_text.chars().count() > width && !may_be_wide(other_text)
            });
            wide.extend(too_wide.map(|text| format!("{width} {}: {text}", line.join(" "))));
        }
    }
    assert!(wide.is_empty(), "{} lines:\n{}", wide.len(), wide.join("\n"));
}
