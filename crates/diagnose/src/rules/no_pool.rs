use hugewise_model::{Bytes, HugePageMode, Instance, Level, PageCount};

use crate::cause::{Cause, find_cause, rate_base_pages};
use crate::wording::pool_fact;
use crate::{
    CaseRole, Docs, InstanceResult, Rule, RuleFacts, boot, cause as causes, chain, demand,
};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW201"),
    name: "no-pool",
    level: Level::Error,
    role: CaseRole::Cause(&[Cause::NoPool]),
    docs: Docs {
        what: "A server with {BIG_SEGMENT} or more on base pages that asks for huge pages, or doesn't \
               say whether it does, on a host whose pools are all empty. PostgreSQL and MariaDB as \
               installed stay below {BIG_SEGMENT}.\n\n- Error: its page tables take {PAGE_TABLES_WARN} of memory now, \
               or would at the largest number of sessions. Also if it refuses to start without \
               huge pages.\n- Warning: any other server that asks. One that doesn't say is a \
               warning from {LARGE_SEGMENT} on, if each of its sessions is a process.\n- Note: everything \
               else. Also an Oracle that was to raise the pool itself (AUTO) and couldn't: memory \
               may be fragmented.",
        why: "The server started without huge pages, and at most its log says so. Every process \
              needs its own page tables, every access costs more address translation, and the \
              memory can be swapped out.",
        cost: "page tables in every process, and memory that can be swapped out",
        fix: "Set up the pool and restart the server. The kernel takes the pool from free memory \
              at once. If it can't find enough, it gives fewer pages and reports no error, so read \
              the number back. Pages that the server doesn't use are lost to everything else.",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst",
            "PostgreSQL 15 manual, 19.4.5 Linux Huge Pages",
        ],
    },
    check: |facts| RULE.of_each(facts, check_no_pool),
};

fn check_no_pool(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    if find_cause(facts, instance)? != Some(Cause::NoPool) {
        return Ok(None);
    }
    let host = facts.host;
    let raises = instance.asked == HugePageMode::Raises;
    let level = if raises { Level::Info } else { rate_base_pages(facts, instance) };
    let held = chain::on_base(host, instance);
    let asked = demand::page_size(host, instance).and_then(|page| {
        let steps = boot::pool_of_files(host, page).ok()?;
        if steps.is_empty() {
            return boot::not_in_menu(host, page);
        }
        let pages = PageCount(steps.last().filter(|step| step.value > 0)?.value);
        Some(format!(
            "{} {} configured, and none are there",
            pages.in_pages_of(page),
            pages.linking_verb()
        ))
    });
    let why = match (instance.transparent.get(), &asked) {
        _ if raises => "it was supposed to raise the pool itself and could not",
        (_, Some(asked)) => asked,
        (Some(transparent), None) if transparent > Bytes::ZERO => {
            "no pool of huge pages is configured"
        }
        _ => "no huge pages are configured",
    };
    let (level, then) = causes::next_start(facts, instance, level);
    let summary = format!("{} holds {held}; {why}{then}", instance.title());
    let short = format!("it holds {held}; {why}");
    let page = demand::page_size(host, instance);
    let empty = page.map(|page| format!("{}: 0", pool_fact(host, page, "nr_hugepages")));
    let setting = instance.setting.as_ref().map(ToString::to_string);
    let evidence = empty.into_iter().chain(setting).collect();
    let remedies = causes::find_remedies(facts, instance);
    let mut finding = RULE.new_finding(level, Some(instance), summary, short, evidence, remedies);
    finding.cost = causes::describe_base_cost(facts, instance);
    Ok(Some(finding))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(34), 400);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", hugewise_model::Bytes::from_mib(143));
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.oracle("PROD", crate::testing::gib(34), 400);
        case.host.pools = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gib, quiet};

    #[test]
    fn the_pool_is_set_and_the_server_restarted() {
        let mut case = quiet();
        case.postgresql("15/main", gib(6));
        let assessment = case.assess();
        let finding =
            assessment.findings.iter().find(|finding| finding.code.as_str() == "HW201").unwrap();
        assert_eq!(
            finding.summary,
            "postgresql 15/main holds 6.0 GiB on 4 KiB pages; no huge pages are configured"
        );
        assert!(
            finding.fix.contains(
                &"set the pool of 2 MiB pages to 3,072 (6.0 GiB), now and at each boot".to_owned()
            ),
            "{:?}",
            finding.fix
        );
        // By then its settings insist, as a plan has it.
        let restart = "once its pages are there, restart postgresql 15/main".to_owned();
        assert!(finding.fix.contains(&restart), "{:?}", finding.fix);
    }

    #[test]
    fn a_server_that_insists_is_told_that_it_will_not_start_again() {
        let mut case = quiet();
        case.postgresql("15/main", gib(6)).asked = HugePageMode::Must;
        let assessment = case.assess();
        let finding =
            assessment.findings.iter().find(|finding| finding.code.as_str() == "HW201").unwrap();
        assert_eq!(finding.level, Level::Error);
        assert!(finding.summary.ends_with("; its next start fails"), "{}", finding.summary);
        // It runs on base pages, so what it was started with did not insist.
        let broken = assessment.chains[0].first_broken_link().unwrap();
        assert_eq!(broken.name, hugewise_model::LinkName::Asked);
        assert!(broken.evidence.contains("set since it started"), "{}", broken.evidence);
    }

    /// OpenJDK 25 with ZGC and an empty pool: it warns, and starts on base pages.
    #[test]
    fn a_jvm_that_starts_without_any_is_not_told_that_it_fails() {
        let mut case = quiet();
        let machine = case.postgresql("app.jar", gib(6));
        machine.engine = hugewise_model::Engine::Jvm;
        machine.asked = HugePageMode::Must;
        let assessment = case.assess();
        let finding =
            assessment.findings.iter().find(|finding| finding.code.as_str() == "HW201").unwrap();
        assert!(!finding.summary.contains("fails"), "{}", finding.summary);
        let broken = assessment.chains[0].first_broken_link().unwrap();
        assert_eq!(broken.name, hugewise_model::LinkName::Pool);
    }

    #[test]
    fn nothing_takes_nearly_all_memory() {
        let mut case = quiet();
        case.postgresql("15/main", gib(60));
        let assessment = case.assess();
        let refused = assessment.target.sizing.as_ref().and_then(|sizing| sizing.refusal.as_ref());
        assert!(refused.is_some(), "{:?}", assessment.target);
        let fix = &assessment
            .findings
            .iter()
            .find(|finding| finding.code.as_str() == "HW201")
            .unwrap()
            .fix;
        assert!(fix.iter().all(|line| !line.contains("to 30,720")), "{fix:?}");
        assert!(fix.iter().any(|line| line.contains("this host cannot give")), "{fix:?}");
    }

    #[test]
    fn a_server_that_raises_the_pool_gets_a_note() {
        let mut case = quiet();
        case.oracle("PROD", gib(34), 400).asked = HugePageMode::Raises;
        let level = case
            .assess()
            .findings
            .iter()
            .find(|finding| finding.code.as_str() == "HW201")
            .unwrap()
            .level;
        assert_eq!(level, Level::Info);
    }
}
