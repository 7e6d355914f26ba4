//! Pools, now and at boot, on captured hosts with something more on them.

use hugewise_diagnose::sizing::Request;
use hugewise_model::{PageCount, PageSize};

use super::made_command_lines::gib_pages_at_boot;
use super::made_hosts::{content, defaults, has, source, step};
use super::world::{World, holds, shown};
use crate::plan::{Change, PoolRef};
use crate::planner::PlanOptions;

#[test]
fn a_file_that_has_the_last_word_is_named_with_its_line() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/etc/sysctl.d/zzz-other.conf", "# theirs\nvm.nr_hugepages=8\n");
    let (options, request) = defaults();
    let (plan, _) = holds("zzz", &world, &options, &request);
    let by_hand = "remove /etc/sysctl.d/zzz-other.conf:2, which has the last word on the 2 MiB \
         pool of the next boot";
    assert!(
        plan.instructions.iter().any(|instruction| instruction.title == by_hand),
        "{}",
        shown(&plan)
    );
    // A server that insists would not start after the next boot.
    assert!(!has(&plan, "postgresql-5433"), "{}", shown(&plan));
}

#[test]
fn a_file_that_sorts_before_ours_is_overruled() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/etc/sysctl.d/99-theirs.conf", "vm.nr_hugepages=8\n");
    world.put("/usr/lib/tmpfiles.d/theirs.conf", "w /proc/sys/vm/nr_hugepages - - - - 9\n");
    let (options, request) = defaults();
    let (plan, after) = holds("99", &world, &options, &request);
    assert_eq!(after.pages_after_boot(PageSize::MIB_2), PageCount(537));
    let lines = content(&plan, "/etc/tmpfiles.d/00-hugewise-pools.conf");
    assert!(lines.ends_with("w /proc/sys/vm/nr_hugepages - - - - 537\n"), "{lines}");
}

/// `vm.nr_hugepages` counts pages of the default size, and `default_hugepagesz=` of the next boot
/// changes that.
#[test]
fn a_next_boot_with_another_default_size_is_told_of_each_pool_by_its_own_file() {
    const GIB_BY_DEFAULT: &str = "default_hugepagesz=1G hugepagesz=1G hugepages=2";
    let base = source("healthy-postgresql");
    let mut world = World::new(&*base);
    world.files.set_file("/etc/sysctl.d/60-hugepages.conf", None);
    world.put_grub(GIB_BY_DEFAULT);
    let names = |world: &mut World<'_>| {
        world.put("/srv/databases/15/main/postgresql.auto.conf", "huge_page_size = '2MB'\n");
    };
    names(&mut world);
    let (options, request) = defaults();
    let (plan, after) = holds("another default", &world, &options, &request);
    let lines = content(&plan, "/etc/tmpfiles.d/00-hugewise-pools.conf");
    assert!(
        lines.ends_with("\nw /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 540\n"),
        "{lines}"
    );
    assert!(!shown(&plan).contains("sysctl.d"), "{}", shown(&plan));
    let pages = |world: &World<'_>| {
        (world.pages_after_boot(PageSize::MIB_2), world.pages_after_boot(PageSize::GIB_1))
    };
    assert_eq!(pages(&after), (PageCount(540), PageCount(2)));

    // A file of ours of the days of the other default is not left to ask for 540 pages of 1 GiB.
    let mut world = World::new(&*base);
    world.files.set_file("/etc/sysctl.d/60-hugepages.conf", None);
    world.put(
        "/etc/sysctl.d/zz-hugewise-pool.conf",
        "# Made by hugewise. To undo: hugewise undo\nvm.nr_hugepages = 540\n",
    );
    world.put_grub(GIB_BY_DEFAULT);
    names(&mut world);
    let (_, after) = holds("a file of another default", &world, &options, &request);
    assert_eq!(pages(&after), (PageCount(540), PageCount(2)));
}

#[test]
fn a_server_that_takes_the_default_size_is_not_given_the_pages_of_the_old_one_at_the_boot() {
    // PostgreSQL's manual of huge_page_size: with 0 the default of the system is used, which is 1
    // GiB by then.
    let base = source("healthy-postgresql");
    let mut world = World::new(&*base);
    world.files.set_file("/etc/sysctl.d/60-hugepages.conf", None);
    world.put_grub("default_hugepagesz=1G hugepagesz=1G hugepages=2");
    let (options, request) = defaults();
    let (plan, after) = holds("the default size", &world, &options, &request);
    assert_eq!(after.pages_after_boot(PageSize::MIB_2), PageCount(0), "{}", shown(&plan));
    let said = |text: &String| {
        text.contains("postgresql 15/main will take such pages")
            && text.contains("default_hugepagesz=")
    };
    assert!(plan.warnings.iter().any(said), "{}", shown(&plan));
}

