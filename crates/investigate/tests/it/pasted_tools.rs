//! Forms of known tools that are no files of a collector: a clock on each line of vmstat, iostat in
//! the C locale and of old systems, one top, and what containers show of memory.

use std::path::PathBuf;

use hugewise_investigate::{
    Confidence, IncidentVerdict, Investigation, Metric, Options, Series, investigate, readers,
};

fn read(text: &str, name: &str) -> Series {
    let mut all = readers::read(text.as_bytes(), name).unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn values(series: &Series, metric: Metric) -> Vec<Option<f64>> {
    (0..series.samples().len()).map(|row| series.value(metric, row)).collect()
}

/// What is found in a file that somebody names, with what he says of it.
pub(super) fn investigate_file(
    name: &str,
    text: &str,
    options: &Options,
) -> Result<Investigation, String> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    investigate(&[path], options, &|_| {}).map_err(|error| error.to_string())
}

fn from(time: &str) -> Options {
    Options { from: Some(time.to_owned()), ..Options::default() }
}

/// ExaWatcher runs `vmstat 5 2` again and again and keeps the last line with a clock before it: no
/// line is since the boot.
#[test]
fn vmstat_with_a_clock_on_each_line_is_a_sample_a_line() {
    let line = |clock: &str, free: u32, system: u32| {
        format!(
            "{clock} 21  1   4528 {free} 1926 842295    0    0   375 1785 29429 15821 36  {system} \
             5{}  1  0\t\n",
            9 - system
        )
    };
    let head = "############################################################\n\
        # Starting Time:\t04/12/2019 23:59:50\n# Sample Interval(s):\t5\n\
        # Collection Command:\t/usr/bin/vmstat  5  2\n\
        ############################################################\n\
        --time-- procs -----------memory---------- ---swap-- -----io---- --system-- -----cpu-----\n\
        \x20         r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    let text = format!(
        "{head}{}{}{}",
        line("23:59:50", 1200, 4),
        line("23:59:55", 1100, 3),
        line("00:00:00", 1000, 6)
    );
    let series = read(&text, "2019_04_12_23_59_50_VmstatExaWatcher_db1.example.com.dat");
    // `date -u -d '2019-04-12 23:59:50' +%s`, and into the next day.
    let moments: Vec<i64> = series.samples().iter().map(|sample| sample.at.0 / 1000).collect();
    assert_eq!(moments, [1_555_113_590, 1_555_113_595, 1_555_113_600]);
    assert_eq!(values(&series, Metric::CpuSystem), [Some(4.0), Some(3.0), Some(6.0)]);
    assert_eq!(values(&series, Metric::RunQueue), [Some(21.0); 3]);
    assert_eq!((&series.problems[..], series.host.as_deref()), (&[][..], Some("db1.example.com")));
    // What does not fit at all is not read, instead of a sample without values.
    let torn = format!("{head}23:59:50 21 1 4528 x\n23:59:55 21 1 4528\n");
    let refused = readers::read(torn.as_bytes(), "VmstatExaWatcher_db1.dat").unwrap_err().0;
    assert!(refused.contains("none of its 2 lines"), "{refused}");
}

fn report(system: &str, read: &str) -> String {
    format!(
        "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n          5.40    0.28   {system} \
         \x20   0.60    0.47   80.00\n\nDevice            r/s     rkB/s     w/s     wkB/s  aqu-sz  \
         %util\nvda            137.96   {read}   75.59   608.00    0.17   3.61\n\n"
    )
}

#[test]
fn iostat_of_the_c_locale_has_two_digits_of_the_year() {
    let text = format!(
        "Linux 6.18.44 (db1) \t11/26/26 \t_x86_64_\t(2 CPU)\n\n11/26/26 22:13:27\n{}\n11/26/26 \
         22:13:32\n{}\n11/26/26 22:13:37\n{}",
        report("12.39", "9.00"),
        report("45.00", "20.00"),
        report("46.00", "30.00")
    );
    let series = read(&text, "iostat.txt");
    // `date -u -d '2026-11-26 22:13:27' +%s`; the first report is since the boot.
    assert_eq!(series.samples()[0].at.0, 1_795_731_207_000);
    assert_eq!(values(&series, Metric::CpuSystem), [None, Some(45.0), Some(46.0)]);
    assert_eq!(values(&series, Metric::PagedIn), [None, Some(20_480.0), Some(30_720.0)]);
    assert_eq!((series.host.as_deref(), &series.problems[..]), (Some("db1"), &[][..]));
    assert_eq!(series.samples()[1].interval.unwrap().as_secs(), 5);
    // Where no month has the number, the day comes first.
    let text = text.replace("11/26/26", "26/11/26");
    assert_eq!(read(&text, "iostat.txt").samples()[0].at.0, 1_795_731_207_000);
}

