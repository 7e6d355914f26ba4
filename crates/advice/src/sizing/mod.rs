//! How many pages of which size, on which node; what it takes, and what is left.
//!
//! [`size`] is a pure function of a host, its servers (running or only described) and a request.

mod budget;
mod choices;
mod limits;
mod nodes;
mod pools;
mod rows;
mod sessions;
mod stops;
mod unplanned;
mod wanted;
mod work;

#[cfg(test)]
mod tests;

use hugewise_engines::proposal::Change;
use hugewise_model::instance::Setting;
use hugewise_model::{Bytes, Demand, DemandSource, Engine, Host, Instance, PageCount, PageSize};

use crate::situation::Moment;
use crate::touching::FaultCost;

pub use budget::{Budget, Refusal};
pub use choices::PageSizeRow;
pub use limits::{LimitNeed, LimitsNeeded};
pub use rows::ForecastRow;
pub use sessions::MOST_SESSIONS;
pub use stops::stops;
pub use unplanned::{LeftOut, Unplanned};
pub use work::Work;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Page size of the pools.
    pub page_size: PageSizeChoice,
    /// Pages beyond the demand, in percent of it; at most 100.
    pub headroom_percent: u8,
    /// Sessions on the host that the plan has to carry. Without it: the sessions that run now, and
    /// for servers that do not run the most that they are configured for.
    pub sessions: Option<u64>,
    /// Memory of the host that is planned for, where that is not the host that was read: then what
    /// the read host holds and has free says nothing, and is left out.
    pub memory: Option<Bytes>,
    /// What touching memory costs a session, where it was measured on the host. Without it: figures
    /// of one machine, see [`FaultCost`].
    pub fault_cost: Option<FaultCost>,
    /// Page tables of a session that touches nothing, where they were measured.
    pub process_tables: Option<Bytes>,
    /// Pages that others than the servers sized here will ask for beyond those that they hold, by page size: the pools are theirs
    /// too.
    pub others: Vec<(PageSize, PageCount)>,
    /// Whether servers whose memory cannot be on huge pages are sized as the settings would make them that are proposed for
    /// them: an Oracle instance under automatic memory management as it would be off it.
    pub proposed: bool,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            page_size: PageSizeChoice::Auto,
            headroom_percent: 0,
            sessions: None,
            memory: None,
            fault_cost: None,
            process_tables: None,
            others: Vec::new(),
            proposed: false,
        }
    }
}

/// Which page size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSizeChoice {
    /// For each server the size that its settings ask for; where they name none, the host's default,
    /// or 1 GiB pages where those are worth it.
    Auto,
    /// This one for all.
    Size(PageSize),
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizing {
    /// Pools as they should be, by page size and node. Empty where the plan is refused.
    pub pools: Vec<PoolTarget>,
    /// Every server that the pools are for.
    pub instances: Vec<Sized>,
    /// Servers that no pages are planned for, and why.
    pub left_out: Vec<LeftOut>,
    /// Servers that pages are planned for, as they take them anyway, and that a limit is in the way of.
    pub limited: Vec<LeftOut>,
    /// Sessions, page tables, memory left: by sessions, then by page size.
    pub forecast: Vec<ForecastRow>,
    /// Limits that the demand depends on.
    pub limits: LimitsNeeded,
    /// How the host's memory is divided.
    pub budget: Budget,
    /// The same at the most sessions that the servers are configured for, each with all the private memory that its settings
    /// grant. None where neither is known.
    pub at_most: Option<Budget>,
    /// Private memory of each server's processes.
    pub work: Vec<Work>,
    /// Every huge page size of the host, compared.
    pub choices: Vec<PageSizeRow>,
    /// Why there is no plan, with numbers.
    pub refusal: Option<Refusal>,
    /// Percent of the demand that the pools were to have beyond it.
    pub headroom_percent: u8,
}

/// One pool, or one node's part of it. The parts of a pool add up to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolTarget {
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
pub struct Sized {
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
    /// When: as it runs, or at its next start, where its settings were changed since this one. All that is said of its memory
    /// is of that moment.
    pub moment: Moment,
    /// Whether its settings ask for huge pages of this size: if not, they have to be changed too. `None` where they could
    /// not be read.
    pub asks: Option<bool>,
    /// What could not be read of them, where that is so.
    pub asks_unread: Option<String>,
    /// The setting by which each of its processes touches all of its memory as it starts; none where they don't.
    pub touches_all: Option<Setting>,
    /// The change of its settings that it is sized with, where it cannot be on huge pages without.
    pub change: Option<Change>,
}

impl Sized {
    /// `oracle PROD`, as reports name it.
    pub fn title(&self) -> String {
        format!("{} {}", self.engine, self.name)
    }
}

/// A question that has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// Nothing runs that could use huge pages, and nothing is described.
    NothingToSize,
    /// The host has no huge pages of that size.
    NoSuchPageSize {
        /// What was asked for.
        asked: PageSize,
        /// What there is.
        offered: Vec<PageSize>,
    },
    /// More headroom than the demand itself.
    Headroom(u8),
    /// A host without memory.
    NoMemory,
    /// A number of sessions that no kernel can have.
    Sessions(u64),
}

