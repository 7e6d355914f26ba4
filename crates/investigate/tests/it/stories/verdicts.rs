//! Troubles of memory that look alike, each told apart, and those of processors and disks.

use std::fmt::Write;
use std::time::Duration;

use hugewise_investigate::{
    CollectedTool, Confidence, IncidentHistory, IncidentVerdict, Metric, Moment, Series,
    SourceFormat, readers,
};

use super::made::{
    GIB, Keeps, MIB, Second, every, investigated, noise, says, seen, verdicts, window,
};

const NOON: i64 = 12 * 3600;
const ALL: Keeps = Keeps {
    total: 16.0 * GIB,
    processors: 4.0,
    scans: true,
    tables: true,
    compaction: true,
    pressure: true,
};

fn calm(second: i64) -> Second {
    Second {
        user: 20.0 + 3.0 * noise(5, second, 1),
        system: 2.0 + 0.5 * noise(5, second, 2),
        free: 6.0 * GIB,
        cached: 4.0 * GIB,
        tables: 48.0 * MIB,
        tasks: 400.0,
        queue: 2.0,
        blocked: 0.5,
        ..Second::default()
    }
}

fn at_noon(change: impl Fn(Second) -> Second, interval: i64, keeps: Keeps) -> IncidentHistory {
    let host = |second| {
        if (NOON..NOON + 300).contains(&second) { change(calm(second)) } else { calm(second) }
    };
    let around = if interval == 1 { 1800 } else { 6 * 3600 };
    investigated(vec![seen(&host, &every(interval, NOON - around, NOON + around), keeps)])
}

fn only(
    change: impl Fn(Second) -> Second,
    keeps: Keeps,
    verdict: IncidentVerdict,
) -> IncidentHistory {
    for interval in [1, 10] {
        assert_eq!(verdicts(&at_noon(&change, interval, keeps)), [verdict], "{interval} s");
    }
    let history = at_noon(&change, 60, keeps);
    assert_eq!(verdicts(&history), [verdict], "60 s");
    history
}

/// What the kernel counts as waiting for memory is compaction's too.
#[test]
fn compaction_at_97_percent_is_no_reclaim() {
    let change =
        |calm| Second { system: 96.0, user: 2.0, compacted: 900.0, stalled: (97.0, 80.0), ..calm };
    let incident = &only(change, ALL, IncidentVerdict::CompactionStall).incidents[0];
    assert_eq!(incident.confidence, Confidence::High);
    says(
        &incident.summary,
        &[
            "up to 900 allocations a second waited for compaction",
            "all tasks waited for memory in up to 80 %",
        ],
    );
    assert!(!incident.summary.contains("scanned"), "{}", incident.summary);
}

#[test]
fn a_cgroup_at_its_limit_on_a_host_with_free_memory() {
    // Taken back in the cgroup alone: what the host scans is none of it.
    let change = |calm| Second {
        system: 30.0,
        iowait: 20.0,
        stalled: (92.0, 60.0),
        taken_back: 8000.0,
        ..calm
    };
    let incident = &only(change, ALL, IncidentVerdict::CgroupLimit).incidents[0];
    assert_eq!(incident.confidence, Confidence::High);
    says(
        &incident.summary,
        &[
            "at the memory limit of a cgroup",
            "at least 38 % of memory was available",
            "all tasks waited for memory in up to 60 %",
        ],
    );
    says(&incident.next.join("\n"), &["memory.max"]);
    assert!(!incident.next.join("\n").contains("hugewise size"), "{:?}", incident.next);
    // Beside others that have work, not all tasks wait.
    only(
        |calm| Second { stalled: (92.0, 3.0), taken_back: 8000.0, ..calm },
        ALL,
        IncidentVerdict::CgroupLimit,
    );
}

