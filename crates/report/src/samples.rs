//! Hosts made by hand for the snapshots.

use crate::Report;
use hugewise_change::Plan;
use hugewise_diagnose::Assessment;
use hugewise_diagnose::coverage::{Coverage, measure_coverage};
use hugewise_diagnose::sizing::{self, Request};
use hugewise_engines::log_files::read_log;
use hugewise_engines::logs::{LogReport, LogText, LogVerdict};
use hugewise_investigate::Investigation;
use hugewise_model::configuration::FileLocation;
use hugewise_model::host::{HostMemory, NodePool, NumaNode, Processors, Thp};
use hugewise_model::instance::{Mechanism, SegmentKind, ServerSetting};
use hugewise_model::{
    Bytes, Demand, DemandSource, Engine, Finding, Host, HugePageChain, HugePageMode, HugePageUse,
    Instance, InstanceId, KernelRelease, Level, Link, LinkName, LinkState, Observed, PageCount,
    PageSize, Pool, Reason, Remedy, RuleId, Segment, UnknownVerdict, Unread,
};

use hugewise_diagnose::target::{TargetRequest, find_target};

use crate::formats::testing;
use crate::{
    CheckReport, HostReport, LogDisagreement, Palette, PlanReport, SizeReport, Stop, TextLayout,
    Verified,
};

/// Everything that a report shows.
pub(crate) struct Sample {
    pub(crate) host: Host,
    pub(crate) instances: Vec<Instance>,
    pub(crate) assessment: Assessment,
    pub(crate) unread: Vec<Unread>,
}

impl Sample {
    pub(crate) fn checked(&self) -> CheckReport<'_> {
        let Self { host, instances, assessment, unread } = self;
        CheckReport { host, instances, assessment, unread, root: None }
    }

    pub(crate) fn text(&self, width: usize) -> String {
        self.shown(TextLayout::plain_text(width))
    }

    pub(crate) fn coloured(&self, width: usize) -> String {
        self.shown(TextLayout { palette: Palette::Colour, ..TextLayout::plain_text(width) })
    }

    fn shown(&self, layout: TextLayout) -> String {
        let mut out = Vec::new();
        self.checked().write_text(&mut out, layout).unwrap();
        String::from_utf8(out).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let mut out = Vec::new();
        self.checked().write_json(&mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }
}

impl Sample {
    pub(crate) fn sized_text(&self, memory: Option<Bytes>, width: usize) -> String {
        let mut out = Vec::new();
        self.sized(memory, |report| {
            report.write_text(&mut out, TextLayout::plain_text(width)).unwrap()
        });
        String::from_utf8(out).unwrap()
    }

    pub(crate) fn sized_json(&self, memory: Option<Bytes>) -> serde_json::Value {
        let mut out = Vec::new();
        self.sized(memory, |report| report.write_json(&mut out).unwrap());
        serde_json::from_slice(&out).unwrap()
    }

