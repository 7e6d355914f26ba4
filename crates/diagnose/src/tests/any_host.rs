//! No host, however odd its numbers, brings the rules down.

use hugewise_model::configuration::{BootEntry, LimitRule, ServiceUnit, TmpfilesWrite, Tuned};
use hugewise_model::host::{NodePool, ThpSize, ZoneWatermarks};
use hugewise_model::instance::{Mechanism, SegmentKind, SessionModel};
use hugewise_model::process::SoftHard;
use hugewise_model::{
    Bytes, Demand, DemandSource, Engine, HugePageMode, HugePageUse, KernelRelease, Limit, Observed,
    PageCount, PageSize, Pool,
};
use proptest::prelude::*;

use crate::testing::{self, Case};

/// Draws from the numbers that proptest made; starts over at their end.
pub(crate) struct Dice {
    pub(crate) draws: Vec<u64>,
    pub(crate) at: usize,
}

impl Dice {
    fn draw(&mut self) -> u64 {
        self.at = (self.at + 1) % self.draws.len();
        self.draws[self.at]
    }

    pub(crate) fn up_to(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    pub(crate) fn number(&mut self) -> u64 {
        let draw = self.draw();
        match self.up_to(6) {
            0 => 0,
            1 => u64::MAX,
            2 => draw % 16,
            3 => draw % (64 << 30),
            4 => draw % 100_000,
            _ => draw,
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.draw()).unwrap_or(0) % from.len()]
    }

    fn observed<T>(&mut self, value: T) -> Observed<T> {
        match self.up_to(8) {
            0 => Observed::Absent,
            1 => Observed::Denied,
            2 => Observed::Malformed("line 1: x".into()),
            _ => Observed::Known(value),
        }
    }

    pub(crate) fn bytes(&mut self) -> Observed<Bytes> {
        let bytes = Bytes(self.number());
        self.observed(bytes)
    }

    fn count(&mut self) -> Observed<PageCount> {
        let count = PageCount(self.number());
        self.observed(count)
    }

    pub(crate) fn page(&mut self) -> PageSize {
        PageSize::new(1 << self.pick(&[12, 14, 16, 21, 25, 29, 30, 34, 63])).unwrap()
    }

    fn limit(&mut self) -> Limit {
        if self.up_to(3) == 0 { Limit::Unlimited } else { Limit::At(Bytes(self.number())) }
    }

    fn text(&mut self) -> String {
        let words = [
            "always",
            "never",
            "madvise",
            "inherit",
            "vm.nr_hugepages",
            "4096",
            "/",
            "",
            "a\nb",
            "é\u{0}",
            "8.0",
        ];
        self.pick(&words).to_owned()
    }

    fn words(&mut self) -> Vec<String> {
        let words = [
            "hugepagesz=1G",
            "hugepages=99999999999999999999",
            "hugepages=0:18446744073709551615,1:18446744073709551615",
            "hugepages=7",
            "default_hugepagesz=é",
            "transparent_hugepage=",
        ];
        (0..self.up_to(4)).map(|_| self.pick(&words).to_owned()).collect()
    }
}

