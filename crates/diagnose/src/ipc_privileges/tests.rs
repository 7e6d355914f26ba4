//! What a start is given, held against pam_limits(8), systemd.exec(5) and who types what.

use std::sync::Arc;

use hugewise_host::config::limits;
use hugewise_model::configuration::{Clusterware, FileLocation};
use hugewise_model::process::{CgroupMembership, SoftHard};
use hugewise_model::{Bytes, Engine, KernelRelease, Remedy};

use super::*;
use crate::coverage::Coverage::{self, All, None as NoPages, Unknown};
use crate::prediction::{StageForecasts, predict_host};
use crate::testing::{self, Case};

const UNIT: &str = "/etc/systemd/system/db.service";
const SMALL: Limit = Limit::At(Bytes::from_kib(64));
const ENOUGH: &str = "oracle - memlock unlimited\n";

/// A server of 2 GiB on RHEL 7, where memlock decides, in a pool that has enough for it.
struct StartingServer {
    case: Case,
}

impl StartingServer {
    /// Running with this limit.
    fn new(engine: Engine, runs_with: Limit) -> Self {
        let mut case = testing::quiet();
        case.host.kernel =
            Observed::Known(KernelRelease { text: "3.10.0".into(), major: 3, minor: 10 });
        let instance = case.oracle("PROD", testing::gib(2), 0);
        instance.engine = engine;
        instance.unit = Some("db.service".into());
        case.pool(1100, 1100);
        let mut server = Self { case };
        server.process(|process| {
            process.memlock = Observed::Known(SoftHard { soft: runs_with, hard: runs_with });
        });
        server.unit(|_| {})
    }

    fn process(&mut self, change: impl Fn(&mut Process)) {
        let Observed::Known(processes) = &mut self.case.host.processes else {
            panic!("no processes")
        };
        processes.iter_mut().for_each(|process| change(Arc::make_mut(process)));
    }

    /// With User=oracle.
    fn unit(mut self, change: impl Fn(&mut ServiceUnit)) -> Self {
        let mut unit = ServiceUnit {
            name: "db.service".into(),
            files: vec![UNIT.into()],
            ..ServiceUnit::default()
        };
        unit.user = Observed::Known("oracle".into());
        change(&mut unit);
        self.case.host.configuration.units = vec![unit];
        self
    }

    fn without_unit(mut self, cgroup: &str) -> Self {
        self.case.instances[0].unit = None;
        self.process(|process| {
            let membership =
                CgroupMembership { hierarchy: 0, controllers: Vec::new(), path: cgroup.into() };
            process.cgroups = Observed::Known([membership].into());
        });
        self
    }

    fn rules(mut self, rules: &str) -> Self {
        self.case.host.configuration.limits =
            Observed::Known(limits::parse("/limits", rules.as_bytes()));
        self
    }

    fn moments(&self) -> StageForecasts {
        predict_host(&self.case.host, &self.case.instances)
            .forecasts_for(&self.case.instances[0])
            .unwrap()
            .clone()
    }

    /// After a restart, and after the boot.
    fn then(&self) -> (Coverage, Coverage) {
        let moments = self.moments();
        (moments.restart.coverage, moments.boot.coverage)
    }
}

fn gives(limit: Limit) -> Observed<(Limit, Limit, FileLocation)> {
    Observed::Known((limit, limit, FileLocation { file: UNIT.into(), line: 3 }))
}

/// sqlplus is typed in a login, whatever unit the server lies in; the boot starts the unit.
#[test]
fn oracle_is_restarted_from_a_log_in_and_booted_by_its_unit() {
    for (runs_with, rules, unit, restart, boot) in [
        (SMALL, ENOUGH, gives(Limit::Unlimited), All, All),
        (SMALL, ENOUGH, Observed::Absent, All, NoPages),
        (SMALL, "", gives(Limit::Unlimited), NoPages, All),
        (Limit::Unlimited, "", Observed::Absent, NoPages, NoPages),
        (
            Limit::Unlimited,
            "oracle hard memlock 64\noracle soft memlock unlimited\n",
            gives(Limit::Unlimited),
            NoPages,
            All,
        ),
        (
            Limit::Unlimited,
            "oracle soft memlock unlimited\n",
            gives(Limit::Unlimited),
            NoPages,
            All,
        ),
        (SMALL, "@54000:55000 - memlock unlimited\n", gives(Limit::Unlimited), All, All),
    ] {
        let server = StartingServer::new(Engine::Oracle, runs_with)
            .unit(|service_unit| service_unit.memlock = unit.clone())
            .rules(rules);
        assert_eq!(server.then(), (restart, boot), "{runs_with:?} {rules} {unit:?}");
    }
}

