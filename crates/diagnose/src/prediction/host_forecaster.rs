//! How one server of a host stands at each stage, by its starts and what the host has for them.

use hugewise_model::trusted_by::TrustReason;
use hugewise_model::{Host, Instance, NextStart};

use super::alternatives::settle_alternatives;
use super::mount::{fit_booted_mounts, fit_current_mounts};
use super::next_boot::NextBoot;
use super::segments::{SegmentTotals, Segments, ShmSegmentLimits};
use super::stages::{Obstacle, StageForecast, StageForecasts};
use super::start::ServerStart;
use super::supply::{PendingGrowth, Supplies, find_after_stop};
use super::{cpuset, startup};
use crate::cgroup::{ChargedBefore, HugetlbLimits};
use crate::coverage::{Coverage, measure_coverage};
use crate::demand::{self, predict_next_start, starting_at_boot};
use crate::ipc_privileges::{self, IpcPrivileges, PrivilegeAlternatives};
use crate::memlock_charges::MemlockCharges;

pub(super) struct HostForecaster<'a> {
    host: &'a Host,
    limits: &'a HugetlbLimits,
    memlock: &'a MemlockCharges,
    growth: PendingGrowth,
    shm: ShmSegmentLimits,
    segments: SegmentTotals,
    boot: NextBoot<'a>,
    memlock_at_boot: MemlockCharges,
}

pub(super) struct InstanceForecast {
    pub(super) stages: StageForecasts,
    /// What may deny it its memory at a start, whatever is in the pools.
    pub(super) denied_by: Option<Obstacle>,
}

/// The starts of a server at the next boot: after all the others, and before them.
struct BootStarts<'a> {
    last: ServerStart<'a>,
    first: ServerStart<'a>,
}

impl<'a> HostForecaster<'a> {
    pub(super) fn new(
        host: &'a Host,
        instances: &[Instance],
        limits: &'a HugetlbLimits,
        memlock: &'a MemlockCharges,
    ) -> Self {
        let boot = NextBoot::predict(host, instances, limits);
        Self {
            host,
            limits,
            memlock,
            growth: PendingGrowth::predict(host, instances),
            shm: ShmSegmentLimits::read_current(host),
            segments: SegmentTotals::present(host),
            memlock_at_boot: MemlockCharges::new(&boot.ground.booted, instances),
            boot,
        }
    }

    pub(super) fn forecast_instance(&self, instance: &Instance) -> InstanceForecast {
        let named = instance.trusted_by.contains(&TrustReason::Named);
        let coverage = measure_coverage(self.host, instance, named);
        // One that its files have ask from its next start on counts then.
        if matches!(coverage, Coverage::NotCounted(_)) && !will_ask(instance) {
            let forecast = StageForecast { coverage, why: None, obstacle: None };
            let (now, restart, boot) = (forecast.clone(), forecast.clone(), forecast);
            let stages = StageForecasts { now, restart, boot };
            return InstanceForecast { stages, denied_by: None };
        }
        let (restart, boot) = (self.start_again(instance), self.start_at_boot(instance));
        let restart_ways = ipc_privileges::at_restart(self.host, instance);
        let boot_ways = ipc_privileges::at_boot(self.host, instance);
        let denied_by = if !restart.surely_has_right(&restart_ways)
            || !boot.last.surely_has_right(&boot_ways)
        {
            Some(Obstacle::Right)
        } else if restart.segments != Segments::Fit || boot.last.segments != Segments::Fit {
            Some(Obstacle::Segments)
        } else {
            None
        };
        let stages = StageForecasts {
            now: self.describe_now(instance, coverage),
            restart: forecast_restart(&restart, &restart_ways),
            boot: self.forecast_boot(&boot, &boot_ways),
        };
        InstanceForecast { stages, denied_by }
    }

    fn describe_now(&self, instance: &Instance, coverage: Coverage) -> StageForecast {
        let why = match coverage {
            Coverage::Unknown => Some(demand::why_unknown(self.host, instance).to_string()),
            Coverage::Partly | Coverage::None => {
                crate::chain::build_chain(self.host, self.limits, self.memlock, instance)
                    .as_ref()
                    .and_then(hugewise_model::HugePageChain::first_broken_link)
                    .map(|link| format!("{}: {}", link.name.as_str(), link.evidence))
            }
            _ => None,
        };
        StageForecast { coverage, why, obstacle: None }
    }

