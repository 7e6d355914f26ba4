use super::super::conf;
use super::*;
use hugewise_model::configuration::FileLocation;
use proptest::prelude::*;

fn settings(pairs: &[(&str, &str)]) -> ServerSettings {
    let mut settings = ServerSettings::new(&super::super::KIND);
    for (name, value) in pairs {
        assert!(super::super::KIND.capture.settings.contains(name), "{name} is not read");
        settings.set(name, value, FileLocation { file: "postgresql.conf".into(), line: 1 });
    }
    settings
}

type Pairs = Vec<(&'static str, &'static str)>;

type Asked = Vec<(&'static str, Pairs, u64)>;

/// Version, settings and bytes of each line of what the servers asked for: by these the formula was
/// fitted.
fn asked() -> Asked {
    lines(include_str!("asked.txt"))
}

/// The same of other releases, 13.6 to 18.4, and other settings: by these it was not.
fn asked_besides() -> Asked {
    lines(include_str!("besides.txt"))
}

fn lines(text: &'static str) -> Asked {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let mut next = || words.next().unwrap();
            let (version, buffers, connections, bytes) = (next(), next(), next(), next());
            let mut pairs = vec![("shared_buffers", buffers), ("max_connections", connections)];
            pairs.extend(words.map(|word| word.split_once('=').unwrap()));
            (version, pairs, bytes.parse().unwrap())
        })
        .collect()
}

#[test]
fn no_release_is_out_of_its_bounds() {
    for (version, pairs, bytes) in asked().into_iter().chain(asked_besides()) {
        let size = estimate_size(&settings(&pairs), Some(version)).unwrap();
        assert!(
            (size.least..=size.most).contains(&Bytes(bytes)),
            "{version} {pairs:?}: {size:?} for {bytes}"
        );
    }
}

/// How far an estimate is from the truth, in percent.
fn error(estimate: Bytes, truth: u64) -> f64 {
    (estimate.as_f64() - Bytes(truth).as_f64()).abs() / Bytes(truth).as_f64() * 100.0
}

/// The largest error in percent, of servers whose checkpointer's queue and backends of its own are
/// the same in all releases.
fn worst(asked: Asked) -> f64 {
    let is_same = |version: &str, pairs: &Pairs| {
        let blocks = SharedMemoryCounts::from_settings(&settings(pairs), 13, 1).unwrap().blocks;
        blocks <= LONGEST_QUEUE && !["17.0", "17.2"].contains(&version)
    };
    let value_of = |(version, pairs, bytes): (&str, Pairs, u64)| {
        let size = estimate_size(&settings(&pairs), Some(version)).unwrap();
        assert!(size.is_sure);
        if is_same(version, &pairs) { error(size.about, bytes) } else { 0.0 }
    };
    asked.into_iter().map(value_of).fold(0.0, f64::max)
}

/// The figures that the constant's comment and docs/sizing.md name.
#[test]
fn the_formula_is_as_good_as_it_says() {
    let (fitted, others) = (worst(asked()), worst(asked_besides()));
    assert!(fitted < 0.005 && others < 0.039, "{fitted} {others}");
}

#[test]
fn an_error_in_pages_is_whole_pages() {
    let demand_of = |about: u64, above: u64, page| {
        let (about, most) = (Bytes::from_mib(about), Bytes::from_mib(about + above));
        SharedMemorySize { about, least: about, most, is_sure: false }.in_pages(page)
    };
    let percent = |demand: Demand| (demand.pages.get(), demand.error_percent());
    // 6.2 GiB are 7 pages of 1 GiB whatever the error, and 6.99 may be 8, a seventh more.
    assert_eq!(percent(demand_of(6350, 63, PageSize::GIB_1)), (7, Some(0)));
    assert_eq!(percent(demand_of(7158, 72, PageSize::GIB_1)), (7, Some(15)));
    // 3.1 GiB and a quarter more may be 4 pages, and never 3.
    assert_eq!(percent(demand_of(3174, 793, PageSize::GIB_1)), (4, Some(0)));
    for (version, pairs, bytes) in asked().into_iter().chain(asked_besides()) {
        for page in [PageSize::MIB_2, PageSize::GIB_1, PageSize::from_kib(64).unwrap()] {
            let demand = estimate_demand(&settings(&pairs), Some(version), page).unwrap();
            let truth = page.pages_for(Bytes(bytes));
            let between = demand.at_least().pages..=demand.pages;
            assert!(between.contains(&truth), "{version} {pairs:?}: {demand:?} for {truth}");
        }
    }
}

