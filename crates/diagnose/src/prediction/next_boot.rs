//! What every server finds at the next boot, with all who ask for it in the worst order.

use hugewise_model::{Host, Instance, NextStart, PageCount, PageSize};

use super::boot_demand::{BootDemand, PoolDemand};
use super::boot_pools::BootPool;
use super::booted_host::BootGround;
use super::mount::forecast_without_mount;
use super::segments::{Segments, ShmSegmentLimits};
use super::stages::{Obstacle, StageForecast};
use super::supply::{FoundPages, PerhapsTaken, Supply};
use crate::cgroup::HugetlbLimits;
use crate::{boot, mounts};

pub(super) struct NextBoot<'a> {
    pub(super) ground: BootGround<'a>,
    pub(super) demand: BootDemand,
    shm: ShmSegmentLimits,
}

impl<'a> NextBoot<'a> {
    pub(super) fn predict(
        host: &'a Host,
        instances: &[Instance],
        limits: &'a HugetlbLimits,
    ) -> Self {
        let ground = BootGround::predict(host, instances, limits);
        let demand = BootDemand::collect(&ground, instances);
        Self { ground, demand, shm: ShmSegmentLimits::at_boot(host) }
    }

    /// A server with files in a hugetlbfs that the boot does not mount: they are ordinary then.
    pub(super) fn without_its_mount(&self, instance: &Instance) -> Option<StageForecast> {
        match mounts::find_unpersisted_mount(&self.ground.booted, instance) {
            Err(missing) => Some(StageForecast::unknown(missing)),
            Ok(None) => None,
            Ok(Some(mount)) => {
                Some(forecast_without_mount(mounts::why_lost(&self.ground.booted, &mount.path)))
            }
        }
    }

    pub(super) fn predict_segments(&self, instance: &Instance, start: &NextStart) -> Segments {
        let others = self.demand.segments_of_others(&instance.id(), self.shm.total_pages());
        self.shm.ask_for_segments(&self.ground.booted, instance, start, others)
    }

    pub(super) fn find_as_first(&self, instance: &Instance, page: PageSize) -> Supply {
        let pool = self.ground.pools.find(&self.ground.booted, instance, page)?;
        let sure = self.early_pages(page, &pool);
        Ok(FoundPages { sure, ..FoundPages::new(pool.pages, format!(" ({})", pool.place)) })
    }

    /// The least that a server may find, whoever starts before it.
    pub(super) fn find_as_last(&self, instance: &Instance, page: PageSize) -> Supply {
        let pool = self.ground.pools.find(&self.ground.booted, instance, page)?;
        let (pages, place) = (pool.pages, format!(" ({})", pool.place));
        if pages == PageCount::ZERO {
            return Ok(FoundPages::new(pages, place));
        }
        let nobody = PoolDemand::default();
        let demand = self.demand.pages.get(&page).unwrap_or(&nobody);
        let id = instance.id();
        let (others, own) = (demand.sure.without(&id), demand.possible.sums_of(&id));
        // What nobody has seen start may need a few more than are asked for.
        let perhaps = instance.possible_demands.iter().filter(|demand| demand.page_size == page);
        let perhaps: PageCount = perhaps.map(|demand| demand.pages).sum();
        let own_most = if instance.is_stopped() { own.most.max(perhaps) } else { own.most };
        let all_fit = |pool: PageCount| others.sums.most + own_most <= pool;
        let left_of = |pool: PageCount| match all_fit(pool) {
            true => pool,
            false => pool.saturating_sub(others.most_taken(pool)),
        };
        let up_to = if all_fit(pages) || others.sums.least + own.least <= pages {
            pages
        } else {
            left_of(pages).max(pages.saturating_sub(others.least_taken(pages)))
        };
        let note = if all_fit(pages) || others.sums.servers == 0 {
            place
        } else {
            format!(
                " of the {pages} that the boot brings{place}, if others start first: {} servers \
                 ask for {}",
                others.sums.servers + own.servers,
                others.sums.pages + own.pages
            )
        };
        let most_taken = demand.possible.without(&id).most_taken(pages);
        let doubt = demand.doubt_of_others(&id).map(|why| PerhapsTaken {
            left: pages.saturating_sub(most_taken),
            why,
            obstacle: None,
        });
        let asked = others.sums.pages + own.pages;
        let strangers = self.name_strangers(instance, page, asked, pages);
        let strangers = strangers.map(|(held, why)| PerhapsTaken {
            left: pages.saturating_sub(most_taken + held),
            why,
            obstacle: Some(Obstacle::Strangers),
        });
        Ok(FoundPages {
            pages: left_of(pages),
            up_to,
            sure: left_of(self.early_pages(page, &pool)),
            note,
            perhaps: doubt.into_iter().chain(strangers).collect(),
            limited_by_nodes: false,
        })
    }

    /// What programs that are no known servers hold now: nobody knows whether and when they start
    /// again.
    fn name_strangers(
        &self,
        instance: &Instance,
        page: PageSize,
        asked: PageCount,
        pages: PageCount,
    ) -> Option<(PageCount, String)> {
        let strangers = self.demand.strangers.get(&page).filter(|_| instance.is_trusted())?;
        let (held, all) = (strangers.pages, strangers.pages + asked);
        let (first, others) = strangers.names.split_first()?;
        let (who, hold, are) = match others.len() {
            0 => (first.clone(), "holds", "is no known server"),
            1 => (format!("{first} and one more program"), "hold", "are no known servers"),
            more => (format!("{first} and {more} more programs"), "hold", "are no known servers"),
        };
        let why = format!(
            "{who} {hold} {held} pages now and {are} (in all {all} are needed, and the boot brings \
             {pages})"
        );
        Some((held, why))
    }

    /// Gigantic pages are sure only where they are taken before memory can be in pieces.
    fn early_pages(&self, page: PageSize, pool: &BootPool) -> PageCount {
        if !self.ground.booted.is_gigantic(page) {
            return pool.pages;
        }
        let early = boot::reserved_early(&self.ground.booted, page);
        early.map(|(pages, _)| pages).unwrap_or_default().min(pool.pages)
    }
}
