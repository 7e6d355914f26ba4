//! A series as signatures look at it: the pace of its rows, and what stands out in a column.

use std::ops::Range;

use crate::baseline::{Baseline, median_of};
use crate::page::BasePage;
use crate::series::{MarkKind, MetricColumn, SeriesSample};
use crate::{
    EvidenceBasis, Metric, Moment, Series, Signature, SignatureEvidence, SignatureKind,
    SignatureStrength,
};

/// Milliseconds of a start: distributions' services and a database are up within ten minutes.
const SETTLES: i64 = 10 * MINUTE;
/// Milliseconds before and after rows that they are compared with: a month is judged day by day.
const DAY: i64 = 24 * 60 * MINUTE;
/// Milliseconds.
pub(crate) const SECOND: i64 = 1000;
/// Milliseconds.
pub(crate) const MINUTE: i64 = 60 * SECOND;
/// Milliseconds that no reboot takes: large hosts test memory for a quarter of an hour.
pub(super) const SILENT: i64 = 20 * MINUTE;
/// Milliseconds of the slowest pace of a collector: a year.
const LONGEST: i64 = 365 * DAY;
/// Milliseconds between hits of one spike: a storm of minutes has calm seconds.
const BRIDGE: i64 = MINUTE;
/// A small part of a spike's height: a storm's first interval has a third of it and more.
const LITTLE: f64 = 0.25;
const USUAL: &str = "; usual here ";
/// Spreads above the median that stand out: none in 453 intervals of five quiet series.
pub(super) const OUTSTANDING: f64 = 6.0;

pub(crate) struct SeriesRows<'a> {
    pub(crate) series: &'a Series,
    /// The usual milliseconds between two rows; 0 for fewer than two.
    pub(crate) usual: i64,
    /// The page that its counters count.
    pub(crate) page: BasePage,
    /// Of the host or of the collector alone.
    restarts: Vec<Moment>,
    /// Of the host.
    boots: Vec<Moment>,
    /// Whether intervals reach back to the row before, unlike those of `vmstat 1 3` every 30 s.
    continuous: bool,
}

impl<'a> SeriesRows<'a> {
    /// `host` is the host's base page by other sources.
    pub(crate) fn new(series: &'a Series, host: BasePage) -> Self {
        let samples = series.samples();
        let pairs = || samples.iter().zip(samples.iter().skip(1));
        let mut between: Vec<f64> =
            pairs().map(|(one, next)| milliseconds_between(one.at, next.at) as f64).collect();
        let mut covered: Vec<f64> = pairs()
            .filter_map(|(one, next)| {
                Some(
                    next.interval?.as_secs_f64() * 1000.0
                        / milliseconds_between(one.at, next.at).max(1) as f64,
                )
            })
            .collect();
        let marked = |kinds: &[MarkKind]| {
            let marks = series.marks.iter().filter(|mark| kinds.contains(&mark.kind));
            let mut moments: Vec<Moment> = marks.map(|mark| mark.at).collect();
            moments.sort_unstable();
            moments
        };
        Self {
            series,
            usual: median_of(&mut between).map_or(0, whole_milliseconds).clamp(0, LONGEST),
            page: BasePage::from_series(series, host),
            restarts: marked(&[MarkKind::Restart, MarkKind::Resumed]),
            boots: marked(&[MarkKind::Restart]),
            continuous: median_of(&mut covered).is_some_and(|part| part > 0.9),
        }
    }

