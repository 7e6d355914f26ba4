//! The results of experiments: runs with their raw samples, and ratios between kinds of pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::variant::Variant;

/// Which direction of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Lower is better: times, memory, faults.
    Lower,
    /// Higher is better: rates, bandwidth, pages obtained.
    Higher,
}

/// One measurement of one metric of one variant.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricReading {
    /// The metric: `login`, `page_tables`.
    pub metric: &'static str,
    /// The unit of the values: `s`, `B`, `ns`, `B/s`, `1/s`, `1`.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// What else distinguishes it: `paced`, `64k extents`, `fragmented`.
    pub case: Option<String>,
    /// Number of sessions.
    pub sessions: Option<u32>,
    /// Size of the segment or working set.
    pub segment_bytes: Option<u64>,
    /// One or more values.
    pub values: Vec<f64>,
}

pub(crate) const ON_HUGE_PAGES: &str = "segment_on_huge_pages";

impl MetricReading {
    /// One value of a metric that is better the lower it is.
    pub fn lower_is_better(metric: &'static str, unit: &'static str, value: f64) -> Self {
        let values = vec![value];
        Self {
            metric,
            unit,
            better: Better::Lower,
            case: None,
            sessions: None,
            segment_bytes: None,
            values,
        }
    }

    pub(crate) fn higher_is_better(metric: &'static str, unit: &'static str, value: f64) -> Self {
        Self { better: Better::Higher, ..Self::lower_is_better(metric, unit, value) }
    }

    #[must_use]
    pub(crate) fn with_values(self, values: Vec<f64>) -> Self {
        Self { values, ..self }
    }

    /// Under this case.
    #[must_use]
    pub fn with_case(self, case: impl Into<String>) -> Self {
        Self { case: Some(case.into()), ..self }
    }

    /// With this many sessions.
    #[must_use]
    pub fn with_sessions(self, sessions: u32) -> Self {
        Self { sessions: Some(sessions), ..self }
    }

    #[must_use]
    pub(crate) fn with_segment(self, bytes: u64) -> Self {
        Self { segment_bytes: Some(bytes), ..self }
    }
}

/// One metric of one variant over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricRun {
    /// The experiment: `logins`.
    pub experiment: String,
    /// What ran it: `standin`, `postgresql`, `memory`.
    pub engine: String,
    /// The pages that the memory was on.
    pub pages: Variant,
    /// Sessions connected, if the experiment has sessions.
    pub sessions: Option<u32>,
    /// Size of the segment or working set in bytes, if there is one.
    pub segment_bytes: Option<u64>,
    /// What was measured.
    pub metric: String,
    /// What else distinguishes this run from others of the same metric.
    pub case: Option<String>,
    /// Unit of all values: `s`, `ns`, `B`, `B/s`, `1/s`, `1`.
    pub unit: String,
    /// Which way it is good.
    pub better: Better,
    /// Every value, in the order in which they were measured, warm-up left out.
    pub samples: Vec<f64>,
    /// The middle one of the samples, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    #[serde(skip)]
    pub(crate) rounds: Vec<usize>,
}

/// How many times better one kind of page did than another, on the same metric under the same
/// conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The experiment.
    pub experiment: String,
    /// The metric.
    pub metric: String,
    /// As in the runs that are compared.
    pub case: Option<String>,
    /// As in the runs that are compared.
    pub sessions: Option<u32>,
    /// As in the runs that are compared.
    pub segment_bytes: Option<u64>,
    /// The pages that did better by this factor,
    pub pages: Variant,
    /// than these.
    pub against: Variant,
    /// Ratio of the two medians: below 1 if `pages` did worse.
    pub median: f64,
    /// The smallest of the ratios of each round's medians.
    pub min: f64,
    /// The largest of them.
    pub max: f64,
}

#[derive(Debug, Default)]
pub(crate) struct RunCollector {
    runs: Vec<MetricRun>,
}

