//! Who may have huge pages through shmget(SHM_HUGETLB), as this kernel checks it.

use hugewise_model::{Host, Instance, KernelRelease, Observed, Process, Reason};

/// What a memlock limit buys on this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemlockEffect {
    /// A limit of at least the segment's size is accepted.
    Buys(String),
    /// It is not: the group or the capability alone counts.
    Useless(String),
    /// Kernels of these numbers exist in both kinds.
    Unknown(String),
}

/// How this kernel treats memlock for SHM_HUGETLB. Its own log decides where it has spoken;
/// otherwise the release: 5.16 ended it, and distributions carried that back to 5.14 and 5.15.
pub fn memlock_effect(host: &Host) -> MemlockEffect {
    let spoken = host.kernel_log.as_known().into_iter().flatten().rev().find_map(|line| {
        if !line.contains("SHM_HUGETLB") {
            return None;
        }
        let what = format!("kernel log: {}", line.trim());
        if line.contains("obsolete") {
            Some(MemlockEffect::Useless(what))
        } else if line.contains("deprecated") {
            Some(MemlockEffect::Buys(what))
        } else {
            None
        }
    });
    if let Some(spoken) = spoken {
        return spoken;
    }
    let Some(kernel) = host.kernel.as_known() else {
        let why = host.kernel.reason_text().unwrap_or_default();
        return MemlockEffect::Unknown(format!("kernel release: {why}"));
    };
    let what = format!("kernel {}", kernel.text);
    match accepts_memlock(kernel) {
        Some(true) => MemlockEffect::Buys(what),
        Some(false) => MemlockEffect::Useless(what),
        None => MemlockEffect::Unknown(what),
    }
}

/// Whether a kernel accepts a memlock limit for SHM_HUGETLB; none where kernels of its number exist
/// in both kinds. `cargo xtask vm kernels` asks those that Debian has.
pub fn accepts_memlock(kernel: &KernelRelease) -> Option<bool> {
    match () {
        () if kernel.at_least(5, 16) => Some(false),
        () if carries_the_change(kernel) => Some(false),
        () if kernel.at_least(5, 14) => None,
        () => Some(true),
    }
}

/// Red Hat's 5.14 of RHEL 9 and SUSE's of SLES 15 SP4 and SP5, which ask for the group: Oracle's
/// note 3010862.1, as ansible-oracle's pull request 461 quotes it. Oracle's own kernels for RHEL 9
/// are others.
fn carries_the_change(kernel: &KernelRelease) -> bool {
    let of_rhel_9 = || {
        let mut parts = kernel.text.split(['.', '-']);
        parts.any(|part| part == "el9" || part.starts_with("el9_"))
    };
    let of_sles_15 =
        || ["5.14.21-1504", "5.14.21-1505"].iter().any(|start| kernel.text.starts_with(start));
    (kernel.major, kernel.minor) == (5, 14) && (of_rhel_9() || of_sles_15())
}

pub(crate) fn memlock_decides(host: &Host, instance: &Instance) -> bool {
    !matches!(memlock_effect(host), MemlockEffect::Useless(_))
        && !matches!(without_memlock(host, instance), HugePageRight::Has(_))
}

/// Whether vm.hugetlb_shm_group may be that group: not root's, nobody's or everybody's.
pub fn may_be_given(host: &Host, gid: u32) -> bool {
    /// The kernel's overflow group, and what distributions call it and the group of all users.
    const NOBODY: u32 = 65534;
    const EVERYBODYS: [&str; 4] = ["nogroup", "nobody", "users", "everyone"];
    let name = host.accounts.groups.get(&gid).map(|group| group.name.as_str());
    gid != 0 && gid != NOBODY && !name.is_some_and(|name| EVERYBODYS.contains(&name))
}

/// Whether a right is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HugePageRight {
    /// Yes, and through what.
    Has(String),
    /// No, and what was looked at.
    Lacks(String),
    /// Cannot be told, and for want of what.
    Unknown(String),
}

/// An instance's main process; of one that does not run, the one that it would be.
pub fn process_of<'a>(host: &'a Host, instance: &'a Instance) -> Option<&'a Process> {
    let would_be = || instance.stopped.as_ref()?.process.as_deref();
    host.find_process(instance.pid).or_else(would_be)
}

/// Whether an instance's owner may use SHM_HUGETLB through CAP_IPC_LOCK in the initial user
/// namespace or through vm.hugetlb_shm_group, whatever its memlock limit.
pub fn without_memlock(host: &Host, instance: &Instance) -> HugePageRight {
    let ipc_lock =
        process_of(host, instance).map_or(Observed::Absent, |process| process.ipc_lock.clone());
    without_memlock_by(host, instance, &ipc_lock)
}

