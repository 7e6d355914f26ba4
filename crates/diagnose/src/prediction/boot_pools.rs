//! The pools that the files of the next boot bring, and the memory beside them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use hugewise_model::{Bytes, Host, Instance, PageCount, PageSize};

use super::supply::{NoSupply, explain_no_pool};
use crate::boot::BootStep;
use crate::{Missing, boot, demand};

pub(super) struct BootPools {
    pools: BTreeMap<PageSize, Result<BootPool, Unforetold>>,
    /// By the files made for it, of a pool that something else writes too.
    by_files: BTreeMap<PageSize, BootPool>,
    /// Memory that they take; none where that is not foretold of one.
    memory: Option<Bytes>,
}

#[derive(Clone)]
pub(super) struct BootPool {
    pub(super) persistent: PageCount,
    /// Those, and the ones that it may grow by on demand.
    pub(super) pages: PageCount,
    pub(super) place: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Unforetold {
    #[error(
        "the next boot sets aside {asked} for huge pages out of {memory} of memory: the host may \
             not come up"
    )]
    Crowded { asked: Bytes, memory: Bytes },
    #[error(transparent)]
    Missing(Missing),
}

impl BootPools {
    pub(super) fn predict(host: &Host) -> Self {
        let sizes = || host.pools.as_known().into_iter().flatten().map(|pool| pool.page_size);
        let brought_of = |page| {
            let steps = boot::predict_pool_steps(host, page).unwrap_or_default();
            persistent_pages(host, page, &steps).to_bytes(page)
        };
        let brought: Bytes = sizes().map(brought_of).sum();
        let deadly =
            boot::predict_crowding(host).ok().flatten().filter(|crowding| crowding.is_deadly);
        let predict = |page| match &deadly {
            Some(crowding) => {
                Err(Unforetold::Crowded { asked: crowding.asked, memory: crowding.memory })
            }
            None => BootPool::predict(host, page, boot::predict_pool_steps(host, page), brought)
                .map_err(Unforetold::Missing),
        };
        let pools: BTreeMap<_, _> = sizes().map(|page| (page, predict(page))).collect();
        let written = sizes().filter(|page| deadly.is_none() && boot::is_written(host, *page));
        let by_files = written.filter_map(|page| {
            let pool = BootPool::predict(host, page, boot::pool_of_files(host, page), brought);
            Some((page, pool.ok()?))
        });
        let memory = pools.values().all(Result::is_ok).then_some(brought);
        Self { by_files: by_files.collect(), pools, memory }
    }

    /// Memory beside the pools for a server that starts first and raises a pool itself.
    pub(super) fn memory_of_first(&self, host: &Host) -> Option<Bytes> {
        Some(boot::predict_memory(host).ok()?.saturating_sub(self.memory?))
    }

    /// What others hold of pools now, and the boot brings no pages for, is on base pages then.
    pub(super) fn memory_of_last(&self, host: &Host, instance: &Instance) -> Option<Bytes> {
        let brought = self.memory?;
        let (mut pools, mut committed, mut own) = (Bytes::ZERO, Bytes::ZERO, Bytes::ZERO);
        for pool in host.pools.as_known()? {
            pools += pool.memory_bytes()?;
            committed += pool.committed_pages()?.to_bytes(pool.page_size);
            own += demand::pages_mapped(instance, pool.page_size).to_bytes(pool.page_size);
        }
        let fallen = committed.saturating_sub(own).saturating_sub(brought);
        Some((host.obtainable_memory()?.bytes + pools).saturating_sub(brought + fallen))
    }

    pub(super) fn foretold(&self, page: PageSize) -> Option<&BootPool> {
        self.pools.get(&page)?.as_ref().ok()
    }

    pub(super) fn pages(&self, page: PageSize) -> PageCount {
        self.foretold(page).map(|pool| pool.pages).unwrap_or_default()
    }

    /// What a server finds: whoever starts before a line that writes the pool finds it without.
    pub(super) fn find(
        &self,
        host: &Host,
        instance: &Instance,
        page: PageSize,
    ) -> Result<Cow<'_, BootPool>, NoSupply> {
        let late = boot::find_late_writer(host, instance, page);
        if let Some((writer, pool)) = late.zip(self.by_files.get(&page)) {
            let place = format!("{}, and {writer} comes after its start", pool.place);
            return Ok(Cow::Owned(BootPool { place, ..pool.clone() }));
        }
        match self.pools.get(&page) {
            Some(Ok(pool)) => Ok(Cow::Borrowed(pool)),
            Some(Err(why)) => Err(NoSupply::Unknown(why.to_string())),
            None => Err(explain_no_pool(host, page)),
        }
    }
}

impl BootPool {
    fn predict(
        host: &Host,
        page: PageSize,
        steps: Result<Vec<BootStep<u64>>, Missing>,
        brought: Bytes,
    ) -> Result<Self, Missing> {
        let steps = steps?;
        let place = steps
            .last()
            .map_or_else(|| boot::nothing_sets(host, page), |step| step.place.to_string());
        let persistent = persistent_pages(host, page, &steps);
        Ok(Self { persistent, pages: persistent + on_demand_pages(host, page, brought), place })
    }
}

/// Pages of a size that the boot's files bring to stay, as many as there is memory for.
fn persistent_pages(host: &Host, page: PageSize, steps: &[BootStep<u64>]) -> PageCount {
    let pages = steps.last().map(|step| PageCount(step.value)).unwrap_or_default();
    boot::predict_memory(host).map_or(pages, |memory| pages.min(pages_in(memory, page)))
}

/// Pages on demand of a size, as far as there is memory for them beside what all pools bring.
fn on_demand_pages(host: &Host, page: PageSize, brought: Bytes) -> PageCount {
    let steps = boot::predict_overcommit(host, page).unwrap_or_default();
    let allowed = steps.last().map(|step| PageCount(step.value)).unwrap_or_default();
    boot::predict_memory(host)
        .map_or(allowed, |memory| allowed.min(pages_in(memory.saturating_sub(brought), page)))
}

const fn pages_in(memory: Bytes, page: PageSize) -> PageCount {
    PageCount(memory.get() / page.bytes().get())
}
