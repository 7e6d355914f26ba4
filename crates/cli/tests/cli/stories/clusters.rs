//! Clusters as their DBAs meet them: who starts what, with which limits, and what sleeps there.

use hugewise_testkit::oracle_fixtures::{
    Database, DatabaseKind, Distribution, FixtureMachine, FixtureMemlock, Grid, OracleFixture,
    ParameterStore, SgaPages, gib_to_bytes, mib_to_bytes,
};

use crate::stories::played::{Played, by_hand, one_line};

/// A node of release 8 with the kernel of Red Hat, which accepts a memlock limit.
fn node(pool: u64, log_in: Option<FixtureMemlock>) -> FixtureMachine {
    FixtureMachine {
        kernel: "4.18.0-553.el8_10.x86_64".into(),
        processors: 16,
        pool,
        pool_at_boot: Some(pool),
        log_in_memlock: log_in,
        ..FixtureMachine::new("rac1", Distribution::OracleLinux8, 96 << 20)
    }
}

fn database(sid: &str, memlock: FixtureMemlock) -> Database {
    Database {
        memlock,
        clustered: true,
        kept: ParameterStore::InAsm,
        ..Database::new(sid, "19.22.0")
    }
}

/// ASM, the management database and PROD1 on base pages beside a pool for all of them, with these
/// limits.
fn cluster(
    stack: FixtureMemlock,
    files: Option<FixtureMemlock>,
    log_in: Option<FixtureMemlock>,
) -> Played {
    let of_grid = |sid: &str, kind: DatabaseKind| Database {
        kind,
        owner: "grid".into(),
        release: "19.0.0".into(),
        ..database(sid, stack)
    };
    let databases = vec![
        of_grid("+ASM1", DatabaseKind::Asm)
            .with_sga(mib_to_bytes(1104))
            .with_parameter("instance_type", "asm"),
        of_grid("-MGMTDB", DatabaseKind::Management).with_sga(mib_to_bytes(752)),
        database("PROD1", stack)
            .with_sga(gib_to_bytes(16))
            .with_sessions(100, gib_to_bytes(2))
            .with_parameter("processes", "800"),
    ];
    let grid = Grid { environment: files, ..Grid::new("19.0.0", stack) };
    Played::of(OracleFixture {
        machine: node(13_000, log_in),
        databases,
        grid: Some(grid),
        ..OracleFixture::default()
    })
}

/// Clusterware has no limit, logins have 64 KiB: what is to be changed is a rule for logins, and no
/// cluster stops for it.
#[test]
fn what_is_too_little_for_log_ins_alone_leaves_clusterware_as_it_is() {
    let played = cluster(FixtureMemlock::Unlimited, Some(FixtureMemlock::Unlimited), None);
    let before = played.check();
    let words = before.words("HW305");
    assert!(words.contains("gets unlimited from Clusterware, 64 KiB from a login"), "{words}");
    assert!(
        words.contains("started with srvctl it gets huge pages, with sqlplus it does not"),
        "{words}"
    );
    let text = one_line(&played.run("check", &[]).out);
    assert!(text.contains("raise the memlock limit of oracle PROD1, for logins"), "{text}");
    let plan = played.carry_out(&[]);
    let told = by_hand(&plan);
    assert!(!told.contains("lock its memory") && !told.contains("lock their memory"), "{told}");
    let limits = played.host.text("/etc/security/limits.d/zz-hugewise.conf").unwrap();
    assert!(limits.contains("grid - memlock unlimited\noracle - memlock unlimited"), "{limits}");
    let codes = played.check();
    assert!(!codes.codes().contains(&"HW305"), "{:?}", codes.codes());
}

