//! A file that takes its name when all of it is on the disk.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hugewise_host::source::output_place::OutputPlace;
use rustix::fs::Mode;

/// A file under a hidden name beside its own, so that readers see the previous file or this one,
/// never a part. Dropped before it got its name, it is removed.
pub struct UnnamedFile {
    temporary: OutputPlace,
    target: OutputPlace,
}

impl UnnamedFile {
    /// Begins a file of that mode, whatever the umask is.
    ///
    /// # Errors
    /// Where the folder takes no file, or the way to it is another user's link.
    pub fn create(target: &Path, mode: u32) -> io::Result<(Self, File)> {
        Self::create_at(OutputPlace::find(target)?, mode)
    }

    /// The same at a place that was found.
    ///
    /// # Errors
    /// Where the folder takes no file.
    pub fn create_at(target: OutputPlace, mode: u32) -> io::Result<(Self, File)> {
        let mut last = None;
        for attempt in 0..100_u32 {
            let mut hidden = OsString::from(".");
            hidden.push(target.name());
            hidden.push(format!(".{}-{attempt}.part", std::process::id()));
            let temporary = target.name_in_same_folder(hidden)?;
            match temporary.create_file(Mode::from_raw_mode(mode)) {
                Ok(file) => {
                    let unnamed = Self { temporary, target };
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
        self.temporary.rename_to(&self.target)
    }
}

impl Drop for UnnamedFile {
    fn drop(&mut self) {
        // Fails after the rename, when nothing is left to remove.
        let _ = self.temporary.remove_file();
    }
}
