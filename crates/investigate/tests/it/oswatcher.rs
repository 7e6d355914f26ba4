//! Archives laid out as OSWatcher and ExaWatcher do, with what the real tools printed beside a
//! PostgreSQL server that took twelve sessions after the second of six snapshots; after the fourth
//! the loop stood still for seven seconds.

use std::io::Read;
use std::path::{Path, PathBuf};

use hugewise_investigate::{Clock, Metric, Moment, Series, readers};
use proptest::prelude::*;

const HOST: &str = "db_1.example.com";

/// The file of a folder, and its plain text.
fn file(folder: &str) -> (PathBuf, String) {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/oswatcher").join(folder);
    let path = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let mut text = String::new();
    hugewise_host::compressed::open_decompressed(std::fs::File::open(&path).unwrap())
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    (path, text)
}

fn series(folder: &str) -> Series {
    let (path, _) = file(folder);
    let mut all =
        readers::read(std::fs::File::open(&path).unwrap(), path.to_str().unwrap()).unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn plain(text: &str) -> Series {
    readers::read(text.as_bytes(), "db1_vmstat_26.11.22.0000.dat").unwrap().remove(0)
}

/// `date -u -d '2026-11-22 00:12:00' +%s`
const START: i64 = 1_795_306_320;

/// Seconds past START of the six stamps.
const STAMPS: [i64; 6] = [13, 17, 23, 26, 36, 39];

fn seconds(series: &Series) -> Vec<i64> {
    series.samples().iter().map(|sample| sample.at.0 / 1000 - START).collect()
}

fn values(series: &Series, metric: Metric) -> Vec<Option<f64>> {
    (0..series.samples().len()).map(|row| series.value(metric, row)).collect()
}

#[test]
fn every_tool_has_a_sample_a_stamp_and_the_gap_is_kept() {
    for (folder, format, version) in [
        ("oswvmstat", "oswatcher vmstat", Some("8.0.1")),
        ("oswtop", "oswatcher top", Some("8.0.1")),
        ("oswps", "oswatcher ps", Some("8.0.1")),
        ("oswmeminfo", "oswatcher meminfo", None),
        ("oswslabinfo", "oswatcher slabinfo", None),
    ] {
        let series = series(folder);
        assert_eq!((series.format.as_str(), series.host.as_deref()), (format, Some(HOST)));
        assert_eq!(series.version.as_deref(), version, "{folder}");
        assert_eq!(seconds(&series), STAMPS, "{folder}");
        assert!(matches!(series.clock, Clock::Utc { .. }));
        assert_eq!(series.problems, [], "{folder}");
    }
}

/// The number before a word in each line that has it.
fn before(text: &str, line: &str, word: &str) -> Vec<Option<f64>> {
    let lines = text.lines().filter(|other_text| other_text.contains(line));
    lines
        .map(|text| {
            text.split(word).next().unwrap().split_whitespace().last().unwrap().parse().ok()
        })
        .collect()
}

#[test]
fn top_says_what_its_second_pass_did() {
    let (_, text) = file("oswtop");
    let series = series("oswtop");
    assert_eq!(values(&series, Metric::CpuUser), before(&text, "%Cpu(s)", "us,"));
    assert_eq!(values(&series, Metric::CpuIdle), before(&text, "%Cpu(s)", "id,"));
    assert_eq!(values(&series, Metric::Processes), before(&text, "Tasks:", "total"));
    let free =
        before(&text, "MiB Mem", "free").into_iter().map(|mib| mib.map(|mib| mib * 1_048_576.0));
    assert_eq!(values(&series, Metric::MemFree), free.collect::<Vec<_>>());
    // In a namespace of its own top saw no thread of the kernel; its list reaches those that took
    // nothing.
    assert_eq!(values(&series, Metric::KswapdCpu), [Some(0.0); 6]);
}

#[test]
fn ps_counts_processes_commands_and_sessions() {
    let (_, text) = file("oswps");
    let series = series("oswps");
    let blocks: Vec<&str> = text.split("zzz ***").skip(1).collect();
    let count = |with: &str| -> Vec<Option<f64>> {
        blocks
            .iter()
            .map(|block| Some(block.lines().filter(|line| line.contains(with)).count() as f64))
            .collect()
    };
    assert_eq!(values(&series, Metric::Sessions), count("[local]"));
    assert_eq!(values(&series, Metric::Sessions)[1..3], [Some(0.0), Some(12.0)]);
    // The heading and the rest of the stamp's line are none.
    let lines: Vec<_> =
        blocks.iter().map(|block| Some(block.lines().count() as f64 - 2.0)).collect();
    assert_eq!(values(&series, Metric::Processes), lines);
    let commands: Vec<&str> = series
        .command_columns(hugewise_investigate::Use::Processes)
        .map(|(command, _)| command)
        .collect();
    assert_eq!(commands, ["postgres", "psql", "runuser", "sleep"]);
    let (_, postgres) =
        series.command_columns(hugewise_investigate::Use::Processes).next().unwrap();
    let servers: Vec<f64> = count("postgres: ")
        .iter()
        .zip(count("bin/postgres -D"))
        .map(|(a, b)| a.unwrap() + b.unwrap())
        .collect();
    let rows: Vec<(usize, f64)> = servers.into_iter().enumerate().skip(2).collect();
    assert_eq!(postgres.iter().filter(|(row, _)| *row >= 2).collect::<Vec<_>>(), rows);
}

#[test]
fn vmstats_line_since_the_boot_is_left_out() {
    let (_, text) = file("oswvmstat");
    let series = series("oswvmstat");
    let rows: Vec<Vec<f64>> = text
        .lines()
        .map(|line| {
            line.split_whitespace().map_while(|word| word.parse().ok()).collect::<Vec<f64>>()
        })
        .filter(|row| row.len() == 17)
        .collect();
    assert_eq!(rows.len(), 18);
    for (row, three) in rows.chunks(3).enumerate() {
        let mean = |place: usize| Some((three[1][place] + three[2][place]) / 2.0);
        assert_eq!(series.value(Metric::CpuSystem, row), mean(13));
        assert_eq!(series.value(Metric::ContextSwitches, row), mean(11));
        assert_eq!(series.value(Metric::MemFree, row), Some(three[2][3] * 1024.0));
        assert_eq!(series.samples()[row].interval.unwrap().as_secs(), 2);
        assert_eq!(series.value(Metric::Processors, row), Some(2.0));
    }
}

#[test]
fn slabs_of_a_part_of_the_file_are_less_than_meminfo_says() {
    let (slabs, meminfo) = (series("oswslabinfo"), series("oswmeminfo"));
    for row in 0..6 {
        let (sum, all) =
            (slabs.value(Metric::Slab, row).unwrap(), meminfo.value(Metric::Slab, row).unwrap());
        assert!(0.0 < sum && sum < all);
        assert!(meminfo.value(Metric::PageTables, row).unwrap() > 0.0);
    }
}

#[test]
fn exawatchers_top_runs_on_behind_one_stamp() {
    let (_, text) = file("Top.ExaWatcher");
    let series = series("Top.ExaWatcher");
    assert_eq!(
        (series.format.as_str(), series.host.as_deref()),
        ("exawatcher top", Some("cell01.example.com"))
    );
    assert_eq!(series.clock, Clock::Wall { zone: None });
    let times: Vec<i64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("top - 00:12:")?.get(..2)?.parse().ok())
        .collect();
    assert_eq!((times.len(), seconds(&series)), (4, times));
    let user = before(&text, "%Cpu(s)", "us,");
    assert_eq!(values(&series, Metric::CpuUser), [None, user[1], user[2], user[3]]);
}

