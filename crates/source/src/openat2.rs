//! Opening files so that no path leads out of its root, and only regular files.

use std::cell::RefCell;
use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use hugewise_model::Observed;
use rustix::fs::{
    CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, readlinkat, stat,
};
use rustix::io::{Errno, Result};

use super::errno::{is_absence, not_known, to_observed};
use super::kernel_filesystems::is_kernels;
use super::read_limits::{name_length, too_large};
use super::{FilePart, MAX_FILE};

pub(super) const MAX_LINKS: u32 = 40;

/// Not opened for reading (`O_PATH`).
#[derive(Debug)]
pub(super) struct Located {
    pub(super) file: OwnedFd,
    /// Its folder and name there; `None` for a root, and where the kernel resolved the whole path.
    at: Option<(OwnedFd, OsString)>,
}

impl Located {
    pub(super) const fn new(file: OwnedFd, at: Option<(OwnedFd, OsString)>) -> Self {
        Self { file, at }
    }

    /// Opens the very file that was found, whatever has its name by now.
    pub(super) fn open(&self) -> std::result::Result<OwnedFd, NotOpened> {
        if has_descriptors() {
            // This leads to the held file, not to a name that somebody could replace; where nothing
            // is found, /proc is gone.
            return open_to_read(CWD, &format!("/proc/self/fd/{}", self.file.as_raw_fd()))
                .map_err(|error| if is_absence(error) { NotOpened::NoWay } else { error.into() });
        }
        let Some((folder, name)) = &self.at else { return Err(NotOpened::NoWay) };
        let opened = openat(folder, name, TO_READ | OFlags::NOFOLLOW, Mode::empty())?;
        self.is_same(&opened)?.then_some(opened).ok_or(NotOpened::Replaced)
    }

    /// Whether that is the file that was found, and a regular one.
    pub(super) fn is_same(&self, opened: &OwnedFd) -> Result<bool> {
        let (found, opened) = (fstat(&self.file)?, fstat(opened)?);
        let regular = FileType::from_raw_mode(opened.st_mode) == FileType::RegularFile;
        Ok(regular && (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotOpened {
    /// Neither /proc nor a name leads to what was found.
    NoWay,
    Replaced,
    Kernel(Errno),
}

impl From<Errno> for NotOpened {
    fn from(error: Errno) -> Self {
        Self::Kernel(error)
    }
}

impl std::fmt::Display for NotOpened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoWay => f.write_str("cannot be opened without /proc/self/fd"),
            Self::Replaced => f.write_str("another file took its place while it was read"),
            Self::Kernel(error) => std::io::Error::from(*error).fmt(f),
        }
    }
}

impl std::error::Error for NotOpened {}

impl NotOpened {
    fn into_observed<T>(self) -> Observed<T> {
        match self {
            Self::Kernel(error) => not_known(error),
            other => Observed::Malformed(other.to_string()),
        }
    }
}

impl From<NotOpened> for std::io::Error {
    fn from(why: NotOpened) -> Self {
        match why {
            NotOpened::Kernel(error) => error.into(),
            other => Self::other(other),
        }
    }
}

/// Whether /proc/self/fd shows this program's descriptors: not without /proc in a chroot, nor with
/// that of another pid namespace.
pub(super) fn has_descriptors() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let same = || -> Result<bool> {
            // A pipe is nowhere in the file system: no file can be taken for it.
            let (pipe, _other) = std::io::pipe().map_err(|_| Errno::MFILE)?;
            let (own, seen) = (fstat(&pipe)?, stat(format!("/proc/self/fd/{}", pipe.as_raw_fd()))?);
            Ok((own.st_dev, own.st_ino) == (seen.st_dev, seen.st_ino))
        };
        same().unwrap_or(false)
    })
}

/// Finds `path` with `root` as the root, without reading.
pub(super) fn locate_path(root: BorrowedFd<'_>, path: &str) -> Result<Located> {
    if !has_descriptors() {
        return walk_path(root, path);
    }
    let path = path.trim_matches('/');
    let path = if path.is_empty() { "." } else { path };
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    for _ in 0..8 {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            // A concurrent rename made `..` uncertain: the kernel asks for another try.
            Err(Errno::AGAIN) => {}
            // Before Linux 5.6, or a filter that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => return walk_path(root, path),
            other => return Ok(Located::new(other?, None)),
        }
    }
    walk_path(root, path)
}

