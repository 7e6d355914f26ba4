//! The resources that a container should have.

use std::collections::BTreeMap;

use hugewise_model::PageSize;

use crate::quantity::{Quantity, format_bytes};
use crate::report::PodDemand;
use crate::resources::{ContainerResources, ResourceAmounts, resource_name};

/// Amounts by the resource's name, where they differ from what a container has.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedResources {
    /// Of limits and requests alike.
    pub(crate) both: BTreeMap<String, String>,
    /// Of limits alone.
    pub(crate) limits: BTreeMap<String, String>,
    /// Of requests alone.
    pub(crate) requests: BTreeMap<String, String>,
}

impl WantedResources {
    pub(crate) fn is_empty(&self) -> bool {
        self.both.is_empty() && self.limits.is_empty() && self.requests.is_empty()
    }
}

/// The smallest request that lets a pod with huge pages in.
const LEAST_CPU: &str = "100m";

/// What a container should have for these demands, and its bytes of huge pages by page size.
pub(crate) fn find_wanted_resources<'a>(
    resources: &ContainerResources,
    demands: impl Iterator<Item = &'a PodDemand>,
    counts_as_memory: bool,
) -> (WantedResources, BTreeMap<PageSize, u64>) {
    let needed = find_needed_bytes(resources, demands);
    let mut wanted = WantedResources::default();
    for (page, bytes) in needed.iter().filter(|(_, bytes)| **bytes > 0) {
        let name = resource_name(*page);
        let right = Some(Quantity::from_bytes(*bytes));
        let of = |side: &ResourceAmounts| side.get(&name).map(|one| one.amount);
        if of(&resources.limits) != right || of(&resources.requests) != right {
            wanted.both.insert(name, format_bytes(*bytes));
        }
    }
    let has_pages = resources.has_huge_pages() || !wanted.both.is_empty();
    if has_pages && !resources.asks_for_cpu_or_memory() {
        wanted.requests.insert("cpu".into(), LEAST_CPU.into());
    }
    let huge = needed.values().copied().fold(0, u64::saturating_add);
    let limit = resources.memory_limit().filter(|limit| counts_as_memory && *limit <= huge);
    if let Some(limit) = limit.filter(|_| huge > 0) {
        wanted.limits.insert("memory".into(), format_bytes(limit.saturating_add(huge)));
    }
    (wanted, needed)
}

/// What is declared, in whole pages, or more where a server asks for more.
fn find_needed_bytes<'a>(
    resources: &ContainerResources,
    demands: impl Iterator<Item = &'a PodDemand>,
) -> BTreeMap<PageSize, u64> {
    let mut needed: BTreeMap<PageSize, u64> = BTreeMap::new();
    for page in resources.page_sizes() {
        let name = resource_name(page);
        let of = |side: &ResourceAmounts| side.get(&name).map_or(0, |one| one.amount.round_up());
        let declared = of(&resources.limits).max(of(&resources.requests));
        needed.insert(page, declared.div_ceil(page.bytes().get()));
    }
    for demand in demands {
        let pages = needed.entry(demand.page_size).or_default();
        *pages = (*pages).max(demand.most);
    }
    needed
        .into_iter()
        .map(|(page, pages)| (page, pages.saturating_mul(page.bytes().get())))
        .collect()
}
