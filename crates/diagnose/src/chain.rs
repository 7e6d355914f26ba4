//! The chain: asked > pool > room > permission > cgroup > mapped, each link with its evidence.
//!
//! The first broken link is the cause. What held when the server started cannot be seen any more:
//! where a link holds now but may not have then, it is unknown and says so.

use hugewise_engines::EngineKind;
use hugewise_model::instance::{Mechanism, ServerSetting, Trait};
use hugewise_model::{
    Bytes, Host, HugePageChain, HugePageMode, HugePageUse, Instance, Link, LinkName, LinkState,
    PageCount, PageSize, Pool,
};

use crate::cgroup::HugetlbLimits;
use crate::ipc_privileges::{IpcPrivileges, StarterGroups};
use crate::memlock_charges::{MemlockCharges, MemlockNeeded};
use crate::memlock_witness::find_refused_memlock;
use crate::permission::{HugePageRight, MemlockEffect};
use crate::wording::{distinguish_sizes, join_names, pool_fact};
use crate::{demand, permission};

/// None for one wholly on huge pages; two links where an engine cannot use hugetlb pages at all.
pub fn build_chain(
    host: &Host,
    limits: &HugetlbLimits,
    locked: &MemlockCharges,
    instance: &Instance,
) -> Option<HugePageChain> {
    let has_memory = !instance.segments.is_empty() || instance.demand.is_some();
    if instance.huge_pages == HugePageUse::All || !has_memory {
        return None;
    }
    if instance.mechanism == Mechanism::None && !is_amm(instance) {
        return Some(HugePageChain {
            instance: instance.id(),
            links: vec![check_request(instance), check_mapping(host, instance)],
        });
    }
    let links = vec![
        check_request(instance),
        check_pool(host, instance),
        check_pool_room(host, instance),
        check_permission(host, locked, instance),
        check_cgroup_limit(host, limits, instance),
        check_mapping(host, instance),
    ];
    Some(HugePageChain { instance: instance.id(), links })
}

/// Whether Oracle's automatic memory management holds the SGA in /dev/shm.
pub fn is_amm(instance: &Instance) -> bool {
    instance.traits.contains(&Trait::Amm)
}

/// Whether an instance runs on base pages with settings, newer than its start, that refuse that.
pub(crate) fn asks_since_it_started(instance: &Instance) -> bool {
    // What its command line says it was started with.
    let is_as_started = instance.setting.as_ref().is_some_and(ServerSetting::is_on_command_line)
        || (EngineKind::for_engine(instance.engine).start.goes_without_any)(instance);
    instance.asked == HugePageMode::Must
        && instance.huge_pages == HugePageUse::None
        && !is_as_started
}

fn make_link(name: LinkName, state: LinkState, evidence: impl Into<String>) -> Link {
    Link { name, state, evidence: crate::wording::one_line(&evidence.into()) }
}

fn describe_setting(instance: &Instance, otherwise: &str) -> String {
    instance.setting.as_ref().map_or_else(|| otherwise.to_owned(), ToString::to_string)
}

pub(crate) fn check_request(instance: &Instance) -> Link {
    let link = |state, evidence: String| make_link(LinkName::Asked, state, evidence);
    match instance.asked {
        _ if asks_since_it_started(instance) => {
            let set = describe_setting(instance, "yes");
            link(
                LinkState::Broken,
                format!(
                    "{set}, set since it started: it keeps the old setting until it is restarted"
                ),
            )
        }
        HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises => {
            link(LinkState::Ok, describe_setting(instance, "yes"))
        }
        HugePageMode::No => link(
            LinkState::Broken,
            describe_setting(instance, "its settings don't ask for huge pages"),
        ),
        HugePageMode::Cannot if is_amm(instance) => {
            link(LinkState::Broken, "AMM: an SGA in /dev/shm cannot use huge pages".into())
        }
        HugePageMode::Cannot if instance.mechanism == Mechanism::None => {
            link(LinkState::Broken, format!("{} cannot use them; THP at most", instance.engine))
        }
        HugePageMode::Cannot => {
            link(LinkState::Broken, describe_setting(instance, "this memory cannot use huge pages"))
        }
        HugePageMode::Unknown => {
            link(LinkState::Unknown, describe_setting(instance, "its settings could not be read"))
        }
    }
}

pub(crate) fn other_pools(host: &Host, page: PageSize) -> Vec<&Pool> {
    let has_pages = |pool: &&Pool| {
        pool.page_size != page && pool.total.get().is_some_and(|pages| pages > PageCount::ZERO)
    };
    host.pools.as_known().into_iter().flatten().filter(has_pages).collect()
}

