//! PostgreSQL with huge_pages=try on a pool that was set by hand: on huge pages until the reboot,
//! on 4 KiB pages behind it.

use serde_json::json;

use super::{Story, finding, incident, instance, says};

#[test]
fn a_pool_set_by_hand_is_foretold_to_go_with_the_reboot() {
    let before = Story::named("postgresql").check("before");
    let moments = &instance(&before, "postgresql")["moments"];
    assert_eq!(
        (&moments["now"]["state"], &moments["reboot"]["state"]),
        (&json!("all"), &json!("none"))
    );
    let words = |code| finding(&before, code).unwrap()["summary"].as_str().unwrap();
    says(
        words("HW601"),
        &["the next boot brings none of the 220 pages of 2 MiB: no file sets any"],
    );
    says(
        words("HW603"),
        &["postgresql 15/main may get no huge pages at the next boot: needs 220 pages"],
    );
}

#[test]
fn a_pool_that_was_lost_with_the_reboot_is_told_with_what_brings_it_back() {
    let story = Story::named("postgresql");
    // The kernel's words, of the postmaster's mappings and of all page tables, before the reboot
    // and behind it.
    says(
        &story.notes,
        &["huge 450560 kB, base 88 kB", "huge 0 kB, base 449184 kB", "PageTables:       109100 kB"],
    );

    let report = story.investigation();
    let incident = incident(&report, "huge-pages-lost");
    assert_eq!(incident["confidence"], "high");
    let summary = incident["summary"].as_str().unwrap();
    says(
        summary,
        &["the pool of huge pages was 440.0 MiB before the restart; nothing was left of it \
                 afterwards"],
    );
    // 440 MiB are 220 pages of 2 MiB, which held it.
    says(
        &incident["next"].to_string(),
        &["set the pool of 2 MiB pages to 220 (440.0 MiB), now and at each boot"],
    );

    let after = story.check("worst");
    let words = |code| finding(&after, code).unwrap()["summary"].as_str().unwrap();
    says(
        words("HW401"),
        &["silently went without, because huge_pages=try allows it: 438.6 MiB on 4 KiB pages"],
    );
    says(words("HW101"), &["page tables take 106.6 MiB, 5.4 % of memory"]);
}
