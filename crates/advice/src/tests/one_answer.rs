//! What `check` tells to do is what a plan does, and what ends what was found: each test is a host on which it was not.

use hugewise_model::configuration::BootEntry;
use hugewise_model::{
    Asked, Bytes, Demand, DemandSource, Engine, Level, NextStart, Observed, PageCount, PageSize, instance::Mechanism,
};

use crate::remedy::to_do;
use crate::testing::{Case, all_huge, gib, pool, quiet, sysctl};

fn lines(case: &Case) -> Vec<String> {
    let assessment = case.assess();
    to_do(&case.host, &case.instances, &assessment, Level::Info).into_iter().map(|(_, what)| what).collect()
}

fn finding(case: &Case, code: &str) -> Option<hugewise_model::Finding> {
    case.assess().findings.into_iter().find(|finding| finding.code.as_str() == code)
}

fn next(asked: Asked, page_size: PageSize, pages: u64, source: DemandSource) -> Observed<NextStart> {
    let demand = Demand { page_size, pages: PageCount(pages), source };
    Observed::Known(NextStart { asked, setting: None, demands: vec![demand] })
}

/// PostgreSQL's manual of huge_page_size: with 0 the default of the system is used, which is 1 GiB after that boot.
fn with_another_default(pages_on_line: u64, file: Option<&str>) -> Case {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(2)));
    case.pool(1024, 0);
    if case.host.pool(PageSize::GIB_1).is_none() {
        case.pools().push(pool(PageSize::GIB_1, 0, 0));
    }
    let line = format!("default_hugepagesz=1G hugepagesz=1G hugepages={pages_on_line}");
    let Observed::Known(BootEntry { command_line, .. }) = &mut case.host.configuration.boot else { panic!("no entry") };
    *command_line = line.split(' ').map(str::to_owned).collect();
    let settings = file.map(|pages| sysctl("vm.nr_hugepages", pages));
    case.host.configuration.sysctl = Observed::Known(settings.into_iter().collect());
    case
}

#[test]
fn a_server_that_goes_to_the_default_of_the_next_boot_is_told_of_that_size_alone() {
    let case = with_another_default(2, Some("1024"));
    let lines = lines(&case);
    assert!(lines.iter().any(|line| line.contains("to 2, which postgresql 15/main will ask for")), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("of 2 MiB pages to") && !line.contains("no server")), "{lines:?}");
    // What the boot is to have by then is neither too few now nor too many.
    let done = with_another_default(2, None);
    assert!(finding(&done, "HW601").is_none() && finding(&done, "HW207").is_none(), "{:?}", done.codes());
}

/// A kernel with base pages of 64 KiB has huge pages of 512 MiB, which only what is free is made of.
#[test]
fn very_large_pages_that_are_not_free_are_for_the_next_boot() {
    let page = PageSize::from_kib(512 << 10).unwrap();
    let found = |free: u64| {
        let mut case = quiet();
        case.host.base_page = Observed::Known(PageSize::from_kib(64).unwrap());
        case.host.memory.free = Observed::Known(gib(free));
        (crate::demand::found_now(&case.host, page), crate::demand::found_now(&case.host, PageSize::MIB_2))
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
    instance.next = next(Asked::Try, size, 192, DemandSource::Engine);
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
        "raise kernel.shmall from 2097152 to 8388608 (4194304 are needed), and in {place}, which sets 2097152 at each boot"
    );
    assert!(told.contains(&line), "{told:?}");
    let summary = finding(&case, "HW304").unwrap().summary;
    assert!(summary.contains("oracle PROD has 16.0 GiB"), "{summary}");
    // Each limit is a line.
    case.host.kernel_settings.shmmax = Observed::Known(gib(1));
    let told = lines(&case);
    assert_eq!(told.iter().filter(|line| line.starts_with("raise kernel.shm")).count(), 2, "{told:?}");
}

#[test]
fn a_server_that_insists_and_would_not_start_again_is_an_error_whatever_the_rule() {
    let mut case = quiet();
    let instance = case.postgresql("15/main", gib(6));
    let size = PageSize::from_kib(32 << 10).unwrap();
    instance.asked = Asked::Try;
    instance.asked_page_size = Observed::Known(size);
    instance.next = next(Asked::Must, size, 192, DemandSource::Engine);
    let assessment = case.assess();
    let restart = &assessment.situation.of(&case.instances[0]).unwrap().restart;
    assert_eq!(restart.standing, crate::standing::Standing::DoesNotStart);
    let worst = assessment.findings.iter().filter(|it| it.instance.is_some()).map(|it| it.level).max();
    assert_eq!(worst, Some(Level::Error), "{:?}", case.codes());
}

#[test]
fn an_estimate_is_not_told_as_a_count() {
    let mut case = quiet();
    let instance = all_huge(case.postgresql("15/main", gib(1)));
    instance.next = next(Asked::Must, PageSize::MIB_2, 575, DemandSource::Estimated { error_percent: 2 });
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
        instance.asked = Asked::Cannot;
    });
    case.host.thp.enabled = Observed::Known("always".into());
    let assessment = case.assess();
    let cases = crate::case::cases(&case.host, &case.instances, &assessment);
    let of_thp = cases.iter().find(|it| it.cause.code.as_str() == "HW501").unwrap();
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
    case.host.configuration.thp_writers =
        vec![ThpWriter { value: Some("always".into()), place: place.clone(), by: None, order: BootOrder::Last }];
    let told = lines(&case);
    let line = format!("and remove {place}, which sets always at each boot");
    assert!(told.iter().any(|it| it.ends_with(&line)), "{told:?}");
}

/// MariaDB: "unknown variable", "Aborting".
#[test]
fn nobody_is_told_to_restart_what_may_stay_down() {
    let mut case = quiet();
    let instance = case.mariadb("3306", gib(6));
    instance.asked = Asked::Try;
    let setting = hugewise_model::instance::Setting { name: "nosuchoption".into(), value: "?".into(), place: None };
    let unclear = NextStart { asked: Asked::Unknown, setting: Some(setting), demands: Vec::new() };
    instance.next = Observed::Known(unclear);
    case.pool(4096, 4096);
    let told = lines(&case);
    assert!(told.iter().all(|line| !line.starts_with("restart")), "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("see what nosuchoption=?")), "{told:?}");
}
