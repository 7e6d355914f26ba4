//! The kernel's own files about the machine as a whole, kept open from one reading to the next.
//!
//! The kernel makes up what they say whenever they are read from their beginning: what is kept is the way to them, which of a
//! pool's counter takes longer than its number. One that has gone, as those of a node do that is taken out, says so, and is
//! looked for by its path again.
//!
//! Of the mounts the kernel says by itself that there are others (poll(2), proc_pid_mounts(5)): until then what was read is
//! said again, as it writes a line for each of them, hundreds on a host with containers. It says nothing of folders on the way
//! to them that are renamed, nor of options that are changed in another mount namespace: therefore they are read anew in one of
//! [`MOUNTS_AT_ONCE`] readings.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hugewise_model::Observed;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::CWD;
use rustix::io::Errno;

use super::beneath::{in_room, open_to_read};
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

/// The mounts that this program sees.
const MOUNTS: &str = "/proc/self/mountinfo";

/// So many readings may have the mounts from the first of them.
const MOUNTS_AT_ONCE: u8 = 16;

/// Files that were read before.
#[derive(Debug, Default)]
pub(super) struct KeptOpen {
    files: Mutex<BTreeMap<String, OwnedFd>>,
    mounts: Mutex<Option<Mounts>>,
    of_proc: Mutex<OfProc>,
}

/// What holds as long as the same file system is mounted at /proc: another pid namespace has another one.
#[derive(Debug, Default)]
struct OfProc {
    device: Option<u64>,
    has_own_pids: Option<bool>,
    /// Those of this program alone.
    links: BTreeMap<String, String>,
}

/// What was read of the mounts.
#[derive(Debug)]
struct Mounts {
    file: OwnedFd,
    text: Vec<u8>,
    /// How often it was said.
    said: u8,
}

impl Mounts {
    /// The kernel notes what is changed from the moment at which the file is opened on: the text is never older than that.
    fn read(path: &str) -> rustix::io::Result<Result<Self, Observed<Vec<u8>>>> {
        let file = open_to_read(CWD, path)?;
        Ok(match read_from_beginning(&file, true)? {
            Observed::Known(text) => Ok(Self { file, text, said: 1 }),
            other => Err(other),
        })
    }

    /// Whether there may be others by now.
    fn may_differ(&self) -> bool {
        let mut asked = [PollFd::new(&self.file, PollFlags::PRI)];
        let none = poll(&mut asked, Some(&Timespec::default())) == Ok(0);
        self.said >= MOUNTS_AT_ONCE || !none
    }
}

