//! Pages that an undo takes back from under servers that run.
//!
//! The kernel keeps pages that are used or reserved. A heap that has yet to grow has reserved none:
//! an undo that gives the free ones back leaves its machine to die when it grows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hugewise_diagnose::demand;
use hugewise_diagnose::growth::{GrowingServer, find_growing_servers};
use hugewise_model::{Bytes, Host, Instance, PageCount, PageSize, Pool};

use crate::journal::{Before, JournalLog, JournalShelf, JournalState};
use crate::plan::{Change, PoolRef};
use crate::restore::{ForeignChanges, Restorer};
use crate::{Error, System, journal_history, values};

/// A pool that an undo makes smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShrinkingPool {
    /// Page size.
    pub page_size: PageSize,
    /// Pages that the journals say were there before.
    pub after: PageCount,
    /// Whether the undo also changes how many pages there are on demand.
    pub loses_on_demand: bool,
}

/// Pages that an undo takes, and servers that may lack them then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagesAtRisk {
    /// Page size.
    pub page_size: PageSize,
    /// Free pages that the undo gives back.
    pub taken: PageCount,
    /// Pages that are left for servers to take, those on demand among them.
    pub left: PageCount,
    /// Who may ask for more than these together.
    pub servers: Vec<GrowingServer>,
}

/// Pools that the undo of this apply makes smaller, and of those that wait for it. Nothing is
/// changed or locked.
///
/// # Errors
/// As those of [`crate::undo_apply`].
pub fn find_shrinking_pools(
    system: &dyn System,
    id: Option<&str>,
) -> Result<Vec<ShrinkingPool>, Error> {
    let mut shelf = JournalShelf::read(system)?;
    let log = match id {
        Some(id) => Some(shelf.find_log(id)?),
        None => shelf.last_to_undo(),
    };
    let mut next = log.map(|log| log.id);
    let mut pools = PoolsAfterUndo::default();
    let mut done = BTreeSet::new();
    while let Some(id) = next.filter(|id| done.insert(*id)) {
        let Some(log) = shelf.logs.iter().find(|log| log.id == id) else { break };
        pools.take_log_back(system, &shelf, log)?;
        if let Some(log) = shelf.logs.iter_mut().find(|log| log.id == id) {
            log.state = JournalState::Undone;
        }
        next = journal_history::find_unfinished_log(&shelf)
            .filter(|log| log.state == JournalState::Waiting)
            .map(|log| log.id);
    }
    let mut shrinking = Vec::new();
    for (page_size, after) in &pools.totals {
        let now = read_pool_pages(system, PoolRef { page_size: *page_size, node: None })?;
        if now.is_some_and(|now| *after < now) {
            let (page_size, after) = (*page_size, PageCount(*after));
            shrinking.push(ShrinkingPool {
                page_size,
                after,
                loses_on_demand: pools.loses_on_demand,
            });
        }
    }
    Ok(shrinking)
}

/// Pages of each pool as one undo after the other leaves them.
#[derive(Default)]
struct PoolsAfterUndo {
    totals: BTreeMap<PageSize, u64>,
    nodes: BTreeMap<(PageSize, Option<u32>), u64>,
    loses_on_demand: bool,
}

impl PoolsAfterUndo {
    fn take_log_back(
        &mut self,
        system: &dyn System,
        shelf: &JournalShelf,
        log: &JournalLog,
    ) -> Result<(), Error> {
        let waits = journal_history::waiting_steps(shelf, log);
        let restorer = Restorer::new(system, log, ForeignChanges::Refuse).without_steps(waits);
        for entry in restorer.undo_order(None) {
            let (Some(Change::Value(change)), Before::Value { value, parts }) =
                (log.find_change(entry), &entry.intent.before)
            else {
                continue;
            };
            self.loses_on_demand |= change.path.ends_with("/nr_overcommit_hugepages");
            let (Some(pool), Ok(pages)) = (change.pool, value.parse()) else { continue };
            match pool.node {
                None => self.set_pool(pool.page_size, pages, parts),
                Some(_) => self.set_node(system, pool, pages)?,
            }
        }
        Ok(())
    }