#[test]
fn times_of_rhel_5_are_of_the_day_in_the_first_line() {
    let text = format!(
        "Linux 2.6.18-371.el5 (db1) \t10/07/2014\n\nTime: 11:59:57 PM\n{}Time: 12:00:02 AM\n{}",
        report("8.10", "1.00"),
        report("9.00", "2.00")
    );
    let series = read(&text, "iostat.txt");
    // `date -u -d '2014-10-07 23:59:57' +%s`
    let moments: Vec<i64> = series.samples().iter().map(|sample| sample.at.0 / 1000).collect();
    assert_eq!(moments, [1_412_726_397, 1_412_726_402]);
    assert_eq!(values(&series, Metric::CpuSystem), [None, Some(9.0)]);
}

#[test]
fn iostat_without_times_asks_for_them() {
    let text = format!(
        "Linux 2.6.32-23-generic (db1) \t27/07/10 \t_i686_\t(1 CPU)\n\n{}{}",
        report("0.94", "1.00"),
        report("14.62", "2.00")
    );
    let asked = investigate_file("iostat.txt", &text, &Options::default()).unwrap_err();
    assert!(asked.contains("--interval") && asked.contains("--from"), "{asked}");
    let options = Options { interval: Some("5s".to_owned()), ..from("2010-07-27 08:00") };
    let told = investigate_file("iostat.txt", &text, &options).unwrap();
    let [history] = &told.hosts[..] else { panic!("{told:?}") };
    assert_eq!(values(&history.series[0], Metric::CpuSystem), [None, Some(14.62)]);
}

fn top(threads: &str) -> String {
    format!(
        "top - 06:32:32 up 11 days, 11:51,  1 user,  load average: 679.23, 680.52, 674.97\n\
         Tasks: 5115 total,  12 running, 5103 sleeping,   0 stopped,   0 zombie\n\
         %Cpu(s):  6.4 us, 25.7 sy,  0.0 ni, 60.0 id,  7.9 wa,  0.0 hi,  0.0 si,  0.0 st\n\
         MiB Mem :  31863.0 total,    193.0 free,   4325.0 used,  27344.0 buff/cache\n\
         MiB Swap:  32736.0 total,  30214.0 free,   2522.0 used.  26873.0 avail Mem\n\n\
         \x20 PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n{threads}"
    )
}

/// Eleven and a half days are 993,060 s, of which khugepaged took 55,801: 5.6 %. A first pass that
/// says 100 % has seen an interval.
#[test]
fn one_top_tells_what_threads_of_the_kernel_take() {
    let threads = "   62 root      39  19       0      0      0 R 100.0  0.0 930:01.74 khugepaged\n   \
                   79 root      20   0       0      0      0 R 100.0  0.0   1304:50 kswapd0\n";
    let dated = investigate_file("top.txt", &top(threads), &from("2018-08-11")).unwrap();
    let [history] = &dated.hosts[..] else { panic!("{dated:?}") };
    let [incident] = &history.incidents[..] else { panic!("{history:#?}") };
    assert_eq!(incident.verdict, IncidentVerdict::CompactionStall);
    // `date -u -d '2018-08-11 06:32:32' +%s`
    assert_eq!(incident.to.0, 1_533_969_152_000);
    for words in ["khugepaged took 100 % of a processor, kswapd 100 % of a processor", "up to 679"]
    {
        assert!(incident.summary.contains(words), "{}", incident.summary);
    }
    // Without a day it is read all the same, and says so.
    let undated = investigate_file("top.txt", &top(threads), &Options::default()).unwrap();
    assert_eq!(undated.hosts[0].incidents.len(), 1);
    assert!(format!("{:?}", undated.sources).contains("say the day with --from"));
    // What a thread took since the boot is no level of now.
    let since_boot =
        "   62 root      39  19       0      0      0 S  95.0  0.0 15700:01 khugepaged\n";
    let told = investigate_file("top.txt", &top(since_boot), &from("2018-08-11")).unwrap();
    assert_eq!(told.hosts[0].incidents.len(), 0, "{told:#?}");
}

