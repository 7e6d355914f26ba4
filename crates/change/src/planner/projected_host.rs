//! The host as the steps leave it, before any server is started again: what the rules then find.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_diagnose::Assessment;
use hugewise_diagnose::prediction::{Obstacle, predict_next_start};
use hugewise_host::FactReader;
use hugewise_host::config::{fstab, limits, systemd, tmpfiles, tuned};
use hugewise_host::config::{kernel_value, sysctl};
use hugewise_model::configuration::Loaded;
use hugewise_model::{Bytes, Host, Instance, InstanceId, Observed, PageCount, PageSize, RuleId};

use super::PlanRequest;
use super::draft::Draft;
use crate::plan::{Change, PoolRef, ValueChange};

pub(super) struct ProjectedHost {
    host: Host,
    instances: Vec<Instance>,
    assessment: Assessment,
}

impl ProjectedHost {
    pub(super) fn new(ask: &PlanRequest<'_>, draft: &Draft<'_>) -> Self {
        let (host, instances) = (project_host(ask, draft), project_instances(ask, draft));
        let assessment = hugewise_diagnose::assess_host(&host, &instances);
        Self { host, instances, assessment }
    }

    pub(super) fn findings(&self) -> BTreeSet<(RuleId, Option<&InstanceId>)> {
        let findings = self.assessment.findings.iter();
        findings.map(|finding| (finding.code, finding.instance.as_ref())).collect()
    }

    /// Sizes of which the next boot has fewer pages for a server than without the steps.
    pub(super) fn short_at_boot(&self, ask: &PlanRequest<'_>) -> BTreeSet<PageSize> {
        let is_worse = |instance: &&Instance| {
            let before = ask.assessment.situation.forecasts_for(instance);
            let after = self.assessment.situation.forecasts_for(instance);
            before.zip(after).is_some_and(|(before, after)| {
                after.boot.obstacle == Some(Obstacle::Pages)
                    && after.boot.is_worse_than(&before.boot)
            })
        };
        self.instances
            .iter()
            .filter(|instance| ask.options.boot && instance.is_trusted())
            .filter(is_worse)
            .flat_map(|instance| predict_next_start(&self.host, instance).demands)
            .map(|demand| demand.page_size)
            .collect()
    }
}

fn project_host(ask: &PlanRequest<'_>, draft: &Draft<'_>) -> Host {
    let mut host = ask.host.clone();
    for change in draft.steps.iter().flat_map(|step| &step.changes) {
        if let Change::Value(value) = change {
            set_host_value(&mut host, value);
        }
    }
    let mut reader = FactReader::new(&draft.after);
    let configuration = &mut host.configuration;
    configuration.sysctl = sysctl::read(&mut reader);
    configuration.tmpfiles = tmpfiles::read(&mut reader);
    configuration.tuned = tuned::read(&mut reader);
    configuration.limits = limits::read(&mut reader);
    configuration.hugetlbfs = fstab::read(&mut reader, &host.hugetlbfs_mounts);
    if let Some(entry) = &draft.entry {
        configuration.boot = Observed::Known(entry.clone());
    }
    let processes = host.processes.as_known().into_iter().flatten().map(AsRef::as_ref);
    host.configuration.units = systemd::read_units(&mut reader, processes);
    if draft.steps.iter().flat_map(|step| &step.changes).any(is_reload) {
        let units = &mut host.configuration.units;
        units.iter_mut().for_each(|unit| unit.loaded = Observed::Known(Loaded::Anew));
    }
    host
}

/// Whether systemd then holds its units as their files are.
fn is_reload(change: &Change) -> bool {
    matches!(change, Change::Command(command) if command.command.iter().any(|word| word == "daemon-reload"))
}

fn project_instances(ask: &PlanRequest<'_>, draft: &Draft<'_>) -> Vec<Instance> {
    let described: BTreeMap<InstanceId, &Instance> =
        draft.described.iter().map(|instance| (instance.id(), instance)).collect();
    let all = ask.instances.iter().chain(ask.strangers.iter().copied());
    all.map(|now| described.get(&now.id()).copied().unwrap_or(now).clone()).collect()
}

fn set_host_value(host: &mut Host, change: &ValueChange) {
    if let Some(pool) = change.pool {
        let pages = change.after.parse().unwrap_or_default();
        return set_pool(host, pool, PageCount(pages));
    }
    let thp = host.thp.sysfs_folder();
    if let Some(switch) = change.path.strip_prefix(thp).and_then(|rest| rest.strip_prefix('/')) {
        let value = Observed::Known(change.after.clone());
        if switch == "enabled" {
            host.thp.enabled = value;
            return;
        }
        let is_set =
            |page: PageSize| switch == format!("hugepages-{}kB/enabled", page.bytes().get() >> 10);
        let sizes = host.thp.sizes.iter_mut().filter(|size| is_set(size.page_size));
        return sizes.for_each(|size| size.enabled = value.clone());
    }
    if let Some(pool) = overcommit_of(host, &change.path) {
        pool.overcommit = Observed::from(change.after.trim().parse().ok().map(PageCount));
        return;
    }
    let settings = &mut host.kernel_settings;
    let count = || kernel_value::sysctl_count(&change.after);
    match change.path.as_str() {
        "/proc/sys/kernel/shmmax" => settings.shmmax = Observed::from(count().map(Bytes)),
        "/proc/sys/kernel/shmall" => settings.shmall_pages = Observed::from(count()),
        "/proc/sys/vm/hugetlb_shm_group" => {
            settings.hugetlb_shm_group = Observed::from(change.after.trim().parse().ok());
        }
        _ => {}
    }
}

