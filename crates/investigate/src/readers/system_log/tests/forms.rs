//! The same messages as people have them: without a date, turned around, with something before them.

use super::*;
use crate::readers::{Pasted, ReadingMode, read_as};

const HUNG: &str = "INFO: task oracle:4711 blocked for more than 120 seconds.";
/// `date -u -d '2026-11-21 22:00:00' +%s`, when the kernel of these logs started.
const BOOTED: i64 = 1_795_298_400;

fn read_any(text: &str, began: Option<Moment>) -> Series {
    let pasted = Some(Pasted { began, ..Pasted::default() });
    let mode = ReadingMode { pasted, ..ReadingMode::default() };
    read_as(text.as_bytes(), "log", mode).unwrap_or_else(|why| panic!("{why}: {text}")).remove(0)
}

fn kinds(series: &Series) -> Vec<(i64, LogEventKind)> {
    series.events().map(|(at, event)| (at.0, event.kind)).collect()
}

/// A console that adds dates to some of the lines: 34,315 s after the start it is 00:03:33.
#[test]
fn a_date_beside_seconds_since_the_start_is_that_of_all_lines() {
    let text = format!(
        "[34315.000000] {HUNG}\n[34315.100000]       Not tainted 5.10.0 #1\nAug 26 00:03:33 \
         [34315.000000]  ? wbt_rqw_done+0xe0/0xe0\n[34315.163373]  schedule+0x46/0xb0\n"
    );
    let series = read_any(&text, None);
    let of_day = kinds(&series)[0].0.rem_euclid(86_400_000);
    assert_eq!((of_day, kinds(&series)[0].1), ((3 * 60 + 33) * 1000, LogEventKind::HungTask));
}

/// Whoever copies begins in the middle of the first line, which has the news.
#[test]
fn a_first_line_that_lost_its_time_counts_at_the_next_ones() {
    let next = "Nov 21 22:47:35 db1 kernel: [11078.008280] CPU 7\n";
    for (first, kind) in [
        ("general protection fault: 0000 [#1] SMP", LogEventKind::Oops),
        (HUNG, LogEventKind::HungTask),
        (" Kernel panic - not syncing: Attempted to kill init!", LogEventKind::Panic),
    ] {
        let series = read_any(&format!("{first}\n{next}{next}"), None);
        let all: Vec<_> = kinds(&series).into_iter().map(|(_, kind)| kind).collect();
        assert_eq!((all, series.relayed), (vec![kind], true), "{first}");
    }
    let series = read_any(&format!("it hung at night\n{next}{next}"), None);
    assert_eq!(kinds(&series), []);
}

/// earlyoom before 1.1 on a terminal.
#[test]
fn earlyoom_without_times_is_read() {
    let text = "mem avail:  838 of 5875 MiB (14 %), swap free:    0 of    0 MiB ( 0 %)\n\
                Low memory! mem avail: 638 of 5875 MiB (10) % <= min 10 %\n\
                Invoking oom killer: done\n";
    let series = read_any(text, None);
    assert_eq!((kinds(&series), series.relayed), (vec![(0, LogEventKind::UserspaceKill)], true));
    let named = text.replace("Invoking oom killer: done", "Killing process 'bash' with signal 15");
    assert_eq!(kinds(&read_any(&named, None)), [(0, LogEventKind::UserspaceKill)]);
    // It was told to act where half is left.
    let ample = text.replace("(14 %)", "(49 %)");
    assert_eq!(kinds(&read_any(&ample, None)), []);
}

/// A stall that nobody notices: six ticks are 60 ms at most.
#[test]
fn stalls_of_a_few_ticks_are_none() {
    let stall = |ticks: u32| {
        let text = format!(
            "[   27.285351] rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: {{ \
             0-... }} {ticks} jiffies s: 85 root: 0x1/.\n"
        );
        kinds(&read_any(&text, None)).len()
    };
    assert_eq!((stall(6), stall(2101)), (0, 1));
}

