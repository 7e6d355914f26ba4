//! How many pages of which size, on which node; what it takes, and what is left.
//!
//! [`size_servers`] is a pure function of a host, its servers and a request.

mod budget;
mod limits;
mod nodes;
mod page_size_comparison;
mod planned_servers;
mod pools;
mod rows;
mod session_stops;
mod sessions;
mod unplanned;
mod work_memory;

#[cfg(test)]
mod tests;

use hugewise_engines::proposal::ProposedChange;
use hugewise_model::instance::ServerSetting;
use hugewise_model::{Bytes, Demand, DemandSource, Engine, Host, Instance, PageCount, PageSize};

use planned_servers::{PlannedServer, SizingPlan};

use crate::fault_cost::FaultCost;
use crate::prediction::PredictionStage;

pub use budget::{MemoryBudget, SizingRefusal};
pub use limits::{LimitNeed, LimitsNeeded};
pub use page_size_comparison::PageSizeComparison;
pub use rows::PageTableForecastRow;
pub use session_stops::session_stops;
pub use sessions::MOST_SESSIONS;
pub use unplanned::{Unplanned, UnplannedServer};
pub use work_memory::Work;

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Page size of the pools.
    pub page_size: PageSizeChoice,
    /// Pages beyond the demand, in percent of it; at most 100.
    pub headroom_percent: u8,
    /// Sessions to plan for; else those that run now, and of stopped servers the most configured.
    pub sessions: Option<u64>,
    /// Memory of the host that is planned for, where that is another one than was read.
    pub memory: Option<Bytes>,
    /// What touching memory costs a session, where it was measured on the host.
    pub fault_cost: Option<FaultCost>,
    /// Page tables of a session that touches nothing, where they were measured.
    pub process_tables: Option<Bytes>,
    /// Pages that others than these servers will ask for beyond those that they hold, by page size.
    pub others: Vec<(PageSize, PageCount)>,
    /// Whether servers that cannot be on huge pages (AMM) are sized with settings proposed for
    /// them.
    pub proposed: bool,
    /// Whether those are sized as well that a plan has no pages for before somebody names them.
    pub unplanned: bool,
}

/// Which page size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageSizeChoice {
    /// What each server asks for; else the host's default, or 1 GiB pages where those are worth it.
    #[default]
    Auto,
    /// This one for all.
    Size(PageSize),
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizing {
    /// Pools as they should be, by page size and node. Empty where the plan is refused.
    pub pools: Vec<PoolSizeTarget>,
    /// Every server that the pools are for.
    pub instances: Vec<SizedServer>,
    /// Servers that no pages are planned for, and why.
    pub left_out: Vec<UnplannedServer>,
    /// Servers that pages are planned for, as they take them anyway, and that a limit obstructs.
    pub limited: Vec<UnplannedServer>,
    /// Sessions, page tables, memory left: by sessions, then by page size.
    pub forecast: Vec<PageTableForecastRow>,
    /// Limits that the demand depends on.
    pub limits: LimitsNeeded,
    /// How the host's memory is divided.
    pub budget: MemoryBudget,
    /// The same at the most sessions, with all the private memory that settings grant, if known.
    pub at_most: Option<MemoryBudget>,
    /// Private memory of each server's processes.
    pub work: Vec<Work>,
    /// Every huge page size of the host, compared.
    pub choices: Vec<PageSizeComparison>,
    /// Why there is no plan, with numbers.
    pub refusal: Option<SizingRefusal>,
    /// Percent of the demand that the pools were to have beyond it.
    pub headroom_percent: u8,
}

