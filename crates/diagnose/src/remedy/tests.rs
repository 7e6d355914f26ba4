use hugewise_model::configuration::LimitRule;
use hugewise_model::process::SoftHard;
use hugewise_model::{Bytes, Engine, KernelRelease, Level, Limit, Observed};

use super::*;
use crate::testing::{all_huge, gib, part, quiet};

fn do_lines(case: &crate::testing::Case) -> Vec<String> {
    let assessment = case.assess();
    let all = to_do(&case.host, &case.instances, &assessment, Level::Info);
    all.into_iter().map(|(_, what)| what).collect()
}

#[test]
fn what_is_given_back_is_not_kept_for_the_boot() {
    let mut case = quiet();
    case.pool(4096, 4096);
    case.host.configuration.sysctl = Observed::Known(Vec::new());
    let codes = case.codes();
    // That the boot does not bring idle pages either is no second finding.
    assert!(codes.contains(&"HW202") && !codes.contains(&"HW601"), "{codes:?}");
    let lines = do_lines(&case);
    assert!(lines.iter().any(|line| line.starts_with("give back")), "{lines:?}");
    assert!(lines.iter().all(|line| !line.ends_with("at each boot")), "{lines:?}");
}

/// A restart of ASM takes every database with it: it is nobody's next step.
#[test]
fn asm_is_not_restarted_for_its_pages() {
    let lines = |is_asm: bool| {
        let mut case = quiet();
        case.oracle("+ASM1", gib(2), 3).traits.extend(is_asm.then_some(Trait::Asm));
        case.pool(1100, 1100);
        case.host.kernel_settings.hugetlb_shm_group = Observed::Known(54321);
        do_lines(&case)
    };
    assert!(lines(false).contains(&"restart oracle +ASM1".to_owned()), "{:?}", lines(false));
    let asm = lines(true);
    let said = "leave oracle +ASM1 running until the next restart of Grid Infrastructure, because \
                every database on this node goes down with it";
    assert!(
        asm.contains(&said.to_owned()) && asm.iter().all(|line| !line.starts_with("restart")),
        "{asm:?}"
    );
}

/// More than the servers need is kept for each boot: whoever follows what is said does not make it
/// fewer.
#[test]
fn what_each_boot_brings_already_is_not_lowered() {
    let mut case = quiet();
    let instance = all_huge(case.postgresql("15/main", gib(2)));
    instance.asked = HugePageMode::Must;
    let demand = hugewise_model::Demand {
        page_size: PageSize::MIB_2,
        pages: PageCount(1500),
        source: hugewise_model::DemandSource::Engine,
    };
    instance.next = Observed::Known(hugewise_model::NextStart {
        asked: HugePageMode::Must,
        setting: None,
        demands: vec![demand],
    });
    case.pool(1024, 0);
    let boot = |case: &mut crate::testing::Case, pages: &str| {
        let setting = crate::testing::sysctl("vm.nr_hugepages", pages);
        case.host.configuration.sysctl = Observed::Known(vec![setting]);
        let mut lines = do_lines(case);
        lines.retain(|line| line.starts_with("set the pool"));
        lines
    };
    let now = "set the pool of 2 MiB pages to 1,500 (2.9 GiB)";
    let place = "/etc/sysctl.d/50-db.conf:7";
    assert_eq!(
        boot(&mut case, "3000"),
        [format!("{now} now: each boot brings 3,000 already ({place})")]
    );
    assert_eq!(boot(&mut case, "1500"), [format!("{now}, now and at each boot")]);
    assert_eq!(boot(&mut case, "1499"), [format!("{now}, now and at each boot")]);
}

/// What a plan sets since an estimate leaves a server's next start open, `check` says as well.
#[test]
fn a_pool_that_may_be_too_small_is_said() {
    let mut case = quiet();
    let instance = case.mariadb("3306", gib(2));
    instance.demand = Some(hugewise_model::Demand {
        page_size: PageSize::MIB_2,
        pages: PageCount(1020),
        source: hugewise_model::DemandSource::Estimated { error_percent: 2 },
    });
    case.pool(1024, 1024);
    let goal = case.assess().target.pool(PageSize::MIB_2).unwrap().goal;
    assert!(goal > PageCount(1024), "{goal}");
    let set = format!("set the pool of 2 MiB pages to {goal} ");
    let lines = do_lines(&case);
    assert!(lines.iter().any(|line| line.starts_with(&set)), "{goal}: {lines:?}");
    let findings = case.assess().findings;
    let found = findings.iter().find(|finding| finding.code.as_str() == "HW209").unwrap();
    assert!(
        found.summary.ends_with("though the pool may have enough for it now"),
        "{}",
        found.summary
    );
}

#[test]
fn a_pool_in_use_is_kept_and_said_once() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(2)));
    case.pool(1024, 0);
    case.host.configuration.sysctl = Observed::Known(Vec::new());
    let lines = do_lines(&case);
    let kept = lines
        .iter()
        .filter(|line| **line == "set the pool of 2 MiB pages to 1,024 (2.0 GiB) at each boot")
        .count();
    assert_eq!(kept, 1, "{lines:?}");
}

