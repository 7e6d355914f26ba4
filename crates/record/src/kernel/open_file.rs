//! A file of the kernel's that is held open.

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, pread};

#[derive(Debug)]
pub(crate) struct OpenKernelFile(Result<OwnedFd, Errno>);

impl OpenKernelFile {
    pub(crate) fn open(path: &str) -> Self {
        Self(openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))
    }

    pub(crate) fn missing_reason(&self) -> Option<&'static str> {
        match &self.0 {
            Ok(_) => None,
            Err(Errno::NOENT | Errno::NOTDIR) => Some("this kernel has no such file"),
            Err(Errno::ACCESS | Errno::PERM) => Some("may not be read"),
            Err(_) => Some("cannot be read"),
        }
    }

    /// As much as the buffer holds.
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

    /// One call.
    pub(crate) fn read_value(&self, buffer: &mut [u8]) -> Option<u64> {
        let file = self.0.as_ref().ok()?;
        let length = pread(file, &mut *buffer, 0).ok()?;
        super::parse_number(buffer.get(..length)?.trim_ascii())
    }
}
