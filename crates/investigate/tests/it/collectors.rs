//! What atop, nmon, collectl and PCP's pmlogger recorded side by side, and what the kernel's own
//! files said every second meanwhile.
//!
//! `pmrep.csv`, `atop.txt` and `atop.own.txt`, which is of the file kept here, are what these tools
//! of Debian 12 print of their files; `pmrep.rates.csv` is the same archive with PCP's own
//! conversion to rates.

use std::io::Read;
use std::path::{Path, PathBuf};

use hugewise_investigate::{Clock, Metric, Moment, Series, readers};
use hugewise_testkit::Skip;
use proptest::prelude::*;

fn fixture(name: &str) -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/collectors").join(name);
    let mut bytes = Vec::new();
    hugewise_host::compressed::open_decompressed(std::fs::File::open(file).unwrap())
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

fn text(name: &str) -> String {
    String::from_utf8(fixture(name)).unwrap()
}

fn series(name: &str) -> Series {
    readers::read(fixture(name).as_slice(), name).unwrap().remove(0)
}

fn pmrep() -> Series {
    readers::pcp::read(&mut fixture("pmrep.csv").as_slice(), "pmrep.csv").unwrap()
}

/// The values of both series at moments that they have in common, within half a second.
fn together(one: &Series, other: &Series, metric: Metric) -> Vec<(f64, f64)> {
    let near =
        |at: Moment| other.samples().iter().position(|sample| (sample.at.0 - at.0).abs() <= 500);
    let pairs = one.samples().iter().enumerate().filter_map(|(row, sample)| {
        Some((one.value(metric, row)?, other.value(metric, near(sample.at)?)?))
    });
    pairs.collect()
}

#[test]
fn all_say_what_the_kernel_said() {
    let kernel = series("kernel.log.xz");
    assert_eq!(kernel.samples().len(), 8);
    for (name, series, metrics) in [
        (
            "atop",
            series("atop.txt"),
            &[
                Metric::MemTotal,
                Metric::MemFree,
                Metric::Cached,
                Metric::Slab,
                Metric::Shmem,
                Metric::PageTables,
            ][..],
        ),
        (
            "nmon",
            series("db1.nmon.xz"),
            &[
                Metric::MemTotal,
                Metric::MemFree,
                Metric::Cached,
                Metric::Active,
                Metric::SlabReclaimable,
            ],
        ),
        (
            "pcp",
            pmrep(),
            &[
                Metric::MemTotal,
                Metric::MemFree,
                Metric::MemAvailable,
                Metric::Anon,
                Metric::KernelStack,
                Metric::PageTables,
                Metric::Committed,
            ],
        ),
    ] {
        for metric in metrics {
            let pairs = together(&series, &kernel, *metric);
            assert!(pairs.len() >= 3, "{name} {metric:?}");
            for (value, kernels) in pairs {
                // Within half a second much is begun and ended here.
                assert!(
                    (value / kernels - 1.0).abs() < 0.15,
                    "{name} {metric:?} {value} {kernels}"
                );
            }
        }
    }
    // Over all of the time that both saw, what is counted is about the same.
    for (name, other_series, metrics) in [
        ("pcp", pmrep(), &[Metric::Faults, Metric::Freed, Metric::PagedOut][..]),
        ("nmon", series("db1.nmon.xz"), &[Metric::Faults, Metric::PagedOut]),
        ("atop", series("atop.txt"), &[Metric::PagedOut]),
    ] {
        for metric in metrics {
            let sum = |series: &Series| {
                let rows = series.samples().iter().enumerate().filter(|(_, sample)| {
                    (1_795_306_509..=1_795_306_514).contains(&(sample.at.0 / 1000))
                });
                rows.filter_map(|(row, sample)| {
                    Some(series.value(*metric, row)? * sample.interval?.as_secs_f64())
                })
                .sum::<f64>()
            };
            let (own, kernels) = (sum(&other_series), sum(&kernel));
            assert!((own / kernels - 1.0).abs() < 0.35, "{name} {metric:?} {own} {kernels}");
        }
    }
}

