use hugewise_engines::EngineKind;
use hugewise_model::{Finding, Instance, Level, PageCount, PageSize, Pool, Remedy};

use crate::cause::{Cause, find_cause, rate_base_pages};
use crate::wording::pool_fact;
use crate::{CaseRole, Docs, InstanceResult, Rule, RuleFacts, cause as causes, chain, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW405"),
    name: "wrong-page-size",
    level: Level::Error,
    role: CaseRole::Cause(&[Cause::WrongSize, Cause::OtherDefault]),
    docs: Docs {
        what: "A server with {BIG_SEGMENT} or more on base pages that asks for a page size whose \
               pool is empty, while a pool of another size has pages. Also, as a warning: an \
               Oracle database on base pages on a host whose default page size is 1 GiB.",
        why: "Pools of different sizes are separate: pages of one can't serve a request for the \
              other. A server that names no size asks for the default one (default_hugepagesz). If \
              that is 1 GiB, an Oracle database asks for 1 GiB pages. No source says that its SGA \
              uses such pages, and Oracle recommends 2 MiB.",
        cost: "page tables in every process, next to a pool that cannot help",
        fix: "Set up a pool of the right size and give the other one back. Or have the server ask \
              for the size that is there (PostgreSQL 14 and later: huge_page_size).",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst: default_hugepagesz",
            "PostgreSQL 15 manual: huge_page_size",
        ],
    },
    check: |facts| RULE.of_each(facts, check_wrong_page_size),
};

fn check_wrong_page_size(facts: &RuleFacts<'_>, instance: &Instance) -> InstanceResult {
    let host = facts.host;
    match find_cause(facts, instance)? {
        Some(Cause::WrongSize) => {}
        Some(Cause::OtherDefault) => return Ok(Some(default_of_one_gib(facts, instance))),
        Some(
            Cause::DoesNotFit
            | Cause::Partly
            | Cause::Memlock
            | Cause::Group
            | Cause::Cgroup
            | Cause::NoPool,
        ) if demand::cannot_do_with_default(host, instance) => {
            return Ok(Some(default_of_one_gib(facts, instance)));
        }
        _ => return Ok(None),
    }
    let Some(page) = demand::page_size(host, instance) else { return Ok(None) };
    let others = chain::other_pools(host, page);
    let there =
        |pool: &&Pool| format!("{} of {}", pool.total.get().unwrap_or_default(), pool.page_size);
    let pools: Vec<String> = others.iter().map(there).collect();
    let held = chain::on_base(host, instance);
    let has = pools.join(", ");
    let (level, then) = causes::next_start(facts, instance, rate_base_pages(facts, instance));
    let summary = format!(
        "{} asks for {page} pages, but there are none ({has}); {held}{then}",
        instance.title()
    );
    let short = format!("it asks for {page} pages, but there are none");
    let mut evidence = vec![format!("{}: 0", pool_fact(facts.host, page, "nr_hugepages"))];
    for pool in &others {
        let total = pool.total.get().unwrap_or_default();
        let available = pool.available_pages();
        let available = available.map(|pages| format!(", {pages} available")).unwrap_or_default();
        let file = pool_fact(host, pool.page_size, "nr_hugepages");
        evidence.push(format!("{file}: {total}{available}"));
    }
    let setting = instance.settings.get("huge_page_size").or(instance.setting.as_ref());
    evidence.extend(setting.map(ToString::to_string));
    let remedies = causes::find_remedies(facts, instance);
    let mut finding = RULE.new_finding(level, Some(instance), summary, short, evidence, remedies);
    finding.cost = causes::describe_base_cost(facts, instance);
    Ok(Some(finding))
}

