//! What an investigation says: signatures, the incidents that they make, and what is unknown.

use std::fmt;

use hugewise_model::{Bytes, Engine, PageSize};

use crate::{Clock, LogEventKind, Moment, Series, SourceFormat};

named_enum! {
    /// One kind of trouble, each found by the file of its name in `signatures`.
    SignatureKind {
        /// Time in the kernel far above what the archive has otherwise.
        KernelCpu "kernel-cpu",
        /// Free memory low, then leaping: reclaim freed far too much, or a server died.
        FreeMemory "free-memory",
        /// kswapd or processes themselves scanned for pages to take back.
        Reclaim "reclaim",
        /// Tasks waited for memory (PSI): for reclaim, compaction or at a cgroup's limit.
        MemoryStall "memory-stall",
        /// The kernel killed processes for their memory.
        Oom "oom",
        /// The kernel killed processes because a cgroup had reached its limit.
        CgroupOom "cgroup-oom",
        /// The kernel logged hung tasks, stuck processors or failed allocations.
        KernelLog "kernel-log",
        /// A server said that it ended, started, or lacked something.
        ServerLog "server-log",
        /// Page tables large against memory, or growing with sessions.
        PageTables "page-tables",
        /// A pool that is unused, too small, or missing while page tables are large.
        Pool "pool",
        /// A restart took a pool away, or a server started without the huge pages it asked for.
        HugePagesLost "huge-pages-lost",
        /// Many processes or connections began or ended within an interval.
        Logins "logins",
        /// Processes began one after another, far more than usual.
        Forks "forks",
        /// Pages going out to swap and coming back.
        Swap "swap",
        /// What programs hold grew for long, far beyond memory.
        MemoryGrowth "memory-growth",
        /// Compaction stalls, and transparent huge pages that were asked for and not had.
        Compaction "compaction",
        /// Tasks waited for disks.
        Disk "disk",
        /// Programs wanted far more time than the processors have.
        UserCpu "user-cpu",
        /// The hypervisor kept processors from running.
        Steal "steal",
        /// The collector itself came late, left holes, or wrote empty blocks.
        Starved "collector-starved",
        /// Nothing was written for long, and then the host or the collector began anew.
        Silence "silence",
        /// The host or the collector began anew.
        Restart "restart",
    }
}

impl SignatureKind {
    /// The name in words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::KernelCpu => "kernel time",
            Self::FreeMemory => "free memory",
            Self::Reclaim => "reclaim",
            Self::MemoryStall => "waits for memory",
            Self::Oom => "kills for memory",
            Self::CgroupOom => "kills in a cgroup",
            Self::KernelLog => "kernel log",
            Self::ServerLog => "server log",
            Self::PageTables => "page tables",
            Self::Pool => "pool",
            Self::HugePagesLost => "huge pages lost",
            Self::Logins => "logins",
            Self::Forks => "forks",
            Self::Swap => "swap",
            Self::MemoryGrowth => "growth of memory",
            Self::Compaction => "compaction",
            Self::Disk => "waits for disks",
            Self::UserCpu => "programs",
            Self::Steal => "hypervisor",
            Self::Starved => "late collector",
            Self::Silence => "silence",
            Self::Restart => "restart",
        }
    }
}

/// One row or event that speaks for a signature.
#[derive(Clone, Debug, PartialEq)]
pub struct SignatureEvidence {
    /// The file or folder it is from.
    pub source: String,
    /// When.
    pub at: Moment,
    /// In words with its numbers: `%system 69.0; median of the file 2.1`.
    pub what: String,
    /// What it rests on.
    pub basis: EvidenceBasis,
}

impl SignatureEvidence {
    pub(crate) fn names_oom_victim(&self) -> bool {
        matches!(self.basis, EvidenceBasis::Log(LogEventKind::OutOfMemory, _))
    }

    pub(crate) fn log_event_kind(&self) -> Option<LogEventKind> {
        match self.basis {
            EvidenceBasis::Log(kind, _) => Some(kind),
            EvidenceBasis::Figures | EvidenceBasis::Usual(_) => None,
        }
    }

    pub(crate) fn is_hearsay(&self) -> bool {
        matches!(self.basis, EvidenceBasis::Log(_, LogWitness::AnyUser))
    }
}

