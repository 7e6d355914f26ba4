//! The running machine.

use std::cell::{OnceCell, RefCell};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use hugewise_model::host::TlbLevel;
use hugewise_model::{Observed, PageSize};
use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, Stat, fstat, openat};
use rustix::io::{Errno, Result};
use rustix::time::{ClockId, clock_gettime};

use super::errno::{kernels_not_known, not_known, to_observed};
use super::kernel_filesystems::{is_kernels, on_kernel_filesystem};
use super::openat2::{
    Located, has_descriptors, link_beneath, list_located, list_located_up_to, list_open,
    locate_path, open_folder, open_to_read, read_kernels_open, read_link, read_located_up_to,
    read_part_located, walk_path,
};
use super::owner::{OwnerPathCache, OwnerVisibleFile, link_as, locate_as, root_at};
use super::process_files::{ProcessFiles, ReadCalls};
use super::read_limits::{most_of, to_epoch_duration};
use super::timed_read::{ReadSubject, TimedReader, locked_by};
use super::trust::{self, Distrust};
use super::{
    ExpectedProcess, FileExtent, FilePart, FileRequest, ListedProcess, MachineFacts, Owner,
    ProcessSource, RawSource, Source, TrustedWriters, split_process_root,
};
use crate::sys;

/// The running machine, as the user who runs the program sees it.
#[derive(Debug)]
pub struct LiveSource {
    /// Whether /proc's pids are those of system calls: not with a host's /proc in a container.
    own_pids: OnceCell<bool>,
    /// For what may wait for somebody else.
    timed: TimedReader,
}

impl Default for LiveSource {
    fn default() -> Self {
        Self { own_pids: OnceCell::new(), timed: TimedReader::new(user_of) }
    }
}

/// No status file is longer.
const STATUS: u64 = 1 << 20;

/// The real user of a process. The kernel reads this file without its lock.
fn user_of(pid: u32) -> Option<u32> {
    let status = read_kernels(&format!("/proc/{pid}/status"), STATUS).into_known()?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A tick of `starttime` in /proc/PID/stat: USER_HZ is 100 on every architecture of today.
const TICK: Duration = Duration::from_millis(10);

/// When a process began, by its stat file and the present clock; a tick later, as the kernel rounds
/// down and no program has read a file within its first.
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

fn read_kernels(path: &str, most: u64) -> Observed<Vec<u8>> {
    // What is asked about it next is about the memory that it shows.
    MAPS.set(None);
    let in_parts = !is_one_value(path);
    let most = most.min(most_of(path));
    let read = open_to_read(CWD, path).and_then(|file| read_kernels_open(&file, most, in_parts));
    read.unwrap_or_else(|error| kernels_not_known(path, error))
}

const ONE_VALUE: [&str; 3] = ["/proc/sys/", "/sys/kernel/mm/", "/sys/devices/system/"];

/// Files that the kernel fills in one go: a short answer is the whole.
fn is_one_value(path: &str) -> bool {
    let of_process = || path.strip_prefix("/proc/").and_then(|rest| rest.split_once('/'));
    ONE_VALUE.iter().any(|folder| path.starts_with(folder))
        || of_process().is_some_and(|(_, name)| matches!(name, "status" | "limits" | "cgroup"))
}

/// A virtual machine is halted for each question, and the answers stay the same.
fn read_tlb_levels() -> Observed<Vec<TlbLevel>> {
    static TOLD: OnceLock<Observed<Vec<TlbLevel>>> = OnceLock::new();
    TOLD.get_or_init(|| crate::tlb::decode_tlb(&sys::read_cpuid)).clone()
}

impl LiveSource {
    fn ask_who_writes(&self, link: &str, writers: &TrustedWriters) -> Observed<()> {
        let writers = writers.clone();
        self.ask_about_path(link, move |path| {
            observe_writers(trust::check_writers_of_file(path, &writers))
        })
    }

    /// Opens nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn has_own_pids(&self) -> bool {
        *self.own_pids.get_or_init(|| {
            let status = self.read("/proc/self/status").into_known().unwrap_or_default();
            // One number for each namespace from /proc's down to this program's.
            let numbers = format!("\nNSpid:\t{}\n", std::process::id());
            String::from_utf8_lossy(&status).contains(&numbers)
        })
    }

    /// Asks in time about the files of a server.
    fn ask_about_files<T: Send + 'static>(
        &self,
        owner: &Owner,
        path: &str,
        work: impl Fn(&OwnerPathCache, &Owner, &str) -> Observed<T> + Send + Sync + 'static,
    ) -> Observed<T> {
        let (owner, path) = (owner.clone(), path.to_owned());
        let subject = ReadSubject::FilesOf(owner.pid, owner.uid);
        self.timed.ask_in_time(subject, move |ways| work(ways, &owner, &path))
    }

    /// The open files of a process; what they are is asked next, and read in one go.
    fn list_descriptors(&self, pid: u32, folder: &str) -> Observed<Vec<String>> {
        let read = self.ask_about_path(folder, |folder| {
            list_kernels_folder(folder).map(|names| {
                let files = ProcessFiles::read_descriptors(folder, &names, READ_CALLS);
                (names, files)
            })
        });
        read.map(|(names, files)| {
            self.timed.keep_ahead(pid, files);
            names
        })
    }

    /// Asks about a path, in time where it may wait for a process.
    fn ask_about_path<T: Send + 'static>(
        &self,
        path: &str,
        work: impl Fn(&str) -> Observed<T> + Send + Sync + 'static,
    ) -> Observed<T> {
        match locked_by(path) {
            Some(pid) => {
                let path = path.to_owned();
                self.timed.ask_in_time(ReadSubject::Process(pid), move |_| work(&path))
            }
            None => work(path),
        }
    }
}

