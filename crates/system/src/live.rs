//! The running machine, or for tests a folder that stands for its root.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use hugewise_engines::client::{Client, ClientAccount};
use hugewise_host::source::RawSource as _;
use hugewise_host::sys::checkpoint_journal;
use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, flock, fsync, ftruncate, mkdirat, openat,
    readlinkat, unlinkat,
};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use super::place::{self, PlaceKind, describe_errno, find_place};
use super::{HeldLock, Holder, Ran, System, SystemLock, Unfit, files, holder};
use crate::{FileState, SystemFailure};

/// How long a command may take: making boot loader's files anew asks every disk on some hosts.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a server's client may take, whose account can make it wait.
const CLIENT_PATIENCE: Duration = Duration::from_secs(30);

/// statfs(2).
const PROC: rustix::fs::FsWord = 0x9fa0;
/// statfs(2).
const SYSFS: rustix::fs::FsWord = 0x6265_6572;

/// The machine.
#[derive(Debug)]
pub struct LiveSystem {
    root: OwnedFd,
    real: bool,
    lock: Mutex<Weak<OwnedFd>>,
}

impl LiveSystem {
    /// The running machine.
    pub fn new() -> Result<Self, SystemFailure> {
        Self::open_root(Path::new("/"), true)
    }

    /// A folder that stands for a machine's root: kernel values are plain files, commands don't
    /// run.
    pub fn beneath_root(root: &Path) -> Result<Self, SystemFailure> {
        Self::open_root(root, false)
    }

    fn open_root(root: &Path, real: bool) -> Result<Self, SystemFailure> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, root, flags, Mode::empty());
        let root = opened.map_err(|error| describe_errno(&root.display().to_string(), error))?;
        Ok(Self { root, real, lock: Mutex::default() })
    }

    /// Takes a lock, which only one process on the machine can hold; `None` where another one does.
    pub(crate) fn hold_lock(&self, path: &str) -> Result<Option<HeldLock>, SystemFailure> {
        let file = Arc::new(self.open_own_file(path, OFlags::RDWR)?);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&file);
                Ok(Some(HeldLock::new(file)))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(describe_errno(path, error)),
        }
    }

    fn open_own_file(&self, path: &str, flags: OFlags) -> Result<OwnedFd, SystemFailure> {
        let Some(place) = find_place(&self.root, path)? else {
            return Err(SystemFailure::new(path, "its folder does not exist"));
        };
        let new = matches!(place.inspect(path)?, PlaceKind::Nothing);
        let file = place
            .open(flags | OFlags::CREATE, Mode::RUSR | Mode::WUSR)
            .map_err(|error| describe_errno(path, error))?;
        if new {
            fsync(&place.folder).map_err(|error| describe_errno(path, error))?;
        }
        Ok(file)
    }

    fn find_account(&self, user: Option<&str>) -> Result<ClientAccount, SystemFailure> {
        let Some(user) = user else { return Ok(ClientAccount { uid: 0, gid: 0 }) };
        let accounts = self.read_text("/etc/passwd")?.unwrap_or_default();
        let account = accounts.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(user)).then_some(())?;
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            Some(ClientAccount { uid, gid })
        });
        account.ok_or_else(|| SystemFailure::new(user, "no such account in /etc/passwd"))
    }
}

impl System for LiveSystem {
    fn unix_time(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.ok().and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or_default()
    }

    fn check_can_change(&self) -> Result<(), Unfit> {
        if !self.real {
            return Ok(());
        }
        if !rustix::process::geteuid().is_root() {
            return Err(Unfit::NotRoot);
        }
        for (path, magic) in [("/proc", PROC), ("/sys", SYSFS)] {
            let is = match rustix::fs::statfs(path) {
                Ok(stat) if stat.f_type == magic => continue,
                Ok(stat) => format!("file system {:#x}", stat.f_type),
                Err(error) => describe_errno(path, error).why,
            };
            return Err(Unfit::NotReal { path: path.into(), is });
        }
        let source = hugewise_host::source::LiveSource::new();
        match hugewise_host::container::read(&source, true, &source.machine_facts().own_root) {
            Some(why) => Err(Unfit::Confined { why }),
            None => Ok(()),
        }
    }

