use std::collections::BTreeSet;

use hugewise_host::source::MapSource;
use hugewise_model::instance::Demand;
use hugewise_model::{Instance, Observed, PageCount, PageSize};
use proptest::prelude::*;

use super::super::tests::{DATA, files, host, only};
use super::*;

/// The beginnings of the files of servers that ran with `max_connections=123`,
/// `max_worker_processes=17`, `max_wal_senders=19`, `max_prepared_transactions=29` and
/// `max_locks_per_transaction=71`: pg_controldata 15.20 says so of that of 15.
const PRIMARIES: [&[u8]; 4] = [
    include_bytes!("13.6.head"),
    include_bytes!("15.head"),
    include_bytes!("17.0.head"),
    include_bytes!("18.4.head"),
];
const VALUES: [u32; 5] = [123, 17, 19, 29, 71];

/// That of 15.20 as a standby of such a server, with 200 connections of its own: of it
/// pg_controldata says `in archive recovery` and 123.
const STANDBY: &[u8] = include_bytes!("15-standby.head");

#[test]
fn what_servers_wrote_is_read() {
    for head in PRIMARIES {
        assert_eq!(parse(head), Ok(Control { state: IN_PRODUCTION, values: VALUES }));
        // They are followed by zeros.
        let whole = [head, &[0; 8192 - 296]].concat();
        assert_eq!(parse(&whole), parse(head));
    }
    assert_eq!(parse(STANDBY), Ok(Control { state: 5, values: VALUES }));
}

#[test]
fn what_is_not_whole_is_not_known() {
    for head in PRIMARIES {
        let covered =
            if head[VERSION_AT..].starts_with(&1800_u32.to_le_bytes()) { 296 } else { 292 };
        for end in 0..covered {
            assert!(parse(&head[..end]).is_err(), "{end} bytes of it");
        }
        for at in 0..covered {
            let mut other = head.to_vec();
            other[at] ^= 0x10;
            assert!(parse(&other).is_err(), "another byte at {at}");
        }
        assert!(parse(&summed(head, VERSION_AT, 1900_u32)).is_err(), "a release to come");
        assert!(parse(&summed(head, SETTINGS_AT, u32::MAX)).is_err(), "-1 connections");
        assert!(parse(&summed(head, FLOAT_AT, 7_u32)).is_err(), "another machine's");
        assert!(
            parse(&summed(head, SETTINGS_AT, 500_u32))
                .is_ok_and(|control| control.values[0] == 500)
        );
    }
}

