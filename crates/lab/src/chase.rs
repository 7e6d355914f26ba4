//! A chain of pointers through memory in random order: each access has to wait for the one before.

#![allow(unsafe_code, reason = "pointers are followed through raw addresses")]

use std::time::{Duration, Instant};

use crate::segment::Segment;

/// One pointer in each cache line.
const LINE: usize = 64;
/// Lines that are linked between two questions whether to go on.
const BETWEEN: usize = 1 << 20;

/// A permutation of the numbers below 2^bits that is far from any order which a processor foresees, and that can be
/// gone backwards: so a chain is written from the first line to the last, at the speed of memory.
#[derive(Clone, Copy, Debug)]
struct Scatter {
    bits: u32,
}

impl Scatter {
    /// Odd, so that they have an inverse for multiplying modulo any power of two.
    const FACTORS: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

    const fn mask(self) -> u64 {
        (1 << self.bits) - 1
    }

    /// Folds the upper half into the lower. Doing it twice changes nothing.
    const fn fold(self, number: u64) -> u64 {
        number ^ (number >> self.bits.div_ceil(2))
    }

    fn forward(self, number: u64) -> u64 {
        Self::FACTORS.iter().fold(number, |number, factor| self.fold(number).wrapping_mul(*factor) & self.mask())
    }

    fn backward(self, number: u64) -> u64 {
        Self::FACTORS
            .iter()
            .rev()
            .fold(number, |number, factor| self.fold(number.wrapping_mul(inverse(*factor)) & self.mask()))
    }
}

/// Of an odd number modulo 2^64: Newton's iteration doubles the bits that are right, of which there are three at first.
fn inverse(odd: u64) -> u64 {
    (0..5).fold(odd, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse))))
}

/// A chain through the first bytes of a segment.
#[derive(Debug)]
pub(crate) struct Chain<'a> {
    segment: &'a Segment,
    /// Where the next step begins.
    offset: usize,
}

impl<'a> Chain<'a> {
    /// Links the lines of the first `bytes`, a power of two of at least 256, into one ring. `None` where the segment
    /// is shorter, and where `go_on` says no.
    pub(crate) fn link(segment: &'a Segment, bytes: usize, go_on: impl Fn() -> bool) -> Option<Self> {
        if !bytes.is_power_of_two() || bytes < 4 * LINE || bytes > segment.length() {
            return None;
        }
        let lines = bytes / LINE;
        let scatter = Scatter { bits: lines.trailing_zeros() };
        for line in 0..lines {
            if line % BETWEEN == 0 && !go_on() {
                return None;
            }
            let place = scatter.backward(u64::try_from(line).ok()?);
            let next = scatter.forward((place + 1) & scatter.mask());
            let offset = usize::try_from(next).ok()? * LINE;
            // SAFETY: `line` is below the number of lines, so its first eight bytes are within the mapping, and aligned
            // as the mapping is.
            unsafe { segment.start().as_ptr().add(line * LINE).cast::<usize>().write(offset) };
        }
        Some(Self { segment, offset: 0 })
    }

    /// Follows the chain for so many steps, from where it was left: the same way twice would find much of it in the
    /// caches.
    pub(crate) fn follow(&mut self, steps: u32) -> Duration {
        let start = self.segment.start().as_ptr();
        let mut offset = self.offset;
        let begun = Instant::now();
        for _ in 0..steps {
            // SAFETY: `offset` is 0 or was written by `link`, which linked this segment and writes nothing but offsets
            // of whole lines within it; the borrow keeps it mapped.
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
    use crate::segment::{Kind, Pages};

    #[test]
    fn a_ring_leads_through_every_line_once() {
        let segment = Segment::create(Kind::Private, Bytes::from_kib(64), Pages::Base).unwrap();
        for bytes in [256, 4096, 32 << 10, 64 << 10] {
            Chain::link(&segment, bytes, || true).unwrap();
            let mut seen = vec![false; bytes / LINE];
            let mut offset = 0;
            let mut jumps = 0;
            for _ in 0..seen.len() {
                assert!(!std::mem::replace(&mut seen[offset / LINE], true));
                // SAFETY: as in `follow`.
                let next = unsafe { segment.start().as_ptr().add(offset).cast::<usize>().read_volatile() };
                jumps += usize::from(next != offset + LINE);
                offset = next;
            }
            assert_eq!(offset, 0);
            assert!(bytes < 4096 || jumps > seen.len() * 8 / 10, "{jumps} of {}", seen.len());
        }
        assert!(Chain::link(&segment, 128 << 10, || true).is_none());
        assert!(Chain::link(&segment, 3000, || true).is_none());
        assert!(Chain::link(&segment, 4096, || false).is_none());
    }

    proptest! {
        #[test]
        fn a_permutation_goes_backwards(bits in 2_u32..40, number: u64) {
            let scatter = Scatter { bits };
            let number = number & scatter.mask();
            prop_assert!(scatter.forward(number) <= scatter.mask());
            prop_assert_eq!(scatter.backward(scatter.forward(number)), number);
        }

        #[test]
        fn an_inverse_is_one(number: u64) {
            prop_assert_eq!(inverse(number | 1).wrapping_mul(number | 1), 1);
        }
    }
}
