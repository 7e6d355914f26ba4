//! A boot with another default size of huge pages, for servers whose settings name no size.

use hugewise_engines::EngineKind;
use hugewise_model::{Bytes, Demand, DemandSource, Host, Instance, NextStart, PageCount, PageSize};

use super::stages::{Obstacle, StageForecast};
use super::start::{StartFit, coverage_without_pages};
use crate::demand::predict_next_start;
use crate::{boot, demand};

/// The default size of the next boot, where it differs and decides what a server takes of pools.
pub fn other_default(host: &Host, instance: &Instance) -> Option<PageSize> {
    let (now, then) = (host.default_huge_page.get()?, boot::default_size(host)?);
    (now != then && asks_by_default(instance, now)).then_some(then)
}

/// Whether a server asks for pages of the default size because it is that, and names none.
pub(crate) fn asks_by_default(instance: &Instance, default: PageSize) -> bool {
    instance.asked_page_size.get() == Some(default)
        && !(EngineKind::for_engine(instance.engine).page_size.is_named)(instance)
}

/// The pages that a server asks for at the next boot because that has [`other_default`].
pub(crate) fn at_other_default(host: &Host, instance: &Instance) -> Option<(PageSize, PageCount)> {
    let then = other_default(host, instance)?;
    let now = host.default_huge_page.get()?;
    let kind = EngineKind::for_engine(instance.engine);
    if !kind.start.any_page_size || kind.start.not_with_default == Some(then) {
        return None;
    }
    let start = predict_next_start(host, instance);
    let asked = start
        .demands
        .iter()
        .find(|demand| demand.page_size == now)
        .filter(|_| start.asks_for_huge_pages())?;
    Some((then, pages_on_size(instance, asked.at_most().pages.to_bytes(now), then)))
}

/// Whether somebody asks for pages of a size, and everybody who does asks for another at the boot, or
/// makes its own.
pub(crate) fn all_leave(host: &Host, instances: &[Instance], page: PageSize) -> bool {
    let asks = |instance: &&Instance| {
        demand::page_size(host, instance) == Some(page)
            && predict_next_start(host, instance).asks_for_huge_pages()
    };
    let mut asking = instances.iter().filter(asks).peekable();
    asking.peek().is_some()
        && asking.all(|instance| {
            demand::makes_own_pages(instance) || at_other_default(host, instance).is_some()
        })
}

/// Pages of a size that servers ask for at the next boot because it is its default, and who does.
pub(crate) fn arriving_at_default<'a>(
    host: &Host,
    instances: &'a [Instance],
    page: PageSize,
) -> (PageCount, Vec<&'a Instance>) {
    let all =
        instances.iter().filter_map(|instance| Some((at_other_default(host, instance)?, instance)));
    let of_page: Vec<_> = all.filter(|((then, _), _)| *then == page).collect();
    let pages = of_page.iter().map(|((_, pages), _)| *pages).sum();
    (pages, of_page.into_iter().map(|(_, instance)| instance).collect())
}

pub(super) fn at_boot(booted: &Host, instance: &Instance, start: &NextStart) -> StartFit {
    let (Some(now), Some(then)) = (booted.default_huge_page.get(), boot::default_size(booted))
    else {
        return StartFit::Fits;
    };
    let kind = EngineKind::for_engine(instance.engine);
    let of_default = start.demands.iter().any(|demand| demand.page_size == now);
    if now == then
        || !start.asks_for_huge_pages()
        || !of_default
        || (kind.page_size.is_named)(instance)
    {
        return StartFit::Fits;
    }
    let change =
        format!("the default page size after the boot is {then}, and its settings name no size");
    if kind.start.not_with_default == Some(then) {
        let why = format!("{change}: it does not use such a default");
        let coverage = coverage_without_pages(start.asked);
        return StartFit::Ends(StageForecast::blocked(coverage, Obstacle::DefaultSize, why));
    }
    if !kind.start.any_page_size {
        let why = format!("{change}: what it takes of those is not known");
        return StartFit::Ends(StageForecast::unknown(why));
    }
    let mut moved = start.clone();
    for demand in moved.demands.iter_mut().filter(|demand| demand.page_size == now) {
        *demand = demand_on_size(instance, demand, then);
    }
    StartFit::Moves { request: moved, reason: change, obstacle: Obstacle::DefaultSize }
}

/// A demand on pages of another size. What an estimate may be off may be no page of these.
fn demand_on_size(instance: &Instance, demand: &Demand, page: PageSize) -> Demand {
    let pages_of =
        |demand: &Demand| pages_on_size(instance, demand.pages.to_bytes(demand.page_size), page);
    let is_open = pages_of(&demand.at_least()) != pages_of(&demand.at_most());
    let source = match demand.source {
        DemandSource::Estimated { .. } if !is_open => DemandSource::Estimated { error_percent: 0 },
        DemandSource::Enough { .. } => DemandSource::Enough { least: pages_of(&demand.at_least()) },
        source => source,
    };
    Demand { page_size: page, pages: pages_of(demand), source }
}

/// By what is mapped, where that is what it asks for again.
fn pages_on_size(instance: &Instance, asked: Bytes, page: PageSize) -> PageCount {
    let mapped = instance.segment_bytes();
    let same =
        instance.next.as_known().is_none_or(|next| next.demands.is_empty()) && mapped > Bytes::ZERO;
    page.pages_for(if same { mapped.min(asked) } else { asked })
}

#[cfg(test)]
mod tests {
    use hugewise_model::HugePageMode;

    use super::*;

    /// PostgreSQL with shared_buffers=512MB comes to 274 pages of 2 MiB, two in a hundred more or
    /// less: 1 page of 1 GiB in any case. 514 pages are 1008 to 1050 MiB: 1 or 2.
    #[test]
    fn an_estimate_that_comes_to_the_same_pages_in_any_case_is_none() {
        let mut case = crate::testing::quiet();
        let instance = case.postgresql("15/main", crate::testing::gib(2));
        let demand = |pages, error_percent| Demand {
            page_size: PageSize::MIB_2,
            pages: PageCount(pages),
            source: DemandSource::Estimated { error_percent },
        };
        let start =
            NextStart { asked: HugePageMode::Try, setting: None, demands: vec![demand(274, 2)] };
        instance.next = hugewise_model::Observed::Known(start);
        let sure = demand_on_size(instance, &demand(274, 2), PageSize::GIB_1);
        assert_eq!((sure.at_least().pages, sure.at_most().pages), (PageCount(1), PageCount(1)));
        let open = demand_on_size(instance, &demand(514, 2), PageSize::GIB_1);
        assert_eq!(
            (open.pages, open.source),
            (PageCount(2), DemandSource::Estimated { error_percent: 2 })
        );
    }
}
