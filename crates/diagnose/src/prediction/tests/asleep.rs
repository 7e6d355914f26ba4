//! Tests of what is foretold and kept for servers that belong to the host and do not run.

use hugewise_model::configuration::ServiceUnit;
use hugewise_model::instance::Mechanism;
use hugewise_model::process::CgroupMembership;
use hugewise_model::{
    AtBoot, Bytes, Demand, DemandSource, Engine, HugePageMode, Instance, KernelRelease, Limit,
    NextStart, Observed, PageCount, PageSize, Process, Remedy, StoppedInstance,
};

use super::{PredictionStage, predict_host};
use crate::target::{TargetRequest, find_target};
use crate::testing::{self, Case, all_huge, gib};

/// A guest that asks for pages of 1 MiB, which no kernel has, may be meant to have these.
#[test]
fn pages_are_kept_for_a_server_that_asks_for_a_size_which_the_kernel_lacks() {
    let claims_of = |bytes| {
        let mut case = testing::quiet();
        let page_size = PageSize::new(bytes).unwrap();
        let instance = case.postgresql("15/main", gib(16));
        instance.asked = HugePageMode::Must;
        instance.asked_page_size = Observed::Known(page_size);
        instance.demand = Some(Demand {
            page_size,
            pages: page_size.pages_for(gib(16)),
            source: DemandSource::Engine,
        });
        instance.segments.clear();
        instance.pid = 0;
        instance.stopped = Some(StoppedInstance::new("/etc/libvirt/qemu/guest1.xml", no()));
        case.pool(8192, 8192);
        let situation = predict_host(&case.host, &case.instances);
        let claim = situation.claim(PageSize::MIB_2).unwrap();
        (claim.pages, claim.uncounted.len())
    };
    assert_eq!(claims_of(2 << 20), (PageCount(8192), 0));
    assert_eq!(claims_of(1 << 20), (PageCount::ZERO, 1));
}

fn yes() -> AtBoot {
    AtBoot::Yes("start.conf=auto (f)".into())
}

fn no() -> AtBoot {
    AtBoot::No("start.conf=manual (f:3)".into())
}

fn unknown() -> AtBoot {
    AtBoot::Unknown("nothing tells".into())
}

/// A PostgreSQL that insists on so many pages and does not run.
fn down(case: &mut Case, name: &str, pages: u64, at_boot: AtBoot) {
    case.postgresql(name, gib(1));
    let instance = case.instances.pop().unwrap();
    let demand = Demand {
        page_size: PageSize::MIB_2,
        pages: PageCount(pages),
        source: DemandSource::Estimated { error_percent: 2 },
    };
    let next = NextStart {
        asked: HugePageMode::Must,
        setting: instance.setting.clone(),
        demands: vec![demand.clone()],
    };
    case.instances.push(Instance {
        pid: 0,
        pids: Vec::new(),
        asked: HugePageMode::Must,
        segments: Vec::new(),
        huge_pages: hugewise_model::HugePageUse::Unknown,
        possible_demands: vec![demand.at_most()],
        demand: Some(demand),
        next: Observed::Known(next),
        page_tables: Observed::Absent,
        sessions: Observed::Absent,
        stopped: Some(StoppedInstance::new("/etc/postgresql/15/b/postgresql.conf", at_boot)),
        ..instance
    });
}

/// One that runs on 512 pages, one that is down and needs 500 to 510, and a pool of so many.
fn case(total: u64, at_boot: AtBoot) -> Case {
    let mut case = testing::quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    down(&mut case, "15/b", 500, at_boot);
    case.pool(total, total - 512);
    case
}

