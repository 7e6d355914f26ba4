//! "_realfree_heap_pagesize_hint - Assessing the impact on Solaris and Linux" (dsstos.blogspot.com,
//! 2008): larger pieces of private memory, which on Linux are no larger pages.

use crate::stories::played::{Played, one_line};
use crate::support::hugewise;

/// Both names, of 10.2 and of 12.1, and what the parameter does on Linux.
#[test]
fn what_it_does_on_linux_is_explained_and_it_is_said_to_be_hidden() {
    for name in ["_realfree_heap_pagesize_hint", "_realfree_heap_pagesize"] {
        let page = one_line(&hugewise(&["rules", name]).out);
        for word in [
            "hidden parameter",
            "gives no huge pages on Linux",
            "never comes from the pool",
            "fewer system calls",
            "about 1 %",
            "Oracle Support",
        ] {
            assert!(page.contains(word), "{name}: {word}: {page}");
        }
    }
}

/// A host that sets it is told so.
#[test]
fn a_warehouse_that_sets_it_hopes_for_nothing_from_the_pool() {
    let played = Played::named("warehouse");
    let checked = played.check();
    let words = checked.words("HW804");
    assert!(
        words.contains("_realfree_heap_pagesize_hint=4194304") && words.contains("hidden"),
        "{words}"
    );
    assert!(words.contains("no huge pages"), "{words}");
    assert_eq!(checked.finding("HW804")["level"], "info");
    // Its sorts are private: the pool is sized for the SGA of 2 GiB and nothing else.
    let size = played.run("size", &["--format", "json"]).json();
    assert_eq!(size["instances"][0]["demand_pages"], 1024);
    // Four sessions of 1.1 GB each count beside it.
    let held = size["private_memory"][0]["held_bytes"].as_u64().unwrap();
    assert!((4_u64 << 30..5 << 30).contains(&held), "{held}");
}

/// Without it nothing is said.
#[test]
fn a_host_that_does_not_set_it_hears_nothing_of_it() {
    assert!(!Played::named("small").check().codes().contains(&"HW804"));
}

/// 4030: private memory that is not there. What sessions hold and what they may come to stands
/// beside the pool.
#[test]
fn sorts_that_are_too_large_are_seen_before_they_fail() {
    let page = one_line(&hugewise(&["rules", "ORA-04030"]).out);
    assert!(page.contains("max_map_count") || page.contains("PGA"), "{page}");
}
