//! A test in a mount namespace of its own: what it does to /etc, /boot and /var/lib is gone when it ends.
//!
//! The kernel's values are not in there: a test that changes them holds a `PoolGuard`.

use std::path::Path;
use std::process::Command;

use hugewise_lab::guard::Skip;

use crate::harness;

/// Set in the namespace.
const INSIDE: &str = "HUGEWISE_TEST_NAMESPACE";

/// Folders of which the test sees a copy: what it writes goes to a tmpfs.
const COPIED: [&str; 4] = ["/etc", "/boot", "/var/lib", "/var/log"];

/// Whether this runs inside. If not, the test is run inside, and its failure is this one's.
///
/// `test` is the test's name as the test runner has it.
pub(crate) fn inside(test: &str) -> Result<bool, Skip> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(true);
    }
    harness::program(&["/usr/bin/unshare"])?;
    if !rustix::process::geteuid().is_root() {
        return Err(Skip("a mount namespace takes root".into()));
    }
    let own = std::env::current_exe().unwrap();
    let mut mounts = String::from("set -e\nbase=$(mktemp -d /tmp/hugewise-ns.XXXXXX)\nmount -t tmpfs -o mode=755 hugewise $base\n");
    for (at, folder) in COPIED.iter().filter(|folder| Path::new(folder).is_dir()).enumerate() {
        mounts.push_str(&format!(
            "mkdir $base/u{at} $base/w{at}\n\
             mount -t overlay -o lowerdir={folder},upperdir=$base/u{at},workdir=$base/w{at} overlay {folder}\n"
        ));
    }
    // The mount point itself is on the disk of this machine, and empty.
    mounts.push_str("trap 'umount -l $base; rmdir $base' EXIT\n\"$@\"\n");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--", "sh", "-c", &mounts, "sh"]).arg(own);
    command.args(["--exact", test, "--nocapture", "--include-ignored"]).env(INSIDE, "1");
    let output = command.output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("running 1 test"), "no test is called {test}\n{out}\n{errors}");
    assert!(output.status.success(), "{out}\n{errors}");
    eprint!("{errors}");
    Ok(false)
}
