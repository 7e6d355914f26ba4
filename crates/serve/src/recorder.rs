//! What the flight recorder has seen since the reading before, from the ring that it writes.
//!
//! The ring stays root's alone (mode 0600). The unit of `serve` may read it because it may read any file
//! (CAP_DAC_READ_SEARCH, which the settings of servers need anyway); whoever else runs `serve` without that right has no such
//! metrics, and `hugewise_collector_errors` says so. Figures alone leave it, never a name or a message.

use std::io;
use std::path::Path;

use hugewise_record::ring::Kind;
use hugewise_record::{Latest, latest, status};
use rustix::fs::{FileType, fstat};

/// The last minute of the recorder in a folder; none where there is no recorder.
///
/// # Errors
/// The ring is there and cannot be read, or is no ring.
pub(crate) fn read(folder: &Path) -> io::Result<Option<Latest>> {
    let file = match status::open(&folder.join(Kind::Seconds.file())) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let facts = fstat(&file)?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("is no file"));
    }
    latest(&file, status::now()).map(Some).map_err(|refused| io::Error::other(refused.0))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_ring_is_an_error_and_none_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let ring = folder.path().join(Kind::Seconds.file());
        assert_eq!(read(folder.path()).unwrap(), None);
        assert_eq!(read(&folder.path().join("absent")).unwrap(), None);
        std::fs::write(&ring, "no ring").unwrap();
        assert!(read(folder.path()).is_err());
        std::fs::remove_file(&ring).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &ring).unwrap();
        assert!(read(folder.path()).is_err());
        std::fs::remove_file(&ring).unwrap();
        // One without a writer would keep whoever opens it waiting.
        rustix::fs::mknodat(rustix::fs::CWD, &ring, FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(read(folder.path()).is_err());
    }
}
