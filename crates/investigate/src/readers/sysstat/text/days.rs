//! Each first line of sar's begins a day of a host: days are read by themselves and then put in order,
//! however they were joined.

use std::collections::{BTreeMap, BTreeSet};

use hugewise_model::KernelRelease;
use hugewise_model::calendar::{DAY, civil_date};

use super::columns;
use super::date::Day;
use crate::series::Moment;
use crate::{Metric, Series};

pub(super) struct SarDay {
    pub(super) series: Series,
    /// Moments of restarts, and of comments with their words.
    pub(super) seen: BTreeSet<(i64, Option<String>)>,
    pub(super) kernel: Option<KernelRelease>,
    pub(super) processors: Option<u32>,
    pub(super) day: Day,
    misplaced: u64,
}

impl SarDay {
    pub(super) fn new(series: Series, day: Day) -> Self {
        let release = series.kernel.as_deref().unwrap_or_default();
        let kernel = hugewise_host::kernel::release::parse(release.as_bytes()).ok();
        Self { series, seen: BTreeSet::new(), kernel, processors: None, day, misplaced: 0 }
    }

    /// The row of a moment; a new one if it is the latest.
    pub(super) fn row_at(&mut self, at: i64, before: i64) -> Option<usize> {
        let moment = Moment::from_seconds(at);
        let samples = self.series.samples();
        if samples.last().is_none_or(|last| last.at < moment) {
            let interval = moment
                .duration_since(Moment::from_seconds(before))
                .filter(|interval| !interval.is_zero());
            self.series.push(moment, interval);
            let row = self.series.samples().len() - 1;
            if let Some(processors) = self.processors {
                self.series.set_at(row, Metric::Processors, f64::from(processors));
            }
            return Some(row);
        }
        let row = samples.binary_search_by_key(&moment, |sample| sample.at).ok();
        self.misplaced += u64::from(row.is_none());
        row
    }

    /// Takes the other day that its date may mean.
    fn take_unlikely_day(&mut self) {
        let Some(other) = self.day.unlikely.take() else { return };
        let moved = Moment::from_seconds(other - self.day.midnight).0;
        self.day.midnight = other;
        self.series.shift_moments(|at, _| Moment(at.0.saturating_add(moved)));
    }

    fn into_series(mut self) -> Series {
        columns::distrust_metrics(&mut self.series, self.kernel.as_ref());
        if self.misplaced > 0 {
            let misplaced = self.misplaced;
            self.series.add_problem(format!(
                "{misplaced} lines have times that other tables lack and are left out"
            ));
        }
        self.series
    }
}

/// One series for each host, in the order in which they were first named; days that tell of the same
/// time stay apart.
pub(super) fn join_days(days: Vec<SarDay>, source: &str) -> Vec<Series> {
    let mut places: BTreeMap<Option<String>, usize> = BTreeMap::new();
    let mut hosts: Vec<Vec<SarDay>> = Vec::new();
    for day in days {
        let place = *places.entry(day.series.host.clone()).or_insert(hosts.len());
        match hosts.get_mut(place) {
            Some(host) => host.push(day),
            None => hosts.push(vec![day]),
        }
    }
    let mut all = Vec::new();
    for mut days in hosts {
        if is_other_order_right(&days, source) {
            days.iter_mut().for_each(SarDay::take_unlikely_day);
        }
        days.sort_by_key(|day| day.day.midnight);
        let mut joined: Vec<Series> = Vec::new();
        for part in days.into_iter().map(SarDay::into_series) {
            let begins = part.samples().first().map(|first| first.at);
            let reached = |whole: &&mut Series| whole.samples().last().map(|last| last.at);
            match joined.last_mut().filter(|whole| begins.is_none() || begins >= reached(whole)) {
                Some(whole) => _ = whole.append(part),
                None => joined.push(part),
            }
        }
        all.extend(joined.into_iter().map(Series::finish));
    }
    all
}

/// Whether dates were read with month and day in the wrong order: the other one makes the days follow
/// each other, or fits the file's name.
fn is_other_order_right(days: &[SarDay], source: &str) -> bool {
    let other = |day: &SarDay| day.day.unlikely.unwrap_or(day.day.midnight);
    if days.iter().all(|day| day.day.unlikely.is_none()) {
        return false;
    }
    let follow = |midnight_of: &dyn Fn(&SarDay) -> i64| {
        let all: BTreeSet<i64> = days.iter().map(midnight_of).collect();
        all.len() > 1 && all.iter().zip(all.iter().skip(1)).all(|(one, next)| next - one == DAY)
    };
    if let ([only], Some(named)) = (days, day_in_file_name(source)) {
        let day_of = |midnight| civil_date(midnight).map(|(_, _, day)| day);
        return day_of(only.day.midnight) != Some(named) && day_of(other(only)) == Some(named);
    }
    follow(&other) && !follow(&|day: &SarDay| day.day.midnight)
}

/// The day of `sar21` and `sa21`, as sysstat names files.
fn day_in_file_name(source: &str) -> Option<i64> {
    let name = source.rsplit(['/', ':']).next()?;
    let digits = name.strip_prefix("sar").or_else(|| name.strip_prefix("sa"))?;
    let digits = digits.split('.').next()?;
    digits.parse().ok().filter(|_| digits.len() == 2)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    /// Two rows, ten minutes apart.
    fn print_day(date: &str) -> String {
        format!(
            "Linux 5.14.0 (db1) \t{date} \t_x86_64_\t(2 CPU)\n\n10:00:00 CPU %user %nice %system \
             %iowait %steal %idle\n10:10:00 all 1.00 0.00 2.00 0.00 0.00 97.00\n10:20:00 all 1.00 \
             0.00 2.00 0.00 0.00 97.00\n\n"
        )
    }

    fn read_moments(text: &str, source: &str) -> Vec<i64> {
        let all = super::super::read(&mut text.as_bytes(), source).unwrap();
        assert_eq!((all.len(), &all[0].problems), (1, &Vec::new()), "{text}");
        all[0].samples().iter().map(|sample| sample.at.0 / 1000).collect()
    }

    /// `date -u -d '2024-05-10 10:10:00' +%s`, and of 2024-10-05.
    const MAY_10: i64 = 1_715_335_800;
    const OCTOBER_5: i64 = 1_728_123_000;

    #[test]
    fn days_are_put_in_order() {
        let text = print_day("2024-05-11") + &print_day("2024-05-10");
        let next = MAY_10 + DAY;
        assert_eq!(read_moments(&text, "sar.txt"), [MAY_10, MAY_10 + 600, next, next + 600]);
    }

    #[test]
    fn dates_are_read_so_that_days_follow_each_other() {
        let text = print_day("05/10/2024") + &print_day("05/11/2024");
        assert_eq!(read_moments(&text, "sar.txt")[0], MAY_10);
        let text = print_day("05/10/2024") + &print_day("06/10/2024");
        assert_eq!(read_moments(&text, "sar.txt")[0], OCTOBER_5);
        let alone = print_day("05/10/2024");
        assert_eq!(read_moments(&alone, "var/log/sa/sar10")[0], MAY_10);
        assert_eq!(read_moments(&alone, "var/log/sa/sar05")[0], OCTOBER_5);
        assert_eq!(read_moments(&alone, "sar.txt")[0], OCTOBER_5);
    }
}