fn locate_for_owner(
    ways: &OwnerPathCache,
    owner: &Owner,
    path: &str,
) -> Observed<OwnerVisibleFile> {
    match owner.path_in_root(path) {
        Some((root, rest)) => root_at(root).and_then(|root| locate_as(root, rest, owner)),
        None => ways.locate_path(path, owner),
    }
}

fn locate_readable(ways: &OwnerPathCache, owner: &Owner, path: &str) -> Observed<OwnerVisibleFile> {
    locate_for_owner(ways, owner, path).and_then(|found| {
        if found.is_readable_by(owner) { Observed::Known(found) } else { Observed::Denied }
    })
}

/// A file as whoever runs the program may read it.
fn read_without_owner(path: &str, extent: FileExtent, is_glance: bool) -> Observed<FilePart> {
    if let Some((root, rest)) = split_process_root(path) {
        let file = locate_inside(root, rest).and_then(of_disk);
        return file.and_then(|file| read_extent(&file, extent));
    }
    // Opening these has no effect, and they are always regular files.
    if !is_glance
        && let FileExtent::Whole { most } = extent
        && super::kernel_files::is_known(path)
    {
        return read_kernels(path, most).map(FilePart::whole_file);
    }
    locate_plain(path).and_then(of_disk).and_then(|file| read_extent(&file, extent))
}

fn list_kernels_folder(folder: &str) -> Observed<Vec<String>> {
    let names = open_folder(CWD, folder).and_then(list_open);
    names.map_or_else(|error| kernels_not_known(folder, error), Observed::Known)
}

fn read_kernels_link(path: &str) -> Observed<String> {
    read_link(CWD, path).unwrap_or_else(|error| kernels_not_known(path, error))
}

const READ_CALLS: ReadCalls = ReadCalls { file: read_kernels, link: read_kernels_link };

thread_local! {
    /// The maps file that was asked last: mappings are asked one after the other.
    static MAPS: RefCell<Option<(String, OwnedFd)>> = const { RefCell::new(None) };
}

/// The page size at an address by a maps file, in bytes. It takes the process's lock as
/// reading does, and to open the file another one, which execve(2) keeps as long as it closes files.
fn query_page_size(path: &str, start: u64) -> Observed<u64> {
    let answer = MAPS.with_borrow_mut(|maps| {
        let file = match maps.take() {
            Some((known, file)) if known == path => file,
            _ => open_to_read(CWD, path)?,
        };
        let (_, file) = maps.insert((path.to_owned(), file));
        sys::mapping_page_size(file.as_fd(), start)
    });
    match answer {
        Ok(bytes) => Observed::Known(bytes),
        // Kernels before 6.11, or the process has ended or unmapped it meanwhile.
        Err(Errno::NOTTY | Errno::SRCH) => Observed::Absent,
        Err(error) => not_known(error),
    }
}

