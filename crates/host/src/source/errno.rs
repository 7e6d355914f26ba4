//! What an error number says of a fact.

use hugewise_model::Observed;
use rustix::fs::stat;
use rustix::io::{Errno, Result};

/// Whether an error number says that nothing is there. Whatever else keeps a file from being read is no proof of that.
pub(super) const fn is_absence(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR)
}

/// What an error number says of a fact.
pub(super) fn not_known<T>(error: Errno) -> Observed<T> {
    match error {
        error if is_absence(error) => Observed::Absent,
        Errno::ACCESS | Errno::PERM => Observed::Denied,
        Errno::LOOP => Observed::Malformed("too many links".into()),
        other => Observed::Malformed(std::io::Error::from(other).to_string()),
    }
}

/// Turns a result into a fact.
pub(super) fn observed<T>(result: Result<T>) -> Observed<T> {
    match result {
        Ok(value) => Observed::Known(value),
        Err(error) => not_known(error),
    }
}

/// What an error number says of one of the kernel's own files. Of a process that ended meanwhile it says ESRCH, and of a
/// device or cgroup that was removed ENODEV. Where the whole file system is not mounted, nothing is told of the file.
pub(super) fn kernels_not_known<T>(path: &str, error: Errno) -> Observed<T> {
    match error {
        Errno::SRCH if path.starts_with("/proc/") => Observed::Absent,
        Errno::NODEV if path.starts_with("/sys/") => Observed::Absent,
        Errno::NOENT | Errno::NOTDIR => unmounted(path).map_or(Observed::Absent, |why| Observed::Malformed(why.into())),
        other => not_known(other),
    }
}

/// Why a file of the kernel is not there whatever the kernel has.
fn unmounted(path: &str) -> Option<&'static str> {
    let gone = |path: &str| matches!(stat(path), Err(Errno::NOENT | Errno::NOTDIR));
    // The link itself is there even where it leads nowhere.
    if path.starts_with("/proc/self/") && gone("/proc/self") {
        Some("this program is not in /proc, which belongs to another pid namespace")
    } else if path.starts_with("/sys/") && gone("/sys/kernel") {
        Some("/sys is not mounted")
    } else {
        None
    }
}
