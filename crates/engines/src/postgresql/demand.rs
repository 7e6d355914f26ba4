//! What a PostgreSQL server needs: from its mappings, from its own word, or from a formula.

use hugewise_model::instance::{Demand, DemandSource};
use hugewise_model::{Bytes, PageCount, PageSize};

use super::{conf, values};
use crate::settings::Settings;

/// Main memory for each thing that a server makes room for, in tenths of a byte, by major version.
///
/// Fitted to what the servers themselves asked for (13.16, 14.18, 15.20, 16.9, 17.5 and 18.4) in 312
/// settings: `shared_buffers` of 128 MB to 256 GB, `max_connections` of 10 to 3000, and the rest of [`Counts`]. What comes in
/// steps, the tables of hashed entries, is no part of these: [`Counts::tables`] has it as the servers reckon it.
struct Costs {
    major: u32,
    /// A block of `shared_buffers`: 8192 bytes, its header and its entries in tables.
    block: u64,
    /// A backend.
    backend: u64,
    /// What a background worker takes beside its backend.
    worker: u64,
    /// What a WAL sender takes beside its backend.
    sender: u64,
    /// A prepared transaction.
    prepared: u64,
    /// A lock that a transaction may hold.
    lock: u64,
    /// The same, for predicate locks.
    predicate_lock: u64,
    /// A block of the buffers that follow `shared_buffers` (transaction status and the like).
    status_block: u64,
    /// A handle of asynchronous input and output (18).
    io_handle: u64,
    /// What is always there, in bytes.
    rest: u64,
}

const COSTS: [Costs; 6] = [
    Costs {
        major: 13,
        block: 83_720,
        backend: 77_668,
        worker: 6054,
        sender: 1729,
        prepared: 58_723,
        lock: 3609,
        predicate_lock: 2113,
        status_block: 165_335,
        io_handle: 0,
        rest: 1_079_292,
    },
    Costs {
        major: 14,
        block: 83_560,
        backend: 77_910,
        worker: 5848,
        sender: 1476,
        prepared: 58_784,
        lock: 3610,
        predicate_lock: 2114,
        status_block: 165_261,
        io_handle: 0,
        rest: 1_084_973,
    },
    Costs {
        major: 15,
        block: 83_560,
        backend: 78_608,
        worker: 6124,
        sender: 1369,
        prepared: 58_737,
        lock: 3610,
        predicate_lock: 2114,
        status_block: 332_720,
        io_handle: 0,
        rest: 1_204_689,
    },
    Costs {
        major: 16,
        block: 83_560,
        backend: 78_084,
        worker: 6383,
        sender: 1766,
        prepared: 58_808,
        lock: 3609,
        predicate_lock: 2114,
        status_block: 332_190,
        io_handle: 0,
        rest: 1_227_485,
    },
    Costs {
        major: 17,
        block: 83_641,
        backend: 77_982,
        worker: 15_126,
        sender: 840,
        prepared: 58_886,
        lock: 3609,
        predicate_lock: 2115,
        status_block: 332_407,
        io_handle: 0,
        rest: 1_407_530,
    },
    Costs {
        major: 18,
        block: 83_640,
        backend: 81_480,
        worker: 13_876,
        sender: 1098,
        prepared: 58_288,
        lock: 3610,
        predicate_lock: 2114,
        status_block: 332_590,
        io_handle: 5279,
        rest: 1_550_524,
    },
];

/// Largest error of the formula where the version is one of [`COSTS`]: one in so many, and so much on top. Of 312 settings of
/// those releases it was 0.005 % at most, of 78 more from 13.6 to 18.4 it was 0.039 %, in a server of 16 MB of buffers.
const ERROR_PART: u64 = 4000;
const ERROR_BESIDE: Bytes = Bytes::from_kib(64);
/// Beyond this a server that is changed is told from one that was built otherwise, in percent.
const ERROR_PERCENT_OF_A_BUILD: u8 = 1;
/// The formula's error where the version is not known: between two of them lie up to 8 % of a small server.
const ERROR_PERCENT_OF_ANY_VERSION: u8 = 10;
/// Libraries take what they like, and nothing bounds it: `pg_stat_statements` at ten times its usual size takes 12 % of
/// a server of 128 MB.
const ERROR_PERCENT_WITH_LIBRARIES: u8 = 25;

/// The checkpointer's queue has no more entries than this, whatever the blocks (13.22, 14.19, 15.14, 16.10, 17.6 and 18, and
/// later); an entry takes 24 bytes before 17, and 32 from there on.
const LONGEST_QUEUE: u64 = 10_000_000;
const QUEUED: u64 = 32;

