//! What rose or fell in a window, and what was seen last before a host fell silent.

use super::window::{AROUND, Window, rows_in};
use crate::page::bytes;
use crate::signatures::page_tables;
use crate::signatures::rows::apart;
use crate::{Metric, Moment, Series};

/// A count that rose or fell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) name: &'static str,
    pub(super) from: f64,
    pub(super) to: f64,
    /// Between these moments.
    between: (Moment, Moment),
}

/// Part by which a count has to change to be worth a word, and the least.
const CHANGES: f64 = 0.1;
const CHANGES_BY: f64 = 5.0;

impl Change {
    fn size(&self) -> f64 {
        (self.to - self.from).abs()
    }
}

impl Window<'_> {
    /// Of the counts that changed, the one that is nearest to sessions.
    pub(super) fn count(&self) -> Option<Change> {
        let counts = [(Metric::Sessions, "sessions"), (Metric::Processes, "processes"), (Metric::Tasks, "tasks")];
        counts.into_iter().find_map(|(metric, name)| {
            let changes = self.history.series.iter().filter_map(|series| self.change(series, metric, name));
            let most = changes.max_by(|one, other| one.size().total_cmp(&other.size()))?;
            (most.size() >= CHANGES_BY && most.size() >= CHANGES * most.from.max(most.to)).then_some(most)
        })
    }

    /// Where a metric of one source rose or fell most in the window. What the window's first rate is of began before it.
    fn change(&self, series: &Series, metric: Metric, name: &'static str) -> Option<Change> {
        let rows = rows_in(series, self.from, self.to);
        let before = (0..rows.start).rev().take(2).find(|row| series.value(metric, *row).is_some());
        let all = before.into_iter().chain(rows);
        let mut values = all.filter_map(|row| Some((series.samples().get(row)?.at, series.value(metric, row)?)));
        let first = values.next()?;
        let (mut lowest, mut highest) = (first, first);
        let mut most = Change { name, from: first.1, to: first.1, between: (first.0, first.0) };
        for now in values {
            for (at, from) in [lowest, highest] {
                let change = Change { name, from, to: now.1, between: (at, now.0) };
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

    /// Page tables before and behind a change.
    pub(super) fn grown(&self, with: Option<&Change>) -> Option<(f64, f64)> {
        let Some(with) = with else {
            let all = self.history.series.iter().filter_map(|series| self.change(series, Metric::PageTables, ""));
            let most = all.max_by(|one, other| one.size().total_cmp(&other.size()))?;
            return Some((most.from, most.to));
        };
        let near = |at: Moment| {
            let all =
                self.history.series.iter().filter_map(|series| Some((series, series.column(Metric::PageTables)?)));
            let read = all.flat_map(|(series, column)| {
                column.iter().filter_map(|(row, bytes)| Some((series.samples().get(row)?.at, bytes)))
            });
            read.min_by_key(|(read, _)| apart(*read, at).saturating_abs())
                .filter(|(read, _)| apart(*read, at).saturating_abs() <= AROUND)
        };
        near(with.between.0).zip(near(with.between.1)).map(|(before, behind)| (before.1, behind.1))
    }

    /// What was seen last before a host fell silent.
    pub(super) fn last_seen(&self) -> Vec<String> {
        let last = |metric| {
            let value = |series: &Series| {
                let end = series.samples().partition_point(|sample| sample.at <= self.from);
                let near = end.checked_sub(1).filter(|row| {
                    series.samples().get(*row).is_some_and(|sample| apart(sample.at, self.from) <= AROUND)
                })?;
                series.value(metric, near)
            };
            self.history.series.iter().find_map(value)
        };
        let mut seen = Vec::new();
        seen.extend(last(Metric::CpuSystem).map(|percent| format!("%system {percent:.0}")));
        seen.extend(
            last(Metric::CpuIowait).filter(|percent| *percent >= 10.0).map(|percent| format!("%iowait {percent:.0}")),
        );
        seen.extend(last(Metric::MemFree).map(|free| format!("free memory {}", bytes(free))));
        let tables = last(Metric::PageTables).zip(self.observations.memory);
        let tables = tables.filter(|(tables, total)| *tables >= page_tables::NOTICE * total);
        seen.extend(tables.map(|(tables, _)| format!("page tables {}", bytes(tables))));
        seen.extend(
            last(Metric::Blocked)
                .filter(|tasks| *tasks >= 3.0)
                .map(|tasks| format!("{tasks:.0} tasks waiting for a disk")),
        );
        seen.extend(
            last(Metric::RunQueue)
                .filter(|tasks| *tasks >= 8.0)
                .map(|tasks| format!("{tasks:.0} tasks wanting a processor")),
        );
        seen
    }
}
