use hugewise_model::{Instance, Level, PageCount, PageSize, Remedy};

use crate::boot::BootPlace;
use crate::demand::is_with_spare;
use crate::prediction::{arriving_at_default, to_come};
use crate::rules::boot_starves_host;
use crate::target::is_kept_off;
use crate::wording::pool_fact;
use crate::{CaseRole, Docs, HostResult, Rule, RuleFacts, boot, demand};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW207"),
    name: "pool-short-of-request",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A pool with fewer pages than the files ask for. The rule compares nr_hugepages with \
               what the kernel command line, tuned, sysctl.d or tmpfiles.d set. Surplus pages \
               don't count. One page short is enough: a server may need just that page. A note \
               where the file asks for far more than all servers need, and these are there.",
        why: "The kernel gives what it can find and reports success. When a host has been up for \
              long, memory is fragmented and the pool comes out short. The next server to start \
              gets none.",
        cost: "the next server to start may find too few huge pages",
        fix: "Free memory and ask again (compaction helps for page sizes up to 4 MiB or so), or \
              reboot: at boot memory isn't fragmented. A plan fills the pool up if servers lack \
              pages, or if the file asks for at most a tenth more than they do. If somebody \
              lowered the pool on purpose, correct the file.",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst",
            "Measured on Linux 6.1: writing 999999 succeeds and gives 3322 pages",
        ],
    },
    check: |facts| RULE.of_host(facts, check_pool_request_shortfall),
};

fn check_pool_request_shortfall(facts: &RuleFacts<'_>) -> HostResult {
    let host = facts.host;
    let mut findings = Vec::new();
    let crowding = boot::predict_crowding(host).ok().flatten();
    for pool in crate::require_known(&host.pools, "/sys/kernel/mm/hugepages")? {
        let page = pool.page_size;
        let steps = boot::pool_of_files(host, page)?;
        let Some(step) = steps.last() else { continue };
        let file = pool_fact(host, page, "nr_hugepages");
        let total = *crate::require_known(&pool.total, &file)?;
        let has = total.saturating_sub(demand::surplus_pages(host, pool)?);
        let asked = PageCount(step.value);
        // Servers ask for the next boot's default then; no boot has carried that out yet.
        if has >= asked || arriving_at_default(host, facts.instances, page).0 > PageCount::ZERO {
            continue;
        }
        let summary = format!(
            "{} {} configured, and {has} {} there",
            asked.in_pages_of(page),
            asked.linking_verb(),
            has.linking_verb()
        );
        let short = summary.clone();
        let evidence = vec![format!("{}: {asked}", step.place), format!("{file}: {has}")];
        // What the host cannot carry is lowered, not given.
        let mut crowding_pools = crowding.iter().flat_map(|crowding| &crowding.parts);
        let too_many = crowding_pools.find(|part| part.page_size == page);
        let remedy = match too_many {
            Some(part) => boot_starves_host::remedy_lower_pool(facts, part),
            None => fill_up(facts, page, has, asked, &step.place),
        };
        // Nobody lacks what nobody asks for: the file is a word too large, and no more.
        let level = match remedy {
            Remedy::ByHand(_) | Remedy::Consider(_) if too_many.is_none() => Level::Info,
            _ => Level::Warn,
        };
        findings.push(RULE.new_finding(level, None, summary, short, evidence, vec![remedy]));
    }
    Ok(findings)
}

/// Pages of servers that do not ask for any yet, and are to be set to.
fn pages_to_be_asked(facts: &RuleFacts<'_>, page: PageSize) -> PageCount {
    let is_meant = |instance: &&Instance| {
        instance.is_trusted()
            && !demand::predict_next_start(facts.host, instance).asks_for_huge_pages()
            && is_kept_off(facts, instance)
    };
    let demands = facts.instances.iter().filter(is_meant);
    let demands = demands.filter_map(|instance| demand::find_missing_demand(facts.host, instance));
    demands.filter(|demand| demand.page_size == page).map(|demand| demand.pages).sum()
}

