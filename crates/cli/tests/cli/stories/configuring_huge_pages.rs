//! Tim Hall, "Configuring HugePages for Oracle on Linux (x86-64)" (oracle-base.com), as far as
//! "Oracle DBA Information" has it: an SGA of 600 MB from no pool to one of 306 pages,
//! USE_LARGE_PAGES, transparent huge pages, pages of 1 GiB.

use hugewise_testkit::oracle_fixtures::{
    Database, Distribution, FixtureMachine, FixtureMemlock, OracleFixture, ParameterStore,
    SgaPages, catalog, mib_to_bytes,
};

use crate::stories::played::{Played, by_hand};
use crate::support::hugewise;

const LOG: &str = "/u01/app/oracle/diag/rdbms/db11g/DB11G/trace/alert_DB11G.log";

/// 305 by the script, 306 written; after the restart 98 free and 93 promised.
#[test]
fn an_sga_of_600_mb_from_no_pool_to_all_of_it() {
    let mut before = catalog::find_fixture("small").unwrap();
    before.machine.pool = 0;
    before.machine.pool_at_boot = None;
    before.machine.log_in_memlock = None;
    let database = &mut before.databases[0];
    (database.pages, database.untouched, database.memlock) =
        (SgaPages::Base, 0, FixtureMemlock::Kib(32));
    let mut played = Played::of(before);
    // 600 MiB in granules of 4 MiB and a page for the key: 602 MB, 301 pages, as its own log had
    // it.
    let checked = played.check();
    assert_eq!(checked.instance("DB11G")["demand"]["needed_pages"], 301);
    played.carry_out(&[]);
    let pages = played.pages_at_boot();
    assert!((301..=306).contains(&pages), "{pages}");
    // It is enough for 306 pages, and the protagonist's own rule was 306 * 2048 = 626,688.
    assert!(pages * 2048 <= 626_688);
    let after = catalog::find_fixture("small").unwrap();
    let spare = after.machine.pool - 301;
    played.boot(|estate| {
        let memlock = FixtureMemlock::Unlimited;
        estate.databases[0] = Database { memlock, ..after.databases[0].clone() };
        estate.machine.pool = pages;
    });
    let booted = played.check();
    assert_eq!(booted.troubles(), [""; 0], "{:#}", booted.json["findings"]);
    assert_eq!(booted.instance("DB11G")["huge_pages"], "all");
    assert_eq!(spare, 5);
}

/// The figures that its author saw after the restart, and the block in the alert log, agree.
#[test]
fn the_alert_log_and_the_mappings_say_the_same() {
    let played = Played::named("small");
    let meminfo = played.host.text("/proc/meminfo").unwrap();
    let fields = meminfo
        .lines()
        .filter(|line| line.starts_with("HugePages_"))
        .map(|line| line.split_whitespace().last().unwrap());
    // 306 - 98 + 93 = 301.
    assert_eq!(fields.collect::<Vec<_>>(), ["306", "98", "93", "0"]);
    let log = played.host.text(LOG).unwrap();
    for line in [
        "Total Shared Global Region in Large Pages = 602 MB (100%)",
        "Large Pages used by this instance: 301 (602 MB)",
    ] {
        assert!(log.contains(line), "{log}");
    }
    let said = played.run("verify", &[]);
    assert_eq!(said.code, 0, "{}", said.out);
    let told = crate::stories::played::one_line(&said.out);
    assert!(
        told.contains("DB11G all 301 301 2 MiB")
            && told.contains("all on huge pages; 301 of 301 pages"),
        "{told}"
    );
}

