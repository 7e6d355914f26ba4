//! The host's memory, dealt out: pools first, then everything that has to live beside them.

use hugewise_model::instance::SegmentKind;
use hugewise_model::{Bytes, Instance, PageCount, PageSize};

use super::sessions::{sessions_now, tables_at};
use super::wanted::Plan;
use super::work::{self, counted_at, most_of_all};
use super::{Ask, PoolTarget, Work};
use crate::demand;

/// Below this nothing is left for page cache and whatever nobody counted: this part of memory ...
const FLOOR_PERCENT: u64 = 5;
/// ... and never less than this.
const SMALLEST_FLOOR: Bytes = Bytes::from_mib(256);

/// How the host's memory is divided. What is not known counts as nothing and is named in `unknown`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// All of it.
    pub total: Option<Bytes>,
    /// The pools as they will be: what is planned of them, and pages beyond that which stay in them.
    pub pools: Bytes,
    /// Of these, what is planned: a refusal goes by it, as pages that nobody asks for can be given back.
    pub planned: Bytes,
    /// Sessions that it is reckoned for, on the whole host.
    pub sessions: u64,
    /// Private memory of the servers' processes at so many sessions, from the mean of those that run now, and no less than a
    /// server's target for it.
    pub sessions_private: Option<Bytes>,
    /// Private memory that processes share in files of /dev/shm (Oracle's managed global area), as it is now: no part of the above,
    /// though a server's target and limit for private memory are of both.
    pub managed: Option<Bytes>,
    /// Page tables of the servers' processes at so many sessions on the planned page sizes.
    pub page_tables: Option<Bytes>,
    /// Private and shared memory of everybody else, and their page tables.
    pub others: Option<Bytes>,
    /// What the kernel holds for itself and cannot give back: unreclaimable slab, stacks of threads.
    pub kernel: Option<Bytes>,
    /// Min watermarks of all zones: nobody but the kernel gets at this memory.
    pub watermarks: Option<Bytes>,
    /// What has to stay for page cache and whatever is not counted: 5 % of memory, at least 256 MiB.
    pub floor: Bytes,
    /// What is left when all of the above is there; `None` without a total.
    pub left: Option<Bytes>,
    /// What is missing where it does not fit; zero where it does.
    pub short: Bytes,
    /// Facts that are not known and are counted as zero.
    pub unknown: Vec<String>,
}

impl Budget {
    /// What has to stay of so much memory for page cache and whatever is not counted.
    pub fn floor_of(total: Bytes) -> Bytes {
        total.shared_by(100).unwrap_or_default().times(FLOOR_PERCENT).max(SMALLEST_FLOOR).min(total)
    }

    /// Everything but the pools.
    pub fn rest(&self) -> Bytes {
        let parts = [self.sessions_private, self.managed, self.page_tables, self.others, self.kernel, self.watermarks];
        parts.into_iter().flatten().sum::<Bytes>() + self.floor
    }

