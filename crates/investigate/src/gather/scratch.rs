//! A folder for what has to be read by its path. It goes with this process, however that ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes unpacked in all, which only PCP's own tools and tars in tars need.
const MOST_UNPACKED: u64 = 4 << 30;

/// Where files are unpacked; made when first needed, removed at the end.
#[derive(Debug, Default)]
pub(super) struct ScratchSpace {
    folder: Mutex<Option<GuardedFolder>>,
    next: AtomicUsize,
    written: AtomicU64,
}

impl ScratchSpace {
    pub(super) fn create_folder(&self) -> io::Result<PathBuf> {
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = match folder.take() {
            Some(kept) => kept,
            None => GuardedFolder::new()?,
        };
        let path =
            folder.insert(kept).path().join(self.next.fetch_add(1, Ordering::Relaxed).to_string());
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(path)
    }

    pub(super) fn release_bytes(&self, bytes: u64) {
        let less = |written: u64| Some(written.saturating_sub(bytes));
        // The update never fails.
        let _ = self.written.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    pub(super) fn fill_file(&self, stream: &mut dyn Read, file: &mut File) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = stream.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            let more = u64::try_from(read).unwrap_or(u64::MAX);
            if self.written.fetch_add(more, Ordering::Relaxed).saturating_add(more) > MOST_UNPACKED
            {
                return Err(io::Error::other(format!(
                    "more than {} GiB to unpack",
                    MOST_UNPACKED >> 30
                )));
            }
            file.write_all(buffer.get(..read).unwrap_or_default())?;
        }
    }
}

/// A temporary folder and a process that waits for its end: Ctrl-C ends this process at any moment,
/// and the kernel may kill it, which nobody can catch.
#[derive(Debug)]
struct GuardedFolder {
    keeper: Child,
    folder: PathBuf,
}

impl GuardedFolder {
    fn new() -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        // Its input ends with this process, or when this one drops the pipe.
        command.args(["-c", "folder=$(cat) && test -n \"$folder\" && exec rm -rf -- \"$folder\""]);
        command.env_clear().env("PATH", "/usr/bin:/bin").current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // A signal from the keyboard must not end it.
        hugewise_host::sys::without_terminal(&mut command);
        let mut keeper = command.spawn()?;
        let Some(mut pipe) = keeper.stdin.take() else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        // Too long to be taken by anyone: what the keeper removes is this folder or nothing.
        let mut name = tempfile::Builder::new();
        let all = std::path::absolute(std::env::temp_dir())?;
        let made = name.prefix("hugewise-").rand_bytes(32).make_in(all, |path| {
            // Before the folder exists: this process may be killed between any two calls.
            pipe.write_all(path.as_os_str().as_bytes())?;
            std::fs::DirBuilder::new().mode(0o700).create(path)
        });
        keeper.stdin = Some(pipe);
        let ((), folder) = made?.keep().map_err(io::Error::from)?;
        Ok(Self { keeper, folder })
    }

    fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for GuardedFolder {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
        // In case the keeper was killed.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_it() {
        let scratch = ScratchSpace::default();
        let (first, second) = (scratch.create_folder().unwrap(), scratch.create_folder().unwrap());
        std::fs::write(second.join("file"), "x").unwrap();
        assert!(first != second && first.parent() == second.parent());
        drop(scratch);
        assert!(!first.parent().unwrap().exists());
    }

    #[test]
    fn its_keeper_removes_it_alone() {
        let mut kept = GuardedFolder::new().unwrap();
        std::fs::create_dir(kept.path().join("folder")).unwrap();
        std::fs::write(kept.path().join("folder/file"), "x").unwrap();
        drop(kept.keeper.stdin.take());
        assert!(kept.keeper.wait().unwrap().success());
        assert!(!kept.path().exists());
    }

    #[test]
    fn it_goes_without_its_keeper_too() {
        let mut kept = GuardedFolder::new().unwrap();
        kept.keeper.kill().unwrap();
        let path = kept.path().to_owned();
        assert!(path.exists());
        drop(kept);
        assert!(!path.exists());
    }
}