/// Each of a few allocations may take a tenth of a second and more, while four processes ask for
/// huge pages.
#[test]
fn few_long_stalls_in_compaction_are_no_cgroups() {
    let change =
        |calm| Second { system: 96.0, user: 2.0, compacted: 6.0, stalled: (97.0, 40.0), ..calm };
    let incident = &only(change, ALL, IncidentVerdict::CompactionStall).incidents[0];
    assert_eq!(incident.confidence, Confidence::Medium);
    says(&incident.summary, &["up to 6 allocations a second waited for compaction"]);
    // Where the kernel has not the processors, or pages were taken back, a few say nothing.
    only(|calm| Second { system: 20.0, ..change(calm) }, ALL, IncidentVerdict::CgroupLimit);
    only(|calm| Second { taken_back: 8000.0, ..change(calm) }, ALL, IncidentVerdict::CgroupLimit);
}

/// As on a host on huge pages whose processors were busy for a quarter of an hour: kswapd scanned
/// 250 pages a second in all that time, as it did not get a processor, and nobody else had to
/// reclaim.
#[test]
fn kswapd_that_waits_for_a_processor_is_no_stall_of_memory() {
    let busy =
        |calm| Second { user: 60.0, system: 38.0, kswapd: 250.0, stalled: (95.0, 0.0), ..calm };
    for interval in [1, 10, 60] {
        assert_eq!(verdicts(&at_noon(busy, interval, ALL)), [], "{interval} s");
    }
    // A process that reclaims itself waits.
    let waits = |calm| Second { direct: 400.0, free: 0.09 * GIB, cached: 0.5 * GIB, ..busy(calm) };
    assert_eq!(verdicts(&at_noon(waits, 10, ALL)), [IncidentVerdict::ReclaimStorm]);
}

/// An old sar tells of free memory alone, of which a host with full caches has little; the kernel
/// says beside it what could be had.
#[test]
fn who_tells_of_free_memory_alone_does_not_say_that_it_was_short() {
    let waits =
        |calm: Second| Second { direct: 3.0, stalled: (92.0, 60.0), free: 0.7 * GIB, ..calm };
    let host = |second| {
        if (NOON..NOON + 300).contains(&second) { waits(calm(second)) } else { calm(second) }
    };
    let moments = every(10, NOON - 6 * 3600, NOON + 6 * 3600);
    let sar = seen(&host, &moments, ALL);
    assert_eq!(verdicts(&investigated(vec![sar.clone()])), [IncidentVerdict::ReclaimStorm]);
    let mut meminfo = Series::new("meminfo.log", SourceFormat::Loop(CollectedTool::Meminfo));
    for (sample, at) in sar.samples().iter().zip(&moments) {
        meminfo.push(sample.at, None);
        meminfo.set_value(Metric::MemFree, host(*at).free);
        meminfo.set_value(Metric::MemAvailable, 9.0 * GIB);
    }
    assert_ne!(verdicts(&investigated(vec![sar, meminfo])), [IncidentVerdict::ReclaimStorm]);
}

#[test]
fn processes_that_were_killed_are_the_verdict() {
    let storm = |calm| Second {
        system: 70.0,
        direct: 60_000.0,
        kswapd: 50_000.0,
        free: 0.06 * GIB,
        killed: 0.02,
        stalled: (90.0, 60.0),
        ..calm
    };
    let incident = &only(storm, ALL, IncidentVerdict::OutOfMemory).incidents[0];
    says(&incident.summary, &["out of memory: the kernel killed 6 processes for memory"]);
    says(&incident.next.join("\n"), &["which programs have the memory"]);
    says(&incident.raised_by.join("\n"), &["dmesg"]);
    assert!(!incident.next.join("\n").contains("hugewise size"), "{:?}", incident.next);
    // At a cgroup's limit the host has memory to spare.
    let limit = |calm| Second { killed: 0.02, stalled: (80.0, 60.0), ..calm };
    let incident = &only(limit, ALL, IncidentVerdict::CgroupLimit).incidents[0];
    says(
        &incident.summary,
        &["a cgroup reached its memory limit: at least 38 % of memory was available; the kernel \
                 killed 6 processes for memory; all"],
    );
    assert_eq!(incident.confidence, Confidence::Medium);
    // Page tables that are large all the time have nothing to do with it.
    let standing = |calm| Second { killed: 0.02, ..calm };
    let beside = |calm: Second| Second { tables: 3.0 * GIB, ..standing(calm) };
    assert!(!verdicts(&at_noon(beside, 10, ALL)).contains(&IncidentVerdict::OutOfMemory));
    assert!(!verdicts(&at_noon(beside, 10, ALL)).contains(&IncidentVerdict::ReclaimByPageTables));
    // Page tables that took the memory are named first.
    let tables = |calm| Second { tables: 3.0 * GIB, ..storm(calm) };
    says(
        &only(tables, ALL, IncidentVerdict::ReclaimByPageTables).incidents[0].summary,
        &["killed 6 processes"],
    );
}

