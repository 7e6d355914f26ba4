//! What a server finds in the pools when it starts again alone, after its own stop.

use std::collections::BTreeMap;

use hugewise_model::{Host, HugePageUse, Instance, PageCount, PageSize};

use super::stages::Obstacle;
use crate::{boot, demand};

pub(super) type Supply = Result<FoundPages, NoSupply>;

pub(super) type Supplies = BTreeMap<PageSize, Supply>;

#[derive(Clone, Debug)]
pub(super) struct FoundPages {
    pub(super) pages: PageCount,
    /// The most, where what others take before it is an estimate.
    pub(super) up_to: PageCount,
    pub(super) sure: PageCount,
    /// What there is to say of them, to follow their number.
    pub(super) note: String,
    /// What is left of them if others take what nobody knows whether they ask for.
    pub(super) perhaps: Vec<PerhapsTaken>,
    pub(super) limited_by_nodes: bool,
}

#[derive(Clone, Debug)]
pub(super) struct PerhapsTaken {
    pub(super) left: PageCount,
    /// Who may take the others.
    pub(super) why: String,
    pub(super) obstacle: Option<Obstacle>,
}

#[derive(Clone, Debug)]
pub(super) enum NoSupply {
    NoPool(String),
    Unknown(String),
}

impl FoundPages {
    pub(super) const fn new(pages: PageCount, note: String) -> Self {
        Self {
            pages,
            up_to: pages,
            sure: pages,
            note,
            perhaps: Vec::new(),
            limited_by_nodes: false,
        }
    }

    /// Whether others may take some of them, or they may come too late.
    pub(super) fn is_doubtful(&self) -> bool {
        self.sure < self.pages || !self.perhaps.is_empty()
    }

    pub(super) fn without_doubt(&self) -> Self {
        Self { sure: self.pages, perhaps: Vec::new(), ..self.clone() }
    }

    /// What is left of them whatever others take.
    pub(super) fn at_worst(&self) -> Self {
        let left = self.perhaps.iter().map(|taken| taken.left).min().unwrap_or(self.sure);
        let pages = left.min(self.sure);
        Self { pages, up_to: pages, sure: pages, perhaps: Vec::new(), ..self.clone() }
    }

    pub(super) fn at_most(&self) -> Self {
        // As much of it as is there is sure to be, as far as it was asked for early.
        let sure = if self.sure == self.pages { self.up_to } else { self.sure };
        Self { pages: self.up_to, sure, ..self.clone() }
    }
}

pub(super) fn explain_no_pool(host: &Host, page: PageSize) -> NoSupply {
    match host.pools.reason_text() {
        Some(reason) => NoSupply::Unknown(format!("/sys/kernel/mm/hugepages: {reason}")),
        None => NoSupply::NoPool(format!("this kernel has no pool of {page} pages")),
    }
}

/// Pages that servers which run wholly on huge pages have yet to take, by page size.
pub(super) struct PendingGrowth(BTreeMap<PageSize, PageCount>);

impl PendingGrowth {
    pub(super) fn predict(host: &Host, instances: &[Instance]) -> Self {
        let mut all = BTreeMap::<PageSize, PageCount>::new();
        for instance in instances.iter().filter(|instance| instance.is_trusted()) {
            if let Some(page) = demand::page_size(host, instance) {
                let sum = all.entry(page).or_default();
                *sum = *sum + grows_by(host, instance, page);
            }
        }
        Self(all)
    }

    fn of_others(&self, host: &Host, instance: &Instance, page: PageSize) -> PageCount {
        let all = self.0.get(&page).copied().unwrap_or_default();
        all.saturating_sub(grows_by(host, instance, page))
    }
}

fn grows_by(host: &Host, instance: &Instance, page: PageSize) -> PageCount {
    let held = demand::pages_mapped(instance, page);
    if instance.huge_pages != HugePageUse::All || held == PageCount::ZERO {
        return PageCount::ZERO;
    }
    let demand = demand::find_demand(host, instance).filter(|demand| demand.page_size == page);
    demand.map_or(PageCount::ZERO, |demand| demand.pages.saturating_sub(held))
}

/// Surplus pages of the pool go with whoever holds them.
pub(super) fn find_after_stop(
    host: &Host,
    instance: &Instance,
    page: PageSize,
    growth: &PendingGrowth,
) -> Supply {
    let pool = host.find_pool(page).ok_or_else(|| explain_no_pool(host, page))?;
    let available = pool
        .available_pages()
        .ok_or_else(|| NoSupply::Unknown(format!("free pages of {page}: not known")))?;
    if let Some(writer) = boot::written_by_start(host, instance, page) {
        return Err(NoSupply::Unknown(format!(
            "the pool of {page} pages at its start: {writer} sets it then"
        )));
    }
    let surplus = pool.surplus.get().unwrap_or_default();
    // No more comes back to the pool than is taken of it, whatever is mapped of its size: what
    // another kernel, a capture in pieces or a mapping without a reservation shows.
    let held = demand::pages_mapped(instance, page);
    let held = pool.committed_pages().map_or(held, |taken| held.min(taken));
    let gone = surplus.min(held);
    let allowed =
        pool.overcommit.get().unwrap_or_default().saturating_sub(surplus.saturating_sub(gone));
    // What it had on base pages, and what it held of surplus pages, is memory again.
    let freed = demand::on_base_pages(instance).unwrap_or_default() + gone.to_bytes(page);
    let on_demand =
        demand::found_on_demand(host, page, freed).map_or(allowed, |found| allowed.min(found));
    // Others take no more than is there until this one's own come back.
    let others = growth.of_others(host, instance, page).min(available + on_demand);
    let pages = (available + held.saturating_sub(gone) + on_demand).saturating_sub(others);
    let note = if gone > PageCount::ZERO {
        format!("; {gone} of those that it holds are surplus and go when it stops")
    } else if others > PageCount::ZERO {
        format!("; {others} are for servers that have yet to take them")
    } else {
        String::new()
    };
    Ok(FoundPages::new(pages, note))
}
