//! What the next start of a running server will ask for.

use super::*;

fn with_settings(page: PageSize, settings: &str) -> Instance {
    only(&host(page), &files().with_file(&format!("{DATA}/postgresql.auto.conf"), settings))
}

fn next_of(page: PageSize, settings: &str) -> Option<(HugePageMode, Vec<Demand>, String)> {
    let next = with_settings(page, settings).next.into_known()?;
    Some((next.asked, next.demands, next.setting.map(|setting| setting.name).unwrap_or_default()))
}

#[test]
fn nothing_changed_is_no_other_start() {
    for page in [PageSize::KIB_4, PageSize::MIB_2] {
        for settings in
            ["", "huge_pages = try", "huge_page_size = 2MB", "shared_preload_libraries = 'a,b'"]
        {
            assert_eq!(next_of(page, settings), None, "{page} {settings}");
        }
    }
    assert_eq!(next_of(PageSize::KIB_4, "huge_pages = off"), None);
    assert_eq!(next_of(PageSize::MIB_2, "huge_pages = on"), None);
}

/// PostgreSQL 15 itself says 8399 MiB for 8GB and 100 connections, of which each is 46 KiB.
#[test]
fn memory_that_was_changed_since_the_start_is_the_next_starts() {
    for page in [PageSize::KIB_4, PageSize::MIB_2] {
        for libraries in ["", "shared_preload_libraries = pg_stat_statements\n"] {
            let (asked, demands, setting) =
                next_of(page, &format!("{libraries}shared_buffers = 8GB")).unwrap();
            assert_eq!(
                (asked, setting.as_str(), demands.len()),
                (HugePageMode::Try, "shared_buffers", 1)
            );
            assert!((4200..4250).contains(&demands[0].pages.get()), "{demands:?}");
            assert!(demands[0].error_percent().is_some(), "an estimate: {demands:?}");
        }
        let less = next_of(page, "shared_buffers = 1GB").unwrap().1;
        assert!((537..560).contains(&less[0].pages.get()), "{less:?}");
        let instance = with_settings(page, "shared_buffers = 8GB");
        assert_eq!(instance.demand.map(|demand| demand.pages), Some(PageCount(3156)));
    }
}

#[test]
fn what_is_asked_at_the_next_start_can_be_something_else() {
    let three = |pages, page_size| {
        vec![Demand { page_size, pages: PageCount(pages), source: DemandSource::Measured }]
    };
    let (asked, demands, setting) = next_of(PageSize::MIB_2, "huge_page_size = 1GB").unwrap();
    // 3156 pages of 2 MiB are 6.2 GiB.
    assert_eq!(
        (asked, demands, setting.as_str()),
        (HugePageMode::Try, three(7, PageSize::GIB_1), "huge_page_size")
    );
    let instance = with_settings(PageSize::MIB_2, "huge_page_size = 1GB");
    assert_eq!(instance.demand, three(3156, PageSize::MIB_2).pop());
    assert_eq!(instance.asked_page_size, Observed::Known(PageSize::GIB_1));

    let (asked, demands, setting) = next_of(PageSize::MIB_2, "huge_pages = off").unwrap();
    assert_eq!((asked, demands, setting.as_str()), (HugePageMode::No, vec![], "huge_pages"));
    let (asked, demands, setting) = next_of(PageSize::MIB_2, "shared_memory_type = sysv").unwrap();
    assert_eq!(
        (asked, demands, setting.as_str()),
        (HugePageMode::Cannot, vec![], "shared_memory_type")
    );
    let (asked, demands, setting) = next_of(PageSize::KIB_4, "huge_pages = on").unwrap();
    assert_eq!(
        (asked, demands, setting.as_str()),
        (HugePageMode::Must, three(3156, PageSize::MIB_2), "huge_pages")
    );
}

#[test]
fn files_that_may_not_be_read_leave_the_next_start_unknown() {
    let source = files().with_denied("/etc/postgresql/15/main/postgresql.conf");
    let instance = only(&host(PageSize::MIB_2), &source);
    assert_eq!((instance.asked, instance.next), (HugePageMode::Unknown, Observed::Denied));
}

#[test]
fn what_system_v_memory_would_need_is_told_too() {
    let mut host = host(PageSize::KIB_4);
    for process in testing::processes(&mut host) {
        let sysv = Mapping {
            inode: 11,
            name: "/SYSV0052e2c1 (deleted)".into(),
            ..memory(PageSize::KIB_4)
        };
        process.mappings = Observed::Known(vec![sysv]);
    }
    let instance = only(
        &host,
        &files().with_file(&format!("{DATA}/postgresql.auto.conf"), "shared_memory_type = sysv"),
    );
    assert_eq!((instance.asked, instance.mechanism), (HugePageMode::Cannot, Mechanism::Mmap));
    assert_eq!(instance.demand.map(|demand| demand.pages), Some(PageCount(3156)));
    assert!(instance.next.is_absent());
}

