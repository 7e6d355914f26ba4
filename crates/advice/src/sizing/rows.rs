//! The forecast: page tables, memory left and the cost of a log-in, by sessions and page size.

use std::ops::Add;

use hugewise_model::{Bytes, Engine, Host, HugePageUse, Instance, PageSize};

use super::Ask;
use super::budget::{self, Budget};
use super::wanted::{self, Plan, Wanted};
use crate::forecast::{self, Addresses, Basis, Tables};

/// `PID_MAX_LIMIT` of Linux on 64-bit architectures: no kernel has more processes.
pub const MOST_SESSIONS: u64 = 4 << 20;

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
    /// Page tables of all the servers' processes. Where each process maps the memory at an address of its own, as many
    /// as are expected on the average of addresses.
    pub page_tables: Bytes,
    /// Of the same processes, where those of each server map its memory at one address.
    pub page_tables_least: Bytes,
    /// Seconds that one log-in spends on touching the memory, on the server where it is slowest, with the
    /// machine to itself. `None` where sessions are threads.
    pub login_seconds: Option<f64>,
    /// Memory left for page cache and everything that is not counted; zero where the host is past its end.
    pub memory_left: Option<Bytes>,
    /// What the part of the memory that a session touches rests on.
    pub basis: Basis,
}

/// What touching memory for the first time costs a process, in nanoseconds for each base page of it.
///
/// The constants come from one machine (a virtual one, Linux 6.18, 2 processors), one session at a
/// time: 5 GiB of a System V segment took 1.45 s on 4 KiB pages, 0.028 s on 2 MiB and 0.027 s on 1 GiB
/// pages; other shared memory on 4 KiB pages took 0.05 s for each GiB, as the kernel maps sixteen pages
/// a fault there and one in System V segments. On other hardware they scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultCost {
    /// System V segments on base pages.
    pub system_v_ns: u64,
    /// Other shared memory on base pages.
    pub mapped_ns: u64,
    /// Any memory on huge pages.
    pub huge_ns: u64,
}

impl Default for FaultCost {
    fn default() -> Self {
        Self { system_v_ns: 1100, mapped_ns: 200, huge_ns: 21 }
    }
}

/// Page tables of one server.
struct Cost {
    /// One more session.
    session: Bytes,
    /// Of that, what it costs before it touches anything.
    idle: Bytes,
    /// Its other processes together.
    background: Bytes,
    /// What the memory costs: of it, the tables that may be shared are in none of the above.
    memory: Tables,
    basis: Basis,
}

/// What the processes of a running server say. `VmPTE` leaves out the root table, `PageTables` counts it
/// on kernels of today: one base page is added for each.
struct Live {
    /// Mean of the sessions.
    session: Bytes,
    /// Sum of the others.
    background: Bytes,
}

/// Which processes are sessions is not known: as many as there are sessions, those with the most
/// page tables, so that a host is never promised more than it has.
fn live(host: &Host, instance: &Instance, base: PageSize) -> Option<Live> {
    let sessions = instance.sessions.get().filter(|sessions| *sessions > 0)?;
    let tables = instance.pids.iter().map(|pid| host.process(*pid)?.page_tables.get());
    let mut tables: Vec<Bytes> = tables.collect::<Option<_>>()?;
    tables.sort_unstable_by_key(|tables| std::cmp::Reverse(*tables));
    let at = usize::try_from(sessions).unwrap_or(usize::MAX).min(tables.len());
    let (ours, others) = tables.split_at_checked(at)?;
    let sum = |part: &[Bytes]| -> Bytes { part.iter().map(|tables| *tables + base.bytes()).sum() };
    let count = u64::try_from(ours.len()).ok()?;
    Some(Live { session: sum(ours).shared_by(count)?, background: sum(others) })
}

/// Processes that are no sessions.
fn background(instance: &Instance) -> u64 {
    let processes = u64::try_from(instance.pids.len()).unwrap_or(u64::MAX);
    processes.saturating_sub(instance.sessions.get().unwrap_or(0))
}

/// Page size that a running server's memory has now, where it has one.
fn page_now(ask: &Ask<'_>, wanted: &Wanted<'_>) -> Option<PageSize> {
    match wanted.instance.huge_pages {
        _ if wanted.instance.pid == 0 => None,
        HugePageUse::None => Some(ask.base()),
        HugePageUse::All => {
            let largest = wanted.instance.segments.iter().max_by_key(|segment| segment.size)?;
            largest.page_size.get()
        }
        HugePageUse::Partly | HugePageUse::Unknown => None,
    }
}

fn full(wanted: &Wanted<'_>, page: PageSize, base: PageSize) -> Tables {
    let addresses = Addresses::of(wanted.instance.engine);
    let all = wanted.stretches().into_iter().map(|size| forecast::shared_tables(size, page, base, addresses));
    all.fold(Tables::default(), Tables::add)
}

