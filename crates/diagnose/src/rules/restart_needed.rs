use hugewise_model::{HugePageMode, Instance, Level, Link, LinkName, LinkState, Remedy};

use crate::cause::{Cause, find_cause, rate_base_pages};
use crate::prediction::StageForecasts;
use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts, cause as causes, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW209"),
    name: "restart-needed",
    level: Level::Error,
    role: CaseRole::Cause(&[Cause::Restart]),
    docs: Docs {
        what: "A server with {BIG_SEGMENT} or more on base pages that only needs a restart. It \
               asks for huge pages, the pool has room for all of it, and no limit that could be \
               seen is in its way. Either the pool was too small when it started, or its settings \
               were changed to ask and it hasn't been restarted since.",
        why: "A server maps its memory once, when it starts. Pages reserved later help it only \
              after a restart. Until then they lie idle, and the server stays on base pages.",
        cost: "page tables in every process, next to huge pages that lie idle",
        fix: "Restart it. Set it to refuse to start without huge pages, so that you notice the \
              next shortage at once.",
        sources: &[
            "PostgreSQL 15 src/backend/port/sysv_shmem.c",
            "Oracle Database Reference 19c: USE_LARGE_PAGES is static",
        ],
    },
    check: |facts| RULE.of_each(facts, check_restart_needed),
};

fn check_restart_needed(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    if !demand::asks_now(instance) || find_cause(facts, instance)? != Some(Cause::Restart) {
        return Ok(None);
    }
    let forecasts = facts.situation.forecasts_for(instance);
    if forecasts.is_some_and(|forecasts| forecasts.restart.outlasts_restart()) {
        return Ok(None);
    }
    let held = chain::on_base(facts.host, instance);
    // As many as its estimate says are there, and as many as it may be off by are not.
    let is_open = forecasts.is_some_and(StageForecasts::may_lack_pages);
    let has = if is_open { "may have" } else { "has" };
    let summary =
        format!("{} holds {held} though the pool {has} enough for it now", instance.title());
    let short = format!("the pool {has} enough for it now: it needs a restart");
    let links = facts.chain(instance).map(|chain| chain.links.as_slice()).unwrap_or_default();
    let evidence = links
        .iter()
        .map(|link| format!("{} {}: {}", link.name.as_str(), link.state.as_str(), link.evidence))
        .collect();
    let right = causes::right_to_pages(facts.host, facts.situation.locked(), instance);
    // What gives it the right on any kernel is better than to look which kernel this is.
    let is_given = |link: &&Link| link.name == LinkName::Permission && !right.is_empty();
    let unseen = links.iter().filter(|link| !is_given(link)).filter_map(remedy_unseen_link);
    let mut remedies: Vec<Remedy> = right.iter().cloned().chain(unseen).collect();
    let page = demand::page_size(facts.host, instance);
    remedies.extend(page.filter(|_| is_open).map(|page| facts.set_pool(page, Some(instance))));
    remedies.extend(facts.restart(instance));
    // One whose settings insist is told of in any case: it does not run as they say.
    let least = if instance.asked == HugePageMode::Must { Level::Warn } else { Level::Info };
    let level = rate_base_pages(facts, instance).max(least);
    let mut finding = RULE.new_finding(level, Some(instance), summary, short, evidence, remedies);
    finding.cost = causes::describe_base_cost(facts, instance);
    Ok(Some(finding))
}

/// Its room is unknown by nature; any other link that could not be seen may yet be the cause.
fn remedy_unseen_link(link: &Link) -> Option<Remedy> {
    (link.state == LinkState::Unknown && link.name != LinkName::Room).then(|| {
        Remedy::Consider(format!(
            "first check what hugewise could not see and may be the cause: {}",
            link.evidence
        ))
    })
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.pool(3072, 3072);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(6)));
        case.pool(3072, 0);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.pool(3072, 3072);
        crate::testing::hidden(&mut case);
        case
    },
};

#[cfg(test)]
mod tests {
    use hugewise_model::Observed;

    use crate::testing::{gib, quiet};

    /// That the pool has enough is said of a pool that was seen alone.
    #[test]
    fn what_the_pool_has_left_must_be_known() {
        for (hide_free, hide_reserved) in [(true, false), (false, true), (true, true)] {
            let mut case = quiet();
            case.postgresql("15/main", gib(6));
            case.pool(3072, 3072);
            let pool = &mut case.pools()[0];
            if hide_free {
                pool.free = Observed::Denied;
            }
            if hide_reserved {
                pool.reserved = Observed::Absent;
            }
            let assessment = case.assess();
            assert!(!case.codes().contains(&"HW209"), "{hide_free} {hide_reserved}");
            let file = if hide_free { "free_hugepages" } else { "resv_hugepages" };
            let said = |verdict: &hugewise_model::UnknownVerdict| {
                verdict.missing.to_string().contains(file)
            };
            assert!(assessment.unknown.iter().any(said), "{:?}", assessment.unknown);
        }
    }
}
