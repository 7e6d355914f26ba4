//! Opening files so that no path leads out of its root and nothing but a regular file is ever opened.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use hugewise_model::Observed;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, readlinkat, statat};
use rustix::io::{Errno, Result};

use super::owned::{name_length, too_large};
use super::{MAX_FILE, Part};

/// Links followed in one look-up before it counts as a loop, as in the kernel.
pub(super) const MAX_LINKS: u32 = 40;

/// What an error number says of a fact.
pub(super) fn not_known<T>(error: Errno) -> Observed<T> {
    match error {
        Errno::NOENT | Errno::NOTDIR | Errno::SRCH | Errno::NODEV | Errno::NXIO => Observed::Absent,
        Errno::ACCESS | Errno::PERM => Observed::Denied,
        Errno::LOOP => Observed::Malformed("too many links".into()),
        other => Observed::Malformed(std::io::Error::from(other).to_string()),
    }
}

/// Turns a result into a fact.
pub(super) fn observed<T>(result: Result<T>) -> Observed<T> {
    match result {
        Ok(value) => Observed::Known(value),
        Err(error) => not_known(error),
    }
}

/// Opens `path` as if `root` were the root, without reading from it (`O_PATH`).
pub(super) fn locate(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd> {
    let path = path.trim_matches('/');
    let path = if path.is_empty() { "." } else { path };
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    for _ in 0..8 {
        match openat2(root, path, flags, Mode::empty(), resolve) {
            // A rename elsewhere made `..` uncertain: the kernel asks for another try.
            Err(Errno::AGAIN) => {}
            // Before Linux 5.6, or a filter that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => return walk(root, path),
            other => return other,
        }
    }
    walk(root, path)
}

/// The same for kernels without openat2: one name after the other, links by hand.
fn walk(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut pending: Vec<String> = names(path);
    let mut trail = vec![openat(root, ".", step, Mode::empty())?];
    let mut links = 0;
    while let Some(name) = pending.pop() {
        if name == ".." {
            if trail.len() > 1 {
                trail.pop();
            }
            continue;
        }
        let folder = trail.last().ok_or(Errno::NOENT)?;
        let next = openat(folder, &name, step, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&next)?.st_mode) != FileType::Symlink {
            trail.push(next);
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP);
        }
        let target = readlinkat(folder, &name, Vec::new())?.into_string().map_err(|_| Errno::ILSEQ)?;
        if target.starts_with('/') {
            trail.truncate(1);
        }
        pending.extend(names(&target));
    }
    trail.pop().ok_or(Errno::NOENT)
}

/// Names of a path, last first.
pub(super) fn names(path: &str) -> Vec<String> {
    path.rsplit('/').filter(|name| !name.is_empty() && *name != ".").map(str::to_owned).collect()
}

/// Reads a located file, if it is a regular one: opening a device or a pipe can have effects.
pub(super) fn read_located(file: &OwnedFd) -> Observed<Vec<u8>> {
    read_located_up_to(file, MAX_FILE)
}

/// The same, at most that much.
pub(super) fn read_located_up_to(file: &OwnedFd, most: u64) -> Observed<Vec<u8>> {
    let stat = match fstat(file) {
        Ok(stat) => stat,
        Err(error) => return not_known(error),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Observed::Malformed("is a folder".into()),
        _ => return Observed::Malformed("not a regular file".into()),
    }
    if u64::try_from(stat.st_size).is_ok_and(|size| size > most) {
        return too_large(most);
    }
    match open_to_read(CWD, &format!("/proc/self/fd/{}", file.as_raw_fd())) {
        Ok(opened) => read_up_to(&opened, most),
        Err(error) => not_known(error),
    }
}