#[test]
fn a_command_line_beats_alter_system_and_says_so() {
    let mut host = host(PageSize::KIB_4);
    let command = format!(
        "postgres -D {DATA} -c config_file=/etc/postgresql/15/main/postgresql.conf -c \
         huge_pages=off"
    );
    testing::processes(&mut host)[0].command =
        Observed::Known(command.split(' ').map(String::from).collect());
    let source = files().with_file(&format!("{DATA}/postgresql.auto.conf"), "huge_pages = on\n");
    let instance = only(&host, &source);
    assert_eq!(instance.asked, HugePageMode::No);
    assert!(instance.setting.unwrap().is_on_command_line());
    let instance = only(&self::host(PageSize::KIB_4), &source);
    assert!(!instance.setting.unwrap().is_on_command_line());
}

/// 46 KiB more for a connection of a server of 6 GiB are less than the error of the reckoning, and
/// may be more than there is.
#[test]
fn a_change_within_the_error_may_need_more_unless_the_files_are_older_than_the_server() {
    let host = host(PageSize::MIB_2);
    let larger =
        files().with_file(&format!("{DATA}/postgresql.auto.conf"), "max_connections = 301");
    let held = instance_pages(&only_of(&host, &larger));
    for (source, expected) in [
        (&Dated(&larger, true, false) as &dyn hugewise_host::Source, true),
        (&Dated(&larger, false, false), false),
        (&Dated(&larger, false, true), true),
        // Nobody knows, as in a capture.
        (&larger, true),
    ] {
        let instance = only_of(&host, source);
        assert!(instance.next.is_absent(), "{:?}", instance.next);
        let more = instance.possible_demands.iter().any(|demand| demand.pages > held);
        assert_eq!(more, expected, "{:?}, holds {held}", instance.possible_demands);
    }
    // A library that shows in nothing that is mapped takes what it likes.
    let library = files().with_file(
        &format!("{DATA}/postgresql.auto.conf"),
        "shared_preload_libraries = pg_stat_statements",
    );
    let perhaps = only_of(&host, &Dated(&library, true, false)).possible_demands;
    assert!(
        perhaps.iter().any(|demand| demand.pages.get() >= held.get() * 12 / 10),
        "{perhaps:?}, holds {held}"
    );
    assert!(only_of(&host, &Dated(&library, false, false)).possible_demands.is_empty());
}

fn instance_pages(instance: &Instance) -> PageCount {
    instance.segments.iter().map(|segment| PageSize::MIB_2.pages_for(segment.size)).sum()
}

/// Memory of 1 GiB in two pages of 1 GiB, whose page size was taken out of the file since: 542
/// pages of 2 MiB, as the server says.
#[test]
fn pages_that_it_was_rounded_up_to_say_nothing_of_smaller_ones() {
    let mut instance = with_settings(PageSize::MIB_2, "shared_buffers = 1GB");
    for segment in &mut instance.segments {
        segment.size = Bytes::from_gib(2);
        segment.page_size = Observed::Known(PageSize::GIB_1);
    }
    let mut settings = ServerSettings::new(&KIND);
    settings.values.clone_from(&instance.settings);
    let next =
        predict_next_start(&instance, &settings, false, None).into_known().expect("another start");
    let [demand] = next.demands.as_slice() else { panic!("{next:?}") };
    assert_eq!((demand.at_least().pages, demand.pages), (PageCount(542), PageCount(542)));
    let none = Observed::Known(PageCount::ZERO);
    let pool = |page_size| Pool {
        page_size,
        total: none.clone(),
        free: none.clone(),
        reserved: none.clone(),
        surplus: none.clone(),
        overcommit: none.clone(),
        nodes: Vec::new(),
    };
    let pools = [PageSize::MIB_2, PageSize::GIB_1].map(pool);
    let host = Host { pools: Observed::Known(pools.into()), ..Host::default() };
    let version = instance.version.as_known().map(String::as_str);
    let on_smaller = on_smaller(&host, &instance, demand::estimate_size(&settings, version));
    assert_eq!(
        on_smaller.iter().map(|demand| (demand.page_size, demand.pages)).collect::<Vec<_>>(),
        [(PageSize::MIB_2, PageCount(542))]
    );
}

/// What PostgreSQL 15 writes of each is FATAL; it runs with what it had before.
#[test]
fn what_its_next_start_refuses_is_named_with_its_line() {
    let startup = |conf: &str| with_settings(PageSize::MIB_2, conf).startup;
    for (line, what) in [
        ("shared_buffers = 4g", "shared_buffers=4g"),
        ("shared_buffers = 100kB", "shared_buffers=100kB"),
        ("shared_buffer = 2GB", "a setting that PostgreSQL does not know"),
        ("huge_pages = t", "huge_pages=t"),
        ("max_connections = 3", "max_connections: no more than are reserved for superusers"),
    ] {
        let Some(Startup::Refuses(why)) = startup(&format!("\n{line}")) else { panic!("{line}") };
        assert!(why.starts_with(what) && why.contains(":2)"), "{why}");
    }
    for line in ["shared_buffers = 4g\nshared_buffers = 4GB", "a.b = 4g", "shared_buffers = 4GB"] {
        assert_eq!(startup(line), None, "{line}");
    }
}
