//! One machine's memory set-up at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::{Bytes, Configuration, Limit, Observed, PageCount, PageSize, Process, Unread};

pub use counters::Counters;

mod counters;
mod gigantic;
#[cfg(test)]
mod tests;

/// A host: live, captured, or a sosreport. Clock, page size and processor count are fields, so that
/// a captured arm64 host reads right on x86-64.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Whether this is the running machine, not a capture.
    pub live: bool,
    /// Host name.
    pub name: Observed<String>,
    /// `PRETTY_NAME` of os-release.
    pub os: Observed<String>,
    /// Kernel release.
    pub kernel: Observed<KernelRelease>,
    /// Machine architecture as `uname -m` says it: `x86_64`, `aarch64`.
    pub architecture: Observed<String>,
    /// When the facts were read, seconds since the epoch.
    pub read_at: Observed<i64>,
    /// Effective user id of whoever read; root sees everything.
    pub read_as: Observed<u32>,
    /// Namespaces of whoever read: another mount namespace means a container.
    pub namespaces: crate::process::Namespaces,
    /// The container or chroot that the reader is confined to.
    pub confined: Option<String>,
    /// The base page.
    pub base_page: Observed<PageSize>,
    /// Processors.
    pub processors: Processors,
    /// /proc/meminfo and its neighbours.
    pub memory: HostMemory,
    /// NUMA nodes, lowest first.
    pub nodes: Observed<Vec<NumaNode>>,
    /// Size of a huge page where a program names none (`Hugepagesize` of meminfo).
    pub default_huge_page: Observed<PageSize>,
    /// One pool for each huge page size that the kernel offers, smallest first.
    pub pools: Observed<Vec<Pool>>,
    /// Whether the kernel has no /sys/kernel/mm/hugepages (before 2.6.27), only vm.nr_hugepages.
    pub one_huge_page_size: bool,
    /// Mounted hugetlbfs file systems.
    pub hugetlbfs_mounts: Observed<Vec<HugetlbfsMount>>,
    /// Transparent huge pages.
    pub thp: Thp,
    /// Values of /proc/sys that run now.
    pub kernel_settings: KernelSettings,
    /// The kernel's command line as it booted, in words.
    pub command_line: Observed<Vec<String>>,
    /// System V segments (/proc/sysvipc/shm), of the ipc namespace that was read from.
    pub sysv_segments: Observed<Vec<SysvSegment>>,
    /// Limits of every cgroup that a process here is in, and of its parents.
    pub hugetlb_cgroups: Vec<HugetlbCgroup>,
    /// Memory limits of the same cgroups, where huge pages count against them; else none.
    pub memory_cgroups: Vec<MemoryCgroup>,
    /// What the files say: the next boot, the next login, the next start of a service.
    pub configuration: Configuration,
    /// Accounts of this host (/etc/passwd, /etc/group).
    pub accounts: Accounts,
    /// All user processes, by pid; repeated readings share those that have not run.
    pub processes: Observed<Vec<Arc<Process>>>,
    /// Kernel threads and zombies, sorted, with their processor time; empty unless read repeatedly.
    pub others: Vec<(u32, Duration)>,
    /// Lines of the kernel's log that bear on huge pages, oldest first.
    pub kernel_log: Observed<Vec<String>>,
    /// Everything that is there and could not be read, sorted.
    pub unread: Vec<Unread>,
    /// Where a capture is cut off: there may have been more than is told.
    pub torn: Option<String>,
    /// Why not every process of the host can be seen.
    pub hidden: Option<String>,
}

impl Host {
    /// The process of that id.
    pub fn find_process(&self, pid: u32) -> Option<&Process> {
        let processes = self.processes.as_known()?;
        let at = processes.binary_search_by_key(&pid, |process| process.pid).ok()?;
        processes.get(at).map(Arc::as_ref)
    }