/// What is far more than servers ask for was perhaps given back on purpose: the file is wrong.
fn fill_up(
    facts: &RuleFacts<'_>,
    page: PageSize,
    has: PageCount,
    asked: PageCount,
    place: &BootPlace,
) -> Remedy {
    let Some(claim) = facts.situation.claim(page) else { return facts.set_pool(page, None) };
    // Those that a plan is about, whether they ask yet or not.
    let pages = claim.pages + pages_to_be_asked(facts, page);
    // A plan leaves those to whoever starts them, and HW210 speaks of each.
    let by_hand = facts.asleep.iter().filter(|instance| instance.waits_for_hands());
    let by_hand: PageCount = by_hand.map(|instance| to_come(facts.host, instance, page)).sum();
    if pages > has && pages.saturating_sub(by_hand) <= has {
        return Remedy::Consider(format!(
            "plan for the servers that are started by hand before the next boot, which brings {}",
            asked.in_pages()
        ));
    }
    if pages > has || is_with_spare(asked, pages) {
        return facts.set_pool(page, None);
    }
    if let Some(id) = claim.unknown.first() {
        return Remedy::Consider(format!(
            "find out what {id} will ask for: {} may be right for it",
            boot::place_to_edit(facts.host, place)
        ));
    }
    let servers = if pages == PageCount::ZERO { "none".to_owned() } else { pages.to_string() };
    let file = pool_fact(facts.host, page, "nr_hugepages");
    Remedy::by_hand(format!(
        "correct {}: servers ask for {servers} of its {}; or write {asked} to {file}",
        boot::place_to_edit(facts.host, place),
        asked.in_pages()
    ))
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || {
        let mut case = crate::testing::quiet();
        case.pool(4000, 0);
        case.host.configuration.sysctl =
            hugewise_model::Observed::Known(vec![crate::testing::sysctl(
                "vm.nr_hugepages",
                "4096",
            )]);
        case
    },
    silent: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 0);
        case
    },
    missing: || {
        let mut case = crate::testing::quiet();
        case.pool(4096, 0);
        case.host.configuration.sysctl = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
mod tests {
    use hugewise_model::{Observed, PageCount, Remedy};

    use super::{CASES, RULE};
    use crate::testing::{Case, all_huge, gib, quiet, sysctl};

    /// A server of 512 pages whose pool was set to `total` pages by hand, of which so many are
    /// surplus; the file asks for more.
    fn lowered(total: u64, surplus: u64, asked: u64) -> Case {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(1)));
        case.pool(total, total - 512);
        case.pools()[0].surplus = Observed::Known(PageCount(surplus));
        case.host.configuration.sysctl =
            Observed::Known(vec![sysctl("vm.nr_hugepages", &asked.to_string())]);
        case
    }

    fn goal(case: &Case) -> PageCount {
        case.assess().target.pools[0].goal
    }

    fn by_hand(case: &Case) -> bool {
        let findings = case.assess().findings;
        let finding =
            findings.iter().find(|other_finding| other_finding.code.as_str() == "HW207").unwrap();
        matches!(finding.remedies.as_slice(), [Remedy::ByHand(_)])
    }

    /// The file counts pages of 1 GiB from the boot on, where PostgreSQL asks for 9 of its 10: to
    /// correct it would take them away.
    #[test]
    fn what_a_file_asks_for_of_the_next_boots_default_is_not_missing_now() {
        let mut case = quiet();
        case.postgresql("15/main", hugewise_model::Bytes::from_mib(8399));
        let mut large = case.pools()[0].clone();
        large.page_size = hugewise_model::PageSize::GIB_1;
        case.pools().push(large);
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "10")]);
        let entry = hugewise_model::configuration::BootEntry {
            loader: hugewise_model::configuration::BootLoader::Grub,
            command_line: vec!["default_hugepagesz=1G".into()],
            place: crate::testing::place("/boot/grub/grub.cfg"),
        };
        case.host.configuration.boot = Observed::Known(entry);
        let codes: Vec<String> =
            case.assess().findings.iter().map(|finding| finding.code.to_string()).collect();
        assert!(!codes.iter().any(|code| code == "HW207"), "{codes:?}");
        // Of pages that nobody asks for then it does speak.
        case.instances.clear();
        assert!(case.assess().findings.iter().any(|finding| finding.code.as_str() == "HW207"));
    }

    #[test]
    fn a_pool_is_filled_up_to_its_file_where_that_asks_for_what_servers_have_and_a_few_to_spare() {
        // Set to nothing under a server that runs: filled up to what the file says, or HW207 would
        // stay.
        let case = lowered(512, 512, 520);
        assert_eq!((goal(&case), by_hand(&case)), (PageCount(520), false));
        let case = lowered(512, 0, 520);
        assert_eq!((goal(&case), by_hand(&case)), (PageCount(520), false));
        // Far more than anybody asks for was perhaps given back on purpose.
        let case = lowered(512, 0, 1024);
        assert_eq!((goal(&case), by_hand(&case)), (PageCount(512), true));
        // There is no memory for the spare ones.
        let mut case = lowered(512, 0, 520);
        case.host.memory.available = Observed::Known(hugewise_model::Bytes::from_mib(15));
        assert_eq!(goal(&case), PageCount(512));
    }

    #[test]
    fn surplus_pages_that_were_denied_are_missing() {
        let mut case = (CASES.speaks)();
        case.pools()[0].surplus = Observed::Denied;
        let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages";
        assert_eq!(case.missing_facts(&RULE), [format!("{file}: denied")]);
        case.pools()[0].surplus = Observed::Absent;
        assert!(case.missing_facts(&RULE).is_empty());
    }
}