fn words(case: &Case) -> [[&'static str; 3]; 2] {
    let situation = predict_host(&case.host, &case.instances);
    let values_of = |at: usize| {
        let moments = situation.forecasts_for(&case.instances[at]).unwrap();
        PredictionStage::ALL.map(|moment| moments.at_stage(moment).coverage.as_str())
    };
    [values_of(0), values_of(1)]
}

#[test]
fn a_boot_has_those_that_it_starts() {
    assert_eq!(words(&case(1022, yes())), [["all", "all", "all"], ["not_running", "all", "all"]]);
    // Of 1,015 it may take 491 to 510 first: that leaves the other one 505 to 524, and that needs
    // 512.
    assert_eq!(
        words(&case(1015, yes())),
        [["all", "all", "unknown"], ["not_running", "unknown", "unknown"]]
    );
    // 2 % less than 500 may do, of 500 that are left; not of 489.
    assert_eq!(words(&case(1012, yes()))[1], ["not_running", "unknown", "unknown"]);
    assert_eq!(words(&case(1001, yes()))[1], ["not_running", "does_not_start", "does_not_start"]);
    assert_eq!(
        words(&case(600, yes())),
        [["all", "all", "none"], ["not_running", "does_not_start", "does_not_start"]]
    );
    // By hand it has to be started: the boot is nobody else's worry.
    assert_eq!(
        words(&case(600, no())),
        [["all", "all", "all"], ["not_running", "does_not_start", "not_running"]]
    );
    assert_eq!(
        words(&case(600, unknown())),
        [["all", "all", "unknown"], ["not_running", "does_not_start", "does_not_start"]]
    );
    let situation = predict_host(&case(600, unknown()).host, &case(600, unknown()).instances);
    let why = situation
        .forecasts_for(&case(600, unknown()).instances[0])
        .unwrap()
        .boot
        .why
        .clone()
        .unwrap();
    assert!(why.starts_with("whether the boot starts postgresql 15/b is not known"), "{why}");
}

#[test]
fn what_it_may_ask_for_is_not_idle() {
    for at_boot in [yes(), no(), unknown()] {
        let case = case(2000, at_boot);
        let claim =
            predict_host(&case.host, &case.instances).claim(PageSize::MIB_2).cloned().unwrap();
        // 512 that are held, and 500 with their 2 % of error.
        assert_eq!((claim.pages, claim.unknown.len()), (PageCount(512 + 510), 0));
    }
    let mut case = case(2000, no());
    (case.instances[1].asked, case.instances[1].next) = (HugePageMode::Unknown, Observed::Absent);
    let claim = predict_host(&case.host, &case.instances).claim(PageSize::MIB_2).cloned().unwrap();
    assert_eq!(claim.unknown.len(), 1, "its settings could not be read: nobody knows");
    assert!(!case.codes().contains(&"HW202"), "{:?}", case.codes());
}

fn goal(case: &Case, wish: TargetRequest<'_>) -> PageCount {
    let assessment = case.assess();
    let target = find_target(
        &case.host,
        &case.instances,
        &assessment,
        wish,
        &crate::sizing::Request::default(),
    )
    .unwrap();
    target.pool(PageSize::MIB_2).unwrap().goal
}

#[test]
fn a_plan_has_pages_for_those_that_the_boot_starts_and_keeps_those_of_the_others() {
    let shrink = TargetRequest { shrink: true, ..TargetRequest::default() };
    for (at_boot, planned) in [(yes(), 512 + 510), (unknown(), 512 + 510), (no(), 600)] {
        assert_eq!(
            goal(&case(600, at_boot.clone()), TargetRequest::default()),
            PageCount(planned),
            "{at_boot:?}"
        );
        assert_eq!(goal(&case(2000, at_boot), shrink), PageCount(512 + 510));
    }
    // Whoever names one that is started by hand has it planned for.
    let mut named = case(600, no());
    named.instances[1].trusted_by.push(hugewise_model::trusted_by::TrustReason::Named);
    let names = ["15/b".to_owned()];
    assert!(
        goal(&named, TargetRequest { names: &names, ..TargetRequest::default() })
            >= PageCount(512 + 510)
    );
}

/// Of pools and boots; that the one which runs would start without huge pages is said of it in any
/// case.
fn codes(case: &Case) -> Vec<&'static str> {
    case.codes().into_iter().filter(|code| *code != "HW401").collect()
}

