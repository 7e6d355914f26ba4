//! Limits that the demand asks for, and which of them this kernel looks at for these servers.

use std::collections::BTreeMap;

use hugewise_model::instance::{Mechanism, SegmentKind};
use hugewise_model::{Asked, Bytes, Instance, Limit, PageCount};

use super::budget::Budget;
use super::wanted::{Plan, Wanted};
use super::{Ask, work};
use crate::permission::{self, Memlock, Right};
use crate::words::one_line;
use crate::{given, locked};

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitNeed<T> {
    /// What it has to be, at least.
    pub needed: Option<T>,
    /// What it is; of memlock the least that a server gets at its next restart or the next boot.
    pub now: Option<T>,
    /// Whether that is enough. `None` where it cannot be told.
    pub enough: Option<bool>,
    /// Whether this kernel looks at it when these servers ask for their memory. `None` where kernels
    /// of this release come in both kinds.
    pub checked: Option<bool>,
    /// The evidence for that.
    pub evidence: String,
    /// Titles of the servers that it concerns.
    pub instances: Vec<String>,
}

/// All limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsNeeded {
    /// RLIMIT_MEMLOCK of the server that needs most, with what its user's others are charged. Unlimited is `u64::MAX` bytes.
    pub memlock: LimitNeed<Bytes>,
    /// kernel.shmmax: the largest System V segment, in whole huge pages.
    pub shmmax: LimitNeed<Bytes>,
    /// kernel.shmall in base pages: all System V segments of the host.
    pub shmall_pages: LimitNeed<u64>,
    /// vm.hugetlb_shm_group: a group of the servers' owners.
    pub hugetlb_shm_group: LimitNeed<u32>,
    /// CommitLimit once the pools stand, which shrink it: it has to hold what is committed beside them.
    pub commit_limit: LimitNeed<Bytes>,
}

const MMAP_NEEDS_NONE: &str = "these servers map huge pages with mmap, which asks for no permission";

pub(super) fn limits(ask: &Ask<'_>, plan: &Plan<'_>, budget: &Budget) -> LimitsNeeded {
    let sysv: Vec<&Wanted<'_>> =
        plan.wanted.iter().filter(|wanted| wanted.instance.mechanism == Mechanism::SysvShm).collect();
    let (mut memlock, mut group) = (memlock(ask, &sysv), group(ask, &sysv));
    // Either of them is enough where the kernel looks at both.
    if let Memlock::Buys(why) = permission::memlock(ask.host) {
        let has_right = |it: &&Wanted<'_>| matches!(permission::without_memlock(ask.host, it.instance), Right::Has(_));
        if !sysv.is_empty() && sysv.iter().all(has_right) {
            let evidence = "the group or CAP_IPC_LOCK lets them have huge pages, whatever their limit".to_owned();
            memlock = LimitNeed { checked: Some(false), evidence, ..memlock };
        } else if memlock.enough == Some(true) {
            group = LimitNeed::not_checked(group.now, format!("{why}: the memlock limit lets them have huge pages"));
        }
    }
    LimitsNeeded {
        memlock,
        shmmax: shmmax(ask, &sysv),
        shmall_pages: shmall(ask, &sysv),
        hugetlb_shm_group: group,
        commit_limit: commit_limit(ask, plan, budget),
    }
}

impl<T> LimitNeed<T> {
    fn not_checked(now: Option<T>, evidence: impl Into<String>) -> Self {
        Self { needed: None, now, enough: None, checked: Some(false), evidence: evidence.into(), instances: Vec::new() }
    }
}

fn titles(wanted: &[&Wanted<'_>]) -> Vec<String> {
    wanted.iter().map(|wanted| one_line(&wanted.instance.title())).collect()
}

fn memory_of(wanted: &Wanted<'_>) -> Bytes {
    wanted.planned()
}

fn memlock(ask: &Ask<'_>, sysv: &[&Wanted<'_>]) -> LimitNeed<Bytes> {
    // Of all that the kernel charges to one user the last to start needs the sum.
    let mut sums = BTreeMap::<u32, Bytes>::new();
    for (uid, wanted) in sysv.iter().filter_map(|wanted| Some((charged_to(ask, wanted)?, wanted))) {
        let sum = sums.entry(uid).or_default();
        *sum += memory_of(wanted);
    }
    let of_user = |wanted: &Wanted<'_>| sums.get(&charged_to(ask, wanted)?).copied();
    let needed = |wanted: &Wanted<'_>| of_user(wanted).unwrap_or_else(|| memory_of(wanted));
    let Some(most) = sysv.iter().max_by_key(|wanted| needed(wanted)) else {
        return LimitNeed::not_checked(None, MMAP_NEEDS_NONE);
    };
    let (checked, evidence) = match permission::memlock(ask.host) {
        Memlock::Buys(why) => (Some(true), format!("{why}: a limit of the segments' size lets them have huge pages")),
        Memlock::Useless(why) => (Some(false), format!("{why}: SHM_HUGETLB goes by the group or CAP_IPC_LOCK alone")),
        Memlock::Unknown(why) => (None, format!("{why}: some such kernels accept one and some do not")),
    };
    let of = |wanted: &Wanted<'_>| at_next_starts(ask, wanted, needed(wanted));
    let limits: Vec<(Option<Limit>, bool)> = sysv.iter().filter_map(|wanted| of(wanted)).collect();
    let (now, _) = of(most).unwrap_or_default();
    let is_known = limits.len() == sysv.len() && limits.iter().all(|(limit, _)| limit.is_some());
    LimitNeed {
        needed: Some(needed(most)),
        now: now.map(|limit| if let Limit::At(bytes) = limit { bytes } else { Bytes(u64::MAX) }),
        enough: is_known.then(|| limits.iter().all(|(_, enough)| *enough)),
        checked,
        evidence,
        instances: titles(sysv),
    }
}

