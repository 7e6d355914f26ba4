//! Each kind of trouble by itself, what speaks against it, and what must not be taken for it.

use std::time::Duration;

use hugewise_investigate::{
    Confidence, IncidentHistory, IncidentVerdict, Metric, Moment, Series, SignatureKind,
    SignatureStrength, SourceFormat, readers,
};

use super::made::{
    DAY, GIB, Keeps, MIB, MIDNIGHT, Second, every, investigated, noise, says, seen, started,
    verdicts,
};

const NOON: i64 = 12 * 3600;

fn calm(second: i64) -> Second {
    Second {
        user: 20.0 + 3.0 * noise(5, second, 1),
        system: 2.0 + 0.5 * noise(5, second, 2),
        free: 3.0 * GIB,
        tables: 48.0 * MIB,
        tasks: 400.0,
        ..Second::default()
    }
}

fn at_noon(change: impl Fn(Second) -> Second) -> impl Fn(i64) -> Second {
    move |second| {
        if (NOON..NOON + 900).contains(&second) { change(calm(second)) } else { calm(second) }
    }
}

fn day(host: &dyn Fn(i64) -> Second) -> IncidentHistory {
    investigated(vec![seen(host, &every(60, NOON - 6 * 3600, NOON + 6 * 3600), Keeps::default())])
}

fn kinds(history: &IncidentHistory) -> Vec<(SignatureKind, SignatureStrength)> {
    history.signatures.iter().map(|signature| (signature.kind, signature.strength)).collect()
}

#[test]
fn a_kernel_that_is_busy_with_nothing_known() {
    let history = day(&at_noon(|calm| Second { system: 80.0, ..calm }));
    assert_eq!(verdicts(&history), [IncidentVerdict::KernelCpu]);
    let incident = &history.incidents[0];
    assert_eq!(incident.confidence, Confidence::Low);
    says(&incident.summary, &["no source says with what", "%system rose from 2 to 80"]);
    // Scans were counted, and are none.
    says(&incident.against.join("\n"), &["it was not reclaim"]);
    says(&incident.raised_by.join("\n"), &["perf record"]);
    let evidence = &incident.signatures[0].evidence;
    assert!(
        evidence.iter().any(|row| row.what.starts_with("%system 80.0, %user ")
            && row.what.ends_with("usual here 2.0"))
    );
}

#[test]
fn pressure_that_was_counted_makes_it_sure() {
    let storm = |calm| Second {
        system: 75.0,
        user: 5.0,
        direct: 50_000.0,
        kswapd: 80_000.0,
        free: 0.08 * GIB,
        ..calm
    };
    let history = day(&at_noon(storm));
    assert_eq!(verdicts(&history), [IncidentVerdict::ReclaimStorm]);
    let incident = &history.incidents[0];
    assert_eq!((incident.confidence, &incident.against[..]), (Confidence::High, &[][..]));
    // 50,000 pages of 4 KiB.
    says(
        &incident.summary,
        &["reclaim storm: ", "195.3 MiB a second", "free memory leapt from 81.9 MiB to 3.0 GiB"],
    );
    assert!(!incident.summary.contains("consistent"));
    assert_eq!(incident.raised_by, [""; 0]);
    assert_eq!(incident.from, Moment::from_seconds(MIDNIGHT + NOON + 1 - 60));
}

#[test]
fn page_tables_in_a_storm_although_the_pool_is_used() {
    let tables = |calm| Second { tables: 2.0 * GIB, pool: 4.0 * GIB, pool_free: 0.1 * GIB, ..calm };
    let storm = at_noon(|calm| Second {
        system: 75.0,
        user: 5.0,
        direct: 50_000.0,
        kswapd: 80_000.0,
        free: 0.08 * GIB,
        ..calm
    });
    let history = day(&|second| tables(storm(second)));
    assert_eq!(verdicts(&history), [IncidentVerdict::ReclaimByPageTables]);
    says(
        &history.incidents[0].summary,
        &["12 % of memory was page tables", "the pool of 4.0 GiB was used"],
    );
    says(
        &history.incidents[0].against.join("\n"),
        &["these page tables map other memory, or other memory too"],
    );
}

