//! Whole hosts in memory, and the one that the tests run on.

use hugewise_model::{Bytes, Host, Observed, PageCount, PageSize, Reason};

use super::{KernelFactCache, read, read_after};
use hugewise_source::FactReader;
use hugewise_source::MapSource;

fn host(source: &MapSource) -> (Host, Vec<String>) {
    read_into(Host::default(), source)
}

fn read_into(mut host: Host, source: &MapSource) -> (Host, Vec<String>) {
    let mut door = FactReader::new(source);
    read(&mut door, &mut host);
    (host, door.unread.into_iter().map(|unread| unread.to_string()).collect())
}

#[test]
fn repeated_readings_see_the_thp_switch_at_once_and_that_of_a_size_within_a_minute() {
    const THP: &str = "/sys/kernel/mm/transparent_hugepage";
    let facts = KernelFactCache::default();
    let read_with = |choice: &str| {
        let mut host = Host::default();
        let source = MapSource::new()
            .with_file(&format!("{THP}/enabled"), choice)
            .with_file(&format!("{THP}/hugepages-64kB/enabled"), choice);
        read_after(&mut FactReader::new(&source), &mut host, &facts);
        [host.thp.enabled, host.thp.sizes[0].enabled.clone()]
    };
    let [always, never] = ["always", "never"].map(|word| Observed::Known(word.to_owned()));
    assert_eq!(read_with("[always] never"), [always.clone(), always.clone()]);
    assert_eq!(read_with("always [never]"), [never, always]);
}

/// Sizes by Documentation/arch/arm64/hugetlbpage.rst.
#[test]
fn pools_tell_an_arm64_host_and_its_base_page_where_nothing_else_does() {
    let host_with = |sizes: &[u64]| {
        let mut source = MapSource::new().with_file("/proc/meminfo", "MemTotal: 8000000 kB\n");
        for kib in sizes {
            let file = format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB/nr_hugepages");
            source = source.with_file(&file, "0\n");
        }
        let (host, _) = host(&source);
        (host.architecture.into_known(), host.base_page.get().map(|page| page.bytes().get() >> 10))
    };
    let arm64 = |base| (Some("aarch64".to_owned()), Some(base));
    assert_eq!(host_with(&[64, 2048, 32_768, 1 << 20]), arm64(4));
    assert_eq!(host_with(&[2048, 32_768, 1 << 20]), arm64(16));
    assert_eq!(host_with(&[2048, 524_288, 16 << 20]), arm64(64));
    assert_eq!(host_with(&[2048, 1 << 20]), (None, None));
}

