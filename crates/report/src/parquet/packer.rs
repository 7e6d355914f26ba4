//! GZIP, page after page.

use std::io;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Deflate, no name, no time, an unknown system (RFC 1952, 2.3).
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Pages up to this size are stored as they are: to clear the tables for one takes longer than all
/// the rest of writing it, and there is hardly anything to win. A small table has hundreds of them.
const STORED: u16 = 96;
/// A block without compression that is the last one (RFC 1951, 3.2.3 and 3.2.4).
const LAST_STORED: u8 = 1;

/// Packs one page after another with the same tables: these take a third of a megabyte, which the
/// system would give and take back for each page.
pub(super) struct Packer(Option<Compress>);

impl Packer {
    /// Without tables, until a page asks for them: a small table may do without.
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// A whole GZIP member.
    pub(super) fn pack_gzip(&mut self, plain: &[u8]) -> io::Result<Vec<u8>> {
        let mut packed = Vec::with_capacity(HEAD.len() + plain.len() / 2 + 64);
        packed.extend(HEAD);
        match u16::try_from(plain.len()) {
            Ok(length) if length <= STORED => {
                packed.push(LAST_STORED);
                packed.extend(length.to_le_bytes());
                packed.extend((!length).to_le_bytes());
                packed.extend(plain);
            }
            _ => self.deflate(plain, &mut packed)?,
        }
        let mut sum = Crc::new();
        sum.update(plain);
        packed.extend(sum.sum().to_le_bytes());
        packed.extend(sum.amount().to_le_bytes());
        Ok(packed)
    }

    fn deflate(&mut self, plain: &[u8], packed: &mut Vec<u8>) -> io::Result<()> {
        let compress = self.0.get_or_insert_with(|| Compress::new(Compression::fast(), false));
        compress.reset();
        loop {
            let taken = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
            let rest = plain.get(taken..).unwrap_or_default();
            // It fills what room there is, and makes none.
            packed.reserve((rest.len() / 2).max(64));
            match compress.compress_vec(rest, packed, FlushCompress::Finish)? {
                Status::StreamEnd => return Ok(()),
                Status::Ok | Status::BufError => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Read;

    use super::*;

    #[test]
    fn each_page_unpacks_by_itself() {
        let mut packer = Packer::new();
        let noise: Vec<u8> = (0..300_000_u32)
            .map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ 0x5a)
            .collect();
        // What does not get smaller, what does, nothing, and the first again.
        for plain in [&noise[..], &[7; 1 << 20], b"", b"HW201", &[9; 96], &[9; 97], &noise[..]] {
            let packed = packer.pack_gzip(plain).unwrap();
            let mut reader = flate2::bufread::GzDecoder::new(packed.as_slice());
            let mut unpacked = Vec::new();
            reader.read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, plain);
            assert!(reader.into_inner().is_empty());
        }
    }
}
