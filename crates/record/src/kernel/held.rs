//! A file of the kernel's that is held open.

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, pread};

/// A file that was opened once, or the reason why not.
#[derive(Debug)]
pub(crate) struct Held(Result<OwnedFd, Errno>);

impl Held {
    pub(crate) fn open(path: &str) -> Self {
        Self(openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))
    }

    /// Why it cannot be read.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        match &self.0 {
            Ok(_) => None,
            Err(Errno::NOENT | Errno::NOTDIR) => Some("this kernel has no such file"),
            Err(Errno::ACCESS | Errno::PERM) => Some("may not be read"),
            Err(_) => Some("cannot be read"),
        }
    }

    /// What it says now, as much as the buffer holds; `None` where it says nothing.
    pub(crate) fn read<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let file = self.0.as_ref().ok()?;
        let mut length = 0;
        while let Some(room) = buffer.get_mut(length..).filter(|room| !room.is_empty()) {
            match pread(file, room, u64::try_from(length).unwrap_or(0)) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        buffer.get(..length).filter(|text| !text.is_empty())
    }

    /// What a file of one value says: one call.
    pub(crate) fn value(&self, buffer: &mut [u8]) -> Option<u64> {
        let file = self.0.as_ref().ok()?;
        let length = pread(file, &mut *buffer, 0).ok()?;
        super::number(buffer.get(..length)?.trim_ascii())
    }
}
