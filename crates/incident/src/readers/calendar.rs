//! Dates and times of day, as collectors print them.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;

/// Seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// Year, month and day in UTC of seconds since the epoch; `None` in years that no calendar here has.
pub(super) fn date(seconds: i64) -> Option<(i64, i64, i64)> {
    let day = Offset::UTC.to_datetime(Timestamp::from_second(seconds).ok()?).date();
    Some((day.year().into(), day.month().into(), day.day().into()))
}

/// The seconds since the epoch at which a day of the civil calendar begins, from 1970 to 2199.
pub(super) fn midnight(year: i64, month: i64, day: i64) -> Option<i64> {
    let year = i16::try_from(year).ok().filter(|year| (1970..2200).contains(year))?;
    let day = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    Some(Offset::UTC.to_timestamp(day.at(0, 0, 0, 0)).ok()?.as_second())
}

/// Midnight of `2026-11-21`.
pub(super) fn iso_date(word: &str) -> Option<i64> {
    let mut parts = word.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    midnight(parts.next()??, parts.next()??, parts.next()??)
}

/// `08:32:50` in seconds.
pub(super) fn time_of_day(word: &str) -> Option<i64> {
    let mut parts = word.split(':');
    let mut part = |most: i64| {
        let part = parts.next()?;
        let sound = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_digit());
        part.parse().ok().filter(|value: &i64| sound && *value <= most)
    };
    let (hour, minute, second) = (part(23)?, part(59)?, part(60)?);
    parts.next().is_none().then_some(hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // `date -u -d @N +%F`
        for (seconds, day) in [
            (0, (1970, 1, 1)),
            (951_782_400, (2000, 2, 29)),
            (951_868_800, (2000, 3, 1)),
            (1_709_164_799, (2024, 2, 28)),
            (1_735_689_599, (2024, 12, 31)),
        ] {
            assert_eq!(date(seconds), Some(day));
            assert_eq!(midnight(day.0, day.1, day.2), Some(seconds - seconds % DAY));
        }
        for (year, month, day) in [
            (2023, 2, 29),
            (2023, 13, 1),
            (2023, 4, 31),
            (2023, 1, 0),
            (1, 1, 1),
            (2023, 1, i64::MAX),
            (i64::MIN, 1, 1),
        ] {
            assert_eq!(midnight(year, month, day), None);
        }
        // `date -u -d 2199-12-31 +%s`, and the year behind it.
        assert_eq!((midnight(2199, 12, 31), midnight(2200, 1, 1)), (Some(7_258_032_000), None));
        assert_eq!((midnight(1970, 1, 1), midnight(1969, 12, 31)), (Some(0), None));
        assert_eq!((date(i64::MAX), date(i64::MIN)), (None, None));
    }

    #[test]
    fn a_time_has_three_pairs_of_digits() {
        assert_eq!(time_of_day("08:32:50"), Some(30_770));
        assert_eq!(time_of_day("23:59:60"), Some(86_400));
        for word in ["8:32:50", "24:00:00", "08:32", "08:32:50:00", "+8:32:50", "a8:32:50", ""] {
            assert_eq!(time_of_day(word), None, "{word}");
        }
    }
}
