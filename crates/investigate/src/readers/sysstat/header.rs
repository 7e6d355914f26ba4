//! What stands before the first record: who wrote it, of which host, and the layout of records.
//!
//! | format | written by | begins with | an activity | a record's header |
//! | --- | --- | --- | --- | --- |
//! | 0x2170, 0x1170 | 9.0.0 to 9.1.5; RHEL 6.5 | magic 8, header 280 | id, nr, size | 48 bytes |
//! | 0x2171 | 9.1.6 to 10.2.x | the same | id, magic, nr, nr2, size | 48 bytes |
//! | 0x2173 | 10.3.1 to 11.6.x | magic 76, header of the size it says | the same | 48 bytes |
//! | 0x2175 | from 11.7.1 on | the same; the header counts the fields of all that follows | counted | counted |
//!
//! From sysstat's `sa.h` and `sa_conv.h` of these versions.

use super::activity::{Activity, StructureShape};
use super::record::RecordLayout;
use super::version::SysstatVersion;
use super::window::StreamWindow;
use crate::FileRefused;
use crate::readers::bytes::{text_at, u8_at, u16_at, u32_at, u64_at};

/// First two bytes of every file since sysstat 9.
const SYSSTAT: u16 = 0xd596;
/// The same, written by a big-endian machine.
const SYSSTAT_SWAPPED: u16 = 0x96d5;
/// Bytes of the magic structure since 10.3.1.
const LONG_MAGIC: usize = 76;
/// Bytes of the header before 10.3.1.
const OLD_HEADER: usize = 280;
/// Bytes of a name in a header, as in `utsname`.
const NAME: usize = 65;
/// sysstat's own bounds for what a file may claim.
const LONGEST_HEADER: usize = 8192;
const MOST_ACTIVITIES: u32 = 256;
const LONGEST_ACTIVITY: usize = 1024;
const LONGEST_RECORD_HEADER: usize = 512;

#[derive(Debug)]
pub(super) struct SysstatHeader {
    pub(super) version: SysstatVersion,
    /// Converted by `sadf -c`: fields that the collector's version lacked are empty.
    pub(super) converted: bool,
    /// When the file was begun, in seconds since the epoch.
    pub(super) began: u64,
    /// That day by the host's wall clock: year, month and day.
    pub(super) day: Option<(i64, i64, i64)>,
    pub(super) name: Option<String>,
    pub(super) kernel: Option<String>,
    pub(super) machine: Option<String>,
    pub(super) activities: Vec<Activity>,
    pub(super) record: RecordLayout,
    /// 0x2173: how many activities a restart describes anew.
    pub(super) volatile: usize,
}