/// Lets through a file on a disk: reading a kernel's file in its place may consume something.
fn of_disk(located: Located) -> Observed<Located> {
    match is_kernels_file(&located.file) {
        Ok(true) => on_kernel_filesystem(),
        Ok(false) => Observed::Known(located),
        Err(error) => not_known(error),
    }
}

fn is_kernels_file(file: &OwnedFd) -> Result<bool> {
    let stat = fstat(file)?;
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    Ok(!is_folder && !is_on_device(&stat) && is_kernels(file)?)
}

fn is_on_device(stat: &Stat) -> bool {
    rustix::fs::major(stat.st_dev) != 0
}

/// One answer of the kernel holds a thousand.
fn list_proc() -> Result<Observed<Vec<ListedProcess>>> {
    let folder = open_folder(CWD, "/proc")?;
    let mut buffer = [const { MaybeUninit::uninit() }; 32 << 10];
    let (mut entries, mut listed) = (RawDir::new(folder, &mut buffer), Vec::with_capacity(512));
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let pid = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
        listed.extend(pid.map(|pid| ListedProcess { pid, identity: Some(entry.ino()) }));
    }
    Ok(Observed::Known(listed))
}

fn locate_plain(path: &str) -> Observed<Located> {
    if has_descriptors() {
        let file = to_observed(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()));
        return file.map(|file| Located::new(file, None));
    }
    root_at("/").and_then(|root| to_observed(walk_path(root.as_fd(), path)))
}

fn locate_inside(root: &str, rest: &str) -> Observed<Located> {
    root_at(root).and_then(|root| to_observed(locate_path(root.as_fd(), rest)))
}

impl RawSource for LiveSource {
    fn read_file(&self, request: &FileRequest<'_>) -> Observed<FilePart> {
        let FileRequest { path, reader, extent, is_glance } = *request;
        if let Some(owner) = reader {
            return self.ask_about_files(owner, path, move |ways, owner, path| {
                let found = locate_readable(ways, owner, path);
                found.and_then(|found| read_extent(&found.located, extent))
            });
        }
        if let Some(read) = locked_by(path)
            .and_then(|pid| self.timed.take_ahead(pid, |files| files.take_file(path)))
        {
            return request.answer_from(read);
        }
        self.ask_about_path(path, move |path| read_without_owner(path, extent, is_glance))
    }

    fn folder_names(
        &self,
        folder: &str,
        reader: Option<&Owner>,
        most: u64,
    ) -> Observed<Vec<String>> {
        if let Some(owner) = reader {
            return self.ask_about_files(owner, folder, move |ways, owner, folder| {
                let found = locate_readable(ways, owner, folder);
                found.and_then(|found| list_located_up_to(&found.located, most))
            });
        }
        if let Some(pid) = locked_by(folder).filter(|pid| folder == format!("/proc/{pid}/fd")) {
            return self.list_descriptors(pid, folder);
        }
        self.ask_about_path(folder, |folder| {
            if let Some((root, rest)) = split_process_root(folder) {
                return locate_inside(root, rest).and_then(|folder| list_located(&folder));
            }
            list_kernels_folder(folder)
        })
    }

    fn link_target(&self, path: &str, reader: Option<&Owner>) -> Observed<String> {
        if let Some(owner) = reader {
            return self.ask_about_files(owner, path, |ways, owner, path| {
                match owner.path_in_root(path) {
                    Some((root, rest)) => root_at(root).and_then(|root| link_as(root, rest, owner)),
                    None => ways.read_link(path, owner),
                }
            });
        }
        if let Some(link) = locked_by(path)
            .and_then(|pid| self.timed.take_ahead(pid, |files| files.take_link(path)))
        {
            return link;
        }
        self.ask_about_path(path, |path| match split_process_root(path) {
            Some((root, rest)) => root_at(root).and_then(|root| link_beneath(root.as_fd(), rest)),
            None => read_kernels_link(path),
        })
    }

    fn processes(&self) -> &dyn ProcessSource {
        self
    }

