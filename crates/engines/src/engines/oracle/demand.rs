//! The demand of an Oracle instance that is only described.
//!
//! The SGA is a whole number of granules of what it may grow to (SGA_MAX_SIZE, or SGA_TARGET where
//! that is larger). The fixed part takes three segments in 11.2.0.3 and 11.2.0.4 and two from 12.1
//! on, each rounded up to its page. Spare pages cover what is not known of the split, as in
//! Oracle's own advice (MOS KB151310, four an instance).

use hugewise_model::{Bytes, PageCount, PageSize};

/// Pages beyond the SGA: each segment but one can end in its own, and Oracle advises four.
pub(super) const SPARE: PageCount = PageCount(4);
const LEAST_ERROR: u8 = 1;
/// How far a running instance may differ from its parameters, in percent, before these count as
/// changed: the estimate leaves out the fixed part and the redo log buffers.
pub(super) const HELD_ERROR: u8 = 5;

/// Granules of a release by the largest SGA that each is for; `last` is for all larger ones.
struct Granules {
    steps: &'static [(u64, u64)],
    last: u64,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// MOS 947152.1.
const V9: Granules = Granules { steps: &[(128 * MIB, 4 * MIB)], last: 16 * MIB };
const V10: Granules = Granules { steps: &[(GIB, 4 * MIB)], last: 16 * MIB };
const V11_1: Granules = Granules {
    steps: &[(GIB, 4 * MIB), (4 * GIB, 16 * MIB), (16 * GIB, 64 * MIB), (64 * GIB, 256 * MIB)],
    last: 512 * MIB,
};
const V11_2: Granules = Granules {
    steps: &[
        (GIB, 4 * MIB),
        (8 * GIB, 16 * MIB),
        (16 * GIB, 32 * MIB),
        (32 * GIB, 64 * MIB),
        (64 * GIB, 128 * MIB),
        (128 * GIB, 256 * MIB),
    ],
    last: 512 * MIB,
};

/// A release in numbers: `19.3.0.0.0`, `19c`. An unknown one counts as newer than 11.2.
fn parse_release(version: Option<&str>) -> (u32, u32) {
    let mut numbers = version
        .unwrap_or_default()
        .split(|character: char| !character.is_ascii_digit())
        .map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(12), numbers.next().unwrap_or_default())
}

pub(super) fn granule_size(version: Option<&str>, most: Bytes) -> Bytes {
    let granules = match parse_release(version) {
        (..=9, _) => V9,
        (10, _) => V10,
        (11, 0 | 1) => V11_1,
        _ => V11_2,
    };
    let step = granules.steps.iter().find(|(largest, _)| most.get() <= *largest);
    Bytes(step.map_or(granules.last, |(_, size)| *size))
}

/// Pages for an SGA and their error in percent: a granule for each part, and the spare pages.
pub(super) fn estimate_sga_pages(
    version: Option<&str>,
    target: Bytes,
    most: Option<Bytes>,
    page: PageSize,
) -> (PageCount, u8) {
    let most = most.unwrap_or_default().max(target);
    let granule = granule_size(version, most);
    let whole = most.get().checked_next_multiple_of(granule.get()).unwrap_or(u64::MAX);
    let pages = page.pages_for(Bytes(whole)) + SPARE;
    let doubt = SPARE.to_bytes(page) + granule;
    let percent =
        doubt.get().saturating_mul(100).div_ceil(whole.max(1)).clamp(u64::from(LEAST_ERROR), 100);
    (pages, u8::try_from(percent).unwrap_or(100))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn granules_grow_with_the_sga_and_differ_by_release() {
        for (version, gib, mib) in [
            (Some("19c"), 34, 128),
            (Some("19.3.0"), 1, 4),
            (Some("12.1.0.2"), 8, 16),
            (Some("11.2.0.4"), 28, 64),
            (Some("11.1.0.7"), 28, 256),
            (Some("10.2.0.5"), 34, 16),
            (Some("9.2.0.8"), 1, 16),
            (None, 129, 512),
        ] {
            assert_eq!(
                granule_size(version, Bytes::from_gib(gib)),
                Bytes::from_mib(mib),
                "{version:?} {gib}"
            );
        }
    }

    #[test]
    fn the_larger_of_target_and_most_counts() {
        let pages = |target, most: Option<u64>| {
            estimate_sga_pages(
                Some("19c"),
                Bytes::from_gib(target),
                most.map(Bytes::from_gib),
                PageSize::MIB_2,
            )
        };
        // 34 GiB are 272 granules of 128 MiB, 17,408 pages.
        assert_eq!(pages(34, None), (PageCount(17_412), 1));
        assert_eq!(pages(20, Some(34)).0, PageCount(17_412));
        assert_eq!(pages(34, Some(20)).0, PageCount(17_412));
        // An alert log of 12.1: 1,504 MiB of SGA, 769 pages expected with the fixed part.
        let (small, error) =
            estimate_sga_pages(Some("12.1"), Bytes::from_mib(1536), None, PageSize::MIB_2);
        assert_eq!((small, error), (PageCount(772), 2));
    }

    proptest! {
        #[test]
        fn a_larger_sga_never_needs_fewer_pages(mib in 1_u64..1 << 22, more in 0_u64..1 << 16, release in 9_u32..24) {
            let version = format!("{release}.2");
            let pages = |mib| estimate_sga_pages(Some(&version), Bytes::from_mib(mib), None, PageSize::MIB_2).0;
            prop_assert!(pages(mib) <= pages(mib + more));
        }

        #[test]
        fn no_number_brings_it_down(target: u64, most: u64, version: String, page in 12_u32..40) {
            let _ = estimate_sga_pages(Some(&version), Bytes(target), Some(Bytes(most)), PageSize::new(1 << page).unwrap());
        }
    }
}
