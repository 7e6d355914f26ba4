//! The forecast: page tables, memory left and the cost of a login, by sessions and page size.

use hugewise_engines::EngineKind;
use hugewise_model::{Bytes, PageSize};

use super::SizingContext;
use super::budget::MemoryBudget;
use super::planned_servers::{self, PlannedServer};
use super::sessions::{MOST_SESSIONS, deal_sessions, most_sessions, tables_at};
use super::work_memory::counted_at;
use crate::demand;
use crate::forecast::{Basis, page_now};

const USUAL: [u64; 3] = [1, 10, 100];

/// One line of the forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct PageTableForecastRow {
    /// Sessions on the host, dealt to the servers by what each is configured for.
    pub sessions: u64,
    /// Whether that is the configured maximum of all servers.
    pub configured_max: bool,
    /// Page size of all the servers' memory in this line.
    pub page_size: PageSize,
    /// Page tables of all processes; the average, if each maps the memory at its own address.
    pub page_tables: Bytes,
    /// The same, if all processes of a server map its memory at one address.
    pub page_tables_least: Bytes,
    /// What it would be if every session touched all of its server's memory.
    pub page_tables_most: Bytes,
    /// Seconds until a login that touches all of the slowest server's memory has done so.
    pub login_seconds: Option<f64>,
    /// Seconds that a session spends on first touches, on the slowest server; `None` for threads.
    pub touching_seconds: Option<f64>,
    /// Memory left beyond the page cache reserve; zero where the host is past its end.
    pub memory_left: Option<Bytes>,
    /// What of the host's memory all that is counted takes, with the page cache reserve.
    pub taken: Bytes,
    /// What the memory that a session touches rests on, for the server that is known least.
    pub basis: Basis,
}

pub(super) fn forecast_rows(
    ask: &SizingContext<'_>,
    budget: &MemoryBudget,
    offered: &[PageSize],
) -> Vec<PageTableForecastRow> {
    let most = most_sessions(ask.plan).filter(|most| *most <= MOST_SESSIONS);
    let mut sessions: Vec<u64> =
        USUAL.into_iter().chain(ask.request.sessions).chain(most).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let mut pages = vec![ask.base_page()];
    pages.extend(offered);
    pages.sort_unstable();
    pages.dedup();
    let mut rows = Vec::new();
    for sessions in sessions {
        let dealt = deal_sessions(ask.plan, sessions);
        for page in &pages {
            let tables = tables_at(ask, &dealt, Some(*page));
            let taken = memory_taken(ask, budget, *page, &dealt, tables.expected);
            rows.push(PageTableForecastRow {
                sessions,
                configured_max: most == Some(sessions),
                page_size: *page,
                page_tables: tables.expected,
                page_tables_least: tables.least,
                page_tables_most: tables.most,
                login_seconds: login_seconds(ask, *page),
                touching_seconds: touching_seconds(ask, *page),
                memory_left: budget.total.map(|total| total.saturating_sub(taken)),
                taken,
                basis: tables.basis,
            });
        }
    }
    rows
}

impl PageTableForecastRow {
    pub(super) fn with_pools(self, total: Option<Bytes>, before: Bytes, after: Bytes) -> Self {
        let taken = (self.taken + after).saturating_sub(before);
        Self { memory_left: total.map(|total| total.saturating_sub(taken)), taken, ..self }
    }
}

/// What is not known counts as nothing, as in the budget, which names it.
fn memory_taken(
    ask: &SizingContext<'_>,
    budget: &MemoryBudget,
    page: PageSize,
    dealt: &[u64],
    page_tables: Bytes,
) -> Bytes {
    let on_page = |wanted: &PlannedServer<'_>| match planned_servers::demand_on(
        wanted.sized_instance(),
        page,
    ) {
        Some(demand) if page > ask.base_page() => demand.pages.to_bytes(page),
        _ => wanted.unrounded_bytes(),
    };
    let servers: Bytes = ask.plan.wanted.iter().map(on_page).sum();
    let planned: Bytes = ask.plan.wanted.iter().map(PlannedServer::planned_memory).sum();
    let beside_servers = budget.pools.saturating_sub(planned);
    let rest =
        [counted_at(ask, dealt), budget.managed, budget.others, budget.kernel, budget.watermarks];
    servers + beside_servers + page_tables + rest.into_iter().flatten().sum() + budget.floor
}

fn login_seconds(ask: &SizingContext<'_>, page: PageSize) -> Option<f64> {
    let waits = |wanted: &&PlannedServer<'_>| {
        wanted.has_process_sessions()
            && (EngineKind::for_engine(wanted.instance.engine).memory.touches_all)(
                wanted.sized_instance(),
            )
            .is_some()
    };
    slowest_touch(
        ask,
        page,
        ask.plan.wanted.iter().filter(waits).map(|wanted| (wanted, all_stretch_bytes(wanted))),
    )
}

fn touching_seconds(ask: &SizingContext<'_>, page: PageSize) -> Option<f64> {
    let processes = ask.plan.wanted.iter().filter(|wanted| wanted.has_process_sessions());
    slowest_touch(ask, page, processes.map(|wanted| (wanted, bytes_touched(ask, wanted))))
}

fn slowest_touch<'a, 'h: 'a>(
    ask: &SizingContext<'_>,
    page: PageSize,
    touched: impl Iterator<Item = (&'a PlannedServer<'h>, Bytes)>,
) -> Option<f64> {
    let price = ask.request.fault_cost.unwrap_or_default();
    let seconds = touched.map(|(wanted, amount)| {
        price.fault_seconds(amount, ask.base_page(), page, wanted.system_v())
    });
    seconds.max_by(f64::total_cmp)
}

fn all_stretch_bytes(wanted: &PlannedServer<'_>) -> Bytes {
    demand::touched_stretches(wanted.sized_instance()).into_iter().sum()
}

/// By the sessions that run now where it shows (`RssShmem` leaves hugetlb pages out), else all.
fn bytes_touched(ask: &SizingContext<'_>, wanted: &PlannedServer<'_>) -> Bytes {
    let all = all_stretch_bytes(wanted);
    let seen = || {
        let sessions = wanted.instance.sessions.get().filter(|sessions| *sessions > 0)?;
        page_now(wanted.sized_instance(), ask.base_page()).filter(|now| *now == ask.base_page())?;
        let amounts =
            wanted.instance.pids.iter().map(|pid| ask.host.find_process(*pid)?.rss_shmem.get());
        let mut amounts: Vec<Bytes> = amounts.collect::<Option<_>>()?;
        amounts.sort_unstable_by_key(|amount| std::cmp::Reverse(*amount));
        amounts.truncate(usize::try_from(sessions).unwrap_or(usize::MAX));
        let count = u64::try_from(amounts.len()).ok()?;
        amounts.into_iter().sum::<Bytes>().shared_by(count)
    };
    seen().map_or(all, |seen| seen.min(all))
}
