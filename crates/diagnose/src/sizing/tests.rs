use hugewise_model::host::{NumaNode, TlbHolds, TlbLevel};
use hugewise_model::instance::{Mechanism, ServerSetting, SessionModel};
use hugewise_model::{
    Bytes, Demand, DemandSource, Engine, Host, HugePageUse, Instance, Observed, PageCount, PageSize,
};

use super::{PageSizeChoice, Request, SizeError, Sizing, size_servers};
use crate::forecast::{Addresses, Basis, process_tables, shared_tables};
use crate::testing::{Case, all_huge, gib, quiet};

fn ask(case: &Case, request: &Request) -> Sizing {
    size_servers(&case.host, &case.instances, request).unwrap()
}

fn plain(case: &Case) -> Sizing {
    ask(case, &Request::default())
}

fn sessions(count: u64) -> Request {
    Request { sessions: Some(count), ..Request::default() }
}

/// A server that does not run: one segment, its demand as the engine says it.
fn describe(
    case: &mut Case,
    engine: Engine,
    size: Bytes,
    max_sessions: Option<u64>,
) -> &mut Instance {
    let name = format!("described-{}", case.instances.len());
    case.instance(engine, &name, size, 0, |instance| {
        instance.pid = 0;
        instance.pids.clear();
        if matches!(engine, Engine::Oracle | Engine::Other) {
            instance.mechanism = Mechanism::SysvShm;
        }
        instance.sessions = Observed::Absent;
        instance.max_sessions = max_sessions.into();
        instance.huge_pages = HugePageUse::Unknown;
        instance.page_tables = Observed::Absent;
        for segment in &mut instance.segments {
            segment.mappers = 0;
            segment.page_size = Observed::Absent;
            segment.huge = Observed::Absent;
        }
    });
    case.host.processes = Observed::Known(Vec::new());
    case.instances.last_mut().unwrap()
}

fn tables(sizing: &Sizing, sessions: u64, page: PageSize) -> Bytes {
    let row = sizing.forecast.iter().find(|row| row.sessions == sessions && row.page_size == page);
    row.unwrap().page_tables
}

/// Two servers of 6 GiB: what calculates alone sizes strangers where nobody else is to be sized.
#[test]
fn strangers_are_sized_where_there_is_nobody_else() {
    let mut case = quiet();
    case.postgresql("15/main", gib(6));
    case.postgresql("16/main", gib(6));
    case.instances[0].trusted_by.clear();
    let found = |case: &Case| {
        super::size_found_servers(&case.host, &case.instances, &Request::default()).unwrap()
    };
    let one = found(&case);
    assert_eq!((one.instances.len(), one.left_out.len(), one.is_planned()), (1, 1, true));
    case.instances[1].trusted_by.clear();
    let request = Request::default();
    let planned = size_servers(&case.host, &case.instances, &request);
    assert_eq!(planned, Err(SizeError::NothingToSize));
    let both = found(&case);
    assert_eq!((both.pools[0].pages, both.left_out.len()), (PageCount(6144), 0));
    assert!(!both.is_planned());
    let why = both.instances[0].unplanned.as_ref().map(super::Unplanned::reason).unwrap();
    assert!(why.starts_with("nothing vouches for it (user postgres"), "{why}");
    assert!(!why.contains("--instance"), "{why}");
}

#[test]
fn a_pool_is_the_demand_and_what_is_asked_beyond_it() {
    let mut case = quiet();
    case.postgresql("15/main", gib(6));
    let sizing = plain(&case);
    assert_eq!(sizing.pools.len(), 1);
    assert_eq!(
        (sizing.pools[0].pages, sizing.pools[0].spare_pages),
        (PageCount(3072), PageCount(0))
    );
    assert_eq!(sizing.pools[0].room_now, Some(true));
    assert_eq!(sizing.instances[0].source, DemandSource::Engine);

    let sizing = ask(&case, &Request { headroom_percent: 10, ..Request::default() });
    // 307.2 pages, rounded up.
    assert_eq!(
        (sizing.pools[0].pages, sizing.pools[0].spare_pages),
        (PageCount(3380), PageCount(308))
    );
}

