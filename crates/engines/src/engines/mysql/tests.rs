use super::*;

/// What `mariadbd --no-defaults --thread-handling=VALUE --verbose --help` of MariaDB 10.11 makes of
/// each.
#[test]
fn a_pool_of_threads_is_known_by_each_of_its_names() {
    for (value, is_one) in [
        ("pool-of-threads", true),
        ("pool", true),
        ("2", true),
        ("one-thread-per-connection", false),
        ("no-threads", false),
        ("0", false),
        ("1", false),
    ] {
        assert_eq!(is_pool(value), is_one, "{value}");
    }
}
use crate::testing;
use hugewise_host::source::MapSource;
use hugewise_model::instance::DemandSource;
use hugewise_model::{Host, HugePageUse, PageCount, PageSize};

const DATA: &str = "/var/lib/mysql";

fn mapping(at_mib: u64, kib: u64, inode: u64) -> Mapping {
    let huge = inode > 0;
    Mapping {
        start: at_mib << 20,
        end: (at_mib << 20) + (kib << 10),
        shared: false,
        accessible: true,
        offset: 0,
        device: if huge { 0x11 } else { 0 },
        inode,
        name: if huge { "/anon_hugepage (deleted)".into() } else { String::new() },
        page_size: Observed::Known(if huge { PageSize::MIB_2 } else { PageSize::KIB_4 }),
    }
}

/// The large mappings of MariaDB 10.11.19 at innodb_buffer_pool_size=512M, all else as it comes.
pub(super) fn on_base_pages() -> Vec<Mapping> {
    let reserved = Mapping { accessible: false, ..mapping(2000, 8 << 30, 0) };
    vec![
        mapping(0, 13_384, 0),
        mapping(1000, 528 << 10, 0),
        reserved,
        mapping(20_000_000, 129_312, 0),
        mapping(20_000_200, 140_436, 0),
    ]
}

/// The same with `large_pages` and a pool of 400 pages, of which the kernel says that 390 are
/// taken.
fn on_huge_pages() -> Vec<Mapping> {
    let second = Mapping { offset: 4 << 20, ..mapping(1004, 512 << 10, 7) };
    vec![
        mapping(100, 16 << 10, 5),
        mapping(200, 16 << 10, 6),
        mapping(1000, 4 << 10, 7),
        second,
        mapping(3000, 124 << 10, 8),
        mapping(3200, 23_912, 0),
        mapping(4000, 106 << 10, 9),
    ]
}

fn host(program: &str, command: &str, mappings: Vec<Mapping>) -> Host {
    let main = Process {
        pid: 50,
        name: program.into(),
        uid: 102,
        command: Observed::Known(command.split(' ').map(str::to_owned).collect()),
        executable: Observed::Known(format!("/usr/sbin/{program}")),
        directory: Observed::Known(DATA.into()),
        mappings: Observed::Known(mappings),
        ..Process::default()
    };
    Host {
        base_page: Observed::Known(PageSize::KIB_4),
        default_huge_page: Observed::Known(PageSize::MIB_2),
        processes: testing::known([main]),
        ..Host::default()
    }
}

fn only(host: &Host, source: &MapSource) -> Instance {
    let mut found = crate::find_instances(host, source);
    assert_eq!(found.instances.len(), 1);
    found.instances.remove(0)
}

pub(super) fn mariadb(mappings: Vec<Mapping>, more: &str) -> Instance {
    let source = MapSource::new()
        .with_file("/etc/mysql/my.cnf", format!("[mysqld]\ninnodb_buffer_pool_size=512M\n{more}"))
        .with_file(&format!("{DATA}/mysql_upgrade_info"), "10.11.19-MariaDB\n");
    only(&host("mariadbd", "/usr/sbin/mariadbd", mappings), &source)
}

#[test]
fn a_mariadb_on_base_pages_is_on_none() {
    let instance = mariadb(on_base_pages(), "");
    assert_eq!(instance.title(), "mariadb 3306");
    assert_eq!(instance.version, Observed::Known("10.11.19-MariaDB".into()));
    assert_eq!((instance.asked, instance.huge_pages), (HugePageMode::No, HugePageUse::None));
    assert_eq!(instance.setting.unwrap().to_string(), "large_pages=OFF (default)");
    assert_eq!(instance.segments.len(), 3);
    assert_eq!((instance.sessions, instance.max_sessions.get()), (Observed::Absent, Some(151)));
    assert_eq!(
        (instance.session_model, instance.mechanism),
        (SessionModel::Threads, Mechanism::Mmap)
    );
}

