//! What is usual in a file, so that what stands out does so by the host's own measure.
//!
//! Median and MAD: up to half of the rows may be of the trouble itself before they move. Nothing
//! here sorts a whole column, so that a day of 86,400 rows takes milliseconds.

/// Rows below which nothing is called usual: two hours of sysstat's default.
pub(crate) const FEWEST: usize = 12;
/// MAD times this is the standard deviation of a normal distribution (Hampel 1974).
const MAD_TO_SIGMA: f64 = 1.4826;
/// Points of a regression: their pairs are a few ten thousand.
pub(crate) const MOST_POINTS: usize = 240;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Baseline {
    pub median: f64,
    /// How far values usually are from the median, as a standard deviation.
    pub spread: f64,
}

impl Baseline {
    /// Of values in any order, which are reordered. `floor` keeps a column that hardly moves from
    /// making a spike of everything. `None` where there are too few.
    pub(crate) fn from_values(values: &mut [f64], floor: f64) -> Option<Self> {
        if values.len() < FEWEST {
            return None;
        }
        let median = median_of(values)?;
        for value in values.iter_mut() {
            *value = (*value - median).abs();
        }
        let spread = median_of(values)? * MAD_TO_SIGMA;
        Some(Self { median, spread: spread.max(floor) })
    }

    pub(crate) fn z_score(&self, value: f64) -> f64 {
        (value - self.median) / self.spread
    }
}

/// The upper median; the values are reordered.
pub(crate) fn median_of(values: &mut [f64]) -> Option<f64> {
    value_at_percentile(values, 0.5)
}

/// The value that a part of all, from 0 to 1, is not above; the values are reordered.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place among as many values"
)]
pub(crate) fn value_at_percentile(values: &mut [f64], part: f64) -> Option<f64> {
    let place = (part.clamp(0.0, 1.0) * values.len() as f64) as usize;
    let place = place.min(values.len().checked_sub(1)?);
    Some(*values.select_nth_unstable_by(place, f64::total_cmp).1)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slope {
    /// Growth of the second for each one of the first.
    pub each: f64,
    /// The part of the second's variation that this explains, by median deviations: 1 is all.
    pub explains: f64,
}

/// Theil and Sen: the median of the slopes between all pairs of points, which up to 29 % outliers
/// cannot mislead. `None` with too few points, or where the first hardly varies.
pub(crate) fn theil_sen_slope(points: &[(f64, f64)]) -> Option<Slope> {
    let stride = points.len().div_ceil(MOST_POINTS).max(1);
    let some: Vec<(f64, f64)> = points.iter().copied().step_by(stride).collect();
    if some.len() < FEWEST {
        return None;
    }
    let mut slopes = Vec::with_capacity(some.len() * some.len() / 2);
    for (place, (x, y)) in some.iter().enumerate() {
        let others =
            some.iter().skip(place + 1).filter(|(other, _)| (other - x).abs() > f64::EPSILON);
        slopes.extend(others.map(|(other_x, other_y)| (other_y - y) / (other_x - x)));
    }
    // Pairs at one x say nothing.
    if slopes.len() < some.len() {
        return None;
    }
    let each = median_of(&mut slopes)?;
    let deviation = |values: Vec<f64>| {
        let mut values = values;
        let center = median_of(&mut values)?;
        values.iter_mut().for_each(|value| *value = (*value - center).abs());
        value_at_percentile(&mut values, 0.75)
    };
    let whole = deviation(some.iter().map(|(_, y)| *y).collect())?;
    let left = deviation(some.iter().map(|(x, y)| y - each * x).collect())?;
    let explains = if whole > 0.0 { 1.0 - (left / whole).powi(2) } else { 0.0 };
    Some(Slope { each, explains })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_third_of_the_rows_does_not_move_what_is_usual() {
        let quiet: Vec<f64> = (0..20).map(|row| 2.0 + f64::from(row % 5) * 0.1).collect();
        let baseline = Baseline::from_values(&mut quiet.clone(), 0.0).unwrap();
        // Five values four times each: the middle one; distances 0, 0.1, 0.1, 0.2, 0.2.
        assert!(
            (baseline.median - 2.2).abs() < 1e-9 && (baseline.spread - 0.14826).abs() < 1e-9,
            "{baseline:?}"
        );
        let mut stormy = quiet;
        stormy.extend([69.0; 8]);
        let with = Baseline::from_values(&mut stormy, 1.0).unwrap();
        assert!(with.median <= 2.4 && with.spread == 1.0 && with.z_score(69.0) > 60.0, "{with:?}");
    }

    #[test]
    fn few_rows_have_no_baseline() {
        assert_eq!(Baseline::from_values(&mut [1.0; FEWEST - 1], 1.0), None);
        assert_eq!(median_of(&mut []), None);
    }

    #[test]
    fn sessions_of_a_10_gib_segment_cost_20_mib_each() {
        // 10 GiB / 512, with one point in ten far off.
        let each = 20.0 * 1_048_576.0;
        let points: Vec<(f64, f64)> = (0..100)
            .map(|row| {
                (f64::from(row), if row % 10 == 0 { 9e9 } else { 3e8 + each * f64::from(row) })
            })
            .collect();
        let slope = theil_sen_slope(&points).unwrap();
        assert!((slope.each / each - 1.0).abs() < 0.05 && slope.explains > 0.9, "{slope:?}");
    }

    #[test]
    fn what_does_not_vary_has_no_slope() {
        assert_eq!(theil_sen_slope(&[(5.0, 1.0); 50]), None);
        let mut one_step = vec![(5.0, 1.0); 1000];
        one_step.push((6.0, 9.0));
        assert_eq!(theil_sen_slope(&one_step), None);
    }

    proptest! {
        #[test]
        fn half_is_below_the_median(mut values in prop::collection::vec(-1e12..1e12, 1..200)) {
            let middle = median_of(&mut values).unwrap();
            let below = values.iter().filter(|value| **value < middle).count();
            let above = values.iter().filter(|value| **value > middle).count();
            prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
        }
    }
}