#[test]
fn a_mariadb_that_was_measured_may_take_more_the_next_time() {
    let mut case = quiet();
    case.mariadb("3306", gib(1));
    let mut spare = |source: DemandSource| {
        case.instances[0].demand =
            Some(Demand { page_size: PageSize::MIB_2, pages: PageCount(512), source });
        let sizing = plain(&case);
        (sizing.pools[0].pages, sizing.pools[0].spare_pages)
    };
    assert_eq!(spare(DemandSource::Measured), (PageCount(517), PageCount(5)));
    assert_eq!(
        spare(DemandSource::Enough { least: PageCount(507) }),
        (PageCount(512), PageCount(0))
    );
    // What may be a hundredth more is planned with it.
    assert_eq!(spare(DemandSource::Estimated { error_percent: 1 }), (PageCount(518), PageCount(6)));
}

#[test]
fn oracle_keeps_two_pages_free() {
    let mut case = quiet();
    case.oracle("PROD", gib(16), 20);
    let sizing = plain(&case);
    assert_eq!(
        (sizing.pools[0].pages, sizing.pools[0].spare_pages),
        (PageCount(8194), PageCount(2))
    );
}

#[test]
fn pages_that_others_hold_stay() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(2)));
    // 1,024 are the server's; 300 of the 1,324 in use are somebody else's.
    case.pool(2000, 676);
    let sizing = plain(&case);
    let target = &sizing.pools[0];
    assert_eq!((target.pages, target.held_by_others), (PageCount(1324), PageCount(300)));
    assert_eq!(target.now, Some(PageCount(2000)));
}

#[test]
fn one_gibibyte_pages_round_the_whole_segment_up_once() {
    let mut case = quiet();
    let instance = case.postgresql("15/main", gib(6));
    // 3,156 pages of 2 MiB: 6.16 GiB.
    instance.demand = Some(Demand {
        page_size: PageSize::MIB_2,
        pages: PageCount(3156),
        source: DemandSource::Engine,
    });
    instance.segments[0].size = Bytes::from_mib(6311);
    let sizing = ask(
        &case,
        &Request { page_size: PageSizeChoice::Size(PageSize::GIB_1), ..Request::default() },
    );
    assert_eq!(sizing.pools[0].pages, PageCount(7));
    assert_eq!(sizing.instances[0].asks, Some(false), "its settings ask for 2 MiB pages");
    let row = sizing.choices.iter().find(|row| row.page_size == PageSize::GIB_1).unwrap();
    assert_eq!(row.waste, Some(Bytes::from_mib(7 * 1024 - 6311)));
    let row = sizing.choices.iter().find(|row| row.page_size == PageSize::MIB_2).unwrap();
    assert_eq!((row.pages, row.waste), (Some(PageCount(3156)), Some(Bytes::from_mib(1))));
}

fn two_nodes(case: &mut Case, first: Bytes, second: Bytes) {
    let one =
        |id, total| NumaNode { id, total: Observed::Known(total), free: Observed::Known(total) };
    case.host.nodes = Observed::Known(vec![one(0, first), one(1, second)]);
}

#[test]
fn nodes_share_evenly_and_the_freest_takes_the_odd_page() {
    let mut case = quiet();
    case.postgresql("15/main", Bytes::from_mib(2 * 3073));
    two_nodes(&mut case, gib(31), gib(33));
    let pages: Vec<_> =
        plain(&case).pools.iter().map(|target| (target.node, target.pages.get())).collect();
    assert_eq!(pages, [(Some(0), 1536), (Some(1), 1537)]);
}

