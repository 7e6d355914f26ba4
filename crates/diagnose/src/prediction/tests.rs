//! Forecasts of the next start and the next boot, reckoned by hand.

use hugewise_model::instance::NextStart;
use hugewise_model::process::CgroupMembership;
use hugewise_model::{
    Bytes, Demand, DemandSource, Engine, HugePageMode, Limit, Observed, PageCount, PageSize,
};

use super::*;
use crate::coverage::Coverage;
use crate::testing::{Case, all_huge, gib, quiet, segment, sysctl};

mod asleep;
mod strangers;
mod zgc;

fn words(case: &Case, name: &str) -> [&'static str; 3] {
    let instance =
        case.instances.iter().find(|other_instance| other_instance.name == name).unwrap();
    let situation = predict_host(&case.host, &case.instances);
    let moments = situation.forecasts_for(instance).unwrap();
    PredictionStage::ALL.map(|moment| moments.at_stage(moment).coverage.as_str())
}

fn at_boot(case: &mut Case, pages: u64) {
    case.host.configuration.sysctl =
        Observed::Known(vec![sysctl("vm.nr_hugepages", &pages.to_string())]);
}

fn demand(pages: u64) -> Demand {
    Demand { page_size: PageSize::MIB_2, pages: PageCount(pages), source: DemandSource::Engine }
}

/// A Java machine of little memory runs without huge pages, and its unit says -XX:+UseLargePages
/// now. An ASM instance whose file has no MEMORY_TARGET any more asks as others do, and with ONLY
/// does not start without a pool (Oracle's reference of USE_LARGE_PAGES).
#[test]
fn one_that_does_not_count_as_it_runs_counts_where_its_files_have_it_ask() {
    let mut case = quiet();
    let small = case.postgresql("app", Bytes::from_mib(100));
    small.engine = hugewise_model::Engine::Jvm;
    (small.asked, small.huge_pages) = (HugePageMode::No, hugewise_model::HugePageUse::None);
    assert_eq!(words(&case, "app"), ["not_counted"; 3]);
    let demand =
        Demand { page_size: PageSize::MIB_2, pages: PageCount(50), source: DemandSource::Engine };
    let next =
        |asked| Observed::Known(NextStart { asked, setting: None, demands: vec![demand.clone()] });
    case.instances[0].next = next(HugePageMode::Try);
    assert_eq!(words(&case, "app"), ["not_counted", "none", "none"]);
    case.instances[0].next = next(HugePageMode::No);
    assert_eq!(words(&case, "app"), ["not_counted"; 3]);

    let asm = case.oracle("+ASM", gib(2), 4);
    asm.traits = vec![hugewise_model::Trait::Amm, hugewise_model::Trait::Asm];
    (asm.asked, asm.huge_pages) = (HugePageMode::Cannot, hugewise_model::HugePageUse::None);
    assert_eq!(words(&case, "+ASM"), ["not_counted"; 3]);
    case.instances[1].next = next(HugePageMode::Must);
    assert_eq!(words(&case, "+ASM"), ["not_counted", "does_not_start", "does_not_start"]);
    let findings = case.assess().findings;
    let told = |finding: &&hugewise_model::Finding| {
        finding.summary.starts_with("oracle +ASM would not start again: ")
    };
    assert_eq!(findings.iter().filter(told).count(), 1, "{findings:?}");
}

#[test]
fn a_pool_by_hand_lasts_until_the_boot() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    case.pool(512, 0);
    assert_eq!(words(&case, "15/main"), ["all", "all", "all"]);
    at_boot(&mut case, 0);
    assert_eq!(words(&case, "15/main"), ["all", "all", "none"]);
    case.instances[0].asked = HugePageMode::Must;
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
fn pages_on_demand_need_memory() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    case.pool(512, 0);
    // 513 pages from now on: one more than the pool has, by whose page it may grow.
    let next = NextStart { asked: HugePageMode::Try, setting: None, demands: vec![demand(513)] };
    case.instances[0].next = Observed::Known(next);
    case.pools()[0].overcommit = Observed::Known(PageCount(1));
    at_boot(&mut case, 0);
    case.host.memory.available = Observed::Known(Bytes::from_mib(2));
    assert_eq!(words(&case, "15/main"), ["all", "all", "none"]);
    case.host.memory.available = Observed::Known(Bytes::from_mib(1));
    assert_eq!(words(&case, "15/main"), ["all", "none", "none"]);
    // What it has on base pages itself comes back when it stops.
    case.instances.clear();
    case.postgresql("15/main", gib(1));
    case.pool(0, 0);
    case.pools()[0].overcommit = Observed::Known(PageCount(512));
    assert_eq!(words(&case, "15/main")[1], "all");
    // The boot gives as many on demand as there is memory for beside its pools.
    case.host.configuration.sysctl =
        Observed::Known(vec![sysctl("vm.nr_overcommit_hugepages", "1000000")]);
    case.host.memory.total = Observed::Known(Bytes::from_mib(1022));
    assert_eq!(words(&case, "15/main")[2], "none");
}

