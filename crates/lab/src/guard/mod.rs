//! Takes the host's huge-page pools and switches for an experiment or a test, and gives them back as they were.
//!
//! Only one holder at a time: an experiment holds the host's one lock, as apply and undo do, and a test that of the
//! tests. What was there before, and what was made of it, is written down before each change, so that the next taker
//! puts right what a killed run left behind.

mod skip;
mod state;

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hugewise_model::{PageCount, PageSize};
use hugewise_system::{Failure, Held, Live, NotTaken, System};

pub use self::skip::Skip;
use self::state::{Kept, Made, SHM_GROUP, Scope, from_text, restore, save, state};
use crate::budget::Gauge;
use crate::thp;
pub use crate::values::available;
use crate::values::{POOLS, is_there, number, pool_file, value};
use crate::watchdog::Watchdog;

/// How long others may take to give their pages back, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tests alone take this one: they may have a host all for themselves, and run what takes the host's lock.
const TESTS: &str = "/run/lock/hugewise-test.lock";
/// Gone with the next boot, as the kernel's settings are.
const FOLDER: &str = "/run/hugewise";
/// What experiments have found and made.
const SAVED: &str = "/run/hugewise/lab.saved";
/// What tests have.
const SAVED_BY_TESTS: &str = "/run/hugewise/test.saved";

/// Holds the lock; restores and verifies when dropped, after a panic too.
#[derive(Debug)]
pub struct PoolGuard {
    live: Live,
    kept: Mutex<Vec<Kept>>,
    saved: String,
    scope: Scope,
    /// Declared before the locks, so that it is gone when they are free.
    watchdog: Option<Watchdog>,
    lock: Option<Held>,
    tests: Option<File>,
}

impl PoolGuard {
    /// For a test: waits for the lock, puts right what a killed run has left, and remembers the state.
    ///
    /// # Errors
    /// Where this is no root, or a kernel without huge pages, and where others hold pages.
    pub fn take() -> Result<Self, Skip> {
        let tests = alone()?;
        let live = live()?;
        experiments_are_over(&live)?;
        let guard = Self::with(live, SAVED_BY_TESTS, Scope::Everything, None, Some(tests))?;
        nobody_holds_pages()?;
        guard.clear_memory();
        Ok(guard)
    }

    /// For an experiment on a host where others work: what they hold and change stays as it is. Nobody else changes
    /// this host through hugewise meanwhile.
    ///
    /// # Errors
    /// Where this is no root, a kernel without huge pages, or where another process changes this host.
    pub(crate) fn beside_others() -> Result<Self, Skip> {
        may_write()?;
        let live = live()?;
        let lock = hugewise_system::take(&live).map_err(|why| Skip(why.to_string()))?;
        let guard = Self::with(live, SAVED, Scope::Ours, Some(lock), None)?;
        // Where there can be no watchdog, the next one to take the guard puts right what a kill has left.
        Ok(guard.watched())
    }

    /// From now on another process puts everything back should this one be killed. It has open what this one has open
    /// now, and ends with the guard: take it before there are pipes whose end somebody waits for.
    #[must_use]
    pub fn watched(mut self) -> Self {
        // Nothing is left to do after an ordinary end, which leaves no saved state.
        let work = || drop(Live::new().and_then(|live| put_right(&live, &self.saved, Scope::Ours)));
        self.watchdog = Watchdog::start(work).ok();
        self
    }

    /// Whether this process may change pools and switches.
    pub fn may_change() -> bool {
        may_write().is_ok()
    }