#[test]
fn a_node_that_cannot_carry_its_half_gives_the_rest_to_the_other() {
    let mut case = quiet();
    case.postgresql("15/main", gib(20));
    two_nodes(&mut case, gib(10), gib(54));
    let sizing = plain(&case);
    // 80 % of 10 GiB is 4,096 pages.
    let pages: Vec<_> = sizing.pools.iter().map(|target| target.pages.get()).collect();
    assert_eq!(pages, [4095, 10_240 - 4095]);
    assert_eq!(
        sizing.pools[1].room_now, None,
        "the pool of a node that is not listed is not known"
    );
}

#[test]
fn a_host_too_small_is_refused_with_numbers_and_gets_no_plan() {
    let mut case = quiet();
    case.oracle("PROD", gib(60), 20);
    let sizing = plain(&case);
    let refusal = sizing.refusal.unwrap();
    assert!(sizing.pools.is_empty());
    assert_eq!(refusal.wanted[0].pages, PageCount(30_722));
    assert!(
        refusal.reasons.iter().any(|reason| reason.contains("60.0 GiB of 64.0 GiB")),
        "{:?}",
        refusal.reasons
    );
    assert!(refusal.short > Bytes::ZERO && refusal.largest_pools <= gib(64));
    assert!(refusal.most_pages(PageSize::MIB_2) < PageCount(26_215));
}

#[test]
fn nodes_alone_can_refuse() {
    let mut case = quiet();
    case.postgresql("15/main", gib(20));
    case.host.memory.total = Observed::Absent;
    two_nodes(&mut case, gib(10), gib(10));
    let refusal = plain(&case).refusal.unwrap();
    // 80 % of each node is 4,095 whole pages.
    assert_eq!(refusal.short, Bytes::from_mib(2 * (10_240 - 2 * 4095)));
    assert_eq!(refusal.wanted.iter().map(|pool| pool.pages).sum::<PageCount>(), PageCount(10_240));
}

#[test]
fn private_memory_of_the_sessions_asked_for_can_be_what_does_not_fit() {
    let mut case = quiet();
    case.oracle("PROD", gib(32), 99);
    for process in case.processes() {
        process.rss_anon = Observed::Known(Bytes::from_mib(10));
    }
    assert!(plain(&case).refusal.is_none());
    let sizing = ask(&case, &sessions(4000));
    // The main process is no session.
    assert_eq!(sizing.budget.sessions_private, Some(Bytes::from_mib(40_010)));
    assert!(
        sizing.refusal.unwrap().reasons[1]
            .starts_with("the rest at 4,000 sessions: sessions 39.1 GiB")
    );
}

#[test]
fn a_host_that_is_only_described_says_what_it_does_not_know() {
    let mut case = quiet();
    describe(&mut case, Engine::Oracle, gib(34), Some(500));
    let host = Host::default();
    let request = Request { memory: Some(gib(128)), ..Request::default() };
    let sizing = size_servers(&host, &case.instances, &request).unwrap();
    assert_eq!(sizing.pools[0].pages, PageCount(34 * 512 + 2));
    assert_eq!(
        (sizing.pools[0].node, sizing.pools[0].now, sizing.pools[0].room_now),
        (None, None, None)
    );
    assert_eq!(sizing.budget.total, Some(gib(128)));
    assert_eq!(sizing.budget.sessions, 500);
    assert_eq!(sizing.budget.unknown.len(), 2, "{:?}", sizing.budget.unknown);
    assert!(
        sizing
            .choices
            .iter()
            .any(|row| row.page_size == PageSize::GIB_1 && row.tlb_reach.is_none())
    );

    let request = Request { memory: Some(gib(32)), ..request };
    assert!(size_servers(&host, &case.instances, &request).unwrap().refusal.is_some());
}

