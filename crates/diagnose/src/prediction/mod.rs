//! Where every server stands now, after its next restart, and after the next boot.
//!
//! A restart is reckoned for each server alone: the others go on holding what they hold, and take
//! what they have yet to take of it. A boot starts all of them, in an order that nobody knows: what
//! stands here is the worst that any order brings.
//!
//! [`predict_host`] has [`HostForecaster`](host_forecaster::HostForecaster) make each server's
//! starts: a [`ServerStart`](start::ServerStart) holds what the server asks for and what it finds,
//! at the next boot by [`NextBoot`](next_boot::NextBoot), and says what comes of it.

mod alternatives;
mod boot_demand;
mod boot_pools;
mod booted_host;
mod claim;
pub(crate) mod cpuset;
mod default_size;
mod host_forecaster;
mod locking;
mod mount;
mod next_boot;
mod segments;
mod stages;
mod start;
pub(crate) mod startup;
mod supply;

use std::collections::BTreeMap;

use hugewise_model::{Host, Instance, InstanceId, PageCount, PageSize};

use crate::cgroup::HugetlbLimits;
use crate::memlock_charges::MemlockCharges;
use crate::{demand, untrusted};

pub use crate::demand::{predict_next_start, starting_at_boot};
pub use claim::{Claim, to_come};
pub use default_size::other_default;
pub(crate) use default_size::{all_leave, arriving_at_default, asks_by_default};
use host_forecaster::HostForecaster;
pub(crate) use segments::is_asked;
pub use stages::{Obstacle, PredictionStage, StageForecast, StageForecasts};

/// All servers of a host at all stages.
#[derive(Clone, Debug, Default)]
pub struct HostPrediction {
    forecasts: BTreeMap<InstanceId, StageForecasts>,
    /// What the kernel may deny a server its memory by, whatever is in the pools.
    denied: BTreeMap<InstanceId, Obstacle>,
    shares: BTreeMap<InstanceId, demand::Share>,
    wants: BTreeMap<PageSize, PageCount>,
    /// What servers that belong to the host and do not run ask for.
    asleep: BTreeMap<PageSize, PageCount>,
    claims: BTreeMap<PageSize, Claim>,
    limits: HugetlbLimits,
    memlock: MemlockCharges,
}

impl HostPrediction {
    /// One server's stages; none of a server that it was not worked out for.
    pub fn forecasts_for(&self, instance: &Instance) -> Option<&StageForecasts> {
        self.forecasts.get(&instance.id())
    }

    /// The hugetlb limits of cgroups, and who is held by them.
    pub const fn limits(&self) -> &HugetlbLimits {
        &self.limits
    }

    /// What memlock limits have to allow, as far as the next restart is concerned.
    pub const fn locked(&self) -> &MemlockCharges {
        &self.memlock
    }

    /// Whatever is in the pools: by its right to huge pages, or the limits of System V segments.
    pub(crate) fn may_be_denied(&self, instance: &Instance) -> Option<Obstacle> {
        self.denied.get(&instance.id()).copied()
    }

    /// What is left of its pool for a server that asks and is not wholly on huge pages.
    pub fn share(&self, instance: &Instance) -> Option<&demand::Share> {
        self.shares.get(&instance.id())
    }

    /// Pages that servers which ask for them want beyond those that they hold.
    pub fn pages_wanted(&self, page: PageSize) -> PageCount {
        self.wants.get(&page).copied().unwrap_or_default()
    }

    /// Pages for servers which belong to the host and do not run: they lie idle for nobody else.
    pub(crate) fn kept_for_asleep(&self, page: PageSize) -> PageCount {
        self.asleep.get(&page).copied().unwrap_or_default()
    }

    /// What servers have of a pool and ask for; none where the pool's counts are not known.
    pub fn claim(&self, page: PageSize) -> Option<&Claim> {
        self.claims.get(&page)
    }

    pub(crate) fn is_short_of(&self, host: &Host, page: PageSize, instance: &Instance) -> bool {
        let others = self.pages_wanted(page) + self.kept_for_asleep(page);
        let own = match self.share(instance) {
            Some(_) => PageCount::ZERO,
            None => demand::find_missing_demand(host, instance)
                .map(|more| more.pages)
                .unwrap_or_default(),
        };
        let needed = others + own;
        // Whoever starts again for them gives back what it has on base pages.
        let obtainable = host
            .find_pool(page)
            .and_then(|pool| demand::pages_obtainable(host, pool, needed.to_bytes(page)));
        obtainable.unwrap_or_default() < needed
    }
}

/// Predicts all stages of all servers; linear in their number.
pub fn predict_host(host: &Host, instances: &[Instance]) -> HostPrediction {
    let limits = HugetlbLimits::new(host, instances);
    let memlock = MemlockCharges::new(host, instances);
    let (mut forecasts, mut denied) = (BTreeMap::new(), BTreeMap::new());
    let forecaster = HostForecaster::new(host, instances, &limits, &memlock);
    for instance in instances {
        let forecast = forecaster.forecast_instance(instance);
        denied.extend(forecast.denied_by.map(|obstacle| (instance.id(), obstacle)));
        forecasts.insert(instance.id(), forecast.stages);
    }
    let trusted = untrusted::trusted_instances(instances);
    let shares = demand::deal_pool_shares(host, &trusted);
    let mut wants = BTreeMap::<PageSize, PageCount>::new();
    for share in &shares {
        let sum = wants.entry(share.page_size).or_default();
        *sum = *sum + share.wants;
    }
    let asleep_of = |page| {
        let asleep = trusted.iter().filter(|instance| instance.is_stopped());
        asleep.map(|instance| to_come(host, instance, page)).sum()
    };
    let pools = host.pools.as_known().into_iter().flatten();
    HostPrediction {
        forecasts,
        denied,
        shares: shares.into_iter().map(|share| (share.instance.clone(), share)).collect(),
        wants,
        asleep: pools.map(|pool| (pool.page_size, asleep_of(pool.page_size))).collect(),
        claims: claim::claims_by_size(host, instances),
        limits,
        memlock,
    }
}

#[cfg(test)]
mod tests;
