//! The one door through which the machine is changed, and the one lock before it.
//!
//! Whatever changes a host, an apply, an undo or an experiment of the lab, does so through
//! [`System`], and holds [`LOCK`] from before its first change until after its last: so two of them
//! never have the same pool in hand.

mod failure;
mod file;
mod files;
mod holder;
mod live;
mod lock;
mod place;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use failure::{SystemFailure, Unfit};
pub use file::{Base64, ExtendedAttribute, FileContent, FileMode, FileState};
pub use holder::{HeldLock, Holder};
pub use live::LiveSystem;
pub use lock::{Busy, LOCK, LockNotTaken, take_machine_lock};
pub use place::OURS;

/// How a command ended, and the beginning of what it said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Whether it ended well.
    pub success: bool,
    /// What it printed.
    pub output: String,
    /// What it complained of.
    pub complaint: String,
}

/// Held until it is dropped, or the process and every command that it has started are gone.
pub trait SystemLock {}

/// The machine as apply and undo see it. Paths are absolute, and no symbolic link is followed on
/// the way.
pub trait System {
    /// Seconds since 1970.
    fn unix_time(&self) -> i64;

    /// Whether it is root, /proc and /sys are the kernel's own, and it is no container.
    fn check_can_change(&self) -> Result<(), Unfit>;

    /// A small file's text, of the kernel or the configuration; `None` where it is not there.
    fn read_text(&self, path: &str) -> Result<Option<String>, SystemFailure>;

    /// A regular file whole; `None` where it is not there.
    ///
    /// # Errors
    /// It is something else than a regular file with one name, or cannot be read.
    fn read_file(&self, path: &str) -> Result<Option<FileState>, SystemFailure>;

    /// Where a path with symbolic links leads; `None` where that is not there.
    fn resolve_path(&self, path: &str) -> Result<Option<String>, SystemFailure> {
        Ok(Some(path.to_owned()))
    }

    /// Names in a folder, sorted; `None` where it is not there.
    fn list_folder(&self, folder: &str) -> Result<Option<Vec<String>>, SystemFailure>;

    /// Writes a kernel value in one go.
    fn write_value(&self, path: &str, value: &str) -> Result<(), SystemFailure>;

    /// Makes or replaces a file as a whole: a crash leaves the old one or the new one, and perhaps
    /// `temporary`, a name in the same folder. Extended attributes are as `file` lists them; a new
    /// file without any has those that the folder gives.
    ///
    /// # Errors
    /// It cannot be written, or something else than a regular file is there: nothing is changed.
    fn write_file(
        &self,
        path: &str,
        temporary: &str,
        file: &FileState,
    ) -> Result<(), SystemFailure>;

    /// Removes a file; one that is not there is no error.
    fn remove_file(&self, path: &str) -> Result<(), SystemFailure>;

    /// Whether something on the way is in other hands than root's: what is in the way there comes
    /// back as often as it is removed. A path that ends in `/` is a folder's.
    fn is_in_other_hands(&self, path: &str) -> bool;

    /// Makes one folder (0755, or 0700 where `private`); one that is there already is no error.
    fn make_folder(&self, path: &str, private: bool) -> Result<(), SystemFailure>;

    /// Removes an empty folder; `false` where it is not empty or not there.
    fn remove_folder(&self, path: &str) -> Result<bool, SystemFailure>;

    /// Runs a program without a shell, to its end. The lock stays held, whatever becomes of us.
    fn run(&self, command: &[String], user: Option<&str>) -> Result<Ran, SystemFailure>;

    /// Waits until the disk has a file; one that is not there is no error. A boot loader reads a
    /// file system without its journal: what lies in /boot is written to its place where it can be.
    fn sync_file(&self, path: &str) -> Result<(), SystemFailure>;

    /// Appends to a file of ours that nobody else may read, and waits until the disk has it.
    fn append_to_file(&self, path: &str, bytes: &[u8]) -> Result<(), SystemFailure>;

    /// Cuts a file of ours to a length, and waits until the disk has it.
    fn truncate_file(&self, path: &str, length: u64) -> Result<(), SystemFailure>;

    /// Takes the lock, which one process on the machine can hold; `None` where another one does.
    fn take_lock(&self, path: &str) -> Result<Option<Box<dyn SystemLock>>, SystemFailure>;

    /// Who holds the lock now, as far as can be seen from here.
    fn lock_holders(&self, _path: &str) -> Vec<Holder> {
        Vec::new()
    }

    /// Waits, so that the kernel can move pages.
    fn pause_for(&self, time: Duration);
}
