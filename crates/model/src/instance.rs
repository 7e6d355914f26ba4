//! One database server: one that runs, or one that belongs to the host and does not.

use std::collections::BTreeMap;

use crate::configuration::Place;
use crate::remedy::InstanceId;
use crate::vouch::Voucher;
use crate::{Asleep, AtBoot, Bytes, Engine, Observed, PageCount, PageSize};

/// One database server. One that does not run has `pid` 0 and no processes.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Its kind.
    pub engine: Engine,
    /// What its people call it: `PROD`, `15/main`, `3306`; unique among the engine's instances on the host.
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
    /// Client sessions now. For servers of threads an upper bound may be all that can be seen: then absent.
    pub sessions: Observed<u64>,
    /// Whose its sessions are and what they do, where they were looked at: of a server that has far more than the processors can
    /// serve.
    pub crowd: Observed<Crowd>,
    /// Sessions that the settings allow (`max_connections`, `processes`).
    pub max_sessions: Observed<u64>,
    /// What a session costs the kernel.
    pub session_model: SessionModel,
    /// Whether and how the settings ask for huge pages.
    pub asked: Asked,
    /// The setting behind `asked`, as evidence.
    pub setting: Option<Setting>,
    /// Page size that the server will ask for: its own setting, or the host's default.
    pub asked_page_size: Observed<PageSize>,
    /// How it asks the kernel, which decides what permission it needs.
    pub mechanism: Mechanism,
    /// Its memory that huge pages could back, largest first.
    pub segments: Vec<Segment>,
    /// Sum over `segments`, or what the settings ask for where that is known better.
    pub huge_pages: HugePageUse,
    /// Pages of the size that it asks for that it needs to be wholly on huge pages, as it runs now.
    pub demand: Option<Demand>,
    /// Pages of other sizes that it needs beside those: a server whose memory is on pages of several sizes.
    pub beside: Vec<Demand>,
    /// What it will ask for when it starts again. Absent: the same as now, for all that its files tell.
    pub next: Observed<NextStart>,
    /// What it will ask for at the next boot, where that is not what a restart brings: files of its unit were changed that systemd
    /// has yet to load. Absent: as at its next start.
    pub at_boot: Observed<NextStart>,
    /// Where `next` is absent: what its files come to, if that is more than it has by less than the error of the reckoning, and
    /// they may have been changed since it started. It may need so much at its next start.
    pub perhaps: Vec<Demand>,
    /// Where its memory is on larger pages and was rounded up to them: what its files come to on smaller ones, by size.
    pub on_smaller: Vec<Demand>,
    /// Page tables of all its processes (sum of VmPTE).
    pub page_tables: Observed<Bytes>,
    /// The systemd service of the host that it runs in, directly: one of a user's or a container's manager is none.
    pub unit: Option<String>,
    /// Whether that service runs this server and nothing else: only then a restart of the one is a restart of the other.
    pub unit_is_its_own: bool,
    /// What stands in the way of its start at the boot, or of any start, by its own files; none where nothing is known to.
    pub startup: Option<Startup>,
    /// What says that it belongs to the host, where it does not run; none where it runs, or is only described.
    pub asleep: Option<Asleep>,
    /// What speaks for it. Empty for a stranger: anybody can start a program and call it a server.
    pub vouchers: Vec<Voucher>,
    /// At most so much of its segments has been touched by anybody; absent where that cannot be told.
    pub touched: Observed<Bytes>,
    /// At least so much of its shared memory on base pages is on transparent huge pages, mapped whole; absent where that
    /// cannot be told apart from other shared memory of the host.
    pub transparent: Observed<Bytes>,
    /// Whether its main process sees other files than the reader: it has another mount namespace, or another root folder.
    pub containered: bool,
    /// Settings that rules look at, by name in lower case.
    pub settings: BTreeMap<String, Setting>,
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
    /// Its settings ask for huge pages for a part of its memory alone.
    AsksInPart,
}

impl Instance {
    /// What it is known by on its host.
    pub fn id(&self) -> InstanceId {
        InstanceId { engine: self.engine, name: self.name.clone() }
    }

