//! Goals of pools, reckoned by hand.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops where something is not as expected")]

use hugewise_model::{Demand, DemandSource, NextStart, Observed};

use super::*;
use crate::testing::{Case, all_huge, gib, quiet};

fn goal(case: &Case, wish: Wish<'_>) -> Goal {
    let target = target(&case.host, &case.instances, &case.assess(), wish, &Request::default()).unwrap();
    target.pool(PageSize::MIB_2).unwrap().clone()
}

fn next(asked: Asked, pages: u64) -> Observed<NextStart> {
    let demand = Demand { page_size: PageSize::MIB_2, pages: PageCount(pages), source: DemandSource::Engine };
    Observed::Known(NextStart { asked, setting: None, demands: vec![demand] })
}

/// Of 512 pages 112 are surplus: they take no more memory, and are gone at its stop until the pool is told to keep them.
#[test]
fn surplus_pages_are_not_there_to_stay_where_only_the_boot_is_planned() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    case.pool(512, 0).pools()[0].surplus = Observed::Known(PageCount(112));
    let now = goal(&case, Wish::default());
    assert!(now.grows() && now.is_there() && now.extra() == hugewise_model::Bytes::ZERO, "{now:?}");
    let later = goal(&case, Wish { now: false, ..Wish::default() });
    assert!(later.grows() && !later.is_there(), "{later:?}");
}

/// 700 for the one that is named, and 512 for one that does not ask, may be made to, and is not planned for.
#[test]
fn a_pool_that_is_shrunk_keeps_what_is_planned_beside_what_others_may_ask_for() {
    let mut case = quiet();
    let named = all_huge(case.postgresql("15/main", gib(1)));
    named.next = next(Asked::Try, 700);
    case.postgresql("15/off", gib(1)).asked = Asked::No;
    case.pool(3000, 2488);
    let names = ["15/main".to_owned()];
    let kept = goal(&case, Wish { names: &names, shrink: true, ..Wish::default() });
    assert_eq!(kept.goal, PageCount(1212), "{kept:?}");
}

/// 512 are held by one whose file now has it ask for none of its 2000: the 1600 that lie there are to be its own again.
#[test]
fn pages_of_one_that_is_to_ask_again_are_not_idle_for_others() {
    let mut case = quiet();
    let stops = all_huge(case.postgresql("15/stops", gib(1)));
    stops.next = next(Asked::No, 2000);
    case.postgresql("15/off", hugewise_model::Bytes::from_mib(300)).asked = Asked::No;
    case.pool(2112, 1600);
    let facts = case.assess();
    let idle = |case: &Case| {
        let off = case.instances.iter().find(|it| it.name == "15/off").unwrap();
        cause::idle_pages_for(&facts.facts(&case.host, &case.instances), off).is_some()
    };
    assert!(!idle(&case));
    case.instances[0].next = next(Asked::No, 512);
    assert!(idle(&case));
}
