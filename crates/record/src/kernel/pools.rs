//! Huge pages by size and node (Documentation/admin-guide/mm/hugetlbpage.rst). Folders are looked through once, at the start.

use hugewise_host::Source;
use hugewise_host::source::Live;

use super::Held;
use crate::sample::{MOST_POOLS, Pool, Sample};

const HOST: &str = "/sys/kernel/mm/hugepages";
const NODES: &str = "/sys/devices/system/node";

#[derive(Debug)]
struct Files {
    page_kib: u64,
    node: Option<u16>,
    total: Held,
    free: Held,
    reserved: Held,
    surplus: Held,
    overcommit: Held,
}

/// The files of all pools.
#[derive(Debug)]
pub(crate) struct Pools(Vec<Files>);

impl Pools {
    pub(crate) fn open(missing: &mut Vec<String>) -> Self {
        let live = Live::new();
        let names = |folder: &str| live.list(folder).into_known().unwrap_or_default();
        let mut pools = Vec::new();
        let mut folder = |path: &str, node: Option<u16>| {
            for name in names(path) {
                let page = name.strip_prefix("hugepages-").and_then(|rest| rest.strip_suffix("kB"));
                let Some(page_kib) = page.and_then(|page| page.parse().ok()) else { continue };
                let held = |file: &str| Held::open(&format!("{path}/{name}/{file}"));
                pools.push(Files {
                    page_kib,
                    node,
                    total: held("nr_hugepages"),
                    free: held("free_hugepages"),
                    reserved: held("resv_hugepages"),
                    surplus: held("surplus_hugepages"),
                    overcommit: held("nr_overcommit_hugepages"),
                });
            }
        };
        folder(HOST, None);
        for name in names(NODES) {
            let node = name.strip_prefix("node").and_then(|number| number.parse().ok());
            if let Some(node) = node {
                folder(&format!("{NODES}/{name}/hugepages"), Some(node));
            }
        }
        if pools.is_empty() {
            missing.push(format!("{HOST}: this kernel has no huge page pools"));
        }
        // The host's own come first whatever the folders' order: they are kept where there is no room for all.
        pools.sort_by_key(|files| (files.node, files.page_kib));
        if pools.len() > MOST_POOLS {
            missing.push(format!(
                "there are {} pools (one per size and node): only the first {MOST_POOLS} are recorded",
                pools.len()
            ));
            pools.truncate(MOST_POOLS);
        }
        Self(pools)
    }

    pub(crate) fn read(&self, buffer: &mut [u8], nodes: bool, sample: &mut Sample) {
        let buffer = buffer.get_mut(..64).unwrap_or_default();
        for files in self.0.iter().filter(|files| nodes || files.node.is_none()) {
            sample.push_pool(Pool {
                page_kib: files.page_kib,
                node: files.node,
                total: files.total.value(buffer),
                free: files.free.value(buffer),
                reserved: files.reserved.value(buffer),
                surplus: files.surplus.value(buffer),
                overcommit: files.overcommit.value(buffer),
            });
        }
    }
}
