//! Why nothing came of a capture.

use std::io;

use crate::capture_id::Id;

/// A capture file larger than this is not read: a host's is a few hundred kilobytes, and a
/// sosreport's below a gigabyte.
pub(crate) const LARGEST: u64 = 4 << 30;

/// Why nothing came of it.
#[derive(Debug)]
pub(crate) struct CaptureFailure {
    /// Of a file that could be read as far as its bytes go.
    pub(crate) id: Option<Id>,
    pub(crate) class: &'static str,
    pub(crate) message: String,
    /// Whether a collector's archive may be in it, by its first bytes.
    pub(crate) archive: bool,
    /// Whether it holds checksums of others and nothing else.
    pub(crate) is_checksum: bool,
}

impl CaptureFailure {
    /// Of something whose bytes are not known.
    pub(crate) const fn new(class: &'static str, message: String) -> Self {
        Self { id: None, class, message, archive: false, is_checksum: false }
    }

    pub(crate) fn from_io(error: &io::Error) -> Self {
        let class =
            if error.kind() == io::ErrorKind::PermissionDenied { "denied" } else { "unreadable" };
        let said = error.to_string();
        // The number of the kernel's error tells nobody more than its words.
        let number = error.raw_os_error().map(|number| format!(" (os error {number})"));
        let words =
            number.and_then(|number| said.strip_suffix(&number)).unwrap_or(&said).to_owned();
        Self::new(class, words)
    }

    pub(crate) fn too_large(size: u64) -> Self {
        Self::new("too_large", format!("{size} bytes, and no capture has more than {LARGEST}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_kernel_is_told_in_words() {
        let failed = CaptureFailure::from_io(&io::Error::from_raw_os_error(13));
        assert_eq!((failed.class, failed.message.as_str()), ("denied", "Permission denied"));
        assert_eq!(
            CaptureFailure::from_io(&io::Error::other("torn (os error 5)")).message,
            "torn (os error 5)"
        );
    }
}
