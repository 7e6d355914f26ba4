use hugewise_host::source::map::MapSource;
use hugewise_model::host::SysvSegment;
use hugewise_model::process::Namespaces;
use hugewise_model::{Demand, Level, PageCount, PageSize, Trait};

use super::processes::is_server_of;
use super::*;
use crate::testing;

const HOME: &str = "/u01/app/oracle/product/19.3.0/dbhome_1";

fn process(pid: u32, uid: u32, title: &str) -> Process {
    Process {
        pid,
        uid,
        name: title.chars().take(15).collect(),
        command: Observed::Known(vec![title.into()]),
        executable: Observed::Known(format!("{HOME}/bin/oracle")),
        page_tables: Observed::Known(Bytes::from_mib(1)),
        ..Process::default()
    }
}

fn segment(shmid: u64, mib: u64, page: PageSize) -> Mapping {
    Mapping {
        start: 0x6000_0000 + (shmid << 32),
        end: 0x6000_0000 + (shmid << 32) + (mib << 20),
        shared: true,
        accessible: true,
        offset: 0,
        device: 1,
        inode: shmid,
        name: "/SYSV00000000 (deleted)".into(),
        page_size: Observed::Known(page),
    }
}

fn with(mut process: Process, mappings: Vec<Mapping>) -> Process {
    process.mappings = Observed::Known(mappings);
    process
}

fn host(mut processes: Vec<Process>) -> Host {
    processes.sort_by_key(|process| process.pid);
    Host {
        base_page: Observed::Known(PageSize::KIB_4),
        default_huge_page: Observed::Known(PageSize::MIB_2),
        processes: testing::known(processes),
        ..Host::default()
    }
}

fn found(host: &Host, source: &MapSource) -> FoundInstances {
    let mut found = FoundInstances::default();
    find_oracle_instances(&EngineContext::new(host, source), &mut found);
    found
}

fn only(host: &Host, source: &MapSource) -> Instance {
    let mut instances = found(host, source).instances;
    assert_eq!(instances.len(), 1);
    instances.remove(0)
}

fn init(sid: &str, text: &str) -> MapSource {
    MapSource::new().with_file(&format!("{HOME}/dbs/init{sid}.ora"), text)
}

#[test]
fn titles_fall_into_their_parts() {
    let parts =
        |title| OracleProcessTitle::parse(title).map(|title| (title.prefix, title.task, title.sid));
    assert_eq!(parts("ora_pmon_PROD"), Some(("ora", "pmon", "PROD")));
    assert_eq!(parts("db_pmon_FREE"), Some(("db", "pmon", "FREE")));
    assert_eq!(parts("asm_pmon_+ASM1"), Some(("asm", "pmon", "+ASM1")));
    assert_eq!(parts("mdb_pmon_-MGMTDB"), Some(("mdb", "pmon", "-MGMTDB")));
    assert_eq!(parts("ora_pmon_dw_test_2"), Some(("ora", "pmon", "dw_test_2")));
    assert_eq!(parts("ora_p00a_X"), Some(("ora", "p00a", "X")));
    for other in [
        "ora_pmon_",
        "ora_pmon",
        "grep ora_pmon_X",
        "ora_pmon_a b",
        "python3_pmon_x y",
        "_pmon_X",
        "",
    ] {
        assert_eq!(parts(other), None, "{other}");
    }
    assert!(is_server_of("oraclePROD (LOCAL=NO)", "PROD"));
    assert!(is_server_of("oraclePROD", "PROD"));
    assert!(is_server_of("oracle+ASM_asmb_prod (DESCRIPTION=(LOCAL=YES))", "+ASM"));
    assert!(!is_server_of("oraclePROD2 (LOCAL=NO)", "PROD"));
    assert!(!is_server_of("oraclePROD_2 (LOCAL=NO)", "PROD"));
}

