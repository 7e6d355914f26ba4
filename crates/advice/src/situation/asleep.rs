//! Tests of what is foretold and kept for servers that belong to the host and do not run.

use hugewise_model::{Asked, Asleep, AtBoot, Demand, DemandSource, Instance, NextStart, Observed, PageCount, PageSize};

use super::{Moment, situation};
use crate::target::{Wish, target};
use crate::testing::{self, Case, all_huge, gib};

fn yes() -> AtBoot {
    AtBoot::Yes("start.conf=auto (f)".into())
}

fn no() -> AtBoot {
    AtBoot::No("start.conf=manual (f:3)".into())
}

fn unknown() -> AtBoot {
    AtBoot::Unknown("nothing tells".into())
}

/// A PostgreSQL that insists on so many pages and does not run.
fn down(case: &mut Case, name: &str, pages: u64, at_boot: AtBoot) {
    case.postgresql(name, gib(1));
    let instance = case.instances.pop().unwrap();
    let demand = Demand {
        page_size: PageSize::MIB_2,
        pages: PageCount(pages),
        source: DemandSource::Estimated { error_percent: 2 },
    };
    let next = NextStart { asked: Asked::Must, setting: instance.setting.clone(), demands: vec![demand.clone()] };
    case.instances.push(Instance {
        pid: 0,
        pids: Vec::new(),
        asked: Asked::Must,
        segments: Vec::new(),
        huge_pages: hugewise_model::HugePageUse::Unknown,
        perhaps: vec![demand.at_most()],
        demand: Some(demand),
        next: Observed::Known(next),
        page_tables: Observed::Absent,
        sessions: Observed::Absent,
        asleep: Some(Asleep::new("/etc/postgresql/15/b/postgresql.conf", at_boot)),
        ..instance
    });
}

/// One that runs on 512 pages, one that is down and needs 500 to 510, and a pool of so many.
fn case(total: u64, at_boot: AtBoot) -> Case {
    let mut case = testing::quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    down(&mut case, "15/b", 500, at_boot);
    case.pool(total, total - 512);
    case
}

fn words(case: &Case) -> [[&'static str; 3]; 2] {
    let situation = situation(&case.host, &case.instances);
    let of = |at: usize| {
        let moments = situation.of(&case.instances[at]).unwrap();
        Moment::ALL.map(|moment| moments.at(moment).standing.as_str())
    };
    [of(0), of(1)]
}

#[test]
fn a_boot_has_those_that_it_starts() {
    assert_eq!(words(&case(1022, yes())), [["all", "all", "all"], ["not_running", "all", "all"]]);
    // Between 500 and 510 pages: nobody knows whether it comes up, and the other one's are there in any case.
    assert_eq!(words(&case(1015, yes())), [["all", "all", "all"], ["not_running", "unknown", "unknown"]]);
    assert_eq!(words(&case(600, yes())), [["all", "all", "none"], ["not_running", "does_not_start", "does_not_start"]]);
    // By hand it has to be started: the boot is nobody else's worry.
    assert_eq!(words(&case(600, no())), [["all", "all", "all"], ["not_running", "does_not_start", "not_running"]]);
    assert_eq!(
        words(&case(600, unknown())),
        [["all", "all", "unknown"], ["not_running", "does_not_start", "does_not_start"]]
    );
    let situation = situation(&case(600, unknown()).host, &case(600, unknown()).instances);
    let why = situation.of(&case(600, unknown()).instances[0]).unwrap().boot.why.clone().unwrap();
    assert!(why.starts_with("whether the boot starts postgresql 15/b is not known"), "{why}");
}

#[test]
fn what_it_may_ask_for_is_not_idle() {
    for at_boot in [yes(), no(), unknown()] {
        let case = case(2000, at_boot);
        let claim = situation(&case.host, &case.instances).claim(PageSize::MIB_2).cloned().unwrap();
        // 512 that are held, and 500 with their 2 % of error.
        assert_eq!((claim.pages, claim.unknown.len()), (PageCount(512 + 510), 0));
    }
    let mut case = case(2000, no());
    (case.instances[1].asked, case.instances[1].next) = (Asked::Unknown, Observed::Absent);
    let claim = situation(&case.host, &case.instances).claim(PageSize::MIB_2).cloned().unwrap();
    assert_eq!(claim.unknown.len(), 1, "its settings could not be read: nobody knows");
    assert!(!case.codes().contains(&"HW202"), "{:?}", case.codes());
}

fn goal(case: &Case, wish: Wish<'_>) -> PageCount {
    let assessment = case.assess();
    let target = target(&case.host, &case.instances, &assessment, wish, &crate::sizing::Request::default()).unwrap();
    target.pool(PageSize::MIB_2).unwrap().goal
}

#[test]
fn a_plan_has_pages_for_those_that_the_boot_starts_and_keeps_those_of_the_others() {
    let shrink = Wish { shrink: true, ..Wish::default() };
    for (at_boot, planned) in [(yes(), 512 + 510), (unknown(), 512 + 510), (no(), 600)] {
        assert_eq!(goal(&case(600, at_boot.clone()), Wish::default()), PageCount(planned), "{at_boot:?}");
        assert_eq!(goal(&case(2000, at_boot), shrink), PageCount(512 + 510));
    }
    // Whoever names one that is started by hand has it planned for.
    let mut named = case(600, no());
    named.instances[1].vouchers.push(hugewise_model::vouch::Voucher::Named);
    let names = ["15/b".to_owned()];
    assert!(goal(&named, Wish { names: &names, ..Wish::default() }) >= PageCount(512 + 510));
}

/// Of pools and boots; that the one which runs would start without huge pages is said of it in any case.
fn codes(case: &Case) -> Vec<&'static str> {
    case.codes().into_iter().filter(|code| *code != "HW401").collect()
}

#[test]
fn check_says_what_a_plan_would_do() {
    assert_eq!(codes(&case(600, yes())), ["HW603", "HW603"]);
    assert_eq!(codes(&case(600, no())), Vec::<&str>::new());
    assert_eq!(codes(&case(1022, yes())), Vec::<&str>::new());
    // Alone on its host.
    let mut alone = testing::quiet();
    down(&mut alone, "15/b", 500, yes());
    alone.pool(0, 0);
    assert_eq!(codes(&alone), ["HW603"]);
    assert_eq!(goal(&alone, Wish::default()), PageCount(510));
}

/// Nobody takes pages from under a stranger, and nobody plans for him.
#[test]
fn a_stranger_that_is_down_holds_his_claim_and_gets_nothing() {
    let mut case = case(600, yes());
    case.instances[1].vouchers.clear();
    assert_eq!(words(&case)[0], ["all", "all", "all"]);
    assert_eq!(goal(&case, Wish::default()), PageCount(600));
    assert_eq!(codes(&case), Vec::<&str>::new());
}

/// What lies there for one that is down is no reason to have another one ask for it.
#[test]
fn pages_that_wait_for_one_that_is_down_lie_idle_for_nobody() {
    let mut case = testing::quiet();
    down(&mut case, "15/b", 543, yes());
    let other = case.postgresql("15/off", gib(1).shared_by(2).unwrap());
    other.asked = Asked::No;
    case.pool(598, 598);
    let codes = case.codes();
    assert!(!codes.contains(&"HW202"), "{codes:?}");
    assert_eq!(goal(&case, Wish::default()), PageCount(598));
}
