//! Java machines with ZGC, which insist on huge pages for the heap that they begin with.

use hugewise_model::{HugePageMode, Observed, PageSize};

use super::words;
use crate::testing::{Case, pool, quiet};

/// 276 pages: the Java machine that comes first begins with 248 of its 632, and takes the others as
/// it grows.
#[test]
fn one_that_grows_and_comes_first_leaves_less_than_all() {
    let both = |pool: u64| {
        let mut case = quiet();
        case.postgresql("15/a", PageSize::MIB_2.bytes().saturating_mul(pool));
        let machine = case.postgresql("appd.jar", PageSize::MIB_2.bytes().saturating_mul(632));
        (machine.engine, machine.asked) = (hugewise_model::Engine::Jvm, HugePageMode::Must);
        for (name, value) in
            [("usezgc", "true"), ("initialheapsize", "268435456"), ("maxheapsize", "1073741824")]
        {
            let setting = hugewise_model::instance::ServerSetting {
                name: name.into(),
                value: value.into(),
                place: None,
            };
            machine.settings.insert(name.into(), setting);
        }
        case.pool(pool, pool);
        ["15/a", "appd.jar"].map(|name| words(&case, name)[2])
    };
    assert_eq!(both(276), ["none", "none"]);
    // Without those 248 it does not begin, and leaves them all.
    assert_eq!(both(247)[0], "all");
}

/// OpenJDK 17 with `-Xms200m -Xmx1g` and a pool of so many pages.
fn make_zgc_case(pages: u64) -> Case {
    let mut case = quiet();
    let machine = case.postgresql("app.jar", PageSize::MIB_2.bytes().saturating_mul(632));
    (machine.engine, machine.asked) = (hugewise_model::Engine::Jvm, HugePageMode::Must);
    machine.version = Observed::Known("17.0.15".into());
    for (name, value) in [
        ("uselargepages", "true"),
        ("usezgc", "true"),
        ("initialheapsize", "200m"),
        ("maxheapsize", "1g"),
    ] {
        let setting = hugewise_model::instance::ServerSetting {
            name: name.into(),
            value: value.into(),
            place: None,
        };
        machine.settings.insert(name.into(), setting);
    }
    case.pool(pages, pages);
    case
}

/// In pools of these sizes its code takes 120 pages or none, and
/// then its heap 100, without which it exits; without one page it goes without any.
#[test]
fn zgc_starts_with_its_first_heap_or_not_at_all() {
    let restart = |pages: u64| words(&make_zgc_case(pages), "app.jar")[1];
    for (pool, seen) in [
        (0, "none"),
        (1, "does_not_start"),
        (99, "does_not_start"),
        (100, "partly"),
        (119, "partly"),
        (120, "does_not_start"),
        (219, "does_not_start"),
        (220, "all"),
        (632, "all"),
    ] {
        assert_eq!(restart(pool), seen, "{pool}");
    }
}

/// JDK-8273872 and os_linux.cpp: pages of the default size tell it that there are huge pages, and
/// then it insists on those of 2 MiB.
#[test]
fn a_page_of_the_default_size_has_zgc_insist() {
    let mut case = make_zgc_case(0);
    case.host.default_huge_page = Observed::Known(PageSize::GIB_1);
    case.pools()[1] = pool(PageSize::GIB_1, 2, 2);
    assert_eq!(words(&case, "app.jar")[1], "does_not_start");
    let setting = hugewise_model::instance::ServerSetting {
        name: "LargePageSizeInBytes".into(),
        value: "2m".into(),
        place: None,
    };
    case.instances[0].settings.insert("largepagesizeinbytes".into(), setting);
    assert_eq!(words(&case, "app.jar")[1], "none");
}
