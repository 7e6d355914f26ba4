//! What every server finds at the next boot: the pools that its files bring, and all who ask for them, in the worst order.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hugewise_model::{Asked, Bytes, Demand, Host, Instance, InstanceId, NextStart, PageCount, PageSize, Pool};

use super::moments::{Obstacle, Outlook};
use super::segments::{self, Segments};
use super::supply::Supply;
use super::{Fit, booted, claim, default_size, mount, start, startup};
use crate::cgroup::{Limits, Shortage};
use crate::demand::starting_at_boot;
use crate::standing::Standing;
use crate::{Missing, boot, demand, given, mounts};

/// The pools of the next boot and who will ask for them.
pub(super) struct NextBoot<'h> {
    /// The host as its settings will be.
    pub(super) host: Cow<'h, Host>,
    /// What the files and the command line bring, with where that stands.
    pools: BTreeMap<PageSize, Result<(PageCount, String), Unforetold>>,
    /// What servers will ask for, by page size.
    asking: BTreeMap<PageSize, Vec<Asking>>,
    /// Base pages that servers will ask shmget for.
    segments: Vec<Asking>,
    /// How many segments those are.
    numbers: BTreeMap<InstanceId, u64>,
    /// What shmget goes by.
    shm: segments::Limits,
    /// Memory that is left beside the pools while no server has started; none where that is not foretold.
    pub(super) memory_of_the_first: Option<Bytes>,
    beside: Option<Beside>,
}

/// What memory there is beside the pools, now and at the next boot.
#[derive(Clone, Copy)]
struct Beside {
    /// That can be had now.
    obtainable: Bytes,
    /// Of all pools now.
    pools: Bytes,
    /// That servers hold of them, or are promised.
    committed: Bytes,
    /// Of all pools that the boot brings.
    brought: Bytes,
}

impl Beside {
    fn of(host: &Host, brought: Bytes) -> Option<Self> {
        let pools = host.pools.known()?;
        let committed = |pool: &Pool| Some(pool.committed()?.of(pool.page_size));
        Some(Self {
            obtainable: host.obtainable_memory()?.bytes,
            pools: pools.iter().map(Pool::memory).sum::<Option<_>>()?,
            committed: pools.iter().map(committed).sum::<Option<_>>()?,
            brought,
        })
    }

    /// What is left at the boot to one that starts last: what others hold of the pools now, and the boot brings no pages for, is on
    /// base pages by then.
    fn left_to(self, host: &Host, instance: &Instance) -> Bytes {
        let pools = host.pools.known().into_iter().flatten();
        let own: Bytes = pools.map(|pool| demand::held(instance, pool.page_size).of(pool.page_size)).sum();
        let fallen = self.committed.saturating_sub(own).saturating_sub(self.brought);
        (self.obtainable + self.pools).saturating_sub(self.brought + fallen)
    }
}

/// Why it is not foretold what a pool has after the next boot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Unforetold {
    /// The boot is asked for so many that it may not come up.
    #[error("the next boot sets aside {asked} for huge pages out of {memory} of memory: the host may not come up")]
    Crowded { asked: Bytes, memory: Bytes },
    #[error(transparent)]
    Missing(Missing),
}

/// One server's demand of a page size.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asking {
    of: InstanceId,
    pages: PageCount,
    /// The least that this comes to, and the most, where it is an estimate.
    between: (PageCount, PageCount),
    /// Takes what there is where that is not enough.
    takes_part: bool,
    /// Why it is not known whether it asks: of a server whose settings were not read, what it needs now may be what it asks
    /// for; none where it is known to.
    doubt: Option<Doubt>,
}

/// What is not known of a server that may ask at a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    /// What its settings ask for.
    Settings,
    /// Whether it is started at all.
    Start,
}

impl Asking {
    const fn is_sure(&self) -> bool {
        self.doubt.is_none()
    }

