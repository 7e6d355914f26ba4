//! Error numbers as facts.

use hugewise_model::Observed;
use rustix::fs::stat;
use rustix::io::{Errno, Result};

pub(super) const fn is_absence(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR)
}

pub(super) fn not_known<T>(error: Errno) -> Observed<T> {
    match error {
        error if is_absence(error) => Observed::Absent,
        Errno::ACCESS | Errno::PERM => Observed::Denied,
        Errno::LOOP => Observed::Malformed("too many links".into()),
        other => Observed::Malformed(std::io::Error::from(other).to_string()),
    }
}

pub(super) fn to_observed<T>(result: Result<T>) -> Observed<T> {
    result.map_or_else(not_known, Observed::Known)
}

/// ESRCH: an ended process; ENODEV: a removed device or cgroup; unmounted, nothing is known.
pub(super) fn kernels_not_known<T>(path: &str, error: Errno) -> Observed<T> {
    match error {
        Errno::SRCH if path.starts_with("/proc/") => Observed::Absent,
        Errno::NODEV if path.starts_with("/sys/") => Observed::Absent,
        Errno::NOENT | Errno::NOTDIR => {
            unmounted_reason(path).map_or(Observed::Absent, |why| Observed::Malformed(why.into()))
        }
        other => not_known(other),
    }
}

/// Why a kernel's file may be missing whatever the kernel has.
fn unmounted_reason(path: &str) -> Option<&'static str> {
    let gone = |path: &str| matches!(stat(path), Err(Errno::NOENT | Errno::NOTDIR));
    // The link exists even where it leads nowhere.
    if path.starts_with("/proc/self/") && gone("/proc/self") {
        Some("this program is not in /proc, which belongs to another pid namespace")
    } else if path.starts_with("/sys/") && gone("/sys/kernel") {
        Some("/sys is not mounted")
    } else {
        None
    }
}
