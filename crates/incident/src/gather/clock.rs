//! Clocks: moments of a wall put on UTC, and times as people write them.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::temporal::Pieces;
use jiff::tz::{Offset as Zoned, TimeZone};

use crate::Error;
use crate::series::Offset;
use crate::{Clock, Moment};

/// Changes of the clock that are looked at: two a year, for two thousand years.
const MOST_CHANGES: usize = 4096;
const DAY: i64 = 86_400_000;

/// A zone by its name, `Europe/Berlin`, or by its offset, `+02:00`.
///
/// # Errors
/// Neither; or a name that the zones of this machine do not have.
pub(crate) fn zone(text: &str) -> Result<TimeZone, Error> {
    if let Some(seconds) = offset(text) {
        let fixed = Zoned::from_seconds(seconds).map(TimeZone::fixed);
        return fixed.map_err(|error| Error::Offset(text.to_owned(), error.to_string()));
    }
    TimeZone::get(text).map_err(|_| Error::Zone(text.to_owned()))
}

/// `Z`, `UTC`, `+02:00`, `-0330`, `+5`, in seconds.
fn offset(text: &str) -> Option<i32> {
    if matches!(text, "Z" | "z" | "UTC" | "GMT" | "utc") {
        return Some(0);
    }
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 => digits.split_at_checked(2)?,
        None => (digits, "0"),
    };
    if [hours, minutes].iter().any(|part| part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit())) {
        return None;
    }
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 15 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// The offset of a zone whose name says it: other abbreviations are each of several zones.
pub(crate) fn certain(abbreviation: &str) -> Option<i32> {
    matches!(abbreviation, "UTC" | "GMT" | "UCT" | "Z" | "Universal" | "Zulu").then_some(0)
}

/// A zone's offsets over a time, each from a moment of UTC on.
pub(crate) fn offsets(zone: &TimeZone, from: Moment, to: Moment) -> Vec<Offset> {
    let Ok(first) = Timestamp::from_millisecond(from.0.saturating_sub(2 * DAY)) else { return Vec::new() };
    let mut offsets = vec![Offset { from: moment(first), seconds: zone.to_offset(first).seconds() }];
    let changes = zone.following(first).take(MOST_CHANGES);
    for change in changes.take_while(|change| moment(change.timestamp()).0 <= to.0.saturating_add(2 * DAY)) {
        let seconds = change.offset().seconds();
        if offsets.last().is_none_or(|last| last.seconds != seconds) {
            offsets.push(Offset { from: moment(change.timestamp()), seconds });
        }
    }
    offsets
}

fn moment(time: Timestamp) -> Moment {
    Moment(time.as_millisecond())
}

fn at(offsets: &[Offset], moment: Moment) -> i64 {
    let known = offsets.iter().rev().find(|offset| offset.from <= moment).or_else(|| offsets.first());
    known.map_or(0, |offset| i64::from(offset.seconds) * 1000)
}

/// When a wall showed a time. In the hour that it shows twice it is the second time where the first is not behind
/// `after`, the moment of the row before.
pub(crate) fn utc(offsets: &[Offset], wall: Moment, after: Option<Moment>) -> Moment {
    let mut first: Option<Moment> = None;
    let mut later: Option<Moment> = None;
    for offset in offsets {
        let candidate = Moment(wall.0.saturating_sub(i64::from(offset.seconds) * 1000));
        if wall.0.saturating_sub(candidate.0) != at(offsets, candidate) {
            continue;
        }
        first = Some(first.map_or(candidate, |first| first.min(candidate)));
        if after.is_some_and(|after| candidate > after) {
            later = Some(later.map_or(candidate, |later| later.min(candidate)));
        }
    }
    // The hour that a wall leaves out is told by the offset before it.
    later.or(first).unwrap_or_else(|| {
        let before = at(offsets, Moment(wall.0.saturating_sub(at(offsets, wall)).saturating_sub(DAY / 8)));
        Moment(wall.0.saturating_sub(before))
    })
}

