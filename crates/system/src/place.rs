//! Where a path leads: one folder after the other, and no symbolic link followed.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::SystemFailure;

/// What hugewise keeps on a host. Links above it are root's own affair: /var/lib may be one.
pub const OURS: &str = "/var/lib/hugewise";

pub(super) struct FilePlace {
    pub(super) folder: OwnedFd,
    pub(super) name: String,
}

pub(super) enum PlaceKind {
    Nothing,
    File,
    Folder,
}

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The folder that `path` lies in; `None` where that is not there.
pub(super) fn find_place(root: &OwnedFd, path: &str) -> Result<Option<FilePlace>, SystemFailure> {
    let (from, rest) = match path.strip_prefix(OURS) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            ("var/lib", format!("/hugewise{rest}"))
        }
        _ => (".", path.to_owned()),
    };
    let mut names: Vec<&str> = rest.split('/').filter(|name| !name.is_empty()).collect();
    let whole = path.starts_with('/') && !names.iter().any(|name| matches!(*name, "." | ".."));
    let Some(name) = names.pop().filter(|_| whole) else {
        return Err(SystemFailure::new(path, "is not an absolute path"));
    };
    let start = openat(root, from, FOLDER & !OFlags::NOFOLLOW, Mode::empty());
    let mut folder = match start {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(describe_errno(path, error)),
    };
    for step in names {
        folder = match openat(&folder, step, FOLDER, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(explain_folder_in_the_way(&folder, step, path));
            }
            Err(error) => return Err(describe_errno(path, error)),
        };
    }
    Ok(Some(FilePlace { folder, name: name.to_owned() }))
}

fn explain_folder_in_the_way(folder: &OwnedFd, name: &str, path: &str) -> SystemFailure {
    match readlinkat(folder, name, Vec::new()) {
        Ok(target) => {
            let target = target.to_string_lossy();
            let why = format!(
                "its folder {name} is a symbolic link to {target}, and hugewise does not follow links"
            );
            SystemFailure::new(path, why)
                .with_advice("replace the link with what it points to, or make the change by hand")
        }
        Err(_) => SystemFailure::new(path, format!("{name} is not a folder")),
    }
}

impl FilePlace {
    pub(super) fn inspect(&self, path: &str) -> Result<PlaceKind, SystemFailure> {
        let stat = match statat(&self.folder, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(PlaceKind::Nothing),
            Err(error) => return Err(describe_errno(path, error)),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(PlaceKind::File),
            FileType::Directory => Ok(PlaceKind::Folder),
            FileType::Symlink => {
                let target = readlinkat(&self.folder, self.name.as_str(), Vec::new());
                let target = target
                    .map_or_else(|_| "?".into(), |target| target.to_string_lossy().into_owned());
                let why =
                    format!("is a symbolic link to {target}, and hugewise does not follow links");
                Err(SystemFailure::new(path, why)
                    .with_advice("remove the link, or make the change by hand"))
            }
            _ => Err(SystemFailure::new(path, "is not a regular file").with_advice("remove it")),
        }
    }

    /// Opens it; never through a link.
    pub(super) fn open(&self, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(self.folder.as_fd(), self.name.as_str(), flags, mode)
    }
}

pub(super) fn describe_errno(path: &str, error: Errno) -> SystemFailure {
    let text = std::io::Error::from(error).to_string();
    let why = text.split(" (os error").next().unwrap_or_default().to_lowercase();
    let failure = SystemFailure::new(path, why);
    match error {
        Errno::ROFS => failure.with_advice(
            "remount it writable, or make the change where this host's configuration comes from",
        ),
        Errno::NOSPC | Errno::DQUOT => {
            failure.with_advice("free some space on that disk, then run it again")
        }
        Errno::ACCESS | Errno::PERM if !rustix::process::geteuid().is_root() => {
            failure.with_advice("run it as root")
        }
        Errno::ACCESS | Errno::PERM => failure.with_advice(
            "even root may not: an immutable flag (lsattr), a security module or a \
                 container forbids it",
        ),
        Errno::INVAL if path.starts_with("/sys/") || path.starts_with("/proc/") => {
            failure.with_advice("the kernel does not accept that value")
        }
        _ => failure,
    }
}

/// Whether somebody else than root has a say on the way: a folder is gone, replaced, another's or
/// writable to others, or the file is no regular one. A path that ends in `/` is a folder's.
pub(super) fn is_in_other_hands(root: &OwnedFd, path: &str) -> bool {
    let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let last = if path.ends_with('/') { None } else { names.pop() };
    let Ok(mut folder) = openat(root, ".", FOLDER, Mode::empty()) else { return false };
    for name in names {
        folder = match openat(&folder, name, FOLDER, Mode::empty()) {
            Ok(next) => next,
            // Not even root may look into some file systems of users.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::NOTCONN) => {
                return true;
            }
            Err(_) => return false,
        };
        match rustix::fs::fstat(&folder) {
            Ok(stat) if !is_others(&stat) => {}
            _ => return true,
        }
    }
    let Some(last) = last else { return false };
    match statat(&folder, last, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink > 1
        }
        Err(_) => false,
    }
}

fn is_others(folder: &Stat) -> bool {
    let ours = [0, rustix::process::geteuid().as_raw()];
    let sticky = folder.st_mode & 0o1000 != 0;
    let written_by_others =
        folder.st_mode & 0o002 != 0 || (folder.st_mode & 0o020 != 0 && folder.st_gid != 0);
    !ours.contains(&folder.st_uid) || (written_by_others && !sticky)
}
