use hugewise_model::{Bytes, Finding, HugePageUse, Lack, Level, PageCount, Reason, Remedy};

use crate::situation::cpuset;
use crate::words::list;
use crate::{Docs, Facts, Missing, Rule, chain, demand};

/// Nodes may differ by this part of an equal share.
const TOLERATED: f64 = 0.2;

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW701"),
    name: "nodes-unequal",
    level: Level::Warn,
    docs: Docs {
        what: "A pool that a server uses or asks for and that is spread unevenly over the NUMA nodes with memory. \
               The fullest and the emptiest node differ by more than a page and by more than 20 % of an equal share. \
               The kernel spreads a pool evenly when it can, so a fifth is beyond chance. Kernels without NUMA are \
               not checked, nor are pools of a server that its cpuset keeps to some of the nodes.",
        why: "A write to nr_hugepages silently skips nodes that are short of memory. The server's memory then lies \
              on one node. Half of its processes reach all of it across the interconnect, and that node runs out of \
              memory first.",
        cost: "slow access across nodes, and one node that runs out of memory first",
        fix: "Set the number of pages on each node, after a boot or while memory is free. Pages in use don't move, \
              so stop the servers first.",
        sources: &["Linux Documentation/admin-guide/mm/hugetlbpage.rst: /sys/devices/system/node/node*/hugepages"],
    },
    check: |facts| RULE.of_host(facts, look),
};

fn look(facts: &Facts<'_>) -> Result<Vec<Finding>, Missing> {
    let host = facts.host;
    if host.nodes.is_absent() {
        return Ok(Vec::new());
    }
    let nodes = crate::known(&host.nodes, "/sys/devices/system/node")?;
    let with_memory: Vec<u32> =
        nodes.iter().filter(|node| node.total.get() != Some(Bytes::ZERO)).map(|node| node.id).collect();
    let Ok(count) = u64::try_from(with_memory.len()) else { return Ok(Vec::new()) };
    if count < 2 {
        return Ok(Vec::new());
    }
    let mut findings = Vec::new();
    for pool in host.pools.known().into_iter().flatten() {
        let page = pool.page_size;
        let users: Vec<_> = facts
            .instances
            .iter()
            .filter(|instance| {
                let holds = demand::held(instance, page) > PageCount::ZERO;
                let wants = instance.huge_pages != HugePageUse::All && demand::page_size(host, instance) == Some(page);
                holds || (wants && facts.chain(instance).is_some())
            })
            .collect();
        // Pages for one that may use some of the nodes alone belong there, and would be taken from it.
        let kept = users.iter().any(|user| cpuset::is_kept_to_some(host, user, page));
        if users.is_empty() || kept || pool.total.get() == Some(PageCount::ZERO) {
            continue;
        }
        let mut pages = Vec::new();
        let mut evidence = Vec::new();
        for id in &with_memory {
            let kib = page.bytes().get() / 1024;
            let file = format!("/sys/devices/system/node/node{id}/hugepages/hugepages-{kib}kB/nr_hugepages");
            let Some(node) = pool.nodes.iter().find(|node| node.node == *id) else {
                return Err(Missing::Host(Lack::new(file, Reason::Absent)));
            };
            let total = *crate::known(&node.total, &file)?;
            evidence.push(format!("{file}: {total}"));
            pages.push(total);
        }
        let all: PageCount = pages.iter().copied().sum();
        let most = pages.iter().max().copied().unwrap_or_default();
        let least = pages.iter().min().copied().unwrap_or_default();
        let share = Bytes(all.get()).part_of(Bytes(count)).unwrap_or_default();
        let apart = Bytes(most.saturating_sub(least).get()).as_f64();
        // An odd number cannot be halved.
        if share <= 0.0 || apart <= 1.0 || apart / share <= TOLERATED {
            continue;
        }
        let spread: Vec<String> =
            with_memory.iter().zip(&pages).map(|(id, pages)| format!("{pages} on node {id}")).collect();
        let summary = format!(
            "the pool of {page} pages for {} is uneven: {}",
            chain::titles(users.iter().copied()),
            list(&spread)
        );
        let short = format!("its pool of {page} is uneven: {}", list(&spread));
        // What there is to spread is what the pool has by then: a plan may have made it larger or smaller.
        let file = crate::words::pool_fact(facts.host, page, "nr_hugepages");
        let mut how = vec![
            "# stop its servers and give the pool its final size first:".to_owned(),
            format!("each=$(( ($(cat {file}) + {}) / {count} ))", count.saturating_sub(1)),
        ];
        for id in &with_memory {
            let kib = page.bytes().get() / 1024;
            how.push(format!(
                "echo $each > /sys/devices/system/node/node{id}/hugepages/hugepages-{kib}kB/nr_hugepages"
            ));
        }
        let what = format!("stop the servers and spread the {page} pages evenly over the nodes");
        let remedies = vec![Remedy::by_commands(what, how)];
        let one = if users.len() == 1 { users.first().copied() } else { None };
        findings.push(Finding { short, evidence, remedies, ..RULE.finding(Level::Warn, one, summary) });
    }
    Ok(findings)
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || case(3000, 1000),
    silent: || case(2000, 2000),
    missing: || {
        let mut case = case(3000, 1000);
        case.pools()[0].nodes[1].total = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
fn case(first: u64, second: u64) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(6)));
    case.pool(first + second, 0);
    case.host.nodes = hugewise_model::Observed::Known(vec![crate::testing::node(0), crate::testing::node(1)]);
    let pool = &mut case.pools()[0];
    pool.nodes[0].total = hugewise_model::Observed::Known(PageCount(first));
    let mut other = pool.nodes[0].clone();
    other.node = 1;
    other.total = hugewise_model::Observed::Known(PageCount(second));
    pool.nodes.push(other);
    case
}

#[cfg(test)]
mod tests {
    use hugewise_model::Remedy;

    /// Its cpuset has it on node 1: spread evenly, half of its pages would be of no use to it.
    #[test]
    fn pages_of_a_server_that_is_kept_to_a_node_stay_there() {
        let mut case = super::case(1000, 3000);
        case.processes()[0].nodes_allowed = hugewise_model::Observed::Known(vec![(1, 1)]);
        assert!(!case.codes().contains(&"HW701"), "{:?}", case.codes());
        case.processes()[0].nodes_allowed = hugewise_model::Observed::Known(vec![(0, 1)]);
        assert!(case.codes().contains(&"HW701"), "{:?}", case.codes());
    }

    /// What one plan gives back the commands of this remedy do not take again: they spread what is there by then.
    #[test]
    fn what_is_spread_is_what_the_pool_has_by_then() {
        let assessment = super::case(3000, 1000).assess();
        let finding = assessment.findings.iter().find(|finding| finding.code.as_str() == "HW701").unwrap();
        let Some(Remedy::ByHand(by_hand)) = finding.remedies.first() else { panic!("{finding:?}") };
        assert!(by_hand.how.iter().all(|line| !line.contains("2000") && !line.contains("2,000")), "{by_hand:?}");
        assert!(!by_hand.what.contains("2,000"), "{by_hand:?}");
        let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
        assert_eq!(by_hand.how.get(1).unwrap(), &format!("each=$(( ($(cat {file}) + 1) / 2 ))"));
        assert!(by_hand.how.iter().skip(2).all(|line| line.starts_with("echo $each > ")), "{by_hand:?}");
    }
}
