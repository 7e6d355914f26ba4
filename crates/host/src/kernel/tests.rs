//! Whole hosts in memory, and the one that the tests run on.

use hugewise_model::{Bytes, Host, Observed, PageCount, PageSize, Reason};

use super::read;
use crate::Door;
use crate::source::MapSource;

fn host(source: &MapSource) -> (Host, Vec<String>) {
    read_into(Host::default(), source)
}

fn read_into(mut host: Host, source: &MapSource) -> (Host, Vec<String>) {
    let mut door = Door::new(source);
    read(&mut door, &mut host);
    (host, door.unread.into_iter().map(|unread| unread.to_string()).collect())
}

#[test]
fn pools_of_an_arm64_host_with_64_kib_pages_and_two_nodes() {
    let mut source = MapSource::new()
        .file("/proc/meminfo", "MemTotal: 267821056 kB\nHugepagesize:     524288 kB\n")
        .file("/proc/sys/kernel/osrelease", "5.14.0-503.el9.aarch64+64k\n")
        .file("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0xc0\n")
        .file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
        .file("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "536870912\n")
        .file("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 133910528 kB\nNode 0 MemFree: 9 kB\n")
        .file("/sys/devices/system/node/node10/meminfo", "Node 10 MemTotal: 0 kB\nNode 10 MemFree: 0 kB\n");
    for (kib, pages) in [(2048, 5), (524_288, 64), (16_777_216, 0)] {
        let folder = format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB");
        for file in ["nr_hugepages", "free_hugepages", "resv_hugepages", "surplus_hugepages", "nr_overcommit_hugepages"]
        {
            let number = if file.ends_with("nr_hugepages") { pages } else { 0 };
            source = source.file(&format!("{folder}/{file}"), format!("{number}\n"));
        }
        let node = format!("/sys/devices/system/node/node10/hugepages/hugepages-{kib}kB");
        source = source.file(&format!("{node}/nr_hugepages"), format!("{pages}\n"));
    }
    let told = Host { architecture: Observed::Known("aarch64".into()), ..Host::default() };
    let (host, unread) = read_into(told, &source);

    let pools = host.pools.known().unwrap();
    let sizes: Vec<_> = pools.iter().map(|pool| pool.page_size.to_string()).collect();
    assert_eq!(sizes, ["2 MiB", "512 MiB", "16 GiB"]);
    assert_eq!(pools[1].total, Observed::Known(PageCount(64)));
    assert_eq!(pools[1].memory(), Some(Bytes::from_gib(32)));
    assert_eq!(pools[1].nodes.len(), 1, "node 0 tells nothing of pools");
    assert_eq!((pools[1].nodes[0].node, &pools[1].nodes[0].free), (10, &Observed::Absent));
    let nodes: Vec<_> = host.nodes.known().unwrap().iter().map(|node| node.id).collect();
    assert_eq!(nodes, [0, 10]);
    assert_eq!(host.default_huge_page, Observed::Known(PageSize::new(512 << 20).unwrap()));
    assert_eq!(host.base_page, Observed::Known(PageSize::new(64 << 10).unwrap()));
    assert_eq!(host.processors.gib_pages, Observed::Absent);
    assert_eq!(host.processors.online, Observed::Known(1));
    assert_eq!(unread, Vec::<String>::new());
}

#[test]
fn a_sosreport_without_sys_still_tells_of_the_default_pool_and_of_settings() {
    let source = MapSource::new()
        .file(
            "/proc/meminfo",
            "MemTotal: 65807152 kB\nHugePages_Total:    8704\nHugePages_Free:     8700\nHugePages_Rsvd:       12\n\
             HugePages_Surp:        0\nHugepagesize:       2048 kB\n",
        )
        .file(
            "/sos_commands/kernel/sysctl_-a",
            "kernel.osrelease = 3.10.0-1160.el7.x86_64\nkernel.shmmax = 18446744073692774399\n\
             vm.hugetlb_shm_group = 1001\nvm.nr_overcommit_hugepages = 7\nvm.min_free_kbytes = many\n",
        )
        .file("/sos_commands/kernel/dmesg", "[1.0] HugeTLB: registered 2.00 MiB page size\n");
    let (host, unread) = host(&source);

    let pools = host.pools.known().unwrap();
    assert_eq!((pools.len(), pools[0].page_size), (1, PageSize::MIB_2));
    assert_eq!(pools[0].committed(), Some(PageCount(16)));
    assert_eq!(pools[0].overcommit, Observed::Known(PageCount(7)));
    assert_eq!(host.kernel.known().map(|kernel| (kernel.major, kernel.minor)), Some((3, 10)));
    assert_eq!(host.architecture, Observed::Known("x86_64".into()));
    assert_eq!(host.base_page, Observed::Known(PageSize::KIB_4));
    assert_eq!(host.kernel_settings.shmmax, Observed::Known(Bytes(18_446_744_073_692_774_399)));
    assert_eq!(host.kernel_settings.hugetlb_shm_group, Observed::Known(1001));
    assert_eq!(host.kernel_log.known().map(Vec::len), Some(1));
    assert_eq!(unread, ["/sos_commands/kernel/sysctl_-a: malformed: no number"]);
}

#[test]
fn rhel_6_has_thp_elsewhere() {
    let folder = "/sys/kernel/mm/redhat_transparent_hugepage";
    let source = MapSource::new()
        .file(&format!("{folder}/enabled"), "[always] never\n")
        .file(&format!("{folder}/defrag"), "[always] never\n")
        .file(&format!("{folder}/khugepaged/defrag"), "[yes] no\n");
    let (host, _) = host(&source);
    assert_eq!(host.thp.enabled, Observed::Known("always".into()));
    assert_eq!(host.thp.khugepaged.get("defrag"), Some(&Observed::Known(1)));
    assert_eq!(host.thp.shmem_enabled, Observed::Absent);
}

#[test]
fn a_log_too_long_to_read_is_skipped_and_a_shut_meminfo_is_not_an_old_kernel() {
    let source = MapSource::new()
        .denied("/proc/meminfo")
        .file("/var/log/dmesg", "HugeTLB: one\n")
        .malformed("/var/log/kern.log", "longer than 16 MiB");
    let (host, unread) = host(&source);
    assert_eq!(host.kernel_log, Observed::Known(vec!["HugeTLB: one".to_owned()]));
    assert_eq!(host.memory.hugetlb, Observed::Denied);
    assert_eq!(host.pools, Observed::Denied);
    assert_eq!(unread, ["/var/log/kern.log: skipped: longer than 16 MiB", "/proc/meminfo: denied"]);
}

#[test]
fn what_is_denied_or_garbage_is_said_and_nothing_is_made_up() {
    let source = MapSource::new()
        .denied("/proc/zoneinfo")
        .file("/proc/meminfo", b"\xff\xff\xff")
        .file("/proc/swaps", "nonsense")
        .file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "-5\n");
    let (host, unread) = host(&source);
    assert_eq!(host.memory.watermarks, Observed::Denied);
    assert!(matches!(host.memory.total, Observed::Malformed(_)));
    assert!(matches!(host.memory.swaps, Observed::Malformed(_)));
    let pool = &host.pools.known().unwrap()[0];
    assert!(matches!(pool.total, Observed::Malformed(_)));
    assert_eq!(pool.free, Observed::Absent);
    assert_eq!(host.nodes, Observed::Absent);
    assert_eq!(unread.len(), 4, "{unread:?}");
}

