//! The one door through which the machine is changed, and the one lock before it.
//!
//! Whatever changes a host, an apply, an undo or an experiment of the lab, does so through [`System`], and holds
//! [`LOCK`] from before its first change until after its last: so two of them never have the same pool in hand.

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

pub use failure::{Failure, Unfit};
pub use file::{Base64, Content, FileMode, FileState, Label};
pub use holder::{Held, Holder};
pub use live::Live;
pub use lock::{Busy, LOCK, NotTaken, take};
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
pub trait Lock {}

/// The machine as apply and undo see it. Paths are absolute, and no symbolic link is followed on the way.
pub trait System {
    /// Seconds since 1970.
    fn now(&self) -> i64;

    /// Whether this can change a host: it is root, /proc and /sys are the kernel's own, and it is no container.
    ///
    /// # Errors
    /// Why it cannot.
    fn fit(&self) -> Result<(), Unfit>;

    /// A small file's text, of the kernel or the configuration; `None` where it is not there.
    ///
    /// # Errors
    /// It is there and cannot be read.
    fn text(&self, path: &str) -> Result<Option<String>, Failure>;

    /// A regular file whole; `None` where it is not there.
    ///
    /// # Errors
    /// It is something else than a regular file with one name, or cannot be read.
    fn file(&self, path: &str) -> Result<Option<FileState>, Failure>;

    /// Where a path leads that may be a symbolic link, or have one among its folders; `None` where that is not there.
    ///
    /// # Errors
    /// It cannot be told.
    fn real(&self, path: &str) -> Result<Option<String>, Failure> {
        Ok(Some(path.to_owned()))
    }

    /// Names in a folder, sorted; `None` where it is not there.
    ///
    /// # Errors
    /// It is no folder, or cannot be read.
    fn list(&self, folder: &str) -> Result<Option<Vec<String>>, Failure>;

    /// Writes a kernel value in one go.
    ///
    /// # Errors
    /// The kernel does not take it, or the file cannot be written.
    fn write_value(&self, path: &str, value: &str) -> Result<(), Failure>;

    /// Makes or replaces a file as a whole: a crash leaves the old one or the new one, and perhaps `temporary` (a name
    /// in the same folder). Extended attributes are as `file` lists them; where it lists none and there was no file,
    /// as the folder gives them.
    ///
    /// # Errors
    /// It cannot be written, or something else than a regular file is in its place; then nothing is changed.
    fn write_file(&self, path: &str, temporary: &str, file: &FileState) -> Result<(), Failure>;

    /// Removes a file; one that is not there is no error.
    ///
    /// # Errors
    /// It cannot be removed.
    fn remove_file(&self, path: &str) -> Result<(), Failure>;

    /// Whether something at a path or on the way to it is in other hands than root's: what stands in the way there comes
    /// back as often as it is removed. A path that ends in `/` is that of a folder.
    fn is_in_other_hands(&self, path: &str) -> bool;

    /// Makes one folder (0755, or 0700 where `private`); one that is there already is no error.
    ///
    /// # Errors
    /// It cannot be made, or something else is in its place.
    fn make_folder(&self, path: &str, private: bool) -> Result<(), Failure>;

    /// Removes an empty folder; `false` where it is not empty or not there.
    ///
    /// # Errors
    /// It cannot be removed.
    fn remove_folder(&self, path: &str) -> Result<bool, Failure>;

    /// Runs a program without a shell, and waits for it. While it runs, the lock stays held, whatever becomes of us.
    ///
    /// # Errors
    /// It cannot be run, or did not end in time.
    fn run(&self, command: &[String], user: Option<&str>) -> Result<Ran, Failure>;

    /// Waits until the disk has a file that a command has written; one that is not there is no error. A boot loader
    /// reads a file system without its journal: what lies in /boot is written to its place where that can be asked for.
    ///
    /// # Errors
    /// The disk does not take it.
    fn sync(&self, path: &str) -> Result<(), Failure>;

    /// Appends to a file of ours that nobody else may read, and waits until the disk has it.
    ///
    /// # Errors
    /// It cannot be written.
    fn append(&self, path: &str, bytes: &[u8]) -> Result<(), Failure>;

    /// Cuts a file of ours to a length, and waits until the disk has it.
    ///
    /// # Errors
    /// It cannot be written.
    fn cut(&self, path: &str, length: u64) -> Result<(), Failure>;

    /// Takes the lock, which only one process on the machine can hold; `None` where another one does.
    ///
    /// # Errors
    /// The lock's file cannot be made.
    fn lock(&self, path: &str) -> Result<Option<Box<dyn Lock>>, Failure>;

    /// Who holds the lock now, as far as can be seen from here.
    fn holders(&self, _path: &str) -> Vec<Holder> {
        Vec::new()
    }

    /// Waits, so that the kernel can move pages.
    fn pause(&self, time: Duration);
}