fn overcommit_of<'a>(host: &'a mut Host, path: &str) -> Option<&'a mut hugewise_model::Pool> {
    let default = host.default_huge_page.get();
    let Observed::Known(pools) = &mut host.pools else { return None };
    pools.iter_mut().find(|pool| {
        let page = pool.page_size;
        path == hugewise_diagnose::wording::pool_file(page, "nr_overcommit_hugepages")
            || (path == "/proc/sys/vm/nr_overcommit_hugepages" && default == Some(page))
    })
}

/// As mm/hugetlb.c, `set_max_huge_pages`: the number is of pages that stay. Surplus ones become the
/// pool's own before others are taken, and pages in use beyond the number become surplus.
fn set_pool(host: &mut Host, pool_ref: PoolRef, pages: PageCount) {
    let Observed::Known(pools) = &mut host.pools else { return };
    let Some(pool) = pools.iter_mut().find(|pool| pool.page_size == pool_ref.page_size) else {
        return;
    };
    let available = pool.available_pages().unwrap_or_default();
    let mut all = ProjectedPoolCounts::from_observed(&pool.total, &pool.free, &pool.surplus);
    match pool_ref.node {
        None => all = all.resized_to(pages, available),
        Some(node) => {
            let Some(part) = pool.nodes.iter_mut().find(|part| part.node == node) else { return };
            let before = ProjectedPoolCounts::from_observed(&part.total, &part.free, &part.surplus);
            let after = before.resized_to(pages, available.min(before.free));
            all = ProjectedPoolCounts {
                total: (all.total + after.total).saturating_sub(before.total),
                free: (all.free + after.free).saturating_sub(before.free),
                surplus: (all.surplus + after.surplus).saturating_sub(before.surplus),
            };
            after.write_to(&mut part.total, &mut part.free, &mut part.surplus);
        }
    }
    all.write_to(&mut pool.total, &mut pool.free, &mut pool.surplus);
}

#[derive(Clone, Copy)]
struct ProjectedPoolCounts {
    total: PageCount,
    free: PageCount,
    surplus: PageCount,
}

impl ProjectedPoolCounts {
    fn from_observed(
        total: &Observed<PageCount>,
        free: &Observed<PageCount>,
        surplus: &Observed<PageCount>,
    ) -> Self {
        let count = |fact: &Observed<PageCount>| fact.get().unwrap_or_default();
        Self { total: count(total), free: count(free), surplus: count(surplus) }
    }

    /// After so many that are to stay were written; `available` are neither in use nor promised.
    fn resized_to(self, pages: PageCount, available: PageCount) -> Self {
        let own = self.total.saturating_sub(self.surplus);
        let turned = pages.saturating_sub(own).min(self.surplus);
        let more = pages.saturating_sub(own + turned);
        let less = own.saturating_sub(pages).min(available);
        let left = own.saturating_sub(pages + less);
        Self {
            total: (self.total + more).saturating_sub(less),
            free: (self.free + more).saturating_sub(less),
            surplus: self.surplus.saturating_sub(turned) + left,
        }
    }

    fn write_to(
        self,
        total: &mut Observed<PageCount>,
        free: &mut Observed<PageCount>,
        surplus: &mut Observed<PageCount>,
    ) {
        *total = Observed::Known(self.total);
        *free = Observed::Known(self.free);
        *surplus = Observed::Known(self.surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept_counts(
        (total, free, surplus): (u64, u64, u64),
        pages: u64,
        available: u64,
    ) -> (u64, u64, u64) {
        let counts = ProjectedPoolCounts {
            total: PageCount(total),
            free: PageCount(free),
            surplus: PageCount(surplus),
        };
        let then = counts.resized_to(PageCount(pages), PageCount(available));
        (then.total.get(), then.free.get(), then.surplus.get())
    }

    /// By mm/hugetlb.c, `set_max_huge_pages`.
    #[test]
    fn what_is_written_to_a_pool_is_what_stays_of_it() {
        // All 8051 are surplus and in use: 3851 of them become the pool's own, and none is added.
        assert_eq!(kept_counts((8051, 0, 8051), 3851, 0), (8051, 0, 4200));
        assert_eq!(kept_counts((8051, 0, 8051), 8060, 0), (8060, 9, 0));
        // 300, of which 150 are free and 50 of those promised; with none to stay the 200 become
        // surplus.
        assert_eq!(kept_counts((300, 150, 0), 0, 100), (200, 50, 200));
        assert_eq!(kept_counts((300, 150, 0), 250, 100), (250, 100, 0));
        assert_eq!(kept_counts((300, 150, 0), 320, 100), (320, 170, 0));
    }
}
