//! Dates and times of day, as collectors print them.

/// Seconds of a day.
pub(super) const DAY: i64 = 86_400;

/// Year, month and day of seconds since the epoch: the civil calendar, in eras of 400 years that begin in March.
pub(super) fn date(seconds: i64) -> (i64, i64, i64) {
    let days = seconds.div_euclid(DAY) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// The seconds since the epoch at which a day of the civil calendar begins, from 1970 to 2199.
pub(super) fn midnight(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1970..2200).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that the day that leap years have is their last.
    let (year, month_of) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month_of + 2) / 5 + day - 1 - 719_468;
    let seconds = days * DAY;
    (date(seconds).1 == month && date(seconds).2 == day).then_some(seconds)
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
            assert_eq!(date(seconds), day);
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
