//! Times in servers' logs.

use hugewise_model::calendar::{month_number, parse_utc_offset, zone_offset};
use jiff::civil::{Date, Time};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoTime {
    #[error("what the log gives is not a valid date and time")]
    Senseless,
    #[error("the log gives no time zone")]
    NoZone,
    #[error("the log gives a time zone that has no single meaning: {0}")]
    Ambiguous(String),
}

/// RFC 3339 in the offset that the log gives.
///
/// Known are `2026-11-21 20:32:29.713 CET`, `2024-05-06T07:08:09.012+0000` and what lies between
/// them, and the forms without a zone of MySQL 5.5 (`210304  5:06:07`) and Oracle up to 12.1 (`Fri
/// May 01 07:08:09 2020`).
pub(crate) fn parse_log_timestamp(text: &str) -> Result<String, NoTime> {
    let text = text.trim();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let (date, rest) = match words.as_slice() {
        [_, month, day, time, year] if year.len() == 4 && month_number(month).is_some() => {
            let month = month_number(month).unwrap_or_default();
            (format!("{year}-{month:02}-{day:0>2}"), (*time).to_owned())
        }
        [date, time] if date.len() == 6 && date.bytes().all(|byte| byte.is_ascii_digit()) => {
            let (year, rest) = date.split_at(2);
            let (month, day) = rest.split_at(2);
            (format!("20{year}-{month}-{day}"), (*time).to_owned())
        }
        _ => {
            let (date, rest) = text.split_once(['T', ' ']).ok_or(NoTime::Senseless)?;
            (date.to_owned(), rest.trim_start().to_owned())
        }
    };
    let end = rest
        .find(|letter: char| !letter.is_ascii_digit() && !matches!(letter, ':' | '.' | ','))
        .unwrap_or(rest.len());
    let (time, zone) = rest.split_at_checked(end).ok_or(NoTime::Senseless)?;
    let time = time.replace(',', ".");
    let time = if time.find(':') == Some(1) { format!("0{time}") } else { time };
    let shaped = date.len() == 10 && time.len() >= 8;
    if !shaped || date.parse::<Date>().is_err() || time.parse::<Time>().is_err() {
        return Err(NoTime::Senseless);
    }
    Ok(format!("{date}T{time}{}", parse_zone(zone.trim())?))
}

/// `+02:00` of `+02:00`, `+0200`, `+02` or a known abbreviation.
fn parse_zone(zone: &str) -> Result<String, NoTime> {
    if zone.is_empty() {
        return Err(NoTime::NoZone);
    }
    // A server's line prefix may go on without a space: `UTC:[4711]`.
    let name = zone.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or(zone);
    if matches!(name, "UTC" | "GMT" | "Z") {
        return Ok("Z".into());
    }
    let seconds = zone_offset(name)
        .or_else(|| parse_utc_offset(zone))
        .ok_or_else(|| NoTime::Ambiguous(zone.to_owned()))?;
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    Ok(format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_offset_is_the_one_that_the_log_gives() {
        for (text, expected) in [
            ("2026-11-21 20:32:29.713 UTC", "2026-11-21T20:32:29.713Z"),
            ("2026-07-01 20:32:29.713 CEST", "2026-07-01T20:32:29.713+02:00"),
            ("2026-07-01 20:32:29 +0530", "2026-07-01T20:32:29+05:30"),
            ("2026-07-01 20:32:29 -03", "2026-07-01T20:32:29-03:00"),
            ("2021-03-04T05:06:07.123456Z", "2021-03-04T05:06:07.123456Z"),
            ("2024-02-03T04:05:06.700000+01:00", "2024-02-03T04:05:06.700000+01:00"),
            ("2026-11-21T20:59:29.675+0000", "2026-11-21T20:59:29.675+00:00"),
            ("2024-05-06 07:08:09.012+0000", "2024-05-06T07:08:09.012+00:00"),
            ("2024-05-06  7:08:09 GMT", "2024-05-06T07:08:09Z"),
            ("2026-11-21 20:32:29 UTC:127.0.0.1(5432):db@app:[4711]:", "2026-11-21T20:32:29Z"),
        ] {
            assert_eq!(parse_log_timestamp(text).as_deref(), Ok(expected), "{text}");
            assert!(expected.parse::<jiff::Timestamp>().is_ok(), "{expected}");
        }
    }

    #[test]
    fn without_a_zone_or_with_one_of_several_meanings_it_is_not_told() {
        for text in [
            "2026-11-21 20:32:36",
            "210304  5:06:07",
            "Fri May 01 07:08:09 2020",
            "2026-11-21T20:32:36",
        ] {
            assert_eq!(parse_log_timestamp(text), Err(NoTime::NoZone), "{text}");
        }
        for zone in ["CST", "IST", "PST", "XYZ", "+99", "+2", "-0560", "+1:2"] {
            let said = parse_log_timestamp(&format!("2026-11-21 20:32:36 {zone}"))
                .unwrap_err()
                .to_string();
            assert!(said.ends_with(zone), "{said}");
        }
    }

    #[test]
    fn what_is_no_time_is_said_to_be_none() {
        for text in [
            "",
            "T",
            "2026-13-01 00:00:00 UTC",
            "2026-02-30 00:00:00 UTC",
            "2026-01-01 25:00:00 UTC",
            "[0.012s]",
            "26-1-1 1:1:1",
        ] {
            assert_eq!(parse_log_timestamp(text), Err(NoTime::Senseless), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_told_is_a_time(text: String, shaped in "[0-9]{4}-[0-9]{2}-[0-9]{2}[T \
             ][0-9:.,]{0,12}[ +-]?[A-Z0-9:]{0,6}") {
            for text in [text, shaped] {
                if let Ok(time) = parse_log_timestamp(&text) {
                    prop_assert!(time.parse::<jiff::Timestamp>().is_ok(), "{} {}", text, time);
                }
            }
        }
    }
}
