//! Kernel values: read as they compare, pools set with patience.

use std::time::Duration;

use hugewise_diagnose::wording::ONLY_POOL;
use hugewise_model::PageCount;

use crate::outcome::{ApplyEvent, ProgressListener};
use crate::plan::PoolRef;
use crate::{System, SystemFailure};

const ATTEMPTS: u32 = 5;
/// Attempts without a page more than the one before it, after which asking makes no sense.
const IDLE_ATTEMPTS: u32 = 2;
/// Longer each time: the kernel moves and frees pages meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// The pools by page size, on kernels since 2.6.27.
const POOLS: &str = "/sys/kernel/mm/hugepages";

const NODES: &str = "/sys/devices/system/node";

/// As values compare: of `always [madvise] never` the chosen word, of a pool its pages without
/// surplus ones, which go by themselves when nobody uses them any more.
pub(crate) fn read(
    system: &dyn System,
    path: &str,
    pool: Option<PoolRef>,
) -> Result<Option<String>, SystemFailure> {
    let Some(text) = system.read_text(path)? else { return Ok(None) };
    let value = normalize_value(&text);
    let Some(pool) = pool else { return Ok(Some(value)) };
    // What that setting counts elsewhere is the default size's, whatever a plan says it is.
    if path == ONLY_POOL && system.list_folder(POOLS)?.is_some() {
        let why = format!("this kernel has pools of its own in {POOLS}: plan again");
        return Err(SystemFailure::new(path, why));
    }
    let surplus_path = format!("{}/surplus_hugepages", pool.sysfs_folder());
    let surplus = system.read_text(&surplus_path)?;
    let surplus = surplus.map_or(Ok(0), |text| parse_pages(&surplus_path, text.trim()))?;
    Ok(Some(parse_pages(path, &value)?.saturating_sub(surplus).to_string()))
}

pub(crate) fn parse_pages(path: &str, text: &str) -> Result<u64, SystemFailure> {
    text.parse().map_err(|_| SystemFailure::new(path, format!("{text:?} is not a number of pages")))
}

pub(crate) fn normalize_value(text: &str) -> String {
    let chosen =
        text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
    chosen.map_or_else(|| text.split_whitespace().collect::<Vec<_>>().join(" "), str::to_owned)
}

/// Empty with one node. Writing the sum of several nodes' pages would spread them anew.
pub(crate) fn read_node_parts(
    system: &dyn System,
    pool: PoolRef,
) -> Result<Vec<(PoolRef, u64)>, SystemFailure> {
    if pool.node.is_some() {
        return Ok(Vec::new());
    }
    let names = system.list_folder(NODES)?.unwrap_or_default();
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
    format!("{}/nr_hugepages", pool.sysfs_folder())
}

/// An error also where it reads otherwise afterwards.
pub(crate) fn set_value(system: &dyn System, path: &str, value: &str) -> Result<(), SystemFailure> {
    system.write_value(path, value)?;
    let got = read(system, path, None)?;
    if got.as_deref() == Some(&*normalize_value(value)) {
        return Ok(());
    }
    let got = got.unwrap_or_else(|| "nothing".into());
    Err(SystemFailure::new(path, format!("{value} was written, and it reads {got}")))
}

/// The kernel gives what it can without a word: where that is less, memory is compacted, and it is
/// asked again.
pub(crate) fn set_pool(
    system: &dyn System,
    path: &str,
    pool: PoolRef,
    wanted: u64,
    progress: &mut ProgressListener<'_>,
) -> Result<u64, SystemFailure> {
    let (mut idle, mut last) = (0, None);
    for attempt in 1..=ATTEMPTS {
        if attempt > 1 {
            compact_memory(system, pool);
            system.pause_for(PAUSE * attempt);
        }
        system.write_value(path, &wanted.to_string())?;
        let got = read(system, path, Some(pool))?.and_then(|pages| pages.parse::<u64>().ok());
        let got = got.ok_or_else(|| SystemFailure::new(path, "is gone"))?;
        if got == wanted {
            return Ok(got);
        }
        if got > wanted {
            let why = format!("{} asked for, and it keeps {got}", pages_were(wanted));
            return Err(SystemFailure::new(path, why));
        }
        progress(&ApplyEvent::PoolShort {
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

/// Where it cannot, the pages obtained tell.
fn compact_memory(system: &dyn System, pool: PoolRef) {
    let path = match pool.node {
        Some(node) => format!("{NODES}/node{node}/compact"),
        None => "/proc/sys/vm/compact_memory".to_owned(),
    };
    let _ = system.write_value(&path, "1");
}

pub(crate) fn no_such_value(path: &str) -> SystemFailure {
    SystemFailure::new(path, "this kernel has no such value")
}

/// `1 page was`, `537 pages were`.
pub(crate) fn pages_were(pages: u64) -> String {
    format!("{} {}", PageCount(pages).in_pages(), if pages == 1 { "was" } else { "were" })
}
