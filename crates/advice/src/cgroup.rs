//! Hugetlb limits of cgroups, and everybody who is held by them: servers that share one are held against it together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hugewise_model::host::HugetlbCgroup;
use hugewise_model::{
    Bytes, Demand, Host, HugePageUse, Instance, InstanceId, Lack, Limit, Observed, PageCount, PageSize, Reason,
};

use crate::demand::starting;
use crate::words::apart;
use crate::{Missing, demand};

/// A limit that an instance's demand does not fit under, with whoever else is held by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// Path of the cgroup.
    pub(crate) path: String,
    /// The limit.
    pub(crate) limit: Bytes,
    /// Charged there now, by whomever.
    pub(crate) charged: Bytes,
    /// What the instance needs in all.
    pub(crate) demand: Bytes,
    /// What is left of the limit for it, beside the others.
    pub(crate) room: Bytes,
    /// The limit that would do for all of them.
    pub(crate) enough: Bytes,
    /// How many servers need that together, this one among them.
    pub(crate) servers: usize,
    /// Pages that it is about.
    pub(crate) page_size: PageSize,
    /// Whether it is enforced when a page is touched (SIGBUS), as against when memory is mapped.
    pub(crate) at_fault: bool,
    /// Times that the limit was hit.
    pub(crate) failures: Option<u64>,
}

impl Shortage {
    /// Name of the limit's file in version 2.
    pub(crate) const fn file(&self) -> &'static str {
        if self.at_fault { "max" } else { "rsvd.max" }
    }

    /// The limit against what is needed: `hugetlb max 1.0 GiB of cgroup /db is below the 2.0 GiB of 2 servers in it`.
    pub(crate) fn in_words(&self) -> String {
        let (file, path) = (self.file(), &self.path);
        if self.servers > 1 {
            let ((limit, enough), servers) = (apart(self.limit, self.enough), self.servers);
            format!("hugetlb {file} {limit} of cgroup {path} is below the {enough} of {servers} servers in it")
        } else if self.demand > self.limit {
            let (limit, demand) = apart(self.limit, self.demand);
            format!("hugetlb {file} {limit} of cgroup {path} is below its {demand}")
        } else {
            let (room, demand) = apart(self.room, self.demand);
            format!("hugetlb {file} {} of cgroup {path} leaves {room} for its {demand}", self.limit)
        }
    }
}

/// All limits of a host, and what the servers below each need together.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    groups: Vec<Group>,
    of: BTreeMap<InstanceId, Result<Vec<usize>, Missing>>,
}

/// A cgroup with a limit for pages of one size.
#[derive(Clone, Debug)]
struct Group {
    cgroup: HugetlbCgroup,
    members: BTreeMap<InstanceId, Member>,
    /// Of all members together.
    all: Member,
}

/// What an instance has to do with a limit.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    /// What it maps.
    held: Bytes,
    /// What it maps or will ask for, whichever is more.
    claim: Bytes,
    /// What may be charged for it: what it maps, and where that is not known what it asks for.
    charged: Bytes,
}

/// One of the two limits of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Fault,
    Reservation,
}

/// How much of so many pages the servers of which this is true may have taken before another one starts.
pub(crate) type Taken<'a> = &'a dyn Fn(&dyn Fn(&InstanceId) -> bool, PageCount) -> PageCount;

impl Limits {
    /// The limits of a host with what its instances hold and, as far as something vouches for them, will ask for.
    pub fn of(host: &Host, instances: &[Instance]) -> Self {
        Self::with(host, instances, &|instance| asked(host, instance))
    }

