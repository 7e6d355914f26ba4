//! An incident beside the same hours of other days: whether it comes back, and what is usual then.

use jiff::civil::Date;

use crate::baseline::median_of;
use crate::page::bytes_from_f64;
use crate::signatures::observations::Observations;
use crate::signatures::rows::MINUTE;
use crate::{Clock, Incident, IncidentVerdict, Metric, Moment};

const DAY: i64 = 24 * 60 * MINUTE;
/// Days before and after that are looked at: eight weeks have eight of each weekday.
const FARTHEST: i64 = 56;
/// Milliseconds off that still are the same time of day: a job starts when the one before it ends.
const NEAR: i64 = 30 * MINUTE;
/// Milliseconds of an incident that is too long to have a time of day.
const LONGEST: i64 = 2 * 60 * MINUTE;
/// A host with more incidents than this is in trouble at every hour.
const MOST_INCIDENTS: usize = 200;
/// Days that are needed to say what is usual.
const FEWEST: usize = 3;
const NAMED: usize = 3;

pub(super) fn compare_other_days(
    observations: &Observations<'_>,
    clock: &Clock,
    incidents: &mut [Incident],
) {
    let all: Vec<(IncidentVerdict, Moment, Moment)> = incidents
        .iter()
        .filter(|one| has_time_of_day(one))
        .map(|one| (one.verdict, one.from, one.to))
        .collect();
    if all.len() > MOST_INCIDENTS {
        return;
    }
    for incident in incidents.iter_mut().filter(|incident| has_time_of_day(incident)) {
        incident.other_days =
            IncidentHours::new(observations, clock, incident).describe_other_days(&all);
    }
}

fn has_time_of_day(incident: &Incident) -> bool {
    let lasts = incident.to.0.saturating_sub(incident.from.0);
    incident.verdict.is_event() && lasts <= LONGEST
}

struct IncidentHours<'a> {
    observations: &'a Observations<'a>,
    clock: &'a Clock,
    incident: &'a Incident,
    days: Vec<i64>,
}

impl<'a> IncidentHours<'a> {
    fn new(observations: &'a Observations<'a>, clock: &'a Clock, incident: &'a Incident) -> Self {
        let mut hours = Self { observations, clock, incident, days: Vec::new() };
        let days = (-FARTHEST..=FARTHEST).filter(|day| *day != 0 && hours.has_samples(*day));
        hours.days = days.collect();
        hours
    }

    /// The incident's window on another day by the wall clock, whatever summer time does.
    fn window_on_day(&self, day: i64) -> (Moment, Moment) {
        let moved = |at: Moment| {
            let there = Moment(at.0.saturating_add(day.saturating_mul(DAY)));
            let offset = |at| i64::from(self.clock.offset_at(at).unwrap_or(0)).saturating_mul(1000);
            Moment(there.0.saturating_add(offset(at)).saturating_sub(offset(there)))
        };
        (moved(self.incident.from), moved(self.incident.to))
    }

    fn has_samples(&self, day: i64) -> bool {
        let (from, to) = self.window_on_day(day);
        self.observations.rows.iter().any(|rows| {
            let samples = rows.samples();
            let place = |at: Moment| samples.partition_point(|sample| sample.at < at);
            let within = place(Moment(to.0.saturating_add(rows.usual))).saturating_sub(place(from));
            let wanted = to.0.saturating_sub(from.0) / rows.usual.max(1) / 2;
            within > 0 && i64::try_from(within).is_ok_and(|within| within >= wanted)
        })
    }

    fn describe_other_days(&self, all: &[(IncidentVerdict, Moment, Moment)]) -> Vec<String> {
        if self.days.is_empty() {
            return Vec::new();
        }
        let alike: Vec<i64> =
            self.days.iter().copied().filter(|day| self.is_alike(*day, all)).collect();
        let mut words = vec![self.describe_recurrence(&alike)];
        words.extend(
            self.compare_with_usual(Metric::CpuSystem, "%system", &|value| format!("{value:.0}")),
        );
        words.extend(self.compare_with_usual(Metric::PageTables, "page tables", &|value| {
            bytes_from_f64(value).to_string()
        }));
        words
    }

    fn is_alike(&self, day: i64, all: &[(IncidentVerdict, Moment, Moment)]) -> bool {
        let (from, to) = self.window_on_day(day);
        all.iter().any(|(verdict, began, ended)| {
            *verdict == self.incident.verdict
                && began.0 <= to.0.saturating_add(NEAR)
                && ended.0 >= from.0.saturating_sub(NEAR)
        })
    }