/// What the server itself says: `shared_memory_size` and `shared_memory_size_in_huge_pages` (15 and later).
///
/// The first is rounded up to a mebibyte, so that the pages that hold it are exactly those that hold
/// the memory, for every page of a mebibyte or more. The second is one too many (15, 17 and 18) where the
/// memory fills its pages to the last byte: 15 with max_connections=86 says 142 MB and 72 pages, and starts with 71.
pub(super) fn said(size: Option<Bytes>, pages: Option<PageCount>, page: PageSize) -> Option<Demand> {
    let whole_mebibytes = page.bytes() >= Bytes::from_mib(1);
    let from_size = size.map(|size| page.pages_for(size)).filter(|_| whole_mebibytes || pages.is_none());
    let pages = from_size.or(pages).filter(|pages| *pages > PageCount::ZERO)?;
    Some(Demand { page_size: page, pages, source: DemandSource::Engine })
}

/// Main memory of a server that cannot be asked and whose mappings cannot be seen. `None` where a
/// setting is not known that decides on it.
pub(super) fn estimated(settings: &Settings, version: Option<&str>, page: PageSize) -> Option<Demand> {
    Some(size(settings, version)?.in_pages(page))
}

/// What the main memory comes to by the formula.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// About so much.
    pub(super) about: Bytes,
    /// At least so much.
    pub(super) least: Bytes,
    /// At most so much.
    pub(super) most: Bytes,
    /// Whether the version was measured and no library adds to it: the bounds are close then, and hold.
    is_sure: bool,
}

impl Size {
    /// Its pages: those that always do where its bounds are sure, otherwise those of what it is about, and their error. A page
    /// more or less is much of a small server, and nothing of one that fills its last page in part whatever the error.
    pub(super) fn in_pages(self, page: PageSize) -> Demand {
        let (least, most) = (page.pages_for(self.least), page.pages_for(self.most));
        if self.is_sure {
            return Demand { page_size: page, pages: most, source: DemandSource::Enough { least } };
        }
        let pages = page.pages_for(self.about);
        let percent = |less: PageCount, more: PageCount| {
            more.saturating_sub(less).get().saturating_mul(100).div_ceil(less.get().max(1)).min(100)
        };
        let error_percent = u8::try_from(percent(least, pages).max(percent(pages, most))).unwrap_or(100);
        Demand { page_size: page, pages, source: DemandSource::Estimated { error_percent } }
    }

    /// What a server comes to that has `now`, was made by settings that come to `before`, and starts with these. By how much it
    /// grows or shrinks is known better than how large it is.
    pub(super) fn grown(self, now: Range, before: Self) -> Self {
        let moved = |now: Bytes| (now + self.about).saturating_sub(before.about);
        if !(self.is_sure && before.is_sure) {
            let part = |of: Bytes| Bytes(scaled(moved(now.most).get(), of.get(), self.about.get()));
            return Self { about: moved(now.most), least: part(self.least), most: part(self.most), is_sure: false };
        }
        let error = error(Bytes(self.about.get().abs_diff(before.about.get())));
        let (least, most) = (moved(now.least).saturating_sub(error), moved(now.most) + error);
        // Both hold, unless the server was built otherwise.
        let both = (least.max(self.least), most.min(self.most));
        let (least, most) = if both.0 <= both.1 { both } else { (least, most) };
        Self { about: moved(now.most), least, most, is_sure: true }
    }
}

/// `of` in the proportion of `amount` to `whole`.
fn scaled(amount: u64, of: u64, whole: u64) -> u64 {
    let scaled = u128::from(amount) * u128::from(of) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// How far the formula may be off by so much memory.
fn error(size: Bytes) -> Bytes {
    Bytes(size.get() / ERROR_PART) + ERROR_BESIDE
}

/// What the settings of a server come to.
pub(super) fn size(settings: &Settings, version: Option<&str>) -> Option<Size> {
    let major = version.and_then(major);
    let known = major.and_then(|major| COSTS.iter().find(|costs| costs.major == major));
    // The newest needs the most.
    let costs = known.or(COSTS.last())?;
    // 17.4 has one backend more for itself, and 17.2 has not.
    let (fewest, most) = if costs.major >= 18 {
        (2, 2)
    } else if costs.major == 17 {
        (1, 2)
    } else {
        (1, 1)
    };
    let counts = Counts::of(settings, costs.major, most)?;
    let about = counts.times(costs);
    let fewest = Counts::of(settings, costs.major, fewest)?.times(costs);
    let percent = |percent: u8| Bytes(scaled(about.get(), percent.into(), 100));
    let libraries = settings.value_or("shared_preload_libraries", "").into_known()?;
    let close = known.is_some();
    let (below, above) = match close {
        true => (error(about), error(about)),
        false => {
            let least = scaled(about.get(), 100, 100 + u64::from(ERROR_PERCENT_OF_ANY_VERSION));
            (about.saturating_sub(Bytes(least)), percent(ERROR_PERCENT_OF_ANY_VERSION))
        }
    };
    let loads = !libraries.trim().is_empty();
    // They only add.
    let above = if loads { above.max(percent(ERROR_PERCENT_WITH_LIBRARIES)) } else { above };
    let unqueued = Bytes(QUEUED).times(counts.blocks.saturating_sub(LONGEST_QUEUE));
    let least = fewest.saturating_sub(below).saturating_sub(unqueued);
    Some(Size { about, least, most: about + above, is_sure: close && !loads })
}

/// Between what the main memory that these settings make lies.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// At least so much.
    pub(super) least: Bytes,
    /// At most so much.
    pub(super) most: Bytes,
}

