//! The host as the steps leave it, before any server is started again: what the rules then find.

use std::collections::BTreeSet;

use hugewise_advice::boot;
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
    // Pages that nobody may have beyond the pools are nobody's to lose to a larger pool.
    let on_demand =
        |pool: &hugewise_model::Pool| boot::overcommit(ask.host, pool.page_size).is_ok_and(|all| !all.is_empty());
    if !ask.options.boot || !ask.host.pools.known().is_some_and(|pools| pools.iter().any(on_demand)) {
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
    if let Some(switch) = change.path.strip_prefix("/sys/kernel/mm/transparent_hugepage/") {
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

/// As the kernel does it: surplus pages become the pool's own before others are taken, and what is not free stays.
fn set_pool(host: &mut Host, of: PoolRef, pages: PageCount) {
    let Observed::Known(pools) = &mut host.pools else { return };
    let Some(pool) = pools.iter_mut().find(|pool| pool.page_size == of.page_size) else { return };
    let (mut total, mut free) = (pool.total.get().unwrap_or_default(), pool.free.get().unwrap_or_default());
    let (before, wanted) = match of.node {
        None => (total, pages),
        Some(node) => match pool.nodes.iter_mut().find(|part| part.node == node) {
            Some(part) => {
                let before = part.total.get().unwrap_or_default();
                part.total = Observed::Known(before.max(pages));
                part.free = Observed::Known(part.free.get().unwrap_or_default() + pages.saturating_sub(before));
                (before, pages)
            }
            None => return,
        },
    };
    let more = wanted.saturating_sub(before);
    let less = before.saturating_sub(wanted).min(free);
    total = (total + more).saturating_sub(less);
    free = (free + more).saturating_sub(less);
    pool.total = Observed::Known(total);
    pool.free = Observed::Known(free);
    pool.surplus = Observed::Known(PageCount::ZERO);
}
