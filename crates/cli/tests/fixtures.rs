//! Every captured host under `fixtures/hosts` against what its `expected.txt` says of it.
//!
//! `expected.txt` names each instance with what it has of huge pages, which link is broken and how it stands at the three
//! moments, each finding by level
//! and code, and the exit code. `HUGEWISE_BLESS=1` writes it: read what it wrote as you would read code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test stops where its files are not as expected, and reads them past the code under test"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn hosts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
    let entries = std::fs::read_dir(&folder).expect("fixtures/hosts");
    let mut hosts: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(|path| !is_note(path)).collect();
    hosts.sort();
    assert!(hosts.len() >= 12, "the fixtures are gone");
    hosts
}

fn is_note(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".expected.txt")
}

/// Beside the host, as a capture is not to be touched: `NAME.expected.txt`.
fn note_of(host: &Path) -> PathBuf {
    PathBuf::from(format!("{}.expected.txt", host.display()))
}

fn check(root: &Path, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_hugewise"))
        .args(["check", "--root"])
        .arg(root)
        .args(arguments)
        .output()
        .expect("hugewise runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

fn verdicts(root: &Path) -> String {
    let (code, out, err) = check(root, &["--format", "json"]);
    let mut text = String::new();
    let said: Value = match serde_json::from_str(&out) {
        Ok(said) => said,
        Err(_) => return format!("exit {code}\n{err}"),
    };
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    for instance in said["instances"].as_array().unwrap() {
        let broken = instance["chain"].as_array().into_iter().flatten().find(|link| link["state"] == "broken");
        let cause = broken.map_or("-".into(), |link| word(&link["link"]));
        writeln!(
            text,
            "{} {}: sessions {}, huge pages {}, broken link {cause}; now {}, restart {}, reboot {}",
            word(&instance["engine"]),
            word(&instance["name"]),
            instance["sessions"],
            word(&instance["huge_pages"]),
            word(&instance["moments"]["now"]["state"]),
            word(&instance["moments"]["restart"]["state"]),
            word(&instance["moments"]["reboot"]["state"]),
        )
        .unwrap();
    }
    for finding in said["findings"].as_array().unwrap() {
        let of = finding["instance"].as_str().map(|name| format!(" {name}")).unwrap_or_default();
        writeln!(text, "{} {} {}{of}", word(&finding["level"]), word(&finding["code"]), word(&finding["name"]))
            .unwrap();
    }
    for unknown in said["unknown"].as_array().unwrap() {
        writeln!(text, "unknown {} {}", word(&unknown["code"]), word(&unknown["missing"])).unwrap();
    }
    for unread in said["unread"].as_array().unwrap() {
        writeln!(text, "unread {}: {}", word(&unread["what"]), word(&unread["why"])).unwrap();
    }
    writeln!(text, "exit {code}").unwrap();
    text.replace(&root.display().to_string(), "ROOT")
}

#[test]
fn each_host_gets_the_verdicts_that_its_note_expects() {
    let bless = std::env::var_os("HUGEWISE_BLESS").is_some();
    let mut wrong = String::new();
    for host in hosts() {
        let said = verdicts(&host);
        if bless {
            std::fs::write(note_of(&host), &said).unwrap();
        }
        let expected = std::fs::read_to_string(note_of(&host)).unwrap_or_default();
        if said != expected {
            writeln!(wrong, "== {}\nexpected:\n{expected}\nsaid:\n{said}", host.display()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn no_line_is_wider_than_a_terminal_of_80_columns() {
    for host in hosts() {
        let (_, out, _) = check(&host, &[]);
        // A command that is to be copied stays whole where it has no space to break at.
        let wide: Vec<&str> =
            out.lines().filter(|line| line.chars().count() > 80 && line.trim_start().contains(' ')).collect();
        let breakable = |line: &&str| !line.contains('\'') && !line.contains('/');
        assert!(!wide.iter().any(breakable), "{}: {wide:#?}", host.display());
    }
}
