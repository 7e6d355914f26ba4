//! Sessions that come at once, and page tables that grow, seen at any interval.

use std::fmt::Write;

use hugewise_investigate::{IncidentVerdict, Series, readers};

use super::field::web_farm;
use super::made::{GIB, Keeps, MIB, Second, every, investigated, noise, says, seen, verdicts};

const NOON: i64 = 12 * 3600;
/// Those that divide ten minutes, and others.
const INTERVALS: [i64; 10] = [1, 7, 10, 11, 13, 30, 31, 45, 60, 61];

fn calm(second: i64) -> Second {
    Second {
        user: 20.0 + 3.0 * noise(5, second, 1),
        system: 2.0 + 0.5 * noise(5, second, 2),
        free: 9.0 * GIB,
        tables: 48.0 * MIB,
        tasks: 200.0 + 2.0 * noise(5, second, 3),
        queue: 2.0,
        ..Second::default()
    }
}

/// From 0 at `begin` to 1 at `end`.
fn passed(second: i64, begin: i64, end: i64) -> f64 {
    let part = |seconds: i64| f64::from(i32::try_from(seconds).unwrap());
    (part(second - begin) / part(end - begin)).clamp(0.0, 1.0)
}

fn around(host: &dyn Fn(i64) -> Second, interval: i64, hours: i64) -> Vec<Series> {
    vec![seen(host, &every(interval, NOON - hours * 3600, NOON + hours * 3600), Keeps::default())]
}

#[test]
fn four_hundred_log_ins_within_a_minute_at_any_interval() {
    let host = |second: i64| {
        let came = passed(second, NOON, NOON + 60);
        let busy = came > 0.0 && came < 1.0;
        let (system, queue) = if busy { (70.0, 100.0) } else { (2.0, 2.0) };
        let calm = calm(second);
        Second {
            tasks: calm.tasks + 400.0 * came,
            tables: 48.0 * MIB + 400.0 * came * 2.0 * MIB,
            system,
            queue,
            ..calm
        }
    };
    for interval in INTERVALS {
        let history = investigated(around(&host, interval, if interval < 10 { 1 } else { 5 }));
        assert_eq!(verdicts(&history), [IncidentVerdict::LoginStorm], "{interval}");
        says(&history.incidents[0].summary, &["tasks went from ", "2.0 MiB a task"]);
    }
    for interval in INTERVALS {
        let host = |second| web_farm(second, NOON, false);
        let history = investigated(around(&host, interval, if interval < 10 { 1 } else { 5 }));
        assert_eq!(verdicts(&history)[..1], [IncidentVerdict::LoginStorm], "{interval}");
    }
}

/// 240 sessions, a few at a time, each with 10 MiB of page tables: 2.3 of 16 GiB after eight
/// minutes, and nobody waits.
#[test]
fn page_tables_that_grow_at_ease_are_told_the_same_at_one_second_and_at_ten() {
    let host = |second: i64| {
        let came = passed(second, NOON, NOON + 480);
        let calm = calm(second);
        // Sessions of one moment want a processor at once, now and then.
        let queue = if second % 60 == 0 { 40.0 } else { 1.0 };
        Second {
            tasks: calm.tasks + 240.0 * came,
            tables: 48.0 * MIB + 2.29 * GIB * came,
            queue,
            ..calm
        }
    };
    for interval in [1, 10, 30, 60] {
        let series = vec![seen(&host, &every(interval, NOON - 120, NOON + 600), Keeps::default())];
        let history = investigated(series);
        assert_eq!(
            verdicts(&history),
            [IncidentVerdict::PageTablesGrowing],
            "{interval}: {:#?}",
            history.incidents
        );
        says(
            &history.incidents[0].summary,
            &["15 % of memory was page tables", "they grew from 48.0 MiB to 2.3 GiB in "],
        );
    }
}

/// Strong by itself, for ten minutes of a day.
#[test]
fn page_tables_that_are_very_large_for_less_than_half_an_hour() {
    let host = |second: i64| {
        let large = (NOON..NOON + 600).contains(&second);
        Second { tables: if large { 2.0 * GIB } else { 0.9 * GIB }, ..calm(second) }
    };
    let history = investigated(around(&host, 60, 6));
    assert_eq!(verdicts(&history), [IncidentVerdict::PageTablesGrowing]);
    says(
        &history.incidents[0].summary,
        &["12 % of memory was page tables", "from 921.6 MiB to 2.0 GiB"],
    );
}

/// A loop of grep, in which the size of a huge page is not, as it was pasted into a ticket.
#[test]
fn growth_within_an_hour_and_that_no_pool_was_there_are_told() {
    let mut log = String::new();
    for minute in 0..56_u64 {
        let tables = 6_291_456 + minute * 533_862;
        writeln!(
            log,
            "Sat Nov 21 09:{minute:02}:00 UTC 2026\nMemTotal: 263851220 kB\nPageTables: {tables} \
                 kB\nHugePages_Total: 0"
        )
        .unwrap();
    }
    let history = investigated(readers::read(log.as_bytes(), "tables.log").unwrap());
    assert_eq!(verdicts(&history), [IncidentVerdict::PageTablesGrowing]);
    says(
        &history.incidents[0].summary,
        &[
            "14 % of memory was page tables",
            "they grew from 6.0 GiB to 34.0 GiB in 55 minutes",
            "huge pages were not configured",
        ],
    );
    says(&history.incidents[0].next.join("\n"), &["hugewise plan", "give it a pool"]);
}

/// Pieces of a day, put together: what came and went between them nobody saw.
#[test]
fn a_gap_of_a_cut_archive_is_no_log_in_storm() {
    let host = |second: i64| {
        let calm = calm(second);
        let many = second > NOON;
        Second { tasks: if many { 700.0 } else { calm.tasks }, queue: 30.0, system: 12.0, ..calm }
    };
    for (interval, gap) in [(1, 300), (10, 400), (10, 560), (60, 540)] {
        let moments = every(interval, NOON - 4000, NOON + 4000);
        let cut: Vec<i64> = moments.into_iter().filter(|at| (at - NOON).abs() > gap / 2).collect();
        let history = investigated(vec![seen(&host, &cut, Keeps::default())]);
        assert!(!verdicts(&history).contains(&IncidentVerdict::LoginStorm), "{interval} {gap}");
    }
}
