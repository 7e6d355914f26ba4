//! What stands before the first record: who wrote it, of which host, and how a record is laid out.
//!
//! | format | written by | begins with | an activity | a record's header |
//! | --- | --- | --- | --- | --- |
//! | 0x2170, 0x1170 | 9.0.0 to 9.1.5; RHEL 6.5 | magic 8, header 280 | id, nr, size | 48 bytes |
//! | 0x2171 | 9.1.6 to 10.2.x | the same | id, magic, nr, nr2, size | 48 bytes |
//! | 0x2173 | 10.3.1 to 11.6.x | magic 76, header of the size it says | the same | 48 bytes |
//! | 0x2175 | from 11.7.1 on | the same; the header counts the fields of all that follows | counted | counted |
//!
//! From sysstat's `sa.h` and `sa_conv.h` of these versions.

use super::activity::{Activity, Shape};
use super::bytes::{text_at, u8_at, u16_at, u32_at, u64_at};
use super::record::RecordLayout;
use super::version::Version;
use super::window::Window;
use crate::Refused;

/// First two bytes of every file since sysstat 9.
const SYSSTAT: u16 = 0xd596;
/// The same, written by a big-endian machine.
const SYSSTAT_SWAPPED: u16 = 0x96d5;
/// Length of the magic structure since 10.3.1.
const LONG_MAGIC: usize = 76;
/// Length of the header before 10.3.1.
const OLD_HEADER: usize = 280;
/// Length of a name in a header, as in `utsname`.
const NAME: usize = 65;
/// sysstat's own bounds for what a file may claim.
const LONGEST_HEADER: usize = 8192;
const MOST_ACTIVITIES: u32 = 256;
const LONGEST_ACTIVITY: usize = 1024;
const LONGEST_RECORD_HEADER: usize = 512;

/// The head of a file.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) version: Version,
    /// Converted by `sadf -c`: fields that the version of the collector did not have are there and say nothing.
    pub(super) converted: bool,
    /// When the file was begun, seconds since the epoch.
    pub(super) began: u64,
    /// The same day on the host's wall clock: year, month and day.
    pub(super) day: Option<(i64, i64, i64)>,
    pub(super) name: Option<String>,
    pub(super) kernel: Option<String>,
    pub(super) machine: Option<String>,
    pub(super) activities: Vec<Activity>,
    pub(super) record: RecordLayout,
    /// 0x2173: how many activities a restart describes anew.
    pub(super) volatile: usize,
}

impl Header {
    /// What stands at the same places in every format: when the file was begun at the header's beginning, and four names
    /// from `names` on, of which the first is the system's own. `None` where the header ends before.
    fn of(version: Version, bytes: &[u8], names: usize, record: RecordLayout) -> Option<Self> {
        Some(Self {
            version,
            converted: false,
            began: u64_at(bytes, 0)?,
            day: None,
            name: text_at(bytes, names + NAME, NAME),
            kernel: text_at(bytes, names + 2 * NAME, NAME),
            machine: text_at(bytes, names + 3 * NAME, NAME),
            activities: Vec::new(),
            record,
            volatile: 0,
        })
    }
}

/// Format of RHEL 5's and older files, by the place where they have it.
fn ancient(bytes: &[u8]) -> Option<u16> {
    u16_at(bytes, 36).filter(|format| (0x2160..=0x216f).contains(format))
}

/// Whether bytes begin as a file of sysstat does, one that is read or one that is refused by name.
pub(super) fn begins(bytes: &[u8]) -> bool {
    matches!(u16_at(bytes, 0), Some(SYSSTAT | SYSSTAT_SWAPPED)) || ancient(bytes).is_some()
}

