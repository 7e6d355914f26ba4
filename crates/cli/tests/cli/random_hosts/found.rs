//! Hosts on which something was once foretold or planned wrongly, each with its numbers worked out
//! by hand.

use hugewise_change::planner::PlanOptions;
use hugewise_model::PageSize;

use crate::random_hosts::draw::{Amount, Drawn, Event, Line, MADVISE, Spec, Wish};
use crate::random_hosts::judge::{self, Seen};
use crate::random_hosts::judge_plan;
use crate::random_hosts::kernel::{GIB_1, MIB_2};
use crate::random_hosts::servers::{Kind, Limit};
use crate::random_hosts::world::World;

fn server(kind: Kind, policy: usize, size: usize) -> Drawn {
    Drawn { kind, policy, size, gib: false, limit: 9, touches: true, ipc_lock: false }
}

fn host(servers: Vec<Drawn>) -> Spec {
    Spec {
        memory_gib: 48,
        nodes: 1,
        servers,
        group: 0,
        pool: Amount::None,
        gib_pool: Amount::None,
        overcommit: Amount::None,
        events: Vec::new(),
        lines: Vec::new(),
        words: "quiet",
        old_kernel: false,
        wish: Wish::Plain,
        thp: MADVISE,
        to_be: None,
        asm: false,
    }
}

/// The plan carried out; everything else that is asked of it holds.
fn carried_out(world: &World) -> (World, String) {
    carried_out_as(world, &PlanOptions::default())
}

fn carried_out_as(world: &World, options: &PlanOptions) -> (World, String) {
    let seen = Seen::asked(world, options);
    let moments = world.moments();
    let wrong = judge::foretold(world, &seen, &moments);
    assert!(wrong.is_empty(), "{wrong:#?}");
    let (plan, wrong) = judge_plan::planned(world, &seen, &moments, options);
    assert!(wrong.is_empty(), "{wrong:#?}\n{}", judge_plan::shown(&plan));
    let mut after = world.clone();
    plan.steps.iter().for_each(|step| after.carry_out(step));
    (after, judge_plan::shown(&plan))
}

#[test]
fn one_that_is_off_gets_the_pages_of_its_files_and_not_of_what_it_runs_with() {
    // It runs with 1253 MiB (627 pages); its file says off and shared_buffers=4096MB: 4213 MiB are
    // 2107 pages.
    let mut spec = host(vec![server(Kind::PostgreSql, 0, 4)]);
    spec.events = vec![Event::Settings { of: 0, policy: 2, size: 6, gib: false }];
    let (after, plan) = carried_out(&spec.world());
    assert!(after.kernel.pools[&MIB_2].total() >= 2107, "{plan}");
}

#[test]
fn a_server_whose_cgroup_would_kill_it_is_not_given_a_pool_to_die_of() {
    // 4213 MiB, of which its cgroup lets it touch half.
    let mut spec = host(vec![server(Kind::PostgreSql, 0, 6)]);
    spec.servers[0].limit = 0;
    let world = spec.world();
    assert!(matches!(world.servers[0].limit, Limit::Touched(_)));
    let (after, plan) = carried_out(&world);
    assert_eq!(after.kernel.pools[&MIB_2].total(), 0, "{plan}");
    assert!(plan.contains("hugetlb.2MB.max"), "{plan}");
}

#[test]
fn a_group_that_no_file_sets_is_kept_for_the_boot() {
    // 3072 MiB of Oracle's are 1536 pages; its group was set at run time alone.
    let mut spec = host(vec![server(Kind::Oracle, 0, 2)]);
    (spec.group, spec.pool) = (54321, Amount::More);
    spec.lines =
        vec![Line::Sysctl { file: "50-db.conf", key: "vm.nr_hugepages", amount: Amount::More }];
    let (after, plan) = carried_out(&spec.world());
    assert_eq!(
        crate::random_hosts::boot::boot(&after.kernel, &after.files).shm_group,
        54321,
        "{plan}"
    );
}