#[test]
fn exawatchers_vmstat_is_of_its_interval() {
    let series = series("Vmstat.ExaWatcher");
    assert_eq!((series.format.as_str(), series.samples().len()), ("exawatcher vmstat", 4));
    assert_eq!(series.samples()[3].interval.unwrap().as_secs(), 1);
    assert!(values(&series, Metric::CpuSystem).iter().all(Option::is_some));
}

const HEAD: &str = "procs -----------memory---------- ---swap-- -----io---- -system-- \
     ------cpu-----\n \
                    r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa \
     st\n";

#[test]
fn lines_that_run_on_behind_one_stamp_are_samples_of_their_own() {
    let rows = |count: u32| {
        (0..count)
            .map(|row| format!("{row} 0 0 100 10 10 0 0 0 0 431 1071 1 {row} 33 1 0\n"))
            .collect::<String>()
    };
    let text = format!(
        "zzz ***Wed Feb 29 23:59:52 EST 2012 Sample interval: 5 secconds\n{HEAD}{}",
        rows(6)
    );
    let series = plain(&text);
    // `date -u -d '2012-02-29 23:59:52' +%s`
    let at: Vec<Moment> = (0..6).map(|row| Moment::from_seconds(1_330_559_992 + row * 5)).collect();
    assert_eq!(series.samples().iter().map(|sample| sample.at).collect::<Vec<_>>(), at);
    assert_eq!(values(&series, Metric::CpuSystem)[..3], [None, Some(1.0), Some(2.0)]);
    let timed: String = (0..6)
        .map(|row| format!("Time: {:02}:{:02}:57\n{}", (row + 23) % 24, 59, rows(1)))
        .collect();
    let series = plain(&format!("zzz ***Wed Feb 29 22:59:57 EST 2012\n{HEAD}{timed}"));
    assert_eq!(series.samples()[5].at, Moment::from_seconds(1_330_559_997 + 5 * 3600));
}

