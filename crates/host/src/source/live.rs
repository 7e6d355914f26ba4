//! The running machine.

use std::cell::{OnceCell, RefCell};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hugewise_model::host::TlbLevel;
use hugewise_model::{Observed, PageSize};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, statat};
use rustix::io::{Errno, Result};
use rustix::time::{ClockId, clock_gettime};

use super::ahead::Ahead;
use super::beneath::{
    Located, has_descriptors, link_beneath, list_located, list_located_up_to, list_open, locate, open_to_read,
    read_kernels_open, read_link, read_located, read_located_up_to, read_part_located, walk,
};
use super::bounds::{SETTLED, most_of, since};
use super::errno::{kernels_not_known, not_known, observed};
use super::kept_open::{KeptOpen, ONE_VALUE};
use super::kernel_systems::{is_kernels, is_kernels_path, kernels};
use super::owner::{Found, Ways, link_as, locate_as, own_root};
use super::patient::{Patient, locked_by};
use super::threads::Threads;
use super::{Listed, Machine, Next, Owner, Part, Source, Stamp, split_process_root};
use crate::process::status::{self, Matters};
use crate::sys;

/// The running machine, as the user who runs the program sees it.
#[derive(Debug, Default)]
pub struct Live {
    /// /proc/PID/maps of the process that was asked last: a process's mappings are asked for one after the other.
    maps: RefCell<Option<(u32, OwnedFd)>>,
    /// Whether the pids of this /proc are those that system calls take: with a host's /proc in a container they are not.
    own_pids: OnceCell<bool>,
    /// For files that another process can keep from being read.
    patient: Patient,
    /// Processes that are read before they are asked for.
    ahead: RefCell<Ahead>,
    /// Where files are stamped.
    beside: RefCell<Beside>,
    /// Ways of servers' owners to their files.
    ways: Ways,
    threads: Threads,
    /// Files that are kept open for the one after this.
    files: Option<Arc<KeptOpen>>,
}

/// What one source to the running machine leaves to the one after it: no answers, but ways to them.
#[derive(Clone, Debug, Default)]
pub struct Between {
    threads: Threads,
    files: Arc<KeptOpen>,
}

/// A tick of `starttime` in /proc/PID/stat: USER_HZ, which is 100 on every architecture that Linux supports today.
const TICK: Duration = Duration::from_millis(10);

/// When a process began, by its stat file, as the clock goes now; a tick later, as the kernel rounds down and no program has
/// read a file within its first.
fn since_epoch(stat: &[u8]) -> Option<Duration> {
    let text = String::from_utf8_lossy(stat);
    // The name may hold spaces and parentheses.
    let (_, fields) = text.rsplit_once(')')?;
    let ticks: u32 = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let clock = |id| {
        let time = clock_gettime(id);
        Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
    };
    let booted = clock(ClockId::Realtime)?.checked_sub(clock(ClockId::Boottime)?)?;
    booted.checked_add(TICK.checked_mul(ticks.checked_add(1)?)?)
}

/// Whatever `stat` found at a path.
fn stamp(path: &str, stat: Result<Stat>) -> Option<Stamp> {
    let stat = match stat {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Some(Stamp::Nothing),
        Err(_) => return None,
    };
    if !is_on_device(&stat) && is_kernels_path(path) != Ok(false) {
        return None;
    }
    let time = |seconds: i64, nanoseconds: u64| {
        Some(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?))
    };
    let now = clock_gettime(ClockId::Realtime);
    let now = Duration::new(u64::try_from(now.tv_sec).ok()?, u32::try_from(now.tv_nsec).ok()?);
    let changed = time(stat.st_ctime, stat.st_ctime_nsec)?;
    if now.checked_sub(changed)? < SETTLED {
        return None;
    }
    Some(Stamp::Something {
        device: stat.st_dev,
        inode: stat.st_ino,
        size: u64::try_from(stat.st_size).ok()?,
        modified: time(stat.st_mtime, stat.st_mtime_nsec)?,
        changed,
    })
}

/// This program enters no other namespace.
fn is_own_namespace(path: &str) -> bool {
    path.starts_with("/proc/self/ns/")
}

/// The folder of what was looked at last: whoever looks at one file after the other there goes the way to it once.
#[derive(Debug, Default)]
struct Beside {
    folder: String,
    /// From the second one on.
    open: Option<OwnedFd>,
}

