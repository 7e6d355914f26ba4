//! The stand-in server on the running kernel: its segment's policies, its sessions, and what is
//! left of it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use hugewise_lab::budget::ResourceGauge;
use hugewise_lab::cancel::Cancel;
use hugewise_lab::experiment::ExperimentFailure;
use hugewise_lab::fake_server::{
    FakeServer, FakeServerSettings, LargePagePolicy, LoginPace, PreTouch,
};
use hugewise_lab::guard::PoolGuard;
use hugewise_lab::segment::SegmentSource;
use hugewise_lab::touch::{TouchAccess, TouchOrder};
use hugewise_model::{Bytes, PageCount, PageSize};
use hugewise_testkit::require;

fn start(settings: &FakeServerSettings) -> Result<FakeServer, ExperimentFailure> {
    FakeServer::start_program(Path::new(env!("CARGO_BIN_EXE_standin")), settings, &Cancel::never())
}

/// A line of a process's status, in KiB or whatever its unit is.
fn status(pid: u32, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn is_gone(pid: u32) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while Path::new(&format!("/proc/{pid}")).exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    !Path::new(&format!("/proc/{pid}")).exists()
}

fn segments_of(size: u64) -> usize {
    let text = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    text.lines()
        .skip(1)
        .filter(|line| line.split_ascii_whitespace().nth(3) == Some(&size.to_string()))
        .count()
}

#[test]
fn sessions_map_what_they_touch_whatever_the_kind() {
    for kind in [SegmentSource::SystemV, SegmentSource::AnonymousShared, SegmentSource::Memfd] {
        let settings = FakeServerSettings {
            kind,
            touch: 50,
            access: TouchAccess::Write,
            ..FakeServerSettings::new(Bytes::from_mib(64))
        };
        let mut server = start(&settings).unwrap();
        let times = server.log_in(3, LoginPace::AtOnce, &Cancel::never()).unwrap();
        assert_eq!((times.len(), server.session_pids().len()), (3, 3), "{kind:?}");
        assert!(times.iter().all(|time| *time > Duration::ZERO));
        for pid in server.session_pids().to_vec() {
            // Half of 64 MiB, one after the other: 16 tables of 4 KiB for 2 MiB each, and the
            // process's own.
            let (resident, tables) = (status(pid, "RssShmem"), status(pid, "VmPTE"));
            assert!((32 << 10..36 << 10).contains(&resident), "{kind:?} {resident}");
            assert!((16 * 4..=16 * 4 + 120).contains(&tables), "{kind:?} {tables}");
        }
    }
}

#[test]
fn a_scattered_part_costs_the_tables_of_the_whole() {
    let tables = |order| {
        let settings =
            FakeServerSettings { touch: 1, order, ..FakeServerSettings::new(Bytes::from_mib(256)) };
        let mut server = start(&settings).unwrap();
        server.log_in(1, LoginPace::AtOnce, &Cancel::never()).unwrap();
        status(server.session_pids()[0], "VmPTE")
    };
    // 1 % of 256 MiB is in 2 tables when it is in one piece, and in all 128 when every 100th page
    // is touched.
    let (one_piece, scattered) = (tables(TouchOrder::Sequential), tables(TouchOrder::Random));
    assert!(scattered >= one_piece + 120 * 4, "{one_piece} and {scattered}");
}