/// Rows that atop 2.8 wrote every ten seconds on a host of 973 MiB while a server took all of its
/// memory and was killed. It does not tell what the kernel calls available; programs were locked in
/// memory, and stand among the caches.
#[test]
fn caches_that_could_not_be_given_up_are_no_memory_to_spare() {
    let host = |stalls: f64| {
        let mut atop = Series::new("atop-10", SourceFormat::Collector("atop"));
        // Free, buffers, caches, allocations a second that reclaimed, kills a second.
        let quiet = [(845_000_000.0, 5_341_184.0, 93_556_736.0, 0.0, 0.0); 60];
        let taken = [
            (68_255_744.0, 7_974_912.0, 77_058_048.0, 0.0, 0.0),
            (64_241_664.0, 4_378_624.0, 70_086_656.0, 0.0, 0.0),
            (64_442_368.0, 565_248.0, 69_005_312.0, 0.0, 0.0),
            (55_635_968.0, 122_880.0, 68_943_872.0, 0.1, 0.0),
            (802_897_920.0, 2_039_808.0, 68_964_352.0, stalls, 0.1),
        ];
        for (second, (free, buffers, cached, stalls, kills)) in
            (0..).step_by(10).zip(quiet.into_iter().chain(taken))
        {
            atop.push(Moment((NOON + second) * 1000), Some(Duration::from_secs(10)));
            let row = [
                (Metric::MemTotal, 1_020_506_112.0),
                (Metric::MemFree, free),
                (Metric::Buffers, buffers),
                (Metric::Cached, cached),
                (Metric::Shmem, 1_675_264.0),
                (Metric::AllocStall, stalls),
                (Metric::OomKill, kills),
            ];
            row.into_iter().for_each(|(metric, value)| atop.set_value(metric, value));
        }
        verdicts(&investigated(vec![atop]))
    };
    assert_eq!(host(33.3), [IncidentVerdict::OutOfMemory]);
    // The same kill at a cgroup's limit: nobody reclaimed for the host.
    assert_eq!(host(0.0), [IncidentVerdict::CgroupLimit]);
}

/// 523 MiB in five minutes, one way.
#[test]
fn memory_of_programs_that_goes_to_swap_is_named_so() {
    let out = |calm| Second {
        system: 35.0,
        kswapd: 3000.0,
        direct: 2500.0,
        swap_out: 1500.0,
        free: 0.09 * GIB,
        cached: 0.5 * GIB,
        stalled: (60.0, 25.0),
        ..calm
    };
    let incident = &only(out, ALL, IncidentVerdict::SwapStorm).incidents[0];
    says(&incident.summary, &["swap storm", "5.9 MiB a second went to swap"]);
    // Where the page cache is what is taken back, a little swap beside it is not the story.
    only(
        |calm| Second { swap_out: 1100.0, direct: 30_000.0, kswapd: 40_000.0, ..out(calm) },
        ALL,
        IncidentVerdict::ReclaimStorm,
    );
    // Half of what is taken back goes to swap and is asked for again, however often pages are
    // looked at before they go.
    let thrash = |calm| Second {
        swap_out: 1370.0,
        swap_in: 1350.0,
        taken_back: 2900.0,
        kswapd: 8000.0,
        direct: 500.0,
        ..out(calm)
    };
    only(thrash, ALL, IncidentVerdict::SwapStorm);
}

