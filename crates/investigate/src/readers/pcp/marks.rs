//! Mark records of a PCP archive: where pmlogger ended, or one archive was joined to another. pmrep
//! does not print them.

use std::io::{self, Read};

use crate::Moment;

/// Marks that are kept: one a minute is a month of them.
const MOST: usize = 65_536;
/// Bytes of a record's length, and of the label's first word or a count of metrics.
const WORD: usize = 4;

/// Finds marks in a volume as it goes by.
#[derive(Debug, Default)]
pub(super) struct MarkFinder {
    /// Whether it is of version 3; not known before its label.
    third: Option<bool>,
    /// The beginning of the record that goes by, and bytes until the next one.
    head: Vec<u8>,
    ahead: usize,
    /// Whether something was no record.
    broken: bool,
    marks: Vec<Moment>,
}

impl MarkFinder {
    pub(super) fn into_marks(self) -> Vec<Moment> {
        self.marks
    }

    /// Bytes of a record that are looked at: its length, its time, and how many metrics it has.
    fn wanted(&self) -> usize {
        match self.third {
            None => 2 * WORD,
            Some(third) => 2 * WORD + stamp_size(third),
        }
    }

    fn push_bytes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.broken && self.marks.len() < MOST {
            let part = if self.ahead > 0 {
                self.ahead.min(bytes.len())
            } else {
                (self.wanted() - self.head.len()).min(bytes.len())
            };
            let (now, rest) = bytes.split_at(part);
            bytes = rest;
            if self.ahead > 0 {
                self.ahead -= part;
                continue;
            }
            self.head.extend_from_slice(now);
            if self.head.len() == self.wanted() {
                self.end_head();
            }
        }
    }

    fn end_head(&mut self) {
        let head = std::mem::take(&mut self.head);
        let length = number_at(&head, 0).and_then(|length| usize::try_from(length).ok());
        let ahead = length.and_then(|length| length.checked_sub(head.len()));
        match self.third {
            None => self.third = number_at(&head, WORD).map(|label| label & 0xff == 3),
            // Of no metrics, as only a mark is.
            Some(third) if number_at(&head, WORD + stamp_size(third)) == Some(0) => {
                self.marks.extend(moment_of(&head, third));
            }
            Some(_) => {}
        }
        self.ahead = ahead.unwrap_or(0);
        self.broken = ahead.is_none();
    }
}

/// A stream whose marks are found as it is read.
pub(super) struct MarkedStream<'a, R> {
    pub(super) stream: R,
    pub(super) finder: &'a mut MarkFinder,
}

impl<R: Read> Read for MarkedStream<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.finder.push_bytes(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}

const fn stamp_size(third: bool) -> usize {
    if third { 12 } else { 8 }
}

/// Seconds and microseconds; since version 3 seconds of 64 bits, and nanoseconds.
fn moment_of(head: &[u8], third: bool) -> Option<Moment> {
    let word = |place: usize| number_at(head, WORD + place);
    let first = word(0)?;
    let (seconds, milliseconds) = if third {
        (i64::from(first) << 32 | i64::from(word(4)?), word(8)? / 1_000_000)
    } else {
        (i64::from(first), word(4)? / 1000)
    };
    Some(Moment(Moment::from_seconds(seconds).0.checked_add(i64::from(milliseconds))?))
}

fn number_at(bytes: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(place..place + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The marks of a volume that is read in pieces of some bytes.
    fn marks_in(volume: &[u8], piece: usize) -> Vec<Moment> {
        let mut finder = MarkFinder::default();
        let mut stream = MarkedStream { stream: volume, finder: &mut finder };
        while stream.read(&mut vec![0; piece]).unwrap() > 0 {}
        finder.into_marks()
    }

    /// A record of LOGARCHIVE(5): its length, what is in it, and its length again.
    fn record(body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 8).unwrap().to_be_bytes();
        [&length[..], body, &length].concat()
    }

    fn data(stamp: &[u8], metrics: u32) -> Vec<u8> {
        let values = vec![7; usize::try_from(metrics).unwrap() * 20];
        record(&[stamp, &metrics.to_be_bytes(), &values].concat())
    }

    fn label(version: u32) -> Vec<u8> {
        record(&[&(0x5005_2600 | version).to_be_bytes()[..], &[0; 120]].concat())
    }

    #[test]
    fn records_of_no_metrics_are_marks() {
        // `date -u -d @1514812211`: 2018-01-01 13:10:11.
        let second = |at: u32, part: u32| [at.to_be_bytes(), part.to_be_bytes()].concat();
        let volume = [
            label(2),
            data(&second(1_514_812_211, 563_796), 3),
            data(&second(1_514_812_211, 564_796), 0),
            data(&second(1_514_812_300, 0), 1),
        ];
        for piece in [1, 7, 4096] {
            assert_eq!(marks_in(&volume.concat(), piece), [Moment(1_514_812_211_564)]);
        }
        let third = |at: u64, part: u32| [&at.to_be_bytes()[..], &part.to_be_bytes()].concat();
        let volume =
            [label(3), data(&third(1_514_812_211, 5_000_000), 2), data(&third(9, 1_000_000), 0)];
        assert_eq!(marks_in(&volume.concat(), 100), [Moment(9001)]);
    }

    #[test]
    fn what_is_torn_or_no_archive_has_no_marks_behind_that() {
        let whole = [label(2), data(&[0; 8], 0), data(&[0; 8], 4)].concat();
        for length in 0..whole.len() {
            assert!(marks_in(&whole[..length], 64).len() <= 1);
        }
        for bytes in [&[0; 64][..], &[255; 64], b"\0\0\0\x08\0\0\0\x08"] {
            assert_eq!(marks_in(bytes, 64), []);
        }
    }
}
