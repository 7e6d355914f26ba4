//! What a PostgreSQL server needs: from its mappings, from its own word, or from a formula.

use hugewise_model::instance::{Demand, DemandSource};
use hugewise_model::{Bytes, PageCount, PageSize};

use super::{conf, values};
use crate::settings::Settings;

/// Bytes of main memory for each thing that a server makes room for, by major version.
///
/// Fitted to what the servers themselves asked for (13.16, 14.18, 15.20, 16.9, 17.5 and 18.4) in 312
/// settings: `shared_buffers` of 128 MB to 256 GB, `max_connections` of 10 to 3000, and the rest of [`Counts`].
struct Costs {
    major: u32,
    /// A block of `shared_buffers`: 8192, its header and its entries in tables.
    block: u64,
    /// A backend.
    backend: u64,
    /// A prepared transaction.
    prepared: u64,
    /// A lock that a transaction may hold.
    lock: u64,
    /// The same, for predicate locks.
    predicate_lock: u64,
    /// A block of the buffers that 17 and later scale with `shared_buffers` (transaction status and the like).
    status_block: u64,
    /// A handle of asynchronous input and output (18).
    io_handle: u64,
    /// What is always there.
    rest: u64,
}

const COSTS: [Costs; 6] = [
    Costs {
        major: 13,
        block: 8378,
        backend: 6743,
        prepared: 8782,
        lock: 395,
        predicate_lock: 246,
        status_block: 0,
        io_handle: 0,
        rest: 1_773_000,
    },
    Costs {
        major: 14,
        block: 8361,
        backend: 5136,
        prepared: 7311,
        lock: 416,
        predicate_lock: 250,
        status_block: 0,
        io_handle: 0,
        rest: 1_795_000,
    },
    Costs {
        major: 15,
        block: 8366,
        backend: 5896,
        prepared: 8504,
        lock: 410,
        predicate_lock: 250,
        status_block: 0,
        io_handle: 0,
        rest: 2_622_000,
    },
    Costs {
        major: 16,
        block: 8368,
        backend: 5539,
        prepared: 8326,
        lock: 393,
        predicate_lock: 270,
        status_block: 0,
        io_handle: 0,
        rest: 2_484_000,
    },
    Costs {
        major: 17,
        block: 8364,
        backend: 4808,
        prepared: 5530,
        lock: 401,
        predicate_lock: 273,
        status_block: 32_956,
        io_handle: 0,
        rest: 1_511_000,
    },
    Costs {
        major: 18,
        block: 8358,
        backend: 9660,
        prepared: 6088,
        lock: 413,
        predicate_lock: 254,
        status_block: 36_105,
        io_handle: 508,
        rest: 1_566_000,
    },
];

/// Largest error seen where the version is one of [`COSTS`]: 0.66 %, rounded up.
const ERROR_PERCENT: u8 = 1;
/// The same where the version is not known: between two of them lie up to 8 % of a small server.
const ERROR_PERCENT_OF_ANY_VERSION: u8 = 10;
/// Libraries take what they like, and nothing bounds it: `pg_stat_statements` at ten times its usual size takes 12 % of
/// a server of 128 MB.
const ERROR_PERCENT_WITH_LIBRARIES: u8 = 25;

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
    let (size, error_percent) = size(settings, version)?;
    Some(in_pages(size, error_percent, page))
}

/// The pages of an amount that is right within `error_percent`. A page more or less is much of a
/// small server, and nothing of one that fills its last page in part whatever the error.
pub(super) fn in_pages(size: Bytes, error_percent: u8, page: PageSize) -> Demand {
    let scaled = |divisor: u64| page.pages_for(Bytes(size.times(100).get() / divisor.max(1))).get().max(1);
    let error = u64::from(error_percent);
    // Libraries only add.
    let below = if error_percent == ERROR_PERCENT_WITH_LIBRARIES { u64::from(ERROR_PERCENT) } else { error };
    let pages = page.pages_for(size);
    let (least, most) = (scaled(100 + below), scaled(100_u64.saturating_sub(error)));
    let off = |truth: u64| pages.get().abs_diff(truth).saturating_mul(100).div_ceil(truth);
    // Where both come to the same pages, there is none left.
    let worst = off(least).max(off(most)).min(100);
    let error_percent = u8::try_from(worst).unwrap_or(100);
    Demand { page_size: page, pages, source: DemandSource::Estimated { error_percent } }
}

/// The same in bytes, with its error in percent.
pub(super) fn size(settings: &Settings, version: Option<&str>) -> Option<(Bytes, u8)> {
    let major = version.and_then(major);
    let known = major.and_then(|major| COSTS.iter().find(|costs| costs.major == major));
    // The newest needs the most.
    let costs = known.or(COSTS.last())?;
    let bytes = Counts::of(settings, costs.major)?.times(costs);
    let libraries = settings.value_or("shared_preload_libraries", "").into_known()?;
    let error_percent = match known {
        Some(_) if libraries.trim().is_empty() => ERROR_PERCENT,
        Some(_) => ERROR_PERCENT_WITH_LIBRARIES,
        None => ERROR_PERCENT_OF_ANY_VERSION,
    };
    Some((bytes, error_percent))
}

