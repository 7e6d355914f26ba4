//! One database server of a host, whether it runs or not.

use std::collections::BTreeMap;

use crate::configuration::{FileLocation, ServiceUnit};
use crate::remedy::InstanceId;
use crate::trusted_by::{TrustProofs, TrustReason};
use crate::{AtBoot, Bytes, Engine, Observed, PageCount, PageSize, StoppedInstance};

/// One database server. One that does not run has `pid` 0 and no processes.
#[derive(Clone, Debug, Default)]
pub struct Instance {
    /// Its kind.
    pub engine: Engine,
    /// What its people call it, unique on the host for its engine: `PROD`, `15/main`, `3306`.
    pub name: String,
    /// Main process.
    pub pid: u32,
    /// All processes, the main one among them, lowest first.
    pub pids: Vec<u32>,
    /// Server version.
    pub version: Observed<String>,
    /// Operating system user.
    pub owner: String,
    /// Data directory, as the server's own mount namespace names it.
    pub data_directory: Observed<String>,
    /// Ports and sockets: `5432`, `/var/run/postgresql/.s.PGSQL.5432`.
    pub endpoints: Vec<String>,
    /// Client sessions now; absent where only an upper bound shows.
    pub sessions: Observed<u64>,
    /// Whose its sessions are and what they do, where there are far more than processors.
    pub session_activity: Observed<SessionActivity>,
    /// Sessions that the settings allow (`max_connections`, `processes`).
    pub max_sessions: Observed<u64>,
    /// What a session costs the kernel.
    pub session_model: SessionModel,
    /// Whether and how the settings ask for huge pages.
    pub asked: HugePageMode,
    /// The setting behind `asked`, as evidence.
    pub setting: Option<ServerSetting>,
    /// Page size that it will ask for: its own setting, or the host's default.
    pub asked_page_size: Observed<PageSize>,
    /// How it asks the kernel, which decides on the permission it needs.
    pub mechanism: Mechanism,
    /// Its memory that huge pages could back, largest first.
    pub segments: Vec<Segment>,
    /// Sum over `segments`, or what the settings ask for where that is more exact.
    pub huge_pages: HugePageUse,
    /// Pages that it needs now to be wholly on huge pages, of the size that it asks for.
    pub demand: Option<Demand>,
    /// Pages of other sizes that it needs besides those.
    pub other_demands: Vec<Demand>,
    /// What it will ask for when it starts again; absent where its files tell of no change.
    pub next: Observed<NextStart>,
    /// What the next boot brings other than a restart, as systemd has yet to load changed files of
    /// its unit; absent where it is the same.
    pub at_boot: Observed<NextStart>,
    /// Where `next` is absent: what its files may come to, within the estimate's error.
    pub possible_demands: Vec<Demand>,
    /// What its files come to on smaller pages, by size, where it was rounded up to larger ones.
    pub on_smaller: Vec<Demand>,
    /// Page tables of all its processes (sum of VmPTE).
    pub page_tables: Observed<Bytes>,
    /// The system's systemd service that it runs in directly, not a user's or a container's.
    pub unit: Option<String>,
    /// Whether that service runs this server alone: restarting one restarts the other.
    pub unit_is_its_own: bool,
    /// The enabled service that starts it at the next boot, where it was started by other means.
    pub boot_unit: Option<Box<ServiceUnit>>,
    /// What in its own files prevents its start at the boot, or any start.
    pub startup: Option<Startup>,
    /// What it may have charged to its owner's memlock limit as it starts, for io_uring's rings.
    pub ring_bytes: Option<Bytes>,
    /// The NUMA nodes that its own configuration restricts its memory to, and what says so.
    pub bound_nodes: Option<(Vec<u32>, FileLocation)>,
    /// Where it does not run: what says that it belongs to the host.
    pub stopped: Option<StoppedInstance>,
    /// Why it is trusted; empty for a stranger, as anybody can start a program and call it a
    /// server.
    pub trusted_by: Vec<TrustReason>,
    /// What was found for and against that, where it runs.
    pub trust: TrustProofs,
    /// Upper bound of touched memory in its segments; absent where that cannot be told.
    pub touched_bytes: Observed<Bytes>,
    /// Lower bound of its shared memory on transparent huge pages, mapped whole; absent where other
    /// shared memory of the host cannot be told apart.
    pub transparent: Observed<Bytes>,
    /// Whether its main process has another mount namespace or root folder than the reader.
    pub containered: bool,
    /// Settings that rules look at, by name in lower case.
    pub settings: BTreeMap<String, ServerSetting>,
    /// What else a rule may need to know of it.
    pub traits: Vec<Trait>,
}

