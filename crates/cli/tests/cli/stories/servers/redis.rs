//! A Redis of 371 MB saves itself on a machine of 721 MiB while clients write, with transparent
//! huge pages off and on.

use super::{Story, finding, incident, says};

#[test]
fn a_save_that_takes_the_last_memory_is_told_with_redis_log() {
    let story = Story::named("redis");
    // Redis's own count of what it copied, without and with transparent huge pages, and the
    // kernel's of how many were left of them.
    says(&story.notes, &["rdb_last_cow_size:59174912", "rdb_last_cow_size:58925056"]);
    says(&story.notes, &["AnonHugePages:    356352 kB", "AnonHugePages:     18432 kB"]);

    let report = story.investigation();
    let incident = incident(&report, "reclaim-storm");
    // The save began at 13:17:45 and was over at 13:18:14; memory was short to its end and behind
    // it.
    let times = (incident["from"].as_str().unwrap(), incident["to"].as_str().unwrap());
    assert!(times.0 < "2026-11-25T13:18:40" && times.1 > "2026-11-25T13:17:45", "{times:?}");
    says(
        &story.told(),
        &[
            "Redis forked to save its data (BGSAVE), 3 times",
            "Redis copied 56 MB of pages that were written while it saved, 2 times",
        ],
    );
    says(&incident["next"].to_string(), &["which programs have the memory"]);
}

#[test]
fn the_advice_is_given_before() {
    let before = Story::named("redis").check("before");
    let finding = finding(&before, "HW501").unwrap();
    assert_eq!(finding["level"], "warn");
    says(
        finding["summary"].as_str().unwrap(),
        &["THP is always; for redis 6379 it should be madvise or never"],
    );
}
