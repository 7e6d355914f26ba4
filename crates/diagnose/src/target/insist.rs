//! Whether a server may be told to refuse a start without huge pages, which may keep it down.

use std::collections::BTreeMap;

use hugewise_model::{
    Demand, Host, HugePageMode, HugePageUse, Instance, InstanceId, PageCount, PageSize,
};

use super::{PoolGoalInputs, pools};
use crate::demand::{self, predict_next_start};
use crate::ipc_privileges;
use crate::prediction::{Obstacle, PredictionStage, cpuset, other_default};
use crate::sizing::SizedServer;

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
    /// It may not have System V huge pages at its next restart or boot, or that is not known.
    #[error(
        "whether it may use System V huge pages both at its next restart and after the next boot \
         is not certain"
    )]
    Right,
    /// The limits of System V segments may deny it its segments at its next restart or boot.
    #[error(
        "whether the limits of System V segments let it start both at its next restart and after \
         the next boot is not certain"
    )]
    Segments,
    /// Its mount, its nodes, or what starts it: not the pools are in its way.
    #[error(
        "its hugetlbfs, the nodes that it may use, or what starts it keep it from them at a start"
    )]
    Placed,
}

/// When a server that does not insist yet is to, in words that follow `once`. One that Clusterware
/// starts may be on huge pages by a login's start, and down after Clusterware's.
pub fn describe_insist_condition(host: &Host, instance: &Instance) -> &'static str {
    if ipc_privileges::is_limited_by_others(host, instance) {
        "a start with srvctl gets it pages"
    } else if instance.huge_pages == HugePageUse::All {
        "its next start and the next boot are sure to get huge pages too"
    } else {
        "it runs on huge pages"
    }
}

/// What the answer hangs on, looked up once for all servers of a host.
pub struct Insist<'a> {
    ask: PoolGoalInputs<'a>,
    /// What is planned for each server.
    sized: BTreeMap<InstanceId, &'a SizedServer>,
    /// The first server of each page size that asks without being planned for.
    unplanned: BTreeMap<PageSize, &'a Instance>,
    /// Pages of servers that are to leave a pool, where it is too small until they do.
    held: BTreeMap<PageSize, PageCount>,
}

impl<'a> Insist<'a> {
    /// For the servers that are asked about, and the pages that each pool is to have.
    pub fn new(
        ask: PoolGoalInputs<'a>,
        pools: impl Iterator<Item = (PageSize, PageCount)>,
    ) -> Self {
        let sized: BTreeMap<_, _> =
            ask.sized_instances().map(|(instance, sized)| (instance.id(), sized)).collect();
        let mut unplanned = BTreeMap::new();
        for other in ask.instances.iter().filter(|other| !sized.contains_key(&other.id())) {
            let start = predict_next_start(ask.host, other);
            for demand in start.demands.iter().filter(|_| start.asks_for_huge_pages()) {
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

    /// Whether a server may insist on the pages that are planned for it; `secured` where the pool
    /// of that size will have them, now and after the next boot.
    ///
    /// # Errors
    /// Why not, or not yet.
    pub fn may_insist(
        &self,
        instance: &Instance,
        secured: impl Fn(PageSize) -> bool,
    ) -> Result<(), NotYet> {
        let host = self.ask.host;
        let sized = self.sized.get(&instance.id()).ok_or(NotYet::Unplanned)?;
        let page = sized.page_size;
        // No pages are planned there for one that was found to keep its own size.
        let keeps = self.ask.unmoved.contains(&instance.id())
            && demand::page_size(host, instance) != Some(page);
        if keeps || !secured(page) || self.ask.sizing.is_some_and(|sizing| sizing.refusal.is_some())
        {
            return Err(NotYet::Pages(page));
        }
        if let Some(held) = self.held.get(&page) {
            return Err(NotYet::Held(*held, page));
        }
        // Other memory than it has now: how much of it there will be has to be seen first.
        let other_memory = instance.asked != HugePageMode::Cannot
            && predict_next_start(host, instance).asked == HugePageMode::Cannot;
        if other_memory || sized.source.error_percent(sized.demand_pages).is_some() {
            return Err(NotYet::Estimate);
        }
        if let Some(other) = self.unplanned.get(&page) {
            return Err(NotYet::Others(other.title()));
        }
        let moments = self.ask.assessment.situation.forecasts_for(instance);
        let foretold = |obstacle| {
            let stages = || PredictionStage::ALL.into_iter();
            moments.is_some_and(|forecasts| {
                stages().any(|stage| forecasts.at_stage(stage).obstacle == Some(obstacle))
            })
        };
        let limits = self.ask.assessment.situation.limits();
        let short = match demand::page_size(host, instance).is_some_and(|asked| asked != page) {
            // What limits the pages that it asks for now is nothing to those that it is to have.
            true => {
                let planned =
                    Demand { page_size: page, pages: sized.demand_pages, source: sized.source };
                let limited = self.ask.sizing.is_some_and(|sizing| {
                    sizing.limited.iter().any(|limited| instance.has_id(&limited.instance))
                });
                limits.shortage_of(instance, &planned).map(|short| short.is_some() || limited)
            }
            false => limits
                .worst_shortage(host, instance)
                .map(|short| short.is_some() || foretold(Obstacle::Cgroup)),
        };
        match short {
            Ok(false) => {}
            Ok(true) => return Err(NotYet::Cgroup),
            Err(_) => return Err(NotYet::CgroupUnknown),
        }
        self.check_right_and_place(instance, page, foretold)
    }

    /// Whether its start may have System V pages, and finds them where it looks.
    fn check_right_and_place(
        &self,
        instance: &Instance,
        page: PageSize,
        foretold: impl Fn(Obstacle) -> bool,
    ) -> Result<(), NotYet> {
        let host = self.ask.host;
        match self.ask.assessment.situation.may_be_denied(instance) {
            Some(Obstacle::Segments) => return Err(NotYet::Segments),
            Some(_) => return Err(NotYet::Right),
            None => {}
        }
        // The boot's default may be the size that is planned for it.
        let is_planned = other_default(host, instance) == Some(page);
        let size = (!is_planned).then_some(Obstacle::DefaultSize);
        let in_the_way =
            [Obstacle::Nodes, Obstacle::Mount, Obstacle::MountOptions, Obstacle::Start];
        // Of one that does not ask yet nothing of the kind is foretold.
        let unseen = !predict_next_start(host, instance).asks_for_huge_pages()
            && cpuset::is_kept_to_some(host, instance, page);
        if unseen || in_the_way.into_iter().chain(size).any(foretold) {
            Err(NotYet::Placed)
        } else {
            Ok(())
        }
    }
}
