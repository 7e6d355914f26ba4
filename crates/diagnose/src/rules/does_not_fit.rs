use hugewise_model::{Host, HugePageMode, Instance, Level, Observed, PageCount, PageSize};

use crate::cause::{Cause, find_cause, rate_base_pages};
use crate::wording::{join_names, pool_fact};
use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts, cause as causes, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW204"),
    name: "does-not-fit",
    level: Level::Error,
    role: CaseRole::Cause(&[Cause::DoesNotFit]),
    docs: Docs {
        what: "A server with {BIG_SEGMENT} or more on base pages that asks for more pages than the \
               pool has left for it. What is left is free - reserved, plus the surplus pages that \
               the pool may grow by and that memory has room for. If several servers ask, they are \
               served in the order of their names; one that doesn't fit takes nothing. An Oracle \
               that raises the pool itself (AUTO) is a note.",
        why: "At its next start the server falls back to base pages or doesn't start at all, \
              depending on its setting. For a server that takes all or nothing, one page too few \
              is as bad as no pool.",
        cost: "next time it starts on base pages, or does not start at all",
        fix: "Make the pool large enough for all servers that ask, then restart this one.",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst",
            "PostgreSQL 15: with 3155 of 3156 pages the server does not start",
        ],
    },
    check: |facts| RULE.of_each(facts, check_does_not_fit),
};

fn check_does_not_fit(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    if find_cause(facts, instance)? != Some(Cause::DoesNotFit) {
        return Ok(None);
    }
    let host = facts.host;
    let Some(more) = demand::find_missing_demand(host, instance) else { return Ok(None) };
    let page = more.page_size;
    let title = instance.title();
    let share = facts.situation.share(instance);
    let left = share
        .map(|share| share.left)
        .or_else(|| demand::obtainable_for(host, instance, page))
        .unwrap_or_default();
    let after = share.map(describe_earlier_servers).unwrap_or_default();
    let (mut level, then) = causes::next_start(facts, instance, rate_base_pages(facts, instance));
    let needs = format!(
        "needs {}; {left} {} left for it",
        more.pages.in_pages_of(page),
        left.linking_verb()
    );
    let summary = format!("{title} {needs}{after}{then}");
    let short = format!("it {needs}{then}");
    let mut evidence = list_pool_counts(host, page);
    if instance.asked == HugePageMode::Raises {
        level = Level::Info;
        evidence.push(
            "it raises the pool itself at its start; that fails if memory is fragmented".into(),
        );
    }
    let remedies = causes::find_remedies(facts, instance);
    let mut finding = RULE.new_finding(level, Some(instance), summary, short, evidence, remedies);
    finding.cost = causes::describe_base_cost(facts, instance);
    Ok(Some(finding))
}

fn list_pool_counts(host: &Host, page: PageSize) -> Vec<String> {
    let Some(pool) = host.find_pool(page) else { return Vec::new() };
    let counts = [
        ("nr_hugepages", &pool.total),
        ("free_hugepages", &pool.free),
        ("resv_hugepages", &pool.reserved),
    ];
    let describe_count = |(file, count): (&str, &Observed<PageCount>)| {
        let count = count.get().map_or_else(|| "not known".to_owned(), |count| count.to_string());
        format!("{}: {count}", pool_fact(host, page, file))
    };
    counts.into_iter().map(describe_count).collect()
}

/// ` after oracle A and oracle B`
fn describe_earlier_servers(share: &demand::Share) -> String {
    let mut before: Vec<String> = share.before.iter().map(ToString::to_string).collect();
    if share.more_before > 0 {
        before.push(format!("{} more", share.more_before));
    }
    if before.is_empty() { String::new() } else { format!(" after {}", join_names(&before)) }
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.pool(3071, 3071);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.pool(3072, 3072);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.pool(3071, 3071);
        crate::testing::hidden(&mut case);
        case
    },
};

#[cfg(test)]
mod tests {
    use crate::testing::{all_huge, gib, quiet};

    #[test]
    fn a_second_server_too_big_for_what_is_left() {
        let mut case = quiet();
        all_huge(case.postgresql("15/a", gib(6)));
        case.postgresql("15/b", gib(8));
        case.pool(4096, 1024);
        let assessment = case.assess();
        let finding =
            assessment.findings.iter().find(|finding| finding.code.as_str() == "HW204").unwrap();
        assert_eq!(
            finding.summary,
            "postgresql 15/b needs 4,096 pages of 2 MiB; 1,024 are left for it"
        );
        assert!(
            finding.fix.contains(
                &"set the pool of 2 MiB pages to 7,168 (14.0 GiB), now and at each boot".to_owned()
            ),
            "{:?}",
            finding.fix
        );
    }

    #[test]
    fn two_servers_compete_in_the_order_of_their_names() {
        let mut case = quiet();
        case.postgresql("15/b", gib(4));
        case.postgresql("15/a", gib(4));
        case.pool(3000, 3000);
        let assessment = case.assess();
        let finding =
            assessment.findings.iter().find(|finding| finding.code.as_str() == "HW204").unwrap();
        assert_eq!(
            finding.summary,
            "postgresql 15/b needs 2,048 pages of 2 MiB; 952 are left for it after postgresql 15/a"
        );
        assert!(
            finding.fix.contains(
                &"set the pool of 2 MiB pages to 4,096 (8.0 GiB), now and at each boot".to_owned()
            ),
            "{:?}",
            finding.fix
        );
    }
}
