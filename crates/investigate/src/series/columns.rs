//! The columns of a series: of the hundreds of metrics, those that have values.

use super::MetricColumn;
use crate::Metric;

/// A metric's column is found by one look-up, and a metric without one takes a byte.
#[derive(Clone, Debug, Default)]
pub(super) struct MetricColumns {
    /// By metric, the place of its column, counted from 1; 0 for none.
    places: Box<[u8]>,
    columns: Vec<MetricColumn>,
}

// A place fits in a byte.
const _: () = assert!(Metric::ALL.len() < 256);

impl PartialEq for MetricColumns {
    fn eq(&self, other: &Self) -> bool {
        Metric::ALL.iter().all(|metric| self.get(*metric) == other.get(*metric))
    }
}

impl MetricColumns {
    fn place_of(&self, metric: Metric) -> Option<usize> {
        usize::from(*self.places.get(metric.index())?).checked_sub(1)
    }

    /// A metric's column; `None` where no row has a value.
    pub(super) fn get(&self, metric: Metric) -> Option<&MetricColumn> {
        self.columns.get(self.place_of(metric)?).filter(|column| column.rows > 0)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, metric: Metric) -> Option<&mut MetricColumn> {
        let place = self.place_of(metric)?;
        self.columns.get_mut(place)
    }

    /// A metric's column, made where it has none.
    pub(super) fn get_or_add(&mut self, metric: Metric) -> Option<&mut MetricColumn> {
        if self.place_of(metric).is_none() {
            if self.places.is_empty() {
                self.places = vec![0; Metric::ALL.len()].into_boxed_slice();
            }
            self.columns.push(MetricColumn::default());
            let place = self.places.get_mut(metric.index())?;
            *place = u8::try_from(self.columns.len()).ok()?;
        }
        self.get_mut(metric)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &MetricColumn> {
        self.columns.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut MetricColumn> {
        self.columns.iter_mut()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.columns.shrink_to_fit();
    }
}