/// Reads the head of a file and lets it go.
pub(super) fn read(window: &mut Window<'_>) -> Result<Header, Refused> {
    window.reach(8);
    let magic = window.bytes();
    let kind = u16_at(magic, 0).ok_or_else(|| Refused("is too short for a sysstat file".into()))?;
    if kind == SYSSTAT_SWAPPED {
        return Err(Refused("was written by sysstat on a big-endian machine, which is not read".into()));
    }
    if kind != SYSSTAT {
        window.reach(64);
        return Err(Refused(match ancient(window.bytes()) {
            Some(old) => {
                format!("was written by sysstat 8 or older (format {old:#x}), as RHEL 5 has it, which is not read")
            }
            None => "is not a sysstat file".into(),
        }));
    }
    let format = u16_at(magic, 2).ok_or_else(torn)?;
    let part = |offset| u8_at(magic, offset).ok_or_else(torn);
    let version = Version(part(4)?, part(5)?, part(6)?, part(7)?);
    match format {
        0x2170 | 0x1170 => old(window, version, 12),
        0x2171 => old(window, version, 20),
        0x2173 => middle(window, version),
        0x2175 => new(window, version),
        _ => Err(Refused(format!("is a sysstat file of format {format:#x} (sysstat {version}), which is not known"))),
    }
}

fn torn() -> Refused {
    Refused("ends within its header: it holds no sample".into())
}

fn senseless(what: &str) -> Refused {
    Refused(format!("has a header that makes no sense: {what}"))
}

/// Only a machine with 8-byte longs.
fn wide(sizeof_long: Option<u8>) -> Result<(), Refused> {
    match sizeof_long.ok_or_else(torn)? {
        8 => Ok(()),
        4 => Err(Refused("was written by sysstat on a 32-bit machine, which is not read".into())),
        size => Err(senseless(&format!("long of {size} bytes"))),
    }
}

/// Day, month from 0 and years since 1900, as `struct tm` has them.
fn day(day: u8, month: u8, years: i64) -> Option<(i64, i64, i64)> {
    let sound = (1..=31).contains(&day) && month < 12 && (70..300).contains(&years);
    sound.then(|| (1900 + years, i64::from(month) + 1, i64::from(day)))
}

/// 0x2170 and 0x2171, whose lists of activities differ.
fn old(window: &mut Window<'_>, version: Version, entry: usize) -> Result<Header, Refused> {
    if !window.reach(8 + OLD_HEADER) {
        return Err(torn());
    }
    let bytes = window.bytes().get(8..).ok_or_else(torn)?;
    wide(u8_at(bytes, 15))?;
    let count = u32_at(bytes, 8).ok_or_else(torn)?;
    let mut header = Header::of(version, bytes, 16, RecordLayout::OLD).ok_or_else(torn)?;
    header.day = old_day(bytes, 12);
    window.advance(8 + OLD_HEADER);
    header.activities = activities(window, count, entry, |bytes| old_activity(bytes, entry))?;
    Ok(header)
}

/// 0x2173.
fn middle(window: &mut Window<'_>, version: Version) -> Result<Header, Refused> {
    let (length, _) = long_magic(window)?;
    let bytes = window.bytes().get(LONG_MAGIC..LONG_MAGIC + length).ok_or_else(torn)?;
    wide(u8_at(bytes, 23))?;
    let count = u32_at(bytes, 12).ok_or_else(torn)?;
    let volatile = u32_at(bytes, 16).filter(|volatile| *volatile <= MOST_ACTIVITIES);
    let mut header = Header::of(version, bytes, 24, RecordLayout::OLD).ok_or_else(torn)?;
    header.day = old_day(bytes, 20);
    header.volatile = usize::try_from(volatile.ok_or_else(|| senseless("its volatile activities"))?).unwrap_or(0);
    window.advance(LONG_MAGIC + length);
    header.activities = activities(window, count, 20, |bytes| old_activity(bytes, 20))?;
    Ok(header)
}

