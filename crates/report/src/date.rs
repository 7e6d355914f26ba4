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

/// RFC 3339 in the host's own offset where that is known, in UTC where only that is; of a wall clock the same without
/// an offset: `2026-03-01T13:00:00+01:00`, `2026-03-01T12:00:00Z`, `2026-03-01T13:00:00`. `None` outside of the years
/// that these can write.
pub fn moment(at: Moment, clock: &Clock) -> Option<String> {
    let time = Timestamp::from_millisecond(at.0).ok()?;
    match (clock, clock.offset_at(at)) {
        (Clock::Wall { .. }, _) => Some(Offset::UTC.to_datetime(time).to_string()),
        (Clock::Utc { .. }, None) => Some(time.to_string()),
        (Clock::Utc { .. }, Some(seconds)) => {
            Some(time.display_with_offset(Offset::from_seconds(seconds).ok()?).to_string())
        }
    }
}

/// What the host's clock showed: in its own offset where that is known.
pub(crate) fn civil(at: Moment, clock: &Clock) -> Option<DateTime> {
    let time = Timestamp::from_millisecond(at.0).ok()?;
    let offset = match clock.offset_at(at) {
        Some(seconds) => Offset::from_seconds(seconds).ok()?,
        None => Offset::UTC,
    };
    Some(offset.to_datetime(time))
}

#[cfg(test)]
mod tests {
    use hugewise_incident::series::Offset as Since;

    use super::*;

    #[test]
    fn times_are_rfc_3339_in_utc() {
        // `date -u -d @1700000000` says so.
        assert_eq!(rfc3339(1_700_000_000).as_deref(), Some("2023-11-14T22:13:20Z"));
        assert_eq!(day(1_700_000_000).as_deref(), Some("2023-11-14"));
        assert_eq!(rfc3339(i64::MAX), None);
    }

    #[test]
    fn a_moment_is_told_by_the_clock_that_it_is_of() {
        let at = Moment(1_700_000_000_250);
        let known = |seconds| Clock::Utc { offsets: vec![Since { from: Moment(0), seconds }] };
        let told = |clock: &Clock| moment(at, clock);
        assert_eq!(told(&known(3600)).as_deref(), Some("2023-11-14T23:13:20.25+01:00"));
        assert_eq!(told(&known(-12_600)).as_deref(), Some("2023-11-14T18:43:20.25-03:30"));
        assert_eq!(told(&Clock::Utc { offsets: Vec::new() }).as_deref(), Some("2023-11-14T22:13:20.25Z"));
        assert_eq!(told(&Clock::default()).as_deref(), Some("2023-11-14T22:13:20.25"));
        assert_eq!(moment(Moment(i64::MAX), &Clock::default()), None);
        assert_eq!(told(&known(i32::MAX)), None);
        assert_eq!(civil(at, &known(3600)).unwrap().to_string(), "2023-11-14T23:13:20.25");
    }
}