/// systemd sets the limits of what it starts as its own user itself: what the process has now came
/// from elsewhere.
#[test]
fn a_service_is_started_by_its_unit() {
    for loaded in [None, Some(Loaded::Unchanged), Some(Loaded::Anew), Some(Loaded::Since)] {
        for (runs_with, unit, then) in [
            (SMALL, gives(Limit::Unlimited), All),
            (Limit::Unlimited, gives(SMALL), NoPages),
            (Limit::Unlimited, Observed::Absent, NoPages),
        ] {
            let server =
                StartingServer::new(Engine::Other, runs_with).rules(ENOUGH).unit(|service_unit| {
                    service_unit.memlock = unit.clone();
                    service_unit.loaded = loaded.clone().into();
                });
            assert_eq!(server.then(), (then.clone(), then), "{runs_with:?} {unit:?} {loaded:?}");
        }
    }
}

/// What a unit starts as root becomes its user by su, which asks pam_limits, or by itself, which
/// does not.
#[test]
fn what_root_starts_has_its_own_ways() {
    let by_root = |rules: &str, loaded: Option<Loaded>| {
        let server = StartingServer::new(Engine::Other, SMALL).rules(rules).unit(|service_unit| {
            service_unit.user = Observed::Absent;
            service_unit.loaded = loaded.clone().into();
        });
        server.then()
    };
    assert_eq!(by_root("", None), (NoPages, NoPages));
    assert_eq!(by_root(ENOUGH, None), (Unknown, Unknown));
    assert_eq!(
        by_root(ENOUGH, Some(Loaded::Unchanged)),
        (NoPages, NoPages),
        "as it was started before"
    );
}

#[test]
fn a_service_that_is_a_session_of_pam_goes_by_the_rules() {
    let server = |rules| {
        StartingServer::new(Engine::Other, SMALL)
            .rules(rules)
            .unit(|service_unit| service_unit.pam = true)
    };
    assert_eq!(server(ENOUGH).then(), (All, All));
    assert_eq!(server("postgres - memlock unlimited\n").then(), (NoPages, NoPages));
}

#[test]
fn what_a_log_in_started_another_one_starts_again() {
    let session = "/user.slice/user-54321.slice/session-4.scope";
    let coverage_of = |cgroup: &str, runs_with, rules: &str| {
        StartingServer::new(Engine::Other, runs_with)
            .without_unit(cgroup)
            .rules(rules)
            .moments()
            .restart
            .coverage
    };
    assert_eq!(coverage_of(session, Limit::Unlimited, ""), NoPages);
    assert_eq!(coverage_of(session, SMALL, ENOUGH), All);
    // Who started this one is not known.
    assert_eq!(coverage_of("/", Limit::Unlimited, ""), Unknown);
    assert_eq!(coverage_of("/", Limit::Unlimited, ENOUGH), All);
    assert_eq!(coverage_of("/", SMALL, ""), NoPages);
}

#[test]
fn rules_that_cannot_be_read_leave_a_log_in_open() {
    let mut server = StartingServer::new(Engine::Oracle, Limit::Unlimited);
    server.case.host.configuration.limits = Observed::Denied;
    let restart = server.moments().restart;
    assert_eq!(restart.coverage, Unknown);
    assert!(restart.why.as_deref().unwrap().contains("limits.d: denied"), "{restart:?}");
}

/// A limit of the next start is told by the file that says it, never by that of the running
/// process.
#[test]
fn evidence_names_what_says_it() {
    let server =
        StartingServer::new(Engine::Oracle, Limit::Unlimited).rules("oracle - memlock 64\n");
    let moments = server.moments();
    let (restart, boot) = (moments.restart.why.unwrap(), moments.boot.why.unwrap());
    assert!(
        restart.ends_with("memlock 64.0 KiB for 2.0 GiB (/limits:1)") || restart.contains("64 KiB"),
        "{restart}"
    );
    assert!(restart.contains("(/limits:1)") && !restart.contains("/proc/"), "{restart}");
    assert!(
        boot.contains("(systemd's default)") && boot.contains("64 KiB") && !boot.contains("/proc/"),
        "{boot}"
    );
}

/// The capability that a unit gives is no login's.
#[test]
fn a_capability_of_the_unit_is_lost_with_a_log_in() {
    let mut server = StartingServer::new(Engine::Oracle, SMALL)
        .unit(|service_unit| service_unit.ambient_ipc_lock = true);
    server.process(|process| process.ipc_lock = Observed::Known(true));
    assert_eq!(server.then(), (NoPages, All));
}