    /// What is not known of it, in words.
    fn in_words(&self) -> String {
        match self.doubt {
            Some(Doubt::Start) => format!("whether the boot starts {} is not known", self.of),
            Some(Doubt::Settings) | None => format!("what {} asks for at the boot is not known", self.of),
        }
    }
}

impl Asking {
    /// One of which nobody knows what it takes.
    fn any(instance: &Instance) -> Self {
        Self::exactly(instance.id(), PageCount(u32::MAX.into()), true, Some(Doubt::Settings))
    }

    /// One that asks for so many, and nothing of that is estimated.
    const fn exactly(of: InstanceId, pages: PageCount, takes_part: bool, doubt: Option<Doubt>) -> Self {
        Self { of, pages, between: (pages, pages), takes_part, doubt }
    }
}

/// Up to so many servers every order of their starts is looked at.
const EVERY_ORDER: usize = 16;

impl<'h> NextBoot<'h> {
    pub(super) fn of(host: &'h Host, instances: &[Instance], limits: &Limits) -> Self {
        let there = host.pools.known().into_iter().flatten();
        let deadly = boot::crowding(host).ok().flatten().filter(|it| it.is_deadly);
        let pool = |page| match &deadly {
            Some(crowding) => Err(Unforetold::Crowded { asked: crowding.asked, memory: crowding.memory }),
            None => at_boot(host, page).map_err(Unforetold::Missing),
        };
        let pools: BTreeMap<_, _> = there.map(|it| (it.page_size, pool(it.page_size))).collect();
        let booted = booted::booted(host);
        let brought = brought(host, &pools);
        let beside = brought.and_then(|brought| Beside::of(host, brought));
        let mut asking = BTreeMap::<PageSize, Vec<Asking>>::new();
        let (mut segments, mut numbers) = (Vec::new(), BTreeMap::new());
        for instance in instances.iter().filter(|instance| instance.is_vouched()) {
            let start = starting_at_boot(host, instance);
            if startup::never(instance).is_some() || instance.waits_for_hands() {
                continue;
            }
            if let Some(base) = host.base_page.get().filter(|_| segments::is_asked(instance)) {
                let pages = segments::wanted(&start, base);
                numbers.insert(instance.id(), segments::counted(host, instance).1);
                segments.push(Asking::exactly(instance.id(), pages, false, None));
            }
            let is_told = start.asked != Asked::Unknown;
            let asks = !is_told || start.asks();
            if !asks || start::is_refused(&booted, instance, &given::at_boot(&booted, instance)) {
                continue;
            }
            let start = match mount::at_boot(&booted, instances, instance, &start) {
                Fit::Ends(outlook) => {
                    // It may take any of the size that is the default then.
                    let page = default_size::other_default(host, instance).filter(|_| outlook.rank().is_none());
                    let any = |page| asking.entry(page).or_default().push(Asking::any(instance));
                    page.into_iter().for_each(any);
                    continue;
                }
                Fit::Moves(start, ..) => start,
                Fit::Fits => start,
            };
            let now = if is_told { None } else { claim::of_unread(host, instance) };
            let doubt = match () {
                () if !is_told => Some(Doubt::Settings),
                () => (!startup::is_surely_started(instance)).then_some(Doubt::Start),
            };
            for demand in start.demands.iter().chain(&now) {
                let page = demand.page_size;
                let there =
                    pools.get(&page).and_then(|pool| pool.as_ref().ok()).map_or(PageCount::ZERO, |(pool, _)| *pool);
                // One that grows is content with what it begins with, and takes what it finds of the rest.
                let less = demand.pages.saturating_sub(PageCount(1)).min(there);
                let takes_part =
                    start::takes_part(instance, &start) || start::begins(instance, page, less, demand.pages);
                // Beyond what its own cgroup may have reserved it is refused, and takes a part of it or none.
                let (least, most) = (demand.at_least().pages, demand.at_most().pages);
                // One that raises the pool by what it lacks takes no more of it than is there to stay: what others may have on
                // demand is left to them.
                let limit = limits.most_reserved(instance, page);
                let memory = || beside.map(|beside| beside.left_to(host, instance));
                if start.asked == Asked::Raises && start::raises(memory(), &start, most, page) {
                    let there = kept(host, page);
                    let takes = |asked| taken_of(there, asked, limit.unwrap_or(asked));
                    let (one, pages, other) = (takes(least), takes(demand.pages), takes(most));
                    let between = (one.min(pages).min(other), one.max(pages).max(other));
                    asking.entry(page).or_default().push(Asking {
                        of: instance.id(),
                        pages,
                        between,
                        takes_part: true,
                        doubt,
                    });
                    continue;
                }
                let (pages, between) = match limit.filter(|limit| *limit < most) {
                    None => (demand.pages, (least, most)),
                    Some(limit) if takes_part && limit >= segments::smallest_piece(instance, page) => {
                        (demand.pages.min(limit), (least.min(limit), limit))
                    }
                    // By what its settings come to in truth it is refused or not.
                    Some(limit) if limit >= least => (demand.pages.min(limit), (PageCount::ZERO, limit)),
                    Some(_) => continue,
                };
                asking.entry(page).or_default().push(Asking { of: instance.id(), pages, between, takes_part, doubt });
            }
        }
        let memory_of_the_first = brought.and_then(|brought| Some(boot::memory(host).ok()?.saturating_sub(brought)));
        let shm = segments::Limits::at_boot(host);
        Self { shm, host: booted, pools, asking, segments, numbers, memory_of_the_first, beside }
    }

