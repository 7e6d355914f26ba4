//! One process as /proc tells of it.

use std::sync::Arc;
use std::time::Duration;

use crate::{Bytes, Observed, PageSize};

/// A process and what of its memory concerns huge pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its id in the namespace that the host was read from.
    pub pid: u32,
    /// The inode of its folder in /proc, where asked: it tells a reused pid.
    pub identity: Option<u64>,
    /// Its parent's id.
    pub parent: u32,
    /// `Name:` of /proc/PID/status, at most 15 bytes: `postgres`, `ora_pmon_PROD`.
    pub name: String,
    /// The letter of `State:` in /proc/PID/status: `R` runs or waits to, `D` waits for a disk.
    pub state: Option<u8>,
    /// The arguments; a rewritten title is one long argument, or leaves trailing empty ones.
    pub command: Observed<Vec<String>>,
    /// The effective user id.
    pub uid: u32,
    /// The real user id where it differs: who started a set-user-ID program and chose its
    /// arguments.
    pub caller: Option<u32>,
    /// The effective group id.
    pub gid: u32,
    /// The real group id where it is another one, as of a set-group-ID program.
    pub caller_group: Option<u32>,
    /// The supplementary groups.
    pub groups: Vec<u32>,
    /// Threads in the process.
    pub threads: Observed<u64>,
    /// Processor time of its threads when the reading began, in nanoseconds, where asked: unchanged
    /// means that it has not run.
    pub cpu_time: Option<Duration>,
    /// `VmPTE`: its page tables; tables that processes share count in each.
    pub page_tables: Observed<Bytes>,
    /// `HugetlbPages`: mapped hugetlb memory; no part of any RSS. Since Linux 4.4.
    pub hugetlb: Observed<Bytes>,
    /// `RssShmem`: touched shared memory (System V, tmpfs, shared anonymous). Since 4.5.
    pub rss_shmem: Observed<Bytes>,
    /// Touched private memory: `RssAnon` (since 4.5), before that from /proc/PID/statm.
    pub rss_anon: Observed<Bytes>,
    /// Files and shared memory touched, by /proc/PID/statm; only where there is no `RssShmem`.
    pub rss_shared: Observed<Bytes>,
    /// `VmSwap`.
    pub swap: Observed<Bytes>,
    /// `VmLck`: memory locked with mlock.
    pub locked: Observed<Bytes>,
    /// Whether the effective set holds `CAP_IPC_LOCK`.
    pub ipc_lock: Observed<bool>,
    /// `THP_enabled` of status: false where the process switched THP off for itself. Since 5.0.
    pub thp_enabled: Observed<bool>,
    /// `Mems_allowed_list` of status: first and last NUMA node of each range of its cpuset.
    pub nodes_allowed: Observed<Vec<(u32, u32)>>,
    /// `Cpus_allowed_list` of status: first and last processor of each range of its affinity.
    pub processors_allowed: Observed<Vec<(u32, u32)>>,
    /// `Max locked memory` of /proc/PID/limits.
    pub memlock: Observed<SoftHard>,
    /// Lines of /proc/PID/cgroup.
    pub cgroups: Observed<Arc<[CgroupMembership]>>,
    /// Inode numbers of its namespaces.
    pub namespaces: Namespaces,
    /// Its id in each nested pid namespace, outermost first (`NSpid`). Empty on kernels before 4.1.
    pub namespace_pids: Vec<u32>,
    /// Where /proc/PID/exe points.
    pub executable: Observed<String>,
    /// Where /proc/PID/cwd points.
    pub directory: Observed<String>,
    /// Where /proc/PID/root points; `/` where that is the reader's own root.
    pub root: Observed<String>,
    /// `VmSize`, `VmData`, `VmStk`, and `VmExe` with `VmLib`, where its mappings were read:
    /// unchanged means that the mappings are the same.
    pub mapped: Option<[Bytes; 4]>,
    /// Shared, hugetlb, and large private mappings.
    pub mappings: Observed<Vec<Mapping>>,
}

/// Soft and hard value of a resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftHard {
    /// What holds now.
    pub soft: Limit,
    /// How far the process may raise it.
    pub hard: Limit,
}

/// A limit that may be no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// At most this much.
    At(Bytes),
    /// `unlimited`, `infinity`, `max`.
    Unlimited,
}

impl Limit {
    /// Whether `amount` fits under the limit.
    pub fn allows(self, amount: Bytes) -> bool {
        match self {
            Self::At(limit) => amount <= limit,
            Self::Unlimited => true,
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(limit) => limit.fmt(f),
            Self::Unlimited => f.pad("unlimited"),
        }
    }
}

/// One line of /proc/PID/cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupMembership {
    /// `0` for the unified hierarchy.
    pub hierarchy: u32,
    /// Controllers of a v1 hierarchy; empty for v2.
    pub controllers: Vec<String>,
    /// Path below the hierarchy's root: `/system.slice/postgresql@15-main.service`.
    pub path: String,
}

/// Inode numbers of a process's namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    /// /proc/PID/ns/mnt.
    pub mount: Observed<u64>,
    /// /proc/PID/ns/pid.
    pub pid: Observed<u64>,
    /// /proc/PID/ns/ipc: System V segments are per ipc namespace.
    pub ipc: Observed<u64>,
    /// /proc/PID/ns/user: capabilities count only in the initial one.
    pub user: Observed<u64>,
}

/// One line of /proc/PID/maps, with what the kernel says of its page size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// `s` as against `p` in the permissions.
    pub shared: bool,
    /// Whether any access is allowed: a `---p` reservation holds no memory.
    pub accessible: bool,
    /// Offset in the file.
    pub offset: u64,
    /// Device of the file, `major:minor` as one number; 0 for anonymous memory.
    pub device: u64,
    /// Inode of the file; the shmid of a System V segment.
    pub inode: u64,
    /// Path or name: `/SYSV00000000 (deleted)`, `/anon_hugepage (deleted)`, `[heap]`, empty.
    pub name: String,
    /// Page size that the kernel uses for the mapping (hugetlb or base; THP does not show here).
    pub page_size: Observed<PageSize>,
}

impl Mapping {
    /// Length of the mapping.
    pub const fn size(&self) -> Bytes {
        Bytes(self.end.saturating_sub(self.start))
    }
}
