//! The one way to read a machine: [`Source`], the live `/`, a folder like one, or an archive of it.

pub mod archive;
pub mod as_owner;
pub mod captured;
pub mod compressed;
mod errno;
mod fact_reader;
pub mod files;
pub mod folder;
pub mod kernel_files;
mod kernel_filesystems;
pub mod live;
pub mod map;
mod memoized;
mod minute_cache;
mod openat2;
pub mod output_place;
pub mod overlay;
mod own_root;
pub mod owner;
mod process_files;
mod read_limits;
pub mod recording;
mod sosreport;
pub mod sys;
pub mod tarred;
mod timed_read;
pub mod tlb;
pub mod tree;
pub mod trust;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hugewise_model::{Observed, PageSize, Unread};

pub use archive::ArchiveSource;
pub use as_owner::{Budgets, OwnerReadLimits, OwnerSource};
pub use fact_reader::{FactReader, ParseError};
pub use folder::FolderSource;
pub use live::LiveSource;
pub use map::MapSource;
pub use memoized::MemoizedSource;
pub use minute_cache::{ConfigCache, LONGEST_REUSE, MinuteCache};
pub use overlay::OverlaySource;
pub use owner::Owner;
pub use read_limits::{LONGEST_COMMAND, is_too_large};
pub use recording::RecordingSource;
pub use trust::TrustedWriters;

/// Where facts come from: the live machine, a captured folder, a tar, or a test's own map; readers
/// ask it, and [`RawSource`] answers.
///
/// Paths are absolute on the host: `/proc/meminfo`; `/proc/PID/root/REST` is REST in that process's
/// mount namespace. Links are followed inside their root, as `chroot` would: no path leads out.
pub trait Source: RawSource {
    /// A whole file; one of more than [`MAX_FILE`] bytes is malformed.
    fn read(&self, path: &str) -> Observed<Vec<u8>> {
        self.read_file(&FileRequest::whole_file(path, MAX_FILE)).map(|part| part.bytes)
    }

    /// A file that is searched for lines of one kind; one of more than `most` bytes is malformed. A
    /// recording does not keep it.
    fn read_limited(&self, path: &str, most: u64) -> Observed<Vec<u8>> {
        let request = FileRequest { is_glance: true, ..FileRequest::whole_file(path, most) };
        self.read_file(&request).map(|part| part.bytes)
    }

    /// The last `max` bytes of a file of any size before the offset `before`, or before its end.
    fn read_part(&self, path: &str, before: Option<u64>, max: u64) -> Observed<FilePart> {
        let extent = FileExtent::Last { before, most: max };
        self.read_file(&FileRequest { extent, ..FileRequest::whole_file(path, max) })
    }

    /// A file as a server's owner may read it, at most `most` bytes of it.
    fn read_as(&self, owner: &Owner, path: &str, most: u64) -> Observed<Vec<u8>> {
        let request = FileRequest { reader: Some(owner), ..FileRequest::whole_file(path, most) };
        self.read_file(&request).map(|part| part.bytes)
    }

    /// Names in a folder, sorted, without `.` and `..`.
    fn list_folder(&self, folder: &str) -> Observed<Vec<String>> {
        self.folder_names(folder, None, u64::MAX)
    }

    /// Where a symbolic link points, as written; magic links of /proc as the kernel prints them.
    fn read_link(&self, path: &str) -> Observed<String> {
        self.link_target(path, None)
    }

    /// Whether root alone can have put what is at a path.
    fn check_root_alone(&self, path: &str) -> Observed<()> {
        self.check_writers(path, &TrustedWriters::ROOT_ALONE)
    }
}

impl<S: RawSource> Source for S {}

/// What answers the questions of [`Source`], itself or by another source.
///
/// A `reader` is the owner of a server: what he may not see is denied. A capture, which keeps no
/// rights, shows everything.
pub trait RawSource {
    /// The source that answers what this one does not answer itself.
    fn base(&self) -> Option<&dyn Source> {
        None
    }

    /// A file, or a part of one.
    fn read_file(&self, request: &FileRequest<'_>) -> Observed<FilePart> {
        self.base().map_or(Observed::Absent, |base| base.read_file(request))
    }

