//! The kernel's own files about the machine as a whole, kept open from one reading to the next.
//!
//! The kernel makes up what they say whenever they are read from their beginning: what is kept is the way to them, which of a
//! pool's counter takes longer than its number. One that has gone, as those of a node do that is taken out, says so, and is
//! looked for by its path again.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use hugewise_model::Observed;
use rustix::fs::CWD;
use rustix::io::Errno;

use super::beneath::open_to_read;
use super::bounds::too_large;
use super::errno::kernels_not_known;

/// Files that are kept open at most: a host with two sizes of pages and one node has seventy, and each node brings nine.
/// Those beyond are opened each time.
const MOST: usize = 256;

/// Larger files of this kind there are none.
const MOST_BYTES: usize = 16 << 20;

/// These speak of the whole machine; so do those of [`ONE_VALUE`].
const WHOLE: [&str; 6] =
    ["/proc/meminfo", "/proc/vmstat", "/proc/buddyinfo", "/proc/zoneinfo", "/proc/swaps", "/proc/stat"];

/// Folders whose files the kernel fills in one go: an answer that is shorter than was asked for is all of it.
pub(super) const ONE_VALUE: [&str; 3] = ["/proc/sys/", "/sys/kernel/mm/", "/sys/devices/system/"];

/// Files that were read before.
#[derive(Debug, Default)]
pub(super) struct KeptOpen(Mutex<BTreeMap<String, OwnedFd>>);

impl KeptOpen {
    /// What a file says now; `None` where it is none of those that are kept.
    pub(super) fn read(&self, path: &str) -> Option<Observed<Vec<u8>>> {
        let is_one_value = ONE_VALUE.iter().any(|folder| path.starts_with(folder));
        if !is_one_value && !WHOLE.contains(&path) {
            return None;
        }
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(path) {
            if let Ok(answer) = read_from_beginning(file, !is_one_value) {
                return Some(answer);
            }
            files.remove(path);
        }
        let file = match open_to_read(CWD, path) {
            Ok(file) => file,
            Err(error) => return Some(kernels_not_known(path, error)),
        };
        match read_from_beginning(&file, !is_one_value) {
            Ok(answer) => {
                if answer.is_known() && files.len() < MOST {
                    files.insert(path.to_owned(), file);
                }
                Some(answer)
            }
            Err(error) => Some(kernels_not_known(path, error)),
        }
    }
}

fn read_from_beginning(file: &OwnedFd, in_parts: bool) -> rustix::io::Result<Observed<Vec<u8>>> {
    let mut bytes = Vec::with_capacity(4096);
    loop {
        if bytes.capacity() - bytes.len() < 1024 {
            bytes.reserve(bytes.len().max(4096));
        }
        let at = u64::try_from(bytes.len()).map_err(|_| Errno::FBIG)?;
        match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut bytes), at) {
            Ok(0) => return Ok(Observed::Known(bytes)),
            Ok(_) if bytes.len() > MOST_BYTES => return Ok(too_large(super::MAX_FILE)),
            Ok(_) if !in_parts && bytes.len() < bytes.capacity() => return Ok(Observed::Known(bytes)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::ISDIR) => return Ok(Observed::Malformed("is a folder".into())),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;
    use crate::source::Live;

    /// The kernel's counters go on while the file is open: what is said is what is there now.
    #[test]
    fn what_is_kept_open_says_what_is_there_now() {
        let kept = KeptOpen::default();
        let switches = || {
            let text = String::from_utf8(kept.read("/proc/stat").unwrap().into_known().unwrap()).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("processes ").map(str::to_owned)).unwrap();
            line.parse::<u64>().unwrap()
        };
        let before = switches();
        std::process::Command::new("true").status().unwrap();
        assert!(switches() > before, "a process was started in between");
        assert_eq!(kept.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn all_of_them_read_as_those_that_are_opened_each_time() {
        let (kept, live) = (KeptOpen::default(), Live::new());
        let mut paths = vec!["/proc/sys/kernel/osrelease".to_owned(), "/sys/devices/system/cpu/online".to_owned()];
        for name in live.list("/sys/kernel/mm/hugepages").into_known().unwrap_or_default() {
            paths.push(format!("/sys/kernel/mm/hugepages/{name}/nr_overcommit_hugepages"));
        }
        for path in &paths {
            for _ in 0..3 {
                assert_eq!(kept.read(path), Some(live.read(path)), "{path}");
            }
        }
        // Longer than one answer; their numbers change all the time, their names do not.
        for path in WHOLE {
            let names = |text: Observed<Vec<u8>>| {
                let text = String::from_utf8(text.into_known().unwrap()).unwrap();
                text.lines().map(|line| line.split([' ', ':']).next().unwrap_or("").to_owned()).collect::<Vec<_>>()
            };
            let opened = names(live.read(path));
            for _ in 0..2 {
                assert_eq!(names(kept.read(path).unwrap()), opened, "{path}");
            }
        }
        assert_eq!(kept.read("/proc/self/status"), None);
        assert_eq!(kept.read("/sys/kernel/mm/nonexistent"), Some(Observed::Absent));
    }

    #[test]
    fn one_that_has_gone_is_looked_for_again() {
        let kept = KeptOpen::default();
        let path = "/proc/sys/kernel/osrelease";
        let said = kept.read(path);
        // A folder in its place cannot be read, as a file that is gone.
        let folder = rustix::fs::open("/proc", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        kept.0.lock().unwrap().insert(path.to_owned(), folder);
        assert_eq!(kept.read(path), said);
    }
}