fn cost(ask: &Ask<'_>, wanted: &Wanted<'_>, page: PageSize) -> Cost {
    let base = ask.base();
    let full_touch = full(wanted, page, base);
    let now = page_now(ask, wanted);
    let live = live(ask.host, wanted.instance, base).filter(|_| wanted.processes());
    if let (Some(live), Some(now)) = (&live, now)
        && now == page
    {
        // Each process's VmPTE counts the shared tables in.
        let session = live.session.saturating_sub(full_touch.shared);
        return Cost {
            session,
            idle: Bytes::ZERO,
            background: live.background,
            memory: full_touch,
            basis: Basis::Measured,
        };
    }
    let default = forecast::process_tables(wanted.instance.engine, base);
    let idle = ask.request.process_tables.unwrap_or_else(|| match (live, now) {
        (Some(live), Some(now)) => {
            let here = full(wanted, now, base);
            live.session.saturating_sub(here.each + here.shared).max(default)
        }
        _ => default,
    });
    let session = idle + full_touch.each;
    Cost {
        session,
        idle,
        background: session.times(background(wanted.instance)),
        memory: full_touch,
        basis: Basis::FullTouch,
    }
}

/// A described segment without a server.
fn is_bare(wanted: &Wanted<'_>) -> bool {
    wanted.instance.pid == 0 && wanted.instance.engine == Engine::Other
}

/// Sessions of each server when there are so many on the host: by the configured maxima where all are
/// known, evenly otherwise, each share rounded up. Servers of threads get none where others are there:
/// it makes no difference to them. Bare segments belong together: a session touches them all.
fn deal(plan: &Plan<'_>, sessions: u64) -> Vec<u64> {
    let any_processes = plan.wanted.iter().any(Wanted::processes);
    let counts = |wanted: &Wanted<'_>| wanted.processes() || !any_processes;
    let first_bare = plan.wanted.iter().position(|wanted| counts(wanted) && is_bare(wanted));
    let stands = |at: usize, wanted: &Wanted<'_>| counts(wanted) && (!is_bare(wanted) || Some(at) == first_bare);
    let max = |wanted: &Wanted<'_>| wanted.instance.max_sessions.get().filter(|max| *max > 0);
    let shares: Vec<&Wanted<'_>> =
        plan.wanted.iter().enumerate().filter(|(at, wanted)| stands(*at, wanted)).map(|(_, wanted)| wanted).collect();
    let all_known = shares.iter().all(|wanted| max(wanted).is_some());
    let weight = |wanted: &Wanted<'_>| max(wanted).filter(|_| all_known).unwrap_or(1);
    let whole: u128 = shares.iter().map(|wanted| u128::from(weight(wanted))).sum();
    let share = |wanted: &Wanted<'_>| {
        let share = (u128::from(sessions) * u128::from(weight(wanted))).div_ceil(whole.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    };
    let bare_share = first_bare.and_then(|at| plan.wanted.get(at)).map_or(0, share);
    let dealt = plan.wanted.iter().map(|wanted| match () {
        () if !counts(wanted) => 0,
        () if is_bare(wanted) => bare_share,
        () => share(wanted),
    });
    dealt.collect()
}

/// Sessions that the budget is reckoned for, by server: those asked for; otherwise those that run now,
/// and of a server that does not run the most that it is configured for.
pub(super) fn sessions_now(ask: &Ask<'_>, plan: &Plan<'_>) -> Vec<u64> {
    if let Some(sessions) = ask.request.sessions {
        return deal(plan, sessions);
    }
    let now = |instance: &Instance| {
        let sessions = if instance.pid == 0 { &instance.max_sessions } else { &instance.sessions };
        sessions.get().unwrap_or(0)
    };
    plan.wanted.iter().map(|wanted| now(wanted.instance)).collect()
}

/// The most sessions that all servers together are configured for; where some are of processes, of those.
pub(super) fn most_sessions(plan: &Plan<'_>) -> Option<u64> {
    let any_processes = plan.wanted.iter().any(Wanted::processes);
    let counted = plan.wanted.iter().filter(|wanted| wanted.processes() || !any_processes);
    let maxima: Vec<u64> = counted.filter_map(|wanted| wanted.instance.max_sessions.get()).collect();
    let sum = maxima.iter().fold(0_u64, |sum, max| sum.saturating_add(*max));
    (sum > 0).then_some(sum)
}

/// Page tables of all servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllTables {
    /// As they are expected.
    pub(super) expected: Bytes,
    /// Where all processes of a server map its memory at one address.
    least: Bytes,
}

