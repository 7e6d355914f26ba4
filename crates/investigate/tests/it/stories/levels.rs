//! Trouble that stands, so that nothing in the archive stands out; trouble that grew for hours; and
//! grave trouble beside what is louder.

use std::time::Duration;

use hugewise_investigate::{
    CollectedTool, Confidence, IncidentHistory, IncidentVerdict, Metric, Moment, Series,
    SourceFormat,
};

use super::made::{
    GIB, Keeps, MIB, MIDNIGHT, Second, every, investigated, noise, says, seen, started, verdicts,
    window,
};

const NOON: i64 = 12 * 3600;

/// A guest whose programs and kernel always have all of its processors between them.
fn busy(second: i64) -> Second {
    let system = 40.0 + 15.0 * noise(9, second, 1);
    Second {
        user: 98.0 - system,
        system,
        free: 6.0 * GIB,
        cached: 4.0 * GIB,
        tables: 48.0 * MIB,
        tasks: 400.0,
        queue: 6.0,
        ..Second::default()
    }
}

#[test]
fn three_minutes_of_the_kernel_alone_on_a_host_that_is_always_busy() {
    let host = |second: i64| match second - NOON {
        0..180 => {
            let system = 96.5 + 2.5 * noise(9, second, 2);
            Second { system, user: 99.5 - system, ..busy(second) }
        }
        _ => busy(second),
    };
    for interval in [1, 10, 60] {
        let history = investigated(vec![seen(
            &host,
            &every(interval, NOON - 3600, NOON + 3600),
            Keeps::default(),
        )]);
        assert_eq!(verdicts(&history), [IncidentVerdict::KernelCpu], "{interval}");
        says(&history.incidents[0].summary, &["%system rose from 4", "to 9"]);
    }
    let peace = investigated(vec![seen(&busy, &every(10, NOON - 3600, NOON), Keeps::default())]);
    assert_eq!(verdicts(&peace), []);
}

/// A host of 31 GiB as top shows it every half minute, with threads of the kernel.
fn tops(values: &[(Metric, f64)]) -> IncidentHistory {
    let mut series = Series::new("top.log", SourceFormat::Loop(CollectedTool::Top));
    for row in 0..24 {
        let at = Moment::from_seconds(MIDNIGHT + row * 30);
        series.push(at, (row > 0).then(|| Duration::from_secs(30)));
        for (metric, value) in [
            (Metric::CpuUser, 6.4),
            (Metric::CpuSystem, 25.7),
            (Metric::CpuIdle, 60.0),
            (Metric::CpuIowait, 7.9),
            (Metric::Load1, 679.0),
            (Metric::MemTotal, 31.0 * GIB),
            (Metric::MemFree, 0.2 * GIB),
        ] {
            series.set_value(metric, value);
        }
        values.iter().for_each(|(metric, value)| series.set_value(*metric, *value));
    }
    investigated(vec![series.finish()])
}

#[test]
fn threads_of_the_kernel_that_take_a_processor_in_every_top() {
    let both = tops(&[
        (Metric::MemAvailable, 26.0 * GIB),
        (Metric::KhugepagedCpu, 100.0),
        (Metric::KswapdCpu, 100.0),
    ]);
    assert_eq!(verdicts(&both), [IncidentVerdict::CompactionStall], "{:#?}", both.signatures);
    says(
        &both.incidents[0].summary,
        &[
            "khugepaged took 100 % of a processor, kswapd 100 % of a processor",
            "the load average was up to 679",
        ],
    );
    let short = tops(&[(Metric::MemAvailable, 0.3 * GIB), (Metric::KswapdCpu, 99.0)]);
    assert_eq!(verdicts(&short), [IncidentVerdict::ReclaimStorm]);
    says(&short.incidents[0].summary, &["kswapd took 99 % of a processor"]);
    // A backup that is read through the page cache keeps kswapd as busy.
    let backup = tops(&[(Metric::MemAvailable, 26.0 * GIB), (Metric::KswapdCpu, 99.0)]);
    assert_eq!(verdicts(&backup), []);
    let calm = tops(&[(Metric::MemAvailable, 26.0 * GIB), (Metric::KhugepagedCpu, 3.0)]);
    assert_eq!(verdicts(&calm), []);
}

/// sar -q ALL and sar -b of a host whose tasks waited for disks in 40 to 83 % of the time, all day.
fn pressed(blocked: f64, moved: f64) -> IncidentHistory {
    let mut series = Series::new("sa21", SourceFormat::SYSSTAT);
    for row in 0..144 {
        let at = Moment::from_seconds(MIDNIGHT + row * 600);
        series.push(at, (row > 0).then(|| Duration::from_secs(600)));
        let full = 61.0 + 21.0 * noise(3, row, 1);
        for (metric, value) in [
            (Metric::PressureIoFull, full),
            (Metric::PressureIoSome, full + 10.0),
            (Metric::Blocked, blocked),
            (Metric::PagedIn, moved),
            (Metric::CpuIdle, 40.0),
            (Metric::CpuIowait, 50.0),
            (Metric::CpuSystem, 2.0),
            (Metric::CpuUser, 8.0),
        ] {
            series.set_value(metric, value);
        }
    }
    investigated(vec![series.finish()])
}

#[test]
fn disks_for_which_all_tasks_wait_all_day() {
    let history = pressed(6.0, 3.0 * MIB);
    assert_eq!(verdicts(&history), [IncidentVerdict::DiskStall], "{:#?}", history.signatures);
    says(&history.incidents[0].summary, &["all tasks waited for a disk in up to 8"]);
    // One that reads alone on an idle host, and disks that are at work.
    assert_eq!(verdicts(&pressed(1.0, 3.0 * MIB)), []);
    assert_eq!(verdicts(&pressed(6.0, 300.0 * MIB)), []);
}

