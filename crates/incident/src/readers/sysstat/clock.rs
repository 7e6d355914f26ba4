//! The host's offset from UTC: each record has the time of both, UTC with its date and the wall's without.

use super::record::RecordHeader;
use crate::series::{Clock, Moment, Offset};

const DAY: i64 = 86_400;

/// Offsets as records tell them.
#[derive(Clone, Debug)]
pub(super) struct Offsets {
    began: i64,
    day: Option<(i64, i64, i64)>,
    offsets: Vec<Offset>,
}

impl Offsets {
    /// For a file begun at a moment of UTC that was this day on the wall.
    pub(super) fn new(began: i64, day: Option<(i64, i64, i64)>) -> Self {
        Self { began, day, offsets: Vec::new() }
    }

    /// Takes a record's offset. Zones are whole quarters of an hour ahead or behind: anything else is none.
    pub(super) fn note(&mut self, header: &RecordHeader) {
        let ahead = header.ahead();
        if ahead % 900 != 0 {
            return;
        }
        // From 12 hours behind to 14 ahead; between 12 behind and 10 behind the time alone does not tell.
        let candidates =
            [ahead - DAY, ahead, ahead + DAY].into_iter().filter(|ahead| (-43_200..=50_400).contains(ahead));
        let last = self.offsets.last().map(|offset| i64::from(offset.seconds));
        let chosen = candidates.min_by_key(|ahead| match last {
            Some(last) => (ahead - last).abs(),
            None => i64::from(self.day.is_some_and(|day| date(self.began + ahead) != day)) * DAY + ahead.abs(),
        });
        let Some(seconds) = chosen.and_then(|seconds| i32::try_from(seconds).ok()) else { return };
        if self.offsets.last().is_none_or(|last| last.seconds != seconds) {
            self.offsets.push(Offset { from: Moment::from_seconds(header.time), seconds });
        }
    }

    pub(super) fn into_clock(self) -> Clock {
        Clock::Utc { offsets: self.offsets }
    }
}

/// Year, month and day of seconds since the epoch: the civil calendar, in eras of 400 years that begin in March.
fn date(seconds: i64) -> (i64, i64, i64) {
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
    if !(1970..2200).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    // Years begin in March, so that the day that leap years have is their last.
    let (year, month_of) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month_of + 2) / 5 + day - 1 - 719_468;
    let seconds = days * DAY;
    (date(seconds).1 == month && date(seconds).2 == day).then_some(seconds)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::record::Kind;
    use super::*;

    fn header(time: i64, wall: (u8, u8, u8)) -> RecordHeader {
        RecordHeader { uptime: 0, time, kind: Kind::Statistics, wall, extra: false }
    }

    /// `date -u -d @1700000000`: 2023-11-14 22:13:20.
    const THEN: i64 = 1_700_000_000;

    #[test]
    fn the_wall_tells_the_offset() {
        for (wall, day, seconds) in [
            ((22, 13, 20), 14, 0),
            ((23, 13, 20), 14, 3600),
            ((3, 43, 20), 15, 19_800),
            ((14, 13, 20), 14, -28_800),
            // Auckland in summer, and Honolulu.
            ((11, 13, 20), 15, 46_800),
            ((12, 13, 20), 14, -36_000),
            // Kiritimati shows Honolulu's time a day later.
            ((12, 13, 20), 15, 50_400),
        ] {
            let mut offsets = Offsets::new(THEN, Some((2023, 11, day)));
            offsets.note(&header(THEN, wall));
            assert_eq!(offsets.into_clock().offset_at(Moment::from_seconds(THEN)), Some(seconds), "{wall:?}");
        }
    }

    #[test]
    fn summer_time_ends_within_a_file() {
        let mut offsets = Offsets::new(THEN, Some((2023, 11, 15)));
        offsets.note(&header(THEN, (0, 13, 20)));
        offsets.note(&header(THEN + 600, (0, 23, 20)));
        offsets.note(&header(THEN + 1200, (23, 33, 20)));
        // A wall that shows an odd time is no zone.
        offsets.note(&header(THEN + 1800, (23, 43, 21)));
        let of =
            |seconds| Offset { from: Moment::from_seconds(THEN + if seconds == 7200 { 0 } else { 1200 }), seconds };
        assert_eq!(offsets.into_clock(), Clock::Utc { offsets: vec![of(7200), of(3600)] });
    }

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
        for (year, month, day) in [(2023, 2, 29), (2023, 13, 1), (2023, 4, 31), (2023, 1, 0), (1, 1, 1)] {
            assert_eq!(midnight(year, month, day), None);
        }
    }
}
