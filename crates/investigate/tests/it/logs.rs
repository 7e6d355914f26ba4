//! What a log alone makes of a host: incidents, and how sure they are.

use std::fs;
use std::path::PathBuf;

use hugewise_investigate::{
    Confidence, Incident, IncidentVerdict, Investigation, Options, investigate,
};
use tempfile::TempDir;

fn investigate_paths(paths: &[PathBuf]) -> Investigation {
    investigate(paths, &Options::default(), &|_| {}).expect("logs that are read")
}

fn only_incident(text: &str) -> Incident {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log.txt");
    fs::write(&path, text).unwrap();
    let found = investigate_paths(&[path]);
    let all: Vec<&Incident> = found.hosts.iter().flat_map(|host| &host.incidents).collect();
    assert_eq!(all.len(), 1, "{text}: {all:#?}");
    all[0].clone()
}

fn of_kernel(lines: &str) -> String {
    lines.lines().map(|line| format!("[Sat Nov 21 08:12:01 2026] {line}\n")).collect()
}

const KILL: &str =
    "Out of memory: Killed process 7 (oracle) total-vm:1kB, anon-rss:1kB, file-rss:0kB";

/// Nobody knows when such a log was written, and whoever names it wants to hear of it.
#[test]
fn a_log_of_seconds_since_the_start_is_told_of_whatever_time_is_asked_for() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("dmesg.txt");
    let line = "[180421.153140] INFO: task oracle:4711 blocked for more than 120 seconds.\n";
    fs::write(&path, line).unwrap();
    let from = Some("2017-11-16T10:00:00+00:00".to_owned());
    let options = Options { from, ..Options::default() };
    let found = investigate(&[path], &options, &|_| {}).unwrap();
    let verdicts: Vec<_> = found.hosts[0].incidents.iter().map(|each| each.verdict).collect();
    assert_eq!(verdicts, [IncidentVerdict::HungTasks]);
}

#[test]
fn one_message_of_the_kernel_is_an_incident_as_sure_as_it_proves() {
    use Confidence::{High, Low, Medium};
    use IncidentVerdict::{
        CgroupLimit, HungTasks, KernelCrash, OutOfMemory, ReclaimStorm, ServerFailed,
    };
    for (lines, verdict, confidence) in [
        ("INFO: task oracle:4711 blocked for more than 120 seconds.", HungTasks, Low),
        ("INFO: task kswapd0:328 blocked for more than 120 seconds.", HungTasks, Medium),
        ("BUG: soft lockup - CPU#5 stuck for 67s! [java:260]", HungTasks, Low),
        ("BUG: soft lockup - CPU#5 stuck for 67s! [kswapd0:260]", HungTasks, Medium),
        ("rcu: INFO: rcu_sched self-detected stall on CPU", HungTasks, Low),
        ("Kernel panic - not syncing: Fatal exception", KernelCrash, High),
        ("BUG: unable to handle kernel paging request at 0000000201a14dc0", KernelCrash, Medium),
        (
            "Kernel panic - not syncing: Out of memory: system-wide panic_on_oom is enabled",
            OutOfMemory,
            High,
        ),
        ("java: page allocation failure. order:0, mode:0xd0", ReclaimStorm, Low),
        ("java: page allocation stalls for 11332ms, order:0, mode:0x1", ReclaimStorm, Low),
        (KILL, OutOfMemory, High),
        (
            "Memory cgroup out of memory: Killed process 7 (a) total-vm:1kB, anon-rss:1kB",
            CgroupLimit,
            High,
        ),
        (
            "mydumper invoked oom-killer: gfp_mask=0x280da, order=0, oom_score_adj=0",
            OutOfMemory,
            Medium,
        ),
    ] {
        let incident = only_incident(&of_kernel(lines));
        assert_eq!((incident.verdict, incident.confidence), (verdict, confidence), "{lines}");
    }
    // A service's word, in a log that any user may write to.
    for (line, verdict, confidence) in [
        ("systemd[1]: a.service: Failed with result 'oom-kill'.", OutOfMemory, Low),
        ("earlyoom[7]: sending SIGTERM to process 1 \"java\": badness 900", OutOfMemory, Medium),
        (
            "patroni[7]: 2026-11-21 08:12:01 UTC [9] FATAL:  could not map anonymous shared memory: \
             Cannot allocate memory",
            ServerFailed,
            Medium,
        ),
    ] {
        let incident = only_incident(&format!("Nov 21 08:12:01 db1 {line}\n"));
        assert_eq!((incident.verdict, incident.confidence), (verdict, confidence), "{line}");
    }
}