#[test]
fn an_instance_has_its_processes_sessions_and_segments() {
    let base = |id, mib| segment(id, mib, PageSize::KIB_4);
    let sga = || vec![base(11, 10), base(12, 801)];
    let host = host(vec![
        with(process(100, 54321, "ora_pmon_PROD"), sga()),
        with(process(101, 54321, "ora_dbw0_PROD"), sga()),
        Process { parent: 100, ..with(process(108, 54321, "ora_pmon_PROD"), sga()) },
        with(process(102, 54321, "ora_s000_PROD"), sga()),
        with(process(103, 54321, "oraclePROD (LOCAL=NO)"), sga()),
        with(
            process(104, 54321, "oraclePROD (DESCRIPTION=(LOCAL=YES)(ADDRESS=(PROTOCOL=beq)))"),
            sga(),
        ),
        with(process(105, 54321, "extproc"), vec![base(12, 801)]),
        process(106, 54321, "tnslsnr"),
        with(process(107, 0, "monitor"), vec![base(12, 801)]),
    ]);
    let prod = only(&host, &init("PROD", "*.processes=1000\nsga_target=800M\ndb_password='x'\n"));
    assert_eq!((prod.name.as_str(), prod.pid), ("PROD", 100));
    assert_eq!(prod.pids, [100, 101, 102, 103, 104, 105, 108]);
    assert_eq!((prod.sessions, prod.max_sessions), (Observed::Known(2), Observed::Known(1000)));
    assert_eq!(prod.version, Observed::Known("19.3.0".into()));
    assert_eq!(prod.owner, "54321");
    assert_eq!(prod.page_tables, Observed::Known(Bytes::from_mib(7)));
    assert_eq!(prod.huge_pages, HugePageUse::None);
    assert_eq!((prod.segments[0].size, prod.segments[0].mappers), (Bytes::from_mib(801), 7));
    // ceil(801/2) + ceil(10/2)
    assert_eq!(prod.demand.map(|demand| demand.pages), Some(PageCount(406)));
    assert_eq!(
        (prod.asked, prod.setting.map(|setting| setting.to_string())),
        (HugePageMode::Try, Some("use_large_pages=TRUE (default)".into()))
    );
    assert_eq!(
        prod.settings["sga_target"].to_string(),
        format!("sga_target=800M ({HOME}/dbs/initPROD.ora:2)")
    );
    assert!(!prod.settings.contains_key("db_password"));
}

#[test]
fn neighbours_stay_apart() {
    let one = |id| vec![segment(id, 64, PageSize::KIB_4)];
    let mut contained = with(process(60, 1001, "ora_pmon_B"), one(1));
    contained.namespaces = Namespaces { ipc: Observed::Known(9), ..Namespaces::default() };
    let mut here = host(vec![
        with(process(10, 1001, "ora_pmon_A_B"), one(1)),
        with(process(11, 1001, "ora_smon_A_B"), one(1)),
        with(process(12, 1001, "oracleA_B (LOCAL=NO)"), one(1)),
        with(process(20, 1001, "ora_pmon_B"), one(2)),
        with(process(21, 1001, "ora_smon_B"), one(2)),
        with(process(30, 1002, "ora_pmon_B"), one(3)),
        with(process(31, 1002, "oracleB (LOCAL=NO)"), one(3)),
        with(process(40, 1003, "asm_pmon_+ASM2"), one(4)),
        with(process(41, 1003, "oracle+ASM2_asmb_b2 (DESCRIPTION=(LOCAL=YES))"), one(4)),
        with(process(50, 1003, "mdb_pmon_-MGMTDB"), one(5)),
        contained,
    ]);
    here.namespaces.ipc = Observed::Known(1);
    for process in testing::processes(&mut here) {
        if !process.namespaces.ipc.is_known() {
            process.namespaces.ipc = Observed::Known(1);
        }
    }
    let found = found(&here, &MapSource::new());
    let seen: Vec<_> = found
        .instances
        .iter()
        .map(|instance| (instance.name.as_str(), instance.pids.clone(), instance.traits.clone()))
        .collect();
    assert_eq!(
        seen,
        [
            ("A_B", vec![10, 11, 12], vec![]),
            ("B", vec![20, 21], vec![]),
            ("B", vec![30, 31], vec![]),
            ("+ASM2", vec![40, 41], vec![Trait::Asm]),
            ("-MGMTDB", vec![50], vec![Trait::Gimr]),
            ("B", vec![60], vec![]),
        ]
    );
    assert!(
        found
            .instances
            .iter()
            .all(|instance| instance.asked == HugePageMode::Unknown && instance.setting.is_none())
    );
    assert!(found.unread.iter().any(|unread| unread.what == "parameters of oracle +ASM2"
        && unread.why.to_string().contains("srvctl")));
}

