//! What an Oracle instance that is only described asks for.
//!
//! The SGA is a whole number of granules of what it may grow to (SGA_MAX_SIZE, or SGA_TARGET where that is larger). Beside it
//! lies the fixed part: 11.2.0.3 and 11.2.0.4 take three segments and 12.1 and later two, each rounded up to its page by itself.
//! What is not known of the split is met by spare pages, as in Oracle's own advice (MOS KB151310, four an instance).

use hugewise_model::{Bytes, PageCount, PageSize};

/// Pages an instance beyond its SGA: each segment but one can end in a page of its own, and Oracle advises four.
const SPARE: u64 = 4;

/// The same, for who wants the estimate without them.
pub(super) const SPARE_PAGES: PageCount = PageCount(SPARE);

/// Least that the estimate may be off in percent.
const LEAST_ERROR: u8 = 1;

/// Least that the memory of a running instance may be off its parameters, in percent, before these count as changed: what
/// the fixed part and the buffers of the redo log take is not in the estimate.
pub(super) const HELD_ERROR: u8 = 5;

/// Granules of a release: the largest SGA that each is for, and its size; the last is for all larger ones.
struct Granules {
    steps: &'static [(u64, u64)],
    last: u64,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// MOS 947152.1, by what the SGA may grow to.
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

/// A release in numbers: `19.3.0.0.0`, `19c`; a newer one than 11.2 where it is not known.
fn release(version: Option<&str>) -> (u32, u32) {
    let mut numbers =
        version.unwrap_or_default().split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(12), numbers.next().unwrap_or_default())
}

/// The granule of an SGA that may grow to `most`.
pub(super) fn granule(version: Option<&str>, most: Bytes) -> Bytes {
    let granules = match release(version) {
        (..=9, _) => V9,
        (10, _) => V10,
        (11, 0 | 1) => V11_1,
        _ => V11_2,
    };
    let step = granules.steps.iter().find(|(largest, _)| most.get() <= *largest);
    Bytes(step.map_or(granules.last, |(_, size)| *size))
}

/// Pages for an SGA, and the error of that in percent: the granules are what may be wrong, one for each of the parts that are
/// rounded by themselves, and the spare pages what may be too many.
pub(super) fn estimate(version: Option<&str>, target: Bytes, most: Option<Bytes>, page: PageSize) -> (PageCount, u8) {
    let most = most.unwrap_or_default().max(target);
    let granule = granule(version, most);
    let whole = most.get().checked_next_multiple_of(granule.get()).unwrap_or(u64::MAX);
    let pages = page.pages_for(Bytes(whole)) + PageCount(SPARE);
    let doubt = page.bytes().times(SPARE) + granule;
    let percent = doubt.get().saturating_mul(100).div_ceil(whole.max(1)).clamp(u64::from(LEAST_ERROR), 100);
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
            assert_eq!(granule(version, Bytes::from_gib(gib)), Bytes::from_mib(mib), "{version:?} {gib}");
        }
    }

    #[test]
    fn the_larger_of_target_and_most_counts() {
        let pages = |target, most: Option<u64>| {
            estimate(Some("19c"), Bytes::from_gib(target), most.map(Bytes::from_gib), PageSize::MIB_2)
        };
        // 34 GiB are 272 granules of 128 MiB, 17,408 pages.
        assert_eq!(pages(34, None), (PageCount(17_412), 1));
        assert_eq!(pages(20, Some(34)).0, PageCount(17_412));
        assert_eq!(pages(34, Some(20)).0, PageCount(17_412));
        // An alert log of 12.1: 1,504 MiB of SGA, 769 pages expected with the fixed part.
        let (small, error) = estimate(Some("12.1"), Bytes::from_mib(1536), None, PageSize::MIB_2);
        assert_eq!((small, error), (PageCount(772), 2));
    }

    proptest! {
        #[test]
        fn a_larger_sga_never_needs_fewer_pages(mib in 1_u64..1 << 22, more in 0_u64..1 << 16, release in 9_u32..24) {
            let version = format!("{release}.2");
            let pages = |mib| estimate(Some(&version), Bytes::from_mib(mib), None, PageSize::MIB_2).0;
            prop_assert!(pages(mib) <= pages(mib + more));
        }

        #[test]
        fn no_number_brings_it_down(target: u64, most: u64, version: String, page in 12_u32..40) {
            let _ = estimate(Some(&version), Bytes(target), Some(Bytes(most)), PageSize::new(1 << page).unwrap());
        }
    }
}
