//! Chooses which of many rows are drawn: the extremes of each column, and more under a zoom.

#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// The end of each column, in order.
    ends: Vec<i64>,
}

/// Windows after these are not drawn finer.
const MOST_DETAILS: usize = 24;

impl Columns {
    /// Each window of `details`, with as much again on both sides, gets a fifth of `columns` for
    /// itself.
    pub(crate) fn new(span: (i64, i64), columns: u32, details: &[(i64, i64)]) -> Self {
        let mut ends = column_ends(span, columns);
        for (from, to) in details.iter().take(MOST_DETAILS) {
            let around = to.saturating_sub(*from).max(60_000);
            let from = from.saturating_sub(around).max(span.0);
            let to = to.saturating_add(around).min(span.1);
            if from < to {
                ends.extend(column_ends((from, to), columns / 5));
            }
        }
        ends.sort_unstable();
        ends.dedup();
        Self { ends }
    }

    /// Places, in order, of the rows with the least or the most of a weight in their column.
    pub(crate) fn select_extreme_rows<T>(
        &self,
        rows: &[T],
        at: impl Fn(&T) -> i64,
        weights: &[&dyn Fn(&T) -> f64],
    ) -> Vec<usize> {
        let mut kept = Vec::new();
        let mut ends = self.ends.iter().copied().peekable();
        let mut first = 0;
        while let Some(row) = rows.get(first) {
            while ends.peek().is_some_and(|end| *end <= at(row)) {
                ends.next();
            }
            let end = ends.peek().copied().unwrap_or(i64::MAX);
            let here = rows.get(first..).unwrap_or_default();
            let count = here.iter().take_while(|row| at(row) < end).count().max(1);
            let here = here.get(..count).unwrap_or_default();
            let before = kept.len();
            for weigh in weights {
                let by = |a: &(usize, &T), b: &(usize, &T)| weigh(a.1).total_cmp(&weigh(b.1));
                let (least, most) =
                    (here.iter().enumerate().min_by(by), here.iter().enumerate().max_by(by));
                kept.extend([least, most].into_iter().flatten().map(|(place, _)| first + place));
            }
            if let Some(new) = kept.get_mut(before..) {
                new.sort_unstable();
            }
            first += count;
        }
        kept.dedup();
        kept
    }
}

fn column_ends((from, to): (i64, i64), columns: u32) -> Vec<i64> {
    let columns = i64::from(columns.max(1));
    let length = i128::from(to) - i128::from(from);
    (1..=columns)
        .filter_map(|column| {
            i64::try_from(i128::from(from) + length * i128::from(column) / i128::from(columns)).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(columns: &Columns, rows: &[(i64, f64)]) -> Vec<(i64, f64)> {
        columns
            .select_extreme_rows(rows, |row| row.0, &[&|row: &(i64, f64)| row.1])
            .into_iter()
            .map(|place| rows[place])
            .collect()
    }

    #[test]
    fn a_spike_of_one_row_is_among_a_thousand() {
        let mut rows: Vec<(i64, f64)> = (0..86_400)
            .map(|at| (at * 1000, 2.0 + f64::from(i32::try_from(at % 3).unwrap())))
            .collect();
        rows[30_000].1 = 99.0;
        let thin = kept(&Columns::new((0, 86_400_000), 1000, &[]), &rows);
        assert!((1000..=2000).contains(&thin.len()), "{}", thin.len());
        assert!(thin.contains(&(30_000_000, 99.0)));
        // Around a window of a minute every second is there.
        let fine = kept(&Columns::new((0, 86_400_000), 1000, &[(30_000_000, 30_060_000)]), &rows);
        let near = fine.iter().filter(|(at, _)| (29_945_000..30_115_000).contains(at)).count();
        assert!(near >= 170, "{near}");
    }

    proptest! {
        #[test]
        fn the_ends_of_all_values_are_kept(mut rows in prop::collection::vec((any::<i64>(), -1e9_f64..1e9), 1..200), columns in 0_u32..20) {
            rows.sort_by_key(|row| row.0);
            let span = (rows[0].0, rows[rows.len() - 1].0);
            let thin = kept(&Columns::new(span, columns, &[span]), &rows);
            let ends = |rows: &[(i64, f64)]| rows.iter().fold((f64::MAX, f64::MIN), |ends, row| (ends.0.min(row.1), ends.1.max(row.1)));
            prop_assert_eq!(ends(&thin), ends(&rows));
            prop_assert!(thin.is_sorted_by_key(|row| row.0));
        }
    }
}
