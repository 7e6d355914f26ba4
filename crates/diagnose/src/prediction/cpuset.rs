//! Nodes that a server's cpuset keeps it to: the kernel grants a reservation only as far as free
//! pages lie on those (mm/hugetlb.c, `allowed_mems_nr`), whatever the other nodes have.

use hugewise_model::configuration::FileLocation;
use hugewise_model::{Host, Instance, PageCount, PageSize};

use super::supply::{FoundPages, PerhapsTaken};
use crate::{boot, demand, ipc_privileges};

/// The nodes of a pool that a server may use; none where these are all.
pub(crate) fn allowed_nodes(host: &Host, instance: &Instance, page: PageSize) -> Option<Vec<u32>> {
    restricted_nodes(host, instance, page, of_unit(host, instance))
}

fn of_unit<'a>(host: &'a Host, instance: &'a Instance) -> Option<&'a (Vec<u32>, FileLocation)> {
    let own = instance.bound_nodes.as_ref();
    own.or_else(|| ipc_privileges::unit_of(host, instance)?.nodes.as_ref())
}

/// [`of_unit`] at a restart before systemd has loaded what the unit's files say.
fn of_unit_as_loaded<'a>(
    host: &'a Host,
    instance: &'a Instance,
) -> Option<&'a (Vec<u32>, FileLocation)> {
    if let Some(own) = &instance.bound_nodes {
        return Some(own);
    }
    let unit = ipc_privileges::unit_of(host, instance)?;
    let waits = unit.loaded.as_known().is_some_and(|loaded| loaded.pending_file().is_some());
    unit.nodes.as_ref().filter(|_| !waits)
}

fn restricted_nodes(
    host: &Host,
    instance: &Instance,
    page: PageSize,
    bound: Option<&(Vec<u32>, FileLocation)>,
) -> Option<Vec<u32>> {
    let ranges =
        host.find_process(instance.pid).and_then(|process| process.nodes_allowed.as_known());
    let pool = host.find_pool(page)?;
    let in_cpuset = |node: u32| {
        ranges.is_none_or(|ranges| {
            ranges.iter().any(|(first, last)| (*first..=*last).contains(&node))
        })
    };
    let may = |node: u32| in_cpuset(node) && bound.is_none_or(|(nodes, _)| nodes.contains(&node));
    let nodes: Vec<u32> =
        pool.nodes.iter().map(|part| part.node).filter(|node| may(*node)).collect();
    (nodes.len() < pool.nodes.len()).then_some(nodes)
}

pub(crate) fn is_kept_to_some(host: &Host, instance: &Instance, page: PageSize) -> bool {
    allowed_nodes(host, instance, page).is_some()
}

pub(super) fn narrow_after_stop(
    host: &Host,
    instance: &Instance,
    page: PageSize,
    found: FoundPages,
) -> FoundPages {
    let bound = of_unit_as_loaded(host, instance);
    let on_nodes = || {
        let nodes = restricted_nodes(host, instance, page, bound)?;
        let parts = host.find_pool(page)?.nodes.iter().filter(|part| nodes.contains(&part.node));
        let (mut free, mut taken) = (PageCount::ZERO, PageCount::ZERO);
        for part in parts {
            let left = part.free.get()?;
            free = free + left;
            taken = taken + part.total.get()?.saturating_sub(left);
        }
        // What it holds itself comes back with its stop, at most what is taken there.
        Some((nodes, free + demand::pages_mapped(instance, page).min(taken)))
    };
    narrow_to_nodes(found, on_nodes(), bound)
}

/// The kernel spreads a pool evenly over the nodes, but for what files set of each.
pub(super) fn narrow_after_boot(
    host: &Host,
    instance: &Instance,
    page: PageSize,
    found: FoundPages,
) -> FoundPages {
    let on_nodes = || {
        let nodes = allowed_nodes(host, instance, page)?;
        let pool = boot::pool_at_boot(host, page).ok()?;
        if pool.nodes.is_empty() {
            let all = u64::try_from(host.find_pool(page)?.nodes.len()).ok()?;
            let each = pool.total.get().checked_div(all)?;
            let pages = each.saturating_mul(u64::try_from(nodes.len()).ok()?);
            return Some((nodes, PageCount(pages)));
        }
        let allowed = pool.nodes.iter().filter(|(node, _)| nodes.contains(node));
        let pages = allowed.map(|(_, pages)| *pages).sum();
        Some((nodes, pages))
    };
    narrow_to_nodes(found, on_nodes(), of_unit(host, instance))
}

