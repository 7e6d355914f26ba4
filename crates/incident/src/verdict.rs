//! What an investigation says: signatures, the incidents that they join into, and what could not be told.

use std::fmt;

use hugewise_model::{Bytes, Engine, PageSize};

use crate::{Clock, Format, Moment, Series};

/// One kind of trouble, each found by the file of its name in `signatures`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Time in the kernel far above what the archive has otherwise.
    KernelCpu,
    /// Free memory low, then leaping: reclaim freed far more than was asked for, or a server died.
    FreeMemory,
    /// kswapd or processes themselves scanned for pages to take back.
    Reclaim,
    /// Tasks waited for memory, as the kernel's pressure stall information has it: for reclaim, for compaction or at the limit
    /// of a cgroup.
    MemoryStall,
    /// The kernel killed processes for their memory.
    Oom,
    /// The kernel killed processes because a cgroup had reached its limit.
    CgroupOom,
    /// The kernel said of itself that tasks hung, processors did not come back, or memory was not to be had.
    KernelLog,
    /// A server said that it ended, started, or lacked something.
    ServerLog,
    /// Page tables large against memory, or growing with sessions.
    PageTables,
    /// A pool that is unused, too small, or missing while page tables are large.
    Pool,
    /// A pool that a restart took away, or a server that started without the huge pages it asked for.
    HugePagesLost,
    /// Many processes or connections began or ended within an interval.
    Logins,
    /// Processes began one after another, far more than usual.
    Forks,
    /// Pages going out to swap and coming back.
    Swap,
    /// Compaction stalls, and transparent huge pages that were asked for and not had.
    Compaction,
    /// Tasks waited for disks.
    Disk,
    /// Programs wanted far more time than the processors have.
    UserCpu,
    /// The hypervisor kept processors from running.
    Steal,
    /// The collector itself came late, left holes, or wrote empty blocks.
    Starved,
    /// Nothing was written for long, and then the host or the collector began anew.
    Silence,
    /// The host or the collector began anew.
    Restart,
}

impl Kind {
    /// Every kind, in the order in which they are told.
    pub const ALL: &'static [Self] = &[
        Self::KernelCpu,
        Self::FreeMemory,
        Self::Reclaim,
        Self::MemoryStall,
        Self::Oom,
        Self::CgroupOom,
        Self::KernelLog,
        Self::ServerLog,
        Self::PageTables,
        Self::Pool,
        Self::HugePagesLost,
        Self::Logins,
        Self::Forks,
        Self::Swap,
        Self::Compaction,
        Self::Disk,
        Self::UserCpu,
        Self::Steal,
        Self::Starved,
        Self::Silence,
        Self::Restart,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KernelCpu => "kernel-cpu",
            Self::FreeMemory => "free-memory",
            Self::Reclaim => "reclaim",
            Self::MemoryStall => "memory-stall",
            Self::Oom => "oom",
            Self::CgroupOom => "cgroup-oom",
            Self::KernelLog => "kernel-log",
            Self::ServerLog => "server-log",
            Self::PageTables => "page-tables",
            Self::Pool => "pool",
            Self::HugePagesLost => "huge-pages-lost",
            Self::Logins => "logins",
            Self::Forks => "forks",
            Self::Swap => "swap",
            Self::Compaction => "compaction",
            Self::Disk => "disk",
            Self::UserCpu => "user-cpu",
            Self::Steal => "steal",
            Self::Starved => "collector-starved",
            Self::Silence => "silence",
            Self::Restart => "restart",
        }
    }
}

/// One row or event that speaks for a signature, in words with its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The file or folder it is from.
    pub source: String,
    /// When.
    pub at: Moment,
    /// What: `%system 69.0; median of the file 2.1`.
    pub what: String,
}

/// How far a signature stands out by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// Worth a word beside others, no incident by itself.
    Weak,
    /// Beyond doubt there, whatever it means.
    Clear,
    /// So far out that it alone makes an incident.
    Strong,
}

/// One kind of trouble over a window of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Which.
    pub kind: Kind,
    /// When it began: the start of the first interval that shows it.
    pub from: Moment,
    /// When it ended: the end of the last interval that shows it.
    pub to: Moment,
    /// How far it stands out.
    pub strength: Strength,
    /// The rows that show it, in the order of time; the most telling ones where there are many.
    pub evidence: Vec<Evidence>,
    /// What it does not prove, and what its source hides.
    pub caveats: Vec<String>,
}

