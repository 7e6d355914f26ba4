use hugewise_model::{Instance, Level, LinkName};

use crate::cause::{Cause, find_cause, rate_base_pages};
use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts, cause as causes, chain};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW203"),
    name: "partly-used",
    level: Level::Error,
    role: CaseRole::Cause(&[Cause::Partly]),
    docs: Docs {
        what: "A server with part of its memory on huge pages and {SMALL_REST} or more of it on \
               base pages. Below {SMALL_REST}, servers keep small areas there on purpose.",
        why: "Oracle since 11.2.0.3 and the chunks of InnoDB take what the pool has and get the \
              rest from base pages, without an error. The part on base pages costs page tables in \
              every process, as if nothing had been set up.",
        cost: "page tables in every process for the part on base pages",
        fix: "Enlarge the pool by what is missing and restart the server. It gets back the pages \
              that it holds now.",
        sources: &[
            "Oracle Database Reference 12.1 and later: USE_LARGE_PAGES",
            "Alert logs of 12.1: ERROR(s)=NONE although 446 of 451 pages are missing",
        ],
    },
    check: |facts| RULE.of_each(facts, check_partly_used),
};

fn check_partly_used(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    if find_cause(facts, instance)? != Some(Cause::Partly) {
        return Ok(None);
    }
    let (huge, all) = (instance.huge_bytes(), instance.segment_bytes());
    let summary = format!(
        "{} has {huge} of {all} on huge pages, {}",
        instance.title(),
        chain::on_base(facts.host, instance)
    );
    let short = format!("it has {huge} of {all} on huge pages");
    let mut evidence =
        vec![format!("/proc/{}/maps and the page size of its mappings", instance.pid)];
    let room = facts
        .chain(instance)
        .and_then(|chain| chain.links.iter().find(|link| link.name == LinkName::Room));
    evidence.extend(room.map(|room| room.evidence.clone()));
    let remedies = causes::find_remedies(facts, instance);
    let level = rate_base_pages(facts, instance);
    let mut finding = RULE.new_finding(level, Some(instance), summary, short, evidence, remedies);
    finding.cost = causes::describe_base_cost(facts, instance);
    Ok(Some(finding))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        crate::testing::partly_huge(
            case.oracle("PROD", crate::testing::gib(8), 20),
            crate::testing::gib(1),
        );
        case.pool(512, 0);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        let most = hugewise_model::Bytes::from_mib(8100);
        crate::testing::partly_huge(case.oracle("PROD", crate::testing::gib(8), 20), most);
        case.pool(4050, 0);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(8), 20);
        case.pool(512, 0);
        crate::testing::hidden(&mut case);
        case
    },
};

#[cfg(test)]
mod tests {
    use crate::testing::{gib, partly_huge, quiet};

    #[test]
    fn the_pool_grows_by_what_is_missing() {
        let mut case = quiet();
        partly_huge(case.postgresql("15/main", gib(8)), gib(1));
        case.pool(512, 0);
        let assessment = case.assess();
        let finding =
            assessment.findings.iter().find(|finding| finding.code.as_str() == "HW203").unwrap();
        assert!(
            finding.fix.contains(
                &"set the pool of 2 MiB pages to 4,096 (8.0 GiB), now and at each boot".to_owned()
            ),
            "{:?}",
            finding.fix
        );
    }
}
