//! Whether a server may be told to refuse a start without huge pages: one that is told so before they are there is down.

use std::collections::BTreeMap;

use hugewise_model::{Asked, Demand, Host, HugePageUse, Instance, InstanceId, PageCount, PageSize};

use super::{Ask, pools};
use crate::demand::{self, starting};
use crate::given;
use crate::situation::{Moment, Obstacle, cpuset, other_default};
use crate::sizing::Sized;

/// Why a server is not told to insist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotYet {
    /// No pages are planned for it.
    #[error("no pages are planned for it")]
    Unplanned,
    /// The pool does not have its pages, now or after the next boot.
    #[error("its {0} pages are missing now or after the next boot")]
    Pages(PageSize),
    /// Servers that are to have pages of another size hold some of these until their restart.
    #[error("servers that will move to another page size hold {0} of {1} until their restart")]
    Held(PageCount, PageSize),
    /// One page too few keeps it down, and its pages are not counted.
    #[error("its page count is an estimate until the server has reported or mapped its pages")]
    Estimate,
    /// Another server may start first and take its pages.
    #[error("{0} takes from the same pool, and no pages are planned for it")]
    Others(String),
    /// The limit of its cgroup.
    #[error("the limit of its cgroup is too small")]
    Cgroup,
    /// The limit of its cgroup is not known.
    #[error("whether its cgroup has a limit is not known")]
    CgroupUnknown,
    /// It may not have System V huge pages at its next restart or the next boot, or that is not known.
    #[error("whether it may use System V huge pages both at its next restart and after the next boot is not certain")]
    Right,
    /// kernel.shmmax, kernel.shmall or kernel.shmmni does not let it have its segments at its next restart or the next boot, or
    /// that is not known.
    #[error(
        "whether the limits of System V segments let it start both at its next restart and after the next boot is not certain"
    )]
    Segments,
    /// Its mount, its nodes, or what starts it: not the pools are in its way.
    #[error("its hugetlbfs, the nodes that it may use, or what starts it keep it from them at a start")]
    Placed,
}

/// When a server that is not told to insist yet is to, in words that follow `once`. One that Clusterware starts may be on huge pages
/// from a login's start, and down after Clusterware's.
pub fn when(host: &Host, instance: &Instance) -> &'static str {
    if given::is_limited_by_others(host, instance) {
        "a start with srvctl gets it pages"
    } else if instance.huge_pages == HugePageUse::All {
        "its next start and the next boot are sure to get huge pages too"
    } else {
        "it runs on huge pages"
    }
}

/// What the answer hangs on, looked up once for all servers of a host.
pub struct Insist<'a> {
    ask: Ask<'a>,
    /// What is planned for each server.
    sized: BTreeMap<InstanceId, &'a Sized>,
    /// The first server of each page size that asks without being planned for.
    unplanned: BTreeMap<PageSize, &'a Instance>,
    /// By how much a pool is to be too small for all that is planned for it while servers that are to leave it still hold pages
    /// of it: how many those are.
    held: BTreeMap<PageSize, PageCount>,
}

impl<'a> Insist<'a> {
    /// For the servers that are asked about, and the pages that each pool is to have.
    pub fn new(ask: Ask<'a>, pools: impl Iterator<Item = (PageSize, PageCount)>) -> Self {
        let sized: BTreeMap<_, _> = ask.sized().map(|(instance, sized)| (instance.id(), sized)).collect();
        let mut unplanned = BTreeMap::new();
        for other in ask.instances.iter().filter(|other| !sized.contains_key(&other.id())) {
            let start = starting(ask.host, other);
            for demand in start.demands.iter().filter(|_| start.asks()) {
                unplanned.entry(demand.page_size).or_insert(other);
            }
        }
        let held = pools.filter_map(|(page, pool)| {
            let all = pools::without_unmoved(&ask, page);
            let beyond = ask.held_until_restart(page);
            (pool < all + beyond).then_some((page, beyond))
        });
        Self { ask, sized, unplanned, held: held.collect() }
    }

    /// Whether a server may insist on the pages that are planned for it; `secured` where the pool of that size will have
    /// them, now and after the next boot.
    ///
    /// # Errors
    /// Why not, or not yet.
    pub fn may(&self, instance: &Instance, secured: impl Fn(PageSize) -> bool) -> Result<(), NotYet> {
        let host = self.ask.host;
        let sized = self.sized.get(&instance.id()).ok_or(NotYet::Unplanned)?;
        let page = sized.page_size;
        // No pages are planned there for one that was found to keep its own size.
        let keeps = self.ask.unmoved.contains(&instance.id()) && demand::page_size(host, instance) != Some(page);
        if keeps || !secured(page) || self.ask.sizing.is_some_and(|sizing| sizing.refusal.is_some()) {
            return Err(NotYet::Pages(page));
        }
        if let Some(held) = self.held.get(&page) {
            return Err(NotYet::Held(*held, page));
        }
        // Other memory than it has now: how much of it there will be has to be seen first.
        let other_memory = instance.asked != Asked::Cannot && starting(host, instance).asked == Asked::Cannot;
        if other_memory || sized.source.error_percent(sized.demand_pages).is_some() {
            return Err(NotYet::Estimate);
        }
        if let Some(other) = self.unplanned.get(&page) {
            return Err(NotYet::Others(other.title()));
        }
        let moments = self.ask.assessment.situation.of(instance);
        let foretold = |obstacle| {
            let at = |moment| moments.is_some_and(|it| it.at(moment).obstacle == Some(obstacle));
            Moment::ALL.into_iter().any(at)
        };
        let limits = self.ask.assessment.situation.limits();
        let short = match demand::page_size(host, instance).is_some_and(|asked| asked != page) {
            // What limits the pages that it asks for now is nothing to those that it is to have.
            true => {
                let planned = Demand { page_size: page, pages: sized.demand_pages, source: sized.source };
                let limited =
                    self.ask.sizing.is_some_and(|it| it.limited.iter().any(|of| of.instance == instance.id()));
                limits.shortage_of(instance, &planned).map(|short| short.is_some() || limited)
            }
            false => limits.shortage(host, instance).map(|short| short.is_some() || foretold(Obstacle::Cgroup)),
        };
        match short {
            Ok(false) => {}
            Ok(true) => return Err(NotYet::Cgroup),
            Err(_) => return Err(NotYet::CgroupUnknown),
        }
        match self.ask.assessment.situation.may_be_denied(instance) {
            Some(Obstacle::Segments) => return Err(NotYet::Segments),
            Some(_) => return Err(NotYet::Right),
            None => {}
        }
        // The boot's default may be the size that is planned for it.
        let is_planned = other_default(host, instance) == Some(page);
        let size = (!is_planned).then_some(Obstacle::DefaultSize);
        let in_the_way = [Obstacle::Nodes, Obstacle::Mount, Obstacle::MountOptions, Obstacle::Start];
        // Of one that does not ask yet nothing of the kind is foretold.
        let unseen = !starting(host, instance).asks() && cpuset::is_kept_to_some(host, instance, page);
        if unseen || in_the_way.into_iter().chain(size).any(foretold) { Err(NotYet::Placed) } else { Ok(()) }
    }
}