fn narrow_to_nodes(
    found: FoundPages,
    on_nodes: Option<(Vec<u32>, PageCount)>,
    bound: Option<&(Vec<u32>, FileLocation)>,
) -> FoundPages {
    let Some((nodes, there)) = on_nodes.filter(|(_, there)| *there < found.up_to) else {
        return found;
    };
    let whose = bound.map_or_else(|| "its cpuset".to_owned(), |(_, place)| place.to_string());
    let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
    let note = match nodes.as_slice() {
        [] => format!(": {whose} allows it no node that has pages"),
        [one] => format!(" on node {one}, the only one that {whose} allows"),
        several => format!(" on nodes {}, which {whose} allows", several.join(", ")),
    };
    let pages = found.pages.min(there);
    FoundPages {
        pages,
        up_to: found.up_to.min(there),
        sure: found.sure.min(pages),
        note,
        perhaps: found
            .perhaps
            .into_iter()
            .map(|taken| PerhapsTaken { left: taken.left.min(there), ..taken })
            .collect(),
        limited_by_nodes: true,
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::configuration::{Loaded, ServiceUnit};
    use hugewise_model::{HugePageMode, Observed};

    use crate::prediction::{Obstacle, predict_host};
    use crate::testing::{Case, all_huge, node, part, quiet, sysctl};

    /// 160 pages on node 0, of which 48 are free, and 40 on node 1, none of them free: the server
    /// holds 152 of them.
    fn uneven(allowed: &[(u32, u32)]) -> Case {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", hugewise_model::Bytes::from_mib(304))).asked =
            HugePageMode::Must;
        case.pool(200, 48);
        case.pools()[0].nodes = vec![part(0, 160, 48), part(1, 40, 0)];
        for process in case.processes() {
            process.nodes_allowed = Observed::Known(allowed.to_vec());
        }
        case
    }

    /// A guest's strict nodeset is as much of a restriction as a cpuset.
    #[test]
    fn pages_of_other_nodes_are_no_use_to_a_server_that_binds_its_memory() {
        let bound = |node| {
            let mut case = uneven(&[(0, 1)]);
            let place = crate::testing::place("/etc/libvirt/qemu/vm20.xml");
            case.instances[0].bound_nodes = Some((vec![node], place));
            case.standings()
        };
        // Of 200 pages 160 are on node 0 now, and 100 after a boot that spreads them: it needs 152.
        assert_eq!(bound(0), ["all", "all", "does_not_start"]);
        assert_eq!(bound(1), ["all", "does_not_start", "does_not_start"]);
    }

    /// mm/hugetlb.c, hugetlb_acct_memory(): more than the free pages of the allowed nodes is
    /// refused (ENOMEM).
    #[test]
    fn pages_of_other_nodes_are_no_use_to_a_server_in_a_cpuset() {
        assert_eq!(uneven(&[(0, 1)]).standings(), ["all", "all", "all"]);
        let case = uneven(&[(1, 1)]);
        // 40 on node 1 now, 100 of 200 after a boot that spreads them.
        assert_eq!(case.standings(), ["all", "does_not_start", "does_not_start"]);
        let restart = predict_host(&case.host, &case.instances)
            .forecasts_for(&case.instances[0])
            .unwrap()
            .restart
            .clone();
        assert_eq!(restart.obstacle, Some(Obstacle::Nodes));
        assert!(restart.why.as_deref().unwrap().contains("finds 40 on node 1"), "{restart:?}");
        let findings = case.assess().findings;
        let found = findings.iter().find(|finding| finding.code.as_str() == "HW210").unwrap();
        assert!(
            found.fix.iter().any(|line| line.contains("AllowedMemoryNodes=")),
            "{:?}",
            found.fix
        );
        // One that was told to insist would be down.
        let mut tries = uneven(&[(1, 1)]);
        tries.instances[0].asked = HugePageMode::Try;
        let insists = "refuse to start without huge pages";
        let list_fixes = |case: &Case| {
            case.assess()
                .findings
                .iter()
                .flat_map(|finding| finding.fix.clone())
                .collect::<Vec<_>>()
        };
        assert!(
            !list_fixes(&tries).iter().any(|line| line.contains(insists)),
            "{:?}",
            list_fixes(&tries)
        );
        let mut larger = uneven(&[(1, 1)]);
        larger.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "304")]);
        assert_eq!(larger.standings(), ["all", "does_not_start", "all"]);
    }

    /// Its unit binds it to node 1, by `numactl --membind=1` or `NUMAPolicy=bind`: no cpuset shows
    /// that.
    #[test]
    fn a_unit_that_binds_memory_to_a_node_leaves_the_pages_of_that_node() {
        let mut case = uneven(&[(0, 1)]);
        case.instances[0].unit = Some("db.service".into());
        let place = crate::testing::place("/etc/systemd/system/db.service.d/numa.conf");
        let unit = |loaded: Observed<Loaded>| ServiceUnit {
            name: "db.service".into(),
            nodes: Some((vec![1], place.clone())),
            loaded,
            ..ServiceUnit::default()
        };
        case.host.configuration.units = vec![unit(Observed::Absent)];
        assert_eq!(case.standings(), ["all", "does_not_start", "does_not_start"]);
        let restart = predict_host(&case.host, &case.instances)
            .forecasts_for(&case.instances[0])
            .unwrap()
            .restart
            .clone();
        let why = format!("finds 40 on node 1, the only one that {place} allows");
        assert!(restart.why.as_deref().unwrap().contains(&why), "{restart:?}");
        // systemd has not read it yet, and will have at the boot.
        case.host.configuration.units =
            vec![unit(Observed::Known(Loaded::NotYet(place.file.clone())))];
        assert_eq!(case.standings(), ["all", "all", "does_not_start"]);
    }

    /// 537 pages, 268 of them on the only node that it may use: none of its next starts takes more.
    #[test]
    fn one_on_base_pages_is_not_sent_into_a_restart_for_pages_of_other_nodes() {
        for (asked, level, what) in [
            (HugePageMode::Must, hugewise_model::Level::Error, "would not start again"),
            (
                HugePageMode::Try,
                hugewise_model::Level::Warn,
                "would get no huge pages at a restart either",
            ),
        ] {
            let mut case = quiet();
            case.postgresql("15/main", hugewise_model::Bytes::from_mib(1074)).asked = asked;
            case.pool(537, 537);
            case.pools()[0].nodes = vec![part(0, 269, 269), part(1, 268, 268)];
            for process in case.processes() {
                process.nodes_allowed = Observed::Known(vec![(1, 1)]);
            }
            let findings = case.assess().findings;
            assert!(
                findings.iter().all(|finding| finding.code.as_str() != "HW209"),
                "{:?}",
                case.codes()
            );
            let found = findings.iter().find(|finding| finding.code.as_str() == "HW210").unwrap();
            assert!(found.level == level && found.summary.contains(what), "{found:?}");
            assert!(
                found.fix.iter().any(|line| line.contains("AllowedMemoryNodes=")),
                "{:?}",
                found.fix
            );
        }
    }

    /// 10 pages on node 0 and 190 on node 1, 152 of which the server holds that may use node 1
    /// alone: an even spread at the next boot would leave it 100.
    #[test]
    fn a_pool_that_is_kept_keeps_its_nodes() {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", hugewise_model::Bytes::from_mib(304))).asked =
            HugePageMode::Try;
        case.pool(200, 48);
        case.pools()[0].nodes = vec![part(0, 10, 10), part(1, 190, 38)];
        case.host.nodes = Observed::Known(vec![node(0), node(1)]);
        for process in case.processes() {
            process.nodes_allowed = Observed::Known(vec![(1, 1)]);
        }
        let assessment = case.assess();
        let goal = &assessment.target.pools[0];
        let nodes: Vec<(u32, u64)> =
            goal.nodes.iter().map(|(node, _, pages)| (*node, pages.get())).collect();
        assert_eq!((goal.goal.get(), nodes), (200, vec![(0, 10), (1, 190)]));
        // Where all may use both, the kernel's own spread will do.
        for process in case.processes() {
            process.nodes_allowed = Observed::Known(vec![(0, 1)]);
        }
        assert!(case.assess().target.pools[0].nodes.is_empty());
    }
}
