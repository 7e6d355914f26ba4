//! Takes the host's huge-page pools and switches for an experiment or a test, and restores them.
//!
//! There is one holder at a time: an experiment takes the host's lock, as apply and undo do, a test
//! the tests' lock. The former values and our changes are saved before each change, so that the
//! next holder can restore what a killed run left.

mod guarded_files;

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hugewise_model::{PageCount, PageSize};
use hugewise_system::{HeldLock, LiveSystem, LockNotTaken, System, SystemFailure};

use self::guarded_files::{
    GuardedFile, GuardedFileChange, SHM_GROUP, Scope, from_text, read_guarded_files,
    restore_guarded_files, save_guarded_files,
};
use crate::budget::ResourceGauge;
pub use crate::kernel_values::available_pages;
use crate::kernel_values::{POOLS, is_there, pool_file, read_number, read_value};
use crate::thp_switches;
use crate::watchdog::Watchdog;

const PATIENCE: Duration = Duration::from_secs(30);
/// The lock of tests, which have a host to themselves and run what takes the host's lock.
const TESTS: &str = "/run/lock/hugewise-test.lock";
/// Gone with the next boot, like the kernel's settings.
const FOLDER: &str = "/run/hugewise";
const SAVED: &str = "/run/hugewise/lab.saved";
const SAVED_BY_TESTS: &str = "/run/hugewise/test.saved";

/// Why pools or switches cannot be taken or set here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PoolRefusal(pub String);

impl From<SystemFailure> for PoolRefusal {
    fn from(failure: SystemFailure) -> Self {
        Self(failure.to_string())
    }
}

/// Holds the lock; restores and verifies when dropped, even after a panic.
#[derive(Debug)]
pub struct PoolGuard {
    live: LiveSystem,
    kept: Mutex<Vec<GuardedFile>>,
    saved: String,
    scope: Scope,
    /// Declared before the locks, so that it is gone when they are free.
    watchdog: Option<Watchdog>,
    lock: Option<HeldLock>,
    tests: Option<File>,
}

impl PoolGuard {
    /// For a test: waits for the lock, restores what a killed run left, and saves the state.
    /// Errors: without root, without huge pages in the kernel, and where others hold pages.
    pub fn take_for_test() -> Result<Self, PoolRefusal> {
        let tests = lock_host_for_test()?;
        let live = open_live_system()?;
        experiments_are_over(&live)?;
        let guard =
            Self::from_saved_state(live, SAVED_BY_TESTS, Scope::Everything, None, Some(tests))?;
        nobody_holds_pages()?;
        guard.clear_memory();
        Ok(guard)
    }

    /// For an experiment beside others, whose pages and changes stay; no other hugewise process may
    /// change this host meanwhile. Fails without root, without huge pages in the kernel, and where
    /// another process changes this host.
    pub(crate) fn beside_others() -> Result<Self, PoolRefusal> {
        may_write()?;
        let live = open_live_system()?;
        let lock = hugewise_system::take_machine_lock(&live)
            .map_err(|why| PoolRefusal(why.to_string()))?;
        let guard = Self::from_saved_state(live, SAVED, Scope::Ours, Some(lock), None)?;
        // Without a watchdog, the next holder restores what a kill left.
        Ok(guard.with_watchdog())
    }

    /// From now on another process restores everything should this one be killed. It inherits open
    /// files and ends with the guard: take it before there are pipes whose end somebody waits for.
    #[must_use]
    pub fn with_watchdog(mut self) -> Self {
        // An ordinary end leaves no saved state, and so no work.
        let work =
            || drop(LiveSystem::new().and_then(|live| put_right(&live, &self.saved, Scope::Ours)));
        self.watchdog = Watchdog::start(work).ok();
        self
    }

    /// Whether this process may change pools and switches.
    pub fn may_change() -> bool {
        may_write().is_ok()
    }

    fn from_saved_state(
        live: LiveSystem,
        saved: &str,
        scope: Scope,
        lock: Option<HeldLock>,
        tests: Option<File>,
    ) -> Result<Self, SystemFailure> {
        // A run was killed. Its saved state has only what it had touched.
        put_right(&live, saved, scope)?;
        let kept = read_guarded_files()?;
        save_guarded_files(&live, saved, &kept)?;
        Ok(Self {
            live,
            kept: Mutex::new(kept),
            saved: saved.to_owned(),
            scope,
            watchdog: None,
            lock,
            tests,
        })
    }

    /// Sets the size of a pool, and checks it: the kernel silently gives what it can.
    /// Errors: the kernel gave fewer pages, or has no such page size.
    pub fn set_pool(&self, page_size: PageSize, pages: PageCount) -> Result<(), PoolRefusal> {
        let path = pool_file(page_size, "nr_hugepages");
        let got = self.try_pool(page_size, pages)?;
        if got == pages {
            Ok(())
        } else {
            Err(PoolRefusal(format!("{path}: asked for {pages} pages, got {got}")))
        }
    }