pub(crate) fn any_case(dice: &mut Dice) -> Case {
    let mut case = testing::quiet();
    for _ in 0..dice.up_to(4) {
        any_instance(dice, &mut case);
    }
    let host = &mut case.host;
    let minor = dice.pick(&[0, 4, 14, 15, 16, 18]);
    let text = dice.text();
    host.kernel = dice.observed(KernelRelease { text, major: 5, minor });
    let page = dice.page();
    host.base_page = dice.observed(page);
    let page = dice.page();
    host.default_huge_page = dice.observed(page);
    let number = dice.number();
    host.processors.online = dice.observed(number);
    host.processors.gib_pages = dice.observed(false);
    let memory = &mut host.memory;
    for field in [
        &mut memory.total,
        &mut memory.free,
        &mut memory.available,
        &mut memory.page_tables,
        &mut memory.swap_total,
        &mut memory.swap_free,
    ] {
        *field = dice.bytes();
    }
    let zone = ZoneWatermarks {
        node: 0,
        zone: "Normal".into(),
        min: 1,
        low: 2,
        high: dice.number(),
        managed: 9,
    };
    memory.watermarks = dice.observed(vec![zone]);
    let pools: Vec<Pool> = (0..dice.up_to(4)).map(|_| any_pool(dice)).collect();
    host.pools = dice.observed(pools);
    host.nodes = dice.observed(vec![testing::node(0), testing::node(1)]);
    let text = dice.text();
    host.thp.enabled = dice.observed(text);
    let size = ThpSize {
        page_size: dice.page(),
        enabled: Observed::Known(dice.text()),
        shmem_enabled: Observed::Absent,
    };
    host.thp.sizes = vec![size];
    host.kernel_settings.shmmax = dice.bytes();
    let number = dice.number();
    host.kernel_settings.shmall_pages = dice.observed(number);
    host.kernel_settings.hugetlb_shm_group = dice.observed(113);
    let words = dice.words();
    host.command_line = dice.observed(words);
    let entry = BootEntry {
        loader: hugewise_model::configuration::BootLoader::Grub,
        command_line: dice.words(),
        place: testing::place("/boot"),
    };
    host.configuration.boot = dice.observed(entry);
    let sysctl = vec![
        testing::sysctl("vm.nr_hugepages", &dice.number().to_string()),
        testing::sysctl("x", "y"),
    ];
    host.configuration.sysctl = dice.observed(sysctl);
    let rule = LimitRule {
        domain: dice.text(),
        soft: true,
        hard: false,
        value: dice.limit(),
        place: testing::place("/l"),
    };
    host.configuration.limits = dice.observed(vec![rule]);
    let write =
        TmpfilesWrite { path: dice.text(), value: dice.text(), place: testing::place("/t") };
    host.configuration.tmpfiles = dice.observed(vec![write]);
    let thp = (dice.text(), testing::place("/tuned"));
    let tuned = Tuned {
        profile: dice.text(),
        transparent_hugepages: dice.observed(thp),
        sysctl: vec![testing::sysctl("vm.nr_hugepages", "1")],
        reapplied: dice.observed(vec![testing::sysctl("vm.nr_hugepages", "2")]),
        command_line: dice.words(),
    };
    host.configuration.tuned = dice.observed(tuned);
    let memlock = (dice.limit(), dice.limit(), testing::place("/u"));
    host.configuration.units = vec![ServiceUnit {
        name: "db.service".into(),
        memlock: dice.observed(memlock),
        ..ServiceUnit::default()
    }];
    let mut segment = testing::sysv(1, Bytes(dice.number()), dice.up_to(2));
    segment.swap = dice.bytes();
    segment.rss = dice.bytes();
    host.sysv_segments = dice.observed(vec![segment.clone(), segment]);
    let mut cgroup = testing::cgroup("/system.slice", dice.limit());
    cgroup.page_size = dice.page();
    cgroup.fault_current = dice.bytes();
    let limit = dice.limit();
    cgroup.reservation_max = dice.observed(limit);
    host.hugetlb_cgroups = vec![cgroup];
    if dice.up_to(6) == 0 {
        host.processes = Observed::Denied;
    }
    case
}

fn any_pool(dice: &mut Dice) -> Pool {
    let nodes = (0..2).map(|node| NodePool {
        node,
        total: dice.count(),
        free: dice.count(),
        surplus: dice.count(),
    });
    let nodes = nodes.collect();
    Pool {
        page_size: dice.page(),
        total: dice.count(),
        free: dice.count(),
        reserved: dice.count(),
        surplus: dice.count(),
        overcommit: dice.count(),
        nodes,
    }
}