    /// Why there may be more servers than can be seen; whoever says that all is well asks this
    /// first.
    pub fn unseen_reason(&self) -> Option<String> {
        match (&self.torn, &self.hidden) {
            (Some(torn), _) => Some(format!("the capture is {torn}")),
            (None, hidden) => hidden.clone(),
        }
    }

    /// The pool of that page size.
    pub fn find_pool(&self, page_size: PageSize) -> Option<&Pool> {
        self.pools.as_known()?.iter().find(|pool| pool.page_size == page_size)
    }
}

/// A kernel release such as `5.14.0-503.el9.x86_64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRelease {
    /// The whole text.
    pub text: String,
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
}

impl KernelRelease {
    /// Whether this kernel is at least that one. Distributions backport: ask the kernel where it
    /// answers.
    pub const fn at_least(&self, major: u32, minor: u32) -> bool {
        self.major > major || (self.major == major && self.minor >= minor)
    }

    /// Whether this kernel is before 2.6.`third`: `2.6.18-164.el5` is before 2.6.27. One without a
    /// third number is not.
    pub fn is_before_2_6(&self, third: u32) -> bool {
        if !self.at_least(2, 6) {
            return true;
        }
        let rest = self.text.strip_prefix("2.6.").filter(|_| !self.at_least(2, 7));
        let number = rest
            .map(|rest| rest.split(|sign: char| !sign.is_ascii_digit()).next().unwrap_or_default());
        number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number < third)
    }
}

/// Processors and what they can do with large pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processors {
    /// Online processors.
    pub online: Observed<u64>,
    /// `vendor_id` or the implementer.
    pub vendor: Observed<String>,
    /// `model name`.
    pub model: Observed<String>,
    /// The `pdpe1gb` flag: x86-64 can map 1 GiB pages. Absent on other architectures.
    pub gib_pages: Observed<bool>,
    /// Translation buffers. Absent where CPUID does not tell, as in many virtual machines.
    pub tlb: Observed<Vec<TlbLevel>>,
}

/// Entries of one translation buffer for one page size.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TlbLevel {
    /// 1 is nearest to the core.
    pub level: u8,
    /// Data, instruction or both.
    pub holds: TlbHolds,
    /// Page size of these entries; a buffer for several sizes is listed once for each.
    #[serde(rename = "page_bytes")]
    pub page_size: PageSize,
    /// Number of entries.
    pub entries: u32,
}

/// What a translation buffer serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlbHolds {
    /// Loads and stores.
    Data,
    /// Instruction fetches.
    Instructions,
    /// Both.
    Both,
}

/// /proc/meminfo, /proc/vmstat, buddyinfo, watermarks and swaps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostMemory {
    /// `MemTotal`.
    pub total: Observed<Bytes>,
    /// `MemFree`.
    pub free: Observed<Bytes>,
    /// `MemAvailable`, since Linux 3.14.
    pub available: Observed<Bytes>,
    /// `PageTables`.
    pub page_tables: Observed<Bytes>,
    /// `AnonPages`.
    pub anonymous: Observed<Bytes>,
    /// `Shmem`.
    pub shmem: Observed<Bytes>,
    /// `AnonHugePages`.
    pub anonymous_huge: Observed<Bytes>,
    /// `ShmemHugePages`.
    pub shmem_huge: Observed<Bytes>,
    /// `ShmemPmdMapped`: the part that is mapped by whole huge pages and saves page tables.
    pub shmem_huge_mapped: Observed<Bytes>,
    /// `Buffers`.
    pub buffers: Observed<Bytes>,
    /// `Cached`: the page cache, shared memory included.
    pub cached: Observed<Bytes>,
    /// `Mapped`: of the page cache what processes map.
    pub mapped: Observed<Bytes>,
    /// `Active(file)`. Since Linux 2.6.28.
    pub active_file: Observed<Bytes>,
    /// `Inactive(file)`. Since Linux 2.6.28.
    pub inactive_file: Observed<Bytes>,
    /// `SReclaimable`: kernel memory that reclaim may free. Since Linux 2.6.19.
    pub slab_reclaimable: Observed<Bytes>,
    /// `SUnreclaim`: kernel memory that reclaim cannot free.
    pub slab_unreclaimable: Observed<Bytes>,
    /// `KernelStack`.
    pub kernel_stack: Observed<Bytes>,
    /// `SwapTotal`.
    pub swap_total: Observed<Bytes>,
    /// `SwapFree`.
    pub swap_free: Observed<Bytes>,
    /// `CommitLimit`.
    pub commit_limit: Observed<Bytes>,
    /// `Committed_AS`.
    pub committed: Observed<Bytes>,
    /// `Hugetlb`: memory of all pools of all sizes. Since 4.16.
    pub hugetlb: Observed<Bytes>,
    /// /proc/vmstat whole.
    pub vmstat: Observed<Counters>,
    /// Free blocks by node and zone (/proc/buddyinfo).
    pub free_blocks: Observed<Vec<ZoneFreeBlocks>>,
    /// Watermarks by node and zone (/proc/zoneinfo).
    pub watermarks: Observed<Vec<ZoneWatermarks>>,
    /// Swap areas (/proc/swaps).
    pub swaps: Observed<Vec<SwapArea>>,
}

