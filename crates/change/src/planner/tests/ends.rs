//! What a plan promises of a finding, whoever found it.

use hugewise_model::{ByHand, Finding, InstanceId, Level, PageSize, Remedy, RuleId};

use super::made_hosts::{defaults, source};
use super::world::{World, shown};
use crate::plan::{EffectTime, ExpectedResolution, Plan, Risk};
use crate::planner::{PlanOptions, build_plan};

/// A finding of a rule that the planner has never heard of.
fn made_up(code: &'static str, instance: Option<InstanceId>, remedies: Vec<Remedy>) -> Finding {
    Finding {
        code: RuleId::new(code),
        name: "made-up",
        level: Level::Warn,
        instance,
        short: String::new(),
        summary: "something is wrong".into(),
        evidence: Vec::new(),
        cost: None,
        remedies,
        fix: Vec::new(),
    }
}

/// The plan for a host with one more finding.
fn planned(
    world: &World<'_>,
    options: &PlanOptions,
    finding: &dyn Fn(InstanceId) -> Finding,
) -> Plan {
    let mut seen = world.look();
    let instance_id = seen.instances[0].id();
    seen.assessment.findings.push(finding(instance_id));
    let sizing = seen.sizing(options, &defaults().1);
    build_plan(
        &seen.host,
        &seen.instances,
        &seen.assessment,
        sizing.as_ref(),
        &world.files,
        options,
    )
    .expect("a plan")
}

fn promises<'a>(plan: &'a Plan, code: &str) -> Vec<(&'a str, &'a ExpectedResolution)> {
    let all = plan.steps.iter().flat_map(|step| {
        step.expects.iter().map(move |expected_resolution| (step.id.as_str(), expected_resolution))
    });
    all.filter(|(_, expected_resolution)| expected_resolution.code == code).collect()
}

#[test]
fn a_rule_that_is_new_ends_where_the_last_of_its_remedies_is_done() {
    let base = source("no-pool-postgresql");
    let world = World::new(&*base);
    let options = PlanOptions::default();
    let pool = |_| {
        made_up(
            "HW999",
            None,
            vec![Remedy::SetPool(PageSize::MIB_2), Remedy::Consider("or wait".into())],
        )
    };
    let of_pool = planned(&world, &options, &pool);
    let [(step, promise)] = promises(&of_pool, "HW999")[..] else { panic!("{}", shown(&of_pool)) };
    assert_eq!((step, promise.when), ("pool-2M-now", EffectTime::Now), "{}", shown(&of_pool));

    let kept = |_| {
        made_up(
            "HW999",
            None,
            vec![Remedy::SetPool(PageSize::MIB_2), Remedy::KeepAtBoot(PageSize::MIB_2)],
        )
    };
    let of_boot = planned(&world, &options, &kept);
    let [(step, promise)] = promises(&of_boot, "HW999")[..] else { panic!("{}", shown(&of_boot)) };
    assert_eq!((step, promise.when), ("pools-boot", EffectTime::Now), "{}", shown(&of_boot));

    let restart = |id: InstanceId| {
        made_up(
            "HW999",
            Some(id.clone()),
            vec![Remedy::SetPool(PageSize::MIB_2), Remedy::Restart(id)],
        )
    };
    let of_server = planned(&world, &options, &restart);
    let [(step, promise)] = promises(&of_server, "HW999")[..] else {
        panic!("{}", shown(&of_server))
    };
    assert_eq!(
        (step, promise.when),
        ("postgresql-5433", EffectTime::Restart),
        "{}",
        shown(&of_server)
    );
}

#[test]
fn what_nobody_carries_out_is_listed_and_never_promised() {
    let base = source("no-pool-postgresql");
    let world = World::new(&*base);
    let by_hand = Remedy::ByHand(ByHand {
        what: "turn the key".into(),
        how: Vec::new(),
        irreversible: false,
    });
    for (remedies, title) in [
        (vec![Remedy::SetShmLimits], "raise kernel.shmmax and kernel.shmall"),
        (vec![Remedy::SetPool(PageSize::MIB_2), by_hand], "turn the key"),
        (vec![Remedy::KeepThpAtBoot], "set transparent huge pages to madvise at each boot too"),
    ] {
        let plan =
            planned(&world, &PlanOptions::default(), &|_| made_up("HW998", None, remedies.clone()));
        assert!(promises(&plan, "HW998").is_empty(), "{}", shown(&plan));
        // What is to be done is the title, and the finding its reason.
        let told = plan.instructions.iter().find(|instruction| instruction.title == title);
        let told = told.unwrap_or_else(|| panic!("HW998 is passed over:\n{}", shown(&plan)));
        assert!(told.text.starts_with("# HW998 made-up: "), "{}", told.text);
        assert!(!told.text.contains(title), "{}", told.text);
    }
}

