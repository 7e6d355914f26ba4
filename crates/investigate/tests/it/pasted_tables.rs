//! Tables that collectors print for people, and lines out of the middle of them.

use hugewise_investigate::{Confidence, IncidentVerdict, Metric, Options, Series};

use super::pasted_tools::{investigate_file, single_verdict};

fn every(interval: &str, from: &str) -> Options {
    Options {
        from: Some(from.to_owned()),
        interval: Some(interval.to_owned()),
        ..Options::default()
    }
}

/// What is read of a text whose rows are a second apart, and its problems.
fn read_pasted(text: &str) -> (Series, String) {
    let told = investigate_file("paste.txt", text, &every("1s", "2018-08-02 10:00")).unwrap();
    let [history] = &told.hosts[..] else { panic!("{told:?}") };
    assert_eq!(history.incidents.len(), 0, "{history:#?}");
    (history.series[0].clone(), format!("{:?}", told.sources))
}

/// dstat shortens bytes by 1,024 and numbers of events by 1,000; a process has no column. The first
/// row is of the time since the boot.
#[test]
fn what_dstat_prints_has_units_and_groups() {
    let (series, problems) = read_pasted(
        "[root@db1 ~]# dstat -cldm -y --top-cpu\n\
         ----total-cpu-usage---- ---load-avg--- -dsk/total- ------memory-usage----- ---system-- -most-expensive-\n\
         usr sys idl wai hiq siq| 1m   5m  15m | read  writ| used  buff  cach  free| int   csw |  cpu process   \n  \
         8   2  89   0   0   1|2.91 1.00 0.95|5423B   94k|9952M  182M 59.7G  183G|2065  2245 |mysqld       0.2\n \
         71  17   3   0   0  10|2.91 1.00 0.95|   0   716k|9952M  182M 59.7G  183G|  56k 1746 |mysqld        96\n\
         usr sys idl wai hiq siq| 1m   5m  15m | read  writ| used  buff  cach  free| int   csw |  cpu process   \n \
         69  17   2   0   0  11|3.00 1.05 0.97|   0    32k|9952M  182M 59.7G  183G|  55k 1848 |                \n",
    );
    let values = |metric| (0..3).map(|row| series.value(metric, row)).collect::<Vec<_>>();
    assert_eq!(values(Metric::CpuUser), [None, Some(71.0), Some(69.0)]);
    // Interrupts are the kernel's time.
    assert_eq!(values(Metric::CpuSystem), [None, Some(27.0), Some(28.0)]);
    assert_eq!(values(Metric::PagedOut), [None, Some(733_184.0), Some(32_768.0)]);
    assert_eq!(values(Metric::Interrupts), [None, Some(56_000.0), Some(55_000.0)]);
    assert_eq!(values(Metric::MemFree), [Some(183.0 * 1_073_741_824.0); 3]);
    assert_eq!(values(Metric::Load1), [Some(2.91), Some(2.91), Some(3.0)]);
    assert!(problems.contains("counted from --from by --interval"), "{problems}");
}

/// collectl says of all that is busy how much is the kernel's; a number without a unit is of its
/// column's.
#[test]
fn what_collectl_and_pmstat_print_is_read() {
    let (series, _) = read_pasted(
        "waiting for 1 second sample...\n\
         #<--------CPU--------><-----------Memory-----------><----------Disks----------->\n\
         #cpu sys inter  ctxsw Free Buff Cach Inac Slab  Map KBRead  Reads KBWrit Writes \n  \
         56  24 69911 153028  12G 150M   1G   1G  88M   1G      0      0      4      1 \n  \
         55  23 62327 142095  12G 150M   1G   1G  88M   1G      8      0   2108     64 \n",
    );
    assert_eq!(series.value(Metric::CpuUser, 1), Some(32.0));
    assert_eq!(series.value(Metric::CpuSystem, 1), Some(23.0));
    assert_eq!(series.value(Metric::MemFree, 0), Some(12.0 * 1_073_741_824.0));
    assert_eq!(series.value(Metric::PagedOut, 1), Some(2108.0 * 1024.0));
    let (series, _) = read_pasted(
        "@ Sat Dec 20 23:55:38 2025\n \
         loadavg                      memory      swap        io    system         cpu\n   \
         1 min   swpd   free   buff  cache   pi   po   bi   bo   in   cs  us  sy  id\n    \
         0.08      0  4041m   6176  1374m    0    0    0    0  199  344   0   0 100\n    \
         0.39     12  4041m   6176  1374m    3    0    0    3  215  340   2   1  97\n",
    );
    assert_eq!(series.value(Metric::Load1, 1), Some(0.39));
    assert_eq!(series.value(Metric::MemFree, 0), Some(4041.0 * 1_048_576.0));
    assert_eq!(series.value(Metric::SwapUsed, 1), Some(12_288.0));
    assert_eq!(series.value(Metric::SwapIn, 1), Some(3.0));
    assert_eq!(series.value(Metric::CpuIdle, 1), Some(97.0));
}

