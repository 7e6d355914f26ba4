//! Programs that are no known servers, and hold huge pages now.

use std::sync::Arc;

use hugewise_model::{HugePageMode, Mapping, Observed, PageCount, PageSize, Process, RuleId};

use crate::coverage::Coverage;
use crate::prediction::{Obstacle, StageForecast, predict_host};
use crate::testing::{Case, all_huge, quiet, sysctl};

/// PostgreSQL of 320 pages in a pool of 480, of which a program holds 150 more; so many are to come
/// at the boot.
fn shared_pool(boot: u64) -> Case {
    let mut case = quiet();
    let pages = |count: u64| PageSize::MIB_2.bytes().saturating_mul(count);
    all_huge(case.postgresql("15/main", pages(320))).asked = HugePageMode::Must;
    case.pool(480, 10);
    let mapping = Mapping {
        start: 0x7f00_0000_0000,
        end: 0x7f00_0000_0000 + pages(150).get(),
        shared: true,
        accessible: true,
        offset: 0,
        device: 15,
        inode: 4711,
        name: "/anon_hugepage (deleted)".into(),
        page_size: Observed::Known(PageSize::MIB_2),
    };
    let holder = |pid| Process {
        pid,
        name: "holder".into(),
        mappings: Observed::Known(vec![mapping.clone()]),
        ..Process::default()
    };
    // A worker maps the same file: its pages are counted once.
    let Observed::Known(processes) = &mut case.host.processes else { panic!("no processes") };
    processes.extend([holder(90_001), holder(90_002)].map(Arc::new));
    let line = sysctl("vm.nr_hugepages", &boot.to_string());
    case.host.configuration.sysctl = Observed::Known(vec![line]);
    case
}

fn boot_forecast(case: &Case) -> StageForecast {
    let situation = predict_host(&case.host, &case.instances);
    situation.forecasts_for(&case.instances[0]).unwrap().boot.clone()
}

#[test]
fn what_a_program_holds_now_may_be_gone_before_a_server_starts() {
    // 320 and 150 are 470.
    let boot = boot_forecast(&shared_pool(470));
    assert_eq!(boot, StageForecast::ALL);
    let boot = boot_forecast(&shared_pool(400));
    assert_eq!((boot.coverage, boot.obstacle), (Coverage::Unknown, Some(Obstacle::Strangers)));
    assert_eq!(
        boot.why.as_deref(),
        Some(
            "holder (pid 90001) and one more program hold 150 pages now and are no known servers \
             (in all 470 are needed, and the boot brings 400): that may leave 250 of the 320 pages \
             of 2 MiB needed"
        )
    );
    // Whoever starts first, 300 are too few.
    assert_eq!(boot_forecast(&shared_pool(300)).coverage, Coverage::DoesNotStart);
}

#[test]
fn a_mapping_that_nothing_was_reserved_for_counts_as_far_as_the_pool_has_given_it_pages() {
    let mut case = shared_pool(400);
    // Of 480 pages 160 are free: the 320 of PostgreSQL are all that is given.
    case.pools()[0].free = Observed::Known(PageCount(160));
    assert_eq!(boot_forecast(&case), StageForecast::ALL);
}

#[test]
fn a_finding_names_the_program() {
    let found = |case: &Case| {
        let findings = case.assess().findings.into_iter();
        let mut found = findings.filter(|finding| finding.code == RuleId::new("HW603"));
        found.next().map(|finding| (finding.level, finding.summary))
    };
    let (level, summary) = found(&shared_pool(400)).unwrap();
    assert_eq!(level, hugewise_model::Level::Warn);
    assert!(
        summary
            .starts_with("postgresql 15/main may not start at the next boot: holder (pid 90001)"),
        "{summary}"
    );
    assert_eq!(found(&shared_pool(470)), None);
}
