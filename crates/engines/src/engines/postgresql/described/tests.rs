use super::super::tests::{files, host};
use super::*;
use hugewise_host::source::MapSource;
use hugewise_model::instance::{Demand, DemandSource, SessionModel};
use hugewise_model::{HugePageMode, HugePageUse, PageCount};
use proptest::prelude::*;

const DATA: &str = "/srv/sales";

/// A machine where nothing runs.
fn idle() -> Host {
    Host { processes: Observed::Known(vec![]), ..host(PageSize::KIB_4) }
}

fn source(config: &str) -> MapSource {
    MapSource::new()
        .with_file("/srv/sales/PG_VERSION", "16\n")
        .with_file("/srv/sales/postgresql.conf", config)
}

fn by_folder(source: &MapSource) -> Result<Described, DescribeError> {
    describe_postgresql(&idle(), source, Some(DATA), None, None, true)
}

fn by_config(source: &MapSource, path: &str) -> Result<Described, DescribeError> {
    describe_postgresql(&idle(), source, None, Some(path), None, true)
}

#[test]
fn a_data_directory_tells_what_its_server_will_need() {
    let source = source(
        "shared_buffers = 6GB\nmax_connections = 300\nhuge_pages = on\ninclude_dir = 'conf.d'\n",
    )
    .with_file("/srv/sales/conf.d/a.conf", "max_connections = 400\n")
    .with_file("/srv/sales/postgresql.auto.conf", "cluster_name = 'sales'\n");
    let described = by_folder(&source).unwrap();
    let instance = described.instance;
    assert_eq!((instance.pid, instance.pids.len()), (0, 0));
    assert_eq!(instance.title(), "postgresql sales");
    assert_eq!(instance.version, Observed::Known("16".into()));
    assert_eq!(instance.data_directory, Observed::Known(DATA.into()));
    assert_eq!((instance.asked, instance.huge_pages), (HugePageMode::Must, HugePageUse::Unknown));
    assert_eq!((instance.max_sessions.get(), instance.sessions.get()), (Some(400), None));
    assert_eq!(instance.session_model, SessionModel::Processes);
    let demand = instance.demand.unwrap();
    // PostgreSQL 16.14 says 3158.
    let truth = PageCount(3158);
    assert!(
        demand.page_size == PageSize::MIB_2
            && (demand.at_least().pages..=demand.pages).contains(&truth),
        "{demand:?}"
    );
    assert!(demand.pages.get() - demand.at_least().pages.get() <= 2, "{demand:?}");
    let [segment] = &instance.segments[..] else { panic!("one segment") };
    assert_eq!(PageSize::MIB_2.pages_for(segment.size), truth);
    assert_eq!((segment.mappers, segment.huge.clone()), (0, Observed::Absent));
    // The host of the test is no live one.
    assert_eq!(described.unread[0].why.to_string(), "a captured host cannot be asked");
}

#[test]
fn a_page_size_of_its_own_counts() {
    let demand = by_folder(&source("shared_buffers = 6GB\nhuge_page_size = 1GB\n"))
        .unwrap()
        .instance
        .demand
        .unwrap();
    assert_eq!((demand.page_size, demand.pages), (PageSize::GIB_1, PageCount(7)));
}

#[test]
fn system_v_memory_never_is_on_huge_pages() {
    let instance = by_folder(&source("shared_memory_type = sysv\n")).unwrap().instance;
    assert_eq!(instance.asked, HugePageMode::Cannot);
}

#[test]
fn libraries_are_named_where_nobody_could_ask() {
    let described = by_folder(&source("shared_preload_libraries = 'timescaledb'\n")).unwrap();
    assert!(described.unread[0].why.to_string().contains("timescaledb"), "{:?}", described.unread);
    let DemandSource::Estimated { error_percent } = described.instance.demand.unwrap().source
    else {
        panic!()
    };
    assert!(error_percent >= 25, "{error_percent}");
}

#[test]
fn a_running_server_speaks_for_itself() {
    let described = describe_postgresql(
        &host(PageSize::KIB_4),
        &files(),
        Some("/var/lib/postgresql/15/main/"),
        None,
        None,
        true,
    );
    let instance = described.unwrap().instance;
    assert_eq!(instance.pid, 100);
    let measured = Demand {
        page_size: PageSize::MIB_2,
        pages: PageCount(3156),
        source: DemandSource::Measured,
    };
    assert_eq!(instance.demand, Some(measured));
}

#[test]
fn debian_keeps_the_configuration_elsewhere() {
    let described = describe_postgresql(
        &idle(),
        &files(),
        Some("/var/lib/postgresql/15/main"),
        None,
        None,
        false,
    )
    .unwrap();
    assert_eq!(described.instance.title(), "postgresql 15/main");
    assert_eq!(described.instance.setting_value("shared_buffers"), Some("6GB"));
    // And from there it leads back to the data.
    let described = by_config(&files(), "/etc/postgresql/15/main/postgresql.conf").unwrap();
    assert_eq!(
        described.instance.data_directory,
        Observed::Known("/var/lib/postgresql/15/main".into())
    );
    assert_eq!(described.instance.version, Observed::Known("15".into()));
}

