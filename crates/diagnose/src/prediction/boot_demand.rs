//! Who asks for pages at the next boot, and for how many.

use std::collections::BTreeMap;

use hugewise_engines::OtherHolders;
use hugewise_model::{
    Demand, Host, HugePageMode, Instance, InstanceId, NextStart, PageCount, PageSize, Pool,
};

use super::booted_host::BootGround;
use super::mount::fit_booted_mounts;
use super::segments::{self, SegmentTotals};
use super::start::{self, StartFit};
use super::{claim, default_size, startup};
use crate::demand;
use crate::demand::starting_at_boot;
use crate::ipc_privileges;
use crate::starting_order::{AskingServer, AskingServers};

pub(super) struct BootDemand {
    pub(super) pages: BTreeMap<PageSize, PoolDemand>,
    /// Of each hugetlb limit of cgroups, in their order, what the pool has and who asks below it.
    pub(super) below_limits: Vec<(PageCount, AskingServers)>,
    /// What programs that are no known servers hold now, by page size.
    pub(super) strangers: BTreeMap<PageSize, OtherHolders>,
    segment_pages: AskingServers,
    segment_counts: BTreeMap<InstanceId, u64>,
    all_segments: u64,
}

#[derive(Default)]
pub(super) struct PoolDemand {
    pub(super) possible: AskingServers,
    pub(super) sure: AskingServers,
    doubtful: Vec<(InstanceId, Doubt)>,
}

#[derive(Clone, Copy)]
enum Doubt {
    /// What its settings ask for: what it needs now may be that.
    Settings,
    Start,
}

type PossibleDemand = (AskingServer, Option<Doubt>);

impl PoolDemand {
    fn new(demands: Vec<PossibleDemand>) -> Self {
        let doubt = |(server, doubt): &PossibleDemand| Some((server.instance.clone(), (*doubt)?));
        Self {
            doubtful: demands.iter().filter_map(doubt).collect(),
            sure: surely_asking(&demands).cloned().collect(),
            possible: demands.into_iter().map(|(server, _)| server).collect(),
        }
    }

    pub(super) fn doubt_of_others(&self, instance: &InstanceId) -> Option<String> {
        let (other, doubt) = self.doubtful.iter().find(|(other, _)| other != instance)?;
        Some(match doubt {
            Doubt::Start => format!("whether the boot starts {other} is not known"),
            Doubt::Settings => format!("what {other} asks for at the boot is not known"),
        })
    }
}

/// A mapping is no more than a claim where nothing was reserved for it: no more counts than the
/// pool has given to others than known servers.
fn find_strangers(host: &Host, instances: &[Instance]) -> BTreeMap<PageSize, OtherHolders> {
    let known = || instances.iter().filter(|instance| instance.is_trusted());
    let mut holders = hugewise_engines::find_other_holders(host, known());
    for (page, holders) in &mut holders {
        let own: PageCount = known().map(|instance| demand::pages_mapped(instance, *page)).sum();
        let given = host.find_pool(*page).and_then(Pool::committed_pages).unwrap_or_default();
        holders.pages = holders.pages.min(given.saturating_sub(own));
    }
    holders.retain(|_, holders| holders.pages > PageCount::ZERO);
    holders
}

fn surely_asking(demands: &[PossibleDemand]) -> impl Iterator<Item = &AskingServer> {
    demands.iter().filter(|(_, doubt)| doubt.is_none()).map(|(server, _)| server)
}

impl BootDemand {
    pub(super) fn collect(ground: &BootGround<'_>, instances: &[Instance]) -> Self {
        let mut pages = BTreeMap::<PageSize, Vec<PossibleDemand>>::new();
        let (mut segment_pages, mut segment_counts) = (Vec::new(), BTreeMap::new());
        let is_started = |instance: &&Instance| {
            instance.is_trusted()
                && startup::predict_never_started(instance).is_none()
                && !instance.waits_for_hands()
        };
        for instance in instances.iter().filter(is_started) {
            let start = starting_at_boot(ground.host, instance);
            if let Some(base) = ground.host.base_page.get().filter(|_| segments::is_asked(instance))
            {
                let wanted = segments::base_pages_wanted(&start, base);
                segment_pages.push(all_or_nothing(instance, wanted));
                let fewest = segments::fewest_segments(ground.host, instance);
                segment_counts.insert(instance.id(), fewest);
            }
            for (page, demand) in ground.find_demands(instance, start) {
                pages.entry(page).or_default().push(demand);
            }
        }
        let sure = pages
            .iter()
            .flat_map(|(page, demands)| surely_asking(demands).map(|server| (*page, server)));
        Self {
            below_limits: ground.limits.asking_below(sure, |page| ground.pools.pages(page)),
            pages: pages.into_iter().map(|(page, all)| (page, PoolDemand::new(all))).collect(),
            strangers: find_strangers(ground.host, instances),
            segment_pages: segment_pages.into_iter().collect(),
            all_segments: segment_counts.values().fold(0, |sum, count| sum.saturating_add(*count)),
            segment_counts,
        }
    }

