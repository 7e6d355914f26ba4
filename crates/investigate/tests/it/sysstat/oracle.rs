//! Every value of every sample, as sadf prints it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use hugewise_investigate::series::MarkKind;
use hugewise_investigate::{Metric, Series};
use hugewise_testkit::{Skip, require};
use serde_json::Value;

use super::file::File;
use super::{fixture, number, read, versions};

/// A sample's values in sadf's words.
type Words = BTreeMap<String, f64>;

/// sadf's words with `-p`, its words with `-j`, the metric, and how often the word's unit goes into
/// the metric's.
const WORDS: &[(&str, &str, Metric, f64)] = &[
    ("%nice", "nice", Metric::CpuNice, 1.0),
    ("%iowait", "iowait", Metric::CpuIowait, 1.0),
    ("%steal", "steal", Metric::CpuSteal, 1.0),
    ("%irq", "irq", Metric::CpuIrq, 1.0),
    ("%soft", "soft", Metric::CpuSoftirq, 1.0),
    ("%guest", "guest", Metric::CpuGuest, 1.0),
    ("%idle", "idle", Metric::CpuIdle, 1.0),
    ("proc/s", "proc", Metric::Forks, 1.0),
    ("cswch/s", "cswch", Metric::ContextSwitches, 1.0),
    ("intr/s", "intr", Metric::Interrupts, 1.0),
    ("pswpin/s", "pswpin", Metric::SwapIn, 1.0),
    ("pswpout/s", "pswpout", Metric::SwapOut, 1.0),
    ("pgpgin/s", "pgpgin", Metric::PagedIn, 1024.0),
    ("pgpgout/s", "pgpgout", Metric::PagedOut, 1024.0),
    ("fault/s", "fault", Metric::Faults, 1.0),
    ("majflt/s", "majflt", Metric::MajorFaults, 1.0),
    ("pgfree/s", "pgfree", Metric::Freed, 1.0),
    ("pgscank/s", "pgscank", Metric::ScanKswapd, 1.0),
    ("pgscand/s", "pgscand", Metric::ScanDirect, 1.0),
    ("pgsteal/s", "pgsteal", Metric::Steal, 1.0),
    ("kbmemfree", "memfree", Metric::MemFree, 1024.0),
    ("kbavail", "avail", Metric::MemAvailable, 1024.0),
    ("kbbuffers", "buffers", Metric::Buffers, 1024.0),
    ("kbcached", "cached", Metric::Cached, 1024.0),
    ("kbcommit", "commit", Metric::Committed, 1024.0),
    ("kbactive", "active", Metric::Active, 1024.0),
    ("kbinact", "inactive", Metric::Inactive, 1024.0),
    ("kbdirty", "dirty", Metric::Dirty, 1024.0),
    ("kbanonpg", "anonpg", Metric::Anon, 1024.0),
    ("kbslab", "slab", Metric::Slab, 1024.0),
    ("kbkstack", "kstack", Metric::KernelStack, 1024.0),
    ("kbpgtbl", "pgtbl", Metric::PageTables, 1024.0),
    ("kbvmused", "vmused", Metric::VmallocUsed, 1024.0),
    ("kbshared", "shared", Metric::Shmem, 1024.0),
    ("kbswpfree", "swpfree", Metric::SwapFree, 1024.0),
    ("kbswpused", "swpused", Metric::SwapUsed, 1024.0),
    ("kbswpcad", "swpcad", Metric::SwapCached, 1024.0),
    ("kbhugfree", "hugfree", Metric::HugeFree, 1024.0),
    ("kbhugrsvd", "hugrsvd", Metric::HugeReserved, 1024.0),
    ("kbhugsurp", "hugsurp", Metric::HugeSurplus, 1024.0),
    ("runq-sz", "runq-sz", Metric::RunQueue, 1.0),
    ("plist-sz", "plist-sz", Metric::Tasks, 1.0),
    ("blocked", "blocked", Metric::Blocked, 1.0),
    ("ldavg-1", "ldavg-1", Metric::Load1, 1.0),
    ("ldavg-5", "ldavg-5", Metric::Load5, 1.0),
    ("ldavg-15", "ldavg-15", Metric::Load15, 1.0),
    ("passive/s", "passive", Metric::TcpPassive, 1.0),
    ("%scpu", "psi-cpu some_avg", Metric::PressureCpuSome, 1.0),
    ("%sio", "psi-io some_avg", Metric::PressureIoSome, 1.0),
    ("%fio", "psi-io full_avg", Metric::PressureIoFull, 1.0),
    ("%smem", "psi-mem some_avg", Metric::PressureMemorySome, 1.0),
    ("%fmem", "psi-mem full_avg", Metric::PressureMemoryFull, 1.0),
];