#[test]
fn a_small_server_that_insists_is_planned_for_too() {
    // 143 MiB are 72 pages: too few for a finding about page tables, and it does not start without
    // them.
    let mut spec = host(vec![server(Kind::PostgreSql, 0, 0)]);
    spec.events = vec![Event::Settings { of: 0, policy: 1, size: 0, gib: false }];
    let (after, plan) = carried_out(&spec.world());
    assert_eq!(after.kernel.pools[&MIB_2].total(), 72, "{plan}");
}

#[test]
fn pages_for_one_that_is_to_be_made_to_ask_are_not_idle_for_the_next() {
    // Oracle of 3072 MiB, off, and MariaDB, off: the plan made for the one is not the next plan's
    // reason for the other.
    let spec = host(vec![server(Kind::Oracle, 2, 2), server(Kind::MariaDb, 1, 1)]);
    let (after, plan) = carried_out(&spec.world());
    assert_eq!(after.kernel.pools[&MIB_2].total(), 1538, "{plan}");
}

#[test]
fn one_that_was_small_and_will_ask_for_much_is_planned_for() {
    // It runs with 143 MiB; its file says shared_buffers=6144MB: 6302 MiB are 3151 pages.
    let mut spec = host(vec![server(Kind::PostgreSql, 2, 0)]);
    spec.events = vec![Event::Settings { of: 0, policy: 0, size: 7, gib: false }];
    let (after, plan) = carried_out(&spec.world());
    assert!(after.kernel.pools[&MIB_2].total() >= 3151, "{plan}");
}

#[test]
fn another_page_size_that_is_asked_for_holds_what_the_files_come_to() {
    // It runs with 2120 MiB; its file says shared_buffers=6144MB: 6302 MiB are 7 pages of 1 GiB.
    let mut spec = host(vec![server(Kind::PostgreSql, 2, 5)]);
    spec.events = vec![Event::Settings { of: 0, policy: 2, size: 7, gib: false }];
    let options = PlanOptions { page_size: PageSize::new(GIB_1), ..PlanOptions::default() };
    let (after, plan) = carried_out_as(&spec.world(), &options);
    assert!(after.kernel.pools[&GIB_1].total() >= 7, "{plan}");
}

#[test]
fn a_boot_file_about_one_node_says_the_same_as_the_pool() {
    // 1253 MiB are 627 pages; a line of tmpfiles.d leaves node 1 none.
    let mut spec = host(vec![server(Kind::PostgreSql, 0, 4)]);
    spec.nodes = 2;
    let path = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages";
    spec.lines = vec![Line::Tmpfiles { file: "10-a.conf", path, amount: Amount::None }];
    let (after, plan) = carried_out(&spec.world());
    assert_eq!(
        crate::random_hosts::boot::boot(&after.kernel, &after.files).pools[&MIB_2].total(),
        627,
        "{plan}"
    );
}

#[test]
fn to_name_one_without_a_way_to_a_pool_changes_no_pool() {
    // PostgreSQL of 1253 MiB asks, and is not named.
    let spec = host(vec![server(Kind::Redis, 0, 1), server(Kind::PostgreSql, 0, 4)]);
    let options = PlanOptions { instances: vec!["redis 6379".into()], ..PlanOptions::default() };
    let (after, plan) = carried_out_as(&spec.world(), &options);
    assert_eq!(after.kernel.pools[&MIB_2].total(), 0, "{plan}");
}

#[test]
fn one_that_its_files_put_under_automatic_memory_management_is_planned_no_pages() {
    // Oracle of 3072 MiB runs without MEMORY_TARGET, and its file has it now.
    let mut spec = host(vec![server(Kind::Oracle, 0, 2)]);
    spec.events = vec![Event::Settings { of: 0, policy: 4, size: 2, gib: false }];
    let (after, plan) = carried_out(&spec.world());
    assert_eq!(after.kernel.pools[&MIB_2].total(), 0, "{plan}");
}

