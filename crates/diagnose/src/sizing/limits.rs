//! Limits that the demand asks for, and which of them this kernel looks at for these servers.

use std::collections::BTreeMap;

use hugewise_model::instance::{Mechanism, SegmentKind};
use hugewise_model::{Bytes, HugePageMode, Instance, Limit, PageCount};

use super::budget::MemoryBudget;
use super::planned_servers::PlannedServer;
use super::{SizingContext, work_memory};
use crate::permission::{self, HugePageRight, MemlockEffect};
use crate::wording::one_line;
use crate::{ipc_privileges, memlock_charges};

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitNeed<T> {
    /// What it has to be, at least.
    pub needed: Option<T>,
    /// What it is; of memlock the least that a server gets at its next restart or the next boot.
    pub now: Option<T>,
    /// Whether that is enough. `None` where it cannot be told.
    pub enough: Option<bool>,
    /// Whether this kernel looks at it; `None` where its release comes in both kinds.
    pub checked: Option<bool>,
    /// The evidence for that.
    pub evidence: String,
    /// Titles of the servers that it concerns.
    pub instances: Vec<String>,
}

/// All limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsNeeded {
    /// Memlock of the server that needs most, beside its user's others; unlimited is `u64::MAX`.
    pub memlock: LimitNeed<Bytes>,
    /// kernel.shmmax: the largest System V segment, in whole huge pages.
    pub shmmax: LimitNeed<Bytes>,
    /// kernel.shmall in base pages: all System V segments of the host.
    pub shmall_pages: LimitNeed<u64>,
    /// vm.hugetlb_shm_group: a group of the servers' owners.
    pub hugetlb_shm_group: LimitNeed<u32>,
    /// CommitLimit, which the pools shrink: it has to hold what is committed beside them.
    pub commit_limit: LimitNeed<Bytes>,
}

const MMAP_NEEDS_NONE: &str =
    "these servers map huge pages with mmap, which asks for no permission";

pub(super) fn find_limits_needed(ask: &SizingContext<'_>, budget: &MemoryBudget) -> LimitsNeeded {
    let is_sysv = |wanted: &&PlannedServer<'_>| wanted.instance.mechanism == Mechanism::SysvShm;
    let sysv: Vec<&PlannedServer<'_>> = ask.plan.wanted.iter().filter(is_sysv).collect();
    let (mut memlock, mut group) = (memlock_needed(ask, &sysv), shm_group_needed(ask, &sysv));
    // Either of them is enough where the kernel looks at both.
    if let MemlockEffect::Buys(why) = permission::memlock_effect(ask.host) {
        let has_right = |wanted: &&PlannedServer<'_>| {
            let right = permission::without_memlock(ask.host, wanted.instance);
            matches!(right, HugePageRight::Has(_))
        };
        if !sysv.is_empty() && sysv.iter().all(has_right) {
            let evidence =
                "the group or CAP_IPC_LOCK lets them have huge pages, whatever their limit"
                    .to_owned();
            memlock = LimitNeed { checked: Some(false), evidence, ..memlock };
        } else if memlock.enough == Some(true) {
            group = LimitNeed::not_checked(
                group.now,
                format!("{why}: the memlock limit lets them have huge pages"),
            );
        }
    }
    LimitsNeeded {
        memlock,
        shmmax: shmmax_needed(ask, &sysv),
        shmall_pages: shmall_needed(ask, &sysv),
        hugetlb_shm_group: group,
        commit_limit: commit_limit(ask, budget),
    }
}

impl<T> LimitNeed<T> {
    fn not_checked(now: Option<T>, evidence: impl Into<String>) -> Self {
        Self {
            needed: None,
            now,
            enough: None,
            checked: Some(false),
            evidence: evidence.into(),
            instances: Vec::new(),
        }
    }
}

