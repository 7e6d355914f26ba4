//! Takes the host's huge-page pools and switches for a test, and gives them back as they were.
//!
//! Only one holder at a time: a lock file serialises test runs. What was there before is written beside
//! the lock, so that the next taker puts right what a killed run left behind.

#![allow(clippy::disallowed_methods, reason = "the guard changes this machine; a captured one has nothing to guard")]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hugewise_model::{PageCount, PageSize};

/// How long others may take to give their pages back.
const PATIENCE: Duration = Duration::from_secs(30);

const LOCK: &str = "/run/lock/hugewise-test.lock";
const SAVED: &str = "/run/lock/hugewise-test.saved";
const POOLS: &str = "/sys/kernel/mm/hugepages";
const NODES: &str = "/sys/devices/system/node";
const SWITCHES: [&str; 3] = [
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "/proc/sys/vm/hugetlb_shm_group",
];

/// Why a test cannot run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip(pub String);

impl Skip {
    /// Prints `SKIP: reason`.
    ///
    /// # Panics
    /// With `HUGEWISE_REQUIRE_REAL=1` in the environment: there a missing requirement is a failure.
    #[allow(clippy::panic, clippy::print_stderr, reason = "speaks to whoever runs the tests")]
    pub fn report(&self) {
        let Self(reason) = self;
        if std::env::var_os("HUGEWISE_REQUIRE_REAL").is_some_and(|value| value == "1") {
            panic!("required, and not here: {reason}");
        }
        eprintln!("SKIP: {reason}");
    }
}

/// The value of a `Result<T, Skip>`; on a missing requirement the test says so and returns.
#[macro_export]
macro_rules! require {
    ($wanted:expr) => {
        match $wanted {
            Ok(value) => value,
            Err(skip) => {
                $crate::guard::Skip::report(&skip);
                return;
            }
        }
    };
}

/// Holds the lock; restores and verifies when dropped, after a panic too.
#[derive(Debug)]
pub struct PoolGuard {
    before: Vec<(PathBuf, String)>,
    saved: PathBuf,
    _lock: File,
}

impl PoolGuard {
    /// Waits for the lock, puts right what a killed run has left, and remembers the state.
    ///
    /// # Errors
    /// Where this is no root, or a kernel without huge pages.
    pub fn take() -> Result<Self, Skip> {
        if !Path::new(POOLS).exists() {
            return Err(Skip(format!("{POOLS}: this kernel has no huge pages")));
        }
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(LOCK)
            .map_err(|error| Skip(format!("{LOCK}: {error}; run as root")))?;
        lock.lock().map_err(|error| Skip(format!("{LOCK}: {error}")))?;
        let pool = format!("{POOLS}/hugepages-2048kB/nr_hugepages");
        File::options().write(true).open(&pool).map_err(|error| Skip(format!("{pool}: {error}; run as root")))?;
        let guard = Self::with_lock(lock, PathBuf::from(SAVED));
        let guard = guard.map_err(|error| Skip(format!("saving the pools: {error}")))?;
        nobody_holds_pages()?;
        Ok(guard)
    }

    fn with_lock(lock: File, saved: PathBuf) -> io::Result<Self> {
        if let Ok(text) = fs::read_to_string(&saved) {
            restore(&from_text(&text))?;
        }
        let before = state()?;
        fs::write(&saved, to_text(&before))?;
        Ok(Self { before, saved, _lock: lock })
    }

    /// Makes the pool of that page size `pages` large, and reads back: the kernel gives what it can without a word.
    ///
    /// # Errors
    /// Where it gave fewer, and where there is no such page size.
    pub fn set_pool(&self, page_size: PageSize, pages: PageCount) -> Result<(), Skip> {
        let path = format!("{POOLS}/hugepages-{}kB/nr_hugepages", page_size.bytes().get() >> 10);
        let wanted = pages.get().to_string();
        let write = || write_and_read(Path::new(&path), &wanted).map_err(|error| Skip(format!("{path}: {error}")));
        let mut got = write()?;
        if got != wanted {
            // Memory may be fragmented: once more after compaction.
            let _ = fs::write("/proc/sys/vm/compact_memory", "1");
            got = write()?;
        }
        if got == wanted { Ok(()) } else { Err(Skip(format!("{path}: asked for {wanted} pages, got {got}"))) }
    }

    /// Sets one of the guarded switches: the THP ones, or `vm.hugetlb_shm_group`.
    ///
    /// # Errors
    /// Where the file is not among them, cannot be written, or does not take the value.
    pub fn set_switch(&self, path: &str, value: &str) -> Result<(), Skip> {
        if !SWITCHES.contains(&path) {
            return Err(Skip(format!("{path} is not guarded")));
        }
        match write_and_read(Path::new(path), value) {
            Ok(got) if got == value => Ok(()),
            Ok(got) => Err(Skip(format!("{path}: wrote {value}, reads {got}"))),
            Err(error) => Err(Skip(format!("{path}: {error}"))),
        }
    }
}

