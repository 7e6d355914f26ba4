//! A record's header, and what may follow it besides statistics.

use super::activity::StructureShape;
use super::window::StreamWindow;
use crate::readers::bytes::{u8_at, u32_at, u64_at};

/// Bytes of the longest record: a host with 4,096 processors writes a tenth of it.
pub(super) const LONGEST: usize = 64 << 20;
/// 2001-09-09: sysstat takes what is before it for garbage.
const EARLIEST: u64 = 1_000_000_000;
/// sysstat's own bounds for extra structures.
const MOST_EXTRA: u32 = 8192;
const LONGEST_EXTRA: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordLayout {
    pub(super) length: usize,
    uptime: usize,
    time: usize,
    /// Where it says whether extra structures follow.
    extra: Option<usize>,
    kind: usize,
}

impl RecordLayout {
    /// Before 11.7.1. The second of two uptimes is the host's, in ticks of 1/100 s.
    pub(super) const OLD: Self = Self { length: 48, uptime: 16, time: 32, extra: None, kind: 40 };

    /// Since 11.7.1: two 8-byte fields and, since 12.1, one of 4 bytes come before the type.
    pub(super) fn from_counted_shape(shape: StructureShape, length: usize) -> Option<Self> {
        let narrow = shape.wide_count().checked_mul(8)?;
        let kind = narrow.checked_add(shape.narrow_count().checked_mul(4)?)?;
        let extra = (shape.narrow_count() > 0).then_some(narrow);
        (shape.ull_count() >= 2 && kind.checked_add(4)? <= length).then_some(Self {
            length,
            uptime: 0,
            time: 8,
            extra,
            kind,
        })
    }

    pub(super) fn parse(&self, bytes: &[u8]) -> Option<RecordHeader> {
        let time = u64_at(bytes, self.time)?;
        let kind = match u8_at(bytes, self.kind)? {
            1 | 3 => SysstatRecordKind::Statistics,
            2 => SysstatRecordKind::Restart,
            4 => SysstatRecordKind::Comment,
            5..=15 => SysstatRecordKind::Extra,
            _ => return None,
        };
        let clock =
            |place: usize, most: u8| u8_at(bytes, self.kind + place).filter(|value| *value <= most);
        let wall = (clock(1, 23)?, clock(2, 59)?, clock(3, 60)?);
        let time = i64::try_from(time).ok().filter(|_| (EARLIEST..1 << 40).contains(&time))?;
        let extra = self.extra.is_some_and(|extra| u32_at(bytes, extra) != Some(0));
        Some(RecordHeader { uptime: u64_at(bytes, self.uptime)?, time, kind, wall, extra })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SysstatRecordKind {
    Statistics,
    Restart,
    Comment,
    Extra,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    /// In 1/100 s.
    pub(super) uptime: u64,
    /// Seconds since the epoch.
    pub(super) time: i64,
    pub(super) kind: SysstatRecordKind,
    /// Hour, minute, second on the host's wall clock.
    pub(super) wall: (u8, u8, u8),
    pub(super) extra: bool,
}

impl RecordHeader {
    /// The wall clock's time of day less that of UTC, in seconds: the offset, but for whole days.
    pub(super) fn wall_offset(&self) -> i64 {
        let (hour, minute, second) = self.wall;
        i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second)
            - self.time.rem_euclid(86_400)
    }

    /// Whether this may be the record after one of `last`: other bytes hardly ever look like it.
    pub(super) fn may_follow(&self, last: i64) -> bool {
        const MONTH: i64 = 31 * 86_400;
        (last - 3600..last + MONTH).contains(&self.time) && self.wall_offset().rem_euclid(900) == 0
    }
}

/// Bytes of extra structures `at` bytes into the window; `None` if senseless or too short.
pub(super) fn extra_length(window: &mut StreamWindow<'_>, at: usize) -> Option<usize> {
    const DESCRIPTION: usize = 24;
    let mut length = 0_usize;
    loop {
        let here = at.checked_add(length)?;
        if here > LONGEST || !window.fill_to(here.checked_add(DESCRIPTION)?) {
            return None;
        }
        let bytes = window.bytes().get(here..)?;
        let count = u32_at(bytes, 0).filter(|count| *count <= MOST_EXTRA)?;
        let size = usize::try_from(u32_at(bytes, 4)?).ok().filter(|size| *size <= LONGEST_EXTRA)?;
        let next = u32_at(bytes, 8)?;
        length = length
            .checked_add(DESCRIPTION)?
            .checked_add(size.checked_mul(usize::try_from(count).ok()?)?)?;
        if next == 0 {
            return Some(length);
        }
    }
}
