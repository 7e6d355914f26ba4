//! The order of things: random, and the same on every machine.

use crate::variant::Variant;

/// The variants in an order that depends on the seed and the round alone (Fisher and Yates).
pub(crate) fn shuffle_variants(variants: &[Variant], seed: u64, round: u32) -> Vec<Variant> {
    let mut order = variants.to_vec();
    let mut random = Random::new(seed ^ u64::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for at in (1..order.len()).rev() {
        order.swap(at, random.next_below(at + 1));
    }
    order
}

/// A small random number generator, the same on every machine (SplitMix64); not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is above zero; the bias is negligible here.
    pub(crate) fn next_below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.next()) * u128::try_from(end).unwrap_or(1);
        usize::try_from(wide >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_follows_from_the_seed_and_every_order_comes() {
        let variants = [Variant::Base, Variant::Thp, Variant::MIB_2];
        assert_eq!(shuffle_variants(&variants, 7, 3), shuffle_variants(&variants, 7, 3));
        let mut orders: Vec<_> =
            (0..200).map(|round| shuffle_variants(&variants, 7, round)).collect();
        orders.sort();
        orders.dedup();
        assert_eq!(orders.len(), 6);
    }
}
