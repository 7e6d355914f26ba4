//! A Java heap of at most 600 MiB on transparent huge pages, in a unit whose limit is 512 MiB,
//! grows until the kernel ends it.

use super::{Story, finding, incident, instance, says};

#[test]
fn a_heap_that_grows_into_the_limit_of_its_unit_is_told_with_its_log() {
    let story = Story::named("jvm");
    // systemd's word, and the kernel's: half of the machine's 1.4 GiB was free when it was killed.
    says(&story.notes, &["app is failed: oom-kill", "AnonHugePages:    464896 kB"]);

    let report = story.investigation();
    let incident = incident(&report, "cgroup-limit");
    assert_eq!(incident["confidence"], "high", "the kernel says itself whose limit it was");
    let summary = incident["summary"].as_str().unwrap();
    says(
        summary,
        &[
            "the kernel killed java (pid 467, 509.2 MiB private",
            "/system.slice/app.service had reached its memory limit",
        ],
    );
    assert!(!summary.contains("as it seems"), "{summary}");
    assert_eq!(report["incidents"].as_array().unwrap().len(), 1);
    // 264 and 528 MB are what the JVM wrote of its heap.
    says(&story.told(), &["a JVM started (G1)", "a JVM's heap grew from 66 MB to 132 MB"]);
    says(&incident["next"].to_string(), &["MemoryMax"]);
}

#[test]
fn before_it_happens_the_heap_is_no_matter_of_pools() {
    let before = Story::named("jvm").check("before");
    assert_eq!(instance(&before, "jvm")["setting"], "UseLargePages=false (default)");
    assert_eq!(finding(&before, "HW403").unwrap()["level"], "info");
}
