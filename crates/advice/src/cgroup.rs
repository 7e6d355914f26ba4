//! Hugetlb limits of an instance's cgroup and of those above it.

use hugewise_model::host::HugetlbCgroup;
use hugewise_model::{Bytes, Demand, Host, HugePageUse, Instance, Lack, Limit, Observed, PageSize, Reason};

use crate::{Missing, demand};

/// A limit that an instance's demand does not fit under.
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
    /// The limit that would do: the demand, and what others are charged there.
    pub(crate) enough: Bytes,
    /// Pages that it is about.
    pub(crate) page_size: PageSize,
    /// Whether it is enforced when a page is touched (SIGBUS), as against when memory is mapped.
    pub(crate) at_fault: bool,
    /// Times that the limit was hit.
    pub(crate) failures: Option<u64>,
}

/// The tightest shortage: a fault limit before a reservation limit, as that one kills.
pub(crate) fn shortage(host: &Host, instance: &Instance) -> Result<Option<Shortage>, Missing> {
    let Some(demand) = demand::of(host, instance) else { return Ok(None) };
    shortage_of(host, instance, &demand, instance.huge_pages == HugePageUse::All)
}

/// The same for a demand. With `settled` it has its pages, and what others are charged is no longer in its way.
pub(crate) fn shortage_of(
    host: &Host,
    instance: &Instance,
    demand: &Demand,
    settled: bool,
) -> Result<Option<Shortage>, Missing> {
    let limits = limits_of(host, instance, demand.page_size)?;
    let bytes = demand.pages.of(demand.page_size);
    let held = demand::held(instance, demand.page_size).of(demand.page_size);
    let mut found: Option<Shortage> = None;
    for cgroup in limits {
        let sides = [
            (true, &cgroup.fault_max, &cgroup.fault_current, "max"),
            (false, &cgroup.reservation_max, &cgroup.reservation_current, "rsvd.max"),
        ];
        for (at_fault, max, current, file) in sides {
            let limit = match max {
                Observed::Known(Limit::At(limit)) => *limit,
                Observed::Known(Limit::Unlimited) | Observed::Absent => continue,
                Observed::Denied | Observed::Malformed(_) => {
                    let what = format_args!("hugetlb {file} of cgroup {}", cgroup.path);
                    return Err(Missing::Instance(Lack::of(what, max)));
                }
            };
            let charged = current.get().unwrap_or_default();
            let others = charged.saturating_sub(held);
            let short = bytes > limit || (!settled && bytes + others > limit);
            let tighter = |old: &Shortage| (!old.at_fault, old.limit) > (!at_fault, limit);
            if short && found.as_ref().is_none_or(tighter) {
                let failures = cgroup.failures.get();
                let path = cgroup.path.clone();
                let (enough, page_size) = (bytes + others, demand.page_size);
                found = Some(Shortage { path, limit, charged, demand: bytes, enough, page_size, at_fault, failures });
            }
        }
    }
    Ok(found)
}

/// What the controller says of the cgroups that an instance is in, outermost first as the host lists them.
fn limits_of<'a>(host: &'a Host, instance: &Instance, page: PageSize) -> Result<Vec<&'a HugetlbCgroup>, Missing> {
    let missing = |why| Missing::Instance(Lack::new(format_args!("/proc/{}/cgroup", instance.pid), why));
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
    let paths: Vec<&str> = memberships.iter().filter(counts).map(|membership| membership.path.as_str()).collect();
    let here = |cgroup: &&HugetlbCgroup| {
        cgroup.page_size == page && paths.iter().any(|path| is_at_or_above(&cgroup.path, path))
    };
    Ok(host.hugetlb_cgroups.iter().filter(here).collect())
}

fn is_at_or_above(above: &str, path: &str) -> bool {
    let above = above.trim_end_matches('/');
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_membership_that_was_not_kept_is_no_freedom_from_limits() {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.processes().iter_mut().for_each(|process| process.cgroups = Observed::Absent);
        let shortage_where = |live: bool, case: &mut crate::testing::Case| {
            case.host.live = live;
            shortage(&case.host, &case.instances[0])
        };
        assert_eq!(shortage_where(true, &mut case), Ok(None));
        assert!(shortage_where(false, &mut case).is_err());
    }

    #[test]
    fn a_cgroup_is_above_its_children_and_not_above_its_neighbours() {
        assert!(is_at_or_above("/", "/system.slice/db.service"));
        assert!(is_at_or_above("/system.slice", "/system.slice/db.service"));
        assert!(is_at_or_above("/a", "/a"));
        assert!(!is_at_or_above("/system.slice/d", "/system.slice/db.service"));
    }
}