#[test]
fn a_stamp_with_nothing_behind_it_is_a_sample_without_values() {
    let one = "2 0 0 100 10 10 0 0 0 0 431 1071 51 15 33 1 0\n".repeat(3);
    let stamp = |minute: u32| format!("zzz ***Sat Nov 21 23:{minute:02}:00 CST 2026\n");
    let text = [stamp(0), HEAD.into(), one.clone(), stamp(1), stamp(9), HEAD.into(), one].concat();
    let series = plain(&text);
    assert_eq!(values(&series, Metric::CpuSystem), [Some(15.0), None, Some(15.0)]);
    assert_eq!(series.clock, Clock::Wall { zone: Some("CST".into()) });
    let stuck = text.replacen("2 0 0 100", "2 0 0100", 1);
    assert!(plain(&stuck).problems[0].what.starts_with("1 lines of vmstat"));
    let warned = text.replace(
        &stamp(1),
        "zzz ***Warning. Traceroute response is spanning snapshot intervals.\n",
    );
    assert_eq!(plain(&warned).samples().len(), 2);
}

/// What these commands print in a shell's loop.
fn run_loop(commands: &str) -> hugewise_investigate::Series {
    let script = format!("for i in 1 2; do date -Iseconds; {commands}; done");
    let output =
        std::process::Command::new("sh").args(["-c", &script]).env("LC_ALL", "C").output().unwrap();
    plain(&String::from_utf8_lossy(&output.stdout))
}

#[test]
fn loops_of_ones_own_are_read_and_lone_lines_are_since_the_boot() {
    let series = run_loop("vmstat; ps -ef");
    assert_eq!(series.samples().len(), 2);
    for (metric, there) in [
        (Metric::CpuSystem, false),
        (Metric::RunQueue, true),
        (Metric::Processes, true),
        (Metric::Sessions, true),
    ] {
        assert_eq!(series.value(metric, 1).is_some(), there, "{metric:?}");
    }
    assert!(series.problems[0].what.contains("since boot"));
    // Whether a lone pass of top is of now depends on what ran.
    let series = run_loop("top -b -n 1 | head -12");
    assert_eq!(series.samples().len(), 2);
    assert!(series.value(Metric::Load1, 1).is_some());
}