/// Three hours in which programs take 117 GiB on a host of 31, of which 74 go to swap; disks stall
/// twice, and in the last minutes the host reclaims.
#[test]
fn growth_that_ends_in_a_storm_begins_where_it_began() {
    let mut series = Series::new("sa21", SourceFormat::SYSSTAT);
    for minute in 0..12 * 60 {
        let at = Moment::from_seconds(MIDNIGHT + minute * 60);
        let grown = (f64::from(i32::try_from(minute).unwrap()) - 480.0).clamp(0.0, 180.0) / 180.0;
        let stalls = (520..524).contains(&minute) || (600..604).contains(&minute);
        let storm = (655..660).contains(&minute);
        series.push(at, (minute > 0).then(|| Duration::from_secs(60)));
        for (metric, value) in [
            (Metric::MemTotal, 31.0 * GIB),
            (Metric::MemFree, if grown > 0.1 { 0.3 * GIB } else { 5.0 * GIB }),
            (Metric::Committed, (28.0 + 89.0 * grown) * GIB),
            (Metric::SwapUsed, 74.0 * grown * GIB),
            (Metric::PageTables, (0.1 + 0.3 * grown) * GIB),
            (Metric::CpuUser, 20.0),
            (Metric::CpuSystem, if storm { 80.0 } else { 4.0 }),
            (Metric::CpuIdle, if storm { 0.0 } else { 50.0 }),
            (Metric::CpuIowait, if stalls { 30.0 } else { 1.0 }),
            (Metric::Blocked, if stalls { 40.0 } else { 0.0 }),
            (Metric::PagedIn, MIB),
            (Metric::ScanDirect, if storm { 400_000.0 } else { 0.0 }),
            (Metric::ScanKswapd, if grown > 0.0 { 3000.0 } else { 0.0 }),
        ] {
            series.set_value(metric, value);
        }
    }
    let history = investigated(vec![series.finish()]);
    assert_eq!(verdicts(&history), [IncidentVerdict::SwapStorm], "{:#?}", history.incidents);
    let incident = &history.incidents[0];
    assert!(window(incident).0.starts_with("08:0"), "{:?}", window(incident));
    says(
        &incident.summary,
        &["swap storm: swap in use grew from", "to 74.0 GiB", "in 3 hours", "to 117.0 GiB", "31.0"],
    );
    assert_eq!(incident.confidence, Confidence::High);
}

/// What goes to swap without a scan of the host's goes there at the limit of a cgroup (shrink_lruvec
/// counts scans of the whole host alone), however little memory the host has left.
#[test]
fn swap_without_scans_is_a_cgroups() {
    let host = |scans: f64| {
        move |second: i64| {
            let calm = Second { free: 0.45 * GIB, tables: 40.0 * MIB, ..Second::default() };
            let calm = Second { user: 20.0, system: 2.0 + 0.5 * noise(1, second, 1), ..calm };
            if (NOON..NOON + 600).contains(&second) {
                let moved = Second { swap_out: 12_000.0, swap_in: 11_000.0, ..calm };
                Second { kswapd: scans, system: 25.0, iowait: 40.0, ..moved }
            } else {
                calm
            }
        }
    };
    let told = |scans| {
        let host = host(scans);
        investigated(vec![seen(&host, &every(60, NOON - 7200, NOON + 7200), Keeps::default())])
    };
    let limit = told(0.0);
    assert_eq!(verdicts(&limit), [IncidentVerdict::CgroupLimit]);
    says(
        &limit.incidents[0].summary,
        &["a cgroup swapped at its memory limit: the host itself looked for no page"],
    );
    assert_eq!(verdicts(&told(15_000.0)), [IncidentVerdict::SwapStorm]);
}

/// Forty minutes of silence, at whose end somebody reset the host, behind a queue that is louder.
#[test]
fn a_silence_is_told_beside_the_programs_before_it() {
    let from = NOON - 900;
    let host = |second: i64| {
        let calm = Second { user: 20.0, system: 3.0, free: 6.0 * GIB, ..Second::default() };
        let calm = Second { tables: 60.0 * MIB, tasks: 300.0, queue: 2.0, ..calm };
        if second < from { calm } else { Second { user: 96.0, queue: 80.0, ..calm } }
    };
    let before = every(60, NOON - 6 * 3600, NOON);
    let behind = every(60, NOON + 2400, NOON + 4 * 3600);
    let after = |second: i64| host(second - 8 * 3600);
    let mut series = seen(&host, &before, Keeps::default());
    series.append(started(seen(&after, &behind, Keeps::default()), NOON + 2400));
    let history = investigated(vec![series]);
    assert_eq!(verdicts(&history), [IncidentVerdict::Hang, IncidentVerdict::UserCpu]);
    says(&history.incidents[0].summary, &["nothing was written for 40 minutes"]);
    assert_eq!(window(&history.incidents[0]), ("11:59:01".into(), "12:40:00".into()));
}

#[test]
fn processes_that_begin_on_an_idle_host_are_no_storm() {
    let told = |idle: f64| {
        let host = |second: i64| {
            let calm = Second { user: 5.0, system: 2.0, free: 6.0 * GIB, ..Second::default() };
            if (NOON..NOON + 300).contains(&second) {
                Second { forks: 1900.0, system: 99.0 - idle - 5.0, ..calm }
            } else {
                Second { forks: 5.0, ..calm }
            }
        };
        verdicts(&investigated(vec![seen(
            &host,
            &every(10, NOON - 3600, NOON + 3600),
            Keeps::default(),
        )]))
    };
    assert_eq!(told(70.0), []);
    assert_eq!(told(5.0), [IncidentVerdict::ForkStorm]);
}
