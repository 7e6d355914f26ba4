//! What a log says happened at a moment.

use hugewise_model::Bytes;

named_enum! {
    /// What happened, by what it means for memory and for the servers on it.
    LogEventKind {
        /// The kernel killed a process because the host had no memory left.
        OutOfMemory "oom-kill",
        /// The kernel looked for a process to kill, and the log does not say which one.
        OomCutOff "oom-cut-off",
        /// The kernel killed a process because a cgroup had reached its limit.
        CgroupOutOfMemory "cgroup-oom-kill",
        /// A program killed processes so that the host would not run out of memory: systemd-oomd,
        /// earlyoom, oomd.
        UserspaceKill "userspace-oom-kill",
        /// systemd says that the kernel killed a process of a unit, not for which limit.
        UnitKilled "unit-oom-kill",
        /// Somebody had the kernel kill a process (SysRq f): no sign of a shortage.
        ManualKill "manual-kill",
        /// The kernel could not give even a single page, or only after seconds.
        MemoryExhausted "memory-exhausted",
        /// The kernel panicked.
        Panic "kernel-panic",
        /// The kernel found itself in error and killed the task that it worked for.
        Oops "kernel-oops",
        /// The kernel could not give a stretch of memory that it was asked for.
        AllocationFailure "allocation-failure",
        /// Somebody who may not wait for memory got none at once.
        ReserveEmpty "reserve-empty",
        /// A task waited for minutes without a break.
        HungTask "hung-task",
        /// A processor was stuck in the kernel: soft and hard lockups, RCU stalls.
        Lockup "lockup",
        /// The kernel gave a request to a disk or a file server up after its time, or asks in vain.
        StorageTimeout "storage-timeout",
        /// A disk or a file system is out of use until somebody mends it.
        StorageLost "storage-lost",
        /// A disk failed a request.
        StorageError "storage-error",
        /// A page or a page table was not in the state that it should have been in.
        BadPage "bad-page",
        /// A pool of huge pages was filled in part only.
        PoolShort "pool-short",
        /// A process was refused System V huge pages, or had them by its memlock limit.
        HugePagePermission "huge-page-permission",
        /// The kernel started.
        Boot "boot",
        /// The host was shut down in order.
        Shutdown "shutdown",
        /// A server asked for huge pages, and started without them or with fewer.
        WithoutHugePages "without-huge-pages",
        /// A server started.
        ServerStarted "server-started",
        /// A server did something that takes memory or stops it, such as garbage collection.
        ServerWork "server-work",
        /// A server did not start, because it did not get the memory or the pages it asked for.
        ServerRefused "server-refused",
        /// A server started that had not been shut down before.
        ServerRecovered "server-recovered",
        /// A server ended by itself, or was killed.
        ServerFailed "server-failed",
        /// A process was killed, and nothing says by whom or why.
        ServerKilled "server-killed",
        /// A server was refused memory that it asked the kernel for, and went on.
        MemoryRefused "memory-refused",
        /// A server waited for a disk, or stood still with its host.
        DiskWait "disk-wait",
        /// A server measured that its host swaps.
        HostSwapped "host-swapped",
        /// A server said that it lacks memory, processes or connections.
        ServerTrouble "server-trouble",
    }
}

/// What the kernel's report says of the host's memory; `None` for what it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryReport {
    /// All of it, without what the kernel keeps for itself.
    pub total: Option<Bytes>,
    /// Page tables of all processes.
    pub page_tables: Option<Bytes>,
    /// Shared memory, tmpfs included.
    pub shared: Option<Bytes>,
    /// Pools of huge pages of all sizes together, and what is free of them.
    pub pools: Option<(Bytes, Bytes)>,
    /// The smallest size of huge pages that it lists.
    pub huge_page: Option<Bytes>,
}

/// What the kernel did where a task hung or a processor was stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KernelWork {
    /// It waited for a disk.
    Disk,
    /// It made free memory contiguous.
    Compaction,
    /// It took memory back.
    Reclaim,
}

impl KernelWork {
    /// `in reclaim`.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Disk => "waiting for a disk",
            Self::Compaction => "in memory compaction",
            Self::Reclaim => "in reclaim",
        }
    }
}

/// One event of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// What happened.
    pub kind: LogEventKind,
    /// In words: `killed oracle (pid 4711, 8.1 GiB shared) because the host was out of memory`.
    pub what: String,
    /// The report of memory that came with it.
    pub memory: Option<MemoryReport>,
    /// What the kernel was at, by the task or the call trace.
    pub work: Option<KernelWork>,
}

impl LogEvent {
    pub(crate) fn new(kind: LogEventKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), memory: None, work: None }
    }
}
