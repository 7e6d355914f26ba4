//! The one door through which the machine is read.

/// Makes a wrapper of [`captured::Captured`] a source: it answers as what it wraps.
macro_rules! source_of_captured {
    ($wrapper:ty) => {
        impl $crate::Source for $wrapper {
            fn read(&self, path: &str) -> hugewise_model::Observed<Vec<u8>> {
                self.0.read(path)
            }

            fn read_part(
                &self,
                path: &str,
                before: Option<u64>,
                max: u64,
            ) -> hugewise_model::Observed<$crate::source::Part> {
                self.0.read_part(path, before, max)
            }

            fn list(&self, folder: &str) -> hugewise_model::Observed<Vec<String>> {
                self.0.list(folder)
            }

            fn link(&self, path: &str) -> hugewise_model::Observed<String> {
                self.0.link(path)
            }

            fn mapping_page_size(&self, pid: u32, start: u64) -> hugewise_model::Observed<hugewise_model::PageSize> {
                self.0.mapping_page_size(pid, start)
            }

            fn changed_since_start(
                &self,
                owner: &$crate::source::Owner,
                path: &str,
                pid: u32,
            ) -> hugewise_model::Observed<bool> {
                self.0.changed_since_start(owner, path, pid)
            }

            fn changed_after(&self, path: &str, than: &str) -> hugewise_model::Observed<bool> {
                self.0.changed_after(path, than)
            }

            fn machine(&self) -> $crate::source::Machine {
                self.0.machine()
            }

            fn problems(&self) -> Vec<hugewise_model::Unread> {
                self.0.problems()
            }

            fn torn(&self) -> Option<String> {
                self.0.torn()
            }
        }
    };
}

mod ahead;
pub mod archive;
mod beneath;
mod bounds;
pub(crate) mod captured;
mod errno;
pub mod files;
pub mod folder;
mod kept_open;
pub(crate) mod kernel_files;
mod kernel_systems;
pub mod live;
pub mod map;
mod once;
pub mod overlay;
mod own_root;
pub mod owned;
pub mod owner;
mod patient;
pub mod recording;
pub mod remembered;
mod sosreport;
mod still;
pub mod tarred;
mod threads;
pub(crate) mod tree;
mod turns;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hugewise_model::{Observed, PageSize, Process, Unread};

use crate::kernel::meminfo;
use crate::process::status::Matters;

pub use archive::Archive;
pub(crate) use bounds::LONGEST_COMMAND;
pub use folder::Folder;
pub use live::{Between, Live};
pub use map::MapSource;
pub use once::Once;
pub use overlay::Overlay;
pub use owned::{Budgets, Limits, Owned};
pub use owner::Owner;
pub use recording::Recording;
pub use remembered::{Remembered, Stamp};
pub use turns::Turns;

/// Where facts come from: the live machine, a captured folder, a tar, or a test's own map.
///
/// Paths are absolute and speak of the host's own root: `/proc/meminfo`. A path of the form
/// `/proc/PID/root/REST` means REST in the mount namespace of that process. No path ever leads
/// out of the root it is relative to: symbolic links are followed inside it, as `chroot` would.
pub trait Source {
    /// A whole file, at most [`MAX_FILE`] bytes of it; a longer one is malformed.
    fn read(&self, path: &str) -> Observed<Vec<u8>>;

    /// A file that is looked through for lines of one kind, at most `most` bytes of it; a longer one is malformed. A recording
    /// keeps nothing of it: what is found worth keeping is read.
    ///
    /// By itself this reads the whole file; a source that can tell its size before does.
    fn glance(&self, path: &str, most: u64) -> Observed<Vec<u8>> {
        let small = |bytes: &Vec<u8>| u64::try_from(bytes.len()).is_ok_and(|length| length <= most);
        match self.read(path) {
            Observed::Known(bytes) if !small(&bytes) => Observed::Malformed(format!("larger than {most} bytes")),
            answer => answer,
        }
    }

    /// Says that what a glance at a file told is used: a recording keeps it as if it had been read.
    fn keep(&self, path: &str, answer: &Observed<Vec<u8>>) {
        let _ = (path, answer);
    }

