//! Dates, times of day and offsets from UTC, as programs print them and as we print them.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;

/// Seconds of a day.
pub const DAY: i64 = 86_400;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Abbreviations that mean one offset everywhere, in minutes (IANA time zone database 2025b, since
/// 2005). CST (America, China, Cuba) and IST (Ireland, India, Israel) are left out.
const ZONES: [(&str, i32); 38] = [
    ("UTC", 0),
    ("GMT", 0),
    ("Z", 0),
    ("WET", 0),
    ("WEST", 60),
    ("BST", 60),
    ("CET", 60),
    ("MET", 60),
    ("WAT", 60),
    ("CEST", 120),
    ("MEST", 120),
    ("EET", 120),
    ("CAT", 120),
    ("SAST", 120),
    ("EEST", 180),
    ("EAT", 180),
    ("IDT", 180),
    ("PKT", 300),
    ("WIB", 420),
    ("WITA", 480),
    ("HKT", 480),
    ("AWST", 480),
    ("WIT", 540),
    ("JST", 540),
    ("ACST", 570),
    ("AEST", 600),
    ("ACDT", 630),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
    ("AST", -240),
    ("EDT", -240),
    ("EST", -300),
    ("MDT", -360),
    ("MST", -420),
    ("PDT", -420),
    ("AKST", -540),
    ("HST", -600),
];

/// The number of an English month's abbreviation.
pub fn month_number(name: &str) -> Option<i64> {
    MONTHS.iter().zip(1..).find(|(month, _)| **month == name).map(|(_, number)| number)
}

/// Year, month and day in UTC of seconds since the epoch.
pub fn civil_date(seconds: i64) -> Option<(i64, i64, i64)> {
    let day = civil_time(seconds.checked_mul(1000)?)?.date();
    Some((day.year().into(), day.month().into(), day.day().into()))
}

/// The date and time in UTC of milliseconds since the epoch.
pub fn civil_time(milliseconds: i64) -> Option<DateTime> {
    Some(Offset::UTC.to_datetime(Timestamp::from_millisecond(milliseconds).ok()?))
}

/// The seconds since the epoch at which a day of the civil calendar begins, from 1970 to 2199.
pub fn midnight_seconds(year: i64, month: i64, day: i64) -> Option<i64> {
    let year = i16::try_from(year).ok().filter(|year| (1970..2200).contains(year))?;
    let day = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    Some(Offset::UTC.to_timestamp(day.at(0, 0, 0, 0)).ok()?.as_second())
}

/// Midnight of `2026-11-21`.
pub fn iso_date(word: &str) -> Option<i64> {
    let mut parts = word.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    midnight_seconds(parts.next()??, parts.next()??, parts.next()??)
}

/// `08:32:50` in seconds.
pub fn time_of_day(word: &str) -> Option<i64> {
    let mut parts = word.split(':');
    let mut part = |most: i64| {
        let part = parts.next()?;
        let sound = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_digit());
        part.parse().ok().filter(|value: &i64| sound && *value <= most)
    };
    let (hour, minute, second) = (part(23)?, part(59)?, part(60)?);
    parts.next().is_none().then_some(hour * 3600 + minute * 60 + second)
}

/// Milliseconds of the digits behind a second's point: 250 of `25` and of `250713`.
pub fn thousandths(digits: &str) -> Option<i64> {
    digits.chars().chain("000".chars()).take(3).collect::<String>().parse().ok()
}

/// Seconds east of Greenwich of `UTC`, `Z`, `+0530`, `-08:00`, `+05`.
pub fn parse_utc_offset(zone: &str) -> Option<i32> {
    if matches!(zone, "UTC" | "GMT" | "Z") {
        return Some(0);
    }
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = if minutes.is_empty() { "00" } else { minutes };
    let minutes = minutes.strip_prefix(':').unwrap_or(minutes);
    let number = |digits: &str, most: i32| {
        let sound = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse::<i32>().ok().filter(|number| sound && *number <= most)
    };
    Some(sign * (number(hours, 15)? * 3600 + number(minutes, 59)? * 60))
}

