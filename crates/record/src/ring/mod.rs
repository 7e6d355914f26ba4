//! The file: two copies of a header, then blocks of one size, each with its sequence number and checksum. The block with
//! sequence number n stands at place n modulo their number, so that the newest takes the place of the oldest.
//!
//! A block is whole by itself: the first sample in it says its numbers, those behind it by how much they differ. One whose
//! checksum is wrong is torn, and costs what was in it and nothing else. docs/recorder.md has every byte.

mod block;
mod file;
mod header;
mod newest;
mod read;

#[cfg(test)]
pub(crate) use block::events;
pub(crate) use block::{Record, Writer};
pub use file::{Folder, Opened, RingError, RingFile};
pub use header::{About, Header, Kind};
pub use newest::read_newest;
pub use read::{Entry, Position, Refused, Summary, read, read_in_order};

/// Bytes of a block, and of each copy of the header.
pub const BLOCK: usize = 4096;
/// Copies of the header, before the first block.
pub const HEADERS: usize = 2;
/// Bytes before a block's records.
pub(crate) const BLOCK_HEAD: usize = 48;
/// Bytes of records in a block.
pub const PAYLOAD: usize = BLOCK - BLOCK_HEAD;

/// The first bytes of a ring: not text, and torn by whatever changes ends of lines.
pub const MAGIC: [u8; 8] = *b"\x89HWR\r\n\x1a\n";
/// The format's version. A reader reads this one; what is added to it without another version, it passes over.
pub const VERSION: u16 = 1;

/// More blocks than a ring has: 16 GiB.
pub(crate) const MOST_BLOCKS: u64 = 4 << 20;

/// Whether a file begins as a ring does. The second copy of the header counts where the first is lost.
pub fn begins(head: &[u8]) -> bool {
    let at = |place: usize| head.get(place..).is_some_and(|rest| rest.starts_with(&MAGIC));
    at(0) || at(BLOCK)
}

/// Numbers at fixed places.
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