/// "If you increase your memory allocation or add new instances, you need to retest": each is
/// foretold for the next start.
#[test]
fn a_larger_sga_and_a_new_instance_are_foretold() {
    let played = Played::named("small");
    let dbs = "/u01/app/oracle/product/11.2.0.3/dbhome_1/dbs";
    played
        .host
        .put(&format!("{dbs}/initDB11G.ora"), "*.sga_target=900M\n*.pga_aggregate_target=200M\n");
    let grown = played.check();
    assert_eq!(
        grown.instance("DB11G")["moments"]["restart"]["state"],
        "partly",
        "{:#}",
        grown.json["findings"]
    );
    let mut estate = catalog::find_fixture("small").unwrap();
    // 626,688 kB were the limit for 306 pages: what another one of the same account adds goes
    // beyond it, up to Linux 5.15.
    let of_another = |estate: &OracleFixture| {
        let mut estate = estate.clone();
        estate.databases.push(
            Database { running: false, ..Database::new("NEW", "11.2.0.3") }
                .with_sga(mib_to_bytes(600)),
        );
        Played::of(estate).check().instance("NEW")["moments"]["restart"].clone()
    };
    let limited = of_another(&estate);
    assert!(
        limited["state"] == "none" && limited["why"].as_str().unwrap().contains("memlock"),
        "{limited:#}"
    );
    estate.machine.log_in_memlock = Some(FixtureMemlock::Unlimited);
    assert_eq!(of_another(&estate)["state"], "partly", "{:#}", of_another(&estate));
}

/// Up to 11.2.0.2 a pool that is too small is not used at all; from 11.2.0.3 on what there is.
#[test]
fn a_pool_that_is_short_is_all_or_nothing_or_mixed_by_release() {
    for (release, state) in
        [("11.2.0.2", "none"), ("11.2.0.3", "partly"), ("10.2.0.4", "none"), ("12.1.0.2", "partly")]
    {
        let database = Database {
            memlock: FixtureMemlock::Unlimited,
            kept: ParameterStore::Spfile,
            ..Database::new("DB", release)
        };
        let mut machine = FixtureMachine::new("ol6", Distribution::RedHat6, 8 << 20);
        (machine.pool, machine.pool_at_boot, machine.log_in_memlock) =
            (200, Some(200), Some(FixtureMemlock::Unlimited));
        let played = Played::of(OracleFixture {
            machine,
            databases: vec![database.with_sga(mib_to_bytes(600))],
            ..OracleFixture::default()
        });
        let checked = played.check();
        assert_eq!(checked.instance("DB")["moments"]["restart"]["state"], state, "{release}");
    }
}

/// USE_LARGE_PAGES=ONLY makes a shortage a start that fails, with ORA-27137 and the pages that
/// would do in the log.
#[test]
fn with_only_it_refuses_to_start_and_the_log_says_how_many_pages() {
    let mut estate = catalog::find_fixture("small").unwrap();
    estate.machine.pool_at_boot = Some(200);
    estate.databases[0] = estate.databases[0].clone().with_parameter("use_large_pages", "ONLY");
    let played = Played::of(estate);
    let checked = played.check();
    assert_eq!(
        checked.instance("DB11G")["moments"]["reboot"]["state"],
        "does_not_start",
        "{:#}",
        checked.json["instances"]
    );
    assert_eq!(checked.finding("HW603")["level"], "error");
    // What it wrote when it had been so: 608 MB, 304 pages.
    played.host.put(
        "/tmp/alert.log",
        "Starting ORACLE instance (normal)\n****************** Large Pages Information \
             *****************\nParameter use_large_pages \
         = ONLY\n\nLarge Pages unused system wide = 0 (0 KB) (alloc incr 4096 KB)\nLarge Pages \
             configured system wide = 0 (0 KB)\n\
         Large Page size = 2048 KB\n\nERROR:\n  Failed to allocate shared global region with \
             large pages, unix errno = 12.\n  Aborting \
         Instance startup.\n  ORA-27137: unable to allocate Large Pages to create a shared memory \
             segment\n\nACTION:\n  Total Shared \
         Global Region size is 608 MB. Increase the number of\n  unused large pages to atleast \
             304 (608 MB) to allocate 100% Shared \
         Global\n  Region with Large \
             Pages.\n***********************************************************\n",
    );
    let log = played.host.at("/tmp/alert.log");
    let said = hugewise(&[
        "verify",
        "--log",
        log.to_str().unwrap(),
        "--format",
        "json",
        "--root",
        played.host.root.to_str().unwrap(),
    ]);
    let told = said.json()["logs"].to_string();
    assert!(told.contains("\"needed_pages\":304") && told.contains("failed"), "{told}");
    assert!(hugewise(&["rules", "ORA-27137"]).out.contains("ONLY"));
}