#[test]
fn pages_on_demand_of_a_size_that_is_the_default_until_the_boot_stand_in_its_own_file() {
    let base = source("healthy-postgresql");
    let mut world = World::new(&*base);
    world.put_grub("default_hugepagesz=1G");
    let overcommit = vec![(PageSize::MIB_2, PageCount(64))];
    let (plan, _) = holds(
        "on demand",
        &world,
        &PlanOptions { overcommit, ..PlanOptions::default() },
        &Request::default(),
    );
    let lines = content(&plan, "/etc/tmpfiles.d/00-hugewise-overcommit.conf");
    assert!(lines.ends_with("hugepages-2048kB/nr_overcommit_hugepages - - - - 64\n"), "{lines}");
}

/// Set to nothing under a server that runs, whose file asks for 540.
#[test]
fn a_pool_that_was_emptied_under_a_server_is_filled_up_to_its_file() {
    let base = source("healthy-postgresql");
    let mut world = World::new(&*base);
    world.set_pool(PoolRef { page_size: PageSize::MIB_2, node: None }, 537);
    let folders = ["/sys/kernel/mm", "/sys/devices/system/node/node0"];
    for folder in folders {
        world.put(&format!("{folder}/hugepages/hugepages-2048kB/surplus_hugepages"), "537\n");
    }
    let (options, request) = defaults();
    let (plan, after) = holds("emptied", &world, &options, &request);
    assert!(
        shown(&plan).contains("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = 540"),
        "{}",
        shown(&plan)
    );
    assert_eq!(plan.budget.pools_bytes, 540 << 21);
    assert!(
        !after
            .look()
            .codes(hugewise_model::Level::Info)
            .iter()
            .any(|text| text.starts_with("HW207"))
    );
}

/// Leaves nothing of memory.
fn without_memory(world: &mut World<'_>) {
    let small = |line: &str| {
        let name = line.split(':').next().unwrap_or_default();
        let is_there =
            ["MemFree", "MemAvailable", "Buffers", "Cached", "SReclaimable"].contains(&name);
        let is_page_cache = name.ends_with("(file)");
        if is_there || is_page_cache { format!("{name}: 2048 kB\n") } else { format!("{line}\n") }
    };
    let text: String = world.text("/proc/meminfo").lines().map(small).collect();
    world.put("/proc/meminfo", text);
}

/// Its file asks for three times what it has, and there is no memory for that: whoever restarts it
/// before has no server.
#[test]
fn who_would_not_start_again_until_the_pool_is_there_is_named() {
    let base = source("healthy-postgresql");
    let mut world = World::new(&*base);
    let file = "/srv/databases/15/main/postgresql.conf";
    let text = format!("{}\nshared_buffers = 3GB\nhuge_pages = on\n", world.text(file));
    world.put(file, text);
    without_memory(&mut world);
    let (options, request) = defaults();
    let (plan, _) = holds("until then", &world, &options, &request);
    let text = plan
        .instructions
        .iter()
        .map(|instruction| instruction.text.as_str())
        .find(|text| text.contains("To get them earlier"))
        .unwrap();
    assert!(text.contains("# Until then postgresql 15/main would not start again.\n"), "{text}");
}

/// The same where 30 % more are asked for, and there is no memory for them: the 537 become the
/// pool's own, and the rest is done by hand.
#[test]
fn surplus_pages_are_kept_where_the_others_do_not_fit() {
    let base = source("healthy-postgresql");
    let mut world = World::new(&*base);
    world.set_pool(PoolRef { page_size: PageSize::MIB_2, node: None }, 537);
    for folder in ["/sys/kernel/mm", "/sys/devices/system/node/node0"] {
        world.put(&format!("{folder}/hugepages/hugepages-2048kB/surplus_hugepages"), "537\n");
    }
    without_memory(&mut world);
    let (options, request) =
        (PlanOptions::default(), Request { headroom_percent: 30, ..Request::default() });
    let (plan, after) = holds("kept", &world, &options, &request);
    let said = shown(&plan);
    assert!(
        said.contains("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = 537"),
        "{said}"
    );
    assert!(said.contains("don't fit in memory now"), "{said}");
    assert!(after.plan(&options, &request).steps.is_empty());
}

