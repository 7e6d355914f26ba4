//! The pools as they should be, before they are split over the nodes.

use hugewise_engines::Kind;
use hugewise_model::instance::DemandSource;
use hugewise_model::{Instance, PageCount, PageSize};

use super::wanted::{Plan, Wanted};
use super::{Ask, PoolTarget};
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
        let headroom = PageCount(
            u64::try_from((u128::from(demand.get()) * u128::from(ask.request.headroom_percent)).div_ceil(100))
                .unwrap_or(u64::MAX),
        );
        let by_chance = here.iter().map(|wanted| by_chance(wanted, page)).sum();
        let spare_pages = headroom + demand::spare(here.iter().map(|wanted| wanted.instance)) + by_chance;
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

/// What the next start may take beyond the one that was measured, or beyond what is estimated of one that runs.
fn by_chance(wanted: &Wanted<'_>, page: PageSize) -> PageCount {
    let runs = wanted.instance.pid != 0 && wanted.next.is_none();
    if runs && matches!(wanted.demand.source, DemandSource::Estimated { .. }) {
        return wanted.demand.at_most().pages.saturating_sub(wanted.demand.pages);
    }
    if wanted.demand.source != DemandSource::Measured {
        return PageCount::ZERO;
    }
    (Kind::of(wanted.instance.engine).start.by_chance)(wanted.instance, page)
}

/// Pages that servers hold which are not sized.
fn left_out(instances: &[Instance], plan: &Plan<'_>, page: PageSize) -> PageCount {
    let sized = |instance: &&Instance| !plan.wanted.iter().any(|wanted| std::ptr::eq(wanted.instance, *instance));
    instances.iter().filter(sized).map(|instance| demand::held(instance, page)).sum()
}
