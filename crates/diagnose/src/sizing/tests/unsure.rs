//! What is not known is not said: servers that nobody saw, settings that could not be read, pages
//! of several sizes.

use hugewise_model::{Demand, DemandSource, HugePageMode, Observed, PageCount, PageSize, Remedy};

use super::{ask, plain};
use crate::sizing::{PageSizeChoice, Request};
use crate::target::{TargetRequest, find_target};
use crate::testing::{all_huge, gib, quiet, segment};

const WHY: &str = "processes of other users are hidden, and servers may be among them";

#[test]
fn servers_that_nobody_saw_are_said_to_be_left_out() {
    let mut case = quiet();
    case.postgresql("15/main", gib(1));
    assert!(!plain(&case).budget.unknown.join(" ").contains("seen"));
    case.host.hidden = Some(WHY.into());
    let unknown = plain(&case).budget.unknown;
    assert!(unknown.contains(&format!("servers that could not be seen ({WHY})")), "{unknown:?}");
}

/// 512 pages that it holds, in a cgroup that lets it have 600, and settings by which it will ask
/// for 700.
#[test]
fn what_a_cgroup_allows_of_a_server_now_it_may_not_of_its_next_start() {
    let limited = |next: u64| {
        let mut case = quiet();
        let instance = all_huge(case.postgresql("15/main", gib(1)));
        let demand = Demand {
            page_size: PageSize::MIB_2,
            pages: PageCount(next),
            source: DemandSource::Engine,
        };
        let start = hugewise_model::NextStart {
            asked: HugePageMode::Try,
            setting: None,
            demands: vec![demand],
        };
        instance.next = Observed::Known(start);
        case.pool(512, 0);
        let limit = hugewise_model::Limit::At(PageSize::MIB_2.bytes().saturating_mul(600));
        case.host.hugetlb_cgroups = vec![crate::testing::cgroup("/system.slice/db.service", limit)];
        let sizing = plain(&case);
        sizing.limited.len()
    };
    assert_eq!(limited(700), 1);
    assert_eq!(limited(590), 0);
}

#[test]
fn no_pages_are_given_back_while_a_server_may_be_hidden() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(2)));
    // 4,096 pages, 1,024 of them held; nobody who was seen asks for the others.
    case.pool(4096, 3072);
    let pages = |case: &crate::testing::Case| {
        let (assessment, wish) =
            (case.assess(), TargetRequest { shrink: true, ..TargetRequest::default() });
        let target =
            find_target(&case.host, &case.instances, &assessment, wish, &Request::default())
                .unwrap();
        let gives = assessment
            .findings
            .iter()
            .flat_map(|finding| &finding.remedies)
            .any(|remedy| matches!(remedy, Remedy::GiveBack(_)));
        (target.pool(PageSize::MIB_2).unwrap().goal, gives)
    };
    assert_eq!(pages(&case), (PageCount(1024), true));
    case.host.hidden = Some(WHY.into());
    assert_eq!(pages(&case), (PageCount(4096), false));
    (case.host.hidden, case.host.torn) = (None, Some("cut off".into()));
    assert_eq!(pages(&case), (PageCount(4096), false));
}

#[test]
fn a_host_that_starves_keeps_its_pages_too_while_a_server_may_be_hidden() {
    let mut case = quiet();
    case.pool(28_000, 28_000);
    case.host.memory.available = Observed::Known(hugewise_model::Bytes::from_mib(400));
    let goal =
        |case: &crate::testing::Case| case.assess().target.pool(PageSize::MIB_2).unwrap().goal;
    assert_eq!(goal(&case), PageCount(0));
    case.host.hidden = Some(WHY.into());
    assert_eq!(goal(&case), PageCount(28_000));
}

#[test]
fn settings_that_could_not_be_read_are_unknown() {
    let mut case = quiet();
    let instance = case.postgresql("15/main", gib(1));
    (instance.asked, instance.setting) = (HugePageMode::Unknown, None);
    let sized = plain(&case).instances.remove(0);
    assert_eq!(
        (sized.asks, sized.asks_unread.as_deref()),
        (None, Some("its settings could not be read"))
    );
    case.instances[0].asked = HugePageMode::No;
    let sized = plain(&case).instances.remove(0);
    assert_eq!((sized.asks, sized.asks_unread), (Some(false), None));
}

