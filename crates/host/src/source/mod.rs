//! The one door through which the machine is read.

mod beneath;
pub mod live;
pub mod map;
mod tree;

use hugewise_model::{Observed, PageSize, Unread};

pub use live::Live;
pub use map::MapSource;

/// Where facts come from: the live machine, a captured folder, a tar, or a test's own map.
///
/// Paths are absolute and speak of the host's own root: `/proc/meminfo`. A path of the form
/// `/proc/PID/root/REST` means REST in the mount namespace of that process. No path ever leads
/// out of the root it is relative to: symbolic links are followed inside it, as `chroot` would.
pub trait Source {
    /// A whole file, at most [`MAX_FILE`] bytes of it; a longer one is malformed.
    fn read(&self, path: &str) -> Observed<Vec<u8>>;

    /// Names in a folder, sorted, without `.` and `..`.
    fn list(&self, folder: &str) -> Observed<Vec<String>>;

    /// Where a symbolic link points, as it is written; magic links of /proc as the kernel prints them.
    fn link(&self, path: &str) -> Observed<String>;

    /// The kernel's own page size of the mapping of `pid` that starts at `start`
    /// (hugetlb or base page; THP does not show), where it can be asked: PROCMAP_QUERY on
    /// Linux 6.11 and later, or the answers that a capture kept. Absent where it cannot.
    fn mapping_page_size(&self, pid: u32, start: u64) -> Observed<PageSize>;

    /// Facts that are in no file: what the processor and the C library's calls tell.
    fn machine(&self) -> Machine;

    /// What is wrong with the source itself: a tar that ends too early, files left out for their size.
    fn problems(&self) -> Vec<Unread> {
        Vec::new()
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

/// The largest file that is read: none of those read here comes near it.
pub const MAX_FILE: u64 = 16 << 20;

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
    /// `uname -m`.
    pub architecture: Observed<String>,
    /// Translation buffers as CPUID tells.
    pub tlb: Observed<Vec<hugewise_model::host::TlbLevel>>,
}