fn server_titles(wanted: &[&PlannedServer<'_>]) -> Vec<String> {
    wanted.iter().map(|wanted| one_line(&wanted.instance.title())).collect()
}

fn memlock_needed(ask: &SizingContext<'_>, sysv: &[&PlannedServer<'_>]) -> LimitNeed<Bytes> {
    // Of all that the kernel charges to one user the last to start needs the sum.
    let mut sums = BTreeMap::<u32, Bytes>::new();
    for (uid, wanted) in sysv.iter().filter_map(|wanted| Some((charged_to(ask, wanted)?, wanted))) {
        *sums.entry(uid).or_default() += wanted.planned_memory();
    }
    let of_user = |wanted: &PlannedServer<'_>| sums.get(&charged_to(ask, wanted)?).copied();
    let needed =
        |wanted: &PlannedServer<'_>| of_user(wanted).unwrap_or_else(|| wanted.planned_memory());
    let Some(most) = sysv.iter().max_by_key(|wanted| needed(wanted)) else {
        return LimitNeed::not_checked(None, MMAP_NEEDS_NONE);
    };
    let (checked, evidence) = match permission::memlock_effect(ask.host) {
        MemlockEffect::Buys(why) => {
            (Some(true), format!("{why}: a limit of the segments' size lets them have huge pages"))
        }
        MemlockEffect::Useless(why) => {
            (Some(false), format!("{why}: SHM_HUGETLB goes by the group or CAP_IPC_LOCK alone"))
        }
        MemlockEffect::Unknown(why) => {
            (None, format!("{why}: some such kernels accept one and some do not"))
        }
    };
    let limit_of = |wanted: &PlannedServer<'_>| at_next_starts(ask, wanted, needed(wanted));
    let limits: Vec<(Option<Limit>, bool)> =
        sysv.iter().filter_map(|wanted| limit_of(wanted)).collect();
    let (now, _) = limit_of(most).unwrap_or_default();
    let is_known = limits.len() == sysv.len() && limits.iter().all(|(limit, _)| limit.is_some());
    LimitNeed {
        needed: Some(needed(most)),
        now: now.map(|limit| if let Limit::At(bytes) = limit { bytes } else { Bytes(u64::MAX) }),
        enough: is_known.then(|| limits.iter().all(|(_, enough)| *enough)),
        checked,
        evidence,
        instances: server_titles(sysv),
    }
}

fn charged_to(ask: &SizingContext<'_>, wanted: &PlannedServer<'_>) -> Option<u32> {
    let process = permission::process_of(ask.host, wanted.instance)?;
    let by_limit = !matches!(permission::memlock_effect(ask.host), MemlockEffect::Useless(_));
    (by_limit && memlock_charges::is_charged(ask.host, wanted.instance)).then_some(process.uid)
}

/// No limit where one is not known; nothing where the server's owner is not known.
fn at_next_starts(
    ask: &SizingContext<'_>,
    wanted: &PlannedServer<'_>,
    needed: Bytes,
) -> Option<(Option<Limit>, bool)> {
    permission::process_of(ask.host, wanted.instance)?;
    let restart = ipc_privileges::at_restart(ask.host, wanted.instance);
    let boot = ipc_privileges::at_boot(ask.host, wanted.instance);
    let given = restart.all_alternatives().chain(boot.all_alternatives());
    let limits: Option<Vec<Limit>> = given.map(|given| given.memlock.limit.get()).collect();
    let least = limits.and_then(|limits| limits.into_iter().min());
    Some((least, least.is_some_and(|least| least.allows(needed))))
}

/// shmget compares the size that the server asks for; one that asks for whole pages asks for this.
fn shmmax_needed(ask: &SizingContext<'_>, sysv: &[&PlannedServer<'_>]) -> LimitNeed<Bytes> {
    let now = ask.host.kernel_settings.shmmax.get();
    let largest = |wanted: &PlannedServer<'_>| {
        let page = wanted.page_size();
        let segments = wanted.sized_instance().segments.iter();
        let sizes = segments
            .filter(|segment| segment.kind == SegmentKind::SystemV)
            .map(|segment| page.pages_for(segment.size).to_bytes(page));
        sizes.max().unwrap_or_else(|| wanted.planned_memory())
    };
    let Some(needed) = sysv.iter().map(|wanted| largest(wanted)).max() else {
        return LimitNeed::not_checked(now, MMAP_NEEDS_NONE);
    };
    LimitNeed {
        needed: Some(needed),
        now,
        enough: now.map(|now| now >= needed),
        checked: Some(true),
        evidence: "shmget: EINVAL for a larger segment; servers then split their memory into more \
                   segments"
            .into(),
        instances: server_titles(sysv),
    }
}

