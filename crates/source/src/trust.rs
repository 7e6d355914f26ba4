//! Whether only root and this program's user can write to a file's path, or read its secrets.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::{fmt, io};

use rustix::fs::{FileType, FsWord, Mode, Stat, getxattr, lstat, readlink, statfs};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgroups};

use super::openat2::MAX_LINKS;
use super::owner::Acl;

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
    /// The access list of a part of its path lets others write to it.
    #[error("{path}: its access list lets {who} write to it (getfacl {path})")]
    ListedMayWrite {
        /// The part of the path.
        path: String,
        /// `user 4242`, `group 50`.
        who: String,
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

/// Who may have written to a file, its folders and the links on the way, beside root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedWriters {
    /// Users.
    pub users: Vec<u32>,
    /// Groups that nobody else is in.
    pub groups: Vec<u32>,
    /// Whether a folder may be open to all where its sticky bit keeps what is in it.
    pub has_sticky: bool,
    /// The process whose own `/proc/PID/root` a path may begin with.
    pub process: Option<u32>,
}

impl TrustedWriters {
    /// Root alone. The sticky bit keeps root's files where they are, but whoever finds one in a
    /// folder of his own (a log, a copy) may move it into a folder that is open to all.
    pub const ROOT_ALONE: Self =
        Self { users: Vec::new(), groups: Vec::new(), has_sticky: false, process: None };

    fn has_user(&self, user: u32) -> bool {
        user == 0 || self.users.contains(&user)
    }

    fn has_group(&self, group: u32) -> bool {
        group == 0 || self.groups.contains(&group)
    }
}

/// A file that only root and this program's own user could have put at a path: it and the folders
/// and links on the way belong to them, and nobody else may write to any.
/// Errors: who else could have done so, and with what; or that nothing is there.
pub fn check_trusted_file(path: &Path) -> Result<Stat, Distrust> {
    let users = vec![geteuid().as_raw()];
    check_path(path, &TrustedWriters { users, has_sticky: true, ..TrustedWriters::default() })
}

/// The same, with root alone: what root is to run. Errors: as [`check_trusted_file`].
pub fn check_root_file(path: &Path) -> Result<Stat, Distrust> {
    check_path(path, &TrustedWriters { has_sticky: true, ..TrustedWriters::ROOT_ALONE })
}

