//! Where a path leads: one folder after the other, and no symbolic link followed.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::Failure;

/// What hugewise keeps on a host lies here. Above it links are root's own affair: /var/lib may be one.
pub const OURS: &str = "/var/lib/hugewise";

/// An open folder and a name in it.
pub(super) struct Place {
    pub(super) folder: OwnedFd,
    pub(super) name: String,
}

/// What is at a place.
pub(super) enum At {
    Nothing,
    File,
    Folder,
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The folder that `path` lies in; `None` where that is not there.
pub(super) fn find(root: &OwnedFd, path: &str) -> Result<Option<Place>, Failure> {
    let (from, rest) = match path.strip_prefix(OURS) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => ("var/lib", format!("/hugewise{rest}")),
        _ => (".", path.to_owned()),
    };
    let mut names: Vec<&str> = rest.split('/').filter(|name| !name.is_empty()).collect();
    let whole = path.starts_with('/') && !names.iter().any(|name| matches!(*name, "." | ".."));
    let Some(name) = names.pop().filter(|_| whole) else {
        return Err(Failure::new(path, "is not an absolute path"));
    };
    let start = openat(root, from, FOLDER & !OFlags::NOFOLLOW, Mode::empty());
    let mut folder = match start {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(failure(path, error)),
    };
    for step in names {
        folder = match openat(&folder, step, FOLDER, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(in_the_way(&folder, step, path)),
            Err(error) => return Err(failure(path, error)),
        };
    }
    Ok(Some(Place { folder, name: name.to_owned() }))
}

fn in_the_way(folder: &OwnedFd, name: &str, path: &str) -> Failure {
    match readlinkat(folder, name, Vec::new()) {
        Ok(target) => Failure::new(
            path,
            format!(
                "its folder {name} is a symbolic link to {}, and hugewise does not follow links",
                target.to_string_lossy()
            ),
        )
        .advising("replace the link with what it points to, or make the change by hand"),
        Err(_) => Failure::new(path, format!("{name} is not a folder")),
    }
}

impl Place {
    /// What is there.
    pub(super) fn look(&self, path: &str) -> Result<At, Failure> {
        let stat = match statat(&self.folder, self.name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(At::Nothing),
            Err(error) => return Err(failure(path, error)),
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(At::File),
            FileType::Directory => Ok(At::Folder),
            FileType::Symlink => {
                let target = readlinkat(&self.folder, self.name.as_str(), Vec::new());
                let target = target.map_or_else(|_| "?".into(), |target| target.to_string_lossy().into_owned());
                Err(Failure::new(path, format!("is a symbolic link to {target}, and hugewise does not follow links"))
                    .advising("remove the link, or make the change by hand"))
            }
            _ => Err(Failure::new(path, "is not a regular file").advising("remove it")),
        }
    }

    /// Opens it; never through a link.
    pub(super) fn open(&self, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(self.folder.as_fd(), self.name.as_str(), flags, mode)
    }
}

/// An error of the kernel in words, with what can be done about it.
pub(super) fn failure(path: &str, error: Errno) -> Failure {
    let text = std::io::Error::from(error).to_string();
    let why = text.split(" (os error").next().unwrap_or_default().to_lowercase();
    let failure = Failure::new(path, why);
    match error {
        Errno::ROFS => {
            failure.advising("remount it writable, or make the change where this host's configuration comes from")
        }
        Errno::NOSPC | Errno::DQUOT => failure.advising("free some space on that disk, then run it again"),
        Errno::ACCESS | Errno::PERM if !rustix::process::geteuid().is_root() => failure.advising("run it as root"),
        Errno::ACCESS | Errno::PERM => failure
            .advising("even root may not: an immutable flag (lsattr), a security module or a container forbids it"),
        Errno::INVAL if path.starts_with("/sys/") || path.starts_with("/proc/") => {
            failure.advising("the kernel does not accept that value")
        }
        _ => failure,
    }
}

/// Whether somebody else than root has a say on the way to a path: a folder is gone or replaced, is not root's, or others
/// may write to it; or something else than a regular file is in the file's place. A path that ends in `/` is a folder's.
pub(super) fn is_in_other_hands(root: &OwnedFd, path: &str) -> bool {
    let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let last = if path.ends_with('/') { None } else { names.pop() };
    let Ok(mut folder) = openat(root, ".", FOLDER, Mode::empty()) else { return false };
    for name in names {
        folder = match openat(&folder, name, FOLDER, Mode::empty()) {
            Ok(next) => next,
            // Not even root may look into some file systems of users.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::NOTCONN) => return true,
            Err(_) => return false,
        };
        match rustix::fs::fstat(&folder) {
            Ok(stat) if !is_others(&stat) => {}
            _ => return true,
        }
    }
    let Some(last) = last else { return false };
    match statat(&folder, last, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink > 1,
        Err(_) => false,
    }
}

fn is_others(folder: &Stat) -> bool {
    let ours = [0, rustix::process::geteuid().as_raw()];
    let sticky = folder.st_mode & 0o1000 != 0;
    let written_by_others = folder.st_mode & 0o002 != 0 || (folder.st_mode & 0o020 != 0 && folder.st_gid != 0);
    !ours.contains(&folder.st_uid) || (written_by_others && !sticky)
}
