//! A lab that is killed leaves neither sessions nor pages behind: nobody can catch SIGKILL.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

fn pool() -> u64 {
    fs::read_to_string(POOL).unwrap().trim().parse().unwrap()
}

/// Processes below this one, itself not among them.
fn below(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children: Vec<u32> =
        text.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect();
    children.iter().flat_map(|child| [vec![*child], below(*child)].concat()).collect()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < until, "still not after a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_killed_lab_leaves_neither_sessions_nor_pages() {
    let guard = require!(PoolGuard::take_for_test());
    // Idle pages of this host would be enough for the lab, which would not grow the pool then.
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    let before = pool();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_hugewise"))
        .args(["lab", "logins", "--yes", "--pages", "2m", "--segment", "32M", "--sessions", "3"])
        // One a second: more than an hour.
        .args(["--paced", "5000", "--interval", "1000", "--warm-ups", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The watchdog, the server, and sessions.
    wait_until("sessions on a grown pool", || {
        assert_eq!(lab.try_wait().unwrap(), None, "the lab ended by itself");
        pool() > before && below(lab.id()).len() > 3
    });
    let processes = below(lab.id());
    lab.kill().unwrap();
    lab.wait().unwrap();
    wait_until("processes gone", || {
        processes.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    });
    assert_eq!(pool(), before);
    assert!(!Path::new("/run/hugewise/lab.saved").exists());
}
