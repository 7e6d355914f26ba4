//! Hosts for tests, built in code: a quiet host where no rule speaks, and servers to put on it.

use std::sync::Arc;

use hugewise_model::configuration::BootEntry;
use hugewise_model::configuration::{FileLocation, SysctlAssignment};
use hugewise_model::host::{AccountGroup, HugetlbCgroup, NodePool, NumaNode, SysvSegment, User};
use hugewise_model::instance::{Mechanism, SegmentKind, ServerSetting, SessionModel};
use hugewise_model::process::{CgroupMembership, SoftHard};
use hugewise_model::{
    Bytes, Demand, DemandSource, Engine, Host, HugePageMode, HugePageUse, Instance, KernelRelease,
    Limit, Observed, PageCount, PageSize, Pool, Process, Segment,
};

use Observed::Known;

use crate::prediction::{PredictionStage, predict_host};

/// What a rule must come with: a host where it speaks, one where it is silent, one where a fact it
/// cannot do without is missing.
pub(crate) struct Cases {
    pub(crate) speaks: fn() -> Case,
    pub(crate) silent: fn() -> Case,
    pub(crate) missing: fn() -> Case,
}

/// A host and what runs on it.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) host: Host,
    pub(crate) instances: Vec<Instance>,
}

pub(crate) fn gib(count: u64) -> Bytes {
    Bytes::from_gib(count)
}

/// A host of 64 GiB and 16 processors on which nothing is wrong: no pools, no servers.
pub(crate) fn quiet() -> Case {
    let mut host = Host { live: true, ..Host::default() };
    host.kernel = Known(KernelRelease { text: "6.1.0".into(), major: 6, minor: 1 });
    host.architecture = Known("x86_64".into());
    host.base_page = Known(PageSize::KIB_4);
    host.processors.online = Known(16);
    host.processors.gib_pages = Known(true);
    host.memory.total = Known(gib(64));
    host.memory.free = Known(gib(50));
    host.memory.available = Known(gib(55));
    host.memory.page_tables = Known(Bytes::from_mib(64));
    host.memory.swap_total = Known(gib(8));
    host.memory.swap_free = Known(gib(8));
    host.memory.watermarks = Known(Vec::new());
    host.memory.vmstat = Known([("thp_fault_alloc", 1)].into_iter().collect());
    host.nodes = Known(vec![node(0)]);
    host.default_huge_page = Known(PageSize::MIB_2);
    host.pools = Known(vec![pool(PageSize::MIB_2, 0, 0), pool(PageSize::GIB_1, 0, 0)]);
    host.hugetlbfs_mounts = Known(Vec::new());
    host.thp.enabled = Known("madvise".into());
    host.kernel_settings.shmmax = Known(Bytes(u64::MAX));
    host.kernel_settings.shmall_pages = Known(u64::MAX);
    host.kernel_settings.hugetlb_shm_group = Known(0);
    host.kernel_settings.overcommit_memory = Known(0);
    host.kernel_settings.nr_hugepages = Known(PageCount(0));
    host.kernel_settings.max_map_count = Known(65_530);
    host.command_line = Known(vec!["quiet".into()]);
    host.sysv_segments = Known(Vec::new());
    host.configuration.sysctl = Known(Vec::new());
    host.configuration.limits = Known(Vec::new());
    host.configuration.tmpfiles = Known(Vec::new());
    host.configuration.boot = Known(BootEntry {
        loader: hugewise_model::configuration::BootLoader::Grub,
        command_line: vec!["quiet".into()],
        place: place("/boot/grub/grub.cfg"),
    });
    host.processes = Known(Vec::new());
    host.kernel_log = Known(Vec::new());
    Case { host, instances: Vec::new() }
}

pub(crate) fn place(file: &str) -> FileLocation {
    FileLocation { file: file.into(), line: 7 }
}

pub(crate) fn node(id: u32) -> NumaNode {
    NumaNode { id, total: Known(gib(32)), free: Known(gib(20)) }
}

pub(crate) fn pool(page_size: PageSize, total: u64, free: u64) -> Pool {
    Pool {
        page_size,
        total: Known(PageCount(total)),
        free: Known(PageCount(free)),
        reserved: Known(PageCount(0)),
        surplus: Known(PageCount(0)),
        overcommit: Known(PageCount(0)),
        nodes: vec![part(0, total, free)],
    }
}

/// A node's part of a pool.
pub(crate) const fn part(node: u32, total: u64, free: u64) -> NodePool {
    NodePool {
        node,
        total: Known(PageCount(total)),
        free: Known(PageCount(free)),
        surplus: Known(PageCount(0)),
    }
}