/// The same name by name, for kernels without openat2, and where a file can only be opened by its
/// name.
pub(super) fn walk_path(root: BorrowedFd<'_>, path: &str) -> Result<Located> {
    let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut pending: Vec<String> = path_names(path);
    let mut trail = vec![(openat(root, ".", step, Mode::empty())?, String::new())];
    let mut links = 0;
    while let Some(name) = pending.pop() {
        if name == ".." {
            if trail.len() > 1 {
                trail.pop();
            }
            continue;
        }
        let (folder, _) = trail.last().ok_or(Errno::NOENT)?;
        let next = openat(folder, &name, step, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&next)?.st_mode) != FileType::Symlink {
            trail.push((next, name));
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        // Of this very link, whatever has its name by now.
        let target = readlinkat(&next, "", Vec::new())?.into_string().map_err(|_| Errno::ILSEQ)?;
        if target.starts_with('/') {
            // The text of a link of /proc/PID is not its target.
            if is_kernels(&next)? {
                return Err(Errno::LOOP);
            }
            trail.truncate(1);
        }
        pending.extend(path_names(&target));
    }
    let (file, name) = trail.pop().ok_or(Errno::NOENT)?;
    Ok(Located::new(file, trail.pop().map(|(folder, _)| (folder, name.into()))))
}

pub(super) fn path_names(path: &str) -> Vec<String> {
    path.rsplit('/').filter(|name| !name.is_empty() && *name != ".").map(str::to_owned).collect()
}

/// If it is a regular one: opening a device or a pipe can have effects.
pub(super) fn read_located(file: &Located) -> Observed<Vec<u8>> {
    read_located_up_to(file, MAX_FILE)
}

pub(super) fn read_located_up_to(file: &Located, most: u64) -> Observed<Vec<u8>> {
    check_regular(file).and_then(|stat| {
        if u64::try_from(stat.st_size).is_ok_and(|size| size > most) {
            return too_large(most);
        }
        file.open().map_or_else(NotOpened::into_observed, |opened| {
            read_up_to(&opened, most).unwrap_or_else(not_known)
        })
    })
}

pub(super) fn read_part_located(
    file: &Located,
    before: Option<u64>,
    max: u64,
) -> Observed<FilePart> {
    check_regular(file).and_then(|stat| {
        let total = u64::try_from(stat.st_size).unwrap_or(0);
        let end = before.unwrap_or(total).min(total);
        let offset = end.saturating_sub(max);
        let opened = file.open().map_or_else(NotOpened::into_observed, Observed::Known);
        let bytes = opened.and_then(|opened| to_observed(read_at(&opened, offset, end)));
        bytes.map(|bytes| FilePart {
            bytes,
            offset,
            total,
            identity: Some((stat.st_dev, stat.st_ino)),
        })
    })
}

fn check_regular(file: &Located) -> Observed<Stat> {
    to_observed(fstat(&file.file)).and_then(|stat| match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Observed::Known(stat),
        FileType::Directory => Observed::Malformed("is a folder".into()),
        _ => Observed::Malformed("not a regular file".into()),
    })
}