impl SysstatHeader {
    /// The fields of every format: when the file was begun at the header's beginning, and four names
    /// from `names` on, the first of which is the system's own. `None` if the header is too short.
    fn from_common_fields(
        version: SysstatVersion,
        bytes: &[u8],
        names: usize,
        record: RecordLayout,
    ) -> Option<Self> {
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

/// The format of RHEL 5's and older files.
fn read_ancient_format(bytes: &[u8]) -> Option<u16> {
    u16_at(bytes, 36).filter(|format| (0x2160..=0x216f).contains(format))
}

pub(super) fn is_sysstat_file(bytes: &[u8]) -> bool {
    matches!(u16_at(bytes, 0), Some(SYSSTAT | SYSSTAT_SWAPPED))
        || read_ancient_format(bytes).is_some()
}

pub(super) fn read(window: &mut StreamWindow<'_>) -> Result<SysstatHeader, FileRefused> {
    window.fill_to(8);
    let magic = window.bytes();
    let kind =
        u16_at(magic, 0).ok_or_else(|| FileRefused("is too short for a sysstat file".into()))?;
    if kind == SYSSTAT_SWAPPED {
        return Err(FileRefused(
            "was written by sysstat on a big-endian machine, which is not read".into(),
        ));
    }
    if kind != SYSSTAT {
        window.fill_to(64);
        return Err(FileRefused(match read_ancient_format(window.bytes()) {
            Some(old) => {
                format!(
                    "was written by sysstat 8 or older (format {old:#x}), as RHEL 5 has it, which \
                         is not read"
                )
            }
            None => "is not a sysstat file".into(),
        }));
    }
    let format = u16_at(magic, 2).ok_or_else(truncated_header)?;
    let part = |offset| u8_at(magic, offset).ok_or_else(truncated_header);
    let version = SysstatVersion(part(4)?, part(5)?, part(6)?, part(7)?);
    match format {
        0x2170 | 0x1170 => read_legacy_header(window, version, 12),
        0x2171 => read_legacy_header(window, version, 20),
        0x2173 => read_2173_header(window, version),
        0x2175 => read_2175_header(window, version),
        _ => Err(FileRefused(format!(
            "is a sysstat file of format {format:#x} (sysstat {version}), which is not known"
        ))),
    }
}

fn truncated_header() -> FileRefused {
    FileRefused("ends within its header: it holds no sample".into())
}

fn invalid_header(what: &str) -> FileRefused {
    FileRefused(format!("has a header that makes no sense: {what}"))
}

fn require_64_bit(sizeof_long: Option<u8>) -> Result<(), FileRefused> {
    match sizeof_long.ok_or_else(truncated_header)? {
        8 => Ok(()),
        4 => {
            Err(FileRefused("was written by sysstat on a 32-bit machine, which is not read".into()))
        }
        size => Err(invalid_header(&format!("long of {size} bytes"))),
    }
}

/// Month from 0 and years since 1900, as in `struct tm`.
fn check_day(day: u8, month: u8, years: i64) -> Option<(i64, i64, i64)> {
    let sound = (1..=31).contains(&day) && month < 12 && (70..300).contains(&years);
    sound.then(|| (1900 + years, i64::from(month) + 1, i64::from(day)))
}

/// 0x2170 and 0x2171, whose lists of activities differ.
fn read_legacy_header(
    window: &mut StreamWindow<'_>,
    version: SysstatVersion,
    entry: usize,
) -> Result<SysstatHeader, FileRefused> {
    if !window.fill_to(8 + OLD_HEADER) {
        return Err(truncated_header());
    }
    let bytes = window.bytes().get(8..).ok_or_else(truncated_header)?;
    require_64_bit(u8_at(bytes, 15))?;
    let count = u32_at(bytes, 8).ok_or_else(truncated_header)?;
    let mut header = SysstatHeader::from_common_fields(version, bytes, 16, RecordLayout::OLD)
        .ok_or_else(truncated_header)?;
    header.day = parse_legacy_day(bytes, 12);
    window.advance(8 + OLD_HEADER);
    header.activities =
        read_activities(window, count, entry, |bytes| parse_legacy_activity(bytes, entry))?;
    Ok(header)
}

fn read_2173_header(
    window: &mut StreamWindow<'_>,
    version: SysstatVersion,
) -> Result<SysstatHeader, FileRefused> {
    let (length, _) = read_long_magic(window)?;
    let bytes = window.bytes().get(LONG_MAGIC..LONG_MAGIC + length).ok_or_else(truncated_header)?;
    require_64_bit(u8_at(bytes, 23))?;
    let count = u32_at(bytes, 12).ok_or_else(truncated_header)?;
    let volatile = u32_at(bytes, 16).filter(|volatile| *volatile <= MOST_ACTIVITIES);
    let mut header = SysstatHeader::from_common_fields(version, bytes, 24, RecordLayout::OLD)
        .ok_or_else(truncated_header)?;
    header.day = parse_legacy_day(bytes, 20);
    header.volatile =
        usize::try_from(volatile.ok_or_else(|| invalid_header("its volatile activities"))?)
            .unwrap_or(0);
    window.advance(LONG_MAGIC + length);
    header.activities =
        read_activities(window, count, 20, |bytes| parse_legacy_activity(bytes, 20))?;
    Ok(header)
}

fn read_2175_header(
    window: &mut StreamWindow<'_>,
    version: SysstatVersion,
) -> Result<SysstatHeader, FileRefused> {
    let (length, converted) = read_long_magic(window)?;
    let magic = window.bytes();
    let shape = StructureShape::read_counts(magic, 16).ok_or_else(truncated_header)?;
    let bytes = magic.get(LONG_MAGIC..LONG_MAGIC + length).ok_or_else(truncated_header)?;
    let numbers = shape.wide_count().checked_mul(8).filter(|numbers| *numbers <= length);
    let numbers = numbers.ok_or_else(|| invalid_header("more fields than bytes"))?;
    let narrow = shape.narrow_count();
    let field =
        |index: usize| (index < narrow).then(|| u32_at(bytes, numbers + 4 * index)).flatten();
    let tail = narrow
        .checked_mul(4)
        .and_then(|narrow| numbers.checked_add(narrow))
        .filter(|tail| *tail <= length);
    let tail = tail.ok_or_else(|| invalid_header("more fields than bytes"))?;
    require_64_bit(u8_at(bytes, tail + 2))?;
    let missing = || invalid_header("fields are missing");
    let entry_shape = StructureShape::read_counts(bytes, numbers + 12).ok_or_else(missing)?;
    let record_shape = StructureShape::read_counts(bytes, numbers + 24).ok_or_else(missing)?;
    let size = |index| field(index).and_then(|size| usize::try_from(size).ok()).ok_or_else(missing);
    let (entry, record) = (size(9)?, size(10)?);
    if entry > LONGEST_ACTIVITY || record > LONGEST_RECORD_HEADER {
        return Err(invalid_header("sizes beyond all bounds"));
    }
    let begin = entry_shape.wide_count().saturating_mul(8);
    if begin.saturating_add(36) > entry {
        return Err(invalid_header("activities too short for their fields"));
    }
    let record = RecordLayout::from_counted_shape(record_shape, record)
        .ok_or_else(|| invalid_header("records without a type"))?;
    let years = field(2).and_then(|years| i32::try_from(years).ok()).map_or(0, i64::from);
    let header = SysstatHeader::from_common_fields(version, bytes, tail + 3, record)
        .filter(|_| shape.ull_count() > 0);
    let mut header = header.ok_or_else(missing)?;
    header.converted = converted;
    header.day = u8_at(bytes, tail)
        .zip(u8_at(bytes, tail + 1))
        .and_then(|(date, month)| check_day(date, month, years));
    let count = field(1).ok_or_else(missing)?;
    let extra = field(11).is_some_and(|extra| extra != 0);
    window.advance(LONG_MAGIC + length);
    header.activities = read_activities(window, count, entry, |bytes| {
        Activity::from_counted_entry(bytes.get(begin..)?, header.version)
    })?;
    if extra {
        let length = super::record::extra_length(window, 0)
            .ok_or_else(|| invalid_header("its extra structures"))?;
        window.advance(length);
    }
    Ok(header)
}

/// Fills the window over magic and header; returns the header's length, and whether converted.
fn read_long_magic(window: &mut StreamWindow<'_>) -> Result<(usize, bool), FileRefused> {
    if !window.fill_to(LONG_MAGIC) {
        return Err(truncated_header());
    }
    let size = u32_at(window.bytes(), 8).and_then(|size| usize::try_from(size).ok());
    let size = size
        .filter(|size| (1..=LONGEST_HEADER).contains(size))
        .ok_or_else(|| invalid_header("its length"))?;
    let converted = u32_at(window.bytes(), 12) != Some(0);
    if window.fill_to(LONG_MAGIC + size) { Ok((size, converted)) } else { Err(truncated_header()) }
}

fn parse_legacy_day(bytes: &[u8], offset: usize) -> Option<(i64, i64, i64)> {
    check_day(u8_at(bytes, offset)?, u8_at(bytes, offset + 1)?, u8_at(bytes, offset + 2)?.into())
}

fn read_activities(
    window: &mut StreamWindow<'_>,
    count: u32,
    size: usize,
    parse: impl Fn(&[u8]) -> Option<Activity>,
) -> Result<Vec<Activity>, FileRefused> {
    if !(1..=MOST_ACTIVITIES).contains(&count) {
        return Err(invalid_header(&format!("{count} activities")));
    }
    let mut activities = Vec::new();
    for _ in 0..count {
        if !window.fill_to(size) {
            return Err(truncated_header());
        }
        let bytes = window.bytes().get(..size).unwrap_or_default();
        activities.push(
            parse(bytes)
                .ok_or_else(|| invalid_header("an activity without items or of senseless size"))?,
        );
        window.advance(size);
    }
    Ok(activities)
}

/// The older one, of 12 bytes, has neither magic nor a second dimension.
fn parse_legacy_activity(bytes: &[u8], size: usize) -> Option<Activity> {
    let field = |index: usize| u32_at(bytes, 4 * index);
    if size == 12 {
        Activity::from_legacy_entry(field(0)?, field(1)?, 1, field(2)?)
    } else {
        Some(
            Activity::from_legacy_entry(field(0)?, field(2)?, field(3)?, field(4)?)?
                .with_layout(field(1)?),
        )
    }
}