    fn owner_of(&self, path: &str) -> Observed<u32> {
        let owner = |path: &str| to_observed(rustix::fs::lstat(path).map(|stat| stat.st_uid));
        if path.starts_with("/sys/") {
            return owner(path);
        }
        let path = path.to_owned();
        self.timed.ask_in_time(ReadSubject::File, move |_| owner(&path))
    }

    fn check_writers(&self, path: &str, writers: &TrustedWriters) -> Observed<()> {
        let (path, writers) = (path.to_owned(), writers.clone());
        self.timed.ask_in_time(ReadSubject::File, move |_| {
            observe_writers(trust::check_writers(&path, &writers))
        })
    }

    fn changed_since_start(&self, owner: &Owner, path: &str, pid: u32) -> Observed<bool> {
        let changed = self.ask_about_files(owner, path, |ways, owner, path| {
            let found = locate_for_owner(ways, owner, path);
            found.map(|found| to_epoch_duration(found.stat.st_ctime, found.stat.st_ctime_nsec))
        });
        // A server that does not run has no process.
        let stat =
            if pid == 0 { Observed::Absent } else { self.read(&format!("/proc/{pid}/stat")) };
        let began = stat.and_then(|stat| since_epoch(&stat).into());
        changed.and_then(|changed| began.map(|began| changed > began))
    }

    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        let written = to_observed(rustix::fs::stat(than))
            .map(|stat| to_epoch_duration(stat.st_mtime, stat.st_mtime_nsec));
        let changed = |stat: rustix::fs::Stat| to_epoch_duration(stat.st_ctime, stat.st_ctime_nsec);
        let link = to_observed(rustix::fs::lstat(path)).map(changed);
        // A link that leads nowhere was changed when it was made.
        let behind = to_observed(rustix::fs::stat(path)).map(changed).get().unwrap_or_default();
        written.and_then(|written| link.map(|link| link.max(behind) > written))
    }

    fn machine_facts(&self) -> MachineFacts {
        let base_page = u64::try_from(rustix::param::page_size()).ok().and_then(PageSize::new);
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok();
        MachineFacts {
            live: true,
            base_page: base_page.into(),
            read_at: since_epoch.and_then(|since| i64::try_from(since.as_secs()).ok()).into(),
            read_as: Observed::Known(rustix::process::geteuid().as_raw()),
            own_root: super::own_root::read(),
            hidden: None,
            architecture: Observed::Known(
                rustix::system::uname().machine().to_string_lossy().into_owned(),
            ),
            tlb: read_tlb_levels(),
        }
    }
}

impl ProcessSource for LiveSource {
    fn list_processes(&self) -> Observed<Vec<ListedProcess>> {
        list_proc().unwrap_or_else(|error| kernels_not_known("/proc", error))
    }

    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize> {
        let bytes = self
            .ask_about_path(&format!("/proc/{pid}/maps"), move |path| query_page_size(path, start));
        bytes.parse(PageSize::try_from)
    }

    fn check_writers_of_executable(&self, pid: u32, writers: &TrustedWriters) -> Observed<()> {
        self.ask_who_writes(&format!("/proc/{pid}/exe"), writers)
    }

    fn check_writers_of_mapping(
        &self,
        pid: u32,
        (start, end): (u64, u64),
        writers: &TrustedWriters,
    ) -> Observed<()> {
        self.ask_who_writes(&format!("/proc/{pid}/map_files/{start:x}-{end:x}"), writers)
    }

    fn cpu_time(&self, pid: u32) -> Observed<Duration> {
        if self.has_own_pids() { sys::cpu_time(pid).into() } else { Observed::Absent }
    }

    fn read_ahead(&self, processes: &[ExpectedProcess]) {
        self.timed.read_ahead(processes.iter().map(|expected| {
            let ExpectedProcess { pid, reads_maps } = *expected;
            (pid, move || ProcessFiles::read(pid, reads_maps, READ_CALLS))
        }));
    }
}

fn observe_writers(checked: std::result::Result<(), Distrust>) -> Observed<()> {
    match checked {
        Ok(()) => Observed::Known(()),
        Err(Distrust::Unseen { error, .. }) => match Errno::from_io_error(&error) {
            Some(error) => not_known(error),
            None => Observed::Malformed(error.to_string()),
        },
        Err(why) => Observed::Malformed(why.to_string()),
    }
}