/// In a first pass each process has what it took since it began, which is no less than since the boot:
/// 92 minutes of 5 days are 1.3 %, so that 0.3 % are of now, and so is what stands above.
#[test]
fn one_top_whose_rows_are_of_now_tells_what_the_processors_did() {
    let text = |processors: &str, share: &str| {
        format!(
            "top - 17:03:41 up 5 days, 18 min,  1 user,  load average: 2.06, 1.79, 1.74\n\
             Tasks:  92 total,   2 running,  90 sleeping,   0 stopped,   0 zombie\n\
             Cpu(s): {processors}\n\
             Mem:   3843220k total,  1521580k used,  2321640k free,     2572k buffers\n\
             Swap:        0k total,        0k used,        0k free,   956288k cached\n\n  \
             PID USER      PR  NI  VIRT  RES  SHR S %CPU %MEM    TIME+  COMMAND\n\
             3035 root      20   0  339m  68m 3640 S  {share}  1.8  92:07.65 fleet\n"
        )
    };
    let told = |processors: &str, share: &str| {
        let told = investigate_file("top.txt", &text(processors, share), &from("2014-07-14"));
        single_verdict(&told.unwrap())
    };
    let stolen = " 0.0%us,  0.0%sy,  0.0%ni, 35.5%id,  0.0%wa, 10.3%hi,  0.0%si, 54.3%st";
    assert_eq!(told(stolen, "0.3"), Some(IncidentVerdict::Steal));
    let kernel = " 0.1%us, 49.8%sy,  0.0%ni, 40.0%id, 10.1%wa,  0.0%hi,  0.0%si,  0.0%st";
    assert_eq!(told(kernel, "0.3"), Some(IncidentVerdict::KernelCpu));
    // Since the boot, or quiet.
    assert_eq!(told(kernel, "1.3"), None);
    let quiet = " 2.1%us,  1.8%sy,  0.0%ni, 96.0%id,  0.1%wa,  0.0%hi,  0.0%si,  0.0%st";
    assert_eq!(told(quiet, "0.3"), None);
}

/// Of 917 MiB 56 are available without swap, and processors wait for disks in three quarters of the
/// time: what kswapd0 takes back is read again.
#[test]
fn a_top_without_its_first_line_and_one_of_old_systems_tell_reclaim() {
    let headless = "Tasks: 181 total,   2 running, 129 sleeping,   0 stopped,   0 zombie\n\
        %Cpu(s):  0.1 us, 18.9 sy,  0.0 ni,  5.8 id, 75.2 wa,  0.0 hi,  0.0 si,  0.0 st\n\
        KiB Mem :   938748 total,    46416 free,   839752 used,    52580 buff/cache\n\
        KiB Swap:        0 total,        0 free,        0 used.    57068 avail Mem\n\n  \
        PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n   \
        49 root      20   0       0      0      0 R  66.1  0.0   2:23.56 kswapd0\n";
    // Old systems say of no memory that it is available: swap is full, and 74 MiB of 63 GiB are free.
    let old = "top - 12:16:11 up 23 days, 23:46, 19 users,  load average: 28.84, 25.69, 23.19\n\
        Tasks: 970 total,   3 running, 967 sleeping,   0 stopped,   0 zombie\n\
        Cpu(s):  9.3%us, 13.0%sy,  0.0%ni, 36.0%id, 40.6%wa,  0.1%hi,  1.0%si,  0.0%st\n\
        Mem:  66068664k total, 65992772k used,    75892k free,    43168k buffers\n\
        Swap:  2096472k total,  2096472k used,        0k free, 40782300k cached\n\n \
        PID USER      PR  NI  VIRT  RES  SHR S %CPU %MEM    TIME+  COMMAND\n \
        1068 root      20  -5     0    0    0 R 76.0  0.0 566:03.07 [kswapd5]\n \
        1070 root      10  -5     0    0    0 D 21.6  0.0 925:57.03 [kswapd7]\n";
    for text in [headless, old] {
        let told = investigate_file("top.txt", text, &from("2019-12-15 12:00")).unwrap();
        assert_eq!(single_verdict(&told), Some(IncidentVerdict::ReclaimStorm), "{text}");
    }
    // kswapd is as busy where disks are read fast and there is memory: that all wait for them is left.
    let plenty = headless.replace("57068 avail", "557068 avail");
    let told = investigate_file("top.txt", &plenty, &from("2019-12-15 12:00")).unwrap();
    assert_eq!(single_verdict(&told), Some(IncidentVerdict::DiskStall));
    let told =
        investigate_file("top.txt", &plenty.replace("75.2 wa", " 5.2 wa"), &from("2019-12-15"));
    assert_eq!(single_verdict(&told.unwrap()), None);
}