impl std::fmt::Display for SizeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NothingToSize => f.write_str(
                "nothing to size: no server that could use huge pages runs here, and none is described \
                 (--engine, --segment)",
            ),
            Self::NoSuchPageSize { asked, offered } if offered.is_empty() => {
                write!(f, "no pages of {asked} here: this kernel offers no huge pages")
            }
            Self::NoSuchPageSize { asked, offered } => {
                let offered: Vec<String> = offered.iter().map(ToString::to_string).collect();
                write!(f, "no pages of {asked} here: this host offers {}", offered.join(", "))
            }
            Self::Headroom(percent) => {
                write!(f, "a headroom of {percent} % is more than the demand itself: at most 100")
            }
            Self::NoMemory => f.write_str("a host cannot have zero memory"),
            Self::Sessions(sessions) => {
                write!(f, "{sessions} sessions: Linux has no more than {} processes", MOST_SESSIONS)
            }
        }
    }
}

impl std::error::Error for SizeError {}

/// How many pages of which size on which node the servers need, what that leaves of the host, and
/// what else the kernel asks for.
///
/// # Errors
/// Where the question makes no sense; a demand that cannot be met is no error but a [`Refusal`].
pub fn size(host: &Host, instances: &[Instance], request: &Request) -> Result<Sizing, SizeError> {
    if request.headroom_percent > 100 {
        return Err(SizeError::Headroom(request.headroom_percent));
    }
    if request.memory == Some(Bytes::ZERO) {
        return Err(SizeError::NoMemory);
    }
    if let Some(sessions) = request.sessions.filter(|sessions| *sessions > MOST_SESSIONS) {
        return Err(SizeError::Sessions(sessions));
    }
    let offered = choices::offered(host);
    if let PageSizeChoice::Size(asked) = request.page_size
        && !offered.contains(&asked)
    {
        return Err(SizeError::NoSuchPageSize { asked, offered });
    }
    let elsewhere = request.memory.is_some() && request.memory != host.memory.total.get();
    let plan = wanted::plan(host, instances, request, &offered);
    if plan.wanted.is_empty() {
        return Err(SizeError::NothingToSize);
    }
    let ask = Ask { host, request, elsewhere };
    let pools = pools::pools(&ask, instances, &plan);
    let (budget, at_most) = (budget::budget(&ask, &plan, &pools), budget::at_most(&ask, &plan, &pools));
    let whole = pools.clone();
    let (pools, unplaced) = nodes::split(&ask, &plan, pools);
    // What finds no place on any node is wanted all the same.
    let wanted = if unplaced > Bytes::ZERO { &whole } else { &pools };
    let refusal = budget::refusal(&ask, &plan, &budget, wanted, unplaced);
    Ok(Sizing {
        instances: plan.wanted.iter().map(wanted::Wanted::sized).collect(),
        forecast: rows::rows(&ask, &plan, &budget, &offered),
        limits: limits::limits(&ask, &plan, &budget),
        work: work::work(&ask, &plan),
        at_most,
        choices: choices::rows(&ask, &plan, &offered),
        pools: if refusal.is_some() { Vec::new() } else { pools },
        left_out: plan.left_out,
        limited: plan.limited,
        budget,
        refusal,
        headroom_percent: request.headroom_percent,
    })
}

impl Sizing {
    /// The same with pools that take so much in all, as a plan leaves them: in each sum that they are a part of.
    #[must_use]
    pub fn with_pools(self, pools: Bytes) -> Self {
        let budget = self.budget.with_pools(pools);
        let (total, before, after) = (budget.total, self.budget.pools, budget.pools);
        let forecast = self.forecast.into_iter().map(|row| row.with_pools(total, before, after)).collect();
        Self { at_most: self.at_most.map(|most| most.with_pools(pools)), budget, forecast, ..self }
    }

    /// Pages of a size in all pools, as they should be.
    pub fn pages(&self, page: PageSize) -> PageCount {
        let pools = self.refusal.as_ref().map_or(&self.pools, |refusal| &refusal.wanted);
        pools.iter().filter(|pool| pool.page_size == page).map(|pool| pool.pages).sum()
    }
}

/// The servers that no pages are planned for, and why: what is left to say where [`size`] finds nothing to size.
pub fn left_out(host: &Host, instances: &[Instance], request: &Request) -> Vec<LeftOut> {
    wanted::plan(host, instances, request, &choices::offered(host)).left_out
}

/// The host and what is asked of it.
struct Ask<'a> {
    host: &'a Host,
    request: &'a Request,
    /// Planned for another host than the one that was read: its memory, pools and nodes do not count.
    elsewhere: bool,
}

impl Ask<'_> {
    /// Memory of the host that is planned for.
    fn memory(&self) -> Option<Bytes> {
        self.request.memory.or_else(|| self.host.memory.total.get())
    }

    /// The base page; x86-64's where the host does not say.
    fn base(&self) -> PageSize {
        self.host.base_page.get().unwrap_or(PageSize::KIB_4)
    }
}