/// dstat 0.8.0 and dool 1.3.8, and what the kernel's files said every second meanwhile: `while sleep 1;
/// do date +%s.%N; cat /proc/meminfo /proc/vmstat; done`.
#[test]
fn dstat_and_dool_say_what_the_kernel_said() {
    let kernel = series("dstat.kernel.log.xz");
    for name in ["dstat.csv.xz", "dool.csv.xz"] {
        let own = series(name);
        assert_eq!((own.format.as_str(), own.host.as_deref()), ("dstat", Some("vm")));
        assert_eq!(own.problems, [], "{name}");
        for metric in [Metric::MemFree, Metric::Cached] {
            let pairs = together(&own, &kernel, metric);
            assert!(pairs.len() >= 10, "{name} {metric:?}");
            // Within half a second much is begun and ended here: they agree on the whole.
            let (values, kernels) = pairs
                .iter()
                .fold((0.0, 0.0), |sum: (f64, f64), pair| (sum.0 + pair.0, sum.1 + pair.1));
            assert!((values / kernels - 1.0).abs() < 0.05, "{name} {metric:?} {values} {kernels}");
        }
        // The first row, which counts since the boot, has none of these.
        let (from, to) = (own.samples()[1].at, own.samples().last().unwrap().at);
        for metric in [Metric::Faults, Metric::Freed] {
            let sum = |series: &Series| {
                let rows = series.samples().iter().enumerate();
                rows.filter(|(_, sample)| from < sample.at && sample.at <= to)
                    .filter_map(|(row, sample)| {
                        Some(series.value(metric, row)? * sample.interval?.as_secs_f64())
                    })
                    .sum::<f64>()
            };
            let (own, kernels) = (sum(&own), sum(&kernel));
            assert!((own / kernels - 1.0).abs() < 0.1, "{name} {metric:?} {own} {kernels}");
        }
    }
}

#[test]
fn pmreps_own_rates_are_ours() {
    let series = pmrep();
    assert_eq!(
        (series.format.as_str(), series.kernel.as_deref()),
        ("pcp", Some("6.18.44-fc-v769"))
    );
    assert_eq!(series.huge_page, Some(hugewise_model::Bytes::from_mib(2)));
    let text = text("pmrep.rates.csv");
    let mut lines = text
        .lines()
        .map(|line| line.split(',').map(|word| word.trim_matches('"')).collect::<Vec<_>>());
    let headings = lines.next().unwrap();
    let rows: Vec<Vec<&str>> = lines.collect();
    assert_eq!((rows.len(), series.samples().len()), (6, 6));
    for (name, metric, factor) in [
        ("mem.vmstat.pgfault", Metric::Faults, 1.0),
        ("mem.vmstat.pgpgout", Metric::PagedOut, 1024.0),
        ("mem.vmstat.pgfree", Metric::Freed, 1.0),
        ("kernel.all.pswitch", Metric::ContextSwitches, 1.0),
        ("kernel.all.sysfork", Metric::Forks, 1.0),
        ("kernel.all.intr", Metric::Interrupts, 1.0),
        // Microseconds a second.
        ("kernel.all.pressure.cpu.some.total", Metric::PressureCpuSome, 1e-4),
        ("kernel.all.pressure.io.full.total", Metric::PressureIoFull, 1e-4),
        ("mem.util.pageTables", Metric::PageTables, 1024.0),
        ("mem.util.free", Metric::MemFree, 1024.0),
        ("swap.used", Metric::SwapUsed, 1.0),
    ] {
        let column = headings.iter().position(|heading| *heading == name).unwrap();
        for (row, words) in rows.iter().enumerate() {
            let theirs: Option<f64> = words[column].parse().ok().map(|value: f64| value * factor);
            match (series.value(metric, row), theirs) {
                (None, None) => {}
                // Times are printed to the microsecond and kept to the millisecond.
                (Some(ours), Some(theirs)) => {
                    assert!(
                        (ours - theirs).abs() <= theirs.abs() * 0.002 + 1e-6,
                        "{name} {ours} {theirs}"
                    )
                }
                other => panic!("{name} {row}: {other:?}"),
            }
        }
    }
    // PCP takes processors' time of the clock's, we of the sum of its parts, which ticks are short
    // of.
    for (name, metric) in
        [("kernel.cpu.util.user", Metric::CpuUser), ("kernel.cpu.util.idle", Metric::CpuIdle)]
    {
        let column = headings.iter().position(|heading| *heading == name).unwrap();
        for (row, words) in rows.iter().enumerate().skip(1) {
            let theirs: f64 = words[column].parse().unwrap();
            assert!((series.value(metric, row).unwrap() - theirs).abs() < 2.0, "{name}");
        }
    }
}

