//! The rows of all sources of a host in a window of time.

use std::ops::Range;

use crate::signatures::observations::Observations;
use crate::signatures::rows::MINUTE;
use crate::{History, Moment, Series};

/// Who looks for reclaim looks so far around a window, in milliseconds: kswapd is done before what it did is felt.
pub(super) const AROUND: i64 = 10 * MINUTE;

/// Rows whose moments are in a window, with the one that it begins at.
pub(super) fn rows_in(series: &Series, from: Moment, to: Moment) -> Range<usize> {
    let samples = series.samples();
    samples.partition_point(|sample| sample.at < from)..samples.partition_point(|sample| sample.at <= to)
}

/// The rows of all sources between two moments.
#[derive(Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) observations: &'a Observations<'a>,
    pub(super) history: &'a History,
    pub(super) from: Moment,
    pub(super) to: Moment,
}
