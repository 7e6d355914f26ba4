//! The forecast: page tables, memory left and the cost of a login, by sessions and page size.

use hugewise_engines::Kind;
use hugewise_model::{Bytes, PageSize};

use super::Ask;
use super::budget::Budget;
use super::sessions::{MOST_SESSIONS, deal, most_sessions, tables_at};
use super::wanted::{self, Plan, Wanted};
use super::work::counted_at;
use crate::demand;
use crate::forecast::{Basis, page_now};

/// Numbers of sessions that every forecast shows.
const USUAL: [u64; 3] = [1, 10, 100];

/// One line of the forecast.
#[derive(Clone, Debug, PartialEq)]
pub struct ForecastRow {
    /// Sessions on the host, dealt to the servers by what each is configured for.
    pub sessions: u64,
    /// Whether that is the configured maximum of all servers.
    pub configured_max: bool,
    /// Page size of all the servers' memory in this line.
    pub page_size: PageSize,
    /// Page tables of all the servers' processes. If each process maps the memory at an address of its own, this is the
    /// average over the addresses.
    pub page_tables: Bytes,
    /// The same, if all processes of a server map its memory at one address.
    pub page_tables_least: Bytes,
    /// What it would be if every session touched all of its server's memory.
    pub page_tables_most: Bytes,
    /// Seconds that one login waits until it has touched all of the server's memory, on the server where it is slowest, with a
    /// processor to itself. `None` where no server has its sessions do that.
    pub login_seconds: Option<f64>,
    /// Seconds that one session spends in all on touching memory for the first time, as it comes to use it: what those touch that
    /// run now where that shows, all of it otherwise. Of the server where it is the most. `None` where sessions are threads.
    pub touching_seconds: Option<f64>,
    /// Memory left beyond the page cache reserve, as in the budget; zero where the host is past its end.
    pub memory_left: Option<Bytes>,
    /// What of the host's memory all that is counted takes, with the page cache reserve.
    pub taken: Bytes,
    /// What the part of the memory that a session touches rests on: measured where it is of every server, and then on the
    /// fewest sessions of one.
    pub basis: Basis,
}

/// The forecast for the base page and every huge page size.
pub(super) fn rows(ask: &Ask<'_>, plan: &Plan<'_>, budget: &Budget, offered: &[PageSize]) -> Vec<ForecastRow> {
    let most = most_sessions(plan).filter(|most| *most <= MOST_SESSIONS);
    let mut sessions: Vec<u64> = USUAL.into_iter().chain(ask.request.sessions).chain(most).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let mut pages = vec![ask.base()];
    pages.extend(offered);
    pages.sort_unstable();
    pages.dedup();
    let mut rows = Vec::new();
    for sessions in sessions {
        let dealt = deal(plan, sessions);
        for page in &pages {
            let tables = tables_at(ask, plan, &dealt, Some(*page));
            let taken = taken(ask, plan, budget, *page, &dealt, tables.expected);
            rows.push(ForecastRow {
                sessions,
                configured_max: most == Some(sessions),
                page_size: *page,
                page_tables: tables.expected,
                page_tables_least: tables.least,
                page_tables_most: tables.most,
                login_seconds: login_seconds(ask, plan, *page),
                touching_seconds: touching_seconds(ask, plan, *page),
                memory_left: budget.total.map(|total| total.saturating_sub(taken)),
                taken,
                basis: tables.basis,
            });
        }
    }
    rows
}

impl ForecastRow {
    /// The same with other pools beside the servers' own, of a host with so much memory.
    pub(super) fn with_pools(self, total: Option<Bytes>, before: Bytes, after: Bytes) -> Self {
        let taken = (self.taken + after).saturating_sub(before);
        Self { memory_left: total.map(|total| total.saturating_sub(taken)), taken, ..self }
    }
}

/// What is taken with the servers' memory on pages of that size. Where some fact is not known it counts as
/// nothing, as in the budget, which names it.
fn taken(ask: &Ask<'_>, plan: &Plan<'_>, budget: &Budget, page: PageSize, dealt: &[u64], page_tables: Bytes) -> Bytes {
    let on_page = |wanted: &Wanted<'_>| match wanted::demand_on(wanted.then(), page) {
        Some(demand) if page > ask.base() => demand.pages.of(page),
        _ => wanted.bytes(),
    };
    let servers: Bytes = plan.wanted.iter().map(on_page).sum();
    let planned: Bytes = plan.wanted.iter().map(Wanted::planned).sum();
    let beside_servers = budget.pools.saturating_sub(planned);
    let rest = [counted_at(ask, plan, dealt), budget.managed, budget.others, budget.kernel, budget.watermarks];
    servers + beside_servers + page_tables + rest.into_iter().flatten().sum() + budget.floor
}

/// Of the servers whose processes touch all of their memory as they start.
fn login_seconds(ask: &Ask<'_>, plan: &Plan<'_>, page: PageSize) -> Option<f64> {
    let waits = |wanted: &&Wanted<'_>| {
        wanted.processes() && (Kind::of(wanted.instance.engine).touches_all)(wanted.then()).is_some()
    };
    slowest(ask, page, plan.wanted.iter().filter(waits).map(|wanted| (wanted, all_of(wanted))))
}

fn touching_seconds(ask: &Ask<'_>, plan: &Plan<'_>, page: PageSize) -> Option<f64> {
    let processes = plan.wanted.iter().filter(|wanted| wanted.processes());
    slowest(ask, page, processes.map(|wanted| (wanted, touched(ask, wanted))))
}

/// What it takes to touch so much of each server, where it takes the longest.
fn slowest<'a, 'h: 'a>(
    ask: &Ask<'_>,
    page: PageSize,
    of: impl Iterator<Item = (&'a Wanted<'h>, Bytes)>,
) -> Option<f64> {
    let price = ask.request.fault_cost.unwrap_or_default();
    let seconds = of.map(|(wanted, amount)| price.seconds(amount, ask.base(), page, wanted.system_v()));
    seconds.max_by(f64::total_cmp)
}

fn all_of(wanted: &Wanted<'_>) -> Bytes {
    demand::stretches(wanted.then()).into_iter().sum()
}

/// Memory that a session touches: the mean of the sessions that run now where it shows (`RssShmem`
/// leaves hugetlb pages out), otherwise all of it.
fn touched(ask: &Ask<'_>, wanted: &Wanted<'_>) -> Bytes {
    let all = all_of(wanted);
    let seen = || {
        let sessions = wanted.instance.sessions.get().filter(|sessions| *sessions > 0)?;
        page_now(wanted.then(), ask.base()).filter(|now| *now == ask.base())?;
        let amounts = wanted.instance.pids.iter().map(|pid| ask.host.process(*pid)?.rss_shmem.get());
        let mut amounts: Vec<Bytes> = amounts.collect::<Option<_>>()?;
        amounts.sort_unstable_by_key(|amount| std::cmp::Reverse(*amount));
        amounts.truncate(usize::try_from(sessions).unwrap_or(usize::MAX));
        let count = u64::try_from(amounts.len()).ok()?;
        amounts.into_iter().sum::<Bytes>().shared_by(count)
    };
    seen().map_or(all, |seen| seen.min(all))
}
