//! What a real host left behind: a virtual machine with 1 GiB whose memory went into page tables,
//! and the same machine with the same sessions on huge pages.
//!
//! `cargo xtask incident --keep` makes such archives; these were written by sysstat 12.6.1's sadc
//! every second, vmstat and a loop over /proc/meminfo on Debian's kernel 6.1.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use hugewise_investigate::{
    Confidence, Incident, IncidentVerdict, Investigation, Metric, Options, Series, SignatureKind,
    SourceFormat, investigate, investigate::with_rows,
};

fn archives(text: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/incident").join(text)
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
    let [incident] = incidents(&investigation)[..] else {
        panic!("{:#?}", incidents(&investigation))
    };
    assert_eq!(
        (incident.verdict, incident.confidence),
        (IncidentVerdict::ReclaimByPageTables, Confidence::Medium)
    );
    let kinds: Vec<_> = incident.signatures.iter().map(|signature| signature.kind).collect();
    assert!(
        kinds.contains(&SignatureKind::Reclaim) && kinds.contains(&SignatureKind::PageTables),
        "{kinds:?}"
    );
}

#[test]
fn the_collector_of_sysstat_alone_is_enough() {
    let investigation = found(&[archives("base").join("sa.xz")]);
    let verdicts: Vec<_> =
        incidents(&investigation).iter().map(|incident| incident.verdict).collect();
    assert_eq!(verdicts, [IncidentVerdict::ReclaimByPageTables]);
}

/// What nothing is judged by is not decoded where no series is asked for.
#[test]
fn the_answer_is_the_same_with_all_metrics_and_with_those_that_are_judged() {
    let told = |investigation: &Investigation| {
        let hosts = investigation.hosts.iter();
        hosts
            .map(|host| format!("{:#?}", (&host.incidents, &host.signatures, &host.unknown)))
            .collect::<Vec<_>>()
    };
    for text in ["base", "huge", "busy"] {
        let paths = [archives(text)];
        let seen = Mutex::new(false);
        let rows = Mutex::new(|_: Option<&str>, all: &[Series]| {
            let more = |series: &Series| series.column(Metric::ContextSwitches).is_some();
            *seen.lock().unwrap() |= all.iter().any(more);
        });
        let all = with_rows(&paths, &Options::default(), &|_| {}, &rows).unwrap();
        assert!(*seen.lock().unwrap(), "{text}: nothing was decoded that could have been left out");
        let judged = found(&paths);
        let sar = |series: &&Series| series.format == SourceFormat::SYSSTAT;
        let left = judged.hosts.iter().flat_map(|host| &host.series).filter(sar);
        assert!(left.clone().count() > 0);
        assert!(left.flat_map(Series::metrics).all(|metric| !metric.is_only_told()), "{text}");
        assert_eq!(told(&judged), told(&all), "{text}");
    }
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

/// A machine at work, seen by sadc every 10 s, by vmstat and a loop over the kernel's files every
/// second: a backup of 6 GB and of /usr, a sort of 20 million lines, a batch of three programs, a
/// read of 60,000 files, and compilers beside all of them.
#[test]
fn a_machine_that_is_busy_is_no_incident() {
    for paths in ["", "sa.xz", "vmstat.log.xz", "kernel.log.xz"] {
        let investigation = found(&[archives("busy").join(paths)]);
        assert!(incidents(&investigation).is_empty(), "{paths}: {:#?}", incidents(&investigation));
        assert!(investigation.sources.iter().map(|source| source.samples).sum::<usize>() > 100);
    }
}

/// Troubles that were made on the same machine, with two processors and compilers at work: six
/// loops around `/bin/true` from 07:40:05 to 07:41:20, forty programs that compute from 07:42:50 to
/// 07:45:01, and a program that was killed three times at its cgroup's limit from 07:49:20 to
/// 07:49:37. Of each collector, what it can tell.
#[test]
fn troubles_that_were_made_are_each_named_in_their_time() {
    let (forks, programs, killed) = (
        (IncidentVerdict::ForkStorm, "07:40:05", "07:41:20"),
        (IncidentVerdict::UserCpu, "07:42:50", "07:45:01"),
        (IncidentVerdict::CgroupLimit, "07:49:20", "07:49:37"),
    );
    for (file, expected) in [
        ("sa.xz", &[forks, programs][..]),
        // vmstat does not tell how many processors there are, and as many tasks are few for many.
        ("vmstat.log.xz", &[]),
        // atop tells forks in a line that is not read.
        ("atop.txt.xz", &[programs, killed]),
        ("kernel.log.xz", &[killed]),
        ("", &[forks, programs, killed]),
    ] {
        let investigation = found(&[archives("troubles").join(file)]);
        let mut found: Vec<&Incident> = incidents(&investigation);
        found.sort_by_key(|incident| incident.from);
        let verdicts: Vec<IncidentVerdict> =
            found.iter().map(|incident| incident.verdict).collect();
        let wanted: Vec<IncidentVerdict> = expected.iter().map(|(verdict, ..)| *verdict).collect();
        if file.is_empty() {
            // Loops and files without the host's name are hosts of their own here.
            assert!(wanted.iter().all(|verdict| verdicts.contains(verdict)), "{verdicts:?}");
            assert!(verdicts.iter().all(|verdict| wanted.contains(verdict)), "{verdicts:?}");
            continue;
        }
        assert_eq!(verdicts, wanted, "{file}");
        for (incident, (_, from, to)) in found.iter().zip(expected) {
            // 2026-11-25, in milliseconds.
            let at = |time: &str| {
                let parts: Vec<i64> = time.split(':').map(|part| part.parse().unwrap()).collect();
                1_795_564_800_000 + 1000 * (parts[0] * 3600 + parts[1] * 60 + parts[2])
            };
            assert!(
                incident.from.0 >= at(from) - 20_000 && incident.from.0 <= at(to),
                "{file} {}",
                incident.summary
            );
            // The load of a minute, which atop has, is behind.
            assert!(
                incident.to.0 >= at(from) && incident.to.0 <= at(to) + 60_000,
                "{file} {}",
                incident.summary
            );
        }
    }
}

/// Thirty programs that read a file past the cache, at twelve requests a second for all of them,
/// from 08:39:09 to 08:40:53, beside compilers: processors had no time to wait, and only the tasks
/// that were blocked tell.
#[test]
fn thirty_readers_at_twelve_requests_a_second_are_a_disk_that_stalls() {
    for file in ["sa.xz", "vmstat.log.xz"] {
        let investigation = found(&[archives("disk").join(file)]);
        let [incident] = incidents(&investigation)[..] else {
            panic!("{file}: {:#?}", incidents(&investigation))
        };
        assert_eq!(incident.verdict, IncidentVerdict::DiskStall, "{file}");
        assert!(
            incident.summary.contains("up to 31 tasks waited for a disk"),
            "{}",
            incident.summary
        );
        // 2026-11-25T08:39:09Z, to the end of the interval before the last.
        let begun = 1_795_595_949_000;
        assert!((begun - 11_000..begun + 11_000).contains(&incident.from.0), "{}", incident.from.0);
        assert!((begun + 80_000..begun + 115_000).contains(&incident.to.0), "{}", incident.to.0);
    }
}
