use hugewise_model::{Bytes, Level, PageCount, Remedy};

use crate::commit_limit::StrictCommit;
use crate::coverage::Coverage;
use crate::wording::pool_fact;
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, demand, require_known, starvation};

/// vm.overcommit_memory with which the kernel holds programs to CommitLimit.
const STRICT: u64 = 2;

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW212"),
    name: "commit-limit-used-up",
    level: Level::Error,
    role: CaseRole::Plain,
    docs: Docs {
        what: "Pools that leave programs too little of CommitLimit, on a host with \
               vm.overcommit_memory=2.\n\n- Error: Committed_AS has reached the limit, less what \
               the kernel keeps for root and for recovery (vm.admin_reserve_kbytes, \
               vm.user_reserve_kbytes, by their defaults).\n- Warning: less than {PLENTY} of the \
               limit is left.\n\nBoth only where it would be enough without the pools. With \
               vm.overcommit_kbytes pools don't count.",
        why: "With vm.overcommit_memory=2 the kernel promises programs no more than swap plus \
              vm.overcommit_ratio percent of the memory outside the pools. A server on huge pages \
              takes nothing of that, but one that is still on base pages does, and so its memory \
              counts twice once its pool is there. At the limit every fork and malloc fails with \
              ENOMEM, however much memory is free.",
        cost: "at the limit no session can start, however much memory is free",
        fix: "Restart the servers whose pages are there, and give back pages that nobody will use. \
              If neither is left to do, raise vm.overcommit_ratio: memory in pools is never \
              promised, so a ratio that was chosen without pools is too low with them.",
        sources: &[
            "Linux Documentation/mm/overcommit-accounting.rst",
            "Linux mm/util.c: vm_commit_limit(), __vm_enough_memory()",
            "PostgreSQL documentation, \"Linux Memory Overcommit\"",
        ],
    },
    check: |facts| RULE.of_host(facts, check_commit_limit_used_up),
};

fn check_commit_limit_used_up(facts: &RuleFacts<'_>) -> HostResult {
    let (host, settings) = (facts.host, &facts.host.kernel_settings);
    let mode = &settings.overcommit_memory;
    if mode.get().is_some_and(|mode| mode != STRICT) {
        return Ok(Vec::new());
    }
    let mut evidence = Vec::new();
    let mut pools = Bytes::ZERO;
    for pool in require_known(&host.pools, "/sys/kernel/mm/hugepages")? {
        let file = pool_fact(host, pool.page_size, "nr_hugepages");
        let pages = *require_known(&pool.total, &file)?;
        if pages > PageCount::ZERO {
            pools += pages.to_bytes(pool.page_size);
            evidence.push(format!("{file}: {pages}, {}", pages.to_bytes(pool.page_size)));
        }
    }
    if pools == Bytes::ZERO {
        return Ok(Vec::new());
    }
    let limit = *require_known(&host.memory.commit_limit, "/proc/meminfo CommitLimit")?;
    let committed = *require_known(&host.memory.committed, "/proc/meminfo Committed_AS")?;
    let commit = StrictCommit::new(limit, committed, settings);
    let taken = commit.taken_by(pools);
    let without_pools = StrictCommit { limit: limit + taken, ..commit };
    if !is_nearly_used_up(commit) || is_nearly_used_up(without_pools) {
        return Ok(Vec::new());
    }
    require_known(mode, "/proc/sys/vm/overcommit_memory")?;
    let (level, rest) = match commit.left() {
        Bytes::ZERO => (Level::Error, "nothing".to_owned()),
        left => (Level::Warn, left.to_string()),
    };
    let short = format!("the pools lower CommitLimit by {taken}; {rest} is left of it");
    let summary = format!("{short}, and vm.overcommit_memory=2 promises programs no more");
    let ratio = commit.ratio;
    evidence.push(format!("/proc/sys/vm/overcommit_memory: {STRICT}, with a ratio of {ratio} %"));
    evidence.push(format!("/proc/meminfo CommitLimit: {limit}, Committed_AS: {committed}"));
    let remedies = remedy_commit_limit(facts, ratio);
    Ok(vec![RULE.new_finding(level, None, summary, short, evidence, remedies)])
}

fn is_nearly_used_up(commit: StrictCommit) -> bool {
    commit.left().part_of(commit.limit).unwrap_or_default() < starvation::PLENTY
}