#[test]
fn one_meminfo_needs_no_interval() {
    let text = "MemTotal:        1048576 kB\nMemFree:          560000 kB\nSlab: 30000 kB\nPageTables:       \
                315343 kB\nHugePages_Total:       0\nHugepagesize:       2048 kB\n";
    let told = investigate_file("meminfo.txt", text, &Options::default()).unwrap();
    assert_eq!(values(&told.hosts[0].series[0], Metric::PageTables), [Some(315_343.0 * 1024.0)]);
    let twice = investigate_file("meminfo.txt", &text.repeat(2), &Options::default()).unwrap_err();
    assert!(twice.contains("--interval"), "{twice}");
}

fn meminfo(lines: &str) -> String {
    let block = |minute: u32| {
        format!(
            "Fri Nov 20 08:{minute:02}:00 UTC 2026\nMemTotal:        1048576 kB\nMemFree:          \
             560{minute:03} kB\n{lines}HugePages_Total:       0\nHugePages_Free:        0\n\
             HugePages_Rsvd:        0\nHugepagesize:       2048 kB\n"
        )
    };
    (0..60).map(block).collect()
}

#[test]
fn page_tables_of_the_host_are_not_a_containers() {
    let told = |lines: &str| {
        let told = investigate_file("meminfo.log", &meminfo(lines), &Options::default()).unwrap();
        let [history] = &told.hosts[..] else { panic!("{told:?}") };
        (history.incidents.len(), history.unknown.join("\n"))
    };
    let (incidents, unknown) = told("Slab:  30000 kB\nPageTables:       1203456 kB\n");
    assert_eq!(incidents, 0);
    assert!(unknown.contains("page tables: they exceed memory, as in a container"), "{unknown}");
    // lxcfs writes no slab, which no kernel is without: these are 11 % of what is not theirs.
    let (incidents, unknown) = told("Slab:  0 kB\nPageTables:       115343 kB\n");
    assert_eq!(incidents, 0);
    assert!(unknown.contains("the file is a container's"), "{unknown}");
    assert_eq!(told("Slab:  30000 kB\nPageTables:       115343 kB\n").0, 1);
}

pub(super) fn single_verdict(told: &Investigation) -> Option<IncidentVerdict> {
    let [history] = &told.hosts[..] else { panic!("{told:?}") };
    history.incidents.first().map(|incident| incident.verdict)
}

/// What somebody copied out of the middle of `iostat -x 2`: neither its first line nor the beginning
/// of its first report is there, and two reports are left.
#[test]
fn a_few_reports_out_of_the_middle_of_iostat_show_a_stall() {
    let disks = |queue: &str, read: &str| {
        format!(
            "Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   \
             await  svctm  %util\nscd0 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00\nsda \
             389.00 40.00 65.00 469.00 {read} 4100.00 14.52 {queue} 284.73 1.87 100.00\n\n"
        )
    };
    let processors = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n           0.50    \
                      0.00    1.26   72.04    0.00   26.20\n\n";
    let options = Options { interval: Some("2s".to_owned()), ..from("2015-06-11 08:00") };
    let told = |queue: &str, read: &str| {
        let (first, next) = (disks("500.00", "9.00"), disks(queue, read));
        let text = format!("{first}{processors}{next}{processors}{next}");
        investigate_file("iostat.txt", &text, &options).unwrap()
    };
    let stalled = told("142.06", "3652.00");
    // 3,652 sectors of 512 bytes; the first report counts since the boot.
    let read = Some(3652.0 * 512.0);
    assert_eq!(values(&stalled.hosts[0].series[0], Metric::PagedIn), [None, read, read]);
    assert_eq!(single_verdict(&stalled), Some(IncidentVerdict::DiskStall));
    // Few requests wait, or the disks move much.
    assert_eq!(single_verdict(&told("2.06", "3652.00")), None);
    assert_eq!(single_verdict(&told("142.06", "400000.00")), None);
    let text = format!("{}{processors}{}", disks("1.0", "9.0"), disks("1.0", "9.0"));
    let asked = investigate_file("iostat.txt", &text, &Options::default()).unwrap_err();
    assert!(asked.contains("--interval") && asked.contains("--from"), "{asked}");
}