/// Pages that nobody gives back are no memory that is left.
#[test]
fn pages_that_stay_count_in_the_memory_of_a_plan() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "3\n");
    world.put("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "3\n");
    let (options, request) = defaults();
    let plan = world.plan(&options, &request);
    assert_eq!(plan.budget.pools_bytes, (3 << 30) + (537 << 21), "{}", shown(&plan));
    // Given back they are memory again.
    let plan = world.plan(&PlanOptions { shrink: true, ..options }, &request);
    assert_eq!(plan.budget.pools_bytes, 537 << 21, "{}", shown(&plan));
}

#[test]
fn somebody_elses_file_of_our_name_is_left_alone() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    world.put("/etc/sysctl.d/zz-hugewise-pool.conf", "vm.nr_hugepages=8\n");
    let (options, request) = defaults();
    let (plan, after) = holds("not ours", &world, &options, &request);
    assert_eq!(after.text("/etc/sysctl.d/zz-hugewise-pool.conf"), "vm.nr_hugepages=8\n");
    assert!(
        plan.warnings.iter().any(|text| text.contains("hugewise did not make it")),
        "{}",
        shown(&plan)
    );
}

#[test]
fn pages_on_demand_are_set_and_kept() {
    let base = source("no-pool-postgresql");
    let world = World::new(&*base);
    let overcommit = vec![(PageSize::MIB_2, PageCount(100)), (PageSize::GIB_1, PageCount(1))];
    let options = PlanOptions { overcommit, ..PlanOptions::default() };
    let (plan, _) = holds("overcommit", &world, &options, &Request::default());
    assert!(
        content(&plan, "/etc/sysctl.d/zz-hugewise-overcommit.conf")
            .ends_with("vm.nr_overcommit_hugepages = 100\n")
    );
    let file = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_overcommit_hugepages";
    assert!(
        content(&plan, "/etc/tmpfiles.d/00-hugewise-overcommit.conf")
            .contains(&format!("w {file} - - - - 1\n"))
    );
}

/// What may be had on demand may be taken: it has the bound that pools have.
#[test]
fn pages_on_demand_fit_into_memory() {
    let base = source("no-pool-postgresql");
    let world = World::new(&*base);
    let memory = world.look().host.memory.total.get().unwrap();
    let pages = PageCount(memory.get() * 9 / 10 / (2 << 20));
    let options =
        PlanOptions { overcommit: vec![(PageSize::MIB_2, pages)], ..PlanOptions::default() };
    let plan = world.plan(&options, &Request::default());
    assert!(!has(&plan, "overcommit-2M"), "{}", shown(&plan));
    assert!(plan.warnings.iter().any(|text| text.contains("on demand are more than")));
    let plan = world.plan(&PlanOptions { overrule: true, ..options }, &Request::default());
    assert!(has(&plan, "overcommit-2M"), "{}", shown(&plan));
}

/// A second node with half of the memory of the first.
fn put_second_node(world: &mut World<'_>) {
    let folder = |node: u32| format!("/sys/devices/system/node/node{node}");
    let meminfo = world.text(&format!("{}/meminfo", folder(0)));
    let halved = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let amount = words[3].parse::<u64>().unwrap() / 2;
        format!("Node 1 {} {amount} kB\n", words[2])
    };
    let small: String = meminfo.lines().filter(|line| line.ends_with("kB")).map(halved).collect();
    world.put(&format!("{}/meminfo", folder(1)), small);
    // The kernel lets a process of the root cpuset use a node that comes.
    for instance in world.look().instances {
        for pid in instance.pids {
            let file = format!("/proc/{pid}/status");
            let status =
                world.text(&file).replace("Mems_allowed_list:\t0\n", "Mems_allowed_list:\t0-1\n");
            world.put(&file, status);
        }
    }
    for size in ["2048", "1048576"] {
        for file in ["nr_hugepages", "free_hugepages", "surplus_hugepages"] {
            world.put(&format!("{}/hugepages/hugepages-{size}kB/{file}", folder(1)), "0\n");
        }
    }
}