#[test]
fn each_value_of_use_large_pages_has_its_meaning() {
    let host = host(vec![with(process(1, 1, "ora_pmon_X"), vec![segment(1, 8, PageSize::MIB_2)])]);
    for (value, asked) in [
        ("false", HugePageMode::No),
        ("TRUE", HugePageMode::Try),
        ("only", HugePageMode::Must),
        ("AUTO", HugePageMode::Raises),
        ("'AUTO_ONLY'", HugePageMode::Raises),
        ("maybe", HugePageMode::Unknown),
    ] {
        let instance = only(&host, &init("X", &format!("*.use_large_pages={value}\n")));
        assert_eq!(instance.asked, asked, "{value}");
        assert_eq!(instance.huge_pages, HugePageUse::All);
    }
}

#[test]
fn a_spfile_comes_before_a_text_file_and_a_sid_before_a_star() {
    let host = host(vec![process(1, 1, "ora_pmon_RAC1")]);
    let spfile = parameters::tests::build_spfile(
        "*.use_large_pages='TRUE'\nRAC1.use_large_pages='ONLY'\nRAC2.use_large_pages='FALSE'\n",
    );
    let source = init("RAC1", "use_large_pages=FALSE\n")
        .with_file(&format!("{HOME}/dbs/spfileRAC1.ora"), spfile);
    assert_eq!(only(&host, &source).asked, HugePageMode::Must);
}

#[test]
fn a_pointer_is_followed_and_a_loop_ends() {
    let host = host(vec![process(1, 1, "ora_pmon_P")]);
    let elsewhere = parameters::tests::build_spfile("*.use_large_pages='ONLY'\n*.processes=77\n");
    let source = init("P", "use_large_pages=FALSE\nspfile='/u02/spfileP.ora'\nprocesses=99\n")
        .with_file("/u02/spfileP.ora", elsewhere);
    let instance = only(&host, &source);
    assert_eq!((instance.asked, instance.max_sessions), (HugePageMode::Must, Observed::Known(99)));

    let source = init("P", "ifile=?/dbs/initP.ora\n");
    let looped = found(&host, &source);
    assert_eq!(looped.instances[0].asked, HugePageMode::Unknown);
    assert!(looped.unread.iter().any(|unread| unread.why.to_string().contains("loop")));
}

#[test]
fn what_cannot_be_read_is_said_and_leaves_the_question_open() {
    let host = host(vec![process(1, 1, "ora_pmon_P")]);
    for (source, why) in [
        (init("P", "SPFILE='+DATA/P/spfileP.ora'\n"), "in ASM"),
        (init("P", "spfile=/u02/gone.ora\n"), "does not exist"),
        (MapSource::new().with_denied(&format!("{HOME}/dbs/spfileP.ora")), "denied"),
        (
            MapSource::new().with_file(&format!("{HOME}/dbs/spfileP.ora"), b"C\"\0\0"),
            "within a block",
        ),
        (MapSource::new(), "CREATE PFILE"),
    ] {
        let found = found(&host, &source);
        assert_eq!(found.instances[0].asked, HugePageMode::Unknown, "{why}");
        assert!(
            found.unread.iter().any(|unread| unread.why.to_string().contains(why)),
            "{why}: {:?}",
            found.unread
        );
    }
}

