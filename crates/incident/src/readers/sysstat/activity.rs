//! Activities: which of their fields are read, and where these are in each layout.

use super::bytes::{u32_at, u64_at};
use super::version::Version;
use crate::Metric;

/// sysstat's own bounds for what a file may claim.
const MOST_ITEMS: u32 = 65_536 * 4096;
const MOST_SUBITEMS: u32 = 4096;
const LONGEST_ITEM: u32 = 1024;
/// Processors that the kernel can have, and the item for all of them.
const MOST_PROCESSORS: u32 = 8192 + 1;
/// Processor activity's number.
const CPU: u32 = 1;

/// How many fields of 8, of a long and of 4 bytes a structure has, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape([usize; 3]);

impl Shape {
    /// Three counts; `None` where they end too early or pass all bounds.
    pub(super) fn at(bytes: &[u8], offset: usize) -> Option<Self> {
        let count = |place: usize| {
            let count = usize::try_from(u32_at(bytes, offset.checked_add(4 * place)?)?).ok()?;
            (count <= 1024).then_some(count)
        };
        Some(Self([count(0)?, count(1)?, count(2)?]))
    }

    /// Fields of 8 bytes, longs not among them.
    pub(super) const fn ulls(self) -> usize {
        let Self([ulls, _, _]) = self;
        ulls
    }

    /// Fields that take 8 bytes: a long is aligned to 8.
    pub(super) const fn wide(self) -> usize {
        let Self([ulls, uls, _]) = self;
        ulls + uls
    }

    /// Fields of 4 bytes.
    pub(super) const fn narrow(self) -> usize {
        let Self([_, _, us]) = self;
        us
    }

    /// Where a field is and how wide, where the structure has it.
    fn place(self, slot: Slot) -> Option<Place> {
        match slot {
            Slot::Ull(index) => (index < self.ulls()).then_some(Place::wide(8 * index)),
            Slot::Ul(index) => {
                let index = self.ulls() + index;
                (index < self.wide()).then_some(Place::wide(8 * index))
            }
            Slot::U(index) => (index < self.narrow()).then_some(Place::narrow(8 * self.wide() + 4 * index)),
        }
    }
}

/// A field by its type and its number among those of the type.
#[derive(Clone, Copy, Debug)]
enum Slot {
    Ull(usize),
    Ul(usize),
    U(usize),
}

/// Where a field is in its item, or in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    offset: usize,
    wide: bool,
}

impl Place {
    const fn wide(offset: usize) -> Self {
        Self { offset, wide: true }
    }

    const fn narrow(offset: usize) -> Self {
        Self { offset, wide: false }
    }

    /// The number there.
    pub(super) fn read(self, bytes: &[u8]) -> Option<u64> {
        if self.wide { u64_at(bytes, self.offset) } else { u32_at(bytes, self.offset).map(u64::from) }
    }
}

/// What becomes of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// It is the value, this many times.
    Gauge(f64),
    /// It counts up: the value is its growth a second, this many times.
    Counter(f64),
}

const KIB: Kind = Kind::Gauge(1024.0);
const ONE: Kind = Kind::Gauge(1.0);
const HUNDREDTH: Kind = Kind::Gauge(0.01);
const RATE: Kind = Kind::Counter(1.0);
/// KiB a second.
const KIB_RATE: Kind = Kind::Counter(1024.0);
/// Microseconds a second, as per cent.
const STALL: Kind = Kind::Counter(1e-4);

/// A field that is read, what it is, and what becomes of its number.
type Known = (Slot, Metric, Kind);

