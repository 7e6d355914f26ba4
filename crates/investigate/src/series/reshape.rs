//! Series cut, put on another clock, thinned.

use std::ops::Range;

use super::{Mark, MarkKind, MetricColumn, Moment, Series, SeriesSample};
use crate::Metric;

impl Series {
    /// The first and the last moment of its samples or of a log's lines.
    pub fn span(&self) -> Option<(Moment, Moment)> {
        // A clock that was set back leaves rows out of order.
        let moments = || self.samples.iter().map(|sample| sample.at);
        moments().min().zip(moments().max()).or(self.covered)
    }

    /// About how many bytes its rows take.
    pub fn estimate_bytes(&self) -> usize {
        let columns = self.columns.iter().chain(self.commands.values());
        let values: usize = columns.map(|column| column.values.len() + column.present.len()).sum();
        let words = |mark: &Mark| match &mark.kind {
            MarkKind::Event(event) => event.what.len(),
            MarkKind::Comment(text) => text.len(),
            MarkKind::Restart | MarkKind::Resumed => 0,
        };
        let marks: usize = self.marks.iter().map(|mark| words(mark) + size_of::<Mark>()).sum();
        values * size_of::<f64>() + self.samples.len() * size_of::<SeriesSample>() + marks
    }

    /// About how many bytes it takes beyond its rows.
    pub(crate) fn estimate_overhead(&self) -> usize {
        size_of::<Self>()
            + Metric::ALL.len()
            + (self.columns.iter().count() + self.commands.len()) * 2 * size_of::<MetricColumn>()
            + self.source.len()
    }

    pub(crate) fn clone_metadata(&self) -> Self {
        Self {
            host: self.host.clone(),
            kernel: self.kernel.clone(),
            architecture: self.architecture.clone(),
            source: self.source.clone(),
            format: self.format,
            version: self.version.clone(),
            clock: self.clock.clone(),
            base_page: self.base_page,
            counted_in: self.counted_in,
            huge_page: self.huge_page,
            problems: self.problems.clone(),
            without_year: self.without_year,
            unplaced: self.unplaced,
            relayed: self.relayed,
            untrusted: self.untrusted.clone(),
            ..Self::default()
        }
    }

    /// Moves every moment by `to`, which also gets where the row before was moved.
    pub(crate) fn shift_moments(&mut self, to: impl Fn(Moment, Option<Moment>) -> Moment) {
        for mark in &mut self.marks {
            mark.at = to(mark.at, None);
        }
        for problem in &mut self.problems {
            problem.at = problem.at.map(|at| to(at, None));
        }
        for seam in &mut self.seams {
            *seam = to(*seam, None);
        }
        self.covered = self.covered.map(|(first, last)| (to(first, None), to(last, None)));
        let mut before = None;
        for sample in &mut self.samples {
            sample.at = to(sample.at, before);
            before = Some(sample.at);
        }
    }

    /// Keeps the rows and marks of a window, both ends included.
    pub fn clip_to_window(&mut self, from: Option<Moment>, to: Option<Moment>) {
        let within =
            |at: Moment| from.is_none_or(|from| at >= from) && to.is_none_or(|to| at <= to);
        if self.span().is_some_and(|(first, last)| !within(first) || !within(last)) {
            if self.samples.is_sorted_by_key(|sample| sample.at) {
                let first = self
                    .samples
                    .partition_point(|sample| from.is_some_and(|from| sample.at < from));
                let end =
                    self.samples.partition_point(|sample| to.is_none_or(|to| sample.at <= to));
                self.retain_range(&(first..end.max(first)));
            } else {
                self.retain_rows(|_, sample| within(sample.at));
            }
        }
        self.marks.retain(|mark| within(mark.at));
        self.covered = self.covered.and_then(|(first, last)| {
            let (first, last) =
                (from.map_or(first, |from| from.max(first)), to.map_or(last, |to| to.min(last)));
            (first <= last).then_some((first, last))
        });
    }

    fn retain_range(&mut self, run: &Range<usize>) {
        let columns = self.columns.iter_mut().chain(self.commands.values_mut());
        columns.for_each(|column| column.retain_range(run));
        self.samples.truncate(run.end);
        self.samples.drain(..run.start.min(self.samples.len()));
    }