#[test]
fn no_scans_make_no_reclaim() {
    // A large program that ends at once: free memory leaps while the kernel is busy.
    let host = |second: i64| {
        let calm = calm(second);
        let (system, free) = match second {
            ..NOON => (calm.system, 0.1 * GIB),
            _ if second < NOON + 120 => (60.0, 0.1 * GIB),
            _ => (calm.system, 7.0 * GIB),
        };
        Second { system, free, ..calm }
    };
    for interval in [1, 10, 60] {
        let history =
            investigated(vec![seen(&host, &every(interval, NOON - 3600, NOON + 3600), ALL)]);
        assert_eq!(verdicts(&history), [IncidentVerdict::KernelCpu], "{interval}");
    }
}

#[test]
fn a_storm_of_forks_takes_more_of_the_kernel_than_of_programs() {
    let incident = &only(
        |calm| Second { forks: 1900.0, system: 65.0, user: 30.0, ..calm },
        ALL,
        IncidentVerdict::ForkStorm,
    )
    .incidents[0];
    says(
        &incident.summary,
        &[
            "fork storm: up to 1900 processes and threads began a second",
            "%system rose from 2 to 65",
        ],
    );
}

/// A nightly job on a host that has much of its processors left.
#[test]
fn many_forks_on_a_host_with_idle_processors_are_no_storm() {
    let nightly = |calm| Second { forks: 624.0, system: 34.0, user: 22.0, ..calm };
    for interval in [1, 10] {
        let found = verdicts(&at_noon(nightly, interval, ALL));
        assert!(!found.contains(&IncidentVerdict::ForkStorm), "{interval}: {found:?}");
    }
}

#[test]
fn thirty_writers_on_a_disk_that_does_nothing() {
    let change =
        |calm| Second { iowait: 60.0, blocked: 30.0, paged: 50_000.0, tasks: 430.0, ..calm };
    let incident = &only(change, ALL, IncidentVerdict::DiskStall).incidents[0];
    says(&incident.summary, &["up to 30 tasks waited for a disk", "%iowait rose to 60"]);
    says(&incident.next.join("\n"), &["iostat -x"]);
    // Ten sessions that read a page here and a page there, 13 MiB a second, wait for their disks
    // and are at work.
    let sessions = |calm| Second { iowait: 20.0, blocked: 10.0, paged: 13.0 * 1_048_576.0, ..calm };
    for interval in [1, 10, 60] {
        assert_eq!(verdicts(&at_noon(sessions, interval, ALL)), [], "{interval}");
    }
    // A load that moves 300 MB a second is at work.
    let busy = |calm| Second { paged: 3e8, ..change(calm) };
    for interval in [1, 10, 60] {
        assert_eq!(verdicts(&at_noon(busy, interval, ALL)), [], "{interval}");
    }
}

#[test]
fn programs_and_the_hypervisor_take_processors_too() {
    let incident = &only(
        |calm| Second { user: 96.0, system: 3.0, queue: 60.0, ..calm },
        ALL,
        IncidentVerdict::UserCpu,
    )
    .incidents[0];
    says(&incident.summary, &["up to 60 tasks wanted 4 processors"]);
    let incident = &only(
        |calm| Second { user: 15.0, steal: 70.0, queue: 8.0, ..calm },
        ALL,
        IncidentVerdict::Steal,
    )
    .incidents[0];
    says(&incident.summary, &["up to 70 % of it"]);
}

/// Thirty programs that end together are in state D for a moment, and a collector may count just
/// then.
#[test]
fn tasks_that_are_counted_at_a_moment_are_no_stall_of_disks() {
    let ending = |calm| Second { iowait: 4.0, blocked: 25.0, paged: 30_000.0, ..calm };
    for interval in [1, 10, 60] {
        assert_eq!(verdicts(&at_noon(ending, interval, ALL)), [], "{interval}");
    }
}

