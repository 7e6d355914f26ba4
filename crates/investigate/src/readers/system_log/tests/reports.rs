//! Reports of the kernel and of others who kill for memory, in the words of all releases.

use super::*;
use crate::event::{KernelWork, MemoryReport};
use hugewise_model::Bytes;

fn of_kernel(lines: &str) -> String {
    lines.lines().map(|line| format!("Nov 21 22:47:35 db7 kernel: {line}\n")).collect()
}

fn only_event(text: &str) -> LogEvent {
    let series = read_text(text);
    let all: Vec<&LogEvent> = series.events().map(|(_, event)| event).collect();
    assert_eq!(all.len(), 1, "{text}: {all:?}");
    all[0].clone()
}

/// 8,188,243 tables of 4 KiB are 31.2 GiB; 20,971,520 pages less 524,288 are 78 GiB.
#[test]
fn a_report_tells_of_all_memory() {
    let begin =
        "oracle invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0\nMem-Info:\n";
    let rest = "Node 0 DMA: 1*4kB (U) 0*8kB = 4kB\n\
                Node 0 hugepages_total=100 hugepages_free=40 hugepages_surp=0 hugepages_size=2048kB\n\
                Node 1 hugepages_total=60 hugepages_free=20 hugepages_surp=0 hugepages_size=2048kB\n\
                20971520 pages RAM\n524288 pages reserved\n\
                Killed process 4242 (oracle) total-vm:1kB, anon-rss:1kB, file-rss:1kB\n";
    let page = |pages: u64| Some(Bytes(pages * 4096));
    for counts in [
        // Linux 3.10 to 6.18; rsyslog's one line for the whole message; 2.6.18.
        "mapped:2130000 shmem:8941000 pagetables:8188243 bounce:0\n",
        "mapped:1 shmem:8941000 pagetables:8188243\n sec_pagetables:77 bounce:0\n",
        "active_anon:1 isolated_anon:0#012 mapped:1 shmem:8941000 pagetables:8188243 \
         bounce:0#012 free:5\n",
    ] {
        let event = only_event(&of_kernel(&format!("{begin}{counts}{rest}")));
        let mib = |pages: u64| Bytes::from_mib(pages * 2);
        let expected = MemoryReport {
            total: page(20_971_520 - 524_288),
            page_tables: page(8_188_243),
            shared: page(8_941_000),
            pools: Some((mib(160), mib(60))),
            huge_page: Some(Bytes::from_mib(2)),
        };
        assert_eq!(event.memory, Some(expected), "{counts}");
    }
    // Base pages of 64 KiB, as the lists of free memory say; nodes' KiB where there are none.
    let large = of_kernel(&format!(
        "{begin}mapped:1 shmem:2 pagetables:3 bounce:0\nNode 0 DMA: 1*64kB (U) = 64kB\n\
         Killed process 1 (a) total-vm:1kB, anon-rss:1kB, file-rss:1kB\n"
    ));
    assert_eq!(only_event(&large).memory.unwrap().page_tables, Some(Bytes(3 << 16)));
    let nodes = of_kernel(&format!(
        "{begin} shmem:2 pagetables:3 bounce:0\nNode 0 active_anon:4kB pagetables:192kB all? no\n\
         Killed process 1 (a) total-vm:1kB, anon-rss:1kB, file-rss:1kB\n"
    ));
    assert_eq!(only_event(&nodes).memory.unwrap().page_tables, Some(Bytes::from_kib(192)));
}

