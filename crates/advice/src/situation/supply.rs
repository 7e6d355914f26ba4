//! What a server finds in the pools when it starts again alone, after its own stop.

use std::collections::BTreeMap;

use hugewise_model::{Host, HugePageUse, Instance, PageCount, PageSize};

use crate::{boot, demand};

/// Pages of a size that a server finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Supply {
    /// So many.
    Pages {
        /// Pages: the least that there are.
        pages: PageCount,
        /// The most, where what others take before it is an estimate.
        up_to: PageCount,
        /// Those of them that are sure to be there.
        sure: PageCount,
        /// What there is to say of them, to follow their number.
        note: String,
        /// The same if others take what nobody knows whether they ask for, and who that is; none where there are no such.
        perhaps: Option<(PageCount, String)>,
    },
    /// There is no such pool, for this reason.
    None(String),
    /// It cannot be told, for want of this.
    Unknown(String),
}

impl Supply {
    /// The most that there may be of it.
    pub(super) fn at_most(self) -> Self {
        match self {
            Self::Pages { pages, up_to, sure, note, perhaps } => {
                // As much of it as is there is sure to be, as far as it was asked for early.
                let sure = if sure == pages { up_to } else { sure };
                Self::Pages { pages: up_to, up_to, sure, note, perhaps }
            }
            other => other,
        }
    }
}

/// Pages that servers which run wholly on huge pages have yet to take, by page size and server: a heap that grows.
pub(super) struct Growth {
    all: BTreeMap<PageSize, PageCount>,
}

impl Growth {
    /// What others than this one have yet to take.
    fn of_others(&self, host: &Host, instance: &Instance, page: PageSize) -> PageCount {
        let all = self.all.get(&page).copied().unwrap_or_default();
        all.saturating_sub(grows_by(host, instance, page))
    }
}

pub(super) fn growth(host: &Host, instances: &[Instance]) -> Growth {
    let mut all = BTreeMap::<PageSize, PageCount>::new();
    for instance in instances.iter().filter(|instance| instance.is_vouched()) {
        if let Some(page) = demand::page_size(host, instance) {
            let sum = all.entry(page).or_default();
            *sum = *sum + grows_by(host, instance, page);
        }
    }
    Growth { all }
}

fn grows_by(host: &Host, instance: &Instance, page: PageSize) -> PageCount {
    let held = demand::held(instance, page);
    if instance.huge_pages != HugePageUse::All || held == PageCount::ZERO {
        return PageCount::ZERO;
    }
    let demand = demand::of(host, instance).filter(|demand| demand.page_size == page);
    demand.map_or(PageCount::ZERO, |demand| demand.pages.saturating_sub(held))
}

/// What a server finds of a page size when it starts again after its own stop. Pages that the pool has beyond its size go
/// with whoever holds them.
pub(super) fn after_stop(host: &Host, instance: &Instance, page: PageSize, growth: &Growth) -> Supply {
    let Some(pools) = host.pools.known() else {
        return Supply::Unknown(format!("/sys/kernel/mm/hugepages: {}", host.pools.reason().unwrap_or_default()));
    };
    let Some(pool) = pools.iter().find(|pool| pool.page_size == page) else {
        return Supply::None(format!("this kernel has no pool of {page} pages"));
    };
    let Some(available) = pool.available() else {
        return Supply::Unknown(format!("free pages of {page}: not known"));
    };
    if let Some(writer) = boot::written_by_start(host, instance, page) {
        return Supply::Unknown(format!("the pool of {page} pages at its start: {writer} sets it then"));
    }
    let surplus = pool.surplus.get().unwrap_or_default();
    // No more comes back to the pool than is taken of it, whatever is mapped of its size: what another kernel, a capture in
    // pieces or a mapping without a reservation shows.
    let taken = pool.committed();
    let held = demand::held(instance, page);
    let held = taken.map_or(held, |taken| held.min(taken));
    let gone = surplus.min(held);
    let surplus_left = surplus.saturating_sub(gone);
    let allowed = pool.overcommit.get().unwrap_or_default().saturating_sub(surplus_left);
    // What it had on base pages, and what it held of surplus pages, is memory again.
    let freed = demand::on_base_pages(instance).unwrap_or_default() + gone.of(page);
    let on_demand = demand::found_on_demand(host, page, freed).map_or(allowed, |found| allowed.min(found));
    let room = available + held.saturating_sub(gone) + on_demand;
    // They take no more than is there until this one's own come back.
    let others = growth.of_others(host, instance, page).min(available + on_demand);
    let note = match () {
        () if gone > PageCount::ZERO => {
            format!("; {gone} of those that it holds are surplus and go when it stops")
        }
        () if others > PageCount::ZERO => format!("; {others} are for servers that have yet to take them"),
        () => String::new(),
    };
    let pages = room.saturating_sub(others);
    Supply::Pages { pages, up_to: pages, sure: pages, note, perhaps: None }
}
