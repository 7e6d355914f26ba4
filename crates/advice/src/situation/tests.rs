//! Forecasts of the next start and the next boot, reckoned by hand.

use hugewise_model::instance::NextStart;
use hugewise_model::{Asked, Demand, DemandSource, Observed, PageCount, PageSize};

use super::*;
use crate::testing::{Case, all_huge, gib, quiet, sysctl};

fn words(case: &Case, name: &str) -> [&'static str; 3] {
    let instance = case.instances.iter().find(|it| it.name == name).unwrap();
    let situation = situation(&case.host, &case.instances);
    let moments = situation.of(instance).unwrap();
    Moment::ALL.map(|moment| moments.at(moment).standing.as_str())
}

fn at_boot(case: &mut Case, pages: u64) {
    case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", &pages.to_string())]);
}

fn demand(pages: u64) -> Demand {
    Demand { page_size: PageSize::MIB_2, pages: PageCount(pages), source: DemandSource::Engine }
}

#[test]
fn a_pool_by_hand_lasts_until_the_boot() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    case.pool(512, 0);
    assert_eq!(words(&case, "15/main"), ["all", "all", "all"]);
    at_boot(&mut case, 0);
    assert_eq!(words(&case, "15/main"), ["all", "all", "none"]);
    case.instances[0].asked = Asked::Must;
    assert_eq!(words(&case, "15/main"), ["all", "all", "does_not_start"]);
}

#[test]
fn surplus_pages_go_with_the_server_that_holds_them() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    case.pool(512, 0);
    // 112 of its 512 pages are surplus: 400 are left once it has stopped.
    case.pools()[0].surplus = Observed::Known(PageCount(112));
    assert_eq!(words(&case, "15/main"), ["all", "none", "all"]);
    // On demand the kernel gives them again.
    case.pools()[0].overcommit = Observed::Known(PageCount(112));
    assert_eq!(words(&case, "15/main"), ["all", "all", "all"]);
}

#[test]
fn what_it_will_ask_for_is_in_its_files() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    case.pool(512, 0);
    let next = NextStart { asked: Asked::Must, setting: None, demands: vec![demand(513)] };
    case.instances[0].next = Observed::Known(next);
    assert_eq!(words(&case, "15/main"), ["all", "does_not_start", "does_not_start"]);
}

#[test]
fn two_servers_and_a_pool_for_one() {
    let mut case = quiet();
    case.postgresql("15/a", gib(1));
    case.postgresql("15/b", gib(1));
    case.pool(512, 512);
    for name in ["15/a", "15/b"] {
        assert_eq!(words(&case, name), ["none", "all", "none"], "{name}");
    }
    // Three of 400, 300 and 200 pages in 600: the first one fits where the last two have not started, and the last one
    // fits beside either.
    let mut case = quiet();
    for (name, pages) in [("15/a", 400), ("15/b", 300), ("15/c", 200)] {
        case.postgresql(name, PageSize::MIB_2.bytes().times(pages));
    }
    case.pool(600, 600);
    assert_eq!(words(&case, "15/a")[2], "none");
    assert_eq!(words(&case, "15/b")[2], "none");
    assert_eq!(words(&case, "15/c")[2], "all", "there is room for it beside either of the others; both do not fit");
}

#[test]
fn oracle_takes_what_there_is() {
    let mut case = quiet();
    case.oracle("PROD", gib(2), 10);
    case.user(54321, "oracle", 54321, "oinstall");
    case.host.kernel_settings.hugetlb_shm_group = Observed::Known(54321);
    case.pool(1000, 1000);
    // Its group was given the right by hand, and the boot takes it back.
    assert_eq!(words(&case, "PROD"), ["none", "partly", "none"]);
    let Observed::Known(files) = &mut case.host.configuration.sysctl else { panic!("no files") };
    files.push(sysctl("vm.hugetlb_shm_group", "54321"));
    assert_eq!(words(&case, "PROD"), ["none", "partly", "partly"]);
}

#[test]
fn a_heap_that_grows_is_left_its_pages() {
    let mut case = quiet();
    let heap = all_huge(case.postgresql("grows", gib(1)));
    heap.demand = Some(demand(900));
    case.postgresql("15/main", gib(1));
    // 512 are held, 512 free: 388 of those are for the heap that has yet to take them.
    case.pool(1024, 512);
    assert_eq!(words(&case, "15/main")[1], "none");
    case.pool(1412, 900);
    assert_eq!(words(&case, "15/main")[1], "all");
}

#[test]
fn a_change_within_the_error_of_the_reckoning_leaves_the_restart_open() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    case.pool(512, 0);
    case.instances[0].perhaps = vec![demand(514)];
    assert_eq!(words(&case, "15/main"), ["all", "unknown", "unknown"]);
    let situation = situation(&case.host, &case.instances);
    let why = situation.of(&case.instances[0]).unwrap().restart.why.clone().unwrap();
    assert!(why.contains("514 pages of 2 MiB") && why.contains("finds 512"), "{why}");
    assert!(why.contains("shared_memory_size_in_huge_pages"), "{why}");
    case.pool(514, 2);
    assert_eq!(words(&case, "15/main"), ["all", "all", "all"]);
}

#[test]
fn a_stop_gives_back_no_more_than_is_in_use() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    // 512 are mapped, and 100 of a pool of 300 are in use: what it maps elsewhere does not come back here.
    case.pool(300, 200);
    assert_eq!(words(&case, "15/main")[1], "none");
    // Promised and not touched yet is in use, too.
    case.pool(512, 500);
    case.pools()[0].reserved = Observed::Known(PageCount(500));
    assert_eq!(words(&case, "15/main")[1], "all");
}

#[test]
fn a_boot_that_takes_pages_is_told_where_the_restart_is_not_known() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    case.pool(512, 0);
    case.pools()[0].free = Observed::Denied;
    at_boot(&mut case, 0);
    assert_eq!(words(&case, "15/main"), ["all", "unknown", "none"]);
    assert!(case.codes().contains(&"HW603"), "{:?}", case.codes());
}

#[test]
fn a_neighbour_of_which_nothing_was_read_may_take_what_it_has_now() {
    let mut case = quiet();
    let unread = all_huge(case.oracle("FIN", PageSize::MIB_2.bytes().times(8190), 10));
    unread.mechanism = hugewise_model::instance::Mechanism::Mmap;
    unread.next = Observed::Known(NextStart { asked: Asked::Unknown, setting: None, demands: Vec::new() });
    case.postgresql("16/data", PageSize::MIB_2.bytes().times(4211));
    case.pool(8210, 20);
    assert_eq!(words(&case, "16/data"), ["none", "none", "unknown"]);
    // Both fit, whatever is not known of it.
    case.pool(12_401, 4211);
    assert_eq!(words(&case, "16/data")[2], "all");
    // Its own demand does not fit with or without it.
    case.pool(4210, 0);
    assert_eq!(words(&case, "16/data")[2], "none");
}
