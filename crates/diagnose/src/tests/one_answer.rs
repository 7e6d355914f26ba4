//! What `check` tells to do is what a plan does, and what ends what was found: each test is a host
//! on which it was not.

use hugewise_model::configuration::BootEntry;
use hugewise_model::{
    Bytes, Demand, DemandSource, Engine, HugePageMode, Level, NextStart, Observed, PageCount,
    PageSize, instance::Mechanism,
};

use crate::remedy::to_do;
use crate::testing::{Case, all_huge, gib, pool, quiet, sysctl};

fn lines(case: &Case) -> Vec<String> {
    let assessment = case.assess();
    to_do(&case.host, &case.instances, &assessment, Level::Info)
        .into_iter()
        .map(|(_, what)| what)
        .collect()
}

fn finding(case: &Case, code: &str) -> Option<hugewise_model::Finding> {
    case.assess().findings.into_iter().find(|finding| finding.code.as_str() == code)
}

fn next(
    asked: HugePageMode,
    page_size: PageSize,
    pages: u64,
    source: DemandSource,
) -> Observed<NextStart> {
    let demand = Demand { page_size, pages: PageCount(pages), source };
    Observed::Known(NextStart { asked, setting: None, demands: vec![demand] })
}

/// PostgreSQL's manual of huge_page_size: with 0 the default of the system is used, which is 1 GiB
/// after that boot.
fn with_another_default(pages_on_line: u64, file: Option<&str>) -> Case {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(2)));
    case.pool(1024, 0);
    if case.host.find_pool(PageSize::GIB_1).is_none() {
        case.pools().push(pool(PageSize::GIB_1, 0, 0));
    }
    let line = format!("default_hugepagesz=1G hugepagesz=1G hugepages={pages_on_line}");
    let Observed::Known(BootEntry { command_line, .. }) = &mut case.host.configuration.boot else {
        panic!("no entry")
    };
    *command_line = line.split(' ').map(str::to_owned).collect();
    let settings = file.map(|pages| sysctl("vm.nr_hugepages", pages));
    case.host.configuration.sysctl = Observed::Known(settings.into_iter().collect());
    case
}

/// mm/hugetlb.c, ipc/shm.c: 2 GiB of pages are no use to a segment that kernel.shmall refuses.
#[test]
fn what_keeps_a_server_down_that_runs_on_base_pages_has_its_reason_and_its_place_before_the_restart()
 {
    let mut case = quiet();
    let instance = case.oracle("UAT", gib(4), 20);
    instance.next = next(HugePageMode::Try, PageSize::MIB_2, 15_000, DemandSource::Engine);
    case.processes().iter_mut().for_each(|process| process.ipc_lock = Observed::Known(true));
    case.pool(15_100, 15_100);
    // 8 GiB.
    case.host.kernel_settings.shmall_pages = Observed::Known(2_097_152);
    let told = finding(&case, "HW210").unwrap();
    assert_eq!(told.level, Level::Error);
    assert!(told.summary.contains("kernel.shmall allows 8.0 GiB"), "{}", told.summary);
    assert!(finding(&case, "HW209").is_none(), "a restart alone keeps it down");
    assert!(finding(&case, "HW304").is_some(), "whose limit it is");
    let lines = lines(&case);
    let at = |start: &str| lines.iter().position(|line| line.starts_with(start));
    assert!(at("raise kernel.shmall").is_some(), "{lines:?}");
    assert!(at("raise kernel.shmall") < at("restart oracle UAT"), "{lines:?}");
}

/// 40,000 pages of 2 MiB are 78 GiB of 64: the file that asks for them is to ask for fewer.
#[test]
fn what_the_boot_is_asked_for_too_much_is_lowered_where_it_stands() {
    let mut case = quiet();
    case.postgresql("15/main", gib(2));
    case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "40000")]);
    let place = crate::testing::place("/etc/sysctl.d/50-db.conf");
    let lowered = format!("lower the 40,000 pages of 2 MiB in {place} to 1,024 (2.0 GiB)");
    let told = lines(&case);
    assert!(told.contains(&lowered), "{told:?}");
    // Where nobody needs any, too.
    case.instances.clear();
    let told = lines(&case);
    assert!(told.iter().any(|line| line.starts_with("lower the 40,000 pages")), "{told:?}");
}