/// The cause is the limit of the next start where the process that runs has another; an Oracle is
/// told so, and not to insist.
#[test]
fn a_limit_that_the_next_start_lacks_is_the_cause() {
    let server = StartingServer::new(Engine::Oracle, Limit::Unlimited)
        .unit(|service_unit| service_unit.memlock = gives(Limit::Unlimited));
    let assessment = server.case.assess();
    let found = assessment.findings.iter().find(|found| found.code.as_str() == "HW301");
    let found = found.unwrap_or_else(|| panic!("{:?}", server.case.codes()));
    assert!(
        found
            .summary
            .ends_with("needs a memlock limit of 2.0 GiB and its next start has one of 64 KiB"),
        "{found:?}"
    );
    assert!(
        found.evidence.iter().any(|text| text.contains("no rule in limits.conf or limits.d")),
        "{:?}",
        found.evidence
    );
    assert!(!server.case.codes().contains(&"HW209"), "{:?}", server.case.codes());
    assert!(assessment.target.insisting.is_empty());
    // Both ways of starting it have to have it.
    let both = server.rules(ENOUGH);
    assert_eq!(both.case.assess().target.insisting.len(), 1);
    let boot_lacks = both.unit(|_| {});
    assert!(boot_lacks.case.assess().target.insisting.is_empty());
}

/// A database of the owner's agent, with what its files give Clusterware.
fn by_clusterware(agent: Limit, files: Observed<(Limit, FileLocation)>) -> StartingServer {
    let mut server = StartingServer::new(Engine::Oracle, agent).rules(ENOUGH);
    let owner = server.case.processes()[0].uid;
    let stack = |pid, name: &str, uid| {
        let memlock = Observed::Known(SoftHard { soft: agent, hard: agent });
        Arc::new(Process { pid, name: name.into(), uid, memlock, ..Process::default() })
    };
    if let Observed::Known(all) = &mut server.case.host.processes {
        all.extend([stack(10, "ohasd.bin", 0), stack(20, "oraagent.bin", owner)]);
        all.sort_by_key(|process| process.pid);
    }
    let file = Some("/u01/grid/crs/install/s_crsconfig_db1_env.txt".to_owned());
    server.case.host.configuration.clusterware = Some(Clusterware { memlock: files, file });
    server
}

/// srvctl has the agent start it, and the boot goes by what Clusterware's files say: the login,
/// which would be enough, has no part in it.
#[test]
fn clusterware_gives_a_database_what_its_agent_has_and_at_the_boot_what_its_files_say() {
    let file = |limit| {
        Observed::Known((limit, FileLocation { file: "/etc/init.d/ohasd".into(), line: 3 }))
    };
    for (agent, files, then) in [
        (Limit::Unlimited, file(Limit::Unlimited), (All, All)),
        (SMALL, file(SMALL), (NoPages, NoPages)),
        // Corrected, and Clusterware not yet started anew.
        (SMALL, file(Limit::Unlimited), (NoPages, All)),
        // Started by a root whose shell has no limit.
        (Limit::Unlimited, file(SMALL), (All, NoPages)),
        (Limit::Unlimited, Observed::Absent, (All, Unknown)),
        (SMALL, Observed::Absent, (NoPages, NoPages)),
        (Limit::Unlimited, Observed::Denied, (All, Unknown)),
    ] {
        let server = by_clusterware(agent, files.clone());
        assert_eq!(server.then(), then, "{agent:?} {files:?}: {:?}", server.moments());
    }
}

#[test]
fn that_sqlplus_and_srvctl_give_other_limits_is_a_finding_and_its_cure_names_the_file() {
    let place = FileLocation { file: "/etc/init.d/ohasd".into(), line: 3 };
    let server = by_clusterware(SMALL, Observed::Known((SMALL, place)));
    let assessment = crate::assess_host(&server.case.host, &server.case.instances);
    let told = assessment.findings.iter().find(|finding| finding.code.as_str() == "HW305").unwrap();
    assert!(
        told.summary.ends_with("started with sqlplus it gets huge pages, with srvctl it does not"),
        "{}",
        told.summary
    );
    assert!(
        told.evidence[0].contains("64 KiB (/proc/20/limits of oraagent.bin)"),
        "{:?}",
        told.evidence
    );
    assert!(!assessment.findings.iter().any(|finding| finding.code.as_str() == "HW302"));
    let starter = EngineKind::for_engine(Engine::Oracle).restart.starter.as_ref().unwrap();
    let lines = (starter.limits)(&server.case.host, &server.case.instances[0]).unwrap().join("\n");
    assert!(lines.contains("/etc/init.d/ohasd:3 gives it 64 KiB of memlock"), "{lines}");
    assert!((starter.how)(&server.case.host, &server.case.instances[0])[0].contains("srvctl"));
}