/// `while true; do date; vmstat 1 2; sleep 60; done`: what nobody gives an interval is judged all
/// the same.
#[test]
fn a_storm_in_a_loop_over_vmstat_is_found() {
    let row = |at: u32| match at {
        60..75 => {
            "90 5 1200000 60000 1000 2000000 900 4000 9000 5000 9000 30000 4 92 2 2 0".to_owned()
        }
        _ => format!(
            "2 0 1000 {} 20000 9000000 0 0 10 20 1000 2000 20 3 76 1 0",
            4_000_000 - at * 100
        ),
    };
    let look = |at: u32| {
        let quiet = row(0);
        format!(
            "Fri Nov 20 {:02}:{:02}:00 CET 2026\nr b swpd free buff cache si so bi bo in cs us sy \
                 id wa st\n{quiet}\n{}\n",
            8 + at / 60,
            at % 60,
            row(at)
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vmstat.log");
    std::fs::write(&path, (0..100).map(look).collect::<String>()).unwrap();
    let found = hugewise_investigate::investigate(
        &[path],
        &hugewise_investigate::Options::default(),
        &|_| {},
    )
    .unwrap();
    let incidents: Vec<_> = found.hosts.iter().flat_map(|host| &host.incidents).collect();
    assert_eq!(incidents.len(), 1, "{incidents:?}");
}

#[test]
fn tools_and_the_kernels_files_behind_one_date_are_two_series() {
    let script =
        "for i in 1 2 3; do date; cat /proc/meminfo /proc/vmstat; vmstat 1 2; ps -ef; done";
    let output =
        std::process::Command::new("sh").args(["-c", script]).env("LC_ALL", "C").output().unwrap();
    let all = readers::read(output.stdout.as_slice(), "collected.log").unwrap();
    assert_eq!(
        all.iter().map(|series| series.format.as_str()).collect::<Vec<_>>(),
        ["vmstat", "meminfo"]
    );
    assert_eq!(all[0].samples().len(), 3);
    assert_eq!(seconds(&all[0]), seconds(&all[1]));
    for (series, metric) in [
        (&all[0], Metric::CpuSystem),
        (&all[0], Metric::Processes),
        (&all[1], Metric::PageTables),
        (&all[1], Metric::Faults),
    ] {
        assert!(series.value(metric, 2).is_some(), "{metric:?}");
    }
}

/// sysstat 12.6.1 beside `dd oflag=direct`: the report since the boot is left out, and the mean of
/// the two others is of the host.
#[test]
fn iostats_report_since_the_boot_is_left_out() {
    let (_, text) = file("oswiostat");
    let series = series("oswiostat");
    assert_eq!((series.format.as_str(), series.host.as_deref()), ("oswatcher iostat", Some(HOST)));
    assert_eq!((series.samples().len(), &series.problems), (3, &Vec::new()));
    let column = |name: &str| {
        let heading = text.lines().find(|line| line.starts_with("Device")).unwrap();
        heading.split_ascii_whitespace().position(|word| word == name).unwrap()
    };
    for (metric, name, factor) in [
        (Metric::PagedIn, "rkB/s", 1024.0),
        (Metric::PagedOut, "wkB/s", 1024.0),
        (Metric::DiskQueue, "aqu-sz", 1.0),
    ] {
        let value_of = |line: &str| {
            line.split_ascii_whitespace().nth(column(name)).unwrap().parse::<f64>().unwrap()
        };
        let all: Vec<f64> =
            text.lines().filter(|line| line.starts_with("vda ")).map(value_of).collect();
        assert_eq!(all.len(), 9);
        let means: Vec<f64> =
            all.chunks(3).map(|three| (three[1] + three[2]) / 2.0 * factor).collect();
        for (row, mean) in means.iter().enumerate() {
            let value = series.value(metric, row).unwrap();
            assert!(
                (value - mean).abs() <= 1e-6 * mean.max(1.0),
                "{metric:?} {row}: {value} {mean}"
            );
        }
    }
    assert!(series.value(Metric::PagedOut, 0).unwrap() > 1e6, "dd wrote all the time");
    assert!(series.value(Metric::CpuIdle, 0).unwrap() <= 100.0);
    // Processors: two seconds that iostat itself waited.
    assert_eq!(series.samples()[0].interval, Some(std::time::Duration::from_secs(2)));
}

#[test]
fn iostat_of_each_host_is_of_that_host() {
    let cpu = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n          46.91    8.12    \
               9.87    0.38    0.10   34.62\n\nDevice            r/s     rkB/s\nsda 1.0 2.0\n\n";
    let of = |host: &str| {
        let times = ["10:00:00", "10:00:10", "10:00:20"];
        let reports: String =
            times.iter().map(|time| format!("11/26/2026 {time} AM\n{cpu}")).collect();
        format!("Linux 6.1.0 ({host}) \t11/26/2026 \t_x86_64_\t(2 CPU)\n\n{reports}")
    };
    let all = readers::read((of("db1") + &of("db2")).as_bytes(), "iostat.txt").unwrap();
    let hosts: Vec<_> =
        all.iter().map(|series| (series.host.as_deref(), series.samples().len())).collect();
    let samples = hosts[0].1;
    assert_eq!(hosts, [(Some("db1"), samples), (Some("db2"), samples)]);
}

/// OSWatcher 8 calls mpstat and pidstat, too; each has the host and the day in its first line.
#[test]
fn mpstat_and_pidstat_behind_dates_are_read_as_by_themselves() {
    let banner = "Linux 5.4.17 (db1) \t11/21/2026 \t_x86_64_\t(4 CPU)\n\n";
    for (rows, format) in [
        (
            "10:47:35 PM CPU %usr %nice %sys %iowait %irq %soft %steal %guest %gnice %idle\n\
             10:47:40 PM all 1.00 0.00 95.46 0.00 0.00 0.00 0.00 0.00 0.00 3.54\n",
            "sar",
        ),
        (
            "10:47:35 PM   UID       PID    %usr %system  %guest    %CPU   CPU  Command\n\
             10:47:40 PM     0        79    0.00   98.00    0.00   98.00     1  kswapd0\n",
            "pidstat",
        ),
    ] {
        let text =
            format!("Linux OSWbb v8.0.1 db1\nzzz ***Sat Nov 21 22:47:35 CET 2026\n{banner}{rows}");
        let all = readers::read(text.as_bytes(), "db1_mpstat_26.11.21.2200.dat").unwrap();
        assert_eq!((all.len(), all[0].format.as_str()), (1, format));
        assert_eq!(all[0].clock, Clock::Wall { zone: Some("CET".to_owned()) });
        assert_eq!((all[0].samples().len(), all[0].host.as_deref()), (1, Some("db1")));
    }
}

/// ExaWatcher's iostat goes on behind one date: a sample a report, and the first is since the boot.
#[test]
fn iostat_that_runs_on_is_a_sample_a_report() {
    let report = |kib: u32| {
        format!("Device r/s w/s rkB/s wkB/s aqu-sz %util\nsda 1.0 1.0 0.0 {kib}.0 1.5 9.0\n\n")
    };
    let mut text = String::from(
        "# Starting Time:\t11/21/2026 22:47:35\n# Sample Interval(s): 5\nzzz <11/21/2026 \
             22:47:35> Count:6\n",
    );
    (1..=6).for_each(|kib| text += &report(kib));
    let series = readers::read(text.as_bytes(), "2026_11_21_22_47_35_IostatExaWatcher_cell1.dat")
        .unwrap()
        .remove(0);
    assert_eq!(
        (series.format.as_str(), series.host.as_deref()),
        ("exawatcher iostat", Some("cell1"))
    );
    let kib: Vec<f64> = values(&series, Metric::PagedOut)
        .into_iter()
        .map(|value| value.unwrap() / 1024.0)
        .collect();
    assert_eq!(kib, [2.0, 3.0, 4.0, 5.0, 6.0]);
    let steps: Vec<i64> =
        series.samples().windows(2).map(|two| two[1].at.0 - two[0].at.0).collect();
    assert_eq!(steps, [5000; 4]);
}

#[test]
fn what_cannot_be_read_is_refused_with_the_reason() {
    for (text, why) in [
        (
            "zzz ***Sat Nov 21 23:00:00 CST 2026\n07:00:01 CPU %usr\n",
            "of mpstat, which is not read",
        ),
        ("Linux OSWbb v8.0.1 db1\nSNAP_INTERVAL 30\n", "no dates"),
        (
            "top - 10:41:54 up 4 days,  4:38,  9 users,  load average: 35.92, 21.68, 16.81\n",
            "no dates",
        ),
    ] {
        let refused = readers::read(text.as_bytes(), "db1_iostat.dat").unwrap_err();
        assert!(refused.0.contains(why), "{refused}");
    }
}

#[test]
fn files_of_every_hour_are_one_series() {
    for folder in ["oswvmstat", "oswps", "oswmeminfo"] {
        let (path, text) = file(folder);
        let whole = series(folder);
        let third = text.match_indices("zzz ***").nth(3).unwrap().0;
        let hour =
            |text: &str| readers::read(text.as_bytes(), path.to_str().unwrap()).unwrap().remove(0);
        let joined = hugewise_investigate::rotation::join_rotated_files(vec![
            hour(&text[third..]),
            hour(&text[..third]),
        ]);
        assert_eq!((joined.len(), seconds(&joined[0])), (1, STAMPS.to_vec()));
        // VCPUS stands in the heading of each file alone.
        for metric in Metric::ALL.iter().filter(|metric| **metric != Metric::Processors) {
            assert_eq!(values(&joined[0], *metric), values(&whole, *metric), "{folder} {metric:?}");
        }
    }
}

const FOLDERS: [&str; 7] = [
    "oswvmstat",
    "oswtop",
    "oswps",
    "oswmeminfo",
    "oswslabinfo",
    "Top.ExaWatcher",
    "Vmstat.ExaWatcher",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_cut_is_read_up_to_it(folder in 0..7_usize, part in 0.0..1.0_f64) {
        let (path, text) = file(FOLDERS[folder]);
        let whole = series(FOLDERS[folder]);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let cut = (text.len() as f64 * part) as usize;
        let name = path.to_str().unwrap();
        if let Ok(cut) = readers::read(&text.as_bytes()[..cut], name) {
            let rows = cut[0].samples().len();
            prop_assert!(rows <= whole.samples().len());
            // All but the last are as in the whole.
            for row in 0..rows.saturating_sub(1) {
                for metric in Metric::ALL {
                    prop_assert_eq!(cut[0].value(*metric, row), whole.value(*metric, row));
                }
            }
        }
    }
}