    /// What it will ask for at its next start or at the next boot, whichever is more, where that is not what it has: pages are made
    /// ready for both.
    pub fn coming(&self) -> Option<&NextStart> {
        fn bytes<'a>(demands: impl Iterator<Item = &'a Demand>) -> Bytes {
            demands.map(|demand| demand.pages.of(demand.page_size)).sum()
        }
        let of = |start: &NextStart| if start.asks() { bytes(start.demands.iter()) } else { Bytes::ZERO };
        match (self.next.known(), self.at_boot.known()) {
            (Some(next), Some(boot)) => Some(if of(boot) > of(next) { boot } else { next }),
            (None, Some(boot)) => Some(boot).filter(|boot| of(boot) > bytes(self.demands())),
            (next, None) => next,
        }
    }

    /// `oracle PROD`, as the text report names it.
    pub fn title(&self) -> String {
        format!("{} {}", self.engine, self.name)
    }

    /// Its owner as it is told: a name, or a number with what that means.
    pub fn owner_in_words(&self) -> String {
        if self.owner_is_number() {
            format!("user {} (in no local account file)", self.owner)
        } else {
            self.owner.clone()
        }
    }

    /// Whether its owner is known by number alone: no file of its host knows the account.
    pub fn owner_is_number(&self) -> bool {
        !self.owner.is_empty() && self.owner.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Whether it belongs to the host and does not run.
    pub const fn is_asleep(&self) -> bool {
        self.asleep.is_some()
    }

    /// Whether it does not run, and the boot is known not to start it either.
    pub fn waits_for_hands(&self) -> bool {
        self.asleep.as_ref().is_some_and(|asleep| matches!(asleep.at_boot, AtBoot::No(_)))
    }

    /// `oracle PROD pid 4711`: of no other, whatever the others call themselves.
    pub fn handle(&self) -> String {
        if self.is_asleep() {
            return self.title();
        }
        let of_pid = format!(" pid {}", self.pid);
        format!("{} {}{of_pid}", self.engine, self.name.strip_suffix(&of_pid).unwrap_or(&self.name))
    }

    /// Whether its settings ask for huge pages for a part of its memory alone: its start brings no more, however many there
    /// are.
    pub fn asks_in_part(&self) -> bool {
        self.traits.contains(&Trait::AsksInPart)
    }

    /// Whether something speaks for it that a user without rights cannot arrange. The host is changed for no other.
    pub fn is_vouched(&self) -> bool {
        !self.vouchers.is_empty()
    }

    /// Whether the host itself speaks for it, and not only whoever runs hugewise: naming a server tells that its memory is to
    /// be planned for, and nothing of the unit that it lies in.
    pub fn is_known_to_the_host(&self) -> bool {
        self.vouchers.iter().any(|voucher| !matches!(voucher, Voucher::Named | Voucher::Described))
    }

    /// What it needs as it runs now, one demand a page size.
    pub fn demands(&self) -> impl Iterator<Item = &Demand> {
        self.demand.iter().chain(&self.beside)
    }

    /// Memory in its segments.
    pub fn segment_bytes(&self) -> Bytes {
        self.segments.iter().map(|segment| segment.size).sum()
    }

    /// Of that, memory whose page size is known to be above the base page.
    pub fn huge_bytes(&self) -> Bytes {
        self.segments.iter().filter(|segment| segment.huge == Observed::Known(true)).map(|segment| segment.size).sum()
    }

    /// A setting's value by name.
    pub fn setting_value(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(|setting| setting.value.as_str())
    }
}

/// What stands in the way of a start, with where that is said: `start.conf=manual (/etc/postgresql/15/main/start.conf:3)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Startup {
    /// The boot does not start it; whoever does so later is not known.
    NotAtBoot(String),
    /// What usually starts it refuses to.
    Never(String),
    /// The server itself does not start with this in its files: `shared_buffers=4g (/etc/postgresql.conf:12)`.
    Refuses(String),
}

/// The sessions of a server: whose they are, and what they do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crowd {
    /// Sessions by the address of the client that they serve, the most first.
    pub clients: Vec<(std::net::IpAddr, u64)>,
    /// How often the sessions' states were looked at; zero where they cannot be watched.
    pub looks: u64,
    /// Sessions that were running or waiting to run (state R), summed over the looks.
    pub running: u64,
    /// Sessions that were waiting for a disk (state D), summed over the looks.
    pub waiting: u64,
}

/// What one more session costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionModel {
    /// A process each, with page tables of its own.
    Processes,
    /// A thread each, in the one set of page tables.
    Threads,
}

/// Whether a server's settings ask for huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Off.
    No,
    /// On, and the server starts without them where they are short (`huge_pages=try`, `use_large_pages=TRUE`).
    Try,
    /// On, and the server refuses to start without them (`on`, `ONLY`).
    Must,
    /// On, and the server raises the pool itself (`AUTO`, `AUTO_ONLY`).
    Raises,
    /// The server cannot use hugetlb pages for this memory whatever its settings say (AMM, Redis).
    Cannot,
    /// The settings could not be read.
    Unknown,
}

/// One setting as a server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Name as the engine's people write it.
    pub name: String,
    /// Value.
    pub value: String,
    /// File and line; `None` for a built-in default.
    pub place: Option<Place>,
}