/// Whoever broke a line before its time left its day behind.
#[test]
fn a_time_of_day_among_dates_is_of_the_day_before_it() {
    let text = format!(
        "Feb  4 16:15:16 db1 kernel: a\n16:15:17 kernel: {HUNG}\nFeb  4 16:15:18 db1 kernel: b\n"
    );
    let series = read_any(&text, None);
    assert_eq!((series.unplaced, series.without_year), (None, true));
    let (from, to) = series.span().unwrap();
    assert_eq!((kinds(&series)[0].0 - from.0, to.0 - from.0), (1000, 2000));
}

/// dmesg -T, and what syslogd wrote on a terminal meanwhile.
#[test]
fn lines_without_a_year_are_of_the_year_that_others_have() {
    let text = format!(
        "[Fri Sep  3 02:14:38 2021] a\n\nMessage from syslogd@db1 at Sep  3 07:30:26 ...\n \
         kernel:[ 3191.941392] {HUNG}\n"
    );
    let series = read_any(&text, None);
    // `date -u -d '2021-09-03 07:30:26' +%s`
    assert_eq!(kinds(&series), [(1_630_654_226_000, LogEventKind::HungTask)]);
    assert!(!series.without_year);
}

/// Registers behind a lockup are the stuck processor's, whatever the kernel is tainted by.
#[test]
fn a_lockup_of_a_kernel_that_is_tainted_by_a_death_is_a_lockup() {
    let trace = "[51420.240055] CPU: 2 PID: 478 Comm: khugepaged Tainted: G      D       3.13.0 #1\n\
                 [51420.240055] RIP: 0010:[<ffffffff810013a8>]  [<ffffffff810013a8>] x+0x8/0x20\n";
    let lockup = "[51420.240055] BUG: soft lockup - CPU#2 stuck for 22s! [khugepaged:478]\n";
    let read = |text: &str| -> Vec<LogEventKind> {
        read_any(text, None).events().map(|(_, event)| event.kind).collect()
    };
    assert_eq!(read(&format!("{lockup}{trace}")), [LogEventKind::Lockup]);
    assert_eq!(read(trace), [LogEventKind::Oops]);
}

/// The kernel reads its clock 2.5 s after it started, and audit writes 3.25 s after that: both say
/// the same of a line 2,855 s after the start.
#[test]
fn a_raw_log_tells_its_own_date() {
    let at = BOOTED + 2;
    for anchor in [
        format!(
            "[    2.500000] rtc_cmos 00:01: setting system clock to 2026-11-21T22:00:02 UTC ({at})"
        ),
        format!(
            "[    2.000000] rtc_cmos 00:03: setting system clock to 2026-11-21 22:00:02 UTC ({at})"
        ),
        format!("[    5.250000] audit: type=2000 audit({}.250:1): initialized", BOOTED + 5),
        format!(
            "[    5.250000] type=1404 audit({}.250:2): enforcing=1 old_enforcing=0",
            BOOTED + 5
        ),
    ] {
        // Before the line with the date, and behind it.
        for text in [
            format!("{anchor}\n[ 2855.000000] {HUNG}\n"),
            format!("[    1.000000] {HUNG}\n{anchor}\n"),
        ] {
            let series = read_any(&text, None);
            assert_eq!(series.unplaced, None, "{text}");
            assert!(matches!(series.clock, Clock::Utc { .. }), "{text}");
            let after = if text.contains("2855") { 2855 } else { 1 };
            let found = kinds(&series)[0].0;
            assert!((found - (BOOTED + after) * 1000).abs() <= 500, "{text}: {found}");
        }
    }
    // A second boot without a date is left out, and one of its own.
    let text = format!(
        "[    2.000000] rtc_cmos 00:01: setting system clock to 2026-11-21T22:00:02 UTC ({at})\n\
         [ 4000.000000] {HUNG}\n[    0.000000] Linux version 6.1.0 (x)\n[  100.000000] {HUNG}\n"
    );
    let series = read_any(&text, None);
    assert_eq!(kinds(&series), [((BOOTED + 4000) * 1000, LogEventKind::HungTask)]);
    assert_eq!(series.problems.len(), 1);
    // A process that names itself as audit writes sets no clock.
    let text = "[    9.000000] audit(142744173[29347]: segfault at 0 ip 0 sp 0 error 6\n\
                [   10.000000] Linux version 6.1.0 (x)\n";
    assert_eq!(read_any(text, None).unplaced, Some(UnplacedTimes::SinceBoot));
}

