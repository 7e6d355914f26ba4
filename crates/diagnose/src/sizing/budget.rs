//! The host's memory, dealt out: pools first, then everything that has to live beside them.

use hugewise_model::instance::SegmentKind;
use hugewise_model::{Bytes, Instance, PageCount, PageSize, group_thousands};

use super::planned_servers::SizingPlan;
use super::sessions::{sessions_now, tables_at};
use super::work_memory::{self, counted_at, most_of_all};
use super::{PoolSizeTarget, SizingContext, Work};
use crate::demand;
use crate::wording::one_line;

/// Below this nothing is left for page cache and whatever nobody counted: this part of memory ...
const FLOOR_PERCENT: u64 = 5;
/// ... and never less than this.
const SMALLEST_FLOOR: Bytes = Bytes::from_mib(256);

/// How the host's memory is divided. What is not known counts as nothing and is named in `unknown`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryBudget {
    /// All of it.
    pub total: Option<Bytes>,
    /// The pools as they will be, with pages that stay in them beyond what is planned.
    pub pools: Bytes,
    /// Of these, what is planned: a refusal goes by it, as other pages can be given back.
    pub planned: Bytes,
    /// Sessions that it is reckoned for, on the whole host.
    pub sessions: u64,
    /// Private memory of the servers' processes at so many sessions, from the mean of those that
    /// run now, and no less than a server's target for it.
    pub sessions_private: Option<Bytes>,
    /// Private memory that processes share in files of /dev/shm now (Oracle's managed global area):
    /// no part of the above, though a server's target and limit are of both.
    pub managed: Option<Bytes>,
    /// Page tables of the servers' processes at so many sessions on the planned page sizes.
    pub page_tables: Option<Bytes>,
    /// Private and shared memory of everybody else, and their page tables.
    pub others: Option<Bytes>,
    /// What the kernel cannot give back: unreclaimable slab, stacks of threads.
    pub kernel: Option<Bytes>,
    /// Min watermarks of all zones: nobody but the kernel gets at this memory.
    pub watermarks: Option<Bytes>,
    /// What has to stay for page cache and whatever is not counted: 5 %, at least 256 MiB.
    pub floor: Bytes,
    /// What is left when all of the above is there; `None` without a total.
    pub left: Option<Bytes>,
    /// What is missing where it does not fit; zero where it does.
    pub short: Bytes,
    /// Facts that are not known and are counted as zero.
    pub unknown: Vec<String>,
}

impl MemoryBudget {
    /// What has to stay of so much memory for page cache and whatever is not counted.
    pub fn floor_of(total: Bytes) -> Bytes {
        let part = total.shared_by(100).unwrap_or_default().saturating_mul(FLOOR_PERCENT);
        part.max(SMALLEST_FLOOR).min(total)
    }

    /// Everything but the pools.
    pub fn memory_beside_pools(&self) -> Bytes {
        self.parts_beside_pools().into_iter().filter_map(|(_, amount)| amount).sum()
    }