impl HostMemory {
    /// Swap in use.
    pub fn swap_used(&self) -> Option<Bytes> {
        Some(self.swap_total.get()?.saturating_sub(self.swap_free.get()?))
    }
}

/// One line of /proc/buddyinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneFreeBlocks {
    /// NUMA node.
    pub node: u32,
    /// `DMA32`, `Normal`, ...
    pub zone: String,
    /// Free blocks of 2^index base pages.
    pub blocks: Vec<u64>,
}

/// Watermarks of one zone, in base pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneWatermarks {
    /// NUMA node.
    pub node: u32,
    /// Zone name.
    pub zone: String,
    /// Below `min` only the kernel's own needs are met; direct reclaim starts here.
    pub min: u64,
    /// kswapd wakes below `low`.
    pub low: u64,
    /// kswapd rests above `high`.
    pub high: u64,
    /// Pages of the zone that the kernel manages.
    pub managed: u64,
}

/// One swap area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapArea {
    /// Device or file.
    pub path: String,
    /// Size.
    pub size: Bytes,
    /// In use.
    pub used: Bytes,
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// Memory on it; zero-memory nodes exist.
    pub total: Observed<Bytes>,
    /// Free memory on it.
    pub free: Observed<Bytes>,
}

/// The hugetlb pages of one size on the whole host, and their spread over the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Page size.
    pub page_size: PageSize,
    /// Pages in the pool, surplus ones included.
    pub total: Observed<PageCount>,
    /// Pages not handed out; **includes** the reserved ones.
    pub free: Observed<PageCount>,
    /// Pages promised to mappings that have not touched them yet.
    pub reserved: Observed<PageCount>,
    /// Pages of the total beyond the set size: from overcommit, or in use when the pool shrank.
    pub surplus: Observed<PageCount>,
    /// `nr_overcommit_hugepages`: how many surplus pages may be had on demand.
    pub overcommit: Observed<PageCount>,
    /// The same by node, where the kernel says it.
    pub nodes: Vec<NodePool>,
}

impl Pool {
    /// Pages spoken for: total - free + reserved.
    pub fn committed_pages(&self) -> Option<PageCount> {
        let used = self.total.get()?.saturating_sub(self.free.get()?);
        Some(used + self.reserved.get()?)
    }

    /// Pages available to a new mapping: free - reserved.
    pub fn available_pages(&self) -> Option<PageCount> {
        Some(self.free.get()?.saturating_sub(self.reserved.get()?))
    }

    /// Memory that the pool takes from the host.
    pub fn memory_bytes(&self) -> Option<Bytes> {
        Some(self.total.get()?.to_bytes(self.page_size))
    }
}