#[test]
fn nobody_is_let_have_pages_before_they_are_there() {
    // Oracle has no right to the pages that the pool gets for it.
    let spec = host(vec![server(Kind::Oracle, 0, 2), server(Kind::PostgreSql, 0, 4)]);
    let (_, plan) = carried_out(&spec.world());
    let group = plan
        .lines()
        .find(|line| line.trim_start().starts_with("step shm-group"))
        .unwrap_or_default();
    assert!(group.ends_with("relies on [\"pool-2M-now\", \"pools-boot\"]"), "{plan}");
}

#[test]
fn a_second_plan_comes_to_the_same_number_once_the_server_asks() {
    // MariaDB of 512 MiB is partly on huge pages; its file says large_pages=OFF and 3072 MiB.
    let mut spec = host(vec![server(Kind::MariaDb, 0, 1)]);
    spec.pool = Amount::Half;
    spec.events = vec![Event::Settings { of: 0, policy: 1, size: 3, gib: false }];
    carried_out(&spec.world());
}

#[test]
fn one_that_had_the_worst_place_for_its_pool_needs_no_more_at_its_next_start() {
    // MariaDB of 256 MiB: 53 + 62 + 128 + 8 + 8 are 259 pages, and at most 5 for the place of its
    // pool.
    let spec = host(vec![server(Kind::MariaDb, 0, 0)]);
    let options = PlanOptions { restart: vec!["mariadb 3306".into()], ..PlanOptions::default() };
    let (after, plan) = carried_out_as(&spec.world(), &options);
    assert_eq!(after.kernel.pools[&MIB_2].total(), 264, "{plan}");
}

#[test]
fn whoever_its_cgroup_refuses_takes_no_pages_of_others() {
    // 3151 pages for 6302 MiB are there at the boot, and the other one's 72 are beyond the 36 that
    // its cgroup may reserve.
    let mut spec = host(vec![server(Kind::PostgreSql, 0, 7), server(Kind::PostgreSql, 0, 0)]);
    spec.servers[1].limit = 1;
    spec.pool = Amount::First;
    spec.lines =
        vec![Line::Sysctl { file: "50-db.conf", key: "vm.nr_hugepages", amount: Amount::First }];
    let world = spec.world();
    assert_eq!(world.moments()[&0].boot, crate::random_hosts::servers::State::All);
    carried_out(&world);
}

#[test]
fn words_of_an_early_plan_stay_in_their_places() {
    // 7 pages of 1 GiB for 6302 MiB, and 627 of 2 MiB for 1253.
    let mut spec = host(vec![server(Kind::PostgreSql, 1, 7), server(Kind::PostgreSql, 0, 4)]);
    spec.servers[0].gib = true;
    spec.gib_pool = Amount::Exact;
    let options = PlanOptions { early: true, ..PlanOptions::default() };
    let (_, plan) = carried_out_as(&spec.world(), &options);
    assert!(plan.contains("hugepagesz=2M hugepages=627 hugepagesz=1G hugepages=7"), "{plan}");
}

#[test]
fn one_that_its_files_take_off_automatic_memory_management_gets_its_pages() {
    // Oracle of 768 MiB runs with MEMORY_TARGET, and its file has sga_target=3072M without it: at
    // least 1536 pages.
    let mut spec = host(vec![server(Kind::Oracle, 4, 0)]);
    spec.events = vec![Event::Settings { of: 0, policy: 0, size: 2, gib: false }];
    let (after, plan) = carried_out(&spec.world());
    assert!(after.kernel.pools[&MIB_2].total() >= 1536, "{plan}");
}

