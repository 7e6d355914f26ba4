//! A boot with another default size of huge pages: what it makes of servers whose settings name no size.

use hugewise_engines::Kind;
use hugewise_model::{Asked, Bytes, Demand, DemandSource, Host, Instance, NextStart, PageCount, PageSize};

use super::Fit;
use super::moments::{Obstacle, Outlook};
use crate::boot;
use crate::standing::Standing;
use crate::words::one_line;

/// The default size of the next boot, where that is another one than now and decides what a server takes of the pools.
pub fn other_default(host: &Host, instance: &Instance) -> Option<PageSize> {
    let (now, then) = (host.default_huge_page.get()?, boot::default_size(host)?);
    (now != then && asks_by_default(instance, now)).then_some(then)
}

/// Whether a server asks for pages of the default size because it is that, and names none.
pub fn asks_by_default(instance: &Instance, default: PageSize) -> bool {
    instance.asked_page_size.get() == Some(default) && !(Kind::of(instance.engine).names_page_size)(instance)
}

/// The pages that a server asks for at the next boot because that has another default size, as [`other_default`] says.
pub fn at_other_default(host: &Host, instance: &Instance) -> Option<(PageSize, PageCount)> {
    let then = other_default(host, instance)?;
    let now = host.default_huge_page.get()?;
    let kind = Kind::of(instance.engine);
    if !kind.start.any_page_size || kind.start.not_with_default == Some(then) {
        return None;
    }
    let start = super::starting(host, instance);
    let asked = start.demands.iter().find(|demand| demand.page_size == now).filter(|_| start.asks())?;
    Some((then, pages(instance, asked.at_most().pages.of(now), then)))
}

/// Whether everybody here who asks for pages of a size, and there is somebody, asks for another at the next boot.
pub fn all_leave(host: &Host, instances: &[Instance], page: PageSize) -> bool {
    let of_page = || instances.iter().filter(|it| crate::demand::page_size(host, it) == Some(page));
    let of_page = || of_page().filter(|it| super::starting(host, it).asks());
    of_page().next().is_some() && of_page().all(|it| at_other_default(host, it).is_some())
}

/// Pages of a size that servers ask for at the next boot because it is its default, and who does.
pub fn arriving<'a>(host: &Host, instances: &'a [Instance], page: PageSize) -> (PageCount, Vec<&'a Instance>) {
    let all = instances.iter().filter_map(|it| Some((at_other_default(host, it)?, it)));
    let of_page: Vec<_> = all.filter(|((then, _), _)| *then == page).collect();
    let pages = of_page.iter().map(|((_, pages), _)| *pages).sum();
    (pages, of_page.into_iter().map(|(_, instance)| instance).collect())
}

/// What a server asks for where the boot's default is not the one that it starts with now.
pub(super) fn at_boot(booted: &Host, instance: &Instance, start: &NextStart) -> Fit {
    let (Some(now), Some(then)) = (booted.default_huge_page.get(), boot::default_size(booted)) else {
        return Fit::Fits;
    };
    let kind = Kind::of(instance.engine);
    let of_default = start.demands.iter().any(|demand| demand.page_size == now);
    if now == then || !start.asks() || !of_default || (kind.names_page_size)(instance) {
        return Fit::Fits;
    }
    let change = one_line(&format!("the default page size after the boot is {then}, and its settings name no size"));
    if kind.start.not_with_default == Some(then) {
        return ends(refused(start.asked), format!("{change}: it does not use such a default"));
    }
    if !kind.start.any_page_size {
        return ends(Standing::Unknown, format!("{change}: what it takes of those is not known"));
    }
    let mut moved = start.clone();
    for demand in moved.demands.iter_mut().filter(|demand| demand.page_size == now) {
        *demand = on(instance, demand, then);
    }
    Fit::Moves(moved, change, Obstacle::DefaultSize)
}

const fn refused(asked: Asked) -> Standing {
    if matches!(asked, Asked::Must) { Standing::DoesNotStart } else { Standing::None }
}

fn ends(standing: Standing, why: String) -> Fit {
    let obstacle = (standing != Standing::Unknown).then_some(Obstacle::DefaultSize);
    Fit::Ends(Outlook { standing, why: Some(why), obstacle })
}

/// A demand on pages of another size. What an estimate may be off is a part of its memory, and may be no page of these.
fn on(instance: &Instance, demand: &Demand, page: PageSize) -> Demand {
    let of = |demand: &Demand| pages(instance, demand.pages.of(demand.page_size), page);
    let is_open = of(&demand.at_least()) != of(&demand.at_most());
    let source = match demand.source {
        DemandSource::Estimated { .. } if !is_open => DemandSource::Estimated { error_percent: 0 },
        DemandSource::Enough { .. } => DemandSource::Enough { least: of(&demand.at_least()) },
        source => source,
    };
    Demand { page_size: page, pages: of(demand), source }
}

/// What its memory comes to on pages of another size: by what is mapped, where that is what it asks for again.
fn pages(instance: &Instance, asked: Bytes, page: PageSize) -> PageCount {
    let mapped = instance.segment_bytes();
    let same = instance.next.known().is_none_or(|next| next.demands.is_empty()) && mapped > Bytes::ZERO;
    page.pages_for(if same { mapped.min(asked) } else { asked })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PostgreSQL with shared_buffers=512MB comes to 274 pages of 2 MiB, two in a hundred more or less: 1 page of 1 GiB in any case.
    /// 514 pages are 1008 to 1050 MiB: 1 or 2.
    #[test]
    fn an_estimate_that_comes_to_the_same_pages_in_any_case_is_none() {
        let mut case = crate::testing::quiet();
        let instance = case.postgresql("15/main", crate::testing::gib(2));
        let demand = |pages, error_percent| Demand {
            page_size: PageSize::MIB_2,
            pages: PageCount(pages),
            source: DemandSource::Estimated { error_percent },
        };
        let start = NextStart { asked: Asked::Try, setting: None, demands: vec![demand(274, 2)] };
        instance.next = hugewise_model::Observed::Known(start);
        let sure = on(instance, &demand(274, 2), PageSize::GIB_1);
        assert_eq!((sure.at_least().pages, sure.at_most().pages), (PageCount(1), PageCount(1)));
        let open = on(instance, &demand(514, 2), PageSize::GIB_1);
        assert_eq!((open.pages, open.source), (PageCount(2), DemandSource::Estimated { error_percent: 2 }));
    }
}