/// `dmesg -H` says the minute once, and then how much later each line is.
#[test]
fn minutes_and_differences_are_added_up() {
    let text = format!(
        "[Nov21 22:47] Linux version 6.1.0 (x)\n[  +1.500000] {HUNG}\n[ +30.250000] {HUNG}\n\
         [Nov21 22:50] {HUNG}\n"
    );
    let series = read_any(&text, None);
    assert!(series.without_year);
    // 22:47:00 of the placeholder year; 1.5 s and 31.75 s later; 22:50:00.
    let minute = Moment::from_seconds(
        hugewise_model::calendar::midnight_seconds(2000, 11, 21).unwrap() + 22 * 3600 + 47 * 60,
    )
    .0;
    let times: Vec<i64> = kinds(&series).iter().map(|(at, _)| at - minute).collect();
    assert_eq!(times, [0, 1500, 31_750, 180_000]);
    // What is before the first minute was not later than it.
    let cut = format!("[  +2.000000] {HUNG}\n[  +3.000000] x\n[Nov21 22:47] x\n");
    assert_eq!(kinds(&read_any(&cut, None))[0].0, minute - 3000);
}

#[test]
fn a_log_whose_newest_line_comes_first_is_turned_around() {
    let kill = "Killed process 6439 (tracker) total-vm:1kB, anon-rss:1024kB, file-rss:0kB";
    let lines = [
        "19:50:58 kernel: dnsmasq invoked oom-killer: gfp_mask=0x1100cca, order=0, oom_score_adj=0",
        "19:50:59 kernel: Node 0 DMA: 1*4kB (U) = 4kB",
        &format!("19:51:00 kernel: Out of memory: {kill}"),
        "19:51:01 systemd: tracker.service: Failed with result 'oom-kill'.",
    ];
    let newest_first: String = lines.iter().rev().map(|line| format!("{line}\n")).collect();
    let seven = (19 * 3600 + 51 * 60) * 1000;
    let series = read_any(&newest_first, None);
    assert_eq!(series.unplaced, Some(UnplacedTimes::OfSomeDay));
    assert_eq!(
        kinds(&series),
        [(seven, LogEventKind::OutOfMemory), (seven + 1000, LogEventKind::UnitKilled)]
    );
    assert!(series.events().next().unwrap().1.what.contains("dnsmasq asked for more"));
    // The day that somebody gives.
    let dated = read_any(&newest_first, Some(Moment(BOOTED * 1000)));
    let midnight = (BOOTED - 22 * 3600) * 1000;
    assert_eq!((dated.unplaced, kinds(&dated)[0].0), (None, midnight + seven));
    // journalctl -r has days.
    let reversed: String = lines
        .iter()
        .rev()
        .map(|line| format!("Nov 21 {}\n", line.replacen(' ', " db7 ", 1)))
        .collect();
    assert_eq!(kinds(&read_any(&reversed, None)).len(), 2);
    // Times of day in other tools' lines are theirs.
    assert!(!is_system_log(b"08:00:00 PageTables: 400000 kB\n08:00:03 PageTables: 400001 kB\n"));
}

