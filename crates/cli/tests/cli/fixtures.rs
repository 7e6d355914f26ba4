//! Every captured host under `fixtures/hosts` against what its `expected.txt` says of it.
//!
//! `expected.txt` names each instance with what it has of huge pages, which link is broken and how
//! it stands at the three moments, each finding by level and code, and the exit code.
//! `HUGEWISE_BLESS=1` writes it: read what it wrote as you would read code.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support;
use crate::support::{Said, hosts};
use serde_json::Value;

/// Beside the host, as a capture is not to be touched: `NAME.expected.txt`.
fn note_of(host: &Path) -> PathBuf {
    PathBuf::from(format!("{}.expected.txt", host.display()))
}

fn check(root: &Path, arguments: &[&str]) -> (i32, String, String) {
    let Said { code, out, err } = support::on("check", root, arguments);
    (code, out, err)
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
        let broken = instance["chain"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|link| link["state"] == "broken");
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
        let other_text =
            finding["instance"].as_str().map(|name| format!(" {name}")).unwrap_or_default();
        writeln!(
            text,
            "{} {} {}{other_text}",
            word(&finding["level"]),
            word(&finding["code"]),
            word(&finding["name"])
        )
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

/// What a capture leaves out is nothing that a verdict rests on: a database of Clusterware was one
/// of a login's in its capture.
#[test]
fn a_capture_of_each_host_gets_the_same_verdicts() {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = String::new();
    for host in hosts().into_iter().filter(|host| host.is_dir()) {
        let target = folder.path().join(host.file_name().unwrap());
        let taken = support::on("capture", &host, &["-o", target.to_str().unwrap()]);
        assert_eq!(taken.code, 0, "{}: {}", host.display(), taken.err);
        let (before, after) = (verdicts(&host), verdicts(&target));
        if before != after {
            writeln!(wrong, "== {}\nthe host:\n{before}\nits capture:\n{after}", host.display())
                .unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Whoever is sent to a rule finds it in the same report.
#[test]
fn no_rule_is_named_that_has_found_nothing() {
    let codes = |text: &str| -> BTreeSet<String> {
        let at =
            text.match_indices("HW").map(|(at, _)| text[at..].chars().take(5).collect::<String>());
        at.filter(|code| code.len() == 5 && code[2..].bytes().all(|byte| byte.is_ascii_digit()))
            .collect()
    };
    for host in hosts() {
        let (_, out, _) = check(&host, &["--format", "json"]);
        let Ok(said) = serde_json::from_str::<Value>(&out) else { continue };
        let btree_set_of = |list: &str| -> BTreeSet<String> {
            said[list]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|json| json["code"].as_str().map(str::to_owned))
                .collect()
        };
        let known: BTreeSet<String> =
            btree_set_of("findings").union(&btree_set_of("unknown")).cloned().collect();
        for (command, more) in
            [("check", &[][..]), ("check", &["-v"]), ("plan", &[]), ("size", &[]), ("verify", &[])]
        {
            let Said { out, .. } = support::on(command, &host, more);
            let named = codes(&out);
            assert!(
                named.is_subset(&known),
                "{}: {command} {more:?}: {named:?}, found {known:?}",
                host.display()
            );
        }
        assert!(codes(&out).is_subset(&known), "{}: JSON", host.display());
    }
}

/// That a server fell back is what its cause has brought about: it neither comes first nor is
/// worse.
#[test]
fn a_fallback_stands_behind_its_cause() {
    let worth = |finding: &Value| {
        ["info", "warn", "error"].iter().position(|level| finding["level"] == *level)
    };
    let mut seen = 0;
    for host in hosts() {
        let (_, out, _) = check(&host, &["--format", "json"]);
        let Ok(said) = serde_json::from_str::<Value>(&out) else { continue };
        let findings = said["findings"].as_array().unwrap();
        for (at, fallback) in
            findings.iter().enumerate().filter(|(_, json)| json["code"] == "HW401")
        {
            let own = |json: &&Value| json["instance"] == fallback["instance"];
            let instance = said["instances"].as_array().unwrap().iter().find(|json| {
                fallback["instance"]
                    == format!(
                        "{} {}",
                        json["engine"].as_str().unwrap(),
                        json["name"].as_str().unwrap()
                    )
            });
            let chain = instance.unwrap()["chain"].as_array().unwrap();
            if !chain.iter().any(|link| link["state"] == "broken") {
                continue;
            }
            let cause = findings[..at].iter().find(own);
            let cause =
                cause.unwrap_or_else(|| panic!("{}: {fallback:#} comes first", host.display()));
            assert!(
                worth(cause) >= worth(fallback),
                "{}: {fallback:#} is worse than {cause:#}",
                host.display()
            );
            seen += 1;
        }
    }
    assert!(seen >= 5, "the fixtures have lost their fallbacks: {seen}");
}

/// What a person sees of `check` on a terminal of so many columns.
fn seen(root: &Path, columns: &str, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_hugewise"))
        .args(["check", "--root"])
        .arg(root)
        .args(arguments)
        .env("COLUMNS", columns)
        .output()
        .expect("hugewise runs");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn no_line_is_wider_than_the_terminal_and_no_sentence_is_cut() {
    for (host, columns) in
        hosts().iter().flat_map(|host| [60, 80, 100, 120].map(|columns| (host, columns)))
    {
        for arguments in [&[][..], &["-v"]] {
            let out = seen(host, &columns.to_string(), arguments);
            // A command that is to be copied stays whole.
            let wide = |line: &&str| line.chars().count() > columns && !line.starts_with("next  ");
            let wide: Vec<&str> = out.lines().filter(wide).collect();
            assert!(wide.is_empty(), "{} at {columns}: {wide:#?}", host.display());
            // Names in the table may have to give way, sentences never. A name may be cut in its
            // column of a table: the whole of it stands in the sentences below.
            let is_whole = |line: &str| !line.contains('…') || line.contains("…  ");
            assert!(out.lines().all(is_whole), "{} at {columns}:\n{out}", host.display());
        }
    }
}

#[test]
fn the_worst_host_fits_a_terminal_of_24_lines_and_begins_with_what_matters() {
    let host =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/oracle-many-sessions");
    let out = seen(&host, "80", &[]);
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() <= 24, "{} lines:\n{out}", lines.len());
    let starts: Vec<&str> = lines.iter().take(3).map(|line| &line[..6]).collect();
    assert_eq!(starts, ["error ", "cost  ", "next  "], "{out}");
    // What the top lines have said is not said again.
    let told = |what: &str| out.matches(what).count();
    assert_eq!(
        (told("65.1 GiB"), told("no huge pages are configured"), told("HW102")),
        (1, 1, 0),
        "{out}"
    );
}

#[test]
fn a_host_on_which_all_is_well_takes_few_lines() {
    let host =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/healthy-postgresql");
    let out = seen(&host, "80", &[]);
    assert!(
        out.lines().count() <= 7
            && out.ends_with("Nothing wrong was found. Everything was read.\n"),
        "{out}"
    );
}

/// The command that `check` names next works where it was printed, as a shell reads it.
#[test]
fn the_next_command_runs_as_it_is_printed() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("captured host's");
    let _ = std::fs::remove_dir_all(&folder);
    let host =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts/no-pool-postgresql");
    let copied = Command::new("cp").arg("-r").args([&host, &folder]).status().unwrap();
    assert!(copied.success());
    let out = seen(&folder, "80", &[]);
    let next = out.lines().find_map(|line| line.strip_prefix("next  ")).expect("a command");
    let command = next.replacen("hugewise", env!("CARGO_BIN_EXE_hugewise"), 1);
    let ran = Command::new("sh").args(["-c", &command]).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("537"), "{next}: {said}{}", String::from_utf8_lossy(&ran.stderr));
}