#[test]
fn swap_that_comes_back_is_a_storm_and_what_stays_out_is_not() {
    // What goes out was scanned before, by kswapd or by whoever lacked memory.
    let storm = |calm| Second {
        system: 25.0,
        iowait: 50.0,
        swap_out: 9000.0,
        swap_in: 8000.0,
        kswapd: 12_000.0,
        ..calm
    };
    let history = day(&at_noon(storm));
    assert_eq!(verdicts(&history), [IncidentVerdict::SwapStorm]);
    says(&history.incidents[0].summary, &["35.2 MiB a second went to swap and 31.2 MiB came back"]);
    let history = day(&at_noon(|calm| Second { swap_out: 3000.0, ..calm }));
    assert_eq!(verdicts(&history), []);
    assert_eq!(kinds(&history), [(SignatureKind::Swap, SignatureStrength::Weak)]);
    says(&history.signatures[0].caveats.join("\n"), &["did not come back"]);
}

#[test]
fn a_pool_that_nobody_uses_is_told_and_one_that_is_used_is_not() {
    let pool =
        |free: f64| move |second| Second { pool: 8.0 * GIB, pool_free: free * GIB, ..calm(second) };
    let unused = seen(&pool(7.5), &every(600, 0, DAY), Keeps::default());
    let history = investigated(vec![unused]);
    assert_eq!(verdicts(&history), [IncidentVerdict::PoolUnused]);
    says(&history.incidents[0].summary, &["of a pool of 8.0 GiB went 7.5 GiB unused"]);
    says(&history.incidents[0].next.join("\n"), &["hugewise verify"]);
    assert_eq!(history.incidents[0].confidence, Confidence::High);
    assert_eq!(
        verdicts(&investigated(vec![seen(&pool(0.5), &every(600, 0, DAY), Keeps::default())])),
        []
    );
    // A server that is down for an hour leaves its pool.
    let restarted =
        |second: i64| pool(if (NOON..NOON + 3600).contains(&second) { 8.0 } else { 0.5 })(second);
    assert_eq!(
        verdicts(&investigated(vec![seen(&restarted, &every(600, 0, DAY), Keeps::default())])),
        []
    );
}

/// A database on 4 KiB pages beside the pool that was made for it.
#[test]
fn an_unused_pool_with_large_page_tables_is_one_finding() {
    let host = |second| Second {
        pool: 4.0 * GIB,
        pool_free: 4.0 * GIB,
        tables: 1.6 * GIB,
        ..calm(second)
    };
    let history = investigated(vec![seen(&host, &every(600, 0, DAY), Keeps::default())]);
    assert_eq!(verdicts(&history), [IncidentVerdict::PageTablesStanding]);
    let incident = &history.incidents[0];
    says(
        &incident.summary,
        &[
            "10 % of memory was page tables (1.6 GiB of 16.0 GiB)",
            "of a pool of 4.0 GiB went 4.0 GiB unused",
        ],
    );
    let kinds: Vec<_> =
        incident.signatures.iter().map(|signature| (signature.kind, signature.strength)).collect();
    assert_eq!(
        kinds,
        [
            (SignatureKind::PageTables, SignatureStrength::Strong),
            (SignatureKind::Pool, SignatureStrength::Strong)
        ]
    );
    says(&incident.next.join("\n"), &["let its servers use the pool"]);
}

#[test]
fn three_samples_say_nothing_and_it_is_said() {
    let storm =
        |second: i64| Second { system: if second > 1500 { 90.0 } else { 2.0 }, ..calm(second) };
    let history = investigated(vec![seen(&storm, &[1, 601, 1201, 1801], Keeps::default())]);
    assert_eq!((history.incidents.len(), history.signatures.len()), (0, 0));
    says(&history.unknown.join("\n"), &["4 samples are too few to tell what is usual"]);
    assert_eq!(
        verdicts(&investigated(vec![Series::new(
            "empty",
            hugewise_investigate::SourceFormat::SYSSTAT
        )])),
        []
    );
}

/// What is pasted into a ticket is of the trouble: a few rows, or a table that begins with it.
#[test]
fn trouble_is_told_where_nothing_tells_what_is_usual() {
    let storm = |from: i64| {
        move |second: i64| {
            if second > from {
                Second { system: 92.0, user: 4.0, ..calm(second) }
            } else {
                calm(second)
            }
        }
    };
    let rows = |count: i64| (0..count).map(|row| 1 + 10 * row).collect::<Vec<i64>>();
    // Of 40 rows the last 20; of 5 rows the last 3; all of 30 rows.
    for (count, from) in [(40, 191), (5, 11), (30, 0)] {
        let history = investigated(vec![seen(&storm(from), &rows(count), Keeps::default())]);
        assert_eq!(
            verdicts(&history),
            [IncidentVerdict::KernelCpu],
            "{count} rows: {:#?}",
            history.incidents
        );
        let [incident] = &history.incidents[..] else { unreachable!() };
        assert_eq!(incident.confidence, Confidence::Low);
        says(&incident.summary, &["no source says with what: %system was up to 92"]);
        says(&format!("{:?}", incident.signatures), &["what is usual here is not known"]);
    }
    let calm = investigated(vec![seen(&calm, &rows(5), Keeps::default())]);
    assert_eq!(verdicts(&calm), []);
}

