//! The chain: asked > pool > room > permission > cgroup > mapped, each link with its evidence.
//!
//! The first broken link is the cause. What held when the server started cannot be seen any more:
//! where a link holds now but may not have then, it is unknown and says so.

use hugewise_model::instance::{Mechanism, Trait};
use hugewise_model::{
    Asked, Bytes, Chain, Host, HugePageUse, Instance, Link, LinkName, LinkState, PageCount, PageSize, Pool,
};

use crate::cgroup::Limits;
use crate::given::{Given, Groups};
use crate::locked::{Locked, Needed};
use crate::permission::{Memlock, Right};
use crate::words::{apart, list, pool_fact};
use crate::{demand, permission};

/// The chain of an instance that is not wholly on huge pages; none for one that is. An engine that has no
/// way to hugetlb pages at all has two links: it cannot ask, so nothing is mapped.
pub fn chain(host: &Host, limits: &Limits, locked: &Locked, instance: &Instance) -> Option<Chain> {
    let has_memory = !instance.segments.is_empty() || instance.demand.is_some();
    if instance.huge_pages == HugePageUse::All || !has_memory {
        return None;
    }
    if instance.mechanism == Mechanism::None && !is_amm(instance) {
        return Some(Chain { instance: instance.id(), links: vec![asked(instance), mapped(host, instance)] });
    }
    let links = vec![
        asked(instance),
        pool(host, instance),
        room(host, instance),
        permission(host, locked, instance),
        cgroup(host, limits, instance),
        mapped(host, instance),
    ];
    Some(Chain { instance: instance.id(), links })
}

/// Whether Oracle's automatic memory management holds the SGA in /dev/shm.
pub fn is_amm(instance: &Instance) -> bool {
    instance.traits.contains(&Trait::Amm)
}

/// Whether an instance runs on base pages with settings that refuse just that: they are newer than its start.
pub(crate) fn asks_since_it_started(instance: &Instance) -> bool {
    instance.asked == Asked::Must && instance.huge_pages == HugePageUse::None
}

fn link(name: LinkName, state: LinkState, evidence: impl Into<String>) -> Link {
    Link { name, state, evidence: crate::words::one_line(&evidence.into()) }
}

fn setting(instance: &Instance, otherwise: &str) -> String {
    instance.setting.as_ref().map_or_else(|| otherwise.to_owned(), ToString::to_string)
}

pub(crate) fn asked(instance: &Instance) -> Link {
    let link = |state, evidence: String| link(LinkName::Asked, state, evidence);
    match instance.asked {
        _ if asks_since_it_started(instance) => {
            let set = setting(instance, "yes");
            link(
                LinkState::Broken,
                format!("{set}, set since it started: it keeps the old setting until it is restarted"),
            )
        }
        Asked::Try | Asked::Must | Asked::Raises => link(LinkState::Ok, setting(instance, "yes")),
        Asked::No => link(LinkState::Broken, setting(instance, "its settings don't ask for huge pages")),
        Asked::Cannot if is_amm(instance) => {
            link(LinkState::Broken, "AMM: an SGA in /dev/shm cannot use huge pages".into())
        }
        Asked::Cannot if instance.mechanism == Mechanism::None => {
            link(LinkState::Broken, format!("{} cannot use them; THP at most", instance.engine))
        }
        Asked::Cannot => link(LinkState::Broken, setting(instance, "this memory cannot use huge pages")),
        Asked::Unknown => link(LinkState::Unknown, setting(instance, "its settings could not be read")),
    }
}

/// Pools of other sizes that have pages.
pub(crate) fn other_pools(host: &Host, page: PageSize) -> Vec<&Pool> {
    let has_pages = |pool: &&Pool| pool.page_size != page && pool.total.get().is_some_and(|it| it > PageCount::ZERO);
    host.pools.known().into_iter().flatten().filter(has_pages).collect()
}

