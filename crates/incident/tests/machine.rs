//! What a real host left behind: a virtual machine with 1 GiB whose memory went into page tables, and the same machine
//! with the same sessions on huge pages.
//!
//! `cargo xtask incident --keep` makes such archives; these were written by sysstat 12.6.1's sadc every second, vmstat and
//! a loop over /proc/meminfo on Debian's kernel 6.1.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};

use hugewise_incident::{Confidence, Incident, Investigation, Kind, Options, Verdict, investigate};

fn archives(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/incident").join(of)
}

fn found(paths: &[PathBuf]) -> Investigation {
    investigate(paths, &Options::default(), &|_| {}).expect("archives that are read")
}

fn incidents(investigation: &Investigation) -> Vec<&Incident> {
    investigation.hosts.iter().flat_map(|host| &host.incidents).collect()
}

#[test]
fn a_storm_over_page_tables_is_named() {
    let investigation = found(&[archives("base")]);
    let [incident] = incidents(&investigation)[..] else { panic!("{:#?}", incidents(&investigation)) };
    assert_eq!((incident.verdict, incident.confidence), (Verdict::ReclaimByPageTables, Confidence::Medium));
    let kinds: Vec<_> = incident.signatures.iter().map(|signature| signature.kind).collect();
    assert!(kinds.contains(&Kind::Reclaim) && kinds.contains(&Kind::PageTables), "{kinds:?}");
}

#[test]
fn the_collector_of_sysstat_alone_is_enough() {
    let investigation = found(&[archives("base").join("sa.xz")]);
    let verdicts: Vec<_> = incidents(&investigation).iter().map(|incident| incident.verdict).collect();
    assert_eq!(verdicts, [Verdict::ReclaimByPageTables]);
}

#[test]
fn the_same_sessions_on_huge_pages_are_no_incident() {
    for paths in [vec![archives("huge")], vec![archives("huge").join("sa.xz")]] {
        let investigation = found(&paths);
        assert!(incidents(&investigation).is_empty(), "{:#?}", incidents(&investigation));
        // It was looked at, and not passed over.
        assert!(investigation.sources.iter().map(|source| source.samples).sum::<usize>() > 100);
    }
}