/// Pages that the kernel says are taken once MariaDB 10.11.19 runs with `large_pages`, by pool.
#[test]
fn the_estimate_keeps_to_its_error() {
    for (pool, taken) in [("64M", 163), ("512M", 387), ("1G", 643)] {
        let demand = mariadb(vec![], &format!("innodb_buffer_pool_size={pool}\n")).demand.unwrap();
        let DemandSource::Enough { least } = demand.source else { panic!("{demand:?}") };
        assert!((least.get()..=demand.pages.get()).contains(&taken), "{demand:?}");
    }
    // MySQL 8.0 asks for 66 pages for each chunk of 128 MiB, and 4 are for the keys of MyISAM.
    let source =
        MapSource::new().with_file("/etc/my.cnf", "[mysqld]\ninnodb_buffer_pool_size=1G\n");
    let demand = only(&host("mysqld", "mysqld", vec![]), &source).demand.unwrap();
    assert_eq!(demand.pages, PageCount(8 * 66 + 4));
}

#[test]
fn a_start_asks_for_one_stretch_after_the_other() {
    // 109,734,912 and 128,180,224 bytes of the caches, 1 GiB, and 16 MiB twice; the kernel may
    // place the pool so that it takes up to five pages more.
    let mut instance = mariadb(vec![], "innodb_buffer_pool_size=1G\n");
    let pages = |instance: &hugewise_model::Instance| {
        let stretches = super::demand::in_stretches(instance, hugewise_model::PageSize::MIB_2);
        stretches.map(|all| {
            all.iter().map(|one| (one.least.get(), one.most.get(), one.follows)).collect::<Vec<_>>()
        })
    };
    let expected =
        [(53, 53, false), (62, 62, false), (512, 517, false), (8, 8, true), (8, 8, true)];
    assert_eq!(pages(&instance), Some(expected.to_vec()));
    // Of a release that nobody has looked at they are not known.
    instance.version = Observed::Known("10.11.18-MariaDB".into());
    assert_eq!(pages(&instance), None);
}

#[test]
fn other_memory_does_not_make_it_partly() {
    let instance = mariadb(on_huge_pages(), "large-pages\n");
    assert_eq!((instance.asked, instance.huge_pages), (HugePageMode::Try, HugePageUse::All));
    assert_eq!(instance.segments[0].size, Bytes::from_mib(516));
    assert_eq!(instance.demand.unwrap().pages, PageCount(389));
}

/// As MariaDB 10.11.19 was seen with 64 MiB and a pool that has no place for the second log buffer.
#[test]
fn a_log_buffer_that_was_refused_makes_it_partly() {
    let settings = "large-pages\ninnodb_buffer_pool_size=64M\n";
    let held = [
        mapping(200, 16 << 10, 6),
        mapping(1000, 64 << 10, 7),
        mapping(3000, 124 << 10, 8),
        mapping(4000, 106 << 10, 9),
    ];
    let with = |more: Mapping| mariadb(held.iter().cloned().chain([more]).collect(), settings);
    let instance = with(mapping(100, 16_400, 0));
    assert_eq!(instance.huge_pages, HugePageUse::Partly, "{:#?}", instance.segments);
    assert_eq!(instance.demand.unwrap().pages, PageCount(168));
    // Nothing that could be it: the settings may have been changed since.
    assert_eq!(with(mapping(100, 12 << 10, 0)).huge_pages, HugePageUse::All);
    assert_eq!(with(mapping(100, 16 << 10, 5)).huge_pages, HugePageUse::All);
}

#[test]
fn caches_alone_on_huge_pages_are_partly() {
    let mappings =
        vec![mapping(1000, 544 << 10, 0), mapping(3000, 124 << 10, 8), mapping(4000, 106 << 10, 9)];
    assert_eq!(mariadb(mappings, "large-pages=1\n").huge_pages, HugePageUse::Partly);
}

