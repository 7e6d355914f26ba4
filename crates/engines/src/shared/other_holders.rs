//! Huge pages that are held by programs which are none of the known servers.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::{Host, Instance, Mapping, PageCount, PageSize, Process};

use super::segments;
use crate::each_known;

/// Programs beside the known servers that map huge pages of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherHolders {
    /// What they map, each file once.
    pub pages: PageCount,
    /// `dpdk-testpmd (pid 4711)`, by their numbers.
    pub names: Vec<String>,
}

/// What processes map that belong to none of these servers, by page size.
pub fn find_other_holders<'a>(
    host: &Host,
    known: impl Iterator<Item = &'a Instance>,
) -> BTreeMap<PageSize, OtherHolders> {
    let (mut claimed, mut mapped) = (BTreeSet::new(), BTreeSet::new());
    for instance in known {
        claimed.extend(instance.pids.iter().copied());
        mapped.extend(instance.segments.iter().map(|segment| segment.identity));
    }
    let is_other = |process: &Process, mapping: &Mapping| {
        segments::mapping_is_huge(host, mapping).get() == Some(true)
            && !mapped.contains(&segments::mapping_identity(host, process, mapping))
    };
    let mut found = BTreeMap::<PageSize, OtherHolders>::new();
    let mut pids = Vec::new();
    for process in each_known(&host.processes).filter(|process| !claimed.contains(&process.pid)) {
        let mappings = each_known(&process.mappings);
        let sizes: BTreeSet<PageSize> = mappings
            .filter(|mapping| is_other(process, mapping))
            .filter_map(|mapping| mapping.page_size.get())
            .collect();
        for size in &sizes {
            let name = format!("{} (pid {})", process.name, process.pid);
            found.entry(*size).or_default().names.push(name);
        }
        if !sizes.is_empty() {
            pids.push(process.pid);
        }
    }
    for segment in segments::collect_segments(host, &pids, is_other) {
        if let Some((size, holders)) =
            segment.page_size.get().and_then(|size| Some((size, found.get_mut(&size)?)))
        {
            holders.pages = holders.pages + size.pages_for(segment.size);
        }
    }
    found
}
