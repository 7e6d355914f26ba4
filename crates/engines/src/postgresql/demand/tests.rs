use super::super::conf;
use super::*;
use hugewise_model::configuration::Place;
use proptest::prelude::*;

fn settings(pairs: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::of(&super::super::KIND);
    for (name, value) in pairs {
        assert!(super::super::KIND.settings.contains(name), "{name} is not read");
        settings.set(name, value, Place { file: "postgresql.conf".into(), line: 1 });
    }
    settings
}

type Pairs = Vec<(&'static str, &'static str)>;

/// Version, settings and bytes of each line of what the servers asked for.
fn asked() -> Vec<(&'static str, Pairs, u64)> {
    let lines = include_str!("asked.txt").lines().filter(|line| !line.starts_with('#'));
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

/// How far an estimate is from the truth, in percent.
fn error(estimate: Bytes, truth: u64) -> f64 {
    (estimate.as_f64() - Bytes(truth).as_f64()).abs() / Bytes(truth).as_f64() * 100.0
}

#[test]
fn the_formula_is_as_good_as_it_says() {
    let mut worst = 0.0_f64;
    for (version, pairs, bytes) in asked() {
        let (estimate, error_percent) = size(&settings(&pairs), Some(version)).unwrap();
        assert_eq!(error_percent, ERROR_PERCENT);
        let off = error(estimate, bytes);
        assert!(off <= f64::from(ERROR_PERCENT), "{version} {pairs:?}: {estimate} for {bytes}, off by {off:.2} %");
        worst = worst.max(off);
    }
    // The figure that the constant's comment names.
    assert!(worst < 0.67, "{worst}");
}

#[test]
fn an_error_in_pages_is_whole_pages() {
    let of = |size, page| in_pages(size, 1, page);
    let percent = |demand: &Demand| match demand.source {
        DemandSource::Estimated { error_percent } => error_percent,
        other => panic!("{other:?}"),
    };
    // 6.2 GiB are 7 pages of 1 GiB whatever the error, and 6.99 may be 8, which is 12.5 % more.
    let roomy = of(Bytes::from_mib(6350), PageSize::GIB_1);
    assert_eq!((roomy.pages, percent(&roomy)), (PageCount(7), 0));
    // 3.1 GiB and 1 % fit into 4; with libraries, which only add, it may be 5, and never 3.
    let libraries = in_pages(Bytes::from_mib(3174), ERROR_PERCENT_WITH_LIBRARIES, PageSize::GIB_1);
    assert_eq!((libraries.pages, percent(&libraries)), (PageCount(4), 20));
    let tight = of(Bytes::from_mib(7158), PageSize::GIB_1);
    assert_eq!((tight.pages, percent(&tight)), (PageCount(7), 13));
    let large = of(Bytes::from_gib(256), PageSize::MIB_2);
    assert!(percent(&large) <= 2, "{large:?}");
    for (version, pairs, bytes) in asked() {
        for page in [PageSize::MIB_2, PageSize::GIB_1, PageSize::from_kib(64).unwrap()] {
            let demand = estimated(&settings(&pairs), Some(version), page).unwrap();
            let truth = page.pages_for(Bytes(bytes)).get();
            let off = demand.pages.get().abs_diff(truth) * 100;
            assert!(off <= truth * u64::from(percent(&demand)), "{version} {pairs:?}: {demand:?} for {truth}");
        }
    }
}

#[test]
fn a_version_that_nobody_knows_is_taken_for_the_neediest() {
    for (version, pairs, bytes) in asked() {
        for other in [None, Some("19"), Some("9.6"), Some("x")] {
            let (estimate, error_percent) = size(&settings(&pairs), other).unwrap();
            assert_eq!(error_percent, ERROR_PERCENT_OF_ANY_VERSION);
            let off = error(estimate, bytes);
            assert!(off <= f64::from(error_percent), "{version} {pairs:?} as {other:?}: off by {off:.2} %");
        }
    }
}

#[test]
fn libraries_make_an_estimate_worse_and_say_so() {
    let with = settings(&[("shared_preload_libraries", "pg_stat_statements")]);
    assert_eq!(size(&with, Some("15")).unwrap().1, ERROR_PERCENT_WITH_LIBRARIES);
    let without = settings(&[("shared_preload_libraries", " ")]);
    assert_eq!(size(&without, Some("15.20")).unwrap().1, ERROR_PERCENT);
}

#[test]
fn a_version_begins_with_its_major() {
    assert_eq!(major("15.20"), Some(15));
    assert_eq!(major("18beta1"), Some(18));
    assert_eq!(major("9.6"), Some(9));
    assert_eq!(major(""), None);
}

/// From `postgres -C` of 15, 17 and 18: the memory fills its pages to the last byte, and the server says one page more
/// than it starts with.
#[test]
fn the_servers_own_page_count_can_be_one_too_many() {
    for (mebibytes, says, needs) in [(142, 72, 71), (144, 73, 72), (162, 82, 81), (1074, 537, 537)] {
        let demand = said(Some(Bytes::from_mib(mebibytes)), Some(PageCount(says)), PageSize::MIB_2).unwrap();
        assert_eq!((demand.pages, demand.source), (PageCount(needs), DemandSource::Engine));
    }
    // Below a mebibyte the size is too rough: 1073.34 MiB are 17,174 pages of 64 KiB, not 17,184.
    let small = PageSize::from_kib(64).unwrap();
    let demand = said(Some(Bytes::from_mib(1074)), Some(PageCount(17_174)), small).unwrap();
    assert_eq!(demand.pages, PageCount(17_174));
    // Its exact size is known where it has failed to start.
    assert_eq!(said(Some(Bytes(1_125_482_496)), None, PageSize::MIB_2).unwrap().pages, PageCount(537));
    assert_eq!(said(Some(Bytes(1_125_482_496)), None, PageSize::GIB_1).unwrap().pages, PageCount(2));
    assert_eq!(said(None, Some(PageCount(537)), PageSize::MIB_2).unwrap().pages, PageCount(537));
    assert_eq!(said(None, None, PageSize::MIB_2), None);
}

proptest! {
    #[test]
    fn no_setting_makes_it_less_than_its_buffers(buffers in "[ -~]{0,6}|[0-9]{1,12} ?(|k|kB|MB|GB|TB)", connections in any::<u64>(), locks in any::<u64>(), major in 0_u32..30) {
        let (connections, locks) = (connections.to_string(), locks.to_string());
        let pairs = [("shared_buffers", &*buffers), ("max_connections", &connections), ("max_locks_per_transaction", &locks)];
        let bytes = conf::memory(&buffers, 8 << 10).unwrap_or(0);
        if let Some((size, _)) = size(&settings(&pairs), Some(&major.to_string())) {
            prop_assert!(size >= Bytes(bytes) && size > Bytes::ZERO, "{buffers:?} {connections} {locks}: {size}");
        }
    }

    #[test]
    fn more_of_anything_never_needs_less(megabytes in 1_u64..1_000_000, connections in 1_u64..10_000, major in 13_u32..19) {
        let of = |megabytes: u64, connections: u64| {
            let (buffers, connections) = (format!("{megabytes}MB"), connections.to_string());
            size(&settings(&[("shared_buffers", &buffers), ("max_connections", &connections)]), Some(&major.to_string())).unwrap().0
        };
        let least = of(megabytes, connections);
        prop_assert!(of(megabytes + 1, connections) > least);
        // With more connections 18 gives each fewer handles.
        prop_assert!(major == 18 || of(megabytes, connections + 1) > least);
        prop_assert!(least > Bytes::from_mib(megabytes));
    }
}