/// The kernel counts every System V segment in base pages, huge ones too.
fn shmall_needed(ask: &SizingContext<'_>, sysv: &[&PlannedServer<'_>]) -> LimitNeed<u64> {
    let now = ask.host.kernel_settings.shmall_pages.get();
    if sysv.is_empty() {
        return LimitNeed::not_checked(now, MMAP_NEEDS_NONE);
    }
    let base = ask.base_page();
    let base_pages = |sum: u64, size: Bytes| sum.saturating_add(base.pages_for(size).get());
    let segments = ask.host.sysv_segments.as_known().into_iter().flatten();
    let there = segments.map(|segment| segment.size).fold(0, base_pages);
    let running = sysv.iter().filter(|wanted| wanted.instance.pid != 0);
    let ours = running
        .flat_map(|wanted| &wanted.instance.segments)
        .filter(|segment| segment.kind == SegmentKind::SystemV)
        .map(|segment| segment.size)
        .fold(0, base_pages);
    let others = if ask.elsewhere { 0 } else { there.saturating_sub(ours) };
    let planned: Bytes = sysv.iter().map(|wanted| wanted.planned_memory()).sum();
    let needed = base.pages_for(planned).get().saturating_add(others);
    LimitNeed {
        needed: Some(needed),
        now,
        enough: now.map(|now| now >= needed),
        checked: Some(true),
        evidence: format!(
            "shmget: ENOSPC beyond it; {} {} in segments of others",
            PageCount(others).in_pages_of(base),
            PageCount(others).linking_verb()
        ),
        instances: server_titles(sysv),
    }
}