/// A slow disk swaps 5 MB a second both ways, which is all that it does, and everybody waits.
#[test]
fn a_disk_that_does_nothing_but_swap_is_a_swap_storm() {
    let told = |swapped: [u32; 2], moved: [u32; 2], waited: u32| {
        let line = |b: u32| {
            let ([back, to], [read, written]) = (swapped, moved);
            format!(
                " 0 {b} 795604  12328   3980  46676 {back} {to} {read} {written} 1200 1500  2  5  {}  \
                 {waited}\n",
                93 - waited
            )
        };
        let text = format!(
            "procs -----------memory---------- ---swap-- -----io---- --system-- ----cpu----\n r  b   \
             swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa\n{}{}{}{}",
            line(1),
            line(115),
            line(120),
            line(118)
        );
        let options = Options { interval: Some("1s".to_owned()), ..from("2015-06-11 08:00") };
        single_verdict(&investigate_file("vmstat.txt", &text, &options).unwrap())
    };
    assert_eq!(told([2100, 2985], [2100, 2985], 93), Some(IncidentVerdict::SwapStorm));
    assert_eq!(told([600, 700], [800, 900], 93), Some(IncidentVerdict::SwapStorm));
    // The disks do other work, or nothing comes back: tasks wait for them.
    assert_ne!(told([600, 700], [4000, 4000], 93), Some(IncidentVerdict::SwapStorm));
    assert_ne!(told([0, 1300], [100, 1400], 93), Some(IncidentVerdict::SwapStorm));
}

fn moments(series: &Series) -> Vec<i64> {
    series.samples().iter().map(|sample| sample.at.0 / 1000).collect()
}

/// pidstat's tables without its first line, whose day somebody gives: `date -u -d '2021-07-12
/// 09:05:09' +%s` is 1626080709.
#[test]
fn pidstat_without_its_first_line_is_read() {
    let kswapd = |time: &str, share: &str| {
        format!("{time}        0        79    0.00   {share}    0.00   {share}     1  kswapd0\n")
    };
    let heading = "      UID       PID    %usr %system  %guest    %CPU   CPU  Command\n";
    let rows = kswapd("09:05:09", "98.00") + &kswapd("09:05:10", "97.00");
    for text in [
        format!("09:05:08{heading}{rows}"),
        format!("$ pidstat 1\n09:05:08{heading}{rows}"),
        format!("# Time{heading}{rows}"),
        format!(
            "# Time{heading}{}",
            rows.replace("09:05:09", "09:05:09 AM").replace("09:05:10", "09:05:10 AM")
        ),
    ] {
        let told = investigate_file("p.txt", &text, &from("2021-07-12 09:00")).unwrap();
        let [series] = &told.hosts[0].series[..] else { panic!("{text}: {told:?}") };
        assert_eq!(moments(series), [1_626_080_709, 1_626_080_710], "{text}");
        assert_eq!(values(series, Metric::KswapdCpu), [Some(98.0), Some(97.0)], "{text}");
        assert!(series.problems.iter().any(|one| one.to_string().contains("--from")), "{text}");
    }
}