    const fn parts_beside_pools(&self) -> [(&'static str, Option<Bytes>); 7] {
        [
            ("sessions", self.sessions_private),
            ("managed global area", self.managed),
            ("their page tables", self.page_tables),
            ("other processes", self.others),
            ("the kernel", self.kernel),
            ("watermarks", self.watermarks),
            ("floor", Some(self.floor)),
        ]
    }

    /// The same with pools that take so much, as a plan leaves them.
    #[must_use]
    pub fn with_pools(&self, pools: Bytes) -> Self {
        let pools = pools.max(self.planned);
        let left = self.total.map(|total| total.saturating_sub(pools + self.memory_beside_pools()));
        Self { pools, left, ..self.clone() }
    }
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizingRefusal {
    /// In words with numbers, one line each.
    pub reasons: Vec<String>,
    /// The pools that were asked for.
    pub wanted: Vec<PoolSizeTarget>,
    /// Memory that is missing.
    pub short: Bytes,
    /// The largest pools together that the host can carry, or else that its nodes can place.
    pub largest_pools: Bytes,
}

pub(super) fn divide_memory(ask: &SizingContext<'_>, pools: &[PoolSizeTarget]) -> MemoryBudget {
    let dealt = sessions_now(ask);
    let sessions = ask
        .request
        .sessions
        .unwrap_or_else(|| dealt.iter().fold(0, |all, one| all.saturating_add(*one)));
    let mut budget = divide_memory_at(ask, pools, &dealt, sessions, counted_at(ask, &dealt));
    let uncounted = ask.plan.wanted.iter().zip(&dealt);
    let uncounted = uncounted
        .filter(|(wanted, at)| work_memory::counted_work_memory(ask, wanted, **at).is_none());
    let uncounted = uncounted.map(|(wanted, _)| {
        let title = one_line(&wanted.instance.title());
        format!("private memory of the processes of {title}")
    });
    budget.unknown.splice(0..0, uncounted);
    budget
}

/// [`divide_memory`] at the most sessions, with all the private memory that settings grant.
pub(super) fn at_most(ask: &SizingContext<'_>, pools: &[PoolSizeTarget]) -> Option<MemoryBudget> {
    let (dealt, sessions, private) = most_of_all(ask)?;
    Some(divide_memory_at(ask, pools, &dealt, sessions, Some(private)))
}

fn divide_memory_at(
    ask: &SizingContext<'_>,
    pools: &[PoolSizeTarget],
    dealt: &[u64],
    sessions: u64,
    sessions_private: Option<Bytes>,
) -> MemoryBudget {
    let planned: Bytes = pools.iter().map(|target| target.pages.to_bytes(target.page_size)).sum();
    let mut budget = MemoryBudget {
        total: ask.memory(),
        pools: planned + unreturned_pool_memory(ask, pools),
        planned,
        sessions,
        sessions_private,
        page_tables: Some(tables_at(ask, dealt, None).expected),
        ..MemoryBudget::default()
    };
    if ask.elsewhere {
        budget.unknown.push("what else runs on that host, and what its kernel uses".into());
    } else {
        if let Some(why) = ask.host.unseen_reason() {
            budget.unknown.push(format!("servers that could not be seen ({why})"));
        }
        budget.managed = managed_memory(ask.plan);
        budget.others = memory_of_others(ask, &mut budget.unknown);
        budget.kernel = kernel_memory(ask, &mut budget.unknown);
        let base = ask.base_page().bytes();
        let zones = ask.host.memory.watermarks.as_known();
        budget.watermarks =
            zones.map(|zones| zones.iter().map(|zone| base.saturating_mul(zone.min)).sum());
        if budget.watermarks.is_none() {
            budget.unknown.push("/proc/zoneinfo: min watermarks".into());
        }
    }
    let Some(total) = budget.total else {
        budget.unknown.push("/proc/meminfo MemTotal".into());
        return budget;
    };
    budget.floor = MemoryBudget::floor_of(total);
    let needed = budget.pools + budget.memory_beside_pools();
    budget.left = Some(total.saturating_sub(needed));
    let planned = budget.planned + budget.memory_beside_pools();
    budget.short = planned
        .saturating_sub(total)
        .max(budget.planned.saturating_sub(demand::largest_pools(total)));
    budget
}

/// Memory of pages that the pools have beyond what is planned: nobody gives them back unasked.
fn unreturned_pool_memory(ask: &SizingContext<'_>, pools: &[PoolSizeTarget]) -> Bytes {
    if ask.elsewhere {
        return Bytes::ZERO;
    }
    let there = ask.host.pools.as_known().into_iter().flatten();
    let beyond = there.map(|pool| {
        let targets = pools.iter().filter(|target| target.page_size == pool.page_size);
        let planned: PageCount = targets.map(|target| target.pages).sum();
        pool.total.get().unwrap_or_default().saturating_sub(planned).to_bytes(pool.page_size)
    });
    beyond.sum()
}

fn managed_memory(plan: &SizingPlan<'_>) -> Option<Bytes> {
    let all: Vec<Bytes> = plan.wanted.iter().filter_map(|wanted| wanted.grants.managed).collect();
    (!all.is_empty()).then(|| all.into_iter().sum())
}

/// What the kernel counts as anonymous, as shared and as page tables, without the sized servers'.
fn memory_of_others(ask: &SizingContext<'_>, unknown: &mut Vec<String>) -> Option<Bytes> {
    let memory = &ask.host.memory;
    let mut all = Bytes::ZERO;
    let mut any = false;
    let ours = || ask.plan.wanted.iter().map(|wanted| wanted.instance);
    let processes =
        || ours().flat_map(|instance| &instance.pids).filter_map(|pid| ask.host.find_process(*pid));
    let ours_anonymous: Bytes = processes().filter_map(|process| process.rss_anon.get()).sum();
    let ours_tables: Bytes = ours().filter_map(|instance| instance.page_tables.get()).sum();
    let shared = |instance: &Instance| -> Bytes {
        let small = instance.segments.iter().filter(|segment| segment.huge.get() != Some(true));
        small
            .filter(|segment| segment.kind != SegmentKind::Private)
            .map(|segment| segment.size)
            .sum()
    };
    let ours_shared: Bytes = ours().filter(|instance| instance.pid != 0).map(shared).sum();
    let ours_shared = ours_shared + managed_memory(ask.plan).unwrap_or_default();
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

fn kernel_memory(ask: &SizingContext<'_>, unknown: &mut Vec<String>) -> Option<Bytes> {
    let memory = &ask.host.memory;
    let facts = [
        ("SUnreclaim", memory.slab_unreclaimable.get()),
        ("KernelStack", memory.kernel_stack.get()),
    ];
    for (name, amount) in facts {
        if amount.is_none() {
            unknown.push(format!("/proc/meminfo {name}"));
        }
    }
    let known: Vec<Bytes> = facts.into_iter().filter_map(|(_, amount)| amount).collect();
    (!known.is_empty()).then(|| known.into_iter().sum())
}

pub(super) fn find_refusal(
    ask: &SizingContext<'_>,
    budget: &MemoryBudget,
    pools: &[PoolSizeTarget],
    unplaced: Bytes,
) -> Option<SizingRefusal> {
    let mut reasons = Vec::new();
    let rest = budget.memory_beside_pools();
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
            reasons.push(describe_budget_parts(budget));
            reasons.extend(describe_work_targets(ask));
        }
        if budget.planned > most {
            reasons.push(format!(
                "the pools take {} of {total}: more than {} % leaves too little for everything \
                 else",
                budget.planned,
                demand::LARGEST_POOL_PERCENT
            ));
        }
    }
    if unplaced > Bytes::ZERO {
        reasons.push(format!(
            "{unplaced} of the pools cannot be placed: no node may give more than {} % of its \
             memory",
            demand::LARGEST_POOL_PERCENT
        ));
    }
    let short = budget.short.max(unplaced);
    (!reasons.is_empty()).then(|| SizingRefusal {
        reasons,
        wanted: pools.to_vec(),
        short,
        largest_pools,
    })
}

fn describe_work_targets(ask: &SizingContext<'_>) -> Vec<String> {
    let text_of = |work: Work| {
        let target = work.grants.target.filter(|target| Some(target.bytes) > work.held)?;
        let held =
            work.held.map(|held| format!("; its processes hold {held} now")).unwrap_or_default();
        let title = one_line(&work.instance.to_string());
        let by = one_line(&target.by);
        Some(format!("{title} counts as {}, its {by}{held}", target.bytes))
    };
    work_memory::size_work_memory(ask).into_iter().filter_map(text_of).collect()
}

fn describe_budget_parts(budget: &MemoryBudget) -> String {
    let known = budget.parts_beside_pools().into_iter();
    let known = known.filter_map(|(what, amount)| Some(format!("{what} {}", amount?)));
    format!(
        "the rest at {} sessions: {}",
        group_thousands(budget.sessions),
        known.collect::<Vec<_>>().join(", ")
    )
}

impl SizingRefusal {
    /// Pages of that size that the host can carry at most, were they its only pool.
    pub fn most_pages(&self, page: PageSize) -> PageCount {
        PageCount(self.largest_pools.get() / page.bytes().get())
    }
}