#[test]
fn pools_of_an_arm64_host_with_64_kib_pages_and_two_nodes() {
    let mut source = MapSource::new()
        .with_file("/proc/meminfo", "MemTotal: 267821056 kB\nHugepagesize:     524288 kB\n")
        .with_file("/proc/sys/kernel/osrelease", "5.14.0-503.el9.aarch64+64k\n")
        .with_file("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0xc0\n")
        .with_file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
        .with_file("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "536870912\n")
        .with_file(
            "/sys/devices/system/node/node0/meminfo",
            "Node 0 MemTotal: 133910528 kB\nNode 0 MemFree: 9 kB\n",
        )
        .with_file(
            "/sys/devices/system/node/node10/meminfo",
            "Node 10 MemTotal: 0 kB\nNode 10 MemFree: 0 kB\n",
        );
    for (kib, pages) in [(2048, 5), (524_288, 64), (16_777_216, 0)] {
        let folder = format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB");
        for file in [
            "nr_hugepages",
            "free_hugepages",
            "resv_hugepages",
            "surplus_hugepages",
            "nr_overcommit_hugepages",
        ] {
            let number = if file.ends_with("nr_hugepages") { pages } else { 0 };
            source = source.with_file(&format!("{folder}/{file}"), format!("{number}\n"));
        }
        let node = format!("/sys/devices/system/node/node10/hugepages/hugepages-{kib}kB");
        source = source.with_file(&format!("{node}/nr_hugepages"), format!("{pages}\n"));
    }
    let told = Host { architecture: Observed::Known("aarch64".into()), ..Host::default() };
    let (host, unread) = read_into(told, &source);

    let pools = host.pools.as_known().unwrap();
    let sizes: Vec<_> = pools.iter().map(|pool| pool.page_size.to_string()).collect();
    assert_eq!(sizes, ["2 MiB", "512 MiB", "16 GiB"]);
    assert_eq!(pools[1].total, Observed::Known(PageCount(64)));
    assert_eq!(pools[1].memory_bytes(), Some(Bytes::from_gib(32)));
    assert_eq!(pools[1].nodes.len(), 1, "node 0 tells nothing of pools");
    assert_eq!((pools[1].nodes[0].node, &pools[1].nodes[0].free), (10, &Observed::Absent));
    let nodes: Vec<_> = host.nodes.as_known().unwrap().iter().map(|node| node.id).collect();
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
        .with_file(
            "/proc/meminfo",
            "MemTotal: 65807152 \
                 kB\nHugePages_Total:    8704\nHugePages_Free:     8700\nHugePages_Rsvd:       12\n\
             HugePages_Surp:        0\nHugepagesize:       2048 kB\n",
        )
        .with_file(
            "/sos_commands/kernel/sysctl_-a",
            "kernel.osrelease = 3.10.0-1160.el7.x86_64\nkernel.shmmax = 18446744073692774399\n\
             vm.hugetlb_shm_group = 1001\nvm.nr_overcommit_hugepages = 7\nvm.min_free_kbytes = \
                 many\n",
        )
        .with_file("/sos_commands/kernel/dmesg", "[1.0] HugeTLB: registered 2.00 MiB page size\n");
    let (host, unread) = host(&source);

    let pools = host.pools.as_known().unwrap();
    assert_eq!((pools.len(), pools[0].page_size), (1, PageSize::MIB_2));
    assert_eq!(pools[0].committed_pages(), Some(PageCount(16)));
    assert_eq!(pools[0].overcommit, Observed::Known(PageCount(7)));
    assert_eq!(host.kernel.as_known().map(|kernel| (kernel.major, kernel.minor)), Some((3, 10)));
    assert_eq!(host.architecture, Observed::Known("x86_64".into()));
    assert_eq!(host.base_page, Observed::Known(PageSize::KIB_4));
    assert_eq!(host.kernel_settings.shmmax, Observed::Known(Bytes(18_446_744_073_692_774_399)));
    assert_eq!(host.kernel_settings.hugetlb_shm_group, Observed::Known(1001));
    assert_eq!(host.kernel_log.as_known().map(Vec::len), Some(1));
    assert_eq!(unread, ["/sos_commands/kernel/sysctl_-a: malformed: no number"]);
}

#[test]
fn rhel_6_has_thp_elsewhere() {
    let folder = "/sys/kernel/mm/redhat_transparent_hugepage";
    let source = MapSource::new()
        .with_file(&format!("{folder}/enabled"), "[always] never\n")
        .with_file(&format!("{folder}/defrag"), "[always] never\n")
        .with_file(&format!("{folder}/khugepaged/defrag"), "[yes] no\n");
    let (host, _) = host(&source);
    assert_eq!(host.thp.enabled, Observed::Known("always".into()));
    assert_eq!(host.thp.khugepaged.get("defrag"), Some(&Observed::Known(1)));
    assert_eq!(host.thp.shmem_enabled, Observed::Absent);
}

#[test]
fn a_log_too_long_to_read_is_skipped_and_a_shut_meminfo_is_not_an_old_kernel() {
    let source = MapSource::new()
        .with_denied("/proc/meminfo")
        .with_file("/var/log/dmesg", "HugeTLB: one\n")
        .with_malformed("/var/log/kern.log", "longer than 16 MiB");
    let (host, unread) = host(&source);
    assert_eq!(host.kernel_log, Observed::Known(vec!["HugeTLB: one".to_owned()]));
    assert_eq!(host.memory.hugetlb, Observed::Denied);
    assert_eq!(host.pools, Observed::Denied);
    assert_eq!(unread, ["/var/log/kern.log: skipped: longer than 16 MiB", "/proc/meminfo: denied"]);
}

#[test]
fn what_is_denied_or_garbage_is_said_and_nothing_is_made_up() {
    let source = MapSource::new()
        .with_denied("/proc/zoneinfo")
        .with_file("/proc/meminfo", b"\xff\xff\xff")
        .with_file("/proc/swaps", "nonsense")
        .with_file("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "-5\n");
    let (host, unread) = host(&source);
    assert_eq!(host.memory.watermarks, Observed::Denied);
    assert!(matches!(host.memory.total, Observed::Malformed(_)));
    assert!(matches!(host.memory.swaps, Observed::Malformed(_)));
    let pool = &host.pools.as_known().unwrap()[0];
    assert!(matches!(pool.total, Observed::Malformed(_)));
    assert_eq!(pool.free, Observed::Absent);
    assert_eq!(host.nodes, Observed::Absent);
    assert_eq!(unread.len(), 4, "{unread:?}");
}

/// The kernel that runs these tests is the second opinion, read with other tools.
mod on_this_machine {
    use std::process::Command;

    use super::*;
    use hugewise_source::LiveSource;

    fn shell(script: &str) -> String {
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn facts_are_what_awk_and_cat_say() {
        let source = LiveSource::new();
        let mut door = FactReader::new(&source);
        let mut host = Host { live: true, ..Host::default() };
        read(&mut door, &mut host);

        let kib: u64 = shell("awk '/^MemTotal:/{print $2}' /proc/meminfo").parse().unwrap();
        assert_eq!(host.memory.total, Observed::Known(Bytes(kib * 1024)));
        assert_eq!(host.kernel.as_known().unwrap().text, shell("uname -r"));
        assert_eq!(
            host.processors.online.get().unwrap().to_string(),
            shell("getconf _NPROCESSORS_ONLN")
        );
        let settings = &host.kernel_settings;
        assert_eq!(
            settings.shmmax.get().unwrap().get().to_string(),
            shell("cat /proc/sys/kernel/shmmax")
        );
        assert_eq!(
            settings.shmmni.get().unwrap().to_string(),
            shell("cat /proc/sys/kernel/shmmni")
        );
        let zones = shell("grep -c zone /proc/buddyinfo");
        assert_eq!(host.memory.free_blocks.as_known().unwrap().len().to_string(), zones);
        let zones = shell("grep -c '^Node' /proc/zoneinfo");
        assert_eq!(host.memory.watermarks.as_known().unwrap().len().to_string(), zones);
        let counters = shell("wc -l < /proc/vmstat");
        assert_eq!(host.memory.vmstat.as_known().unwrap().len().to_string(), counters);

        let folder = "/sys/kernel/mm/hugepages";
        let pools = host.pools.as_known().unwrap();
        assert_eq!(pools.len().to_string(), shell(&format!("ls {folder} | wc -l")));
        for pool in pools {
            let name = format!("{folder}/hugepages-{}kB", pool.page_size.bytes().get() / 1024);
            let overcommit = pool.overcommit.get().unwrap().get().to_string();
            assert_eq!(overcommit, shell(&format!("cat {name}/nr_overcommit_hugepages")));
            assert!(pool.total.is_known() && pool.free.is_known() && pool.reserved.is_known());
        }
        let total =
            "cat /sys/kernel/mm/hugepages/*/nr_hugepages | awk '{sum += $1} END {print sum}'";
        // Other tests may change the pools; what stood still around a reading must be what was
        // read.
        for _ in 0..50 {
            let before = shell(total);
            let mut host = Host { live: true, ..Host::default() };
            read(&mut FactReader::new(&source), &mut host);
            let pages: PageCount =
                host.pools.as_known().unwrap().iter().map(|pool| pool.total.get().unwrap()).sum();
            if before == shell(total) {
                assert_eq!(pages.get().to_string(), before);
                break;
            }
        }
        let folder = "/sys/kernel/mm/transparent_hugepage";
        let chosen = shell(&format!("sed 's/.*\\[\\(.*\\)\\].*/\\1/' {folder}/enabled"));
        assert_eq!(host.thp.enabled, Observed::Known(chosen));
        let malformed: Vec<_> = door
            .unread
            .iter()
            .filter(|unread| matches!(unread.why, Reason::Malformed(_)))
            .collect();
        assert!(malformed.is_empty(), "{malformed:?}");
    }
}