    /// Names in a folder, sorted, without `.` and `..`: at most `most` bytes of them.
    fn folder_names(
        &self,
        folder: &str,
        reader: Option<&Owner>,
        most: u64,
    ) -> Observed<Vec<String>> {
        self.base().map_or(Observed::Absent, |base| base.folder_names(folder, reader, most))
    }

    /// Where a symbolic link points, as it is written.
    fn link_target(&self, path: &str, reader: Option<&Owner>) -> Observed<String> {
        self.base().map_or(Observed::Absent, |base| base.link_target(path, reader))
    }

    /// Who owns what is at a path, the link itself for a link; absent in a capture.
    fn owner_of(&self, path: &str) -> Observed<u32> {
        self.base().map_or(Observed::Absent, |base| base.owner_of(path))
    }

    /// Known where only these can have put what is at a path, and can replace it: no folder and no
    /// link on the way is another's. Malformed says whose; absent where nothing is there, though
    /// only they could put it there, and in a capture.
    fn check_writers(&self, path: &str, writers: &TrustedWriters) -> Observed<()> {
        self.base().map_or(Observed::Absent, |base| base.check_writers(path, writers))
    }

    /// Whether what is at a path was changed, or put there, after a process began, as far as its
    /// owner has access. A capture keeps the answers; a tar and a sosreport have none, as their
    /// modification times do not show a file that replaced another.
    fn changed_since_start(&self, owner: &Owner, path: &str, pid: u32) -> Observed<bool> {
        self.base().map_or(Observed::Absent, |base| base.changed_since_start(owner, path, pid))
    }

    /// Whether what is at a path, or a link there, was changed after the file `than` was written. A
    /// capture keeps the answers; absent in a tar, or where one of them is missing.
    fn changed_after(&self, path: &str, than: &str) -> Observed<bool> {
        self.base().map_or(Observed::Absent, |base| base.changed_after(path, than))
    }

    /// Answers about processes that no file has.
    fn processes(&self) -> &dyn ProcessSource;

    /// Facts that are in no file: what the processor and the C library's calls tell.
    fn machine_facts(&self) -> MachineFacts {
        self.base().map(RawSource::machine_facts).unwrap_or_default()
    }

    /// What is wrong with the source itself: a truncated tar, files left out for their size.
    fn list_problems(&self) -> Vec<Unread> {
        self.base().map(RawSource::list_problems).unwrap_or_default()
    }

    /// Where the source is cut off: of what followed, not even the names are known.
    fn truncated_at(&self) -> Option<String> {
        self.base().and_then(RawSource::truncated_at)
    }
}

/// Answers about processes that no file has; absent in a capture.
pub trait ProcessSource {
    /// Processes that /proc lists, in any order.
    fn list_processes(&self) -> Observed<Vec<ListedProcess>>;

    /// The kernel's page size of the mapping of `pid` that starts at `start` (hugetlb or base page,
    /// not THP): PROCMAP_QUERY of Linux 6.11 and later, or a capture's answers to it.
    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize>;

    /// Known where only these may write to the file that a process runs, replaced since or not, and
    /// the file's owner is one of them; malformed says who else.
    fn check_writers_of_executable(&self, pid: u32, writers: &TrustedWriters) -> Observed<()> {
        let _ = (pid, writers);
        Observed::Absent
    }

    /// The same for the file behind one of its mappings, which may have no name any more.
    fn check_writers_of_mapping(
        &self,
        pid: u32,
        addresses: (u64, u64),
        writers: &TrustedWriters,
    ) -> Observed<()> {
        let _ = (pid, addresses, writers);
        Observed::Absent
    }

    /// Says whose command lines, links and perhaps mappings are read next.
    fn read_ahead(&self, processes: &[ExpectedProcess]) {
        let _ = processes;
    }

    /// Processor time of all threads of a process, ended ones too.
    fn cpu_time(&self, pid: u32) -> Observed<Duration> {
        let _ = pid;
        Observed::Absent
    }
}

/// What is asked of a file.
#[derive(Clone, Copy, Debug)]
pub struct FileRequest<'a> {
    /// Where it lies.
    pub path: &'a str,
    /// The owner of a server on whose behalf it is read.
    pub reader: Option<&'a Owner>,
    /// How much of it.
    pub extent: FileExtent,
    /// Whether nothing of it is used, so that a recording does not keep it.
    pub is_glance: bool,
}

