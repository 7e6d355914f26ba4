//! A capture on the disk: made under another name, and given its own once it is whole.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use hugewise_source::output_place::OutputPlace;
use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, RenameFlags, linkat, mkdirat, openat, renameat_with, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::{CaptureFileSet, write_tar};

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

pub(super) fn write_new_tar(
    content: &CaptureFileSet,
    temporary: &OutputPlace,
    target: &OutputPlace,
) -> io::Result<()> {
    let file = temporary.create_file(FILE_MODE)?;
    let done = write_tar(content, file)
        .and_then(|file| file.sync_all())
        .and_then(|()| place_file(temporary, target));
    if done.is_err() {
        // What went wrong first is what matters.
        let _ = temporary.remove_file();
    }
    done
}

pub(super) fn write_new_folder(
    content: &CaptureFileSet,
    temporary: &OutputPlace,
    target: &OutputPlace,
) -> io::Result<()> {
    let root = temporary.create_folder()?;
    // An empty folder that is there gives way, by the kernel's own rule.
    let done = write_folder(content, &root).and_then(|()| temporary.rename_to(target));
    if done.is_err() {
        let _ = remove_folder(temporary.folder(), temporary.name());
    }
    done
}

fn write_folder(content: &CaptureFileSet, root: &OwnedFd) -> io::Result<()> {
    for folder in &content.folders {
        make_folders(root, folder)?;
    }
    for (path, bytes) in &content.files {
        place_below(root, path)?.create_file(FILE_MODE)?.write_all(bytes)?;
    }
    for (path, target) in &content.links {
        let place = place_below(root, path)?;
        symlinkat(target.as_str(), place.folder(), place.name())?;
    }
    Ok(())
}

/// The place of a path of the host's, with all folders on the way.
fn place_below(root: &OwnedFd, path: &str) -> io::Result<OutputPlace> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    Ok(OutputPlace::below(make_folders(root, folder)?, name))
}

fn make_folders(root: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    let mut at = root.try_clone()?;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        match mkdirat(&at, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => at = openat(&at, name, FOLDER, Mode::empty())?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(at)
}

/// Removes a folder with all that is in it; no link is followed.
fn remove_folder(within: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let folder = openat(within, name, FOLDER, Mode::empty())?;
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let inner = OsStr::from_bytes(entry.file_name().to_bytes());
        if inner != "." && inner != ".." && unlinkat(&folder, inner, AtFlags::empty()).is_err() {
            remove_folder(folder.as_fd(), inner)?;
        }
    }
    Ok(unlinkat(within, name, AtFlags::REMOVEDIR)?)
}

/// Never in place of another.
fn place_file(temporary: &OutputPlace, target: &OutputPlace) -> io::Result<()> {
    let (from, to) = (temporary.folder(), target.folder());
    match renameat_with(from, temporary.name(), to, target.name(), RenameFlags::NOREPLACE) {
        // File systems without this: a link takes no other's place either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(from, temporary.name(), to, target.name(), AtFlags::empty())?;
            temporary.remove_file()
        }
        done => Ok(done?),
    }
}