fn pool(host: &Host, instance: &Instance) -> Link {
    let link = |state, evidence: String| link(LinkName::Pool, state, evidence);
    let Some(page) = demand::page_size(host, instance) else {
        return link(LinkState::Unknown, "the page size that it asks for is not known".into());
    };
    if let Some(reason) = host.pools.reason() {
        return link(LinkState::Unknown, format!("/sys/kernel/mm/hugepages: {reason}"));
    }
    let Some(pool) = host.pool(page) else {
        return link(LinkState::Broken, format!("this kernel has no pool of {page} pages"));
    };
    let file = pool_fact(host, page, "nr_hugepages");
    let Some(total) = pool.total.get() else {
        return link(LinkState::Unknown, format!("{file}: {}", pool.total.reason().unwrap_or_default()));
    };
    let on_demand = pool.overcommit.get().unwrap_or_default();
    if total > PageCount::ZERO {
        return link(LinkState::Ok, format!("{page}: {}", total.in_pages()));
    }
    if on_demand > PageCount::ZERO {
        return link(LinkState::Ok, format!("{page}: none set aside, up to {on_demand} on demand"));
    }
    let mut evidence = format!("{page}: 0 pages");
    for other in other_pools(host, page) {
        evidence.push_str(&format!("; {}: {}", other.page_size, other.total.get().unwrap_or_default()));
    }
    if instance.asked == Asked::Raises {
        evidence.push_str("; the server was to raise the pool itself and did not get it");
    }
    link(LinkState::Broken, evidence)
}

fn room(host: &Host, instance: &Instance) -> Link {
    let link = |state, evidence: String| link(LinkName::Room, state, evidence);
    let Some(demand) = demand::of(host, instance) else {
        return link(LinkState::Unknown, "its demand is not known".into());
    };
    let page = demand.page_size;
    let Some(obtainable) = demand::obtainable_for(host, instance, page) else {
        return link(LinkState::Unknown, format!("pages available in the {page} pool: not known"));
    };
    let Some(more) = demand::more(host, instance) else {
        return link(LinkState::Unknown, format!("needs {} in all, {obtainable} available", demand.pages));
    };
    if more.pages > obtainable {
        return link(LinkState::Broken, format!("needs {}, {obtainable} available", more.pages.in_more_pages()));
    }
    let asks = matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises);
    let note = match instance.asked {
        Asked::Must => "enough now; the setting is newer than its start: restart it",
        _ if asks => "enough now; the pool may have been smaller when it started: restart it",
        _ => "enough now",
    };
    link(LinkState::Unknown, format!("needs {}, {obtainable} available: {note}", more.pages.in_more_pages()))
}

fn permission(host: &Host, locked: &Locked, instance: &Instance) -> Link {
    let link = |state, evidence: String| link(LinkName::Permission, state, evidence);
    match instance.mechanism {
        Mechanism::Mmap => link(LinkState::Ok, "mmap needs none".into()),
        Mechanism::None => link(LinkState::Ok, "none would be needed".into()),
        Mechanism::Hugetlbfs => {
            let Some(page) = demand::page_size(host, instance) else {
                return link(LinkState::Unknown, "the page size that it asks for is not known".into());
            };
            let Some(mounts) = host.hugetlbfs_mounts.known() else {
                let reason = host.hugetlbfs_mounts.reason().unwrap_or_default();
                return link(LinkState::Unknown, format!("hugetlbfs mounts: {reason}"));
            };
            match mounts.iter().find(|mount| mount.page_size.get() == Some(page)) {
                Some(mount) => link(LinkState::Ok, format!("hugetlbfs of {page} pages on {}", mount.path)),
                None => link(LinkState::Broken, format!("no hugetlbfs of {page} pages is mounted")),
            }
        }
        Mechanism::SysvShm => {
            let needs = locked.at_restart(host, instance);
            let (state, evidence) = sysv(host, instance, &Given::now(host, instance), needs);
            // What its next start may do, the process that runs could not.
            match started_without_the_group(host, instance).filter(|_| state == LinkState::Ok) {
                Some(what) => link(state, format!("{evidence}; {what}")),
                None => link(state, evidence),
            }
        }
    }
}

/// SHM_HUGETLB: the capability or the group, on older kernels also a memlock limit of what its user has with this.
pub(crate) fn sysv(host: &Host, instance: &Instance, given: &Given, needs: Needed) -> (LinkState, String) {
    let right = match outside_the_group(host, instance, given) {
        Some(what) => Right::Lacks(what),
        None => permission::without_memlock_by(host, instance, &given.ipc_lock),
    };
    if let Right::Has(what) = right {
        return (LinkState::Ok, what);
    }
    let rule = permission::memlock(host);
    let (memlock, enough) = given.memlock_for(needs);
    match (right, rule, enough) {
        (Right::Has(what), _, _) => (LinkState::Ok, what),
        (_, Memlock::Buys(_), Some(true)) => (LinkState::Ok, memlock),
        (Right::Unknown(what), _, _) => (LinkState::Unknown, what),
        (Right::Lacks(what), Memlock::Useless(_), _) => (LinkState::Broken, what),
        (Right::Lacks(what), Memlock::Buys(_) | Memlock::Unknown(_), Some(false)) => {
            (LinkState::Broken, format!("{what}; {memlock}"))
        }
        (Right::Lacks(what), Memlock::Buys(_), None) => (LinkState::Unknown, format!("{what}; {memlock}")),
        (Right::Lacks(what), Memlock::Unknown(kernel), _) => {
            (LinkState::Unknown, format!("{what}; {memlock}; whether {kernel} accepts memlock is not known"))
        }
    }
}

