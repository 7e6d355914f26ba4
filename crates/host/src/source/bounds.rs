//! Bounds of what is read, however large it is, and of what a file's times tell.

use std::time::Duration;

use hugewise_model::Observed;

/// A file that was changed less than that ago may be changed again without a sign: clocks of files go by ticks.
pub(super) const SETTLED: Duration = Duration::from_secs(2);

/// A file's time since the epoch.
pub(super) fn since(seconds: i64, nanoseconds: impl TryInto<u32>) -> Duration {
    Duration::new(u64::try_from(seconds).unwrap_or_default(), nanoseconds.try_into().unwrap_or_default())
}

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
