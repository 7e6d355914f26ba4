use hugewise_model::{
    Bytes, Host, HugePageUse, Instance, Lack, Level, PageCount, PageSize, Pool, Reason, Remedy,
};

use crate::prediction::cpuset;
use crate::wording::{join_names, node_pool_file, pool_fact};
use crate::{CaseRole, Docs, HostResult, InstanceResult, Missing, Rule, RuleFacts, chain, demand};

/// Nodes may differ by this part of an equal share.
pub(crate) const TOLERATED: f64 = 0.2;

pub(crate) static RULE: Rule = Rule {
    code: hugewise_model::RuleId::new("HW701"),
    name: "nodes-unequal",
    level: Level::Warn,
    role: CaseRole::Plain,
    docs: Docs {
        what: "A pool that a server uses or asks for and that is spread unevenly over the NUMA \
               nodes with memory. The fullest and the emptiest node differ by more than a page and \
               by more than {TOLERATED_DIFFERENCE} of an equal share. The kernel spreads a pool \
               evenly when it can, so a fifth is beyond chance. Kernels without NUMA are not \
               checked, nor are pools of a server that its cpuset keeps to some of the nodes.",
        why: "A write to nr_hugepages silently skips nodes that are short of memory. The server's \
              memory then lies on one node. Half of its processes reach all of it across the \
              interconnect, and that node runs out of memory first.",
        cost: "slow access across nodes, and one node that runs out of memory first",
        fix: "Set the number of pages on each node, after a boot or while memory is free. Pages in \
              use don't move, so stop the servers first.",
        sources: &["Linux Documentation/admin-guide/mm/hugetlbpage.rst: \
            /sys/devices/system/node/node*/hugepages"],
    },
    check: |facts| RULE.of_host(facts, check_nodes_unequal),
};

fn check_nodes_unequal(facts: &RuleFacts<'_>) -> HostResult {
    let host = facts.host;
    if host.nodes.is_absent() {
        return Ok(Vec::new());
    }
    let nodes = crate::require_known(&host.nodes, "/sys/devices/system/node")?;
    let with_memory = nodes.iter().filter(|node| node.total.get() != Some(Bytes::ZERO));
    let with_memory: Vec<u32> = with_memory.map(|node| node.id).collect();
    if with_memory.len() < 2 {
        return Ok(Vec::new());
    }
    let mut findings = Vec::new();
    for pool in host.pools.as_known().into_iter().flatten() {
        findings.extend(check_pool_spread(facts, pool, &with_memory)?);
    }
    Ok(findings)
}

fn check_pool_spread(facts: &RuleFacts<'_>, pool: &Pool, nodes: &[u32]) -> InstanceResult {
    let page = pool.page_size;
    let users = find_pool_users(facts, page);
    // Pages for one that may use some of the nodes alone belong there, and would be taken from it.
    let limited_by_cpuset =
        users.iter().any(|user| cpuset::is_kept_to_some(facts.host, user, page));
    if users.is_empty() || limited_by_cpuset || pool.total.get() == Some(PageCount::ZERO) {
        return Ok(None);
    }
    let mut pages = Vec::new();
    let mut evidence = Vec::new();
    for id in nodes {
        let file = node_pool_file(*id, page);
        let Some(node) = pool.nodes.iter().find(|node| node.node == *id) else {
            return Err(Missing::Host(Lack::new(file, Reason::Absent)));
        };
        let total = *crate::require_known(&node.total, &file)?;
        evidence.push(format!("{file}: {total}"));
        pages.push(total);
    }
    if is_spread_evenly(&pages) {
        return Ok(None);
    }
    let spread: Vec<String> =
        nodes.iter().zip(&pages).map(|(id, pages)| format!("{pages} on node {id}")).collect();
    let spread = join_names(&spread);
    let summary = format!(
        "the pool of {page} pages for {} is uneven: {spread}",
        chain::join_titles(users.iter().copied())
    );
    let short = format!("its pool of {page} is uneven: {spread}");
    let what = format!("stop the servers and spread the {page} pages evenly over the nodes");
    let remedies = vec![Remedy::by_commands(what, build_spread_commands(facts.host, page, nodes))];
    let instance = chain::single_instance(&users);
    Ok(Some(RULE.new_finding(Level::Warn, instance, summary, short, evidence, remedies)))
}

