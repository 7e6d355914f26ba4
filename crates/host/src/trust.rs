//! Whether anybody but root and this program's own user could have put a file where it is, or can read it.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::{fmt, io};

use rustix::fs::{FileType, Mode, Stat, getxattr, lstat, readlink};
use rustix::process::{getegid, geteuid, getgroups};

/// Links one behind the other, as in the kernel.
const MOST_LINKS: usize = 40;

/// Who could have put a file where it is, or can read what it holds.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// It is not there, or nobody can tell.
    #[error("{path}: {error}")]
    Unseen {
        /// The file.
        path: String,
        /// What the kernel says.
        #[source]
        error: io::Error,
    },
    /// Its links lead in a circle.
    #[error("{0}: too many links")]
    Links(String),
    /// A part of its path belongs to a user who is neither root nor this program's own.
    #[error("{path} belongs to user {user}, who could put anything there")]
    Owner {
        /// The part.
        path: String,
        /// Whose it is.
        user: u32,
    },
    /// Every user may write to a part of its path.
    #[error("{0}: every user may write to it; chmod o-w {0}")]
    AllMayWrite(String),
    /// A group may.
    #[error("{path}: the group {group} may write to it; chmod g-w {path}")]
    GroupMayWrite {
        /// The part.
        path: String,
        /// The group.
        group: u32,
    },
    /// Others can read the secrets in it.
    #[error("{path}: mode {mode:04o} lets {readers} read the secrets in it; chmod 600 {path}")]
    MayBeRead {
        /// The file.
        path: String,
        /// Its mode's bits.
        mode: u32,
        /// Who they are.
        readers: Readers,
    },
}

/// Who can read a file with secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Everybody.
    All,
    /// This group.
    Group(u32),
    /// Those whom its access list names.
    Listed,
}

impl fmt::Display for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("every user of this host"),
            Self::Group(group) => write!(f, "the group {group}, which is not this server's,"),
            Self::Listed => f.write_str("the users in its access list (getfacl)"),
        }
    }
}

/// The file at a path, where root and this program's own user alone could have put it there: file, folders and links on
/// the way belong to one of them, and nobody else may write to any.
///
/// # Errors
/// Who could have done so, and with what; or that nothing is there.
pub fn ours(path: &Path) -> Result<Stat, Distrust> {
    only(path, geteuid().as_raw())
}

/// The same, with root alone: what root is to run.
///
/// # Errors
/// As [`ours`].
pub fn roots(path: &Path) -> Result<Stat, Distrust> {
    only(path, 0)
}

/// A file with secrets, where beyond [`ours`] nobody can read it but its owner, root, and the server's own group if root
/// owns it: so a server that does not run as root gets to it.
///
/// # Errors
/// As [`ours`], or who can read it.
pub fn secret(path: &Path) -> Result<Stat, Distrust> {
    let stat = ours(path)?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    let says = |readers: Readers| {
        Err(Distrust::MayBeRead { path: path.display().to_string(), mode: mode.bits() & 0o7777, readers })
    };
    if mode.intersects(Mode::RWXO) {
        return says(Readers::All);
    }
    if mode.intersects(Mode::RWXG) {
        let own = || {
            getegid().as_raw() == stat.st_gid
                || getgroups().is_ok_and(|all| all.iter().any(|group| group.as_raw() == stat.st_gid))
        };
        if stat.st_gid != 0 && !(stat.st_uid == 0 && own()) {
            return says(Readers::Group(stat.st_gid));
        }
        // Whom it names, the mode does not tell; its bits of the group are the most that any of them may.
        if getxattr(path, "system.posix_acl_access", &mut [0; 0]).is_ok_and(|length| length > 0) {
            return says(Readers::Listed);
        }
    }
    Ok(stat)
}

fn only(path: &Path, own: u32) -> Result<Stat, Distrust> {
    let path =
        std::path::absolute(path).map_err(|error| Distrust::Unseen { path: path.display().to_string(), error })?;
    let mut left: VecDeque<OsString> = path.components().map(|part| part.as_os_str().to_owned()).collect();
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    let whole = path.display().to_string();
    let mut last = look(&at, &whole, own)?;
    while let Some(name) = left.pop_front() {
        match Path::new(&name).components().next() {
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(at.pop()),
            Some(Component::Normal(_)) => at.push(&name),
            _ => continue,
        }
        last = look(&at, &whole, own)?;
        if FileType::from_raw_mode(last.st_mode) != FileType::Symlink {
            continue;
        }
        links += 1;
        let target = readlink(&at, Vec::new()).ok().filter(|_| links <= MOST_LINKS);
        let target = target.ok_or_else(|| Distrust::Links(whole.clone()))?;
        at.pop();
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        for part in target.components().rev().map(Component::as_os_str).map(OsStr::to_owned) {
            left.push_front(part);
        }
    }
    Ok(last)
}