/// A restart takes a server's memory out of what is committed. Which idle pages are to be given back
/// is what idle-pool and pool-too-large say.
fn remedy_commit_limit(facts: &RuleFacts<'_>, ratio: u64) -> Vec<Remedy> {
    let moves = facts.instances.iter().filter(|instance| {
        let on_base = instance.segment_bytes().saturating_sub(instance.huge_bytes());
        let forecasts = facts.situation.forecasts_for(instance);
        on_base >= demand::BIG_SEGMENT
            && forecasts.is_some_and(|forecasts| {
                let may_move = [Coverage::All, Coverage::Partly, Coverage::Unknown];
                may_move.contains(&forecasts.restart.coverage)
            })
    });
    let mut remedies: Vec<Remedy> = moves.filter_map(|instance| facts.restart(instance)).collect();
    let mut pools = facts.host.pools.as_known().into_iter().flatten();
    let is_idle = pools.any(|pool| pool.available_pages() > Some(PageCount::ZERO));
    let what = format!(
        "raise vm.overcommit_ratio, now {ratio}: it counts only the memory outside the pools"
    );
    remedies.push(match remedies.is_empty() && !is_idle {
        true => Remedy::by_hand(what),
        false => Remedy::Consider(what),
    });
    remedies
}

/// 64 GiB of memory at 50 % without swap, of which a server has 20 GiB on huge pages: the limit is
/// (64 - 20) / 2 = 22 GiB.
#[cfg(test)]
fn make_strict_case(committed: Bytes) -> crate::testing::Case {
    use crate::testing::{all_huge, gib, quiet};
    use hugewise_model::Observed::Known;
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(20)));
    case.pool(10_240, 0);
    case.host.kernel_settings.overcommit_memory = Known(2);
    case.host.kernel_settings.overcommit_ratio = Known(50);
    case.host.memory.commit_limit = Known(gib(22));
    case.host.memory.committed = Known(committed);
    case
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_strict_case(crate::testing::gib(22)),
    silent: || make_strict_case(crate::testing::gib(20)),
    missing: || {
        let mut case = make_strict_case(crate::testing::gib(22));
        case.host.memory.committed = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Case, gib};
    use hugewise_model::{Finding, Observed::Known};

    fn find_finding(case: &Case) -> Option<Finding> {
        case.assess().findings.into_iter().find(|finding| finding.code == RULE.code)
    }

    #[test]
    fn what_is_left_of_the_limit_decides_the_level() {
        let level = |mib| Some(find_finding(&make_strict_case(Bytes::from_mib(mib)))?.level);
        // 5 % of 22,528 MiB are 1,126.4, and the kernel keeps 136.
        assert_eq!(level(22_528 - 136 - 1_127), None);
        assert_eq!(level(22_528 - 136 - 1_126), Some(Level::Warn));
        assert_eq!(level(22_528 - 136), Some(Level::Error));
    }

    #[test]
    fn pools_that_are_not_the_reason_are_not_blamed() {
        let mut case = make_strict_case(gib(40));
        assert!(find_finding(&case).is_none(), "without pools the limit were 32 GiB");
        // vm.overcommit_kbytes sets the limit: the kernel then says that the ratio is 0.
        case = make_strict_case(gib(22));
        case.host.kernel_settings.overcommit_ratio = Known(0);
        assert!(find_finding(&case).is_none());
        case = make_strict_case(gib(22));
        case.host.kernel_settings.overcommit_memory = Known(0);
        assert!(find_finding(&case).is_none());
    }

    #[test]
    fn a_server_whose_pages_are_there_restarts_before_the_ratio_is_raised() {
        let mut case = make_strict_case(gib(22));
        let first = |case: &Case| find_finding(case).unwrap().remedies.remove(0);
        assert!(matches!(first(&case), Remedy::ByHand(_)));
        let instance = &mut case.instances[0];
        instance.huge_pages = hugewise_model::HugePageUse::None;
        instance.segments = vec![crate::testing::segment(1, gib(20), false)];
        case.pool(10_240, 10_240);
        assert!(matches!(first(&case), Remedy::Restart(_)));
        // The pages are idle until then, and not to be given back.
        let gives_back = |remedy: &Remedy| matches!(remedy, Remedy::GiveBack(_));
        assert!(!find_finding(&case).unwrap().remedies.iter().any(gives_back));
    }
}