    fn describe_recurrence(&self, alike: &[i64]) -> String {
        let days = |count: usize, text: &str| {
            if count == 1 { format!("1 other {text}") } else { format!("{count} other {text}s") }
        };
        let verdict = self.incident.verdict.label();
        if alike.is_empty() {
            return format!("no {verdict} at this time on {}", days(self.days.len(), "day"));
        }
        let weekday = |day: i64| Some(self.date_on_day(day)?.strftime("%A").to_string());
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
                days(same.len(), &own),
                days(others, "day"),
            ),
            None => {
                let latest = alike
                    .iter()
                    .rev()
                    .take(NAMED)
                    .filter_map(|day| self.date_on_day(*day))
                    .map(|date| date.to_string());
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

    fn compare_with_usual(
        &self,
        metric: Metric,
        name: &str,
        shown: &dyn Fn(f64) -> String,
    ) -> Option<String> {
        let here = self.highest_on_day(metric, 0)?;
        let mut there: Vec<f64> =
            self.days.iter().filter_map(|day| self.highest_on_day(metric, *day)).collect();
        let count = there.len();
        let usual = median_of(&mut there).filter(|_| count >= FEWEST)?;
        Some(format!(
            "{name} up to {}; at this time on {count} other days {} (median)",
            shown(here),
            shown(usual)
        ))
    }

    fn highest_on_day(&self, metric: Metric, day: i64) -> Option<f64> {
        let (from, to) = self.window_on_day(day);
        let values = self.observations.rows.iter().filter_map(|rows| {
            let column = rows.column(metric)?;
            let samples = rows.samples();
            let place = |at: Moment| samples.partition_point(|sample| sample.at < at);
            let until = place(Moment(to.0.saturating_add(1)));
            (place(from)..until).filter_map(|row| column.get(row)).max_by(f64::total_cmp)
        });
        values.max_by(f64::total_cmp)
    }

    fn date_on_day(&self, day: i64) -> Option<Date> {
        let (from, _) = self.window_on_day(day);
        self.clock.civil_time(from).map(|wall| wall.date())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{IncidentHistory, Series, SourceFormat, join, signatures};

    /// Monday, 2026-11-02T00:00:00Z: `date -u -d '2026-11-02' +%s`, `date -u -d '2026-11-02' +%A`.
    const MONDAY: i64 = 1_793_577_600_000;

    /// Four weeks of minutes; for ten minutes from 09:00 of some days on the kernel is busy and
    /// scans.
    fn history_with_storms(storms: &[i64]) -> IncidentHistory {
        let mut series = Series::new("sa", SourceFormat::SYSSTAT);
        for day in 0..28 {
            for minute in 0..1440 {
                let storms = storms.contains(&day) && (540..550).contains(&minute);
                series.push(
                    Moment(MONDAY + day * DAY + minute * MINUTE),
                    Some(Duration::from_secs(60)),
                );
                let noise = f64::from(u8::try_from(minute % 7).unwrap()) / 10.0;
                series.set_value(Metric::CpuSystem, if storms { 80.0 } else { 2.0 + noise });
                series.set_value(Metric::CpuUser, 20.0);
                series.set_value(Metric::ScanDirect, if storms { 90_000.0 } else { 0.0 });
                series.set_value(Metric::MemTotal, 16e9);
                series.set_value(Metric::MemFree, if storms { 1e8 } else { 4e9 });
            }
        }
        let clock = Clock::Utc { offsets: Vec::new() };
        series.clock = clock.clone();
        let mut history =
            IncidentHistory { clock, series: vec![series], ..IncidentHistory::default() };
        history.signatures = signatures::find_signatures(&history);
        join::join_incidents(&mut history);
        history
    }

    fn other_days_of_storms(storms: &[i64]) -> Vec<Vec<String>> {
        history_with_storms(storms)
            .incidents
            .into_iter()
            .map(|incident| incident.other_days)
            .collect()
    }

    #[test]
    fn every_monday_is_told_as_mondays() {
        let told = other_days_of_storms(&[0, 7, 21]);
        assert_eq!(told.len(), 3);
        for words in told {
            // Three other Mondays are there, of which one was quiet; 28 days less 4 Mondays are 24.
            assert_eq!(
                words[0],
                "reclaim storm at this time also on 2 of 3 other Mondays, and on none of 24 other \
                     days"
            );
            // The median of 27 days of which 2 had 80: the highest noise of ten minutes is 2.6.
            assert_eq!(words[1], "%system up to 80; at this time on 27 other days 3 (median)");
        }
    }

    #[test]
    fn what_was_there_once_is_told_as_that() {
        assert_eq!(
            other_days_of_storms(&[9])[0][0],
            "no reclaim storm at this time on 27 other days"
        );
        let days = other_days_of_storms(&[8, 9, 10]);
        assert_eq!(
            days[0][0],
            "reclaim storm at this time also on 2 of 27 other days: 2026-11-12, 2026-11-11"
        );
    }

    #[test]
    fn a_day_alone_is_compared_with_nothing() {
        let mut history = history_with_storms(&[9]);
        let nine = MONDAY + 9 * DAY;
        history.series.iter_mut().for_each(|series| {
            series.clip_to_window(Some(Moment(nine)), Some(Moment(nine + DAY - 1)))
        });
        history.incidents.clear();
        history.signatures = signatures::find_signatures(&history);
        join::join_incidents(&mut history);
        assert_eq!(history.incidents.len(), 1);
        assert!(history.incidents[0].other_days.is_empty());
    }
}