/// What not every server is or does, of any engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trait {
    /// Oracle's automatic memory management: its memory is in files that no huge page can hold.
    Amm,
    /// It manages Oracle's disks, and is no database.
    Asm,
    /// The repository of Oracle's Grid Infrastructure.
    Gimr,
    /// It takes transparent huge pages by its own settings.
    TransparentPages,
    /// Its settings ask for huge pages for only a part of its memory.
    AsksInPart,
}

impl Instance {
    /// What it is known by on its host.
    pub fn id(&self) -> InstanceId {
        InstanceId { engine: self.engine, name: self.name.clone() }
    }

    /// Whether that is its id.
    pub fn has_id(&self, id: &InstanceId) -> bool {
        (self.engine, &self.name) == (id.engine, &id.name)
    }

    /// The larger of what it will ask for at its next start and at the next boot, where that
    /// differs from what it has.
    pub fn largest_next_start(&self) -> Option<&NextStart> {
        fn sum_demands<'a>(demands: impl Iterator<Item = &'a Demand>) -> Bytes {
            demands.map(|demand| demand.pages.to_bytes(demand.page_size)).sum()
        }
        let bytes_of = |start: &NextStart| {
            if start.asks_for_huge_pages() {
                sum_demands(start.demands.iter())
            } else {
                Bytes::ZERO
            }
        };
        match (self.next.as_known(), self.at_boot.as_known()) {
            (Some(next), Some(boot)) => {
                Some(if bytes_of(boot) > bytes_of(next) { boot } else { next })
            }
            (None, Some(boot)) => {
                Some(boot).filter(|boot| bytes_of(boot) > sum_demands(self.demands()))
            }
            (next, None) => next,
        }
    }

    /// `oracle PROD`, as the text report names it.
    pub fn title(&self) -> String {
        format!("{} {}", self.engine, self.name)
    }

    /// Its owner: a name, or a number with what that means.
    pub fn owner_in_words(&self) -> String {
        if self.owner_is_number() {
            format!("user {} (in no local account file)", self.owner)
        } else {
            self.owner.clone()
        }
    }

    /// Whether no file of the host knows its owner's account.
    pub fn owner_is_number(&self) -> bool {
        !self.owner.is_empty() && self.owner.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Whether it belongs to the host and does not run.
    pub const fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Whether it does not run, and the boot is known not to start it.
    pub fn waits_for_hands(&self) -> bool {
        self.stopped.as_ref().is_some_and(|asleep| matches!(asleep.at_boot, AtBoot::No(_)))
    }

    /// `oracle PROD pid 4711`: unique, whatever other servers call themselves.
    pub fn unique_title(&self) -> String {
        if self.is_stopped() {
            return self.title();
        }
        let of_pid = format!(" pid {}", self.pid);
        format!("{} {}{of_pid}", self.engine, self.name.strip_suffix(&of_pid).unwrap_or(&self.name))
    }

    /// Whether its settings ask for huge pages for only a part of its memory, however many there
    /// are.
    pub fn asks_in_part(&self) -> bool {
        self.traits.contains(&Trait::AsksInPart)
    }

    /// Whether something that an unprivileged user cannot arrange vouches for it. The host is
    /// changed for no other.
    pub fn is_trusted(&self) -> bool {
        !self.trusted_by.is_empty()
    }

    /// Whether a service that names it runs it, and nothing else: by that service it is restarted,
    /// and that service's limits are those of its next start.
    pub fn is_run_by_its_service(&self) -> bool {
        self.pid != 0 && self.unit_is_its_own && self.trusted_by.contains(&TrustReason::Unit)
    }

    /// Whether the host itself vouches for it, not only whoever runs hugewise.
    pub fn is_known_to_the_host(&self) -> bool {
        self.trusted_by
            .iter()
            .any(|voucher| !matches!(voucher, TrustReason::Named | TrustReason::Described))
    }

    /// What it needs as it runs now, one demand a page size.
    pub fn demands(&self) -> impl Iterator<Item = &Demand> {
        self.demand.iter().chain(&self.other_demands)
    }

    /// Memory in its segments.
    pub fn segment_bytes(&self) -> Bytes {
        self.segments.iter().map(|segment| segment.size).sum()
    }

    /// Of that, memory whose page size is known to be above the base page.
    pub fn huge_bytes(&self) -> Bytes {
        self.segments
            .iter()
            .filter(|segment| segment.huge == Observed::Known(true))
            .map(|segment| segment.size)
            .sum()
    }

    /// A setting's value by name.
    pub fn setting_value(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(|setting| setting.value.as_str())
    }
}

