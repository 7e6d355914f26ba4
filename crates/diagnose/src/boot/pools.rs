//! Pools of the next boot.

use hugewise_host::config::kernel_value::{sysctl_count, sysfs_count};
use hugewise_host::config::pattern::is_pattern;

use hugewise_model::{Host, Lack, PageCount, PageSize, Reason};

use super::cmdline_pages::{self, ReservedPages};
use super::kernel_file_writes::{Targets, collect_writes};
use super::{BootPlace, command_line, default_size, pool_writers};
use crate::Missing;
use crate::wording::{node_pool_file, pool_file};

/// The pool of one page size as the next boot leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PredictedPool {
    /// Size of its pages.
    pub page_size: PageSize,
    /// Pages on the whole host; none where no step sets them.
    pub total: PageCount,
    /// Pages of each node as steps set them; empty where the kernel spreads them evenly.
    pub nodes: Vec<(u32, PageCount)>,
    /// The steps that set it, in order, with those that a later file overrides.
    pub steps: Vec<PoolStep>,
}

/// A step that sets a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStep {
    /// The node whose pages it sets; `None` where it sets the pool and the kernel spreads them.
    pub node: Option<u32>,
    /// Pages that it asks for.
    pub pages: PageCount,
    /// Pages of the whole pool after it.
    pub total: PageCount,
    /// Where it stands.
    pub place: BootPlace,
}

enum PoolFileTarget {
    /// The pool, by a file below /proc/sys.
    Setting,
    /// The pool, by a file below /sys.
    Whole,
    Node(u32),
}

/// The pool of one page size.
///
/// # Errors
/// A file that counts could not be read, or something else writes the pool too.
pub fn pool_at_boot(host: &Host, page: PageSize) -> Result<PredictedPool, Missing> {
    if let Some(writer) = pool_writers(host, page).next() {
        let why = Reason::from_text(format!("{writer} also sets it during boot"));
        return Err(Missing::Host(Lack::new(
            format!("the pool of {page} pages at the next boot"),
            why,
        )));
    }
    pool_by_files(host, page)
}

/// [`pool_at_boot`] by the files that exist for it, whatever else writes the pool.
pub(crate) fn pool_by_files(host: &Host, page: PageSize) -> Result<PredictedPool, Missing> {
    let mut pool = BootingPool::new(host, page);
    if !pool.nodes_are_known && sets_nodes(host, page) {
        return Err(Missing::Host(Lack::new(
            "the nodes whose pages tmpfiles.d sets",
            Reason::from_text("not known"),
        )));
    }
    let line = command_line(host);
    if let Ok((words, _)) = &line
        && let Some(reserved) = cmdline_pages::parse_reserved_pages(host, words, page)
    {
        pool.reserve_pages(
            &reserved,
            BootPlace::KernelWord(reserved.render_boot_words(host, page)),
        );
    }
    let nodes: Vec<u32> = pool.spread.nodes.iter().map(|(id, _)| *id).collect();
    let targets = pool_file_targets(page, default_size(host) == Some(page), &nodes);
    let mut first_word = false;
    for hit in collect_writes(host, &targets)? {
        let value = hit.value.as_ref();
        let set = match hit.target {
            PoolFileTarget::Setting if hit.of_profile => of_profile(value, pool.spread.total),
            PoolFileTarget::Setting => sysctl_count(value),
            PoolFileTarget::Whole | PoolFileTarget::Node(_) => sysfs_count(value),
        };
        let Some(pages) = set else { continue };
        match hit.target {
            PoolFileTarget::Node(node) => pool.set_node(*node, pages, hit.place),
            PoolFileTarget::Setting | PoolFileTarget::Whole => {
                // Whatever the command line says, a file wins over it.
                first_word |= !pool.has_node_steps;
                pool.set_total(pages, hit.place);
            }
        }
    }
    if !first_word {
        line?;
    }
    Ok(pool.at_boot(page))
}

fn sets_nodes(host: &Host, page: PageSize) -> bool {
    let folder = format!("hugepages-{}kB", page.bytes().get() / 1024);
    let is = |path: &str| {
        path.starts_with("/sys/devices/system/node/")
            && (path.contains(&folder) || is_pattern(path))
    };
    let writes = host.configuration.tmpfiles.as_known();
    writes.is_some_and(|writes| writes.iter().any(|write| is(&write.path)))
}

/// TuneD's `>512` and `<512` raise and lower what is there.
fn of_profile(value: &str, now: u64) -> Option<u64> {
    match value.split_at_checked(1)? {
        (">", least) => Some(sysctl_count(least)?.max(now)),
        ("<", most) => Some(sysctl_count(most)?.min(now)),
        _ => sysctl_count(value),
    }
}

fn pool_file_targets(page: PageSize, is_default: bool, nodes: &[u32]) -> Targets<PoolFileTarget> {
    let mut all = Vec::new();
    for name in ["nr_hugepages", "nr_hugepages_mempolicy"] {
        all.push((pool_file(page, name), PoolFileTarget::Whole));
        if is_default {
            all.push((format!("/proc/sys/vm/{name}"), PoolFileTarget::Setting));
        }
    }
    all.extend(nodes.iter().map(|node| (node_pool_file(*node, page), PoolFileTarget::Node(*node))));
    Targets::new(all)
}

struct BootingPool {
    spread: NodeSpread,
    nodes_are_known: bool,
    /// Whether the pages of the nodes are what steps said, and not what the kernel spread.
    by_node: bool,
    /// Whether a step has set the pages of one node.
    has_node_steps: bool,
    steps: Vec<PoolStep>,
}

