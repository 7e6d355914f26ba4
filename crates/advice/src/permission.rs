//! Who may have huge pages through shmget(SHM_HUGETLB), as this kernel checks it.

use hugewise_model::{Host, Instance, KernelRelease, Observed, Process, Reason};

/// What a memlock limit buys on this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memlock {
    /// A limit of at least the segment's size is accepted.
    Buys(String),
    /// It is not: the group or the capability alone counts.
    Useless(String),
    /// Kernels of these numbers exist in both kinds.
    Unknown(String),
}

/// How this kernel treats memlock for SHM_HUGETLB. Its own log decides where it has spoken; otherwise
/// the release: 5.16 ended it, and distributions carried that back to 5.14 and 5.15.
pub fn memlock(host: &Host) -> Memlock {
    let spoken = host.kernel_log.known().into_iter().flatten().rev().find_map(|line| {
        if !line.contains("SHM_HUGETLB") {
            return None;
        }
        let what = format!("kernel log: {}", line.trim());
        if line.contains("obsolete") {
            Some(Memlock::Useless(what))
        } else if line.contains("deprecated") {
            Some(Memlock::Buys(what))
        } else {
            None
        }
    });
    if let Some(spoken) = spoken {
        return spoken;
    }
    let Some(kernel) = host.kernel.known() else {
        return Memlock::Unknown(format!("kernel release: {}", host.kernel.reason().unwrap_or_default()));
    };
    let what = format!("kernel {}", kernel.text);
    match accepts_memlock(kernel) {
        Some(true) => Memlock::Buys(what),
        Some(false) => Memlock::Useless(what),
        None => Memlock::Unknown(what),
    }
}

/// Whether a kernel of that release takes a memlock limit for the right to SHM_HUGETLB; none where kernels of its number exist
/// in both kinds. `cargo xtask vm kernels` asks those that Debian has.
pub fn accepts_memlock(kernel: &KernelRelease) -> Option<bool> {
    match () {
        () if kernel.at_least(5, 16) => Some(false),
        () if kernel.at_least(5, 14) => None,
        () => Some(true),
    }
}

/// Whether vm.hugetlb_shm_group may be that group: not root's own, and none that everybody or nobody is in.
pub fn may_be_given(host: &Host, gid: u32) -> bool {
    /// The kernel's overflow group, and what distributions call it and the group of all users.
    const NOBODY: u32 = 65534;
    const EVERYBODYS: [&str; 4] = ["nogroup", "nobody", "users", "everyone"];
    let name = host.accounts.groups.get(&gid).map(|group| group.name.as_str());
    gid != 0 && gid != NOBODY && !name.is_some_and(|name| EVERYBODYS.contains(&name))
}

/// Whether a right is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Right {
    /// Yes, and through what.
    Has(String),
    /// No, and what was looked at.
    Lacks(String),
    /// Cannot be told, and for want of what.
    Unknown(String),
}

/// An instance's main process; of one that belongs to the host and does not run the one that it would be, as far as its owner
/// is known.
pub fn process_of<'a>(host: &'a Host, instance: &'a Instance) -> Option<&'a Process> {
    let would_be = || instance.asleep.as_ref()?.process.as_deref();
    host.process(instance.pid).or_else(would_be)
}

/// Whether an instance's owner may use SHM_HUGETLB through CAP_IPC_LOCK in the initial user namespace
/// or through vm.hugetlb_shm_group, whatever its memlock limit.
pub fn without_memlock(host: &Host, instance: &Instance) -> Right {
    let ipc_lock = process_of(host, instance).map_or(Observed::Absent, |process| process.ipc_lock.clone());
    without_memlock_by(host, instance, &ipc_lock)
}

/// The same of a start that is given the capability, or is not.
pub(crate) fn without_memlock_by(host: &Host, instance: &Instance, ipc_lock: &Observed<bool>) -> Right {
    let Some(process) = process_of(host, instance) else {
        return Right::Unknown(match instance.is_asleep() {
            true => format!("the user that {} runs as: not known", instance.title()),
            false => format!("/proc/{}/status: not read", instance.pid),
        });
    };
    match capability(host, process, instance, ipc_lock) {
        Right::Lacks(_) => {}
        right => return right,
    }
    let Some(group) = host.kernel_settings.hugetlb_shm_group.get() else {
        let why = host.kernel_settings.hugetlb_shm_group.reason().unwrap_or_default();
        return Right::Unknown(format!("/proc/sys/vm/hugetlb_shm_group: {why}"));
    };
    let here = process.gid == group || process.groups.contains(&group);
    if here || host.accounts.groups_of(process.uid).contains(&group) {
        return Right::Has(format!("{} is in vm.hugetlb_shm_group={group}", instance.owner_in_words()));
    }
    Right::Lacks(format!(
        "{} has no CAP_IPC_LOCK and is not in vm.hugetlb_shm_group={group}",
        instance.owner_in_words()
    ))
}