/// A segment that no process maps goes with what is in it: ipcrm was once said to be safe.
#[test]
fn what_cannot_be_undone_is_called_destructive() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    let head = "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap";
    let segment = "0 7 600 2147483648 900 900 0 54321 54321 54321 54321 1 1 1 2147483648 0";
    world.put("/proc/sysvipc/shm", format!("{head}\n{segment}\n"));
    let (options, request) = defaults();
    let plan = world.plan(&options, &request);
    let told = plan.instructions.iter().find(|instruction| instruction.text.contains("ipcrm -m 7"));
    assert_eq!(
        told.map(|instruction| instruction.risk),
        Some(Risk::Destructive),
        "{}",
        shown(&plan)
    );
    assert!(plan.steps.iter().all(|step| step.risk != Risk::Destructive), "{}", shown(&plan));
}

#[test]
fn what_a_rule_says_twice_is_promised_once_and_only_where_all_of_it_ends() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/etc/sysctl.d/99-a.conf", "vm.nr_hugepages = 0\n");
    let mut seen = world.look();
    let found = made_up("HW997", None, vec![Remedy::SetPool(PageSize::MIB_2)]);
    seen.assessment.findings.extend([found.clone(), found.clone()]);
    let (options, request) = defaults();
    let sizing = seen.sizing(&options, &request);
    let planned = |seen: &super::world::Seen| {
        build_plan(
            &seen.host,
            &seen.instances,
            &seen.assessment,
            sizing.as_ref(),
            &world.files,
            &options,
        )
        .expect("a plan")
    };
    let both = planned(&seen);
    assert_eq!(promises(&both, "HW997").len(), 1, "{}", shown(&both));
    seen.assessment.findings.push(Finding { remedies: vec![Remedy::SetShmLimits], ..found });
    let left = planned(&seen);
    assert!(promises(&left, "HW997").is_empty(), "{}", shown(&left));
}

#[test]
fn a_pool_that_is_set_and_kept_ends_what_the_next_restart_and_boot_would_lose() {
    let base = source("two-clusters-one-too-big");
    let world = World::new(&*base);
    let (options, request) = defaults();
    let (plan, _) = super::world::holds("boot", &world, &options, &request);
    let [(step, promise)] = promises(&plan, "HW603")[..] else { panic!("{}", shown(&plan)) };
    assert_eq!((step, promise.when), ("pools-boot", EffectTime::Now), "{}", shown(&plan));
}

#[test]
fn a_pool_that_would_go_with_its_server_is_promised_to_stay() {
    let base = source("healthy-postgresql");
    let mut world = World::new(&*base);
    let pages =
        world.look().host.find_pool(PageSize::MIB_2).and_then(|pool| pool.total.get()).unwrap();
    for folder in ["/sys/kernel/mm/hugepages", "/sys/devices/system/node/node0/hugepages"] {
        let file = format!("{folder}/hugepages-2048kB/surplus_hugepages");
        world.put(&file, format!("{}\n", pages.get()));
    }
    assert!(
        world.look().codes(Level::Info).iter().any(|text| text.starts_with("HW210")),
        "the scene is none"
    );
    let (options, request) = defaults();
    let (plan, _) = super::world::holds("surplus", &world, &options, &request);
    let [(step, promise)] = promises(&plan, "HW210")[..] else { panic!("{}", shown(&plan)) };
    assert_eq!((step, promise.when), ("pool-2M-now", EffectTime::Now), "{}", shown(&plan));
}