impl BootingPool {
    fn new(host: &Host, page: PageSize) -> Self {
        let kept = host
            .find_pool(page)
            .map(|pool| pool.nodes.iter().map(|node| node.node).collect::<Vec<_>>());
        let with_memory = || {
            let nodes = host.nodes.as_known()?.iter();
            let nodes = nodes.filter(|node| node.total.get().is_none_or(|total| total.get() > 0));
            Some(nodes.map(|node| node.id).collect::<Vec<_>>())
        };
        let ids = kept.filter(|nodes| !nodes.is_empty()).or_else(with_memory);
        let ids = ids.filter(|nodes| !nodes.is_empty());
        let nodes_are_known = ids.is_some();
        // A host of which no nodes are known has one, as far as the total goes.
        let nodes = ids.unwrap_or_else(|| vec![0]).into_iter().map(|id| (id, 0)).collect();
        Self {
            spread: NodeSpread { nodes, total: 0, next: 0 },
            nodes_are_known,
            by_node: false,
            has_node_steps: false,
            steps: Vec::new(),
        }
    }

    fn reserve_pages(&mut self, reserved: &ReservedPages, place: BootPlace) {
        if reserved.nodes.is_empty() {
            return self.set_total(reserved.total, place);
        }
        for (node, pages) in &reserved.nodes {
            self.spread.set_node(*node, *pages);
        }
        // Nodes of which nothing is known here count all the same.
        self.spread.total = self.spread.total.max(reserved.total);
        self.by_node = true;
        let (pages, total) = (PageCount(reserved.total), PageCount(self.spread.total));
        self.steps.push(PoolStep { node: None, pages, total, place });
    }

    fn set_total(&mut self, pages: u64, place: BootPlace) {
        self.by_node &= pages == self.spread.total;
        self.spread.set_total(pages);
        let pages = PageCount(pages);
        self.steps.push(PoolStep { node: None, pages, total: pages, place });
    }

    fn set_node(&mut self, node: u32, pages: u64, place: BootPlace) {
        self.spread.set_node(node, pages);
        (self.by_node, self.has_node_steps) = (true, true);
        let total = PageCount(self.spread.total);
        self.steps.push(PoolStep { node: Some(node), pages: PageCount(pages), total, place });
    }

    fn at_boot(self, page_size: PageSize) -> PredictedPool {
        let nodes = self.spread.nodes.iter().map(|(id, pages)| (*id, PageCount(*pages)));
        PredictedPool {
            page_size,
            total: PageCount(self.spread.total),
            nodes: if self.by_node { nodes.collect() } else { Vec::new() },
            steps: self.steps,
        }
    }
}

/// Pages over the nodes, one after the other, as `set_max_huge_pages()` of mm/hugetlb.c moves them.
struct NodeSpread {
    nodes: Vec<(u32, u64)>,
    total: u64,
    next: usize,
}

impl NodeSpread {
    fn set_node(&mut self, id: u32, pages: u64) {
        if let Some((_, now)) = self.nodes.iter_mut().find(|(node, _)| *node == id) {
            self.total = self.total.saturating_sub(*now).saturating_add(pages);
            *now = pages;
        }
    }

    fn set_total(&mut self, total: u64) {
        if total > self.total {
            self.grow(total - self.total);
        } else if total > 0 {
            self.shrink(self.total - total);
        } else {
            self.nodes.iter_mut().for_each(|(_, now)| *now = 0);
        }
        self.total = total;
    }

    fn grow(&mut self, pages: u64) {
        let count = self.nodes.len();
        let Ok(nodes) = u64::try_from(count) else { return };
        let (Some(each), Some(rest)) = (pages.checked_div(nodes), pages.checked_rem(nodes)) else {
            return;
        };
        for (at, (_, now)) in self.nodes.iter_mut().enumerate() {
            let place = (at + count - self.next % count) % count;
            let more = u64::from(u64::try_from(place).is_ok_and(|place| place < rest));
            *now = now.saturating_add(each).saturating_add(more);
        }
        self.next = (self.next + usize::try_from(rest).unwrap_or_default()) % count;
    }

    fn shrink(&mut self, mut pages: u64) {
        while pages > 0 {
            let left = || self.nodes.iter().filter(|(_, now)| *now > 0);
            let Some(least) = left().map(|(_, now)| *now).min() else { return };
            let count = u64::try_from(left().count()).unwrap_or(u64::MAX);
            let each = (pages / count).min(least);
            for (_, now) in self.nodes.iter_mut().filter(|(_, now)| *now > 0) {
                let take = if each > 0 { each } else { pages.min(1) };
                *now = now.saturating_sub(take);
                pages = pages.saturating_sub(take);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(nodes: &[u64]) -> NodeSpread {
        let nodes: Vec<(u32, u64)> = (0..).zip(nodes.iter().copied()).collect();
        NodeSpread { total: nodes.iter().map(|(_, pages)| pages).sum(), nodes, next: 0 }
    }

    fn pages(spread: &NodeSpread) -> Vec<u64> {
        spread.nodes.iter().map(|(_, pages)| *pages).collect()
    }

    #[test]
    fn pages_go_round() {
        let mut two = spread(&[0, 0]);
        two.set_total(5);
        assert_eq!(pages(&two), [3, 2]);
        two.set_total(6);
        assert_eq!(pages(&two), [3, 3]);
        two.set_node(0, 10);
        assert_eq!((pages(&two), two.total), (vec![10, 3], 13));
        two.set_total(5);
        assert_eq!(pages(&two), [5, 0]);
        two.set_total(u64::MAX);
        two.set_node(1, u64::MAX);
        two.set_total(0);
        assert_eq!((two.total, pages(&two).iter().sum::<u64>()), (0, 0));
    }
}