    fn set_pool(&mut self, page: PageSize, pages: u64, parts: &[(PoolRef, u64)]) {
        self.totals.insert(page, pages);
        self.nodes.extend(parts.iter().map(|(part, pages)| ((page, part.node), *pages)));
    }

    fn set_node(&mut self, system: &dyn System, pool: PoolRef, pages: u64) -> Result<(), Error> {
        let whole = PoolRef { node: None, ..pool };
        let was = match self.nodes.insert((pool.page_size, pool.node), pages) {
            Some(was) => Some(was),
            None => read_pool_pages(system, pool)?,
        };
        let total = match self.totals.get(&pool.page_size) {
            Some(total) => Some(*total),
            None => read_pool_pages(system, whole)?,
        };
        if let (Some(was), Some(total)) = (was, total) {
            let total = total.saturating_sub(was).saturating_add(pages);
            self.totals.insert(pool.page_size, total);
        }
        Ok(())
    }
}

fn read_pool_pages(system: &dyn System, pool: PoolRef) -> Result<Option<u64>, Error> {
    let pages = values::read(system, &values::pool_path(pool), Some(pool))?;
    Ok(pages.and_then(|pages| pages.parse().ok()))
}

/// Where the pages that are left are too few for those who run and may take more of them.
pub fn find_pages_at_risk(
    shrinking: &[ShrinkingPool],
    host: &Host,
    instances: &[Instance],
) -> Vec<PagesAtRisk> {
    let at_risk = |shrinking: &ShrinkingPool| {
        let pool = host.find_pool(shrinking.page_size)?;
        let available = pool.available_pages()?;
        let kept = shrinking.after.saturating_sub(pool.committed_pages()?).min(available);
        let left = kept + pages_on_demand(shrinking, host, pool, available);
        let servers = find_growing_servers(instances, shrinking.page_size);
        let wanted: PageCount = servers.iter().map(|server| server.to_come).sum();
        let taken = available.saturating_sub(kept);
        let lacks = taken > PageCount::ZERO && wanted > left;
        lacks.then_some(PagesAtRisk { page_size: shrinking.page_size, taken, left, servers })
    };
    shrinking.iter().filter_map(at_risk).collect()
}

fn pages_on_demand(
    shrinking: &ShrinkingPool,
    host: &Host,
    pool: &Pool,
    available: PageCount,
) -> PageCount {
    if shrinking.loses_on_demand {
        return PageCount::ZERO;
    }
    let obtainable = demand::pages_obtainable(host, pool, Bytes::ZERO).unwrap_or_default();
    obtainable.saturating_sub(available)
}

impl PagesAtRisk {
    /// Those of whose word somebody vouches, and the others, whom nobody can be held up by.
    pub fn split_by_trust(self) -> (Option<Self>, Option<Self>) {
        let (vouched, others): (Vec<_>, Vec<_>) =
            self.servers.iter().cloned().partition(|server| server.is_vouched_for);
        let wanted: PageCount = vouched.iter().map(|server| server.to_come).sum();
        let others = (!others.is_empty()).then(|| Self { servers: others, ..self.clone() });
        ((wanted > self.left).then_some(Self { servers: vouched, ..self }), others)
    }
}

impl fmt::Display for PagesAtRisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = self.page_size;
        write!(f, "the undo gives back {} that nobody holds", self.taken.in_pages_of(page))?;
        write!(f, " and leaves {} free, but these servers may still take more: ", self.left)?;
        for (index, server) in self.servers.iter().enumerate() {
            let GrowingServer { title, pid, held, to_come, is_vouched_for } = server;
            let stranger = if *is_vouched_for { "" } else { ", by its own word alone" };
            let separator = if index > 0 { ", " } else { "" };
            write!(
                f,
                "{separator}{title} (pid {pid}: has {held}, may still take {to_come} as its heap \
                 grows{stranger})"
            )?;
        }
        Ok(())
    }
}