#[test]
fn five_hundred_sessions_on_8000_mb() {
    let mut case = quiet();
    describe(&mut case, Engine::Oracle, Bytes::from_mib(8000), Some(500));
    let sizing = plain(&case);
    // (4,000 + 8) tables of 4 KiB in each of 500 processes, and the 530 KiB of its own that an
    // Oracle process has.
    assert_eq!(tables(&sizing, 500, PageSize::KIB_4), Bytes::from_kib(500 * (4008 * 4 + 530)));
    assert_eq!(tables(&sizing, 500, PageSize::KIB_4).to_string(), "7.9 GiB");
    // Each process's own 530 KiB and last table; the seven or eight tables before that are shared,
    // once or at two offsets.
    let on_huge = tables(&sizing, 500, PageSize::MIB_2);
    assert!(
        (Bytes::from_kib(500 * 534)..=Bytes::from_kib(500 * 534 + 16 * 4)).contains(&on_huge),
        "{on_huge}"
    );
    assert!(sizing.forecast.iter().any(|row| row.configured_max && row.sessions == 500));
    let row = |page| sizing.forecast.iter().find(|row| row.page_size == page).unwrap();
    let touching = |page| row(page).touching_seconds.unwrap();
    // Nothing says that a login waits for it.
    assert_eq!(row(PageSize::KIB_4).login_seconds, None);
    // 2,048,000 pages at 1.1 us each.
    assert!((touching(PageSize::KIB_4) - 2.2528).abs() < 1e-9);
    assert!(touching(PageSize::KIB_4) > 40.0 * touching(PageSize::MIB_2));
}

/// `PageTables` of forked sessions that read all of a segment, in kB, Linux 6.18, x86-64: size,
/// pages, sessions, what each cost before it read anything, and all of them together.
///
/// On base pages the usual 52 kB do. On huge pages next to nothing is left but the processes' own
/// tables, which the layout of addresses moves between 43 and 53 kB: there they were measured in
/// the same run.
#[test]
fn the_kernel_agrees_within_five_percent() {
    let usual = process_tables(Engine::Other, PageSize::KIB_4);
    let idle = |tenths: u64| Bytes(tenths * 1024 / 10);
    let measured = [
        (256, PageSize::KIB_4, 100, usual, 56_492),
        (256, PageSize::KIB_4, 300, usual, 165_300),
        (1024, PageSize::KIB_4, 10, usual, 21_216),
        (1024, PageSize::KIB_4, 300, usual, 623_096),
        (5120, PageSize::KIB_4, 30, usual, 307_900),
        (5120, PageSize::KIB_4, 50, usual, 515_480),
        (5120, PageSize::GIB_1, 50, usual, 2_608),
        (256, PageSize::MIB_2, 300, idle(474), 14_252),
        (1024, PageSize::MIB_2, 100, idle(474), 5_172),
        (1024, PageSize::MIB_2, 300, idle(518), 16_292),
        (5120, PageSize::MIB_2, 300, idle(523), 16_896),
        (5120, PageSize::MIB_2, 300, idle(488), 15_244),
    ];
    for (mib, page, processes, idle, kib) in measured {
        let one = shared_tables(Bytes::from_mib(mib), page, PageSize::KIB_4, Addresses::Same);
        let all = one.for_processes(processes) + idle.saturating_mul(processes);
        let error = all.as_f64() / Bytes::from_kib(kib).as_f64() - 1.0;
        assert!(error.abs() < 0.05, "{mib} MiB on {page}, {processes} processes: {error}");
    }
}

/// PostgreSQL 15, shared_buffers=1GB (1,074 MiB of shared memory), sessions that counted a table of
/// 879 MiB that was all in its buffers: `VmPTE` 2,160 kB each, and their root tables.
#[test]
fn postgresql_sessions_after_a_full_scan_within_fifteen_percent() {
    let mut case = quiet();
    describe(&mut case, Engine::PostgreSql, Bytes::from_mib(1074), Some(100));
    let error = tables(&plain(&case), 10, PageSize::KIB_4).as_f64()
        / Bytes::from_kib(10 * 2164).as_f64()
        - 1.0;
    assert!(error.abs() < 0.15, "{error}");
}

