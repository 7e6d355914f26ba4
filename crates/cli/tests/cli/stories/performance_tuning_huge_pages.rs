//! Riyaj Shamsudeen, "Performance tuning: HugePages in Linux" (Pythian): a host of 20 GB that froze
//! in kernel mode, with 5 GB of page tables for an SGA of 10 GB.

use std::fs;

use hugewise_testkit::oracle_fixtures::{FixtureMemlock, OracleFixture, SgaPages};

use crate::stories::played::{Played, by_hand};
use crate::support::{fixtures, hugewise};

/// What sar had kept of the freezes, without a word about huge pages in it.
#[test]
fn the_freeze_is_found_in_what_sar_kept() {
    let said = hugewise(&[
        "investigate",
        fixtures("collectors/two-freezes.sar").to_str().unwrap(),
        "--format",
        "json",
    ]);
    let incidents = said.json()["incidents"].clone();
    let all = incidents.as_array().unwrap();
    assert_eq!(all.len(), 2, "{incidents:#}");
    for incident in all {
        assert!(incident.to_string().contains("reclaim-by-page-tables"), "{incident:#}");
    }
    // Free memory leaps from 86,176 kB to 1,157,520 kB, and from 78,588 kB to 4,787,684 kB; a
    // sample comes minutes late.
    let told = crate::stories::played::one_line(
        &hugewise(&["investigate", fixtures("collectors/two-freezes.sar").to_str().unwrap()]).out,
    );
    assert!(told.contains("free memory leapt from 84.2 MiB to 1.1 GiB"), "{told}");
    assert!(told.contains("a collector's sample came"), "{told}");
}

#[test]
fn five_gigabytes_of_page_tables_freeze_a_host_of_twenty() {
    let mut played = Played::named("freezing");
    let before = played.check();
    // 5,007,924 of 20,549,012 kB.
    assert!(
        before.words("HW101").contains("page tables take 4.8 GiB, 24.4 % of memory"),
        "{}",
        before.words("HW101")
    );
    assert_eq!(before.finding("HW201")["level"], "error");
    // The SGA is not locked: what is in swap is of it, too.
    assert!(
        before.words("HW801").contains("keeps 10.0 GiB on base pages, not locked"),
        "{}",
        before.words("HW801")
    );
    // 2.6 million pages of 4 KiB are 5,120 of 2 MiB; 6,144 were chosen, "to a suitable value".
    let size = played.run("size", &["--format", "json"]).json();
    let sized = size["instances"][0]["demand_pages"].as_u64().unwrap();
    assert_eq!((sized, (10_u64 << 30) / 4096), (5120, 2_621_440));

    // It fits: 7 GB of private memory are counted once, also where the kernel tells them in statm
    // alone.
    let plan = played.carry_out(&[]);
    let told = by_hand(&plan);
    assert!(told.contains("in /etc/sysctl.conf: vm.nr_hugepages = 5122"), "{told}");
    assert!(!told.contains("more than this host can give"), "{told}");

    // With what was planned: booted, and all of it well.
    let conf = played.host.text("/etc/sysctl.conf").unwrap();
    played.host.put("/etc/sysctl.conf", &format!("{conf}vm.nr_hugepages = 5122\n"));
    let on_huge_pages = |estate: &mut OracleFixture, pool: u64| {
        estate.machine.pool = pool;
        estate.machine.meminfo.clear();
        estate.machine.swap.1 = 0;
        let database = &mut estate.databases[0];
        (database.pages, database.swapped, database.memlock) =
            (SgaPages::Huge, 0, FixtureMemlock::Kib(12_582_912));
    };
    played.host.put(
        "/etc/security/limits.conf",
        "oracle soft memlock 12582912\noracle hard memlock 12582912\n",
    );
    fs::remove_file(played.host.at("/etc/security/limits.d/zz-hugewise.conf")).unwrap();
    played.boot(|estate| on_huge_pages(estate, 5_122));
    let planned = played.check();
    assert_eq!(planned.troubles(), [""; 0], "{:#}", planned.json["findings"]);

    // What the protagonist did: 6,144 pages, a limit of 12,582,912 kB, a restart. By his figures
    // 400 sessions and their private memory do not fit beside 12 GiB: 300 do.
    let mut all = played.estate.clone();
    all.machine.pool = 6_144;
    assert!(all.make_files().is_err());
    played.host.put("/etc/sysctl.conf", &format!("{conf}vm.nr_hugepages = 6144\n"));
    played.boot(|estate| {
        on_huge_pages(estate, 6_144);
        // 6,144 - 1,655 = 4,489 pages are touched of 5,120.
        (estate.databases[0].untouched, estate.databases[0].sessions) = (5_120 - 4_489, 300);
    });
    let meminfo = played.host.text("/proc/meminfo").unwrap();
    assert!(
        meminfo.lines().any(|line| line.starts_with("HugePages_Free:") && line.ends_with("1655")),
        "{meminfo}"
    );
    let after = played.check();
    assert_eq!(after.instance("CENTRAL")["huge_pages"], "all");
    // Total - Free is what was touched; what is promised belongs to the SGA as well.
    let mapped = after.instance("CENTRAL")["segments"][0]["size_bytes"].as_u64().unwrap();
    assert_eq!((mapped >> 21, (6_144 - 1_655) + 631), (5_120, 5_120));
    // "A few hundred MB."
    let tables: u64 = after.instance("CENTRAL")["page_tables_bytes"].as_u64().unwrap();
    assert!((100 << 20..500 << 20).contains(&tables), "{tables}");
    assert!(
        !after.codes().contains(&"HW101") && !after.codes().contains(&"HW801"),
        "{:?}",
        after.codes()
    );
    // 1,024 of the 6,144 are for nobody: 2 GiB that a host of 20 has missed before.
    assert!(after.words("HW205").contains("1,02"), "{}", after.words("HW205"));
    assert!(after.troubles().iter().all(|code| *code == "HW205"), "{:?}", after.troubles());
}

/// What `size` foretold of page tables is what they came to: "a few hundred MB" for a few hundred
/// connections.
#[test]
fn size_foretells_the_page_tables_that_were_left() {
    let played = Played::named("freezing");
    let size = played.run("size", &["--format", "json"]).json();
    let foretold = size["budget"]["page_tables_bytes"].as_u64().unwrap();
    assert!((100 << 20..500 << 20).contains(&foretold), "{foretold}");
}
