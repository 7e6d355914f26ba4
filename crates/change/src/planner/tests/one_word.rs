//! What `check` tells people to do and what the plan does are the same, to the word.

use hugewise_advice::remedy;
use hugewise_model::{Level, Remedy};

use super::made_hosts::{as_debian_has_it, defaults, has, source, step};
use super::world::{World, shown};
use crate::plan::Plan;

/// What `check` says is to be done.
fn to_do(world: &World<'_>) -> Vec<(Remedy, String)> {
    let seen = world.look();
    remedy::to_do(&seen.host, &seen.instances, &seen.assessment, Level::Warn)
}

/// The lines of a plan in which somebody reads what a setting is to be.
fn words(plan: &Plan) -> String {
    let steps = plan.steps.iter().map(|step| step.title.clone());
    let by_hand = plan.instructions.iter().map(|it| format!("{}\n{}", it.title, it.text));
    steps.chain(by_hand).collect::<Vec<_>>().join("\n").replace(" = ", "=")
}

/// The value of a setting that ends a line of `check`: `huge_pages=on`.
fn values(line: &str) -> Vec<&str> {
    line.split([' ', ',']).filter(|word| word.split_once('=').is_some_and(|(name, _)| name.len() > 3)).collect()
}

#[test]
fn a_server_told_to_insist_is_told_so_by_both() {
    let auto = "/srv/databases/15/main/postgresql.auto.conf";
    for (what, text) in [("off", "huge_pages = 'off'\n"), ("sysv", "shared_memory_type = 'sysv'\n")] {
        let base = source("healthy-postgresql");
        let mut world = World::new(&*base);
        world.put(auto, text);
        let (options, request) = defaults();
        let plan = world.plan(&options, &request);
        let lines = to_do(&world);
        let setting = lines.iter().find(|(remedy, _)| matches!(remedy, Remedy::SetSetting(_)));
        let (_, line) = setting.unwrap_or_else(|| panic!("{what}: {lines:?}"));
        for value in values(line) {
            assert!(words(&plan).contains(value), "{what}: {line}\n{}", shown(&plan));
        }
        assert!(what != "off" || line.ends_with("huge_pages=on"), "{line}");
    }
}

#[test]
fn a_server_that_may_not_insist_yet_is_told_to_ask_by_both() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    as_debian_has_it(&mut world, "huge_pages = off\n");
    // The pool has to wait for the next boot.
    let meminfo = world.text("/proc/meminfo");
    let lines = meminfo.lines().map(|line| match line.split_once(':') {
        Some(("MemAvailable", _)) => "MemAvailable:     409600 kB",
        _ => line,
    });
    let meminfo = lines.collect::<Vec<_>>().join("\n") + "\n";
    world.put("/proc/meminfo", meminfo);
    let (options, request) = defaults();
    let plan = world.plan(&options, &request);
    let lines = to_do(&world);
    let line = lines.iter().find(|(remedy, _)| matches!(remedy, Remedy::SetSetting(_))).map(|(_, line)| line.clone());
    assert!(line.as_deref().is_some_and(|line| line.ends_with("huge_pages=try")), "{lines:?}");
    assert!(words(&plan).contains("huge_pages=try") && !words(&plan).contains("huge_pages=on"), "{}", shown(&plan));
}

/// With vm.overcommit_memory=2 each page of the pool lowers CommitLimit by ratio % of it at once
/// (Documentation/mm/overcommit-accounting.rst): 537 pages of 2 MiB at 50 % are 537 MiB.
#[test]
fn a_pool_that_strict_overcommit_has_no_room_for_waits() {
    let base = source("no-pool-postgresql");
    let plan_with = |limit_kib: u64, committed_kib: u64| {
        let mut world = World::new(&*base);
        world.put("/proc/sys/vm/overcommit_memory", "2\n");
        world.put("/proc/sys/vm/overcommit_ratio", "50\n");
        let meminfo = world.text("/proc/meminfo");
        let lines = meminfo.lines().map(|line| match line.split_once(':') {
            Some(("CommitLimit", _)) => format!("CommitLimit: {limit_kib} kB"),
            Some(("Committed_AS", _)) => format!("Committed_AS: {committed_kib} kB"),
            _ => line.to_owned(),
        });
        let meminfo = lines.collect::<Vec<_>>().join("\n") + "\n";
        world.put("/proc/meminfo", meminfo);
        let (options, request) = defaults();
        world.plan(&options, &request)
    };
    let tight = plan_with(12_365_636, 12_300_000);
    assert!(!has(&tight, "pool-2M-now"), "{}", shown(&tight));
    let by_hand = tight.instructions.iter().find(|it| it.text.contains("CommitLimit"));
    let by_hand = by_hand.unwrap_or_else(|| panic!("{}", shown(&tight)));
    let (stop, set) = (by_hand.text.find("stop"), by_hand.text.find("echo 537"));
    assert!(stop.is_some() && stop < set, "{}", by_hand.text);
    assert!(has(&tight, "pools-boot"), "{}", shown(&tight));
    // 1 GiB beyond what is committed is enough for 537 MiB less, and for what the kernel keeps for root.
    let roomy = plan_with(12_365_636, 12_365_636 - (1 << 20));
    assert!(has(&roomy, "pool-2M-now"), "{}", shown(&roomy));
}

#[test]
fn a_size_of_thp_that_is_always_is_what_check_names() {
    let base = source("healthy-postgresql");
    let mut world = World::new(&*base);
    world.put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    world.put("/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", "[always] inherit madvise never\n");
    let lines = to_do(&world);
    let line = lines.iter().find(|(remedy, _)| *remedy == Remedy::SetThp).map(|(_, line)| line.as_str());
    assert_eq!(line, Some("let transparent huge pages of 2 MiB follow the top switch, which is never"), "{lines:?}");
    let (options, request) = defaults();
    let plan = world.plan(&options, &request);
    let changed: Vec<String> = step(&plan, "thp").changes.iter().map(|change| format!("{change:?}")).collect();
    assert!(changed.iter().all(|it| it.contains("hugepages-2048kB") || it.contains("tmpfiles")), "{changed:?}");
}
