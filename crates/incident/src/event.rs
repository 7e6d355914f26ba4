//! What a log says happened at a moment.

/// What happened, by what it means for memory and for the servers on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventKind {
    /// The kernel killed a process because the host had no memory left.
    OutOfMemory,
    /// The kernel killed a process because a cgroup had reached its limit.
    CgroupOutOfMemory,
    /// The kernel could not give a stretch of memory that it was asked for.
    AllocationFailure,
    /// A task waited for minutes without a break.
    HungTask,
    /// A processor did not come back from the kernel for long: soft and hard lockups, RCU stalls.
    Lockup,
    /// A page or a page table was not in the state that it should have been in.
    BadPage,
    /// A pool of huge pages was filled in part only.
    PoolShort,
    /// A process was refused System V huge pages, or had them by its memlock limit.
    HugePagePermission,
    /// The kernel started.
    Boot,
    /// The host was shut down in order.
    Shutdown,
    /// A server asked for huge pages, and started without them or with fewer.
    WithoutHugePages,
    /// A server started.
    ServerStarted,
    /// A server did something that takes memory or stops it: saved itself, collected garbage, grew its heap.
    ServerWork,
    /// A server could not start, or ended by itself.
    ServerFailed,
    /// A server said that it lacks memory, processes or connections.
    ServerTrouble,
}

impl EventKind {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OutOfMemory => "oom-kill",
            Self::CgroupOutOfMemory => "cgroup-oom-kill",
            Self::AllocationFailure => "allocation-failure",
            Self::HungTask => "hung-task",
            Self::Lockup => "lockup",
            Self::BadPage => "bad-page",
            Self::PoolShort => "pool-short",
            Self::HugePagePermission => "huge-page-permission",
            Self::Boot => "boot",
            Self::Shutdown => "shutdown",
            Self::WithoutHugePages => "without-huge-pages",
            Self::ServerStarted => "server-started",
            Self::ServerWork => "server-work",
            Self::ServerFailed => "server-failed",
            Self::ServerTrouble => "server-trouble",
        }
    }
}

/// One of them, in words with its figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The same in words: `killed oracle (pid 4711, 8.1 GiB shared) because the host was out of memory`.
    pub what: String,
}

impl Event {
    /// A kind, in words.
    pub fn new(kind: EventKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }
}