    /// Memory that is left beside the pools to a server that starts last; none where that is not foretold.
    pub(super) fn memory_of_the_last(&self, host: &Host, instance: &Instance) -> Option<Bytes> {
        self.beside.map(|beside| beside.left_to(host, instance))
    }

    /// A server whose memory is in files of a hugetlbfs that the boot does not mount: its files are ordinary ones then.
    pub(super) fn without_its_mount(&self, instance: &Instance) -> Option<Outlook> {
        match mounts::lost(&self.host, instance) {
            Err(missing) => {
                Some(Outlook { standing: Standing::Unknown, why: Some(missing.to_string()), obstacle: None })
            }
            Ok(None) => None,
            Ok(Some(mount)) => {
                let why = crate::words::one_line(&mounts::why_lost(&self.host, &mount.path));
                Some(Outlook { standing: Standing::None, why: Some(why), obstacle: Some(Obstacle::Mount) })
            }
        }
    }

    /// What shmget says, whoever was there before.
    pub(super) fn segments(&self, instance: &Instance, start: &NextStart) -> Segments {
        let id = instance.id();
        let others: Vec<&Asking> = self.segments.iter().filter(|one| one.of != id).collect();
        let number =
            self.numbers.iter().filter(|(of, _)| **of != id).fold(0_u64, |sum, (_, it)| sum.saturating_add(*it));
        let others = (most_taken(&others, self.shm.all()), number);
        segments::at_start(&self.host, &self.shm, instance, start, others)
    }

    /// The worst limit of a cgroup that a demand meets, whoever starts before it.
    pub(super) fn limited(
        &self,
        limits: &Limits,
        instance: &Instance,
        demand: &Demand,
    ) -> Result<Option<Shortage>, Missing> {
        let page = demand.page_size;
        let asking = self.asking.get(&page).map(Vec::as_slice).unwrap_or_default();
        let pool = self.pools.get(&page).and_then(|pool| pool.as_ref().ok()).map_or(PageCount::ZERO, |(pool, _)| *pool);
        let taken = |is_other: &dyn Fn(&InstanceId) -> bool, pool: PageCount| {
            let others: Vec<&Asking> = asking.iter().filter(|one| one.is_sure() && is_other(&one.of)).collect();
            most_taken(&others, pool)
        };
        limits.at_boot(instance, demand, pool, &taken)
    }