#[test]
fn a_page_size_for_one_gives_nobody_else_a_right_to_the_pages_of_others() {
    // The boot brings 1200 pages, which two have and Oracle, of 384, has no right to: pages of 1
    // GiB are asked for alone.
    let mut spec = host(vec![
        server(Kind::Oracle, 0, 0),
        server(Kind::PostgreSql, 0, 3),
        server(Kind::Jvm, 0, 1),
    ]);
    (spec.words, spec.old_kernel) = ("hugepages=1200", true);
    let options = PlanOptions { page_size: PageSize::new(GIB_1), ..PlanOptions::default() };
    let (_, plan) = carried_out_as(&spec.world(), &options);
    assert!(!plan.contains("step memlock-") && !plan.contains("step shm-group"), "{plan}");
}

#[test]
fn a_few_pages_to_spare_are_no_reason_to_have_one_more_ask() {
    // Of 3451 pages that a file asks for 3151 are one's: 300 to spare, and MariaDB, which does not
    // ask, needs 264.
    let mut spec = host(vec![server(Kind::PostgreSql, 1, 7), server(Kind::MariaDb, 1, 0)]);
    spec.pool = Amount::Exact;
    spec.lines =
        vec![Line::Sysctl { file: "50-db.conf", key: "vm.nr_hugepages", amount: Amount::More }];
    let (_, plan) = carried_out(&spec.world());
    assert!(!plan.contains("large_pages = ON"), "{plan}");
}

#[test]
fn a_pool_that_lets_one_more_in_is_large_enough_for_all() {
    // At the boot as it is, both ask for pages on demand: the 632 of a Java machine are there, and
    // the 3151 of PostgreSQL are not.
    let mut spec = host(vec![server(Kind::Jvm, 0, 2), server(Kind::PostgreSql, 0, 7)]);
    (spec.nodes, spec.pool) = (2, Amount::Half);
    let key = "vm.nr_overcommit_hugepages";
    spec.lines = vec![Line::Sysctl { file: "zzz-last.conf", key, amount: Amount::Now }];
    let options = PlanOptions { instances: vec!["jvm appa.jar".into()], ..PlanOptions::default() };
    let (after, plan) = carried_out_as(&spec.world(), &options);
    assert_eq!(after.worst_of_boot()[&0], crate::random_hosts::servers::State::All, "{plan}");
}

#[test]
fn a_boot_with_another_default_size_is_foretold_by_that_size() {
    // 2120 MiB are 3 pages of 1 GiB, of the 8 that the boot has by then: none of its 1060 of 2 MiB.
    let mut spec = host(vec![server(Kind::PostgreSql, 0, 5)]);
    (spec.pool, spec.words) = (Amount::Exact, "default_hugepagesz=1G hugepages=8");
    let world = spec.world();
    assert_eq!(world.booted(&[0]).kernel.pools[&GIB_1].free(), 5);
    let (after, plan) = carried_out(&world);
    assert_eq!(
        crate::random_hosts::boot::boot(&after.kernel, &after.files).pools[&MIB_2].total(),
        0,
        "{plan}"
    );
    // And where it has two, by none.
    spec.words = "default_hugepagesz=1G hugepages=2";
    let world = spec.world();
    assert_eq!(world.moments()[&0].boot, crate::random_hosts::servers::State::None);
    carried_out(&world);
}

#[test]
fn a_pool_that_a_small_server_will_ask_for_is_kept_without_an_if() {
    // 143 MiB: too little for a plan of its own, and it asks for 72 of the 372 pages at its next
    // start.
    let mut spec = host(vec![server(Kind::PostgreSql, 0, 0)]);
    spec.events = vec![Event::Pool { gib: false, amount: Amount::More }];
    let seen = Seen::of(&spec.world());
    let (assessment, level) = (&seen.assessment, hugewise_model::Level::Info);
    let texts = hugewise_diagnose::remedy::to_do(&seen.host, &seen.instances, assessment, level);
    let kept: Vec<_> = texts
        .iter()
        .filter(|(remedy, _)| matches!(remedy, hugewise_model::Remedy::KeepAtBoot(_)))
        .collect();
    assert!(
        !kept.is_empty() && kept.iter().all(|(_, text)| !text.contains("only if")),
        "{texts:?}"
    );
}

