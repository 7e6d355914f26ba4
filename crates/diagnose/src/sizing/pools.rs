//! The pools as they should be, before they are split over the nodes.

use hugewise_engines::EngineKind;
use hugewise_model::{Engine, Instance, PageCount, PageSize};

use super::planned_servers::{PlannedServer, SizingPlan};
use super::{PoolSizeTarget, SizedServer, Sizing, SizingContext};
use crate::demand;

pub(super) fn target_pools(ask: &SizingContext<'_>, instances: &[Instance]) -> Vec<PoolSizeTarget> {
    let there = ask.host.pools.as_known().map(Vec::as_slice).unwrap_or_default();
    let there = if ask.elsewhere { &[] } else { there };
    let demanded = ask.plan.wanted.iter().flat_map(PlannedServer::demands);
    let mut sizes: Vec<PageSize> = demanded.map(|demand| demand.page_size).collect();
    sizes.extend(there.iter().map(|pool| pool.page_size));
    sizes.sort_unstable();
    sizes.dedup();
    let targets = sizes.into_iter().map(|page| {
        let pool = there.iter().find(|pool| pool.page_size == page);
        let wanted = ask.plan.wanted.iter();
        let demands = wanted.clone().flat_map(PlannedServer::demands);
        let demands = demands.filter(|demand| demand.page_size == page);
        let demand: PageCount = demands.map(|demand| demand.pages).sum();
        let here = wanted.clone().filter(|wanted| wanted.page_size() == page);
        let here = here.map(|wanted| (wanted.instance.engine, wanted.by_chance()));
        let spare_pages = headroom_pages(demand, ask.request.headroom_percent, here);
        // What these servers hold is part of their demand, or free once they restart on another
        // size.
        let ours: PageCount = wanted.map(|wanted| demand::pages_held(wanted.instance, page)).sum();
        let committed = pool.and_then(hugewise_model::Pool::committed_pages).unwrap_or_default();
        let not_sized =
            if ask.elsewhere { PageCount::ZERO } else { left_out(instances, ask.plan, page) };
        let to_come = ask.request.others.iter().filter(|(page_size, _)| *page_size == page);
        let to_come = to_come.map(|(_, pages)| *pages);
        let held_by_others = committed.saturating_sub(ours).max(not_sized) + to_come.sum();
        PoolSizeTarget {
            page_size: page,
            node: None,
            pages: demand + spare_pages + held_by_others,
            spare_pages,
            held_by_others,
            now: pool.and_then(|pool| pool.total.get()),
            room_now: None,
        }
    });
    targets
        .filter(|target| target.pages.max(target.now.unwrap_or_default()) > PageCount::ZERO)
        .collect()
}

/// Pages of a pool beyond the demand of its servers, each with what it may take by chance.
fn headroom_pages(
    demand: PageCount,
    headroom_percent: u8,
    servers: impl Iterator<Item = (Engine, PageCount)> + Clone,
) -> PageCount {
    let headroom = (u128::from(demand.get()) * u128::from(headroom_percent)).div_ceil(100);
    let kept_free = servers
        .clone()
        .map(|(engine, _)| EngineKind::for_engine(engine).start.spare)
        .max()
        .unwrap_or_default();
    PageCount(u64::try_from(headroom).unwrap_or(u64::MAX))
        + kept_free
        + servers.map(|(_, by_chance)| by_chance).sum()
}

impl Sizing {
    /// Pages of a size in all pools, if some of the servers kept the pages that they have.
    pub(crate) fn pages_without(
        &self,
        page: PageSize,
        stays: impl Fn(&SizedServer) -> bool,
    ) -> PageCount {
        let planned = |all: bool| {
            let counted = self.instances.iter().filter(|sized| all || !stays(sized));
            let demanded = |sized: &SizedServer| {
                let beside = sized.beside.iter().filter(|demand| demand.page_size == page);
                let own =
                    if sized.page_size == page { sized.demand_pages } else { PageCount::ZERO };
                own + beside.map(|demand| demand.pages).sum()
            };
            let demand = counted.clone().map(demanded).sum();
            let here = counted.filter(|sized| sized.page_size == page);
            let here = here.map(|sized| (sized.engine, sized.by_chance));
            demand + headroom_pages(demand, self.headroom_percent, here)
        };
        self.pages_of_size(page).saturating_sub(planned(true).saturating_sub(planned(false)))
    }
}

fn left_out(instances: &[Instance], plan: &SizingPlan<'_>, page: PageSize) -> PageCount {
    let sized = |instance: &&Instance| {
        !plan.wanted.iter().any(|wanted| std::ptr::eq(wanted.instance, *instance))
    };
    instances.iter().filter(sized).map(|instance| demand::pages_held(instance, page)).sum()
}
