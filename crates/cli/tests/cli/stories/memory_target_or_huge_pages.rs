//! Ronny Egner, "MEMORY_TARGET (SGA_TARGET) or HugePages - which to choose?" (2010): two hosts that
//! spend gigabytes on page tables, automatic memory management that rules huge pages out, and what
//! its readers met.

use std::fs;

use hugewise_testkit::oracle_fixtures::{
    Database, FixtureMemlock, OracleFixture, SgaPages, catalog, gib_to_bytes,
};

use crate::stories::played::{Checked, Played, by_hand};
use crate::support::hugewise;

/// KiB of page tables by /proc/meminfo.
fn page_tables(played: &Played) -> u64 {
    let meminfo = played.host.text("/proc/meminfo").unwrap();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("PageTables:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// What the plan leaves to the owner of a RHEL 5 is done: the line for the boot.
fn write_the_boots_line(played: &Played, plan: &serde_json::Value) -> u64 {
    let told = by_hand(plan);
    let line = told
        .split("in /etc/sysctl.conf: vm.nr_hugepages = ")
        .nth(1)
        .unwrap_or_else(|| panic!("{told}"));
    let pages: u64 =
        line.split(|character: char| !character.is_ascii_digit()).next().unwrap().parse().unwrap();
    let conf = played.host.text("/etc/sysctl.conf").unwrap();
    played.host.put("/etc/sysctl.conf", &format!("{conf}vm.nr_hugepages = {pages}\n"));
    pages
}

/// Booted with its pages, from a login with the new limits.
fn on_huge_pages(estate: &mut OracleFixture, pool: u64) {
    estate.machine.pool = pool;
    // What was printed was printed before.
    estate.machine.meminfo.clear();
    estate.machine.swap.1 = 0;
    for database in &mut estate.databases {
        (database.pages, database.memlock, database.swapped) =
            (SgaPages::Huge, FixtureMemlock::Unlimited, 0);
    }
}

fn is_well(checked: &Checked) {
    assert_eq!(checked.troubles(), [""; 0], "{:#}", checked.json["findings"]);
    for instance in checked.json["instances"].as_array().unwrap() {
        let moments = &instance["moments"];
        let states =
            ["now", "restart", "reboot"].map(|moment| moments[moment]["state"].as_str().unwrap());
        assert_eq!(states, ["all"; 3], "{instance:#}");
    }
    assert_eq!(checked.code, 0);
}

/// "Approx. 10 %" of 16 GB for 444 sessions on 8 GB.
#[test]
fn system_a_spends_a_tenth_of_its_memory_on_page_tables() {
    let mut played = Played::named("system-a");
    assert_eq!(page_tables(&played), 1_591_860);
    let before = played.check();
    let words = before.words("HW101");
    // 1,591,860 of 16,387,608 kB are 9.7 %.
    assert!(words.contains("page tables take 1.5 GiB, 9.7 % of memory"), "{words}");
    assert_eq!(
        before.instance("ORA1")["sessions"].as_u64().unwrap()
            + before.instance("ORA2")["sessions"].as_u64().unwrap(),
        444
    );
    let plan = played.carry_out(&[]);
    // Alex: log out, log in, bounce the databases.
    assert!(
        by_hand(&plan).contains("from a new login (an older shell keeps its old limits)"),
        "{}",
        by_hand(&plan)
    );
    let pages = write_the_boots_line(&played, &plan);
    // 8 GiB are 4,096 pages of 2 MiB, and no more than a few to spare.
    assert!((4096..=4106).contains(&pages), "{pages}");
    let limits =
        fs::read_to_string(played.host.at("/etc/security/limits.d/zz-hugewise.conf")).unwrap();
    assert!(limits.contains("oracle - memlock unlimited"), "{limits}");
    played.boot(|estate| on_huge_pages(estate, pages));
    is_well(&played.check());
    // 480 processes with half a MiB each, and no table of 4 KiB for each 2 MiB of the SGA any more.
    assert!(page_tables(&played) < 1_591_860 / 5, "{}", page_tables(&played));
}

/// 12 GB of page tables for 400 sessions on 34 GB.
#[test]
fn system_b_spends_twelve_gigabytes_on_page_tables() {
    let mut played = Played::named("system-b");
    assert_eq!(page_tables(&played), 12_023_792);
    let before = played.check();
    assert!(
        before.words("HW101").contains("page tables take 11.5 GiB, 9.1 % of memory"),
        "{}",
        before.words("HW101")
    );
    assert!(
        before.codes().contains(&"HW201") && before.codes().contains(&"HW301"),
        "{:?}",
        before.codes()
    );
    let plan = played.carry_out(&[]);
    let pages = write_the_boots_line(&played, &plan);
    // 34 GiB.
    assert!((17_408..=17_418).contains(&pages), "{pages}");
    played.boot(|estate| on_huge_pages(estate, pages));
    is_well(&played.check());
    assert!(page_tables(&played) < 300_000, "{}", page_tables(&played));
}

/// "Never, nothing configured; configured and not used; used": 3,000 pages, of which 2,601 are free
/// and 2,290 of these promised.
#[test]
fn three_states_of_a_pool_are_told_apart() {
    let played_of = |pool: u64, pages: SgaPages, untouched: u64| {
        // 399 touched pages and 2,290 that are promised: an SGA of 2,689 pages.
        let sga = 2_689 << 21;
        let database = Database {
            pages,
            untouched,
            memlock: FixtureMemlock::Unlimited,
            ..Database::new("RAC1", "11.2.0.1")
        };
        let mut estate = OracleFixture {
            databases: vec![database.with_sga(sga).with_sessions(10, gib_to_bytes(1))],
            ..OracleFixture::default()
        };
        estate.machine = hugewise_testkit::oracle_fixtures::FixtureMachine::new(
            "rac1",
            hugewise_testkit::oracle_fixtures::Distribution::RedHat5,
            16 << 20,
        );
        (estate.machine.pool, estate.machine.pool_at_boot) = (pool, Some(pool));
        estate.machine.log_in_memlock = Some(FixtureMemlock::Unlimited);
        Played::of(estate)
    };
    let none = played_of(0, SgaPages::Base, 0).check();
    assert!(none.codes().contains(&"HW201"), "{:?}", none.codes());
    let unused = played_of(3000, SgaPages::Base, 0).check();
    assert!(
        unused.words("HW202").contains("nobody uses any of the 3,000 pages"),
        "{}",
        unused.words("HW202")
    );
    assert_eq!(unused.instance("RAC1")["huge_pages"], "none");
    let played = played_of(3000, SgaPages::Huge, 2290);
    let meminfo = played.host.text("/proc/meminfo").unwrap();
    let fields = meminfo
        .lines()
        .filter(|line| line.starts_with("HugePages_"))
        .map(|line| line.split_whitespace().last().unwrap());
    assert_eq!(fields.collect::<Vec<_>>(), ["3000", "2601", "2290", "0"]);
    let used = played.check();
    assert_eq!(used.instance("RAC1")["huge_pages"], "all");
    // Free pages that are promised are nobody else's: 311 of the 2,601 are to be had.
    let text = played.told("check", &[]);
    assert!(text.contains("3,000 of 2 MiB, 311 available"), "{text}");
}

/// MEMORY_TARGET puts the SGA into files of /dev/shm, which no pool can back: Damir asked for a
/// proof, Ronny named the test.
#[test]
fn automatic_memory_management_and_huge_pages_exclude_each_other() {
    let mut played = Played::named("amm");
    let before = played.check();
    assert_eq!(before.instance("HR")["huge_pages"], "none");
    let words = before.words("HW402");
    assert!(
        words.contains("its SGA is mapped from /dev/shm") && words.contains("memory_target=8G"),
        "{words}"
    );
    assert!(before.codes().contains(&"HW202"), "the pool stays free: {:?}", before.codes());
    // One outage: targets that are worked out, pages, limits, a restart.
    let size = played.told("size", &[]);
    for step in [
        "remove memory_target",
        "sga_target=5120M",
        "pga_aggregate_target=3072M",
        "hugewise apply",
        "hugewise verify",
    ] {
        assert!(size.contains(step), "{step}: {size}");
    }
    played.host.put(
        "/u01/app/oracle/product/11.2.0.1/dbhome_1/dbs/initHR.ora",
        "*.processes=150\n*.sga_target=5120M\n*.pga_aggregate_target=3072M\n",
    );
    let plan = played.carry_out(&[]);
    let pages = write_the_boots_line(&played, &plan);
    // 5 GiB are 2,560 pages; its fixed part and granules may take a few more.
    assert!((2560..=2620).contains(&pages), "{pages}");
    played.boot(|estate| {
        on_huge_pages(estate, pages);
        let database = estate.databases.remove(0);
        let database = Database { parameters: Vec::new(), ..database }
            .with_sga(gib_to_bytes(5))
            .with_parameter("processes", "150");
        estate.databases.push(database.with_parameter("pga_aggregate_target", "3072M"));
    });
    is_well(&played.check());
}

/// "Not swappable", says the article of automatic memory management: files of tmpfs are swapped
/// like any other memory.
#[test]
fn memory_of_dev_shm_can_be_swapped() {
    let mut estate = catalog::find_fixture("amm").unwrap();
    estate.machine.swap.1 = 400_000;
    let words = Played::of(estate).check().words("HW801");
    assert!(words.contains("oracle HR keeps 5.0 GiB on base pages, not locked"), "{words}");
}

/// Alexei and Chris: started with sqlplus it gets huge pages, with srvctl it does not. Others found
/// the cause: the stack hands down the limits that it was started with (bug 9251136), and `ulimit
/// -l` in its script mends it.
#[test]
fn srvctl_gives_other_limits_than_sqlplus() {
    let mut played = Played::named("srvctl");
    let before = played.check();
    let words = before.words("HW305");
    assert!(words.contains("Clusterware: 4.0 GiB"), "{words}");
    assert!(words.contains("login of oracle: no limit") || words.contains("unlimited"), "{words}");
    assert!(before.codes().contains(&"HW202"), "{:?}", before.codes());
    // Chris: 11g Clusterware and a 10g database.
    let mut older = catalog::find_fixture("srvctl").unwrap();
    older.databases[0].release = "10.2.0.4".into();
    assert!(Played::of(older).check().words("HW305").contains("Clusterware: 4.0 GiB"));
    let told = by_hand(&played.host.plan(&[]));
    let file = "/u01/app/11.2.0/grid/crs/install/s_crsconfig_rac1_env.txt";
    assert!(told.contains(file) && told.contains("CRS_LIMIT_MEMLOCK=unlimited"), "{told}");
    assert!(told.contains("crsctl stop crs"), "{told}");
    // The readers' cure: in the script.
    let script =
        "#!/bin/sh\nstart()\n{\n  ulimit -n 65536\n  ulimit -l unlimited\n  $START_OHASD\n}\n";
    played.host.put("/etc/init.d/ohasd", script);
    let written = played.check();
    assert_eq!(
        written.instance("RAC1")["moments"]["reboot"]["state"],
        "all",
        "{:#}",
        written.json["instances"]
    );
    played.boot(|estate| {
        on_huge_pages(estate, 4_100);
        estate.grid.as_mut().unwrap().memlock = FixtureMemlock::Unlimited;
    });
    is_well(&played.check());
}

/// It is on huge pages from a login's start, or soon will be: told to insist then, it would be down
/// after srvctl's.
#[test]
fn nobody_insists_before_clusterwares_start_has_huge_pages() {
    for (memlock, pages) in [
        (FixtureMemlock::Unlimited, SgaPages::Huge),
        (FixtureMemlock::Kib(4 << 20), SgaPages::Base),
    ] {
        let mut estate = catalog::find_fixture("srvctl").unwrap();
        let database = &mut estate.databases[0];
        (database.release, database.memlock, database.pages) = ("11.2.0.4".into(), memlock, pages);
        let played = Played::of(estate);
        let checked = played.told("check", &[]);
        let told = "once a start with srvctl gets it pages, make oracle RAC1 require them: \
             use_large_pages=ONLY";
        assert!(checked.contains(told), "{checked}");
        let plan = by_hand(&played.host.plan(&[]));
        assert!(plan.contains("# once a start with srvctl gets it pages; after"), "{plan}");
    }
}

/// A reader wrote: it worked until the reboot. Before it, Clusterware ran with the limits of a
/// person's shell.
#[test]
fn it_worked_until_the_reboot() {
    let played = {
        let mut estate = catalog::find_fixture("srvctl").unwrap();
        on_huge_pages(&mut estate, 4_100);
        let grid = estate.grid.as_mut().unwrap();
        (grid.memlock, grid.script) = (FixtureMemlock::Unlimited, Some(FixtureMemlock::Kib(32)));
        Played::of(estate)
    };
    let checked = played.check();
    let moments = &checked.instance("RAC1")["moments"];
    assert_eq!(
        (moments["now"]["state"].as_str(), moments["restart"]["state"].as_str()),
        (Some("all"), Some("all"))
    );
    assert_eq!(moments["reboot"]["state"], "none", "{moments:#}");
}

/// Evan could not get ASM onto huge pages; Ronny thinks it not worth it. It is told by its size: an
/// ASM instance under AMM waits for no pool, one that has an SGA_TARGET is counted.
#[test]
fn asm_is_counted_where_it_can_use_the_pool() {
    let played = Played::named("cluster");
    let checked = played.check();
    let asm = checked.instance("+ASM1");
    // 1,104 MiB and the key's page.
    assert_eq!(asm["demand"]["needed_pages"], 553);
    assert_eq!(asm["moments"]["restart"]["state"], "none");
    let mut estate = catalog::find_fixture("cluster").unwrap();
    estate.databases.truncate(1);
    estate.databases[0].pages = SgaPages::Amm;
    estate.databases[0].parameters = vec![("memory_target".into(), "1536M".into())];
    let under_amm = Played::of(estate).check();
    assert!(!under_amm.codes().contains(&"HW201"), "{:?}", under_amm.codes());
}

/// sunny: 16 GB of SLES, two instances of 8 GB and 1.5 GB, and 4,868 pages from Oracle's script,
/// "which is looking wrong to me". The console says paging, and a job's process did not start.
#[test]
fn the_script_was_right_and_the_pool_is_not_what_pages() {
    let played = Played::named("two-on-sles");
    let checked = played.check();
    is_well(&checked);
    // 8 GiB and 1,536 MiB in segments of 11.2.0.3, each with a page for its key: 4,097 and 769.
    let pages = ["ORC1", "ORC2"]
        .map(|name| checked.instance(name)["demand"]["needed_pages"].as_u64().unwrap());
    assert_eq!((pages, pages.iter().sum::<u64>() + 2), ([4_097, 769], 4_868));
    // `free -m` said 4,210 MB without buffers and cache, 125 of them free.
    let text = played.told("check", &[]);
    assert!(text.contains("about 4.2 GiB available") && text.contains("2 available"), "{text}");
    assert!(
        !checked.codes().contains(&"HW206") && !checked.codes().contains(&"HW801"),
        "{:?}",
        checked.codes()
    );
    let limits = played.told("size", &[]);
    for limit in ["memlock", "shmmax", "shmall"] {
        assert!(limits.contains(limit), "{limits}");
    }
    assert!(!limits.contains("NOT enough (kernel 2.6.32.12-0.7-default: a limit"), "{limits}");
    let message = hugewise(&["rules", "ORA-00445"]).out;
    for word in ["pre_page_sga", "HW101", "HW206", "investigate"] {
        assert!(message.contains(word), "{word}: {message}");
    }
}

/// LEKalas: 10g with lock_sga on huge pages, and AMM at the upgrade would take them back to where
/// they were.
#[test]
fn lock_sga_is_not_needed_on_huge_pages_and_amm_would_lose_them() {
    let mut estate = catalog::find_fixture("srvctl").unwrap();
    estate.grid = None;
    estate.databases[0] = Database {
        memlock: FixtureMemlock::Unlimited,
        pages: SgaPages::Huge,
        ..Database::new("OLTP", "10.2.0.4")
    }
    .with_sga(gib_to_bytes(8))
    .with_parameter("lock_sga", "TRUE");
    estate.databases[0].home = Some("/u01/app/oracle/product/10.2.0.4/db_1".into());
    let played = Played::of(estate.clone());
    is_well(&played.check());
    // The upgrade, as it would have been, in the parameters of the next start.
    let mut upgraded = estate;
    upgraded.databases[0].release = "11.2.0.1".into();
    upgraded.databases[0].home = None;
    upgraded.databases[0].parameters =
        vec![("memory_target".into(), "10G".into()), ("lock_sga".into(), "TRUE".into())];
    let checked = Played::of(upgraded).check();
    assert_eq!(
        checked.instance("OLTP")["moments"]["restart"]["state"],
        "none",
        "{:#}",
        checked.json["findings"]
    );
}
