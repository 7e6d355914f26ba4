//! Hosts that fell silent, and those that were only off.

use hugewise_investigate::{
    Confidence, IncidentHistory, IncidentVerdict, Series, SignatureKind, SignatureStrength, readers,
};

use super::made::{
    DAY, GIB, Keeps, Second, every, investigated, noise, says, seen, started, verdicts, window,
};

/// 03:12:20.
const GONE: i64 = 3 * 3600 + 740;

fn calm(second: i64) -> Second {
    Second {
        user: 12.0 + 3.0 * noise(5, second, 1),
        system: 3.0 + 0.5 * noise(5, second, 2),
        free: 3.0 * GIB,
        tables: 0.5 * GIB,
        tasks: 400.0 + 4.0 * noise(5, second, 3),
        ..Second::default()
    }
}

/// What a collector wrote of a host that was not there for some minutes; it had started again
/// `boot` seconds after it was gone, where it had.
fn gone(host: &dyn Fn(i64) -> Second, interval: i64, minutes: i64, boots: bool) -> IncidentHistory {
    let back = GONE + minutes * 60;
    let all = every(interval, 0, if interval < 30 { back + 3600 } else { DAY });
    let (before, behind): (Vec<i64>, Vec<i64>) = all.into_iter().partition(|at| *at < GONE);
    let behind: Vec<i64> = behind.into_iter().filter(|at| *at > back).collect();
    if !boots {
        // What is behind the hole is of the time since the last sample.
        return investigated(vec![seen(host, &[before, behind].concat(), Keeps::default())]);
    }
    let mut series = seen(host, &before, Keeps::default());
    series.append(started(seen(host, &behind, Keeps::default()), back));
    investigated(vec![series])
}

#[test]
fn a_host_that_hung_for_forty_minutes_until_it_was_reset() {
    for (interval, last) in [(10, "03:12:11"), (60, "03:12:01"), (600, "03:10:01")] {
        let history = gone(&calm, interval, 40, true);
        assert_eq!(verdicts(&history), [IncidentVerdict::Hang], "{interval}");
        let incident = &history.incidents[0];
        assert_eq!(window(incident), (last.into(), "03:52:20".into()));
        // Nothing was seen before it.
        assert_eq!(incident.confidence, Confidence::Low);
        says(
            &incident.summary,
            &[
                "the host fell silent",
                "minutes, and then the host restarted",
                "free memory 3.0 GiB",
            ],
        );
        says(&incident.summary, &["%system 3"]);
        says(&incident.raised_by.join("\n"), &["last -x shutdown reboot", "journalctl -b -1 -e"]);
        says(&incident.next.join("\n"), &["kdump"]);
    }
}

/// A host without servers has page tables of some MiB, and a collector that starts with it has a
/// third of them.
#[test]
fn small_page_tables_that_shrink_are_no_server_that_was_stopped() {
    let idle = |second: i64| Second {
        tables: if second < GONE - 360 { 2_097_152.0 } else { 1_258_291.0 },
        ..calm(second)
    };
    assert_eq!(verdicts(&gone(&idle, 60, 40, true)), [IncidentVerdict::Hang]);
}

#[test]
fn what_was_seen_before_a_hang_is_its_story() {
    let storm = |second: i64| {
        let calm = calm(second);
        let storm = (GONE - 600..GONE).contains(&second);
        let (system, direct) = if storm { (82.0, 60_000.0) } else { (calm.system, 0.0) };
        Second {
            system,
            direct,
            tables: 4.0 * GIB,
            free: if storm { 0.07 * GIB } else { calm.free },
            ..calm
        }
    };
    for interval in [10, 60] {
        let history = gone(&storm, interval, 40, true);
        let found = [IncidentVerdict::Hang, IncidentVerdict::ReclaimByPageTables];
        assert_eq!(verdicts(&history), found, "{interval}");
        let [hang, storm] = &history.incidents[..] else { unreachable!() };
        assert_eq!(window(hang).1, "03:52:20");
        says(
            &hang.summary,
            &[
                "the host fell silent: nothing was written for 40 minutes",
                "the last sample shows %system 82",
                "; before it: reclaim storm driven by page tables",
            ],
        );
        // It began with the first sample after 03:02:20, whose interval began before.
        assert!(window(storm).0.as_str() <= "03:02:21" && window(storm).1.as_str() < "03:12:20");
        says(&storm.summary, &["25 % of memory was page tables", "%system rose from 3 to 82"]);
    }
    // Time in the kernel alone says less than that the host was gone.
    let busy = |second: i64| Second {
        system: if (GONE - 300..GONE).contains(&second) { 80.0 } else { 3.0 },
        ..calm(second)
    };
    let history = gone(&busy, 10, 40, true);
    assert_eq!(verdicts(&history), [IncidentVerdict::Hang]);
    assert_eq!(history.incidents[0].confidence, Confidence::Medium);
}