impl Signature {
    /// The row that says most in one line: of page tables their largest, otherwise the first.
    pub fn headline(&self) -> Option<&Evidence> {
        let telling = usize::from(self.kind == Kind::PageTables);
        self.evidence.get(telling).or_else(|| self.evidence.first())
    }
}

/// What an incident is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The host stood in reclaim, and page tables had taken a large part of its memory.
    ReclaimByPageTables,
    /// The host stood in reclaim.
    ReclaimStorm,
    /// Memory went out to swap and back.
    SwapStorm,
    /// Many sessions came or went at once.
    LoginStorm,
    /// Time went into making huge pages out of pieces.
    CompactionStall,
    /// The kernel ran out of memory and killed processes.
    OutOfMemory,
    /// Tasks waited for memory at the limit of their cgroup, while the host had memory to spare.
    CgroupLimit,
    /// Processes began one after another, and took the processors with it.
    ForkStorm,
    /// Tasks waited for disks that moved little.
    DiskStall,
    /// Programs wanted far more time than the processors have.
    UserCpu,
    /// The hypervisor kept the host's processors from running.
    Steal,
    /// The host fell silent, and started anew long after.
    Hang,
    /// Tasks hung, by the kernel's own word, and nothing says why.
    HungTasks,
    /// The kernel was busy, and nothing says with what.
    KernelCpu,
    /// Collectors did not get their turn, and nothing says why.
    Starved,
    /// Page tables are large all the time, without a moment that stands out.
    PageTablesStanding,
    /// Page tables grew until they were large.
    PageTablesGrowing,
    /// A pool is reserved and hardly used all the time.
    PoolUnused,
    /// A restart took a pool away, or a server started without the huge pages that it asked for.
    HugePagesLost,
}

impl Verdict {
    /// Every verdict, in the order in which they are documented.
    pub const ALL: &'static [Self] = &[
        Self::ReclaimByPageTables,
        Self::ReclaimStorm,
        Self::SwapStorm,
        Self::OutOfMemory,
        Self::CgroupLimit,
        Self::CompactionStall,
        Self::LoginStorm,
        Self::ForkStorm,
        Self::UserCpu,
        Self::Steal,
        Self::DiskStall,
        Self::Hang,
        Self::HungTasks,
        Self::KernelCpu,
        Self::Starved,
        Self::HugePagesLost,
        Self::PageTablesGrowing,
        Self::PageTablesStanding,
        Self::PoolUnused,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReclaimByPageTables => "reclaim-by-page-tables",
            Self::ReclaimStorm => "reclaim-storm",
            Self::SwapStorm => "swap-storm",
            Self::LoginStorm => "login-storm",
            Self::CompactionStall => "compaction-stall",
            Self::OutOfMemory => "out-of-memory",
            Self::CgroupLimit => "cgroup-limit",
            Self::ForkStorm => "fork-storm",
            Self::DiskStall => "disk-stall",
            Self::UserCpu => "user-cpu",
            Self::Steal => "steal",
            Self::Hang => "hang",
            Self::HungTasks => "hung-tasks",
            Self::KernelCpu => "kernel-cpu",
            Self::Starved => "collector-starved",
            Self::PageTablesStanding => "page-tables-standing",
            Self::PageTablesGrowing => "page-tables-growing",
            Self::PoolUnused => "pool-unused",
            Self::HugePagesLost => "huge-pages-lost",
        }
    }
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Consistent with it, as with other things.
    Low,
    /// Several sources or signatures agree, none speaks against it.
    Medium,
    /// The mechanism itself was counted.
    High,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// A window of time, what happened in it, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// When it began.
    pub from: Moment,
    /// When it ended.
    pub to: Moment,
    /// What it is taken for.
    pub verdict: Verdict,
    /// The same in a sentence with its figures.
    pub summary: String,
    /// How sure.
    pub confidence: Confidence,
    /// What would make it more certain: the source or setting that is missing.
    pub raised_by: Vec<String>,
    /// What speaks against it.
    pub against: Vec<String>,
    /// What to do next, including commands.
    pub next: Vec<String>,
    /// Programs that grew or were stuck during it, if a source lists processes.
    pub who: Vec<String>,
    /// The same on other hosts at the same time.
    pub elsewhere: Vec<String>,
    /// The same hours of other days: whether it was there too, and what is usual then.
    pub other_days: Vec<String>,
    /// What met in it, in the order of [`Kind`].
    pub signatures: Vec<Signature>,
}

