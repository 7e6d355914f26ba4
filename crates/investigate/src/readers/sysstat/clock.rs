//! The host's offset from UTC: each record has UTC with its date, and the wall clock's time.

use super::record::RecordHeader;
use crate::series::{Clock, Moment, Offset};
use hugewise_model::calendar::{DAY, civil_date};

#[derive(Clone, Debug)]
pub(super) struct Offsets {
    began: i64,
    day: Option<(i64, i64, i64)>,
    offsets: Vec<Offset>,
    taken: Option<i64>,
}

impl Offsets {
    /// For a file begun at a moment of UTC that was this day by the wall clock.
    pub(super) fn new(began: i64, day: Option<(i64, i64, i64)>) -> Self {
        Self { began, day, offsets: Vec::new(), taken: None }
    }

    /// Zones differ from UTC by whole quarters of an hour: other differences are ignored.
    pub(super) fn note_offset(&mut self, header: &RecordHeader) {
        let ahead = header.wall_offset();
        if self.taken == Some(ahead) || ahead % 900 != 0 {
            return;
        }
        self.taken = Some(ahead);
        // From 12 hours behind to 14 ahead; between 12 and 10 hours behind it is ambiguous.
        let candidates = [ahead - DAY, ahead, ahead + DAY]
            .into_iter()
            .filter(|ahead| (-43_200..=50_400).contains(ahead));
        let last = self.offsets.last().map(|offset| i64::from(offset.seconds));
        let chosen = candidates.min_by_key(|ahead| match last {
            Some(last) => (ahead - last).abs(),
            None => {
                i64::from(self.day.is_some_and(|day| civil_date(self.began + ahead) != Some(day)))
                    * DAY
                    + ahead.abs()
            }
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

#[cfg(test)]
mod tests {
    use super::super::record::SysstatRecordKind;
    use super::*;

    fn record_header(time: i64, wall: (u8, u8, u8)) -> RecordHeader {
        RecordHeader { uptime: 0, time, kind: SysstatRecordKind::Statistics, wall, extra: false }
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
            offsets.note_offset(&record_header(THEN, wall));
            assert_eq!(
                offsets.into_clock().offset_at(Moment::from_seconds(THEN)),
                Some(seconds),
                "{wall:?}"
            );
        }
    }

    #[test]
    fn summer_time_ends_within_a_file() {
        let mut offsets = Offsets::new(THEN, Some((2023, 11, 15)));
        offsets.note_offset(&record_header(THEN, (0, 13, 20)));
        offsets.note_offset(&record_header(THEN + 600, (0, 23, 20)));
        offsets.note_offset(&record_header(THEN + 1200, (23, 33, 20)));
        // A wall that shows an odd time is no zone.
        offsets.note_offset(&record_header(THEN + 1800, (23, 43, 21)));
        let offset_of = |seconds| Offset {
            from: Moment::from_seconds(THEN + if seconds == 7200 { 0 } else { 1200 }),
            seconds,
        };
        assert_eq!(
            offsets.into_clock(),
            Clock::Utc { offsets: vec![offset_of(7200), offset_of(3600)] }
        );
    }
}