/// The averages alone do not say how long a run took.
#[test]
fn averages_of_a_run_are_said_to_be_those() {
    let (series, problems) = read_pasted(
        "```\n# server = host\nAverage:     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n\
         Average:     all   23.20    0.00    7.31    0.00    0.00    2.26    0.00    0.00    0.00   67.06\n```\n",
    );
    assert_eq!(series.samples().len(), 1);
    assert_eq!(series.value(Metric::CpuUser, 0), Some(23.2));
    assert!(problems.contains("has averages of a run alone"), "{problems}");
    let (_, problems) = read_pasted(
        "Moyenne :   UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU  Command\n\
         Moyenne :  5667    358500         -   73,91   67,09    0,00   14,10  141,00     -  compactor\n",
    );
    assert!(problems.contains("has averages of a run alone"), "{problems}");
}

/// `top -b | grep Cpu`, one line in a report, and the head of BusyBox's top.
#[test]
fn lines_of_tops_processors_are_passes() {
    let stolen =
        "   %Cpu(s):0.0 us,0.0 sy,0.0 ni,5.6 id,0.0 wa, 16.7 hi,  0.0 si, 77.8 st\n".repeat(7);
    let told = investigate_file("top.txt", &stolen, &every("1s", "2020-10-01 10:00")).unwrap();
    assert_eq!(single_verdict(&told), Some(IncidentVerdict::Steal));
    let waited = "in the meanwhile, \"top\" says:\n\
        Cpu(s):  0.3%us,  2.3%sy,  0.0%ni,  0.0%id, 97.4%wa,  0.0%hi,  0.0%si,  0.0%st\n";
    let told = investigate_file("top.txt", waited, &every("1s", "2008-04-30 10:00")).unwrap();
    assert_eq!(single_verdict(&told), Some(IncidentVerdict::DiskStall));
    let (series, _) = read_pasted(
        "~ # top\nMem: 462528K used, 5528K free, 0K shrd, 3580K buff, 151248K cached\n\
         CPU:  70% usr  23% sys   0% nic   0% idle   0% io   0% irq   5% sirq\n\
         Load average: 8.32 8.61 8.33 2/136 15558\n",
    );
    assert_eq!(series.value(Metric::CpuUser, 0), Some(70.0));
    assert_eq!(series.value(Metric::CpuSystem, 0), Some(28.0));
    assert_eq!(series.value(Metric::Load1, 0), Some(8.32));
}

/// A comment of a program's source has a mark before each line, and nothing behind that of an empty
/// one.
#[test]
fn a_table_in_a_comment_with_a_zone_behind_its_times_is_read() {
    let row = |second: u32| {
        format!(
            " *  12:57:{second}  IST      0.00    264.00    540.00      0.00    242.00      0.00      0.00      0.00      0.00\n"
        )
    };
    let text = format!(
        " *  [user1@db1 ~]$ sar -B 1\n *  Linux 3.10.0-514.21.1.el7.x86_64 (db1)    Monday 09 \
         September 2024        _x86_64_        (16 CPU)\n *\n *  12:57:19  IST  pgpgin/s \
         pgpgout/s   fault/s  majflt/s  pgfree/s pgscank/s pgscand/s pgsteal/s    %vmeff\n{}{}",
        row(20),
        row(21)
    );
    let told = investigate_file("sar.txt", &text, &Options::default()).unwrap();
    let series = &told.hosts[0].series[0];
    assert_eq!(series.value(Metric::Faults, 1), Some(540.0));
    // `date -u -d '2024-09-09 12:57:21' +%s`
    assert_eq!(series.samples()[1].at.0 / 1000, 1_725_886_641);
}

/// A guest's only disk gives 25 MB/s: eight requests wait for 95 ms each, and so does everything.
#[test]
fn a_queue_at_a_disk_that_moves_much_stalls_a_host_that_does_nothing_but_wait() {
    let report = |waited: &str, sectors: &str, queue: &str| {
        format!(
            "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           1.02    0.00    2.04   \
             {waited}    0.00    0.00\n\nDevice:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s \
             avgrq-sz avgqu-sz   await r_await w_await  svctm  %util\nvda              73.47     0.00   \
             75.51    1.02 {sectors}     8.16   648.43     {queue}   94.92   96.19    1.00  13.33 102.04\n\n"
        )
    };
    let text = |waited: &str, queue: &str| {
        format!(
            "Linux 2.6.32-754.el6.x86_64 (db1) \t08/02/2018 \t_x86_64_\t(1 CPU)\n\n{}{}{}",
            report("5.03", "2882.02", "0.23"),
            report(waited, "49616.33", queue),
            report(waited, "50969.07", queue)
        )
    };
    let told = |waited: &str, queue: &str| {
        let options = every("1s", "2018-08-02 10:00");
        single_verdict(&investigate_file("iostat.txt", &text(waited, queue), &options).unwrap())
    };
    assert_eq!(told("96.94", "8.20"), Some(IncidentVerdict::DiskStall));
    // A copy waits as long, for one request and what it reads ahead.
    assert_eq!(told("96.94", "1.90"), None);
}

