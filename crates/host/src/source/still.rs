//! Whether a process that was read before maps what it mapped then.
//!
//! The kernel writes a line of /proc/PID/maps for each library's part; of the few mappings that matter it can be asked one by one
//! (PROCMAP_QUERY, Linux 6.11).

use std::os::fd::{AsFd, BorrowedFd};

use hugewise_model::{Bytes, Mapping, Observed, Process};

use super::beneath::open_to_read;
use crate::process::status::Status;
use crate::sys;

/// Longer names are read in /proc/PID/maps.
const LONGEST_NAME: usize = 512;

/// Whether a process still maps what it did: as much of each kind, and each mapping that was kept is where it was and has its
/// name, which is another one once its file was removed. Who has unmapped one and mapped another of its size has another one
/// there, or elsewhere.
pub(super) fn still_mapped(folder: BorrowedFd<'_>, status: &Status, before: &Process) -> bool {
    let touches = |hugetlb: &Observed<Bytes>| hugetlb.get().map(|bytes| bytes.get() > 0);
    if status.mapped().is_none_or(|now| Some(now) != before.mapped)
        || touches(&status.hugetlb) != touches(&before.hugetlb)
    {
        return false;
    }
    match before.mappings.known().map(Vec::as_slice) {
        None => false,
        Some([]) => true,
        Some(mappings) => open_to_read(folder, "maps")
            .is_ok_and(|maps| mappings.iter().all(|mapping| is_there(maps.as_fd(), mapping))),
    }
}

fn is_there(maps: BorrowedFd<'_>, mapping: &Mapping) -> bool {
    let mut name = [0; LONGEST_NAME];
    sys::mapping_at(maps, mapping.start, &mut name).is_ok_and(|(there, name)| {
        (there.start, there.end, there.offset, there.device, there.inode, there.shared, there.accessible)
            == (
                mapping.start,
                mapping.end,
                mapping.offset,
                mapping.device,
                mapping.inode,
                mapping.shared,
                mapping.accessible,
            )
            && name == mapping.name.as_bytes()
            && mapping.page_size.get().is_some_and(|size| size.bytes().get() == there.page_size)
    })
}