    fn read_text(&self, path: &str) -> Result<Option<String>, SystemFailure> {
        Ok(files::read_bytes(&self.root, path)?
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn read_file(&self, path: &str) -> Result<Option<FileState>, SystemFailure> {
        files::read(&self.root, path)
    }

    fn resolve_path(&self, path: &str) -> Result<Option<String>, SystemFailure> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let located = match openat(&self.root, path.trim_start_matches('/'), flags, Mode::empty()) {
            Ok(located) => located,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(describe_errno(path, error)),
        };
        let name = |file: &OwnedFd| {
            readlinkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())
        };
        let (Ok(real), Ok(root)) = (name(&located), name(&self.root)) else {
            return Err(SystemFailure::new(path, "cannot be located"));
        };
        let (real, root) =
            (real.to_string_lossy().into_owned(), root.to_string_lossy().into_owned());
        Ok(Some(format!("/{}", real.strip_prefix(&root).unwrap_or(&real).trim_start_matches('/'))))
    }

    fn list_folder(&self, folder: &str) -> Result<Option<Vec<String>>, SystemFailure> {
        let Some(place) = find_place(&self.root, folder)? else { return Ok(None) };
        match place.inspect(folder)? {
            PlaceKind::Nothing => return Ok(None),
            PlaceKind::File => return Err(SystemFailure::new(folder, "is not a folder")),
            PlaceKind::Folder => {}
        }
        let read = || {
            let open = place.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
            let mut names = Vec::new();
            for entry in Dir::new(open)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            names.sort();
            Ok(names)
        };
        read().map(Some).map_err(|error| describe_errno(folder, error))
    }

    fn write_value(&self, path: &str, value: &str) -> Result<(), SystemFailure> {
        let missing = || SystemFailure::new(path, "this kernel has no such value");
        let place = find_place(&self.root, path)?.ok_or_else(missing)?;
        if matches!(place.inspect(path)?, PlaceKind::Nothing) {
            return Err(missing());
        }
        // A test's stand-in for a kernel's file is cut; what lies over a real one is not touched.
        let flags = if self.real { OFlags::WRONLY } else { OFlags::WRONLY | OFlags::TRUNC };
        let file = place.open(flags, Mode::empty()).map_err(|error| describe_errno(path, error))?;
        if self.real {
            let system = rustix::fs::fstatfs(&file).map_err(|error| describe_errno(path, error))?;
            if system.f_type != PROC && system.f_type != SYSFS {
                let why = "does not come from the kernel: something is mounted over it";
                return Err(SystemFailure::new(path, why));
            }
        }
        files::write_all(&file, value.as_bytes()).map_err(|error| describe_errno(path, error))
    }

    fn write_file(
        &self,
        path: &str,
        temporary: &str,
        file: &FileState,
    ) -> Result<(), SystemFailure> {
        files::write(&self.root, path, temporary, file)
    }

    fn remove_file(&self, path: &str) -> Result<(), SystemFailure> {
        let Some(place) = find_place(&self.root, path)? else { return Ok(()) };
        match place.inspect(path)? {
            PlaceKind::Nothing => return Ok(()),
            PlaceKind::Folder => return Err(SystemFailure::new(path, "is a folder")),
            PlaceKind::File => {}
        }
        let removed = unlinkat(&place.folder, place.name.as_str(), AtFlags::empty());
        removed.and_then(|()| fsync(&place.folder)).map_err(|error| describe_errno(path, error))
    }

    fn is_in_other_hands(&self, path: &str) -> bool {
        place::is_in_other_hands(&self.root, path)
    }

    fn make_folder(&self, path: &str, private: bool) -> Result<(), SystemFailure> {
        let Some(place) = find_place(&self.root, path)? else {
            return Err(SystemFailure::new(path, "its folder does not exist"));
        };
        match place.inspect(path)? {
            PlaceKind::Folder => return Ok(()),
            PlaceKind::File => return Err(SystemFailure::new(path, "is not a folder")),
            PlaceKind::Nothing => {}
        }
        let mode = Mode::from_raw_mode(if private { 0o700 } else { 0o755 });
        let made = mkdirat(&place.folder, place.name.as_str(), mode);
        made.and_then(|()| fsync(&place.folder)).map_err(|error| describe_errno(path, error))
    }