#[test]
fn mappings_that_may_not_be_seen_leave_it_unknown() {
    let mut host = host("mariadbd", "mariadbd --no-defaults", vec![]);
    testing::processes(&mut host)[0].mappings = Observed::Denied;
    let instance = only(&host, &MapSource::new());
    assert_eq!(instance.huge_pages, HugePageUse::Unknown);
    assert!(instance.demand.is_some());
}

#[test]
fn mysql_and_mariadb_are_told_apart() {
    let engine = |program: &str, source: &MapSource| {
        only(&host(program, "/usr/sbin/mysqld", vec![]), source).engine
    };
    assert_eq!(engine("mysqld", &MapSource::new()), Engine::MySql);
    assert_eq!(engine("mariadbd", &MapSource::new()), Engine::MariaDb);
    let aria = MapSource::new().with_file(&format!("{DATA}/aria_log_control"), "");
    assert_eq!(engine("mysqld", &aria), Engine::MariaDb);
    assert_eq!(
        engine("mysqld", &MapSource::new().with_link("/usr/sbin/mysqld", "mariadbd")),
        Engine::MariaDb
    );
    let upgraded =
        MapSource::new().with_file(&format!("{DATA}/mysql_upgrade_info"), "10.3.39-MariaDB");
    assert_eq!(engine("mysqld", &upgraded), Engine::MariaDb);
}

#[test]
fn the_version_decides_what_permission_is_needed() {
    for (version, mechanism) in [
        ("5.7.44", Mechanism::SysvShm),
        ("8.0.20", Mechanism::SysvShm),
        ("8.0.36", Mechanism::Mmap),
    ] {
        let source = MapSource::new().with_file(&format!("{DATA}/mysql_upgrade_info"), version);
        let instance = only(&host("mysqld", "mysqld", vec![]), &source);
        assert_eq!((instance.engine, instance.mechanism), (Engine::MySql, mechanism), "{version}");
    }
}

#[test]
fn endpoints_and_names_come_from_the_settings() {
    let source = MapSource::new()
        .with_file("/etc/my.cnf", "[mysqld]\nport=3307\nsocket=/run/mysqld/a.sock\n");
    let instance = only(&host("mysqld", "mysqld", vec![]), &source);
    assert_eq!((instance.name.as_str(), instance.endpoints.len()), ("3307", 2));
    let instance = only(&host("mysqld", "mysqld --skip-networking --socket=/b", vec![]), &source);
    assert_eq!(instance.endpoints, ["/b"]);
    assert!(
        crate::find_instances(&host("mysqld", "mysqld --bootstrap", vec![]), &source)
            .instances
            .is_empty()
    );
}

proptest::proptest! {
    #[test]
    fn a_version_is_read_from_the_first_line(version in "(5|8|10|11)\\.[0-9]{1,2}\\.[0-9]{1,2}", rest in "(\\n[a-z ]{0,9}|\\x00|[ \\t]{0,3}\\n)?") {
        proptest::prop_assert_eq!(parse_version(format!("{version}{rest}").as_bytes()), Ok(version));
    }
}

fn next_of(mappings: Vec<Mapping>, settings: &str) -> Option<(HugePageMode, Vec<u64>, String)> {
    let next = mariadb(mappings, settings).next.into_known()?;
    let pages = next.demands.iter().map(|demand| demand.pages.get()).collect();
    Some((next.asked, pages, next.setting.map(|setting| setting.name).unwrap_or_default()))
}

#[test]
fn nothing_changed_is_no_other_start() {
    for settings in ["", "large_pages\n", "large_pages\nmax_connections=900\n"] {
        assert_eq!(next_of(on_base_pages(), settings), None, "{settings}");
    }
    // 386 pages, and what alignment may take.
    assert_eq!(next_of(on_huge_pages(), "large_pages\n"), None);
    // Less than is mapped: of private memory on base pages anything may be the server's own.
    assert_eq!(next_of(on_base_pages(), "innodb_buffer_pool_size=128M\n"), None);
}