/// 0x2175.
fn new(window: &mut Window<'_>, version: Version) -> Result<Header, Refused> {
    let (length, converted) = long_magic(window)?;
    let magic = window.bytes();
    let shape = Shape::at(magic, 16).ok_or_else(torn)?;
    let bytes = magic.get(LONG_MAGIC..LONG_MAGIC + length).ok_or_else(torn)?;
    let numbers = shape.wide().checked_mul(8).filter(|numbers| *numbers <= length);
    let numbers = numbers.ok_or_else(|| senseless("more fields than bytes"))?;
    let narrow = shape.narrow();
    let field = |index: usize| (index < narrow).then(|| u32_at(bytes, numbers + 4 * index)).flatten();
    let tail = narrow.checked_mul(4).and_then(|narrow| numbers.checked_add(narrow)).filter(|tail| *tail <= length);
    let tail = tail.ok_or_else(|| senseless("more fields than bytes"))?;
    wide(u8_at(bytes, tail + 2))?;
    let missing = || senseless("fields are missing");
    let entry_shape = Shape::at(bytes, numbers + 12).ok_or_else(missing)?;
    let record_shape = Shape::at(bytes, numbers + 24).ok_or_else(missing)?;
    let size = |index| field(index).and_then(|size| usize::try_from(size).ok()).ok_or_else(missing);
    let (entry, record) = (size(9)?, size(10)?);
    if entry > LONGEST_ACTIVITY || record > LONGEST_RECORD_HEADER {
        return Err(senseless("sizes beyond all bounds"));
    }
    let begin = entry_shape.wide().saturating_mul(8);
    if begin.saturating_add(36) > entry {
        return Err(senseless("activities too short for their fields"));
    }
    let record = RecordLayout::counted(record_shape, record).ok_or_else(|| senseless("records without a type"))?;
    let years = field(2).and_then(|years| i32::try_from(years).ok()).map_or(0, i64::from);
    let header = Header::of(version, bytes, tail + 3, record).filter(|_| shape.ulls() > 0);
    let mut header = header.ok_or_else(missing)?;
    header.converted = converted;
    header.day = u8_at(bytes, tail).zip(u8_at(bytes, tail + 1)).and_then(|(date, month)| day(date, month, years));
    let count = field(1).ok_or_else(missing)?;
    let extra = field(11).is_some_and(|extra| extra != 0);
    window.advance(LONG_MAGIC + length);
    header.activities =
        activities(window, count, entry, |bytes| Activity::counted(bytes.get(begin..)?, header.version))?;
    if extra {
        let length = super::record::extra_length(window, 0).ok_or_else(|| senseless("its extra structures"))?;
        window.advance(length);
    }
    Ok(header)
}

/// Makes the window reach over the long magic and the header, whose length it gives, and tells whether the file was
/// converted.
fn long_magic(window: &mut Window<'_>) -> Result<(usize, bool), Refused> {
    if !window.reach(LONG_MAGIC) {
        return Err(torn());
    }
    let size = u32_at(window.bytes(), 8).and_then(|size| usize::try_from(size).ok());
    let size = size.filter(|size| (1..=LONGEST_HEADER).contains(size)).ok_or_else(|| senseless("its length"))?;
    let converted = u32_at(window.bytes(), 12) != Some(0);
    if window.reach(LONG_MAGIC + size) { Ok((size, converted)) } else { Err(torn()) }
}

fn old_day(bytes: &[u8], offset: usize) -> Option<(i64, i64, i64)> {
    day(u8_at(bytes, offset)?, u8_at(bytes, offset + 1)?, u8_at(bytes, offset + 2)?.into())
}

fn activities(
    window: &mut Window<'_>,
    count: u32,
    size: usize,
    parse: impl Fn(&[u8]) -> Option<Activity>,
) -> Result<Vec<Activity>, Refused> {
    if !(1..=MOST_ACTIVITIES).contains(&count) {
        return Err(senseless(&format!("{count} activities")));
    }
    let mut activities = Vec::new();
    for _ in 0..count {
        if !window.reach(size) {
            return Err(torn());
        }
        let bytes = window.bytes().get(..size).unwrap_or_default();
        activities.push(parse(bytes).ok_or_else(|| senseless("an activity without items or of senseless size"))?);
        window.advance(size);
    }
    Ok(activities)
}

/// An activity of 12 or 20 bytes: the older one has neither magic nor a second dimension.
fn old_activity(bytes: &[u8], size: usize) -> Option<Activity> {
    let field = |index: usize| u32_at(bytes, 4 * index);
    if size == 12 {
        Activity::old(field(0)?, field(1)?, 1, field(2)?)
    } else {
        Some(Activity::old(field(0)?, field(2)?, field(3)?, field(4)?)?.of_layout(field(1)?))
    }
}
