//! Whether the pools leave the host too little memory.

use hugewise_model::{Bytes, Host, Lack, Level, PageSize};

use crate::wording::pool_fact;
use crate::{Missing, demand, require_known};

/// Beyond this part pools leave too little: sizing guides stop at 70 to 80 % of memory.
const LARGEST: f64 = demand::LARGEST_POOL;
/// From this part on a host that has no memory left is short because of its pools.
const HALF: f64 = 0.5;
/// A host that can give out less than this part of its memory is at its end.
pub(crate) const NOTHING_LEFT: f64 = 0.02;
/// With this part still to be had, pools beyond 80 % are no more than a warning.
pub(crate) const PLENTY: f64 = 0.05;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Starvation {
    pub(crate) level: Level,
    pub(crate) taken: Bytes,
    pub(crate) part: f64,
    pub(crate) left: Bytes,
    pub(crate) evidence: Vec<String>,
}

pub(crate) fn is_starving(host: &Host) -> bool {
    find_starvation(host).is_ok_and(|starving| starving.is_some())
}

/// What the pools leave a host; none where that is enough.
pub(crate) fn find_starvation(host: &Host) -> Result<Option<Starvation>, Missing> {
    let total = *require_known(&host.memory.total, "/proc/meminfo MemTotal")?;
    let mut taken = Bytes::ZERO;
    let mut evidence = Vec::new();
    for pool in require_known(&host.pools, "/sys/kernel/mm/hugepages")? {
        let file = pool_fact(host, pool.page_size, "nr_hugepages");
        let pages = *require_known(&pool.total, &file)?;
        let memory = pages.to_bytes(pool.page_size);
        taken += memory;
        if memory > Bytes::ZERO {
            evidence.push(format!("{file}: {pages}, {memory}"));
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
        return Err(Missing::Host(Lack::from_fact(format_args!("/proc/meminfo {name}"), field)));
    };
    let left = obtainable.bytes;
    evidence.push(format!("{left} of MemTotal {total} to be had ({})", obtainable.source_name()));
    let left_part = left.part_of(total).unwrap_or_default();
    let watermark = high_watermarks(host);
    let exhausted = left_part < NOTHING_LEFT || left < watermark.saturating_mul(2);
    if watermark > Bytes::ZERO && left < watermark.saturating_mul(2) {
        evidence.push(format!("/proc/zoneinfo: high watermarks {watermark}"));
    }
    let level = match () {
        () if exhausted => Level::Error,
        () if part > LARGEST && left_part < PLENTY => Level::Error,
        () if part > LARGEST => Level::Warn,
        () => return Ok(None),
    };
    Ok(Some(Starvation { level, taken, part, left, evidence }))
}

fn high_watermarks(host: &Host) -> Bytes {
    let base = host.base_page.get().unwrap_or(PageSize::KIB_4);
    let zones = host.memory.watermarks.as_known().into_iter().flatten();
    zones.map(|zone| base.bytes().saturating_mul(zone.high)).sum()
}