/// How much is read of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileExtent {
    /// All of it; a larger file is malformed.
    Whole {
        /// In bytes.
        most: u64,
    },
    /// The last bytes before an offset, or before the end.
    Last {
        /// The offset.
        before: Option<u64>,
        /// In bytes.
        most: u64,
    },
}

impl<'a> FileRequest<'a> {
    /// All of a file, as whoever runs the program may read it.
    pub const fn whole_file(path: &'a str, most: u64) -> Self {
        Self { path, reader: None, extent: FileExtent::Whole { most }, is_glance: false }
    }

    /// This request's answer from the whole file.
    pub fn answer_from(&self, whole: Observed<Vec<u8>>) -> Observed<FilePart> {
        whole.and_then(|bytes| match self.extent {
            FileExtent::Whole { most } => {
                as_owner::limit_file_size(bytes, most).map(FilePart::whole_file)
            }
            FileExtent::Last { before, most } => {
                Observed::Known(FilePart::from_whole(&bytes, before, most))
            }
        })
    }
}

impl FileExtent {
    /// The same with a limit.
    #[must_use]
    pub fn at_most(self, limit: u64) -> Self {
        match self {
            Self::Whole { most } => Self::Whole { most: most.min(limit) },
            Self::Last { before, most } => Self::Last { before, most: most.min(limit) },
        }
    }
}

pub(crate) fn processes_by_name(
    names: Observed<Vec<String>>,
    identity: impl Fn(u32) -> Option<u64>,
) -> Observed<Vec<ListedProcess>> {
    let listed = |name: &String| {
        let pid = name.parse().ok()?;
        Some(ListedProcess { pid, identity: identity(pid) })
    };
    names.map(|names| names.iter().filter_map(listed).collect())
}

/// A process whose files are read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedProcess {
    /// Its number.
    pub pid: u32,
    /// Whether its mappings are read too.
    pub reads_maps: bool,
}

/// A process that /proc lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedProcess {
    /// Its number, which another process may have once it has ended.
    pub pid: u32,
    /// The inode of its folder, which tells a reused pid; `None` in a capture. The kernel also
    /// changes it when it forgot the old one for want of memory.
    pub identity: Option<u64>,
}

/// A part of a file that may be too large to be read whole: a server's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePart {
    /// What was read.
    pub bytes: Vec<u8>,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's length at that moment; it may be growing.
    pub total: u64,
    /// Device and inode, where known: a log may be rotated between two reads.
    pub identity: Option<(u64, u64)>,
}

impl FilePart {
    /// All of a file.
    pub fn whole_file(bytes: Vec<u8>) -> Self {
        let total = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Self { bytes, offset: 0, total, identity: None }
    }

    /// The last `max` bytes of `whole` before the offset `before`, or before its end.
    pub fn from_whole(whole: &[u8], before: Option<u64>, max: u64) -> Self {
        let total = u64::try_from(whole.len()).unwrap_or(u64::MAX);
        let end = before.unwrap_or(total).min(total);
        let offset = end.saturating_sub(max);
        let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
        let bytes = whole.get(at(offset)..at(end)).unwrap_or_default().to_vec();
        Self { bytes, offset, total, identity: None }
    }
}

/// Splits `/proc/PID/root/REST` into `/proc/PID/root` and `REST`.
pub fn split_process_root(path: &str) -> Option<(&str, &str)> {
    let pid_and_rest = path.strip_prefix("/proc/")?;
    let (pid, rest) = pid_and_rest.split_once('/')?;
    if pid.is_empty() || !pid.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let inside = rest.strip_prefix("root/")?;
    Some((path.get(..path.len().checked_sub(inside.len() + 1)?)?, inside))
}