#[test]
fn pools_are_set_by_node_where_there_are_several() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    put_second_node(&mut world);
    let (options, request) = defaults();
    let (plan, after) = holds("nodes", &world, &options, &request);
    let values: Vec<(String, String)> = step(&plan, "pool-2M-now")
        .changes
        .iter()
        .map(|change| match change {
            Change::Value(value) => (value.path.clone(), value.after.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    let file = |node| {
        format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages")
    };
    // The one page that is over goes where more memory is free.
    assert_eq!(values, [(file(0), "269".to_owned()), (file(1), "268".to_owned())]);
    let pool = after.look().host.find_pool(PageSize::MIB_2).cloned().unwrap();
    assert_eq!(pool.total.get(), Some(PageCount(537)));
    // An even spread is the kernel's own: no lines for nodes.
    assert!(
        !has(&plan, "pools-boot")
            || plan.changes().all(|(_, change)| match change {
                Change::File(file) => !file.path.starts_with("/etc/tmpfiles.d"),
                _ => true,
            })
    );
}

/// As after an undo under a server that runs: its pages are there until it ends.
#[test]
fn pages_that_go_with_the_server_become_the_pools_own() {
    let base = source("no-pool-postgresql");
    let world = World::new(&*base);
    let (options, request) = defaults();
    let (_, mut after) = holds("pool", &world, &options, &request);
    let pages =
        after.look().host.find_pool(PageSize::MIB_2).and_then(|pool| pool.total.get()).unwrap();
    for folder in ["/sys/kernel/mm/hugepages", "/sys/devices/system/node/node0/hugepages"] {
        after.put(
            &format!("{folder}/hugepages-2048kB/surplus_hugepages"),
            format!("{}\n", pages.get()),
        );
    }
    let (plan, _) = holds("surplus", &after, &options, &request);
    let pool = step(&plan, "pool-2M-now");
    let values: Vec<_> = pool
        .changes
        .iter()
        .map(|change| match change {
            Change::Value(value) => value.after.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(values, [pages.get().to_string()]);
    assert!(pool.why.contains("until their holders end"), "{}", pool.why);
}

#[test]
fn a_node_that_is_too_small_gets_fewer_pages_now_and_at_boot() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    put_second_node(&mut world);
    let meminfo = "/sys/devices/system/node/node1/meminfo";
    world.put(meminfo, "Node 1 MemTotal: 262144 kB\nNode 1 MemFree: 260000 kB\n");
    let (options, request) = defaults();
    let (plan, after) = holds("uneven nodes", &world, &options, &request);
    let lines = content(&plan, "/etc/tmpfiles.d/00-hugewise-pools.conf");
    let file = |node| {
        format!("/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages")
    };
    // 80 % of 256 MiB are 102 pages.
    assert!(lines.contains(&format!("w {} - - - - 435\n", file(0))), "{lines}");
    assert!(lines.contains(&format!("w {} - - - - 102\n", file(1))), "{lines}");
    assert_eq!(after.pages_after_boot(PageSize::MIB_2), PageCount(537));
}

#[test]
fn pools_that_would_starve_the_host_are_refused_with_numbers() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    let meminfo = world.text("/proc/meminfo");
    let line = |line: &str| match line.split_once(':').unwrap().0 {
        "MemTotal" => "MemTotal: 1200000 kB\n".to_owned(),
        _ => format!("{line}\n"),
    };
    world.put("/proc/meminfo", meminfo.lines().map(line).collect::<String>());
    let plan = world.plan(&PlanOptions::default(), &Request::default());
    let refusal = plan.refusal.expect("1.0 GiB of 1.1 GiB");
    assert!(refusal.reasons.iter().any(|text| text.contains("more than 80 %")), "{refusal:?}");
    assert!(
        refusal.short_bytes > 0 && refusal.largest_pools_bytes < 1_200_000 << 10,
        "{refusal:?}"
    );
    assert_eq!(plan.budget.total_bytes, Some(1_200_000 << 10));
}

/// What a server's own account can write in its file is a number of pages, and no more than a host
/// can spare.
#[test]
fn whatever_a_servers_own_file_asks_for_stays_within_the_host() {
    let base = source("no-pool-postgresql");
    let config = "/srv/databases/b/main/postgresql.conf";
    for size in ["900GB", "99999999TB", "-1", "0", "'1GB; reboot'", "$(reboot)", "x"] {
        let mut world = World::new(&*base);
        world.put(config, format!("{}shared_buffers = {size}\n", world.text(config)));
        let total = world.look().host.memory.total.get().unwrap().get();
        let plan = world.plan(&PlanOptions::default(), &Request::default());
        crate::allowed::check_plan_allowed(&plan).unwrap();
        let text = format!("{:?}", plan.steps);
        assert!(!text.contains("reboot;") && !text.contains("$(reboot)"), "{size}: {text}");
        assert_eq!(plan.refusal.is_some(), size == "900GB", "{size}: {:?}", plan.refusal);
        if let Some(refusal) = plan.refusal {
            assert!(
                refusal.reasons.iter().any(|why| why.contains("more than 80 %")),
                "{refusal:?}"
            );
            continue;
        }
        for (_, change) in plan.changes() {
            let Change::Value(change) = change else { continue };
            let Some(pool) = change.pool else { continue };
            let bytes = change.after.parse::<u64>().unwrap() * pool.page_size.bytes().get();
            assert!(bytes <= total / 10 * 8, "{size}: {bytes} of {total}");
        }
    }
}

#[test]
fn a_server_that_keeps_its_page_size_keeps_its_pages() {
    let base = source("no-pool-postgresql");
    let mut world = World::new(&*base);
    let config = world.text("/srv/databases/b/main/postgresql.conf");
    world.put("/srv/databases/b/main/postgresql.conf", config + "\nhuge_pages = on\n");
    world.set_pool(PoolRef { page_size: PageSize::MIB_2, node: None }, 600);
    // Its 1 GiB pages would be gone after a boot, so it is not set to insist on them, and goes on
    // to insist on these.
    let options = PlanOptions {
        page_size: Some(PageSize::GIB_1),
        shrink: true,
        boot: false,
        ..PlanOptions::default()
    };
    let (plan, after) = holds("insists", &world, &options, &Request::default());
    let said = "postgresql 5433 keeps its page size: ";
    assert!(plan.warnings.iter().any(|text| text.starts_with(said)), "{}", shown(&plan));
    let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    assert_eq!(after.text(file).trim(), "537", "{}", shown(&plan));
}

#[test]
fn the_headroom_is_of_what_is_planned() {
    let base = source("two-clusters-one-too-big");
    let world = World::new(&*base);
    // 15/main insists on its 2 MiB pages and keeps them; 26 % of the other one's two pages of 1 GiB
    // are one, of four they were two.
    let options = PlanOptions {
        page_size: Some(PageSize::GIB_1),
        shrink: true,
        boot: false,
        ..PlanOptions::default()
    };
    let request = Request { headroom_percent: 26, ..Request::default() };
    let (plan, after) = holds("headroom", &world, &options, &request);
    let file = "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages";
    assert_eq!(after.text(file).trim(), "3", "{}", shown(&plan));
}

#[test]
fn pages_are_not_taken_from_under_a_server_that_could_not_be_told_from_a_stranger() {
    let base = source("rhel7-oracle-memlock");
    let denying = super::denying::Denying { base: &*base, paths: vec!["/etc/passwd"] };
    let world = World::new(&denying);
    let options = PlanOptions { shrink: true, ..PlanOptions::default() };
    let (plan, after) = holds("unvouched", &world, &options, &Request::default());
    assert!(
        plan.warnings.iter().any(|text| text.starts_with("oracle ERP is left out")),
        "{}",
        shown(&plan)
    );
    // Its memory needs 8,192 of the 8,300 pages.
    let file = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
    assert_eq!(after.text(file).trim(), "8192", "{}", shown(&plan));
}

#[test]
fn a_second_plan_finds_our_file_as_the_first_one_left_it() {
    let base = source("two-clusters-one-too-big");
    let mut world = World::new(&*base);
    // Its last word makes the pool due each time, beside one of another size that is not.
    world.put("/etc/tmpfiles.d/00-a.conf", "w /proc/sys/vm/nr_hugepages - - - - 0\n");
    let (_, after) = holds("order", &world, &gib_pages_at_boot(), &Request::default());
    let ours = after.text("/etc/tmpfiles.d/00-hugewise-pools.conf");
    assert_eq!(ours.lines().filter(|line| line.starts_with("w ")).count(), 2, "{ours}");
}