/// A cluster's database has its server parameter file in ASM: what it started with stands in its
/// alert log. What the text file beside it says holds too.
#[test]
fn what_no_file_says_the_last_start_does() {
    let host = host(vec![process(1, 1, "ora_pmon_PROD1")]);
    let log = "/u01/app/oracle/diag/rdbms/prod/PROD1/trace/alert_PROD1.log";
    let text = "2026-03-02T10:00:00.000000+01:00\nStarting ORACLE instance (normal) (OS id: 4711)\n\
                System parameters with non-default values:\n  processes                = 300\n  \
                sga_target               = 8G\n  use_large_pages          = \"ONLY\"\nALTER \
         DATABASE OPEN\n";
    let source = init("PROD1", "SPFILE='+DATA/PROD/spfilePROD.ora'\n").with_file(log, text);
    let found = found(&host, &source);
    let instance = &found.instances[0];
    assert_eq!((instance.asked, instance.max_sessions.get()), (HugePageMode::Must, Some(300)));
    let place = instance.setting.as_ref().unwrap().place.as_ref().unwrap();
    assert_eq!(place.file, format!("{log}, last start of 2026-03-02T10:00:00.000000+01:00"));
    // That the file itself was not read is said all the same.
    assert!(
        found.unread.iter().any(|unread| unread.why.to_string().contains("in ASM")),
        "{:?}",
        found.unread
    );
}

/// Oracle Database 21c Installation Guide, "About Read-Only Oracle Homes".
#[test]
fn a_read_only_home_has_its_parameters_below_the_base() {
    let host = host(vec![process(1, 1, "ora_pmon_PROD")]);
    let table = format!("{HOME}:/u01/app/oracle:OraDB19Home1:Y:\n");
    let source = MapSource::new()
        .with_file(&format!("{HOME}/install/orabasetab"), &table)
        .with_file("/u01/app/oracle/dbs/initPROD.ora", "use_large_pages=ONLY\n")
        .with_file(&format!("{HOME}/dbs/initPROD.ora"), "use_large_pages=FALSE\n");
    assert_eq!(only(&host, &source).asked, HugePageMode::Must);
}

#[test]
fn automatic_memory_management_is_seen_in_its_files_or_else_in_its_settings() {
    let granule = |inode| Mapping {
        name: format!("/dev/shm/ora_P_32769_{inode}"),
        page_size: Observed::Absent,
        ..segment(inode, 16, PageSize::KIB_4)
    };
    let small = || segment(1, 1, PageSize::KIB_4);
    let mapped = host(vec![with(
        process(1, 1, "ora_pmon_P"),
        vec![small(), granule(2), granule(3), granule(4)],
    )]);
    let instance = only(&mapped, &init("P", "memory_target=1G\nuse_large_pages=ONLY\n"));
    assert_eq!((instance.asked, instance.traits), (HugePageMode::Cannot, vec![Trait::Amm]));
    assert_eq!(instance.setting.unwrap().name, "memory_target");
    assert_eq!(
        (instance.segments[0].size, instance.segments[0].kind),
        (Bytes::from_mib(48), SegmentKind::Posix)
    );
    assert_eq!((instance.huge_pages, instance.demand), (HugePageUse::None, None));

    let unseen = host(vec![process(1, 1, "ora_pmon_P")]);
    assert_eq!(only(&unseen, &init("P", "memory_target=1G\n")).asked, HugePageMode::Cannot);
    assert_eq!(only(&unseen, &init("P", "memory_target=0\n")).asked, HugePageMode::Try);
    // The file is of the next start: this instance has no such files.
    let without =
        host(vec![with(process(1, 1, "ora_pmon_P"), vec![segment(9, 64, PageSize::MIB_2)])]);
    assert_eq!(only(&without, &init("P", "memory_target=1G\n")).asked, HugePageMode::Try);
}

