//! Hugetlb limits of cgroups: servers that share one are held against it together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hugewise_engines::{EngineKind, Takes};
use hugewise_model::host::HugetlbCgroup;
use hugewise_model::{
    Bytes, Demand, Host, HugePageUse, Instance, InstanceId, Lack, Limit, Observed, PageCount,
    PageSize, Reason,
};

use crate::demand::predict_next_start;
use crate::starting_order::{AskingServer, AskingServers};
use crate::wording::distinguish_sizes;
use crate::{Missing, demand};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) path: String,
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
    pub(crate) page_size: PageSize,
    /// Whether it is enforced when a page is touched (SIGBUS), and not when memory is mapped.
    pub(crate) at_fault: bool,
    pub(crate) failures: Option<u64>,
}

impl Shortage {
    /// Name of the limit's file in version 2.
    pub(crate) const fn limit_file(&self) -> &'static str {
        if self.at_fault { "max" } else { "rsvd.max" }
    }

    /// `hugetlb max 1.0 GiB of cgroup /db is below the 2.0 GiB of 2 servers in it`
    pub(crate) fn in_words(&self) -> String {
        let (file, path) = (self.limit_file(), &self.path);
        if self.servers > 1 {
            let ((limit, enough), servers) =
                (distinguish_sizes(self.limit, self.enough), self.servers);
            format!(
                "hugetlb {file} {limit} of cgroup {path} is below the {enough} of {servers} \
                 servers in it"
            )
        } else if self.demand > self.limit {
            let (limit, demand) = distinguish_sizes(self.limit, self.demand);
            format!("hugetlb {file} {limit} of cgroup {path} is below its {demand}")
        } else {
            let (room, demand) = distinguish_sizes(self.room, self.demand);
            format!("hugetlb {file} {} of cgroup {path} leaves {room} for its {demand}", self.limit)
        }
    }
}

/// The tightest limits that a start meets, in the order in which it meets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartShortages {
    /// The kernel refuses the mapping.
    pub(crate) reserved: Option<Shortage>,
    /// The kernel maps it, and kills whoever touches more.
    pub(crate) touched: Option<Shortage>,
}

/// All limits of a host, and what the servers below each need together.
#[derive(Clone, Debug, Default)]
pub struct HugetlbLimits {
    groups: Vec<LimitedCgroup>,
    of: BTreeMap<InstanceId, Result<Vec<usize>, Missing>>,
}

#[derive(Clone, Debug)]
struct LimitedCgroup {
    cgroup: HugetlbCgroup,
    members: BTreeMap<InstanceId, CgroupMember>,
    all: CgroupMember,
}

#[derive(Clone, Copy, Debug, Default)]
struct CgroupMember {
    held: Bytes,
    /// What it maps or will ask for, whichever is more.
    claim: Bytes,
    /// What may be charged for it: what it maps, and where that is not known what it asks for.
    charged: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitSide {
    Fault,
    Reservation,
}

/// What others may have of a limit when a server asks.
#[derive(Clone, Copy)]
pub(crate) enum ChargedBefore<'a> {
    Claims,
    /// What they hold: it is restarted alone.
    Held,
    /// What they may have taken before it at a boot: of each limit the pool, and who asks below it.
    InAnyOrder(&'a [(PageCount, AskingServers)]),
}

impl HugetlbLimits {
    /// With what its instances hold and, as far as something vouches for them, will ask for.
    pub fn new(host: &Host, instances: &[Instance]) -> Self {
        Self::with_demands(host, instances, &|instance| vouched_demands(host, instance))
    }

