//! Metrics as a file for node_exporter's textfile collector.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

use hugewise_report::UnnamedFile;
use hugewise_report::openmetrics::{self, ExpositionFormat};
use rustix::fs::FileType;

use crate::HostReading;

/// The collector reads files that everybody can read.
const MODE: u32 = 0o644;

/// Writes a reading's metrics for the collector. Readers see the previous file or this one, never a
/// part; a link in its place is replaced, not followed.
///
/// # Errors
/// Where the folder cannot be written, or a device, pipe or folder has the name. The previous file
/// stays.
pub fn write(reading: &HostReading, path: &Path) -> io::Result<()> {
    check_textfile_path(path)?;
    let text = openmetrics::write(&reading.as_metered(), ExpositionFormat::Prometheus);
    // The collector ignores names that do not end in .prom.
    let (unnamed, mut file) = UnnamedFile::create(path, MODE)?;
    file.write_all(text.as_bytes())?;
    unnamed.rename_to_target(&file)
}

/// Checks that a file may be written there. It follows links: /dev/stdout is one.
///
/// # Errors
/// Where the collector would not read the name, or something else has it.
pub fn check_textfile_path(path: &Path) -> io::Result<()> {
    if path.extension() != Some(OsStr::new("prom")) {
        return Err(io::Error::other("node_exporter reads only files whose names end in .prom"));
    }
    match rustix::fs::stat(path) {
        Ok(facts) if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile => {
            Err(io::Error::other("is not a regular file, and hugewise would have to replace it"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "what is on the disk, past the code under test")]

    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing;

    #[test]
    fn the_file_is_whole_readable_and_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hugewise.prom");
        let precious = folder.path().join("precious");
        fs::write(&precious, "kept").unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        for _ in 0..2 {
            write(&testing::reading(), &path).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains("\nhugewise_page_tables_bytes 65536\n"), "{text}");
            assert!(!text.contains("# EOF"));
            assert_eq!(fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o7777, MODE);
        }
        assert_eq!(fs::read_to_string(&precious).unwrap(), "kept");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(write(&testing::reading(), &folder.path().join("nowhere/hugewise.prom")).is_err());
        assert!(write(&testing::reading(), folder.path()).is_err());
        assert!(
            check_textfile_path(Path::new("/dev/full")).is_err()
                && check_textfile_path(Path::new("/dev/stdout")).is_err()
        );
        std::os::unix::fs::symlink("/dev/null", folder.path().join("null.prom")).unwrap();
        assert!(
            write(&testing::reading(), &folder.path().join("null.prom"))
                .unwrap_err()
                .to_string()
                .contains("not a regular file")
        );
        fs::remove_file(folder.path().join("null.prom")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
