//! Pools: /sys/kernel/mm/hugepages and /sys/devices/system/node/nodeN/hugepages
//! (Documentation/admin-guide/mm/hugetlbpage.rst).

use hugewise_model::host::NodePool;
use hugewise_model::{KernelRelease, Observed, PageCount, PageSize, Pool};

use super::meminfo::Meminfo;
use super::text::parse_digits;
use super::{nodes, number};
use hugewise_source::{FactReader, ParseError};

pub(super) const FOLDER: &str = "/sys/kernel/mm/hugepages";

/// The page size in a pool's folder name, `hugepages-2048kB`. Fails on any other name.
pub fn parse(name: &[u8]) -> Result<PageSize, ParseError> {
    let text = String::from_utf8_lossy(name);
    let kib = text
        .strip_prefix("hugepages-")
        .and_then(|rest| rest.strip_suffix("kB"))
        .and_then(parse_digits);
    kib.and_then(PageSize::from_kib).ok_or(ParseError::whole_file("no page size"))
}

fn read_page_count(door: &mut FactReader<'_>, path: &str) -> Observed<PageCount> {
    door.parse(path, number::parse).map(PageCount)
}

/// Reads every pool, smallest page first; without /sys the default size's pool from /proc/meminfo.
pub fn read(
    door: &mut FactReader<'_>,
    ids: &Observed<Vec<u32>>,
    meminfo: &Observed<Meminfo>,
    overcommit: &Observed<PageCount>,
) -> Observed<Vec<Pool>> {
    let names = door.list_folder(FOLDER);
    let mut pools = Vec::new();
    for name in names.as_known().into_iter().flatten() {
        let Ok(page_size) = parse(name.as_bytes()) else { continue };
        let folder = format!("{FOLDER}/{name}");
        let mut file = |file: &str| read_page_count(door, &format!("{folder}/{file}"));
        let (total, free) = (file("nr_hugepages"), file("free_hugepages"));
        let (reserved, surplus) = (file("resv_hugepages"), file("surplus_hugepages"));
        let overcommit = file("nr_overcommit_hugepages");
        let nodes = ids
            .as_known()
            .into_iter()
            .flatten()
            .filter_map(|&id| node_pool(door, id, name))
            .collect();
        pools.push(Pool { page_size, total, free, reserved, surplus, overcommit, nodes });
    }
    pools.sort_by_key(|pool| pool.page_size);
    let known = names.map(|_| pools);
    if known.is_known() {
        return known;
    }
    match from_meminfo(meminfo, overcommit) {
        Observed::Absent => known,
        pool => pool,
    }
}

/// Whether the kernel has huge pages of one size only: the folder came in Linux 2.6.27
/// (<https://kernelnewbies.org/Linux_2_6_27>). A capture may lack it: up to 2.6.28, after which
/// smaps tells sizes, taking a kernel for older is no loss.
pub fn is_one_size(door: &mut FactReader<'_>, kernel: &Observed<KernelRelease>) -> bool {
    kernel.as_known().is_some_and(|kernel| kernel.is_before_2_6(29))
        && door.list_folder(FOLDER).is_absent()
}

/// A node's part of a pool; `None` where the kernel keeps none by node.
fn node_pool(door: &mut FactReader<'_>, node: u32, name: &str) -> Option<NodePool> {
    let folder = format!("{}/node{node}/hugepages/{name}", nodes::FOLDER);
    let mut file = |file: &str| read_page_count(door, &format!("{folder}/{file}"));
    let (total, free, surplus) =
        (file("nr_hugepages"), file("free_hugepages"), file("surplus_hugepages"));
    let nothing = total.is_absent() && free.is_absent() && surplus.is_absent();
    (!nothing).then_some(NodePool { node, total, free, surplus })
}

fn from_meminfo(
    meminfo: &Observed<Meminfo>,
    overcommit: &Observed<PageCount>,
) -> Observed<Vec<Pool>> {
    meminfo.as_ref().and_then(|meminfo| {
        meminfo.default_huge_page.clone().map(|page_size| {
            vec![Pool {
                page_size,
                total: meminfo.huge_total.clone(),
                free: meminfo.huge_free.clone(),
                reserved: meminfo.huge_reserved.clone(),
                surplus: meminfo.huge_surplus.clone(),
                overcommit: overcommit.clone(),
                nodes: Vec::new(),
            }]
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_in_folder_names() {
        assert_eq!(parse(b"hugepages-2048kB"), Ok(PageSize::MIB_2));
        assert_eq!(parse(b"hugepages-16777216kB"), Ok(PageSize::new(16 << 30).unwrap()));
        for name in [
            "hugepages-3kB",
            "hugepages-2048",
            "hugepages-kB",
            "hugepages-18446744073709551615kB",
            "",
        ] {
            assert!(parse(name.as_bytes()).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(shift in 12..50u32) {
            let bytes = 1_u64 << shift;
            let name = format!("hugepages-{}kB", bytes >> 10);
            prop_assert_eq!(parse(name.as_bytes()).ok(), PageSize::new(bytes));
        }
    }
}