fn shm_group_needed(ask: &SizingContext<'_>, sysv: &[&PlannedServer<'_>]) -> LimitNeed<u32> {
    let now = ask.host.kernel_settings.hugetlb_shm_group.get();
    if sysv.is_empty() {
        return LimitNeed::not_checked(now, MMAP_NEEDS_NONE);
    }
    let rights: Vec<(&&PlannedServer<'_>, HugePageRight)> = sysv
        .iter()
        .map(|wanted| (wanted, permission::without_memlock(ask.host, wanted.instance)))
        .collect();
    let groups: Vec<Option<u32>> = sysv.iter().map(|wanted| group_of(ask, wanted)).collect();
    // The setting takes one group: of several the first one's counts that lacks it.
    let lacking =
        rights.iter().zip(&groups).find(|((_, right), _)| !matches!(right, HugePageRight::Has(_)));
    let needed = match lacking {
        Some((_, group)) => *group,
        None => now,
    };
    let all_have = rights.iter().all(|(_, right)| matches!(right, HugePageRight::Has(_)));
    let one_lacks = rights.iter().any(|(_, right)| matches!(right, HugePageRight::Lacks(_)));
    let by_accounts = || now.zip(needed).map(|(now, needed)| now == needed);
    let mut said: Vec<String> = rights
        .iter()
        .map(|(_, right)| match right {
            HugePageRight::Has(what)
            | HugePageRight::Lacks(what)
            | HugePageRight::Unknown(what) => one_line(what),
        })
        .collect();
    // Servers of one owner have one answer.
    said.dedup();
    let is_described = |instance: &Instance| instance.pid == 0 && !instance.is_stopped();
    let described = sysv.iter().all(|wanted| is_described(wanted.instance));
    let memlock = match permission::memlock_effect(ask.host) {
        MemlockEffect::Buys(why) => format!("{why}: a memlock limit would do instead"),
        MemlockEffect::Useless(why) => {
            format!("{why}: SHM_HUGETLB needs the group or CAP_IPC_LOCK")
        }
        MemlockEffect::Unknown(why) => {
            format!("{why}: SHM_HUGETLB needs the group, CAP_IPC_LOCK, or on some kernels memlock")
        }
    };
    let evidence = if described { memlock } else { format!("{memlock}; {}", said.join("; ")) };
    LimitNeed {
        needed,
        now,
        enough: match () {
            () if all_have => Some(true),
            () if one_lacks => Some(false),
            () => by_accounts(),
        },
        checked: Some(true),
        evidence,
        instances: server_titles(sysv),
    }
}

fn group_of(ask: &SizingContext<'_>, wanted: &PlannedServer<'_>) -> Option<u32> {
    let accounts = &ask.host.accounts;
    let process = permission::process_of(ask.host, wanted.instance).map(|process| process.uid);
    let by_name = || {
        let mut users = accounts.users.iter();
        users.find(|(_, user)| user.name == wanted.instance.owner).map(|(uid, _)| *uid)
    };
    let uid = process.or_else(by_name)?;
    accounts.users.get(&uid).map(|user| user.gid)
}

/// With vm.overcommit_memory=2 the kernel refuses memory beyond CommitLimit, out of which it takes
/// the pools; memory on huge pages does not count against it.
fn commit_limit(ask: &SizingContext<'_>, budget: &MemoryBudget) -> LimitNeed<Bytes> {
    let now = ask.host.memory.commit_limit.get();
    let settings = &ask.host.kernel_settings;
    let mode = match settings.overcommit_memory.get() {
        Some(2) => "vm.overcommit_memory=2: CommitLimit holds",
        Some(mode) => {
            return LimitNeed::not_checked(
                now,
                format!("vm.overcommit_memory={mode}: CommitLimit is not enforced"),
            );
        }
        None => {
            let mut unknown = LimitNeed::not_checked(now, "vm.overcommit_memory: not known");
            unknown.checked = None;
            return unknown;
        }
    };
    if ask.elsewhere {
        return LimitNeed {
            checked: Some(true),
            ..LimitNeed::not_checked(None, format!("{mode}; of that host it is not known"))
        };
    }
    let needed = sum_commit_needed(ask, budget);
    let pools = ask.host.pools.as_known().into_iter().flatten();
    let pools_now = pools.filter_map(hugewise_model::Pool::memory_bytes).sum();
    let ratio = settings.overcommit_ratio.get().unwrap_or(50).min(100);
    let part = |bytes: Bytes| bytes.shared_by(100).unwrap_or_default().saturating_mul(ratio);
    let then = now.map(|now| {
        now.saturating_sub(part(budget.pools.saturating_sub(pools_now)))
            + part(pools_now.saturating_sub(budget.pools))
    });
    LimitNeed {
        needed,
        now: then,
        enough: then.zip(needed).map(|(then, needed)| then >= needed),
        checked: Some(true),
        evidence: format!("{mode}, and the pools come out of it"),
        instances: server_titles(&ask.plan.wanted.iter().collect::<Vec<_>>()),
    }
}

fn sum_commit_needed(ask: &SizingContext<'_>, budget: &MemoryBudget) -> Option<Bytes> {
    let on_base: Bytes = ask
        .plan
        .wanted
        .iter()
        .filter(|wanted| wanted.instance.pid != 0 && wanted.instance.asked != HugePageMode::Cannot)
        .map(|wanted| wanted.instance.segment_bytes().saturating_sub(wanted.instance.huge_bytes()))
        .sum();
    let sessions_now: Vec<u64> =
        ask.plan.wanted.iter().map(|wanted| wanted.instance.sessions.get().unwrap_or(0)).collect();
    let private_now = work_memory::as_now_at(ask, &sessions_now).unwrap_or_default();
    let grows = budget.sessions_private.unwrap_or_default().saturating_sub(private_now);
    let committed = ask.host.memory.committed.get()?;
    Some(committed.saturating_sub(on_base) + grows)
}
