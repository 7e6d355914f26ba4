//! Hosts without systemd and with kernels of their days: RHEL 5 and 6.

use hugewise_model::PageSize;

use super::made_hosts::{content, defaults, has, source, step};
use super::world::{World, holds, shown};
use crate::plan::{Change, Plan};
use crate::planner::PlanOptions;

fn value<'a>(plan: &'a Plan, id: &str) -> (&'a str, &'a str) {
    match &step(plan, id).changes[0] {
        Change::Value(value) => (value.path.as_str(), value.after.as_str()),
        other => panic!("{other:?}"),
    }
}

fn files(plan: &Plan) -> Vec<&str> {
    let mut paths = Vec::new();
    for (_, change) in plan.changes() {
        if let Change::File(file) = change {
            paths.push(file.path.as_str());
        }
    }
    paths
}

/// /etc/sysctl.conf alone is read there: it is somebody else's file, and the line is a person's to
/// write.
#[test]
fn rhel_5_keeps_its_pool_in_sysctl_conf() {
    let base = source("rhel5-oracle");
    let world = World::new(&*base);
    let (options, request) = defaults();
    let (plan, _) = holds("rhel 5", &world, &options, &request);
    assert!(files(&plan).is_empty(), "{}", shown(&plan));
    assert!(plan.at_boot.is_empty(), "nothing is promised: {}", shown(&plan));
    let told = &plan
        .instructions
        .iter()
        .find(|instruction| instruction.title == "3,000 pages of 2 MiB at each boot")
        .unwrap()
        .text;
    assert_eq!(
        told.as_str(),
        "# nothing in sysctl.d counts at boot: /etc/sysctl.conf alone is read \
             (/etc/rc.d/rc.sysinit)\n\
         # in /etc/sysctl.conf: vm.nr_hugepages = 3000, instead of 2000 in line 4"
    );
    // A later release of its initscripts reads the folder, and reads it last.
    let mut world = world;
    world.put("/etc/rc.d/rc.sysinit", "apply_sysctl\n");
    let (plan, after) = holds("rhel 5.7", &world, &options, &request);
    assert!(
        content(&plan, "/etc/sysctl.d/zz-hugewise-pool.conf")
            .ends_with("\nvm.nr_hugepages = 3000\n")
    );
    assert_eq!(after.pages_after_boot(PageSize::MIB_2).get(), 3000);
}

/// The line that a person changes is the one that asks for too many: nobody is told to remove it,
/// which would leave the boot without any.
#[test]
fn a_line_that_asks_for_too_many_pages_is_changed_and_not_removed() {
    let base = source("rhel5-oracle");
    let mut world = World::new(&*base);
    let limits = "kernel.shmmax = 4398046511104\nkernel.shmall = 1073741824\n";
    world.put("/etc/sysctl.conf", format!("{limits}vm.nr_hugepages = 90000\n"));
    let (options, request) = defaults();
    let (plan, _) = holds("too many", &world, &options, &request);
    let about: Vec<&str> = plan
        .instructions
        .iter()
        .filter(|instruction| {
            let texts = [&instruction.text, &instruction.title];
            texts.iter().any(|text| text.contains("sysctl.conf"))
                && !instruction.title.starts_with("kernel.shmmax")
        })
        .map(|instruction| instruction.text.as_str())
        .collect();
    assert_eq!(about.len(), 1, "{}", shown(&plan));
    assert!(
        about[0].ends_with("vm.nr_hugepages = 3000, instead of 90000 in line 3"),
        "{}",
        shown(&plan)
    );
}

/// Before 2.6.27 the pool is vm.nr_hugepages, and there is no other file.
#[test]
fn the_pool_of_an_old_kernel_is_its_setting() {
    let base = source("rhel5-oracle");
    let mut world = World::new(&*base);
    let meminfo =
        world.text("/proc/meminfo").replace("3000\n", "4500\n").replace("2601\n", "4101\n");
    world.put("/proc/meminfo", meminfo);
    world.put("/proc/sys/vm/nr_hugepages", "4500\n");
    let (options, request) = defaults();
    let (plan, after) = holds("shrink", &world, &PlanOptions { shrink: true, ..options }, &request);
    let (path, pages) = value(&plan, "pool-2M-now");
    assert_eq!(path, "/proc/sys/vm/nr_hugepages");
    assert_eq!(after.text(path).trim(), pages);
    // 4,500 less 4,101 free and 2,290 promised of these: 2,689.
    assert!((2689..=2800).contains(&pages.parse::<u64>().unwrap()), "{}", shown(&plan));
    assert!(!has(&plan, "thp"), "no such kernel has THP: {}", shown(&plan));
    let thp = plan
        .warnings
        .iter()
        .any(|text| text.contains("HW501") || text.contains("HW702") || text.contains("THP"));
    assert!(!thp, "{}", shown(&plan));
}

/// rc.sysinit of RHEL 6.5 reads /etc/sysctl.conf first and every file of /etc/sysctl.d after it;
/// nothing reads tmpfiles.d; and the switch of THP is in a folder of Red Hat's own.
#[test]
fn rhel_6_is_told_where_it_looks() {
    let base = source("rhel6-oracle");
    let world = World::new(&*base);
    let (options, request) = defaults();
    let (plan, after) = holds("rhel 6", &world, &options, &request);
    assert_eq!(files(&plan), ["/etc/sysctl.d/zz-hugewise-pool.conf"], "{}", shown(&plan));
    assert_eq!(after.pages_after_boot(PageSize::MIB_2).get(), 3100);
    let why = &step(&plan, "pools-boot").why;
    assert!(
        why.ends_with("it overrides /etc/sysctl.conf:3 (2000) and /etc/sysctl.d/oracle:1 (3000)"),
        "{why}"
    );
    assert!(!plan.warnings.iter().any(|text| text.contains("last word")), "{}", shown(&plan));
    let told = &plan
        .instructions
        .iter()
        .find(|instruction| instruction.title.starts_with("transparent huge pages"))
        .unwrap()
        .text;
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[1], "# add transparent_hugepage=never to the kernel's command line:");
    assert!(lines[2].starts_with("# in /boot/grub/grub.conf: "), "{told}");
    assert!(
        lines[3].ends_with(": echo never > /sys/kernel/mm/redhat_transparent_hugepage/enabled"),
        "{told}"
    );
}

#[test]
fn the_switch_of_rhel_6_is_set_where_it_is() {
    let base = source("rhel6-oracle");
    let mut world = World::new(&*base);
    world.put("/sys/kernel/mm/redhat_transparent_hugepage/enabled", "[always] madvise never\n");
    let (options, request) = defaults();
    let (plan, after) = holds("always", &world, &options, &request);
    let (path, word) = value(&plan, "thp");
    assert_eq!((path, word), ("/sys/kernel/mm/redhat_transparent_hugepage/enabled", "never"));
    assert_eq!(after.text(path), "always madvise [never]\n");
    // Its first kernels know two words.
    world.put("/sys/kernel/mm/redhat_transparent_hugepage/enabled", "[always] never\n");
    let (plan, _) = holds("two words", &world, &options, &request);
    assert_eq!(value(&plan, "thp").1, "never");
    // What rc.local writes at each boot is kept.
    world.put(
        "/etc/rc.d/rc.local",
        "#!/bin/sh\necho never > /sys/kernel/mm/redhat_transparent_hugepage/enabled\n",
    );
    let (plan, _) = holds("rc.local", &world, &options, &request);
    let told = plan
        .instructions
        .iter()
        .any(|instruction| instruction.title.starts_with("transparent huge pages"));
    assert!(!told, "{}", shown(&plan));
}