    pub(crate) fn with_demands(
        host: &Host,
        instances: &[Instance],
        asked: &dyn Fn(&Instance) -> Vec<Demand>,
    ) -> Self {
        let limits = |cgroup: &&HugetlbCgroup| {
            let none = |max: &Observed<Limit>| {
                matches!(max, Observed::Known(Limit::Unlimited) | Observed::Absent)
            };
            !none(&cgroup.fault_max) || !none(&cgroup.reservation_max)
        };
        let groups = host.hugetlb_cgroups.iter().filter(limits);
        let group = |cgroup: &HugetlbCgroup| LimitedCgroup {
            cgroup: cgroup.clone(),
            members: BTreeMap::new(),
            all: CgroupMember::default(),
        };
        let mut groups: Vec<LimitedCgroup> = groups.map(group).collect();
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
                    let held = demand::pages_held(instance, page).to_bytes(page);
                    let asked = asked.iter().filter(|demand| demand.page_size == page);
                    let claim =
                        asked.map(|demand| demand.pages.to_bytes(page)).fold(held, Bytes::max);
                    let charged =
                        if instance.huge_pages == HugePageUse::Unknown { claim } else { held };
                    group.add(instance.id(), CgroupMember { held, claim, charged });
                }
            }
            of.insert(instance.id(), within);
        }
        Self { groups, of }
    }

    fn limits_on_way(
        &self,
        instance: &Instance,
        page: PageSize,
    ) -> Result<impl Iterator<Item = (usize, &LimitedCgroup)>, Missing> {
        let within = match self.of.get(&instance.id()) {
            Some(Ok(within)) => within.as_slice(),
            Some(Err(missing)) => return Err(missing.clone()),
            None => &[],
        };
        Ok(within
            .iter()
            .filter_map(|at| Some((*at, self.groups.get(*at)?)))
            .filter(move |(_, group)| group.cgroup.page_size == page))
    }

    pub(crate) fn worst_shortage(
        &self,
        host: &Host,
        instance: &Instance,
    ) -> Result<Option<Shortage>, Missing> {
        Ok(pick_worst_shortage(instance, &self.find_shortages(host, instance)?).cloned())
    }

    /// Each limit on the way that is to be raised, with what is enough for everybody.
    pub(crate) fn find_shortages(
        &self,
        host: &Host,
        instance: &Instance,
    ) -> Result<Vec<Shortage>, Missing> {
        let mut all = Vec::new();
        for demand in demands_by_size(host, instance) {
            all.extend(self.shortages_of(instance, &demand, ChargedBefore::Claims)?);
        }
        Ok(all)
    }

    pub(crate) fn shortage_of(
        &self,
        instance: &Instance,
        demand: &Demand,
    ) -> Result<Option<Shortage>, Missing> {
        let all = self.shortages_of(instance, demand, ChargedBefore::Claims)?;
        Ok(pick_worst_shortage(instance, &all).cloned())
    }

    /// What one start of a server meets: the mapping is reserved first, and touched afterwards.
    pub(crate) fn shortages_at_start(
        &self,
        instance: &Instance,
        demand: &Demand,
        others: ChargedBefore<'_>,
    ) -> Result<StartShortages, Missing> {
        let all = self.shortages_of(instance, demand, others)?;
        let least_room = |at_fault| {
            let side = all.iter().filter(move |short| short.at_fault == at_fault);
            side.min_by_key(|short| (short.room, short.limit)).cloned()
        };
        Ok(StartShortages { reserved: least_room(false), touched: least_room(true) })
    }

    /// Of each limit, in their order, what the pool has and those of these servers below it.
    pub(crate) fn asking_below<'a>(
        &self,
        asking: impl Iterator<Item = (PageSize, &'a AskingServer)>,
        pool: impl Fn(PageSize) -> PageCount,
    ) -> Vec<(PageCount, AskingServers)> {
        let mut below = vec![Vec::new(); self.groups.len()];
        for (page, server) in asking {
            let Some(Ok(within)) = self.of.get(&server.instance) else { continue };
            for at in within {
                if let (Some(group), Some(below)) = (self.groups.get(*at), below.get_mut(*at))
                    && group.cgroup.page_size == page
                    && group.members.contains_key(&server.instance)
                {
                    below.push(server.clone());
                }
            }
        }
        let pools = self.groups.iter().map(|group| pool(group.cgroup.page_size));
        pools.zip(below.into_iter().map(AskingServers::from_iter)).collect()
    }

    /// None where nothing limits that, or it is not known.
    pub(crate) fn most_reserved(&self, instance: &Instance, page: PageSize) -> Option<PageCount> {
        let left = |(_, group): (usize, &LimitedCgroup)| {
            let limit = group
                .limit(LimitSide::Reservation)?
                .saturating_sub(group.unattributed_bytes(LimitSide::Reservation));
            Some(PageCount(limit.get() / page.bytes().get()))
        };
        self.limits_on_way(instance, page).ok()?.filter_map(left).min()
    }

    fn shortages_of(
        &self,
        instance: &Instance,
        demand: &Demand,
        others: ChargedBefore<'_>,
    ) -> Result<Vec<Shortage>, Missing> {
        let bytes = demand.pages.to_bytes(demand.page_size);
        let mut all = Vec::new();
        for (at, group) in self.limits_on_way(instance, demand.page_size)? {
            for side in [LimitSide::Fault, LimitSide::Reservation] {
                let (max, current) = group.counter(side);
                let limit = match max {
                    Observed::Known(Limit::At(limit)) => *limit,
                    Observed::Known(Limit::Unlimited) | Observed::Absent => continue,
                    Observed::Denied | Observed::Malformed(_) => {
                        let file = if side == LimitSide::Fault { "max" } else { "rsvd.max" };
                        let what = format_args!("hugetlb {file} of cgroup {}", group.cgroup.path);
                        return Err(Missing::Instance(Lack::from_fact(what, max)));
                    }
                };
                // Nobody is in its way where there is room for all.
                let (beside, foreign) =
                    (group.claims_beside(instance), group.unattributed_bytes(side));
                if bytes + beside + foreign <= limit {
                    continue;
                }
                let room = limit
                    .saturating_sub(group.charged_to_others(side, instance, demand, others, at));
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
                    at_fault: side == LimitSide::Fault,
                    failures: group.cgroup.failures.get(),
                });
            }
        }
        Ok(all)
    }
}