/// One node's part of a pool; reservations and overcommit are host-wide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePool {
    /// NUMA node.
    pub node: u32,
    /// Pages on the node.
    pub total: Observed<PageCount>,
    /// Of these, not handed out.
    pub free: Observed<PageCount>,
    /// Of these, surplus.
    pub surplus: Observed<PageCount>,
}

/// One mounted hugetlbfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HugetlbfsMount {
    /// Mount point.
    pub path: String,
    /// `pagesize=` option, or the default size.
    pub page_size: Observed<PageSize>,
    /// All options.
    pub options: String,
}

/// Transparent huge pages, host-wide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thp {
    /// Whether the switches are in RHEL 6's own folder.
    pub of_rhel_6: bool,
    /// `enabled`: always, madvise, never.
    pub enabled: Observed<String>,
    /// The words that `enabled` offers; empty where that is not known.
    pub choices: Vec<String>,
    /// `defrag`.
    pub defrag: Observed<String>,
    /// `shmem_enabled`. Since Linux 4.8.
    pub shmem_enabled: Observed<String>,
    /// `khugepaged/*` by name.
    pub khugepaged: BTreeMap<String, Observed<u64>>,
    /// Switches by page size, `hugepages-<size>kB/enabled`. Since Linux 6.8.
    pub sizes: Vec<ThpSize>,
    /// Size that the top switch means.
    pub pmd_size: Observed<PageSize>,
}

/// The folders of the switches: the usual one, and RHEL 6's
/// (<https://access.redhat.com/solutions/46111>).
pub const THP_FOLDERS: [&str; 2] =
    ["/sys/kernel/mm/transparent_hugepage", "/sys/kernel/mm/redhat_transparent_hugepage"];

impl Thp {
    /// The folder that this kernel has them in.
    pub const fn sysfs_folder(&self) -> &'static str {
        let [usual, old] = THP_FOLDERS;
        if self.of_rhel_6 { old } else { usual }
    }

    /// One of the switches: `enabled`.
    pub fn switch_path(&self, name: &str) -> String {
        format!("{}/{name}", self.sysfs_folder())
    }
}

/// The switches of one THP size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThpSize {
    /// Page size.
    pub page_size: PageSize,
    /// `enabled`: always, inherit, madvise, never.
    pub enabled: Observed<String>,
    /// `shmem_enabled` of this size.
    pub shmem_enabled: Observed<String>,
}

/// Values of /proc/sys that run now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelSettings {
    /// kernel.shmmax: largest System V segment.
    pub shmmax: Observed<Bytes>,
    /// kernel.shmall, in base pages.
    pub shmall_pages: Observed<u64>,
    /// kernel.shmmni.
    pub shmmni: Observed<u64>,
    /// vm.hugetlb_shm_group: may use SHM_HUGETLB without CAP_IPC_LOCK. 0 is root's group.
    pub hugetlb_shm_group: Observed<u32>,
    /// vm.overcommit_memory: 0 heuristic, 1 always, 2 strict.
    pub overcommit_memory: Observed<u64>,
    /// vm.overcommit_ratio.
    pub overcommit_ratio: Observed<u64>,
    /// vm.nr_hugepages, of the default size.
    pub nr_hugepages: Observed<PageCount>,
    /// vm.nr_overcommit_hugepages, of the default size.
    pub nr_overcommit_hugepages: Observed<PageCount>,
    /// vm.min_free_kbytes.
    pub min_free: Observed<Bytes>,
    /// vm.swappiness.
    pub swappiness: Observed<u64>,
    /// vm.max_map_count.
    pub max_map_count: Observed<u64>,
}