/// The user that the kernel charges a server's memory to, where it does and goes by that.
fn charged_to(ask: &Ask<'_>, wanted: &Wanted<'_>) -> Option<u32> {
    let process = permission::process_of(ask.host, wanted.instance)?;
    let by_limit = !matches!(permission::memlock(ask.host), Memlock::Useless(_));
    (by_limit && locked::is_charged(ask.host, wanted.instance)).then_some(process.uid)
}

/// The smallest limit that a server may get at its next restart or the next boot, and whether it is enough; no limit where one
/// of them is not known, and nothing of a server that is only described, or whose owner is not known.
fn at_next_starts(ask: &Ask<'_>, wanted: &Wanted<'_>, needed: Bytes) -> Option<(Option<Limit>, bool)> {
    permission::process_of(ask.host, wanted.instance)?;
    let (restart, boot) = (given::at_restart(ask.host, wanted.instance), given::at_boot(ask.host, wanted.instance));
    let limits: Option<Vec<Limit>> = restart.all().chain(boot.all()).map(|given| given.memlock.limit.get()).collect();
    let least = limits.and_then(|limits| limits.into_iter().min());
    Some((least, least.is_some_and(|least| least.allows(needed))))
}

/// shmget compares the size that the server asks for; one that asks for whole pages asks for this.
fn shmmax(ask: &Ask<'_>, sysv: &[&Wanted<'_>]) -> LimitNeed<Bytes> {
    let now = ask.host.kernel_settings.shmmax.get();
    let largest = |wanted: &Wanted<'_>| {
        let segments = wanted.then().segments.iter().filter(|segment| segment.kind == SegmentKind::SystemV);
        let largest = segments.map(|segment| wanted.page().pages_for(segment.size).of(wanted.page())).max();
        largest.unwrap_or_else(|| memory_of(wanted))
    };
    let Some(needed) = sysv.iter().map(|wanted| largest(wanted)).max() else {
        return LimitNeed::not_checked(now, MMAP_NEEDS_NONE);
    };
    LimitNeed {
        needed: Some(needed),
        now,
        enough: now.map(|now| now >= needed),
        checked: Some(true),
        evidence: "shmget: EINVAL for a larger segment; servers then split their memory into more segments".into(),
        instances: titles(sysv),
    }
}

/// The kernel counts every System V segment in base pages, huge ones too.
fn shmall(ask: &Ask<'_>, sysv: &[&Wanted<'_>]) -> LimitNeed<u64> {
    let now = ask.host.kernel_settings.shmall_pages.get();
    if sysv.is_empty() {
        return LimitNeed::not_checked(now, MMAP_NEEDS_NONE);
    }
    let base = ask.base();
    let segments = || ask.host.sysv_segments.known().into_iter().flatten();
    let there: u64 = segments().fold(0, |sum, segment| sum.saturating_add(base.pages_for(segment.size).get()));
    let running = sysv.iter().filter(|wanted| wanted.instance.pid != 0).flat_map(|wanted| &wanted.instance.segments);
    let ours = running.filter(|segment| segment.kind == SegmentKind::SystemV);
    let ours = ours.fold(0_u64, |sum, segment| sum.saturating_add(base.pages_for(segment.size).get()));
    let others = if ask.elsewhere { 0 } else { there.saturating_sub(ours) };
    let planned: Bytes = sysv.iter().map(|wanted| memory_of(wanted)).sum();
    let needed = base.pages_for(planned).get().saturating_add(others);
    LimitNeed {
        needed: Some(needed),
        now,
        enough: now.map(|now| now >= needed),
        checked: Some(true),
        evidence: format!(
            "shmget: ENOSPC beyond it; {} {} in segments of others",
            PageCount(others).in_pages_of(base),
            PageCount(others).are()
        ),
        instances: titles(sysv),
    }
}

