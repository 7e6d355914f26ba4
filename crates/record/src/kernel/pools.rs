//! Huge pages by size and node (Documentation/admin-guide/mm/hugetlbpage.rst); the folders are
//! listed once, at the start.

use hugewise_host::Source;
use hugewise_host::source::LiveSource;

use super::OpenKernelFile;
use crate::sample::{HostSample, MOST_POOLS, RecordedPool};

const HOST: &str = "/sys/kernel/mm/hugepages";
const NODES: &str = "/sys/devices/system/node";

#[derive(Debug)]
struct PoolFiles {
    page_kib: u64,
    node: Option<u16>,
    total: OpenKernelFile,
    free: OpenKernelFile,
    reserved: OpenKernelFile,
    surplus: OpenKernelFile,
    overcommit: OpenKernelFile,
}

#[derive(Debug)]
pub(crate) struct PoolFileSet(Vec<PoolFiles>);

impl PoolFileSet {
    pub(crate) fn open(missing: &mut Vec<String>) -> Self {
        let live = LiveSource::new();
        let names = |folder: &str| live.list_folder(folder).into_known().unwrap_or_default();
        let mut pools = Vec::new();
        let mut folder = |path: &str, node: Option<u16>| {
            for name in names(path) {
                let page = name.strip_prefix("hugepages-").and_then(|rest| rest.strip_suffix("kB"));
                let Some(page_kib) = page.and_then(|page| page.parse().ok()) else { continue };
                let held = |file: &str| OpenKernelFile::open(&format!("{path}/{name}/{file}"));
                pools.push(PoolFiles {
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
        // The host's own come first, in case there is no room for all.
        pools.sort_by_key(|files| (files.node, files.page_kib));
        if pools.len() > MOST_POOLS {
            missing.push(format!(
                "there are {} pools (one per size and node): only the first {MOST_POOLS} are \
                     recorded",
                pools.len()
            ));
            pools.truncate(MOST_POOLS);
        }
        Self(pools)
    }

    pub(crate) fn read(&self, buffer: &mut [u8], nodes: bool, sample: &mut HostSample) {
        let buffer = buffer.get_mut(..64).unwrap_or_default();
        for files in self.0.iter().filter(|files| nodes || files.node.is_none()) {
            sample.push_pool(RecordedPool {
                page_kib: files.page_kib,
                node: files.node,
                total: files.total.read_value(buffer),
                free: files.free.read_value(buffer),
                reserved: files.reserved.read_value(buffer),
                surplus: files.surplus.read_value(buffer),
                overcommit: files.overcommit.read_value(buffer),
            });
        }
    }
}