#[test]
fn a_boot_that_an_estimate_decides_is_not_foretold() {
    // It runs with 2120 MiB on base pages; its file says 8192 MB: 8399 MiB are 4200 pages, which
    // the boot has on demand. A hundredth of that is 42.
    let mut spec = host(vec![server(Kind::PostgreSql, 2, 5)]);
    (spec.memory_gib, spec.events) =
        (96, vec![Event::Settings { of: 0, policy: 0, size: 8, gib: false }]);
    let path = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages";
    spec.lines = vec![Line::Tmpfiles { file: "50-db.conf", path, amount: Amount::Exact }];
    let world = spec.world();
    let seen = Seen::of(&world);
    let boot = &seen.assessment.situation.forecasts_for(&seen.instances[0]).unwrap().boot;
    assert_eq!(boot.coverage.as_str(), "unknown", "{boot:?}");
    let (after, plan) = carried_out(&world);
    assert!(after.kernel.pools[&MIB_2].total() >= 4200, "{plan}");
}

#[test]
fn a_mariadb_takes_its_stretches_whole_and_is_not_killed_for_what_it_does_not_take() {
    // Of 360 pages MariaDB of 1024 MiB takes 53 and 62 for its caches, not the 517 of its pool, and
    // 8 and 8 for its log: 131, of the 324 that its cgroup lets it touch.
    let mut spec = host(vec![server(Kind::MariaDb, 0, 2), server(Kind::PostgreSql, 0, 0)]);
    spec.servers[0].limit = 0;
    spec.events = vec![Event::Pool { gib: false, amount: Amount::Half }];
    let world = spec.world();
    assert_eq!(world.kernel.pools[&MIB_2].total(), 360);
    assert_eq!(world.restarted(0), crate::random_hosts::servers::State::Partly);
    carried_out(&world);
}

#[test]
fn one_that_holds_surplus_pages_is_not_told_to_insist_where_only_the_boot_is_planned() {
    // 2120 MiB are 1060 pages; the pool was set to none under it, and nothing sets it again before
    // the boot.
    let mut spec = host(vec![server(Kind::PostgreSql, 0, 5)]);
    (spec.pool, spec.events) =
        (Amount::Exact, vec![Event::Pool { gib: false, amount: Amount::None }]);
    let options = PlanOptions { now: false, ..PlanOptions::default() };
    let (after, plan) = carried_out_as(&spec.world(), &options);
    assert!(!plan.contains("huge_pages = on"), "{plan}");
    assert_eq!(
        crate::random_hosts::boot::boot(&after.kernel, &after.files).pools[&MIB_2].total(),
        1060,
        "{plan}"
    );
    // With the running kernel's pool it may be.
    let (after, plan) = carried_out(&spec.world());
    assert!(plan.contains("huge_pages = on"), "{plan}");
    assert_eq!(after.kernel.pools[&MIB_2].surplus(), 0, "{plan}");
}

#[test]
fn surplus_pages_of_one_that_moves_to_another_size_are_kept_until_it_does() {
    // 8399 and 6302 MiB, 4200 and 3151 pages, all surplus. The first is set to 3 pages of 1 GiB
    // (2120 MiB): with 3151 of the 7351 kept, the second one's 3151 would go when it stops, as 4200
    // surplus pages were left.
    let mut spec = host(vec![server(Kind::PostgreSql, 1, 8), server(Kind::PostgreSql, 0, 7)]);
    spec.pool = Amount::Exact;
    spec.events = vec![
        Event::Pool { gib: false, amount: Amount::None },
        Event::Settings { of: 0, policy: 0, size: 5, gib: true },
    ];
    let options = PlanOptions { boot: false, ..PlanOptions::default() };
    let (after, plan) = carried_out_as(&spec.world(), &options);
    let pool = &after.kernel.pools[&MIB_2];
    assert_eq!((pool.total(), pool.surplus()), (7351, 0), "{plan}");
}