/// Between what the main memory that these settings make lies.
pub(super) struct Range {
    /// At least so much.
    pub(super) least: Bytes,
    /// At most so much.
    pub(super) most: Bytes,
}

/// The same, for a server that runs to be held against. Libraries only add to what the formula comes to.
pub(super) fn range(settings: &Settings, version: Option<&str>) -> Option<Range> {
    let (size, error_percent) = size(settings, version)?;
    let exact = version.and_then(major).is_some_and(|major| COSTS.iter().any(|costs| costs.major == major));
    let below = if exact { ERROR_PERCENT } else { ERROR_PERCENT_OF_ANY_VERSION };
    let part = |percent: u8| Bytes(size.get() / 100 * u64::from(percent));
    Some(Range { least: size.saturating_sub(part(below)), most: size + part(error_percent.max(below)) })
}

/// What a start with these settings may need beside a server that has mapped so much: libraries that show in nothing that is
/// mapped may be new, and then take what they like.
pub(super) fn perhaps(settings: &Settings, version: Option<&str>, page: PageSize, mapped: Bytes) -> Option<Demand> {
    let (size, error_percent) = size(settings, version)?;
    let part = |percent: u8| Bytes(size.get() / 100 * u64::from(percent));
    let loads = error_percent == ERROR_PERCENT_WITH_LIBRARIES;
    if loads && mapped <= size + part(ERROR_PERCENT) {
        return Some(in_pages(size + part(error_percent), 0, page));
    }
    Some(in_pages(size, error_percent, page))
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
    prepared: u64,
    locks: u64,
    predicate_locks: u64,
    status_blocks: u64,
    io_handles: u64,
    /// Bytes that the settings name themselves: `wal_buffers`, `min_dynamic_shared_memory`, longer queries than 1 KiB.
    plain: u64,
}

impl Counts {
    /// With the rules and defaults of the servers (13 to 18).
    fn of(settings: &Settings, major: u32) -> Option<Self> {
        let memory =
            |name: &str, default: &str, unit| conf::memory(settings.value_or(name, default).known()?.as_str(), unit);
        let number = |name: &str, default: &str| values::integer(settings.value_or(name, default).known()?);
        let count = |name: &str, default: &str| u64::try_from(number(name, default)?).ok();
        let automatic = |name: &str| number(name, "-1") == Some(-1);
        let blocks = memory("shared_buffers", "128MB", 8 << 10)?.div_ceil(8 << 10);
        // 18 makes room for workers that autovacuum_max_workers may later be raised to, and has one process more.
        let autovacuum = match major {
            18.. => count("autovacuum_worker_slots", "16")?.saturating_add(1),
            _ => count("autovacuum_max_workers", "3")?,
        };
        let backends = [
            count("max_connections", "100")?,
            autovacuum,
            1,
            count("max_worker_processes", "8")?,
            count("max_wal_senders", "10")?,
        ];
        let backends = backends.into_iter().fold(0, u64::saturating_add);
        let prepared = count("max_prepared_transactions", "0")?;
        let holders = backends.saturating_add(prepared);
        // The server's own processes, which need less than a backend: 32 of 18 are for input and output.
        let processes = backends.saturating_add(if major >= 18 { 38 } else { 6 });
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
        let table = blocks.saturating_add(128).checked_next_power_of_two()?.saturating_mul(8);
        let plain = [write_ahead / 1024 * 1025, query.saturating_mul(processes), dynamic, table];
        Some(Self {
            blocks,
            backends,
            prepared,
            locks: count("max_locks_per_transaction", "64")?.saturating_mul(holders),
            predicate_locks: count("max_pred_locks_per_transaction", "64")?.saturating_mul(holders),
            status_blocks: (blocks / 512).clamp(16, 1024),
            io_handles: handles.saturating_mul(processes),
            plain: plain.into_iter().fold(0, u64::saturating_add),
        })
    }

    fn times(&self, costs: &Costs) -> Bytes {
        let products = [
            (self.blocks, costs.block),
            (self.backends, costs.backend),
            (self.prepared, costs.prepared),
            (self.locks, costs.lock),
            (self.predicate_locks, costs.predicate_lock),
            (self.status_blocks, costs.status_block),
            (self.io_handles, costs.io_handle),
            (1, costs.rest),
            (1, self.plain),
        ];
        products.into_iter().map(|(count, each)| Bytes(each).times(count)).sum()
    }
}

#[cfg(test)]
mod tests;
