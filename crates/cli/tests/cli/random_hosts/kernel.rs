//! The kernel's pools as mm/hugetlb.c keeps them: what is free, promised and surplus, and what a
//! size that is written does.

use std::collections::BTreeMap;

/// 2 MiB, in bytes.
pub(crate) const MIB_2: u64 = 2 << 20;
/// 1 GiB, in bytes.
pub(crate) const GIB_1: u64 = 1 << 30;

/// Pages of one size on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) total: u64,
    pub(crate) free: u64,
    pub(crate) surplus: u64,
}

/// Pages of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) nodes: Vec<Part>,
    pub(crate) reserved: u64,
    pub(crate) overcommit: u64,
    /// The node that the next page is taken from.
    next: usize,
    /// The node that the next page is given back to.
    next_back: usize,
}

impl Pool {
    fn sum(&self, count_of: impl Fn(&Part) -> u64) -> u64 {
        self.nodes.iter().map(count_of).sum()
    }

    pub(crate) fn total(&self) -> u64 {
        self.sum(|part| part.total)
    }

    pub(crate) fn free(&self) -> u64 {
        self.sum(|part| part.free)
    }

    pub(crate) fn surplus(&self) -> u64 {
        self.sum(|part| part.surplus)
    }

    /// Pages that a new mapping can have without the pool growing.
    pub(crate) fn available(&self) -> u64 {
        self.free() - self.reserved
    }
}

/// What a process holds of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) touched: u64,
    pub(crate) promised: u64,
}

/// A machine's memory, all in bytes but the pools.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) memory: u64,
    /// Memory in use by what is no server and no pool, and by servers on base pages.
    pub(crate) used: u64,
    pub(crate) pools: BTreeMap<u64, Pool>,
    pub(crate) default: u64,
    pub(crate) shm_group: u32,
    /// Before 5.14: a memlock limit that is large enough gives the right to System V huge pages.
    pub(crate) old: bool,
}

impl Kernel {
    pub(crate) fn new(memory: u64, nodes: usize, sizes: &[u64]) -> Self {
        let pool = || Pool { nodes: vec![Part::default(); nodes], ..Pool::default() };
        let pools = sizes.iter().map(|size| (*size, pool())).collect();
        Self { memory, used: 1 << 30, pools, default: MIB_2, shm_group: 0, old: false }
    }

    pub(crate) fn free_memory(&self) -> u64 {
        let pools: u64 = self.pools.iter().map(|(page, pool)| page * pool.total()).sum();
        self.memory.saturating_sub(self.used + pools)
    }

    /// Whether more is in use than there is: what no kernel without swap comes to.
    pub(crate) fn is_overfull(&self) -> bool {
        let pools: u64 = self.pools.iter().map(|(page, pool)| page * pool.total()).sum();
        self.memory < self.used + pools
    }

    /// What `set_max_huge_pages()` does: surplus pages become the pool's own, then pages are taken
    /// or given back, and those in use stay as surplus ones.
    pub(crate) fn write_pool(&mut self, page: u64, node: Option<usize>, count: u64) {
        let mut room = self.free_memory() / page;
        let Some(pool) = self.pools.get_mut(&page) else { return };
        // A node's file sets the pool to what it has and the difference on that node.
        let count = match node {
            Some(at) => {
                count + (pool.total() - pool.surplus())
                    - (pool.nodes[at].total - pool.nodes[at].surplus)
            }
            None => count,
        };
        let nodes: Vec<usize> = node.map_or_else(|| (0..pool.nodes.len()).collect(), |at| vec![at]);
        let own = |pool: &Pool| pool.total() - pool.surplus();
        while own(pool) < count {
            let Some(at) = nodes.iter().copied().find(|at| pool.nodes[*at].surplus > 0) else {
                break;
            };
            pool.nodes[at].surplus -= 1;
        }
        while own(pool) < count && room > 0 {
            let at = node.unwrap_or(pool.next % nodes.len());
            pool.next += usize::from(node.is_none());
            pool.nodes[at].total += 1;
            pool.nodes[at].free += 1;
            room -= 1;
        }
        while own(pool) > count && pool.free() > pool.reserved {
            // One node after the other, as far as it has a free page.
            let round = (0..nodes.len()).map(|more| nodes[(pool.next_back + more) % nodes.len()]);
            let Some(at) = round.into_iter().find(|at| pool.nodes[*at].free > 0) else { break };
            pool.next_back = at + 1;
            pool.nodes[at].total -= 1;
            pool.nodes[at].free -= 1;
        }
        while own(pool) > count {
            let Some(at) =
                nodes.iter().copied().find(|at| pool.nodes[*at].surplus < pool.nodes[*at].total)
            else {
                break;
            };
            pool.nodes[at].surplus += 1;
        }
    }