#[test]
fn what_stands_before_the_kernels_seconds_is_left_out() {
    for before in [
        "percona # [   16.869199] ",
        "[Kernel dmesg] [   16.869199] ",
        "db1 login: [   16.869199] ",
        "kernel-1  | [   16.869199] ",
        "[   16.869199] kernel: ",
        "[   16.869199] db7 kernel: ",
    ] {
        let text = format!("{before}{HUNG}\n{before}x\n");
        let series = read_any(&text, None);
        assert_eq!(kinds(&series), [(16_869, LogEventKind::HungTask)], "{before}");
        assert_eq!(series.unplaced, Some(UnplacedTimes::SinceBoot), "{before}");
    }
    for before in [
        "2026-11-21T22:00:00.1234567Z [   16.869199] ",
        "[Sat Nov 21 22:00:00 2026] [   16.869199] ",
        "Nov 21 22:00:00 kernel: ",
        "Nov 21 22:00:00 db7 kern.err kernel: [   16.869199] ",
    ] {
        let series = read_any(&format!("{before}{HUNG}\n{before}x\n"), None);
        assert_eq!((series.events().count(), series.unplaced), (1, None), "{before}");
        assert_eq!(series.events().next().unwrap().1.kind, LogEventKind::HungTask, "{before}");
    }
    // As a terminal gets it from rsyslog.
    let wall = "\nMessage from syslogd@db7 at Nov 21 22:00:00 ...\n kernel:NMI watchdog: BUG: soft \
                lockup - CPU#3 stuck for 22s! [kswapd0:61]\n";
    let series = read_any(wall, None);
    assert_eq!((series.events().count(), series.host.as_deref()), (1, Some("db7")));
}

#[test]
fn a_kernel_log_without_any_time_is_read_and_says_so() {
    for text in [
        "INFO: task docker:20744 blocked for more than 120 seconds.\n      Tainted: G\n",
        "Memory cgroup out of memory: Kill process 1012 (heapster) score 1035 or sacrifice \
         child\nKilled process 1012 (heapster) total-vm:1kB, anon-rss:1kB, file-rss:1kB\n",
        "\nCall Trace:\n dump_stack+0x19/0x1b\nKernel panic - not syncing: Fatal exception\n",
    ] {
        let series = read_any(text, None);
        assert_eq!(series.unplaced, Some(UnplacedTimes::Untimed), "{text}");
        assert_eq!(series.events().count(), 1, "{text}");
        let dated = read_any(text, Some(Moment(BOOTED * 1000)));
        assert_eq!((dated.unplaced, kinds(&dated)[0].0), (None, BOOTED * 1000), "{text}");
    }
    for other in ["hello\nworld\n", "Linux version 6.1.0 (x)\n", "Call Trace:\n"] {
        assert!(!is_bare_kernel_log(other.as_bytes()), "{other}");
    }
}

const INVOKED: &str = "java invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0";
const REPORT: &str = "Mem-Info:\n active_file:12 pagetables:20000 bounce:0\n8388608 pages RAM\n\
     [ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name\n\
     [29410]     0 29410  9000000  7900000   16000        0             0 java\n\
     Out of memory: Kill process 29410 (java) score 856 or sacrifice child\n\
     Killed process 29410 (java) total-vm:36000000kB, anon-rss:1024kB, file-rss:0kB";