/// With huge_pages=on a start without them fails: the line says what comes before it.
#[test]
fn what_insists_on_pages_says_that_they_come_first() {
    let mut case = quiet();
    case.postgresql("15/main", gib(2));
    let told = lines(&case);
    let once = "once its pages are there, ";
    let insists: Vec<&String> = told.iter().filter(|line| line.contains("huge_pages=on")).collect();
    assert!(!insists.is_empty() && insists.iter().all(|line| line.starts_with(once)), "{told:?}");
    assert!(told.contains(&format!("{once}restart postgresql 15/main")), "{told:?}");
    // They are there.
    case.pool(1024, 1024);
    case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "1024")]);
    let told = lines(&case);
    assert!(told.iter().all(|line| !line.starts_with(once)), "{told:?}");
}

/// A file that asks for a few pages more than a server that is yet to be set to ask needs.
#[test]
fn pages_of_a_server_that_is_to_be_made_to_ask_are_asked_for() {
    let mut case = quiet();
    let instance = case.postgresql("15/main", gib(2));
    (instance.asked, instance.setting) = (HugePageMode::No, None);
    case.host.configuration.sysctl = Observed::Known(vec![sysctl("vm.nr_hugepages", "1030")]);
    let told = lines(&case);
    assert!(told.iter().all(|line| !line.starts_with("correct ")), "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("set the pool of 2 MiB pages")), "{told:?}");
}

#[test]
fn a_server_that_goes_to_the_default_of_the_next_boot_is_told_of_that_size_alone() {
    let case = with_another_default(2, Some("1024"));
    let lines = lines(&case);
    assert!(
        lines.iter().any(|line| line.contains("to 2, which postgresql 15/main will ask for")),
        "{lines:?}"
    );
    assert!(
        lines.iter().all(|line| !line.contains("of 2 MiB pages to") && !line.contains("no server")),
        "{lines:?}"
    );
    // What the boot is to have by then is neither too few now nor too many.
    let done = with_another_default(2, None);
    assert!(
        finding(&done, "HW601").is_none() && finding(&done, "HW207").is_none(),
        "{:?}",
        done.codes()
    );
}

/// A kernel with base pages of 64 KiB has huge pages of 512 MiB, which only what is free is made
/// of.
#[test]
fn very_large_pages_that_are_not_free_are_for_the_next_boot() {
    let page = PageSize::from_kib(512 << 10).unwrap();
    let found = |free: u64| {
        let mut case = quiet();
        case.host.base_page = Observed::Known(PageSize::from_kib(64).unwrap());
        case.host.memory.free = Observed::Known(gib(free));
        (
            crate::demand::found_now(&case.host, page),
            crate::demand::found_now(&case.host, PageSize::MIB_2),
        )
    };
    let (large, small) = found(1);
    assert_eq!(large, Some(gib(1)));
    assert!(small > Some(gib(16)), "{small:?}");
}

/// The pages that are given back are what the server is told to ask for.
#[test]
fn nothing_is_given_back_before_a_server_asks_for_a_size_that_is_there() {
    let mut case = quiet();
    let instance = case.postgresql("15/main", gib(6));
    let size = PageSize::from_kib(32 << 10).unwrap();
    instance.asked_page_size = Observed::Known(size);
    instance.next = next(HugePageMode::Try, size, 192, DemandSource::Engine);
    case.pool(4096, 4096);
    let lines = lines(&case);
    assert!(lines.iter().all(|line| !line.starts_with("give back")), "{lines:?}");
    assert!(lines.iter().any(|line| line.contains("of a size that this kernel has")), "{lines:?}");
}

/// kernel.shmall counts base pages: 8 GiB are 2,097,152.
#[test]
fn the_limit_that_check_tells_is_that_of_a_plan_and_names_the_file_that_undoes_it() {
    let mut case = quiet();
    case.oracle("PROD", gib(16), 20);
    case.host.kernel_settings.shmall_pages = Observed::Known(2_097_152);
    case.host.configuration.sysctl = Observed::Known(vec![sysctl("kernel.shmall", "2097152")]);
    let told = lines(&case);
    let place = crate::testing::place("/etc/sysctl.d/50-db.conf");
    let line = format!(
        "raise kernel.shmall from 2097152 to 8388608 (4194304 are needed), and in {place}, which \
         sets 2097152 at each boot"
    );
    assert!(told.contains(&line), "{told:?}");
    let summary = finding(&case, "HW304").unwrap().summary;
    assert!(summary.contains("oracle PROD has 16.0 GiB"), "{summary}");
    // Each limit is a line.
    case.host.kernel_settings.shmmax = Observed::Known(gib(1));
    let told = lines(&case);
    assert_eq!(
        told.iter().filter(|line| line.starts_with("raise kernel.shm")).count(),
        2,
        "{told:?}"
    );
}

#[test]
fn a_server_that_insists_and_would_not_start_again_is_an_error_whatever_the_rule() {
    let mut case = quiet();
    let instance = case.postgresql("15/main", gib(6));
    let size = PageSize::from_kib(32 << 10).unwrap();
    instance.asked = HugePageMode::Try;
    instance.asked_page_size = Observed::Known(size);
    instance.next = next(HugePageMode::Must, size, 192, DemandSource::Engine);
    let assessment = case.assess();
    let restart = &assessment.situation.forecasts_for(&case.instances[0]).unwrap().restart;
    assert_eq!(restart.coverage, crate::coverage::Coverage::DoesNotStart);
    let worst = assessment
        .findings
        .iter()
        .filter(|finding| finding.instance.is_some())
        .map(|other_finding| other_finding.level)
        .max();
    assert_eq!(worst, Some(Level::Error), "{:?}", case.codes());
}

#[test]
fn an_estimate_is_not_told_as_a_count() {
    let mut case = quiet();
    let instance = all_huge(case.postgresql("15/main", gib(1)));
    instance.next = next(
        HugePageMode::Must,
        PageSize::MIB_2,
        575,
        DemandSource::Estimated { error_percent: 2 },
    );
    case.pool(540, 28);
    let summary = finding(&case, "HW210").unwrap().summary;
    assert!(summary.contains("needs about 575 pages of 2 MiB and finds 540"), "{summary}");
}

/// Redis and MongoDB have no way to a pool: what THP costs them is latency.
#[test]
fn what_thp_costs_is_not_page_tables() {
    let mut case = quiet();
    case.instance(Engine::Redis, "6379", gib(4), 0, |instance| {
        instance.mechanism = Mechanism::None;
        instance.asked = HugePageMode::Cannot;
    });
    case.host.thp.enabled = Observed::Known("always".into());
    let assessment = case.assess();
    let cases = crate::case::group_into_cases(&case.host, &case.instances, &assessment);
    let of_thp =
        cases.iter().find(|diagnosed_case| diagnosed_case.cause.code.as_str() == "HW501").unwrap();
    assert!(of_thp.cost.starts_with("latency"), "{}", of_thp.cost);
}

/// A unit that switches it back at each boot has to go.
#[test]
fn what_undoes_thp_at_each_boot_is_named() {
    use hugewise_model::configuration::{BootOrder, ThpWriter};
    let mut case = quiet();
    case.oracle("PROD", Bytes::from_mib(100), 3);
    case.host.thp.enabled = Observed::Known("always".into());
    let place = crate::testing::place("/etc/systemd/system/thp.service");
    case.host.configuration.thp_writers = vec![ThpWriter {
        value: Some("always".into()),
        place: place.clone(),
        by: None,
        order: BootOrder::Last,
    }];
    let told = lines(&case);
    let line = format!("and remove {place}, which sets always at each boot");
    assert!(told.iter().any(|text| text.ends_with(&line)), "{told:?}");
}

/// MariaDB: "unknown variable", "Aborting".
#[test]
fn nobody_is_told_to_restart_what_may_stay_down() {
    let mut case = quiet();
    let instance = case.mariadb("3306", gib(6));
    instance.asked = HugePageMode::Try;
    let setting = hugewise_model::instance::ServerSetting {
        name: "nosuchoption".into(),
        value: "?".into(),
        place: None,
    };
    let unclear =
        NextStart { asked: HugePageMode::Unknown, setting: Some(setting), demands: Vec::new() };
    instance.next = Observed::Known(unclear);
    case.pool(4096, 4096);
    let told = lines(&case);
    assert!(told.iter().all(|line| !line.starts_with("restart")), "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("see what nosuchoption=?")), "{told:?}");
}