/// Page tables of all servers at so many sessions each, on pages of `page` or on what is planned.
pub(super) fn tables_at(ask: &Ask<'_>, plan: &Plan<'_>, dealt: &[u64], page: Option<PageSize>) -> AllTables {
    let first_bare = plan.wanted.iter().position(is_bare);
    let of = |(at, (wanted, sessions)): (usize, (&Wanted<'_>, &u64))| {
        let mut cost = cost(ask, wanted, page.unwrap_or_else(|| wanted.page()));
        if is_bare(wanted) && Some(at) != first_bare {
            cost.session = cost.session.saturating_sub(cost.idle);
        }
        let (own, processes) = if wanted.processes() {
            let processes = sessions.saturating_add(background(wanted.instance));
            (cost.session.times(*sessions) + cost.background, processes)
        } else {
            (cost.background.max(cost.session), 1)
        };
        let with = |memory: Tables| own + memory.shared_among(processes);
        (with(cost.memory), with(cost.memory.at_one_address()))
    };
    let all = plan.wanted.iter().zip(dealt).enumerate().map(of);
    all.fold(AllTables { expected: Bytes::ZERO, least: Bytes::ZERO }, |sum, (expected, least)| AllTables {
        expected: sum.expected + expected,
        least: sum.least + least,
    })
}

/// Page tables at the most sessions that are configured or asked for.
pub(super) fn tables_at_most(ask: &Ask<'_>, plan: &Plan<'_>, page: PageSize) -> (u64, Bytes) {
    let most = most_sessions(plan).max(ask.request.sessions).unwrap_or(0);
    (most, tables_at(ask, plan, &deal(plan, most), Some(page)).expected)
}

/// Private memory of all servers' processes at so many sessions each. `None` where no server says.
pub(super) fn private_at(ask: &Ask<'_>, plan: &Plan<'_>, dealt: &[u64]) -> Option<Bytes> {
    let of = |(wanted, sessions): (&Wanted<'_>, &u64)| {
        let (all, each) = budget::private(ask, wanted)?;
        if !wanted.processes() {
            return Some(all);
        }
        Some(each.times(sessions.saturating_add(background(wanted.instance))))
    };
    let known: Vec<Bytes> = plan.wanted.iter().zip(dealt).filter_map(of).collect();
    (!known.is_empty()).then(|| known.into_iter().sum())
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
            let measured = plan.wanted.iter().all(|wanted| cost(ask, wanted, *page).basis == Basis::Measured);
            rows.push(ForecastRow {
                sessions,
                configured_max: most == Some(sessions),
                page_size: *page,
                page_tables: tables.expected,
                page_tables_least: tables.least,
                login_seconds: login_seconds(ask, plan, *page),
                memory_left: memory_left(ask, plan, budget, *page, &dealt, tables.expected),
                basis: if measured { Basis::Measured } else { Basis::FullTouch },
            });
        }
    }
    rows
}

/// What is left beside the servers' memory on pages of that size. Where some fact is not known it counts as
/// nothing, as in the budget, which names it.
fn memory_left(
    ask: &Ask<'_>,
    plan: &Plan<'_>,
    budget: &Budget,
    page: PageSize,
    dealt: &[u64],
    page_tables: Bytes,
) -> Option<Bytes> {
    let on_page = |wanted: &Wanted<'_>| match wanted::demand_on(wanted.instance, page) {
        Some(demand) if page > ask.base() => demand.pages.of(page),
        _ => wanted.bytes(),
    };
    let servers: Bytes = plan.wanted.iter().map(on_page).sum();
    let planned: Bytes = plan.wanted.iter().map(|wanted| wanted.demand.pages.of(wanted.page())).sum();
    let beside_servers = budget.pools.saturating_sub(planned);
    let rest = [private_at(ask, plan, dealt), budget.others, budget.kernel, budget.watermarks];
    let taken = servers + beside_servers + page_tables + rest.into_iter().flatten().sum();
    Some(budget.total?.saturating_sub(taken))
}

fn login_seconds(ask: &Ask<'_>, plan: &Plan<'_>, page: PageSize) -> Option<f64> {
    let base = ask.base();
    let price = ask.request.fault_cost.unwrap_or_default();
    let of = |wanted: &Wanted<'_>| {
        let each = match () {
            () if page > base => price.huge_ns,
            () if wanted.system_v() => price.system_v_ns,
            () => price.mapped_ns,
        };
        Bytes(base.pages_for(touched(ask, wanted)).get()).times(each)
    };
    let slowest = plan.wanted.iter().filter(|wanted| wanted.processes()).map(of).max()?;
    Some(slowest.as_f64() / 1e9)
}

/// Memory that a session touches: the mean of the sessions that run now where it shows (`RssShmem`
/// leaves hugetlb pages out), otherwise all of it.
fn touched(ask: &Ask<'_>, wanted: &Wanted<'_>) -> Bytes {
    let all: Bytes = wanted.stretches().into_iter().sum();
    let seen = || {
        let sessions = wanted.instance.sessions.get().filter(|sessions| *sessions > 0)?;
        page_now(ask, wanted).filter(|now| *now == ask.base())?;
        let amounts = wanted.instance.pids.iter().map(|pid| ask.host.process(*pid)?.rss_shmem.get());
        let mut amounts: Vec<Bytes> = amounts.collect::<Option<_>>()?;
        amounts.sort_unstable_by_key(|amount| std::cmp::Reverse(*amount));
        amounts.truncate(usize::try_from(sessions).unwrap_or(usize::MAX));
        let count = u64::try_from(amounts.len()).ok()?;
        amounts.into_iter().sum::<Bytes>().shared_by(count)
    };
    seen().map_or(all, |seen| seen.min(all))
}
