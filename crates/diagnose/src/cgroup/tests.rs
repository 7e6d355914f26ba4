//! Servers in limited cgroups, reckoned by hand.

use hugewise_model::instance::ServerSetting;
use hugewise_model::process::CgroupMembership;
use hugewise_model::{HugePageMode, Remedy, RuleId};

use super::*;
use crate::prediction::{Obstacle, PredictionStage};
use crate::testing::{Case, all_huge, cgroup, gib, quiet};

/// Puts the servers in these cgroups, in their order.
fn within(case: &mut Case, paths: &[&str]) {
    let pids: Vec<u32> = case.instances.iter().map(|instance| instance.pid).collect();
    for process in case.processes() {
        let at = pids.iter().rposition(|pid| *pid <= process.pid).unwrap();
        let path = paths[at].to_owned();
        process.cgroups = Observed::Known(
            [CgroupMembership { hierarchy: 0, controllers: Vec::new(), path }].into(),
        );
    }
}

fn words(case: &Case, name: &str) -> [&'static str; 3] {
    let assessment = case.assess();
    let instance =
        case.instances.iter().find(|other_instance| other_instance.name == name).unwrap();
    let moments = assessment.situation.forecasts_for(instance).unwrap();
    PredictionStage::ALL.map(|moment| moments.at_stage(moment).coverage.as_str())
}

/// What HW702's remedies say, over all servers.
fn raises(case: &Case) -> Vec<String> {
    let findings =
        case.assess().findings.into_iter().filter(|finding| finding.code == RuleId::new("HW702"));
    let by_hand = findings.flat_map(|finding| finding.remedies).filter_map(|remedy| match remedy {
        Remedy::ByHand(by_hand) => Some(by_hand.what),
        _ => None,
    });
    by_hand.collect::<BTreeSet<_>>().into_iter().collect()
}

/// So many of its bytes are blocks of its buffers, which a start leaves untouched.
fn set_buffers(case: &mut Case, at: usize, value: &str) {
    let (name, value) = ("shared_buffers".to_owned(), value.to_owned());
    let setting = ServerSetting { name: name.clone(), value, place: None };
    case.instances[at].settings.insert(name, setting);
}

/// Two servers of 2 GiB each that insist, one of them running, below one limit.
fn pair(limit: Bytes) -> Case {
    let mut case = quiet();
    all_huge(case.postgresql("15/a", gib(2)));
    case.postgresql("15/b", gib(2));
    case.instances.iter_mut().for_each(|instance| instance.asked = HugePageMode::Must);
    set_buffers(&mut case, 0, "1900MB");
    set_buffers(&mut case, 1, "1900MB");
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
    assert_eq!(words(&case, "15/a"), ["all", "all", "all"]);
    assert_eq!(words(&case, "15/b"), ["none", "all", "all"]);
    assert_eq!(raises(&case), ["raise the hugetlb limit of /db to 4.0 GiB"]);
    let case = pair(gib(4));
    assert_eq!(words(&case, "15/a"), ["all", "all", "all"]);
    assert_eq!(words(&case, "15/b"), ["none", "all", "all"]);
    assert_eq!(raises(&case), [] as [&str; 0]);
}

/// One PostgreSQL of 640 MiB, 600 of them buffers, as 15 was seen below each of these limits
/// (Linux 6.18): its start touches 40 MiB.
fn alone(fault: Limit, reservation: Limit, asked: HugePageMode) -> Case {
    let mut case = quiet();
    case.postgresql("15/main", Bytes::from_mib(640)).asked = asked;
    set_buffers(&mut case, 0, "600MB");
    case.pool(400, 400);
    within(&mut case, &["/db"]);
    let mut own = cgroup("/db", fault);
    own.reservation_max = Observed::Known(reservation);
    case.host.hugetlb_cgroups = vec![own];
    case
}

#[test]
fn a_mapping_is_reserved_first_and_touched_later() {
    use hugewise_model::HugePageMode::{Must, Try};
    let at = |mib| Limit::At(Bytes::from_mib(mib));
    for (fault, reservation, asked, restart) in [
        (Limit::Unlimited, Limit::Unlimited, Try, "all"),
        (at(300), Limit::Unlimited, Try, "all"),
        (at(300), Limit::Unlimited, Must, "all"),
        (at(0), Limit::Unlimited, Try, "does_not_start"),
        (at(0), at(0), Try, "none"),
        (at(0), at(0), Must, "does_not_start"),
        (at(300), at(300), Try, "none"),
        // 20 MiB killed it; what less than its most it needs, nobody has measured.
        (at(20), Limit::Unlimited, Try, "unknown"),
    ] {
        let case = alone(fault, reservation, asked);
        assert_eq!(words(&case, "15/main")[1], restart, "{fault:?} {reservation:?} {asked:?}");
    }
}

