//! What rose or fell in a window, and what was seen last before a host fell silent.

use super::window::{AROUND, IncidentWindow, rows_in};
use crate::page::bytes_from_f64;
use crate::signatures::rows::milliseconds_between;
use crate::signatures::{SESSION_COUNTS, page_tables};
use crate::{Metric, Moment, Series};

#[derive(Clone, Copy, Debug)]
pub(super) struct CountChange {
    pub(super) name: &'static str,
    pub(super) from: f64,
    pub(super) to: f64,
    between: (Moment, Moment),
}

/// Part by which a count has to change to be worth a word, and the least change.
const CHANGES: f64 = 0.1;
const CHANGES_BY: f64 = 5.0;

impl CountChange {
    fn size(&self) -> f64 {
        (self.to - self.from).abs()
    }
}

impl IncidentWindow<'_> {
    /// Of the counts that changed, the one that is nearest to sessions.
    pub(super) fn find_count_change(&self) -> Option<CountChange> {
        SESSION_COUNTS.into_iter().find_map(|(metric, name)| {
            let most = self.largest_change(metric, name)?;
            (most.size() >= CHANGES_BY && most.size() >= CHANGES * most.from.max(most.to))
                .then_some(most)
        })
    }

    fn largest_change(&self, metric: Metric, name: &'static str) -> Option<CountChange> {
        let all = self.history.series.iter();
        let changes = all.filter_map(|series| self.largest_change_in(series, metric, name));
        changes.max_by(|one, other| one.size().total_cmp(&other.size()))
    }

    /// The largest change in the window and its first interval, which begins before it.
    fn largest_change_in(
        &self,
        series: &Series,
        metric: Metric,
        name: &'static str,
    ) -> Option<CountChange> {
        let rows = rows_in(series, self.from, self.to);
        let before = (0..rows.start).rev().take(2).find(|row| series.value(metric, *row).is_some());
        let all = before.into_iter().chain(rows);
        let mut values =
            all.filter_map(|row| Some((series.samples().get(row)?.at, series.value(metric, row)?)));
        let first = values.next()?;
        let (mut lowest, mut highest) = (first, first);
        let mut most =
            CountChange { name, from: first.1, to: first.1, between: (first.0, first.0) };
        for now in values {
            for (at, from) in [lowest, highest] {
                let change = CountChange { name, from, to: now.1, between: (at, now.0) };
                if change.size() > most.size() {
                    most = change;
                }
            }
            if now.1 < lowest.1 {
                lowest = now;
            }
            if now.1 > highest.1 {
                highest = now;
            }
        }
        Some(most)
    }

    pub(super) fn page_table_change(&self, with: Option<&CountChange>) -> Option<(f64, f64)> {
        let Some(with) = with else {
            let most = self.largest_change(Metric::PageTables, "")?;
            return Some((most.from, most.to));
        };
        let near = |at: Moment| {
            let distance = |read: Moment| milliseconds_between(read, at).saturating_abs();
            self.page_table_readings()
                .min_by_key(|(read, _)| distance(*read))
                .filter(|(read, _)| distance(*read) <= AROUND)
        };
        near(with.between.0).zip(near(with.between.1)).map(|(before, behind)| (before.1, behind.1))
    }

    pub(super) fn last_seen(&self) -> Vec<String> {
        let last = |metric| {
            let value = |series: &Series| {
                let samples = series.samples();
                let row =
                    samples.partition_point(|sample| sample.at <= self.from).checked_sub(1)?;
                let passed = milliseconds_between(samples.get(row)?.at, self.from);
                series.value(metric, row).filter(|_| passed <= AROUND)
            };
            self.history.series.iter().find_map(value)
        };
        let at_least = |metric, least: f64| last(metric).filter(|value| *value >= least);
        let tables = last(Metric::PageTables)
            .zip(self.observations.memory)
            .filter(|(tables, total)| *tables >= page_tables::NOTICE * total);
        let seen = [
            last(Metric::CpuSystem).map(|percent| format!("%system {percent:.0}")),
            at_least(Metric::CpuIowait, 10.0).map(|percent| format!("%iowait {percent:.0}")),
            last(Metric::MemFree).map(|free| format!("free memory {}", bytes_from_f64(free))),
            tables.map(|(tables, _)| format!("page tables {}", bytes_from_f64(tables))),
            at_least(Metric::Blocked, 3.0)
                .map(|tasks| format!("{tasks:.0} tasks waiting for a disk")),
            at_least(Metric::RunQueue, 8.0)
                .map(|tasks| format!("{tasks:.0} tasks wanting a processor")),
        ];
        seen.into_iter().flatten().collect()
    }
}