    pub(crate) fn sized(&self, memory: Option<Bytes>, show: impl FnOnce(&SizeReport<'_>)) {
        let Self { host, instances, unread, .. } = self;
        let request = Request { memory, sessions: Some(500), ..Request::default() };
        let sizing = sizing::size_servers(host, instances, &request).unwrap();
        show(&SizeReport {
            host,
            instances,
            request: &request,
            sizing: &sizing,
            planned: &[],
            shrunk: &[],
            unread,
        });
    }

    /// A report with all that there is to say; of a host without servers, one without a plan.
    pub(crate) fn with_whole_report(
        &self,
        archives: Option<&Investigation>,
        show: impl FnOnce(&HostReport<'_>),
    ) {
        self.whole_with(&testing::plan(), archives, show);
    }

    /// The same with another plan.
    pub(crate) fn whole_with(
        &self,
        plan: &Plan,
        archives: Option<&Investigation>,
        show: impl FnOnce(&HostReport<'_>),
    ) {
        let Self { host, instances, unread, .. } = self;
        let planned = PlanReport { host, plan, kept: None, options: "", asking: false, unread };
        let planned =
            if instances.is_empty() { Err("the host is half changed") } else { Ok(planned) };
        let stops: Vec<Stop> =
            [1, 462, 1000].into_iter().filter_map(|sessions| self.stop(sessions)).collect();
        let request = Request::default();
        let sizing = sizing::size_servers(host, instances, &request);
        let nothing = sizing.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let sized = sizing.as_ref().map_err(|_| nothing.as_str());
        let sized = sized.map(|sizing| SizeReport {
            host,
            instances,
            request: &request,
            sizing,
            planned: &[],
            shrunk: &[],
            unread,
        });
        let checked = self.checked();
        show(&HostReport {
            made_at: 1_700_000_000,
            checked,
            sized,
            stops: &stops,
            planned,
            investigation: archives,
        });
    }

    fn stop(&self, sessions: u64) -> Option<Stop> {
        let request = Request { sessions: Some(sessions), ..Request::default() };
        Some(Stop {
            sessions,
            sizing: sizing::size_servers(&self.host, &self.instances, &request).ok()?,
        })
    }

    pub(crate) fn verified<T>(&self, show: impl FnOnce(&Verified<'_>) -> T) -> T {
        let Self { host, instances, assessment, unread } = self;
        let standings: Vec<Coverage> =
            instances.iter().map(|instance| measure_coverage(host, instance, false)).collect();
        let verdict = if standings.is_empty() { Coverage::Unknown } else { Coverage::None };
        let logs: Vec<LogReport> = instances.first().map(|_| failed_start()).into_iter().collect();
        let disagreement = |instance: &Instance| LogDisagreement {
            instance: instance.title(),
            log: "/u01/alert_PROD.log".into(),
            says: LogVerdict::Failed,
            mapped: Coverage::None,
        };
        let disagreements: Vec<LogDisagreement> =
            instances.first().map(disagreement).into_iter().collect();
        show(&Verified {
            named: false,
            host,
            instances,
            assessment,
            standings: &standings,
            logs: &logs,
            disagreements: &disagreements,
            verdict: &verdict,
            unread,
        })
    }
}

/// What an alert log says of a start that failed.
fn failed_start() -> LogReport {
    let bytes = b"Starting ORACLE instance (normal)\n";
    let mut log =
        read_log(&LogText { path: "/u01/alert_PROD.log", bytes }, Some(Engine::Oracle)).unwrap();
    log.format = "oracle page size table";
    log.started_at = Some("2023-11-14T22:13:20+00:00".into());
    log.page_size = Some(PageSize::MIB_2);
    (log.expected, log.allocated, log.needed) =
        (Some(PageCount(17_411)), Some(PageCount(9)), Some(PageCount(17_411)));
    log.verdict = LogVerdict::Failed;
    log.reason.clear();
    log.memlock = Observed::Known(hugewise_model::Limit::At(Bytes::from_kib(64)));
    log.errors = vec!["ORA-27125: unable to create shared memory segment".into()];
    log
}

fn known(text: &str) -> Observed<String> {
    Observed::Known(text.into())
}

fn pool(total: u64, free: u64, reserved: u64) -> Pool {
    let pages = |count| Observed::Known(PageCount(count));
    let node = |node, total, free| NodePool {
        node,
        total: pages(total),
        free: pages(free),
        surplus: pages(0),
    };
    Pool {
        page_size: PageSize::MIB_2,
        total: pages(total),
        free: pages(free),
        reserved: pages(reserved),
        surplus: pages(0),
        overcommit: pages(0),
        nodes: vec![node(0, total / 2, free), node(1, total / 2, 0)],
    }
}

fn host() -> Host {
    let node = |id| NumaNode {
        id,
        total: Observed::Known(Bytes::from_gib(64)),
        free: Observed::Known(Bytes::from_mib(307)),
    };
    Host {
        live: true,
        name: known("db7"),
        os: known("Oracle Linux Server 8.9"),
        kernel: Observed::Known(KernelRelease {
            text: "5.15.0-200.el8uek.x86_64".into(),
            major: 5,
            minor: 15,
        }),
        architecture: known("x86_64"),
        read_at: Observed::Known(1_700_000_000),
        read_as: Observed::Known(0),
        base_page: Observed::Known(PageSize::KIB_4),
        default_huge_page: Observed::Known(PageSize::MIB_2),
        processors: Processors { online: Observed::Known(4), ..Processors::default() },
        memory: HostMemory {
            total: Observed::Known(Bytes::from_gib(128)),
            free: Observed::Known(Bytes::from_mib(614)),
            available: Observed::Known(Bytes::from_gib(3)),
            page_tables: Observed::Known(Bytes::from_gib(12)),
            swap_total: Observed::Known(Bytes::from_gib(8)),
            swap_free: Observed::Known(Bytes::from_mib(8090)),
            ..HostMemory::default()
        },
        nodes: Observed::Known(vec![node(0), node(1)]),
        pools: Observed::Known(vec![pool(3200, 12, 3)]),
        thp: Thp { enabled: known("always"), defrag: known("madvise"), ..Thp::default() },
        processes: Observed::Known(Vec::new()),
        ..Host::default()
    }
}

fn instance(engine: Engine, name: &str, segment: Segment, huge_pages: HugePageUse) -> Instance {
    Instance {
        engine,
        name: name.into(),
        pid: 4711,
        pids: (4711..5113).collect(),
        version: known("19c"),
        owner: "oracle".into(),
        endpoints: vec!["1521".into()],
        sessions: Observed::Known(402),
        max_sessions: Observed::Known(1000),
        asked: HugePageMode::Try,
        setting: Some(ServerSetting {
            name: "use_large_pages".into(),
            value: "TRUE".into(),
            place: Some(FileLocation {
                file: "/u01/app/oracle/dbs/spfilePROD.ora".into(),
                line: 0,
            }),
        }),
        asked_page_size: Observed::Known(PageSize::MIB_2),
        mechanism: Mechanism::SysvShm,
        segments: vec![segment],
        huge_pages,
        demand: Some(Demand {
            page_size: PageSize::MIB_2,
            pages: PageCount(17_411),
            source: DemandSource::Estimated { error_percent: 1 },
        }),
        page_tables: Observed::Known(Bytes::from_mib(11_469)),
        trusted_by: vec![hugewise_model::trusted_by::TrustReason::Account],
        ..Instance::default()
    }
}

fn segment(size: Bytes, page_size: PageSize) -> Segment {
    Segment {
        kind: SegmentKind::SystemV,
        name: "shmid 32769".into(),
        size,
        page_size: Observed::Known(page_size),
        huge: Observed::Known(page_size != PageSize::KIB_4),
        mappers: 402,
        identity: (0, 32769),
    }
}

fn link(name: LinkName, state: LinkState, evidence: &str) -> Link {
    Link { name, state, evidence: evidence.into() }
}

fn prod_id() -> InstanceId {
    InstanceId { engine: Engine::Oracle, name: "PROD".into() }
}

fn chain(instance: InstanceId) -> HugePageChain {
    let links = vec![
        link(
            LinkName::Asked,
            LinkState::Ok,
            "use_large_pages=TRUE (/u01/app/oracle/dbs/spfilePROD.ora)",
        ),
        link(LinkName::Pool, LinkState::Ok, "2 MiB: 3,200 pages"),
        link(LinkName::Room, LinkState::Broken, "17,411 pages needed, 9 available"),
        link(LinkName::Permission, LinkState::Ok, "CAP_IPC_LOCK"),
        link(LinkName::Cgroup, LinkState::Unknown, ""),
        link(LinkName::Mapped, LinkState::Broken, "34.0 GiB on 4 KiB pages"),
    ];
    HugePageChain { instance, links }
}

/// An Oracle server on base pages beside a PostgreSQL on huge ones.
pub(crate) fn prod() -> Sample {
    let oracle = instance(
        Engine::Oracle,
        "PROD",
        segment(Bytes::from_gib(34), PageSize::KIB_4),
        HugePageUse::None,
    );
    let postgresql = Instance {
        version: known("15.20"),
        sessions: Observed::Known(60),
        pids: (900..966).collect(),
        page_tables: Observed::Known(Bytes(14_784_921)),
        demand: Some(Demand {
            page_size: PageSize::MIB_2,
            pages: PageCount(3175),
            source: DemandSource::Engine,
        }),
        ..instance(
            Engine::PostgreSql,
            "15/main",
            segment(Bytes(6_657_199_308), PageSize::MIB_2),
            HugePageUse::All,
        )
    };
    let findings = vec![
        Finding {
            code: RuleId::new("HW201"),
            name: "no-pool",
            level: Level::Error,
            instance: Some(prod_id()),
            summary:
                "oracle PROD holds 34.0 GiB on 4 KiB pages; the pool has room for 18.0 MiB of it"
                    .into(),
            short: "it holds 34.0 GiB on 4 KiB pages".into(),
            evidence: vec!["nr_hugepages 3,200 (/sys/kernel/mm/hugepages/hugepages-2048kB)".into()],
            cost: Some("11.2 GiB of page tables now, 27.9 GiB at processes=1000".into()),
            remedies: vec![
                Remedy::SetPool(PageSize::MIB_2),
                Remedy::Restart(InstanceId { engine: Engine::Oracle, name: "PROD".into() }),
            ],
            fix: vec![
                "set the pool of 2 MiB pages to 20,611 (40.3 GiB), now and at each boot".into(),
                "restart oracle PROD".into(),
            ],
        },
        Finding {
            code: RuleId::new("HW401"),
            name: "silent-fallback",
            level: Level::Warn,
            instance: Some(prod_id()),
            summary: "use_large_pages=TRUE starts without huge pages when they don't reach".into(),
            short: "use_large_pages=TRUE lets it start without huge pages, silently".into(),
            evidence: Vec::new(),
            cost: None,
            remedies: vec![Remedy::SetSetting(InstanceId {
                engine: Engine::Oracle,
                name: "PROD".into(),
            })],
            fix: vec![
                "have oracle PROD refuse a start without huge pages: use_large_pages=ONLY".into(),
            ],
        },
        Finding {
            code: RuleId::new("HW501"),
            name: "thp-always",
            level: Level::Warn,
            instance: None,
            summary: "Oracle 19c asks for madvise or never".into(),
            short: "THP is always; Oracle 19c asks for madvise or never".into(),
            evidence: ["one", "two", "three", "four"].map(|fact| format!("fact {fact}")).into(),
            cost: None,
            remedies: vec![Remedy::SetThp],
            fix: vec!["set transparent huge pages to madvise".into()],
        },
    ];
    let (host, instances) = (host(), vec![oracle, postgresql]);
    let situation = hugewise_diagnose::prediction::predict_host(&host, &instances);
    let chains = vec![chain(prod_id())];
    let mut assessment = Assessment { chains, findings, situation, ..Assessment::default() };
    assessment.target =
        find_target(&host, &instances, &assessment, TargetRequest::default(), &Request::default())
            .unwrap();
    Sample { host, instances, assessment, unread: Vec::new() }
}

/// A host on which no database runs.
pub(crate) fn empty() -> Sample {
    let host = Host { pools: Observed::Known(vec![pool(0, 0, 0)]), ..host() };
    Sample { host, instances: Vec::new(), assessment: Assessment::default(), unread: Vec::new() }
}

/// The same host as `prod` as an ordinary user sees it.
pub(crate) fn unprivileged() -> Sample {
    let mut sample = prod();
    sample.host.read_as = Observed::Known(1000);
    for instance in &mut sample.instances {
        instance.page_tables = Observed::Denied;
        instance.version = Observed::Absent;
        instance.huge_pages = HugePageUse::Unknown;
        instance.segments.clear();
    }
    sample.assessment.findings.clear();
    sample.assessment.situation =
        hugewise_diagnose::prediction::predict_host(&sample.host, &sample.instances);
    for link in sample.assessment.chains.iter_mut().flat_map(|chain| &mut chain.links) {
        (link.state, link.evidence) = (LinkState::Unknown, "/proc/4711/maps: denied".into());
    }
    sample.assessment.unknown = vec![UnknownVerdict {
        code: RuleId::new("HW201"),
        name: "no-pool",
        instance: Some(prod_id()),
        missing: "/proc/4711/maps: denied".into(),
        why: Reason::Denied,
    }];
    let mut unread: Vec<Unread> = (4711..5113)
        .map(|pid| Unread { what: format!("/proc/{pid}/maps"), why: Reason::Denied })
        .collect();
    unread.push(Unread {
        what: "/etc/sysctl.d/90-a.conf".into(),
        why: Reason::Malformed("line 3: no `=`".into()),
    });
    sample.unread = unread;
    sample
}

/// A host whose names attack the terminal.
pub(crate) fn hostile() -> Sample {
    let mut sample = prod();
    sample.host.name = known("db7\x1b]0;owned\x07");
    for instance in &mut sample.instances {
        instance.name = format!("{}\x1b[2J\u{202e}\n\u{9b}31m", instance.name);
    }
    let title = sample.instances[0].title();
    let id = sample.instances[0].id();
    sample.assessment.chains = vec![HugePageChain {
        instance: id,
        links: vec![link(
            LinkName::Asked,
            LinkState::Broken,
            "huge_pages=off (/tmp/\x1b[31m\r\n/postgresql.conf:1)",
        )],
    }];
    for finding in &mut sample.assessment.findings {
        finding.summary = format!("{title} is bad\x08\x08\x08good");
        finding.fix = vec!["rm '\x1b[8m'".into()];
    }
    sample.unread = vec![Unread { what: "/proc/1/root/\x1bc".into(), why: Reason::Denied }];
    sample
}