/// What evidence rests on, where a verdict weighs that.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum EvidenceBasis {
    /// Figures.
    #[default]
    Figures,
    /// A figure whose usual value there is known.
    Usual(f64),
    /// What a log says happened, and who may write into that log.
    Log(LogEventKind, LogWitness),
}

/// Who may write into a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogWitness {
    /// The kernel or the server alone.
    Own,
    /// Any local user.
    AnyUser,
}

/// How far a signature stands out by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignatureStrength {
    /// Worth a word beside others, no incident by itself.
    Weak,
    /// Beyond doubt there, whatever it means.
    Clear,
    /// So far out that it alone makes an incident.
    Strong,
}

/// One kind of trouble over a window of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    /// Which kind.
    pub kind: SignatureKind,
    /// When it began: the start of the first interval that shows it.
    pub from: Moment,
    /// When it ended: the end of the last interval that shows it.
    pub to: Moment,
    /// How far it stands out.
    pub strength: SignatureStrength,
    /// The rows that show it, in the order of time; of many, the most telling ones.
    pub evidence: Vec<SignatureEvidence>,
    /// What it does not prove, and what its source hides.
    pub caveats: Vec<String>,
}

impl Signature {
    pub(crate) fn widen(&mut self, other: &mut Self) {
        self.from = self.from.min(other.from);
        self.to = self.to.max(other.to);
        self.strength = self.strength.max(other.strength);
        for caveat in other.caveats.drain(..) {
            if !self.caveats.contains(&caveat) {
                self.caveats.push(caveat);
            }
        }
    }

    /// The row that says most in one line: of page tables their largest, otherwise the first.
    pub fn headline(&self) -> Option<&SignatureEvidence> {
        let telling = usize::from(self.kind == SignatureKind::PageTables);
        self.evidence.get(telling).or_else(|| self.evidence.first())
    }
}

named_enum! {
    /// What an incident is taken for.
    IncidentVerdict {
        /// The host stood in reclaim, and page tables had taken a large part of its memory.
        ReclaimByPageTables "reclaim-by-page-tables",
        /// The host stood in reclaim.
        ReclaimStorm "reclaim-storm",
        /// Memory went out to swap and back.
        SwapStorm "swap-storm",
        /// The kernel ran out of memory and killed processes.
        OutOfMemory "out-of-memory",
        /// Tasks waited at the memory limit of their cgroup, while the host had memory to spare.
        CgroupLimit "cgroup-limit",
        /// Time went into making huge pages out of pieces.
        CompactionStall "compaction-stall",
        /// Many sessions came or went at once.
        LoginStorm "login-storm",
        /// Processes began one after another, and took the processors with it.
        ForkStorm "fork-storm",
        /// Programs wanted far more time than the processors have.
        UserCpu "user-cpu",
        /// The hypervisor kept the host's processors from running.
        Steal "steal",
        /// Tasks waited for disks that moved little.
        DiskStall "disk-stall",
        /// The host fell silent, and started anew long after.
        Hang "hang",
        /// The kernel panicked, or found itself in error.
        KernelCrash "kernel-crash",
        /// Tasks hung or processors were stuck, by the kernel's own word.
        HungTasks "hung-tasks",
        /// The kernel was busy, and nothing says with what.
        KernelCpu "kernel-cpu",
        /// Collectors did not get their turn, and nothing says why.
        Starved "collector-starved",
        /// A server did not start, ended or was killed, by its own log.
        ServerFailed "server-failed",
        /// A restart took a pool away, or a server started without the huge pages it asked for.
        HugePagesLost "huge-pages-lost",
        /// Page tables grew until they were large.
        PageTablesGrowing "page-tables-growing",
        /// Page tables are large all the time, without a moment that stands out.
        PageTablesStanding "page-tables-standing",
        /// A pool is reserved and hardly used all the time.
        PoolUnused "pool-unused",
    }
}