    /// What the segments of others than this instance come to, in the worst order.
    pub(super) fn segments_of_others(&self, id: &InstanceId, allowed: PageCount) -> SegmentTotals {
        let own = self.segment_counts.get(id).copied().unwrap_or_default();
        SegmentTotals {
            pages: self.segment_pages.without(id).most_taken(allowed),
            count: self.all_segments.saturating_sub(own),
        }
    }
}

impl BootGround<'_> {
    fn find_demands(
        &self,
        instance: &Instance,
        start: NextStart,
    ) -> Vec<(PageSize, PossibleDemand)> {
        let is_unread = start.asked == HugePageMode::Unknown;
        let privileges = || ipc_privileges::at_boot(&self.booted, instance);
        if !(is_unread || start.asks_for_huge_pages())
            || start::is_refused(&self.booted, instance, &privileges())
        {
            return Vec::new();
        }
        let start = match fit_booted_mounts(&self.booted, &self.hugetlbfs, instance, &start) {
            StartFit::Fits => start,
            StartFit::Moves { request, .. } => request,
            StartFit::Ends(forecast) => {
                // It may take any of the size that is the default then.
                let page = default_size::other_default(self.host, instance)
                    .filter(|_| forecast.rank().is_none());
                let any = all_or_nothing(instance, PageCount(u32::MAX.into()));
                let any = AskingServer { takes_part: true, ..any };
                return page.map(|page| (page, (any, Some(Doubt::Settings)))).into_iter().collect();
            }
        };
        let unread = if is_unread { claim::of_unread(self.host, instance) } else { None };
        let doubt = match is_unread {
            true => Some(Doubt::Settings),
            false => (!startup::is_surely_started(instance)).then_some(Doubt::Start),
        };
        let asking = |demand: &Demand| {
            Some((demand.page_size, (self.find_demand(instance, &start, demand)?, doubt)))
        };
        start.demands.iter().chain(&unread).filter_map(asking).collect()
    }

    /// What a server takes of a pool for one of its demands; none where a limit refuses it all.
    fn find_demand(
        &self,
        instance: &Instance,
        start: &NextStart,
        demand: &Demand,
    ) -> Option<AskingServer> {
        let (page, pages) = (demand.page_size, demand.pages);
        let (least, most) = (demand.at_least().pages, demand.at_most().pages);
        let limit = self.limits.most_reserved(instance, page);
        let asking = |pages, least, most, takes_part| {
            Some(AskingServer { instance: instance.id(), pages, least, most, takes_part })
        };
        let memory = self.pools.memory_of_last(self.host, instance);
        if start::can_raise_pool(memory, start, most, page) {
            // One that raises the pool takes no more of it than is there to stay, and leaves others
            // what is on demand and what its limit keeps from it.
            let there = self.pools.foretold(page).map(|pool| pool.persistent).unwrap_or_default();
            let takes = |asked: PageCount| {
                there.min(asked).saturating_sub(asked.saturating_sub(limit.unwrap_or(asked)))
            };
            let (one, pages, other) = (takes(least), takes(pages), takes(most));
            return asking(pages, one.min(pages).min(other), one.max(pages).max(other), true);
        }
        // One that grows is content with what it begins with, and takes what it finds of the rest.
        let less = pages.saturating_sub(PageCount(1)).min(self.pools.pages(page));
        let takes_part =
            start::takes_part(instance, start) || start::can_begin(instance, page, less, pages);
        // Beyond what its own cgroup may have reserved, it takes a part or none.
        match limit.filter(|limit| *limit < most) {
            None => asking(pages, least, most, takes_part),
            Some(limit) if takes_part && limit >= segments::smallest_piece(instance, page) => {
                asking(pages.min(limit), least.min(limit), limit, true)
            }
            // By what its settings come to in truth it is refused or not.
            Some(limit) if limit >= least => {
                asking(pages.min(limit), PageCount::ZERO, limit, takes_part)
            }
            Some(_) => None,
        }
    }
}

fn all_or_nothing(instance: &Instance, pages: PageCount) -> AskingServer {
    let instance = instance.id();
    AskingServer { instance, pages, least: pages, most: pages, takes_part: false }
}