/// The names in a path, without empty ones. `str::split` is made for rare letters in long texts:
/// with a capture's thousands of paths it took more time than parsing the files.
pub(crate) fn path_components(path: &str) -> impl Iterator<Item = &str> {
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

/// No file that is read as a whole comes near it.
pub const MAX_FILE: u64 = 16 << 20;

/// Facts that are in no file. A capture keeps them in `/hugewise/capture.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// Whether this is the running machine.
    pub live: bool,
    /// AT_PAGESZ.
    pub base_page: Observed<PageSize>,
    /// Seconds since the epoch.
    pub read_at: Observed<i64>,
    /// Effective user id of the reader.
    pub read_as: Observed<u32>,
    /// Whether the root folder is that of pid 1 and of kernel threads: not in a chroot, nor in a
    /// container that shares the host's pid namespace.
    pub own_root: Observed<bool>,
    /// What kept the capturing user from seeing every process.
    pub hidden: Option<String>,
    /// `uname -m`.
    pub architecture: Observed<String>,
    /// Translation buffers by CPUID.
    pub tlb: Observed<Vec<hugewise_model::host::TlbLevel>>,
}

/// Opens the running machine, or what a host left behind: a folder, or a tar of one. Errors: `root`
/// is neither, cannot be read, or has no /proc/meminfo, without which nothing is known.
pub fn open_source(root: Option<&Path>) -> Result<Box<dyn Source>, OpenError> {
    let Some(path) = root else {
        let live = LiveSource::new();
        return match live.read(MEMINFO).reason_text() {
            None => Ok(Box::new(live)),
            Some(why) => Err(OpenError::new(Path::new(MEMINFO), format!("{why}: {WITHOUT_PROC}"))),
        };
    };
    let stat = rustix::fs::stat(path).map_err(|error| OpenError::from_io(path, error.into()))?;
    let source: Box<dyn Source> = match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::Directory => Box::new(FolderSource::open(path)?),
        rustix::fs::FileType::RegularFile => Box::new(ArchiveSource::open(path)?),
        _ => return Err(OpenError::new(path, "it is neither a folder nor a file".into())),
    };
    require_meminfo(source, path)
}

/// A host from the bytes of a tar; errors name its path.
/// Errors: they are no tar, or there is no host in it.
pub fn open_archive_bytes(bytes: &[u8], path: &Path) -> Result<Box<dyn Source>, OpenError> {
    if bytes.is_empty() {
        return Err(OpenError::new(path, "is empty".into()));
    }
    require_meminfo(Box::new(ArchiveSource::from_stream(bytes, path)?), path)
}

fn require_meminfo(source: Box<dyn Source>, path: &Path) -> Result<Box<dyn Source>, OpenError> {
    match source.read(MEMINFO).reason_text() {
        None => Ok(source),
        Some(why) => {
            let torn =
                source.truncated_at().map(|torn| format!("; it is {torn}")).unwrap_or_default();
            Err(OpenError::not_this_kind(
                path,
                format!("it is not a complete host: proc/meminfo is {why}{torn}. {WITH_MEMINFO}"),
            ))
        }
    }
}

const MEMINFO: &str = "/proc/meminfo";

const WITHOUT_PROC: &str = "hugewise cannot check this host without /proc. Mount it (mount -t proc \
     proc /proc), or run hugewise outside this chroot or container";

const WITH_MEMINFO: &str = "Give the top folder of a capture (made by hugewise capture), of a \
     sosreport or of a host's root, or a tar of one";

/// Why a captured host cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenError {
    /// What was to be opened.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
    /// Whether it may be something other than a host: no tar, no host in it, or an incomplete one.
    pub other: bool,
}

impl OpenError {
    pub(crate) fn new(path: &Path, what: String) -> Self {
        Self { path: path.to_owned(), what, other: false }
    }

    fn not_this_kind(path: &Path, what: String) -> Self {
        Self { other: true, ..Self::new(path, what) }
    }

    pub(crate) fn from_tar_error(path: &Path, why: &tarred::TarError) -> Self {
        Self {
            other: matches!(why, tarred::TarError::NoTar(_)),
            ..Self::new(path, why.to_string())
        }
    }

    pub(crate) fn from_io(path: &Path, error: std::io::Error) -> Self {
        Self::new(path, error.to_string())
    }

    pub(crate) fn not_a_host(path: &Path) -> Self {
        let expected = "a capture, a sosreport or a host's root directory has at least one of \
             proc, sys, hugewise, sos_commands";
        Self::not_this_kind(path, format!("there is no captured host in it: {expected}"))
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for OpenError {}

pub(crate) fn looks_like_a_host(names: &[String]) -> bool {
    names.iter().any(|name| matches!(name.as_str(), "proc" | "sys" | "hugewise" | "sos_commands"))
}
