//! Limits of what is read, and of what a file's times tell.

use std::time::Duration;

use hugewise_model::Observed;

/// A file that changed less than that ago may change again unnoticed: file times have ticks.
pub(super) const SETTLED: Duration = Duration::from_secs(2);

pub(super) fn to_epoch_duration(seconds: i64, nanoseconds: impl TryInto<u32>) -> Duration {
    Duration::new(
        u64::try_from(seconds).unwrap_or_default(),
        nanoseconds.try_into().unwrap_or_default(),
    )
}

/// A name takes more memory than its bytes.
pub(super) fn name_length(name: &str) -> u64 {
    u64::try_from(name.len()).unwrap_or(u64::MAX).saturating_add(32)
}

const TOO_LARGE: &str = "larger than ";

/// Whether a file was not read as it has more bytes than were asked for.
pub fn is_too_large<T>(read: &Observed<T>) -> bool {
    matches!(read, Observed::Malformed(why) if why.starts_with(TOO_LARGE))
}

pub(super) fn too_large<T>(most: u64) -> Observed<T> {
    let limit = match most >> 20 {
        0 => format!("{most} bytes"),
        mebibytes => format!("{mebibytes} MiB"),
    };
    Observed::Malformed(format!("{TOO_LARGE}{limit}"))
}

/// Command lines: execve(2) takes no argument of more than 128 KiB, and servers' longest ones,
/// class paths, fill one; what is there can be as large as the process's memory.
pub const LONGEST_COMMAND: u64 = 1 << 20;

pub(super) fn most_of(path: &str) -> u64 {
    let is_command = path.strip_prefix("/proc/").is_some_and(|rest| rest.ends_with("/cmdline"));
    if is_command { LONGEST_COMMAND } else { super::MAX_FILE }
}
