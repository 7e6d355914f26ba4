use hugewise_model::{HugePageUse, Level, PageCount, PageSize, Pool};

use crate::idle::{FEW, IDLE, is_beyond_spare, unread_next_demand};
use crate::wording::{pool_fact, render_percent};
use crate::{CaseRole, Docs, HostResult, InstanceResult, Missing, Rule, RuleFacts, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW205"),
    name: "pool-too-large",
    level: Level::Info,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A pool that is larger than everything that could use it, by {LEAST_SPARE} or more and by {SPARE} or more. What could use it is what is in use or promised now, plus what every \
               server here would need to be entirely on huge pages. A few spare pages are wise: \
               Oracle needs free ones to shut down. A pool that is half idle is reported by \
               idle-pool.",
        why: "Pages beyond all demand are lost to the page cache and to private memory.",
        cost: "memory that neither programs nor the page cache can use",
        fix: "Shrink the pool: pages that nobody uses go back at once. hugewise may not know of a \
              server that is down now, so make sure that none is missing before you shrink it.",
        sources: &["Linux Documentation/admin-guide/mm/hugetlbpage.rst"],
    },
    check: |facts| RULE.of_host(facts, check_pool_too_large),
};

fn check_pool_too_large(facts: &RuleFacts<'_>) -> HostResult {
    let mut findings = Vec::new();
    for pool in crate::require_known(&facts.host.pools, "/sys/kernel/mm/hugepages")? {
        findings.extend(check_pool_excess(facts, pool)?);
    }
    Ok(findings)
}

fn check_pool_excess(facts: &RuleFacts<'_>, pool: &Pool) -> InstanceResult {
    let page = pool.page_size;
    let Some(counts) = demand::read_pool_counts(pool)? else { return Ok(None) };
    let (total, available) = (counts.total, counts.available());
    let claim = facts.situation.claim(page);
    let committed = total.saturating_sub(available);
    let claimed = claim.map(|claim| claim.pages.saturating_sub(committed)).unwrap_or_default();
    let wanted = sum_missing_demands(facts, page)?.max(claimed);
    let pages = available.saturating_sub(wanted);
    let beyond = pages.to_bytes(page);
    let part = beyond.part_of(total.to_bytes(page)).unwrap_or_default();
    let idle = available.to_bytes(page).part_of(total.to_bytes(page)).unwrap_or_default();
    // A few that somebody may want or not make no other answer of it: a plan can leave that open.
    let perhaps = claim.map(|claim| claim.perhaps).unwrap_or_default().to_bytes(page);
    let bound = beyond + perhaps.min(beyond.shared_by(FEW).unwrap_or_default());
    if !is_beyond_spare(bound, total.to_bytes(page)) || idle >= IDLE {
        return Ok(None);
    }
    if let Some(id) = claim.and_then(|claim| claim.unknown.first()) {
        return Err(unread_next_demand(id));
    }
    let pool_pages = total.in_pages_of(page);
    let summary = format!("nothing here could use {pages} of the {pool_pages}: {beyond}");
    let verb = pages.linking_verb();
    let short = format!("{pages} of {pool_pages} ({beyond}) {verb} more than needed");
    let evidence = vec![
        format!(
            "{}: {total}, {available} of them neither used nor promised",
            pool_fact(facts.host, page, "nr_hugepages")
        ),
        format!(
            "servers on base pages would take {wanted}; {} of the pool is left over",
            render_percent(part)
        ),
    ];
    let remedies = vec![facts.give_back(page)];
    Ok(Some(RULE.new_finding(Level::Info, None, summary, short, evidence, remedies)))
}

fn sum_missing_demands(facts: &RuleFacts<'_>, page: PageSize) -> Result<PageCount, Missing> {
    let mut wanted = PageCount::ZERO;
    for instance in facts.instances {
        let this_size = demand::page_size(facts.host, instance) == Some(page);
        if !this_size || facts.chain(instance).is_none() || instance.huge_pages == HugePageUse::All
        {
            continue;
        }
        match demand::find_missing_demand(facts.host, instance) {
            Some(more) => wanted = wanted + more.pages,
            None if instance.huge_pages == HugePageUse::Unknown => {
                return Err(demand::why_unknown(facts.host, instance).of_host());
            }
            None => {}
        }
    }
    Ok(wanted)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(6)));
        case.pool(4096, 1024);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(6)));
        case.postgresql("15/next", crate::testing::gib(2));
        case.pool(4096, 1024);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.pool(4096, 1024);
        crate::testing::hidden(&mut case);
        case
    },
};

#[cfg(test)]
mod tests {
    use hugewise_model::instance::NextStart;
    use hugewise_model::{HugePageMode, Observed, Trait};

    /// The parameters of ASM are in ASM, and no file tells them.
    #[test]
    fn what_asm_does_not_tell_leaves_no_pool_undecided() {
        let mut case = crate::testing::quiet();
        let instance = crate::testing::all_huge(case.oracle("+ASM1", crate::testing::gib(6), 2));
        instance.next = Observed::Known(NextStart {
            asked: HugePageMode::Unknown,
            setting: None,
            demands: Vec::new(),
        });
        case.pool(4096, 1024);
        assert!(!case.codes().contains(&"HW205"));
        case.instances[0].traits.push(Trait::Asm);
        assert!(case.codes().contains(&"HW205"), "{:?}", case.codes());
    }
}