/// Swap in use grows from 257 to 342 MiB within two seconds by nothing but what goes out, whatever
/// `so` says beside 165 MiB a second that come back.
#[test]
fn swap_that_grows_while_pages_come_back_is_a_storm() {
    let text = "procs ----------memory-------- ---swap-- ----io---- --system-- -----cpu-----\n \
        r b swpd free buff cache si so bi bo in cs us sy id wa st\n \
        0 3 245208 5280 232 1916 261 0 0 42 27 21 0 1 98 1 0\n \
        0 2 263372 4800 72 908 143840 128 0 1138 462 191 2 10 0 88 0\n \
        1 3 350672 4792 56 992 169280 256 0 1092 360 142 1 13 0 86 0\n \
        1 4 449584 4788 56 1024 95880 64 0 606 471 191 2 13 0 85 0\n \
        0 4 471968 4828 56 1140 44832 80 0 390 235 90 2 12 0 87 0\n \
        3 5 505960 4764 56 1136 68008 16 0 538 286 109 1 12 0 87 0\n";
    let told = investigate_file("vmstat.txt", text, &every("2s", "2015-03-01 10:00")).unwrap();
    assert_eq!(single_verdict(&told), Some(IncidentVerdict::SwapStorm));
}

/// 319 tasks, and a hundred times as many ten minutes later.
#[test]
fn thirty_thousand_tasks_that_begin_at_once_are_a_storm_without_other_figures() {
    let row = |minute: u32, tasks: u32| {
        format!("08:{minute:02}:01 AM         1     {tasks}      1.96      2.06      1.70\n")
    };
    let text = |many: u32| {
        let head = "12:00:01 AM   runq-sz  plist-sz   ldavg-1   ldavg-5  ldavg-15\n";
        let counts = [268, 319, many, many + 20, 510].into_iter().zip((0..50).step_by(10));
        head.to_owned() + &counts.map(|(tasks, minute)| row(minute, tasks)).collect::<String>()
    };
    let from = Options { from: Some("2020-02-01".to_owned()), ..Options::default() };
    let told = |many| single_verdict(&investigate_file("sar.txt", &text(many), &from).unwrap());
    assert_eq!(told(31_537), Some(IncidentVerdict::LoginStorm));
    assert_eq!(told(1537), None);
}

/// The whole report of memory stands behind the failure: 201 of 228 MB are free.
#[test]
fn a_page_that_is_refused_while_memory_is_free_exhausts_none() {
    let text = |free: u32| {
        format!(
            "vmalloc: allocation failure: 0 bytes\n\
             modprobe: page allocation failure: order:0, mode:0xd0\nMem-info:\nNormal per-cpu:\n\
             CPU    0: hi:   90, btch:  15 usd:  38\nNormal free:{free}kB min:1908kB low:2384kB \
             high:2860kB active_anon:1752kB present:227584kB mlocked:1620kB\n"
        )
    };
    let from = Options { from: Some("2012-07-22 10:00".to_owned()), ..Options::default() };
    let told = |free| single_verdict(&investigate_file("log", &text(free), &from).unwrap());
    assert_eq!(told(201_260), None);
    assert_eq!(told(1260), Some(IncidentVerdict::ReclaimStorm));
}

/// A mail has a mark and a blank before each line of the kernel.
#[test]
fn a_hung_task_is_known_with_a_blank_before_it() {
    let text = "> We observed kcompactd hung at __lock_page():\n>\n\
        >  INFO: task kcompactd0:57 blocked for more than 120 seconds.\n\
        >        Not tainted 4.19.56.x86_64 #1\n\
        >  \"echo 0 > /proc/sys/kernel/hung_task_timeout_secs\" disables this message.\n";
    let from = Options { from: Some("2020-01-09 14:57".to_owned()), ..Options::default() };
    let told = investigate_file("mail.txt", text, &from).unwrap();
    assert_eq!(single_verdict(&told), Some(IncidentVerdict::HungTasks));
    assert!(told.hosts[0].incidents[0].confidence >= Confidence::Low);
}