#[test]
fn a_replaced_executable_and_an_unreadable_command_line_hide_nothing() {
    let mut pmon = process(1, 1, "ora_pmon_P");
    pmon.command = Observed::Denied;
    pmon.executable = Observed::Known(format!("{HOME}/bin/oracle (deleted)"));
    let instance = only(&host(vec![pmon.clone()]), &init("P", "use_large_pages=ONLY\n"));
    assert_eq!((instance.name.as_str(), instance.asked), ("P", HugePageMode::Must));
    pmon.command = Observed::Known(vec!["ora_pmon_\u{fffd}".into()]);
    assert!(found(&host(vec![pmon.clone()]), &MapSource::new()).instances.is_empty());
    pmon.command = Observed::Known(vec!["ora_pmon_P".into()]);
    pmon.executable = Observed::Denied;
    let blind = only(&host(vec![pmon]), &MapSource::new());
    assert_eq!(
        (blind.asked, blind.huge_pages, blind.version),
        (HugePageMode::Unknown, HugePageUse::Unknown, Observed::Absent)
    );
}

#[test]
fn part_of_an_sga_on_huge_pages_is_partly() {
    let mapped = vec![segment(1, 8, PageSize::MIB_2), segment(2, 902, PageSize::KIB_4)];
    let instance =
        only(&host(vec![with(process(1, 1, "db_pmon_FREE"), mapped)]), &MapSource::new());
    assert_eq!(instance.huge_pages, HugePageUse::Partly);
}

#[test]
fn a_key_of_a_few_kib_on_base_pages_leaves_the_sga_wholly_on_huge_pages() {
    let mut key = segment(3, 0, PageSize::KIB_4);
    key.end = key.start + (24 << 10);
    let sga = vec![segment(1, 800, PageSize::MIB_2), segment(2, 10, PageSize::MIB_2), key];
    let prod =
        only(&host(vec![with(process(100, 54321, "ora_pmon_PROD"), sga)]), &MapSource::new());
    assert_eq!((prod.huge_pages, prod.segments.len()), (HugePageUse::All, 3));
}

/// A sosreport has no maps: the segments of the user, and the huge pages that the processes have
/// touched.
#[test]
fn without_maps_the_kernel_s_list_and_what_was_touched_tell() {
    let touched = |pid, title: &str, huge, base| Process {
        hugetlb: Observed::Known(Bytes::from_mib(huge)),
        rss_shmem: Observed::Known(Bytes::from_mib(base)),
        ..process(pid, 54321, title)
    };
    let listed = |id, mib, creator| SysvSegment {
        id,
        key: 0,
        mode: 0o600,
        size: Bytes::from_mib(mib),
        creator,
        attached: 2,
        uid: 54321,
        gid: 0,
        rss: Observed::Known(Bytes::from_mib(mib)),
        swap: Observed::Absent,
    };
    let report = |processes| Host {
        sysv_segments: Observed::Known(vec![listed(7, 10, 100), listed(8, 800, 100)]),
        ..host(processes)
    };
    let both = |huge, base| {
        vec![
            touched(100, "ora_pmon_PROD", huge / 2, base),
            touched(101, "ora_dbw0_PROD", huge, base),
        ]
    };

    let on_huge = only(&report(both(810, 0)), &MapSource::new());
    assert_eq!(
        (on_huge.huge_pages, on_huge.segment_bytes()),
        (HugePageUse::All, Bytes::from_mib(810))
    );
    assert_eq!(on_huge.segments[0].page_size, Observed::Known(PageSize::MIB_2));
    assert_eq!(only(&report(both(0, 300)), &MapSource::new()).huge_pages, HugePageUse::None);
    // More of it is resident than anybody has touched of base pages; then as much.
    assert_eq!(only(&report(both(6, 1)), &MapSource::new()).huge_pages, HugePageUse::All);
    assert_eq!(only(&report(both(6, 9)), &MapSource::new()).huge_pages, HugePageUse::Unknown);

    // Of two instances of one user, each has what its own processes made.
    let mut two = both(810, 0);
    two.push(touched(200, "ora_pmon_TEST", 0, 5));
    let found = found(&report(two), &MapSource::new());
    let sizes: Vec<_> = found
        .instances
        .iter()
        .map(|instance| (instance.segment_bytes(), instance.huge_pages))
        .collect();
    assert_eq!(
        sizes,
        [(Bytes::from_mib(810), HugePageUse::All), (Bytes::ZERO, HugePageUse::Unknown)]
    );
}