/// Sums that sadf prints only in parts: the metric, the parts of `-p` and of `-j` that are added
/// and taken away.
const SUMS: &[(Metric, &[&str], &[&str], f64)] = &[
    (Metric::CpuUser, &["%usr", "%guest"], &["usr", "guest"], 1.0),
    (Metric::CpuSystem, &["%sys", "%irq", "%soft"], &["sys", "irq", "soft"], 1.0),
    (Metric::SwapTotal, &["kbswpfree", "kbswpused"], &["swpfree", "swpused"], 1024.0),
    (Metric::HugeTotal, &["kbhugfree", "kbhugused"], &["hugfree", "hugused"], 1024.0),
];

/// What the host had: /proc/meminfo and the number of processors as the files were written.
const MEM_TOTAL: f64 = 24_731_272.0 * 1024.0;
const PROCESSORS: f64 = 2.0;

/// Compares every sample that has an interval with sadf's. Every word has its metric, and every
/// metric its word; `spared` are metrics that sadf has and we don't, or the other way about.
fn compare(
    what: &str,
    series: &Series,
    said: &BTreeMap<i64, Words>,
    json: bool,
    cpu: f64,
    spared: &[Metric],
) {
    let untrusted: Vec<Metric> = series.untrusted.iter().map(|(metric, _)| *metric).collect();
    let mut compared = 0;
    for (row, sample) in
        series.samples().iter().enumerate().filter(|(_, sample)| sample.interval.is_some())
    {
        let time = sample.at.0 / 1000;
        let words =
            said.get(&time).unwrap_or_else(|| panic!("{what}: sadf has no sample at {time}"));
        compared += 1;
        let mut known = vec![Metric::MemTotal, Metric::Processors];
        let mut check = |metric: Metric, expected: Option<f64>, parts: f64, factor: f64| {
            known.push(metric);
            let value = series.value(metric, row);
            if spared.contains(&metric) {
                return;
            }
            if untrusted.contains(&metric) {
                assert_eq!(value, None, "{what}: {metric:?}");
                return;
            }
            let (Some(value), Some(expected)) = (value, expected) else {
                assert_eq!(value.is_some(), expected.is_some(), "{what}: {metric:?} at {time}");
                return;
            };
            let rounding = 0.005_001 * factor * parts + expected.abs() * 1e-12;
            let tolerance =
                if format!("{metric:?}").starts_with("Cpu") { cpu.max(rounding) } else { rounding };
            assert!(
                (value - expected).abs() <= tolerance,
                "{what}: {metric:?} at {time}: {value}, not {expected}"
            );
        };
        for (pattern, key, metric, factor) in WORDS {
            let word = if json { *key } else { *pattern };
            check(*metric, words.get(word).map(|value| value * factor), 1.0, *factor);
        }
        for (metric, patterns, keys, factor) in SUMS {
            let parts = if json { *keys } else { *patterns };
            let sum: Option<f64> = parts.iter().map(|part| words.get(*part)).sum();
            check(*metric, sum.map(|sum| sum * factor), 3.0, *factor);
        }
        let seen: Vec<Metric> =
            series.metrics().filter(|metric| series.value(*metric, row).is_some()).collect();
        assert!(seen.iter().all(|metric| known.contains(metric)), "{what}: {seen:?}");
    }
    assert_eq!(compared, said.len(), "{what}: sadf has other samples");
}

/// `sadf -p`: time, item, word and value, of which those of all items were kept.
fn patterns(text: &str) -> BTreeMap<i64, Words> {
    let mut said: BTreeMap<i64, Words> = BTreeMap::new();
    for line in text.lines() {
        let [time, item, word, value] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let word = match (item, word) {
            ("sum", "all" | "intr/s") => "intr/s",
            ("sum", _)
            | (
                "all",
                "MHz" | "total/s" | "dropd/s" | "squeezd/s" | "rx_rps/s" | "flw_lim/s" | "blg_len",
            ) => {
                continue;
            }
            _ => word,
        };
        said.entry(time.parse().unwrap())
            .or_default()
            .insert(word.to_owned(), value.parse().unwrap());
    }
    said
}

