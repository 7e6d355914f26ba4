//! An incident beside the same hours of other days: whether it comes back at its time of day, and what is usual then.

use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;

use crate::baseline::median;
use crate::page::bytes;
use crate::signatures::observations::Observations;
use crate::signatures::rows::MINUTE;
use crate::{Clock, Incident, Metric, Moment, Verdict};

const DAY: i64 = 24 * 60 * MINUTE;
/// Days before and behind that are looked at: eight weeks have eight of each weekday.
const FARTHEST: i64 = 56;
/// What is not at the minute of the day is still at its time: a job starts when the one before it is done.
const NEAR: i64 = 30 * MINUTE;
/// What lasts longer has no time of day.
const LONGEST: i64 = 2 * 60 * MINUTE;
/// A host with more incidents than this is in trouble at every hour.
const MOST_INCIDENTS: usize = 200;
/// So many days are needed to say what is usual.
const FEWEST: usize = 3;
/// Days that are named.
const NAMED: usize = 3;

/// Tells each incident what is known of its hours on other days.
pub(super) fn tell(observations: &Observations<'_>, clock: &Clock, incidents: &mut [Incident]) {
    let all: Vec<(Verdict, Moment, Moment)> =
        incidents.iter().filter(|one| has_time_of_day(one)).map(|one| (one.verdict, one.from, one.to)).collect();
    if all.len() > MOST_INCIDENTS {
        return;
    }
    for incident in incidents.iter_mut().filter(|incident| has_time_of_day(incident)) {
        incident.other_days = Hours::of(observations, clock, incident).words(&all);
    }
}

fn has_time_of_day(incident: &Incident) -> bool {
    let lasts =
        matches!(incident.verdict, Verdict::PageTablesStanding | Verdict::PageTablesGrowing | Verdict::PoolUnused);
    !lasts && incident.to.0.saturating_sub(incident.from.0) <= LONGEST
}

/// The hours of an incident on the days that have samples of them.
struct Hours<'a> {
    observations: &'a Observations<'a>,
    clock: &'a Clock,
    incident: &'a Incident,
    /// Days from the incident's, in order.
    days: Vec<i64>,
}

impl<'a> Hours<'a> {
    fn of(observations: &'a Observations<'a>, clock: &'a Clock, incident: &'a Incident) -> Self {
        let mut hours = Self { observations, clock, incident, days: Vec::new() };
        let days = (-FARTHEST..=FARTHEST).filter(|day| *day != 0 && hours.has_samples(*day));
        hours.days = days.collect();
        hours
    }

    /// The incident's window on another day, by the wall: an hour stays the hour when summer begins.
    fn window(&self, day: i64) -> (Moment, Moment) {
        let moved = |at: Moment| {
            let there = Moment(at.0.saturating_add(day.saturating_mul(DAY)));
            let offset = |at| i64::from(self.clock.offset_at(at).unwrap_or(0)).saturating_mul(1000);
            Moment(there.0.saturating_add(offset(at)).saturating_sub(offset(there)))
        };
        (moved(self.incident.from), moved(self.incident.to))
    }

    fn has_samples(&self, day: i64) -> bool {
        let (from, to) = self.window(day);
        self.observations.rows.iter().any(|rows| {
            let samples = rows.samples();
            // Half of the window at least, at the source's own pace.
            let place = |at: Moment| samples.partition_point(|sample| sample.at < at);
            let within = place(Moment(to.0.saturating_add(rows.usual))).saturating_sub(place(from));
            let wanted = to.0.saturating_sub(from.0) / rows.usual.max(1) / 2;
            within > 0 && i64::try_from(within).is_ok_and(|within| within >= wanted)
        })
    }

    fn words(&self, all: &[(Verdict, Moment, Moment)]) -> Vec<String> {
        if self.days.is_empty() {
            return Vec::new();
        }
        let alike: Vec<i64> = self.days.iter().copied().filter(|day| self.is_alike(*day, all)).collect();
        let mut words = vec![self.again(&alike)];
        words.extend(self.usual(Metric::CpuSystem, "%system", &|value| format!("{value:.0}")));
        words.extend(self.usual(Metric::PageTables, "page tables", &|value| bytes(value).to_string()));
        words
    }

    /// Whether another day had the same at about this time.
    fn is_alike(&self, day: i64, all: &[(Verdict, Moment, Moment)]) -> bool {
        let (from, to) = self.window(day);
        all.iter().any(|(verdict, began, ended)| {
            *verdict == self.incident.verdict
                && began.0 <= to.0.saturating_add(NEAR)
                && ended.0 >= from.0.saturating_sub(NEAR)
        })
    }

    /// How often it was there.
    fn again(&self, alike: &[i64]) -> String {
        let days =
            |count: usize, of: &str| if count == 1 { format!("1 other {of}") } else { format!("{count} other {of}s") };
        let verdict = self.incident.verdict.name();
        if alike.is_empty() {
            return format!("no {verdict} at this time on {}", days(self.days.len(), "day"));
        }
        let weekday = |day: i64| self.date(day).map(|date| date.weekday());
        let own = weekday(0);
        let same: Vec<i64> = self.days.iter().copied().filter(|day| weekday(*day) == own).collect();
        let others = self.days.len() - same.len();
        let weekly = same.len() >= 2
            && others > 0
            && alike.len() * 2 >= same.len()
            && alike.iter().all(|day| same.contains(day));
        match own.filter(|_| weekly) {
            Some(own) => format!(
                "{verdict} at this time also on {} of {}, and on none of {}",
                alike.len(),
                days(same.len(), name(own)),
                days(others, "day"),
            ),
            None => {
                let latest =
                    alike.iter().rev().take(NAMED).filter_map(|day| self.date(*day)).map(|date| date.to_string());
                let named = latest.collect::<Vec<_>>().join(", ");
                let more = if alike.len() > NAMED { " and earlier" } else { "" };
                format!(
                    "{verdict} at this time also on {} of {}: {named}{more}",
                    alike.len(),
                    days(self.days.len(), "day")
                )
            }
        }
    }