/// Seconds east of Greenwich of a zone's abbreviation that means one thing only.
pub fn zone_offset(abbreviation: &str) -> Option<i32> {
    ZONES.iter().find(|(zone, _)| *zone == abbreviation).map(|(_, minutes)| minutes * 60)
}

/// RFC 3339 in UTC: `2026-03-01T12:00:00Z`; `None` outside of the years that it can write.
pub fn format_rfc3339(seconds_since_epoch: i64) -> Option<String> {
    Timestamp::from_second(seconds_since_epoch).ok().map(|time| time.to_string())
}

/// The day in UTC, as file names carry it: `2026-03-01`.
pub fn format_utc_day(seconds_since_epoch: i64) -> Option<String> {
    civil_time(seconds_since_epoch.checked_mul(1000)?).map(|time| time.date().to_string())
}

/// What a wall shows at milliseconds since the epoch of its own: `2026-03-01T12:00:00`.
pub fn format_wall_time(milliseconds: i64) -> Option<String> {
    civil_time(milliseconds).map(|time| time.to_string())
}

/// RFC 3339 with an offset, or with `Z`; whole seconds have no fraction.
pub fn format_with_offset(milliseconds: i64, offset: Option<i32>) -> Option<String> {
    let time = Timestamp::from_millisecond(milliseconds).ok()?;
    Some(match offset.and_then(|seconds| Offset::from_seconds(seconds).ok()) {
        Some(offset) => time.display_with_offset(offset).to_string(),
        None => time.to_string(),
    })
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
            assert_eq!(civil_date(seconds), Some(day));
            assert_eq!(midnight_seconds(day.0, day.1, day.2), Some(seconds - seconds % DAY));
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
            assert_eq!(midnight_seconds(year, month, day), None);
        }
        // `date -u -d 2199-12-31 +%s`, and the year behind it.
        assert_eq!(
            (midnight_seconds(2199, 12, 31), midnight_seconds(2200, 1, 1)),
            (Some(7_258_032_000), None)
        );
        assert_eq!((midnight_seconds(1970, 1, 1), midnight_seconds(1969, 12, 31)), (Some(0), None));
        assert_eq!((civil_date(i64::MAX), civil_date(i64::MIN)), (None, None));
    }

    #[test]
    fn a_time_has_three_pairs_of_digits() {
        assert_eq!(time_of_day("08:32:50"), Some(30_770));
        assert_eq!(time_of_day("23:59:60"), Some(86_400));
        for word in ["8:32:50", "24:00:00", "08:32", "08:32:50:00", "+8:32:50", "a8:32:50", ""] {
            assert_eq!(time_of_day(word), None, "{word}");
        }
    }

    #[test]
    fn times_are_rfc_3339_in_utc() {
        // `date -u -d @1700000000` says so.
        assert_eq!(format_rfc3339(1_700_000_000).as_deref(), Some("2023-11-14T22:13:20Z"));
        assert_eq!(format_utc_day(1_700_000_000).as_deref(), Some("2023-11-14"));
        assert_eq!(format_rfc3339(i64::MAX), None);
    }

    #[test]
    fn offsets_have_two_digits_each() {
        for (zone, offset) in [
            ("UTC", Some(0)),
            ("Z", Some(0)),
            ("+0530", Some(19_800)),
            ("-08:00", Some(-28_800)),
            ("+05", Some(18_000)),
            ("+2", None),
            ("+99", None),
            ("-0560", None),
            ("+1:2", None),
            ("CET", None),
        ] {
            assert_eq!(parse_utc_offset(zone), offset, "{zone}");
        }
        assert_eq!((zone_offset("CET"), zone_offset("ACST")), (Some(3600), Some(34_200)));
        assert_eq!((zone_offset("CST"), zone_offset("PST")), (None, None));
    }
}
