//! What a captured node offers to pods.

use std::collections::BTreeMap;

use hugewise_host::{FactReader, Source, kernel};
use hugewise_model::{Bytes, Host, Limit, PageSize};

/// A node as its capture shows it.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// Its host name.
    pub name: Option<String>,
    /// Its pools by page size.
    pub pools: BTreeMap<PageSize, NodePoolFacts>,
    /// `MemTotal`.
    pub memory: Option<Bytes>,
    /// Processors.
    pub processors: Option<u64>,
    /// The size of pages for who names none.
    pub default_page: Option<PageSize>,
    /// Whether its kubelet and runtime limit reservations, so that what is too much is refused when
    /// it is mapped; none where no pod with huge pages shows it.
    pub limits_reservations: Option<bool>,
    /// Huge pages count against `memory` (cgroup2 mounted with memory_hugetlb_accounting).
    pub counts_huge_pages: bool,
    /// vm.hugetlb_shm_group.
    pub shm_group: Option<u32>,
}

/// A pool of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodePoolFacts {
    /// Pages in it.
    pub total: u64,
    /// Pages that nobody has or has reserved.
    pub available: Option<u64>,
    /// Bytes that the kubelet offers: what it found when it started.
    pub offered: Option<u64>,
    /// Bytes that limits of running pods have already.
    pub claimed: u64,
}

impl NodeFacts {
    /// Reads a node.
    pub fn read(source: &dyn Source) -> Self {
        let host = hugewise_host::read(source);
        let mounts = kernel::mounts::read(&mut FactReader::new(source)).into_known();
        let counts = mounts
            .into_iter()
            .flatten()
            .any(|mount| mount.kind == "cgroup2" && mount.has_option("memory_hugetlb_accounting"));
        let pools = host.pools.as_known().into_iter().flatten();
        let pools = pools.map(|pool| (pool.page_size, read_pool(&host, pool)));
        Self {
            name: host.name.as_known().cloned(),
            pools: pools.collect(),
            memory: host.memory.total.get(),
            processors: host.processors.online.get(),
            default_page: host.default_huge_page.get(),
            limits_reservations: find_generation(&host),
            counts_huge_pages: counts,
            shm_group: host.kernel_settings.hugetlb_shm_group.get(),
        }
    }
}

fn read_pool(host: &Host, pool: &hugewise_model::Pool) -> NodePoolFacts {
    let limit_of = |path: &str| {
        let own = |cgroup: &&hugewise_model::host::HugetlbCgroup| {
            cgroup.path == path && cgroup.page_size == pool.page_size
        };
        let cgroup = host.hugetlb_cgroups.iter().find(own)?;
        match cgroup.fault_max.as_known()? {
            Limit::At(bytes) => Some(bytes.get()),
            Limit::Unlimited => None,
        }
    };
    let pods = host.hugetlb_cgroups.iter().filter(|cgroup| cgroup.page_size == pool.page_size);
    let claimed = pods.filter(|cgroup| is_pod(&cgroup.path)).filter_map(|cgroup| {
        match cgroup.fault_max.as_known()? {
            Limit::At(bytes) => Some(bytes.get()),
            Limit::Unlimited => None,
        }
    });
    NodePoolFacts {
        total: pool.total.get().map_or(0, hugewise_model::PageCount::get),
        available: pool.available_pages().map(hugewise_model::PageCount::get),
        offered: limit_of("/kubepods.slice").or_else(|| limit_of("/kubepods")),
        claimed: claimed.fold(0, u64::saturating_add),
    }
}

/// Whether a cgroup is a pod's own: `kubepods-burstable-podUID.slice` or `/kubepods/.../podUID`.
fn is_pod(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = name.strip_suffix(".slice").unwrap_or(name);
    // systemd's names have no other hyphen behind the class of service.
    let own = if name.starts_with("kubepods") { name.rsplit('-').next() } else { Some(name) };
    let uid = own.and_then(|own| own.strip_prefix("pod"));
    path.starts_with("/kubepods") && uid.is_some_and(|uid| uid.len() >= SHORTEST_UID)
}

/// Static pods have an MD5 sum for a UID.
const SHORTEST_UID: usize = 32;

/// By the pods that have huge pages now: with a limit on faults alone, or on reservations, too.
fn find_generation(host: &Host) -> Option<bool> {
    let has_limit =
        |limit: &hugewise_model::Observed<Limit>| matches!(limit.as_known(), Some(Limit::At(_)));
    let pods = host.hugetlb_cgroups.iter();
    let mut limited = pods.filter(|cgroup| is_pod(&cgroup.path) && has_limit(&cgroup.fault_max));
    limited.next().map(|first| has_limit(&first.reservation_max))
}