/// The fields that are read, by activity number: `rd_stats.h` of sysstat 12.7.9, whose order all versions keep.
const FIELDS: &[(u32, &[Known])] = &[
    (2, &[(Slot::Ull(0), Metric::ContextSwitches, RATE), (Slot::Ul(0), Metric::Forks, RATE)]),
    (3, &[(Slot::Ull(0), Metric::Interrupts, RATE), (Slot::U(0), Metric::Interrupts, RATE)]),
    (4, &[(Slot::Ul(0), Metric::SwapIn, RATE), (Slot::Ul(1), Metric::SwapOut, RATE)]),
    (
        5,
        &[
            (Slot::Ul(0), Metric::PagedIn, KIB_RATE),
            (Slot::Ul(1), Metric::PagedOut, KIB_RATE),
            (Slot::Ul(2), Metric::Faults, RATE),
            (Slot::Ul(3), Metric::MajorFaults, RATE),
            (Slot::Ul(4), Metric::Freed, RATE),
            (Slot::Ul(5), Metric::ScanKswapd, RATE),
            (Slot::Ul(6), Metric::ScanDirect, RATE),
            (Slot::Ul(7), Metric::Steal, RATE),
        ],
    ),
    (
        7,
        &[
            (Slot::Ull(0), Metric::MemFree, KIB),
            (Slot::Ull(1), Metric::Buffers, KIB),
            (Slot::Ull(2), Metric::Cached, KIB),
            (Slot::Ull(3), Metric::MemTotal, KIB),
            (Slot::Ull(4), Metric::SwapFree, KIB),
            (Slot::Ull(5), Metric::SwapTotal, KIB),
            (Slot::Ull(6), Metric::SwapCached, KIB),
            (Slot::Ull(7), Metric::Committed, KIB),
            (Slot::Ull(8), Metric::Active, KIB),
            (Slot::Ull(9), Metric::Inactive, KIB),
            (Slot::Ull(10), Metric::Dirty, KIB),
            (Slot::Ull(11), Metric::Anon, KIB),
            (Slot::Ull(12), Metric::Slab, KIB),
            (Slot::Ull(13), Metric::KernelStack, KIB),
            (Slot::Ull(14), Metric::PageTables, KIB),
            (Slot::Ull(15), Metric::VmallocUsed, KIB),
            (Slot::Ull(16), Metric::MemAvailable, KIB),
            (Slot::Ull(17), Metric::Shmem, KIB),
        ],
    ),
    (
        9,
        &[
            (Slot::Ull(0), Metric::RunQueue, ONE),
            (Slot::Ull(1), Metric::Blocked, ONE),
            (Slot::Ull(2), Metric::Tasks, ONE),
            (Slot::U(0), Metric::Load1, HUNDREDTH),
            (Slot::U(1), Metric::Load5, HUNDREDTH),
            (Slot::U(2), Metric::Load15, HUNDREDTH),
        ],
    ),
    (21, &[(Slot::Ul(1), Metric::TcpPassive, RATE)]),
    (
        34,
        &[
            (Slot::Ull(0), Metric::HugeFree, KIB),
            (Slot::Ull(1), Metric::HugeTotal, KIB),
            (Slot::Ull(2), Metric::HugeReserved, KIB),
            (Slot::Ull(3), Metric::HugeSurplus, KIB),
        ],
    ),
    (40, &[(Slot::Ull(0), Metric::PressureCpuSome, STALL)]),
    (41, &[(Slot::Ull(0), Metric::PressureIoSome, STALL), (Slot::Ull(1), Metric::PressureIoFull, STALL)]),
    (42, &[(Slot::Ull(0), Metric::PressureMemorySome, STALL), (Slot::Ull(1), Metric::PressureMemoryFull, STALL)]),
];

/// Layouts of activities are numbered from here on.
const FIRST_LAYOUT: u32 = 0x8a;

/// Whether an activity's layout is one that is known; sadf leaves out what has another, too. Those that are not read have
/// none to be known.
fn is_known(id: u32, layout: u32) -> bool {
    let newest = match id {
        3 | 9 => 0x8c,
        CPU | 2 | 7 | 34 => 0x8b,
        4 | 5 | 21 | 40..=42 => FIRST_LAYOUT,
        _ => return true,
    };
    (FIRST_LAYOUT..=newest).contains(&layout)
}

/// Since which version a field is written: `sadf -c` gives files of older ones the field, and nothing in it.
const fn since(metric: Metric) -> Version {
    match metric {
        Metric::Active | Metric::Inactive | Metric::Blocked => Version(9, 1, 7, 0),
        Metric::Dirty => Version(10, 1, 2, 0),
        Metric::Anon | Metric::Slab | Metric::KernelStack | Metric::PageTables | Metric::VmallocUsed => {
            Version(11, 1, 3, 0)
        }
        Metric::MemAvailable => Version(11, 5, 3, 0),
        Metric::HugeReserved | Metric::HugeSurplus => Version(12, 1, 1, 0),
        _ => Version(0, 0, 0, 0),
    }
}

/// Where a field is in files before 11.7.1, which don't count fields. Structures of one type lie densely; the others:
fn old_place(id: u32, size: usize, slot: Slot) -> Option<Place> {
    let place = match (id, slot) {
        // Each field is aligned to 16.
        (2, Slot::Ull(0)) => Place::wide(0),
        (2, Slot::Ul(0)) => Place::wide(16),
        // `procs_blocked` came in 9.1.7, before the narrow fields; the number of tasks was narrow, after them.
        (9, Slot::Ull(0)) => Place::wide(0),
        (9, Slot::Ull(1)) if size >= 32 => Place::wide(8),
        (9, Slot::U(index)) => Place::narrow((if size >= 32 { 16 } else { 8 }) + 4 * index),
        (9, Slot::Ull(2)) => Place::narrow(if size >= 32 { 28 } else { 20 }),
        (9, _) | (_, Slot::U(_)) => return None,
        // The structure of memory was written by mistake, of which the first two fields are those of huge pages.
        (34, Slot::Ull(index)) if index >= 2 => return None,
        (_, Slot::Ull(index) | Slot::Ul(index)) => Place::wide(8 * index),
    };
    Some(place)
}