#[test]
fn what_is_looked_at_and_what_cannot_be_told() {
    let old = Keeps { scans: false, tables: false, ..Keeps::default() };
    let mut series = seen(&calm, &every(600, 0, DAY), old);
    series.version = Some("10.1.5".to_owned());
    let history = investigated(vec![series]);
    assert_eq!(verdicts(&history), []);
    assert_eq!(
        history.looked,
        ["/var/log/sa/sa21 (sysstat): 143 samples, usually 600 s apart: time in the kernel, \
                 free memory, the pool, logins, swap, the collector's own pace"]
    );
    says(
        &history.unknown.join("\n"),
        &[
            "scan_direct_per_second cannot be trusted: sysstat 11.1.5 writes 0",
            "sysstat 10.1.5 has none of them",
            "other page sizes",
            "sar never",
            "600 s apart: anything shorter than 60 s may not show",
        ],
    );
}

/// A sosreport has a dozen logs and more that say nothing of memory.
#[test]
fn logs_that_say_nothing_share_a_line() {
    let log = |number: i64| {
        let mut log = Series::new(format!("log{number}"), SourceFormat::SystemLog);
        log.covered = Some((Moment(number), Moment(number + 1000)));
        log
    };
    let told = |count: i64| investigated((0..count).map(log).collect()).looked;
    assert_eq!(
        told(17),
        ["17 logs (system log): nothing in them of memory, hung tasks, or servers that start and \
              stop"]
    );
    assert_eq!(told(2).len(), 2);
}

#[test]
fn a_single_sample_has_no_pace() {
    let one = investigated(vec![seen(&calm, &[1], Keeps::default())]);
    says(&one.looked[0], &["(sysstat): 1 sample: "]);
    says(&one.unknown.join("\n"), &["1 sample is too few"]);
}

#[test]
fn a_sample_is_late_by_its_schedule_not_by_its_interval() {
    let late = |by: i64| {
        let mut moments = every(600, 0, DAY);
        moments.iter_mut().filter(|at| **at == NOON + 1).for_each(|at| *at += by);
        // As cron does.
        moments.iter_mut().enumerate().for_each(|(row, at)| *at += i64::try_from(row % 3).unwrap());
        kinds(&investigated(vec![seen(&calm, &moments, Keeps::default())]))
    };
    assert_eq!(late(0), []);
    assert_eq!(late(9), []);
    assert_eq!(late(30), [(SignatureKind::Starved, SignatureStrength::Weak)]);
    // 1.28 intervals are no hole.
    assert_eq!(late(169), [(SignatureKind::Starved, SignatureStrength::Clear)]);
    assert_eq!(late(450), [(SignatureKind::Starved, SignatureStrength::Clear)]);
}

#[test]
fn days_that_were_printed_one_by_one_have_no_hole_at_midnight() {
    let day = |date: &str| {
        let mut text = format!(
            "Linux 5.14.0 (db1) \t{date} \t_x86_64_\t(4 CPU)\n\n00:00:01  CPU %user %nice %system \
                 %iowait %steal %idle\n"
        );
        for slot in 1..143 {
            text += &format!(
                "{:02}:{:02}:01  all 10.00 0.00 2.00 1.00 0.00 87.00\n",
                slot / 6,
                slot % 6 * 10
            );
        }
        text
    };
    let series =
        readers::read(format!("{}\n{}", day("11/20/26"), day("11/21/26")).as_bytes(), "sar")
            .unwrap();
    let history = investigated(series);
    assert_eq!((kinds(&history), verdicts(&history)), (vec![], vec![]));
}

#[test]
fn a_host_that_was_down_starves_nobody() {
    let before = every(60, NOON - 7200, NOON);
    let behind = every(60, NOON + 720, NOON + 7200);
    let mut series = seen(&calm, &before, Keeps::default());
    series.append(started(seen(&calm, &behind, Keeps::default()), NOON + 710));
    let history = investigated(vec![series]);
    assert_eq!(kinds(&history), [(SignatureKind::Restart, SignatureStrength::Clear)]);
    assert_eq!(verdicts(&history), []);
}