/// 8,188,243 tables of 4 KiB are 31.2 GiB of 80; 8,941,000 shared pages are 34.1 GiB, which 17,463
/// pages of 2 MiB hold.
#[test]
fn a_report_of_the_oom_killer_tells_the_whole_story() {
    let report = format!(
        "oracle invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0\nMem-Info:\n\
         mapped:2130000 shmem:8941000 pagetables:8188243 bounce:0\n\
         Node 0 hugepages_total=0 hugepages_free=0 hugepages_surp=0 hugepages_size=2048kB\n\
         20971520 pages RAM\n{KILL}"
    );
    let incident = only_incident(&of_kernel(&report));
    assert_eq!(
        (incident.verdict, incident.confidence),
        (IncidentVerdict::ReclaimByPageTables, Confidence::High)
    );
    for words in [
        "39 % of memory was page tables (31.2 GiB of 80.0 GiB)",
        "huge pages were not configured",
        "34.1 GiB was shared memory (tmpfs included), which 17463 huge pages of 2 MiB hold",
        "the kernel killed oracle",
    ] {
        assert!(incident.summary.contains(words), "{}", incident.summary);
    }
    assert_eq!(incident.raised_by, Vec::<String>::new());
    // 240 processes of 16,000 tables of 4 KiB each, without a total of them: 14.6 of 20 GiB.
    let mut table = String::from(
        "oracle invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0\n\
         Node 0 DMA: 1*4kB (U) = 4kB\n5242880 pages RAM\n\
         [ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name\n",
    );
    for pid in 4000..4240 {
        table += &format!(
            "[ {pid}]   500  {pid} 8858421    66074   16000        0             0 oracle\n"
        );
    }
    let incident = only_incident(&of_kernel(&format!("{table}{KILL}")));
    assert_eq!(incident.verdict, IncidentVerdict::ReclaimByPageTables);
    assert!(incident.summary.contains("(14.6 GiB of 20.0 GiB)"), "{}", incident.summary);
    // Small page tables are not why.
    let small = report.replace("pagetables:8188243", "pagetables:100000");
    assert_eq!(only_incident(&of_kernel(&small)).verdict, IncidentVerdict::OutOfMemory);
}

#[test]
fn a_kill_that_somebody_ordered_is_no_incident() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("dmesg");
    let lines = format!(
        "sysrq: Manual OOM execution\nkworker/0:1 invoked oom-killer: gfp_mask=0xcc0, order=-1, \
         oom_score_adj=0\n{KILL}"
    );
    fs::write(&path, of_kernel(&lines)).unwrap();
    assert!(investigate_paths(&[path]).hosts.iter().all(|host| host.incidents.is_empty()));
}

/// Beside other files too, and in a capture by the capture's own boot.
#[test]
fn a_raw_kernel_log_in_a_folder_is_read_as_by_its_name() {
    let hung = "[ 1686.611836][ T1064] INFO: task kworker/u4:5:9381 blocked for more than 143 \
                seconds.\n";
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("dmesg.log"), hung).unwrap();
    let verdicts = |found: &Investigation| -> Vec<IncidentVerdict> {
        let incidents = found.hosts.iter().flat_map(|host| &host.incidents);
        incidents.map(|incident| incident.verdict).collect()
    };
    let alone = investigate_paths(&[folder.path().to_owned()]);
    assert_eq!(verdicts(&alone), [IncidentVerdict::HungTasks]);
    let meminfo: String = (0..20)
        .map(|at| format!("Fri Nov 20 08:00:{:02} UTC 2026\nMemTotal: 8388608 kB\nMemFree: 5600000 kB\nPageTables: 12034 kB\n", at * 3))
        .collect();
    fs::write(folder.path().join("meminfo.log"), meminfo).unwrap();
    let beside = investigate_paths(&[folder.path().to_owned()]);
    assert_eq!(verdicts(&beside), [IncidentVerdict::HungTasks]);
    assert!(beside.passed_over.is_empty(), "{:?}", beside.passed_over);
    let unknown = beside.hosts.iter().flat_map(|host| &host.unknown);
    assert!(
        unknown.clone().any(|why| why.contains("dmesg -T")),
        "{:?}",
        unknown.collect::<Vec<_>>()
    );

    let capture = TempDir::new().unwrap();
    let put = |path: &str, text: &str| {
        let at = capture.path().join(path);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
    };
    put("proc/meminfo", "MemTotal: 8388608 kB\n");
    // 2026-11-21T22:00:00Z.
    put("proc/stat", "cpu 1 2 3 4\nbtime 1795298400\n");
    put("proc/sys/kernel/hostname", "db7\n");
    put("sos_commands/kernel/dmesg", hung);
    let captured = investigate_paths(&[capture.path().to_owned()]);
    assert_eq!(verdicts(&captured), [IncidentVerdict::HungTasks]);
    let incident = captured.hosts.iter().flat_map(|host| &host.incidents).next().unwrap();
    assert_eq!(incident.from.0, (1_795_298_400 * 1000) + 1_686_611);
}