/// One file or folder that was given or found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Its path, inside a tar behind the tar's own: `sos.tar.xz:var/log/sa/sa21`.
    pub path: String,
    /// The format; `None` where it could not be read.
    pub format: Option<Format>,
    /// Version of the tool that wrote it.
    pub version: Option<String>,
    /// The host, where the source says it.
    pub host: Option<String>,
    /// The clock of the two moments that follow: that of its host's series.
    pub clock: Clock,
    /// Its first sample.
    pub from: Option<Moment>,
    /// Its last one.
    pub to: Option<Moment>,
    /// How many.
    pub samples: usize,
    /// What is wrong with it, or why it was refused.
    pub problems: Vec<String>,
}

/// How a host was set up at the one moment at which a capture or a sosreport was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The capture or sosreport.
    pub source: String,
    /// When it was made: UTC, or the history's own clock where that is the wall's and its zone is known.
    pub at: Option<Moment>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// MemTotal.
    pub memory: Option<Bytes>,
    /// PageTables at that moment.
    pub page_tables: Option<Bytes>,
    /// The base page.
    pub base_page: Option<PageSize>,
    /// The page size of what asks for huge pages without naming one.
    pub huge_page: Option<PageSize>,
    /// Pools of every size that the kernel offers; `None` where they could not be read.
    pub pools: Option<Vec<PoolFacts>>,
    /// `always`, `madvise` or `never` of transparent huge pages.
    pub thp: Option<String>,
    /// vm.min_free_kbytes.
    pub min_free: Option<Bytes>,
    /// Servers that ran; `None` where processes could not be read.
    pub instances: Option<Vec<InstanceFacts>>,
}

/// One pool, in pages; each number is `None` where it could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFacts {
    /// Size of its pages.
    pub page: PageSize,
    /// Pages in it.
    pub total: Option<u64>,
    /// Of these, not handed out; the reserved ones are among them.
    pub free: Option<u64>,
    /// Of these, promised.
    pub reserved: Option<u64>,
}

/// One server that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceFacts {
    /// What kind.
    pub engine: Engine,
    /// `PROD`, `15/main`.
    pub name: String,
    /// Whether a session is a process, with page tables of its own.
    pub processes: bool,
    /// Sessions at that moment.
    pub sessions: Option<u64>,
    /// Sessions that its settings allow.
    pub most_sessions: Option<u64>,
    /// Memory that it shares or holds in segments that huge pages could back.
    pub segments: Bytes,
    /// Of that, on huge pages.
    pub huge: Bytes,
    /// Page tables of all its processes.
    pub page_tables: Option<Bytes>,
}

impl InstanceFacts {
    /// `oracle PROD`.
    pub fn title(&self) -> String {
        format!("{} {}", self.engine, self.name)
    }
}

/// How far a host's clock was ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Milliseconds; below 0 it was behind.
    pub milliseconds: i64,
    /// Who says so: `--offset`, or the file in which a time daemon did.
    pub source: String,
}

impl Ahead {
    /// `3 s ahead`, `0.5 s behind`.
    pub fn words(&self) -> String {
        let way = if self.milliseconds < 0 { "behind" } else { "ahead" };
        format!("{} s {way}", self.milliseconds.unsigned_abs() as f64 / 1000.0)
    }
}

/// All that is known of one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Its name; `None` where no source says it.
    pub host: Option<String>,
    /// The clock of all moments here.
    pub clock: Clock,
    /// How far its clock was ahead, where that is known: moments here are what it showed all the same.
    pub ahead: Option<Ahead>,
    /// How the host was set up when it was captured, where a capture or a sosreport is among the sources.
    pub facts: Option<Facts>,
    /// Its series, one a collector, moments of all of them of one clock. Where there are more rows than fit in memory they
    /// are thinned after the signatures were found: for charts.
    pub series: Vec<Series>,
    /// What happened, in the order of time.
    pub incidents: Vec<Incident>,
    /// Signatures that are part of no incident.
    pub signatures: Vec<Signature>,
    /// What the sources of this host cannot tell, with the reason.
    pub unknown: Vec<String>,
    /// What was looked at: for a quiet archive that is the whole answer.
    pub looked: Vec<String>,
}

/// What an investigation found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Investigation {
    /// What was read, in the order given or found.
    pub sources: Vec<Source>,
    /// The hosts, by name.
    pub hosts: Vec<History>,
    /// How many files in folders and tars are in no known format.
    pub passed_over: Vec<String>,
    /// What could not be told of any host.
    pub unknown: Vec<String>,
}
