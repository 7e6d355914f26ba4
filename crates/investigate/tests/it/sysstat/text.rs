//! What sar prints of a file, against what the file itself says.

use std::process::Command;

use hugewise_investigate::series::{MarkKind, Moment};
use hugewise_investigate::{
    Clock, FileRefused, IncidentVerdict, Metric, MetricUnit, Options, Series, investigate, readers,
};
use hugewise_testkit::require;

use super::{fixture, read, versions};

fn sar(text: &str) -> Result<Vec<Series>, FileRefused> {
    readers::sysstat::text::read(&mut text.as_bytes(), "sar01")
}

fn one(text: &str) -> Series {
    let mut series = sar(text).unwrap();
    assert_eq!(series.len(), 1);
    series.pop().unwrap()
}

/// Every value of every sample, to the two digits that sar prints; sums have more than one of them.
/// An older sar, before 12.0, prints the kernel's own line of all processors, three ticks less
/// exact, of 1,000.
pub(super) fn same(what: &str, text: &Series, file: &Series, older: bool) {
    let rows: Vec<usize> =
        (0..file.samples().len()).filter(|row| file.samples()[*row].interval.is_some()).collect();
    let times = |series: &Series, rows: &[usize]| {
        rows.iter().map(|row| series.samples()[*row].at).collect::<Vec<_>>()
    };
    let own: Vec<usize> = (0..text.samples().len()).collect();
    assert_eq!(times(text, &own), times(file, &rows), "{what}");
    let doubted = |metric| {
        text.untrusted
            .iter()
            .chain(&file.untrusted)
            .any(|(other_metric, _)| *other_metric == metric)
    };
    for metric in Metric::ALL.iter().filter(|metric| !doubted(**metric)) {
        for (own, row) in own.iter().zip(&rows) {
            let (printed, stored) = (text.value(*metric, *own), file.value(*metric, *row));
            let (Some(printed), Some(stored)) = (printed, stored) else {
                assert_eq!(printed, stored, "{what}: {metric:?} in row {own}");
                continue;
            };
            let rounding = match (metric, metric.unit()) {
                (Metric::CpuUser | Metric::CpuSystem, _) => 0.016,
                (_, MetricUnit::BytesPerSecond) => 0.006 * 1024.0,
                _ => 0.006,
            };
            let ticks = if older && format!("{metric:?}").starts_with("Cpu") { 0.35 } else { 0.0 };
            assert!(
                (printed - stored).abs() <= rounding + ticks,
                "{what}: {metric:?} {printed}, not {stored}"
            );
        }
    }
    assert_eq!(text.problems, [], "{what}");
    for (own, row) in own.iter().zip(&rows) {
        let seconds =
            |series: &Series, row: usize| series.samples()[row].interval.unwrap().as_secs_f64();
        assert!((seconds(text, *own) - seconds(file, *row)).abs() <= 1.0, "{what}");
    }
}

#[test]
fn sar_of_several_versions_says_what_the_file_says() {
    for version in ["9.1.5", "10.1.5", "11.6.6", "12.0.6", "12.7.9"] {
        let text = one(&String::from_utf8(fixture(&format!("{version}.sar.xz"))).unwrap());
        let file = read(&fixture(&format!("{version}.xz"))).unwrap();
        same(version, &text, &file, super::number(version) < vec![12]);
        assert_eq!(
            (&text.host, &text.kernel, &text.architecture),
            (&file.host, &file.kernel, &file.architecture)
        );
        assert_eq!(text.clock, Clock::Wall { zone: None });
        assert_eq!(super::printed_marks(&text), super::printed_marks(&file), "{version}");
        // Pages stolen are doubtful where the text does not say which version counted them.
        let doubted: Vec<Metric> = text.untrusted.iter().map(|(metric, _)| *metric).collect();
        assert!(doubted.contains(&Metric::Steal), "{version}");
    }
}

#[test]
fn sar_of_this_machine_says_what_the_file_says() {
    require!(super::oracle::sadf());
    let folder = tempfile::tempdir().unwrap();
    let mut printed = 0;
    // Of 11.7 to 12.4 some tables are of layouts that this sar skips.
    for version in versions().into_iter().filter(|version| version.starts_with("12.6")) {
        let bytes = fixture(&format!("{version}.xz"));
        let path = super::oracle::written(folder.path(), &version, &bytes);
        let run = Command::new("sar")
            .args(["-A", "-C", "-f"])
            .arg(&path)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .output();
        let text = String::from_utf8(run.unwrap().stdout).unwrap();
        if !text.contains("kbmemfree") {
            continue;
        }
        printed += 1;
        same(&version, &one(&text), &read(&bytes).unwrap(), false);
    }
    assert!(printed > 0);
}

const DAY: &str = "Linux 2.6.32-279.el6.x86_64 (db1) \t03/11/2013 \t_x86_64_\t(4 CPU)\n\n";