#[test]
fn old_words_and_parts_of_reports_are_kills() {
    let killed = |text: &str| {
        let event = only_event(&of_kernel(text));
        (event.kind, event.what.split(&[' ', ':'][..]).take(4).collect::<Vec<_>>().join(" "))
    };
    let java = || (LogEventKind::OutOfMemory, "killed java (pid 16498)".to_owned());
    for text in [
        "oom-killer: gfp_mask=0xd0\nOut of Memory: Killed process 16498 (java).",
        "oom-killer: gfp_mask=0x280d2, order=0\nOut of memory: Killed process 16498 (java).",
        "java invoked oom-killer: gfp_mask=0x280d2, order=0, oomkilladj=0\n\
         Out of memory: Killed process 16498, UID 500, (java).",
        "Out of memory: Kill process 16498 (java) score 77 or sacrifice child",
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
         task_memcg=/user.slice,task=java,pid=16498,uid=500",
        "Out of memory (oom_kill_allocating_task): Killed process 16498 (java).",
        "Out of memory: kill process 16498 (java) score 77 or a child",
        "Killed process 16498 (java), UID 500, total-vm:0kB, anon-rss:0kB, file-rss:0kB",
    ] {
        assert_eq!(killed(text), java(), "{text}");
    }
    // The child that is killed in the chosen process's place.
    let child = "Out of memory: Kill process 16498 (java) score 77 or sacrifice child\n\
                 Killed process 16500, UID 500, (sh) total-vm:1kB, anon-rss:1kB, file-rss:0kB";
    assert!(only_event(&of_kernel(child)).what.starts_with("killed sh (pid 16500"));
    let nodes = "No available memory (MPOL_BIND): Killed process 16498 (java).";
    assert!(only_event(&of_kernel(nodes)).what.contains("NUMA nodes"));
    for (text, kind) in [
        (
            "mydumper invoked oom-killer: gfp_mask=0x280da, order=0\nCall Trace:",
            LogEventKind::OomCutOff,
        ),
        (
            "a invoked oom-killer: gfp_mask=0xcc0, order=0\n mem_cgroup_out_of_memory+0xe8/0x100",
            LogEventKind::CgroupOutOfMemory,
        ),
    ] {
        assert_eq!(only_event(&of_kernel(text)).kind, kind, "{text}");
    }
}

#[test]
fn a_kill_that_somebody_ordered_is_no_shortage() {
    for order in ["sysrq: Manual OOM execution\n", "SysRq : Manual OOM execution\n", ""] {
        let text = format!(
            "{order}kworker/0:1 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=-1, \
             oom_score_adj=0\nmapped:1 shmem:2 pagetables:3 bounce:0\n\
             Out of memory: Killed process 7 (java) total-vm:1kB, anon-rss:1kB, file-rss:1kB"
        );
        assert_eq!(only_event(&of_kernel(&text)).kind, LogEventKind::ManualKill, "{text}");
    }
    assert_eq!(events(&of_kernel("sysrq: Manual OOM execution")), []);
}

#[test]
fn a_kernel_that_ends_says_why() {
    for (text, kind, words) in [
        (
            "Kernel panic - not syncing: Out of memory: system-wide panic_on_oom is enabled",
            LogEventKind::OutOfMemory,
            "panicked, because the host was out of memory (vm.panic_on_oom)",
        ),
        (
            "Kernel panic - not syncing: out of memory. panic_on_oom is selected",
            LogEventKind::OutOfMemory,
            "panicked, because the host was out of memory (vm.panic_on_oom)",
        ),
        (
            "Kernel panic - not syncing: Out of memory and no killable processes...",
            LogEventKind::OutOfMemory,
            "panicked, because the host was out of memory",
        ),
        (
            "Kernel panic - not syncing: System is deadlocked on memory",
            LogEventKind::OutOfMemory,
            "panicked, because the host was out of memory",
        ),
        (
            "Kernel panic - not syncing: hung_task: blocked tasks",
            LogEventKind::Panic,
            "the kernel panicked: hung_task: blocked tasks",
        ),
        (
            "Kernel panic - not syncing: softlockup: hung tasks",
            LogEventKind::Panic,
            "the kernel panicked: softlockup: hung tasks",
        ),
        (
            "Kernel panic - not syncing: Fatal exception",
            LogEventKind::Panic,
            "the kernel panicked: Fatal exception",
        ),
        (
            "kernel BUG at mm/hugetlb.c:1234!\ninvalid opcode: 0000 [#1] SMP\nOops: 0000 [#1] SMP",
            LogEventKind::Oops,
            "the kernel found itself in error (oops): kernel BUG at mm/hugetlb.c:1234!",
        ),
        (
            "BUG: kernel NULL pointer dereference, address: 0000000000000008\nOops: 0000 [#1]",
            LogEventKind::Oops,
            "the kernel found itself in error (oops): BUG: kernel NULL pointer dereference, \
             address: 0000000000000008",
        ),
        (
            "Unable to handle kernel paging request at virtual address ffff0000\nInternal error: \
             Oops: 96000004 [#1] SMP",
            LogEventKind::Oops,
            "the kernel found itself in error (oops): Unable to handle kernel paging request at \
             virtual address ffff0000",
        ),
    ] {
        let event = only_event(&of_kernel(text));
        assert_eq!((event.kind, event.what.as_str()), (kind, words), "{text}");
    }
    for name in ["Oops: 0000 [#1]", "kernel BUG at ", "invalid opcode:", "oomd kill: 1 2 "] {
        let text = format!("{name}[29347]: segfault at 0 ip 000055 sp 00007f error 6 in a[55,1]");
        assert_eq!(events(&of_kernel(&text)), [], "{name}");
    }
}

