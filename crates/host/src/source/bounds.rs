//! Bounds of what is read, however large it is.

use hugewise_model::Observed;

/// A name costs more in memory than its bytes.
pub(super) fn name_length(name: &str) -> u64 {
    u64::try_from(name.len()).unwrap_or(u64::MAX).saturating_add(32)
}

/// What is said of a larger one.
pub(super) fn too_large<T>(most: u64) -> Observed<T> {
    let limit = match most >> 20 {
        0 => format!("{most} bytes"),
        mebibytes => format!("{mebibytes} MiB"),
    };
    Observed::Malformed(format!("larger than {limit}"))
}