fn default_of_one_gib(facts: &RuleFacts<'_>, instance: &Instance) -> Finding {
    let kind = EngineKind::for_engine(instance.engine);
    let against = kind.page_size.against_gib_pages.unwrap_or("it needs 2 MiB pages");
    let summary = format!(
        "{} asks for pages of the default size, which is 1 GiB here; {against}",
        instance.title()
    );
    let evidence = vec!["/proc/meminfo Hugepagesize: 1 GiB".into()];
    // A number, or nobody knows how many: of each segment by itself, as a start asks for them.
    let page = PageSize::MIB_2;
    let own: PageCount = instance.segments.iter().map(|segment| page.pages_for(segment.size)).sum();
    let others = facts.host.find_pool(page).and_then(|pool| pool.total.get());
    let pages = own + kind.start.spare + others.unwrap_or_default();
    let what = format!(
        "boot with default_hugepagesz=2M hugepagesz=2M hugepages={} ({}) on the kernel command \
         line in place of the 1 GiB pages, with nothing in sysctl.d that counts 1 GiB pages \
         (vm.nr_hugepages)",
        pages.get(),
        pages.to_bytes(page)
    );
    let short = "it asks for pages of the default size, 1 GiB, and needs 2 MiB ones".to_owned();
    let remedies = vec![Remedy::by_hand(what)];
    RULE.new_finding(Level::Warn, Some(instance), summary, short, evidence, remedies)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.pools()[1] = crate::testing::pool(hugewise_model::PageSize::GIB_1, 8, 8);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.postgresql("15/main", crate::testing::gib(6));
        case.host.pools = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
mod tests {
    use hugewise_model::{HugePageUse, Observed, PageCount, PageSize, Remedy};

    use crate::testing::{gib, pool, quiet};

    /// 6 GiB beside 8 pages of 1 GiB that nobody else wants: PostgreSQL 14 and later has only to
    /// name them (`huge_page_size`), and they are not to be given back.
    #[test]
    fn a_server_that_can_name_the_pages_that_are_there_is_told_to() {
        let said = |version: &str, gib_pages: u64| {
            let mut case = quiet();
            case.postgresql("15/main", gib(6)).version = Observed::Known(version.into());
            case.pools()[1] = pool(PageSize::GIB_1, gib_pages, gib_pages);
            let findings = case.assess().findings;
            let wrong = findings.iter().find(|finding| finding.code.as_str() == "HW405").unwrap();
            let first = match wrong.remedies.first() {
                Some(Remedy::Consider(text)) => text.clone(),
                _ => String::new(),
            };
            let all = findings.iter().flat_map(|finding| &finding.remedies);
            let gives_back = all.into_iter().any(|remedy| matches!(remedy, Remedy::GiveBack(_)));
            (first.contains("huge_page_size = '1GB'; it needs 6 pages of 1 GiB"), gives_back)
        };
        assert_eq!(said("15.1", 8), (true, false));
        assert_eq!(said("15.1", 5), (false, true), "too few");
        assert_eq!(said("13.4", 8), (false, true), "it has no such setting");
    }

    /// 16 GiB of SGA are 8,192 pages of 2 MiB, and 2 stay to spare; nobody is sent to restart on
    /// pages that no source says an SGA uses, nor told to boot with a number that he has to guess.
    #[test]
    fn an_oracle_under_a_default_of_1_gib_is_told_how_many_pages_to_boot_with() {
        let mut case = quiet();
        let page = PageSize::GIB_1;
        let instance = case.oracle("PROD", gib(16), 10);
        instance.asked_page_size = Observed::Known(page);
        instance.huge_pages = HugePageUse::None;
        instance.demand = None;
        *case.pools() = vec![pool(page, 20, 20), pool(PageSize::MIB_2, 0, 0)];
        case.host.default_huge_page = Observed::Known(page);
        case.host.kernel_settings.hugetlb_shm_group = Observed::Known(54321);
        let assessment = case.assess();
        let finding = assessment
            .findings
            .iter()
            .find(|other_finding| other_finding.code.as_str() == "HW405")
            .unwrap();
        let [Remedy::ByHand(by_hand)] = finding.remedies.as_slice() else {
            panic!("{:?}", finding.remedies)
        };
        let words = format!(
            "default_hugepagesz=2M hugepagesz=2M hugepages=8194 ({})",
            PageCount(8194).to_bytes(PageSize::MIB_2)
        );
        assert!(by_hand.what.contains(&words), "{}", by_hand.what);
        assert!(
            assessment.findings.iter().all(|finding| finding.code.as_str() != "HW209"),
            "{:?}",
            assessment.findings
        );
    }
}
