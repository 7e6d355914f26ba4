use hugewise_model::{Asked, Finding, Instance, Level, PageCount};

use crate::words::shell_word;
use crate::{Docs, Facts, Missing, Rule, cgroup, fix};

pub(crate) static RULE: Rule = Rule {
    code: "HW702",
    name: "cgroup-limit",
    level: Level::Error,
    docs: Docs {
        what: "A server that asks for huge pages or is on them, in a cgroup whose hugetlb limit, or that of a cgroup \
               above it, is below its demand. An error for the fault limit (hugetlb.*.max, v1 limit_in_bytes), and for \
               the reservation limit (rsvd.max) where the server insists on huge pages; a warning where it can fall \
               back.",
        why: "The fault limit is enforced when a page is touched: the mapping succeeds, and the server dies by SIGBUS \
              some time later. A container without a hugepages limit on a host with a pool is the usual case: its limit \
              is 0. The reservation limit fails at the mapping, so that a server can fall back.",
        fix: "Raise the limit to the demand: in Kubernetes as resources limits hugepages-2Mi, otherwise in the cgroup. \
              Or switch huge pages off in the server.",
        sources: &["Linux Documentation/admin-guide/cgroup-v2.rst, HugeTLB", "Kubernetes issue 71233"],
    },
    check: |facts| RULE.of_each(facts, look),
};

fn look(facts: &Facts<'_>, instance: &Instance) -> Result<Option<Finding>, Missing> {
    if !matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises) {
        return Ok(None);
    }
    // Without any pool no page is ever charged: nothing can be hit.
    let pools = facts.host.pools.known().into_iter().flatten();
    let mut pools = pools.filter(|pool| {
        pool.total.get() != Some(PageCount::ZERO) || pool.overcommit.get().is_some_and(|it| it > PageCount::ZERO)
    });
    if facts.host.pools.is_known() && pools.next().is_none() {
        return Ok(None);
    }
    let Some(short) = cgroup::shortage(facts.host, instance)? else { return Ok(None) };
    let (what, then, level) = if short.at_fault {
        ("fault limit", "it will die by SIGBUS when it touches more", Level::Error)
    } else if instance.asked == Asked::Must {
        ("reservation limit", "its next start fails", Level::Error)
    } else {
        ("reservation limit", "its next start falls back", Level::Warn)
    };
    let title = instance.title();
    let summary =
        format!("{title} needs {} of huge pages; the {what} of its cgroup is {}: {then}", short.demand, short.limit);
    let file = if short.at_fault { "max" } else { "rsvd.max" };
    let mut evidence = vec![format!("hugetlb {file} of {}: {}, {} charged", short.path, short.limit, short.charged)];
    evidence.extend(short.failures.filter(|count| *count > 0).map(|count| format!("limit hit {count} times")));
    let bytes = short.demand.get();
    let fix = vec![
        format!("# Kubernetes: limits of the container, hugepages-2Mi: {}Mi", bytes.div_ceil(1 << 20)),
        format!("# otherwise raise it for {} to {bytes}, below the mount of the hugetlb controller:", short.path),
        format!(
            "find /sys/fs/cgroup -path {} -name 'hugetlb.*' -print",
            shell_word(&format!("*{}/*", short.path.trim_end_matches('/')))
        ),
    ];
    let mut fix = fix;
    fix.extend(fix::restart(instance));
    Ok(Some(Finding { evidence, fix, ..RULE.finding(level, Some(instance), summary) }))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || case(crate::testing::gib(4)),
    silent: || case(crate::testing::gib(6)),
    missing: || {
        let mut case = case(crate::testing::gib(4));
        case.host.hugetlb_cgroups[0].fault_max = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
fn case(limit: hugewise_model::Bytes) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(6)));
    case.pool(3072, 0);
    case.host.hugetlb_cgroups = vec![crate::testing::cgroup("/system.slice", hugewise_model::Limit::At(limit))];
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use hugewise_model::{Bytes, Limit, LinkName, Observed};

    #[test]
    fn what_others_were_charged_counts_too() {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.pool(3072, 3072);
        let mut cgroup = crate::testing::cgroup("/system.slice/db.service", Limit::At(crate::testing::gib(7)));
        cgroup.fault_current = Observed::Known(Bytes::from_gib(2));
        case.host.hugetlb_cgroups = vec![cgroup];
        let assessment = case.assess();
        assert!(assessment.findings.iter().any(|finding| finding.code == "HW702"));
        assert_eq!(assessment.chains[0].broken().map(|link| link.name), Some(LinkName::Cgroup));
    }

    #[test]
    fn a_reservation_limit_only_makes_it_fall_back() {
        let mut case = super::case(crate::testing::gib(6));
        case.host.hugetlb_cgroups[0].reservation_max = Observed::Known(Limit::At(Bytes::ZERO));
        let findings = case.assess().findings;
        assert_eq!(
            findings.iter().find(|finding| finding.code == "HW702").map(|finding| finding.level),
            Some(Level::Warn)
        );
    }
}
