//! Servers in limited cgroups, reckoned by hand.

use hugewise_model::process::CgroupMembership;
use hugewise_model::{Remedy, RuleId};

use super::*;
use crate::situation::Moment;
use crate::testing::{Case, all_huge, cgroup, gib, quiet};

/// Puts the servers in these cgroups, in their order.
fn within(case: &mut Case, paths: &[&str]) {
    let pids: Vec<u32> = case.instances.iter().map(|instance| instance.pid).collect();
    for process in case.processes() {
        let at = pids.iter().rposition(|pid| *pid <= process.pid).unwrap();
        let path = paths[at].to_owned();
        process.cgroups = Observed::Known([CgroupMembership { hierarchy: 0, controllers: Vec::new(), path }].into());
    }
}

fn words(case: &Case, name: &str) -> [&'static str; 3] {
    let assessment = case.assess();
    let instance = case.instances.iter().find(|it| it.name == name).unwrap();
    let moments = assessment.situation.of(instance).unwrap();
    Moment::ALL.map(|moment| moments.at(moment).standing.as_str())
}

/// What HW702's remedies say, over all servers.
fn raises(case: &Case) -> Vec<String> {
    let findings = case.assess().findings.into_iter().filter(|it| it.code == RuleId::new("HW702"));
    let by_hand = findings.flat_map(|finding| finding.remedies).filter_map(|remedy| match remedy {
        Remedy::ByHand(by_hand) => Some(by_hand.what),
        _ => None,
    });
    by_hand.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Two servers of 2 GiB each that insist, one of them running, below one limit.
fn pair(limit: Bytes) -> Case {
    let mut case = quiet();
    all_huge(case.postgresql("15/a", gib(2)));
    case.postgresql("15/b", gib(2));
    case.instances.iter_mut().for_each(|instance| instance.asked = hugewise_model::Asked::Must);
    case.pool(2048, 1024);
    within(&mut case, &["/db/a", "/db/b"]);
    let mut above = cgroup("/db", Limit::At(limit));
    above.fault_current = Observed::Known(gib(2));
    above.reservation_current = Observed::Known(gib(2));
    case.host.hugetlb_cgroups = vec![above];
    case
}

#[test]
fn servers_below_one_limit_are_held_against_it_together() {
    // Each of them fits; both need 4 GiB.
    let case = pair(gib(3));
    assert_eq!(words(&case, "15/a"), ["all", "all", "does_not_start"]);
    assert_eq!(words(&case, "15/b"), ["none", "does_not_start", "does_not_start"]);
    assert_eq!(raises(&case), ["raise the hugetlb limit of /db to 4.0 GiB"]);
    let case = pair(gib(4));
    assert_eq!(words(&case, "15/a"), ["all", "all", "all"]);
    assert_eq!(words(&case, "15/b"), ["none", "all", "all"]);
    assert_eq!(raises(&case), [] as [&str; 0]);
}

#[test]
fn what_is_reserved_is_held_against_its_own_limit() {
    let mut case = pair(gib(4));
    case.instances[1].asked = hugewise_model::Asked::Try;
    case.host.hugetlb_cgroups[0].reservation_max = Observed::Known(Limit::At(gib(3)));
    // The one that runs holds 2 GiB; the other one may fall back, and does. After a boot either may be the first.
    assert_eq!(words(&case, "15/a"), ["all", "all", "does_not_start"]);
    assert_eq!(words(&case, "15/b"), ["none", "none", "none"]);
    assert_eq!(raises(&case), ["raise the hugetlb limit of /db to 4.0 GiB"]);
}

#[test]
fn each_limit_on_the_way_is_raised_to_what_is_needed_below_it() {
    let mut case = pair(gib(3));
    let mut own = cgroup("/db/b", Limit::At(gib(1)));
    own.reservation_max = Observed::Known(Limit::At(gib(1)));
    case.host.hugetlb_cgroups.push(own);
    assert_eq!(
        raises(&case),
        ["raise the hugetlb limit of /db to 4.0 GiB", "raise the hugetlb limit of /db/b to 2.0 GiB"]
    );
}

#[test]
fn a_charge_is_counted_once() {
    let mut case = pair(gib(5));
    // 2 GiB of the first server, and 1 GiB of somebody who is not known: 5 GiB in all.
    let limits = &mut case.host.hugetlb_cgroups[0];
    limits.fault_current = Observed::Known(gib(3));
    limits.reservation_current = Observed::Known(gib(3));
    assert_eq!(raises(&case), [] as [&str; 0]);
    case.host.hugetlb_cgroups[0].fault_max = Observed::Known(Limit::At(gib(4)));
    assert_eq!(raises(&case), ["raise the hugetlb limit of /db to 5.0 GiB"]);
    // Of what the first server has mapped, 1 GiB is not touched yet; the other one's 1 GiB is.
    case.host.hugetlb_cgroups[0].fault_current = Observed::Known(gib(2));
    assert_eq!(raises(&case), ["raise the hugetlb limit of /db to 5.0 GiB"]);
}

#[test]
fn neighbours_and_pages_of_other_sizes_are_not_counted() {
    let mut case = pair(gib(3));
    within(&mut case, &["/db", "/db2"]);
    assert_eq!(raises(&case), [] as [&str; 0]);
    let mut case = pair(gib(3));
    case.host.hugetlb_cgroups[0].page_size = PageSize::GIB_1;
    assert_eq!(raises(&case), [] as [&str; 0]);
}

#[test]
fn the_pool_bounds_what_can_be_charged_at_boot() {
    // Pages for one of two after the boot: whoever starts second finds none, and nobody is killed.
    let mut case = pair(gib(3));
    case.host.configuration.sysctl = Observed::Known(vec![crate::testing::sysctl("vm.nr_hugepages", "1024")]);
    let assessment = case.assess();
    let boot = &assessment.situation.of(&case.instances[0]).unwrap().boot;
    assert_eq!(boot.obstacle, Some(crate::situation::Obstacle::Pages), "{boot:?}");
}

#[test]
fn pages_are_planned_for_nobody_whom_the_sum_would_kill() {
    let mut case = quiet();
    case.postgresql("15/a", gib(2));
    case.postgresql("15/b", gib(2));
    case.instances.iter_mut().for_each(|instance| instance.asked = hugewise_model::Asked::No);
    within(&mut case, &["/db", "/db"]);
    case.host.hugetlb_cgroups = vec![cgroup("/db", Limit::At(gib(3)))];
    let sized = crate::sizing::size(&case.host, &case.instances, &crate::sizing::Request::default());
    assert!(sized.is_err(), "{sized:?}");
    case.host.hugetlb_cgroups = vec![cgroup("/db", Limit::At(gib(4)))];
    let sized = crate::sizing::size(&case.host, &case.instances, &crate::sizing::Request::default()).unwrap();
    assert_eq!(sized.instances.len(), 2);
}

#[test]
fn a_membership_that_was_not_kept_is_no_freedom_from_limits() {
    let mut case = quiet();
    case.postgresql("15/main", gib(6));
    case.processes().iter_mut().for_each(|process| process.cgroups = Observed::Absent);
    let shortage_where = |live: bool, case: &mut Case| {
        case.host.live = live;
        Limits::of(&case.host, &case.instances).shortage(&case.host, &case.instances[0])
    };
    assert_eq!(shortage_where(true, &mut case), Ok(None));
    assert!(shortage_where(false, &mut case).is_err());
}

#[test]
fn a_cgroup_is_above_its_children_and_not_above_its_neighbours() {
    let mut case = quiet();
    case.postgresql("15/main", gib(6));
    let mut is_held = |limited: &str, path: &str| {
        within(&mut case, &[path]);
        case.host.hugetlb_cgroups = vec![cgroup(limited, Limit::At(gib(1)))];
        let limits = Limits::of(&case.host, &case.instances);
        limits.shortage(&case.host, &case.instances[0]).unwrap().is_some()
    };
    assert!(is_held("/", "/system.slice/db.service"));
    assert!(is_held("/system.slice", "/system.slice/db.service"));
    assert!(is_held("/a", "/a"));
    assert!(is_held("/", "/"));
    assert!(!is_held("/system.slice/d", "/system.slice/db.service"));
}