#[test]
fn what_it_will_ask_for_is_in_its_files() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    case.pool(512, 0);
    let next = NextStart { asked: HugePageMode::Must, setting: None, demands: vec![demand(513)] };
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
    // Three of 400, 300 and 200 pages in 600: the first one fits where the last two have not
    // started, and the last one fits beside either.
    let mut case = quiet();
    for (name, pages) in [("15/a", 400), ("15/b", 300), ("15/c", 200)] {
        case.postgresql(name, PageSize::MIB_2.bytes().saturating_mul(pages));
    }
    case.pool(600, 600);
    assert_eq!(words(&case, "15/a")[2], "none");
    assert_eq!(words(&case, "15/b")[2], "none");
    assert_eq!(
        words(&case, "15/c")[2],
        "all",
        "there is room for it beside either of the others; both do not fit"
    );
}

/// 276 pages and a fault limit of 192: the Java machine that comes last finds none and lives; the
/// one that comes first may find its heap of 256, and is killed when it touches the 193rd.
#[test]
fn a_limit_that_kills_the_first_is_not_overlooked_for_the_last() {
    let mut case = quiet();
    case.postgresql("15/a", PageSize::MIB_2.bytes().saturating_mul(276));
    let machine = case.postgresql("appd.jar", PageSize::MIB_2.bytes().saturating_mul(384));
    machine.engine = hugewise_model::Engine::Jvm;
    machine.segments =
        vec![segment(7, Bytes::from_mib(512), false), segment(8, Bytes::from_mib(256), false)];
    case.pool(276, 276);
    assert_eq!(words(&case, "appd.jar")[2], "none");
    case.host.hugetlb_cgroups =
        vec![crate::testing::cgroup("/system.slice", Limit::At(Bytes::from_mib(384)))];
    assert_eq!(words(&case, "appd.jar")[2], "unknown");
}

/// A Java machine on base pages, of whose 1706 pages its cgroup lets it have 853: not its heap of
/// 1536, but some of the 170 that it asks for beside it.
#[test]
fn what_is_asked_for_beside_a_heap_is_taken_of_a_pool_that_is_too_small_for_the_heap() {
    let mut case = quiet();
    case.postgresql("15/a", PageSize::MIB_2.bytes().saturating_mul(384));
    let machine = case.postgresql("appb.jar", gib(3));
    (machine.engine, machine.demand) = (hugewise_model::Engine::Jvm, Some(demand(1706)));
    case.pool(384, 384);
    let mut group = crate::testing::cgroup("/system.slice/db.service", Limit::Unlimited);
    group.reservation_max = Observed::Known(Limit::At(PageSize::MIB_2.bytes().saturating_mul(853)));
    case.host.hugetlb_cgroups = vec![group];
    elsewhere(&mut case, "15/a");
    assert_eq!(words(&case, "15/a")[2], "none");
    // Where its heap is all of it, it takes none of them.
    case.instances[1].demand = Some(demand(1536));
    assert_eq!(words(&case, "15/a")[2], "all");
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
    // 512 each are held, and 100 free: all that the heap can take before the other one's own come
    // back.
    all_huge(&mut case.instances[1]);
    case.pool(1124, 100);
    assert_eq!(words(&case, "15/main")[1], "all");
}

#[test]
fn a_change_within_the_error_of_the_reckoning_leaves_the_restart_open() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    case.pool(512, 0);
    case.instances[0].possible_demands = vec![demand(514)];
    assert_eq!(words(&case, "15/main"), ["all", "unknown", "unknown"]);
    let situation = predict_host(&case.host, &case.instances);
    let why = situation.forecasts_for(&case.instances[0]).unwrap().restart.why.clone().unwrap();
    assert!(why.contains("514 pages of 2 MiB") && why.contains("finds 512"), "{why}");
    assert!(why.contains("shared_memory_size_in_huge_pages"), "{why}");
    case.pool(514, 2);
    assert_eq!(words(&case, "15/main"), ["all", "all", "all"]);
}