    fn remove_folder(&self, path: &str) -> Result<bool, SystemFailure> {
        let Some(place) = find_place(&self.root, path)? else { return Ok(false) };
        if !matches!(place.inspect(path)?, PlaceKind::Folder) {
            return Ok(false);
        }
        match unlinkat(&place.folder, place.name.as_str(), AtFlags::REMOVEDIR) {
            Ok(()) => {
                fsync(&place.folder).map(|()| true).map_err(|error| describe_errno(path, error))
            }
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => Ok(false),
            Err(error) => Err(describe_errno(path, error)),
        }
    }

    fn run(&self, command: &[String], user: Option<&str>) -> Result<Ran, SystemFailure> {
        let (Some((program, arguments)), true) = (command.split_first(), self.real) else {
            let why = "commands run only on the host itself";
            return Err(SystemFailure::new(command.join(" "), why));
        };
        let account = self.find_account(user)?;
        let client = Client::from_path(program, account).ok_or_else(|| {
            SystemFailure::new(program, "the program is not installed").with_advice("install it")
        })?;
        let client = client.map_err(|why| SystemFailure::new(program, why.to_string()))?;
        // What runs as somebody is a server's client.
        let client = if user.is_some() { client.for_server_of(user) } else { client };
        // A command of root's that outlives us holds the lock in our stead, so that nothing is
        // taken back under its hands; not a server that it starts, which would hold it for good,
        // nor what runs as a server's account, which could keep it or let it go.
        let starts = arguments.iter().any(|word| word == "start" || word == "restart");
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let lock = lock.filter(|_| !starts && account.uid == 0);
        let inherit =
            |flags: FdFlags| lock.as_ref().map_or(Ok(()), |lock| fcntl_setfd(lock, flags));
        inherit(FdFlags::empty()).map_err(|error| describe_errno(program, error))?;
        let patience = if user.is_some() && !starts { CLIENT_PATIENCE } else { PATIENCE };
        let ran = client.run_to_end(arguments, patience);
        inherit(FdFlags::CLOEXEC).map_err(|error| describe_errno(program, error))?;
        let ran = ran.map_err(|why| SystemFailure::new(command.join(" "), why.to_string()))?;
        Ok(Ran { success: ran.success, output: ran.answer, complaint: ran.complaint })
    }

    fn sync_file(&self, path: &str) -> Result<(), SystemFailure> {
        let Some(place) = find_place(&self.root, path)? else { return Ok(()) };
        match place.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) {
            Ok(file) => fsync(file).map_err(|error| describe_errno(path, error))?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(describe_errno(path, error)),
        }
        fsync(&place.folder).map_err(|error| describe_errno(path, error))?;
        if path.starts_with("/boot/") {
            // ext4 alone has this call, and it needs it: the others' journals are theirs to write.
            let _ = checkpoint_journal(place.folder.as_fd());
        }
        Ok(())
    }

    fn append_to_file(&self, path: &str, bytes: &[u8]) -> Result<(), SystemFailure> {
        let file = self.open_own_file(path, OFlags::WRONLY | OFlags::APPEND)?;
        let written = files::write_all(&file, bytes).and_then(|()| fsync(&file));
        written.map_err(|error| describe_errno(path, error))
    }

    fn truncate_file(&self, path: &str, length: u64) -> Result<(), SystemFailure> {
        let file = self.open_own_file(path, OFlags::WRONLY)?;
        let cut = ftruncate(&file, length).and_then(|()| fsync(&file));
        cut.map_err(|error| describe_errno(path, error))
    }

    fn take_lock(&self, path: &str) -> Result<Option<Box<dyn SystemLock>>, SystemFailure> {
        Ok(self.hold_lock(path)?.map(|held| Box::new(held) as Box<dyn SystemLock>))
    }

    fn lock_holders(&self, path: &str) -> Vec<Holder> {
        self.open_own_file(path, OFlags::RDWR)
            .map(|file| holder::find_lock_holders(&file))
            .unwrap_or_default()
    }

    fn pause_for(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
