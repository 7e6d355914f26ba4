//! The kernel's values of pools and switches, as they read now.

use hugewise_host::Source;
use hugewise_host::source::Live;
use hugewise_model::{Observed, PageCount, PageSize};
use hugewise_system::Failure;

/// The pools of the whole host, one folder a page size.
pub(crate) const POOLS: &str = "/sys/kernel/mm/hugepages";
/// The NUMA nodes, each with pools of its own.
pub(crate) const NODES: &str = "/sys/devices/system/node";

/// The folders in a folder that bear the name of a page size (`hugepages-2048kB`), sorted; none where it is not there.
pub(crate) fn sizes(parent: &str) -> Vec<(PageSize, String)> {
    let named = |name: String| Some((size_of(&name)?, format!("{parent}/{name}")));
    Live::new().list(parent).into_known().unwrap_or_default().into_iter().filter_map(named).collect()
}

fn size_of(name: &str) -> Option<PageSize> {
    let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
    kib.parse().ok().and_then(PageSize::from_kib)
}

/// The folders of the NUMA nodes, sorted.
pub(crate) fn nodes() -> Vec<String> {
    let is_node = |name: &String| name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok());
    let names = Live::new().list(NODES).into_known().unwrap_or_default();
    names.into_iter().filter(is_node).map(|name| format!("{NODES}/{name}")).collect()
}

/// A file's value; of `always [madvise] never` the chosen word; of a pool the pages that were asked for, without the
/// surplus pages that the kernel counts with them and that writing the number back would make lasting ones. `None` where
/// there is no such file.
///
/// # Errors
/// It cannot be read, or makes no sense.
pub(crate) fn value_if_any(path: &str) -> Result<Option<String>, Failure> {
    let Some(text) = text(path)? else { return Ok(None) };
    if let Some(pool) = path.strip_suffix("/nr_hugepages") {
        let all: u64 = text.parse().map_err(|_| no_number(path))?;
        let surplus = self::text(&format!("{pool}/surplus_hugepages"))?.unwrap_or_default();
        return Ok(Some(all.saturating_sub(surplus.parse().unwrap_or(0)).to_string()));
    }
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word.to_owned());
    Ok(Some(chosen.unwrap_or(text)))
}

/// The same of a file that has to be there.
pub(crate) fn value(path: &str) -> Result<String, Failure> {
    value_if_any(path)?.ok_or_else(|| Failure::new(path, "this kernel has no such value"))
}

pub(crate) fn number(path: &str) -> Result<u64, Failure> {
    value(path)?.parse().map_err(|_| no_number(path))
}

fn no_number(path: &str) -> Failure {
    Failure::new(path, "is no number")
}

fn text(path: &str) -> Result<Option<String>, Failure> {
    match Live::new().read(path) {
        Observed::Known(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        Observed::Absent => Ok(None),
        other => Err(Failure::new(path, other.reason().unwrap_or_default())),
    }
}

/// A file of the pool of that page size.
pub(crate) fn pool_file(page_size: PageSize, name: &str) -> String {
    format!("{POOLS}/hugepages-{}kB/{name}", page_size.bytes().get() >> 10)
}

/// Whether there is such a file or folder.
pub(crate) fn is_there(folder: &str) -> bool {
    !Live::new().list(folder).is_absent()
}

/// Pages of a pool that may be had now: free ones that are not promised to others. `None` where the kernel has no
/// such page size.
pub fn available(page_size: PageSize) -> Option<PageCount> {
    let pages = |name| number(&pool_file(page_size, name)).ok().map(PageCount);
    Some(pages("free_hugepages")?.saturating_sub(pages("resv_hugepages")?))
}
