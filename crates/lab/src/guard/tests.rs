use std::fs;
use std::path::Path;

use super::*;
use hugewise_testkit::require;

fn pages() -> u64 {
    read_number(&pool_file(PageSize::MIB_2, "nr_hugepages")).unwrap()
}

#[test]
fn the_pool_is_as_before_after_use_panic_and_a_killed_run() {
    let guard = require!(PoolGuard::take_for_test());
    let before = pages();
    guard.set_pool(PageSize::MIB_2, PageCount(before + 3)).unwrap();
    assert_eq!(pages(), before + 3);
    assert!(Path::new(SAVED_BY_TESTS).exists());
    drop(guard);

    // Between two takes another run may have the host: look only while holding it.
    let guard = require!(PoolGuard::take_for_test());
    let before = pages();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = guard;
        _guard.set_pool(PageSize::MIB_2, PageCount(before + 2)).unwrap();
        panic!("on purpose");
    }));
    assert!(panicked.is_err());

    let mut guard = require!(PoolGuard::take_for_test());
    guard.set_pool(PageSize::MIB_2, PageCount(before + 1)).unwrap();
    // As a killed run leaves it: the saved state stands, and nothing was restored.
    guard.lock_guarded_files().clear();
    let saved = std::mem::replace(&mut guard.saved, "/run/hugewise/test.none".to_owned());
    assert!(Path::new(&saved).exists());
    drop(guard);
    let _guard = require!(PoolGuard::take_for_test());
    assert_eq!(pages(), before);
}

#[test]
fn beside_others_what_they_changed_stays() {
    let tests = require!(PoolGuard::take_for_test());
    let pool = pool_file(PageSize::MIB_2, "nr_hugepages");
    let before = pages();
    let with = |changes: &dyn Fn(&PoolGuard)| {
        let saved = tempfile::tempdir().unwrap();
        let saved = saved.path().join("saved");
        let guard = PoolGuard::from_saved_state(
            LiveSystem::new().unwrap(),
            saved.to_str().unwrap(),
            Scope::Ours,
            None,
            None,
        )
        .unwrap();
        changes(&guard);
        drop(guard);
        pages()
    };
    // What we grew goes back; what another has written after us, or where we wrote nothing, stays.
    assert_eq!(
        with(&|guard| guard.provide_pages(PageSize::MIB_2, PageCount(before + 4)).unwrap()),
        before
    );
    assert_eq!(with(&|_| fs::write(&pool, (before + 1).to_string()).unwrap()), before + 1);
    let after = |guard: &PoolGuard| {
        guard.set_pool(PageSize::MIB_2, PageCount(before + 4)).unwrap();
        fs::write(&pool, (before + 3).to_string()).unwrap();
    };
    assert_eq!(with(&after), before + 3);
    drop(tests);
}

#[test]
fn only_one_experiment_at_a_time() {
    let _alone = require!(lock_host_for_test());
    let guard = require!(PoolGuard::beside_others());
    let PoolRefusal(reason) = PoolGuard::beside_others().unwrap_err();
    let ours = format!("process {} (", std::process::id());
    assert!(reason.contains(&ours) && reason.contains("/var/lib/hugewise/lock"), "{reason}");
    drop(guard);
    drop(require!(PoolGuard::beside_others()));
}

#[test]
fn what_a_killed_experiment_has_left_is_put_right_before_a_test() {
    let _tests = require!(PoolGuard::take_for_test());
    let before = pages();
    let mut guard = require!(PoolGuard::beside_others());
    guard.set_pool(PageSize::MIB_2, PageCount(before + 1)).unwrap();
    // As a killed run leaves it whose watchdog was killed, too.
    guard.lock_guarded_files().clear();
    guard.saved = "/run/hugewise/lab.none".to_owned();
    let watchdog = guard.watchdog.take();
    fs::copy(SAVED, "/run/hugewise/lab.copy").unwrap();
    drop(watchdog);
    fs::rename("/run/hugewise/lab.copy", SAVED).unwrap();
    fs::write(pool_file(PageSize::MIB_2, "nr_hugepages"), (before + 1).to_string()).unwrap();
    drop(guard);
    assert_eq!(pages(), before + 1);
    experiments_are_over(&LiveSystem::new().unwrap()).unwrap();
    assert_eq!(pages(), before);
    assert!(!Path::new(SAVED).exists());
}

#[test]
fn more_than_memory_holds_is_not_even_asked_for() {
    let guard = require!(PoolGuard::take_for_test());
    let before = pages();
    let PoolRefusal(reason) = guard.provide_pages(PageSize::MIB_2, PageCount(1 << 40)).unwrap_err();
    assert!(reason.contains("more pages of 2 MiB are needed, but memory has room for"), "{reason}");
    assert_eq!(pages(), before);
}

#[test]
fn only_guarded_switches_can_be_set() {
    let guard = require!(PoolGuard::take_for_test());
    assert!(guard.set_switch("/proc/sys/vm/swappiness", "1").is_err());
}