/// What a wall shows at a moment.
pub(crate) fn wall(offsets: &[Offset], moment: Moment) -> Moment {
    Moment(moment.0.saturating_add(at(offsets, moment)))
}

/// A moment in the words of its clock.
pub(crate) fn shown(moment: Moment, of: &Clock) -> String {
    let Ok(time) = Timestamp::from_millisecond(moment.0) else { return "?".into() };
    match (of, of.offset_at(moment).and_then(|seconds| Zoned::from_seconds(seconds).ok())) {
        (Clock::Wall { .. }, _) => Zoned::UTC.to_datetime(time).to_string(),
        (_, Some(offset)) => time.display_with_offset(offset).to_string(),
        (_, None) => time.to_string(),
    }
}

/// A time as somebody gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// With its offset.
    Certain(Timestamp, DateTime),
    /// By the host's wall.
    Wall(DateTime),
    /// By the host's wall on the last day.
    OfLastDay(Time),
}

impl Given {
    /// `2026-11-21T08:00:00+01:00`, `2026-11-21 08:00`, `2026-11-21`, `08:00`. A day alone is its end where that is asked
    /// for, and its beginning otherwise.
    ///
    /// # Errors
    /// It is none of these.
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
            Some(offset) => Ok(Self::Certain(offset.to_timestamp(time).map_err(|_| wrong())?, time)),
            None => Ok(Self::Wall(time)),
        }
    }

    /// The moment by the clock of a host: UTC with these offsets, or its wall's. `last` is what the wall showed last.
    pub(crate) fn moment(self, utc_with: Option<&[Offset]>, last: Moment) -> Option<Moment> {
        let of_wall = |time: DateTime| {
            let wall = moment(Zoned::UTC.to_timestamp(time).ok()?);
            Some(utc_with.map_or(wall, |offsets| utc(offsets, wall, None)))
        };
        match (self, utc_with) {
            (Self::Certain(time, _), Some(_)) => Some(moment(time)),
            (Self::Certain(_, shown), None) => of_wall(shown),
            (Self::Wall(time), _) => of_wall(time),
            (Self::OfLastDay(time), _) => of_wall(day(last)?.to_datetime(time)),
        }
    }
}

/// The stretch of time that [`Options::from`](crate::Options::from) and [`Options::to`](crate::Options::to) name on a host that is so many seconds east of Greenwich and
/// has samples from the first to the last moment.
///
/// # Errors
/// One is no time; the end is before the beginning; or no sample lies within.
pub fn named_span(
    from: Option<&str>,
    to: Option<&str>,
    offset: i32,
    (first, last): (Moment, Moment),
) -> Result<(Option<Moment>, Option<Moment>), Error> {
    let offsets = vec![Offset { from: Moment(i64::MIN), seconds: offset }];
    let moment = |text: Option<&str>, end| {
        let given = text.map(|text| Given::parse(text, end)).transpose()?;
        let moment = given.map(|given| given.moment(Some(&offsets), wall(&offsets, last)).ok_or(Error::NoClock));
        moment.transpose()
    };
    let (from, to) = (moment(from, false)?, moment(to, true)?);
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(Error::Backwards);
    }
    if from.is_some_and(|from| from > last) || to.is_some_and(|to| to < first) {
        let clock = Clock::Utc { offsets };
        return Err(Error::Outside(shown(first, &clock), shown(last, &clock)));
    }
    Ok((from, to))
}

fn day(wall: Moment) -> Option<Date> {
    Some(Zoned::UTC.to_datetime(Timestamp::from_millisecond(wall.0).ok()?).date())
}

/// The year that stands in a log for the first of those that it does not say.
const SOME_YEAR: i16 = 2000;

/// A moment of a log that says no year, with the log's first year being this one.
pub(crate) fn in_year(at: Moment, year: i16) -> Moment {
    let Ok(then) = jiff::Timestamp::from_millisecond(at.0) else { return at };
    let then = then.to_zoned(TimeZone::UTC).datetime();
    let year = year.saturating_add(then.year().saturating_sub(SOME_YEAR));
    // The 29th of February of a year that has none is the day before.
    let moved = then.with().year(year).build().or_else(|_| then.with().year(year).day(28).build());
    moved.and_then(|moved| moved.to_zoned(TimeZone::UTC)).map_or(at, |moved| Moment(moved.timestamp().as_millisecond()))
}