/// A fault limit before a reservation limit, as that one kills, and the lower limit first. What a
/// reservation limit refuses is not mapped, and so is never touched.
pub(crate) fn pick_worst_shortage<'a>(
    instance: &Instance,
    all: &'a [Shortage],
) -> Option<&'a Shortage> {
    let refused = all.iter().filter(|short| !short.at_fault).map(|short| short.room).min();
    let takes_part = (EngineKind::for_engine(instance.engine).start.takes)(instance) != Takes::All;
    let mapped = match refused {
        Some(room) if instance.huge_pages != HugePageUse::All => {
            if takes_part {
                room
            } else {
                Bytes::ZERO
            }
        }
        _ => Bytes(u64::MAX),
    };
    let is_met = |short: &&Shortage| !short.at_fault || short.room < mapped;
    all.iter().filter(is_met).min_by_key(|short| (!short.at_fault, short.limit))
}

impl LimitedCgroup {
    const fn counter(&self, side: LimitSide) -> (&Observed<Limit>, &Observed<Bytes>) {
        match side {
            LimitSide::Fault => (&self.cgroup.fault_max, &self.cgroup.fault_current),
            LimitSide::Reservation => {
                (&self.cgroup.reservation_max, &self.cgroup.reservation_current)
            }
        }
    }

    fn limit(&self, side: LimitSide) -> Option<Bytes> {
        match self.counter(side).0 {
            Observed::Known(Limit::At(limit)) => Some(*limit),
            _ => None,
        }
    }

    fn add(&mut self, id: InstanceId, member: CgroupMember) {
        if member.claim == Bytes::ZERO {
            return;
        }
        self.all.held += member.held;
        self.all.claim += member.claim;
        self.all.charged += member.charged;
        self.members.insert(id, member);
    }

    fn member(&self, instance: &Instance) -> CgroupMember {
        self.members.get(&instance.id()).copied().unwrap_or_default()
    }

    fn claims_beside(&self, instance: &Instance) -> Bytes {
        self.all.claim.saturating_sub(self.member(instance).claim)
    }

    fn charged_to_others(
        &self,
        side: LimitSide,
        instance: &Instance,
        demand: &Demand,
        others: ChargedBefore<'_>,
        at: usize,
    ) -> Bytes {
        let foreign = self.unattributed_bytes(side);
        let servers = match others {
            ChargedBefore::Claims => self.claims_beside(instance),
            ChargedBefore::Held => self.all.held.saturating_sub(self.member(instance).held),
            ChargedBefore::InAnyOrder(limits) => limits.get(at).map_or(Bytes::ZERO, |order| {
                let (pool, asking) = order;
                let page = demand.page_size;
                let mut most = pool.saturating_sub(demand.pages);
                // Whatever is mapped may be touched, by whoever mapped it.
                if side == LimitSide::Reservation {
                    let limit = self.limit(side).unwrap_or_default().saturating_sub(foreign);
                    most = most.min(PageCount(limit.get() / page.bytes().get()));
                }
                asking.without(&instance.id()).most_taken(most).to_bytes(page)
            }),
        };
        servers + foreign
    }