/// A user was added to the group, and the agent runs as it was started: sqlplus from a new login
/// gets the pages.
#[test]
fn the_agent_keeps_the_groups_that_it_was_started_with() {
    for (name, groups, is_read, then, told) in [
        ("oraagent.bin", vec![54321, 54330], true, (All, All), false),
        ("oraagent.bin", vec![54321], true, (NoPages, All), true),
        ("oraagent.bin", vec![], true, (NoPages, All), true),
        // ps tells no groups.
        ("oraagent.bin", vec![], false, (All, All), false),
        // Without an agent the stack starts one, which gets the groups of its user then.
        ("other", vec![0], true, (All, All), false),
    ] {
        let file = Observed::Known((
            Limit::Unlimited,
            FileLocation { file: "/etc/init.d/ohasd".into(), line: 3 },
        ));
        let mut server = by_clusterware(Limit::Unlimited, file);
        let host = &mut server.case.host;
        host.kernel = Observed::Known(KernelRelease { text: "6.12.0".into(), major: 6, minor: 12 });
        host.kernel_settings.hugetlb_shm_group = Observed::Known(54330);
        host.configuration.sysctl = Observed::Known(vec![
            crate::testing::sysctl("vm.nr_hugepages", "1100"),
            crate::testing::sysctl("vm.hugetlb_shm_group", "54330"),
        ]);
        let owner = server.case.instances[0].owner.clone();
        let members = vec![owner];
        let group = hugewise_model::host::AccountGroup {
            name: "hugepages".into(),
            members,
            ..Default::default()
        };
        server.case.host.accounts.groups.insert(54330, group);
        for process in server
            .case
            .processes()
            .into_iter()
            .filter(|other_process| other_process.name == "oraagent.bin")
        {
            process.groups = groups.clone();
            process.name = name.into();
            if !is_read {
                process.memlock = Observed::Absent;
            }
        }
        assert_eq!(server.then(), then, "{name} {groups:?}: {:?}", server.moments());
        let assessment = crate::assess_host(&server.case.host, &server.case.instances);
        let found = assessment.findings.iter().find(|finding| finding.code.as_str() == "HW305");
        assert_eq!(found.is_some(), told, "{groups:?}");
        let sets = |finding: &hugewise_model::Finding| {
            finding.remedies.iter().any(|remedy| matches!(remedy, Remedy::SetGroup(_)))
        };
        assert!(!assessment.findings.iter().any(sets), "{groups:?}");
        assert!(
            found.is_none_or(
                |finding| finding.evidence[0].starts_with("oraagent.bin (pid 20) is not in")
            ),
            "{found:?}"
        );
    }
}

/// Started from a login with memlock unlimited; the boot starts it by a service that sets none:
/// systemd gives that 64 KiB.
#[test]
fn what_was_started_by_hand_has_its_services_limit_at_the_boot() {
    let by_hand = |memlock: Observed<(Limit, Limit, FileLocation)>| {
        let mut server = StartingServer::new(Engine::Other, Limit::Unlimited)
            .without_unit("/user.slice/user-54321.slice/session-3.scope")
            .rules(ENOUGH);
        let unit = ServiceUnit {
            name: "db.service".into(),
            files: vec![UNIT.into()],
            user: Observed::Known("oracle".into()),
            memlock,
            ..ServiceUnit::default()
        };
        server.case.instances[0].boot_unit = Some(Box::new(unit));
        server
    };
    let place = FileLocation { file: UNIT.into(), line: 3 };
    let silent = by_hand(Observed::Absent);
    assert_eq!(silent.then(), (All, NoPages));
    let codes = silent.case.codes();
    assert!(codes.contains(&"HW302"), "{codes:?}");
    let remedies: Vec<Remedy> =
        silent.case.assess().findings.into_iter().flat_map(|finding| finding.remedies).collect();
    assert!(remedies.contains(&Remedy::RaiseMemlock(silent.case.instances[0].id())));
    let unlimited = Observed::Known((Limit::Unlimited, Limit::Unlimited, place));
    assert_eq!(by_hand(unlimited).then(), (All, All));
}