fn find_pool_users<'a>(facts: &RuleFacts<'a>, page: PageSize) -> Vec<&'a Instance> {
    let uses = |instance: &&Instance| {
        let holds = demand::pages_held(instance, page) > PageCount::ZERO;
        let wants = instance.huge_pages != HugePageUse::All
            && demand::page_size(facts.host, instance) == Some(page);
        holds || (wants && facts.chain(instance).is_some())
    };
    facts.instances.iter().filter(uses).collect()
}

fn is_spread_evenly(pages: &[PageCount]) -> bool {
    let all: PageCount = pages.iter().copied().sum();
    let most = pages.iter().max().copied().unwrap_or_default();
    let least = pages.iter().min().copied().unwrap_or_default();
    let count = Bytes(u64::try_from(pages.len()).unwrap_or(u64::MAX));
    let share = Bytes(all.get()).part_of(count).unwrap_or_default();
    let apart = Bytes(most.saturating_sub(least).get()).as_f64();
    // An odd number cannot be halved.
    share <= 0.0 || apart <= 1.0 || apart / share <= TOLERATED
}

fn build_spread_commands(host: &Host, page: PageSize, nodes: &[u32]) -> Vec<String> {
    // The pool as it is by then: a plan may have made it larger or smaller.
    let file = pool_fact(host, page, "nr_hugepages");
    let count = nodes.len();
    let mut commands = vec![
        "# stop its servers and give the pool its final size first:".to_owned(),
        format!("each=$(( ($(cat {file}) + {}) / {count} ))", count.saturating_sub(1)),
    ];
    commands.extend(nodes.iter().map(|id| format!("echo $each > {}", node_pool_file(*id, page))));
    commands
}

#[cfg(test)]
pub(super) static CASES: crate::testing::Cases = crate::testing::Cases {
    speaks: || make_two_node_case(3000, 1000),
    silent: || make_two_node_case(2000, 2000),
    missing: || {
        let mut case = make_two_node_case(3000, 1000);
        case.pools()[0].nodes[1].total = hugewise_model::Observed::Denied;
        case
    },
};

#[cfg(test)]
fn make_two_node_case(first: u64, second: u64) -> crate::testing::Case {
    let mut case = crate::testing::quiet();
    crate::testing::all_huge(case.postgresql("15/main", crate::testing::gib(6)));
    case.pool(first + second, 0);
    case.host.nodes =
        hugewise_model::Observed::Known(vec![crate::testing::node(0), crate::testing::node(1)]);
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
        let mut case = super::make_two_node_case(1000, 3000);
        case.processes()[0].nodes_allowed = hugewise_model::Observed::Known(vec![(1, 1)]);
        assert!(!case.codes().contains(&"HW701"), "{:?}", case.codes());
        case.processes()[0].nodes_allowed = hugewise_model::Observed::Known(vec![(0, 1)]);
        assert!(case.codes().contains(&"HW701"), "{:?}", case.codes());
    }

    /// What one plan gives back the commands of this remedy do not take again: they spread what is
    /// there by then.
    #[test]
    fn what_is_spread_is_what_the_pool_has_by_then() {
        let assessment = super::make_two_node_case(3000, 1000).assess();
        let finding =
            assessment.findings.iter().find(|finding| finding.code.as_str() == "HW701").unwrap();
        let Some(Remedy::ByHand(by_hand)) = finding.remedies.first() else { panic!("{finding:?}") };
        assert!(
            by_hand.how.iter().all(|line| !line.contains("2000") && !line.contains("2,000")),
            "{by_hand:?}"
        );
        assert!(!by_hand.what.contains("2,000"), "{by_hand:?}");
        let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
        assert_eq!(by_hand.how.get(1).unwrap(), &format!("each=$(( ($(cat {file}) + 1) / 2 ))"));
        assert!(
            by_hand.how.iter().skip(2).all(|line| line.starts_with("echo $each > ")),
            "{by_hand:?}"
        );
    }
}
