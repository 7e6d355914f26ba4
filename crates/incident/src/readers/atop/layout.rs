//! Where figures are in the structures of each version of atop, told apart by their length.

use self::Field::{
    AnonHuge, Available, Buffers, Cached, Committed, Compacted, Dirty, Free, HugeFree, HugeSize, HugeTotal, Kills,
    PagedIn, PagedOut, Scans, Shared, Slab, SlabReclaimable, Stalls, SwapFree, SwapTotal, SwappedIn, SwappedOut,
    Tables, Total,
};

/// Where the figures of memory begin, the place among them of each that is read, and where those of pressure begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Of all of a sample's figures.
    pub(super) length: u32,
    pub(super) memory: usize,
    pub(super) fields: &'static [(Field, usize)],
    pub(super) pressure: Option<usize>,
    /// Whether figures of cgroups follow those of processes.
    pub(super) cgroups: bool,
}

/// A figure of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Total,
    Free,
    Buffers,
    Slab,
    Cached,
    Dirty,
    SwapTotal,
    SwapFree,
    Scans,
    Stalls,
    SwappedOut,
    SwappedIn,
    Committed,
    Shared,
    SlabReclaimable,
    HugeTotal,
    HugeFree,
    HugeSize,
    Kills,
    Compacted,
    PagedOut,
    PagedIn,
    Tables,
    Available,
    AnonHuge,
}

const OF_1_26: &[(Field, usize)] = &[
    (Total, 0),
    (Free, 1),
    (Buffers, 2),
    (Slab, 3),
    (Cached, 4),
    (Dirty, 5),
    (SwapTotal, 6),
    (SwapFree, 7),
    (Scans, 8),
    (Stalls, 9),
    (SwappedOut, 10),
    (SwappedIn, 11),
    (Committed, 13),
];
/// Pages that were stolen came before the stalls.
const OF_2_3: &[(Field, usize)] = &[
    (Total, 0),
    (Free, 1),
    (Buffers, 2),
    (Slab, 3),
    (Cached, 4),
    (Dirty, 5),
    (SwapTotal, 6),
    (SwapFree, 7),
    (Scans, 8),
    (Stalls, 10),
    (SwappedOut, 11),
    (SwappedIn, 12),
    (Committed, 14),
    (Shared, 15),
    (SlabReclaimable, 18),
    (HugeTotal, 19),
    (HugeFree, 20),
    (HugeSize, 21),
];
const OF_2_7: &[(Field, usize)] = &[
    (Total, 0),
    (Free, 1),
    (Buffers, 2),
    (Slab, 3),
    (Cached, 4),
    (Dirty, 5),
    (SwapTotal, 6),
    (SwapFree, 7),
    (Scans, 8),
    (Stalls, 10),
    (SwappedOut, 11),
    (SwappedIn, 12),
    (Committed, 14),
    (Shared, 15),
    (SlabReclaimable, 18),
    (HugeTotal, 19),
    (HugeFree, 20),
    (HugeSize, 21),
    (Kills, 29),
    (Compacted, 30),
];
/// Two numbers of sockets came before the limit of what may be committed.
const OF_2_8: &[(Field, usize)] = &[
    (Total, 0),
    (Free, 1),
    (Buffers, 2),
    (Slab, 3),
    (Cached, 4),
    (Dirty, 5),
    (SwapTotal, 6),
    (SwapFree, 7),
    (Scans, 8),
    (Stalls, 10),
    (SwappedOut, 11),
    (SwappedIn, 12),
    (Committed, 16),
    (Shared, 17),
    (SlabReclaimable, 20),
    (HugeTotal, 21),
    (HugeFree, 22),
    (HugeSize, 23),
    (Kills, 31),
    (Compacted, 32),
    (PagedOut, 35),
    (PagedIn, 36),
    (Tables, 37),
];

/// Pages that zswap moved and the larger of two pools came before what is available.
const OF_2_10: &[(Field, usize)] = &[
    (Total, 0),
    (Free, 1),
    (Buffers, 2),
    (Slab, 3),
    (Cached, 4),
    (Dirty, 5),
    (SwapTotal, 6),
    (SwapFree, 7),
    (Scans, 8),
    (Stalls, 10),
    (SwappedOut, 11),
    (SwappedIn, 12),
    (Committed, 16),
    (Shared, 17),
    (SlabReclaimable, 20),
    (HugeTotal, 21),
    (HugeFree, 22),
    (HugeSize, 23),
    (Kills, 31),
    (Compacted, 32),
    (PagedOut, 35),
    (PagedIn, 36),
    (Tables, 37),
    (Available, 43),
    (AnonHuge, 44),
];

const fn layout(length: u32, memory: usize, fields: &'static [(Field, usize)], pressure: Option<usize>) -> Layout {
    Layout { length, memory, fields, pressure, cgroups: false }
}

pub(super) const LAYOUTS: &[Layout] = &[
    layout(88_368, 7_360, OF_1_26, None),
    layout(711_904, 278_744, OF_2_3, None),
    // 2.4 to 2.6.
    layout(716_656, 278_744, OF_2_3, Some(711_872)),
    layout(954_360, 344_312, OF_2_7, Some(949_576)),
    // 2.8 and 2.9.
    layout(1_021_960, 344_312, OF_2_8, Some(1_011_024)),
    layout(1_030_216, 344_312, OF_2_10, Some(1_019_280)),
    // 2.11 and 2.12.
    Layout { cgroups: true, ..layout(1_064_016, 344_312, OF_2_10, Some(1_052_056)) },
    // 2.13.
    Layout { cgroups: true, ..layout(1_408_336, 688_376, OF_2_10, Some(1_396_120)) },
];
