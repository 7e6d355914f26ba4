//! What `check` tells people to do and what the plan does are the same, to the word.

use hugewise_diagnose::remedy;
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
    let by_hand = plan
        .instructions
        .iter()
        .map(|instruction| format!("{}\n{}", instruction.title, instruction.text));
    steps.chain(by_hand).collect::<Vec<_>>().join("\n").replace(" = ", "=")
}

/// The value of a setting that ends a line of `check`: `huge_pages=on`.
fn values(line: &str) -> Vec<&str> {
    line.split([' ', ','])
        .filter(|word| word.split_once('=').is_some_and(|(name, _)| name.len() > 3))
        .collect()
}

#[test]
fn a_server_told_to_insist_is_told_so_by_both() {
    let auto = "/srv/databases/15/main/postgresql.auto.conf";
    for (what, text) in [("off", "huge_pages = 'off'\n"), ("sysv", "shared_memory_type = 'sysv'\n")]
    {
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
    let line = lines
        .iter()
        .find(|(remedy, _)| matches!(remedy, Remedy::SetSetting(_)))
        .map(|(_, line)| line.clone());
    assert!(line.as_deref().is_some_and(|line| line.ends_with("huge_pages=try")), "{lines:?}");
    assert!(
        words(&plan).contains("huge_pages=try") && !words(&plan).contains("huge_pages=on"),
        "{}",
        shown(&plan)
    );
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
    let by_hand =
        tight.instructions.iter().find(|instruction| instruction.text.contains("CommitLimit"));
    let by_hand = by_hand.unwrap_or_else(|| panic!("{}", shown(&tight)));
    let (stop, set) = (by_hand.text.find("stop"), by_hand.text.find("echo 537"));
    assert!(stop.is_some() && stop < set, "{}", by_hand.text);
    assert!(has(&tight, "pools-boot"), "{}", shown(&tight));
    // 1 GiB beyond what is committed is enough for 537 MiB less, and for what the kernel keeps for
    // root.
    let roomy = plan_with(12_365_636, 12_365_636 - (1 << 20));
    assert!(has(&roomy, "pool-2M-now"), "{}", shown(&roomy));
}

#[test]
fn a_size_of_thp_that_is_always_is_what_check_names() {
    let base = source("healthy-postgresql");
    let mut world = World::new(&*base);
    world.put("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    world.put(
        "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled",
        "[always] inherit madvise never\n",
    );
    let lines = to_do(&world);
    let line =
        lines.iter().find(|(remedy, _)| *remedy == Remedy::SetThp).map(|(_, line)| line.as_str());
    assert_eq!(
        line,
        Some("let transparent huge pages of 2 MiB follow the top switch, which is never"),
        "{lines:?}"
    );
    let (options, request) = defaults();
    let plan = world.plan(&options, &request);
    let changed: Vec<String> =
        step(&plan, "thp").changes.iter().map(|change| format!("{change:?}")).collect();
    assert!(
        changed.iter().all(|text| text.contains("hugepages-2048kB") || text.contains("tmpfiles")),
        "{changed:?}"
    );
}

/// Whether `check` tells a server to refuse a start without huge pages at once, and whether a plan
/// sets it so.
fn insisting(world: &World<'_>) -> (bool, bool) {
    let (options, request) = defaults();
    let plan = world.plan(&options, &request);
    let told =
        to_do(world).iter().any(|(_, line)| line.contains("refuse to start without huge pages"));
    (told, words(&plan).contains("huge_pages=on"))
}

/// One that insists does not start after a boot that brings 100 of its 537 pages.
#[test]
fn nobody_insists_on_a_pool_that_the_boot_takes_away() {
    let base = source("no-pool-postgresql");
    let none = |_: &mut World<'_>| {};
    let put =
        |file: &'static str, text: &'static str| move |world: &mut World<'_>| world.put(file, text);
    let tmpfiles = "w /sys/kernel/mm/hugepages/*/nr_hugepages - - - - 100\n";
    let ours = "w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages - - - - 100\n";
    let profile = "[sysctl]\nvm.nr_hugepages=100\n";
    let tuned = |main: &'static str| {
        move |world: &mut World<'_>| {
            world.put("/etc/tuned/active_profile", "db\n");
            world.put("/etc/tuned/db/tuned.conf", profile);
            world.put("/etc/tuned/tuned-main.conf", main);
        }
    };
    type Setting = Box<dyn Fn(&mut World<'_>)>;
    let cases: [(&str, bool, Setting); 9] = [
        ("as it is", true, Box::new(none)),
        ("read before", true, Box::new(put("/etc/sysctl.d/99-db.conf", "vm.nr_hugepages=100\n"))),
        (
            "read after",
            false,
            Box::new(put("/etc/sysctl.d/zzz-last.conf", "vm.nr_hugepages=100\n")),
        ),
        (
            "read after, a packager's",
            false,
            Box::new(put("/usr/lib/sysctl.d/zzz.conf", "vm.nr_hugepages=100\n")),
        ),
        ("a pattern", false, Box::new(put("/etc/tmpfiles.d/a.conf", tmpfiles))),
        ("the same path, later", true, Box::new(put("/etc/tmpfiles.d/a.conf", ours))),
        ("the same path, first", false, Box::new(put("/etc/tmpfiles.d/00-a.conf", ours))),
        ("a profile", false, Box::new(tuned("reapply_sysctl = 0\n"))),
        ("a profile, and the files again", true, Box::new(tuned("reapply_sysctl = 1\n"))),
    ];
    for (what, insists, change) in cases {
        let mut world = World::new(&*base);
        change(&mut world);
        assert_eq!(insisting(&world), (insists, insists), "{what}: {:?}", to_do(&world));
        let names = ["last.conf:1", "zzz.conf:1", "/a.conf:1", "/00-a.conf:1", "tuned.conf:2"];
        let named =
            to_do(&world).iter().any(|(_, line)| names.iter().any(|name| line.contains(name)));
        assert_eq!(named, !insists, "{what}: {:?}", to_do(&world));
    }
}