fn group(ask: &Ask<'_>, sysv: &[&Wanted<'_>]) -> LimitNeed<u32> {
    let now = ask.host.kernel_settings.hugetlb_shm_group.get();
    if sysv.is_empty() {
        return LimitNeed::not_checked(now, MMAP_NEEDS_NONE);
    }
    let rights: Vec<(&&Wanted<'_>, Right)> =
        sysv.iter().map(|wanted| (wanted, permission::without_memlock(ask.host, wanted.instance))).collect();
    let groups: Vec<Option<u32>> = sysv.iter().map(|wanted| group_of(ask, wanted)).collect();
    // The setting takes one group: where owners have several, the first of those that lack it counts.
    let lacking = rights.iter().zip(&groups).find(|((_, right), _)| !matches!(right, Right::Has(_)));
    let needed = match lacking {
        Some((_, group)) => *group,
        None => now,
    };
    let all_have = rights.iter().all(|(_, right)| matches!(right, Right::Has(_)));
    let one_lacks = rights.iter().any(|(_, right)| matches!(right, Right::Lacks(_)));
    let by_accounts = || now.zip(needed).map(|(now, needed)| now == needed);
    let mut said: Vec<String> = rights
        .iter()
        .map(|(_, right)| match right {
            Right::Has(what) | Right::Lacks(what) | Right::Unknown(what) => one_line(what),
        })
        .collect();
    // Servers of one owner have one answer.
    said.dedup();
    let is_described = |it: &Instance| it.pid == 0 && !it.is_asleep();
    let described = sysv.iter().all(|wanted| is_described(wanted.instance));
    let memlock = match permission::memlock(ask.host) {
        Memlock::Buys(why) => format!("{why}: a memlock limit would do instead"),
        Memlock::Useless(why) => format!("{why}: SHM_HUGETLB needs the group or CAP_IPC_LOCK"),
        Memlock::Unknown(why) => {
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
        instances: titles(sysv),
    }
}

/// A group of the instance's owner: of its process, or of its account.
fn group_of(ask: &Ask<'_>, wanted: &Wanted<'_>) -> Option<u32> {
    let accounts = &ask.host.accounts;
    let process = permission::process_of(ask.host, wanted.instance).map(|process| process.uid);
    let by_name = || accounts.users.iter().find(|(_, user)| user.name == wanted.instance.owner).map(|(uid, _)| *uid);
    let uid = process.or_else(by_name)?;
    accounts.users.get(&uid).map(|user| user.gid)
}

/// With vm.overcommit_memory=2 the kernel refuses memory beyond CommitLimit, out of which it takes the
/// pools; memory on huge pages does not count against it.
fn commit_limit(ask: &Ask<'_>, plan: &Plan<'_>, budget: &Budget) -> LimitNeed<Bytes> {
    let memory = &ask.host.memory;
    let now = memory.commit_limit.get();
    let settings = &ask.host.kernel_settings;
    let mode = match settings.overcommit_memory.get() {
        Some(2) => "vm.overcommit_memory=2: CommitLimit holds",
        Some(mode) => {
            return LimitNeed::not_checked(now, format!("vm.overcommit_memory={mode}: CommitLimit is not enforced"));
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
    let on_base: Bytes = plan
        .wanted
        .iter()
        .filter(|wanted| wanted.instance.pid != 0 && wanted.instance.asked != Asked::Cannot)
        .map(|wanted| wanted.instance.segment_bytes().saturating_sub(wanted.instance.huge_bytes()))
        .sum();
    let sessions_now: Vec<u64> = plan.wanted.iter().map(|wanted| wanted.instance.sessions.get().unwrap_or(0)).collect();
    let private_now = work::as_now_at(ask, plan, &sessions_now).unwrap_or_default();
    let grows = budget.sessions_private.unwrap_or_default().saturating_sub(private_now);
    let needed = memory.committed.get().map(|committed| committed.saturating_sub(on_base) + grows);
    let pools_now = ask.host.pools.known().into_iter().flatten().filter_map(hugewise_model::Pool::memory).sum();
    let ratio = settings.overcommit_ratio.get().unwrap_or(50).min(100);
    let part = |bytes: Bytes| bytes.shared_by(100).unwrap_or_default().times(ratio);
    let then = now.map(|now| {
        now.saturating_sub(part(budget.pools.saturating_sub(pools_now))) + part(pools_now.saturating_sub(budget.pools))
    });
    LimitNeed {
        needed,
        now: then,
        enough: then.zip(needed).map(|(then, needed)| then >= needed),
        checked: Some(true),
        evidence: format!("{mode}, and the pools come out of it"),
        instances: plan.wanted.iter().map(|wanted| one_line(&wanted.instance.title())).collect(),
    }
}
