//! Takes the host's huge-page pools and switches for an experiment or a test, and gives them back as they were.
//!
//! Only one holder at a time: a lock file serialises them. What was there before, and what was made of it, is written
//! beside the lock before each change, so that the next taker puts right what a killed run left behind.

#![allow(clippy::disallowed_methods, reason = "the guard changes this machine; a captured one has nothing to guard")]

mod files;
mod skip;
mod state;

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hugewise_model::{PageCount, PageSize};

use self::files::number_of;
pub(crate) use self::files::{folders, value_of};
pub use self::skip::Skip;
use self::state::{Kept, Made, Scope, from_text, restore, save, state};
use crate::budget::Gauge;
use crate::thp;
use crate::warden::Warden;

/// How long others may take to give their pages back.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tests alone take this one, and then the other: they may have a host all for themselves.
const TESTS: &str = "/run/lock/hugewise-test.lock";
/// Gone with the next boot, as the kernel's settings are.
const FOLDER: &str = "/run/hugewise";
const LOCK: &str = "/run/hugewise/lab.lock";
const SAVED: &str = "/run/hugewise/lab.saved";
const POOLS: &str = "/sys/kernel/mm/hugepages";
const NODES: &str = "/sys/devices/system/node";
const SHM_GROUP: &str = "/proc/sys/vm/hugetlb_shm_group";

/// Holds the lock; restores and verifies when dropped, after a panic too.
#[derive(Debug)]
pub struct PoolGuard {
    kept: Mutex<Vec<Kept>>,
    saved: PathBuf,
    scope: Scope,
    /// Declared before the locks, so that it is gone when they are free.
    warden: Option<Warden>,
    locks: Vec<File>,
}

impl PoolGuard {
    /// For a test: waits for the lock, puts right what a killed run has left, and remembers the state.
    ///
    /// # Errors
    /// Where this is no root, or a kernel without huge pages, and where others hold pages.
    pub fn take() -> Result<Self, Skip> {
        may_write()?;
        let mut locks = Vec::new();
        for path in [TESTS, LOCK] {
            let file = open_lock(path)?;
            file.lock().map_err(|error| Skip(format!("{path}: {error}")))?;
            locks.push(file);
        }
        let guard = Self::with_locks(locks, PathBuf::from(SAVED), Scope::Everything);
        let guard = guard.map_err(|error| Skip(format!("saving the pools: {error}")))?;
        nobody_holds_pages()?;
        Ok(guard)
    }