pub(crate) fn without_memlock_by(
    host: &Host,
    instance: &Instance,
    ipc_lock: &Observed<bool>,
) -> HugePageRight {
    let Some(process) = process_of(host, instance) else {
        return HugePageRight::Unknown(match instance.is_stopped() {
            true => format!("the user that {} runs as: not known", instance.title()),
            false => format!("/proc/{}/status: not read", instance.pid),
        });
    };
    match check_ipc_lock(host, process, instance, ipc_lock) {
        HugePageRight::Lacks(_) => {}
        right => return right,
    }
    let Some(group) = host.kernel_settings.hugetlb_shm_group.get() else {
        let why = host.kernel_settings.hugetlb_shm_group.reason_text().unwrap_or_default();
        return HugePageRight::Unknown(format!("/proc/sys/vm/hugetlb_shm_group: {why}"));
    };
    let owner = instance.owner_in_words();
    let here = process.gid == group || process.groups.contains(&group);
    if here || host.accounts.groups_of(process.uid).contains(&group) {
        return HugePageRight::Has(format!("{owner} is in vm.hugetlb_shm_group={group}"));
    }
    HugePageRight::Lacks(format!(
        "{owner} has no CAP_IPC_LOCK and is not in vm.hugetlb_shm_group={group}"
    ))
}

/// Groups of an instance's owner that may be given the right, the primary one first.
pub fn owner_groups(host: &Host, instance: &Instance) -> Vec<u32> {
    let Some(process) = process_of(host, instance) else { return Vec::new() };
    let accounts = host.accounts.groups_of(process.uid);
    let own = [process.gid].into_iter().chain(process.groups.iter().copied());
    let mut groups: Vec<u32> =
        accounts.into_iter().chain(own).filter(|gid| may_be_given(host, *gid)).collect();
    let mut seen = std::collections::BTreeSet::new();
    groups.retain(|gid| seen.insert(*gid));
    groups
}

/// What vm.hugetlb_shm_group is to be: a group of all these servers' owners, or the first one's.
pub fn to_give(host: &Host, lacking: &[&Instance]) -> Option<u32> {
    let of_first = owner_groups(host, lacking.first()?);
    let shared =
        |gid: &u32| lacking.iter().all(|instance| owner_groups(host, instance).contains(gid));
    of_first.iter().copied().find(shared).or_else(|| of_first.first().copied())
}

/// How a server's owner comes by its right through vm.hugetlb_shm_group, which takes one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShmGroupChoice {
    /// It has the right by this group, and the next boot is to bring it too.
    Keep(u32),
    /// Others have theirs by this group, or are to: it joins them.
    Join(u32),
    /// The setting is to be this group.
    Set(u32),
}

/// The way of one server among those that lack the right; none without a known group of its owner.
pub fn choose_shm_group(
    host: &Host,
    lacking: &[&Instance],
    instance: &Instance,
) -> Option<ShmGroupChoice> {
    match host.kernel_settings.hugetlb_shm_group.get()? {
        0 => {
            let group = to_give(host, lacking)?;
            Some(if owner_groups(host, instance).contains(&group) {
                ShmGroupChoice::Set(group)
            } else {
                ShmGroupChoice::Join(group)
            })
        }
        group if matches!(without_memlock(host, instance), HugePageRight::Has(_)) => {
            Some(ShmGroupChoice::Keep(group))
        }
        group => Some(ShmGroupChoice::Join(group)),
    }
}

pub(crate) fn why_unknown(host: &Host, instance: &Instance) -> Reason {
    let process = process_of(host, instance);
    let capability = process.and_then(|process| process.ipc_lock.unknown_reason());
    // Of a container's, which user namespace it is in has to be known too.
    let group =
        || host.kernel_settings.hugetlb_shm_group.unknown_reason().filter(|_| process.is_some());
    capability.or_else(group).unwrap_or(Reason::from_text("not read"))
}

pub(crate) fn capability_of(
    host: &Host,
    instance: &Instance,
    ipc_lock: &Observed<bool>,
) -> HugePageRight {
    match process_of(host, instance) {
        Some(process) => check_ipc_lock(host, process, instance, ipc_lock),
        None => HugePageRight::Unknown(String::new()),
    }
}

fn check_ipc_lock(
    host: &Host,
    process: &Process,
    instance: &Instance,
    ipc_lock: &Observed<bool>,
) -> HugePageRight {
    match ipc_lock.get() {
        Some(false) => HugePageRight::Lacks(String::new()),
        None => HugePageRight::Unknown(format!(
            "/proc/{}/status CapEff: {}",
            process.pid,
            ipc_lock.reason_text().unwrap_or_default()
        )),
        Some(true) => match (process.namespaces.user.get(), host.namespaces.user.get()) {
            (Some(its), Some(ours)) if its != ours => HugePageRight::Lacks(String::new()),
            (None, _) | (_, None) if instance.containered => HugePageRight::Unknown(format!(
                "/proc/{}/ns/user: not read, so what its CAP_IPC_LOCK counts",
                process.pid
            )),
            _ if process.pid == 0 => HugePageRight::Has("it is started with CAP_IPC_LOCK".into()),
            _ => HugePageRight::Has(format!("pid {} has CAP_IPC_LOCK", process.pid)),
        },
    }
}
