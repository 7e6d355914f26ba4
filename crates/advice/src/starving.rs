//! Whether the pools leave the host too little memory.

use hugewise_model::{Bytes, Host, Lack, Level, PageSize};

use crate::words::pool_fact;
use crate::{Missing, demand, known};

/// Beyond this part of memory all pools together leave too little: sizing guides stop at 70 to 80 %.
const LARGEST: f64 = demand::LARGEST_POOL;
/// From this part on a host that has no memory left is short because of its pools.
const HALF: f64 = 0.5;
/// A host that can give out less than this part of its memory is at its end.
const NOTHING_LEFT: f64 = 0.02;
/// With this part still to be had, pools beyond 80 % are no more than a warning.
const PLENTY: f64 = 0.05;

/// A host that has too little memory beside its pools.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Starving {
    /// How bad it is.
    pub(crate) level: Level,
    /// Memory that the pools take.
    pub(crate) taken: Bytes,
    /// Part of all memory that this is.
    pub(crate) part: f64,
    /// Memory that can still be had.
    pub(crate) left: Bytes,
    /// Where that was read.
    pub(crate) evidence: Vec<String>,
}

/// Whether it is known that the pools starve a host.
pub(crate) fn starves(host: &Host) -> bool {
    starving(host).is_ok_and(|starving| starving.is_some())
}

/// What the pools leave a host; none where that is enough.
///
/// # Errors
/// What is not known of its memory or its pools.
pub(crate) fn starving(host: &Host) -> Result<Option<Starving>, Missing> {
    let total = *known(&host.memory.total, "/proc/meminfo MemTotal")?;
    let mut taken = Bytes::ZERO;
    let mut evidence = Vec::new();
    for pool in known(&host.pools, "/sys/kernel/mm/hugepages")? {
        let pages = *known(&pool.total, &pool_fact(host, pool.page_size, "nr_hugepages"))?;
        let memory = pages.of(pool.page_size);
        taken += memory;
        if memory > Bytes::ZERO {
            evidence.push(format!("{}: {pages}, {memory}", pool_fact(host, pool.page_size, "nr_hugepages")));
        }
    }
    let part = taken.part_of(total).unwrap_or_default();
    if part < HALF {
        return Ok(None);
    }
    let Some(obtainable) = host.obtainable_memory() else {
        let memory = &host.memory;
        let (field, name) = match memory.available.is_absent() {
            true => (&memory.free, "MemFree"),
            false => (&memory.available, "MemAvailable"),
        };
        return Err(Missing::Host(Lack::of(format_args!("/proc/meminfo {name}"), field)));
    };
    let left = obtainable.bytes;
    evidence.push(format!("{left} of MemTotal {total} to be had ({})", obtainable.source()));
    let left_part = left.part_of(total).unwrap_or_default();
    let watermark = high_watermarks(host);
    let exhausted = left_part < NOTHING_LEFT || left < watermark.times(2);
    if watermark > Bytes::ZERO && left < watermark.times(2) {
        evidence.push(format!("/proc/zoneinfo: high watermarks {watermark}"));
    }
    let level = match () {
        () if exhausted => Level::Error,
        () if part > LARGEST && left_part < PLENTY => Level::Error,
        () if part > LARGEST => Level::Warn,
        () => return Ok(None),
    };
    Ok(Some(Starving { level, taken, part, left, evidence }))
}

fn high_watermarks(host: &Host) -> Bytes {
    let base = host.base_page.get().unwrap_or(PageSize::KIB_4);
    let zones = host.memory.watermarks.known().into_iter().flatten();
    zones.map(|zone| base.bytes().times(zone.high)).sum()
}