    /// For an experiment on a host where others work: what they hold and change stays as it is.
    ///
    /// # Errors
    /// Where this is no root, a kernel without huge pages, or where another experiment is running.
    pub fn beside_others() -> Result<Self, Skip> {
        may_write()?;
        let lock = open_lock(LOCK)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Skip("another experiment is running on this host".to_owned())),
            Err(TryLockError::Error(error)) => return Err(Skip(format!("{LOCK}: {error}"))),
        }
        let guard = Self::with_locks(vec![lock], PathBuf::from(SAVED), Scope::Ours);
        let guard = guard.map_err(|error| Skip(format!("saving the pools: {error}")))?;
        // Where there can be no warden, the next one to take the guard puts right what a kill has left.
        Ok(guard.watched())
    }

    /// From now on another process puts everything back should this one be killed. It has open what this one has open
    /// now, and ends with the guard: take it before there are pipes whose end somebody waits for.
    #[must_use]
    pub fn watched(mut self) -> Self {
        self.warden = Warden::start(put_right).ok();
        self
    }

    /// Whether this process may change pools and switches.
    pub fn may_change() -> bool {
        may_write().is_ok()
    }

    fn with_locks(locks: Vec<File>, saved: PathBuf, scope: Scope) -> io::Result<Self> {
        if saved.exists() {
            // A run was killed. What it had not touched is not in its file as touched, so nothing of others is lost.
            restore(&mut from_text(&fs::read_to_string(&saved)?), scope)?;
        }
        let kept = state()?;
        save(&saved, &kept)?;
        Ok(Self { kept: Mutex::new(kept), saved, scope, warden: None, locks })
    }

    /// Makes the pool of that page size `pages` large, and reads back: the kernel gives what it can without a word.
    ///
    /// # Errors
    /// Where it gave fewer, and where there is no such page size.
    pub fn set_pool(&self, page_size: PageSize, pages: PageCount) -> Result<(), Skip> {
        let path = pool_file(page_size, "nr_hugepages");
        let got = self.try_pool(page_size, pages)?;
        if got == pages { Ok(()) } else { Err(Skip(format!("{path}: asked for {pages} pages, got {got}"))) }
    }

    /// Makes the pool of that page size `pages` large as far as the kernel can, with compaction in between, and
    /// tells how large it became. Surplus pages, which belong to others, are not counted.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn try_pool(&self, page_size: PageSize, pages: PageCount) -> Result<PageCount, Skip> {
        let mut got = self.ask_once(page_size, pages)?;
        if got < pages {
            // Memory may be fragmented: once more after compaction.
            let _ = fs::write("/proc/sys/vm/compact_memory", "1");
            got = self.ask_once(page_size, pages)?;
        }
        Ok(got)
    }

    /// The same without compaction in between.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn ask_once(&self, page_size: PageSize, pages: PageCount) -> Result<PageCount, Skip> {
        let path = pool_file(page_size, "nr_hugepages");
        self.changing(|| fs::write(&path, pages.get().to_string()), |kept| is_pool(&kept.path, page_size))
            .and_then(|()| number_of(Path::new(&path)))
            .map(PageCount)
            .map_err(|error| Skip(format!("{path}: {error}")))
    }

    /// How large the pool is, surplus pages not counted.
    ///
    /// # Errors
    /// Where the kernel has no such page size.
    pub fn pool(&self, page_size: PageSize) -> Result<PageCount, Skip> {
        let path = pool_file(page_size, "nr_hugepages");
        number_of(Path::new(&path)).map(PageCount).map_err(|error| Skip(format!("{path}: {error}")))
    }

    /// Grows the pool until `pages` can be had from it, beside what others hold and have reserved.
    ///
    /// # Errors
    /// Where the kernel has not so many; the pool is as before then. Where memory is not enough the kernel is not
    /// even asked: it would take all that there is before it gave up.
    pub fn provide(&self, page_size: PageSize, pages: PageCount) -> Result<(), Skip> {
        let available =
            available(page_size).ok_or_else(|| Skip(format!("this kernel offers no pages of {page_size}")))?;
        let missing = pages.saturating_sub(available);
        if missing == PageCount::ZERO {
            return Ok(());
        }
        let room = Gauge::new().read().map_err(Skip)?.spare();
        if missing.of(page_size) > room {
            return Err(Skip(format!(
                "{missing} more pages of {page_size} are wanted, and memory has room for {room}"
            )));
        }
        let path = pool_file(page_size, "nr_hugepages");
        let now = number_of(Path::new(&path)).map_err(|error| Skip(format!("{path}: {error}")))?;
        let got = self.try_pool(page_size, PageCount(now) + missing)?.saturating_sub(PageCount(now));
        if got >= missing {
            return Ok(());
        }
        self.give_back().map_err(|error| Skip(error.to_string()))?;
        Err(Skip(format!("{missing} more pages of {page_size} were asked for, and the kernel could make {got}")))
    }

    /// Allows `pages` surplus pages beyond the pool.
    ///
    /// # Errors
    /// Where the file cannot be written or does not take the value.
    pub fn set_overcommit(&self, page_size: PageSize, pages: PageCount) -> Result<(), Skip> {
        self.set(&pool_file(page_size, "nr_overcommit_hugepages"), &pages.get().to_string())
    }

    /// Sets one of the guarded switches: those of transparent huge pages, or `vm.hugetlb_shm_group`.
    ///
    /// # Errors
    /// Where the file is not among them, cannot be written, or does not take the value.
    pub fn set_switch(&self, path: &str, value: &str) -> Result<(), Skip> {
        if path != SHM_GROUP && !path.starts_with(thp::FOLDER) {
            return Err(Skip(format!("{path} is not guarded")));
        }
        self.set(path, value)
    }

    fn set(&self, path: &str, value: &str) -> Result<(), Skip> {
        if !self.lock().iter().any(|kept| kept.path == Path::new(path)) {
            return Err(Skip(format!("{path} is not guarded")));
        }
        let write = || self.changing(|| fs::write(path, value), |kept| kept.path == Path::new(path));
        match write().and_then(|()| value_of(Path::new(path))) {
            Ok(got) if got == value => Ok(()),
            Ok(got) => Err(Skip(format!("{path}: wrote {value}, reads {got}"))),
            Err(error) => Err(Skip(format!("{path}: {error}"))),
        }
    }

    /// Puts everything back as it was, and goes on holding the lock.
    ///
    /// # Errors
    /// Where a file does not take its value again.
    pub fn give_back(&self) -> io::Result<()> {
        let mut kept = self.lock();
        let restored = restore(&mut kept, self.scope);
        save(&self.saved, &kept)?;
        restored
    }

    /// Writes down that the files of `which` are changing, lets `change` do it, and writes down what they read then.
    fn changing(&self, change: impl FnOnce() -> io::Result<()>, which: impl Fn(&Kept) -> bool) -> io::Result<()> {
        let mut kept = self.lock();
        for one in kept.iter_mut().filter(|one| which(one)) {
            one.made = Made::Writing;
        }
        save(&self.saved, &kept)?;
        let changed = change();
        for one in kept.iter_mut().filter(|one| which(one)) {
            let now = value_of(&one.path)?;
            one.made = if now == one.before { Made::Untouched } else { Made::Value(now) };
        }
        save(&self.saved, &kept)?;
        changed
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For a test of what takes the guard by itself: no other test has the host as long as the file is open.
///
/// # Errors
/// Where this is no root.
pub fn alone() -> Result<File, Skip> {
    may_write()?;
    let file = open_lock(TESTS)?;
    file.lock().map_err(|error| Skip(format!("{TESTS}: {error}")))?;
    Ok(file)
}

/// What the warden does: nothing after an ordinary end, which leaves no saved state.
fn put_right() {
    if let Ok(text) = fs::read_to_string(SAVED)
        && restore(&mut from_text(&text), Scope::Ours).is_ok()
    {
        let _ = fs::remove_file(SAVED);
    }
}

/// Pages of a pool that may be had now: free ones that are not promised to others. `None` where the kernel has no
/// such page size.
pub fn available(page_size: PageSize) -> Option<PageCount> {
    let number = |name| number_of(Path::new(&pool_file(page_size, name))).ok().map(PageCount);
    Some(number("free_hugepages")?.saturating_sub(number("resv_hugepages")?))
}

fn pool_file(page_size: PageSize, name: &str) -> String {
    format!("{POOLS}/hugepages-{}kB/{name}", page_size.bytes().get() >> 10)
}

/// Whether a file is a pool of that page size, of whichever node.
fn is_pool(path: &Path, page_size: PageSize) -> bool {
    path.ends_with(format!("hugepages-{}kB/nr_hugepages", page_size.bytes().get() >> 10))
}

fn may_write() -> Result<(), Skip> {
    if !Path::new(POOLS).exists() {
        return Err(Skip(format!("{POOLS}: this kernel has no huge pages")));
    }
    let pool = format!("{POOLS}/hugepages-2048kB/nr_hugepages");
    let pool = if Path::new(&pool).exists() { pool } else { "/proc/sys/vm/nr_hugepages".to_owned() };
    match File::options().write(true).open(&pool) {
        Ok(_) => Ok(()),
        Err(error) => Err(Skip(format!("{pool}: {error}; run as root"))),
    }
}

fn open_lock(path: &str) -> Result<File, Skip> {
    let failed = |error: io::Error| Skip(format!("{path}: {error}; run as root"));
    if path == LOCK {
        match fs::DirBuilder::new().mode(0o755).create(FOLDER) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
    }
    File::options().create(true).truncate(false).write(true).mode(0o600).open(path).map_err(failed)
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
        let restored = restore(&mut self.lock(), self.scope);
        let finish = |guard: &mut Self| {
            guard.warden = None;
            // A process that was forked meanwhile and has not ended yet has these files open too: closing ours would
            // leave them locked.
            for lock in &guard.locks {
                let _ = lock.unlock();
            }
        };
        match restored {
            Ok(()) => {
                let _ = fs::remove_file(&self.saved);
                finish(self);
            }
            Err(error) if std::thread::panicking() || self.scope == Scope::Ours => {
                eprintln!("the host's pools are not as they were: {error}");
            }
            Err(error) => panic!("the host's pools are not as they were: {error}"),
        }
    }
}

#[cfg(test)]
mod tests;