#[test]
fn a_right_that_the_boot_takes_back_is_not_kept_where_others_then_have_the_pages() {
    // Oracle's 3072 pages are there, and the boot brings 3072: Java has 1706 of these then, as
    // Oracle has lost its group.
    let mut spec = host(vec![server(Kind::Oracle, 0, 3), server(Kind::Jvm, 0, 4)]);
    (spec.group, spec.pool) = (54321, Amount::First);
    spec.lines =
        vec![Line::Sysctl { file: "50-db.conf", key: "vm.nr_hugepages", amount: Amount::Now }];
    let options = PlanOptions { page_size: PageSize::new(GIB_1), ..PlanOptions::default() };
    let (after, plan) = carried_out_as(&spec.world(), &options);
    assert_eq!(crate::random_hosts::boot::boot(&after.kernel, &after.files).shm_group, 0, "{plan}");
}

#[test]
fn a_limit_that_keeps_the_only_one_that_needs_pages_from_them_is_said() {
    // Oracle runs under MEMORY_TARGET with 768 MiB, and its cgroup lets it touch 384; its file asks
    // for 1024 MiB without.
    let mut spec = host(vec![server(Kind::Oracle, 4, 0)]);
    spec.servers[0].limit = 0;
    spec.events = vec![Event::Settings { of: 0, policy: 0, size: 1, gib: false }];
    let (_, plan) = carried_out(&spec.world());
    assert!(
        plan.contains("no pages are planned for oracle DBA: ") && plan.contains("384.0 MiB"),
        "{plan}"
    );
}

#[test]
fn whoever_keeps_his_page_size_is_told_what_a_boot_with_another_default_leaves() {
    // 4 pages of 1 GiB of the 8 that the boot brings; MariaDB may take any of the new default.
    let mut spec = host(vec![server(Kind::Qemu, 0, 2), server(Kind::MariaDb, 0, 1)]);
    spec.servers[0].gib = true;
    (spec.gib_pool, spec.words) = (Amount::More, "default_hugepagesz=1G hugepages=8");
    let (_, plan) = carried_out(&spec.world());
    assert!(plan.contains("qemu vma may lack huge pages at that boot: "), "{plan}");
}

#[test]
fn pages_that_the_boot_brings_are_not_left_for_such_as_it_does_not_bring() {
    // 6302 and 4213 MiB, 3151 and 2107 pages, for which a file has 5558; on pages of 1 GiB they
    // would be 7 and 5, and beside the 10.9 GiB of that file too much for 24 GiB.
    let mut spec = host(vec![server(Kind::PostgreSql, 0, 7), server(Kind::PostgreSql, 0, 6)]);
    spec.memory_gib = 24;
    spec.lines =
        vec![Line::Sysctl { file: "zz-theirs.conf", key: "vm.nr_hugepages", amount: Amount::More }];
    let options = PlanOptions { page_size: PageSize::new(GIB_1), ..PlanOptions::default() };
    let (_, plan) = carried_out_as(&spec.world(), &options);
    assert!(!plan.contains("huge_page_size"), "{plan}");
    assert!(plan.contains("postgresql 15/a keeps its page size: "), "{plan}");
}