#[test]
fn of_eight_small_servers_and_pages_for_four_four_are_restarted() {
    let base = source("no-pool-postgresql");
    let world = World::new(&*base);
    let mut seen = world.look();
    let small = |name: char| {
        let mut one = seen.instances[0].clone();
        one.name = format!("small-{name}");
        one.segments.truncate(1);
        one.segments
            .iter_mut()
            .for_each(|segment| segment.size = hugewise_model::Bytes::from_mib(32));
        let (page_size, source) = (PageSize::MIB_2, hugewise_model::DemandSource::Engine);
        one.demand = Some(hugewise_model::Demand {
            page_size,
            pages: hugewise_model::PageCount(20),
            source,
        });
        one.next = hugewise_model::Observed::Absent;
        one
    };
    let eight: Vec<_> = ('a'..='h').map(small).collect();
    seen.instances = eight;
    let hugewise_model::Observed::Known(pools) = &mut seen.host.pools else { panic!("no pools") };
    let pool = pools.iter_mut().find(|pool| pool.page_size == PageSize::MIB_2).unwrap();
    pool.total = hugewise_model::Observed::Known(hugewise_model::PageCount(83));
    pool.free = pool.total.clone();
    // No memory for more.
    seen.host.memory.available =
        hugewise_model::Observed::Known(hugewise_model::Bytes::from_mib(20));
    seen.assessment = hugewise_diagnose::assess_host(&seen.host, &seen.instances);
    let restart = seen.instances.iter().map(|instance| instance.name.clone()).collect();
    let options = PlanOptions { restart, shrink: true, ..PlanOptions::default() };
    let sizing = seen.sizing(&options, &defaults().1);
    let plan = build_plan(
        &seen.host,
        &seen.instances,
        &seen.assessment,
        sizing.as_ref(),
        &world.files,
        &options,
    )
    .unwrap();
    let restarts = plan
        .instructions
        .iter()
        .filter(|instruction| instruction.title.starts_with("restart postgresql small-"));
    assert_eq!(restarts.count(), 4, "{}", shown(&plan));
    let named = |text: &&String| {
        text.contains(" is not restarted: ") && !text.contains("no systemd service")
    };
    assert_eq!(plan.warnings.iter().filter(named).count(), 4, "{}", shown(&plan));
}

#[test]
fn whoever_names_a_server_is_told_whom_else_the_pool_is_for() {
    let base = source("two-clusters-one-too-big");
    let world = World::new(&*base);
    let seen = world.look();
    let main = seen.instances.iter().find(|instance| instance.name == "15/main").unwrap();
    let pages = hugewise_diagnose::demand::find_demand(&seen.host, main).unwrap().pages;
    let options = PlanOptions { instances: vec!["5433".into()], ..PlanOptions::default() };
    let (plan, _) = super::world::holds("named", &world, &options, &defaults().1);
    let line = format!(
        "the pool of 2 MiB pages is also used by others: {pages} for postgresql 15/main, which \
             runs on it"
    );
    assert!(plan.warnings.contains(&line), "{}", shown(&plan));
}

/// A file of somebody else's that says another number would be found after each plan that overrides
/// it.
#[test]
fn what_a_plan_overrides_is_said_in_it_and_found_no_more() {
    for (fixture, shrink, site) in [
        ("idle-pool-mariadb", true, "/etc/sysctl.d/50-site.conf"),
        ("idle-pool-mariadb", true, "/etc/tmpfiles.d/site.conf"),
        ("no-pool-postgresql", false, "/etc/sysctl.d/50-site.conf"),
    ] {
        let base = source(fixture);
        let mut world = World::new(&*base);
        let pages =
            world.look().host.find_pool(PageSize::MIB_2).and_then(|pool| pool.total.get()).unwrap();
        let line = match site.contains("tmpfiles") {
            true => format!(
                "w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - {}\n",
                pages.get()
            ),
            false => format!("vm.nr_hugepages = {}\n", pages.get()),
        };
        world.put(site, line);
        let before = world.look().codes(Level::Info);
        let options = PlanOptions { shrink, ..PlanOptions::default() };
        let (plan, after) = super::world::holds(site, &world, &options, &defaults().1);
        let boot = plan.steps.iter().find(|step| step.id == "pools-boot");
        let boot = boot.unwrap_or_else(|| panic!("{site}: nothing to override:\n{}", shown(&plan)));
        let overrides = format!("it overrides {site}:1 ({})", pages.get());
        assert!(boot.why.ends_with(&overrides), "{overrides}: {}", boot.why);
        let new: Vec<String> = after
            .look()
            .codes(Level::Info)
            .into_iter()
            .filter(|text| !before.contains(text))
            .collect();
        let of_pools: Vec<&String> = new.iter().filter(|text| text.starts_with("HW60")).collect();
        assert!(of_pools.is_empty(), "{site}: {of_pools:?}\n{}", shown(&plan));
    }
}
