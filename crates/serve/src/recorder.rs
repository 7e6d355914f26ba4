//! The flight recorder's last minute, from the ring that it writes.
//!
//! The ring is root's alone (mode 0600). The unit of `serve` may read it by CAP_DAC_READ_SEARCH,
//! which servers' settings need anyway; without that right these metrics are missing, and
//! `hugewise_collector_errors` says so. Only figures leave the ring, never a name or a message.

use std::io;
use std::path::Path;

use hugewise_record::ring::RingKind;
use hugewise_record::{Latest, read_latest, status};
use rustix::fs::{FileType, fstat};

/// `None` where there is no recorder.
pub(crate) fn read(folder: &Path) -> io::Result<Option<Latest>> {
    let file = match status::open_ring(&folder.join(RingKind::Seconds.file_name())) {
        Ok(file) => file,
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let facts = fstat(&file)?;
    if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("is no file"));
    }
    read_latest(&file, status::now_ms()).map(Some).map_err(|refused| io::Error::other(refused.0))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods)]

    use super::*;

    #[test]
    fn what_is_no_ring_is_an_error_and_none_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let ring = folder.path().join(RingKind::Seconds.file_name());
        assert_eq!(read(folder.path()).unwrap(), None);
        assert_eq!(read(&folder.path().join("absent")).unwrap(), None);
        std::fs::write(&ring, "no ring").unwrap();
        assert!(read(folder.path()).is_err());
        std::fs::remove_file(&ring).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &ring).unwrap();
        assert!(read(folder.path()).is_err());
        std::fs::remove_file(&ring).unwrap();
        // One without a writer would keep whoever opens it waiting.
        rustix::fs::mknodat(rustix::fs::CWD, &ring, FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        assert!(read(folder.path()).is_err());
    }
}