#[test]
fn reboots_nights_and_orderly_ends_are_no_incident() {
    for interval in [10, 60, 600] {
        // A reboot, of a large host too.
        assert_eq!(verdicts(&gone(&calm, interval, 4, true)), [], "{interval}");
        assert_eq!(verdicts(&gone(&calm, interval, 18, true)), [], "{interval}");
        // Off for a night.
        let night = gone(&calm, interval, 9 * 60, true);
        assert_eq!(verdicts(&night), [], "{interval}");
        let found: Vec<_> =
            night.signatures.iter().filter(|one| one.kind == SignatureKind::Silence).collect();
        assert_eq!(
            found.iter().map(|one| one.strength).collect::<Vec<_>>(),
            [SignatureStrength::Weak]
        );
        says(&found[0].caveats.join("\n"), &["switched off"]);
        assert_eq!(
            verdicts(&gone(&calm, interval, 5 * 60, false)),
            [],
            "a collector that was off, {interval}"
        );
    }
    // Its servers were stopped before it, which a sample saw.
    let stopped = |second: i64| {
        let calm = calm(second);
        if (GONE - 100..GONE).contains(&second) {
            Second { tasks: 150.0, tables: 0.05 * GIB, free: 11.0 * GIB, ..calm }
        } else {
            calm
        }
    };
    for interval in [1, 10, 60] {
        let history = gone(&stopped, interval, 40, true);
        assert_eq!(verdicts(&history), [], "{interval}");
        let silence =
            history.signatures.iter().find(|one| one.kind == SignatureKind::Silence).unwrap();
        says(&silence.caveats.join("\n"), &["tasks had fallen from 4", "to 150", "orderly"]);
    }
    // A host of tests that runs three hours and rests for one, again and again.
    let mut all = seen(&calm, &every(60, 0, 3 * 3600), Keeps::default());
    for turn in 1..5 {
        let from = turn * 4 * 3600;
        all.append(started(seen(&calm, &every(60, from, from + 3 * 3600), Keeps::default()), from));
    }
    let history = investigated(vec![all]);
    assert_eq!(verdicts(&history), []);
    let silence = history.signatures.iter().find(|one| one.kind == SignatureKind::Silence).unwrap();
    says(&silence.caveats.join("\n"), &["this host is often off"]);
}

#[test]
fn a_hole_of_forty_minutes_without_a_start() {
    for interval in [10, 60, 600] {
        let history = gone(&calm, interval, 40, false);
        assert_eq!(verdicts(&history), [IncidentVerdict::Starved], "{interval}");
        says(
            &history.incidents[0].summary,
            &["the host stood still, was paused, or its collector was off"],
        );
    }
    // Ten minutes that a file of an hour lacks are told; a file that is not here at all is no hole.
    let hours = |hours: &[i64]| {
        let hour = |hour: &i64| {
            let mut series = Series::new(
                format!("db_vmstat_26.11.21.{hour:02}00.dat"),
                hugewise_investigate::SourceFormat::OsWatcher(
                    hugewise_investigate::CollectedTool::Meminfo,
                ),
            );
            let all = seen(&calm, &every(30, hour * 3600, hour * 3600 + 3599), Keeps::default());
            for (row, sample) in all.samples().iter().enumerate() {
                series.push(sample.at, sample.interval);
                series.set_value(
                    hugewise_investigate::Metric::MemFree,
                    all.value(hugewise_investigate::Metric::MemFree, row).unwrap(),
                );
            }
            series
        };
        let mut all = hours.iter().map(hour);
        let mut whole = all.next().unwrap();
        all.for_each(|next| {
            whole.append(next);
        });
        verdicts(&investigated(vec![whole]))
    };
    assert_eq!(hours(&[0, 1, 2, 3, 4]), []);
    assert_eq!(hours(&[0, 1, 2, 4, 5]), []);
}

/// sar's text, of which the restart is a line.
#[test]
fn sar_prints_a_hang_as_a_restart_forty_minutes_later() {
    let line = |slot: i64| {
        let busy = slot % 3;
        format!(
            "{:02}:{:02}:01  all 10.00 0.00 {}.00 1.00 0.00 {}.00\n",
            slot / 6,
            slot % 6 * 10,
            2 + busy,
            87 - busy
        )
    };
    let mut text =
        "Linux 5.14.0 (db1) \t11/21/26 \t_x86_64_\t(4 CPU)\n\n00:00:01  CPU %user %nice %system \
             %iowait %steal %idle\n"
            .to_owned();
    text.extend((1..20).map(line));
    text += "\n03:52:20     LINUX RESTART\t(4 CPU)\n\n04:00:01  CPU %user %nice %system %iowait \
         %steal %idle\n";
    text.extend((25..100).map(line));
    let history = investigated(readers::read(text.as_bytes(), "sar21").unwrap());
    assert_eq!(verdicts(&history), [IncidentVerdict::Hang]);
    assert_eq!(window(&history.incidents[0]), ("03:10:01".into(), "03:52:20".into()));
}