/// 1 GiB on one page of 1 GiB and 300 MiB on 150 of 2 MiB.
fn mixed() -> crate::testing::Case {
    let mut case = quiet();
    let demand_of = |page_size, pages| Demand {
        page_size,
        pages: PageCount(pages),
        source: DemandSource::Measured,
    };
    let instance = all_huge(case.oracle("PROD", gib(1), 0));
    instance.segments.push(segment(2, hugewise_model::Bytes::from_mib(300), true));
    instance.segments[0].page_size = Observed::Known(PageSize::GIB_1);
    instance.demand = Some(demand_of(PageSize::MIB_2, 150));
    instance.other_demands = vec![demand_of(PageSize::GIB_1, 1)];
    case.host.pools = Observed::Known(vec![
        crate::testing::pool(PageSize::MIB_2, 150, 0),
        crate::testing::pool(PageSize::GIB_1, 1, 0),
    ]);
    case
}

#[test]
fn pages_of_several_sizes_are_counted_by_size() {
    let mut case = mixed();
    for first in
        [Observed::Known(PageSize::MIB_2), Observed::Known(PageSize::GIB_1), Observed::Absent]
    {
        case.instances[0].asked_page_size = first;
        let sizing = plain(&case);
        let pools: Vec<_> = sizing
            .pools
            .iter()
            .map(|pool| (pool.page_size, pool.pages.saturating_sub(pool.spare_pages)))
            .collect();
        // Never 662 of 2 MiB.
        assert_eq!(pools, [(PageSize::MIB_2, PageCount(150)), (PageSize::GIB_1, PageCount(1))]);
        assert!(sizing.pools.iter().all(|pool| pool.held_by_others == PageCount(0)));
        assert_eq!(sizing.instances[0].beside.len(), 1);
    }
}

#[test]
fn a_mapping_on_larger_pages_tells_smaller_ones_with_its_rounding() {
    let mut case = quiet();
    let instance = all_huge(case.postgresql("15/main", gib(7)));
    instance.segments[0].page_size = Observed::Known(PageSize::GIB_1);
    instance.asked_page_size = Observed::Known(PageSize::GIB_1);
    let demand_of = |page_size, pages| Demand {
        page_size,
        pages: PageCount(pages),
        source: DemandSource::Measured,
    };
    instance.demand = Some(demand_of(PageSize::GIB_1, 7));
    case.host.pools = Observed::Known(vec![
        crate::testing::pool(PageSize::MIB_2, 0, 0),
        crate::testing::pool(PageSize::GIB_1, 7, 0),
    ]);
    let sizing = ask(
        &case,
        &Request { page_size: PageSizeChoice::Size(PageSize::MIB_2), ..Request::default() },
    );
    let sized = &sizing.instances[0];
    // Of the last page of 1 GiB, 512 of 2 MiB, perhaps but one is needed.
    let least = PageCount(6 * 512 + 1);
    assert_eq!(
        (sized.demand_pages, sized.source),
        (PageCount(3584), DemandSource::Enough { least })
    );
    assert_eq!(sized.asks, Some(false), "its settings ask for 1 GiB pages");
    let own = plain(&case).instances.remove(0);
    assert_eq!(
        (own.page_size, own.demand_pages, own.source),
        (PageSize::GIB_1, PageCount(7), DemandSource::Measured)
    );
    // Its files tell more, unless they tell of other memory.
    let mut reckoned = |pages: u64| {
        let source = DemandSource::Enough { least: PageCount(pages - 1) };
        case.instances[0].on_smaller =
            vec![Demand { page_size: PageSize::MIB_2, pages: PageCount(pages), source }];
        let request =
            Request { page_size: PageSizeChoice::Size(PageSize::MIB_2), ..Request::default() };
        ask(&case, &request).instances[0].demand_pages
    };
    assert_eq!(
        [3100, 3585, 3072].map(&mut reckoned),
        [PageCount(3100), PageCount(3584), PageCount(3584)]
    );
}

#[test]
fn memory_of_another_kind_by_a_setting_is_sized_for_when_the_setting_is_changed() {
    let mut case = quiet();
    let instance = case.postgresql("15/main", gib(4));
    instance.asked = HugePageMode::Cannot;
    let sized = plain(&case).instances.remove(0);
    assert_eq!((sized.demand_pages, sized.asks), (PageCount(2048), Some(false)));
    assert_eq!(case.assess().target.pool(PageSize::MIB_2).unwrap().goal, PageCount(2048));
}

#[test]
fn a_page_size_that_is_asked_for_is_that_of_all_its_memory() {
    for (page, pages) in [(PageSize::MIB_2, 512 + 150), (PageSize::GIB_1, 2)] {
        let sizing =
            ask(&mixed(), &Request { page_size: PageSizeChoice::Size(page), ..Request::default() });
        let sized = &sizing.instances[0];
        assert_eq!(
            (sized.page_size, sized.demand_pages, sized.beside.len()),
            (page, PageCount(pages), 0)
        );
        let row = sizing.choices.iter().find(|row| row.page_size == page).unwrap();
        assert_eq!(row.pages, Some(PageCount(pages)));
    }
}