/// One report has averages since the boot; the first line has a date as sar's may be.
#[test]
fn pidstat_since_the_boot_is_left_out_and_says_so() {
    let banner = "Linux 3.10.0-957.el7.x86_64 (db1) \t2019年11月11日 \t_x86_64_\t(4 CPU)\n\n";
    let once = "18时53分35秒   UID       PID    %usr %system  %guest    %CPU   CPU  Command\n\
                18时53分35秒     0        79    0.00    98.00    0.00    98.00     1  kswapd0\n";
    let disks = "18时58分49秒   UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s  Command\n\
                 18时58分49秒     0       979      0.00      0.90      0.01  exchange\n";
    for (text, problem) in [
        (format!("{banner}{once}"), "since the boot"),
        (format!("# pidstat -u\n{banner}{once}"), "since the boot"),
        (format!("{banner}{disks}"), "without processor time"),
    ] {
        let told = investigate_file("p.txt", &text, &Options::default()).unwrap();
        let [series] = &told.hosts[0].series[..] else { panic!("{text}: {told:?}") };
        assert_eq!(values(series, Metric::KswapdCpu), [None], "{text}");
        assert!(series.problems.iter().any(|one| one.to_string().contains(problem)), "{text}");
        // `date -u -d '2019-11-11 18:53:35' +%s`
        assert_eq!(moments(series)[0] / 86_400, 1_573_498_415 / 86_400, "{text}");
    }
}

/// The columns of reads cut out; a time before each report and the day from --from:
/// `date -u -d '2013-04-23 00:01:09' +%s` is 1366675269.
#[test]
fn iostat_is_known_by_some_of_its_columns() {
    let cut = "Device w/s wkB/s wrqm/s w_await aqu-sz %util\nnvme1n1 749.00 1024.00 0.00 0.03 0.23 99.00\n";
    let options = Options { interval: Some("1s".to_owned()), ..from("2023-02-06 10:00") };
    let told = investigate_file("i.txt", &cut.repeat(2), &options).unwrap();
    let written = values(&told.hosts[0].series[0], Metric::PagedOut);
    assert_eq!(written, [None, Some(1024.0 * 1024.0)]);
    let timed = |time: &str| {
        format!(
            "Time: {time}\n\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n\n           \
             5.22    0.01    1.77    0.10    0.00   92.90\n\n"
        )
    };
    let text = timed("00:01:09") + &timed("00:01:14");
    let told = investigate_file("i.txt", &text, &from("2013-04-23")).unwrap();
    assert_eq!(moments(&told.hosts[0].series[0]), [1_366_675_269, 1_366_675_274]);
}

/// `top | grep -e COMMAND -e kswapd0`: four screens of a row, three seconds apart.
#[test]
fn rows_of_top_alone_are_passes() {
    let row = |seconds: u32| format!("30 root 20 0 0 0 0 R 96 0.0 32976:{seconds} kswapd0\n");
    let rows: String = [47, 50, 53, 56].map(row).concat();
    let text = format!(
        "db1:~ # top | grep -e COMMAND -e kswapd0\nPID USER PR NI VIRT RES SHR S %CPU %MEM TIME+ \
         COMMAND\n{rows}db1:~ # free\ntotal used free shared buffers cached\nMem: 16336624 10877416 \
         5459208 0 2600 28116\nSwap: 5236732 10744 5225988\n"
    );
    let told = investigate_file("t.txt", &text, &from("2021-08-04 10:00")).unwrap();
    let [series] = &told.hosts[0].series[..] else { panic!("{told:?}") };
    assert_eq!(values(series, Metric::KswapdCpu), [Some(96.0); 4]);
    // `date -u -d '2021-08-04 10:00' +%s`
    assert_eq!(moments(series), [0, 3, 6, 9].map(|later| 1_628_071_200 + later));
}

/// Redis' lines out of a page that escapes its stars; a quotation of HTML.
#[test]
fn escapes_of_markdown_and_html_are_undone() {
    let line =
        "[2314] 01 Mar 05:5{}:27 \\* Asynchronous AOF fsync is taking too long (disk is busy?)\n";
    let text: String = ["0", "1", "2"].map(|minute| line.replace("{}", minute)).concat();
    for text in [text.clone(), text.replace("[2314]", "&gt; \\[2314\\]")] {
        let told = investigate_file("r.txt", &text, &Options::default()).unwrap();
        assert_eq!(single_verdict(&told), Some(IncidentVerdict::DiskStall), "{text}");
    }
}