impl Case {
    /// Sets the pool of 2 MiB pages, and has sysctl.d say the same.
    pub(crate) fn pool(&mut self, total: u64, free: u64) -> &mut Self {
        self.host.pools =
            Known(vec![pool(PageSize::MIB_2, total, free), pool(PageSize::GIB_1, 0, 0)]);
        self.host.configuration.sysctl = Known(vec![sysctl("vm.nr_hugepages", &total.to_string())]);
        self
    }

    pub(crate) fn pools(&mut self) -> &mut Vec<Pool> {
        match &mut self.host.pools {
            Known(pools) => pools,
            _ => panic!("no pools"),
        }
    }

    pub(crate) fn processes(&mut self) -> Vec<&mut Process> {
        match &mut self.host.processes {
            Known(processes) => processes.iter_mut().map(Arc::make_mut).collect(),
            _ => panic!("no processes"),
        }
    }

    pub(crate) fn user(&mut self, uid: u32, name: &str, gid: u32, group: &str) {
        self.host.accounts.users.insert(uid, User { name: name.into(), gid, home: None });
        self.host
            .accounts
            .groups
            .insert(gid, AccountGroup { name: group.into(), ..AccountGroup::default() });
    }

    /// A PostgreSQL with `huge_pages=try`, on base pages, 20 sessions of at most 100.
    pub(crate) fn postgresql(&mut self, name: &str, size: Bytes) -> &mut Instance {
        let place = Some(place("/etc/postgresql/15/main/postgresql.conf"));
        let setting = ServerSetting { name: "huge_pages".into(), value: "try".into(), place };
        self.user(106, "postgres", 113, "postgres");
        self.instance(Engine::PostgreSql, name, size, 20, |instance| {
            instance.owner = "postgres".into();
            instance.max_sessions = Known(100);
            instance.setting = Some(setting);
            instance.unit = Some(format!("postgresql@{}.service", name.replace('/', "-")));
            instance.unit_is_its_own = true;
            instance.endpoints = vec!["5432".into()];
        })
    }

    /// An Oracle 19c with `use_large_pages=TRUE`, on base pages.
    pub(crate) fn oracle(&mut self, name: &str, size: Bytes, sessions: u64) -> &mut Instance {
        self.user(54321, "oracle", 54321, "oinstall");
        self.instance(Engine::Oracle, name, size, sessions, |instance| {
            instance.owner = "oracle".into();
            instance.version = Known("19c".into());
            instance.max_sessions = Known(1000);
            instance.mechanism = Mechanism::SysvShm;
            instance.segments[0].kind = SegmentKind::SystemV;
            instance.setting = Some(ServerSetting {
                name: "use_large_pages".into(),
                value: "TRUE".into(),
                place: None,
            });
        })
    }

    /// A MariaDB with `large_pages=ON`, on base pages, threads.
    pub(crate) fn mariadb(&mut self, name: &str, size: Bytes) -> &mut Instance {
        self.instance(Engine::MariaDb, name, size, 0, |instance| {
            instance.owner = "mysql".into();
            instance.sessions = Observed::Absent;
            instance.session_model = SessionModel::Threads;
            instance.segments[0].kind = SegmentKind::Private;
        })
    }

    /// Any server on base pages: one segment, one process a session and the main one, 64 KiB of
    /// page tables each.
    pub(crate) fn instance(
        &mut self,
        engine: Engine,
        name: &str,
        size: Bytes,
        sessions: u64,
        finish: impl FnOnce(&mut Instance),
    ) -> &mut Instance {
        let pid = 1000 * (1 + u32::try_from(self.instances.len()).unwrap());
        let pids: Vec<u32> = (pid..=pid + u32::try_from(sessions).unwrap()).collect();
        let mut instance = Instance {
            engine,
            name: name.into(),
            pid,
            version: Known("15.1".into()),
            owner: "nobody".into(),
            sessions: Known(sessions),
            asked: HugePageMode::Try,
            asked_page_size: Known(PageSize::MIB_2),
            segments: vec![segment(u64::from(pid), size, false)],
            huge_pages: HugePageUse::None,
            demand: Some(Demand {
                page_size: PageSize::MIB_2,
                pages: PageSize::MIB_2.pages_for(size),
                source: DemandSource::Engine,
            }),
            page_tables: Known(Bytes::from_kib(64 * (sessions + 1))),
            trusted_by: vec![hugewise_model::trusted_by::TrustReason::Account],
            pids: pids.clone(),
            ..Instance::default()
        };
        finish(&mut instance);
        let owner = instance.owner.clone();
        let uid = self
            .host
            .accounts
            .users
            .iter()
            .find(|(_, user)| user.name == owner)
            .map_or(65534, |(uid, _)| *uid);
        let gid = self.host.accounts.users.get(&uid).map_or(65534, |user| user.gid);
        let processes = pids.iter().map(|pid| Process {
            pid: *pid,
            uid,
            gid,
            ipc_lock: Known(false),
            memlock: Known(SoftHard { soft: Limit::Unlimited, hard: Limit::Unlimited }),
            mappings: Known(Vec::new()),
            cgroups: Known(
                [CgroupMembership {
                    hierarchy: 0,
                    controllers: Vec::new(),
                    path: "/system.slice/db.service".into(),
                }]
                .into(),
            ),
            ..Process::default()
        });
        match &mut self.host.processes {
            Known(there) => there.extend(processes.map(Arc::new)),
            _ => panic!("no processes"),
        }
        self.instances.push(instance);
        self.instances.last_mut().unwrap()
    }