/// One pool, or one node's part of it. The parts of a pool add up to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSizeTarget {
    /// Page size.
    pub page_size: PageSize,
    /// NUMA node; `None` on a host with one node, or whose nodes are not known.
    pub node: Option<u32>,
    /// Pages that the pool should have: demand, spare pages and what others hold.
    pub pages: PageCount,
    /// Of these, pages beyond the demand: headroom, and what Oracle wants free.
    pub spare_pages: PageCount,
    /// Of these, pages that others than the servers sized here hold, or will ask for.
    pub held_by_others: PageCount,
    /// Pages in the pool now.
    pub now: Option<PageCount>,
    /// Whether the memory that is free now would do. `None` where that is not known.
    pub room_now: Option<bool>,
}

/// What one server needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizedServer {
    /// Its kind.
    pub engine: Engine,
    /// Its name.
    pub name: String,
    /// Page size that it is sized for.
    pub page_size: PageSize,
    /// Why this size.
    pub why: String,
    /// Pages that it needs, without any to spare.
    pub demand_pages: PageCount,
    /// Where the number comes from.
    pub source: DemandSource,
    /// What it needs on pages of other sizes as well.
    pub beside: Vec<Demand>,
    /// Pages that its next start may take beyond its demand, as no two starts take the same.
    pub by_chance: PageCount,
    /// As it runs, or at its next start, where its settings were changed.
    pub moment: PredictionStage,
    /// Whether its settings ask for pages of this size; `None` where they could not be read.
    pub asks: Option<bool>,
    /// What could not be read of them, where that is so.
    pub asks_unread: Option<String>,
    /// The setting by which each of its processes touches all of its memory as it starts.
    pub touches_all: Option<ServerSetting>,
    /// The change of its settings that it is sized with, where it cannot be on huge pages without.
    pub change: Option<ProposedChange>,
    /// Why a plan has no pages for it, where that is so.
    pub unplanned: Option<Unplanned>,
}

impl SizedServer {
    /// `oracle PROD`, as reports name it.
    pub fn title(&self) -> String {
        format!("{} {}", self.engine, self.name)
    }
}

/// A question that has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Nothing runs that could use huge pages, and nothing is described.
    #[error(
        "nothing to size: no server that could use huge pages runs here, and none is described \
         (--engine, --segment)"
    )]
    NothingToSize,
    /// The host has no huge pages of that size.
    #[error("no pages of {asked} here: {}", describe_offered(.offered))]
    NoSuchPageSize {
        /// What was asked for.
        asked: PageSize,
        /// What there is.
        offered: Vec<PageSize>,
    },
    /// More headroom than the demand itself.
    #[error("a headroom of {0} % is more than the demand itself: at most 100")]
    Headroom(u8),
    /// A host without memory.
    #[error("a host cannot have zero memory")]
    NoMemory,
    /// A number of sessions that no kernel can have.
    #[error("{0} sessions: Linux has no more than {MOST_SESSIONS} processes")]
    Sessions(u64),
}

fn describe_offered(offered: &[PageSize]) -> String {
    if offered.is_empty() {
        return "this kernel offers no huge pages".to_owned();
    }
    let offered: Vec<String> = offered.iter().map(ToString::to_string).collect();
    format!("this host offers {}", offered.join(", "))
}

