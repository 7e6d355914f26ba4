//! Clocks: moments of a wall put on UTC, and times as people write them.

use hugewise_model::calendar::{self, civil_time, parse_utc_offset};
use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::fmt::temporal::Pieces;
use jiff::tz::{Offset as Zoned, TimeZone};

use crate::series::{Offset, offset_at};
use crate::{Clock, Error, Moment};

/// Changes of the clock that are looked at: two thousand years of two a year.
const MOST_CHANGES: usize = 4096;
const DAY: i64 = calendar::DAY * 1000;

/// A zone by its name, `Europe/Berlin`, or by its offset, `+02:00`.
pub(crate) fn parse_time_zone(text: &str) -> Result<TimeZone, Error> {
    if let Some(seconds) = parse_given_offset(text) {
        let fixed = Zoned::from_seconds(seconds).map(TimeZone::fixed);
        return fixed.map_err(|error| Error::Offset(text.to_owned(), error.to_string()));
    }
    TimeZone::get(text).map_err(|_| Error::Zone(text.to_owned()))
}

/// Seconds of `Z`, `UTC`, `+02:00`, `-0330`, `+5`.
fn parse_given_offset(text: &str) -> Option<i32> {
    match text.split_at_checked(1) {
        _ if matches!(text, "z" | "utc") => Some(0),
        Some((sign, hour)) if hour.len() == 1 || hour.get(1..2) == Some(":") => {
            parse_utc_offset(&format!("{sign}0{hour}"))
        }
        _ => parse_utc_offset(text),
    }
}

/// The offset of an abbreviation that means UTC: others are each of several zones.
pub(crate) fn offset_of_abbreviation(abbreviation: &str) -> Option<i32> {
    matches!(abbreviation, "UTC" | "GMT" | "UCT" | "Z" | "Universal" | "Zulu").then_some(0)
}

pub(crate) fn offsets_between(zone: &TimeZone, from: Moment, to: Moment) -> Vec<Offset> {
    let Ok(first) = Timestamp::from_millisecond(from.0.saturating_sub(2 * DAY)) else {
        return Vec::new();
    };
    let mut offsets = vec![Offset {
        from: moment_from_timestamp(first),
        seconds: zone.to_offset(first).seconds(),
    }];
    let changes = zone.following(first).take(MOST_CHANGES);
    for change in changes.take_while(|change| {
        moment_from_timestamp(change.timestamp()).0 <= to.0.saturating_add(2 * DAY)
    }) {
        let seconds = change.offset().seconds();
        if offsets.last().is_none_or(|last| last.seconds != seconds) {
            offsets.push(Offset { from: moment_from_timestamp(change.timestamp()), seconds });
        }
    }
    offsets
}

fn moment_from_timestamp(time: Timestamp) -> Moment {
    Moment(time.as_millisecond())
}

fn offset_milliseconds_at(offsets: &[Offset], moment: Moment) -> i64 {
    i64::from(offset_at(offsets, moment).unwrap_or(0)) * 1000
}

/// When a wall clock showed a time. In the hour that it shows twice, the second time where the first
/// is not after `after`, the moment of the row before.
pub(crate) fn wall_to_utc(offsets: &[Offset], wall: Moment, after: Option<Moment>) -> Moment {
    let less = |milliseconds: i64| Moment(wall.0.saturating_sub(milliseconds));
    // Only those in force around that time: no offset is of more than a day.
    let by = |at: i64| offsets.partition_point(|offset| offset.from.0 <= at);
    let first = by(wall.0.saturating_sub(2 * DAY)).saturating_sub(1);
    let near = offsets.get(first..by(wall.0.saturating_add(2 * DAY)).max(first + 1));
    let near = near.unwrap_or(offsets);
    let possible =
        near.iter().map(|offset| i64::from(offset.seconds) * 1000).filter(|milliseconds| {
            offset_milliseconds_at(offsets, less(*milliseconds)) == *milliseconds
        });
    let possible = possible.map(less);
    let later = possible.clone().filter(|at| after.is_some_and(|after| *at > after)).min();
    later.or_else(|| possible.min()).unwrap_or_else(|| {
        let before = less(offset_milliseconds_at(offsets, wall)).0.saturating_sub(DAY / 8);
        less(offset_milliseconds_at(offsets, Moment(before)))
    })
}