/// A database of these segments on these pages, with these parameters.
fn prod(segments: Vec<Mapping>, parameters: &str) -> Instance {
    only(
        &host(vec![with(process(100, 54321, "ora_pmon_PROD"), segments)]),
        &init("PROD", parameters),
    )
}

/// 19c with sga_target=1504M: the fixed part and 188 granules of 8 MiB, as an alert log has them.
fn sga(page: PageSize) -> Vec<Mapping> {
    vec![segment(11, 10, page), segment(12, 1504, page)]
}

#[test]
fn pages_of_two_sizes_are_counted_by_size() {
    // 1 GiB and 300 MiB: one page of the one and 150 of the other, not 662 of 2 MiB.
    let mixed = vec![segment(1, 1024, PageSize::GIB_1), segment(2, 300, PageSize::MIB_2)];
    let instance = prod(mixed, "sga_target=1300M\n");
    let measured = |page_size, pages| Demand {
        page_size,
        pages: PageCount(pages),
        source: hugewise_model::DemandSource::Measured,
    };
    assert_eq!(instance.demand, Some(measured(PageSize::MIB_2, 150)));
    assert_eq!(instance.other_demands, [measured(PageSize::GIB_1, 1)]);
    assert_eq!(instance.huge_pages, HugePageUse::All);
    // What is on base pages counts in the pages that it asks for.
    let mixed = vec![segment(1, 1024, PageSize::GIB_1), segment(2, 300, PageSize::KIB_4)];
    let instance = prod(mixed, "sga_target=1300M\n");
    assert_eq!(
        (instance.demand, instance.other_demands.len()),
        (Some(measured(PageSize::MIB_2, 150)), 1)
    );
    let whole = prod(vec![segment(1, 1024, PageSize::GIB_1)], "sga_target=1G\n");
    assert_eq!((whole.demand, whole.other_demands), (Some(measured(PageSize::GIB_1, 1)), vec![]));
}

#[test]
fn parameters_that_were_not_changed_are_no_other_start() {
    for page in [PageSize::KIB_4, PageSize::MIB_2] {
        for parameters in
            ["sga_target=1504M\n", "sga_max_size=1504M\nsga_target=1G\n", "processes=100\n"]
        {
            assert!(prod(sga(page), parameters).next.is_absent(), "{page} {parameters}");
        }
    }
    assert!(
        prod(sga(PageSize::MIB_2), "sga_target=1504M\nuse_large_pages=ONLY\n").next.is_absent()
    );
    assert!(
        prod(sga(PageSize::KIB_4), "sga_target=1504M\nuse_large_pages=FALSE\n").next.is_absent()
    );
}