impl IncidentVerdict {
    /// The name in words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::ReclaimByPageTables => "reclaim storm driven by page tables",
            Self::ReclaimStorm => "reclaim storm",
            Self::SwapStorm => "swap storm",
            Self::OutOfMemory => "out of memory",
            Self::CgroupLimit => "memory limit of a cgroup",
            Self::CompactionStall => "stalls in memory compaction",
            Self::LoginStorm => "login storm",
            Self::ForkStorm => "fork storm",
            Self::UserCpu => "more programs than processors",
            Self::Steal => "processor time withheld by the hypervisor",
            Self::DiskStall => "storage stall",
            Self::KernelCrash => "kernel crashed",
            Self::ServerFailed => "server failed",
            Self::Hang => "host fell silent",
            Self::HungTasks => "tasks hung in the kernel",
            Self::KernelCpu => "kernel busy",
            Self::Starved => "collectors starved",
            Self::HugePagesLost => "huge pages lost",
            Self::PageTablesGrowing => "page tables growing",
            Self::PageTablesStanding => "page tables large all the time",
            Self::PoolUnused => "pool not used",
        }
    }

    /// Whether a host's trouble ended in it, which is an incident by itself whatever else is there.
    pub(crate) const fn is_outcome(self) -> bool {
        matches!(self, Self::KernelCrash | Self::Hang | Self::OutOfMemory | Self::HugePagesLost)
    }

    pub(crate) const fn is_event(self) -> bool {
        !matches!(self, Self::PageTablesStanding | Self::PageTablesGrowing | Self::PoolUnused)
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
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// When it began.
    pub from: Moment,
    /// When it ended.
    pub to: Moment,
    /// What it is taken for.
    pub verdict: IncidentVerdict,
    /// A sentence with its figures.
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
    /// Its signatures, in the order of [`SignatureKind`].
    pub signatures: Vec<Signature>,
}

/// One file or folder that was given or found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvestigatedSource {
    /// Its path, inside a tar behind the tar's own: `sos.tar.xz:var/log/sa/sa21`.
    pub path: String,
    /// The format; `None` where it could not be read.
    pub format: Option<SourceFormat>,
    /// Version of the tool that wrote it.
    pub version: Option<String>,
    /// The host, where the source says it.
    pub host: Option<String>,
    /// The clock of `from` and `to`: that of its host's series.
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

/// How a host was set up when a capture or a sosreport of it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSetupFacts {
    /// The capture or sosreport.
    pub source: String,
    /// When it was made: UTC, or the history's wall clock where its zone is known.
    pub at: Option<Moment>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// MemTotal.
    pub memory: Option<Bytes>,
    /// PageTables at that moment.
    pub page_tables: Option<Bytes>,
    /// The base page.
    pub base_page: Option<PageSize>,
    /// The default huge page size.
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

/// One pool; `None` for numbers that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFacts {
    /// Size of its pages.
    pub page: PageSize,
    /// Pages in it.
    pub total: Option<u64>,
    /// Pages not handed out, reserved ones included.
    pub free: Option<u64>,
    /// Pages reserved.
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
    /// Memory in segments that huge pages could back.
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
pub struct ClockSkew {
    /// Milliseconds; below 0 it was behind.
    pub milliseconds: i64,
    /// Who says so: `--offset`, or the file in which a time daemon did.
    pub source: String,
}

impl ClockSkew {
    /// `3 s ahead`, `0.5 s behind`.
    pub fn describe_skew(&self) -> String {
        let way = if self.milliseconds < 0 { "behind" } else { "ahead" };
        format!("{} s {way}", self.milliseconds.unsigned_abs() as f64 / 1000.0)
    }
}

/// All that is known of one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IncidentHistory {
    /// Its name; `None` where no source says it.
    pub host: Option<String>,
    /// The clock of all moments here.
    pub clock: Clock,
    /// How far its clock was ahead, where known; moments here are what the clock showed.
    pub ahead: Option<ClockSkew>,
    /// How the host was set up, if a capture or a sosreport is among the sources.
    pub facts: Option<HostSetupFacts>,
    /// Its series, one a collector, all on one clock; thinned for charts where they exceed memory.
    pub series: Vec<Series>,
    /// What happened, in the order of time.
    pub incidents: Vec<Incident>,
    /// Signatures that are part of no incident.
    pub signatures: Vec<Signature>,
    /// What the sources of this host cannot tell, with the reason.
    pub unknown: Vec<String>,
    /// What was looked at.
    pub looked: Vec<String>,
}

/// What an investigation found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Investigation {
    /// What was read, in the order given or found.
    pub sources: Vec<InvestigatedSource>,
    /// The hosts, by name.
    pub hosts: Vec<IncidentHistory>,
    /// How many files in folders and tars are in no known format.
    pub passed_over: Vec<String>,
    /// What could not be told of any host.
    pub unknown: Vec<String>,
}