    /// The same with other demands.
    pub(crate) fn with(host: &Host, instances: &[Instance], asked: &dyn Fn(&Instance) -> Vec<Demand>) -> Self {
        let limits = |cgroup: &&HugetlbCgroup| {
            let none = |max: &Observed<Limit>| matches!(max, Observed::Known(Limit::Unlimited) | Observed::Absent);
            !none(&cgroup.fault_max) || !none(&cgroup.reservation_max)
        };
        let groups = host.hugetlb_cgroups.iter().filter(limits);
        let group =
            |cgroup: &HugetlbCgroup| Group { cgroup: cgroup.clone(), members: BTreeMap::new(), all: Member::default() };
        let mut groups: Vec<Group> = groups.map(group).collect();
        let mut by_path = HashMap::<String, Vec<usize>>::new();
        for (at, group) in groups.iter().enumerate() {
            by_path.entry(group.cgroup.path.trim_end_matches('/').to_owned()).or_default().push(at);
        }
        let mut of = BTreeMap::new();
        for instance in instances {
            let within = groups_of(host, instance, &by_path);
            if let Ok(within) = &within
                && !within.is_empty()
            {
                let asked = asked(instance);
                for at in within {
                    let Some(group) = groups.get_mut(*at) else { continue };
                    let page = group.cgroup.page_size;
                    let held = demand::held(instance, page).of(page);
                    let asked = asked.iter().filter(|demand| demand.page_size == page);
                    let claim = asked.map(|demand| demand.pages.of(page)).fold(held, Bytes::max);
                    let charged = if instance.huge_pages == HugePageUse::Unknown { claim } else { held };
                    group.add(instance.id(), Member { held, claim, charged });
                }
            }
            of.insert(instance.id(), within);
        }
        Self { groups, of }
    }

    /// The limits on an instance's way for pages of a size.
    fn groups(&self, instance: &Instance, page: PageSize) -> Result<impl Iterator<Item = &Group>, Missing> {
        let of = match self.of.get(&instance.id()) {
            Some(Ok(of)) => of.as_slice(),
            Some(Err(missing)) => return Err(missing.clone()),
            None => &[],
        };
        Ok(of.iter().filter_map(|at| self.groups.get(*at)).filter(move |group| group.cgroup.page_size == page))
    }

    /// The worst shortage that a demand of an instance meets, with what all others in the cgroup hold or will ask for.
    pub(crate) fn shortage(&self, host: &Host, instance: &Instance) -> Result<Option<Shortage>, Missing> {
        Ok(worst(&self.shortages(host, instance)?).cloned())
    }

    /// All of them: each limit on the way that is to be raised, with what is enough for everybody.
    pub(crate) fn shortages(&self, host: &Host, instance: &Instance) -> Result<Vec<Shortage>, Missing> {
        let mut all = Vec::new();
        for demand in demands(host, instance) {
            all.extend(self.shortages_of(instance, &demand)?);
        }
        Ok(all)
    }

    /// The worst shortage that this demand meets.
    pub(crate) fn shortage_of(&self, instance: &Instance, demand: &Demand) -> Result<Option<Shortage>, Missing> {
        Ok(worst(&self.shortages_of(instance, demand)?).cloned())
    }

    fn shortages_of(&self, instance: &Instance, demand: &Demand) -> Result<Vec<Shortage>, Missing> {
        self.look(instance, demand, &|group, side| group.claims_beside(instance) + group.foreign(side))
    }

    /// What a restart of this server alone meets: the others go on holding what they hold.
    pub(crate) fn at_restart(&self, instance: &Instance, demand: &Demand) -> Result<Option<Shortage>, Missing> {
        let short = self.look(instance, demand, &|group, side| {
            group.all.held.saturating_sub(group.member(instance).held) + group.foreign(side)
        })?;
        Ok(worst(&short).cloned())
    }

    /// What a boot brings it, where the others start in the worst order. `pool` is what the pool has for all of them.
    pub(crate) fn at_boot(
        &self,
        instance: &Instance,
        demand: &Demand,
        pool: PageCount,
        taken: Taken<'_>,
    ) -> Result<Option<Shortage>, Missing> {
        let (id, page) = (instance.id(), demand.page_size);
        let short = self.look(instance, demand, &|group, side| {
            let foreign = group.foreign(side);
            let is_other = |other: &InstanceId| *other != id && group.members.contains_key(other);
            let left = pool.saturating_sub(demand.pages);
            let before = match side {
                // Whatever is mapped may be touched, by whoever mapped it.
                Side::Fault => taken(&is_other, left),
                Side::Reservation => {
                    let limit = group.limit(side).unwrap_or_default().saturating_sub(foreign);
                    taken(&is_other, left.min(PageCount(limit.get() / page.bytes().get())))
                }
            };
            before.of(page) + foreign
        })?;
        Ok(worst(&short).cloned())
    }