/// MEMORY_TARGET of the next start rules huge pages out whatever use_large_pages says (Database
/// Reference 19c).
#[test]
fn memory_target_of_the_next_start_is_what_has_to_go() {
    let mut case = quiet();
    let instance = all_huge(case.oracle("DW", gib(4), 10));
    instance.asked = HugePageMode::Must;
    let place = Some(crate::testing::place("/u01/dbs/initDW.ora"));
    let setting = hugewise_model::instance::ServerSetting {
        name: "memory_target".into(),
        value: "16G".into(),
        place,
    };
    instance.settings.insert("memory_target".into(), setting.clone());
    let next = hugewise_model::NextStart {
        asked: HugePageMode::Cannot,
        setting: Some(setting),
        demands: Vec::new(),
    };
    instance.next = Observed::Known(next);
    case.pool(2048, 0);
    let lines = do_lines(&case);
    assert!(
        lines.iter().any(|line| line.ends_with("sga_target instead of memory_target")),
        "{lines:?}"
    );
    assert!(lines.iter().all(|line| !line.contains("use_large_pages")), "{lines:?}");
}

#[test]
fn a_server_that_will_find_its_pages_is_made_to_insist_at_once() {
    let lines = |change: fn(&mut crate::testing::Case)| {
        let mut case = quiet();
        all_huge(case.postgresql("15/main", gib(2))).asked = HugePageMode::No;
        case.pool(1024, 0);
        change(&mut case);
        do_lines(&case)
    };
    let is = |lines: Vec<String>, end: &str| {
        assert!(
            lines
                .iter()
                .any(|line| line == &format!("make postgresql 15/main ask for huge pages: {end}")),
            "{lines:?}"
        );
    };
    is(lines(|_| {}), "huge_pages=on");
    // One page too few keeps it down.
    let estimated = |case: &mut crate::testing::Case| {
        let source = hugewise_model::DemandSource::Estimated { error_percent: 10 };
        case.instances[0].demand.as_mut().unwrap().source = source;
    };
    is(lines(estimated), "huge_pages=try");
    // Pages that a limit keeps from it are not its own.
    let limited = |case: &mut crate::testing::Case| {
        let limit = hugewise_model::Limit::At(gib(1));
        case.host.hugetlb_cgroups = vec![crate::testing::cgroup("/system.slice", limit)];
    };
    is(lines(limited), "huge_pages=try");
    // Nor are those of nodes that it may not use.
    let kept = |case: &mut crate::testing::Case| {
        case.pools()[0].nodes = vec![part(0, 984, 0), part(1, 40, 0)];
        case.processes()
            .iter_mut()
            .for_each(|process| process.nodes_allowed = Observed::Known(vec![(1, 1)]));
    };
    is(lines(kept), "huge_pages=try");
}

/// A page size without a pool in /sys/kernel/mm/hugepages: mmap with MAP_HUGETLB fails (EINVAL),
/// however large any pool.
#[test]
fn no_pool_is_asked_for_of_a_size_that_the_kernel_does_not_have() {
    let mut case = quiet();
    let instance = all_huge(case.postgresql("15/main", gib(2)));
    let page = PageSize::new(16 << 20).unwrap();
    let demand = hugewise_model::Demand {
        page_size: page,
        pages: PageCount(128),
        source: hugewise_model::DemandSource::Engine,
    };
    let next = hugewise_model::NextStart {
        asked: HugePageMode::Must,
        setting: None,
        demands: vec![demand],
    };
    instance.next = Observed::Known(next);
    case.pool(1024, 0);
    let lines = do_lines(&case);
    let told = "have postgresql 15/main ask for pages of a size that this kernel has \
                (huge_page_size): 2 MiB and 1 GiB, and not 16 MiB";
    assert!(lines.iter().any(|line| line == told), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("the pool of 16 MiB")), "{lines:?}");
}

/// The note on huge_pages=try is what a plan acts on; a pool to give back is not, before somebody
/// asks for it.
#[test]
fn what_a_plan_does_beside_is_to_be_done_too() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(2)));
    case.pool(1024, 0);
    case.host.thp.enabled = Observed::Known("always".into());
    case.oracle("X", hugewise_model::Bytes::from_mib(10), 1);
    let assessment = case.assess();
    assert!(
        assessment.findings.iter().any(|finding| finding.level == Level::Warn),
        "{:?}",
        case.codes()
    );
    let all = to_do(&case.host, &case.instances, &assessment, Level::Warn);
    let notes = assessment.findings.iter().filter(|finding| finding.level == Level::Info);
    let settings = notes
        .flat_map(|finding| &finding.remedies)
        .filter(|remedy| matches!(remedy, Remedy::SetSetting(_)));
    for remedy in settings {
        assert!(
            all.iter().any(|(other_remedy, _)| other_remedy == remedy),
            "{remedy:?} in {all:?}"
        );
    }
    assert!(all.iter().any(|(remedy, _)| matches!(remedy, Remedy::SetSetting(_))), "{all:?}");
}

