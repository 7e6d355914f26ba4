//! The file: two copies of a header, then blocks of one size with sequence number and checksum. The
//! block with sequence number n is at place n modulo their number: the newest replaces the oldest.
//!
//! A block can be read by itself: its first sample has full numbers, those behind it differences. A
//! wrong checksum costs that block alone. docs/recorder.md has every byte.

mod block;
mod file;
mod header;
mod newest_blocks;
mod read;

#[cfg(test)]
pub(crate) use block::events_in_block;
pub(crate) use block::{BlockWriter, RingRecord};
pub use file::{OpenedRing, RingError, RingFile, RingFolder};
pub use header::{About, RingHeader, RingKind};
pub(crate) use header::{LOCKED_MEMORY, REAL_TIME};
pub use newest_blocks::read_newest;
pub use read::{Position, RingEntry, RingSummary, UnreadableRing, read, read_in_order};

/// Bytes of a block, and of each copy of the header.
pub const BLOCK: usize = 4096;
/// Copies of the header, before the first block.
pub const HEADERS: usize = 2;
pub(crate) const BLOCK_HEAD: usize = 48;
/// Bytes of records in a block.
pub const PAYLOAD: usize = BLOCK - BLOCK_HEAD;
/// The first bytes of a ring: not text, and broken by a conversion of line ends.
pub const MAGIC: [u8; 8] = *b"\x89HWR\r\n\x1a\n";
/// The format's version. A reader skips what is added without another version.
pub const VERSION: u16 = 1;
/// More blocks than a ring has: 16 GiB.
pub(crate) const MOST_BLOCKS: u64 = 4 << 20;

/// Whether a file begins like a ring, by either copy of the header.
pub fn is_ring_head(head: &[u8]) -> bool {
    let at = |place: usize| head.get(place..).is_some_and(|rest| rest.starts_with(&MAGIC));
    at(0) || at(BLOCK)
}

pub(crate) fn u16_at(bytes: &[u8], place: usize) -> Option<u16> {
    bytes.get(place..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

pub(crate) fn u32_at(bytes: &[u8], place: usize) -> Option<u32> {
    bytes.get(place..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

pub(crate) fn u64_at(bytes: &[u8], place: usize) -> Option<u64> {
    bytes.get(place..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

pub(crate) fn put_at(bytes: &mut [u8], place: usize, value: &[u8]) {
    if let Some(room) = bytes.get_mut(place..place + value.len()) {
        room.copy_from_slice(value);
    }
}
