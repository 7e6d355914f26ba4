//! A series as signatures look at it: how far apart its rows are, which of them compare, and what stands out in a column.

use std::ops::Range;

use crate::baseline::{Baseline, median};
use crate::page::Page;
use crate::series::{Column, MarkKind, Sample};
use crate::{Evidence, Metric, Moment, Series};

/// A host that boots and starts its servers is busy for so long, and none of it is of the trouble looked for: services of
/// the distributions and a database's start are done in ten minutes.
const SETTLES: i64 = 10 * MINUTE;
/// What is usual is learnt from this much before and behind, so that a month's files are judged by their days.
const DAY: i64 = 24 * 60 * MINUTE;
/// Milliseconds.
pub(crate) const SECOND: i64 = 1000;
/// Milliseconds.
pub(crate) const MINUTE: i64 = 60 * SECOND;
/// Milliseconds beyond a collector's own pace that no reboot takes: firmware tests the memory of large hosts for a quarter of an
/// hour.
pub(super) const SILENT: i64 = 20 * MINUTE;
/// No collector has a pace as slow as this, in milliseconds: a year.
const LONGEST: i64 = 365 * DAY;
/// Hits that are nearer to each other than this are one spike: a storm of minutes has calm seconds.
const BRIDGE: i64 = MINUTE;
/// The part of a spike's height that is little. A storm's first interval has a third of it and more.
const LITTLE: f64 = 0.25;
/// What stands before the usual value in evidence.
pub(super) const USUAL: &str = "; usual here ";
/// How many spreads above the median stand out: of five quiet series of 10-minute samples, 453 intervals, none did.
pub(super) const OUTSTANDING: f64 = 6.0;

/// A series with what its rows have in common.
pub(crate) struct Rows<'a> {
    pub(crate) series: &'a Series,
    /// The usual time between two rows in milliseconds; 0 for fewer than two.
    pub(crate) usual: i64,
    /// What its counters of pages count.
    pub(crate) page: Page,
    /// Of the host or of the collector alone.
    restarts: Vec<Moment>,
    /// Of the host.
    boots: Vec<Moment>,
    /// Whether intervals reach back to the row before, as sysstat's do and those of `vmstat 1 3` every 30 s don't.
    continuous: bool,
}

impl<'a> Rows<'a> {
    /// `host` is the base page as other sources of the host tell it.
    pub(crate) fn of(series: &'a Series, host: Page) -> Self {
        let samples = series.samples();
        let pairs = || samples.iter().zip(samples.iter().skip(1));
        let mut between: Vec<f64> = pairs().map(|(one, next)| apart(one.at, next.at) as f64).collect();
        let mut covered: Vec<f64> = pairs()
            .filter_map(|(one, next)| {
                Some(next.interval?.as_secs_f64() * 1000.0 / apart(one.at, next.at).max(1) as f64)
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
            usual: median(&mut between).map_or(0, whole).clamp(0, LONGEST),
            page: Page::of(series, host),
            restarts: marked(&[MarkKind::Restart, MarkKind::Resumed]),
            boots: marked(&[MarkKind::Restart]),
            continuous: median(&mut covered).is_some_and(|part| part > 0.9),
        }
    }

    pub(crate) fn source(&self) -> &'a str {
        &self.series.source
    }