#[test]
fn a_pool_that_was_changed_since_the_start_is_the_next_starts() {
    // The kernel says 643 pages of 1G, and alignment can take five more.
    for mappings in [on_base_pages(), on_huge_pages()] {
        let now: u64 = mariadb(mappings.clone(), "large_pages\n").demand.unwrap().pages.get();
        let changed = "large_pages\ninnodb_buffer_pool_size=1G\n";
        let (asked, pages, setting) = next_of(mappings.clone(), changed).unwrap();
        assert_eq!(
            (asked, pages, setting.as_str()),
            (HugePageMode::Try, vec![648], "innodb_buffer_pool_size")
        );
        let held = mariadb(mappings, changed).demand.unwrap().pages.get();
        assert!(held.abs_diff(now) < 20, "{held} {now}");
    }
    let (_, pages, _) =
        next_of(on_huge_pages(), "large_pages\ninnodb_buffer_pool_size=64M\n").unwrap();
    assert_eq!(pages, [168]);
    let off = (HugePageMode::No, vec![], "large_pages".to_owned());
    assert_eq!(next_of(on_huge_pages(), "large_pages=OFF\n"), Some(off));
}

#[test]
fn a_command_line_beats_the_files_and_says_so() {
    let source = MapSource::new()
        .with_file("/etc/mysql/my.cnf", "[mysqld]\nlarge_pages\n")
        .with_file("/srv/my.cnf", "[mysqld]\nlarge_pages\n")
        .with_file(&format!("{DATA}/mysql_upgrade_info"), "10.11.19-MariaDB\n");
    let started = |words: &str| {
        only(&host("mariadbd", &format!("/usr/sbin/mariadbd {words}"), on_base_pages()), &source)
    };
    for words in [
        "--skip-large-pages",
        "--large-pages=0",
        "--large_pages=OFF",
        "--loose-large-pages=0",
        "--disable-large-pages",
    ] {
        let instance = started(words);
        assert_eq!(instance.asked, HugePageMode::No, "{words}");
        assert!(instance.setting.unwrap().is_on_command_line(), "{words}");
    }
    let instance = started("--defaults-file=/srv/my.cnf");
    assert!(!instance.setting.unwrap().is_on_command_line());
    let named = &instance.settings["defaults-file"];
    assert_eq!((named.value.as_str(), named.is_on_command_line()), ("/srv/my.cnf", true));
    assert!(started("--no-defaults").settings["no-defaults"].is_on_command_line());
}

#[test]
fn files_that_may_not_be_read_leave_the_next_start_unknown() {
    let source = MapSource::new().with_denied("/etc/mysql/my.cnf");
    let instance = only(&host("mariadbd", "/usr/sbin/mariadbd", on_huge_pages()), &source);
    assert_eq!((instance.asked, instance.next), (HugePageMode::Unknown, Observed::Denied));
}

/// Of 10.11.19: the first makes it 2 GiB, the second keeps InnoDB and so the server from starting.
#[test]
fn a_size_is_what_the_server_makes_of_it_or_it_does_not_start() {
    let two = mariadb(on_base_pages(), "large_pages\ninnodb_buffer_pool_size=2GB\n");
    let next = two.next.as_known().expect("another start");
    assert!(next.demands[0].pages >= PageCount(1024), "{next:?}");
    assert_eq!(two.startup, None);
    let half = mariadb(on_base_pages(), "large_pages\ninnodb_buffer_pool_size=1.5G\n");
    let refused = "innodb_buffer_pool_size=1.5G (/etc/mysql/my.cnf:4)".to_owned();
    assert_eq!(half.startup, Some(hugewise_model::instance::Startup::Refuses(refused)));
}

#[test]
fn what_hangs_on_an_unknown_version_leaves_the_next_start_open() {
    let source = MapSource::new()
        .with_file("/etc/my.cnf", "[mysqld]\nlarge_pages\ninnodb_buffer_pool_size=1T\n");
    let instance = only(&host("mysqld", "mysqld", on_base_pages()), &source);
    let next = instance.next.as_known().expect("another start");
    assert_eq!((next.asked, next.demands.len()), (HugePageMode::Unknown, 0));
    assert_eq!(
        next.setting.as_ref().unwrap().to_string(),
        "innodb_buffer_pool_size=1T (/etc/my.cnf:3)"
    );
}