/// One part of a path. In a folder with the sticky bit only the owner can replace what is his.
fn look(path: &Path, whole: &str, own: u32) -> Result<Stat, Distrust> {
    let shown = || path.display().to_string();
    let stat = lstat(path).map_err(|error| Distrust::Unseen { path: whole.to_owned(), error: error.into() })?;
    if stat.st_uid != 0 && stat.st_uid != own {
        return Err(Distrust::Owner { path: shown(), user: stat.st_uid });
    }
    let (kind, mode) = (FileType::from_raw_mode(stat.st_mode), Mode::from_raw_mode(stat.st_mode));
    let sticky = kind == FileType::Directory && mode.contains(Mode::SVTX);
    // A link has no mode of its own.
    if kind == FileType::Symlink || sticky {
        return Ok(stat);
    }
    if mode.contains(Mode::WOTH) {
        return Err(Distrust::AllMayWrite(shown()));
    }
    if mode.contains(Mode::WGRP) && stat.st_gid != 0 {
        return Err(Distrust::GroupMayWrite { path: shown(), group: stat.st_gid });
    }
    Ok(stat)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_could_have_put_there_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("inner")).unwrap();
        std::fs::write(at("inner/file"), "x").unwrap();
        mode(&at("inner"), 0o755);
        mode(&at("inner/file"), 0o644);
        symlink("inner/../inner/file", at("link")).unwrap();
        symlink("again", at("again")).unwrap();
        assert!(ours(&at("link")).is_ok() && ours(&at("inner/file")).is_ok());
        assert!(ours(&at("again")).unwrap_err().to_string().contains("links"));
        assert!(ours(&at("none")).unwrap_err().to_string().contains("No such file"));
        mode(&at("inner"), 0o777);
        for path in ["link", "inner/file"] {
            assert!(ours(&at(path)).unwrap_err().to_string().contains("inner: every user"), "{path}");
        }
        mode(&at("inner"), 0o1777);
        assert!(ours(&at("link")).is_ok(), "nobody can replace what is not his");
        mode(&at("inner/file"), 0o666);
        assert!(ours(&at("link")).unwrap_err().to_string().contains("file: every user"));
        if !geteuid().is_root() {
            return hugewise_lab::guard::Skip("only root gives files away".into()).report();
        }
        mode(&at("inner/file"), 0o644);
        mode(&at("inner"), 0o775);
        assert!(ours(&at("link")).is_ok(), "root's group");
        chown(at("inner"), Some(0), Some(4242)).unwrap();
        assert!(ours(&at("link")).unwrap_err().to_string().contains("group 4242"));
        mode(&at("inner"), 0o755);
        chown(at("inner/file"), Some(4242), None).unwrap();
        assert!(ours(&at("link")).unwrap_err().to_string().contains("user 4242"));
        symlink("/etc/passwd", at("planted")).unwrap();
        std::os::unix::fs::lchown(at("planted"), Some(4242), None).unwrap();
        assert!(ours(&at("planted")).unwrap_err().to_string().contains("user 4242"));
    }

    #[test]
    fn secrets_are_read_by_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, "x").unwrap();
        for (bits, said) in [(0o600, None), (0o400, None), (0o604, Some("every user")), (0o601, Some("every user"))] {
            mode(&key, bits);
            assert_eq!(
                secret(&key).err().map(|why| why.to_string().contains(said.unwrap())),
                said.map(|_| true),
                "{bits:o}"
            );
        }
        mode(&key, 0o644);
        let said = secret(&key).unwrap_err().to_string();
        assert!(said.contains("mode 0644") && said.contains("chmod 600"), "{said}");
        if geteuid().is_root() {
            mode(&key, 0o640);
            assert!(secret(&key).is_ok());
            chown(&key, None, Some(4242)).unwrap();
            assert!(secret(&key).unwrap_err().to_string().contains("group 4242"));
        }
    }
}