#[test]
fn what_the_kernel_was_at_is_told_by_its_trace() {
    for (text, work) in [
        ("INFO: task kswapd0:61 blocked for more than 120 seconds.", Some(KernelWork::Reclaim)),
        (
            "INFO: task khugepaged:36 blocked for more than 122 seconds.",
            Some(KernelWork::Compaction),
        ),
        ("BUG: soft lockup - CPU#5 stuck for 67s! [kswapd1:260]", Some(KernelWork::Reclaim)),
        (
            "INFO: task dd:9 blocked in I/O wait for more than 122 seconds.\n io_schedule+0x46/0x70",
            Some(KernelWork::Disk),
        ),
        (
            "INFO: task java:9 blocked for more than 120 seconds.\n io_schedule+0x16/0x40\n \
             shrink_page_list+0x1/0x2\n do_try_to_free_pages+0xe1/0x370",
            Some(KernelWork::Reclaim),
        ),
        (
            "INFO: task java:9 blocked for more than 120 seconds.\n ? do_try_to_free_pages+0x1/0x2",
            None,
        ),
        (
            "watchdog: BUG: soft lockup - CPU#1 stuck for 23s! [java:9]\nRIP: \
             0010:isolate_migratepages_block+0x1/0x2",
            Some(KernelWork::Compaction),
        ),
        ("rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 3-... }", None),
        ("BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 34s!", None),
        ("BUG: soft lockup detected on CPU#0!", None),
    ] {
        assert_eq!(only_event(&of_kernel(text)).work, work, "{text}");
    }
}

