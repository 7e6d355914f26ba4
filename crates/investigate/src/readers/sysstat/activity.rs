//! Activities: which of their fields are read, and their places in each layout.

use super::version::SysstatVersion;
use crate::Metric;
use crate::readers::bytes::{u32_at, u64_at};

/// sysstat's own bounds for what a file may claim.
const MOST_ITEMS: u32 = 65_536 * 4096;
const MOST_SUBITEMS: u32 = 4096;
const LONGEST_ITEM: u32 = 1024;
/// Processors that the kernel can have, and the item for all of them.
const MOST_PROCESSORS: u32 = 8192 + 1;
const CPU: u32 = 1;

/// How many fields of 8 bytes, of a long and of 4 bytes a structure has, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StructureShape([usize; 3]);

impl StructureShape {
    pub(super) fn read_counts(bytes: &[u8], offset: usize) -> Option<Self> {
        let count = |place: usize| {
            let count = usize::try_from(u32_at(bytes, offset.checked_add(4 * place)?)?).ok()?;
            (count <= 1024).then_some(count)
        };
        Some(Self([count(0)?, count(1)?, count(2)?]))
    }

    /// Fields of 8 bytes without longs.
    pub(super) const fn ull_count(self) -> usize {
        let Self([ulls, _, _]) = self;
        ulls
    }

    /// Fields that take 8 bytes: a long is aligned to 8.
    pub(super) const fn wide_count(self) -> usize {
        let Self([ulls, uls, _]) = self;
        ulls + uls
    }

    pub(super) const fn narrow_count(self) -> usize {
        let Self([_, _, us]) = self;
        us
    }