    /// The last `max` bytes of a file of any size that come before the offset `before`, or before its end.
    ///
    /// By itself this reads the whole file; a source that can read at an offset does.
    fn read_part(&self, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        self.read(path).map(|bytes| Part::of(&bytes, before, max))
    }

    /// Names in a folder, sorted, without `.` and `..`.
    fn list(&self, folder: &str) -> Observed<Vec<String>>;

    /// Where a symbolic link points, as it is written; magic links of /proc as the kernel prints them.
    fn link(&self, path: &str) -> Observed<String>;

    /// A file as the owner of a server may read it, at most `most` bytes of it. What he may not see is denied, and what has
    /// nobody's rights any more, as in a capture, is what [`read`](Self::read) tells.
    fn read_as(&self, owner: &Owner, path: &str, most: u64) -> Observed<Vec<u8>> {
        let _ = owner;
        self.read(path).and_then(|bytes| owned::bounded(bytes, most))
    }

    /// [`read_part`](Self::read_part) as the owner of a server may.
    fn read_part_as(&self, owner: &Owner, path: &str, before: Option<u64>, max: u64) -> Observed<Part> {
        let _ = owner;
        self.read_part(path, before, max)
    }

    /// [`list`](Self::list) as the owner of a server may, at most `most` bytes of names.
    fn list_as(&self, owner: &Owner, folder: &str, most: u64) -> Observed<Vec<String>> {
        let _ = (owner, most);
        self.list(folder)
    }

    /// [`link`](Self::link) as the owner of a server may.
    fn link_as(&self, owner: &Owner, path: &str) -> Observed<String> {
        let _ = owner;
        self.link(path)
    }

    /// The kernel's own page size of the mapping of `pid` that starts at `start`
    /// (hugetlb or base page; THP does not show), where it can be asked: PROCMAP_QUERY on
    /// Linux 6.11 and later, or the answers that a capture kept. Absent where it cannot.
    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize>;

    /// Who owns the file that a process runs, replaced since or not; absent where nobody can be asked, as in a capture.
    fn owner_of_executable(&self, pid: u32) -> Observed<u32> {
        let _ = pid;
        Observed::Absent
    }

    /// What stands at a path, links followed or not, and when that was last changed; `None` where no such answer can be
    /// relied on: of the kernel's own files, of what was changed a moment ago, in a capture.
    fn stamp(&self, path: &str, follow: bool) -> Option<Stamp> {
        let _ = (path, follow);
        None
    }

    /// Who owns what lies at a path, a link itself where it is one; absent where nobody can be asked, as in a capture.
    fn owner_of(&self, path: &str) -> Observed<u32> {
        let _ = path;
        Observed::Absent
    }

    /// Whether what lies at a path was changed, or put there, after a process began, as far as its owner has a way to it; absent
    /// where nobody can be asked. A capture keeps the answers; a tar and a sosreport have none: they hold when a file was last
    /// written, and one that is older than the process may have been put in the place of another since.
    fn changed_since_start(&self, owner: &Owner, path: &str, pid: u32) -> Observed<bool> {
        let _ = (owner, path, pid);
        Observed::Absent
    }

    /// Whether what lies at a path, or a link there, was changed or put there after the file `than` was last written; absent
    /// where one of them is not there, or where nobody can be asked, as in a tar. A capture keeps the answers.
    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        let _ = (path, than);
        Observed::Absent
    }

    /// What all threads of a process have run so far, ended ones too; absent where nobody can be asked, as in a capture.
    fn cpu_time(&self, pid: u32) -> Observed<Duration> {
        let _ = pid;
        Observed::Absent
    }

    /// Processes that /proc lists, in any order.
    fn processes(&self) -> Observed<Vec<Listed>> {
        let listed = |name: &String| Some(Listed { pid: name.parse().ok()?, identity: None });
        self.list("/proc").map(|names| names.iter().filter_map(listed).collect())
    }

    /// Says that these processes will be asked for next, in this order: a source that can read ahead does. Nobody will ask
    /// for the mappings of one that [has none](crate::process::status::Status::could_map) that matters.
    fn ahead(&self, next: &[Next], matters: Matters) {
        let _ = (next, matters);
    }

    /// Whether one of the [next](Self::ahead) processes was found to map what it mapped when it was read before. A source that
    /// does not read ahead does not look.
    fn maps_hold(&self, pid: u32) -> bool {
        let _ = pid;
        false
    }

    /// Facts that are in no file: what the processor and the C library's calls tell.
    fn machine(&self) -> Machine;

    /// What is wrong with the source itself: a tar that ends too early, files left out for their size.
    fn problems(&self) -> Vec<Unread> {
        Vec::new()
    }

    /// Where the source ends before its end: of what came after, not even the names are known.
    fn torn(&self) -> Option<String> {
        None
    }
}