impl Beside {
    fn stat(&mut self, path: &str, flags: AtFlags) -> Result<Stat> {
        let parts =
            path.rsplit_once('/').filter(|(folder, name)| !folder.is_empty() && !matches!(*name, "" | "." | ".."));
        let Some((folder, name)) = parts else { return statat(CWD, path, flags) };
        if self.folder != folder {
            *self = Self { folder: folder.to_owned(), open: None };
            return statat(CWD, path, flags);
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => openat(CWD, folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?,
        };
        statat(self.open.insert(open), name, flags)
    }
}

/// One of the kernel's own files.
fn read_kernels(path: &str) -> Observed<Vec<u8>> {
    let in_parts = !is_one_value(path);
    let read = open_to_read(CWD, path).and_then(|file| read_kernels_open(&file, most_of(path), in_parts));
    read.unwrap_or_else(|error| kernels_not_known(path, error))
}

/// Files that the kernel fills in one go: an answer that is shorter than was asked for is all of it.
fn is_one_value(path: &str) -> bool {
    let of_process = || path.strip_prefix("/proc/").and_then(|rest| rest.split_once('/'));
    ONE_VALUE.iter().any(|folder| path.starts_with(folder))
        || of_process().is_some_and(|(_, name)| matches!(name, "status" | "limits" | "cgroup"))
}

/// A virtual machine is halted for each question about its processor, and the answers stay the same.
fn tlb() -> Observed<Vec<TlbLevel>> {
    static TOLD: OnceLock<Observed<Vec<TlbLevel>>> = OnceLock::new();
    TOLD.get_or_init(|| crate::tlb::decode(&sys::cpuid)).clone()
}

impl Live {
    /// Opens nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// For who reads again and again: opens nothing that one before it has open.
    pub fn after(between: &Between) -> Self {
        Self { threads: between.threads.clone(), files: Some(Arc::clone(&between.files)), ..Self::default() }
    }

    fn has_own_pids(&self) -> bool {
        let ask = || {
            let status = self.read("/proc/self/status").parse(|bytes| status::parse(&bytes));
            // One number in each namespace from that of /proc down to this program's.
            status.known().is_some_and(|status| status.namespace_pids == [std::process::id()])
        };
        *self.own_pids.get_or_init(|| match &self.files {
            Some(files) => files.while_same_proc(ask),
            None => ask(),
        })
    }

    /// What lies at a path as the owner of a server names it, and has a way to.
    fn find(&self, owner: &Owner, path: &str) -> Observed<Found> {
        match owner.inside(path) {
            Some((root, rest)) => process_root(root).and_then(|root| locate_as(root, rest, owner)),
            None => self.ways.locate(path, owner),
        }
    }

    /// The same, if he may read it.
    fn readable(&self, owner: &Owner, path: &str) -> Observed<Found> {
        self.find(owner, path)
            .and_then(|found| if found.is_readable_by(owner) { Observed::Known(found) } else { Observed::Denied })
    }

    fn query(&self, pid: u32, start: u64) -> Result<u64> {
        let mut maps = self.maps.borrow_mut();
        let file = match maps.take() {
            Some((of, file)) if of == pid => file,
            _ => open_to_read(CWD, &format!("/proc/{pid}/maps"))?,
        };
        let (_, file) = maps.insert((pid, file));
        sys::mapping_page_size(file.as_fd(), start)
    }
}

/// Lets through a file that is on a disk: one of the kernel's own that has got into its place may be spent by reading.
fn of_disk(located: Located) -> Observed<Located> {
    match is_kernels_file(&located.file) {
        Ok(true) => kernels(),
        Ok(false) => Observed::Known(located),
        Err(error) => not_known(error),
    }
}

fn is_kernels_file(file: &OwnedFd) -> Result<bool> {
    let stat = fstat(file)?;
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    Ok(!is_folder && !is_on_device(&stat) && is_kernels(file)?)
}

/// What lies on a device is in no file system of the kernel's own.
fn is_on_device(stat: &Stat) -> bool {
    rustix::fs::major(stat.st_dev) != 0
}

/// The root of a process's mount namespace.
fn process_root(root: &str) -> Observed<OwnedFd> {
    observed(openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()))
}