#[test]
fn a_version_that_nobody_knows_is_taken_for_the_neediest() {
    for (version, pairs, bytes) in asked() {
        for other in [None, Some("19"), Some("9.6"), Some("x")] {
            let size = estimate_size(&settings(&pairs), other).unwrap();
            assert!(!size.is_sure);
            let between = size.least..=size.most;
            assert!(
                between.contains(&Bytes(bytes)),
                "{version} {pairs:?} as {other:?}: {size:?} for {bytes}"
            );
        }
    }
}

#[test]
fn libraries_make_an_estimate_worse_and_say_so() {
    let percent = |libraries| {
        let settings =
            settings(&[("shared_preload_libraries", libraries), ("shared_buffers", "8GB")]);
        let size = estimate_size(&settings, Some("15.20")).unwrap();
        (size.is_sure, size.in_pages(PageSize::MIB_2).error_percent().unwrap())
    };
    assert_eq!(percent("pg_stat_statements"), (false, 25));
    assert_eq!(percent(" "), (true, 1));
}

/// What PostgreSQL 15.20 asks for with 16 MB of buffers, where locks and their tables are most of
/// it; the step between 100 and 110 is that of a table which becomes twice as large.
#[test]
fn what_a_server_grows_by_is_known_better_than_its_size() {
    let asked = [
        (100, 24_895_488_u64),
        (110, 25_772_032),
        (200, 29_794_304),
        (500, 45_776_896),
        (3000, 167_608_320),
    ];
    let with = |connections: u64| {
        estimate_size(
            &settings(&[("shared_buffers", "16MB"), ("max_connections", &connections.to_string())]),
            Some("15.20"),
        )
        .unwrap()
    };
    for (before, now) in asked {
        for (then, truth) in asked {
            // As the server says it, in whole mebibytes.
            let most = Bytes(now.next_multiple_of(1 << 20));
            let now = Range { least: most.saturating_sub(Bytes((1 << 20) - 1)), most };
            let size = with(then).grown_from(now, with(before));
            assert!(
                (size.least..=size.most).contains(&Bytes(truth)),
                "{before} to {then}: {size:?} for {truth}"
            );
            assert!(
                size.most.saturating_sub(size.least) <= Bytes::from_kib(256),
                "{before} to {then}: {size:?}"
            );
        }
    }
}

#[test]
fn a_version_begins_with_its_major() {
    assert_eq!(parse_major("15.20"), Some(15));
    assert_eq!(parse_major("18beta1"), Some(18));
    assert_eq!(parse_major("9.6"), Some(9));
    assert_eq!(parse_major(""), None);
}

