use hugewise_model::{Asked, Bytes, Finding, HugePageUse, Level, PageCount, Remedy};

use crate::cause::cure;
use crate::chain::is_amm;
use crate::target::is_kept_off;
use crate::words::{percent, pool_file};
use crate::{Docs, Facts, Missing, Rule, chain, demand};

/// A pool of which at least this part is available to anyone is idle.
const IDLE: f64 = 0.5;
/// Less idle memory than this is not worth a word.
const LEAST: Bytes = Bytes::from_mib(64);
/// From this much on it is a warning.
const WARN_BYTES: Bytes = Bytes::from_gib(1);
/// Or from this part of memory on.
const WARN_PART: f64 = 0.05;

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW202"),
    name: "idle-pool",
    level: Level::Warn,
    docs: Docs {
        what: "A pool of which half or more is neither used nor promised (free - reserved), from 64 MiB on; a warning \
               from 1 GiB or 5 % of memory on. Pages that are free but reserved count as used: a server was promised \
               them; so do those that a heap on huge pages has yet to grow into. Half is what tells a pool that nobody came for from one with spare pages.",
        why: "Memory in a pool is lost to everything else: no program on base pages, no page cache can have it. Often \
              the server that it was meant for started without it.",
        cost: "memory that no program and no page cache can have",
        fix: "Where a server was meant to use it, restart that server, and look at its chain if it still does not. \
              Otherwise shrink the pool: pages that are not in use go back at once, without any restart.",
        sources: &["Linux Documentation/admin-guide/mm/hugetlbpage.rst: HugePages_Free includes reserved pages"],
    },
    check: |facts| RULE.of_host(facts, look),
};

fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let pools = crate::known(&facts.host.pools, "/sys/kernel/mm/hugepages")?;
    let mut findings = Vec::new();
    for pool in pools {
        let page = pool.page_size;
        let Some(demand::Counts { total, free, reserved }) = demand::counts(pool)? else { continue };
        let vouched = facts.everybody.iter().filter(|instance| instance.is_vouched());
        let to_come: PageCount = vouched.map(|instance| demand::yet_to_take(instance, page)).sum();
        let available = free.saturating_sub(reserved + to_come);
        let idle = available.of(page);
        if idle < LEAST || idle.part_of(total.of(page)).is_none_or(|part| part < IDLE) {
            continue;
        }
        let share = facts.host.memory.total.get().and_then(|memory| idle.part_of(memory));
        let warn = idle >= WARN_BYTES || share.is_some_and(|share| share >= WARN_PART);
        let some = if available == total { "any".to_owned() } else { available.to_string() };
        let mut summary = format!("nobody uses {some} of the {total} pages of {page}: {idle}");
        let short = summary.clone();
        if let Some(share) = share {
            summary.push_str(&format!(", {} of memory", percent(share)));
        }
        let could = facts.everybody.iter().filter(|instance| {
            let wants = matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises | Asked::Unknown);
            let lacks = matches!(instance.huge_pages, HugePageUse::None | HugePageUse::Partly);
            (wants || is_amm(instance) || is_kept_off(facts, instance))
                && lacks
                && demand::page_size(facts.host, instance) == Some(page)
                && facts.chain(instance).is_some()
        });
        let could: Vec<_> = could.collect();
        let mut evidence = vec![
            format!("{}: {total}", pool_file(page, "nr_hugepages")),
            format!("{}: {free}, {}: {reserved}", pool_file(page, "free_hugepages"), pool_file(page, "resv_hugepages")),
        ];
        if to_come > PageCount::ZERO {
            evidence.push(format!("of these, {to_come} for servers that have yet to grow into them"));
        }
        let mut remedies = Vec::new();
        if could.is_empty() {
            remedies.push(Remedy::GiveBack(page));
        } else {
            evidence.push(format!("on base pages: {}", chain::titles(could.iter().copied())));
            for instance in could.iter().filter(|instance| instance.is_vouched()) {
                remedies.extend(cure(facts, instance));
            }
            if remedies.is_empty() {
                remedies.push(Remedy::Consider(
                    "see whether the servers that nothing vouches for are yours, and name them".into(),
                ));
            }
        }
        let level = if warn { Level::Warn } else { Level::Info };
        findings.push(Finding { short, evidence, remedies, ..RULE.finding(level, None, summary) });
    }
    Ok(findings)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 4096);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 4096);
        // Promised to a server that has not touched them yet: free, but not idle.
        case.pools()[0].reserved = hugewise_model::Observed::Known(hugewise_model::PageCount(4000));
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 4096);
        case.pools()[0].reserved = hugewise_model::Observed::Absent;
        case
    },
};

#[cfg(test)]
mod tests {
    use hugewise_model::{Demand, DemandSource, Engine, PageCount, PageSize};

    use crate::testing::{all_huge, gib, quiet};

    /// Whoever gave these pages back would have the machine die of it as its heap grows.
    #[test]
    fn pages_that_a_heap_has_yet_to_grow_into_are_not_idle() {
        let found = |engine: Engine| {
            let mut case = quiet();
            let instance = case.postgresql("Grow", gib(2));
            all_huge(instance);
            instance.engine = engine;
            let source = DemandSource::Engine;
            instance.demand = Some(Demand { page_size: PageSize::MIB_2, pages: PageCount(2048), source });
            case.pool(2048, 1024);
            case.assess().findings.iter().any(|finding| finding.code.as_str() == "HW202")
        };
        assert!(!found(Engine::Jvm));
        assert!(found(Engine::PostgreSql));
    }
}
