//! Whether the root folder is the host's own.

use hugewise_model::Observed;
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, stat, statx};

/// The root folders of the first process and of the kernel's threads. Security modules hide the first at times.
const OF_THE_HOST: [&str; 2] = ["/proc/1/root", "/proc/2/root"];

pub(super) fn read() -> Observed<bool> {
    let Ok(own) = stat("/") else { return Observed::Denied };
    for path in OF_THE_HOST {
        // What is behind the link is looked at, not its text: that is "/" for everybody.
        if let Ok(theirs) = stat(path) {
            return Observed::Known((theirs.st_dev, theirs.st_ino) == (own.st_dev, own.st_ino));
        }
    }
    // Since Linux 5.8: a root that is no mount is a chroot for sure.
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
