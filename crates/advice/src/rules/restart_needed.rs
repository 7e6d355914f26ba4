use hugewise_model::{Asked, Finding, Instance, Level, LinkState, Remedy};

use crate::cause::{Cause, cause, pain};
use crate::situation::Obstacle;
use crate::{Docs, Facts, Missing, Rule, cause as causes, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW209"),
    name: "restart-needed",
    level: Level::Error,
    docs: Docs {
        what: "A server with 256 MiB or more on base pages that only needs a restart. It asks for huge pages, the \
               pool has room for all of it, and no limit that could be seen is in its way. Either the pool was too \
               small when it started, or its settings were changed to ask and it hasn't been restarted since.",
        why: "A server maps its memory once, when it starts. Pages reserved later help it only after a restart. \
              Until then they lie idle, and the server stays on base pages.",
        cost: "page tables in every process, next to huge pages that lie idle",
        fix: "Restart it. Set it to refuse to start without huge pages, so that you notice the next shortage at \
              once.",
        sources: &[
            "PostgreSQL 15 src/backend/port/sysv_shmem.c",
            "Oracle Database Reference 19c: USE_LARGE_PAGES is static",
        ],
    },
    check: |facts| RULE.of_each(facts, look),
};

fn look(facts: &Facts<'_>, instance: &Instance) -> Result<Option<Finding>, Missing> {
    let asks = matches!(instance.asked, Asked::Try | Asked::Must | Asked::Raises);
    if !asks || cause(facts, instance)? != Some(Cause::Restart) {
        return Ok(None);
    }
    // What keeps the pages from it keeps them from its next start too, or that does not come about at all: of that HW210 speaks.
    let kept =
        |obstacle| matches!(obstacle, Obstacle::Start | Obstacle::Nodes | Obstacle::Mount | Obstacle::MountOptions);
    if facts.situation.of(instance).is_some_and(|moments| moments.restart.obstacle.is_some_and(kept)) {
        return Ok(None);
    }
    let held = chain::on_base(facts.host, instance);
    // As many as its estimate says are there, and as many as it may be off by are not.
    let is_open = facts.situation.of(instance).is_some_and(crate::situation::Moments::may_lack_pages);
    let has = if is_open { "may have" } else { "has" };
    let summary = format!("{} holds {held} though the pool {has} enough for it now", instance.title());
    let short = format!("the pool {has} enough for it now: it needs a restart");
    let links = facts.chain(instance).map(|chain| chain.links.as_slice()).unwrap_or_default();
    let evidence =
        links.iter().map(|link| format!("{} {}: {}", link.name.as_str(), link.state.as_str(), link.evidence)).collect();
    let mut remedies = Vec::new();
    // Its room is unknown by nature; any other link that could not be seen may yet be the cause.
    for link in
        links.iter().filter(|link| link.state == LinkState::Unknown && link.name != hugewise_model::LinkName::Room)
    {
        remedies.push(Remedy::Consider(format!(
            "first check what hugewise could not see and may be the cause: {}",
            link.evidence
        )));
    }
    let page = demand::page_size(facts.host, instance);
    remedies.extend(page.filter(|_| is_open).map(Remedy::SetPool));
    remedies.push(Remedy::Restart(instance.id()));
    let cost = causes::cost(facts, instance);
    // One whose settings insist is told of in any case: it does not run as they say.
    let insists = instance.asked == Asked::Must;
    let level = if insists { pain(facts, instance).max(Level::Warn) } else { pain(facts, instance) };
    Ok(Some(Finding { short, evidence, cost, remedies, ..RULE.finding(level, Some(instance), summary) }))
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
            let said = |verdict: &hugewise_model::UnknownVerdict| verdict.missing.to_string().contains(file);
            assert!(assessment.unknown.iter().any(said), "{:?}", assessment.unknown);
        }
    }
}