    /// The same with pools that take so much, as a plan leaves them.
    #[must_use]
    pub fn with_pools(&self, pools: Bytes) -> Self {
        let pools = pools.max(self.planned);
        let left = self.total.map(|total| total.saturating_sub(pools + self.rest()));
        Self { pools, left, ..self.clone() }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In words with numbers, one line each.
    pub reasons: Vec<String>,
    /// The pools that were asked for.
    pub wanted: Vec<PoolTarget>,
    /// Memory that is missing.
    pub short: Bytes,
    /// The largest pools, all together, that the host can carry; what its nodes can place where its memory is
    /// not known.
    pub largest_pools: Bytes,
}

pub(super) fn budget(ask: &Ask<'_>, plan: &Plan<'_>, pools: &[PoolTarget]) -> Budget {
    let dealt = sessions_now(ask, plan);
    let sessions = ask.request.sessions.unwrap_or_else(|| dealt.iter().fold(0, |all, one| all.saturating_add(*one)));
    let mut budget = at(ask, plan, pools, &dealt, sessions, counted_at(ask, plan, &dealt));
    let uncounted = plan.wanted.iter().zip(&dealt).filter(|(wanted, at)| work::counted(ask, wanted, **at).is_none());
    let uncounted = uncounted.map(|(wanted, _)| {
        format!("private memory of the processes of {}", crate::words::one_line(&wanted.instance.title()))
    });
    budget.unknown.splice(0..0, uncounted);
    budget
}

/// The same at the most sessions that are configured or asked for, with all the private memory that settings grant.
pub(super) fn at_most(ask: &Ask<'_>, plan: &Plan<'_>, pools: &[PoolTarget]) -> Option<Budget> {
    let (dealt, sessions, private) = most_of_all(ask, plan)?;
    Some(at(ask, plan, pools, &dealt, sessions, Some(private)))
}

fn at(
    ask: &Ask<'_>,
    plan: &Plan<'_>,
    pools: &[PoolTarget],
    dealt: &[u64],
    sessions: u64,
    sessions_private: Option<Bytes>,
) -> Budget {
    let mut budget = Budget {
        total: ask.memory(),
        pools: pools.iter().map(|target| target.pages.of(target.page_size)).sum::<Bytes>() + staying(ask, pools),
        planned: pools.iter().map(|target| target.pages.of(target.page_size)).sum(),
        sessions,
        sessions_private,
        page_tables: Some(tables_at(ask, plan, dealt, None).expected),
        ..Budget::default()
    };
    if ask.elsewhere {
        budget.unknown.push("what else runs on that host, and what its kernel uses".into());
    } else {
        if let Some(why) = ask.host.unseen() {
            budget.unknown.push(format!("servers that could not be seen ({why})"));
        }
        budget.managed = managed(plan);
        budget.others = others(ask, plan, &mut budget.unknown);
        budget.kernel = kernel(ask, &mut budget.unknown);
        let base = ask.base().bytes();
        let zones = ask.host.memory.watermarks.known();
        budget.watermarks = zones.map(|zones| zones.iter().map(|zone| base.times(zone.min)).sum());
        if budget.watermarks.is_none() {
            budget.unknown.push("/proc/zoneinfo: min watermarks".into());
        }
    }
    let Some(total) = budget.total else {
        budget.unknown.push("/proc/meminfo MemTotal".into());
        return budget;
    };
    budget.floor = Budget::floor_of(total);
    let needed = budget.pools + budget.rest();
    budget.left = Some(total.saturating_sub(needed));
    let planned = budget.planned + budget.rest();
    budget.short = planned.saturating_sub(total).max(budget.planned.saturating_sub(demand::largest_pools(total)));
    budget
}

/// Memory of pages that the pools have beyond what is planned of them: nobody gives them back unasked.
fn staying(ask: &Ask<'_>, pools: &[PoolTarget]) -> Bytes {
    if ask.elsewhere {
        return Bytes::ZERO;
    }
    let there = ask.host.pools.known().into_iter().flatten();
    let beyond = there.map(|pool| {
        let planned: PageCount =
            pools.iter().filter(|target| target.page_size == pool.page_size).map(|target| target.pages).sum();
        pool.total.get().unwrap_or_default().saturating_sub(planned).of(pool.page_size)
    });
    beyond.sum()
}

/// What servers keep in files of /dev/shm that their processes share.
fn managed(plan: &Plan<'_>) -> Option<Bytes> {
    let all: Vec<Bytes> = plan.wanted.iter().filter_map(|wanted| wanted.grants.managed).collect();
    (!all.is_empty()).then(|| all.into_iter().sum())
}

/// Memory of everybody else: what the kernel counts as anonymous, as shared and as page tables, without the
/// servers that are sized.
fn others(ask: &Ask<'_>, plan: &Plan<'_>, unknown: &mut Vec<String>) -> Option<Bytes> {
    let memory = &ask.host.memory;
    let mut all = Bytes::ZERO;
    let mut any = false;
    let ours = || plan.wanted.iter().map(|wanted| wanted.instance);
    let processes = || ours().flat_map(|instance| &instance.pids).filter_map(|pid| ask.host.process(*pid));
    let ours_anonymous: Bytes = processes().filter_map(|process| process.rss_anon.get()).sum();
    let ours_tables: Bytes = ours().filter_map(|instance| instance.page_tables.get()).sum();
    let shared = |instance: &Instance| -> Bytes {
        let small = instance.segments.iter().filter(|segment| segment.huge.get() != Some(true));
        small.filter(|segment| segment.kind != SegmentKind::Private).map(|segment| segment.size).sum()
    };
    let ours_shared: Bytes = ours().filter(|instance| instance.pid != 0).map(shared).sum();
    let ours_shared = ours_shared + managed(plan).unwrap_or_default();
    let facts = [
        ("AnonPages", memory.anonymous.get(), ours_anonymous),
        ("Shmem", memory.shmem.get(), ours_shared),
        ("PageTables", memory.page_tables.get(), ours_tables),
    ];
    for (name, amount, ours) in facts {
        match amount {
            Some(amount) => {
                all += amount.saturating_sub(ours);
                any = true;
            }
            None => unknown.push(format!("/proc/meminfo {name}")),
        }
    }
    any.then_some(all)
}

fn kernel(ask: &Ask<'_>, unknown: &mut Vec<String>) -> Option<Bytes> {
    let memory = &ask.host.memory;
    let facts = [("SUnreclaim", memory.slab_unreclaimable.get()), ("KernelStack", memory.kernel_stack.get())];
    for (name, amount) in facts {
        if amount.is_none() {
            unknown.push(format!("/proc/meminfo {name}"));
        }
    }
    facts.iter().any(|(_, amount)| amount.is_some()).then(|| facts.into_iter().filter_map(|(_, amount)| amount).sum())
}

/// The refusal of pools that would starve the host, or that no node has room for.
pub(super) fn refusal(
    ask: &Ask<'_>,
    plan: &Plan<'_>,
    budget: &Budget,
    pools: &[PoolTarget],
    unplaced: Bytes,
) -> Option<Refusal> {
    let mut reasons = Vec::new();
    let rest = budget.rest();
    let mut largest_pools = budget.planned.saturating_sub(unplaced);
    if let Some(total) = budget.total {
        let most = demand::largest_pools(total);
        largest_pools = total.saturating_sub(rest).min(most);
        if budget.planned + rest > total {
            let together = budget.planned + rest;
            reasons.push(format!(
                "the pools take {} and the rest needs {rest}: together {together} of {total}",
                budget.planned
            ));
            reasons.push(parts(budget));
            reasons.extend(targets(ask, plan));
        }
        if budget.planned > most {
            reasons.push(format!(
                "the pools take {} of {total}: more than {} % leaves too little for everything else",
                budget.planned,
                demand::LARGEST_POOL_PERCENT
            ));
        }
    }
    if unplaced > Bytes::ZERO {
        reasons.push(format!(
            "{unplaced} of the pools cannot be placed: no node may give more than {} % of its memory",
            demand::LARGEST_POOL_PERCENT
        ));
    }
    let short = budget.short.max(unplaced);
    (!reasons.is_empty()).then(|| Refusal { reasons, wanted: pools.to_vec(), short, largest_pools })
}

/// Targets that count for more than what the processes hold now.
fn targets(ask: &Ask<'_>, plan: &Plan<'_>) -> Vec<String> {
    let of = |work: Work| {
        let target = work.grants.target.filter(|target| Some(target.bytes) > work.held)?;
        let held = work.held.map(|held| format!("; its processes hold {held} now")).unwrap_or_default();
        let title = crate::words::one_line(&work.instance.to_string());
        Some(format!("{title} counts as {}, its {}{held}", target.bytes, crate::words::one_line(&target.by)))
    };
    work::work(ask, plan).into_iter().filter_map(of).collect()
}

fn parts(budget: &Budget) -> String {
    let parts = [
        ("sessions", budget.sessions_private),
        ("managed global area", budget.managed),
        ("their page tables", budget.page_tables),
        ("other processes", budget.others),
        ("the kernel", budget.kernel),
        ("watermarks", budget.watermarks),
        ("floor", Some(budget.floor)),
    ];
    let known = parts.into_iter().filter_map(|(what, amount)| Some(format!("{what} {}", amount?)));
    format!("the rest at {} sessions: {}", PageCount(budget.sessions), known.collect::<Vec<_>>().join(", "))
}

impl Refusal {
    /// Pages of that size that the host can carry at most, were they its only pool.
    pub fn most_pages(&self, page: PageSize) -> PageCount {
        PageCount(self.largest_pools.get() / page.bytes().get())
    }
}
