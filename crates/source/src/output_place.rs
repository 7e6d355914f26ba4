//! Where output goes that the command line names: no link of another user's leads anywhere.
//!
//! Linux refuses strangers' links only in folders that are open to all (`fs.protected_symlinks`).
//! Root also writes into folders of one user, such as a home, and that user may put a link there at
//! any time. So a path is gone name by name, and only links of root's and of this program's own
//! user are followed. What then has the name is opened in that very folder.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, fstatfs, ftruncate, mkdirat, openat,
    readlinkat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::kernel_filesystems::is_kernels;
use super::openat2::MAX_LINKS;

const STEP: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// linux/magic.h: its server says whose a file is.
const FUSE: rustix::fs::FsWord = 0x6573_5546;

/// A name in a folder that is held open, so that nobody can lead it elsewhere.
#[derive(Debug)]
pub struct OutputPlace {
    folder: OwnedFd,
    name: OsString,
}

impl OutputPlace {
    /// The place that a path names; nothing need be there.
    ///
    /// # Errors
    /// A folder is missing, or is another user's link; the path ends in no name.
    pub fn find(path: &Path) -> io::Result<Self> {
        Self::find_below(openat(CWD, ".", STEP | OFlags::DIRECTORY, Mode::empty())?, path)
    }

    fn find_below(start: OwnedFd, path: &Path) -> io::Result<Self> {
        let not_a_name = || io::Error::new(io::ErrorKind::InvalidInput, "is not a file name");
        let name = path.file_name().ok_or_else(not_a_name)?.to_owned();
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Self { folder: enter_folder(start, folder, MissingFolders::Refused)?, name })
    }

    /// A name in a folder that this program has made.
    pub fn below(folder: OwnedFd, name: impl Into<OsString>) -> Self {
        Self { folder, name: name.into() }
    }

    /// The folder.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// The name.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Another name in the same folder.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn name_in_same_folder(&self, name: impl Into<OsString>) -> io::Result<Self> {
        Ok(Self { folder: self.folder.try_clone()?, name: name.into() })
    }

    /// What has the name; a link is not followed.
    ///
    /// # Errors
    /// Nothing has it.
    pub fn stat(&self) -> io::Result<Stat> {
        Ok(statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Makes a new file of that mode, less the umask.
    ///
    /// # Errors
    /// Something has the name, or the folder takes no file.
    pub fn create_file(&self, mode: Mode) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        Ok(File::from(openat(&self.folder, &self.name, flags | OFlags::CLOEXEC, mode)?))
    }

    /// Makes a new folder for its owner alone, and opens it.
    ///
    /// # Errors
    /// Something has the name, or somebody put another folder there at once.
    pub fn create_folder(&self) -> io::Result<OwnedFd> {
        mkdirat(&self.folder, &self.name, Mode::RWXU)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(&self.folder, &self.name, flags, Mode::empty())?;
        if fstat(&folder)?.st_uid != geteuid().as_raw() {
            return Err(refused("another user put a folder in the place of the one that was made"));
        }
        Ok(folder)
    }

    /// Gives what has this name another name in the folder, in place of what has that.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn rename_to(&self, other: &Self) -> io::Result<()> {
        Ok(renameat(&self.folder, &self.name, &other.folder, &other.name)?)
    }

    /// Removes the file or the link of that name.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove_file(&self) -> io::Result<()> {
        Ok(unlinkat(&self.folder, &self.name, AtFlags::empty())?)
    }

    /// Opens what has the name, or a new file, for writing; a link is an error.
    fn open_to_write(&self, flags: OFlags, mode: Mode) -> io::Result<File> {
        if let Ok(stat) = self.stat() {
            self.check_existing(&stat)?;
        }
        let kept = flags.difference(OFlags::TRUNC) | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&self.folder, &self.name, kept, mode)?;
        let stat = fstat(&opened)?;
        // It may have come between the two calls.
        self.check_existing(&stat)?;
        let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if is_regular && flags.contains(OFlags::TRUNC) {
            ftruncate(&opened, 0)?;
        }
        Ok(File::from(opened))
    }

    /// As `fs.protected_regular`, `fs.protected_fifos` and `fs.protected_hardlinks` of newer kernels
    /// do: where others may put something, it is not taken for the file that was meant.
    fn check_existing(&self, stat: &Stat) -> io::Result<()> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let folder = fstat(&self.folder)?;
        let everybodys = folder.st_mode & 0o002 != 0;
        let is_others_too = everybodys
            || !is_ours(folder.st_uid)
            || (folder.st_mode & 0o020 != 0 && folder.st_gid != 0);
        let of_kind = kind == FileType::RegularFile || kind == FileType::Fifo;
        if !is_ours(stat.st_uid) && of_kind && (everybodys || kind == FileType::Fifo) {
            return Err(refused(format!(
                "belongs to user {}, who may have put it there; name another file",
                stat.st_uid
            )));
        }
        if kind == FileType::RegularFile && stat.st_nlink > 1 && is_others_too {
            return Err(refused("is a file that has other names too; name another file"));
        }
        Ok(())
    }

    /// Where the link of this name leads, if it may be followed; `None` for one of the kernel's, as
    /// `/dev/stdout` has it, whose text is not its target.
    fn follow_link(&self) -> io::Result<Option<Self>> {
        let link = openat(&self.folder, &self.name, STEP, Mode::empty())?;
        let target = read_own_link(&link, Path::new(&self.name))?;
        target.map(|target| Self::find_below(self.folder.try_clone()?, &target)).transpose()
    }
}