/// From `postgres -C` of 15, 17 and 18: the memory fills its pages to the last byte, and the server
/// says one page more than it starts with.
#[test]
fn the_servers_own_page_count_can_be_one_too_many() {
    for (mebibytes, says, needs) in [(142, 72, 71), (144, 73, 72), (162, 82, 81), (1074, 537, 537)]
    {
        let demand = reported_demand(
            Some(Bytes::from_mib(mebibytes)),
            Some(PageCount(says)),
            PageSize::MIB_2,
        )
        .unwrap();
        assert_eq!((demand.pages, demand.source), (PageCount(needs), DemandSource::Engine));
    }
    // Below a mebibyte the size is too rough: 1073.34 MiB are 17,174 pages of 64 KiB, not 17,184.
    let small = PageSize::from_kib(64).unwrap();
    let demand =
        reported_demand(Some(Bytes::from_mib(1074)), Some(PageCount(17_174)), small).unwrap();
    assert_eq!(demand.pages, PageCount(17_174));
    // Its exact size is known where it has failed to start.
    assert_eq!(
        reported_demand(Some(Bytes(1_125_482_496)), None, PageSize::MIB_2).unwrap().pages,
        PageCount(537)
    );
    assert_eq!(
        reported_demand(Some(Bytes(1_125_482_496)), None, PageSize::GIB_1).unwrap().pages,
        PageCount(2)
    );
    assert_eq!(
        reported_demand(None, Some(PageCount(537)), PageSize::MIB_2).unwrap().pages,
        PageCount(537)
    );
    assert_eq!(reported_demand(None, None, PageSize::MIB_2), None);
}

proptest! {
    #[test]
    fn no_setting_makes_it_less_than_its_buffers(buffers in "[ -~]{0,6}|[0-9]{1,12} \
        ?(|k|kB|MB|GB|TB)", connections in any::<u64>(), locks in any::<u64>(), major in 0_u32..30) {
        let (connections, locks) = (connections.to_string(), locks.to_string());
        let pairs = [("shared_buffers", &*buffers), ("max_connections", &connections), ("max_locks_per_transaction", &locks)];
        let bytes = conf::parse_memory(&buffers, 8 << 10).unwrap_or(0);
        if let Some(size) = estimate_size(&settings(&pairs), Some(&major.to_string())) {
            prop_assert!(size.about >= Bytes(bytes) && size.about > Bytes::ZERO, "{buffers:?} \
                {connections} {locks}: {size:?}");
            prop_assert!(size.least <= size.about && size.about <= size.most);
        }
    }

    #[test]
    fn more_of_anything_never_needs_less(megabytes in 1_u64..1_000_000, connections in 1_u64..10_000, major in 13_u32..19) {
        let bytes_of = |megabytes: u64, connections: u64| {
            let (buffers, connections) = (format!("{megabytes}MB"), connections.to_string());
            estimate_size(&settings(&[("shared_buffers", &buffers), ("max_connections", &connections)]), Some(&major.to_string())).unwrap().about
        };
        let least = bytes_of(megabytes, connections);
        prop_assert!(bytes_of(megabytes + 1, connections) > least);
        // With more connections 18 gives each fewer handles.
        prop_assert!(major == 18 || bytes_of(megabytes, connections + 1) > least);
        prop_assert!(least > Bytes::from_mib(megabytes));
    }
}

/// Of 18: 1,000 connections, 16 autovacuum workers, 2 of its own, 8 workers, 10 senders and 6 others
/// are 1,042 rings; 8 KiB each for up to 64 requests, as Linux 6.18 charges them.
#[test]
fn rings_of_io_uring_are_as_many_as_processes() {
    let rings = |version, pairs: &[(&str, &str)]| {
        ring_bytes(&settings(pairs), Some(version), PageSize::KIB_4)
    };
    let many = [("shared_buffers", "8GB"), ("max_connections", "1000"), ("io_method", "io_uring")];
    assert_eq!(rings("18.1", &many), Some(Bytes(1042 * 8192)));
    let deep = [many.as_slice(), &[("io_max_concurrency", "100")]].concat();
    assert_eq!(rings("18", &deep), Some(Bytes(1042 * 16384)));
    let deep = [many.as_slice(), &[("io_max_concurrency", "256")]].concat();
    assert_eq!(rings("18", &deep), Some(Bytes(1042 * 28672)));
    assert_eq!(rings("18", &[("io_method", "IO_URING")]), Some(Bytes(142 * 8192)));
    assert_eq!(rings("18", &[("io_method", "worker")]), None);
    assert_eq!(rings("18", &[]), None);
    assert_eq!(rings("17", &many), None);
}
