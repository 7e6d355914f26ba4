//! Estates by name: the hosts of stories that DBAs have told, with the figures that they gave, and
//! one that has everything.
//!
//! The stories: Ronny Egner, "MEMORY_TARGET (SGA_TARGET) or HugePages - which to choose?" (2010),
//! with its readers' comments; Riyaj Shamsudeen, "Performance tuning: HugePages in Linux"
//! (Pythian), and Tim Hall, "Configuring HugePages for Oracle on Linux" (oracle-base.com), both as
//! "Oracle DBA Information" has them; Bobby Durrett, "Huge Pages Speeds Startup of Web Servers"
//! (2018), with zhwsh's comments; "_realfree_heap_pagesize_hint - Assessing the impact on Solaris
//! and Linux" (dsstos.blogspot.com, 2008). What they leave open is chosen, and said where it is.

use super::{
    Database, DatabaseKind, Distribution, FixtureMachine, FixtureMemlock, Grid, KIB_IN_MIB,
    OracleFixture, ParameterStore, SgaPages, gib_to_bytes, mib_to_bytes,
};

/// What makes one.
type Maker = fn() -> OracleFixture;

/// Names, what each is, and what makes it.
pub const ALL: &[(&str, &str, Maker)] = &[
    (
        "system-a",
        "16 GB, two instances of 8 GB in all, 444 sessions, 1.5 GB of page tables",
        system_a,
    ),
    ("system-b", "128 GB, one instance of 34 GB, 400 sessions, 12 GB of page tables", system_b),
    (
        "amm",
        "an instance under automatic memory management beside a pool that it cannot use",
        make_amm,
    ),
    (
        "srvctl",
        "RHEL 5 with Grid Infrastructure: a pool that sqlplus gets and srvctl does not",
        make_srvctl,
    ),
    (
        "two-on-sles",
        "SLES, 16 GB, two instances on 4,868 huge pages, and a console that says paging",
        two_on_sles,
    ),
    (
        "freezing",
        "20 GB, an SGA of 10 GB, a few hundred sessions, 5 GB of page tables",
        make_freezing,
    ),
    ("small", "an SGA of 600 MB and 306 pages, 93 of them reserved", make_small),
    (
        "web-farm",
        "16 GB, 4 cores, an SGA of 5 GB, 25 web servers with 25 connections each, \
             pre_page_sga=TRUE",
        web_farm,
    ),
    ("pre-paged", "128 GB, an SGA of 20 GB that every process touches, just started", pre_paged),
    ("warehouse", "10.2 with _realfree_heap_pagesize_hint for its sorts", make_warehouse),
    (
        "cluster",
        "Grid Infrastructure, ASM, the management database, two homes, one of them read-only, MGA \
             files",
        make_cluster,
    ),
];

/// The estate of that name.
#[must_use]
pub fn find_fixture(name: &str) -> Option<OracleFixture> {
    ALL.iter().find(|(other, _, _)| *other == name).map(|(_, _, make)| make())
}

/// What each of so many processes has touched, so that page tables come to so many KiB: page tables
/// of 4 KiB map 2 MiB each, and half a MiB a process is its own.
fn touched_by_tables(tables: u64, processes: u64) -> u64 {
    (tables / processes).saturating_sub(512) / 4 * mib_to_bytes(2)
}

/// Background processes of an instance of 11.1 and later.
const BACKGROUND: u64 = 18;

fn without_memlock_limit(mut machine: FixtureMachine) -> FixtureMachine {
    machine.log_in_memlock = Some(FixtureMemlock::Unlimited);
    machine
}

fn system_a() -> OracleFixture {
    let each = touched_by_tables(1_591_860, 444 + 2 * BACKGROUND);
    let database_of = |sid: &str| Database {
        private: 9_200,
        ..Database::new(sid, "11.2.0.1").with_sga(gib_to_bytes(4)).with_sessions(222, each)
    };
    let machine = FixtureMachine {
        free: 105_176,
        buffers: 21_032,
        slab: 256_088,
        swap: (8_393_952, 8_393_952 - 8_247_912),
        meminfo: vec![("PageTables", 1_591_860), ("Cached", 9_575_340)],
        ..FixtureMachine::new("system-a", Distribution::RedHat5, 16_387_608)
    };
    OracleFixture {
        machine,
        databases: vec![database_of("ORA1"), database_of("ORA2")],
        ..OracleFixture::default()
    }
}

fn system_b() -> OracleFixture {
    let each = touched_by_tables(12_023_792, 400 + BACKGROUND);
    let database = Database {
        private: 13_000,
        ..Database::new("PROD", "11.2.0.1").with_sga(gib_to_bytes(34)).with_sessions(400, each)
    };
    let machine = FixtureMachine {
        processors: 16,
        free: 596_308,
        buffers: 472_620,
        slab: 915_092,
        swap: (8_393_952, 8_393_952 - 8_112_828),
        meminfo: vec![("PageTables", 12_023_792), ("Cached", 111_858_096)],
        ..FixtureMachine::new("system-b", Distribution::RedHat5, 132_102_884)
    };
    OracleFixture {
        machine,
        databases: vec![database.with_parameter("processes", "1000")],
        ..OracleFixture::default()
    }
}