/// Rows of top, of BusyBox's and of ps below their headings, of hosts whose kswapd was busy.
#[test]
fn rows_of_processes_without_a_head_tell_that_kswapd_was_busy() {
    let told = |text: &str| {
        let told = investigate_file("top.txt", text, &from("2026-11-20 08:00")).unwrap();
        let incident = told.hosts[0].incidents.first();
        incident.map(|incident| (incident.verdict, incident.confidence))
    };
    let reclaim = Some((IncidentVerdict::ReclaimStorm, Confidence::Low));
    let top = |share: &str| {
        format!(
            "  PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n   44 root  \
             20   0       0      0      0 D  {share}  0.0   0:05.85 kswapd0\n"
        )
    };
    assert_eq!(told(&top("37.7")), reclaim);
    assert_eq!(told(&top("7.7")), None);
    // Screens one after another, each of kswapd alone.
    assert_eq!(told(&top("100").repeat(4)), reclaim);
    assert_eq!(told(&top("55.0").repeat(4)), None);
    // Of 571 days it has taken 6 %, and now 49 %; without these days it would be the same.
    let load = " 13:02:52 up 571 days,  1:01,  1 user,  load average: 44.84, 43.19, 41.05\n";
    let rows = top("48.8").replace("0:05.85", "51336:15");
    let both = format!("$ uptime\n{load}\n$ top\n{rows}\n$ free -m\ntotal used free\nMem: 1 2 3\n");
    assert_eq!(told(&both), reclaim);
    let busybox = "  PID  PPID USER     STAT   VSZ %VSZ CPU %CPU COMMAND\n   32     2 root     RW       0  \
                   0.0   0 49.9 [kswapd0]\n  613     1 root     S    1409m 84.7   1  4.5 /usr/bin/x\n";
    assert_eq!(told(busybox), reclaim);
    let ps = "# ps aux\nUSER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n\
              root          92 35.8  0.0      0     0 ?        S    12:40  82:49 [kswapd0]\n\
              mysql     198808 18.6 10.9 1821488 439632 ?      Ssl  16:29   0:31 /usr/sbin/mysqld\n";
    assert_eq!(told(ps), reclaim);
    assert_eq!(told(&ps.replace("35.8", " 1.8")), None);
}

/// %iowait that is half and more in all that is there, in one report or in a few.
#[test]
fn nothing_but_waits_for_disks_is_a_stall_by_a_low_word() {
    let stall = Some((IncidentVerdict::DiskStall, Confidence::Low));
    let verdict = |told: &Investigation| {
        let incident = told.hosts[0].incidents.first();
        incident.map(|incident| (incident.verdict, incident.confidence))
    };
    let report = |waited: &str| {
        let text = format!(
            "root@db1:~# iostat -x 5\n\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n   \
             5.18    0.00    2.02   {waited}    0.00   31.37\n\nDevice            r/s     rkB/s  \
             aqu-sz  %util\nnvme3n1         79.80   1526.40   0.01  17.20\n"
        );
        let options = Options { interval: Some("5s".to_owned()), ..from("2026-11-20 08:00") };
        verdict(&investigate_file("iostat.txt", &text, &options).unwrap())
    };
    assert_eq!(report("61.44"), stall);
    assert_eq!(report("31.44"), None);
    let mpstat = |last: &str| {
        let row = |second: u32, waited: &str| {
            format!(
                "10:15:{second:02} AM  all   10.10    0.00    5.00   {waited}    0.00    0.30    0.00    \
                 0.00    0.00   14.40\n"
            )
        };
        let text = format!(
            "Linux 5.4.0-42-generic (db1) \t08/21/2020 \t_x86_64_\t(4 CPU)\n\n10:15:01 AM  CPU    \
             %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n{}{}{}",
            row(6, "60.20"),
            row(11, "58.20"),
            row(16, last)
        );
        verdict(&investigate_file("mpstat.txt", &text, &Options::default()).unwrap())
    };
    assert_eq!(mpstat("69.20"), stall);
    assert_eq!(mpstat("12.00"), None);
}

/// Lines of vmstat, with `r b swpd free buff cache si so bi bo in cs us sy id wa` each.
fn verdict_of_vmstat(lines: &[&str]) -> Option<(IncidentVerdict, Confidence)> {
    let text = format!(
        "procs -----------memory---------- ---swap-- -----io---- -system-- ----cpu----\n r  b   swpd   \
         free   buff  cache   si   so    bi    bo   in   cs us sy id wa\n{}\n",
        lines.join("\n")
    );
    let options = Options { interval: Some("1s".to_owned()), ..from("2026-11-20 08:00") };
    let told = investigate_file("vmstat.txt", &text, &options).unwrap();
    let incident = told.hosts[0].incidents.first();
    incident.map(|incident| (incident.verdict, incident.confidence))
}