/// A whole report behind whatever shippers, web pages, spreadsheets and grep put before each line:
/// 2017-06-14 18:01 is `date -u -d '2017-06-14 18:01' +%s` = 1497463260.
#[test]
fn a_report_behind_a_prefix_that_nobody_knows_is_read_whole() {
    let then = 1_497_463_260_000;
    for (before, at) in [
        ("Jun 14 2017 18:01:00 db1 kernel: ", Some(then)),
        ("2017 Jun 14 18:01:00 db1 kernel: ", Some(then)),
        ("2017/06/14 18:01:00 db1 kernel: ", Some(then)),
        ("Jun 14, 2017 @ 18:01:00.000\tdb1\tkernel: ", Some(then)),
        ("192.0.2.1: kern: warning: [2017-06-14T18:01:00Z]: ", Some(then)),
        ("Jun 14 18:01:00 db1 kernel kernel: ", None),
    ] {
        for text in [format!("{INVOKED}\n{REPORT}"), REPORT.to_owned()] {
            let whole = text.lines().map(|line| format!("{before}{line}\n")).collect::<String>();
            let series = read_any(&whole, None);
            let events: Vec<_> = series.events().collect();
            let [(found, event)] = events[..] else { panic!("{before}: {events:?}") };
            assert_eq!(event.kind, LogEventKind::OutOfMemory, "{before}");
            assert!(event.what.contains("killed java (pid 29410, 1.0 MiB private)"), "{before}");
            if at.is_some() {
                assert_eq!(Some(found.0), at, "{before}");
            }
        }
    }
    // Syslog's own lines behind something.
    for before in [
        "/var/log/messages:Jun 14 18:01:00 db1 kernel: ",
        "/var/log/messages-20170618:4711:Jun 14 18:01:00 db1 kernel: ",
        "> Jun 14 18:01:00 db1 kernel: ",
        "Jun 14 18:01:00 db1 kernel: <4>",
        "Jun 14 18:01:00 db1 kernel: : [26135.000001] ",
        "Jun 14 18:01:00 db1 kernel:[26135.000001] ",
    ] {
        let text = format!("{INVOKED}\n{REPORT}");
        let whole = text.lines().map(|line| format!("{before}{line}\n")).collect::<String>();
        let series = read_any(&whole, None);
        let events: Vec<_> = series.events().map(|(_, event)| event).collect();
        assert_eq!(events.len(), 1, "{before}: {events:?}");
        assert!(events[0].memory.is_some(), "{before}: {events:?}");
        assert!(series.without_year, "{before}");
    }
    // The first line of a quotation may be the only one that is marked, and no time is there at all.
    for (first, next) in [
        ("> Jun 14 18:01:00 db1 kernel: ", "Jun 14 18:01:00 db1 kernel: "),
        ("kernel: ", "kernel: "),
    ] {
        let rest: String = REPORT.lines().map(|line| format!("{next}{line}\n")).collect();
        let series = read_any(&format!("{first}{INVOKED}\n{rest}"), None);
        let (_, event) = series.events().next().unwrap();
        assert!(event.what.starts_with("killed java (pid 29410"), "{first}: {}", event.what);
        assert!(!event.what.contains("asked for more"), "{first}: {}", event.what);
    }
    let waited = "Jun 12 06:39:16: mem avail:    19 of   950 MiB ( 2.10%), swap free:  153 of 1023 MiB\n\
                  Jun 12 06:39:16: low memory! at or below SIGTERM limits: mem 10.00%, swap 15.00%\n\
                  Jun 12 06:39:16: sending SIGTERM to process 696 uid 1001 \"ipfs\": badness 757, \
                  VmRSS 637 MiB\n";
    let series = read_any(waited, None);
    assert_eq!(kinds(&series).len(), 1);
    let (_, event) = series.events().next().unwrap();
    assert!(event.what.ends_with("memory was low (2.10 % available)"), "{}", event.what);
    assert_eq!(series.events().next().unwrap().1.kind, LogEventKind::UserspaceKill);
    // A text that only speaks of it is none.
    let story =
        "Yesterday the kernel said that java invoked oom-killer: what now?\nI do not know.\n";
    let pasted = Some(Pasted::default());
    let mode = ReadingMode { pasted, ..ReadingMode::default() };
    assert!(read_as(story.as_bytes(), "mail", mode).is_err(), "{story}");
}