#[test]
fn a_boot_that_asks_for_too_many_is_left_what_one_needs_that_was_not_named() {
    // 200 pages of 1 GiB are asked for in 24 GiB; one server takes one, and the plan is about the
    // other, whose limit is too small.
    let mut spec = host(vec![server(Kind::PostgreSql, 2, 5), server(Kind::PostgreSql, 0, 0)]);
    spec.servers[0].limit = 1;
    spec.servers[1].gib = true;
    (spec.memory_gib, spec.words) = (24, "default_hugepagesz=1G hugepages=8");
    let mut world = spec.world();
    world.files.insert("/etc/sysctl.d/zzz-last.conf".into(), "vm.nr_hugepages = 200\n".into());
    let options =
        PlanOptions { instances: vec!["postgresql 15/a".into()], ..PlanOptions::default() };
    let (after, plan) = carried_out_as(&world, &options);
    assert!(
        crate::random_hosts::boot::boot(&after.kernel, &after.files).pools[&GIB_1].total() >= 1,
        "{plan}"
    );
}

#[test]
fn one_that_raises_the_pool_leaves_others_what_they_have_on_demand() {
    // Oracle raises the pool by its 3072 pages itself, whoever starts first: PostgreSQL's 627 are
    // there in the 1849 on demand.
    let mut spec = host(vec![server(Kind::Oracle, 3, 3), server(Kind::PostgreSql, 1, 4)]);
    spec.servers[0].ipc_lock = true;
    spec.pool = Amount::Exact;
    spec.lines = vec![Line::Sysctl {
        file: "50-db.conf",
        key: "vm.nr_overcommit_hugepages",
        amount: Amount::Half,
    }];
    let world = spec.world();
    let wrong = judge::foretold(&world, &Seen::of(&world), &world.moments());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_right_is_kept_for_the_boot_where_those_leave_who_would_have_the_pages() {
    // The boot brings 1060 pages, which PostgreSQL's 2120 MiB would take of it: with 3 of 1 GiB
    // these are Oracle's, which needs 384.
    let mut spec = host(vec![server(Kind::PostgreSql, 3, 5), server(Kind::Oracle, 3, 0)]);
    spec.group = 54321;
    spec.lines =
        vec![Line::Sysctl { file: "zzz-last.conf", key: "vm.nr_hugepages", amount: Amount::First }];
    let options = PlanOptions { page_size: PageSize::new(GIB_1), ..PlanOptions::default() };
    let (after, plan) = carried_out_as(&spec.world(), &options);
    assert_eq!(
        crate::random_hosts::boot::boot(&after.kernel, &after.files).shm_group,
        54321,
        "{plan}"
    );
    assert_eq!(after.worst_of_boot()[&1], crate::random_hosts::servers::State::All, "{plan}");
}

#[test]
fn one_partly_on_huge_pages_that_is_to_have_less_memory_needs_no_more_than_it_holds() {
    // Of 1572 pages Oracle of 6144 MiB, which needs 3072, found 1500 beside PostgreSQL's 72 for 143
    // MiB; its file says 1024 MiB. Two are to stay free beside it.
    let mut spec = host(vec![server(Kind::PostgreSql, 1, 0), server(Kind::Oracle, 0, 3)]);
    (spec.group, spec.pool) = (54321, Amount::Half);
    spec.events = vec![Event::Settings { of: 1, policy: 0, size: 1, gib: false }];
    let world = spec.world();
    assert_eq!(world.servers[1].held(MIB_2), 1500);
    let (after, plan) = carried_out(&world);
    assert_eq!(after.kernel.pools[&MIB_2].total(), 1574, "{plan}");
}

#[test]
fn a_heap_that_grows_begins_with_what_it_is_told_to_begin_with() {
    // Of 1 GiB it begins with 256 MiB, 128 pages, and 120 beside: 248 of the 316 that the boot has
    // on demand.
    let mut spec = host(vec![server(Kind::Jvm, 0, crate::random_hosts::servers::ZGC)]);
    let path = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages";
    spec.lines = vec![Line::Tmpfiles { file: "zzz-last.conf", path, amount: Amount::Half }];
    let world = spec.world();
    assert_eq!(world.moments()[&0].boot, crate::random_hosts::servers::State::All);
    let (after, plan) = carried_out(&world);
    assert!(after.kernel.pools[&MIB_2].total() >= 632, "{plan}");
}