#[test]
fn twelve_hours_and_midnight() {
    let table = "11:50:01 PM     CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
                 12:00:01 AM     all      1.00      2.00     25.40      0.10      0.00     71.50\n\
                 12:10:01 AM     all      3.00      0.00     69.20      0.10      0.00     27.70\n\
                 Average:        all      2.00      1.00     47.30      0.10      0.00     49.60\n\n\
                 11:50:01 PM    proc/s   cswch/s\n\
                 12:00:01 AM     10.00    100.00\n\
                 12:10:01 AM     11.00    200.00\n";
    let series = one(&format!("{DAY}{table}"));
    // `date -u -d '2013-03-12 00:00:01' +%s`
    let at: Vec<Moment> = series.samples().iter().map(|sample| sample.at).collect();
    assert_eq!(at, [Moment::from_seconds(1_363_046_401), Moment::from_seconds(1_363_047_001)]);
    assert_eq!(series.samples()[0].interval.unwrap().as_secs(), 600);
    let column = |metric| series.column(metric).unwrap().iter().collect::<Vec<_>>();
    assert_eq!(column(Metric::CpuSystem), [(0, 25.4), (1, 69.2)]);
    assert_eq!(column(Metric::CpuNice), [(0, 2.0), (1, 0.0)]);
    assert_eq!(column(Metric::Forks), [(0, 10.0), (1, 11.0)]);
    assert_eq!(column(Metric::Processors), [(0, 4.0), (1, 4.0)]);
    assert_eq!(series.problems, []);
}

#[test]
fn a_whole_day_from_midnight_to_midnight() {
    let mut text = DAY.to_owned();
    for heading in ["proc/s   cswch/s", "pswpin/s pswpout/s"] {
        text.push_str(&format!("\n00:00:01       {heading}\n"));
        for sample in 1..=144 {
            let (hour, minute) = (sample / 6 % 24, sample % 6 * 10);
            text.push_str(&format!("{hour:02}:{minute:02}:01         {sample}.00      0.00\n"));
        }
    }
    let series = one(&text);
    assert_eq!(series.samples().len(), 144);
    assert_eq!(series.value(Metric::Forks, 143), Some(144.0));
    assert_eq!(series.value(Metric::SwapIn, 143), Some(144.0));
    assert_eq!(series.problems, []);
    assert!(series.samples().iter().all(|sample| sample.interval.unwrap().as_secs() == 600));
}

#[test]
fn live_output_of_several_tables_a_sample() {
    let mut text = DAY.to_owned();
    for sample in 0..4 {
        let time = |second: i64| {
            if second < 60 {
                format!("23:59:{second:02}")
            } else {
                format!("00:00:{:02}", second - 60)
            }
        };
        let (from, to) = (time(45 + 5 * sample), time(50 + 5 * sample));
        text.push_str(&format!(
            "\n{from}       proc/s   cswch/s\n{to}         {sample}.00      0.00\n"
        ));
        text.push_str(&format!(
            "\n{from}     pswpin/s pswpout/s\n{to}         {sample}.00      0.00\n"
        ));
    }
    let series = one(&text);
    assert_eq!(series.samples().len(), 4);
    assert_eq!(
        series.samples()[3].at.duration_since(series.samples()[0].at).unwrap().as_secs(),
        15
    );
    assert_eq!(series.value(Metric::SwapIn, 3), Some(3.0));
    assert_eq!(series.problems, []);
}

#[test]
fn several_days_and_hosts_in_one_file() {
    let day = |date: &str, host: &str, forks: &str| {
        format!(
            "Linux 5.14.0 ({host}) \t{date} \t_x86_64_\t(8 CPU)\n\n10:00:01  proc/s \
                 cswch/s\n10:10:01 {forks} 1.00\n"
        )
    };
    let text = [
        day("11/21/26", "db1", "1,50"),
        day("2026-11-22", "db1", "2.50"),
        day("21.11.26", "db2", "3.50"),
    ]
    .concat();
    let mut hosts = sar(&text).unwrap();
    hosts.sort_by(|one, other| one.host.cmp(&other.host));
    let [one, two] = &hosts[..] else { panic!("{hosts:?}") };
    assert_eq!(one.samples()[1].at.duration_since(one.samples()[0].at).unwrap().as_secs(), 86_400);
    assert_eq!([0, 1].map(|row| one.value(Metric::Forks, row)), [Some(1.5), Some(2.5)]);
    assert_eq!((two.host.as_deref(), two.value(Metric::Forks, 0)), (Some("db2"), Some(3.5)));
    assert_eq!(two.samples()[0].at, one.samples()[0].at);
}