    fn with(live: Live, saved: &str, scope: Scope, lock: Option<Held>, tests: Option<File>) -> Result<Self, Failure> {
        // A run was killed. What it had not touched is not in its file as touched, so nothing of others is lost.
        put_right(&live, saved, scope)?;
        let kept = state()?;
        save(&live, saved, &kept)?;
        Ok(Self { live, kept: Mutex::new(kept), saved: saved.to_owned(), scope, watchdog: None, lock, tests })
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
    pub(crate) fn try_pool(&self, page_size: PageSize, pages: PageCount) -> Result<PageCount, Skip> {
        let mut got = self.ask_once(page_size, pages)?;
        // Memory may be fragmented: once more after compaction. While something is compiled beside a test, its pages move.
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

    /// Before a test, memory that a page cache full of what was just compiled leaves in pieces is made whole. On a host where others
    /// work nobody's cache is dropped.
    fn clear_memory(&self) {
        if self.tests.is_some() {
            rustix::fs::sync();
            let _ = self.live.write_value("/proc/sys/vm/drop_caches", "1");
            let _ = self.live.write_value("/proc/sys/vm/compact_memory", "1");
        }
    }

    /// The same without compaction in between.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn ask_once(&self, page_size: PageSize, pages: PageCount) -> Result<PageCount, Skip> {
        let path = pool_file(page_size, "nr_hugepages");
        let write = || self.live.write_value(&path, &pages.get().to_string());
        self.changing(write, |kept| is_pool(&kept.path, page_size))?;
        Ok(PageCount(number(&path)?))
    }

    /// How large the pool is, surplus pages not counted.
    ///
    /// # Errors
    /// Where the kernel has no such page size.
    pub fn pool(&self, page_size: PageSize) -> Result<PageCount, Skip> {
        Ok(PageCount(number(&pool_file(page_size, "nr_hugepages"))?))
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
        let room = Gauge::new().read().map_err(|why| Skip(why.to_string()))?.spare();
        if missing.of(page_size) > room {
            return Err(Skip(format!(
                "{missing} more pages of {page_size} are needed, but memory has room for only {room}"
            )));
        }
        let now = self.pool(page_size)?;
        let got = self.try_pool(page_size, now + missing)?.saturating_sub(now);
        if got >= missing {
            return Ok(());
        }
        self.give_back()?;
        Err(Skip(format!("{missing} more pages of {page_size} were requested, but the kernel could make only {got}")))
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

    fn set(&self, path: &str, wanted: &str) -> Result<(), Skip> {
        self.changing(|| self.live.write_value(path, wanted), |kept| kept.path == path)?;
        let got = value(path)?;
        if got == wanted { Ok(()) } else { Err(Skip(format!("{path}: wrote {wanted}, reads {got}"))) }
    }

    /// Puts everything back as it was, and goes on holding the lock.
    ///
    /// # Errors
    /// Where a file does not take its value again.
    pub fn give_back(&self) -> Result<(), Failure> {
        let mut kept = self.lock();
        let restored = restore(&self.live, &mut kept, self.scope);
        save(&self.live, &self.saved, &kept)?;
        restored
    }

    /// Writes down that the files of `which` are changing, lets `change` do it, and writes down what they read then.
    fn changing(
        &self,
        change: impl FnOnce() -> Result<(), Failure>,
        which: impl Fn(&Kept) -> bool,
    ) -> Result<(), Skip> {
        let mut kept = self.lock();
        if !kept.iter().any(&which) {
            return Err(Skip("this kernel has no such pool or switch".to_owned()));
        }
        for one in kept.iter_mut().filter(|one| which(one)) {
            one.made = Made::Writing;
        }
        save(&self.live, &self.saved, &kept)?;
        let changed = change();
        for one in kept.iter_mut().filter(|one| which(one)) {
            let now = value(&one.path)?;
            one.made = if now == one.before { Made::Untouched } else { Made::Value(now) };
        }
        save(&self.live, &self.saved, &kept)?;
        Ok(changed?)
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
    let failed = |error: std::io::Error| Skip(format!("{TESTS}: {error}; run as root"));
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(TESTS).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(file)
}

/// What a run has left that was killed is put right.
fn put_right(live: &Live, saved: &str, scope: Scope) -> Result<(), Failure> {
    let Some(text) = live.text(saved)? else { return Ok(()) };
    restore(live, &mut from_text(&text), scope)?;
    live.remove_file(saved)
}

/// Waits for an experiment that is running, and puts right what one has left that was killed.
fn experiments_are_over(live: &Live) -> Result<(), Skip> {
    if live.text(SAVED)?.is_some() {
        let lock = patiently(live)?;
        put_right(live, SAVED, Scope::Ours)?;
        lock.let_go();
    }
    Ok(())
}

fn live() -> Result<Live, Failure> {
    let live = Live::new()?;
    live.make_folder(FOLDER, false)?;
    Ok(live)
}

/// The host's lock, for which a test waits.
fn patiently(live: &Live) -> Result<Held, Skip> {
    let until = Instant::now() + PATIENCE;
    loop {
        match hugewise_system::take(live) {
            Ok(lock) => return Ok(lock),
            Err(NotTaken::Busy(_)) if Instant::now() < until => std::thread::sleep(Duration::from_millis(50)),
            Err(why) => return Err(Skip(why.to_string())),
        }
    }
}

/// Whether a file is a pool of that page size, of whichever node.
fn is_pool(path: &str, page_size: PageSize) -> bool {
    path.ends_with(&format!("/hugepages-{}kB/nr_hugepages", page_size.bytes().get() >> 10))
}

fn may_write() -> Result<(), Skip> {
    if !is_there(POOLS) {
        return Err(Skip(format!("{POOLS}: this kernel has no huge pages")));
    }
    let pool = pool_file(PageSize::MIB_2, "nr_hugepages");
    let pool = if value(&pool).is_ok() { pool } else { "/proc/sys/vm/nr_hugepages".to_owned() };
    match File::options().write(true).open(&pool) {
        Ok(_) => Ok(()),
        Err(error) => Err(Skip(format!("{pool}: {error}; run as root"))),
    }
}

/// A server that is still ending, or one that has nothing to do with us, would have a part of every pool we set.
fn nobody_holds_pages() -> Result<(), Skip> {
    let number = |name: &str| number(&pool_file(PageSize::MIB_2, name)).unwrap_or(0);
    let until = Instant::now() + PATIENCE;
    loop {
        let held = number("nr_hugepages").saturating_sub(number("free_hugepages")) + number("resv_hugepages");
        if held == 0 {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(Skip(format!("other processes hold {held} pages of 2 MiB")));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Drop for PoolGuard {
    #[allow(clippy::panic, clippy::print_stderr, reason = "a host that is not as before must not go unnoticed")]
    fn drop(&mut self) {
        let restored = restore(&self.live, &mut self.lock(), self.scope);
        let finish = |guard: &mut Self| {
            guard.watchdog = None;
            // A process that was forked meanwhile and has not ended yet has these files open too: closing ours would
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
