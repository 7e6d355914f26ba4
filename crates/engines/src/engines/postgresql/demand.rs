//! What a PostgreSQL server needs: by its mappings, its own word, or a formula.

use hugewise_model::instance::{Demand, DemandSource};
use hugewise_model::{Bytes, Instance, PageCount, PageSize};

use super::{conf, values};
use crate::TouchedAtStart;
use crate::shared::settings::ServerSettings;

/// Main memory for each thing that a server makes room for, in tenths of a byte, by major version.
///
/// Fitted to what servers asked for (13.16, 14.18, 15.20, 16.9, 17.5 and 18.4) with 312 settings:
/// `shared_buffers` of 128 MB to 256 GB, `max_connections` of 10 to 3000, and the rest of
/// [`SharedMemoryCounts`]. Hash tables grow in steps:
/// [`SharedMemoryCounts::hash_table_bytes`] computes them as the servers do.
struct Costs {
    major: u32,
    /// A block of `shared_buffers`: 8192 bytes, its header and its entries in tables.
    block: u64,
    backend: u64,
    worker: u64,
    sender: u64,
    prepared: u64,
    lock: u64,
    predicate_lock: u64,
    /// A block of the buffers for transaction status and the like.
    status_block: u64,
    /// A handle of asynchronous input and output (18).
    io_handle: u64,
    rest: u64,
}

const COSTS: [Costs; 6] = [
    // Each row has the fields in their order.
    costs(13, [83_720, 77_668, 6054, 1729, 58_723, 3609, 2113, 165_335, 0, 1_079_292]),
    costs(14, [83_560, 77_910, 5848, 1476, 58_784, 3610, 2114, 165_261, 0, 1_084_973]),
    costs(15, [83_560, 78_608, 6124, 1369, 58_737, 3610, 2114, 332_720, 0, 1_204_689]),
    costs(16, [83_560, 78_084, 6383, 1766, 58_808, 3609, 2114, 332_190, 0, 1_227_485]),
    costs(17, [83_641, 77_982, 15_126, 840, 58_886, 3609, 2115, 332_407, 0, 1_407_530]),
    costs(18, [83_640, 81_480, 13_876, 1098, 58_288, 3610, 2114, 332_590, 5279, 1_550_524]),
];

const fn costs(major: u32, fields: [u64; 10]) -> Costs {
    let [
        block,
        backend,
        worker,
        sender,
        prepared,
        lock,
        predicate_lock,
        status_block,
        io_handle,
        rest,
    ] = fields;
    Costs {
        major,
        block,
        backend,
        worker,
        sender,
        prepared,
        lock,
        predicate_lock,
        status_block,
        io_handle,
        rest,
    }
}

/// The formula's largest error for a version in [`COSTS`]: one part in this many, and
/// `ERROR_BESIDE` on top. Of 312 settings of those releases it was 0.005 % at most, of 78 more from
/// 13.6 to 18.4 it was 0.039 %, in a server of 16 MB of buffers.
const ERROR_PART: u64 = 4000;
const ERROR_BESIDE: Bytes = Bytes::from_kib(64);
/// In percent: beyond this a server was changed, and not just built otherwise.
const ERROR_PERCENT_OF_A_BUILD: u8 = 1;
/// The formula's error for other versions: two of them differ by up to 8 % in a small server.
const ERROR_PERCENT_OF_ANY_VERSION: u8 = 10;
/// Nothing bounds what libraries take: `pg_stat_statements` at ten times its usual size takes 12 %
/// of a server of 128 MB.
const ERROR_PERCENT_WITH_LIBRARIES: u8 = 25;
/// The checkpointer's queue is no longer than this, whatever the blocks (13.22, 14.19, 15.14,
/// 16.10, 17.6 and 18, and later); an entry takes 24 bytes before 17, and 32 from there on.
const LONGEST_QUEUE: u64 = 10_000_000;
const QUEUED: u64 = 32;