#[test]
fn atops_text_is_read_field_by_field() {
    let series = series("atop.txt");
    assert_eq!(
        (series.format.as_str(), series.host.as_deref(), series.samples().len()),
        ("atop", Some("db1"), 9)
    );
    assert!(matches!(series.clock, Clock::Utc { .. }));
    assert_eq!(series.samples()[1].at, Moment::from_seconds(1_795_306_508));
    // The first is since the boot: moments are kept, rates are not.
    assert_eq!(series.samples()[0].interval, None);
    assert_eq!(series.value(Metric::ContextSwitches, 0), None);
    assert_eq!(series.value(Metric::CpuUser, 0), None);
    assert_eq!(series.value(Metric::PageTables, 0), Some(1455.0 * 4096.0));
    let text = text("atop.txt");
    let line = |label: &str| -> Vec<f64> {
        let line =
            text.lines().find(|line| line.starts_with(label) && line.contains("00:15:13")).unwrap();
        line.split(' ').skip(6).map(|word| word.parse().unwrap_or(f64::NAN)).collect()
    };
    let row = series.samples().iter().position(|sample| sample.at.0 == 1_795_306_513_000).unwrap();
    let value_of = |metric| series.value(metric, row).unwrap();
    let cpu = line("CPU");
    let all: f64 = cpu[2..10].iter().sum();
    assert!((value_of(Metric::CpuUser) - cpu[3] / all * 100.0).abs() < 1e-9);
    assert!((value_of(Metric::CpuSystem) - (cpu[2] + cpu[7] + cpu[8]) / all * 100.0).abs() < 1e-9);
    assert_eq!(value_of(Metric::ContextSwitches), line("CPL")[4]);
    assert_eq!(value_of(Metric::PagedOut), line("PAG")[11] * 4096.0);
    assert_eq!(value_of(Metric::PressureIoSome), line("PSI")[16] / 10_000.0);
    assert_eq!(value_of(Metric::AllocStall), 0.0);
}

#[test]
fn atop_does_not_tell_whose_scans_they_are_once_a_process_reclaims() {
    let text = "SEP\nPAG db1 1795306508 2026/11/22 01:15:08 10 4096 500 0 0 0 20 -1 0 0 0 0 \
         0\nSEP\n\
                PAG db1 1795306518 2026/11/22 01:15:18 10 4096 900 30 0 0 20 2 40 0 0 0 0\nSEP\n\
                MEM db1 1795306528 2026/11/22 01:15:28 10 4096 5120 100 0 0 0 0 0 0 0 0 0 2097152 \
         8 3 0 0 0 0 0 1024\n";
    let series = readers::read(text.as_bytes(), "x").unwrap().remove(0);
    let values_of = |metric| [0, 1].map(|row| series.value(metric, row));
    assert_eq!(values_of(Metric::ScanKswapd), [Some(50.0), None]);
    assert_eq!(values_of(Metric::ScanDirect), [Some(0.0), None]);
    assert_eq!(values_of(Metric::AllocStall), [Some(0.0), Some(3.0)]);
    assert_eq!(values_of(Metric::OomKill), [None, Some(0.2)]);
    assert_eq!(values_of(Metric::SwapOut), [Some(2.0), Some(2.0)]);
    assert_eq!(series.value(Metric::HugeFree, 2), Some(3.0 * 2_097_152.0));
    assert_eq!(series.value(Metric::PageTables, 2), Some(4_194_304.0));
    assert_eq!(series.clock.offset_at(Moment::from_seconds(1_795_306_508)), Some(3600));
}

/// What `atop -r` shows and `atop -P` does not print.
const ON_THE_SCREEN: [Metric; 3] = [Metric::Processes, Metric::RunQueue, Metric::Forks];