/// Reads a part of a located file, if it is a regular one.
pub(super) fn read_part_located(file: &OwnedFd, before: Option<u64>, max: u64) -> Observed<Part> {
    let stat = match fstat(file) {
        Ok(stat) => stat,
        Err(error) => return not_known(error),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Observed::Malformed("is a folder".into()),
        _ => return Observed::Malformed("not a regular file".into()),
    }
    let total = u64::try_from(stat.st_size).unwrap_or(0);
    let end = before.unwrap_or(total).min(total);
    let offset = end.saturating_sub(max);
    match open_to_read(CWD, &format!("/proc/self/fd/{}", file.as_raw_fd())).and_then(|file| read_at(&file, offset, end))
    {
        Ok(bytes) => Observed::Known(Part { bytes, offset, total, identity: Some((stat.st_dev, stat.st_ino)) }),
        Err(error) => not_known(error),
    }
}

/// What an open file holds from one offset up to another; less where it has become shorter.
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

/// Opens a file for reading, whatever it is.
pub(super) fn open_to_read(folder: BorrowedFd<'_>, path: &str) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    openat(folder, path, flags, Mode::empty())
}

/// Reads an open file to its end.
pub(super) fn read_open(file: &OwnedFd) -> Observed<Vec<u8>> {
    read_up_to(file, MAX_FILE)
}

fn read_up_to(file: &OwnedFd, most: u64) -> Observed<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    loop {
        if bytes.capacity() - bytes.len() < 1024 {
            bytes.reserve(bytes.len().max(4096));
        }
        match rustix::io::read(file, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => return Observed::Known(bytes),
            Ok(_) if u64::try_from(bytes.len()).is_ok_and(|length| length > most) => return too_large(most),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::ISDIR) => return Observed::Malformed("is a folder".into()),
            Err(error) => return not_known(error),
        }
    }
}

/// Names in a located folder, sorted.
pub(super) fn list_located(folder: &OwnedFd) -> Observed<Vec<String>> {
    list_located_up_to(folder, u64::MAX)
}

/// The same; more names than these bytes hold are too many.
pub(super) fn list_located_up_to(folder: &OwnedFd, most: u64) -> Observed<Vec<String>> {
    match fstat(folder).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Directory) => {}
        Ok(_) => return Observed::Absent,
        Err(error) => return not_known(error),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    observed(openat(folder, ".", flags, Mode::empty()).and_then(|folder| list_up_to(folder, most)))
        .and_then(|names| names.map_or_else(|| Observed::Malformed("too many names".into()), Observed::Known))
}

/// Names in an open folder, sorted.
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

/// Where the link at `path` below `root` points.
pub(super) fn link_beneath(root: BorrowedFd<'_>, path: &str) -> Observed<String> {
    let path = path.trim_matches('/');
    let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
    if name.is_empty() || name == "." || name == ".." {
        return Observed::Malformed("no link".into());
    }
    observed(locate(root, folder)).and_then(|folder| link_in(folder.as_fd(), name))
}

/// Where a link points, as it is written.
pub(super) fn link_in(folder: BorrowedFd<'_>, name: &str) -> Observed<String> {
    match readlinkat(folder, name, Vec::new()) {
        Ok(target) => Observed::Known(target.to_string_lossy().into_owned()),
        // Before 2.6.39 and on some file systems the answer for what is no link differs; the kind decides.
        Err(Errno::INVAL) if statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() => {
            Observed::Malformed("no link".into())
        }
        Err(error) => not_known(error),
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
        let root = rustix::fs::open(folder.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for (path, expected) in [
            ("/a/b/file", Ok("x")),
            ("/absolute/file", Ok("x")),
            ("/a/up", Ok("x")),
            ("../../a/b/file", Ok("x")),
            ("/outside", Err(Errno::NOENT)),
            ("/loop", Err(Errno::LOOP)),
            ("/a/b/file/more", Err(Errno::NOTDIR)),
        ] {
            for found in [locate(root.as_fd(), path), walk(root.as_fd(), path)] {
                let text = found.map(|file| String::from_utf8(read_located(&file).into_known().unwrap()).unwrap());
                assert_eq!(text.as_deref(), expected.as_ref().map(|text| *text), "{path}");
            }
        }
    }
}
