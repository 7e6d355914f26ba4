//! Whether only root and this program's user can write to a file's path, or read its secrets.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::{fmt, io};

use rustix::fs::{FileType, FsWord, Mode, Stat, getxattr, lstat, readlink, statfs};
use rustix::process::{getegid, geteuid, getgroups};

use super::openat2::MAX_LINKS;

/// Who could have put a file where it is, or can read what it holds.
#[derive(Debug, thiserror::Error)]
pub enum Distrust {
    /// It is missing, or cannot be looked at.
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
    /// A part of its path belongs to another user than root and this program's.
    #[error("{path} belongs to user {user}, who could put anything there")]
    Owner {
        /// The part of the path.
        path: String,
        /// Its owner.
        user: u32,
    },
    /// Every user may write to a part of its path.
    #[error("{0}: every user may write to it; chmod o-w {0}")]
    AllMayWrite(String),
    /// A group may write to a part of its path.
    #[error("{path}: the group {group} may write to it; chmod g-w {path}")]
    GroupMayWrite {
        /// The part of the path.
        path: String,
        /// The group.
        group: u32,
    },
    /// A part of its path is in /proc or on a FUSE, where the kernel or another user says what is
    /// there.
    #[error("{0} is in /proc or on a FUSE, where its owner can be anybody's word")]
    Elsewhere(String),
    /// Others can read the secrets in it.
    #[error("{path}: mode {mode:04o} lets {readers} read the secrets in it; chmod 600 {path}")]
    MayBeRead {
        /// The file.
        path: String,
        /// Its permission bits.
        mode: u32,
        /// Who can read it.
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
    /// The users in its access list.
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

/// A file that only root and this program's own user could have put at a path: it and the folders
/// and links on the way belong to them, and nobody else may write to any.
/// Errors: who else could have done so, and with what; or that nothing is there.
pub fn check_trusted_file(path: &Path) -> Result<Stat, Distrust> {
    check_path(path, PathRules { own: geteuid().as_raw(), has_sticky: true })
}

/// The same, with root alone: what root is to run. Errors: as [`check_trusted_file`].
pub fn check_root_file(path: &Path) -> Result<Stat, Distrust> {
    check_path(path, PathRules { own: 0, has_sticky: true })
}

/// What root alone has put at a path, and nobody else has moved there: as [`check_root_file`], and
/// no folder on the way is open to all. The sticky bit keeps root's files where they are, but
/// whoever finds one in a folder of his own (a log, a copy) may move it into such a folder.
/// Errors: as [`check_trusted_file`], also for parts in /proc and on a FUSE. Of what is missing,
/// all parts before it were looked at: only root can put it there.
pub fn check_root_alone(path: &Path) -> Result<Stat, Distrust> {
    check_path(path, PathRules { own: 0, has_sticky: false })
}

/// Who may have written to a path.
#[derive(Clone, Copy)]
struct PathRules {
    /// Whoever it is beside root.
    own: u32,
    /// Whether a folder may be open to all where its sticky bit keeps what is in it.
    has_sticky: bool,
}

/// A file with secrets: as [`check_trusted_file`], and readable only by its owner, root and, if
/// root owns it, this program's group, so that a server without root can read it.
/// Errors: as [`check_trusted_file`], or who can read it.
pub fn check_secret_file(path: &Path) -> Result<Stat, Distrust> {
    let stat = check_trusted_file(path)?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    let says = |readers: Readers| {
        Err(Distrust::MayBeRead {
            path: path.display().to_string(),
            mode: mode.bits() & 0o7777,
            readers,
        })
    };
    if mode.intersects(Mode::RWXO) {
        return says(Readers::All);
    }
    if mode.intersects(Mode::RWXG) {
        let own = || {
            getegid().as_raw() == stat.st_gid
                || getgroups()
                    .is_ok_and(|all| all.iter().any(|group| group.as_raw() == stat.st_gid))
        };
        if stat.st_gid != 0 && !(stat.st_uid == 0 && own()) {
            return says(Readers::Group(stat.st_gid));
        }
        // The mode does not tell whom an ACL names; its group bits are the most that it grants.
        if getxattr(path, "system.posix_acl_access", &mut [0; 0]).is_ok_and(|length| length > 0) {
            return says(Readers::Listed);
        }
    }
    Ok(stat)
}

fn check_path(path: &Path, rules: PathRules) -> Result<Stat, Distrust> {
    let path = std::path::absolute(path)
        .map_err(|error| Distrust::Unseen { path: path.display().to_string(), error })?;
    let mut left: VecDeque<OsString> =
        path.components().map(|part| part.as_os_str().to_owned()).collect();
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    let whole = path.display().to_string();
    let mut last = check_path_part(&at, &whole, rules)?;
    while let Some(name) = left.pop_front() {
        match Path::new(&name).components().next() {
            Some(Component::RootDir) => at = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(at.pop()),
            Some(Component::Normal(_)) => at.push(&name),
            _ => continue,
        }
        let device = last.st_dev;
        last = check_path_part(&at, &whole, rules)?;
        let is_link = FileType::from_raw_mode(last.st_mode) == FileType::Symlink;
        if !rules.has_sticky && last.st_dev != device && !is_link && is_made_up(&at) {
            return Err(Distrust::Elsewhere(at.display().to_string()));
        }
        if FileType::from_raw_mode(last.st_mode) != FileType::Symlink {
            continue;
        }
        links += 1;
        let target = readlink(&at, Vec::new()).ok().filter(|_| links <= MAX_LINKS);
        let target = target.ok_or_else(|| Distrust::Links(whole.clone()))?;
        at.pop();
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        for part in target.components().rev().map(Component::as_os_str).map(OsStr::to_owned) {
            left.push_front(part);
        }
    }
    Ok(last)
}

/// Whether a mount shows what somebody says, not what is on a disk: the links in /proc lead into
/// namespaces of others, and a FUSE names owners as it likes (linux/magic.h).
fn is_made_up(mount: &Path) -> bool {
    const MADE_UP: [FsWord; 2] = [0x9fa0, 0x6573_5546];
    // What cannot be asked proves nothing.
    statfs(mount).map_or(true, |system| MADE_UP.contains(&system.f_type))
}

/// In a folder with the sticky bit only the owner can replace what is his.
fn check_path_part(path: &Path, whole: &str, rules: PathRules) -> Result<Stat, Distrust> {
    let shown = || path.display().to_string();
    let stat = lstat(path)
        .map_err(|error| Distrust::Unseen { path: whole.to_owned(), error: error.into() })?;
    if stat.st_uid != 0 && stat.st_uid != rules.own {
        return Err(Distrust::Owner { path: shown(), user: stat.st_uid });
    }
    let (kind, mode) = (FileType::from_raw_mode(stat.st_mode), Mode::from_raw_mode(stat.st_mode));
    let sticky = rules.has_sticky && kind == FileType::Directory && mode.contains(Mode::SVTX);
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
        assert!(
            check_trusted_file(&at("link")).is_ok()
                && check_trusted_file(&at("inner/file")).is_ok()
        );
        assert!(check_trusted_file(&at("again")).unwrap_err().to_string().contains("links"));
        assert!(check_trusted_file(&at("none")).unwrap_err().to_string().contains("No such file"));
        mode(&at("inner"), 0o777);
        for path in ["link", "inner/file"] {
            assert!(
                check_trusted_file(&at(path))
                    .unwrap_err()
                    .to_string()
                    .contains("inner: every user"),
                "{path}"
            );
        }
        mode(&at("inner"), 0o1777);
        assert!(check_trusted_file(&at("link")).is_ok(), "nobody can replace what is not his");
        mode(&at("inner/file"), 0o666);
        assert!(
            check_trusted_file(&at("link")).unwrap_err().to_string().contains("file: every user")
        );
        if !geteuid().is_root() {
            return hugewise_testkit::Skip("only root gives files away".into()).report();
        }
        mode(&at("inner/file"), 0o644);
        mode(&at("inner"), 0o775);
        assert!(check_trusted_file(&at("link")).is_ok(), "root's group");
        chown(at("inner"), Some(0), Some(4242)).unwrap();
        assert!(check_trusted_file(&at("link")).unwrap_err().to_string().contains("group 4242"));
        mode(&at("inner"), 0o755);
        chown(at("inner/file"), Some(4242), None).unwrap();
        assert!(check_trusted_file(&at("link")).unwrap_err().to_string().contains("user 4242"));
        symlink("/etc/passwd", at("planted")).unwrap();
        std::os::unix::fs::lchown(at("planted"), Some(4242), None).unwrap();
        assert!(check_trusted_file(&at("planted")).unwrap_err().to_string().contains("user 4242"));
    }

    /// Links of /proc lead into a user's namespace; in /tmp lies what was his to move.
    #[test]
    fn what_only_root_has_put_there_is_in_folders_of_roots_alone() {
        if !geteuid().is_root() {
            return hugewise_testkit::Skip("only root has files of root's".into()).report();
        }
        for path in ["/bin/sh", "/usr/bin/env", "/etc/passwd"] {
            assert!(check_root_alone(Path::new(path)).is_ok(), "{path}");
        }
        let missing = check_root_alone(Path::new("/usr/nothing/there")).unwrap_err();
        assert!(matches!(&missing, Distrust::Unseen { error, .. }
            if error.kind() == io::ErrorKind::NotFound));
        let own = format!("/proc/{}/root/bin/sh", std::process::id());
        assert!(check_root_alone(Path::new(&own)).unwrap_err().to_string().contains("/proc is in"));
        let folder = tempfile::tempdir().unwrap();
        mode(folder.path(), 0o755);
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("bin")).unwrap();
        mode(&at("bin"), 0o1777);
        std::fs::write(at("bin/start"), "#!/bin/sh\n").unwrap();
        mode(&at("bin/start"), 0o755);
        assert!(check_root_file(&at("bin/start")).is_ok());
        let why = check_root_alone(&at("bin/start")).unwrap_err().to_string();
        assert!(why.contains("every user may write to it"), "{why}");
    }

    #[test]
    fn secrets_are_read_by_their_owner() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, "x").unwrap();
        for (bits, said) in
            [(0o600, None), (0o400, None), (0o604, Some("every user")), (0o601, Some("every user"))]
        {
            mode(&key, bits);
            assert_eq!(
                check_secret_file(&key).err().map(|why| why.to_string().contains(said.unwrap())),
                said.map(|_| true),
                "{bits:o}"
            );
        }
        mode(&key, 0o644);
        let said = check_secret_file(&key).unwrap_err().to_string();
        assert!(said.contains("mode 0644") && said.contains("chmod 600"), "{said}");
        if geteuid().is_root() {
            mode(&key, 0o640);
            assert!(check_secret_file(&key).is_ok());
            chown(&key, None, Some(4242)).unwrap();
            assert!(check_secret_file(&key).unwrap_err().to_string().contains("group 4242"));
        }
    }
}