/// Line `PRC` of `atop -L 300 -r`: `#proc`, `#trun` and `clones` of the last sample, of one second.
/// The files were made in a namespace of processes, whose own are few.
#[test]
fn atops_screen_says_how_many_tasks_there_were() {
    for (file, shown) in [
        ("atop.xz", [2.0, 1.0, 0.0]),
        ("atop-2.6.xz", [1.0, 1.0, 8.0]),
        ("atop-2.11.xz", [1.0, 1.0, 20.0]),
        ("atop-2.13.xz", [1.0, 1.0, 22.0]),
    ] {
        let series = readers::read(fixture(file).as_slice(), "atop_20261122").unwrap().remove(0);
        let last = series.samples().len() - 1;
        assert_eq!(
            ON_THE_SCREEN.map(|metric| series.value(metric, last)),
            shown.map(Some),
            "{file}"
        );
        // What is since the boot is no rate.
        assert_eq!(series.value(Metric::Forks, 0), None);
    }
}

/// What the atop of its own version printed of each file. The files are of Debian's packages of
/// 2.6, 2.8, 2.11 and 2.13.
#[test]
fn atops_own_files_say_what_their_atop_prints() {
    for version in ["2.6", "2.8", "2.11", "2.13"] {
        let (file, printed) = match version {
            "2.8" => ("atop.xz".to_owned(), "atop.own.txt".to_owned()),
            other => (format!("atop-{other}.xz"), format!("atop-{other}.txt")),
        };
        let file = readers::read(fixture(&file).as_slice(), "atop_20261122").unwrap().remove(0);
        let printed = series(&printed);
        assert_eq!((file.version.as_deref(), file.problems.len()), (Some(version), 0));
        assert_eq!(file.samples(), printed.samples(), "{version}");
        for metric in Metric::ALL.iter().filter(|metric| !ON_THE_SCREEN.contains(metric)) {
            assert_eq!(file.column(*metric), printed.column(*metric), "{version} {metric:?}");
        }
        assert!(
            file.value(Metric::CpuSystem, 1).is_some()
                && file.value(Metric::PressureMemoryFull, 1).is_some()
        );
        assert!(file.kernel.is_some() && file.architecture.as_deref() == Some("x86_64"));
        // Nobody but the host knows its zone.
        assert_eq!(file.clock, Clock::Utc { offsets: Vec::new() });
    }
}

#[test]
fn a_file_of_atop_that_is_torn_or_unknown_is_refused_or_told() {
    let whole = fixture("atop-2.11.xz");
    assert!(readers::read(&whole[..64], "atop").unwrap_err().0.contains("ends within its header"));
    assert!(readers::read(&whole[..500], "atop").unwrap_err().0.contains("no atop sample"));
    let plain = {
        let mut plain = Vec::new();
        let mut stream = hugewise_host::compressed::open_decompressed(whole.as_slice()).unwrap();
        std::io::Read::read_to_end(&mut stream, &mut plain).unwrap();
        plain
    };
    let samples = |bytes: &[u8]| match readers::read(bytes, "atop") {
        Ok(series) => (series[0].samples().len(), series[0].problems.len()),
        Err(_) => (0, 1),
    };
    assert_eq!(samples(&plain), (6, 0));
    for cut in (480..plain.len()).step_by(97) {
        let (samples, problems) = samples(&plain[..cut]);
        assert!(samples <= 6 && problems <= 1, "{cut}");
    }
    // A byte of the second sample's packed figures.
    let mut broken = plain.clone();
    let first = 480
        + 96
        + usize::try_from(u32::from_le_bytes(plain[496..500].try_into().unwrap())).unwrap();
    broken[first + 1200] ^= 0xff;
    assert!(samples(&broken).1 <= 1);
    // Structures of another size, which atop itself has to read.
    let mut other = plain;
    other[4] = 3;
    other[28] ^= 0xff;
    let refused = readers::read(other.as_slice(), "atop").unwrap_err();
    assert!(refused.0.contains("atop 2.3") || refused.0.contains("not installed"), "{refused}");
}

/// The archive in a folder of its own, and its base.
fn archive() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for part in ["0", "index", "meta"] {
        std::fs::write(
            folder.path().join(format!("pcp.{part}")),
            fixture(&format!("pcp.{part}.xz")),
        )
        .unwrap();
    }
    let base = folder.path().join("pcp");
    (folder, base)
}

