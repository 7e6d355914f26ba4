//! GZIP, page after page.

use std::io;

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Deflate, no name, no time, an unknown system (RFC 1952, 2.3).
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Packs one page after another with the same tables: these take a third of a megabyte, which the system would give and take
/// back for each page.
pub(super) struct Packer(Compress);

impl Packer {
    pub(super) fn new() -> Self {
        Self(Compress::new(Compression::fast(), false))
    }

    /// A whole GZIP member.
    pub(super) fn pack(&mut self, plain: &[u8]) -> io::Result<Vec<u8>> {
        self.0.reset();
        let mut packed = Vec::with_capacity(HEAD.len() + plain.len() / 2 + 64);
        packed.extend(HEAD);
        loop {
            let taken = usize::try_from(self.0.total_in()).unwrap_or(usize::MAX);
            let rest = plain.get(taken..).unwrap_or_default();
            // It fills what room there is, and makes none.
            packed.reserve((rest.len() / 2).max(64));
            match self.0.compress_vec(rest, &mut packed, FlushCompress::Finish)? {
                Status::StreamEnd => break,
                Status::Ok | Status::BufError => {}
            }
        }
        let mut sum = Crc::new();
        sum.update(plain);
        packed.extend(sum.sum().to_le_bytes());
        packed.extend(sum.amount().to_le_bytes());
        Ok(packed)
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
        let noise: Vec<u8> =
            (0..300_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ 0x5a).collect();
        // What does not get smaller, what does, nothing, and the first again.
        for plain in [&noise[..], &[7; 1 << 20], b"", b"HW201", &noise[..]] {
            let packed = packer.pack(plain).unwrap();
            let mut reader = flate2::bufread::GzDecoder::new(packed.as_slice());
            let mut unpacked = Vec::new();
            reader.read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, plain);
            assert!(reader.into_inner().is_empty());
        }
    }
}