impl Setting {
    /// Whether the command line of the server makes it, which beats whatever its files and `ALTER SYSTEM` say.
    pub fn is_on_command_line(&self) -> bool {
        self.place.as_ref().is_some_and(Place::is_command_line)
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.value)?;
        match &self.place {
            Some(place) => write!(f, " ({place})"),
            None => f.write_str(" (default)"),
        }
    }
}

/// How a server gets huge pages from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// shmget(SHM_HUGETLB): needs CAP_IPC_LOCK or vm.hugetlb_shm_group; a memlock limit on kernels before 5.16.
    SysvShm,
    /// mmap(MAP_HUGETLB) or memfd: needs no permission.
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
    /// Key that tells one segment from another on the host: device and inode, or pid and address.
    pub identity: (u64, u64),
}

/// Kinds of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SegmentKind {
    /// shmget.
    SystemV,
    /// A file on tmpfs (/dev/shm) or a memfd.
    Posix,
    /// Shared anonymous memory.
    AnonymousShared,
    /// A file on hugetlbfs.
    Hugetlbfs,
    /// Private to one process.
    Private,
}

impl SegmentKind {
    /// Name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SystemV => "sysv",
            Self::Posix => "posix",
            Self::AnonymousShared => "anonymous_shared",
            Self::Hugetlbfs => "hugetlbfs",
            Self::Private => "private",
        }
    }
}

/// How much of an instance's memory is on huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePageUse {
    /// Everything that can be.
    All,
    /// Some.
    Partly,
    /// Nothing.
    None,
    /// It could not be told.
    Unknown,
}

impl HugePageUse {
    /// Name in text and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Partly => "partly",
            Self::None => "none",
            Self::Unknown => "unknown",
        }
    }
}

/// What a server will ask for when it starts again, by its settings as they stand now: they may have been changed since
/// it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStart {
    /// Whether it will ask, and what it does where it does not get them.
    pub asked: Asked,
    /// The setting that decides that, or the one that was changed.
    pub setting: Option<Setting>,
    /// Pages that it will ask for, one demand a page size. Of one that does not ask those that it would ask for, where its
    /// size was changed; otherwise empty.
    pub demands: Vec<Demand>,
}

impl NextStart {
    /// Whether it will ask for huge pages.
    pub const fn asks(&self) -> bool {
        matches!(self.asked, Asked::Try | Asked::Must | Asked::Raises)
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
    /// The most that it may come to, with the error that its formula may have.
    #[must_use]
    pub fn at_most(&self) -> Self {
        let DemandSource::Estimated { error_percent } = self.source else { return self.clone() };
        let more = self.pages.get().saturating_mul(u64::from(error_percent)).div_ceil(100);
        Self { pages: self.pages + PageCount(more), ..self.clone() }
    }

    /// The least that it may come to, the same.
    #[must_use]
    pub fn at_least(&self) -> Self {
        let pages = match self.source {
            DemandSource::Engine | DemandSource::Measured => self.pages,
            DemandSource::Estimated { error_percent } => {
                let least = (u128::from(self.pages.get()) * 100).div_ceil(100 + u128::from(error_percent));
                PageCount(u64::try_from(least).unwrap_or(u64::MAX))
            }
            DemandSource::Enough { least } => least.min(self.pages),
        };
        Self { pages, ..self.clone() }
    }

    /// The same memory, as one stretch, on pages of another size. Of a smaller one up to a larger page less one may be too many:
    /// all that is known was rounded up to larger ones.
    #[must_use]
    pub fn on(&self, page: PageSize) -> Self {
        let of = |pages: PageCount| page.pages_for(pages.of(self.page_size));
        let pages = of(self.pages);
        let spare = of(PageCount(1)).saturating_sub(PageCount(1));
        let is_smaller = page < self.page_size;
        let source = match self.source {
            DemandSource::Engine | DemandSource::Measured if is_smaller => {
                DemandSource::Enough { least: pages.saturating_sub(spare) }
            }
            DemandSource::Enough { least } if is_smaller => {
                DemandSource::Enough { least: of(least).saturating_sub(spare) }
            }
            DemandSource::Enough { least } => DemandSource::Enough { least: of(least) },
            source => source,
        };
        Self { page_size: page, pages, source }
    }

    /// How far off its pages may be, in percent, rounded up; none where they are counted.
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
    /// A formula, with its error in percent.
    Estimated {
        /// Largest error seen between the formula and the server, in percent.
        error_percent: u8,
    },
    /// A formula whose pages always do.
    Enough {
        /// With fewer than these it never does.
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

    /// How far off so many pages may be, in percent, rounded up; none where they are counted.
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
