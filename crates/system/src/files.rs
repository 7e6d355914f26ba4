//! Regular files: read whole, replaced whole.

use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Uid, XattrFlags, fchmod, fchown, fgetxattr, flistxattr,
    fremovexattr, fsetxattr, fstat, fsync, renameat, unlinkat,
};
use rustix::io::Errno;

use super::place::{FilePlace, PlaceKind, describe_errno, find_place};
use crate::{ExtendedAttribute, FileContent, FileMode, FileState, SystemFailure};

/// More than any configuration file or journal has.
const LONGEST: usize = 64 << 20;

pub(super) fn read(root: &OwnedFd, path: &str) -> Result<Option<FileState>, SystemFailure> {
    let Some((file, _)) = open_regular_file(root, path)? else { return Ok(None) };
    let stat = fstat(&file).map_err(|error| describe_errno(path, error))?;
    if stat.st_nlink > 1 {
        let why = format!(
            "has {} names (hard links), and replacing it would separate them",
            stat.st_nlink
        );
        return Err(SystemFailure::new(path, why).with_advice("make the change by hand"));
    }
    let bytes = read_content(&file, path)?;
    let labels = read_attributes(&file).map_err(|error| describe_errno(path, error))?;
    let mode = FileMode(stat.st_mode & 0o7777);
    Ok(Some(FileState {
        content: FileContent::new(bytes),
        mode,
        uid: stat.st_uid,
        gid: stat.st_gid,
        labels,
    }))
}

/// A regular file's bytes, of the kernel's too.
pub(super) fn read_bytes(root: &OwnedFd, path: &str) -> Result<Option<Vec<u8>>, SystemFailure> {
    open_regular_file(root, path)?.map(|(file, _)| read_content(&file, path)).transpose()
}

fn open_regular_file(
    root: &OwnedFd,
    path: &str,
) -> Result<Option<(OwnedFd, FilePlace)>, SystemFailure> {
    let Some(place) = find_place(root, path)? else { return Ok(None) };
    match place.inspect(path)? {
        PlaceKind::Nothing => return Ok(None),
        PlaceKind::Folder => return Err(SystemFailure::new(path, "is a folder")),
        PlaceKind::File => {}
    }
    match place.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) {
        Ok(file) => Ok(Some((file, place))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(describe_errno(path, error)),
    }
}

fn read_content(file: &OwnedFd, path: &str) -> Result<Vec<u8>, SystemFailure> {
    let mut bytes: Vec<u8> = Vec::new();
    loop {
        bytes.reserve(16 << 10);
        match rustix::io::read(file, spare_capacity(&mut bytes)) {
            Ok(0) => return Ok(bytes),
            Ok(_) if bytes.len() > LONGEST => {
                return Err(SystemFailure::new(path, "is too large for a configuration file"));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(describe_errno(path, error)),
        }
    }
}

/// Extended attributes, by name. A file system without any has none.
fn read_attributes(file: &OwnedFd) -> rustix::io::Result<Vec<ExtendedAttribute>> {
    let mut names = vec![0_u8; 64 << 10];
    let length = match flistxattr(file, names.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    names.truncate(length);
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0_u8; 64 << 10];
        match fgetxattr(file, name, value.as_mut_slice()) {
            Ok(length) => value.truncate(length),
            Err(Errno::NODATA) => continue,
            Err(error) => return Err(error),
        }
        found.push(ExtendedAttribute { name: String::from_utf8_lossy(name).into_owned(), value });
    }
    found.sort();
    Ok(found)
}

pub(super) fn write(
    root: &OwnedFd,
    path: &str,
    temporary: &str,
    state: &FileState,
) -> Result<(), SystemFailure> {
    let Some(place) = find_place(root, path)? else {
        return Err(SystemFailure::new(path, "its folder does not exist"));
    };
    let replaces = match place.inspect(path)? {
        PlaceKind::Nothing => false,
        PlaceKind::File => true,
        PlaceKind::Folder => {
            return Err(SystemFailure::new(path, "is a folder").with_advice("remove it"));
        }
    };
    let beside = FilePlace { folder: place.folder, name: temporary.to_owned() };
    let file = beside.create_private().map_err(|error| describe_errno(path, error))?;
    let written = write_state(&file, state, replaces)
        .and_then(|()| renameat(&beside.folder, temporary, &beside.folder, place.name.as_str()));
    if let Err(error) = written {
        // What matters is the first error; a temporary file that stays is removed by the next try.
        let _ = unlinkat(&beside.folder, temporary, AtFlags::empty());
        return Err(describe_errno(path, error));
    }
    fsync(&beside.folder).map_err(|error| describe_errno(path, error))
}

impl FilePlace {
    /// A new file that nobody else can open yet; one that a killed run has left is replaced.
    fn create_private(&self) -> rustix::io::Result<OwnedFd> {
        let new =
            || self.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR);
        match new() {
            Err(Errno::EXIST) => {
                unlinkat(&self.folder, self.name.as_str(), AtFlags::empty())?;
                new()
            }
            other => other,
        }
    }
}

fn write_state(file: &OwnedFd, state: &FileState, exact: bool) -> rustix::io::Result<()> {
    write_all(file, state.content.bytes())?;
    let made = fstat(file)?;
    if (made.st_uid, made.st_gid) != (state.uid, state.gid) {
        fchown(file, Some(Uid::from_raw(state.uid)), Some(Gid::from_raw(state.gid)))?;
    }
    let given = read_attributes(file)?;
    for label in state.labels.iter().filter(|label| !given.contains(label)) {
        fsetxattr(file, label.name.as_str(), &label.value, XattrFlags::empty())?;
    }
    let wanted = |name: &str| state.labels.iter().any(|label| label.name == name);
    // The folder's default ACL gives a new file an ACL that the old one may not have had. What
    // security modules give cannot be taken away.
    let foreign =
        |label: &&ExtendedAttribute| !wanted(&label.name) && !label.name.starts_with("security.");
    for label in given.iter().filter(foreign).filter(|_| exact || !state.labels.is_empty()) {
        fremovexattr(file, label.name.as_str())?;
    }
    fchmod(file, Mode::from_raw_mode(state.mode.0))?;
    fsync(file)
}

pub(super) fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
