//! Experiments on the running kernel, small: what they count comes out as the kernel's own rules
//! have it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hugewise_lab::budget::ResourceGauge;
use hugewise_lab::cancel::Cancel;
use hugewise_lab::experiment::{Experiment, ExperimentOutcome, Options, plan_experiment, run};
use hugewise_lab::experiments::logins::Logins;
use hugewise_lab::experiments::page_tables::PageTables;
use hugewise_lab::fake_server::{FakeServerSettings, PreTouch};
use hugewise_lab::guard;
use hugewise_lab::results::MetricRun;
use hugewise_lab::segment::SegmentSource;
use hugewise_lab::variant::Variant;
use hugewise_model::Bytes;
use hugewise_testkit::require;

fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_standin"))
}

fn done(experiment: &mut dyn Experiment, rounds: u32, cancel: &Cancel) -> ExperimentOutcome {
    let options = Options { rounds, warm_ups: 0, ..Options::default() };
    let planned = plan_experiment(experiment, &options, &ResourceGauge::new()).unwrap();
    assert_eq!(planned.refusal, None);
    run(experiment, &options, planned, cancel, &mut |_| {}).unwrap()
}

fn pool() -> String {
    std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages").unwrap()
}

fn runs_of<'a>(
    outcome: &'a ExperimentOutcome,
    pages: Variant,
    metric: &str,
    sessions: u32,
) -> Vec<&'a MetricRun> {
    let same = |run: &&MetricRun| {
        run.pages == pages && run.metric == metric && run.sessions == Some(sessions)
    };
    outcome.runs.iter().filter(same).collect()
}

#[test]
fn page_tables_grow_with_each_session_on_base_pages_alone() {
    let _alone = require!(guard::lock_host_for_test());
    let before = pool();
    let server = FakeServerSettings {
        pre_touch: PreTouch::Sessions,
        ..FakeServerSettings::new(Bytes::from_mib(256))
    };
    let variants = vec![Variant::Base, Variant::MIB_2];
    let mut experiment = PageTables { program: program(), ..PageTables::new(variants, server, 4) };
    let outcome = done(&mut experiment, 2, &Cancel::never());
    assert_eq!((&outcome.stopped, pool()), (&None, before));

    let each = |pages| runs_of(&outcome, pages, "session_page_tables", 4)[0].median;
    // 128 tables of 4 KiB for 256 MiB, and one of the level above for each edge of a gibibyte.
    let base = each(Variant::Base) - each(Variant::MIB_2);
    assert!((507_904.0..=540_672.0).contains(&base), "{base}");
    // Two rounds of four sessions each.
    assert_eq!(runs_of(&outcome, Variant::Base, "session_page_tables", 4)[0].samples.len(), 8);
    assert_eq!(runs_of(&outcome, Variant::Base, "page_tables", 4)[0].samples.len(), 2);
    let ratio = outcome.ratios.iter().find(|ratio| {
        ratio.metric == "session_page_tables"
            && ratio.pages == Variant::MIB_2
            && ratio.sessions == Some(4)
    });
    assert!(
        ratio.is_some_and(|ratio| ratio.median > 3.0 && ratio.against == Variant::Base),
        "{ratio:?}"
    );
}

#[test]
fn every_session_of_a_storm_is_timed_on_every_kind_of_page() {
    let _alone = require!(guard::lock_host_for_test());
    let before = pool();
    let mut experiment =
        Logins { program: program(), ..Logins::for_story(vec![Variant::Base, Variant::MIB_2]) };
    experiment.server = FakeServerSettings {
        kind: SegmentSource::Memfd,
        size: Bytes::from_mib(64),
        ..experiment.server
    };
    (experiment.sessions, experiment.paced) = (12, 5);
    let outcome = done(&mut experiment, 1, &Cancel::never());
    assert_eq!((&outcome.stopped, pool()), (&None, before));
    for pages in [Variant::Base, Variant::MIB_2] {
        for (count, case) in [(12, "at once"), (5, "one by one")] {
            let runs = runs_of(&outcome, pages, "login", count);
            assert_eq!(runs[0].samples.len(), usize::try_from(count).unwrap());
            assert_eq!(runs[0].case.as_deref(), Some(case));
            let at = |metric| runs_of(&outcome, pages, metric, count)[0].median;
            assert!(at("login_p50") <= at("login_p95") && at("login_p99") <= at("login_max"));
            assert!(at("login_max") <= at("wall") && at("login_p50") > 0.0);
        }
    }
}

#[test]
fn an_interrupt_ends_sessions_and_gives_the_pool_back() {
    let _alone = require!(guard::lock_host_for_test());
    let before = pool();
    let mut experiment = Logins { program: program(), ..Logins::for_story(vec![Variant::Base]) };
    experiment.server = FakeServerSettings { size: Bytes::from_mib(64), ..experiment.server };
    // An hour of logins.
    (experiment.sessions, experiment.paced, experiment.interval) =
        (4, 3600, Duration::from_secs(1));
    let cancel = Cancel::never();
    let stopper = std::thread::spawn({
        let cancel = cancel.clone();
        move || {
            std::thread::sleep(Duration::from_millis(700));
            cancel.stop("interrupted");
        }
    });
    let outcome = done(&mut experiment, 1, &cancel);
    stopper.join().unwrap();
    assert_eq!(outcome.stopped.as_deref(), Some("interrupted"));
    assert_eq!(pool(), before);
    let me = std::process::id();
    let children =
        std::fs::read_to_string(Path::new(&format!("/proc/{me}/task/{me}/children"))).unwrap();
    assert_eq!(children, "");
}