#[test]
fn tables_of_huge_pages_inside_a_mapping_stand_once_for_all() {
    let page_table_cost_of =
        |size, page| shared_tables(size, page, PageSize::KIB_4, Addresses::Same);
    let five = page_table_cost_of(gib(5), PageSize::MIB_2);
    // The table above them covers 512 GiB: a hundredth of one.
    assert_eq!(five.shared_among(1), Bytes::from_kib(16));
    assert_eq!(five.shared_among(300), Bytes::from_kib(16));
    assert_eq!(five.each, Bytes(4096 + 40));
    assert_eq!(page_table_cost_of(gib(5), PageSize::GIB_1).each, Bytes(40));
    assert_eq!(page_table_cost_of(Bytes::from_mib(256), PageSize::MIB_2).each, Bytes(1024 + 2));
}

#[test]
fn live_sessions_say_what_they_touch() {
    let mut case = quiet();
    case.oracle("PROD", gib(8), 20).max_sessions = Observed::Known(200);
    // The main process touches little, each of the 20 sessions a quarter.
    for (at, process) in case.processes().iter_mut().enumerate() {
        process.page_tables = Observed::Known(Bytes::from_kib(if at == 0 { 60 } else { 4096 }));
        process.rss_shmem = Observed::Known(if at == 0 { Bytes::ZERO } else { gib(2) });
    }
    let sizing = plain(&case);
    let row = sizing
        .forecast
        .iter()
        .find(|row| row.sessions == 200 && row.page_size == PageSize::KIB_4)
        .unwrap();
    assert_eq!(row.basis, Basis::Measured(20));
    // Each with its root table, which VmPTE leaves out.
    assert_eq!(row.page_tables, Bytes::from_kib(200 * 4100 + 64));
    // 524,288 pages at 1.1 us.
    assert!((row.touching_seconds.unwrap() - 0.576_716_8).abs() < 1e-9);
    let row = sizing.forecast.iter().find(|row| row.page_size == PageSize::MIB_2).unwrap();
    assert_eq!(row.basis, Basis::FullTouch);
}

/// A login of 11.2 with pre_page_sga=TRUE waits for all of the SGA, whatever sessions touch later.
#[test]
fn a_log_in_that_touches_all_is_told_by_release_and_setting() {
    let mut case = quiet();
    let instance = case.oracle("META", gib(5), 20);
    instance.version = Observed::Known("11.2.0.3".into());
    let setting = ServerSetting { name: "pre_page_sga".into(), value: "TRUE".into(), place: None };
    instance.settings.insert("pre_page_sga".into(), setting);
    for process in case.processes() {
        process.rss_shmem = Observed::Known(gib(1));
    }
    let seconds = |case: &Case| {
        let sizing = plain(case);
        let row = sizing.forecast.into_iter().find(|row| row.page_size == PageSize::KIB_4).unwrap();
        (row.login_seconds, row.touching_seconds)
    };
    // 1,310,720 pages at 1.1 us, and 262,144 of them.
    let (login, touching) = seconds(&case);
    assert!(
        (login.unwrap() - 1.441_792).abs() < 1e-9 && (touching.unwrap() - 0.288_358_4).abs() < 1e-9
    );
    case.instances[0].version = Observed::Known("12.1.0.2".into());
    assert_eq!(seconds(&case).0, None);
}

#[test]
fn threads_share_one_set() {
    let mut case = quiet();
    case.mariadb("3306", gib(8)).max_sessions = Observed::Known(151);
    let sizing = ask(&case, &sessions(5000));
    for page in [PageSize::KIB_4, PageSize::MIB_2] {
        assert_eq!(tables(&sizing, 1, page), tables(&sizing, 5000, page));
    }
    assert!(
        sizing
            .forecast
            .iter()
            .all(|row| row.login_seconds.is_none() && row.touching_seconds.is_none())
    );
}