#[test]
fn a_stop_gives_back_no_more_than_is_in_use() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    // 512 are mapped, and 100 of a pool of 300 are in use: what it maps elsewhere does not come
    // back here.
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
    let unread = all_huge(case.oracle("FIN", PageSize::MIB_2.bytes().saturating_mul(8190), 10));
    unread.mechanism = hugewise_model::instance::Mechanism::Mmap;
    unread.next = Observed::Known(NextStart {
        asked: HugePageMode::Unknown,
        setting: None,
        demands: Vec::new(),
    });
    case.postgresql("16/data", PageSize::MIB_2.bytes().saturating_mul(4211));
    case.pool(8210, 20);
    assert_eq!(words(&case, "16/data"), ["none", "none", "unknown"]);
    // Both fit, whatever is not known of it.
    case.pool(12_401, 4211);
    assert_eq!(words(&case, "16/data")[2], "all");
    // Its own demand does not fit with or without it.
    case.pool(4210, 0);
    assert_eq!(words(&case, "16/data")[2], "none");
}

/// An Oracle of two segments, 16 GiB, on a kernel before 3.16 that goes by memlock, with sysctl.d's
/// settings; the limits are what they are now.
fn with_segments(settings: &[(&str, &str)]) -> Case {
    use hugewise_model::KernelRelease;
    let mut case = quiet();
    case.host.kernel =
        Observed::Known(KernelRelease { text: "3.10.0".into(), major: 3, minor: 10 });
    let instance = case.oracle("ERP", gib(16), 10);
    instance.version = Observed::Known("12.1".into());
    let second = instance.segments[0].clone();
    instance.segments.push(second);
    instance.segments[0].size = gib(15);
    instance.segments[1].size = gib(1);
    case.pool(8300, 8300);
    let rule = hugewise_host::config::limits::parse("/f", b"oracle - memlock unlimited\n");
    case.host.configuration.limits = Observed::Known(rule);
    let mut files = vec![sysctl("vm.nr_hugepages", "8300")];
    files.extend(settings.iter().map(|(key, value)| sysctl(key, value)));
    case.host.configuration.sysctl = Observed::Known(files);
    case.host.kernel_settings.shmmax = Observed::Known(hugewise_model::Bytes(64 << 30));
    case.host.kernel_settings.shmall_pages = Observed::Known(16 << 20);
    case.host.kernel_settings.shmmni = Observed::Known(4096);
    case
}

fn boot_of(settings: &[(&str, &str)]) -> (Coverage, String) {
    let case = with_segments(settings);
    let situation = predict_host(&case.host, &case.instances);
    let boot = situation.forecasts_for(&case.instances[0]).unwrap().boot.clone();
    (boot.coverage, boot.why.unwrap_or_default())
}

/// Whatever the boot makes of shmmax: with its segments it finds no pages, and without them it has
/// ordinary memory. Oracle would not start.
#[test]
fn limits_that_are_not_known_make_no_difference_without_pages() {
    let boot = |engine, pages: &str| {
        let mut case = with_segments(&[]);
        case.instances[0].engine = engine;
        case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", pages)]);
        words(&case, "ERP")[2]
    };
    for (engine, pages, expected) in [
        (Engine::MySql, "8300", "unknown"),
        (Engine::MySql, "0", "none"),
        (Engine::Oracle, "0", "unknown"),
    ] {
        assert_eq!(boot(engine, pages), expected, "{engine:?} {pages}");
    }
}