    pub(crate) fn samples(&self) -> &'a [Sample] {
        self.series.samples()
    }

    pub(crate) fn column(&self, metric: Metric) -> Option<&'a Column> {
        self.series.column(metric)
    }

    pub(super) fn value(&self, metric: Metric, row: usize) -> Option<f64> {
        self.series.value(metric, row)
    }

    pub(crate) fn at(&self, row: usize) -> Moment {
        self.samples().get(row).map_or(Moment::default(), |sample| sample.at)
    }

    /// When a row's interval began.
    pub(crate) fn from(&self, row: usize) -> Moment {
        let interval = self.samples().get(row).and_then(|sample| sample.interval).unwrap_or_default();
        let seconds = i64::try_from(interval.as_secs()).unwrap_or(0);
        let interval = seconds.saturating_mul(SECOND).saturating_add(i64::from(interval.subsec_millis()));
        Moment(self.at(row).0.saturating_sub(interval))
    }

    /// Seconds that a row's rates are of.
    pub(super) fn seconds(&self, row: usize) -> f64 {
        let interval = self.samples().get(row).and_then(|sample| sample.interval);
        // What `vmstat 1 3` saw stands for the loop's whole round.
        interval.map_or(0.0, |own| if self.continuous { own.as_secs_f64() } else { self.usual as f64 / 1000.0 })
    }

    /// Time since the row before in milliseconds; `None` where nothing was to be written in between: behind a restart, or
    /// where another file begins whose first row is not told.
    pub(super) fn since_before(&self, row: usize) -> Option<i64> {
        let before = row.checked_sub(1)?;
        let at = self.at(row);
        let restarted = self.restarted(before, row);
        let apart = apart(self.at(before), at);
        let told = self::apart(self.from(row), at) as f64;
        let torn = self.continuous && (told == 0.0 || told < 0.75 * apart as f64);
        (!restarted && !torn).then_some(apart)
    }

    /// Whether the host had time to settle behind its last start.
    pub(super) fn settled(&self, row: usize) -> bool {
        if self.boots.is_empty() {
            return true;
        }
        let from = self.from(row);
        last(&self.boots, self.at(row)).is_none_or(|restart| apart(restart, from) >= SETTLES.max(self.usual))
    }

    /// Whether the host or the collector began anew between two rows.
    pub(super) fn restarted(&self, before: usize, row: usize) -> bool {
        last(&self.restarts, self.at(row)).is_some_and(|restart| restart >= self.at(before))
    }

    /// When the host began anew, as far as the collector tells that apart from a start of its own.
    pub(super) fn boots(&self) -> &[Moment] {
        &self.boots
    }

    /// Whether the time before a row may be that of a file which is not there: files lie on both sides, and it is about as
    /// long as one of them.
    pub(super) fn file_may_lack(&self, row: usize) -> bool {
        let seams = self.series.seams();
        let at = self.at(row);
        if !seams.contains(&at) {
            return false;
        }
        let begins = self.samples().first().map(|first| first.at);
        let edges: Vec<Moment> = begins.into_iter().chain(seams.iter().copied()).collect();
        let mut files: Vec<f64> =
            edges.iter().zip(edges.iter().skip(1)).map(|(one, next)| apart(*one, *next) as f64).collect();
        let hole = row.checked_sub(1).map_or(0, |before| apart(self.at(before), at));
        median(&mut files).is_none_or(|usual| hole as f64 >= 0.9 * usual)
    }

    /// Rows that are judged together, and those that they are judged by.
    pub(super) fn days(&self) -> Vec<(Range<usize>, Range<usize>)> {
        let samples = self.samples();
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return Vec::new() };
        // Up to a day and a half is one piece: a rest of an hour has nothing to be judged by.
        if apart(first.at, last.at) < DAY + DAY / 2 {
            return vec![(0..samples.len(), 0..samples.len())];
        }
        let place = |at: i64| samples.partition_point(|sample| sample.at.0 < at);
        let mut days = Vec::new();
        let mut begin = first.at.0;
        while begin <= last.at.0 && begin < i64::MAX {
            let judged = place(begin)..place(begin.saturating_add(DAY));
            if judged.is_empty() {
                // Nothing for days: on to what comes next.
                begin = samples.get(judged.end).map_or(i64::MAX, |next| next.at.0);
                continue;
            }
            days.push((judged, place(begin.saturating_sub(DAY))..place(begin.saturating_add(2 * DAY))));
            begin = begin.saturating_add(DAY);
        }
        days
    }

    /// What of a column is usual among rows; those behind a restart are left out.
    pub(super) fn baseline(
        &self,
        value: impl Fn(usize) -> Option<f64>,
        rows: Range<usize>,
        floor: f64,
    ) -> Option<Baseline> {
        let mut values: Vec<f64> = rows.filter(|row| self.settled(*row)).filter_map(value).collect();
        Baseline::of(&mut values, floor)
    }

    /// Where values are at least `least` and far above what is usual. `alone` is what is trouble whatever is usual: it is asked
    /// where too few rows tell what that is, and where most of them are of the trouble itself.
    pub(super) fn spikes(
        &self,
        value: impl Fn(usize) -> Option<f64>,
        least: f64,
        floor: f64,
        alone: f64,
    ) -> Vec<Spike> {
        let mut hits = Vec::new();
        for (judged, learnt) in self.days() {
            // Most days have nothing that could stand out, and what is usual takes as long as all else.
            if !judged.clone().any(|row| value(row).is_some_and(|value| value >= least)) {
                continue;
            }
            let usual = self.baseline(&value, learnt, floor).filter(|usual| usual.median < alone);
            for row in judged {
                let Some(value) = value(row) else { continue };
                let stands_out = match usual {
                    Some(usual) => value >= least && usual.z(value) > OUTSTANDING,
                    None => value >= alone,
                };
                if stands_out {
                    hits.push(Hit { row, value, usual: usual.map(|usual| usual.median) });
                }
            }
        }
        self.gathered(hits)
    }

    /// Where values are at least `least`, whatever is usual.
    pub(super) fn above(&self, value: impl Fn(usize) -> Option<f64>, least: f64) -> Vec<Spike> {
        let hits = (0..self.samples().len()).filter_map(|row| {
            let value = value(row).filter(|value| *value >= least)?;
            Some(Hit { row, value, usual: None })
        });
        self.gathered(hits.collect())
    }

    /// Hits that are near to each other as spikes, in the order of time.
    ///
    /// A job of every minute that stands out a little would reach from one trouble to the next: what is little beside the
    /// highest that it is near to makes spikes of its own.
    fn gathered(&self, hits: Vec<Hit>) -> Vec<Spike> {
        let bridge = BRIDGE.max(self.usual + self.usual / 2);
        let near = |one: &Hit, next: &Hit| apart(self.at(one.row), self.at(next.row)) <= bridge;
        let mut spikes: Vec<Spike> = Vec::new();
        let mut groups: Vec<Vec<Hit>> = hits.chunk_by(near).map(<[Hit]>::to_vec).collect();
        while let Some(group) = groups.pop() {
            let Some(highest) = group.iter().max_by(|one, other| one.value.total_cmp(&other.value)) else { continue };
            let much = |hit: &&Hit| hit.height() >= LITTLE * highest.height();
            let high: Vec<Hit> = group.iter().filter(much).copied().collect();
            let cores: Vec<(usize, usize)> =
                high.chunk_by(near).filter_map(|core| Some((core.first()?.row, core.last()?.row))).collect();
            let mut little: Vec<Vec<Hit>> = vec![Vec::new(); cores.len() + 1];
            let mut inside: Vec<Vec<Hit>> = vec![Vec::new(); cores.len()];
            for hit in group {
                let place = cores.partition_point(|(_, last)| *last < hit.row);
                let within = cores.get(place).is_some_and(|(first, _)| *first <= hit.row);
                if let Some(hits) = if within { inside.get_mut(place) } else { little.get_mut(place) } {
                    hits.push(hit);
                }
            }
            spikes.extend(inside.iter().filter_map(|hits| self.spike(hits)));
            groups.extend(little.into_iter().filter(|hits| !hits.is_empty()));
        }
        spikes.sort_by_key(|spike| spike.first);
        spikes
    }

    /// The runs of rows within a spike that are high, without a low one between them.
    pub(super) fn runs(&self, spike: &Spike, value: impl Fn(usize) -> Option<f64>) -> Vec<Spike> {
        let usual = spike.usual;
        let least = usual.unwrap_or(0.0) + LITTLE * (spike.peak - usual.unwrap_or(0.0));
        let hits = (spike.first..=spike.last)
            .filter_map(|row| Some(Hit { row, value: value(row).filter(|value| *value >= least)?, usual }));
        let hits: Vec<Hit> = hits.collect();
        hits.chunk_by(|one, next| one.row + 1 == next.row).filter_map(|run| self.spike(run)).collect()
    }

    fn spike(&self, hits: &[Hit]) -> Option<Spike> {
        // Of several as high the first.
        let highest = hits.iter().rev().max_by(|one, other| one.value.total_cmp(&other.value))?;
        let excess = hits.iter().map(|hit| hit.height() * self.seconds(hit.row)).sum();
        let (first, last) = (hits.first()?.row, hits.last()?.row);
        Some(Spike { first, last, peak: highest.value, peak_row: highest.row, usual: highest.usual, excess })
    }

    /// A row's word for a signature.
    pub(super) fn evidence(&self, row: usize, what: impl Into<String>) -> Evidence {
        Evidence { source: self.series.source.clone(), at: self.at(row), what: what.into() }
    }
}