#[test]
fn what_a_fault_limit_threatens_is_an_error_and_what_is_refused_first_is_none() {
    let told = |case: &Case| {
        let findings = case.assess().findings.into_iter();
        let mut found = findings.filter(|finding| finding.code == RuleId::new("HW702"));
        found.next().map(|finding| (finding.level, finding.summary))
    };
    let (half, none) = (Limit::At(Bytes::from_mib(300)), Limit::Unlimited);
    let (level, summary) = told(&alone(half, none, HugePageMode::Try)).unwrap();
    assert_eq!(level, hugewise_model::Level::Error);
    assert!(summary.contains("fault limit") && summary.contains("SIGBUS"), "{summary}");
    let (level, summary) = told(&alone(half, half, HugePageMode::Try)).unwrap();
    assert_eq!(level, hugewise_model::Level::Warn);
    assert!(summary.contains("falls back") && !summary.contains("SIGBUS"), "{summary}");
}

/// How much a start touches is not known without its settings; that it runs below this very limit
/// shows it.
#[test]
fn whoever_runs_below_a_fault_limit_has_started_below_it() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(2)));
    case.pool(1024, 0);
    within(&mut case, &["/db"]);
    let mut own = cgroup("/db", Limit::At(gib(1)));
    own.fault_current = Observed::Known(Bytes::from_mib(512));
    own.reservation_current = Observed::Known(gib(2));
    case.host.hugetlb_cgroups = vec![own];
    let restart = |case: &Case| {
        let situation = crate::prediction::predict_host(&case.host, &case.instances);
        situation.forecasts_for(&case.instances[0]).unwrap().restart.clone()
    };
    let found = restart(&case);
    assert_eq!((found.coverage.as_str(), found.obstacle), ("all", Some(Obstacle::Cgroup)));
    case.host.hugetlb_cgroups[0].fault_current = Observed::Known(Bytes::ZERO);
    assert_eq!(restart(&case).coverage.as_str(), "unknown");
}

#[test]
fn what_is_reserved_is_held_against_its_own_limit() {
    let mut case = pair(gib(4));
    case.instances[1].asked = HugePageMode::Try;
    case.host.hugetlb_cgroups[0].reservation_max = Observed::Known(Limit::At(gib(3)));
    // The one that runs holds 2 GiB; the other one may fall back, and does. After a boot either may
    // be the first.
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
        [
            "raise the hugetlb limit of /db to 4.0 GiB",
            "raise the hugetlb limit of /db/b to 2.0 GiB"
        ]
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
    case.host.configuration.sysctl =
        Observed::Known(vec![crate::testing::sysctl("vm.nr_hugepages", "1024")]);
    let assessment = case.assess();
    let boot = &assessment.situation.forecasts_for(&case.instances[0]).unwrap().boot;
    assert_eq!(boot.obstacle, Some(crate::prediction::Obstacle::Pages), "{boot:?}");
}

#[test]
fn pages_are_planned_for_nobody_whom_the_sum_would_kill() {
    let mut case = quiet();
    case.postgresql("15/a", gib(2));
    case.postgresql("15/b", gib(2));
    case.instances.iter_mut().for_each(|instance| instance.asked = HugePageMode::No);
    within(&mut case, &["/db", "/db"]);
    case.host.hugetlb_cgroups = vec![cgroup("/db", Limit::At(gib(3)))];
    let sized = crate::sizing::size_servers(
        &case.host,
        &case.instances,
        &crate::sizing::Request::default(),
    );
    assert!(sized.is_err(), "{sized:?}");
    case.host.hugetlb_cgroups = vec![cgroup("/db", Limit::At(gib(4)))];
    let sized = crate::sizing::size_servers(
        &case.host,
        &case.instances,
        &crate::sizing::Request::default(),
    )
    .unwrap();
    assert_eq!(sized.instances.len(), 2);
}

#[test]
fn a_membership_that_was_not_kept_is_no_freedom_from_limits() {
    let mut case = quiet();
    case.postgresql("15/main", gib(6));
    case.processes().iter_mut().for_each(|process| process.cgroups = Observed::Absent);
    let shortage_where = |live: bool, case: &mut Case| {
        case.host.live = live;
        HugetlbLimits::new(&case.host, &case.instances)
            .worst_shortage(&case.host, &case.instances[0])
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
        let limits = HugetlbLimits::new(&case.host, &case.instances);
        limits.worst_shortage(&case.host, &case.instances[0]).unwrap().is_some()
    };
    assert!(is_held("/", "/system.slice/db.service"));
    assert!(is_held("/system.slice", "/system.slice/db.service"));
    assert!(is_held("/a", "/a"));
    assert!(is_held("/", "/"));
    assert!(!is_held("/system.slice/d", "/system.slice/db.service"));
}