    /// So many pages more in each pool that has any, or fewer, as far as they are free; or to be
    /// had on demand, where that is all.
    pub(crate) fn adjust(&mut self, pages: i64) {
        for page in self.pools.keys().copied().collect::<Vec<_>>() {
            let pool = &self.pools[&page];
            let own = pool.total() - pool.surplus();
            let unused = pool.available();
            let pages = if page == MIB_2 { pages } else { 0 };
            if own > 0 {
                let fewer = unused.min(pages.unsigned_abs());
                let count = if pages < 0 { own - fewer } else { own + pages.unsigned_abs() };
                self.write_pool(page, None, count);
            } else if let Some(pool) = self.pools.get_mut(&page).filter(|pool| pool.overcommit > 0)
            {
                pool.overcommit = pool.overcommit.saturating_add_signed(pages);
            }
        }
    }

    /// A mapping of so many pages, of which `touched` are used at once.
    pub(crate) fn map(&mut self, page: u64, pages: u64, touched: u64) -> Option<Held> {
        let room = self.free_memory() / page;
        let pool = self.pools.get_mut(&page)?;
        let lacking = pages.saturating_sub(pool.available());
        if lacking > room || pool.surplus() + lacking > pool.overcommit.max(pool.surplus()) {
            return None;
        }
        pool.nodes[0].total += lacking;
        pool.nodes[0].free += lacking;
        pool.nodes[0].surplus += lacking;
        let touched = touched.min(pages);
        pool.reserved += pages - touched;
        for _ in 0..touched {
            let at = (0..pool.nodes.len()).max_by_key(|at| pool.nodes[*at].free)?;
            pool.nodes[at].free -= 1;
        }
        Some(Held { touched, promised: pages - touched })
    }

    /// The end of a mapping: surplus pages go with it.
    pub(crate) fn unmap(&mut self, page: u64, held: Held) {
        let Some(pool) = self.pools.get_mut(&page) else { return };
        for _ in 0..held.touched {
            let used = |part: &Part| part.total - part.free;
            let Some(at) = (0..pool.nodes.len())
                .max_by_key(|at| (used(&pool.nodes[*at]) > 0, used(&pool.nodes[*at])))
            else {
                return;
            };
            if pool.nodes[at].surplus > 0 {
                pool.nodes[at].surplus -= 1;
                pool.nodes[at].total -= 1;
            } else {
                pool.nodes[at].free += 1;
            }
        }
        pool.reserved -= held.promised;
        for _ in 0..held.promised {
            let Some(at) = (0..pool.nodes.len())
                .find(|at| pool.nodes[*at].surplus > 0 && pool.nodes[*at].free > 0)
            else {
                return;
            };
            pool.nodes[at].surplus -= 1;
            pool.nodes[at].total -= 1;
            pool.nodes[at].free -= 1;
        }
    }
}

#[test]
fn a_pool_that_is_lowered_under_a_server_goes_with_it() {
    // As the kernel here did: 300 pages, 200 in use, 0 written: 200 surplus; none once the server
    // has ended.
    let mut kernel = Kernel::new(16 << 30, 1, &[MIB_2]);
    kernel.write_pool(MIB_2, None, 300);
    let held = kernel.map(MIB_2, 200, 150).unwrap();
    let pool = &kernel.pools[&MIB_2];
    assert_eq!((pool.total(), pool.free(), pool.reserved, pool.available()), (300, 150, 50, 100));
    kernel.write_pool(MIB_2, None, 0);
    let pool = &kernel.pools[&MIB_2];
    assert_eq!((pool.total(), pool.surplus(), pool.available()), (200, 200, 0));
    kernel.unmap(MIB_2, held);
    assert_eq!(kernel.pools[&MIB_2].total(), 0);
}
