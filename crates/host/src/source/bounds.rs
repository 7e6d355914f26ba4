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

/// The longest command line that is read: execve(2) takes no argument of more than 128 KiB, and the longest ones of servers,
/// class paths, fill one. What lies there can be as large as the process's memory.
pub(crate) const LONGEST_COMMAND: u64 = 1 << 20;

/// How much is read of one of the kernel's files.
pub(super) fn most_of(path: &str) -> u64 {
    let is_command = path.strip_prefix("/proc/").is_some_and(|rest| rest.ends_with("/cmdline"));
    if is_command { LONGEST_COMMAND } else { super::MAX_FILE }
}
