//! Kernel values: read as they compare, pools set with patience.

use std::time::Duration;

use hugewise_advice::words::ONLY_POOL;
use hugewise_model::PageCount;

use crate::outcome::{Event, Progress};
use crate::plan::PoolRef;
use crate::{Failure, System};

/// How often a pool is asked for.
const ATTEMPTS: u32 = 5;
/// Attempts without a page more than the one before it, after which asking makes no sense.
const IDLE_ATTEMPTS: u32 = 2;
/// Longer each time: the kernel moves and frees pages meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// The pools by page size, on kernels since 2.6.27.
const POOLS: &str = "/sys/kernel/mm/hugepages";

const NODES: &str = "/sys/devices/system/node";

/// A value as it compares: of `always [madvise] never` the chosen word, of a pool its pages without surplus ones, which
/// go by themselves when nobody uses them any more.
pub(crate) fn read(system: &dyn System, path: &str, pool: Option<PoolRef>) -> Result<Option<String>, Failure> {
    let Some(text) = system.text(path)? else { return Ok(None) };
    let value = normal(&text);
    let Some(pool) = pool else { return Ok(Some(value)) };
    // What that setting counts elsewhere is the default size's, whatever a plan says it is.
    if path == ONLY_POOL && system.list(POOLS)?.is_some() {
        return Err(Failure::new(path, format!("this kernel has pools of its own in {POOLS}: plan again")));
    }
    let count = |text: &str, path: &str| {
        let number = text.trim().parse::<u64>();
        number.map_err(|_| Failure::new(path, format!("{:?} is not a number of pages", text.trim())))
    };
    let surplus_path = format!("{}/surplus_hugepages", pool.folder());
    let surplus = system.text(&surplus_path)?.map_or(Ok(0), |text| count(&text, &surplus_path))?;
    Ok(Some(count(&value, path)?.saturating_sub(surplus).to_string()))
}

/// The chosen word of several, or the words as they are.
pub(crate) fn normal(text: &str) -> String {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    chosen.map_or_else(|| text.split_whitespace().collect::<Vec<_>>().join(" "), str::to_owned)
}

/// The parts of a whole host's pool, on a host with several nodes: writing their sum would spread the pages anew.
pub(crate) fn parts(system: &dyn System, pool: PoolRef) -> Result<Vec<(PoolRef, u64)>, Failure> {
    if pool.node.is_some() {
        return Ok(Vec::new());
    }
    let names = system.list(NODES)?.unwrap_or_default();
    let mut parts = Vec::new();
    for node in names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()) {
        let part = PoolRef { node: Some(node), ..pool };
        let path = pool_path(part);
        if let Some(pages) = read(system, &path, Some(part))?.and_then(|pages| pages.parse().ok()) {
            parts.push((part, pages));
        }
    }
    parts.sort_by_key(|(part, _)| part.node);
    Ok(if parts.len() > 1 { parts } else { Vec::new() })
}

pub(crate) fn pool_path(pool: PoolRef) -> String {
    format!("{}/nr_hugepages", pool.folder())
}

/// Sets a value, and reads back what the kernel made of it.
///
/// # Errors
/// It cannot be written, or reads otherwise afterwards.
pub(crate) fn set(system: &dyn System, path: &str, value: &str) -> Result<(), Failure> {
    system.write_value(path, value)?;
    let got = read(system, path, None)?;
    if got.as_deref() == Some(&*normal(value)) {
        return Ok(());
    }
    let got = got.unwrap_or_else(|| "nothing".into());
    Err(Failure::new(path, format!("{value} was written, and it reads {got}")))
}

/// Sets a pool and reads back the pages that it got: the kernel gives what it can without a word. Where that is less,
/// memory is compacted and the kernel asked again, a few times.
pub(crate) fn set_pool(
    system: &dyn System,
    path: &str,
    pool: PoolRef,
    wanted: u64,
    progress: &mut Progress<'_>,
) -> Result<u64, Failure> {
    let (mut idle, mut last) = (0, None);
    for attempt in 1..=ATTEMPTS {
        if attempt > 1 {
            compact(system, pool);
            system.pause(PAUSE * attempt);
        }
        system.write_value(path, &wanted.to_string())?;
        let got = read(system, path, Some(pool))?.and_then(|pages| pages.parse::<u64>().ok());
        let got = got.ok_or_else(|| Failure::new(path, "is gone"))?;
        if got >= wanted {
            return if got == wanted {
                Ok(got)
            } else {
                Err(Failure::new(path, format!("{} asked for, and it keeps {got}", were(wanted))))
            };
        }
        progress(&Event::PoolShort {
            pool,
            wanted: PageCount(wanted),
            obtained: PageCount(got),
            attempt,
            attempts: ATTEMPTS,
        });
        idle = if last.is_some_and(|last| got <= last) { idle + 1 } else { 0 };
        last = Some(got);
        if idle >= IDLE_ATTEMPTS {
            break;
        }
    }
    Ok(last.unwrap_or_default())
}

/// Asks the kernel to move pages together. Where it cannot, the pages obtained tell.
fn compact(system: &dyn System, pool: PoolRef) {
    let path = match pool.node {
        Some(node) => format!("{NODES}/node{node}/compact"),
        None => "/proc/sys/vm/compact_memory".to_owned(),
    };
    let _ = system.write_value(&path, "1");
}
/// `1 page was`, `537 pages were`.
pub(crate) fn were(pages: u64) -> String {
    format!("{} {}", PageCount(pages).in_pages(), if pages == 1 { "was" } else { "were" })
}