fn any_instance(dice: &mut Dice, case: &mut Case) {
    let engines = [
        Engine::Oracle,
        Engine::PostgreSql,
        Engine::MariaDb,
        Engine::MongoDb,
        Engine::Redis,
        Engine::Other,
    ];
    let asked = [
        HugePageMode::No,
        HugePageMode::Try,
        HugePageMode::Must,
        HugePageMode::Raises,
        HugePageMode::Cannot,
        HugePageMode::Unknown,
    ];
    let mechanisms = [Mechanism::SysvShm, Mechanism::Mmap, Mechanism::Hugetlbfs, Mechanism::None];
    let kinds = [SegmentKind::SystemV, SegmentKind::Posix, SegmentKind::Private];
    let uses = [HugePageUse::All, HugePageUse::Partly, HugePageUse::None, HugePageUse::Unknown];
    let (engine, sessions) = (dice.pick(&engines), dice.up_to(4));
    let name = format!("{}{}", case.instances.len(), dice.text());
    let soft = dice.limit();
    let size = Bytes(dice.number());
    case.instance(engine, &name, size, sessions, |instance| {
        instance.asked = dice.pick(&asked);
        instance.mechanism = dice.pick(&mechanisms);
        instance.huge_pages = dice.pick(&uses);
        instance.session_model = dice.pick(&[SessionModel::Processes, SessionModel::Threads]);
        let version = dice.text();
        instance.version = dice.observed(version);
        let number = dice.number();
        instance.sessions = dice.observed(number);
        let number = dice.number();
        instance.max_sessions = dice.observed(number);
        instance.page_tables = dice.bytes();
        let page = dice.page();
        instance.asked_page_size = dice.observed(page);
        let pages = PageCount(dice.number());
        let demand = Demand { page_size: dice.page(), pages, source: DemandSource::Measured };
        instance.demand = Some(demand).filter(|_| dice.up_to(3) > 0);
        instance.unit = Some("db.service".to_owned()).filter(|_| dice.up_to(3) > 0);
        instance.containered = dice.up_to(3) == 0;
        instance.traits = if dice.up_to(4) == 0 {
            vec![hugewise_model::Trait::Amm, hugewise_model::Trait::Asm]
        } else {
            Vec::new()
        };
        for at in 0..dice.up_to(3) {
            let mut segment = testing::segment(at, Bytes(dice.number()), at == 1);
            segment.kind = dice.pick(&kinds);
            let page = dice.page();
            segment.page_size = dice.observed(page);
            instance.segments.push(segment);
        }
        if dice.up_to(5) == 0 {
            instance.pids.clear();
            instance.segments.clear();
        }
    });
    for process in case.processes() {
        process.memlock = dice.observed(SoftHard { soft, hard: Limit::Unlimited });
        process.ipc_lock = dice.observed(false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn no_host_brings_the_rules_down(draws in proptest::collection::vec(any::<u64>(), 400)) {
        let case = any_case(&mut Dice { draws, at: 0 });
        let assessment = case.assess();
        prop_assert!(assessment.findings.is_sorted_by(|a, b| a.level >= b.level));
        for finding in &assessment.findings {
            prop_assert!(!finding.summary.is_empty() && !finding.evidence.is_empty() && !finding.fix.is_empty(), "{:?}", finding);
            let lines = finding.fix.iter().chain(&finding.evidence).chain(Some(&finding.summary));
            for line in lines {
                prop_assert!(!line.chars().any(char::is_control), "{:?}", line);
            }
        }
        for verdict in &assessment.unknown {
            prop_assert!(!verdict.missing.trim().is_empty());
        }
    }

    #[test]
    fn a_larger_pool_never_crowds_a_server_out(pages in 0_u64..6000, more in 0_u64..6000) {
        let crowded = |pages| {
            let mut case = testing::quiet();
            case.postgresql("15/a", testing::gib(4));
            case.postgresql("15/b", testing::gib(6));
            case.pool(pages, pages);
            crate::demand::deal_pool_shares(&case.host, &case.instances).iter().filter(|share| !share.fits()).count()
        };
        prop_assert!(crowded(pages + more) <= crowded(pages));
    }
}
