//! Captured hosts changed in every way that the planner looks at.

use std::path::Path;

use hugewise_diagnose::sizing::Request;
use hugewise_host::Source;
use hugewise_model::PageSize;
use proptest::prelude::*;

use super::denying::Denying;
use super::world::{World, shown, tried};
use crate::plan::PoolRef;
use crate::planner::PlanOptions;

const FIXTURES: [&str; 8] = [
    "no-pool-postgresql",
    "two-clusters-one-too-big",
    "healthy-postgresql",
    "idle-pool-mariadb",
    "arm64-64k-pages",
    "numa-unequal",
    "oracle-many-sessions",
    "rhel7-oracle-memlock",
];

const PATHS: [&str; 4] = [
    "/proc/sys/vm/nr_hugepages",
    "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages",
    "/sys/kernel/mm/transparent_hugepage/enabled",
];

/// What whoever reads may not see; mostly nothing that is there.
const HIDDEN: [&str; 16] = [
    "/etc/sysctl.d",
    "/usr/lib/tmpfiles.d",
    "/etc/security",
    "/etc/systemd/system",
    "/boot",
    "/etc/passwd",
    "/etc/group",
    "/proc/zoneinfo",
    "/proc/cmdline",
    "/proc/sys/vm/hugetlb_shm_group",
    "/proc/sys/kernel/shmmax",
    "/srv/databases/b/main",
    "/srv/databases/15/main/postgresql.auto.conf",
    "/srv/databases/my",
    "/u01",
    "/dev/nothing",
];

