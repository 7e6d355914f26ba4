//! The way out of a container: to the namespaces of process 1, where what is read is the host's.
//!
//! Needs the host's pid namespace (hostPID of a pod), in which process 1 is the host's. The network
//! stays the container's own, so that what listens is reached through the container alone. Nothing
//! of the container's files is needed afterwards: the program is mapped already.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags, open, stat};
use rustix::io::Errno;
use rustix::process::{chroot, fchdir};
use rustix::thread::{
    CapabilitySet, LinkNameSpaceType, capabilities, move_into_link_name_space, set_capabilities,
    set_no_new_privs,
};

use crate::container;
use hugewise_source::LiveSource;
use hugewise_source::RawSource as _;

const KINDS: [(&str, LinkNameSpaceType); 4] = [
    (CGROUPS, LinkNameSpaceType::ControlGroup),
    ("ipc", LinkNameSpaceType::InterProcessCommunication),
    ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
    (MOUNTS, LinkNameSpaceType::Mount),
];
/// Linux before 4.6 has none.
const CGROUPS: &str = "cgroup";
const MOUNTS: &str = "mnt";

/// Why the host's namespaces cannot be entered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoWay {
    /// /proc/1/ns is not there.
    #[error("/proc shows no process 1: mount the host's /proc, or give the pod hostPID: true")]
    NoProcess,
    /// It may not look at process 1.
    #[error(
        "/proc/1/ns/{0} may not be read: run it as root with CAP_SYS_PTRACE, and let AppArmor or \
             SELinux allow it"
    )]
    Hidden(&'static str),
    /// Process 1 is in the same container.
    #[error(
        "process 1 is in this container too, so there is no way to the host: give the pod hostPID: \
         true (podman and docker: --pid=host)"
    )]
    OwnContainer,
    /// It may not go there.
    #[error(
        "/proc/1/ns/{0} may not be entered: run it as root with CAP_SYS_ADMIN and CAP_SYS_CHROOT"
    )]
    Forbidden(&'static str),
    /// The capabilities that entering takes cannot be given up.
    #[error("CAP_SYS_ADMIN and CAP_SYS_CHROOT cannot be given up: {0}")]
    Kept(Errno),
    /// The kernel says something else.
    #[error("/proc/1/ns/{0}: {1}")]
    Other(&'static str, Errno),
}

/// Moves this program, which must have one thread, to where process 1 is: its mounts, System V IPC,
/// host name and cgroups. Paths are the host's then. What entering takes beyond reading is given
/// up, by all that it starts too: CAP_SYS_ADMIN and CAP_SYS_CHROOT.
///
/// Answers what keeps that place from being the host itself: process 1 may be another container's.
///
/// # Errors
/// It cannot enter one of them. It may then stand in some and not in others, and must not go on.
pub fn enter_host_namespaces() -> Result<Option<String>, NoWay> {
    let mut ways = Vec::new();
    for (name, kind) in KINDS {
        ways.extend(open_namespace(name)?.map(|file| (name, kind, file)));
    }
    if !ways.iter().any(|(name, ..)| *name == MOUNTS) && not_the_host().is_some() {
        return Err(NoWay::OwnContainer);
    }
    let root =
        open("/proc/1/root", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let root = root.map_err(|error| NoWay::Other(MOUNTS, error))?;
    for (name, kind, file) in &ways {
        move_into_link_name_space(file.as_fd(), Some(*kind)).map_err(|error| match error {
            Errno::PERM => NoWay::Forbidden(name),
            error => NoWay::Other(name, error),
        })?;
    }
    // A mount namespace has a root of its own, where process 1 need not stand.
    fchdir(root).and_then(|()| chroot(".")).map_err(|error| match error {
        Errno::PERM => NoWay::Forbidden(MOUNTS),
        error => NoWay::Other(MOUNTS, error),
    })?;
    give_up().map_err(NoWay::Kept)?;
    Ok(not_the_host())
}

/// `None` where this program stands in it, or the kernel has none of that kind.
fn open_namespace(name: &'static str) -> Result<Option<OwnedFd>, NoWay> {
    let path = format!("/proc/1/ns/{name}");
    let wrong = |error| match error {
        Errno::NOENT => NoWay::NoProcess,
        Errno::ACCESS | Errno::PERM => NoWay::Hidden(name),
        error => NoWay::Other(name, error),
    };
    // What is behind the link is looked at: the namespace itself.
    let number = |path: &str| stat(path).map(|there| (there.st_dev, there.st_ino));
    let is_same = |own: &str, theirs: &str| Ok(number(own)? == number(theirs)?);
    match is_same(&format!("/proc/self/ns/{name}"), &path) {
        Err(Errno::NOENT) if name == CGROUPS && stat("/proc/1/ns").is_ok() => return Ok(None),
        // A chroot has the host's mounts and another root.
        Ok(true) if name != MOUNTS || is_same("/", "/proc/1/root").map_err(wrong)? => {
            return Ok(None);
        }
        told => told.map_err(wrong)?,
    };
    open(&*path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(Some).map_err(wrong)
}

/// Without new privileges no program that is executed as root gets it back.
fn give_up() -> Result<(), Errno> {
    set_no_new_privs(true)?;
    let entering = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_CHROOT;
    let mut sets = capabilities(None)?;
    for set in [&mut sets.effective, &mut sets.permitted, &mut sets.inheritable] {
        set.remove(entering);
    }
    set_capabilities(None, sets)
}

fn not_the_host() -> Option<String> {
    let live = LiveSource::new();
    container::read(&live, true, &live.machine_facts().own_root)
}