/// Opens the file at a path for writing, as `flags` say; the last name may be a link of root's or of
/// this program's user, or a device.
///
/// # Errors
/// A part of the path is another user's link; another user could have put the file there; the kernel
/// refuses.
pub fn open_output_file(path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
    let mut place = OutputPlace::find(path)?;
    for _ in 0..MAX_LINKS {
        let refusal = match place.open_to_write(flags, mode) {
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => error,
            opened => return opened,
        };
        place = match place.follow_link() {
            Ok(Some(target)) => target,
            Ok(None) => {
                let flags = flags | OFlags::CLOEXEC;
                return Ok(File::from(openat(&place.folder, &place.name, flags, mode)?));
            }
            // It has become something else meanwhile.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                return Err(refusal);
            }
            Err(error) => return Err(error),
        };
    }
    Err(Errno::LOOP.into())
}

/// Makes a folder and those above it, where they are missing.
///
/// # Errors
/// A part of the path is another user's link, or is no folder.
pub fn create_output_folder(path: &Path) -> io::Result<()> {
    let start = openat(CWD, ".", STEP | OFlags::DIRECTORY, Mode::empty())?;
    enter_folder(start, path, MissingFolders::Made).map(drop)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingFolders {
    Refused,
    Made,
}

/// Goes along a path from a folder on, name by name.
fn enter_folder(start: OwnedFd, path: &Path, missing: MissingFolders) -> io::Result<OwnedFd> {
    let (mut at, mut shown, mut links) = (start, PathBuf::new(), 0);
    let mut pending = names_backwards(path);
    while let Some(name) = pending.pop() {
        shown.push(&name);
        let next = match openat(&at, &name, STEP, Mode::empty()) {
            Err(Errno::NOENT) if missing == MissingFolders::Made => {
                match mkdirat(&at, &name, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                    Ok(()) | Err(Errno::EXIST) => openat(&at, &name, STEP, Mode::empty())?,
                    Err(error) => return Err(error.into()),
                }
            }
            opened => opened?,
        };
        match FileType::from_raw_mode(fstat(&next)?.st_mode) {
            FileType::Directory => at = next,
            FileType::Symlink if links < MAX_LINKS => {
                links += 1;
                match read_own_link(&next, &shown)? {
                    Some(target) => pending.extend(names_backwards(&target)),
                    None => {
                        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                        at = openat(&at, &name, flags, Mode::empty())?;
                    }
                }
                shown.pop();
            }
            FileType::Symlink => return Err(Errno::LOOP.into()),
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    Ok(at)
}

/// The names of a path, the last one first; `/` leads to the root.
fn names_backwards(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter(|name| *name != Component::CurDir);
    names.map(|name| name.as_os_str().to_owned()).collect()
}

/// Where a link leads; `None` for one of the kernel's. Errors: it is another user's.
fn read_own_link(link: &OwnedFd, shown: &Path) -> io::Result<Option<PathBuf>> {
    let stat = fstat(link)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return Err(Errno::INVAL.into());
    }
    let shown = shown.display();
    if !is_ours(stat.st_uid) {
        return Err(refused(format!(
            "{shown} is a link that belongs to user {}, so hugewise does not follow it; name what it \
             leads to",
            stat.st_uid
        )));
    }
    if fstatfs(link)?.f_type == FUSE {
        return Err(refused(format!(
            "{shown} is a link on a FUSE, so hugewise does not follow it; name what it leads to"
        )));
    }
    if is_kernels(link)? {
        return Ok(None);
    }
    let target = readlinkat(link, "", Vec::new())?;
    Ok(Some(PathBuf::from(OsString::from_vec(target.into_bytes()))))
}

fn is_ours(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "what is on the disk, past the code under test")]

    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use super::*;

    const NEW: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::TRUNC);
    /// A user of no file.
    const STRANGER: u32 = 4242;

    fn write_output(path: &Path, text: &str) -> io::Result<()> {
        let mut file = open_output_file(path, NEW, Mode::RUSR | Mode::WUSR)?;
        file.write_all(text.as_bytes())
    }

    fn contents(path: &Path) -> String {
        let mut text = String::new();
        let file = File::options().read(true).open(path).unwrap();
        io::Read::read_to_string(&mut &file, &mut text).unwrap();
        text
    }

    #[test]
    fn ones_own_links_lead_on() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("real/inner")).unwrap();
        symlink(at("real"), at("absolute")).unwrap();
        symlink("absolute/inner", at("relative")).unwrap();
        symlink("../out", at("real/inner/last")).unwrap();
        write_output(&at("relative/last"), "text").unwrap();
        assert_eq!(contents(&at("real/out")), "text");
        write_output(&at("absolute/../real/./inner/../out"), "x").unwrap();
        assert_eq!(contents(&at("real/out")), "x");
        create_output_folder(&at("relative/new/one")).unwrap();
        create_output_folder(&at("relative/new/one")).unwrap();
        write_output(&at("real/inner/new/one/file"), "y").unwrap();
        symlink("circle", at("circle")).unwrap();
        for path in ["circle", "circle/x", "none/x", "real/out/x", ".."] {
            assert!(write_output(&at(path), "").is_err(), "{path}");
        }
        // Descriptors and devices: links of the kernel's, whose text is not where they lead.
        let file = tempfile::NamedTempFile::new().unwrap();
        let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file.as_file()));
        write_output(Path::new(&own), "z").unwrap();
        assert_eq!(contents(file.path()), "z");
        write_output(Path::new("/dev/null"), "z").unwrap();
        let below = folder.path().strip_prefix("/").unwrap().join("below");
        write_output(&Path::new("/proc/self/root").join(below), "z").unwrap();
        assert_eq!(contents(&at("below")), "z");
    }

    #[test]
    fn another_users_links_lead_nowhere() {
        if !geteuid().is_root() {
            return hugewise_testkit::Skip("only root gives files away".into()).report();
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("precious")).unwrap();
        std::fs::create_dir(at("home")).unwrap();
        symlink(at("precious"), at("home/out")).unwrap();
        symlink(at("precious/file"), at("home/file")).unwrap();
        symlink("home/out", at("admins")).unwrap();
        for path in ["home/out", "home/file", "home"] {
            lchown(at(path), Some(STRANGER), Some(STRANGER)).unwrap();
        }
        for path in ["home/out/file", "home/file", "admins/file"] {
            let why = write_output(&at(path), "x").unwrap_err().to_string();
            assert!(why.contains("belongs to user 4242"), "{path}: {why}");
        }
        let found = OutputPlace::find(&at("home/out/file"));
        assert!(found.unwrap_err().to_string().contains("home/out is a link"));
        assert!(create_output_folder(&at("home/out/new")).is_err());
        assert_eq!(std::fs::read_dir(at("precious")).unwrap().count(), 0);
        // His folder itself is what was named.
        write_output(&at("home/mine"), "x").unwrap();
        assert_eq!(contents(&at("home/mine")), "x");
    }

    /// As a kernel without `fs.protected_*` lets a stranger prepare it.
    #[test]
    fn what_another_user_may_have_put_there_is_not_written() {
        if !geteuid().is_root() {
            return hugewise_testkit::Skip("only root gives files away".into()).report();
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("precious"), "precious").unwrap();
        std::fs::create_dir(at("shared")).unwrap();
        std::fs::set_permissions(at("shared"), std::fs::Permissions::from_mode(0o1777)).unwrap();
        std::fs::hard_link(at("precious"), at("shared/again")).unwrap();
        std::fs::write(at("shared/his"), "his").unwrap();
        rustix::fs::mknodat(CWD, at("shared/pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .unwrap();
        for path in ["shared/his", "shared/pipe"] {
            lchown(at(path), Some(STRANGER), Some(STRANGER)).unwrap();
        }
        for path in ["shared/again", "shared/his", "shared/pipe"] {
            let why = write_output(&at(path), "x").unwrap_err().to_string();
            assert!(why.contains("name another file"), "{path}: {why}");
        }
        assert_eq!(contents(&at("precious")), "precious");
        assert_eq!(contents(&at("shared/his")), "his");
        write_output(&at("shared/new"), "x").unwrap();
        write_output(&at("shared/new"), "y").unwrap();
        assert_eq!(contents(&at("shared/new")), "y");
    }
}
