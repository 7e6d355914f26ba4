//! Incidents that people have told of, with their figures: what an investigation must make of them.

use std::fmt::Write;

use hugewise_investigate::{
    Confidence, HostSetupFacts, IncidentVerdict, InstanceFacts, Moment, PoolFacts, Series,
    SignatureKind, SignatureStrength, readers,
};
use hugewise_model::{Bytes, Engine, PageSize};

use super::made::{
    self, DAY, GIB, Keeps, MIB, MIDNIGHT, Second, every, investigated, says, seen, verdicts, window,
};

/// Time, %user, %system, %iowait, kbmemfree, kbbuffers, kbcached.
type Printed = (&'static str, f64, f64, f64, u64, u64, u64);

/// `sar -u` and `sar -r` of a host of 20,549,012 KiB. Free memory and caches up to 09:30 and around
/// 10:50, %system of the storms and the two late times are as they were told; the rest is made.
const FREEZE: &[Printed] = &[
    ("07:40:01", 16.44, 2.11, 22.21, 231_020, 181_220, 7_160_044),
    ("07:50:01", 23.15, 2.00, 21.53, 225_968, 173_900, 7_151_144),
    ("08:00:01", 30.16, 2.55, 15.87, 206_688, 127_600, 7_084_496),
    ("08:10:01", 32.86, 3.08, 13.77, 214_152, 109_728, 7_055_032),
    ("08:20:01", 27.94, 2.07, 12.00, 209_920, 21_268, 7_056_184),
    ("08:32:50", 25.97, 25.42, 10.73, 86_176, 8_240, 7_040_608),
    ("08:40:02", 14.55, 69.21, 1.86, 1_157_520, 79_096, 7_012_752),
    ("08:50:01", 35.46, 2.99, 10.29, 1_523_808, 158_044, 7_095_076),
    ("09:00:01", 35.82, 2.62, 12.36, 775_916, 187_108, 7_116_308),
    ("09:10:01", 38.15, 2.71, 13.43, 430_100, 218_716, 7_129_248),
    ("09:20:01", 39.20, 2.23, 14.12, 159_700, 239_460, 7_124_080),
    ("09:30:02", 31.86, 3.02, 16.00, 265_184, 126_508, 7_090_432),
    ("09:40:01", 32.63, 2.19, 16.05, 251_300, 126_900, 7_088_120),
    ("09:50:01", 29.56, 2.10, 16.40, 240_016, 120_404, 7_081_900),
    ("10:00:01", 29.32, 3.34, 13.80, 228_212, 101_116, 7_070_004),
    ("10:10:01", 26.97, 2.31, 12.76, 219_480, 88_640, 7_052_318),
    ("10:20:01", 28.11, 2.42, 11.98, 201_776, 52_020, 7_030_912),
    ("10:30:01", 35.40, 3.59, 11.68, 190_260, 30_008, 7_004_380),
    ("10:41:54", 21.57, 44.85, 9.46, 78_588, 4_092, 6_962_732),
    ("10:50:01", 17.54, 66.59, 4.11, 4_787_684, 77_400, 6_878_012),
    ("11:00:01", 39.81, 5.38, 11.07, 2_636_892, 143_780, 6_990_176),
    ("11:10:01", 31.10, 3.21, 10.32, 1_471_236, 186_540, 7_041_712),
    ("11:20:01", 30.20, 2.80, 11.40, 902_144, 190_300, 7_060_020),
];
const FREEZE_TOTAL: u64 = 20_549_012;
const FREEZE_TABLES: u64 = 5_007_924;

/// As sar prints it; with the columns and the table that newer versions have, or without.
fn freeze(newer: bool) -> String {
    let mut text = "Linux 2.6.18-92.el5 (db7) \t11/21/2026 \t_x86_64_\t(16 CPU)\n\n".to_owned();
    let mut table = |heading: &str, line: &dyn Fn(&Printed) -> String| {
        writeln!(text, "07:30:01    {heading}").unwrap();
        for row in FREEZE {
            writeln!(text, "{}    {}", row.0, line(row)).unwrap();
        }
        text.push('\n');
    };
    table("CPU     %user     %nice   %system   %iowait    %steal     %idle", &|(
        _,
        user,
        system,
        iowait,
        ..,
    )| {
        format!(
            "all {user:9.2} 0.00 {system:9.2} {iowait:9.2} 0.00 {:9.2}",
            100.0 - user - system - iowait
        )
    });
    let heading = "kbmemfree kbmemused  %memused kbbuffers  kbcached";
    let memory = |free: u64, buffers: u64, cached: u64| {
        let used = FREEZE_TOTAL - free;
        let share = 100.0 * f64::from(u32::try_from(used).unwrap())
            / f64::from(u32::try_from(FREEZE_TOTAL).unwrap());
        format!("{free} {used} {share:.2} {buffers} {cached}")
    };
    if newer {
        table(&format!("{heading} kbpgtbl"), &|(.., free, buffers, cached)| {
            format!("{} {FREEZE_TABLES}", memory(*free, *buffers, *cached))
        });
        table("kbhugfree kbhugused  %hugused", &|_| "0 0 0.00".to_owned());
    } else {
        table(heading, &|(.., free, buffers, cached)| memory(*free, *buffers, *cached));
    }
    text
}

fn sar(text: &str) -> Vec<Series> {
    let series = readers::read(text.as_bytes(), "sar21").unwrap();
    assert_eq!(
        series.iter().map(|one| (one.samples().len(), one.problems.len())).collect::<Vec<_>>(),
        [(23, 0)]
    );
    series
}

#[test]
fn the_host_that_froze_twice_in_a_morning() {
    let history = investigated(sar(&freeze(true)));
    assert_eq!(
        verdicts(&history),
        [IncidentVerdict::ReclaimByPageTables; 2],
        "{:#?}",
        history.incidents
    );
    let [first, second] = &history.incidents[..] else { unreachable!() };
    assert_eq!(window(first), ("08:20:01".into(), "08:40:02".into()));
    assert_eq!(window(second), ("10:30:01".into(), "10:50:01".into()));
    // Nobody counted scans: what is seen agrees, and proves nothing.
    assert_eq!([first.confidence, second.confidence], [Confidence::Medium; 2]);
    says(
        &first.summary,
        &[
            "consistent with a reclaim storm driven by page tables",
            "24 % of memory was page tables (4.8 GiB of 19.6 GiB)",
            "huge pages were not configured",
            "%system rose from 3 to 69",
            "free memory leapt from 84.2 MiB to 1.1 GiB",
            "169 s late",
        ],
    );
    says(
        &second.summary,
        &["%system rose from 3 to 67", "free memory leapt from 76.7 MiB to 4.6 GiB", "113 s late"],
    );
    for incident in [first, second] {
        let kinds: Vec<SignatureKind> =
            incident.signatures.iter().map(|signature| signature.kind).collect();
        assert_eq!(
            kinds,
            [
                SignatureKind::KernelCpu,
                SignatureKind::FreeMemory,
                SignatureKind::PageTables,
                SignatureKind::Pool,
                SignatureKind::Starved
            ]
        );
        says(&incident.raised_by.join("\n"), &["scans by kswapd", "an average over 600 s"]);
        says(&incident.next.join("\n"), &["hugewise size", "hugewise plan", "every minute"]);
        assert_eq!(incident.against, [""; 0]);
    }
    assert_eq!(history.signatures, []);
    says(
        &history.unknown.join("\n"),
        &["compaction", "no source counts the pages that the kernel scanned", "shorter than 60 s"],
    );
}

#[test]
fn the_same_host_whose_sar_has_no_page_tables() {
    let history = investigated(sar(&freeze(false)));
    assert_eq!(verdicts(&history), [IncidentVerdict::ReclaimStorm; 2]);
    for incident in &history.incidents {
        assert_eq!(incident.confidence, Confidence::Medium);
        says(&incident.summary, &["consistent with a reclaim storm", "free memory leapt"]);
        says(&incident.raised_by.join("\n"), &["the size of page tables"]);
        assert!(!incident.summary.contains("page tables"), "{}", incident.summary);
    }
    says(&history.unknown.join("\n"), &["page tables: sar prints them with -r ALL", "the pool"]);
}

#[test]
fn one_reading_of_meminfo_beside_it_tells_what_took_the_memory() {
    let meminfo = format!(
        "Sat Nov 21 12:05:00 UTC 2026\nMemTotal: {FREEZE_TOTAL} kB\nMemFree: 236668 kB\nBuffers: \
             77800 kB\n\
         Cached: 7189572 kB\nPageTables: {FREEZE_TABLES} kB\nHugePages_Total: 0\nHugePages_Free: \
             0\nHugePages_Rsvd: 0\n\
         Hugepagesize: 2048 kB\n"
    );
    let mut series = sar(&freeze(false));
    series.extend(readers::read(meminfo.as_bytes(), "meminfo.log").unwrap());
    let history = investigated(series);
    assert_eq!(
        verdicts(&history),
        [IncidentVerdict::ReclaimByPageTables; 2],
        "{:#?}",
        history.incidents
    );
    for incident in &history.incidents {
        assert_eq!(incident.confidence, Confidence::Medium);
        says(
            &incident.summary,
            &["24 % of memory was page tables", "read at another time", "not configured"],
        );
        says(&incident.raised_by.join("\n"), &["the size of page tables at that time"]);
    }
}

/// Two hosts of which only readings of /proc/meminfo were told: 444 sessions on 8 GB, and some 400
/// on 34 GB.
#[test]
fn hosts_whose_page_tables_are_large_all_day() {
    for (total, free, tables, part, amounts) in [
        (16_387_608_u64, 105_176_u64, 1_591_860_u64, "10 %", "1.5 GiB of 15.6 GiB"),
        (132_102_884, 596_308, 12_023_792, "9 %", "11.5 GiB of 126.0 GiB"),
    ] {
        let mut log = String::new();
        for minute in 0..180 {
            let wave = |place: u64| (place + minute) % 7 * 64;
            let (hour, minute) = (9 + minute / 60, minute % 60);
            write!(
                log,
                "2026-11-21 {hour:02}:{minute:02}:00\nMemTotal: {total} kB\nMemFree: {} \
                     kB\nPageTables: {} kB\n\
                 HugePages_Total: 0\nHugePages_Free: 0\nHugePages_Rsvd: 0\nHugepagesize: 2048 kB\n",
                free + wave(0),
                tables - wave(3),
            )
            .unwrap();
        }
        let history = investigated(readers::read(log.as_bytes(), "meminfo.log").unwrap());
        assert_eq!(verdicts(&history), [IncidentVerdict::PageTablesStanding]);
        let incident = &history.incidents[0];
        assert_eq!(window(incident), ("09:00:00".into(), "11:59:00".into()));
        assert_eq!(incident.confidence, Confidence::High);
        says(&incident.summary, &[part, amounts, "huge pages were not configured"]);
        says(&incident.next.join("\n"), &["hugewise size", "hugewise plan"]);
        // One reading says so too, and is less.
        let one: String = log.lines().take(8).flat_map(|line| [line, "\n"]).collect();
        let history = investigated(readers::read(one.as_bytes(), "meminfo.log").unwrap());
        assert_eq!(verdicts(&history), [IncidentVerdict::PageTablesStanding]);
        assert_eq!(history.incidents[0].confidence, Confidence::Medium);
    }
}

/// The second of them as a sosreport: sar of RHEL 7, which has no page tables, and what was read
/// when it was made.
#[test]
fn a_capture_tells_what_its_collector_could_not() {
    let calm = |second| Second {
        system: 3.0 + made::noise(3, second, 1),
        free: 0.6 * GIB + 20.0 * MIB * made::noise(3, second, 2),
        tasks: 900.0,
        ..Second::default()
    };
    let old = Keeps { tables: false, total: 126.0 * GIB, ..Keeps::default() };
    let collected = || {
        let mut series = seen(&calm, &every(600, 0, DAY), old);
        series.version = Some("10.1.5".to_owned());
        vec![series]
    };
    let oracle = InstanceFacts {
        engine: Engine::Oracle,
        name: "PROD".to_owned(),
        processes: true,
        sessions: Some(400),
        most_sessions: Some(1000),
        segments: Bytes::from_gib(34),
        huge: Bytes::ZERO,
        page_tables: None,
    };
    let facts = HostSetupFacts {
        source: "sosreport-db7.tar.xz".to_owned(),
        at: Some(Moment::from_seconds(MIDNIGHT + 50_000)),
        memory: Some(Bytes::from_kib(132_102_884)),
        page_tables: Some(Bytes::from_kib(12_023_792)),
        pools: Some(vec![PoolFacts {
            page: PageSize::MIB_2,
            total: Some(0),
            free: Some(0),
            reserved: Some(0),
        }]),
        instances: Some(vec![oracle]),
        ..HostSetupFacts::default()
    };
    let history = made::investigated_with(collected(), Some(facts));
    assert_eq!(verdicts(&history), [IncidentVerdict::PageTablesStanding]);
    let incident = &history.incidents[0];
    assert_eq!(incident.confidence, Confidence::Medium);
    says(
        &incident.summary,
        &["9 % of memory was page tables (11.5 GiB of 126.0 GiB)", "not configured"],
    );
    says(&incident.next.join("\n"), &["hugewise size --root sosreport-db7.tar.xz"]);
    says(&history.unknown.join("\n"), &["page tables over time: they were read once"]);
    assert_eq!(verdicts(&investigated(collected())), []);
}

/// 25 web servers with 25 connections each come up at once, on 4 processors and 16 GB with a
/// segment of 5 GB: a login takes 2.5 s of a processor and 10 MiB of page tables, 625 of them 390
/// s.
pub(crate) fn web_farm(second: i64, start: i64, huge_pages: bool) -> Second {
    // With huge pages the load was 1: one processor was enough.
    let length = if huge_pages { 625.0 * 0.15 } else { 625.0 * 2.5 / 4.0 };
    let (table, pool) = if huge_pages { (0.2 * MIB, 5.5 * GIB) } else { (10.0 * MIB, 0.0) };
    let (user, system, queue) = if huge_pages { (10.0, 15.0, 1.0) } else { (15.0, 78.0, 110.0) };
    let passed = f64::from(i32::try_from(second - start).unwrap());
    let busy = passed > 0.0 && passed <= length;
    let came = (passed / length).clamp(0.0, 1.0) * 625.0;
    let wave = made::noise(7, second, 1);
    Second {
        user: 3.0 + wave + if busy { user } else { 0.0 },
        system: 1.5 + 0.5 * wave + if busy { system } else { 0.0 },
        forks: 1.5 + if busy { 625.0 / length } else { 0.0 },
        accepted: 0.1 + if busy { 625.0 / length * 1.5 } else { 0.0 },
        free: 7.5 * GIB - came * table,
        cached: 6.0 * GIB,
        tables: 60.0 * MIB + came * table,
        tasks: 240.0 + 3.0 * wave + came,
        queue: if busy { queue } else { 0.0 },
        pool,
        pool_free: pool * 0.08,
        ..Second::default()
    }
}

#[test]
fn the_web_farm_that_logged_in_at_once() {
    let start = 14 * 3600 + 1800;
    for (interval, from, to) in [(60, "14:30:01", "14:37:01"), (600, "14:30:01", "14:40:01")] {
        let host = |second| web_farm(second, start, false);
        let history = investigated(vec![seen(
            &host,
            &every(interval, 8 * 3600, 20 * 3600),
            Keeps::default(),
        )]);
        assert_eq!(verdicts(&history), [IncidentVerdict::LoginStorm], "{:#?}", history.incidents);
        let incident = &history.incidents[0];
        assert_eq!(window(incident), (from.into(), to.into()));
        assert_eq!(incident.confidence, Confidence::High);
        says(
            &incident.summary,
            &[
                "login storm",
                "page tables grew from",
                "to 6.2 GiB",
                "MiB a task",
                "huge pages were not configured",
            ],
        );
        says(&incident.summary, &["%system rose from 2 to", "tasks went from 2", "to 86"]);
        says(&incident.raised_by.join("\n"), &["the number of sessions"]);
        says(&incident.next.join("\n"), &["hugewise size", "hugewise plan"]);
        // With huge pages the farm comes up in a minute and a half, and nothing happened.
        let host = |second| web_farm(second, start, true);
        let history = investigated(vec![seen(
            &host,
            &every(interval, 8 * 3600, 20 * 3600),
            Keeps::default(),
        )]);
        assert_eq!(verdicts(&history), []);
    }
}

/// 10 GiB of shared memory that each session touches whole: 20 MiB of page tables a session.
#[test]
fn page_tables_that_grow_with_sessions_tell_the_segment() {
    let mut log = String::new();
    for minute in 0..480_i64 {
        let sessions = 150 + 140 * (240 - (minute - 240).abs()) / 240;
        let (hour, minute) = (9 + minute / 60, minute % 60);
        write!(
            log,
            "2026-11-21 {hour:02}:{minute:02}:00\nMemTotal: 67108864 kB\nMemFree: 9000000 \
                 kB\nShmem: 10485760 kB\n\
             PageTables: {} kB\n",
            90_000 + sessions * 20_500
        )
        .unwrap();
    }
    let mut series = readers::read(log.as_bytes(), "meminfo.log").unwrap();
    for row in 0..480 {
        let minute = i64::try_from(row).unwrap();
        let sessions = 150 + 140 * (240 - (minute - 240).abs()) / 240;
        series[0].set_at(
            row,
            hugewise_investigate::Metric::Sessions,
            f64::from(i32::try_from(sessions).unwrap()),
        );
    }
    let history = investigated(series);
    assert_eq!(verdicts(&history), [IncidentVerdict::PageTablesStanding]);
    // 20,500 KiB, which map 10,250 MiB of the 10,240 that there are.
    says(
        &history.incidents[0].summary,
        &["20.0 MiB a session", "10.0 GiB of memory on 4 KiB pages", "each touched about 100 %"],
    );
}

/// The main loop of a watcher wrote its last date at 05:37:08, and the next at 06:04; another
/// collector was late too.
#[test]
fn a_loop_that_did_not_come_round() {
    let mut moments: Vec<i64> =
        (0..1200).map(|row| 3600 + row * 30).filter(|at| !(20_228..21_840).contains(at)).collect();
    moments.push(20_228);
    moments.sort_unstable();
    let calm = |second: i64| Second {
        system: 2.0 + made::noise(3, second, 1),
        free: 2.0 * GIB,
        tables: 60.0 * MIB,
        tasks: 1077.0,
        ..Second::default()
    };
    let all = seen(&calm, &moments, Keeps::default());
    let mut log = Series::new(
        "oswmeminfo",
        hugewise_investigate::SourceFormat::OsWatcher(hugewise_investigate::CollectedTool::Meminfo),
    );
    for (row, sample) in all.samples().iter().enumerate() {
        log.push(sample.at, sample.interval);
        log.set_value(
            hugewise_investigate::Metric::MemFree,
            all.value(hugewise_investigate::Metric::MemFree, row).unwrap(),
        );
    }
    let alone = investigated(vec![log.clone()]);
    // 27 minutes of silence are an incident by themselves.
    assert_eq!(verdicts(&alone), [IncidentVerdict::Starved]);
    says(
        &alone.incidents[0].summary,
        &["nothing was written for 26 minutes more than usual: the host stood still"],
    );
    let starved: Vec<_> = alone.incidents[0]
        .signatures
        .iter()
        .filter(|one| one.kind == SignatureKind::Starved)
        .collect();
    assert_eq!(starved.len(), 1);
    assert_eq!(starved[0].strength, SignatureStrength::Strong);
    says(&starved[0].evidence[0].what, &["the loop itself stalled"]);
    assert_eq!(starved[0].from, Moment::from_seconds(MIDNIGHT + 20_228));
    let mut scheduled = every(600, 0, DAY);
    scheduled.iter_mut().filter(|at| **at == 20_401).for_each(|at| *at += 212);
    let history = investigated(vec![log, seen(&calm, &scheduled, Keeps::default())]);
    assert_eq!(verdicts(&history), [IncidentVerdict::Starved]);
    says(&history.incidents[0].summary, &["no source says why", "26 minutes more than usual"]);
    assert_eq!(history.incidents[0].confidence, Confidence::Low);
}
