//! Dates in sar's first line, in the languages of the C library (`d_fmt` of glibc's locales).

use super::time::{Half, LocalizedTime, decimal_digit};
use crate::readers::line_timestamp::month_named;
use hugewise_model::calendar;

/// The Buddhist calendar, which Thai prints, has so many more years.
const BUDDHIST: i64 = 543;
/// Months in Arabic, as `ar_EG` and its like abbreviate them.
const ARABIC: [&str; 12] =
    ["ينا", "فبر", "مار", "أبر", "ماي", "يون", "يول", "أغس", "سبت", "أكت", "نوف", "ديس"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Day {
    /// With the month first, as in the C locale, until something tells that the day is.
    pub(crate) midnight: i64,
    /// With the day first, if that is another day.
    day_first: Option<i64>,
    /// The other day, where the one that was decided on is only likelier.
    pub(super) unlikely: Option<i64>,
    /// Whether its year has four digits.
    whole_year: bool,
}

/// `11/21/26`, `11/21/2026`, `2026-11-21`, `21.11.2026`, `2026年11月21日`, `21. nov. 2026`
pub(super) fn parse(text: &str) -> Option<Day> {
    let mut numbers: Vec<i64> = Vec::new();
    let (mut running, mut foreign) = (false, false);
    for letter in text.chars() {
        match decimal_digit(letter) {
            Some(digit) => {
                foreign |= !letter.is_ascii_digit();
                if !running {
                    numbers.push(0);
                }
                let number = numbers.last_mut()?;
                *number =
                    number.checked_mul(10)?.checked_add(digit).filter(|number| *number < 10_000)?;
                running = true;
            }
            None => running = false,
        }
    }
    let certain = |year: i64, month: i64, day: i64| {
        let year = if (2500..2800).contains(&year) { year - BUDDHIST } else { year };
        let year = if year < 100 { 2000 + year } else { year };
        Some(Day {
            midnight: calendar::midnight_seconds(year, month, day)?,
            day_first: None,
            unlikely: None,
            whole_year: true,
        })
    };
    match *numbers.as_slice() {
        [year, month, day] if year > 31 => certain(year, month, day),
        // Persian and Azerbaijani print the year first, in two digits.
        [year, month, day] if foreign && text.contains('/') => certain(year, month, day),
        [day, month, year] if !text.contains('/') => certain(year, month, day),
        [one, two, year] if one > 12 => certain(year, two, one),
        [month, day, year] => {
            let seconds_of = |month, day| certain(year, month, day).map(|day| day.midnight);
            let midnight = seconds_of(month, day)?;
            Some(Day {
                midnight,
                day_first: seconds_of(day, month).filter(|other| *other != midnight),
                unlikely: None,
                whole_year: year > 99,
            })
        }
        [one, two] => {
            let month = find_month(text)?;
            if one > 31 { certain(one, month, two) } else { certain(two, month, one) }
        }
        _ => None,
    }
}

fn find_month(text: &str) -> Option<i64> {
    let lower = text.to_lowercase();
    lower.split(|letter: char| !letter.is_alphabetic()).find_map(|word| {
        let arabic = || ARABIC.iter().zip(1..).find(|(name, _)| **name == word);
        month_named(word).or_else(|| arabic().map(|(_, number)| number))
    })
}

impl Day {
    pub(super) const fn is_open(&self) -> bool {
        self.day_first.is_some()
    }

    /// Decides by a line's time of day: en_US writes the month first, four digits of the year, and
    /// AM or PM. Four digits with 24 hours, other words for the half of the day, or a zone mean that
    /// the day comes first.
    pub(super) fn decide_by(&mut self, time: &LocalizedTime) {
        match time.half {
            Some(Half::English) if !time.zoned => self.day_first = None,
            Some(_) => self.take_day_first(),
            None if time.zoned => self.take_day_first(),
            None if self.whole_year && self.is_open() => {
                self.unlikely = Some(self.midnight);
                self.take_day_first();
            }
            None => {}
        }
    }

    /// The same by the words of a time.
    pub(crate) fn decide_by_words(&mut self, words: &[&str]) {
        if let Some(time) = super::time::parse(words) {
            self.decide_by(&time);
        }
    }

    /// No language with a decimal comma writes the month first, but Georgian.
    pub(crate) fn decide_by_comma(&mut self, comma: bool) {
        if comma {
            self.take_day_first();
        }
        self.unlikely = self.day_first.take().or(self.unlikely);
    }

    fn take_day_first(&mut self) {
        if let Some(day_first) = self.day_first.take() {
            self.midnight = day_first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `date -u -d '2026-11-25' +%s`, and 2026-11-05 and 2026-05-11.
    const THE_25TH: i64 = 1_795_564_800;
    const NOVEMBER_5: i64 = 1_793_836_800;
    const MAY_11: i64 = 1_778_457_600;

    #[test]
    fn a_day_is_read_in_every_language() {
        // As `sar` of sysstat 12.6.1 printed it, by LC_ALL: C, en_US, en_GB, de, nl, da, lv, sr,
        // fur, ja, ko, nb, ar, mt, th, fa.
        for printed in [
            "11/25/26",
            "11/25/2026",
            "25/11/26",
            "25/11/2026",
            "25.11.2026",
            "25-11-26",
            "25-11-2026",
            "2026-11-25",
            "2026.11.25.",
            "25.11.2026.",
            "25. 11. 26",
            "2026年11月25日",
            "2026년 11월 25일",
            "25. nov. 2026",
            "25 نوف, 2026",
            "l-Erbgħa, 25 ta Nov, 2026",
            "25/11/2569",
            "۲۶/۱۱/۲۵",
        ] {
            assert_eq!(parse(printed).map(|day| day.midnight), Some(THE_25TH), "{printed}");
        }
        for printed in
            ["", "az., 2026.eko azaren 25a", "25/11", "31.02.2026", "99999.11.25", "1/2/3/4"]
        {
            assert_eq!(parse(printed), None, "{printed}");
        }
    }

    #[test]
    fn day_and_month_are_told_apart_by_the_clock_and_the_decimal_point() {
        let time = |half, zoned| LocalizedTime { second: 0, half, zoned };
        for (printed, first, comma, midnight) in [
            ("11/05/2026", time(Some(Half::English), false), false, NOVEMBER_5),
            ("11/05/2026", time(None, false), true, MAY_11),
            ("11/05/26", time(None, false), false, NOVEMBER_5),
            ("11/05/26", time(None, false), true, MAY_11),
            ("11/05/26", time(Some(Half::English), true), false, MAY_11),
            ("11/05/2026", time(Some(Half::Other), false), false, MAY_11),
        ] {
            let mut day = parse(printed).unwrap();
            day.decide_by(&first);
            day.decide_by_comma(comma);
            assert_eq!(day.midnight, midnight, "{printed} {first:?} {comma}");
            assert!(!day.is_open());
        }
        for printed in ["11-05-2026", "11.05.26"] {
            assert_eq!(
                parse(printed).map(|day| (day.midnight, day.is_open())),
                Some((MAY_11, false)),
                "{printed}"
            );
        }
    }
}