#[test]
fn a_servers_own_log_is_enough_for_an_incident() {
    use Confidence::{High, Medium};
    use IncidentVerdict::{HugePagesLost, ServerFailed};
    let start = "2026-11-21T22:47:35.000000+00:00\nStarting ORACLE instance (normal) (OS id: 1)\n";
    for (text, verdict, confidence) in [
        (
            "2021-01-18 21:19:30.017 UTC [1] LOG:  server process (PID 315) was terminated by \
             signal 9: Killed\n"
                .to_owned(),
            ServerFailed,
            Medium,
        ),
        (
            "2022-04-05 12:06:05.719 GMT [1] LOG:  server process (PID 229) was terminated by \
             signal 7: Bus error\n"
                .to_owned(),
            ServerFailed,
            Medium,
        ),
        (
            "2024-03-20 16:52:03 UTC [28624] FATAL:  could not map anonymous shared memory: Cannot \
             allocate memory\n"
                .to_owned(),
            ServerFailed,
            High,
        ),
        (
            format!("{start}ERROR: use_large_pages = FALSE is not a supported setting for database on Exadata\n"),
            ServerFailed,
            High,
        ),
        (
            format!(
                "{start}****************** Large Pages Information *****************\n\
                 Total Shared Global Region in Large Pages = 1024 MB (85%)\n\
                 Large Pages used by this instance: 512 (1024 MB)\nLarge Page size = 2048 KB\n\
                 RECOMMENDATION:\n Total Shared Global Region size is 1202 MB. For optimal \
                 performance, increase the number of unused Large Pages by atleast 89 2048 KB Large \
                 Pages (178 MB)\n***********************************************************\n"
            ),
            HugePagesLost,
            High,
        ),
        // Without times, as people paste it.
        (
            "SQL> startup nomount\nORA-27125: unable to create shared memory \
             segment\nLinux-x86_64 Error: 1: Operation not permitted\n"
                .to_owned(),
            ServerFailed,
            High,
        ),
        (
            "running bootstrap script ... Bus error (core dumped)\nchild process exited with exit \
             code 135\ninitdb: removing data directory \"/x\"\n"
                .to_owned(),
            ServerFailed,
            High,
        ),
    ] {
        let incident = only_incident(&text);
        assert_eq!((incident.verdict, incident.confidence), (verdict, confidence), "{text}");
    }
}

#[test]
fn a_servers_own_words_are_an_incident_as_sure_as_they_prove() {
    use Confidence::{High, Low};
    use IncidentVerdict::{DiskStall, ServerFailed, SwapStorm};
    let waits: String = (0..3)
        .map(|minute| {
            format!(
                "cache-1  | 1:M 21 Nov 2026 08:1{minute}:00.007 * Asynchronous AOF fsync is taking \
                 too long (disk is busy?). Writing the AOF buffer without waiting for fsync\n"
            )
        })
        .collect();
    for (text, verdict, confidence) in [
        (waits.as_str(), DiskStall, Low),
        (
            "Sat Nov 21 08:12:01 2026\nWARNING: Heavy swapping observed on system in last 5 mins.\n",
            SwapStorm,
            Low,
        ),
        (
            "2026-11-21 08:12:01:InnoDB: mmap(137363456 bytes) failed; errno 12\n\
             2026-11-21 08:12:01:261121 08:12:01 InnoDB: Completed initialization of buffer pool\n\
             2026-11-21 08:12:01:261121 08:12:01 [Note] mysqld: Shutdown complete\n",
            ServerFailed,
            High,
        ),
        (
            "2026-11-21T08:12:01.748222Z qemu-system-x86_64: cannot set up guest memory 'pc.ram': \
             Cannot allocate memory\n",
            ServerFailed,
            High,
        ),
    ] {
        let incident = only_incident(text);
        assert_eq!((incident.verdict, incident.confidence), (verdict, confidence), "{text}");
    }
}