#[test]
fn restarts_and_comments_are_marks() {
    let text = format!(
        "{DAY}08:51:10  LINUX RESTART\n\n09:00:01  proc/s cswch/s\n09:10:01 1.00 \
             1.00\n09:12:00  COM a new pool\n\n\
         09:20:00  LINUX RESTART\t(2 CPU)\n\n09:30:01  proc/s cswch/s\n09:40:01 1.00 1.00\n"
    );
    let series = one(&text);
    let kinds: Vec<MarkKind> = series.marks.iter().map(|mark| mark.kind.clone()).collect();
    assert_eq!(
        kinds,
        [MarkKind::Restart, MarkKind::Comment("a new pool".into()), MarkKind::Restart]
    );
    assert_eq!([0, 1].map(|row| series.value(Metric::Processors, row)), [Some(4.0), Some(2.0)]);
}

#[test]
fn what_is_no_sar_is_refused() {
    for text in [
        "",
        "procs -----------memory----------\n",
        "Linux is a kernel\n",
        "Linux 5.14 (db1) yesterday\n",
    ] {
        assert!(sar(text).is_err(), "{text}");
    }
}

/// Two hours of minutes; in the second one forty tasks want the four processors.
fn print_busy_hours(share: &str) -> String {
    let head = "Linux 5.14.0 (db1) \t11/21/2026 \t_x86_64_\t(4 CPU)\n\n";
    let table = |headings: &str, row_of: &dyn Fn(usize) -> String| {
        let rows: String = (1..120)
            .map(|minute| {
                format!("{:02}:{:02}:00 {}\n", 8 + minute / 60, minute % 60, row_of(minute))
            })
            .collect();
        format!("08:00:00 {headings}\n{rows}\n")
    };
    let processors = table("CPU %user %nice %system %iowait %steal %idle", &|minute| {
        let (share, idle) = if minute < 60 { ("1.00 0.00", "97.00") } else { (share, "1.00") };
        format!("all {share} 2.00 0.00 0.00 {idle}")
    });
    let queue = table("runq-sz plist-sz ldavg-1 ldavg-5 ldavg-15 blocked", &|minute| {
        let queue = if minute < 60 { "1 200 1.00 1.00 1.00" } else { "40 240 40.00 40.00 40.00" };
        format!("{queue} 0")
    });
    format!("{head}{processors}{queue}")
}

/// A batch under nice takes nothing from the others.
#[test]
fn nice_programs_are_in_nobodys_way() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("sar.txt");
    for (share, verdicts) in
        [("96.00 1.00", vec![IncidentVerdict::UserCpu]), ("2.00 95.00", Vec::new())]
    {
        std::fs::write(&path, print_busy_hours(share)).unwrap();
        let found = investigate(std::slice::from_ref(&path), &Options::default(), &|_| {}).unwrap();
        let incidents = found.hosts.iter().flat_map(|host| &host.incidents);
        assert_eq!(incidents.map(|one| one.verdict).collect::<Vec<_>>(), verdicts, "{share}");
    }
}

/// Without an interval, mpstat prints what was since the boot, at the time of its headings.
#[test]
fn averages_since_the_boot_are_no_samples() {
    let mpstat = |at: &str| {
        format!(
            "Linux 5.14.0 (db1) \t11/21/2026 \t_x86_64_\t(4 CPU)\n\n10:00:00 CPU %usr %nice %sys \
             %iowait %irq %soft %steal %guest %gnice %idle\n10:00:{at} all 1.00 0.00 95.46 0.00 0.00 \
             0.00 0.00 0.00 0.00 3.54\n"
        )
    };
    let system = |at: &str| {
        let all = readers::read(mpstat(at).as_bytes(), "mpstat.txt").unwrap();
        all[0].value(Metric::CpuSystem, 0)
    };
    assert_eq!((system("05"), system("00")), (Some(95.46), None));
}

/// Disks that are read fast through the page cache: each page that is scanned is given back, and no
/// program misses one.
#[test]
fn a_cache_that_is_read_through_is_no_reclaim_storm() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("sar.txt");
    let paging = |stolen: &str, majors: &str| {
        format!(
            "09:45:01 PM  pgpgin/s pgpgout/s   fault/s  majflt/s  pgfree/s pgscank/s pgscand/s \
             pgsteal/s    %vmeff\n09:46:01 PM 414429.37 395024.08 179478.63 {majors} 352922.62  \
             12003.78   4266.52  {stolen}     99.99\n09:47:01 PM 879907.08 337948.43 157970.97 \
             {majors} 402290.21      0.00   5821.28   5821.27    100.00\n"
        )
    };
    for (stolen, majors, verdicts) in [
        ("16269.42", "0.07", vec![]),
        ("6269.42", "0.07", vec![IncidentVerdict::ReclaimStorm]),
        ("16269.42", "60.00", vec![IncidentVerdict::ReclaimStorm]),
    ] {
        std::fs::write(&path, paging(stolen, majors)).unwrap();
        let found = investigate(std::slice::from_ref(&path), &Options::default(), &|_| {}).unwrap();
        let incidents = found.hosts.iter().flat_map(|host| &host.incidents);
        let found: Vec<_> = incidents.map(|one| one.verdict).collect();
        assert_eq!(found, verdicts, "{stolen} {majors}");
    }
}
