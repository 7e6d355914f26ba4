//! Points in time.

use hugewise_incident::{Clock, Moment};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// RFC 3339 in UTC: `2026-03-01T12:00:00Z`; `None` outside of the years that it can write.
pub fn rfc3339(seconds_since_epoch: i64) -> Option<String> {
    Timestamp::from_second(seconds_since_epoch).ok().map(|time| time.to_string())
}

/// The day in UTC, as file names carry it: `2026-03-01`.
pub fn day(seconds_since_epoch: i64) -> Option<String> {
    rfc3339(seconds_since_epoch)?.split('T').next().map(str::to_owned)
}

/// A moment as its clock shows it: RFC 3339 with the host's offset, or with `Z` where that is not known; without any where
/// it is what a wall showed. Whole seconds are written without a part; `?` outside of the years that it can write.
pub fn moment(at: Moment, clock: &Clock) -> String {
    known_moment(at, clock).unwrap_or_else(|| "?".into())
}

/// The same; `None` outside of the years that it can write.
pub(crate) fn known_moment(at: Moment, clock: &Clock) -> Option<String> {
    match clock {
        Clock::Wall { .. } => wall(at).map(|time| time.to_string()),
        Clock::Utc { .. } => zoned(at, clock.offset_at(at)),
    }
}

/// What the wall shows at a moment: the host's where its offset is known.
pub fn civil(at: Moment, clock: &Clock) -> Option<DateTime> {
    wall(Moment(at.0.checked_add(i64::from(clock.offset_at(at).unwrap_or(0)) * 1000)?))
}

/// The same of a clock that goes by UTC.
pub(crate) fn wall(at: Moment) -> Option<DateTime> {
    Some(Offset::UTC.to_datetime(Timestamp::from_millisecond(at.0).ok()?))
}

fn zoned(at: Moment, seconds: Option<i32>) -> Option<String> {
    let time = Timestamp::from_millisecond(at.0).ok()?;
    match seconds.and_then(|seconds| Offset::from_seconds(seconds).ok()) {
        Some(offset) => Some(time.display_with_offset(offset).to_string()),
        None => Some(time.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_shown_by_the_clock_that_it_is_of() {
        let at = Moment::from_seconds(1_700_000_000);
        let utc = |seconds: &[i32]| Clock::Utc {
            offsets: seconds
                .iter()
                .map(|seconds| hugewise_incident::series::Offset { from: at, seconds: *seconds })
                .collect(),
        };
        assert_eq!(moment(at, &utc(&[3600])), "2023-11-14T23:13:20+01:00");
        assert_eq!(moment(at, &utc(&[-12_600])), "2023-11-14T18:43:20-03:30");
        assert_eq!(moment(at, &utc(&[])), "2023-11-14T22:13:20Z");
        assert_eq!(moment(at, &Clock::default()), "2023-11-14T22:13:20");
        assert_eq!(moment(Moment(1_700_000_000_250), &Clock::default()), "2023-11-14T22:13:20.25");
        assert_eq!(moment(Moment(i64::MAX), &Clock::default()), "?");
        assert_eq!(civil(at, &utc(&[3600])).map(|time| time.to_string()).as_deref(), Some("2023-11-14T23:13:20"));
    }

    #[test]
    fn times_are_rfc_3339_in_utc() {
        // `date -u -d @1700000000` says so.
        assert_eq!(rfc3339(1_700_000_000).as_deref(), Some("2023-11-14T22:13:20Z"));
        assert_eq!(day(1_700_000_000).as_deref(), Some("2023-11-14"));
        assert_eq!(rfc3339(i64::MAX), None);
    }
}