#[test]
fn whoever_kills_before_the_kernel_is_named() {
    for (tag, message, kind, words) in [
        (
            "systemd-oomd[581]",
            "Killed /user.slice/a.scope due to memory pressure for /user.slice being 86.80% > \
             80.00% for > 20s with reclaim activity",
            LogEventKind::UserspaceKill,
            "systemd-oomd killed /user.slice/a.scope: its tasks waited for memory in 86.80 % of \
             the time",
        ),
        (
            "systemd-oomd[581]",
            "Killed /system.slice/a.service due to memory used (32305733632) / total \
             (33046294528) and swap used (7730941132) / total (8589930496) being more than 90.00%",
            LogEventKind::UserspaceKill,
            "systemd-oomd killed /system.slice/a.service: more than 90.00 % of memory and of swap \
             was used",
        ),
        (
            "systemd-oomd[659]",
            "Marked /system.slice/a.service for killing due to memory pressure for /system.slice \
             being 85.03% > 80.00% for > 2s with reclaim activity",
            LogEventKind::UserspaceKill,
            "systemd-oomd killed /system.slice/a.service: its tasks waited for memory in 85.03 % \
             of the time",
        ),
        (
            "systemd[1837]",
            "a.scope: systemd-oomd killed 12 process(es) in this unit.",
            LogEventKind::UserspaceKill,
            "systemd-oomd killed processes of a.scope before memory was exhausted",
        ),
        (
            "systemd-oomd[70]",
            "oomd attempting to kill 113 with KILL",
            LogEventKind::UserspaceKill,
            "systemd-oomd killed pid 113",
        ),
        (
            "earlyoom[700]",
            "sending SIGTERM to process 4711 uid 1000 \"java\": badness 900, VmRSS 6000 MiB",
            LogEventKind::UserspaceKill,
            "earlyoom sent SIGTERM to java (pid 4711, 6000 MiB): memory was low",
        ),
        (
            "kubelet[32406]",
            "W0120 00:20:07.726836   32406 eviction_manager.go:332] eviction manager: attempting \
             to reclaim memory",
            LogEventKind::UserspaceKill,
            "kubelet began to put pods out: the node was low on memory",
        ),
        (
            "kubelet[911]",
            "I0120 00:20:07.726836     911 eviction_manager.go:366] \"Eviction manager: must evict \
             pod(s) to reclaim\" resourceName=\"memory\"",
            LogEventKind::UserspaceKill,
            "kubelet began to put pods out: the node was low on memory",
        ),
        (
            "systemd[1]",
            "a.service: A process of this unit has been killed by the OOM killer.",
            LogEventKind::UnitKilled,
            "a process of a.service was killed for memory, as systemd says",
        ),
        (
            "systemd[1]",
            "a.service: The kernel OOM killer killed some processes in this unit.",
            LogEventKind::UnitKilled,
            "a process of a.service was killed for memory, as systemd says",
        ),
        (
            "kernel",
            "oomd kill: 81.28 80.05 42.78 batch.slice/a.service 1000 ruleset:[protect]",
            LogEventKind::UserspaceKill,
            "oomd killed batch.slice/a.service",
        ),
    ] {
        let event = only_event(&format!("Nov 21 22:47:35 db7 {tag}: {message}\n"));
        assert_eq!((event.kind, event.what.as_str()), (kind, words), "{message}");
    }
    let disk = "Nov 21 22:47:35 db7 kubelet[911]: W0120 00:20:07.726836 911 \
                eviction_manager.go:332] eviction manager: attempting to reclaim imagefs\n";
    assert_eq!(events(disk), []);
    let safe = "Nov 21 22:47:35 db7 mysqld_safe[3265]: mysqld process hanging, pid 2457 - killed\n";
    assert_eq!(only_event(safe).kind, LogEventKind::ServerFailed);
    let started = "Nov 21 22:47:35 db7 systemd[1]: Started systemd-oomd.service - Userspace \
                   Out-Of-Memory (OOM) Killer.\n";
    assert_eq!(events(started), []);
}

const ASKED: &str = "java invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=0\n";
const CONTAINER: &str =
    "java cpuset=5929cf05bc9e561b7c33ffbc217250af1b94c70017743658b2558a02a1ab1424 mems_allowed=0\n";

