use hugewise_model::{Level, PageCount, Remedy};

use crate::starvation::{Starvation, find_starvation};
use crate::wording::render_percent;
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW206"),
    name: "pool-starves-host",
    level: Level::Error,
    role: CaseRole::Plain,
    docs: Docs {
        what: "Pools that leave the host too little memory.\n\n- Warning: all pools together take \
               more than {LARGEST_POOL} of memory, and {PLENTY} of memory or more is still available.\n- Error: \
               they take more than {LARGEST_POOL}, and less than {PLENTY} is available.\n- Error: they take half \
               of memory or more, and MemAvailable is below {NOTHING_LEFT} of memory or below twice the high \
               watermarks.\n\nKernels before 3.14 don't report MemAvailable. hugewise then \
               estimates it as later kernels do: free memory, plus page cache and slabs that can \
               be freed, minus what the low watermarks keep. Sizing guides for Oracle stop at 70 \
               to 80 %. Reclaim rests at the high watermark and never starts at twice that.",
        why: "The pool can't be reclaimed or swapped. Sessions, page cache, page tables and the \
              kernel itself must make do with what is left. When that runs out, the host stalls in \
              reclaim or kills processes, with gigabytes idle in the pool.",
        cost: "the host stalls or kills processes once the rest of memory runs out",
        fix: "Shrink the pool to what its servers use, or give the host more memory. Pages in use \
              stay where they are until the server stops.",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst",
            "Linux /proc/zoneinfo: min, low, high",
            "Linux 34e431b0ae39, si_mem_available()",
        ],
    },
    check: |facts| RULE.of_host(facts, check_pool_starves_host),
};

fn check_pool_starves_host(facts: &RuleFacts<'_>) -> HostResult {
    let Some(Starvation { level, taken, part, left, evidence }) = find_starvation(facts.host)?
    else {
        return Ok(Vec::new());
    };
    let share = render_percent(part);
    let summary =
        format!("huge pages take {taken}, {share} of memory; {left} are left for the rest");
    let short = format!("huge pages take {share} of memory; {left} are left for the rest");
    let pools = facts.host.pools.as_known().into_iter().flatten();
    let idle = pools
        .filter(|pool| pool.available_pages().is_some_and(|available| available > PageCount::ZERO));
    let mut remedies: Vec<Remedy> = idle.map(|pool| facts.give_back(pool.page_size)).collect();
    if remedies.is_empty() {
        let what = "every page is in use: make the servers' segments smaller, or give the host \
            more memory";
        remedies.push(Remedy::by_hand(what));
    }
    Ok(vec![RULE.new_finding(level, None, summary, short, evidence, remedies)])
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.pool(28_000, 28_000);
        case.host.memory.available =
            hugewise_model::Observed::Known(hugewise_model::Bytes::from_mib(400));
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.pool(22_000, 0);
        case.host.memory.available = hugewise_model::Observed::Known(crate::testing::gib(10));
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.pool(28_000, 28_000);
        case.host.memory.total = hugewise_model::Observed::Absent;
        case
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gib, quiet};
    use hugewise_model::Observed;

    #[test]
    fn a_kernel_without_mem_available_is_judged_by_its_free_memory() {
        let mut case = quiet();
        case.pool(28_000, 0);
        case.host.memory.available = Observed::Absent;
        case.host.memory.free = Observed::Known(hugewise_model::Bytes::from_mib(98));
        let level = |case: &crate::testing::Case| {
            case.assess()
                .findings
                .iter()
                .find(|finding| finding.code.as_str() == "HW206")
                .map(|finding| finding.level)
        };
        assert_eq!(level(&case), Some(Level::Error));
        case.host.memory.free = Observed::Known(gib(6));
        assert_eq!(level(&case), Some(Level::Warn));
    }

    /// SLES 11 with 16 GB, 9.5 of them in the pool: 125 MiB free, and 4 GiB of page cache that can
    /// be dropped.
    #[test]
    fn page_cache_that_can_be_dropped_is_left_too() {
        let mut case = quiet();
        case.host.memory.total = Observed::Known(hugewise_model::Bytes::from_kib(16_337_920));
        case.pool(4868, 28);
        case.host.memory.available = Observed::Absent;
        case.host.memory.free = Observed::Known(hugewise_model::Bytes::from_kib(128_000));
        let codes = |case: &crate::testing::Case| case.codes().contains(&"HW206");
        assert!(codes(&case), "nothing tells of any cache");
        case.host.memory.cached = Observed::Known(hugewise_model::Bytes::from_kib(4_076_544));
        case.host.memory.shmem = Observed::Known(hugewise_model::Bytes::from_kib(20_000));
        assert!(!codes(&case));
        // The cache is shared memory: nothing of it can be had.
        case.host.memory.shmem = Observed::Known(hugewise_model::Bytes::from_kib(4_000_000));
        assert!(codes(&case));
    }
}