/// One thing that is otherwise on the host.
#[derive(Clone, Debug)]
enum Change {
    Sysctl(&'static str, &'static str, u64),
    Tmpfiles(&'static str, &'static str, &'static str),
    Grub(&'static str),
    Tuned(&'static str, bool),
    Thp(&'static str),
    Pool(PageSize, u64),
    Available(u64),
    Value(&'static str, &'static str),
    PostgreSql(&'static str, bool),
    CommandLine(&'static str),
}

fn change() -> impl Strategy<Value = Change> {
    let file =
        prop::sample::select(vec!["00-a.conf", "50.conf", "99-x.conf", "zz-i.conf", "zzz.conf"]);
    let key = prop::sample::select(vec![
        "vm.nr_hugepages",
        "kernel.shmmax",
        "vm.hugetlb_shm_group",
        "vm.swappiness",
    ]);
    let tmpfile = prop::sample::select(vec!["00-a.conf", "00-z.conf", "zz.conf"]);
    let written = prop::sample::select(vec!["0", "7", "5000", "madvise", "always"]);
    let words = prop::sample::select(vec![
        "quiet",
        "hugepages=8",
        "hugepagesz=1G hugepages=1",
        "default_hugepagesz=1G",
        "hugepagesz=1G",
        "transparent_hugepage=always",
        "crashkernel=auto",
    ]);
    let thp = prop::sample::select(vec!["always", "madvise", "never"]);
    let page = prop::sample::select(vec![PageSize::MIB_2, PageSize::GIB_1]);
    let value = prop::sample::select(vec![
        ("/proc/sys/kernel/shmmax", "1073741824"),
        ("/proc/sys/kernel/shmall", "2097152"),
        ("/proc/sys/vm/hugetlb_shm_group", "0"),
        ("/proc/sys/vm/hugetlb_shm_group", "77"),
        ("/proc/sys/kernel/osrelease", "3.10.0-1160.el7.x86_64"),
        ("/proc/sys/kernel/osrelease", "5.15.0-101.el9uek.x86_64"),
        ("/proc/sys/kernel/osrelease", "6.12.0"),
        ("/proc/sys/kernel/osrelease", "garbage"),
        ("/etc/sysctl.conf", "vm.nr_hugepages = 3"),
        ("/etc/systemd/system.conf", "[Manager]\nDefaultLimitMEMLOCK=infinity"),
        ("/etc/security/limits.d/50.conf", "oracle - memlock 64\n* - memlock unlimited"),
        ("/etc/security/limits.d/zzz.conf", "oracle hard memlock 64"),
        ("/etc/tuned/active_profile", "gone"),
        ("/etc/sysctl.d/zz-hugewise-pool.conf", "vm.nr_hugepages = 1"),
        ("/proc/sys/vm/overcommit_memory", "2"),
    ]);
    prop_oneof![
        (file, key, 0_u64..20_000).prop_map(|(file, key, value)| Change::Sysctl(file, key, value)),
        (tmpfile, prop::sample::select(PATHS.to_vec()), written)
            .prop_map(|(a, b, c)| Change::Tmpfiles(a, b, c)),
        words.clone().prop_map(Change::Grub),
        (thp.clone(), any::<bool>()).prop_map(|(thp, runs)| Change::Tuned(thp, runs)),
        thp.prop_map(Change::Thp),
        (page, 0_u64..9000).prop_map(|(page, pages)| Change::Pool(page, pages)),
        (0_u64..40 << 20).prop_map(Change::Available),
        value.prop_map(|(path, text)| Change::Value(path, text)),
        (prop::sample::select(vec!["on", "off", "try"]), any::<bool>())
            .prop_map(|(a, b)| Change::PostgreSql(a, b)),
        words.prop_map(Change::CommandLine),
    ]
}

fn make(world: &mut World<'_>, change: &Change) {
    match change {
        Change::Sysctl(file, key, value) => {
            world.put(&format!("/etc/sysctl.d/{file}"), format!("{key} = {value}\n"))
        }
        Change::Tmpfiles(file, path, value) => {
            world.put(&format!("/etc/tmpfiles.d/{file}"), format!("w {path} - - - - {value}\n"));
        }
        Change::Grub(words) => world.put_grub(words),
        Change::Tuned(thp, runs) => {
            world.put("/etc/tuned/active_profile", "theirs\n");
            world.put(
                "/usr/lib/tuned/theirs/tuned.conf",
                format!("[vm]\ntransparent_hugepages={thp}\n"),
            );
            if *runs {
                world.put_process(900, "tuned");
                world.put("/usr/sbin/tuned-adm", "");
            }
        }
        Change::Thp(chosen) => {
            let words = ["always", "madvise", "never"];
            let words = words
                .map(|word| if word == *chosen { format!("[{word}]") } else { word.to_owned() });
            world.put("/sys/kernel/mm/transparent_hugepage/enabled", words.join(" ") + "\n");
        }
        Change::Pool(page, pages) => {
            let pool = PoolRef { page_size: *page, node: None };
            let file = |name: &str| format!("{}/{name}", pool.sysfs_folder());
            let number = |path: &str| world.text(path).trim().parse::<u64>();
            if let (Ok(total), Ok(free)) =
                (number(&file("nr_hugepages")), number(&file("free_hugepages")))
            {
                let reserved = number(&file("resv_hugepages")).unwrap_or(0);
                let nodes_free: u64 = (0..2)
                    .filter_map(|node| {
                        let folder = PoolRef { node: Some(node), ..pool }.sysfs_folder();
                        number(&format!("{folder}/free_hugepages")).ok()
                    })
                    .sum();
                let least = total - free.min(nodes_free) + reserved;
                if reserved == 0 {
                    world.set_pool(pool, (*pages).max(least));
                }
            }
        }
        Change::Available(kib) => {
            let line = |line: &str| match line.split_once(':') {
                Some(("MemAvailable" | "MemFree", _)) => {
                    format!("{}: {kib} kB\n", line.split_once(':').unwrap().0)
                }
                _ => format!("{line}\n"),
            };
            let meminfo: String = world.text("/proc/meminfo").lines().map(line).collect();
            world.put("/proc/meminfo", meminfo);
        }
        Change::Value(path, text) => world.put(path, format!("{text}\n")),
        Change::PostgreSql(huge_pages, folder) => {
            for config in
                ["/srv/databases/b/main/postgresql.conf", "/srv/databases/15/main/postgresql.conf"]
            {
                if world.files.read(config).is_known() {
                    let include = if *folder { "include_dir = 'conf.d'\n" } else { "" };
                    world.put(
                        config,
                        format!("{}\nhuge_pages = {huge_pages}\n{include}", world.text(config)),
                    );
                    world.put(
                        &config.replace("postgresql.conf", "conf.d/10.conf"),
                        "work_mem = 4MB\n",
                    );
                }
            }
        }
        Change::CommandLine(words) => world.put("/proc/cmdline", format!("root=1 {words}\n")),
    }
}

fn options() -> impl Strategy<Value = (PlanOptions, Request)> {
    let flags = any::<[bool; 5]>();
    (flags, 0_u8..4, 0_u8..30).prop_map(
        |([early, shrink, keep_partial, now, boot], size, headroom_percent)| {
            let page_size = match size {
                0 => Some(PageSize::MIB_2),
                1 => Some(PageSize::GIB_1),
                _ => None,
            };
            let now = now || !boot;
            let options = PlanOptions {
                early,
                shrink,
                keep_partial,
                now,
                boot,
                page_size,
                ..PlanOptions::default()
            };
            (options, Request { headroom_percent, ..Request::default() })
        },
    )
}

thread_local! {
    static SOURCES: Vec<Box<dyn Source>> = FIXTURES.iter().map(|name| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").join(name);
        hugewise_host::source::open_source(Some(&path)).unwrap()
    }).collect();
}

proptest! {
    // What fails is kept below `proptest-regressions`, and tried again first.
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_on_a_host_a_plan_keeps_its_promises(
        fixture in 0..FIXTURES.len(),
        changes in prop::collection::vec(change(), 0..6),
        hidden in prop::collection::vec(prop::sample::select(HIDDEN.to_vec()), 0..3),
        (options, request) in options(),
    ) {
        SOURCES.with(|sources| {
            let denying = Denying { base: &*sources[fixture], paths: hidden.clone() };
            let mut world = World::new(&denying);
            for change in &changes {
                make(&mut world, change);
            }
            let (plan, _, problems) = tried(&world, &options, &request);
            prop_assert!(problems.is_empty(), "{}: {problems:#?}\n{}", FIXTURES[fixture], shown(&plan));
            Ok(())
        })?;
    }
}
