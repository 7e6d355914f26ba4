//! The stand-in looks like what it stands for, and leaves nothing behind, however it ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn text(path: &str) -> Option<Vec<u8>> {
    fs::read(path).ok()
}

fn start(arguments: &[&str]) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_standin"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    child
}

/// Command lines and names of the processes whose command line holds `part`.
fn processes(part: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let folder = entry.path();
        let Some(command) = text(&format!("{}/cmdline", folder.display())) else { continue };
        let command = String::from_utf8_lossy(&command).into_owned();
        // The stand-in's own command line holds the name too.
        if command.contains(part) && !command.contains("--as") {
            let name = text(&format!("{}/comm", folder.display())).unwrap_or_default();
            found.push((command, String::from_utf8_lossy(&name).trim_end().to_owned()));
        }
    }
    found.sort();
    found
}

/// Attached processes and size of this server's System V segments, by size.
fn attached(size: u64) -> Vec<u64> {
    let text = String::from_utf8(text("/proc/sysvipc/shm").unwrap()).unwrap();
    let rows = text.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row[3] == size.to_string()).map(|row| row[6].parse().unwrap()).collect()
}

fn wait_until(mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "still not so after 20 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn looks_like_oracle_and_ends_with_its_input() {
    let mut child = start(&["--as", "oracle:LOOKS", "--segments", "3M,5123K", "--sessions", "2"]);
    let seen = processes("LOOKS");
    let titles: Vec<_> = seen.iter().map(|(command, _)| command.trim_end_matches('\0')).collect();
    assert_eq!(
        titles,
        [
            "ora_dbw0_LOOKS",
            "ora_lgwr_LOOKS",
            "ora_pmon_LOOKS",
            "ora_smon_LOOKS",
            "oracleLOOKS (LOCAL=NO)",
            "oracleLOOKS (LOCAL=NO)"
        ]
    );
    assert_eq!(seen[2].1, "ora_pmon_LOOKS");
    assert_eq!(attached(5123 << 10), [6]);
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(processes("LOOKS").is_empty());
    assert!(attached(5123 << 10).is_empty());
}

#[test]
fn a_killed_one_leaves_neither_processes_nor_segments() {
    let mut child = start(&["--as", "oracle:KILLED", "--segments", "5127K", "--sessions", "1"]);
    assert_eq!(attached(5127 << 10), [5]);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until(|| attached(5127 << 10).is_empty() && processes("KILLED").is_empty());
}

#[test]
fn automatic_memory_management_lies_on_dev_shm_in_granules() {
    let files = || {
        let names = fs::read_dir("/dev/shm")
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("ora_AMMSID_")).count()
    };
    let mut child =
        start(&["--as", "oracle:AMMSID", "--segments", "40M", "--posix-shm", "--touch", "10"]);
    assert_eq!(files(), 3);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(files(), 0);
}
