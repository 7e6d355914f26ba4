//! A chain of pointers in random order through memory: each access has to wait for the one before.

#![allow(unsafe_code, reason = "pointers are followed through raw addresses")]

use std::time::{Duration, Instant};

use crate::segment::MappedSegment;

const LINE: usize = 64;
const BETWEEN: usize = 1 << 20;

/// A permutation of the numbers below 2^bits that no processor predicts, and that can be inverted:
/// a chain is written from the first line to the last, at the speed of memory.
#[derive(Clone, Copy, Debug)]
struct Scatter {
    bits: u32,
}

impl Scatter {
    /// Odd, so that they have an inverse modulo any power of two.
    const FACTORS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

    const fn bit_mask(self) -> u64 {
        (1 << self.bits) - 1
    }

    /// Folds the upper half into the lower; its own inverse.
    const fn fold_halves(self, number: u64) -> u64 {
        number ^ (number >> self.bits.div_ceil(2))
    }

    fn scatter_index(self, number: u64) -> u64 {
        Self::FACTORS.iter().fold(number, |number, factor| {
            self.fold_halves(number).wrapping_mul(*factor) & self.bit_mask()
        })
    }

    fn unscatter_index(self, number: u64) -> u64 {
        Self::FACTORS.iter().rev().fold(number, |number, factor| {
            self.fold_halves(number.wrapping_mul(invert_odd(*factor)) & self.bit_mask())
        })
    }
}

/// The inverse modulo 2^64 by Newton's iteration, which doubles the three correct bits each time.
fn invert_odd(odd: u64) -> u64 {
    (0..5)
        .fold(odd, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse))))
}

#[derive(Debug)]
pub(crate) struct PointerChain<'a> {
    segment: &'a MappedSegment,
    offset: usize,
}

impl<'a> PointerChain<'a> {
    /// Links the lines of the first `bytes`, a power of two of at least 256, into one ring. `None`
    /// where the segment is shorter, or `go_on` says no.
    pub(crate) fn link_lines(
        segment: &'a MappedSegment,
        bytes: usize,
        go_on: impl Fn() -> bool,
    ) -> Option<Self> {
        if !bytes.is_power_of_two() || bytes < 4 * LINE || bytes > segment.byte_length() {
            return None;
        }
        let lines = bytes / LINE;
        let scatter = Scatter { bits: lines.trailing_zeros() };
        for line in 0..lines {
            if line % BETWEEN == 0 && !go_on() {
                return None;
            }
            let place = scatter.unscatter_index(u64::try_from(line).ok()?);
            let next = scatter.scatter_index((place + 1) & scatter.bit_mask());
            let offset = usize::try_from(next).ok()? * LINE;
            // SAFETY: `line` is below the number of lines, so its first eight bytes are within the
            // mapping, and aligned as the mapping is.
            unsafe {
                segment.start_address().as_ptr().add(line * LINE).cast::<usize>().write(offset)
            };
        }
        Some(Self { segment, offset: 0 })
    }

    /// Follows the chain from where it was left, as the start would be in the caches.
    pub(crate) fn follow_steps(&mut self, steps: u32) -> Duration {
        let start = self.segment.start_address().as_ptr();
        let mut offset = self.offset;
        let begun = Instant::now();
        for _ in 0..steps {
            // SAFETY: `offset` is 0 or was written by `link_lines`, which linked this segment and
            // writes only offsets of whole lines within it; the borrow keeps it mapped.
            offset = unsafe { start.add(offset).cast::<usize>().read_volatile() };
        }
        let took = begun.elapsed();
        self.offset = offset;
        took
    }
}

#[cfg(test)]
mod tests {
    use hugewise_model::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::segment::{SegmentPages, SegmentSource};

    #[test]
    fn a_ring_leads_through_every_line_once() {
        let segment =
            MappedSegment::create(SegmentSource::Private, Bytes::from_kib(64), SegmentPages::Base)
                .unwrap();
        for bytes in [256, 4096, 32 << 10, 64 << 10] {
            PointerChain::link_lines(&segment, bytes, || true).unwrap();
            let mut seen = vec![false; bytes / LINE];
            let mut offset = 0;
            let mut jumps = 0;
            for _ in 0..seen.len() {
                assert!(!std::mem::replace(&mut seen[offset / LINE], true));
                // SAFETY: as in `follow`.
                let next = unsafe {
                    segment.start_address().as_ptr().add(offset).cast::<usize>().read_volatile()
                };
                jumps += usize::from(next != offset + LINE);
                offset = next;
            }
            assert_eq!(offset, 0);
            assert!(bytes < 4096 || jumps > seen.len() * 8 / 10, "{jumps} of {}", seen.len());
        }
        assert!(PointerChain::link_lines(&segment, 128 << 10, || true).is_none());
        assert!(PointerChain::link_lines(&segment, 3000, || true).is_none());
        assert!(PointerChain::link_lines(&segment, 4096, || false).is_none());
    }

    proptest! {
        #[test]
        fn a_permutation_goes_backwards(bits in 2_u32..40, number: u64) {
            let scatter = Scatter { bits };
            let number = number & scatter.bit_mask();
            prop_assert!(scatter.scatter_index(number) <= scatter.bit_mask());
            prop_assert_eq!(scatter.unscatter_index(scatter.scatter_index(number)), number);
        }

        #[test]
        fn an_inverse_is_one(number: u64) {
            prop_assert_eq!(invert_odd(number | 1).wrapping_mul(number | 1), 1);
        }
    }
}
