//! Metrics as a file for node_exporter's textfile collector.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use hugewise_report::openmetrics::{self, Format};
use rustix::fs::FileType;

use crate::Reading;

/// The collector reads files that everybody can read.
const MODE: u32 = 0o644;

/// Writes a reading's metrics, in the text format that the collector knows. Who reads the file meanwhile sees the
/// one before or this one, never a part; a link in its place is replaced, not followed.
///
/// # Errors
/// Where the folder cannot be written, or something stands there that is no file: a device, a pipe, a folder. What stood
/// there before is there still.
pub fn write(reading: &Reading, path: &Path) -> io::Result<()> {
    check(path)?;
    let text = openmetrics::write(&reading.metered(), Format::Prometheus);
    // The collector passes over what does not end in .prom.
    let mut beside: OsString = path.as_os_str().to_owned();
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = Path::new(&beside);
    let written = put(beside, text.as_bytes()).and_then(|()| fs::rename(beside, path));
    if written.is_err() {
        let _ = fs::remove_file(beside);
    }
    written
}

/// Whether a file can take that place. What is behind a link counts too: /dev/stdout is one.
///
/// # Errors
/// It is not a file name that the collector reads, or something else has it.
pub fn check(path: &Path) -> io::Result<()> {
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

fn put(path: &Path, text: &[u8]) -> io::Result<()> {
    // What a killed run with this process's number has left.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)?;
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.write_all(text)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "what is on the disk, past the code under test")]
mod tests {
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
        assert!(check(Path::new("/dev/full")).is_err() && check(Path::new("/dev/stdout")).is_err());
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