    pub(crate) fn assess(&self) -> crate::Assessment {
        crate::assess_host(&self.host, &self.instances)
    }

    /// What a rule by itself cannot do without, and does not know of this host.
    pub(crate) fn missing_facts(&self, rule: &crate::Rule) -> Vec<String> {
        let assessment = self.assess();
        let verdicts = (rule.check)(&assessment.rule_facts(&self.host, &self.instances));
        let missing = verdicts.into_iter().filter_map(|verdict| match verdict {
            crate::RuleVerdict::Unknown(unknown) => Some(unknown.missing),
            crate::RuleVerdict::Found(_) => None,
        });
        missing.collect()
    }

    /// How the first server stands now, after its restart and after the next boot.
    pub(crate) fn standings(&self) -> [&'static str; 3] {
        let situation = predict_host(&self.host, &self.instances);
        let stages = situation.forecasts_for(&self.instances[0]).unwrap();
        PredictionStage::ALL.map(|stage| stages.at_stage(stage).coverage.as_str())
    }

    /// Codes of the findings.
    pub(crate) fn codes(&self) -> Vec<&'static str> {
        let mut codes: Vec<_> =
            self.assess().findings.iter().map(|finding| finding.code.as_str()).collect();
        codes.sort_unstable();
        codes
    }
}

pub(crate) fn segment(identity: u64, size: Bytes, huge: bool) -> Segment {
    Segment {
        kind: SegmentKind::AnonymousShared,
        name: "/dev/zero".into(),
        size,
        page_size: Known(if huge { PageSize::MIB_2 } else { PageSize::KIB_4 }),
        huge: Known(huge),
        mappers: 1,
        identity: (0, identity),
    }
}

/// Puts an instance wholly on huge pages.
pub(crate) fn all_huge(instance: &mut Instance) -> &mut Instance {
    instance.huge_pages = HugePageUse::All;
    for segment in &mut instance.segments {
        segment.page_size = Known(PageSize::MIB_2);
        segment.huge = Known(true);
    }
    instance
}

/// Puts so much of an instance on huge pages, the rest on base pages.
pub(crate) fn partly_huge(instance: &mut Instance, huge: Bytes) -> &mut Instance {
    let all = instance.segment_bytes();
    instance.huge_pages = HugePageUse::Partly;
    instance.segments = vec![segment(1, huge, true), segment(2, all.saturating_sub(huge), false)];
    instance
}

/// Hides what page size an instance's memory has.
pub(crate) fn hidden(case: &mut Case) {
    for process in case.processes() {
        process.mappings = Observed::Denied;
    }
    for instance in &mut case.instances {
        instance.huge_pages = HugePageUse::Unknown;
        for segment in &mut instance.segments {
            segment.page_size = Observed::Denied;
            segment.huge = Observed::Denied;
        }
    }
}

pub(crate) fn sysctl(key: &str, value: &str) -> SysctlAssignment {
    SysctlAssignment {
        key: key.into(),
        value: value.into(),
        place: place("/etc/sysctl.d/50-db.conf"),
    }
}

pub(crate) fn sysv(id: u64, size: Bytes, attached: u64) -> SysvSegment {
    SysvSegment {
        id,
        key: 0,
        mode: 0o600,
        size,
        creator: 1,
        attached,
        uid: 54321,
        gid: 54321,
        rss: Known(size),
        swap: Known(Bytes::ZERO),
    }
}

pub(crate) fn cgroup(path: &str, fault_max: Limit) -> HugetlbCgroup {
    HugetlbCgroup {
        path: path.into(),
        page_size: PageSize::MIB_2,
        fault_max: Known(fault_max),
        fault_current: Known(Bytes::ZERO),
        reservation_max: Known(Limit::Unlimited),
        reservation_current: Known(Bytes::ZERO),
        failures: Known(0),
    }
}