/// `vmstat 1 3` every half minute in a loop: two seconds stand for the round.
#[test]
fn what_a_watcher_saw_in_two_seconds_stands_for_its_round() {
    let mut vmstat = Series::new(
        "db1_vmstat",
        hugewise_investigate::SourceFormat::OsWatcher(hugewise_investigate::CollectedTool::Vmstat),
    );
    let mut meminfo = Series::new(
        "db1_meminfo",
        hugewise_investigate::SourceFormat::OsWatcher(hugewise_investigate::CollectedTool::Meminfo),
    );
    for row in 0..240 {
        let storm = (120..130).contains(&row);
        // The loop takes a little longer each time than it sleeps.
        let at = Moment::from_seconds(MIDNIGHT + row * 31 + if row >= 125 { 200 } else { 0 });
        let passed = if row == 125 { 231 } else { 31 };
        vmstat.push(at, Some(Duration::from_secs(2)));
        vmstat.set_value(Metric::CpuSystem, if storm { 85.0 } else { 3.0 });
        vmstat.set_value(Metric::CpuUser, 10.0);
        meminfo.push(at, Some(Duration::from_secs(passed)));
        meminfo.set_value(Metric::MemTotal, 64.0 * GIB);
        meminfo.set_value(Metric::MemFree, if storm { 0.07 * GIB } else { 4.0 * GIB });
        meminfo.set_value(Metric::PageTables, 7.0 * GIB);
    }
    let history = investigated(vec![vmstat, meminfo]);
    assert_eq!(verdicts(&history), [IncidentVerdict::ReclaimByPageTables]);
    let incident = &history.incidents[0];
    assert_eq!(incident.confidence, Confidence::Medium);
    says(
        &incident.summary,
        &[
            "consistent with",
            "11 % of memory was page tables",
            "%system rose from 3 to 85",
            "200 s late",
        ],
    );
    let starved =
        incident.signatures.iter().find(|one| one.kind == SignatureKind::Starved).unwrap();
    // Two collectors of their own.
    assert_eq!(starved.strength, SignatureStrength::Strong);
}

#[test]
fn compaction_is_told_where_it_was_counted() {
    let storm = at_noon(|calm| Second { system: 60.0, compacted: 700.0, ..calm });
    let keeps = Keeps { compaction: true, ..Keeps::default() };
    let history =
        investigated(vec![seen(&storm, &every(60, NOON - 6 * 3600, NOON + 6 * 3600), keeps)]);
    assert_eq!(verdicts(&history), [IncidentVerdict::CompactionStall]);
    assert!(history.unknown.iter().all(|one| !one.contains("compaction")), "{:?}", history.unknown);
}

#[test]
fn log_outs_count_too() {
    // 300 sessions go within a minute, with nine tenths of the processors in the kernel for ten
    // seconds.
    let host = |second: i64| {
        let gone = (f64::from(i32::try_from(second - NOON).unwrap()) / 10.0).clamp(0.0, 1.0);
        let busy = gone > 0.0 && gone <= 1.0 && second < NOON + 11;
        Second {
            system: if busy { 90.0 } else { 2.0 },
            tasks: 700.0 - 300.0 * gone,
            tables: (3.5 - 3.0 * gone) * GIB,
            ..calm(second)
        }
    };
    let history =
        investigated(vec![seen(&host, &every(5, NOON - 3600, NOON + 3600), Keeps::default())]);
    assert_eq!(
        verdicts(&history).first(),
        Some(&IncidentVerdict::LoginStorm),
        "{:#?}",
        history.signatures
    );
    says(
        &history.incidents[0].summary,
        &["tasks went from 700 to 400", "page tables shrank from 3.5 GiB to"],
    );
}

/// A loop that misses two rounds while a few clients connect to a host that is idle, as public
/// archives have it.
#[test]
fn a_late_collector_on_an_idle_host_makes_no_storm_of_a_few_connections() {
    let host = |user: f64| {
        move |second: i64| Second {
            user,
            accepted: if (NOON..NOON + 183).contains(&second) { 3.7 } else { 0.0 },
            ..calm(second)
        }
    };
    // Rounds of 61 s keep no schedule; of those within the three minutes the first two did not
    // come.
    let moments: Vec<i64> = (-100..100)
        .filter(|round| !(1..=2).contains(round))
        .map(|round| NOON + round * 61)
        .collect();
    let idle = investigated(vec![seen(&host(8.0), &moments, Keeps::default())]);
    assert_eq!(verdicts(&idle), [], "{:#?}", idle.incidents);
    assert!(
        kinds(&idle).contains(&(SignatureKind::Starved, SignatureStrength::Clear)),
        "{:?}",
        kinds(&idle)
    );
    // Where nobody had a processor to spare, it is told.
    let busy = investigated(vec![seen(&host(90.0), &moments, Keeps::default())]);
    assert_eq!(verdicts(&busy), [IncidentVerdict::LoginStorm]);
}
