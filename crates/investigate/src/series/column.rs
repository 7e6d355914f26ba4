//! The values of one metric, row by row.

use std::ops::Range;

/// Rows of a new column: a day of minutes.
const FIRST_ROWS: usize = 1440;

/// The values of one metric; absent is absent, never zero. A column whose values are all the same,
/// as most are on a quiet host, takes a bit a row.
#[derive(Clone, Debug, Default)]
pub struct MetricColumn {
    /// Empty while all present values are `same`.
    pub(super) values: Vec<f64>,
    pub(super) same: f64,
    pub(super) rows: usize,
    pub(super) present: Vec<u64>,
}

impl PartialEq for MetricColumn {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows && self.iter().eq(other.iter())
    }
}

impl MetricColumn {
    /// The value of a row, where it has one.
    pub fn get(&self, row: usize) -> Option<f64> {
        let word = self.present.get(row / 64)?;
        if word >> (row % 64) & 1 == 0 {
            None
        } else if self.values.is_empty() {
            Some(self.same)
        } else {
            self.values.get(row).copied()
        }
    }

    /// Rows that have a value, and the value.
    pub fn iter(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        (0..self.rows).filter_map(|row| Some((row, self.get(row)?)))
    }

    /// Sets the next row, the fast path: millions of times in a day of seconds.
    #[inline]
    pub(super) fn push(&mut self, value: f64) {
        let row = self.rows;
        if self.fits_constant(value) {
            self.same = value;
        } else {
            self.materialize_values();
            self.values.push(value);
        }
        self.rows += 1;
        match self.present.get_mut(row / 64) {
            Some(word) => *word |= 1 << (row % 64),
            None => self.present.push(1 << (row % 64)),
        }
    }

    pub(super) fn fits_constant(&self, value: f64) -> bool {
        self.values.is_empty() && (self.rows == 0 || self.same.to_bits() == value.to_bits())
    }

    pub(super) fn materialize_values(&mut self) {
        if self.values.is_empty() {
            self.values.reserve(FIRST_ROWS.max(self.rows + 1));
            self.values.resize(self.rows, self.same);
        }
    }

    /// Appends some rows of another column behind the first `base` rows.
    pub(super) fn extend_from_rows(&mut self, base: usize, range: Range<usize>, theirs: &Self) {
        let skipped = range.start;
        let rows = range.end.min(theirs.rows).saturating_sub(skipped);
        if rows == 0 {
            return;
        }
        if theirs.values.is_empty() && self.fits_constant(theirs.same) {
            self.same = theirs.same;
        } else {
            self.materialize_values();
            self.values.resize(base, 0.0);
            match theirs.values.get(skipped..skipped + rows) {
                Some(values) => self.values.extend_from_slice(values),
                None => self.values.resize(base + rows, theirs.same),
            }
        }
        self.rows = base + rows;
        self.present.resize(self.rows.div_ceil(64), 0);
        for row in (0..rows).step_by(64) {
            let left = rows - row;
            let bits = theirs.presence_bits(skipped + row) & low_bits(left);
            let (word, shift) = ((base + row) / 64, (base + row) % 64);
            if let Some(word) = self.present.get_mut(word) {
                *word |= bits << shift;
            }
            if let Some(word) = self.present.get_mut(word + 1).filter(|_| shift > 0) {
                *word |= bits >> (64 - shift);
            }
        }
    }

    pub(super) fn presence_bits(&self, row: usize) -> u64 {
        let word = |place: usize| self.present.get(place).copied().unwrap_or(0);
        let (place, shift) = (row / 64, row % 64);
        if shift == 0 {
            word(place)
        } else {
            word(place) >> shift | word(place + 1) << (64 - shift)
        }
    }

    pub(super) fn retain_range(&mut self, rows: &Range<usize>) {
        // A column ends with its last value.
        let last = (rows.start..rows.end.min(self.rows)).rev().find(|row| self.get(*row).is_some());
        let Some(last) = last else {
            *self = Self::default();
            return;
        };
        let skipped = rows.start;
        if !self.values.is_empty() {
            self.values.truncate(last + 1);
            self.values.drain(..skipped);
        }
        self.rows = last + 1 - skipped;
        for word in 0..self.rows.div_ceil(64) {
            let left = self.rows - 64 * word;
            let bits = self.presence_bits(skipped + 64 * word) & low_bits(left);
            if let Some(word) = self.present.get_mut(word) {
                *word = bits;
            }
        }
        self.present.truncate(self.rows.div_ceil(64));
    }

    pub(super) fn growth_at(&self, row: usize) -> usize {
        row.saturating_add(1).saturating_sub(self.rows)
    }

    pub(super) fn set_value(&mut self, row: usize, value: f64) {
        if self.fits_constant(value) {
            self.same = value;
        } else {
            self.materialize_values();
            if self.values.len() <= row {
                self.values.resize(row + 1, 0.0);
            }
            if let Some(place) = self.values.get_mut(row) {
                *place = value;
            }
        }
        self.rows = self.rows.max(row + 1);
        if self.present.len() <= row / 64 {
            self.present.resize(row / 64 + 1, 0);
        }
        if let Some(word) = self.present.get_mut(row / 64) {
            *word |= 1 << (row % 64);
        }
    }
}

/// A word with the lowest bits set, all of them from 64 on.
fn low_bits(count: usize) -> u64 {
    if count < 64 { (1 << count) - 1 } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A column and a list of what its rows have, filled alike.
    fn filled_column(rows: &[Option<u8>]) -> (MetricColumn, Vec<Option<f64>>) {
        let mut column = MetricColumn::default();
        for (row, value) in rows.iter().enumerate() {
            match value {
                Some(value) if column.rows == row => column.push(f64::from(*value)),
                Some(value) => column.set_value(row, f64::from(*value)),
                None => {}
            }
        }
        (column, rows.iter().map(|value| value.map(f64::from)).collect())
    }

    proptest::proptest! {
        #[test]
        fn a_column_of_few_values_is_one_of_many(
            one in proptest::collection::vec(proptest::option::weighted(0.9, 0..2_u8), 0..200),
            next in proptest::collection::vec(proptest::option::weighted(0.9, 1..2_u8), 0..200),
            cut in (0..200_usize, 0..200_usize),
            late in (0..200_usize, 0..3_u8),
        ) {
            let ((mut column, mut rows), (behind, more)) = (filled_column(&one), filled_column(&next));
            column.extend_from_rows(rows.len(), 0..behind.rows, &behind);
            rows.extend(more);
            if late.0 < rows.len() {
                column.set_value(late.0, f64::from(late.1));
                rows[late.0] = Some(f64::from(late.1));
            }
            let told = |column: &MetricColumn| (0..rows.len() + 70).map(|row| column.get(row)).collect::<Vec<_>>();
            let held = |rows: &[Option<f64>], all: usize| {
                let mut rows = rows.to_vec();
                rows.resize(all, None);
                rows
            };
            proptest::prop_assert_eq!(told(&column), held(&rows, rows.len() + 70));
            let cut = cut.0.min(rows.len())..cut.1.min(rows.len());
            if cut.start <= cut.end {
                let mut part = column.clone();
                part.retain_range(&cut);
                proptest::prop_assert_eq!(told(&part), held(&rows[cut], rows.len() + 70));
            }
        }
    }
}