/// A server that is still ending, or one that has nothing to do with us, would have a part of every pool we set.
fn nobody_holds_pages() -> Result<(), Skip> {
    let number = |name: &str| {
        let text = fs::read_to_string(format!("{POOLS}/hugepages-2048kB/{name}")).unwrap_or_default();
        text.trim().parse::<u64>().unwrap_or(0)
    };
    let until = Instant::now() + PATIENCE;
    loop {
        let held = number("nr_hugepages").saturating_sub(number("free_hugepages")) + number("resv_hugepages");
        if held == 0 {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(Skip(format!("{held} pages of 2 MiB are held by others")));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Drop for PoolGuard {
    #[allow(clippy::panic, clippy::print_stderr, reason = "a host that is not as before must not go unnoticed")]
    fn drop(&mut self) {
        match restore(&self.before) {
            Ok(()) => {
                let _ = fs::remove_file(&self.saved);
            }
            Err(error) if std::thread::panicking() => eprintln!("the host's pools are not as they were: {error}"),
            Err(error) => panic!("the host's pools are not as they were: {error}"),
        }
    }
}

/// What is guarded, in the order in which it is restored: files and their values.
fn state() -> io::Result<Vec<(PathBuf, String)>> {
    let mut paths = Vec::new();
    for pool in folders(Path::new(POOLS))? {
        paths.push(pool.join("nr_overcommit_hugepages"));
    }
    // Node by node: writing the sum would spread the pages anew.
    for node in folders(Path::new(NODES)).unwrap_or_default() {
        for pool in folders(&node.join("hugepages")).unwrap_or_default() {
            paths.push(pool.join("nr_hugepages"));
        }
    }
    paths.extend(SWITCHES.iter().map(PathBuf::from));
    let mut values = Vec::new();
    for path in paths {
        match value_of(&path) {
            Ok(value) => values.push((path, value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(values)
}

fn folders(parent: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        if path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Writes every value that differs and reads it back. The memory of a server that is just ending may still
/// hold pages, so a few seconds' patience belongs to it.
fn restore(before: &[(PathBuf, String)]) -> io::Result<()> {
    let until = Instant::now() + Duration::from_secs(10);
    let mut failed = Ok(());
    for (path, value) in before {
        if let Err(error) = restore_one(path, value, until) {
            failed = Err(io::Error::other(format!("{}: {error}", path.display())));
        }
    }
    failed
}

fn restore_one(path: &Path, value: &str, until: Instant) -> io::Result<()> {
    while value_of(path)? != value {
        if Instant::now() > until {
            return Err(io::Error::other(format!("is {}, not {value}", value_of(path)?)));
        }
        if write_and_read(path, value)? != value {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

fn write_and_read(path: &Path, value: &str) -> io::Result<String> {
    fs::write(path, value)?;
    value_of(path)
}

/// A file's value; of `always [madvise] never` the chosen word.
fn value_of(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let text = text.trim();
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    Ok(chosen.unwrap_or(text).to_owned())
}

fn to_text(state: &[(PathBuf, String)]) -> String {
    let mut text = String::new();
    for (path, value) in state {
        let _ = writeln!(text, "{}\t{value}", path.display());
    }
    text
}

fn from_text(text: &str) -> Vec<(PathBuf, String)> {
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(path, value)| (PathBuf::from(path), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> u64 {
        value_of(Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")).unwrap().parse().unwrap()
    }

    #[test]
    fn the_pool_is_as_before_after_use_panic_and_a_killed_run() {
        let guard = require!(PoolGuard::take());
        let before = pages();
        guard.set_pool(PageSize::MIB_2, PageCount(before + 3)).unwrap();
        assert_eq!(pages(), before + 3);
        assert!(Path::new(SAVED).exists());
        drop(guard);

        // Between two takes another run may have the host: look only while holding it.
        let guard = require!(PoolGuard::take());
        let before = pages();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _guard = guard;
            _guard.set_pool(PageSize::MIB_2, PageCount(before + 2)).unwrap();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());

        let mut guard = require!(PoolGuard::take());
        guard.set_pool(PageSize::MIB_2, PageCount(before + 1)).unwrap();
        // As a killed run leaves it: the saved state stands, and nothing was restored.
        guard.before.clear();
        let saved = std::mem::replace(&mut guard.saved, PathBuf::from("/run/lock/hugewise-test.none"));
        assert!(saved.exists());
        drop(guard);
        let _guard = require!(PoolGuard::take());
        assert_eq!(pages(), before);
    }

    #[test]
    fn a_saved_state_survives_its_text() {
        let state = vec![(PathBuf::from("/sys/a"), "madvise".to_owned()), (PathBuf::from("/proc/b"), String::new())];
        assert_eq!(from_text(&to_text(&state)), state);
    }

    #[test]
    fn only_guarded_switches_can_be_set() {
        let guard = require!(PoolGuard::take());
        assert!(guard.set_switch("/proc/sys/vm/swappiness", "1").is_err());
    }
}
