//! `hugewise collect`: what its tables say is what `check` says, host by host.

use crate::support;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::Value;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn rows(lake: &Path, table: &str) -> Vec<Row> {
    let mut found = Vec::new();
    files(&lake.join(table), &mut found);
    let open = |path: &PathBuf| SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    found
        .iter()
        .flat_map(|path| {
            open(path).get_row_iter(None).unwrap().map(Result::unwrap).collect::<Vec<_>>()
        })
        .collect()
}

fn value(row: &Row, name: &str) -> Value {
    match row.get_column_iter().find(|(column, _)| *column == name).unwrap().1 {
        Field::Null => Value::Null,
        Field::Str(text) => text.clone().into(),
        Field::Long(number) => (*number).into(),
        Field::Bool(flag) => (*flag).into(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn the_tables_say_what_check_says() {
    let lake = tempfile::tempdir().unwrap();
    for host in support::hosts() {
        let out = lake.path().join(host.file_name().unwrap());
        let run = Command::new(env!("CARGO_BIN_EXE_hugewise"))
            .arg("collect")
            .arg(&host)
            .arg("--out")
            .arg(&out)
            .output();
        let code = run.unwrap().status.code();
        let check: Value =
            match serde_json::from_str(&support::on("check", &host, &["--format", "json"]).out) {
                Ok(check) => check,
                Err(_) => panic!("{}: no check", host.display()),
            };
        assert!(matches!(code, Some(0 | 1 | 3)), "{}: {code:?}", host.display());
        let hosts = rows(&out, "hosts");
        assert_eq!(hosts.len(), 1, "{}", host.display());
        for (column, field) in [
            ("host", "name"),
            ("kernel", "kernel"),
            ("memory_bytes", "memory_bytes"),
            ("page_tables_bytes", "page_tables_bytes"),
            ("swap_used_bytes", "swap_used_bytes"),
        ] {
            assert_eq!(
                value(&hosts[0], column),
                check["host"][field],
                "{}: {column}",
                host.display()
            );
        }
        let sorted = |rows: Vec<Vec<Value>>| {
            let mut rows: Vec<String> =
                rows.iter().map(|row| Value::from(row.clone()).to_string()).collect();
            rows.sort();
            rows
        };
        let table = |name: &str, columns: &[&str]| {
            sorted(
                rows(&out, name)
                    .iter()
                    .map(|row| columns.iter().map(|text| value(row, text)).collect())
                    .collect(),
            )
        };
        let said = |json: &Value, fields: &[&str]| {
            let all = json.as_array().into_iter().flatten();
            sorted(
                all.map(|json| fields.iter().map(|field| json[field].clone()).collect()).collect(),
            )
        };
        let name = host.display();
        let pool = [
            "page_bytes",
            "node",
            "total_pages",
            "free_pages",
            "reserved_pages",
            "committed_pages",
            "available_pages",
        ];
        if fs::exists(out.join("pools")).unwrap() {
            assert_eq!(table("pools", &pool), said(&check["host"]["pools"], &pool), "{name}");
        }
        if check["instances"].as_array().is_some_and(|all| !all.is_empty()) {
            let same = [
                "engine",
                "running",
                "version",
                "owner",
                "sessions",
                "asked",
                "huge_pages",
                "page_tables_bytes",
            ];
            assert_eq!(table("instances", &same), said(&check["instances"], &same), "{name}");
            let moments = check["instances"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|json| !json["moments"].is_null());
            let moments = moments.flat_map(|json| {
                ["now", "restart", "reboot"].map(|moment| {
                    let outlook = &json["moments"][moment];
                    vec![
                        json["engine"].clone(),
                        json["name"].clone(),
                        moment.into(),
                        outlook["state"].clone(),
                        outlook["why"].clone(),
                    ]
                })
            });
            assert_eq!(
                table("moments", &["engine", "instance", "moment", "state", "why"]),
                sorted(moments.collect()),
                "{name}"
            );
        }
        if check["findings"].as_array().is_some_and(|all| !all.is_empty()) {
            let same = ["code", "name", "level", "summary", "cost"];
            assert_eq!(table("findings", &same), said(&check["findings"], &same), "{name}");
            assert_eq!(
                rows(&out, "cases").len(),
                check["cases"].as_array().unwrap().len(),
                "{name}"
            );
        }
    }
}

/// A folder called `s3:` would be what nobody meant.
#[test]
fn a_store_that_is_not_read_or_written_is_refused_with_what_to_do() {
    let here = tempfile::tempdir().unwrap();
    let host = support::hosts().into_iter().next().unwrap();
    let host = host.to_str().unwrap();
    for (path, lake, told) in [
        (host, "s3://lakes/fleet", "aws s3 sync lake s3://lakes/fleet"),
        (host, "s3a://lakes/fleet", "aws s3 sync lake s3://lakes/fleet"),
        (host, "gs://lakes/fleet", "gcloud storage rsync --recursive lake gs://lakes/fleet"),
        (host, "az://lakes/fleet", "azcopy sync lake https://"),
        ("abfss://captures@a.dfs.core.windows.net/prod", "lake", "write az://CONTAINER/PREFIX"),
        (
            "az://captures/prod?sv=1&sig=key",
            "lake",
            "put it into the file of --credentials as sas_token",
        ),
        (
            "az://captures/prod",
            "lake",
            "az://captures/prod needs keys: name a file with --credentials",
        ),
        (
            "gs://captures/prod",
            "lake",
            "gs://captures/prod needs keys: name a file with --credentials",
        ),
        ("hdfs://captures", "lake", "to a folder first"),
        ("file:///captures", "lake", "the path alone: /captures"),
    ] {
        let run = Command::new(env!("CARGO_BIN_EXE_hugewise"))
            .args(["collect", path, "--out", lake])
            .current_dir(here.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{path} {lake}: {said}");
        assert!(said.contains(told), "{path} {lake}: {said}");
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "nothing is begun");
}

#[test]
fn an_empty_label_is_refused_and_a_list_from_windows_is_read() {
    let here = tempfile::tempdir().unwrap();
    let host = support::hosts().into_iter().next().unwrap();
    let run = |more: &[&str]| {
        let mut collect = Command::new(env!("CARGO_BIN_EXE_hugewise"));
        let run = collect
            .arg("collect")
            .arg(&host)
            .args(["--out", "lake", "--format", "json"])
            .args(more);
        run.current_dir(here.path()).output().unwrap()
    };
    for label in ["", " "] {
        let refused = run(&["--label", label]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("--label is empty"));
    }
    assert_eq!(fs::read_dir(here.path()).unwrap().count(), 0, "nothing is begun");
    fs::write(here.path().join("list"), "\u{feff}gone # since May\r\n\r\nGONE\r\nother\r\n")
        .unwrap();
    let summary: Value = serde_json::from_slice(&run(&["--expect", "list"]).stdout).unwrap();
    assert_eq!(summary["absent"], serde_json::json!(["gone", "other"]));
}

#[test]
fn a_list_says_the_cluster_of_each_host() {
    let here = tempfile::tempdir().unwrap();
    let captures = here.path().join("captures");
    fs::create_dir(&captures).unwrap();
    for host in ["db1", "db2", "db3.example.org"] {
        let root = captures.join(host);
        fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
        fs::create_dir(root.join("sys")).unwrap();
        fs::write(root.join("proc/meminfo"), "MemTotal: 1048576 kB\nPageTables: 1024 kB\n")
            .unwrap();
        fs::write(root.join("proc/sys/kernel/hostname"), format!("{host}\n")).unwrap();
    }
    let run = |list: &str| {
        fs::write(here.path().join("list"), list).unwrap();
        let mut collect = Command::new(env!("CARGO_BIN_EXE_hugewise"));
        collect.args([
            "collect",
            "captures",
            "--out",
            "lake",
            "--label",
            "rest",
            "--clusters",
            "list",
            "--expect",
            "list",
        ]);
        collect
            .args(["--stale", "9999", "--format", "json"])
            .current_dir(here.path())
            .output()
            .unwrap()
    };
    for (list, told) in [
        (
            "db1\n",
            "list: line 1 has a host and no cluster; --clusters takes a file with a host and its \
                 cluster per line",
        ),
        ("db1 a\ndb1 b\n", "list: line 2 puts db1 into b, but an earlier line puts it into a;"),
    ] {
        let refused = run(list);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(told), "{refused:?}");
        assert!(!here.path().join("lake").exists());
    }
    let summary: Value =
        serde_json::from_slice(&run("db1.example.org RAC A\ndb3,RAC B\ndb9 RAC B\n").stdout)
            .unwrap();
    assert_eq!(
        (&summary["read"], &summary["absent"]),
        (&serde_json::json!(3), &serde_json::json!(["db9"]))
    );
    let mut told: Vec<_> = rows(&here.path().join("lake"), "hosts")
        .iter()
        .map(|row| format!("{} {}", value(row, "host"), value(row, "cluster")))
        .collect();
    told.sort();
    assert_eq!(told, [r#""db1" "RAC A""#, r#""db2" "rest""#, r#""db3.example.org" "RAC B""#]);
}

/// Somebody who gave the wrong folder hears of it; a folder that others empty is no failure.
#[test]
fn a_folder_without_captures_is_named() {
    let here = tempfile::tempdir().unwrap();
    fs::create_dir(here.path().join("captures")).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_hugewise"))
        .args(["collect", "captures", "--out", "lake"])
        .current_dir(here.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0));
    assert_eq!(
        String::from_utf8_lossy(&run.stderr),
        "hugewise: there are no captures in captures\n"
    );
}
