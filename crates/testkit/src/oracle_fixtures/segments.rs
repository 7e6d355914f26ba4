//! Segments of shared memory: of each instance, as its release makes them.

use super::database::{Database, SgaPages};
use super::{KIB_IN_HUGE, mib_to_bytes};

/// A segment of shared memory.
#[derive(Clone, Debug)]
pub(crate) struct FixtureSegment {
    pub(crate) id: u64,
    pub(crate) key: u32,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) huge: bool,
    /// The file of /dev/shm; none of a System V segment.
    pub(crate) file: Option<String>,
    /// KiB in swap.
    pub(crate) swapped: u64,
    /// KiB that nobody has touched.
    pub(crate) untouched: u64,
}

impl FixtureSegment {
    pub(crate) fn size_kib(&self) -> u64 {
        self.bytes >> 10
    }

    /// KiB of it that are in memory.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.size_kib().saturating_sub(self.swapped + self.untouched)
    }
}

/// Segments of each instance, with identifiers that are theirs alone.
pub(crate) fn lay_out_segments(databases: &[Database]) -> Vec<Vec<FixtureSegment>> {
    let mut id = 32_769;
    databases
        .iter()
        .map(
            |database| {
                if database.running { split_into_segments(database, &mut id) } else { Vec::new() }
            },
        )
        .collect()
}

/// Up to 11.2.0.2 one segment; from 11.2.0.3 on the fixed part, the rest, and a page for the key
/// (Asanga Pradeep, "Oracle Shared Memory Segments", of 11.2.0.3 and 12.1). Where pages are mixed,
/// what is on huge pages is a segment of its own.
fn split_into_segments(database: &Database, id: &mut u64) -> Vec<FixtureSegment> {
    let (sga, granule) = (database.sga, database.granule_bytes());
    let whole = |huge| vec![(sga, huge)];
    let parts = match database.pages {
        SgaPages::Amm => {
            vec![(granule, false); usize::try_from(sga.div_ceil(granule)).unwrap_or_default()]
        }
        SgaPages::Mixed(pages) => {
            let huge = (pages * (KIB_IN_HUGE << 10)).min(sga);
            vec![(huge, true), (sga - huge, false)]
        }
        SgaPages::Base | SgaPages::Huge if database.is_release(&[11, 2, 0, 3]) => {
            let huge = database.is_on_huge_pages();
            vec![(granule, huge), (sga.saturating_sub(granule), huge), (KIB_IN_HUGE << 10, huge)]
        }
        SgaPages::Base | SgaPages::Huge => whole(database.is_on_huge_pages()),
    };
    let managed = (database.managed > 0).then_some(database.managed);
    let mut start = 0x6000_0000_u64;
    let last = parts.len().saturating_sub(1);
    let (mut swapped, mut untouched) = (database.swapped >> 10, database.untouched * KIB_IN_HUGE);
    let in_files = database.pages == SgaPages::Amm;
    let mut made: Vec<FixtureSegment> = Vec::new();
    for (at, (bytes, huge)) in parts.into_iter().filter(|(bytes, _)| *bytes > 0).enumerate() {
        let kib = bytes >> 10;
        let (out, free) =
            (if huge { 0 } else { swapped.min(kib) }, if huge { untouched.min(kib) } else { 0 });
        (swapped, untouched) = (swapped - out, untouched - free);
        made.push(FixtureSegment {
            id: *id,
            key: if at == last {
                0x7b2c_1d44 ^ u32::try_from(*id & 0xffff).unwrap_or_default()
            } else {
                0
            },
            start,
            bytes,
            huge,
            // The form that Oracle's processes show: ora_SID_SHMID_N.
            file: in_files.then(|| format!("/dev/shm/ora_{}_{}_{at}", database.sid, 229_381)),
            swapped: out,
            untouched: free,
        });
        *id += 1;
        start = (start + bytes).next_multiple_of(mib_to_bytes(2));
    }
    if let Some(bytes) = managed {
        let file = Some(format!("/dev/shm/ora_{}_mga_0", database.sid));
        made.push(FixtureSegment {
            id: *id,
            key: 0,
            start: start.next_multiple_of(mib_to_bytes(1024)),
            bytes,
            huge: false,
            file,
            swapped: 0,
            untouched: 0,
        });
        *id += 1;
    }
    made
}