/// How many pages of which size on which node the servers need, and what that leaves of the host.
///
/// # Errors
/// Where the question makes no sense; a demand that cannot be met is a [`SizingRefusal`].
pub fn size_servers(
    host: &Host,
    instances: &[Instance],
    request: &Request,
) -> Result<Sizing, SizeError> {
    if request.headroom_percent > 100 {
        return Err(SizeError::Headroom(request.headroom_percent));
    }
    if request.memory == Some(Bytes::ZERO) {
        return Err(SizeError::NoMemory);
    }
    if let Some(sessions) = request.sessions.filter(|sessions| *sessions > MOST_SESSIONS) {
        return Err(SizeError::Sessions(sessions));
    }
    let offered = page_size_comparison::offered_page_sizes(host);
    if let PageSizeChoice::Size(asked) = request.page_size
        && !offered.contains(&asked)
    {
        return Err(SizeError::NoSuchPageSize { asked, offered });
    }
    let elsewhere = request.memory.is_some() && request.memory != host.memory.total.get();
    let plan = planned_servers::plan_servers(host, instances, request, &offered);
    if plan.wanted.is_empty() {
        return Err(SizeError::NothingToSize);
    }
    let ask = SizingContext { host, request, plan: &plan, elsewhere };
    let pools = pools::target_pools(&ask, instances);
    let (budget, at_most) = (budget::divide_memory(&ask, &pools), budget::at_most(&ask, &pools));
    let whole = pools.clone();
    let (pools, unplaced) = nodes::split_over_nodes(&ask, pools);
    // What finds no place on any node is wanted all the same.
    let wanted = if unplaced > Bytes::ZERO { &whole } else { &pools };
    let refusal = budget::find_refusal(&ask, &budget, wanted, unplaced);
    Ok(Sizing {
        instances: plan.wanted.iter().map(PlannedServer::to_sized_server).collect(),
        forecast: rows::forecast_rows(&ask, &budget, &offered),
        limits: limits::find_limits_needed(&ask, &budget),
        work: work_memory::size_work_memory(&ask),
        at_most,
        choices: page_size_comparison::compare_page_sizes(&ask, &offered),
        pools: if refusal.is_some() { Vec::new() } else { pools },
        left_out: plan.left_out,
        limited: plan.limited,
        budget,
        refusal,
        headroom_percent: request.headroom_percent,
    })
}

/// [`size_servers`]; where no server is to be planned for, those that are found all the same, as to
/// calculate changes nothing.
///
/// # Errors
/// As for [`size_servers`].
pub fn size_found_servers(
    host: &Host,
    instances: &[Instance],
    request: &Request,
) -> Result<Sizing, SizeError> {
    let sizing = size_servers(host, instances, request);
    if sizing != Err(SizeError::NothingToSize) {
        return sizing;
    }
    size_servers(host, instances, &Request { unplanned: true, ..request.clone() })
}

impl Sizing {
    /// Whether a plan has pages for these servers as they are.
    pub fn is_planned(&self) -> bool {
        self.instances.iter().all(|sized| sized.unplanned.is_none())
    }

    /// With pools that take so much in all, as a plan leaves them.
    #[must_use]
    pub fn with_pools(self, pools: Bytes) -> Self {
        let budget = self.budget.with_pools(pools);
        let (total, before, after) = (budget.total, self.budget.pools, budget.pools);
        let forecast =
            self.forecast.into_iter().map(|row| row.with_pools(total, before, after)).collect();
        Self { at_most: self.at_most.map(|most| most.with_pools(pools)), budget, forecast, ..self }
    }

    /// Pages of a size in all pools, as they should be.
    pub fn pages_of_size(&self, page: PageSize) -> PageCount {
        let pools = self.refusal.as_ref().map_or(&self.pools, |refusal| &refusal.wanted);
        pools.iter().filter(|pool| pool.page_size == page).map(|pool| pool.pages).sum()
    }
}

/// The servers that no pages are planned for, where [`size_servers`] finds nothing to size.
pub fn left_out(host: &Host, instances: &[Instance], request: &Request) -> Vec<UnplannedServer> {
    let offered = page_size_comparison::offered_page_sizes(host);
    planned_servers::plan_servers(host, instances, request, &offered).left_out
}

struct SizingContext<'a> {
    host: &'a Host,
    request: &'a Request,
    plan: &'a SizingPlan<'a>,
    /// For another host than the one that was read: its memory, pools and nodes do not count.
    elsewhere: bool,
}

impl SizingContext<'_> {
    fn memory(&self) -> Option<Bytes> {
        self.request.memory.or_else(|| self.host.memory.total.get())
    }

    /// The base page; x86-64's where the host does not say.
    fn base_page(&self) -> PageSize {
        self.host.base_page.get().unwrap_or(PageSize::KIB_4)
    }
}