/// The article has no figures of one; 16 GB, and 8 GB of MEMORY_TARGET.
fn make_amm() -> OracleFixture {
    let database =
        Database { pages: SgaPages::Amm, sga: gib_to_bytes(5), ..Database::new("HR", "11.2.0.1") };
    let database = database
        .with_sessions(60, gib_to_bytes(2))
        .with_parameter("memory_target", "8G")
        .with_parameter("processes", "150");
    let machine = FixtureMachine {
        pool: 600,
        pool_at_boot: Some(600),
        ..FixtureMachine::new("amm", Distribution::RedHat5, 32 << 20)
    };
    OracleFixture {
        machine: without_memlock_limit(machine),
        databases: vec![database],
        ..OracleFixture::default()
    }
}

/// Alexei's RHEL 5.4 with 11.2; of the limit Chris said 4 GB. A pool that would do, and an SGA of 8
/// GB, are chosen.
fn make_srvctl() -> OracleFixture {
    let memlock = FixtureMemlock::Kib(4 << 20);
    let database = Database { memlock, clustered: true, ..Database::new("RAC1", "11.2.0.1") };
    let database = database
        .with_sga(gib_to_bytes(8))
        .with_sessions(40, gib_to_bytes(2))
        .with_parameter("processes", "300");
    let machine = FixtureMachine {
        pool: 4_100,
        pool_at_boot: Some(4_100),
        ..FixtureMachine::new("rac1", Distribution::RedHat5, 32 << 20)
    };
    OracleFixture {
        machine: without_memlock_limit(machine),
        databases: vec![database],
        grid: Some(Grid::new("11.2.0", memlock)),
        ..OracleFixture::default()
    }
}

/// Sunny's, with segments of 11.2.0.3: 4,096 and 768 pages, and one each for a key.
fn two_on_sles() -> OracleFixture {
    let memlock = FixtureMemlock::Kib(12_582_912);
    let database_of = |sid: &str, sga: u64, untouched: u64| {
        let database = Database {
            memlock,
            untouched,
            pages: SgaPages::Huge,
            ..Database::new(sid, "11.2.0.3")
        };
        database.with_sga(sga).with_sessions(40, sga)
    };
    let large = database_of("ORC1", gib_to_bytes(8), 26)
        .with_parameter("sga_target", "6G")
        .with_parameter("sga_max_size", "8G");
    let small = database_of("ORC2", mib_to_bytes(1536), 0).with_parameter("sga_max_size", "1536M");
    let machine = FixtureMachine {
        free: 125 * KIB_IN_MIB,
        buffers: 102 * KIB_IN_MIB,
        swap: (49_151 * KIB_IN_MIB, 8 * KIB_IN_MIB),
        pool: 4_868,
        pool_at_boot: Some(4_868),
        log_in_memlock: Some(memlock),
        shm: (12_884_901_888, 3_145_728),
        private: 1_000 * KIB_IN_MIB,
        ..FixtureMachine::new("oracle1", Distribution::Sles11, 15_955 * KIB_IN_MIB)
    };
    OracleFixture { machine, databases: vec![large, small], ..OracleFixture::default() }
}

/// Of the SGA, more is in swap than the page cache could hold: 7,189,572 kB of `Cached` have less
/// than 10 GB in them. Its release, the number of sessions ("a few hundred"), and how much is in
/// swap are chosen.
fn make_freezing() -> OracleFixture {
    let each = touched_by_tables(5_007_924, 400 + 12);
    let database = Database {
        private: 17_800,
        swapped: gib_to_bytes(10) - (6_900_000 << 10),
        ..Database::new("CENTRAL", "10.2.0.4")
    };
    let database = database.with_sga(gib_to_bytes(10)).with_sessions(400, each);
    let machine = FixtureMachine {
        processors: 16,
        free: 236_668,
        buffers: 77_800,
        slab: 250_000,
        swap: (16 << 20, 3_700_000),
        meminfo: vec![("PageTables", 5_007_924), ("Cached", 7_189_572)],
        ..FixtureMachine::new("central", Distribution::RedHat5, 20_549_012)
    };
    let database =
        database.with_parameter("pga_aggregate_target", "2G").with_parameter("processes", "600");
    OracleFixture { machine, databases: vec![database], ..OracleFixture::default() }
}

/// Tim Hall's, after its start. The host's memory is chosen.
fn make_small() -> OracleFixture {
    let memlock = FixtureMemlock::Kib(626_688);
    let database = Database {
        memlock,
        untouched: 93,
        pages: SgaPages::Huge,
        ..Database::new("DB11G", "11.2.0.3")
    };
    let database = database
        .with_sga(mib_to_bytes(600))
        .with_sessions(4, mib_to_bytes(200))
        .with_parameter("pga_aggregate_target", "200M");
    let machine = FixtureMachine {
        pool: 306,
        pool_at_boot: Some(306),
        log_in_memlock: Some(memlock),
        thp: Some("never"),
        kernel: "2.6.39-400.24.1.el6uek.x86_64".into(),
        ..FixtureMachine::new("ol6-112", Distribution::RedHat6, 4 << 20)
    };
    OracleFixture { machine, databases: vec![database], ..OracleFixture::default() }
}

