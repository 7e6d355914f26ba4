//! The pools as they should be, before they are split over the nodes.

use hugewise_engines::Kind;
use hugewise_model::{Engine, Instance, PageCount, PageSize};

use super::wanted::{Plan, Wanted};
use super::{Ask, PoolTarget, Sized, Sizing};
use crate::demand;

/// One target a page size that is needed or there: smallest first.
pub(super) fn pools(ask: &Ask<'_>, instances: &[Instance], plan: &Plan<'_>) -> Vec<PoolTarget> {
    let there = ask.host.pools.known().map(Vec::as_slice).unwrap_or_default();
    let there = if ask.elsewhere { &[] } else { there };
    let demanded = plan.wanted.iter().flat_map(Wanted::demands);
    let mut sizes: Vec<PageSize> = demanded.map(|demand| demand.page_size).collect();
    sizes.extend(there.iter().map(|pool| pool.page_size));
    sizes.sort_unstable();
    sizes.dedup();
    let targets = sizes.into_iter().map(|page| {
        let pool = there.iter().find(|pool| pool.page_size == page);
        let here: Vec<_> = plan.wanted.iter().filter(|wanted| wanted.page() == page).collect();
        let demands = plan.wanted.iter().flat_map(Wanted::demands).filter(|demand| demand.page_size == page);
        let demand: PageCount = demands.map(|demand| demand.pages).sum();
        let of = here.iter().map(|wanted| (wanted.instance.engine, wanted.by_chance()));
        let spare_pages = spare(demand, ask.request.headroom_percent, of);
        // Whatever the servers sized here hold of this pool now is part of their demand, or free once
        // they restart on another size.
        let ours: PageCount = plan.wanted.iter().map(|wanted| demand::held(wanted.instance, page)).sum();
        let committed = pool.and_then(hugewise_model::Pool::committed).unwrap_or_default();
        let not_sized = if ask.elsewhere { PageCount::ZERO } else { left_out(instances, plan, page) };
        let to_come = ask.request.others.iter().filter(|(of, _)| *of == page).map(|(_, pages)| *pages);
        let held_by_others = committed.saturating_sub(ours).max(not_sized) + to_come.sum();
        PoolTarget {
            page_size: page,
            node: None,
            pages: demand + spare_pages + held_by_others,
            spare_pages,
            held_by_others,
            now: pool.and_then(|pool| pool.total.get()),
            room_now: None,
        }
    });
    targets.filter(|target| target.pages.max(target.now.unwrap_or_default()) > PageCount::ZERO).collect()
}

/// Pages of a pool beyond the demand of its servers, of which are given what they are and what each may take by chance.
fn spare(
    demand: PageCount,
    headroom_percent: u8,
    servers: impl Iterator<Item = (Engine, PageCount)> + Clone,
) -> PageCount {
    let headroom = (u128::from(demand.get()) * u128::from(headroom_percent)).div_ceil(100);
    // What should stay free beside them all.
    let kept_free = servers.clone().map(|(engine, _)| Kind::of(engine).start.spare).max().unwrap_or_default();
    PageCount(u64::try_from(headroom).unwrap_or(u64::MAX)) + kept_free + servers.map(|(_, by_chance)| by_chance).sum()
}

impl Sizing {
    /// Pages of a size in all pools as they should be, if some of the servers kept the pages that they have.
    pub(crate) fn pages_without(&self, page: PageSize, stays: impl Fn(&Sized) -> bool) -> PageCount {
        let planned = |all: bool| {
            let of = self.instances.iter().filter(|sized| all || !stays(sized));
            let demanded = |sized: &Sized| {
                let beside = sized.beside.iter().filter(|demand| demand.page_size == page).map(|demand| demand.pages);
                let own = if sized.page_size == page { sized.demand_pages } else { PageCount::ZERO };
                own + beside.sum()
            };
            let demand = of.clone().map(demanded).sum();
            let here = of.filter(|sized| sized.page_size == page).map(|sized| (sized.engine, sized.by_chance));
            demand + spare(demand, self.headroom_percent, here)
        };
        self.pages(page).saturating_sub(planned(true).saturating_sub(planned(false)))
    }
}

/// Pages that servers hold which are not sized.
fn left_out(instances: &[Instance], plan: &Plan<'_>, page: PageSize) -> PageCount {
    let sized = |instance: &&Instance| !plan.wanted.iter().any(|wanted| std::ptr::eq(wanted.instance, *instance));
    instances.iter().filter(sized).map(|instance| demand::held(instance, page)).sum()
}
