//! Goals of pools, reckoned by hand.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops where something is not as expected"
)]

use hugewise_model::{Demand, DemandSource, NextStart, Observed};

use super::*;
use crate::testing::{Case, all_huge, gib, quiet};

fn goal(case: &Case, wish: TargetRequest<'_>) -> PoolGoal {
    let target =
        find_target(&case.host, &case.instances, &case.assess(), wish, &Request::default())
            .unwrap();
    target.pool(PageSize::MIB_2).unwrap().clone()
}

fn next(asked: HugePageMode, pages: u64) -> Observed<NextStart> {
    let demand = Demand {
        page_size: PageSize::MIB_2,
        pages: PageCount(pages),
        source: DemandSource::Engine,
    };
    Observed::Known(NextStart { asked, setting: None, demands: vec![demand] })
}

/// Of 512 pages 112 are surplus: they take no more memory, and are gone at its stop until the pool
/// is told to keep them.
#[test]
fn surplus_pages_are_not_there_to_stay_where_only_the_boot_is_planned() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    case.pool(512, 0).pools()[0].surplus = Observed::Known(PageCount(112));
    let now = goal(&case, TargetRequest::default());
    assert!(
        now.grows() && now.is_there() && now.extra_memory() == hugewise_model::Bytes::ZERO,
        "{now:?}"
    );
    let later = goal(&case, TargetRequest { now: false, ..TargetRequest::default() });
    assert!(later.grows() && !later.is_there(), "{later:?}");
}

/// 256 of its 512 pages are to be had on demand alone, now and after each boot: once it had them,
/// the pool would be to keep them.
#[test]
fn whoever_lacks_pages_is_not_left_to_those_on_demand() {
    let mut case = quiet();
    case.postgresql("15/main", gib(1));
    case.pool(256, 256).pools()[0].overcommit = Observed::Known(PageCount(256));
    let Observed::Known(files) = &mut case.host.configuration.sysctl else { panic!("no files") };
    files.push(crate::testing::sysctl("vm.nr_overcommit_hugepages", "256"));
    let names = ["15/main".to_owned()];
    let before = goal(&case, TargetRequest { names: &names, ..TargetRequest::default() });
    assert_eq!(before.goal, PageCount(512), "{before:?}");
    all_huge(&mut case.instances[0]);
    case.pool(512, 0).pools()[0].surplus = Observed::Known(PageCount(256));
    assert_eq!(
        goal(&case, TargetRequest { names: &names, ..TargetRequest::default() }).goal,
        PageCount(512)
    );
}

/// 700 for the one that is named, and 512 for one that does not ask, may be made to, and is not
/// planned for.
#[test]
fn a_pool_that_is_shrunk_keeps_what_is_planned_beside_what_others_may_ask_for() {
    let mut case = quiet();
    let named = all_huge(case.postgresql("15/main", gib(1)));
    named.next = next(HugePageMode::Try, 700);
    case.postgresql("15/off", gib(1)).asked = HugePageMode::No;
    case.pool(3000, 2488);
    let names = ["15/main".to_owned()];
    let kept =
        goal(&case, TargetRequest { names: &names, shrink: true, ..TargetRequest::default() });
    assert_eq!(kept.goal, PageCount(1212), "{kept:?}");
}

/// 512 are held by one whose file now has it ask for none of its 2000: the 1600 that lie there are
/// to be its own again.
#[test]
fn pages_of_one_that_is_to_ask_again_are_not_idle_for_others() {
    let mut case = quiet();
    let stops = all_huge(case.postgresql("15/stops", gib(1)));
    stops.next = next(HugePageMode::No, 2000);
    case.postgresql("15/off", hugewise_model::Bytes::from_mib(300)).asked = HugePageMode::No;
    case.pool(2112, 1600);
    let facts = case.assess();
    let idle = |case: &Case| {
        let off = case.instances.iter().find(|instance| instance.name == "15/off").unwrap();
        cause::idle_pages_for(&facts.rule_facts(&case.host, &case.instances), off).is_some()
    };
    assert!(!idle(&case));
    case.instances[0].next = next(HugePageMode::No, 512);
    assert!(idle(&case));
}

/// A host whose boot takes some pages of 1 GiB early, and has them now.
fn with_gib_pages(case: &mut Case, pages: u64) {
    case.pools()[1] = crate::testing::pool(PageSize::GIB_1, pages, pages);
    if let Observed::Known(boot) = &mut case.host.configuration.boot {
        boot.command_line = vec!["hugepagesz=1G".into(), format!("hugepages={pages}")];
    }
}

const GIB: TargetRequest<'_> = TargetRequest {
    names: &[],
    page_size: Some(PageSize::GIB_1),
    now: true,
    boot: true,
    shrink: false,
};

fn on_gib_pages(case: &Case) -> HostTarget {
    let request = Request {
        page_size: crate::sizing::PageSizeChoice::Size(PageSize::GIB_1),
        ..Request::default()
    };
    find_target(&case.host, &case.instances, &case.assess(), GIB, &request).unwrap()
}