/// What only these have put at a path, and only they can replace. A folder at its end is open to
/// nobody else.
/// Errors: as [`check_trusted_file`], also for parts in /proc and on a FUSE. Of what is missing,
/// all parts before it were looked at: only they can put it there.
pub fn check_writers(path: &str, writers: &TrustedWriters) -> Result<(), Distrust> {
    let root = writers.process.map(|pid| format!("/proc/{pid}/root"));
    let inside = root.as_deref().and_then(|root| Some((root, path.strip_prefix(root)?)));
    let inside = inside.filter(|(_, rest)| rest.starts_with('/'));
    let (root, path) = inside.unwrap_or(("/", path));
    let (at, stat) = walk_path(Path::new(root), Path::new(path), writers, true)?;
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if is_folder && Mode::from_raw_mode(stat.st_mode).contains(Mode::WOTH) {
        return Err(Distrust::AllMayWrite(at.display().to_string()));
    }
    Ok(())
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

fn check_path(path: &Path, writers: &TrustedWriters) -> Result<Stat, Distrust> {
    let path = std::path::absolute(path)
        .map_err(|error| Distrust::Unseen { path: path.display().to_string(), error })?;
    walk_path(Path::new("/"), &path, writers, false).map(|(_, stat)| stat)
}

/// What is at the end of a path below a root folder, out of which no link leads.
fn walk_path(
    root: &Path,
    path: &Path,
    writers: &TrustedWriters,
    is_on_disk: bool,
) -> Result<(PathBuf, Stat), Distrust> {
    let mut left: VecDeque<OsString> =
        path.components().map(|part| part.as_os_str().to_owned()).collect();
    let whole = path.display().to_string();
    // The link of /proc itself tells nothing of the folder behind it.
    let (mut at, mut links) = (root.join("."), 0);
    let mut last = check_path_part(&at, &whole, writers)?;
    at = root.to_owned();
    while let Some(name) = left.pop_front() {
        match Path::new(&name).components().next() {
            Some(Component::RootDir) => root.clone_into(&mut at),
            Some(Component::ParentDir) => drop(at != root && at.pop()),
            Some(Component::Normal(_)) => at.push(&name),
            _ => continue,
        }
        let device = last.st_dev;
        let part = if at == root { root.join(".") } else { at.clone() };
        last = match check_path_part(&part, &whole, writers) {
            // The sticky bit keeps what is there, and lets everybody put there what is not.
            Err(Distrust::Unseen { error, .. })
                if error.kind() == io::ErrorKind::NotFound
                    && Mode::from_raw_mode(last.st_mode).contains(Mode::WOTH) =>
            {
                at.pop();
                return Err(Distrust::AllMayWrite(at.display().to_string()));
            }
            other => other?,
        };
        let is_link = FileType::from_raw_mode(last.st_mode) == FileType::Symlink;
        if is_on_disk && last.st_dev != device && !is_link && is_made_up(&part) {
            return Err(Distrust::Elsewhere(at.display().to_string()));
        }
        if !is_link {
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
    Ok((at, last))
}

/// Whether a mount shows what somebody says, not what is on a disk: the links in /proc lead into
/// namespaces of others, and a FUSE names owners as it likes (linux/magic.h).
fn is_made_up(mount: &Path) -> bool {
    const MADE_UP: [FsWord; 2] = [0x9fa0, 0x6573_5546];
    // What cannot be asked proves nothing.
    statfs(mount).map_or(true, |system| MADE_UP.contains(&system.f_type))
}

/// In a folder with the sticky bit only the owner can replace what is his.
fn check_path_part(path: &Path, whole: &str, writers: &TrustedWriters) -> Result<Stat, Distrust> {
    let shown = || path.display().to_string();
    let stat = lstat(path)
        .map_err(|error| Distrust::Unseen { path: whole.to_owned(), error: error.into() })?;
    let (kind, mode) = (FileType::from_raw_mode(stat.st_mode), Mode::from_raw_mode(stat.st_mode));
    let is_sticky = kind == FileType::Directory && mode.contains(Mode::SVTX);
    if kind == FileType::Symlink || (writers.has_sticky && is_sticky) {
        // A link has no mode of its own.
        return check_owner(shown, &stat, writers).map(|()| stat);
    }
    check_writers_of(path, shown, &stat, writers).map(|()| stat)
}

fn check_owner(
    shown: impl Fn() -> String,
    stat: &Stat,
    writers: &TrustedWriters,
) -> Result<(), Distrust> {
    match writers.has_user(stat.st_uid) {
        true => Ok(()),
        false => Err(Distrust::Owner { path: shown(), user: stat.st_uid }),
    }
}

/// What a link of /proc stands for, wherever that lies: nobody else may write to it.
/// Errors: as [`check_writers`].
pub fn check_writers_of_file(link: &str, writers: &TrustedWriters) -> Result<(), Distrust> {
    let path = Path::new(link);
    let stat = rustix::fs::stat(path)
        .map_err(|error| Distrust::Unseen { path: link.to_owned(), error: error.into() })?;
    if is_made_up(path) {
        return Err(Distrust::Elsewhere(link.to_owned()));
    }
    check_writers_of(path, || link.to_owned(), &stat, writers)
}

fn check_writers_of(
    path: &Path,
    shown: impl Fn() -> String,
    stat: &Stat,
    writers: &TrustedWriters,
) -> Result<(), Distrust> {
    check_owner(&shown, stat, writers)?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.contains(Mode::WOTH) {
        return Err(Distrust::AllMayWrite(shown()));
    }
    if !mode.contains(Mode::WGRP) {
        return Ok(());
    }
    // With an ACL these bits are its mask.
    let list = Acl::read(path)
        .map_err(|error: Errno| Distrust::Unseen { path: shown(), error: error.into() })?;
    let has_group = |group| writers.has_group(group);
    match list {
        None if has_group(stat.st_gid) => Ok(()),
        None => Err(Distrust::GroupMayWrite { path: shown(), group: stat.st_gid }),
        Some(list) => {
            let other = list.find_writer(stat.st_gid, |user| writers.has_user(user), has_group);
            other.map_or(Ok(()), |who| Err(Distrust::ListedMayWrite { path: shown(), who }))
        }
    }
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
            assert!(check_writers(path, &TrustedWriters::ROOT_ALONE).is_ok(), "{path}");
        }
        let missing = check_writers("/usr/nothing/there", &TrustedWriters::ROOT_ALONE).unwrap_err();
        assert!(matches!(&missing, Distrust::Unseen { error, .. }
            if error.kind() == io::ErrorKind::NotFound));
        let own = format!("/proc/{}/root/bin/sh", std::process::id());
        assert!(
            check_writers(&own, &TrustedWriters::ROOT_ALONE)
                .unwrap_err()
                .to_string()
                .contains("/proc is in")
        );
        let folder = tempfile::tempdir().unwrap();
        mode(folder.path(), 0o755);
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("bin")).unwrap();
        mode(&at("bin"), 0o1777);
        std::fs::write(at("bin/start"), "#!/bin/sh\n").unwrap();
        mode(&at("bin/start"), 0o755);
        assert!(check_root_file(&at("bin/start")).is_ok());
        let why = check_writers(at("bin/start").to_str().unwrap(), &TrustedWriters::ROOT_ALONE)
            .unwrap_err()
            .to_string();
        assert!(why.contains("every user may write to it"), "{why}");
    }

    /// An ACL as the kernel keeps it (linux/posix_acl_xattr.h): owner and group may write, others
    /// read, and `tag` names one more with the right to do so, up to the mask.
    fn grant_by_list(path: &Path, tag: u16, id: u32, mask: u16) -> rustix::io::Result<()> {
        let nobody = u32::MAX;
        let named = (tag, 7, id);
        let own = [(0x01, 7, nobody), (0x04, 5, nobody), (0x10, mask, nobody), (0x20, 5, nobody)];
        let mut entries: Vec<(u16, u16, u32)> = own.into_iter().chain([named]).collect();
        entries.sort_unstable();
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, bits, id) in entries {
            list.extend(tag.to_le_bytes());
            list.extend(bits.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, "system.posix_acl_access", &list, flags)
    }

    /// An ACL's mask stands where the rights of the file's group do, which may be root's.
    #[test]
    fn whoever_an_access_list_names_may_write() {
        if !geteuid().is_root() {
            return hugewise_testkit::Skip("only root has files of root's".into()).report();
        }
        let folder = tempfile::tempdir().unwrap();
        mode(folder.path(), 0o755);
        let file = folder.path().join("folder/file");
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        std::fs::write(&file, "x").unwrap();
        let writers = TrustedWriters { has_sticky: true, ..TrustedWriters::ROOT_ALONE };
        let check = |writers: &TrustedWriters| check_writers(file.to_str().unwrap(), writers);
        for part in [file.as_path(), file.parent().unwrap()] {
            let named = |tag, id, mask| {
                if let Err(error) = grant_by_list(part, tag, id, mask) {
                    hugewise_testkit::Skip(format!("no access lists here: {error}")).report();
                    return None;
                }
                Some(check(&writers).map_err(|why| why.to_string()))
            };
            let Some(by_user) = named(0x02, 4242, 7) else { return };
            let why = by_user.unwrap_err();
            assert!(why.contains("its access list lets user 4242 write"), "{why}");
            let why = named(0x08, 50, 7).unwrap().unwrap_err();
            assert!(why.contains("group 50"), "{why}");
            assert_eq!(named(0x02, 4242, 5), Some(Ok(())), "the mask takes it back");
            assert_eq!(named(0x02, 0, 7), Some(Ok(())), "root");
            let known = TrustedWriters { users: vec![4242], ..writers.clone() };
            grant_by_list(part, 0x02, 4242, 7).unwrap();
            assert!(check(&known).is_ok() && check_root_file(&file).is_err());
            grant_by_list(part, 0x02, 4242, 5).unwrap();
        }
    }

    /// Others cannot replace what lies in a folder with the sticky bit, but add to it.
    #[test]
    fn a_folder_that_is_open_to_all_is_nobodys_word() {
        if !geteuid().is_root() {
            return hugewise_testkit::Skip("only root has files of root's".into()).report();
        }
        let folder = tempfile::tempdir().unwrap();
        let (open, file) = (folder.path().join("conf.d"), folder.path().join("conf.d/a.conf"));
        std::fs::create_dir(&open).unwrap();
        std::fs::write(&file, "x").unwrap();
        mode(&file, 0o644);
        mode(&open, 0o1777);
        let users = vec![105];
        let writers = TrustedWriters { users, has_sticky: true, ..TrustedWriters::default() };
        let check = |path: &Path| check_writers(path.to_str().unwrap(), &writers);
        assert!(check(&file).is_ok());
        assert!(matches!(check(&open), Err(Distrust::AllMayWrite(_))));
        chown(&file, Some(105), None).unwrap();
        assert!(check(&file).is_ok());
        chown(&file, Some(4242), None).unwrap();
        assert!(matches!(check(&file), Err(Distrust::Owner { user: 4242, .. })));
        mode(&open, 0o755);
        mode(&file, 0o664);
        chown(&file, Some(105), Some(50)).unwrap();
        assert!(matches!(check(&file), Err(Distrust::GroupMayWrite { group: 50, .. })));
        let closed = TrustedWriters { groups: vec![50], ..writers.clone() };
        assert!(check_writers(file.to_str().unwrap(), &closed).is_ok());
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