/// The kernel that runs these tests is the second opinion, read with other tools.
mod on_this_machine {
    use std::process::Command;

    use super::*;
    use crate::source::Live;

    fn shell(script: &str) -> String {
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn facts_are_what_awk_and_cat_say() {
        let source = Live::new();
        let mut door = Door::new(&source);
        let mut host = Host { live: true, ..Host::default() };
        read(&mut door, &mut host);

        let kib: u64 = shell("awk '/^MemTotal:/{print $2}' /proc/meminfo").parse().unwrap();
        assert_eq!(host.memory.total, Observed::Known(Bytes(kib * 1024)));
        assert_eq!(host.kernel.known().unwrap().text, shell("uname -r"));
        assert_eq!(host.processors.online.get().unwrap().to_string(), shell("getconf _NPROCESSORS_ONLN"));
        let settings = &host.kernel_settings;
        assert_eq!(settings.shmmax.get().unwrap().get().to_string(), shell("cat /proc/sys/kernel/shmmax"));
        assert_eq!(settings.shmmni.get().unwrap().to_string(), shell("cat /proc/sys/kernel/shmmni"));
        let zones = shell("grep -c zone /proc/buddyinfo");
        assert_eq!(host.memory.free_blocks.known().unwrap().len().to_string(), zones);
        let zones = shell("grep -c '^Node' /proc/zoneinfo");
        assert_eq!(host.memory.watermarks.known().unwrap().len().to_string(), zones);
        let counters = shell("wc -l < /proc/vmstat");
        assert_eq!(host.memory.vmstat.known().unwrap().len().to_string(), counters);

        let folder = "/sys/kernel/mm/hugepages";
        let pools = host.pools.known().unwrap();
        assert_eq!(pools.len().to_string(), shell(&format!("ls {folder} | wc -l")));
        for pool in pools {
            let name = format!("{folder}/hugepages-{}kB", pool.page_size.bytes().get() / 1024);
            let overcommit = pool.overcommit.get().unwrap().get().to_string();
            assert_eq!(overcommit, shell(&format!("cat {name}/nr_overcommit_hugepages")));
            assert!(pool.total.is_known() && pool.free.is_known() && pool.reserved.is_known());
        }
        let total = "cat /sys/kernel/mm/hugepages/*/nr_hugepages | awk '{sum += $1} END {print sum}'";
        // Other tests may change the pools; what stood still around a reading must be what was read.
        for _ in 0..50 {
            let before = shell(total);
            let mut host = Host { live: true, ..Host::default() };
            read(&mut Door::new(&source), &mut host);
            let pages: PageCount = host.pools.known().unwrap().iter().map(|pool| pool.total.get().unwrap()).sum();
            if before == shell(total) {
                assert_eq!(pages.get().to_string(), before);
                break;
            }
        }
        let folder = "/sys/kernel/mm/transparent_hugepage";
        let chosen = shell(&format!("sed 's/.*\\[\\(.*\\)\\].*/\\1/' {folder}/enabled"));
        assert_eq!(host.thp.enabled, Observed::Known(chosen));
        let malformed: Vec<_> =
            door.unread.iter().filter(|unread| matches!(unread.why, Reason::Malformed(_))).collect();
        assert!(malformed.is_empty(), "{malformed:?}");
    }
}