fn web_farm() -> OracleFixture {
    let servers = (1..=25).map(|number| ([10, 0, 1, number], 25)).collect();
    let database = Database { clients: servers, ..Database::new("META", "11.2.0.3") };
    let database = database.with_sga(gib_to_bytes(5)).with_sessions(625, gib_to_bytes(5));
    let database =
        database.with_parameter("pre_page_sga", "TRUE").with_parameter("processes", "1000");
    let machine = FixtureMachine::new("metadata", Distribution::RedHat6, 16 << 20);
    OracleFixture { machine, databases: vec![database], ..OracleFixture::default() }
}

/// zhwsh's, in NOMOUNT: 20,388 MiB, no sessions, a pool of 104 pages of which a small instance has
/// 97. The home is cut off in the report; 11.2.0.4 by the fixed size. 126 GB by `top`: 19 GB were
/// 15.7 %.
fn pre_paged() -> OracleFixture {
    let sga = mib_to_bytes(20_388);
    let database = Database {
        sga,
        touched: sga,
        memlock: FixtureMemlock::Unlimited,
        ..Database::new("XXXX", "11.2.0.4")
    };
    let database = database
        .with_parameter("sga_target", "20388M")
        .with_parameter("pre_page_sga", "TRUE")
        .with_parameter("processes", "300");
    let other =
        Database { pages: SgaPages::Huge, untouched: 41, ..Database::new("SMALL", "11.2.0.4") };
    let other =
        Database { memlock: FixtureMemlock::Unlimited, ..other.with_sga(mib_to_bytes(192)) };
    let machine = FixtureMachine {
        pool: 104,
        ..FixtureMachine::new("xxxx", Distribution::RedHat6, 132_000_000)
    };
    OracleFixture {
        machine: without_memlock_limit(machine),
        databases: vec![database, other],
        ..OracleFixture::default()
    }
}

/// The story's own sizes: sorts of 1 GB of memory. The SGA is chosen.
fn make_warehouse() -> OracleFixture {
    let database = Database { private: 1_100 * KIB_IN_MIB, ..Database::new("DWH", "10.2.0.4") };
    let database = database
        .with_sga(gib_to_bytes(2))
        .with_sessions(4, gib_to_bytes(1))
        .with_parameter("pga_aggregate_target", "6G");
    let database = database.with_parameter("_realfree_heap_pagesize_hint", "4194304");
    let machine = FixtureMachine::new("dwh", Distribution::RedHat5, 16 << 20);
    OracleFixture { machine, databases: vec![database], ..OracleFixture::default() }
}

fn make_cluster() -> OracleFixture {
    let unlimited = FixtureMemlock::Unlimited;
    let database_of = |sid: &str, release: &str| Database {
        memlock: unlimited,
        clustered: true,
        ..Database::new(sid, release)
    };
    let asm = Database {
        kind: DatabaseKind::Asm,
        owner: "grid".into(),
        kept: ParameterStore::InAsm,
        ..database_of("+ASM1", "19.0.0")
    };
    let asm = asm.with_sga(mib_to_bytes(1104)).with_parameter("instance_type", "asm");
    let asm = Database { pages: SgaPages::Base, ..asm };
    let management = Database {
        kind: DatabaseKind::Management,
        owner: "grid".into(),
        kept: ParameterStore::InAsm,
        ..database_of("-MGMTDB", "19.0.0")
    };
    let management = management.with_sga(mib_to_bytes(752));
    let first = Database {
        kept: ParameterStore::InAsm,
        managed: mib_to_bytes(512),
        ..database_of("PROD1", "19.22.0")
    };
    let first = first
        .with_sga(gib_to_bytes(24))
        .with_sessions(200, gib_to_bytes(6))
        .with_parameter("processes", "1000");
    let first = first
        .with_parameter("enable_pluggable_database", "TRUE")
        .with_parameter("use_large_pages", "TRUE")
        .with_parameter("pga_aggregate_target", "6G");
    let second = Database {
        kept: ParameterStore::Spfile,
        read_only_home: true,
        ..database_of("REP1", "19.3.0")
    };
    let second = second
        .with_sga(gib_to_bytes(4))
        .with_sessions(20, gib_to_bytes(1))
        .with_parameter("processes", "300")
        .with_parameter("use_large_pages", "TRUE");
    let down = Database { running: false, ..database_of("OLD", "12.1.0.2") };
    let down = down.with_sga(gib_to_bytes(2));
    let mut machine = FixtureMachine::new("db1", Distribution::OracleLinux8, 96 << 20);
    machine.processors = 16;
    machine.log_in_memlock = Some(FixtureMemlock::Kib(134_217_728));
    let mut grid = Grid::new("19.0.0", unlimited);
    grid.environment = Some(unlimited);
    OracleFixture {
        machine,
        databases: vec![asm, management, first, second, down],
        grid: Some(grid),
        ..OracleFixture::default()
    }
}