/// Red Hat 6 and 7, Oracle Linux 6 and 7: each kernel's own folder, each distribution's own way to
/// the boot. Of RHEL 7 the article has the folder of 6; its kernel has the usual one.
#[test]
fn transparent_huge_pages_are_switched_off_where_each_distribution_has_them() {
    let json_of = |distribution: Distribution, kernel: Option<&str>| {
        let database =
            Database { memlock: FixtureMemlock::Unlimited, ..Database::new("DB11G", "11.2.0.3") };
        let mut machine = FixtureMachine::new("db", distribution, 8 << 20);
        machine.kernel = kernel.map_or(machine.kernel.clone(), str::to_owned);
        let played = Played::of(OracleFixture {
            machine,
            databases: vec![database.with_sga(mib_to_bytes(600))],
            ..OracleFixture::default()
        });
        let found = played.check();
        assert!(
            found.words("HW501").contains("for oracle DB11G it should be never"),
            "{}",
            found.words("HW501")
        );
        let plan = played.carry_out(&[]);
        let switch = ["redhat_transparent_hugepage", "transparent_hugepage"];
        let switch = switch
            .iter()
            .find_map(|name| played.host.text(&format!("/sys/kernel/mm/{name}/enabled")))
            .unwrap();
        assert!(switch.contains("[never]"), "{switch}");
        plan
    };
    let red_hat = json_of(Distribution::RedHat6, None);
    assert!(red_hat.to_string().contains("/sys/kernel/mm/redhat_transparent_hugepage/enabled"));
    assert!(by_hand(&red_hat).contains("/boot/grub/grub.conf"), "{}", by_hand(&red_hat));
    assert!(by_hand(&red_hat).contains("rc.local"), "{}", by_hand(&red_hat));
    let uek = json_of(Distribution::RedHat6, Some("2.6.39-400.24.1.el6uek.x86_64")).to_string();
    assert!(uek.contains("/sys/kernel/mm/transparent_hugepage/enabled"), "{uek}");
    let seven = json_of(Distribution::OracleLinux7, None).to_string();
    assert!(
        seven.contains("/sys/kernel/mm/transparent_hugepage/enabled")
            && seven.contains("tmpfiles.d"),
        "{seven}"
    );
}

/// What was set by hand is gone after the boot: "remember to check after the reboot".
#[test]
fn thp_that_was_set_by_hand_is_foretold_to_come_back() {
    let mut estate = catalog::find_fixture("small").unwrap();
    estate.machine.kernel = "4.1.12-61.1.6.el7uek.x86_64".into();
    estate.machine.distribution = Distribution::OracleLinux7;
    let played = Played::of(estate);
    played.host.put("/proc/cmdline", "ro quiet\n");
    played.host.put("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"ro quiet\"\n");
    assert!(
        played.check().words("HW602").contains("THP is never now, and always after the next boot")
    );
}

/// A pool of 1 GiB pages as the article sets it up: Oracle does not recommend them, and the
/// server's default is what it asks for.
#[test]
fn pages_of_a_gibibyte_are_advised_against() {
    let played = Played::named("small");
    for (name, pages) in [
        ("nr_hugepages", 1),
        ("free_hugepages", 1),
        ("resv_hugepages", 0),
        ("surplus_hugepages", 0),
    ] {
        played.host.put(
            &format!("/sys/kernel/mm/hugepages/hugepages-1048576kB/{name}"),
            &format!("{pages}\n"),
        );
    }
    let said = played.run("size", &["--page-size", "1G"]);
    let told = crate::stories::played::one_line(&said.out);
    assert!(told.contains("1 GiB"), "{told}{}", said.err);
    assert!(told.contains("Oracle recommends 2 MiB pages for the SGA"), "{told}{}", said.err);
}
