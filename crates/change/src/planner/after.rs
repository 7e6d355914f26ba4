//! The host as the steps leave it, before any server is started again: what the rules then find.

use std::collections::BTreeSet;

use hugewise_advice::situation::{Obstacle, situation, starting};
use hugewise_host::Door;
use hugewise_host::config::{fstab, limits, systemd, tmpfiles, tuned};
use hugewise_host::config::{kernel_value, sysctl};
use hugewise_model::configuration::Loaded;
use hugewise_model::{Bytes, Host, Instance, InstanceId, Observed, PageCount, PageSize, Remedy, RuleId};

use super::Ask;
use super::draft::Draft;
use crate::plan::{Change, PoolRef, ValueChange};

/// What the rules find on the host as the steps leave it.
pub(super) fn findings(ask: &Ask<'_>, draft: &Draft<'_>) -> BTreeSet<(RuleId, Option<InstanceId>)> {
    let host = host(ask, draft);
    let instances = instances(ask, draft, &host);
    let assessment = hugewise_advice::assess(&host, &instances);
    assessment.findings.into_iter().map(|finding| (finding.code, finding.instance)).collect()
}

/// Page sizes of which the pool of the next boot has fewer for a server than it would have without the steps.
pub(super) fn short_at_boot(ask: &Ask<'_>, draft: &Draft<'_>) -> BTreeSet<PageSize> {
    if !ask.options.boot {
        return BTreeSet::new();
    }
    let host = host(ask, draft);
    let instances = instances(ask, draft, &host);
    let then = situation(&host, &instances);
    let worse = |instance: &&Instance| {
        let before = ask.assessment.situation.of(instance).map(|it| &it.boot);
        let after = then.of(instance).map(|it| &it.boot).filter(|it| it.obstacle == Some(Obstacle::Pages));
        before.zip(after).is_some_and(|(before, after)| after.is_worse_than(before))
    };
    let worse = instances.iter().filter(|it| it.is_vouched()).filter(worse);
    worse.flat_map(|it| starting(&host, it).demands).map(|demand| demand.page_size).collect()
}

fn host(ask: &Ask<'_>, draft: &Draft<'_>) -> Host {
    let mut host = ask.host.clone();
    for change in draft.steps.iter().flat_map(|step| &step.changes) {
        if let Change::Value(value) = change {
            set(&mut host, value);
        }
    }
    let mut door = Door::new(&draft.after);
    let configuration = &mut host.configuration;
    configuration.sysctl = sysctl::read(&mut door);
    configuration.tmpfiles = tmpfiles::read(&mut door);
    configuration.tuned = tuned::read(&mut door);
    configuration.limits = limits::read(&mut door);
    configuration.hugetlbfs = fstab::read(&mut door, &host.hugetlbfs_mounts);
    if let Some(entry) = &draft.entry {
        configuration.boot = Observed::Known(entry.clone());
    }
    let processes = host.processes.known().into_iter().flatten().map(AsRef::as_ref);
    host.configuration.units = systemd::read_units(&mut door, processes);
    if draft.steps.iter().flat_map(|step| &step.changes).any(is_reload) {
        host.configuration.units.iter_mut().for_each(|unit| unit.loaded = Observed::Known(Loaded::Anew));
    }
    host
}

/// Whether systemd then holds its units as their files are.
fn is_reload(change: &Change) -> bool {
    matches!(change, Change::Command(command) if command.command.iter().any(|word| word == "daemon-reload"))
}

/// The servers, with their settings as the files then have them.
fn instances(ask: &Ask<'_>, draft: &Draft<'_>, host: &Host) -> Vec<Instance> {
    let mut all: Vec<Instance> = ask.instances.iter().chain(ask.strangers.iter().copied()).cloned().collect();
    let set = |step: &super::draft::Drafted| step.carries.iter().any(|it| matches!(it.remedy, Remedy::SetSetting(_)));
    if !draft.steps.iter().any(set) {
        return all;
    }
    for then in hugewise_engines::find(host, &draft.after).instances {
        if let Some(now) = all.iter_mut().find(|it| it.id() == then.id()) {
            let vouchers = std::mem::take(&mut now.vouchers);
            *now = Instance { vouchers, ..then };
        }
    }
    all
}