#[test]
fn nobody_is_told_to_insist_on_pages_that_only_a_reboot_brings() {
    let mut case = quiet();
    case.postgresql("15/main", gib(6));
    case.host.memory.available = Observed::Known(gib(1));
    let lines = do_lines(&case);
    let at = |what: &str| lines.iter().position(|line| line.contains(what));
    let (reboot, insist) = (
        at("reboot, or restart postgresql 15/main once its pages are there"),
        at("make postgresql 15/main require them"),
    );
    assert!(reboot.is_some() && reboot < insist, "{lines:?}");
    assert!(
        at("from the next boot on").is_some()
            && lines.iter().all(|line| line != "restart postgresql 15/main"),
        "{lines:?}"
    );
}

#[test]
fn what_is_done_is_not_asked_for_again() {
    // Its pool is in the boot's files and does not fit beside it now.
    let mut case = quiet();
    case.postgresql("15/main", gib(6));
    case.host.memory.available = Observed::Known(gib(1));
    case.host.configuration.sysctl =
        Observed::Known(vec![crate::testing::sysctl("vm.nr_hugepages", "3072")]);
    let lines = do_lines(&case);
    assert!(
        lines.contains(
            &"reboot: the next boot brings the 3,072 pages of 2 MiB (6.0 GiB)".to_owned()
        ),
        "{lines:?}"
    );
    // The reboot starts it again, and is named once.
    assert_eq!(lines.iter().filter(|line| line.contains("reboot")).count(), 1, "{lines:?}");
    assert!(lines.iter().all(|line| !line.starts_with("restart")), "{lines:?}");
    assert!(
        lines
            .iter()
            .all(|line| !line.starts_with("set the pool") && !line.contains("ask for fewer")),
        "{lines:?}"
    );

    // What it needs beside is to be there when the host comes up.
    let mut case = quiet();
    case.host.kernel =
        Observed::Known(KernelRelease { text: "4.18.0".into(), major: 4, minor: 18 });
    case.oracle("PROD", gib(6), 20);
    case.processes()[0].memlock = Observed::Known(SoftHard {
        soft: Limit::At(Bytes::from_kib(64)),
        hard: Limit::At(Bytes::from_kib(64)),
    });
    case.host.memory.available = Observed::Known(gib(1));
    case.host.configuration.sysctl =
        Observed::Known(vec![crate::testing::sysctl("vm.nr_hugepages", "3074")]);
    let lines = do_lines(&case);
    let at = |begin: &str| lines.iter().position(|line| line.starts_with(begin));
    assert!(
        at("raise the memlock").is_some() && at("raise the memlock") < at("reboot:"),
        "{lines:?}"
    );

    // Its memlock limit is raised in the files, and it has yet to be restarted.
    let mut case = quiet();
    case.host.kernel =
        Observed::Known(KernelRelease { text: "4.18.0".into(), major: 4, minor: 18 });
    case.oracle("PROD", gib(8), 20);
    case.pool(4098, 4098);
    let low = Limit::At(Bytes::from_kib(64));
    case.processes()[0].memlock = Observed::Known(SoftHard { soft: low, hard: low });
    let raise = |case: &crate::testing::Case| {
        do_lines(case).iter().any(|line| line.starts_with("raise the memlock"))
    };
    assert!(raise(&case));
    case.host.configuration.limits = Observed::Known(vec![LimitRule {
        domain: "oracle".into(),
        soft: true,
        hard: true,
        value: Limit::Unlimited,
        place: crate::testing::place("/etc/security/limits.d/zz-hugewise.conf"),
    }]);
    assert!(!raise(&case), "{:?}", do_lines(&case));
    assert!(do_lines(&case).contains(&"restart oracle PROD".to_owned()), "{:?}", do_lines(&case));
}

#[test]
fn a_pool_that_is_given_back_in_part_is_kept_for_the_servers_that_need_it() {
    let mut case = quiet();
    all_huge(case.postgresql("15/main", gib(1)));
    case.pool(3000, 2488);
    case.host.configuration.sysctl = Observed::Known(Vec::new());
    let lines = do_lines(&case);
    assert!(lines.iter().any(|line| line.starts_with("give back")), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("at each boot")), "{lines:?}");
}

#[test]
fn a_restart_comes_after_what_the_server_is_to_find() {
    let id = hugewise_model::InstanceId { engine: Engine::Oracle, name: "HR".into() };
    let mut all = [
        Remedy::Restart(id.clone()),
        Remedy::by_hand("x"),
        Remedy::RaiseMemlock(id),
        Remedy::SetPool(PageSize::MIB_2),
    ];
    all.sort();
    assert!(matches!(all[3], Remedy::Restart(_)), "{all:?}");
}
