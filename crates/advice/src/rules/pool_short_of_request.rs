use hugewise_model::{Finding, Level, PageCount, PageSize, Remedy};

use crate::demand::is_with_spare;
use crate::rules::boot_starves_host;
use crate::situation::arriving;
use crate::words::pool_fact;
use crate::{Docs, Facts, Missing, Rule, boot};

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW207"),
    name: "pool-short-of-request",
    level: Level::Warn,
    docs: Docs {
        what: "A pool with fewer pages than the files ask for. The rule compares nr_hugepages with what the kernel \
               command line, tuned, sysctl.d or tmpfiles.d set. Surplus pages don't count. One page short is enough: \
               a server may need just that page.",
        why: "The kernel gives what it can find and reports success. When a host has been up for long, memory is \
              fragmented and the pool comes out short. The next server to start gets none.",
        cost: "the next server to start may find too few huge pages",
        fix: "Free memory and ask again (compaction helps for page sizes up to 4 MiB or so), or reboot: at boot \
              memory isn't fragmented. A plan fills the pool up if servers lack pages, or if the file asks for at \
              most a tenth more than they do. If somebody lowered the pool on purpose, correct the file.",
        sources: &[
            "Linux Documentation/admin-guide/mm/hugetlbpage.rst",
            "Measured on Linux 6.1: writing 999999 succeeds and gives 3322 pages",
        ],
    },
    check: |facts| RULE.of_host(facts, look),
};

fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let host = facts.host;
    let mut findings = Vec::new();
    let crowding = boot::crowding(host).ok().flatten();
    for pool in crate::known(&host.pools, "/sys/kernel/mm/hugepages")? {
        let page = pool.page_size;
        let steps = boot::pool_of_files(host, page)?;
        let Some(step) = steps.last() else { continue };
        let file = pool_fact(host, page, "nr_hugepages");
        let total = *crate::known(&pool.total, &file)?;
        let has = total.saturating_sub(pool.surplus.get().unwrap_or_default());
        let asked = PageCount(step.value);
        // The next boot's default counts pages of this size, and no boot has carried that out yet: servers ask for them then.
        if has >= asked || arriving(host, facts.instances, page).0 > PageCount::ZERO {
            continue;
        }
        let summary = format!("{} {} configured, and {has} {} there", asked.in_pages_of(page), asked.are(), has.are());
        let short = summary.clone();
        let evidence = vec![format!("{}: {asked}", step.place), format!("{file}: {has}")];
        // What the host cannot carry is lowered, not given.
        let too_many = crowding.iter().flat_map(|it| &it.parts).find(|part| part.page_size == page);
        let remedy = match too_many {
            Some(part) => boot_starves_host::lower(facts, part),
            None => fill_up(facts, page, has, asked, &step.place),
        };
        findings.push(Finding { short, evidence, remedies: vec![remedy], ..RULE.finding(Level::Warn, None, summary) });
    }
    Ok(findings)
}

/// Servers that lack pages get them, and spare ones are taken as far as they are what careful people set aside. What is far
/// more than anybody asks for was perhaps given back on purpose: the file is wrong then.
fn fill_up(facts: &Facts<'_>, page: PageSize, has: PageCount, asked: PageCount, place: &str) -> Remedy {
    let Some(claim) = facts.situation.claim(page) else { return Remedy::SetPool(page) };
    if claim.pages > has || is_with_spare(asked, claim.pages) || !claim.unknown.is_empty() {
        return Remedy::SetPool(page);
    }
    let servers = if claim.pages == PageCount::ZERO { "none".to_owned() } else { claim.pages.to_string() };
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
            hugewise_model::Observed::Known(vec![crate::testing::sysctl("vm.nr_hugepages", "4096")]);
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

    use crate::testing::{Case, all_huge, gib, quiet, sysctl};

    /// A server of 512 pages whose pool was set to `total` pages by hand, of which so many are surplus; the file asks for more.
    fn lowered(total: u64, surplus: u64, asked: u64) -> Case {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(1)));
        case.pool(total, total - 512);
        case.pools()[0].surplus = Observed::Known(PageCount(surplus));
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", &asked.to_string())]);
        case
    }

    fn goal(case: &Case) -> PageCount {
        case.assess().target.pools[0].goal
    }

    fn by_hand(case: &Case) -> bool {
        let findings = case.assess().findings;
        let finding = findings.iter().find(|it| it.code.as_str() == "HW207").unwrap();
        matches!(finding.remedies.as_slice(), [Remedy::ByHand(_)])
    }

    /// The file counts pages of 1 GiB from the boot on, where PostgreSQL asks for 9 of its 10: to correct it would take them away.
    #[test]
    fn what_a_file_asks_for_of_the_next_boots_default_is_not_missing_now() {
        let mut case = quiet();
        case.postgresql("15/main", hugewise_model::Bytes::from_mib(8399));
        let mut large = case.pools()[0].clone();
        large.page_size = hugewise_model::PageSize::GIB_1;
        case.pools().push(large);
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "10")]);
        let entry = hugewise_model::configuration::BootEntry {
            loader: hugewise_model::configuration::Loader::Grub,
            command_line: vec!["default_hugepagesz=1G".into()],
            place: crate::testing::place("/boot/grub/grub.cfg"),
        };
        case.host.configuration.boot = Observed::Known(entry);
        let codes: Vec<String> = case.assess().findings.iter().map(|it| it.code.to_string()).collect();
        assert!(!codes.iter().any(|code| code == "HW207"), "{codes:?}");
        // Of pages that nobody asks for then it does speak.
        case.instances.clear();
        assert!(case.assess().findings.iter().any(|it| it.code.as_str() == "HW207"));
    }

    #[test]
    fn a_pool_is_filled_up_to_its_file_where_that_asks_for_what_servers_have_and_a_few_to_spare() {
        // Set to nothing under a server that runs: filled up to what the file says, or HW207 would stay.
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
}