/// From 3.12 to 4.18 the call trace alone tells a limit before the kill: mm/memcontrol.c calls
/// oom_kill_process(), and no Mem-Info comes.
#[test]
fn a_trace_through_cgroups_tells_a_limit() {
    let kind_of = |text: &str| only_event(&of_kernel(text)).kind;
    for (trace, kind) in [
        (
            " [<ffffffff8116cdde>] oom_kill_process+0x24e/0x3b0\n [<ffffffff811d3a85>] \
             mem_cgroup_oom_synchronize+0x555/0x580",
            LogEventKind::CgroupOutOfMemory,
        ),
        (
            " [<ffffffff8112cdd8>] ? mem_cgroup_oom_synchronize+0x4e8/0x550",
            LogEventKind::CgroupOutOfMemory,
        ),
        (" [<ffffffff811afed8>] ? mem_cgroup_margin+0xa8/0xc0", LogEventKind::CgroupOutOfMemory),
        // A page fault asks the cgroup first, and what it left on the stack is no proof.
        (
            " [<ffffffff8112cdd8>] ? mem_cgroup_oom_synchronize+0x4e8/0x550\n [<ffffffff8adbae46>] \
             out_of_memory+0x4b6/0x4f0",
            LogEventKind::OomCutOff,
        ),
        (" [<ffffffff8b35e36e>] __alloc_pages_slowpath+0x5d6/0x724", LogEventKind::OomCutOff),
    ] {
        assert_eq!(kind_of(&format!("{ASKED}{CONTAINER}{trace}")), kind, "{trace}");
    }
    // The kernel's words count before its trace.
    let said = format!(
        "{ASKED} [<0>] ? mem_cgroup_oom_synchronize+0x4e8/0x550\nOut of memory: Killed process 7 \
         (java) total-vm:1kB"
    );
    assert_eq!(kind_of(&said), LogEventKind::OutOfMemory);
    // A page fault that a limit of kernel memory refused.
    let fault = "python3 invoked oom-killer: gfp_mask=0x0(), order=0, oom_score_adj=0\nMem-Info:\n\
                 Out of memory: Killed process 7 (python3) total-vm:1kB";
    assert_eq!(kind_of(fault), LogEventKind::CgroupOutOfMemory);
    let slab = "  cache: kmalloc-256(255:2cb79029be5b5466fd679edb12b9130c8c9e64b33b7a4807464a472aef70161f), \
                object size: 256, buffer size: 256, default order: 1, min order: 0";
    let event = only_event(&of_kernel(slab));
    assert_eq!(event.kind, LogEventKind::CgroupOutOfMemory);
    assert!(event.what.starts_with("had no kmalloc-256 for 2cb79029be5b: "), "{}", event.what);
    let host = "  cache: kmalloc-256, object size: 256, buffer size: 256, default order: 1";
    assert_eq!(events(&of_kernel(host)), []);
}

#[test]
fn a_report_that_is_cut_off_is_like_the_one_before_of_the_same_program() {
    let killed = "Memory cgroup out of memory: Kill process 7 (java) score 0 or sacrifice child\n\
                  Killed process 7 (java) total-vm:1kB, anon-rss:1kB, file-rss:1kB\n";
    let kinds = |text: &str| -> Vec<LogEventKind> {
        events(&of_kernel(text)).iter().map(|(_, kind, _)| *kind).collect()
    };
    let limit = LogEventKind::CgroupOutOfMemory;
    assert_eq!(kinds(&format!("{ASKED}{killed}{ASKED}")), [limit, limit]);
    // Its table, and whom the kernel chose, name the program too.
    let table = "Tasks state (memory values in pages):\n";
    assert_eq!(kinds(&format!("{table}{killed}{ASKED}")), [limit, limit]);
    let other = ASKED.replace("java", "mysqld");
    assert_eq!(kinds(&format!("{ASKED}{killed}{other}")), [limit, LogEventKind::OomCutOff]);
    assert_eq!(
        kinds(&format!("{ASKED}{killed}{ASKED}Mem-Info:\n")),
        [limit, LogEventKind::OomCutOff]
    );
    // The table alone: a kill, and nobody knows for whose memory.
    let rows =
        format!("{table}[  pid  ]   uid  tgid total_vm      rss name\n[   7]  0  7  1  2 java\n");
    assert_eq!(kinds(&rows), [LogEventKind::UnitKilled]);
}

#[test]
fn a_panic_over_a_kill_that_somebody_ordered_is_no_shortage() {
    let text = "SysRq : Manual OOM execution\nKernel panic - not syncing: Out of memory: compulsory \
                panic_on_oom is enabled";
    let event = only_event(&of_kernel(text));
    assert_eq!(event.kind, LogEventKind::Panic);
    assert!(event.what.contains("not for a lack of memory"), "{}", event.what);
}