/// A process that /proc lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its number, which another process may have once it has ended.
    pub pid: u32,
    /// The inode of its folder: the kernel gives each process's another one, and gives one anew where it forgot the old one for
    /// want of memory. `None` where nobody can be asked, as in a capture.
    pub identity: Option<u64>,
}

/// A process that will be asked for next.
#[derive(Clone, Debug)]
pub struct Next {
    /// Its number.
    pub pid: u32,
    /// What will be asked of it.
    pub known: Known,
}

/// What is known of a process already, and so not asked for again.
#[derive(Clone, Debug)]
pub enum Known {
    /// Nothing: all of it is asked for.
    Nothing,
    /// What it was when it was read, as it is still that one; it has run since.
    Ran(Arc<Process>),
    /// The same of one that has not run since: only what others can change of it is asked for.
    Rested(Arc<Process>),
}

impl Known {
    /// The process as it was read before.
    pub const fn before(&self) -> Option<&Arc<Process>> {
        match self {
            Self::Nothing => None,
            Self::Ran(before) | Self::Rested(before) => Some(before),
        }
    }
}

/// A part of a file that may be too large to be read whole: a server's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// What was read.
    pub bytes: Vec<u8>,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's length at that moment; it may be growing.
    pub total: u64,
    /// Device and inode where there are any: a log may be rotated between two reads.
    pub identity: Option<(u64, u64)>,
}

impl Part {
    /// The last `max` bytes of `whole` before the offset `before`, or before its end.
    pub fn of(whole: &[u8], before: Option<u64>, max: u64) -> Self {
        let total = u64::try_from(whole.len()).unwrap_or(u64::MAX);
        let end = before.unwrap_or(total).min(total);
        let offset = end.saturating_sub(max);
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = whole.get(at(offset)..at(end)).unwrap_or_default().to_vec();
        Self { bytes, offset, total, identity: None }
    }
}

/// Splits `/proc/PID/root/REST` into `/proc/PID/root` and `REST`.
pub(crate) fn split_process_root(path: &str) -> Option<(&str, &str)> {
    let pid_and_rest = path.strip_prefix("/proc/")?;
    let (pid, rest) = pid_and_rest.split_once('/')?;
    if pid.is_empty() || !pid.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let inside = rest.strip_prefix("root/")?;
    Some((path.get(..path.len().checked_sub(inside.len() + 1)?)?, inside))
}

/// The names in a path, without empty ones. A name is a few bytes long, and `str::split` searches as if for a rare letter in a
/// long text: with the thousands of paths of a captured host that took more time than the parsing of its files.
pub(crate) fn names(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        loop {
            let end = rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len());
            let name = rest.get(..end)?;
            rest = rest.get(end + 1..).unwrap_or_default();
            if !name.is_empty() {
                return Some(name);
            }
            if rest.is_empty() {
                return None;
            }
        }
    })
}

/// The largest file that is read: none of those read here comes near it.
pub(crate) const MAX_FILE: u64 = 16 << 20;

/// Facts that are in no file. A capture keeps them in `/hugewise/capture.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Whether this is the running machine.
    pub live: bool,
    /// AT_PAGESZ.
    pub base_page: Observed<PageSize>,
    /// Seconds since the epoch.
    pub read_at: Observed<i64>,
    /// Effective user id of the reader.
    pub read_as: Observed<u32>,
    /// Whether the root folder is that of the first process and of the kernel's own threads: not so in a chroot, and in a
    /// container that shares the host's pid namespace.
    pub own_root: Observed<bool>,
    /// What kept whoever captured the host from seeing every process of it; of the running host its /proc tells that.
    pub hidden: Option<String>,
    /// `uname -m`.
    pub architecture: Observed<String>,
    /// Translation buffers as CPUID tells.
    pub tlb: Observed<Vec<hugewise_model::host::TlbLevel>>,
}