fn check_pool(host: &Host, instance: &Instance) -> Link {
    let link = |state, evidence: String| make_link(LinkName::Pool, state, evidence);
    let Some(page) = demand::page_size(host, instance) else {
        return link(LinkState::Unknown, "the page size that it asks for is not known".into());
    };
    if let Some(reason) = host.pools.reason_text() {
        return link(LinkState::Unknown, format!("/sys/kernel/mm/hugepages: {reason}"));
    }
    let Some(pool) = host.find_pool(page) else {
        return link(LinkState::Broken, format!("this kernel has no pool of {page} pages"));
    };
    let file = pool_fact(host, page, "nr_hugepages");
    let Some(total) = pool.total.get() else {
        return link(
            LinkState::Unknown,
            format!("{file}: {}", pool.total.reason_text().unwrap_or_default()),
        );
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
        let total = other.total.get().unwrap_or_default();
        evidence.push_str(&format!("; {}: {total}", other.page_size));
    }
    if instance.asked == HugePageMode::Raises {
        evidence.push_str("; the server was to raise the pool itself and did not get it");
    }
    link(LinkState::Broken, evidence)
}

fn check_pool_room(host: &Host, instance: &Instance) -> Link {
    let link = |state, evidence: String| make_link(LinkName::Room, state, evidence);
    let Some(demand) = demand::find_demand(host, instance) else {
        return link(LinkState::Unknown, "its demand is not known".into());
    };
    let page = demand.page_size;
    let Some(obtainable) = demand::obtainable_for(host, instance, page) else {
        return link(LinkState::Unknown, format!("pages available in the {page} pool: not known"));
    };
    let Some(more) = demand::find_missing_demand(host, instance) else {
        return link(
            LinkState::Unknown,
            format!("needs {} in all, {obtainable} available", demand.pages),
        );
    };
    if more.pages > obtainable {
        return link(
            LinkState::Broken,
            format!("needs {}, {obtainable} available", more.pages.in_more_pages()),
        );
    }
    let note = match instance.asked {
        HugePageMode::Must if asks_since_it_started(instance) => {
            "enough now; the setting is newer than its start: restart it"
        }
        _ if demand::asks_now(instance) => {
            "enough now; the pool may have been smaller when it started: restart it"
        }
        _ => "enough now",
    };
    link(
        LinkState::Unknown,
        format!("needs {}, {obtainable} available: {note}", more.pages.in_more_pages()),
    )
}

fn check_permission(host: &Host, locked: &MemlockCharges, instance: &Instance) -> Link {
    let link = |state, evidence: String| make_link(LinkName::Permission, state, evidence);
    match instance.mechanism {
        Mechanism::Mmap => link(LinkState::Ok, "mmap needs none".into()),
        Mechanism::None => link(LinkState::Ok, "none would be needed".into()),
        Mechanism::Hugetlbfs => {
            let Some(page) = demand::page_size(host, instance) else {
                return link(
                    LinkState::Unknown,
                    "the page size that it asks for is not known".into(),
                );
            };
            let Some(mounts) = host.hugetlbfs_mounts.as_known() else {
                let reason = host.hugetlbfs_mounts.reason_text().unwrap_or_default();
                return link(LinkState::Unknown, format!("hugetlbfs mounts: {reason}"));
            };
            match mounts.iter().find(|mount| mount.page_size.get() == Some(page)) {
                Some(mount) => {
                    link(LinkState::Ok, format!("hugetlbfs of {page} pages on {}", mount.path))
                }
                None => link(LinkState::Broken, format!("no hugetlbfs of {page} pages is mounted")),
            }
        }
        Mechanism::SysvShm => {
            let needs = locked.at_restart(host, instance);
            let (state, evidence) = check_sysv_permission(
                host,
                instance,
                &IpcPrivileges::from_running_process(host, instance),
                needs,
            );
            // What its next start may do, the process that runs could not.
            match started_without_the_group(host, instance).filter(|_| state == LinkState::Ok) {
                Some(what) => link(state, format!("{evidence}; {what}")),
                None => link(state, evidence),
            }
        }
    }
}

/// SHM_HUGETLB: the capability or the group, on older kernels also a memlock limit.
pub(crate) fn check_sysv_permission(
    host: &Host,
    instance: &Instance,
    given: &IpcPrivileges,
    needs: MemlockNeeded,
) -> (LinkState, String) {
    let right = match outside_the_group(host, instance, given) {
        Some(what) => HugePageRight::Lacks(what),
        None => permission::without_memlock_by(host, instance, &given.ipc_lock),
    };
    let rule = permission::memlock_effect(host);
    let (memlock, enough) = given.memlock_for(needs);
    match (right, rule, enough) {
        (HugePageRight::Has(what), _, _) => (LinkState::Ok, what),
        (_, MemlockEffect::Buys(_), Some(true)) => (LinkState::Ok, memlock),
        (HugePageRight::Unknown(what), _, _) => (LinkState::Unknown, what),
        (HugePageRight::Lacks(what), MemlockEffect::Useless(_), _) => (LinkState::Broken, what),
        (
            HugePageRight::Lacks(what),
            MemlockEffect::Buys(_) | MemlockEffect::Unknown(_),
            Some(false),
        ) => (LinkState::Broken, format!("{what}; {memlock}")),
        (HugePageRight::Lacks(what), MemlockEffect::Buys(_), None) => {
            (LinkState::Unknown, format!("{what}; {memlock}"))
        }
        (HugePageRight::Lacks(what), MemlockEffect::Unknown(kernel), _) => {
            match find_refused_memlock(host, instance) {
                Some(shown) => (LinkState::Broken, format!("{what}; {shown}")),
                None => (
                    LinkState::Unknown,
                    format!("{what}; {memlock}; whether {kernel} accepts memlock is not known"),
                ),
            }
        }
    }
}