#[test]
fn check_says_what_a_plan_would_do() {
    assert_eq!(codes(&case(600, yes())), ["HW603", "HW603"]);
    // Nobody but a person starts it: a note to him.
    assert_eq!(codes(&case(600, no())), ["HW210"]);
    assert_eq!(codes(&case(1022, yes())), Vec::<&str>::new());
    // Alone on its host.
    let mut alone = testing::quiet();
    down(&mut alone, "15/b", 500, yes());
    alone.pool(0, 0);
    assert_eq!(codes(&alone), ["HW603"]);
    assert_eq!(goal(&alone, TargetRequest::default()), PageCount(510));
}

/// Nobody takes pages from under a stranger, and nobody plans for him.
#[test]
fn a_stranger_that_is_down_holds_his_claim_and_gets_nothing() {
    let mut case = case(600, yes());
    case.instances[1].trusted_by.clear();
    assert_eq!(words(&case)[0], ["all", "all", "all"]);
    assert_eq!(goal(&case, TargetRequest::default()), PageCount(600));
    assert_eq!(codes(&case), Vec::<&str>::new());
}

/// What lies there for one that is down is no reason to have another one ask for it.
#[test]
fn pages_that_wait_for_one_that_is_down_lie_idle_for_nobody() {
    let mut case = testing::quiet();
    down(&mut case, "15/b", 543, yes());
    let other = case.postgresql("15/off", gib(1).shared_by(2).unwrap());
    other.asked = HugePageMode::No;
    case.pool(598, 598);
    let codes = case.codes();
    assert!(!codes.contains(&"HW202"), "{codes:?}");
    assert_eq!(goal(&case, TargetRequest::default()), PageCount(598));
}

/// An Oracle that insists on so many pages, does not run, and is started by the boot.
fn oracle_down(case: &mut Case, name: &str, pages: u64) {
    down(case, name, pages, yes());
    case.user(54321, "oracle", 54321, "oinstall");
    let instance = case.instances.last_mut().unwrap();
    (instance.engine, instance.mechanism) = (Engine::Oracle, Mechanism::SysvShm);
    let process =
        Process { uid: 54321, gid: 54321, ipc_lock: Observed::Known(false), ..Process::default() };
    instance.stopped.as_mut().unwrap().process = Some(Box::new(process));
}

fn of(case: &Case, at: usize) -> [String; 2] {
    let situation = predict_host(&case.host, &case.instances);
    let moments = situation.forecasts_for(&case.instances[at]).unwrap();
    [&moments.restart, &moments.boot].map(|outlook| match &outlook.why {
        Some(why) => format!("{}: {why}", outlook.coverage.as_str()),
        None => outlook.coverage.as_str().to_owned(),
    })
}

/// fs/hugetlbfs/inode.c, can_do_hugetlb_shm(): since 5.16 the group or the capability, before that
/// the limit too.
#[test]
fn one_that_is_down_needs_the_right_to_system_v_huge_pages() {
    let mut case = testing::quiet();
    oracle_down(&mut case, "PROD", 1000);
    case.pool(2000, 2000);
    let lacks = "does_not_start: oracle has no CAP_IPC_LOCK and is not in vm.hugetlb_shm_group=0";
    case.instances[0].owner = "oracle".into();
    assert_eq!(of(&case, 0), [lacks, lacks]);
    let assessment = case.assess();
    let finding = assessment
        .findings
        .iter()
        .find(|other_finding| other_finding.code.as_str() == "HW603")
        .unwrap();
    assert!(matches!(finding.remedies.as_slice(), [Remedy::SetGroup(_)]), "{:?}", finding.remedies);
    let mut given = case.clone();
    given.host.kernel_settings.hugetlb_shm_group = Observed::Known(54321);
    given.host.configuration.sysctl = Observed::Known(vec![
        testing::sysctl("vm.nr_hugepages", "2000"),
        testing::sysctl("vm.hugetlb_shm_group", "54321"),
    ]);
    assert_eq!(of(&given, 0), ["all", "all"]);
    // Whose it is is not known, and so nothing of its right.
    case.instances[0].stopped.as_mut().unwrap().process = None;
    for outlook in of(&case, 0) {
        assert!(
            outlook.starts_with("unknown: ") && outlook.contains("runs as: not known"),
            "{outlook}"
        );
    }
}