    /// Sets the size of a pool as far as the kernel can, with compaction in between; the resulting
    /// size without surplus pages, which belong to others. Fails where the file cannot be written.
    pub(crate) fn try_pool(
        &self,
        page_size: PageSize,
        pages: PageCount,
    ) -> Result<PageCount, PoolRefusal> {
        let mut got = self.ask_once(page_size, pages)?;
        // Memory may be fragmented: once more after compaction, several times beside a compilation.
        let tries = if self.tests.is_some() { 5 } else { 1 };
        for _ in 0..tries {
            if got >= pages {
                break;
            }
            self.clear_memory();
            let _ = self.live.write_value("/proc/sys/vm/compact_memory", "1");
            got = self.ask_once(page_size, pages)?;
        }
        Ok(got)
    }

    /// On a host where others work, no cache is dropped.
    fn clear_memory(&self) {
        if self.tests.is_some() {
            rustix::fs::sync();
            let _ = self.live.write_value("/proc/sys/vm/drop_caches", "1");
            let _ = self.live.write_value("/proc/sys/vm/compact_memory", "1");
        }
    }

    /// Sets the size of a pool once, without compaction; the resulting size without surplus pages.
    /// Errors: the file cannot be written.
    pub(crate) fn ask_once(
        &self,
        page_size: PageSize,
        pages: PageCount,
    ) -> Result<PageCount, PoolRefusal> {
        let path = pool_file(page_size, "nr_hugepages");
        let write = || self.live.write_value(&path, &pages.get().to_string());
        self.change_guarded_files(write, |kept| is_pool(&kept.path, page_size))?;
        Ok(PageCount(read_number(&path)?))
    }

    /// The size of a pool without surplus pages. Errors: the kernel has no such page size.
    pub fn pool_size(&self, page_size: PageSize) -> Result<PageCount, PoolRefusal> {
        Ok(PageCount(read_number(&pool_file(page_size, "nr_hugepages"))?))
    }

    /// Grows the pool until `pages` are available, besides those that others hold or reserved.
    /// Errors: the kernel cannot make so many; the pool is restored. Without enough memory the
    /// kernel is not asked: it would take everything before it gave up.
    pub fn provide_pages(&self, page_size: PageSize, pages: PageCount) -> Result<(), PoolRefusal> {
        let available = available_pages(page_size)
            .ok_or_else(|| PoolRefusal(format!("this kernel offers no pages of {page_size}")))?;
        let missing = pages.saturating_sub(available);
        if missing == PageCount::ZERO {
            return Ok(());
        }
        let room =
            ResourceGauge::new().read().map_err(|why| PoolRefusal(why.to_string()))?.spare_memory();
        if missing.to_bytes(page_size) > room {
            return Err(PoolRefusal(format!(
                "{missing} more pages of {page_size} are needed, but memory has room for only \
                 {room}"
            )));
        }
        let now = self.pool_size(page_size)?;
        let got = self.try_pool(page_size, now + missing)?.saturating_sub(now);
        if got >= missing {
            return Ok(());
        }
        self.give_back()?;
        Err(PoolRefusal(format!(
            "{missing} more pages of {page_size} were requested, but the kernel could make only \
             {got}"
        )))
    }

    /// Allows `pages` surplus pages beyond the pool.
    /// Errors: the file cannot be written or does not take the value.
    pub fn set_overcommit(&self, page_size: PageSize, pages: PageCount) -> Result<(), PoolRefusal> {
        self.set_guarded_value(
            &pool_file(page_size, "nr_overcommit_hugepages"),
            &pages.get().to_string(),
        )
    }

    /// Sets a guarded switch: of transparent huge pages, or `vm.hugetlb_shm_group`.
    /// Errors: the file is not guarded, cannot be written, or does not take the value.
    pub fn set_switch(&self, path: &str, value: &str) -> Result<(), PoolRefusal> {
        if path != SHM_GROUP && !path.starts_with(thp_switches::FOLDER) {
            return Err(PoolRefusal(format!("{path} is not guarded")));
        }
        self.set_guarded_value(path, value)
    }

    fn set_guarded_value(&self, path: &str, wanted: &str) -> Result<(), PoolRefusal> {
        self.change_guarded_files(
            || self.live.write_value(path, wanted),
            |kept| kept.path == path,
        )?;
        let got = read_value(path)?;
        if got == wanted {
            Ok(())
        } else {
            Err(PoolRefusal(format!("{path}: wrote {wanted}, reads {got}")))
        }
    }

    /// Restores everything, and keeps the lock. Errors: a file does not take its value again.
    pub fn give_back(&self) -> Result<(), SystemFailure> {
        let mut kept = self.lock_guarded_files();
        let restored = restore_guarded_files(&self.live, &mut kept, self.scope);
        save_guarded_files(&self.live, &self.saved, &kept)?;
        restored
    }