/// Fewer bytes where the file has become shorter.
fn read_at(file: &OwnedFd, mut offset: u64, end: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(end.saturating_sub(offset)).map_err(|_| Errno::FBIG)?];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(file, rest, offset) {
            Ok(0) => break,
            Ok(count) => {
                filled += count;
                offset = offset.saturating_add(u64::try_from(count).map_err(|_| Errno::FBIG)?);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Should it be no regular file after all, it neither blocks nor becomes our terminal.
pub(super) const TO_READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

pub(super) fn open_to_read(folder: BorrowedFd<'_>, path: &str) -> Result<OwnedFd> {
    openat(folder, path, TO_READ, Mode::empty())
}

/// Reads an open kernel's file to its end, see [`read_into`].
pub(super) fn read_kernels_open(
    file: &OwnedFd,
    most: u64,
    in_parts: bool,
) -> Result<Observed<Vec<u8>>> {
    in_room(|bytes| read_into(file, bytes, most, in_parts))
}

const ROOM: usize = 64 << 10;

/// What `read` adds to the thread's buffer, which fits most of the kernel's files, copied in its
/// own size.
pub(super) fn in_room(
    read: impl FnOnce(&mut Vec<u8>) -> Result<Observed<()>>,
) -> Result<Observed<Vec<u8>>> {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let mut buffer = BUFFER.take();
    let complete = read(&mut buffer);
    let bytes = complete.map(|complete| complete.map(|()| buffer.as_slice().to_vec()));
    buffer.clear();
    buffer.shrink_to(ROOM);
    BUFFER.set(buffer);
    bytes
}

fn read_up_to(file: &OwnedFd, most: u64) -> Result<Observed<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(4096);
    Ok(read_into(file, &mut bytes, most, true)?.map(|()| bytes))
}

/// Reads to the end. Files that the kernel writes in one go (not `in_parts`) end with an answer
/// that leaves room.
pub(super) fn read_into(
    file: &OwnedFd,
    bytes: &mut Vec<u8>,
    most: u64,
    in_parts: bool,
) -> Result<Observed<()>> {
    loop {
        if bytes.capacity() - bytes.len() < 1024 {
            bytes.reserve(bytes.len().max(4096));
        }
        match rustix::io::read(file, rustix::buffer::spare_capacity(bytes)) {
            Ok(0) => return Ok(Observed::Known(())),
            Ok(_) if u64::try_from(bytes.len()).is_ok_and(|length| length > most) => {
                return Ok(too_large(most));
            }
            Ok(_) if !in_parts && bytes.len() < bytes.capacity() => return Ok(Observed::Known(())),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::ISDIR) => return Ok(Observed::Malformed("is a folder".into())),
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn list_located(folder: &Located) -> Observed<Vec<String>> {
    list_located_up_to(folder, u64::MAX)
}

/// The same; more bytes of names are too many.
pub(super) fn list_located_up_to(folder: &Located, most: u64) -> Observed<Vec<String>> {
    match fstat(&folder.file).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Directory) => {}
        Ok(_) => return Observed::Absent,
        Err(error) => return not_known(error),
    }
    to_observed(open_folder(&folder.file, ".").and_then(|folder| list_up_to(folder, most)))
        .and_then(|names| {
            names.map_or_else(|| Observed::Malformed("too many names".into()), Observed::Known)
        })
}

/// For its names.
pub(super) fn open_folder(within: impl AsFd, path: impl rustix::path::Arg) -> Result<OwnedFd> {
    openat(within, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

pub(super) fn list_open(folder: OwnedFd) -> Result<Vec<String>> {
    list_up_to(folder, u64::MAX).map(Option::unwrap_or_default)
}

fn list_up_to(folder: OwnedFd, most: u64) -> Result<Option<Vec<String>>> {
    let mut names = Vec::new();
    let mut left = most;
    for entry in Dir::new(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            match left.checked_sub(name_length(&name)) {
                Some(less) => left = less,
                None => return Ok(None),
            }
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(Some(names))
}

pub(super) fn link_beneath(root: BorrowedFd<'_>, path: &str) -> Observed<String> {
    let Some((folder, name)) = split_link(path) else {
        return Observed::Malformed("no link".into());
    };
    to_observed(locate_path(root, folder)).and_then(|folder| link_in(folder.file.as_fd(), name))
}

/// The folder and the name of what may be a link.
pub(super) fn split_link(path: &str) -> Option<(&str, &str)> {
    let path = path.trim_matches('/');
    let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
    (!matches!(name, "" | "." | "..")).then_some((folder, name))
}

pub(super) fn link_in(folder: BorrowedFd<'_>, name: &str) -> Observed<String> {
    read_link(folder, name).unwrap_or_else(not_known)
}

/// Fails as readlink(2) does, but for what exists and is no link.
pub(super) fn read_link(folder: BorrowedFd<'_>, name: &str) -> Result<Observed<String>> {
    match readlinkat(folder, name, Vec::new()) {
        Ok(target) => Ok(Observed::Known(target.to_string_lossy().into_owned())),
        // The kernel's answer for what is no link (fs/stat.c, `do_readlinkat`).
        Err(Errno::INVAL) => Ok(Observed::Malformed("no link".into())),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn both_ways_to_look_up_agree_and_stay_inside() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::fs::write(folder.path().join("a/b/file"), "x").unwrap();
        symlink("/a/b", folder.path().join("absolute")).unwrap();
        symlink("../../../../a/b/file", folder.path().join("a/up")).unwrap();
        symlink("/etc/passwd", folder.path().join("outside")).unwrap();
        symlink("loop", folder.path().join("loop")).unwrap();
        let root = rustix::fs::open(folder.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
            .unwrap();
        for (path, expected) in [
            ("/a/b/file", Ok("x")),
            ("/absolute/file", Ok("x")),
            ("/a/up", Ok("x")),
            ("../../a/b/file", Ok("x")),
            ("/outside", Err(Errno::NOENT)),
            ("/loop", Err(Errno::LOOP)),
            ("/a/b/file/more", Err(Errno::NOTDIR)),
        ] {
            for found in [locate_path(root.as_fd(), path), walk_path(root.as_fd(), path)] {
                let text = found.map(|file| {
                    String::from_utf8(read_located(&file).into_known().unwrap()).unwrap()
                });
                assert_eq!(text.as_deref(), expected.as_ref().map(|text| *text), "{path}");
            }
        }
    }
}
