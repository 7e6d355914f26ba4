//! An experiment of the lab: what the renderers show.

use hugewise_lab::experiment::Outcome;
use hugewise_lab::results::{Ratio, Run};
use hugewise_lab::variant::Variant;
use hugewise_model::{Bytes, Host};

use crate::chart::Unit;

/// What an experiment found, on which host, beside what was forecast.
pub struct LabReport<'a> {
    /// The host.
    pub host: &'a Host,
    /// What was found.
    pub outcome: &'a Outcome,
    /// What `hugewise size` would have said of the same; empty for experiments that nothing is forecast of.
    pub forecasts: &'a [Forecast],
}

/// A forecast next to what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// The pages.
    pub pages: Variant,
    /// The number of sessions.
    pub sessions: u32,
    /// On a segment of this size.
    pub segment: Bytes,
    /// Page tables of all of them.
    pub page_tables: Bytes,
    /// What was measured of the same: the median.
    pub measured: Bytes,
}

impl Forecast {
    /// How far the measured amount is from the forecast, in per cent of it.
    pub fn off_percent(&self) -> Option<f64> {
        Some((self.measured.part_of(self.page_tables)? - 1.0) * 100.0)
    }
}

/// The ratio that belongs to a run.
pub(crate) fn ratio_of<'a>(outcome: &'a Outcome, run: &Run) -> Option<&'a Ratio> {
    outcome.ratios.iter().find(|ratio| {
        ratio.pages == run.pages
            && ratio.metric == run.metric
            && ratio.case == run.case
            && ratio.sessions == run.sessions
            && ratio.segment_bytes == run.segment_bytes
    })
}

/// A run's value in the unit in which it is shown, and that unit.
pub(crate) fn shown(run: &Run, value: f64) -> (f64, Unit) {
    match run.unit.as_str() {
        "s" => (value, Unit::Seconds),
        "ns" => (value / 1e9, Unit::Seconds),
        "B" => (value, Unit::Bytes),
        "B/s" => (value, Unit::BytesPerSecond),
        "1/s" => (value, Unit::PerSecond),
        "%" => (value, Unit::Percent),
        _ => (value, Unit::Count),
    }
}

/// The value for people.
pub(crate) fn value(run: &Run, value: f64) -> String {
    let (value, unit) = shown(run, value);
    unit.show(value)
}

/// `1.23`, `18.4`, `196`.
pub(crate) fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 99.95 => format!("{ratio:.0}"),
        ratio if ratio >= 9.995 => format!("{ratio:.1}"),
        ratio => format!("{ratio:.2}"),
    }
}

/// `page_tables` as people say it.
pub(crate) fn name(metric: &str) -> String {
    metric.replace('_', " ")
}

/// Runs that belong beside each other: the same metric under the same case, in the order in which they were found.
pub(crate) fn groups(outcome: &Outcome) -> Vec<Vec<&Run>> {
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for run in &outcome.runs {
        let same = |group: &&mut Vec<&Run>| {
            group.first().is_some_and(|first| first.metric == run.metric && first.case == run.case)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    for group in &mut groups {
        // A stable sort: pages stay in the order of the variants.
        group.sort_by_key(|run| (run.segment_bytes, run.sessions));
    }
    groups
}

#[cfg(test)]
pub(crate) mod tests {
    use hugewise_advice::forecast::of_forked;
    use hugewise_lab::experiment::{Outline, Planned};
    use hugewise_lab::results::Better;
    use hugewise_model::{Engine, PageSize};

    use super::*;

    pub(crate) fn run(metric: &str, unit: &str, pages: Variant, sessions: Option<u32>, samples: &[f64]) -> Run {
        let of = serde_json::json!({
            "experiment": "page-tables", "engine": "standin", "pages": pages, "sessions": sessions,
            "segment_bytes": 1_u64 << 30, "metric": metric, "case": null, "unit": unit, "better": Better::Lower,
            "samples": samples, "median": samples[samples.len() / 2],
            "min": samples.iter().copied().fold(f64::INFINITY, f64::min),
            "max": samples.iter().copied().fold(0.0, f64::max),
        });
        serde_json::from_value(of).unwrap()
    }

    pub(crate) fn outcome(hostile: bool) -> Outcome {
        let note =
            if hostile { "\u{1b}[2J<script>alert(1)</script>\u{202e}" } else { "1g is left out: no 1 GiB pages" };
        let mib = 1_048_576.0;
        let runs = vec![
            run("page_tables", "B", Variant::Base, Some(10), &[20.0 * mib, 21.0 * mib, 22.0 * mib]),
            run("page_tables", "B", Variant::Base, Some(100), &[205.0 * mib, 206.0 * mib, 207.0 * mib]),
            run("page_tables", "B", Variant::MIB_2, Some(10), &[0.5 * mib, 0.6 * mib, 0.7 * mib]),
            run("page_tables", "B", Variant::MIB_2, Some(100), &[5.5 * mib, 5.6 * mib, 5.7 * mib]),
            run("attach_time", "ns", Variant::Base, None, &[2500.0]),
            run("attach_time", "ns", Variant::MIB_2, None, &[150.0]),
        ];
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
        let planned = |pages, left_out: Option<&str>| Planned {
            pages,
            memory_bytes: 1 << 30,
            pool_bytes: 1 << 30,
            processes: 100,
            left_out: left_out.map(str::to_owned),
        };
        Outcome {
            plan: Outline {
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
            },
            runs,
            ratios: vec![ratio(Variant::MIB_2, 10, 35.0), ratio(Variant::MIB_2, 100, 36.8)],
            notes: vec![note.into()],
            stopped: hostile.then(|| "interrupted".into()),
            seconds: 88.0,
            lowest_available_bytes: Some(17 << 30),
        }
    }

    /// What is forecast of the runs of [`outcome`], for a server whose processes are forked.
    pub(crate) fn forecasts(outcome: &Outcome) -> Vec<Forecast> {
        let runs = outcome.runs.iter().filter(|run| run.metric == "page_tables");
        let forecast = |run: &Run| {
            let page = if run.pages == Variant::Base { PageSize::KIB_4 } else { PageSize::MIB_2 };
            let (sessions, segment) = (run.sessions.unwrap(), Bytes(run.segment_bytes.unwrap()));
            let page_tables = of_forked(Engine::Other, sessions.into(), segment, page, PageSize::KIB_4);
            let measured = Bytes(format!("{:.0}", run.median).parse().unwrap());
            Forecast { pages: run.pages, sessions, segment, page_tables, measured }
        };
        runs.map(forecast).collect()
    }

    #[test]
    fn what_was_measured_is_off_the_forecast_by_so_much() {
        // 513 tables of 4 KiB for 1 GiB, and 54 KiB that every process has: a hundred times.
        let off = forecasts(&outcome(false))[1].off_percent().unwrap();
        assert!((off - (206.0 * 1024.0 / (100.0 * 2106.0) - 1.0) * 100.0).abs() < 1e-9, "{off}");
    }

    #[test]
    fn runs_of_one_metric_stand_together() {
        let outcome = outcome(false);
        let groups = groups(&outcome);
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [4, 2]);
        assert_eq!(
            groups[0].iter().map(|run| run.sessions).collect::<Vec<_>>(),
            [Some(10), Some(10), Some(100), Some(100)]
        );
    }
}
