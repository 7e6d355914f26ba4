//! The estates that are made are hosts that could be: sums agree, and hugewise reads all of them.

use hugewise_testkit::oracle_fixtures::{OracleFixture, catalog};

use crate::stories::played::Played;

fn kib(text: &str, name: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .unwrap_or_else(|| panic!("no {name}"));
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn their_sums_agree() {
    for (name, _, _) in catalog::ALL {
        let played = Played::named(name);
        let meminfo = played.host.text("/proc/meminfo").unwrap();
        let count_of = |field: &str| kib(&meminfo, field);
        let pool = count_of("HugePages_Total") * 2048;
        let sum = count_of("MemFree")
            + count_of("Buffers")
            + count_of("Cached")
            + count_of("AnonPages")
            + count_of("Slab")
            + count_of("PageTables")
            + pool;
        let total = count_of("MemTotal");
        assert!(sum <= total && sum * 100 >= total * 98, "{name}: {sum} of {total}");
        let processes = std::fs::read_dir(played.host.at("/proc")).unwrap();
        let status = processes
            .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path().join("status")).ok());
        let tables: u64 = status.map(|status| kib(&status, "VmPTE")).sum();
        // What a story has printed is what its processes come to, within 1 %.
        let printed = count_of("PageTables");
        assert!(tables.abs_diff(printed) <= printed / 100 + 4096, "{name}: {tables} of {printed}");
        assert!(count_of("HugePages_Free") >= count_of("HugePages_Rsvd"), "{name}");
    }
}

#[test]
fn everything_in_them_is_read() {
    for (name, _, _) in catalog::ALL {
        let played = Played::named(name);
        let checked = played.check();
        let running = played.estate.databases.iter().filter(|database| database.running);
        for database in running {
            let instance = checked.instance(&database.sid);
            let sessions = u64::from(database.sessions + database.shared_servers);
            assert_eq!(
                (instance["engine"].as_str(), instance["sessions"].as_u64()),
                (Some("oracle"), Some(sessions)),
                "{name}"
            );
        }
        // A server parameter file in ASM is no file of the host: that is said.
        let unread = checked.json["unread"].as_array().unwrap();
        let said = |json: &serde_json::Value| json.to_string().contains("spfile in ASM");
        assert!(unread.iter().all(said), "{name}: {unread:#?}");
    }
}

/// Grid Infrastructure, ASM, the management database, two homes of which one is read-only, MGA
/// files, an instance that is down.
#[test]
fn a_cluster_is_known_with_all_that_belongs_to_it() {
    let checked = Played::named("cluster").check();
    // Its managed global area lies in /dev/shm beside a System V SGA: no automatic memory
    // management.
    let segments = checked.instance("PROD1")["segments"].as_array().unwrap();
    assert!(segments.iter().all(|segment| segment["kind"] == "sysv"), "{segments:#?}");
    assert_eq!(checked.instance("PROD1")["demand"]["needed_pages"], (24_u64 << 30 >> 21) + 1);
    // Its parameters are in ASM: the last start in its alert log says them, with its date.
    let settings = checked.instance("PROD1")["setting"].to_string();
    assert!(settings.contains("alert_PROD1.log, last start of 2026-03-02"), "{settings}");
    assert_eq!(checked.instance("PROD1")["max_sessions"], 1000);
    // A read-only home has its files below the base.
    let settings = checked.instance("REP1")["setting"].to_string();
    assert!(settings.contains("/u01/app/oracle/dbs/spfileREP1.ora"), "{settings}");
    assert_eq!(checked.instance("OLD")["running"], false);
}

/// Those of ASM and of the management database are found below the base of the Grid home.
#[test]
fn the_logs_of_a_grid_home_are_found_below_its_base() {
    let checked = Played::named("cluster").check();
    for name in ["+ASM1", "-MGMTDB"] {
        let settings = checked.instance(name)["setting"].to_string();
        assert!(
            settings.contains(&format!("alert_{name}.log, last start of 2026-03-02")),
            "{name}: {settings}"
        );
    }
}

/// Every layout of the diagnostic destination that is documented. Where a parameter names it, that
/// has to be in a file.
#[test]
fn alert_logs_are_found_under_every_destination() {
    use hugewise_testkit::oracle_fixtures::{Database, gib_to_bytes};
    let add = |database: Database, log: &str| {
        let estate = OracleFixture {
            databases: vec![database.with_sga(gib_to_bytes(1))],
            ..OracleFixture::default()
        };
        let said = Played::of(estate).run("verify", &["--format", "json"]).json();
        assert_eq!(said["logs"][0]["path"], log, "{:#}", said["logs"]);
    };
    let usual = "/u01/app/oracle/diag/rdbms/prod/PROD/trace/alert_PROD.log";
    add(Database::new("PROD", "19.3.0"), usual);
    add(Database { read_only_home: true, ..Database::new("PROD", "19.3.0") }, usual);
    let set = Database::new("PROD", "19.3.0").with_parameter("diagnostic_dest", "/logs");
    add(set, "/logs/diag/rdbms/prod/PROD/trace/alert_PROD.log");
    let of_sap =
        Database { home: Some("/oracle/C11/19.0.0".into()), ..Database::new("C11", "19.0.0") };
    add(of_sap, "/oracle/C11/saptrace/diag/rdbms/c11/C11/trace/alert_C11.log");
    let without_base =
        Database { home: Some("/opt/oracle/11g".into()), ..Database::new("PROD", "11.1.0.7") };
    add(without_base, "/opt/oracle/11g/log/diag/rdbms/prod/PROD/trace/alert_PROD.log");
    let old = Database {
        home: Some("/u01/app/oracle/product/10.2.0/db_1".into()),
        ..Database::new("PROD", "10.2.0.4")
    };
    add(old, "/u01/app/oracle/admin/PROD/bdump/alert_PROD.log");
}