    /// Memory that servers have not touched is charged as reserved alone: what nobody known here
    /// has reserved is a stranger's, and may be touched.
    fn unattributed_bytes(&self, side: LimitSide) -> Bytes {
        let known = self.all.charged;
        let beyond =
            |charged: &Observed<Bytes>| charged.get().unwrap_or_default().saturating_sub(known);
        let reserved = beyond(&self.cgroup.reservation_current);
        match side {
            LimitSide::Fault => beyond(&self.cgroup.fault_current).max(reserved),
            LimitSide::Reservation => reserved,
        }
    }
}

fn vouched_demands(host: &Host, instance: &Instance) -> Vec<Demand> {
    let start = predict_next_start(host, instance);
    if instance.is_trusted() && start.asks_for_huge_pages() { start.demands } else { Vec::new() }
}

/// What an instance asks for or, where it does not ask, would ask for.
fn demands_by_size(host: &Host, instance: &Instance) -> Vec<Demand> {
    let mut asked = vouched_demands(host, instance);
    if asked.is_empty() {
        return demand::find_demand(host, instance)
            .into_iter()
            .chain(demand::other_size_demands(host, instance))
            .collect();
    }
    for demand in &mut asked {
        demand.pages = demand.pages.max(demand::pages_held(instance, demand.page_size));
    }
    asked
}

fn groups_of(
    host: &Host,
    instance: &Instance,
    by_path: &HashMap<String, Vec<usize>>,
) -> Result<Vec<usize>, Missing> {
    let missing =
        |why| Missing::Instance(Lack::new(format_args!("/proc/{}/cgroup", instance.pid), why));
    if instance.pid == 0 {
        // One that does not run is in none, and will be in the one of the service that starts it.
        let unit = instance.stopped.as_ref().and_then(|asleep| asleep.unit.as_deref());
        let path = unit
            .map(|unit| unit.cgroup.as_str())
            .filter(|_| !by_path.is_empty() && is_unified(host));
        return Ok(ancestor_limits(path.unwrap_or_default(), by_path));
    }
    // The hugetlb controller came with Linux 3.6 (<https://kernelnewbies.org/Linux_3.6>).
    let has_no_limits = host.kernel.as_known().is_some_and(|kernel| !kernel.at_least(3, 6));
    if has_no_limits && by_path.is_empty() {
        return Ok(Vec::new());
    }
    let Some(process) = host.find_process(instance.pid) else {
        return Err(missing(Reason::from_text("not read")));
    };
    let memberships = match &process.cgroups {
        Observed::Known(memberships) => memberships,
        // A kernel without cgroups has no such file; a sosreport that has none tells nothing.
        Observed::Absent if host.live => return Ok(Vec::new()),
        other => {
            return Err(missing(other.unknown_reason().unwrap_or(Reason::from_text("not read"))));
        }
    };
    let counts = |membership: &&hugewise_model::process::CgroupMembership| {
        membership.hierarchy == 0
            || membership.controllers.iter().any(|controller| controller == "hugetlb")
    };
    let within: BTreeSet<usize> = memberships
        .iter()
        .filter(counts)
        .flat_map(|membership| ancestor_limits(&membership.path, by_path))
        .collect();
    Ok(within.into_iter().collect())
}

fn ancestor_limits(path: &str, by_path: &HashMap<String, Vec<usize>>) -> Vec<usize> {
    let mut within = Vec::new();
    let mut path = path.trim_end_matches('/');
    loop {
        within.extend(by_path.get(path).into_iter().flatten().copied());
        let Some((above, _)) = path.rsplit_once('/') else { return within };
        path = above;
    }
}

/// In the unified hierarchy; in one of version 1 systemd starts all services at the root.
fn is_unified(host: &Host) -> bool {
    let mut processes = host.processes.as_known().into_iter().flatten();
    let memberships = processes.find_map(|process| process.cgroups.as_known());
    let of_version_1 = |membership: &hugewise_model::process::CgroupMembership| {
        membership.hierarchy != 0
            && membership.controllers.iter().any(|controller| controller == "hugetlb")
    };
    memberships.is_some_and(|all| !all.iter().any(of_version_1))
}

#[cfg(test)]
mod tests;