/// The year of a moment.
pub(crate) fn year(at: Moment) -> i16 {
    jiff::Timestamp::from_millisecond(at.0).map_or(1970, |then| then.to_zoned(TimeZone::UTC).year())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn time(text: &str) -> Moment {
        moment(text.parse().unwrap())
    }

    fn berlin() -> Vec<Offset> {
        offsets(&zone("Europe/Berlin").unwrap(), time("2026-01-01T00:00:00Z"), time("2026-12-31T00:00:00Z"))
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
            assert_eq!(offset(text), seconds, "{text}");
        }
        assert!(zone("Mars/Phobos").unwrap_err().to_string().contains("+02:00"));
        assert!(zone("../../etc/passwd").is_err());
        assert!(zone("").is_err());
    }

    #[test]
    fn summer_begins_and_ends() {
        // 29 March and 25 October 2026, each at 01:00 UTC.
        let offsets = berlin();
        assert_eq!(offsets.iter().map(|offset| offset.seconds).collect::<Vec<_>>(), [3600, 7200, 3600]);
        let of = |wall: &str, after: Option<&str>| utc(&offsets, time(wall), after.map(time));
        assert_eq!(of("2026-03-29T01:59:00Z", None), time("2026-03-29T00:59:00Z"));
        assert_eq!(of("2026-03-29T03:00:00Z", None), time("2026-03-29T01:00:00Z"));
        // Left out: as if summer had not begun.
        assert_eq!(of("2026-03-29T02:30:00Z", None), time("2026-03-29T01:30:00Z"));
        assert_eq!(of("2026-10-25T02:30:00Z", None), time("2026-10-25T00:30:00Z"));
        assert_eq!(of("2026-10-25T02:30:00Z", Some("2026-10-25T00:20:00Z")), time("2026-10-25T00:30:00Z"));
        assert_eq!(of("2026-10-25T02:00:00Z", Some("2026-10-25T00:50:00Z")), time("2026-10-25T01:00:00Z"));
        assert_eq!(of("2026-10-25T03:00:00Z", Some("2026-10-25T01:50:00Z")), time("2026-10-25T02:00:00Z"));
        for text in ["2026-07-01T12:00:00Z", "2026-12-01T12:00:00Z"] {
            assert_eq!(wall(&offsets, utc(&offsets, time(text), None)), time(text));
        }
    }

    #[test]
    fn times_as_people_write_them() {
        let berlin = berlin();
        let last = time("2026-11-21T23:50:00Z");
        let of = |text: &str, end, offsets: Option<&[Offset]>| Given::parse(text, end).unwrap().moment(offsets, last);
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
            assert_eq!(of(text, end, utc), Some(time(expected)), "{text}");
        }
        // On a wall of which nothing else is known, an offset is not applied.
        assert_eq!(of("2026-11-21T08:00:00+01:00", false, None), Some(time("2026-11-21T08:00:00Z")));
        assert_eq!(of("08:00", false, None), Some(time("2026-11-21T08:00:00Z")));
        for text in ["", "8", "yesterday", "25:00", "2026-13-01", "2026-11-21 25:00", "08:00 x"] {
            assert!(Given::parse(text, false).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        /// Moments of the year that `berlin` has the offsets of, but for the hour that its clocks show twice.
        #[test]
        fn a_wall_reads_back(seconds in 1_767_225_600..1_798_761_600_i64) {
            let at = Moment::from_seconds(seconds);
            let twice = time("2026-10-25T00:00:00Z")..time("2026-10-25T02:00:00Z");
            if !twice.contains(&at) {
                proptest::prop_assert_eq!(utc(&berlin(), wall(&berlin(), at), None), at);
            }
        }
    }
}