/// That a server not wholly on huge pages runs without the group that its owner has by now.
fn started_without_the_group(host: &Host, instance: &Instance) -> Option<String> {
    let process =
        host.find_process(instance.pid).filter(|_| instance.huge_pages != HugePageUse::All)?;
    // Of one of which ps alone tells, they are not known.
    if process.groups.is_empty() && !process.memlock.is_known() {
        return None;
    }
    let ids = process.groups.iter().copied().chain([process.gid]).collect();
    let own = StarterGroups { whose: format!("{} (pid {})", process.name, process.pid), ids };
    outside_the_group(
        host,
        instance,
        &IpcPrivileges { groups: Some(own), ..IpcPrivileges::from_running_process(host, instance) },
    )
}

/// A process keeps the groups that it was started with, though its owner may have more by now.
pub(crate) fn outside_the_group(
    host: &Host,
    instance: &Instance,
    given: &IpcPrivileges,
) -> Option<String> {
    let groups = given.groups.as_ref()?;
    let group =
        host.kernel_settings.hugetlb_shm_group.get().filter(|group| !groups.ids.contains(group))?;
    let by_capability =
        matches!(permission::capability_of(host, instance, &given.ipc_lock), HugePageRight::Has(_));
    let owner_has = matches!(
        permission::without_memlock_by(host, instance, &given.ipc_lock),
        HugePageRight::Has(_)
    );
    (owner_has && !by_capability).then(|| {
        format!(
            "{} is not in vm.hugetlb_shm_group={group}: it was started before its user was added",
            groups.whose
        )
    })
}

fn check_cgroup_limit(host: &Host, limits: &HugetlbLimits, instance: &Instance) -> Link {
    let link = |state, evidence: String| make_link(LinkName::Cgroup, state, evidence);
    match limits.worst_shortage(host, instance) {
        Ok(None) => link(LinkState::Ok, "no limit in its way".into()),
        Ok(Some(short)) => {
            let what = if short.at_fault { "fault limit" } else { "reservation limit" };
            let (limit, needs) = match short.servers {
                1 => distinguish_sizes(short.limit, short.demand),
                servers => {
                    let (limit, needs) = distinguish_sizes(short.limit, short.enough);
                    (limit, format!("{needs} of {servers} servers"))
                }
            };
            let (path, charged) = (&short.path, short.charged);
            link(
                LinkState::Broken,
                format!("{what} {limit} of {path} ({charged} charged) for {needs}"),
            )
        }
        Err(missing) => link(LinkState::Unknown, missing.to_string()),
    }
}

fn check_mapping(host: &Host, instance: &Instance) -> Link {
    let link = |state, evidence: String| make_link(LinkName::Mapped, state, evidence);
    match instance.huge_pages {
        HugePageUse::All => link(LinkState::Ok, "all of it".into()),
        HugePageUse::Partly => {
            let (huge, all) = (instance.huge_bytes(), instance.segment_bytes());
            link(LinkState::Broken, format!("{huge} of {all} on huge pages"))
        }
        HugePageUse::None => link(LinkState::Broken, on_base(host, instance)),
        HugePageUse::Unknown => {
            link(LinkState::Unknown, demand::why_unknown(host, instance).to_string())
        }
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

/// [`on_base`] with the file that says so.
pub(crate) fn seen_on_base(host: &Host, instance: &Instance) -> String {
    let maps = host.find_process(instance.pid).is_none_or(|process| !process.mappings.is_absent());
    let file = if maps { "maps" } else { "status HugetlbPages" };
    format!("{} (/proc/{}/{file})", on_base(host, instance), instance.pid)
}

pub(crate) fn single_instance<'a>(instances: &[&'a Instance]) -> Option<&'a Instance> {
    if let [instance] = instances { Some(instance) } else { None }
}

/// Names of instances, for a sentence.
pub fn join_titles<'a>(instances: impl IntoIterator<Item = &'a Instance>) -> String {
    join_names(&instances.into_iter().map(Instance::title).collect::<Vec<_>>())
}