/// Rows next to each other that stand out.
#[derive(Clone, Debug)]
pub(super) struct Spike {
    pub(super) first: usize,
    pub(super) last: usize,
    /// The highest value and its row.
    pub(super) peak: f64,
    pub(super) peak_row: usize,
    /// What is usual there, where enough rows without trouble tell it.
    pub(super) usual: Option<f64>,
    /// What is above the usual, times seconds.
    pub(super) excess: f64,
}

impl Spike {
    /// Whether some of it is of a host that had settled behind its start.
    pub(super) fn settled(&self, rows: &Rows<'_>) -> bool {
        rows.settled(self.first) || rows.settled(self.last)
    }

    /// The part of its height that its rows have on average.
    pub(super) fn fills(&self, value: impl Fn(usize) -> Option<f64>) -> f64 {
        let usual = self.usual.unwrap_or(0.0);
        self.mean(value).map_or(1.0, |mean| (mean - usual) / (self.peak - usual))
    }

    /// The mean of a value over its rows, those that do not stand out among them.
    pub(super) fn mean(&self, value: impl Fn(usize) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = (self.first..=self.last).filter_map(value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// What stands behind a value in evidence.
    pub(super) fn usual(&self, decimals: usize) -> String {
        self.usual.map(|usual| format!("{USUAL}{usual:.decimals$}")).unwrap_or_default()
    }

    /// That nothing tells what is usual, where it is so.
    pub(super) fn without_usual(&self) -> Option<String> {
        self.usual.is_none().then(|| {
            "what is usual here is not known: there are too few rows, or most of them are like these".to_owned()
        })
    }

    /// The rows that tell it: the first, the highest and the last.
    pub(super) fn rows(&self) -> Vec<usize> {
        let mut rows = vec![self.first, self.peak_row, self.last];
        rows.dedup();
        rows
    }
}

/// A row that stands out.
#[derive(Clone, Copy, Debug)]
struct Hit {
    row: usize,
    value: f64,
    usual: Option<f64>,
}

impl Hit {
    /// Above what is usual.
    fn height(&self) -> f64 {
        self.value - self.usual.unwrap_or(0.0)
    }
}

/// The last of sorted moments that is not after another.
fn last(moments: &[Moment], at: Moment) -> Option<Moment> {
    let place = moments.partition_point(|moment| *moment <= at);
    moments.get(place.checked_sub(1)?).copied()
}

/// Milliseconds from one moment to another; negative where that is earlier.
pub(crate) const fn apart(from: Moment, to: Moment) -> i64 {
    to.0.saturating_sub(from.0)
}

/// Milliseconds without their fractions.
#[allow(clippy::cast_possible_truncation, reason = "milliseconds below 2^53")]
pub(super) fn whole(milliseconds: f64) -> i64 {
    milliseconds as i64
}
