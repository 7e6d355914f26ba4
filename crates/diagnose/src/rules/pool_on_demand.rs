use hugewise_model::{HugePageMode, Instance, Level, PageCount};

use crate::prediction::{StageForecasts, predict_next_start};
use crate::wording::pool_fact;
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, boot, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW211"),
    name: "pool-on-demand",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "Servers that run on surplus pages: pages beyond the pool that \
               nr_overcommit_hugepages lets the kernel take on demand. A warning if one of these \
               servers refuses to start without huge pages, otherwise a note. Servers that would \
               not get such pages again are reported by restart-loses-pages, and files that ask \
               for a larger pool than there is by pool-short-of-request.",
        why: "A surplus page goes back to the system when its server stops, and each start has to \
              find it again: 2 MiB of contiguous free memory per page. On a host that has been up \
              for months there may not be enough of them, however much memory is free.",
        cost: "the next start gets only the pages that fragmented memory can give",
        fix: "Set the pool itself to what its servers need. The surplus pages then become part of \
              the pool, without taking memory and without a restart.",
        sources: &[
            "Documentation/admin-guide/mm/hugetlbpage.rst: nr_overcommit_hugepages, surplus pages",
            "mm/hugetlb.c: set_max_huge_pages() first makes surplus pages the pool's own",
        ],
    },
    check: |facts| RULE.of_host(facts, check_pool_on_demand),
};

fn check_pool_on_demand(facts: &RuleFacts<'_>) -> HostResult {
    let host = facts.host;
    let mut findings = Vec::new();
    for pool in crate::require_known(&host.pools, "/sys/kernel/mm/hugepages")? {
        let page = pool.page_size;
        let of_page = |instance: &&Instance| demand::pages_held(instance, page) > PageCount::ZERO;
        let holders: Vec<&Instance> = facts.instances.iter().filter(of_page).collect();
        if holders.is_empty() {
            continue;
        }
        let surplus = demand::surplus_pages(host, pool)?;
        if surplus == PageCount::ZERO {
            continue;
        }
        let loses = |instance: &&Instance| {
            let forecasts = facts.situation.forecasts_for(instance);
            forecasts.is_some_and(StageForecasts::loses_at_restart)
        };
        let file = pool_fact(host, page, "nr_hugepages");
        let own = crate::require_known(&pool.total, &file)?.saturating_sub(surplus);
        let asked = boot::pool_of_files(host, page)
            .unwrap_or_default()
            .last()
            .map(|step| PageCount(step.value));
        if holders.iter().any(loses) || asked.is_some_and(|asked| asked > own) {
            continue;
        }
        let insists = holders
            .iter()
            .any(|instance| predict_next_start(host, instance).asked == HugePageMode::Must);
        let level = if insists { Level::Warn } else { Level::Info };
        let who = chain::join_titles(holders.iter().copied());
        let short = format!(
            "{surplus} of the {page} pages in use {} surplus pages, taken on demand",
            surplus.linking_verb()
        );
        let summary = format!("{short}, held by {who}: the next start may not get them");
        let evidence = vec![
            format!("{}: {surplus}", pool_fact(host, page, "surplus_hugepages")),
            format!("{file}: {own} without surplus"),
        ];
        let remedies = vec![facts.set_pool(page, None)];
        findings.push(RULE.new_finding(level, None, summary, short, evidence, remedies));
    }
    Ok(findings)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || on_demand(HugePageMode::Must),
    silent: || {
        let mut case = on_demand(HugePageMode::Must);
        case.pools()[0].surplus = hugewise_model::Observed::Known(PageCount::ZERO);
        case
    },
    missing: || {
        let mut case = on_demand(HugePageMode::Must);
        case.pools()[0].total = hugewise_model::Observed::Denied;
        case
    },
};

/// A server whose 1,024 pages are surplus, on a host that lets it have as many at each boot.
#[cfg(test)]
fn on_demand(asked: HugePageMode) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(2))).asked = asked;
    case.pool(1024, 0);
    let pool = &mut case.pools()[0];
    pool.surplus = hugewise_model::Observed::Known(PageCount(1024));
    pool.overcommit = hugewise_model::Observed::Known(PageCount(1200));
    case.host.configuration.sysctl = hugewise_model::Observed::Known(vec![crate::testing::sysctl(
        "vm.nr_overcommit_hugepages",
        "1200",
    )]);
    case
}

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;

    use super::*;
    use crate::remedy::to_do;

    #[test]
    fn check_says_what_the_target_is() {
        for (asked, level) in [(HugePageMode::Must, Level::Warn), (HugePageMode::Try, Level::Info)]
        {
            let case = on_demand(asked);
            let assessment = case.assess();
            let goal = assessment.target.pool(hugewise_model::PageSize::MIB_2).unwrap();
            assert_eq!((goal.now, goal.goal), (PageCount(0), PageCount(1024)));
            let finding = assessment
                .findings
                .iter()
                .find(|other_finding| other_finding.code == RULE.code)
                .unwrap();
            assert_eq!(finding.level, level);
            let lines: Vec<String> = to_do(&case.host, &case.instances, &assessment, Level::Warn)
                .into_iter()
                .map(|(_, text)| text)
                .collect();
            assert!(
                lines.contains(
                    &"set the pool of 2 MiB pages to 1,024 (2.0 GiB), now and at each boot"
                        .to_owned()
                ),
                "{lines:?}"
            );
        }
    }

    #[test]
    fn surplus_pages_that_were_denied_are_missing() {
        let mut case = on_demand(HugePageMode::Must);
        case.pools()[0].surplus = Observed::Denied;
        let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages";
        assert_eq!(case.missing_facts(&RULE), [format!("{file}: denied")]);
        case.pools()[0].surplus = Observed::Absent;
        assert!(case.missing_facts(&RULE).is_empty());
    }
}