/// A field that is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Field {
    place: Place,
    pub(super) metric: Metric,
    pub(super) kind: Kind,
}

impl Field {
    /// Its place in a record of whose items, of so many bytes, the first begins there.
    pub(super) fn place(&self, begin: usize, length: usize) -> Option<Place> {
        let Place { offset, wide } = self.place;
        let end = offset + if wide { 8 } else { 4 };
        (end <= length).then_some(Place { offset: begin + offset, wide })
    }
}

/// What is read of an activity.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    /// Nothing: skipped by its size.
    Skipped,
    /// Numbers of its first item.
    Fields(Vec<Field>),
    /// Processor times: an item for all processors, then one for each, each with so many fields so far apart.
    Processors { fields: usize, apart: usize },
}

/// An activity as the file describes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Activity {
    pub(super) id: u32,
    /// Whether each record says the number of items anew.
    pub(super) counted: bool,
    pub(super) items: u32,
    /// Bytes of an item with all its subitems.
    pub(super) length: usize,
    pub(super) content: Content,
    /// The number of a layout that is not known: nothing of it is read.
    pub(super) unknown: Option<u32>,
}

impl Activity {
    /// One of a file before 11.7.1.
    pub(super) fn old(id: u32, items: u32, subitems: u32, size: u32) -> Option<Self> {
        let bytes = usize::try_from(size).ok()?;
        let content = if id == CPU {
            let apart = if bytes >= 144 { 16 } else { 8 };
            Content::Processors { fields: bytes / apart, apart }
        } else {
            fields(id, Version(u8::MAX, 0, 0, 0), bytes, |slot| old_place(id, bytes, slot))
        };
        Self::new(id, false, items, subitems, size, content)
    }

    /// One of a file since 11.7.1, which counts the fields: id, magic, nr, nr2, has_nr, size and the counts.
    pub(super) fn counted(bytes: &[u8], version: Version) -> Option<Self> {
        let field = |index: usize| u32_at(bytes, 4 * index);
        let (id, shape, size) = (field(0)?, Shape::at(bytes, 24)?, field(5)?);
        let length = usize::try_from(size).ok()?;
        if shape.wide() * 8 + shape.narrow() * 4 > length {
            return None;
        }
        let content = if id == CPU {
            Content::Processors { fields: shape.ulls(), apart: 8 }
        } else {
            fields(id, version, length, |slot| shape.place(slot))
        };
        Some(Self::new(id, field(4)? != 0, field(2)?, field(3)?, size, content)?.of_layout(field(1)?))
    }

    fn new(id: u32, counted: bool, items: u32, subitems: u32, size: u32, content: Content) -> Option<Self> {
        let sound = items <= MOST_ITEMS && (1..=MOST_SUBITEMS).contains(&subitems) && size <= LONGEST_ITEM;
        let length = usize::try_from(size).ok()?.checked_mul(usize::try_from(subitems).ok()?)?;
        let activity = Self { id, counted, items, length, content, unknown: None };
        (sound && size > 0 && activity.bounded(items)).then_some(activity)
    }

    /// The same with its layout's number.
    pub(super) fn of_layout(mut self, layout: u32) -> Self {
        if !is_known(self.id, layout) {
            self.content = Content::Skipped;
            self.unknown = Some(layout);
        }
        self
    }

    /// Whether there can be so many items.
    pub(super) fn bounded(&self, items: u32) -> bool {
        match self.content {
            Content::Processors { .. } => items <= MOST_PROCESSORS,
            _ => items <= MOST_ITEMS,
        }
    }
}

fn fields(id: u32, version: Version, size: usize, place: impl Fn(Slot) -> Option<Place>) -> Content {
    let Some((_, known)) = FIELDS.iter().find(|(activity, _)| *activity == id) else { return Content::Skipped };
    let within = |place: &Place| place.offset + if place.wide { 8 } else { 4 } <= size;
    let mut fields: Vec<Field> = Vec::new();
    for (slot, metric, kind) in *known {
        let taken = fields.iter().any(|field| field.metric == *metric);
        if let Some(place) = place(*slot).filter(within).filter(|_| !taken && version >= since(*metric)) {
            fields.push(Field { place, metric: *metric, kind: *kind });
        }
    }
    Content::Fields(fields)
}
