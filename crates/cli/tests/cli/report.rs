//! `hugewise report` says of a host what check, size, plan and investigate say of it, and puts it
//! where it is told.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::support::{Said, hosts, hugewise, on};
use serde_json::{Value, json};

fn told(host: &Path, words: &[&str]) -> Value {
    let words: Vec<&str> = words.iter().copied().chain(["--format", "json"]).collect();
    on(words[0], host, &words[1..]).json()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// Without what is another number at each reading.
fn timeless(mut check: Value) -> Value {
    check["host"]["read_at"] = Value::Null;
    check
}

#[test]
fn each_part_is_what_its_own_command_says_and_so_is_the_exit_code() {
    let mut sized = 0;
    for host in hosts() {
        let Said { code, out, .. } = on("report", &host, &["--format", "json"]);
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(
            timeless(report["check"].clone()),
            timeless(told(&host, &["check"])),
            "{host:?}"
        );
        assert_eq!(code, on("check", &host, &[]).code, "{host:?}");

        let size = on("size", &host, &["--format", "json"]);
        match serde_json::from_str::<Value>(&size.out) {
            Ok(size) => {
                assert_eq!(report["size"], size, "{host:?}");
                sized += 1;
            }
            Err(_) => assert!(
                report["size"].is_null() && report["size_reason"].is_string(),
                "{host:?} {}",
                size.err
            ),
        }

        let plan = told(&host, &["plan"]);
        let jsons_of = |plan: &Value, steps: &str, field: &str| -> Vec<Value> {
            plan[steps].as_array().unwrap().iter().map(|step| step[field].clone()).collect()
        };
        for field in ["id", "title", "risk", "why"] {
            assert_eq!(
                jsons_of(&report["plan"], "steps", field),
                jsons_of(&plan, "steps", field),
                "{host:?}"
            );
        }
        for field in ["title", "text", "risk"] {
            assert_eq!(
                jsons_of(&report["plan"], "manual_steps", field),
                jsons_of(&plan, "instructions", field),
                "{host:?}"
            );
        }
    }
    assert!(sized > 10, "{sized}");
}

#[test]
fn the_slider_has_the_numbers_of_size_for_so_many_sessions() {
    let mut compared = 0;
    for host in hosts() {
        let report = told(&host, &["report"]);
        let stops = report["what_if"].as_array().unwrap();
        assert_eq!(stops.is_empty(), report["size"].is_null(), "{host:?}");
        // The first, the last, and one between; the page's own table has them all.
        let chosen = [0, stops.len() / 2, stops.len().saturating_sub(1)];
        for stop in chosen.into_iter().filter_map(|at| stops.get(at)) {
            let sessions = stop["sessions"].to_string();
            let size = told(&host, &["size", "--sessions", &sessions]);
            assert_eq!(stop["budget"], size["budget"], "{host:?} {sessions}");
            assert_eq!(stop["fits"], size["fits"], "{host:?} {sessions}");
            let pages = |other_json: &Value| -> Vec<Value> {
                let pool = |pool: &Value| json!([pool["page_bytes"], pool["node"], pool["pages"]]);
                other_json["pools"].as_array().unwrap().iter().map(pool).collect()
            };
            assert_eq!(pages(stop), pages(&size), "{host:?} {sessions}");
            let rows = size["forecast"].as_array().unwrap().iter();
            let rows: Vec<Value> =
                rows.filter(|row| row["sessions"] == stop["sessions"]).cloned().collect();
            assert_eq!(stop["forecast"], Value::from(rows), "{host:?} {sessions}");
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn archives_tell_of_incidents() {
    let host = fixture("hosts/healthy-postgresql");
    let sar = fixture("collectors/two-freezes.sar");
    let sar = sar.to_str().unwrap();
    assert_eq!(on("check", &host, &[]).code, 0);
    assert_eq!(on("report", &host, &[]).code, 0);
    let report = on("report", &host, &["--format", "json", sar]);
    assert_eq!(report.code, 1);
    let alone = hugewise(&["investigate", sar, "--format", "json"]).json();
    assert_eq!(report.json()["investigation"]["hosts"], alone["hosts"]);
    assert_eq!(on("report", &host, &["--fail-on", "never", sar]).code, 0);
    let page = on("report", &host, &[sar]).out;
    assert_eq!(page.matches("<article class=\"incident\">").count(), 2);
    assert!(page.contains("<a href=\"#incidents\">"));
    // A captured host is no archive, and is told how to be named.
    let said = hugewise(&["report", host.to_str().unwrap()]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    assert!(said.err.contains("is a captured host: run hugewise report --root "), "{}", said.err);
    // An archive that cannot be read is no report without one.
    let said = on("report", &host, &["/nowhere.sar"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
}

#[test]
fn a_file_is_replaced_as_a_whole_and_what_is_none_stays() {
    let host = fixture("hosts/healthy-postgresql");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("db.html");
    let write = |file: &Path| on("report", &host, &["-o", file.to_str().unwrap()]);
    for _ in 0..2 {
        let said = write(&file);
        assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "", ""));
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let link = folder.path().join("link.html");
    symlink("/dev/null", &link).unwrap();
    for other in [
        link.as_path(),
        Path::new("/dev/null"),
        Path::new("/dev/stdout"),
        folder.path(),
        Path::new("/"),
    ] {
        let said = write(other);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{other:?}");
    }
    assert!(fs::symlink_metadata(&link).unwrap().file_type().is_symlink());
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert_eq!(write(&folder.path().join("nowhere/db.html")).code, 2);
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["db.html", "link.html"]);
}