/// ipc/shm.c, newseg: EINVAL for shmmax, ENOSPC for shmall; ipc/util.c, ipc_addid: ENOSPC for
/// shmmni. One is enough to refuse, whatever the others are.
#[test]
fn a_certain_refusal_is_said_whatever_else_is_not_known() {
    const MAX: (&str, &str) = ("kernel.shmmax", "68719476736");
    const ALL: (&str, &str) = ("kernel.shmall", "16777216");
    for (settings, standing, why) in [
        (&[MAX, ALL][..], Coverage::All, ""),
        (
            &[MAX, ("kernel.shmall", "2097152")],
            Coverage::DoesNotStart,
            "kernel.shmall allows 8.0 GiB",
        ),
        (&[("kernel.shmall", "2097152")], Coverage::DoesNotStart, "kernel.shmall allows 8.0 GiB"),
        (&[("kernel.shmmax", "1048576")], Coverage::DoesNotStart, "kernel.shmmax 1.0 MiB"),
        (
            &[MAX, ALL, ("kernel.shmmni", "1")],
            Coverage::DoesNotStart,
            "kernel.shmmni is 1, and it comes with 2 segments",
        ),
        (
            &[("kernel.shmmni", "1")],
            Coverage::DoesNotStart,
            "kernel.shmmni is 1, and it comes with 2 segments",
        ),
        (&[MAX, ALL, ("kernel.shmmni", "2")], Coverage::All, ""),
        (&[ALL], Coverage::Unknown, "kernel.shmmax: no file sets it for the next boot"),
        (&[MAX], Coverage::Unknown, "kernel.shmall: no file sets it for the next boot"),
    ] {
        let (found, said) = boot_of(settings);
        assert_eq!(found, standing, "{settings:?}: {said}");
        assert!(said.starts_with(why) && !said.contains("malformed"), "{settings:?}: {said}");
    }
}

/// Limits that stand in no file are kept before anybody insists.
#[test]
fn limits_that_were_set_by_hand_are_to_be_kept() {
    let by_hand = with_segments(&[("kernel.shmall", "16777216")]);
    let assessment = by_hand.assess();
    let found = assessment
        .findings
        .iter()
        .find(|finding| finding.code.as_str() == "HW304")
        .expect("HW304 speaks");
    assert!(
        found.summary.starts_with("kernel.shmmax is enough for oracle ERP now"),
        "{}",
        found.summary
    );
    assert_eq!(found.fix, ["keep kernel.shmmax at 68719476736 at each boot: no file sets it"]);
    assert!(assessment.target.insisting.is_empty());
    let kept = with_segments(&[("kernel.shmall", "16777216"), ("kernel.shmmax", "68719476736")]);
    assert!(!kept.codes().contains(&"HW304"), "{:?}", kept.codes());
    assert_eq!(kept.assess().target.insisting.len(), 1);
    // A boot that is sure to refuse is no boot to insist before.
    let lowered = with_segments(&[("kernel.shmall", "2097152"), ("kernel.shmmax", "68719476736")]);
    let assessment = lowered.assess();
    assert!(assessment.target.insisting.is_empty());
    let found = assessment
        .findings
        .iter()
        .find(|finding| finding.code.as_str() == "HW603")
        .expect("HW603 speaks");
    let line =
        "keep kernel.shmall at 16777216 at each boot: /etc/sysctl.d/50-db.conf:7 sets 2097152";
    assert_eq!(found.fix, [line]);
    // Since 3.16 a kernel begins without limits.
    let mut new = with_segments(&[]);
    new.host.kernel = Observed::Known(hugewise_model::KernelRelease {
        text: "4.18.0".into(),
        major: 4,
        minor: 18,
    });
    assert!(!new.codes().contains(&"HW304"), "{:?}", new.codes());
}

/// ipc/util.c: ENOSPC for one segment more than kernel.shmmni, now as after the boot.
#[test]
fn too_few_segments_now_are_told_and_raised() {
    let mut case =
        with_segments(&[("kernel.shmmax", "68719476736"), ("kernel.shmall", "16777216")]);
    case.host.kernel_settings.shmmni = Observed::Known(1);
    case.host.sysv_segments = Observed::Known(vec![
        crate::testing::sysv(1, gib(15), 11),
        crate::testing::sysv(2, gib(1), 11),
    ]);
    assert_eq!(words(&case, "ERP"), ["none", "does_not_start", "all"]);
    let assessment = case.assess();
    let found = assessment
        .findings
        .iter()
        .find(|finding| finding.code.as_str() == "HW304")
        .expect("HW304 speaks");
    assert_eq!(found.summary, "kernel.shmmni is 1, and there are 2 System V segments");
    assert_eq!(found.fix, ["raise kernel.shmmni from 1 to 4096 (2 are needed)"]);
}

