//! Nodes that a server's cpuset keeps it to: the kernel grants a reservation only as far as free pages lie on those
//! (mm/hugetlb.c, `allowed_mems_nr`), whatever the other nodes have.

use hugewise_model::configuration::Place;
use hugewise_model::{Host, Instance, PageCount, PageSize};

use super::supply::Supply;
use crate::{boot, demand, given};

/// The nodes of a pool that a server may use; none where these are all.
pub(crate) fn allowed(host: &Host, instance: &Instance, page: PageSize) -> Option<Vec<u32>> {
    nodes(host, instance, page, of_unit(host, instance))
}

/// The nodes that its service keeps a server to at its next start.
fn of_unit<'a>(host: &'a Host, instance: &'a Instance) -> Option<&'a (Vec<u32>, Place)> {
    given::unit_of(host, instance)?.nodes.as_ref()
}

/// The same at a restart before systemd has loaded what its files say.
fn of_unit_as_loaded<'a>(host: &'a Host, instance: &'a Instance) -> Option<&'a (Vec<u32>, Place)> {
    let unit = given::unit_of(host, instance)?;
    let waits = unit.loaded.known().is_some_and(|loaded| loaded.waiting().is_some());
    unit.nodes.as_ref().filter(|_| !waits)
}

fn nodes(host: &Host, instance: &Instance, page: PageSize, bound: Option<&(Vec<u32>, Place)>) -> Option<Vec<u32>> {
    let ranges = host.process(instance.pid).and_then(|process| process.nodes_allowed.known());
    let pool = host.pool(page)?;
    let in_cpuset =
        |node: u32| ranges.is_none_or(|ranges| ranges.iter().any(|(first, last)| (*first..=*last).contains(&node)));
    let may = |node: u32| in_cpuset(node) && bound.is_none_or(|(nodes, _)| nodes.contains(&node));
    let nodes: Vec<u32> = pool.nodes.iter().map(|part| part.node).filter(|node| may(*node)).collect();
    (nodes.len() < pool.nodes.len()).then_some(nodes)
}

/// Whether a server may use some of a pool's nodes alone.
pub(crate) fn is_kept_to_some(host: &Host, instance: &Instance, page: PageSize) -> bool {
    allowed(host, instance, page).is_some()
}

/// What a server finds at a restart, as far as its nodes have it; true where they have less than the pool.
pub(super) fn after_stop(host: &Host, instance: &Instance, page: PageSize, supply: Supply) -> (Supply, bool) {
    let bound = of_unit_as_loaded(host, instance);
    let on_nodes = || {
        let nodes = nodes(host, instance, page, bound)?;
        let parts = host.pool(page)?.nodes.iter().filter(|part| nodes.contains(&part.node));
        let (mut free, mut taken) = (PageCount::ZERO, PageCount::ZERO);
        for part in parts {
            let left = part.free.get()?;
            free = free + left;
            taken = taken + part.total.get()?.saturating_sub(left);
        }
        // What it holds itself comes back with its stop, at most what is taken there.
        Some((nodes, free + demand::held(instance, page).min(taken)))
    };
    narrow(supply, on_nodes(), bound)
}

/// The same after a boot: the kernel spreads a pool evenly over the nodes, but for what files set of each.
pub(super) fn after_boot(host: &Host, instance: &Instance, page: PageSize, supply: Supply) -> (Supply, bool) {
    let on_nodes = || {
        let nodes = allowed(host, instance, page)?;
        let pool = boot::pool_at_boot(host, page).ok()?;
        let all = u64::try_from(host.pool(page)?.nodes.len()).ok()?;
        let evenly = || Some(pool.total.get().checked_div(all)?.saturating_mul(u64::try_from(nodes.len()).ok()?));
        let pages = if pool.nodes.is_empty() {
            PageCount(evenly()?)
        } else {
            pool.nodes.iter().filter(|(node, _)| nodes.contains(node)).map(|(_, pages)| *pages).sum()
        };
        Some((nodes, pages))
    };
    narrow(supply, on_nodes(), of_unit(host, instance))
}