    fn start_again<'b>(&'b self, instance: &'b Instance) -> ServerStart<'b> {
        let request = predict_next_start(self.host, instance);
        let others = self.segments.without(self.host, instance);
        let mut start = ServerStart {
            instance,
            host: self.host,
            fit: fit_current_mounts(self.host, &self.boot.ground.hugetlbfs, instance, &request),
            memlock: self.memlock.at_restart(self.host, instance),
            segments: self.shm.ask_for_segments(self.host, instance, &request, others),
            supplies: Supplies::new(),
            memory: self.host.obtainable_memory().map(|memory| memory.bytes),
            limits: self.limits,
            others: ChargedBefore::Held,
            request,
        };
        let supply = |page| {
            let found = find_after_stop(self.host, instance, page, &self.growth)?;
            Ok(cpuset::narrow_after_stop(self.host, instance, page, found))
        };
        start.supplies = start.page_sizes().map(|page| (page, supply(page))).collect();
        start
    }

    fn start_at_boot<'b>(&'b self, instance: &'b Instance) -> BootStarts<'b> {
        let ground = &self.boot.ground;
        let host = ground.booted.as_ref();
        let request = starting_at_boot(self.host, instance);
        let mut last = ServerStart {
            instance,
            host,
            fit: fit_booted_mounts(host, &ground.hugetlbfs, instance, &request),
            memlock: self.memlock_at_boot.at_boot(host, instance),
            segments: self.boot.predict_segments(instance, &request),
            supplies: Supplies::new(),
            memory: ground.pools.memory_of_last(self.host, instance),
            limits: self.limits,
            others: ChargedBefore::InAnyOrder(&self.boot.demand.below_limits),
            request,
        };
        let as_last = |page| {
            let found = self.boot.find_as_last(instance, page)?;
            Ok(cpuset::narrow_after_boot(host, instance, page, found))
        };
        last.supplies = last.page_sizes().map(|page| (page, as_last(page))).collect();
        let first = ServerStart {
            supplies: last
                .page_sizes()
                .map(|page| (page, self.boot.find_as_first(instance, page)))
                .collect(),
            memory: ground.pools.memory_of_first(self.host),
            ..last.clone()
        };
        BootStarts { last, first }
    }

    fn forecast_boot(
        &self,
        starts: &BootStarts<'_>,
        ways: &PrivilegeAlternatives,
    ) -> StageForecast {
        let instance = starts.last.instance;
        if let Some(forecast) =
            startup::stays_down(instance).or_else(|| startup::predict_never_started(instance))
        {
            return forecast;
        }
        let forecast = self.boot.without_its_mount(instance).unwrap_or_else(|| {
            let others = ways.others.iter().map(|privileges| starts.predict_worst(privileges));
            settle_alternatives(ways, starts.predict_worst(&ways.first), others)
        });
        startup::name_missing_starter(instance, forecast)
    }
}

impl BootStarts<'_> {
    fn predict_worst(&self, privileges: &IpcPrivileges) -> StageForecast {
        let last = self.last.predict(privileges);
        if last.coverage == Coverage::DoesNotStart {
            return last;
        }
        // The first finds the most: touching more than its cgroup lets it is the worst.
        let first = self.first.predict(privileges);
        let may_be_killed = first.obstacle == Some(Obstacle::Cgroup)
            && matches!(first.coverage, Coverage::DoesNotStart | Coverage::Unknown);
        if may_be_killed { first } else { last }
    }
}

fn forecast_restart(start: &ServerStart<'_>, ways: &PrivilegeAlternatives) -> StageForecast {
    startup::predict_never_started(start.instance).unwrap_or_else(|| {
        let others = ways.others.iter().map(|privileges| start.predict(privileges));
        settle_alternatives(ways, start.predict(&ways.first), others)
    })
}

fn will_ask(instance: &Instance) -> bool {
    [instance.largest_next_start(), instance.at_boot.as_known()]
        .into_iter()
        .flatten()
        .any(NextStart::asks_for_huge_pages)
}