/// Opens the running machine, or what a host left behind: a folder, or a tar of one.
///
/// # Errors
/// What is at `root` is neither, or cannot be read; there is no host in it. Of a host without /proc/meminfo nothing could be
/// told, and nothing is no good news.
pub fn open(root: Option<&Path>) -> Result<Box<dyn Source>, OpenError> {
    let Some(path) = root else {
        let live = Live::new();
        return match live.read(meminfo::PATH).reason() {
            None => Ok(Box::new(live)),
            Some(why) => Err(OpenError::new(Path::new(meminfo::PATH), format!("{why}: {WITHOUT_PROC}"))),
        };
    };
    let stat = rustix::fs::stat(path).map_err(|error| OpenError::io(path, error.into()))?;
    let source: Box<dyn Source> = match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::Directory => Box::new(Folder::open(path)?),
        rustix::fs::FileType::RegularFile => Box::new(Archive::open(path)?),
        _ => return Err(OpenError::new(path, "it is neither a folder nor a file".into())),
    };
    complete(source, path)
}

/// A host from the bytes of a tar, which is called by its path.
///
/// # Errors
/// They are none, or there is no host in them.
pub fn unpacked(bytes: &[u8], path: &Path) -> Result<Box<dyn Source>, OpenError> {
    if bytes.is_empty() {
        return Err(OpenError::new(path, "is empty".into()));
    }
    complete(Box::new(Archive::of(bytes, path)?), path)
}

/// Of a host without /proc/meminfo nothing can be told.
fn complete(source: Box<dyn Source>, path: &Path) -> Result<Box<dyn Source>, OpenError> {
    match source.read(meminfo::PATH).reason() {
        None => Ok(source),
        Some(why) => {
            let torn = source.torn().map(|torn| format!("; it is {torn}")).unwrap_or_default();
            Err(OpenError::other(
                path,
                format!("it is not a complete host: proc/meminfo is {why}{torn}. {WITH_MEMINFO}"),
            ))
        }
    }
}

/// What to do where this host's own /proc does not answer.
const WITHOUT_PROC: &str = "hugewise cannot check this host without /proc. Mount it (mount -t proc proc /proc), or run hugewise \
     outside this chroot or container";

/// What to do where a captured host has no such file.
const WITH_MEMINFO: &str =
    "Give the top folder of a capture (made by hugewise capture), of a sosreport or of a host's root, or a tar of one";

/// Why a captured host cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// What was to be opened.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
    /// Whether it may be something else than a host: no tar, no host in it, or the larger part of one is missing. What is refused
    /// or cannot be read is not that.
    pub other: bool,
}

impl OpenError {
    pub(crate) fn new(path: &Path, what: String) -> Self {
        Self { path: path.to_owned(), what, other: false }
    }

    fn other(path: &Path, what: String) -> Self {
        Self { other: true, ..Self::new(path, what) }
    }

    pub(crate) fn of(path: &Path, why: &tarred::NotTaken) -> Self {
        Self { other: matches!(why, tarred::NotTaken::NoTar(_)), ..Self::new(path, why.to_string()) }
    }

    pub(crate) fn io(path: &Path, error: std::io::Error) -> Self {
        Self::new(path, error.to_string())
    }

    pub(crate) fn not_a_host(path: &Path) -> Self {
        let expected =
            "a capture, a sosreport or a host's root directory has at least one of proc, sys, hugewise, sos_commands";
        Self::other(path, format!("there is no captured host in it: {expected}"))
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for OpenError {}

/// Whether a folder of these names can be a host's root.
pub(crate) fn looks_like_a_host(names: &[String]) -> bool {
    names.iter().any(|name| matches!(name.as_str(), "proc" | "sys" | "hugewise" | "sos_commands"))
}
