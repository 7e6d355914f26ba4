//! `collect` where a disk is full, and where it may not read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hugewise_testkit::{Skip, require};
use serde_json::Value;

use crate::real::harness::{self, HUGEWISE};

/// Captures of the fixture hosts, in a folder that everybody can read.
fn captures(folder: &Path) -> PathBuf {
    let given = folder.join("captures");
    fs::create_dir(&given).unwrap();
    let hosts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts");
    for host in ["no-pool-postgresql", "oracle-many-sessions", "idle-pool-mariadb"] {
        let capture = given.join(format!("{host}.tar.gz"));
        let mut tar = Command::new("tar");
        assert!(
            tar.arg("-C")
                .arg(&hosts)
                .arg("-czf")
                .arg(&capture)
                .arg(host)
                .status()
                .unwrap()
                .success()
        );
        fs::set_permissions(&capture, fs::Permissions::from_mode(0o644)).unwrap();
    }
    given
}

fn summary(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Rows of all files of a lake, by their sizes and names: these are made of what is in them.
fn files(lake: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut folders = vec![lake.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "parquet") {
                let size = fs::metadata(&path).unwrap().len();
                found.push((path.strip_prefix(lake).unwrap().to_owned(), size));
            }
        }
    }
    found.sort();
    found
}

/// On a file system of 40 KiB the tables do not fit; once it is larger, the same command writes
/// them whole, and once.
const FULL: &str = "\
set -u
mount -t tmpfs -o size=40k tmpfs \"$LAKE\" || exit 99
\"$HUGEWISE\" collect \"$GIVEN\" --out \"$LAKE\" --format json >/dev/null 2>\"$BASE/said\"
echo \"$?\" >\"$BASE/code\"
mount -o remount,size=64m \"$LAKE\" || exit 98
\"$HUGEWISE\" collect \"$GIVEN\" --out \"$LAKE\" --format json >\"$BASE/again\"
cp -r \"$LAKE\" \"$BASE/kept\"
";

#[test]
fn a_full_disk_loses_nothing_and_counts_nothing_twice() {
    require!(full());
}

fn full() -> Result<(), Skip> {
    harness::program(&["/usr/bin/unshare"])?;
    let folder = harness::folder();
    let (base, given) = (folder.path(), captures(folder.path()));
    let whole = base.join("whole");
    let mut collect = Command::new(HUGEWISE);
    let undisturbed = collect
        .arg("collect")
        .arg(&given)
        .arg("--out")
        .arg(&whole)
        .args(["--format", "json"])
        .output()
        .unwrap();
    assert_eq!(summary(&undisturbed)["read"], 3);
    let lake = base.join("lake");
    fs::create_dir(&lake).unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "sh", "-c", FULL]);
    unshare.env("HUGEWISE", HUGEWISE).env("GIVEN", &given).env("LAKE", &lake).env("BASE", base);
    let output = unshare.output().unwrap();
    match output.status.code() {
        Some(0) => {}
        Some(99) => return Err(Skip("no tmpfs can be mounted here".into())),
        code => panic!("{code:?}: {}", String::from_utf8_lossy(&output.stderr)),
    }
    let (code, said) = (
        fs::read_to_string(base.join("code")).unwrap(),
        fs::read_to_string(base.join("said")).unwrap(),
    );
    assert_eq!(code.trim(), "2", "{said}");
    assert!(said.contains("No space left") && said.contains("lake"), "{said}");
    let again: Value =
        serde_json::from_str(&fs::read_to_string(base.join("again")).unwrap()).unwrap();
    assert_eq!((&again["read"], &again["already"]), (&3.into(), &0.into()));
    assert_eq!(files(&base.join("kept")), files(&whole));
    Ok(())
}

#[test]
fn what_may_not_be_read_is_named_and_keeps_nobody_from_the_rest() {
    require!(denied());
}

fn denied() -> Result<(), Skip> {
    harness::program(&["/usr/bin/tar"])?;
    if !rustix::process::getuid().is_root() {
        return Err(Skip("only root can become somebody else".into()));
    }
    let folder = harness::folder();
    // As /tmp is: what is in it is its owner's.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let given = captures(folder.path());
    fs::set_permissions(&given, fs::Permissions::from_mode(0o755)).unwrap();
    let closed = given.join("oracle-many-sessions.tar.gz");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o600)).unwrap();
    let locked = given.join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
    let program = folder.path().join("hugewise");
    fs::copy(HUGEWISE, &program).unwrap();
    let mut collect = Command::new(&program);
    collect
        .arg("collect")
        .arg(&given)
        .arg("--out")
        .arg(folder.path().join("lake"))
        .args(["--format", "json"]);
    let output = collect.uid(65_534).gid(65_534).output().unwrap();
    let told = summary(&output);
    assert_eq!(told["read"], 2, "{told}");
    let failed: Vec<&str> = told["failures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|json| json["path"].as_str().unwrap())
        .collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    for path in [&closed, &locked] {
        assert!(failed.contains(&path.to_str().unwrap()), "{failed:?}");
    }
    Ok(())
}