fn set(host: &mut Host, change: &ValueChange) {
    if let Some(pool) = change.pool {
        let pages = change.after.parse().unwrap_or_default();
        return set_pool(host, pool, PageCount(pages));
    }
    let thp = host.thp.folder();
    if let Some(switch) = change.path.strip_prefix(thp).and_then(|rest| rest.strip_prefix('/')) {
        let value = Observed::Known(change.after.clone());
        if switch == "enabled" {
            host.thp.enabled = value;
            return;
        }
        let of = |page: hugewise_model::PageSize| format!("hugepages-{}kB/enabled", page.bytes().get() >> 10);
        if let Some(size) = host.thp.sizes.iter_mut().find(|size| of(size.page_size) == switch) {
            size.enabled = value;
        }
        return;
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
        path == hugewise_advice::words::pool_file(page, "nr_overcommit_hugepages")
            || (path == "/proc/sys/vm/nr_overcommit_hugepages" && default == Some(page))
    })
}

/// As the kernel does it (mm/hugetlb.c, `set_max_huge_pages`): a number of pages that stay is written, and what is shown counts
/// surplus ones too. Those become the pool's own before others are taken, and pages in use that it is not to keep become surplus.
fn set_pool(host: &mut Host, of: PoolRef, pages: PageCount) {
    let Observed::Known(pools) = &mut host.pools else { return };
    let Some(pool) = pools.iter_mut().find(|pool| pool.page_size == of.page_size) else { return };
    let available = pool.available().unwrap_or_default();
    let mut all = Counts::of(&pool.total, &pool.free, &pool.surplus);
    match of.node {
        None => all = all.kept_to(pages, available),
        Some(node) => {
            let Some(part) = pool.nodes.iter_mut().find(|part| part.node == node) else { return };
            let before = Counts::of(&part.total, &part.free, &part.surplus);
            let then = before.kept_to(pages, available.min(before.free));
            all = Counts {
                total: (all.total + then.total).saturating_sub(before.total),
                free: (all.free + then.free).saturating_sub(before.free),
                surplus: (all.surplus + then.surplus).saturating_sub(before.surplus),
            };
            then.put(&mut part.total, &mut part.free, &mut part.surplus);
        }
    }
    all.put(&mut pool.total, &mut pool.free, &mut pool.surplus);
}

/// Pages of a pool, or of its part on a node.
#[derive(Clone, Copy)]
struct Counts {
    total: PageCount,
    free: PageCount,
    surplus: PageCount,
}

impl Counts {
    fn of(total: &Observed<PageCount>, free: &Observed<PageCount>, surplus: &Observed<PageCount>) -> Self {
        let count = |fact: &Observed<PageCount>| fact.get().unwrap_or_default();
        Self { total: count(total), free: count(free), surplus: count(surplus) }
    }

    /// After so many that are to stay were written; `available` are neither in use nor promised.
    fn kept_to(self, pages: PageCount, available: PageCount) -> Self {
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

    fn put(self, total: &mut Observed<PageCount>, free: &mut Observed<PageCount>, surplus: &mut Observed<PageCount>) {
        (*total, *free, *surplus) =
            (Observed::Known(self.total), Observed::Known(self.free), Observed::Known(self.surplus));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept((total, free, surplus): (u64, u64, u64), pages: u64, available: u64) -> (u64, u64, u64) {
        let counts = Counts { total: PageCount(total), free: PageCount(free), surplus: PageCount(surplus) };
        let then = counts.kept_to(PageCount(pages), PageCount(available));
        (then.total.get(), then.free.get(), then.surplus.get())
    }

    /// By mm/hugetlb.c, `set_max_huge_pages`.
    #[test]
    fn what_is_written_to_a_pool_is_what_stays_of_it() {
        // All 8051 are surplus and in use: 3851 of them become the pool's own, and none is added.
        assert_eq!(kept((8051, 0, 8051), 3851, 0), (8051, 0, 4200));
        assert_eq!(kept((8051, 0, 8051), 8060, 0), (8060, 9, 0));
        // 300, of which 150 are free and 50 of those promised; with none to stay the 200 become surplus.
        assert_eq!(kept((300, 150, 0), 0, 100), (200, 50, 200));
        assert_eq!(kept((300, 150, 0), 250, 100), (250, 100, 0));
        assert_eq!(kept((300, 150, 0), 320, 100), (320, 170, 0));
    }
}
