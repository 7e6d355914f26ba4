use base64::Engine;
use hugewise_investigate::Investigation;
use sha2::Digest;

use super::render_host_report_page;
use crate::samples::{self, Sample};
use crate::testing::sample_investigations;

fn shown(sample: &Sample, archives: Option<&Investigation>) -> String {
    let mut shown = String::new();
    sample.with_whole_report(archives, |report| shown = render_host_report_page(report));
    shown
}

/// What stands between two texts, each time.
fn between<'a>(text: &'a str, before: &'a str, after: &'a str) -> Vec<&'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.split(after).next()).collect()
}

#[test]
fn every_section_is_in_the_contents_and_every_link_leads_somewhere_on_the_page() {
    let page = shown(&samples::prod(), Some(&sample_investigations::storm_investigation()));
    let contents = between(&page, "<nav class=\"contents\"", "</nav>").concat();
    let listed = between(&contents, "href=\"#", "\"");
    let there = [
        "cases",
        "moments",
        "target",
        "plan",
        "sizing",
        "what-if",
        "memory",
        "incidents",
        "undecided",
        "rules",
    ];
    assert_eq!(listed, there);
    for link in between(&page, "href=\"", "\"") {
        let id = link.strip_prefix('#').expect("nothing leads out of the page");
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    let mut ids = between(&page, " id=\"", "\"");
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "an id stands twice");
}

#[test]
fn it_is_dated_and_has_its_version_and_needs_nothing_from_elsewhere() {
    let page = shown(&samples::prod(), None);
    for words in [
        "<time datetime=\"2023-11-14T22:13:20Z\">",
        concat!("hugewise ", env!("CARGO_PKG_VERSION")),
        "default-src 'none'",
    ] {
        assert!(page.contains(words), "{words}");
    }
    for outside in [" src=", "@import", "url(", "<link", "fetch("] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn all_of_it_stands_there_without_its_script() {
    let page = shown(&samples::prod(), Some(&sample_investigations::storm_investigation()));
    let (before, rest) = page.split_once("<script>").unwrap();
    let (script, _) = rest.split_once("</script>").unwrap();
    let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(script));
    assert!(
        page.contains(&format!("script-src &apos;sha256-{hash}&apos;"))
            || page.contains(&format!("script-src 'sha256-{hash}'"))
    );
    // Each stop of the slider, the changed lines of the plan, a step by hand, a rule, an incident.
    assert_eq!(before.matches("<tr data-says=\"").count(), 3);
    for words in [
        "1,000 sessions: huge pages ",
        "hugepages=1",
        "systemctl restart postgresql",
        "How to fix it",
        "class=\"incident\"",
    ] {
        assert!(before.contains(words), "{words}");
    }
    // What only works with the script is hidden until it runs.
    assert_eq!(
        before.matches("<button type=\"button\" hidden").count()
            + before.matches("data-do=").count(),
        before.matches("<button").count()
    );
    assert!(before.contains("<div class=\"slider\" hidden>"), "{before}");
}

#[test]
fn the_parts_of_a_stop_are_shares_of_the_widest() {
    let page = shown(&samples::prod(), None);
    for parts in between(&page, "data-parts=\"", "\"") {
        let parts: Vec<f64> = parts.split(' ').map(|part| part.parse().unwrap()).collect();
        assert_eq!(parts.len(), 8);
        assert!(parts.iter().sum::<f64>() <= 100.05, "{parts:?}");
        // 20,000 pages and more of 2 MiB on a host of 128 GiB.
        assert!(parts[0] > 20.0, "{parts:?}");
    }
}

#[test]
fn a_host_without_servers_or_a_plan_says_why() {
    let page = shown(&samples::empty(), None);
    assert!(page.contains("There is no plan</span>: the host is half changed."), "{page}");
    assert!(page.contains("Nothing is sized</span>: nothing to size"), "{page}");
    assert!(!page.contains("id=\"what-if\""));
}

#[test]
fn hostile_words_stay_words() {
    let page = shown(&samples::hostile(), Some(&sample_investigations::hostile_investigation()));
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (1, 1));
    assert!(!page.contains("<img") && !page.contains('\u{1b}') && !page.contains('\u{202e}'));
    assert!(page.matches("&lt;img").count() > 10);
}

#[test]
fn a_plan_for_elsewhere_says_so_and_offers_nothing_to_run_here() {
    let mut sample = samples::prod();
    assert!(shown(&sample, None).contains("sudo hugewise apply"));
    sample.host.confined = Some("the root is that of a chroot".into());
    let page = shown(&sample, None);
    assert!(
        page.contains(
            "not here</span> hugewise runs in a container or chroot: the root is that of a chroot"
        ),
        "{page}"
    );
    assert!(!page.contains("sudo hugewise apply"));
}