/// Processes in /proc; one answer of the kernel holds a thousand.
fn listed() -> Result<Observed<Vec<Listed>>> {
    let folder = openat(CWD, "/proc", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = [const { MaybeUninit::uninit() }; 32 << 10];
    let (mut entries, mut listed) = (RawDir::new(folder, &mut buffer), Vec::with_capacity(512));
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let pid = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
        listed.extend(pid.map(|pid| Listed { pid, identity: Some(entry.ino()) }));
    }
    Ok(Observed::Known(listed))
}

fn locate_plain(path: &str) -> Observed<Located> {
    if has_descriptors() {
        let file = observed(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()));
        return file.map(|file| Located::new(file, None));
    }
    own_root().and_then(|root| observed(walk(root.as_fd(), path)))
}

fn locate_inside(root: &str, rest: &str) -> Observed<Located> {
    process_root(root).and_then(|root| observed(locate(root.as_fd(), rest)))
}

impl Source for Live {
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        if let Some((root, rest)) = split_process_root(path) {
            return locate_inside(root, rest).and_then(of_disk).and_then(|file| read_located(&file));
        }
        // Opening one of these has no effect, and they are always regular files.
        if super::kernel_files::is_known(path) {
            if let Some(answer) = self.ahead.borrow_mut().file(path, &self.patient) {
                return answer;
            }
            if let Some(answer) = self.files.as_ref().and_then(|files| files.read(path)) {
                return answer;
            }
            return match locked_by(path) {
                Some(pid) => self.patient.read(pid, path, read_kernels),
                None => read_kernels(path),
            };
        }
        locate_plain(path).and_then(of_disk).and_then(|file| read_located(&file))
    }

    fn glance(&self, path: &str, most: u64) -> Observed<Vec<u8>> {
        locate_plain(path).and_then(of_disk).and_then(|file| read_located_up_to(&file, most))
    }

    fn read_part(&self, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        let file = match split_process_root(path) {
            Some((root, rest)) => locate_inside(root, rest),
            None => locate_plain(path),
        };
        file.and_then(of_disk).and_then(|file| read_part_located(&file, before, max))
    }

    fn list(&self, folder: &str) -> Observed<Vec<String>> {
        if let Some((root, rest)) = split_process_root(folder) {
            return locate_inside(root, rest).and_then(|folder| list_located(&folder));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let names = openat(CWD, folder, flags, Mode::empty()).and_then(list_open);
        names.map_or_else(|error| kernels_not_known(folder, error), Observed::Known)
    }

    fn link(&self, path: &str) -> Observed<String> {
        match split_process_root(path) {
            Some((root, rest)) => process_root(root).and_then(|root| link_beneath(root.as_fd(), rest)),
            None => {
                let read = || read_link(CWD, path).unwrap_or_else(|error| kernels_not_known(path, error));
                match &self.files {
                    Some(files) if is_own_namespace(path) => files.link(path, read),
                    _ => self.ahead.borrow_mut().link(path, &self.patient).unwrap_or_else(read),
                }
            }
        }
    }

    fn read_as(&self, owner: &Owner, path: &str, most: u64) -> Observed<Vec<u8>> {
        self.readable(owner, path).and_then(|found| read_located_up_to(&found.located, most))
    }

    fn read_part_as(&self, owner: &Owner, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        self.readable(owner, path).and_then(|found| read_part_located(&found.located, before, max))
    }

    fn list_as(&self, owner: &Owner, folder: &str, most: u64) -> Observed<Vec<String>> {
        self.readable(owner, folder).and_then(|found| list_located_up_to(&found.located, most))
    }

    fn link_as(&self, owner: &Owner, path: &str) -> Observed<String> {
        match owner.inside(path) {
            Some((root, rest)) => process_root(root).and_then(|root| link_as(root, rest, owner)),
            None => self.ways.link(path, owner),
        }
    }

    fn stamp(&self, path: &str, follow: bool) -> Option<Stamp> {
        // Of a process's root another process decides what is mounted there.
        if split_process_root(path).is_some() {
            return None;
        }
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        stamp(path, self.beside.borrow_mut().stat(path, flags))
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        match self.query(pid, start) {
            Ok(bytes) => Observed::Known(bytes).parse(PageSize::try_from),
            // Kernels before 6.11 do not know the question.
            Err(Errno::NOTTY) => Observed::Absent,
            // It has ended, or has unmapped it, meanwhile.
            Err(Errno::SRCH) => Observed::Absent,
            Err(error) => not_known(error),
        }
    }

    fn processes(&self) -> Observed<Vec<Listed>> {
        listed().unwrap_or_else(|error| kernels_not_known("/proc", error))
    }

    fn ahead(&self, next: &[Next], matters: Matters) {
        *self.ahead.borrow_mut() = Ahead::of(next, matters, &self.patient, &self.threads);
    }

    fn maps_hold(&self, pid: u32) -> bool {
        self.ahead.borrow_mut().maps_hold(pid, &self.patient)
    }

    fn owner_of_executable(&self, pid: u32) -> Observed<u32> {
        let stat =
            openat(CWD, format!("/proc/{pid}/exe"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).and_then(fstat);
        observed(stat.map(|stat| stat.st_uid))
    }

    fn owner_of(&self, path: &str) -> Observed<u32> {
        observed(rustix::fs::lstat(path).map(|stat| stat.st_uid))
    }

    fn changed_since_start(&self, owner: &Owner, path: &str, pid: u32) -> Observed<bool> {
        let found = self.find(owner, path);
        // A server that does not run has no process.
        let stat = if pid == 0 { Observed::Absent } else { self.read(&format!("/proc/{pid}/stat")) };
        let began = stat.and_then(|stat| since_epoch(&stat).into());
        found
            .and_then(|found| began.map(|began| (found, began)))
            .map(|(found, began)| since(found.stat.st_ctime, found.stat.st_ctime_nsec) > began)
    }

    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        let written = observed(rustix::fs::stat(than)).map(|stat| since(stat.st_mtime, stat.st_mtime_nsec));
        let changed = |stat: rustix::fs::Stat| since(stat.st_ctime, stat.st_ctime_nsec);
        let link = observed(rustix::fs::lstat(path)).map(changed);
        // A link that leads nowhere was changed when it was made.
        let behind = observed(rustix::fs::stat(path)).map(changed).known().copied().unwrap_or_default();
        written.and_then(|written| link.map(|link| link.max(behind) > written))
    }

    fn cpu_time(&self, pid: u32) -> Observed<Duration> {
        if self.has_own_pids() { sys::cpu_time(pid).into() } else { Observed::Absent }
    }

    fn machine(&self) -> Machine {
        let base_page = u64::try_from(rustix::param::page_size()).ok().and_then(PageSize::new);
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok();
        Machine {
            live: true,
            base_page: base_page.into(),
            read_at: since_epoch.and_then(|since| i64::try_from(since.as_secs()).ok()).into(),
            read_as: Observed::Known(rustix::process::geteuid().as_raw()),
            own_root: super::own_root::read(),
            hidden: None,
            architecture: Observed::Known(rustix::system::uname().machine().to_string_lossy().into_owned()),
            tlb: tlb(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_says() {
        let live = Live::new();
        let status = String::from_utf8(live.read("/proc/self/status").into_known().unwrap()).unwrap();
        assert!(status.contains(&format!("\nPid:\t{}\n", std::process::id())));
        let pid = std::process::id();
        let own = std::env::current_exe().unwrap();
        assert!(live.link(&format!("/proc/{pid}/root{}", own.display())).reason().unwrap().contains("no link"));
        assert!(live.list(&format!("/proc/{pid}/root/proc")).into_known().unwrap().contains(&"meminfo".to_owned()));
        assert!(live.list("/proc/self/ns").into_known().unwrap().contains(&"mnt".to_owned()));
        assert!(live.link("/proc/self/ns/mnt").into_known().unwrap().starts_with("mnt:["));
        assert_eq!(live.read("/nonexistent"), Observed::Absent);
        assert_eq!(live.list("/proc/version"), Observed::Absent);
        assert_eq!(live.read("/proc"), Observed::Malformed("is a folder".into()));
        assert_eq!(live.read("/dev/zero"), Observed::Malformed("not a regular file".into()));
        assert_eq!(live.mapping_page_size(u32::MAX, 0), Observed::Absent);
    }

    #[test]
    fn what_lies_beside_each_other_has_the_stamps_that_it_has_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        for name in ["a", "b"] {
            std::fs::create_dir(path(name)).unwrap();
            for file in ["1", "2"] {
                std::fs::write(path(&format!("{name}/{file}")), format!("{name}{file}")).unwrap();
            }
        }
        std::os::unix::fs::symlink("1", path("a/link")).unwrap();
        std::os::unix::fs::symlink("nowhere", path("a/lost")).unwrap();
        std::thread::sleep(SETTLED + Duration::from_millis(100));
        let live = Live::new();
        let names = [
            "a/1", "a/2", "a/link", "a/lost", "a/none", "b/1", "a/1", "a/.", "a/..", "b/", "b/2", "b/2/3", "b/2/4",
            "none/1", "none/2", "a", "b", "a/2",
        ];
        for name in names {
            for follow in [true, false] {
                let alone = Live::new().stamp(&path(name), follow);
                assert_eq!(live.stamp(&path(name), follow), alone, "{name}");
                assert!(alone.is_some(), "{name}");
            }
        }
        assert_ne!(live.stamp(&path("a/1"), true), live.stamp(&path("b/1"), true));
    }

    #[test]
    fn a_path_that_a_process_names_opens_no_pipe_and_spends_nothing_of_the_kernels() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        std::os::unix::fs::symlink("/proc/self/environ", folder.path().join("environ")).unwrap();
        let live = Live::new();
        let pid = std::process::id();
        let held = openat(CWD, folder.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&held);
        let not_regular = Observed::Malformed("not a regular file".into());
        assert_eq!(live.read(&format!("/proc/{pid}/fd/{descriptor}/pipe")), not_regular);
        assert_eq!(live.read(&format!("/proc/..{}", pipe.display())), not_regular);
        let kernels = Observed::Malformed("it is on one of the kernel's own file systems and was not read".into());
        assert_eq!(live.read(&format!("/proc/{pid}/fd/{descriptor}/environ")), kernels);
        assert_eq!(live.read(&format!("/proc/{pid}/root{}/environ", folder.path().display())), kernels);
        assert_eq!(live.read("/proc/thread-self/environ"), kernels);
    }

    #[test]
    fn a_part_of_a_file_larger_than_any_that_is_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alert.log");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(5 << 30).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"last words", (5 << 30) - 10).unwrap();
        let (live, path) = (Live::new(), path.to_str().unwrap());
        let tail = live.read_part(path, None, 5).into_known().unwrap();
        assert_eq!((tail.bytes.as_slice(), tail.offset, tail.total), (&b"words"[..], (5 << 30) - 5, 5 << 30));
        let before = live.read_part(path, Some(tail.offset), 6).into_known().unwrap();
        assert_eq!((before.bytes.as_slice(), before.identity), (&b"\0last "[..], tail.identity));
        assert_eq!(live.read_part(path, Some(3), 100).into_known().map(|part| part.bytes), Some(vec![0; 3]));
        assert!(matches!(live.read(path), Observed::Malformed(_)));
        assert_eq!(live.read_part("/dev/zero", None, 1), Observed::Malformed("not a regular file".into()));
        assert_eq!(live.read_part("/proc", None, 1), Observed::Malformed("is a folder".into()));
        assert_eq!(live.read_part("/nonexistent", None, 1), Observed::Absent);
    }

    #[test]
    fn page_sizes_agree_with_smaps() {
        let live = Live::new();
        let pid = std::process::id();
        let smaps = String::from_utf8(live.read("/proc/self/smaps").into_known().unwrap()).unwrap();
        let mut start = 0;
        let mut compared = 0;
        for line in smaps.lines() {
            if let Some((first, _)) = line.split_once('-') {
                start = u64::from_str_radix(first, 16).unwrap_or(start);
            }
            if let Some(size) = line.strip_prefix("KernelPageSize:") {
                let kib: u64 = size.trim().strip_suffix(" kB").unwrap().parse().unwrap();
                match live.mapping_page_size(pid, start) {
                    Observed::Known(page) => {
                        assert_eq!(Some(page), PageSize::from_kib(kib));
                        compared += 1;
                    }
                    // Mappings of other threads come and go; the vsyscall page is no mapping of the process.
                    Observed::Absent => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        let (major, minor) = kernel();
        assert!(compared > 0 || (major, minor) < (6, 11), "PROCMAP_QUERY never answered");
    }

    fn kernel() -> (u32, u32) {
        let uname = rustix::system::uname();
        let mut numbers = uname.release().to_str().unwrap().split(['.', '-']).map(|number| number.parse().unwrap_or(0));
        (numbers.next().unwrap(), numbers.next().unwrap())
    }
}
