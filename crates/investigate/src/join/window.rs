//! The rows of all sources of a host in a window of time.

use std::ops::Range;

use crate::signatures::observations::Observations;
use crate::signatures::rows::MINUTE;
use crate::{IncidentHistory, Metric, MetricColumn, Moment, Series};

/// Milliseconds around a window in which reclaim counts: kswapd is done before its effects show.
pub(super) const AROUND: i64 = 10 * MINUTE;
/// Milliseconds between samples that hide much.
pub(super) const COARSE: i64 = 120_000;

/// Rows whose moments are in a window, both ends included.
pub(super) fn rows_in(series: &Series, from: Moment, to: Moment) -> Range<usize> {
    let samples = series.samples();
    samples.partition_point(|sample| sample.at < from)
        ..samples.partition_point(|sample| sample.at <= to)
}

#[derive(Clone, Copy)]
pub(super) struct IncidentWindow<'a> {
    pub(super) observations: &'a Observations<'a>,
    pub(super) history: &'a IncidentHistory,
    pub(super) from: Moment,
    pub(super) to: Moment,
}

impl IncidentWindow<'_> {
    pub(super) fn page_table_readings(&self) -> impl Iterator<Item = (Moment, f64)> {
        self.history.series.iter().flat_map(|series| {
            let values = series.column(Metric::PageTables).into_iter().flat_map(MetricColumn::iter);
            values.filter_map(|(row, bytes)| Some((series.samples().get(row)?.at, bytes)))
        })
    }
}