#[test]
fn the_memlock_limit_of_one_that_is_down_is_a_log_ins_and_at_the_boot_its_units() {
    let mut case = testing::quiet();
    oracle_down(&mut case, "PROD", 1000);
    case.pool(2000, 2000);
    case.host.kernel =
        Observed::Known(KernelRelease { text: "3.10.0".into(), major: 3, minor: 10 });
    let rules = b"oracle - memlock unlimited\n";
    case.host.configuration.limits =
        Observed::Known(hugewise_host::config::limits::parse("/etc/security/limits.conf", rules));
    assert_eq!(of(&case, 0), ["all", "all"]);
    let limit = Limit::At(Bytes::from_kib(64));
    let unit = ServiceUnit {
        name: "dbora.service".into(),
        user: Observed::Known("oracle".into()),
        memlock: Observed::Known((
            limit,
            limit,
            testing::place("/etc/systemd/system/dbora.service"),
        )),
        files: vec!["/etc/systemd/system/dbora.service".into()],
        ..ServiceUnit::default()
    };
    case.instances[0].stopped.as_mut().unwrap().unit = Some(Box::new(unit));
    let [restart, boot] = of(&case, 0);
    assert_eq!(restart, "all", "a person starts it, from a login");
    assert!(
        boot.starts_with("does_not_start: ") && boot.contains("memlock 64 KiB for 2.0 GiB"),
        "{boot}"
    );
    let assessment = case.assess();
    let said =
        crate::remedy::to_do(&case.host, &case.instances, &assessment, hugewise_model::Level::Warn);
    let said: Vec<String> = said.into_iter().map(|(_, said)| said).collect();
    assert!(
        said.contains(&"raise the memlock limit of oracle PROD, for its service".to_owned()),
        "{said:?}"
    );
}

/// shmget(2), ENOSPC: the kernel counts huge pages in kernel.shmall as so many small ones.
#[test]
fn one_that_is_down_needs_room_for_its_segments() {
    let mut case = testing::quiet();
    all_huge(case.oracle("DW", gib(2), 10));
    case.host.sysv_segments = Observed::Known(vec![testing::sysv(1, gib(2), 1)]);
    oracle_down(&mut case, "FIN", 1024);
    case.pool(2100, 1076);
    let settings = &mut case.host.kernel_settings;
    settings.hugetlb_shm_group = Observed::Known(54321);
    let limits = |pages: u64| {
        let sysctl = |key, value: String| testing::sysctl(key, &value);
        let keys =
            [("vm.nr_hugepages", 2100), ("vm.hugetlb_shm_group", 54321), ("kernel.shmall", pages)];
        Observed::Known(keys.map(|(key, value)| sysctl(key, value.to_string())).to_vec())
    };
    // 4 GiB in all.
    for (pages, word) in [(1_048_576, "all"), (1_048_575, "does_not_start")] {
        case.host.kernel_settings.shmall_pages = Observed::Known(pages);
        case.host.configuration.sysctl = limits(pages);
        let outlook = of(&case, 1);
        assert!(outlook.iter().all(|text| text.starts_with(word)), "{pages}: {outlook:?}");
        let assessment = case.assess();
        let said = crate::remedy::to_do(
            &case.host,
            &case.instances,
            &assessment,
            hugewise_model::Level::Warn,
        );
        // As a plan has it: with the error of the estimate for the one that is down.
        let raises =
            said.iter().any(|(_, text)| text.starts_with("raise kernel.shmall from 1048575 to "));
        assert_eq!(raises, word != "all", "{said:?}");
    }
}