#[test]
fn parameters_that_were_changed_are_the_next_starts() {
    let next = |page, parameters: &str| {
        let next = prod(sga(page), parameters).next.into_known().unwrap();
        let pages: Vec<_> =
            next.demands.iter().map(|demand| (demand.page_size, demand.pages.get())).collect();
        (next.asked, next.setting.map(|setting| setting.name).unwrap_or_default(), pages)
    };
    for page in [PageSize::KIB_4, PageSize::MIB_2] {
        // 34 GiB are 17,408 pages, and four to spare.
        let larger = (HugePageMode::Try, "sga_target".to_owned(), vec![(PageSize::MIB_2, 17_412)]);
        assert_eq!(next(page, "sga_target=34G\n"), larger);
        let most = (HugePageMode::Try, "sga_max_size".to_owned(), vec![(PageSize::MIB_2, 17_412)]);
        assert_eq!(next(page, "sga_target=1504M\nsga_max_size=34G\n"), most);
        assert_eq!(
            next(page, "memory_target=4G\n"),
            (HugePageMode::Cannot, "memory_target".to_owned(), vec![])
        );
    }
    let off = (HugePageMode::No, "use_large_pages".to_owned(), vec![]);
    assert_eq!(next(PageSize::MIB_2, "sga_target=1504M\nuse_large_pages=FALSE\n"), off);
    let (asked, setting, pages) = next(PageSize::KIB_4, "sga_target=1504M\nuse_large_pages=ONLY\n");
    assert_eq!((asked, setting.as_str(), pages.len()), (HugePageMode::Must, "use_large_pages", 1));

    let amm = Mapping { name: "/dev/shm/ora_PROD_1_0".into(), ..segment(5, 1504, PageSize::KIB_4) };
    let then =
        prod(vec![amm.clone()], "sga_target=34G\nmemory_target=0\n").next.into_known().unwrap();
    assert_eq!((then.asked, then.demands[0].pages), (HugePageMode::Try, PageCount(17_412)));
    assert!(prod(vec![amm], "memory_target=2G\n").next.is_absent());
}

/// The managed global area lies in files under /dev/shm as well (12.2 and later): what holds the
/// SGA decides.
#[test]
fn files_beside_a_system_v_sga_are_no_automatic_memory_management() {
    let mga = || Mapping {
        inode: 900,
        device: 2,
        name: "/dev/shm/ora_PROD_425990_0".into(),
        ..segment(900, 16, PageSize::KIB_4)
    };
    let huge = |id, mib| segment(id, mib, PageSize::MIB_2);
    let host_of =
        |mappings: Vec<Mapping>| host(vec![with(process(100, 54321, "ora_pmon_PROD"), mappings)]);
    let beside = only(
        &host_of(vec![huge(11, 10), huge(12, 800), mga()]),
        &init("PROD", "sga_target=800M\n"),
    );
    assert_eq!((beside.huge_pages, beside.asked), (HugePageUse::All, HugePageMode::Try));
    assert!(!beside.traits.contains(&Trait::Amm), "{:?}", beside.traits);
    assert_eq!(beside.demand.map(|demand| demand.pages), Some(PageCount(405)));
    // The key to an SGA under automatic memory management is a segment of a page.
    let key = Mapping {
        end: segment(13, 0, PageSize::KIB_4).start + 4096,
        ..segment(13, 0, PageSize::KIB_4)
    };
    let amm = only(&host_of(vec![key, mga()]), &init("PROD", "memory_target=1G\n"));
    assert_eq!((amm.huge_pages, amm.asked), (HugePageUse::None, HugePageMode::Cannot));
    assert!(amm.traits.contains(&Trait::Amm));
}

fn in_home(home: &str) -> Host {
    let mut pmon =
        with(process(100, 54321, "ora_pmon_PROD"), vec![segment(12, 800, PageSize::KIB_4)]);
    pmon.executable = Observed::Known(format!("{home}/bin/oracle"));
    host(vec![pmon])
}

/// USE_LARGE_PAGES came with 11.2.0.2 (Oracle Database Reference 11.2).
#[test]
fn an_older_release_is_told_of_no_parameter_that_it_has_not() {
    for (version, knows) in
        [("10.2.0.4", false), ("11.2.0.1", false), ("11.2.0.2", true), ("19.3.0", true)]
    {
        let home = format!("/u01/app/oracle/product/{version}/db_1");
        let file =
            MapSource::new().with_file(&format!("{home}/dbs/initPROD.ora"), "sga_target=800M\n");
        let found = only(&in_home(&home), &file);
        assert_eq!((found.asked, found.setting.is_some()), (HugePageMode::Try, knows), "{version}");
        assert_eq!(KIND.settings.insisting_setting(&found).is_some(), knows, "{version}");
    }
}