#[test]
fn pmrep_reads_an_archive() {
    let (folder, base) = archive();
    let all = readers::pcp::read_archive(&base, "pcp");
    if !Path::new("/usr/bin/pmrep").exists() {
        assert!(all.unwrap_err().0.contains("package pcp"));
        return Skip("pmrep (Debian: pcp) is not installed".into()).report();
    }
    let (own, printed) = (all.unwrap(), pmrep());
    assert_eq!(own.host.as_deref(), Some("db1"));
    // `Archive timezone: UTC`
    assert_eq!(own.clock.offset_at(own.samples()[0].at), Some(0));
    assert_eq!((own.samples(), &own.problems[..]), (printed.samples(), &[][..]));
    for metric in Metric::ALL {
        assert_eq!(own.column(*metric), printed.column(*metric), "{metric:?}");
    }
    assert!(readers::pcp::read_archive(&folder.path().join("none"), "none").is_err());
    // As `xz -dk` leaves them: a packed file beside the same unpacked is one archive.
    for part in ["pcp.0.xz", "pcp.meta.xz"] {
        std::fs::write(folder.path().join(part), fixture(part)).unwrap();
    }
    assert_eq!(readers::pcp::read_archive(&base, "pcp").unwrap().samples(), own.samples());
    let refused = readers::read(fixture("pcp.0.xz").as_slice(), "pcp.0").unwrap_err();
    assert!(refused.0.contains("pmrep"), "{refused}");
}

/// What collectl makes of its own raw file (`collectl -p FILE -P`) is what is read of it, up to
/// what it rounds.
#[test]
fn collectls_raw_file_and_its_plot_say_the_same() {
    let (raw, plot) = (series("collectl.raw.gz"), series("collectl.tab.xz"));
    for series in [&raw, &plot] {
        assert_eq!((series.format.as_str(), series.host.as_deref()), ("collectl", Some("vm")));
        assert_eq!(series.version.as_deref(), Some("4.3.1-1"));
        assert!(
            series.kernel.as_deref().is_some_and(|kernel| kernel.starts_with("6.18.")),
            "{:?}",
            series.kernel
        );
        assert_eq!(series.clock.offset_at(series.samples()[0].at), Some(0));
        assert_eq!(series.problems, []);
    }
    // The first look has no rates, and no row in the plot.
    assert_eq!(raw.samples().len(), plot.samples().len() + 1);
    for (metric, rounded) in [
        (Metric::CpuUser, 1.0),
        (Metric::CpuNice, 1.0),
        (Metric::CpuSystem, 2.0),
        (Metric::CpuIdle, 1.0),
        (Metric::MemTotal, 0.0),
        (Metric::MemFree, 0.0),
        (Metric::Cached, 0.0),
        (Metric::Slab, 0.0),
        (Metric::Anon, 0.0),
        (Metric::Committed, 0.0),
        (Metric::Mapped, 0.0),
        (Metric::Buffers, 0.0),
        (Metric::Dirty, 0.0),
        (Metric::AnonHuge, 0.0),
        // It leaves itself out.
        (Metric::RunQueue, 1.0),
        (Metric::Blocked, 0.0),
        (Metric::Load1, 0.01),
        (Metric::Forks, 1.0),
        (Metric::ContextSwitches, 1.0),
        (Metric::Faults, 1.0),
        (Metric::PagedIn, 1024.0),
        (Metric::PagedOut, 1024.0),
    ] {
        let pairs = together(&raw, &plot, metric);
        assert!(pairs.len() >= plot.samples().len(), "{metric:?}: {}", pairs.len());
        for (own, its) in pairs {
            // It counts by whole milliseconds of its own clock.
            assert!((own - its).abs() <= rounded + its * 0.002, "{metric:?}: {own}, {its}");
        }
    }
    // What the kernel says and a plot does not.
    assert!(
        raw.value(Metric::PageTables, 0).unwrap() > 1e6
            && raw.value(Metric::HugeTotal, 0).is_some()
    );
    assert!(raw.column(Metric::AllocStall).is_some() && plot.column(Metric::PageTables).is_none());
}