#[test]
fn a_configuration_alone_is_enough() {
    let source = MapSource::new().with_file("/etc/pg/new.conf", "shared_buffers = 1GB\n");
    let described = by_config(&source, "/etc/pg/new.conf").unwrap();
    assert!(
        described.instance.data_directory.is_absent() && described.instance.version.is_absent()
    );
    assert_eq!(
        described.instance.demand.unwrap().source,
        DemandSource::Estimated { error_percent: 10 }
    );
    let folder = MapSource::new().with_file("/etc/pg/postgresql.conf", "");
    let described =
        describe_postgresql(&idle(), &folder, Some("/etc/pg"), None, None, true).unwrap();
    assert_eq!(described.instance.setting_value("shared_buffers"), Some("128MB"));
}

#[test]
fn bad_input_is_named_by_file_and_line() {
    let says = |described: Result<Described, DescribeError>| described.unwrap_err().to_string();
    for (config, error) in [
        (
            "a = 1\ninclude 'postgresql.conf'\n",
            "/srv/sales/postgresql.conf:2: includes /srv/sales/postgresql.conf in a circle",
        ),
        (
            "\ninclude 'no.conf'\n",
            "/srv/sales/postgresql.conf:2: includes /srv/sales/no.conf and it is not there",
        ),
        (
            "\n\nshared_buffers 1GB 2GB\n",
            "/srv/sales/postgresql.conf:3: shared_buffers has more than one value",
        ),
        ("shared_buffers = 6XB\n", "/srv/sales/postgresql.conf:1: shared_buffers is \"6XB\""),
        (
            "shared_buffers = 0\n",
            "/srv/sales/postgresql.conf:1: shared_buffers is \"0\"; it is at least 128kB",
        ),
        ("shared_buffers = -6GB\n", "/srv/sales/postgresql.conf:1: shared_buffers is \"-6GB\""),
        (
            "shared_buffers = 99999999999999999999GB\n",
            "/srv/sales/postgresql.conf:1: shared_buffers is",
        ),
        (
            "wal_buffers = 9223372036854775808B\n",
            "/srv/sales/postgresql.conf:1: wal_buffers is \"9223372036854775808B\"; that is more",
        ),
        ("max_connections = 0\n", "/srv/sales/postgresql.conf:1: max_connections is \"0\""),
        (
            "max_connections = many\n",
            "/srv/sales/postgresql.conf:1: max_connections has an invalid value",
        ),
        ("max_wal_senders = 4294967296\n", "/srv/sales/postgresql.conf:1: max_wal_senders is"),
    ] {
        let text = says(by_folder(&source(config)));
        assert!(text.starts_with(error) && text.contains("; "), "{text}");
    }
    assert!(by_folder(&source("wal_buffers = -1\nmax_wal_senders = 0\n")).is_ok());
    let none = MapSource::new();
    assert_eq!(
        says(by_folder(&none)),
        "/srv/sales: no such folder; name the folder that initdb made"
    );
    let folder = MapSource::new().with_file("/srv/sales/notes.txt", "");
    assert!(says(by_folder(&folder)).starts_with("/srv/sales: not a PostgreSQL data directory"));
    let denied = MapSource::new().with_denied("/srv/sales/PG_VERSION");
    assert_eq!(
        says(by_folder(&denied)),
        "/srv/sales/PG_VERSION: denied; run as root or as the server's owner"
    );
    let odd = MapSource::new().with_file("/srv/sales/PG_VERSION", "not at all\n");
    assert!(says(by_folder(&odd)).starts_with("/srv/sales/PG_VERSION:1: no version"));
    let bare = MapSource::new().with_file("/srv/sales/PG_VERSION", "16\n");
    assert!(says(by_folder(&bare)).contains("name it with --config"));
    assert!(
        says(by_config(&none, "/etc/pg.conf"))
            .starts_with("/etc/pg.conf: the server's configuration is not there")
    );
    assert!(says(by_config(&none, "pg.conf")).contains("absolute"));
    let elsewhere = MapSource::new().with_file("/etc/pg.conf", "\ndata_directory = '/gone'\n");
    assert!(
        says(by_config(&elsewhere, "/etc/pg.conf"))
            .starts_with("/etc/pg.conf:2: data_directory \"/gone\" is not there")
    );
    assert!(
        says(describe_postgresql(&idle(), &none, None, None, None, true)).contains("--data-dir")
    );
}

proptest! {
    #[test]
    fn whatever_is_configured_fits_into_its_pages(config: String, name in 0_usize..9, value: String) {
        let one = format!("{} = '{value}'\n", COUNTS[name]);
        let other = format!("{} = '{value}'\n", SIZES[name % 5].0);
        for config in [config, one, other] {
            let Ok(described) = by_folder(&source(&config)) else { continue };
            let Some(demand) = described.instance.demand else { continue };
            let size = described.instance.segments[0].size;
            prop_assert!(demand.pages.to_bytes(demand.page_size) >= size && size > Bytes::ZERO, "{config:?}: {demand:?}, {size}");
        }
    }
}
