//! Rows on their way into a series, 64 at a time.
//!
//! Setting fifty columns for each of millions of rows costs more than reading the rows. Here a
//! column gets 64 values at once, with a word that says which rows have one.

use std::time::Duration;

use super::{MetricColumn, Moment, Series};
use crate::Metric;

/// Rows of a batch: a bit each in a word.
const ROWS: usize = 64;

/// Values of a series' last rows, until [`Series::flush_batch`] puts them into its columns.
#[derive(Clone, Debug)]
pub(crate) struct SeriesBatch {
    metrics: Vec<BatchValues>,
    rows: usize,
}

#[derive(Clone, Debug)]
struct BatchValues {
    present: u64,
    values: [f64; ROWS],
}

impl SeriesBatch {
    pub(crate) fn new() -> Self {
        Self {
            metrics: vec![BatchValues { present: 0, values: [0.0; ROWS] }; Metric::ALL.len()],
            rows: 0,
        }
    }

    /// Sets a value of the row begun last, as [`Series::set_value`] does.
    #[inline]
    pub(crate) fn set_value(&mut self, metric: Metric, value: f64) {
        let Some(row) = self.rows.checked_sub(1).filter(|_| (0.0..f64::INFINITY).contains(&value))
        else {
            return;
        };
        if let Some(values) = self.metrics.get_mut(metric.index())
            && let Some(place) = values.values.get_mut(row)
        {
            *place = value;
            values.present |= 1 << row;
        }
    }
}

impl Series {
    pub(crate) fn push_into(
        &mut self,
        batch: &mut SeriesBatch,
        at: Moment,
        interval: Option<Duration>,
    ) {
        if batch.rows == ROWS {
            self.flush_batch(batch);
        }
        let before = self.samples.len();
        self.push(at, interval);
        if self.samples.len() == before {
            self.flush_batch(batch);
        } else {
            batch.rows += 1;
        }
    }

    pub(crate) fn flush_batch(&mut self, batch: &mut SeriesBatch) {
        let base = self.samples.len().saturating_sub(batch.rows);
        batch.rows = 0;
        for (metric, values) in Metric::ALL.iter().zip(&mut batch.metrics) {
            let present = std::mem::take(&mut values.present);
            let rows = ROWS - present.leading_zeros() as usize;
            if rows == 0 {
                continue;
            }
            let growth = self
                .columns
                .get(*metric)
                .map_or(base + rows, |column| column.growth_at((base + rows).saturating_sub(1)));
            if !self.claim_room(growth) {
                continue;
            }
            if let (Some(column), Some(values)) =
                (self.columns.get_or_add(*metric), values.values.get(..rows))
            {
                column.append_batch(base, present, values);
            }
        }
    }
}

impl MetricColumn {
    /// Appends the values of the rows from `base` on, of which these bits tell the present ones.
    fn append_batch(&mut self, base: usize, present: u64, values: &[f64]) {
        let is_there = |row: &usize| present >> row & 1 == 1;
        if !base.is_multiple_of(ROWS) || self.rows > base {
            (0..values.len()).filter(is_there).for_each(|row| {
                if let Some(value) = values.get(row) {
                    self.set_value(base + row, *value);
                }
            });
            return;
        }
        let first = values.get(present.trailing_zeros() as usize).copied().unwrap_or_default();
        let is_first =
            |(row, value): (usize, &f64)| !is_there(&row) || value.to_bits() == first.to_bits();
        if self.fits_constant(first) && values.iter().enumerate().all(is_first) {
            self.same = first;
        } else {
            self.materialize_values();
            self.values.resize(base, 0.0);
            self.values.extend_from_slice(values);
        }
        self.rows = base + values.len();
        self.present.resize(base / ROWS, 0);
        self.present.push(present);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// Of rows set one by one, and in batches: with holes, with one value for long, with
        /// numbers that are none.
        #[test]
        fn a_batch_is_what_its_rows_are(
            rows in proptest::collection::vec(
                (proptest::option::weighted(0.9, 0..3_u8), proptest::option::weighted(0.5, 7..8_u8)),
                0..300,
            ),
        ) {
            let (mut one, mut other) = (Series::new("x", crate::SourceFormat::SYSSTAT), Series::new("x", crate::SourceFormat::SYSSTAT));
            let mut batch = SeriesBatch::new();
            for (row, (first, second)) in rows.iter().enumerate() {
                let at = Moment::from_seconds(i64::try_from(row).unwrap());
                one.push(at, None);
                other.push_into(&mut batch, at, None);
                let values = [(Metric::CpuSystem, *first), (Metric::MemFree, *second)];
                for (metric, value) in values.iter().filter_map(|(metric, value)| Some((*metric, (*value)?))) {
                    // A 2 stands for what is no number.
                    let value = if value == 2 { f64::NAN } else { f64::from(value) };
                    one.set_value(metric, value);
                    batch.set_value(metric, value);
                }
            }
            other.flush_batch(&mut batch);
            let told = |series: &Series| {
                let rows = 0..series.samples().len() + 70;
                rows.map(|row| (series.value(Metric::CpuSystem, row), series.value(Metric::MemFree, row))).collect::<Vec<_>>()
            };
            proptest::prop_assert_eq!(told(&one), told(&other));
            proptest::prop_assert_eq!(one.estimate_bytes(), other.estimate_bytes());
            proptest::prop_assert_eq!(one.metrics().collect::<Vec<_>>(), other.metrics().collect::<Vec<_>>());
        }
    }
}