#[test]
fn sessions_of_several_servers_are_dealt_by_what_they_are_configured_for() {
    let mut case = quiet();
    describe(&mut case, Engine::PostgreSql, gib(1), Some(300));
    describe(&mut case, Engine::PostgreSql, gib(4), Some(100));
    let sizing = ask(&case, &sessions(40));
    // 30 sessions of 513 tables and 10 of 2,052, each with its own 170 KiB.
    assert_eq!(
        tables(&sizing, 40, PageSize::KIB_4),
        Bytes::from_kib(30 * (513 * 4 + 170) + 10 * (2052 * 4 + 170))
    );
    assert!(sizing.forecast.iter().any(|row| row.sessions == 400 && row.configured_max));
}

#[test]
fn bare_segments_are_touched_by_every_session() {
    let mut case = quiet();
    describe(&mut case, Engine::Other, gib(1), None);
    describe(&mut case, Engine::Other, gib(2), None);
    let sizing = ask(&case, &sessions(10));
    // 513 and 1,026 tables, and one process's own.
    assert_eq!(tables(&sizing, 10, PageSize::KIB_4), Bytes::from_kib(10 * (1539 * 4 + 54)));
    assert_eq!(sizing.budget.sessions, 10);
}

#[test]
fn what_the_kernel_checks_depends_on_how_a_server_asks() {
    let mut case = quiet();
    case.host.kernel_settings.overcommit_memory = Observed::Absent;
    case.postgresql("15/main", gib(6));
    let limits = plain(&case).limits;
    for checked in [limits.memlock.checked, limits.shmmax.checked, limits.hugetlb_shm_group.checked]
    {
        assert_eq!(checked, Some(false));
    }
    assert_eq!(limits.commit_limit.checked, None, "vm.overcommit_memory was not read");

    let mut case = quiet();
    case.oracle("PROD", gib(16), 20);
    case.host.kernel_settings.shmall_pages = Observed::Known(4_000_000);
    case.host.kernel_settings.shmmax = Observed::Known(gib(16));
    let limits = plain(&case).limits;
    // Linux 6.1: memlock counts for nothing.
    assert_eq!((limits.memlock.checked, limits.memlock.needed), (Some(false), Some(gib(16))));
    assert_eq!((limits.shmmax.needed, limits.shmmax.enough), (Some(gib(16)), Some(true)));
    assert_eq!(
        (limits.shmall_pages.needed, limits.shmall_pages.enough),
        (Some(4_194_304), Some(false))
    );
    assert_eq!(limits.hugetlb_shm_group.needed, Some(54321));
    assert_eq!(limits.hugetlb_shm_group.enough, Some(false));

    case.host.kernel = Observed::Known(hugewise_model::KernelRelease {
        text: "5.4.17".into(),
        major: 5,
        minor: 4,
    });
    let lacks_both = plain(&case).limits;
    assert_eq!((lacks_both.memlock.checked, lacks_both.memlock.enough), (Some(true), Some(false)));
    assert_eq!(
        (lacks_both.hugetlb_shm_group.checked, lacks_both.hugetlb_shm_group.enough),
        (Some(true), Some(false))
    );
    // Linux 5.4 takes either: nobody is told that the other is missing.
    let rules = hugewise_host::config::limits::parse("/limits", b"oracle - memlock unlimited\n");
    case.host.configuration.limits = Observed::Known(rules);
    let by_limit = plain(&case).limits;
    assert_eq!((by_limit.memlock.checked, by_limit.memlock.enough), (Some(true), Some(true)));
    assert_eq!(
        (by_limit.hugetlb_shm_group.checked, by_limit.hugetlb_shm_group.enough),
        (Some(false), None)
    );
    case.host.configuration.limits = Observed::Known(Vec::new());
    case.host.kernel_settings.hugetlb_shm_group = Observed::Known(54321);
    let by_group = plain(&case).limits;
    assert_eq!(
        (by_group.memlock.checked, by_group.hugetlb_shm_group.enough),
        (Some(false), Some(true))
    );
}

