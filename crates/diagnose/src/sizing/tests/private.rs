//! Private memory in the budget: what settings grant, and servers that are sized as they would be
//! off what rules huge pages out.

use hugewise_model::instance::{SegmentKind, ServerSetting, Trait};
use hugewise_model::{Bytes, HugePageMode, Instance, Observed};

use super::{Request, ask, plain, sessions};
use crate::sizing::{SizeError, Sizing, size_servers};
use crate::testing::{Case, gib, quiet};

fn set(instance: &mut Instance, name: &str, value: &str) {
    let setting = ServerSetting { name: name.into(), value: value.into(), place: None };
    instance.settings.insert(name.into(), setting);
}

/// 99 sessions and the main process, 10 MiB each.
fn oracle(case: &mut Case, sga: Bytes) -> &mut Instance {
    case.oracle("PROD", sga, 99);
    for process in case.processes() {
        process.rss_anon = Observed::Known(Bytes::from_mib(10));
    }
    case.instances.last_mut().unwrap()
}

/// Oracle takes up to PGA_AGGREGATE_TARGET where there is work for it, and ends sessions beyond
/// PGA_AGGREGATE_LIMIT, which is twice that by default.
#[test]
fn a_target_counts_and_a_limit_is_the_most() {
    let mut case = quiet();
    oracle(&mut case, gib(32));
    assert_eq!(plain(&case).budget.sessions_private, Some(Bytes::from_mib(1000)));
    set(case.instances.last_mut().unwrap(), "pga_aggregate_target", "12G");
    let sizing = plain(&case);
    assert_eq!(sizing.budget.sessions_private, Some(gib(12)));
    let most = sizing.at_most.unwrap();
    assert_eq!((most.sessions, most.sessions_private), (1000, Some(gib(24))));
    let [work] = sizing.work.as_slice() else { panic!("{:?}", sizing.work) };
    assert_eq!(
        (work.held, work.counted, work.at_most),
        (Some(Bytes::from_mib(1000)), Some(gib(12)), Some(gib(24)))
    );
    // 1,600 sessions as those that run now take more than the target.
    assert_eq!(ask(&case, &sessions(1600)).budget.sessions_private, Some(Bytes::from_mib(16_010)));
}

/// Files that its processes share are under target and limit (V$PGASTAT: "MGA allocated (under
/// PGA)"), and shared memory for the kernel: they are counted once.
#[test]
fn the_managed_global_area_is_counted_once() {
    let mut case = quiet();
    let instance = oracle(&mut case, gib(32));
    set(instance, "pga_aggregate_target", "12G");
    case.host.memory.shmem = Observed::Known(gib(1));
    let left =
        |sizing: &Sizing| sizing.forecast.iter().map(|row| row.memory_left).collect::<Vec<_>>();
    let (before, left_before) = (plain(&case).budget, left(&plain(&case)));
    let file = hugewise_model::Mapping {
        start: 0x7000_0000_0000,
        end: 0x7000_0000_0000 + gib(2).get(),
        shared: true,
        accessible: true,
        device: 2,
        inode: 900,
        offset: 0,
        name: "/dev/shm/ora_PROD_425990_0".into(),
        page_size: Observed::Known(hugewise_model::PageSize::KIB_4),
    };
    for process in case.processes() {
        process.mappings = Observed::Known(vec![file.clone()]);
    }
    case.host.memory.shmem = Observed::Known(gib(3));
    let sizing = plain(&case);
    assert_eq!((before.managed, sizing.budget.managed), (None, Some(gib(2))));
    assert_eq!(sizing.budget.sessions_private, Some(gib(10)));
    assert_eq!(left(&sizing), left_before);
    assert_eq!((sizing.budget.others, sizing.budget.left), (before.others, before.left));
    assert_eq!(sizing.at_most.unwrap().sessions_private, Some(gib(22)));
}

#[test]
fn a_pool_that_leaves_the_target_no_room_is_refused_by_name() {
    let mut case = quiet();
    let instance = oracle(&mut case, gib(40));
    set(instance, "pga_aggregate_target", "24G");
    let sizing = plain(&case);
    let refusal = sizing.refusal.unwrap();
    let told = refusal.reasons.join("\n");
    assert!(
        told.contains("oracle PROD counts as 24.0 GiB, its pga_aggregate_target=24G"),
        "{told}"
    );
    assert!(told.contains("its processes hold 1000.0 MiB now"), "{told}");
    set(case.instances.last_mut().unwrap(), "pga_aggregate_target", "8G");
    assert!(plain(&case).refusal.is_none());
}

/// Buffers of 12 MiB for each of 100 sessions, and four times 64 MiB of maintenance_work_mem.
#[test]
fn what_sessions_are_granted_each_comes_to_what_they_hold() {
    let mut case = quiet();
    case.postgresql("15/main", gib(6)).max_sessions = Observed::Known(100);
    for process in case.processes() {
        process.rss_anon = Observed::Known(Bytes::ZERO);
    }
    let sizing = plain(&case);
    assert_eq!(sizing.budget.sessions_private, Some(Bytes::ZERO), "none of it is reserved");
    assert_eq!(sizing.at_most.unwrap().sessions_private, Some(Bytes::from_mib(12 * 100 + 4 * 64)));
}

#[test]
fn an_instance_under_amm_is_sized_as_it_would_be_off_it() {
    let mut case = quiet();
    let instance = oracle(&mut case, gib(10));
    set(instance, "memory_target", "16G");
    (instance.asked, instance.huge_pages) =
        (HugePageMode::Cannot, hugewise_model::HugePageUse::None);
    instance.traits = vec![Trait::Amm];
    instance.segments[0].kind = SegmentKind::Posix;
    // A plan goes by what its files say.
    assert_eq!(
        size_servers(&case.host, &case.instances, &Request::default()),
        Err(SizeError::NothingToSize)
    );
    let sizing = ask(&case, &Request { proposed: true, ..Request::default() });
    let [sized] = sizing.instances.as_slice() else { panic!("{:?}", sizing.instances) };
    // And of both one number is said.
    let plan = super::super::left_out(&case.host, &case.instances, &Request::default());
    let said = format!("; off it, it needs {}", sized.demand_pages.in_pages_of(sized.page_size));
    assert!(
        plan.iter().any(|unplanned_server| unplanned_server.why.to_string().ends_with(&said)),
        "{plan:?}"
    );
    let change = sized.change.as_ref().unwrap();
    let told: Vec<String> =
        change.settings.iter().map(|one| format!("{}={}", one.name, one.value)).collect();
    assert_eq!(told, ["sga_target=10240M", "pga_aggregate_target=6144M"]);
    assert_eq!(change.gone, ["memory_target"]);
    // 5,120 pages hold 10 GiB.
    assert!((5120..=5200).contains(&sized.demand_pages.get()), "{sized:?}");
    assert_eq!(sizing.budget.sessions_private, Some(gib(6)));
    // What it has in /dev/shm now is not counted beside the pool that takes its place.
    assert!(
        sizing.refusal.is_none() && sizing.budget.left.unwrap() > gib(40),
        "{:?}",
        sizing.budget
    );
}