/// One System V segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysvSegment {
    /// `shmid`; the inode of its mappings.
    pub id: u64,
    /// `key`.
    pub key: i64,
    /// Permission bits, with SHM_DEST (01000) and SHM_LOCKED (02000).
    pub mode: u32,
    /// Size asked for.
    pub size: Bytes,
    /// Process that created it.
    pub creator: u32,
    /// Attached mappings.
    pub attached: u64,
    /// Owner.
    pub uid: u32,
    /// Owner's group.
    pub gid: u32,
    /// Memory in RAM. Since Linux 2.6.36. Huge pages count here too.
    pub rss: Observed<Bytes>,
    /// Memory in swap.
    pub swap: Observed<Bytes>,
}

impl SysvSegment {
    /// Whether shmctl(SHM_LOCK) pinned it.
    pub const fn is_locked(&self) -> bool {
        self.mode & 0o2000 != 0
    }
}

/// What the hugetlb controller says of one cgroup and one page size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HugetlbCgroup {
    /// Path below the hierarchy's root.
    pub path: String,
    /// Page size that the limits hold for.
    pub page_size: PageSize,
    /// Enforced when a page is touched: SIGBUS.
    pub fault_max: Observed<Limit>,
    /// Memory charged now.
    pub fault_current: Observed<Bytes>,
    /// Enforced when memory is mapped: the call fails, and a server may fall back.
    pub reservation_max: Observed<Limit>,
    /// Reservations charged now.
    pub reservation_current: Observed<Bytes>,
    /// Times that the fault limit was hit.
    pub failures: Observed<u64>,
}

/// What the memory controller says of a cgroup whose huge pages it counts: cgroup2 mounted with
/// `memory_hugetlb_accounting` (since Linux 6.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryCgroup {
    /// Path below the hierarchy's root.
    pub path: String,
    /// Limit on all of its memory: beyond it the kernel reclaims, and then kills.
    pub max: Observed<Limit>,
    /// Huge pages charged now.
    pub hugetlb: Observed<Bytes>,
    /// Other memory that cannot be dropped: anonymous, shared and the kernel's own.
    pub other: Observed<Bytes>,
}

/// Accounts, as far as files tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Users by id.
    pub users: BTreeMap<u32, User>,
    /// Group names by id.
    pub groups: BTreeMap<u32, AccountGroup>,
}

impl Accounts {
    /// The user's name, or the number where the files do not know it.
    pub fn user_name(&self, uid: u32) -> String {
        self.users.get(&uid).map_or_else(|| uid.to_string(), |user| user.name.clone())
    }

    /// A user's primary group, where nobody else is in it.
    pub fn own_group(&self, uid: u32) -> Option<u32> {
        let user = self.users.get(&uid)?;
        let is_primary = |other: &User| other.gid == user.gid && other.name != user.name;
        let members = self.groups.get(&user.gid).map(|group| group.members.as_slice());
        let mut members = members.unwrap_or_default().iter();
        let has_others =
            self.users.values().any(is_primary) || members.any(|name| *name != user.name);
        (!has_others).then_some(user.gid)
    }

    /// All groups of a user, the primary one first.
    pub fn groups_of(&self, uid: u32) -> Vec<u32> {
        let Some(user) = self.users.get(&uid) else { return Vec::new() };
        let others = self
            .groups
            .iter()
            .filter(|(gid, group)| **gid != user.gid && group.members.contains(&user.name));
        std::iter::once(user.gid).chain(others.map(|(gid, _)| *gid)).collect()
    }
}

/// One line of /etc/passwd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// Primary group.
    pub gid: u32,
    /// Home folder; none where the line names none.
    pub home: Option<String>,
}

/// A group of /etc/group: a line, or all lines of one id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountGroup {
    /// Name; that of the first line.
    pub name: String,
    /// Names of further lines of its id.
    pub other_names: Vec<String>,
    /// Members beyond those whose primary group it is, of whichever line.
    pub members: Vec<String>,
}

impl AccountGroup {
    /// Its names, the first line's first.
    pub fn all_names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.name).chain(&self.other_names)
    }
}