#[test]
fn strict_overcommit_takes_the_pools_out_of_the_commit_limit() {
    let mut case = quiet();
    case.postgresql("15/main", gib(16));
    case.host.kernel_settings.overcommit_memory = Observed::Known(2);
    case.host.kernel_settings.overcommit_ratio = Observed::Known(50);
    case.host.memory.commit_limit = Observed::Known(gib(40));
    case.host.memory.committed = Observed::Known(gib(30));
    let limit = plain(&case).limits.commit_limit;
    assert_eq!(limit.now.unwrap().to_string(), "32.0 GiB");
    assert_eq!((limit.needed, limit.enough), (Some(gib(14)), Some(true)));
}

#[test]
fn reach_of_the_translation_buffer() {
    let mut case = quiet();
    case.postgresql("15/main", gib(6));
    let level = |level, holds, page_size, entries| TlbLevel { level, holds, page_size, entries };
    case.host.processors.tlb = Observed::Known(vec![
        level(1, TlbHolds::Data, PageSize::MIB_2, 32),
        level(2, TlbHolds::Both, PageSize::MIB_2, 1536),
        level(2, TlbHolds::Instructions, PageSize::MIB_2, 4096),
    ]);
    let sizing = plain(&case);
    assert_eq!(sizing.choices[0].tlb_reach, Some(gib(3)));
    assert_eq!(sizing.choices[1].tlb_reach, None);
}

#[test]
fn automatic_choice_takes_1_gib_pages_only_where_they_are_worth_it() {
    let mut case = quiet();
    case.host.memory.total = Observed::Known(gib(1024));
    let chosen = |case: &Case| plain(case).instances[0].page_size;
    let free_choice = |engine, size| {
        let mut case = case.clone();
        describe(&mut case, engine, size, None).asked_page_size = Observed::Absent;
        case
    };
    assert_eq!(chosen(&free_choice(Engine::Other, gib(128))), PageSize::GIB_1);
    assert_eq!(chosen(&free_choice(Engine::Other, gib(63))), PageSize::MIB_2);
    assert_eq!(chosen(&free_choice(Engine::Other, gib(64) + Bytes::from_mib(2))), PageSize::MIB_2);
    assert_eq!(chosen(&free_choice(Engine::Oracle, gib(128))), PageSize::MIB_2);
    let mut without = free_choice(Engine::Other, gib(128));
    without.host.processors.gib_pages = Observed::Known(false);
    assert_eq!(chosen(&without), PageSize::MIB_2);
}

#[test]
fn nonsense_is_an_error() {
    let mut case = quiet();
    let empty = size_servers(&case.host, &[], &Request::default());
    assert_eq!(empty.unwrap_err(), SizeError::NothingToSize);
    case.postgresql("15/main", gib(6));
    let error = |request: Request| size_servers(&case.host, &case.instances, &request).unwrap_err();
    assert_eq!(
        error(Request { headroom_percent: 101, ..Request::default() }),
        SizeError::Headroom(101)
    );
    assert_eq!(
        error(Request { memory: Some(Bytes::ZERO), ..Request::default() }),
        SizeError::NoMemory
    );
    let odd = PageSizeChoice::Size(PageSize::new(16 << 30).unwrap());
    let none = error(Request { page_size: odd, ..Request::default() });
    assert_eq!(none.to_string(), "no pages of 16 GiB here: this host offers 2 MiB, 1 GiB");
    assert_eq!(error(sessions(u64::MAX)), SizeError::Sessions(u64::MAX));
}

#[test]
fn a_server_that_cannot_use_huge_pages_is_left_out_by_name() {
    let mut case = quiet();
    case.postgresql("15/main", gib(6));
    let redis = case.instance(Engine::Redis, "6379", gib(4), 0, |_| {});
    // As its engine says it.
    (redis.asked, redis.mechanism) = (hugewise_model::HugePageMode::Cannot, Mechanism::None);
    redis.session_model = SessionModel::Threads;
    let sizing = plain(&case);
    assert_eq!(sizing.instances.len(), 1);
    assert_eq!(sizing.left_out[0].instance.to_string(), "redis 6379");
}

