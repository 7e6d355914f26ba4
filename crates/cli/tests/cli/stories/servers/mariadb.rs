//! A pool of 340 pages holds MariaDB wholly, until PostgreSQL takes 71 of them while MariaDB is
//! down.

use super::{Story, finding, instance, says};

#[test]
fn a_server_that_came_back_to_a_pool_that_another_uses_is_told() {
    let story = Story::named("mariadb");
    // The kernel's word, of the server's own mappings: 661,504 kB on pages of 2 MiB before, 235,520
    // kB after.
    says(&story.notes, &["MariaDB: huge 661504 kB", "MariaDB: huge 235520 kB"]);
    let before = story.check("before");
    assert_eq!(instance(&before, "mariadb")["moments"]["now"]["state"], "all");

    // While it is down, PostgreSQL holds its part; what comes of MariaDB's start is seen by the
    // mappings.
    let after = story.check("worst");
    assert_eq!(instance(&after, "postgresql")["moments"]["now"]["state"], "all");
    assert_eq!(instance(&after, "mariadb")["moments"]["now"]["state"], "partly");
    let summary = finding(&after, "HW401").unwrap()["summary"].as_str().unwrap();
    says(
        summary,
        &["asked for huge pages and silently went without, because large_pages=ON allows it: \
                 384.0 MiB on 4 KiB pages"],
    );
    // 235,520 kB are 230 MiB.
    says(
        finding(&after, "HW203").unwrap()["summary"].as_str().unwrap(),
        &["has 230.0 MiB of 614.0 MiB on huge pages"],
    );
    says(
        &story.told(),
        &["340 huge pages of 2 MiB, 332 free", "mariadb 3306 614.0 MiB", "PostgreSQL started"],
    );
}
