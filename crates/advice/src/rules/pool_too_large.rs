use hugewise_model::{Finding, HugePageUse, Lack, Level, PageCount, Reason, Remedy};

use crate::idle::{FEW, IDLE, is_beyond_spare};
use crate::words::{percent, pool_fact};
use crate::{Docs, Facts, Missing, Rule, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW205"),
    name: "pool-too-large",
    level: Level::Info,
    docs: Docs {
        what: "A pool that is larger than everything that could use it, by 1 GiB or more and by 10 % or more. What \
               could use it is what is in use or promised now, plus what every server here would need to be entirely \
               on huge pages. A few spare pages are wise: Oracle needs free ones to shut down. A pool that is half \
               idle is reported by idle-pool.",
        why: "Pages beyond all demand are lost to the page cache and to private memory.",
        cost: "memory that neither programs nor the page cache can use",
        fix: "Shrink the pool: pages that nobody uses go back at once. hugewise may not know of a server that is \
              down now, so make sure that none is missing before you shrink it.",
        sources: &["Linux Documentation/admin-guide/mm/hugetlbpage.rst"],
    },
    check: |facts| RULE.of_host(facts, look),
};

fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let pools = crate::known(&facts.host.pools, "/sys/kernel/mm/hugepages")?;
    let mut findings = Vec::new();
    for pool in pools {
        let page = pool.page_size;
        let Some(demand::Counts { total, free, reserved }) = demand::counts(pool)? else { continue };
        let available = free.saturating_sub(reserved);
        let mut wanted = PageCount::ZERO;
        for instance in facts.instances {
            let this_size = demand::page_size(facts.host, instance) == Some(page);
            if !this_size || facts.chain(instance).is_none() || instance.huge_pages == HugePageUse::All {
                continue;
            }
            match demand::more(facts.host, instance) {
                Some(more) => wanted = wanted + more.pages,
                None if instance.huge_pages == HugePageUse::Unknown => {
                    return Err(demand::why_unknown(facts.host, instance).of_host());
                }
                None => {}
            }
        }
        let claim = facts.situation.claim(page);
        let committed = total.saturating_sub(available);
        let wanted = wanted.max(claim.map(|claim| claim.pages.saturating_sub(committed)).unwrap_or_default());
        let beyond = available.saturating_sub(wanted).of(page);
        let part = beyond.part_of(total.of(page)).unwrap_or_default();
        let idle = available.of(page).part_of(total.of(page)).unwrap_or_default();
        // A few that somebody may want or not make no other answer of it: what a plan writes can leave that open.
        let perhaps = claim.map(|claim| claim.perhaps).unwrap_or_default().of(page);
        let bound = beyond + perhaps.min(beyond.shared_by(FEW).unwrap_or_default());
        if !is_beyond_spare(bound, total.of(page)) || idle >= IDLE {
            continue;
        }
        if let Some(id) = claim.and_then(|claim| claim.unknown.first()) {
            let what = format_args!("what {id} will ask for at its next start");
            return Err(Missing::Host(Lack::new(what, Reason::Untold("its settings could not be read".into()))));
        }
        let pages = available.saturating_sub(wanted);
        let summary = format!("nothing here could use {pages} of the {}: {beyond}", total.in_pages_of(page));
        let short = format!("{pages} of {} ({beyond}) {} more than needed", total.in_pages_of(page), pages.are());
        let evidence = vec![
            format!(
                "{}: {total}, {available} of them neither used nor promised",
                pool_fact(facts.host, page, "nr_hugepages")
            ),
            format!("servers on base pages would take {wanted}; {} of the pool is left over", percent(part)),
        ];
        findings.push(Finding {
            short,
            evidence,
            remedies: vec![Remedy::GiveBack(page)],
            ..RULE.finding(Level::Info, None, summary)
        });
    }
    Ok(findings)
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