/// The same, for a server that runs to be held against: one whose files may be `as they were` at its start is taken for no other
/// because of what its build may take more or less.
pub(super) fn range(settings: &Settings, version: Option<&str>, as_it_was: bool) -> Option<Range> {
    let size = size(settings, version)?;
    let of_a_build = Bytes(scaled(size.about.get(), ERROR_PERCENT_OF_A_BUILD.into(), 100));
    let of_a_build = if as_it_was { of_a_build } else { Bytes::ZERO };
    let least = size.least.min(size.about.saturating_sub(of_a_build));
    Some(Range { least, most: size.most.max(size.about + of_a_build) })
}

/// What a start with these settings may need beside a server that has mapped so much: libraries that show in nothing that is
/// mapped may be new, and then take what they like.
pub(super) fn perhaps(settings: &Settings, version: Option<&str>, page: PageSize, mapped: Bytes) -> Option<Demand> {
    let size = size(settings, version)?;
    let loads = !settings.value_or("shared_preload_libraries", "").into_known()?.trim().is_empty();
    if loads && mapped <= size.about + Bytes(scaled(size.about.get(), ERROR_PERCENT_OF_A_BUILD.into(), 100)) {
        let pages = page.pages_for(size.most);
        return Some(Demand { page_size: page, pages, source: DemandSource::Estimated { error_percent: 0 } });
    }
    Some(size.in_pages(page))
}

/// Settings that decide on the main memory, a little each, and that no file tells of a server that runs.
const UNTOLD: [&str; 7] = [
    "min_dynamic_shared_memory",
    "max_pred_locks_per_transaction",
    "autovacuum_max_workers",
    "autovacuum_worker_slots",
    "wal_buffers",
    "track_activity_query_size",
    "io_max_concurrency",
];

/// Whether none of these takes more than its default does: then none is new that makes the next start larger. Of a server of
/// 100 GB the formula's error hides 25 MiB, and `track_activity_query_size` of 16 KiB in place of 1 KiB takes 2 of them.
pub(super) fn is_by_default(settings: &Settings, version: Option<&str>) -> bool {
    let about = |settings: &Settings| size(settings, version).map(|size| size.about);
    let Some(whole) = about(settings) else { return false };
    UNTOLD.into_iter().all(|name| {
        let mut without = settings.clone();
        without.values.remove(name).is_none() || about(&without).is_some_and(|without| whole <= without)
    })
}

/// `15` of `15.20` or of `18beta1`.
pub(super) fn major(version: &str) -> Option<u32> {
    let end = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version.get(..end)?.parse().ok()
}

/// How much of each thing a server makes room for.
struct Counts {
    blocks: u64,
    backends: u64,
    workers: u64,
    senders: u64,
    prepared: u64,
    locks: u64,
    predicate_locks: u64,
    status_blocks: u64,
    io_handles: u64,
    /// Bytes that the settings name themselves: `wal_buffers`, `min_dynamic_shared_memory`, longer queries than 1 KiB; and tables
    /// whose size is a power of two.
    plain: u64,
}