    /// What the first finds; none where that is not known.
    pub(super) fn most(&self, page: PageSize) -> Option<Supply> {
        let (pages, place) = self.pools.get(&page)?.as_ref().ok()?;
        let (pages, note) = (*pages, format!(" ({place})"));
        let sure = self.surely(page).map_or(pages, |early| early.min(pages));
        Some(Supply::Pages { pages, up_to: pages, sure, note, perhaps: None })
    }

    /// Pages of a size that are taken before memory can be in pieces; none where that makes no difference.
    fn surely(&self, page: PageSize) -> Option<PageCount> {
        let early = || boot::reserved_early(&self.host, page).map(|(pages, _)| pages).unwrap_or_default();
        self.host.is_gigantic(page).then(early)
    }

    /// The least that an instance may find, whoever starts before it.
    pub(super) fn supply(&self, instance: &Instance, page: PageSize) -> Supply {
        let (pool, place) = match self.pools.get(&page) {
            Some(Ok(pool)) => pool,
            Some(Err(why)) => return Supply::Unknown(why.to_string()),
            None if self.host.pools.is_known() => {
                return Supply::None(format!("this kernel has no pool of {page} pages"));
            }
            None => {
                let reason = self.host.pools.reason().unwrap_or_default();
                return Supply::Unknown(format!("/sys/kernel/mm/hugepages: {reason}"));
            }
        };
        let own = instance.id();
        let all = self.asking.get(&page).map(Vec::as_slice).unwrap_or_default();
        let (of_own, others): (Vec<&Asking>, Vec<&Asking>) = all.iter().partition(|one| one.of == own);
        let open = others.iter().find(|one| !one.is_sure());
        let perhaps = open.map(|one| (pool.saturating_sub(most_taken(&others, *pool)), one.in_words()));
        let others: Vec<&Asking> = others.into_iter().filter(|one| one.is_sure()).collect();
        let asking = || others.iter().chain(&of_own);
        // What nobody has seen start may need a few more than are asked for.
        let perhaps_own = instance.perhaps.iter().filter(|it| it.page_size == page && instance.is_asleep());
        let asked_own: PageCount = of_own.iter().map(|one| one.between.1).sum();
        let own_most = asked_own.max(perhaps_own.map(|demand| demand.pages).sum());
        let all = others.iter().map(|one| one.between.1).sum::<PageCount>() + own_most;
        if *pool == PageCount::ZERO {
            let (pages, note) = (*pool, format!(" ({place})"));
            return Supply::Pages { pages, up_to: pages, sure: pages, note, perhaps: None };
        }
        let left = |pool: PageCount| {
            if all <= pool { pool } else { pool.saturating_sub(most_taken(&others, pool)) }
        };
        let least_of_all: PageCount = asking().map(|one| one.between.0).sum();
        let up_to = match least_of_all <= *pool && all > *pool {
            // They may all find theirs.
            true => *pool,
            false => left(*pool).max(pool.saturating_sub(least_taken(&others, *pool))),
        };
        let note = if all <= *pool || others.is_empty() {
            format!(" ({place})")
        } else {
            let (servers, all) = (asking().count(), asking().map(|one| one.pages).sum::<PageCount>());
            format!(
                " of the {pool} that the boot brings ({place}), if others start first: {servers} servers ask for {all}"
            )
        };
        let sure = left(self.surely(page).map_or(*pool, |early| early.min(*pool)));
        Supply::Pages { pages: left(*pool), up_to, sure, note, perhaps }
    }
}

/// Pages of those that are there which one takes that raises the pool by what it lacks, and may have so many reserved: what its
/// limit keeps from it of those that it asks for it leaves to others.
fn taken_of(there: PageCount, asked: PageCount, limit: PageCount) -> PageCount {
    there.min(asked).saturating_sub(asked.saturating_sub(limit))
}

/// The most that these may have taken of a pool, in whatever order they came, whatever their estimates come to.
fn most_taken(others: &[&Asking], pool: PageCount) -> PageCount {
    let all: PageCount = others.iter().map(|one| one.between.1).sum();
    if all <= pool {
        return all;
    }
    let parts: PageCount = others.iter().filter(|one| one.takes_part).map(|one| one.between.1).sum();
    // Those that found theirs come to something between the two sums.
    let whole = whole(others, |one| one.between, |(least, _)| least <= pool);
    whole.map_or(pool, |sums| sums.into_iter().map(|(_, most)| pool.min(most + parts)).max().unwrap_or_default())
}

