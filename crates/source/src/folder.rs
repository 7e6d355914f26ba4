//! A folder that looks like a host's root: a capture, an unpacked sosreport, a mounted disk.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use hugewise_model::Observed;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::captured::{CapturedFiles, CapturedSource};
use super::errno::to_observed;
use super::openat2::{link_beneath, list_located, locate_path, read_located, read_part_located};
use super::{FilePart, OpenError, looks_like_a_host, split_process_root};

/// A folder that looks like a host's root.
#[derive(Debug)]
pub struct FolderSource(CapturedSource<OpenedHostFolder>);

/// The folder, opened once: it may be renamed while it is read.
#[derive(Debug)]
struct OpenedHostFolder(OwnedFd);

impl FolderSource {
    /// Opens a folder, or its only sub-folder where that looks like a host.
    /// Errors: no such folder, or no host in it.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty())
            .map_err(|error| OpenError::from_io(path, error.into()))?;
        let mut opened = OpenedHostFolder(root);
        let names = match opened.list_folder("/") {
            Observed::Known(names) => names,
            other => return Err(OpenError::new(path, other.reason_text().unwrap_or_default())),
        };
        if looks_like_a_host(&names) {
            return Ok(Self(CapturedSource::new(opened)));
        }
        let mut folders = names.iter().filter(|name| opened.list_folder(name).is_known());
        if let (Some(only), None) = (folders.next(), folders.next()) {
            let inner = openat(&opened.0, only, flags | OFlags::NOFOLLOW, Mode::empty());
            opened =
                OpenedHostFolder(inner.map_err(|error| OpenError::from_io(path, error.into()))?);
            if opened.list_folder("/").as_known().is_some_and(|names| looks_like_a_host(names)) {
                return Ok(Self(CapturedSource::new(opened)));
            }
        }
        Err(OpenError::not_a_host(path))
    }
}

impl OpenedHostFolder {
    /// Below `/proc/PID/root` that folder is the root, where the capture has it.
    fn with_process_root<T>(
        &self,
        path: &str,
        look: impl Fn(&OwnedFd, &str) -> Observed<T>,
    ) -> Observed<T> {
        if let Some((root, rest)) = split_process_root(path)
            && let Ok(root) = locate_path(self.0.as_fd(), root)
        {
            return look(&root.file, rest);
        }
        look(&self.0, path)
    }
}

impl CapturedFiles for OpenedHostFolder {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        self.with_process_root(path, |root, path| {
            to_observed(locate_path(root.as_fd(), path)).and_then(|file| read_located(&file))
        })
    }

    fn read_part(&self, path: &str, before: Option<u64>, max: u64) -> Observed<FilePart> {
        self.with_process_root(path, |root, path| {
            to_observed(locate_path(root.as_fd(), path))
                .and_then(|file| read_part_located(&file, before, max))
        })
    }

    fn list_folder(&self, folder: &str) -> Observed<Vec<String>> {
        self.with_process_root(folder, |root, path| {
            to_observed(locate_path(root.as_fd(), path)).and_then(|found| list_located(&found))
        })
    }

    fn read_link(&self, path: &str) -> Observed<String> {
        self.with_process_root(path, |root, path| link_beneath(root.as_fd(), path))
    }
}

impl super::RawSource for FolderSource {
    fn base(&self) -> Option<&dyn super::Source> {
        Some(&self.0)
    }
    fn processes(&self) -> &dyn super::ProcessSource {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::Source;

    #[test]
    fn a_hostile_folder_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        std::fs::create_dir_all(at("proc")).unwrap();
        std::fs::create_dir_all(at("etc")).unwrap();
        std::fs::write(at("etc/real"), "real").unwrap();
        symlink("/etc/shadow", at("etc/shadow")).unwrap();
        symlink("../../../../../../etc/passwd", at("etc/up")).unwrap();
        symlink("/etc/real", at("etc/inside")).unwrap();
        symlink("loop", at("etc/loop")).unwrap();
        symlink("/proc/self/root/etc/passwd", at("etc/magic")).unwrap();
        let pipe = at("etc/pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0)
            .unwrap();
        let source = FolderSource::open(folder.path()).unwrap();
        assert_eq!(source.read("/etc/inside"), Observed::Known(b"real".to_vec()));
        assert_eq!(source.read("/../../etc/real"), Observed::Known(b"real".to_vec()));
        assert!(matches!(source.read("/etc/shadow"), Observed::Malformed(_)));
        assert_eq!(source.read("/etc/up"), Observed::Absent);
        assert_eq!(source.read("/etc/magic"), Observed::Absent);
        assert!(matches!(source.read("/etc/loop"), Observed::Malformed(_)));
        assert_eq!(source.read("/etc/pipe"), Observed::Malformed("not a regular file".into()));
        let part = |path: &str| source.read_part(path, None, 2).map(|part| part.bytes);
        assert_eq!(part("/etc/inside"), Observed::Known(b"al".to_vec()));
        assert_eq!(part("/etc/up"), Observed::Absent);
        assert_eq!(part("/etc/pipe"), Observed::Malformed("not a regular file".into()));
        assert_eq!(
            source.read_link("/etc/up"),
            Observed::Known("../../../../../../etc/passwd".into())
        );
    }

    #[test]
    fn the_only_sub_folder_is_entered() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("sosreport-db7/proc")).unwrap();
        std::fs::write(folder.path().join("sosreport-db7/proc/meminfo"), "x").unwrap();
        std::fs::write(folder.path().join("sosreport-db7.sha256"), "x").unwrap();
        let source = FolderSource::open(folder.path()).unwrap();
        assert_eq!(source.read("/proc/meminfo"), Observed::Known(b"x".to_vec()));
    }

    #[test]
    fn what_is_no_host_is_refused_with_what_was_expected() {
        let folder = tempfile::tempdir().unwrap();
        let error = FolderSource::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("proc"), "{error}");
        assert!(FolderSource::open(&folder.path().join("nothing")).is_err());
    }
}