/// Offsets of zones, -P at a terminal, seconds of UTC, another separator, and -on, whose counts are
/// of an interval.
#[test]
fn collectls_plots_are_read_however_they_were_asked_for() {
    let read = |text: &str| readers::read(text.as_bytes(), "x").unwrap().remove(0);
    let head = |zone: &str, options: &str| {
        format!(
            "####\n# Collectl:   V4.3.1-1  HiRes: 1  Options: -P\n# Host:       db1  DaemonOpts: \n\
            # Date:       20261121-080000  Secs: 1 TZ: {zone}\n# SubSys:     cm Options: \
                 {options} Interval: 10 NumCPUs: 2\n####\n"
        )
    };
    let rows = "#Date Time [CPU]User% [CPU]Sys% [CPU]Soft% [CPU]Ctx/sec [MEM]Free\n\
        20261121 08:00:10 1 2 3 40 1000\n20261121 08:00:20.500 1 2 4 50 2000\n20261121 08:00:3";
    let at =
        |series: &Series| series.samples().iter().map(|sample| sample.at.0).collect::<Vec<_>>();
    // date -u -d '2026-11-21 08:00:10' +%s
    let eight = 1_795_248_010_000_i64;
    let series = read(&(head("+0530", "z") + rows));
    assert_eq!(at(&series), [eight - 19_800_000, eight - 19_789_500]);
    assert_eq!(
        (series.value(Metric::CpuSystem, 1), series.value(Metric::MemFree, 1)),
        (Some(6.0), Some(2_048_000.0))
    );
    assert_eq!(series.samples()[0].interval, Some(std::time::Duration::from_secs(10)));
    assert_eq!(series.problems.len(), 1, "the last line is torn");
    let counts = read(&(head("+0000", "zn") + rows));
    assert_eq!(
        (counts.value(Metric::ContextSwitches, 0), counts.value(Metric::CpuUser, 0)),
        (None, Some(1.0))
    );
    let terminal = read(&format!("waiting for 1 second sample...\n{rows}\n"));
    assert_eq!((at(&terminal)[0], &terminal.clock), (eight, &Clock::Wall { zone: None }));
    let utc = read("#UTC,[CPU]User%,[CPU]Sys%\n1795248010,1,2\n1795248020,3,4\n");
    assert_eq!((at(&utc)[0], utc.value(Metric::CpuUser, 1)), (eight, Some(3.0)));
}

/// Cut off anywhere, with bytes turned, with dates and numbers that no host has: read as far as it
/// makes sense, or refused.
#[test]
fn collectls_files_in_ruins_bring_nothing_down() {
    for name in ["collectl.raw.gz", "collectl.tab.xz"] {
        let whole = fixture(name);
        for at in (0..whole.len()).step_by(97) {
            let mut turned = whole.clone();
            turned[at] ^= 0x15;
            for bytes in [&turned[..], &whole[..at]] {
                if let Ok(all) = readers::read(bytes, name) {
                    assert!(all.iter().all(|series| series.samples().len() <= 12));
                }
            }
        }
    }
    let raw = |body: &str| {
        readers::read(
            format!("# Collectl:   V4\n# Date: x TZ: +99999999999\n{body}").as_bytes(),
            "x",
        )
    };
    assert!(raw("").is_err() && raw(">>> 1795626371.009 <<<\n").is_err());
    for body in [
        ">>> 99999999999.9 <<<\ncpu 1 2 3 4\n>>> 1795626371 <<<\ncpu 18446744073709551615 \
             18446744073709551615 1 18446744073709551615 1\nctxt 5\n",
        ">>> 1795626371 <<<\ncpu\nload x\nprocesses -1\nMemFree: 99999999999999999999 \
             kB\nHugepagesize: 18446744073709551615 kB\nHugePages_Total: 9\n",
        "#Date Time [CPU]User%\n99999999 08:00:00 1\n20261399 08:00:00 1\n20261121 99:00:00 \
             1\n20261121 08:00:00 1e999\n",
    ] {
        if let Ok(all) = raw(body) {
            let series = &all[0];
            let sound = |metric: &Metric| {
                let values =
                    (0..series.samples().len()).filter_map(|row| series.value(*metric, row));
                values.into_iter().all(|value| value.is_finite() && value >= 0.0)
            };
            assert!(Metric::ALL.iter().all(sound), "{body}");
        }
    }
}