#[test]
fn every_value_is_what_the_sadf_of_its_version_printed() {
    for version in versions() {
        let series = read(&fixture(&format!("{version}.xz"))).unwrap();
        let said = patterns(&String::from_utf8(fixture(&format!("{version}.sadf.xz"))).unwrap());
        assert_eq!(said.len(), 5);
        // Before 12.0 the line of all processors is taken as the kernel sums it, three ticks less
        // exact: of 1,000.
        let cpu = if number(&version) < vec![12] { 0.35 } else { 0.0 };
        compare(&version, &series, &said, false, cpu, &[]);
        // Two starts of the collector, of four and three samples, with a comment between them.
        assert_eq!(series.problems, [], "{version}");
        let kinds: Vec<MarkKind> = series.marks.iter().map(|mark| mark.kind.clone()).collect();
        assert_eq!(
            kinds,
            // By its uptime the host itself had been up all along.
            [MarkKind::Restart, MarkKind::Comment("before the change".into()), MarkKind::Resumed],
            "{version}"
        );
        for (sample, expected) in
            series.samples().iter().zip([None, Some(5), Some(5), Some(5), None, Some(5), Some(5)])
        {
            let interval = sample.interval.map(|interval| (interval.as_millis() + 500) / 1000);
            assert_eq!(interval, expected, "{version}");
        }
        for row in 0..series.samples().len() {
            assert_eq!(series.value(Metric::MemTotal, row), Some(MEM_TOTAL), "{version}");
            assert_eq!(series.value(Metric::Processors, row), Some(PROCESSORS), "{version}");
        }
        let head =
            (series.host.as_deref(), series.architecture.as_deref(), series.version.as_deref());
        assert_eq!(head, (Some("db1"), Some("x86_64"), Some(version.as_str())));
        // The files were written with TZ=IST-5:30.
        assert_eq!(series.clock.offset_at(series.samples()[0].at), Some(19_800), "{version}");
    }
}

#[test]
fn what_a_version_does_not_store_is_absent() {
    let has = |version: &str, metric| {
        read(&fixture(&format!("{version}.xz"))).unwrap().column(metric).is_some()
    };
    // The first version here that stores it, and the last that does not.
    for (metric, without, with) in [
        (Metric::HugeTotal, "9.1.5", "9.1.7"),
        (Metric::Blocked, "9.1.5", "9.1.7"),
        (Metric::Active, "9.1.5", "9.1.7"),
        (Metric::Dirty, "9.1.7", "10.1.5"),
        (Metric::PageTables, "11.0.8", "11.1.3"),
        (Metric::MemAvailable, "11.2.13", "11.6.6"),
        (Metric::HugeReserved, "12.0.6", "12.1.1"),
        (Metric::PressureMemoryFull, "12.2.3", "12.4.5"),
        (Metric::Shmem, "12.7.5", "12.7.9"),
        // Not stored, or false on this kernel.
        (Metric::ScanDirect, "11.1.3", "11.2.13"),
        (Metric::Steal, "12.7.5", "12.7.9"),
    ] {
        assert!(!has(without, metric), "{metric:?} {without}");
        assert!(has(with, metric), "{metric:?} {with}");
    }
}

/// Whether this machine has a sadf.
pub(super) fn sadf() -> Result<(), Skip> {
    let said = Command::new("sadf").arg("-V").output();
    said.map(drop).map_err(|_| Skip("sadf (Debian: sysstat) is not installed".into()))
}

/// What `sadf -j -- -A` says of a file.
fn said_of(path: &Path) -> BTreeMap<i64, Words> {
    let output = Command::new("sadf").arg("-j").arg(path).args(["--", "-A"]).output().unwrap();
    let mut said = BTreeMap::new();
    let Ok(json) = serde_json::from_slice::<Value>(&output.stdout) else { return said };
    let Some(samples) = json["sysstat"]["hosts"][0]["statistics"].as_array() else { return said };
    for sample in samples {
        let Some(stamp) = sample["timestamp"].as_object() else { continue };
        let time = seconds(stamp["date"].as_str().unwrap(), stamp["time"].as_str().unwrap());
        let mut words = Words::new();
        flatten(&mut words, "", &sample["cpu-load"][0]);
        for part in
            ["process-and-context-switch", "swap-pages", "paging", "memory", "hugepages", "queue"]
        {
            flatten(&mut words, "", &sample[part]);
        }
        if let Some(passive) = sample["network"]["net-tcp"]["passive"].as_f64() {
            words.insert("passive".into(), passive);
        }
        for part in ["psi-cpu", "psi-io", "psi-mem"] {
            flatten(&mut words, &format!("{part} "), &sample["psi"][part]);
        }
        let sum = sample["interrupts"]
            .as_array()
            .and_then(|all| all.iter().find(|each| each["intr"] == "sum"));
        if let Some(sum) = sum.and_then(|sum| sum["all"].as_f64().or(sum["value"].as_f64())) {
            words.insert("intr".into(), sum);
        }
        said.insert(time, words);
    }
    said
}

fn flatten(words: &mut Words, before: &str, object: &Value) {
    for (key, value) in object.as_object().into_iter().flatten() {
        if let Some(value) = value.as_f64() {
            words.insert(format!("{before}{key}"), value);
        }
    }
}