/// Two servers of 1 GiB each, one of them down, below a limit of 1.5 GiB of the slice of both.
#[test]
fn one_that_is_down_is_held_by_the_limit_of_the_slice_that_it_is_started_in() {
    let mut case = case(1100, yes());
    let slice = "/system.slice/system-postgresql.slice";
    for process in case.processes() {
        let path = format!("{slice}/postgresql@15-main.service");
        process.cgroups = Observed::Known(
            [CgroupMembership { hierarchy: 0, controllers: Vec::new(), path }].into(),
        );
    }
    let mut limit = testing::cgroup(slice, Limit::Unlimited);
    limit.reservation_max = Observed::Known(Limit::At(Bytes::from_mib(1536)));
    limit.reservation_current = Observed::Known(gib(1));
    case.host.hugetlb_cgroups = vec![limit];
    assert_eq!(words(&case)[1], ["not_running", "all", "all"], "where it is started is not known");
    let cgroup = format!("{slice}/postgresql@15-b.service");
    let unit = |cgroup: &str| ServiceUnit {
        name: "postgresql@15-b.service".into(),
        cgroup: cgroup.into(),
        ..ServiceUnit::default()
    };
    case.instances[1].stopped.as_mut().unwrap().unit = Some(Box::new(unit(&cgroup)));
    assert_eq!(
        words(&case),
        [["all", "all", "none"], ["not_running", "does_not_start", "does_not_start"]]
    );
    assert!(codes(&case).contains(&"HW603"), "{:?}", codes(&case));
    case.instances[1].stopped.as_mut().unwrap().unit =
        Some(Box::new(unit("/system.slice/other.service")));
    assert_eq!(words(&case)[1], ["not_running", "all", "all"]);
    // systemd starts nothing below the root of a controller of version 1.
    case.instances[1].stopped.as_mut().unwrap().unit = Some(Box::new(unit(&cgroup)));
    for process in case.processes() {
        let controllers = vec!["hugetlb".to_owned()];
        let of_1 = CgroupMembership { hierarchy: 5, controllers, path: "/".into() };
        let mut all = process.cgroups.as_known().unwrap().to_vec();
        all.push(of_1);
        process.cgroups = Observed::Known(all.into());
    }
    assert_eq!(words(&case)[1], ["not_running", "all", "all"]);
}

/// A host that starves gives back what nobody asks for; of what one that is down asks for nothing
/// may be known.
#[test]
fn a_host_that_starves_keeps_the_pages_that_may_be_of_one_that_is_down() {
    let mut case = case(25_000, no());
    case.host.memory.available = Observed::Known(Bytes::from_mib(400));
    assert_eq!(
        goal(&case, TargetRequest::default()),
        PageCount(512 + 510),
        "what it asks for is known"
    );
    let down = &mut case.instances[1];
    (down.asked, down.next, down.demand, down.possible_demands) =
        (HugePageMode::Unknown, Observed::Absent, None, Vec::new());
    for shrink in [false, true] {
        assert_eq!(
            goal(&case, TargetRequest { shrink, ..TargetRequest::default() }),
            PageCount(25_000)
        );
    }
    let assessment = case.assess();
    let said =
        crate::remedy::to_do(&case.host, &case.instances, &assessment, hugewise_model::Level::Warn);
    let said: Vec<String> = said.into_iter().map(|(_, said)| said).collect();
    let see = "before giving back 2 MiB pages, find out what postgresql 15/b asks for when it \
         starts: they may be its own";
    assert!(said.contains(&see.to_owned()), "{said:?}");
}

/// The boot starts it, and its file has its pages: until the boot it could not be started by hand,
/// and HW207 was a warning that nothing ended.
#[test]
fn what_the_file_has_for_a_server_that_is_down_is_set_now_too() {
    let mut case = case(540, yes());
    case.host.configuration.sysctl =
        Observed::Known(vec![testing::sysctl("vm.nr_hugepages", "1100")]);
    let assessment = case.assess();
    assert_eq!(assessment.target.pool(PageSize::MIB_2).unwrap().goal, PageCount(1100));
    let lines =
        crate::remedy::to_do(&case.host, &case.instances, &assessment, hugewise_model::Level::Warn);
    let set = "set the pool of 2 MiB pages to 1,100 (2.1 GiB), now and at each boot";
    assert!(lines.iter().any(|(_, line)| line == set), "{lines:?}");
}
