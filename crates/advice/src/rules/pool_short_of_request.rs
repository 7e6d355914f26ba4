use hugewise_model::{Finding, Level, PageCount, Remedy};

use crate::rules::boot_starves_host;
use crate::words::{place_to_edit, pool_file};
use crate::{Docs, Facts, Missing, Rule, boot};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW207"),
    name: "pool-short-of-request",
    level: Level::Warn,
    docs: Docs {
        what: "A pool with fewer pages than the files ask for: what the command line, tuned, sysctl.d or tmpfiles.d \
               set against nr_hugepages. Surplus pages don't count. One page short is enough: one page can be what a \
               server needs.",
        why: "The kernel gives what it can find and reports success. Late in the life of a host memory is fragmented \
              and the number comes out short, and the next server to start gets none.",
        cost: "the next server to start may find too few huge pages",
        fix: "Free memory and ask again (compaction helps for sizes up to 4 MiB or so), or reboot: at boot memory is \
              whole. Where somebody lowered the pool on purpose, correct the file.",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst",
            "Measured on Linux 6.1: writing 999999 succeeds and gives 3322 pages",
        ],
    },
    check: |facts| RULE.of_host(facts, look),
};

fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let host = facts.host;
    let mut findings = Vec::new();
    let crowding = boot::crowding(host).ok().flatten();
    for pool in crate::known(&host.pools, "/sys/kernel/mm/hugepages")? {
        let page = pool.page_size;
        let steps = boot::pool(host, page)?;
        let Some(step) = steps.last() else { continue };
        let file = pool_file(page, "nr_hugepages");
        let total = *crate::known(&pool.total, &file)?;
        let has = total.saturating_sub(pool.surplus.get().unwrap_or_default());
        let asked = PageCount(step.value);
        if has >= asked {
            continue;
        }
        let summary = format!("{asked} pages of {page} are configured, and {has} are there");
        let short = summary.clone();
        let evidence = vec![format!("{}: {asked}", step.place), format!("{file}: {has}")];
        // What the host cannot carry is lowered, not given.
        let too_many = crowding.iter().flat_map(|it| &it.parts).find(|part| part.page_size == page);
        let remedy = too_many.map_or(Remedy::SetPool(page), |part| boot_starves_host::lower(facts, part));
        let fewer =
            Remedy::Consider(format!("ask for fewer in {}, where nobody needs them", place_to_edit(&step.place)));
        findings.push(Finding {
            short,
            evidence,
            remedies: vec![remedy, fewer],
            ..RULE.finding(Level::Warn, None, summary)
        });
    }
    Ok(findings)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.pool(4000, 0);
        case.host.configuration.sysctl =
            hugewise_model::Observed::Known(vec![crate::testing::sysctl("vm.nr_hugepages", "4096")]);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 0);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 0);
        case.host.configuration.sysctl = hugewise_model::Observed::Denied;
        case
    },
};