/// What prevents a start, and where that is said: `start.conf=manual
/// (/etc/postgresql/15/main/start.conf:3)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Startup {
    /// The boot does not start it.
    NotAtBoot(String),
    /// What usually starts it refuses to.
    Never(String),
    /// The server rejects its files: `shared_buffers=4g (/etc/postgresql.conf:12)`.
    Refuses(String),
}

/// The sessions of a server: whose they are, and what they do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionActivity {
    /// Sessions by client address, the most first.
    pub clients: Vec<(std::net::IpAddr, u64)>,
    /// How often the sessions' states were sampled; zero where they cannot be.
    pub looks: u64,
    /// Sessions that were running or waiting to run (state R), summed over the looks.
    pub running: u64,
    /// Sessions that were waiting for a disk (state D), summed over the looks.
    pub waiting: u64,
}

/// What one more session costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionModel {
    /// A process each, with page tables of its own.
    #[default]
    Processes,
    /// A thread each, in the one set of page tables.
    Threads,
}

/// Whether a server's settings ask for huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePageMode {
    /// Off.
    No,
    /// On; the server starts without where they are short (`try`, `use_large_pages=TRUE`).
    Try,
    /// On, and the server refuses to start without them (`on`, `ONLY`).
    Must,
    /// On, and the server raises the pool itself (`AUTO`, `AUTO_ONLY`).
    Raises,
    /// The server cannot use hugetlb pages for this memory (AMM, Redis).
    Cannot,
    /// The settings could not be read.
    #[default]
    Unknown,
}

/// One setting as a server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSetting {
    /// Name as the engine's people write it.
    pub name: String,
    /// Value.
    pub value: String,
    /// File and line; `None` for a built-in default.
    pub place: Option<FileLocation>,
}

impl ServerSetting {
    /// Whether the server's command line sets it, which beats files and `ALTER SYSTEM`.
    pub fn is_on_command_line(&self) -> bool {
        self.place.as_ref().is_some_and(FileLocation::is_command_line)
    }
}

impl std::fmt::Display for ServerSetting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.value)?;
        match &self.place {
            Some(place) => write!(f, " ({place})"),
            None => f.write_str(" (default)"),
        }
    }
}

/// How a server gets huge pages from the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// shmget(SHM_HUGETLB): CAP_IPC_LOCK, vm.hugetlb_shm_group or, before 5.16, a memlock limit.
    SysvShm,
    /// mmap(MAP_HUGETLB) or memfd: needs no permission.
    #[default]
    Mmap,
    /// Files on a hugetlbfs mount: needs write permission there.
    Hugetlbfs,
    /// The engine has no way to hugetlb pages; THP at most.
    None,
}

/// A stretch of memory that an instance maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// What it is.
    pub kind: SegmentKind,
    /// Its name for people: `shmid 32769`, `/dev/zero`, `heap`.
    pub name: String,
    /// Its size as mapped.
    pub size: Bytes,
    /// Kernel page size of the mapping.
    pub page_size: Observed<PageSize>,
    /// Whether that is larger than a base page.
    pub huge: Observed<bool>,
    /// Processes that map it.
    pub mappers: u64,
    /// Its identity on the host: device and inode, or pid and address.
    pub identity: (u64, u64),
}

crate::named_enum! {
    /// Kinds of segments.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SegmentKind as_str {
        /// shmget.
        SystemV = "sysv",
        /// A file on tmpfs (/dev/shm) or a memfd.
        Posix = "posix",
        /// Shared anonymous memory.
        AnonymousShared = "anonymous_shared",
        /// A file on hugetlbfs.
        Hugetlbfs = "hugetlbfs",
        /// Private to one process.
        Private = "private",
    }
}