    /// Saves that the files of `which` are changing, lets `change` do it, and saves their new
    /// values.
    fn change_guarded_files(
        &self,
        change: impl FnOnce() -> Result<(), SystemFailure>,
        which: impl Fn(&GuardedFile) -> bool,
    ) -> Result<(), PoolRefusal> {
        let mut kept = self.lock_guarded_files();
        if !kept.iter().any(&which) {
            return Err(PoolRefusal("this kernel has no such pool or switch".to_owned()));
        }
        for one in kept.iter_mut().filter(|one| which(one)) {
            one.made = GuardedFileChange::Writing;
        }
        save_guarded_files(&self.live, &self.saved, &kept)?;
        let changed = change();
        for one in kept.iter_mut().filter(|one| which(one)) {
            let now = read_value(&one.path)?;
            one.made = if now == one.before {
                GuardedFileChange::Untouched
            } else {
                GuardedFileChange::Value(now)
            };
        }
        save_guarded_files(&self.live, &self.saved, &kept)?;
        Ok(changed?)
    }

    fn lock_guarded_files(&self) -> MutexGuard<'_, Vec<GuardedFile>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For a test of what takes the guard by itself: no other test has the host as long as the file is
/// open. Errors: without root.
pub fn lock_host_for_test() -> Result<File, PoolRefusal> {
    may_write()?;
    let failed = |error: std::io::Error| PoolRefusal(format!("{TESTS}: {error}; run as root"));
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(TESTS)
        .map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

fn put_right(live: &LiveSystem, saved: &str, scope: Scope) -> Result<(), SystemFailure> {
    let Some(text) = live.read_text(saved)? else { return Ok(()) };
    restore_guarded_files(live, &mut from_text(&text), scope)?;
    live.remove_file(saved)
}

fn experiments_are_over(live: &LiveSystem) -> Result<(), PoolRefusal> {
    if live.read_text(SAVED)?.is_some() {
        let lock = wait_for_host_lock(live)?;
        put_right(live, SAVED, Scope::Ours)?;
        lock.let_go();
    }
    Ok(())
}

fn open_live_system() -> Result<LiveSystem, SystemFailure> {
    let live = LiveSystem::new()?;
    live.make_folder(FOLDER, false)?;
    Ok(live)
}

fn wait_for_host_lock(live: &LiveSystem) -> Result<HeldLock, PoolRefusal> {
    let until = Instant::now() + PATIENCE;
    loop {
        match hugewise_system::take_machine_lock(live) {
            Ok(lock) => return Ok(lock),
            Err(LockNotTaken::Busy(_)) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(50))
            }
            Err(why) => return Err(PoolRefusal(why.to_string())),
        }
    }
}

fn is_pool(path: &str, page_size: PageSize) -> bool {
    path.ends_with(&format!("/hugepages-{}kB/nr_hugepages", page_size.bytes().get() >> 10))
}

fn may_write() -> Result<(), PoolRefusal> {
    if !is_there(POOLS) {
        return Err(PoolRefusal(format!("{POOLS}: this kernel has no huge pages")));
    }
    let pool = pool_file(PageSize::MIB_2, "nr_hugepages");
    let pool =
        if read_value(&pool).is_ok() { pool } else { "/proc/sys/vm/nr_hugepages".to_owned() };
    match File::options().write(true).open(&pool) {
        Ok(_) => Ok(()),
        Err(error) => Err(PoolRefusal(format!("{pool}: {error}; run as root"))),
    }
}

/// Other servers, or one that is still ending, would have a part of every pool we set.
fn nobody_holds_pages() -> Result<(), PoolRefusal> {
    let number = |name: &str| read_number(&pool_file(PageSize::MIB_2, name)).unwrap_or(0);
    let until = Instant::now() + PATIENCE;
    loop {
        let held = number("nr_hugepages").saturating_sub(number("free_hugepages"))
            + number("resv_hugepages");
        if held == 0 {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(PoolRefusal(format!("other processes hold {held} pages of 2 MiB")));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Drop for PoolGuard {
    #[allow(
        clippy::panic,
        clippy::print_stderr,
        reason = "a host that is not as before must not go unnoticed"
    )]
    fn drop(&mut self) {
        let restored =
            restore_guarded_files(&self.live, &mut self.lock_guarded_files(), self.scope);
        let finish = |guard: &mut Self| {
            guard.watchdog = None;
            // A forked process that has not ended yet has these files open too: closing ours would
            // leave them locked.
            if let Some(tests) = &guard.tests {
                let _ = tests.unlock();
            }
            if let Some(lock) = guard.lock.take() {
                lock.let_go();
            }
        };
        match restored {
            Ok(()) => {
                let _ = self.live.remove_file(&self.saved);
                finish(self);
            }
            Err(error) if std::thread::panicking() || self.scope == Scope::Ours => {
                eprintln!("the host's pools were not restored: {error}");
            }
            Err(error) => panic!("the host's pools were not restored: {error}"),
        }
    }
}

#[cfg(test)]
mod tests;