/// Its cgroup lets it have 138 of the 276 pages of 2 MiB that it asks for; of 1 GiB it is to have
/// one, and nothing limits these.
#[test]
fn a_limit_of_the_pages_that_one_leaves_is_none_of_those_that_it_is_to_have() {
    let mut case = quiet();
    case.postgresql("15/main", PageSize::MIB_2.bytes().saturating_mul(276));
    let limit = hugewise_model::Limit::At(PageSize::MIB_2.bytes().saturating_mul(138));
    case.host.hugetlb_cgroups = vec![crate::testing::cgroup("/system.slice/db.service", limit)];
    with_gib_pages(&mut case, 1);
    assert_eq!(on_gib_pages(&case).insisting.len(), 1);
    // A limit of its new pages is one.
    case.host.hugetlb_cgroups[0].page_size = PageSize::GIB_1;
    assert!(on_gib_pages(&case).insisting.is_empty());
}

/// 2 pages of 1 GiB are for one of 1074 MiB; another one is down, insists on its 2107 of 2 MiB, 5
/// of 1 GiB, and no step moves it.
#[test]
fn pages_for_one_that_no_step_moves_are_not_missing_for_others() {
    let mut case = quiet();
    case.postgresql("15/d", hugewise_model::Bytes::from_mib(1074));
    case.postgresql("15/c", PageSize::MIB_2.bytes().saturating_mul(2107)).asked =
        HugePageMode::Must;
    with_gib_pages(&mut case, 2);
    let (assessment, known) = (case.assess(), &case.instances);
    let request = Request {
        page_size: crate::sizing::PageSizeChoice::Size(PageSize::GIB_1),
        ..Request::default()
    };
    let sizing = size_servers(&case.host, known, &request).unwrap();
    let unmoved = [known[1].id()];
    let ask = PoolGoalInputs {
        host: &case.host,
        instances: known,
        strangers: &[],
        assessment: &assessment,
        sizing: Some(&sizing),
        wish: GIB,
        unmoved: &unmoved,
        short: &[],
    };
    let may = |pages| {
        Insist::new(ask, [(PageSize::GIB_1, PageCount(pages))].into_iter())
            .may_insist(&known[0], |_| true)
    };
    assert_eq!(may(2), Ok(()));
    assert!(may(1).is_err());
}

/// 300 MiB that do not ask, and 500 idle pages of 2 MiB: no reason for pages of 1 GiB.
#[test]
fn idle_pages_of_another_size_make_nobody_ask() {
    let mut case = quiet();
    case.postgresql("15/off", hugewise_model::Bytes::from_mib(300)).asked = HugePageMode::No;
    case.pool(500, 500);
    let assessment = case.assess();
    let sized = |wish| to_size(&case.host, &case.instances, &assessment, wish).len();
    assert_eq!((sized(TargetRequest::default()), sized(GIB)), (1, 0));
}

/// 300 MiB that do not ask, and 500 idle pages: 150 of them are no reason to keep any of those that
/// are to be given back.
#[test]
fn pages_that_are_given_back_make_nobody_ask() {
    let mut case = quiet();
    case.postgresql("15/off", hugewise_model::Bytes::from_mib(300)).asked = HugePageMode::No;
    case.pool(500, 500);
    assert_eq!(goal(&case, TargetRequest::default()).needed, PageCount(150));
    let shrunk = goal(&case, TargetRequest { shrink: true, ..TargetRequest::default() });
    assert_eq!((shrunk.needed, shrunk.goal), (PageCount(0), PageCount(0)));
}

/// 768 MiB of memory, of which an apply leaves 256 MiB: of 539 that are available 283 can go into a
/// pool, of 540 the 284 that the server needs.
#[test]
fn what_an_apply_would_refuse_is_not_planned_for_now() {
    let mib = hugewise_model::Bytes::from_mib;
    let mut case = quiet();
    case.postgresql("15/main", mib(284)).asked = HugePageMode::Try;
    case.pool(0, 0);
    let names = ["15/main".to_owned()];
    case.host.memory.total = Observed::Known(mib(768));
    case.host.memory.available = Observed::Known(mib(539));
    let wish = || TargetRequest { names: &names, ..TargetRequest::default() };
    let short = goal(&case, wish());
    assert_eq!((short.goal, short.extra_memory()), (PageCount(142), mib(284)));
    let why = short.not_now.unwrap();
    assert!(why.contains("256.0 MiB must stay free"), "{why}");
    case.host.memory.available = Observed::Known(mib(540));
    assert_eq!(goal(&case, wish()).not_now, None);
}

/// `check` and the plan tell a server to insist at the same time: not before somebody has lowered what
/// would keep the host from booting.
#[test]
fn nobody_is_to_insist_on_a_boot_that_people_have_to_mend() {
    use hugewise_model::configuration::{IgnoredFile, Unheeding};
    let insists = |is_read: bool| {
        let mut case = quiet();
        case.postgresql("15/main", gib(2));
        case.pool(0, 0);
        // 78 of 64 GiB.
        case.host.configuration.sysctl =
            Observed::Known(vec![crate::testing::sysctl("vm.nr_hugepages", "40000")]);
        if !is_read {
            let why = Unheeding::NotRead("/etc/sysctl.conf alone is read".into());
            case.host.configuration.unheeded = vec![IgnoredFile { files: "sysctl.d", why }];
        }
        !case.assess().target.insisting.is_empty()
    };
    assert_eq!([insists(true), insists(false)], [true, false]);
}