/// The managed global area is a row of its own, is no part of other processes' memory, and is not
/// counted in PGA once more.
#[test]
fn the_managed_global_area_is_counted_once() {
    let dealt = |managed: u64| {
        let mut estate = catalog::find_fixture("cluster").unwrap();
        let database = estate
            .databases
            .iter_mut()
            .find(|other_database| other_database.sid == "PROD1")
            .unwrap();
        database.managed = managed;
        Played::of(estate)
    };
    let budget =
        |played: &Played| played.run("size", &["--format", "json"]).json()["budget"].clone();
    let (without, with) = (budget(&dealt(0)), budget(&dealt(512 << 20)));
    let count_of = |budget: &serde_json::Value, part: &str| budget[part].as_u64();
    assert_eq!(
        (count_of(&without, "managed_bytes"), count_of(&with, "managed_bytes")),
        (None, Some(512 << 20))
    );
    assert_eq!(
        count_of(&with, "others_bytes"),
        count_of(&without, "others_bytes"),
        "{with:#} {without:#}"
    );
    let private = |budget: &serde_json::Value| count_of(budget, "sessions_private_bytes").unwrap();
    assert_eq!(private(&with) + (512 << 20), private(&without), "{with:#} {without:#}");
    let text = dealt(512 << 20).run("size", &[]).out;
    let row = text
        .lines()
        .find(|line| line.contains("managed global area"))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(row.contains(" M ") && row.contains("512.0 MiB"), "{text}");
    let page = dealt(512 << 20).run("size", &["--format", "html"]).out;
    assert!(page.contains("managed global area"));
}

/// A destination that stands in ASM alone is told by the trace files that its processes hold open,
/// of a capture as well.
#[test]
fn a_destination_that_only_asm_knows_is_told_by_open_traces() {
    let mut estate = catalog::find_fixture("cluster").unwrap();
    let database =
        estate.databases.iter_mut().find(|other_database| other_database.sid == "PROD1").unwrap();
    database.parameters.push(("diagnostic_dest".into(), "/logs".into()));
    let played = Played::of(estate);
    let log = "/logs/diag/rdbms/prod/PROD1/trace/alert_PROD1.log";
    let before = played.check();
    assert!(
        !before.instance("PROD1")["setting"].to_string().contains(log),
        "{}",
        before.instance("PROD1")["setting"]
    );
    let folder = format!("/proc/{}/fd", before.instance("PROD1")["pid"]);
    std::fs::create_dir_all(played.host.at(&folder)).unwrap();
    for (number, target) in [
        ("3", "/u02/oradata/S3/system01.dbf"),
        ("7", "/logs/diag/rdbms/prod/PROD1/trace/PROD1_pmon_1.trc"),
    ] {
        std::os::unix::fs::symlink(target, played.host.at(&format!("{folder}/{number}"))).unwrap();
    }
    let after = played.check();
    assert!(after.instance("PROD1")["setting"].to_string().contains(log), "{:#}", after.json);
    assert_eq!(after.instance("PROD1")["max_sessions"], 1000);
    let logs = played.run("verify", &["--format", "json"]).json()["logs"].to_string();
    assert!(logs.contains(log), "{logs}");
    // The names of other files are nobody's business.
    let kept = tempfile::TempDir::new().unwrap();
    let target = kept.path().join("captured");
    let said = played.run("capture", &["--output", target.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.err);
    let captured = crate::support::on("check", &target, &["--format", "json"]).out;
    assert!(captured.contains(log), "{captured}");
    assert!(std::fs::read_link(target.join(&folder[1..]).join("3")).is_err());
    assert!(std::fs::read_link(target.join(&folder[1..]).join("7")).is_ok());
}

/// What a machine cannot hold is refused, so that no test rests on a host that could not be.
#[test]
fn what_does_not_fit_is_no_estate() {
    let mut estate = catalog::find_fixture("freezing").unwrap();
    estate.machine.pool = 9_000;
    let error = estate.make_files().unwrap_err().to_string();
    assert!(error.contains("20549012 kB"), "{error}");
    let mut estate = catalog::find_fixture("small").unwrap();
    estate.machine.pool = 300;
    assert!(estate.make_files().is_err());
}