    pub(crate) fn retain_rows(&mut self, mut wanted: impl FnMut(usize, &SeriesSample) -> bool) {
        let kept = self.samples.iter().enumerate().filter(|(row, sample)| wanted(*row, sample));
        let kept: Vec<usize> = kept.map(|(row, _)| row).collect();
        let run = kept.first().zip(kept.last()).map(|(first, last)| *first..last + 1);
        if let Some(run) = run.filter(|run| run.len() == kept.len()) {
            self.retain_range(&run);
            return;
        }
        let columns = self.columns.iter_mut().chain(self.commands.values_mut());
        for column in columns {
            let mut left = MetricColumn::default();
            for (row, old) in kept.iter().enumerate() {
                if let Some(value) = column.get(*old) {
                    left.set_value(row, value);
                }
            }
            *column = left;
        }
        self.samples = kept.iter().filter_map(|row| self.samples.get(*row)).copied().collect();
    }

    /// Keeps about `most` rows outside of the windows: of each run of rows the one with the most
    /// time in the kernel and the one with the least free memory, with the two before each, so that
    /// the pace of the series stays visible.
    pub(crate) fn thin_rows(&mut self, most: usize, windows: &[(Moment, Moment)]) {
        const OF_A_RUN: usize = 6;
        let before = self.samples.len();
        if before <= most.max(OF_A_RUN) {
            return;
        }
        let run = before.div_ceil((most / OF_A_RUN).max(1));
        let value = |metric, row| self.value(metric, row);
        let mut wanted = vec![false; before];
        for start in (0..before).step_by(run) {
            let rows = || start..(start + run).min(before);
            let highest = rows().filter_map(|row| Some((row, value(Metric::CpuSystem, row)?)));
            let highest =
                highest.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(row, _)| row);
            let lowest = rows().filter_map(|row| Some((row, value(Metric::MemFree, row)?)));
            let lowest = lowest.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(row, _)| row);
            for row in [highest.unwrap_or(start), lowest.unwrap_or(start)] {
                if let Some(rows) = wanted.get_mut(row.saturating_sub(2)..=row) {
                    rows.fill(true);
                }
            }
        }
        self.retain_rows(|row, sample| {
            wanted.get(row) == Some(&true)
                || windows.iter().any(|(from, to)| (*from..=*to).contains(&sample.at))
        });
        self.left_out = self.left_out.saturating_add(before - self.samples.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_series(rows: i64) -> Series {
        let mut series = Series::new("x", crate::SourceFormat::SYSSTAT);
        for row in 0..rows {
            series.push(Moment(row), None);
            series.set_value(Metric::CpuSystem, if row == 777 { 90.0 } else { 1.0 });
            if row % 2 == 0 {
                series.set_value(Metric::MemFree, 1000.0);
            }
        }
        series.marks.push(Mark { at: Moment(5), kind: MarkKind::Restart });
        series
    }

    #[test]
    fn a_cut_leaves_what_is_within_with_its_values() {
        let mut cut = sample_series(20);
        cut.clip_to_window(Some(Moment(6)), Some(Moment(9)));
        assert_eq!(cut.span(), Some((Moment(6), Moment(9))));
        let free: Vec<_> = (0..5).map(|row| cut.value(Metric::MemFree, row)).collect();
        assert_eq!(free, [Some(1000.0), None, Some(1000.0), None, None]);
        assert!(cut.marks.is_empty());
        let mut whole = sample_series(20);
        whole.clip_to_window(Some(Moment(0)), None);
        assert_eq!(whole, sample_series(20));
        whole.clip_to_window(Some(Moment(100)), None);
        assert_eq!(
            (whole.samples().len(), whole.span(), whole.column(Metric::MemFree)),
            (0, None, None)
        );
    }

    #[test]
    fn what_stands_out_survives_thinning() {
        let mut thin = sample_series(100_000);
        let before = thin.estimate_bytes();
        thin.thin_rows(1000, &[(Moment(50_000), Moment(50_099))]);
        assert!((600..1200).contains(&thin.samples().len()), "{}", thin.samples().len());
        assert_eq!(thin.total_rows(), 100_000);
        assert!(thin.samples().iter().any(|sample| sample.at == Moment(777)));
        assert!(
            (50_000..50_100).all(|at| thin.samples().iter().any(|sample| sample.at == Moment(at)))
        );
        assert!(thin.estimate_bytes() < before / 50);
    }
}