/// Seconds in which collectors wake together have much of the kernel, also while a disk or a
/// cgroup's limit makes others wait.
#[test]
fn a_second_of_the_kernel_in_ten_hides_no_other_trouble() {
    let woken = |second: i64| if second % 10 == 0 { 70.0 } else { 2.0 };
    let whole = |change: &dyn Fn(Second) -> Second| {
        let host = |second: i64| {
            let calm = Second { system: woken(second), user: 10.0, ..calm(second) };
            if (NOON..NOON + 300).contains(&second) { change(calm) } else { calm }
        };
        investigated(vec![seen(&host, &every(1, NOON - 1800, NOON + 1800), ALL)])
    };
    let disk = whole(&|calm| Second {
        iowait: 88.0 - calm.system,
        blocked: 30.0,
        paged: 50_000.0,
        ..calm
    });
    assert_eq!(verdicts(&disk), [IncidentVerdict::DiskStall], "{:#?}", disk.incidents);
    // The second of noon begins a second before.
    assert_eq!(window(&disk.incidents[0]), ("11:59:59".into(), "12:04:59".into()));
    let limit = whole(&|calm| Second { stalled: (80.0, 60.0), ..calm });
    assert_eq!(verdicts(&limit), [IncidentVerdict::CgroupLimit], "{:#?}", limit.incidents);
    assert_eq!(verdicts(&whole(&|calm| calm)), []);
}

/// A build has the processors for itself, and for a second now and then the kernel has more of them
/// than its compilers.
#[test]
fn a_build_is_not_the_kernels() {
    let host = |second: i64| {
        let calm = calm(second);
        if !(NOON..NOON + 300).contains(&second) {
            return calm;
        }
        let system = if second % 20 == 0 { 60.0 } else { 25.0 };
        Second { system, user: 100.0 - system, queue: 4.0, forks: 20.0, ..calm }
    };
    for interval in [1, 10, 60] {
        let history =
            investigated(vec![seen(&host, &every(interval, NOON - 3600, NOON + 3600), ALL)]);
        assert_eq!(verdicts(&history), [], "{interval} s");
    }
}

/// A job that takes ten seconds of every minute stands out at each of its runs.
#[test]
fn a_job_of_every_minute_makes_no_trouble_longer() {
    let host = |second: i64| {
        let calm = calm(second);
        let (storm, job) = ((NOON..NOON + 200).contains(&second), second % 60 < 10);
        let system = if storm {
            90.0
        } else if job {
            calm.system + 14.0
        } else {
            calm.system
        };
        Second { system, ..calm }
    };
    let history = investigated(vec![seen(&host, &every(10, NOON - 3600, NOON + 3600), ALL)]);
    assert_eq!(verdicts(&history), [IncidentVerdict::KernelCpu], "{:#?}", history.incidents);
    assert_eq!(window(&history.incidents[0]), ("12:00:01".into(), "12:03:21".into()));
}

/// Collectors and jobs wake at the same second and are in the queue that one of them counts.
#[test]
fn a_queue_of_one_moment_is_no_load() {
    let sar = |load: f64| {
        let mut text = "Linux 6.1.0 (vm) \t11/21/2026 \t_x86_64_\t(1 CPU)\n\n".to_owned();
        let rows = |text: &mut String, heading: &str, calm: &str, busy: &str| {
            writeln!(text, "09:00:00 {heading}").unwrap();
            for row in 1..90 {
                let (minute, second) = (row / 6, row % 6 * 10);
                writeln!(text, "09:{minute:02}:{second:02} {}", if row < 45 { calm } else { busy })
                    .unwrap();
            }
            text.push('\n');
        };
        rows(
            &mut text,
            "CPU %user %nice %system %iowait %steal %idle",
            "all 3.00 0.00 2.00 0.00 0.00 95.00",
            "all 96.00 0.00 4.00 0.00 0.00 0.00",
        );
        let busy = format!("11 130 {load:.2} 3.00 1.00 0");
        rows(
            &mut text,
            "runq-sz plist-sz ldavg-1 ldavg-5 ldavg-15 blocked",
            "0 120 0.20 0.20 0.20 0",
            &busy,
        );
        investigated(readers::read(text.as_bytes(), "sar21").unwrap())
    };
    assert_eq!(verdicts(&sar(3.4)), []);
    assert_eq!(verdicts(&sar(10.8)), [IncidentVerdict::UserCpu]);
}

#[test]
fn each_verdict_is_documented() {
    let page = include_str!("../../../../../docs/verdicts.md");
    let documented: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    let names: Vec<&str> = IncidentVerdict::ALL.iter().map(|verdict| verdict.name()).collect();
    assert_eq!(documented, names);
}
