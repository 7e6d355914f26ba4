//! Whether the root folder is the host's own.

use hugewise_model::Observed;
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, stat, statx};

/// The roots of pid 1 and of kernel threads; security modules sometimes hide the first.
const OF_THE_HOST: [&str; 2] = ["/proc/1/root", "/proc/2/root"];

pub(super) fn read() -> Observed<bool> {
    let Ok(own) = stat("/") else { return Observed::Denied };
    for path in OF_THE_HOST {
        // The link's target, not its text, which is "/" for everybody.
        if let Ok(theirs) = stat(path) {
            return Observed::Known((theirs.st_dev, theirs.st_ino) == (own.st_dev, own.st_ino));
        }
    }
    // Since Linux 5.8: a root that is no mount is certainly a chroot.
    match statx(CWD, "/", AtFlags::empty(), StatxFlags::empty()) {
        Ok(root)
            if root.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
                && !root.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) =>
        {
            Observed::Known(false)
        }
        _ => Observed::Denied,
    }
}