/// One that runs on nothing, and whose files say so many pages, give or take two hundredths.
fn changed(case: &mut Case, name: &str, pages: u64) {
    let source = DemandSource::Estimated { error_percent: 2 };
    let demand = Demand { page_size: PageSize::MIB_2, pages: PageCount(pages), source };
    let instance = case.postgresql(name, gib(1));
    let next = NextStart { asked: HugePageMode::Try, setting: None, demands: vec![demand] };
    instance.next = Observed::Known(next);
}

#[test]
fn an_estimate_whose_error_straddles_what_is_there_is_not_told() {
    let restart = |pool: u64| {
        let mut case = quiet();
        changed(&mut case, "15/main", 1000);
        case.pool(pool, pool);
        let situation = predict_host(&case.host, &case.instances);
        situation.forecasts_for(&case.instances[0]).unwrap().restart.coverage.as_str()
    };
    // 1000 / 1.02 = 980.4, and 1000 * 1.02 = 1020.
    for (pool, told) in
        [(980, "none"), (981, "unknown"), (1000, "unknown"), (1019, "unknown"), (1020, "all")]
    {
        assert_eq!(restart(pool), told, "{pool}");
    }
}

#[test]
fn what_is_left_by_one_whose_demand_is_an_estimate_is_one_too() {
    let boot = |pool: u64| {
        let mut case = quiet();
        all_huge(case.postgresql("15/a", gib(1)));
        changed(&mut case, "15/b", 1000);
        case.pool(pool, pool - 512);
        let situation = predict_host(&case.host, &case.instances);
        let moments = situation.forecasts_for(&case.instances[0]).unwrap();
        (moments.restart.coverage.as_str(), moments.boot.coverage.as_str())
    };
    // It needs 512, and the other one takes 981 to 1020 before it, or none where there are fewer
    // than it needs.
    for (pool, told) in [(1492, "none"), (1493, "unknown"), (1531, "unknown"), (1532, "all")] {
        assert_eq!(boot(pool), ("all", told), "{pool}");
    }
}

#[test]
fn one_that_takes_what_is_left_may_find_some_where_the_other_is_an_estimate() {
    // Of 1,000 pages the other one takes 981 to 1,000 before it, or none where it needs more: one
    // that takes a part has some of the rest, or nothing.
    let mut case = quiet();
    let oracle = case.oracle("PROD", gib(4), 1);
    (oracle.asked, oracle.engine) = (HugePageMode::Try, hugewise_model::Engine::Oracle);
    oracle.mechanism = hugewise_model::instance::Mechanism::Mmap;
    changed(&mut case, "15/b", 1000);
    case.pool(1000, 1000);
    assert_eq!(words(&case, "PROD")[2], "unknown");
}

/// An Oracle of these pages that raises the pool itself, in a cgroup with these limits in pages.
fn raising(case: &mut Case, pages: u64, (touched, mapped): (Option<u64>, Option<u64>)) {
    let bytes = |pages: u64| PageSize::MIB_2.bytes().saturating_mul(pages);
    case.oracle("PROD", bytes(pages), 10).asked = HugePageMode::Raises;
    let limit =
        |pages: Option<u64>| pages.map_or(Limit::Unlimited, |pages| Limit::At(bytes(pages)));
    let mut group = crate::testing::cgroup("/system.slice/db.service", limit(touched));
    group.reservation_max = Observed::Known(limit(mapped));
    case.host.hugetlb_cgroups = vec![group];
    for process in case.processes() {
        process.ipc_lock = Observed::Known(true);
    }
}

/// 1,536 pages are 3 GiB. Beside a pool of 2,048 there are 2 GiB to be had now; the boot brings no
/// pool, and 6 GiB are.
#[test]
fn what_the_pools_of_now_take_is_there_to_raise_a_pool_with_at_a_boot_without_them() {
    let mut case = quiet();
    raising(&mut case, 1536, (None, None));
    all_huge(&mut case.instances[0]).asked = HugePageMode::Raises;
    let mut boot = |available, total, free| {
        case.pool(total, free);
        case.host.configuration.sysctl = Observed::Known(Vec::new());
        case.host.memory.available = Observed::Known(available);
        words(&case, "PROD")[2]
    };
    assert_eq!(boot(gib(2), 2048, 512), "all");
    // Another 2,000 that others hold are on base pages by then.
    assert_eq!(boot(gib(2), 4048, 512), "all");
    assert_eq!(boot(gib(1), 1024, 0), "all");
    // 1 GiB, and 1,023 pages: one too few.
    assert_eq!(boot(gib(1), 1023, 0), "none");
}