impl RunCollector {
    /// Adds the readings of one measurement, but for values that are no numbers.
    pub(crate) fn add(
        &mut self,
        experiment: &str,
        engine: &str,
        pages: Variant,
        readings: Vec<MetricReading>,
    ) {
        for reading in readings {
            let values: Vec<f64> =
                reading.values.iter().copied().filter(|value| value.is_finite()).collect();
            if values.is_empty() {
                continue;
            }
            let same = |run: &&mut MetricRun| {
                run.pages == pages
                    && run.metric == reading.metric
                    && run.case == reading.case
                    && run.sessions == reading.sessions
                    && run.segment_bytes == reading.segment_bytes
            };
            match self.runs.iter_mut().find(same) {
                Some(run) => {
                    run.rounds.push(values.len());
                    run.samples.extend(values);
                }
                None => self.runs.push(MetricRun {
                    experiment: experiment.to_owned(),
                    engine: engine.to_owned(),
                    pages,
                    sessions: reading.sessions,
                    segment_bytes: reading.segment_bytes,
                    metric: reading.metric.to_owned(),
                    case: reading.case,
                    unit: reading.unit.to_owned(),
                    better: reading.better,
                    rounds: vec![values.len()],
                    samples: values,
                    median: 0.0,
                    min: 0.0,
                    max: 0.0,
                }),
            }
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs in order of appearance, sorted by variant, and the ratios of each variant to the
    /// first one that has the same run.
    pub(crate) fn finish(mut self, variants: &[Variant]) -> (Vec<MetricRun>, Vec<Ratio>) {
        for run in &mut self.runs {
            run.median = median_value(&run.samples).unwrap_or(f64::NAN);
            run.min = run.samples.iter().copied().fold(f64::INFINITY, f64::min);
            run.max = run.samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        }
        let place = |run: &MetricRun| variants.iter().position(|variant| *variant == run.pages);
        self.runs.sort_by_key(place);
        let ratios = compute_ratios(&self.runs);
        (self.runs, ratios)
    }
}

fn compute_ratios(runs: &[MetricRun]) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for run in runs {
        let same = |other: &&MetricRun| {
            other.metric == run.metric
                && other.case == run.case
                && other.sessions == run.sessions
                && other.segment_bytes == run.segment_bytes
        };
        // The first of them is the baseline.
        let Some(against) = runs.iter().find(same).filter(|against| against.pages != run.pages)
        else {
            continue;
        };
        let Some(ratio) = gain_ratio(run.better, run.median, against.median) else { continue };
        let each: Vec<f64> = round_medians(run)
            .zip(round_medians(against))
            .filter_map(|(this, other)| gain_ratio(run.better, this, other))
            .collect();
        ratios.push(Ratio {
            experiment: run.experiment.clone(),
            metric: run.metric.clone(),
            case: run.case.clone(),
            sessions: run.sessions,
            segment_bytes: run.segment_bytes,
            pages: run.pages,
            against: against.pages,
            median: ratio,
            min: each.iter().copied().fold(ratio, f64::min),
            max: each.iter().copied().fold(ratio, f64::max),
        });
    }
    ratios
}

fn gain_ratio(better: Better, this: f64, other: f64) -> Option<f64> {
    let ratio = match better {
        Better::Lower => other / this,
        Better::Higher => this / other,
    };
    (ratio.is_finite() && ratio > 0.0).then_some(ratio)
}

fn round_medians(run: &MetricRun) -> impl Iterator<Item = f64> + '_ {
    let mut at = 0;
    run.rounds.iter().filter_map(move |count| {
        let values = run.samples.get(at..at + count);
        at += count;
        values.and_then(median_value)
    })
}

/// The middle value, or the mean of the two in the middle.
pub fn median_value(values: &[f64]) -> Option<f64> {
    let sorted = sort_values(values);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// The smallest value that `percent` of all values do not exceed (nearest rank).
pub(crate) fn percentile_value(values: &[f64], percent: u8) -> Option<f64> {
    let sorted = sort_values(values);
    let rank = (sorted.len() * usize::from(percent.min(100))).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

fn sort_values(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles_by_hand() {
        assert_eq!(median_value(&[]), None);
        assert_eq!(median_value(&[3.0]), Some(3.0));
        assert_eq!(median_value(&[9.0, 1.0, 4.0]), Some(4.0));
        assert_eq!(median_value(&[9.0, 1.0, 4.0, 5.0]), Some(4.5));
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile_value(&hundred, 50), Some(50.0));
        assert_eq!(percentile_value(&hundred, 99), Some(99.0));
        assert_eq!(percentile_value(&hundred, 100), Some(100.0));
        assert_eq!(percentile_value(&[7.0], 1), Some(7.0));
        assert_eq!(percentile_value(&[], 50), None);
    }

    #[test]
    fn a_ratio_says_how_many_times_better() {
        let mut all = RunCollector::default();
        let round = |all: &mut RunCollector, base: f64, huge: f64| {
            all.add(
                "logins",
                "standin",
                Variant::MIB_2,
                vec![MetricReading::lower_is_better("login", "s", huge)],
            );
            all.add(
                "logins",
                "standin",
                Variant::Base,
                vec![MetricReading::lower_is_better("login", "s", base)],
            );
            all.add(
                "logins",
                "standin",
                Variant::MIB_2,
                vec![MetricReading::higher_is_better("rate", "1/s", 1.0 / huge)],
            );
            all.add(
                "logins",
                "standin",
                Variant::Base,
                vec![MetricReading::higher_is_better("rate", "1/s", 1.0 / base)],
            );
        };
        round(&mut all, 2.0, 0.5);
        round(&mut all, 6.0, 0.5);
        round(&mut all, 3.0, 1.0);
        let (runs, ratios) = all.finish(&[Variant::Base, Variant::MIB_2]);
        assert_eq!(runs[0].pages, Variant::Base);
        assert_eq!((runs[0].median, runs[0].min, runs[0].max), (3.0, 2.0, 6.0));
        assert_eq!(runs[0].samples, [2.0, 6.0, 3.0]);
        // 3.0 against 0.5; round by round 4, 12 and 3. The rate says the same the other way round.
        assert_eq!(ratios.len(), 2);
        for ratio in &ratios {
            assert_eq!((ratio.pages, ratio.against), (Variant::MIB_2, Variant::Base));
            assert!(
                (ratio.median - 6.0).abs() < 1e-9 && (ratio.min - 3.0).abs() < 1e-9,
                "{ratio:?}"
            );
            assert!((ratio.max - 12.0).abs() < 1e-9, "{ratio:?}");
        }
    }

    #[test]
    fn nothing_is_compared_across_circumstances_or_with_zero() {
        let mut all = RunCollector::default();
        let reading = |value| MetricReading::lower_is_better("page_tables", "B", value);
        all.add(
            "page-tables",
            "standin",
            Variant::Base,
            vec![reading(5.0).with_sessions(1), reading(0.0).with_sessions(2)],
        );
        all.add(
            "page-tables",
            "standin",
            Variant::MIB_2,
            vec![reading(5.0).with_sessions(3), reading(4.0).with_sessions(2)],
        );
        all.add("page-tables", "standin", Variant::MIB_2, vec![reading(f64::NAN).with_sessions(4)]);
        let (runs, ratios) = all.finish(&[Variant::Base, Variant::MIB_2]);
        assert_eq!(runs.len(), 4);
        assert!(ratios.is_empty(), "{ratios:?}");
    }
}