    pub(crate) fn source(&self) -> &'a str {
        &self.series.source
    }

    pub(crate) fn samples(&self) -> &'a [SeriesSample] {
        self.series.samples()
    }

    pub(super) fn snapshot_caveat(&self) -> Option<String> {
        self.is_snapshot()
            .then(|| "one reading: it does not show how long this has been so".to_owned())
    }

    /// Whether there is one reading alone, which has no interval.
    pub(super) fn is_snapshot(&self) -> bool {
        self.samples().len() == 1
    }

    pub(crate) fn column(&self, metric: Metric) -> Option<&'a MetricColumn> {
        self.series.column(metric)
    }

    pub(super) fn value(&self, metric: Metric, row: usize) -> Option<f64> {
        self.series.value(metric, row)
    }

    pub(crate) fn moment_at(&self, row: usize) -> Moment {
        self.samples().get(row).map_or(Moment::default(), |sample| sample.at)
    }

    pub(crate) fn interval_start(&self, row: usize) -> Moment {
        let interval =
            self.samples().get(row).and_then(|sample| sample.interval).unwrap_or_default();
        let seconds = i64::try_from(interval.as_secs()).unwrap_or(0);
        let interval =
            seconds.saturating_mul(SECOND).saturating_add(i64::from(interval.subsec_millis()));
        Moment(self.moment_at(row).0.saturating_sub(interval))
    }

    pub(super) fn interval_seconds(&self, row: usize) -> f64 {
        let interval = self.samples().get(row).and_then(|sample| sample.interval);
        // What `vmstat 1 3` saw stands for the loop's whole round.
        interval.map_or(0.0, |own| {
            if self.continuous { own.as_secs_f64() } else { self.usual as f64 / 1000.0 }
        })
    }

    /// What `level` makes in so many seconds, or in as many as there are: what fills all of a few
    /// rows that somebody pasted is more than a moment. One row alone is none.
    pub(super) fn least_excess(&self, spike: &Spike, level: f64, seconds: f64) -> f64 {
        let all = (0..self.samples().len()).map(|row| self.interval_seconds(row));
        let covered: f64 = all.sum();
        let is_short = covered > 0.0 && spike.first < spike.last;
        level * if is_short { covered.min(seconds) } else { seconds }
    }

    /// Milliseconds since the row before; `None` behind a restart or at another file's beginning.
    pub(super) fn since_before(&self, row: usize) -> Option<i64> {
        let before = row.checked_sub(1)?;
        let at = self.moment_at(row);
        let restarted = self.restarted_between(before, row);
        let apart = milliseconds_between(self.moment_at(before), at);
        let told = milliseconds_between(self.interval_start(row), at) as f64;
        let torn = self.continuous && (told == 0.0 || told < 0.75 * apart as f64);
        (!restarted && !torn).then_some(apart)
    }

    pub(super) fn is_settled(&self, row: usize) -> bool {
        if self.boots.is_empty() {
            return true;
        }
        let from = self.interval_start(row);
        last_before(&self.boots, self.moment_at(row))
            .is_none_or(|restart| milliseconds_between(restart, from) >= SETTLES.max(self.usual))
    }

    pub(super) fn restarted_between(&self, before: usize, row: usize) -> bool {
        last_before(&self.restarts, self.moment_at(row))
            .is_some_and(|restart| restart >= self.moment_at(before))
    }

    /// Boots, as far as the collector tells them from its own restarts.
    pub(super) fn boot_moments(&self) -> &[Moment] {
        &self.boots
    }

    /// Whether the time before a row may be a missing file's: between files, and as long as one.
    pub(super) fn file_may_lack(&self, row: usize) -> bool {
        let seams = self.series.file_seams();
        let at = self.moment_at(row);
        if !seams.contains(&at) {
            return false;
        }
        let begins = self.samples().first().map(|first| first.at);
        let edges: Vec<Moment> = begins.into_iter().chain(seams.iter().copied()).collect();
        let mut files: Vec<f64> = edges
            .iter()
            .zip(edges.iter().skip(1))
            .map(|(one, next)| milliseconds_between(*one, *next) as f64)
            .collect();
        let hole =
            row.checked_sub(1).map_or(0, |before| milliseconds_between(self.moment_at(before), at));
        median_of(&mut files).is_none_or(|usual| hole as f64 >= 0.9 * usual)
    }

    /// Rows that are judged together, and those that they are compared with.
    pub(super) fn split_by_day(&self) -> Vec<(Range<usize>, Range<usize>)> {
        let samples = self.samples();
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
            return Vec::new();
        };
        // Up to a day and a half is one piece: a remaining hour has nothing to be compared with.
        if milliseconds_between(first.at, last.at) < DAY + DAY / 2 {
            return vec![(0..samples.len(), 0..samples.len())];
        }
        let place = |at: i64| samples.partition_point(|sample| sample.at.0 < at);
        let mut days = Vec::new();
        let mut begin = first.at.0;
        while begin <= last.at.0 && begin < i64::MAX {
            let judged = place(begin)..place(begin.saturating_add(DAY));
            if judged.is_empty() {
                begin = samples.get(judged.end).map_or(i64::MAX, |next| next.at.0);
                continue;
            }
            days.push((
                judged,
                place(begin.saturating_sub(DAY))..place(begin.saturating_add(2 * DAY)),
            ));
            begin = begin.saturating_add(DAY);
        }
        days
    }

    /// What is usual among rows; those soon after a boot are left out.
    pub(super) fn learn_baseline(
        &self,
        value: impl Fn(usize) -> Option<f64>,
        rows: Range<usize>,
        floor: f64,
    ) -> Option<Baseline> {
        let mut values: Vec<f64> =
            rows.filter(|row| self.is_settled(*row)).filter_map(value).collect();
        Baseline::from_values(&mut values, floor)
    }

    /// Where values are at least `least` and far above what is usual. `alone` is trouble whatever is
    /// usual: it decides where too few rows tell that, and where most rows are of the trouble itself.
    pub(super) fn find_spikes(
        &self,
        value: impl Fn(usize) -> Option<f64>,
        least: f64,
        floor: f64,
        alone: f64,
    ) -> Vec<Spike> {
        self.find_spikes_or_levels(value, least, floor, alone, f64::INFINITY)
    }

    /// The same, and where values are at least `always`: a level that no host has in peace counts
    /// whatever is usual.
    pub(super) fn find_spikes_or_levels(
        &self,
        value: impl Fn(usize) -> Option<f64>,
        least: f64,
        floor: f64,
        alone: f64,
        always: f64,
    ) -> Vec<Spike> {
        let mut hits = Vec::new();
        for (judged, learnt) in self.split_by_day() {
            // Most days have nothing that could stand out.
            if !judged.clone().any(|row| value(row).is_some_and(|value| value >= least)) {
                continue;
            }
            let usual =
                self.learn_baseline(&value, learnt, floor).filter(|usual| usual.median < alone);
            for row in judged {
                let Some(value) = value(row) else { continue };
                let stands_out = match usual {
                    _ if value >= always => true,
                    Some(usual) => value >= least && usual.z_score(value) > OUTSTANDING,
                    None => value >= alone,
                };
                if stands_out {
                    hits.push(OutlierRow { row, value, usual: usual.map(|usual| usual.median) });
                }
            }
        }
        self.group_hits(hits)
    }

    pub(super) fn find_above(
        &self,
        value: impl Fn(usize) -> Option<f64>,
        least: f64,
    ) -> Vec<Spike> {
        let hits = (0..self.samples().len()).filter_map(|row| {
            let value = value(row).filter(|value| *value >= least)?;
            Some(OutlierRow { row, value, usual: None })
        });
        self.group_hits(hits.collect())
    }

    /// Groups hits that are near to each other, in the order of time.
    ///
    /// A job of every minute that stands out a little would reach from one trouble to the next: hits
    /// that are low beside the highest near them make spikes of their own.
    fn group_hits(&self, hits: Vec<OutlierRow>) -> Vec<Spike> {
        let bridge = BRIDGE.max(self.usual + self.usual / 2);
        let near = |one: &OutlierRow, next: &OutlierRow| {
            milliseconds_between(self.moment_at(one.row), self.moment_at(next.row)) <= bridge
        };
        let mut spikes: Vec<Spike> = Vec::new();
        let mut groups: Vec<Vec<OutlierRow>> =
            hits.chunk_by(near).map(<[OutlierRow]>::to_vec).collect();
        while let Some(group) = groups.pop() {
            let Some(highest) = group.iter().max_by(|one, other| one.value.total_cmp(&other.value))
            else {
                continue;
            };
            let much = |hit: &&OutlierRow| {
                hit.height_above_usual() >= LITTLE * highest.height_above_usual()
            };
            let high: Vec<OutlierRow> = group.iter().filter(much).copied().collect();
            let cores: Vec<(usize, usize)> = high
                .chunk_by(near)
                .filter_map(|core| Some((core.first()?.row, core.last()?.row)))
                .collect();
            let mut little: Vec<Vec<OutlierRow>> = vec![Vec::new(); cores.len() + 1];
            let mut inside: Vec<Vec<OutlierRow>> = vec![Vec::new(); cores.len()];
            for hit in group {
                let place = cores.partition_point(|(_, last)| *last < hit.row);
                let within = cores.get(place).is_some_and(|(first, _)| *first <= hit.row);
                if let Some(hits) =
                    if within { inside.get_mut(place) } else { little.get_mut(place) }
                {
                    hits.push(hit);
                }
            }
            spikes.extend(inside.iter().filter_map(|hits| self.spike_from_hits(hits)));
            groups.extend(little.into_iter().filter(|hits| !hits.is_empty()));
        }
        spikes.sort_by_key(|spike| spike.first);
        spikes
    }

    pub(super) fn split_runs(
        &self,
        spike: &Spike,
        value: impl Fn(usize) -> Option<f64>,
    ) -> Vec<Spike> {
        let usual = spike.usual;
        let least = usual.unwrap_or(0.0) + LITTLE * (spike.peak - usual.unwrap_or(0.0));
        let hits = (spike.first..=spike.last).filter_map(|row| {
            Some(OutlierRow { row, value: value(row).filter(|value| *value >= least)?, usual })
        });
        let hits: Vec<OutlierRow> = hits.collect();
        hits.chunk_by(|one, next| one.row + 1 == next.row)
            .filter_map(|run| self.spike_from_hits(run))
            .collect()
    }

    fn spike_from_hits(&self, hits: &[OutlierRow]) -> Option<Spike> {
        // The first of several equally high ones.
        let highest = hits.iter().rev().max_by(|one, other| one.value.total_cmp(&other.value))?;
        let excess =
            hits.iter().map(|hit| hit.height_above_usual() * self.interval_seconds(hit.row)).sum();
        let (first, last) = (hits.first()?.row, hits.last()?.row);
        Some(Spike {
            first,
            last,
            peak: highest.value,
            peak_row: highest.row,
            usual: highest.usual,
            excess,
        })
    }

    pub(super) fn spike_signature(
        &self,
        kind: SignatureKind,
        spike: &Spike,
        strength: SignatureStrength,
        words: impl Fn(usize) -> Option<String>,
        caveats: impl IntoIterator<Item = String>,
    ) -> Signature {
        let evidence = spike.telling_rows().into_iter();
        Signature {
            kind,
            from: self.interval_start(spike.first),
            to: self.moment_at(spike.last),
            strength,
            evidence: evidence.filter_map(|row| Some(self.evidence_at(row, words(row)?))).collect(),
            caveats: caveats.into_iter().collect(),
        }
    }

    pub(super) fn evidence_at(&self, row: usize, what: impl Into<String>) -> SignatureEvidence {
        SignatureEvidence {
            source: self.series.source.clone(),
            at: self.moment_at(row),
            what: what.into(),
            basis: EvidenceBasis::Figures,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Spike {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) peak: f64,
    pub(super) peak_row: usize,
    /// What is usual there, where enough rows tell it.
    pub(super) usual: Option<f64>,
    /// What is above the usual, times seconds.
    pub(super) excess: f64,
}

impl Spike {
    pub(super) fn is_settled(&self, rows: &SeriesRows<'_>) -> bool {
        rows.is_settled(self.first) || rows.is_settled(self.last)
    }

    pub(super) fn fill_ratio(&self, value: impl Fn(usize) -> Option<f64>) -> f64 {
        let usual = self.usual.unwrap_or(0.0);
        self.mean_value(value).map_or(1.0, |mean| (mean - usual) / (self.peak - usual))
    }

    pub(super) fn mean_value(&self, value: impl Fn(usize) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = (self.first..=self.last).filter_map(value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// What it has in all, times seconds: not above the usual, but above nothing.
    pub(super) fn level_excess(
        &self,
        rows: &SeriesRows<'_>,
        value: impl Fn(usize) -> Option<f64>,
    ) -> f64 {
        (self.first..=self.last)
            .filter_map(|row| Some(value(row)? * rows.interval_seconds(row)))
            .sum()
    }

    pub(super) fn usual_suffix(&self, decimals: usize) -> String {
        self.usual.map(|usual| format!("{USUAL}{usual:.decimals$}")).unwrap_or_default()
    }

    pub(super) fn without_usual(&self) -> Option<String> {
        self.usual.is_none().then(|| {
            "what is usual here is not known: there are too few rows, or most of them are like \
                 these"
                .to_owned()
        })
    }

    pub(super) fn telling_rows(&self) -> Vec<usize> {
        let mut rows = vec![self.first, self.peak_row, self.last];
        rows.dedup();
        rows
    }
}

#[derive(Clone, Copy, Debug)]
struct OutlierRow {
    row: usize,
    value: f64,
    usual: Option<f64>,
}

impl OutlierRow {
    fn height_above_usual(&self) -> f64 {
        self.value - self.usual.unwrap_or(0.0)
    }
}

fn last_before(moments: &[Moment], at: Moment) -> Option<Moment> {
    let place = moments.partition_point(|moment| *moment <= at);
    moments.get(place.checked_sub(1)?).copied()
}

pub(crate) const fn milliseconds_between(from: Moment, to: Moment) -> i64 {
    to.0.saturating_sub(from.0)
}

#[allow(clippy::cast_possible_truncation, reason = "milliseconds below 2^53")]
pub(super) fn whole_milliseconds(milliseconds: f64) -> i64 {
    milliseconds as i64
}