    /// Pages of a size that an instance may have reserved at most, with nobody beside it but those that are no servers; none
    /// where nothing limits that, or it is not known.
    pub(crate) fn most_reserved(&self, instance: &Instance, page: PageSize) -> Option<PageCount> {
        let left = |group: &Group| {
            let limit = group.limit(Side::Reservation)?.saturating_sub(group.foreign(Side::Reservation));
            Some(PageCount(limit.get() / page.bytes().get()))
        };
        self.groups(instance, page).ok()?.filter_map(left).min()
    }

    /// Both limits of each cgroup on the way, each by its own counter.
    fn look(
        &self,
        instance: &Instance,
        demand: &Demand,
        others: &dyn Fn(&Group, Side) -> Bytes,
    ) -> Result<Vec<Shortage>, Missing> {
        let bytes = demand.pages.of(demand.page_size);
        let mut all = Vec::new();
        for group in self.groups(instance, demand.page_size)? {
            for side in [Side::Fault, Side::Reservation] {
                let (max, current) = group.counter(side);
                let limit = match max {
                    Observed::Known(Limit::At(limit)) => *limit,
                    Observed::Known(Limit::Unlimited) | Observed::Absent => continue,
                    Observed::Denied | Observed::Malformed(_) => {
                        let file = if side == Side::Fault { "max" } else { "rsvd.max" };
                        let what = format_args!("hugetlb {file} of cgroup {}", group.cgroup.path);
                        return Err(Missing::Instance(Lack::of(what, max)));
                    }
                };
                // Nobody is in its way where there is room for all.
                let (beside, foreign) = (group.claims_beside(instance), group.foreign(side));
                if bytes + beside + foreign <= limit {
                    continue;
                }
                let room = limit.saturating_sub(others(group, side));
                if bytes <= room {
                    continue;
                }
                let own = group.member(instance).claim;
                let others = group.members.len() - usize::from(own > Bytes::ZERO);
                all.push(Shortage {
                    path: group.cgroup.path.clone(),
                    limit,
                    charged: current.get().unwrap_or_default(),
                    demand: bytes,
                    room,
                    enough: beside + own.max(bytes) + foreign,
                    servers: 1 + others,
                    page_size: demand.page_size,
                    at_fault: side == Side::Fault,
                    failures: group.cgroup.failures.get(),
                });
            }
        }
        Ok(all)
    }
}

/// The one that is told: a fault limit before a reservation limit, as that one kills, and the lower limit first.
pub(crate) fn worst(all: &[Shortage]) -> Option<&Shortage> {
    all.iter().min_by_key(|short| (!short.at_fault, short.limit))
}

impl Group {
    const fn counter(&self, side: Side) -> (&Observed<Limit>, &Observed<Bytes>) {
        match side {
            Side::Fault => (&self.cgroup.fault_max, &self.cgroup.fault_current),
            Side::Reservation => (&self.cgroup.reservation_max, &self.cgroup.reservation_current),
        }
    }

    fn limit(&self, side: Side) -> Option<Bytes> {
        match self.counter(side).0 {
            Observed::Known(Limit::At(limit)) => Some(*limit),
            _ => None,
        }
    }

    fn add(&mut self, id: InstanceId, member: Member) {
        if member.claim == Bytes::ZERO {
            return;
        }
        self.all.held += member.held;
        self.all.claim += member.claim;
        self.all.charged += member.charged;
        self.members.insert(id, member);
    }

    fn member(&self, instance: &Instance) -> Member {
        self.members.get(&instance.id()).copied().unwrap_or_default()
    }

    /// What others than this instance hold or will ask for.
    fn claims_beside(&self, instance: &Instance) -> Bytes {
        self.all.claim.saturating_sub(self.member(instance).claim)
    }

