//! The running machine, or for tests a folder that stands for its root.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use hugewise_engines::client::{Account, Client};
use hugewise_host::Source;
use hugewise_host::sys::checkpoint;
use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, flock, fsync, ftruncate, mkdirat, openat, readlinkat, unlinkat,
};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use super::place::{self, At, failure, find};
use super::{Held, Holder, Lock, Ran, System, Unfit, files, holder};
use crate::{Failure, FileState};

/// How long a command may take: making boot loader's files anew asks every disk on some hosts.
const PATIENCE: Duration = Duration::from_secs(600);

/// statfs(2).
const PROC: rustix::fs::FsWord = 0x9fa0;
/// statfs(2).
const SYSFS: rustix::fs::FsWord = 0x6265_6572;

/// The machine.
#[derive(Debug)]
pub struct Live {
    root: OwnedFd,
    real: bool,
    lock: Mutex<Weak<OwnedFd>>,
}

impl Live {
    /// The running machine.
    ///
    /// # Errors
    /// Its root cannot be opened.
    pub fn new() -> Result<Self, Failure> {
        Self::at(Path::new("/"), true)
    }

    /// A folder that stands for the root of a machine. Its kernel values are plain files, and commands are not run.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn beneath(root: &Path) -> Result<Self, Failure> {
        Self::at(root, false)
    }

    fn at(root: &Path, real: bool) -> Result<Self, Failure> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, root, flags, Mode::empty());
        let root = opened.map_err(|error| failure(&root.display().to_string(), error))?;
        Ok(Self { root, real, lock: Mutex::default() })
    }

    /// Takes a lock, which only one process on the machine can hold; `None` where another one does.
    ///
    /// # Errors
    /// Its file cannot be made.
    pub fn hold(&self, path: &str) -> Result<Option<Held>, Failure> {
        let file = Arc::new(self.ours(path, OFlags::RDWR)?);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&file);
                Ok(Some(Held::of(file)))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(failure(path, error)),
        }
    }

    /// Opens a file of ours to write, and the folder that it lies in.
    fn ours(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Failure> {
        let Some(place) = find(&self.root, path)? else {
            return Err(Failure::new(path, "its folder does not exist"));
        };
        let new = matches!(place.look(path)?, At::Nothing);
        let file = place.open(flags | OFlags::CREATE, Mode::RUSR | Mode::WUSR).map_err(|error| failure(path, error))?;
        if new {
            fsync(&place.folder).map_err(|error| failure(path, error))?;
        }
        Ok(file)
    }

    fn account(&self, user: Option<&str>) -> Result<Account, Failure> {
        let Some(user) = user else { return Ok(Account { uid: 0, gid: 0 }) };
        let accounts = self.text("/etc/passwd")?.unwrap_or_default();
        let account = accounts.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(user)).then_some(())?;
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            Some(Account { uid, gid })
        });
        account.ok_or_else(|| Failure::new(user, "no such account in /etc/passwd"))
    }
}

impl System for Live {
    fn now(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.ok().and_then(|since| i64::try_from(since.as_secs()).ok()).unwrap_or_default()
    }

    fn fit(&self) -> Result<(), Unfit> {
        if !self.real {
            return Ok(());
        }
        if !rustix::process::geteuid().is_root() {
            return Err(Unfit::NotRoot);
        }
        for (path, magic) in [("/proc", PROC), ("/sys", SYSFS)] {
            match rustix::fs::statfs(path) {
                Ok(stat) if stat.f_type == magic => {}
                Ok(stat) => {
                    return Err(Unfit::NotReal { path: path.into(), is: format!("file system {:#x}", stat.f_type) });
                }
                Err(error) => return Err(Unfit::NotReal { path: path.into(), is: failure(path, error).why }),
            }
        }
        let source = hugewise_host::source::Live::new();
        match hugewise_host::confined::read(&source, true, &source.machine().own_root) {
            Some(why) => Err(Unfit::Confined { why }),
            None => Ok(()),
        }
    }