    /// The highest value in the window, beside that of the same hours of the other days.
    fn usual(&self, metric: Metric, name: &str, shown: &dyn Fn(f64) -> String) -> Option<String> {
        let here = self.highest(metric, 0)?;
        let mut there: Vec<f64> = self.days.iter().filter_map(|day| self.highest(metric, *day)).collect();
        let count = there.len();
        let usual = median(&mut there).filter(|_| count >= FEWEST)?;
        Some(format!("{name} up to {}; at this time on {count} other days {} (median)", shown(here), shown(usual)))
    }

    fn highest(&self, metric: Metric, day: i64) -> Option<f64> {
        let (from, to) = self.window(day);
        let values = self.observations.rows.iter().filter_map(|rows| {
            let column = rows.column(metric)?;
            let samples = rows.samples();
            let place = |at: Moment| samples.partition_point(|sample| sample.at < at);
            let until = place(Moment(to.0.saturating_add(1)));
            (place(from)..until).filter_map(|row| column.get(row)).max_by(f64::total_cmp)
        });
        values.max_by(f64::total_cmp)
    }

    /// The date by the host's wall, so many days from the incident's.
    fn date(&self, day: i64) -> Option<jiff::civil::Date> {
        let (from, _) = self.window(day);
        let offset = i64::from(self.clock.offset_at(from).unwrap_or(0)).saturating_mul(1000);
        let wall = Timestamp::from_millisecond(from.0.saturating_add(offset)).ok()?;
        Some(wall.to_zoned(TimeZone::UTC).date())
    }
}

const fn name(day: Weekday) -> &'static str {
    match day {
        Weekday::Monday => "Monday",
        Weekday::Tuesday => "Tuesday",
        Weekday::Wednesday => "Wednesday",
        Weekday::Thursday => "Thursday",
        Weekday::Friday => "Friday",
        Weekday::Saturday => "Saturday",
        Weekday::Sunday => "Sunday",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Format, History, Series, join, signatures};

    /// Monday, 2026-11-02T00:00:00Z: `date -u -d '2026-11-02' +%s`, `date -u -d '2026-11-02' +%A`.
    const MONDAY: i64 = 1_793_577_600_000;

    /// Four weeks of minutes; for ten minutes from 09:00 of some days on the kernel is busy and scans.
    fn weeks(storms: &[i64]) -> History {
        let mut series = Series::new("sa", Format::Sysstat);
        for day in 0..28 {
            for minute in 0..1440 {
                let storms = storms.contains(&day) && (540..550).contains(&minute);
                series.push(Moment(MONDAY + day * DAY + minute * MINUTE), Some(Duration::from_secs(60)));
                let noise = f64::from(u8::try_from(minute % 7).unwrap()) / 10.0;
                series.set(Metric::CpuSystem, if storms { 80.0 } else { 2.0 + noise });
                series.set(Metric::CpuUser, 20.0);
                series.set(Metric::ScanDirect, if storms { 90_000.0 } else { 0.0 });
                series.set(Metric::MemTotal, 16e9);
                series.set(Metric::MemFree, if storms { 1e8 } else { 4e9 });
            }
        }
        let clock = Clock::Utc { offsets: Vec::new() };
        series.clock = clock.clone();
        let mut history = History { clock, series: vec![series], ..History::default() };
        history.signatures = signatures::find(&history);
        join::incidents(&mut history);
        history
    }

    fn told(storms: &[i64]) -> Vec<Vec<String>> {
        weeks(storms).incidents.into_iter().map(|incident| incident.other_days).collect()
    }

    #[test]
    fn every_monday_is_told_as_mondays() {
        let told = told(&[0, 7, 21]);
        assert_eq!(told.len(), 3);
        for words in told {
            // Three other Mondays are there, of which one was quiet; 28 days less 4 Mondays are 24.
            assert_eq!(
                words[0],
                "reclaim-storm at this time also on 2 of 3 other Mondays, and on none of 24 other days"
            );
            // The median of 27 days of which 2 had 80: the highest noise of ten minutes is 2.6.
            assert_eq!(words[1], "%system up to 80; at this time on 27 other days 3 (median)");
        }
    }

    #[test]
    fn what_was_there_once_is_told_as_that() {
        assert_eq!(told(&[9])[0][0], "no reclaim-storm at this time on 27 other days");
        let days = told(&[8, 9, 10]);
        assert_eq!(days[0][0], "reclaim-storm at this time also on 2 of 27 other days: 2026-11-12, 2026-11-11");
    }

    #[test]
    fn a_day_alone_is_compared_with_nothing() {
        let mut history = weeks(&[9]);
        let nine = MONDAY + 9 * DAY;
        history.series.iter_mut().for_each(|series| series.cut(Some(Moment(nine)), Some(Moment(nine + DAY - 1))));
        history.incidents.clear();
        history.signatures = signatures::find(&history);
        join::incidents(&mut history);
        assert_eq!(history.incidents.len(), 1);
        assert!(history.incidents[0].other_days.is_empty());
    }
}
