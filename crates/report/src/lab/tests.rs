use hugewise_diagnose::forecast::of_forked;
use hugewise_lab::experiment::{Outline, PlannedVariant};
use hugewise_lab::results::Better;
use hugewise_model::{Engine, PageSize};

use super::*;

pub(crate) fn run(
    metric: &str,
    unit: &str,
    pages: Variant,
    sessions: Option<u32>,
    samples: &[f64],
) -> MetricRun {
    let other_json = serde_json::json!({
        "experiment": "page-tables", "engine": "standin", "pages": pages, "sessions": sessions,
        "segment_bytes": 1_u64 << 30, "metric": metric, "case": null, "unit": unit, "better": Better::Lower,
        "samples": samples, "median": samples[samples.len() / 2],
        "min": samples.iter().copied().fold(f64::INFINITY, f64::min),
        "max": samples.iter().copied().fold(0.0, f64::max),
    });
    serde_json::from_value(other_json).unwrap()
}

fn sample_plan() -> Outline {
    let planned = |pages, left_out: Option<&str>| PlannedVariant {
        pages,
        memory_bytes: 1 << 30,
        pool_bytes: 1 << 30,
        processes: 100,
        left_out: left_out.map(str::to_owned),
    };
    Outline {
        experiment: "page-tables".into(),
        engine: "standin".into(),
        variants: vec![
            planned(Variant::Base, None),
            planned(Variant::MIB_2, None),
            planned(Variant::GIB_1, Some("this kernel has no 1 GiB pages")),
        ],
        rounds: 3,
        warm_ups: 1,
        seed: 1,
        seconds: 90.0,
        peak_bytes: 3 << 30,
        available_bytes: 20 << 30,
        floor_bytes: 1 << 30,
        changes: vec!["2m: grows the pool by 1.0 GiB".into()],
        refusal: None,
    }
}

fn sample_runs() -> Vec<MetricRun> {
    let mib = 1_048_576.0;
    vec![
        run("page_tables", "B", Variant::Base, Some(10), &[20.0 * mib, 21.0 * mib, 22.0 * mib]),
        run("page_tables", "B", Variant::Base, Some(100), &[205.0 * mib, 206.0 * mib, 207.0 * mib]),
        run("page_tables", "B", Variant::MIB_2, Some(10), &[0.5 * mib, 0.6 * mib, 0.7 * mib]),
        run("page_tables", "B", Variant::MIB_2, Some(100), &[5.5 * mib, 5.6 * mib, 5.7 * mib]),
        run("attach_time", "ns", Variant::Base, None, &[2500.0]),
        run("attach_time", "ns", Variant::MIB_2, None, &[150.0]),
    ]
}

pub(crate) fn sample_outcome(hostile: bool) -> ExperimentOutcome {
    let note = if hostile {
        "\u{1b}[2J<script>alert(1)</script>\u{202e}"
    } else {
        "1g is left out: no 1 GiB pages"
    };
    let ratio = |pages, sessions, median: f64| Ratio {
        experiment: "page-tables".into(),
        metric: "page_tables".into(),
        case: None,
        sessions: Some(sessions),
        segment_bytes: Some(1 << 30),
        pages,
        against: Variant::Base,
        median,
        min: median - 1.0,
        max: median + 1.0,
    };
    ExperimentOutcome {
        plan: sample_plan(),
        runs: sample_runs(),
        ratios: vec![ratio(Variant::MIB_2, 10, 35.0), ratio(Variant::MIB_2, 100, 36.8)],
        notes: vec![note.into()],
        stopped: hostile.then(|| "interrupted".into()),
        seconds: 88.0,
        lowest_available_bytes: Some(17 << 30),
    }
}

/// What is forecast of the runs of [`outcome`], for a server whose processes are forked.
pub(crate) fn forecast_sample_runs(outcome: &ExperimentOutcome) -> Vec<LabForecast> {
    let runs = outcome.runs.iter().filter(|run| run.metric == "page_tables");
    let forecast = |run: &MetricRun| {
        let page = if run.pages == Variant::Base { PageSize::KIB_4 } else { PageSize::MIB_2 };
        let (sessions, segment) = (run.sessions.unwrap(), Bytes(run.segment_bytes.unwrap()));
        let page_tables = of_forked(Engine::Other, sessions.into(), segment, page, PageSize::KIB_4);
        let measured = Bytes(format!("{:.0}", run.median).parse().unwrap());
        LabForecast { pages: run.pages, sessions, segment, page_tables, measured }
    };
    runs.map(forecast).collect()
}

#[test]
fn what_was_measured_is_off_the_forecast_by_so_much() {
    // 513 tables of 4 KiB for 1 GiB, and 54 KiB that every process has: a hundred times.
    let off = forecast_sample_runs(&sample_outcome(false))[1].off_percent().unwrap();
    assert!((off - (206.0 * 1024.0 / (100.0 * 2106.0) - 1.0) * 100.0).abs() < 1e-9, "{off}");
}

#[test]
fn runs_of_one_metric_stand_together() {
    let outcome = sample_outcome(false);
    let groups = group_runs(&outcome);
    assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [4, 2]);
    assert_eq!(
        groups[0].iter().map(|run| run.sessions).collect::<Vec<_>>(),
        [Some(10), Some(10), Some(100), Some(100)]
    );
}