    fn locate_field(self, slot: FieldSlot) -> Option<FieldLocation> {
        match slot {
            FieldSlot::Ull(index) => {
                (index < self.ull_count()).then_some(FieldLocation::wide_at(8 * index))
            }
            FieldSlot::Ul(index) => {
                let index = self.ull_count() + index;
                (index < self.wide_count()).then_some(FieldLocation::wide_at(8 * index))
            }
            FieldSlot::U(index) => (index < self.narrow_count())
                .then_some(FieldLocation::narrow_at(8 * self.wide_count() + 4 * index)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum FieldSlot {
    Ull(usize),
    Ul(usize),
    U(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldLocation {
    offset: usize,
    wide: bool,
}

impl FieldLocation {
    const fn wide_at(offset: usize) -> Self {
        Self { offset, wide: true }
    }

    const fn narrow_at(offset: usize) -> Self {
        Self { offset, wide: false }
    }

    const fn end(self) -> usize {
        self.offset + if self.wide { 8 } else { 4 }
    }

    pub(super) fn read(self, bytes: &[u8]) -> Option<u64> {
        if self.wide {
            u64_at(bytes, self.offset)
        } else {
            u32_at(bytes, self.offset).map(u64::from)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ActivityFieldKind {
    /// The value, times a factor.
    Gauge(f64),
    /// A counter: its growth a second, times a factor.
    Counter(f64),
}

const KIB: ActivityFieldKind = ActivityFieldKind::Gauge(1024.0);
const ONE: ActivityFieldKind = ActivityFieldKind::Gauge(1.0);
const HUNDREDTH: ActivityFieldKind = ActivityFieldKind::Gauge(0.01);
const RATE: ActivityFieldKind = ActivityFieldKind::Counter(1.0);
/// KiB a second.
const KIB_RATE: ActivityFieldKind = ActivityFieldKind::Counter(1024.0);
/// Microseconds a second, in percent.
const STALL: ActivityFieldKind = ActivityFieldKind::Counter(1e-4);
/// Activity, field, metric, and what becomes of its number.
type ActivityFieldSpec = (u32, FieldSlot, Metric, ActivityFieldKind);

/// The fields that are read: `rd_stats.h` of sysstat 12.7.9, whose order all versions keep.
const FIELDS: &[ActivityFieldSpec] = &[
    (2, FieldSlot::Ull(0), Metric::ContextSwitches, RATE),
    (2, FieldSlot::Ul(0), Metric::Forks, RATE),
    (3, FieldSlot::Ull(0), Metric::Interrupts, RATE),
    (3, FieldSlot::U(0), Metric::Interrupts, RATE),
    (4, FieldSlot::Ul(0), Metric::SwapIn, RATE),
    (4, FieldSlot::Ul(1), Metric::SwapOut, RATE),
    (5, FieldSlot::Ul(0), Metric::PagedIn, KIB_RATE),
    (5, FieldSlot::Ul(1), Metric::PagedOut, KIB_RATE),
    (5, FieldSlot::Ul(2), Metric::Faults, RATE),
    (5, FieldSlot::Ul(3), Metric::MajorFaults, RATE),
    (5, FieldSlot::Ul(4), Metric::Freed, RATE),
    (5, FieldSlot::Ul(5), Metric::ScanKswapd, RATE),
    (5, FieldSlot::Ul(6), Metric::ScanDirect, RATE),
    (5, FieldSlot::Ul(7), Metric::Steal, RATE),
    (7, FieldSlot::Ull(0), Metric::MemFree, KIB),
    (7, FieldSlot::Ull(1), Metric::Buffers, KIB),
    (7, FieldSlot::Ull(2), Metric::Cached, KIB),
    (7, FieldSlot::Ull(3), Metric::MemTotal, KIB),
    (7, FieldSlot::Ull(4), Metric::SwapFree, KIB),
    (7, FieldSlot::Ull(5), Metric::SwapTotal, KIB),
    (7, FieldSlot::Ull(6), Metric::SwapCached, KIB),
    (7, FieldSlot::Ull(7), Metric::Committed, KIB),
    (7, FieldSlot::Ull(8), Metric::Active, KIB),
    (7, FieldSlot::Ull(9), Metric::Inactive, KIB),
    (7, FieldSlot::Ull(10), Metric::Dirty, KIB),
    (7, FieldSlot::Ull(11), Metric::Anon, KIB),
    (7, FieldSlot::Ull(12), Metric::Slab, KIB),
    (7, FieldSlot::Ull(13), Metric::KernelStack, KIB),
    (7, FieldSlot::Ull(14), Metric::PageTables, KIB),
    (7, FieldSlot::Ull(15), Metric::VmallocUsed, KIB),
    (7, FieldSlot::Ull(16), Metric::MemAvailable, KIB),
    (7, FieldSlot::Ull(17), Metric::Shmem, KIB),
    (9, FieldSlot::Ull(0), Metric::RunQueue, ONE),
    (9, FieldSlot::Ull(1), Metric::Blocked, ONE),
    (9, FieldSlot::Ull(2), Metric::Tasks, ONE),
    (9, FieldSlot::U(0), Metric::Load1, HUNDREDTH),
    (9, FieldSlot::U(1), Metric::Load5, HUNDREDTH),
    (9, FieldSlot::U(2), Metric::Load15, HUNDREDTH),
    (21, FieldSlot::Ul(1), Metric::TcpPassive, RATE),
    (34, FieldSlot::Ull(0), Metric::HugeFree, KIB),
    (34, FieldSlot::Ull(1), Metric::HugeTotal, KIB),
    (34, FieldSlot::Ull(2), Metric::HugeReserved, KIB),
    (34, FieldSlot::Ull(3), Metric::HugeSurplus, KIB),
    (40, FieldSlot::Ull(0), Metric::PressureCpuSome, STALL),
    (41, FieldSlot::Ull(0), Metric::PressureIoSome, STALL),
    (41, FieldSlot::Ull(1), Metric::PressureIoFull, STALL),
    (42, FieldSlot::Ull(0), Metric::PressureMemorySome, STALL),
    (42, FieldSlot::Ull(1), Metric::PressureMemoryFull, STALL),
];

/// Layouts of activities are numbered from here on.
const FIRST_LAYOUT: u32 = 0x8a;

/// Whether a layout is known, as sadf checks it too; activities that are not read need none.
fn is_known_layout(id: u32, layout: u32) -> bool {
    let newest = match id {
        3 | 9 => 0x8c,
        CPU | 2 | 7 | 34 => 0x8b,
        4 | 5 | 21 | 40..=42 => FIRST_LAYOUT,
        _ => return true,
    };
    (FIRST_LAYOUT..=newest).contains(&layout)
}

/// The first version that writes a field: `sadf -c` gives files of older ones an empty field.
const fn first_version(metric: Metric) -> SysstatVersion {
    match metric {
        Metric::Active | Metric::Inactive | Metric::Blocked => SysstatVersion(9, 1, 7, 0),
        Metric::Dirty => SysstatVersion(10, 1, 2, 0),
        Metric::Anon
        | Metric::Slab
        | Metric::KernelStack
        | Metric::PageTables
        | Metric::VmallocUsed => SysstatVersion(11, 1, 3, 0),
        Metric::MemAvailable => SysstatVersion(11, 5, 3, 0),
        Metric::HugeReserved | Metric::HugeSurplus => SysstatVersion(12, 1, 1, 0),
        _ => SysstatVersion(0, 0, 0, 0),
    }
}

/// A field's place in files before 11.7.1: dense for structures of one type; the others:
fn locate_legacy_field(id: u32, size: usize, slot: FieldSlot) -> Option<FieldLocation> {
    let place = match (id, slot) {
        // Each field is aligned to 16.
        (2, FieldSlot::Ull(0)) => FieldLocation::wide_at(0),
        (2, FieldSlot::Ul(0)) => FieldLocation::wide_at(16),
        // `procs_blocked` came in 9.1.7, before the narrow fields; the number of tasks was narrow,
        // after them.
        (9, FieldSlot::Ull(0)) => FieldLocation::wide_at(0),
        (9, FieldSlot::Ull(1)) if size >= 32 => FieldLocation::wide_at(8),
        (9, FieldSlot::U(index)) => {
            FieldLocation::narrow_at((if size >= 32 { 16 } else { 8 }) + 4 * index)
        }
        (9, FieldSlot::Ull(2)) => FieldLocation::narrow_at(if size >= 32 { 28 } else { 20 }),
        (9, _) | (_, FieldSlot::U(_)) => return None,
        // By mistake the structure of memory was written: its first fields are those of huge pages.
        (34, FieldSlot::Ull(index)) if index >= 2 => return None,
        (_, FieldSlot::Ull(index) | FieldSlot::Ul(index)) => FieldLocation::wide_at(8 * index),
    };
    Some(place)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ActivityField {
    place: FieldLocation,
    pub(super) metric: Metric,
    pub(super) kind: ActivityFieldKind,
}

impl ActivityField {
    /// Its place in a record whose first item, of so many bytes, is at `begin`.
    pub(super) fn locate_in_record(&self, begin: usize, length: usize) -> Option<FieldLocation> {
        let FieldLocation { offset, wide } = self.place;
        (self.place.end() <= length).then_some(FieldLocation { offset: begin + offset, wide })
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ActivityContent {
    /// Skipped by its size.
    Skipped,
    /// Fields of its first item.
    Fields(Vec<ActivityField>),
    /// Processor times: an item for all processors, then one for each, with fields so far apart.
    Processors { fields: usize, apart: usize },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Activity {
    pub(super) id: u32,
    /// Whether each record has its own number of items.
    pub(super) counted: bool,
    pub(super) items: u32,
    /// Bytes of an item with all its subitems.
    pub(super) length: usize,
    pub(super) content: ActivityContent,
    /// The number of an unknown layout: nothing of it is read.
    pub(super) unknown: Option<u32>,
}

impl Activity {
    /// Of a file before 11.7.1.
    pub(super) fn from_legacy_entry(id: u32, items: u32, subitems: u32, size: u32) -> Option<Self> {
        let bytes = usize::try_from(size).ok()?;
        let content = if id == CPU {
            let apart = if bytes >= 144 { 16 } else { 8 };
            ActivityContent::Processors { fields: bytes / apart, apart }
        } else {
            select_fields(id, SysstatVersion(u8::MAX, 0, 0, 0), bytes, |slot| {
                locate_legacy_field(id, bytes, slot)
            })
        };
        Self::new(id, false, items, subitems, size, content)
    }

    /// Of a file since 11.7.1, which counts fields: id, magic, nr, nr2, has_nr, size and the counts.
    pub(super) fn from_counted_entry(bytes: &[u8], version: SysstatVersion) -> Option<Self> {
        let field = |index: usize| u32_at(bytes, 4 * index);
        let (id, shape, size) = (field(0)?, StructureShape::read_counts(bytes, 24)?, field(5)?);
        let length = usize::try_from(size).ok()?;
        if shape.wide_count() * 8 + shape.narrow_count() * 4 > length {
            return None;
        }
        let content = if id == CPU {
            ActivityContent::Processors { fields: shape.ull_count(), apart: 8 }
        } else {
            select_fields(id, version, length, |slot| shape.locate_field(slot))
        };
        Some(
            Self::new(id, field(4)? != 0, field(2)?, field(3)?, size, content)?
                .with_layout(field(1)?),
        )
    }

    fn new(
        id: u32,
        counted: bool,
        items: u32,
        subitems: u32,
        size: u32,
        content: ActivityContent,
    ) -> Option<Self> {
        let sound =
            items <= MOST_ITEMS && (1..=MOST_SUBITEMS).contains(&subitems) && size <= LONGEST_ITEM;
        let length = usize::try_from(size).ok()?.checked_mul(usize::try_from(subitems).ok()?)?;
        let activity = Self { id, counted, items, length, content, unknown: None };
        (sound && size > 0 && activity.allows_items(items)).then_some(activity)
    }

    pub(super) fn with_layout(mut self, layout: u32) -> Self {
        if !is_known_layout(self.id, layout) {
            self.content = ActivityContent::Skipped;
            self.unknown = Some(layout);
        }
        self
    }

    pub(super) fn allows_items(&self, items: u32) -> bool {
        match self.content {
            ActivityContent::Processors { .. } => items <= MOST_PROCESSORS,
            _ => items <= MOST_ITEMS,
        }
    }
}

fn select_fields(
    id: u32,
    version: SysstatVersion,
    size: usize,
    place: impl Fn(FieldSlot) -> Option<FieldLocation>,
) -> ActivityContent {
    let known: Vec<_> = FIELDS.iter().filter(|(activity, ..)| *activity == id).collect();
    if known.is_empty() {
        return ActivityContent::Skipped;
    }
    let within = |place: &FieldLocation| place.end() <= size;
    let mut fields: Vec<ActivityField> = Vec::new();
    for (_, slot, metric, kind) in known {
        let taken = fields.iter().any(|field| field.metric == *metric);
        if let Some(place) =
            place(*slot).filter(within).filter(|_| !taken && version >= first_version(*metric))
        {
            fields.push(ActivityField { place, metric: *metric, kind: *kind });
        }
    }
    ActivityContent::Fields(fields)
}
