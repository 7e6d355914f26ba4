//! Where figures are in the structures of each version of atop, which differ in length.

use self::AtopMemoryField::{AnonHuge, Committed, Compacted, HugeSize, Tables};

#[derive(Clone, Copy, Debug)]
pub(super) struct AtopLayout {
    /// Bytes of all of a sample's figures.
    pub(super) length: u32,
    pub(super) memory: usize,
    fields: MemoryFields,
    pub(super) pressure: Option<usize>,
    /// Whether figures of cgroups follow those of processes.
    pub(super) cgroups: bool,
}

/// A figure of memory, by its place among them since atop 2.10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AtopMemoryField {
    Total = 0,
    Free = 1,
    Buffers = 2,
    Slab = 3,
    Cached = 4,
    Dirty = 5,
    SwapTotal = 6,
    SwapFree = 7,
    Scans = 8,
    Stalls = 10,
    SwappedOut = 11,
    SwappedIn = 12,
    Committed = 16,
    Shared = 17,
    SlabReclaimable = 20,
    HugeTotal = 21,
    HugeFree = 22,
    HugeSize = 23,
    Kills = 31,
    Compacted = 32,
    PagedOut = 35,
    PagedIn = 36,
    Tables = 37,
    Available = 43,
    AnonHuge = 44,
}

/// The last field that a version has, and the places of 2.10 that it lacks before that: 9 counts
/// stolen pages, 14 and 15 sockets.
type MemoryFields = (AtopMemoryField, &'static [usize]);
const OF_1_26: MemoryFields = (Committed, &[9, 14, 15]);
const OF_2_3: MemoryFields = (HugeSize, &[14, 15]);
const OF_2_7: MemoryFields = (Compacted, &[14, 15]);
const OF_2_8: MemoryFields = (Tables, &[]);
const OF_2_10: MemoryFields = (AnonHuge, &[]);

impl AtopLayout {
    pub(super) fn memory_place(&self, field: AtopMemoryField) -> Option<usize> {
        let (last, lacking) = self.fields;
        let place = field as usize;
        let before = lacking.iter().filter(|other| **other < place).count();
        (field <= last).then_some(place - before)
    }
}

const fn define_layout(
    length: u32,
    memory: usize,
    fields: MemoryFields,
    pressure: Option<usize>,
) -> AtopLayout {
    AtopLayout { length, memory, fields, pressure, cgroups: false }
}

pub(super) const LAYOUTS: &[AtopLayout] = &[
    define_layout(88_368, 7_360, OF_1_26, None),
    define_layout(711_904, 278_744, OF_2_3, None),
    // 2.4 to 2.6.
    define_layout(716_656, 278_744, OF_2_3, Some(711_872)),
    define_layout(954_360, 344_312, OF_2_7, Some(949_576)),
    // 2.8 and 2.9.
    define_layout(1_021_960, 344_312, OF_2_8, Some(1_011_024)),
    define_layout(1_030_216, 344_312, OF_2_10, Some(1_019_280)),
    // 2.11 and 2.12.
    AtopLayout { cgroups: true, ..define_layout(1_064_016, 344_312, OF_2_10, Some(1_052_056)) },
    // 2.13.
    AtopLayout { cgroups: true, ..define_layout(1_408_336, 688_376, OF_2_10, Some(1_396_120)) },
];