/// A step overrides what is read before its file alone, and what is read after it is named once.
#[test]
fn the_last_word_is_named_once() {
    let base = source("healthy-postgresql");
    let mut world = World::new(&*base);
    world.put("/etc/sysctl.d/40-first.conf", "vm.nr_hugepages=50\n");
    world.put("/etc/sysctl.d/zzz-last.conf", "vm.nr_hugepages=100\n");
    let (options, request) = defaults();
    let plan = world.plan(&options, &request);
    let why = &step(&plan, "pools-boot").why;
    assert!(why.contains("40-first.conf:1 (50)") && !why.contains("zzz-last"), "{why}");
    let by_hand = plan.instructions.iter().map(|instruction| instruction.title.clone());
    let of_pool = by_hand
        .chain(plan.warnings.clone())
        .filter(|text| text.contains("at each boot") || text.contains("zzz-last"));
    let of_pool: Vec<String> = of_pool.collect();
    assert!(
        of_pool.len() == 1 && of_pool[0].contains("zzz-last.conf:1, which has the last word"),
        "{of_pool:?}"
    );
    let told = to_do(&world);
    assert!(
        told.iter().any(|(_, line)| line.ends_with(
            "remove /etc/sysctl.d/zzz-last.conf:1, which has the last word and sets 100"
        )),
        "{told:?}"
    );
}

/// vm.hugetlb_shm_group takes one group: given to another, it is taken from those that have their
/// right by it.
#[test]
fn a_group_that_others_have_their_right_by_stays() {
    use hugewise_diagnose::permission::{ShmGroupChoice, choose_shm_group};
    use hugewise_model::Observed;
    use hugewise_model::host::AccountGroup;

    let base = source("rhel7-oracle-memlock");
    let mut seen = World::new(&*base).look();
    let instance =
        seen.instances.iter().find(|other_instance| other_instance.name == "ERP").unwrap().clone();
    let ways = |group: u32, host: &mut hugewise_model::Host| {
        host.kernel_settings.hugetlb_shm_group = Observed::Known(group);
        host.accounts.groups.entry(777).or_insert_with(|| AccountGroup {
            name: "hugepages".into(),
            ..AccountGroup::default()
        });
        choose_shm_group(host, &[&instance], &instance)
    };
    let own = hugewise_diagnose::permission::owner_groups(&seen.host, &instance)[0];
    assert_eq!(ways(0, &mut seen.host), Some(ShmGroupChoice::Set(own)));
    assert_eq!(ways(777, &mut seen.host), Some(ShmGroupChoice::Join(777)));
    assert_eq!(ways(own, &mut seen.host), Some(ShmGroupChoice::Keep(own)));
}

/// Pages that the next boot does not bring nobody is told to ask for by hand.
#[test]
fn what_may_not_be_asked_for_is_not_left_to_people() {
    let base = source("idle-pool-mariadb");
    let options = crate::planner::PlanOptions {
        shrink: true,
        boot: false,
        ..crate::planner::PlanOptions::default()
    };
    let plan = World::new(&*base).plan(&options, &hugewise_diagnose::sizing::Request::default());
    let contradicted =
        plan.warnings.iter().any(|text| text.contains("is not made to ask for huge pages"))
            && plan.instructions.iter().any(|instruction| {
                instruction.text.contains("ask for huge pages")
                    || instruction.text.contains("large-pages")
            });
    assert!(!contradicted, "{}", shown(&plan));
}

#[test]
fn a_page_size_that_is_not_planned_is_answered() {
    let base = source("healthy-postgresql");
    let page_size = Some(hugewise_model::PageSize::GIB_1);
    let options =
        crate::planner::PlanOptions { page_size, ..crate::planner::PlanOptions::default() };
    let size = hugewise_diagnose::sizing::PageSizeChoice::Size(hugewise_model::PageSize::GIB_1);
    let request = hugewise_diagnose::sizing::Request {
        page_size: size,
        ..hugewise_diagnose::sizing::Request::default()
    };
    let plan = World::new(&*base).plan(&options, &request);
    let why = "stays on its pages of 2 MiB, as nothing keeps it off them; --instance";
    assert!(plan.warnings.iter().any(|text| text.contains(why)), "{}", shown(&plan));
}
