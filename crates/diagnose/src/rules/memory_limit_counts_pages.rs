use hugewise_model::host::MemoryCgroup;
use hugewise_model::{Bytes, Host, Instance, Level, Limit, Remedy};

use crate::prediction::predict_next_start;
use crate::wording::at_least;
use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW703"),
    name: "memory-limit-counts-pages",
    level: Level::Error,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A server whose huge pages count against the memory limit of its cgroup, as cgroup2 \
               is mounted with memory_hugetlb_accounting (Linux 6.7 and later; newer releases of \
               systemd mount it so). Its huge pages and what else its cgroup holds come to more \
               than memory.max of the cgroup or of one above it: MemoryMax= of its unit, or the \
               memory limit of its pod. An error if its huge pages alone are above the limit, \
               otherwise a warning.",
        why: "Without that option huge pages count for the hugetlb controller alone, and limits \
              are set without them. With it the server still starts wholly on huge pages, because \
              a reservation is not charged. Each page is charged when it is touched, and huge \
              pages cannot be reclaimed: at the limit the kernel's OOM killer ends the server.",
        cost: "the OOM killer ends the server once it has touched that much",
        fix: "Raise the limit by the server's huge pages (MemoryMax= of the unit, the container's \
              memory limit), or mount cgroup2 without memory_hugetlb_accounting.",
        sources: &[
            "Linux Documentation/admin-guide/cgroup-v2.rst: memory_hugetlb_accounting",
            "Linux commit 8cba9576df60; mm/hugetlb.c: alloc_hugetlb_folio",
            "systemd/systemd#39486",
        ],
    },
    check: |facts| RULE.of_each(facts, check_memory_limit),
};

fn check_memory_limit(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let host = facts.host;
    if host.memory_cgroups.is_empty() {
        return Ok(None);
    }
    let pages = demanded_bytes(host, instance);
    if pages == Bytes::ZERO {
        return Ok(None);
    }
    for cgroup in
        host.memory_cgroups.iter().filter(|cgroup| is_within(host, instance, &cgroup.path))
    {
        let file = |name: &str| format!("{name} of cgroup {}", cgroup.path);
        let Limit::At(limit) = crate::require_known(&cgroup.max, &file("memory.max"))? else {
            continue;
        };
        let other = *crate::require_known(&cgroup.other, &file("memory.stat"))?;
        let others: Bytes = facts
            .instances
            .iter()
            .filter(|beside| beside.id() != instance.id() && is_within(host, beside, &cgroup.path))
            .map(|beside| demanded_bytes(host, beside))
            .sum();
        // What it holds on base pages now is on huge ones then.
        let moving = demand::on_base_pages(instance).unwrap_or_default();
        let rest = other.saturating_sub(moving) + others;
        if pages + rest > *limit {
            return Ok(Some(find_excess(instance, cgroup, *limit, pages, rest)));
        }
    }
    Ok(None)
}

fn find_excess(
    instance: &Instance,
    cgroup: &MemoryCgroup,
    limit: Bytes,
    pages: Bytes,
    rest: Bytes,
) -> hugewise_model::Finding {
    let (title, path) = (instance.title(), &cgroup.path);
    let level = if pages > limit { Level::Error } else { Level::Warn };
    let summary = format!(
        "{title} has {pages} of huge pages, which count against memory.max {limit} of cgroup \
         {path} beside {rest} of other memory: the OOM killer ends it when it has touched them"
    );
    let short = format!("its {pages} of huge pages count against a memory limit of {limit}");
    let evidence = vec![
        "cgroup2 is mounted with memory_hugetlb_accounting".to_owned(),
        format!("memory.max of {path}: {limit}"),
        format!(
            "memory.stat of {path}: {} of huge pages charged",
            cgroup.hugetlb.get().unwrap_or_default()
        ),
    ];
    let what = format!(
        "raise the memory limit of {path} (MemoryMax= of its unit, or its container's) to {} or more",
        at_least(pages + rest)
    );
    RULE.new_finding(level, Some(instance), summary, short, evidence, vec![Remedy::by_hand(what)])
}

/// What it holds of huge pages, or asks for at its next start, whichever is more.
fn demanded_bytes(host: &Host, instance: &Instance) -> Bytes {
    let start = predict_next_start(host, instance);
    let asked: Bytes = start
        .demands
        .iter()
        .filter(|_| start.asks_for_huge_pages())
        .map(|demand| demand.pages.to_bytes(demand.page_size))
        .sum();
    asked.max(instance.huge_bytes())
}

fn is_within(host: &Host, instance: &Instance, path: &str) -> bool {
    let process = host.find_process(instance.pid);
    let memberships = process.and_then(|process| process.cgroups.as_known());
    let is_below = |own: &str| {
        own == path
            || own
                .strip_prefix(path.trim_end_matches('/'))
                .is_some_and(|rest| rest.starts_with('/'))
    };
    memberships.is_some_and(|all| {
        all.iter().any(|membership| membership.hierarchy == 0 && is_below(&membership.path))
    })
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_accounted_case(Limit::At(crate::testing::gib(4))),
    silent: || make_accounted_case(Limit::At(crate::testing::gib(8))),
    missing: || {
        let mut case = make_accounted_case(Limit::At(crate::testing::gib(4)));
        case.host.memory_cgroups[0].max = hugewise_model::Observed::Denied;
        case
    },
};

/// 6 GiB of huge pages and 1 GiB of other memory.
#[cfg(test)]
fn make_accounted_case(max: Limit) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(6)));
    case.pool(3072, 0);
    let path = case.processes()[0].cgroups.as_known().unwrap()[0].path.clone();
    case.host.memory_cgroups = vec![MemoryCgroup {
        path,
        max: hugewise_model::Observed::Known(max),
        hugetlb: hugewise_model::Observed::Known(crate::testing::gib(2)),
        other: hugewise_model::Observed::Known(crate::testing::gib(1)),
    }];
    case
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_other_memory_are_held_against_the_limit_together() {
        let told = |gib| {
            let case = make_accounted_case(Limit::At(crate::testing::gib(gib)));
            let findings = case.assess().findings.into_iter();
            let mut found = findings.filter(|finding| finding.code.as_str() == "HW703");
            found.next().map(|finding| (finding.level, finding.fix))
        };
        // 6 GiB of pages beside 1 GiB.
        assert_eq!(told(7), None);
        let (level, fix) = told(6).unwrap();
        assert_eq!(level, Level::Warn);
        assert!(fix.iter().any(|line| line.contains("to 7.0 GiB or more")), "{fix:?}");
        assert_eq!(told(5).unwrap().0, Level::Error);
    }

    #[test]
    fn a_limit_beside_its_cgroup_is_nothing_to_it() {
        let mut case = make_accounted_case(Limit::At(crate::testing::gib(4)));
        case.host.memory_cgroups[0].path.push('x');
        assert!(!case.codes().contains(&"HW703"));
    }
}