/// Seconds since the epoch of a date and a time of UTC, by `date`.
fn seconds(date: &str, time: &str) -> i64 {
    let output = Command::new("date")
        .args(["-u", "-d", &format!("{date} {time} UTC"), "+%s"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

pub(super) fn written(folder: &Path, name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::File::create(&path).unwrap().write_all(bytes).unwrap();
    path
}

#[test]
fn every_value_is_what_the_sadf_of_this_machine_prints() {
    require!(sadf());
    let folder = tempfile::tempdir().unwrap();
    let mut read_by_it = 0;
    for version in versions() {
        let bytes = fixture(&format!("{version}.xz"));
        let series = read(&bytes).unwrap();
        let path = written(folder.path(), &version, &bytes);
        let old = number(&version) < vec![11, 7];
        let path = if old {
            let converted = Command::new("sadf").arg("-c").arg(&path).output().unwrap();
            written(folder.path(), "converted", &converted.stdout)
        } else {
            path
        };
        let said = said_of(&path);
        if said.is_empty() || version == "11.7.1" {
            // Too old to be converted, or newer than this sadf, which takes 11.7.1 for what came
            // after it.
            continue;
        }
        read_by_it += 1;
        // It prints 0 for fields that came later, and skips interrupts in the layouts before 12.5:
        // what a version stores is the other test's.
        let spared: Vec<Metric> = if number(&version) < vec![12, 5] {
            Metric::ALL
                .iter()
                .copied()
                .filter(|metric| unlike(series.column(*metric).is_some(), *metric, &said))
                .collect()
        } else {
            Vec::new()
        };
        compare(&version, &series, &said, true, 0.0, &spared);
        if old {
            let converted = read(&std::fs::read(&path).unwrap()).unwrap();
            assert!(converted.problems[0].what.contains("converted"), "{version}");
            for metric in Metric::ALL {
                assert_eq!(
                    converted.column(*metric),
                    series.column(*metric),
                    "{version} {metric:?}"
                );
            }
        }
    }
    assert!(read_by_it >= 12, "{read_by_it}");
}

/// Whether sadf has a word that the series lacks, or lacks one that it has.
fn unlike(has: bool, metric: Metric, said: &BTreeMap<i64, Words>) -> bool {
    let words = said.values().next().unwrap();
    let word = WORDS
        .iter()
        .find(|(_, _, other_metric, _)| *other_metric == metric)
        .map(|(_, key, _, _)| *key);
    word.is_some_and(|word| words.contains_key(word) != has)
}

/// Files that no collector would write on a healthy host, made of one that it did.
#[test]
fn what_is_rare_is_read_as_sadf_reads_it() {
    require!(sadf());
    let folder = tempfile::tempdir().unwrap();
    let whole = File::parse(&fixture("12.6.1.xz"));
    let mut away = whole.clone();
    // A processor is away for two samples.
    for record in [1, 2] {
        away.statistics(record).part(1)[4 + 2 * 80..].fill(0);
    }
    let mut fewer = whole.clone();
    // The items of the last processor are not written at all.
    for record in [1, 2] {
        let part = fewer.statistics(record).part(1);
        part.truncate(4 + 2 * 80);
        part[..4].copy_from_slice(&2_u32.to_le_bytes());
    }
    let mut unknown = whole.clone();
    unknown.add_activity(99, 3, 2, 16);
    let mut extra = whole.clone();
    extra.add_extra();
    let mut moved = whole.clone();
    // Time moves from iowait to idle; then a processor's idle time begins anew.
    moved.statistics(1).change(1, 4 + 80 + 8 * 4, |iowait| iowait - 30);
    moved.statistics(2).change(1, 4 + 2 * 80 + 8 * 3, |_| 400);
    moved.statistics(2).change(1, 4 + 2 * 80 + 8 * 4, |_| 5);
    for (name, file) in
        [("away", away), ("fewer", fewer), ("unknown", unknown), ("extra", extra), ("moved", moved)]
    {
        let bytes = file.bytes();
        let series = read(&bytes).unwrap();
        assert_eq!(series.problems, [], "{name}");
        assert_eq!(series.samples().len(), 7, "{name}");
        let said = said_of(&written(folder.path(), name, &bytes));
        compare(name, &series, &said, true, 0.0, &[]);
        let online = |row| series.value(Metric::Processors, row).unwrap();
        let expected =
            if matches!(name, "away" | "fewer") { [2.0, 1.0, 1.0, 2.0] } else { [2.0; 4] };
        assert_eq!([0, 1, 2, 3].map(online), expected, "{name}");
    }
}
