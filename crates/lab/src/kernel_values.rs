use hugewise_host::Source;
use hugewise_host::source::LiveSource;
use hugewise_model::{PageCount, PageSize};
use hugewise_system::SystemFailure;

pub(crate) const POOLS: &str = "/sys/kernel/mm/hugepages";
pub(crate) const NODES: &str = "/sys/devices/system/node";

/// The subfolders that are named after a page size (`hugepages-2048kB`), sorted.
pub(crate) fn page_size_folders(parent: &str) -> Vec<(PageSize, String)> {
    let named = |name: String| Some((size_of(&name)?, format!("{parent}/{name}")));
    LiveSource::new()
        .list_folder(parent)
        .into_known()
        .unwrap_or_default()
        .into_iter()
        .filter_map(named)
        .collect()
}

fn size_of(name: &str) -> Option<PageSize> {
    let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
    kib.parse().ok().and_then(PageSize::from_kib)
}

pub(crate) fn numa_node_folders() -> Vec<String> {
    let is_node = |name: &String| {
        name.strip_prefix("node").is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let names = LiveSource::new().list_folder(NODES).into_known().unwrap_or_default();
    names.into_iter().filter(is_node).map(|name| format!("{NODES}/{name}")).collect()
}

/// A file's value: the chosen word of `always [madvise] never`; of a pool the pages without surplus
/// ones, which writing the number back would make permanent. `None` without such a file; fails on
/// an unreadable or invalid one.
pub(crate) fn value_if_any(path: &str) -> Result<Option<String>, SystemFailure> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    if let Some(pool) = path.strip_suffix("/nr_hugepages") {
        let all: u64 = text.parse().map_err(|_| no_number(path))?;
        let surplus = read_text(&format!("{pool}/surplus_hugepages"))?.unwrap_or_default();
        return Ok(Some(all.saturating_sub(surplus.parse().unwrap_or(0)).to_string()));
    }
    let chosen = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map(|(word, _)| word.to_owned());
    Ok(Some(chosen.unwrap_or(text)))
}

pub(crate) fn read_value(path: &str) -> Result<String, SystemFailure> {
    value_if_any(path)?.ok_or_else(|| SystemFailure::new(path, "this kernel has no such value"))
}

pub(crate) fn read_number(path: &str) -> Result<u64, SystemFailure> {
    read_value(path)?.parse().map_err(|_| no_number(path))
}

fn no_number(path: &str) -> SystemFailure {
    SystemFailure::new(path, "is no number")
}

fn read_text(path: &str) -> Result<Option<String>, SystemFailure> {
    let there = LiveSource::new().read(path).into_present();
    let bytes = there.map_err(|why| SystemFailure::new(path, why.to_string()))?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()))
}

pub(crate) fn pool_file(page_size: PageSize, name: &str) -> String {
    format!("{POOLS}/hugepages-{}kB/{name}", page_size.bytes().get() >> 10)
}

pub(crate) fn is_there(folder: &str) -> bool {
    !LiveSource::new().list_folder(folder).is_absent()
}

/// Free pages of a pool that are not reserved; `None` without such a page size.
pub fn available_pages(page_size: PageSize) -> Option<PageCount> {
    let pages = |name| read_number(&pool_file(page_size, name)).ok().map(PageCount);
    Some(pages("free_hugepages")?.saturating_sub(pages("resv_hugepages")?))
}
