//! Pools of the next boot that leave the host too little memory.
//!
//! Seen on Linux 6.1: a kernel with 2 GiB of memory and `hugepages=970` on its command line takes
//! them, 95 % of it, and panics before its first program starts ("System is deadlocked on memory");
//! with 85 % it comes up. Written to nr_hugepages, 9,999 pages come out as 214 of 234, and 14 MiB
//! are left. `hugepagesz=1G hugepages=4` on 4 GiB gives one page.

use hugewise_model::configuration::FileLocation;
use hugewise_model::{Bytes, Host, PageCount, PageSize};

use super::{BootPlace, cmdline_pages, command_line, pool_by_files, predict_memory};
use crate::{Missing, demand, require_known};

/// Beyond this part of memory for pools a host may not come up at all.
pub(crate) const DEADLY: f64 = 0.9;

/// From this part of memory on a pool may come out short at the end of a boot.
pub const LARGE_PART: f64 = 0.7;

/// And with less than this for everything else, where the pools take more than half.
pub(crate) const SMALLEST_REST: Bytes = Bytes::from_mib(256);

/// Pools that together take more memory at the next boot than a host can spare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crowding {
    /// What is asked for, over all page sizes.
    pub asked: Bytes,
    /// All there is.
    pub memory: Bytes,
    /// The pools, largest first.
    pub parts: Vec<CrowdingPool>,
    /// Whether so little is left that the host may not come up.
    pub is_deadly: bool,
}

/// One pool of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrowdingPool {
    /// Size of its pages.
    pub page_size: PageSize,
    /// Pages that are asked for.
    pub pages: PageCount,
    /// Where that stands.
    pub place: BootPlace,
    /// Whether the kernel's command line asks for them: before any file is read.
    pub early: bool,
}

impl CrowdingPool {
    /// Its memory.
    pub fn memory(&self) -> Bytes {
        self.pages.to_bytes(self.page_size)
    }
}

/// The pools of the next boot, where they take more than 80 % of memory and more than the host
/// lives with now.
///
/// # Errors
/// A file that counts could not be read, or the size of memory is not known.
pub fn predict_crowding(host: &Host) -> Result<Option<Crowding>, Missing> {
    let pools = require_known(&host.pools, "/sys/kernel/mm/hugepages")?;
    let mut parts = Vec::new();
    for pool in pools {
        parts.extend(find_crowding_pool(host, pool.page_size)?);
    }
    let asked: Bytes = parts.iter().map(CrowdingPool::memory).sum();
    if asked == Bytes::ZERO {
        return Ok(None);
    }
    let memory = predict_memory(host)?;
    // Pools beyond memory are nothing that a host lives with.
    let lives_with =
        pools.iter().filter_map(hugewise_model::Pool::memory_bytes).sum::<Bytes>().min(memory);
    let lives_with = if host.memory.total.get() == Some(memory) { lives_with } else { Bytes::ZERO };
    if asked <= demand::largest_pools(memory) || asked <= lives_with {
        return Ok(None);
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.memory()));
    let taken = asked.part_of(memory).unwrap_or(1.0);
    let is_deadly = taken > DEADLY || memory.saturating_sub(asked) < SMALLEST_REST;
    Ok(Some(Crowding { asked, memory, parts, is_deadly }))
}

/// The pool of a size, where it is one of [`predict_crowding`]'s.
pub fn find_crowding_of(host: &Host, page: PageSize) -> Option<CrowdingPool> {
    let parts = predict_crowding(host).ok()??.parts;
    parts.into_iter().find(|part| part.page_size == page)
}

/// What the command line reserves is taken before a file gives some of it back.
fn find_crowding_pool(host: &Host, page_size: PageSize) -> Result<Option<CrowdingPool>, Missing> {
    let pool = pool_by_files(host, page_size)?;
    let early = reserved_early(host, page_size);
    let part = |pages, place, early| Some(CrowdingPool { page_size, pages, place, early });
    Ok(match (&early, pool.steps.last()) {
        (Some((pages, place)), _) if *pages >= pool.total && *pages > PageCount::ZERO => {
            part(*pages, place.clone().into(), true)
        }
        (_, Some(step)) if pool.total > PageCount::ZERO => {
            part(pool.total, step.place.clone(), false)
        }
        _ => None,
    })
}

/// Pages of a size that the command line reserves before memory is in use, and where it says so.
pub fn reserved_early(host: &Host, page: PageSize) -> Option<(PageCount, FileLocation)> {
    let (words, place) = command_line(host).ok()?;
    cmdline_pages::parse_reserved_pages(host, words, page)
        .map(|reserved| (PageCount(reserved.total), place))
}