/// What the kernel gave up after its time, and what it could not write any more.
#[test]
fn storage_that_does_not_answer_is_a_stall_by_the_kernels_word() {
    use Confidence::{Low, Medium};
    let timeout = |second: u32| {
        format!(
            "[Sat Nov 21 08:12:{second:02} 2026] nvme nvme0: I/O {second} QID 2 timeout, reset \
             controller\n"
        )
    };
    for (text, confidence) in [
        (timeout(1), Low),
        (timeout(1) + &timeout(31) + &timeout(58), Medium),
        ("[Sat Nov 21 08:12:01 2026] Aborting journal on device sda1-8.\n".to_owned(), Low),
    ] {
        let incident = only_incident(&text);
        let told = (incident.verdict, incident.confidence);
        assert_eq!(told, (IncidentVerdict::DiskStall, confidence), "{text}");
    }
}

/// Three requests within a minute are no bad sector of a disk that is mirrored.
#[test]
fn requests_that_fail_again_and_again_are_a_disk_that_fails() {
    let error = "[Sat Nov 21 08:12:01 2026] blk_update_request: critical medium error, dev sdc, \
                 sector 7988224\n";
    let incident = only_incident(&error.repeat(3));
    assert_eq!(
        (incident.verdict, incident.confidence),
        (IncidentVerdict::DiskStall, Confidence::Low)
    );
}

/// A JVM's last words, before the first line of what ran it, which has a time.
#[test]
fn words_before_the_first_time_are_read() {
    let incident = only_incident(
        "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x000000072394d000, 159375360, \
         0) failed; error='Cannot allocate memory' (errno=12)\n#\n# There is insufficient memory for \
         the Java Runtime Environment to continue.\n# Native memory allocation (mmap) failed to map \
         159375360 bytes for committing reserved memory.\n[taskcluster 2018-11-23 23:06:49.872Z] === \
         Task Finished ===\n[taskcluster 2018-11-23 23:06:49.876Z] Unsuccessful task run\n",
    );
    assert_eq!(incident.verdict, IncidentVerdict::OutOfMemory);
}

#[test]
fn one_wait_for_a_disk_is_no_incident() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log.txt");
    for line in [
        "1:M 21 Nov 2026 08:12:00.007 * Asynchronous AOF fsync is taking too long\n",
        "[Sat Nov 21 08:12:01 2026] Buffer I/O error on dev sdc1, logical block 0\n",
    ] {
        fs::write(&path, line).unwrap();
        let found = investigate_paths(std::slice::from_ref(&path));
        assert!(found.hosts.iter().all(|host| host.incidents.is_empty()), "{line}");
    }
}

/// Both files span the kill; one alone holds it.
#[test]
fn evidence_names_the_log_that_holds_it() {
    let folder = TempDir::new().unwrap();
    let quiet = "Nov 21 08:12:00 db1 kernel: a\nNov 21 08:12:09 db1 kernel: c\n";
    fs::write(folder.path().join("kern.log"), quiet).unwrap();
    let kill = format!("Nov 21 08:12:00 db1 kernel: b\nNov 21 08:12:02 db1 kernel: {KILL}\n");
    fs::write(folder.path().join("messages"), kill).unwrap();
    let found = investigate_paths(&[folder.path().to_owned()]);
    let incidents = found.hosts.iter().flat_map(|host| &host.incidents);
    let rows = incidents.flat_map(|one| &one.signatures).flat_map(|one| &one.evidence);
    let sources: Vec<&str> = rows.map(|row| row.source.as_str()).collect();
    assert!(!sources.is_empty() && sources.iter().all(|path| path.ends_with("messages")));
}

#[test]
fn a_leap_day_is_of_the_last_year_that_has_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("messages");
    fs::write(&path, format!("Feb 29 10:00:00 db1 kernel: {KILL}\n")).unwrap();
    let found = investigate_paths(&[path]);
    let from = found.hosts[0].clock.format(found.hosts[0].incidents[0].from);
    assert!(from.contains("-02-29T10:00:00"), "{from}");
}