pub(crate) fn utc_to_wall(offsets: &[Offset], moment: Moment) -> Moment {
    Moment(moment.0.saturating_add(offset_milliseconds_at(offsets, moment)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestedTime {
    /// With its offset.
    Certain(Timestamp, DateTime),
    /// By the host's wall clock.
    Wall(DateTime),
    /// By the host's wall clock on the last day.
    OfLastDay(Time),
}

impl RequestedTime {
    /// `2026-11-21T08:00:00+01:00`, `2026-11-21 08:00`, `2026-11-21`, `08:00`. A day alone is its
    /// end if `end`, and its beginning otherwise.
    pub(crate) fn parse(text: &str, end: bool) -> Result<Self, Error> {
        let text = text.trim();
        if let Ok(time) = text.parse::<Time>()
            && text.contains(':')
            && !text.contains('-')
        {
            return Ok(Self::OfLastDay(time));
        }
        let wrong = || Error::Time(text.to_owned());
        let pieces = Pieces::parse(text).map_err(|_| wrong())?;
        let of_day = if end { Time::MAX } else { Time::midnight() };
        let time = pieces.date().to_datetime(pieces.time().unwrap_or(of_day));
        match pieces.to_numeric_offset() {
            Some(offset) => {
                Ok(Self::Certain(offset.to_timestamp(time).map_err(|_| wrong())?, time))
            }
            None => Ok(Self::Wall(time)),
        }
    }

    /// By a host's clock: UTC with these offsets, or its wall clock, which showed `last` last.
    pub(crate) fn to_moment(self, utc_with: Option<&[Offset]>, last: Moment) -> Option<Moment> {
        let of_wall = |time: DateTime| {
            let wall = moment_from_timestamp(Zoned::UTC.to_timestamp(time).ok()?);
            Some(utc_with.map_or(wall, |offsets| wall_to_utc(offsets, wall, None)))
        };
        match (self, utc_with) {
            (Self::Certain(time, _), Some(_)) => Some(moment_from_timestamp(time)),
            (Self::Certain(_, shown), None) => of_wall(shown),
            (Self::Wall(time), _) => of_wall(time),
            (Self::OfLastDay(time), _) => of_wall(civil_time(last.0)?.date().to_datetime(time)),
        }
    }
}

/// The time that [`Options::from`](crate::Options::from) and [`Options::to`](crate::Options::to)
/// name on a host so many seconds east of Greenwich, with samples from the first moment to the last.
///
/// # Errors
/// One is no time; the end is before the beginning; no sample lies within.
pub fn named_span(
    from: Option<&str>,
    to: Option<&str>,
    offset: i32,
    (first, last): (Moment, Moment),
) -> Result<(Option<Moment>, Option<Moment>), Error> {
    let offsets = vec![Offset { from: Moment(i64::MIN), seconds: offset }];
    let moment = |text: Option<&str>, end| {
        let given = text.map(|text| RequestedTime::parse(text, end)).transpose()?;
        let moment = given.map(|given| {
            given.to_moment(Some(&offsets), utc_to_wall(&offsets, last)).ok_or(Error::NoClock)
        });
        moment.transpose()
    };
    let (from, to) = (moment(from, false)?, moment(to, true)?);
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(Error::Backwards);
    }
    if from.is_some_and(|from| from > last) || to.is_some_and(|to| to < first) {
        let clock = Clock::Utc { offsets };
        return Err(Error::Outside(clock.format(first), clock.format(last)));
    }
    Ok((from, to))
}

/// The year that logs without one get for their first.
pub(crate) const SOME_YEAR: i16 = 2000;

/// A moment of a log without years, whose first year is this one.
pub(crate) fn in_year(at: Moment, year: i16) -> Moment {
    let Some(then) = civil_time(at.0) else { return at };
    let year = year.saturating_add(then.year().saturating_sub(SOME_YEAR));
    // The 29th of February becomes the 28th in a year without it.
    let moved = then.with().year(year).build().or_else(|_| then.with().year(year).day(28).build());
    moved.and_then(|moved| Zoned::UTC.to_timestamp(moved)).map_or(at, moment_from_timestamp)
}

/// Whether a log's day is one of the year, as the 29th of February is of few.
pub(crate) fn has_day_in_year(at: Moment, year: i16) -> bool {
    let day = |at: Moment| civil_time(at.0).map(|then| then.day());
    day(at) == day(in_year(at, year))
}

pub(crate) fn year_of_moment(at: Moment) -> i16 {
    civil_time(at.0).map_or(1970, |then| then.year())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_moment(text: &str) -> Moment {
        moment_from_timestamp(text.parse().unwrap())
    }

    fn berlin_offsets() -> Vec<Offset> {
        offsets_between(
            &parse_time_zone("Europe/Berlin").unwrap(),
            parse_moment("2026-01-01T00:00:00Z"),
            parse_moment("2026-12-31T00:00:00Z"),
        )
    }

    #[test]
    fn zones_are_names_or_offsets() {
        for (text, seconds) in [
            ("UTC", Some(0)),
            ("Z", Some(0)),
            ("+02:00", Some(7200)),
            ("-0330", Some(-12_600)),
            ("+5", Some(18_000)),
            ("+16:00", None),
            ("+1:99", None),
            ("+", None),
            ("+-1", None),
            ("Europe/Berlin", None),
        ] {
            assert_eq!(parse_given_offset(text), seconds, "{text}");
        }
        assert!(parse_time_zone("Mars/Phobos").unwrap_err().to_string().contains("+02:00"));
        assert!(parse_time_zone("../../etc/passwd").is_err());
        assert!(parse_time_zone("").is_err());
    }

    #[test]
    fn summer_begins_and_ends() {
        // 29 March and 25 October 2026, each at 01:00 UTC.
        let offsets = berlin_offsets();
        assert_eq!(
            offsets.iter().map(|offset| offset.seconds).collect::<Vec<_>>(),
            [3600, 7200, 3600]
        );
        let moment_of = |wall: &str, after: Option<&str>| {
            wall_to_utc(&offsets, parse_moment(wall), after.map(parse_moment))
        };
        assert_eq!(moment_of("2026-03-29T01:59:00Z", None), parse_moment("2026-03-29T00:59:00Z"));
        assert_eq!(moment_of("2026-03-29T03:00:00Z", None), parse_moment("2026-03-29T01:00:00Z"));
        // Left out: as if summer had not begun.
        assert_eq!(moment_of("2026-03-29T02:30:00Z", None), parse_moment("2026-03-29T01:30:00Z"));
        assert_eq!(moment_of("2026-10-25T02:30:00Z", None), parse_moment("2026-10-25T00:30:00Z"));
        assert_eq!(
            moment_of("2026-10-25T02:30:00Z", Some("2026-10-25T00:20:00Z")),
            parse_moment("2026-10-25T00:30:00Z")
        );
        assert_eq!(
            moment_of("2026-10-25T02:00:00Z", Some("2026-10-25T00:50:00Z")),
            parse_moment("2026-10-25T01:00:00Z")
        );
        assert_eq!(
            moment_of("2026-10-25T03:00:00Z", Some("2026-10-25T01:50:00Z")),
            parse_moment("2026-10-25T02:00:00Z")
        );
        for text in ["2026-07-01T12:00:00Z", "2026-12-01T12:00:00Z"] {
            assert_eq!(
                utc_to_wall(&offsets, wall_to_utc(&offsets, parse_moment(text), None)),
                parse_moment(text)
            );
        }
    }

    #[test]
    fn times_as_people_write_them() {
        let berlin = berlin_offsets();
        let last = parse_moment("2026-11-21T23:50:00Z");
        let moment_of = |text: &str, end, offsets: Option<&[Offset]>| {
            RequestedTime::parse(text, end).unwrap().to_moment(offsets, last)
        };
        let utc = Some(berlin.as_slice());
        for (text, end, expected) in [
            ("2026-11-21T08:00:00+01:00", false, "2026-11-21T07:00:00Z"),
            ("2026-11-21T07:00:00Z", false, "2026-11-21T07:00:00Z"),
            ("2026-11-21 08:00", false, "2026-11-21T07:00:00Z"),
            ("2026-07-21 08:00", false, "2026-07-21T06:00:00Z"),
            ("08:00", false, "2026-11-21T07:00:00Z"),
            ("08:00:30", true, "2026-11-21T07:00:30Z"),
            ("2026-11-21", false, "2026-11-20T23:00:00Z"),
            ("2026-11-21", true, "2026-11-21T22:59:59.999Z"),
        ] {
            assert_eq!(moment_of(text, end, utc), Some(parse_moment(expected)), "{text}");
        }
        // On a wall of which nothing else is known, an offset is not applied.
        assert_eq!(
            moment_of("2026-11-21T08:00:00+01:00", false, None),
            Some(parse_moment("2026-11-21T08:00:00Z"))
        );
        assert_eq!(moment_of("08:00", false, None), Some(parse_moment("2026-11-21T08:00:00Z")));
        for text in ["", "8", "yesterday", "25:00", "2026-13-01", "2026-11-21 25:00", "08:00 x"] {
            assert!(RequestedTime::parse(text, false).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        /// Moments of the year that `berlin` has the offsets of, but for the hour that its clocks
        /// show twice.
        #[test]
        fn a_wall_reads_back(seconds in 1_767_225_600..1_798_761_600_i64) {
            let at = Moment::from_seconds(seconds);
            let twice = parse_moment("2026-10-25T00:00:00Z")..parse_moment("2026-10-25T02:00:00Z");
            if !twice.contains(&at) {
                proptest::prop_assert_eq!(wall_to_utc(&berlin_offsets(), utc_to_wall(&berlin_offsets(), at), None), at);
            }
        }
    }
}