/// A disk of a guest that gives 300 kB a second; and one that gives tens of MB to a host that stands
/// still for want of memory.
#[test]
fn waits_for_a_disk_in_a_few_lines_of_vmstat_are_a_stall_by_a_low_word() {
    let slow = [
        " 0  2     56 164828   1696 152308    0    0   128     0  119   32  0  0  0 99",
        " 0  2     56 164228   1712 152924    0    0   213    23  127   51  0  0 56 42",
        " 2  2     56 160476   1720 155900    0    0   384     4  189   82  2  0  0 95",
        " 0  0     56 164228   1712 152924    0    0   213    23  127   51  0  0 80 18",
    ];
    assert_eq!(verdict_of_vmstat(&slow), Some((IncidentVerdict::DiskStall, Confidence::Low)));
    let quiet = " 0  1     56 164828   1696 152308    0    0   128     0  119   32  0  0 77 21";
    assert_eq!(verdict_of_vmstat(&[quiet; 4]), None);
    // The disks work, and all stand still; or some wait for disks that work.
    let reading = |tasks: u32, waited: u32| {
        let line = |read: u32| {
            let idle = 82 - waited;
            format!(" 0 {tasks} 0 10920 112 47128 0 0 {read} 0 3906 8808 0 18 {idle} {waited}")
        };
        let lines = [28_880, 93_460, 115_296, 29_264, 38_628].map(line);
        verdict_of_vmstat(&lines.each_ref().map(String::as_str)).map(|(verdict, _)| verdict)
    };
    assert_eq!(reading(28, 82), Some(IncidentVerdict::DiskStall));
    assert_eq!(reading(2, 52), None);
}

/// The heads of two tops of hosts that had used up their swap.
#[test]
fn one_top_without_memory_and_swap_is_a_swap_storm_by_a_low_word() {
    let told = |text: &str| {
        let told = investigate_file("top.txt", text, &from("2026-11-20 08:00")).unwrap();
        let incident = told.hosts[0].incidents.first();
        incident.map(|incident| (incident.verdict, incident.confidence))
    };
    let head = |swap: u32, load: &str| {
        format!(
            "top - 10:41:41 up  1:57,  4 users,  load average: {load}, 13.06, 11.32\nTasks:  96 total,   \
             1 running,  95 sleeping,   0 stopped,   0 zombie\nCpu(s):  0.3%us,  6.1%sy,  0.0%ni,  \
             0.0%id, 92.9%wa,  0.6%hi,  0.0%si,  0.0%st\nMem:    254252k total,   250132k used,     4120k \
             free,       76k buffers\nSwap:   738948k total,   {swap}k used,        {}k free,     3460k \
             cached\n",
            738_948 - swap
        )
    };
    assert_eq!(told(&head(738_948, "12.59")), Some((IncidentVerdict::SwapStorm, Confidence::Low)));
    // Swap is left, and everybody has waited for a disk since the boot.
    assert_eq!(told(&head(138_948, "12.59")), Some((IncidentVerdict::DiskStall, Confidence::Low)));
    assert_eq!(told(&head(138_948, "0.59")), None);
    assert_eq!(told(&head(738_948, "0.59")), None);
    let busy = "top - 18:52:09 up 1 day,  2:25,  3 users,  load average: 1.64, 1.30, 1.18\nTasks: 525 \
                total,   2 running, 523 sleeping,   0 stopped,   0 zombie\n%Cpu(s):  0.3 us,  1.3 sy,  \
                0.0 ni, 97.0 id,  1.4 wa,  0.0 hi,  0.0 si,  0.0 st\nKiB Mem:  65937528 total, 37526160 \
                used, 28411368 free,    14396 buffers\nKiB Swap: 67071996 total, 67071724 used,      272 \
                free.   104304 cached Mem\n\n  PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM    \
                 TIME+ COMMAND\n  363 root      20   0       0      0      0 R 100.0  0.0 324:02.98 \
                kswapd0\n";
    assert_eq!(told(busy).map(|(verdict, _)| verdict), Some(IncidentVerdict::ReclaimStorm));
}