    /// What is charged there by nobody who is known here. Of what servers have mapped a part may not be touched yet, and is
    /// charged as reserved alone: what nobody known has reserved is a stranger's, and may be touched.
    fn foreign(&self, side: Side) -> Bytes {
        let known = self.all.charged;
        let beyond = |charged: &Observed<Bytes>| charged.get().unwrap_or_default().saturating_sub(known);
        let reserved = beyond(&self.cgroup.reservation_current);
        match side {
            Side::Fault => beyond(&self.cgroup.fault_current).max(reserved),
            Side::Reservation => reserved,
        }
    }
}

/// What an instance will ask for at its next start, where it asks and something vouches for it.
fn asked(host: &Host, instance: &Instance) -> Vec<Demand> {
    let start = starting(host, instance);
    if instance.is_vouched() && start.asks() { start.demands } else { Vec::new() }
}

/// What an instance needs, one demand a page size: what it will ask for where it asks, and else what it would.
fn demands(host: &Host, instance: &Instance) -> Vec<Demand> {
    let mut asked = asked(host, instance);
    if asked.is_empty() {
        return demand::of(host, instance).into_iter().chain(demand::beside(host, instance)).collect();
    }
    for demand in &mut asked {
        demand.pages = demand.pages.max(demand::held(instance, demand.page_size));
    }
    asked
}

/// The cgroups with limits that an instance is in or below, of all page sizes.
fn groups_of(host: &Host, instance: &Instance, by_path: &HashMap<String, Vec<usize>>) -> Result<Vec<usize>, Missing> {
    let missing = |why| Missing::Instance(Lack::new(format_args!("/proc/{}/cgroup", instance.pid), why));
    if instance.pid == 0 {
        // One that does not run is in none, and will be in the one of the service that starts it.
        let unit = instance.asleep.as_ref().and_then(|asleep| asleep.unit.as_deref());
        let path = unit.map(|unit| unit.cgroup.as_str()).filter(|_| !by_path.is_empty() && is_unified(host));
        return Ok(above(path.unwrap_or_default(), by_path));
    }
    // The hugetlb controller came with Linux 3.6 (<https://kernelnewbies.org/Linux_3.6>), cgroups with 2.6.24: before nothing limits
    // anybody, and nothing is missing.
    let has_no_limits = host.kernel.known().is_some_and(|kernel| !kernel.at_least(3, 6));
    if has_no_limits && by_path.is_empty() {
        return Ok(Vec::new());
    }
    let Some(process) = host.process(instance.pid) else { return Err(missing(Reason::untold("not read"))) };
    let memberships = match &process.cgroups {
        Observed::Known(memberships) => memberships,
        // A kernel without cgroups has no such file; a sosreport that has none tells nothing.
        Observed::Absent if host.live => return Ok(Vec::new()),
        other => return Err(missing(other.why().unwrap_or(Reason::untold("not read")))),
    };
    let counts = |membership: &&hugewise_model::process::CgroupMembership| {
        membership.hierarchy == 0 || membership.controllers.iter().any(|controller| controller == "hugetlb")
    };
    let within: BTreeSet<usize> =
        memberships.iter().filter(counts).flat_map(|membership| above(&membership.path, by_path)).collect();
    Ok(within.into_iter().collect())
}

/// The limits of a cgroup and of those above it.
fn above(path: &str, by_path: &HashMap<String, Vec<usize>>) -> Vec<usize> {
    let mut within = Vec::new();
    let mut path = path.trim_end_matches('/');
    loop {
        within.extend(by_path.get(path).into_iter().flatten().copied());
        let Some((above, _)) = path.rsplit_once('/') else { return within };
        path = above;
    }
}

/// Whether the hugetlb controller is one of the unified hierarchy, in which systemd starts services: in one of version 1 it
/// starts all of them at the root.
fn is_unified(host: &Host) -> bool {
    let memberships = host.processes.known().into_iter().flatten().find_map(|process| process.cgroups.known());
    let of_version_1 = |membership: &hugewise_model::process::CgroupMembership| {
        membership.hierarchy != 0 && membership.controllers.iter().any(|controller| controller == "hugetlb")
    };
    memberships.is_some_and(|all| !all.iter().any(of_version_1))
}

#[cfg(test)]
mod tests;