mod private;
mod properties;
mod unsure;

/// Its settings make it twice as large at its next start: every line is of that moment, and says
/// so.
#[test]
fn a_server_whose_settings_were_changed_is_sized_for_one_moment() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(6)));
    case.pool(3072, 0);
    let before = plain(&case);
    assert_eq!(before.instances[0].moment, crate::prediction::PredictionStage::Now);
    let demands = vec![Demand {
        page_size: PageSize::MIB_2,
        pages: PageCount(6144),
        source: DemandSource::Measured,
    }];
    let asked = hugewise_model::HugePageMode::Try;
    case.instances[0].next =
        Observed::Known(hugewise_model::instance::NextStart { asked, setting: None, demands });
    let sizing = plain(&case);
    assert_eq!(sizing.instances[0].moment, crate::prediction::PredictionStage::Restart);
    assert_eq!(sizing.instances[0].demand_pages, PageCount(6144));
    let row = |page| sizing.choices.iter().find(|row| row.page_size == page).unwrap();
    assert_eq!(row(PageSize::MIB_2).pages, Some(PageCount(6144)));
    assert_eq!(row(PageSize::GIB_1).pages, Some(PageCount(12)));
    // 12 GiB on base pages, by hand: 8 bytes for each page, in whole tables of 4 KiB for 2 MiB
    // each, a table of 4 KiB a GiB above, and one more; every session its own.
    let tables = tables(&sizing, 100, PageSize::KIB_4);
    assert!(tables >= Bytes::from_mib(24).saturating_mul(100), "{tables}");
    // 6 GiB more are gone from what is left, on each page size.
    for page in [PageSize::KIB_4, PageSize::MIB_2, PageSize::GIB_1] {
        let left = |sizing: &Sizing| {
            let row = sizing
                .forecast
                .iter()
                .find(|row| row.sessions == 1 && row.page_size == page)
                .unwrap();
            row.memory_left.unwrap()
        };
        let less = left(&before).saturating_sub(left(&sizing));
        assert!(less >= gib(6) && less <= gib(6) + Bytes::from_mib(700), "{page}: {less}");
    }
    // Moved to a size that somebody names, it is as large.
    let moved = ask(
        &case,
        &Request { page_size: PageSizeChoice::Size(PageSize::GIB_1), ..Request::default() },
    );
    assert_eq!(moved.instances[0].demand_pages, PageCount(12));
}

/// 300 of its 512 pages are huge ones. With less memory at its next start it holds those 300 until
/// then and takes no more; with more it takes that.
#[test]
fn one_partly_on_huge_pages_needs_what_it_holds_or_what_its_next_start_asks_for() {
    for (next, needs) in [(100, 300), (400, 400), (600, 600)] {
        let mut case = quiet();
        let page = PageSize::MIB_2.bytes();
        crate::testing::partly_huge(case.postgresql("15/main", gib(1)), page.saturating_mul(300));
        let demands = vec![Demand {
            page_size: PageSize::MIB_2,
            pages: PageCount(next),
            source: DemandSource::Engine,
        }];
        let start = hugewise_model::instance::NextStart {
            asked: hugewise_model::HugePageMode::Try,
            setting: None,
            demands,
        };
        case.instances[0].next = Observed::Known(start);
        assert_eq!(plain(&case).instances[0].demand_pages, PageCount(needs), "{next}");
        // Who asks for these alone is to be made to ask for all.
        case.instances[0].traits.push(hugewise_model::Trait::AsksInPart);
        assert_eq!(plain(&case).instances[0].demand_pages, PageCount(needs.max(512)), "{next}");
    }
}