crate::named_enum! {
    /// How much of an instance's memory is on huge pages.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum HugePageUse as_str {
        /// Everything that can be.
        All = "all",
        /// Some.
        Partly = "partly",
        /// Nothing.
        None = "none",
        /// It could not be told.
        #[default]
        Unknown = "unknown",
    }
}

/// What a server will ask for when it starts again, by its settings as they stand now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStart {
    /// Whether it will ask, and what it does where it does not get them.
    pub asked: HugePageMode,
    /// The setting that decides that, or the one that was changed.
    pub setting: Option<ServerSetting>,
    /// One demand a page size; of a server that does not ask, what it would ask for where that was
    /// changed.
    pub demands: Vec<Demand>,
}

impl NextStart {
    /// Whether it will ask for huge pages.
    pub const fn asks_for_huge_pages(&self) -> bool {
        matches!(self.asked, HugePageMode::Try | HugePageMode::Must | HugePageMode::Raises)
    }
}

/// The pages that an instance needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Their size.
    pub page_size: PageSize,
    /// The number of pages.
    pub pages: PageCount,
    /// How the number was found.
    pub source: DemandSource,
}

impl Demand {
    /// The upper bound, with the formula's error.
    #[must_use]
    pub fn at_most(&self) -> Self {
        let DemandSource::Estimated { error_percent } = self.source else { return self.clone() };
        let more = self.pages.get().saturating_mul(u64::from(error_percent)).div_ceil(100);
        Self { pages: self.pages + PageCount(more), ..self.clone() }
    }

    /// The lower bound, likewise.
    #[must_use]
    pub fn at_least(&self) -> Self {
        let pages = match self.source {
            DemandSource::Engine | DemandSource::Measured => self.pages,
            DemandSource::Estimated { error_percent } => {
                let least =
                    (u128::from(self.pages.get()) * 100).div_ceil(100 + u128::from(error_percent));
                PageCount(u64::try_from(least).unwrap_or(u64::MAX))
            }
            DemandSource::Enough { least } => least.min(self.pages),
        };
        Self { pages, ..self.clone() }
    }

    /// The same memory, as one stretch, on pages of another size. On a smaller one up to a larger
    /// page less one may be too many, as what is known was rounded up.
    #[must_use]
    pub fn with_page_size(&self, page: PageSize) -> Self {
        let pages_of = |pages: PageCount| page.pages_for(pages.to_bytes(self.page_size));
        let pages = pages_of(self.pages);
        let spare = pages_of(PageCount(1)).saturating_sub(PageCount(1));
        let is_smaller = page < self.page_size;
        let source = match self.source {
            DemandSource::Engine | DemandSource::Measured if is_smaller => {
                DemandSource::Enough { least: pages.saturating_sub(spare) }
            }
            DemandSource::Enough { least } if is_smaller => {
                DemandSource::Enough { least: pages_of(least).saturating_sub(spare) }
            }
            DemandSource::Enough { least } => DemandSource::Enough { least: pages_of(least) },
            source => source,
        };
        Self { page_size: page, pages, source }
    }

    /// How far off its pages may be, in percent, rounded up; `None` where they are counted.
    pub fn error_percent(&self) -> Option<u8> {
        self.source.error_percent(self.pages)
    }
}

/// Where a demand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DemandSource {
    /// The server itself says.
    Engine,
    /// Its mappings.
    Measured,
    /// A formula.
    Estimated {
        /// Largest error seen between the formula and the server, in percent.
        error_percent: u8,
    },
    /// A formula whose pages always suffice.
    Enough {
        /// Fewer than these never suffice.
        least: PageCount,
    },
}

impl DemandSource {
    /// As reports name it: `engine`, `measured` or `estimated`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Measured => "measured",
            Self::Estimated { .. } | Self::Enough { .. } => "estimated",
        }
    }

    /// How far off so many pages may be, in percent, rounded up; `None` where they are counted.
    pub fn error_percent(self, pages: PageCount) -> Option<u8> {
        match self {
            Self::Estimated { error_percent } => Some(error_percent),
            Self::Enough { least } => {
                let less = pages.saturating_sub(least).get().saturating_mul(100);
                Some(u8::try_from(less.div_ceil(least.get().max(1))).unwrap_or(100).min(100))
            }
            Self::Engine | Self::Measured => None,
        }
    }
}
