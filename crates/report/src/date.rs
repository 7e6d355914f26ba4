//! Points in time.

use jiff::Timestamp;

/// RFC 3339 in UTC: `2026-03-01T12:00:00Z`; `None` outside of the years that it can write.
pub fn rfc3339(seconds_since_epoch: i64) -> Option<String> {
    Timestamp::from_second(seconds_since_epoch).ok().map(|time| time.to_string())
}

/// The day in UTC, as file names carry it: `2026-03-01`.
pub fn day(seconds_since_epoch: i64) -> Option<String> {
    rfc3339(seconds_since_epoch)?.split('T').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_in_utc() {
        // `date -u -d @1700000000` says so.
        assert_eq!(rfc3339(1_700_000_000).as_deref(), Some("2023-11-14T22:13:20Z"));
        assert_eq!(day(1_700_000_000).as_deref(), Some("2023-11-14"));
        assert_eq!(rfc3339(i64::MAX), None);
    }
}