/// The file with another number in it, and the checksum of that.
fn summed(head: &[u8], at: usize, number: u32) -> Vec<u8> {
    let mut bytes = head.to_vec();
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    let end = if head[VERSION_AT..].starts_with(&1800_u32.to_le_bytes()) { 292 } else { 288 };
    let sum = crc32c(&bytes[..end]);
    bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn a_capture_keeps_numbers_alone_and_reads_as_its_host() {
    for head in PRIMARIES.into_iter().chain([STANDBY]) {
        let left = redact_control_file(head);
        assert_eq!(parse(&left), parse(head));
        assert_eq!(redact_control_file(&left), left);
        let text = String::from_utf8(left).unwrap();
        assert!(
            text.ends_with(
                "max_connections = 123\nmax_worker_processes = 17\nmax_wal_senders \
             = 19\nmax_prepared_transactions = 29\nmax_locks_per_transaction = 71\n"
            ),
            "{text}"
        );
    }
    assert_eq!(redact_control_file(b"root:$6$S3:1:2:3:::\n"), b"?\n");
    assert_eq!(redact_control_file(format!("{KEPT}state = S3\n").as_bytes()), b"?\n");
    assert_eq!(
        redact_control_file(&[redact_control_file(PRIMARIES[0]), b"S3\n".to_vec()].concat()),
        b"?\n"
    );
    assert!(parse(b"?\n").is_err());
}

/// As a capture keeps it of a primary with so many connections, and else by default.
fn primary(connections: u32) -> String {
    let defaults = "max_worker_processes = 8\nmax_wal_senders = 10\nmax_prepared_transactions = \
         0\nmax_locks_per_transaction = 64\n";
    format!("{KEPT}state = 6\nmax_connections = {connections}\n{defaults}")
}

const AUTO: &str = "/var/lib/postgresql/15/main/postgresql.auto.conf";
const CONTROL: &str = "/var/lib/postgresql/15/main/global/pg_control";

/// PostgreSQL 15 with 6 GiB and 300 connections on 3156 pages, whose settings were edited since it
/// has started.
fn edited(control: &str, settings: &str) -> MapSource {
    let changed = [(100, AUTO.to_owned()), (100, CONTROL.to_owned())].into();
    files().with_file(AUTO, settings).with_file(CONTROL, control).all_changed_since_start(changed)
}

fn instance(source: &MapSource) -> Instance {
    only(&host(PageSize::MIB_2), source)
}

#[test]
fn a_server_whose_files_say_what_it_was_started_with_starts_as_it_did() {
    assert!(CONTROL.starts_with(DATA) && AUTO.starts_with(DATA));
    let open = |source: &MapSource| {
        let instance = instance(source);
        assert!(instance.next.is_absent(), "{:?}", instance.next);
        !instance.possible_demands.is_empty()
    };
    // Three connections more or less are within the error: of nothing but this file it is known
    // that there are none.
    let larger = |settings: &str| format!("max_connections = 301\n{settings}");
    assert!(!open(&edited(&primary(301), &larger("work_mem = 8MB"))));
    assert!(!open(&edited(
        &primary(301),
        &larger("wal_buffers = 16MB\nautovacuum_max_workers = 3")
    )));
    assert!(!open(&edited(&primary(301), &larger("track_activity_query_size = 512"))));
    for settings in [
        "autovacuum_max_workers = 4",
        "track_activity_query_size = 2kB",
        "shared_preload_libraries = a",
    ] {
        assert!(open(&edited(&primary(301), &larger(settings))), "it may be new: {settings}");
    }
    for not_known in ["", "?\n", &primary(301).replace("state = 6", "state = 5")] {
        assert!(open(&edited(not_known, &larger(""))), "{not_known}");
    }
    let older = edited(&primary(301), &larger(""))
        .all_changed_since_start(BTreeSet::from([(100, AUTO.to_owned())]));
    // A clock that was set forward makes it look as old; of a server that has started, its own lock
    // file says so.
    let lock = |pid: u32, state: &str| {
        let text =
            format!("{pid}\n{DATA}\n1700000000\n5432\n/tmp\n*\n  5432001         7\n{state}\n");
        older.clone().with_file(&format!("{DATA}/postmaster.pid"), text)
    };
    assert!(!open(&lock(100, "ready   ")));
    for (pid, state) in [(100, "starting"), (100, ""), (99, "ready   ")] {
        assert!(open(&lock(pid, state)), "left by the start before: {pid} {state}");
    }
    assert!(open(&edited(&primary(301), &larger("")).with_file(CONTROL, [b'x'; 9000])));
}

/// PostgreSQL 15.20 says 3156 pages of itself with 300 connections and with 301, 3168 with 800.
#[test]
fn what_the_file_says_otherwise_is_another_start_however_small() {
    for (settings, name, truth) in [
        ("max_connections = 301", "max_connections", 3156),
        ("max_connections = 800", "max_connections", 3168),
        ("max_wal_senders = 11", "max_wal_senders", 3156),
    ] {
        let next =
            instance(&edited(&primary(300), settings)).next.into_known().expect("another start");
        assert_eq!(next.setting.map(|setting| setting.name).as_deref(), Some(name));
        assert_holds(&next.demands, truth);
    }
    // Taken out of the file: 100 by default.
    let source = edited(&primary(300), "")
        .with_file("/etc/postgresql/15/main/postgresql.conf", "shared_buffers = 6GB\n");
    let next = instance(&source).next.into_known().expect("another start");
    assert_eq!(
        next.setting.map(|setting| setting.to_string()).as_deref(),
        Some("max_connections=100 (default)")
    );
    assert!(
        next.demands.iter().all(|demand| demand.at_most().pages < PageCount(3156)),
        "{:?}",
        next.demands
    );
}

/// By 8399 MiB, which PostgreSQL 15 says for 8 GB and 100 connections, and 46 KiB for each of the
/// others.
#[test]
fn what_is_mapped_by_other_memory_tells_of_that() {
    let next = instance(&edited(&primary(300), "shared_buffers = 8GB\nmax_connections = 301")).next;
    let next = next.into_known().expect("another start");
    assert_eq!(next.setting.map(|setting| setting.name).as_deref(), Some("shared_buffers"));
    assert_holds(&next.demands, (8399_u64 * 1024 + 201 * 46).div_ceil(2048));
}

#[track_caller]
fn assert_holds(demands: &[Demand], truth: u64) {
    let [demand] = demands else { panic!("{demands:?}") };
    let (least, most) = (demand.at_least().pages.get(), demand.at_most().pages.get());
    assert!(least <= truth && truth <= most && most <= least + 4, "{demand:?}, in truth {truth}");
}

#[test]
fn what_others_built_has_memory_of_its_own() {
    let mut host = host(PageSize::MIB_2);
    crate::testing::processes(&mut host)[0].executable =
        Observed::Known("/usr/edb/as15/bin/edb-postgres".into());
    let instance = only(&host, &edited(&primary(301), "max_connections = 301"));
    assert!(!instance.possible_demands.is_empty());
}

proptest! {
    #[test]
    fn no_bytes_bring_it_down(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0_usize..290, number: u32, which in 0_usize..4) {
        let _ = parse(&bytes);
        let head = PRIMARIES[which];
        let _ = parse(&summed(head, at.min(280), number));
        let mut other = head.to_vec();
        other.splice(at.., bytes);
        for bytes in [other.clone(), [KEPT.as_bytes(), &other].concat()] {
            prop_assert_eq!(redact_control_file(&redact_control_file(&bytes)), redact_control_file(&bytes));
        }
    }

    #[test]
    fn whatever_it_was_started_with_something_is_foretold(values: [u32; 5], state in 0_u32..8, settings in "(max_(connections|wal_senders) = [0-9]{1,9}\n){0,2}") {
        let lines: String = SETTINGS.iter().zip(values).map(|((name, _), value)| format!("{name} = {value}\n")).collect();
        let _ = instance(&edited(&format!("{KEPT}state = {state}\n{lines}"), &settings));
    }
}
