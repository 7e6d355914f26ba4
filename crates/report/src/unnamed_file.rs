//! A file that takes its name when all of it is on the disk.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file under a hidden name beside its own, so that readers see the previous file or this one,
/// never a part. Dropped before it got its name, it is removed.
pub struct UnnamedFile {
    temporary: PathBuf,
    target: PathBuf,
}

impl UnnamedFile {
    /// Begins a file of that mode, whatever the umask is.
    ///
    /// # Errors
    /// Where the folder takes no file.
    pub fn create(target: &Path, mode: u32) -> io::Result<(Self, File)> {
        let not_a_name = || io::Error::new(io::ErrorKind::InvalidInput, "is not a file name");
        let name = target.file_name().ok_or_else(not_a_name)?;
        let mut last = None;
        for attempt in 0..100_u32 {
            let mut hidden = OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}-{attempt}.part", std::process::id()));
            let temporary = target.with_file_name(hidden);
            match File::options().write(true).create_new(true).mode(mode).open(&temporary) {
                Ok(file) => {
                    let unnamed = Self { temporary, target: target.to_owned() };
                    file.set_permissions(Permissions::from_mode(mode))?;
                    return Ok((unnamed, file));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
    }

    /// Syncs the file and gives it its name; a link there is replaced, not followed.
    ///
    /// # Errors
    /// Where the disk is full, or the name cannot be taken; nothing is left then.
    pub fn rename_to_target(self, written: &File) -> io::Result<()> {
        written.sync_all()?;
        std::fs::rename(&self.temporary, &self.target)
    }
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        // Fails after the rename, when nothing is left to remove.
        let _ = std::fs::remove_file(&self.temporary);
    }
}