    fn text(&self, path: &str) -> Result<Option<String>, Failure> {
        Ok(files::bytes(&self.root, path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn file(&self, path: &str) -> Result<Option<FileState>, Failure> {
        files::read(&self.root, path)
    }

    fn real(&self, path: &str) -> Result<Option<String>, Failure> {
        let located = openat(&self.root, path.trim_start_matches('/'), OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let located = match located {
            Ok(located) => located,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(failure(path, error)),
        };
        let name = |file: &OwnedFd| readlinkat(CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new());
        let (real, root) = (name(&located), name(&self.root));
        let (Ok(real), Ok(root)) = (real, root) else { return Err(Failure::new(path, "cannot be located")) };
        let (real, root) = (real.to_string_lossy().into_owned(), root.to_string_lossy().into_owned());
        Ok(Some(format!("/{}", real.strip_prefix(&root).unwrap_or(&real).trim_start_matches('/'))))
    }

    fn list(&self, folder: &str) -> Result<Option<Vec<String>>, Failure> {
        let Some(place) = find(&self.root, folder)? else { return Ok(None) };
        match place.look(folder)? {
            At::Nothing => return Ok(None),
            At::File => return Err(Failure::new(folder, "is not a folder")),
            At::Folder => {}
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
        read().map(Some).map_err(|error| failure(folder, error))
    }

    fn write_value(&self, path: &str, value: &str) -> Result<(), Failure> {
        let Some(place) = find(&self.root, path)? else {
            return Err(Failure::new(path, "this kernel has no such value"));
        };
        if matches!(place.look(path)?, At::Nothing) {
            return Err(Failure::new(path, "this kernel has no such value"));
        }
        // What stands for a kernel's file in a test is cut; something that lies over one is not touched.
        let flags = if self.real { OFlags::WRONLY } else { OFlags::WRONLY | OFlags::TRUNC };
        let file = place.open(flags, Mode::empty()).map_err(|error| failure(path, error))?;
        if self.real {
            let system = rustix::fs::fstatfs(&file).map_err(|error| failure(path, error))?;
            if system.f_type != PROC && system.f_type != SYSFS {
                return Err(Failure::new(path, "does not come from the kernel: something is mounted over it"));
            }
        }
        files::write_all(&file, value.as_bytes()).map_err(|error| failure(path, error))
    }

    fn write_file(&self, path: &str, temporary: &str, file: &FileState) -> Result<(), Failure> {
        files::write(&self.root, path, temporary, file)
    }

    fn remove_file(&self, path: &str) -> Result<(), Failure> {
        let Some(place) = find(&self.root, path)? else { return Ok(()) };
        match place.look(path)? {
            At::Nothing => return Ok(()),
            At::Folder => return Err(Failure::new(path, "is a folder")),
            At::File => {}
        }
        let removed = unlinkat(&place.folder, place.name.as_str(), AtFlags::empty());
        removed.and_then(|()| fsync(&place.folder)).map_err(|error| failure(path, error))
    }

    fn is_in_other_hands(&self, path: &str) -> bool {
        place::is_in_other_hands(&self.root, path)
    }

    fn make_folder(&self, path: &str, private: bool) -> Result<(), Failure> {
        let Some(place) = find(&self.root, path)? else {
            return Err(Failure::new(path, "its folder does not exist"));
        };
        match place.look(path)? {
            At::Folder => return Ok(()),
            At::File => return Err(Failure::new(path, "is not a folder")),
            At::Nothing => {}
        }
        let mode = Mode::from_raw_mode(if private { 0o700 } else { 0o755 });
        let made = mkdirat(&place.folder, place.name.as_str(), mode);
        made.and_then(|()| fsync(&place.folder)).map_err(|error| failure(path, error))
    }

    fn remove_folder(&self, path: &str) -> Result<bool, Failure> {
        let Some(place) = find(&self.root, path)? else { return Ok(false) };
        if !matches!(place.look(path)?, At::Folder) {
            return Ok(false);
        }
        match unlinkat(&place.folder, place.name.as_str(), AtFlags::REMOVEDIR) {
            Ok(()) => fsync(&place.folder).map(|()| true).map_err(|error| failure(path, error)),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => Ok(false),
            Err(error) => Err(failure(path, error)),
        }
    }

    fn run(&self, command: &[String], user: Option<&str>) -> Result<Ran, Failure> {
        let (Some((program, arguments)), true) = (command.split_first(), self.real) else {
            return Err(Failure::new(command.join(" "), "commands run only on the host itself"));
        };
        let account = self.account(user)?;
        let client = match Client::at(program, account) {
            Some(Ok(client)) => client,
            Some(Err(why)) => return Err(Failure::new(program, why.to_string())),
            None => return Err(Failure::new(program, "the program is not installed").advising("install it")),
        };
        // A command that outlives us holds the lock in our stead, so that nothing is taken back under its hands;
        // not a server that it starts, which would hold it for good.
        let starts = arguments.iter().any(|word| word == "start" || word == "restart");
        let lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner).upgrade().filter(|_| !starts);
        let inherit = |flags: FdFlags| lock.as_ref().map_or(Ok(()), |lock| fcntl_setfd(lock, flags));
        inherit(FdFlags::empty()).map_err(|error| failure(program, error))?;
        let ran = client.run_to_end(arguments, PATIENCE);
        inherit(FdFlags::CLOEXEC).map_err(|error| failure(program, error))?;
        match ran {
            Ok(outcome) => Ok(Ran { success: outcome.success, output: outcome.answer, complaint: outcome.complaint }),
            Err(why) => Err(Failure::new(command.join(" "), why.to_string())),
        }
    }

    fn sync(&self, path: &str) -> Result<(), Failure> {
        let Some(place) = find(&self.root, path)? else { return Ok(()) };
        match place.open(OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) {
            Ok(file) => fsync(file).map_err(|error| failure(path, error))?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(failure(path, error)),
        }
        fsync(&place.folder).map_err(|error| failure(path, error))?;
        if path.starts_with("/boot/") {
            // ext4 alone has this call, and it needs it: the others' journals are theirs to write.
            let _ = checkpoint(place.folder.as_fd());
        }
        Ok(())
    }

    fn append(&self, path: &str, bytes: &[u8]) -> Result<(), Failure> {
        let file = self.ours(path, OFlags::WRONLY | OFlags::APPEND)?;
        files::write_all(&file, bytes).and_then(|()| fsync(&file)).map_err(|error| failure(path, error))
    }

    fn cut(&self, path: &str, length: u64) -> Result<(), Failure> {
        let file = self.ours(path, OFlags::WRONLY)?;
        ftruncate(&file, length).and_then(|()| fsync(&file)).map_err(|error| failure(path, error))
    }

    fn lock(&self, path: &str) -> Result<Option<Box<dyn Lock>>, Failure> {
        Ok(self.hold(path)?.map(|held| Box::new(held) as Box<dyn Lock>))
    }

    fn holders(&self, path: &str) -> Vec<Holder> {
        self.ours(path, OFlags::RDWR).map(|file| holder::holders(&file)).unwrap_or_default()
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