/// The same of estimates that come to as little as they may. Whoever fits by its estimate is taken to fit: that it needs a little
/// more than there is, and leaves all of it to others, is nothing that these should count on.
fn least_taken(others: &[&Asking], pool: PageCount) -> PageCount {
    let parts: PageCount = others.iter().filter(|one| one.takes_part).map(|one| one.between.0).sum();
    let whole = whole(others, |one| (one.between.0, one.pages), |(_, about)| about <= pool);
    whole.map_or(pool, |sums| sums.into_iter().map(|(least, _)| pool.min(least + parts)).max().unwrap_or_default())
}

/// Two sums for every choice of those that take all or nothing, as far as that may be there; none where these are too many.
fn whole(
    others: &[&Asking],
    of: impl Fn(&Asking) -> (PageCount, PageCount),
    may_be: impl Fn((PageCount, PageCount)) -> bool,
) -> Option<std::collections::BTreeSet<(PageCount, PageCount)>> {
    let of = others.iter().filter(|one| !one.takes_part).map(|one| of(one));
    let of: Vec<_> = of.filter(|one| may_be(*one)).collect();
    if of.len() > EVERY_ORDER {
        return None;
    }
    let mut sums = std::collections::BTreeSet::from([(PageCount::ZERO, PageCount::ZERO)]);
    for (first, second) in of {
        let more: Vec<_> = sums.iter().map(|sum| (sum.0 + first, sum.1 + second)).filter(|sum| may_be(*sum)).collect();
        sums.extend(more);
    }
    Some(sums)
}

/// Pages of a size that the pool may grow by on demand after the next boot, as far as there is memory for them beside all pools.
fn on_demand_at_boot(host: &Host, page: PageSize) -> PageCount {
    let steps = boot::overcommit(host, page).unwrap_or_default();
    let allowed = steps.last().map(|step| PageCount(step.value)).unwrap_or_default();
    let pools = host.pools.known().into_iter().flatten();
    let brought = || pools.map(|pool| kept(host, pool.page_size).of(pool.page_size)).sum::<Bytes>();
    match boot::memory(host) {
        Ok(memory) if allowed > PageCount::ZERO => {
            allowed.min(PageCount(memory.saturating_sub(brought()).get() / page.bytes().get()))
        }
        _ => allowed,
    }
}

/// Pages of a size after the next boot, on demand ones among them, and where that stands.
fn at_boot(host: &Host, page: PageSize) -> Result<(PageCount, String), Missing> {
    let (set, place) = match boot::pool(host, page)?.last() {
        Some(step) => (PageCount(step.value), step.place.clone()),
        None => (PageCount::ZERO, boot::nothing_sets(host, page)),
    };
    Ok((carried(host, page, set) + on_demand_at_boot(host, page), place))
}

/// Pages of a size that the boot's files bring to stay.
fn kept(host: &Host, page: PageSize) -> PageCount {
    let steps = boot::pool(host, page).unwrap_or_default();
    carried(host, page, steps.last().map(|step| PageCount(step.value)).unwrap_or_default())
}

/// Memory of all pools that the boot brings; none where that is not foretold of one.
fn brought<T>(host: &Host, pools: &BTreeMap<PageSize, Result<T, Unforetold>>) -> Option<Bytes> {
    pools.iter().map(|(page, pool)| pool.is_ok().then(|| kept(host, *page).of(*page))).sum()
}

/// As many of these as there is memory for.
fn carried(host: &Host, page: PageSize, pages: PageCount) -> PageCount {
    let memory = boot::memory(host).ok();
    memory.map_or(pages, |memory| pages.min(PageCount(memory.get() / page.bytes().get())))
}