impl Counts {
    /// With the rules and defaults of the servers (13 to 18), and so many backends for what the server does by itself.
    fn of(settings: &Settings, major: u32, own: u64) -> Option<Self> {
        let memory =
            |name: &str, default: &str, unit| conf::memory(settings.value_or(name, default).known()?.as_str(), unit);
        let number = |name: &str, default: &str| values::integer(settings.value_or(name, default).known()?);
        let count = |name: &str, default: &str| u64::try_from(number(name, default)?).ok();
        let automatic = |name: &str| number(name, "-1") == Some(-1);
        let blocks = memory("shared_buffers", "128MB", 8 << 10)?.div_ceil(8 << 10);
        // 18 makes room for workers that autovacuum_max_workers may later be raised to.
        let autovacuum = match major {
            18.. => count("autovacuum_worker_slots", "16")?,
            _ => count("autovacuum_max_workers", "3")?,
        };
        let (workers, senders) = (count("max_worker_processes", "8")?, count("max_wal_senders", "10")?);
        let backends = [count("max_connections", "100")?, autovacuum, own, workers, senders];
        let backends = backends.into_iter().fold(0, u64::saturating_add);
        let prepared = count("max_prepared_transactions", "0")?;
        let holders = backends.saturating_add(prepared);
        // With the server's own processes, which need less than a backend: 32 of 18 are for input and output.
        let processes = backends.saturating_add(match major {
            18.. => 38,
            14 => 8,
            13 => 7,
            _ => 6,
        });
        let handles = match automatic("io_max_concurrency") {
            true => blocks.checked_div(processes).unwrap_or_default().clamp(1, 64),
            false => count("io_max_concurrency", "64")?,
        };
        let write_ahead = match automatic("wal_buffers") {
            true => (blocks / 32 * (8 << 10)).clamp(64 << 10, 16 << 20),
            // No fewer than four blocks.
            false => memory("wal_buffers", "16MB", 8 << 10)?.max(32 << 10),
        };
        let query = memory("track_activity_query_size", "1024", 1)?.saturating_sub(1024);
        let dynamic = if major >= 14 { memory("min_dynamic_shared_memory", "0", 1 << 20)? } else { 0 };
        let per_transaction = count("max_locks_per_transaction", "64")?;
        let locks = per_transaction.saturating_mul(holders);
        let predicate_locks = count("max_pred_locks_per_transaction", "64")?.saturating_mul(holders);
        let status_blocks = match major {
            // In banks of 16.
            17.. => (blocks / 512 / 16 * 16).clamp(16, 1024),
            _ => (blocks / 512).clamp(4, 128),
        };
        // Since 18 a process has room for its locks in groups of 16, a power of two of them, each of 72 bytes.
        let groups = if major >= 18 { (power_of_two(per_transaction) / 16).clamp(1, 1024) } else { 0 };
        let plain = [
            write_ahead / 1024 * 1025,
            query.saturating_mul(processes),
            dynamic,
            groups.saturating_mul(72).saturating_mul(processes.saturating_add(prepared)),
            Self::tables(blocks, holders, locks, predicate_locks),
        ];
        Some(Self {
            blocks,
            backends,
            workers,
            senders,
            prepared,
            locks,
            predicate_locks,
            status_blocks,
            io_handles: handles.saturating_mul(processes),
            plain: plain.into_iter().fold(0, u64::saturating_add),
        })
    }

    /// Bytes of the tables in which entries are found by a hash: a pointer for each, rounded up to a power of two
    /// (`hash_estimate_size`). Each lock has two entries, and so has each predicate lock, one of them in a table twice as
    /// large; both are given a tenth on top (`LockShmemSize`, `PredicateLockShmemSize`).
    fn tables(blocks: u64, holders: u64, locks: u64, predicate_locks: u64) -> u64 {
        const POINTER: u64 = 8;
        let of_locks = [locks, predicate_locks].into_iter().flat_map(|locks| [locks, locks.saturating_mul(2)]);
        let of_locks = of_locks.map(power_of_two).fold(0, u64::saturating_add);
        let others = [blocks.saturating_add(128), holders.saturating_mul(10)].map(power_of_two);
        let others = others.into_iter().fold(0, u64::saturating_add);
        others.saturating_mul(POINTER).saturating_add(of_locks.saturating_mul(POINTER).saturating_mul(11) / 10)
    }

    fn times(&self, costs: &Costs) -> Bytes {
        let products = [
            (self.blocks, costs.block),
            (self.backends, costs.backend),
            (self.workers, costs.worker),
            (self.senders, costs.sender),
            (self.prepared, costs.prepared),
            (self.locks, costs.lock),
            (self.predicate_locks, costs.predicate_lock),
            (self.status_blocks, costs.status_block),
            (self.io_handles, costs.io_handle),
        ];
        let tenths: u128 = products.into_iter().map(|(count, each)| u128::from(count) * u128::from(each)).sum();
        let bytes = u64::try_from(tenths / 10).unwrap_or(u64::MAX);
        Bytes(bytes) + Bytes(costs.rest) + Bytes(self.plain)
    }
}

/// A number rounded up to a power of two.
fn power_of_two(number: u64) -> u64 {
    number.checked_next_power_of_two().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