fn narrow(
    supply: Supply,
    on_nodes: Option<(Vec<u32>, PageCount)>,
    bound: Option<&(Vec<u32>, Place)>,
) -> (Supply, bool) {
    let whose = bound.map_or_else(|| "its cpuset".to_owned(), |(_, place)| place.to_string());
    match (supply, on_nodes) {
        (Supply::Pages { pages, up_to, sure, perhaps, .. }, Some((nodes, there))) if there < up_to => {
            let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
            let note = match nodes.as_slice() {
                [] => format!(": {whose} allows it no node that has pages"),
                [one] => format!(" on node {one}, the only one that {whose} allows"),
                several => format!(" on nodes {}, which {whose} allows", several.join(", ")),
            };
            let perhaps = perhaps.map(|(pages, who)| (pages.min(there), who));
            let (least, up_to) = (pages.min(there), up_to.min(there));
            (Supply::Pages { pages: least, up_to, sure: sure.min(least), note, perhaps }, true)
        }
        (supply, _) => (supply, false),
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::configuration::{Loaded, Unit};
    use hugewise_model::{Asked, Observed};

    use crate::situation::{Moment, Obstacle, situation};
    use crate::testing::{Case, all_huge, node, part, quiet, sysctl};

    /// 160 pages on node 0, of which 48 are free, and 40 on node 1, none of them free: the server holds 152 of them.
    fn uneven(allowed: &[(u32, u32)]) -> Case {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", hugewise_model::Bytes::from_mib(304))).asked = Asked::Must;
        case.pool(200, 48);
        case.pools()[0].nodes = vec![part(0, 160, 48), part(1, 40, 0)];
        for process in case.processes() {
            process.nodes_allowed = Observed::Known(allowed.to_vec());
        }
        case
    }

    fn words(case: &Case) -> [&'static str; 3] {
        let situation = situation(&case.host, &case.instances);
        let moments = situation.of(&case.instances[0]).unwrap();
        Moment::ALL.map(|moment| moments.at(moment).standing.as_str())
    }

    /// mm/hugetlb.c, hugetlb_acct_memory(): more than the free pages of the allowed nodes is refused (ENOMEM).
    #[test]
    fn pages_of_other_nodes_are_no_use_to_a_server_in_a_cpuset() {
        assert_eq!(words(&uneven(&[(0, 1)])), ["all", "all", "all"]);
        let case = uneven(&[(1, 1)]);
        // 40 on node 1 now, 100 of 200 after a boot that spreads them.
        assert_eq!(words(&case), ["all", "does_not_start", "does_not_start"]);
        let restart = situation(&case.host, &case.instances).of(&case.instances[0]).unwrap().restart.clone();
        assert_eq!(restart.obstacle, Some(Obstacle::Nodes));
        assert!(restart.why.as_deref().unwrap().contains("finds 40 on node 1"), "{restart:?}");
        let findings = case.assess().findings;
        let found = findings.iter().find(|it| it.code.as_str() == "HW210").unwrap();
        assert!(found.fix.iter().any(|line| line.contains("AllowedMemoryNodes=")), "{:?}", found.fix);
        // One that was told to insist would be down.
        let mut tries = uneven(&[(1, 1)]);
        tries.instances[0].asked = Asked::Try;
        let insists = "refuse to start without huge pages";
        let told = |case: &Case| case.assess().findings.iter().flat_map(|it| it.fix.clone()).collect::<Vec<_>>();
        assert!(!told(&tries).iter().any(|line| line.contains(insists)), "{:?}", told(&tries));
        let mut larger = uneven(&[(1, 1)]);
        larger.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "304")]);
        assert_eq!(words(&larger), ["all", "does_not_start", "all"]);
    }

    /// Its unit binds it to node 1, by `numactl --membind=1` or `NUMAPolicy=bind`: no cpuset shows that.
    #[test]
    fn a_unit_that_binds_memory_to_a_node_leaves_the_pages_of_that_node() {
        let mut case = uneven(&[(0, 1)]);
        case.instances[0].unit = Some("db.service".into());
        let place = crate::testing::place("/etc/systemd/system/db.service.d/numa.conf");
        let unit = |loaded: Observed<Loaded>| Unit {
            name: "db.service".into(),
            nodes: Some((vec![1], place.clone())),
            loaded,
            ..Unit::default()
        };
        case.host.configuration.units = vec![unit(Observed::Absent)];
        assert_eq!(words(&case), ["all", "does_not_start", "does_not_start"]);
        let restart = situation(&case.host, &case.instances).of(&case.instances[0]).unwrap().restart.clone();
        let why = format!("finds 40 on node 1, the only one that {place} allows");
        assert!(restart.why.as_deref().unwrap().contains(&why), "{restart:?}");
        // systemd has not read it yet, and will have at the boot.
        case.host.configuration.units = vec![unit(Observed::Known(Loaded::NotYet(place.file.clone())))];
        assert_eq!(words(&case), ["all", "all", "does_not_start"]);
    }

    /// 537 pages, 268 of them on the only node that it may use: none of its next starts takes more.
    #[test]
    fn one_on_base_pages_is_not_sent_into_a_restart_for_pages_of_other_nodes() {
        for (asked, level, what) in [
            (Asked::Must, hugewise_model::Level::Error, "would not start again"),
            (Asked::Try, hugewise_model::Level::Warn, "would get no huge pages at a restart either"),
        ] {
            let mut case = quiet();
            case.postgresql("15/main", hugewise_model::Bytes::from_mib(1074)).asked = asked;
            case.pool(537, 537);
            case.pools()[0].nodes = vec![part(0, 269, 269), part(1, 268, 268)];
            for process in case.processes() {
                process.nodes_allowed = Observed::Known(vec![(1, 1)]);
            }
            let findings = case.assess().findings;
            assert!(findings.iter().all(|it| it.code.as_str() != "HW209"), "{:?}", case.codes());
            let found = findings.iter().find(|it| it.code.as_str() == "HW210").unwrap();
            assert!(found.level == level && found.summary.contains(what), "{found:?}");
            assert!(found.fix.iter().any(|line| line.contains("AllowedMemoryNodes=")), "{:?}", found.fix);
        }
    }

    /// 10 pages on node 0 and 190 on node 1, 152 of which the server holds that may use node 1 alone: an even spread at the next boot
    /// would leave it 100.
    #[test]
    fn a_pool_that_is_kept_keeps_its_nodes() {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", hugewise_model::Bytes::from_mib(304))).asked = Asked::Try;
        case.pool(200, 48);
        case.pools()[0].nodes = vec![part(0, 10, 10), part(1, 190, 38)];
        case.host.nodes = Observed::Known(vec![node(0), node(1)]);
        for process in case.processes() {
            process.nodes_allowed = Observed::Known(vec![(1, 1)]);
        }
        let assessment = case.assess();
        let goal = &assessment.target.pools[0];
        let nodes: Vec<(u32, u64)> = goal.nodes.iter().map(|(node, _, pages)| (*node, pages.get())).collect();
        assert_eq!((goal.goal.get(), nodes), (200, vec![(0, 10), (1, 190)]));
        // Where all may use both, the kernel's own spread will do.
        for process in case.processes() {
            process.nodes_allowed = Observed::Known(vec![(0, 1)]);
        }
        assert!(case.assess().target.pools[0].nodes.is_empty());
    }
}