/// That a server which is not wholly on huge pages runs without the group that its owner has by now.
fn started_without_the_group(host: &Host, instance: &Instance) -> Option<String> {
    let process = host.process(instance.pid).filter(|_| instance.huge_pages != HugePageUse::All)?;
    // Of one of which ps alone tells, they are not known.
    if process.groups.is_empty() && !process.memlock.is_known() {
        return None;
    }
    let ids = process.groups.iter().copied().chain([process.gid]).collect();
    let own = Groups { whose: format!("{} (pid {})", process.name, process.pid), ids };
    outside_the_group(host, instance, &Given { groups: Some(own), ..Given::now(host, instance) })
}

/// That whoever starts a server is not in vm.hugetlb_shm_group, though its owner is by now: a process keeps the groups that it
/// was started with. None where that makes no difference.
pub(crate) fn outside_the_group(host: &Host, instance: &Instance, given: &Given) -> Option<String> {
    let groups = given.groups.as_ref()?;
    let group = host.kernel_settings.hugetlb_shm_group.get().filter(|group| !groups.ids.contains(group))?;
    let by_capability = matches!(permission::capability_of(host, instance, &given.ipc_lock), Right::Has(_));
    let owner_has = matches!(permission::without_memlock_by(host, instance, &given.ipc_lock), Right::Has(_));
    (owner_has && !by_capability).then(|| {
        format!("{} is not in vm.hugetlb_shm_group={group}: it was started before its user was added", groups.whose)
    })
}

fn cgroup(host: &Host, limits: &Limits, instance: &Instance) -> Link {
    let link = |state, evidence: String| link(LinkName::Cgroup, state, evidence);
    match limits.shortage(host, instance) {
        Ok(None) => link(LinkState::Ok, "no limit in its way".into()),
        Ok(Some(short)) => {
            let what = if short.at_fault { "fault limit" } else { "reservation limit" };
            let (limit, needs) = match short.servers {
                1 => apart(short.limit, short.demand),
                servers => {
                    let (limit, needs) = apart(short.limit, short.enough);
                    (limit, format!("{needs} of {servers} servers"))
                }
            };
            let (path, charged) = (&short.path, short.charged);
            link(LinkState::Broken, format!("{what} {limit} of {path} ({charged} charged) for {needs}"))
        }
        Err(missing) => link(LinkState::Unknown, missing.to_string()),
    }
}

fn mapped(host: &Host, instance: &Instance) -> Link {
    let link = |state, evidence: String| link(LinkName::Mapped, state, evidence);
    match instance.huge_pages {
        HugePageUse::All => link(LinkState::Ok, "all of it".into()),
        HugePageUse::Partly => {
            let (huge, all) = (instance.huge_bytes(), instance.segment_bytes());
            link(LinkState::Broken, format!("{huge} of {all} on huge pages"))
        }
        HugePageUse::None => link(LinkState::Broken, on_base(host, instance)),
        HugePageUse::Unknown => link(LinkState::Unknown, demand::why_unknown(host, instance).to_string()),
    }
}

/// `34.0 GiB on 4 KiB pages`; what is on transparent huge pages is said to be there.
pub(crate) fn on_base(host: &Host, instance: &Instance) -> String {
    let all = demand::on_base_pages(instance).unwrap_or_default();
    let transparent = instance.transparent.get().unwrap_or_default().min(all);
    let base = all.saturating_sub(transparent);
    let size = host.base_page.get().map_or_else(|| "base".to_owned(), |page| page.to_string());
    match (transparent, base) {
        (Bytes::ZERO, _) => format!("{base} on {size} pages"),
        (_, Bytes::ZERO) => format!("{transparent} on transparent huge pages"),
        _ => format!("{base} on {size} pages and {transparent} on transparent huge pages"),
    }
}

/// The same with the file that tells it.
pub(crate) fn seen_on_base(host: &Host, instance: &Instance) -> String {
    let maps = host.process(instance.pid).is_none_or(|process| !process.mappings.is_absent());
    let file = if maps { "maps" } else { "status HugetlbPages" };
    format!("{} (/proc/{}/{file})", on_base(host, instance), instance.pid)
}

/// Names of instances, for a sentence.
pub fn titles<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> String {
    list(&instances.into_iter().map(Instance::title).collect::<Vec<_>>())
}