#[test]
fn nothing_is_left_when_it_ends_and_when_it_is_dropped_while_sessions_come() {
    let size = Bytes(Bytes::from_mib(9).get() + 4096);
    let mut server = start(&FakeServerSettings::new(size)).unwrap();
    server.log_in(5, LoginPace::OneByOne(Duration::ZERO), &Cancel::never()).unwrap();
    let pids = server.session_pids().to_vec();
    assert_eq!(segments_of(size.get()), 1);
    assert!(pids.iter().all(|pid| Path::new(&format!("/proc/{pid}")).exists()));
    drop(server);
    // Not even for a moment: what is measured next counts on their memory.
    assert!(pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    assert_eq!(segments_of(size.get()), 0);

    let mut server = start(&FakeServerSettings::new(size)).unwrap();
    let cancel = Cancel::never();
    cancel.stop("enough");
    assert!(matches!(
        server.log_in(3, LoginPace::AtOnce, &cancel),
        Err(ExperimentFailure::Stopped(_))
    ));
    drop(server);
    assert_eq!(segments_of(size.get()), 0);
}

#[test]
fn a_killed_server_takes_everything_with_it() {
    let size = Bytes(Bytes::from_mib(7).get() + 4096);
    let mut server = start(&FakeServerSettings::new(size)).unwrap();
    server.log_in(2, LoginPace::AtOnce, &Cancel::never()).unwrap();
    let sessions = server.session_pids().to_vec();
    let parent = status(sessions[0], "PPid");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(i32::try_from(parent).unwrap()).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    for pid in sessions {
        assert!(is_gone(pid));
    }
    drop(server);
    assert_eq!(segments_of(size.get()), 0);
}

#[test]
fn policies_do_what_oracle_users_know() {
    let guard = require!(PoolGuard::take_for_test());
    let huge = |policy, kind| {
        let settings =
            FakeServerSettings { policy, kind, ..FakeServerSettings::new(Bytes::from_mib(40)) };
        start(&settings).map(|server| server.huge_bytes())
    };
    for kind in [SegmentSource::SystemV, SegmentSource::Memfd, SegmentSource::AnonymousShared] {
        guard.set_pool(PageSize::MIB_2, PageCount(0)).unwrap();
        assert_eq!(huge(LargePagePolicy::True, kind), Ok(Bytes::ZERO), "{kind:?}");
        let missing = huge(LargePagePolicy::Only, kind).unwrap_err();
        let wanted = "20 pages of 2 MiB are missing: 20 needed, 0 available";
        assert_eq!(missing, ExperimentFailure::Unavailable(wanted.to_owned()), "{kind:?}");

        // As Oracle since 11.2.0.3: what there is, and base pages for the rest.
        guard.set_pool(PageSize::MIB_2, PageCount(12)).unwrap();
        assert_eq!(huge(LargePagePolicy::True, kind), Ok(Bytes::from_mib(24)), "{kind:?}");
        assert_eq!(huge(LargePagePolicy::False, kind), Ok(Bytes::ZERO), "{kind:?}");

        // `auto` is the owner's work: it has the pool grown, and given back.
        guard.give_back().unwrap();
        guard.provide_pages(PageSize::MIB_2, PageCount(20)).unwrap();
        assert_eq!(huge(LargePagePolicy::Auto, kind), Ok(Bytes::from_mib(40)), "{kind:?}");
        assert_eq!(huge(LargePagePolicy::Only, kind), Ok(Bytes::from_mib(40)), "{kind:?}");
    }
}

#[test]
fn on_huge_pages_sessions_have_next_to_no_tables() {
    let guard = require!(PoolGuard::take_for_test());
    require!(guard.provide_pages(PageSize::MIB_2, PageCount(64)));
    let tables = |policy| {
        let settings = FakeServerSettings {
            policy,
            pre_touch: PreTouch::Sessions,
            touch: 0,
            ..FakeServerSettings::new(Bytes::from_mib(128))
        };
        let mut server = start(&settings).unwrap();
        server.log_in(1, LoginPace::AtOnce, &Cancel::never()).unwrap();
        status(server.session_pids()[0], "VmPTE")
    };
    // 64 tables of 4 KiB, and next to none.
    let (base, huge) = (tables(LargePagePolicy::False), tables(LargePagePolicy::Only));
    assert!(base >= huge + 60 * 4, "{base} and {huge}");
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let gauge = ResourceGauge::new();
    assert!(gauge.read().is_ok());
    let impossible = FakeServerSettings {
        pre_touch: PreTouch::None,
        ..FakeServerSettings::new(Bytes(u64::MAX >> 1))
    };
    let Err(ExperimentFailure::Unavailable(reason)) = start(&impossible) else {
        panic!("it started")
    };
    assert!(reason.starts_with("a segment of ") && reason.contains("on base pages"), "{reason}");
    // Whatever is no server of ours is told from one.
    let nobody = FakeServer::start_program(Path::new("/bin/true"), &impossible, &Cancel::never());
    assert!(
        matches!(nobody, Err(ExperimentFailure::Failed(reason)) if reason.contains("ended before \
             it listened"))
    );
}