impl KeptOpen {
    /// What a file says now; `None` where it is none of those that are kept.
    pub(super) fn read(&self, path: &str) -> Option<Observed<Vec<u8>>> {
        if path == MOUNTS {
            return Some(self.mounts(path).unwrap_or_else(|error| kernels_not_known(MOUNTS, error)));
        }
        let is_one_value = ONE_VALUE.iter().any(|folder| path.starts_with(folder));
        if !is_one_value && !WHOLE.contains(&path) {
            return None;
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
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

impl KeptOpen {
    /// Whether the pids of /proc are this program's own, as `ask` found while the same /proc was mounted.
    pub(super) fn while_same_proc(&self, ask: impl FnOnce() -> bool) -> bool {
        *self.of_proc(proc_device()).has_own_pids.get_or_insert_with(ask)
    }

    /// Where a link of this program's own leads that stays as it is while the same /proc is mounted.
    pub(super) fn link(&self, path: &str, read: impl FnOnce() -> Observed<String>) -> Observed<String> {
        let mut kept = self.of_proc(proc_device());
        if let Some(link) = kept.links.get(path) {
            return Observed::Known(link.clone());
        }
        let link = read();
        if let Some(link) = link.known() {
            kept.links.insert(path.to_owned(), link.clone());
        }
        link
    }

    fn of_proc(&self, device: Option<u64>) -> MutexGuard<'_, OfProc> {
        let mut kept = self.of_proc.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.device != device || device.is_none() {
            *kept = OfProc { device, ..OfProc::default() };
        }
        kept
    }

    fn mounts(&self, path: &str) -> rustix::io::Result<Observed<Vec<u8>>> {
        let mut kept = self.mounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mounts) = kept.as_mut().filter(|mounts| !mounts.may_differ()) {
            mounts.said += 1;
            return Ok(Observed::Known(mounts.text.clone()));
        }
        *kept = None;
        match Mounts::read(path)? {
            Ok(mounts) => Ok(Observed::Known(kept.insert(mounts).text.clone())),
            Err(other) => Ok(other),
        }
    }
}

/// What is mounted at /proc, where that can be told.
fn proc_device() -> Option<u64> {
    rustix::fs::stat("/proc").ok().map(|stat| stat.st_dev)
}

fn read_from_beginning(file: &OwnedFd, in_parts: bool) -> rustix::io::Result<Observed<Vec<u8>>> {
    in_room(|bytes| pread_into(file, bytes, in_parts))
}

fn pread_into(file: &OwnedFd, bytes: &mut Vec<u8>, in_parts: bool) -> rustix::io::Result<Observed<()>> {
    loop {
        if bytes.capacity() - bytes.len() < 1024 {
            bytes.reserve(bytes.len().max(4096));
        }
        let at = u64::try_from(bytes.len()).map_err(|_| Errno::FBIG)?;
        match rustix::io::pread(file, rustix::buffer::spare_capacity(bytes), at) {
            Ok(0) => return Ok(Observed::Known(())),
            Ok(_) if bytes.len() > MOST_BYTES => return Ok(too_large(super::MAX_FILE)),
            Ok(_) if !in_parts && bytes.len() < bytes.capacity() => return Ok(Observed::Known(())),
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
        assert_eq!(kept.files.lock().unwrap().len(), 1);
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

    /// A shell in a mount namespace of its own mounts, mounts otherwise and unmounts.
    #[test]
    fn other_mounts_are_seen_at_the_next_reading() {
        use std::io::{BufRead, BufReader, Write};
        use std::process::{Command, ExitStatus, Stdio};

        use hugewise_lab::{guard, require};

        let may = Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "hugewise-test", "/mnt"]).status();
        require!(may.ok().filter(ExitStatus::success).ok_or_else(|| guard::Skip("nothing may be mounted here".into())));
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        let mut said = BufReader::new(shell.stdout.take().unwrap()).lines();
        let mut does = |line: &str| {
            writeln!(input, "{line} && echo done").ok()?;
            said.next().and_then(Result::ok)
        };
        let (kept, path) = (KeptOpen::default(), format!("/proc/{}/mountinfo", shell.id()));
        let now = || {
            let text = String::from_utf8(kept.mounts(&path).unwrap().into_known().unwrap()).unwrap();
            text.lines().find(|line| line.contains("hugewise-test")).map(str::to_owned)
        };
        // Before it answers it may still be in this namespace.
        does("true").unwrap();
        assert_eq!((now(), now()), (None, None));
        assert_eq!(kept.mounts.lock().unwrap().as_ref().map(|mounts| mounts.said), Some(2), "it was read once");
        does("mount -t tmpfs -o size=1M hugewise-test /mnt").unwrap();
        let mounted = now().unwrap();
        assert!(mounted.contains("size=1024k"), "{mounted}");
        does("mount -o remount,size=2M /mnt").unwrap();
        assert!(now().unwrap().contains("size=2048k"));
        does("umount /mnt").unwrap();
        assert_eq!(now(), None);
        for said in 2..=MOUNTS_AT_ONCE {
            now();
            assert_eq!(kept.mounts.lock().unwrap().as_ref().map(|mounts| mounts.said), Some(said));
        }
        now();
        let said = kept.mounts.lock().unwrap().as_ref().map(|mounts| mounts.said);
        assert_eq!(said, Some(1), "what the kernel says nothing of is seen some time");
        drop(input);
        shell.wait().unwrap();
    }

    #[test]
    fn with_another_proc_everything_is_asked_anew() {
        let kept = KeptOpen::default();
        let own = |device, now| *kept.of_proc(device).has_own_pids.get_or_insert(now);
        assert_eq!(
            [own(Some(1), true), own(Some(1), false), own(Some(2), false), own(Some(2), true)],
            [true, true, false, false]
        );
        kept.of_proc(Some(2)).links.insert("/proc/self/ns/mnt".into(), "mnt:[1]".into());
        assert_eq!(kept.of_proc(Some(2)).links.len(), 1);
        assert_eq!(kept.of_proc(Some(1)).links.len(), 0);
        // Where nobody can tell which one it is, nothing is kept.
        assert_eq!([own(None, true), own(None, false)], [true, false]);
    }

    #[test]
    fn links_of_this_program_are_those_that_are_there() {
        let (kept, live) = (KeptOpen::default(), Live::new());
        for name in ["mnt", "pid", "ipc", "user"] {
            let path = format!("/proc/self/ns/{name}");
            let there = Source::link(&live, &path);
            for _ in 0..2 {
                assert_eq!(kept.link(&path, || Source::link(&live, &path)), there);
            }
        }
        let path = "/proc/self/ns/none";
        assert_eq!(kept.link(path, || Observed::Absent), Observed::Absent);
        assert_eq!(kept.link(path, || Observed::Known("none:[1]".into())), Observed::Known("none:[1]".into()));
    }

    #[test]
    fn one_that_has_gone_is_looked_for_again() {
        let kept = KeptOpen::default();
        let path = "/proc/sys/kernel/osrelease";
        let said = kept.read(path);
        // A folder in its place cannot be read, as a file that is gone.
        let folder = rustix::fs::open("/proc", rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        kept.files.lock().unwrap().insert(path.to_owned(), folder);
        assert_eq!(kept.read(path), said);
    }
}