fn read_extent(file: &Located, extent: FileExtent) -> Observed<FilePart> {
    match extent {
        FileExtent::Whole { most } => read_located_up_to(file, most).map(FilePart::whole_file),
        FileExtent::Last { before, most } => read_part_located(file, before, most),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_says() {
        let live = LiveSource::new();
        let status =
            String::from_utf8(live.read("/proc/self/status").into_known().unwrap()).unwrap();
        assert!(status.contains(&format!("\nPid:\t{}\n", std::process::id())));
        let pid = std::process::id();
        let own = std::env::current_exe().unwrap();
        assert!(
            live.read_link(&format!("/proc/{pid}/root{}", own.display()))
                .reason_text()
                .unwrap()
                .contains("no link")
        );
        assert!(
            live.list_folder(&format!("/proc/{pid}/root/proc"))
                .into_known()
                .unwrap()
                .contains(&"meminfo".to_owned())
        );
        assert!(
            live.list_folder("/proc/self/ns").into_known().unwrap().contains(&"mnt".to_owned())
        );
        assert!(live.read_link("/proc/self/ns/mnt").into_known().unwrap().starts_with("mnt:["));
        assert_eq!(live.read("/nonexistent"), Observed::Absent);
        assert_eq!(live.list_folder("/proc/version"), Observed::Absent);
        assert_eq!(live.read("/proc"), Observed::Malformed("is a folder".into()));
        assert_eq!(live.read("/dev/zero"), Observed::Malformed("not a regular file".into()));
        assert_eq!(live.mapping_page_size(u32::MAX, 0), Observed::Absent);
    }

    #[test]
    fn a_path_that_a_process_names_opens_no_pipe_and_spends_nothing_of_the_kernels() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        std::os::unix::fs::symlink("/proc/self/environ", folder.path().join("environ")).unwrap();
        let live = LiveSource::new();
        let pid = std::process::id();
        let held =
            openat(CWD, folder.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&held);
        let not_regular = Observed::Malformed("not a regular file".into());
        assert_eq!(live.read(&format!("/proc/{pid}/fd/{descriptor}/pipe")), not_regular);
        assert_eq!(live.read(&format!("/proc/..{}", pipe.display())), not_regular);
        let kernels = Observed::Malformed(
            "it is on one of the kernel's own file systems and was not read".into(),
        );
        assert_eq!(live.read(&format!("/proc/{pid}/fd/{descriptor}/environ")), kernels);
        assert_eq!(
            live.read(&format!("/proc/{pid}/root{}/environ", folder.path().display())),
            kernels
        );
        assert_eq!(live.read("/proc/thread-self/environ"), kernels);
    }

    #[test]
    fn a_part_of_a_file_larger_than_any_that_is_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alert.log");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(5 << 30).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"last words", (5 << 30) - 10).unwrap();
        let (live, path) = (LiveSource::new(), path.to_str().unwrap());
        let tail = live.read_part(path, None, 5).into_known().unwrap();
        assert_eq!(
            (tail.bytes.as_slice(), tail.offset, tail.total),
            (&b"words"[..], (5 << 30) - 5, 5 << 30)
        );
        let before = live.read_part(path, Some(tail.offset), 6).into_known().unwrap();
        assert_eq!((before.bytes.as_slice(), before.identity), (&b"\0last "[..], tail.identity));
        assert_eq!(
            live.read_part(path, Some(3), 100).into_known().map(|part| part.bytes),
            Some(vec![0; 3])
        );
        assert!(matches!(live.read(path), Observed::Malformed(_)));
        assert_eq!(
            live.read_part("/dev/zero", None, 1),
            Observed::Malformed("not a regular file".into())
        );
        assert_eq!(live.read_part("/proc", None, 1), Observed::Malformed("is a folder".into()));
        assert_eq!(live.read_part("/nonexistent", None, 1), Observed::Absent);
    }

    #[test]
    fn page_sizes_agree_with_smaps() {
        let live = LiveSource::new();
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
                    // Mappings of other threads come and go; the vsyscall page is no mapping of the
                    // process.
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
        let mut numbers = uname
            .release()
            .to_str()
            .unwrap()
            .split(['.', '-'])
            .map(|number| number.parse().unwrap_or(0));
        (numbers.next().unwrap(), numbers.next().unwrap())
    }
}