/// MOS 3081878.1: from 19.27 on an Exadata database server starts with AUTO_ONLY and ONLY alone.
#[test]
fn exadata_refuses_what_falls_back() {
    let home = "/u01/app/oracle/product/19.27.0.0/dbhome_1";
    let startup = |home: &str, value: &str, exadata: bool| {
        let mut source = MapSource::new().with_file(
            &format!("{home}/dbs/initPROD.ora"),
            format!("use_large_pages={value}\n").as_str(),
        );
        if exadata {
            source = source.with_file(releases::CELLS, "ipaddress1=192.168.10.1/22\n");
        }
        only(&in_home(home), &source).startup
    };
    for value in ["TRUE", "false", "AUTO"] {
        assert!(
            matches!(startup(home, value, true), Some(Startup::Refuses(why)) if why.contains("Exadata")),
            "{value}"
        );
        assert_eq!(startup(home, value, false), None, "{value}");
    }
    for value in ["ONLY", "AUTO_ONLY"] {
        assert_eq!(startup(home, value, true), None, "{value}");
    }
    assert_eq!(startup("/u01/app/oracle/product/19.11.0.0/dbhome_1", "TRUE", true), None);
}

/// Installation guides for Linux: 12.2 and 18c disable THP; 19c does on kernels before UEK7 and
/// says madvise from UEK7 on.
#[test]
fn what_is_said_of_thp_hangs_on_release_and_kernel() {
    let never = crate::ThpAdvice::Never(Level::Warn);
    let either = crate::ThpAdvice::Against(Level::Warn);
    for (version, kernel, says) in [
        ("10.2.0.4", (2, 6, "2.6.18-398.el5"), never),
        ("11.2.0.4", (5, 15, "5.15.0-305.176.4.el8uek.x86_64"), never),
        ("12.2.0.1", (3, 10, "3.10.0-1160.el7.x86_64"), never),
        ("18c", (4, 14, "4.14.35-2047.el7uek.x86_64"), never),
        ("19.3.0", (4, 14, "4.14.35-2047.el7uek.x86_64"), never),
        ("19.3.0", (5, 4, "5.4.17-2136.el8uek.x86_64"), never),
        ("19.3.0", (5, 15, "5.15.0-305.176.4.el8uek.x86_64"), either),
        ("23ai", (6, 12, "6.12.0-1.el9uek.x86_64"), either),
        ("19.3.0", (4, 18, "4.18.0-553.el8_10.x86_64"), either),
    ] {
        let mut host = in_home(&format!("/u01/app/oracle/product/{version}/db_1"));
        let (major, minor, text) = kernel;
        host.kernel = Observed::Known(hugewise_model::host::KernelRelease {
            text: text.into(),
            major,
            minor,
        });
        let instance = only(&host, &MapSource::new());
        assert_eq!((KIND.thp.advise)(&host, &instance), Ok(Some(says)), "{version} on {text}");
    }
}

/// Anybody can give thousands of processes such a title.
#[test]
fn one_user_has_no_more_instances_than_anybody_runs() {
    let many = (100..400).map(|pid| process(pid, 4242, &format!("ora_pmon_S{pid}")));
    let host = host(many.chain([process(7, 54321, "ora_pmon_PROD")]).collect());
    let found = found(&host, &MapSource::new());
    let of_user = |uid: u32| {
        let instances = found.instances.iter();
        instances.filter(|one| host.find_process(one.pid).unwrap().uid == uid).count()
    };
    assert_eq!((of_user(4242), of_user(54321)), (256, 1));
    let note = Unread::new(
        "Oracle instances of user 4242".to_owned(),
        Reason::from_text("44 beyond 256 are left out"),
    );
    assert!(found.unread.contains(&note));
}