/// A kernel of 4.14, a minute after its boot: the page allocator itself called the killer.
#[test]
fn a_slab_that_a_cgroup_did_not_get_beside_an_oom_is_the_hosts() {
    let slab = "[   64.647345] SLUB: Unable to allocate memory on node -1, gfp=0x15004c0(GFP_KERNEL_ACCOUNT)\n\
        [   64.647347]   cache: kmalloc-256(351:web.service), object size: 256, buffer size: 256, default \
        order: 1, min order: 0\n";
    let whole = format!("{INVOKED}\n{REPORT}")
        .lines()
        .map(|line| format!("[   65.342797] {line}\n"))
        .collect::<String>();
    let kinds = |text: &str| {
        let series = read_any(text, None);
        series.events().map(|(_, event)| event.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(slab), [LogEventKind::CgroupOutOfMemory]);
    assert_eq!(kinds(&format!("{slab}{whole}")), [LogEventKind::OutOfMemory]);
    let head = format!("[   65.342797] {INVOKED}\n[   65.342801] java cpuset=/ mems_allowed=0\n");
    assert_eq!(kinds(&format!("{slab}{head}")), [LogEventKind::OomCutOff]);
    let later = whole.replace("[   65.", "[  165.");
    let both = [LogEventKind::CgroupOutOfMemory, LogEventKind::OutOfMemory];
    assert_eq!(kinds(&format!("{slab}{later}")), both);
}

/// A severity before the sender, as templates of rsyslog write it; senders that nobody knows.
#[test]
fn a_log_whose_messages_tell_nothing_is_read_all_the_same() {
    let line = "2025-03-05T13:09:36.192+00:00 db1  !WARNING | kernel: nvme nvme0: I/O 263 QID 2 \
                timeout, aborting\n";
    // `date -u -d '2025-03-05 13:09:36' +%s`
    let timeout = (1_741_180_176_192, LogEventKind::StorageTimeout);
    assert_eq!(kinds(&read_any(line, None)), [timeout]);
    for before in ["2017/06/14 18:01:00 db1 kernel: ", "Jun 14, 2017 @ 18:01:00.000\tdb1\tkernel: "]
    {
        let text = format!("{before}usb 1-1: new device\n{before}eth0: link up\n");
        let series = read_any(&text, None);
        // `date -u -d '2017-06-14 18:01' +%s`
        assert_eq!(series.covered.map(|(from, _)| from.0), Some(1_497_463_260_000), "{before}");
        assert_eq!(kinds(&series), [], "{before}");
    }
}

/// `journalctl -u postgresql` has no line of the kernel's; a list has a bullet before each line.
#[test]
fn the_journal_of_another_boot_is_a_boot() {
    let (one, other) =
        ("Sep 18 19:51:41 db1 systemd[1]: Reloaded x.", "Sep 19 18:19:12 db1 systemd[1]: y.");
    for separator in ["-- Reboot --", "-- Boot 09c6bc504c524e05bdc65fd6bd7462e3 --"] {
        for bullet in ["", "  - ", "* "] {
            let text: String =
                [one, separator, other].map(|line| format!("{bullet}{line}\n")).concat();
            let events = kinds(&read_any(&text, None));
            assert_eq!(
                events.iter().map(|(_, kind)| *kind).collect::<Vec<_>>(),
                [LogEventKind::Boot],
                "{text}"
            );
        }
    }
    let first = format!("-- Boot 09c6bc504c524e05bdc65fd6bd7462e3 --\n{one}\n");
    assert_eq!(kinds(&read_any(&first, None)), []);
}

/// Patroni's line has the year that syslog leaves out: `date -u -d '2024-03-20 16:52:03' +%s` is
/// 1710953523.
#[test]
fn a_servers_own_time_tells_the_year_of_syslogs() {
    let text = "Mar 20 16:52:01 pg1 systemd[1]: Starting x.\n\
                Mar 20 16:52:03 pg1 patroni[28624]: 2024-03-20 16:52:03 +05 [28624-1]  FATAL:  could \
                not map anonymous shared memory: Cannot allocate memory\n";
    let series = read_any(text, None);
    assert!(!series.without_year);
    assert_eq!(kinds(&series), [(1_710_953_523_000, LogEventKind::ServerRefused)]);
    // What is of another day is no time of that line.
    let other = text.replace("2024-03-20", "2024-07-01");
    assert!(read_any(&other, None).without_year);
}

#[test]
fn a_server_that_systemd_saw_killed_has_failed() {
    for (line, events) in [
        ("postgresql@11-main.service: Main process exited, code=killed, status=9/KILL", 1),
        ("mariadb.service: Main process exited, code=dumped, status=6/ABRT", 1),
        ("mariadb.service: Main process exited, code=killed, status=15/TERM", 0),
        ("mariadb.service: Main process exited, code=exited, status=1/FAILURE", 0),
        ("app.service: Main process exited, code=killed, status=9/KILL", 0),
    ] {
        let text = format!("Sep 18 19:51:41 db1 systemd[1]: {line}\n");
        assert_eq!(kinds(&read_any(&text, None)).len(), events, "{line}");
    }
}
