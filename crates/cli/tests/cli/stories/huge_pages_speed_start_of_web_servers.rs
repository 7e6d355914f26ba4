//! Bobby Durrett, "Huge Pages Speeds Startup of Web Servers" (2018): 625 logins at once to a
//! metadata database of 5 GB on 4 cores.

use hugewise_testkit::oracle_fixtures::{FixtureMemlock, SgaPages};

use crate::stories::played::{Played, by_hand, one_line};
use crate::support::hugewise;

#[test]
fn six_hundred_log_ins_at_once_time_out_on_base_pages() {
    let mut played = Played::named("web-farm");
    let before = played.check();
    // 625 / 4.
    let sessions = before.words("HW103");
    assert!(sessions.contains("625 sessions on 4 processors, 156 per processor"), "{sessions}");
    assert!(sessions.contains("25 clients have 25 sessions each"), "{sessions}");
    // "10 or 20 SQL statements at once"; "if they are all CPU you are looking at 4".
    let remedies = before.finding("HW103")["remedies"].to_string();
    assert!(remedies.contains("aim for about 8 sessions on 4 processors"), "{remedies}");
    for offer in
        ["fewer connections in each client's own pool", "SHARED_SERVERS", "DBMS_CONNECTION_POOL"]
    {
        assert!(remedies.contains(offer), "{offer}: {remedies}");
    }
    // 1,310,720 pages for each login; 2.5 s there, 1.4 s by our measurement.
    let log_ins = before.words("HW104");
    assert!(
        log_ins
            .contains("each login first touches 5.0 GiB on 4 KiB pages, about 1.4 s of CPU time"),
        "{log_ins}"
    );
    assert!(log_ins.contains("pre_page_sga=TRUE"), "{log_ins}");
    // Each of 643 processes has touched 5 GiB: 2,560 tables of 4 KiB, which come to 6.6 GiB of the
    // host's 16.
    assert!(
        log_ins.contains("each of its 643 processes has touched 4.9 GiB or more (/proc/PID/statm"),
        "{log_ins}"
    );
    let storm = before.finding("HW104")["cost"].as_str().unwrap_or_default().to_owned() + &log_ins;
    assert!(
        storm.contains("625 logins at once keep 4 processors busy for 3.8 minutes on base pages"),
        "{storm}"
    );
    assert_eq!(before.finding("HW101")["level"], "error");
    // Two cures, the cheaper one first.
    let cures = before.finding("HW104")["remedies"].as_array().unwrap().clone();
    assert!(cures[0].to_string().contains("pre_page_sga=FALSE"), "{cures:?}");
    assert!(cures.len() > 1, "{cures:?}");
    let text = one_line(&played.run("check", &["-v"]).out);
    assert!(text.contains("set pre_page_sga=FALSE"), "{text}");

    // `size`: "each login took about 2.5 seconds, with it .15".
    let size = played.run("size", &["--format", "json"]).json();
    let rows = size["forecast"].as_array().unwrap();
    let seconds = |page: u64| {
        let row =
            rows.iter().find(|row| row["page_bytes"] == page && row["sessions"] == 1000).unwrap();
        row["login_seconds"].as_f64().unwrap()
    };
    assert!((1.0..3.0).contains(&seconds(4096)) && seconds(2 << 20) < 0.15, "{rows:#?}");
    assert!(seconds(4096) / seconds(2 << 20) > 10.0);

    let plan = played.carry_out(&[]);
    // By hand, as this boot loader's file is nobody's to write: transparent huge pages stay off.
    assert!(by_hand(&plan).contains("/boot/grub/grub.conf"), "{}", by_hand(&plan));
    played.host.change("/boot/grub/grub.conf", |text| {
        text.replace(" quiet", " quiet transparent_hugepage=never")
    });
    let pages = played.pages_at_boot();
    // 5 GiB and the page of the key.
    assert!((2561..=2571).contains(&pages), "{pages}");
    played.boot(|estate| {
        estate.machine.pool = pages;
        estate.machine.thp = Some("never");
        (estate.databases[0].pages, estate.databases[0].memlock) =
            (SgaPages::Huge, FixtureMemlock::Unlimited);
    });
    let after = played.check();
    assert_eq!(after.instance("META")["huge_pages"], "all");
    // What stays is that they are too many: pages do not mend that.
    assert_eq!(after.troubles(), ["HW103"], "{:#}", after.json["findings"]);
}

/// The cheaper cure, on its own: pre_page_sga=FALSE.
#[test]
fn without_pre_paging_no_log_in_waits() {
    let played = Played::named("web-farm");
    let init = "/u01/app/oracle/product/11.2.0.3/dbhome_1/dbs/initMETA.ora";
    played.host.change(init, |text| text.replace("pre_page_sga=TRUE", "pre_page_sga=FALSE"));
    let checked = played.check();
    assert!(!checked.codes().contains(&"HW104"), "{:?}", checked.codes());
    let size = played.run("size", &["--format", "json"]).json();
    for row in size["forecast"].as_array().unwrap() {
        assert!(row["login_seconds"].is_null(), "{row:#}");
    }
}

/// "I thought about shared servers, to force the 625 through 12": they are what the kernel sees,
/// and are counted.
#[test]
fn shared_servers_are_the_sessions_that_the_kernel_has() {
    let mut estate = hugewise_testkit::oracle_fixtures::catalog::find_fixture("web-farm").unwrap();
    let database = &mut estate.databases[0];
    (database.sessions, database.shared_servers, database.clients) = (0, 12, Vec::new());
    let played = Played::of(estate);
    let checked = played.check();
    assert_eq!(checked.instance("META")["sessions"], 12);
    assert!(!checked.codes().contains(&"HW103"), "{:?}", checked.codes());
}

/// What it advises is found in its own page, for those who meet it.
#[test]
fn the_rules_page_tells_of_it() {
    let page = one_line(&hugewise(&["rules", "HW104"]).out);
    for word in ["pre_page_sga=FALSE", "11.2", "12.1", "huge pages"] {
        assert!(page.contains(word), "{word}: {page}");
    }
}
