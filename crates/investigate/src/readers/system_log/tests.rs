mod forms;
mod reports;

use super::*;
use crate::series::UnplacedTimes;

/// `date -u -d '2026-11-21 22:47:35' +%s`
const THEN: i64 = 1_795_301_255;

fn read(stream: &mut dyn Read, source: &str) -> Result<Series, FileRefused> {
    read_lines(stream, source, LogSettings::default()).map(|mut all| all.remove(0))
}

fn read_text(text: &str) -> Series {
    read(&mut text.as_bytes(), "log").unwrap()
}

fn events(text: &str) -> Vec<(i64, LogEventKind, String)> {
    read_text(text).events().map(|(at, event)| (at.0, event.kind, event.what.clone())).collect()
}

/// As Linux 6.18 wrote it, of a python3 that asked for 200 MB in a cgroup of 30 MB.
const CGROUP: &str = "\
[Sat Nov 21 22:47:35 2026] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, \
     oom_score_adj=0
[Sat Nov 21 22:47:35 2026] CPU: 0 UID: 0 PID: 23520 Comm: python3 Not tainted 6.18.5 #1 \
     PREEMPT(none)
[Sat Nov 21 22:47:35 2026] memory: usage 30720kB, limit 30720kB, failcnt 43
[Sat Nov 21 22:47:35 2026] Tasks state (memory values in pages):
[Sat Nov 21 22:47:35 2026] [  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem \
     pgtables_bytes swapents oom_score_adj name
[Sat Nov 21 22:47:35 2026] [  23520]     0 \
     23520    55342     9300     7616     1684         0   122880        0             0 python3
[Sat Nov 21 22:47:35 2026] \
     oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/hwtest,task_memcg=/hwtest,task=python3,pid=23520,uid=0
[Sat Nov 21 22:47:35 2026] Memory cgroup out of memory: Killed process 23520 (python3) \
     total-vm:221368kB, anon-rss:30464kB, file-rss:6736kB, shmem-rss:0kB, UID:0 pgtables:120kB \
     oom_score_adj:0
";

#[test]
fn a_cgroup_at_its_limit_is_told_from_a_host_without_memory() {
    // 30,464 KiB are 29.75 MiB, 6,736 are 6.578.
    let what = "killed python3 (pid 23520, 29.8 MiB private, 6.6 MiB shared, 120 KiB of page \
         tables): the cgroup /hwtest \
                had reached its memory limit";
    assert_eq!(events(CGROUP), [(THEN * 1000, LogEventKind::CgroupOutOfMemory, what.to_owned())]);
}

/// A host of 240 sessions: each row has 65.5 MB of page tables, which are 62.5 MiB; 240 of them
/// 14.65 GiB.
#[test]
fn who_held_the_page_tables_is_told_by_the_report() {
    let mut text = String::from(
        "2026-11-21T22:47:35.000000+00:00 db7 kernel: [ 4321.000001] crond invoked oom-killer: \
             gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0
2026-11-21T22:47:35.000000+00:00 db7 kernel: [ 4321.000001] Node 0 DMA: 1*4kB (U) 0*8kB 0*16kB = 4kB
2026-11-21T22:47:35.000000+00:00 db7 kernel: [ 4321.000001] Node 0 hugepages_total=5122 \
             hugepages_free=5000 hugepages_surp=0 hugepages_size=2048kB
2026-11-21T22:47:35.000000+00:00 db7 kernel: [ 4321.000001] [  pid  ]   uid  tgid \
             total_vm      rss pgtables_bytes swapents oom_score_adj name
",
    );
    for pid in 0..240 {
        text += &format!(
            "2026-11-21T22:47:35.000000+00:00 db7 kernel: [ 4321.000001] [{pid:7}] 54321 {pid} \
                 8912345  2621440 65536000        0             0 oracle\n"
        );
    }
    text += "2026-11-21T22:47:36.000000+00:00 db7 kernel: [ 4322.000001] Out of memory: Killed \
         process 17 (oracle) total-vm:35649380kB, anon-rss:8192kB, file-rss:0kB, \
         shmem-rss:10485760kB, UID:54321 pgtables:64000kB oom_score_adj:0\n";
    let what = "killed oracle (pid 17, 8.0 MiB private, 10.0 GiB shared, 62.5 MiB of page \
         tables): the host was out of memory, \
                and crond asked for more; 240 processes of oracle held 14.6 GiB of page tables; \
         5122 huge pages of 2 MiB, \
                5000 of them free";
    let series = read_text(&text);
    let all: Vec<_> =
        series.events().map(|(at, event)| (at.0, event.kind, event.what.as_str())).collect();
    assert_eq!(all, [((THEN + 1) * 1000, LogEventKind::OutOfMemory, what)]);
    assert_eq!(
        (series.host.as_deref(), series.covered),
        (Some("db7"), Some((Moment(THEN * 1000), Moment((THEN + 1) * 1000))),)
    );
    assert!(series.relayed);
}

/// The table of Linux 3.10 counts tables, each of 4 KiB: 3 processes of 16,000 held 187.5 MiB.
#[test]
fn older_kernels_count_tables() {
    let text = "\
Nov 21 22:47:35 db7 kernel: oracle invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0
Nov 21 22:47:35 db7 kernel: [ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj \
         name
Nov 21 22:47:35 db7 kernel: [ 4711]   500  4711  8912345   123456   16000        0             0 \
         oracle
Nov 21 22:47:35 db7 kernel: [ 4712]   500  4712  8912345   123456   16000        0             0 \
         oracle
Nov 21 22:47:35 db7 kernel: [ 4713]   500  4713  8912345   123456   16000        0             0 \
         oracle
Nov 21 22:47:35 db7 kernel: Out of memory: Kill process 4711 (oracle) score 12 or sacrifice child
Nov 21 22:47:35 db7 kernel: Killed process 4711 (oracle) total-vm:35649380kB, anon-rss:1024kB, \
         file-rss:2048kB, shmem-rss:0kB
";
    let all = events(text);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(
        all[0].2,
        "killed oracle (pid 4711, 1.0 MiB private, 2.0 MiB shared): the host was out of memory; 3 \
             processes of oracle held \
         187.5 MiB of page tables"
    );
    let of_2_6_32 = "Nov 21 22:47:35 db7 kernel: Killed process 4711, UID 500, (oracle) \
         total-vm:1024kB, anon-rss:512kB, file-rss:0kB\n";
    assert_eq!(events(of_2_6_32)[0].1, LogEventKind::OutOfMemory);
}

#[test]
fn what_the_kernel_says_of_memory_is_an_event() {
    for (message, kind, words) in [
        (
            "INFO: task oracle:4711 blocked for more than 120 seconds.",
            LogEventKind::HungTask,
            "oracle (pid 4711) hung for more than 120 s",
        ),
        (
            "java: page allocation failure: order:4, mode:0x40d0(GFP_KERNEL|__GFP_COMP), \
                 nodemask=(null)",
            LogEventKind::AllocationFailure,
            "java could not get 16 pages in a row (order 4): free memory was in smaller pieces",
        ),
        (
            "java: page allocation failure. order:0, mode:0xd0",
            LogEventKind::MemoryExhausted,
            "java could not get a single page: memory was exhausted",
        ),
        (
            "XFS: oracle(8414) possible memory allocation deadlock size 65768 in kmem_alloc \
                 (mode:0x2d40)",
            LogEventKind::AllocationFailure,
            "XFS for oracle could not get 65768 bytes in a row in a hundred tries, and goes on \
                 trying",
        ),
        (
            "XFS: possible memory allocation deadlock in kmem_alloc (mode:0x250)",
            LogEventKind::AllocationFailure,
            "XFS could not get its memory in a hundred tries, and goes on trying",
        ),
        (
            "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kswapd0:61]",
            LogEventKind::Lockup,
            "processor 3 was stuck in the kernel for 22 s, in kswapd0:61",
        ),
        (
            "rcu: INFO: rcu_sched self-detected stall on CPU",
            LogEventKind::Lockup,
            "a processor stayed in the kernel so long that RCU stalled",
        ),
        (
            "NMI watchdog: Watchdog detected hard LOCKUP on cpu 3",
            LogEventKind::Lockup,
            "a processor did not even answer interrupts (hard lockup)",
        ),
        (
            "Watchdog CPU:59 Hard LOCKUP",
            LogEventKind::Lockup,
            "a processor did not even answer interrupts (hard lockup)",
        ),
        (
            "watchdog: CPU3: Watchdog detected hard LOCKUP on cpu 2",
            LogEventKind::Lockup,
            "a processor did not even answer interrupts (hard lockup)",
        ),
        (
            "BUG: Bad page state in process oracle  pfn:12345",
            LogEventKind::BadPage,
            "the kernel found a bad page state in oracle: suspect memory or a driver",
        ),
        (
            "Memory failure: 0x7f1c: Sending SIGBUS to mysqld:4711 due to hardware memory \
                 corruption",
            LogEventKind::BadPage,
            "the kernel killed mysqld (pid 4711): its memory was faulty",
        ),
        (
            "MCE: Killing mysqld:4711 due to hardware memory corruption fault at 7fd2",
            LogEventKind::BadPage,
            "the kernel killed mysqld (pid 4711): its memory was faulty",
        ),
        (
            "segment-related general protection fault: beec [#2] PREEMPT SMP",
            LogEventKind::Oops,
            "the kernel found itself in error (oops): segment-related general protection fault: \
                 beec [#2] PREEMPT SMP",
        ),
        (
            "[3:  Binder:9343_3:22875] rcu: INFO: rcu_sched self-detected stall on CPU",
            LogEventKind::Lockup,
            "a processor stayed in the kernel so long that RCU stalled",
        ),
        (
            "HugeTLB: allocating 17410 of page size 2.00 MiB failed.  Only allocated 123 \
                 hugepages.",
            LogEventKind::PoolShort,
            "the kernel was asked for 17410 huge pages of 2.00 MiB and found 123",
        ),
        (
            "oracle (4592): Using mlock ulimits for SHM_HUGETLB is obsolete",
            LogEventKind::HugePagePermission,
            "oracle (4592) was refused System V huge pages: this kernel looks only at \
                 vm.hugetlb_shm_group",
        ),
        (
            "Linux version 5.14.0-362.el9.x86_64 (mockbuild@x) (gcc)",
            LogEventKind::Boot,
            "Linux 5.14.0-362.el9.x86_64 started",
        ),
    ] {
        let all = events(&format!("[Sat Nov 21 22:47:35 2026] {message}\n"));
        assert_eq!(all, [(THEN * 1000, kind, words.to_owned())], "{message}");
    }
    let quiet = "\
2026-11-21T22:47:35,000000+00:00 EXT4-fs (vda): mounted filesystem
2026-11-21T22:47:36,000000+00:00 systemd[1]: Shutting down.
";
    assert_eq!(events(quiet), []);
}

/// Who may not wait meets an empty reserve, not the end of memory. 0x20 is GFP_ATOMIC up to 4.3,
/// 0x2080020 of 4.4 to 4.9; 0x2204020 of 4.4 has __GFP_KSWAPD_RECLAIM and not __GFP_DIRECT_RECLAIM.
#[test]
fn who_may_not_wait_for_a_page_exhausts_no_memory() {
    for mode in [
        "mode:0x20",
        "mode:0x4020",
        "mode:0x2080020",
        "mode:0x2204020",
        "mode:0x2084120(GFP_ATOMIC|__GFP_COLD|__GFP_COMP)",
        "mode:0x820(GFP_ATOMIC), nodemask=(null),cpuset=/,mems_allowed=0",
    ] {
        let line = format!("[1.000001] swapper/20: page allocation failure: order:0, {mode}\n");
        let all = events(&line);
        assert_eq!(all[0].1, LogEventKind::ReserveEmpty, "{mode}");
        assert!(all[0].2.contains("vm.min_free_kbytes"), "{mode}");
    }
    for mode in
        ["mode:0xd0", "mode:0x201da", "mode:0x24200ca", "mode:0x6200ca(GFP_HIGHUSER_MOVABLE)", ""]
    {
        let line = format!("[1.000001] java: page allocation failure: order:0, {mode}\n");
        assert_eq!(events(&line)[0].1, LogEventKind::MemoryExhausted, "{mode}");
    }
}

#[test]
fn the_host_says_that_it_was_shut_down() {
    for line in [
        "Nov 21 22:47:35 db7 systemd[1]: Shutting down.",
        "Nov 21 22:47:35 db7 systemd[1]: Reached target System Reboot.",
        "Nov 21 22:47:35 db7 systemd[1]: Reached target reboot.target - System Reboot.",
        "Nov 21 22:47:35 db7 systemd[1]: Reached target Shutdown.",
        // As RHEL 7's rsyslog writes it.
        "Nov 21 22:47:35 db7 systemd: Reached target Shutdown.",
        "Nov 21 22:47:35 db7 systemd-logind[812]: System is powering down.",
        "Nov 21 22:47:35 db7 shutdown[4711]: shutting down for system reboot",
    ] {
        assert_eq!(events(&format!("{line}\n"))[0].1, LogEventKind::Shutdown, "{line}");
    }
    assert_eq!(events("Nov 21 22:47:35 db7 oracle[4711]: Shutting down.\n"), []);
    // Somebody's last session ended, and his own manager with it: a host that hangs then was not
    // shut down.
    assert_eq!(events("Nov 21 22:47:35 db7 systemd[32641]: Reached target Shutdown.\n"), []);
}

/// A folder of logs has many that tell nothing: none of them is a file with a problem.
#[test]
fn a_log_that_tells_nothing_has_no_problem() {
    let quiet = read_text("Nov 21 22:47:35 db7 sshd[99]: Accepted publickey for root\n");
    assert_eq!((quiet.events().count(), quiet.problems.len()), (0, 0));
    let hung = read_text(
        "Nov 21 22:47:35 db7 kernel: INFO: task a:1 blocked for more than 120 seconds.\n",
    );
    assert_eq!((hung.events().count(), hung.problems.len()), (1, 1));
}

#[test]
fn a_year_that_ends_goes_on_in_the_next() {
    let text = "\
Dec 31 23:59:59 db7 kernel: INFO: task a:1 blocked for more than 120 seconds.
Jan  1 00:00:01 db7 kernel: INFO: task a:1 blocked for more than 120 seconds.
";
    let series = read_text(text);
    assert!(series.without_year);
    let (first, last) = series.covered.unwrap();
    assert_eq!(last.0 - first.0, 2000);
}

#[test]
fn kernel_logs_are_told_from_other_texts() {
    assert!(is_system_log(b"[    0.000000] Linux version 6.1.0 (x)\n"));
    assert!(is_system_log(
        b"-- Boot 1234 --\nNov 21 22:47:35 db7 kernel: x\nNov 21 22:47:35 db7 kernel: y\n"
    ));
    for other in
        [&b"MemTotal: 1 kB\n"[..], b"hello\nworld\n", b"", b"Linux 5.14.0 (db1) \t11/21/26\n"]
    {
        assert!(!is_system_log(other));
    }
}

/// A log that is cut off anywhere tells what the whole one tells, up to there.
#[test]
fn a_log_that_is_cut_off_tells_its_beginning() {
    let whole = events(CGROUP.repeat(2).as_str());
    assert_eq!(whole.len(), 2);
    let text = CGROUP.repeat(2);
    for cut in 0..text.len() {
        let Ok(series) = read(&mut &text.as_bytes()[..cut], "log") else { continue };
        let told: Vec<_> =
            series.events().map(|(at, event)| (at.0, event.kind, event.what.clone())).collect();
        // The last report may be cut off itself.
        let ended = match told.as_slice() {
            [ended @ .., (_, LogEventKind::OomCutOff | LogEventKind::CgroupOutOfMemory, _)]
                if !whole.starts_with(&told) =>
            {
                ended
            }
            all => all,
        };
        assert!(whole.starts_with(ended), "{cut}: {told:?}");
    }
}

/// What the kernel says of the fault of a process that names itself as it says other things.
#[test]
fn a_process_that_names_itself_is_believed_nothing() {
    for name in [
        "hard LOCKUP",
        "Linux version e",
        "Killed process ",
        "Out of memory: ",
        "INFO: rcu_stall",
        "oom-kill:",
    ] {
        let text = format!(
            "2026-11-21T22:47:35,000000+00:00 {name}[29347]: segfault at 0 ip 000055 sp 00007f \
                 error 6 in a(deleted)[55,1]\n"
        );
        assert_eq!(events(&text), [], "{name}");
    }
}

/// Twelve tasks that hung nine days apart, the newest first, are no trouble of three months.
#[test]
fn the_order_of_a_log_is_no_order_of_time() {
    let mut history = crate::IncidentHistory::default();
    let lines: String = (0..12)
        .map(|ago| {
            let at = jiff::Timestamp::from_second(THEN - ago * 9 * 86_400).unwrap();
            format!("{at} db7 kernel: INFO: task oracle:{ago} blocked for more than 120 seconds.\n")
        })
        .collect();
    history.series.push(read_text(&lines));
    let found = crate::signatures::find_signatures(&history);
    assert_eq!(found.len(), 12);
    assert!(found.iter().all(|one| one.from == one.to), "{found:?}");
}

/// With base pages of 64 KiB a table takes 64 KiB on arm64 and 4 KiB on POWER: the number of tables
/// tells no size.
#[test]
fn the_number_of_tables_tells_no_size_on_larger_pages() {
    let report = |page: u32, column: &str| {
        format!(
            "Nov 21 22:47:35 db7 kernel: oracle invoked oom-killer: gfp_mask=0x201da, order=0, \
                 oom_score_adj=0\n\
             Nov 21 22:47:35 db7 kernel: Node 0 DMA: 5*{page}kB (U) 2*{}kB (M) = {}kB\n\
             Nov 21 22:47:35 db7 kernel: [ pid ]   uid  tgid total_vm      rss {column} swapents \
                 oom_score_adj name\n\
             Nov 21 22:47:35 db7 kernel: [ \
                 4711]   500  4711  8912345   1  134217728        0             0 oracle\n\
             Nov 21 22:47:35 db7 kernel: Killed process 4711 (oracle) total-vm:1kB, \
                 anon-rss:1024kB, file-rss:0kB\n",
            2 * page,
            9 * page,
        )
    };
    let tables = |page, column| events(&report(page, column))[0].2.contains("of page tables");
    assert!(tables(4, "nr_ptes") && !tables(64, "nr_ptes"));
    // Later kernels say bytes, which are the same everywhere.
    assert!(tables(4, "pgtables_bytes") && tables(64, "pgtables_bytes"));
}

proptest::proptest! {
    #[test]
    fn whatever_stands_in_a_report_is_bounded(
        names in proptest::collection::vec("[a-z(]{0,20}", 0..50),
        numbers in proptest::collection::vec(proptest::num::u64::ANY, 12),
        columns in proptest::sample::subsequence(vec!["uid", "rss", "nr_ptes", "pgtables_bytes", "name"], 0..=5),
    ) {
        let mut text = format!("[    1.0] x\n2026-11-21T22:47:35Z a kernel: x invoked oom-killer: \
             order={}\n", numbers[0]);
        text += &format!("2026-11-21T22:47:35Z a kernel: [ pid ] {}\n", columns.join(" "));
        for (name, number) in names.iter().zip(numbers.iter().cycle()) {
            text += &format!("2026-11-21T22:47:35Z a kernel: [ {number}] {number} {number} \
                 {number} {name}\n");
            text += &format!("2026-11-21T22:47:35Z a kernel: Node 0 hugepages_total={number} \
                 hugepages_free={number} hugepages_size={number}kB\n");
        }
        text += "2026-11-21T22:47:36Z a kernel: Out of memory: Killed process 1 (x) total-vm:1kB, \
             anon-rss:18446744073709551615kB\n";
        let all = events(&text);
        proptest::prop_assert_eq!(all.len(), 1);
        proptest::prop_assert!(all[0].2.starts_with("killed x (pid 1, "), "{}", all[0].2);
        proptest::prop_assert!(all[0].2.len() < 4000);
    }
}

/// What each tool makes of one line of the kernel.
#[test]
fn the_kernels_lines_are_read_as_every_tool_has_them() {
    let text = "INFO: task oracle:4711 blocked for more than 120 seconds.";
    for (what, before, host) in [
        ("dmesg -T in German", "[Sa Nov 21 22:47:35 2026] ", None),
        ("dmesg -T with the caller", "[Sat Nov 21 22:47:35 2026] [ T4711] ", None),
        ("dmesg -d", "[Sat Nov 21 22:47:35 2026 <    0.000001>] ", None),
        (
            "rsyslog with the caller",
            "2026-11-21T22:47:35.000000+00:00 db7 kernel: [ 4321.000001][   C0] ",
            Some("db7"),
        ),
        ("RFC 5424", "<3>1 2026-11-21T22:47:35.000000+00:00 db7 kernel - - - ", Some("db7")),
        ("journalctl -o short-unix", "1795301255.000000 db7 kernel: ", Some("db7")),
        ("a date without a zone", "2026-11-21 22:47:35 db7 kernel: ", Some("db7")),
    ] {
        let line = format!("{before}{text}\n");
        assert!(is_system_log(line.as_bytes()), "{what}");
        let series = read(&mut line.as_bytes(), "log").unwrap();
        let events: Vec<_> = series.events().map(|(at, event)| (at.0, event.kind)).collect();
        assert_eq!(
            (events, series.host.as_deref()),
            (vec![(1_795_301_255_000, LogEventKind::HungTask)], host),
            "{what}"
        );
    }
    let json = format!(
        "{{\"__REALTIME_TIMESTAMP\":\"1795301255000000\",\"_HOSTNAME\":\"db7\",\"SYSLOG_IDENTIFIER\":\"kernel\",\"MESSAGE\":\"{text}\"}}\n"
    );
    assert!(is_system_log(json.as_bytes()));
    assert_eq!(read(&mut json.as_bytes(), "log").unwrap().events().count(), 1);
    for (month, before) in [
        (12, "Dez 21 22:47:35"),
        (11, "nov. 21 22:47:35"),
        (11, "11月 21 22:47:35"),
        (3, "mars 21 22:47:35"),
    ] {
        let series = read(&mut format!("{before} db7 kernel: {text}\n").as_bytes(), "log").unwrap();
        let at = series
            .events()
            .next()
            .map(|(at, _)| hugewise_model::calendar::civil_date(at.0 / 1000).unwrap().1);
        assert_eq!(at, Some(month), "{before}");
    }
}

/// Seconds since the kernel started are read where nothing else has to be put beside them.
#[test]
fn seconds_since_the_start_are_told_as_such() {
    let text = "INFO: task oracle:4711 blocked for more than 120 seconds.";
    for before in [
        "[ 4321.000001] ",
        "<3>[ 4321.000001] ",
        "[ 4321.000001][ T4711] ",
        "[ 4321.000001] db7 kernel: ",
        "[ 4321.000001 <    0.000001 >] db7 kernel: ",
        "3,1234,4321000001,-;",
    ] {
        let line = format!("{before}{text}\n");
        assert!(is_system_log(line.as_bytes()), "{before}");
        let series = read(&mut line.as_bytes(), "log").unwrap();
        let events: Vec<_> = series.events().map(|(at, event)| (at.0, event.kind)).collect();
        assert_eq!(events, [(4_321_000, LogEventKind::HungTask)], "{before}");
        assert_eq!(series.unplaced, Some(UnplacedTimes::SinceBoot), "{before}");
    }
}
