//! Why nothing came of a capture.

use std::io;

use crate::id::Id;

/// A capture file larger than this is not read: a host's is a few hundred kilobytes, and a sosreport's below a gigabyte.
pub(crate) const LARGEST: u64 = 4 << 30;

/// Why nothing came of it.
#[derive(Debug)]
pub(crate) struct Failed {
    /// Of a file that could be read as far as its bytes go.
    pub(crate) id: Option<Id>,
    pub(crate) class: &'static str,
    pub(crate) message: String,
    /// Whether a collector's archive may be in it, by its first bytes.
    pub(crate) archive: bool,
}

impl Failed {
    /// Of something whose bytes are not known.
    pub(crate) const fn new(class: &'static str, message: String) -> Self {
        Self { id: None, class, message, archive: false }
    }

    pub(crate) fn io(error: &io::Error) -> Self {
        let class = if error.kind() == io::ErrorKind::PermissionDenied { "denied" } else { "unreadable" };
        Self::new(class, error.to_string())
    }

    pub(crate) fn too_large(size: u64) -> Self {
        Self::new("too_large", format!("{size} bytes, and no capture has more than {LARGEST}"))
    }
}