/// What the server itself says: `shared_memory_size` and `shared_memory_size_in_huge_pages` (15 and
/// later).
///
/// The first is rounded up to a mebibyte, so it gives the exact number of pages of a mebibyte or
/// more. The second is one too many (15, 17 and 18) where the memory fills its pages to the last
/// byte: 15 with max_connections=86 says 142 MB and 72 pages, and starts with 71.
pub(super) fn reported_demand(
    size: Option<Bytes>,
    pages: Option<PageCount>,
    page: PageSize,
) -> Option<Demand> {
    let whole_mebibytes = page.bytes() >= Bytes::from_mib(1);
    let from_size =
        size.map(|size| page.pages_for(size)).filter(|_| whole_mebibytes || pages.is_none());
    let pages = from_size.or(pages).filter(|pages| *pages > PageCount::ZERO)?;
    Some(Demand { page_size: page, pages, source: DemandSource::Engine })
}

pub(super) fn estimate_demand(
    settings: &ServerSettings,
    version: Option<&str>,
    page: PageSize,
) -> Option<Demand> {
    Some(estimate_size(settings, version)?.in_pages(page))
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SharedMemorySize {
    pub(super) about: Bytes,
    pub(super) least: Bytes,
    pub(super) most: Bytes,
    /// The version was measured and no library adds to it: the bounds are close and hold.
    is_sure: bool,
}

impl SharedMemorySize {
    /// Its pages: the most where the bounds are sure, otherwise an estimate with its error, as a
    /// page is much of a small server.
    pub(super) fn in_pages(self, page: PageSize) -> Demand {
        let (least, most) = (page.pages_for(self.least), page.pages_for(self.most));
        if self.is_sure {
            return Demand { page_size: page, pages: most, source: DemandSource::Enough { least } };
        }
        let pages = page.pages_for(self.about);
        let percent = |less: PageCount, more: PageCount| {
            more.saturating_sub(less).get().saturating_mul(100).div_ceil(less.get().max(1)).min(100)
        };
        let error_percent =
            u8::try_from(percent(least, pages).max(percent(pages, most))).unwrap_or(100);
        Demand { page_size: page, pages, source: DemandSource::Estimated { error_percent } }
    }

    /// The size of a server that has mapped `now` with settings for `before` and starts with these:
    /// the difference is known better than the size.
    pub(super) fn grown_from(self, now: Range, before: Self) -> Self {
        let moved = |now: Bytes| (now + self.about).saturating_sub(before.about);
        if !(self.is_sure && before.is_sure) {
            let part = |bytes: Bytes| {
                Bytes(scale_amount(moved(now.most).get(), bytes.get(), self.about.get()))
            };
            return Self {
                about: moved(now.most),
                least: part(self.least),
                most: part(self.most),
                is_sure: false,
            };
        }
        let error = formula_error(Bytes(self.about.get().abs_diff(before.about.get())));
        let (least, most) = (moved(now.least).saturating_sub(error), moved(now.most) + error);
        // Both hold, unless the server was built otherwise.
        let both = (least.max(self.least), most.min(self.most));
        let (least, most) = if both.0 <= both.1 { both } else { (least, most) };
        Self { about: moved(now.most), least, most, is_sure: true }
    }
}

fn scale_amount(amount: u64, count: u64, whole: u64) -> u64 {
    let scaled = u128::from(amount) * u128::from(count) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn formula_error(size: Bytes) -> Bytes {
    Bytes(size.get() / ERROR_PART) + ERROR_BESIDE
}

pub(super) fn estimate_size(
    settings: &ServerSettings,
    version: Option<&str>,
) -> Option<SharedMemorySize> {
    let major = version.and_then(parse_major);
    let known = major.and_then(|major| COSTS.iter().find(|costs| costs.major == major));
    // The newest needs the most.
    let costs = known.or(COSTS.last())?;
    // 17.4 has one backend more for itself than 17.2.
    let (fewest, most) = match costs.major {
        18.. => (2, 2),
        17 => (1, 2),
        _ => (1, 1),
    };
    let counts = SharedMemoryCounts::from_settings(settings, costs.major, most)?;
    let about = counts.total_bytes(costs);
    let fewest =
        SharedMemoryCounts::from_settings(settings, costs.major, fewest)?.total_bytes(costs);
    let percent = |percent: u8| Bytes(scale_amount(about.get(), percent.into(), 100));
    let libraries = settings.value_or("shared_preload_libraries", "").into_known()?;
    let close = known.is_some();
    let (below, above) = match close {
        true => (formula_error(about), formula_error(about)),
        false => {
            let least =
                scale_amount(about.get(), 100, 100 + u64::from(ERROR_PERCENT_OF_ANY_VERSION));
            (about.saturating_sub(Bytes(least)), percent(ERROR_PERCENT_OF_ANY_VERSION))
        }
    };
    let loads = !libraries.trim().is_empty();
    // They only add.
    let above = if loads { above.max(percent(ERROR_PERCENT_WITH_LIBRARIES)) } else { above };
    let unqueued = Bytes(QUEUED).saturating_mul(counts.blocks.saturating_sub(LONGEST_QUEUE));
    let least = fewest.saturating_sub(below).saturating_sub(unqueued);
    Some(SharedMemorySize { about, least, most: about + above, is_sure: close && !loads })
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) least: Bytes,
    pub(super) most: Bytes,
}

/// Bounds to compare a running server with: where its files may be as they were at its start, what
/// its build takes more or less is no change.
pub(super) fn estimate_range(
    settings: &ServerSettings,
    version: Option<&str>,
    as_it_was: bool,
) -> Option<Range> {
    let size = estimate_size(settings, version)?;
    let of_a_build = Bytes(scale_amount(size.about.get(), ERROR_PERCENT_OF_A_BUILD.into(), 100));
    let of_a_build = if as_it_was { of_a_build } else { Bytes::ZERO };
    let least = size.least.min(size.about.saturating_sub(of_a_build));
    Some(Range { least, most: size.most.max(size.about + of_a_build) })
}

/// What a start may need beside a server that has mapped this much: libraries that do not show in
/// it may be new, and take what they like.
pub(super) fn possible_demand(
    settings: &ServerSettings,
    version: Option<&str>,
    page: PageSize,
    mapped: Bytes,
) -> Option<Demand> {
    let size = estimate_size(settings, version)?;
    let loads = !settings.value_or("shared_preload_libraries", "").into_known()?.trim().is_empty();
    if loads
        && mapped
            <= size.about
                + Bytes(scale_amount(size.about.get(), ERROR_PERCENT_OF_A_BUILD.into(), 100))
    {
        let pages = page.pages_for(size.most);
        return Some(Demand {
            page_size: page,
            pages,
            source: DemandSource::Estimated { error_percent: 0 },
        });
    }
    Some(size.in_pages(page))
}

/// Settings with a small part in the main memory that no file tells of a running server.
const UNTOLD: [&str; 7] = [
    "min_dynamic_shared_memory",
    "max_pred_locks_per_transaction",
    "autovacuum_max_workers",
    "autovacuum_worker_slots",
    "wal_buffers",
    "track_activity_query_size",
    "io_max_concurrency",
];

/// Whether none of these takes more than by default, so that none makes the next start larger. In a
/// server of 100 GB the formula's error hides 25 MiB; `track_activity_query_size` of 16 KiB instead
/// of 1 KiB takes 2 of them.
pub(super) fn is_by_default(settings: &ServerSettings, version: Option<&str>) -> bool {
    let about = |settings: &ServerSettings| estimate_size(settings, version).map(|size| size.about);
    let Some(whole) = about(settings) else { return false };
    UNTOLD.into_iter().all(|name| {
        let mut without = settings.clone();
        without.values.remove(name).is_none()
            || about(&without).is_some_and(|without| whole <= without)
    })
}

/// `15` of `15.20` or of `18beta1`.
pub(super) fn parse_major(version: &str) -> Option<u32> {
    let end = version.find(|character: char| !character.is_ascii_digit()).unwrap_or(version.len());
    version.get(..end)?.parse().ok()
}

struct SharedMemoryCounts {
    blocks: u64,
    backends: u64,
    workers: u64,
    senders: u64,
    prepared: u64,
    locks: u64,
    predicate_locks: u64,
    status_blocks: u64,
    io_handles: u64,
    /// Bytes that settings name (`wal_buffers`, `min_dynamic_shared_memory`, queries longer than 1
    /// KiB) and tables whose size is a power of two.
    plain: u64,
}

impl SharedMemoryCounts {
    /// By the rules and defaults of 13 to 18; `own` backends are for the server itself.
    fn from_settings(settings: &ServerSettings, major: u32, own: u64) -> Option<Self> {
        let numbers = SettingNumbers { settings, major };
        let blocks = numbers.parse_memory("shared_buffers", "128MB", 8 << 10)?.div_ceil(8 << 10);
        let workers = numbers.parse_count("max_worker_processes", "8")?;
        let senders = numbers.parse_count("max_wal_senders", "10")?;
        let connections = numbers.parse_count("max_connections", "100")?;
        let backends = [connections, numbers.autovacuum_workers()?, own, workers, senders];
        let backends = backends.into_iter().fold(0, u64::saturating_add);
        let prepared = numbers.parse_count("max_prepared_transactions", "0")?;
        let holders = backends.saturating_add(prepared);
        // The server's own processes need less than a backend: 32 of 18 are for input and output.
        let processes = backends.saturating_add(match major {
            18.. => 38,
            14 => 8,
            13 => 7,
            _ => 6,
        });
        let handles = numbers.io_handles_per_process(blocks, processes)?;
        let query = numbers.parse_memory("track_activity_query_size", "1024", 1)?;
        let per_transaction = numbers.parse_count("max_locks_per_transaction", "64")?;
        let locks = per_transaction.saturating_mul(holders);
        let predicate_locks = numbers.parse_count("max_pred_locks_per_transaction", "64")?;
        let predicate_locks = predicate_locks.saturating_mul(holders);
        let status_blocks = match major {
            // In banks of 16.
            17.. => (blocks / 512 / 16 * 16).clamp(16, 1024),
            _ => (blocks / 512).clamp(4, 128),
        };
        // Since 18 room for locks is a power of two of groups of 16, 72 bytes each.
        let groups =
            if major >= 18 { (power_of_two(per_transaction) / 16).clamp(1, 1024) } else { 0 };
        let plain = [
            numbers.write_ahead_bytes(blocks)? / 1024 * 1025,
            query.saturating_sub(1024).saturating_mul(processes),
            numbers.dynamic_bytes()?,
            groups.saturating_mul(72).saturating_mul(processes.saturating_add(prepared)),
            Self::hash_table_bytes(blocks, holders, locks, predicate_locks),
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

    /// Bytes of the hash tables: a pointer for each entry, rounded up to a power of two
    /// (`hash_estimate_size`). Locks and predicate locks have two tables each, the second twice as
    /// large, with a tenth on top (`LockShmemSize`, `PredicateLockShmemSize`).
    fn hash_table_bytes(blocks: u64, holders: u64, locks: u64, predicate_locks: u64) -> u64 {
        const POINTER: u64 = 8;
        let of_locks =
            [locks, predicate_locks].into_iter().flat_map(|locks| [locks, locks.saturating_mul(2)]);
        let of_locks = of_locks.map(power_of_two).fold(0, u64::saturating_add);
        let others = [blocks.saturating_add(128), holders.saturating_mul(10)].map(power_of_two);
        let others = others.into_iter().fold(0, u64::saturating_add);
        others
            .saturating_mul(POINTER)
            .saturating_add(of_locks.saturating_mul(POINTER).saturating_mul(11) / 10)
    }

    fn total_bytes(&self, costs: &Costs) -> Bytes {
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
        let tenths: u128 =
            products.into_iter().map(|(count, each)| u128::from(count) * u128::from(each)).sum();
        let bytes = u64::try_from(tenths / 10).unwrap_or(u64::MAX);
        Bytes(bytes) + Bytes(costs.rest) + Bytes(self.plain)
    }
}

/// A start fills in headers and tables, and leaves the blocks of `shared_buffers` untouched until
/// something is read: 40 of 640 MiB, 28 of 328 and 70 of 682 were seen of 15.
pub(super) fn touched_at_start(instance: &Instance, bytes: Bytes) -> TouchedAtStart {
    let buffers = instance
        .setting_value("shared_buffers")
        .and_then(|value| conf::parse_memory(value, 8 << 10))
        .map(Bytes)
        .filter(|buffers| *buffers < bytes);
    buffers.map_or(TouchedAtStart::Unmeasured, |buffers| {
        TouchedAtStart::AtMost(bytes.saturating_sub(buffers))
    })
}

/// The rings of `io_method=io_uring`, which a start of 18 sets up: one for each process but the
/// workers for input and output (`pgaio_uring_procs`), each with room for as many requests as
/// `io_max_concurrency` rounded up. The kernel charges whole pages, of entries (64 bytes each) and
/// of queues (36 each, and a header): 8 KiB for 64 requests, 16 for 128 and 28 for 256 on 6.18.
pub(super) fn ring_bytes(
    settings: &ServerSettings,
    version: Option<&str>,
    base: PageSize,
) -> Option<Bytes> {
    const HEADER: u64 = 320;
    /// Auxiliary processes beside the workers, of 18.
    const AUXILIARY: u64 = 6;
    let major = version.and_then(parse_major).filter(|major| *major >= 18)?;
    let method = settings.value_or("io_method", "worker").into_known()?;
    if !method.eq_ignore_ascii_case("io_uring") {
        return None;
    }
    let counts = SharedMemoryCounts::from_settings(settings, major, 2)?;
    let rings = counts.backends.saturating_add(AUXILIARY);
    let processes = counts.backends.saturating_add(38);
    let requests = SettingNumbers { settings, major }
        .io_handles_per_process(counts.blocks, processes)
        .and_then(u64::checked_next_power_of_two)?;
    let pages = |bytes: u64| base.pages_for(Bytes(bytes));
    let queues = requests.saturating_mul(36).saturating_add(HEADER);
    let each = pages(queues) + pages(requests.saturating_mul(64));
    Some(each.to_bytes(base).saturating_mul(rings))
}

struct SettingNumbers<'a> {
    settings: &'a ServerSettings,
    major: u32,
}

impl SettingNumbers<'_> {
    fn parse_memory(&self, name: &str, default: &str, unit: u64) -> Option<u64> {
        conf::parse_memory(self.settings.value_or(name, default).as_known()?, unit)
    }

    fn parse_number(&self, name: &str, default: &str) -> Option<i128> {
        values::parse_integer(self.settings.value_or(name, default).as_known()?)
    }

    fn parse_count(&self, name: &str, default: &str) -> Option<u64> {
        u64::try_from(self.parse_number(name, default)?).ok()
    }

    fn is_automatic(&self, name: &str) -> bool {
        self.parse_number(name, "-1") == Some(-1)
    }

    /// 18 makes room for workers that autovacuum_max_workers may later be raised to.
    fn autovacuum_workers(&self) -> Option<u64> {
        match self.major {
            18.. => self.parse_count("autovacuum_worker_slots", "16"),
            _ => self.parse_count("autovacuum_max_workers", "3"),
        }
    }

    fn io_handles_per_process(&self, blocks: u64, processes: u64) -> Option<u64> {
        match self.is_automatic("io_max_concurrency") {
            true => Some(blocks.checked_div(processes).unwrap_or_default().clamp(1, 64)),
            false => self.parse_count("io_max_concurrency", "64"),
        }
    }

    fn write_ahead_bytes(&self, blocks: u64) -> Option<u64> {
        match self.is_automatic("wal_buffers") {
            true => Some((blocks / 32 * (8 << 10)).clamp(64 << 10, 16 << 20)),
            // No fewer than four blocks.
            false => Some(self.parse_memory("wal_buffers", "16MB", 8 << 10)?.max(32 << 10)),
        }
    }

    fn dynamic_bytes(&self) -> Option<u64> {
        match self.major {
            14.. => self.parse_memory("min_dynamic_shared_memory", "0", 1 << 20),
            _ => Some(0),
        }
    }
}

fn power_of_two(number: u64) -> u64 {
    number.checked_next_power_of_two().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