#[test]
fn nmons_file_is_read_sorted_or_not() {
    let series = series("db1.nmon.xz");
    assert_eq!(
        (series.format.as_str(), series.host.as_deref(), series.version.as_deref()),
        ("nmon", Some("db1"), Some("16n"))
    );
    assert_eq!((series.samples().len(), &series.clock), (4, &Clock::Wall { zone: None }));
    let text = text("db1.nmon.xz");
    let line = |start: &str| -> Vec<f64> {
        let line = text.lines().find(|line| line.starts_with(start)).unwrap();
        line.split(',').skip(2).map(|word| word.parse().unwrap_or(f64::NAN)).collect()
    };
    let (vm, cpu, process) = (line("VM,T0004"), line("CPU_ALL,T0004"), line("PROC,T0004"));
    let value_of = |metric| series.value(metric, 3);
    assert_eq!(value_of(Metric::PageTables), Some(vm[3] * 4096.0));
    assert_eq!(value_of(Metric::CpuSystem), Some(cpu[1]));
    assert_eq!(value_of(Metric::RunQueue), Some(process[0]));
    assert_eq!(value_of(Metric::Forks), Some(process[6]));
    // Counted in 2 seconds.
    assert_eq!(value_of(Metric::PagedOut), Some(vm[7] * 1024.0 / 2.0));
    assert_eq!(series.value(Metric::PagedOut, 0), None);
    let untrusted: Vec<Metric> = series.untrusted.iter().map(|(metric, _)| *metric).collect();
    assert_eq!(
        untrusted,
        [Metric::ScanKswapd, Metric::ScanDirect, Metric::Steal, Metric::AllocStall]
    );
    assert_eq!(series.column(Metric::ScanDirect), None);

    let mut sorted: Vec<&str> = text.lines().collect();
    sorted.sort_unstable();
    let sorted =
        readers::read(format!("{}\n", sorted.join("\n")).as_bytes(), "sorted").unwrap().remove(0);
    assert_eq!(sorted.samples(), series.samples());
    for metric in Metric::ALL {
        assert_eq!(sorted.column(*metric), series.column(*metric), "{metric:?}");
    }
}

#[test]
fn what_an_older_kernel_tells_nmon_is_kept_as_far_as_it_is_true() {
    let text = "AAA,progname,nmon\nAAA,OS,Linux,2.6.32-754.el6.x86_64,#1 SMP,x86_64\n\
        VM,Paging and Virtual Memory,nr_page_table_pages,allocstall,pgscan_direct_normal\n\
        ZZZZ,T0001,23:59:50,21-NOV-2026\nVM,T0001,262144,9,9\nTOP,55,T0001,76.0,0,0,0,0,0,0,0,0,0,kswapd0\n\
        ZZZZ,T0002,00:00:00,22-NOV-2026\nVM,T0002,524288,40,9\nTOP,55,T0002,76.0,0,0,0,0,0,0,0,0,0,kswapd0\n\
        TOP,56,T0002,12.0,0,0,0,0,0,0,0,0,0,kswapd1\nHUGEPAGES,T0002,100,40,2.0\nZZZZ,T0003,00:00:10,22-NOV-2026\nVM,T0003,5242";
    let series = readers::read(text.as_bytes(), "x").unwrap().remove(0);
    let values_of = |metric| [0, 1, 2].map(|row| series.value(metric, row));
    assert_eq!(values_of(Metric::PageTables), [Some(1_073_741_824.0), Some(2_147_483_648.0), None]);
    assert_eq!(values_of(Metric::AllocStall), [None, Some(4.0), None]);
    assert_eq!(values_of(Metric::ScanDirect), [None; 3]);
    assert_eq!(values_of(Metric::KswapdCpu), [None, Some(88.0), None]);
    assert_eq!(values_of(Metric::HugeFree), [None, Some(83_886_080.0), None]);
    assert!(series.problems[0].what.contains("cut short"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_cut_is_read_up_to_it(which in 0..3_usize, part in 0.0..1.0_f64) {
        let name = ["atop.txt", "db1.nmon.xz", "pmrep.csv"][which];
        let bytes = fixture(name);
        let read = |mut bytes: &[u8]| if which == 2 {
            readers::pcp::read(&mut bytes, "x")
        } else {
            readers::read(bytes, "x").map(|mut all| all.remove(0))
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let cut = (bytes.len() as f64 * part) as usize;
        if let Ok(torn) = read(&bytes[..cut]) {
            let whole = read(&bytes).unwrap();
            for row in 0..torn.samples().len().saturating_sub(1) {
                for metric in Metric::ALL {
                    prop_assert_eq!(torn.value(*metric, row), whole.value(*metric, row));
                }
            }
        }
    }
}