/// Both are too small: both are raised, as either may be the next to start it.
#[test]
fn what_is_too_little_for_both_is_raised_for_both() {
    let limit = FixtureMemlock::Kib(8 << 20);
    let played = cluster(limit, Some(limit), Some(limit));
    let text = one_line(&played.run("check", &[]).out);
    assert!(
        text.contains("raise the memlock limit of oracle PROD1, for Clusterware and for logins"),
        "{text}"
    );
    let plan = played.carry_out(&[]);
    assert!(by_hand(&plan).contains("let oracle PROD1 lock its memory"), "{}", by_hand(&plan));
    let limits = played.host.text("/etc/security/limits.d/zz-hugewise.conf").unwrap();
    assert!(limits.ends_with("oracle - memlock unlimited\n"), "{limits}");
    // The rule for logins is not what ends it.
    let step = plan["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|step| step["id"] == "memlock-log-ins")
        .unwrap();
    assert!(!step.to_string().contains("HW301"), "{step:#}");
}

/// One stop and one start of the stack raise the limit of all that it starts.
#[test]
fn clusterware_is_started_anew_once_for_all_that_it_starts() {
    let played = cluster(FixtureMemlock::Kib(64), None, Some(FixtureMemlock::Unlimited));
    let plan = played.host.plan(&[]);
    let of_limits: Vec<_> = plan["instructions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|json| json["text"].as_str().unwrap().contains("CRS_LIMIT_MEMLOCK"))
        .collect();
    assert_eq!(of_limits.len(), 1, "{of_limits:#?}");
    assert_eq!(
        of_limits[0]["title"],
        "let oracle +ASM1, oracle -MGMTDB and oracle PROD1 lock their memory"
    );
    assert!(of_limits[0]["instance"].is_null());
}

/// An alert log tells what was, and is no file to be edited; on a cluster `ALTER SYSTEM` without a
/// SID is for every node.
#[test]
fn parameters_are_set_for_this_instance_and_in_no_log() {
    let mut estate = cluster(
        FixtureMemlock::Unlimited,
        Some(FixtureMemlock::Unlimited),
        Some(FixtureMemlock::Unlimited),
    )
    .estate;
    let told = by_hand(&Played::of(estate.clone()).host.plan(&[]));
    assert!(
        told.contains("ALTER SYSTEM SET use_large_pages=ONLY SCOPE=SPFILE SID='PROD1';"),
        "{told}"
    );
    assert!(!told.contains("alert_"), "{told}");
    // The management database is Clusterware's own: it is not made to refuse its start.
    assert!(!told.contains("oracle -MGMTDB: have it refuse"), "{told}");
    // Without a word on its server parameter file in the log, both ways are told.
    estate.more = vec![(
        "/u01/app/oracle/diag/rdbms/prod/PROD1/trace/alert_PROD1.log".into(),
        "2026-03-02T07:01:12.345678+00:00\nStarting ORACLE instance (normal)\n\
         System parameters with non-default values:\n  sga_target = 16G\n  use_large_pages \
             = \"TRUE\"\nPMON started\n"
            .into(),
    )];
    let told = by_hand(&Played::of(estate).host.plan(&[]));
    assert!(
        told.contains("SID='PROD1';") && told.contains("without an spfile (ORA-32001)"),
        "{told}"
    );
    assert!(
        !told.contains("instead of TRUE") && !told.contains("in /u01/app/oracle/diag"),
        "{told}"
    );
}

/// oratab has a cluster's database by its unique name; the instance of this node is told by its
/// parameter file and its alert log.
#[test]
fn a_sleeping_instance_of_a_cluster_is_found_by_its_databases_line() {
    let unlimited = FixtureMemlock::Unlimited;
    let running = Database { pages: SgaPages::Huge, ..database("PROD1", unlimited) };
    let running = running
        .with_sga(gib_to_bytes(16))
        .with_sessions(100, gib_to_bytes(2))
        .with_parameter("processes", "800");
    let down = Database { running: false, ..database("DEV1", unlimited) };
    let down = down.with_sga(gib_to_bytes(8)).with_parameter("processes", "400");
    let home = down.home();
    let grid = Grid { environment: Some(unlimited), ..Grid::new("19.0.0", unlimited) };
    let mut estate = OracleFixture {
        machine: node(20_000, Some(unlimited)),
        databases: vec![running, down],
        grid: Some(grid),
        more: vec![
            ("/etc/oratab".into(), format!("PROD:{home}:N\nDEV:{home}:N\n")),
            (
                format!("{home}/dbs/initDEV1.ora"),
                "SPFILE='+DATA/DEV/PARAMETERFILE/spfile.270.1'\n".into(),
            ),
            // The other node's, on a shared home.
            (
                format!("{home}/dbs/initDEV2.ora"),
                "SPFILE='+DATA/DEV/PARAMETERFILE/spfile.270.1'\n".into(),
            ),
            (
                format!("{home}/dbs/initPROD2.ora"),
                "SPFILE='+DATA/PROD/PARAMETERFILE/spfile.271.1'\n".into(),
            ),
        ],
    };
    let names = |checked: &crate::stories::played::Checked| -> Vec<String> {
        let all = checked.json["instances"].as_array().unwrap().iter();
        let mut names: Vec<String> = all
            .map(|json| format!("{} {}", json["name"].as_str().unwrap(), json["running"]))
            .collect();
        names.sort();
        names
    };
    let played = Played::of(estate.clone());
    let checked = played.check();
    assert_eq!(names(&checked), ["DEV1 false", "PROD1 true"]);
    // 8 GiB are 4,096 pages; PROD1 holds 8,193.
    let goal = played.pages_planned(&["--shrink"]);
    assert!((12_289..12_500).contains(&goal), "{goal}");
    // A unique name that is not what its instances begin with.
    estate.more[0].1 = format!("PROD_WEST:{home}:N\n");
    let log = "/u01/app/oracle/diag/rdbms/prod_west/PROD1/trace/alert_PROD1.log";
    estate.more.push((log.into(), "Starting ORACLE instance (normal)\n".into()));
    let played = Played::of(estate);
    assert_eq!(names(&played.check()), ["DEV1 false", "PROD1 true"]);
}

/// An instance that no line of oratab names sleeps here all the same, where its files say that it
/// ran here.
#[test]
fn an_instance_that_no_table_names_keeps_its_pages() {
    let running = Database {
        pages: SgaPages::Huge,
        memlock: FixtureMemlock::Unlimited,
        ..Database::new("PROD", "19.22.0")
    };
    let running = running
        .with_sga(gib_to_bytes(4))
        .with_sessions(50, gib_to_bytes(1))
        .with_parameter("processes", "400");
    let played_of = |logs: bool, pool: u64| {
        let down = Database {
            running: false,
            kept: ParameterStore::Spfile,
            logs,
            ..Database::new("TEST", "19.22.0")
        };
        let oratab = format!("PROD:{}:Y\n", running.home());
        Played::of(OracleFixture {
            machine: node(pool, Some(FixtureMemlock::Unlimited)),
            databases: vec![
                running.clone(),
                down.with_sga(gib_to_bytes(6)).with_parameter("processes", "400"),
            ],
            more: vec![("/etc/oratab".into(), oratab)],
            ..OracleFixture::default()
        })
    };
    let played = played_of(true, 6000);
    let text = one_line(&played.run("check", &[]).out);
    assert!(
        text.contains(
            "oracle TEST: not running; the boot does not start it: no line of /etc/oratab names it"
        ),
        "{text}"
    );
    assert!(!text.contains("give back"), "{text}");
    // A capture says the same.
    let folder = tempfile::TempDir::new().unwrap();
    let target = folder.path().join("captured");
    assert_eq!(played.run("capture", &["--output", target.to_str().unwrap()]).code, 0);
    let captured = one_line(&crate::support::on("check", &target, &[]).out);
    assert!(
        captured.contains("oracle TEST: not running; the boot does not start it"),
        "{captured}"
    );
    // 2,049 pages of PROD, 3,072 of TEST and their spare ones.
    let goal = played.pages_planned(&["--shrink"]);
    assert!((5_121..5_300).contains(&goal), "{goal}");
    // Nobody asks for it: a pool does not grow for it.
    let text = one_line(&played_of(true, 2_060).run("plan", &[]).out);
    assert!(!text.contains("pages are needed"), "{text}");
    // A parameter file alone, which may have come from anywhere, is nobody's.
    let text = one_line(&played_of(false, 6000).run("check", &[]).out);
    assert!(!text.contains("oracle TEST") && text.contains("give back"), "{text}");
}

/// SAP's installer makes an account for each database, and its own folders; the release is told by
/// the last of them.
#[test]
fn a_database_in_saps_layout_is_known_and_planned_for() {
    let played_of = |owner: &str, home: &str| {
        let database = Database {
            home: Some(home.into()),
            owner: owner.into(),
            ..Database::new("C11", "12.1.0.2")
        };
        let database = Database {
            memlock: FixtureMemlock::Unlimited,
            kept: ParameterStore::Spfile,
            ..database
        };
        let databases = vec![
            database
                .with_sga(gib_to_bytes(32))
                .with_sessions(100, gib_to_bytes(4))
                .with_parameter("processes", "400"),
        ];
        let machine = node(0, Some(FixtureMemlock::Unlimited));
        Played::of(OracleFixture { machine, databases, ..OracleFixture::default() })
    };
    let played = played_of("orac11", "/oracle/C11/12102");
    let checked = played.check();
    let instance = checked.instance("C11");
    assert_eq!(
        (&instance["version"], &instance["vouched_by"]),
        (&"12.1.0.2".into(), &serde_json::json!(["account"]))
    );
    // 32 GiB are 16,384 pages, and one for the key.
    assert!((16_385..16_400).contains(&played.pages_planned(&[])));
    // Before 19c no kernel makes THP welcome (installation guides).
    assert!(checked.words("HW501").contains("it should be never"), "{}", checked.words("HW501"));
    // Another's account below the same folder is a stranger's.
    let other = played_of("orazio", "/oracle/C11/12102").check();
    assert_eq!(other.instance("C11")["vouched_by"], serde_json::json!([]));
}