/// Puts a server in a cgroup of its own.
fn elsewhere(case: &mut Case, name: &str) {
    let path = "/system.slice/other.service";
    let pids = case.instances.iter().find(|instance| instance.name == name).unwrap().pids.clone();
    for process in case.processes() {
        if pids.contains(&process.pid) {
            let cgroup_membership =
                CgroupMembership { hierarchy: 0, controllers: Vec::new(), path: path.into() };
            process.cgroups = Observed::Known([cgroup_membership].into());
        }
    }
}

#[test]
fn one_that_raises_the_pool_and_may_not_have_all_of_it_leaves_the_rest_to_others() {
    // Oracle raises 1151 pages to its 1536, of which its cgroup lets it have 768: 768 are left,
    // whoever starts before it, and the others need 140 and 627.
    let mut case = quiet();
    raising(&mut case, 1536, (None, Some(768)));
    case.postgresql("15/b", PageSize::MIB_2.bytes().saturating_mul(140));
    case.postgresql("15/d", PageSize::MIB_2.bytes().saturating_mul(627));
    elsewhere(&mut case, "15/b");
    elsewhere(&mut case, "15/d");
    case.pool(1151, 1151);
    assert_eq!([words(&case, "15/b")[2], words(&case, "15/d")[2]], ["all", "all"]);
    // One page more is one too many.
    case.instances[2].demand = Some(demand(629));
    assert_eq!(words(&case, "15/d")[2], "none");
}

#[test]
fn one_that_raises_the_pool_and_is_killed_for_it_finds_the_memory_where_it_is_the_first() {
    // 3 GiB of 64: now there is 1 GiB to be had beside what runs, at the boot there are all.
    let mut case = quiet();
    raising(&mut case, 1536, (Some(0), None));
    case.pool(0, 0);
    case.host.memory.available = Observed::Known(gib(1));
    assert_eq!(words(&case, "PROD")[2], "does_not_start");
    // Of 2 GiB nobody makes 3.
    case.host.memory.total = Observed::Known(gib(2));
    assert_eq!(words(&case, "PROD")[2], "none");
}

#[test]
fn one_that_is_killed_where_it_starts_first_is_so_whatever_the_last_finds() {
    // 4241 pages; the other one's files come to 2120, two in a hundred more or less, and there may
    // be too few after it or not. Not one may be touched.
    let mut case = quiet();
    let limit = Limit::At(Bytes::ZERO);
    case.host.hugetlb_cgroups = vec![crate::testing::cgroup("/system.slice/db.service", limit)];
    case.postgresql("15/b", PageSize::MIB_2.bytes().saturating_mul(2107));
    case.postgresql("15/c", gib(1));
    let demand_of =
        |pages| Demand { source: DemandSource::Estimated { error_percent: 2 }, ..demand(pages) };
    let next =
        NextStart { asked: HugePageMode::Must, setting: None, demands: vec![demand_of(2120)] };
    case.instances[1].next = Observed::Known(next);
    elsewhere(&mut case, "15/c");
    case.pool(4241, 4241);
    assert_eq!(words(&case, "15/b")[2], "does_not_start");
}

#[test]
fn what_the_files_may_come_to_is_counted_in_pages_of_the_boots_size() {
    // 3151 pages of 2 MiB may be 3154: 6308 MiB are 7 pages of 1 GiB, which is the boot's default,
    // and it brings 8.
    let mut case = quiet();
    let instance = all_huge(case.postgresql("15/d", PageSize::MIB_2.bytes().saturating_mul(3151)));
    instance.possible_demands = vec![demand(3154)];
    case.pool(3151, 0);
    at_boot(&mut case, 0);
    let words_of = |text: &str| text.split(' ').map(str::to_owned).collect();
    if let Observed::Known(boot) = &mut case.host.configuration.boot {
        boot.command_line = words_of("default_hugepagesz=1G hugepages=8");
    }
    case.host.configuration.sysctl = Observed::Known(Vec::new());
    assert_eq!(words(&case, "15/d")[2], "all");
    if let Observed::Known(boot) = &mut case.host.configuration.boot {
        boot.command_line = words_of("default_hugepagesz=1G hugepages=6");
    }
    assert_eq!(words(&case, "15/d")[2], "none");
}
