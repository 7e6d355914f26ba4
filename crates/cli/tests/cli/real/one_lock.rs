//! One lock for all that change a host: apply, undo and the lab never have it in hand at once, and
//! who is refused hears who has it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hugewise_change::plan::ValueChange;
use hugewise_change::{Risk, Step};
use hugewise_lab::guard::PoolGuard;
use hugewise_model::{PageCount, PageSize};
use hugewise_testkit::require;

use crate::real::harness::{self, HUGEWISE};
use crate::real::namespace;
use crate::real::plans::{self, GRUB_CFG, THP, UPDATE_GRUB, update_grub};

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const LOCK: &str = "/var/lib/hugewise/lock";
/// The boot loader's program is at work.
const UP: &str = "/etc/default/up";
/// It may end.
const GO: &str = "/etc/default/go";

const LAB: [&str; 15] = [
    "lab",
    "sort",
    "--rows",
    "20000",
    "--extents",
    "64K",
    "--runs",
    "1",
    "--warm-ups",
    "0",
    "--pages",
    "4k,2m",
    "--yes",
    "--format",
    "json",
];

fn hugewise(words: &[&str]) -> Output {
    Command::new(HUGEWISE).args(words).stdin(Stdio::null()).output().unwrap()
}

fn spawned(words: &[&str]) -> Child {
    let null = Stdio::null;
    Command::new(HUGEWISE).args(words).stdin(null()).stdout(null()).stderr(null()).spawn().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn pool() -> u64 {
    fs::read_to_string(POOL).unwrap().trim().parse().unwrap()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < until, "still not after a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn step(id: &str) -> Step {
    Step::new(id, id, Risk::Safe, "a test")
}

fn kept(folder: &Path, step: Step) -> PathBuf {
    let file = folder.join("plan.json");
    fs::write(&file, plans::plan_as_it_is(vec![step]).to_json()).unwrap();
    file
}

/// It could not do its work, and names the process that is in its way.
#[track_caller]
fn assert_refused(output: &Output, holder: u32, words: &[&str]) {
    let said = said(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let names = format!("process {holder} (");
    for wanted in [&names, LOCK, "Nothing was changed"].iter().chain(words) {
        assert!(said.contains(*wanted), "{wanted}: {said}");
    }
}

#[test]
fn apply_and_undo_wait_for_a_lab() {
    if !require!(namespace::inside("one_lock::apply_and_undo_wait_for_a_lab")) {
        return;
    }
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.set_switch(THP, "madvise"));
    // Idle pages of this host would be enough for the lab, which would not grow the pool then.
    require!(guard.set_pool(PageSize::MIB_2, PageCount(0)));
    let folder = harness::folder();
    let plan = kept(folder.path(), step("thp").with_change(ValueChange::new(THP, "always")));
    let plan = plan.to_str().unwrap();
    let before = pool();
    // One login a second: more than an hour.
    let mut lab = spawned(&[
        "lab",
        "logins",
        "--yes",
        "--pages",
        "2m",
        "--segment",
        "32M",
        "--sessions",
        "3",
        "--paced",
        "5000",
        "--interval",
        "1000",
        "--warm-ups",
        "0",
    ]);
    wait_until("a grown pool", || {
        assert_eq!(lab.try_wait().unwrap(), None, "the lab ended by itself");
        pool() > before
    });
    let (grown, end) = (pool(), format!("kill {}", lab.id()));
    assert_refused(&hugewise(&["apply", plan, "--yes"]), lab.id(), &["lab logins", &end]);
    assert_refused(&hugewise(&["undo"]), lab.id(), &["lab logins", &end]);
    assert_refused(&hugewise(&LAB), lab.id(), &["lab logins", &end]);
    assert_eq!((pool(), plans::line(THP).unwrap().as_str()), (grown, "always [madvise] never"));
    // Killed without a chance to clean up, it leaves neither the lock nor the pages.
    lab.kill().unwrap();
    lab.wait().unwrap();
    wait_until("the lock free", || {
        let applied = hugewise(&["apply", plan, "--yes"]);
        let free = !said(&applied).contains(LOCK);
        assert!(!free || applied.status.code() == Some(0), "{}", said(&applied));
        free
    });
    assert_eq!((pool(), plans::line(THP).unwrap().as_str()), (before, "[always] madvise never"));
    assert_eq!(hugewise(&["undo"]).status.code(), Some(0));
}

#[test]
fn a_lab_waits_for_an_apply_and_what_it_has_started() {
    if !require!(namespace::inside("one_lock::a_lab_waits_for_an_apply_and_what_it_has_started")) {
        return;
    }
    let _guard = require!(PoolGuard::take_for_test());
    for (path, text, mode) in [
        (GRUB_CFG, "# made by update-grub\n".to_owned(), 0o600),
        (
            UPDATE_GRUB,
            format!("#!/bin/sh\n> {UP}\nwhile [ ! -e {GO} ]; do sleep 0.05; done\n"),
            0o755,
        ),
    ] {
        fs::create_dir_all(Path::new(path).parent().unwrap()).unwrap();
        let _ = fs::remove_file(path);
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let folder = harness::folder();
    let plan = kept(folder.path(), step("grub").with_change(update_grub()));
    let before = pool();
    let mut apply = spawned(&["apply", plan.to_str().unwrap(), "--yes"]);
    wait_until("the boot loader's program", || {
        assert_eq!(apply.try_wait().unwrap(), None, "the apply ended by itself");
        Path::new(UP).exists()
    });
    let refused = hugewise(&LAB);
    assert_refused(&refused, apply.id(), &["apply", "wait for it to end"]);
    assert!(!said(&refused).contains("kill"), "{}", said(&refused));
    assert_eq!(pool(), before);
    apply.kill().unwrap();
    apply.wait().unwrap();
    // The apply is gone, and its program goes on.
    let refused = hugewise(&LAB);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(
        said(&refused).contains(UPDATE_GRUB) && said(&refused).contains(LOCK),
        "{}",
        said(&refused)
    );
    fs::write(GO, "").unwrap();
    wait_until("the lock free", || {
        let measured = hugewise(&LAB);
        let free = !said(&measured).contains(LOCK);
        assert!(!free || measured.status.code() == Some(0), "{}", said(&measured));
        free
    });
    assert_eq!(pool(), before);
}
