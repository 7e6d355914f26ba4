use hugewise_model::{Bytes, Finding, Level, PageCount, PageSize, Remedy};

use crate::words::{percent, pool_file};
use crate::{Docs, Facts, Missing, Rule, demand};

/// Beyond this part of memory all pools together leave too little: sizing guides stop at 70 to 80 %.
const LARGEST: f64 = demand::LARGEST_POOL;
/// From this part on a host that has no memory left is short because of its pools.
const HALF: f64 = 0.5;
/// A host that can give out less than this part of its memory is at its end.
const NOTHING_LEFT: f64 = 0.02;
/// With this part still to be had, pools beyond 80 % are no more than a warning.
const PLENTY: f64 = 0.05;

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW206"),
    name: "pool-starves-host",
    level: Level::Error,
    docs: Docs {
        what: "Pools that together take more than 80 % of memory: a warning while 5 % of memory can still be had, an \
               error otherwise. And pools of half the memory or more on a host whose MemAvailable (MemFree on kernels \
               before 3.14) is below 2 % of memory or below twice the high watermarks: an error. Sizing guides for \
               Oracle stop at 70 to 80 %; at the high watermark reclaim rests, at twice of it it never starts.",
        why: "The pool cannot be reclaimed or swapped. Sessions, page cache, page tables and the kernel itself live on \
              what is left; when that runs out the host stalls in reclaim or kills processes, with gigabytes idle in \
              the pool.",
        cost: "the host stalls or kills processes once the rest of memory runs out",
        fix: "Shrink the pool to what its servers use, or give the host more memory. Pages in use stay where they are \
              until the server stops.",
        sources: &["Linux Documentation/admin-guide/mm/hugetlbpage.rst", "Linux /proc/zoneinfo: min, low, high"],
    },
    check: |facts| RULE.of_host(facts, look),
};

pub(super) fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let host = facts.host;
    let total = *crate::known(&host.memory.total, "/proc/meminfo MemTotal")?;
    let pools = crate::known(&host.pools, "/sys/kernel/mm/hugepages")?;
    let mut taken = Bytes::ZERO;
    let mut evidence = Vec::new();
    for pool in pools {
        let pages = *crate::known(&pool.total, &pool_file(pool.page_size, "nr_hugepages"))?;
        let memory = pages.of(pool.page_size);
        taken += memory;
        if memory > Bytes::ZERO {
            evidence.push(format!("{}: {pages}, {memory}", pool_file(pool.page_size, "nr_hugepages")));
        }
    }
    let part = taken.part_of(total).unwrap_or_default();
    if part < HALF {
        return Ok(Vec::new());
    }
    let field = if host.memory.available.is_absent() { &host.memory.free } else { &host.memory.available };
    let name = if host.memory.available.is_absent() { "MemFree" } else { "MemAvailable" };
    let left = *crate::known(field, &format!("/proc/meminfo {name}"))?;
    evidence.push(format!("/proc/meminfo {name}: {left} of MemTotal {total}"));
    let left_part = left.part_of(total).unwrap_or_default();
    let watermark = high_watermarks(facts);
    let exhausted = left_part < NOTHING_LEFT || left < watermark.times(2);
    if watermark > Bytes::ZERO && left < watermark.times(2) {
        evidence.push(format!("/proc/zoneinfo: high watermarks {watermark}"));
    }
    let level = match () {
        () if exhausted => Level::Error,
        () if part > LARGEST && left_part < PLENTY => Level::Error,
        () if part > LARGEST => Level::Warn,
        () => return Ok(Vec::new()),
    };
    let share = percent(part);
    let summary = format!("huge pages take {taken}, {share} of memory; {left} are left for the rest");
    let short = format!("huge pages take {share} of memory; {left} are left for the rest");
    let idle = pools.iter().filter(|pool| pool.available().is_some_and(|available| available > PageCount::ZERO));
    let mut remedies: Vec<Remedy> = idle.map(|pool| Remedy::GiveBack(pool.page_size)).collect();
    if remedies.is_empty() {
        let what = "every page is in use: make the servers' segments smaller, or give the host more memory";
        remedies.push(Remedy::by_hand(what));
    }
    Ok(vec![Finding { short, evidence, remedies, ..RULE.finding(level, None, summary) }])
}

fn high_watermarks(facts: &Facts<'_>) -> Bytes {
    let base = facts.host.base_page.get().unwrap_or(PageSize::KIB_4);
    let zones = facts.host.memory.watermarks.known().into_iter().flatten();
    zones.map(|zone| base.bytes().times(zone.high)).sum()
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.pool(28_000, 28_000);
        case.host.memory.available = hugewise_model::Observed::Known(Bytes::from_mib(400));
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
        case.host.memory.free = Observed::Known(Bytes::from_mib(98));
        let level = |case: &crate::testing::Case| {
            case.assess().findings.iter().find(|finding| finding.code.as_str() == "HW206").map(|finding| finding.level)
        };
        assert_eq!(level(&case), Some(Level::Error));
        case.host.memory.free = Observed::Known(gib(6));
        assert_eq!(level(&case), Some(Level::Warn));
    }
}