/// Groups that an instance's owner is in, the primary one first, as far as it may be given the right.
pub fn groups(host: &Host, instance: &Instance) -> Vec<u32> {
    let Some(process) = process_of(host, instance) else { return Vec::new() };
    let accounts = host.accounts.groups_of(process.uid);
    let own = [process.gid].into_iter().chain(process.groups.iter().copied());
    let mut groups: Vec<u32> = accounts.into_iter().chain(own).filter(|gid| may_be_given(host, *gid)).collect();
    let mut seen = std::collections::BTreeSet::new();
    groups.retain(|gid| seen.insert(*gid));
    groups
}

/// The group that vm.hugetlb_shm_group is to be, where it is none yet: one that all of these servers' owners are in, or else
/// the first one's.
pub fn to_give(host: &Host, lacking: &[&Instance]) -> Option<u32> {
    let of_first = groups(host, lacking.first()?);
    let shared = |gid: &u32| lacking.iter().all(|instance| groups(host, instance).contains(gid));
    of_first.iter().copied().find(shared).or_else(|| of_first.first().copied())
}

/// How a server's owner comes by its right through vm.hugetlb_shm_group, which takes one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It has the right by this group, and the next boot is to bring it too.
    Keep(u32),
    /// Others have theirs by this group, or are to: it joins them.
    Join(u32),
    /// The setting is to be this group.
    Set(u32),
}

/// The way of one server among those that lack the right; none where no group of its owner is known.
pub fn way(host: &Host, lacking: &[&Instance], instance: &Instance) -> Option<Way> {
    match host.kernel_settings.hugetlb_shm_group.get()? {
        0 => {
            let group = to_give(host, lacking)?;
            Some(if groups(host, instance).contains(&group) { Way::Set(group) } else { Way::Join(group) })
        }
        group if matches!(without_memlock(host, instance), Right::Has(_)) => Some(Way::Keep(group)),
        group => Some(Way::Join(group)),
    }
}

/// Why the right cannot be told.
pub(crate) fn why_unknown(host: &Host, instance: &Instance) -> Reason {
    let process = process_of(host, instance);
    let capability = process.and_then(|process| process.ipc_lock.why());
    // Of a container's, which user namespace it is in has to be known too.
    let group = || host.kernel_settings.hugetlb_shm_group.why().filter(|_| process.is_some());
    capability.or_else(group).unwrap_or(Reason::untold("not read"))
}

/// Whether a start of an instance has CAP_IPC_LOCK that counts.
pub(crate) fn capability_of(host: &Host, instance: &Instance, ipc_lock: &Observed<bool>) -> Right {
    match process_of(host, instance) {
        Some(process) => capability(host, process, instance, ipc_lock),
        None => Right::Unknown(String::new()),
    }
}

fn capability(host: &Host, process: &Process, instance: &Instance, ipc_lock: &Observed<bool>) -> Right {
    match ipc_lock.get() {
        Some(false) => Right::Lacks(String::new()),
        None => {
            Right::Unknown(format!("/proc/{}/status CapEff: {}", process.pid, ipc_lock.reason().unwrap_or_default()))
        }
        Some(true) => match (process.namespaces.user.get(), host.namespaces.user.get()) {
            (Some(its), Some(ours)) if its != ours => Right::Lacks(String::new()),
            (None, _) | (_, None) if instance.containered => {
                Right::Unknown(format!("/proc/{}/ns/user: not read, so what its CAP_IPC_LOCK counts", process.pid))
            }
            _ if process.pid == 0 => Right::Has("it is started with CAP_IPC_LOCK".into()),
            _ => Right::Has(format!("pid {} has CAP_IPC_LOCK", process.pid)),
        },
    }
}
